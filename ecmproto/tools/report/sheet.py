"""A sheet for panels and texts, with positions in px from the top left corner.

This module also defines the colours and markers, makes texts printable, and configures matplotlib for
reproducible output. The module converts the SVG of matplotlib to small elements with the colours of the page.

The colours can be distinguished with each of the common colour vision deficiencies, and have contrast with
the background. Colour is never the only distinction: each line also has its own marker.
"""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from ecmproto.errors import MissingDependencyError, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.transforms import Transform


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """A colour role, with the CSS variable for a page, the light value and the dark value."""

    variable: str
    light: str
    dark: str


INK = Colour(variable="--ink", light="#1b1f24", dark="#e9edf2")
MUTED = Colour(variable="--muted", light="#59626d", dark="#a3adb9")
GRID = Colour(variable="--grid", light="#e2e6ea", dark="#313942")
PAPER = Colour(variable="--paper", light="#fefefe", dark="#14181d")
QUEUE = Colour(variable="--queue", light="#0a6cab", dark="#5cb6ee")
ALERT = Colour(variable="--alert", light="#bf4a02", dark="#ff965c")

_LINES = (
    Colour(variable="--line-1", light="#0072b2", dark="#56b4e9"),
    Colour(variable="--line-2", light="#c85200", dark="#ff9a57"),
    Colour(variable="--line-3", light="#00845e", dark="#34cfa0"),
    Colour(variable="--line-4", light="#b04a87", dark="#eca3cf"),
    Colour(variable="--line-5", light="#9c7400", dark="#efc04c"),
    Colour(variable="--line-6", light="#2b93c9", dark="#9bdcff"),
    Colour(variable="--line-7", light="#6a51a8", dark="#b9a6f5"),
    Colour(variable="--line-8", light="#6b6e00", dark="#c9cc5e"),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d", "8", "H", "|")

COLOURS = (INK, MUTED, GRID, PAPER, QUEUE, ALERT, *_LINES)
"""All colour roles. The light values are unique, so a colour in a picture identifies its role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStyle:
    """The style of a line that distinguishes the line from other lines."""

    colour: Colour
    marker: str


def line_style(position: int) -> LineStyle:
    """Return the style of line number ``position``. The first sixteen styles are unique."""
    return LineStyle(colour=_LINES[position % len(_LINES)], marker=_MARKERS[position % len(_MARKERS)])


_ELLIPSIS = "…"


def shortened(text: str, max_length: int) -> str:
    """Return a printable text. If the text exceeds ``max_length`` characters, the middle is removed."""
    text = printable(text).strip()
    if len(text) <= max_length:
        return text
    tail = (max_length - 1) // 2
    return f"{text[: max_length - 1 - tail]}{_ELLIPSIS}{text[len(text) - tail :]}"


def width_em(text: str) -> float:
    """Return the approximate width of a text in a sans-serif typeface, in em."""
    return sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.6 for character in text)


_DPI = 72
"""The resolution at which a matplotlib point is one CSS px."""
_PNG_DPI = 144

_LOOK = {
    "svg.fonttype": "none",  # keeps text searchable, in the typeface of the page
    "svg.hashsalt": "ecmproto",
    "text.parse_math": False,  # a label with two dollar signs is not a formula
    "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"],  # part of matplotlib, so that layouts are the same everywhere
    "figure.dpi": _DPI,
    "path.simplify": True,
    "text.color": INK.light,
    "axes.edgecolor": MUTED.light,
    "axes.labelcolor": MUTED.light,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GRID.light,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED.light,
    "ytick.color": MUTED.light,
    "lines.solid_joinstyle": "round",
}


def require_matplotlib() -> None:
    """Import matplotlib, which takes about 0.5 s. Raises MissingDependencyError if matplotlib is missing."""
    try:
        import matplotlib.figure
        import matplotlib.style  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            package="matplotlib", extra="report", purpose="figures of a report"
        ) from error


def new_figure(width_px: float, height_px: float) -> Figure:
    """Return an empty figure. Create and draw the figure within :func:`drawn_svg` or :func:`drawn_png`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI, facecolor=PAPER.light)


