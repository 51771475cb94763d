"""What of the cases an interface can carry: short ones padded, too long ones left out, both counted."""

from __future__ import annotations

import dataclasses

from ecmproto.codec.frame import MIN_OCTETS
from ecmproto.formats.ethertypes import DEFAULT

HEADER_OCTETS = 14
"""No packet socket takes less (packet(7))."""
_TYPE_AT = 12
_C_TAG = DEFAULT.c_tag.to_bytes(2, "big")


@dataclasses.dataclass(slots=True, kw_only=True)
class Fitting:
    """Makes frames of cases: from ``shortest_octets`` to ``longest_octets``, both without FCS.

    Short ones get zeros behind them, as network cards give them up to 60 octets.  Frames whose first tag is
    a C-TAG may be ``longest_tagged_octets`` long.
    """

    longest_octets: int
    longest_tagged_octets: int
    shortest_octets: int = MIN_OCTETS
    padded: int = 0
    """Cases that were too short."""
    left_out: int = 0
    """Cases that were too long."""

    def frame(self, octets: bytes) -> bytes | None:
        """Return the frame that is sent for a case, counted; None for one that is too long."""
        frame = self.fitted(octets)
        self.left_out += frame is None
        self.padded += frame is not None and len(frame) > len(octets)
        return frame

    def fitted(self, octets: bytes) -> bytes | None:
        """Return the frame that is sent for a case; None for one that is too long."""
        tagged = octets[_TYPE_AT:HEADER_OCTETS] == _C_TAG
        if len(octets) > (self.longest_tagged_octets if tagged else self.longest_octets):
            return None
        return octets.ljust(self.shortest_octets, b"\0")
