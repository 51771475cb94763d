"""BCN's frames, the BCN message and the RRT tag, and its machine (S004 Figs 2 and 3; wire-formats 5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import BCN, EtherTypes, Frame, RRTTag
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.messages import (
    AIMDDiscards,
    Flow,
    Received,
    answer,
    received,
    tag_of,
    with_tag,
    without_tags,
)
from ecmproto.mechanisms.aimd.reaction_point import (
    about_flow,
    flow_hash_of,
    flow_key_of,
    new_stations,
    station_counters,
)
from ecmproto.mechanisms.api.frames import headers
from ecmproto.mechanisms.api.machine import Machine, ParsedFeedback, PortContext, SampledFrame
from ecmproto.mechanisms.api.mechanism import Role
from ecmproto.mechanisms.api.protocol import (
    NO_CPID,
    PAUSE_KIND,
    SILENT,
    CongestionPoint,
    Message,
    Receivers,
    Senders,
    signed_cpid,
    unsigned_cpid,
)
from ecmproto.mechanisms.bcn.congestion_point import (
    BCN_KIND,
    BCN_STOP_KIND,
    KIND_OF_TYPE,
    BCNPayload,
    BCNPoints,
    bcn_payload,
    capacity_kbps,
    new_points,
    point_counters,
)
from ecmproto.mechanisms.bcn.parameters import BCNCongestionPointParameters, BCNReactionPointParameters
from ecmproto.mechanisms.bcn.reaction_point import TAG_OCTETS, BCNFields, BCNStations, settings_record
from ecmproto.mechanisms.pause.messages import flow_control_frame

if TYPE_CHECKING:
    from ecmproto.mechanisms.aimd.reaction_point import Limiter, LimiterTable
    from ecmproto.mechanisms.bcn.congestion_point import BCNFeedback, BCNPointState

PROTOCOL = 1
"""BCN in the discriminator word."""


def tag_cpid(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the CPID of a frame's RRT tag as kernels take it, NO_CPID without one."""
    tag = tag_of(headers(octets, ethertypes), RRTTag, PROTOCOL)
    return NO_CPID if tag is None else signed_cpid(tag.cpid)


def bcn_message(
    sampled: bytes,
    feedback: BCNFeedback,
    *,
    capacity_bps: int,
    state: BCNPointState,
    cp_mac: bytes,
    parameters: BCNCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the BCN message that answers a sampled frame, without FCS; None, counted, if none may be sent.

    ``sampled`` is what was captured of the frame from its DA on; ``capacity_bps`` is the congested link's.
    """
    message = BCNFields(feedback.kind, state.cpid, feedback.e, capacity_kbps(capacity_bps))
    octets = frame_of(message, sampled, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)
    if octets is None:
        state.unanswerable += 1
    return octets


def frame_of(
    message: BCNFields,
    sampled: bytes,
    *,
    cp_mac: bytes,
    parameters: BCNCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the frame that carries ``message`` to the source of ``sampled``; None if none may be sent."""
    bcn = BCN(type=message.type, cpid=unsigned_cpid(message.cpid), e=message.e, capacity=message.capacity)
    return answer(sampled, bcn, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: AIMDDiscards,
    parameters: BCNReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[BCNFields, Flow] | None:
    """Return a received BCN message's fields and the flow it is about; None, counted, if it is refused.

    ``stations`` are the addresses whose frames this reaction point limits.  Where Ru follows the congested
    link's capacity, a message without one is malformed.
    """
    found = open_message(octets, stations=stations, point=point, parameters=parameters, ethertypes=ethertypes)
    return None if found is None else (found.fields, found.flow)


def open_message(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: AIMDDiscards,
    parameters: BCNReactionPointParameters,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Received[BCNFields] | None:
    """Return a received message, its flow and the sampled frame's headers; None, counted, as in `read`.

    ``length_octets`` is the frame's length on the wire where a snap length may have cut it.
    """
    return received(
        octets,
        BCN,
        _fields,
        stations=stations,
        counters=point,
        parameters=parameters,
        admits=lambda bcn: bcn.capacity > 0 or not parameters.capacity_scaling,
        length_octets=length_octets,
        ethertypes=ethertypes,
    )


def _fields(bcn: BCN, sampled: Frame) -> BCNFields:
    return BCNFields(bcn.type, signed_cpid(bcn.cpid), bcn.e, bcn.capacity)


def tagged(
    octets: bytes, limiter: Limiter, *, point: LimiterTable, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return a frame that leaves ``limiter`` with its RRT tag; an older one is replaced, and counted."""
    tag = RRTTag(cpid=unsigned_cpid(limiter.cpid))
    octets, replaced = with_tag(octets, tag, ethertypes)
    point.replaced_tags += replaced
    return octets


def untagged(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame as it leaves the BCN-aware region: without RRT tag (S004 IV.C)."""
    return without_tags(octets, RRTTag, PROTOCOL, ethertypes)[0]


class BCNMachine(Machine):
    """Enhanced BCN with its parameters set."""

    tag = RRTTag
    tag_octets = TAG_OCTETS
    tag_protocol = PROTOCOL
    kinds = MappingProxyType({BCN_KIND: "BCN", BCN_STOP_KIND: "BCN STOP"})
    payloads = MappingProxyType(dict.fromkeys((SILENT, BCN_KIND, BCN_STOP_KIND), BCNPayload))
    feedback_label = "e"
    refusal_record = AIMDDiscards

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: BCNCongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: BCNReactionPointParameters = parameters[Role.REACTION_POINT]
        self.set_point_octets = self._cp.qeq_octets
        self.flow_key = flow_key_of(self._rp)
        self.flow_hash = flow_hash_of(self._rp)

    def congestion_point(self, place: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each enabled priority; above Qst they pause all stations."""
        return new_points(self._cp, place, generator)

    def senders(self, place: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the floor is above the initial rate on the stations' links.
        """
        settings = settings_record(self._rp, place.link_rate_bps)
        return new_stations(BCNStations, self._rp, settings, place, generator)

    def frame(self, message: Message, about: SampledFrame, place: PortContext) -> bytes:
        """Return the BCN message or the PAUSE.

        Raises ValueError for a BCN message that the source of ``about`` may not get.
        """
        if message.kind == PAUSE_KIND:
            return flow_control_frame(message, src=place.cp_mac, ethertypes=place.ethertypes)
        fields = bcn_payload(message)
        feedback = BCNFields(
            type=int(message.kind) - KIND_OF_TYPE,
            cpid=int(fields.cpid),
            e=int(fields.e),
            capacity=int(fields.capacity),
        )
        octets = frame_of(
            feedback, about.octets, cp_mac=place.cp_mac, parameters=self._cp, ethertypes=place.ethertypes
        )
        if octets is None:
            raise ValueError("the source of the sampled frame takes no messages")
        return octets

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        place: PortContext,
        refusals: AIMDDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in a BCN message."""
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
        return ParsedFeedback(fields, about_flow(found.sampled))

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the RRT tags' CPIDs."""
        return {"cpid": tag.astype(np.uint64)}

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the congestion points or the reaction points."""
        if isinstance(machine, BCNPoints):
            return point_counters(machine)
        return station_counters(machine) if isinstance(machine, BCNStations) else {}
