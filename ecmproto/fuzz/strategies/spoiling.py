"""Frames as octets: whole, cut by a snap length, spoilt, and octets that never were a frame."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.codec.frame import Frame, encode
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.fuzz.strategies.frames import frames
from ecmproto.fuzz.strategies.surroundings import RESERVED_TYPES

Source: TypeAlias = SearchStrategy[Frame] | SearchStrategy[bytes]
"""What gives frames, or octets in place of them."""


def octets_of(source: Source | None = None) -> SearchStrategy[bytes]:
    """Return the octets of the frames that ``source`` gives, of any valid frame by default."""
    given: SearchStrategy[Any] = frames() if source is None else source
    return given.map(lambda value: encode(value) if isinstance(value, Frame) else bytes(value))


@st.composite
def truncated(draw: DrawFn, source: Source | None = None) -> tuple[bytes, int]:
    """Return ``(octets, original_octets)`` of frames of which a snap length kept the first octets."""
    octets = draw(octets_of(source))
    kept = draw(st.integers(0, len(octets)))
    return octets[:kept], len(octets)


@st.composite
def mutated(draw: DrawFn, source: Source | None = None) -> bytes:
    """Return frames spoilt in one to four places: bits flipped, octets set, put in, taken out, doubled."""
    octets = draw(octets_of(source))
    for _ in range(draw(st.integers(1, 4))):
        octets = draw(_spoilt(octets))
    return octets


@st.composite
def _spoilt(draw: DrawFn, octets: bytes) -> bytes:
    start = draw(st.integers(0, len(octets)))
    stop = draw(st.integers(start, min(len(octets), start + 16)))
    part = octets[start:stop]
    how = draw(st.sampled_from(("flip", "set", "put in", "take out", "double")))
    if how == "flip" and part:
        bit = draw(st.integers(0, 7))
        part = bytes([part[0] ^ 1 << bit]) + part[1:]
    elif how == "set":
        part = draw(st.sampled_from((bytes(len(part)), b"\xff" * len(part))))
    elif how == "put in":
        part += draw(st.binary(max_size=16))
    elif how == "take out":
        part = b""
    elif how == "double":
        part += part
    return octets[:start] + part + octets[stop:]


def arbitrary_octets(*, max_size: int = 160) -> SearchStrategy[bytes]:
    """Return octets of any kind: random ones, spoilt frames, random ones behind a known EtherType."""
    known = sorted(RESERVED_TYPES)
    behind = st.builds(
        lambda header, ethertype, rest: header + ethertype.to_bytes(2, "big") + rest,
        st.binary(min_size=12, max_size=12),
        st.sampled_from(known) | st.integers(0, MAX_LENGTH),
        st.binary(max_size=max_size),
    )
    return st.binary(max_size=max_size) | behind | mutated()
