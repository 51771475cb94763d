"""A random run through a station, a congestion point and an edge, printed: compiled against plain code."""

from __future__ import annotations

import sys

import numpy as np

from ecmproto.control.mechanisms.e2cm import congestion_point as cp
from ecmproto.control.mechanisms.e2cm import reaction_point as rp
from ecmproto.control.mechanisms.e2cm.edge import E2CMEdgeCounters, MeasuredFlow, on_data, on_probe
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMReactionPointParameters,
)
from ecmproto.control.mechanisms.e2cm.reaction_point import BCN
from ecmproto.control.mechanisms.ecm.congestion_point import SILENT
from ecmproto.control.mechanisms.ecm.reaction_point import ECMFields
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.record import columns, new_record
from tests.mechanisms.e2cm.station import CPID, Station, new_point


def next_probe(source: rp.E2CMStation, settings: rp.E2CMStationSettings) -> tuple[int, int]:
    """Return the flow whose probe is next by time, and its time: -1 and NEVER_NS without any."""
    if settings.probe_interval_ns <= 0:
        return -1, NEVER_NS
    due = [
        (int(probing.due_ns) if probing.active else NEVER_NS, flow)
        for flow, probing in enumerate(source.probings)
    ]
    due_ns, flow = min(due, default=(NEVER_NS, -1))
    return (flow, due_ns) if due_ns < NEVER_NS else (-1, NEVER_NS)


def trace(seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    station = Station(
        E2CMReactionPointParameters(max_flows=6, limiters=4, probe_octets=3_000, probe_interval_ns=50_000),
        seed,
    )
    settings = cp.settings_record(
        E2CMCongestionPointParameters(fixed_octets=6_000, tagged_fixed_octets=3_000)
    )
    point, generator = new_point(CPID), np.random.default_rng(seed + 1)
    cp.start(point, settings, generator)
    flows: list[MeasuredFlow] = [new_record(MeasuredFlow) for _ in range(6)]
    counters = new_record(E2CMEdgeCounters)
    lines, now_ns = [], 0
    for _ in range(600):
        now_ns += int(draw.integers(1, 30_000))
        flow, octets, qlen = (
            int(draw.integers(6)),
            int(draw.integers(60, 1_600)),
            int(draw.integers(0, 350_000)),
        )
        tagged = int(station.index(flow) >= 0)
        said: list[object] = []
        probe = station.sends(now_ns, octets, flow) or rp.probe_on_timer(
            station.source, station.settings, flow, now_ns
        )
        on_data(flows[flow], octets)
        if cp.count_arrival(point, settings, tagged, octets, qlen, True):
            found = cp.sample(point, settings, generator, tagged, qlen, CPID * tagged)
            said.append(tuple(int(value) for value in found))
            if found.kind != SILENT:
                message = ECMFields(
                    CPID, int(found.q_off), int(found.q_delta), 0, 5, 1, True, BCN + int(found.kind) - 1
                )
                said.append(int(station.message(now_ns, message, flow)))
        if probe:
            reply = on_probe(flows[flow], counters, now_ns + qlen, now_ns)
            reaction = station.reply(now_ns, int(reply.latency_ns), int(reply.throughput_kbps), flow)
            said.append(
                (bool(reaction.reacts), float(reaction.queue_octets), float(reaction.feedback_octets))
            )
        due = next_probe(station.source, station.settings)
        lines.append(f"{said} {bool(probe)} {due[0]} {due[1]}")
    source = station.source
    records = [source.limiters.point, source.counters, point.meter, counters]
    lines += [str(record.tolist()) for record in records]  # type: ignore[attr-defined]
    return [*lines, str(columns(source.limiters.slots).tolist()), str(columns(source.probings).tolist())]


if __name__ == "__main__":
    print("\n".join(trace(int(sys.argv[1]))))
