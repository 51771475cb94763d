"""The frame check sequence of 802.3 3.2.9."""

from __future__ import annotations

import zlib


def frame_check_sequence(octets: bytes | memoryview) -> bytes:
    """Return the four octets of FCS, as they stand on the wire, of a frame from its DA to its end."""
    return zlib.crc32(octets).to_bytes(4, "little")
