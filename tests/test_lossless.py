"""Calculations for lossless links: headroom, quanta of times and octets, and invalid values."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ecmproto.control.mechanisms.lossless import RESPONSE_QUANTA, headroom, parse_length, parse_quanta
from ecmproto.errors import ParameterError

G = 10**9


def test_headroom_is_sum_of_seven_terms_by_hand() -> None:
    # 10 Gb/s, 100 m: 8·(9216 + 20) twice, 8·84, 60·512 twice, 500 ns · 10 bit/ns twice
    room = headroom(10 * G, Fraction(100))
    assert [int(term.bits) for term in room.terms] == [73_888, 672, 30_720, 5_000, 30_720, 73_888, 5_000]
    assert room.bits == 219_888
    assert room.octets == 27_486


def test_headroom_uses_the_given_terms() -> None:
    room = headroom(
        33 * G, Fraction(1, 100), largest_octets=1518, largest_lossless_octets=2300,
        response_quanta=Fraction(10), interface_quanta=Fraction(1, 2),
    )  # fmt: skip
    cable = Fraction(33 * 5, 100)  # 0.05 ns
    assert [term.bits for term in room.terms] == [
        8 * 1538, 672, 256, cable, 5120, 8 * 2320, cable,
    ]  # fmt: skip
    assert room.octets == 4615, "36,915.3 bits are 4614.4 octets"


def test_response_at_40_gbps_is_60416_bit_times() -> None:
    assert RESPONSE_QUANTA[40 * G] * 512 == 60_416
    assert RESPONSE_QUANTA[400 * G] * 512 == 463_360


@pytest.mark.parametrize(
    ("text", "quanta"),
    [
        ("65535", 65535),
        ("51.2us", None),
        ("512ns", 10),
        ("1us", Fraction(10_000, 512)),
        ("64B", 1),
        ("33kB", Fraction(33_000, 64)),
    ],
)
def test_quanta_are_numbers_times_or_octets(text: str, quanta: Fraction | int | None) -> None:
    # 10 Gb/s: a quantum is 51.2 ns
    assert parse_quanta(text, 10 * G) == (1000 if quanta is None else quanta)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "10 quanta", "٣", "1e9", "9" * 40, "nan", "0x10"])
def test_invalid_quanta_are_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="amount: expected quanta such as 65535, a time"):
        parse_quanta(text, G)


@pytest.mark.parametrize("text", ["", "100", "-1m", "1e3m", "2000km", "1mm", "9" * 30 + "m"])
def test_invalid_cable_length_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="cable: expected a length such as 100m or 2km"):
        parse_length(text)


def test_lengths_have_units() -> None:
    assert [parse_length(text) for text in ("100m", "2.5km", "30 cm")] == [100, 2500, Fraction(3, 10)]


@pytest.mark.parametrize(
    ("rate_bps", "largest", "sentence"),
    [
        (33 * G, 9216, "rate: expected a rate that 802.3 31B.3.7 bounds"),
        (0, 9216, "rate: expected a rate of more than 0"),
        (10**16, 9216, "rate: expected a rate of more than 0"),
        (10 * G, 63, "largest: expected a frame of 64 to 65,535 octets with its FCS, got 63"),
        (10 * G, 10**6, "largest: expected a frame of 64 to 65,535 octets"),
    ],
)
def test_impossible_links_are_refused(rate_bps: int, largest: int, sentence: str) -> None:
    with pytest.raises(ParameterError, match=sentence):
        headroom(rate_bps, Fraction(1), largest_octets=largest)
