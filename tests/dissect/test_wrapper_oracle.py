"""Wrapped frames of other makers, Scapy and Linux, beside tshark: every field that both have."""

from __future__ import annotations

import random
import select
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ecmproto.frames.capture.linux.interface import interface_facts
from ecmproto.frames.dissect.fields import FieldReader
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto.wire.formats.registry import FORMATS
from tests.batch.test_inner import written
from tests.dissect.test_forms import record
from tests.namespaces import FAR, NEAR, PATIENCE_S, network

AROUND = ("eth", "vlan", "ip", "ipv6", "udp", "tcp", "macc", "arp")
LINES = ("vlan id=5 ip udp dstport=7", "ipv6 tcp dstport=80", "arp", "pfc prio3=9", "vlan id=7 cnm")
INSIDE = [encode(build(line)) for line in (*LINES, "ieee8021ah isid=9 ip")]


def names(program: str) -> list[str]:
    """Return the names of the fields of wrappers, and of formats around them, that tshark has too."""
    listed = subprocess.run([program, "-G", "fields"], capture_output=True, text=True, check=True).stdout
    known = {line.split("\t")[2] for line in listed.splitlines() if line.startswith("F\t")}
    # the version of IPv6 has this name too
    known.remove("ip.version")
    classes = [cls for cls in FORMATS if cls.role == "wrapper" or cls.prefix in AROUND]
    fields = [each for cls in classes for field in cls.layout for each in (field, *field.parts())]
    return [name for name in dict.fromkeys(field.name for field in fields) if name in known]


def values(text: str) -> list[str]:
    """Return the values of a field in one notation."""
    return [
        str(int(each, 0)) if each.startswith("0x") else {"True": "1", "False": "0"}.get(each, each)
        for each in filter(None, text.split(","))
    ]


def compare(program: str, frames: Sequence[bytes], path: Path) -> set[str]:
    """Assert that tshark finds the same fields in frames.

    Return the names of the fields that no frame contains.
    """
    compared = names(program)
    # Without an option, tshark uses the addresses to guess whether a control word is present.
    command = [program, "-n", "-r", str(written(path, frames)), "-d", "mpls.label==16,pwethcw"]
    command += ["-T", "fields", *(word for name in compared for word in ("-e", name))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    reader, missing = FieldReader(compared), set(compared)
    for octets, line in zip(frames, lines, strict=True):
        for name, mine, theirs in zip(compared, reader.row(record(octets)), line.split("\t"), strict=True):
            assert values(mine) == values(theirs), (name, octets.hex())
            missing -= {name} if mine else set()
    return missing


def of_scapy() -> Iterator[bytes]:
    """Yield frames in Scapy's wrappers."""
    from scapy.contrib.erspan import ERSPAN_I, ERSPAN_II, ERSPAN_III, ERSPAN_PlatformSpecific
    from scapy.contrib.geneve import GENEVE, GeneveOptions
    from scapy.contrib.mpls import MPLS
    from scapy.contrib.tzsp import TZSP, TZSPTagEnd, TZSPTagPadding, TZSPTagRXChannel
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import GRE, Dot1Q, Ether
    from scapy.layers.vxlan import VXLAN

    draw = random.Random(30)
    ends = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")

    def bits(count: int) -> int:
        return draw.getrandbits(count)

    def session(**further: int) -> dict[str, Any]:
        return {"vlan": bits(12), "cos": bits(3), "t": bits(1), "session_id": bits(10)} | further

    for inside in (Ether(octets) for octets in INSIDE):
        numbered: dict[str, Any] = {"seqnum_present": 1, "sequence_number": bits(32)}
        third = session(bso=bits(2), timestamp=bits(32), sgt_other=bits(16), p=1, hw=bits(6), d=bits(1))
        options = [GeneveOptions(classid=1, type=2, data=b"abcd")]
        tags = TZSPTagRXChannel() / TZSPTagPadding() / TZSPTagEnd()
        labels = MPLS(label=bits(20), cos=bits(3), s=0, ttl=5) / MPLS(label=16, s=1, ttl=6)
        wrappers = (
            GRE(proto=0x6558),
            GRE(proto=0x6558, key_present=1, key=bits(32)),  # NVGRE
            GRE(proto=0x6558, chksum_present=1, key_present=1, key=bits(32), **numbered),
            GRE(proto=0x88BE) / ERSPAN_I(),
            GRE(proto=0x88BE, **numbered) / ERSPAN_II(en=bits(2), index=bits(20), **session()),
            GRE(proto=0x22EB, **numbered) / ERSPAN_III(gra=bits(2), **third),
            GRE(proto=0x22EB, **numbered) / ERSPAN_III(o=1, **third) / ERSPAN_PlatformSpecific(),
            UDP(sport=49152 + bits(13), dport=4789) / VXLAN(flags=8, vni=bits(24)),
            UDP(sport=49152 + bits(13), dport=4790) / VXLAN(flags=0x0C, NextProtocol=3, vni=bits(24)),
            UDP(sport=49152 + bits(13), dport=6081) / GENEVE(vni=bits(24), proto=0x6558),
            UDP(sport=49152 + bits(13), dport=6081) / GENEVE(oam=1, proto=0x6558, options=options),
            UDP(sport=49152 + bits(13), dport=37008) / TZSP(encapsulated_protocol=1) / tags,
            GRE(proto=0x8847) / labels / b"\0\0\0\7",
        )
        for wrapper in wrappers:
            for outside in (IP(tos=bits(8)), IPv6(), Dot1Q(vlan=9) / IP()):
                yield bytes(ends / outside / wrapper / inside)
        yield bytes(ends / IP() / UDP(sport=49152, dport=6081) / GENEVE(proto=inside.type) / inside.payload)
        second = ends / IP() / GRE(proto=0x88BE, **numbered) / ERSPAN_II(**session())
        yield bytes(second / ends / IPv6() / UDP(dport=4789) / VXLAN(flags=8, vni=5) / inside)


def test_tshark_has_the_fields_of_scapys_wrappers(tshark: str, tmp_path: Path) -> None:
    assert compare(tshark, list(of_scapy()), tmp_path / "scapy.pcap") == {"tcp.options"}


def test_tshark_has_the_fields_of_linux_tunnels(tshark: str, tmp_path: Path) -> None:
    frames: list[bytes] = []
    with network() as made:
        made.ip(f"address add 10.9.0.1/24 dev {NEAR}")
        made.ip(f"address add fd00::1/64 dev {NEAR} nodad")
        far = interface_facts(FAR).address.hex(":")
        for number, remote in enumerate(("10.9.0.2", "fd00::2")):
            made.ip(f"neighbour add {remote} lladdr {far} dev {NEAR}")
            tunnel = f"link add tunnel{number} type vxlan id {77 + number} remote {remote}"
            made.ip(f"{tunnel} dev {NEAR} dstport 4789 ttl 9")
            made.ip(f"link set tunnel{number} addrgenmode none")
            made.ip(f"link set tunnel{number} arp off up")
            with (
                socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as source,
                socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sink,
            ):
                sink.bind((FAR, 3))
                source.bind((f"tunnel{number}", 0))
                for frame in INSIDE:
                    source.send(frame)
                    while not frames or not frames[-1].endswith(frame):
                        assert select.select([sink], [], [], PATIENCE_S)[0]
                        frames.append(sink.recv(9000))
    missing = compare(tshark, frames, tmp_path / "linux.pcap")
    assert {"vxlan.vni", "ipv6.plen", "vlan.id", "macc.opcode"}.isdisjoint(missing)
