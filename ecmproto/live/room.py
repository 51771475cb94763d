"""How much a switch port between interfaces holds, and how early it hands frames over."""

from __future__ import annotations

import re

from ecmproto.errors import ParameterError
from ecmproto.units import parse_octets

_SLOT_OCTETS = 64
_LEAST_FRAME_OCTETS = 60
MOST_FRAMES = 1 << 18
"""A buffer given in octets holds no more frames than this."""
_FRAME_OCTETS = 1518
"""Of an ordinary full frame with a VLAN tag."""
_FRAMES = re.compile(r"([0-9]{1,12})\s*frames?")
LEAD_NS = 20_000
"""What handing a frame to the kernel takes, roughly: a port gives it away so much before it leaves."""


def slot_octets(mtus_octets: int) -> int:
    """Return what a frame may have where the largest MTU is ``mtus_octets``: headers and some tags more."""
    return -(-(mtus_octets + _SLOT_OCTETS) // _SLOT_OCTETS) * _SLOT_OCTETS


def buffer_of(text: str) -> tuple[int, int]:
    """Return the frames and the octets that a buffer such as ``1000frames`` or ``500kB`` holds.

    Frames are counted as 1518 octets where octets matter, shorter ones than 60 there are not.
    ParameterError for what is neither.
    """
    found = _FRAMES.fullmatch(text.strip())
    if found is None:
        octets = parse_octets(text)
        return min(MOST_FRAMES, max(1, octets // _LEAST_FRAME_OCTETS)), octets
    frames = int(found[1])
    if not 1 <= frames <= MOST_FRAMES:
        raise ParameterError(name="buffer", needed=f"1 to {MOST_FRAMES} frames", got=text)
    return frames, frames * _FRAME_OCTETS
