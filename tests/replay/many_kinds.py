"""A capture with frames of every type, and a frame parser that is independent of the code under test."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ecmproto.frames.capture import Interface, PcapngWriter
from ecmproto.wire.codec.frame import frame_check_sequence

HOST = bytes.fromhex("0200000000")
DESTINATION = HOST + b"\xfa"
START_NS = 1_700_000_000_123_456_789
PAYLOAD = bytes.fromhex("9999")
"""An EtherType without a reader."""

VLAN, TWO_VLANS = "8100 600a", "88a8 4014 8100 600a"
TAGS = {
    "ecm": "88b6 0000 0200000000cc0004 1234 3000",
    "bcn": "88b6 0100 0200000000cc0004",
    "e2cm": "88b6 0200 0200000000cc0004 1234 3000",
    "fecn": "88b6 0300 0001 000000ff",
    "qcn": "22e9 0042",
}
"""The octets of each mechanism in front of an EtherType; FECN's requests 255 kb/s."""

HEADERS = ["", VLAN, VLAN, TWO_VLANS, *(f"{VLAN} {tag}" for tag in TAGS.values()), TAGS["ecm"]]
CUTS = [64, 64, 64, 200, 1500, 18, 14, 13, 8]
"""Captured octets of frames."""

FCS_OCTETS = 4
_TAG_OCTETS = {0: 16, 1: 12, 2: 16, 3: 10, 5: 52}


class Kind(NamedTuple):
    station: int
    header: str
    llc: bool
    octets: int
    cut: int


def frame(kind: Kind, number: int) -> bytes:
    """Return a frame that contains its number, complete, without FCS."""
    header = DESTINATION + HOST + bytes([kind.station]) + bytes.fromhex(kind.header)
    if kind.llc:
        length = kind.octets - len(header) - 2
        header += length.to_bytes(2) + bytes.fromhex("424203") + number.to_bytes(4)
    else:
        header += PAYLOAD + number.to_bytes(4)
    return header.ljust(kind.octets, bytes([number & 0xFF]))


def write(path: Path, *, milliseconds: float = 1.0, seed: int = 1, plain: bool = False) -> None:
    """Write a capture of two interfaces, the second with FCS: four stations at full speed each."""
    draws = np.random.default_rng(seed)
    interfaces = [Interface(index=n, linktype=1, fcs_octets=FCS_OCTETS * n) for n in range(2)]
    with PcapngWriter(str(path), interfaces=interfaces) as writer:
        for number in range(int(milliseconds * 3_300)):
            kind = Kind(
                station=number % 4 + 1,
                header=VLAN if plain else str(draws.choice(HEADERS)),
                llc=not plain and bool(draws.random() < 0.2),
                octets=1_500 if plain else int(draws.choice([80, 600, 1_500])),
                cut=64 if plain else int(draws.choice(CUTS)),
            )
            octets, interface = frame(kind, number), number // 4 % 2
            fcs = frame_check_sequence(octets) if interface else b""
            writer.write_frame(
                (octets + fcs)[: kind.cut],
                START_NS + 305 * number,
                original=len(octets + fcs),
                interface=interface,
            )


class Parted(NamedTuple):
    """A frame without the mechanism's tags, and these tags, up to the end of the captured octets."""

    octets: bytes
    cn_tags: list[bytes]
    tags: list[bytes]


def parted(octets: bytes) -> Parted:
    """Take the tags out of a frame."""
    kept, cn_tags, tags, place = octets[:12], list[bytes](), list[bytes](), 12
    while True:
        kind = octets[place : place + 2].hex()
        if kind in ("8100", "88a8") and len(octets) >= place + 4:
            kept += octets[place : place + 4]
            place += 4
        elif kind == "22e9" and len(octets) >= place + 4:
            cn_tags.append(octets[place : place + 4])
            place += 4
        elif kind == "88b6" and len(octets) >= place + 4:
            size = _TAG_OCTETS[octets[place + 2]]
            if len(octets) < place + size:
                break
            tags.append(octets[place : place + size])
            place += size
        else:
            break
    return Parted(kept + octets[place:], cn_tags, tags)
