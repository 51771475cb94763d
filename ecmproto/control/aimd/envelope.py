"""The frame around a message: to the source of a sampled frame, and back out of it (wire-formats 1.2, 4).

ECM, BCN and E²CM messages share it: addresses, the sampled frame's VLAN stack, the message, and the sampled
frame's first octets as payload.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ecmproto.control.aimd.flow import Flow, flow_of_frame
from ecmproto.control.aimd.parameters import CongestionPointParameters, ReactionPointParameters
from ecmproto.control.aimd.tags import headers, tags
from ecmproto.errors import DecodeError
from ecmproto.wire import BCN, E2CM, ECM, VLAN, Ethernet, EtherTypes, Frame, STag, decode, encode
from ecmproto.wire.ethertypes import DEFAULT
from ecmproto.wire.frame import MIN_OCTETS

_Message = TypeVar("_Message", bound=ECM | BCN | E2CM)

_ADDRESS_OCTETS = 6
_HEADER_OCTETS = 14
_LEAST_PAYLOAD_OCTETS = 24
_LEAST_PAYLOAD_UNTAGGED_OCTETS = 28
"""What makes a whole frame of 60 octets without the four of a VLAN tag (wire-formats 4)."""


class Refusals:
    """What counts refused messages; a part of a reaction point's record."""

    group_address: int
    """To a group address."""
    foreign_address: int
    """To another station, or about another station's frame."""
    malformed: int
    """Not decodable, or no message of this kind."""


class Opened(NamedTuple):
    """A message's frame, and the flow and the headers of the sampled frame that it shows."""

    frame: Frame
    flow: Flow
    sampled: Frame


def is_group(address: bytes) -> bool:
    """Return whether a MAC address is a group's."""
    return bool(address[0] & 1)


def answer(
    sampled: bytes,
    message: _Message,
    *,
    cp_mac: bytes,
    parameters: CongestionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the octets, without FCS, of ``message`` on its way to the source of a sampled frame.

    ``sampled`` is what was captured of that frame from its DA on; the message's payload is filled in.
    None if no message may go there: the source is a group or the congestion point, or was not captured.
    """
    source = sampled[_ADDRESS_OCTETS : 2 * _ADDRESS_OCTETS]
    if len(sampled) < _HEADER_OCTETS or is_group(source) or source == cp_mac:
        return None
    stack = _vlan_stack(headers(sampled, ethertypes), parameters)
    least = _LEAST_PAYLOAD_OCTETS if stack else _LEAST_PAYLOAD_UNTAGGED_OCTETS
    payload = sampled[: max(parameters.payload_octets, least)].ljust(least, b"\0")
    # Each header's type announces what follows it.
    types = [*(announced for announced, _ in stack), ethertypes.message]
    layers = (
        Ethernet(dst=source, src=cp_mac, type=types[0]),
        *(tag.replace(etype=etype) for (_, tag), etype in zip(stack, types[1:], strict=True)),
        message.replace(payload=payload),
    )
    return encode(Frame(layers=layers, ethertypes=ethertypes)).ljust(MIN_OCTETS, b"\0")


def _vlan_stack(frame: Frame, parameters: CongestionPointParameters) -> list[tuple[int, VLAN | STag]]:
    """Return the message's VLAN tags, each with the EtherType that announces it."""
    stack: list[tuple[int, VLAN | STag]] = []
    for before, layer in pairwise((frame.layers[0], *tags(frame))):
        if not isinstance(layer, VLAN | STag):
            continue
        tag: VLAN | STag = layer
        if not stack:
            priority = tag.priority if parameters.keep_priority else parameters.message_priority
            tag = layer.replace(priority=priority, dei=0)
        stack.append((int(getattr(before, before.next_key)), tag))
    return stack


def opened(
    octets: bytes,
    kind: type[_Message],
    *,
    stations: Collection[bytes],
    counters: Refusals,
    parameters: ReactionPointParameters,
    ethertypes: EtherTypes = DEFAULT,
) -> Opened | None:
    """Return a received message of ``kind`` taken apart, or None if it is refused, which is counted.

    ``stations`` are the addresses whose frames the reaction point limits: the message must be to one of
    them, and about a frame of that same one.
    """
    try:
        frame = decode(octets, ethertypes=ethertypes)
    except DecodeError:
        frame = None
    if frame is None or kind not in frame:
        counters.malformed += 1
        return None
    station = frame[Ethernet].dst
    if is_group(station):
        counters.group_address += 1
        return None
    sampled = headers(frame[kind].payload, ethertypes)
    if station not in stations or sampled[Ethernet].src != station:
        counters.foreign_address += 1
        return None
    return Opened(frame, flow_of_frame(sampled, parameters), sampled)
