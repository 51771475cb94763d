"""Arithmetic of lossless links: pauses in quanta, time and octets, their renewal, and the required headroom.

A quantum is 512 bit times at the link's own rate (802.3 Annex 31B). Everything is exact until it is written:
times and frames per second are fractions.

Headroom is the free capacity that a receiver needs when it decides to stop a priority (802.1Q-2022 Annex N,
which was 802.1Qbb's Annex O), for all frames until the other end has stopped.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from fractions import Fraction

from ecmproto.errors import ParameterError, shown
from ecmproto.units import (
    NS_PER_S,
    QUANTUM_BITS,
    WIRE_OVERHEAD_OCTETS,
    format_rate,
    format_time,
    parse_octets,
    parse_time,
    quanta_to_ns,
    serialisation_ns,
)

FLOW_CONTROLS = ("pause", "pfc")
"""The mechanisms that stop links by thresholds."""
MOST_QUANTA = 0xFFFF
"""The maximum pause in a frame."""
MAX_RATE_BPS = 10**15
PAUSE_OCTETS = 60
"""The length of a PAUSE or PFC frame without FCS."""
DEFAULT_SHARE = Fraction(1, 2)
"""A frame every half pause: one may be lost, or late by half a pause, without a gap in the stop."""
QUANTUM_OCTETS = QUANTUM_BITS // 8


def check_rate(rate_bps: int) -> int:
    """Return a link's rate; ParameterError for an invalid one."""
    if not 0 < rate_bps <= MAX_RATE_BPS:
        needed = f"a rate of more than 0 and at most {format_rate(MAX_RATE_BPS)}"
        raise ParameterError(name="rate", needed=needed, got=format_rate(rate_bps))
    return rate_bps


def parse_quanta(text: str, rate_bps: int, *, name: str = "amount") -> Fraction:
    """Return the quanta in ``text`` at a rate: ``65535``, ``83.88us`` or ``4.19MB`` on the wire."""
    given = text.strip()
    if _QUANTA.fullmatch(given):
        return Fraction(given)
    for parse, bits in ((parse_time, Fraction(rate_bps, NS_PER_S)), (parse_octets, Fraction(8))):
        try:
            return parse(given) * bits / QUANTUM_BITS
        except ParameterError:
            continue
    needed = "quanta such as 65535, a time such as 83us, or octets such as 4MB"
    raise ParameterError(name=name, needed=needed, got=shown(text))


_QUANTA = re.compile(r"[0-9]{1,15}")
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(km|m|cm)")
_METRES = {"km": Fraction(1000), "m": Fraction(1), "cm": Fraction(1, 100)}
MAX_METRES = 10**6


def parse_length(text: str) -> Fraction:
    """Return the metres in ``text``: ``100m``, ``2.5km``, ``30cm``; ParameterError otherwise."""
    match = _LENGTH.fullmatch(text.strip())
    metres = Fraction(match[1]) * _METRES[match[2]] if match else None
    if metres is None or metres > MAX_METRES:
        needed = f"a length such as 100m or 2km, up to {MAX_METRES // 1000:,} km"
        raise ParameterError(name="cable", needed=needed, got=shown(text))
    return metres


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The renewal of a ``quanta`` pause on a link of ``rate_bps``, after ``share`` of its duration.

    ``octets`` is the length of a frame without FCS. ParameterError for no quanta, a link without speed, a
    share outside 0 to 1, or more frames than the link has capacity for.
    """

    quanta: int
    rate_bps: int
    octets: int
    share: Fraction = DEFAULT_SHARE

    def __post_init__(self) -> None:
        """Check all fields; raises ParameterError."""
        if self.rate_bps < 1:
            raise ParameterError(
                name="storm", needed="a link of more than 0 bit/s", got=format_rate(self.rate_bps)
            )
        if self.quanta < 1:
            raise ParameterError(name="storm", needed="a pause of at least 1 quantum", got=str(self.quanta))
        if not 0 < self.share < 1:
            needed = "a share of the pause between 0 and 1"
            raise ParameterError(name="renew", needed=needed, got=f"{float(self.share):g}")
        taken_ns = serialisation_ns(self.octets + WIRE_OVERHEAD_OCTETS, self.rate_bps)
        minimum = math.ceil(taken_ns * self.rate_bps / (QUANTUM_BITS * NS_PER_S * self.share))
        if self.quanta < minimum:
            raise ParameterError(
                name="storm",
                needed=f"at least {minimum:,} quanta: a frame takes {taken_ns} ns of the link",
                got=f"{self.quanta:,}, renewed every {float(self.share * NS_PER_S / self.needed_fps):g} ns",
            )

    @property
    def _wire_bits(self) -> int:
        return 8 * (self.octets + WIRE_OVERHEAD_OCTETS)

    @property
    def pause_ns(self) -> int:
        """The pause by one frame, rounded up."""
        return quanta_to_ns(self.quanta, self.rate_bps)

    @property
    def needed_fps(self) -> Fraction:
        """The minimum frames per second to keep the link stopped: one at the end of every pause."""
        return Fraction(self.rate_bps, QUANTUM_BITS * self.quanta)

    @property
    def interval_ns(self) -> int:
        """The time between two frames: ``share`` of the pause, in whole ns."""
        return int(self.share * NS_PER_S / self.needed_fps)

    @property
    def frames_per_s(self) -> Fraction:
        """The frames per second of the storm."""
        return Fraction(NS_PER_S, self.interval_ns)

    @property
    def octets_per_s(self) -> Fraction:
        """The octets per second on the line, with FCS, preamble and gap."""
        return self.frames_per_s * self._wire_bits / 8

    @property
    def link_share(self) -> Fraction:
        """The share of the link used by the storm."""
        return self.frames_per_s * self._wire_bits / self.rate_bps


def share_of(text: str) -> Fraction:
    """Parse a share such as ``0.5`` or ``50%``; ParameterError unless it is between 0 and 1."""
    number = text.strip().removesuffix("%")
    if len(number) <= 20 and number.isascii() and number.replace(".", "", 1).isdigit():
        share = Fraction(number) / (100 if number != text.strip() else 1)
        if 0 < share < 1:
            return share
    raise ParameterError(
        name="renew", needed="a share of the pause between 0 and 1, such as 0.5 or 50%", got=shown(text)
    )


RESPONSE_QUANTA: Mapping[int, int] = {
    10**8: 1, 10**9: 2, 10 * 10**9: 60, 25 * 10**9: 80, 40 * 10**9: 118, 50 * 10**9: 147, 100 * 10**9: 394,
    200 * 10**9: 453, 400 * 10**9: 905,
}  # fmt: skip
"""The maximum quanta from a pause frame at a station's connector until it starts no frame, by rate."""

FIBRE_NS_PER_M = 5
DEFAULT_LARGEST_OCTETS = 9216
_PREAMBLE_GAP_OCTETS = 20
_MIN_OCTETS, _MAX_OCTETS = 64, 65_535
_ANNEX = "802.1Q-2022 Annex N"
_RESPONSE = "802.3 31B.3.7"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomTerm:
    """A term of the headroom: the bits that arrive meanwhile, the reason, and the source."""

    name: str
    bits: Fraction
    doc: str
    source: str

    @property
    def octets(self) -> Fraction:
        """The term in octets."""
        return self.bits / 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The data that arrives after a receiver has decided to stop a priority, term by term."""

    rate_bps: int
    terms: tuple[HeadroomTerm, ...]

    @property
    def bits(self) -> Fraction:
        """The sum of all terms."""
        return sum((term.bits for term in self.terms), Fraction(0))

    @property
    def octets(self) -> int:
        """The whole octets of buffer for the headroom."""
        return math.ceil(self.bits / 8)


def headroom(
    rate_bps: int,
    metres: Fraction,
    *,
    largest_octets: int = DEFAULT_LARGEST_OCTETS,
    largest_lossless_octets: int | None = None,
    response_quanta: Fraction | None = None,
    interface_quanta: Fraction | None = None,
) -> Headroom:
    """Return the headroom of a priority on a link of ``metres``; lengths of frames include the FCS.

    The response of the other end is by default 802.3's bound for the rate, and the delay of this end's own
    interface, out and in, is by default as long. ParameterError for a rate without such a bound, and for
    frames of impossible length.
    """
    check_rate(rate_bps)
    lossless = largest_octets if largest_lossless_octets is None else largest_lossless_octets
    for name, octets in (("largest", largest_octets), ("largest-lossless", lossless)):
        if not _MIN_OCTETS <= octets <= _MAX_OCTETS:
            needed = f"a frame of {_MIN_OCTETS} to {_MAX_OCTETS:,} octets with its FCS"
            raise ParameterError(name=name, needed=needed, got=f"{octets:,}")
    source = "given"
    if response_quanta is None:
        if rate_bps not in RESPONSE_QUANTA:
            known = ", ".join(format_rate(each).replace(" ", "") for each in RESPONSE_QUANTA)
            needed = f"a rate that {_RESPONSE} bounds ({known}), or --response"
            raise ParameterError(name="rate", needed=needed, got=format_rate(rate_bps))
        response_quanta, source = Fraction(RESPONSE_QUANTA[rate_bps]), _RESPONSE
    interface_source = "given"
    if interface_quanta is None:
        interface_quanta, interface_source = response_quanta, "taken as the other end's"
    cable_bits = metres * FIBRE_NS_PER_M * rate_bps / NS_PER_S
    length = f"{float(metres):g} m at {FIBRE_NS_PER_M} ns/m"

    def frame(octets: int) -> Fraction:
        return Fraction(8 * (octets + _PREAMBLE_GAP_OCTETS))

    def term(name: str, bits: Fraction, doc: str, source: str = _ANNEX) -> HeadroomTerm:
        return HeadroomTerm(name=name, bits=bits, doc=doc, source=source)

    return Headroom(
        rate_bps=rate_bps,
        terms=(
            term(
                "frame in the way", frame(largest_octets),
                f"of any priority, {largest_octets:,} octets, on its way out before the pause",
            ),
            term("pause frame", frame(PAUSE_OCTETS + 4), "64 octets, preamble and gap"),
            term("own interface", interface_quanta * QUANTUM_BITS, "out and in again", interface_source),
            term("cable, there", cable_bits, length),
            term(
                "response", response_quanta * QUANTUM_BITS,
                f"of the other end, connector to connector: {float(response_quanta):g} quanta", source,
            ),
            term(
                "frame just begun", frame(lossless),
                f"of the paused priority, {lossless:,} octets, at the other end",
            ),
            term("cable, back", cable_bits, length),
        ),
    )  # fmt: skip


def output_thresholds(buffer_octets: int) -> tuple[int, int]:
    """Return XOFF and XON thresholds of an output queue with a buffer, by S003's rule of thumb.

    The rule: XOFF at 2 RTT, XON at 1 RTT, a buffer of 3 RTT. Here the buffer is given, and the RTT follows:
    the longest without loss.
    """
    return max(1, 2 * buffer_octets // 3), buffer_octets // 3


def input_thresholds(capacity_octets: int, headroom_octets: int) -> tuple[int, int]:
    """Return XOFF and XON thresholds of an input with its own capacity: XON at half of XOFF.

    An excess over the capacity minus the headroom may be lost; without any, each frame stops the input.
    """
    high_octets = max(1, capacity_octets - headroom_octets)
    return high_octets, high_octets // 2


def check_time(ns: Fraction, name: str) -> Fraction:
    """Return a time that can be written; ParameterError beyond the range of captures and counters."""
    if ns >= 1 << 63:
        raise ParameterError(name=name, needed="less than 2^63 ns", got=format_time(float(ns)))
    return ns
