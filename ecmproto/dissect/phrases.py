"""What a summary line says of each format, as data: a phrase a format, and the clauses that phrases share.

A phrase is text with values in braces, which `ecmproto.dissect.sentence` puts together:

``{id}``               a field of the format's own layer; ``{ip.src}``, one of another format's first layer
``{sender}``           the frame's source address; ``{receiver}``, its destination
``{cpid[48:64]}``      some of a field's bits, counted from its first
``{#data}``            how many octets a field has
``{length-8}``         a difference; ``{64*q_off}``, a multiple
``{proto:ip}``         a value in one of the `STYLES`; ``{timestamp,unit:ticks}``, one text of two values
``{q_off:queue}``      one of the `CLAUSES`, in which ``@`` stands for the value
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from socket import AF_INET6, inet_ntoa, inet_ntop
from typing import TypeAlias

from ecmproto.dissect.form import printable
from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import BCN, RRTTag
from ecmproto.formats.cn import CNM, CNTag
from ecmproto.formats.e2cm import BCN_TYPES, E2CM, PROBE_FWD
from ecmproto.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.formats.ecm import ECM, CMTag, timestamp_ns
from ecmproto.formats.ethernet import MSDU, PACKET_TYPES, SLL, SLL2, SNAP, VLAN, Data, Ethernet, ITag, STag
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.experimental import UnknownMessage, UnknownTag
from ecmproto.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.formats.ip import (
    AH,
    ARP,
    TCP,
    UDP,
    DestinationOptions,
    FragmentHeader,
    HopByHop,
    IPv4,
    IPv6,
    Routing,
)
from ecmproto.formats.lldp import END, TLV, CongestionNotificationTLV
from ecmproto.formats.mac_control import PFC, MACControl, Pause
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, format_rate, format_time


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """What a format says."""

    kind: str = ""
    """What a frame with it is, in a short word."""
    detail: str = ""
    """What matters of such a frame."""
    tag: str = ""
    """What it adds to whatever else the frame is."""
    message: bool = False
    """Whether it is a message of congestion management: its detail goes before the frame's tags."""
    modest: bool = False
    """Whether it gives way to any other format with a detail."""
    name: str = ""
    """What the frame is where no format has a kind."""
    sender: str = ""
    receiver: str = ""
    addressee: str = ""
    shown_to: str = ""
    """The fields that hold the frame's addresses, whom a message in it is for, and the destination of the
    frame that it shows."""
    odd: Callable[[Sequence[Layer]], list[str]] | None = None
    """Says it all, where no template can: of the frame's layers, its tags and, last, its detail."""


def lldp_parts(layers: Sequence[Layer]) -> list[str]:
    """Return what LLDP's TLVs among the layers of a frame say."""
    said, count = [], 0
    for value in layers:
        if isinstance(value, TLV):
            count += value.type != END
            if value.type == _SYSTEM_NAME:
                said.append(printable(value.value.decode("utf-8", errors="replace")))
        elif isinstance(value, CongestionNotificationTLV):
            count += 1
            said.append(f"CN TLV CNPV {_priorities(value.cnpv)} ready {_priorities(value.ready)}")
    return [*said, f"{count} TLVs"]


_SYSTEM_NAME = 5


def _priorities(bits: int) -> str:
    return ",".join(str(n) for n in range(8) if bits >> n & 1) or "none"


_RATE_MESSAGE = "RLQ {rlq_id} rate {rate:rate}"
_COOKED = Phrase(tag="{pkttype:packet}", name="{etype:protocol}", sender="sender")

