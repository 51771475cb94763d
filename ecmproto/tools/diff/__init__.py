"""Comparison of two captures, frame by frame and field by field, aligned by the frames' contents.

>>> with Comparison("before.pcap", "after.pcapng", rules_of(ignore=["ip.ttl"])) as comparison:
...     for difference in comparison:
...         print(difference.kind, difference.a, difference.b, difference.fields)
...     print(comparison.summary)

The names are loaded at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ecmproto.tools.diff.comparison import Comparison, Difference, Place, Summary
    from ecmproto.tools.diff.document import difference_document, summary_document
    from ecmproto.tools.diff.fields import FieldChange
    from ecmproto.tools.diff.rules import Rules, Tolerance, rules_of

_MODULES = {
    "comparison": ("Comparison", "Difference", "Place", "Summary"),
    "document": ("difference_document", "summary_document"),
    "fields": ("FieldChange",),
    "rules": ("Rules", "Tolerance", "rules_of"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Comparison", "Difference", "FieldChange", "Place", "Rules", "Summary", "Tolerance",
    "difference_document", "rules_of", "summary_document",
]  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
