"""Network and transport headers: ARP, IPv4, IPv6 with extension headers, TCP, UDP.

Summary lines and flow keys use these headers. Other protocols are not decoded here; Scapy decodes such
protocols on demand.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ecmproto.errors import DecodeError
from ecmproto.wire.formats.base import Crafting, Following, Follows, Formats, Layer, Limit, layer, shared
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.schema import Address, BitPart, Count, address, mac, octets, uint
from ecmproto.wire.formats.summary import Case, Summary

PROTO_TCP, PROTO_UDP, PROTO_AH = 6, 17, 51
NO_NEXT_HEADER = 59

SOURCE_IP, DESTINATION_IP = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
SOURCE_IP6, DESTINATION_IP6 = (bytes.fromhex(f"20010db8{i:024x}") for i in (1, 2))
"""IPv4 and IPv6 addresses of crafted frames, reserved for documentation (RFC 5737, RFC 3849)."""
SOURCE_PORT, DESTINATION_PORT = 49152, 4792
"""UDP ports of crafted frames: an ephemeral port, and a port without a decoded protocol."""
SFLOW_PORT = 6343


def _mac(whose: str, name: str) -> Any:
    return mac(default=bytes(6), doc=f"{whose}'s MAC address", name=name)


def _ipv4(whose: str, name: str) -> Any:
    return address(32, default=bytes(4), doc=f"{whose}'s IPv4 address", name=name)


def _hw(whose: str, name: str) -> Any:
    return octets(Count(key="hw_size"), default=bytes(20), doc=f"{whose}'s hardware address", name=name)


def _proto(whose: str, name: str) -> Any:
    return octets(Count(key="proto_size"), default=bytes(16), doc=f"{whose}'s protocol address", name=name)


def _arp_summary(mac: str, ip: str) -> Summary:
    """Return an ARP packet's summary.

    ``mac`` and ``ip`` are the styles of the MAC addresses and protocol addresses in the templates.
    """
    request = f"who has {{dst_proto{ip}}}? tell {{src_proto{ip}}}"
    other = f"opcode {{opcode}} {{src_proto{ip}}} → {{dst_proto{ip}}}"
    answered = Case("opcode", 2, 2, f"{{src_proto{ip}}} is at {{src_hw{mac}}}", other)
    return Summary(label="ARP", detail="{:arp}", clauses={"arp": Case("opcode", 1, 1, request, answered)})


ARP_ETHERTYPE = 0x0806
ARP_HARDWARE = (1, 6)
ARP_PROTOCOLS = (0x0800, 0x00CC)
"""Hardware types with MAC addresses (Ethernet, IEEE 802), and protocol types with IPv4 addresses.

MAC addresses have six octets, and IPv4 addresses have four octets. Wireshark applies the same rules.
"""


@shared
class _AnyARP(Layer):
    """Base of the ARP formats."""

    __slots__ = ()

    hw_type: int = uint(16, default=1, doc="hardware type", name="arp.hw.type")
    proto_type: int = uint(16, default=0x0800, base="hex", doc="protocol type", name="arp.proto.type")
    hw_size: int = uint(8, default=6, doc="hardware address octets", name="arp.hw.size")
    proto_size: int = uint(8, default=4, doc="protocol address octets", name="arp.proto.size")
    opcode: int = uint(16, default=1, doc="operation", names={1: "request", 2: "reply"}, name="arp.opcode")
    counted_as = "ARP"
    announced_by = ARP_ETHERTYPE
    after_snap = True
    crafting = Crafting(destination=b"\xff" * 6)


@layer("arp", title="ARP", source="RFC 826")
class ARP(_AnyARP):
    """Address resolution for IPv4 over Ethernet. ARP with other addresses has other formats."""

    src_hw: Address = _mac("sender", "arp.src.hw_mac")
    src_proto: Address = _ipv4("sender", "arp.src.proto_ipv4")
    dst_hw: Address = _mac("target", "arp.dst.hw_mac")
    dst_proto: Address = _ipv4("target", "arp.dst.proto_ipv4")
    summary = _arp_summary("", "")
    constants = ("hw_size", "proto_size")


class VariableARP(_AnyARP):
    """Base of the ARP formats with addresses of variable length."""

    __slots__ = ()

    src_hw: bytes
    src_proto: bytes

    @classmethod
    def cannot_be(cls, data: bytes, start: int, stop: int, reach: int) -> bool:
        """Return whether the packet's addresses have other types or are incomplete."""
        if stop - start < OtherARP.fixed_octets:
            return True
        octets = OtherARP.fixed_octets + 2 * (data[start + 4] + data[start + 5])
        return stop - start < octets or arp_at(data, start, stop) is not cls

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the lengths of the sender's addresses in octets."""
        return {"hw_size": len(self.src_hw), "proto_size": len(self.src_proto)}


