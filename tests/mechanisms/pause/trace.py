"""A random run through generation and reaction, printed: to compare compiled with plain code."""

from __future__ import annotations

import sys

import numpy as np

from ecmproto.control.mechanisms.pause import congestion_point, reaction_point
from ecmproto.control.mechanisms.pause.congestion_point import OccupancyMeter
from ecmproto.control.mechanisms.pause.parameters import PFCGenerationParameters, PFCReactionParameters
from ecmproto.control.mechanisms.pause.reaction_point import KIND_PAUSE, KIND_PFC, PauseFrame
from ecmproto.kernels.record import columns, new_records


def stopped_ns(state: congestion_point.FlowControlState, number: int, now_ns: int) -> int:
    """Return the total stopped time of a class, up to ``now_ns``."""
    running_ns = now_ns - state.since_ns[number] if state.demands[number] > 0 else 0
    return int(state.stopped_ns[number] + running_ns)


def trace(seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    rate_bps = 10_000_000_000
    generating = congestion_point.flow_control_settings(PFCGenerationParameters(), rate_bps=rate_bps)
    reacting = reaction_point.pause_reaction_settings(PFCReactionParameters(), rate_bps=rate_bps)
    sender = new_records(congestion_point.FlowControlState, 1)
    receiver = new_records(reaction_point.PauseTimers, 1)
    meters = new_records(OccupancyMeter, 16)
    lines, now_ns = [], 0
    for _ in range(300):
        now_ns += int(draw.integers(1, 3_000_000))
        number, meter = int(draw.integers(8)), int(draw.integers(2))
        change = congestion_point.judge(
            meters[number * 2 + meter], generating, int(draw.integers(200_000, 320_000))
        )
        signals = [congestion_point.on_timer(sender[0], generating, now_ns)]
        if change:
            signals.append(congestion_point.demand(sender[0], generating, now_ns, number, change))
        kind = KIND_PFC if draw.random() < 0.9 else KIND_PAUSE
        times = tuple(int(quanta) for quanta in draw.integers(0, 0x10000, 8))
        frame = PauseFrame(kind, int(draw.integers(0, 256)), times)  # type: ignore[arg-type]
        mask = reaction_point.on_frame(receiver[0], reacting, now_ns, frame)
        lines.append(
            f"{[tuple(map(int, signal)) for signal in signals]} {int(mask)} "
            f"{int(congestion_point.next_timer_ns(sender[0]))} "
            f"{int(reaction_point.paused_ns(receiver[0], number, now_ns))} "
            f"{int(stopped_ns(sender[0], number, now_ns))}"
        )
    return [*lines, columns(sender).tobytes().hex(), columns(receiver).tobytes().hex()]


if __name__ == "__main__":
    print("\n".join(trace(int(sys.argv[1]))))
