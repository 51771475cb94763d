"""Fields of frames as Arrow record batches and tables.

The schema depends only on the fields, never on the frames. A field that can occur several times in a frame (a
VLAN tag, a TLV) is a list of values. With ``repeated`` "first", the column has only the outermost value. In a
wrapped frame, any field can occur several times. With ``repeated`` "all", every field of layers is a list, so
that wrapped frames can be rebuilt. Otherwise such columns have the outermost value.

A frame without the field has null. Numbers have the narrowest sufficient type. MAC addresses, IP addresses
and CPIDs are text, octet strings are binary, and text with few distinct values is dictionary-encoded.
``frame.time_epoch`` is a timestamp in ns. Times since another frame are durations. With ``addresses``
"octets", addresses are fixed-size binary and CPIDs are ``uint64``. pandas converts ``uint64`` columns with
nulls into floats, which lose digits. `as_text` converts addresses and CPIDs to text. The metadata of a field
contain its unit, meaning and source.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.batch.parse_tables import repeated_formats
from ecmproto.frames.columns.column import Column, Stretches, Texts, bounds_of, every_row, fields_named
from ecmproto.frames.columns.extraction import Columns, empty_of
from ecmproto.frames.columns.octets import BLOCK, copy, load_4
from ecmproto.frames.columns.text.digits import dotted, grouped, hex_octets, separated_octets
from ecmproto.frames.filter.fields import FilterField
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.tables import arrow
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.registry import catalogue

if TYPE_CHECKING:
    import pyarrow as pa

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]

Repeated: TypeAlias = Literal["list", "first", "all"]
"""Fields whose columns are lists: the repeatable fields, no fields, or all fields of layers."""

Addresses: TypeAlias = Literal["text", "octets"]
"""Form of addresses and CPIDs: readable text, or the octets of the frames."""

_RECORD_TYPES = {
    "frame.number": "uint64", "frame.len": "uint32", "frame.cap_len": "uint32",
    "frame.interface_id": "uint32",
}  # fmt: skip


def schema_of(
    fields: Iterable[str] | None = None,
    *,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
) -> pa.Schema:
    """Return the Arrow schema of the columns ``fields``; ``None`` means all columns."""
    pa = arrow()
    documented = {entry.name: entry for entry in catalogue()}
    columns = []
    for field in fields_named(fields):
        kind = _value_type(field, addresses)
        is_list = is_repeated(field, ethertypes) or (
            repeated == "all" and field.origin == "layers" and not field.nesting
        )
        if repeated != "first" and is_list:
            kind = pa.list_(pa.field("item", kind, nullable=False))
        entry = documented.get(field.name)
        notes = {"unit": entry.unit, "doc": entry.doc, "source": entry.source} if entry else {}
        columns.append(
            pa.field(field.name, kind, metadata={key: text for key, text in notes.items() if text})
        )
    return pa.schema(columns)


def is_repeated(field: FilterField, ethertypes: EtherTypes = DEFAULT) -> bool:
    """Return whether a frame can contain a field several times."""
    formats = [source.format for source in field.sources]
    return len(set(formats)) < len(formats) or any(cls in _repeated(ethertypes) for cls in formats)


_repeated = functools.lru_cache(maxsize=8)(repeated_formats)


def _value_type(field: FilterField, addresses: Addresses) -> Any:
    pa = arrow()
    if addresses == "text" and field.kind in ADDRESS_KINDS:
        return pa.string()
    match field.kind:
        case "text":
            return pa.dictionary(pa.int32(), pa.string())
        case "octets":
            return pa.binary()
        case "time":
            return pa.timestamp("ns") if field.name == "frame.time_epoch" else pa.duration("ns")
    if field.origin == "record":
        return pa.type_for_alias(_RECORD_TYPES[field.name])
    empty = empty_of(field)
    if empty.ndim == 2:
        return pa.binary(empty.shape[1])
    bits = any(source.part == "bits" for source in field.sources)
    return pa.uint8() if bits else pa.from_numpy_dtype(empty.dtype)


def dictionary_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with dictionary encoding for every text column, also for addresses and lists."""
    pa = arrow()
    encoded = pa.dictionary(pa.int32(), pa.string())
    fields = []
    for field in schema:
        if pa.types.is_string(field.type):
            field = field.with_type(encoded)
        elif pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            field = field.with_type(pa.list_(field.type.value_field.with_type(encoded)))
        fields.append(field)
    return pa.schema(fields, schema.metadata)


