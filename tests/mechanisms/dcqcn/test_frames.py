"""DCQCN on frames: CNPs made and read, marks in open and closed loops, live devices in virtual time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.arrivals import Intake
from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.engine.frames import tagged_frames
from ecmproto.control.live.edge import HOST, NET, Edge
from ecmproto.control.live.reaction_point import HOST as FROM_HOST
from ecmproto.control.live.reaction_point import NET as TO_NET
from ecmproto.control.live.reaction_point import ReactionPoint
from ecmproto.control.mechanisms.api.machine import PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import Message
from ecmproto.control.mechanisms.dcqcn.notification_point import CNP_KIND
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.control.replay.closed_output import ClosedLoopOutput
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.batch import Batch
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import TCP, UDP, VLAN, Data, Ethernet, Frame, IPv4, IPv6, decode, encode
from ecmproto.wire.flow import Conversation, QueuePair
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.infiniband import AETH, BTH, CNP, ICRC
from ecmproto.wire.formats.ip import CE, ECT0, NOT_ECT
from tests.live.virtual import START_NS, Clock, switch_port
from tests.mechanisms.parsing import parse_frame
from tests.replay.loops import CP_MAC, machine

A, B = bytes([10, 0, 17, 1]), bytes([10, 0, 18, 1])
A6, B6 = bytes([0x20, 1, 13, 0xB8]) + bytes(11) + b"\1", bytes([0x20, 1, 13, 0xB8]) + bytes(11) + b"\2"
MAC_A, MAC_B = bytes.fromhex("02000000000a"), bytes.fromhex("02000000000b")
PLACE = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=CP_MAC, stations=2, flows=4)


def data(
    psn: int = 0, *, qp: int = 0x201, ecn: int = ECT0, octets: int = 1000, source: int = 0,
    vlan: bool = True, is_6: bool = False,
) -> bytes:  # fmt: skip
    """Return a frame of RoCEv2 from A, or a neighbour of it, to B."""
    sender = A[:-1] + bytes([A[-1] + source])
    ip: Layer = IPv4(src=sender, dst=B, dsfield=26 << 2 | ecn, flags=2)
    if is_6:
        ip = IPv6(src=A6, dst=B6, tclass=26 << 2 | ecn)
    return _frame(
        MAC_B, MAC_A[:-1] + bytes([MAC_A[-1] + 16 * source]), ip, UDP(srcport=50_000),
        BTH(opcode=7, qp=qp, psn=psn),
        Data(data=bytes(octets)), ICRC(), vlan=vlan,
    )  # fmt: skip


def _frame(dst: bytes, src: bytes, *layers: Layer, vlan: bool = True) -> bytes:
    tags = (VLAN(id=100, priority=3),) if vlan else ()
    return encode(Frame(layers=(Ethernet(dst=dst, src=src), *tags, *layers)), fix=True)


def cnp(about: bytes, *, queue_pair: int = 0, assignments: tuple[str, ...] = ()) -> bytes:
    message = new_record(Message)
    message.kind = CNP_KIND
    own = machine("dcqcn", *assignments)
    return own.frame(message, SampledFrame(about, len(about), 0, queue_pair), PLACE)


def summed(octets: bytes) -> int:
    total = sum(int.from_bytes(octets[at : at + 2]) for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def ecn_of(octets: bytes) -> int:
    frame = decode(octets)
    assert summed(octets[octets.index(b"\x08\x00", 12) + 2 :]) == 0xFFFF
    return frame[IPv4].dsfield & 3


def test_the_vector_of_the_specification_is_made() -> None:
    made = cnp(data(vlan=False), queue_pair=0x118)
    frame = decode(made)
    wanted = bytes.fromhex(
        "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118"
        "00000000" + "00" * 16 + "82fd002a"
    )
    assert len(made) == 74
    assert (frame[Ethernet].dst, frame[Ethernet].src) == (MAC_A, MAC_B)
    assert (frame[IPv4].src, frame[IPv4].dst, frame[IPv4].dsfield) == (B, A, 48 << 2)
    # The BTH and the following octets except the CRC equal the vector's octets.
    assert made[42:70] == wanted[42:70]
    bth = frame[CNP]
    assert (bth.opcode, bth.becn, bth.qp, bth.psn, bth.reserved) == (0x81, 1, 0x118, 0, bytes(16))
    # The CRC of the vector equals the CRC that is computed here.
    parsed, counted = parse_frame(machine("dcqcn"), wanted, wanted[:6], PLACE)
    assert parsed is not None
    assert parsed.about is not None
    assert parsed.about.queue_pair == QueuePair(bytes([10, 0, 18, 1]), bytes([10, 0, 17, 1]), 0x118)
    assert counted == {}


@pytest.mark.parametrize("is_6", [False, True])
@pytest.mark.parametrize("vlan", [False, True])
def test_a_cnp_is_parsed_as_what_it_is(is_6: bool, vlan: bool) -> None:
    made = cnp(
        data(is_6=is_6, vlan=vlan), queue_pair=0x101, assignments=("edge.cnp_dscp=12", "edge.cnp_priority=5")
    )
    frame = decode(made)
    packet: Any = frame[IPv6] if is_6 else frame[IPv4]
    assert (packet.tclass if is_6 else packet.dsfield) == 12 << 2
    assert VLAN in frame if vlan else VLAN not in frame
    if vlan:
        assert (frame[VLAN].priority, frame[VLAN].id) == (5, 100)
    parsed, counted = parse_frame(machine("dcqcn"), made, MAC_A, PLACE)
    assert counted == {}
    assert parsed is not None
    assert parsed.about is not None
    assert parsed.about.queue_pair == (QueuePair(A6, B6, 0x101) if is_6 else QueuePair(A, B, 0x101))


def test_flows_without_queue_pair_get_substitute_number() -> None:
    tcp = _frame(
        MAC_B, MAC_A, IPv4(src=A, dst=B, dsfield=CE), TCP(srcport=40_000, dstport=5201), Data(data=b"x")
    )
    assert decode(cnp(tcp))[CNP].qp == Conversation(A, B, 6, 40_000, 5201, None).stand_in
    assert decode(cnp(data()))[CNP].qp == 0
    with pytest.raises(ValueError, match="a CNP needs an IP packet"):
        cnp(MAC_B + MAC_A + b"\x08\x06" + bytes(46))


def test_forged_cnps_are_refused_and_counted() -> None:
    good = cnp(data(), queue_pair=0x101)
    at = len(good) - 1
    for octets, mac, reason in (
        (b"\x03" + good[1:], MAC_A, "group_address"),
        (good, MAC_B, "foreign_address"),
        (good, b"", "foreign_address"),
        (good[:at] + bytes([good[at] ^ 1]), MAC_A, "malformed"),
        (good[:53] + bytes([good[53] ^ 1]) + good[54:], MAC_A, "malformed"),
    ):
        assert parse_frame(machine("dcqcn"), octets, mac, PLACE) == (None, {reason: 1})
    # What switches change is none of the CRC's.
    hop = bytearray(good)
    hop[18 + 1] |= 3
    assert parse_frame(machine("dcqcn"), bytes(hop), MAC_A, PLACE).feedback is not None
    assert (
        parse_frame(machine("dcqcn"), good[:60], MAC_A, PLACE, length_octets=len(good)).feedback is not None
    )


def burst(count: int, *, ecn: int = ECT0, gap_ns: int = 400, senders: int = 1, first: int = 0) -> list[Batch]:
    frames = [
        data(number // senders, ecn=ecn, source=number % senders, qp=0x201 + number % senders)
        for number in range(count)
    ]
    time_ns = [(first + number) * gap_ns for number in range(count)]
    return [Batch.from_frames(frames, time_ns=time_ns)]


PORT = PortConfig(rate_bps=10**9, buffer_octets=200_000, cp_mac=CP_MAC)


@pytest.mark.parametrize("ecn", [ECT0, NOT_ECT, CE])
def test_open_loop_marks_ect_frames_in_output(ecn: int) -> None:
    own = machine("dcqcn", "cp.kmin=10kB", "cp.kmax=60kB", "cp.pmax=0.5")
    batches = burst(150, ecn=ecn)
    replay = OpenLoopReplay(batches, machine=own, port=PORT, seed=1)
    (replayed,) = replay
    came, went = list(batches[0].frames()), list(replayed.forwarded().frames())
    marked = [ecn_of(octets) == CE for octets in went]
    (port,) = replay.summary().ports
    if ecn != ECT0:
        assert went == came
        assert port.counters["marked_frames"] == 0
        return
    assert port.counters == {
        "ect_frames": 150, "marked_frames": sum(marked), "ce_frames": 0, "not_ect_frames": 0,
    }  # fmt: skip
    assert 0 < sum(marked[10:60]) < 50
    assert not any(marked[:10])
    # The queue is above Kmax: every frame that is enqueued.
    assert all(marked[70:150])
    assert [_without_ecn(a) for a in came] == [_without_ecn(b) for b in went]


def _without_ecn(octets: bytes) -> bytes:
    return octets[:19] + bytes([octets[19] & ~3]) + octets[20:28] + octets[30:]


def closed(batches: list[Batch], *assignments: str, **facts: Any) -> Any:
    return ClosedLoopReplay(
        batches,
        machine=machine("dcqcn", "cp.kmin=10kB", "cp.kmax=40kB", *assignments),
        port=PORT,
        loop=LoopConfig(link_rate_bps=10**9, feedback_delay_ns=5_000, **facts),
        seed=1,
    )


def test_closed_loop_slows_queue_pairs_and_writes_cnps(tmp_path: Any) -> None:
    class Reader:
        format = "pcapng"

    acknowledge = _frame(
        MAC_A,
        MAC_B,
        IPv4(src=B, dst=A, dsfield=0),
        UDP(srcport=9),
        BTH(opcode=0x11, qp=0x101, psn=1),
        AETH(),
        ICRC(),
    )
    batches = [*burst(40, senders=2), Batch.from_frames([acknowledge], time_ns=[16_000], first=40)]
    (later,) = burst(560, senders=2, gap_ns=4_000, first=41)
    batches.append(Batch.from_frames(list(later.frames()), time_ns=later.time_ns.tolist(), first=41))
    replay = closed(batches, "rp.min_rate=1M")
    reader: Any = Reader()
    path = tmp_path / "out.pcapng"
    with ClosedLoopOutput(reader, path, force=True) as output:
        for taken, pieces in replay.batches():
            if taken is not None:
                output.take(taken)
            for piece in pieces:
                output.write(piece, replay)
    summary = replay.summary(drained=True)
    assert summary.ports[0].messages["CNP"] > 2
    assert summary.stations.counters["cnps"] > 2
    assert summary.stations.limited_frames > 0
    with open_capture(path) as written:
        seen = [octets for batch in written for octets in batch.frames()]
    notices = [decode(octets)[CNP] for octets in seen if CNP in decode(octets)]
    assert len(notices) == summary.ports[0].messages["CNP"]
    # The acknowledge identifies one queue pair. The sender of the other queue pair is unknown.
    assert {notice.qp for notice in notices} == {0x101, 0}
    assert any(ecn_of(octets) == CE for octets in seen)


def test_non_ect_frames_stay_unmarked_without_rp_ect() -> None:
    replay = closed(burst(300, ecn=NOT_ECT, senders=2, gap_ns=4_000))
    list(replay)
    (port,) = replay.summary().ports
    assert port.messages == {}
    (remark,) = port.remarks
    assert remark.startswith("DCQCN never marked: ")
    replay = closed(burst(300, ecn=NOT_ECT, senders=2, gap_ns=4_000), "rp.ect=yes")
    list(replay)
    (port,) = replay.summary().ports
    assert port.messages["CNP"] > 0
    assert port.remarks == ()


def test_frames_made_ect_have_right_checksums() -> None:
    batch = Batch.from_frames([data(ecn=NOT_ECT), data(ecn=CE)])
    own = machine("dcqcn")
    taken = Intake(own, cp_mac=CP_MAC, ethertypes=PLACE.ethertypes, interfaces=(), flows=None).take(batch)
    passages = np.zeros(2, [("tagged", np.int64), ("tag", np.int64), ("mark", np.int64)])
    passages["tagged"], passages["tag"] = 1, [ECT0, CE]
    (first, second) = tagged_frames(taken, np.arange(2), passages, own, PLACE.ethertypes).frames()
    assert (ecn_of(first), second) == (ECT0, data(ecn=CE))


def test_captured_cnp_slows_the_queue_pair_it_names() -> None:
    frames = [(0, data(0, qp=0x201)), (1_000, data(500, qp=0x202))]
    for number, (qp, psn) in enumerate([(0x101, 500), (0x102, 0)]):
        said = BTH(opcode=0x11, qp=qp, psn=psn)
        octets = _frame(MAC_A, MAC_B, IPv4(src=B, dst=A), UDP(srcport=9), said, AETH(), ICRC())
        frames.append((2_000 + number, octets))
    frames.append((10_000, cnp(data(), queue_pair=0x101)))
    frames += [(20_000 + n, data(501 + n, qp=0x202)) for n in range(20)]
    frames += [(20_100 + n, data(1 + n, qp=0x201)) for n in range(20)]
    batch = Batch.from_frames([octets for _, octets in frames], time_ns=[time_ns for time_ns, _ in frames])
    replay = closed([batch], captured_feedback=True)
    pieces = list(replay)
    summary = replay.summary()
    assert summary.stations.counters["cnps"] == summary.stations.counters["heard_messages"] == 1
    assert summary.stations.counters["unknown_flow"] == 0
    limited = np.concatenate([piece.passages for piece in pieces])
    labels = {flow.flow: flow.label for flow in replay.flows.flows() if flow.source == MAC_A}
    assert {labels[int(flow)] for flow in limited["flow"][limited["limit_bps"] > 0]} == {
        "10.0.17.1 → 10.0.18.1 QP 0x202"
    }


def test_live_marks_become_cnps_and_slow_the_sender() -> None:
    own = machine("dcqcn", "cp.kmin=5kB", "cp.kmax=20kB", "rp.timer=10ms")
    clock = Clock()
    port = switch_port(clock, own, rate_bps=10**8)
    for number in range(60):
        port.take(Batch.from_frames([data(number)]), 0, clock.now_ns)
    clock.pass_until(port, clock.now_ns + 10**9)
    marked = clock.out_of(2)
    assert len(marked) == 60
    assert [ecn_of(octets) for octets in marked[:4]] == [ECT0] * 4
    assert [ecn_of(octets) for octets in marked[30:]] == [CE] * 30
    assert port.snapshot(clock.now_ns).mechanism["marked_frames"] == sum(ecn_of(x) == CE for x in marked)

    at_edge = Clock()
    edge = Edge(own, link_rate_bps=10**8, mac=CP_MAC, seed=1, start_ns=START_NS, send=at_edge.send)
    edge.take(Batch.from_frames(marked[:1]), NET, at_edge.now_ns)
    said = BTH(opcode=0x11, qp=0x101, psn=0)
    acknowledge = _frame(MAC_A, MAC_B, IPv4(src=B, dst=A), UDP(srcport=9), said, AETH(), ICRC())
    edge.take(Batch.from_frames([acknowledge]), HOST, at_edge.now_ns)
    edge.take(Batch.from_frames(marked[1:]), NET, at_edge.now_ns)
    assert at_edge.out_of(HOST) == marked
    back = at_edge.out_of(NET)
    assert back[0] == acknowledge
    (notice,) = back[1:]
    assert decode(notice)[CNP].qp == 0x101
    assert edge.snapshot(at_edge.now_ns).mechanism["suppressed"] > 20

    behind = Clock()
    sender = ReactionPoint(
        own, LoopConfig(link_rate_bps=10**8), seed=1, start_ns=START_NS, send=behind.send, longest_octets=1600
    )
    other = data(500, qp=0x202)
    sender.take(Batch.from_frames([data(0), other]), FROM_HOST, behind.now_ns)
    # Of two queue pairs, acknowledges from the network tell which is meant.
    said = BTH(opcode=0x11, qp=0x102, psn=500)
    later = _frame(MAC_A, MAC_B, IPv4(src=B, dst=A), UDP(srcport=9), said, AETH(), ICRC())
    sender.take(Batch.from_frames([later, acknowledge]), TO_NET, behind.now_ns)
    sender.take(Batch.from_frames([notice]), TO_NET, behind.now_ns)
    assert behind.out_of(FROM_HOST) == [later, acknowledge]
    counters = sender.snapshot(behind.now_ns).mechanism
    assert (counters["cnps"], counters["unknown_flow"], counters["decreases"]) == (1, 0, 1)
    for number in range(1, 4):
        sender.take(Batch.from_frames([data(number)]), FROM_HOST, behind.now_ns)
    behind.pass_until(sender, behind.now_ns + 10**9)
    sender.take(Batch.from_frames([other]), FROM_HOST, behind.now_ns)
    assert behind.out_of(TO_NET)[1] == behind.out_of(TO_NET)[-1] == other
    times_ns = [left.time_ns for left in behind.left if left.octets in [data(n) for n in range(4)]]
    # Half of 100 Mb/s: a frame each 170 µs.
    assert np.diff(times_ns[1:]).min() > 150_000
    assert len(times_ns) == 4
