"""A port whose CN priorities each have a QCN congestion point: the loop over a batch of arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.qcn.congestion_point import Settings, State, count, sample
from ecmproto.kernel import compiled
from ecmproto.replay.port import Port, advance, arrive, is_full

PASSED_BY, ENQUEUED, DROPPED = 0, 1, 2
"""What became of a frame: it never occupies a queue, it was enqueued, it was dropped."""


class Sample:
    """One sampling instant of a congestion point; a record (``ecmproto.record``)."""

    position: int
    """Of the sampled frame in its batch."""
    time_ns: int
    priority: int
    qlen_octets: int
    qoff_octets: int
    qdelta_octets: int
    fb_1024: int
    """Fb in 1/1024 octet."""
    qntz_fb: int


class Arrivals(NamedTuple):
    """A batch as the port sees it: time in ns from the first arrival of all, octets without FCS, classes."""

    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]


class Outcomes(NamedTuple):
    """Per frame: its fate, and Qlen of its priority after it (−1 if it passed by)."""

    fate: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]


@compiled
def run(
    port: Port,
    points: Sequence[State],
    settings: Settings,
    generator: np.random.Generator,
    arrivals: Arrivals,
    outcomes: Outcomes,
    samples: Sequence[Sample],
    first: int,
) -> tuple[int, int]:
    """Run ``arrivals`` from position ``first`` on through the port and its congestion points.

    ``arrivals.sampled`` is whether a frame takes part in sampling: its kind may, and its priority has a
    congestion point.  Fills ``outcomes`` and ``samples``; returns the position of the first frame that was
    not run, and the number of samples.  It stops early when ``samples`` or a ring is full.
    """
    line, gauge, slots = port
    times_ns, lengths, priorities, occupies, sampled = arrivals
    fates, qlens_octets = outcomes
    used = 0
    for position in range(first, times_ns.size):
        priority = priorities[position]
        octets = lengths[position]
        if used == len(samples) or is_full(line, priority):
            return position, used
        now_ns = advance(line, gauge, slots, times_ns[position])
        if not occupies[position] or octets <= 0:
            fates[position] = PASSED_BY
            qlens_octets[position] = -1
            continue
        enqueued = arrive(line, gauge, slots, now_ns, priority, octets)
        qlen_octets = gauge.level_octets[priority]
        fates[position] = ENQUEUED if enqueued else DROPPED
        qlens_octets[position] = qlen_octets
        if enqueued and sampled[position] and count(points[priority], octets):
            feedback = sample(points[priority], settings, generator, qlen_octets)
            record = samples[used]
            record.position = position
            record.time_ns = now_ns
            record.priority = priority
            record.qlen_octets = qlen_octets
            record.qoff_octets = feedback.qoff_octets
            record.qdelta_octets = feedback.qdelta_octets
            record.fb_1024 = feedback.fb_1024
            record.qntz_fb = feedback.qntz_fb
            used += 1
    return times_ns.size, used
