"""Which frames of a batch a display filter selects."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.filter import Filter
from ecmproto.table.columns.framing import frames_of
from ecmproto.table.columns.layers import decoded_frame
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.frame import Frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A frame as filters take it (`ecmproto.filter.Captured`)."""

    number: int
    time_ns: int | None
    octets: bytes
    original_octets: int
    interface_id: int
    frame: Frame


def selected(
    batch: Batch, filter: Filter, *, interfaces: Sequence[Interface] = (), ethertypes: EtherTypes = DEFAULT
) -> NDArray[np.bool_]:
    """Return for each frame of ``batch`` whether ``filter`` selects it."""
    frames = frames_of(batch, interfaces)
    numbers, times = batch.numbers, batch.time_ns
    mask = np.zeros(len(batch), np.bool_)
    for row in range(len(batch)):
        interface = int(batch.interface[row])
        mask[row] = filter.matches(
            _Seen(
                number=int(numbers[row]) + 1,
                time_ns=int(times[row]) if batch.timed is None or batch.timed[row] else None,
                octets=batch.frame(row),
                original_octets=int(batch.original[row]),
                interface_id=interfaces[interface].local_index if interfaces else interface,
                frame=decoded_frame(frames, ethertypes, row),
            )
        )
    return mask
