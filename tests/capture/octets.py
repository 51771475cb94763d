"""Captures composed octet by octet, without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def order(big: bool) -> str:
    return ">" if big else "<"


def pcap_header(
    *,
    big: bool = False,
    magic: int = 0xA1B2C3D4,
    version: tuple[int, int] = (2, 4),
    snaplen: int = 65535,
    linktype: int = 1,
) -> bytes:
    return struct.pack(order(big) + "IHHiIII", magic, *version, 0, 0, snaplen, linktype)


def pcap_record(
    frame: bytes, *, big: bool = False, seconds: int = 0, ticks: int = 0, original: int = -1
) -> bytes:
    wire = len(frame) if original < 0 else original
    return struct.pack(order(big) + "IIII", seconds, ticks, len(frame), wire) + frame


def block(kind: int, body: bytes, *, big: bool = False) -> bytes:
    body += bytes(-len(body) % 4)
    total = len(body) + 12
    return struct.pack(order(big) + "II", kind, total) + body + struct.pack(order(big) + "I", total)


def option(code: int, value: bytes, *, big: bool = False) -> bytes:
    return struct.pack(order(big) + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(
    *, big: bool = False, length: int = -1, options: bytes = b"", version: tuple[int, int] = (1, 0)
) -> bytes:
    return block(
        0x0A0D0D0A, struct.pack(order(big) + "IHHq", 0x1A2B3C4D, *version, length) + options, big=big
    )


def description(*, big: bool = False, linktype: int = 1, snaplen: int = 0, options: bytes = b"") -> bytes:
    return block(1, struct.pack(order(big) + "HHI", linktype, 0, snaplen) + options, big=big)


def enhanced(
    frame: bytes,
    *,
    big: bool = False,
    interface: int = 0,
    ticks: int = 0,
    original: int = -1,
    options: bytes = b"",
) -> bytes:
    wire = len(frame) if original < 0 else original
    head = struct.pack(order(big) + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), wire)
    return block(6, head + frame + bytes(-len(frame) % 4) + options, big=big)


def simple(frame: bytes, *, big: bool = False, original: int = -1) -> bytes:
    return block(3, struct.pack(order(big) + "I", len(frame) if original < 0 else original) + frame, big=big)


def obsolete(frame: bytes, *, big: bool = False, interface: int = 0, drops: int = 0, ticks: int = 0) -> bytes:
    stamp = (ticks >> 32, ticks & 0xFFFFFFFF)
    head = struct.pack(order(big) + "HHIIII", interface, drops, *stamp, len(frame), len(frame))
    return block(2, head + frame, big=big)


def small_pcap(frames: Sequence[bytes] = (b"one", b"", b"three")) -> bytes:
    records = [pcap_record(frame, seconds=i, ticks=7 * i) for i, frame in enumerate(frames)]
    return pcap_header() + b"".join(records)


def small_pcapng() -> bytes:
    """Return two pcapng sections of different byte order, with all types of blocks that contain frames and
    others.
    """
    first = [
        section(options=option(1, b"first") + bytes(4)),
        description(options=option(2, b"eth0") + option(9, b"\x09") + bytes(4)),
        description(linktype=101, options=option(9, b"\x83") + bytes(4)),
        enhanced(b"one", ticks=1_000_000_007),
        block(4, bytes(4)),
        enhanced(b"twos", interface=1, ticks=9, options=option(1, b"remark") + bytes(4)),
        simple(b"three"),
        block(0x0BAD, bytes(8)),
        obsolete(b"four", ticks=3),
    ]
    second = [
        section(big=True),
        description(big=True),
        enhanced(b"five", big=True, ticks=5),
        block(5, bytes(12), big=True),
    ]
    return b"".join(first + second)
