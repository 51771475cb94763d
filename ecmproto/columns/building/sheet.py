"""Columns with any number of values a frame, wherever they come from: an extraction, an Arrow table."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.document import nearest
from ecmproto.columns.building.target import column_error, octets_target
from ecmproto.columns.building.values import Coded, Strings, each, plain
from ecmproto.errors import ColumnError, SpecError
from ecmproto.formats.registry import catalogue

Int64 = NDArray[np.int64]

Values: TypeAlias = "NDArray[Any] | Strings | Coded"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """A column: ``values`` one behind the other, those of frame i from ``bounds[i]`` to ``bounds[i + 1]``."""

    name: str
    values: Values
    bounds: Int64

    def counts(self, rows: Int64) -> Int64:
        """Return how many values frames have."""
        return self.bounds[rows + 1] - self.bounds[rows]

    def take(self, places: Int64) -> Values:
        """Return the values at places."""
        if isinstance(self.values, Coded):
            return Coded(self.values.codes[places], self.values.words)
        return self.values[places] if isinstance(self.values, np.ndarray) else self.values.select(places)

    def strings(self) -> Strings:
        """Return the values as octet strings; ColumnError for what is none."""
        target = octets_target(self.name)
        try:
            strings = each(target, self.values, int(self.bounds[-1]))
        except ColumnError as error:
            row = error.row if error.row is None else self.row_of(error.row)
            raise target.error(error.needed, error.got, row) from None
        assert isinstance(strings, Strings)
        return strings

    def row_of(self, place: int) -> int:
        """Return which frame the value at ``place`` is of."""
        return int(np.searchsorted(self.bounds, place, side="right")) - 1


class Sheet:
    """Columns by name, and how many frames they are of."""

    def __init__(self, frames: int, columns: Mapping[str, Listed]) -> None:
        self.frames = frames
        self.columns = columns
        self._strings: dict[str, Strings] = {}

    def strings(self, name: str) -> Strings:
        """Return a column's values as octet strings."""
        if name not in self._strings:
            self._strings[name] = self.columns[name].strings()
        return self._strings[name]

    def once(self, name: str) -> Values | None:
        """Return a column with a value for each frame; None when there is none of that name."""
        column = self.columns.get(name)
        if column is None:
            return None
        counts = np.diff(column.bounds)
        if (counts != 1).any():
            row = int((counts != 1).argmax())
            raise column_error(name, "one value", f"{int(counts[row])} values", row)
        return column.values

    def numbers(self, name: str) -> Int64 | None:
        """Return a column with a number for each frame; None when there is none of that name."""
        numbers = self.once(name)
        if numbers is None:
            return None
        if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise column_error(name, "integers", f"{getattr(numbers, 'dtype', 'text or octets')}")
        wrong = numbers.view(np.int64) < 0 if numbers.dtype == np.uint64 else numbers < 0
        if wrong.any():
            row = int(wrong.argmax())
            raise column_error(name, "a number from 0 to 2^63 − 1", str(numbers[row]), row)
        return numbers.astype(np.int64)


def sheet_of(columns: Any) -> Sheet:
    """Return the columns of an extraction (`Columns`), or of an Arrow table or record batch.

    SpecError, with the nearest name, for a column that no extraction gives.
    """
    is_arrow = type(columns).__module__.partition(".")[0] == "pyarrow"
    names = list(columns.schema.names if is_arrow else columns)
    for name in names:
        if name not in _names():
            raise SpecError(
                where="columns", needed="names of fields", got=repr(name), hint=nearest(name, _names())
            )
        if names.count(name) > 1:
            raise SpecError(where="columns", needed="each column once", got=f"{name!r} twice")
    if not is_arrow:
        # most columns have no values, or one for each frame: their bounds are the same
        none, every = np.zeros(columns.frames + 1, np.int64), np.arange(columns.frames + 1)
        found = {}
        for name, column in columns.items():
            bounds = none if not len(column) else every if column.is_whole else column.bounds
            values = plain(octets_target(name), column.values)
            found[name] = Listed(name=name, values=values, bounds=bounds)
        return Sheet(columns.frames, found)
    from ecmproto.columns.building.arrow import listed

    whole = listed(columns, names)
    return Sheet(columns.num_rows, {name: Listed(name=name, values=v, bounds=b) for name, v, b in whole})


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(entry.name for entry in catalogue())


def missing(name: str, rest: str) -> SpecError:
    """Return the error for a column that is needed; ``rest`` says what for."""
    return SpecError(where="columns", needed=f"{name!r}{rest}", got="none of that name")
