"""Batches for replay tests from times, lengths and priorities, replays of the batches, and their output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ecmproto.control.engine.config import PortConfig, RateChange
from ecmproto.control.engine.frames import GeneratedFrame
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.qcn.parameters import QCN, QCNCongestionPointParameters
from ecmproto.control.replay.open_loop import OpenLoopReplay, merged
from ecmproto.frames.capture.batch import Batch
from tests.replay.slow_port import Arriving

ADDRESSES = bytes.fromhex("020000000001" + "020000000002")
TEN_G = 10**10
CP_MAC = bytes.fromhex("0200000000cc")


def octets_of(frame: Arriving) -> bytes:
    """Return the captured start of ``frame``: at most 60 octets, of a type that fits the flags."""
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


def replay(
    *batches: Batch,
    rate_bps: int = TEN_G,
    buffer_octets: int = 500_000,
    buffer_frames: int = 0,
    overhead_octets: int = 24,
    rate_changes: tuple[RateChange, ...] = (),
    parameters: QCNCongestionPointParameters | None = None,
    seed: int = 1,
    **options: Any,
) -> OpenLoopReplay:
    """Return a replay through QCN's congestion point."""
    return OpenLoopReplay(
        batches,
        machine=machine_of(QCN, {} if parameters is None else {Role.CONGESTION_POINT: parameters}),
        port=PortConfig(
            rate_bps=rate_bps,
            buffer_octets=buffer_octets,
            buffer_frames=buffer_frames,
            overhead_octets=overhead_octets,
            rate_changes=rate_changes,
            cp_mac=CP_MAC,
        ),
        seed=seed,
        **options,
    )


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
