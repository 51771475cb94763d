from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.units import (
    exact_octets,
    exact_rate,
    exact_time,
    format_octets,
    format_rate,
    format_time,
    one_precision,
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
    """A quantum lasts 512 ns at 1 Gb/s, 51.2 at 10, 20.48 at 25, 12.8 at 40 and 5.12 at 100 (wire-formats
    8).
    """
    assert quanta_to_ns(1000, gigabits * 10**9) == tenths_of_ns * 100


def test_a_pause_lasts_its_time_rounded_up() -> None:
    assert quanta_to_ns(1, 10 * 10**9) == 52
    assert quanta_to_ns(65535, 10 * 10**9) == 3_355_392
    assert quanta_to_ns(0, 10 * 10**9) == 0


@given(st.integers(-(2**40), 2**40))
def test_queue_units_truncate_toward_zero(octets: int) -> None:
    assert queue_units(octets) == int(octets / 64)


@given(st.integers(0, 10**6), st.integers(1, 10**12))
def test_serialisation_time_rounds_up(octets: int, rate_bps: int) -> None:
    ns = serialisation_ns(octets, rate_bps)
    assert (ns - 1) * rate_bps < 8 * octets * 10**9 <= ns * rate_bps


def test_usual_spellings_are_parsed() -> None:
    assert [parse_rate(text) for text in ("10G", "2.5Gb/s", "100Mbps", "800000b/s", "1 kb/s")] == [
        10**10, 25 * 10**8, 10**8, 800_000, 1000,
    ]  # fmt: skip
    assert [parse_octets(text) for text in ("33kB", "2.4MB", "150000B", "64 B")] == [
        33000,
        2_400_000,
        150_000,
        64,
    ]
    assert [parse_time(text) for text in ("15ms", "0.5us", "1s", "7ns", "2min", "10h", "0")] == [
        15 * 10**6, 500, 10**9, 7, 120 * 10**9, 36_000 * 10**9, 0,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "fast", "-1G", "1.5B", "10GB/s", "0x10", "1e9", "NaN", "1 0G", "٣G"])
def test_invalid_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_rate(text)
    assert caught.value.got == repr(text)
    assert "10G" in caught.value.needed


def test_formatted_values_have_a_unit() -> None:
    assert format_rate(2.35e9) == "2.35 Gb/s"
    assert format_octets(26_000) == "26 kB"
    assert format_octets(640) == "640 B"
    assert [format_octets(octets) for octets in (0.25, 0.0009, -0.0001)] == ["0.25 B", "0.001 B", "0 B"]
    assert format_time(3_355_392) == "3.355 ms"
    assert format_time(512) == "512 ns"


def test_value_rounding_up_takes_next_unit() -> None:
    assert [format_time(ns) for ns in (999_949_999, 999_950_000, 999_999_900)] == ["999.9 ms", "1 s", "1 s"]
    assert format_time(-999_999_900) == "-1 s"
    assert format_octets(999_999) == "1 MB"


def test_long_durations_are_hours_without_exponent() -> None:
    assert [format_time(seconds * 10**9) for seconds in (3599, 3600, 36_000, 90_000_000)] == [
        "3599 s", "1 h", "10 h", "25000 h",
    ]  # fmt: skip
    assert format_rate(12_346 * 10**12) == "12350 Tb/s"


@pytest.mark.parametrize(
    ("parse", "text", "spelt"),
    [
        (parse_time, "5", "5ms or 5s"), (parse_time, "0.5", "0.5ms or 0.5s"),
        (parse_time, "15000000", "15000000ns or 15ms"), (parse_rate, "10", "10M or 10G"),
        (parse_rate, "800000", "800000b/s or 800kb/s"), (parse_octets, "5", "5B or 5kB"),
        (parse_octets, "150000", "150000B or 150kB"),
    ],
)  # fmt: skip
def test_number_without_unit_is_refused_with_suggestions(
    parse: Callable[[str], int], text: str, spelt: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        parse(text)
    assert (caught.value.needed, caught.value.got) == (f"a number with its unit: {spelt}?", repr(text))
    assert parse("0") == parse("0.0") == 0


@given(st.integers(0, 1 << 62))
def test_exact_texts_parse_back(value: int) -> None:
    assert parse_time(exact_time(value)) == value
    assert parse_rate(exact_rate(value)) == value
    assert parse_octets(exact_octets(value)) == value


@pytest.mark.parametrize("parse", [parse_rate, parse_octets, parse_time])
def test_numbers_of_too_many_digits_are_refused(
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


def test_figures_of_a_kind_have_one_precision() -> None:
    rows = [["10 µs", "9.003 ms", "64 ns"], ["0 ns", "5 Gb/s", "1 2.5 40 kB"], ["1,234 B", "12 B", "0 /s"]]
    assert one_precision(rows) == [
        ["10.00 µs", "9.003 ms", "64 ns"],
        ["0 ns", "5 Gb/s", "1.0 2.5 40 kB"],
        ["1,234 B", "12 B", "0 /s"],
    ]
    assert one_precision([["x 1.5 /s at 0.25 /s", "-371 /s", "2 k/s", "7 frames/s", "12:30:05 s"]]) == [
        ["x 1.50 /s at 0.250 /s", "-371 /s", "2 k/s", "7 frames/s", "12:30:05 s"]
    ]
    fixed = [["0.050 ms", "400.100 ms", "3 ms"]]
    assert one_precision(fixed) == fixed
    hostile = [["1 " * 4_000, "2.5 " * 4_000 + "kB", "1" * 4_000 + " kB"]]
    assert one_precision(hostile)[0][0] == hostile[0][0]


@given(st.lists(st.floats(0, 1e15), min_size=1), st.sampled_from([format_octets, format_rate, format_time]))
def test_one_precision_keeps_values(values: list[float], show: Callable[[float], str]) -> None:
    texts = [show(value) for value in values]
    (even,) = one_precision([texts])
    assert [float(text.split()[0]) for text in even] == [float(text.split()[0]) for text in texts]
    assert [text.split()[1] for text in even] == [text.split()[1] for text in texts]