PHRASES: Mapping[type[Layer], Phrase] = {
    Ethernet: Phrase(sender="src", receiver="dst", addressee="dst"),
    MSDU: Phrase(),
    SNAP: Phrase(),
    VLAN: Phrase(tag="vlan {id} prio {priority}{dei:dei}"),
    STag: Phrase(tag="S-vlan {id} prio {priority}{dei:dei}"),
    ITag: Phrase(tag="I-SID {isid} prio {priority} {csrc} → {cdst}", addressee="cdst"),
    CNTag: Phrase(tag="CN-TAG flow {flow_id}"),
    CMTag: Phrase(tag="{protocol:cm_tag} {:cpid} t {timestamp,unit:ticks}"),
    RRTTag: Phrase(tag="RRT {:cpid}"),
    RDTag: Phrase(tag="RD-TAG RLQ {rlq_id} rate {rate:rate}"),
    UnknownTag: Phrase(
        kind="tag?", detail="experimental tag, protocol {protocol} type {type}, {#body:octets}"
    ),
    CNM: Phrase(
        kind="CNM", message=True, shown_to="encap_dst",
        detail="Fb {qntz_fb} {:flow} prio {encap_prio} "
        "QOffset {q_offset:queue} QDelta {q_delta:queue} {:cpid}",
    ),
    ECM: Phrase(kind="ECM", message=True, detail="{:ecm}{:saturated} {:cpid}{timestamp:stamp}"),
    BCN: Phrase(kind="BCN", message=True, detail="{:stop}e {e:queue} C {capacity:capacity} {:cpid}"),
    E2CM: Phrase(kind="E2CM", message=True, detail="{type:e2cm_type} {:e2cm} flow {flow_id:hex} {:cpid}"),
    FECNReturn: Phrase(kind="FECN", message=True, detail=_RATE_MESSAGE),
    DBPRateReport: Phrase(kind="DBP", message=True, detail=_RATE_MESSAGE),
    UnknownMessage: Phrase(
        kind="msg?", detail="experimental message, protocol {protocol} type {type}, {#body:octets}"
    ),
    Pause: Phrase(kind="PAUSE", detail="{pause_time:quanta}"),
    PFC: Phrase(kind="PFC", detail="".join(f"{{:prio{n}}}" for n in range(8)) + "{:none}"),
    MACControl: Phrase(kind="MACC", detail="opcode {opcode:hex}"),
    TLV: Phrase(kind="LLDP", odd=lldp_parts),
    CongestionNotificationTLV: Phrase(kind="LLDP", odd=lldp_parts),
    ARP: Phrase(kind="ARP", detail="{:arp}"),
    IPv4: Phrase(kind="IPv4", modest=True, detail="{src} → {dst} {proto:ip}{frag_offset:fragment}"),
    IPv6: Phrase(kind="IPv6", modest=True, detail="{src} → {dst} {nxt:ip}"),
    HopByHop: Phrase(),
    Routing: Phrase(),
    FragmentHeader: Phrase(tag="fragment at {8*offset}"),
    DestinationOptions: Phrase(),
    AH: Phrase(),
    UDP: Phrase(kind="UDP", detail="{:ports} len {:datagram}"),
    TCP: Phrase(kind="TCP", detail="{:ports} [{flags:flags}]"),
    SLL: _COOKED,
    SLL2: _COOKED,
    Data: Phrase(modest=True, detail="{#data:octets}"),
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class First:
    """The first of several phrases whose layers and addresses the frame has.

    A tag that the phrase tells of is not told again.
    """

    phrases: Sequence[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """``then`` where a value is in ``low`` to ``high``, ``otherwise`` elsewhere or where there is none.

    Addresses are numbers here.
    """

    value: str
    low: int
    high: int
    then: Clause
    otherwise: Clause = ""


Clause: TypeAlias = "str | First | Case"


def _priority(n: int) -> Case:
    """Return what a PFC frame says of a priority, whose bit is the ``n``-th from the last."""
    comma = f"{{class_enable_vector[{16 - n}:16]:comma}}" if n else ""
    enabled = f"class_enable_vector[{15 - n}:{16 - n}]"
    return Case(enabled, 1, 1, f"{comma}prio {n}: {{time{n}:quanta}}")


CLAUSES: Mapping[str, Clause] = {
    "flow": First(("flow {cntag.flow_id}", "no flow id")),
    "ports": First((
        "{ip.src}:{srcport} → {ip.dst}:{dstport}",
        "[{ipv6.src}]:{srcport} → [{ipv6.dst}]:{dstport}",
        "port {srcport} → {dstport}",
    )),
    # the address of a congestion point that sends under its own goes unsaid
    "cpid": Case(
        "cpid[0:48]-sender", 0, 0, "CPID src/{cpid[48:64]}", "CPID {cpid[0:48]:mac}/{cpid[48:64]}"
    ),
    # a sampled frame's source goes unsaid where the message is sent to it
    "source": First(("{:other}", "")),
    "other": First(("{:stranger}", "{sender} ")),
    "stranger": Case(
        "sender-outer.addressee", 0, 0, "", "{sender} [suspicious: the message is for {outer.addressee}] "
    ),
    "queue": Case("@", 0, 0, "0 B", f"{{{QUEUE_UNIT_OCTETS}*@:signed}} B"),
    "queues": "Qoff {q_off:queue} Qdelta {q_delta:queue}",
    "ecm": Case("q_off", 0, 0, Case("q_delta", 0, 0, "ECM(0,0) stop", "{:queues}"), "{:ecm_max}{:queues}"),
    # ECM-Max is Qoff = Qeq, Qdelta = 2·Qeq (wire-formats 4); Qeq itself is not in the frame
    "ecm_max": Case("q_off", 1, 0x7FFF, Case("q_delta-2*q_off", 0, 0, "ECM-Max? ")),
    "saturated": Case("q", 1, 1, " (saturated)"),
    "stamp": Case("@", 0, 0, "", " t {timestamp,unit:ticks}"),
    "stop": Case("type", 1, 1, "STOP "),
    "e2cm": Case("type", 0, max(BCN_TYPES), "{:queues}{:saturated}", Case(
        "type", PROBE_FWD, PROBE_FWD, "sent at {latency} ns",
        "latency {latency:time} throughput {throughput:capacity}",
    )),
    "quanta": Case("@", 0, 0, "resume", "{@} quanta"),
    "comma": Case("@", 1, 0xFF, ", "),
    "none": Case("class_enable_vector[8:16]", 0, 0, "no priority enabled"),
    "arp": Case("opcode", 1, 1, "who has {dst_proto}? tell {src_proto}", Case(
        "opcode", 2, 2, "{src_proto} is at {src_hw}", "opcode {opcode} {src_proto} → {dst_proto}"
    )),
    "fragment": Case("@", 0, 0, "", " fragment at {8*@}"),
    "datagram": Case("length", 0, 8, "0", "{length-8}"),
    "dei": Case("@", 1, 1, " dei"),
    "octets": Case("@", 1, 1, "1 octet", "{@} octets"),
    "rate": Case("@", RATE_INFINITY, RATE_INFINITY, "infinity", "{@:capacity}"),
    "addresses": First((
        "{ip.src} → {ip.dst}", "{ipv6.src} → {ipv6.dst}", "{sll.src,sll.halen:from}",
        "{sll2.src,sll2.halen:from}", "",
    )),
    **{f"prio{n}": _priority(n) for n in range(8)},
}  # fmt: skip


_IP_PROTOCOLS = {
    0: "hop-by-hop options", 1: "ICMP", 2: "IGMP", 4: "IP in IP", 6: "TCP", 17: "UDP", 41: "IPv6 in IP",
    43: "routing header", 44: "fragment", 47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6", 59: "no next header",
    60: "destination options", 88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP",
}  # fmt: skip
_TCP_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")


def _mac(address: bytes | int) -> str:
    return (address if isinstance(address, bytes) else address.to_bytes(6, "big")).hex(":")


def _ip6(address: bytes) -> str:
    return inet_ntop(AF_INET6, address)


STYLES: Mapping[str, Callable[..., str]] = {
    "decimal": str,
    "signed": lambda number: f"{number:+d}",
    "hex": lambda number: f"{number:#06x}",
    "mac": _mac,
    "ipv4": inet_ntoa,
    "ipv6": _ip6,
    "from": lambda address, octets: f"{_mac(address):>17} →" if octets == 6 else "",
    "capacity": lambda kbps: format_rate(kbps * 1000),
    "time": format_time,
    "ticks": lambda timestamp, unit: format_time(timestamp_ns(timestamp, unit)),
    "cm_tag": lambda protocol: "E2CM CM-TAG" if protocol == 2 else "CM-TAG",
    "e2cm_type": lambda type: E2CM_TYPES.get(type, f"type {type}"),
    "ip": lambda protocol: _IP_PROTOCOLS.get(protocol) or f"protocol {protocol}",
    "flags": lambda bits: ", ".join(name for bit, name in enumerate(_TCP_FLAGS) if bits >> bit & 1),
    "packet": lambda type: PACKET_TYPES.get(type, f"packet type {type}"),
    "ethertype": lambda value: "LLC" if value <= MAX_LENGTH else f"{value:#06x}",
    # smaller ones are Linux's own numbers
    "protocol": lambda value: "data" if value <= MAX_LENGTH else f"{value:#06x}",
}
"""How values are written: a field in the style of its kind where none is named."""
