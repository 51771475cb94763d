"""Pieces of text as tables of numbers that the kernel executes: the programs of all paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed, signed
from ecmproto.frames.columns.octets import copy, load_number
from ecmproto.frames.columns.text.digits import (
    binary,
    decimal,
    dotted,
    grouped,
    hex_number,
    hex_octets,
    moment,
    seconds,
    separated_octets,
    significant,
    unsigned,
)
from ecmproto.frames.columns.text.pieces import (
    Binary,
    Bits,
    Cell,
    Decimal,
    Dotted,
    Grouped,
    Hex,
    HexNumber,
    Mark,
    Moment,
    Number,
    OfFrame,
    OfLayer,
    Padded,
    Piece,
    Pieces,
    Power,
    RecordNumber,
    Seconds,
    Significant,
    Size,
    Span,
    Stripped,
    Sum,
    When,
    Widest,
    Word,
)
from ecmproto.kernels.kernel import inlined, over_batches

Int64 = NDArray[np.int64]

DECIMAL, HEX_NUMBER, SECONDS, SIGNIFICANT, MOMENT, BINARY, UNLESS = range(7)
NATURAL, NOTHING, HEX, DOTTED, GROUPED, WORD, JUMP, STRIP, CELL, COMMA, QUOTE, ERROR = range(7, 19)
WIDTH, WIDEN, PAD = range(19, 22)
"""Operations. Operations up to UNLESS have a number as operand. NATURAL has an unsigned number of a layer.

A row of ``operations`` contains the operation, the offset and the length of the literal written before it,
and the operands.
"""
OF_RECORD, OF_LAYER, OF_SIZE, OF_SUM, OF_POWER = range(5)
"""Sources of numbers. A row of ``numbers`` is a source and the position of the number in the source.

