"""Comparison of two captures, frame by frame and field by field, aligned by the frames' contents.

>>> with Comparison("before.pcap", "after.pcapng", rules_of(ignore=["ip.ttl"])) as comparison:
...     for difference in comparison:
...         print(difference.kind, difference.a, difference.b, difference.fields)
...     print(comparison.summary)

The names are loaded at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

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

__all__ = [
    "Comparison", "Difference", "FieldChange", "Place", "Rules", "Summary", "Tolerance",
    "difference_document", "rules_of", "summary_document",
]  # fmt: skip

lazy(__name__, _MODULES)
