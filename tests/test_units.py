from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.units import (
    format_octets,
    format_rate,
    format_time,
    parse_octets,
    parse_rate,
    parse_time,
    quanta_to_ns,
    queue_units,
    serialisation_ns,
)


@pytest.mark.parametrize(
    ("gigabits", "tenths_of_ns"),
    [(1, 5120), (10, 512), (25, 204.8), (40, 128), (100, 51.2)],
)
def test_one_quantum_is_512_bit_times(gigabits: int, tenths_of_ns: float) -> None:
    """wire-formats 8: 512 ns at 1 Gb/s, 51.2 at 10, 20.48 at 25, 12.8 at 40, 5.12 at 100."""
    assert quanta_to_ns(1000, gigabits * 10**9) == tenths_of_ns * 100


def test_a_pause_lasts_its_time_rounded_up() -> None:
    assert quanta_to_ns(1, 10 * 10**9) == 52
    assert quanta_to_ns(65535, 10 * 10**9) == 3_355_392
    assert quanta_to_ns(0, 10 * 10**9) == 0


@given(st.integers(-(2**40), 2**40))
def test_queue_units_truncate_toward_zero(octets: int) -> None:
    assert queue_units(octets) == int(octets / 64)


@given(st.integers(0, 10**6), st.integers(1, 10**12))
def test_serialisation_is_the_least_whole_time_that_suffices(octets: int, rate_bps: int) -> None:
    ns = serialisation_ns(octets, rate_bps)
    assert (ns - 1) * rate_bps < 8 * octets * 10**9 <= ns * rate_bps


def test_what_people_write_is_read() -> None:
    assert [parse_rate(text) for text in ("10G", "2.5Gb/s", "100Mbps", "800000", "1 kb/s")] == [
        10**10, 25 * 10**8, 10**8, 800_000, 1000,
    ]  # fmt: skip
    assert [parse_octets(text) for text in ("33kB", "2.4MB", "150000", "64 B")] == [
        33000,
        2_400_000,
        150_000,
        64,
    ]
    assert [parse_time(text) for text in ("15ms", "0.5us", "1s", "7")] == [15 * 10**6, 500, 10**9, 7]


@pytest.mark.parametrize("text", ["", "fast", "-1G", "1.5", "10GB/s", "0x10", "1e9", "NaN", "1 0G", "٣G"])
def test_what_is_no_rate_is_refused_with_what_was_needed(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_rate(text)
    assert caught.value.got == repr(text)
    assert "10G" in caught.value.needed


def test_what_people_read_has_a_unit() -> None:
    assert format_rate(2.35e9) == "2.35 Gb/s"
    assert format_octets(26_000) == "26 kB"
    assert format_octets(640) == "640 B"
    assert format_time(3_355_392) == "3.355 ms"
    assert format_time(512) == "512 ns"


@pytest.mark.parametrize("parse", [parse_rate, parse_octets, parse_time])
def test_numbers_of_more_digits_than_python_reads_are_refused_like_others(
    parse: Callable[[str], int],
) -> None:
    for text in (
        "9" * 5000 + "s",
        "9" * 5000 + "B",
        "9" * 5000 + "G",
        "0." + "9" * 5000 + "s",
        "1" + "0" * 5000,
    ):
        with pytest.raises(ParameterError):
            parse(text)
