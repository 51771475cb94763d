"""The tags of the mechanisms in every frame of a batch: what they say, where they stand, where one goes.

A frame may carry several of a kind.  The newest counts, which is the outermost.  What counts as a tag agrees
with the functions for single frames: CM-Tags and RRT tags with `ecmproto.control.aimd.tags`, which look at a
frame's first 256 octets and take a tag for whole if only the EtherType behind it was cut off; RD tags with
`ecmproto.control.fecn.messages` and CN-TAGs with `ecmproto.control.qcn.tags`, which look at all of it and
want that EtherType too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled, inlined
from ecmproto.table.headers import BCN, E2CM, ECM, FECN, fixed, protocol_of, roles_of, signed, two_octets
from ecmproto.table.places import CN, NONE, NOWHERE, Places, find, find_older
from ecmproto.table.splice import Removals
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

NO_PROTOCOL = -1

_CPID_AT, _TIMESTAMP_AT, _UNIT_AT = 4, 12, 14
_RLQ_ID_AT, _RATE_AT = 4, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTags:
    """What ``tags_of`` found: one entry a frame in each array.  Places are octets from the frame's first."""

    cm_protocol: NDArray[np.int8]
    """Of the newest CM-Tag that counts: 0 ECM, 2 E²CM; NO_PROTOCOL without one."""
    cm_cpid: NDArray[np.int64]
    """As `ecmproto.control.cpid` has it; 0 without such a tag."""
    cm_timestamp: NDArray[np.uint16]
    cm_unit: NDArray[np.uint8]
    rrt_tagged: NDArray[np.bool_]
    rrt_cpid: NDArray[np.int64]
    """Of the newest RRT tag, as ``cm_cpid``."""
    rd_offset: NDArray[np.int32]
    """Where the Rate field of the newest RD tag stands, NOWHERE without one."""
    rd_rlq_id: NDArray[np.uint16]
    rd_rate: NDArray[np.int64]
    """In kb/s, as the tag has it; `units.RATE_INFINITY` is no limit yet."""
    tag_at: NDArray[np.int32]
    """The EtherType in front of which a tag goes: the one behind the VLAN stack and CN-TAG.  NOWHERE where
    the header was cut off there."""
    old_at: NDArray[np.int32]
    """Where the tag stands that it replaces, the newest of several; NOWHERE without one."""
    old_octets: NDArray[np.int32]
    """Of that tag with its EtherType; 0 without one."""
    old_tags: NDArray[np.int32]
    """How many tags it replaces; for those beyond the first see `older_tags`."""
    cn_at: NDArray[np.int32]
    """The EtherType in front of which a CN-TAG goes: the one behind the innermost VLAN tag.  NOWHERE in a
    frame without a whole Ethernet header."""
    old_cn_at: NDArray[np.int32]
    """Where the CN-TAG stands that it replaces, the outermost of several; NOWHERE without one."""
    cn_tags: NDArray[np.int32]
    """How many it replaces."""


