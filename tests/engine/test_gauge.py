"""A gauge's values by priority and for the port, compared with sums over all time spans."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ecmproto.control.engine.gauge import (
    PRIORITIES,
    TOTAL,
    Gauge,
    bin_lengths_ns,
    change,
    level_times,
    new_gauge,
    priorities_used,
    queue_statistics,
    queue_trace,
    settle,
    settled,
    step_of,
)

EVENTS = 60


def _events(generator: random.Random, second: int) -> list[tuple[int, int, int]]:
    """Return events of time, priority and octets: one priority before event ``second``, and three priorities
    from this event on.
    """
    levels = [0] * PRIORITIES
    now_ns, events = 0, []
    for number in range(EVENTS):
        now_ns += generator.choice((0, 1, 700, 90_000))
        priority = 5 if number < second else generator.choice((5, 0, 7))
        octets = -generator.randint(0, levels[priority]) if number % 3 == 2 else generator.randint(1, 3_000)
        levels[priority] += octets
        events.append((now_ns, priority, octets))
    return events


class _Row:
    def __init__(self) -> None:
        self.level = self.since_ns = self.peak = self.octet_ns = 0
        self.level_ns: dict[int, int] = {}
        self.spans: list[tuple[int, int, int]] = []

    def change(self, gauge: Gauge, now_ns: int, octets: int) -> None:
        elapsed_ns = now_ns - self.since_ns
        step = step_of(gauge.bins, self.level)
        self.level_ns[step] = self.level_ns.get(step, 0) + elapsed_ns
        self.octet_ns += elapsed_ns * self.level
        self.spans.append((self.since_ns, now_ns, self.level))
        self.since_ns, self.level = now_ns, self.level + octets
        self.peak = max(self.peak, self.level)


@pytest.mark.parametrize("second", [0, 1, 30, EVENTS], ids="second from event {}".format)
def test_priorities_are_counted_independently(second: int) -> None:
    generator = random.Random(second)
    events = _events(generator, second)
    gauge = new_gauge(2_000_000)
    rows = [_Row() for _ in range(PRIORITIES + 1)]
    if second % 2:
        settled(gauge, 0)  # before there was anything
    late_ns = 0
    for number, (time_ns, priority, octets) in enumerate(events):
        now_ns = time_ns + late_ns
        change(gauge, priority, now_ns, octets)
        for row in (priority, TOTAL):
            rows[row].change(gauge, now_ns, octets)
        assert _each(gauge, "octets") == [row.level for row in rows]
        if number % 20 == 10 or number == EVENTS - 1:  # looked at more than once
            settled(gauge, now_ns + 50)
            settled(gauge, now_ns + 50)
            for each in rows:
                each.change(gauge, now_ns + 50, 0)
            _assert_equal(gauge, rows)
            late_ns += 50


def _each(gauge: Gauge, name: str) -> list[float]:
    """Return a field of the queues of all priorities and of the port."""
    return [getattr(level, name) for level in (*gauge.queues, gauge.total)]


def _assert_equal(gauge: Gauge, rows: list[_Row]) -> None:
    assert _each(gauge, "octet_ns") == [float(row.octet_ns) for row in rows]
    assert _each(gauge, "peak_octets") == [row.peak for row in rows]
    assert _each(gauge, "since_ns") == [row.since_ns for row in rows]
    for number, row in enumerate(rows):
        level_ns = level_times(gauge, number)
        there = np.flatnonzero(level_ns)
        assert dict(zip(there.tolist(), level_ns[there].tolist(), strict=True)) == {
            step: span for step, span in row.level_ns.items() if span
        }
    assert priorities_used(gauge) == [number for number, row in enumerate(rows[:TOTAL]) if row.peak]
    if priorities_used(gauge) == [5]:
        assert queue_statistics(gauge, 5) == queue_statistics(gauge, TOTAL)
    found = queue_trace(gauge)
    octet_ns, peaks = [0] * len(found.mean_octets), [0] * len(found.mean_octets)
    for start_ns, end_ns, level in rows[TOTAL].spans:
        for time_bin in range(start_ns // found.span_ns, -(-end_ns // found.span_ns)):
            edge_ns = time_bin * found.span_ns
            octet_ns[time_bin] += (min(end_ns, edge_ns + found.span_ns) - max(start_ns, edge_ns)) * level
            peaks[time_bin] = max(peaks[time_bin], level)
    lengths_ns = bin_lengths_ns(len(octet_ns), found.span_ns, rows[TOTAL].since_ns)
    assert list(found.mean_octets) == pytest.approx(np.array(octet_ns) / lengths_ns)
    assert all(peak >= stood for peak, stood in zip(found.peak_octets, peaks, strict=True))
    assert max(found.peak_octets) == max(level for *_, level in rows[TOTAL].spans)


def test_total_only_gauge_keeps_levels_by_priority() -> None:
    gauge = new_gauge(10_000, total_only=True)
    for number, priority in enumerate((3, 3, 6, 1)):
        change(gauge, priority, 100 * number, 500)
    settle(gauge, 400)
    assert _each(gauge, "octets") == [0, 500, 0, 1000, 0, 0, 500, 0, 2000]
    assert _each(gauge, "peak_octets")[:TOTAL] == [0] * PRIORITIES
    assert gauge.total.octet_ns == 100.0 * (500 + 1000 + 1500 + 2000)
