"""What destinations make of the frames that come to them: the loop over a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.engine.arrivals import Arrivals
from ecmproto.kernel import compiled
from ecmproto.mechanisms.protocol import NO_CAUSE, Delivery, Outbox, Receivers, has_room

_ROOM = 16


@compiled
def deliver(
    receivers: Receivers, arrivals: Arrivals, probe: NDArray[np.bool_], outbox: Outbox, first: int
) -> int:
    """Deliver ``arrivals`` from position ``first`` on; frames without station or flow are nobody's.

    The position of the frame that caused an answer is in the message's ``cause``.  Returns the position of
    the first that was not delivered: it stops early when ``outbox`` has no more room.
    """
    times_ns, octets, priorities = arrivals.time_ns, arrivals.octets, arrivals.priority
    tagged, tags, marks = arrivals.tagged, arrivals.tag, arrivals.mark
    stations, flows = arrivals.station, arrivals.flow
    for position in range(first, len(times_ns)):
        if not has_room(outbox, _ROOM):
            return position
        if stations[position] < 0 or flows[position] < 0:
            continue
        outbox.posted.cause = position
        delivery = Delivery(
            times_ns[position], int(stations[position]), int(flows[position]), int(priorities[position]),
            octets[position], probe[position], tagged[position], tags[position], marks[position],
        )  # fmt: skip
        receivers.delivered(delivery, outbox)
        outbox.posted.cause = NO_CAUSE
    return len(times_ns)


@compiled
def report(receivers: Receivers, now_ns: int, outbox: Outbox) -> None:
    """Let destinations report what is due by ``now_ns``, as far as there is room."""
    while receivers.report_ns() <= now_ns and has_room(outbox, _ROOM):
        receivers.report(max(receivers.report_ns(), 0), outbox)
