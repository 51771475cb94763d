"""Columns of a batch: the fields of all its frames, with the values of the one-frame lax decoder.

First, frames are sorted into layouts (`columns.layout_cache`). Then the fields are read at the offsets given
by layouts and schemas (`ecmproto.frames.columns.gathering`). Both steps are compiled, and two threads share
them for large batches.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.frames.columns.column import Column, Stretches, Texts, Values, every_row, fields_named
from ecmproto.frames.columns.gathering import (
    WORD,
    Collected,
    Want,
    empty_values,
    kind_of,
    read_instruction,
    typed,
)
from ecmproto.frames.columns.layers import BatchLayers, find_layers, frames_of, sampled_frames
from ecmproto.frames.columns.layout_cache import FCS, PADDING, TRAILER
from ecmproto.frames.filter.fields import DISPLAYED, FieldSource, FilterField, Nesting
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.infiniband import CRC_STATUS
from ecmproto.wire.formats.registry import field_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

SHARED_FRAMES = 8192
"""Minimum number of frames in a batch shared by two threads."""


class Columns(Mapping[str, Column]):
    """The columns of a batch by name, in the requested order."""

    def __init__(self, frames: int, fields: Mapping[str, FilterField], columns: Iterable[Column]) -> None:
        self.frames = frames
        self._fields = fields
        self._columns = {column.name: column for column in columns}

    @property
    def found(self) -> Iterable[str]:
        """Names of the columns with values."""
        return [name for name, column in self._columns.items() if len(column)]

    def __getitem__(self, name: str) -> Column:
        column = self._columns.get(name)
        if column is None:
            # Most columns have no values; such columns are made at their first use.
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
    where_any: tuple[str, Iterable[str]] | None = None,
    nesting: Nesting = "",
) -> Columns:
    """Return the columns ``fields`` of the frames of ``batch``; ``None`` means all columns.

    ``interfaces`` are the interfaces of the capture, with the link types of frames. Without interfaces, all
    frames are Ethernet without FCS. ``pool`` is a thread that shares the work. ``where_any`` is a field of
    layers and a list of columns. The listed columns are returned instead of ``fields`` if any frame has a
    layer with the field. With a ``nesting``, the fields of layers are read from the innermost or outermost
    frames. Raises SpecError for an unknown name.
    """
    made = Extraction(batch, interfaces=interfaces, ethertypes=ethertypes, pool=pool, nesting=nesting)
    if where_any is not None and made.has_any(where_any[0]):
        fields = where_any[1]
    return made.columns(fields)


class Extraction:
    """The walk over the frames of a batch, made once for all columns; arguments as in `extract`."""

    def __init__(
        self,
        batch: Batch,
        *,
        interfaces: Sequence[Interface] = (),
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
        nesting: Nesting = "",
    ) -> None:
        self._nesting = nesting
        self._batch, self._interfaces, self._ethertypes = batch, interfaces, ethertypes
        self._pool = pool if len(batch) >= SHARED_FRAMES else None

    @functools.cached_property
    def _layers(self) -> BatchLayers:
        frames = frames_of(self._batch, self._interfaces)
        return find_layers(frames, (), self._ethertypes, self._pool)

    @functools.cached_property
    def _inner_layers(self) -> tuple[NDArray[np.int32], BatchLayers]:
        """The indices of the quoting frames, and the layers of the quoted frames."""
        rows, frames = sampled_frames(self._layers)
        return rows, find_layers(frames, (), self._ethertypes, self._pool)

    def has_any(self, name: str) -> bool:
        """Return whether any frame has a layer with the field ``name``."""
        return any(self._layers.count(kind) for field in fields_named((name,)) for kind in layer_types(field))

    def columns(self, fields: Iterable[str] | None = None) -> Columns:
        """Return the columns ``fields``; ``None`` means all columns."""
        requested = _sorted_fields(_nested(fields_named(fields), self._nesting))
        columns = [*_recorded(requested.record, self._batch, self._interfaces)]
        if any(requested.outer):
            columns += _columns(requested.outer, self._layers)
        if any(requested.inner):
            rows, layers = self._inner_layers
            columns += [
                dataclasses.replace(column, frames=len(self._batch), rows=rows[column.rows])
                for column in _columns(requested.inner, layers)
            ]
        return Columns(len(self._batch), requested.fields, columns)


def _nested(fields: tuple[FilterField, ...], nesting: Nesting) -> tuple[FilterField, ...]:
    if not nesting:
        return fields
    return tuple(
        field if field.origin == "record" or field.inner else dataclasses.replace(field, nesting=nesting)
        for field in fields
    )


class _FrameFields(NamedTuple):
    """Fields in frames: fields of layers by layer type, and texts about whole frames."""

    by_layer: dict[int, list[FilterField]]
    texts: list[FilterField]


class _SortedFields(NamedTuple):
    """The requested fields, by origin."""

    fields: Mapping[str, FilterField]
    record: list[FilterField]
    outer: _FrameFields
    inner: _FrameFields
    """Fields of the frames quoted by messages."""


@functools.lru_cache(maxsize=32)
def _sorted_fields(fields: tuple[FilterField, ...]) -> _SortedFields:
    return _SortedFields(
        fields={field.name: field for field in fields},
        record=[field for field in fields if field.origin == "record"],
        outer=_of_frames(field for field in fields if field.origin != "record" and not field.inner),
        inner=_of_frames(field for field in fields if field.inner),
    )


def _of_frames(fields: Iterable[FilterField]) -> _FrameFields:
    fields_ = _FrameFields({}, [])
    for field in fields:
        if field.kind == "text":
            fields_.texts.append(field)
        else:
            for kind in layer_types(field):
                fields_.by_layer.setdefault(kind, []).append(field)
    return fields_


def _columns(sought: _FrameFields, layers: BatchLayers) -> Iterator[Column]:
    """Yield the columns of fields in frames, except columns without values."""
    every = every_row(len(layers.frames.offset))
    for field in sought.texts:
        rows, texts = (
            (every, layers.protocols(field.nesting))
            if field.name.endswith("frame.protocols")
            else layers.crc_states
            if field.name.endswith(CRC_STATUS)
            else (layers.error_rows, layers.errors)
        )
        yield Column(name=field.name, kind=field.kind, frames=len(every), rows=rows, values=texts)
    values = FieldValues(sought.by_layer, layers)
    for field in values.fields:
        rows, read = values.of(field)
        if len(rows):
            yield Column(name=field.name, kind=field.kind, frames=len(every), rows=rows, values=read)


def _no_values(field: FilterField) -> Values:
    if field.kind == "text":
        return Texts(codes=_NO_ROWS, words=())
    if field.kind == "octets":
        return Stretches(buffer=_NO_OCTETS, start=_NONE, octets=_NONE)
    return empty_of(field)


_NO_ROWS = fixed(np.empty(0, np.int32))
_NO_OCTETS = fixed(np.empty(0, np.uint8))
_NONE = fixed(np.empty(0, np.int64))


def empty_of(field: FilterField) -> NDArray[Any]:
    """Return an empty array with the dtype of the widest source of a field."""
    if field.name not in _EMPTY:
        arrays = [empty_values(field_of(source.format, source.key), 0) for source in field.sources]
        _EMPTY[field.name] = max(arrays, key=lambda array: array.itemsize)
    return _EMPTY[field.name]


_EMPTY: dict[str, NDArray[Any]] = {}


def _recorded(fields: list[FilterField], batch: Batch, interfaces: Sequence[Interface]) -> Iterator[Column]:
    """Yield the columns of record fields, such as time and length."""
    every = every_row(len(batch))
    for field in fields:
        rows, values = _of_record(field.name, batch, interfaces, every)
        yield Column(name=field.name, kind=field.kind, frames=len(batch), rows=rows, values=values)


def _of_record(
    name: str, batch: Batch, interfaces: Sequence[Interface], every: NDArray[np.int32]
) -> RowValues:
    match name:
        case "frame.number":
            if batch.picked is None:
                return every, np.arange(batch.first + 1, batch.first + 1 + len(batch), dtype=np.int64)
            return every, batch.numbers + 1
        case "frame.time_relative" | "frame.time_delta" | "frame.time_delta_displayed":
            times = _TIMES[name](batch)
            return (every, times) if batch.timed is None else (every[batch.timed], times[batch.timed])
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


_TIMES: Mapping[str, Callable[[Batch], NDArray[np.int64]]] = {
    "frame.time_relative": Batch.since_first_ns,
    "frame.time_delta": Batch.since_previous_ns,
    DISPLAYED: Batch.since_displayed_ns,
}


@functools.lru_cache(maxsize=4)
def _all_of(value: int, count: int) -> NDArray[np.int64]:
    return fixed(np.full(count, value, np.int64))


RowValues: TypeAlias = "tuple[NDArray[np.int32], Values]"
"""The indices of the frames that have a field, and the values of the field."""

_TAILS = {"eth.padding": PADDING, "eth.trailer": TRAILER, "eth.fcs": FCS}


class _Origin(NamedTuple):
    """The origin of values of a field: a layer type, and a field or some bits of a field in its layers."""

    kind: int
    source: FieldSource | None
    """Source within the layer type; ``None`` for the octets of the layer."""
    part: tuple[int, int] | None
    """Bits of the field: the position of the lowest bit, and the number of bits."""


@functools.lru_cache(maxsize=1024)
def _origins(field: FilterField) -> tuple[_Origin, ...]:
    if field.origin == "frame":
        return (_Origin(_TAILS[field.name.removeprefix("encapsulated.")], None, None),)
    return tuple(_origin(source, field.nesting) for source in field.sources)


def _origin(source: FieldSource, nesting: Nesting) -> _Origin:
    field = field_of(source.format, source.key)
    kind = kind_of(source.format, field, nesting)
    if field.bits is None:
        return _Origin(kind, None, None)
    return _Origin(kind, source, (source.low, source.bits) if source.part == "bits" else None)


def layer_types(field: FilterField) -> tuple[int, ...]:
    """Return the types of layers that have a field; see `ecmproto.frames.columns.gathering`."""
    return tuple(dict.fromkeys(origin.kind for origin in _origins(field)))


class FieldValues:
    """The values of fields, by the types of layers that have the fields."""

    def __init__(self, sought: Mapping[int, list[FilterField]], layers: BatchLayers) -> None:
        self._layers = layers
        self.fields: list[FilterField] = list(
            {field: None for kind, fields in sought.items() if layers.count(kind) for field in fields}
        )
        """Fields of the layers that occur; an EtherType or length among them may have no values."""
        self._origins: dict[str, list[_Origin]] = {}
        self._reads: dict[int, dict[tuple[str, tuple[int, int] | None], int]] = {}
        wants: dict[int, Want] = {}
        for field in self.fields:
            origins = [origin for origin in _origins(field) if layers.count(origin.kind)]
            self._origins[field.name] = origins
            for kind, source, part in origins:
                want = wants.setdefault(kind, Want(fields=[]))
                want.positions |= source is None or len(origins) > 1
                reads = self._reads.setdefault(kind, {})
                if source is not None and (source.key, part) not in reads:
                    reads[source.key, part] = len(reads)
                    want.fields.append(_read_instruction(source, part, layers.min_offset(kind) >= WORD))
        self._collected = layers.collect(wants)

    def of(self, field: FilterField) -> RowValues:
        """Return the indices of the frames that have a field, and the values of the field."""
        parts = [self._part(origin) for origin in self._origins[field.name]]
        if len(parts) > 1:
            parts = [part for part in parts if len(part.row)] or parts[:1]
        return (parts[0].row, parts[0].values) if len(parts) == 1 else _in_order(parts, self._layers)

    def _part(self, origin: _Origin) -> _KindValues:
        kind = self._collected[origin.kind]
        source = origin.source
        if source is None:
            octets = Stretches(buffer=self._layers.frames.buffer, start=kind.start, octets=kind.octets)
            return _KindValues(kind.row, kind.start, octets)
        read = kind.values[self._reads[origin.kind][source.key, origin.part]]
        if origin.part is not None:
            return _KindValues(kind.row, kind.start, read)
        field = field_of(source.format, source.key)
        values = typed(field, read) if field.is_number else read.reshape(len(kind.row), -1)
        return (
            _KindValues(kind.row, kind.start, values)
            if source.part == "whole"
            else _named(source, kind, values)
        )


@functools.lru_cache(maxsize=1024)
def _read_instruction(source: FieldSource, part: tuple[int, int] | None, preceded: bool) -> tuple[int, ...]:
    return read_instruction(source.format, field_of(source.format, source.key), part, preceded=preceded)


class _KindValues(NamedTuple):
    """Values of a field from one layer type, the frames with these values, and their offsets if collected."""

    row: NDArray[np.int32]
    start: NDArray[np.int64]
    values: Values


def _named(source: FieldSource, kind: Collected, values: NDArray[Any]) -> _KindValues:
    """Return only the lengths or only the EtherTypes among the values, as ``source`` requires."""
    mask = values <= MAX_LENGTH if source.part == "length" else values > MAX_LENGTH
    if mask.all():
        return _KindValues(kind.row, kind.start, values)
    start = kind.start[mask] if len(kind.start) else kind.start
    return _KindValues(kind.row[mask], start, values[mask])


def _in_order(parts: list[_KindValues], layers: BatchLayers) -> RowValues:
    """Return the values from several layer types in the order of the frames, outermost first."""
    rows = np.concatenate([part.row for part in parts])
    starts = np.concatenate([part.start for part in parts])
    # A stable sort keeps values of one layer in the order of the sources.
    order = np.argsort((rows.astype(np.int64) << 32) + starts - layers.frames.offset[rows], kind="stable")
    if isinstance(parts[0].values, Stretches):
        octets = np.concatenate([part.values.octets for part in parts if isinstance(part.values, Stretches)])
        spans = Stretches(buffer=layers.frames.buffer, start=starts[order], octets=octets[order])
        return rows[order], spans
    joined = np.concatenate([part.values for part in parts if isinstance(part.values, np.ndarray)])
    return rows[order], joined[order]
