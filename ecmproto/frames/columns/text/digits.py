"""Numbers and octets as digits, written four at a time.

Each function writes a text at an offset and returns the end of the text. Up to seven bytes after the text may
be overwritten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed, two_octets
from ecmproto.frames.columns.octets import load_4, store_4, store_8
from ecmproto.kernels.kernel import inlined

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_SPACE, _MINUS, _PLUS, _POINT, _ZERO, _COLON = 32, 45, 43, 46, 48, 58
_LETTERS = ord("a") - 10 - _ZERO
_NS_DIGITS = 9
_DAY_S = 86_400
_LOWER_BITS = (1 << 63) - 1


@inlined
def four_digits(number: int) -> int:
    """Return the four decimal digits of a number < 10^4; the least significant octet has the first digit."""
    # 5243 / 2^19 is about 1/100, and 103 / 2^10 is about 1/10; both are exact enough for numbers < 10^4.
    hundreds = (number * 5243) >> 19
    pairs = hundreds | ((number - 100 * hundreds) << 16)
    tens = ((pairs * 103) >> 10) & 0x000F000F
    return (tens | ((pairs - 10 * tens) << 8)) + 0x30303030


@inlined
def _few(out: Octets, at: int, number: int) -> int:
    """Write a number < 10^4 in decimal."""
    unused = int(number < 10) + int(number < 100) + int(number < 1000)
    store_4(out, at, four_digits(number) >> (8 * unused))
    return at + 4 - unused


@inlined
def _eight(out: Octets, at: int, number: int) -> int:
    """Write a number < 10^8 with leading zeros."""
    high = number // 10_000
    store_4(out, at, four_digits(high))
    store_4(out, at + 4, four_digits(number - 10_000 * high))
    return at + 8


@inlined
def _below_eight(out: Octets, at: int, number: int) -> int:
    """Write a number < 10^8 in decimal."""
    if number < 10_000:
        return _few(out, at, number)
    high = number // 10_000
    at = _few(out, at, high)
    store_4(out, at, four_digits(number - 10_000 * high))
    return at + 4


@inlined
def natural(out: Octets, at: int, number: int) -> int:
    """Write a number ≥ 0 in decimal."""
    if number < 100_000_000:
        return _below_eight(out, at, number)
    above = number // 100_000_000
    if above < 100_000_000:
        at = _below_eight(out, at, above)
    else:
        top = above // 100_000_000
        at = _below_eight(out, at, top)
        at = _eight(out, at, above - 100_000_000 * top)
    return _eight(out, at, number - 100_000_000 * above)


@inlined
def unsigned(out: Octets, at: int, number: int) -> int:
    """Write 64 bits as an unsigned number in decimal."""
    if number >= 0:
        return natural(out, at, number)
    half = (number >> 1) & _LOWER_BITS
    above = half // 50_000_000
    return _eight(out, natural(out, at, above), 2 * (half - 50_000_000 * above) + (number & 1))


@inlined
def digits_of(number: int) -> int:
    """Return the number of decimal digits of a number ≥ 0."""
    digits = 1
    while number >= 10_000:
        number //= 10_000
        digits += 4
    return digits + int(number >= 10) + int(number >= 100) + int(number >= 1000)


@inlined
def _lead(out: Octets, at: int, spaces: int, number: int, plus: bool) -> int:
    """Write leading spaces and the sign of a number."""
    for _ in range(spaces):
        out[at] = _SPACE
        at += 1
    if number < 0 or plus:
        out[at] = _MINUS if number < 0 else _PLUS
        at += 1
    return at


@inlined
def decimal(out: Octets, at: int, number: int, width: int, plus: bool) -> int:
    """Write a number at least ``width`` characters wide; ``plus`` writes a plus sign too."""
    magnitude = -number if number < 0 else number
    spaces = width - digits_of(magnitude) - int(number < 0 or plus) if width > 0 else 0
    return natural(out, _lead(out, at, spaces, number, plus), magnitude)


@inlined
def seconds(out: Octets, at: int, number: int, width: int) -> int:
    """Write a number of ns as seconds with nine decimals, at least ``width`` characters wide."""
    magnitude = -number if number < 0 else number
    whole = magnitude // 1_000_000_000
    spaces = width - digits_of(whole) - 1 - _NS_DIGITS - int(number < 0) if width > 0 else 0
    at = natural(out, _lead(out, at, spaces, number, False), whole)
    out[at] = _POINT
    rest = magnitude - whole * 1_000_000_000
    first = rest // 100_000_000
    out[at + 1] = _ZERO + first
    return _eight(out, at + 2, rest - 100_000_000 * first)


@inlined
def _pair(out: Octets, at: int, mark: int, number: int) -> int:
    """Write one octet, followed by the two digits of a number < 100."""
    out[at] = mark
    store_4(out, at + 1, four_digits(number) >> 16)
    return at + 3


@inlined
def moment(out: Octets, at: int, number: int) -> int:
    """Write a number of ns since 1970 as UTC with nine decimals; the year must have four digits."""
    second = number // 1_000_000_000
    day = second // _DAY_S
    # Days and years are counted from March 0000, so that a leap day is the last day of a year.
    days = day + 719_468
    era = days // 146_097
    of_era = days - 146_097 * era
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    january = int(month >= 10)
    store_4(out, at, four_digits(year + 400 * era + january))
    at = _pair(out, at + 4, _MINUS, month + 3 - 12 * january)
    at = _pair(out, at, _MINUS, of_year - (153 * month + 2) // 5 + 1)
    of_day = second - _DAY_S * day
    minute = of_day // 60
    at = _pair(out, at, _SPACE, minute // 60)
    at = _pair(out, at, _COLON, minute % 60)
    at = _pair(out, at, _COLON, of_day - 60 * minute)
    out[at] = _POINT
    rest = number - 1_000_000_000 * second
    first = rest // 100_000_000
    out[at + 1] = _ZERO + first
    return _eight(out, at + 2, rest - 100_000_000 * first)


@inlined
def binary(out: Octets, at: int, number: int, bits: int, offset: int) -> int:
    """Write the lowest ``bits`` bits in groups of four.

    The first group lacks its first ``offset`` bits.
    """
    for bit in range(bits):
        if bit > 0 and (offset + bit) % 4 == 0:
            out[at] = _SPACE
            at += 1
        out[at] = _ZERO + ((number >> (bits - 1 - bit)) & 1)
        at += 1
    return at


@inlined
def _hex_digits(nibbles: int) -> int:
    """Return the hex digits of eight numbers < 16, one octet per number."""
    letters = ((nibbles + 0x0606060606060606) >> 4) & 0x0101010101010101
    return nibbles + 0x3030303030303030 + letters * _LETTERS


@inlined
def _two_digits(octet: int) -> int:
    """Return the two hex digits of an octet; the least significant octet has the first digit."""
    return _hex_digits((octet >> 4) | ((octet & 15) << 8)) & 0xFFFF


@inlined
def hex_octets(out: Octets, at: int, buffer: Octets, start: int, stop: int) -> int:
    """Write octets in hex."""
    whole = stop - (stop - start) % 4
    for i in range(start, whole, 4):
        # Spread pairs of octets, then single octets; then split each octet into halves.
        spread = load_4(buffer, i)
        spread = (spread | (spread << 16)) & 0x0000FFFF0000FFFF
        spread = (spread | (spread << 8)) & 0x00FF00FF00FF00FF
        nibbles = ((spread >> 4) & 0x000F000F000F000F) | ((spread & 0x000F000F000F000F) << 8)
        store_8(out, at, _hex_digits(nibbles))
        at += 8
    for i in range(whole, stop):
        store_4(out, at, _two_digits(signed(buffer[i])))
        at += 2
    return at


@inlined
def separated_octets(out: Octets, at: int, buffer: Octets, start: int, stop: int, separator: int) -> int:
    """Write octets in hex with a separator between octets."""
    for i in range(start, stop):
        store_4(out, at, _two_digits(signed(buffer[i])) | (separator << 16))
        at += 3
    return at - int(stop > start)


@inlined
def hex_number(out: Octets, at: int, number: int, digits: int) -> int:
    """Write the lowest ``digits`` hex digits of a number ≥ 0."""
    for i in range(digits):
        nibble = (number >> (4 * (digits - 1 - i))) & 15
        out[at + i] = _hex_digits(nibble) & 255
    return at + digits


_GROUPS = 8


@inlined
def dotted(out: Octets, at: int, buffer: Octets, start: int) -> int:
    """Write an IPv4 address."""
    for octet in range(start, start + 4):
        at = natural(out, at, signed(buffer[octet]))
        out[at] = _POINT
        at += 1
    return at - 1


@inlined
def grouped(out: Octets, at: int, buffer: Octets, start: int) -> int:
    """Write an IPv6 address, with ``::`` for the first of the longest runs of at least two zero groups."""
    begin, length, run = 0, 1, 0
    for group in range(_GROUPS):
        run = run + 1 if two_octets(buffer, start + 2 * group) == 0 else 0
        if run > length:
            begin, length = group + 1 - run, run
    if length == 1:
        begin = _GROUPS
    has_ipv4 = begin == 0 and (length == 6 or (length == 5 and two_octets(buffer, start + 10) == 0xFFFF))
    group = 0
    while group < _GROUPS:
        if group > 0 or begin == 0:
            out[at] = _COLON
            at += 1
        if group == begin:
            group += length
            if group == _GROUPS:
                out[at] = _COLON
                at += 1
        elif group == 6 and has_ipv4:
            return dotted(out, at, buffer, start + 12)
        else:
            number = two_octets(buffer, start + 2 * group)
            digits = 1 + int(number >= 1 << 4) + int(number >= 1 << 8) + int(number >= 1 << 12)
            at = hex_number(out, at, number, digits)
            group += 1
    return at


_SIGNIFICANT = 4
_LARGE = 1024.0


@inlined
def _power(exponent: int) -> int:
    power = 1
    for _ in range(exponent):
        power *= 10
    return power


@inlined
def _rounded(number: int, unit: int, divisor: int) -> int:
    """Return ``number`` divided by ``unit``, as a rounded integer.

    A half-way case is rounded in the direction in which Python rounds the quotient of ``number`` and
    ``divisor``.
    """
    above = number // unit
    twice = 2 * (number - above * unit)
    if twice != unit:
        return above + int(twice > unit)
    # Half-way: Python rounds the quotient as a double, which can be slightly more or less than the exact
    # quotient. The lowest 64 bits of the products suffice to compute the difference.
    quotient = float(number) / float(divisor)
    bits = 52 if quotient < _LARGE else 42
    error = int(quotient * float(1 << bits)) * divisor - (int(number) << bits)
    return above + int(error > 0 or (error == 0 and above & 1 == 1))


@inlined
def significant(out: Octets, at: int, number: int, exponent: int) -> int:
    """Write the quotient of ``number`` and 10^``exponent``; up to seven bytes after the text may be
    overwritten.

    The number must be below 2^53, with 10^exponent ≤ number < 10^(exponent + 4) − 10^exponent / 2. With
    exponent 0, the number may be 0.
    """
    digits = digits_of(number)
    if digits > _SIGNIFICANT:
        number = _rounded(number, _power(digits - _SIGNIFICANT), _power(exponent))
        if number == _power(_SIGNIFICANT):
            number = _power(_SIGNIFICANT - 1)
            digits += 1
    else:
        number *= _power(_SIGNIFICANT - digits)
    whole = digits - exponent
    text = four_digits(number)
    store_4(out, at, text)
    last = _SIGNIFICANT
    while last > whole and number % 10 == 0:
        number //= 10
        last -= 1
    if last == whole:
        return at + whole
    out[at + whole] = _POINT
    store_4(out, at + whole + 1, text >> (8 * whole))
    return at + last + 1
