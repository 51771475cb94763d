"""FECN as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import FECNReturn, RDTag
from ecmproto.mechanisms.fecn.congestion_point import set_capacity
from ecmproto.mechanisms.fecn.edge import Edge
from ecmproto.mechanisms.fecn.messages import answer, answering, received
from ecmproto.mechanisms.fecn.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.mechanisms.fecn.reaction_point import TAG_OCTETS, Refusals, settings_record
from ecmproto.mechanisms.fecn.stations import FECNStations, new_stations, queues_each, station_counters
from ecmproto.mechanisms.fecn.switch import FECNPort, new_port, port_counters
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.mechanisms.machine import FlowKey, Heard, Machine, Place, SampledFrame, total
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import CongestionPoint, Delivery, Message, Outbox, Receivers, Senders, post
from ecmproto.record import new_record
from ecmproto.structs import Struct

RETURN_KIND = 1


class FECNReceivers(Struct):
    """The edge receivers behind the port: each strips RD tags and sends them back."""

    edge: Edge

    def delivered(self, delivery: Delivery, outbox: Outbox) -> None:
        """Post the returning frame of a tagged one."""
        if not delivery.tagged:
            return
        self.edge.stripped += 1
        self.edge.returns += 1
        post(outbox, RETURN_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)
        # Plain Python gets a copy of a record that a compiled function returns.
        message = outbox.messages[outbox.posted.count - 1]
        message.rlq_id = delivery.mark
        message.rate = delivery.tag

    def report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def report(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing: receivers speak only when a tag comes."""


class FECNMachine(Machine):
    """FECN with its parameters set."""

    flow_key = FlowKey(vlan=False, dst=True, priority=True, cn_tag=False)
    tag = RDTag
    tag_octets = TAG_OCTETS
    tag_protocol = 3
    kinds = MappingProxyType({RETURN_KIND: "FECN return"})
    answers = frozenset({RETURN_KIND})
    refusal_record = Refusals

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: CongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ReactionPointParameters = parameters[Role.REACTION_POINT]
        self._edge: EdgeParameters = parameters[Role.EDGE]
        self.set_point_octets = self._cp.qeq_octets

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return the port's congestion point, one for all priorities."""
        return new_port(self._cp, place, generator)

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Have the advertised rate follow the line's, at the next tick (enhancement 4)."""
        if isinstance(point, FECNPort):
            set_capacity(point.state, float(capacity_bps))

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return sources of which no queue was used yet."""
        return new_stations(self._rp, settings_record(self._rp), place, generator)

    def receivers(self, place: Place, generator: np.random.Generator) -> Receivers:
        """Return edge receivers."""
        return FECNReceivers(new_record(Edge))

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the returning frame."""
        body = FECNReturn(rlq_id=int(message.rlq_id), rate=int(message.rate))
        return answer(
            about.octets,
            body,
            port_mac=place.cp_mac,
            priority=self._edge.return_priority,
            ethertypes=place.ethertypes,
        )

    def heard(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: Refusals,
        *,
        length_octets: int | None = None,
    ) -> Heard | None:
        """Return what a returning frame says: it is about a flow of the queue that it names."""
        found = received(octets, refusals, station_mac=station_mac, ethertypes=place.ethertypes)
        if found is None:
            return None
        fields = {"kind": RETURN_KIND, "rlq_id": found.rlq_id, "rate": found.rate}
        queues = queues_each(self._rp, place)
        index = found.rlq_id - 1
        # Flows beyond the table share its last queue.
        flows = range(index, index + 1 if index < queues - 1 else max(queues, place.flows))
        return Heard(fields, answering(octets, place.ethertypes)._replace(among=flows))

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the RD tags' rates and RLQ-IDs."""
        return {"rlq_id": mark, "rate": tag}

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what the congestion point, the sources or the receivers have counted."""
        if isinstance(machine, FECNPort):
            return port_counters(machine)
        if isinstance(machine, FECNStations):
            return station_counters(machine)
        if isinstance(machine, FECNReceivers):
            return total(machine.edge, "stripped", "returns")
        return {}
