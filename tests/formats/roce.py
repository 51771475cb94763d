"""RoCE frames to test with: octets that nobody here made, and a frame of each opcode and network."""

from ecmproto.codec import encode
from ecmproto.craft import build
from ecmproto.formats.infiniband import CNP_OPCODE, OPCODES

CNP_OCTETS = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118"
    "00000000" + 16 * "00" + "82fd002a"
)
"""A CNP that a network card sent: queue pair 0x118, 10.0.17.1 to 10.0.18.1."""

NETWORKS = ("", "ipv6", "grh", "vlan id=5 priority=3", "ieee8021ad id=9 vlan id=5 ipv6")
_FIELDS = "se=1 m=1 fecn=1 qp=0x123456 a=1 psn=0xabcdef"


def frame_lines() -> list[str]:
    """Return a specification for each opcode, with a payload and without, behind each kind of headers."""
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
