"""The thresholds of PAUSE and PFC that a port of so much buffer has."""

from __future__ import annotations

from ecmproto.engine.port import fitting_thresholds
from ecmproto.mechanisms.pause.parameters import GenerationParameters


def test_thresholds_are_two_thirds_and_one_third_of_the_buffer() -> None:
    """S003's rule of thumb: XOFF at 2 RTT and XON at 1 RTT of a buffer of 3 RTT, whole octets."""
    assert fitting_thresholds(375_000) == ["cp.pause_on=output", "cp.high=250000B", "cp.low=125000B"]
    assert fitting_thresholds(10) == ["cp.pause_on=output", "cp.high=6B", "cp.low=3B"]


def test_thresholds_of_the_smallest_buffer_are_in_range() -> None:
    high, low = (text.removeprefix("cp.") for text in fitting_thresholds(1)[1:])
    chosen = GenerationParameters.parse([high, low])
    assert (chosen.high_octets, chosen.low_octets) == (1, 0)
