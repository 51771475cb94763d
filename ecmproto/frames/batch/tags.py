"""Tags in all frames of a batch: offsets, insertion, removal and changes.

`tags_of` finds the tags of one type (`codec.tags.TagFormat`). `own_tag` reads the newest tag of a single
frame, and `with_tag_values` overwrites this tag. `spliced_batch` removes, inserts and overwrites octets
according to a `Splice`. The rules for tags are in `ecmproto.wire.codec.tags`.

Kernels use a record for the tag type, a `TagLayout`, so that the same code handles all tags. Offsets are
octets from the start of the frame before the edit. A tag is inserted with its own EtherType in front of the
existing EtherType, and is removed in the same way. A truncated frame stays truncated, and an insertion makes
the frame longer.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.batch.headers import TYPE_AT, ecn_at, fixed, signed, two_octets, write_ecn
from ecmproto.frames.batch.packets import packet_at, role_at, tag_octets
from ecmproto.frames.batch.parse_tables import CN_TAG, IP4, IP6, VLAN_TAG, ParseTables, parse_tables
from ecmproto.frames.capture.batch import Batch
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record
from ecmproto.values import dataclass
from ecmproto.wire.codec.tags import NO_IP_HEADER, ECNField, TagFormat
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
_TYPE_OCTETS = 2
_WORD_BITS = 64
_MAX_FIELDS = 4


class TagLayout:
    """A tag type for kernels. This class declares a record. If ``octets`` is 0, no tag has the type."""

    ethertype: int
    is_cn: int
    """1 for CN-TAGs, which are inserted before other tags."""
    is_ecn: int
    """1 for the ECN field of IP headers. All other fields are then unused."""
    octets: int
    """Length of the tag in octets, including its EtherType."""
    mask: int
    selected: int
    """Value of the two octets after the EtherType, under ``mask``, in tags of this type."""
    tag_bit: Annotated[NDArray[np.int64], _MAX_FIELDS]
    tag_bits: Annotated[NDArray[np.int64], _MAX_FIELDS]
    mark_bit: Annotated[NDArray[np.int64], _MAX_FIELDS]
    mark_bits: Annotated[NDArray[np.int64], _MAX_FIELDS]
    """Position of the tag fields and the mark fields: first bit relative to the EtherType, and number of
    bits.

    The most significant field is first. Unused fields have 0 bits.
    """


def tag_layout(kind: TagFormat | ECNField | None, ethertypes: EtherTypes = DEFAULT) -> TagLayout:
    """Return a tag type in the form for kernels.

    Raises ParameterError if no EtherType announces the tag, or if the tag or the mark has more than four
    fields.
    """
    layout = new_record(TagLayout)
    if kind is None or (isinstance(kind, TagFormat) and kind.is_off(ethertypes)):
        return layout
    if isinstance(kind, ECNField):
        layout.is_ecn = 1
        return layout
    layout.ethertype, layout.octets = kind.announcing(ethertypes), kind.octets
    layout.is_cn = int(layout.ethertype == ethertypes.cn_tag)
    layout.mask, layout.selected = kind.selector
    for names, bit, bits in (
        (kind.tag_fields, layout.tag_bit, layout.tag_bits),
        (kind.mark, layout.mark_bit, layout.mark_bits),
    ):
        if len(names) > _MAX_FIELDS:
            raise ParameterError(name="mark", needed=f"at most {_MAX_FIELDS} fields", got=", ".join(names))
        for index, position in enumerate(kind.bit_ranges(names)):
            bit[index], bits[index] = position
    return layout


class FrameTags(NamedTuple):
    """The result of ``tags_of``, with one entry per frame in each array.

    Offsets are octets from the start of the frame.
    """

    tag_at: NDArray[np.int32]
    """Offset of the EtherType before which a new tag is inserted, NOWHERE for a truncated header."""
    old_at: NDArray[np.int32]
    """Offset of the newest tag that a new tag replaces, or NOWHERE without such a tag."""
    old_tags: NDArray[np.int32]
    """Number of tags that a new tag replaces. `older_tags` returns all of these tags except the first."""


class TagOffsets(NamedTuple):
    """The tag offsets of one frame, as numbers."""

    tag_at: int
    old_at: int
    old_tags: int


class OwnTag(NamedTuple):
    """The newest tag of a frame: whether the tag exists, its tag value and its mark
    (`mechanisms.api.protocol.Arrival`).

    ``at`` is the offset of the tag's EtherType in the frame, or NOWHERE without a tag. For an ECN field,
    ``at`` is the offset of the EtherType of IP.
    """

    tagged: bool
    tag: int
    mark: int
    at: int


def tags_of(
    buffer: Octets, offset: Int64, captured: Int64, kind: TagFormat, *, ethertypes: EtherTypes = DEFAULT
) -> FrameTags:
    """Find the tags of type ``kind`` in the Ethernet frames at ``offset`` with ``captured`` octets each.

    The arrays have the layout of ``capture.Batch``, and all frames must lie within the buffer.
    """
    count = len(offset)
    tags = FrameTags(*(np.empty(count, np.int32) for _ in FrameTags._fields))
    tables, layout = parse_tables(ethertypes), tag_layout(kind, ethertypes)
    _find_tags(fixed(buffer), fixed(offset), fixed(captured), tables, layout, tags)
    return tags


def older_tags(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    tags: FrameTags,
    kind: TagFormat,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> Removals:
    """Return the offsets of all tags of type ``kind`` except ``tags.old_at``."""
    frames = np.flatnonzero(tags.old_tags > 1).astype(np.int64)
    count = int((tags.old_tags[frames] - 1).sum())
    removals = Removals(*(np.empty(count, np.int64) for _ in range(3)))
    if count:
        tables, layout = parse_tables(ethertypes), tag_layout(kind, ethertypes)
        _find_older(
            fixed(buffer), fixed(offset[frames]), fixed(captured[frames]), tables, layout, fixed(frames),
            removals,
        )  # fmt: skip
    return removals


@compiled
def _find_tags(
    buffer: Octets, offset: Int64, captured: Int64, tables: ParseTables, layout: TagLayout, tags: FrameTags
) -> None:
    # Unpack the arrays, because a lookup in the tuple would take as long as the walk.
    tag_at, old_at, old_tags = tags
    for i in range(len(offset)):
        result = tag_offsets(buffer, offset[i], captured[i], tables, layout)
        tag_at[i] = result.tag_at
        old_at[i] = result.old_at
        old_tags[i] = result.old_tags


@inlined
def tag_offsets(
    buffer: Octets, start: int, octets: int, tables: ParseTables, layout: TagLayout
) -> TagOffsets:
    """Return the tag offsets of the frame at ``start`` with ``octets`` octets."""
    at = tag_at = TYPE_AT
    old_at, old_tags = NOWHERE, 0
    cut = in_stack = True
    last_before = VLAN_TAG if layout.is_cn != 0 else CN_TAG
    while at + _TYPE_OCTETS <= octets:
        role = role_at(buffer, start + at, tables)
        length = tag_octets(buffer, start + at, start + octets, tables)
        end = at + length
        if length == 0 or end > octets:
            cut = role >= VLAN_TAG and (length > 0 or at + 4 > octets)
            break
        if _is_of(buffer, start + at, layout):
            old_at = at if old_tags == 0 else old_at
            old_tags += 1
        else:
            in_stack = in_stack and role <= last_before
            tag_at = end if in_stack else tag_at
        at = end
    return TagOffsets(NOWHERE if cut else tag_at, old_at, old_tags)


@inlined
def _is_of(buffer: Octets, at: int, layout: TagLayout) -> bool:
    """Return whether the tag at ``at`` has the tag type."""
    is_selected = two_octets(buffer, at + 2) & layout.mask == layout.selected
    return is_selected and two_octets(buffer, at) == layout.ethertype and layout.octets != 0


@compiled
def _find_older(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    tables: ParseTables,
    layout: TagLayout,
    frames: Int64,
    removals: Removals,
) -> None:
    """Fill ``removals`` with all tags of the type except the first, for the frames ``frames``."""
    frame, first, length = removals
    count = 0
    for i in range(len(offset)):
        start, octets = offset[i], captured[i]
        at, result = TYPE_AT, 0
        after = at + tag_octets(buffer, start + at, start + octets, tables)
        while at < after <= octets:
            if _is_of(buffer, start + at, layout):
                if result > 0:
                    frame[count], first[count], length[count] = frames[i], at, after - at
                    count += 1
                result += 1
            at = after
            after += tag_octets(buffer, start + at, start + octets, tables)


@compiled
def own_tag(buffer: Octets, start: int, octets: int, tables: ParseTables, layout: TagLayout) -> OwnTag:
    """Return the newest tag of a type in the frame at ``start`` with ``octets`` octets.

    ``tables`` is the result of `ecmproto.frames.batch.parse_tables.parse_tables`.
    """
    if layout.is_ecn != 0:
        packet = packet_at(buffer, start, start + octets, start + octets, tables)
        if packet.kind != IP4 and packet.kind != IP6:
            return OwnTag(False, 0, NO_IP_HEADER, NOWHERE)
        return OwnTag(True, ecn_at(buffer, packet.network), 0, packet.network - _TYPE_OCTETS - start)
    if layout.octets == 0:
        return OwnTag(False, 0, 0, NOWHERE)
    newest = _newest(buffer, start, octets, tables, layout)
    if newest == NOWHERE:
        return OwnTag(False, 0, 0, NOWHERE)
    at = start + newest
    tag = _number_at(buffer, at, layout.tag_bit, layout.tag_bits)
    return OwnTag(True, tag, _number_at(buffer, at, layout.mark_bit, layout.mark_bits), newest)


@inlined
def _newest(buffer: Octets, start: int, octets: int, tables: ParseTables, layout: TagLayout) -> int:
    """Return the offset of the outermost tag of a type. The octets after the tag are not checked."""
    at = TYPE_AT
    length = tag_octets(buffer, start + at, start + octets, tables)
    while 0 < length <= octets - at:
        if _is_of(buffer, start + at, layout):
            return at
        at += length
        length = tag_octets(buffer, start + at, start + octets, tables)
    return NOWHERE


@inlined
def _number_at(buffer: Octets, at: int, bit: Int64, bits: Int64) -> int:
    """Return the number in several fields, most significant field first. A 64-bit number is signed."""
    number = 0
    for i in range(_MAX_FIELDS):
        if bits[i] == 0:
            break
        first, last = at + (bit[i] >> 3), at + ((bit[i] + bits[i] - 1) >> 3)
        part = signed(buffer[first])
        if bits[i] == _WORD_BITS:
            # The first octet contains the sign, so numbers in plain Python also stay within 64 bits.
            part -= (part & 0x80) << 1
        for octet in range(first + 1, last + 1):
            part = (part << 8) | signed(buffer[octet])
        if bits[i] != _WORD_BITS:
            part = (part >> (8 * (last - at + 1) - bit[i] - bits[i])) & ((1 << bits[i]) - 1)
        number = part if i == 0 else (number << bits[i]) | part
    return number


@inlined
def write_tag(buffer: Octets, at: int, layout: TagLayout, tag: int) -> None:
    """Write ``tag`` into the tag whose EtherType is at ``at``, or into the ECN field of that IP header."""
    if layout.is_ecn != 0:
        write_ecn(buffer, at + _TYPE_OCTETS, tag)
        return
    write_number(buffer, at, layout.tag_bit, layout.tag_bits, tag)


@compiled
def write_number(buffer: Octets, at: int, bit: Int64, bits: Int64, number: int) -> None:
    """Write ``number`` into several fields of the tag at ``at``, most significant field first."""
    for i in range(_MAX_FIELDS - 1, -1, -1):
        count, bit_offset = bits[i], 0
        while bit_offset < count:
            # The least significant bits are the last bits of the field.
            end = bit[i] + count - bit_offset
            octet = at + ((end - 1) >> 3)
            if end & 7 == 0 and count - bit_offset >= 8:
                buffer[octet] = (number >> bit_offset) & 0xFF
                bit_offset += 8
                continue
            mask, old = 0x80 >> ((end - 1) & 7), signed(buffer[octet])
            buffer[octet] = old | mask if (number >> bit_offset) & 1 else old & ~mask & 0xFF
            bit_offset += 1
        number >>= count


def with_tag_values(
    batch: Batch,
    position: Int64,
    tag: Int64,
    kind: TagFormat | ECNField,
    *,
    ethertypes: EtherTypes = DEFAULT,
) -> Batch:
    """Return ``batch`` with new values in the newest tags of type ``kind`` of the frames at ``position``.

    ``tag`` contains the values in the encoding of the mechanisms. A frame without such a tag does not change.
    """
    # Copy only the records of the batch, because the buffer may contain the whole file.
    low = int(batch.record_offset.min())
    buffer = batch.buffer[low : int((batch.record_offset + batch.record_length).max())].copy()
    offset = batch.offset - low
    _write_tags(
        buffer, fixed(offset[position]), fixed(batch.captured[position]), fixed(tag),
        parse_tables(ethertypes), tag_layout(kind, ethertypes),
    )  # fmt: skip
    buffer.flags.writeable = False
    return dataclasses.replace(batch, buffer=buffer, offset=offset, record_offset=batch.record_offset - low)


@compiled
def _write_tags(
    buffer: Octets, offset: Int64, captured: Int64, tag: Int64, tables: ParseTables, layout: TagLayout
) -> None:
    for i in range(len(offset)):
        result = own_tag(buffer, offset[i], captured[i], tables, layout)
        if result.tagged:
            write_tag(buffer, offset[i] + result.at, layout, tag[i])


class Removals(NamedTuple):
    """Octets to remove, with one range per entry.

    The ranges are sorted by frame and offset and do not overlap.
    """

    frame: Int64
    """Position of the frame in the batch."""
    at: Int64
    octets: Int64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splice:
    """The edits of each frame of a batch, with one entry per frame in each array.

    ``inserted`` is inserted at ``at``, unless ``at`` is −1. Then ``removed`` octets are removed at
    ``removed_at``. ``None`` means ``at``, and −1 means no removal. Then the octets in ``more``, which follow
    the removed octets, are removed. If ``written_at`` is not −1, a row of ``written`` replaces the octets
    from this offset on. Removed octets and octets after the end of the frame are not written.
    """

    at: NDArray[np.integer]
    inserted: Octets
    """Octets to insert, with one row per frame."""
    removed: NDArray[np.integer] | None = None
    removed_at: NDArray[np.integer] | None = None
    more: Removals | None = None
    written_at: NDArray[np.integer] | None = None
    written: Octets | None = None
    """Octets to write, with one row per frame."""


def tag_splice(
    batch: Batch,
    tags: Octets,
    kind: TagFormat,
    *,
    only: NDArray[np.bool_] | None = None,
    outermost: bool = False,
    ethertypes: EtherTypes = DEFAULT,
) -> Splice:
    """Return the splice that inserts ``tags`` into the frames of a batch.

    ``tags`` has one row of octets per frame.

    A new tag replaces the tags of type ``kind`` in its frame. With ``outermost``, the new tag is inserted
    before all tags instead. ``only`` is a mask of frames, and ``None`` selects all frames. A frame whose
    header is truncated at the offset gets no tag. Each row ends with the EtherType of the next header, which
    does not change.
    """
    only = np.ones(len(batch), np.bool_) if only is None else only
    types = np.full(len(tags), kind.announcing(ethertypes), ">u2").view(np.uint8).reshape(-1, _TYPE_OCTETS)
    # The tag is inserted before an EtherType, which then follows the tag.
    inserted = np.concatenate([types, tags[:, :-_TYPE_OCTETS]], axis=1)
    if outermost:
        changed = only & (batch.captured >= TYPE_AT + _TYPE_OCTETS)
        return Splice(at=np.where(changed, TYPE_AT, NOWHERE), inserted=inserted)
    located = tags_of(batch.buffer, batch.offset, batch.captured, kind, ethertypes=ethertypes)
    changed = only & (located.tag_at != NOWHERE)
    removal = _removal(batch, located, kind, changed, ethertypes)
    return dataclasses.replace(removal, at=np.where(changed, located.tag_at, NOWHERE), inserted=inserted)


def without_tags(
    batch: Batch,
    kind: TagFormat,
    *,
    only: NDArray[np.bool_] | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> tuple[Batch, int]:
    """Return ``batch`` without the tags of type ``kind``, and the number of frames that had such tags.

    ``only`` is a mask of frames, and ``None`` selects all frames.
    """
    located = tags_of(batch.buffer, batch.offset, batch.captured, kind, ethertypes=ethertypes)
    changed = located.old_tags > 0 if only is None else only & (located.old_tags > 0)
    if not changed.any():
        return batch, 0
    return spliced_batch(batch, _removal(batch, located, kind, changed, ethertypes)), int(changed.sum())


def _removal(
    batch: Batch, tags: FrameTags, kind: TagFormat, changed: NDArray[np.bool_], ethertypes: EtherTypes
) -> Splice:
    """Return the splice that removes the tags of type ``kind`` from the frames in the mask ``changed``."""
    where = (batch.buffer, batch.offset, batch.captured)
    more = older_tags(*where, tags, kind, ethertypes=ethertypes)
    remaining = changed[more.frame]
    return Splice(
        at=np.full(len(batch), NOWHERE),
        inserted=np.zeros((len(batch), 0), np.uint8),
        removed=np.where(changed & (tags.old_at != NOWHERE), kind.octets, 0),
        removed_at=np.where(changed, tags.old_at, NOWHERE),
        more=Removals(*(column[remaining] for column in more)),
    )


class _Edits(NamedTuple):
    """A splice with all arrays, for kernels."""

    at: Int64
    inserted: Octets
    removed_at: Int64
    removed: Int64
    more: Removals
    written_at: Int64
    written: Octets


def spliced(buffer: Octets, offset: Int64, captured: Int64, splice: Splice) -> tuple[Octets, Int64, Int64]:
    """Return the frames at ``offset`` in ``buffer`` with ``captured`` octets each, edited by ``splice``.

    The result is a new buffer with consecutive frames, their offsets and their captured octets. Raises
    ParameterError for an offset outside its frame.
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
    """Return ``batch`` edited by ``splice``. The lengths on the wire change by the same number of octets.

    The result has the numbers, times and interfaces of ``batch``, but no file records.
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
    for name, offsets in (("at", at), ("removed_at", removed_at), ("written_at", written_at)):
        _check(name, offsets, NOWHERE, captured)
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


def _check(name: str, values: Int64, minimum: int, maximum: Int64) -> None:
    """Raise ParameterError for the first value outside ``minimum`` to the frame's ``maximum``."""
    wrong = (values < minimum) | (values > maximum)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ParameterError(
            name=f"{name} of frame {row}",
            needed=f"{minimum} to {int(maximum[row])}",
            got=str(int(values[row])),
        )


