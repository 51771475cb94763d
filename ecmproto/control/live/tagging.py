"""Insertion of tags into frames of a live device, and removal of tags, in place.

A device may have a VLAN tag for untagged frames. The reaction point inserts a mechanism's tags, and the edge
removes these tags. Insertion and removal move the octets before the tag. The buffer has free octets before
each frame (`capture.linux.receiver.HEADROOM_OCTETS`), so the start of a frame can move.
`ecmproto.wire.codec.tags` has the rules for complete tags, for several tags, and for the position of a new
tag.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.errors import ParameterError
from ecmproto.frames.batch.headers import HEADER_OCTETS, TYPE_AT, signed, two_octets
from ecmproto.frames.batch.packets import NO_VLAN, role_at, tag_octets
from ecmproto.frames.batch.parse_tables import VLAN_TAG, ParseTables, parse_tables
from ecmproto.frames.batch.tags import (
    NOWHERE,
    TagLayout,
    own_tag,
    tag_layout,
    tag_offsets,
    write_number,
    write_tag,
)
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.codec.tags import TagFormat

VLAN_OCTETS = 4
NO_OFFSET = -(1 << 16)
"""The result for a frame whose header is truncated before the position of the tag."""
_TYPE_OCTETS = 2
_IDENTIFIER_BITS = 0xFFF


class TaggingFacts:
    """The EtherTypes of VLAN tags, and the device's own VLAN tag; a record."""

    c_tag: int
    s_tag: int
    old_s_tag: int
    vlan: int
    """The control information of the device's C-TAG, or NO_VLAN without a C-TAG."""
    tag: int
    mark: int
    """The value of the mark in ``row``; ``tag`` is the value of the tag in ``row``."""


class Tagging(Struct):
    """The tags that a device inserts and removes."""

    facts: TaggingFacts
    tables: ParseTables
    layout: TagLayout
    """The layout of the mechanism's tag, which has 0 octets for a mechanism without tags."""
    row: NDArray[np.uint8]
    """The last inserted tag of the mechanism, without the EtherType that follows the tag."""


def check_stack(machine: Machine) -> None:
    """Raise ParameterError for a mechanism that live devices do not support.

    Ports of such a mechanism add records to frames, or isolate flows.
    """
    if machine.stack_records or machine.isolation:
        needed = "one whose ports add no records and isolate no flows, outside of the laboratory and replays"
        raise ParameterError(name="mechanism", needed=needed, got=machine.name)


def new_tagging(machine: Machine, vlan: int | None, ethertypes: EtherTypes) -> Tagging:
    """Return the tags of a device with ``machine``; ``vlan`` is the control information of the VLAN tag."""
    check_stack(machine)
    facts = new_record(TaggingFacts)
    facts.c_tag, facts.s_tag, facts.old_s_tag = ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag
    facts.vlan = NO_VLAN if vlan is None else vlan
    kind, row = machine.tag, b""
    if isinstance(kind, TagFormat) and not kind.is_off(ethertypes):
        row = kind.announcing(ethertypes).to_bytes(_TYPE_OCTETS) + kind.layer(0, 0).build()[:-_TYPE_OCTETS]
    octets = np.frombuffer(row, np.uint8).copy()
    return Tagging(facts, parse_tables(ethertypes), tag_layout(kind, ethertypes), octets)


@inlined
def insert_octets(buffer: NDArray[np.uint8], start: int, at: int, octets: int) -> None:
    """Insert space for ``octets`` octets at offset ``at`` of the frame at ``start``.

    The start of the frame moves to a lower index.
    """
    for index in range(start, start + at):
        buffer[index - octets] = buffer[index]


@inlined
def remove_octets(buffer: NDArray[np.uint8], start: int, at: int, octets: int) -> None:
    """Remove ``octets`` octets at offset ``at`` of the frame at ``start``.

    The start of the frame moves to a higher index.
    """
    for index in range(start + at - 1, start - 1, -1):
        buffer[index + octets] = buffer[index]


