"""Geneve, which encapsulates frames in UDP, with options."""

from __future__ import annotations

from ecmproto.wire.formats.base import Limit, layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.mpls import MPLS
from ecmproto.wire.formats.schema import BitPart, Count, octets, uint
from ecmproto.wire.formats.summary import Summary
from ecmproto.wire.formats.wrapper import FURTHER_ETHERTYPES, Announced, Wrapper

_SOURCE = "RFC 8926 3.4"


@layer("geneve", title="Geneve", source=_SOURCE)
class Geneve(Wrapper):
    """Header of a frame or packet in a virtual network."""

    version: int = uint(2, default=0, doc="0")
    optlen: int = uint(6, default=0, unit="32-bit words", doc="length of the options")
    flags: int = uint(
        8, default=0, base="hex", doc="flags",
        parts=(
            BitPart(name="geneve.flags.oam", low=7, bits=1, doc="whether it is a control packet"),
            BitPart(name="geneve.flags.critical", low=6, bits=1, doc="whether an option is critical"),
            BitPart(name="geneve.flags.reserved", low=0, bits=6, doc="0"),
        ),
    )  # fmt: skip
    protocol: int = uint(16, default=0x6558, base="hex", doc="type of the payload", name="geneve.proto_type")
    vni: int = uint(24, default=0, doc="virtual network identifier")
    reserved: int = uint(8, default=0, doc="0")
    options: bytes = octets(Count(key="optlen", scale=4), default=b"", doc="options", source="RFC 8926 3.5")
    udp_ports = (6081,)
    limits = (Limit(key="version", low=0, high=0),)
    next_key = "protocol"
    wraps = {
        0x6558: Ethernet, IPv4.announced_by: IPv4, IPv6.announced_by: IPv6, MPLS.announced_by: MPLS,
        FURTHER_ETHERTYPES: Announced,
    }  # fmt: skip
    session_key = "vni"
    summary = Summary(tag="Geneve {vni}")
