"""Pause times, compared with hand calculations: renewed, shortened, ended, truncated and merged pauses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.stats import Accumulator, ClassPause, PauseTimes
from ecmproto.frames.stats.pauses import MAX_LANES, MAX_SENDERS
from ecmproto.wire.codec import PFC, Data, Ethernet, Frame, Pause, encode

EAST, WEST = bytes.fromhex("02000000000e"), bytes.fromhex("02000000000f")
DA = bytes.fromhex("0180c2000001")
START_NS = 10**18
LINKS = (
    Interface(index=0, linktype=1, speed_bps=10 * 10**9),
    Interface(index=1, linktype=1, speed_bps=100 * 10**9),
    Interface(index=2, linktype=1),
)


def pause(quanta: int, source: bytes = EAST) -> bytes:
    """PAUSE: 51.2 ns a quantum at 10 Gb/s."""
    return encode(Frame(layers=(Ethernet(dst=DA, src=source), Pause(pause_time=quanta))), fix=True)


def pfc(source: bytes = EAST, **times: int) -> bytes:
    """PFC that enables the classes named, as in ``time3=10``."""
    enabled = sum(1 << int(name.removeprefix("time")) for name in times)
    layers = (Ethernet(dst=DA, src=source), PFC(class_enable_vector=enabled, **times))
    return encode(Frame(layers=layers), fix=True)


def other() -> bytes:
    return encode(Frame(layers=(Ethernet(dst=WEST, src=EAST), Data(data=bytes(50)))), fix=True)


def times_of(
    events: Iterable[tuple[int, bytes] | tuple[int, bytes, int]], *, speed_bps: int = 10**10
) -> PauseTimes:
    """Return the pause times of frames at ns from the start, on interface 0 unless a third value names
    another.
    """
    counts = Accumulator(speed_bps=speed_bps)
    for at, octets, *interface in events:
        batch = Batch.from_frames([octets], time_ns=START_NS + at, interface=interface[0] if interface else 0)
        counts.add(batch, interfaces=LINKS)
    pauses = counts.result().pauses
    assert pauses is not None
    return pauses


def paused(pauses: PauseTimes, priority: int | None, sender: int = 0) -> ClassPause:
    return next(each for each in pauses.senders[sender].classes if each.priority == priority)


def test_pause_time_rounds_up_to_whole_ns() -> None:
    pauses = times_of([(0, pause(3)), (10_000, other())])
    assert paused(pauses, None).paused_ns == 154  # 3 × 51.2 = 153.6


@pytest.mark.parametrize(
    ("speed_bps", "quantum_ns"), [(10**9, 512), (25 * 10**9, 20.48), (40 * 10**9, 12.8), (400 * 10**9, 1.28)]
)
def test_quanta_at_an_assumed_speed(speed_bps: int, quantum_ns: float) -> None:
    pauses = times_of([(0, pause(100), 2), (10**9, other(), 2)], speed_bps=speed_bps)
    assert paused(pauses, None).paused_ns == 100 * quantum_ns
    assert (pauses.senders[0].speed_bps, pauses.senders[0].speed_is_stated) == (speed_bps, False)


def test_the_capture_states_the_speed() -> None:
    pauses = times_of([(0, pause(1000), 1), (10**9, other(), 1)], speed_bps=10**9)
    assert paused(pauses, None).paused_ns == 5120
    assert (pauses.senders[0].speed_bps, pauses.senders[0].speed_is_stated) == (100 * 10**9, True)


def test_a_pause_is_renewed_before_it_ends() -> None:
    pauses = times_of([(0, pause(100)), (3000, pause(100)), (10**6, other())])
    assert paused(pauses, None) == ClassPause(
        priority=None,
        pauses=2,
        resumes=0,
        paused_ns=3000 + 5120,
        transitions=1,
        recent_ns=START_NS,
        recent_paused_ns=3000 + 5120,
        expired=1,
        paused_ns_over_time=paused(pauses, None).paused_ns_over_time,
    )


def test_a_pause_is_renewed_after_it_ended() -> None:
    pauses = times_of([(0, pause(10)), (3000, pause(10)), (10**6, other())])
    assert paused(pauses, None).paused_ns == 2 * 512


def test_shorter_pause_replaces_the_longer() -> None:
    pauses = times_of([(0, pause(1000)), (100, pause(10)), (10**6, other())])
    assert paused(pauses, None).paused_ns == 100 + 512


def test_zero_quanta_end_a_pause() -> None:
    pauses = times_of([(0, pause(1000)), (700, pause(0)), (10**6, other())])
    ended = paused(pauses, None)
    assert (ended.paused_ns, ended.pauses, ended.resumes) == (700, 1, 1)


def test_a_pause_beyond_the_end_is_cut_there() -> None:
    pauses = times_of([(0, pause(65535)), (2000, other())])
    assert paused(pauses, None).paused_ns == 2000


def test_pfc_that_enables_nothing_is_counted() -> None:
    assert times_of([(0, pfc()), (1000, other())]).senders[0].frames == 1


def test_pfc_stops_the_classes_that_it_enables() -> None:
    pauses = times_of([(0, pfc(time0=10, time3=20)), (200, pfc(time3=0, time5=1)), (10**6, other())])
    assert [each.priority for each in pauses.senders[0].classes] == [0, 3, 5]
    assert paused(pauses, 0).paused_ns == 512
    assert paused(pauses, 3).paused_ns == 200
    assert paused(pauses, 5).paused_ns == 52
    over_time = [sum(each.paused_ns_over_time) for each in pauses.senders[0].classes]
    assert over_time == [512, 200, 52]
    # from 0 to 512: class 5 from 200 to 252 lies within
    assert pauses.senders[0].paused_ns == 512


def test_time_of_a_disabled_class_is_ignored() -> None:
    octets = encode(
        Frame(layers=(Ethernet(dst=DA, src=EAST), PFC(class_enable_vector=2, time1=5, time4=9))), fix=True
    )
    pauses = times_of([(0, octets), (10**6, other())])
    assert [(each.priority, each.paused_ns) for each in pauses.senders[0].classes] == [(1, 256)]


def test_sender_time_unites_pause_and_pfc() -> None:
    pauses = times_of([(0, pause(10)), (400, pfc(time6=10)), (10**6, other())])
    assert paused(pauses, None).paused_ns == paused(pauses, 6).paused_ns == 512
    assert pauses.senders[0].paused_ns == 400 + 512
    assert [each.priority for each in pauses.senders[0].classes] == [None, 6]


def test_both_directions_of_a_link() -> None:
    pauses = times_of(
        [(0, pfc(EAST, time3=10)), (256, pfc(WEST, time3=10)), (300, pfc(EAST, time3=0)), (10**6, other())]
    )
    assert [(each.source, each.paused_ns) for each in pauses.senders] == [(WEST, 512), (EAST, 300)]
    (port,) = pauses.interfaces
    assert (port.frames, port.paused_ns) == (3, 256 + 512)
    assert [(each.priority, each.pauses, each.resumes, each.paused_ns) for each in port.classes] == [
        (3, 2, 1, 768)
    ]


def test_the_longest_pause_of_an_interface_is_shortened() -> None:
    pauses = times_of([(0, pause(20, EAST)), (0, pause(10, WEST)), (100, pause(0, EAST)), (10**6, other())])
    assert pauses.interfaces[0].paused_ns == 512


def test_one_source_on_two_interfaces_is_two_senders() -> None:
    pauses = times_of([(0, pause(10), 0), (0, pause(10), 1), (10**6, other())])
    assert [(each.interface, each.paused_ns) for each in pauses.senders] == [(0, 512), (1, 52)]
    assert [each.interface for each in pauses.interfaces] == [0, 1]


def test_earlier_time_stamp_does_not_rewind() -> None:
    pauses = times_of([(5000, pause(10)), (0, pause(20)), (10**6, other())])
    # The second pause counts from 5000, when it replaces the first pause.
    assert paused(pauses, None).paused_ns == 1024


def test_the_times_of_an_interface_are_its_own() -> None:
    pauses = times_of([(5000, pause(10), 0), (0, pause(10, WEST), 1), (10**6, other())])
    assert sorted(each.paused_ns for each in pauses.senders) == [52, 512]


def test_pauses_over_time_fall_into_their_intervals() -> None:
    counts = Accumulator(interval_ns=1000)
    frames, times = [pause(50), pause(10), other()], [START_NS, START_NS + 4100, START_NS + 5500]
    counts.add(Batch.from_frames(frames, time_ns=times))
    pauses = counts.result().pauses
    assert pauses is not None
    assert paused(pauses, None).paused_ns_over_time == (1000, 1000, 560, 0, 512, 0)


def test_result_is_repeatable_and_may_be_extended() -> None:
    counts = Accumulator()
    counts.add(Batch.from_frames([pause(100), other()], time_ns=[START_NS, START_NS + 100]))
    first, again = counts.result(), counts.result()
    assert first == again
    assert first.pauses is not None
    assert first.pauses.senders[0].paused_ns == 100
    counts.add(Batch.from_frames([other()], time_ns=START_NS + 10**6))
    last = counts.result().pauses
    assert last is not None
    assert last.senders[0].paused_ns == 5120


def test_excess_senders_are_left_out() -> None:
    sources = [number.to_bytes(6) for number in range(1, MAX_SENDERS + 6)]
    counts = Accumulator()
    frames = [pause(10, source) for source in sources] + [other()]
    counts.add(Batch.from_frames(frames, time_ns=[START_NS] * len(sources) + [START_NS + 10**6]))
    statistics = counts.result()
    assert statistics.pauses is not None
    assert [each.source for each in statistics.pauses.senders] == sources[:MAX_SENDERS]
    assert {each.paused_ns for each in statistics.pauses.senders} == {512}
    assert statistics.left_out == {"pause_senders": 5}
    assert any(each.startswith("5 frames from senders of pauses beyond") for each in statistics.notes)
    drawn = [each for each in statistics.pauses.senders if each.classes[0].paused_ns_over_time]
    assert len(drawn) == MAX_LANES
