"""Complete frames from given layers and fields, with default layers, default values and computed fields.

>>> build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3)

By default, a source station sends to a destination through a congestion point.  MAC addresses are locally
administered, and IP addresses are from documentation ranges.  `complete` adds the required layers and the
values of missing fields.  Therefore, the name of a format alone creates a valid frame.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence

from ecmproto.tools.craft.stack import LEADERS, VLAN_TAGS, Part, Stack, give_fields, stack_from_line
from ecmproto.tools.craft.wrapping import complete_wrappers, frames_in
from ecmproto.wire.codec.frame import Frame, encode, fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNM, MAX_MSDU, CNTag
from ecmproto.wire.formats.e2cm import BCN_TYPES, E2CM, PROBE_FWD, PROBE_REV, flow_id
from ecmproto.wire.formats.ethernet import Data, Ethernet, ITag
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.gre import GREChecksum
from ecmproto.wire.formats.ip import (
    ARP,
    DESTINATION_IP,
    DESTINATION_PORT,
    EXTENSIONS,
    SOURCE_IP,
    SOURCE_PORT,
    TCP,
    UDP,
    EthernetARP,
    IPv4,
    IPv4ARP,
    IPv6,
    OtherARP,
)
from ecmproto.wire.formats.lldp import END, TLV, CongestionNotificationTLV
from ecmproto.wire.formats.mac_control import PFC
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import cpid
from ecmproto.wire.formats.wrapper import may_wrap


def build(kind: str, /, *, ethertypes: EtherTypes = DEFAULT, raw: bool = False, **fields: object) -> Frame:
    """Return a frame of ``kind``, which is a format name or a line such as ``"vlan id=5 cntag flow_id=7"``.

    ``fields`` are fields of the last named layer or of a layer that the format implies. For example, a CNM
    implies a CN-TAG with ``flow_id``, and the shorthands ``dst``, ``src``, ``vlan`` and ``prio`` apply to
    every format. Missing fields are computed or get default values. Given values are kept, even if they are
    invalid. ``raw`` disables default layers, computed fields and padding. Raises SpecError for an unknown
    name, and EncodeError for a value out of range.
    """
    stack = stack_from_line(kind)
    give_fields(stack, fields)
    stack.settle()
    return finish(stack, ethertypes=ethertypes, raw=raw).frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A complete frame, with the keys of the given fields and the `Part` for each layer."""

    frame: Frame
    given: tuple[frozenset[str], ...]
    parts: tuple[Part, ...]


def finish(
    stack: Stack,
    *,
    ethertypes: EtherTypes = DEFAULT,
    raw: bool = False,
    padding: bytes = b"",
    trailer: bytes = b"",
    fcs: bytes = b"",
) -> Finished:
    """Return the complete frame of a settled ``stack``. Raises EncodeError for a value that does not fit."""
    # complete() adds parts, and finish() may be called many times for a stack
    whole = Stack()
    whole.parts = list(stack.parts)
    defaults = [{} for _ in whole.parts] if raw else complete(whole)
    layers = [part.made(filled) for part, filled in zip(whole.parts, defaults, strict=True)]
    given = tuple(part.given for part in whole.parts)
    frame = Frame(layers=tuple(layers), padding=padding, trailer=trailer, fcs=fcs, ethertypes=ethertypes)
    if raw:
        encode(frame)
    else:
        frame = put_right(frame, given)
    return Finished(frame=frame, given=given, parts=tuple(whole.parts))


def put_right(frame: Frame, given: Sequence[Collection[str]]) -> Frame:
    """Return the frame with computed types, lengths, checksums and padding. Given fields are unchanged."""
    frame = fixed(frame, given)
    if not any(_needs_sum(value, keys) for value, keys in zip(frame.layers, given, strict=True)):
        return frame

    from ecmproto.frames.columns.building.template import summed

    return summed(frame, given, transport=True)


def _needs_sum(value: Layer, given: Collection[str]) -> bool:
    """Return whether the checksum of a layer is not computed yet.

    Checksums with a pseudo header and checksums over given fields are computed later.
    """
    if isinstance(value, IPv4):
        return not {"ihl", "len", "proto"}.isdisjoint(given)
    if isinstance(value, UDP):
        return value.checksum != 0
    return isinstance(value, IPv6 | TCP | GREChecksum)


