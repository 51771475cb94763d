"""What every kind of panel has in common: how it takes its room, and how its axes look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ecmproto.report.palette import ALERT, GRID, INK, MUTED
from ecmproto.report.run import Run
from ecmproto.report.scale import Scale, greatest, time_scale
from ecmproto.report.sheet import Entry, Format

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The time axis that all panels of a report share."""

    span_ns: int
    scale: Scale

    @property
    def label(self) -> str:
        """What stands at the axis."""
        return f"time ({self.scale.unit})"

    def put_on(self, axes: Axes) -> None:
        """Give ``axes`` the time axis, without the numbers."""
        from matplotlib.ticker import MaxNLocator

        axes.set_xlim(0, max(1, self.span_ns) / self.scale.factor)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10], min_n_ticks=2))
        axes.tick_params(axis="x", labelbottom=False, length=3, width=0.8)


def time_axis(runs: Sequence[Run]) -> TimeAxis:
    """Return the axis that reaches as far as the longest of ``runs``."""
    span_ns = int(greatest(run.duration_ns for run in runs))
    return TimeAxis(span_ns=span_ns, scale=time_scale(span_ns))


BEYOND: dict[str, Any] = {
    "color": ALERT.light, "marker": "^", "markersize": 5, "markeredgewidth": 0, "linestyle": "none",
}  # fmt: skip
"""The mark at the end of a scale where a value is beyond it."""


class Panels:
    """Panels of one kind, one a run, on axes that can be compared; the base of every kind."""

    right_px = 12.0
    """Room for what stands right of the axes."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        self.runs = runs
        """The runs that have something to show."""
        self.time = time
        self.form = form
        self.left_px = float(form.left_px)
        """Room for what stands left of the axes."""

    def unit(self, run: Run) -> str:
        """Return the unit of the vertical axis, or nothing."""
        return ""

    def height_px(self, run: Run) -> float:
        """Return how high the run's axes are."""
        return self.form.panel_px

    def title(self, run: Run) -> str:
        """Return whose panel it is; nothing for the run's own name."""
        return ""

    def readout(self, run: Run) -> str:
        """Return the figures that stand above the panel."""
        return ""

    def entries(self) -> list[Entry]:
        """Return the legend."""
        return []

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw ``run`` on ``axes``."""
        raise NotImplementedError


def value_axis(axes: Axes, least: float, most: float, form: Format) -> None:
    """Set the vertical axis from ``least`` to ``most``: a few numbers, a line across at each, no frame."""
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(least, most)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(number_text)
    axes.grid(axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, pad=6, labelsize=form.text_px - 1)


def number_text(value: float, position: object = None) -> str:
    """Return the number at a tick, with a true minus sign."""
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def row_axis(axes: Axes, rows: Sequence[tuple[str, str]], form: Format) -> None:
    """Set the vertical axis to one row for each label and total, the first on top.

    They stand left and right of the axes, in narrow figures above the row.
    """
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    across = axes.get_yaxis_transform()
    for place, (label, total) in enumerate(rows):
        axes.plot((0, 1), (place + BASE,) * 2, color=GRID.light, linewidth=0.8, transform=across)
        height = place - _TEXT_ABOVE if form.narrow else place
        _beside(axes, label, 0, height, form, INK.light if form.narrow else MUTED.light)
        _beside(axes, total, 1, height, form, MUTED.light)


def _beside(axes: Axes, text: str, side: int, height: float, form: Format, colour: str) -> None:
    """Write ``text`` at the left (0) or right (1) end of the axes: outside, or inside if it is narrow."""
    inside = form.narrow
    axes.annotate(
        text,
        (side, height),
        (0 if inside else (-6, 6)[side], 0),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha=("left", "right")[side if inside else 1 - side],
        va="center",
        fontsize=form.text_px - 1,
        color=colour,
        annotation_clip=False,
    )


BASE = 0.4
"""How far below its middle the base line of a row lies, in rows."""
_TEXT_ABOVE = 0.25


def row_reach(form: Format) -> float:
    """Return how high the highest mark of a row is, in rows."""
    return 0.45 if form.narrow else 0.8
