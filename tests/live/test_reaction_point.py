"""The reaction point of a sender, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.engine.port import ENQUEUED
from ecmproto.control.live.reaction_point import HOST, NET, ReactionPoint
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import CNM, CNTag, decode
from tests.live.virtual import HOST as MAC
from tests.live.virtual import START_NS, Came, Clock, frame, machine_for, switch_port
from tests.replay.loops import BUSY

LINK_BPS = 10**9
RECEIVER = 250
PORT = 1


def reaction_point(clock: Clock, name: str, assignments: Sequence[str] = (), **options: Any) -> ReactionPoint:
    facts = LoopConfig(link_rate_bps=LINK_BPS, queue_octets=options.pop("queue_octets", 1_000_000))
    chosen = {"seed": 1, "longest_octets": 1600} | options
    return ReactionPoint(machine_for(name, assignments), facts, start_ns=START_NS, send=clock.send, **chosen)


def stream(count: int, *, octets: int = 1000, gap_ns: int = 10_000) -> list[Came]:
    return [Came(n * gap_ns, HOST, frame(1, RECEIVER, octets, number=n)) for n in range(count)]


def cnm(qntz_fb: int, *, flow_id: int = 0xFFFF, to: int = 1) -> bytes:
    """Return a CNM about flow 0 of the sender, as `reaction_point` numbers it."""
    octets = bytes.fromhex(f"0200000000{to:02x} 0200000000cc 22e9 {flow_id:04x} 22e7 00{qntz_fb:02x}")
    return (octets + bytes(8 + 4 + 2) + MAC + bytes([RECEIVER]) + bytes(2)).ljust(60, b"\0")


def test_frames_pass_untouched_without_a_mechanism() -> None:
    clock = Clock()
    frames = stream(50)
    clock.drive(reaction_point(clock, "none"), frames)
    assert clock.out_of(NET) == [came.octets for came in frames]
    assert [left.time_ns for left in clock.left] == [came.time_ns for came in frames]


def test_frames_to_the_host_pass_untouched() -> None:
    clock = Clock()
    frames = [Came(n, NET, frame(RECEIVER, 1, 100 + n, number=n)) for n in range(20)]
    clock.drive(reaction_point(clock, "qcn"), frames)
    assert clock.out_of(HOST) == [came.octets for came in frames]


def test_only_a_cn_tag_is_inserted() -> None:
    clock = Clock()
    frames = stream(3)
    clock.drive(reaction_point(clock, "qcn"), frames)
    for came, left in zip(frames, clock.out_of(NET), strict=True):
        assert left == came.octets[:12] + bytes.fromhex("22e9ffff") + came.octets[12:]


def test_a_cnm_slows_its_flow_and_is_consumed() -> None:
    clock = Clock()
    point = reaction_point(clock, "qcn", ["rp.time_reset=1s", "rp.byte_reset=10MB"])
    frames = stream(200, gap_ns=8_300)
    came = [*frames[:100], Came(frames[100].time_ns, NET, cnm(63)), *frames[100:]]
    clock.drive(point, came)
    assert not clock.out_of(HOST)
    leaving = [left for left in clock.left if left.interface == NET]
    assert [left.octets[16:] for left in leaving] == [each.octets[12:] for each in frames]
    gaps = np.diff([left.time_ns for left in leaving])
    assert (gaps[:98] == 8_300).all()
    # A CNM of the largest feedback takes 63/128 of the rate away: frames of 1004 octets at 508 Mb/s.
    assert gaps[110:].min() >= 1004 * 8 / 0.509
    assert point.counts.consumed_frames == 1


def test_feedback_for_others_passes_without_effect() -> None:
    clock = Clock()
    point = reaction_point(clock, "qcn")
    frames = stream(20)
    came = [*frames[:10], Came(frames[10].time_ns, NET, cnm(63, to=77)), *frames[10:]]
    clock.drive(point, came)
    assert clock.out_of(HOST) == [cnm(63, to=77)]
    assert [left.time_ns for left in clock.left if left.interface == NET] == [each.time_ns for each in frames]


@pytest.mark.parametrize("name", ["qcn", "ecm", "bcn"])
def test_a_sender_equals_the_closed_loop_replay(name: str) -> None:
    """One sender through a port with feedback of no delay: closed by replay, and by two live devices."""
    frames = stream(1500, octets=1000, gap_ns=8_500)
    parameters = BUSY[name]
    replay = ClosedLoopReplay(
        [Batch.from_frames([came.octets for came in frames], time_ns=[came.time_ns for came in frames])],
        machine=machine_for(name, parameters),
        port=PortConfig(rate_bps=5 * 10**8, buffer_octets=10**6, overhead_octets=24, cp_mac=MAC + b"\xcc"),
        loop=LoopConfig(link_rate_bps=LINK_BPS, feedback_delay_ns=0),
        seed=1,
    )
    expected = []
    for piece in replay:
        passages = piece.passages[piece.passages["disposition"] == ENQUEUED]
        expected += passages["time_ns"].tolist()
    clock, wire = Clock(), Clock()
    point = reaction_point(clock, name, parameters, longest_octets=2000)
    port = switch_port(
        wire, machine_for(name, parameters), rate_bps=5 * 10**8, buffer_octets=10**6, inputs=1,
        cp_mac=MAC + b"\xcc",
    )  # fmt: skip
    times = _closed(clock, point, wire, port, frames)
    # Each device has a separate seed, unlike in replay, so only the trend is the same.
    assert len(times) == len(expected) == len(frames)
    assert times[-1] == pytest.approx(expected[-1], rel=0.15)
    assert sum(port.messages.values()) > 0


def _closed(clock: Clock, point: ReactionPoint, wire: Clock, port: Any, frames: list[Came]) -> list[int]:
    """Pass frames from the reaction point to the port, and the port's messages back."""
    times: list[int] = []
    pending = list(frames)
    seen = heard = 0
    now_ns = START_NS
    while pending or point.due_ns != NEVER_NS or port.due_ns != NEVER_NS:
        arrival_ns = START_NS + pending[0].time_ns if pending else NEVER_NS
        now_ns = max(now_ns, min(point.due_ns, port.due_ns, arrival_ns))
        clock.now_ns = wire.now_ns = now_ns
        if len(times) == len(frames) and port.due_ns == NEVER_NS:
            break
        if port.due_ns <= now_ns:
            port.advance(now_ns)
        if point.due_ns <= now_ns:
            point.advance(now_ns)
        if arrival_ns <= now_ns:
            point.take(Batch.from_frames([pending.pop(0).octets]), HOST, now_ns)
        while seen < len(clock.left):
            left = clock.left[seen]
            seen += 1
            if left.interface == NET:
                times.append(left.time_ns)
                port.take(Batch.from_frames([left.octets]), 0, now_ns)
            while heard < len(wire.left):
                said = wire.left[heard]
                heard += 1
                if said.interface == 0:
                    point.take(Batch.from_frames([said.octets]), NET, now_ns)
    return times


