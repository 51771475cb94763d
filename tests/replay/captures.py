"""Batches for replay tests, frames given by time, length and priority; replays of them, and their output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ecmproto.capture.batch import Batch
from ecmproto.control.qcn.parameters import CongestionPointParameters
from ecmproto.replay.open_loop import OpenLoopReplay, replay_open_loop
from ecmproto.replay.replayed import GeneratedFrame, merged
from tests.replay.slow_port import Arriving

ADDRESSES = bytes.fromhex("020000000001" + "020000000002")
TEN_G = 10**10
CP_MAC = bytes.fromhex("0200000000cc")


def octets_of(frame: Arriving) -> bytes:
    """Return the captured start of ``frame``: at most 60 octets, of a kind that fits its flags."""
    etype = "0800" if frame.sampled else "22e7"
    kind = etype if frame.occupies else "8808"
    header = ADDRESSES + bytes.fromhex("8100") + bytes([frame.priority << 5, 1]) + bytes.fromhex(kind)
    return header.ljust(60, b"\0")[: frame.octets]


def batch_of(frames: Sequence[Arriving], *, first: int = 0) -> Batch:
    """Return ``frames`` as a batch whose times start far from 0."""
    return Batch.from_frames(
        [octets_of(frame) for frame in frames],
        time_ns=[1_600_000_000_000_000_000 + frame.time_ns for frame in frames],
        original=[frame.octets for frame in frames],
        first=first,
    )


def replay(*batches: Batch, **options: Any) -> OpenLoopReplay:
    options.setdefault("rate_bps", TEN_G)
    options.setdefault("buffer_octets", 500_000)
    options.setdefault("parameters", CongestionPointParameters())
    options.setdefault("seed", 1)
    return replay_open_loop(batches, cp_mac=CP_MAC, **options)


def overload(count: int, *, seed: int = 1, load: float = 1.3, octets: int = 1514) -> list[Arriving]:
    """Return Poisson arrivals of ``load`` times 10 Gb/s over three priorities."""
    generator = np.random.default_rng(seed)
    times = np.cumsum(generator.exponential((octets + 24) * 0.8 / load, count)).astype(int)
    priorities = generator.choice([0, 3, 6], count)
    return [Arriving(int(t), octets, int(p)) for t, p in zip(times - times[0], priorities, strict=True)]


def output(run: OpenLoopReplay) -> list[tuple[Any, ...]]:
    """Return the merged output frame by frame."""
    frames: list[tuple[Any, ...]] = []
    for piece in merged(run):
        if isinstance(piece, GeneratedFrame):
            frames.append(("cnm", piece.time_ns, piece.octets, piece.cause, piece.comment))
        else:
            times, numbers = piece.time_ns.tolist(), piece.numbers.tolist()
            frames += [("in", *row) for row in zip(times, piece.frames(), numbers, strict=True)]
    return frames
