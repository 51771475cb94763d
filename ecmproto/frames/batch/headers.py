"""The walk over a frame's tags, shared by all kernels.

It goes from octet 12 over VLAN tags, CN-TAGs, experimental tags and the tags of other formats
(`ecmproto.wire.codec.tags.is_tag`) in any order and to any depth (wire-formats 1.2), up to the end of the
captured octets or to the payload's EtherType or length, the start of the MSDU (wire-formats 3).  An I-TAG is
payload; so is an experimental tag of unassigned Protocol or Type, whose length is unknown.

Kernels take ``start`` and ``end``, the offsets of the frame's first octet in the buffer and after its last,
and ``roles``, the result of `roles_of` for the EtherTypes.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.wire.codec.tags import is_tag
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import SNAP, SNAP_START
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.experimental import CPID_AT, CPID_OCTETS
from ecmproto.wire.formats.ip import AH, TCP, UDP, DestinationOptions, FragmentHeader, HopByHop, Routing
from ecmproto.wire.formats.registry import BEHIND_IPV4, BEHIND_IPV6, FORMATS, announcement

_Scalar = TypeVar("_Scalar", bound=np.generic)

ADDRESS_OCTETS = 6
TYPE_AT = 12
HEADER_OCTETS = 14
NO_VLAN = -1
SNAP_OCTETS = SNAP.fixed_octets
_SNAP_WORDS = tuple(int.from_bytes(SNAP_START[at : at + 2], "big") for at in (0, 2, 4))
_CHECKSUM_AT = 10
_ECN_BITS = 3

OTHER, CNM, MESSAGE, MAC_CONTROL, I_TAG, VLAN_TAG, CN_TAG, TAG = range(8)
"""Roles of EtherTypes in the walk, tags last.  A role above TAG is another format's tag: TAG plus the tag's
octets.
"""

UDP_HEADER, TCP_HEADER, FRAGMENT, EXTENSION, AUTHENTICATION = range(1, 6)
"""Rules for the header that an IP protocol announces; 0 for all other protocols."""

_ETHERTYPES = 1 << 16
_SELECTORS = 128
_PROTOCOLS = 256
_RULES: dict[type[Layer], int] = {
    UDP: UDP_HEADER, TCP: TCP_HEADER, FragmentHeader: FRAGMENT, AH: AUTHENTICATION,
    HopByHop: EXTENSION, Routing: EXTENSION, DestinationOptions: EXTENSION,
}  # fmt: skip
_HAS_CPID = 128


class Headers(NamedTuple):
    """Values from the tags of one frame."""

    vlan: int
    """Identifier in the outermost VLAN tag, NO_VLAN without one."""
    priority: int
    """Priority of the outermost VLAN tag; 0 without one."""
    cn_tagged: bool
    flow_id: int
    """Flow ID of the outermost CN-TAG; 0 without one."""
    role: int
    """The role of the EtherType after the tags."""
    msdu_at: int
    """Offset of the MSDU in the buffer; at most the frame's end."""