SOURCE = bytes.fromhex("020000000001")
"""MAC address of the station whose frames are sampled."""
DESTINATION = bytes.fromhex("020000000002")
"""Default destination MAC address."""
CONGESTION_POINT = bytes.fromhex("0200000000c1")
"""MAC address of the bridge with the congested queue."""

SAMPLED_OCTETS = 48
"""Number of octets of the sampled frame in an ECM, BCN or E²CM message (wire-formats 4)."""
_TTL_S = 120
_CHASSIS, _PORT, _TTL = 1, 2, 3
_BY_MAC, _BY_NAME = b"\x04", b"\x05"
_ADDRESSES = 12
_SAMPLED_DATA = bytes(64)
_PAYLOAD = bytes(18)

Values = dict[str, int | bytes]


def complete(stack: Stack) -> list[Values]:
    """Add the required layers to a stack, and return the default values of each layer.

    The caller overrides the default values with the given fields. The encoder computes types, lengths and
    checksums.
    """
    frames = frames_in(stack.parts)
    stack.parts, values = [], []
    for number, parts in enumerate(frames):
        frame = Stack()
        frame.parts = parts
        announced: dict[Part, Values] = {}
        if number + 1 < len(frames):
            announced = complete_wrappers(parts, next(iter(frames[number + 1]), None))
        wrapper = next((part.cls for part in reversed(stack.parts) if part.cls.wraps), None)
        is_packet = wrapper is not None and bool(parts) and may_wrap(wrapper, parts[0].cls)
        filled = _complete_frame(frame, headless=is_packet)
        values += [each | announced.get(part, {}) for part, each in zip(frame.parts, filled, strict=True)]
        stack.parts += frame.parts
    return values


def _complete_frame(stack: Stack, *, headless: bool) -> list[Values]:
    """Complete one of several nested frames, without an Ethernet header if ``headless`` is true."""
    stack.parts += [] if stack.parts else [Part(Ethernet)]
    if stack.is_lldp:
        _complete_lldp(stack)
    _complete_sequence(stack)
    _complete_ip(stack)
    if not headless and (not stack.parts or stack.parts[0].cls is not Ethernet):
        stack.parts.insert(0, Part(Ethernet))
    last = stack.parts[-1]
    if last.cls.role != "wrapper" and last.cls.next_key and last.cls.next_key not in last.values:
        stack.parts += [Part(IPv4), Part(UDP), Part(Data, {"data": _PAYLOAD})]
    addresses = _addresses(stack)
    return [_values_of(part, stack, addresses) for part in stack.parts]


def _complete_sequence(stack: Stack) -> None:
    """Add the missing parts before and after a part that belongs to a sequence of formats."""
    index = next((i for i, part in enumerate(stack.parts) if part.cls.closed_by is not None), None)
    if index is None:
        index = next((i for i, part in enumerate(stack.parts) if part.cls in LEADERS), None)
        if index is None:
            return
        leader, key, number = LEADERS[stack.parts[index].cls]
        stack.parts.insert(index, Part(leader, {key: number}))
    part = stack.parts[index]
    value = part.values.get(part.cls.sequence_key)
    named = part.cls() if value is None else part.cls().replace(**{part.cls.sequence_key: value})
    for position, cls in enumerate(named.following_headers(), index + 1):
        if position == len(stack.parts) or stack.parts[position].cls is not cls:
            stack.parts.insert(position, Part(cls))
    if part.cls.closed_by is not None and stack.parts[-1].cls is not part.cls.closed_by:
        stack.parts.append(Part(part.cls.closed_by))


def _complete_ip(stack: Stack) -> None:
    """Add missing UDP and IP headers.

    UDP is added before a format with a UDP port, and as the payload of an empty IP header. IP is added before
    UDP or TCP.
    """
    _put_under(stack, lambda cls: bool(cls.udp_ports), (UDP, *_ROUTERS))
    _put_under(stack, lambda cls: cls.ip_protocol is not None and cls.role != "header", _IP)
    last = stack.parts[-1]
    if (last.cls is IPv4 and "proto" not in last.values) or (last.cls is IPv6 and "nxt" not in last.values):
        stack.parts += [Part(UDP), Part(Data, {"data": _PAYLOAD})]


