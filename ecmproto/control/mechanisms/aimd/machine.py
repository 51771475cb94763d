"""Base class of the ECM, BCN and E²CM mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from ecmproto.control.mechanisms.aimd.messages import addressed, shows_flow
from ecmproto.control.mechanisms.aimd.reaction_point import (
    COUNTERS,
    Stations,
    rtt_gauges,
)
from ecmproto.control.mechanisms.api.frames import framed, headers, outer_vlan, tags
from ecmproto.control.mechanisms.api.machine import (
    Machine,
    MessageDiscards,
    ParsedFeedback,
    PortContext,
    SampledFrame,
    source_of,
)
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import CongestionPoint, Message, Receivers, Senders, fields_of
from ecmproto.wire.codec import BCN, E2CM, ECM, Frame
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.flow import FlowHash, FlowKey
from ecmproto.wire.formats.base import Layer

_MIN_PAYLOAD_OCTETS = 24
_MIN_PAYLOAD_UNTAGGED_OCTETS = 28
"""Minimum payload in octets that fills an untagged frame up to 60 octets (wire-formats 4)."""


class AIMDMachine(Machine):
    """Base class of ECM, BCN and E²CM, whose messages contain a sampled frame and control limiters."""

    message: ClassVar[type[ECM] | type[BCN] | type[E2CM]]
    """Format of the messages that contain the sampled frame."""
    counted: Mapping[type[Any], tuple[str, ...]] = MappingProxyType({Stations: ("points", *COUNTERS)})

    def __init__(self, parameters: Mapping[Role, Any]) -> None:
        super().__init__(parameters)
        rp = self._rp
        self.flow_key: FlowKey = FlowKey(
            vlan=rp.key_vlan, dst=rp.key_dst, priority=rp.key_priority, cn_tag=False
        )
        self.flow_hash: FlowHash = FlowHash(rp.hash_bits, rp.key_src)

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return the message as a frame to the source of the sampled frame.

        Raises ParameterError if the message kind is not in ``messages``. Raises ValueError if the source may
        not receive messages.
        """
        source = source_of(about, context.cp_mac)
        sampled = headers(about.octets, context.ethertypes)
        layer = self.format_of(message.kind).layer_of(fields_of(message, self.payloads))
        minimum = _MIN_PAYLOAD_UNTAGGED_OCTETS if outer_vlan(sampled) is None else _MIN_PAYLOAD_OCTETS
        shown = about.octets[: max(self._cp.payload_octets, minimum)].ljust(minimum, b"\0")
        return framed(
            self.completed(layer, sampled).replace(payload=shown),
            sampled,
            dst=source,
            src=context.cp_mac,
            priority=None if self._cp.keep_priority else self._cp.message_priority,
            ethertypes=context.ethertypes,
        )

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the average round-trip time of the reaction points, if tags have timestamps."""
        return rtt_gauges(machine.slots) if isinstance(machine, Stations) else {}

    def completed(self, layer: Layer, sampled: Frame) -> Layer:
        """Return a message with the fields that are copied from the headers of the sampled frame."""
        return layer

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: MessageDiscards,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in a message about a frame of ``station_mac``; the Version field is ignored.

        A message is malformed if the message cannot be decoded, or if the sampled frame is missing or too
        short.
        """
        frame = addressed(
            octets,
            lambda layer: self.admits(layer) and shows_flow(layer.payload, context.ethertypes),
            self.message,
            stations=(station_mac,),
            refusals=refusals,
            length_octets=length_octets,
            ethertypes=context.ethertypes,
        )
        if frame is None:
            return None
        layer = frame[self.message]
        tag = self._tag_in(headers(layer.payload, context.ethertypes))
        fields = {**self.fields_in(layer), **self.fields_shown(tag)}
        return self._about_shown(fields, layer, station_mac, context, refusals)

    def admits(self, layer: Any) -> bool:
        """Return whether a message is valid for reaction points with these parameters."""
        return True

    def fields_in(self, layer: Layer) -> dict[str, int]:
        """Return the kind and the fields of a message.

        The kind is the matching entry of ``messages`` with the most constant fields.
        """
        layers = (
            kind for kind, each in self.messages.items() if each.format is type(layer) and each.is_of(layer)
        )
        kind = max(layers, key=lambda kind: len(self.messages[kind].constants))
        return {"kind": kind, **self.messages[kind].fields_of(layer)}

    def fields_shown(self, tag: Any) -> dict[str, int]:
        """Return the message fields that are only in the sampled frame's tag.

        ``tag`` is ``None`` for an untagged frame.
        """
        return {}

    def _tag_in(self, sampled: Frame) -> Layer | None:
        assert isinstance(self.tag, TagFormat)
        own = self.tag.constants.items()
        matches = (tag for tag in tags(sampled) if type(tag) is self.tag.format)
        return next((tag for tag in matches if all(getattr(tag, name) == value for name, value in own)), None)
