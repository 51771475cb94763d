"""From a batch to columns: the fields of all its frames at once, as the one-frame lax decoder has them.

A walk finds every layer (`ecmproto.table.columns.walk`); then each field is read from all layers of its
format in one go, steered by where the schema says that it stands.  Both are compiled, and shared by two
threads where there are frames enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.filter.fields import Field, Source
from ecmproto.table.columns.asked import asked
from ecmproto.table.columns.column import Column, Stretches, Texts, Values
from ecmproto.table.columns.framing import SHOWN_AS, frames_of, sampled_frames
from ecmproto.table.columns.layers import Entries, LayersFound, find_layers
from ecmproto.table.columns.readers import FieldsReading, empty_values
from ecmproto.table.columns.threads import together
from ecmproto.table.columns.transitions import field_of
from ecmproto.table.headers import fixed
from ecmproto.wire.ethertypes import DEFAULT, MAX_LENGTH, EtherTypes
from ecmproto.wire.layer import Layer

SHARED_FRAMES = 8192
"""From how many frames on two threads share the work."""


class Columns(Mapping[str, Column]):
    """The columns of a batch by their names, in the order asked for."""

    def __init__(self, frames: int, fields: Iterable[Field], columns: Iterable[Column]) -> None:
        self.frames = frames
        """How many frames the batch has."""
        self._fields = {field.name: field for field in fields}
        self._columns = {column.name: column for column in columns}

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
    wanted = asked(fields)
    shared = pool if len(batch) >= SHARED_FRAMES else None
    columns = [*_recorded([field for field in wanted if field.origin == "record"], batch, interfaces)]
    if len(columns) == len(wanted):
        return Columns(len(batch), wanted, columns)  # what frames are made of does not matter
    outer = [field for field in wanted if not field.inner and field.origin != "record"]
    inner = [field for field in wanted if field.inner]
    formats = {source.format for field in outer for source in field.sources}
    if inner:
        formats.update(SHOWN_AS)
    found = find_layers(frames_of(batch, interfaces), formats, ethertypes, shared)
    columns += _columns(outer, found, shared)
    if inner:
        columns += _inner(inner, found, ethertypes, shared)
    return Columns(len(batch), wanted, columns)


def _inner(
    fields: list[Field], found: LayersFound, ethertypes: EtherTypes, pool: ThreadPoolExecutor | None
) -> Iterator[Column]:
    """Yield the columns of the frames that messages show, as columns of the frames that show them."""
    rows, frames = sampled_frames(found)
    formats = {source.format for field in fields for source in field.sources}
    inside = find_layers(frames, formats, ethertypes, pool)
    count = len(found.frames.offset)
    for column in _columns(fields, inside, pool):
        yield Column(
            name=column.name, kind=column.kind, frames=count, rows=rows[column.rows], values=column.values
        )


def _recorded(fields: list[Field], batch: Batch, interfaces: Sequence[Interface]) -> Iterator[Column]:
    """Yield the columns of what the capture's records say."""
    every = _every(len(batch))
    for field in fields:
        rows, values = _of_record(field.name, batch, interfaces, every)
        yield Column(name=field.name, kind=field.kind, frames=len(batch), rows=rows, values=values)


def _every(count: int) -> NDArray[np.int32]:
    rows = np.arange(count, dtype=np.int32)
    rows.flags.writeable = False
    return rows


def _columns(fields: list[Field], found: LayersFound, pool: ThreadPoolExecutor | None) -> Iterator[Column]:
    there = found.entries.keys()
    present = [
        field
        for field in fields
        if field.origin != "layers" or any(source.format in there for source in field.sources)
    ]
    read = _read_all(present, found, pool)
    every = _every(len(found.frames.offset))
    for field in present:
        if field.origin == "layers":
            rows, values = _of_layers(field, found, read)
        else:
            rows, values = _of_frame(field.name.removeprefix("encapsulated."), found, every)
        yield Column(name=field.name, kind=field.kind, frames=len(every), rows=rows, values=values)


_Key = tuple[type[Layer], str]
_Found = tuple[NDArray[np.int32], Values]


