"""A literal, slow transcription of S000's pseudo-code (3.2.1 and 3.3.3), line by line, without code from
ecmproto.

If algorithms §1 corrects the pseudo-code, the line contains "§1". Queues are counted in octets, and fields of
messages in units of 64 octets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


def units(octets: Fraction) -> int:
    """Truncated toward zero."""
    return int(octets / 64)


@dataclass(kw_only=True)
class LiteralCongestionPoint:
    urand: Callable[[], float]
    cpid: int
    fixed: int
    random: int
    sscale: int
    q_eq: int
    q_mc: float
    q_sc: float
    q_scale: Fraction
    qsat_enable: bool

    def __post_init__(self) -> None:
        self.samp_byte_acc = 0
        self.queue_old = 0
        self.interval = self.new_interval()  # §1: "drawn at start-up"

    def new_interval(self) -> float:
        return self.fixed + self.random * (self.urand() * 2 - 1)

    def frame_arrival(
        self, length: int, queue_len: int, empty: bool, tag_cpid: int | None
    ) -> tuple[int, int, int] | None:
        """Return Qoff, Qdelta and Q of the ECM frame, None if none is sent."""
        self.samp_byte_acc += length
        shift = self.sscale if queue_len > self.q_mc or empty else 0
        if not self.samp_byte_acc >= Fraction(self.interval) / 2**shift:  # §1: ≥ for >
            return None
        need_gen_ecm_frame = True
        self.samp_byte_acc = 0
        self.interval = self.new_interval()
        q = 0
        if queue_len > self.q_sc:
            field_off, field_delta = Fraction(0), Fraction(0)
        elif queue_len > self.q_mc:
            # §1: ECM-Max is scaled, and carries the Q bit too
            field_off, field_delta = self.q_eq * self.q_scale, 2 * self.q_eq * self.q_scale
            q = int(self.qsat_enable)
        else:
            qoff = queue_len - self.q_eq
            if qoff < -self.q_eq:
                qoff = -self.q_eq
            if qoff > self.q_eq:  # §1: both sides
                qoff = self.q_eq
            field_off = qoff * self.q_scale
            qdelta = queue_len - self.queue_old
            if qdelta >= 2 * self.q_eq:  # §1: "½" is a misprint; Q at ≥
                qdelta = 2 * self.q_eq
                q = int(self.qsat_enable)
            if qdelta <= -2 * self.q_eq:
                qdelta = -2 * self.q_eq
                q = int(self.qsat_enable)
            field_delta = qdelta * self.q_scale
            if (qoff == 0 and qdelta == 0) or (qoff <= 0 and tag_cpid != self.cpid):  # §1: ≤ for <
                need_gen_ecm_frame = False
            if units(field_off) == 0 and units(field_delta) == 0:  # §1, rule 4
                need_gen_ecm_frame = False
        self.queue_old = queue_len
        return (units(field_off), units(field_delta), q) if need_gen_ecm_frame else None


INACTIVE, ACTIVE, TIMEOUT = "INACTIVE", "ACTIVE", "TIMEOUT"


@dataclass(kw_only=True)
class LiteralLimiter:
    rate: float
    rmin: float
    tmax: int
    state: str = INACTIVE
    cpid: int = 0
    expires: int = 0
    rtt_avg: float | None = None
    queue_len: int = 0


@dataclass(kw_only=True)
class LiteralReactionPoint:
    """FlowID is used directly as the index of the limiter, which the pseudo-code allows."""

    urand: Callable[[], float]
    c: float
    w: float
    gi: float
    gd: float
    ru: float
    alpha: float
    beta: float
    ri: float
    floor: float
    rmin: float
    tmax: int
    td: int
    rd: float
    wrtt: int

    def __post_init__(self) -> None:
        self.now = 0
        self.next_td = self.td
        self.rl: dict[int, LiteralLimiter] = {}

    def limiter(self, flow: int) -> LiteralLimiter:
        return self.rl.setdefault(flow, LiteralLimiter(rate=self.c, rmin=self.rmin, tmax=self.tmax))

    def process_ecm_frame(
        self, flow: int, cpid: int, qoff: int, qdelta: int, q: int, timestamp: int | None, unit: int
    ) -> None:
        rl = self.limiter(flow)
        if rl.state == TIMEOUT:  # §1: a time-out ignores everything
            return
        if qoff == 0 and qdelta == 0:
            if rl.state == INACTIVE:  # §1: ECM(0,0) allocates
                self.allocate(rl, cpid)
            rl.state = TIMEOUT
            rl.rate = 0
            self.associate(rl, cpid)
            rl.expires = self.now + int(rl.tmax * self.urand())
            self.calc_movavg(rl, timestamp, unit)
            return
        fb = -(qoff + self.w * qdelta)
        sign = -qdelta if q else fb  # §1: Q is judged by Qdelta
        if sign < 0:
            if rl.state == INACTIVE:
                self.allocate(rl, cpid)
            else:
                rl.rate *= 1 - (min(2 * self.alpha, 1) if q else min(-fb * self.gd, self.alpha))
                rl.rate = max(rl.rate, self.floor)  # §1: fixed floor
                self.associate(rl, cpid)
        elif sign > 0:
            if rl.state != ACTIVE or rl.cpid != cpid:
                return
            rl.rate += 2 * self.beta * self.c if q else min(self.gi * fb * self.ru, self.beta * self.c)
            rl.rate = min(rl.rate, self.c)  # §1: capped
            rl.rmin = self.rmin
            rl.tmax = self.tmax
        if rl.state == ACTIVE and rl.cpid == cpid:  # §1: on every message of the associated CP
            self.calc_movavg(rl, timestamp, unit)

    def allocate(self, rl: LiteralLimiter, cpid: int) -> None:
        rl.state = ACTIVE
        rl.rate = self.ri
        rl.cpid = cpid
        rl.rtt_avg = None
        rl.rmin, rl.tmax = self.rmin, self.tmax  # a limiter that is taken anew is new

    def associate(self, rl: LiteralLimiter, cpid: int) -> None:
        if rl.cpid != cpid:
            rl.cpid = cpid
            rl.rtt_avg = None

    def calc_movavg(self, rl: LiteralLimiter, timestamp: int | None, unit: int) -> None:
        if timestamp is None:
            return
        ticks = self.now // (1000 * 2**unit) % 2**16
        rtt = (ticks - timestamp) % 2**16 * 2**unit * 1000
        weight = 2.0**-self.wrtt
        rl.rtt_avg = rtt if rl.rtt_avg is None else (1 - weight) * rl.rtt_avg + weight * rtt

    def advance(self, until: int) -> None:
        """Advance the time, and run the timers of the pseudo-code in order."""
        while True:
            expiring = [rl.expires for rl in self.rl.values() if rl.state == TIMEOUT]
            first = min([self.next_td, *expiring])
            if first > until:
                break
            self.now = first
            for rl in self.rl.values():
                if rl.state == TIMEOUT and rl.expires <= first:
                    rl.state = ACTIVE
                    rl.rate = min(max(rl.rmin, self.floor), self.c)
                    rl.rmin = max(rl.rmin / 2, 1e6)  # §1: within 1 Mb/s
                    rl.tmax = min(rl.tmax * 2, 10**9)  # §1: and 1 s
                    self.release(rl)
            if first == self.next_td:
                self.next_td += self.td
                for rl in self.rl.values():
                    if rl.state == ACTIVE:
                        rl.rate = min(rl.rate + self.rd, self.c)
                        self.release(rl)  # §1, rule 6: on Td ticks too
        self.now = until

    def release(self, rl: LiteralLimiter) -> None:
        if rl.queue_len == 0 and rl.rate >= self.c:
            rl.state = INACTIVE
