"""Text tables and charts (aligned names and values, columns, bars, curves), and JUnit reports.

`Tabular` is the base class of results that become tables of pandas, polars or Arrow, or notebook output.

``paint`` colours text in a named style (``name``, ``title``, ``congestion``). `plain` returns text unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from ecmproto.errors import MissingDependencyError, printable
from ecmproto.units import format_octets, one_precision
from ecmproto.values import dataclass

Paint: TypeAlias = Callable[[str, str], str]
"""Function that colours text in a named style: title, name, dim, congestion, pause, tag or error."""


def plain(text: str, style: str) -> str:
    """Return ``text`` unchanged."""
    return text


_BLOCKS = " ▁▂▃▄▅▆▇█"


def pairs(
    rows: Sequence[tuple[str, str]], *, width: int = 0, even: bool = False, paint: Paint = plain
) -> str:
    """Return names and values, one pair per line. Names are aligned to at least ``width`` characters.

    With ``even``, the figures in the values have one precision.
    """
    if even:
        rows = [*zip([name for name, _ in rows], *one_precision([[value for _, value in rows]]), strict=True)]
    width = max(width, *(len(name) for name, _ in rows))
    return "\n".join(f"  {paint(name.ljust(width), 'name')}  {value}" for name, value in rows)


def sparkline(values: Sequence[float], *, top: float, width: int) -> str:
    """Return ``values`` as a line of at most ``width`` block characters.

    Each block is the maximum of its values.
    """
    columns = min(width, len(values))
    parts = [values[i * len(values) // columns : (i + 1) * len(values) // columns] for i in range(columns)]
    return "".join(_block(max(part), top) for part in parts)


def queue_curves(queues: Sequence[tuple[str, Sequence[float]]], *, width: int, paint: Paint = plain) -> str:
    """Return queue lengths in octets as a named `sparkline` per line, all of one scale, below a title.

    The lines have at most ``width`` characters.
    """
    top = max(max(lengths, default=0) for _, lengths in queues)
    name_width = max(len(name) for name, _ in queues)
    columns = max(8, width - name_width - 4)
    lines = [
        f"  {name.ljust(name_width)}  {paint(sparkline(lengths, top=top, width=columns), 'congestion')}"
        for name, lengths in queues
    ]
    return "\n".join([paint(f"queues over time, full height {format_octets(top)}", "title"), *lines])


def bars(counts: Sequence[tuple[str, int]], *, width: int) -> str:
    """Return a bar chart with one line per count: label, bar and number."""
    maximum = max((count for _, count in counts), default=0) or 1
    label = max((len(name) for name, _ in counts), default=0)
    lines = []
    for name, count in counts:
        bar = "█" * max(count > 0, count * width // maximum)
        lines.append(f"  {name.rjust(label)}  {bar.ljust(width)} {count:,}")
    return "\n".join(lines)


def _block(value: float, top: float) -> str:
    if value <= 0 or top <= 0:
        return _BLOCKS[0]
    return _BLOCKS[min(len(_BLOCKS) - 1, 1 + int(value / top * (len(_BLOCKS) - 2)))]


def columns_of(
    rows: Sequence[tuple[str, Sequence[str]]], *, width: int | None = None, quoted: int = 0,
    paint: Paint = plain,
) -> str:  # fmt: skip
    """Return a table with a name and right-aligned values in each line.

    The figures have one precision, except in the last ``quoted`` columns, which stay unchanged. In a table
    wider than ``width``, single spaces separate the columns. If the table is still too wide, the remaining
    columns form further tables below.
    """
    own = len(rows[0][1]) - quoted
    even = one_precision([values[:own] for _, values in rows])
    rows = [(name, [*cells, *values[own:]]) for (name, values), cells in zip(rows, even, strict=True)]
    name_width = max(len(name) for name, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(values for _, values in rows), strict=True)]
    wide = sum(widths) + 2 * len(widths)
    left = max(1, (width or wide + name_width + 2) - name_width - 2)
    gap = 1 if wide > left >= wide - len(widths) else 2
    if wide > left and gap == 2:
        left = min(left, -(-wide // -(-wide // left)) + max(widths) // 2)  # tables of similar widths
    blocks: list[list[int]] = [[]]
    used = 0
    for column, cell in enumerate(widths):
        used += gap + cell
        if used > left and blocks[-1]:
            blocks.append([])
            used = gap + cell
        blocks[-1].append(column)
    lines = []
    for block in blocks:
        for name, values in rows:
            cells = "".join(f"{'':{gap}}{values[each].rjust(widths[each])}" for each in block)
            lines.append(f"  {paint(name.ljust(name_width), 'name')}{cells}")
    return "\n".join(lines)


def arrow() -> Any:
    """Return the module pyarrow. Raises MissingDependencyError if pyarrow is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(package="pyarrow", extra="arrow", purpose="columns for Arrow") from error
    return pyarrow


