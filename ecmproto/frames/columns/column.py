"""A field of the frames of a batch, with its typed values; also the names of all columns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ecmproto.arguments import listed
from ecmproto.errors import SpecError
from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.columns.octets import copy_octets
from ecmproto.frames.filter.fields import FilterField, Kind, find, hint
from ecmproto.values import dataclass
from ecmproto.wire.formats.registry import catalogue

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


_every = [fixed(np.empty(0, np.int32))]


def every_row(frames: int) -> NDArray[np.int32]:
    """Return the indices 0 to ``frames`` − 1, as a slice of a shared array.

    The shared array identifies a column with one value for every frame.
    """
    every = _every[0]  # another thread may replace it by a shorter one
    if len(every) < frames:
        every = _every[0] = fixed(np.arange(max(frames, 2 * len(every)), dtype=np.int32))
    return every[:frames]


def bounds_of(counts: ArrayLike, kind: DTypeLike = np.int64) -> NDArray[Any]:
    """Return the offsets of consecutive lists of ``counts`` values, followed by the number of all values."""
    counts = np.asarray(counts)
    bounds = np.zeros(len(counts) + 1, kind)
    np.cumsum(counts, out=bounds[1:])
    return bounds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """Octet strings of any length that are not copied.

    String i has ``octets[i]`` octets from ``start[i]`` in ``buffer``.
    """

    buffer: Octets
    start: Int64
    octets: Int64

    def __len__(self) -> int:
        return len(self.start)

    def __iter__(self) -> Iterator[bytes]:
        view = self.buffer.data
        for start, octets in zip(self.start.tolist(), self.octets.tolist(), strict=True):
            yield bytes(view[start : start + octets])

    def select(self, indices: Any) -> Stretches:
        """Return the strings at indices, or the strings selected by a mask."""
        return Stretches(buffer=self.buffer, start=self.start[indices], octets=self.octets[indices])

    def packed(self) -> tuple[Octets, Int64]:
        """Return the concatenated strings, and the offset of each string followed by the total length."""
        bounds = bounds_of(self.octets)
        out = np.empty(int(bounds[-1]), np.uint8)
        copy_octets(self.buffer, fixed(self.start), fixed(self.octets), fixed(bounds[1:]), out)
        return out, bounds

    def any_bits(self) -> NDArray[np.bool_]:
        """Return a mask of the strings that have any bit set."""
        packed, bounds = self.packed()
        before = bounds_of(packed != 0)
        result: NDArray[np.bool_] = before[bounds[1:]] != before[bounds[:-1]]
        return result


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Texts:
    """Dictionary-encoded text.

    ``words`` are the distinct values. ``codes`` has the index of each value in ``words``.
    """

    codes: NDArray[np.int32]
    words: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        words = self.words
        return (words[code] for code in self.codes.tolist())

    def select(self, indices: Any) -> Texts:
        """Return the values at indices, or the values selected by a mask."""
        return Texts(codes=self.codes[indices], words=self.words)


Values: TypeAlias = "NDArray[Any] | Stretches | Texts"
"""Numbers, rows of octets (addresses), octet strings, or text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """A field of ``frames`` frames as a list of values.

    ``rows`` are the indices of the frames that have the values, in ascending order. If a frame has the field
    several times, its values are adjacent, outermost first. A frame without the field has no value. ``kind``
    is the type of the field in filters. Numbers have the narrowest sufficient dtype, addresses are rows of
    octets, and times are in ns since 1970.
    """

    name: str
    kind: Kind
    frames: int
    rows: NDArray[np.int32]
    values: Values

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return self.python_values()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return all values as one array, for ``np.asarray(column)``.

        Numbers keep their dtype, addresses are rows of octets, and octet strings and text are Python objects.
        """
        if isinstance(self.values, np.ndarray):
            if copy is None:  # numpy 1.26 has no such argument
                return np.asarray(self.values, dtype=dtype)
            return np.array(self.values, dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError(f"{self.name}: octet strings and text cannot become an array without a copy")
        made = np.empty(len(self), object)
        made[:] = list(self.python_values())
        return made if dtype is None else made.astype(dtype)

    @property
    def is_whole(self) -> bool:
        """Whether every frame has the field exactly once."""
        rows = self.rows
        if len(rows) != self.frames:
            return False
        if rows.base is _every[0]:
            return True
        # Rows ascend: one row per frame, without duplicates, means that all frames have the field.
        return not len(rows) or bool(rows[0] == 0 and rows[-1] == len(rows) - 1 and _strictly(rows))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Mask of the frames that have the field."""
        if self.is_whole:
            return np.ones(self.frames, np.bool_)
        mask = np.zeros(self.frames, np.bool_)
        mask[self.rows] = True
        return mask

    @property
    def bounds(self) -> Int64:
        """Offset of the first value of each frame, followed by the number of values."""
        return bounds_of(np.bincount(self.rows, minlength=self.frames))

    def select(self, indices: Any) -> Column:
        """Return a column of the same frames with the values at indices, or selected by a mask."""
        values: Values = (
            self.values[indices] if isinstance(self.values, np.ndarray) else self.values.select(indices)
        )
        return dataclasses.replace(self, rows=self.rows[indices], values=values)

    def outermost(self) -> Column:
        """Return the column with only the first value of each frame."""
        if len(self.rows) < 2 or self.is_whole or _strictly(self.rows):
            return self
        first = np.ones(len(self.rows), np.bool_)
        np.not_equal(self.rows[1:], self.rows[:-1], out=first[1:])
        return self.select(first)

    def lists(self) -> list[list[Any]]:
        """Return, for each frame, the list of its values as Python objects: int, bytes or str."""
        rows: list[list[Any]] = [[] for _ in range(self.frames)]
        for row, value in zip(self.rows.tolist(), self.python_values(), strict=True):
            rows[row].append(value)
        return rows

    def python_values(self) -> Iterator[Any]:
        """Yield all values as Python objects: int, bytes or str."""
        values = self.values
        if not isinstance(values, np.ndarray):
            return iter(values)
        if values.ndim == 2:
            return (row.tobytes() for row in values)
        return iter(values.tolist())


def _strictly(rows: NDArray[np.int32]) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def every_name() -> tuple[str, ...]:
    """Return the names of all columns, in the order of the registry.

    Filters also accept ``encapsulated.NAME``.
    """
    return tuple(entry.name for entry in catalogue())


def fields_named(names: Iterable[str] | None) -> tuple[FilterField, ...]:
    """Return the fields called ``names`` without duplicates; ``None`` means all fields.

    Raises SpecError, with the nearest name, for an unknown name.
    """
    return _fields_named(None if names is None else tuple(listed(names)))


@functools.lru_cache(maxsize=32)
def _fields_named(names: tuple[str, ...] | None) -> tuple[FilterField, ...]:
    return tuple({name: _field(name) for name in (every_name() if names is None else names)}.values())


@functools.cache
def _field(name: str) -> FilterField:
    field = find(name)
    if field is None:
        raise SpecError(where="fields", needed="the name of a field", got=repr(name), hint=hint(name))
    if field.kind == "layer":
        raise SpecError(where="fields", needed="the name of a field, not a layer's", got=repr(name))
    return field
