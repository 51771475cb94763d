"""A literal, slow transcription of S004 IV with the interpretation of algorithms §2, without code from
ecmproto.

Queues are counted in octets, and e in units of 64 octets. S004 has no pseudo-code. Where S004 is silent, the
lines follow ECM, as §2 requires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

NORMAL, STOP = "normal", "STOP"


@dataclass(kw_only=True)
class LiteralCongestionPoint:
    urand: Callable[[], float]
    cpid: int
    fixed: int
    random: int
    q_eq: int
    q_sc: float
    w: Fraction
    q_scale: Fraction

    def __post_init__(self) -> None:
        self.accumulated = 0
        self.q_old = 0
        self.interval = self.fixed + self.random * (2 * self.urand() - 1)

    def arrival(self, length: int, q: int, rrt_cpid: int | None) -> tuple[str, int] | None:
        self.accumulated += length
        if self.accumulated < self.interval:
            return None
        self.accumulated = 0
        self.interval = self.fixed + self.random * (2 * self.urand() - 1)
        # "e = (Qeq − Qlen) − w·ΔQ, clamped as above"
        offset = max(-self.q_eq, min(self.q_eq, self.q_eq - q))
        delta = max(-2 * self.q_eq, min(2 * self.q_eq, q - self.q_old))
        self.q_old = q
        e = int((offset - self.w * delta) * self.q_scale / 64)
        normal = (NORMAL, e) if e != 0 else None  # "e = 0 is not sent"
        if rrt_cpid is None:
            if q <= self.q_eq:
                return None
            return normal if q <= self.q_sc else (STOP, 0)
        if q <= self.q_eq:
            return normal if rrt_cpid == self.cpid else None
        return normal if q <= self.q_sc else (STOP, 0)


@dataclass(kw_only=True)
class LiteralRegulator:
    """One flow's rate regulator."""

    urand: Callable[[], float]
    link: float
    gi: float
    gd: float
    ru: float
    scaling: bool
    floor: float = 1e6
    rate: float | None = None
    cpid: int = 0
    tmax: int = 10_000
    expires: int | None = None
    restart: float = 0.0

    def message(self, now: int, stop: bool, cpid: int, e: int, c: float) -> None:
        if self.expires is not None and now < self.expires:
            return
        if stop:
            self.rate, self.cpid = 0.0, cpid
            self.expires = now + int(self.tmax * self.urand())
            self.restart = c / 100
        elif e < 0:
            self.rate = self.link / 2 if self.rate is None else self.rate * (1 - min(1, self.gd * -e))
            self.rate = max(self.rate, self.floor)
            self.cpid = cpid
        elif e > 0 and self.rate is not None and self.cpid == cpid:
            ru = self.ru * c / 10e9 if self.scaling else self.ru
            self.rate = min(self.rate + min(self.gi * e * ru, self.link), self.link)
            self.tmax = 10_000

    def advance(self, now: int) -> None:
        if self.expires is not None and now >= self.expires:
            self.expires = None
            self.rate = min(max(self.restart, self.floor), self.link)
            self.tmax = min(2 * self.tmax, 10**9)
