"""Rules that frames of congestion management keep to, and what in a capture does not.

>>> checked = check_capture("in.pcapng", chosen(select=["QCN"]), {"qcn.w": "2"})
>>> checked.wrong, checked.findings[0].frame, checked.findings[0].what

`Checker` takes batches from anywhere; what it found in parts of a capture may be merged.
"""

from __future__ import annotations

from ecmproto.check.checker import Checked, Checker, RuleResult, check_capture
from ecmproto.check.registry import FAMILIES, chosen, find_rule
from ecmproto.check.report import Case, Finding
from ecmproto.check.rule import Family, Judged, Memory, Rows, Rule, Subject

__all__ = [
    "FAMILIES",
    "Case",
    "Checked",
    "Checker",
    "Family",
    "Finding",
    "Judged",
    "Memory",
    "Rows",
    "Rule",
    "RuleResult",
    "Subject",
    "check_capture",
    "chosen",
    "find_rule",
]
