"""Streams with timetables: sent frames, skipped frames, gaps, and the release as the last frame."""

from __future__ import annotations

import itertools
import os
import random
import time
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.linux import stream_loop
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.stream_loop import StreamFacts, Timetable, Worker, new_worker
from ecmproto.frames.capture.linux.streams import (
    FOREVER_NS,
    Segment,
    Stream,
    StreamSender,
    StreamsReport,
    may_run_ahead,
)
from ecmproto.kernels.record import new_record
from tests.capture.linux.traffic import frame
from tests.namespaces import FAR, NEAR, Network

MS = 10**6
HOLD, RELEASE = frame("880800010009"), frame("880800010000")


def storm(interval_ns: int, limit_ns: int, until_ns: int) -> tuple[Segment, ...]:
    return (
        Segment(frames=(HOLD,), until_ns=until_ns, interval_ns=interval_ns, limit_ns=limit_ns),
        Segment(frames=(RELEASE,), first_ns=until_ns, limit_ns=limit_ns),
    )


def sent(*segments: Segment) -> tuple[StreamsReport, list[bytes], np.ndarray]:
    """Send a stream, and return the report, the received frames and their times."""
    frames: list[bytes] = []
    times: list[int] = []
    with FrameReceiver(FAR, socket_octets=64 << 20) as receiver:
        with StreamSender([Stream(name="one", interface=NEAR, segments=segments)]) as sender:
            sender.run()
            report = sender.report()
        while (batch := receiver.receive()) is not None:
            frames += batch.frames()
            times += batch.time_ns.tolist()
    return report, frames, np.array(times, dtype=np.int64)


def test_pauses_leave_at_intervals_until_the_release(veth: Network) -> None:
    began = time.time_ns()
    report, frames, times = sent(*storm(2 * MS, 1000 * MS, 100 * MS))
    (stream,) = report.streams
    assert len(frames) == stream.frames >= 51 - stream.gaps.skipped
    assert stream.octets == sum(map(len, frames))
    assert frames == [HOLD] * (len(frames) - 1) + [RELEASE]
    assert stream.gaps.longer == stream.gaps.excess_ns == 0
    assert times[-1] >= began + 100 * MS
    assert stream.released


def test_a_release_is_the_last_of_each_pause(veth: Network) -> None:
    ends = range(4 * MS, 400 * MS, 4 * MS)
    segments = []
    for number, end_ns in enumerate(ends):
        hold = frame("88080001", 60)[:-1] + bytes([number])
        segments += [
            Segment(frames=(hold,), first_ns=end_ns - 3 * MS, until_ns=end_ns, interval_ns=20_000),
            Segment(frames=(hold[::-1],), first_ns=end_ns),
        ]
    _, frames, _ = sent(*segments)
    runs = [list(group) for _, group in itertools.groupby(frames)]
    assert [run[0] for run in runs] == [each.frames[0] for each in segments]
    assert all(len(run) == 1 for run in runs[1::2])


def test_kept_frames_leave_once_in_order(veth: Network) -> None:
    turns = tuple(frame("0800", octets) for octets in range(60, 67))
    report, frames, _ = sent(Segment(frames=turns, until_ns=50 * MS, interval_ns=100_000, every_frame=True))
    assert frames == [turns[number % 7] for number in range(500)]
    assert report.streams[0].gaps.skipped == 0


def test_streams_leave_by_their_interfaces(veth: Network) -> None:
    streams = [
        Stream(name=name, interface=name, segments=storm(MS, 0, 20 * MS)) for name in (NEAR, FAR, NEAR)
    ]
    with (
        FrameReceiver(FAR, outgoing=False) as far,
        FrameReceiver(NEAR, outgoing=False) as near,
        StreamSender(streams) as sender,
    ):
        sender.run()
        counts = [each.frames for each in sender.report().streams]
        came = []
        for receiver in (far, near):
            number = 0
            while (batch := receiver.receive()) is not None:
                number += len(batch)
            came.append(number)
    assert came == [counts[0] + counts[2], counts[1]]


def test_an_interrupt_releases_started_streams(veth: Network) -> None:
    begun, waiting = storm(MS, MS, FOREVER_NS), Segment(frames=(HOLD,), first_ns=FOREVER_NS - 1)

    def check() -> None:
        if any(each.frames for each in sender.report().streams):
            raise KeyboardInterrupt

    streams = [
        Stream(name="begun", interface=NEAR, segments=begun),
        Stream(name="waiting", interface=NEAR, segments=(waiting,)),
    ]
    with FrameReceiver(FAR) as receiver, StreamSender(streams, check=check) as sender:
        with pytest.raises(KeyboardInterrupt):
            sender.run()
        before = sender.report().streams[0]
        sender.release()
        after = sender.report()
        frames: list[bytes] = []
        while (batch := receiver.receive()) is not None:
            frames += batch.frames()
    assert frames == [HOLD] * before.frames + [RELEASE]
    assert after.streams[0].released
    assert after.streams[0].gaps == before.gaps, "the release's gap is none"
    assert after.streams[1].frames == 0


