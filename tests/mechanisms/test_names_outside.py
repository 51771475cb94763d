"""Which rooms know a mechanism by name, and why: a list that may only get shorter."""

from __future__ import annotations

import re
from pathlib import Path

import ecmproto

ROOMS = ("engine", "replay", "live", "report")
FLOW_CONTROL = "stations and ports obey PAUSE and PFC beneath any mechanism"
REASONS = {
    ("engine", "pause"): FLOW_CONTROL,
    ("replay", "pause"): FLOW_CONTROL,
    ("live", "pause"): FLOW_CONTROL,
    ("live", "qcn"): "an edge defends CN priorities and speaks LLDP",
    ("live", "e2cm"): "an edge answers probes that come as frames",
    ("live", "dbp"): "a port lowers the rates of reports on their way back",
    ("live", "aimd"): "an edge strips tags if parameters say so",
    ("live", "CNTag"): "an edge defends CN priorities, whose frames carry it",
}
_IMPORT = re.compile(r"^\s*from ecmproto\.mechanisms\.(?!api\b|registry\b|limiter\b)(\w+)", re.M)
_TAG = re.compile(r"\b(CNTag|CMTag|RRTTag|RDTag)\b")


def test_no_more_rooms_know_a_mechanism_than_have_a_reason() -> None:
    found = set()
    for room in ROOMS:
        for path in Path(ecmproto.__file__).with_name(room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found |= {(room, name) for name in (*_IMPORT.findall(text), *_TAG.findall(text))}
    assert found == set(REASONS)
