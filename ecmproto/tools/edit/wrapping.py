"""Frames wrapped as mirrors and tunnels do it: GRE, ERSPAN, NVGRE, VXLAN, VXLAN-GPE, Geneve and TZSP.

A wrapper is an entry of `HEADERS`; the headers in front are formats like any others.
`ecmproto.frames.batch.inner` takes out again what is wrapped here.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import SpecError, shown
from ecmproto.frames.batch.inner import GENEVE_PORT, GPE_PORT, PROTO_GRE, TZSP_PORT, VXLAN_PORT
from ecmproto.wire.codec.document import layer_from, nearest
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ip import (
    DESTINATION_IP,
    DESTINATION_IP6,
    PROTO_UDP,
    SOURCE_IP,
    SOURCE_IP6,
    SOURCE_PORT,
    UDP,
    IPv4,
    IPv6,
)

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

HEADERS: dict[str, tuple[int, str]] = {
    "gre": (PROTO_GRE, "flags:16 protocol:16=0x6558 key:32?0x2000 sequence:32?0x1000"),
    "nvgre": (PROTO_GRE, "flags:16=0x2000 protocol:16=0x6558 vsid:24 flow:8 sequence:32?0x1000"),
    "erspan1": (PROTO_GRE, "flags:16 protocol:16=0x88be"),
    "erspan2": (
        PROTO_GRE,
        "flags:16=0x1000 protocol:16=0x88be sequence:32 version:4=1 vlan:12 cos:3 encapsulation:2 "
        "truncated:1 session:10 reserved:12 index:20",
    ),
    "erspan3": (
        PROTO_GRE,
        "flags:16=0x1000 protocol:16=0x22eb sequence:32 version:4=2 vlan:12 cos:3 bso:2 truncated:1 "
        "session:10 timestamp:32 sgt:16 p:1=1 ft:5 hardware:6 direction:1 granularity:2 o:1",
    ),
    "vxlan": (VXLAN_PORT, "flags:8=0x08 reserved:24 vni:24 reserved2:8"),
    "gpe": (GPE_PORT, "flags:8=0x0c reserved:16 next:8=3 vni:24 reserved2:8"),
    "geneve": (GENEVE_PORT, "version:2 options:6 control:1 critical:1 reserved:6 protocol:16=0x6558 vni:24 "
               "reserved2:8"),
    "tzsp": (TZSP_PORT, "version:8=1 type:8 encapsulated:16=1 end:8=1"),
}  # fmt: skip
"""Wrappers: the IP protocol, or the UDP port, that announces each, and the numbers of its header.

