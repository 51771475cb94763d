"""The rules of `ecmproto.control.engine.loop`, on handmade captures.

At 10 Gb/s, a frame of 976 octets takes 800 ns, and a frame of 101 octets takes 100 ns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY
from ecmproto.control.mechanisms.api.machine import StackedMachine
from ecmproto.control.replay import closed_loop
from ecmproto.frames.capture.batch import Batch
from tests.replay.loops import BUSY, Loop, Sent, incast, machine, run

STOPS = ("cp.pause_on=output", "cp.high=1500B", "cp.low=0B")
"""Parameters with which the second frame of 976 octets stops all stations until the queue is empty."""
LONG_NS = 10**9


def times_of(loop: Loop, station: int) -> list[int]:
    """Return the arrival times of a station's frames at the port, by frame number."""
    passages = loop.passages
    return [int(t) for t in passages["time_ns"][passages["station"] == station]]


def passed(loop: Loop) -> list[tuple[int, int, int]]:
    """Return the serial number, the time and the disposition of all passages."""
    return [tuple(row) for row in loop.passages[["serial", "time_ns", "disposition"]].tolist()]


def stopped_burst(**options: Any) -> Loop:
    """Two stations send at once, which stops both from 100 ns on; then the first has more to send."""
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), *(Sent(t, 1, 976) for t in (100, 300, 500))]
    return run([*frames, Sent(600, 1, 101, priority=6)], "pfc", *STOPS, delay_ns=100, **options)


def test_rule_1_frame_leaves_station_at_its_time() -> None:
    frames = incast(0.1)
    assert passed(run(frames, "none")) == [(n, frame.time_ns, ENQUEUED) for n, frame in enumerate(frames)]


def test_rule_1_station_link_delays_no_captured_frame() -> None:
    frames = [Sent(0, 1), Sent(1, 1), Sent(2, 1)]
    assert times_of(run(frames, "none", link_rate_bps=10**9), 0) == [0, 1, 2]


def test_rule_1_paused_priority_waits_others_do_not() -> None:
    loop = stopped_burst()
    # Both are through at 1600 and, with the frame of priority 6 between them, at 1700; resumed at 1800.
    assert passed(loop) == [
        (0, 0, ENQUEUED), (1, 0, ENQUEUED), (5, 600, ENQUEUED),
        (2, 1_800, ENQUEUED), (3, 2_600, ENQUEUED), (4, 3_400, ENQUEUED),
    ]  # fmt: skip
    assert loop.messages[["time_ns", "priority"]].tolist() == [(0, 0), (1_700, 0)]


def test_rule_1_held_frames_leave_at_link_rate() -> None:
    assert times_of(stopped_burst(link_rate_bps=5 * 10**9), 0)[2:] == [1_800, 3_400, 5_000]


def test_rule_1_frame_waits_for_an_earlier_one() -> None:
    """At 1750 ns, no pause is in force, but an earlier frame still waits for the link."""
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), *(Sent(t, 1, 976) for t in (100, 200, 1_750, 3_400))]
    loop = run(frames, "pfc", *STOPS, delay_ns=100)
    assert times_of(loop, 0) == [0, 1_700, 2_500, 3_300, 3_400]


def test_rule_1_a_stations_queue_is_finite() -> None:
    loop = stopped_burst(queue_octets=2 * 976)
    assert (4, 500, HELD_OUT) in passed(loop)
    assert (loop.stations.held_out_frames, loop.stations.held_out_octets) == (1, 976)
    assert loop.stations.longest_wait_octets == 2 * 976
    assert (loop.summary.ports[0].frames, loop.summary.frames) == (5, 6)


def test_rule_1_frame_larger_than_queue_never_waits() -> None:
    assert [disposition for *_, disposition in passed(stopped_burst(queue_octets=975))].count(HELD_OUT) == 3


def test_rule_1_limiter_spaces_frames_by_its_rate() -> None:
    """FECN starts at a tenth of the link; the first frame's tag of 10 octets counts."""
    loop = run([Sent(100 * n, 1, 976) for n in range(4)], "fecn", "rp.N0=10", delay_ns=LONG_NS)
    assert times_of(loop, 0) == [0, 8 * 986, 8 * (986 + 976), 8 * (986 + 2 * 976)]
    assert loop.passages["octets"].tolist() == [986, 976, 976, 976]
    assert loop.passages["limit_bps"].tolist() == [1e9] * 4
    assert loop.stations.limited_frames == 4


def test_rule_1_new_rate_applies_to_waiting_frames() -> None:
    loop = run(
        [Sent(100 * n, 1, 976) for n in range(4)], "fecn", "rp.N0=10", "cp.N0=20", "cp.T=1s", delay_ns=10_000
    )
    # The tag returns at 808 + 10 000 with half the rate, when 4888 bits of the second frame remain.
    assert times_of(loop, 0) == [0, 7_888, 10_808 + 2 * 4_888, 20_584 + 2 * 8 * 976]


