"""Captures as lazy frames of polars; only requested columns are decoded, and only requested rows are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ecmproto.arguments import checked
from ecmproto.errors import MissingDependencyError
from ecmproto.frames.columns.arrow import Addresses, Repeated, schema_of
from ecmproto.frames.columns.column import fields_named
from ecmproto.frames.columns.files import CapturePath, record_batches
from ecmproto.frames.filter import Filter
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    import polars


@checked
def scan_capture(
    path: CapturePath,
    fields: Iterable[str] | None = None,
    *,
    filter: Filter | str | None = None,
    repeated: Repeated = "list",
    addresses: Addresses = "text",
    ethertypes: EtherTypes = DEFAULT,
) -> polars.LazyFrame:
    """Return a capture as a lazy frame of polars; arguments and errors as in `record_batches`.

    A query decodes only the columns that it needs. The query drops frames excluded by its predicates batch by
    batch, and stops after the requested number of rows. A display ``filter`` is applied before any column is
    decoded. Raises MissingDependencyError without polars.
    """
    try:
        import polars
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise MissingDependencyError(package="polars", extra="", purpose="scans of captures") from error
    names = [field.name for field in fields_named(fields)]
    schema = schema_of(names, repeated=repeated, addresses=addresses, ethertypes=ethertypes)

    def rows(
        with_columns: list[str] | None, predicate: polars.Expr | None, n_rows: int | None, size: int | None
    ) -> Iterator[polars.DataFrame]:
        requested = names if with_columns is None else with_columns
        left = n_rows
        for batch in record_batches(
            path, requested, filter=filter, repeated=repeated, addresses=addresses, ethertypes=ethertypes
        ):
            table = polars.DataFrame(batch)
            if left is not None:
                table = table.head(left)
                left -= len(table)
            yield table if predicate is None else table.filter(predicate)
            if left == 0:
                return

    return register_io_source(rows, schema=polars.DataFrame(schema.empty_table()).schema)
