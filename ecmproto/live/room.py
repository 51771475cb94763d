"""How much a switch port between interfaces holds, and how early it hands frames over."""

from __future__ import annotations

from ecmproto.engine.config import parse_buffer
from ecmproto.errors import ParameterError

_SLOT_OCTETS = 64
_LEAST_FRAME_OCTETS = 60
MOST_FRAMES = 1 << 18
"""A buffer given in octets holds no more frames than this."""
LEAD_NS = 20_000
"""What handing a frame to the kernel takes, roughly: a port gives it away so much before it leaves."""


def slot_octets(mtus_octets: int) -> int:
    """Return what a frame may have where the largest MTU is ``mtus_octets``: headers and some tags more."""
    return -(-(mtus_octets + _SLOT_OCTETS) // _SLOT_OCTETS) * _SLOT_OCTETS


def buffer_of(text: str) -> tuple[int, int]:
    """Return the frames and the octets that a buffer such as ``1000frames`` or ``500kB`` holds.

    Frames are counted as 1518 octets where octets matter, shorter ones than 60 there are not.
    ParameterError for what is neither, and for more frames than a switch has memory for.
    """
    buffer = parse_buffer(text)
    if not buffer.frames:
        return min(MOST_FRAMES, max(1, buffer.octets // _LEAST_FRAME_OCTETS)), buffer.octets
    if buffer.frames > MOST_FRAMES:
        raise ParameterError(name="buffer", needed=f"1 to {MOST_FRAMES} frames", got=text)
    return buffer.frames, buffer.octets
