"""FECN's frames, the RD tag and the returning frame, its edge and its machine (wire-formats 1.2 and 7).

Tags are put in, changed and taken out without touching any other octet: what a length behind the tags counts
(802.3) stays what it counted.  Frames are given from their DA on, as far as they were captured, without FCS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from ecmproto.codec import (
    Ethernet,
    EtherTypes,
    FECNReturn,
    Frame,
    Layer,
    RDTag,
    UnknownMessage,
    decode_lax,
)
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.codec.tags import TagFormat, find_tag, with_fields, with_tag, without_tags
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.api.frames import MessageFormat, framed, headers, outer_vlan
from ecmproto.mechanisms.api.machine import (
    AboutFlow,
    FlowKey,
    Machine,
    ParsedFeedback,
    PortContext,
    SampledFrame,
    total,
)
from ecmproto.mechanisms.api.mechanism import Role
from ecmproto.mechanisms.api.protocol import (
    CongestionPoint,
    Delivery,
    Message,
    Outbox,
    Receivers,
    Senders,
    fields_of,
    post,
)
from ecmproto.mechanisms.fecn.congestion_point import FECNPort, new_port, port_counters, set_capacity
from ecmproto.mechanisms.fecn.parameters import (
    FECNEdgeParameters,
)
from ecmproto.mechanisms.fecn.reaction_point import (
    FECNDiscards,
    FECNPayload,
    FECNStations,
    fecn_payload,
    new_stations,
    queues_each,
    settings_record,
    station_counters,
)
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import new_record
from ecmproto.structs import Struct
from ecmproto.units import RATE_INFINITY

_Answer = TypeVar("_Answer", bound=Layer)

_ROLES = (Role.CONGESTION_POINT, Role.REACTION_POINT, Role.EDGE)
_ADDRESS_OCTETS = 6
_HEADER_OCTETS = 14
_GROUP_BIT = 1


TAG = TagFormat(format=RDTag, tag="rate", mark=("rlq_id",))


def tagged(
    octets: bytes, *, rlq_id: int, rate: int = RATE_INFINITY, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the data frame ``octets`` with an RD tag behind its VLAN stack and CN-TAG.

    It replaces an old RD tag.  None if that place was cut off the captured frame.
    """
    made, _ = with_tag(octets, RDTag(rlq_id=rlq_id, rate=rate), ethertypes)
    return made if find_tag(made, TAG, ethertypes) is not None else None


