"""Frames written by hand: hex, one field a line, each with a comment."""

from __future__ import annotations


def octets(text: str) -> bytes:
    """Return the octets of commented hex."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))
