"""Configuration of a port and of the surrounding stations: rates, buffers, delays, and their text forms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ecmproto.errors import ParameterError, counted, shown
from ecmproto.units import (
    WIRE_OVERHEAD_OCTETS,
    exact_rate,
    exact_time,
    format_octets,
    parse_octets,
    parse_rate,
    parse_time,
)

_RATES_BPS = (1_000, 10**13)
LARGEST_BUFFER_OCTETS = 10**9
"""Maximum buffer size, which keeps octets · 8·10⁹ within 63 bits at any rate."""
FRAME_OCTETS = 1518
"""Octets per frame, for a buffer given in frames: a full-size frame with a VLAN tag."""
_MAX_FRAMES = LARGEST_BUFFER_OCTETS // FRAME_OCTETS
_FRAMES = re.compile(r"([0-9]{1,12})\s*frames?")
_LARGEST_OVERHEAD_OCTETS = 1_000
_LARGEST_DELAY_NS = 10**12
_LARGEST_CHANGE_NS = 10**17
"""Maximum time of a rate change: three years, in ns."""
_MAX_HOPS = 255


class Buffer(NamedTuple):
    """Buffer shared by a port's queues, in octets; ``octets`` is 0 for a buffer in frames."""

    octets: int
    frames: int


def parse_buffer(text: str) -> Buffer:
    """Return the buffer for a text such as ``500kB`` or ``100frames``.

    Raises ParameterError for other text.
    """
    match = _FRAMES.fullmatch(text.strip())
    if match is None:
        return Buffer(parse_octets(text), 0)
    frames = int(match[1])
    if not 1 <= frames <= _MAX_FRAMES:
        raise ParameterError(name="buffer", needed=f"1 to {_MAX_FRAMES} frames", got=text)
    return Buffer(frames * FRAME_OCTETS, frames)


def buffer_text(buffer: Buffer) -> str:
    """Return ``buffer`` as text."""
    return counted(buffer.frames, "frame") if buffer.frames else format_octets(buffer.octets)


@dataclass(frozen=True, slots=True)
class RateChange:
    """Change of the port's rate to ``rate_bps``, at ``time_ns`` after the first frame."""

    time_ns: int
    rate_bps: int


class PortRate(NamedTuple):
    """Rate of a port: ``rate_bps`` from the first frame on, and later changes in time order."""

    rate_bps: int
    changes: tuple[RateChange, ...]


def parse_port_rate(text: str) -> PortRate:
    """Return the rate for a text such as ``10G`` or ``10G,1G@10ms,10G@50ms``.

    Raises ParameterError for other text.
    """
    first, *later = text.split(",")
    changes = []
    for part in later:
        rate, at, time = part.partition("@")
        if not at:
            raise ParameterError(
                name="rate", needed="a rate, then rates with times, as in 10G,1G@10ms", got=shown(part)
            )
        changes.append(RateChange(parse_time(time), parse_rate(rate)))
    check_changes(changes)
    return PortRate(parse_rate(first), tuple(changes))


def port_rate_text(rate: PortRate) -> str:
    """Return ``rate`` as text."""
    later = [f"{exact_rate(each.rate_bps)} from {exact_time(each.time_ns)}" for each in rate.changes]
    return ", ".join([exact_rate(rate.rate_bps), *later])


CP_MAC = "02:00:00:00:cc:01"
"""Default source address of a port's messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortConfig:
    """Configuration of a port: rate, shared buffer, and overhead of a frame on the line.

    The buffer size is ``buffer_frames`` if not 0, otherwise ``buffer_octets``. For a buffer in frames,
    ``buffer_octets`` is the equivalent size for the thresholds of PAUSE. ``rate_changes`` are in time order,
    each after time 0. ``cp_mac`` is the source address of the port's messages.

    Raises ParameterError for an address that is not an individual address, and for a number out of range.
    """

    rate_bps: int
    buffer_octets: int
    buffer_frames: int = 0
    overhead_octets: int = WIRE_OVERHEAD_OCTETS
    cp_mac: bytes = bytes.fromhex(CP_MAC.replace(":", ""))
    rate_changes: tuple[RateChange, ...] = ()

    def __post_init__(self) -> None:
        """Check the ranges of all values, and the address."""
        _check("rate", self.rate_bps, *_RATES_BPS, "bit/s")
        check_changes(self.rate_changes)
        _check("buffer", self.buffer_octets, 1, LARGEST_BUFFER_OCTETS, "octets")
        _check("buffer", self.buffer_frames, 0, _MAX_FRAMES, "frames")
        _check("overhead", self.overhead_octets, 0, _LARGEST_OVERHEAD_OCTETS, "octets")
        if len(self.cp_mac) != 6 or self.cp_mac[0] & 1:
            raise ParameterError(
                name="cp_mac", needed="an individual address of 6 octets", got=self.cp_mac.hex(":")
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """Configuration of the stations in a closed loop: links, queues, and message delays.

    ``pause`` and ``pfc_priorities`` are the flow control that stations obey in addition to any mechanism.
    Raises ParameterError for a number out of range.
    """

    link_rate_bps: int
    feedback_delay_ns: int = 10_000
    """Delay in ns of a message from the port, or from a destination, to a station."""
    propagation_ns: int = 0
    """Delay in ns from a station to the port, without the transmission time of the frame."""
    queue_octets: int = 1_000_000
    """Size of each queue of a station, in octets; a frame that does not fit is lost."""
    captured_feedback: bool = False
    """Whether stations obey the feedback in the capture; the port then sends no feedback."""
    hops: int = 1
    """Number of congestion points on a flow's path, including this port."""
    pause: bool = True
    pfc_priorities: frozenset[int] = frozenset(range(8))

    def __post_init__(self) -> None:
        """Check the ranges of all values."""
        _check("link_rate", self.link_rate_bps, *_RATES_BPS, "bit/s")
        _check("feedback_delay", self.feedback_delay_ns, 0, _LARGEST_DELAY_NS, "ns")
        _check("propagation", self.propagation_ns, 0, _LARGEST_DELAY_NS, "ns")
        _check("hops", self.hops, 1, _MAX_HOPS, "congestion points")
        _check("rp_queue", self.queue_octets, 1, LARGEST_BUFFER_OCTETS, "octets")


def check_changes(changes: Sequence[RateChange]) -> None:
    """Raise ParameterError for a rate out of range, or for a time that does not increase."""
    before_ns = 0
    for change in changes:
        _check("rate", change.rate_bps, *_RATES_BPS, "bit/s")
        _check("rate", change.time_ns, 1, _LARGEST_CHANGE_NS, "ns after the first frame")
        if change.time_ns <= before_ns:
            raise ParameterError(
                name="rate",
                needed="each change later than the previous one",
                got=f"{exact_time(change.time_ns)} after {exact_time(before_ns)}",
            )
        before_ns = change.time_ns


def check_seed(seed: int) -> None:
    """Raise ParameterError for a negative seed."""
    if seed < 0:
        raise ParameterError(name="seed", needed="a whole number from 0 on", got=str(seed))


def _check(name: str, value: int, minimum: int, maximum: int, unit: str) -> None:
    if not minimum <= value <= maximum:
        raise ParameterError(name=name, needed=f"{minimum} to {maximum} {unit}", got=str(value))
