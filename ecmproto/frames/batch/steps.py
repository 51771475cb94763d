"""Rules of the walk over a frame, shared by all kernels: next format, end and errors of a layer.

`codec.frame` has the same rules, but this module uses tables. `ecmproto.frames.columns.walk` finds all layers
of a frame by these rules, and `ecmproto.frames.batch.packets` finds the tags and the packet.

A layer at ``start`` can extend to ``stop``, which is the end of the captured octets or of an outer length.
``reach`` is the corresponding end on the wire.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import four_octets, has_no_cpid, signed, two_octets
from ecmproto.frames.batch.parse_tables import (
    ANNOUNCED,
    ARP_OF_BOTH,
    ARP_OF_IPV4,
    ARP_OF_MAC,
    ARP_OTHER,
    ARP_SIZES,
    ARP_TYPES,
    AT,
    BY_ETHERTYPE,
    BY_NIBBLE,
    CHOSEN,
    CONDITIONS,
    CONTENT_KEY,
    CONTENT_ROWS,
    COOKED,
    COUNT,
    COUNTED_TAIL,
    DATA,
    DATA_NUMBER,
    EXTENSION,
    FRAGMENT,
    FRAGMENT_OFFSET,
    GRH_NXT,
    GRH_PLEN,
    HARDWARE,
    HARDWARE_2,
    HAS_CPID,
    HIGH,
    IP_IHL,
    IP_LEN,
    IP_OFFSET,
    IP_PROTO,
    IPV4,
    IPV4_OCTETS,
    IPV6,
    IPV6_NXT,
    IPV6_PLEN,
    LAST_TLV,
    LIMITED,
    LLDP,
    LOW,
    MAC_OCTETS,
    MASK,
    MAX_MOVING,
    MESSAGE_WORDS,
    MINUS,
    MOVING_TAIL,
    NO_TAIL,
    NONZERO_WORDS,
    NOTHING,
    NUMBER_OF,
    OCTETS,
    OPCODE,
    OPCODE_WORDS,
    PORT,
    PROTOCOL,
    PROTOCOL_2,
    ROUTED,
    SCALE,
    SHIFT,
    SHOWN_OCTETS,
    SNAPPED,
    STRANGE,
    TAG_WORDS,
    TAIL_KIND,
    TLVS,
    UNSHOWN_OCTETS,
    VALUES,
    WHEN,
    WIRE_OCTETS,
    ParseTables,
)
from ecmproto.kernels.kernel import inlined
from ecmproto.wire.formats.ethernet import NOVELL, SNAP, SNAP_START, OtherLLC, OtherSNAP
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.experimental import CPID_AT, UNKNOWN_LENGTH
from ecmproto.wire.formats.infiniband import IBA_TRANSPORT, ROCE_PORT
from ecmproto.wire.formats.ip import NO_NEXT_HEADER
from ecmproto.wire.formats.lldp import (
    END,
    HEADER_OCTETS,
    ORGANIZATION_OCTETS,
    ORGANIZATIONALLY_SPECIFIC,
    TLV,
    OrganizationTLV,
    other_information,
)
from ecmproto.wire.formats.schema import BitField

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NO_LAYER, SLOW = -1, -2
NO_LENGTH, NOWHERE = -1, -2
NO_ERROR, SHORT, SAMPLE, TOTAL_LENGTH, CONDITION = range(5)
"""Errors of a frame. CONDITION and greater numbers are the conditions of the format, in order."""

_TLV, _ORGANIZATION_TLV = NUMBER_OF[TLV], NUMBER_OF[OrganizationTLV]
_LLC, _SNAP, _OTHER_SNAP = NUMBER_OF[OtherLLC], NUMBER_OF[SNAP], NUMBER_OF[OtherSNAP]
_LLC_OCTETS, _SNAP_OCTETS = OtherLLC.fixed_octets, SNAP.fixed_octets
_SNAP_START, _NOVELL = int.from_bytes(SNAP_START), int.from_bytes(NOVELL)
_OTHER_SUBTYPE = other_information(0)
_MIN_ETHERTYPE = 0x0600


@inlined
def value_in(buffer: Octets, start: int, field: BitField) -> int:
    """Return the number in a field of the layer at ``start``. ``field`` is a compile-time constant."""
    number = 0
    for octet in range(start + field.at, start + field.at + field.octets):
        number = (number << 8) | signed(buffer[octet])
    return (number >> field.shift) & field.mask


@inlined
def number_in(buffer: Octets, start: int, table: Int64, row: int, column: int) -> int:
    """Return the number in a field of the layer at ``start``.

    The `BitField` starts at ``column`` of a table row.
    """
    number = 0
    first = start + table[row, column + AT]
    for octet in range(first, first + table[row, column + OCTETS]):
        number = (number << 8) | signed(buffer[octet])
    return int((number >> table[row, column + SHIFT]) & table[row, column + MASK])


@inlined
def tail_octets(buffer: Octets, start: int, left: int, layer: int, tail: Int64) -> int:
    """Return the length in octets of the variable part, or −1 if the part must be absent.

    ``left`` is the maximum length.
    """
    if tail[layer, TAIL_KIND] == NO_TAIL:
        return 0
    values = tail[layer, VALUES]
    if values != 0 and (values >> number_in(buffer, start, tail, layer, WHEN)) & 1 == 0:
        return -1
    if tail[layer, TAIL_KIND] == COUNTED_TAIL:
        count = number_in(buffer, start, tail, layer, COUNT)
        return int(max(0, count * tail[layer, SCALE] - tail[layer, MINUS]))
    return left


@inlined
def moving_octets(buffer: Octets, start: int, index: int, moving: Int64) -> int:
    """Return the length in octets of a field of the layer at ``start``; ``index`` is a row in ``moving``."""
    number = number_in(buffer, start, moving, index, COUNT)
    return int(max(0, number * moving[index, SCALE] - moving[index, MINUS]))


class Variable(NamedTuple):
    """The variable part of a layer."""

    octets: int
    """Number of octets before the end of the layer. −1 means that the part must be absent."""
    missing: int
    """Number of missing octets."""


@inlined
def variable_part(buffer: Octets, layer: int, start: int, stop: int, tables: ParseTables) -> Variable:
    """Return the variable part of the layer at ``start``. The fixed part must be complete."""
    kind, after = tables.tail[layer, TAIL_KIND], start + tables.fixed[layer]
    if kind == NO_TAIL:
        return Variable(0, 0)
    expected = 0
    if kind == MOVING_TAIL:
        for index in range(layer * MAX_MOVING, (layer + 1) * MAX_MOVING):
            expected += moving_octets(buffer, start, index, tables.moving)
    else:
        expected = tail_octets(buffer, start, stop - after, layer, tables.tail)
    missing = max(0, after + max(0, expected) - stop)
    return Variable(expected - missing, missing)


class Next(NamedTuple):
    """The format after a layer."""

    layer: int
    bound: int
    settled: bool
    """Whether words of the layers alone determined the format, for frames of at least this length."""
    length_at: int
    """Offset of the length that determines ``bound``. NO_LENGTH means an inherited bound. NOWHERE means that
    the length can also be an EtherType.
    """


@inlined
def _tlv(buffer: Octets, pos: int, stop: int, tlvs: Int64) -> int:
    """Return the format of the TLV at ``pos`` (see `formats.lldp.tlv_chooser`)."""
    whole = stop - pos >= HEADER_OCTETS + ORGANIZATION_OCTETS
    if not whole or signed(buffer[pos]) >> 1 != ORGANIZATIONALLY_SPECIFIC:
        return _TLV
    information = four_octets(buffer, pos + 2)
    others = information & ~0xFF | _OTHER_SUBTYPE
    layer = _TLV if two_octets(buffer, pos) & 0x1FF < ORGANIZATION_OCTETS else _ORGANIZATION_TLV
    row = 0
    while tlvs[row, 0] != information and tlvs[row, 0] != LAST_TLV:
        if tlvs[row, 0] == others and layer != _TLV:
            layer = int(tlvs[row, 1])
        row += 1
    return layer if tlvs[row, 0] == LAST_TLV else int(tlvs[row, 1])


@inlined
def _llc(buffer: Octets, pos: int, stop: int) -> int:
    """Return the format of the octets after an 802.3 length (see `formats.ethernet.llc_at`)."""
    if stop - pos < _LLC_OCTETS or two_octets(buffer, pos) == _NOVELL:
        return DATA_NUMBER
    if stop - pos < _SNAP_OCTETS or four_octets(buffer, pos) >> 8 != _SNAP_START:
        return _LLC
    return _OTHER_SNAP if four_octets(buffer, pos + 2) & 0xFFFFFF else _SNAP


@inlined
def _arp(buffer: Octets, pos: int, stop: int, tables: ParseTables) -> int:
    """Return the format of the ARP packet at ``pos`` (see `formats.ip.VariableARP.cannot_be`)."""
    arp = tables.arp
    hardware, protocol = two_octets(buffer, pos), two_octets(buffer, pos + 2)
    hw_size, proto_size = signed(buffer[pos + 4]), signed(buffer[pos + 5])
    is_mac = hw_size == arp[MAC_OCTETS] and (hardware == arp[HARDWARE] or hardware == arp[HARDWARE_2])
    is_ipv4 = proto_size == arp[IPV4_OCTETS] and (protocol == arp[PROTOCOL] or protocol == arp[PROTOCOL_2])
    if is_mac and is_ipv4:
        return int(arp[ARP_OF_BOTH])
    if stop - pos < tables.fixed[arp[ARP_OTHER]] + 2 * (hw_size + proto_size):
        return int(arp[ARP_OTHER])
    return int(arp[ARP_OF_MAC] if is_mac else arp[ARP_OF_IPV4] if is_ipv4 else arp[ARP_OTHER])


@inlined
def announced(buffer: Octets, value: int, pos: int, stop: int, tables: ParseTables) -> Next:
    """Return the format at ``pos`` that an EtherType or length announces, and its maximum end."""
    layer = signed(tables.announced[value])
    if layer == DATA_NUMBER:
        if value <= MAX_LENGTH:
            # The octets after the length determine the format. These octets are not words of a layer.
            bound = pos + value
            return Next(_llc(buffer, pos, min(stop, bound)), bound, False, NOWHERE)
        return Next(layer, stop, True, NO_LENGTH)
    if layer >= 0:
        return Next(layer, stop, True, NO_LENGTH)
    if layer == STRANGE:
        return Next(SLOW, stop, True, NO_LENGTH)
    if layer == LLDP:
        return Next(_tlv(buffer, pos, stop, tables.tlvs), stop, True, NO_LENGTH)
    if layer == ARP_TYPES:
        if stop - pos < 6:
            return Next(tables.short[ARP_SIZES], stop, False, NO_LENGTH)
        return Next(_arp(buffer, pos, stop, tables), stop, True, NO_LENGTH)
    is_message = value == tables.tag_ethertypes[MESSAGE_WORDS]
    which = OPCODE_WORDS if layer == OPCODE else MESSAGE_WORDS if is_message else TAG_WORDS
    if stop - pos < 2:
        return Next(tables.short[which], stop, False, NO_LENGTH)
    return Next(signed(tables.by_two_octets[which, two_octets(buffer, pos)]), stop, True, NO_LENGTH)


@inlined
def next_format(buffer: Octets, layer: int, start: int, end: int, stop: int, tables: ParseTables) -> Next:
    """Return the format after ``layer`` at ``start``, and its maximum end."""
    kind = tables.follows[layer]
    if kind == ANNOUNCED:
        return announced(buffer, two_octets(buffer, start + tables.next_at[layer]), end, stop, tables)
    if kind == NOTHING:
        return Next(NO_LAYER, stop, True, NO_LENGTH)
    if kind == PORT:
        return after_port(buffer, two_octets(buffer, start + tables.next_at[layer]), end, stop, tables)
    if kind == DATA:
        return Next(DATA_NUMBER, stop, True, NO_LENGTH)
    if kind == IPV4:
        return _after_ipv4(buffer, layer, start, end, stop, tables)
    if kind == IPV6:
        return _after_ipv6(buffer, start, end, stop, tables)
    if kind == ROUTED:
        return _after_grh(buffer, start, end, stop, tables)
    if kind in (EXTENSION, FRAGMENT):
        if is_later_fragment(buffer, layer, start, tables):
            return Next(DATA_NUMBER, stop, True, NO_LENGTH)
        nxt = signed(buffer[start + tables.next_at[layer]])
        return Next(signed(tables.transport[1, nxt]), stop, True, NO_LENGTH)
    if kind == SNAPPED:
        value = two_octets(buffer, start + tables.next_at[layer])
        if tables.snapped[value]:
            return announced(buffer, value, end, stop, tables)
        return Next(DATA_NUMBER, stop, True, NO_LENGTH)
    if kind == COOKED:
        value = two_octets(buffer, start + tables.next_at[layer])
        if value < _MIN_ETHERTYPE:
            return Next(DATA_NUMBER, stop, True, NO_LENGTH)
        return announced(buffer, value, end, stop, tables)
    if kind == TLVS:
        if end >= stop or signed(buffer[start]) >> 1 == END:
            return Next(NO_LAYER, stop, True, NO_LENGTH)
        return Next(_tlv(buffer, end, stop, tables.tlvs), stop, True, NO_LENGTH)
    return Next(SLOW, stop, True, NO_LENGTH)


@inlined
def is_later_fragment(buffer: Octets, layer: int, start: int, tables: ParseTables) -> bool:
    """Return whether the layer at ``start`` announces a fragment other than the first of a packet."""
    kind = tables.follows[layer]
    if kind == IPV4:
        return value_in(buffer, start, IP_OFFSET) != 0
    return bool(kind == FRAGMENT and value_in(buffer, start, FRAGMENT_OFFSET) != 0)


@inlined
def _after_ipv4(buffer: Octets, layer: int, start: int, end: int, stop: int, tables: ParseTables) -> Next:
    length = value_in(buffer, start, IP_LEN)
    bound, at = stop, NO_LENGTH
    if length != 0:
        bound = end + length - 4 * value_in(buffer, start, IP_IHL)
        at = start + IP_LEN.at
    if is_later_fragment(buffer, layer, start, tables):
        return Next(DATA_NUMBER, bound, True, at)
    protocol = value_in(buffer, start, IP_PROTO)
    return Next(signed(tables.transport[0, protocol]), bound, True, at)


@inlined
def _after_ipv6(buffer: Octets, start: int, end: int, stop: int, tables: ParseTables) -> Next:
    length = value_in(buffer, start, IPV6_PLEN)
    following = value_in(buffer, start, IPV6_NXT)
    bound, at = stop, NO_LENGTH
    if length != 0 or following == NO_NEXT_HEADER:
        bound = end + length
        at = start + IPV6_PLEN.at
    return Next(signed(tables.transport[1, following]), bound, True, at)


@inlined
def _after_grh(buffer: Octets, start: int, end: int, stop: int, tables: ParseTables) -> Next:
    length = value_in(buffer, start, GRH_PLEN)
    bound, at = stop, NO_LENGTH
    if length != 0:
        bound, at = end + length, start + GRH_PLEN.at
    if value_in(buffer, start, GRH_NXT) != IBA_TRANSPORT:
        return Next(DATA_NUMBER, bound, True, at)
    payload = after_port(buffer, ROCE_PORT, end, min(stop, bound), tables)
    return Next(payload.layer, bound, payload.settled, at)


@inlined
def after_port(buffer: Octets, port: int, pos: int, stop: int, tables: ParseTables) -> Next:
    """Return the format at ``pos`` that a UDP destination port announces."""
    layer = signed(tables.ports[port])
    if layer > CHOSEN:
        return Next(layer, stop, True, NO_LENGTH)
    row = CHOSEN - layer
    if stop - pos < 2:
        return Next(signed(tables.chosen[row, 1 << 16]), stop, False, NO_LENGTH)
    return Next(signed(tables.chosen[row, two_octets(buffer, pos)]), stop, True, NO_LENGTH)


@inlined
def content_format(
    buffer: Octets, wrapper: int, start: int, selected: int, pos: int, stop: int, tables: ParseTables
) -> Next:
    """Return the format at ``pos`` inside the wrapper at ``start``.

    ``selected`` is the value that selects the sequence.
    """
    row = tables.content[wrapper, CONTENT_ROWS + selected]
    value = number_in(buffer, start, tables.content, wrapper, CONTENT_KEY)
    layer = signed(tables.contents[row, value])
    if layer == BY_ETHERTYPE:
        return announced(buffer, value, pos, stop, tables)
    if layer > BY_NIBBLE:
        return Next(layer, stop, True, NO_LENGTH)
    layer = tables.nibbles[BY_NIBBLE - layer, signed(buffer[pos]) >> 4] if pos < stop else DATA_NUMBER
    # The packet formats have a limit for these bits. Any other format has no such limit.
    return Next(layer, stop, layer != DATA_NUMBER, NO_LENGTH)


class Wrong(NamedTuple):
    """An error of a layer, and two numbers with details."""

    what: int
    first: int
    second: int


@inlined
def doubted(buffer: Octets, layer: int, start: int, stop: int, reach: int, tables: ParseTables) -> bool:
    """Return whether the announced octets cannot have the format (see `Layer.cannot_be` and `Proposed`)."""
    minimum = tables.doubts[layer, WIRE_OCTETS]
    if minimum != 0:
        if stop - start < tables.fixed[layer] or reach - start < minimum:
            return True
        words = tables.doubts[layer, NONZERO_WORDS]
        return bool(words != 0 and _all_zero(buffer, start, 2 * words))
    if tables.doubts[layer, HAS_CPID] != 0 and has_no_cpid(buffer, start + CPID_AT, stop):
        return True
    maximum = tables.doubts[layer, UNSHOWN_OCTETS]
    if maximum == 0 or shows(buffer, layer, start, stop, tables):
        return False
    return bool(stop - start > maximum or maximum < reach - start < UNKNOWN_LENGTH)


@inlined
def _all_zero(buffer: Octets, start: int, octets: int) -> bool:
    some = 0
    for at in range(start, start + octets):
        some |= signed(buffer[at])
    return some == 0


@inlined
def shows(buffer: Octets, layer: int, start: int, stop: int, tables: ParseTables) -> bool:
    """Return whether the message at ``start`` quotes a frame."""
    if tables.tail[layer, SHOWN_OCTETS] == 0 or stop - start < 2:
        return False
    return tail_octets(buffer, start, 0, layer, tables.tail) >= 0


@inlined
def refused(buffer: Octets, layer: int, start: int, tail: int, reach: int, tables: ParseTables) -> Wrong:
    """Return the error of the layer at ``start``, if its format rejects the octets.

    ``tail`` is the length of the variable part.
    """
    within = tables.within
    for index in range(layer * CONDITIONS, (layer + 1) * CONDITIONS):
        if within[index, LIMITED + OCTETS] == 0:
            break
        number = number_in(buffer, start, within, index, LIMITED)
        if number < within[index, LOW] or number > within[index, HIGH]:
            return Wrong(CONDITION + index, number, 0)
    if tail >= 0 and reach - start - tables.fixed[layer] < tables.tail[layer, SHOWN_OCTETS]:
        return Wrong(SAMPLE, reach - start - tables.fixed[layer], 0)
    if tables.follows[layer] == IPV4:
        header = 4 * value_in(buffer, start, IP_IHL)
        length = value_in(buffer, start, IP_LEN)
        if 0 < length < header:
            return Wrong(TOTAL_LENGTH, header, length)
    return Wrong(NO_ERROR, 0, 0)
