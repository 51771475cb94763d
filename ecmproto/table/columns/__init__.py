"""Whole captures as columns: every field of every frame, typed, without an object a frame.

>>> with open_capture("in.pcapng") as reader:
...     for batch in reader:
...         columns = extract(batch, ["vlan.id", "cnm.qntz_fb"], interfaces=reader.interfaces)
...         columns["cnm.qntz_fb"].values.mean()
"""

from __future__ import annotations

from ecmproto.table.columns.asked import every_name
from ecmproto.table.columns.column import Column, Stretches, Texts
from ecmproto.table.columns.extraction import Columns, extract

__all__ = ["Column", "Columns", "Stretches", "Texts", "every_name", "extract"]
