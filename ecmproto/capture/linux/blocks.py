"""The pcapng blocks that a live capture has beside its frames."""

from __future__ import annotations

import io
import struct

from ecmproto.capture.container import INTERFACE_STATISTICS, Block, Interface
from ecmproto.capture.linux.packet_socket import KernelCounts
from ecmproto.capture.options import build_options
from ecmproto.capture.sink import Sink
from ecmproto.capture.writer import PcapngWriter

# Options of an interface statistics block.
_START, _END, _RECEIVED, _DROPPED = 2, 3, 4, 5


def heading(interface: Interface) -> list[Block]:
    """Return the section header and the description of ``interface``, as `PcapngWriter` writes them."""
    memory = io.BytesIO()
    with PcapngWriter(Sink("", memory), interfaces=[interface]):
        octets = memory.getvalue()
    blocks = []
    at = 0
    while at < len(octets):
        kind, length = struct.unpack_from("<II", octets, at)
        blocks.append(_block(kind, octets[at : at + length], at, 0))
        at += length
    return blocks


def statistics(counts: KernelCounts, began_ns: int, ended_ns: int, frames: int) -> Block:
    """Return the interface statistics block of what the kernel counted between two times."""
    options = [
        (_START, _time(began_ns)),
        (_END, _time(ended_ns)),
        (_RECEIVED, struct.pack("<Q", counts.received + counts.dropped)),
        (_DROPPED, struct.pack("<Q", counts.dropped)),
    ]
    body = struct.pack("<I", 0) + _time(ended_ns) + build_options(options, "little")
    total = len(body) + 12
    octets = struct.pack("<II", INTERFACE_STATISTICS, total) + body + struct.pack("<I", total)
    return _block(INTERFACE_STATISTICS, octets, 0, frames)


def _time(time_ns: int) -> bytes:
    """Return a time as the blocks have it: the upper half first."""
    return struct.pack("<II", time_ns >> 32, time_ns & 0xFFFFFFFF)


def _block(kind: int, octets: bytes, offset: int, frame: int) -> Block:
    return Block(kind=kind, octets=octets, byte_order="little", section=0, offset=offset, frame=frame)
