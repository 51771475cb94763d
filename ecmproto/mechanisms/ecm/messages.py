"""ECM's frames, the ECM frame and the CM-Tag, and its machine (S000 3.1; wire-formats 1.2 and 4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec import ECM, CMTag, EtherTypes, Frame
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.aimd.congestion_point import ECMPayload, ecm_payload
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
    rtt_gauges,
    station_counters,
)
from ecmproto.mechanisms.api.frames import headers
from ecmproto.mechanisms.api.machine import Machine, ParsedFeedback, PortContext, SampledFrame
from ecmproto.mechanisms.api.mechanism import Role
from ecmproto.mechanisms.api.protocol import (
    NO_CPID,
    SILENT,
    CongestionPoint,
    Message,
    Receivers,
    Senders,
    signed_cpid,
    unsigned_cpid,
)
from ecmproto.mechanisms.ecm.congestion_point import (
    ECM_KIND,
    ECM_MAX_KIND,
    ECM_ZERO_KIND,
    ECMPoints,
    new_points,
    point_counters,
)
from ecmproto.mechanisms.ecm.parameters import ECMCongestionPointParameters, ECMReactionPointParameters
from ecmproto.mechanisms.ecm.reaction_point import (
    TAG_OCTETS,
    TIMESTAMP_BITS,
    TIMESTAMP_MASK,
    ECMFields,
    ECMStations,
    settings_record,
)

if TYPE_CHECKING:
    from ecmproto.mechanisms.aimd.reaction_point import Limiter, LimiterTable
    from ecmproto.mechanisms.ecm.congestion_point import ECMFeedback, ECMPointState

PROTOCOL = 0
"""ECM in the discriminator word."""


def tag_cpid(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the CPID of a frame's CM-Tag as kernels take it, NO_CPID without one."""
    tag = tag_of(headers(octets, ethertypes), CMTag, PROTOCOL)
    return NO_CPID if tag is None else signed_cpid(tag.cpid)


