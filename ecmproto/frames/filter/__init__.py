"""Display filters: Wireshark's syntax and names over every field known here.

>>> filter = compile_filter("vlan.priority == 3 and cnm.qntz_fb > 40")
>>> [record.number for record in records(batch, interfaces) if filter.matches(record)]

`ecmproto.frames.filter.language` says what can be written, and where it differs from Wireshark on purpose;
`filter.fields` what a filter is once it is understood, for whoever evaluates it in another way:
`ecmproto.frames.columns.selection` does so over whole batches, without decoding a frame.

The names are loaded when first used: who wants the names of fields does not wait for the grammar.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.frames.filter.evaluation import Captured, Filter, compile_filter

__all__ = ["Captured", "Filter", "compile_filter"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.evaluation"), name)
