"""Reading a field of many layers: a loop of its own, steered by where the schema says that it stands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.octets import eight_octets
from ecmproto.columns.transitions import Place, place_of
from ecmproto.formats.base import Layer
from ecmproto.formats.schema import Field
from ecmproto.kernel import inlined

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
_SIGNED = (np.int8, np.int16, np.int32, np.int64)

WORD = 8
_ONE, _TWO, _FOUR, _EIGHT, _BY_OCTET, _ADDRESS, _COPY = range(7)
"""How a field is read: from the eight octets that it is in, into a number of so many; a number octet by
octet, where there may be no such eight; six octets as they are; any number of octets as they are."""
HOW, AT, OCTETS, SHIFT, MASK, WIDTH, TO = range(7)
"""What there is to know for it: how; where the octets stand in the layer, and how many they are; which bits
of them the number is; in how many octets it is put, and which place of the output of such numbers is the
first."""
_ADDRESS_OCTETS = 6


def number_dtype(bits: int, *, signed: bool) -> np.dtype[Any]:
    """Return the least dtype that holds numbers of ``bits``."""
    index = (bits > 8) + (bits > 16) + (bits > 32)
    return np.dtype((_SIGNED if signed else _UNSIGNED)[index])


def dtype_of(field: Field) -> np.dtype[Any]:
    """Return the dtype of a field of fixed width: of its numbers, or of the octets of its rows."""
    if not field.is_number:
        return np.dtype(np.uint8)
    return number_dtype(field.bits or 0, signed=field.kind == "sint")


def empty_values(field: Field, count: int) -> NDArray[Any]:
    """Return where the values of a field of fixed width would be: numbers, or rows of octets."""
    assert field.bits is not None
    if not field.is_number:
        return np.empty((count, field.bits // 8), np.uint8)
    return np.empty(count, dtype_of(field))


def how_to_read(cls: type[Layer], field: Field, bit: int | None, *, preceded: bool) -> tuple[int, ...]:
    """Return how a field of a format is read, but for where to; of bit ``bit`` alone unless it is None.

    ``preceded`` says that there are WORD octets at least in front of each of the layers.
    """
    place = place_of(field)
    if not field.is_number:
        how = _ADDRESS if place.octets == _ADDRESS_OCTETS else _COPY
        return how, place.at, place.octets, 0, 0, 1
    assert place.octets <= WORD, f"{field.name}: a number in more than eight octets"
    if bit is not None:
        place = place._replace(shift=place.shift + bit, mask=1)
    width = 1 if bit is not None else dtype_of(field).itemsize
    how, at, shift = _window(cls, place, width, preceded)
    return how, at, place.octets, shift, int(np.uint64(place.mask).astype(np.int64)), width


def _window(cls: type[Layer], place: Place, width: int, preceded: bool) -> tuple[int, int, int]:
    """Return how a number is read: the eight octets with it are in the layer, or in what precedes it."""
    stop = place.at + place.octets
    how = (1, 2, 4, 8).index(width)
    if cls.fixed_octets >= WORD:
        at = min(place.at, cls.fixed_octets - WORD)
        return how, at, place.shift + 8 * (at + WORD - stop)
    if preceded:
        return how, stop - WORD, place.shift
    return _BY_OCTET, place.at, place.shift


class Memory(NamedTuple):
    """The same memory as numbers of every width."""

    one: Octets
    two: NDArray[np.uint16]
    four: NDArray[np.uint32]
    eight: NDArray[np.uint64]


def memory_of(octets: Octets) -> Memory:
    """Return ``octets``, a multiple of eight, as numbers."""
    return Memory(octets, octets.view(np.uint16), octets.view(np.uint32), octets.view(np.uint64))


@inlined
def read(buffer: Octets, start: Int64, first: int, count: int, to: int, field: Int64, out: Memory) -> None:
    """Read a field of ``count`` layers whose starts are those from ``first`` on, as values from ``to`` on."""
    how, at, octets = field[HOW], field[AT], field[OCTETS]
    shift, mask, width = np.uint64(field[SHIFT]), np.uint64(field[MASK]), field[WIDTH]
    one, two, four, eight = out.one, out.two, out.four, out.eight
    base = field[TO] + to
    if how == _ONE:
        for i in range(count):
            place = start[np.uint64(first + i)] + at
            one[np.uint64(base + i)] = (eight_octets(buffer, place) >> shift) & mask
    elif how == _TWO:
        for i in range(count):
            place = start[np.uint64(first + i)] + at
            two[np.uint64(base + i)] = (eight_octets(buffer, place) >> shift) & mask
    elif how == _FOUR:
        for i in range(count):
            place = start[np.uint64(first + i)] + at
            four[np.uint64(base + i)] = (eight_octets(buffer, place) >> shift) & mask
    elif how == _EIGHT:
        for i in range(count):
            place = start[np.uint64(first + i)] + at
            eight[np.uint64(base + i)] = (eight_octets(buffer, place) >> shift) & mask
    elif how == _ADDRESS:
        _read_addresses(buffer, start, first, count, at, one, field[TO] + to * _ADDRESS_OCTETS)
    elif how == _COPY:
        base = field[TO] + to * octets
        for i in range(count):
            place = start[np.uint64(first + i)] + at
            for octet in range(octets):
                one[np.uint64(base + i * octets + octet)] = buffer[np.uint64(place + octet)]
    else:
        for i in range(count):
            number = np.uint64(0)
            place = start[np.uint64(first + i)] + at
            for octet in range(octets):
                number = (number << np.uint64(8)) | np.uint64(buffer[np.uint64(place + octet)])
            _store(out, width, base + i, (number >> shift) & mask)


@inlined
def _read_addresses(
    buffer: Octets, start: Int64, first: int, count: int, at: int, out: Octets, base: int
) -> None:
    """Copy six octets of each layer: all are taken before any is put down, so that they go together."""
    one, two, three, four, five = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4), np.uint64(5)
    for i in range(count):
        place = np.uint64(start[np.uint64(first + i)] + at)
        a, b, c = buffer[place], buffer[place + one], buffer[place + two]
        d, e, f = buffer[place + three], buffer[place + four], buffer[place + five]
        to = np.uint64(base + i * _ADDRESS_OCTETS)
        out[to], out[to + one], out[to + two] = a, b, c
        out[to + three], out[to + four], out[to + five] = d, e, f


@inlined
def _store(out: Memory, width: int, at: int, number: np.uint64) -> None:
    if width == 1:
        out.one[at] = number
    elif width == 2:
        out.two[at] = number
    elif width == 4:
        out.four[at] = number
    else:
        out.eight[at] = number


def typed(field: Field, read: NDArray[Any]) -> NDArray[Any]:
    """Return what was read as the numbers that it is."""
    kind = dtype_of(field)
    numbers = read.view(kind)
    unused = 8 * kind.itemsize - (field.bits or 0)
    if field.kind == "sint" and unused:
        # two's complement of fewer bits than the array's numbers have
        numbers = np.right_shift(np.left_shift(numbers, unused), unused)
    return numbers