def ecm_frame(
    sampled: bytes,
    feedback: ECMFeedback,
    *,
    state: ECMPointState,
    cp_mac: bytes,
    parameters: ECMCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the ECM frame that answers a sampled frame, without FCS; None, counted, if none may be sent.

    ``sampled`` is what was captured of the frame from its DA on.  Timestamp and Unit come from its CM-Tag.
    """
    tag = tag_of(headers(sampled, ethertypes), CMTag, PROTOCOL)
    message = ECMFields(
        cpid=state.cpid,
        q_off=feedback.q_off,
        q_delta=feedback.q_delta,
        q=feedback.q,
        timestamp=0 if tag is None else tag.timestamp,
        unit=0 if tag is None else tag.unit,
        tagged=tag is not None,
    )
    octets = frame_of(message, sampled, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)
    if octets is None:
        state.unanswerable += 1
    return octets


def frame_of(
    message: ECMFields,
    sampled: bytes,
    *,
    cp_mac: bytes,
    parameters: ECMCongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the frame that carries ``message`` to the source of ``sampled``; None if none may be sent."""
    ecm = ECM(
        q=message.q,
        cpid=unsigned_cpid(message.cpid),
        q_off=message.q_off,
        q_delta=message.q_delta,
        timestamp=message.timestamp,
        unit=message.unit,
    )
    return answer(sampled, ecm, cp_mac=cp_mac, parameters=parameters, ethertypes=ethertypes)


def read(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: AIMDDiscards,
    parameters: ECMReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[ECMFields, Flow] | None:
    """Return a received ECM frame's fields and the flow it is about; None, counted, if it is refused.

    ``stations`` are the addresses whose frames this reaction point limits.  Any Version is read as 0.
    """
    found = open_message(octets, stations=stations, point=point, parameters=parameters, ethertypes=ethertypes)
    return None if found is None else (found.fields, found.flow)


def open_message(
    octets: bytes,
    *,
    stations: Collection[bytes],
    point: AIMDDiscards,
    parameters: ECMReactionPointParameters,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Received[ECMFields] | None:
    """Return a received message, its flow and the sampled frame's headers; None, counted, as in `read`.

    ``length_octets`` is the frame's length on the wire where a snap length may have cut it.
    """
    return received(
        octets,
        ECM,
        _fields,
        stations=stations,
        counters=point,
        parameters=parameters,
        length_octets=length_octets,
        ethertypes=ethertypes,
    )


def _fields(ecm: ECM, sampled: Frame) -> ECMFields:
    return ECMFields(
        cpid=signed_cpid(ecm.cpid),
        q_off=ecm.q_off,
        q_delta=ecm.q_delta,
        q=ecm.q,
        timestamp=ecm.timestamp,
        unit=ecm.unit,
        tagged=tag_of(sampled, CMTag, PROTOCOL) is not None,
    )


def tagged(
    octets: bytes,
    limiter: Limiter,
    *,
    point: LimiterTable,
    timestamp: int,
    unit: int,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a frame that leaves ``limiter`` with its CM-Tag (rule 9); an older one is replaced, and counted.

    ``timestamp`` is in ticks of 2^``unit`` µs, as `reaction_point.ticks` gives them.
    """
    tag = CMTag(cpid=unsigned_cpid(limiter.cpid), timestamp=timestamp, unit=unit)
    octets, replaced = with_tag(octets, tag, ethertypes)
    point.replaced_tags += replaced
    return octets


def untagged(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return a frame as its destination hands it on: without CM-Tag."""
    return without_tags(octets, CMTag, PROTOCOL, ethertypes)[0]


class ECMMachine(Machine):
    """ECM with its parameters set."""

    tag = CMTag
    tag_octets = TAG_OCTETS
    tag_protocol = PROTOCOL
    kinds = MappingProxyType({ECM_KIND: "ECM", ECM_MAX_KIND: "ECM-Max", ECM_ZERO_KIND: "ECM(0,0)"})
    payloads = MappingProxyType(dict.fromkeys((SILENT, ECM_KIND, ECM_MAX_KIND, ECM_ZERO_KIND), ECMPayload))
    feedback_label = "Fb"
    refusal_record = AIMDDiscards

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp: ECMCongestionPointParameters = parameters[Role.CONGESTION_POINT]
        self._rp: ECMReactionPointParameters = parameters[Role.REACTION_POINT]
        self.set_point_octets = self._cp.qeq_octets
        self.flow_key = flow_key_of(self._rp)
        self.flow_hash = flow_hash_of(self._rp)

    def congestion_point(self, place: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return one congestion point for each enabled priority."""
        return new_points(self._cp, self._rp.weight, place, generator)

    def senders(self, place: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters.

        Raises ParameterError if the floor is above the initial rate on the stations' links.
        """
        settings = settings_record(self._rp, place.link_rate_bps)
        return new_stations(
            ECMStations, self._rp, settings, place, generator, timestamp_unit=self._rp.timestamp_unit
        )

    def frame(self, message: Message, about: SampledFrame, place: PortContext) -> bytes:
        """Return the ECM frame; raises ValueError if the source of ``about`` may not get one."""
        fields = ecm_payload(message)
        feedback = ECMFields(
            cpid=int(fields.cpid),
            q_off=int(fields.q_off),
            q_delta=int(fields.q_delta),
            q=int(fields.q),
            timestamp=int(fields.timestamp),
            unit=int(fields.unit),
            tagged=bool(fields.tagged),
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
        """Return the feedback in an ECM frame; an ECM-Max, which only its values tell apart, is an ECM."""
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
        return ParsedFeedback(fields, about_flow(found.sampled))

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> dict[str, Any]:
        """Return the CM-Tags' CPIDs, timestamps and units."""
        return {
            "cpid": tag.astype(np.uint64),
            "timestamp": mark & TIMESTAMP_MASK,
            "unit": mark >> TIMESTAMP_BITS,
        }

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the congestion points or the reaction points."""
        if isinstance(machine, ECMPoints):
            return point_counters(machine)
        return station_counters(machine) if isinstance(machine, ECMStations) else {}

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the reaction points' average round-trip time."""
        return rtt_gauges(machine.slots) if isinstance(machine, ECMStations) else {}
