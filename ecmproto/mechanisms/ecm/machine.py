"""ECM as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import CMTag
from ecmproto.mechanisms.aimd.envelope import Refusals
from ecmproto.mechanisms.aimd.stations import (
    about_flow,
    flow_hash_of,
    flow_key_of,
    new_stations,
    rtt_gauges,
    station_counters,
)
from ecmproto.mechanisms.ecm.messages import PROTOCOL, frame_of, open_message
from ecmproto.mechanisms.ecm.messages import Message as Feedback
from ecmproto.mechanisms.ecm.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.ecm.reaction_point import settings_record
from ecmproto.mechanisms.ecm.stations import TAG_OCTETS, TIMESTAMP_BITS, TIMESTAMP_MASK, ECMStations
from ecmproto.mechanisms.ecm.switch import (
    ECM_KIND,
    ECM_MAX_KIND,
    ECM_ZERO_KIND,
    Points,
    new_points,
    point_counters,
)
from ecmproto.mechanisms.machine import Heard, Machine, Place, SampledFrame
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.protocol import CongestionPoint, Message, Receivers, Senders


class ECMMachine(Machine):
    """ECM with its parameters set."""

    tag = CMTag
    tag_octets = TAG_OCTETS
    tag_protocol = PROTOCOL
    kinds = MappingProxyType({ECM_KIND: "ECM", ECM_MAX_KIND: "ECM-Max", ECM_ZERO_KIND: "ECM(0,0)"})
    feedback_label = "Fb"
    refusal_record = Refusals

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: CongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ReactionPointParameters = parameters[Role.REACTION_POINT]
        self.set_point_octets = self._cp.qeq_octets
        self.flow_key = flow_key_of(self._rp)
        self.flow_hash = flow_hash_of(self._rp)

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each enabled priority."""
        return new_points(self._cp, self._rp.weight, place, generator)

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the floor is above the initial rate on the stations' links.
        """
        settings = settings_record(self._rp, place.link_rate_bps)
        return new_stations(
            ECMStations, self._rp, settings, place, generator, timestamp_unit=self._rp.timestamp_unit
        )

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the ECM frame; raises ValueError if the source of ``about`` may not get one."""
        feedback = Feedback(
            cpid=int(message.cpid),
            q_off=int(message.q_off),
            q_delta=int(message.q_delta),
            q=int(message.q),
            timestamp=int(message.timestamp),
            unit=int(message.unit),
            tagged=bool(message.tagged),
        )
        octets = frame_of(
            feedback, about.octets, cp_mac=place.cp_mac, parameters=self._cp, ethertypes=place.ethertypes
        )
        if octets is None:
            raise ValueError("the source of the sampled frame takes no messages")
        return octets

    def heard(
        self,
        octets: bytes,
        station_mac: bytes,
        place: Place,
        refusals: Refusals,
        *,
        length_octets: int | None = None,
    ) -> Heard | None:
        """Return what an ECM frame says.  That it is an ECM-Max shows in its numbers alone: it is an ECM."""
        found = open_message(
            octets,
            stations=(station_mac,),
            point=refusals,
            parameters=self._rp,
            length_octets=length_octets,
            ethertypes=place.ethertypes,
        )
        if found is None:
            return None
        message = found.fields
        severe = message.q_off == 0 and message.q_delta == 0
        fields = {
            **message._asdict(),
            "kind": ECM_ZERO_KIND if severe else ECM_KIND,
            "priority": found.flow.priority,
            "tagged": int(message.tagged),
        }
        return Heard(fields, about_flow(found.sampled))

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the CM-Tags' CPIDs, timestamps and units."""
        return {
            "cpid": tag.astype(np.uint64),
            "timestamp": mark & TIMESTAMP_MASK,
            "unit": mark >> TIMESTAMP_BITS,
        }

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what the congestion points or the reaction points have counted."""
        if isinstance(machine, Points):
            return point_counters(machine)
        return station_counters(machine) if isinstance(machine, ECMStations) else {}

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the reaction points' average round-trip time."""
        return rtt_gauges(machine.slots) if isinstance(machine, ECMStations) else {}
