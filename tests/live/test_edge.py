"""The edge of a receiver, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ecmproto.control.live.edge import HOST, NET, Edge
from ecmproto.frames.capture.batch import Batch
from ecmproto.units import RATE_INFINITY
from ecmproto.wire.codec import (
    E2CM,
    VLAN,
    CongestionNotificationTLV,
    Ethernet,
    FECNReturn,
    Frame,
    decode,
    encode,
)
from ecmproto.wire.formats.e2cm import PROBE_REV
from ecmproto.wire.formats.lldp import DESTINATION, TLV
from tests.live.virtual import HOST as MAC
from tests.live.virtual import START_NS, Clock, frame, machine_for
from tests.replay.many_kinds import TAGS
from tests.replay.many_kinds import VLAN as VLAN_HEAD

RECEIVER = 250
EDGE_MAC = bytes.fromhex("0200000000ee")


def edge(clock: Clock, name: str, assignments: Sequence[str] = (), **options: Any) -> Edge:
    chosen: dict[str, Any] = {"link_rate_bps": 10**9, "mac": EDGE_MAC, "seed": 1} | options
    return Edge(machine_for(name, assignments), start_ns=START_NS, send=clock.send, **chosen)


def take(device: Edge, clock: Clock, interface: int, *frames: bytes) -> None:
    clock.left.clear()
    device.take(Batch.from_frames(frames), interface, clock.now_ns)


@pytest.mark.parametrize("name", sorted(TAGS))
@pytest.mark.parametrize("head", ["", VLAN_HEAD])
def test_tags_of_the_mechanism_are_stripped(name: str, head: str) -> None:
    clock = Clock()
    device = edge(clock, name)
    bare = frame(1, RECEIVER, 300, head=head)
    tagged = bare[: 12 + len(bytes.fromhex(head))] + bytes.fromhex(TAGS[name])
    tagged += bare[12 + len(bytes.fromhex(head)) :]
    twice = tagged[: 12 + len(bytes.fromhex(head))] + bytes.fromhex(TAGS[name])
    twice += tagged[12 + len(bytes.fromhex(head)) :]
    take(device, clock, NET, tagged, bare, twice)
    assert clock.out_of(HOST) == [bare, bare, bare]
    assert device.counts.stripped_frames == 2


@pytest.mark.parametrize("name", ["ecm", "bcn"])
def test_strip_no_keeps_the_tags(name: str) -> None:
    clock = Clock()
    device = edge(clock, name, ["edge.strip=no"])
    tagged = frame(1, RECEIVER, 300, head=TAGS[name])
    take(device, clock, NET, tagged)
    assert clock.out_of(HOST) == [tagged]
    assert device.counts.stripped_frames == 0


def test_foreign_tags_and_frames_from_host_are_kept() -> None:
    clock = Clock()
    device = edge(clock, "ecm")
    other = frame(1, RECEIVER, head=TAGS["qcn"])
    take(device, clock, NET, other)
    assert clock.out_of(HOST) == [other]
    take(device, clock, HOST, frame(RECEIVER, 1, head=TAGS["ecm"]))
    assert clock.out_of(NET) == [frame(RECEIVER, 1, head=TAGS["ecm"])]


def test_an_rd_tag_is_returned_to_its_source() -> None:
    clock = Clock()
    device = edge(clock, "fecn")
    take(device, clock, NET, frame(7, RECEIVER, head=f"{VLAN_HEAD} {TAGS['fecn']}"), frame(7, RECEIVER))
    (back,) = clock.out_of(NET)
    decoded = decode(back)
    assert (decoded[Ethernet].dst, decoded[Ethernet].src) == (MAC + b"\x07", MAC + bytes([RECEIVER]))
    assert (decoded[FECNReturn].rlq_id, decoded[FECNReturn].rate) == (1, 255)
    assert decoded[FECNReturn].rate != RATE_INFINITY
    assert decoded[VLAN].priority == 7


def test_probes_are_answered_and_not_forwarded() -> None:
    clock = Clock()
    machine = machine_for("e2cm")
    device = edge(clock, "e2cm")
    data = frame(7, RECEIVER, 1000, head=VLAN_HEAD)
    take(device, clock, NET, data)
    from ecmproto.control.mechanisms.api.mechanism import Role
    from ecmproto.control.mechanisms.e2cm.messages import probe_frame

    replies = []
    for elapsed_ns in (1_000_000, 2_000_000):
        clock.now_ns = START_NS + elapsed_ns
        stamp = elapsed_ns - 5_000
        parameters: Any = machine.parameters[Role.REACTION_POINT]
        probe = probe_frame(data, timestamp_ns=stamp, parameters=parameters)
        take(device, clock, NET, data, probe)
        assert clock.out_of(HOST) == [data]
        (back,) = clock.out_of(NET)
        replies.append(decode(back)[E2CM])
    assert [reply.type for reply in replies] == [PROBE_REV, PROBE_REV]
    assert [reply.latency for reply in replies] == [5_000, 5_000]
    # One frame of 1000 octets between two probes that are 1 ms apart.
    assert [reply.throughput for reply in replies] == [0, 8_000]
    assert device.counts.probes == 2


def test_rate_reports_go_to_active_sources() -> None:
    clock = Clock()
    device = edge(clock, "dbp")
    take(device, clock, NET, frame(7, RECEIVER))
    clock.left.clear()
    clock.pass_until(device, START_NS + 45_000_000)
    reports = clock.out_of(NET)
    assert {octets[:6] for octets in reports} == {MAC + b"\x07"}
    assert 1 <= len(reports) <= 3


class TestDefence:
    CNPV = ("edge.cnpv=3,4",)

    def lldp(self, *, cnpv: int, ready: int, ttl_s: int = 120) -> bytes:
        tlvs = [
            TLV(type=1, length=7, value=b"\x04" + MAC + b"\x01"),
            TLV(type=2, length=2, value=b"\x07a"),
            TLV(type=3, length=2, value=ttl_s.to_bytes(2)),
            CongestionNotificationTLV(cnpv=cnpv, ready=ready),
            TLV(),
        ]
        header = Ethernet(dst=DESTINATION, src=MAC + bytes([RECEIVER]), type=0x88CC)
        return encode(Frame(layers=(header, *tlvs)))

    def frames(self) -> list[bytes]:
        return [frame(1, RECEIVER, head=f"8100 {p << 13 | 5:04x} {TAGS['qcn']}") for p in range(8)]

    def kept(self, device: Edge, clock: Clock) -> list[int]:
        """Return the priorities whose frames keep their CN-TAG."""
        take(device, clock, NET, *self.frames())
        return [p for p, octets in enumerate(clock.out_of(HOST)) if octets == self.frames()[p]]

    def test_an_edge_port_strips_and_remaps_cnpvs(self) -> None:
        clock = Clock()
        device = edge(clock, "qcn", self.CNPV)
        assert self.kept(device, clock) == [0, 1, 2, 5, 6, 7]
        take(device, clock, HOST, *(frame(RECEIVER, 1, head=f"8100 {p << 13:04x}") for p in range(8)))
        assert [decode(octets)[VLAN].priority for octets in clock.out_of(NET)] == [0, 1, 2, 2, 2, 5, 6, 7]

    def test_a_ready_neighbour_receives_the_tags(self) -> None:
        clock = Clock()
        device = edge(clock, "qcn", self.CNPV)
        take(device, clock, HOST, self.lldp(cnpv=0b11000, ready=0b01000))
        assert not clock.out_of(NET)
        assert self.kept(device, clock) == [0, 1, 2, 3, 5, 6, 7]
        take(device, clock, HOST, frame(RECEIVER, 1, head="8100 6005"))
        assert decode(clock.out_of(NET)[0])[VLAN].priority == 3
        clock.pass_until(device, START_NS + 121 * 10**9)
        assert self.kept(device, clock) == [0, 1, 2, 5, 6, 7]
        assert device.snapshot(0).counters["mode_changes"] == 2

    def test_a_configured_mode_ignores_lldp(self) -> None:
        clock = Clock()
        device = edge(clock, "qcn", [*self.CNPV, "edge.mode=3"])
        assert self.kept(device, clock) == list(range(8))
        take(device, clock, HOST, self.lldp(cnpv=0, ready=0))
        assert self.kept(device, clock) == list(range(8))

    def test_its_own_lldp_announces_the_cnpvs(self) -> None:
        clock = Clock()
        device = edge(clock, "qcn", self.CNPV)
        clock.pass_until(device, START_NS + 65 * 10**9)
        said = [left for left in clock.left if left.interface == HOST]
        assert [left.time_ns for left in said] == [0, 30 * 10**9, 60 * 10**9]
        found = decode(said[0].octets)[CongestionNotificationTLV]
        assert (found.cnpv, found.ready) == (0b11000, 0)

    def test_two_alternating_lldp_speakers_are_warned_of(self) -> None:
        clock = Clock()
        device = edge(clock, "qcn", self.CNPV)
        one = self.lldp(cnpv=0b11000, ready=0b01000)
        other = self.lldp(cnpv=0, ready=0)
        other = other[:6] + MAC + b"\x78" + other[12:]
        for octets, speakers, told in ((one, 0, 0), (one, 0, 0), (other, 1, 0), (other, 1, 0), (one, 2, 1)):
            take(device, clock, HOST, octets)
            snapshot = device.snapshot(0)
            assert snapshot.counters["lldp_speaker_changes"] == speakers
            assert len(snapshot.warnings) == told
        assert "at host, 02:00:00:00:00:78 and 02:00:00:00:00:fa: the last" in snapshot.warnings[0]
        assert snapshot.counters["mode_changes"] == 3

    @pytest.mark.parametrize("cut", range(14, 60, 3))
    def test_truncated_lldp_changes_nothing(self, cut: int) -> None:
        clock = Clock()
        device = edge(clock, "qcn", self.CNPV)
        take(device, clock, HOST, self.lldp(cnpv=0xFF, ready=0xFF)[:cut])
        assert self.kept(device, clock) in ([0, 1, 2, 5, 6, 7], list(range(8)))


def test_a_backbones_cnm_is_converted_for_the_customer() -> None:
    clock = Clock()
    device = edge(clock, "qcn")
    customer, away = MAC + b"\x07", MAC + b"\x09"
    msdu = bytes.fromhex("88e7 00000001") + away + customer + bytes.fromhex("8100 6005 22e9 0042 0800 4500")
    head = EDGE_MAC + MAC + b"\xcc" + bytes.fromhex("22e9 0000 22e7")
    pdu = bytes([0, 40]) + bytes(12) + bytes(2) + MAC + b"\xdd" + len(msdu).to_bytes(2) + msdu
    take(device, clock, NET, head + pdu)
    (made,) = clock.out_of(HOST)
    assert made[:6] == customer
    assert device.snapshot(0).mechanism["cnms_converted"] == 1


def test_the_edges_vlan_tag_is_removed_and_added() -> None:
    clock = Clock()
    device = edge(clock, "none", vlan=3 << 13 | 5)
    take(device, clock, NET, frame(1, RECEIVER, head="8100 6005"))
    assert clock.out_of(HOST) == [frame(1, RECEIVER)[:100][:12] + frame(1, RECEIVER, head="8100 6005")[16:]]
    take(device, clock, HOST, frame(RECEIVER, 1))
    assert clock.out_of(NET)[0][12:16] == bytes.fromhex("81006005")
