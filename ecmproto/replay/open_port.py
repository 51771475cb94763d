"""A port with a congestion point under the arrivals of a capture, whatever it says: the loop over a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.protocol import NO_CAUSE, Arrival, CongestionPoint, Outbox, has_room
from ecmproto.replay.fates import DROPPED, ENQUEUED, PASSED_BY
from ecmproto.replay.gauge import PRIORITIES, TOTAL
from ecmproto.replay.port import Port, arrive, depart, departs, is_full

_ROOM = 16
"""More than a frame and what happens before it can post, but for ticks, which look for room themselves."""


class Arrivals(NamedTuple):
    """A batch as the port sees it: time in ns from the first arrival of all, octets without FCS, classes.

    Times never run backwards, within a batch or from one to the next.
    ``tag`` and ``mark`` are those of `ecmproto.mechanisms.protocol.Arrival`.
    """

    time_ns: NDArray[np.int64]
    octets: NDArray[np.int64]
    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    tagged: NDArray[np.bool_]
    tag: NDArray[np.int64]
    mark: NDArray[np.int64]
    station: NDArray[np.int32]
    flow: NDArray[np.int32]


class Outcomes(NamedTuple):
    """Per frame: its fate, Qlen of its priority after it (−1 if it passed by), and the tag it carries on."""

    fate: NDArray[np.uint8]
    qlen_octets: NDArray[np.int64]
    tag: NDArray[np.int64]


@compiled
def run(
    port: Port, point: CongestionPoint, arrivals: Arrivals, outcomes: Outcomes, outbox: Outbox, first: int
) -> int:
    """Run ``arrivals`` from position ``first`` on through the port and its congestion point.

    Fills ``outcomes``; messages and samples stay in ``outbox``, the position of the frame that caused each
    in its ``cause``.  Returns the position of the first frame that was not run: it stops early when
    ``outbox`` or a ring is full.
    """
    line, gauge = port.line, port.gauge
    # Arrays are taken out of their tuples here: in a loop that costs as much as the loop itself.
    times_ns, lengths, priorities, occupies, sampled, answerable, tagged, tags, marks, stations, flows = (
        arrivals
    )
    fates, qlens_octets, forwarded = outcomes
    levels_octets = gauge.level_octets
    posted = outbox.posted
    for position in range(first, times_ns.size):
        priority = int(priorities[position])
        octets = lengths[position]
        if not has_room(outbox, _ROOM) or is_full(line, priority):
            return position
        now_ns = times_ns[position]
        if not _settle(port, point, outbox, now_ns):
            return position
        if not occupies[position] or octets <= 0:
            fates[position] = PASSED_BY
            qlens_octets[position] = -1
            continue
        station = int(stations[position])
        enqueued = arrive(port, now_ns, priority, octets, station + 1, tagged[position])
        qlen_octets = levels_octets[priority]
        fates[position] = ENQUEUED if enqueued else DROPPED
        qlens_octets[position] = qlen_octets
        posted.cause = position
        point.arrived(
            Arrival(
                now_ns, station, int(flows[position]), priority, octets, sampled[position],
                answerable[position], enqueued, tagged[position], tags[position], marks[position],
                qlen_octets, levels_octets[TOTAL],
            ),
            outbox,
        )  # fmt: skip
        posted.cause = NO_CAUSE
        if enqueued and tagged[position]:
            forwarded[position] = point.forwarded(priority, tags[position])
    return times_ns.size


@inlined
def _settle(port: Port, point: CongestionPoint, outbox: Outbox, now_ns: int) -> bool:
    """Let departures and ticks happen up to ``now_ns``; False if ``outbox`` has no more room before that."""
    line, gauge = port.line, port.gauge
    late = False
    while True:
        tick_ns = point.tick_ns()
        if departs(line, min(now_ns, tick_ns)):
            when_ns, priority, octets = line.departure_ns, line.in_service_priority, line.in_service_octets
            station = depart(port) - 1
            point.left(when_ns, station, priority, octets, gauge.level_octets[TOTAL], outbox)
        elif tick_ns <= now_ns:
            # At an idle port nothing changes from tick to tick: one call catches up with all.
            when_ns = now_ns if late and line.in_service_octets == 0 else tick_ns
            point.tick(when_ns, gauge.level_octets[:PRIORITIES], outbox)
            late = True
        else:
            return True
        if not has_room(outbox, _ROOM):
            return False
