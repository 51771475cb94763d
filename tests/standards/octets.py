"""Hand-written frames in hexadecimal, with a field per line and a comment per field."""

from __future__ import annotations


def octets(text: str) -> bytes:
    """Return the octets of commented hex."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))
