"""A sending station for tests: an E²CM reaction point with its settings and its generator."""

from __future__ import annotations

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import Sampler
from ecmproto.control.mechanisms.aimd.reaction_point import Limiter, join, route
from ecmproto.control.mechanisms.api.protocol import signed_cpid
from ecmproto.control.mechanisms.e2cm import reaction_point as rp
from ecmproto.control.mechanisms.e2cm.congestion_point import E2CMPoint, E2CMPointState
from ecmproto.control.mechanisms.e2cm.parameters import E2CMReactionPointParameters
from ecmproto.control.mechanisms.e2cm.reaction_point import (
    BCN,
    BCN_MAX,
    BCN_ZERO,
    NO_LATENCY,
    Probing,
    Reaction,
)
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.control.mechanisms.limiter import leaves_ns
from ecmproto.kernels.record import new_record, new_records

LINK = 10_000_000_000
CPID, OTHER = 0x0200_0000_00CC_0001, 0x0200_0000_00DD_0001
PRIORITY = 3


def new_point(cpid: int) -> E2CMPoint:
    """A congestion point with an identifier; `start` it."""
    meter = new_record(E2CMPointState)
    meter.cpid = signed_cpid(cpid)
    return E2CMPoint(meter, new_records(Sampler, 2))


def bcn(q_off: int, q_delta: int = 0, cpid: int = CPID, type: int = BCN) -> ECMFields:
    return ECMFields(cpid, q_off, q_delta, 0, 0, 0, False, type)


LARGEST = bcn(1171, 2343, type=BCN_MAX)
STOP = bcn(0, 0, type=BCN_ZERO)


class Station:
    """Flows 0 to 15, all of one priority; flow n's limiter is found by ``limiter(n)``."""

    def __init__(self, parameters: E2CMReactionPointParameters | None = None, seed: int = 1) -> None:
        self.parameters = parameters or E2CMReactionPointParameters(max_flows=16)
        self.settings = rp.settings_record(self.parameters, LINK)
        self.source = rp.new_source(self.parameters, self.settings, 0)
        self.generator = np.random.default_rng(seed)
        for flow in range(len(self.source.probings)):
            self.path(flow)

    def path(self, flow: int, hops: int = 1, flight_ns: int = NO_LATENCY) -> None:
        rp.set_path(
            self.source,
            self.parameters,
            flow,
            priority=PRIORITY,
            congested_hops=hops,
            flight_ns=flight_ns,
        )

    def message(self, now_ns: int, message: ECMFields, flow: int = 0) -> int:
        return rp.receive(self.source, self.settings, self.generator, message, flow, PRIORITY, now_ns)

    def reply(
        self, now_ns: int, latency_ns: int, throughput_kbps: int = 10_000_000, flow: int = 0
    ) -> Reaction:
        return rp.receive_reply(self.source, self.settings, flow, latency_ns, throughput_kbps, now_ns)

    def index(self, flow: int = 0) -> int:
        return route(self.source.limiters, flow, PRIORITY)

    def limiter(self, flow: int = 0) -> Limiter:
        index = self.index(flow)
        assert index >= 0
        return self.source.limiters.slots[index]

    def rate_bps(self, flow: int = 0) -> float:
        return float(self.limiter(flow).rate_bps)

    def probing(self, flow: int = 0) -> Probing:
        return self.source.probings[flow]

    def sends(self, now_ns: int, octets: int = 1_500, flow: int = 0) -> bool:
        """Send a frame as soon as its limiter permits. Return whether a probe follows."""
        index = self.index(flow)
        if index < 0:
            return rp.pass_by(self.source, self.settings, flow, now_ns, octets)
        join(self.source.limiters, index)
        left_ns = max(now_ns, leaves_ns(self.source.limiters.slots[index], now_ns))
        return rp.depart(self.source, self.settings, index, left_ns, octets)
