"""The edge receiver, which measures a flow between two probes of the flow (algorithms §4, rule 3).

Each flow (source, destination, priority) has a record of type :class:`MeasuredFlow`. Frames are counted and
probes are read at their arrival, **before** the queue of the egress adapter. The answer to a probe contains
the result of `on_probe`. Probes are not data, so probes are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import MessageDiscards, PortContext
from ecmproto.control.mechanisms.api.protocol import Delivery, NullReceivers, Outbox, post
from ecmproto.control.mechanisms.e2cm.parameters import E2CMEdgeParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records
from ecmproto.kernels.structs import payload_view

_TIMESTAMPS = 2**32
_LARGEST_KBPS = 2**32 - 1
_LARGEST_OCTETS = 10**12
"""Maximum octet count, which keeps octets · 8·10⁶ within 63 bits."""
_KBPS_NS_PER_OCTET = 8_000_000
"""Rate of one octet per ns in kb/s, which is 8 Gb/s."""


class MeasuredFlow:
    """Record of a flow's state at the destination (``kernels.record``)."""

    probed: int
    """1 after the first probe, otherwise 0."""
    probed_ns: int
    counted_octets: int
    """Number of octets of the flow since the last probe."""


class E2CMEdgeCounters(MessageDiscards):
    """Record of an edge receiver's counters, summed over all flows."""

    probes: int
    """Number of answered probes."""
    unmeasured_probes: int
    """Number of answers without a throughput.

    The throughput is missing for the first probe of a flow, for two probes at the same time, and for a flow
    without a record.
    """
    unanswerable: int
    """Number of unanswered probes from a group address or from the address of the station."""


class ReplyPayload:
    """Record of the payload of a probe's reply, in the units of the wire format."""

    latency: int
    throughput: int


reply_payload: Callable[[Any], ReplyPayload] = payload_view(ReplyPayload, "payload")


class ProbeReply(NamedTuple):
    """Fields of BCN_PROBE_REV: latency in ns modulo 2^32, and throughput in kb/s."""

    latency_ns: int
    throughput_kbps: int


@inlined
def on_data(flow: MeasuredFlow, octets: int) -> None:
    """Count an arrived data frame of ``octets``."""
    flow.counted_octets = min(flow.counted_octets + octets, _LARGEST_OCTETS)


@inlined
def latency_ns(now_ns: int, timestamp_ns: int) -> int:
    """Return ``now_ns`` − ``timestamp_ns`` modulo 2^32; the two clocks need not be synchronised."""
    return (now_ns - timestamp_ns) % _TIMESTAMPS


@compiled
def on_probe(flow: MeasuredFlow, counters: E2CMEdgeCounters, now_ns: int, timestamp_ns: int) -> ProbeReply:
    """Return the latency and the throughput since the previous probe, as the answer to a probe.

    The throughput is 0 for the first probe, and for a second probe at the same time. A second probe at the
    same time does not restart the measurement.
    """
    counters.probes += 1
    elapsed_ns = now_ns - flow.probed_ns
    throughput_kbps = 0
    if flow.probed == 1 and elapsed_ns <= 0:
        counters.unmeasured_probes += 1
        return ProbeReply(latency_ns(now_ns, timestamp_ns), 0)
    if flow.probed == 1:
        throughput_kbps = min(flow.counted_octets * _KBPS_NS_PER_OCTET // elapsed_ns, _LARGEST_KBPS)
    else:
        counters.unmeasured_probes += 1
    flow.probed = 1
    flow.probed_ns = now_ns
    flow.counted_octets = 0
    return ProbeReply(latency_ns(now_ns, timestamp_ns), throughput_kbps)


@compiled
def on_unknown_probe(counters: E2CMEdgeCounters, now_ns: int, timestamp_ns: int) -> ProbeReply:
    """Answer a probe of a flow without a record, with the latency but without a throughput."""
    counters.probes += 1
    counters.unmeasured_probes += 1
    return ProbeReply(latency_ns(now_ns, timestamp_ns), 0)


REPLY_KIND = 4
"""Message kind of BCN_PROBE_REV."""


class E2CMEdge(E2CMEdgeCounters):
    """Record of the state that all receivers share."""

    flows_in_use: int
    """Number of flow records in use."""


class E2CMReceivers(NullReceivers):
    """The destinations after a port, with at most ``max_flows`` records for probed flows.

    The first probe of a flow assigns the record. Nothing is measured before the first probe.
    """

    edge: E2CMEdge
    flows: Sequence[MeasuredFlow]
    numbers: NDArray[np.int32]
    """Number of the record, from 1 on, by station and flow; 0 for a flow without a record."""
    flows_each: int

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Count a data frame, or answer a probe."""
        position = delivery.station * self.flows_each + delivery.flow
        index = self.numbers[position] - 1
        if not delivery.probe:
            if index >= 0:
                on_data(self.flows[index], delivery.octets)
            return
        if index < 0 and self.edge.flows_in_use < len(self.flows):
            index = self.edge.flows_in_use
            self.edge.flows_in_use += 1
            self.numbers[position] = index + 1
        if index >= 0:
            reply = on_probe(self.flows[index], self.edge, delivery.now_ns, delivery.mark)
        else:
            reply = on_unknown_probe(self.edge, delivery.now_ns, delivery.mark)
        message = post(
            outbox, REPLY_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority
        )
        fields = reply_payload(message)
        fields.latency = reply.latency_ns
        fields.throughput = reply.throughput_kbps


def new_destinations(parameters: E2CMEdgeParameters, context: PortContext) -> E2CMReceivers:
    """Return destinations before the first probe."""
    numbers = np.zeros(context.stations * context.flows, np.int32)
    return E2CMReceivers(
        new_record(E2CMEdge), new_records(MeasuredFlow, parameters.max_flows), numbers, context.flows
    )
