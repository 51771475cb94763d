"""A self-contained HTML page without scripts or network access.

A `Page` has a title and sections. Each section contains blocks: paragraphs, facts, tables, figures and lists.
The template ``page.html.j2`` renders the page and escapes all texts. The style sheet ``page.css`` has a light
and a dark theme. Both themes support wide screens, narrow screens and paper.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ecmproto.errors import MissingDependencyError, OutputError, printable
from ecmproto.tools.report.sheet import (
    COLOURS,
    NARROW,
    WIDE,
    Format,
    Moments,
    drawn_png,
    drawn_svg,
    page_svg,
    standalone_svg,
)
from ecmproto.values import dataclass

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The content security policy of the page, which prevents a browser from loading other files."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading inside a section."""

    text: str
    kind: ClassVar[str] = "heading"


@dataclass(frozen=True, slots=True)
class Facts:
    """A list of terms with their texts."""

    rows: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True, slots=True)
class Notes:
    """A list of sentences."""

    lines: Sequence[str]
    kind: ClassVar[str] = "notes"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, with a text, a hint and a bar. ``part`` is the length of the bar from 0 to 1."""

    text: str
    hint: str = ""
    part: float | None = None
    best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with row names in the first column.

    ``name`` is the id, and ``caption`` is the text above the table.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    label: str = ""
    """The name of a table without a caption, for screen readers."""
    css_class: str = ""
    is_broad: bool = False
    """Whether the table may be wider than the text."""
    folded: str = ""
    """The line that unfolds the table. An empty text means that the table is always unfolded."""
    more: int = 0
    """The number of omitted rows."""
    kind: ClassVar[str] = "table"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with a caption above, as SVG for wide screens and for narrow screens."""

    caption: str
    svgs: Sequence[str]
    kind: ClassVar[str] = "picture"


Block = Text | Heading | Facts | Notes | Table | Picture


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading. ``name`` is the id."""

    name: str
    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page. Sections without blocks are omitted."""

    title: str
    heading: str
    kicker: str
    leads: Sequence[str]
    sections: Sequence[Section]


def picture(
    name: str,
    caption: str,
    draw: Callable[[Format], Figure],
    describe: Callable[[Format], str],
    moments: Callable[[Format], Moments | None] = lambda form: None,
) -> Picture:
    """Return a picture for both widths. ``describe`` returns the text for screen readers.

    ``moments`` returns the time spans that a reader can point to.
    """
    return Picture(
        caption,
        [
            page_svg(
                drawn_svg(functools.partial(draw, form)),
                name=f"{name}-{width}", description=describe(form), css_class=f"plot {width}",
                moments=moments(form),
            )
            for form, width in ((WIDE, "wide"), (NARROW, "narrow"))
        ],
    )  # fmt: skip


def page_html(page: Page) -> str:
    """Return an HTML file as text. Raises MissingDependencyError if jinja2 is missing."""
    shown = [section for section in page.sections if section.blocks]
    return _template().render(page=page, sections=shown, policy=POLICY, style=stylesheet())


@functools.cache
def _template() -> Template:
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise MissingDependencyError(package="jinja2", extra="report", purpose="pages of a report") from error
    environment = Environment(
        autoescape=True, finalize=_visible, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("page.html.j2"))


def _visible(value: Any) -> Any:
    """Return a text with control characters replaced. Markup stays unchanged."""
    return value if hasattr(value, "__html__") else printable(str(value))


def _resource(name: str) -> str:
    return files("ecmproto.tools.report").joinpath(name).read_text(encoding="utf-8")


def stylesheet() -> str:
    """Return the CSS. The colours of both themes are first."""
    light = "".join(f"{colour.variable}:{colour.light};" for colour in COLOURS)
    dark = "".join(f"{colour.variable}:{colour.dark};" for colour in COLOURS)
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{_resource('page.css')}"
    )


def file_forms(
    page: Callable[..., str], figure: Callable[..., Figure], title: Callable[..., str]
) -> dict[str, Callable[..., bytes]]:
    """Return the functions that create the file content of a page or a figure, by file name suffix."""

    def html(*subject: Any) -> bytes:
        return page(*subject).encode()

    return {".html": html, ".htm": html, **figure_forms(figure, title)}


def figure_forms(figure: Callable[..., Figure], title: Callable[..., str]) -> dict[str, Callable[..., bytes]]:
    """Return the functions that create the file content of a figure, by file name suffix."""

    def png(*subject: Any) -> bytes:
        return drawn_png(lambda: figure(*subject))

    def svg(*subject: Any) -> bytes:
        return standalone_svg(drawn_svg(lambda: figure(*subject)), title=title(*subject))

    return {".png": png, ".svg": svg}


_COMPRESSED = (".gz", ".zst")
_Form = TypeVar("_Form")


def form_of(path: str, forms: Mapping[str, _Form]) -> _Form:
    """Return the entry of ``forms`` for the suffix of ``path``. Raises OutputError for an unknown suffix."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    form = forms.get(suffixes[-1]) if suffixes else None
    if form is None:
        needed = f"a name that ends in {', '.join(forms)}"
        raise OutputError(path=path, needed=needed, got=suffixes[-1] if suffixes else "no suffix")
    return form