def test_too_long_frames_are_refused(veth: Network) -> None:
    long = Stream(name="long", interface=NEAR, segments=(Segment(frames=(bytes(1600),)),))
    with pytest.raises(InterfaceError, match="frames of at most 1514"):
        StreamSender([long])


def test_threads_use_real_time_priority_where_permitted(veth: Network) -> None:
    before = os.sched_getscheduler(0), os.sched_getaffinity(0)
    report = sent(*storm(MS, 0, 5 * MS))[0]
    assert (os.sched_getscheduler(0), os.sched_getaffinity(0)) == before
    assert bool(report.processors) == may_run_ahead()


class Clock:
    """A simulated clock that advances at each reading; sleeping threads wake up late by random times."""

    def __init__(self, seed: int, stop_ns: int = FOREVER_NS) -> None:
        self.now_ns = 10**9
        self.draws = random.Random(seed)
        self.left: list[tuple[int, int]] = []
        self.stop_ns = stop_ns
        self.timetable: Any = None

    def clock_ns(self, worker: Worker) -> int:
        self.now_ns += 30
        if self.now_ns > self.stop_ns:
            self.timetable.facts.stop = 1
        return self.now_ns

    def nap(self, worker: Worker, until_ns: int) -> None:
        late_ns = self.draws.choice((0, 5_000, 60_000, 200_000))
        self.now_ns = max(self.now_ns, until_ns) + late_ns

    def transmit(self, timetable: Timetable, worker: Worker, count: int) -> None:
        self.now_ns += 1500
        for k in range(count):
            worker.accepted[k] = self.draws.random() < 0.95
            if worker.accepted[k]:
                self.left.append((int(worker.message[k]), self.now_ns - 10**9))

    def keep(self, timetable: Timetable, worker: Worker) -> None:
        self.timetable = timetable
        plain = getattr(stream_loop.keep, "py_func", stream_loop.keep)
        names = {name: getattr(self, name) for name in ("clock_ns", "nap", "transmit")}
        FunctionType(plain.__code__, {**vars(stream_loop), **names, "fence": lambda: None})(timetable, worker)


