"""Conversion of ticks to nanoseconds, compared with exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture.pcapng import TickClock, ticks_to_ns

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
TICKS = st.one_of(
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 64).flatmap(lambda n: st.integers(max(0, (1 << n) - 3), min((1 << n) + 3, (1 << 64) - 1))),
)
OFFSETS = st.one_of(st.just(0), st.integers(-(1 << 34), 1 << 34), st.integers(LOWEST, HIGHEST))


def exact_ns(ticks: int, resolution: int, offset_s: int) -> int:
    base = 2 if resolution & 0x80 else 10
    return int(Fraction(ticks * 10**9, base ** (resolution & 0x7F)).__floor__()) + offset_s * 10**9


@given(ticks=st.lists(TICKS, min_size=1, max_size=5), resolution=st.integers(0, 255), offset_s=OFFSETS)
def test_times_are_floored_and_clamped_exactly(ticks: list[int], resolution: int, offset_s: int) -> None:
    exact = [exact_ns(tick, resolution, offset_s) for tick in ticks]
    times, clamped = ticks_to_ns(
        np.array(ticks, dtype=np.uint64), TickClock(resolution=resolution, offset_s=offset_s)
    )
    assert times.tolist() == [min(max(time, LOWEST), HIGHEST) for time in exact]
    assert clamped == sum(not LOWEST <= time <= HIGHEST for time in exact)


@pytest.mark.parametrize(
    ("resolution", "ticks", "time_ns"),
    [
        (6, 1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 18_446_744_073_709_551_615, 18_446_744_073_709_551),
        (0, 9_223_372_036, 9_223_372_036_000_000_000),
        (0x80 | 32, (1_700_000_000 << 32) + 1, 1_700_000_000_000_000_000),
        (0x80 | 32, (1_700_000_000 << 32) + 0xFFFFFFFF, 1_700_000_000_999_999_999),
        (0x80 | 40, (1 << 40) - 1, 999_999_999),
        (0x80 | 63, (1 << 64) - 1, 1_999_999_999),
        (0x80 | 127, (1 << 64) - 1, 0),
        (127, (1 << 64) - 1, 0),
    ],
)
def test_known_ticks_have_known_times(resolution: int, ticks: int, time_ns: int) -> None:
    times, clamped = ticks_to_ns(np.array([ticks], dtype=np.uint64), TickClock(resolution=resolution))
    assert (times.tolist(), clamped) == ([time_ns], 0)


@given(time_ns=st.integers(-(10**18), 10**18), resolution=st.sampled_from([9, 0x80 | 30, 12]), offset=OFFSETS)
def test_ticks_round_down_to_the_resolution(time_ns: int, resolution: int, offset: int) -> None:
    clock = TickClock(resolution=resolution, offset_s=offset)
    ticks = (time_ns - offset * 10**9) * clock.ticks_per_second // 10**9
    assert clock.ns(ticks) <= time_ns <= clock.ns(ticks + 1)


def test_no_ticks_give_no_times() -> None:
    times, clamped = ticks_to_ns(np.empty(0, dtype=np.uint64), TickClock())
    assert (len(times), clamped) == (0, 0)
