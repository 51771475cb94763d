"""The output of a reader in a form that can be compared with another reader's output."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from ecmproto.frames.capture import Batch, CaptureReader, open_capture


class Seen(NamedTuple):
    number: int
    time_ns: int
    timed: bool
    original: int
    interface: int
    frame: bytes
    record: bytes


def flatten(batch: Batch) -> list[Seen]:
    timed = [True] * len(batch) if batch.timed is None else batch.timed.tolist()
    columns = zip(
        batch.numbers.tolist(),
        batch.time_ns.tolist(),
        timed,
        batch.original.tolist(),
        batch.interface.tolist(),
        batch.frames(),
        (batch.record(i) for i in range(len(batch))),
        strict=True,
    )
    return [Seen(*row) for row in columns]


def read(octets: bytes, **options: Any) -> tuple[list[Seen], CaptureReader]:
    """Return all frames of a capture in memory, and its exhausted reader."""
    with open_capture(io.BytesIO(octets), **options) as reader:
        return [seen for batch in reader for seen in flatten(batch)], reader