def _read_all(
    fields: Collection[Field], found: LayersFound, pool: ThreadPoolExecutor | None
) -> dict[_Key, Values]:
    """Return the values of every layer field that ``fields`` come from."""
    keys: dict[type[Layer], dict[str, None]] = {}
    for source in (source for field in fields for source in field.sources):
        if source.format in found.entries:
            keys.setdefault(source.format, {})[source.key] = None
    read: dict[_Key, Values] = {}
    readings: dict[type[Layer], tuple[list[str], FieldsReading]] = {}
    works: list[list[Callable[[], None]]] = [[], []]
    for cls, of_format in keys.items():
        entries = found.entries[cls]
        numbers = [key for key in of_format if field_of(cls, key).bits is not None]
        for key in of_format.keys() - numbers:
            read[cls, key] = Stretches(
                buffer=found.frames.buffer,
                start=entries.start + cls.fixed_octets,
                octets=entries.octets - np.int64(cls.fixed_octets),
            )
        reading = FieldsReading([field_of(cls, key) for key in numbers], found.frames.buffer, entries.start)
        readings[cls] = numbers, reading
        middle = len(reading) if pool is None else len(reading) // 2
        works[0].append(partial(reading.read, 0, middle))
        works[1].append(partial(reading.read, middle, len(reading)))
    together([partial(_do, work) for work in works], pool)
    for cls, (numbers, reading) in readings.items():
        read |= {(cls, key): values for key, values in zip(numbers, reading.values(), strict=True)}
    return read


def _do(works: list[Callable[[], None]]) -> None:
    for work in works:
        work()


def _of_layers(field: Field, found: LayersFound, read: dict[_Key, Values]) -> _Found:
    """Return the values of a field, from whatever formats have it."""
    parts = []
    for source in field.sources:
        entries = found.entries.get(source.format)
        if entries is not None:
            picks, values = _part(source, read[source.format, source.key])
            parts.append((entries if picks is None else entries.select(picks), values))
    parts = [part for part in parts if len(part[0].row)]
    if not parts:
        return _NO_ROWS, _no_values(field)
    if len(parts) == 1:
        return parts[0][0].row, parts[0][1]
    return _in_order(parts, found)


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


def _part(source: Source, values: Values) -> tuple[NDArray[np.bool_] | None, Values]:
    """Return the values that ``source`` means, and which these are of all that the layers' field has."""
    if isinstance(values, Stretches):
        # an empty octet string is no value
        mask = values.octets > 0
        return (None, values) if mask.all() else (mask, values.select(mask))
    assert isinstance(values, np.ndarray)
    if source.part == "bit":
        return None, ((values >> source.bit) & 1).astype(np.uint8)
    if source.part == "whole":
        return None, values
    mask = values <= MAX_LENGTH if source.part == "length" else values > MAX_LENGTH
    return (None, values) if mask.all() else (mask, values[mask])


def _in_order(parts: list[tuple[Entries, Values]], found: LayersFound) -> _Found:
    """Return the values of several formats as they stand in the frames, outermost first."""
    rows = np.concatenate([entries.row for entries, _ in parts])
    starts = np.concatenate([entries.start for entries, _ in parts])
    # stable: of one layer, in the order of the sources
    order = np.argsort((rows.astype(np.int64) << 32) + starts - found.frames.offset[rows], kind="stable")
    if isinstance(parts[0][1], Stretches):
        stretches = [values for _, values in parts if isinstance(values, Stretches)]
        joined: Values = Stretches(
            buffer=found.frames.buffer,
            start=np.concatenate([each.start for each in stretches])[order],
            octets=np.concatenate([each.octets for each in stretches])[order],
        )
    else:
        joined = np.concatenate([values for _, values in parts if isinstance(values, np.ndarray)])[order]
    return rows[order], joined


def _of_record(name: str, batch: Batch, interfaces: Sequence[Interface], every: NDArray[np.int32]) -> _Found:
    match name:
        case "frame.number":
            return every, batch.numbers + 1
        case "frame.len":
            return every, batch.original
        case "frame.cap_len":
            return every, batch.captured
        case "frame.interface_id":
            local = np.array([each.local_index for each in interfaces], np.int64)
            return every, local[batch.interface] if len(local) else batch.interface
    if batch.timed is None or batch.timed.all():
        return every, batch.time_ns
    return every[batch.timed], batch.time_ns[batch.timed]


def _of_frame(name: str, found: LayersFound, every: NDArray[np.int32]) -> _Found:
    ends, frames = found.ends, found.frames
    match name:
        case "frame.protocols":
            return every, found.protocols
        case "frame.error":
            return found.error_rows, found.errors
        case "eth.padding":
            start, stop = ends.tail, ends.trailer
        case "eth.trailer":
            start, stop = ends.trailer, ends.fcs
        case _:
            start, stop = ends.fcs, frames.offset + frames.captured
    octets = stop - start
    rows = np.flatnonzero(octets)
    if len(rows) == len(every):
        return every, Stretches(buffer=frames.buffer, start=start, octets=octets)
    return rows.astype(np.int32), Stretches(buffer=frames.buffer, start=start[rows], octets=octets[rows])
