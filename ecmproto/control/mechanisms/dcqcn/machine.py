"""The DCQCN and ECN mechanisms."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.api.frames import is_group, outer_vlan
from ecmproto.control.mechanisms.api.machine import (
    AboutFlow,
    Machine,
    MessageDiscards,
    ParsedFeedback,
    PortContext,
    SampledFrame,
)
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import CongestionPoint, Message, Receivers, Senders
from ecmproto.control.mechanisms.dcqcn.congestion_point import DCQCNPort, new_port
from ecmproto.control.mechanisms.dcqcn.messages import is_sound, notification
from ecmproto.control.mechanisms.dcqcn.notification_point import (
    CNP_KIND,
    DCQCNReceivers,
    new_receivers,
)
from ecmproto.control.mechanisms.dcqcn.parameters import (
    BY_VARIANT,
    DCQCNEdgeParameters,
    DCQCNReactionPointParameters,
)
from ecmproto.control.mechanisms.dcqcn.reaction_point import DCQCNStations, new_stations
from ecmproto.wire.codec import Ethernet, IPv4, IPv6, decode_lax
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.flow import FlowKey, QueuePair
from ecmproto.wire.formats.infiniband import CNP, CNP_OPCODE, ROCE_PORT


class MarkingMachine(Machine):
    """The ECN mechanism: ports mark frames, and the transport of hosts, such as TCP, reacts."""

    flow_key: FlowKey = FlowKey(vlan=True, dst=True, priority=True, conversation=True)
    tag = ECNField()
    shown_counters = ("ect_frames", "marked_frames", "ce_frames", "not_ect_frames")
    counted: Mapping[type[Any], tuple[str, ...]] = MappingProxyType({DCQCNPort: ("state", *shown_counters)})

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of the port."""
        return new_port(self._cp, context, generator)

    def parameters_as_text(self, rate_bps: int | None = None) -> dict[str, dict[str, str]]:
        """Return the values of all parameters, with the thresholds of a port of ``rate_bps``."""
        point = self._cp
        if rate_bps is not None:
            kmin_octets, kmax_octets = point.thresholds_octets(rate_bps)
            point = dataclasses.replace(point, kmin_octets=kmin_octets, kmax_octets=kmax_octets)
        return super().parameters_as_text() | {Role.CONGESTION_POINT.value: point.as_text()}

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return a remark if the port could not mark any frame."""
        if not isinstance(point, DCQCNPort) or point.state.ect_frames or not point.state.not_ect_frames:
            return ()
        frames = f"{point.state.not_ect_frames:,} frames"
        return (f"{self.name.upper()} never marked: {frames} are not ECT",)


class DCQCNMachine(MarkingMachine):
    """DCQCN with parameters."""

    udp_messages = (ROCE_PORT, CNP_OPCODE)
    kinds = MappingProxyType({CNP_KIND: "CNP"})
    answers = frozenset({CNP_KIND})
    refusal_record = MessageDiscards
    counted = MappingProxyType(
        {
            **MarkingMachine.counted,
            DCQCNStations: (
                "points", "cnps", "unknown_flow", "limited", "decreases", "floored", "time_expiries",
                "byte_expiries", "made_ect",
            ),
            DCQCNReceivers: ("counts", "delivered_frames", "ce_frames", "cnps", "suppressed"),
        }
    )  # fmt: skip

    _rp: DCQCNReactionPointParameters
    _edge: DCQCNEdgeParameters

    def parameters_as_text(self, rate_bps: int | None = None) -> dict[str, dict[str, str]]:
        """Return the values of all parameters, with the defaults for the variant and for the port rate."""
        rp = self._rp
        decided: dict[str, Any] = {name: rp.of_variant(name) for name in BY_VARIANT}
        return super().parameters_as_text(rate_bps) | {
            Role.REACTION_POINT.value: dataclasses.replace(rp, **decided).as_text()
        }

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points before the first CNP."""
        return new_stations(self._rp, context)

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return notification points before the first CNP."""
        return new_receivers(self._edge, context)

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return the CNP as a frame."""
        return notification(
            about, parameters=self._edge, cp_mac=context.cp_mac, ethertypes=context.ethertypes
        )

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: MessageDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in a CNP; the queue pair in the CNP identifies the flow."""
        frame = decode_lax(octets, original_octets=length_octets, ethertypes=context.ethertypes)
        cnp, packet = frame.get(CNP), frame.get(IPv4) or frame.get(IPv6)
        if cnp is None or packet is None:
            refusals.malformed += frame.error is not None and frame.error.layer == CNP.prefix
            return None
        header = frame[Ethernet]
        if is_group(header.dst):
            refusals.group_address += 1
        elif header.dst != station_mac:
            refusals.foreign_address += 1
        elif not is_sound(frame, octets):
            refusals.malformed += 1
        else:
            vlan = outer_vlan(frame)
            named = QueuePair(packet.dst, packet.src, cnp.qp)
            about = AboutFlow(header.src, None if vlan is None else vlan.id, None, queue_pair=named)
            return ParsedFeedback({"kind": CNP_KIND}, about)
        return None
