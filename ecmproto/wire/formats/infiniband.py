"""RoCE: InfiniBand's transport over UDP (RoCEv2) or Ethernet (RoCEv1), and congestion notification.

A packet starts with a base transport header (BTH), after UDP port 4791 (RoCEv2) or after the global route
header (GRH) of EtherType 0x8915 (RoCEv1). The BTH's opcode determines the extended headers. The payload with
padding and the invariant CRC follow. The invariant CRC covers all octets that switches may not change (IBTA,
volume 1, chapter 9, annexes A16 and A17).

A congestion notification packet (CNP) is a BTH with opcode 0x81. The receiver of marked frames sends the CNP
to the queue pair that should slow down.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ecmproto.wire.formats.base import Crafting, Following, Formats, Layer, Limit, layer, shared
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ip import (
    CE,
    DESTINATION_IP,
    DESTINATION_IP6,
    ECT0,
    NOT_ECT,
    SOURCE_IP,
    SOURCE_IP6,
    UDP,
    IPv4,
    IPv6,
)
from ecmproto.wire.formats.schema import Address, BitPart, Count, address, octets, uint
from ecmproto.wire.formats.summary import Case, Clause, First, Summary

ROCE_PORT = 4791
"""UDP destination port of RoCEv2 (IBTA annex A17)."""
ROCE_ETHERTYPE = 0x8915
"""EtherType of RoCEv1 (IBTA annex A16)."""
IBA_TRANSPORT = 0x1B
"""Next header value in a GRH that announces a BTH (IBTA 8.3)."""
CNP_OPCODE = 0x81
CNP_RESERVED_OCTETS = 16
CNP_DSCP = 48
"""Differentiated services code point of CNPs, by the vendors' default."""
ROCE_DSCP = 26
"""Differentiated services code point of RoCE data, by the vendors' default."""
DEFAULT_P_KEY = 0xFFFF

_BTH = "IBTA vol. 1, 9.2"
_ICRC = "IBTA vol. 1, 7.8.1; annex A17"

TRANSPORTS = {0x00: "RC", 0x20: "UC", 0x40: "RD", 0x60: "UD"}
"""Names of transports by the upper three bits of the opcode."""
RELIABLE, UNRELIABLE, DATAGRAM = range(3)
"""Upper three bits of opcodes with the transports RC, UC and RD. UD is 3."""
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = range(
    0x0C, 0x13
)
ANSWERS = (READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE)
"""Operations that a responder sends, as the lower five bits of the opcode."""
_OPERATIONS = {
    0x00: "SEND first", 0x01: "SEND middle", 0x02: "SEND last", 0x03: "SEND last with immediate",
    0x04: "SEND only", 0x05: "SEND only with immediate", 0x06: "RDMA WRITE first", 0x07: "RDMA WRITE middle",
    0x08: "RDMA WRITE last", 0x09: "RDMA WRITE last with immediate", 0x0A: "RDMA WRITE only",
    0x0B: "RDMA WRITE only with immediate", 0x0C: "RDMA READ request", 0x0D: "RDMA READ response first",
    0x0E: "RDMA READ response middle", 0x0F: "RDMA READ response last", 0x10: "RDMA READ response only",
    0x11: "acknowledge", 0x12: "atomic acknowledge", 0x13: "compare and swap", 0x14: "fetch and add",
    0x16: "SEND last with invalidate", 0x17: "SEND only with invalidate",
}  # fmt: skip
"""Names of operations by the lower five bits of the opcode."""
_OF_TRANSPORT = {
    0x00: tuple(_OPERATIONS), 0x20: tuple(range(0x0C)), 0x40: tuple(range(0x15)), 0x60: (0x04, 0x05)
}  # fmt: skip
OPCODES = {
    transport | operation: f"{name} {_OPERATIONS[operation]}"
    for transport, name in TRANSPORTS.items()
    for operation in _OF_TRANSPORT[transport]
} | {CNP_OPCODE: "CNP"}
"""Names of the assigned opcodes (IBTA table 38; annex A17 for the CNP)."""


