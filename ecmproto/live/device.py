"""What a live device is to the loop that drives it: pure, with places, in whatever time it is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch

Send = Callable[[int, NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], None]
"""Takes frames that leave by a place: their octets, where each begins in them, and its length.

They are there until it returns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a device has come to.

    ``counters`` only grow, as do ``messages``, which were sent, by kind, and ``mechanism``, what the
    mechanism itself has counted.  ``gauges`` are the state of the moment; units are in the names.
    ``warnings`` are sentences that a person should read, each from when it came true.
    """

    counters: Mapping[str, int]
    messages: Mapping[str, int] = field(default_factory=dict)
    mechanism: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Device(Protocol):
    """Something with places, numbered from 0 on, where frames come in and leave."""

    @property
    def due_ns(self) -> int:
        """When `advance` is next needed; NEVER_NS while nothing is due."""

    def take(self, batch: Batch, place: int, now_ns: int) -> None:
        """Take the frames that came in at ``place`` by ``now_ns``, which is not before any earlier time."""

    def advance(self, now_ns: int) -> None:
        """Let everything happen that is due by ``now_ns``."""

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return what the device has come to."""
