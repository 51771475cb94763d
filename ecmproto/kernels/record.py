"""State records: fields in memory that both kernels and plain Python read and write.

A record type is a class that contains only annotations::

    class State:
        countdown_octets: int
        reload_octets: Annotated[NDArray[np.float64], 8]

``int`` is a signed number of 64 bits, and ``float`` has 64 bits. An annotated array has a fixed shape and is
stored in the record. Compiled code receives a pointer to the record. Plain Python uses the attributes.
"""

from __future__ import annotations

import functools
import mmap
import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

_MAPPED_OCTETS = 1 << 20
"""Minimum size of arrays with separate memory pages, in octets."""
_HUGE_OCTETS = 1 << 22
"""Minimum size of arrays with large memory pages, in octets."""
_AREA_OCTETS = 1 << 24

_Record = TypeVar("_Record")
_GAP_OCTETS = 8
_SCALARS: dict[Any, type[np.generic]] = {int: np.int64, float: np.float64}


class Fields(np.void):  # type: ignore[misc]  # final for type checkers alone
    """Record with fields as attributes. Access is faster than with numpy's ``record``."""

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
    """Record in an array of length one.

    Compiled code reads the memory from the attribute ``data``, which is the array. numpy's own ``data``
    creates a view, which takes longer the more fields a record has. In a kernel that processes only a few
    frames per call, the view would take longer than the frames.
    """

    __slots__ = ()

    data = property(operator.attrgetter("base"))


@functools.cache  # reading annotations takes longer than processing a message
def record_dtype(kind: type[Any]) -> np.dtype[np.void]:
    """Return the structured dtype of the annotated class ``kind``.

    Raises ValueError for a field with the name of a numpy attribute (``base``, ``put``, …).
    """
    hints = get_type_hints(kind, include_extras=True)
    hidden = [name for name in hints if hasattr(np.record, name) or hasattr(np.recarray, name)]
    if hidden:
        raise ValueError(f"{kind.__name__}: numpy records hide fields called {', '.join(hidden)}")
    plain = np.dtype([_field(name, hint) for name, hint in hints.items()])
    assert plain.names is not None
    assert plain.fields is not None
    # numba treats a record as a subtype of another record if all fields of the other record are at the start.
    # numba then warns, and the selection of the compiled function depends on earlier calls.  The fields of
    # derived records therefore start at a larger offset.
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
    (element,) = scalars(array)
    return (name, element, shape)


def scalars(hint: Any) -> set[type[np.generic]]:
    """Return the scalar types in the annotation of an array; none for other annotations.

    numpy has several forms of ``NDArray``: from 2.5 on, its origin is not the class of arrays.
    """
    if isinstance(hint, type) and issubclass(hint, np.generic):
        return {hint}
    return set().union(*(scalars(part) for part in get_args(hint)))


def new_records(kind: type[_Record], count: int) -> Sequence[_Record]:
    """Return an array of ``count`` zeroed records. `columns` returns the structured array."""
    return _zeroed(kind, count, Fields)


def new_record(kind: type[_Record]) -> _Record:
    """Return one zeroed record."""
    return _zeroed(kind, 1, _Single)[0]


def new_arrays(kind: type[_Record], count: int) -> _Record:
    """Return a NamedTuple of zeroed arrays. Each array has the annotated type and ``count`` items."""
    return kind(*(np.zeros(count, element) for element in _elements(kind)))  # type: ignore[arg-type]


@functools.cache
def _elements(kind: type[Any]) -> list[type[np.generic]]:
    return [element for hint in get_type_hints(kind).values() for element in scalars(hint)]


def record_from(kind: type[_Record], source: object, /, **given: Any) -> _Record:
    """Return a record with the values in ``given`` and, for other fields, the attributes of ``source``.

    Raises AttributeError for a field without a value, and for a name in ``given`` that is not a field.
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
    """Return an array of ``count`` zeros of ``dtype``, in consecutive memory within `adjacent`."""
    octets = count * np.dtype(dtype).itemsize
    if octets < _MAPPED_OCTETS:
        area = _current.area
        return np.zeros(count, dtype) if area is None else area.take(octets).view(dtype)
    return np.frombuffer(_pages(octets), dtype)


def _pages(octets: int) -> mmap.mmap:
    """Return zeroed memory.

    The operating system provides a zeroed page at the first access, so unused pages take no memory. Reused
    memory would have to be cleared.
    """
    pages = mmap.mmap(-1, octets, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if octets >= _HUGE_OCTETS and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # kernels without transparent huge pages refuse the advice
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


class _Area:
    """Memory in large pages, which is divided into records and arrays."""

    def __init__(self) -> None:
        self._rest = np.zeros(0, np.uint8)

    def take(self, octets: int) -> NDArray[np.uint8]:
        """Return the next ``octets`` octets. The number is a multiple of 8."""
        if octets > len(self._rest):
            self._rest = np.frombuffer(_pages(_AREA_OCTETS), np.uint8)
        rest = len(self._rest) - octets
        self._rest, block = self._rest[:rest], self._rest[rest:]
        return block


class _Current(threading.local):
    """Area of `adjacent` in this thread. A context variable would be inherited by new threads."""

    area: _Area | None = None


_current = _Current()


@contextmanager
def adjacent() -> Iterator[None]:
    """Make records, structs and small arrays consecutive in memory while the ``with`` block runs.

    A simulation accesses many ports. Thousands of separate small allocations would be in different memory
    pages, for which the processor does not have enough page table entries in its cache.
    """
    before, _current.area = _current.area, _Area()
    try:
        yield
    finally:
        _current.area = before


def columns(records: Sequence[Any]) -> NDArray[Any]:
    """Return the structured array of `new_records`. ``columns(r)["name"]`` is a column."""
    return np.asarray(records)
