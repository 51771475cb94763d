"""The E²CM edge receivers behind a port as they are driven (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.e2cm.edge_receiver import EdgeCounters, Flow, on_data, on_probe, on_unknown_probe
from ecmproto.mechanisms.e2cm.parameters import EdgeParameters
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import Place
from ecmproto.mechanisms.protocol import Delivery, Outbox, post
from ecmproto.record import new_record, new_records
from ecmproto.structs import Struct

REPLY_KIND = 4
"""BCN_PROBE_REV."""


class Edge(EdgeCounters):
    """What the receivers share; a record."""

    taken: int
    """Records of flows in use."""


class Destinations(Struct):
    """The destinations behind a port: a record for each probed flow of a station, up to ``max_flows``.

    A flow takes its record with its first probe: what came before that is not measured anyway.
    """

    edge: Edge
    flows: Sequence[Flow]
    numbers: NDArray[np.int32]
    """By station and flow: the number of its record, from 1 on; 0 for none."""
    flows_each: int

    def delivered(self, delivery: Delivery, outbox: Outbox) -> None:
        """Count a data frame; answer a probe."""
        place = delivery.station * self.flows_each + delivery.flow
        index = self.numbers[place] - 1
        if not delivery.probe:
            if index >= 0:
                on_data(self.flows[index], delivery.octets)
            return
        if index < 0 and self.edge.taken < len(self.flows):
            index = self.edge.taken
            self.edge.taken += 1
            self.numbers[place] = index + 1
        if index >= 0:
            reply = on_probe(self.flows[index], self.edge, delivery.now_ns, delivery.mark)
        else:
            reply = on_unknown_probe(self.edge, delivery.now_ns, delivery.mark)
        message = post(
            outbox, REPLY_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority
        )
        message.latency = reply.latency_ns
        message.throughput = reply.throughput_kbps

    def report_ns(self) -> int:
        """Return NEVER_NS: they speak only when they are asked."""
        return NEVER_NS

    def report(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing."""


def new_destinations(parameters: EdgeParameters, place: Place) -> Destinations:
    """Return destinations that no probe has come to."""
    numbers = np.zeros(place.stations * place.flows, np.int32)
    return Destinations(new_record(Edge), new_records(Flow, parameters.max_flows), numbers, place.flows)
