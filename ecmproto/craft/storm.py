"""Pause storms: PAUSE or PFC frames so often that what they stop never runs (wire-formats 8).

A pause of q quanta lasts q·512 bit times of the link, so that at least rate/(512·q) frames a second hold a
queue.  A storm sends the next frame after a share of that time; what is left is for frames that are late.
It is told as items of a specification: the frames that hold, and one with times of 0 that releases.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ecmproto.codec.frame import encode
from ecmproto.craft.builders import finish
from ecmproto.craft.quantities import time_text
from ecmproto.craft.recipe import MAX_TIME_NS
from ecmproto.craft.stack import Stack
from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.formats.base import Layer
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.formats.mac_control import PFC, Pause
from ecmproto.formats.text import text_of
from ecmproto.units import (
    NS_PER_S,
    QUANTUM_BITS,
    WIRE_OVERHEAD_OCTETS,
    format_rate,
    quanta_to_ns,
    serialisation_ns,
)

DEFAULT_SHARE = Fraction(1, 2)
"""A frame every half pause: one may be lost, or late by half a pause, and the queue stays held."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """How often a pause of ``quanta`` is renewed on a link of ``rate_bps``: after ``share`` of its time.

    ``octets`` is the length of a frame without FCS.  ParameterError for what cannot be: no quanta, a link
    without speed, a share outside 0 to 1, or more frames than the link has room for.
    """

    quanta: int
    rate_bps: int
    octets: int
    share: Fraction = DEFAULT_SHARE

    def __post_init__(self) -> None:
        """Check all of it; raises ParameterError."""
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
        least = math.ceil(taken_ns * self.rate_bps / (QUANTUM_BITS * NS_PER_S * self.share))
        if self.quanta < least:
            raise ParameterError(
                name="storm",
                needed=f"at least {least:,} quanta: a frame takes {taken_ns} ns of the link",
                got=f"{self.quanta:,}, renewed every {float(self.share * NS_PER_S / self.needed_fps):g} ns",
            )

    @property
    def _wire_bits(self) -> int:
        return 8 * (self.octets + WIRE_OVERHEAD_OCTETS)

    @property
    def pause_ns(self) -> int:
        """How long one frame pauses, rounded up."""
        return quanta_to_ns(self.quanta, self.rate_bps)

    @property
    def needed_fps(self) -> Fraction:
        """Fewest frames a second that hold: one at the end of every pause."""
        return Fraction(self.rate_bps, QUANTUM_BITS * self.quanta)

    @property
    def interval_ns(self) -> int:
        """The time between two frames: ``share`` of the pause, in whole ns."""
        return int(self.share * NS_PER_S / self.needed_fps)

    @property
    def frames_per_s(self) -> Fraction:
        """Frames a second of the storm."""
        return Fraction(NS_PER_S, self.interval_ns)

    @property
    def octets_per_s(self) -> Fraction:
        """Octets a second on the wire, with FCS, preamble and gap."""
        return self.frames_per_s * self._wire_bits / 8

    @property
    def link_share(self) -> Fraction:
        """The part of the link that the storm takes itself."""
        return self.frames_per_s * self._wire_bits / self.rate_bps


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """A frame that holds, one that releases, and how often the first has to be sent.

    ``hold`` and ``release`` are lines that make the frames; ``raw`` says that nothing is to be added.
    ``priorities`` are those held, None for the whole link.
    """

    renewal: Renewal
    hold: str
    release: str
    priorities: tuple[int, ...] | None
    raw: bool = False

    def frames(self, duration_ns: int) -> int:
        """Return how many frames hold for ``duration_ns``."""
        return -(-duration_ns // self.renewal.interval_ns)

    def check_duration(self, duration_ns: int, *, start_ns: int = 0) -> None:
        """Raise ParameterError for a duration that cannot be."""
        if not 0 < duration_ns <= MAX_TIME_NS - start_ns:
            needed = "a time of more than 0 that ends before 2^63 ns"
            raise ParameterError(name="duration", needed=needed, got=f"{duration_ns} ns")

    def items(self, duration_ns: int, *, start_ns: int = 0, release: bool = True) -> list[dict[str, Any]]:
        """Return the storm as items of a specification; ParameterError for a duration that cannot be."""
        self.check_duration(duration_ns, start_ns=start_ns)
        raw = {"raw": True} if self.raw else {}
        interval = time_text(self.renewal.interval_ns)
        holding = {"frame": self.hold, **raw, "count": self.frames(duration_ns), "interval": interval}
        if start_ns:
            holding["time"] = time_text(start_ns)
        if not release:
            return [holding]
        return [holding, {"frame": self.release, **raw, "time": time_text(start_ns + duration_ns)}]


def storm_of(
    stack: Stack,
    rate_bps: int,
    *,
    share: Fraction = DEFAULT_SHARE,
    ethertypes: EtherTypes = DEFAULT,
    raw: bool = False,
) -> Storm:
    """Return the storm of the PAUSE or PFC frame that a settled ``stack`` stands for.

    Of several priorities with different times the shortest decides.  SpecError for a frame that pauses
    nothing, ParameterError as `Renewal`.
    """
    frame = finish(stack, ethertypes=ethertypes, raw=raw).frame
    pause = next((value for value in frame.layers if isinstance(value, Pause | PFC)), None)
    if pause is None:
        raise SpecError(
            where="--storm",
            needed="a pause or pfc frame, such as pfc prio3=65535",
            got=shown(" ".join(part.cls.prefix for part in stack.parts)),
        )
    held = _held(pause)
    if not held:
        raise SpecError(
            where="--storm", needed="an enabled time of at least 1 quantum", got="a frame that pauses nothing"
        )
    quanta = min(getattr(pause, key) for key in held)
    renewal = Renewal(quanta=quanta, rate_bps=rate_bps, octets=len(encode(frame)), share=share)
    return Storm(
        renewal=renewal,
        hold=_line(stack, pause),
        release=_line(stack, pause.replace(**dict.fromkeys(held, 0))),
        priorities=tuple(held.values()) if isinstance(pause, PFC) else None,
        raw=raw,
    )


def share_of(text: str) -> Fraction:
    """Return the share that ``0.5`` or ``50%`` says; ParameterError when it is none between 0 and 1."""
    number = text.strip().removesuffix("%")
    if len(number) <= 20 and number.isascii() and number.replace(".", "", 1).isdigit():
        share = Fraction(number) / (100 if number != text.strip() else 1)
        if 0 < share < 1:
            return share
    raise ParameterError(
        name="renew", needed="a share of the pause between 0 and 1, such as 0.5 or 50%", got=shown(text)
    )


def _held(pause: Pause | PFC) -> Mapping[str, int]:
    """Return the keys of the times that stop something, with their priorities."""
    if isinstance(pause, Pause):
        return {"pause_time": 0} if pause.pause_time else {}
    return {f"time{p}": p for p, time in enumerate(pause.times) if time and pause.enabled(p)}


def _line(stack: Stack, pause: Layer) -> str:
    """Return the line of the frame, with every field of ``pause`` said: all eight times of a PFC frame."""
    words: list[str] = []
    for part in stack.parts:
        is_pause = part.cls is type(pause)
        words.append(part.cls.prefix)
        for field in part.cls.layout:
            if field.key in part.values or (is_pause and field.key != "opcode"):
                value = getattr(pause, field.key) if is_pause else part.values[field.key]
                words.append(f"{field.key}={text_of(field, value)}")
    return " ".join(words)
