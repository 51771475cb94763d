"""The tags of the mechanisms in every frame of a batch: where they stand, and where one goes.

A frame may carry several of a kind.  The newest counts, which is the outermost.  What counts as a tag agrees
with the functions for single frames: CM-Tags and RRT tags with `ecmproto.mechanisms.aimd.tags`, which look at
a frame's first 256 octets and take a tag for whole if only the EtherType behind it was cut off; RD tags with
`ecmproto.mechanisms.fecn.messages` and CN-TAGs with `ecmproto.mechanisms.qcn.tags`, which look at all of it
and want that EtherType too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import BCN, E2CM, ECM, FECN, fixed, roles_of
from ecmproto.batch.places import CN, NONE, Places, find, find_older
from ecmproto.batch.splice import Removals
from ecmproto.errors import ParameterError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameTags:
    """What ``tags_of`` found: one entry a frame in each array.  Places are octets from the frame's first."""

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
    1 BCN's RRT tag, 2 E²CM's CM-Tag, 3 FECN's RD tag; None: one that replaces none.  Arrays as in
    ``capture.Batch``: frames lie within the buffer.  ParameterError for another protocol.
    """
    count = len(offset)
    places = Places(*(np.empty(count, np.int32) for _ in Places._fields))
    find(fixed(buffer), fixed(offset), fixed(captured), roles_of(ethertypes), _own(protocol), places)
    return FrameTags(**places._asdict())


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