@layer(
    "arp_other", title="ARP of other addresses", source="RFC 826",
    hw_type=32, proto_type=0x86DD, hw_size=20, proto_size=16,
)  # fmt: skip
class OtherARP(VariableARP):
    """Address resolution for neither IPv4 nor Ethernet, or an incomplete packet."""

    src_hw: bytes = _hw("sender", "arp.src.hw")
    src_proto: bytes = _proto("sender", "arp.src.proto")
    dst_hw: bytes = _hw("target", "arp.dst.hw")
    dst_proto: bytes = _proto("target", "arp.dst.proto")
    summary = _arp_summary(":address", ":address")


@layer(
    "arp_mac", title="ARP of other protocols over Ethernet", source="RFC 826",
    proto_type=0x86DD, proto_size=16,
)  # fmt: skip
class EthernetARP(VariableARP):
    """Address resolution over Ethernet for a protocol other than IPv4."""

    src_hw: Address = _mac("sender", "arp.src.hw_mac")
    src_proto: bytes = _proto("sender", "arp.src.proto")
    dst_hw: Address = _mac("target", "arp.dst.hw_mac")
    dst_proto: bytes = _proto("target", "arp.dst.proto")
    summary = _arp_summary("", ":address")
    constants = ("hw_size",)
    otherwise = OtherARP


@layer("arp_ipv4", title="ARP of IPv4 over other hardware", source="RFC 826", hw_type=32, hw_size=20)
class IPv4ARP(VariableARP):
    """Address resolution for IPv4 over hardware other than Ethernet, such as InfiniBand (RFC 4391)."""

    src_hw: bytes = _hw("sender", "arp.src.hw")
    src_proto: Address = _ipv4("sender", "arp.src.proto_ipv4")
    dst_hw: bytes = _hw("target", "arp.dst.hw")
    dst_proto: Address = _ipv4("target", "arp.dst.proto_ipv4")
    summary = _arp_summary(":address", "")
    constants = ("proto_size",)
    otherwise = OtherARP


_ARP_FORMATS: dict[tuple[bool, bool], type[Layer]] = {
    (True, True): ARP, (True, False): EthernetARP, (False, True): IPv4ARP, (False, False): OtherARP
}  # fmt: skip


def arp_format(hw_type: int, proto_type: int, hw_size: int, proto_size: int) -> type[Layer]:
    """Return the format of complete ARP packets with these types and address lengths."""
    is_mac = hw_size == 6 and hw_type in ARP_HARDWARE
    return _ARP_FORMATS[is_mac, proto_size == 4 and proto_type in ARP_PROTOCOLS]


def arp_at(data: bytes, pos: int, stop: int) -> type[Layer]:
    """Return the format of the ARP packet at ``data[pos:stop]``.

    A packet with incomplete types has the format `ARP`.
    """
    if stop - pos < 6:
        return ARP
    types = int.from_bytes(data[pos : pos + 4], "big")
    return arp_format(types >> 16, types & 0xFFFF, data[pos + 4], data[pos + 5])


NOT_ECT, ECT1, ECT0, CE = range(4)
"""Values of the ECN field (RFC 3168)."""
ECN_NAMES = {NOT_ECT: "Not-ECT", ECT1: "ECT(1)", ECT0: "ECT(0)", CE: "CE"}
DSCP_NAMES = {
    **{8 * number: f"CS{number}" for number in range(8)},
    **{8 * high + 2 * low: f"AF{high}{low}" for high in range(1, 5) for low in range(1, 4)},
    44: "VA", 46: "EF",
}  # fmt: skip
"""Names of the assigned code points (RFC 2474, 2597, 3246, 5865)."""


def _traffic(name: str) -> tuple[BitPart, BitPart]:
    """Return the parts of a traffic class field: DSCP and ECN (RFC 2474, RFC 3168)."""
    dscp = BitPart(
        name=f"{name}.dscp", low=2, bits=6, doc="differentiated services code point", names=DSCP_NAMES
    )
    doc = "explicit congestion notification: 0 not capable, 1 and 2 capable, 3 congestion experienced"
    return dscp, BitPart(name=f"{name}.ecn", low=0, bits=2, doc=doc, names=ECN_NAMES)