@compiled
def put_vlan_on(tagging: Tagging, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Insert the device's VLAN tag into an untagged frame; return the number of inserted octets."""
    facts = tagging.facts
    if facts.vlan == NO_VLAN or octets < HEADER_OCTETS:
        return 0
    ethertype = two_octets(buffer, start + TYPE_AT)
    if ethertype == facts.c_tag or ethertype == facts.s_tag or ethertype == facts.old_s_tag:
        return 0
    insert_octets(buffer, start, TYPE_AT, VLAN_OCTETS)
    at = start - VLAN_OCTETS + TYPE_AT
    buffer[at], buffer[at + 1] = facts.c_tag >> 8, facts.c_tag & 0xFF
    buffer[at + 2], buffer[at + 3] = facts.vlan >> 8, facts.vlan & 0xFF
    return VLAN_OCTETS


@compiled
def take_vlan_off(tagging: Tagging, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Remove the outermost tag if the tag has the device's VLAN, with any priority.

    Returns the length of the removed tag, or 0 if no tag was removed.
    """
    facts = tagging.facts
    if facts.vlan == NO_VLAN or octets < HEADER_OCTETS + VLAN_OCTETS:
        return 0
    if two_octets(buffer, start + TYPE_AT) != facts.c_tag:
        return 0
    if (two_octets(buffer, start + HEADER_OCTETS) ^ facts.vlan) & _IDENTIFIER_BITS != 0:
        return 0
    remove_octets(buffer, start, TYPE_AT, VLAN_OCTETS)
    return VLAN_OCTETS


@compiled
def take_tags_off(tagging: Tagging, buffer: NDArray[np.uint8], start: int, octets: int) -> int:
    """Remove all of the mechanism's tags from a frame; return the number of removed octets."""
    length, removed = tagging.layout.octets, 0
    if length == 0:
        return 0
    offsets = tag_offsets(buffer, start, octets, tagging.tables, tagging.layout)
    while offsets.old_tags > 0:
        remove_octets(buffer, start + removed, offsets.old_at, length)
        removed += length
        offsets = tag_offsets(buffer, start + removed, octets - removed, tagging.tables, tagging.layout)
    return removed


@compiled
def put_tag_on(
    tagging: Tagging, buffer: NDArray[np.uint8], start: int, octets: int, tag: int, mark: int
) -> int:
    """Replace all of the mechanism's tags of a frame by one tag; return the number of added octets.

    The start of the frame moves by this number of octets; a negative number means removed octets. An ECN
    field is rewritten in place. If the frame's header is truncated, the frame stays unchanged and the result
    is NO_OFFSET.
    """
    layout, facts, row = tagging.layout, tagging.facts, tagging.row
    length = layout.octets
    if layout.is_ecn != 0:
        own = own_tag(buffer, start, octets, tagging.tables, layout)
        if own.tagged:
            write_tag(buffer, start + own.at, layout, tag)
        return 0
    offsets = tag_offsets(buffer, start, octets, tagging.tables, layout)
    if offsets.tag_at == NOWHERE:
        return NO_OFFSET
    removed = 0
    if offsets.old_tags > 0:
        removed = take_tags_off(tagging, buffer, start, octets)
        offsets = tag_offsets(buffer, start + removed, octets - removed, tagging.tables, layout)
    if tag != facts.tag or mark != facts.mark:
        write_number(row, 0, layout.tag_bit, layout.tag_bits, tag)
        write_number(row, 0, layout.mark_bit, layout.mark_bits, mark)
        facts.tag, facts.mark = tag, mark
    insert_octets(buffer, start + removed, offsets.tag_at, length)
    at = start + removed - length + offsets.tag_at
    for octet in range(length):
        buffer[at + octet] = row[octet]
    return length - removed


@compiled
def set_priority(tagging: Tagging, buffer: NDArray[np.uint8], start: int, octets: int, priority: int) -> None:
    """Set ``priority`` in the outermost VLAN tag of a frame; an untagged frame stays unchanged."""
    at, end, tables = start + TYPE_AT, start + octets, tagging.tables
    length = tag_octets(buffer, at, end, tables)
    while length > 0 and role_at(buffer, at, tables) != VLAN_TAG:
        at += length
        length = tag_octets(buffer, at, end, tables)
    if length > 0:
        buffer[at + 2] = (priority << 5) | (signed(buffer[at + 2]) & 0x1F)
