"""Parquet files of row groups that threads encode apart, and that are put one behind the other.

pyarrow encodes the row groups of a file one after the other, and wants an entry for each frame where most
columns have values in some.  Here numbers and words become pages as they were found: which frames have them
is a bit for each, the values stand next to each other, and of few different ones the pages have places in a
dictionary.  pyarrow compresses them.  All other columns it encodes as a file in memory, whose pages are taken
over.  Headers of pages and footers are structures of Apache Parquet's ``parquet.thrift`` in Thrift's compact
protocol.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.arrow import address_words, arrow, record_batch_of, with_words
from ecmproto.columns.column import Column, Texts
from ecmproto.columns.extraction import Columns

if TYPE_CHECKING:
    import pyarrow as pa

    from ecmproto.columns.arrow import AddressKind

ROW_GROUP_FRAMES = 1 << 16
"""Frames in a row group: memory holds one for each thread.  Of a batch with half as many it is one, too."""

_WRITE_VALUES = 1 << 14
"""How many values pyarrow writes at a time; with its own 1024 it takes a fifth longer."""
_MAGIC = b"PAR1"
_LENGTH_OCTETS = 4
_MOST_ORDINAL = 0x7FFF
_ROWS, _GROUPS = 3, 4
"""The fields of a ``FileMetaData`` that say how many rows there are, and what row groups."""
_METADATA, _CHUNK_PLACES = 3, (2, 4, 6)
"""The fields of a ``ColumnChunk`` that say what it is, and where in the file something is."""
_PLAIN_OCTETS, _OCTETS, _PLACES, _FIRST = 6, 7, (9, 10, 11, 14), (9, 11)
"""The fields of a ``ColumnMetaData`` that say of how many octets it is, as they are and compressed, and where
something is, a page among them."""
GROWING = ("frame.number", "frame.time_epoch")
"""Columns whose values are near the ones before."""


class Chunk(NamedTuple):
    """A column of a row group, encoded."""

    pages: Sequence[bytes | memoryview]
    octets: int
    """Of its pages, headers among them."""
    plain_octets: int
    """Before they were compressed."""
    entry: Sequence[bytes | int]
    """What a footer says of it; a number stands for a place so many octets behind the first page."""


class RowGroup(NamedTuple):
    """An encoded row group."""

    rows: int
    pages: bytes
    plain_octets: int
    chunks: Sequence[tuple[int, Chunk]]
    """Its columns, and where in ``pages`` theirs are."""


class ParquetFile:
    """A Parquet file, whose octets ``write`` gets, with a schema of `ecmproto.columns.arrow.schema_of`."""

    def __init__(self, schema: pa.Schema, write: Callable[[bytes | memoryview], object]) -> None:
        self.schema = with_words(schema)
        """That of batches, whose text is dictionary-encoded."""
        self.rows = 0
        self._write = write
        # who reads the file gets plain text
        told = base64.b64encode(schema.serialize().to_pybytes())
        self._footer = _footer(_file(self.schema, [], {"ARROW:schema": told.decode()}))
        self._fields = {number: (begin, end) for number, _, begin, end in _fields(self._footer)}
        self._groups: list[bytes] = []
        self._at = len(_MAGIC)
        self._encoders = {field.name: encoder for field in schema if (encoder := _encoder(field)) is not None}
        self._others = arrow().schema([field for field in self.schema if field.name not in self._encoders])
        write(_MAGIC)

    def encoded(self, columns: Columns) -> RowGroup:
        """Return columns of some frames as a row group; any thread may do so."""
        chunks: dict[str, Chunk] = {}
        if len(self._others):
            table = arrow().Table.from_batches([record_batch_of(columns, self._others)])
            chunks.update(zip(self._others.names, _chunks_of(_file(self._others, [table])), strict=True))
        levels: dict[int, _Levels] = {}
        for name, encoder in self._encoders.items():
            column = columns[name]
            if not len(column):
                chunks[name] = encoder.without_values(column.frames)
                continue
            known = levels.get(id(column.rows))
            if known is None:
                known = levels[id(column.rows)] = _Levels(column)
            chunks[name] = encoder.chunk(column, known)
        return _row_group(columns.frames, [chunks[name] for name in self.schema.names])

    def gathered(self, batches: Sequence[pa.RecordBatch]) -> RowGroup:
        """Return batches of the schema as one row group."""
        # one dictionary for each column
        table = arrow().Table.from_batches(batches, self.schema).unify_dictionaries()
        return _row_group(table.num_rows, list(_chunks_of(_file(self.schema, [table]))))

    def write(self, group: RowGroup) -> None:
        """Write a row group behind those so far."""
        number, at = len(self._groups), self._at
        entries = [
            b"".join(part if isinstance(part, bytes) else _signed(at + begin + part) for part in chunk.entry)
            for begin, chunk in group.chunks
        ]
        fields = [
            (1, _LIST, _list(_STRUCT, entries)), (2, _I64, _signed(group.plain_octets)),
            (3, _I64, _signed(group.rows)), (5, _I64, _signed(at)), (6, _I64, _signed(len(group.pages))),
        ]  # fmt: skip
        if number <= _MOST_ORDINAL:
            fields.append((7, _I16, _signed(number)))
        self._groups.append(_struct(fields))
        self._write(group.pages)
        self._at += len(group.pages)
        self.rows += group.rows

    def end(self) -> None:
        """Write what stands behind the row groups."""
        (rows, behind_rows), (groups, behind_groups) = self._fields[_ROWS], self._fields[_GROUPS]
        footer = b"".join(
            (
                self._footer[:rows], _signed(self.rows), self._footer[behind_rows:groups],
                _list(_STRUCT, self._groups), self._footer[behind_groups:],
            )
        )  # fmt: skip
        self._write(footer + len(footer).to_bytes(_LENGTH_OCTETS, "little") + _MAGIC)


def _row_group(rows: int, chunks: Sequence[Chunk]) -> RowGroup:
    placed = []
    at = 0
    for chunk in chunks:
        placed.append((at, chunk))
        at += chunk.octets
    return RowGroup(
        rows=rows, pages=b"".join(page for chunk in chunks for page in chunk.pages),
        plain_octets=sum(chunk.plain_octets for chunk in chunks), chunks=placed,
    )  # fmt: skip


# By pyarrow -----------------------------------------------------------------------------------------------


def _file(
    schema: pa.Schema, tables: Sequence[pa.Table], notes: Mapping[str, str] | None = None
) -> memoryview:
    """Return a whole file, of a row group for each table."""
    import pyarrow.parquet

    stream = arrow().BufferOutputStream()
    with pyarrow.parquet.ParquetWriter(stream, schema, **_settings(schema)) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=table.num_rows)
        if notes:
            writer.add_key_value_metadata(notes)
    return memoryview(stream.getvalue())


def _settings(schema: pa.Schema) -> dict[str, Any]:
    """Return how pyarrow is to encode columns."""
    pa = arrow()
    # what takes few values is worth a dictionary; octet strings would fill one and throw it away
    few = [field.name for field in schema if pa.types.is_dictionary(field.type) or _is_small(field.type)]
    growing = [name for name in GROWING if name in schema.names]
    # the least and most of a row group help to skip it; those of octets, or of lists, hardly ever
    told = [field.name for field in schema if pa.types.is_integer(field.type) or field.name in growing]
    return {
        "compression": "lz4",
        "use_dictionary": few,
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        "write_statistics": told,
        "write_batch_size": _WRITE_VALUES,
        "store_schema": False,
    }


def _is_small(kind: Any) -> bool:
    pa = arrow()
    if pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) and kind.bit_width <= 16)


def _chunks_of(octets: memoryview) -> Iterator[Chunk]:
    """Yield the columns of a file of one row group."""
    footer = _footer(octets)
    groups = {number: begin for number, _, begin, _ in _fields(footer)}[_GROUPS]
    columns = {number: begin for number, _, begin, _ in _fields(footer, _elements(footer, groups)[1])}[1]
    count, at = _elements(footer, columns)
    for _ in range(count):
        chunk = {number: (begin, end) for number, _, begin, end in _fields(footer, at)}
        behind = max(end for _, end in chunk.values()) + len(_STOP)
        inner = {number: (begin, end) for number, _, begin, end in _fields(footer, chunk[_METADATA][0])}
        places = [*(chunk[each] for each in _CHUNK_PLACES if each in chunk)]
        places += [inner[each] for each in _PLACES if each in inner]
        numbers = {begin: _number(footer, begin)[0] >> 1 for begin, _ in places}
        first = min(numbers[inner[each][0]] for each in _FIRST if each in inner)
        entry: list[bytes | int] = []
        for begin, end in sorted(places):
            if numbers[begin]:  # 0 stands for none
                entry += [footer[at:begin], numbers[begin] - first]
                at = end
        plain_octets, size = (_number(footer, inner[each][0])[0] >> 1 for each in (_PLAIN_OCTETS, _OCTETS))
        yield Chunk(
            pages=[octets[first : first + size]], octets=size, plain_octets=plain_octets,
            entry=[*entry, footer[at:behind]],
        )  # fmt: skip
        at = behind


# Columns --------------------------------------------------------------------------------------------------

_INT32, _INT64, _BYTE_ARRAY = 1, 2, 6
_PLAIN, _RLE, _BY_WORDS = 0, 3, 8
_LZ4_RAW = 7
_DATA_PAGE, _WORDS_PAGE = 0, 2
_MOST_INDEXED = 1 << 16
"""Numbers below it are put into a dictionary: a table says which place each has there."""


class _Levels:
    """Which frames have values, and how often, in a page's words; for columns of the same rows."""

    def __init__(self, column: Column) -> None:
        self._column = column

    @functools.cached_property
    def outermost(self) -> NDArray[np.bool_] | None:
        """Which values are their frame's first; None where all are."""
        rows = self._column.rows
        if self._column.is_whole:
            return None
        first = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=first[1:])
        return None if first.all() else first

    @functools.cached_property
    def flat(self) -> bytes:
        """Those of a column with one value a frame at most."""
        frames = self._column.frames
        return _sized(_run(frames, 1) if self._column.is_whole else _bits(self._column.present))

    @functools.cached_property
    def lists(self) -> tuple[int, bytes]:
        """How many entries a column of lists has, and their levels."""
        rows, frames = self._column.rows, self._column.frames
        first = self.outermost
        if first is None:
            return frames, _sized(_run(frames, 0)) + _sized(_twos(self._column.present))
        # behind the entries of frames without values
        places = np.arange(len(rows)) + rows - (np.cumsum(first) - 1)
        entries = len(rows) + frames - int(np.count_nonzero(first))
        follows, there = np.zeros(entries, np.bool_), np.zeros(entries, np.bool_)
        follows[places], there[places] = ~first, True
        return entries, _sized(_bits(follows)) + _sized(_twos(there))


