"""Where tags stand in every frame of a batch, and where one goes: the walk behind `ecmproto.batch.tags`.

``own`` says which tags are replaced: the Protocol of experimental ones, `CN` for CN-TAGs, `NONE` for none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import (
    CN_TAG,
    FECN,
    HEADER_OCTETS,
    OTHER,
    TAG,
    TYPE_AT,
    protocol_of,
    role_at,
    tag_octets,
    two_octets,
)
from ecmproto.batch.splice import Removals
from ecmproto.kernel import compiled, inlined

NOWHERE = -1
NONE = -1
CN = 8

_SHOWN_OCTETS = 256
_TYPE_OCTETS = 2
_STACK_TAG_OCTETS = 4


class Places(NamedTuple):
    """Octets from each frame's first, NOWHERE for none; see `ecmproto.batch.tags.FrameTags`."""

    tag_at: NDArray[np.int32]
    old_at: NDArray[np.int32]
    old_octets: NDArray[np.int32]
    old_tags: NDArray[np.int32]
    cn_at: NDArray[np.int32]
    old_cn_at: NDArray[np.int32]
    cn_tags: NDArray[np.int32]


class Place(NamedTuple):
    """The same of one frame, as numbers."""

    tag_at: int
    old_at: int
    old_octets: int
    old_tags: int
    cn_at: int
    old_cn_at: int
    cn_tags: int


@compiled
def find(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    roles: NDArray[np.uint8],
    own: int,
    places: Places,
) -> None:
    """Fill ``places``."""
    # Each array by its own name: looking one up in the tuple costs as much as the walk.
    tag_at, old_at, old_octets, old_tags, cn_at, old_cn_at, cn_tags = places
    for i in range(len(offset)):
        place = place_of(buffer, offset[i], captured[i], roles, own)
        tag_at[i] = place.tag_at
        old_at[i] = place.old_at
        old_octets[i] = place.old_octets
        old_tags[i] = place.old_tags
        cn_at[i] = place.cn_at
        old_cn_at[i] = place.old_cn_at
        cn_tags[i] = place.cn_tags


@inlined
def place_of(buffer: NDArray[np.uint8], start: int, octets: int, roles: NDArray[np.uint8], own: int) -> Place:
    """Return where the tags of the frame at ``start`` with ``octets`` octets stand."""
    at = stack_end = cn_at = TYPE_AT
    old_at = old_cn_at = NOWHERE
    old_octets = old_tags = cn_tags = removed = 0
    in_stack, cut = True, False
    while at + _TYPE_OCTETS <= octets:
        role = role_at(buffer, start + at, roles)
        is_stack = OTHER < role < TAG
        # An RD tag wants the stack before it whole, the EtherType behind it too.
        whole = at + _STACK_TAG_OCTETS + _TYPE_OCTETS <= octets
        cut = cut or (own == FECN and in_stack and is_stack and not whole)
        if role == OTHER or role > TAG or at + 4 > octets:
            break
        control = two_octets(buffer, start + at + 2)
        length = tag_octets(buffer, start + at, start + octets, role, control)
        behind = at + length
        if length == 0 or behind > octets:
            break
        whole = behind + _TYPE_OCTETS <= octets
        if role == CN_TAG and whole:
            old_cn_at = at if cn_tags == 0 else old_cn_at
            cn_tags += 1
        elif role != TAG and whole:
            cn_at = behind
        if _is_replaced(role, control, own, behind, octets):
            if old_tags == 0:
                old_at, old_octets = at, length
            old_tags += 1
            removed += length
        elif in_stack:
            in_stack = is_stack and (own == FECN or behind - removed <= _SHOWN_OCTETS)
            stack_end = behind if in_stack else stack_end
        at = behind
    tag_at = NOWHERE if cut or octets - removed < HEADER_OCTETS else stack_end
    cn_at = NOWHERE if octets < HEADER_OCTETS else cn_at
    return Place(tag_at, old_at, old_octets, old_tags, cn_at, old_cn_at, cn_tags)


@inlined
def _counts(protocol: int, behind: int, octets: int) -> bool:
    """Whether an experimental tag counts that ends at ``behind`` in a frame of ``octets``."""
    return behind + _TYPE_OCTETS <= octets if protocol == FECN else behind <= _SHOWN_OCTETS


@inlined
def _is_replaced(role: int, control: int, own: int, behind: int, octets: int) -> bool:
    """Whether a tag of ``own`` replaces this one."""
    if role == CN_TAG:
        return own == CN and behind + _TYPE_OCTETS <= octets
    return role == TAG and protocol_of(control) == own and _counts(own, behind, octets)


@compiled
def find_older(
    buffer: NDArray[np.uint8],
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    roles: NDArray[np.uint8],
    own: int,
    frames: NDArray[np.int64],
    removals: Removals,
) -> None:
    """Fill ``removals`` with all but the first tag of ``own`` in each frame; ``frames`` are their numbers."""
    frame, place, length = removals
    count = 0
    for i in range(len(offset)):
        start, octets = offset[i], captured[i]
        at, found = TYPE_AT, 0
        while at + 4 <= octets:
            role = role_at(buffer, start + at, roles)
            control = two_octets(buffer, start + at + 2)
            behind = at + tag_octets(buffer, start + at, start + octets, role, control)
            if role == OTHER or role > TAG or behind == at or behind > octets:
                break
            if _is_replaced(role, control, own, behind, octets):
                if found > 0:
                    frame[count], place[count], length[count] = frames[i], at, behind - at
                    count += 1
                found += 1
            at = behind
