"""Comparison of the Scapy layers with the decoder of single frames: octets, layers and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scapy.layers.l2 import Dot1AD, Dot1AH, Dot1Q, Dot3, Ether
from scapy.packet import Packet, Padding, Raw
from scapy.utils import mac2str

from ecmproto.tools.fuzz.checks.base import Difference, frames_of
from ecmproto.wire import codec
from ecmproto.wire.formats import infiniband
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.wire.layers.bindings import LAYERS, to_scapy
from ecmproto.wire.layers.derived import RENAMED
from ecmproto.wire.layers.infiniband import EXTENDED, SCAPY_NAMES, contrib

_SCAPYS_OWN: dict[type[codec.Layer], tuple[type[Packet], dict[str, str]]] = {
    codec.VLAN: (Dot1Q, {"priority": "prio", "id": "vlan", "etype": "type"}),
    codec.STag: (Dot1AD, {"priority": "prio", "id": "vlan", "etype": "type"}),
    codec.ITag: (Dot1AH, {"priority": "prio", "drop": "dei"}),
}
_I_TAG_FIELDS = 6
"""Number of I-TAG fields before the customer addresses, which Scapy adds to the next layer."""


_DEEPEST = 100
"""Maximum number of compared layers, because Scapy recurses and stops at about 190 layers."""


class ScapyCheck:
    """Check that Scapy dissects each item to the same values and builds the same octets."""

    name = "scapy"
    every = 16

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield octets that Scapy does not restore, and fields of valid frames that differ."""
        for row, (octets, frame) in enumerate(zip(items, frames_of(items), strict=True)):
            packet = to_scapy(octets, ethertypes=DEFAULT)
            if bytes(packet) != octets:
                detail = f"{bytes(packet).hex()} for {octets.hex()}"
                yield Difference(what="octets are not restored", detail=detail, row=row)
            if frame.error is not None:
                continue
            differences = *packet_differences(frame, packet), *roce_differences(frame, packet)
            for what, detail in differences:
                yield Difference(what=what, detail=f"{detail} in {octets.hex()}", row=row)


def packet_differences(frame: codec.Frame, packet: Packet) -> Iterator[tuple[str, str]]:
    """Yield the differences between a frame and a Scapy packet in common layers.

    Each difference has a name and both values.
    """
    for depth, value in enumerate(frame.layers):
        if depth > _DEEPEST and type(packet) is Raw:
            return
        if not isinstance(value, codec.Ethernet) and type(value) not in _SCAPYS_OWN | LAYERS:
            return
        expected, cls = _as_scapy(value)
        if type(packet) is not cls:
            yield f"the layer of {type(value).__name__}", f"{type(packet).__name__}, not {cls.__name__}"
            return
        yield from _different(packet, expected, type(value).__name__)
        packet = packet.payload
        if isinstance(value, codec.ITag):
            expected, _ = _header(value.cdst, value.csrc, value.etype)
            yield from _different(packet, expected, "ITag")
            packet = packet.payload
    if packet.layers() not in ([], [Padding]):
        yield "layers after the last", str(packet.layers())


def roce_differences(frame: codec.Frame, packet: Packet) -> Iterator[tuple[str, str]]:
    """Yield the differences between a RoCE frame and a Scapy packet.

    The fields of the BTH, the extended headers and the CRC are compared. Scapy uses the UDP length, not the
    IP length, and reads a BTH at any port.
    """
    index = next((at for at, value in enumerate(frame.layers) if isinstance(value, infiniband.BTH)), None)
    if index is None or not isinstance(frame.layers[-1], infiniband.ICRC):
        return
    octets = frame.starts[-1] - frame.starts[index]
    under = frame.layers[index - 1]
    exact = under.length == 8 + octets if isinstance(under, codec.UDP) else under.paylen == octets  # type: ignore[attr-defined]
    roce = contrib()
    header = packet.getlayer(roce.BTH)
    if not exact or frame.trailer or frame.padding or header is None:
        return
    value = frame.layers[index]
    expected = {
        SCAPY_NAMES.get(field.key, field.key): getattr(value, field.key) for field in infiniband.BTH.layout
    }
    yield from _different(header, expected | {"icrc": frame.layers[-1].crc}, "BTH")
    packet = header.payload
    for value in frame.layers[index + 1 : -1]:
        cls = EXTENDED.get(type(value), roce.AETH if isinstance(value, infiniband.AETH) else None)
        if cls is None:
            return
        if type(packet) is not cls:
            yield f"the layer of {type(value).__name__}", f"{type(packet).__name__}, not {cls.__name__}"
            return
        fields = {field.key: getattr(value, field.key) for field in value.layout}
        yield from _different(packet, fields, type(value).__name__)
        packet = packet.payload


def _as_scapy(value: codec.Layer) -> tuple[dict[str, Any], type[Packet]]:
    """Return the expected values of the Scapy layer for ``value`` by Scapy name, and the layer's class."""
    if isinstance(value, codec.Ethernet):
        return _header(value.dst, value.src, value.type)
    names: dict[str, str] = RENAMED
    cls = LAYERS.get(type(value))
    if cls is None:
        cls, names = _SCAPYS_OWN[type(value)]
    fields = value.layout[:_I_TAG_FIELDS] if isinstance(value, codec.ITag) else value.layout
    return {names.get(field.key, field.key): getattr(value, field.key) for field in fields}, cls


def _header(dst: bytes, src: bytes, ethertype: int) -> tuple[dict[str, Any], type[Packet]]:
    key, cls = ("len", Dot3) if ethertype <= MAX_LENGTH else ("type", Ether)
    return {"dst": dst, "src": src, key: ethertype}, cls


def _different(packet: Packet, expected: dict[str, Any], layer: str) -> Iterator[tuple[str, str]]:
    for name, value in expected.items():
        got = packet.getfieldval(name)
        if isinstance(value, bytes):
            # in Scapy, addresses are text and other octets are bytes
            got = mac2str(got) if isinstance(got, str) else bytes(got)
        if got != value:
            yield f"{layer}.{name}", f"{got!r}, not {value!r}"
