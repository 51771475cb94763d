"""Addresses and CPIDs of whole columns as text: what frames' own text says of them, all in one buffer."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.columns.text.addresses import dotted, grouped
from ecmproto.columns.text.digits import hex_octets, separated_octets
from ecmproto.columns.text.octets import BLOCK, copy, load_4
from ecmproto.kernel import inlined, released

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
_ODD = 0x9E3779B1
"""The golden ratio's 32 bits: multiplied by it, a number's bits spread upwards."""
_BITS_32 = 0xFFFFFFFF


def address_texts(kind: AddressKind, values: NDArray[Any]) -> tuple[Octets, Int32]:
    """Return the text of each value, one behind the other, and where each starts; then where the last ends.

    ``values`` are rows of octets, or CPIDs as numbers.
    """
    out = np.empty(len(values) * _LONGEST[kind] + _SLACK, np.uint8)
    bounds = np.empty(len(values) + 1, np.int32)
    known = np.full(_KNOWN, -1, np.int32)
    _write(ADDRESS_KINDS.index(kind), _octets(values), WIDTH[kind], known, bounds, out)
    return out[: bounds[-1]], bounds


def address_words(kind: AddressKind, values: NDArray[Any]) -> tuple[Int32, Octets, Int32]:
    """Return the number of each value's text, and the texts and their bounds, as `address_texts` does.

    Equal values have one text, and texts are in the order in which they are first met.
    """
    codes = np.empty(len(values), np.int32)
    out = np.empty(len(values) * _LONGEST[kind] + _SLACK, np.uint8)
    bounds = np.empty(len(values) + 1, np.int32)
    first = np.empty(len(values), np.int32)
    # at most half full, so that an empty slot is near
    known = np.full(1 << max(2 * len(values) - 1, 1).bit_length(), -1, np.int32)
    words = _number(
        ADDRESS_KINDS.index(kind), _octets(values), WIDTH[kind], known, first, codes, bounds, out
    )  # fmt: skip
    return codes, out[: bounds[words]], bounds[: words + 1]


def _octets(values: NDArray[Any]) -> Octets:
    rows = values.astype(">u8", copy=False).view(np.uint8) if values.ndim == 1 else values
    return fixed(rows.reshape(-1))


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
        else:
            at = _text(kind, octets, start, width, out, at)
    bounds[len(bounds) - 1] = at


@released
def _number(
    kind: int,
    octets: Octets,
    width: int,
    known: Int32,
    first: Int32,
    codes: Int32,
    bounds: Int32,
    out: Octets,
) -> int:
    """Number the values by their text and write each text once; return how many there are."""
    at, words, code = 0, 0, 0
    last = len(known) - 1
    bounds[0] = 0
    for i in range(len(codes)):
        start = i * width
        # most values are the same as the one before
        if i == 0 or not _are_equal(octets, start, start - width, width):
            slot = _mixed(octets, start, width) & last
            code = int(known[slot])
            while code >= 0 and not _are_equal(octets, start, first[code] * width, width):
                slot = (slot + 1) & last
                code = int(known[slot])
            if code < 0:
                code = words
                known[slot], first[code] = code, i
                at = _text(kind, octets, start, width, out, at)
                words += 1
                bounds[words] = at
        codes[i] = code
    return words


@inlined
def _text(kind: int, octets: Octets, start: int, width: int, out: Octets, at: int) -> int:
    """Write the text of a value; return where it ends."""
    if kind == _MAC:
        return separated_octets(out, at, octets, start, start + width, _COLON)
    if kind == _CPID:
        return hex_octets(out, at, octets, start, start + width)
    if kind == _IPV4:
        return dotted(out, at, octets, start)
    return grouped(out, at, octets, start)


@inlined
def _mixed(octets: Octets, start: int, width: int) -> int:
    """Return 32 bits each of which depends on all octets of a value."""
    mixed = 0
    for place in range(0, width - 4, 4):
        mixed = ((mixed ^ load_4(octets, start + place)) * _ODD) & _BITS_32
        mixed ^= mixed >> 15
    mixed = ((mixed ^ load_4(octets, start + width - 4)) * _ODD) & _BITS_32
    mixed = ((mixed ^ (mixed >> 15)) * _ODD) & _BITS_32
    return mixed ^ (mixed >> 16)


@inlined
def _slot(octets: Octets, start: int, width: int) -> int:
    """Return where a value is looked for: by its last octets, which differ most, and some before."""
    mixed = load_4(octets, start + width - 4) ^ (load_4(octets, start + (width - 4) // 2) * _ODD)
    return ((mixed * _ODD) >> 20) & (_KNOWN - 1)


@inlined
def _are_equal(octets: Octets, one: int, other: int, width: int) -> bool:
    """Return whether two values of at least four octets are the same."""
    for place in range(0, width - 3, 4):
        if load_4(octets, one + place) != load_4(octets, other + place):
            return False
    return load_4(octets, one + width - 4) == load_4(octets, other + width - 4)