A position in a layer has five numbers: the boundary, the octets after the boundary, the right shift of the
eight octets at that offset, the mask, and the sign bit.
"""

KEY_NUMBERS = 8
"""Maximum number of numbers on which a word depends."""
_PART_OCTETS = 6
_MAX_DIGITS = 20
_MOMENT_OCTETS = 29
_WORD_BITS = 64
_COLUMNS = 8
_LITERAL_SPARE = 64
"""Number of octets that kernels may read after the end of a literal."""


class Programs(NamedTuple):
    """The programs as arrays."""

    bounds: Int64
    """Index of the first operation of each program, followed by the number of operations."""
    operations: Int64
    numbers: Int64
    literals: NDArray[np.uint8]
    word_bounds: Int64
    """Index in ``word_calls`` of the first word of each program."""
    word_calls: Int64
    """One row per word: the index of its function, and the number and indices of its arguments."""
    capacity: Int64
    """One row per program: the maximum size in octets of its bounded output, the number of spans with
    variable size, and the number of words.

    The output of a variable span is a multiple of its octets.
    """


class UnsupportedPieceError(Exception):
    """A text that no program can write."""


class Assembler:
    """Compiler of pieces into programs; the number of a program is its index."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., str]] = []
        self.argument_octets: list[tuple[int, ...]] = []
        """Octets of each argument of each function; 0 for a number."""
        self._function_of: dict[tuple[Callable[..., str], tuple[int, ...]], int] = {}
        self._operations: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._literals = bytearray()
        self._literal_at: dict[bytes, int] = {}
        self._word_calls: list[tuple[int, ...]] = []
        self._bounds, self._word_bounds = [0], [0]
        self._pending = b""
        self._capacity: list[tuple[int, int, int]] = []

    def __len__(self) -> int:
        return len(self._capacity)

    @property
    def record_numbers(self) -> set[int]:
        """Rows of `RecordNumber` that the programs use."""
        return {row[1] for row in self._numbers if row[0] == OF_RECORD} | {_CAPTURED, _ERROR}

    def add(self, pieces: Pieces) -> int:
        """Add a program and return its number.

        Raises UnsupportedPieceError, without adding a program, for unsupported pieces.
        """
        self._bounded = self._spans = self._errors = self._max_width = 0
        try:
            self._block(pieces)
        except UnsupportedPieceError:
            self._pending = b""
            del self._operations[self._bounds[-1] :], self._word_calls[self._word_bounds[-1] :]
            raise
        words = len(self._word_calls) - self._word_bounds[-1]
        self._capacity.append((self._bounded, self._spans, words + self._errors))
        self._bounds.append(len(self._operations))
        self._word_bounds.append(len(self._word_calls))
        return len(self._capacity) - 1

    def programs(self) -> Programs:
        """Return all programs."""
        return Programs(
            bounds=_table(self._bounds),
            operations=_table(self._operations, _COLUMNS),
            numbers=_table(list(self._numbers), 6),
            literals=fixed(np.frombuffer(bytes(self._literals) + bytes(_LITERAL_SPARE), np.uint8)),
            word_bounds=_table(self._word_bounds),
            word_calls=_table(self._word_calls, 2 + KEY_NUMBERS),
            capacity=_table(self._capacity, 3),
        )

    def _block(self, pieces: Pieces) -> None:
        """Add the operations of a complete sequence of pieces."""
        for piece in pieces:
            self._piece(piece)
        if self._pending:
            self._add(NOTHING)

    def _piece(self, piece: Piece) -> None:
        match piece:
            case str():
                self._pending += piece.encode("utf-8", errors="replace")
            case Decimal(Bits(signed=False) as bits, width=0, plus=False, times=1):
                _, boundary, at, shift, mask, _ = _row_of(bits, all_bits=True)
                self._add(NATURAL, boundary, at, shift, mask, capacity=_MAX_DIGITS)
            case Decimal():
                number = self._number(piece.number)
                capacity = max(_MAX_DIGITS, piece.width)
                self._add(DECIMAL, number, piece.width, int(piece.plus), piece.times, capacity=capacity)
            case HexNumber():
                number = self._number(piece.number, all_bits=True)
                self._add(HEX_NUMBER, number, piece.digits, capacity=piece.digits)
            case Hex():
                separator = ord(piece.separator) if piece.separator else 0
                octets = piece.span.octets
                capacity = 0 if octets is None else 3 * octets
                self._spans += octets is None
                self._add(HEX, *_ends(piece.span), separator, capacity=capacity)
            case Dotted():
                self._add(DOTTED, *_ends(piece.span)[:2], capacity=15)
            case Grouped():
                self._add(GROUPED, *_ends(piece.span)[:2], capacity=45)
            case Significant():
                self._add(SIGNIFICANT, self._number(piece.number), piece.exponent, 0, piece.times, capacity=5)
            case Seconds():
                capacity = max(_MAX_DIGITS + 2, piece.width)
                self._add(SECONDS, self._number(piece.number), piece.width, capacity=capacity)
            case Moment():
                self._add(MOMENT, self._number(piece.number), capacity=_MOMENT_OCTETS)
            case Binary():
                capacity = piece.bits + piece.bits // 4 + 1
                self._add(BINARY, self._number(piece.number), piece.bits, piece.offset, capacity=capacity)
            case Word():
                self._word(piece)
            case When():
                self._when(piece)
            case OfFrame():
                if piece.in_batches is None:
                    raise UnsupportedPieceError
                self._pending += piece.in_batches.encode()
            case Cell():
                self._add(CELL)
                for inner in piece.pieces:
                    self._piece(inner)
                if piece.quoted:
                    self._add(QUOTE, int(piece.lone), capacity=2)
            case Widest():
                self._max_width = piece.maximum
                self._add(WIDTH, piece.minimum)
                for text in piece.texts:
                    self._add(CELL)
                    self._block(text)
                    self._add(WIDEN, piece.maximum)
            case Padded():
                self._add(CELL)
                self._block(piece.pieces)
                self._add(PAD, capacity=self._max_width)
            case Stripped():
                self._block(piece.pieces)
                self._add(STRIP)
            case Mark.COMMA:
                self._add(COMMA, capacity=1)
            case Mark.ERROR:
                self._add(ERROR)
                self._errors += 1

    def _add(self, kind: int, *arguments: int, capacity: int = 0) -> None:
        octets, self._pending = self._pending, b""
        at = self._literal_at.get(octets)
        if at is None:
            at = self._literal_at[octets] = len(self._literals)
            self._literals += octets
        row = (kind, at, len(octets), *arguments)
        self._operations.append(row + (0,) * (_COLUMNS - len(row)))
        self._bounded += capacity + len(octets)

    def _when(self, piece: When) -> None:
        number = self._number(piece.number)
        self._add(UNLESS, number, piece.low, piece.high)
        branch = len(self._operations)
        self._block(piece.then)
        if piece.otherwise:
            self._add(JUMP)
        self._jump(branch, 3)
        if piece.otherwise:
            jump = len(self._operations)
            self._block(piece.otherwise)
            self._jump(jump, 0)

    def _jump(self, after: int, argument: int) -> None:
        """Make the operation before ``after`` jump to the next operation added."""
        row = list(self._operations[after - 1])
        row[3 + argument] = len(self._operations) - after
        self._operations[after - 1] = tuple(row)

    def _word(self, piece: Word) -> None:
        numbers: list[int] = []
        sizes: list[int] = []
        for value in piece.values:
            if isinstance(value, Span):
                numbers += self._parts(value)
                sizes.append(value.octets or 0)
            else:
                numbers.append(self._number(value))
                sizes.append(0)
        if len(numbers) > KEY_NUMBERS:
            raise ValueError(f"expected at most {KEY_NUMBERS} numbers for a word, got {len(numbers)}")
        key = piece.function, tuple(sizes)
        function = self._function_of.setdefault(key, len(self.functions))
        if function == len(self.functions):
            self.functions.append(piece.function)
            self.argument_octets.append(tuple(sizes))
        row = (function, len(numbers), *numbers)
        self._add(WORD, len(self._word_calls) - self._word_bounds[-1])
        self._word_calls.append(row + (0,) * (2 + KEY_NUMBERS - len(row)))

    def _parts(self, span: Span) -> list[int]:
        """Return octets of a fixed size as numbers with a few octets each."""
        octets = span.octets
        if not octets:
            raise ValueError("expected octets of a fixed size for a word, got a variable or zero size")
        return [
            self._number(Bits(span.begin, span.begin_at + at, size, 0, 8 * size))
            for at, size in parts_of(octets)
        ]

    def _number(self, number: Number, *, all_bits: bool = False) -> int:
        match number:
            case RecordNumber():
                row: tuple[int, ...] = (OF_RECORD, int(number), 0, 0, 0, 0)
            case Bits():
                row = _row_of(number, all_bits=all_bits)
            case Size():
                row = (OF_SIZE, *_ends(number.span), 0)
            case OfLayer() | Sum(first=Sum()):
                raise UnsupportedPieceError
            case Sum():
                first = self._number(number.first)
                # without a second number: 0 times the first number
                second, times = (
                    (first, 0) if number.second is None else (self._number(number.second), number.times)
                )
                row = (OF_SUM, first, second, times, number.more, 0)
            case Power():
                row = (
                    OF_POWER,
                    self._number(number.first),
                    self._number(number.exponent),
                    number.times,
                    0,
                    0,
                )
        return self._numbers.setdefault(row, len(self._numbers))