_ROUTERS = tuple(cls for cls in FORMATS if cls.follows == "grh")
"""Formats that replace IP and UDP."""
_IP = (IPv4, IPv6, *EXTENSIONS.values())


def _put_under(stack: Stack, needs: Callable[[type[Layer]], bool], under: tuple[type[Layer], ...]) -> None:
    """Insert the first format of ``under`` before a part that needs a format of ``under`` and does not follow
    one.

    A format that also has an EtherType needs a header from ``under`` only after IP.
    """
    for index, part in enumerate(stack.parts):
        before = stack.parts[index - 1].cls if index else None
        if needs(part.cls) and before not in under and (not part.cls.announced_by or before in _IP):
            stack.parts.insert(index, Part(under[0]))
            return


def _complete_lldp(stack: Stack) -> None:
    """Add the mandatory TLVs of an LLDPDU (802.1AB 8.2).

    Chassis ID, port ID and time to live come first, and the end TLV comes last.
    """
    first = next(i for i, part in enumerate(stack.parts) if part.is_tlv)
    if len(stack.parts) == first + 1 and not stack.parts[first].values and stack.parts[first].cls is TLV:
        stack.parts[first] = Part(CongestionNotificationTLV)
    source = stack.parts[0].values.get("src", CONGESTION_POINT) if stack.parts[0].cls is Ethernet else None
    address = source if isinstance(source, bytes) else CONGESTION_POINT
    if stack.parts[first].cls is not TLV or stack.parts[first].values.get("type") != _CHASSIS:
        stack.parts[first:first] = [
            Part(TLV, {"type": _CHASSIS, "value": _BY_MAC + address}),
            Part(TLV, {"type": _PORT, "value": _BY_NAME + b"port1"}),
            Part(TLV, {"type": _TTL, "value": _TTL_S.to_bytes(2, "big")}),
        ]
    last = stack.parts[-1]
    if last.cls is not TLV or last.values.get("type", END) != END:
        stack.parts.append(Part(TLV))


def _kind(stack: Stack) -> Part:
    """Return the part that determines the frame type: a message, a control frame, or else the last part."""
    types = ("message", "flow control")
    # every LLDPDU ends with an empty TLV
    return next((part for part in stack.parts if part.cls.role in types or part.is_tlv), stack.parts[-1])


def _addresses(stack: Stack) -> tuple[bytes, bytes]:
    """Return the destination and source addresses. Missing addresses get the default of the frame type."""
    given = stack.parts[0].values
    dst, src = _default_addresses(_kind(stack))
    da, sa = given.get("dst", dst), given.get("src", src)
    assert isinstance(da, bytes)
    assert isinstance(sa, bytes)
    return da, sa


_STATIONS = {
    "data": (DESTINATION, SOURCE), "feedback": (SOURCE, CONGESTION_POINT), "reply": (SOURCE, DESTINATION),
    "link": (DESTINATION, CONGESTION_POINT),
}  # fmt: skip
"""Destination and source of a frame, by direction."""


def _default_addresses(kind: Part) -> tuple[bytes, bytes]:
    dst, src = _STATIONS[kind.cls.direction_of(kind.values)]
    return kind.cls.crafting.destination or dst, src


