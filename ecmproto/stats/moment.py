"""A batch as accumulators see it: its frames, their columns, and in which interval each falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.columns import Column, Columns
from ecmproto.stats.tally import NO_SLOT

Int64 = NDArray[np.int64]

FARTHEST_NS = 1 << 62
"""Times at this distance from 1970 or farther are none: differences between the others fit into 64 bits."""


def usable_times(batch: Batch) -> NDArray[np.bool_]:
    """Return for each frame whether it has a time."""
    usable = (batch.time_ns < FARTHEST_NS) & (batch.time_ns > -FARTHEST_NS)
    return usable if batch.timed is None else usable & batch.timed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moment:
    """The frames of a batch that are counted; an entry a frame in each array."""

    batch: Batch
    columns: Columns
    slots: Int64
    """The interval, NO_SLOT for a frame without a time."""

    def values(self, name: str, rows: NDArray[np.int32]) -> Int64:
        """Return the outermost value of a number for ``rows``, 0 for a frame that has none."""
        return _of_rows(self.columns[name].outermost(), rows).astype(np.int64)

    def addresses(self, name: str, rows: NDArray[np.int32]) -> Int64:
        """Return the outermost MAC address of ``rows`` as numbers, 0 for a frame that has none."""
        octets = np.zeros((len(rows), 8), np.uint8)
        octets[:, 2:] = _of_rows(self.columns[name].outermost(), rows)
        return octets.view(">i8").reshape(-1).astype(np.int64)


def _of_rows(column: Column, rows: NDArray[np.int32]) -> NDArray[Any]:
    values = column.values
    assert isinstance(values, np.ndarray)
    if column.is_whole:
        return values[rows]
    if np.array_equal(column.rows, rows):
        return values
    places = np.searchsorted(column.rows, rows)
    there = places < len(column)
    there[there] = column.rows[places[there]] == rows[there]
    found = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    found[there] = values[places[there]]
    return found


def moment_of(batch: Batch, columns: Columns, slots: Int64, timed: NDArray[np.bool_]) -> Moment:
    """Return the moment; ``slots`` are those of the frames that are ``timed``."""
    every = np.full(len(batch), NO_SLOT, np.int64)
    every[timed] = slots
    return Moment(batch=batch, columns=columns, slots=every)


def address_octets(number: int) -> bytes | None:
    """Return a MAC address; None for that of a frame without any."""
    return number.to_bytes(6) if number else None
