"""A mechanism's own experimental tag in frames: what it says to the mechanism's machines.

A function of one frame, for loops over frames.  What counts as a tag is as `ecmproto.batch.tags` says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import BCN, FECN, signed, two_octets
from ecmproto.batch.places import NOWHERE, place_of
from ecmproto.kernel import compiled, inlined

_CPID_AT, _TIMESTAMP_AT, _UNIT_AT = 4, 12, 14
_RLQ_ID_AT, RATE_AT = 4, 6
"""Octets from a tag's EtherType to its fields (wire-formats 2, 4, 5, 7)."""

_UNIT_SHIFT = 16
_CPID_OCTETS = 8


class OwnTag(NamedTuple):
    """Whether a frame has such a tag, and its tag and mark (`ecmproto.mechanisms.protocol.Arrival`).

    ``rate_at`` is where the Rate of an RD tag stands, in octets from the frame's first; −1 without one.
    """

    tagged: bool
    tag: int
    mark: int
    rate_at: int


@inlined
def _cpid(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the CPID at ``start`` as `ecmproto.mechanisms.cpid` has it."""
    # The first octet has the sign, so that no number has more than 64 bits, as plain Python's would.
    cpid = signed(buffer[start]) - ((signed(buffer[start]) & 0x80) << 1)
    for octet in range(start + 1, start + _CPID_OCTETS):
        cpid = (cpid << 8) | signed(buffer[octet])
    return cpid


@inlined
def _rate(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the Rate at ``start``, in kb/s."""
    return (two_octets(buffer, start) << 16) | two_octets(buffer, start + 2)


@compiled
def own_tag(
    buffer: NDArray[np.uint8], start: int, octets: int, roles: NDArray[np.uint8], protocol: int
) -> OwnTag:
    """Return the newest tag of ``protocol`` in the frame at ``start`` with ``octets`` octets.

    0 is ECM's CM-Tag, 1 BCN's RRT tag, 2 E²CM's CM-Tag, 3 FECN's RD tag; ``roles`` are those of
    `ecmproto.batch.headers.roles_of`.
    """
    newest = place_of(buffer, start, octets, roles, protocol).old_at
    if newest == NOWHERE:
        return OwnTag(False, 0, 0, NOWHERE)
    at = start + newest
    if protocol == FECN:
        return OwnTag(
            True, _rate(buffer, at + RATE_AT), two_octets(buffer, at + _RLQ_ID_AT), newest + RATE_AT
        )
    mark = 0
    if protocol != BCN:
        mark = signed(buffer[at + _UNIT_AT]) >> 4 << _UNIT_SHIFT | two_octets(buffer, at + _TIMESTAMP_AT)
    return OwnTag(True, _cpid(buffer, at + _CPID_AT), mark, NOWHERE)
