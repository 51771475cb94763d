"""Frames wrapped as by mirrors and tunnels: GRE, ERSPAN, NVGRE, VXLAN, VXLAN-GPE, Geneve and TZSP.

A wrapper is an entry of `WRAPPERS`, and its layers are ordinary formats. `ecmproto.frames.batch.inner`
removes these wrappers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import SpecError, hint_on_name, shown
from ecmproto.tools.edit.selection import name_and_values
from ecmproto.wire.codec.document import layer_from
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3, TICK_NS
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import ERSPAN_3_TYPE, ERSPAN_TYPE, GRE, KEY, SEQUENCE, GRESequence, NVGREKey
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
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.tzsp import TZSP, Mark
from ecmproto.wire.formats.vxlan import GPE, VXLAN

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_NUMBERED = SEQUENCE << GRE.sequence_shift
WRAPPERS: dict[str, tuple[Layer, ...]] = {
    "gre": (GRE(),),
    "nvgre": (GRE(flags=KEY << GRE.sequence_shift), NVGREKey()),
    "erspan1": (GRE(protocol=ERSPAN_TYPE),),
    "erspan2": (GRE(flags=_NUMBERED, protocol=ERSPAN_TYPE), GRESequence(), ERSPAN()),
    "erspan3": (GRE(flags=_NUMBERED, protocol=ERSPAN_3_TYPE), GRESequence(), ERSPAN3()),
    "vxlan": (VXLAN(),),
    "gpe": (GPE(),),
    "geneve": (Geneve(),),
    "tzsp": (TZSP(), Mark()),
}
"""Layers of each wrapper, by name."""
_WHERE = "--encap"
_ETHERNET_OCTETS, _IPV6_OCTETS = Ethernet.fixed_octets, IPv6.fixed_octets
_IPV4_LENGTH_AT, _IPV6_LENGTH_AT, _UDP_LENGTH_AT, _UDP_SUM_AT = 2, 4, 4, 6
_DONT_FRAGMENT = 2
_MAX_LENGTH = 0xFFFF


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """The octets that precede each frame, and the offsets of the fields that differ between frames.

    An offset of 0 means that the wrapper has no such field. Created by `wrapper_from`.
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
        """Maximum length in octets of a frame that fits into an IP packet."""
        overhead = _ETHERNET_OCTETS + (_IPV6_OCTETS if self.is_ip6 else 0)
        return _MAX_LENGTH + overhead - len(self.octets)

    def rows(self, frame_octets: Int64, whole: NDArray[np.bool_], time_ns: Int64, *, before: int) -> Octets:
        """Return the octets that precede frames, one row per frame; checksums must be computed afterwards.

        ``frame_octets`` are the lengths of the frames on the wire. ``before`` is the number of frames that
        were wrapped earlier. The UDP checksum is 0 (no checksum) for frames that are not ``whole``.
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
    """Return the wrapper for a text such as ``erspan2,session=12,src=10.0.0.1``.

    Keys are the fields of the wrapper's layers (`WRAPPERS`), ``src`` and ``dst`` for the IP header, and names
    of fields in the preceding headers, such as ``eth.dst`` or ``ip.ttl``. The IP header is IPv6 if one of the
    addresses is an IPv6 address. Raises SpecError for an invalid text, and EncodeError for an invalid value.
    """
    name, given = name_and_values(text, where=_WHERE, needed="each value once, such as session=12")
    if name not in WRAPPERS:
        raise SpecError(where=_WHERE, needed="a wrapper", got=shown(name), hint=hint_on_name(name, WRAPPERS))
    layers = list(WRAPPERS[name])
    front = _front(given, layers[0])
    for key, text in given.items():
        at, field = _field(name, layers, key)
        layers[at] = layers[at].replace(**{field.key: _number(name, field, text)})
    octets = [each.build() for each in (*front, *layers)]
    start = sum(map(len, octets[: len(front)]))
    offsets = {key: start + bit // 8 for key, bit in _offsets(layers)}
    # A given time stamp is the same in all frames.
    tick_ns = TICK_NS.get(getattr(layers[-1], "granularity", -1)) if "timestamp" not in given else None
    return Wrapper(
        name=name, octets=b"".join(octets), is_ip6=isinstance(front[1], IPv6),
        udp=start - len(octets[len(front) - 1]) if isinstance(front[-1], UDP) else 0,
        sequence=offsets.get("sequence", 0), timestamp=offsets["timestamp"] if tick_ns else 0,
        tick_ns=tick_ns or 1,
    )  # fmt: skip


def _offsets(layers: Sequence[Layer]) -> Iterator[tuple[str, int]]:
    """Yield the key and the first bit of each field of layers."""
    start = 0
    for value in layers:
        yield from ((field.key, 8 * start + field.bit_offset) for field in value.layout)
        start += len(value.build())


def _field(name: str, layers: list[Layer], key: str) -> tuple[int, Field]:
    """Return the index of the layer with the numeric field ``key``, and the field.

    If the field belongs to an optional part of a header, the part is added to ``layers``.
    """
    known: dict[str, tuple[int, Field]] = {
        field.key: (at, field) for at, value in enumerate(layers) for field in value.layout if field.is_number
    }
    if key in known:
        return known[key]
    values, first = dict(layers[0].sequences), layers[0]
    for value, sequence in sorted(values.items(), key=lambda each: len(each[1])):
        fields = [field for cls in sequence for field in cls.layout if field.key == key]
        if fields and {*map(type, layers[1:])} <= set(sequence):
            by_type = {type(each): each for each in layers}
            layers[0] = first.replace(**{first.sequence_key: value << first.sequence_shift})
            layers[1:] = [by_type.get(cls) or cls() for cls in sequence]
            return 1 + next(at for at, cls in enumerate(sequence) if fields[0] in cls.layout), fields[0]
    known |= {
        field.key: (0, field) for cls in (() if len(layers) > 1 else _parts(first)) for field in cls.layout
    }
    where = f"{_WHERE} {name}"
    raise SpecError(where=where, needed="a key", got=shown(key), hint=hint_on_name(key, known))


def _parts(wrapper: Layer) -> tuple[type[Layer], ...]:
    return max(wrapper.sequences.values(), key=len, default=())


def _front(given: dict[str, str], wrapper: Layer) -> list[Layer]:
    """Return the headers that precede the wrapper, with values that are removed from ``given``."""
    protocol = PROTO_UDP if wrapper.ip_protocol is None else wrapper.ip_protocol
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
    for port in wrapper.udp_ports[:1]:
        items["udp"] = {"srcport": SOURCE_PORT, "dstport": port}
    for key in list(given):
        prefix, dot, field = (network.prefix, ".", key) if key in ("src", "dst") else key.partition(".")
        if dot:
            if prefix not in items:
                needed = f"a field of {', '.join(items)}"
                raise SpecError(where=_WHERE, needed=needed, got=shown(key))
            items[prefix][field] = given.pop(key)
    return [layer_from({"layer": prefix, **item}, where=_WHERE)[0] for prefix, item in items.items()]


def _number(name: str, field: Field, text: str) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= field.maximum:
        needed = f"an integer in 0..{field.maximum}"
        raise SpecError(where=f"{_WHERE} {name},{field.key}", needed=needed, got=shown(text))
    return number
