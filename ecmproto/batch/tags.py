"""Tags in every frame of a batch: where they stand, where one goes, and frames edited so, into a new buffer.

`tags_of` finds the mechanisms' tags, `own_tag` reads one of a single frame; `spliced_batch` takes octets out
of frames, puts others in and writes over them, as a `Splice` says.

A frame may carry several of a kind.  The newest counts, which is the outermost.  What counts as a tag agrees
with the functions for single frames: CM-Tags and RRT tags with `ecmproto.mechanisms.aimd.messages`, which
look at a frame's first 256 octets and take a tag for whole if only the EtherType behind it was cut off; RD
tags with `ecmproto.mechanisms.fecn.messages` and CN-TAGs with `ecmproto.mechanisms.qcn.edge`, which look at
all of it and want that EtherType too: `_is_replaced` is that rule.

Places are octets from a frame's first, in the frame as it came.  A tag goes in front of an EtherType: it is
inserted with the EtherType that announces it and without the one behind it, which stands there already; a tag
is taken out the same way.  Frames that a snap length cut stay cut: they grow by what is inserted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import (
    BCN,
    CN_TAG,
    E2CM,
    ECM,
    FECN,
    HEADER_OCTETS,
    OTHER,
    TAG,
    TYPE_AT,
    fixed,
    protocol_of,
    role_at,
    roles_of,
    signed,
    tag_octets,
    two_octets,
)
from ecmproto.capture.batch import Batch
from ecmproto.errors import ParameterError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.kernel import compiled, inlined

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
NONE = -1
CN = 8
"""Which tags are replaced or read, besides the Protocols of experimental ones: none, and CN-TAGs."""

_SHOWN_OCTETS = 256
_TYPE_OCTETS = 2
_CN_TAG_OCTETS = 4
_STACK_TAG_OCTETS = 4
_CPID_AT, _TIMESTAMP_AT, _UNIT_AT = 4, 12, 14
_RLQ_ID_AT, RATE_AT = 4, 6
"""Octets from a tag's EtherType to its fields (wire-formats 2, 4, 5, 7)."""

_UNIT_SHIFT = 16
_CPID_OCTETS = 8


class FrameTags(NamedTuple):
    """The result of ``tags_of``: one entry a frame in each array.  Offsets are in octets from its first."""

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


class TagOffsets(NamedTuple):
    """The same of one frame, as numbers."""

    tag_at: int
    old_at: int
    old_octets: int
    old_tags: int
    cn_at: int
    old_cn_at: int
    cn_tags: int


class OwnTag(NamedTuple):
    """Whether a frame has such a tag, and its tag and mark (`ecmproto.mechanisms.api.protocol.Arrival`).

    ``rate_at`` is where the Rate of an RD tag stands, in octets from the frame's first; −1 without one.
    """

    tagged: bool
    tag: int
    mark: int
    rate_at: int