_MAX_HTML_ROWS = 100


class Tabular:
    """A result with rows of equal keys, for Arrow, pandas, polars and notebooks."""

    __slots__ = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    """Keys of the rows, for a table without rows."""

    def records(self) -> list[dict[str, Any]]:
        """Return the rows."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``. Columns with values of several types become text."""
        pa, rows = arrow(), self.records()
        columns = {}
        for name in rows[0] if rows else self.COLUMNS:
            values = [row[name] for row in rows]
            try:
                columns[name] = pa.array(values)
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                columns[name] = pa.array([None if value is None else str(value) for value in values])
        return pa.table(columns)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. Raises MissingDependencyError if polars is not installed."""
        try:
            import polars
        except ImportError as error:
            raise MissingDependencyError(package="polars", extra="", purpose="polars tables") from error
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        from html import escape

        rows = self.records()
        head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else self.COLUMNS))
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row.values())}</tr>"
            for row in rows[:_MAX_HTML_ROWS]
        )
        more = f"<p>{len(rows) - _MAX_HTML_ROWS:,} more rows</p>" if len(rows) > _MAX_HTML_ROWS else ""
        return f"<p>{escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitCase:
    """A test case of a JUnit report."""

    classname: str
    name: str
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    message: str = ""
    type: str = ""
    """Type of the failure; "" if the case passed."""
    text: str = ""
    """Text after the failure's message."""


def junit_text(
    suites: Sequence[tuple[str, Sequence[JUnitCase]]],
    *,
    seconds: float | None = None,
    properties: Iterable[tuple[str, str]] = (),
) -> str:
    """Return a JUnit report of named suites, valid for Jenkins' xunit plugin (junit-10.xsd).

    Each suite has ``seconds`` and ``properties``. Characters that XML does not allow are replaced.
    """
    # imported here, as few commands write XML
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites", _junit_counts([case for _, cases in suites for case in cases]))
    for name, cases in suites:
        skipped = sum(case.outcome == "skipped" for case in cases)
        # the schema has this count for a suite, and none for all of them
        counts = {**_junit_counts(cases), "skipped": str(skipped)}
        if seconds is not None:
            counts["time"] = f"{seconds:.3f}"
        suite = ElementTree.SubElement(root, "testsuite", {"name": printable(name), **counts})
        given = [{"name": printable(key), "value": printable(value)} for key, value in properties]
        inside = ElementTree.SubElement(suite, "properties") if given else suite
        for each in given:
            ElementTree.SubElement(inside, "property", each)
        for case in cases:
            names = {"classname": printable(case.classname), "name": printable(case.name)}
            element = ElementTree.SubElement(suite, "testcase", names)
            if case.outcome != "passed":
                attributes = {"type": case.type, "message": printable(case.message)}
                attributes = {key: value for key, value in attributes.items() if value}
                ElementTree.SubElement(element, case.outcome, attributes).text = printable(case.text) or None
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _junit_counts(cases: Sequence[JUnitCase]) -> dict[str, str]:
    failed, wrong = (sum(case.outcome == each for case in cases) for each in ("failure", "error"))
    return {"tests": str(len(cases)), "failures": str(failed), "errors": str(wrong)}