def fixed(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return ``array`` read-only and contiguous, whatever came: one form of argument is one compilation."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@functools.lru_cache(maxsize=32)
def roles_of(ethertypes: EtherTypes) -> NDArray[np.uint8]:
    """Return the role of each of the 65 536 EtherTypes in the walk, then the lengths of experimental tags.

    Those are by Protocol and Type; 0: unassigned; with 128 added the tag has a CPID.  The rules of IPv4's
    protocols and IPv6's next headers follow, 256 each.
    """
    roles = np.zeros(_ETHERTYPES + _SELECTORS + 2 * _PROTOCOLS, np.uint8)
    for at, behind in ((0, BEHIND_IPV4), (_PROTOCOLS, BEHIND_IPV6)):
        for protocol, kind in behind.items():
            roles[_ETHERTYPES + _SELECTORS + at + protocol] = _RULES.get(kind, 0)
    for kind in FORMATS:
        if isinstance(kind.announced_by, int):
            roles[kind.announced_by] = _own_role(kind)
        elif kind.announced_by == "tag" and is_tag(kind):
            has_cpid = _HAS_CPID if getattr(kind, "has_cpid", False) else 0
            for selector in kind.selected_by:
                roles[_ETHERTYPES + selector] = kind.fixed_octets + has_cpid
        elif is_tag(kind) and (announced := announcement(kind, ethertypes)) is not None:
            roles[announced] = TAG + kind.fixed_octets
    roles[[ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag]] = VLAN_TAG
    roles[ethertypes.i_tag] = I_TAG
    roles[ethertypes.cn_tag] = CN_TAG
    roles[ethertypes.tag] = TAG
    roles[ethertypes.cnm] = CNM
    roles[ethertypes.message] = MESSAGE
    roles[ethertypes.mac_control] = MAC_CONTROL
    return fixed(roles)


def _own_role(kind: type[Layer]) -> int:
    """Return the role of an EtherType that the map does not have."""
    if is_tag(kind):
        return TAG + kind.fixed_octets
    return MESSAGE if kind.role == "message" else OTHER


@inlined
def signed(octet: np.uint8) -> int:
    """Return an octet as an int: compiled, ``int`` leaves it an octet, which goes together with no other."""
    return int(np.int64(octet))


@inlined
def two_octets(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the 16-bit number at ``start``."""
    return (signed(buffer[start]) << 8) | signed(buffer[start + 1])


@inlined
def four_octets(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the 32-bit number at ``start``."""
    return (two_octets(buffer, start) << 16) | two_octets(buffer, start + 2)


@inlined
def is_snap(buffer: NDArray[np.uint8], at: int, stop: int) -> bool:
    """Return whether LLC and SNAP headers that announce an EtherType start at ``at``: `SNAP_START`."""
    return bool(
        at + SNAP_OCTETS <= stop
        and two_octets(buffer, at) == _SNAP_WORDS[0]
        and two_octets(buffer, at + 2) == _SNAP_WORDS[1]
        and two_octets(buffer, at + 4) == _SNAP_WORDS[2]
    )


@inlined
def address(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the MAC address at ``start`` as a number."""
    number = 0
    for octet in range(start, start + ADDRESS_OCTETS):
        number = (number << 8) | signed(buffer[octet])
    return number


@inlined
def is_group(number: int) -> bool:
    """Whether a MAC address is a group's."""
    return (number >> 40) & 1 != 0


@inlined
def ecn_at(buffer: NDArray[np.uint8], ip: int) -> int:
    """Return the ECN field of the IP header at ``ip``."""
    octet = signed(buffer[ip + 1])
    return octet & _ECN_BITS if signed(buffer[ip]) >> 4 == 4 else octet >> 4 & _ECN_BITS


@over_batches
def write_ecn(buffer: NDArray[np.uint8], ip: int, codepoint: int) -> None:
    """Write the ECN field of the IP header at ``ip``, and update IPv4's header checksum (RFC 1624)."""
    before = two_octets(buffer, ip)
    if before >> 12 != 4:
        buffer[ip + 1] = signed(buffer[ip + 1]) & ~(_ECN_BITS << 4) | codepoint << 4
        return
    buffer[ip + 1] = signed(buffer[ip + 1]) & ~_ECN_BITS | codepoint
    # Equation 3: HC' = ~(~HC + ~m + m').
    checksum = two_octets(buffer, ip + _CHECKSUM_AT)
    total = (~checksum & 0xFFFF) + (~before & 0xFFFF) + two_octets(buffer, ip)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    buffer[ip + _CHECKSUM_AT] = ~total >> 8 & 0xFF
    buffer[ip + _CHECKSUM_AT + 1] = ~total & 0xFF


@inlined
def role_at(buffer: NDArray[np.uint8], at: int, roles: NDArray[np.uint8]) -> int:
    """Return the role of the EtherType at ``at``."""
    return signed(roles[two_octets(buffer, at)])


@inlined
def rule_of(roles: NDArray[np.uint8], version: int, protocol: int) -> int:
    """Return the rule for the header after IPv4 or IPv6 with ``protocol``."""
    return signed(roles[_ETHERTYPES + _SELECTORS + (_PROTOCOLS if version == 6 else 0) + protocol])


@inlined
def tag_octets(
    buffer: NDArray[np.uint8], at: int, end: int, role: int, control: int, roles: NDArray[np.uint8]
) -> int:
    """Return the octets of the tag with ``role`` whose EtherType is at ``at``.

    ``control`` is the number in the two octets after the EtherType.  0 for an experimental tag that is
    unassigned or without a possible CPID.
    """
    if role != TAG:
        return 4 if role < TAG else role - TAG
    octets = signed(roles[_ETHERTYPES + (control >> 4 & (_SELECTORS - 1))])
    if octets < _HAS_CPID:
        return octets
    return 0 if has_no_cpid(buffer, at + 2 + CPID_AT, end) else octets - _HAS_CPID


@inlined
def has_no_cpid(buffer: NDArray[np.uint8], at: int, end: int) -> bool:
    """Return whether the octets at ``at`` are no CPID: `ecmproto.wire.formats.experimental.is_no_cpid`."""
    if at + CPID_OCTETS > end:
        return False
    some = 0
    for octet in range(at, at + CPID_OCTETS):
        some |= signed(buffer[octet])
    return some == 0 or signed(buffer[at]) & 1 != 0


@inlined
def headers_of(buffer: NDArray[np.uint8], start: int, end: int, roles: NDArray[np.uint8]) -> Headers:
    """Return the values from the tags of a frame."""
    at = start + TYPE_AT
    vlan = NO_VLAN
    priority = flow_id = 0
    cn_tagged = False
    role = OTHER
    while at + 2 <= end:
        role = role_at(buffer, at, roles)
        if role < VLAN_TAG or at + 4 > end:
            break
        control = two_octets(buffer, at + 2)
        octets = tag_octets(buffer, at, end, role, control, roles)
        if octets == 0:
            break
        if role == CN_TAG and not cn_tagged:
            cn_tagged = True
            flow_id = control
        elif role == VLAN_TAG and vlan == NO_VLAN:
            vlan = control & 0xFFF
            priority = control >> 13
        at += octets
        role = OTHER
    return Headers(vlan, priority, cn_tagged, flow_id, role, min(at, end))
