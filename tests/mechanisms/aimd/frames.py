"""Single frames of ECM, BCN and E²CM: creation and parsing of messages, and insertion and removal of tags."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ecmproto.control.mechanisms.aimd.machine import AIMDMachine
from ecmproto.control.mechanisms.aimd.parameters import AIMDReactionPointParameters
from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, LimiterTable
from ecmproto.control.mechanisms.api.machine import MessageDiscards, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import NO_CPID, messages_of, signed_cpid
from ecmproto.wire.codec import EtherTypes, decode
from ecmproto.wire.codec.tags import TagFormat, without_tags
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.mechanisms.aimd.flow import Flow, flow_of
from tests.tags import find_tag, with_tag


class Frames:
    """The frame functions of a mechanism."""

    def __init__(self, machine: type[AIMDMachine]) -> None:
        assert isinstance(machine.tag, TagFormat)
        self.machine, self.kind = machine, machine.tag

    def answer(
        self,
        sampled: bytes,
        fields: dict[str, Any],
        *,
        counts: Any = None,
        cp_mac: bytes,
        parameters: dict[Role, Any],
        ethertypes: EtherTypes,
    ) -> bytes | None:
        """Return the frame of a message with ``fields``.

        Returns None, and counts the message as unanswerable, if no frame may be sent.
        """
        machine = self.machine(parameters)
        (message,) = messages_of([fields], machine.payloads)
        about = SampledFrame(sampled, len(sampled), 0)
        try:
            return machine.frame(message, about, place(cp_mac, ethertypes))
        except ValueError:
            if counts is not None:
                counts.unanswerable += 1
            return None

    def read(
        self,
        octets: bytes,
        *,
        stations: Collection[bytes],
        point: MessageDiscards,
        parameters: dict[Role, Any],
        ethertypes: EtherTypes,
    ) -> tuple[dict[str, int], Flow] | None:
        """Return the fields of a received message and the flow of the message.

        Returns None, and counts the message, if the message is refused.
        """
        (station,) = stations
        machine = self.machine(parameters)
        where = place(bytes(6), ethertypes)
        found = machine.parse_feedback(octets, station, where, point)
        if found is None:
            return None
        shown = shown_by(octets, machine.message, ethertypes)
        chosen: AIMDReactionPointParameters = parameters[Role.REACTION_POINT]
        flow = flow_of(shown, chosen, ethertypes)
        fields = dict(found.fields)
        assert fields.pop("priority") == flow.priority
        return fields, flow

    def tag(self, octets: bytes, ethertypes: EtherTypes = DEFAULT) -> Any:
        """Return the mechanism's tag of a frame, or None if the frame has no such tag."""
        found = find_tag(octets, self.kind, ethertypes)
        return None if found is None else found.layer

    def tag_cpid(self, octets: bytes, ethertypes: EtherTypes = DEFAULT) -> int:
        """Return the CPID of a frame's tag for the kernels, or NO_CPID for a frame without a tag."""
        tag = self.tag(octets, ethertypes)
        return NO_CPID if tag is None else signed_cpid(tag.cpid)

    def tagged(
        self,
        octets: bytes,
        limiter: Limiter,
        *,
        point: LimiterTable,
        ethertypes: EtherTypes = DEFAULT,
        **fields: int,
    ) -> bytes:
        """Return a frame that leaves ``limiter``, with a tag. Older tags are replaced and counted."""
        fields |= {"cpid": int(limiter.cpid) % (1 << 64), **self.kind.constants}
        tag = self.kind.format(**fields)
        octets, replaced = with_tag(octets, tag, ethertypes)
        point.replaced_tags += replaced
        return octets

    def untagged(self, octets: bytes, ethertypes: EtherTypes = DEFAULT) -> bytes:
        """Return a frame without the mechanism's tags."""
        return without_tags(octets, self.kind, ethertypes)[0]


def shown_by(octets: bytes, message: Any, ethertypes: EtherTypes) -> bytes:
    """Return the octets of the sampled frame in a message."""
    payload: bytes = decode(octets, ethertypes=ethertypes)[message].payload
    return payload


def place(cp_mac: bytes, ethertypes: EtherTypes) -> PortContext:
    return PortContext(
        rate_bps=10**10, link_rate_bps=10**10, cp_mac=cp_mac, stations=1, flows=1, ethertypes=ethertypes
    )