def drawn_svg(draw: Callable[[], Figure]) -> bytes:
    """Return the figure that ``draw`` creates as SVG of matplotlib, without a background."""
    return _drawn(draw, "svg", _DPI, {"Date": None, "Creator": None, "Format": None, "Type": None})


def drawn_png(draw: Callable[[], Figure]) -> bytes:
    """Return the figure that ``draw`` creates as PNG, with two pixels for each px."""
    return _drawn(draw, "png", _PNG_DPI, {"Software": None})


def _drawn(draw: Callable[[], Figure], form: str, dpi: int, metadata: dict[str, None]) -> bytes:
    require_matplotlib()
    with _look():
        figure = draw()
        stream = io.BytesIO()
        figure.savefig(stream, format=form, dpi=dpi, metadata=metadata, transparent=form == "svg")
        return stream.getvalue()


@contextmanager
def _look() -> Iterator[None]:
    import matplotlib.style

    with matplotlib.style.context(["default", _LOOK]), warnings.catch_warnings():
        # Characters that the typeface lacks are boxes in a PNG, which needs no warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """The format of a figure: width, text size and number of time bins."""

    width_px: int
    text_px: float
    bins: int
    panel_px: int
    """Height of the axes of a panel."""
    row_px: int
    """Height of a row in a panel with rows."""
    left_px: int
    """Width of the numbers of the vertical axis."""

    @property
    def narrow(self) -> bool:
        """Whether the figure is narrow, with less text on more lines."""
        return self.width_px < 600


WIDE = Format(width_px=1040, text_px=13, bins=300, panel_px=128, row_px=19, left_px=56)
NARROW = Format(width_px=360, text_px=12, bins=130, panel_px=112, row_px=36, left_px=46)


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendEntry:
    """An entry of a legend, with a sample of the line or area, and a text."""

    handle: Line2D | Patch
    text: str


def line_look(style: LineStyle, width: float, size: float = 5) -> dict[str, Any]:
    """Return the matplotlib arguments for a line with markers. ``size`` is the size of the markers."""
    return {
        "color": style.colour.light, "marker": style.marker, "markersize": size, "markeredgewidth": 0,
        "linewidth": width,
    }  # fmt: skip


def line_entry(text: str, look: Mapping[str, Any]) -> LegendEntry:
    """Return the legend entry of a line."""
    from matplotlib.lines import Line2D

    return LegendEntry(handle=Line2D((), (), **look), text=text)


def area_entry(text: str, colour: Colour, alpha: float) -> LegendEntry:
    """Return the legend entry of an area."""
    from matplotlib.patches import Patch

    return LegendEntry(handle=Patch(facecolor=colour.light, alpha=alpha, linewidth=0), text=text)


class Sheet:
    """A matplotlib figure with texts, legends and axes at positions in px."""

    def __init__(self, form: Format, height_px: float, width_px: float | None = None) -> None:
        self.form = form
        self.width_px: float | int = width_px or form.width_px
        self.height_px = height_px
        self.figure: Figure = new_figure(self.width_px, height_px)

    def axes(self, left_px: float, top_px: float, width_px: float, height_px: float) -> Axes:
        """Add axes with their upper left corner at (``left_px``, ``top_px``)."""
        across_px, upward_px = self.width_px, self.height_px
        bottom_px = upward_px - top_px - height_px
        bounds = left_px / across_px, bottom_px / upward_px, width_px / across_px, height_px / upward_px
        return self.figure.add_axes(bounds)

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
        max_px: float | None = None,
    ) -> None:
        """Draw a text with its baseline at ``y_px``.

        If the text is wider than ``max_px``, the middle is removed.
        """
        size = size_px or self.form.text_px
        text = fitting(text, max_px, size) if max_px is not None else printable(text)
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

    def legend(self, entries: Sequence[LegendEntry], left_px: float, top_px: float, right_px: float) -> None:
        """Draw a legend in lines from ``left_px`` to ``right_px``."""
        size = self.form.text_px - 1
        x_px, y_px = left_px, top_px
        for entry in entries:
            width = _entry_px(entry, size)
            if x_px > left_px and x_px + width > right_px:
                x_px, y_px = left_px, y_px + _LEGEND_LINE_PX
            self._swatch(entry.handle, x_px, y_px + _LEGEND_LINE_PX / 2)
            space = right_px - x_px - _SWATCH_PX
            base = y_px + _LEGEND_LINE_PX / 2 + 0.36 * size
            self.text(x_px + _SWATCH_PX, base, entry.text, colour=MUTED, size_px=size, max_px=space)
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