def parts_of(octets: int) -> list[tuple[int, int]]:
    """Return the start and the length of each part when octets are divided into numbers."""
    return [(at, min(_PART_OCTETS, octets - at)) for at in range(0, octets, _PART_OCTETS)]


def _row_of(bits: Bits, *, all_bits: bool) -> tuple[int, int, int, int, int, int]:
    """Return the position of a number in a layer.

    An unsigned number of 64 bits, which may be negative in a program, is only supported with ``all_bits``.
    """
    shift = _WORD_BITS - 8 * bits.octets + bits.shift
    whole = bits.bits == _WORD_BITS
    if shift < 0 or (whole and not bits.signed and not all_bits):
        raise UnsupportedPieceError
    sign = 1 << (bits.bits - 1) if bits.signed and not whole else 0
    return OF_LAYER, bits.boundary, bits.at, shift, -1 if whole else (1 << bits.bits) - 1, sign


def _ends(span: Span | OfLayer) -> tuple[int, int, int, int]:
    if isinstance(span, OfLayer):
        raise UnsupportedPieceError
    return span.begin, span.begin_at, span.end, span.end_at


def _table(rows: Sequence[Any], columns: int = 0) -> Int64:
    table = np.array(rows, np.int64)
    return fixed(table.reshape(-1, columns) if columns else table)


Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]

SPARE_OCTETS = 64
"""Maximum number of octets that kernels write after a text or read after a word."""
_SPACE, _COMMA, _QUOTE = 32, 44, 34
_CAPTURED, _ERROR = 5, 10  # the rows of RecordNumber.CAPTURED and of RecordNumber.ERROR
_HEX_OCTETS = 3
"""Maximum number of text octets for one octet."""


@inlined
def _term_at(
    which: int, numbers: Int64, record: Int64, row: int, buffer: Octets, boundaries: Int64, base: int
) -> int:
    """Return a number of a frame that is not computed from other numbers.

    The boundaries of the frame start at index ``base``.
    """
    here = np.uint64(which)
    kind = numbers[here, 0]
    first, second, third = numbers[here, 1], numbers[here, 2], numbers[here, 3]
    if kind == OF_LAYER:
        number = load_number(buffer, boundaries[np.uint64(base + first)] + second, third) & numbers[here, 4]
        # A sign bit has a negative value.
        return int(number - 2 * (number & numbers[here, 5]))
    if kind == OF_RECORD:
        return int(record[first, row])
    return int(
        boundaries[np.uint64(base + third)] + numbers[here, 4] - boundaries[np.uint64(base + first)] - second
    )


