"""What a switch port must know of every frame of a batch, found in one pass over the headers.

The walk goes from octet 12 over VLAN tags, CN-TAGs and experimental tags in any order and to any depth
(wire-formats 1.2), as far as octets were captured, to the payload's EtherType or length: there the MSDU
starts (wire-formats 3).  An I-TAG is payload; so is an experimental tag of unassigned Protocol or Type, whose
length nobody knows.  What was cut off is taken for ordinary data: it occupies queues and may be
sampled, but it is not answered without its first 14 octets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled, inlined
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

_Scalar = TypeVar("_Scalar", bound=np.generic)

_NO_ADDRESS = -1
_ADDRESS_OCTETS = 6
_FIRST_TYPE = 12
_HEADER_OCTETS = 14
_LINK_LOCAL_HIGH = 0x0180C2000000 >> 4

_OTHER, _VLAN_TAG, _CN_TAG, _TAG, _CNM, _MESSAGE, _MAC_CONTROL = range(7)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameClasses:
    """What ``classify`` found: one entry a frame in each array."""

    priority: NDArray[np.uint8]
    """Of the outermost VLAN tag; 0 without one."""
    occupies: NDArray[np.bool_]
    """Whether the frame occupies queues: MAC Control and link-local frames never do."""
    sampled: NDArray[np.bool_]
    """Whether it may be sampled: not CNMs, frames with the message EtherType, and what occupies nothing."""
    answerable: NDArray[np.bool_]
    """Whether a message may go to its source: an individual address, not the generator's own."""
    msdu_offset: NDArray[np.int32]
    """Octets before the MSDU; at most the captured ones."""
    cn_tagged: NDArray[np.bool_]
    flow_id: NDArray[np.uint16]
    """Of the outermost CN-TAG; 0 without one."""


class _Columns(NamedTuple):
    """The same arrays in the same order, as a kernel takes them."""

    priority: NDArray[np.uint8]
    occupies: NDArray[np.bool_]
    sampled: NDArray[np.bool_]
    answerable: NDArray[np.bool_]
    msdu_offset: NDArray[np.int32]
    cn_tagged: NDArray[np.bool_]
    flow_id: NDArray[np.uint16]


def classify(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    *,
    ethertypes: EtherTypes = DEFAULT,
    own_mac: bytes | None = None,
) -> FrameClasses:
    """Classify the Ethernet frames at ``offset`` in ``buffer``, ``captured`` octets each.

    ``own_mac`` is the address that messages are sent from; frames that carry it as their source are not
    ``answerable``.  Arrays as in ``capture.Batch``: frames lie within the buffer.
    """
    count = len(offset)
    columns = _Columns(
        priority=np.zeros(count, np.uint8),
        occupies=np.zeros(count, np.bool_),
        sampled=np.zeros(count, np.bool_),
        answerable=np.zeros(count, np.bool_),
        msdu_offset=np.zeros(count, np.int32),
        cn_tagged=np.zeros(count, np.bool_),
        flow_id=np.zeros(count, np.uint16),
    )
    own = _NO_ADDRESS if own_mac is None else int.from_bytes(own_mac)
    _walk(_fixed(buffer), _fixed(offset), _fixed(captured), _roles(ethertypes), own, columns)
    return FrameClasses(**columns._asdict())


def _fixed(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    # Read-only and contiguous, whatever came: one form of argument is one compilation.
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _roles(ethertypes: EtherTypes) -> NDArray[np.uint8]:
    """Return what each of the 65 536 EtherTypes is to the walk."""
    roles = np.zeros(1 << 16, np.uint8)
    roles[[ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag]] = _VLAN_TAG
    roles[ethertypes.cn_tag] = _CN_TAG
    roles[ethertypes.tag] = _TAG
    roles[ethertypes.cnm] = _CNM
    roles[ethertypes.message] = _MESSAGE
    roles[ethertypes.mac_control] = _MAC_CONTROL
    return roles


@inlined
def _two_octets(buffer: NDArray[np.uint8], start: int) -> int:
    return (int(buffer[start]) << 8) | int(buffer[start + 1])


@inlined
def _address(buffer: NDArray[np.uint8], start: int) -> int:
    address = 0
    for octet in range(start, start + _ADDRESS_OCTETS):
        address = (address << 8) | int(buffer[octet])
    return address


@inlined
def _tag_octets(word: int) -> int:
    """Return the octets of an experimental tag with its EtherType, 0 if it is unassigned (1.1, 4, 5, 7)."""
    protocol, kind = (word >> 8) & 7, (word >> 4) & 15
    if kind != 0 or protocol > 3:
        return 0
    return 12 if protocol == 1 else 10 if protocol == 3 else 16


class _Headers(NamedTuple):
    """What the tags of one frame say: see FrameClasses; ``msdu_at`` counts in the buffer."""

    priority: int
    cn_tagged: bool
    flow_id: int
    role: int
    msdu_at: int


@compiled
def _walk(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    roles: NDArray[np.uint8],
    own: int,
    columns: _Columns,
) -> None:
    priority, occupies, sampled, answerable, msdu_offset, cn_tagged, flow_id = columns
    for i in range(len(offset)):
        start = offset[i]
        end = start + captured[i]
        headers = _headers(buffer, start, end, roles)
        priority[i] = headers.priority
        cn_tagged[i] = headers.cn_tagged
        flow_id[i] = headers.flow_id
        msdu_offset[i] = headers.msdu_at - start
        occupies[i] = headers.role != _MAC_CONTROL and not _is_link_local(buffer, start, end)
        sampled[i] = occupies[i] and headers.role != _CNM and headers.role != _MESSAGE
        if end - start >= _HEADER_OCTETS:
            source = _address(buffer, start + _ADDRESS_OCTETS)
            answerable[i] = not (source >> 40) & 1 and source != own


@inlined
def _is_link_local(buffer: NDArray[np.uint8], start: int, end: int) -> bool:
    return end - start >= _ADDRESS_OCTETS and _address(buffer, start) >> 4 == _LINK_LOCAL_HIGH


@inlined
def _headers(buffer: NDArray[np.uint8], start: int, end: int, roles: NDArray[np.uint8]) -> _Headers:
    at = start + _FIRST_TYPE
    priority = flow_id = 0
    vlan_tagged = cn_tagged = False
    role = _OTHER
    while at + 2 <= end:
        role = int(roles[_two_octets(buffer, at)])
        if role == _OTHER or role > _TAG or at + 4 > end:
            break
        control = _two_octets(buffer, at + 2)
        length = 4
        if role == _TAG:
            length = _tag_octets(control)
            if length == 0:
                break
        elif role == _CN_TAG and not cn_tagged:
            cn_tagged = True
            flow_id = control
        elif role == _VLAN_TAG and not vlan_tagged:
            vlan_tagged = True
            priority = control >> 13
        at += length
        role = _OTHER
    return _Headers(priority, cn_tagged, flow_id, role, min(at, end))
