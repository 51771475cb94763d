"""Which of an LLDPDU's TLVs is which: columns say in what order types, lengths and information come.

A path names a run of plain TLVs once, and an empty information has no value.  The types, the lengths and how
many octets the values have tell the TLVs apart, but for odd cases; those are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.formats.base import Layer
from ecmproto.formats.lldp import TLV, CongestionNotificationTLV

PLAIN, CN = TLV.prefix, CongestionNotificationTLV.prefix
NO_VALUE = -1
MOST_TLVS = 512

_CN_TYPE = 127

Told = tuple[tuple[type[Layer], ...], tuple[int, ...]]


def told_apart(
    names: Sequence[str], types: Sequence[int], lengths: Sequence[int], values: Sequence[int]
) -> Told | None:
    """Return the format of each TLV and the number of its value, NO_VALUE without one; None if unclear.

    ``names`` are the path's names of TLVs, ``values`` the octets of each value that there is.
    """
    if len(types) != len(lengths) or len(types) > MOST_TLVS:
        return None
    # for each name reached, the ways to get there: the name of each TLV so far, and the values used
    ways: dict[int, list[tuple[tuple[str, ...], tuple[int, ...]]]] = {-1: [((), ())]}
    for index, (type_, length) in enumerate(zip(types, lengths, strict=True)):
        is_last = index == len(types) - 1
        following: dict[int, list[tuple[tuple[str, ...], tuple[int, ...]]]] = {}
        for at, found in ways.items():
            stays = [at] if at >= 0 and names[at] == PLAIN else []
            for other in [*stays, *([at + 1] if at + 1 < len(names) else [])]:
                for chosen, used in found:
                    value = _value(names[other], type_, length, values, used, is_last)
                    if value is not None:
                        following.setdefault(other, []).append(((*chosen, names[other]), (*used, value)))
        # two ways are as unclear as a hundred
        ways = {at: found[:2] for at, found in following.items()}
    ends = [way for way in ways.get(len(names) - 1, []) if max(way[1], default=-1) == len(values) - 1]
    if len(ends) != 1:
        return None
    chosen, used = ends[0]
    return tuple(TLV if name == PLAIN else CongestionNotificationTLV for name in chosen), used


def _value(
    name: str, type_: int, length: int, values: Sequence[int], used: Sequence[int], is_last: bool
) -> int | None:
    """Return the number of the value that a TLV of that name would have; None if it can have none."""
    if name == CN:
        return NO_VALUE if type_ == _CN_TYPE else None
    if not length:
        return NO_VALUE
    number = max(used, default=NO_VALUE) + 1
    if number < len(values):
        return number if values[number] == length or (is_last and values[number] < length) else None
    return NO_VALUE if is_last else None