_MAX_MEASURED = 200
"""The maximum number of characters of a line for width measurement."""
_SWATCH_PX = 29
_LEGEND_LINE_PX = 20
_LEGEND_GAP_PX = 18
_LEGEND_BELOW_PX = 6


def legend_px(entries: Sequence[LegendEntry], form: Format, left_px: float, right_px: float) -> float:
    """Return the height of a legend in lines from ``left_px`` to ``right_px``."""
    x_px, lines = left_px, 1
    for entry in entries:
        width = _entry_px(entry, form.text_px - 1)
        if x_px > left_px and x_px + width > right_px:
            x_px, lines = left_px, lines + 1
        x_px += width
    return lines * _LEGEND_LINE_PX + _LEGEND_BELOW_PX if entries else 0


def _entry_px(entry: LegendEntry, size_px: float) -> float:
    return _SWATCH_PX + width_em(printable(entry.text)) * size_px + _LEGEND_GAP_PX


_AFTER_WORD = re.compile(r"(?<!\d) ")


def wrapped(text: str, max_px: float, size_px: float, lines: int) -> list[str]:
    """Wrap a text at spaces into at most ``lines`` lines of about ``max_px``.

    A number stays with its unit. If the text is too long, the middle of the last line is removed.
    """
    parts = _AFTER_WORD.split(printable(shortened(text, lines * _MAX_MEASURED)))
    made = [""]
    for word in parts:
        longer = f"{made[-1]} {word}".strip()
        if made[-1] and len(made) < lines and width_em(longer) * size_px > max_px:
            made.append(word)
        else:
            made[-1] = longer
    return [fitting(line, max_px, size_px) for line in made]


def fitting(text: str, max_px: float, size_px: float) -> str:
    """Return a text that is at most about ``max_px`` wide. The middle of a wider text is removed."""
    text = shortened(text, _MAX_MEASURED)
    length = len(text)
    while length > 1 and width_em(shortened(text, length)) * size_px > max_px:
        length -= 1
    return shortened(text, length)


