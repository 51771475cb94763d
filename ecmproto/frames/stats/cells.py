"""Cells of tables.

The name of a column selects the value, and its suffix is the unit, as in ``delay_ns.p50``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ecmproto.units import UNIT_TEXTS

Columns: TypeAlias = Mapping[str, str | Callable[[Any, Any], object]]
"""Headings of a table, each with a name for `value_of` or a function of the row and the whole object."""

ABSENT = "–"
"""Text for a missing value."""

_UNIT = re.compile(r"(?:^|_)(bits_per_s|per_s|bps|ns|octets|share|mean)(?:\.(?!count)\w+)?$")
_TEXTS: Mapping[str, Callable[[float], str]] = {**UNIT_TEXTS, "mean": "{:.1f}".format}


def value_of(row: Any, name: str, whole: Any) -> Any:
    """Return an attribute of ``row``, or the result of the method ``name`` of ``whole`` for ``row``.

    A dot in ``name`` selects an attribute of the value. Every attribute of ``None`` is ``None``.
    """
    for part in name.split("."):
        if row is None:
            return None
        result = getattr(row if hasattr(row, part) else whole, part)
        row = result(row) if callable(result) else result
    return row


def cells(row: Any, columns: Columns, whole: Any) -> list[str]:
    """Return the text of each column of a row."""
    return [_text(row, column, whole) for column in columns.values()]


def _text(row: Any, column: str | Callable[[Any, Any], object], whole: Any) -> str:
    value: Any = value_of(row, column, whole) if isinstance(column, str) else column(row, whole)
    if value is None or isinstance(value, str):
        return ABSENT if value is None else value
    unit = _UNIT.search(column) if isinstance(column, str) else None
    if unit is None:
        return f"{value:,}"
    return _TEXTS[unit[1]](value)
