"""The kernel that follows programs: it writes the text of rows one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import signed
from ecmproto.columns.text.addresses import dotted, grouped
from ecmproto.columns.text.digits import (
    binary,
    decimal,
    hex_number,
    hex_octets,
    moment,
    natural,
    seconds,
    separated_octets,
)
from ecmproto.columns.text.octets import copy, load_number
from ecmproto.columns.text.program import (
    BINARY,
    CELL,
    COMMA,
    DECIMAL,
    DOTTED,
    ERROR,
    GROUPED,
    HEX,
    HEX_NUMBER,
    JUMP,
    MOMENT,
    NATURAL,
    NOTHING,
    OF_LAYER,
    OF_POWER,
    OF_RECORD,
    OF_SUM,
    PAD,
    QUOTE,
    SECONDS,
    SIGNIFICANT,
    STRIP,
    UNLESS,
    WIDEN,
    WIDTH,
    WORD,
)
from ecmproto.columns.text.significant import significant
from ecmproto.kernel import inlined, released

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

SPARE_OCTETS = 64
"""Kernels write so many octets beyond a text at most, and read so many beyond a word."""
_SPACE, _COMMA, _QUOTE = 32, 44, 34
_CAPTURED, _ERROR = 5, 10  # the rows of RecordNumber.CAPTURED and of RecordNumber.ERROR
_HEX_OCTETS = 3
"""The most octets of text that one octet becomes."""


@inlined
def _term_at(
    which: int, numbers: Int64, record: Int64, row: int, buffer: Octets, marks: Int64, base: int
) -> int:
    """Return a number that is not of others, of a frame whose marks start at ``base``."""
    here = np.uint64(which)
    kind = numbers[here, 0]
    first, second, third = numbers[here, 1], numbers[here, 2], numbers[here, 3]
    if kind == OF_LAYER:
        number = load_number(buffer, marks[np.uint64(base + first)] + second, third) & numbers[here, 4]
        # a sign bit counts for less than nothing
        return int(number - 2 * (number & numbers[here, 5]))
    if kind == OF_RECORD:
        return int(record[first, row])
    return int(marks[np.uint64(base + third)] + numbers[here, 4] - marks[np.uint64(base + first)] - second)


@inlined
def number_at(
    which: int, numbers: Int64, record: Int64, row: int, buffer: Octets, marks: Int64, base: int
) -> int:
    """Return a number of a frame whose marks start at ``base``."""
    kind = numbers[which, 0]
    if kind < OF_SUM:
        return _term_at(which, numbers, record, row, buffer, marks, base)
    first = _term_at(numbers[which, 1], numbers, record, row, buffer, marks, base)
    second = _term_at(numbers[which, 2], numbers, record, row, buffer, marks, base)
    if kind == OF_POWER:
        return int((first << second) * numbers[which, 3])
    return int(first + numbers[which, 3] * second + numbers[which, 4])


@inlined
def _quote(out: Octets, cell: int, at: int, lone: bool) -> int:
    """Put the text from ``cell`` on in quotation marks if it has a comma, or is ``lone`` and empty."""
    wanted = lone and at == cell
    for place in range(cell, at):
        wanted = wanted or signed(out[place]) == _COMMA
    if not wanted:
        return at
    for behind in range(at, cell, -1):
        out[behind] = out[behind - 1]
    out[cell] = _QUOTE
    out[at + 1] = _QUOTE
    return at + 2


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
    out: Octets,
    used: Int64,
) -> int:
    """Write the text of rows ``begin`` to ``end`` and return the first for which there was no room.

    Row i follows the program ``program[i]``; −1 − k is the text k of ``singles``, where those of errors
    are too.  ``used`` is given the octets written, then those that the row without room needs.  ``codes`` has
    a row for each of these rows; no word and no error has more octets than ``longest``.
    """
    at = 0
    for row in range(begin, end):
        which = signed(program[row])
        if which < 0:
            start = single_bounds[-1 - which]
            octets = single_bounds[-which] - start
            if at + octets + SPARE_OCTETS > len(out):
                used[0], used[1] = at, octets + SPARE_OCTETS
                return row
            at = copy(out, at, singles, start, octets)
            continue
        needed = room[which, 0] + _HEX_OCTETS * room[which, 1] * record[_CAPTURED, row]
        needed += room[which, 2] * longest + SPARE_OCTETS
        if at + needed > len(out):
            used[0], used[1] = at, needed
            return row
        base = mark_at[row]
        line = cell = at
        wide = 0
        step = bounds[which]
        stop = bounds[which + 1]
        while step < stop:
            # an index that cannot be negative is not looked at for that
            here = np.uint64(step)
            kind = operations[here, 0]
            at = copy(out, at, literals, operations[here, 1], operations[here, 2])
            first, second = operations[here, 3], operations[here, 4]
            third, fourth = operations[here, 5], operations[here, 6]
            step += 1
            if kind == NATURAL:
                place = marks[np.uint64(base + first)] + second
                at = natural(out, at, load_number(buffer, place, third) & fourth)
            elif kind <= UNLESS:
                number = number_at(first, numbers, record, row, buffer, marks, base)
                if kind == DECIMAL:
                    at = decimal(out, at, number * fourth, second, third != 0)
                elif kind == HEX_NUMBER:
                    at = hex_number(out, at, number, second)
                elif kind == SECONDS:
                    at = seconds(out, at, number, second)
                elif kind == SIGNIFICANT:
                    at = significant(out, at, number * fourth, second)
                elif kind == MOMENT:
                    at = moment(out, at, number)
                elif kind == BINARY:
                    at = binary(out, at, number, second, third)
                elif number < second or number > third:
                    step += fourth
            elif kind == NOTHING:
                continue
            elif kind == HEX:
                start = marks[np.uint64(base + first)] + second
                behind = marks[np.uint64(base + third)] + fourth
                separator = operations[here, 7]
                if separator == 0:
                    at = hex_octets(out, at, buffer, start, behind)
                else:
                    at = separated_octets(out, at, buffer, start, behind, separator)
            elif kind == DOTTED:
                at = dotted(out, at, buffer, marks[np.uint64(base + first)] + second)
            elif kind == GROUPED:
                at = grouped(out, at, buffer, marks[np.uint64(base + first)] + second)
            elif kind == WORD:
                code = signed(codes[row - begin, first])
                start = word_bounds[code]
                at = copy(out, at, words, start, word_bounds[code + 1] - start)
            elif kind == JUMP:
                step += first
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
                at = _quote(out, cell, at, first != 0)
            elif kind == ERROR:
                start = single_bounds[record[_ERROR, row] - 1]
                at = copy(out, at, singles, start, single_bounds[record[_ERROR, row]] - start)
            elif kind == WIDTH:
                wide = first
            elif kind == WIDEN:
                wide = max(wide, min(at - cell, first))
                at = cell
            elif kind == PAD:
                while at < cell + wide:
                    out[at] = _SPACE
                    at += 1
    used[0], used[1] = at, 0
    return end
