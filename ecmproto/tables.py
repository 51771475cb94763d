"""Tables and charts in characters: aligned names and values, columns, bars, curves; text in XML.

``paint`` colours a piece of text in a named style (``name``, ``title``, ``congestion``); `plain` leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Paint: TypeAlias = Callable[[str, str], str]


def plain(text: str, style: str) -> str:
    """Return ``text`` as it is."""
    return text


_BLOCKS = " ▁▂▃▄▅▆▇█"


def pairs(rows: Sequence[tuple[str, str]], *, width: int = 0, paint: Paint = plain) -> str:
    """Return names and values, one pair a line, the names aligned, to ``width`` at least."""
    width = max(width, *(len(name) for name, _ in rows))
    return "\n".join(f"  {paint(name.ljust(width), 'name')}  {value}" for name, value in rows)


def sparkline(values: Sequence[float], *, top: float, width: int) -> str:
    """Return ``values`` as one line of ``width`` blocks at most, each the largest of its share of them."""
    columns = min(width, len(values))
    parts = [values[i * len(values) // columns : (i + 1) * len(values) // columns] for i in range(columns)]
    return "".join(_block(max(part), top) for part in parts)


def bars(counts: Sequence[tuple[str, int]], *, width: int) -> str:
    """Return a bar chart, one line a count: label, bar, number."""
    most = max((count for _, count in counts), default=0) or 1
    label = max((len(name) for name, _ in counts), default=0)
    lines = []
    for name, count in counts:
        bar = "█" * max(count > 0, count * width // most)
        lines.append(f"  {name.rjust(label)}  {bar.ljust(width)} {count:,}")
    return "\n".join(lines)


def _block(value: float, top: float) -> str:
    if value <= 0 or top <= 0:
        return _BLOCKS[0]
    return _BLOCKS[min(len(_BLOCKS) - 1, 1 + int(value / top * (len(_BLOCKS) - 2)))]


def columns_of(rows: Sequence[tuple[str, Sequence[str]]], *, paint: Paint = plain) -> str:
    """Return a table: in each line a name and its values, these aligned to the right under one another."""
    name_width = max(len(name) for name, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(values for _, values in rows), strict=True)]
    lines = []
    for name, values in rows:
        cells = "  ".join(value.rjust(width) for value, width in zip(values, widths, strict=True))
        lines.append(f"  {paint(name.ljust(name_width), 'name')}  {cells}")
    return "\n".join(lines)


def xml_attribute(text: str) -> str:
    """Return text as an attribute of XML, in quotes; what XML cannot hold is replaced."""
    # imported here: it brings urllib, which every command would pay for
    from xml.sax.saxutils import quoteattr

    return quoteattr("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))
