"""Whole captures as columns: typed arrays of each field, for numpy, Arrow, polars, DuckDB and pandas.

>>> table = read_table("in.pcapng", ["frame.time_epoch", "cnm.cpid", "cnm.qntz_fb"], filter="cnm")
>>> for batch in record_batches("large.pcap.zst", filter="pfc"):
...     ...
>>> write_columns("in.pcapng", "out.parquet")

Frames can also be made from columns:

>>> batch = frames_from(template, 1_000_000, {"cntag.flow_id": flow_ids, "cnm.qntz_fb": 40})

The names are loaded at their first use. Functions that return Arrow types need the extra ``arrow``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

if TYPE_CHECKING:
    from ecmproto.frames.columns.arrow import as_text, schema_of
    from ecmproto.frames.columns.building.frames import frames_from, tagged_batch
    from ecmproto.frames.columns.building.rebuilding import batch_from
    from ecmproto.frames.columns.column import Column, Stretches, Texts, every_name
    from ecmproto.frames.columns.extraction import Columns, extract
    from ecmproto.frames.columns.files import column_batches, read_table, record_batches, write_columns
    from ecmproto.frames.columns.scan import scan_capture
    from ecmproto.frames.columns.selection import count, selected

_MODULES = {
    "arrow": ("as_text", "schema_of"),
    "building.frames": ("frames_from", "tagged_batch"),
    "building.rebuilding": ("batch_from",),
    "column": ("Column", "Stretches", "Texts", "every_name"),
    "extraction": ("Columns", "extract"),
    "files": ("column_batches", "read_table", "record_batches", "write_columns"),
    "scan": ("scan_capture",),
    "selection": ("count", "selected"),
}

__all__ = [
    "Column", "Columns", "Stretches", "Texts", "as_text", "batch_from", "column_batches", "count",
    "every_name", "extract", "frames_from", "read_table", "record_batches", "scan_capture", "schema_of",
    "selected", "tagged_batch", "write_columns",
]  # fmt: skip

lazy(__name__, _MODULES)
