"""The E²CM mechanism."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import ECMPayload
from ecmproto.control.mechanisms.aimd.machine import AIMDMachine
from ecmproto.control.mechanisms.aimd.reaction_point import COUNTERS
from ecmproto.control.mechanisms.api.frames import MessageFormat, headers, outer_vlan, priority_of
from ecmproto.control.mechanisms.api.machine import (
    UNKNOWN_NS,
    AboutFlow,
    MessageDiscards,
    ParsedFeedback,
    ParsedProbe,
    PortContext,
    SampledFrame,
    total,
)
from ecmproto.control.mechanisms.api.protocol import (
    PROBE_KIND,
    CongestionPoint,
    Message,
    Receivers,
    Senders,
    probe_payload,
)
from ecmproto.control.mechanisms.e2cm.congestion_point import BCN_KIND, E2CMPoints, new_points
from ecmproto.control.mechanisms.e2cm.edge import (
    REPLY_KIND,
    E2CMEdgeCounters,
    E2CMReceivers,
    ProbeReply,
    ReplyPayload,
    new_destinations,
    reply_payload,
)
from ecmproto.control.mechanisms.e2cm.messages import (
    Probe,
    probe_frame,
    probe_reply,
    probed_flow_of,
    read_probe,
    read_reply,
    replied_priority,
    type_of,
)
from ecmproto.control.mechanisms.e2cm.parameters import E2CMEdgeParameters
from ecmproto.control.mechanisms.e2cm.reaction_point import (
    E2CMStations,
    new_stations,
    set_flight,
    set_path_of,
)
from ecmproto.kernels.record import record_dtype
from ecmproto.wire.codec import E2CM, CMTag, Ethernet, Frame
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.e2cm import BCN_TYPES, PROBE_FWD, PROBE_REV, TYPES, flow_id

PROTOCOL = 2
"""Protocol number of E²CM in the discriminator word."""


class E2CMDiscards(MessageDiscards):
    """Record of the counters of refused messages that were received as frames, by reason."""

    forward_probes: int
    """Number of probes, which are for destinations and not for reaction points."""
    lying_replies: int
    """Number of replies with a flow id that no flow of the station can have."""


_REFUSED = frozenset(record_dtype(MessageDiscards).names or ())


class E2CMMachine(AIMDMachine):
    """E²CM with parameters."""

    tag = TagFormat(format=CMTag, tag="cpid", mark=("unit", "timestamp"), constants={"protocol": PROTOCOL})
    message = E2CM
    messages = MappingProxyType(
        {
            BCN_KIND + number: MessageFormat(
                format=E2CM, payload=ECMPayload, name=TYPES[type], constants={"type": type}
            )
            for number, type in enumerate(BCN_TYPES)
        }
        | {
            REPLY_KIND: MessageFormat(
                format=E2CM,
                payload=ReplyPayload,
                name=TYPES[PROBE_REV],
                constants={"type": PROBE_REV},
                is_answer=True,
            ),
            PROBE_KIND: MessageFormat(format=E2CM, name=TYPES[PROBE_FWD], constants={"type": PROBE_FWD}),
        }
    )
    feedback_label = "Fb"
    refusal_record = E2CMDiscards
    probe_refusal_record = E2CMEdgeCounters
    counted = MappingProxyType(
        {
            E2CMPoints: (
                "meters", "samples", "regular", "saturated", "severe", "balanced", "unassociated",
                "truncated", "withheld", "unanswerable",
            ),
            # Refused messages are counted in `E2CMDiscards`.
            E2CMStations: ("points", *(name for name in COUNTERS if name not in _REFUSED)),
            E2CMReceivers: ("edge", "probes", "unmeasured_probes"),
        }
    )  # fmt: skip

    _edge: E2CMEdgeParameters

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return a congestion point for each enabled priority."""
        return new_points(self._cp, context, generator)

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points without active limiters."""
        stations = new_stations(self._rp, context, generator)
        if context.flight_ns != UNKNOWN_NS:
            set_flight(stations, context.flight_ns)
        return stations

    def set_path(self, senders: Senders, station: int, flow: int, *, hops: int, flight_ns: int) -> None:
        """Set the number of congestion points on the path of a flow, and the latency of the unloaded path."""
        if isinstance(senders, E2CMStations):
            set_path_of(senders, self._rp, station, flow, congested_hops=hops, flight_ns=flight_ns)

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return edge receivers before the first probe."""
        return new_destinations(self._edge, context)

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return a message, a probe or a reply as a frame; raises the errors of `AIMDMachine.frame`."""
        if message.kind == PROBE_KIND:
            return probe_frame(
                about.octets,
                timestamp_ns=int(probe_payload(message).mark),
                parameters=self._rp,
                ethertypes=context.ethertypes,
            )
        if message.kind == REPLY_KIND:
            return self._reply(message, about, context)
        return super().frame(message, about, context)

    def completed(self, layer: Layer, sampled: Frame) -> Layer:
        """Return the message of a congestion point with the flow id of the sampled frame."""
        ethernet = sampled[Ethernet]
        return layer.replace(flow_id=flow_id(ethernet.dst, ethernet.src, priority_of(sampled)))

    def _reply(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        flow, ethertypes = probed_flow_of(about.octets, context.ethertypes), context.ethertypes
        # A reply copies these fields from the probe, and the probe copies them from the data frame.
        probe = Probe(flow, 0, headers(about.octets, ethertypes))
        fields = reply_payload(message)
        measured = ProbeReply(int(fields.latency), int(fields.throughput))
        return probe_reply(probe, measured, parameters=self._edge, ethertypes=ethertypes)

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: Any,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in the message of a congestion point or in the reply to a probe."""
        type = type_of(octets, context.ethertypes, length_octets=length_octets)
        if type == PROBE_FWD:
            refusals.forward_probes += 1
            return None
        if type == PROBE_REV:
            return self._parsed_reply(octets, station_mac, context, refusals, length_octets)
        return super().parse_feedback(octets, station_mac, context, refusals, length_octets=length_octets)

    def parse_probe(self, octets: bytes, context: PortContext, refusals: Any) -> ParsedProbe | None:
        """Return the forward probe in a frame; a probe with an impossible flow id has no flow."""
        if type_of(octets, context.ethertypes) != PROBE_FWD:
            return None
        read = read_probe(octets, stations=(octets[:6],), counters=refusals, ethertypes=context.ethertypes)
        if read is None:
            return ParsedProbe(0, b"", None)
        about, vlan = None, outer_vlan(read.frame)
        priority = replied_priority(octets, read.flow, context.ethertypes)
        if priority is not None:
            about = AboutFlow(read.flow.dst, None if vlan is None else vlan.id, priority)
        return ParsedProbe(read.timestamp_ns, read.flow.src, about)

    def admits(self, layer: E2CM) -> bool:
        """Return whether the message is from a congestion point."""
        return layer.type in BCN_TYPES

    def fields_shown(self, tag: CMTag | None) -> dict[str, int]:
        """Return the timestamp of the CM-Tag in the payload, since the message has no timestamp field."""
        if tag is None:
            return {"timestamp": 0, "unit": 0, "tagged": 0}
        return {"timestamp": tag.timestamp, "unit": tag.unit, "tagged": 1}

    def _parsed_reply(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: Any,
        length_octets: int | None,
    ) -> ParsedFeedback | None:
        reply = read_reply(
            octets,
            stations=(station_mac,),
            counters=refusals,
            length_octets=length_octets,
            ethertypes=context.ethertypes,
        )
        if reply is None:
            return None
        about, priority = None, replied_priority(octets, reply.flow, context.ethertypes)
        if priority is None:
            refusals.lying_replies += 1
        else:
            vlan = outer_vlan(headers(octets, context.ethertypes))
            about = AboutFlow(reply.flow.dst, None if vlan is None else vlan.id, priority)
        fields = {
            "kind": REPLY_KIND,
            "priority": priority or 0,
            "latency": reply.latency_ns,
            "throughput": reply.throughput_kbps,
        }
        return ParsedFeedback(fields, about)

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of ``machine``; ``allocated_by_replies`` counts limiters of replies."""
        counters = super().counters(machine)
        if isinstance(machine, E2CMStations):
            counters |= total(
                machine.counters, "probes", "reactions", "unknown_replies", "idle_replies", "first_replies",
                "unmeasured_replies", "held_replies",
            )  # fmt: skip
            counters["allocated_by_replies"] = total(machine.counters, "allocated")["allocated"]
        if isinstance(machine, E2CMReceivers):
            counters["flows"] = int(machine.edge.flows_in_use)
        return counters
