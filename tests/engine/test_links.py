"""Links between stations and the port have a rate, and a delay in each direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.control.engine.network import set_links
from ecmproto.control.engine.port import DROPPED, ENQUEUED
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from tests.replay.loops import BUSY, Loop, Sent, incast, loop_of, ran, run

STATIONS = 16
"""Number of stations of a loop at its start."""
STOPS = ("cp.pause_on=output", "cp.high=1500B", "cp.low=0B")
TO_PORT_NS = 7_300


def at_port(loop: Loop) -> NDArray[Any]:
    """Return the arrivals at the port."""
    came = loop.passages[np.isin(loop.passages["disposition"], (ENQUEUED, DROPPED))]
    assert len(came) > 100
    return came


def with_links(
    replay: ClosedLoopReplay, *, rate_bps: int = 10**10, to_port_ns: Any = 0, to_station_ns: Any = 10_000
) -> Loop:
    """Return the result of ``replay`` with the given links. Stations without a delay use the first delays."""
    whole = [
        [*given, *[0] * (STATIONS - len(given))] if isinstance(given, list) else given
        for given in (to_port_ns, to_station_ns)
    ]
    set_links(replay._network, rate_bps=rate_bps, to_port_ns=whole[0], to_station_ns=whole[1])
    return ran(replay)


@pytest.mark.parametrize("name", ["qcn", "ecm"])
def test_delay_before_port_acts_like_return_delay(name: str) -> None:
    """Round trips are equally long, so stations behave the same, and the port receives all frames later."""
    options = {"rate_bps": 5 * 10**9, "buffer_octets": 120_000, "queue_octets": 400_000}
    there = run(incast(0.4), name, *BUSY[name], delay_ns=10_000, propagation_ns=TO_PORT_NS, **options)
    back = run(incast(0.4), name, *BUSY[name], delay_ns=10_000 + TO_PORT_NS, **options)
    assert at_port(back)["limit_bps"].any()
    later = at_port(back)
    later["time_ns"] += TO_PORT_NS
    # Frames that two stations send at the same time arrive at the port in the order of their events.
    assert np.array_equal(
        np.sort(at_port(there), order=("time_ns", "serial")), np.sort(later, order=("time_ns", "serial"))
    )


def test_frames_arrive_after_their_own_links_delay() -> None:
    frames = [Sent(time, station, 101) for time in (0, 5_000) for station in (1, 2, 3)]
    loop = with_links(loop_of(frames, "none"), to_port_ns=[900, 0, 20_000])
    passages = loop.passages[np.argsort(loop.passages["serial"])]
    assert passages["time_ns"].tolist() == [900, 0, 20_000, 5_900, 5_000, 25_000]
    assert loop.passages["time_ns"].tolist() == sorted(passages["time_ns"].tolist())


def test_messages_arrive_after_each_stations_own_delay() -> None:
    delays_ns = [100_000, 1, 30_000, 0]
    frames = incast(0.5)
    loop = with_links(loop_of(frames, "qcn"), to_station_ns=delays_ns)
    for station, delay_ns in enumerate(delays_ns):
        told = (loop.messages["station"] == station) & (loop.messages["sent"] == 1)
        first = loop.messages[told][0]
        mine = loop.passages[loop.passages["station"] == station]
        came_ns = np.array([frame.time_ns for frame in frames])[mine["serial"]]
        before = (came_ns < first["time_ns"] + delay_ns) | (mine["serial"] <= first["cause"])
        assert (mine["limit_bps"][before] == 0).all()
        assert (mine["limit_bps"][~before] > 0).all()
        assert 0 < before.sum() < len(before)
    assert loop.stations.messages == (loop.messages["sent"] == 1).sum()


@pytest.mark.parametrize("name", ["qcn", "pause"])
def test_messages_sorted_by_time_equal_sending_order(name: str) -> None:
    """A message to every station is then counted once per station."""
    replays = [loop_of(incast(0.3), name, *BUSY[name], rate_bps=5 * 10**9) for _ in range(2)]
    replays[1]._network.loop.same_delays = 0
    plain, by_time = (ran(replay) for replay in replays)
    assert np.array_equal(plain.passages, by_time.passages)
    assert np.array_equal(plain.messages, by_time.messages)


def test_pauses_stop_each_station_after_its_own_delay() -> None:
    """Two frames at 0 stop both stations until both are through, at 1600; the second is notified later."""
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), Sent(150, 1, 976), Sent(150, 2, 976), Sent(600, 2, 976)]
    loop = with_links(loop_of(frames, "pfc", *STOPS, overhead_octets=24), to_station_ns=[100, 500])
    times = dict(loop.passages[["serial", "time_ns"]].tolist())
    assert times[3] == 150
    assert times[2] > 1_600
    assert times[4] > 1_600


def test_held_frames_leave_at_their_links_rate() -> None:
    frames = [Sent(0, 1, 976), Sent(0, 2, 976), *(Sent(t, 1, 976) for t in (100, 300, 500))]
    for rate_bps, frame_ns in ((10**10, 800), (5 * 10**9, 1_600)):
        loop = with_links(loop_of(frames, "pfc", *STOPS, delay_ns=100), rate_bps=rate_bps, to_station_ns=100)
        mine = loop.passages[loop.passages["station"] == 0]["time_ns"].tolist()
        assert np.diff(mine[1:]).tolist() == [frame_ns, frame_ns]
