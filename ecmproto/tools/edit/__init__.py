"""Editing of captures: set fields, drop, truncate and wrap frames, change tags, move times, fix checksums.

>>> edit = Edit(assignments=assignments_from(["vlan.id=7"]), filter=compile_filter("vlan"))
>>> report = edit_capture(["in.pcapng"], "out.pcapng", edit)
>>> report.assigned[0].frames

All other octets are written unchanged.
"""

from __future__ import annotations

from ecmproto.tools.edit.assignments import Assignment, assignments_from
from ecmproto.tools.edit.editor import Assigned, Edit, Editor, Report, Tagged, Wrapped, edit_capture
from ecmproto.tools.edit.selection import Frames, Span, frames_from, span_from, tag_from
from ecmproto.tools.edit.wrapping import Wrapper, wrapper_from

__all__ = [
    "Assigned",
    "Assignment",
    "Edit",
    "Editor",
    "Frames",
    "Report",
    "Span",
    "Tagged",
    "Wrapped",
    "Wrapper",
    "assignments_from",
    "edit_capture",
    "frames_from",
    "span_from",
    "tag_from",
    "wrapper_from",
]
