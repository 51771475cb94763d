"""Whole captures, batch by batch in bounded memory: columns, record batches, a table, a file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ecmproto.capture import Batch, CaptureReader, open_capture
from ecmproto.filter import Filter, compile_filter
from ecmproto.table.columns.arrow import Repeated, arrow, record_batch_of, schema_of
from ecmproto.table.columns.asked import asked
from ecmproto.table.columns.extraction import Columns, extract
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    import pyarrow as pa

Path: TypeAlias = "str | os.PathLike[str] | BinaryIO"


def column_batches(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    threads: int = 2,
) -> Iterator[Columns]:
    """Yield the columns ``fields`` (None: all) of a capture, a batch at a time.

    ``filter`` leaves frames out, and none is read behind ``limit``; ``threads`` 1 keeps to the calling
    thread.  Memory does not grow with the capture; what kept it from being read to its end is in
    ``reader.problem`` afterwards, as ever.
    """
    names = [field.name for field in asked(fields)]
    wanted = compile_filter(filter) if isinstance(filter, str) else filter
    pool = ThreadPoolExecutor(1) if threads > 1 else None
    with pool or contextlib.nullcontext():
        for batch in _up_to(limit, reader):
            kept = batch if wanted is None else _selected(batch, reader, wanted, ethertypes, pool)
            yield extract(kept, names, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)


def record_batches(
    path: Path,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    repeated: Repeated = "list",
    ethertypes: EtherTypes = DEFAULT,
    threads: int = 2,
) -> Iterator[pa.RecordBatch]:
    """Yield a capture as Arrow record batches; see `ecmproto.table.columns.arrow` for their schema.

    MissingDependencyError without pyarrow; CaptureError for what cannot be read, behind the last batch of
    what could.
    """
    names = [field.name for field in asked(fields)]
    schema = schema_of(names, repeated=repeated, ethertypes=ethertypes)
    with open_capture(path) as reader:
        for columns in column_batches(reader, names, filter=filter, ethertypes=ethertypes, threads=threads):
            yield record_batch_of(columns, schema)
        if reader.problem is not None:
            raise reader.problem


def read_table(
    path: Path,
    fields: Iterable[str] | None = None,
    filter: Filter | str | None = None,
    *,
    repeated: Repeated = "list",
    ethertypes: EtherTypes = DEFAULT,
) -> pa.Table:
    """Return a capture as one Arrow table; arguments and errors as in `record_batches`."""
    pa = arrow()
    names = [field.name for field in asked(fields)]
    batches = record_batches(path, names, filter=filter, repeated=repeated, ethertypes=ethertypes)
    schema = schema_of(names, repeated=repeated, ethertypes=ethertypes)
    return pa.Table.from_batches(list(batches), schema)


def _up_to(limit: int | None, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches as far as they go, or up to ``limit`` frames."""
    left = limit
    for batch in batches:
        if left is not None and len(batch) >= left:
            yield batch.select(range(left))
            return
        yield batch
        left = None if left is None else left - len(batch)


def _selected(
    batch: Batch,
    reader: CaptureReader,
    filter: Filter,
    ethertypes: EtherTypes,
    pool: ThreadPoolExecutor | None,
) -> Batch:
    from ecmproto.table.columns.selection import selected

    mask = selected(batch, filter, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)
    return batch.select(mask)