def tags_of(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
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
    tags = FrameTags(*(np.empty(count, np.int32) for _ in FrameTags._fields))
    _find_tags(fixed(buffer), fixed(offset), fixed(captured), roles_of(ethertypes), _own(protocol), tags)
    return tags


def older_tags(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    tags: FrameTags,
    *,
    protocol: int,
    ethertypes: EtherTypes = DEFAULT,
) -> Removals:
    """Return where all tags stand that one of ``protocol`` replaces besides those at ``tags.old_at``."""
    return _others(buffer, offset, captured, tags.old_tags, _own(protocol), ethertypes)


def older_cn_tags(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
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
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    tags: NDArray[np.int32],
    own: int,
    ethertypes: EtherTypes,
) -> Removals:
    frames = np.flatnonzero(tags > 1).astype(np.int64)
    count = int((tags[frames] - 1).sum())
    removals = Removals(*(np.empty(count, np.int64) for _ in range(3)))
    if count:
        _find_older(
            fixed(buffer), fixed(offset[frames]), fixed(captured[frames]), roles_of(ethertypes), own,
            fixed(frames), removals,
        )  # fmt: skip
    return removals


@compiled
def _find_tags(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    roles: Octets,
    own: int,
    tags: FrameTags,
) -> None:
    """Fill ``tags``; ``own`` says which tags are replaced: a Protocol, `CN` for CN-TAGs, `NONE` for none."""
    # Each array by its own name: looking one up in the tuple costs as much as the walk.
    tag_at, old_at, old_octets, old_tags, cn_at, old_cn_at, cn_tags = tags
    for i in range(len(offset)):
        found = tag_offsets(buffer, offset[i], captured[i], roles, own)
        tag_at[i] = found.tag_at
        old_at[i] = found.old_at
        old_octets[i] = found.old_octets
        old_tags[i] = found.old_tags
        cn_at[i] = found.cn_at
        old_cn_at[i] = found.old_cn_at
        cn_tags[i] = found.cn_tags


@inlined
def tag_offsets(buffer: Octets, start: int, octets: int, roles: Octets, own: int) -> TagOffsets:
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
    return TagOffsets(tag_at, old_at, old_octets, old_tags, cn_at, old_cn_at, cn_tags)


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
def _find_older(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    roles: Octets,
    own: int,
    frames: Int64,
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


@compiled
def own_tag(buffer: Octets, start: int, octets: int, roles: Octets, protocol: int) -> OwnTag:
    """Return the newest tag of ``protocol`` in the frame at ``start`` with ``octets`` octets.

    0 is ECM's CM-Tag, 1 BCN's RRT tag, 2 E²CM's CM-Tag, 3 FECN's RD tag; ``roles`` are those of
    `ecmproto.batch.headers.roles_of`.
    """
    newest = tag_offsets(buffer, start, octets, roles, protocol).old_at
    if newest == NOWHERE:
        return OwnTag(False, 0, 0, NOWHERE)
    at = start + newest
    if protocol == FECN:
        return OwnTag(
            True, _rate(buffer, at + RATE_AT), two_octets(buffer, at + _RLQ_ID_AT), newest + RATE_AT
        )
    mark = 0
    if protocol != BCN:
        mark = signed(buffer[at + _UNIT_AT]) >> 4 << _UNIT_SHIFT | two_octets(buffer, at + _TIMESTAMP_AT)
    return OwnTag(True, _cpid(buffer, at + _CPID_AT), mark, NOWHERE)


@inlined
def _cpid(buffer: Octets, start: int) -> int:
    """Return the CPID at ``start`` as `ecmproto.mechanisms.api.protocol` has it."""
    # The first octet has the sign, so that no number has more than 64 bits, as plain Python's would.
    cpid = signed(buffer[start]) - ((signed(buffer[start]) & 0x80) << 1)
    for octet in range(start + 1, start + _CPID_OCTETS):
        cpid = (cpid << 8) | signed(buffer[octet])
    return cpid


@inlined
def _rate(buffer: Octets, start: int) -> int:
    """Return the Rate at ``start``, in kb/s."""
    return (two_octets(buffer, start) << 16) | two_octets(buffer, start + 2)


class Removals(NamedTuple):
    """Octets to take out, one stretch an entry: sorted by frame, then by place, none overlapping another."""

    frame: Int64
    """Position in the batch."""
    at: Int64
    octets: Int64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splice:
    """The edits of each frame of a batch; one entry a frame in each array.

    Where ``at`` is −1 nothing is inserted.  ``removed`` octets are taken out at ``removed_at`` (None: at
    ``at``; −1: none), and besides those what ``more`` says, which stands behind them.  Where ``written_at``
    is not −1, a row of ``written`` replaces what stands from there on; what of that is taken out or beyond
    the frame's end is left out.
    """

    at: NDArray[np.integer]
    inserted: Octets
    """A row of octets a frame."""
    removed: NDArray[np.integer] | None = None
    removed_at: NDArray[np.integer] | None = None
    more: Removals | None = None
    written_at: NDArray[np.integer] | None = None
    written: Octets | None = None
    """A row of octets a frame."""


def tag_splice(
    batch: Batch,
    tags: Octets,
    *,
    protocol: int | None,
    only: NDArray[np.bool_] | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Splice:
    """Return what puts ``tags``, a row of octets a frame, into the frames of a batch.

    Each takes the place of the tags of its kind that are there.  ``protocol`` is as in `tags_of`; None: they
    are CN-TAGs.  ``only`` says which frames get one (None: all); one whose header was cut off there gets
    none.  The rows end with the EtherType of what follows, which stays the one that is there.
    """
    where = (batch.buffer, batch.offset, batch.captured)
    found = tags_of(*where, protocol=protocol, ethertypes=ethertypes)
    if protocol is None:
        at, old_at, announced = found.cn_at, found.old_cn_at, ethertypes.cn_tag
        old_octets = np.full(len(batch), _CN_TAG_OCTETS)
        more = older_cn_tags(*where, found, ethertypes=ethertypes)
    else:
        at, old_at, announced = found.tag_at, found.old_at, ethertypes.tag
        old_octets = found.old_octets
        more = older_tags(*where, found, protocol=protocol, ethertypes=ethertypes)
    changed = at != NOWHERE if only is None else only & (at != NOWHERE)
    kept = changed[more.frame]
    types = np.full(len(tags), announced, ">u2").view(np.uint8).reshape(-1, _TYPE_OCTETS)
    return Splice(
        at=np.where(changed, at, NOWHERE),
        # Put in front of an EtherType, that one stands behind the tag.
        inserted=np.concatenate([types, tags[:, :-_TYPE_OCTETS]], axis=1),
        removed=np.where(changed & (old_at != NOWHERE), old_octets, 0),
        removed_at=np.where(changed, old_at, NOWHERE),
        more=Removals(*(column[kept] for column in more)),
    )


class _Edits(NamedTuple):
    """A splice with all its arrays, as kernels take it."""

    at: Int64
    inserted: Octets
    removed_at: Int64
    removed: Int64
    more: Removals
    written_at: Int64
    written: Octets


def spliced(buffer: Octets, offset: Int64, captured: Int64, splice: Splice) -> tuple[Octets, Int64, Int64]:
    """Return the frames at ``offset`` in ``buffer``, ``captured`` octets each, as ``splice`` has them.

    Their buffer is new and holds them one behind the other; then their offsets and captured octets.
    ParameterError for a place outside its frame.
    """
    edits = _edits(splice, captured)
    grown = np.where(edits.at >= 0, np.int64(edits.inserted.shape[1]), np.int64(0)) - edits.removed
    np.subtract.at(grown, edits.more.frame, edits.more.octets)
    octets = captured + grown
    ends = np.cumsum(octets)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    _copy(fixed(buffer), fixed(offset), fixed(captured), edits, out)
    out.flags.writeable = False
    return out, ends - octets, octets


def spliced_batch(batch: Batch, splice: Splice) -> Batch:
    """Return ``batch`` as ``splice`` has it; its frames' lengths on the wire change as their octets do.

    It has the numbers, times and interfaces of ``batch``, but no records of a file.
    """
    buffer, offset, captured = spliced(batch.buffer, batch.offset, batch.captured, splice)
    return dataclasses.replace(
        batch,
        buffer=buffer,
        offset=offset,
        captured=captured,
        original=batch.original + (captured - batch.captured),
        record_offset=offset,
        record_length=captured,
        records=None,
    )


def _edits(splice: Splice, captured: Int64) -> _Edits:
    count = len(captured)
    at = _column("at", splice.at, count)
    removed_at = at if splice.removed_at is None else _column("removed_at", splice.removed_at, count)
    removed = _column("removed", 0 if splice.removed is None else splice.removed, count)
    removed = np.where(removed_at == NOWHERE, 0, removed)
    written_at = _column("written_at", NOWHERE if splice.written_at is None else splice.written_at, count)
    for name, places in (("at", at), ("removed_at", removed_at), ("written_at", written_at)):
        _check(name, places, NOWHERE, captured)
    _check("removed", removed, 0, captured - np.maximum(removed_at, 0))
    free = np.where(removed > 0, removed_at + removed, 0)
    return _Edits(
        at=fixed(at),
        inserted=_rows("inserted", splice.inserted, count),
        removed_at=fixed(removed_at),
        removed=fixed(removed),
        more=_more(splice.more, free, captured),
        written_at=fixed(written_at),
        written=_rows("written", np.zeros((count, 0)) if splice.written is None else splice.written, count),
    )


def _column(name: str, values: object, count: int) -> Int64:
    array = np.asarray(values, dtype=np.int64)
    if array.ndim == 0:
        return np.full(count, array)
    if array.shape != (count,):
        raise ParameterError(name=name, needed=f"{count} values", got=f"an array of shape {array.shape}")
    return array


def _rows(name: str, octets: object, count: int) -> Octets:
    rows = np.asarray(octets, dtype=np.uint8)
    if rows.ndim != 2 or len(rows) != count:
        raise ParameterError(name=name, needed=f"{count} rows", got=f"an array of shape {rows.shape}")
    return fixed(rows)


def _check(name: str, values: Int64, least: int, most: Int64) -> None:
    """Raise for the first of ``values`` that is not in ``least`` to its frame's ``most``."""
    wrong = (values < least) | (values > most)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ParameterError(
            name=f"{name} of frame {row}", needed=f"{least} to {int(most[row])}", got=str(int(values[row]))
        )


def _more(more: Removals | None, free: Int64, captured: Int64) -> Removals:
    """Return ``more`` checked: from ``free`` on in each frame, and in order."""
    if more is None:
        none = fixed(np.zeros(0, np.int64))
        return Removals(none, none, none)
    frame, at, octets = (np.asarray(column, np.int64) for column in more)
    if not len(frame) == len(at) == len(octets) or not _is_sound(frame, at, octets, free, captured):
        raise ParameterError(
            name="more", needed="stretches within their frames, in order, none overlapping", got="others"
        )
    return Removals(fixed(frame), fixed(at), fixed(octets))


def _is_sound(frame: Int64, at: Int64, octets: Int64, free: Int64, captured: Int64) -> bool:
    if not ((frame >= 0) & (frame < len(captured))).all():
        return False
    within = (at >= free[frame]) & (at <= captured[frame]) & (octets >= 0) & (octets <= captured[frame] - at)
    if not within.all():
        return False
    behind = at[1:] >= at[:-1] + octets[:-1]
    return bool(((frame[1:] > frame[:-1]) | ((frame[1:] == frame[:-1]) & behind)).all())


@compiled
def _copy(buffer: Octets, offset: Int64, captured: Int64, edits: _Edits, out: Octets) -> None:
    # Each array by its own name: looking one up in the tuple costs as much as the copy.
    at, inserted, removed_at, removed, more, written_at, written = edits
    more_frame, more_at, more_octets = more
    end = next_more = 0
    for i in range(len(offset)):
        piece, row_at = 0, at[i]
        row, over = inserted[i], written[i]
        is_first, is_last = removed[i] > 0, False
        while not is_last:
            # Up to what is taken out next, or to the frame's end.
            if is_first:
                stop, behind = removed_at[i], removed_at[i] + removed[i]
                is_first = False
            elif next_more < len(more_frame) and more_frame[next_more] == i:
                stop, behind = more_at[next_more], more_at[next_more] + more_octets[next_more]
                next_more += 1
            else:
                stop = behind = captured[i]
                is_last = True
            end, row_at = _put(buffer, offset[i], piece, stop, row_at, row, written_at[i], over, out, end)
            piece = behind


@inlined
def _put(
    buffer: Octets,
    start: int,
    piece: int,
    stop: int,
    row_at: int,
    row: Octets,
    written_at: int,
    written: Octets,
    out: Octets,
    end: int,
) -> tuple[int, int]:
    """Put octets ``piece`` to ``stop`` of a frame to ``end`` of ``out``, and ``row`` if it goes among them.

    Returns the new end, and ``row_at``: −1 once the row has been put.
    """
    if 0 <= row_at <= stop:
        # It may lie in what was taken out before.
        at = max(row_at, piece)
        end = _put_octets(buffer, start, piece, at, written_at, written, out, end)
        target = out[end : end + len(row)]
        for octet in range(len(target)):
            target[octet] = row[octet]
        end += len(row)
        piece, row_at = at, NOWHERE
    return _put_octets(buffer, start, piece, stop, written_at, written, out, end), row_at


@inlined
def _put_octets(
    buffer: Octets,
    start: int,
    piece: int,
    stop: int,
    written_at: int,
    written: Octets,
    out: Octets,
    end: int,
) -> int:
    source, target = buffer[start + piece : start + stop], out[end : end + stop - piece]
    for octet in range(len(source)):
        target[octet] = source[octet]
    if written_at >= 0:
        for octet in range(max(written_at, piece), min(written_at + len(written), stop)):
            out[end + octet - piece] = written[octet - written_at]
    return end + len(source)
