"""Columns as Arrow's: record batches and tables with a schema that depends on the fields only.

A field that a frame may have several times (a VLAN tag's, a TLV's) is a list of values, or with ``repeated``
"first" its outermost value.  A frame without the field has null.  Numbers have the least type that holds
them, MAC, IPv4 and IPv6 addresses are fixed-size binary (``as_text`` makes text of them), octet strings
binary, texts dictionary-encoded, ``frame.time_epoch`` a timestamp in ns.  A field's metadata hold its unit,
meaning and source.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import MissingDependencyError
from ecmproto.filter.fields import Field
from ecmproto.table.columns.asked import asked
from ecmproto.table.columns.column import Column, Stretches, Texts
from ecmproto.table.columns.extraction import Columns, empty_of
from ecmproto.table.columns.transitions import repeated_formats
from ecmproto.wire.catalogue import catalogue
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    import pyarrow as pa

Repeated: TypeAlias = Literal["list", "first"]

_RECORD_TYPES = {
    "frame.number": "uint64", "frame.len": "uint32", "frame.cap_len": "uint32",
    "frame.interface_id": "uint32",
}  # fmt: skip


def arrow() -> Any:
    """Return pyarrow; MissingDependencyError without it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(package="pyarrow", extra="arrow", purpose="columns for Arrow") from error
    return pyarrow


def schema_of(
    fields: Iterable[str] | None = None,
    *,
    repeated: Repeated = "list",
    ethertypes: EtherTypes = DEFAULT,
) -> pa.Schema:
    """Return the Arrow schema of the columns ``fields`` (None: all)."""
    pa = arrow()
    documented = {entry.name: entry for entry in catalogue()}
    columns = []
    for field in asked(fields):
        kind = _value_type(field)
        if repeated == "list" and is_repeated(field, ethertypes):
            kind = pa.list_(pa.field("item", kind, nullable=False))
        entry = documented.get(field.name)
        notes = {"unit": entry.unit, "doc": entry.doc, "source": entry.source} if entry else {}
        columns.append(
            pa.field(field.name, kind, metadata={key: text for key, text in notes.items() if text})
        )
    return pa.schema(columns)


def is_repeated(field: Field, ethertypes: EtherTypes = DEFAULT) -> bool:
    """Whether a frame may have a field several times."""
    formats = [source.format for source in field.sources]
    return len(set(formats)) < len(formats) or any(cls in _repeated(ethertypes) for cls in formats)


@functools.lru_cache(maxsize=8)
def _repeated(ethertypes: EtherTypes) -> frozenset[Any]:
    return repeated_formats(ethertypes)


def _value_type(field: Field) -> Any:
    pa = arrow()
    match field.kind:
        case "text":
            return pa.dictionary(pa.int32(), pa.string())
        case "octets":
            return pa.binary()
        case "time":
            return pa.timestamp("ns")
    if field.origin == "record":
        return pa.type_for_alias(_RECORD_TYPES[field.name])
    empty = empty_of(field)
    if empty.ndim == 2:
        return pa.binary(empty.shape[1])
    bits = any(source.part == "bit" for source in field.sources)
    return pa.uint8() if bits else pa.from_numpy_dtype(empty.dtype)


def record_batch_of(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as a record batch of a schema that `schema_of` made for the same fields."""
    pa = arrow()
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(column: Column, kind: Any) -> Any:
    pa = arrow()
    if not len(column):
        return _nulls(column.frames, kind)
    if pa.types.is_list(kind):
        bounds = pa.array(column.bounds.astype(np.int32))
        return pa.ListArray.from_arrays(
            bounds, _values(column, kind.value_type), kind, mask=pa.array(~column.present)
        )
    column = column.outermost()
    if column.is_whole:
        return _values(column, kind)
    if isinstance(column.values, np.ndarray):
        return _scattered(column, kind)
    # where a frame's value stands among those that there are
    places = np.zeros(column.frames, np.int32)
    places[column.rows] = np.arange(len(column), dtype=np.int32)
    return _values(column, kind).take(pa.array(places, mask=~column.present))


@functools.lru_cache(maxsize=64)
def _nulls(count: int, kind: Any) -> Any:
    return arrow().nulls(count, kind)


def _values(column: Column, kind: Any) -> Any:
    """Return all values, one behind the other."""
    pa = arrow()
    values = column.values
    if isinstance(values, Stretches):
        octets, bounds = values.packed()
        buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.binary(), len(values), buffers)
    if isinstance(values, Texts):
        words = pa.array(list(values.words), pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(values.codes), words)
    return _plain(values, None, kind)


def _scattered(column: Column, kind: Any) -> Any:
    values = column.values
    assert isinstance(values, np.ndarray)
    whole = np.zeros((column.frames, *values.shape[1:]), values.dtype)
    whole[column.rows] = values
    return _plain(whole, column.present, kind)


def _plain(values: NDArray[Any], present: NDArray[np.bool_] | None, kind: Any) -> Any:
    """Return an array of fixed-width values over numpy's memory."""
    pa = arrow()
    if values.ndim == 1 and not pa.types.is_timestamp(kind):
        values = values.astype(kind.to_pandas_dtype(), copy=False)
    bits = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(np.ascontiguousarray(values))])


def as_text(array: Any) -> Any:
    """Return an Arrow column of addresses as text: MAC addresses with colons, IP addresses as usual."""
    pa = arrow()
    size = array.type.byte_width

    def text(octets: bytes) -> str:
        return octets.hex(":") if size == 6 else str(ipaddress.ip_address(octets))

    # of as many values as there are different ones
    chunked = array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])
    encoded = chunked.dictionary_encode().unify_dictionaries()
    chunks = [
        pa.DictionaryArray.from_arrays(
            chunk.indices, pa.array([text(word) for word in chunk.dictionary.to_pylist()], pa.string())
        )
        for chunk in encoded.chunks
    ]
    return pa.chunked_array(chunks, type=pa.dictionary(pa.int32(), pa.string()))