@layer("ip", title="IPv4", source="RFC 791")
class IPv4(Layer):
    """IPv4 header."""

    version: int = uint(4, default=4, doc="4", source="RFC 791 3.1")
    ihl: int = uint(4, default=5, unit="32-bit words", doc="header length", source="RFC 791 3.1")
    dsfield: int = uint(
        8,
        default=0,
        base="hex",
        doc="DSCP and ECN",
        source="RFC 2474; RFC 3168",
        parts=_traffic("ip.dsfield"),
    )
    len: int = uint(16, default=0, unit="octets", doc="total length", source="RFC 791 3.1")
    id: int = uint(16, default=0, base="hex", doc="identification", source="RFC 791 3.1")
    flags: int = uint(
        3, default=0, base="hex", doc="reserved, don't fragment, more fragments", source="RFC 791 3.1"
    )
    frag_offset: int = uint(13, default=0, unit="8 octets", doc="fragment offset", source="RFC 791 3.1")
    ttl: int = uint(8, default=64, doc="time to live", source="RFC 791 3.1")
    proto: int = uint(8, default=0, doc="protocol of the payload", source="RFC 791 3.1")
    checksum: int = uint(16, default=0, base="hex", doc="header checksum", source="RFC 791 3.1")
    src: Address = address(32, default=bytes(4), doc="source address", source="RFC 791 3.1")
    dst: Address = address(32, default=bytes(4), doc="destination address", source="RFC 791 3.1")
    options: bytes = octets(
        Count(key="ihl", scale=4, minus=20), default=b"", doc="options", source="RFC 791 3.1"
    )
    counted_as = "IPv4"
    summary = Summary(
        label="IPv4", gives_way=True, detail="{src} → {dst} {proto:ip}{frag_offset:fragment}",
        clauses={"fragment": Case("@", 0, 0, "", " fragment at {8*@}")},
    )  # fmt: skip
    announced_by = 0x0800
    after_snap = True
    follows = "ipv4"
    limits = (Limit(key="version", low=4, high=4), Limit(key="ihl", low=5, high=15))
    crafting = Crafting(values={"src": SOURCE_IP, "dst": DESTINATION_IP})

    def check(self, start: int, reach: int) -> DecodeError | None:
        """Return the error of a field outside the limits, or of a total length shorter than the header."""
        wrong = self.within(start, reach)
        if wrong is None and 0 < self.len < self.ihl * 4:
            return DecodeError(
                layer="ip", offset=start + 2, needed=f"a total length from {self.ihl * 4}", got=str(self.len)
            )
        return wrong

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the content, and the end of the packet.

        A total length of 0 means that segmentation offload did not set the length.
        """
        last = end + self.len - self.ihl * 4 if self.len else stop
        return (formats.after_ip(4, self.proto) if self.frag_offset == 0 else Data), last

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the header length, total length, protocol and header checksum."""
        ihl = (20 + len(self.options)) // 4
        values = {"ihl": ihl, "len": ihl * 4 + len(rest), "checksum": 0} | _protocol("proto", following)
        return values | {"checksum": _checksum(self.replace(**values).build())}


@layer("ipv6", title="IPv6", source="RFC 8200")
class IPv6(Layer):
    """IPv6 header."""

    version: int = uint(4, default=6, doc="6", source="RFC 8200 3")
    tclass: int = uint(
        8, default=0, base="hex", doc="traffic class", source="RFC 8200 3", parts=_traffic("ipv6.tclass")
    )
    flow: int = uint(20, default=0, base="hex", doc="flow label", source="RFC 8200 3")
    plen: int = uint(16, default=0, unit="octets", doc="payload length", source="RFC 8200 3")
    nxt: int = uint(8, default=NO_NEXT_HEADER, doc="next header", source="RFC 8200 3")
    hlim: int = uint(8, default=64, doc="hop limit", source="RFC 8200 3")
    src: Address = address(128, default=bytes(16), doc="source address", source="RFC 8200 3")
    dst: Address = address(128, default=bytes(16), doc="destination address", source="RFC 8200 3")
    counted_as = "IPv6"
    summary = Summary(label="IPv6", gives_way=True, detail="{src} → {dst} {nxt:ip}")
    announced_by = 0x86DD
    after_snap = True
    follows = "ipv6"
    limits = (Limit(key="version", low=6, high=6),)
    crafting = Crafting(values={"src": SOURCE_IP6, "dst": DESTINATION_IP6})

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next header, and the end of the packet.

        A payload length of 0 means a jumbogram, segmentation offload, or no payload.
        """
        none = self.nxt == NO_NEXT_HEADER
        return formats.after_ip(6, self.nxt), end + self.plen if self.plen or none else stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the payload length and next header."""
        return {"plen": len(rest)} | _protocol("nxt", following)


