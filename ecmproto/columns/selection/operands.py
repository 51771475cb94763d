"""The values of an operand: fields, slices of them, and what a mask leaves, a portion at a time.

Two fields have as many pairs of values as the product of both in each frame, and slices of slices may repeat
octets at will: portions keep what is made of them small, whatever the frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.column import Int64, Octets, Stretches, Texts, Values
from ecmproto.columns.selection.octets import both, joined, lengths, repeated, shorter, stretches_of
from ecmproto.columns.selection.scope import Listed, Scope
from ecmproto.filter.evaluation import cut
from ecmproto.filter.fields import Field
from ecmproto.filter.tree import Constant, Masked, Operand, Range, Slice, Value

AT_ONCE = 1 << 21
"""Pairs of values, or octets, that are made at once."""


def values_of(operand: Operand, scope: Scope) -> Iterator[Listed]:
    """Yield the values of an operand; each frame's may be spread over what is yielded."""
    match operand:
        case Field():
            yield scope.values(operand)
        case Slice():
            for listed in values_of(operand.of, scope):
                yield from _sliced(listed, operand.ranges)
        case Masked():
            for listed in values_of(operand.of, scope):
                yield from _masked(listed, operand.mask, scope)


def searched(operand: Operand, scope: Scope) -> Iterator[Listed]:
    """Yield what ``contains`` and ``matches`` look at: of a layer, all that follows too."""
    if isinstance(operand, Field) and operand.kind == "layer":
        return iter([scope.octets_from(operand)])
    return values_of(operand, scope)


def pairs(left: Listed, right: Listed, frames: int) -> Iterator[tuple[Listed, Listed]]:
    """Yield each value on the left beside each on the right of the same frame."""
    if _one_each(left.rows, right.rows):
        yield left, right
        return
    counts = np.bincount(right.rows, minlength=frames)
    firsts = np.cumsum(counts) - counts
    partners = counts[left.rows]
    for part in portions(partners):
        many = partners[part]
        ends = np.cumsum(many)
        first = np.repeat(firsts[left.rows[part]] - (ends - many), many)
        lefts = np.repeat(np.arange(part.start, part.stop), many)
        yield left.select(lefts), right.select(first + np.arange(len(first)))


def _one_each(left: NDArray[np.int32], right: NDArray[np.int32]) -> bool:
    """Whether every frame has as many values on either side: one or none."""
    return len(left) == len(right) and bool((left == right).all() and (left[1:] > left[:-1]).all())


def portions(sizes: Int64) -> Iterator[slice]:
    """Yield runs of what has ``sizes``, each of at most `AT_ONCE` together or of a single one."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + AT_ONCE, "right")))
        yield slice(start, stop)
        start = stop


def _sliced(listed: Listed, ranges: Sequence[Range]) -> Iterator[Listed]:
    values = listed.values
    if isinstance(values, Texts):
        words = tuple(cut(word, ranges) for word in values.words)
        yield Listed(rows=listed.rows, values=Texts(codes=values.codes, words=words))
    elif isinstance(values, Stretches):
        yield from _cut(listed.rows, [_part(values, each) for each in ranges])
    else:
        if values.ndim == 1:  # a number of 64 bits, as it stands in the frame
            values = values.astype(">u8").view(np.uint8).reshape(-1, 8)
        columns = cut(tuple(range(values.shape[1])), ranges)
        yield Listed(rows=listed.rows, values=values[:, np.array(columns, np.intp)])


def _part(values: Stretches, part: Range) -> Stretches:
    """Return what a range leaves of each: `ecmproto.filter.evaluation.cut` for stretches."""
    size = values.octets
    start = size + part.start if part.start < 0 else np.full_like(size, part.start)
    if part.length is not None:
        stop = start + part.length
    elif part.stop is not None:
        stop = (size + part.stop if part.stop < 0 else np.full_like(size, part.stop)) + 1
    else:
        stop = size
    there = (start >= 0) & (start < stop) & (stop <= size)
    start = np.where(there, start, 0)
    return Stretches(
        buffer=values.buffer, start=values.start + start, octets=np.where(there, stop - start, 0)
    )


def _cut(rows: NDArray[np.int32], parts: Sequence[Stretches]) -> Iterator[Listed]:
    if len(parts) == 1:
        yield Listed(rows=rows, values=parts[0])
        return
    for portion in portions(lengths(parts)):
        yield Listed(rows=rows[portion], values=joined([part.select(portion) for part in parts]))


def _masked(listed: Listed, mask: Constant | Field | Slice, scope: Scope) -> Iterator[Listed]:
    if isinstance(mask, Constant):
        yield from _in_both(listed, _constant(mask.value, listed))
        return
    for right in values_of(mask, scope):
        for one, other in pairs(listed, right, len(scope)):
            yield from _in_both(one, other.values)


def _constant(value: Value, listed: Listed) -> Values:
    """Return ``value`` once for each of the values."""
    if isinstance(value, bytes):
        if isinstance(listed.values, np.ndarray):
            return np.broadcast_to(np.frombuffer(value, np.uint8), (len(listed.rows), len(value)))
        return repeated(value, len(listed.rows))
    assert isinstance(value, int)
    return np.broadcast_to(np.array(value, np.int64 if value < 0 else np.uint64), len(listed.rows))


def _in_both(left: Listed, right: Values) -> Iterator[Listed]:
    """Yield the bits that values have in common with those beside them."""
    values = left.values
    assert not isinstance(values, Texts)
    assert not isinstance(right, Texts)
    if isinstance(values, np.ndarray) and isinstance(right, np.ndarray):
        common = bits_in_both(values, right) if values.ndim == 1 else _rows_in_both(values, right)
        yield Listed(rows=left.rows, values=common)
        return
    one, other = stretches_of(values), stretches_of(right)
    for part in portions(shorter(one, other)):
        yield Listed(rows=left.rows[part], values=both(one.select(part), other.select(part)))


def _rows_in_both(left: Octets, right: Octets) -> Octets:
    width = min(left.shape[1], right.shape[1])
    common: Octets = left[:, :width] & right[:, :width]
    return common


def bits_in_both(left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return ``left & right`` as of Python's numbers, which have a sign and no end of bits."""
    if left.dtype.kind == right.dtype.kind:
        return left & right
    # one of them has no negative numbers, and so has the result
    return _unsigned(left) & _unsigned(right)


def _unsigned(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    return (
        numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    )