def untagged(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` without its RD tags; it may be shorter than 60 octets then."""
    return without_tags(octets, TAG, ethertypes)[0]


def rd_tag(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> RDTag | None:
    """Return the RD tag of the data frame ``octets``, the outermost of several, None if it has none."""
    found = find_tag(octets, TAG, ethertypes)
    return found.layer if found is not None and isinstance(found.layer, RDTag) else None


def with_rate(octets: bytes, rate: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the data frame ``octets`` with ``rate``, in kb/s, in its (outermost) RD tag."""
    return with_fields(octets, TAG, ethertypes, rate=rate)


def with_layer(octets: bytes, frame: Frame, index: int, layer: Layer) -> bytes:
    """Return ``octets``, which decoded to ``frame``, with ``layer`` in place of its layer ``index``."""
    start, end = frame.boundaries()[index : index + 2]
    return octets[:start] + layer.build() + octets[end:]


def returning(
    octets: bytes, *, station_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes | None:
    """Return the frame that brings the RD tag of the data frame ``octets`` back to its source, padded to 60.

    None if it has none.
    """
    tag = rd_tag(octets, ethertypes=ethertypes)
    if tag is None:
        return None
    body = FECNReturn(rlq_id=tag.rlq_id, rate=tag.rate)
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def is_answerable(octets: bytes, *, station_mac: bytes) -> bool:
    """Return whether ``station_mac`` may answer the frame: to no group address, and not to itself."""
    source = octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    return len(octets) >= _HEADER_OCTETS and not source[0] & _GROUP_BIT and source != station_mac


def reply(
    octets: bytes, body: Layer, *, station_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame with ``body`` from ``station_mac`` to the source of ``octets``, padded to 60.

    The VLAN stack is copied, its outermost priority set to ``priority``, its DEI to 0; untagged stays
    untagged.
    """
    source = octets[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    like = headers(octets, ethertypes)
    return framed(body, like, dst=source, src=station_mac, priority=priority, ethertypes=ethertypes)


def answer(
    octets: bytes, body: Layer, *, port_mac: bytes, priority: int, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame with ``body`` that the destination of ``octets`` answers with, as `reply` makes it.

    A group has no address to answer from: ``port_mac`` stands for it.
    """
    is_group = octets[:1] and octets[0] & _GROUP_BIT
    station_mac = port_mac if is_group else octets[:_ADDRESS_OCTETS]
    return reply(octets, body, station_mac=station_mac, priority=priority, ethertypes=ethertypes)


def received(
    octets: bytes,
    kind: type[_Answer],
    source: FECNDiscards,
    *,
    station_mac: bytes,
    ethertypes: EtherTypes = DEFAULT,
) -> _Answer | None:
    """Return the answer of ``kind`` in the frame ``octets`` to the source with ``station_mac``.

    None, counted in ``source``, for one to a group or another station or from a group, and for one that
    cannot be decoded; None for any other frame.
    """
    frame = decode_lax(octets, ethertypes=ethertypes)
    found = frame.get(kind)
    if found is None:
        source.malformed_returns += is_malformed(frame, kind)
        return None
    header = frame[Ethernet]
    if header.dst != station_mac or header.src[0] & _GROUP_BIT:
        source.foreign_returns += 1
        return None
    return found


def answering(octets: bytes, ethertypes: EtherTypes = DEFAULT) -> AboutFlow:
    """Return the flow that a destination's answer is about, as its headers show it.

    In a VLAN tag they have a priority of their own: the data's is not told.
    """
    frame = headers(octets, ethertypes)
    vlan = outer_vlan(frame)
    source = frame[Ethernet].src
    return AboutFlow(source, None, 0) if vlan is None else AboutFlow(source, vlan.id, None)


def is_malformed(frame: Frame, message: type[Layer]) -> bool:
    """Return whether ``frame`` is too short for the experimental message that it announces."""
    return frame.error is not None and frame.error.layer in (message.prefix, UnknownMessage.prefix)


class FECNEdge:
    """The counters of an edge receiver; a record (``ecmproto.record``)."""

    stripped: int
    """Data frames whose RD tag was taken out."""
    returns: int
    """Returning frames made."""
    unanswerable: int
    """Tagged frames stripped without an answer: from a group address or from this station itself."""
    foreign: int
    """Frames for another station, left as they are."""


class FECNDelivered(NamedTuple):
    """A delivered data frame: its octets without the RD tag, and the returning frame, if any."""

    octets: bytes
    returning: bytes | None


def edge_timer_ns(edge: FECNEdge) -> int:
    """Return NEVER_NS: an edge receiver has no timers."""
    return NEVER_NS


def receive(
    edge: FECNEdge,
    octets: bytes,
    *,
    station_mac: bytes,
    parameters: FECNEdgeParameters,
    length_octets: int = 0,
    ethertypes: EtherTypes = DEFAULT,
) -> FECNDelivered:
    """Take the RD tag out of a data frame that reached ``station_mac``, and make the frame that returns it.

    ``octets`` is the frame from its DA on, without FCS, as far as it was captured; ``length_octets`` its
    length on the wire if that is more.  A whole frame is padded to 60 octets again.
    """
    destination = octets[:_ADDRESS_OCTETS]
    bare = untagged(octets, ethertypes=ethertypes)
    if bare == octets:
        return FECNDelivered(octets, None)
    if destination != station_mac and not destination[0] & _GROUP_BIT:
        edge.foreign += 1
        return FECNDelivered(octets, None)
    edge.stripped += 1
    if length_octets <= len(octets):
        bare = bare.ljust(MIN_OCTETS, b"\0")
    if not is_answerable(octets, station_mac=station_mac):
        edge.unanswerable += 1
        return FECNDelivered(bare, None)
    answer = returning(
        octets, station_mac=station_mac, priority=parameters.return_priority, ethertypes=ethertypes
    )
    edge.returns += 1
    return FECNDelivered(bare, answer)


RETURN_KIND = 1


class FECNReceivers(Struct):
    """The edge receivers behind the port: each strips RD tags and sends them back."""

    edge: FECNEdge

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Post the returning frame of a tagged one."""
        if not delivery.tagged:
            return
        self.edge.stripped += 1
        self.edge.returns += 1
        post(outbox, RETURN_KIND, delivery.now_ns, delivery.station, delivery.flow, delivery.priority)
        # Plain Python gets a copy of a record that a compiled function returns.
        message = outbox.messages[outbox.posted.count - 1]
        fecn_payload(message).rlq_id = delivery.mark
        message.rate_kbps = delivery.tag

    def next_report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing: receivers speak only when a tag comes."""


class AnsweredMachine(Machine):
    """FECN or DBP with its parameters set: switches rewrite a rate, and destinations' answers bring it back.

    A mechanism's own says the one kind of its ``messages``.
    """

    answer_priority: ClassVar[str]
    """The edge's parameter that is the priority of answers."""
    refusal_record = FECNDiscards

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        self._cp, self._rp, self._edge = (parameters[role] for role in _ROLES)
        self.set_point_octets = self._cp.qeq_octets

    def congestion_point(self, place: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the port's congestion point, one for all priorities."""
        return new_port(self._cp, place, generator)

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Have the advertised rate follow the line's, at the next tick (enhancement 4)."""
        if isinstance(point, FECNPort):
            set_capacity(point.state, float(capacity_bps))

    def frame(self, message: Message, about: SampledFrame, place: PortContext) -> bytes:
        """Return the answer, as it comes out of the port's switch."""
        return answer(
            about.octets,
            self.format_of(message.kind).layer_of(fields_of(message, self.payloads)),
            port_mac=place.cp_mac,
            priority=getattr(self._edge, self.answer_priority),
            ethertypes=place.ethertypes,
        )

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        place: PortContext,
        refusals: FECNDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in an answer; its headers tell the flow, but for the priority."""
        ((kind, made),) = self.messages.items()
        found = received(octets, made.format, refusals, station_mac=station_mac, ethertypes=place.ethertypes)
        if found is None:
            return None
        fields = {"kind": kind, **made.fields_of(found)}
        return ParsedFeedback(fields, answering(octets, place.ethertypes))

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the congestion point or the sources; a mechanism has its receivers'."""
        if isinstance(machine, FECNPort):
            return port_counters(machine)
        return station_counters(machine) if isinstance(machine, FECNStations) else {}


class FECNMachine(AnsweredMachine):
    """FECN with its parameters set."""

    flow_key = FlowKey(vlan=False, dst=True, priority=True, cn_tag=False)
    tag = TAG
    answer_priority = "return_priority"
    messages = MappingProxyType(
        {
            RETURN_KIND: MessageFormat(
                format=FECNReturn,
                payload=FECNPayload,
                name="FECN return",
                fields={"rate": "rate_kbps"},
                is_answer=True,
            )
        }
    )

    def senders(self, place: PortContext, generator: np.random.Generator) -> Senders:
        """Return sources of which no queue was used yet."""
        return new_stations(self._rp, settings_record(self._rp), place, generator)

    def receivers(self, place: PortContext, generator: np.random.Generator) -> Receivers:
        """Return edge receivers."""
        return FECNReceivers(new_record(FECNEdge))

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        place: PortContext,
        refusals: FECNDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in a returning frame; it is about a flow of the queue that it names."""
        found = super().parse_feedback(octets, station_mac, place, refusals)
        if found is None or found.about is None:
            return found
        queues = queues_each(self._rp, place)
        index = found.fields["rlq_id"] - 1
        # Flows beyond the table share its last queue.
        flows = range(index, index + 1 if index < queues - 1 else max(queues, place.flows))
        return found._replace(about=found.about._replace(among=flows))

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the congestion point, the sources or the receivers."""
        if isinstance(machine, FECNReceivers):
            return total(machine.edge, "stripped", "returns")
        return super().counters(machine)