def test_rule_1_a_limiters_queue_is_finite() -> None:
    loop = run([Sent(n, 1, 976) for n in range(5)], "fecn", "rp.N0=10", delay_ns=LONG_NS, queue_octets=2_000)
    assert [row for row in passed(loop) if row[2] == HELD_OUT] == [(3, 3, HELD_OUT), (4, 4, HELD_OUT)]


def test_rule_1_limiter_waits_for_its_priority_too() -> None:
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), Sent(100, 1, 976)]
    both = StackedMachine(machine("fecn", "rp.N0=1"), machine("pfc", *STOPS))
    loop = run(frames, both, delay_ns=100)
    # The limiter would release the frame at 789. Tagged frames of 986 octets end at 808 and 1616.
    assert times_of(loop, 0) == [0, 1_716]


def test_rule_1_control_frames_bypass_the_queue() -> None:
    control = bytes.fromhex("0180c2000001" + "020000000001" + "8808").ljust(60, b"\0")
    replay = closed_loop.ClosedLoopReplay(
        [Batch.from_frames([control, b""], time_ns=[5, 6])],
        machine=machine("none"),
        port=PortConfig(rate_bps=10**10, buffer_octets=1),
        loop=LoopConfig(link_rate_bps=10**10),
        seed=1,
    )
    (piece,) = replay
    assert piece.passages["disposition"].tolist() == [PASSED_BY, PASSED_BY]
    assert replay.summary().passed_by == 2


def test_rule_1_group_frames_bypass_stopped_stations() -> None:
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), Sent(200, 1, 976, to_group=True), Sent(300, 1, 976)]
    loop = run(frames, "pfc", *STOPS, delay_ns=100)
    assert passed(loop)[2] == (2, 200, ENQUEUED)
    assert loop.passages["station"].tolist() == [0, 1, -1, 0]
    assert times_of(loop, 0)[1] == 2_500


def test_rule_1_frames_of_unknown_stations_bypass_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "LARGEST_STATIONS", 2)
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), Sent(200, 3, 976), Sent(300, 1, 976)]
    loop = run(frames, "pfc", *STOPS, delay_ns=100)
    assert passed(loop)[2] == (2, 200, ENQUEUED)
    assert loop.stations.stations == 2
    assert loop.passages["station"].tolist() == [0, 1, -1, 0]


def test_rule_2_probe_follows_its_frame_in_band() -> None:
    loop = run(incast(4), "e2cm", "cp.qeq=20kB")
    passages = loop.passages
    probes = np.flatnonzero(passages["probe"] == 1)
    assert len(probes) > 3
    assert loop.stations.probes == len(probes)
    for name in ("serial", "time_ns", "station", "flow"):
        assert passages[name][probes].tolist() == passages[name][probes - 1].tolist()
    assert set(passages["octets"][probes].tolist()) == {60}
    assert (passages["tagged"][probes - 1] == 1).all()
    # The message waits in the queue of its priority like any other frame.
    enqueued = probes[(passages["disposition"][probes] == ENQUEUED) & (passages["priority"][probes] == 0)]
    longer = passages["qlen_octets"][enqueued] - passages["qlen_octets"][enqueued - 1]
    assert set(longer.tolist()) == {60}


@pytest.mark.parametrize("delay_ns", [0, 1, 10_000, 100_000])
def test_rule_3_messages_arrive_after_the_delay(delay_ns: int) -> None:
    loop = run(incast(0.5), "qcn", delay_ns=delay_ns)
    for station in range(4):
        of_station = (loop.messages["station"] == station) & (loop.messages["sent"] == 1)
        first = loop.messages[of_station][0]
        mine = loop.passages[loop.passages["station"] == station]
        came_ns = np.array([frame.time_ns for frame in incast(0.5)])[mine["serial"]]
        before = (came_ns < first["time_ns"] + delay_ns) | (mine["serial"] <= first["cause"])
        assert (mine["time_ns"][before] == came_ns[before]).all()
        assert (mine["limit_bps"][before] == 0).all()
        assert (mine["limit_bps"][~before] > 0).all()
        assert 0 < before.sum() < len(before)


def test_rule_3_departing_frame_arrives_at_once() -> None:
    loop = run([Sent(0, 1, 976), Sent(5_000, 1, 976)], "fecn", "rp.tag_frames=1")
    returns = loop.messages[loop.messages["sent"] == 1]
    assert returns["time_ns"].tolist() == [t + 808 for t in times_of(loop, 0)]
    assert returns["cause"].tolist() == [0, 1]


def test_rule_3_messages_use_no_port_capacity() -> None:
    loop = run(incast(0.5), "qcn")
    enqueued = loop.passages[loop.passages["disposition"] == ENQUEUED]
    assert loop.stations.delivered_octets == enqueued["octets"].sum()
    assert loop.stations.messages == (loop.messages["sent"] == 1).sum() > 3


