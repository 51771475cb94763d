"""A literal, slow transcription of the specification of DCQCN, for comparison with the text.

Every timer is a separate event. The transcription contains no code from ecmproto.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

NEVER = 10**30
US = 1_000
MB = 1_000_000


@dataclass
class LiteralPoint:
    """The congestion point."""

    kmin: float
    kmax: float
    pmax: float
    draw: Callable[[], float]

    def enqueued(self, codepoint: int, queue: float) -> int:
        """Return the codepoint of a frame after the frame was enqueued with the queue length ``queue``."""
        # "Frames that are not ECT are never marked."
        if codepoint not in (1, 2):
            return codepoint
        # "no mark below Kmin"
        if queue <= self.kmin:
            return codepoint
        # "always above"
        if queue > self.kmax:
            return 3
        # "with probability Pmax·(q − Kmin)/(Kmax − Kmin) up to Kmax"
        probability = self.pmax * (queue - self.kmin) / (self.kmax - self.kmin)
        return 3 if self.draw() < probability else codepoint


@dataclass
class LiteralNotifier:
    """The notification point, with the scope of its interval."""

    interval: int = 50 * US
    sent: dict[object, int] = field(default_factory=dict)

    def came(self, of: object, codepoint: int, now: int) -> bool:
        """Return whether a frame causes a CNP."""
        # "A CE-marked frame of a queue pair for which no CNP was sent in the last N"
        if codepoint != 3:
            return False
        if of in self.sent and now - self.sent[of] < self.interval:
            return False
        self.sent[of] = now
        return True


@dataclass
class LiteralPaper:
    """The reaction point of the paper, for one queue pair."""

    line: float
    g: float = 1 / 256
    f: int = 5
    k: int = 55 * US
    t: int = 55 * US
    b: int = 10 * MB
    r_ai: float = 40e6
    r_hai: float = 400e6
    floor: float = 10e6

    def __post_init__(self) -> None:
        # "starts at line rate"; "α starts at 1"
        self.current = self.target = self.line
        self.alpha = 1.0
        self.time_stage = self.byte_stage = 0
        self.octets = 0
        # Nothing runs before the first CNP: "α decaying before the first CNP" is a trap.
        self.alpha_at = self.timer_at = NEVER

    def cnp(self, now: int) -> None:
        self.advance(now)
        # "on CNP: R_T ← R_C; R_C ← R_C·(1 − α/2); α ← (1 − g)·α + g; both counters and both stages 0"
        self.target = self.current
        self.current = max(self.floor, self.current * (1 - self.alpha / 2))
        self.alpha = (1 - self.g) * self.alpha + self.g
        self.time_stage = self.byte_stage = 0
        self.octets = 0
        self.timer_at = now + self.t
        # "Without CNP for K = 55 µs"
        self.alpha_at = now + self.k

    def sent(self, octets: int, now: int) -> None:
        self.advance(now)
        if self.timer_at == NEVER:
            return
        self.octets += octets
        if self.octets >= self.b:
            self.octets = 0
            self.byte_stage += 1
            self.increase()

    def advance(self, now: int) -> None:
        while min(self.alpha_at, self.timer_at) <= now:
            if self.alpha_at <= self.timer_at:
                # "α ← (1 − g)·α, again every K"
                self.alpha = (1 - self.g) * self.alpha
                self.alpha_at += self.k
            else:
                # "Timer T … advance[s] a stage"
                self.time_stage += 1
                self.timer_at += self.t
                self.increase()

    def increase(self) -> None:
        smaller, larger = sorted((self.time_stage, self.byte_stage))
        if larger < self.f:
            # "fast recovery R_C ← (R_T + R_C)/2"
            pass
        elif smaller > self.f:
            # "hyper increase: R_T += i·R_HAI with i = min − F + 1"
            self.target += (smaller - self.f + 1) * self.r_hai
        else:
            # "else additive: R_T += R_AI, then halve"
            self.target += self.r_ai
        # "both capped at line rate"
        self.target = min(self.target, self.line)
        self.current = min((self.target + self.current) / 2, self.line)


@dataclass
class LiteralNic:
    """The reaction point of network cards, for one queue pair."""

    line: float
    g: float = 1 / 256
    f: int = 1
    alpha_interval: int = 1 * US
    decrease_interval: int = 4 * US
    timer: int = 300 * US
    r_ai: float = 50e6
    r_hai: float = 100e6
    floor: float = 100e6
    clamp_target: bool = False
    rate_on_first_cnp: float = 1.0

    def __post_init__(self) -> None:
        self.current = self.target = self.line
        self.alpha = 1.0
        self.stage = 0
        self.for_alpha = self.for_decrease = False
        self.alpha_at = self.decrease_at = self.timer_at = NEVER
        self.is_first = True

    def cnp(self, now: int) -> None:
        self.advance(now)
        if self.is_first:
            # "The first CNP sets α = 1 and R to `rate_on_first_cnp`"
            self.is_first = False
            self.alpha = 1.0
            self.current = self.target = self.rate_on_first_cnp * self.line
            self.alpha_at, self.decrease_at = now + self.alpha_interval, now + self.decrease_interval
        else:
            self.for_alpha = True
        self.for_decrease = True

    def sent(self, octets: int, now: int) -> None:
        self.advance(now)

    def advance(self, now: int) -> None:
        while (at := min(self.alpha_at, self.timer_at, self.decrease_at)) <= now:
            if self.alpha_at == at:
                # "α ← (1 − g)·α + (g if a CNP came since)"
                self.alpha = (1 - self.g) * self.alpha + (self.g if self.for_alpha else 0)
                self.for_alpha = False
                self.alpha_at += self.alpha_interval
            elif self.timer_at == at:
                # "Timer …, its stage compared before it advances"
                if self.stage == self.f:
                    self.target += self.r_ai
                elif self.stage > self.f:
                    self.target += self.r_hai
                self.target = min(self.target, self.line)
                self.current = min((self.target + self.current) / 2, self.line)
                self.stage += 1
                self.timer_at += self.timer
            else:
                self.decrease_at += self.decrease_interval
                if not self.for_decrease:
                    continue
                self.for_decrease = False
                # "R_T ← R_C (with `clamp_target` off only when the timer stage is not 0)"
                if self.clamp_target or self.stage != 0:
                    self.target = self.current
                # "R_C ← max(R_min, R_C·(1 − α/2)), stage 0, timer restarts"
                self.current = max(self.floor, self.current * (1 - self.alpha / 2))
                self.stage = 0
                self.timer_at = at + self.timer
