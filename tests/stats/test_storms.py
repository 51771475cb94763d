"""Pause histories and storms from a known timetable, to the microsecond, and invalid PFC frames."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.stats import Accumulator, ClassPause, PauseStorm, Statistics
from ecmproto.frames.stats.pauses import MAX_STORMS, REACTION_NS
from ecmproto.wire.codec import VLAN, Data, Ethernet, Frame, encode
from tests.stats.test_pauses import EAST, LINKS, START_NS, WEST, other, paused, pfc, times_of

US, MS = 1000, 10**6
LONGEST_NS = 3_355_392
"""65,535 quanta at 10 Gb/s."""
Timetable = Sequence[tuple[int, bytes]]


def to(destination: bytes, priority: int = 3) -> bytes:
    """Return a frame of a priority to a station."""
    layers = (Ethernet(dst=destination, src=WEST), VLAN(priority=priority, id=1), Data(data=bytes(46)))
    return encode(Frame(layers=layers), fix=True)


def held(from_ns: int, to_ns: int, **classes: int) -> Timetable:
    """Return pauses renewed every 3 ms, the last of which is ended at ``to_ns``."""
    classes = classes or {"time3": 65535}
    renewed = [(at, pfc(EAST, **classes)) for at in range(from_ns, to_ns, 3 * MS)]
    return [*renewed, (to_ns, pfc(EAST, **dict.fromkeys(classes, 0)))]


def storms_of(timetable: Timetable, **options: int) -> tuple[PauseStorm, ...]:
    counts = Accumulator(**options)  # type: ignore[arg-type]
    events = sorted([*timetable, (5000 * MS, other())], key=lambda event: event[0])
    times = [START_NS + at for at, _ in events]
    counts.add(Batch.from_frames([octets for _, octets in events], time_ns=times), interfaces=LINKS)
    pauses = counts.result().pauses
    assert pauses is not None
    return pauses.storms


def ms(storm: PauseStorm) -> tuple[float, float, float | None]:
    """Return begin, detection and restoration in ms from the start."""
    restored = None if storm.restored_ns is None else (storm.restored_ns - START_NS) / MS
    return (storm.begun_ns - START_NS) / MS, (storm.detected_ns - START_NS) / MS, restored


def test_the_history_of_a_priority() -> None:
    """100 µs pause, renewed at 60 µs, ended at 120 µs; 50 µs at 1 ms, runs out; 20 µs twice at 2 ms.

    ::

        0 ─── 60 ─── 120        1000 ─── 1050        2000 ─ 2020 ─ 2040
    """
    timetable = [
        (0, pfc(time3=1954)),  # 100.0448 µs
        (60 * US, pfc(time3=1954)),
        (120 * US, pfc(time3=0)),
        (130 * US, pfc(time3=0)),  # says again what is so
        (1000 * US, pfc(time3=977)),  # 50.0224 µs
        (2000 * US, pfc(time3=391)),  # 20.0192 µs
        (2020 * US, pfc(time3=391)),
        (3000 * US, other()),
    ]
    found = paused(times_of(timetable), 3)
    assert (found.transitions, found.expired, found.pauses, found.resumes) == (3, 2, 5, 2)
    assert found.paused_ns == 120_000 + 50_023 + 20_000 + 20_020
    assert (found.recent_ns, found.recent_paused_ns) == (START_NS + 2000 * US, 40_020)


@pytest.mark.parametrize(("before_ns", "frames"), [(0, 0), (1, 1)])
def test_frames_leaving_at_pause_end_do_not_count(before_ns: int, frames: int) -> None:
    left = [(0, to(EAST)), (150 * MS - before_ns, to(EAST))]
    (storm,) = storms_of([*held(100 * MS, 150 * MS), *held(151 * MS, 400 * MS), *left])
    assert storm.frames_left == frames


@pytest.mark.parametrize(("after_ns", "frames"), [(REACTION_NS - 1, 0), (REACTION_NS, 1)])
def test_frames_within_the_reaction_time_do_not_count(after_ns: int, frames: int) -> None:
    left = [(0, to(EAST)), (100 * MS + after_ns, to(EAST))]
    (storm,) = storms_of([*held(100 * MS, 400 * MS), *left])
    assert storm.frames_left == frames


def test_pause_in_force_at_end_is_not_expired() -> None:
    found = paused(times_of([(0, pfc(time3=1954)), (60 * US, other())]), 3)
    assert (found.transitions, found.expired, found.recent_paused_ns) == (1, 0, 60 * US)


def test_pause_renewed_at_its_end_is_continuous() -> None:
    found = paused(times_of([(0, pfc(time3=1000)), (51_200, pfc(time3=1000)), (MS, other())]), 3)
    assert (found.transitions, found.expired, found.recent_paused_ns) == (1, 1, 102_400)


def test_each_priority_has_its_own_history() -> None:
    found = times_of([(0, pfc(time3=10, time4=20)), (5 * US, pfc(time4=20)), (MS, other())])
    both: list[ClassPause] = [paused(found, 3), paused(found, 4)]
    assert [each.transitions for each in both] == [1, 2]
    assert [each.recent_ns for each in both] == [START_NS, START_NS + 5 * US]


def test_a_storm_is_detected_and_restored() -> None:
    (storm,) = storms_of(held(100 * MS, 1000 * MS))
    assert ms(storm) == (100, 300, 1400)
    assert (storm.source, storm.priority, storm.seen, storm.frames_left) == (EAST, 3, "pause", None)


def test_storm_ends_when_its_last_pause_runs_out() -> None:
    (storm,) = storms_of(held(0, 600 * MS)[:-1])
    assert storm.restored_ns == START_NS + 597 * MS + LONGEST_NS + 400 * MS


def test_a_storm_at_the_end_is_not_restored() -> None:
    (storm,) = storms_of(held(0, 4900 * MS))
    assert ms(storm) == (0, 200, None)


def test_pause_below_99_percent_is_no_storm() -> None:
    """198 ms of pause are 99 % of 200 ms; a microsecond less are not."""
    assert [ms(each) for each in storms_of(held(0, 198 * MS))] == [(0, 200, 598)]
    assert storms_of(held(0, 198 * MS - 1000)) == ()


def test_gaps_of_a_hundredth_are_allowed() -> None:
    """Pauses of 3,355.392 µs every 3.389 ms are 99.01 % of the time, every 3.390 ms 98.98 %."""
    flutter = [[(gap * number, pfc(time3=65535)) for number in range(300)] for gap in (3_389_000, 3_390_000)]
    assert [ms(each)[:2] for each in storms_of(flutter[0])] == [(0, 200)]
    assert storms_of(flutter[1]) == ()


def test_detection_time_may_start_with_later_pause() -> None:
    """A short pause, 50 ms of nothing, then a storm."""
    (storm,) = storms_of([(0, pfc(time3=65535)), *held(50 * MS, 300 * MS)])
    assert ms(storm) == (50, 250, 700)


def test_back_within_restoration_time_is_same_storm() -> None:
    again = [*held(0, 300 * MS), *held(699 * MS, 1000 * MS)]
    assert [ms(each) for each in storms_of(again)] == [(0, 200, 1400)]
    later = [*held(0, 300 * MS), *held(700 * MS, 1000 * MS)]
    assert [ms(each) for each in storms_of(later)] == [(0, 200, 700), (700, 900, 1400)]
    third = [*later, *held(1400 * MS, 1700 * MS)]
    assert [ms(each) for each in storms_of(third)][1:] == [(700, 900, 1400), (1400, 1600, 2100)]


def test_given_detection_and_restoration_times_apply() -> None:
    found = storms_of(held(0, 30 * MS), detect_ns=20 * MS, restore_ns=40 * MS)
    assert [ms(each) for each in found] == [(0, 20, 70)]


def test_several_priorities_and_the_link() -> None:
    found = storms_of(held(0, 600 * MS, time0=65535, time7=65535))
    assert [(each.priority, *ms(each)) for each in found] == [(0, 0, 200, 1000), (7, 0, 200, 1000)]


def test_pause_and_stall_make_a_storm() -> None:
    """Earlier frames to the sender of the pauses prove traffic.

    A frame in transmission does not end the stall.
    """
    before = [(0, to(EAST)), (100 * MS + 50 * US, to(EAST)), (150 * MS, to(EAST, 5)), (160 * MS, to(WEST))]
    (storm,) = storms_of([*before, *held(100 * MS, 600 * MS)])
    assert (storm.seen, storm.frames_left) == ("pause and stall", 0)


def test_port_that_keeps_sending_shows_traffic() -> None:
    before = [(0, to(EAST)), (150 * MS, to(EAST)), (160 * MS, to(EAST)), (310 * MS, to(EAST))]
    (found,) = storms_of([*before, *held(100 * MS, 600 * MS)])
    assert (found.seen, found.frames_left) == ("traffic", 2)


def test_more_storms_than_are_listed() -> None:
    counts = Accumulator(detect_ns=100, restore_ns=100, speed_bps=10**12)
    frames = [pfc(time3=1000)] * (MAX_STORMS + 3) + [other()]  # 512 ns each
    counts.add(Batch.from_frames(frames, time_ns=[START_NS + 10_000 * n for n in range(len(frames))]))
    pauses = counts.result().pauses
    assert pauses is not None
    assert (len(pauses.storms), pauses.more_storms) == (MAX_STORMS, 3)


def faults_of(frames: Sequence[bytes], interface: Interface, **options: object) -> Statistics:
    counts = Accumulator(**options)  # type: ignore[arg-type]
    counts.add(Batch.from_frames(frames), interfaces=[interface])
    return counts.result()


def edited(at: int, *octets: int) -> bytes:
    """Return a valid PFC frame with other octets at a place."""
    frame = bytearray(pfc(time3=5))
    frame[at : at + len(octets)] = octets
    return bytes(frame)


TAGGED = pfc(time3=5)[:12] + bytes.fromhex("81006005") + pfc(time3=5)[12:56]


@pytest.mark.parametrize(
    ("octets", "fault"),
    [
        (edited(5, 2), "destination"),
        (edited(6, 3), "source"),
        (edited(6, *bytes(6)), "source"),
        (TAGGED, "vlan_tag"),
        (pfc(time3=5, time5=1), "not_lossless"),
        (edited(16, 1), "upper_octet"),
        (edited(18, 0, 1), "timers"),
        (edited(59, 1), "padding"),
        (edited(34, 1), "padding"),
        (pfc(time3=5) + bytes(1), "length"),
        (pfc(time3=5)[:32], "malformed"),
    ],
)
def test_a_fault(octets: bytes, fault: str) -> None:
    found = faults_of([pfc(WEST, time3=0), octets, octets], LINKS[0], lossless=(3, 4)).pfc
    assert found is not None
    assert (found.frames, found.valid, found.lossless) == (3, 1, (3, 4))
    assert [(each.fault, each.frames) for each in found.faults] == [(fault, 2)]
    assert found.faults[0].source == (octets[6:12] if any(octets[6:12]) else None)


def test_an_fcs_is_no_fault() -> None:
    frame = pfc(time3=5) + bytes.fromhex("01020304")
    for link in (LINKS[0], Interface(index=0, linktype=1, fcs_octets=4)):
        found = faults_of([frame], link).pfc
        assert found is not None
        assert (found.frames, found.valid) == (1, 1)


def test_undeclared_lossless_priorities_are_noted() -> None:
    found = faults_of([pfc(time0=1, time7=1)], LINKS[0])
    assert found.pfc is not None
    assert (found.pfc.valid, found.pfc.lossless) == (1, None)
    assert "No lossless priorities are declared: pauses of lossy priorities were not checked." in found.notes
    assert found.frames == 1


@pytest.mark.parametrize("options", [{"detect_ns": 0}, {"restore_ns": 0}, {"lossless": (8,)}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        Accumulator(**options)  # type: ignore[arg-type]
