"""The search for the rate at which a testbed first misses a bound, without testbeds."""

from __future__ import annotations

from itertools import count

import pytest

from bench.limits import RATES, Limit, found_limit


@pytest.mark.parametrize("first", [0, 6, len(RATES) - 1])
@pytest.mark.parametrize("holds", range(-1, len(RATES)))
def test_the_limit_is_found_from_any_start(first: int, holds: int) -> None:
    tried: list[int] = []

    def misses(rate_bps: int) -> bool:
        tried.append(rate_bps)
        return holds < 0 or rate_bps > RATES[holds]

    last = len(RATES) - 1
    expected = Limit(holds if holds >= 0 else None, holds + 1 if holds < last else None)
    assert found_limit(misses, first) == expected
    assert len(tried) == len(set(tried)) <= 8
    if first == holds:
        assert len(tried) <= 2


def test_an_expired_search_returns_its_bounds() -> None:
    looks = count()
    limit = found_limit(lambda rate_bps: rate_bps > 200_000_000, 6, is_over=lambda: next(looks) >= 3)
    assert (RATES[limit.holds or 0], limit.misses) == (141_400_000, None)
