"""The DCQCN notification point, which answers marked frames with at most one CNP per interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import Delivery, NullReceivers, Outbox, post
from ecmproto.control.mechanisms.dcqcn.parameters import ADDRESS, PORT, SCOPES, DCQCNEdgeParameters
from ecmproto.kernels.kernel import inlined
from ecmproto.kernels.record import new_record
from ecmproto.wire.formats.ip import CE

CNP_KIND = 1
_LONG_AGO_NS = -(2**61)
_PER_QP, _PER_ADDRESS, _PER_PORT = range(len(SCOPES))


class DCQCNReceiverCounts:
    """Record of the counters of notification points (``kernels.record``)."""

    delivered_frames: int
    ce_frames: int
    """Number of marked frames, answered or suppressed."""
    cnps: int
    suppressed: int
    """Number of marked frames without a CNP because the previous CNP was sent within the interval."""


@inlined
def is_due(sent_ns: NDArray[np.int64], index: int, now_ns: int, interval_ns: int) -> bool:
    """Return whether a marked frame at ``now_ns`` causes a CNP, and record the time of the CNP."""
    if now_ns - sent_ns[index] < interval_ns:
        return False
    sent_ns[index] = now_ns
    return True


class DCQCNReceivers(NullReceivers):
    """The notification points after the port."""

    counts: DCQCNReceiverCounts
    sent_ns: NDArray[np.int64]
    """Time of the last CNP by scope of the interval."""
    interval_ns: int
    scope: int
    stations: int
    flows_each: int

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Post a CNP about a marked frame if a CNP is due."""
        counts = self.counts
        counts.delivered_frames += 1
        if not delivery.tagged or delivery.tag != CE or delivery.probe:
            return
        counts.ce_frames += 1
        if self.scope == _PER_QP:
            index = delivery.station * self.flows_each + delivery.flow
        elif self.scope == _PER_ADDRESS:
            index = max(0, delivery.destination) * self.stations + delivery.station
        else:
            index = max(0, delivery.destination)
        if not is_due(self.sent_ns, index, delivery.now_ns, self.interval_ns):
            counts.suppressed += 1
            return
        counts.cnps += 1
        post(outbox, CNP_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)


def new_receivers(parameters: DCQCNEdgeParameters, context: PortContext) -> DCQCNReceivers:
    """Return notification points before the first CNP."""
    entries = context.stations * context.flows
    if parameters.per == ADDRESS:
        entries = context.stations * context.stations
    elif parameters.per == PORT:
        entries = context.stations
    sent_ns = np.full(max(1, entries), _LONG_AGO_NS, np.int64)
    return DCQCNReceivers(
        new_record(DCQCNReceiverCounts), sent_ns, parameters.interval_ns, SCOPES.index(parameters.per),
        context.stations, context.flows,
    )  # fmt: skip
