"""A long random run of E²CM's machines through the protocol alone, as text: the same compiled and plain."""

from __future__ import annotations

import sys

import numpy as np

from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.e2cm.parameters import (
    E2CMCongestionPointParameters,
    E2CMEdgeParameters,
    E2CMReactionPointParameters,
)
from ecmproto.kernels.record import columns
from tests.mechanisms.e2cm.loop import Loop, machine

SMALL = {
    Role.CONGESTION_POINT: E2CMCongestionPointParameters(
        fixed_octets=6_000, tagged_fixed_octets=3_000, qeq_octets=20_000, qmc_octets=60_000, qsc_octets=90_000
    ),
    Role.REACTION_POINT: E2CMReactionPointParameters(
        limiters=2, probe_octets=6_000, probe_interval_ns=100_000, timestamp_unit=3
    ),
    Role.EDGE: E2CMEdgeParameters(max_flows=4),
}


def run(seed: int, steps: int = 800) -> list[str]:
    loop, choices = Loop(machine(SMALL), seed=seed), np.random.default_rng(seed + 1)
    lines = []
    for station, flow, octets, gap_ns in choices.integers(
        (0, 0, 64, 0), (3, 4, 1519, 800), (steps, 4)
    ).tolist():
        posted = loop.data(station, flow, octets, gap_ns)
        shown = [int(value) for value in loop.last_sent]
        lines.append(f"{loop.now_ns} {shown} {[tuple(message.tolist()) for message in posted]}")  # type: ignore[attr-defined]
    counted = [loop.machine.counters(part) for part in (loop.point, loop.senders, loop.receivers)]
    records = [columns(part).tolist() for part in (loop.senders.slots, loop.senders.probings)]
    return [*lines, str(counted), str(records)]


if __name__ == "__main__":
    print("\n".join(run(int(sys.argv[1]) if len(sys.argv) > 1 else 7)))