def _values_of(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    if part.cls in VLAN_TAGS:
        outermost = next(stack.tags()) is part
        return {"priority": _message_priority(_kind(stack))} if outermost else {}
    fill = _FILL.get(part.cls)
    values = fill(part, stack, addresses) if fill else _declared(part, stack, addresses)
    for other in stack.parts:
        values |= other.cls.crafting.outer.get(part.cls, {})
    return values


def _declared(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    """Return the declared default values of a format, including the CPID and the sampled frame."""
    cls = part.cls
    values = dict(cls.crafting.values)
    point = addresses[1] if cls.role == "message" else CONGESTION_POINT
    values |= {field.key: cpid(point, 1) for field in cls.layout if field.kind == "cpid"}
    if cls.shows is not None and cls.layout[-1].key not in part.values:
        start = 0 if cls.shows is Ethernet else _ADDRESSES
        values[cls.layout[-1].key] = _shown(stack, addresses[0])[start : start + SAMPLED_OCTETS]
    return values


def _message_priority(kind: Part) -> int:
    return 0 if kind.cls.direction_of(kind.values) == "data" else kind.cls.crafting.priority


def _ethernet(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    return {"dst": addresses[0], "src": addresses[1]}


def _i_tag(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    return {"cdst": DESTINATION, "csrc": SOURCE}


def _cnm(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    station, point = addresses
    dst = part.values.get("encap_dst", DESTINATION)
    assert isinstance(dst, bytes)
    msdu = _sampled((), dst, station)[_ADDRESSES : _ADDRESSES + MAX_MSDU]
    return {"cpid": cpid(point, 1), "encap_dst": dst, "msdu": msdu}


def _shown(stack: Stack, station: bytes) -> bytes:
    """Return the sampled frame of a message.

    The frame comes from ``station`` and has the tags of the message.
    """
    tags: list[Layer] = []
    for tag in stack.parts:
        if tag.cls in VLAN_TAGS:
            # the priority of the message does not apply to the sampled frame, which gets the default priority
            tags.append(tag.cls().replace(**_only(tag, "id")))
        elif tag.cls is CNTag:
            tags.append(CNTag().replace(**_only(tag, "flow_id")))
    return _sampled(tuple(tags), DESTINATION, station)


def _only(part: Part, key: str) -> Values:
    return {key: part.values[key]} if key in part.values else {}


def _e2cm(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    kind = part.values.get("type", 0)
    backwards = kind in BCN_TYPES or kind == PROBE_REV
    flow_src = addresses[0] if backwards else addresses[1]
    flow_dst = DESTINATION if kind in BCN_TYPES else addresses[1] if backwards else addresses[0]
    tag = next(stack.tags(), None)
    priority = tag.values.get("priority", 0) if tag and kind == PROBE_FWD else 0
    assert isinstance(priority, int)
    hashed: Values = {"flow_id": flow_id(flow_dst, flow_src, priority)}
    if kind in BCN_TYPES:
        return _declared(part, stack, addresses) | hashed
    return hashed | {"cpid": cpid(flow_dst, 0)}


@functools.lru_cache(maxsize=64)
def _sampled(tags: tuple[Layer, ...], dst: bytes, src: bytes) -> bytes:
    """Return the octets of a sampled UDP frame with ``tags`` after the addresses."""
    ip = IPv4(src=SOURCE_IP, dst=DESTINATION_IP)
    udp = UDP(srcport=SOURCE_PORT, dstport=DESTINATION_PORT)
    layers = (Ethernet(dst=dst, src=src), *tags, ip, udp, Data(data=_SAMPLED_DATA))
    return encode(Frame(layers=layers), fix=True)


def _pfc(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    """Return an enable vector with the priorities whose times are given.

    A given time of 0 is enabled too, because a time of 0 resumes the priority.
    """
    enabled = [priority for priority in range(8) if f"time{priority}" in part.values]
    if enabled:
        return {"class_enable_vector": sum(1 << priority for priority in enabled)}
    return {} if part.values else {"class_enable_vector": 1 << 3, "time3": 0xFFFF}


def _cn_tlv(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    return {} if part.values else {"cnpv": 1 << 3, "ready": 1 << 3}


def _arp(part: Part, stack: Stack, addresses: tuple[bytes, bytes]) -> Values:
    """Return the default addresses of an ARP packet: MAC and IPv4 addresses.

    For other address types, a missing address gets zeros and the length of the given address.
    """
    known = {"src_hw": addresses[1], "src_proto": SOURCE_IP, "dst_proto": DESTINATION_IP}
    formats = {field.key: field.kind for field in part.cls.layout}
    values: dict[str, int | bytes] = {key: value for key, value in known.items() if formats[key] != "octets"}
    for one, other in (("src_hw", "dst_hw"), ("src_proto", "dst_proto")):
        for given, left in ((one, other), (other, one)):
            octets = part.values.get(given)
            if formats[left] == "octets" and isinstance(octets, bytes):
                values[left] = bytes(len(octets))
    return values


_FILL: dict[type[Layer], Callable[[Part, Stack, tuple[bytes, bytes]], Values]] = {
    Ethernet: _ethernet, ITag: _i_tag, CNM: _cnm, E2CM: _e2cm, PFC: _pfc, CongestionNotificationTLV: _cn_tlv,
    ARP: _arp, EthernetARP: _arp, IPv4ARP: _arp, OtherARP: _arp,
}  # fmt: skip
"""Functions that return default values, for formats whose defaults depend on other layers or fields."""
