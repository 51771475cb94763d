"""Addresses and CPIDs of whole columns as text: what frames' own text says of them, all in one buffer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import inlined, released
from ecmproto.table.headers import fixed
from ecmproto.table.text.addresses import dotted, grouped
from ecmproto.table.text.digits import hex_octets, separated_octets
from ecmproto.table.text.octets import BLOCK, copy, load_4

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]

AddressKind: TypeAlias = Literal["mac", "cpid", "ipv4", "ipv6"]
"""Kinds of fields whose values people read as text: six, eight, four and sixteen octets."""

ADDRESS_KINDS: tuple[AddressKind, ...] = get_args(AddressKind)
WIDTH = {"mac": 6, "cpid": 8, "ipv4": 4, "ipv6": 16}
_LONGEST = {"mac": 17, "cpid": 16, "ipv4": 15, "ipv6": 45}
_MAC, _CPID, _IPV4, _IPV6 = range(len(ADDRESS_KINDS))
_COLON = 58
_SLACK = 2 * BLOCK
"""Octets behind a text that may be written to as well."""
_KNOWN = 1 << 10
"""Of how many values the text is remembered: most columns have few."""


def address_texts(kind: AddressKind, values: NDArray[Any]) -> tuple[Octets, Int32]:
    """Return the text of each value, one behind the other, and where each starts; then where the last ends.

    ``values`` are rows of octets, or CPIDs as numbers.
    """
    rows = values.astype(">u8", copy=False).view(np.uint8) if values.ndim == 1 else values
    out = np.empty(len(values) * _LONGEST[kind] + _SLACK, np.uint8)
    bounds = np.empty(len(values) + 1, np.int32)
    known = np.full(_KNOWN, -1, np.int32)
    _write(ADDRESS_KINDS.index(kind), fixed(rows.reshape(-1)), WIDTH[kind], known, bounds, out)
    return out[: bounds[-1]], bounds


@released
def _write(kind: int, octets: Octets, width: int, known: Int32, bounds: Int32, out: Octets) -> None:
    at = 0
    for i in range(len(bounds) - 1):
        bounds[i] = at
        start = i * width
        slot = _slot(octets, start, width)
        same = int(known[slot])
        known[slot] = i
        if same >= 0 and _are_equal(octets, start, same * width, width):
            begin = int(bounds[same])
            at = copy(out, at, out, begin, int(bounds[same + 1]) - begin)
        elif kind == _MAC:
            at = separated_octets(out, at, octets, start, start + width, _COLON)
        elif kind == _CPID:
            at = hex_octets(out, at, octets, start, start + width)
        elif kind == _IPV4:
            at = dotted(out, at, octets, start)
        else:
            at = grouped(out, at, octets, start)
    bounds[len(bounds) - 1] = at


@inlined
def _slot(octets: Octets, start: int, width: int) -> int:
    """Return where a value is looked for: by its last octets, which differ most, and some before."""
    mixed = load_4(octets, start + width - 4) ^ (load_4(octets, start + (width - 4) // 2) * 0x9E3779B1)
    return ((mixed * 0x9E3779B1) >> 20) & (_KNOWN - 1)


@inlined
def _are_equal(octets: Octets, one: int, other: int, width: int) -> bool:
    """Return whether two values of at least four octets are the same."""
    for place in range(0, width - 3, 4):
        if load_4(octets, one + place) != load_4(octets, other + place):
            return False
    return load_4(octets, one + width - 4) == load_4(octets, other + width - 4)
