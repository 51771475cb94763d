"""The tags of the mechanisms in every frame of a batch: what they say, where they stand, where one goes.

A frame may carry several of a kind.  The newest counts, which is the outermost.  What counts as a tag agrees
with the functions for single frames: CM-Tags and RRT tags with `ecmproto.control.aimd.tags`, which look at a
frame's first 256 octets and take a tag for whole if only the EtherType behind it was cut off; RD tags with
`ecmproto.control.fecn.messages` and CN-TAGs with `ecmproto.control.qcn.tags`, which look at all of it and
want that EtherType too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled, inlined
from ecmproto.table.headers import (
    BCN,
    CN_TAG,
    E2CM,
    ECM,
    FECN,
    HEADER_OCTETS,
    OTHER,
    TAG,
    TYPE_AT,
    VLAN_TAG,
    fixed,
    protocol_of,
    role_at,
    roles_of,
    signed,
    tag_octets,
    two_octets,
)
from ecmproto.table.splice import Removals
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes

NOWHERE = -1
NO_PROTOCOL = -1

_CN = 8
"""Stands for the CN-TAG where experimental tags are told apart by their Protocol."""
_SHOWN_OCTETS = 256
_TYPE_OCTETS = 2
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
    rd_offset: NDArray[np.int64]
    """Where the Rate field of the newest RD tag stands, NOWHERE without one."""
    rd_rlq_id: NDArray[np.uint16]
    rd_rate: NDArray[np.int64]
    """In kb/s, as the tag has it; `units.RATE_INFINITY` is no limit yet."""
    tag_at: NDArray[np.int64]
    """The EtherType in front of which a tag goes: the one behind the VLAN stack and CN-TAG.  NOWHERE where
    the header was cut off there."""
    old_at: NDArray[np.int64]
    """Where the tag stands that it replaces, the newest of several; NOWHERE without one."""
    old_octets: NDArray[np.int64]
    """Of that tag with its EtherType; 0 without one."""
    old_tags: NDArray[np.int64]
    """How many tags it replaces; for those beyond the first see `older_tags`."""
    cn_at: NDArray[np.int64]
    """The EtherType in front of which a CN-TAG goes: the one behind the innermost VLAN tag.  NOWHERE in a
    frame without a whole Ethernet header."""
    old_cn_at: NDArray[np.int64]
    """Where the CN-TAG stands that it replaces, the outermost of several; NOWHERE without one."""
    cn_tags: NDArray[np.int64]
    """How many it replaces."""


class _Columns(NamedTuple):
    """The same arrays in the same order, as a kernel takes them."""

    cm_protocol: NDArray[np.int8]
    cm_cpid: NDArray[np.int64]
    cm_timestamp: NDArray[np.uint16]
    cm_unit: NDArray[np.uint8]
    rrt_tagged: NDArray[np.bool_]
    rrt_cpid: NDArray[np.int64]
    rd_offset: NDArray[np.int64]
    rd_rlq_id: NDArray[np.uint16]
    rd_rate: NDArray[np.int64]
    tag_at: NDArray[np.int64]
    old_at: NDArray[np.int64]
    old_octets: NDArray[np.int64]
    old_tags: NDArray[np.int64]
    cn_at: NDArray[np.int64]
    old_cn_at: NDArray[np.int64]
    cn_tags: NDArray[np.int64]


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
    own = _own(protocol)
    count = len(offset)
    columns = _Columns(
        np.empty(count, np.int8),
        np.empty(count, np.int64),
        np.empty(count, np.uint16),
        np.empty(count, np.uint8),
        np.empty(count, np.bool_),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.uint16),
        *(np.empty(count, np.int64) for _ in range(8)),
    )
    _find(fixed(buffer), fixed(offset), fixed(captured), roles_of(ethertypes), own, columns)
    return FrameTags(**columns._asdict())


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
    return _others(buffer, offset, captured, tags.cn_tags, _CN, ethertypes)


def _own(protocol: int | None) -> int:
    if protocol is None:
        return NO_PROTOCOL
    if protocol not in (ECM, BCN, E2CM, FECN):
        raise ParameterError(name="protocol", needed="0 to 3, or none", got=str(protocol))
    return int(protocol)


def _others(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tags: NDArray[np.int64],
    own: int,
    ethertypes: EtherTypes,
) -> Removals:
    frames = np.flatnonzero(tags > 1).astype(np.int64)
    count = int((tags[frames] - 1).sum())
    removals = Removals(*(np.empty(count, np.int64) for _ in range(3)))
    if count:
        _list(
            fixed(buffer), fixed(offset[frames]), fixed(captured[frames]), roles_of(ethertypes), own,
            fixed(frames), removals,
        )  # fmt: skip
    return removals


@inlined
def _replaced(role: int, control: int, own: int, octets: int, left: int) -> bool:
    """Whether a tag of ``own`` replaces this one, with ``octets`` up to its end and ``left`` behind it."""
    if role == CN_TAG:
        return own == _CN and left >= _TYPE_OCTETS
    if role != TAG or protocol_of(control) != own:
        return False
    return left >= _TYPE_OCTETS if own == FECN else octets <= _SHOWN_OCTETS


@inlined
def _cpid(buffer: NDArray[np.uint8], start: int) -> int:
    cpid = 0
    for octet in range(start, start + 8):
        cpid = (cpid << 8) | signed(buffer[octet])
    return cpid


@compiled
def _find(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    roles: NDArray[np.uint8],
    own: int,
    columns: _Columns,
) -> None:
    for i in range(len(offset)):
        _clear(columns, i)
        _find_one(buffer, offset[i], offset[i] + captured[i], roles, own, columns, i)


@inlined
def _clear(columns: _Columns, i: int) -> None:
    columns.cm_protocol[i] = NO_PROTOCOL
    columns.cm_cpid[i] = columns.rrt_cpid[i] = columns.rd_rate[i] = 0
    columns.cm_timestamp[i] = 0
    columns.cm_unit[i] = 0
    columns.rrt_tagged[i] = False
    columns.rd_rlq_id[i] = 0
    columns.rd_offset[i] = columns.old_at[i] = columns.old_cn_at[i] = NOWHERE
    columns.old_octets[i] = columns.old_tags[i] = columns.cn_tags[i] = 0


@inlined
def _find_one(
    buffer: NDArray[np.uint8],
    start: int,
    end: int,
    roles: NDArray[np.uint8],
    own: int,
    columns: _Columns,
    i: int,
) -> None:
    at = start + TYPE_AT
    stack_end = cn_at = at
    removed = 0
    in_stack, cut = True, False
    while at + _TYPE_OCTETS <= end:
        role = role_at(buffer, at, roles)
        is_stack = role in (VLAN_TAG, CN_TAG)
        # FECN wants whole tags in the stack, the EtherType behind them too.
        if own == FECN and in_stack and is_stack and at + 4 + _TYPE_OCTETS > end:
            cut = True
        if role == OTHER or role > TAG or at + 4 > end:
            break
        control = two_octets(buffer, at + 2)
        octets = tag_octets(role, control)
        if octets == 0 or at + octets > end:
            break
        behind = at + octets
        if role == VLAN_TAG and behind + _TYPE_OCTETS <= end:
            cn_at = behind
        elif role == CN_TAG and behind + _TYPE_OCTETS <= end:
            columns.cn_tags[i] += 1
            if columns.old_cn_at[i] == NOWHERE:
                columns.old_cn_at[i] = at - start
        elif role == TAG:
            _read(buffer, start, at, behind, end, control, own, columns, i)
        if _replaced(role, control, own, behind - start, end - behind):
            columns.old_tags[i] += 1
            removed += octets
            if columns.old_at[i] == NOWHERE:
                columns.old_at[i] = at - start
                columns.old_octets[i] = octets
        elif in_stack:
            shown = own == FECN or behind - start - removed <= _SHOWN_OCTETS
            in_stack = is_stack and shown and not cut
            if in_stack:
                stack_end = behind
        at = behind
    whole = end - start >= HEADER_OCTETS
    columns.cn_at[i] = cn_at - start if whole else NOWHERE
    whole = end - start - removed >= HEADER_OCTETS and not cut
    columns.tag_at[i] = stack_end - start if whole else NOWHERE


@inlined
def _read(
    buffer: NDArray[np.uint8],
    start: int,
    at: int,
    behind: int,
    end: int,
    control: int,
    own: int,
    columns: _Columns,
    i: int,
) -> None:
    """Note what the experimental tag at ``at`` says, unless a newer one of its kind has said it."""
    protocol = protocol_of(control)
    if protocol == FECN:
        if columns.rd_offset[i] == NOWHERE and behind + _TYPE_OCTETS <= end:
            columns.rd_offset[i] = at + _RATE_AT - start
            columns.rd_rlq_id[i] = two_octets(buffer, at + _RLQ_ID_AT)
            columns.rd_rate[i] = (two_octets(buffer, at + _RATE_AT) << 16) | two_octets(
                buffer, at + _RATE_AT + 2
            )
    elif behind - start > _SHOWN_OCTETS:
        return
    elif protocol == BCN:
        if not columns.rrt_tagged[i]:
            columns.rrt_tagged[i] = True
            columns.rrt_cpid[i] = _cpid(buffer, at + _CPID_AT)
    elif columns.cm_protocol[i] == NO_PROTOCOL and (protocol == own or (own != ECM and own != E2CM)):
        columns.cm_protocol[i] = protocol
        columns.cm_cpid[i] = _cpid(buffer, at + _CPID_AT)
        columns.cm_timestamp[i] = two_octets(buffer, at + _TIMESTAMP_AT)
        columns.cm_unit[i] = buffer[at + _UNIT_AT] >> 4


@compiled
def _list(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    roles: NDArray[np.uint8],
    own: int,
    frames: NDArray[np.int64],
    removals: Removals,
) -> None:
    """Fill ``removals`` with all but the first tag of ``own`` in each frame; ``frames`` are their numbers."""
    count = 0
    for i in range(len(offset)):
        start, end = offset[i], offset[i] + captured[i]
        at, found = start + TYPE_AT, 0
        while at + 4 <= end:
            role = role_at(buffer, at, roles)
            control = two_octets(buffer, at + 2)
            octets = tag_octets(role, control)
            if role == OTHER or role > TAG or octets == 0 or at + octets > end:
                break
            if _replaced(role, control, own, at + octets - start, end - at - octets):
                if found > 0:
                    removals.frame[count] = frames[i]
                    removals.at[count] = at - start
                    removals.octets[count] = octets
                    count += 1
                found += 1
            at += octets