class Coverage(NamedTuple):
    """Octets of a frame that an invariant CRC covers, and the bits that the CRC computes as ones."""

    start: int
    stop: int
    ones: tuple[tuple[int, int], ...]
    """Offset of each octet with such bits, and the bits in the octet."""

    def crc(self, octets: bytes | bytearray | memoryview) -> int:
        """Return the invariant CRC of a frame. The four octets of the number are in wire order."""
        covered = bytearray(octets[self.start : self.stop])
        for position, bits in self.ones:
            covered[position - self.start] |= bits
        return int.from_bytes(zlib.crc32(covered, _START).to_bytes(4, "little"), "big")


_START = zlib.crc32(b"\xff" * 8)
"""CRC of the replacement for InfiniBand's local route header: eight octets of ones."""


def coverage(layers: Sequence[Layer], starts: Sequence[int]) -> Coverage | None:
    """Return the coverage of the invariant CRC after ``layers``, or ``None`` if the coverage is unknown.

    The coverage is unknown without an IP header or GRH, without a BTH, and with a link header of InfiniBand.
    ``starts`` contains the offset of each layer in the frame, then the end of the last layer.
    """
    at = {cls: offset for value, offset in zip(layers, starts, strict=False) for cls in type(value).__mro__}
    network = next((index for index in reversed(range(len(layers))) if type(layers[index]) in NETWORKS), None)
    if network is None or BTH not in at or LRH in at:
        return None
    headers = [(type(layers[network]), starts[network]), *((cls, at[cls]) for cls in (UDP, BTH) if cls in at)]
    ones = [(first + offset, bits) for cls, first in headers for offset, bits in CHANGING[cls]]
    return Coverage(starts[network], starts[len(layers)], tuple(ones))


CRC_STATUS = "infiniband.invariant.crc.status"
CRC_STATES = UNVERIFIED, BAD, GOOD = "unverified", "bad", "good"


class _Decoded(Protocol):
    """Decoded frame."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers, outermost first."""

    def boundaries(self) -> Sequence[int]:
        """Return the offset of each layer, then the end of the last layer."""


def crc_status(frame: _Decoded) -> str | None:
    """Return whether the invariant CRC of a decoded frame is GOOD, BAD or UNVERIFIED.

    The result is ``None`` for a frame without a BTH. UNVERIFIED means that octets of the packet are missing
    or that the packet is a fragment.
    """
    layers = frame.layers
    if not any(isinstance(value, BTH) for value in layers):
        return None
    index = next((index for index, value in enumerate(layers) if isinstance(value, ICRC)), None)
    if index is None or any(isinstance(value, IPv4) and value.flags & 1 for value in layers):
        return UNVERIFIED
    covered = coverage(layers[:index], frame.boundaries()[: index + 1])
    if covered is None:
        return UNVERIFIED
    value = layers[index]
    assert isinstance(value, ICRC)
    octets = b"".join([value.build() for value in layers[:index]])
    return GOOD if covered.crc(octets) == value.crc else BAD


@layer("icrc", title="Invariant CRC", source=_ICRC)
class ICRC(Layer):
    """Last four octets of a packet: the CRC of all octets that stay the same from end to end."""

    crc: int = uint(
        32, default=0, base="hex", doc="CRC-32 of the packet without mutable fields, low octet first",
        name="infiniband.invariant.crc",
    )  # fmt: skip
    role = "header"
    covers = "crc"

    @classmethod
    def covering(cls, layers: Sequence[Layer], starts: Sequence[int]) -> Callable[[bytes], int] | None:
        """Return the function that computes the CRC, or ``None`` if the CRC cannot be computed."""
        covered = coverage(layers, starts)
        return None if covered is None else covered.crc


