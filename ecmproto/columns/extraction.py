"""From a batch to columns: the fields of all its frames at once, as the one-frame lax decoder has them.

Frames are sorted into shapes (`ecmproto.columns.shapes`); then the fields are read from where the
shapes and the schemas say that they stand (`ecmproto.columns.gathering`).  Both are compiled, and
shared by two threads where there are frames enough.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.columns.asked import asked
from ecmproto.columns.column import Column, Stretches, Texts, Values, every_row
from ecmproto.columns.framing import SHOWN_AS, frames_of, sampled_frames
from ecmproto.columns.layers import LayersFound, find_layers
from ecmproto.columns.readers import empty_values
from ecmproto.columns.transitions import field_of
from ecmproto.columns.values import Found, ValuesFound, kinds_of
from ecmproto.filter.fields import Field
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

SHARED_FRAMES = 8192
"""From how many frames on two threads share the work."""


class Columns(Mapping[str, Column]):
    """The columns of a batch by their names, in the order asked for."""

    def __init__(self, frames: int, fields: Mapping[str, Field], columns: Iterable[Column]) -> None:
        self.frames = frames
        """How many frames the batch has."""
        self._fields = fields
        self._columns = {column.name: column for column in columns}

    @property
    def found(self) -> Iterable[str]:
        """The names of those with values."""
        return [name for name, column in self._columns.items() if len(column)]

    def __getitem__(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            # most columns have no values, and are made when somebody looks
            field = self._fields[name]
            column = Column(
                name=name, kind=field.kind, frames=self.frames, rows=_NO_ROWS, values=_no_values(field)
            )
            self._columns[name] = column
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


def extract(
    batch: Batch,
    fields: Iterable[str] | None = None,
    *,
    interfaces: Sequence[Interface] = (),
    ethertypes: EtherTypes = DEFAULT,
    pool: ThreadPoolExecutor | None = None,
) -> Columns:
    """Return the columns ``fields`` (None: all) of the frames of ``batch``.

    ``interfaces`` are the capture's, which say of what link type frames are; without them all are Ethernet
    without FCS.  ``pool`` is a thread that shares the work.  SpecError for a name that is none.
    """
    wanted = _sought(asked(fields))
    columns = [*_recorded(wanted.record, batch, interfaces)]
    if not any(wanted.outer) and not any(wanted.inner):
        return Columns(len(batch), wanted.fields, columns)  # what frames are made of does not matter
    shared = pool if len(batch) >= SHARED_FRAMES else None
    shown = SHOWN_AS if any(wanted.inner) else ()
    found = find_layers(frames_of(batch, interfaces), shown, ethertypes, shared)
    columns += _columns(wanted.outer, found)
    if shown:
        columns += _inner(wanted.inner, found, ethertypes, shared)
    return Columns(len(batch), wanted.fields, columns)


class _OfFrames(NamedTuple):
    """Fields that stand in frames: by the kinds that have them, and the texts about frames as a whole."""

    kinds: dict[int, list[Field]]
    texts: list[Field]


class _Sought(NamedTuple):
    """The fields asked for, by where they come from."""

    fields: Mapping[str, Field]
    record: list[Field]
    outer: _OfFrames
    inner: _OfFrames
    """Those of the frames that messages show."""


@functools.lru_cache(maxsize=32)
def _sought(fields: tuple[Field, ...]) -> _Sought:
    return _Sought(
        fields={field.name: field for field in fields},
        record=[field for field in fields if field.origin == "record"],
        outer=_of_frames(field for field in fields if field.origin != "record" and not field.inner),
        inner=_of_frames(field for field in fields if field.inner),
    )


def _of_frames(fields: Iterable[Field]) -> _OfFrames:
    sought = _OfFrames({}, [])
    for field in fields:
        if field.kind == "text":
            sought.texts.append(field)
        else:
            for kind in kinds_of(field):
                sought.kinds.setdefault(kind, []).append(field)
    return sought


def _columns(sought: _OfFrames, found: LayersFound) -> Iterator[Column]:
    """Yield the columns of what stands in frames, but for those without values."""
    every = every_row(len(found.frames.offset))
    for field in sought.texts:
        rows, texts = (
            (every, found.protocols)
            if field.name.endswith("frame.protocols")
            else (found.error_rows, found.errors)
        )
        yield Column(name=field.name, kind=field.kind, frames=len(every), rows=rows, values=texts)
    values = ValuesFound(sought.kinds, found)
    for field in values.fields:
        rows, read = values.of(field)
        if len(rows):
            yield Column(name=field.name, kind=field.kind, frames=len(every), rows=rows, values=read)


def _inner(
    sought: _OfFrames, found: LayersFound, ethertypes: EtherTypes, pool: ThreadPoolExecutor | None
) -> Iterator[Column]:
    """Yield the columns of the frames that messages show, as columns of the frames that show them."""
    rows, frames = sampled_frames(found)
    count = len(found.frames.offset)
    for column in _columns(sought, find_layers(frames, (), ethertypes, pool)):
        yield Column(
            name=column.name, kind=column.kind, frames=count, rows=rows[column.rows], values=column.values
        )


def _no_values(field: Field) -> Values:
    if field.kind == "text":
        return Texts(codes=_NO_ROWS, words=())
    if field.kind == "octets":
        return Stretches(buffer=_NO_OCTETS, start=_NONE, octets=_NONE)
    return empty_of(field)


_NO_ROWS = fixed(np.empty(0, np.int32))
_NO_OCTETS = fixed(np.empty(0, np.uint8))
_NONE = fixed(np.empty(0, np.int64))


def empty_of(field: Field) -> NDArray[Any]:
    """Return no values of a field of layers, of the dtype that they have: that of the widest source."""
    if field.name not in _EMPTY:
        arrays = [empty_values(field_of(source.format, source.key), 0) for source in field.sources]
        _EMPTY[field.name] = max(arrays, key=lambda array: array.itemsize)
    return _EMPTY[field.name]


_EMPTY: dict[str, NDArray[Any]] = {}


def _recorded(fields: list[Field], batch: Batch, interfaces: Sequence[Interface]) -> Iterator[Column]:
    """Yield the columns of what the capture's records say of frames."""
    every = every_row(len(batch))
    for field in fields:
        rows, values = _of_record(field.name, batch, interfaces, every)
        yield Column(name=field.name, kind=field.kind, frames=len(batch), rows=rows, values=values)


def _of_record(name: str, batch: Batch, interfaces: Sequence[Interface], every: NDArray[np.int32]) -> Found:
    match name:
        case "frame.number":
            if batch.picked is None:
                return every, np.arange(batch.first + 1, batch.first + 1 + len(batch), dtype=np.int64)
            return every, batch.numbers + 1
        case "frame.len":
            return every, batch.original
        case "frame.cap_len":
            return every, batch.captured
        case "frame.interface_id":
            if len(interfaces) == 1:
                return every, _all_of(interfaces[0].local_index, len(batch))
            links, used = batch.links(interfaces)
            local = np.array([each.local_index for each in links], np.int64)
            return every, local[used] if len(local) else batch.interface
    if batch.timed is None or batch.timed.all():
        return every, batch.time_ns
    return every[batch.timed], batch.time_ns[batch.timed]


@functools.lru_cache(maxsize=4)
def _all_of(value: int, count: int) -> NDArray[np.int64]:
    return fixed(np.full(count, value, np.int64))
