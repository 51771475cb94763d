"""Which frames an interface takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.table.headers import HEADER_OCTETS, TYPE_AT
from ecmproto.wire import EtherTypes

_TAG_OCTETS = 4
_OCTET_BITS = 8


def fits(batch: Batch, longest_octets: int, ethertypes: EtherTypes) -> NDArray[np.bool_]:
    """Return which frames are no longer than ``longest_octets``, or by a C-TAG in front (packet(7))."""
    long = np.flatnonzero(batch.captured > longest_octets)
    taken: NDArray[np.bool_] = np.ones(len(batch), np.bool_)
    for position in long.tolist():
        octets = int(batch.captured[position])
        start = int(batch.offset[position]) + TYPE_AT
        first = int(batch.buffer[start]) << _OCTET_BITS | int(batch.buffer[start + 1])
        is_tagged = octets >= HEADER_OCTETS and first == ethertypes.c_tag
        taken[position] = is_tagged and octets <= longest_octets + _TAG_OCTETS
    return taken
