"""Departures of frames at any rate, and the thresholds of PAUSE and PFC for a port's buffer."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from ecmproto.control.engine import port as engine_port
from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.port import fitting_thresholds, new_port
from ecmproto.control.mechanisms.pause.parameters import GenerationParameters


def test_thresholds_are_thirds_of_the_buffer() -> None:
    """S003's rule of thumb: XOFF at 2 RTT and XON at 1 RTT of a buffer of 3 RTT, whole octets."""
    assert fitting_thresholds(375_000) == ["cp.pause_on=output", "cp.high=250000B", "cp.low=125000B"]
    assert fitting_thresholds(10) == ["cp.pause_on=output", "cp.high=6B", "cp.low=3B"]


def test_thresholds_of_the_smallest_buffer_are_in_range() -> None:
    high, low = (text.removeprefix("cp.") for text in fitting_thresholds(1)[1:])
    chosen = GenerationParameters.parse([high, low])
    assert (chosen.high_octets, chosen.low_octets) == (1, 0)


@pytest.mark.parametrize("rate_bps", [1_000, 1_009, 99_999_989, 2_500_000_001, 9_999_999_999_971, 10**13])
def test_departures_are_exact_at_any_rate_and_length(rate_bps: int) -> None:
    serve = getattr(engine_port._serve, "py_func", engine_port._serve)
    line = new_port(PortConfig(rate_bps=rate_bps, buffer_octets=10**9)).line
    octets = 0
    for length in (1, 60, 61, 1_514, 9_018, 65_535, 1_000_003, 10**9 - 24, 60, 1_514, 61) * 3:
        octets += length + 24
        serve(line, 3, length, 0)
        assert line.departure_ns == math.ceil(Fraction(8 * 10**9 * octets, rate_bps))
