"""Deeper payload trees on demand: a whole frame as Scapy sees it, down to IP, TCP, UDP, DNS, ….

>>> print(payload_text(octets))
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

from scapy.fields import ConditionalField
from scapy.packet import NoPayload, Packet

from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.layers.bindings import bound
from ecmproto.layers.conversion import to_scapy

DEEP_MODULES = (
    "scapy.layers.inet", "scapy.layers.inet6", "scapy.layers.dhcp", "scapy.layers.dhcp6",
    "scapy.layers.dns", "scapy.layers.ntp", "scapy.layers.sctp", "scapy.layers.vxlan",
)  # fmt: skip
"""The Scapy modules whose layers a tree shows; loaded with the first tree."""


MAX_DEPTH = 8
"""How deep packets within packets are shown: octets can be made that hold hundreds of them."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One layer of a tree: its name, its fields as text, and the packets inside it.

    ``branches`` are packets within fields (DNS records) and the frame that a message shows, not the
    layer's payload, which is the next branch of the tree.
    """

    name: str
    fields: tuple[tuple[str, str], ...]
    branches: tuple[Branch, ...] = ()


def payload_tree(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> tuple[Branch, ...]:
    """Return a frame's layers, outermost first, as Scapy dissects them; never raises for any octets."""
    for name in DEEP_MODULES:
        importlib.import_module(name)
    with bound(ethertypes):
        return tuple(_branches(to_scapy(octets, ethertypes=ethertypes)))


def payload_text(octets: bytes, *, ethertypes: EtherTypes = DEFAULT) -> str:
    """Return `payload_tree` as indented lines."""
    return "\n".join(_lines(payload_tree(octets, ethertypes=ethertypes), indent=""))


def _lines(branches: tuple[Branch, ...], indent: str) -> Iterator[str]:
    for branch in branches:
        yield f"{indent}{branch.name}"
        for name, value in branch.fields:
            yield f"{indent}    {name} = {value}"
        yield from _lines(branch.branches, indent + "    ")


def _branches(packet: Packet, depth: int = 0) -> Iterator[Branch]:
    layer = packet
    while not isinstance(layer, NoPayload):
        yield _branch(layer, depth)
        layer = layer.payload


def _branch(layer: Packet, depth: int) -> Branch:
    fields: list[tuple[str, str]] = []
    inner: list[Packet] = []
    for field in layer.fields_desc:
        if isinstance(field, ConditionalField) and not field._evalcond(layer):
            continue
        value = layer.getfieldval(field.name)
        packets = [member for member in _members(value) if isinstance(member, Packet)]
        if packets:
            inner += packets
        else:
            fields.append((field.name, _text(layer, field, value)))
    if hasattr(type(layer), "encapsulated"):
        sampled = layer.encapsulated()
        inner += [] if sampled is None else [sampled]
    shown = inner if depth < MAX_DEPTH else []
    branches = tuple(branch for packet in shown for branch in _branches(packet, depth + 1))
    return Branch(name=str(layer.name), fields=tuple(fields), branches=branches)


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _text(layer: Packet, field: Any, value: Any) -> str:
    try:
        return str(field.i2repr(layer, value))
    except Exception:
        # a dissector of Scapy's that cannot show what it has read from hostile octets
        return repr(value)