_XML_NAMESPACE = re.compile(r"\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
_HEX = re.compile(r"#[0-9a-f]{6}\b")
_DECIMALS = re.compile(r"-?\d+\.\d+")
_FRACTION_OF_LONG, _FRACTION_OF_SHORT, _LONG = 1, 2, 120
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")

_VARIABLES = {colour.light: f"var({colour.variable})" for colour in COLOURS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Equal spans of a time axis with labels.

    The span under the pointer has a vertical line through the picture.
    """

    left_px: float
    right_px: float
    bottom_px: float
    labels: Sequence[str]

    def element(self) -> Element:
        """Return an SVG element with an invisible area for each span.

        The style sheet of the page shows the area.
        """
        group = Element("g", {"class": "moments"})
        step = (self.right_px - self.left_px) / len(self.labels)
        for index, label in enumerate(self.labels):
            left = self.left_px + index * step
            span = SubElement(group, "g")
            area = {"x": f"{left:.1f}", "width": f"{step:.1f}", "height": f"{self.bottom_px:.0f}"}
            SubElement(span, "rect", area)
            SubElement(span, "path", {"d": f"M{left + step / 2:.1f} 0V{self.bottom_px:.0f}"})
            SubElement(span, "title").text = label
        return group


def page_svg(
    svg: bytes, *, name: str, description: str, css_class: str, moments: Moments | None = None
) -> str:
    """Return an SVG picture as an element for an HTML page.

    The colours become CSS variables of the page. The ids start with ``name``, so that the ids are unique on
    the page. ``description`` is the text for screen readers.
    """
    root = _tidied(svg, prefix=f"{name}-", colours=_VARIABLES, typeface=False)
    root.attrib = {
        "class": css_class,
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": printable(description),
    }
    if moments is not None:
        root.append(moments.element())
    return ElementTree.tostring(root, encoding="unicode")


def standalone_svg(svg: bytes, *, title: str) -> bytes:
    """Return an SVG picture as a file with a title and a background."""
    root = _tidied(svg, prefix="", colours={}, typeface=True)
    view = root.attrib["viewBox"]
    _, _, width, height = view.split()
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": width,
        "height": height,
        "viewBox": view,
        "role": "img",
    }
    ground = Element("rect", {"width": "100%", "height": "100%", "fill": _GROUND})
    named = Element("title")
    named.text = printable(title)
    style = Element("style")
    style.text = "*{stroke-linejoin:round}"
    root[:0] = [named, style, ground]
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


_GROUND = next(colour.light for colour in COLOURS if colour.variable == "--paper")


def _tidied(svg: bytes, *, prefix: str, colours: Mapping[str, str], typeface: bool) -> Element:
    root = ElementTree.fromstring(svg)  # trusted: generated by matplotlib
    for element in root.iter():
        element.tag = _XML_NAMESPACE.sub("", element.tag)
        element.attrib = {_XML_NAMESPACE.sub("", key): value for key, value in element.attrib.items()}
        element.tail = None
        if element.text is not None and not element.text.strip():
            element.text = None
    for parent in root.iter():
        for child in parent.findall("style"):
            parent.remove(child)
    names = {old: f"{prefix}{index}" for index, old in enumerate(_referenced(root), 1)}
    for element in root.iter():
        _tidy(element, names, colours, typeface)
    _flatten(root)
    return root


def _referenced(root: Element) -> list[str]:
    """Return the referenced ids in the order of the first references."""
    names: dict[str, None] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "href":
                names[value.removeprefix("#")] = None
            names.update(dict.fromkeys(_REFERENCE.findall(value)))
    return list(names)


def _tidy(element: Element, names: Mapping[str, str], colours: Mapping[str, str], typeface: bool) -> None:
    attributes: dict[str, str] = {}
    for key, value in element.attrib.items():
        if key == "id":
            if value in names:
                attributes[key] = names[value]
        elif key == "href":
            attributes[key] = f"#{names[value.removeprefix('#')]}"
        elif key == "style":
            attributes[key] = _css(value, colours, typeface)
        elif key == "d":
            attributes[key] = _path(value)
        elif key == "transform" and _NO_TURN.fullmatch(value):
            continue
        else:
            value = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value)
            attributes[key] = _rounded(value, _FRACTION_OF_SHORT) if key in ("x", "y") else value
    element.attrib = attributes


def _css(text: str, colours: Mapping[str, str], typeface: bool) -> str:
    declarations = [part.strip() for part in text.split(";") if part.strip()]
    remaining = [part for part in declarations if typeface or not part.startswith("font-family")]
    shown = ";".join(re.sub(r":\s+", ":", part, count=1) for part in remaining)
    return _HEX.sub(lambda match: colours.get(match[0], match[0]), shown)


def _path(text: str) -> str:
    parts = " ".join(text.split())
    return _rounded(parts, _FRACTION_OF_LONG if len(parts) > _LONG else _FRACTION_OF_SHORT)


def _rounded(text: str, decimals: int) -> str:
    def short(match: re.Match[str]) -> str:
        number = f"{float(match[0]):.{decimals}f}"
        return (number.rstrip("0").rstrip(".") if "." in number else number) or "0"

    return _DECIMALS.sub(short, text)


def _flatten(element: Element) -> None:
    """Replace groups without attributes with their children, and remove empty groups."""
    children: list[Element] = []
    for child in list(element):
        _flatten(child)
        if child.tag == "g" and not child.attrib:
            children.extend(child)
        elif child.tag not in _CONTAINERS or len(child):
            children.append(child)
    element[:] = children


_CONTAINERS = ("g", "defs")