def _sized(octets: bytes) -> bytes:
    return len(octets).to_bytes(_LENGTH_OCTETS, "little") + octets


def _run(count: int, value: int) -> bytes:
    """Return the same number, of 1 to 8 bits, so many times."""
    return _unsigned(count << 1) + bytes([value])


def _bits(values: NDArray[Any]) -> bytes:
    """Return numbers of one bit."""
    return _unsigned(-(-len(values) // 8) << 1 | 1) + np.packbits(values, bitorder="little").tobytes()


def _twos(values: NDArray[np.bool_]) -> bytes:
    """Return numbers of two bits that are 2 or 0."""
    pairs = np.zeros((-(-len(values) // 8) * 8, 2), np.bool_)
    pairs[: len(values), 1] = values
    return _unsigned(-(-len(values) // 8) << 1 | 1) + np.packbits(pairs, bitorder="little").tobytes()


def _indices(codes: NDArray[Any], words: int) -> bytes:
    """Return places in a dictionary of so many words: their width in bits, then all of them."""
    if words == 1:
        return b"\1" + _run(len(codes), 0)
    bits = next(bits for bits in (1, 2, 4, 8, 12, 16, 32) if words <= 1 << bits)
    groups = -(-len(codes) // 8)
    octets = 1 if bits <= 8 else 2 if bits <= 16 else 4
    packed: NDArray[Any] = np.zeros(8 * groups, f"<u{octets}")
    packed[: len(codes)] = codes
    if bits == 12:
        one, other = packed[::2], packed[1::2]
        packed = np.empty((len(one), 3), np.uint8)
        packed[:, 0], packed[:, 1], packed[:, 2] = one & 0xFF, one >> 8 | (other & 15) << 4, other >> 4
    width = bits
    while width < 8:  # two of them into one
        packed = packed[::2] | packed[1::2] << width
        width *= 2
    return bytes([bits]) + _unsigned(groups << 1 | 1) + packed.tobytes()


def _encoder(field: pa.Field) -> _Encoder | None:
    """Return what encodes a column; None: pyarrow does."""
    pa = arrow()
    is_list = pa.types.is_list(field.type)
    kind = field.type.value_type if is_list else field.type
    is_known = pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_dictionary(kind)
    if field.name in GROWING or not is_known:
        return None
    return _Encoder(field.name, kind, is_list=is_list)


class _Encoder:
    """Encodes a column of numbers or words."""

    def __init__(self, name: str, kind: Any, *, is_list: bool) -> None:
        self._is_list = is_list
        self._dtype = np.dtype(str(kind)) if arrow().types.is_integer(kind) else None
        self._type = _BYTE_ARRAY if self._dtype is None else _INT32 if self._dtype.itemsize <= 4 else _INT64
        path = [part.encode() for part in ((name, "list", "element") if is_list else (name,))]
        self._path = _list(_BINARY, [_binary(part) for part in path])
        self._nothing: dict[int, Chunk] = {}

    def without_values(self, frames: int) -> Chunk:
        """Return a column of frames none of which has a value."""
        chunk = self._nothing.get(frames)
        if chunk is None:
            levels = _sized(_run(frames, 0))
            told = levels + levels if self._is_list else levels
            chunk = self._chunk(told, entries=frames, nulls=frames)
            if len(self._nothing) < _MOST_KEPT:
                self._nothing[frames] = chunk
        return chunk

    def chunk(self, column: Column, levels: _Levels) -> Chunk:
        """Return a column with values."""
        if self._is_list:
            entries, told = levels.lists
        else:
            entries, told = column.frames, levels.flat
            if levels.outermost is not None:
                column = column.select(levels.outermost)
        encode = partial(self._chunk, entries=entries, nulls=entries - len(column))
        if self._dtype is None:
            words, count, codes = _words(column)
            return encode(told + _indices(codes, count), words=(words, count))
        numbers = np.asarray(column.values).astype(self._dtype, copy=False)
        least, most = numbers.min(), numbers.max()
        ends = (self._plain(least), self._plain(most))
        if int(most) - int(least) < _MOST_INDEXED:
            offsets = (numbers - least).view(f"u{numbers.itemsize}").astype(np.intp)
            there = np.zeros(int(most) - int(least) + 1, np.bool_)
            there[offsets] = True
            places = np.flatnonzero(there)
            if 2 * len(places) <= len(numbers):
                code_of = np.cumsum(there, dtype=np.uint16) - np.uint16(1)
                words = self._plain((places + int(least)).astype(self._dtype))
                indices = _indices(code_of.take(offsets), len(places))
                return encode(told + indices, words=(words, len(places)), ends=ends)
        return encode(told + self._plain(numbers), ends=ends)

    def _plain(self, numbers: Any) -> bytes:
        octets: bytes = numbers.astype("<i4" if self._type == _INT32 else "<i8").tobytes()
        return octets

    def _chunk(
        self,
        data: bytes,
        *,
        entries: int,
        nulls: int,
        words: tuple[bytes, int] | None = None,
        ends: tuple[bytes, bytes] | None = None,
    ) -> Chunk:
        """Return a column of a page, ``words`` in one before it, ``ends`` its least value and its most."""
        encoding = _PLAIN if words is None else _BY_WORDS
        pages = []
        if words is not None:
            told = _struct([(1, _I32, _signed(words[1])), (2, _I32, _signed(_PLAIN))])
            pages.append(_page(_WORDS_PAGE, words[0], told))
        numbers = (entries, encoding, _RLE, _RLE)
        told = _struct([(number, _I32, _signed(each)) for number, each in enumerate(numbers, 1)])
        pages.append(_page(_DATA_PAGE, data, told))
        octets = sum(len(part) for page in pages for part in page.parts)
        plain_octets = sum(page.plain_octets for page in pages)
        fields: list[tuple[int, int, bytes | int]] = [
            (1, _I32, _signed(self._type)),
            (2, _LIST, _list(_I32, [_signed(each) for each in sorted({_PLAIN, _RLE, encoding})])),
            (3, _LIST, self._path), (4, _I32, _signed(_LZ4_RAW)), (5, _I64, _signed(entries)),
            (6, _I64, _signed(plain_octets)), (7, _I64, _signed(octets)),
            (9, _I64, octets - sum(map(len, pages[-1].parts))),
        ]  # fmt: skip
        if words is not None:
            fields.append((11, _I64, 0))
        if self._dtype is not None and not self._is_list:
            told_ends = (
                [] if ends is None else [(5, _BINARY, _binary(ends[1])), (6, _BINARY, _binary(ends[0]))]
            )
            fields.append((12, _STRUCT, _struct([(3, _I64, _signed(nulls)), *told_ends])))
        return Chunk(
            pages=[part for page in pages for part in page.parts], octets=octets, plain_octets=plain_octets,
            entry=[_head(2, _I64) + _signed(0) + _head(1, _STRUCT), *_parts(fields), _STOP],
        )  # fmt: skip


_MOST_KEPT = 4
"""Of how many numbers of frames a column without values is kept: batches have the same, but for the last."""


def _words(column: Column) -> tuple[bytes, int, NDArray[np.int32]]:
    """Return a column's words, each behind its length, how many they are, and the place of each value's."""
    values = column.values
    if isinstance(values, Texts):
        return b"".join(_sized(word.encode()) for word in values.words), len(values.words), values.codes
    codes, text, bounds = address_words(cast("AddressKind", column.kind), np.asarray(values))
    sizes = np.diff(bounds)
    plain = np.zeros(len(text) + _LENGTH_OCTETS * len(sizes), np.uint8)
    heads = bounds[:-1] + _LENGTH_OCTETS * np.arange(len(sizes))
    plain[heads] = sizes  # less than 256
    is_text = np.ones(len(plain), np.bool_)
    for octet in range(_LENGTH_OCTETS):
        is_text[heads + octet] = False
    plain[is_text] = text
    return plain.tobytes(), len(sizes), codes


class _Page(NamedTuple):
    parts: tuple[bytes, bytes]
    """Its header and what it holds."""
    plain_octets: int


def _page(kind: int, data: bytes, told: bytes) -> _Page:
    """Return a page; ``told`` is the structure for pages of its kind."""
    packed = arrow().compress(data, codec="lz4_raw", asbytes=True)
    head = _struct(
        [
            (1, _I32, _signed(kind)), (2, _I32, _signed(len(data))), (3, _I32, _signed(len(packed))),
            (5 if kind == _DATA_PAGE else 7, _STRUCT, told),
        ]
    )  # fmt: skip
    return _Page((head, packed), len(head) + len(data))


# Thrift's compact protocol --------------------------------------------------------------------------------

_BOOLEAN, _OCTET, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 2, 3, 4, 5, 6, 7, 8, 9, 12
"""Types of values: of those used by ``parquet.thrift``, the least for a boolean is 1."""
_STOP = b"\0"
_MANY = 15


def _footer(octets: memoryview) -> bytes:
    """Return the ``FileMetaData`` of a whole file."""
    end = len(octets) - len(_MAGIC) - _LENGTH_OCTETS
    return bytes(octets[end - int.from_bytes(octets[end : end + _LENGTH_OCTETS], "little") : end])


def _fields(octets: bytes, at: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Yield the numbers of a structure's fields, their types, and where their values begin and end."""
    number = 0
    while octets[at]:
        kind = octets[at] & 15
        number += octets[at] >> 4
        end = _end(octets, at + 1, kind)
        yield number, kind, at + 1, end
        at = end


def _end(octets: bytes, at: int, kind: int) -> int:
    """Return where a value ends."""
    if _I16 <= kind <= _I64:
        while octets[at] & 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _number(octets, at)
        return at + size
    if kind == _STRUCT:
        while octets[at]:
            at = _end(octets, at + 1, octets[at] & 15)
        return at + 1
    if kind == _LIST:
        element = octets[at] & 15
        count, at = _elements(octets, at)
        for _ in range(count):
            at = at + 1 if element <= _BOOLEAN else _end(octets, at, element)
        return at
    return at + {_DOUBLE: 8, _OCTET: 1}.get(kind, 0)


def _number(octets: bytes, at: int) -> tuple[int, int]:
    """Return the number at ``at``, which has seven bits an octet, and where it ends."""
    number = shift = 0
    while octets[at] & 0x80:
        number |= (octets[at] & 0x7F) << shift
        shift += 7
        at += 1
    return number | octets[at] << shift, at + 1


def _elements(octets: bytes, at: int) -> tuple[int, int]:
    """Return how many elements the list at ``at`` has, and where the first one is."""
    count = octets[at] >> 4
    return _number(octets, at + 1) if count == _MANY else (count, at + 1)


def _unsigned(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def _signed(number: int) -> bytes:
    """Return a number from 0 on as those are written that may be negative."""
    return _unsigned(2 * number)


def _binary(octets: bytes) -> bytes:
    return _unsigned(len(octets)) + octets


def _list(kind: int, elements: Sequence[bytes]) -> bytes:
    count = len(elements)
    head = bytes([count << 4 | kind]) if count < _MANY else bytes([_MANY << 4 | kind]) + _unsigned(count)
    return head + b"".join(elements)


def _head(delta: int, kind: int) -> bytes:
    return bytes([delta << 4 | kind])


def _parts(fields: Iterable[tuple[int, int, bytes | int]]) -> Iterator[bytes | int]:
    """Yield the parts of a structure of fields: numbers, types and values."""
    before = 0
    for number, kind, value in fields:
        yield _head(number - before, kind)
        yield value
        before = number
    yield _STOP


def _struct(fields: Iterable[tuple[int, int, bytes]]) -> bytes:
    return b"".join(cast("Iterable[bytes]", _parts(fields)))
