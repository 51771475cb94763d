"""Scoreboard of a TCP sender with selective acknowledgements (RFC 2018, RFC 6675).

Each segment in flight has three bits: arrived, lost, retransmitted. A segment is lost when three later
segments have arrived (IsLost), or at a time-out. As in Linux and ns-3, the number of segments in the network
starts with all unacknowledged segments. Arrived and lost segments are subtracted, and retransmitted segments
are added (SetPipe). Only a time-out detects a lost retransmission.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled, inlined

NO_SEGMENT = -1
ARRIVED = 1
"""Bit that the receiver sets: the segment arrived beyond a gap. The sender sets the other bits."""
_SACKED = 2
_LOST = 4
_RESENT = 8
_DUP_THRESH = 3

Segments = NDArray[np.uint8]
"""Bits of each segment in flight, one byte per segment, in a ring for each connection."""


class Scoreboard:
    """Sender's state of the segments in flight; a record (``kernels.record``)."""

    offset: int
    """Offset of the connection's ring."""
    mask: int
    """Length of the ring minus 1; the length is a power of 2."""
    acked: int
    """First segment without cumulative acknowledgement."""
    sacked: int
    """Number of arrived segments beyond ``acked``."""
    lost: int
    """Number of segments considered lost, including retransmitted segments."""
    resent: int
    """Number of lost segments that were retransmitted."""
    top: int
    """Segment after the highest arrived segment."""
    judged: int
    """End of the range in which each segment has arrived or is lost."""
    next_resend: int
    """First segment that may be lost and not yet retransmitted."""
    seen_from: int
    seen_to: int
    """End (excluded) of the range in the last acknowledgement block; ``seen_from`` is the start."""


@inlined
def _at(board: Scoreboard, segment: int) -> int:
    return board.offset + (segment & board.mask)


@inlined
def in_network(board: Scoreboard, end: int) -> int:
    """Return the number of segments in the network if all segments before ``end`` were sent."""
    return end - board.acked - board.sacked - board.lost + board.resent


@compiled
def advance(board: Scoreboard, segments: Segments, value: int) -> None:
    """Acknowledge all segments before ``value``."""
    for segment in range(board.acked, value):
        at = _at(board, segment)
        bits = segments[at]
        board.sacked -= int(bits & _SACKED > 0)
        board.lost -= int(bits & _LOST > 0)
        board.resent -= int(bits & _RESENT > 0)
        segments[at] = bits & ARRIVED
    board.acked = value
    board.top = max(board.top, value)
    board.judged = max(board.judged, value)
    board.next_resend = max(board.next_resend, value)


@compiled
def take_block(board: Scoreboard, segments: Segments, start: int, end: int) -> None:
    """Mark the segments from ``start`` to ``end`` (excluded) as arrived."""
    first = max(start, board.acked)
    if board.seen_from <= first < board.seen_to:
        first = min(board.seen_to, end)
    board.seen_from, board.seen_to = start, end
    for segment in range(first, end):
        at = _at(board, segment)
        bits = segments[at]
        board.sacked += int(bits & _SACKED == 0)
        board.lost -= int(bits & _LOST > 0)
        board.resent -= int(bits & _RESENT > 0)
        segments[at] = bits & ARRIVED | _SACKED
    board.top = max(board.top, end)


@compiled
def find_losses(board: Scoreboard, segments: Segments) -> int:
    """Mark segments as lost if three later segments have arrived.

    Return the last segment marked, or NO_SEGMENT.
    """
    edge, later = board.top, 0
    while edge > board.judged and later < _DUP_THRESH:
        edge -= 1
        later += int(segments[_at(board, edge)] & _SACKED > 0)
    last = NO_SEGMENT
    if later == _DUP_THRESH:
        for segment in range(board.judged, edge):
            last = _lose(board, segments, segment, last)
        board.judged = max(board.judged, edge)
    return last


@compiled
def lose_all(board: Scoreboard, segments: Segments, end: int) -> None:
    """Mark all missing segments before ``end`` as lost, and no segment as retransmitted."""
    for segment in range(board.acked, end):
        segments[_at(board, segment)] &= ARRIVED | _SACKED
    board.lost = board.resent = 0
    board.next_resend = end
    for segment in range(board.acked, end):
        _lose(board, segments, segment, NO_SEGMENT)
    board.judged = end


@inlined
def _lose(board: Scoreboard, segments: Segments, segment: int, last: int) -> int:
    """Mark a segment as lost and return it; return ``last`` if the segment has arrived or is already lost."""
    at = _at(board, segment)
    if segments[at] & (_SACKED | _LOST) > 0:
        return last
    segments[at] |= _LOST
    board.lost += 1
    board.next_resend = min(board.next_resend, segment)
    return segment


@compiled
def next_lost(board: Scoreboard, segments: Segments) -> int:
    """Return the first lost segment that was not retransmitted, or NO_SEGMENT."""
    while board.lost > board.resent and board.next_resend < board.judged:
        if segments[_at(board, board.next_resend)] & (_LOST | _RESENT) == _LOST:
            return board.next_resend
        board.next_resend += 1
    return NO_SEGMENT


@inlined
def note_resent(board: Scoreboard, segments: Segments, segment: int) -> None:
    """Mark a lost segment as retransmitted."""
    segments[_at(board, segment)] |= _RESENT
    board.resent += 1
