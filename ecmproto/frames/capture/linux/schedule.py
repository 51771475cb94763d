"""Departure times of frames: at a rate, at the times of the capture, or as fast as possible."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from ecmproto.errors import ParameterError, shown
from ecmproto.frames.capture.batch import Batch, Int64
from ecmproto.units import NS_PER_S, WIRE_OVERHEAD_OCTETS, format_rate, frames_per_second, parse_rate

_PREFIX = {"k": 10**3, "K": 10**3, "M": 10**6}
_FURTHEST_NS = 1 << 62
_RATES = "frames a second such as 1000pps or 1.5Mpps, bits a second such as 1G, or max"


class Schedule(Protocol):
    """A schedule that assigns each frame a departure time, in ns after the first frame."""

    def due(self, batch: Batch) -> Int64:
        """Return the departure times of the frames in the next batch; the times never decrease."""


@dataclass(slots=True)
class AsFastAsPossible:
    """A schedule that sends all frames at once."""

    def __str__(self) -> str:
        return "as fast as possible"

    def due(self, batch: Batch) -> Int64:
        """Return 0 for every frame."""
        return np.zeros(len(batch), dtype=np.int64)


@dataclass(slots=True)
class FrameRate:
    """A schedule with a number of frames per second, at equal intervals."""

    frames_per_s: Fraction
    _frames: int = 0

    def __str__(self) -> str:
        return frames_per_second(float(self.frames_per_s))

    def due(self, batch: Batch) -> Int64:
        """Return n/rate for the n-th frame, exact and rounded down."""
        between = NS_PER_S / self.frames_per_s
        base, rest = divmod(self._frames * between.numerator, between.denominator)
        self._frames += len(batch)
        _check(base + int(len(batch) * between))
        steps = np.arange(len(batch), dtype=np.int64)
        return base + _quotients(steps, between.numerator, rest, between.denominator)


@dataclass(slots=True)
class BitRate:
    """A schedule with a bit rate on the line, for consecutive frames with FCS, preamble and gap."""

    rate_bps: int
    _octets: int = 0

    def __str__(self) -> str:
        return f"{format_rate(self.rate_bps)} on the line"

    def due(self, batch: Batch) -> Int64:
        """Return the end times of the previous frames on a wire with this rate, rounded down."""
        sizes = batch.captured + WIRE_OVERHEAD_OCTETS
        ends = np.cumsum(sizes)
        base, rest = divmod(8 * NS_PER_S * self._octets, self.rate_bps)
        total = int(ends[-1]) if len(ends) else 0
        self._octets += total
        _check(base + 8 * NS_PER_S * total // self.rate_bps)
        return base + _quotients(ends - sizes, 8 * NS_PER_S, rest, self.rate_bps)

    @property
    def end_ns(self) -> Fraction:
        """End time of the last frame on the wire."""
        return Fraction(8 * NS_PER_S * self._octets, self.rate_bps)


@dataclass(slots=True)
class CaptureTimes:
    """A schedule with the intervals of the capture, divided by ``speed``; times never go backwards."""

    speed: Fraction
    _first_ns: int | None = None
    _latest_ns: int = 0

    def __str__(self) -> str:
        return f"the capture's times × {float(self.speed):g}"

    def due(self, batch: Batch) -> Int64:
        """Return the elapsed time since the first frame of the capture, divided by the speed."""
        if not len(batch):
            return np.zeros(0, dtype=np.int64)
        if self._first_ns is None:
            self._first_ns = int(batch.time_ns[0])
        since = np.maximum.accumulate(batch.time_ns - self._first_ns)
        since = np.maximum(since, self._latest_ns)
        self._latest_ns = int(since[-1])
        numerator, denominator = self.speed.numerator, self.speed.denominator
        _check(self._latest_ns * denominator // numerator)
        return _quotients(since, denominator, 0, numerator)


def _quotients(values: Int64, factor: int, more: int, divisor: int) -> Int64:
    """Return ⌊(values·factor + more)/divisor⌋, exact; ``values`` must be sorted."""
    if len(values) and int(values[-1]) * factor + more < _FURTHEST_NS:
        quotients: Int64 = (values * factor + more) // divisor
        return quotients
    return np.array([(value * factor + more) // divisor for value in values.tolist()], dtype=np.int64)


def _check(last_ns: int) -> None:
    if last_ns > _FURTHEST_NS:
        raise ParameterError(name="rate", needed="frames that leave within a century", got="later ones")


def schedule_of(rate: str = "1x") -> Schedule:
    """Return the schedule of a rate: ``1000pps``, ``1.5Mpps``, ``1G``, ``max``, or ``2x`` for captured times.

    Raises ParameterError for an invalid rate.
    """
    if rate == "max":
        return AsFastAsPossible()
    if rate.endswith(("x", "×")):
        return CaptureTimes(_factor(rate))
    return rate_of(rate)


def rate_of(rate: str) -> FrameRate | BitRate:
    """Return the schedule of a rate in frames per second (``1000pps``) or bits per second (``1G``).

    Raises ParameterError for other rates.
    """
    return FrameRate(_frame_rate(rate)) if rate.endswith("pps") else BitRate(_bit_rate(rate))


def _bit_rate(text: str) -> int:
    try:
        bits = parse_rate(text)
    except ParameterError:
        bits = 0
    if not bits:
        raise ParameterError(name="rate", needed=_RATES, got=shown(text))
    return bits


def _frame_rate(text: str) -> Fraction:
    number = text.removesuffix("pps").strip()
    factor = _PREFIX.get(number[-1:], 1)
    value = _positive(number.rstrip("kKM") if factor > 1 else number)
    if value is None:
        raise ParameterError(name="rate", needed=_RATES, got=shown(text))
    return value * factor


def _factor(text: str) -> Fraction:
    value = _positive(text.removesuffix("x").removesuffix("×").strip())
    if value is None:
        raise ParameterError(name="speed", needed="a factor such as 1x, 0.5x or max", got=repr(text))
    return value


def _positive(text: str) -> Fraction | None:
    """Return the positive decimal number in ``text``, or ``None`` if there is no such number."""
    if not text or len(text) > 20 or not text.isascii() or not text.replace(".", "", 1).isdigit():
        return None
    value = Fraction(text) if text != "." else Fraction(0)
    return value or None
