"""A random run through generation and reaction, printed: to compare compiled with plain code."""

from __future__ import annotations

import sys

import numpy as np

from ecmproto.mechanisms.pause import generation, reaction
from ecmproto.mechanisms.pause.generation import Meter
from ecmproto.mechanisms.pause.parameters import PFCGenerationParameters, PFCReactionParameters
from ecmproto.mechanisms.pause.reaction import KIND_PAUSE, KIND_PFC, PauseFrame
from ecmproto.record import columns, new_records


def trace(seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    rate_bps = 10_000_000_000
    generating = generation.settings_record(PFCGenerationParameters(), rate_bps=rate_bps)
    reacting = reaction.settings_record(PFCReactionParameters(), rate_bps=rate_bps)
    sender = new_records(generation.State, 1)
    receiver = new_records(reaction.State, 1)
    meters = new_records(Meter, 16)
    lines, now_ns = [], 0
    for _ in range(300):
        now_ns += int(draw.integers(1, 3_000_000))
        number, meter = int(draw.integers(8)), int(draw.integers(2))
        change = generation.judge(
            meters[number * 2 + meter], generating, int(draw.integers(200_000, 320_000))
        )
        signals = [generation.on_timer(sender[0], generating, now_ns)]
        if change:
            signals.append(generation.demand(sender[0], generating, now_ns, number, change))
        kind = KIND_PFC if draw.random() < 0.9 else KIND_PAUSE
        times = tuple(int(quanta) for quanta in draw.integers(0, 0x10000, 8))
        frame = PauseFrame(kind, int(draw.integers(0, 256)), times)  # type: ignore[arg-type]
        mask = reaction.on_frame(receiver[0], reacting, now_ns, frame)
        lines.append(
            f"{[tuple(map(int, signal)) for signal in signals]} {int(mask)} "
            f"{int(generation.next_timer_ns(sender[0]))} {int(reaction.next_timer_ns(receiver[0], now_ns))} "
            f"{int(reaction.paused_ns(receiver[0], number, now_ns))} "
            f"{int(generation.stopped_ns(sender[0], number, now_ns))}"
        )
    return [*lines, columns(sender).tobytes().hex(), columns(receiver).tobytes().hex()]


if __name__ == "__main__":
    print("\n".join(trace(int(sys.argv[1]))))
