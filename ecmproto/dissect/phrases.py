"""What a summary line says of each format: one short function a format, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from socket import AF_INET6, inet_ntoa, inet_ntop
from typing import Any

from ecmproto.dissect.form import printable
from ecmproto.errors import counted
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, format_rate, format_time
from ecmproto.wire.bcn import BCN, RRTTag
from ecmproto.wire.cn import CNM, CNTag
from ecmproto.wire.cooked import PACKET_TYPES, SLL, SLL2, Cooked
from ecmproto.wire.e2cm import BCN_TYPES, E2CM
from ecmproto.wire.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.ecm import ECM, CMTag, ticks_to_ns
from ecmproto.wire.ethernet import MSDU, VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.ethertypes import MAX_LENGTH
from ecmproto.wire.experimental import UnknownMessage, UnknownTag
from ecmproto.wire.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.frame import Frame
from ecmproto.wire.ip import ARP, TCP, UDP, IPv4, IPv6
from ecmproto.wire.layer import Layer
from ecmproto.wire.lldp import TLV, CongestionNotificationTLV
from ecmproto.wire.mac_control import PFC, MACControl, Pause

_IP_PROTOCOLS = {
    0: "hop-by-hop options", 1: "ICMP", 2: "IGMP", 4: "IP in IP", 6: "TCP", 17: "UDP", 41: "IPv6 in IP",
    43: "routing header", 44: "fragment", 47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6", 59: "no next header",
    60: "destination options", 88: "EIGRP", 89: "OSPF", 103: "PIM", 112: "VRRP", 132: "SCTP",
}  # fmt: skip
_TCP_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")
_SYSTEM_NAME = 5


class Phrases:
    """What the layers of one frame have said so far, outermost first.

    Defaults are the class's, so that a frame costs one list and what its layers say.
    """

    kind = ""
    detail = ""
    message = False
    """Whether it is a message of congestion management: its detail goes before its tags."""
    ethertype = -1
    src = b""
    dst = b""
    sampled_dst = b""
    ip: IPv4 | IPv6 | None = None
    tlvs = 0

    def __init__(self) -> None:
        self.tags: list[str] = []

    @property
    def name(self) -> str:
        """What the frame is, by its EtherType where no layer gave a name."""
        if self.kind:
            return self.kind
        if self.ethertype < 0:
            return "data"
        return "LLC" if self.ethertype <= MAX_LENGTH else f"{self.ethertype:#06x}"


def phrases_of(frame: Frame) -> Phrases:
    """Return what the layers of ``frame`` say."""
    said = Phrases()
    for value in frame.layers:
        _SAYINGS[type(value)](value, said)
    if said.ip is not None and not said.detail:
        _ip_detail(said.ip, said)
    return said


def _ethernet(value: Ethernet, said: Phrases) -> None:
    said.src, said.dst, said.ethertype = value.src, value.dst, value.type


def _msdu(value: MSDU, said: Phrases) -> None:
    said.ethertype = value.type


def _vlan(value: VLAN, said: Phrases) -> None:
    said.tags.append(f"vlan {value.id} prio {value.priority}{' dei' if value.dei else ''}")
    said.ethertype = value.etype


def _s_tag(value: STag, said: Phrases) -> None:
    said.tags.append(f"S-vlan {value.id} prio {value.priority}{' dei' if value.dei else ''}")
    said.ethertype = value.etype


def _i_tag(value: ITag, said: Phrases) -> None:
    said.tags.append(
        f"I-SID {value.isid} prio {value.priority} {value.csrc.hex(':')} → {value.cdst.hex(':')}"
    )
    said.ethertype = value.etype


def _cn_tag(value: CNTag, said: Phrases) -> None:
    said.tags.append(f"CN-TAG flow {value.flow_id}")
    said.ethertype = value.etype


def _cm_tag(value: CMTag, said: Phrases) -> None:
    name = "E2CM CM-TAG" if value.protocol == 2 else "CM-TAG"
    said.tags.append(f"{name} {_cpid(value.cpid, said)} t {format_time(ticks_to_ns(value))}")
    said.ethertype = value.etype


def _rrt_tag(value: RRTTag, said: Phrases) -> None:
    said.tags.append(f"RRT {_cpid(value.cpid, said)}")
    said.ethertype = value.etype


def _rd_tag(value: RDTag, said: Phrases) -> None:
    said.tags.append(f"RD-TAG RLQ {value.rlq_id} rate {_rate(value.rate)}")
    said.ethertype = value.etype


def _unknown_tag(value: UnknownTag, said: Phrases) -> None:
    said.kind = "tag?"
    said.detail = _unassigned("tag", value.protocol, value.type, len(value.body))


def _cnm(value: CNM, said: Phrases) -> None:
    flow = next((tag.removeprefix("CN-TAG ") for tag in said.tags if tag.startswith("CN-TAG")), "no flow id")
    said.tags = [tag for tag in said.tags if not tag.startswith("CN-TAG")]
    said.kind, said.message, said.sampled_dst = "CNM", True, value.encap_dst
    said.detail = (
        f"Fb {value.qntz_fb} {flow} prio {value.encap_prio} QOffset {_queue(value.q_offset)} "
        f"QDelta {_queue(value.q_delta)} {_cpid(value.cpid, said)}"
    )


def _ecm(value: ECM, said: Phrases) -> None:
    said.kind, said.message = "ECM", True
    said.detail = f"{_ecm_feedback(value)}{_saturated(value.q)} {_cpid(value.cpid, said)}"
    if value.timestamp:
        said.detail += f" t {format_time(ticks_to_ns(value))}"


def _ecm_feedback(value: ECM) -> str:
    if value.q_off == value.q_delta == 0:
        return "ECM(0,0) stop"
    # ECM-Max is Qoff = Qeq, Qdelta = 2·Qeq (wire-formats 4); Qeq itself is not in the frame
    hint = "ECM-Max? " if value.q_delta == 2 * value.q_off > 0 else ""
    return f"{hint}Qoff {_queue(value.q_off)} Qdelta {_queue(value.q_delta)}"


def _bcn(value: BCN, said: Phrases) -> None:
    said.kind, said.message = "BCN", True
    stop = "STOP " if value.type == 1 else ""
    said.detail = (
        f"{stop}e {_queue(value.e)} C {format_rate(value.capacity * 1000)} {_cpid(value.cpid, said)}"
    )


def _e2cm(value: E2CM, said: Phrases) -> None:
    said.kind, said.message = "E2CM", True
    name = E2CM_TYPES.get(value.type, f"type {value.type}")
    flow = f"flow {value.flow_id:#06x} {_cpid(value.cpid, said)}"
    if value.type in BCN_TYPES:
        queue = f"Qoff {_queue(value.q_off)} Qdelta {_queue(value.q_delta)}{_saturated(value.q)}"
        said.detail = f"{name} {queue} {flow}"
    elif value.type == 3:
        said.detail = f"{name} sent at {value.latency} ns {flow}"
    else:
        rate = format_rate(value.throughput * 1000)
        said.detail = f"{name} latency {format_time(value.latency)} throughput {rate} {flow}"


def _rate_message(kind: str) -> Callable[[FECNReturn | DBPRateReport, Phrases], None]:
    def say(value: FECNReturn | DBPRateReport, said: Phrases) -> None:
        said.kind, said.message = kind, True
        said.detail = f"RLQ {value.rlq_id} rate {_rate(value.rate)}"

    return say


def _unknown_message(value: UnknownMessage, said: Phrases) -> None:
    said.kind = "msg?"
    said.detail = _unassigned("message", value.protocol, value.type, len(value.body))


def _pause(value: Pause, said: Phrases) -> None:
    said.kind = "PAUSE"
    said.detail = _quanta(value.pause_time)


def _pfc(value: PFC, said: Phrases) -> None:
    said.kind = "PFC"
    times = value.times
    enabled = [f"prio {n}: {_quanta(times[n])}" for n in range(8) if value.class_enable_vector >> n & 1]
    said.detail = ", ".join(enabled) or "no priority enabled"


def _mac_control(value: MACControl, said: Phrases) -> None:
    said.kind, said.detail = "MACC", f"opcode {value.opcode:#06x}"


def _tlv(value: TLV, said: Phrases) -> None:
    said.kind = "LLDP"
    said.tlvs += value.type != 0
    if value.type == _SYSTEM_NAME:
        said.tags.append(printable(value.value.decode("utf-8", errors="replace")))
    said.detail = f"{said.tlvs} TLVs"


def _cn_tlv(value: CongestionNotificationTLV, said: Phrases) -> None:
    said.kind = "LLDP"
    said.tlvs += 1
    said.tags.append(f"CN TLV CNPV {_priorities(value.cnpv)} ready {_priorities(value.ready)}")
    said.detail = f"{said.tlvs} TLVs"


def _arp(value: ARP, said: Phrases) -> None:
    said.kind = "ARP"
    src, dst = inet_ntoa(value.src_proto), inet_ntoa(value.dst_proto)
    if value.opcode == 1:
        said.detail = f"who has {dst}? tell {src}"
    elif value.opcode == 2:
        said.detail = f"{src} is at {value.src_hw.hex(':')}"
    else:
        said.detail = f"opcode {value.opcode} {src} → {dst}"


def _ip(value: IPv4 | IPv6, said: Phrases) -> None:
    said.ip = value


def _ip_detail(value: IPv4 | IPv6, said: Phrases) -> None:
    said.kind, proto = ("IPv4", value.proto) if isinstance(value, IPv4) else ("IPv6", value.nxt)
    name = _IP_PROTOCOLS.get(proto) or f"protocol {proto}"
    said.detail = f"{ip_text(value.src)} → {ip_text(value.dst)} {name}"
    if isinstance(value, IPv4) and value.frag_offset:
        said.detail += f" fragment at {value.frag_offset * 8}"


def _udp(value: UDP, said: Phrases) -> None:
    said.kind = "UDP"
    said.detail = f"{_ports(value.srcport, value.dstport, said)} len {max(0, value.length - 8)}"


def _tcp(value: TCP, said: Phrases) -> None:
    said.kind = "TCP"
    flags = value.flags
    names = ", ".join([name for bit, name in enumerate(_TCP_FLAGS) if flags >> bit & 1])
    said.detail = f"{_ports(value.srcport, value.dstport, said)} [{names}]"


def _cooked(value: Cooked, said: Phrases) -> None:
    said.src = value.sender
    if value.etype > MAX_LENGTH:  # smaller ones are Linux's own numbers
        said.ethertype = value.etype
    said.tags.append(PACKET_TYPES.get(value.pkttype, f"packet type {value.pkttype}"))


def _data(value: Data, said: Phrases) -> None:
    if not said.kind and said.ip is None:
        said.detail = counted(len(value.data), "octet")


_SAYINGS: dict[type[Layer], Callable[[Any, Phrases], None]] = {
    Ethernet: _ethernet, MSDU: _msdu, VLAN: _vlan, STag: _s_tag, ITag: _i_tag, CNTag: _cn_tag, CMTag: _cm_tag,
    RRTTag: _rrt_tag, RDTag: _rd_tag, UnknownTag: _unknown_tag, CNM: _cnm, ECM: _ecm, BCN: _bcn, E2CM: _e2cm,
    FECNReturn: _rate_message("FECN"), DBPRateReport: _rate_message("DBP"), UnknownMessage: _unknown_message,
    Pause: _pause, PFC: _pfc, MACControl: _mac_control, TLV: _tlv, CongestionNotificationTLV: _cn_tlv,
    ARP: _arp, IPv4: _ip, IPv6: _ip, UDP: _udp, TCP: _tcp, Data: _data, SLL: _cooked, SLL2: _cooked,
}  # fmt: skip


def _unassigned(what: str, protocol: int, type: int, octets: int) -> str:
    return f"experimental {what}, protocol {protocol} type {type}, {counted(octets, 'octet')}"


def _queue(units: int) -> str:
    """Return a queue length in 64-octet units as signed octets."""
    return f"{units * QUEUE_UNIT_OCTETS:+d} B" if units else "0 B"


def _saturated(q: int) -> str:
    return " (saturated)" if q else ""


def _cpid(cpid: int, said: Phrases) -> str:
    """Return a CPID; the MAC address of a congestion point that sends under its own goes unsaid."""
    mac = (cpid >> 16).to_bytes(6, "big")
    return f"CPID {'src' if mac == said.src else mac.hex(':')}/{cpid & 0xFFFF}"


def _rate(kbps: int) -> str:
    return "infinity" if kbps == RATE_INFINITY else format_rate(kbps * 1000)


def _quanta(quanta: int) -> str:
    return f"{quanta} quanta" if quanta else "resume"


def _priorities(bits: int) -> str:
    return ",".join(str(n) for n in range(8) if bits >> n & 1) or "none"


def ip_text(address: bytes) -> str:
    """Return an IPv4 or IPv6 address as text."""
    return inet_ntoa(address) if len(address) == 4 else inet_ntop(AF_INET6, address)


def _ports(src: int, dst: int, said: Phrases) -> str:
    ip = said.ip
    if ip is None:
        return f"port {src} → {dst}"
    if isinstance(ip, IPv4):
        return f"{inet_ntoa(ip.src)}:{src} → {inet_ntoa(ip.dst)}:{dst}"
    return f"[{ip_text(ip.src)}]:{src} → [{ip_text(ip.dst)}]:{dst}"
