"""Columns of whole captures in bounded memory: batch by batch, as record batches, tables or files.

`write_columns` writes Parquet, Arrow's IPC file format or Arrow's IPC stream format. `fields_present` finds
the fields that occur in a capture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias

from ecmproto.arguments import checked
from ecmproto.frames.capture import Batch, CaptureReader, Interface, open_captures
from ecmproto.frames.capture.batch import first_frames
from ecmproto.frames.capture.names import is_pipe
from ecmproto.frames.capture.writer import Sink, open_sink
from ecmproto.frames.columns.arrow import Addresses, Repeated, dictionary_schema, record_batch_of, schema_of
from ecmproto.frames.columns.column import fields_named
from ecmproto.frames.columns.extraction import Columns, extract
from ecmproto.frames.columns.parquet import write_parquet
from ecmproto.frames.columns.threads import in_order
from ecmproto.frames.filter.fields import DISPLAYED, FilterField
from ecmproto.tables import arrow
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.registry import USUAL_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa

    from ecmproto.frames.filter import Filter

THREADS = 2
"""Default number of threads that extract columns while the caller's thread reads ahead."""

CapturePath: TypeAlias = "str | os.PathLike[str] | BinaryIO"

PendingColumns: TypeAlias = "Columns | Callable[[], Columns]"
"""Columns, or a task that makes the columns."""


