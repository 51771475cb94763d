"""Truncated frames break the rule of their family, and complete frames do not."""

from __future__ import annotations

import dataclasses

import pytest

from ecmproto.tools.check import Checker, chosen
from tests.check.planting import MS, batch_of, checked, faults, frame

CNM = frame("vlan id=5 priority=6 cntag flow_id=7 cnm qntz_fb=12 q_offset=-406")
PFC = frame("eth src=02:00:00:00:00:c1 pfc class_enable_vector=8 time3=100")
BCN = frame("vlan id=5 priority=7 bcn e=-40 capacity=10000000")
DATA = "ip udp data data=" + 40 * "00"
SHORT = {
    "QCN000": (CNM, 42), "PFC000": (PFC, 32), "ECM000": (frame("vlan id=5 priority=7 ecm"), 30),
    "BCN000": (BCN, 30), "E2CM000": (frame("vlan id=5 priority=7 e2cm"), 30),
    "FECN000": (frame("vlan id=5 priority=7 fecn"), 22),
    "DOM000": (frame(f"vlan id=5 priority=3 cntag {DATA}"), 20),
}  # fmt: skip
"""A complete frame for each rule, and the length in octets to which the frame is truncated."""


@pytest.mark.parametrize("rule", SHORT)
def test_frame_too_short_for_its_format_is_found(rule: str) -> None:
    whole, octets = SHORT[rule]
    result = checked([(0, whole), (MS, whole[:octets])])
    assert faults(result) == [(rule, 2)]
    assert "got" in result.findings[0].what


@pytest.mark.parametrize("rule", SHORT)
def test_octets_cut_by_the_capture_are_not_missing(rule: str) -> None:
    whole, octets = SHORT[rule]
    batch = batch_of([(0, whole[:octets])])
    checker = Checker(chosen([rule]))
    checker.add(dataclasses.replace(batch, original=batch.captured + len(whole) - octets))
    assert checker.result().wrong == 0


@pytest.mark.parametrize("rule", ["QCN000", "PFC000", "ECM000", "BCN000", "E2CM000", "FECN000"])
def test_complete_messages_break_no_rule(rule: str) -> None:
    result = checked([(0, SHORT[rule][0])], [rule])
    assert (result.wrong, result.results[0].judged) == (0, 1)


def test_a_roce_packet_without_udp_header_is_found() -> None:
    packets = [frame("eth type=0x8915 data data=0011"), frame("vlan id=5 priority=3 ip udp dstport=4791 bth")]
    assert faults(checked([(0, packets[0]), (MS, packets[1])], ["ROCE000"])) == [("ROCE000", 1)]


def test_short_tags_break_their_familys_rule() -> None:
    tags = {"ECM000": "cmtag", "BCN000": "rrttag", "FECN000": "rdtag"}
    for rule, tag in tags.items():
        assert faults(checked([(0, frame(f"vlan id=5 priority=3 {tag} {DATA}")[:24])])) == [(rule, 1)]
