"""pcapng options: code, length, value, padded to four octets, in the section's byte order."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ecmproto.capture.container import ByteOrder

END_OF_OPTIONS = 0
COMMENT = 1
IF_NAME = 2
IF_DESCRIPTION = 3
IF_SPEED = 8
IF_TSRESOL = 9
IF_FCSLEN = 13
IF_TSOFFSET = 14

Options = tuple[tuple[int, bytes], ...]


def parse_options(octets: bytes, byte_order: ByteOrder) -> tuple[Options, bool]:
    """Return the options in ``octets`` and whether they were whole; a broken tail is left out."""
    head = struct.Struct("<HH" if byte_order == "little" else ">HH")
    found: list[tuple[int, bytes]] = []
    position = 0
    while position + 4 <= len(octets):
        code, length = head.unpack_from(octets, position)
        if code == END_OF_OPTIONS:
            return tuple(found), True
        value = octets[position + 4 : position + 4 + length]
        if len(value) < length:
            return tuple(found), False
        found.append((code, value))
        position += 4 + (length + 3 & ~3)
    return tuple(found), position >= len(octets)


def build_options(options: Iterable[tuple[int, bytes]], byte_order: ByteOrder) -> bytes:
    """Return ``options`` as octets with their end mark, or nothing when there are none."""
    head = struct.Struct("<HH" if byte_order == "little" else ">HH")
    parts = [head.pack(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join([*parts, bytes(4)]) if parts else b""