class _Extended(Layer):
    """Base of the extended transport headers, which the opcode determines."""

    __slots__ = ()

    role = "header"
    follows = "data"

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return `Data`. The opcode determines the extended headers before the payload."""
        return Data, stop


@layer("rdeth", title="Reliable datagram extended transport header (RDETH)", source="IBTA vol. 1, 9.3.1")
class RDETH(_Extended):
    """Reliable datagram extended transport header, with the end-to-end context."""

    field_prefix = "infiniband.rdeth"
    reserved: int = uint(8, default=0, base="hex", doc="0")
    eecnxt: int = uint(24, default=0, doc="end-to-end context")


@layer("deth", title="Datagram extended transport header (DETH)", source="IBTA vol. 1, 9.3.2")
class DETH(_Extended):
    """Datagram extended transport header, with the sender's queue pair."""

    field_prefix = "infiniband.deth"
    q_key: int = uint(32, default=0, base="hex", doc="queue key")
    reserved: int = uint(8, default=0, base="hex", doc="0")
    srcqp: int = uint(24, default=0, base="hex", doc="source queue pair")


@shared
class _Remote(_Extended):
    """Base of the headers with an address and a key of the receiver's memory."""

    __slots__ = ()

    va: int = uint(64, default=0, base="hex", doc="virtual address", name="infiniband.reth.va")
    r_key: int = uint(32, default=0, base="hex", doc="remote key", name="infiniband.reth.r_key")


@layer("reth", title="RDMA extended transport header (RETH)", source="IBTA vol. 1, 9.3.3")
class RETH(_Remote):
    """RDMA extended transport header: address, key and length of a read or write."""

    field_prefix = "infiniband.reth"
    dmalen: int = uint(32, default=0, unit="octets", doc="octets of the whole transfer")


@layer("atomiceth", title="Atomic extended transport header (AtomicETH)", source="IBTA vol. 1, 9.3.4")
class AtomicETH(_Remote):
    """Atomic extended transport header: address, key and operands of an atomic operation."""

    field_prefix = "infiniband.atomiceth"
    swapdt: int = uint(64, default=0, doc="value to swap in or add")
    cmpdt: int = uint(64, default=0, doc="value to compare with")


NAK_CODES = {
    0: "PSN sequence error", 1: "invalid request", 2: "remote access error", 3: "remote operational error",
    4: "invalid RD request",
}  # fmt: skip
"""Reasons for a negative acknowledgment (IBTA 9.7.5.2.8)."""
_ACK, _RNR, _NAK = 0, 1, 3
"""Upper bits of a syndrome."""


def syndrome_text(syndrome: int) -> str:
    """Return a syndrome as text.

    The text is the name of an acknowledgment, a waiting time, or the reason for a negative acknowledgment.
    """
    kind, value = syndrome >> 5, syndrome & 0x1F
    if kind == _ACK:
        return "ACK"
    if kind == _RNR:
        return f"receiver not ready, timer {value}"
    if kind == _NAK:
        return f"NAK {NAK_CODES.get(value, f'code {value}')}"
    return f"syndrome {syndrome:#04x}"


@layer("aeth", title="Acknowledge extended transport header (AETH)", source="IBTA vol. 1, 9.3.5")
class AETH(_Extended):
    """Acknowledgment of received packets, or the reason for a negative acknowledgment."""

    field_prefix = "infiniband.aeth"
    syndrome: int = uint(
        8, default=0x1F, base="hex",
        doc="syndrome: 0 acknowledged (with credits), 1 receiver not ready (with a timer), 3 refused (with "
        "a code)",
        source="IBTA vol. 1, 9.7.5.2",
        parts=(
            BitPart(
                name="infiniband.aeth.syndrome.opcode", low=5, bits=2, doc="type of acknowledgment",
                names={_ACK: "acknowledged", _RNR: "receiver not ready", _NAK: "refused"},
            ),
        ),
    )  # fmt: skip
    msn: int = uint(24, default=0, doc="message sequence number")


@layer("atomicacketh", title="Atomic acknowledge header (AtomicAckETH)", source="IBTA vol. 1, 9.3.5.3")
class AtomicAckETH(_Extended):
    """Memory value before an atomic operation."""

    origremdt: int = uint(
        64, default=0, doc="value before the operation", name="infiniband.atomicacketh.origremdt"
    )


@layer("immdt", title="Immediate data (ImmDt)", source="IBTA vol. 1, 9.3.6")
class ImmDt(_Extended):
    """Immediate data: four octets for the receiver of the message."""

    immdt: int = uint(32, default=0, base="hex", doc="immediate data", name="infiniband.immdt")


