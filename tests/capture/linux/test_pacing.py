"""Schedules agree with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.schedule import (
    AsFastAsPossible,
    BitRate,
    CaptureTimes,
    FrameRate,
    Schedule,
    schedule_of,
)

LENGTHS = st.lists(st.integers(0, 9000), max_size=40)
BATCHES = st.lists(LENGTHS, max_size=5)


def due(schedule: Schedule, batches: list[list[int]]) -> list[int]:
    """Return the due times of the frames in all batches. ``batches`` contains the lengths of the frames."""
    made = [Batch.from_frames([bytes(length) for length in lengths]) for lengths in batches]
    return [time_ns for batch in made for time_ns in schedule.due(batch).tolist()]


@given(BATCHES, st.fractions(Fraction(1, 1000), 10**9, max_denominator=1000))
def test_frame_rates_are_exact_over_all_batches(batches: list[list[int]], rate: Fraction) -> None:
    count = sum(map(len, batches))
    assert due(FrameRate(rate), batches) == [int(n * 10**9 / rate) for n in range(count)]


@given(BATCHES, st.integers(1, 10**12))
def test_bit_rates_count_preamble_and_gap(batches: list[list[int]], rate_bps: int) -> None:
    lengths = [length for batch in batches for length in batch]
    bits = [8 * sum(length + 24 for length in lengths[:n]) for n in range(len(lengths))]
    assert due(BitRate(rate_bps), batches) == [each * 10**9 // rate_bps for each in bits]


@given(
    st.lists(st.lists(st.integers(0, 1 << 60), min_size=1, max_size=10), max_size=4),
    st.fractions(Fraction(1, 4), 1000, max_denominator=100),
)
def test_capture_times_keep_their_intervals(batches: list[list[int]], speed: Fraction) -> None:
    schedule = CaptureTimes(speed)
    made = [Batch.from_frames([b""] * len(times), time_ns=times) for times in batches]
    got = [time_ns for batch in made for time_ns in schedule.due(batch).tolist()]
    times = [time for batch in batches for time in batch]
    latest = [max(0, *(time - times[0] for time in times[: n + 1])) for n in range(len(times))]
    assert got == [int(each / speed) for each in latest]


@pytest.mark.parametrize(
    ("rate", "schedule"),
    [
        ("1000pps", FrameRate(Fraction(1000))),
        ("1.5Mpps", FrameRate(Fraction(1_500_000))),
        ("0.5 pps", FrameRate(Fraction(1, 2))),
        ("10kpps", FrameRate(Fraction(10_000))),
        ("1G", BitRate(10**9)),
        ("2.5Gb/s", BitRate(2_500_000_000)),
        ("max", AsFastAsPossible()),
    ],
)
def test_rates_are_parsed(rate: str, schedule: Schedule) -> None:
    assert schedule_of(rate) == schedule


@pytest.mark.parametrize(
    ("speed", "schedule"),
    [
        ("1x", CaptureTimes(Fraction(1))),
        ("2x", CaptureTimes(Fraction(2))),
        ("0.5x", CaptureTimes(Fraction(1, 2))),
        ("max", AsFastAsPossible()),
    ],
)
def test_speeds_are_parsed(speed: str, schedule: Schedule) -> None:
    assert schedule_of(speed) == schedule


WRONG = (
    "0pps",
    "-1pps",
    "pps",
    "1e3pps",
    "1..2pps",
    ".pps",
    "٣pps",
    "0",
    "1Q",
    "0x",
    "x",
    "-1x",
    "fast",
    "1/0x",
)


@pytest.mark.parametrize("given", WRONG)
def test_wrong_rates_are_refused(given: str) -> None:
    with pytest.raises(ParameterError):
        schedule_of(given)


def test_times_beyond_a_century_are_refused() -> None:
    with pytest.raises(ParameterError, match="within a century"):
        schedule_of("0.000000000001pps").due(Batch.from_frames([b""] * 10))


def test_schedules_print_their_rate() -> None:
    shown = [str(schedule_of(rate)) for rate in ("1000pps", "1.5Mpps", "10G", "max")]
    assert shown == ["1,000 frames/s", "1,500,000 frames/s", "10 Gb/s on the line", "as fast as possible"]
    assert str(schedule_of("2.5x")) == "the capture's times × 2.5"
