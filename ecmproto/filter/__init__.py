"""Display filters: Wireshark's syntax and names over every field known here.

>>> filter = compile_filter("vlan.priority == 3 and cnm.qntz_fb > 40")
>>> [record.number for record in records(batch, interfaces) if filter.matches(record)]

`ecmproto.filter.grammar` says what can be written, and where it differs from Wireshark on purpose;
`ecmproto.filter.tree` what a filter is once it is understood, for whoever evaluates it in another way:
`ecmproto.table.columns.selection` does so over whole batches, without decoding a frame.
"""

from __future__ import annotations

from ecmproto.filter.filter import Filter, compile_filter
from ecmproto.filter.reading import Captured

__all__ = ["Captured", "Filter", "compile_filter"]