@layer("ieth", title="Invalidate extended transport header (IETH)", source="IBTA vol. 1, 9.3.7")
class IETH(_Extended):
    """Key that is no longer valid."""

    r_key: int = uint(32, default=0, base="hex", doc="remote key", name="infiniband.ieth")


def _outer(dscp: int, ecn: int) -> dict[type[Layer], dict[str, int | bytes]]:
    # no router may fragment a packet: the invariant CRC is at its end (IBTA A17.4.5.2)
    return {IPv4: {"dsfield": dscp << 2 | ecn, "flags": 2}, IPv6: {"tclass": dscp << 2 | ecn}}


_BACK: dict[type[Layer], dict[str, int | bytes]] = {
    IPv4: {"src": DESTINATION_IP, "dst": SOURCE_IP},
    IPv6: {"src": DESTINATION_IP6, "dst": SOURCE_IP6},
}
"""IP addresses of a packet from the destination back to the source."""


def _sequences() -> dict[int, tuple[type[Layer], ...]]:
    """Return the extended headers of each opcode, in order (IBTA table 38).

    The opcodes of the most common transport are last.
    """
    of: dict[int, tuple[type[Layer], ...]] = {
        **dict.fromkeys((0x03, 0x05, 0x09), (ImmDt,)),
        **dict.fromkeys((0x06, 0x0A, 0x0C), (RETH,)),
        0x0B: (RETH, ImmDt),
        **dict.fromkeys((0x0D, 0x0F, 0x10, 0x11), (AETH,)),
        0x12: (AETH, AtomicAckETH),
        **dict.fromkeys((0x13, 0x14), (AtomicETH,)),
        **dict.fromkeys((0x16, 0x17), (IETH,)),
    }
    before: dict[int, tuple[type[Layer], ...]] = {0x40: (RDETH, DETH), 0x60: (DETH,)}
    return {
        transport | operation: (
            before.get(transport, ())[: 1 if operation in ANSWERS else None] + of.get(operation, ())
        )
        for transport in reversed(TRANSPORTS)
        for operation in _OF_TRANSPORT[transport]
    }


CE_MARK = " CE"
"""Congestion mark in summary lines."""
_STYLES: Mapping[str, Callable[..., str]] = {
    "opcode": lambda opcode: OPCODES.get(opcode) or f"opcode {opcode:#04x}",
    "qp": hex,
    "syndrome": syndrome_text,
}
_CLAUSES: Mapping[str, Clause] = {
    "ends": First(("{ip.src} → {ip.dst} ", "{ipv6.src} → {ipv6.dst} ", "{grh.sgid} → {grh.dgid} ", "")),
    "between": First(
        (" | {ip.src} → {ip.dst}", " | {ipv6.src} → {ipv6.dst}", " | {grh.sgid} → {grh.dgid}", "")
    ),
    "said": First((" {aeth.syndrome:syndrome} MSN {aeth.msn}", "")),
    "marked": Case("ip.dsfield[6:8]", CE, CE, CE_MARK, "{:marked6}"),
    "marked6": Case("ipv6.tclass[6:8]", CE, CE, CE_MARK),
}


