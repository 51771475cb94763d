"""The edge receiver: a destination's measurements between two probes of a flow (algorithms §4, rule 3).

Each flow (source, destination, priority) has one record of :class:`MeasuredFlow`. Frames are counted and
probes read as they arrive, **before** the queue of the egress adapter; a probe is answered with the result of
`on_probe`. Probes are no data and are not counted.
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
"""A bound that keeps octets · 8·10⁶ within 63 bits."""
_KBPS_NS_PER_OCTET = 8_000_000
"""One octet per ns in kb/s, 8 Gb/s."""


class MeasuredFlow:
    """The state of one flow at its destination; a record (``kernels.record``)."""

    probed: int
    """1 once a probe has come."""
    probed_ns: int
    counted_octets: int
    """Octets of the flow since the last probe."""


class E2CMEdgeCounters(MessageDiscards):
    """The counters of an edge receiver, over all flows; a record."""

    probes: int
    """Answered probes."""
    unmeasured_probes: int
    """Answered probes without throughput: the first of a flow, two at one time, or no record for the flow."""
    unanswerable: int
    """Unanswered probes: from a group address, or the station's own."""


class ReplyPayload:
    """The payload of a probe's reply, in the units of the wire; a record."""

    latency: int
    throughput: int


reply_payload: Callable[[Any], ReplyPayload] = payload_view(ReplyPayload, "payload")


class ProbeReply(NamedTuple):
    """The fields of BCN_PROBE_REV: ns modulo 2^32, kb/s."""

    latency_ns: int
    throughput_kbps: int


@inlined
def on_data(flow: MeasuredFlow, octets: int) -> None:
    """Count a data frame of ``octets`` that arrived."""
    flow.counted_octets = min(flow.counted_octets + octets, _LARGEST_OCTETS)


@inlined
def latency_ns(now_ns: int, timestamp_ns: int) -> int:
    """Return now − timestamp modulo 2^32, for any two clocks."""
    return (now_ns - timestamp_ns) % _TIMESTAMPS


@compiled
def on_probe(flow: MeasuredFlow, counters: E2CMEdgeCounters, now_ns: int, timestamp_ns: int) -> ProbeReply:
    """Answer a forward probe of a flow: the latency so far, and the service rate since its last probe.

    The throughput is 0 for the first probe, and for one at the same time as its predecessor, after which the
    measurement continues.
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
    """Answer a probe of a flow without a record: the source still gets its flight time."""
    counters.probes += 1
    counters.unmeasured_probes += 1
    return ProbeReply(latency_ns(now_ns, timestamp_ns), 0)


REPLY_KIND = 4
"""The kind of BCN_PROBE_REV."""


class E2CMEdge(E2CMEdgeCounters):
    """The state that all receivers share; a record."""

    flows_in_use: int
    """Records of flows in use."""


class E2CMReceivers(NullReceivers):
    """The destinations after a port: a record for each probed flow of a station, up to ``max_flows``.

    A flow gets its record with its first probe, before which nothing is measured.
    """

    edge: E2CMEdge
    flows: Sequence[MeasuredFlow]
    numbers: NDArray[np.int32]
    """The number of the record by station and flow, from 1 on; 0 for none."""
    flows_each: int

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Count a data frame; answer a probe."""
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
    """Return destinations before their first probe."""
    numbers = np.zeros(context.stations * context.flows, np.int32)
    return E2CMReceivers(
        new_record(E2CMEdge), new_records(MeasuredFlow, parameters.max_flows), numbers, context.flows
    )
