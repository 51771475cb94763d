"""Literal, slow transcriptions for E²CM: S002's reaction point, and algorithms §4's edge and congestion
point.

The transcriptions follow the documents line by line, and contain no code from ecmproto.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction


def signed32(difference: int) -> int:
    """ "latency as a signed 32-bit difference"."""
    difference %= 2**32
    return difference - 2**32 if difference >= 2**31 else difference


def clamp(value: Fraction, limit: int) -> Fraction:
    return max(min(value, Fraction(limit)), Fraction(-limit))


class LiteralReactionPoint:
    """S002 "Reaction Point": the branch for BCN_PROBE, with the changes of algorithms §4."""

    def __init__(
        self,
        rate: float,
        *,
        flight: int | None = None,
        flow_qeq: int = 15_000,
        flow_qmax: int = 56_000,
        flow_gi: float,
        flow_gd: float,
        rate_unit: float,
        capacity: float,
        floor: float,
        alpha: float = 1.0,
        beta: float = 1.0,
        w: Fraction = Fraction(2),
    ) -> None:
        self.rate = rate
        # "initialised with the known unloaded latency where clocks are common"
        self.flight_time = flight
        self.qeq, self.qmax, self.w = flow_qeq, flow_qmax, w
        self.gi, self.gd, self.unit = flow_gi, flow_gd, rate_unit
        self.capacity, self.floor, self.alpha, self.beta = capacity, floor, alpha, beta
        self.last_q = Fraction(0)
        self.replies = 0
        self.feedback = Fraction(0)

    def reply(self, latency: int, throughput_kbps: int) -> None:
        self.replies += 1
        # if (flightTime > bcn.getLatency() || flightTime == 0.0) flightTime = bcn.getLatency();
        if self.flight_time is None or signed32(latency - self.flight_time) < 0:
            self.flight_time = latency
        # "The first probe has no throughput: the source skips its reaction."
        if self.replies == 1 or throughput_kbps == 0:
            return
        # flowQ = bcn.getThroughput()*(bcn.getLatency() - flightTime);
        octets_per_ns = Fraction(throughput_kbps * 1000, 8 * 10**9)
        flow_q = octets_per_ns * signed32(latency - self.flight_time)
        # flowdQ = max( min( flowQ - flowLastQ, 2*flowQeq ), -2*flowQeq );
        flow_dq = clamp(flow_q - self.last_q, 2 * self.qeq)
        # flowQoff = max( min( flowQeq - flowQ, flowQeq ), -flowQeq );
        flow_qoff = clamp(self.qeq - flow_q, self.qeq)
        feedback = flow_qoff - self.w * flow_dq
        if flow_q > self.qmax:
            feedback = -(1 + 2 * self.w) * self.qeq
        self.last_q = flow_q
        self.feedback = feedback
        # "then the AIMD of §1 with the flow gains"
        if feedback > 0:
            self.rate = self.rate + min(self.gi * float(feedback) * self.unit, self.beta * self.capacity)
            self.rate = min(self.rate, self.capacity)
        elif feedback < 0:
            self.rate = self.rate * (1.0 - min(self.gd * float(-feedback), self.alpha))
            self.rate = max(self.rate, self.floor)


class LiteralEdge:
    """Algorithms §4, 3: "throughput = octets of that flow since its last probe ÷ time"."""

    def __init__(self) -> None:
        self.arrivals: list[int] = []
        self.last_probe: int | None = None

    def data(self, octets: int) -> None:
        self.arrivals.append(octets)

    def probe(self, now: int, timestamp: int) -> tuple[int, int]:
        latency = (now - timestamp) % 2**32
        throughput = 0
        if self.last_probe is not None:
            if now == self.last_probe:
                return latency, 0
            bits_per_s = Fraction(8 * sum(self.arrivals) * 10**9, now - self.last_probe)
            throughput = min(int(bits_per_s / 1000), 2**32 - 1)
        self.last_probe = now
        self.arrivals = []
        return latency, throughput


class LiteralCongestionPoint:
    """Algorithms §1 CP with §4's separate octet counters, ECM(0,0) off."""

    def __init__(
        self,
        draw: Callable[[], float],
        *,
        cpid: int,
        qeq: int = 75_000,
        qmc: int = 280_000,
        intervals: tuple[int, int] = (75_000, 15_000),
        randoms: tuple[int, int] = (22_500, 4_500),
    ) -> None:
        self.draw, self.cpid, self.qeq, self.qmc = draw, cpid, qeq, qmc
        self.sf, self.sr = intervals, randoms
        self.counts = [0, 0]
        # "drawn at start-up and after each sample"
        self.s = [self.interval(0), self.interval(1)]
        self.qlen_old = 0

    def interval(self, kind: int) -> Fraction:
        return self.sf[kind] + self.sr[kind] * (2 * Fraction(self.draw()) - 1)

    def arrival(self, tag: int | None, length: int, qlen: int) -> tuple[str, int, int] | None:
        """Return BCN or BCN_MAX and the two fields, or None; ``tag`` is the CM-Tag's CPID."""
        kind = 0 if tag is None else 1
        self.counts[kind] += length
        if not self.counts[kind] >= self.s[kind]:
            return None
        self.counts[kind] = 0
        self.s[kind] = self.interval(kind)
        qoff = max(-self.qeq, min(self.qeq, qlen - self.qeq))
        qdelta = max(-2 * self.qeq, min(2 * self.qeq, qlen - self.qlen_old))
        self.qlen_old = qlen
        if qlen > self.qmc:
            return "BCN_MAX", int(self.qeq / 64), int(2 * self.qeq / 64)
        if qoff == 0 and qdelta == 0:
            return None
        if qoff <= 0 and tag != self.cpid:
            return None
        units = int(Fraction(qoff, 64)), int(Fraction(qdelta, 64))
        return None if units == (0, 0) else ("BCN", *units)
