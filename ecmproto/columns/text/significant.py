"""Quotients with four significant digits, to the last of them what Python's ``:.4g`` writes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.columns.text.digits import digits_of, four_digits
from ecmproto.columns.text.octets import store_4
from ecmproto.kernel import inlined

Octets = NDArray[np.uint8]

_DIGITS = 4
_POINT = 46
_LARGE = 1024.0


@inlined
def _power(exponent: int) -> int:
    power = 1
    for _ in range(exponent):
        power *= 10
    return power


@inlined
def _rounded(number: int, unit: int, divisor: int) -> int:
    """Return how many ``unit`` the number has, rounded as its quotient by ``divisor`` is."""
    above = number // unit
    twice = 2 * (number - above * unit)
    if twice != unit:
        return above + int(twice > unit)
    # Half-way: Python rounds the quotient as a double, which is a little more or less than that.  How much,
    # in units too small for either, needs no more than the last 64 bits of the products.
    quotient = float(number) / float(divisor)
    bits = 52 if quotient < _LARGE else 42
    error = int(quotient * float(1 << bits)) * divisor - (int(number) << bits)
    return above + int(error > 0 or (error == 0 and above & 1 == 1))


@inlined
def significant(out: Octets, at: int, number: int, exponent: int) -> int:
    """Write ``number`` / 10^``exponent``; up to seven octets behind the text are written to as well.

    10^exponent ≤ number < 10^(exponent + 4) − 10^exponent / 2, and the number is below 2^53; with exponent 0
    it may be 0.
    """
    digits = digits_of(number)
    if digits > _DIGITS:
        number = _rounded(number, _power(digits - _DIGITS), _power(exponent))
        if number == _power(_DIGITS):
            number = _power(_DIGITS - 1)
            digits += 1
    else:
        number *= _power(_DIGITS - digits)
    whole = digits - exponent
    text = four_digits(number)
    store_4(out, at, text)
    last = _DIGITS
    while last > whole and number % 10 == 0:
        number //= 10
        last -= 1
    if last == whole:
        return at + whole
    out[at + whole] = _POINT
    store_4(out, at + whole + 1, text >> (8 * whole))
    return at + last + 1
