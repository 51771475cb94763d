"""A random run through the port's congestion point and the stations' gates, printed."""

from __future__ import annotations

import sys

import numpy as np

from ecmproto.control.mechanisms.api.machine import PortContext, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import EVERY_STATION
from ecmproto.control.mechanisms.pause.gate import counters, new_gates, obey, opens_ns, paused_ns
from ecmproto.control.mechanisms.pause.parameters import (
    PAUSE,
    PFC,
    GenerationParameters,
    PFCGenerationParameters,
)
from tests.mechanisms.crossing import crossing, said, shown


def trace(seed: int) -> list[str]:
    """Return the points' messages about one crossing, and the stations' reactions."""
    stations, rate_bps = 3, 10**10
    frames = crossing(seed, steps=800, stations=stations, buffer_octets=60_000, gap_ns=2_000)
    place = PortContext(
        rate_bps=rate_bps, link_rate_bps=rate_bps, cp_mac=bytes(6), stations=stations, flows=1
    )
    gates = new_gates(stations, rate_bps=rate_bps, pause=True, pfc_priorities=frozenset({3, 4}))
    pause = GenerationParameters(high_octets=3000, low_octets=500, pause_quanta=200)
    pfc = PFCGenerationParameters(
        high_octets=4000, low_octets=500, pause_quanta=2000, pause_on="output", priorities=frozenset({2, 3})
    )
    lines, messages = [], []
    for mechanism, parameters in ((PAUSE, pause), (PFC, pfc)):
        machine = machine_of(mechanism, {Role.CONGESTION_POINT: parameters})
        point = machine.congestion_point(place, np.random.default_rng(seed))
        outbox = shown(point, frames)
        lines += [str(message) for message in said(outbox)]
        lines.append(str(machine.counters(point)))
        messages += [outbox.messages[index] for index in range(int(outbox.posted.count))]
    messages.sort(key=lambda message: int(message.time_ns))
    for message in messages:
        now_ns, station = int(message.time_ns), int(message.station)
        for each in range(stations) if station == EVERY_STATION else [station]:
            obey(gates, each, message, now_ns)
        opens = [int(opens_ns(gates, each, 3, now_ns)) for each in range(stations)]
        lines.append(f"{opens} {[int(paused_ns(gates, each, 2, now_ns)) for each in range(stations)]}")
    return [*lines, str(counters(gates))]


if __name__ == "__main__":
    print("\n".join(trace(int(sys.argv[1]))))
