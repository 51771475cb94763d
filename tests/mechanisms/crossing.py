"""Frames of several stations that cross a port, and a loop that shows them to a congestion point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.protocol import Arrival, CongestionPoint, Message, Outbox, new_outbox
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import columns

PRIORITIES = 8


class Crossing(NamedTuple):
    """Arrivals and departures, in order; ``qlens_octets`` and ``port_octets`` are the queues after each."""

    now_ns: NDArray[np.int64]
    arrives: NDArray[np.bool_]
    enqueued: NDArray[np.bool_]
    station: NDArray[np.int64]
    priority: NDArray[np.int64]
    octets: NDArray[np.int64]
    qlens_octets: NDArray[np.int64]
    """Queue lengths in octets by step and priority."""


def crossing(seed: int, *, steps: int, stations: int, buffer_octets: int, gap_ns: int) -> Crossing:
    """Return a random sequence of frames for a queue of ``buffer_octets``, which fills and empties
    repeatedly.
    """
    draw = np.random.default_rng(seed)
    queue: list[tuple[int, int, int]] = []
    qlens = np.zeros(PRIORITIES, np.int64)
    rows, levels, now_ns = [], [], 0
    for step in range(steps):
        now_ns += int(draw.integers(1, gap_ns))
        likely = 0.75 if step % 400 < 200 else 0.25
        arrives = not queue or draw.random() < likely
        enqueued = True
        if arrives:
            # Station −1 is an unknown station.
            frame = (int(draw.integers(-1, stations)), int(draw.integers(2, 5)), int(draw.integers(60, 1515)))
            enqueued = int(qlens.sum()) + frame[2] <= buffer_octets
            if enqueued:
                queue.append(frame)
                qlens[frame[1]] += frame[2]
        else:
            frame = queue.pop(0)
            qlens[frame[1]] -= frame[2]
        rows.append((now_ns, arrives, enqueued, *frame))
        levels.append(qlens.copy())
    times, arrivals, results, sources, priorities, octets = zip(*rows, strict=True)
    return Crossing(
        np.array(times, np.int64),
        np.array(arrivals, np.bool_),
        np.array(results, np.bool_),
        np.array(sources, np.int64),
        np.array(priorities, np.int64),
        np.array(octets, np.int64),
        np.array(levels, np.int64),
    )


@compiled
def show(point: CongestionPoint, frames: Crossing, outbox: Outbox) -> int:
    """Pass a crossing to ``point``, ticks first, and return the number of ticks."""
    ticks = 0
    for step in range(frames.now_ns.size):
        now_ns = frames.now_ns[step]
        while point.next_timer_ns() <= now_ns:
            ticks += 1
            point.on_timer(point.next_timer_ns(), frames.qlens_octets[max(0, step - 1)], outbox)
        station, priority = frames.station[step], frames.priority[step]
        octets, port_octets = frames.octets[step], frames.qlens_octets[step].sum()
        if frames.arrives[step]:
            point.on_arrival(
                Arrival(
                    now_ns, station, 0 if station >= 0 else -1, priority, octets, True, True,
                    frames.enqueued[step], True, 7, 0, frames.qlens_octets[step][priority], port_octets,
                ),
                outbox,
            )  # fmt: skip
        else:
            point.on_dequeue(now_ns, station, priority, octets, port_octets, outbox)
    return ticks


def shown(point: CongestionPoint, frames: Crossing) -> Outbox:
    """Return all results of ``point`` for a crossing."""
    outbox = new_outbox(4 * frames.now_ns.size)
    show(point, frames, outbox)
    return outbox


def said(outbox: Outbox, *kinds: int) -> list[tuple[float, ...]]:
    """Return the contents of ``outbox``, all fields of each message; of ``kinds`` alone if there are any."""
    posted = columns(outbox.messages)[: int(outbox.posted.count)]
    if kinds:
        posted = posted[np.isin(posted["kind"], kinds)]
    return [
        (
            *(row[name].item() for name in Message.__annotations__ if name != "payload"),
            *row["payload"].tolist(),
        )
        for row in posted
    ]