@layer("bth", title="Base transport header (BTH)", source=_BTH)
class BTH(Layer):
    """Base transport header: the first header of a packet, with the operation and queue pair.

    Port 4791 was unassigned before RoCEv2, so other packets may use the port. The octets are `Data` if there
    are too few octets for a packet, or if the first four octets are zero, which would mean the invalid
    partition key 0.
    """

    field_prefix = "infiniband.bth"
    opcode: int = uint(
        8, default=0x04, base="hex", doc="transport and operation", source="IBTA vol. 1, 9.2.1", names=OPCODES
    )
    se: int = uint(1, default=0, doc="solicited event", source="IBTA vol. 1, 9.2.3")
    m: int = uint(1, default=0, doc="migration state", source="IBTA vol. 1, 9.2.4")
    padcnt: int = uint(
        2, default=0, unit="octets", doc="padding octets after the payload, to a multiple of 4",
        source="IBTA vol. 1, 9.2.5",
    )  # fmt: skip
    tver: int = uint(4, default=0, doc="transport header version, 0", source="IBTA vol. 1, 9.2.6")
    p_key: int = uint(16, default=DEFAULT_P_KEY, base="hex", doc="partition key", source="IBTA vol. 1, 9.2.7")
    fecn: int = uint(1, default=0, doc="the packet met congestion (FECN)", source="IBTA vol. 1, A10.2.1")
    becn: int = uint(
        1, default=0, doc="the other direction met congestion (BECN)", source="IBTA vol. 1, A10.2.1"
    )
    reserved6: int = uint(6, default=0, base="hex", doc="0", source=_BTH)
    qp: int = uint(
        24, default=0, base="hex", doc="destination queue pair", source="IBTA vol. 1, 9.2.8",
        name="infiniband.bth.destqp",
    )  # fmt: skip
    a: int = uint(1, default=0, doc="acknowledge request", source="IBTA vol. 1, 9.2.9")
    reserved7: int = uint(7, default=0, base="hex", doc="0", source=_BTH)
    psn: int = uint(24, default=0, doc="packet sequence number", source="IBTA vol. 1, 9.2.10")

    role = "payload"
    counted_as = "RoCE"
    summary = Summary(
        label="RoCE", detail="{:ends}{opcode:opcode} QP {qp:qp} PSN {psn}{:said}{:marked}",
        clauses=_CLAUSES, styles=_STYLES, colour="name",
    )  # fmt: skip
    udp_ports = (ROCE_PORT,)
    follows = "sequence"
    sequence_key = "opcode"
    sequences = _sequences()
    closed_by = ICRC
    otherwise = Data
    least_octets = 16
    nonzero_octets = 4
    crafting = Crafting(direction="data", outer=_outer(ROCE_DSCP, ECT0))


@layer(
    "cnp",
    title="Congestion notification packet (CNP)",
    source="IBTA annex A17.9.3",
    opcode=CNP_OPCODE,
    becn=1,
)
class CNP(BTH):
    """Congestion notification packet: a BTH and 16 octets.

    The packet notifies a sender that frames of the sender's queue pair met congestion.
    """

    reserved: bytes = octets(
        Count(key="opcode", scale=0, minus=-CNP_RESERVED_OCTETS), default=bytes(CNP_RESERVED_OCTETS), doc="0",
        name="infiniband.cnp.reserved",
    )  # fmt: skip
    role = "message"  # type: ignore[assignment]  # differs from its base
    counted_as = "CNP"
    summary = Summary(
        label="CNP",
        detail_first=True,
        detail="→ QP {qp:qp}{:between}",
        clauses=_CLAUSES,
        styles=_STYLES,
    )
    constants = ("opcode",)
    selected_by = tuple(CNP_OPCODE << 8 | second for second in range(1 << 8))
    sequences = {}
    crafting = Crafting(
        direction="reply", priority=6,
        outer={cls: values | _BACK[cls] for cls, values in _outer(CNP_DSCP, NOT_ECT).items()},
    )  # fmt: skip


@layer("grh", title="Global route header (GRH)", source="IBTA vol. 1, 8.3; annex A16")
class GRH(Layer):
    """Global route header, which replaces IP and UDP in RoCEv1. The layout matches an IPv6 header."""

    field_prefix = "infiniband.grh"
    ipver: int = uint(4, default=6, doc="6", source="IBTA vol. 1, 8.3")
    tclass: int = uint(8, default=0, base="hex", doc="traffic class", source="IBTA vol. 1, 8.3")
    flowlabel: int = uint(20, default=0, base="hex", doc="flow label", source="IBTA vol. 1, 8.3")
    paylen: int = uint(
        16, default=0, unit="octets", doc="from the BTH to the invariant CRC", source="IBTA vol. 1, 8.3"
    )
    nxthdr: int = uint(
        8, default=IBA_TRANSPORT, base="hex", doc="next header, 0x1b: BTH", source="IBTA vol. 1, 8.3"
    )
    hoplmt: int = uint(8, default=64, doc="hop limit", source="IBTA vol. 1, 8.3")
    sgid: Address = address(128, default=bytes(16), doc="source GID", source="IBTA vol. 1, 8.3")
    dgid: Address = address(128, default=bytes(16), doc="destination GID", source="IBTA vol. 1, 8.3")
    counted_as = "RoCEv1"
    summary = Summary(label="GRH", gives_way=True, detail="{sgid} → {dgid}")
    announced_by = ROCE_ETHERTYPE
    follows = "grh"
    limits = (Limit(key="ipver", low=6, high=6),)
    crafting = Crafting(values={"sgid": SOURCE_IP6, "dgid": DESTINATION_IP6})

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the packet. A payload length of 0 is ignored."""
        last = end + self.paylen if self.paylen else stop
        if self.nxthdr != IBA_TRANSPORT:
            return Data, last
        return formats.after_port(ROCE_PORT, data, end, min(stop, last)), last

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the payload length and, before a BTH, the next header."""
        values = {"paylen": len(rest)}
        return values | {"nxthdr": IBA_TRANSPORT} if isinstance(following, BTH) else values