def timetable_of(*streams: list[tuple[int, int, int, int, int]]) -> Timetable:
    """Return a timetable of segments with one message each.

    A segment is a tuple of start, end, interval, limit, and whether every frame is sent.
    """
    facts: Any = new_record(StreamFacts)
    facts.start_ns = 10**9
    rows = np.array([segment for stream in streams for segment in stream], np.int64)
    ends = np.cumsum([len(stream) for stream in streams])
    zeros = np.zeros(len(streams), np.int64)
    return Timetable(
        facts, np.zeros(8 * len(rows), np.int64), ends - [len(stream) for stream in streams], ends,
        np.full(len(streams), -FOREVER_NS), zeros, zeros.copy(), *rows.T[:4].copy(),
        np.arange(len(rows)), np.ones(len(rows), np.int64), rows.T[4].copy(),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_late_thread_skips_frames_and_counts_gaps(seed: int) -> None:
    clock = Clock(seed)
    worker = new_worker(1, 2, second=False, spin_ns=1000)
    end_ns = 20 * MS
    clock.keep(timetable_of([(0, end_ns, 50_000, 100_000, 0), (end_ns, 0, 0, 100_000, 0)]), worker)
    apart = np.diff([left_ns for _, left_ns in clock.left])
    assert [message for message, _ in clock.left] == [0] * (len(clock.left) - 1) + [1]
    assert clock.left[-1][1] >= end_ns
    assert worker.frames[0] == len(clock.left)
    assert worker.frames[0] + worker.skipped[0] + worker.failed[0] >= 401
    assert worker.longest_ns[0] >= apart.max()
    assert worker.longer[0] >= (apart > 100_000).sum() > 0
    assert worker.excess_ns[0] >= np.maximum(apart - 100_000, 0).sum()


def test_streams_share_a_late_thread_alike() -> None:
    clock = Clock(0)
    worker = new_worker(20, 20, second=False, alone=True, spin_ns=1000)
    clock.keep(timetable_of(*([(0, MS, 1000, 0, 0)] for _ in range(20))), worker)
    assert worker.frames.min() > 0.8 * worker.frames.max(), "each interval is shorter than the calls for all"


def test_second_thread_sends_only_missed_renewals() -> None:
    segments = [(0, 10 * MS, 50_000, 0, 0), (10 * MS, 0, 0, 0, 0)]
    clock = Clock(0, stop_ns=10**9 + 12 * MS)
    second = new_worker(2, 3, second=True, spin_ns=0)
    timetable = timetable_of(segments, [(0, 10 * MS, 100_000, 0, 1)])
    clock.keep(timetable, second)
    assert {message for message, _ in clock.left} == {0}, "neither the release nor frames that are kept"
    assert all(left_ns % 50_000 > 12_500 for _, left_ns in clock.left if left_ns < 50_000)
    assert clock.left[-1][1] <= 10 * MS + 300_000
    assert timetable.segment.tolist() == [0, 2], "the first thread goes on"
    assert timetable.facts.second_busy == 0


def test_stolen_time_is_common_to_both_threads(veth: Network) -> None:
    with StreamSender([Stream(name="one", interface=NEAR, segments=storm(MS, 0, 5 * MS))]) as sender:
        sender.run()
        if len(sender._workers) < 2:
            pytest.skip("one processor")
        began_ns, began_real_ns = sender._clocks[0]
        for worker, spans in zip(sender._workers, ([10, 30, 50, 60], [20, 55, 70, 80]), strict=True):
            worker.steal_ns[:4] = np.array(spans) + began_ns
            worker.facts.steals = 2
        taken = sender.steals() - began_real_ns
    assert np.abs(taken - [[20, 30], [50, 55]]).max() <= 1


def test_clock_jumps_exclude_time_of_other_tasks(tmp_path: Path) -> None:
    worker = new_worker(1, 1, second=False, spin_ns=0)
    counts = tmp_path / "schedstat"
    counts.write_text("5000 1000 7\n")
    with counts.open("rb") as file:
        stream_loop.record_steal(worker, 100_000, 200_000)
        assert worker.facts.steals == 0, "without the kernel's count nothing is known"
        worker.facts.schedstat = file.fileno()
        stream_loop.record_steal(worker, 100_000, 200_000)
        stream_loop.record_steal(worker, 300_000, 400_000)
        counts.write_text("5000 101000 8\n")
        stream_loop.record_steal(worker, 500_000, 600_000)
    assert worker.steal_ns[: 2 * worker.facts.steals].tolist() == [100_000, 199_000, 300_000, 400_000]


GAPS = st.tuples(st.integers(0, 60), st.integers(1, 60), st.floats(0, 1))


def gaps_of(limit_ns: int, *calls: tuple[int, int]) -> tuple[int, int, int]:
    """Return the longest gap, the number of longer gaps and their excess, from the start and end times of
    calls.
    """
    timetable = timetable_of([(0, 0, 1, limit_ns, 0)])
    worker = new_worker(1, 1, second=False, spin_ns=0)
    for begun, ended in calls:
        stream_loop.count_gap(timetable, worker, 0, 0, begun, ended)
    return int(worker.longest_ns[0]), int(worker.longer[0]), int(worker.excess_ns[0])


def test_gaps_span_earliest_to_latest_departure() -> None:
    assert gaps_of(100, (5, 9)) == (0, 0, 0), "one frame has none"
    assert gaps_of(100, (1, 10), (90, 100), (250, 270)) == (180, 1, 80)
    assert gaps_of(100, (1, 10), (90, 102))[1] == 1, "it may have been just too long"
    assert gaps_of(100, (1, 10), (90, 101))[1] == 0


def test_a_slow_call_counts_once_in_gaps() -> None:
    # For any departure within 1000 ns, the gaps are between 11 and 1000, and between 1010 and 1100.
    longest_ns, longer, excess_ns = gaps_of(10, (1, 5), (20, 1000), (1090, 1100))
    assert (longest_ns, longer, excess_ns) == (1080, 2, (1000 - 11) + (1100 - 1000))


@given(st.integers(1, 50), st.lists(GAPS, min_size=1))
def test_gap_bounds_hold_for_any_departure_times(limit: int, steps: list[tuple[int, int, float]]) -> None:
    calls, now, left = [], 1, []
    for pause, lasts, when in steps:
        begun, now = now + pause, now + pause + lasts
        calls.append((begun, now))
        left.append(begun + int(when * lasts))
    longest_ns, longer, excess_ns = gaps_of(limit, *calls)
    real = [after - before for before, after in itertools.pairwise(left)]
    assert longest_ns >= max(real, default=0)
    assert longer >= sum(gap > limit for gap in real)
    assert sum(max(0, gap - limit) for gap in real) <= excess_ns <= now
