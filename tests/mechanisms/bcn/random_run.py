"""A long random run of BCN's machines as text: the same compiled and plain."""

from __future__ import annotations

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import count, start
from ecmproto.control.mechanisms.bcn import congestion_point, reaction_point
from ecmproto.control.mechanisms.bcn.congestion_point import BCNPointState
from ecmproto.control.mechanisms.bcn.parameters import (
    BCNCongestionPointParameters,
    BCNReactionPointParameters,
)
from ecmproto.control.mechanisms.bcn.reaction_point import BCNFields
from tests.mechanisms.aimd.station import Station, new_reaction_point, new_state


def samples(seed: int) -> list[str]:
    parameters = BCNCongestionPointParameters(
        fixed_octets=10_000, oversampling_shift=2, qsc_octets=60_000, qscale=1.5
    )
    settings = congestion_point.settings_record(parameters)
    state = new_state(BCNPointState, 1 << 16 | 1)
    generator, choices = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    start(state, settings, generator)
    found = []
    qlen = 0
    for octets, step, tag in choices.integers((64, -3000, 0), (1519, 3100, 2), (3_000, 3)).tolist():
        qlen = max(octets, qlen + step)
        if count(state, settings, octets, qlen, True):
            feedback = congestion_point.sample(state, settings, generator, qlen, tag * int(state.cpid))
            found.append(repr(tuple(map(int, feedback))))
    return found


def reactions(seed: int) -> list[str]:
    parameters = BCNReactionPointParameters(limiters=3, largest_decrease=0.5, largest_increase=0.2)
    settings = reaction_point.settings_record(parameters, 10_000_000_000)
    limiters = new_reaction_point(parameters, settings, 0)
    subject = Station(limiters, settings, reaction_point.receive, seed)
    choices = np.random.default_rng(seed + 1)
    for step in range(600):
        flow, cpid, e, capacity, wait_ns = choices.integers(
            (0, 1, -300, 1, 0), (5, 3, 301, 40_000_000, 40_000)
        ).tolist()
        subject.advance(wait_ns)
        subject.receive(BCNFields(int(step % 19 == 0), cpid, e, capacity), flow, flow % 2)
        for _ in range(3):
            subject.send(flow, flow % 2)
    return [repr(np.asarray(subject.slots).tolist()), repr(subject.point.tolist()), repr(subject.sent)]


if __name__ == "__main__":
    print("\n".join(samples(7) + reactions(7)))
