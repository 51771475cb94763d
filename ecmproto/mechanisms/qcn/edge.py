"""The edge of a QCN domain: CND defence modes (wire-formats 9) and the backbone edge's CNMs (3.1).

A port has one :class:`Edge` record of counters and, as long as nothing about its neighbour changes, one
:class:`PortRules`, which say per priority what is done.  A driver of whole batches reads the rules' tables
and calls `receive` and `transmit` only for the frames that they change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ecmproto.codec import CongestionNotificationTLV, Ethernet, EtherTypes, encode
from ecmproto.codec.pbb import convert_cnm
from ecmproto.errors import ParameterError
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.qcn.edge_parameters import (
    AUTOMATIC,
    AUTOMATIC_ALTERNATE,
    PRIORITIES,
    DefenceMode,
    EdgeParameters,
)
from ecmproto.mechanisms.qcn.messages import CNMReceiver, ReceivedCNM, read_cnm
from ecmproto.mechanisms.qcn.tags import received_priority, strip_cn_tag, with_priority

UNCHANGED = tuple(range(PRIORITIES))
"""The priority regeneration table that changes nothing (802.1Q 6.9.4)."""

_GROUP_BIT = 0x01


class Edge(CNMReceiver):
    """Counters of one port; a record (``ecmproto.record``)."""

    remapped_frames: int
    """Received in a CNPV and given the alternate priority."""
    kept_out_frames: int
    """The regeneration table would have put them into a CNPV; they kept their priority."""
    cn_tags_stripped: int
    cnms_converted: int
    cnms_inconvertible: int
    """Discarded: the Encapsulated MSDU does not reach behind the customer's tags."""
    cnms_misdirected: int
    """Discarded: the customer's source is a group address, or this bridge's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRules:
    """What a port does, per priority 0 to 7.

    ``modes``: its defence mode (disabled for what is no CNPV).  ``received``: the priority that a frame
    received in this one gets.  ``kept_out``: whether the regeneration table says a CNPV instead.
    ``strips``: whether frames transmitted in this priority lose their CN-TAG.
    """

    modes: tuple[DefenceMode, ...]
    received: tuple[int, ...]
    kept_out: tuple[bool, ...]
    strips: tuple[bool, ...]


def defence_modes(
    parameters: EdgeParameters, neighbour: CongestionNotificationTLV | None
) -> tuple[DefenceMode, ...]:
    """Return the mode of each priority, given what the neighbour last advertised; None if nothing."""
    cnpv = 0 if neighbour is None else neighbour.cnpv
    ready = 0 if neighbour is None else neighbour.ready
    return tuple(
        DefenceMode.DISABLED
        if priority not in parameters.cnpv
        else _automatic(cnpv >> priority & 1, ready >> priority & 1)
        if parameters.mode == AUTOMATIC
        else DefenceMode(parameters.mode)
        for priority in range(PRIORITIES)
    )


def _automatic(neighbour_cnpv: int, neighbour_ready: int) -> DefenceMode:
    if not neighbour_cnpv:
        return DefenceMode.EDGE
    return DefenceMode.INTERIOR_READY if neighbour_ready else DefenceMode.INTERIOR


def advertisement(parameters: EdgeParameters, modes: Sequence[DefenceMode]) -> CongestionNotificationTLV:
    """Return the TLV that tells the neighbour the CNPVs, Ready where they are not remapped (802.1Q 33.5)."""
    enabled = [p for p in sorted(parameters.cnpv) if modes[p] is not DefenceMode.DISABLED]
    ready = [p for p in enabled if modes[p] is not DefenceMode.EDGE]
    return CongestionNotificationTLV(cnpv=_mask(enabled), ready=_mask(ready))


def _mask(priorities: Sequence[int]) -> int:
    mask = 0
    for priority in priorities:
        mask |= 1 << priority
    return mask


def alternate_priority(parameters: EdgeParameters, priority: int) -> int:
    """Return what ``priority``, a CNPV, is remapped to: next lower that is no CNPV, else next higher."""
    if parameters.alternate_priority != AUTOMATIC_ALTERNATE:
        return parameters.alternate_priority
    candidates: list[int] = [*range(priority - 1, -1, -1), *range(priority + 1, PRIORITIES)]
    return next(candidate for candidate in candidates if candidate not in parameters.cnpv)


def port_rules(
    parameters: EdgeParameters,
    modes: Sequence[DefenceMode],
    *,
    regeneration: Sequence[int] = UNCHANGED,
) -> PortRules:
    """Return what a port with these modes and this priority regeneration table does.

    Raises ParameterError unless ``regeneration`` has eight priorities.
    """
    if len(regeneration) != PRIORITIES or not set(regeneration) <= set(UNCHANGED):
        raise ParameterError(name="regeneration", needed="eight priorities 0 to 7", got=str(regeneration))
    defended = {p for p in range(PRIORITIES) if modes[p] is not DefenceMode.DISABLED}
    kept_out = tuple(p not in defended and regeneration[p] in defended for p in range(PRIORITIES))
    return PortRules(
        modes=tuple(modes),
        received=tuple(
            alternate_priority(parameters, p)
            if modes[p] is DefenceMode.EDGE
            else p
            if p in defended or kept_out[p]
            else regeneration[p]
            for p in range(PRIORITIES)
        ),
        kept_out=kept_out,
        strips=tuple(mode in (DefenceMode.INTERIOR, DefenceMode.EDGE) for mode in modes),
    )


def receive(
    edge: Edge, rules: PortRules, octets: bytes, *, ethertypes: EtherTypes = DEFAULT
) -> tuple[bytes, int]:
    """Return a frame that the port received, with its outermost VLAN priority as ruled, and that priority.

    An untagged frame counts as priority 0; a new priority of its stands beside it only.
    """
    priority = received_priority(octets, ethertypes=ethertypes)
    ruled = rules.received[priority]
    edge.remapped_frames += rules.modes[priority] is DefenceMode.EDGE
    edge.kept_out_frames += rules.kept_out[priority]
    if ruled != priority:
        octets = with_priority(octets, ruled, ethertypes=ethertypes)
    return octets, ruled


def transmit(
    edge: Edge,
    rules: PortRules,
    octets: bytes,
    priority: int,
    *,
    length_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes:
    """Return a frame as the port transmits it in ``priority``: without CN-TAG if that is its mode."""
    if not rules.strips[priority]:
        return octets
    stripped = strip_cn_tag(octets, length_octets=length_octets, ethertypes=ethertypes)
    edge.cn_tags_stripped += stripped is not octets
    return stripped


def convert(
    edge: Edge,
    parameters: EdgeParameters,
    octets: bytes,
    own_mac: bytes,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> bytes | None:
    """Return the customer's CNM made of one that the backbone sent to this edge bridge, None if discarded.

    ``own_mac`` is the backbone address of the bridge.  Every discard is counted, with the reason.
    """
    received = read_cnm(edge, octets, own_mac, ethertypes=ethertypes)
    if not isinstance(received, ReceivedCNM):
        return None
    converted = convert_cnm(received.frame, priority=parameters.cnm_priority)
    if converted is None:
        edge.cnms_inconvertible += 1
        return None
    customer = converted[Ethernet].dst
    if customer[0] & _GROUP_BIT or customer == own_mac:
        edge.cnms_misdirected += 1
        return None
    edge.cnms_converted += 1
    return encode(converted)
