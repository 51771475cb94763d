"""Whole captures, batch by batch in bounded memory: columns, record batches, a table, a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ecmproto.capture import Batch, CaptureReader, Interface, open_capture
from ecmproto.columns.arrow import Addresses, Repeated, arrow, record_batch_of, schema_of
from ecmproto.columns.asked import asked
from ecmproto.columns.extraction import Columns, extract
from ecmproto.columns.threads import in_order
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    import pyarrow as pa

    from ecmproto.filter import Filter

THREADS = 2
"""How many threads find the columns of batches unless told otherwise; the caller's reads ahead of them."""

Path: TypeAlias = "str | os.PathLike[str] | BinaryIO"


def column_batches(
    reader: CaptureReader,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    threads: int = THREADS,
) -> Iterator[Columns]:
    """Yield the columns ``fields`` (None: all) of a capture, a batch at a time.

    ``filter`` leaves frames out, and none is read behind ``limit``; ``threads`` 1 keeps to the calling
    thread.  Memory does not grow with the capture; what kept it from being read to its end is in
    ``reader.problem`` afterwards, as ever.
    """
    names = tuple(field.name for field in asked(fields))
    works = batch_works(reader, lambda: names, filter=filter, limit=limit, ethertypes=ethertypes)
    return in_order(works, threads)


def batch_works(
    reader: CaptureReader,
    names: Callable[[], tuple[str, ...]],
    *,
    filter: Filter | str | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Iterator[Callable[[], Columns]]:
    """Yield what is to be done for the columns of each batch; any thread can do it, and in any order.

    ``names`` is asked for the columns when it is done; the other arguments are those of `column_batches`.
    """
    wanted = _compiled(filter) if isinstance(filter, str) else filter
    for batch in _up_to(limit, reader):
        # more may be described while this is done: they are added behind those that matter here
        yield partial(_columns_of, batch, reader.interfaces, names, wanted, ethertypes)


def _columns_of(
    batch: Batch,
    interfaces: Sequence[Interface],
    names: Callable[[], tuple[str, ...]],
    filter: Filter | None,
    ethertypes: EtherTypes,
) -> Columns:
    if filter is not None:
        from ecmproto.columns.selection import selected

        batch = batch.select(selected(batch, filter, interfaces=interfaces, ethertypes=ethertypes))
    return extract(batch, names(), interfaces=interfaces, ethertypes=ethertypes)


def record_batches(
    path: Path,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
    threads: int = THREADS,
) -> Iterator[pa.RecordBatch]:
    """Yield a capture as Arrow record batches; see `ecmproto.columns.arrow` for their schema.

    MissingDependencyError without pyarrow; CaptureError for what cannot be read, behind the last batch of
    what could.
    """
    names = tuple(field.name for field in asked(fields))
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
    with open_capture(path) as reader:
        works = (
            partial(_record_batch_of, columns, schema)
            for columns in batch_works(reader, lambda: names, filter=filter, ethertypes=ethertypes)
        )
        yield from in_order(works, threads)
        if reader.problem is not None:
            raise reader.problem


def _record_batch_of(columns: Callable[[], Columns], schema: pa.Schema) -> pa.RecordBatch:
    return record_batch_of(columns(), schema)


def read_table(
    path: Path,
    fields: Iterable[str] | None = None,
    filter: Filter | str | None = None,
    *,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
) -> pa.Table:
    """Return a capture as one Arrow table; arguments and errors as in `record_batches`."""
    pa = arrow()
    names = [field.name for field in asked(fields)]
    batches = record_batches(
        path, names, filter=filter, repeated=repeated, addresses=addresses, ethertypes=ethertypes
    )
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)
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


def _compiled(text: str) -> Filter:
    # the grammar takes a tenth of a second to load
    from ecmproto.filter import compile_filter

    return compile_filter(text)