def column_batches(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    threads: int = THREADS,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> Iterator[Columns]:
    """Yield the columns ``fields`` of a capture, a batch at a time; ``None`` means all columns.

    ``filter`` selects the frames, and reading stops after ``limit`` frames. With ``threads`` 1, the calling
    thread does all work. ``watch`` receives each batch before the filter is applied. Memory does not grow
    with the capture. If an error ended reading early, the error is in ``reader.problem`` afterwards.
    """
    names = tuple(field.name for field in fields_named(fields))
    works = batch_tasks(reader, lambda: names, filter=filter, limit=limit, ethertypes=ethertypes, watch=watch)
    return in_order(works, threads)


def batch_tasks(
    reader: CaptureReader,
    names: Callable[[], tuple[str, ...]],
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> Iterator[Callable[[], Columns]]:
    """Yield, for each batch, a task that makes the columns ``names()`` of the batch.

    Any thread can run a task, in any order.
    """
    if isinstance(filter, str):
        from ecmproto.frames.filter import compile_filter  # loading the parser takes a tenth of a second

        filter = compile_filter(filter)
    for batch in watch(first_frames(reader, limit)):
        # Interfaces that are described later are appended, so the interfaces of this batch are known.
        made = partial(_columns_of, interfaces=reader.interfaces, names=names, ethertypes=ethertypes)
        if DISPLAYED not in (*names(), *(() if filter is None else filter.fields)):
            yield partial(made, batch, filter=filter)
        elif filter is None:
            yield partial(made, batch.displayed(), filter=None)
        else:  # depends on the frames displayed before
            yield partial(_same, made(batch, filter=filter, displayed=True))


def _columns_of(
    batch: Batch,
    *,
    interfaces: Sequence[Interface],
    names: Callable[[], tuple[str, ...]],
    filter: Filter | None,
    ethertypes: EtherTypes,
    displayed: bool = False,
) -> Columns:
    if filter is not None:
        from ecmproto.frames.columns.selection import selected

        batch = batch.select(selected(batch, filter, interfaces=interfaces, ethertypes=ethertypes))
    return extract(
        batch.displayed() if displayed else batch, names(), interfaces=interfaces, ethertypes=ethertypes
    )


def _same(columns: Columns) -> Columns:
    return columns


@checked
def record_batches(
    path: CapturePath,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
    threads: int = THREADS,
) -> Iterator[pa.RecordBatch]:
    """Yield a capture as Arrow record batches; see `ecmproto.frames.columns.arrow` for their schema.

    Raises MissingDependencyError without pyarrow. Raises CaptureError, after the last readable batch, for an
    unreadable part.
    """
    names = tuple(field.name for field in fields_named(fields))
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    with open_captures((path,)) as reader:
        works = (
            partial(_record_batch_of, columns, schema)
            for columns in batch_tasks(reader, lambda: names, filter=filter, ethertypes=ethertypes)
        )
        yield from in_order(works, threads)
        if reader.problem is not None:
            raise reader.problem


def _record_batch_of(columns: PendingColumns, schema: pa.Schema) -> pa.RecordBatch:
    return record_batch_of(columns() if callable(columns) else columns, schema)


@checked
def read_table(
    path: CapturePath,
    fields: Iterable[str] | None = None,
    filter: Filter | str | None = None,
    *,
    all_fields: bool = False,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
) -> pa.Table:
    """Return a capture as one Arrow table; arguments and errors as in `record_batches`.

    Without ``fields``, the table has the columns of ``dissect -w x.parquet``. With ``all_fields``, the table
    has a column for every field, as `batch_from` needs.
    """
    pa = arrow()
    names = [field.name for field in fields_named(None if all_fields else fields or USUAL_FIELDS)]
    batches = record_batches(
        path, names, filter=filter, repeated=repeated, addresses=addresses, ethertypes=ethertypes
    )
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    return pa.Table.from_batches(list(batches), schema)


def fields_present(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[str, ...]:
    """Return the names among ``fields`` that occur in the rest of a capture; ``None`` means all fields.

    With ``limit``, only the next ``limit`` frames are read. The function looks for one number of each format,
    for all octet strings and for all fields of whole frames, each until its first occurrence.
    """
    requested = fields_named(fields)
    evidence = _evidence(requested)
    unseen = dict.fromkeys(evidence.values())
    works = batch_tasks(reader, lambda: tuple(unseen), filter=filter, limit=limit, ethertypes=ethertypes)
    for columns in in_order(works, THREADS):
        for name in columns.found:
            unseen.pop(name, None)
    return tuple(field.name for field in requested if evidence[field.name] not in unseen)


def _evidence(fields: Iterable[FilterField]) -> dict[str, str]:
    """Return, for each field, a field that is present in the same frames.

    For a field that every layer of its formats has, the result is the first such field with the same formats.
    For any other field, the result is the field itself.
    """
    first: dict[frozenset[type[Layer]], str] = {}
    return {
        field.name: first.setdefault(_formats(field), field.name) if _is_whole(field) else field.name
        for field in fields
    }


def _is_whole(field: FilterField) -> bool:
    """Return whether every layer of the field's formats has the field."""
    whole = all(source.part in ("whole", "bits") for source in field.sources)
    # Empty octets are no value.
    return field.origin == "layers" and whole and not field.inner and field.kind != "octets"


def _formats(field: FilterField) -> frozenset[type[Layer]]:
    return frozenset(source.format for source in field.sources)


Form: TypeAlias = Literal["parquet", "arrow", "stream"]
"""File format: Parquet, Arrow's IPC file format, or Arrow's IPC stream format.

A stream can be read while it is incomplete.
"""


def write_columns(
    path: CapturePath,
    out: str,
    form: Form = "parquet",
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    empty: bool = False,
    ethertypes: EtherTypes = DEFAULT,
    force: bool = False,
) -> int:
    """Write the columns ``fields`` of a capture to the file ``out``; return the number of frames.

    With ``fields`` ``None``, all columns with values are written; with ``empty``, columns without values too.
    A capture that can be read only once, such as a pipe, always gets all columns. Memory does not grow with
    the capture. The file receives its final name only when it is complete. Raises the errors of
    `ecmproto.frames.columns.files.record_batches`, and OutputError.
    """
    names = tuple(field.name for field in fields_named(fields))
    if fields is None and not empty and isinstance(path, str | os.PathLike) and not is_pipe(path):
        with open_captures((path,)) as reader:
            names = fields_present(reader, filter=filter, ethertypes=ethertypes)
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    with open_captures((path,)) as reader, open_sink(out, force=force, whole=form != "stream") as sink:
        works = batch_tasks(reader, lambda: names, filter=filter, ethertypes=ethertypes)
        frames = write_batches(works, schema, sink, form)
        if reader.problem is not None:
            raise reader.problem
        return frames


def write_batches(
    columns: Iterable[PendingColumns],
    schema: pa.Schema,
    sink: Sink,
    form: Form,
    *,
    threads: int = THREADS,
) -> int:
    """Write the columns of batches to ``sink``; return the number of frames.

    ``schema`` is a result of `schema_of`. ``threads`` threads run the tasks of `batch_tasks`. With 1 thread,
    the calling thread does all work.
    """
    if form == "parquet":
        encoded = dictionary_schema(schema)
        batches = in_order((partial(_record_batch_of, each, encoded) for each in columns), threads)
        return write_parquet(batches, schema, encoded, arrow().PythonFile(_Stream(sink), "w"))
    frames = 0
    with _ipc_writer(schema, sink, form) as writer:
        for batch in in_order((partial(_record_batch_of, each, schema) for each in columns), threads):
            writer.write_batch(batch)
            frames += batch.num_rows
    return frames


def _ipc_writer(schema: pa.Schema, sink: Sink, form: Form) -> Any:
    pa = arrow()
    stream = pa.PythonFile(_Stream(sink), "w")
    return pa.ipc.new_file(stream, schema) if form == "arrow" else pa.ipc.new_stream(stream, schema)


class _Stream:
    """A sink as a file object for pyarrow; the code that opened the sink closes it."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        octets = memoryview(data)
        self._sink.write(octets)
        return octets.nbytes

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None: ...
