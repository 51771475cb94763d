"""Octets taken out of frames, put into them and written over, for a whole batch into a new buffer.

Places are octets from a frame's first, in the frame as it came.  A tag goes in front of an EtherType: it is
inserted with the EtherType that announces it and without the one behind it, which stands there already; a tag
is taken out the same way.  Frames that a snap length cut stay cut: they grow by what is inserted.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.capture.batch import Batch
from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled, inlined

_NOWHERE = -1

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


class Removals(NamedTuple):
    """Octets to take out, one stretch an entry: sorted by frame, then by place, none overlapping another."""

    frame: Int64
    """Position in the batch."""
    at: Int64
    octets: Int64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Splice:
    """What becomes of each frame of a batch; one entry a frame in each array.

    Where ``at`` is −1 nothing is inserted.  ``removed`` octets are taken out at ``removed_at`` (None: at
    ``at``; −1: none), and besides those what ``more`` says, which stands behind them.  Where ``written_at``
    is not −1, a row of ``written`` replaces what stands from there on; what of that is taken out or beyond
    the frame's end is left out.
    """

    at: NDArray[np.integer]
    inserted: Octets
    """A row of octets a frame."""
    removed: NDArray[np.integer] | None = None
    removed_at: NDArray[np.integer] | None = None
    more: Removals | None = None
    written_at: NDArray[np.integer] | None = None
    written: Octets | None = None
    """A row of octets a frame."""


class _Edits(NamedTuple):
    """A splice with all its arrays, as kernels take it."""

    at: Int64
    inserted: Octets
    removed_at: Int64
    removed: Int64
    more: Removals
    written_at: Int64
    written: Octets


def spliced(buffer: Octets, offset: Int64, captured: Int64, splice: Splice) -> tuple[Octets, Int64, Int64]:
    """Return the frames at ``offset`` in ``buffer``, ``captured`` octets each, as ``splice`` has them.

    Their buffer is new and holds them one behind the other; then their offsets and captured octets.
    ParameterError for a place outside its frame.
    """
    edits = _edits(splice, captured)
    grown = np.where(edits.at >= 0, np.int64(edits.inserted.shape[1]), np.int64(0)) - edits.removed
    np.subtract.at(grown, edits.more.frame, edits.more.octets)
    octets = captured + grown
    ends = np.cumsum(octets)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    _copy(fixed(buffer), fixed(offset), fixed(captured), edits, out)
    out.flags.writeable = False
    return out, ends - octets, octets


def spliced_batch(batch: Batch, splice: Splice) -> Batch:
    """Return ``batch`` as ``splice`` has it; its frames' lengths on the wire change as their octets do.

    It has the numbers, times and interfaces of ``batch``, but no records of a file.
    """
    buffer, offset, captured = spliced(batch.buffer, batch.offset, batch.captured, splice)
    return dataclasses.replace(
        batch,
        buffer=buffer,
        offset=offset,
        captured=captured,
        original=batch.original + (captured - batch.captured),
        record_offset=offset,
        record_length=captured,
        records=None,
    )


def _edits(splice: Splice, captured: Int64) -> _Edits:
    count = len(captured)
    at = _column("at", splice.at, count)
    removed_at = at if splice.removed_at is None else _column("removed_at", splice.removed_at, count)
    removed = _column("removed", 0 if splice.removed is None else splice.removed, count)
    removed = np.where(removed_at == _NOWHERE, 0, removed)
    written_at = _column("written_at", _NOWHERE if splice.written_at is None else splice.written_at, count)
    for name, places in (("at", at), ("removed_at", removed_at), ("written_at", written_at)):
        _check(name, places, _NOWHERE, captured)
    _check("removed", removed, 0, captured - np.maximum(removed_at, 0))
    free = np.where(removed > 0, removed_at + removed, 0)
    return _Edits(
        at=fixed(at),
        inserted=_rows("inserted", splice.inserted, count),
        removed_at=fixed(removed_at),
        removed=fixed(removed),
        more=_more(splice.more, free, captured),
        written_at=fixed(written_at),
        written=_rows("written", np.zeros((count, 0)) if splice.written is None else splice.written, count),
    )


def _column(name: str, values: object, count: int) -> Int64:
    array = np.asarray(values, dtype=np.int64)
    if array.ndim == 0:
        return np.full(count, array)
    if array.shape != (count,):
        raise ParameterError(name=name, needed=f"{count} values", got=f"an array of shape {array.shape}")
    return array


def _rows(name: str, octets: object, count: int) -> Octets:
    rows = np.asarray(octets, dtype=np.uint8)
    if rows.ndim != 2 or len(rows) != count:
        raise ParameterError(name=name, needed=f"{count} rows", got=f"an array of shape {rows.shape}")
    return fixed(rows)


def _check(name: str, values: Int64, least: int, most: Int64) -> None:
    """Raise for the first of ``values`` that is not in ``least`` to its frame's ``most``."""
    wrong = (values < least) | (values > most)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ParameterError(
            name=f"{name} of frame {row}", needed=f"{least} to {int(most[row])}", got=str(int(values[row]))
        )


