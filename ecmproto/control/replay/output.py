"""The capture written by an open-loop replay: its input, with the messages that its ports generated.

Messages (CNM, ECM, BCN, PAUSE …) are in order of time. `replay.closed_output` is for closed loops.
"""

from __future__ import annotations

from collections.abc import Iterator

from ecmproto.control.engine.arrivals import check_ethernet
from ecmproto.control.engine.frames import GeneratedFrame
from ecmproto.control.replay.open_loop import ReplayedBatch, merged
from ecmproto.frames.capture import Batch, Block, CaptureCopier, CaptureReader
from ecmproto.frames.filter import Filter
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

_FCS_OCTETS = 4


class OpenLoopOutput:
    """A writer that copies a capture through ``copier`` and adds the generated frames.

    The capture's own frames are unchanged except tags that a port rewrote. A generated frame follows its
    cause on the same interface, with an FCS if that interface has one, and in pcapng with a comment on its
    origin.
    """

    def __init__(self, reader: CaptureReader, copier: CaptureCopier) -> None:
        self._reader = reader
        self._copier = copier

    @property
    def warnings(self) -> list[str]:
        """Return warnings about data that the format could not store."""
        return self._copier.warnings

    def write_block(self, block: Block) -> None:
        """Copy a block from between the capture's frames."""
        self._copier.write(block)

    def write(self, replayed: ReplayedBatch) -> None:
        """Write a batch with the frames that it caused."""
        for item in merged([replayed]):
            if isinstance(item, GeneratedFrame):
                self._insert(item)
            else:
                self._copier.write(item)

    def _insert(self, frame: GeneratedFrame) -> None:
        described = self._reader.interfaces[frame.interface]
        fcs = frame_check_sequence(frame.octets) if described.fcs_octets == _FCS_OCTETS else b""
        self._copier.insert(
            frame.octets + fcs, time_ns=frame.time_ns, interface=frame.interface, comment=frame.comment
        )


def batches_of(
    reader: CaptureReader,
    output: OpenLoopOutput | None,
    *,
    filter: Filter | None = None,
    ethertypes: EtherTypes = DEFAULT,
) -> Iterator[Batch]:
    """Yield a capture's batches for a replay, and pass its other blocks to ``output``.

    ``filter`` selects frames. CaptureError if a selected one is not Ethernet.
    """
    for item in reader if output is None else reader.items():
        if isinstance(item, Batch):
            batch = item if filter is None else _selected(item, reader, filter, ethertypes)
            check_ethernet(batch, reader)
            yield batch
        elif output is not None:
            output.write_block(item)


def _selected(batch: Batch, reader: CaptureReader, filter: Filter, ethertypes: EtherTypes) -> Batch:
    from ecmproto.frames.columns.selection import selected

    return batch.select(selected(batch, filter, interfaces=reader.interfaces, ethertypes=ethertypes))
