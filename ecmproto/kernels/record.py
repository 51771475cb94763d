"""State records: a class that names the fields, and memory that kernels and plain Python both change.

A record type is a class with annotations only::

    class State:
        countdown_octets: int
        reload_octets: Annotated[NDArray[np.float64], 8]

``int`` is 64 bits signed, ``float`` 64 bits; an annotated array is a part of the record, of fixed shape.
Compiled code is handed a pointer to the record, which costs nothing; plain Python gets and sets attributes.
"""

from __future__ import annotations

import functools
import mmap
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

_MAPPED_OCTETS = 1 << 20
"""The minimum size of records with pages of their own …"""
_HUGE_OCTETS = 1 << 22
"""… and with large pages, as numpy's arrays have."""
_AREA_OCTETS = 1 << 24

_Record = TypeVar("_Record")
_GAP_OCTETS = 8
_SCALARS: dict[Any, type[np.generic]] = {int: np.int64, float: np.float64}


class Fields(np.void):  # type: ignore[misc]  # final for type checkers alone
    """One record: its fields are attributes, with faster access than in numpy's own ``record``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except ValueError:
            raise self._unknown(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            self[name] = value
        except ValueError:
            if name in (self.dtype.names or ()):
                raise
            raise self._unknown(name) from None

    def _unknown(self, name: str) -> AttributeError:
        return AttributeError(f"a record of {', '.join(self.dtype.names or ())} has no {name!r}")


class _Single(Fields):  # type: ignore[misc]
    """The record in an array of one.

    Compiled code reaches its memory by ``data``, which is the array here: the view that numpy makes takes
    longer the more fields there are, and a kernel called for every few frames would spend more on that than
    on them.
    """

    __slots__ = ()

    data = property(operator.attrgetter("base"))


@functools.cache  # annotations take longer to read than a message does
def record_dtype(kind: type[Any]) -> np.dtype[np.void]:
    """Return the structured dtype of the annotated class ``kind``.

    Raises ValueError for a field that numpy's own attributes (``base``, ``put``, …) would hide.
    """
    hints = get_type_hints(kind, include_extras=True)
    hidden = [name for name in hints if hasattr(np.record, name) or hasattr(np.recarray, name)]
    if hidden:
        raise ValueError(f"{kind.__name__}: numpy records hide fields called {', '.join(hidden)}")
    plain = np.dtype([_field(name, hint) for name, hint in hints.items()])
    assert plain.names is not None
    assert plain.fields is not None
    # numba takes a record that begins with all of another's fields for a subtype of it: it warns, and which
    # compiled function runs depends on what ran before.  Derived records begin a little later, which no
    # compiled code shares.
    shift = _GAP_OCTETS * (len(kind.__mro__) - 2)
    return np.dtype(
        {
            "names": plain.names,
            "formats": [plain.fields[name][0] for name in plain.names],
            "offsets": [plain.fields[name][1] + shift for name in plain.names],
            "itemsize": plain.itemsize + shift,
        }
    )


def _field(name: str, hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is not Annotated:
        return (name, _SCALARS[hint])
    array, shape = get_args(hint)
    (element,) = _scalars(array)
    return (name, element, shape)


def _scalars(hint: Any) -> set[type[np.generic]]:
    """Return the scalar types that an array's annotation names, however numpy spells ``NDArray``."""
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return {hint}
    return set().union(*(_scalars(part) for part in get_args(hint)))


def new_records(kind: type[_Record], count: int) -> Sequence[_Record]:
    """Return ``count`` zeroed records in one array (see ``columns``)."""
    return _zeroed(kind, count, Fields)


def new_record(kind: type[_Record]) -> _Record:
    """Return one zeroed record."""
    return _zeroed(kind, 1, _Single)[0]


def new_arrays(kind: type[_Record], count: int) -> _Record:
    """Return a NamedTuple of arrays of the types that it names, of ``count`` zeros each."""
    return kind(*(np.zeros(count, element) for element in _elements(kind)))  # type: ignore[arg-type]


@functools.cache
def _elements(kind: type[Any]) -> list[type[np.generic]]:
    return [element for hint in get_type_hints(kind).values() for element in _scalars(hint)]


def record_from(kind: type[_Record], source: object, /, **given: Any) -> _Record:
    """Return a record whose fields are ``given``, all others the attributes of ``source`` by their names.

    AttributeError for a field that is neither, and for a name that is no field.
    """
    record = new_record(kind)
    for name in record_dtype(kind).names or ():  # type: ignore[arg-type]  # a class is hashable
        setattr(record, name, given.pop(name) if name in given else getattr(source, name))
    for name, value in given.items():
        setattr(record, name, value)
    return record


def _zeroed(kind: type[_Record], count: int, element: type[np.void]) -> Sequence[_Record]:
    dtype: Any = np.dtype((element, record_dtype(kind)))  # type: ignore[arg-type]  # a class is hashable
    records: Any = zeros(count, dtype)
    typed: Sequence[_Record] = records
    return typed


def zeros(count: int, dtype: Any = np.int64) -> NDArray[Any]:
    """Return ``count`` zeros of ``dtype``: next to the previous ones within `adjacent`."""
    octets = count * np.dtype(dtype).itemsize
    if octets < _MAPPED_OCTETS:
        return np.zeros(count, dtype) if not _areas else _areas[-1].take(octets).view(dtype)
    return np.frombuffer(_pages(octets), dtype)


def _pages(octets: int) -> mmap.mmap:
    """Return zeroed memory.

    Pages that nothing touches are never there; memory that was freed before would have to be cleared.
    """
    pages = mmap.mmap(-1, octets, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if octets >= _HUGE_OCTETS and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class _Area:
    """Memory in large pages, of which each new record or array takes the next part."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.uint8)

    def take(self, octets: int) -> NDArray[np.uint8]:
        """Return the next ``octets``, a multiple of 8."""
        if octets > len(self._rest):
            self._rest = np.frombuffer(_pages(_AREA_OCTETS), np.uint8)
        rest = len(self._rest) - octets
        self._rest, taken = self._rest[:rest], self._rest[rest:]
        return taken


_areas: list[_Area] = []


@contextmanager
def adjacent() -> Iterator[None]:
    """Place the records, structs and small arrays that are made within next to each other, in large pages.

    A simulation goes from port to port: thousands of small allocations would each be in a page of their own,
    for which the processor has no entry at hand.
    """
    _areas.append(_Area())
    try:
        yield
    finally:
        _areas.pop()


def columns(records: Sequence[Any]) -> NDArray[Any]:
    """Return the structured array that ``new_records`` made: ``columns(r)["name"]`` is a column."""
    return np.asarray(records)
