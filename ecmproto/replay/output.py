"""The capture that a replay leaves: the one it read, with the generated frames at their time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ecmproto.capture import Batch, CaptureCopier, CaptureReader
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.errors import CaptureError
from ecmproto.replay.open_loop import OpenLoopReplay
from ecmproto.replay.replayed import GeneratedFrame, merged
from ecmproto.wire.fcs import frame_check_sequence

_FCS_OCTETS = 4


def batches_of(reader: CaptureReader, copier: CaptureCopier | None) -> Iterator[Batch]:
    """Yield a capture's batches for a replay, handing its other blocks to ``copier`` on the way.

    CaptureError when one holds frames that are not Ethernet's.
    """
    for item in reader.items():
        if isinstance(item, Batch):
            _check_ethernet(item, reader)
            yield item
        elif copier is not None:
            copier.write(item)


def _check_ethernet(batch: Batch, reader: CaptureReader) -> None:
    for interface in np.unique(batch.interface).tolist():
        described = reader.interfaces[interface]
        if described.linktype != ETHERNET:
            raise CaptureError(
                path=reader.path,
                offset=int(batch.record_offset[0]),
                frame=batch.first,
                needed="Ethernet frames for a replay",
                got=f"link type {described.linktype_name} on interface {interface}",
            )


def write_replay(replay: OpenLoopReplay, reader: CaptureReader, copier: CaptureCopier | None) -> None:
    """Run the replay and write every frame of it; with no ``copier``, only run it.

    The capture's own frames stay as they stand, a generated one stands behind its cause: on that one's
    interface, with an FCS where that one has it, and in pcapng with a comment that says what it came from.
    """
    if copier is None:
        for _ in replay:
            pass
        return
    for item in merged(replay):
        if isinstance(item, GeneratedFrame):
            described = reader.interfaces[item.interface]
            fcs = frame_check_sequence(item.octets) if described.fcs_octets == _FCS_OCTETS else b""
            copier.insert(
                item.octets + fcs, time_ns=item.time_ns, interface=item.interface, comment=item.comment
            )
        else:
            copier.write(item)
