"""Parse tables of all formats for the walk over frames: length, limits and following formats.

The tables are derived from the format declarations and from the dispatch with an EtherType map, in the same
way as the one-frame decoder. Kernels cannot call a format's own `Layer.check` or `Layer.following`. Frames
with such a format are decoded by the one-frame decoder, which is slower.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import once
from ecmproto.wire.codec.tags import is_tag
from ecmproto.wire.formats.base import Follows, Layer
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.experimental import MAX_OCTETS, Proposed, Sampling, Word, selector
from ecmproto.wire.formats.infiniband import BTH, GRH
from ecmproto.wire.formats.ip import (
    ARP,
    ARP_ETHERTYPE,
    ARP_HARDWARE,
    ARP_PROTOCOLS,
    TCP,
    UDP,
    EthernetARP,
    Extension,
    FragmentHeader,
    IPv4,
    IPv4ARP,
    IPv6,
    OtherARP,
    VariableARP,
)
from ecmproto.wire.formats.lldp import TLV
from ecmproto.wire.formats.registry import (
    AFTER_PORTS,
    FORMATS,
    MAX_FORMATS,
    Dispatch,
    announcement,
    dispatch,
    field_of,
)
from ecmproto.wire.formats.schema import BitField, Field, bit_field
from ecmproto.wire.formats.wrapper import FURTHER_ETHERTYPES, Announced, Packet, Wrapper

Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]

(
    NOTHING, ANNOUNCED, DATA, COOKED, IPV4, IPV6, EXTENSION, FRAGMENT, TLVS, SNAPPED, PORT, ROUTED, SEQUENCE,
    CONTENT, UNKNOWN,
) = range(15)  # fmt: skip
"""Rules that determine the next format. The rule IPV4 also checks the total length."""

_FOLLOWS: Mapping[Follows, int] = {
    "": NOTHING, "ethertype": ANNOUNCED, "data": DATA, "cooked": COOKED, "ipv4": IPV4, "ipv6": IPV6,
    "extension": EXTENSION, "fragment": FRAGMENT, "tlv": TLVS, "snap": SNAPPED, "port": PORT,
    "grh": ROUTED, "sequence": SEQUENCE, "content": CONTENT,
    "own": UNKNOWN,
}  # fmt: skip


@once
def follow_rule(cls: type[Layer]) -> int:
    """Return the rule for the format after ``cls``, or UNKNOWN if only methods of the format can find the
    next format.
    """
    if len(cls.moving) > MAX_MOVING or any(map(_is_open, cls.moving)):
        return UNKNOWN
    own_check = cls.check not in (Layer.check, cls.within)
    if own_check and cls.follows != "ipv4" and not issubclass(cls, Sampling):
        return UNKNOWN
    doubted_alike = issubclass(cls, Proposed | VariableARP) or _is_generic(cls)
    if cls.otherwise is not None and not doubted_alike:
        return UNKNOWN
    return _FOLLOWS[cls.follows]


def _is_generic(cls: type[Layer]) -> bool:
    """Return whether the declaration alone determines if octets can have the format."""
    return vars(cls).get("cannot_be") is None and cls.least_octets > 0 and cls.nonzero_octets in (0, 2, 4)


def _is_open(field: Field) -> bool:
    """Return whether the length of a field depends on more than its count field."""
    return field.count is not None and bool(field.count.when or not field.count.key)


NUMBER_OF: dict[type[Layer], int] = {cls: number for number, cls in enumerate(FORMATS)}
_FIRST_MOVING = MAX_FORMATS + 3
MOVING_FIELDS: dict[tuple[type[Layer], str], int] = {
    field_key: number
    for number, field_key in enumerate(
        ((cls, field.key) for cls in FORMATS for field in cls.moving), _FIRST_MOVING
    )
}
"""Numbers of the fields without a fixed offset. The numbers continue the numbers of formats, padding, trailer
and FCS.
"""
DATA_NUMBER = NUMBER_OF[Data]

NO_TAIL, REST_TAIL, COUNTED_TAIL, MOVING_TAIL = range(4)
ARP_TYPES, WORD, OPCODE, LLDP, STRANGE = range(-5, 0)
"""Rules for the choice among several formats with the same EtherType. Kernels cannot apply STRANGE."""
CHOSEN = -1
"""Format number of UDP ports with several formats. The exact number is CHOSEN minus the index of the
group.
"""
NO_CHAIN = 0
"""Index of the empty chain (see `ParseTables.chain`)."""

NO_DOUBT = -1

MAX_MOVING = 4
"""Maximum number of fields without a fixed offset per format in kernels."""
CONDITIONS = 4
"""Maximum number of limits per format. The number is a constant in the compiled kernels."""

# Columns of the tables. `ParseTables` documents their meanings.
AT, OCTETS, SHIFT, MASK = range(4)
"""Columns of a `BitField`, relative to its first column."""
TAIL_KIND, COUNT, SCALE, MINUS, WHEN, VALUES, SHOWN_OCTETS = 0, 1, 5, 6, 7, 11, 12
"""Columns of ``tail``."""
MOVING_FIELD = 0
"""First column of ``moving``. COUNT, SCALE and MINUS are the same columns as in ``tail``."""
LIMITED, LOW, HIGH = 0, 4, 5
"""Columns of ``within``."""
OTHERWISE, HAS_CPID, UNSHOWN_OCTETS, CPID_DECIDES, WIRE_OCTETS, NONZERO_WORDS = range(6)
"""Columns of ``doubts``."""
SELECTED, CHAINS_ROW, CLOSED_BY = 0, 4, 5
"""Columns of ``sequenced``."""
CONTENT_KEY, CONTENT_ROWS = 0, 4
"""Columns of ``content``."""
BY_ETHERTYPE = -1
"""Number of a content whose format an EtherType announces."""
BY_NIBBLE = -2
"""Format number of packets whose first four bits select the format. The exact number is BY_NIBBLE minus the
row in ``nibbles``.
"""
MESSAGE_WORDS, TAG_WORDS, OPCODE_WORDS, ARP_SIZES = range(4)
"""Entries of ``short``. The first three are also the rows of ``by_two_octets`` and the columns of
``tag_ethertypes``.
"""
ARP_OTHER, ARP_OF_IPV4, ARP_OF_MAC, ARP_OF_BOTH = range(4)
HARDWARE, HARDWARE_2, MAC_OCTETS, PROTOCOL, PROTOCOL_2, IPV4_OCTETS = range(4, 10)
"""Entries of ``arp``: first the formats, then the required types and sizes."""
DECISIVE_AT, DECISIVE_MASK = range(2)
"""Columns of ``decisive``."""
IP_IHL, IP_LEN, IP_PROTO, IP_OFFSET = (
    bit_field(field_of(IPv4, key)) for key in ("ihl", "len", "proto", "frag_offset")
)
IPV6_PLEN, IPV6_NXT = (bit_field(field_of(IPv6, key)) for key in ("plen", "nxt"))
GRH_PLEN, GRH_NXT = (bit_field(field_of(GRH, key)) for key in ("paylen", "nxthdr"))
FRAGMENT_OFFSET = bit_field(field_of(FragmentHeader, "offset"))
"""Positions of the header fields that determine the octets after a network header."""
LAST_TLV = -1
DECISIVE = 8
"""Maximum number of decisive words per format."""
_WORDS, _OCTETS = 1 << 16, 1 << 8
_SHARED, _CHAINED = 8, 256
"""Capacities: groups of shared UDP ports, formats with sequences, and the formats of all sequences."""
_CONTENT_ROWS, _MAX_CONTENTS, _MAX_PACKETS = 16, 16, 4
"""Capacities: columns per wrapper in ``content``, rows of ``contents`` and rows of ``nibbles``."""

OTHER, CNM, MESSAGE, MAC_CONTROL, I_TAG, VLAN_TAG, CN_TAG, TAG = range(8)
"""Roles of EtherTypes in a port. Tags have the greatest numbers, and TAG is any other tag."""

NO_NETWORK, GLOBAL, IP4, IP6 = 0, 1, 4, 6
"""Types of network headers: neither IP nor GRH, GRH, IPv4, IPv6."""
PAYLOAD, TAG_HEADER, LINK_HEADER, EXTENSION_HEADER, PORTS, BASE_TRANSPORT = 0, 7, 8, 9, 10, 11
"""Other parts of a packet: tags, other headers before the network header, IPv6 extension headers, headers
that start with two ports, and the RoCE base transport header. PAYLOAD is everything else.
"""


class ParseTables:
    """The parse tables.

    This class declares a record. Tables of formats have one row per format, with MAX_FORMATS rows.
    """

    fixed: Annotated[Int64, MAX_FORMATS]
    """Length of the fixed part in octets."""
    tail: Annotated[Int64, (MAX_FORMATS, SHOWN_OCTETS + 1)]
    """Variable part of each format.

    The columns are: type (NO_TAIL, REST_TAIL, COUNTED_TAIL or MOVING_TAIL); count field (`BitField`), scale
    and minus; position of the field on which the part depends, with a bit for each value for which the part
    is present (0 means always); and minimum length in octets.
    """
    moving: Annotated[Int64, (MAX_FORMATS * MAX_MOVING, MINUS + 1)]
    """Fields of a MOVING_TAIL in order, with MAX_MOVING rows per format.

    The columns are: number in `MOVING_FIELDS`, count field (`BitField`), scale and minus. A field of fixed
    width has no count field, and its minus is the negative length in octets. Unused rows have the number 0.
    """
    within: Annotated[Int64, (MAX_FORMATS * CONDITIONS, HIGH + 1)]
    """Limits of fields, with CONDITIONS rows per format.

    The columns are: `BitField`, minimum and maximum. Unused rows have a `BitField` of 0 octets.
    """
    refuses: Annotated[Int8, MAX_FORMATS]
    """Whether the format can reject octets."""
    doubts: Annotated[Int64, (MAX_FORMATS, NONZERO_WORDS + 1)]
    """Criteria by which announced octets have another format.

    The columns are: the other format, or NO_DOUBT; whether there is a CPID; maximum number of octets for
    types that quote no frame (0 means no maximum); whether the CPID, or the octets at its position, decides;
    minimum number of octets on the wire; and number of leading pairs of octets that must not all be 0.
    """
    follows: Annotated[Int64, MAX_FORMATS]
    """Rule for the next format (see NOTHING)."""
    next_at: Annotated[Int64, MAX_FORMATS]
    """Offset of the EtherType, next header or port that announces the next layer."""
    parts: Annotated[Int8, MAX_FORMATS]
    """Part of a packet to which the format belongs: TAG_HEADER, a type of network header, and so on."""
    run: Annotated[Int8, MAX_FORMATS]
    """Whether several consecutive layers count as one protocol."""
    announced: Annotated[Int8, _WORDS]
    """Format number for each EtherType or length, or the rule for the choice of the format."""
    roles: Annotated[Int8, _WORDS]
    """Role of each EtherType in a port, such as OTHER."""
    snapped: Annotated[Int8, _WORDS]
    """Whether an EtherType also announces a format in SNAP headers."""
    ports: Annotated[Int8, _WORDS]
    """Format number for each UDP destination port, or CHOSEN."""
    chosen: Annotated[Int8, (_SHARED, _WORDS + 1)]
    """Format by the first two octets, for each group of formats with the same UDP port. The last column is
    for fewer than two octets.
    """
    sequenced: Annotated[Int64, (MAX_FORMATS, CLOSED_BY + 1)]
    """Sequences by format: the selecting bits (`BitField`), the row in ``chains``, and the format after the
    sequence, or −1.
    """
    chains: Annotated[Int64, (_SHARED, _OCTETS)]
    """Index in ``chain`` by the selecting value, with one row per format that has sequences. Row 0 has no
    chains.
    """
    chain: Annotated[Int64, _CHAINED]
    """Formats of all sequences. Each sequence ends with −1."""
    content: Annotated[Int64, (MAX_FORMATS, CONTENT_ROWS + _CONTENT_ROWS)]
    """Wrappers: the bits that select the content (`BitField`), then a row in ``contents`` for each value that
    selects a sequence.
    """
    contents: Annotated[Int8, (_MAX_CONTENTS, _WORDS)]
    """Format by the value that selects the content, BY_ETHERTYPE or BY_NIBBLE."""
    nibbles: Annotated[Int64, (_MAX_PACKETS, 16)]
    """Format by the first four bits of a packet."""
    tags: Annotated[Int8, _WORDS]
    """Whether an EtherType announces two octets and another EtherType."""
    by_two_octets: Annotated[Int8, (OPCODE_WORDS + 1, _WORDS)]
    """Format by the first two octets, with one row each for messages, tags and MAC Control."""
    short: Annotated[Int64, ARP_SIZES + 1]
    """Format of fewer than two octets for messages, tags and MAC Control, and format of ARP without sizes."""
    tlvs: Annotated[Int64, (MAX_FORMATS, 2)]
    """OUI and subtype of organizationally specific TLVs, each with its format. LAST_TLV ends the list."""
    arp: Annotated[Int64, IPV4_OCTETS + 1]
    """Formats and constants of ARP packets.

    The formats are: any other ARP, IPv4 over any other hardware, any other protocol over Ethernet, and IPv4
    over Ethernet. The constants are: two hardware types, the size of MAC addresses, two protocol types, and
    the size of IPv4 addresses.
    """
    decisive: Annotated[Int64, (MAX_FORMATS * DECISIVE, DECISIVE_MASK + 1)]
    """Words that determine the walk to and from a layer, with DECISIVE rows per format: offset and mask.
    Unused rows have mask 0.
    """
    settled: Annotated[Int8, MAX_FORMATS]
    """Whether the decisive words alone determine the walk."""
    transport: Annotated[Int8, (2, _OCTETS)]
    """Format by the IPv4 protocol (row 0) and by the IPv6 next header (row 1)."""
    tag_ethertypes: Annotated[Int64, OPCODE_WORDS + 1]
    """EtherTypes of messages, tags and MAC Control."""


@functools.lru_cache(maxsize=8)
def parse_tables(ethertypes: EtherTypes) -> ParseTables:
    """Return the parse tables for an EtherType map."""
    formats = dispatch(ethertypes)
    by_two_octets, short = _dispatch_tables(ethertypes)
    values: dict[str, Any] = {
        "fixed": [cls.fixed_octets for cls in FORMATS],
        "tail": [_tail(cls) for cls in FORMATS],
        "moving": [row for cls in FORMATS for row in _moving(cls)],
        "within": [row for cls in FORMATS for row in _conditions(cls)],
        "refuses": [cls.check is not Layer.check for cls in FORMATS],
        "doubts": [_doubts(cls) for cls in FORMATS],
        "follows": [follow_rule(cls) for cls in FORMATS],
        "next_at": [_next_at(cls) for cls in FORMATS],
        "parts": [_part(cls) for cls in FORMATS],
        "run": [cls.prefix == "lldp" for cls in FORMATS],
        "announced": _announced(formats),
        "roles": _roles(ethertypes),
        "snapped": _snapped(formats),
        "ports": _ports(),
        "chosen": _chosen(),
        "sequenced": [_sequenced(cls) for cls in FORMATS],
        "chains": _CHAINS.rows,
        "chain": _CHAINS.chain,
        "content": [_content(cls) for cls in FORMATS],
        "contents": _contents(),
        "nibbles": _nibbles(),
        "tags": _tags(formats),
        "by_two_octets": by_two_octets,
        "short": short,
        "decisive": [row for cls in FORMATS for row in _decisive(cls)],
        "settled": [follow_rule(cls) not in (TLVS, UNKNOWN) for cls in FORMATS],
        "tlvs": [
            (value, NUMBER_OF[cls])
            for cls in _announced_by(ethertypes.lldp, ethertypes)
            for value in cls.selected_by
        ] + [(LAST_TLV, NUMBER_OF[TLV])],
        "arp": [
            *(NUMBER_OF[cls] for cls in (OtherARP, IPv4ARP, EthernetARP, ARP)),
            *(*ARP_HARDWARE, EthernetARP().hw_size),
            *(*ARP_PROTOCOLS, IPv4ARP().proto_size),
        ],
        "transport": _transport(formats),
        "tag_ethertypes": [ethertypes.message, ethertypes.tag, ethertypes.mac_control],
    }  # fmt: skip
    tables = new_record(ParseTables)
    for name, rows in values.items():
        table = getattr(tables, name)
        if len(rows) > len(table):
            raise ParameterError(name=name, needed=f"at most {len(table)} rows", got=str(len(rows)))
        table[: len(rows)] = rows
    return tables


_NETWORKS = {IPv4: IP4, IPv6: IP6, GRH: GLOBAL}


def _part(cls: type[Layer]) -> int:
    for base, part in (*_NETWORKS.items(), (Extension, EXTENSION_HEADER), (BTH, BASE_TRANSPORT)):
        if issubclass(cls, base):
            return part
    if cls in (UDP, TCP):
        return PORTS
    if is_tag(cls):
        return TAG_HEADER
    return LINK_HEADER if follow_rule(cls) in (ANNOUNCED, SNAPPED) else PAYLOAD


def _roles(ethertypes: EtherTypes) -> NDArray[np.int8]:
    roles = np.zeros(_WORDS, np.int8)
    for cls in FORMATS:
        announced = announcement(cls, ethertypes)
        if announced is not None and is_tag(cls):
            roles[announced] = TAG
        elif isinstance(cls.announced_by, int) and cls.role == "message":
            roles[cls.announced_by] = MESSAGE
    roles[[ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag]] = VLAN_TAG
    for name, role in (
        ("i_tag", I_TAG), ("cn_tag", CN_TAG), ("tag", TAG), ("cnm", CNM), ("message", MESSAGE),
        ("mac_control", MAC_CONTROL),
    ):  # fmt: skip
        roles[getattr(ethertypes, name)] = role
    return roles


def _tail(cls: type[Layer]) -> tuple[int, ...]:
    count = cls.layout[-1].count
    none = BitField(0, 0, 0, 0)
    if cls.moving:
        return (MOVING_TAIL, *none, 0, 0, *none, 0, 0)
    if count is None:
        return (NO_TAIL, *none, 0, 0, *none, 0, 0)
    by = bit_field(field_of(cls, count.key)) if count.key else none
    when, values = none, 0
    if count.when is not None:
        when = bit_field(field_of(cls, count.when[0]))
        values = sum(1 << value for value in count.when[1])
    kind = COUNTED_TAIL if count.key else REST_TAIL
    return (kind, *by, count.scale, count.minus, *when, values, cls.min_shown_octets)


def _moving(cls: type[Layer]) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    for field in cls.moving[:MAX_MOVING]:
        number, count = MOVING_FIELDS[cls, field.key], field.count
        if count is None:
            rows.append((number, 0, 0, 0, 0, 0, -(field.bits or 0) // 8))
        elif not _is_open(field):
            rows.append((number, *bit_field(field_of(cls, count.key)), count.scale, count.minus))
    return rows + [(0,) * 7] * (MAX_MOVING - len(rows))


def _conditions(cls: type[Layer]) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = [
        (*bit_field(field_of(cls, each.key)), each.low, each.high) for each in cls.limits
    ]
    if len(rows) > CONDITIONS:
        raise ParameterError(name=cls.prefix, needed=f"at most {CONDITIONS} limits", got=str(len(rows)))
    return rows + [(0,) * 6] * (CONDITIONS - len(rows))


def _doubts(cls: type[Layer]) -> tuple[int, int, int, int, int, int]:
    if cls.otherwise is not None and _is_generic(cls):
        return NUMBER_OF[cls.otherwise], 0, 0, 0, cls.least_octets, cls.nonzero_octets // 2
    if not issubclass(cls, Proposed) or cls.otherwise is None:
        return NO_DOUBT, 0, 0, int(issubclass(cls, Word)), 0, 0
    has_cpid = int(cls.has_cpid)
    return NUMBER_OF[cls.otherwise], has_cpid, MAX_OCTETS if cls.padded else 0, has_cpid, 0, 0


_SHARED_PORTS = sorted(
    {tuple(cls for cls in FORMATS if port in cls.udp_ports) for port in AFTER_PORTS}, key=str
)
"""Groups of formats with the same UDP port. A group can contain a single format."""


def _ports() -> NDArray[np.int8]:
    table = np.full(1 << 16, DATA_NUMBER, np.int8)
    for port in AFTER_PORTS:
        members = tuple(cls for cls in FORMATS if port in cls.udp_ports)
        table[port] = CHOSEN - _SHARED_PORTS.index(members) if len(members) > 1 else NUMBER_OF[members[0]]
    return table


def _chosen() -> NDArray[np.int8]:
    """Return the formats of shared UDP ports by their first two octets."""
    table = np.full((len(_SHARED_PORTS), (1 << 16) + 1), DATA_NUMBER, np.int8)
    for row, members in enumerate(_SHARED_PORTS):
        choose = AFTER_PORTS[members[0].udp_ports[0]]
        # two octets that select no format
        other = next(each for each in range(1 << 16) if all(each not in cls.selected_by for cls in members))
        table[row, :-1] = NUMBER_OF[choose(other.to_bytes(2, "big"), 0, 2)]
        for cls in members:
            table[row, list(cls.selected_by)] = NUMBER_OF[cls]
        table[row, -1] = NUMBER_OF[choose(b"", 0, 0)]
    return table


class _Chains:
    """The sequences of all formats."""

    def __init__(self) -> None:
        self.chain: list[int] = [-1]
        self.row: dict[type[Layer], int] = {}
        self.rows: list[list[int]] = [[NO_CHAIN] * (1 << 8)]
        for cls in FORMATS:
            if follow_rule(cls) != SEQUENCE and not (follow_rule(cls) == CONTENT and cls.sequences):
                continue
            self.row[cls] = len(self.rows)
            self.rows.append([NO_CHAIN] * (1 << 8))
            for value, following in cls.sequences.items():
                if following:
                    self.rows[-1][value] = len(self.chain)
                    self.chain += [*(NUMBER_OF[each] for each in following), -1]


_CHAINS = _Chains()


def _sequenced(cls: type[Layer]) -> tuple[int, ...]:
    if cls not in _CHAINS.row:
        return 0, 0, 0, 0, 0, -1
    position = _selecting(cls)
    assert position.mask < 1 << 8, f"{cls.prefix}: more than 8 bits select the following formats"
    assert cls.closed_by or cls.wraps, f"{cls.prefix}: no format closes the sequence"
    return *position, _CHAINS.row[cls], -1 if cls.closed_by is None else NUMBER_OF[cls.closed_by]


def _selecting(cls: type[Layer]) -> BitField:
    """Return the position of the bits that select a sequence."""
    whole, shift = bit_field(field_of(cls, cls.sequence_key)), cls.sequence_shift
    return whole._replace(shift=whole.shift + shift, mask=whole.mask >> shift)


_WRAPPERS = [cls for cls in FORMATS if issubclass(cls, Wrapper)]
_PACKETS: list[type[Packet]] = [Packet, *Packet.__subclasses__()]


def _contents_of(cls: type[Wrapper]) -> list[Mapping[int, type[Layer]]]:
    """Return the formats inside a wrapper, by the value that selects its sequence."""
    values = _selecting(cls).mask + 1 if cls.sequence_key else 1
    assert values <= _CONTENT_ROWS, f"{cls.prefix}: too many bits select the parts of its header"
    return [cls.contents(value) for value in range(values)]


_CONTENTS: list[Mapping[int, type[Layer]]] = []
for _contained in (each for cls in _WRAPPERS for each in _contents_of(cls)):
    if _contained not in _CONTENTS:
        _CONTENTS.append(_contained)


def _content(cls: type[Layer]) -> list[int]:
    none = [0] * (CONTENT_ROWS + _CONTENT_ROWS)
    if not issubclass(cls, Wrapper):
        return none
    key = bit_field(field_of(cls, cls.next_key)) if cls.next_key else none[:CONTENT_ROWS]
    rows = [*key, *map(_CONTENTS.index, _contents_of(cls))]
    return rows + none[len(rows) :]


def _contents() -> NDArray[np.int8]:
    table = np.full((len(_CONTENTS), 1 << 16), DATA_NUMBER, np.int8)
    for row, contents in enumerate(_CONTENTS):
        if FURTHER_ETHERTYPES in contents:
            table[row, MAX_LENGTH + 1 :] = BY_ETHERTYPE
        for value, cls in contents.items() - {(FURTHER_ETHERTYPES, Announced)}:
            number = BY_NIBBLE - _PACKETS.index(cls) if issubclass(cls, Packet) else NUMBER_OF[cls]
            table[row, value] = number
    return table


def _nibbles() -> list[list[int]]:
    return [[NUMBER_OF[packet.by_nibble.get(bits, Data)] for bits in range(16)] for packet in _PACKETS]


_SELECTORS: dict[str | int, tuple[tuple[int, int], ...]] = {
    "message": ((0, 0x07F0),), "tag": ((0, 0x07F0),), "mac_control": ((0, 0xFFFF),),
    ARP_ETHERTYPE: ((0, 0xFFFF), (2, 0xFFFF), (4, 0xFFFF)),
}  # fmt: skip
"""Words that choose among the formats of a shared EtherType. Each word has an offset and a mask."""


def _decisive(cls: type[Layer]) -> list[tuple[int, int]]:
    """Return the words of a layer that determine the walk to and from the layer."""
    masks = bytearray(cls.fixed_octets)
    followed = follow_rule(cls)
    fields = [bit_field(field_of(cls, each.key)) for each in cls.limits]
    fields += [BitField(*row[at : at + 4]) for row in [_tail(cls)] for at in (COUNT, WHEN)]
    leading = {
        IPV4: (IP_IHL, IP_LEN, IP_PROTO, IP_OFFSET),
        IPV6: (IPV6_PLEN, IPV6_NXT),
        ROUTED: (GRH_PLEN, GRH_NXT),
    }
    fields += leading.get(followed, ())
    if followed in (ANNOUNCED, COOKED):
        fields.append(bit_field(field_of(cls, cls.next_key)))
    if cls in _CHAINS.row:
        fields.append(_selecting(cls))
    if followed == CONTENT and cls.next_key:
        fields.append(bit_field(field_of(cls, cls.next_key)))
    # A UDP port alone determines the format. On a shared port, the first octets also determine the format.
    selecting = max(2 if cls.udp_ports and cls.selected_by else 0, cls.nonzero_octets)
    fields += [BitField(at, 2, 0, 0xFFFF) for at in range(0, selecting, 2)]
    if followed in (EXTENSION, FRAGMENT):
        fields += [bit_field(field_of(cls, key)) for key in ("nxt", "offset")[: 1 + (followed == FRAGMENT)]]
    fields += [BitField(at, 2, 0, mask) for at, mask in _SELECTORS.get(cls.announced_by, ())]
    for field in fields:
        bits = (field.mask << field.shift).to_bytes(field.octets, "big")
        for octet, mask in enumerate(bits, field.at):
            masks[octet] |= mask
    words: list[tuple[int, int]] = []
    for octet in range(len(masks)):
        if masks[octet]:
            at = min(octet, len(masks) - 2)
            words.append((at, int.from_bytes(masks[at : at + 2], "big")))
            masks[at : at + 2] = bytes(2)
    assert len(words) <= DECISIVE, cls.prefix
    return words + [(0, 0)] * (DECISIVE - len(words))


def _next_at(cls: type[Layer]) -> int:
    rule = follow_rule(cls)
    if rule not in (ANNOUNCED, COOKED, SNAPPED, PORT, IPV4, IPV6, EXTENSION, FRAGMENT, ROUTED):
        return 0
    key = cls.next_key or {PORT: "dstport", IPV4: "proto", ROUTED: "nxthdr"}.get(rule, "nxt")
    octets = 2 if rule in (ANNOUNCED, COOKED, SNAPPED, PORT) else 1
    position = bit_field(field_of(cls, key))
    assert (position.octets, position.shift) == (octets, 0), f"{cls.prefix}: no next header of whole octets"
    return position.at


def _announced(formats: Dispatch) -> NDArray[np.int8]:
    table = np.full(1 << 16, DATA_NUMBER, np.int8)
    for value, cls in formats.plain.items():
        table[value] = NUMBER_OF[cls]
    types = formats.ethertypes
    known = {types.message: WORD, types.tag: WORD, types.mac_control: OPCODE, types.lldp: LLDP}
    known[ARP_ETHERTYPE] = ARP_TYPES
    for value in formats.chosen:
        table[value] = known.get(value, STRANGE)
    return table


def _tags(formats: Dispatch) -> NDArray[np.bool_]:
    table = np.zeros(1 << 16, np.bool_)
    for value, cls in formats.plain.items():
        table[value] = follow_rule(cls) == ANNOUNCED and (_next_at(cls), cls.fixed_octets) == (2, 4)
    return table


def _snapped(formats: Dispatch) -> NDArray[np.bool_]:
    table = np.zeros(_WORDS, np.bool_)
    table[list(formats.after_snap)] = True
    return table


def _dispatch_tables(ethertypes: EtherTypes) -> tuple[NDArray[np.int8], Int64]:
    """Return the formats by their first two octets, and the formats of fewer than two octets."""
    formats = dispatch(ethertypes)
    values = np.arange(1 << 16, dtype=np.uint16)
    selectors = selector(0, 1) * (values >> 4 & 15) + selector(1, 0) * (values >> 8 & 7)
    tables, short = [], []
    for value, keys in (
        (ethertypes.message, selectors), (ethertypes.tag, selectors), (ethertypes.mac_control, values)
    ):  # fmt: skip
        choose = formats.chosen[value]
        by_key = np.full(len(values), NUMBER_OF[choose(b"\xff\xff", 0, 2)], np.int8)
        examples = np.zeros_like(values)  # all values with the same selector have the same format
        examples[keys] = values
        for key in {one for cls in _announced_by(value, ethertypes) for one in cls.selected_by}:
            by_key[key] = NUMBER_OF[choose(int(examples[key]).to_bytes(2, "big"), 0, 2)]
        tables.append(by_key[keys])
        short.append(NUMBER_OF[choose(b"", 0, 0)])
    short.append(NUMBER_OF[formats.chosen[ARP_ETHERTYPE](b"", 0, 0)])
    return np.array(tables, np.int8), np.array(short, np.int64)


def _announced_by(value: int, ethertypes: EtherTypes) -> list[type[Layer]]:
    return [cls for cls in FORMATS if announcement(cls, ethertypes) == value]


def _transport(formats: Dispatch) -> NDArray[np.int8]:
    rows = [[NUMBER_OF[formats.after_ip(ip, value)] for value in range(_OCTETS)] for ip in (IP4, IP6)]
    return np.array(rows, np.int8)


def repeated_formats(ethertypes: EtherTypes) -> frozenset[type[Layer]]:
    """Return the formats that can occur several times in a frame because they can follow themselves."""
    announced = frozenset(cls for cls in FORMATS if announcement(cls, ethertypes) is not None)
    lists = {cls: follow_rule(cls) for cls in FORMATS}
    chained = frozenset(cls for cls in FORMATS if lists[cls] in (EXTENSION, FRAGMENT))
    inside = frozenset(inner for cls in announced for inner in cls.holds)
    return (
        chained
        | inside
        | frozenset(
            cls
            for cls in announced
            if (lists[cls] in (ANNOUNCED, UNKNOWN) and cls.follows) or cls.announced_by == "lldp"
        )
    )
