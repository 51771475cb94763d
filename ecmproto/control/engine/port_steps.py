"""The steps of a port with its congestion point; a loop holds the clock, the frames and the messages.

`replay.open_loop`, `engine.loop` and `live.switching` call them.  A frame's ``serial`` is the cause of what
is posted when it comes; when it departs, a network alone sets one, since only its numbers outlive a batch.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.control.engine.frame_pool import Frame
from ecmproto.control.engine.gauge import queue_lengths
from ecmproto.control.engine.port import Port, arrive, depart
from ecmproto.control.mechanisms.api.protocol import NO_CAUSE, Arrival, CongestionPoint, Outbox
from ecmproto.kernels.kernel import inlined


class PassingFrame(NamedTuple):
    """A frame that comes to a port, as far as the port's steps read it: what a pool's frame has, too."""

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
    """Enqueue a frame or drop it, as its congestion point sees it; return whether it is in, and its tag.

    ``fits`` is whether all stores but the port's own buffer have room.
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
def leave(port: Port, point: CongestionPoint, outbox: Outbox, station: int) -> int:
    """Take the frame of ``station`` off the line, which the congestion point counts; return its token."""
    line = port.line
    when_ns, priority, octets = line.departure_ns, line.in_service_priority, line.in_service_octets
    token = depart(port)
    point.on_dequeue(when_ns, station, priority, octets, port.gauge.total.octets, outbox)
    return token


@inlined
def tick(port: Port, point: CongestionPoint, outbox: Outbox, now_ns: int) -> None:
    """Run the congestion point's timers that are due at ``now_ns``."""
    point.on_timer(now_ns, queue_lengths(port.gauge), outbox)
