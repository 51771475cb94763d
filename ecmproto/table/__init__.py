"""Whole captures as columns: fields of every frame as typed arrays, for numpy, Arrow, polars, DuckDB, pandas.

>>> table = read_table("in.pcapng", ["frame.time_epoch", "cnm.cpid", "cnm.qntz_fb"], filter="cnm")
>>> for batch in record_batches("large.pcap.zst", filter="pfc"):
...     ...
>>> write_columns("in.pcapng", "out.parquet")

and frames from columns:

>>> batch = frames_from(template, 1_000_000, {"cntag.flow_id": flow_ids, "cnm.qntz_fb": 40})

The names are loaded when first used; those that give Arrow need the extra ``arrow``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.table.building import batch_from, frames_from
    from ecmproto.table.columns.arrow import as_text, schema_of
    from ecmproto.table.columns.capture import column_batches, read_table, record_batches
    from ecmproto.table.columns.column import Column
    from ecmproto.table.columns.extraction import Columns, extract
    from ecmproto.table.columns.files import write_columns
    from ecmproto.table.columns.selection import count, selected

_MODULES = {
    "building": ("batch_from", "frames_from"),
    "columns.arrow": ("as_text", "schema_of"),
    "columns.capture": ("column_batches", "read_table", "record_batches"),
    "columns.column": ("Column",),
    "columns.extraction": ("Columns", "extract"),
    "columns.files": ("write_columns",),
    "columns.selection": ("count", "selected"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Column", "Columns", "as_text", "batch_from", "column_batches", "count", "extract", "frames_from",
    "read_table", "record_batches", "schema_of", "selected", "write_columns",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
