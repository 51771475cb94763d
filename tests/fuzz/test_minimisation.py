"""A reduced failure has no superfluous parts, and the number of attempts is limited."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.tools.fuzz.minimisation import Budget, fewest, shortest_beginning, simplest

PLENTY = 100_000


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.data())
def test_only_needed_items_remain(items: list[int], data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.sampled_from(sorted(set(items))), min_size=1, max_size=4))

    def fails(part: Sequence[int]) -> bool:
        return needed <= set(part)

    left = fewest(items, fails, Budget(PLENTY))
    assert sorted(left) == sorted(needed)
    order = iter(items)
    assert all(item in order for item in left)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_octets_around_a_failure_are_removed(before: bytes, after: bytes) -> None:
    assert (
        simplest(before + b"\xde\xad" + after, lambda octets: b"\xde\xad" in octets, Budget(PLENTY))
        == b"\xde\xad"
    )


@given(st.binary(min_size=20, max_size=80))
def test_arbitrary_required_octets_become_zero(octets: bytes) -> None:
    assert simplest(octets, lambda part: len(part) >= 14, Budget(PLENTY)) == bytes(14)


@given(st.binary(min_size=1, max_size=80), st.integers(0, 20))
def test_result_fails_within_the_budget(octets: bytes, tries: int) -> None:
    tried: list[bytes] = []

    def fails(part: bytes) -> bool:
        tried.append(part)
        return octets[0] in part

    assert octets[0] in simplest(octets, fails, Budget(tries))
    assert len(tried) <= tries


@given(st.binary(max_size=20), st.binary(max_size=300), st.sampled_from([1, 2]))
def test_length_shrinks_with_its_octets(head: bytes, body: bytes, size: int) -> None:
    octets = head + b"L" + min(len(body), 255).to_bytes(size) + body[:255]

    def fails(part: bytes) -> bool:
        at = part.find(b"L") + 1
        return at > 0 and int.from_bytes(part[at : at + size]) == len(part) - at - size

    if fails(octets):
        assert simplest(octets, fails, Budget(PLENTY)) == b"L" + bytes(size)


@given(st.integers(1, 3_000), st.data())
def test_shortest_failing_prefix_is_found(count: int, data: st.DataObject) -> None:
    last = data.draw(st.integers(0, count - 1))
    budget = Budget(PLENTY)
    beginning = shortest_beginning(range(count), lambda part: last in part, budget)
    assert beginning == range(last + 1)
    assert PLENTY - budget.left <= count.bit_length()