def test_a_full_queue_drops_and_counts() -> None:
    clock = Clock()
    point = reaction_point(clock, "qcn", ["rp.min_rate=1M", "rp.time_reset=1s"], queue_octets=10_000)
    frames = stream(400, gap_ns=8_300)
    came = [*frames[:10], *(Came(frames[10].time_ns, NET, cnm(63)) for _ in range(12)), *frames[10:]]
    clock.drive(point, came)
    counts = point.counts
    assert counts.held_out_frames > 100
    assert counts.left_frames + counts.held_out_frames == len(frames)
    assert point.snapshot(0).gauges["waiting_frames"] == 0
    assert point.waiting_frames == 0


def test_tags_exceeding_the_mtu_are_omitted() -> None:
    clock = Clock()
    point = reaction_point(clock, "qcn", longest_octets=1000)
    frames = [Came(0, HOST, frame(1, RECEIVER, octets)) for octets in (996, 997, 1000)]
    clock.drive(point, frames)
    assert [len(octets) for octets in clock.out_of(NET)] == [1000, 997, 1000]
    assert point.counts.untagged_frames == 2


def test_the_vlan_tag_is_added_and_removed() -> None:
    clock = Clock()
    point = reaction_point(clock, "none", vlan=3 << 13 | 5)
    bare, tagged = frame(1, RECEIVER), frame(RECEIVER, 1, head="8100 2005")
    other = frame(RECEIVER, 1, head="8100 2006")
    clock.drive(point, [Came(0, HOST, bare), Came(1, HOST, other), Came(2, NET, tagged), Came(3, NET, other)])
    assert clock.out_of(NET) == [bare[:12] + bytes.fromhex("81006005") + bare[12:], other]
    assert clock.out_of(HOST) == [tagged[:12] + tagged[16:], other]


def test_pause_stops_the_sender() -> None:
    clock = Clock()
    point = reaction_point(clock, "none")
    pause = bytes.fromhex("0180c2000001 0200000000cc 8808 0001 0064").ljust(60, b"\0")
    frames = stream(3, gap_ns=1000)
    clock.drive(point, [frames[0], Came(500, NET, pause), *frames[1:]])
    times = [left.time_ns for left in clock.left if left.interface == NET]
    assert times[0] == 0
    # 100 quanta at 1 Gb/s.
    assert times[1] == 500 + 51_200
    assert not clock.out_of(HOST)


def test_forged_messages_are_only_counted() -> None:
    clock = Clock()
    point = reaction_point(clock, "qcn")
    point.take(Batch.from_frames([frame(1, RECEIVER)]), HOST, clock.now_ns)
    forged = [cnm(63, flow_id=n) for n in range(1, 501)]
    for _ in range(4):
        point.take(Batch.from_frames(forged), NET, clock.now_ns)
    mechanism = point.snapshot(0).mechanism
    assert mechanism["unknown_flow"] + mechanism["messages"] >= 2000
    assert mechanism["created"] == 0
    point.take(Batch.from_frames([frame(1, RECEIVER, number=2)]), HOST, clock.now_ns)
    assert len(clock.out_of(NET)) == 2
    assert decode(clock.out_of(NET)[1]).get(CNTag) is not None
    assert decode(cnm(63)).get(CNM) is not None


def test_frames_beyond_the_queue_are_dropped() -> None:
    clock = Clock()
    point = reaction_point(clock, "ecm", queue_octets=10**9)
    pause = bytes.fromhex("0180c2000001 0200000000cc 8808 0001 ffff").ljust(60, b"\0")
    point.take(Batch.from_frames([frame(1, RECEIVER)]), HOST, clock.now_ns)
    point.take(Batch.from_frames([pause]), NET, clock.now_ns)
    batch = Batch.from_frames([frame(1, RECEIVER, 60, number=n) for n in range(1000)])
    for _ in range(20):
        point.take(batch, HOST, clock.now_ns)
    assert point.counts.overflow_frames > 3000
    clock.pass_until(point, NEVER_NS)
    assert point.counts.left_frames + point.counts.overflow_frames == 20_001
