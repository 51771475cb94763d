"""The DBP destination: algorithms §5 item 5, who gets a report and when."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.dbp.machine import (
    DBPDestination,
    DBPSource,
    destination_settings,
    next_timer_ns,
    on_timer,
    record_data,
    start,
)
from ecmproto.control.mechanisms.dbp.parameters import DBPEdgeParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.record import new_record, new_records

MS = 1_000_000


class Receiver:
    """A destination whose caller runs every timer when it is due."""

    def __init__(self, parameters: DBPEdgeParameters | None = None, *, seed: int = 1) -> None:
        parameters = parameters or DBPEdgeParameters(sources=4)
        self.settings = destination_settings(parameters)
        self.destination: DBPDestination = new_record(DBPDestination)
        self.source_times = new_records(DBPSource, parameters.sources)
        self.due = np.zeros(parameters.sources, np.int64)
        start(self.destination, self.source_times, self.settings, np.random.default_rng(seed))

    def run_until(self, now_ns: int) -> list[tuple[int, list[int]]]:
        """Return the reports up to ``now_ns``: when, and to which sources."""
        reports = []
        while next_timer_ns(self.destination) <= now_ns:
            time_ns = int(next_timer_ns(self.destination))
            count = on_timer(self.destination, self.source_times, self.settings, now_ns, self.due)
            if count:
                reports.append((time_ns, [int(source) for source in self.due[:count]]))
        return reports

    def record_data(self, source: int, now_ns: int) -> None:
        record_data(self.destination, self.source_times, self.settings, source, now_ns)


def test_item_5_reports_come_every_10_ms() -> None:
    receiver = Receiver()
    reports = []
    for ms in range(3, 63):
        reports += receiver.run_until(ms * MS)
        receiver.record_data(2, ms * MS)
    assert reports == [(time * MS, [2]) for time in (10, 20, 30, 40, 50, 60)]
    assert receiver.destination.reports == 6


def test_item_5_source_stays_active_for_20_ms() -> None:
    receiver = Receiver()
    receiver.record_data(0, 10 * MS)
    receiver.record_data(1, 10 * MS + 1)
    assert receiver.run_until(100 * MS) == [(20 * MS, [0, 1]), (30 * MS, [0, 1])]


def test_item_5_exactly_20_ms_is_still_active() -> None:
    receiver = Receiver()
    for source, time_ns in ((0, 10 * MS - 1), (1, 10 * MS)):
        receiver.record_data(source, time_ns)
    assert receiver.run_until(20 * MS) == [(10 * MS, [0, 1]), (20 * MS, [0, 1])]
    assert receiver.run_until(30 * MS) == [(30 * MS, [1])]


def test_timer_runs_only_while_sources_are_active() -> None:
    receiver = Receiver()
    assert next_timer_ns(receiver.destination) == NEVER_NS
    receiver.record_data(0, 5 * MS)
    assert next_timer_ns(receiver.destination) == 10 * MS
    receiver.run_until(10**12)
    assert next_timer_ns(receiver.destination) == NEVER_NS
    receiver.record_data(0, 10**12 + 1)
    assert next_timer_ns(receiver.destination) == 10**12 + 10 * MS


def test_nothing_is_due_before_its_time() -> None:
    receiver = Receiver()
    receiver.record_data(0, 0)
    assert (
        on_timer(receiver.destination, receiver.source_times, receiver.settings, 10 * MS - 1, receiver.due)
        == 0
    )
    assert next_timer_ns(receiver.destination) == 10 * MS


def test_sources_beyond_table_are_counted_and_get_nothing() -> None:
    receiver = Receiver()
    for source in (-1, 4, 10**9):
        receiver.record_data(source, 0)
    assert receiver.destination.unheard_frames == 3
    assert next_timer_ns(receiver.destination) == NEVER_NS


def test_item_4_reports_are_aligned_or_randomly_phased() -> None:
    phases = set()
    for seed in range(50):
        receiver = Receiver(DBPEdgeParameters(sources=1, random_phase=True), seed=seed)
        receiver.record_data(0, 100 * MS)
        first_ns = int(next_timer_ns(receiver.destination))
        assert 100 * MS < first_ns <= 110 * MS
        phases.add(first_ns)
        assert [time_ns for time_ns, _ in receiver.run_until(110 * MS + first_ns - 100 * MS)][:2] == [
            first_ns,
            first_ns + 10 * MS,
        ]
    assert len(phases) > 45


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 25 * MS)), max_size=40))
def test_equals_a_literal_reading(frames: list[tuple[int, int]]) -> None:
    receiver = Receiver()
    now_ns = 0
    times: list[tuple[int, int]] = []
    reports: list[tuple[int, list[int]]] = []
    for source, pause_ns in frames:
        now_ns += pause_ns
        # A timer precedes a simultaneous frame.
        reports += receiver.run_until(now_ns)
        receiver.record_data(source, now_ns)
        times.append((source, now_ns))
    reports += receiver.run_until(now_ns + 50 * MS)
    expected = []
    for tick_ns in range(0, now_ns + 50 * MS, 10 * MS):
        active = {s for s, t in times if 0 <= s < 4 and t < tick_ns and tick_ns - t <= 20 * MS}
        if active:
            expected.append((tick_ns, sorted(active)))
    assert reports == expected
