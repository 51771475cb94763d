"""Frames from files of columns with one row per frame: Parquet, Arrow IPC, or CSV with a header line.

The columns set the fields of a template. Without a template, whole frames are rebuilt from all columns.
Columns have the same names as ``--sweep`` fields: a field of the template or of an implied layer. For
example, ``flow_id`` of a CNM belongs to a CN-TAG. ``vlan.id[1]`` is the field of the second layer with
``vlan.id``. Further column names are ``eth.padding``, ``eth.trailer`` and ``encapsulated.NAME``. Derived
defaults use the first row.

Files are read in batches of rows. A few octets of a compressed file can expand to gigabytes. Therefore, the
size of a batch is limited, and a value longer than any frame is rejected. CSV cells are text. Large CSV files
are read by pyarrow if pyarrow is installed. Other CSV files are read by the Python csv module.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import importlib.util
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ColumnError, MissingDependencyError, SpecError, escaped, shown
from ecmproto.frames.capture.batch import ETHERNET, INFINIBAND, LINUX_SLL, LINUX_SLL2, RAW_IP
from ecmproto.frames.columns.building.frames import batch_of, cast, times_of, values_for
from ecmproto.frames.columns.building.template import Finish
from ecmproto.frames.columns.building.values import (
    INNER,
    TAILS,
    Coded,
    Strings,
    Target,
    check_once,
    column_error,
    each,
    octets_target,
    plain,
    targets_of,
)
from ecmproto.tools.craft.builders import finish
from ecmproto.tools.craft.recipe import MAX_TIME_NS, CaptureInfo, Chunk, placed
from ecmproto.tools.craft.spec import located
from ecmproto.tools.craft.stack import Part, Stack
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 16
BATCH_OCTETS = 64 << 20
"""Size at which a batch of Parquet or CSV rows ends, in octets."""
MAX_VALUE_OCTETS = 1 << 20
"""Maximum length of a value in octets, which is four times the maximum captured length of a frame."""
_MAX_LISTED = 1 << 17
"""Maximum number of list values in one row, which is the number of two-octet layers in the longest frame."""
_ROWS_AT_ONCE = 1 << 11
"""Number of Parquet rows that are read at once, before the lengths of their values are known."""
LARGE_OCTETS = 4 << 20
"""Minimum size of a CSV file that is read by pyarrow, in octets."""

_BLOCK_OCTETS = 4 << 20

SUFFIXES = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".csv": "csv"}

Rows = Mapping[str, Any]
"""Columns by name. Each column is an Arrow array or a list of texts."""


def column_batches(path: str) -> Iterator[tuple[int, Rows]]:
    """Yield the number of rows and the columns of each batch. The path ``-`` reads CSV from standard input.

    Raises SpecError with the row for a file that does not have the format of its suffix. Raises
    MissingDependencyError if the format requires pyarrow and pyarrow is not installed. A file without rows
    yields one empty batch.
    """
    form = form_of(path)
    if form == "csv":
        is_large = path != "-" and os.path.getsize(path) >= LARGE_OCTETS
        return _large_csv(path) if is_large and importlib.util.find_spec("pyarrow") else _csv(path)
    return _parquet(path) if form == "parquet" else _arrow(path)


def form_of(path: str) -> str:
    """Return the file format of a path from its suffix: "parquet", "arrow" or "csv".

    Raises SpecError for other suffixes.
    """
    form = "csv" if path == "-" else next((SUFFIXES[end] for end in SUFFIXES if path.endswith(end)), None)
    if form is None:
        raise SpecError(where=path, needed=f"a name that ends in {', '.join(SUFFIXES)}", got="another")
    return form


def _pyarrow(path: str) -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            package="pyarrow", extra="arrow", purpose=f"columns from {path}"
        ) from error
    return pyarrow


@contextlib.contextmanager
def _refusing(path: str, needed: str) -> Iterator[None]:
    """Convert pyarrow errors to a SpecError with a one-line message."""
    pa = _pyarrow(path)
    try:
        yield
    except MemoryError:  # includes the memory error of pyarrow, which is not an error in the file
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:  # UnicodeDecodeError: invalid column names
        raise SpecError(where=path, needed=needed, got=shown(str(error).splitlines()[0])) from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise SpecError(where=path, needed=needed, got=shown(str(error).splitlines()[0])) from None


def _parquet(path: str) -> Iterator[tuple[int, Rows]]:
    pa = _pyarrow(path)
    with open(path, "rb") as file, _refusing(path, "a Parquet file"):
        import pyarrow.parquet

        texts = [field.name for field in pyarrow.parquet.read_schema(file) if pa.types.is_string(field.type)]
        file.seek(0)
        # text columns mostly contain addresses: each distinct value is read once
        source = pyarrow.parquet.ParquetFile(file, read_dictionary=texts)
        _check_row_groups(path, source.metadata)
        pieces = source.iter_batches(min(_ROWS_AT_ONCE, BATCH_ROWS))
        yield from _named(path, source.schema_arrow, _gathered(path, pieces, pa), pa)


def _check_row_groups(path: str, metadata: Any) -> None:
    """Raise SpecError for declared values of a Parquet file that are too long or too many for a row."""
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for position in range(group.num_columns):
            column = group.column(position)
            where = f"{path}: column {escaped(column.path_in_schema)}"
            values = max(1, column.num_values)
            if column.total_uncompressed_size > values * MAX_VALUE_OCTETS:
                raise _too_long(where, column.total_uncompressed_size // values)
            if values > max(1, group.num_rows) * _MAX_LISTED:
                needed = f"lists of at most {_MAX_LISTED} values"
                raise SpecError(where=where, needed=needed, got=f"{values} in {group.num_rows} rows")


def _gathered(path: str, pieces: Iterable[pa.RecordBatch], pa: Any) -> Iterator[pa.RecordBatch]:
    """Combine pieces into batches of at most `BATCH_ROWS` rows.

    A batch also ends when its size reaches `BATCH_OCTETS`.
    """
    pending: list[pa.RecordBatch] = []
    rows = octets = 0
    for piece in pieces:
        size = piece.nbytes
        if size > MAX_VALUE_OCTETS:
            _check_lengths(path, piece, pa)
        if pending and (rows + piece.num_rows > BATCH_ROWS or octets >= BATCH_OCTETS):
            yield _joined(pending, pa)
            pending, rows, octets = [], 0, 0
        pending.append(piece)
        rows += piece.num_rows
        octets += size
    if pending:
        yield _joined(pending, pa)


def _joined(pieces: list[pa.RecordBatch], pa: Any) -> pa.RecordBatch:
    batch = pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)
    batch.validate(full=True)
    return batch


def _check_lengths(path: str, batch: pa.RecordBatch, pa: Any) -> None:
    """Raise SpecError for values that are longer than any frame."""
    import pyarrow.compute

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        column = column.dictionary if pa.types.is_dictionary(column.type) else column
        kind = column.type
        if (pa.types.is_binary(kind) or pa.types.is_string(kind)) and column.nbytes > MAX_VALUE_OCTETS:
            longest = pyarrow.compute.max(pyarrow.compute.binary_length(column)).as_py() or 0
            if longest > MAX_VALUE_OCTETS:
                raise _too_long(f"{path}: column {escaped(name)}", longest)


def _too_long(where: str, octets: int) -> SpecError:
    needed = f"values of at most {MAX_VALUE_OCTETS} octets, which no frame holds more than"
    return SpecError(where=where, needed=needed, got=f"one of {octets}")


def _arrow(path: str) -> Iterator[tuple[int, Rows]]:
    pa = _pyarrow(path)
    with open(path, "rb") as file, _refusing(path, "an Arrow IPC file or stream"):
        is_file = file.read(6) == b"ARROW1"
        file.seek(0)
        if is_file:
            source = pa.ipc.open_file(file)
            batches = (source.get_batch(index) for index in range(source.num_record_batches))
        else:
            source = batches = pa.ipc.open_stream(file)
        yield from _named(path, source.schema, _sliced(batches), pa)


def _sliced(batches: Any) -> Iterator[Any]:
    for batch in batches:
        # rejects invalid offsets from a hostile file
        batch.validate(full=True)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _named(path: str, schema: pa.Schema, batches: Any, pa: Any) -> Iterator[tuple[int, Rows]]:
    _check_names(path, schema.names)
    first = pa.RecordBatch.from_pylist([], schema=schema)
    some = False
    for batch in batches:
        some = some or batch.num_rows > 0
        yield batch.num_rows, dict(zip(schema.names, batch.columns, strict=True))
    if not some:
        yield 0, dict(zip(schema.names, first.columns, strict=True))


def _check_names(path: str, names: Sequence[str]) -> None:
    for name in names:
        if not name:
            raise SpecError(where=f"{path}: names", needed="a name for each column", got="an empty one")
        if names.count(name) > 1:
            raise SpecError(where=f"{path}: names", needed="each column once", got=f"{name!r} twice")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        return
    with open(path, encoding="utf-8-sig", newline="") as file:
        yield file


def _csv(path: str) -> Iterator[tuple[int, Rows]]:
    with _opened(path) as file:
        lines = _lines(path, file)
        names = next(lines, None)
        if names is None:
            raise SpecError(where=path, needed="a line with the names of the columns", got="an empty file")
        _check_names(path, names)
        done = 0
        while True:
            rows = list(_some_rows(lines))
            for row, cells in enumerate(rows, done + 1):
                if len(cells) != len(names):
                    raise _ragged(path, row, len(names), len(cells))
            if rows or not done:
                columns = map(list, zip(*rows, strict=True)) if rows else [[]] * len(names)
                yield len(rows), dict(zip(names, columns, strict=True))
            if not rows:
                return
            done += len(rows)


def _some_rows(lines: Iterator[list[str]]) -> Iterator[list[str]]:
    characters = 0
    for cells in itertools.islice(lines, BATCH_ROWS):
        yield cells
        characters += sum(map(len, cells))
        if characters >= BATCH_OCTETS:
            return


def _lines(path: str, file: IO[str]) -> Iterator[list[str]]:
    """Yield the cells of each line that is not empty."""
    reader = csv.reader(file, strict=True)
    try:
        yield from (cells for cells in reader if cells)
    except csv.Error as error:
        raise SpecError(where=f"{path}: line {reader.line_num}", needed="CSV", got=str(error)) from None
    except UnicodeDecodeError as error:
        got = f"octet {error.object[error.start]:#04x}"
        raise SpecError(
            where=f"{path}: after line {reader.line_num}", needed="text in UTF-8", got=got
        ) from None


def _ragged(path: str, row: int, needed: int, got: int) -> SpecError:
    return SpecError(where=f"{path}: row {row}", needed=f"{needed} cells", got=str(got))


def _large_csv(path: str) -> Iterator[tuple[int, Rows]]:
    """Yield the batches of a CSV file that pyarrow reads. All cells are text."""
    import pyarrow as pa
    import pyarrow.csv

    with _opened(path) as file:
        names = next(_lines(path, file), [])
    _check_names(path, names)
    ragged: list[SpecError] = []

    def refuse(row: Any) -> str:
        # row.number includes the header line
        ragged.append(_ragged(path, (row.number or 1) - 1, row.expected_columns, row.actual_columns))
        return "error"

    with open(path, "rb") as binary, _refusing(path, "CSV"):
        try:
            reader = pyarrow.csv.open_csv(
                binary,
                read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_OCTETS, use_threads=False),
                parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=refuse),
                convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
            yield from _named(path, reader.schema, _sliced(reader), pa)
        except pa.ArrowInvalid:
            if ragged:
                raise ragged[0] from None
            raise


TIME = "frame.time_epoch"
_NUMBERED = re.compile(r"(.+)\[(0|[1-9][0-9]{0,3})\]")
_FLAGS = frozenset(part.name for cls in FORMATS for field in cls.layout for part in field.meta.parts)
_TAIL_NAMES = tuple(f"eth.{key}" for key in TAILS)


_SECONDS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,9}))?")

_LINKTYPES = {"sll": LINUX_SLL, "sll2": LINUX_SLL2, "lrh": INFINIBAND, "ip": RAW_IP, "ipv6": RAW_IP}
"""Link type of a capture by the first layer of its frames. All other layers have the Ethernet link type."""


def frames_of_template(
    path: str, stack: Stack, *, ethertypes: EtherTypes = DEFAULT, raw: bool = False, timed: bool = False
) -> Iterator[Chunk]:
    """Yield a frame of the settled ``stack`` for each row of the file at ``path``.

    ``timed`` means that the caller sets the times of the frames, so a time column is an error. Raises
    SpecError with the file, row and column of an invalid value. Row 1 is the first row after the header line.
    """
    done, template = 0, None
    for count, rows in column_batches(path):
        with _placed(path, done):
            _check_timed(rows, timed)
            if template is None:
                template = _Template(stack, rows, count, ethertypes, raw)
            if count:
                yield template.chunk(rows, count)
        done += count


def rebuilt_frames(
    path: str,
    *,
    capture: CaptureInfo,
    ethertypes: EtherTypes = DEFAULT,
    fix: bool = False,
    timed: bool = False,
) -> Iterator[Chunk]:
    """Yield the frames of a file with all columns, such as a file from ``dissect -T parquet``.

    The interfaces of the frames are added to ``capture``. Raises the same errors as `frames_of_template`.
    """
    from ecmproto.frames.columns.building.rebuilding import batch_from

    if form_of(path) == "csv":
        got = "CSV without a layer to craft"
        raise SpecError(where=path, needed="a LAYER, or Parquet or Arrow with all columns of frames", got=got)
    done = 0
    for count, rows in column_batches(path):
        with _placed(path, done):
            _check_timed(rows, timed)
            batch = batch_from(_table(rows), ethertypes=ethertypes, fix=fix)
            linktype = _linktype(rows)
        if count:
            capture.describe(int(batch.interface.max()), linktype)
            times = batch.time_ns if TIME in rows else None
            yield Chunk(
                frames=batch,
                time_ns=times,
                original=batch.original,
                interface=batch.interface,
                linktype=linktype,
            )
        done += count


def _check_timed(rows: Rows, timed: bool) -> None:
    if timed and TIME in rows:
        raise SpecError(where=f"column {TIME}", needed="times from one source", got="a time or rate as well")


class _Template:
    """A frame template whose fields are set from the columns of a file."""

    def __init__(self, stack: Stack, rows: Rows, count: int, ethertypes: EtherTypes, raw: bool) -> None:
        named: list[tuple[str, Part, Field]] = []
        for name, cells in rows.items():
            if name == TIME or name in _TAIL_NAMES or name in _FLAGS or name.startswith(INNER):
                continue
            numbered = _NUMBERED.fullmatch(name)
            # sweeps count layers from 1
            other = f"{numbered[1]}#{int(numbered[2]) + 1}" if numbered else name
            try:
                part, field = located(stack, other, raw=raw)
                part.give(field, _first(Target(name=name, layer=0, field=field), cells, count))
            except SpecError as error:
                where = f"column {escaped(name)}"
                raise SpecError(where=where, needed=error.needed, got=error.got, hint=error.hint) from None
            named.append((name, part, field))
        made = finish(stack, ethertypes=ethertypes, raw=raw)
        # the padding is computed again for each row
        self._frame = dataclasses.replace(made.frame, padding=b"")
        self._finish = Finish(fix=not raw, transport=True, keep=made.given)
        targets = [
            Target(name=name, layer=made.parts.index(part), field=field) for name, part, field in named
        ]
        used_names = {name for name, _, _ in named} | {TIME}
        self._targets = [*targets, *targets_of(made.frame, [name for name in rows if name not in used_names])]
        check_once(made.frame, self._targets)

    def chunk(self, rows: Rows, count: int) -> Chunk:
        columns = [
            (target, values_for(self._frame, target, rows[target.name], count)) for target in self._targets
        ]
        made = cast(self._frame, columns, count, self._finish)
        times = _times(rows[TIME], count) if TIME in rows else None
        matrix = made.matrix()
        if matrix is not None:
            return Chunk(frames=matrix, time_ns=times)
        return Chunk(frames=batch_of(made, np.zeros(count, np.int64)), time_ns=times)


def _first(target: Target, cells: Any, count: int) -> int | bytes:
    """Return the first value of a column for the template. Without rows, return the default of the field."""
    if not count:
        return target.field.meta.default
    value = each(target, cells[:1], 1)
    if isinstance(value, Strings):
        return value.matrix(slice(None), int(value.octets[0])).tobytes()
    return int(value[0]) if target.field.is_number else bytes(value[0])


def _times(cells: Any, count: int) -> NDArray[np.int64]:
    """Return the times of a column in nanoseconds.

    Integer cells are in nanoseconds, and text cells are in seconds.
    """
    plain_cells = plain(octets_target(TIME), cells)
    if isinstance(plain_cells, Coded):
        plain_cells = [plain_cells.values[code] for code in plain_cells.codes.tolist()]
    if isinstance(plain_cells, list):
        return np.array([_seconds(cell, row) for row, cell in enumerate(plain_cells)], np.int64)
    if isinstance(plain_cells, Strings):
        raise column_error(TIME, "timestamps, ns or seconds in text", "octets")
    return times_of(plain_cells, count)


def _seconds(text: Any, row: int | None) -> int:
    match = _SECONDS.fullmatch(text) if isinstance(text, str) else None
    time_ns = int(match[1]) * NS_PER_S + int((match[2] or "").ljust(9, "0")) if match else MAX_TIME_NS + 1
    if time_ns > MAX_TIME_NS:
        raise column_error(TIME, "seconds since 1970 such as 1.000000001", shown(text), row)
    return time_ns


def _table(rows: Rows) -> Any:
    import pyarrow as pa

    return pa.table(dict(rows))


def _linktype(rows: Rows) -> int:
    """Return the link type of frames, based on the first layer of the frames."""
    protocols = rows["frame.protocols"].unique().to_pylist() if "frame.protocols" in rows else []
    starts = {str(each).partition(":")[0] for each in protocols}
    result = {_LINKTYPES.get(start, ETHERNET) for start in starts - {"data", ""}} or {ETHERNET}
    if len(result) > 1:
        got = " and ".join(sorted(starts))
        raise column_error("frame.protocols", "frames of one link type", f"some that start with {got}")
    return result.pop()


@contextlib.contextmanager
def _placed(path: str, done: int) -> Iterator[None]:
    """Add the file name and row number to errors that are raised in a ``with`` block."""
    with placed(path):
        try:
            yield
        except ColumnError as error:
            row = "" if error.row is None else f"row {done + error.row + 1}, "
            column = ".".join(filter(None, (error.layer, error.field)))
            raise SpecError(where=f"{row}column {column}", needed=error.needed, got=error.got) from None
