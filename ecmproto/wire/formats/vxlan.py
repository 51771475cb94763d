"""VXLAN and the generic protocol extension (GPE): frames in UDP."""

from __future__ import annotations

from ecmproto.wire.formats.base import layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.mpls import MPLS
from ecmproto.wire.formats.schema import BitPart, uint
from ecmproto.wire.formats.summary import Summary
from ecmproto.wire.formats.wrapper import Wrapper

_SOURCE, _GPE = "RFC 7348 5", "draft-ietf-nvo3-vxlan-gpe 3"
_NETWORK = "VXLAN network identifier (VNI)"


def _flag(name: str, bit: int, doc: str, bits: int = 1) -> BitPart:
    return BitPart(name=f"vxlan.{name}", low=bit, bits=bits, doc=doc)


@layer("vxlan", title="VXLAN", source=_SOURCE)
class VXLAN(Wrapper):
    """Header of a frame in a virtual network."""

    flags: int = uint(
        16, default=0x0800, base="hex", doc="flags",
        parts=(
            _flag("flag_g", 15, "whether there is a group policy"),
            _flag("flag_i", 11, "whether the network identifier is valid"),
            _flag("flag_d", 6, "whether the source address is not to be learned"),
            _flag("flag_a", 3, "whether the policy was applied"),
        ),
    )  # fmt: skip
    gbp: int = uint(16, default=0, doc="group policy", source="draft-smith-vxlan-group-policy 2.1")
    vni: int = uint(24, default=0, doc=_NETWORK)
    reserved2: int = uint(8, default=0, doc="0", name="vxlan.reserved8")
    udp_ports = (4789,)
    wraps = {0: Ethernet}
    session_key = "vni"
    summary = Summary(tag="VXLAN {vni}")


@layer("gpe", title="VXLAN-GPE", source=_GPE)
class GPE(Wrapper):
    """Header of a frame or packet in a virtual network."""

    field_prefix = "vxlan"
    flags: int = uint(
        8, default=0x0C, base="hex", doc="flags and version",
        parts=(
            _flag("ver", 4, "version", 2),
            _flag("i_bit", 3, "whether the network identifier is valid"),
            _flag("p_bit", 2, "whether there is a next protocol"),
            _flag("o_bit", 0, "whether it is for operation and maintenance"),
        ),
    )  # fmt: skip
    reserved: int = uint(16, default=0, doc="0", name="vxlan.reserved_16")
    next: int = uint(
        8, default=3, doc="type of the payload", name="vxlan.next_proto",
        names={1: "IPv4", 2: "IPv6", 3: "Ethernet", 5: "MPLS"},
    )  # fmt: skip
    vni: int = uint(24, default=0, doc=_NETWORK)
    reserved2: int = uint(8, default=0, doc="0", name="vxlan.reserved8")
    udp_ports = (4790,)
    next_key = "next"
    wraps = {3: Ethernet, 1: IPv4, 2: IPv6, 5: MPLS}
    session_key = "vni"
    summary = Summary(tag="VXLAN-GPE {vni}")
