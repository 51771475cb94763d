"""BCN as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import RRTTag
from ecmproto.mechanisms.aimd.envelope import Refusals
from ecmproto.mechanisms.aimd.stations import (
    about_flow,
    flow_hash_of,
    flow_key_of,
    new_stations,
    station_counters,
)
from ecmproto.mechanisms.bcn.messages import PROTOCOL, frame_of, open_message
from ecmproto.mechanisms.bcn.messages import Message as Feedback
from ecmproto.mechanisms.bcn.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.mechanisms.bcn.reaction_point import settings_record
from ecmproto.mechanisms.bcn.stations import TAG_OCTETS, BCNStations
from ecmproto.mechanisms.bcn.switch import (
    BCN_KIND,
    BCN_STOP_KIND,
    KIND_OF_TYPE,
    Points,
    new_points,
    point_counters,
)
from ecmproto.mechanisms.machine import Heard, Machine, Place, SampledFrame
from ecmproto.mechanisms.mechanism import Role
from ecmproto.mechanisms.pause.generation import Signal
from ecmproto.mechanisms.pause.messages import pause_frame
from ecmproto.mechanisms.protocol import PAUSE_KIND, CongestionPoint, Message, Receivers, Senders


class BCNMachine(Machine):
    """Enhanced BCN with its parameters set."""

    tag = RRTTag
    tag_octets = TAG_OCTETS
    tag_protocol = PROTOCOL
    kinds = MappingProxyType({BCN_KIND: "BCN", BCN_STOP_KIND: "BCN STOP"})
    feedback_label = "e"
    refusal_record = Refusals

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: CongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ReactionPointParameters = parameters[Role.REACTION_POINT]
        self.set_point_octets = self._cp.qeq_octets
        self.flow_key = flow_key_of(self._rp)
        self.flow_hash = flow_hash_of(self._rp)

    def congestion_point(self, place: Place, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each enabled priority; above Qst they pause all stations."""
        return new_points(self._cp, place, generator)

    def senders(self, place: Place, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the floor is above the initial rate on the stations' links.
        """
        settings = settings_record(self._rp, place.link_rate_bps)
        return new_stations(BCNStations, self._rp, settings, place, generator)

    def frame(self, message: Message, about: SampledFrame, place: Place) -> bytes:
        """Return the BCN message or the PAUSE.

        Raises ValueError for a BCN message that the source of ``about`` may not get.
        """
        if message.kind == PAUSE_KIND:
            signal = Signal(int(message.enable_vector), int(message.quanta))
            return pause_frame(signal, src=place.cp_mac, ethertypes=place.ethertypes)
        feedback = Feedback(
            type=int(message.kind) - KIND_OF_TYPE,
            cpid=int(message.cpid),
            e=int(message.e),
            capacity=int(message.capacity),
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
        """Return what a BCN message says."""
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
        fields = {
            "kind": message.type + KIND_OF_TYPE,
            "priority": found.flow.priority,
            "cpid": message.cpid,
            "e": message.e,
            "capacity": message.capacity,
        }
        return Heard(fields, about_flow(found.sampled))

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the RRT tags' CPIDs."""
        return {"cpid": tag.astype(np.uint64)}

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return what the congestion points or the reaction points have counted."""
        if isinstance(machine, Points):
            return point_counters(machine)
        return station_counters(machine) if isinstance(machine, BCNStations) else {}