def record_batch_of(columns: Columns, schema: pa.Schema) -> pa.RecordBatch:
    """Return columns as a record batch.

    ``schema`` is a `schema_of` or a `dictionary_schema` of the same fields.
    """
    pa = arrow()
    presences: dict[int, _Presence] = {}
    arrays = []
    for field in schema:
        column = columns[field.name]
        if not len(column):
            arrays.append(_nulls(column.frames, field.type))
            continue
        # All fields of one format share one array of rows.
        presence = presences.get(id(column.rows))
        if presence is None:
            presence = presences[id(column.rows)] = _Presence(column)
        arrays.append(_array(column, field.type, presence))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Presence:
    """The frames that have a field and the number of values in each frame, in Arrow's layout."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.is_whole = column.is_whole

    @functools.cached_property
    def bits(self) -> Any:
        """Validity bitmap with one bit per frame; ``None`` if all frames have the field."""
        return (
            None if self.is_whole else arrow().py_buffer(np.packbits(self.column.present, bitorder="little"))
        )

    @functools.cached_property
    def bounds(self) -> Any:
        """Offset of the first value of each frame, followed by the total number of values."""
        if self.is_whole:
            return arrow().py_buffer(every_row(self.column.frames + 1))
        return arrow().py_buffer(self.column.bounds.astype(np.int32))

    @functools.cached_property
    def outermost(self) -> NDArray[np.bool_] | None:
        """Mask of the values that are the first of their frame; ``None`` if all values are."""
        rows = self.column.rows
        first = np.ones(len(rows), np.bool_)
        if not self.is_whole:
            np.not_equal(rows[1:], rows[:-1], out=first[1:])
        return None if first.all() else first

    @functools.cached_property
    def indices(self) -> NDArray[np.intp]:
        """Indices of the frames that have the field, without duplicates."""
        rows = self.column.rows.astype(np.intp)
        return rows if self.outermost is None else rows[self.outermost]

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one value per frame, with 0 for frames without the field."""
        if self.is_whole:
            return values
        whole = np.zeros((self.column.frames, *values.shape[1:]), values.dtype)
        whole[self.indices] = values
        return whole


@functools.lru_cache(maxsize=64)
def _nulls(count: int, kind: Any) -> Any:
    return arrow().nulls(count, kind)


def _array(column: Column, kind: Any, presence: _Presence) -> Any:
    pa = arrow()
    if pa.types.is_list(kind):
        every = _Presence(dataclasses.replace(column, frames=len(column), rows=every_row(len(column))))
        values = _flat(column, kind.value_type, every)
        return pa.Array.from_buffers(kind, column.frames, [presence.bits, presence.bounds], children=[values])
    return _flat(column if presence.outermost is None else column.select(presence.outermost), kind, presence)


def _flat(column: Column, kind: Any, presence: _Presence) -> Any:
    """Return an Arrow array of a column with at most one value per frame; null means no value."""
    pa = arrow()
    values = column.values
    if isinstance(values, Stretches):
        octets, _ = values.packed()
        bounds = bounds_of(presence.spread(values.octets), np.int32)
        buffers = [presence.bits, pa.py_buffer(bounds), pa.py_buffer(octets)]
        return pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
    if pa.types.is_string(kind):
        text, ends = address_texts(cast("AddressKind", column.kind), np.asarray(values))
        bounds = ends if presence.is_whole else bounds_of(presence.spread(np.diff(ends)), np.int32)
        return pa.StringArray.from_buffers(
            len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(text), presence.bits
        )
    if isinstance(values, Texts):
        codes = _plain(presence.spread(values.codes), pa.int32(), presence)
        return pa.DictionaryArray.from_arrays(codes, _strings(values.words))
    if pa.types.is_dictionary(kind):
        numbers, text, ends = address_dictionary(cast("AddressKind", column.kind), np.asarray(values))
        words = pa.StringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(text))
        return pa.DictionaryArray.from_arrays(_plain(presence.spread(numbers), pa.int32(), presence), words)
    return _plain(presence.spread(values), kind, presence)


