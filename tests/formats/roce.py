"""RoCE frames for tests: octets from other sources, and a frame for each opcode and network."""

from ecmproto.tools.craft import build
from ecmproto.wire.codec import UDP, VLAN, Ethernet, Frame, IPv4, IPv6, encode
from ecmproto.wire.codec.frame import fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.infiniband import CNP, CNP_DSCP, CNP_OPCODE, ICRC, OPCODES, ROCE_PORT
from ecmproto.wire.formats.ip import SOURCE_PORT

CNP_OCTETS = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118"
    "00000000" + 16 * "00" + "82fd002a"
)
"""A CNP that a network card sent: queue pair 0x118, 10.0.17.1 to 10.0.18.1."""

NETWORKS = ("", "ipv6", "grh", "vlan id=5 priority=3", "ieee8021ad id=9 vlan id=5 ipv6")
_FIELDS = "se=1 m=1 fecn=1 qp=0x123456 a=1 psn=0xabcdef"


def frame_lines() -> list[str]:
    """Return a specification for each opcode, with a payload and without, after each kind of headers."""
    lines = []
    for network in NETWORKS:
        for opcode in sorted(OPCODES):
            if opcode == CNP_OPCODE:
                lines.append(f"{network} cnp qp=0x118".strip())
                continue
            lines.append(f"{network} bth opcode={opcode} {_FIELDS}".strip())
            lines.append(f"{network} bth opcode={opcode} {_FIELDS} data data=00010203".strip())
    return lines


def frames() -> list[bytes]:
    """Return the octets of the vector and of those frames."""
    return [CNP_OCTETS, *(encode(build(line)) for line in frame_lines())]


def cnp_frame(
    queue_pair: int,
    *,
    dst: bytes | str,
    src: bytes | str,
    dst_ip: bytes | str,
    src_ip: bytes | str,
    vlan: int | None = None,
    priority: int = CNP.crafting.priority,
    dscp: int = CNP_DSCP,
    source_port: int = SOURCE_PORT,
) -> Frame:
    """Return the CNP frame that requests the sender at ``dst`` to reduce the rate of its ``queue_pair``.

    Addresses are octets or text. Both IP addresses have the same version. With ``vlan``, the frame has a VLAN
    tag with this identifier and with ``priority``.
    """
    header = Ethernet(dst=dst, src=src)
    tags: list[Layer] = [] if vlan is None else [VLAN(id=vlan, priority=priority)]
    is_ip4 = len(dst_ip) == 4 if isinstance(dst_ip, bytes) else ":" not in dst_ip
    network: Layer = (
        IPv4(dsfield=dscp << 2, flags=2, src=src_ip, dst=dst_ip)
        if is_ip4
        else IPv6(tclass=dscp << 2, src=src_ip, dst=dst_ip)
    )
    layers = (header, *tags, network, UDP(srcport=source_port, dstport=ROCE_PORT), CNP(qp=queue_pair), ICRC())
    return fixed(Frame(layers=layers))
