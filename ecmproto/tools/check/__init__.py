"""Rules that frames of congestion management keep to, and what in a capture does not.

>>> checked = check_capture("in.pcapng", chosen(select=["QCN"]), {"qcn.w": "2"})
>>> checked.wrong, checked.findings[0].frame, checked.findings[0].what

`Checker` takes batches from anywhere; what it found in parts of a capture may be merged.  The names are
loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecmproto.lazy import lazy

if TYPE_CHECKING:
    from ecmproto.tools.check.checker import Checked, Checker, RuleResult, check_capture
    from ecmproto.tools.check.registry import FAMILIES, chosen, find_rule
    from ecmproto.tools.check.report import Case, Finding
    from ecmproto.tools.check.rule import Family, Judged, Memory, Rows, Rule, Subject

_MODULES = {
    "checker": ("Checked", "Checker", "RuleResult", "check_capture"),
    "registry": ("FAMILIES", "chosen", "find_rule"),
    "report": ("Case", "Finding"),
    "rule": ("Family", "Judged", "Memory", "Rows", "Rule", "Subject"),
}

__all__ = [
    "FAMILIES", "Case", "Checked", "Checker", "Family", "Finding", "Judged", "Memory", "Rows", "Rule",
    "RuleResult", "Subject", "check_capture", "chosen", "find_rule",
]  # fmt: skip

lazy(__name__, _MODULES)
