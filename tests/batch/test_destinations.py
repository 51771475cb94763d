"""Destinations are numbered in the order of their first frames, separately from groups."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.frames.batch.flows import GROUPS, DestinationTable
from tests.batch.frames import batch_of

ADDRESSES = st.sampled_from(["020000000001", "feffffffffff", "000000000000", "ffffffffffff", "01005e000001"])
FRAMES = st.lists(
    st.builds(lambda text, n: (bytes.fromhex(text) + bytes(8))[:n], ADDRESSES, st.sampled_from([5, 6, 14])),
    max_size=20,
)


def expected(frames: list[bytes], limit: int, with_groups: bool) -> list[int]:
    known: dict[bytes, int] = {}
    numbers = []
    for octets in frames:
        group = octets[0] & 1
        address = GROUPS if group else octets[:6]
        if len(octets) < 6 or (group and not with_groups):
            numbers.append(-1)
        elif address in known or len(known) < limit:
            numbers.append(known.setdefault(address, len(known)))
        else:
            numbers.append(-1)
    return numbers


@given(frames=FRAMES, limit=st.integers(1, 4), with_groups=st.booleans(), cut=st.integers(0, 20))
def test_numbers_equal_a_dictionarys(frames: list[bytes], limit: int, with_groups: bool, cut: int) -> None:
    table = DestinationTable(max_destinations=limit, with_groups=with_groups)
    numbers = [
        number for part in (frames[:cut], frames[cut:]) for number in table.number(*batch_of(part)).tolist()
    ]
    assert numbers == expected(frames, limit, with_groups)
    assert table.count == len(set(numbers) - {-1})
    for number, octets in zip(numbers, frames, strict=True):
        if number >= 0:
            assert table.address(number) == (GROUPS if octets[0] & 1 else octets[:6])
    counts = table.counts
    assert counts.cut == sum(len(octets) < 6 for octets in frames)
    assert counts.cut + counts.groups + counts.beyond == numbers.count(-1)


def test_a_table_grows_without_a_trace() -> None:
    frames = [b"\2" + number.to_bytes(5) for number in range(1000)]
    table = DestinationTable()
    numbers = itertools.chain.from_iterable(table.number(*batch_of(part)) for part in (frames[::-1], frames))
    assert list(numbers) == [*range(1000), *range(999, -1, -1)]


def test_unknown_number_has_no_address() -> None:
    table = DestinationTable()
    for number in (-1, 0):
        with pytest.raises(IndexError):
            table.address(number)


@pytest.mark.parametrize("limit", [0, 2**31])
def test_the_limit_is_checked(limit: int) -> None:
    with pytest.raises(ParameterError, match="max_destinations: expected 1 to"):
        DestinationTable(max_destinations=limit)
