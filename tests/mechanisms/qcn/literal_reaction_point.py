"""A literal, slow transcription of algorithms §3, reaction point rules 1 to 3, with exact numbers.

The transcription contains no code from ecmproto. A frame leaves a limiter when the caller requests it.
``debt`` shows whether the frame may leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

SHARED = "shared"


@dataclass
class Limiter:
    rate: Fraction
    target: Fraction
    byte_stage: int = 0
    time_stage: int = 0
    byte_counter: Fraction = Fraction(0)
    timer: int = 0
    debt: Fraction = Fraction(0)
    drained: int = 0
    queue: int = 0
    members: set[int] = field(default_factory=set)


class LiteralReactionPoint:
    def __init__(
        self,
        draw: Callable[[], float],
        link_rate: int,
        known_flows: int,
        *,
        variant: str = "pseudocode",
        max_rps: int = 100,
        threshold: int = 5,
    ) -> None:
        self.draw = draw
        self.maximum = Fraction(link_rate)
        self.known_flows = known_flows
        self.standard = variant == "standard"
        self.max_rps = max_rps
        self.th = threshold
        self.limiters: dict[int | str, Limiter] = {}

    def u(self) -> Fraction:
        """U(0.85, 1.15); "no jitter" in the standard."""
        number = Fraction(85, 100) + Fraction(30, 100) * Fraction(self.draw())
        return Fraction(1) if self.standard else number

    def limiter(self, flow: int) -> Limiter | None:
        for limiter in self.limiters.values():
            if flow in limiter.members:
                return limiter
        return None

    def set_rate(self, limiter: Limiter, now: int, rate: Fraction) -> None:
        # "debt drains at the current rate, also when that changes; idleness earns no credit"
        limiter.debt = max(Fraction(0), limiter.debt - limiter.rate * (now - limiter.drained) / 10**9)
        limiter.drained = now
        limiter.rate = rate

    def cnm(self, flow: int, qntz_fb: int, now: int) -> None:
        self.advance(now)
        # "an id this station never sent is counted and changes nothing"; "CNM with QntzFb > 0"
        if not 0 <= flow < self.known_flows or qntz_fb == 0:
            return
        limiter = self.limiter(flow)
        created = limiter is None
        if limiter is None:
            # "past max_rps … ids share one limiter"
            own = [key for key in self.limiters if key != SHARED]
            key: int | str = flow if len(own) < self.max_rps else SHARED
            created = key not in self.limiters
            limiter = self.limiters.setdefault(key, Limiter(rate=self.maximum, target=self.maximum))
            limiter.members.add(flow)
            if created:
                limiter.drained = now
        # "if the limiter was just created or its byte stage ≠ 0, target = current rate and the byte counter
        # reloads"
        if created or limiter.byte_stage != 0:
            limiter.target = limiter.rate
            limiter.byte_counter = 150_000 * self.u()
        # "Both stages go to 0, the timer restarts."
        limiter.byte_stage = limiter.time_stage = 0
        limiter.timer = now + math.ceil(15_000_000 * self.u())
        # "Rate = max(min rate, rate·max(1/2, 1 − Gd·QntzFb))"
        rate = limiter.rate * max(Fraction(1, 2), 1 - Fraction(1, 128) * qntz_fb)
        self.set_rate(limiter, now, max(Fraction(10_000_000), rate))

    def joined(self, flow: int) -> bool:
        limiter = self.limiter(flow)
        if limiter is not None:
            limiter.queue += 1
        return limiter is not None

    def sent(self, flow: int, octets: int, now: int) -> None:
        self.advance(now)
        limiter = self.limiter(flow)
        assert limiter is not None
        self.set_rate(limiter, now, limiter.rate)
        limiter.debt += 8 * octets
        limiter.queue -= 1
        limiter.byte_counter -= octets
        if limiter.byte_counter <= 0:
            limiter.byte_stage += 1
            limiter.byte_counter = 150_000 * self.u() / self.divisor(limiter, limiter.byte_stage)
            self.increase(limiter, now)
        self.check_release()

    def advance(self, now: int) -> None:
        while self.limiters:
            limiter = min(self.limiters.values(), key=lambda limiter: limiter.timer)
            if limiter.timer > now:
                return
            at = limiter.timer
            limiter.time_stage += 1
            limiter.timer = at + math.ceil(15_000_000 * self.u() / self.divisor(limiter, limiter.time_stage))
            self.increase(limiter, at)
            self.check_release()

    def divisor(self, limiter: Limiter, stage: int) -> int:
        # "halved once that stage is past the threshold"; the standard: "halving only in hyper"
        hyper = self.past(limiter.byte_stage) and self.past(limiter.time_stage)
        return 2 if (hyper if self.standard else self.past(stage)) else 1

    def past(self, stage: int) -> bool:
        # "threshold reached counts as past it" in the standard
        return stage >= self.th if self.standard else stage > self.th

    def increase(self, limiter: Limiter, now: int) -> None:
        byte_stage, time_stage = limiter.byte_stage, limiter.time_stage
        target = limiter.target
        if self.past(byte_stage) and self.past(time_stage):
            # "both past: target + i·R_HAI, i = min(stages) − threshold"; the standard: "i + 1"
            i = min(byte_stage, time_stage) - self.th
            target += (i + 1 if self.standard else i) * 50_000_000
        elif self.past(byte_stage) or self.past(time_stage):
            # "one past: target + R_AI"
            target += 5_000_000
        # else "fast recovery (target unchanged)"
        # "If either stage is 1 and target > 10·rate: target /= 8 instead."
        if (byte_stage == 1 or time_stage == 1) and limiter.target > 10 * limiter.rate:
            target = limiter.target / 8
        # "Target is clamped to the maximum; rate = (rate + target)/2"
        limiter.target = min(target, self.maximum)
        rate = (limiter.rate + limiter.target) / 2
        # "within 10⁻⁶ of the maximum counts as maximum"
        self.set_rate(limiter, now, self.maximum if rate >= self.maximum * (1 - Fraction(1, 10**6)) else rate)

    def check_release(self) -> None:
        # "Release at the maximum rate with an empty queue."
        for key, limiter in list(self.limiters.items()):
            if limiter.rate >= self.maximum and limiter.queue == 0:
                del self.limiters[key]