def tags_of(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    *,
    protocol: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> FrameTags:
    """Find the tags of the Ethernet frames at ``offset`` in ``buffer``, ``captured`` octets each.

    ``protocol`` says whose tag goes in front of ``tag_at`` and replaces others of its kind: 0 ECM's CM-Tag,
    1 BCN's RRT tag, 2 E²CM's CM-Tag, 3 FECN's RD tag; None: one that replaces none.  Where it is 0 or 2, only
    CM-Tags of that protocol count; else all do.  Arrays as in ``capture.Batch``: frames lie within the
    buffer.  ParameterError for another protocol.
    """
    count = len(offset)
    frames = fixed(buffer), fixed(offset)
    places = Places(*(np.empty(count, np.int32) for _ in Places._fields))
    find(*frames, fixed(captured), roles_of(ethertypes), _own(protocol), places)
    tags = FrameTags(
        cm_protocol=np.full(count, NO_PROTOCOL, np.int8),
        cm_cpid=np.zeros(count, np.int64),
        cm_timestamp=np.zeros(count, np.uint16),
        cm_unit=np.zeros(count, np.uint8),
        rrt_tagged=places.rrt_at != NOWHERE,
        rrt_cpid=np.zeros(count, np.int64),
        rd_offset=np.where(places.rd_at == NOWHERE, np.int32(NOWHERE), places.rd_at + np.int32(_RATE_AT)),
        rd_rlq_id=np.zeros(count, np.uint16),
        rd_rate=np.zeros(count, np.int64),
        tag_at=places.tag_at,
        old_at=places.old_at,
        old_octets=places.old_octets,
        old_tags=places.old_tags,
        cn_at=places.cn_at,
        old_cn_at=places.old_cn_at,
        cn_tags=places.cn_tags,
    )
    _read_cm_tags(*frames, places.cm_at, tags.cm_protocol, tags.cm_cpid, tags.cm_timestamp, tags.cm_unit)
    _read_rrt_tags(*frames, places.rrt_at, tags.rrt_cpid)
    _read_rd_tags(*frames, places.rd_at, tags.rd_rlq_id, tags.rd_rate)
    return tags


def older_tags(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tags: FrameTags,
    *,
    protocol: int,
    ethertypes: EtherTypes = DEFAULT,
) -> Removals:
    """Return where all tags stand that one of ``protocol`` replaces besides those at ``tags.old_at``."""
    return _others(buffer, offset, captured, tags.old_tags, _own(protocol), ethertypes)


def older_cn_tags(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tags: FrameTags,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> Removals:
    """Return where all CN-TAGs stand besides those at ``tags.old_cn_at``."""
    return _others(buffer, offset, captured, tags.cn_tags, CN, ethertypes)


def _own(protocol: int | None) -> int:
    if protocol is None:
        return NONE
    if protocol not in (ECM, BCN, E2CM, FECN):
        raise ParameterError(name="protocol", needed="0 to 3, or none", got=str(protocol))
    return int(protocol)


def _others(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tags: NDArray[np.int32],
    own: int,
    ethertypes: EtherTypes,
) -> Removals:
    frames = np.flatnonzero(tags > 1).astype(np.int64)
    count = int((tags[frames] - 1).sum())
    removals = Removals(*(np.empty(count, np.int64) for _ in range(3)))
    if count:
        find_older(
            fixed(buffer), fixed(offset[frames]), fixed(captured[frames]), roles_of(ethertypes), own,
            fixed(frames), removals,
        )  # fmt: skip
    return removals


@inlined
def _cpid(buffer: NDArray[np.uint8], start: int) -> int:
    # The first octet has the sign, so that no number has more than 64 bits, as plain Python's would.
    cpid = signed(buffer[start]) - ((signed(buffer[start]) & 0x80) << 1)
    for octet in range(start + 1, start + 8):
        cpid = (cpid << 8) | signed(buffer[octet])
    return cpid


@compiled
def _read_cm_tags(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    at: NDArray[np.int32],
    protocol: NDArray[np.int8],
    cpid: NDArray[np.int64],
    timestamp: NDArray[np.uint16],
    unit: NDArray[np.uint8],
) -> None:
    for i in range(len(offset)):
        if at[i] != NOWHERE:
            start = offset[i] + at[i]
            protocol[i] = protocol_of(two_octets(buffer, start + 2))
            cpid[i] = _cpid(buffer, start + _CPID_AT)
            timestamp[i] = two_octets(buffer, start + _TIMESTAMP_AT)
            unit[i] = buffer[start + _UNIT_AT] >> 4


@compiled
def _read_rrt_tags(
    buffer: NDArray[np.uint8], offset: NDArray[np.int64], at: NDArray[np.int32], cpid: NDArray[np.int64]
) -> None:
    for i in range(len(offset)):
        if at[i] != NOWHERE:
            cpid[i] = _cpid(buffer, offset[i] + at[i] + _CPID_AT)


@compiled
def _read_rd_tags(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    at: NDArray[np.int32],
    rlq_id: NDArray[np.uint16],
    rate: NDArray[np.int64],
) -> None:
    for i in range(len(offset)):
        if at[i] != NOWHERE:
            start = offset[i] + at[i]
            rlq_id[i] = two_octets(buffer, start + _RLQ_ID_AT)
            high, low = two_octets(buffer, start + _RATE_AT), two_octets(buffer, start + _RATE_AT + 2)
            rate[i] = (high << 16) | low
