"""Steps of a port with its congestion point; the loop provides the clock, the frames and the messages.

`replay.open_loop`, `engine.loop` and `live.switching` call these steps. A frame's ``serial`` is the cause of
messages posted at the frame's arrival. At a departure, only a network sets a cause, because only frame
numbers of a network remain valid after a batch.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.control.engine.frame_pool import Frame
from ecmproto.control.engine.gauge import queue_lengths
from ecmproto.control.engine.port import Port, arrive, depart
from ecmproto.control.mechanisms.api.protocol import NO_CAUSE, Arrival, CongestionPoint, Outbox
from ecmproto.kernels.kernel import inlined


class PassingFrame(NamedTuple):
    """Interface for the frame fields that the port's steps read, as a frame of the pool has them."""

    serial: int
    station: int
    flow: int
    priority: int
    octets: int
    sampled: bool
    answerable: bool
    tagged: bool
    tag: int
    mark: int


@inlined
def enter(
    port: Port,
    point: CongestionPoint,
    outbox: Outbox,
    frame: Frame | PassingFrame,
    token: int,
    fits: bool,
    now_ns: int,
) -> tuple[bool, int]:
    """Enqueue or drop a frame, with its congestion point; return whether the frame was enqueued, and its tag.

    ``fits`` is true if all stores except the port's own buffer have space.
    """
    is_tagged = frame.tagged == 1
    enqueued = bool(fits and arrive(port, now_ns, frame.priority, frame.octets, token, is_tagged))
    outbox.posted.cause = frame.serial
    point.on_arrival(
        Arrival(
            now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.sampled == 1,
            frame.answerable == 1, enqueued, is_tagged, frame.tag, frame.mark,
            port.gauge.queues[frame.priority].octets, port.gauge.total.octets,
        ),
        outbox,
    )  # fmt: skip
    outbox.posted.cause = NO_CAUSE
    tag = frame.tag
    if enqueued and is_tagged:
        tag = point.rewrite_tag(frame.priority, tag)
    return enqueued, tag


@inlined
def select_queue(
    port: Port, point: CongestionPoint, outbox: Outbox, frame: Frame | PassingFrame, now_ns: int
) -> int:
    """Return the queue that the congestion point selects for a frame, before `enter`."""
    outbox.posted.cause = frame.serial
    queue = point.select_queue(
        Arrival(
            now_ns, frame.station, frame.flow, frame.priority, frame.octets, frame.sampled == 1,
            frame.answerable == 1, False, frame.tagged == 1, frame.tag, frame.mark,
            port.gauge.queues[frame.priority].octets, port.gauge.total.octets,
        ),
        port.line.stopped_mask,
        outbox,
    )  # fmt: skip
    outbox.posted.cause = NO_CAUSE
    return queue


@inlined
def leave(port: Port, point: CongestionPoint, outbox: Outbox, station: int) -> int:
    """Remove the frame of ``station`` from the line, count the frame, and return its token."""
    line = port.line
    when_ns, priority, octets = line.departure_ns, line.in_service_priority, line.in_service_octets
    token = depart(port)
    point.on_dequeue(when_ns, station, priority, octets, port.gauge.total.octets, outbox)
    return token


@inlined
def tick(port: Port, point: CongestionPoint, outbox: Outbox, now_ns: int) -> None:
    """Run the congestion point's timers that are due at ``now_ns``."""
    point.on_timer(now_ns, queue_lengths(port.gauge), outbox)
