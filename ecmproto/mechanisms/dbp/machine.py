"""DBP as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.codec import DBPRateReport
from ecmproto.mechanisms.dbp.congestion_point import set_capacity
from ecmproto.mechanisms.dbp.messages import received
from ecmproto.mechanisms.dbp.parameters import (
    CongestionPointParameters,
    EdgeParameters,
    ReactionPointParameters,
)
from ecmproto.mechanisms.dbp.reaction_point import on_report, settings_record
from ecmproto.mechanisms.dbp.receivers import REPORT_KIND, DBPReceivers, new_destinations
from ecmproto.mechanisms.fecn.messages import answer, answering
from ecmproto.mechanisms.fecn.reaction_point import Refusals
from ecmproto.mechanisms.fecn.stations import FECNStations, new_stations, queues_of, station_counters
from ecmproto.mechanisms.fecn.switch import FECNPort, new_port, port_counters
from ecmproto.mechanisms.machine import FlowKey, Heard, Machine, Place, SampledFrame, total
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import CongestionPoint, Message, Receivers, Senders


class DBPStations(FECNStations):
    """FECN's sources, which tag nothing here and take their rates from reports."""

    __slots__ = ()

    def heed(self, message: Message, now_ns: int) -> None:
        """Take the rate that a report brings for its flow's queue."""
        queues = queues_of(self.queues, self.queues_each, message.station)
        on_report(self.sources[message.station], queues, self.settings, message.flow, message.rate, now_ns)


class DBPMachine(Machine):
    """DBP with its parameters set."""

    flow_key = FlowKey(vlan=False, dst=True, priority=False, cn_tag=False)
    kinds = MappingProxyType({REPORT_KIND: "DBP rate report"})
    answers = frozenset({REPORT_KIND})
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
        return DBPStations(*new_stations(self._rp, settings_record(self._rp), place, generator))

    def receivers(self, place: Place, generator: np.random.Generator) -> Receivers:
        """Return destinations that have heard nothing."""
        return new_destinations(self._edge, place, generator)

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the rate report, as it comes out of the port's switch."""
        return answer(
            about.octets,
            DBPRateReport(rate=int(message.rate)),
            port_mac=place.cp_mac,
            priority=self._edge.report_priority,
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
        """Return what a rate report says."""
        found = received(octets, refusals, station_mac=station_mac, ethertypes=place.ethertypes)
        if found is None:
            return None
        return Heard({"kind": REPORT_KIND, "rate": found.rate}, answering(octets, place.ethertypes))

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what the congestion point, the sources or the destinations have counted."""
        if isinstance(machine, FECNPort):
            return port_counters(machine)
        if isinstance(machine, FECNStations):
            return station_counters(machine)
        if isinstance(machine, DBPReceivers):
            return total(machine.destination, "reports", "unheard_frames")
        return {}
