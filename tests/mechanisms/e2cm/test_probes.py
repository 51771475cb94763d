"""E²CM's probes as frames (wire-formats 1.2 and 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.aimd.reaction_point import LimiterTable
from ecmproto.control.mechanisms.api.machine import MessageDiscards
from ecmproto.control.mechanisms.e2cm.edge import E2CMEdgeCounters, ProbeReply
from ecmproto.control.mechanisms.e2cm.messages import (
    Probe,
    ProbedFlow,
    Reply,
    probe_frame,
    probe_reply,
    probed_flow_of,
    read_probe,
    read_reply,
)
from ecmproto.control.mechanisms.e2cm.parameters import E2CMEdgeParameters, E2CMReactionPointParameters
from ecmproto.kernels.record import new_record

DST, SRC = "020000000002", "020000000001"
FLOW = ProbedFlow(bytes.fromhex(DST), bytes.fromhex(SRC), 0x4EDD)
PAYLOAD = "0800" + "45" * 80


def data(header: str = "8100 7005", dst: str = DST) -> bytes:
    return bytes.fromhex(dst + SRC + header.replace(" ", "") + PAYLOAD)


def sent(
    frame: bytes, now_ns: int = 2**32 + 0x01020304, parameters: E2CMReactionPointParameters | None = None
) -> bytes:
    return probe_frame(
        frame,
        timestamp_ns=now_ns,
        parameters=parameters or E2CMReactionPointParameters(),
    )


def arrived(octets: bytes, counters: E2CMEdgeCounters | None = None) -> Probe | None:
    return read_probe(
        octets,
        stations={bytes.fromhex(DST)},
        counters=new_record(E2CMEdgeCounters) if counters is None else counters,
    )


def answered(octets: bytes) -> bytes:
    probe = arrived(octets)
    assert probe is not None
    return probe_reply(probe, ProbeReply(0xFFFFFFFE, 10_000_000), parameters=E2CMEdgeParameters())


def back(octets: bytes, counters: MessageDiscards | None = None) -> Reply | None:
    return read_reply(
        octets,
        stations={bytes.fromhex(SRC)},
        counters=new_record(LimiterTable) if counters is None else counters,
    )


def padded(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", "")).ljust(60, b"\0")


def test_a_forward_probe_octet_by_octet() -> None:
    assert sent(data()) == padded(
        DST + SRC
        + "8100" + "6005"  # the flow's own priority; DEI 0
        + "88b5" + "0230"  # protocol 2, BCN_PROBE_FWD
        + DST + "0000"  # the flow's destination and local identifier 0
        + "0000 0000"
        + "01020304"  # the timestamp modulo 2^32
        + "4edd" + "00000000"
    )  # fmt: skip


def test_a_reply_octet_by_octet() -> None:
    assert answered(sent(data())) == padded(
        SRC
        + DST
        + "8100"
        + "e005"
        + "88b5"
        + "0240"
        + DST
        + "0000"
        + "00000000"
        + "fffffffe"
        + "4edd"
        + "00989680"
    )


def test_a_probe_there_and_back() -> None:
    probe = arrived(sent(data()))
    assert probe is not None
    assert (probe.flow, probe.timestamp_ns) == (FLOW, 0x01020304)
    assert back(answered(sent(data()))) == Reply(FLOW, 0xFFFFFFFE, 10_000_000)


def test_data_and_probes_name_flows_alike() -> None:
    for header in ("", "8100 b005", "88a8 2001 8100 4002", "8100 6005 22e9 0001"):
        flow = probed_flow_of(data(header))
        probe = arrived(sent(data(header)))
        assert probe is not None
        reply = back(answered(sent(data(header))))
        assert reply is not None
        assert flow == probe.flow == reply.flow


def test_flows_differ_by_priority() -> None:
    assert len({probed_flow_of(data(f"8100 {priority * 2:x}005")) for priority in range(8)}) == 8
    assert probed_flow_of(data("8100 0005")) == probed_flow_of(data(""))


def test_probe_keeps_vlan_stack_except_outer_priority() -> None:
    probe = sent(data("88a8 5001 8100 b002"))
    assert probe[12:22].hex() == "88a84001" + "8100b002" + "88b5"
    assert answered(probe)[12:22].hex() == "88a8e001" + "8100b002" + "88b5"


def test_other_tags_are_not_copied() -> None:
    assert sent(data("8100 6005 22e9 0007")) == sent(data("8100 6005"))


def test_the_priority_of_probes_is_configurable() -> None:
    probe = sent(data(), parameters=E2CMReactionPointParameters(probe_priority=5))
    assert probe[14:16].hex() == "a005"
    # Its flow is still that of the data.
    assert back(answered(probe)) == Reply(FLOW, 0xFFFFFFFE, 10_000_000)


@pytest.mark.parametrize(
    ("at", "octets", "counter"),
    [
        (0, "020000000009", "foreign_address"),
        (0, "030000000002", "group_address"),
        (6, "030000000001", "unanswerable"),
        (6, DST, "unanswerable"),
        (18, "0240", "malformed"),  # a reply
        (18, "0330", "malformed"),  # another protocol
        (16, "0800", "malformed"),
    ],
)
def test_probes_not_to_be_answered_are_counted(at: int, octets: str, counter: str) -> None:
    whole, change = sent(data()), bytes.fromhex(octets)
    counters = new_record(E2CMEdgeCounters)
    assert arrived(whole[:at] + change + whole[at + len(change) :], counters) is None
    assert getattr(counters, counter) == 1


@pytest.mark.parametrize(
    ("at", "octets", "counter"),
    [
        (0, "020000000009", "foreign_address"),
        (0, "030000000001", "group_address"),
        (18, "0230", "malformed"),
        (18, "0200", "malformed"),
    ],
)
def test_replies_not_for_this_station_are_counted(at: int, octets: str, counter: str) -> None:
    whole, change = answered(sent(data())), bytes.fromhex(octets)
    counters = new_record(LimiterTable)
    assert back(whole[:at] + change + whole[at + len(change) :], counters) is None
    assert getattr(counters, counter) == 1


@given(st.binary(max_size=70), st.integers(0, 60))
def test_hostile_octets_are_read_or_counted(junk: bytes, cut: int) -> None:
    whole = sent(data())
    for octets in (junk, whole[:cut], whole[:18] + junk, whole[:20] + junk):
        counters, point = new_record(E2CMEdgeCounters), new_record(LimiterTable)
        if arrived(octets, counters) is None:
            refused = counters.malformed + counters.foreign_address + counters.group_address
            assert refused + counters.unanswerable == 1
        if back(octets, point) is None:
            assert point.malformed + point.foreign_address + point.group_address == 1
