"""The edge of a QCN domain: CND defence modes (wire-formats 9) and the backbone edge's CNMs (3.1).

A port has one :class:`QCNEdge` record of counters and, as long as nothing about its neighbour changes, one
:class:`DefenceRules`, which say per priority what is done.  A driver of whole batches reads the rules' tables
and calls `receive` and `transmit` only for the frames that they change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ecmproto.codec import (
    VLAN,
    CNTag,
    CongestionNotificationTLV,
    Ethernet,
    EtherTypes,
    STag,
    encode,
)
from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.codec.pbb import convert_cnm
from ecmproto.codec.tags import TYPE_OCTETS, tags_in, with_tag, without_tags
from ecmproto.errors import ParameterError
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.mechanisms.qcn.messages import TAG, CNMReceiver, ReceivedCNM, read_cnm
from ecmproto.mechanisms.qcn.parameters import (
    AUTOMATIC,
    AUTOMATIC_ALTERNATE,
    PRIORITIES,
    DefenceMode,
    QCNEdgeParameters,
)


def insert_cn_tag(octets: bytes, flow_id: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with a CN-TAG for ``flow_id`` behind its VLAN stack, in place of any it had.

    Raises EncodeError unless ``flow_id`` is in 0..65535.
    """
    return with_tag(octets, CNTag(flow_id=flow_id), ethertypes)[0]


def strip_cn_tag(
    octets: bytes, *, length_octets: int | None = None, ethertypes: EtherTypes = DEFAULT
) -> bytes:
    """Return the frame without CN-TAG, padded to 60 octets if that made it shorter.

    ``length_octets`` is the frame's length where a snap length may have cut it: such a frame is not padded.
    """
    stripped, count = without_tags(octets, TAG, ethertypes)
    if not count:
        return octets
    if len(octets) < max(MIN_OCTETS, length_octets or 0):
        return stripped
    return stripped.ljust(MIN_OCTETS, b"\0")


def with_priority(octets: bytes, priority: int, *, ethertypes: EtherTypes = DEFAULT) -> bytes:
    """Return the frame with ``priority`` in its outermost VLAN tag; an untagged one as it is."""
    for tag in tags_in(octets, ethertypes)[0]:
        if isinstance(tag.layer, VLAN | STag):
            row = tag.layer.replace(priority=priority).build()[:-TYPE_OCTETS]
            return octets[: tag.at + TYPE_OCTETS] + row + octets[tag.end :]
    return octets


def received_priority(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> int:
    """Return the priority in the outermost VLAN tag, 0 for an untagged frame."""
    for tag in tags_in(octets, ethertypes)[0]:
        if isinstance(tag.layer, VLAN | STag):
            return tag.layer.priority
    return 0


UNCHANGED = tuple(range(PRIORITIES))
"""The priority regeneration table that changes nothing (802.1Q 6.9.4)."""

_GROUP_BIT = 0x01


class QCNEdge(CNMReceiver):
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
class DefenceRules:
    """The rules of a port's congestion notification domain defence, per priority 0 to 7.

    ``modes``: its defence mode (disabled for what is no CNPV).  ``received``: the priority that a frame
    received in this one gets.  ``kept_out``: whether the regeneration table says a CNPV instead.
    ``strips``: whether frames transmitted in this priority lose their CN-TAG.
    """

    modes: tuple[DefenceMode, ...]
    received: tuple[int, ...]
    kept_out: tuple[bool, ...]
    strips: tuple[bool, ...]


def defence_modes(
    parameters: QCNEdgeParameters, neighbour: CongestionNotificationTLV | None
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


def advertisement(parameters: QCNEdgeParameters, modes: Sequence[DefenceMode]) -> CongestionNotificationTLV:
    """Return the TLV that tells the neighbour the CNPVs, Ready where they are not remapped (802.1Q 33.5)."""
    enabled = [p for p in sorted(parameters.cnpv) if modes[p] is not DefenceMode.DISABLED]
    ready = [p for p in enabled if modes[p] is not DefenceMode.EDGE]
    return CongestionNotificationTLV(cnpv=_mask(enabled), ready=_mask(ready))


def _mask(priorities: Sequence[int]) -> int:
    mask = 0
    for priority in priorities:
        mask |= 1 << priority
    return mask


def alternate_priority(parameters: QCNEdgeParameters, priority: int) -> int:
    """Return the alternate of ``priority``, a CNPV: the next lower that is no CNPV, else the next higher."""
    if parameters.alternate_priority != AUTOMATIC_ALTERNATE:
        return parameters.alternate_priority
    candidates: list[int] = [*range(priority - 1, -1, -1), *range(priority + 1, PRIORITIES)]
    return next(candidate for candidate in candidates if candidate not in parameters.cnpv)


def port_rules(
    parameters: QCNEdgeParameters,
    modes: Sequence[DefenceMode],
    *,
    regeneration: Sequence[int] = UNCHANGED,
) -> DefenceRules:
    """Return the rules of a port with these modes and this priority regeneration table.

    Raises ParameterError unless ``regeneration`` has eight priorities.
    """
    if len(regeneration) != PRIORITIES or not set(regeneration) <= set(UNCHANGED):
        raise ParameterError(name="regeneration", needed="eight priorities 0 to 7", got=str(regeneration))
    defended = {p for p in range(PRIORITIES) if modes[p] is not DefenceMode.DISABLED}
    kept_out = tuple(p not in defended and regeneration[p] in defended for p in range(PRIORITIES))
    return DefenceRules(
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
    edge: QCNEdge, rules: DefenceRules, octets: bytes, *, ethertypes: EtherTypes = DEFAULT
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
    edge: QCNEdge,
    rules: DefenceRules,
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
    edge: QCNEdge,
    parameters: QCNEdgeParameters,
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
