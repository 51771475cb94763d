"""A literal, slow transcription of S003's switch and source, with the interpretations of algorithms §5.

The transcription contains no code from ecmproto.
"""

from __future__ import annotations

import math
from fractions import Fraction


def f(q: float, qeq: float, linear: bool) -> float:
    """S003's queue control function, a = 1.1, b = 1.002, c = 0.1, k = 0.1."""
    a, b, c, k = 1.1, 1.002, 0.1, 0.1
    if linear:
        return max(c, 1 - k * (q - qeq) / qeq)
    if q <= qeq:
        return b * qeq / ((b - 1) * q + qeq)
    return max(c, a * qeq / ((a - 1) * q + qeq))


class LiteralSwitch:
    def __init__(self, c: float, n0: int, *, linear: bool = False, alpha: float = 0.5) -> None:
        self.c_i = self.c_i1 = c
        self.linear = linear
        self.alpha = alpha
        # "0. Start with an Advertised Rate of r. r0 = C/N0"
        r0 = max(1e5, c / n0)
        # r holds every rate that was ever advertised
        self.r = [r0, r0]
        self.delta_r = min(c, max(1e6, r0))

    def interval(self, octets: int, q: int) -> None:
        """Do what is done every T = 1 ms."""
        c = self.c_i
        # Enhancement 4, at the tick: "IF (c_i < c_{i-1}) THEN r_i = (c_i/c_{i-1}) r_i …"
        if c < self.c_i1:
            # "r in [0.1 Mb/s, C], ΔR in [1 Mb/s, C]"
            self.r[-1] = max(1e5, self.r[-1] * c / self.c_i1)
            self.r[-2] = max(1e5, self.r[-2] * c / self.c_i1)
            self.delta_r = min(c, self.delta_r)
        self.c_i1 = c
        # "nothing arrived → no update and no ΔR growth"
        if octets == 0:
            return
        # Enhancement 1: "z = A_i / C", "rho_i = z / f(q_i)"
        rho = max(1e-3, octets * 8 / 0.001 / c / f(q, 24_000, self.linear))
        # Enhancement 2: "r_{i+1} = alpha r_i / rho_i + (1 - alpha) r_{i-1}"
        r = self.alpha * self.r[-1] / rho + (1 - self.alpha) * self.r[-2]
        # Enhancement 3: "Limit rate increase in the switch"
        if q < 24_000:
            self.delta_r = 1.414 * self.delta_r
        elif q > 120_000:
            self.delta_r = 0.707 * self.delta_r
        self.delta_r = min(c, max(1e6, self.delta_r))
        if r - self.r[-1] > self.delta_r:
            r = self.r[-1] + self.delta_r
        # "r in [0.1 Mb/s, C]"
        self.r.append(min(c, max(1e5, r)))

    def tag(self, rate: float) -> float:
        """Step 4: "In every RD tag: set rate to min{rate in tag, advertised rate}". Rates are in kb/s."""
        return min(rate, math.floor(self.r[-1] / 1000))


class LiteralSource:
    """One rate-limited queue, tagging by time (every_n 0) or every n-th frame."""

    def __init__(self, c: float, n0: int, every_n: int = 0) -> None:
        self.c = c
        self.n0 = n0
        self.every_n = every_n
        self.rate = 0.0
        self.last_tag: Fraction | None = None
        self.untagged = 0
        self.last_frame: Fraction | None = None

    def arrive(self, now_ms: Fraction, empty: bool) -> None:
        # "starts at r0 = C/N0, also after 2T idle"
        if self.last_frame is None or (empty and now_ms - self.last_frame >= 2):
            self.rate = max(0.1, self.c / self.n0)
            self.last_frame = now_ms
            self.last_tag = None
            self.untagged = self.every_n

    def leave(self, now_ms: Fraction) -> bool:
        self.last_frame = now_ms
        if self.every_n:
            # "every nth packet is tagged"
            self.untagged += 1
            if self.untagged < self.every_n:
                return False
            self.untagged = 0
            return True
        # "Packet tagged if time since the last time tag was sent is more than τ"
        if self.last_tag is not None and now_ms - self.last_tag < 1:
            return False
        self.last_tag = now_ms
        return True

    def returned(self, rate_mbps: float) -> None:
        # "Source adjusts to the rate received": infinity is the link rate
        if self.last_frame is not None:
            self.rate = min(self.c, max(0.1, rate_mbps))