def _plain(values: NDArray[Any], kind: Any, presence: _Presence) -> Any:
    """Return an Arrow array of fixed-width values that shares numpy's memory."""
    pa = arrow()
    if values.ndim == 1 and not pa.types.is_temporal(kind):
        values = values.astype(str(kind), copy=False)  # pyarrow's own name of a dtype imports pandas
    return pa.Array.from_buffers(
        kind, len(values), [presence.bits, pa.py_buffer(np.ascontiguousarray(values))]
    )


def _strings(texts: Iterable[str]) -> Any:
    """Return strings as an Arrow array.

    This function avoids ``pyarrow.array``, which imports pandas to inspect a list.
    """
    pa = arrow()
    octets = [text.encode() for text in texts]
    bounds = bounds_of([len(each) for each in octets], np.int32)
    return pa.StringArray.from_buffers(len(octets), pa.py_buffer(bounds), pa.py_buffer(b"".join(octets)))


def as_text(array: Any) -> Any:
    """Return an Arrow column of addresses or CPIDs as text; lists of values remain lists.

    MAC addresses have colons, IP addresses have the usual notation, and CPIDs have 16 digits. Text is
    returned unchanged.
    """
    pa = arrow()
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    kind = pa.string()
    if pa.types.is_list(array.type):
        kind = pa.list_(pa.field("item", kind, nullable=False))
    return pa.chunked_array([_text(chunk) for chunk in chunks], type=kind)


def _text(array: Any) -> Any:
    pa = arrow()
    if pa.types.is_list(array.type):
        words = _text(array.flatten())
        bounds = bounds_of(array.value_lengths().fill_null(0), np.int32)
        kind = pa.list_(pa.field("item", words.type, nullable=False))
        return pa.ListArray.from_arrays(pa.array(bounds), words, kind, mask=array.is_null())
    if pa.types.is_string(array.type):
        return array
    form: AddressKind = "cpid"
    if not pa.types.is_uint64(array.type):
        form = next(each for each in ADDRESS_KINDS if WIDTH[each] == array.type.byte_width)
    valid = np.asarray(array.is_valid())
    octets = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    rows = octets[array.offset * WIDTH[form] :][: len(array) * WIDTH[form]].reshape(-1, WIDTH[form])
    values = rows[valid]
    text, ends = address_texts(form, values.view(np.uint64).reshape(-1) if form == "cpid" else values)
    bounds = np.zeros(len(array) + 1, np.int32)
    bounds[1:][valid] = np.diff(ends)
    np.cumsum(bounds, out=bounds)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(len(array), pa.py_buffer(bounds), pa.py_buffer(text), bits)


AddressKind: TypeAlias = Literal["mac", "cpid", "ipv4", "ipv6"]
"""Types of fields shown as text, with values of six, eight, four and sixteen octets."""

ADDRESS_KINDS: tuple[AddressKind, ...] = get_args(AddressKind)
WIDTH = {"mac": 6, "cpid": 8, "ipv4": 4, "ipv6": 16}
_LONGEST = {"mac": 17, "cpid": 16, "ipv4": 15, "ipv6": 45}
_MAC, _CPID, _IPV4, _IPV6 = range(len(ADDRESS_KINDS))
_COLON = 58
_SLACK = 2 * BLOCK
"""Bytes after the end of a text that may be overwritten."""
_CACHE_SLOTS = 1 << 10
"""Number of values whose text is cached; most columns have few distinct values."""
_ODD = 0x9E3779B1
"""32-bit golden ratio; multiplication by this number mixes low bits into high bits."""
_BITS_32 = 0xFFFFFFFF


def address_texts(kind: AddressKind, values: NDArray[Any]) -> tuple[Octets, Int32]:
    """Return the concatenated texts of values, and the offset of each text followed by the total length.

    ``values`` are rows of octets, or CPIDs.
    """
    out = np.empty(len(values) * _LONGEST[kind] + _SLACK, np.uint8)
    bounds = np.empty(len(values) + 1, np.int32)
    known = np.full(_CACHE_SLOTS, -1, np.int32)
    _write(ADDRESS_KINDS.index(kind), _octets(values), WIDTH[kind], known, bounds, out)
    return out[: bounds[-1]], bounds


