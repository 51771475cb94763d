"""Writing of record batches into a Parquet file by pyarrow, in row groups of bounded size."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ecmproto.tables import arrow

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_FRAMES = 1 << 16
"""Minimum number of frames in every row group except the last; memory holds one row group."""

_VALUES_AT_ONCE = 1 << 14
"""Number of values written by pyarrow at a time; with the default of 1024, writing takes 20 % longer."""
_GROWING = ("frame.number", "frame.time_epoch")
"""Columns whose values are close to the previous values."""


def write_parquet(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, encoded: pa.Schema, stream: Any
) -> int:
    """Write record batches of the schema ``encoded`` to a stream; return the number of frames.

    ``encoded`` is the `columns.arrow.dictionary_schema` of ``schema``. The file stores ``schema``, so that
    readers get plain text.
    """
    import pyarrow.parquet

    stored = {"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes()).decode()}
    frames = rows = 0
    pending: list[pa.RecordBatch] = []
    with pyarrow.parquet.ParquetWriter(stream, encoded, **_settings(encoded)) as writer:
        for batch in batches:
            pending.append(batch)
            frames, rows = frames + batch.num_rows, rows + batch.num_rows
            if rows >= ROW_GROUP_FRAMES:
                writer.write_table(_table(pending, encoded), row_group_size=rows)
                pending, rows = [], 0
        if rows:
            writer.write_table(_table(pending, encoded), row_group_size=rows)
        writer.add_key_value_metadata(stored)
    return frames


def _table(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    # One dictionary for each column: pyarrow writes one dictionary per row group.
    return arrow().Table.from_batches(batches, schema).unify_dictionaries().combine_chunks()


def _settings(schema: pa.Schema) -> dict[str, Any]:
    """Return pyarrow's options for the columns of a schema."""
    pa = arrow()
    # A dictionary is worthwhile for columns with few values. Octet strings would fill a dictionary, and
    # pyarrow would then drop it.
    few = [field.name for field in schema if pa.types.is_dictionary(field.type) or _is_small(field.type)]
    growing = [name for name in _GROWING if name in schema.names]
    # The minimum and maximum allow readers to skip row groups, but rarely for octets or lists.
    bounded = [field.name for field in schema if pa.types.is_integer(field.type) or field.name in growing]
    return {
        "compression": "lz4",
        "use_dictionary": few,
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
        "write_statistics": bounded,
        "write_batch_size": _VALUES_AT_ONCE,
        "store_schema": False,
    }


def _is_small(kind: Any) -> bool:
    pa = arrow()
    if pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) and kind.bit_width <= 16)
