"""Tests of many values at a time: a relation to other values, a set, a regular expression.

Kernels compare, search and combine octet strings of any length in their buffers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.columns.column import Int64, Octets, Stretches, Texts, Values
from ecmproto.frames.columns.octets import copy_octets
from ecmproto.frames.filter.evaluation import RELATIONS, membership_test, pattern_test
from ecmproto.frames.filter.fields import Constant, Interval, Item, Network, Relation, Value
from ecmproto.kernels.kernel import over_batches

Mask = NDArray[np.bool_]

_FEW = 8
"""Maximum number of set items that are compared one by one."""


def compared(values: Values, relation: Relation, right: Constant | Network) -> Mask:
    """Return a mask of the ``values`` for which ``relation`` to ``right`` is true."""
    if isinstance(right, Network):
        return _compared_with_network(values, relation, right)
    value, holds = right.value, RELATIONS[relation]
    if isinstance(values, Texts):
        return _for_texts(values, lambda word: holds(word, value))
    if not isinstance(value, bytes):
        mask: Mask = holds(values, value)
        return mask
    if relation == "contains":
        return containing(octet_strings(values), repeated(value, len(values)))
    return _signed(values, value, holds)


def _signed(values: Octets | Stretches, value: bytes, holds: Callable[[Any, Any], Any]) -> Mask:
    """Compare octets with ``value`` and return the result of ``holds`` for each comparison.

    Longer octet strings are greater.
    """
    mask: Mask
    if isinstance(values, Stretches):
        mask = holds(order(values, repeated(value, len(values))), 0)
        return mask
    width = values.shape[1]
    if width != len(value):
        return np.full(len(values), holds(width, len(value)))
    if width <= MAX_NUMBER_OCTETS:
        mask = holds(as_numbers(values), int.from_bytes(value))
        return mask
    return _signed(octet_strings(values), value, holds)


def _compared_with_network(values: Values, relation: Relation, network: Network) -> Mask:
    """Return a mask of the ``values`` for which ``relation`` to ``network`` is true.

    Each address is compared as a network with the prefix length of ``network``.
    """
    ends = _ends(network)
    if relation == "==":
        return _between(values, ends)
    if relation == "!=":
        return np.logical_not(_between(values, ends))
    return compared(values, relation, ends.first if relation in ("<", ">=") else ends.last)


def _ends(network: Network) -> Interval:
    """Return the addresses of a network as an interval."""
    octets = len(network.address)
    last = int.from_bytes(network.address) | (1 << 8 * octets - network.bits) - 1
    return Interval(
        first=Constant(kind=network.kind, value=network.address),
        last=Constant(kind=network.kind, value=last.to_bytes(octets)),
    )


def _between(values: Values, ends: Interval) -> Mask:
    return np.logical_and(compared(values, ">=", ends.first), compared(values, "<=", ends.last))


def related(left: Values, relation: Relation, right: Values) -> Mask:
    """Return a mask of the values in ``left`` for which ``relation`` to the value in ``right`` is true."""
    holds = RELATIONS[relation]
    mask: Mask
    if isinstance(left, Texts):
        assert isinstance(right, Texts)
        return _for_pairs(left, right, holds)
    assert not isinstance(right, Texts)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray) and relation != "contains":
        if left.ndim == 1:
            mask = holds(left, right)
            return mask
        if left.shape[1] == right.shape[1] <= MAX_NUMBER_OCTETS:
            mask = holds(as_numbers(left), as_numbers(right))
            return mask
    one, other = octet_strings(left), octet_strings(right)
    mask = containing(one, other) if relation == "contains" else holds(order(one, other), 0)
    return mask


def _for_pairs(left: Texts, right: Texts, holds: Callable[[str, str], bool]) -> Mask:
    """Return the result of ``holds`` for pairs of texts, evaluated once for each distinct pair."""
    codes = left.codes.astype(np.int64) * len(right.words) + right.codes
    pairs, inverse = np.unique(codes, return_inverse=True)
    results = (
        holds(left.words[one], right.words[other])
        for one, other in zip(*(part.tolist() for part in np.divmod(pairs, len(right.words))), strict=True)
    )
    answers: Mask = np.fromiter(results, np.bool_, len(pairs))[inverse.reshape(-1)]
    return answers


def is_something(values: Values) -> Mask:
    """Return a mask of the values that are not empty."""
    if isinstance(values, Texts):
        return _for_texts(values, bool)
    mask: Mask = octet_strings(values).octets > 0
    return mask


def has_bits(values: Values) -> Mask:
    """Return a mask of the values that have any bit set."""
    assert not isinstance(values, Texts)
    mask: Mask
    if isinstance(values, np.ndarray):
        mask = values != 0
        return mask if values.ndim == 1 else np.logical_or.reduce(mask, axis=1)
    longest = int(values.octets.max(initial=0))
    zeros = repeated(bytes(longest), len(values))
    mask = order(values, Stretches(buffer=zeros.buffer, start=zeros.start, octets=values.octets)) != 0
    return mask


def within(values: Values, items: Sequence[Item]) -> Mask:
    """Return a mask of the ``values`` that are equal to an item or within an item of ``items``."""
    if isinstance(values, Texts):
        return _for_texts(values, membership_test(items))
    if len(items) <= _FEW:
        return functools.reduce(np.logical_or, [_equals_item(values, item) for item in items])
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return _within_numbers(values, items)
    if isinstance(values, np.ndarray) and values.shape[1] <= MAX_NUMBER_OCTETS:
        return _within_numbers(as_numbers(values), _as_numbers(items, values.shape[1]))
    return _for_each(octet_strings(values), len(values), membership_test(items))


def _equals_item(values: Values, item: Item) -> Mask:
    if isinstance(item, Constant):
        return compared(values, "==", item)
    return _between(values, item if isinstance(item, Interval) else _ends(item))


def _within_numbers(numbers: NDArray[np.integer], items: Sequence[Item]) -> Mask:
    limits = np.iinfo(numbers.dtype)
    single = [item.value for item in items if isinstance(item, Constant)]
    possible = [value for value in single if isinstance(value, int) and limits.min <= value <= limits.max]
    mask = np.isin(numbers, np.array(possible, numbers.dtype))
    for item in items:
        if not isinstance(item, Constant):
            mask |= _equals_item(numbers, item)
    return mask


def _as_numbers(items: Iterable[Item], width: int) -> list[Item]:
    """Return the items that octets of ``width`` can equal, as numbers."""
    numbers: list[Item] = []
    for item in items:
        if isinstance(item, Constant):
            assert isinstance(item.value, bytes)
            if len(item.value) == width:
                numbers.append(_number(int.from_bytes(item.value)))
            continue
        ends = item if isinstance(item, Interval) else _ends(item)
        first, last = ends.first.value, ends.last.value
        assert isinstance(first, bytes)
        assert isinstance(last, bytes)
        # Longer octet strings are greater.
        if len(first) <= width <= len(last):
            low = int.from_bytes(first) if len(first) == width else 0
            high = int.from_bytes(last) if len(last) == width else (1 << 8 * width) - 1
            numbers.append(Interval(first=_number(low), last=_number(high)))
    return numbers


def _number(value: int) -> Constant:
    return Constant(kind="number", value=value)


def matched(values: Values, pattern: bytes) -> Mask:
    """Return a mask of the ``values`` that match a regular expression.

    The expression is evaluated once for each distinct address or word.
    """
    holds = pattern_test(pattern)
    if isinstance(values, Texts):
        return _for_texts(values, holds)
    if isinstance(values, np.ndarray) and values.shape[1] <= MAX_NUMBER_OCTETS:
        _, firsts, inverse = np.unique(as_numbers(values), return_index=True, return_inverse=True)
        return _for_each(octet_strings(values[firsts]), len(firsts), holds)[inverse]
    return _for_each(octet_strings(values), len(values), holds)


def _for_texts(values: Texts, holds: Callable[[str], bool]) -> Mask:
    return _for_each(values.words, len(values.words), holds)[values.codes]


def _for_each(values: Iterable[Value], count: int, holds: Callable[[Any], bool]) -> Mask:
    return np.fromiter(map(holds, values), np.bool_, count)


MAX_NUMBER_OCTETS = 8
"""Maximum number of octets in a 64-bit number."""


def octet_strings(values: Octets | Stretches) -> Stretches:
    """Return rows of octets as `Stretches`."""
    if isinstance(values, Stretches):
        return values
    count, width = values.shape
    return Stretches(
        buffer=fixed(values).reshape(-1),
        start=np.arange(count, dtype=np.int64) * width,
        octets=np.full(count, width, np.int64),
    )


def repeated(value: bytes, count: int) -> Stretches:
    """Return ``count`` copies of ``value``."""
    return Stretches(
        buffer=fixed(np.frombuffer(value, np.uint8)),
        start=np.zeros(count, np.int64),
        octets=np.full(count, len(value), np.int64),
    )


def as_numbers(matrix: Octets) -> NDArray[np.uint64]:
    """Return rows of at most `MAX_NUMBER_OCTETS` octets as numbers, most significant octet first."""
    count, width = matrix.shape
    padded = np.zeros((count, MAX_NUMBER_OCTETS), np.uint8)
    padded[:, MAX_NUMBER_OCTETS - width :] = matrix
    return padded.view(">u8").reshape(-1).astype(np.uint64)


def order(left: Stretches, right: Stretches) -> NDArray[np.int8]:
    """Return the order of each pair: −1, 0 or 1; longer octet strings are greater."""
    out = np.empty(len(left), np.int8)
    _order(*_arrays(left), *_arrays(right), out)
    return out


def containing(left: Stretches, right: Stretches) -> NDArray[np.bool_]:
    """Return a mask of the strings in ``left`` that contain the string at the same index of ``right``."""
    out = np.empty(len(left), np.bool_)
    _containing(*_arrays(left), *_arrays(right), out)
    return out


def shorter(left: Stretches, right: Stretches) -> Int64:
    """Return the shorter length of each pair."""
    octets: Int64 = np.minimum(left.octets, right.octets)
    return octets


def bitwise_and(left: Stretches, right: Stretches) -> Stretches:
    """Return the bitwise AND of each pair, with the length of the shorter string."""
    octets = shorter(left, right)
    stop = np.cumsum(octets)
    out = np.empty(int(stop[-1]) if len(stop) else 0, np.uint8)
    _and_octets(
        fixed(left.buffer), fixed(left.start), fixed(right.buffer), fixed(right.start),
        fixed(octets), fixed(stop), out,
    )  # fmt: skip
    return Stretches(buffer=fixed(out), start=stop - octets, octets=octets)


def lengths(parts: Sequence[Stretches]) -> Int64:
    """Return the total length in octets of the strings at each index of ``parts``."""
    octets: Int64 = np.sum([part.octets for part in parts], axis=0, dtype=np.int64)
    return octets


def joined(parts: Sequence[Stretches]) -> Stretches:
    """Return, for each index, the concatenation of the strings at that index of ``parts``."""
    octets = lengths(parts)
    stop = np.cumsum(octets)
    start = stop - octets
    out = np.empty(int(stop[-1]) if len(stop) else 0, np.uint8)
    at = start
    for part in parts:
        at = at + part.octets
        copy_octets(*_arrays(part), fixed(at), out)
    return Stretches(buffer=fixed(out), start=start, octets=octets)


def _arrays(values: Stretches) -> tuple[Octets, Int64, Int64]:
    return fixed(values.buffer), fixed(values.start), fixed(values.octets)


@over_batches
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


@over_batches
def _containing(
    buffer: Octets, start: Int64, octets: Int64,
    other: Octets, other_start: Int64, other_octets: Int64,
    out: NDArray[np.bool_],
) -> None:  # fmt: skip
    for i in range(len(start)):
        result = other_octets[i] == 0
        if not result:
            head = other[other_start[i]]
            for first in range(start[i], start[i] + octets[i] - other_octets[i] + 1):
                if buffer[first] != head:
                    continue
                result = True
                for at in range(1, other_octets[i]):
                    if buffer[first + at] != other[other_start[i] + at]:
                        result = False
                        break
                if result:
                    break
        out[i] = result


@over_batches
def _and_octets(
    buffer: Octets, start: Int64, other: Octets, other_start: Int64, octets: Int64, stop: Int64, out: Octets
) -> None:
    for i in range(len(start)):
        to = stop[i] - octets[i]
        for at in range(octets[i]):
            out[to + at] = buffer[start[i] + at] & other[other_start[i] + at]