@inlined
def number_at(
    which: int, numbers: Int64, record: Int64, row: int, buffer: Octets, boundaries: Int64, base: int
) -> int:
    """Return a number of a frame whose boundaries start at index ``base``."""
    kind = numbers[which, 0]
    if kind < OF_SUM:
        return _term_at(which, numbers, record, row, buffer, boundaries, base)
    first = _term_at(numbers[which, 1], numbers, record, row, buffer, boundaries, base)
    second = _term_at(numbers[which, 2], numbers, record, row, buffer, boundaries, base)
    if kind == OF_POWER:
        return int((first << second) * numbers[which, 3])
    return int(first + numbers[which, 3] * second + numbers[which, 4])


@inlined
def _quote(out: Octets, cell: int, at: int, lone: bool) -> int:
    """Put the text of a cell in quotation marks if it contains a comma, or if it is empty and ``lone``.

    The text starts at ``cell`` and ends at ``at``.
    """
    needed = lone and at == cell
    for i in range(cell, at):
        needed = needed or signed(out[i]) == _COMMA
    if not needed:
        return at
    for j in range(at, cell, -1):
        out[j] = out[j - 1]
    out[cell] = _QUOTE
    out[at + 1] = _QUOTE
    return at + 2


@over_batches
def render(
    begin: int,
    end: int,
    program: Int32,
    bounds: Int64,
    operations: Int64,
    numbers: Int64,
    literals: Octets,
    capacity: Int64,
    codes: Int32,
    vocabulary: Octets,
    word_bounds: Int64,
    longest: int,
    record: Int64,
    buffer: Octets,
    boundaries: Int64,
    boundaries_at: Int64,
    singles: Octets,
    single_bounds: Int64,
    out: Octets,
    used: Int64,
) -> int:
    """Write the text of rows ``begin`` to ``end``; return the first row that exceeds the capacity.

    Row i follows the program ``program[i]``. A value of −1 − k means text k of ``singles``, which also
    contains the error texts. ``used`` is set to the number of octets written, and to the number of octets
    that the first unwritten row needs. ``codes`` has one row for each of the rows ``begin`` to ``end``. No
    word and no error is longer than ``longest``.
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
        # The capacity for the whole row is checked here, so that operations need no checks.
        needed = capacity[which, 0] + _HEX_OCTETS * capacity[which, 1] * record[_CAPTURED, row]
        needed += capacity[which, 2] * longest + SPARE_OCTETS
        if at + needed > len(out):
            used[0], used[1] = at, needed
            return row
        # In out, the row starts at line, the current cell at cell, and the text ends at at. wide is the width
        # of the widest text of a group. UNLESS and JUMP only move step forward, so each row ends.
        base = boundaries_at[row]
        line = cell = at
        wide = 0
        step = bounds[which]
        stop = bounds[which + 1]
        while step < stop:
            # An unsigned index is not tested for negative values.
            here = np.uint64(step)
            kind = operations[here, 0]
            at = copy(out, at, literals, operations[here, 1], operations[here, 2])
            first, second = operations[here, 3], operations[here, 4]
            third, fourth = operations[here, 5], operations[here, 6]
            step += 1
            if kind == NATURAL:
                offset = boundaries[np.uint64(base + first)] + second
                at = unsigned(out, at, load_number(buffer, offset, third) & fourth)
            elif kind <= UNLESS:
                number = number_at(first, numbers, record, row, buffer, boundaries, base)
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
                start = boundaries[np.uint64(base + first)] + second
                until = boundaries[np.uint64(base + third)] + fourth
                separator = operations[here, 7]
                if separator == 0:
                    at = hex_octets(out, at, buffer, start, until)
                else:
                    at = separated_octets(out, at, buffer, start, until, separator)
            elif kind == DOTTED:
                at = dotted(out, at, buffer, boundaries[np.uint64(base + first)] + second)
            elif kind == GROUPED:
                at = grouped(out, at, buffer, boundaries[np.uint64(base + first)] + second)
            elif kind == WORD:
                code = signed(codes[row - begin, first])
                start = word_bounds[code]
                at = copy(out, at, vocabulary, start, word_bounds[code + 1] - start)
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
