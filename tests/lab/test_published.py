"""Published numbers, compared with measured values."""

from __future__ import annotations

import math

import pytest

from ecmproto.control.lab.results.published import are_met, published_ratios
from ecmproto.control.lab.setup.figures import NUMBER, OCTETS, RATE, TIME, Dimension


@pytest.mark.parametrize(
    ("text", "dimension", "values", "ratios"),
    [
        ("4.5 ms", TIME, [9e6], (2.0,)),
        ("3 PAUSE events", NUMBER, [6], (2.0,)),
        ("50,008", NUMBER, [25_004], (0.5,)),
        ("2.5 Gb/s each", RATE, [2.5e9, 5e9], (1.0, 2.0)),
        ("4.34, 0.51 Gb/s", RATE, [4.34e9, 1.02e9], (1.0, 2.0)),
        ("99 %", NUMBER, [0.99], (1.0,)),
        ("95+ %", NUMBER, [0.99], (1.0,)),
        ("95+ %", NUMBER, [0.475], (0.5,)),
        ("less than 10 ms", TIME, [2e6], (1.0,)),
        ("less than 10 ms", TIME, [20e6], (2.0,)),
        ("more than 2", NUMBER, [7], (1.0,)),
        ("around 8 to 10 ms", TIME, [9e6], ()),
        ("127.63 µs (none: 1780.78)", TIME, [127_630.0], (1.0,)),
        ("0", NUMBER, [0], (1.0,)),
        ("0", NUMBER, [1], (math.inf,)),
        ("around Qeq (24 kB)", OCTETS, [24e3], ()),
        ("perfect fairness among 9 flows", NUMBER, [1], ()),
        ("1, 2", NUMBER, [1, 2, 3], ()),
        ("5 ms", NUMBER, [5], ()),
    ],
)
def test_a_published_text_gives_ratios(
    text: str, dimension: Dimension, values: list[float], ratios: tuple[float, ...]
) -> None:
    assert published_ratios(text, dimension, values) == pytest.approx(ratios)


def test_a_tenth_is_the_limit() -> None:
    assert are_met([1, 1.1, 0.9])
    assert not are_met([1, 1.11])
    assert not are_met([math.inf])