def address_dictionary(kind: AddressKind, values: NDArray[Any]) -> tuple[Int32, Octets, Int32]:
    """Return the index of each value's text, the distinct texts in order of first use, and their offsets."""
    codes = np.empty(len(values), np.int32)
    out = np.empty(len(values) * _LONGEST[kind] + _SLACK, np.uint8)
    bounds = np.empty(len(values) + 1, np.int32)
    first = np.empty(len(values), np.int32)
    # at most half full, so that an empty slot is near
    known = np.full(1 << max(2 * len(values) - 1, 1).bit_length(), -1, np.int32)
    words = _number(
        ADDRESS_KINDS.index(kind), _octets(values), WIDTH[kind], known, first, codes, bounds, out
    )  # fmt: skip
    return codes, out[: bounds[words]], bounds[: words + 1]


def _octets(values: NDArray[Any]) -> Octets:
    rows = values.astype(">u8", copy=False).view(np.uint8) if values.ndim == 1 else values
    return fixed(rows.reshape(-1))


@over_batches
def _write(kind: int, octets: Octets, width: int, known: Int32, bounds: Int32, out: Octets) -> None:
    at = 0
    for i in range(len(bounds) - 1):
        bounds[i] = at
        start = i * width
        slot = _slot(octets, start, width)
        same = int(known[slot])
        known[slot] = i
        if same >= 0 and _are_equal(octets, start, same * width, width):
            begin = int(bounds[same])
            at = copy(out, at, out, begin, int(bounds[same + 1]) - begin)
        else:
            at = _address_text(kind, octets, start, width, out, at)
    bounds[len(bounds) - 1] = at


@over_batches
def _number(
    kind: int,
    octets: Octets,
    width: int,
    known: Int32,
    first: Int32,
    codes: Int32,
    bounds: Int32,
    out: Octets,
) -> int:
    """Assign each distinct value an index and write its text once; return the number of texts."""
    at, words, code = 0, 0, 0
    last = len(known) - 1
    bounds[0] = 0
    for i in range(len(codes)):
        start = i * width
        # most values equal the previous value
        if i == 0 or not _are_equal(octets, start, start - width, width):
            slot = _mixed(octets, start, width) & last
            code = int(known[slot])
            while code >= 0 and not _are_equal(octets, start, first[code] * width, width):
                slot = (slot + 1) & last
                code = int(known[slot])
            if code < 0:
                code = words
                known[slot], first[code] = code, i
                at = _address_text(kind, octets, start, width, out, at)
                words += 1
                bounds[words] = at
        codes[i] = code
    return words


@inlined
def _address_text(kind: int, octets: Octets, start: int, width: int, out: Octets, at: int) -> int:
    """Write the text of a value and return the end of the text."""
    if kind == _MAC:
        return separated_octets(out, at, octets, start, start + width, _COLON)
    if kind == _CPID:
        return hex_octets(out, at, octets, start, start + width)
    if kind == _IPV4:
        return dotted(out, at, octets, start)
    return grouped(out, at, octets, start)


@inlined
def _mixed(octets: Octets, start: int, width: int) -> int:
    """Return a 32-bit hash of all octets of a value."""
    mixed = 0
    for i in range(0, width - 4, 4):
        mixed = ((mixed ^ load_4(octets, start + i)) * _ODD) & _BITS_32
        mixed ^= mixed >> 15
    mixed = ((mixed ^ load_4(octets, start + width - 4)) * _ODD) & _BITS_32
    mixed = ((mixed ^ (mixed >> 15)) * _ODD) & _BITS_32
    return mixed ^ (mixed >> 16)


@inlined
def _slot(octets: Octets, start: int, width: int) -> int:
    """Return the cache slot of a value, from a hash of its last octets and some middle octets.

    The last octets differ most between values.
    """
    mixed = load_4(octets, start + width - 4) ^ (load_4(octets, start + (width - 4) // 2) * _ODD)
    return ((mixed * _ODD) >> 20) & (_CACHE_SLOTS - 1)


@inlined
def _are_equal(octets: Octets, one: int, other: int, width: int) -> bool:
    for i in range(0, width - 3, 4):
        if load_4(octets, one + i) != load_4(octets, other + i):
            return False
    return load_4(octets, one + width - 4) == load_4(octets, other + width - 4)
