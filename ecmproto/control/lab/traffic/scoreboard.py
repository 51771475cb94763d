"""The scoreboard of a TCP sender with selective acknowledgements (RFC 2018, RFC 6675).

Each segment in flight has bits: it has arrived, is lost, was retransmitted. A segment is lost when three
later ones have arrived (IsLost), or at a time-out. The segments in the network are, as in Linux and ns-3,
those sent and not acknowledged, minus those that arrived, minus those lost, plus those retransmitted
(SetPipe). Only the time-out detects a lost retransmission.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled, inlined

NO_SEGMENT = -1
ARRIVED = 1
"""The receiver's bit: the segment arrived beyond a gap. The other bits are the sender's."""
_SACKED = 2
_LOST = 4
_RESENT = 8
_DUP_THRESH = 3

Segments = NDArray[np.uint8]
"""The bits of each segment in flight, one byte a segment, in a ring for each connection."""


class Scoreboard:
    """The sender's knowledge of its segments in flight; a record (``kernels.record``)."""

    offset: int
    """The offset of the connection's ring."""
    mask: int
    """The length of the ring minus 1; the length is a power of 2."""
    acked: int
    """The first segment without cumulative acknowledgement."""
    sacked: int
    """The number of segments beyond ``acked`` that have arrived."""
    lost: int
    """The number of segments taken as lost, retransmitted or not."""
    resent: int
    """The number of lost segments that were retransmitted."""
    top: int
    """The segment after the highest that has arrived."""
    judged: int
    """The end of the segments of which each has arrived or is lost."""
    next_resend: int
    """The first segment that may be lost and not retransmitted."""
    seen_from: int
    seen_to: int
    """The range of the last block of an acknowledgement, ``seen_to`` excluded."""


@inlined
def _at(board: Scoreboard, segment: int) -> int:
    return board.offset + (segment & board.mask)


@inlined
def in_network(board: Scoreboard, end: int) -> int:
    """Return the number of segments in the network, if all before ``end`` were sent."""
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
    """Mark the segments from ``start`` to before ``end`` as arrived."""
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
    """Mark segments that three later ones have overtaken as lost; return the last, or NO_SEGMENT."""
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
    """Mark all segments before ``end`` that have not arrived as lost, and none as retransmitted."""
    for segment in range(board.acked, end):
        segments[_at(board, segment)] &= ARRIVED | _SACKED
    board.lost = board.resent = 0
    board.next_resend = end
    for segment in range(board.acked, end):
        _lose(board, segments, segment, NO_SEGMENT)
    board.judged = end


@inlined
def _lose(board: Scoreboard, segments: Segments, segment: int, last: int) -> int:
    """Mark a segment as lost, unless it has arrived or is lost; return it then, else ``last``."""
    at = _at(board, segment)
    if segments[at] & (_SACKED | _LOST) > 0:
        return last
    segments[at] |= _LOST
    board.lost += 1
    board.next_resend = min(board.next_resend, segment)
    return segment


@compiled
def next_lost(board: Scoreboard, segments: Segments) -> int:
    """Return the first lost segment that was not retransmitted, NO_SEGMENT for none."""
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