def _more(more: Removals | None, free: Int64, captured: Int64) -> Removals:
    """Return ``more`` after a check: all ranges must be in order and at or after ``free`` in their frame."""
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
    is_after = at[1:] >= at[:-1] + octets[:-1]
    return bool(((frame[1:] > frame[:-1]) | ((frame[1:] == frame[:-1]) & is_after)).all())


@compiled
def _copy(buffer: Octets, offset: Int64, captured: Int64, edits: _Edits, out: Octets) -> None:
    # Unpack the arrays, because a lookup in the tuple would take as long as the copy.
    at, inserted, removed_at, removed, more, written_at, written = edits
    more_frame, more_at, more_octets = more
    end = next_more = 0
    for i in range(len(offset)):
        piece, row_at = 0, at[i]
        row, over = inserted[i], written[i]
        is_first, is_last = removed[i] > 0, False
        while not is_last:
            # Copy up to the next removed octets, or up to the end of the frame.
            if is_first:
                stop, resume = removed_at[i], removed_at[i] + removed[i]
                is_first = False
            elif next_more < len(more_frame) and more_frame[next_more] == i:
                stop, resume = more_at[next_more], more_at[next_more] + more_octets[next_more]
                next_more += 1
            else:
                stop = resume = captured[i]
                is_last = True
            end, row_at = _put(buffer, offset[i], piece, stop, row_at, row, written_at[i], over, out, end)
            piece = resume


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
    """Copy octets ``piece`` to ``stop`` of a frame to ``out`` from ``end`` on, and insert ``row`` if its
    offset is in this range.

    Return the new end and the new ``row_at``, which is −1 after ``row`` was inserted.
    """
    if 0 <= row_at <= stop:
        # The offset may be within octets that were already removed.
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
