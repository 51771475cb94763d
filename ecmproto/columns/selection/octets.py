"""Octet strings of any lengths compared, searched and combined where they stand, many at a time: compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.columns.column import Int64, Octets, Stretches
from ecmproto.columns.octets import copy_octets
from ecmproto.kernel import released

MOST_AS_NUMBER = 8
"""Octets that a number of 64 bits holds."""


def stretches_of(values: Octets | Stretches) -> Stretches:
    """Return rows of octets as stretches."""
    if isinstance(values, Stretches):
        return values
    count, width = values.shape
    return Stretches(
        buffer=fixed(values).reshape(-1),
        start=np.arange(count, dtype=np.int64) * width,
        octets=np.full(count, width, np.int64),
    )


def repeated(value: bytes, count: int) -> Stretches:
    """Return ``count`` times ``value``."""
    return Stretches(
        buffer=fixed(np.frombuffer(value, np.uint8)),
        start=np.zeros(count, np.int64),
        octets=np.full(count, len(value), np.int64),
    )


def as_numbers(matrix: Octets) -> NDArray[np.uint64]:
    """Return rows of at most `MOST_AS_NUMBER` octets as numbers, the first octet the most significant."""
    count, width = matrix.shape
    padded = np.zeros((count, MOST_AS_NUMBER), np.uint8)
    padded[:, MOST_AS_NUMBER - width :] = matrix
    return padded.view(">u8").reshape(-1).astype(np.uint64)


def order(left: Stretches, right: Stretches) -> NDArray[np.int8]:
    """Return how each on the left compares with the one on the right: −1, 0 or 1; the longer is greater."""
    out = np.empty(len(left), np.int8)
    _order(*_placed(left), *_placed(right), out)
    return out


def holding(left: Stretches, right: Stretches) -> NDArray[np.bool_]:
    """Return whether each on the left holds the one on the right somewhere."""
    out = np.empty(len(left), np.bool_)
    _holding(*_placed(left), *_placed(right), out)
    return out


def shorter(left: Stretches, right: Stretches) -> Int64:
    """Return the lengths of the shorter ones of each pair."""
    octets: Int64 = np.minimum(left.octets, right.octets)
    return octets


def both(left: Stretches, right: Stretches) -> Stretches:
    """Return the bits that each pair has in common, as many octets as the shorter has."""
    octets = shorter(left, right)
    stop = np.cumsum(octets)
    out = np.empty(int(stop[-1]) if len(stop) else 0, np.uint8)
    _both(
        fixed(left.buffer), fixed(left.start), fixed(right.buffer), fixed(right.start),
        fixed(octets), fixed(stop), out,
    )  # fmt: skip
    return Stretches(buffer=fixed(out), start=stop - octets, octets=octets)


def lengths(parts: Sequence[Stretches]) -> Int64:
    """Return how many octets the first of each of ``parts`` have together, then the second, and so on."""
    octets: Int64 = np.sum([part.octets for part in parts], axis=0, dtype=np.int64)
    return octets


def joined(parts: Sequence[Stretches]) -> Stretches:
    """Return the first of each of ``parts`` one behind the other, then the second, and so on."""
    octets = lengths(parts)
    stop = np.cumsum(octets)
    start = stop - octets
    out = np.empty(int(stop[-1]) if len(stop) else 0, np.uint8)
    at = start
    for part in parts:
        at = at + part.octets
        copy_octets(*_placed(part), fixed(at), out)
    return Stretches(buffer=fixed(out), start=start, octets=octets)


def _placed(values: Stretches) -> tuple[Octets, Int64, Int64]:
    return fixed(values.buffer), fixed(values.start), fixed(values.octets)


@released
def _order(
    buffer: Octets, start: Int64, octets: Int64,
    other: Octets, other_start: Int64, other_octets: Int64,
    out: NDArray[np.int8],
) -> None:  # fmt: skip
    for i in range(len(start)):
        sign = 0
        if octets[i] != other_octets[i]:
            sign = 1 if octets[i] > other_octets[i] else -1
        else:
            for at in range(octets[i]):
                one, two = buffer[start[i] + at], other[other_start[i] + at]
                if one != two:
                    sign = 1 if one > two else -1
                    break
        out[i] = sign


@released
def _holding(
    buffer: Octets, start: Int64, octets: Int64,
    other: Octets, other_start: Int64, other_octets: Int64,
    out: NDArray[np.bool_],
) -> None:  # fmt: skip
    for i in range(len(start)):
        found = other_octets[i] == 0
        if not found:
            head = other[other_start[i]]
            for first in range(start[i], start[i] + octets[i] - other_octets[i] + 1):
                if buffer[first] != head:
                    continue
                found = True
                for at in range(1, other_octets[i]):
                    if buffer[first + at] != other[other_start[i] + at]:
                        found = False
                        break
                if found:
                    break
        out[i] = found


@released
def _both(
    buffer: Octets, start: Int64, other: Octets, other_start: Int64, octets: Int64, stop: Int64, out: Octets
) -> None:
    for i in range(len(start)):
        to = stop[i] - octets[i]
        for at in range(octets[i]):
            out[to + at] = buffer[start[i] + at] & other[other_start[i] + at]
