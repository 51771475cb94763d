"""The output capture of a closed loop, with frames at their arrival at the port and with all messages."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import EngineBatch, check_ethernet
from ecmproto.control.engine.frames import GeneratedFrame, comment_of, octets_of, tagged_frames
from ecmproto.control.engine.port import DROPPED, HELD_OUT
from ecmproto.control.mechanisms.api.machine import SampledFrame
from ecmproto.control.mechanisms.api.protocol import PROBE_KIND
from ecmproto.control.replay.closed_loop import ClosedLoopReplay, Piece
from ecmproto.control.replay.open_loop import ReplayedBatch, merged
from ecmproto.frames.batch.classes import classify
from ecmproto.frames.capture import (
    Batch,
    Block,
    CaptureCopier,
    CaptureReader,
    PcapngWriter,
    PcapWriter,
    format_of,
)
from ecmproto.frames.filter import Filter
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

_FCS_OCTETS = 4


class OpenLoopOutput:
    """A writer that copies a capture through ``copier`` and adds the generated frames.

    The frames of the capture are unchanged, except for tags that a port rewrote. A generated frame follows
    the frame that caused it on the same interface, with an FCS if the interface has an FCS. In pcapng, a
    comment describes the origin of the generated frame.
    """

    def __init__(self, reader: CaptureReader, copier: CaptureCopier) -> None:
        self._reader = reader
        self._copier = copier

    @property
    def warnings(self) -> list[str]:
        """Return warnings about data that the format could not store."""
        return self._copier.warnings

    def write_block(self, block: Block) -> None:
        """Copy a block that is located between the frames of the capture."""
        self._copier.write(block)

    def write(self, replayed: ReplayedBatch) -> None:
        """Write a batch, with the generated frames that the batch caused."""
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
    """Yield a capture's batches for a replay, and pass the capture's other blocks to ``output``.

    ``filter`` selects frames. Raises CaptureError if a selected frame is not an Ethernet frame.
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


class _Stored:
    """A batch with frames that have not yet reached the port."""

    def __init__(self, engine_batch: EngineBatch, first: int) -> None:
        self.engine_batch = engine_batch
        self.first = first
        self.missing = len(engine_batch.batch)


class FramesInFlight:
    """Batches by the numbers of their frames; each batch is stored until all frames have passed the port."""

    def __init__(self) -> None:
        self._batches: deque[_Stored] = deque()
        self._count = 0

    def add(self, engine_batch: EngineBatch) -> None:
        """Store the next batch of the capture until all frames of the batch have passed the port."""
        self._batches.append(_Stored(engine_batch, self._count))
        self._count += len(engine_batch.batch)

    def find(
        self, serial: NDArray[np.int64]
    ) -> list[tuple[EngineBatch, NDArray[np.int64], NDArray[np.int64]]]:
        """Return the batches that contain the frames ``serial``.

        Each batch is returned with the indices of its frames in ``serial`` and in the batch.
        """
        firsts = np.array([stored.first for stored in self._batches], np.int64)
        which = np.searchsorted(firsts, serial, side="right") - 1
        result = []
        for index in np.unique(which).tolist():
            chosen = np.flatnonzero(which == index)
            stored = self._batches[index]
            result.append((stored.engine_batch, chosen, serial[chosen] - stored.first))
        return result

    def passed(self, serial: NDArray[np.int64]) -> None:
        """Count the passed frames, and drop batches that are no longer needed."""
        firsts = np.array([stored.first for stored in self._batches], np.int64)
        which = np.searchsorted(firsts, serial, side="right") - 1
        for index, count in zip(*np.unique(which, return_counts=True), strict=True):
            self._batches[int(index)].missing -= int(count)
        # The last batch stays, because the next frames may start in this batch.
        self._batches = deque(
            stored for stored in self._batches if stored.missing or stored is self._batches[-1]
        )


_SHOWN_OCTETS = 256
"""The number of stored octets of a flow's first frame, which is more than any plausible stack of tags."""
_DROPPED = "dropped by the port"