A number is ``NAME:BITS``, with ``=`` and its default if that is not 0.  One with ``?`` is there only where it
is given, and sets a flag in the first 16 bits.
"""
_NUMBER = re.compile(r"(\w+):(\d+)(?:=(\w+)|\?(\w+))?")
_WHERE = "--encap"
_ETHERNET_OCTETS, _IPV6_OCTETS = Ethernet.fixed_octets, IPv6.fixed_octets
_IPV4_LENGTH_AT, _IPV6_LENGTH_AT, _UDP_LENGTH_AT, _UDP_SUM_AT = 2, 4, 4, 6
_DONT_FRAGMENT = 2
_MAX_LENGTH = 0xFFFF
_TICK_NS = {0: 100_000, 1: 100}
"""The unit of ERSPAN III's time stamp, by its granularity."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """The octets that go in front of each frame, and the offsets in them of what differs from frame to frame.

    An offset of 0: the wrapper does not have it.  Made by `wrapper_from`.
    """

    name: str
    octets: bytes
    is_ip6: bool
    udp: int
    sequence: int
    timestamp: int
    tick_ns: int

    @property
    def max_frame_octets(self) -> int:
        """The maximum length of a frame, for which the length in the IP header has room."""
        behind = _ETHERNET_OCTETS + (_IPV6_OCTETS if self.is_ip6 else 0)
        return _MAX_LENGTH + behind - len(self.octets)

    def rows(self, frame_octets: Int64, whole: NDArray[np.bool_], time_ns: Int64, *, before: int) -> Octets:
        """Return the octets in front of frames, a row each; the checksums are still to be computed.

        ``frame_octets`` are the lengths of the frames on the wire, ``before`` counts the frames that were
        wrapped earlier.  A UDP checksum is 0 (none) unless the frame is ``whole``.
        """
        rows = np.tile(np.frombuffer(self.octets, np.uint8), (len(frame_octets), 1))
        length = frame_octets + len(self.octets) - _ETHERNET_OCTETS
        if self.is_ip6:
            _put(rows, _ETHERNET_OCTETS + _IPV6_LENGTH_AT, 2, length - _IPV6_OCTETS)
        else:
            _put(rows, _ETHERNET_OCTETS + _IPV4_LENGTH_AT, 2, length)
        if self.udp:
            _put(rows, self.udp + _UDP_LENGTH_AT, 2, length + _ETHERNET_OCTETS - self.udp)
            _put(rows, self.udp + _UDP_SUM_AT, 2, np.where(whole, 0xFFFF, 0))
        if self.sequence:
            first = int.from_bytes(self.octets[self.sequence : self.sequence + 4])
            _put(rows, self.sequence, 4, first + before + np.arange(len(rows)))
        if self.timestamp:
            _put(rows, self.timestamp, 4, time_ns // self.tick_ns)
        return rows


def _put(rows: Octets, at: int, octets: int, values: Int64) -> None:
    rows[:, at : at + octets] = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, -octets:]


def wrapper_from(text: str) -> Wrapper:
    """Return the wrapper that ``erspan2,session=12,src=10.0.0.1`` means; SpecError, EncodeError.

    Keys are the numbers of its header (`HEADERS`), ``src`` and ``dst`` of its IP header (of IPv6 where one of
    them is an IPv6 address), and fields of the headers in front by their names, as in ``eth.dst`` or
    ``ip.ttl``.
    """
    name, *words = text.replace(",", " ").split() or [""]
    if name not in HEADERS:
        raise SpecError(where=_WHERE, needed="a wrapper", got=shown(name), hint=nearest(name, HEADERS))
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in given:
            raise SpecError(where=_WHERE, needed="each value once, as session=12", got=shown(word))
        given[key] = value
    announced, numbers = HEADERS[name]
    front = _front(given, None if announced == PROTO_GRE else announced)
    header, places, granularity = _header(name, numbers, given)
    octets = [each.build() for each in front]
    start = sum(map(len, octets))
    return Wrapper(
        name=name, octets=b"".join((*octets, header)), is_ip6=isinstance(front[1], IPv6),
        udp=start - len(octets[-1]) if isinstance(front[-1], UDP) else 0,
        sequence=start + places["sequence"] if "sequence" in places else 0,
        timestamp=start + places["timestamp"] if "timestamp" in places and granularity in _TICK_NS else 0,
        tick_ns=_TICK_NS.get(granularity, 1),
    )  # fmt: skip


def _front(given: dict[str, str], port: int | None) -> list[Layer]:
    """Return the headers in front of a wrapper's own, with the values that are taken out of ``given``."""
    protocol = PROTO_GRE if port is None else PROTO_UDP
    items: dict[str, dict[str, object]] = {
        "eth": {"dst": bytes.fromhex("020000000002"), "src": bytes.fromhex("020000000001")}
    }
    if any(":" in given.get(end, "") for end in ("src", "dst")):
        network: type[Layer] = IPv6
        items["ipv6"] = {"src": SOURCE_IP6, "dst": DESTINATION_IP6, "nxt": protocol}
    else:
        network = IPv4
        items["ip"] = {"src": SOURCE_IP, "dst": DESTINATION_IP, "proto": protocol, "flags": _DONT_FRAGMENT}
    items["eth"]["type"] = network.announced_by
    if port is not None:
        items["udp"] = {"srcport": SOURCE_PORT, "dstport": port}
    for key in list(given):
        prefix, dot, field = (network.prefix, ".", key) if key in ("src", "dst") else key.partition(".")
        if dot:
            if prefix not in items:
                needed = f"a field of {', '.join(items)}"
                raise SpecError(where=_WHERE, needed=needed, got=shown(key))
            items[prefix][field] = given.pop(key)
    return [layer_from({"layer": prefix, **item}, where=_WHERE)[0] for prefix, item in items.items()]


def _header(name: str, numbers: str, given: dict[str, str]) -> tuple[bytes, dict[str, int], int]:
    """Return the octets of a wrapper's header, the offsets of its numbers of 32 bits, and its granularity.

    A time stamp that is given is the same in all frames: it has no offset.
    """
    fields = {found[1]: found for found in _NUMBER.finditer(numbers)}
    for key in given:
        if key not in fields:
            where = f"{_WHERE} {name}"
            raise SpecError(where=where, needed="a key", got=shown(key), hint=nearest(key, fields))
    value = flags = bits = granularity = 0
    places = {}
    for key, (_, width, default, flag) in ((key, found.groups()) for key, found in fields.items()):
        if flag and key not in given:
            continue
        number = _number(name, key, given.get(key, default or "0"), int(width))
        if int(width) == 32 and (key != "timestamp" or key not in given):
            places[key] = bits // 8
        granularity = number if key == "granularity" else granularity
        flags |= int(flag or "0", 0)
        value, bits = value << int(width) | number, bits + int(width)
    return (value | flags << bits - 16).to_bytes(bits // 8), places, granularity


def _number(name: str, key: str, text: str, bits: int) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << bits:
        needed = f"an integer in 0..{(1 << bits) - 1}"
        raise SpecError(where=f"{_WHERE} {name},{key}", needed=needed, got=shown(text))
    return number