class Extension(Layer):
    """Base of the extension headers of IPv6. AH also follows IPv4."""

    __slots__ = ()

    role = "header"
    follows: ClassVar[Follows] = "extension"

    nxt: int

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next header."""
        return formats.after_ip(6, self.nxt), stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the next header and, for headers with a length field, the header length."""
        return _protocol("nxt", following) | self.counted()

    def counted(self) -> dict[str, int]:
        """Return the computed value of the length field, or no value for a header without a length field."""
        count = self.layout[-1].count
        if count is None:
            return {}
        octets: bytes = getattr(self, self.layout[-1].key)
        return {count.key: (len(octets) + count.minus) // count.scale}


_LENGTH = "length of the header beyond its first 8 octets"


@layer("ipv6.hopopts", title="IPv6 hop-by-hop options", source="RFC 8200 4.3")
class HopByHop(Extension):
    """Options for every router on the path."""

    next_header = 0
    nxt: int = uint(8, default=NO_NEXT_HEADER, doc="next header")
    len: int = uint(8, default=0, unit="8 octets", doc=_LENGTH)
    options: bytes = octets(
        Count(key="len", scale=8, minus=-6), default=bytes(6), doc="options", source="RFC 8200 4.2"
    )


@layer("ipv6.routing", title="IPv6 routing header", source="RFC 8200 4.4")
class Routing(Extension):
    """Nodes that the packet must visit."""

    next_header = 43
    nxt: int = uint(8, default=NO_NEXT_HEADER, doc="next header")
    len: int = uint(8, default=0, unit="8 octets", doc=_LENGTH)
    type: int = uint(8, default=0, doc="routing type")
    segleft: int = uint(8, default=0, doc="segments left")
    data: bytes = octets(Count(key="len", scale=8, minus=-4), default=bytes(4), doc="data by routing type")


@layer("ipv6.fraghdr", title="IPv6 fragment header", source="RFC 8200 4.5")
class FragmentHeader(Extension):
    """Fragment of a packet. The first fragment contains the start of the payload."""

    next_header = 44
    nxt: int = uint(8, default=NO_NEXT_HEADER, doc="next header")
    reserved_octet: int = uint(8, default=0, base="hex", doc="0")
    offset: int = uint(13, default=0, unit="8 octets", doc="fragment offset")
    reserved_bits: int = uint(2, default=0, doc="0")
    more: int = uint(1, default=0, doc="more fragments")
    ident: int = uint(32, default=0, base="hex", doc="identification")
    summary = Summary(tag="fragment at {8*offset}")
    follows = "fragment"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next header for the first fragment, and `Data` for other fragments."""
        return (formats.after_ip(6, self.nxt) if self.offset == 0 else Data), stop


@layer("ipv6.dstopts", title="IPv6 destination options", source="RFC 8200 4.6")
class DestinationOptions(Extension):
    """Options for the destination."""

    next_header = 60
    nxt: int = uint(8, default=NO_NEXT_HEADER, doc="next header")
    len: int = uint(8, default=0, unit="8 octets", doc=_LENGTH)
    options: bytes = octets(
        Count(key="len", scale=8, minus=-6), default=bytes(6), doc="options", source="RFC 8200 4.2"
    )


@layer("ah", title="IP authentication header (AH)", source="RFC 4302 2")
class AH(Extension):
    """Authentication header of a packet whose content is not encrypted."""

    nxt: int = uint(
        8, default=NO_NEXT_HEADER, doc="next header", source="RFC 4302 2.1", name="ah.next_header"
    )
    length: int = uint(
        8, default=1, unit="4 octets", doc="length of the header less 8 octets", source="RFC 4302 2.2"
    )
    reserved: int = uint(16, default=0, base="hex", doc="0", source="RFC 4302 2.3")
    spi: int = uint(32, default=0, base="hex", doc="security parameters index", source="RFC 4302 2.4")
    sequence: int = uint(32, default=0, doc="sequence number", source="RFC 4302 2.5")
    icv: bytes = octets(
        Count(key="length", scale=4, minus=4), default=b"", doc="integrity check value", source="RFC 4302 2.6"
    )
    ip_protocol = PROTO_AH
    # the length covers the fields before the check value
    limits = (Limit(key="length", low=1, high=255),)


EXTENSIONS: dict[int, type[Extension]] = {
    number: cls
    for cls in (HopByHop, Routing, FragmentHeader, AH, DestinationOptions)
    for number in (cls.next_header, cls.ip_protocol)
    if number is not None
}
"""Extension headers, by the value that announces each header."""


@layer("udp", title="UDP", source="RFC 768")
class UDP(Layer):
    """UDP header."""

    srcport: int = uint(16, default=0, doc="source port")
    dstport: int = uint(16, default=0, doc="destination port")
    length: int = uint(16, default=0, unit="octets", doc="header and data")
    checksum: int = uint(16, default=0, base="hex", doc="0: none")
    role = "payload"
    counted_as = "UDP"
    summary = Summary(
        label="UDP", detail="{:ports} len {:datagram}",
        clauses={"datagram": Case("length", 0, 8, "0", "{length-8}")},
    )  # fmt: skip
    ip_protocol = PROTO_UDP
    follows = "port"
    crafting = Crafting(values={"srcport": SOURCE_PORT, "dstport": DESTINATION_PORT})

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format for the destination port, or `Data` for a port without a format."""
        return formats.after_port(self.dstport, data, end, stop), stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the length and, for a next layer with a UDP port, the destination port.

        The checksum stays unchanged; 0 means that a packet over IPv4 has no checksum.
        """
        values = {"length": 8 + len(rest)}
        ports = () if following is None else following.udp_ports
        return values if not ports or self.dstport in ports else values | {"dstport": ports[0]}


@layer("tcp", title="TCP", source="RFC 9293")
class TCP(Layer):
    """TCP header."""

    srcport: int = uint(16, default=0, doc="source port", source="RFC 9293 3.1")
    dstport: int = uint(16, default=0, doc="destination port", source="RFC 9293 3.1")
    seq_raw: int = uint(32, default=0, doc="sequence number", source="RFC 9293 3.1")
    ack_raw: int = uint(32, default=0, doc="acknowledgment number", source="RFC 9293 3.1")
    data_offset: int = uint(4, default=5, unit="32-bit words", doc="header length", source="RFC 9293 3.1")
    flags: int = uint(12, default=0, base="hex", doc="reserved and control bits", source="RFC 9293 3.1")
    window_size_value: int = uint(16, default=0, doc="window", source="RFC 9293 3.1")
    checksum: int = uint(16, default=0, base="hex", doc="checksum", source="RFC 9293 3.1")
    urgent_pointer: int = uint(16, default=0, doc="urgent pointer", source="RFC 9293 3.1")
    options: bytes = octets(
        Count(key="data_offset", scale=4, minus=20), default=b"", doc="options", source="RFC 9293 3.1"
    )

    role = "payload"
    counted_as = "TCP"
    summary = Summary(label="TCP", detail="{:ports} [{flags:flags}]")
    ip_protocol = PROTO_TCP
    follows = "data"
    limits = (Limit(key="data_offset", low=5, high=15, name="data offset"),)
    crafting = Crafting(values={"srcport": SOURCE_PORT, "dstport": DESTINATION_PORT})

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return `Data`."""
        return Data, stop

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the header length."""
        return {"data_offset": (20 + len(self.options)) // 4}


def _protocol(key: str, following: Layer | None) -> dict[str, int]:
    """Return the protocol field with the value for the next layer, or no value if no protocol is assigned."""
    if following is None:
        return {}
    number = following.next_header if following.ip_protocol is None else following.ip_protocol
    return {} if number is None else {key: number}


def _checksum(header: bytes) -> int:
    """Return the Internet checksum (RFC 1071). An odd last octet is padded with 0."""
    whole = header + bytes(len(header) % 2)
    total = sum(int.from_bytes(whole[i : i + 2], "big") for i in range(0, len(whole), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


_TCP_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")


def tcp_flags_text(bits: int) -> str:
    """Return the names of the control bits that are set, lowest bit first (RFC 9293 3.1, RFC 9768)."""
    return ", ".join(name for bit, name in enumerate(_TCP_FLAGS) if bits >> bit & 1)