class ClosedLoopOutput:
    """A writer of a capture with one Ethernet interface.

    The suffix of ``path`` selects the format; without a known suffix, the format is the reader's format.
    ``path`` may also be an open writer, whose first interface is used.

    Each frame has the arrival time at the port, the tag of the frame's station, and the port's changes of the
    tag. Dropped frames are included. In pcapng, comments describe the origin of generated frames, and mark
    the frames that the port dropped. Frames that never reached the port and all FCSs are omitted.
    """

    def __init__(
        self, reader: CaptureReader, path: str | os.PathLike[str] | PcapngWriter, *, force: bool = False
    ) -> None:
        self.commented: bool = isinstance(path, PcapngWriter) or format_of(path, reader.format) == "pcapng"
        self._writer: PcapngWriter | PcapWriter
        if isinstance(path, PcapngWriter):
            self._writer = path
        else:
            self._writer = (PcapngWriter if self.commented else PcapWriter)(path, force=force)
        self._under_way = FramesInFlight()
        self._examples: dict[tuple[int, int], bytes] = {}

    @property
    def warnings(self) -> list[str]:
        """Return warnings about data that the format could not store."""
        return self._writer.warnings

    def __enter__(self) -> Self:
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def take(self, engine_batch: EngineBatch) -> None:
        """Store a batch whose frames enter the loop."""
        self._under_way.add(engine_batch)
        arrivals = engine_batch.arrivals
        pairs = np.stack([arrivals.station, arrivals.flow]).astype(np.int64)
        for (station, flow), position in zip(*_first_of_each(pairs), strict=True):
            octets = engine_batch.batch.frame(position)[:_SHOWN_OCTETS]
            self._examples.setdefault((station, flow), octets)

    def write(self, piece: Piece, replay: ClosedLoopReplay) -> None:
        """Write the messages, and the frames that reached the port, in order of time."""
        passages = piece.passages[piece.passages["probe"] == 0]
        here = passages[passages["disposition"] != HELD_OUT]
        frames = self._frames(here, replay)
        probes: Any = piece.messages[piece.messages["kind"] == PROBE_KIND].view(np.recarray)
        generated = [_generated(probe, self._example(probe, replay), replay) for probe in probes]
        generated += self._messages(piece.messages, here, frames, replay)
        self._write(here, frames, sorted(generated, key=lambda frame: frame.time_ns))
        self._under_way.passed(passages["serial"])

    def _frames(self, passages: NDArray[Any], replay: ClosedLoopReplay) -> Batch:
        """Return the frames of ``passages`` in order, as the frames reached the port."""
        parts, order = [Batch.from_frames([])], [np.zeros(0, np.int64)]
        for engine_batch, chosen, position in self._under_way.find(passages["serial"]):
            parts.append(
                tagged_frames(
                    engine_batch, position, passages[chosen], replay.machine, replay.context.ethertypes
                )
            )
            order.append(chosen)
        return joined(parts, np.argsort(np.concatenate(order)), replay.first_time_ns + passages["time_ns"])

    def _messages(
        self, messages: NDArray[Any], passages: NDArray[Any], frames: Batch, replay: ClosedLoopReplay
    ) -> Iterator[GeneratedFrame]:
        chosen: Any = messages[(messages["sent"] == 1) & (messages["kind"] != PROBE_KIND)].view(np.recarray)
        by_serial = np.argsort(passages["serial"], kind="stable")
        indices = np.searchsorted(passages["serial"], chosen["cause"], sorter=by_serial)
        for message, index in zip(chosen, indices.tolist(), strict=True):
            about = self._example(message, replay)
            cause = int(message.cause)
            # The frame that caused a destination's message may have left the port long ago: use the flow.
            sampled = int(message.kind) not in replay.machine.answers and index < len(by_serial)
            if sampled and passages["serial"][by_serial[index]] == cause:
                about = _sampled(frames, int(by_serial[index]), replay.context.ethertypes)
            yield _generated(message, about, replay)

    def _example(self, message: Any, replay: ClosedLoopReplay) -> SampledFrame:
        of = int(message.station), int(message.flow)
        octets = self._examples.get(of, b"")
        return SampledFrame(octets, len(octets), 0, replay.flows.queue_pair(*of))

    def _write(self, passages: NDArray[Any], frames: Batch, generated: list[GeneratedFrame]) -> None:
        """Write ``frames`` and ``generated``; a generated frame follows all frames with an equal time."""
        times_ns = np.array([frame.time_ns for frame in generated], np.int64)
        ends = np.searchsorted(frames.time_ns, times_ns, side="right").tolist()
        done = 0
        for frame, end in zip(generated, ends, strict=True):
            self._write_frames(passages, frames, done, end)
            done = end
            comment = frame.comment if self.commented else None
            self._writer.write_frame(frame.octets, frame.time_ns, comment=comment)
        self._write_frames(passages, frames, done, len(frames))

    def _write_frames(self, passages: NDArray[Any], frames: Batch, start: int, end: int) -> None:
        done = start
        if self.commented:
            for index in (start + np.flatnonzero(passages["disposition"][start:end] == DROPPED)).tolist():
                self._writer.write_batch(frames.select(np.arange(done, index)))
                self._writer.write_frame(
                    frames.frame(index),
                    int(frames.time_ns[index]),
                    original=int(frames.original[index]),
                    comment=_DROPPED,
                )
                done = index + 1
        if done < end:
            self._writer.write_batch(frames.select(np.arange(done, end)))


def _generated(message: Any, about: SampledFrame, replay: ClosedLoopReplay) -> GeneratedFrame:
    return GeneratedFrame(
        octets=octets_of(replay.machine, message, about, replay.context),
        time_ns=replay.first_time_ns + int(message.time_ns),
        interface=0,
        cause=int(message.cause),
        comment=comment_of(replay.machine, message, int(message.cause)),
    )


def joined(parts: Sequence[Batch], order: NDArray[np.int64], time_ns: NDArray[np.int64]) -> Batch:
    """Return the concatenated frames of ``parts``, reordered by ``order``, with the times ``time_ns``."""
    sizes = np.array([len(part.buffer) for part in parts], np.int64)
    starts = np.cumsum(sizes) - sizes
    offset = np.concatenate([part.offset + start for part, start in zip(parts, starts, strict=True)])[order]
    captured = np.concatenate([part.captured for part in parts])[order]
    return Batch(
        buffer=np.concatenate([part.buffer for part in parts]),
        offset=offset,
        captured=captured,
        original=np.concatenate([part.original for part in parts])[order],
        time_ns=time_ns,
        interface=np.zeros(len(order), np.int64),
        record_offset=offset,
        record_length=captured,
    )


def _sampled(frames: Batch, index: int, ethertypes: EtherTypes) -> SampledFrame:
    one = frames.select([index])
    classes = classify(one.buffer, one.offset, one.captured, ethertypes=ethertypes)
    return SampledFrame(one.frame(0), int(one.original[0]), int(classes.msdu_offset[0]))


def _first_of_each(pairs: NDArray[np.int64]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the distinct columns of ``pairs``, and the first index of each distinct column."""
    distinct, first = np.unique(pairs, axis=1, return_index=True)
    return [(station, flow) for station, flow in distinct.T.tolist()], first.tolist()
