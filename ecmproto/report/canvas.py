"""Matplotlib as this package uses it: one look, no global state, the same octets every time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ecmproto.errors import MissingDependencyError
from ecmproto.report.palette import GRID, INK, MUTED, PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 72
"""One point of matplotlib's is one CSS px."""
_PNG_DPI = 144

_LOOK = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's typeface
    "svg.hashsalt": "ecmproto",
    "text.parse_math": False,  # a label with two dollar signs is no formula
    "axes.unicode_minus": True,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that layouts are the same everywhere
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
    """Raise MissingDependencyError unless matplotlib can be imported; costs its import, about 0.5 s."""
    try:
        import matplotlib.figure
        import matplotlib.style  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            package="matplotlib", extra="report", purpose="figures of a report"
        ) from error


def new_figure(width_px: float, height_px: float) -> Figure:
    """Return an empty figure; call it and draw on it inside of :func:`rendered_svg` or its PNG twin."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI, facecolor=PAPER.light)


def drawn_svg(draw: Callable[[], Figure]) -> bytes:
    """Return the picture that ``draw`` makes as SVG, as matplotlib writes it, without a ground."""
    return _drawn(draw, "svg", _DPI, {"Date": None, "Creator": None, "Format": None, "Type": None})


def drawn_png(draw: Callable[[], Figure]) -> bytes:
    """Return the picture that ``draw`` makes as PNG, two pixels for each px of its layout."""
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
        # A label in a script that the typeface lacks shows as boxes in a PNG; that is no one's mistake.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield
