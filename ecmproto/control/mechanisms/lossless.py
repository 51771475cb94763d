"""Calculations for lossless links: the duration and renewal of pauses, and the required headroom.

Pauses are measured in quanta, time or octets. A quantum is 512 bit times at the link rate (802.3 Annex 31B).
Values are exact: times and frames per second are fractions, which are rounded only in output.

Headroom is the free buffer that a receiver needs when the receiver decides to stop a priority (802.1Q-2022
Annex N, formerly 802.1Qbb Annex O). The headroom stores all frames that arrive until the other end has
stopped.
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
"""Mechanisms that stop links by thresholds."""
MAX_QUANTA = 0xFFFF
"""Maximum pause in a frame, in quanta."""
MAX_RATE_BPS = 10**15
PAUSE_OCTETS = 60
"""Length of a PAUSE or PFC frame without FCS."""
DEFAULT_SHARE = Fraction(1, 2)
"""Default share of a pause after which the pause is renewed.

With one half, the link stays stopped if one frame is lost, or late by half a pause.
"""
QUANTUM_OCTETS = QUANTUM_BITS // 8


def check_rate(rate_bps: int) -> int:
    """Return a link rate in bit/s. Raises ParameterError for an invalid rate."""
    if not 0 < rate_bps <= MAX_RATE_BPS:
        needed = f"a rate of more than 0 and at most {format_rate(MAX_RATE_BPS)}"
        raise ParameterError(name="rate", needed=needed, got=format_rate(rate_bps))
    return rate_bps


def parse_quanta(text: str, rate_bps: int, *, name: str = "amount") -> Fraction:
    """Return the number of quanta at ``rate_bps`` for a text such as ``65535``, ``83.88us`` or ``4.19MB``."""
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
    """Return the length in metres for a text such as ``100m``, ``2.5km`` or ``30cm``.

    Raises ParameterError for an invalid text.
    """
    match = _LENGTH.fullmatch(text.strip())
    metres = Fraction(match[1]) * _METRES[match[2]] if match else None
    if metres is None or metres > MAX_METRES:
        needed = f"a length such as 100m or 2km, up to {MAX_METRES // 1000:,} km"
        raise ParameterError(name="cable", needed=needed, got=shown(text))
    return metres


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The renewal of a pause of ``quanta`` on a link of ``rate_bps``, after ``share`` of the pause.

    ``octets`` is the length of a frame without FCS. Raises ParameterError for a pause of 0 quanta, a link
    rate of 0, a share outside 0 to 1, or more frames than the link can carry.
    """

    quanta: int
    rate_bps: int
    octets: int
    share: Fraction = DEFAULT_SHARE

    def __post_init__(self) -> None:
        """Raise ParameterError for an invalid field."""
        if self.rate_bps < 1:
            raise ParameterError(
                name="storm", needed="a link of more than 0 bit/s", got=format_rate(self.rate_bps)
            )
        if self.quanta < 1:
            raise ParameterError(name="storm", needed="a pause of at least 1 quantum", got=str(self.quanta))
        if not 0 < self.share < 1:
            needed = "a share of the pause between 0 and 1"
            raise ParameterError(name="renew", needed=needed, got=f"{float(self.share):g}")
        frame_ns = serialisation_ns(self.octets + WIRE_OVERHEAD_OCTETS, self.rate_bps)
        minimum = math.ceil(frame_ns * self.rate_bps / (QUANTUM_BITS * NS_PER_S * self.share))
        if self.quanta < minimum:
            raise ParameterError(
                name="storm",
                needed=f"at least {minimum:,} quanta: a frame takes {frame_ns} ns of the link",
                got=f"{self.quanta:,}, renewed every {float(self.share * NS_PER_S / self.needed_fps):g} ns",
            )

    @property
    def _wire_bits(self) -> int:
        return 8 * (self.octets + WIRE_OVERHEAD_OCTETS)

    @property
    def pause_ns(self) -> int:
        """Duration of the pause by one frame in ns, rounded up."""
        return quanta_to_ns(self.quanta, self.rate_bps)

    @property
    def needed_fps(self) -> Fraction:
        """Minimum number of frames per second to keep the link stopped, one at the end of each pause."""
        return Fraction(self.rate_bps, QUANTUM_BITS * self.quanta)

    @property
    def interval_ns(self) -> int:
        """Time between two frames in whole ns, which is ``share`` of the pause."""
        return int(self.share * NS_PER_S / self.needed_fps)

    @property
    def frames_per_s(self) -> Fraction:
        """Number of frames per second."""
        return Fraction(NS_PER_S, self.interval_ns)

    @property
    def octets_per_s(self) -> Fraction:
        """Number of octets per second on the line, including FCS, preamble and gap."""
        return self.frames_per_s * self._wire_bits / 8

    @property
    def link_share(self) -> Fraction:
        """Share of the link that the frames use."""
        return self.frames_per_s * self._wire_bits / self.rate_bps


def share_of(text: str) -> Fraction:
    """Parse a share such as ``0.5`` or ``50%``. Raises ParameterError unless the share is between 0 and 1."""
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
"""Maximum response time in quanta by link rate in bit/s.

The response time is from the arrival of a pause frame at the station's connector until the station starts no
frame.
"""

FIBRE_NS_PER_M = 5
DEFAULT_LARGEST_OCTETS = 9216
_PREAMBLE_GAP_OCTETS = 20
_MIN_OCTETS, _MAX_OCTETS = 64, 65_535
_ANNEX = "802.1Q-2022 Annex N"
_RESPONSE = "802.3 31B.3.7"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeadroomTerm:
    """A term of the headroom, with the number of bits, the reason and the source."""

    name: str
    bits: Fraction
    doc: str
    source: str

    @property
    def octets(self) -> Fraction:
        """Size of the term in octets."""
        return self.bits / 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The data that arrives after a receiver has decided to stop a priority, as a list of terms."""

    rate_bps: int
    terms: tuple[HeadroomTerm, ...]

    @property
    def bits(self) -> Fraction:
        """Sum of all terms in bits."""
        return sum((term.bits for term in self.terms), Fraction(0))

    @property
    def octets(self) -> int:
        """Buffer size for the headroom in octets, rounded up."""
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
    """Return the headroom of a priority on a link of ``metres``. Frame lengths include the FCS.

    ``response_quanta`` is the response time of the other end, by default the maximum of 802.3 for the rate.
    ``interface_quanta`` is the delay of this end's interface in both directions, by default the response
    time. Raises ParameterError for a rate without a maximum in 802.3, and for an impossible frame length.
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
    """Return XOFF and XON thresholds of an output queue with a given buffer, by the rule of thumb in S003.

    The rule sets XOFF to 2 RTT and XON to 1 RTT for a buffer of 3 RTT. The RTT in this function is the
    longest RTT without loss.
    """
    return max(1, 2 * buffer_octets // 3), buffer_octets // 3


def input_thresholds(capacity_octets: int, headroom_octets: int) -> tuple[int, int]:
    """Return XOFF and XON thresholds of an input with a buffer; XON is half of XOFF.

    XOFF is the capacity minus the headroom. If the headroom exceeds the capacity, each frame stops the input,
    and frames may be lost.
    """
    high_octets = max(1, capacity_octets - headroom_octets)
    return high_octets, high_octets // 2


def check_time(ns: Fraction, name: str) -> Fraction:
    """Return ``ns``. Raises ParameterError for a time above the range of captures and counters."""
    if ns >= 1 << 63:
        raise ParameterError(name=name, needed="less than 2^63 ns", got=format_time(float(ns)))
    return ns
