"""Which frames of a batch have a comment, told for all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture import Batch
from ecmproto.capture.batch import SIMPLE_PACKET
from ecmproto.capture.pcapng import COMMENT, END_OF_OPTIONS

_BLOCK_OCTETS = 28
"""In front of the frame in an enhanced packet block."""
_END_OCTETS = 4


def commented(batch: Batch) -> NDArray[np.bool_]:
    """Return for each frame of ``batch`` whether `ecmproto.capture.comments` gives any."""
    mask = np.zeros(len(batch), np.bool_)
    if batch.records is None or batch.records.format != "pcapng":
        return mask
    buffer, little = batch.buffer, batch.records.byte_order == "little"

    def number(at: NDArray[np.int64], octets: int) -> NDArray[np.int64]:
        parts = [buffer[at + octet].astype(np.int64) for octet in range(octets)]
        number = np.zeros(len(at), np.int64)
        for part in reversed(parts) if little else parts:
            number = number << 8 | part
        return number

    at = batch.record_offset + _BLOCK_OCTETS + (batch.captured + 3 & ~np.int64(3))
    end = batch.record_offset + batch.record_length - _END_OCTETS
    rows = np.flatnonzero(at + 4 <= end)
    rows = rows[number(batch.record_offset[rows], 4) != SIMPLE_PACKET]
    at, end = at[rows], end[rows]
    # an option of all blocks at a time
    while len(rows):
        code, octets = number(at, 2), number(at + 2, 2)
        whole = (code != END_OF_OPTIONS) & (at + 4 + octets <= end)
        mask[rows[whole & (code == COMMENT)]] = True
        at = at + 4 + (octets + 3 & ~np.int64(3))
        on = whole & (code != COMMENT) & (at + 4 <= end)
        rows, at, end = rows[on], at[on], end[on]
    return mask
