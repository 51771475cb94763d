"""Faults of CNMs, planted one by one: each is found, by its rule, and nothing else is."""

from __future__ import annotations

from tests.check.planting import MS, checked, faults, frame

LINE = "vlan id=5 priority=6 cntag flow_id=7 cnm qntz_fb=12 q_offset=-406 q_delta=0"


def test_version_and_reserved_bits_are_0() -> None:
    seen = [
        (0, frame(LINE)),
        (MS, frame(LINE, version=1)),
        (2 * MS, frame(LINE, reserved=3)),
        (3 * MS, frame(LINE, encap_reserved=1)),
    ]
    result = checked(seen, ["QCN001"])
    assert faults(result) == [("QCN001", 2), ("QCN001", 3), ("QCN001", 4)]
    assert result.findings[1].measured == "Version 0, ReservedV 3, encapsulated reserved 0"


def test_cnms_have_their_priority() -> None:
    other = LINE.replace("priority=6", "priority=3")
    seen = [(0, frame(LINE)), (MS, frame(other)), (2 * MS, frame("cnm"))]
    assert faults(checked(seen, ["QCN002"])) == [("QCN002", 2)]
    assert faults(checked(seen, ["QCN002"], {"qcn.cnm_priority": "3"})) == [("QCN002", 1)]
