"""The kernel that follows programs: it writes the text of rows one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.table.columns.threads import released, uncounted
from ecmproto.table.headers import signed
from ecmproto.table.text.program import (
    CELL,
    COMMA,
    DECIMAL,
    DOTTED,
    HEX,
    HEX_NUMBER,
    JUMP,
    LITERAL,
    OF_LAYER,
    OF_RECORD,
    QUOTE,
    SECONDS,
    STRIP,
    UNLESS,
    WORD,
)

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_SPACE, _MINUS, _PLUS, _POINT, _COMMA, _QUOTE, _ZERO = 32, 45, 43, 46, 44, 34, 48
_NS_PLACES = 9
_CAPTURED = 5  # the column of RecordNumber.CAPTURED
_HEX_OCTETS = 3
"""The most octets of text that one octet becomes."""


@uncounted
def number_at(
    which: int, numbers: Int64, record: Int64, row: int, buffer: Octets, marks: Int64, base: int
) -> int:
    """Return a number of a frame whose marks start at ``base``."""
    kind = numbers[which, 0]
    first, second = numbers[which, 1], numbers[which, 2]
    if kind == OF_RECORD:
        return int(record[row, first])
    third = numbers[which, 3]
    if kind == OF_LAYER:
        at = marks[base + first] + second
        number = 0
        for octet in range(at, at + third):
            number = (number << 8) | signed(buffer[octet])
        size = numbers[which, 5]
        number >>= numbers[which, 4]
        if size < 0:
            number &= (1 << -size) - 1
            return int(number - ((number >> (-size - 1)) << -size))
        return int(number & ((1 << size) - 1))
    return int(marks[base + third] + numbers[which, 4] - marks[base + first] - second)


@uncounted
def _digits(number: int) -> int:
    """Return how many digits a number ≥ 0 has."""
    digits = 1
    while number >= 10:
        number //= 10
        digits += 1
    return digits


@uncounted
def _spaces(out: Octets, at: int, count: int) -> int:
    for _ in range(count):
        out[at] = _SPACE
        at += 1
    return at


@uncounted
def _places(out: Octets, at: int, number: int, digits: int) -> int:
    """Write the last ``digits`` digits of a number ≥ 0."""
    for place in range(at + digits - 1, at - 1, -1):
        above = number // 10
        out[place] = _ZERO + (number - 10 * above)
        number = above
    return at + digits


@uncounted
def _decimal(out: Octets, at: int, number: int, width: int, plus: bool) -> int:
    magnitude = -number if number < 0 else number
    digits = _digits(magnitude)
    sign = number < 0 or plus
    at = _spaces(out, at, width - digits - int(sign))
    if sign:
        out[at] = _MINUS if number < 0 else _PLUS
        at += 1
    return _places(out, at, magnitude, digits)


@uncounted
def _seconds(out: Octets, at: int, number: int, width: int) -> int:
    magnitude = -number if number < 0 else number
    whole = magnitude // 1_000_000_000
    digits = _digits(whole)
    at = _spaces(out, at, width - digits - 1 - _NS_PLACES - int(number < 0))
    if number < 0:
        out[at] = _MINUS
        at += 1
    at = _places(out, at, whole, digits)
    out[at] = _POINT
    return _places(out, at + 1, magnitude - whole * 1_000_000_000, _NS_PLACES)


@uncounted
def _hex(out: Octets, at: int, buffer: Octets, start: int, stop: int, pairs: NDArray[np.uint8]) -> int:
    for octet in range(start, stop):
        value = 2 * signed(buffer[octet])
        out[at] = pairs[value]
        out[at + 1] = pairs[value + 1]
        at += 2
    return at


@uncounted
def _separated(
    out: Octets, at: int, buffer: Octets, start: int, stop: int, pairs: NDArray[np.uint8], separator: int
) -> int:
    for octet in range(start, stop):
        value = 2 * signed(buffer[octet])
        out[at] = pairs[value]
        out[at + 1] = pairs[value + 1]
        out[at + 2] = separator
        at += 3
    return at - int(stop > start)


@uncounted
def _copy(out: Octets, at: int, source: Octets, start: int, octets: int) -> int:
    for octet in range(octets):
        out[at + octet] = source[start + octet]
    return at + octets


@uncounted
def _quote(out: Octets, cell: int, at: int) -> int:
    """Put the text from ``cell`` on in quotation marks if it has a comma."""
    for place in range(cell, at):
        if signed(out[place]) == _COMMA:
            for behind in range(at, cell, -1):
                out[behind] = out[behind - 1]
            out[cell] = _QUOTE
            out[at + 1] = _QUOTE
            return at + 2
    return at


@released
def render(
    begin: int,
    end: int,
    program: Int32,
    bounds: Int64,
    operations: Int64,
    numbers: Int64,
    literals: Octets,
    room: Int64,
    codes: Int32,
    words: Octets,
    word_bounds: Int64,
    longest: int,
    record: Int64,
    buffer: Octets,
    marks: Int64,
    mark_at: Int64,
    singles: Octets,
    single_bounds: Int64,
    pairs: Octets,
    out: Octets,
    used: Int64,
) -> int:
    """Write the text of rows ``begin`` to ``end`` and return the first for which there was no room.

    Row i follows the program ``program[i]``; −1 − k is the text k of ``singles``.  ``used`` is given the
    octets written, then those that the row without room needs.  ``codes`` has a row for each of these rows.
    """
    at = 0
    for row in range(begin, end):
        which = signed(program[row])
        if which < 0:
            start = single_bounds[-1 - which]
            octets = single_bounds[-which] - start
            if at + octets > len(out):
                used[0], used[1] = at, octets
                return row
            at = _copy(out, at, singles, start, octets)
            continue
        needed = room[which, 0] + _HEX_OCTETS * room[which, 1] * record[row, _CAPTURED]
        needed += room[which, 2] * longest
        if at + needed > len(out):
            used[0], used[1] = at, needed
            return row
        base = mark_at[row]
        line = cell = at
        step = bounds[which]
        stop = bounds[which + 1]
        while step < stop:
            kind = operations[step, 0]
            first, second = operations[step, 1], operations[step, 2]
            third, fourth = operations[step, 3], operations[step, 4]
            if kind == LITERAL:
                at = _copy(out, at, literals, first, second)
            elif kind == HEX:
                start = marks[base + first] + second
                behind = marks[base + third] + fourth
                if operations[step, 5] == 0:
                    at = _hex(out, at, buffer, start, behind, pairs)
                else:
                    at = _separated(out, at, buffer, start, behind, pairs, operations[step, 5])
            elif kind == WORD:
                code = signed(codes[row - begin, first])
                start = word_bounds[code]
                at = _copy(out, at, words, start, word_bounds[code + 1] - start)
            elif kind == DOTTED:
                start = marks[base + first] + second
                for octet in range(start, start + 4):
                    value = signed(buffer[octet])
                    at = _places(out, at, value, _digits(value))
                    out[at] = _POINT
                    at += 1
                at -= 1
            elif kind == JUMP:
                step += first - 1
            elif kind == STRIP:
                while at > line and signed(out[at - 1]) == _SPACE:
                    at -= 1
            elif kind == CELL:
                cell = at
            elif kind == COMMA:
                if at > cell:
                    out[at] = _COMMA
                    at += 1
            elif kind == QUOTE:
                at = _quote(out, cell, at)
            else:
                number = number_at(first, numbers, record, row, buffer, marks, base)
                if kind == DECIMAL:
                    at = _decimal(out, at, number * fourth, second, third != 0)
                elif kind == HEX_NUMBER:
                    for place in range(second):
                        value = 2 * ((number >> (4 * (second - 1 - place))) & 15) + 1
                        out[at + place] = pairs[value]
                    at += second
                elif kind == SECONDS:
                    at = _seconds(out, at, number, second)
                elif kind == UNLESS and (number < second or number > third):
                    step += fourth - 1
            step += 1
    used[0], used[1] = at, 0
    return end