def _more(more: Removals | None, free: Int64, captured: Int64) -> Removals:
    """Return ``more`` checked: from ``free`` on in each frame, and in order."""
    if more is None:
        none = fixed(np.zeros(0, np.int64))
        return Removals(none, none, none)
    frame, at, octets = (np.asarray(column, np.int64) for column in more)
    if not len(frame) == len(at) == len(octets) or not _is_sound(frame, at, octets, free, captured):
        raise ParameterError(
            name="more", needed="stretches within their frames, in order, none overlapping", got="others"
        )
    return Removals(fixed(frame), fixed(at), fixed(octets))


def _is_sound(frame: Int64, at: Int64, octets: Int64, free: Int64, captured: Int64) -> bool:
    if not ((frame >= 0) & (frame < len(captured))).all():
        return False
    within = (at >= free[frame]) & (at <= captured[frame]) & (octets >= 0) & (octets <= captured[frame] - at)
    if not within.all():
        return False
    behind = at[1:] >= at[:-1] + octets[:-1]
    return bool(((frame[1:] > frame[:-1]) | ((frame[1:] == frame[:-1]) & behind)).all())


@compiled
def _copy(buffer: Octets, offset: Int64, captured: Int64, edits: _Edits, out: Octets) -> None:
    # Each array by its own name: looking one up in the tuple costs as much as the copy.
    at, inserted, removed_at, removed, more, written_at, written = edits
    more_frame, more_at, more_octets = more
    end = next_more = 0
    for i in range(len(offset)):
        piece, row_at = 0, at[i]
        row, over = inserted[i], written[i]
        is_first, is_last = removed[i] > 0, False
        while not is_last:
            # Up to what is taken out next, or to the frame's end.
            if is_first:
                stop, behind = removed_at[i], removed_at[i] + removed[i]
                is_first = False
            elif next_more < len(more_frame) and more_frame[next_more] == i:
                stop, behind = more_at[next_more], more_at[next_more] + more_octets[next_more]
                next_more += 1
            else:
                stop = behind = captured[i]
                is_last = True
            end, row_at = _put(buffer, offset[i], piece, stop, row_at, row, written_at[i], over, out, end)
            piece = behind


@inlined
def _put(
    buffer: Octets,
    start: int,
    piece: int,
    stop: int,
    row_at: int,
    row: Octets,
    written_at: int,
    written: Octets,
    out: Octets,
    end: int,
) -> tuple[int, int]:
    """Put octets ``piece`` to ``stop`` of a frame to ``end`` of ``out``, and ``row`` if it goes among them.

    Returns the new end, and ``row_at``: −1 once the row has been put.
    """
    if 0 <= row_at <= stop:
        # It may lie in what was taken out before.
        at = max(row_at, piece)
        end = _put_octets(buffer, start, piece, at, written_at, written, out, end)
        target = out[end : end + len(row)]
        for octet in range(len(target)):
            target[octet] = row[octet]
        end += len(row)
        piece, row_at = at, _NOWHERE
    return _put_octets(buffer, start, piece, stop, written_at, written, out, end), row_at


@inlined
def _put_octets(
    buffer: Octets,
    start: int,
    piece: int,
    stop: int,
    written_at: int,
    written: Octets,
    out: Octets,
    end: int,
) -> int:
    source, target = buffer[start + piece : start + stop], out[end : end + stop - piece]
    for octet in range(len(source)):
        target[octet] = source[octet]
    if written_at >= 0:
        for octet in range(max(written_at, piece), min(written_at + len(written), stop)):
            out[end + octet - piece] = written[octet - written_at]
    return end + len(source)