def test_rule_4_departure_frees_buffer_for_simultaneous_arrival() -> None:
    frames = [Sent(0, 1, 976), Sent(799, 2, 976), Sent(800, 3, 976)]
    assert [disposition for *_, disposition in passed(run(frames, "none", buffer_octets=976))] == [
        ENQUEUED, DROPPED, ENQUEUED,
    ]  # fmt: skip


def test_rule_4_message_precedes_frame_of_same_time() -> None:
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), Sent(99, 1, 976), Sent(100, 2, 976)]
    loop = run(frames, "pfc", "cp.pause_on=output", "cp.high=1500B", "cp.low=1000B", delay_ns=100)
    assert times_of(loop, 0)[1] == 99
    assert times_of(loop, 1)[1] > 100


def test_rule_4_congestion_point_timer_precedes_simultaneous_frame() -> None:
    """FECN's first update counts the octets of the first frame, and not the octets of the simultaneous
    frame.
    """
    alone = run([Sent(0, 1), Sent(999_999, 1), Sent(2_500_000, 1)], "fecn", "rp.N0=1", "cp.T=1ms")
    both = run([Sent(0, 1), Sent(1_000_000, 1), Sent(2_500_000, 1)], "fecn", "rp.N0=1", "cp.T=1ms")
    ticks = [
        loop.messages[loop.messages["sent"] == 0][["time_ns", "qlen_octets"]].tolist()[0]
        for loop in (alone, both)
    ]
    assert ticks[0] == (1_000_000, 1_510 if alone.passages["tagged"][1] else 1_500)
    assert ticks[1] == (1_000_000, 0)


def test_rule_4_simultaneous_departures_follow_priority_then_station() -> None:
    frames = [
        Sent(0, 1, 976), Sent(0, 2, 976),
        *(Sent(200 + n, station, 101, priority)
          for n, (station, priority) in enumerate([(2, 3), (1, 3), (2, 0), (1, 0)])),
    ]  # fmt: skip
    loop = run(frames, "pause", *STOPS, delay_ns=100, link_rate_bps=10**12)
    after = loop.passages[2:]
    assert after[["station", "priority"]].tolist() == [(0, 0), (1, 0), (0, 3), (1, 3)]


def test_port_drops_frames_beyond_its_buffer() -> None:
    loop = run([Sent(n, 1, 1_000) for n in range(5)], "none", buffer_octets=2_500)
    assert [disposition for *_, disposition in passed(loop)] == [ENQUEUED] * 2 + [DROPPED] * 3
    assert (loop.summary.ports[0].dropped_frames, loop.summary.ports[0].dropped_octets) == (3, 3_000)
    assert loop.passages["qlen_octets"].tolist() == [1_000] + [2_000] * 4


@pytest.mark.parametrize(
    "buffer", [{"buffer_octets": 150_000}, {"buffer_octets": 151_000}, {"buffer_frames": 100}], ids=str
)
def test_tagged_frames_fit_a_full_buffer_equally(
    buffer: dict[str, int],
) -> None:
    """With two sources of 10 Gb/s, a full buffer has gaps of 1500 octets, and never a gap of 1510 octets."""
    gap_ns = 1_219.2
    starts_ns = ((0, 1), (5_000_000, 2))
    frames = sorted(
        Sent(start_ns + int(k * gap_ns), station)
        for start_ns, station in starts_ns
        for k in range(int((20_000_000 - start_ns) / gap_ns))
    )
    loop = run(frames, "fecn", **buffer)
    counters = loop.stations.counters
    assert counters["tags"] - counters["returns"] <= 3
    assert loop.summary.ports[0].dropped_frames < 3_000


def shared_link(limited_every: int, unlimited_every: int) -> Loop:
    """One station sends two flows on a link of 10 Gb/s, and one of the flows uses a congested priority."""
    gap_ns, slots = 1_219.2, 3_000
    frames = [Sent(int(k * gap_ns) + 3, 2, 1500, 3) for k in range(slots)]
    for every, priority, after_ns in ((limited_every, 3, 0), (unlimited_every, 5, 7)):
        frames += [Sent(int(k * gap_ns) + after_ns, 1, 1500, priority) for k in range(0, slots, every)]
    return run(sorted(frames), "ecm", "cp.enabled=3", *BUSY["ecm"])


@pytest.mark.parametrize("every", [(1, 2), (2, 2), (1, 1)], ids=str)
def test_limited_and_unlimited_frames_share_the_link(
    every: tuple[int, int],
) -> None:
    passages = shared_link(*every).passages
    own = passages[(passages["station"] == passages["station"][0]) & (passages["disposition"] != HELD_OUT)]
    limited = own["limit_bps"] > 0
    first = int(np.flatnonzero(limited)[0])
    line_ns = 0.8 * (own["octets"][first:-1] + 24)
    assert (np.diff(own["time_ns"][first:]) >= np.floor(line_ns)).all()
    # Neither flow prevents the other flow from sending.
    second_half = own["time_ns"] > 1_800_000
    assert (limited & second_half).sum() > 20
    assert (~limited & second_half).sum() > 500