_LRH = "IBTA vol. 1, 7.7"
_TO_BTH, _TO_GRH = 2, 3
_NEXT_HEADERS = {0: "raw", 1: "IPv6", _TO_BTH: "BTH", _TO_GRH: "GRH"}
_WORD_OCTETS = 4


@layer("lrh", title="Local route header (LRH)", source=_LRH)
class LRH(Layer):
    """Local route header, the first header of every packet on an InfiniBand link.

    The frame ends with the variant CRC.
    """

    field_prefix = "infiniband.lrh"
    vl: int = uint(4, default=0, doc="virtual lane", source="IBTA vol. 1, 7.7.1")
    lver: int = uint(4, default=0, doc="link version, 0", source="IBTA vol. 1, 7.7.2")
    sl: int = uint(4, default=0, doc="service level", source="IBTA vol. 1, 7.7.3")
    reserved2: int = uint(2, default=0, doc="0")
    lnh: int = uint(2, default=_TO_BTH, doc="next header", source="IBTA vol. 1, 7.7.5", names=_NEXT_HEADERS)
    dlid: int = uint(16, default=0, doc="destination local identifier", source="IBTA vol. 1, 7.7.6")
    reserved5: int = uint(5, default=0, doc="0")
    pktlen: int = uint(
        11, default=0, unit="32-bit words", doc="from this header to the invariant CRC",
        source="IBTA vol. 1, 7.7.8",
    )  # fmt: skip
    slid: int = uint(16, default=0, doc="source local identifier", source="IBTA vol. 1, 7.7.9")
    counted_as = "InfiniBand"
    summary = Summary(label="LRH", gives_way=True, detail="LID {slid} → {dlid} VL {vl}")

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of the next header, and the end of the packet.

        The packet length determines the end; a length of 0 means that the length is unknown.
        """
        last = end + _WORD_OCTETS * self.pktlen - LRH.fixed_octets if self.pktlen else stop
        if self.lnh == _TO_GRH:
            return GRH, last
        if self.lnh != _TO_BTH:
            return Data, last
        return formats.after_port(ROCE_PORT, data, end, min(stop, last)), last

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the packet length and, before a GRH or BTH, the next header."""
        values = {"pktlen": (LRH.fixed_octets + len(rest)) // _WORD_OCTETS}
        if isinstance(following, GRH | BTH):
            values["lnh"] = _TO_GRH if isinstance(following, GRH) else _TO_BTH
        return values


NETWORKS: tuple[type[Layer], ...] = (IPv4, IPv6, GRH)
"""Headers at which the coverage of an invariant CRC starts."""
_IPV6_CHANGING = ((0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF))
CHANGING: Mapping[type[Layer], tuple[tuple[int, int], ...]] = {
    IPv4: ((1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF)), IPv6: _IPV6_CHANGING, GRH: _IPV6_CHANGING,
    UDP: ((6, 0xFF), (7, 0xFF)), BTH: ((4, 0xFF),),
}  # fmt: skip
"""Offsets of octets that change on the path, and the changing bits in each octet.

The invariant CRC is computed with ones in these bits (IBTA A17.3.3).
"""
