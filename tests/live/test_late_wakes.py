"""A reaction point that wakes up late sends part of the missed frames, and reports the time."""

from __future__ import annotations

from ecmproto.control.engine.config import LoopConfig
from ecmproto.control.live.reaction_point import HOST, NET, ReactionPoint
from ecmproto.control.mechanisms.e2cm.congestion_point import BCN_KIND
from ecmproto.control.mechanisms.e2cm.parameters import E2CMCongestionPointParameters
from ecmproto.control.mechanisms.ecm.congestion_point import ECMFeedback
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import E2CM, decode
from ecmproto.wire.formats.e2cm import PROBE_FWD
from tests.live.virtual import CP_MAC, START_NS, Clock, frame, machine_for
from tests.mechanisms.e2cm.frames import e2cm_message
from tests.mechanisms.e2cm.station import new_point

LINK_BPS = 10**9
MS = 1_000_000
CAUGHT_UP_MS = 10
FRAMES = 300


def limited(clock: Clock) -> tuple[ReactionPoint, float]:
    """Return a reaction point at whose limiter frames wait, and the number that leave in a millisecond."""
    machine = machine_for("e2cm", ["rp.autonomous=on", "rp.probe_octets=2kB"])
    point = ReactionPoint(
        machine, LoopConfig(link_rate_bps=LINK_BPS), seed=1, start_ns=START_NS, send=clock.send,
        longest_octets=1600,
    )  # fmt: skip
    clock.now_ns = START_NS
    frames = [frame(1, 250, 1000, number=n) for n in range(FRAMES)]
    point.take(Batch.from_frames(frames[:1]), HOST, clock.now_ns)
    severe = ECMFeedback(kind=BCN_KIND, qoff_octets=0, qdelta_octets=0, q_off=-2048, q_delta=2048, q=0)
    message = e2cm_message(
        frames[0], severe, meter=new_point(1).meter, cp_mac=CP_MAC, parameters=E2CMCongestionPointParameters()
    )
    assert message is not None
    for _ in range(20):
        point.take(Batch.from_frames([message]), NET, clock.now_ns)
    point.take(Batch.from_frames(frames[1:]), HOST, clock.now_ns)
    clock.pass_until(point, START_NS + 20 * MS)
    before = len(clock.out_of(NET))
    clock.pass_until(point, START_NS + 120 * MS)
    a_ms = (len(clock.out_of(NET)) - before) / 100
    assert 1 < a_ms < 4
    return point, a_ms


def probes_of(clock: Clock) -> list[tuple[int, int]]:
    """Return the departure times of probes, and the timestamps in the probes."""
    found = [(left.time_ns, decode(left.octets).get(E2CM)) for left in clock.left if left.interface == NET]
    return [(time_ns, e2cm.latency) for time_ns, e2cm in found if e2cm and e2cm.type == PROBE_FWD]


def test_a_long_delay_is_not_fully_recovered() -> None:
    clock = Clock()
    point, a_ms = limited(clock)
    before = len(clock.out_of(NET))
    clock.now_ns = point.due_ns + 60 * MS
    point.advance(clock.now_ns)
    assert 1 <= len(clock.out_of(NET)) - before <= CAUGHT_UP_MS * a_ms + 2
    assert point.counts.missed_ns == (60 - CAUGHT_UP_MS) * MS
    # From then on it is as fast as ever.
    before = len(clock.out_of(NET))
    clock.pass_until(point, clock.now_ns + 20 * MS)
    assert abs(len(clock.out_of(NET)) - before - 20 * a_ms) <= 2
    assert point.counts.missed_ns == (60 - CAUGHT_UP_MS) * MS


def test_a_short_delay_is_recovered() -> None:
    clock = Clock()
    point, a_ms = limited(clock)
    before = len(clock.out_of(NET))
    clock.now_ns += 9 * MS
    point.advance(clock.now_ns)
    assert abs(len(clock.out_of(NET)) - before - 9 * a_ms) <= 2
    assert point.counts.missed_ns == 0


def test_probe_timestamps_are_departure_times_when_late() -> None:
    clock = Clock()
    point, _ = limited(clock)
    for pause_ms in (3, 5, 70, 4, 8):
        clock.now_ns += pause_ms * MS
        point.advance(clock.now_ns)
    probes = probes_of(clock)
    assert len({time_ns for time_ns, _ in probes if time_ns > 120 * MS}) >= 3
    assert [stamp for _, stamp in probes] == [time_ns for time_ns, _ in probes]
    assert point.counts.missed_ns > 50 * MS
