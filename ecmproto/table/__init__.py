"""Whole captures as columns: fields of every frame as typed arrays, for numpy, Arrow, polars, DuckDB, pandas.

>>> table = read_table("in.pcapng", ["frame.time_epoch", "cnm.cpid", "cnm.qntz_fb"], filter="cnm")
>>> for batch in record_batches("large.pcap.zst", filter="pfc"):
...     ...
>>> write_columns("in.pcapng", "out.parquet")

The names are loaded when first used; those that give Arrow need the extra ``arrow``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.table.columns.arrow import as_text, schema_of
    from ecmproto.table.columns.capture import column_batches, read_table, record_batches
    from ecmproto.table.columns.column import Column
    from ecmproto.table.columns.extraction import Columns, extract
    from ecmproto.table.columns.files import write_columns

_MODULES = {
    "arrow": ("as_text", "schema_of"),
    "capture": ("column_batches", "read_table", "record_batches"),
    "column": ("Column",),
    "extraction": ("Columns", "extract"),
    "files": ("write_columns",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Column", "Columns", "as_text", "column_batches", "extract", "read_table", "record_batches", "schema_of",
    "write_columns",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.columns.{_MODULE_OF[name]}"), name)
