"""Display filters: Wireshark's syntax and names over every field of the formats.

>>> filter = compile_filter("vlan.priority == 3 and cnm.qntz_fb > 40")
>>> [record.number for record in records(batch, interfaces) if filter.matches(record)]

`ecmproto.frames.filter.language` describes the syntax, and its intended differences from Wireshark.
`filter.fields` contains the parsed form of a filter for other evaluators: `ecmproto.frames.columns.selection`
evaluates it over whole batches without decoding a frame.

The names are loaded at their first use, so that field names do not require the load of the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

if TYPE_CHECKING:
    from ecmproto.frames.filter.evaluation import Captured, Filter, compile_filter

__all__ = ["Captured", "Filter", "compile_filter"]

lazy(__name__, {"evaluation": ("Captured", "Filter", "compile_filter")})
