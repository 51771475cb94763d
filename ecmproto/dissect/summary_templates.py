"""The clauses and styles that the formats' summary lines share; see `ecmproto.formats.summary`.

A clause is part of a line, chosen by values of the frame; a style is how values are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from socket import AF_INET6, inet_ntoa, inet_ntop

from ecmproto.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.formats.ecm import timestamp_ns
from ecmproto.formats.ethernet import PACKET_TYPES
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.summary import Case, Clause, First
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY, format_rate, format_time

CLAUSES: Mapping[str, Clause] = {
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
    "saturated": Case("q", 1, 1, " (saturated)"),
    "quanta": Case("@", 0, 0, "resume", "{@} quanta"),
    "dei": Case("@", 1, 1, " dei"),
    "octets": Case("@", 1, 1, "1 octet", "{@} octets"),
    "rate": Case("@", RATE_INFINITY, RATE_INFINITY, "infinity", "{@:capacity}"),
    "addresses": First((
        "{ip.src} → {ip.dst}", "{ipv6.src} → {ipv6.dst}", "{sll.src,sll.halen:from}",
        "{sll2.src,sll2.halen:from}", "",
    )),
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
