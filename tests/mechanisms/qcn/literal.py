"""A literal, slow transcription of algorithms §3, congestion point rules 1 to 3, with exact numbers.

The transcription contains no code from ecmproto.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction


class LiteralCongestionPoint:
    def __init__(
        self,
        draw: Callable[[], float],
        *,
        qeq: int = 26_000,
        w: Fraction = Fraction(2),
        minimum_sample_base: int = 150_000,
    ) -> None:
        self.draw = draw
        self.qeq = qeq
        self.w = w
        thousands = [150, 75, 50, 37.5, 30, 25, 21.5, 18.5]
        self.base = [Fraction(t) * 1000 * minimum_sample_base / 150_000 for t in thousands]
        # "The countdown starts at base[0] × U(0.85, 1.15) with Qlen_old 0"
        self.countdown: Fraction = self.base[0] * self.u()
        self.qlen_old = 0

    def u(self) -> Fraction:
        """U(0.85, 1.15)."""
        return Fraction(85, 100) + Fraction(30, 100) * Fraction(self.draw())

    def enqueue(self, length: int, qlen: int) -> tuple[int, int, Fraction, int] | None:
        # "An octet countdown decreases by each enqueued frame's length."
        self.countdown -= length
        # "When it goes negative:"
        if not self.countdown < 0:
            return None
        # "Qoff = Qlen − Qeq, Qdelta = Qlen − Qlen_old, Fb = −(Qoff + w·Qdelta)"
        qoff = qlen - self.qeq
        qdelta = qlen - self.qlen_old
        fb = -(qoff + self.w * qdelta)
        # "Qlen_old = Qlen at every sampling instant."
        self.qlen_old = qlen
        # "Fb ≥ 0: quantised value 0. Else QntzFb = min(63, ⌊−Fb·63 / (Qeq·(2w + 1))⌋)."
        qntz_fb = 0 if fb >= 0 else min(63, math.floor(-fb * 63 / (self.qeq * (2 * self.w + 1))))
        # "reloads (replacing what is left) with base[QntzFb div 8] × U(0.85, 1.15)"
        self.countdown = self.base[qntz_fb // 8] * self.u()
        return qoff, qdelta, fb, qntz_fb
