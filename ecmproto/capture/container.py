"""What a capture file holds beside its frames: interfaces, other blocks, and how its records are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ecmproto.capture.linktypes import linktype_name

ByteOrder = Literal["little", "big"]
Format = Literal["pcap", "pcapng"]

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
NAME_RESOLUTION = 4
INTERFACE_STATISTICS = 5
ENHANCED_PACKET = 6

_BLOCK_NAMES = {
    SECTION_HEADER: "section header",
    INTERFACE_DESCRIPTION: "interface description",
    OBSOLETE_PACKET: "obsolete packet",
    SIMPLE_PACKET: "simple packet",
    NAME_RESOLUTION: "name resolution",
    INTERFACE_STATISTICS: "interface statistics",
    ENHANCED_PACKET: "enhanced packet",
    9: "systemd journal export",
    0xA: "decryption secrets",
    0xBAD: "custom",
    0x40000BAD: "custom, not to be copied",
}


def block_name(kind: int) -> str:
    """Return the name of a pcapng block type, or ``unknown (0x…)``."""
    return _BLOCK_NAMES.get(kind, f"unknown (0x{kind:08x})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """One interface frames were captured on.

    ``index`` counts over the whole capture; ``section`` and ``local_index`` are its place in a pcapng file.
    ``snaplen`` 0 means no limit.  Times are ``ticks_per_second`` ticks plus ``offset_s`` seconds.
    ``fcs_octets`` is how many octets of FCS end each frame, ``speed_bps`` the link's rate; 0 where there are
    none or the file does not say.
    ``options`` are the interface's options as they stand in the file, in order.
    """

    index: int
    linktype: int
    snaplen: int = 0
    name: str = ""
    description: str = ""
    ticks_per_second: int = 1_000_000
    offset_s: int = 0
    fcs_octets: int = 0
    speed_bps: int = 0
    section: int = 0
    local_index: int = 0
    options: tuple[tuple[int, bytes], ...] = ()

    @property
    def linktype_name(self) -> str:
        """The link type's name in the registry."""
        return linktype_name(self.linktype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFormat:
    """How the records of a batch are laid out in its buffer."""

    format: Format
    byte_order: ByteOrder
    header_octets: int
    """Octets of a pcap record in front of the frame; 28 in pcapng, 12 in a simple packet block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One pcapng block that holds no frame, whole and as it stands in the file.

    ``offset`` is where it starts in the (uncompressed) capture, ``frame`` how many frames precede it.
    """

    kind: int
    octets: bytes
    byte_order: ByteOrder
    section: int
    offset: int
    frame: int

    @property
    def name(self) -> str:
        """The block type's name."""
        return block_name(self.kind)

    @property
    def body(self) -> bytes:
        """The octets between the block's two lengths."""
        return self.octets[8:-4]
