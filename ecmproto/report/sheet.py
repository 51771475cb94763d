"""A sheet of paper measured in px from its top left corner, on which panels and texts are laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ecmproto.report.canvas import new_figure
from ecmproto.report.palette import INK, MUTED, Colour
from ecmproto.report.printable import printable, shortened, width_em

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.transforms import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How much room a figure has: its width, its text and how many spans it can tell apart."""

    width_px: int
    text_px: float
    spans: int
    panel_px: int
    """Height of a panel's axes."""
    row_px: int
    """Height of a row of a raster."""
    left_px: int
    """Room for the values of the vertical axis."""

    @property
    def narrow(self) -> bool:
        """Whether the figure has to say less, on more lines."""
        return self.width_px < 600


WIDE = Format(width_px=1040, text_px=13, spans=300, panel_px=128, row_px=19, left_px=56)
NARROW = Format(width_px=360, text_px=12, spans=130, panel_px=112, row_px=36, left_px=46)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a legend: a piece of line or area and what it is."""

    handle: Line2D | Patch
    text: str


class Sheet:
    """A matplotlib figure with texts, legends and axes placed in px."""

    def __init__(self, form: Format, height_px: float, width_px: float | None = None) -> None:
        self.form = form
        self.width_px = width_px or form.width_px
        self.height_px = height_px
        self.figure = new_figure(self.width_px, height_px)

    def axes(self, left_px: float, top_px: float, width_px: float, height_px: float) -> Axes:
        """Add axes whose upper left corner is at (``left_px``, ``top_px``)."""
        bottom_px = self.height_px - top_px - height_px
        return self.figure.add_axes(
            (
                left_px / self.width_px,
                bottom_px / self.height_px,
                width_px / self.width_px,
                height_px / self.height_px,
            )
        )

    def text(
        self,
        x_px: float,
        y_px: float,
        text: str,
        *,
        align: Literal["left", "center", "right"] = "left",
        bold: bool = False,
        colour: Colour = INK,
        size_px: float | None = None,
        room_px: float | None = None,
    ) -> None:
        """Write ``text`` with its base line at ``y_px``; cut in the middle to fit into ``room_px``."""
        size = size_px or self.form.text_px
        text = fitting(text, room_px, size) if room_px is not None else printable(text)
        self.figure.text(
            x_px,
            y_px,
            text,
            transform=self._px(),
            ha=align,
            va="baseline",
            fontsize=size,
            fontweight="bold" if bold else "normal",
            color=colour.light,
        )

    def legend(self, entries: Sequence[Entry], left_px: float, top_px: float, right_px: float) -> None:
        """Set ``entries`` in lines from ``left_px`` to ``right_px``."""
        size = self.form.text_px - 1
        x_px, y_px = left_px, top_px
        for entry in entries:
            width = _entry_px(entry, size)
            if x_px > left_px and x_px + width > right_px:
                x_px, y_px = left_px, y_px + _LEGEND_LINE_PX
            self._swatch(entry.handle, x_px, y_px + _LEGEND_LINE_PX / 2)
            room = right_px - x_px - _SWATCH_PX
            base = y_px + _LEGEND_LINE_PX / 2 + 0.36 * size
            self.text(x_px + _SWATCH_PX, base, entry.text, colour=MUTED, size_px=size, room_px=room)
            x_px += width

    def _swatch(self, handle: Line2D | Patch, x_px: float, y_px: float) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        if isinstance(handle, Line2D):
            line = Line2D((x_px, x_px + 11, x_px + 22), (y_px,) * 3)
            line.update_from(handle)
            line.set(marker=handle.get_marker(), markevery=[1], transform=self._px())
            self.figure.add_artist(line)
            return
        area = Rectangle((x_px, y_px - 5), 22, 10, transform=self._px())
        area.update_from(handle)
        area.set_transform(self._px())
        self.figure.add_artist(area)

    def _px(self) -> Transform:
        from matplotlib.transforms import Affine2D

        to_inches = Affine2D().scale(1 / 72, -1 / 72).translate(0, self.height_px / 72)
        return to_inches + self.figure.dpi_scale_trans


_LONGEST = 200
"""Characters that a line is cut to before it is measured."""
_SWATCH_PX = 29
_LEGEND_LINE_PX = 20
_LEGEND_GAP_PX = 18
_LEGEND_BELOW_PX = 6


def legend_px(entries: Sequence[Entry], form: Format, left_px: float, right_px: float) -> float:
    """Return how high a legend set from ``left_px`` to ``right_px`` is."""
    x_px, lines = left_px, 1
    for entry in entries:
        width = _entry_px(entry, form.text_px - 1)
        if x_px > left_px and x_px + width > right_px:
            x_px, lines = left_px, lines + 1
        x_px += width
    return lines * _LEGEND_LINE_PX + _LEGEND_BELOW_PX if entries else 0


def _entry_px(entry: Entry, size_px: float) -> float:
    return _SWATCH_PX + width_em(printable(entry.text)) * size_px + _LEGEND_GAP_PX


def wrapped(text: str, room_px: float, size_px: float, lines: int) -> list[str]:
    """Return ``text`` in at most ``lines`` lines that take about ``room_px``, broken at spaces.

    What does not fit into them is cut from the middle of the last one.
    """
    words = printable(shortened(text, lines * _LONGEST)).split(" ")
    made = [""]
    for word in words:
        longer = f"{made[-1]} {word}".strip()
        if made[-1] and len(made) < lines and width_em(longer) * size_px > room_px:
            made.append(word)
        else:
            made[-1] = longer
    return [fitting(line, room_px, size_px) for line in made]


def fitting(text: str, room_px: float, size_px: float) -> str:
    """Return ``text`` cut in its middle so that it takes about ``room_px`` at most."""
    text = shortened(text, _LONGEST)
    most = len(text)
    while most > 1 and width_em(shortened(text, most)) * size_px > room_px:
        most -= 1
    return shortened(text, most)
