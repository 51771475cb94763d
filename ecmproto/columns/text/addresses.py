"""IP addresses as `inet_ntop` writes them; up to seven octets behind the text are written to as well."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import signed, two_octets
from ecmproto.columns.text.digits import hex_number, natural
from ecmproto.kernel import inlined

Octets = NDArray[np.uint8]

_POINT, _COLON = 46, 58
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
    """Write an IPv6 address: ``::`` for the first of the longest runs of zeros, from two on."""
    begin, length, run = 0, 1, 0
    for group in range(_GROUPS):
        run = run + 1 if two_octets(buffer, start + 2 * group) == 0 else 0
        if run > length:
            begin, length = group + 1 - run, run
    if length == 1:
        begin = _GROUPS
    holds_ipv4 = begin == 0 and (length == 6 or (length == 5 and two_octets(buffer, start + 10) == 0xFFFF))
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
        elif group == 6 and holds_ipv4:
            return dotted(out, at, buffer, start + 12)
        else:
            number = two_octets(buffer, start + 2 * group)
            digits = 1 + int(number >= 1 << 4) + int(number >= 1 << 8) + int(number >= 1 << 12)
            at = hex_number(out, at, number, digits)
            group += 1
    return at
