"""Monitor of an interface: changes over time, and a capture in rotating files."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import PurePath

import numpy as np

from ecmproto.errors import OutputError
from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter, format_of
from ecmproto.frames.capture.writer import Output
from ecmproto.frames.stats import ClassPause, Neighbour, QueuePair, RoceTraffic, Statistics
from ecmproto.frames.stats.statistics import CPID, Kind, in_json
from ecmproto.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChange:
    """Frames of one type: the total count, and the rate since the previous statistics."""

    kind: Kind = field(metadata=in_json(plain=attrgetter("name")))
    frames: int
    frames_per_s: float
    bits_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PointChange:
    """Messages of a congestion point; ``kind`` is the format of the messages."""

    kind: str
    cpid: int = field(metadata=CPID)
    frames: int
    frames_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """The time for which a sender of PAUSE or PFC frames stopped its link partner.

    ``priority`` is ``None`` for PAUSE. ``share`` is the fraction of the time since the previous statistics;
    ``share`` may exceed 1 if a requested pause lasts longer.
    """

    source: bytes | None
    priority: int | None
    frames: int
    paused_ns: int
    share: float
    transitions: int
    """The total number of transitions from not paused to paused."""
    recent_ns: int | None
    """The start of the latest pause."""
    recent_paused_ns: int
    expired: int
    """The number of pauses that expired, because the sender neither renewed nor ended the pause in time."""
    in_storm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceChange:
    """RoCE frames: the total count, and the marks and CNPs since the previous statistics."""

    frames: int
    frames_per_s: float
    ce_share: float
    cnps_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairChange:
    """RoCE frames to a queue pair: total count, and rates and problems since the previous statistics."""

    source: str
    destination: str
    queue_pair: int
    frames: int
    bits_per_s: float
    ce_share: float
    cnps: int
    """CNPs that answer these frames."""
    psns_missing: int
    psn_repeats: int
    naks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Statistics of a span of ``span_ns``; ``frames`` and ``octets`` are totals since the start."""

    span_ns: int
    frames: int
    octets: int
    frames_per_s: float
    bits_per_s: float
    kinds: tuple[KindChange, ...]
    points: tuple[PointChange, ...] = field(metadata=in_json("congestion_points"))
    pauses: tuple[PauseChange, ...]
    roce: RoceChange | None = None
    queue_pairs: tuple[QueuePairChange, ...] = ()
    """The queue pairs with the most problems since the start, at most `MAX_QUEUE_PAIRS`."""
    neighbours: tuple[Neighbour, ...] = ()
    """The stations that currently send LLDP."""


def change_between(before: Statistics | None, after: Statistics, span_ns: int) -> Change:
    """Return the change between two statistics that are ``span_ns`` apart.

    ``before`` is ``None`` for the change since the start.
    """
    per_second = NS_PER_S / max(1, span_ns)
    previous = {each.kind.name: (each.frames, each.octets) for each in before.kinds} if before else {}
    points = {(each.kind, each.cpid): each.frames for each in before.congestion_points} if before else {}
    paused = {key: each.paused_ns for key, each in _paused(before)} if before else {}
    storms = after.pauses.storms if after.pauses is not None else ()
    lasting = {
        (storm.source, storm.priority)
        for storm in storms
        if storm.restored_ns is None and storm.seen != "traffic"
    }
    frames, octets = (before.frames, before.octets) if before else (0, 0)
    return Change(
        span_ns=span_ns,
        frames=after.frames,
        octets=after.octets,
        frames_per_s=(after.frames - frames) * per_second,
        bits_per_s=8 * (after.octets - octets) * per_second,
        kinds=tuple(
            KindChange(
                kind=each.kind,
                frames=each.frames,
                frames_per_s=(each.frames - previous.get(each.kind.name, (0, 0))[0]) * per_second,
                bits_per_s=8 * (each.octets - previous.get(each.kind.name, (0, 0))[1]) * per_second,
            )
            for each in after.kinds
        ),
        points=tuple(
            PointChange(
                kind=each.kind,
                cpid=each.cpid,
                frames=each.frames,
                frames_per_s=(each.frames - points.get((each.kind, each.cpid), 0)) * per_second,
            )
            for each in after.congestion_points
        ),
        pauses=tuple(
            PauseChange(
                source=source,
                priority=priority,
                frames=each.pauses + each.resumes,
                paused_ns=each.paused_ns,
                share=(each.paused_ns - paused.get((source, priority), 0)) / max(1, span_ns),
                transitions=each.transitions or 0,
                recent_ns=each.recent_ns,
                recent_paused_ns=each.recent_paused_ns or 0,
                expired=each.expired or 0,
                in_storm=(source, priority) in lasting,
            )
            for (source, priority), each in _paused(after)
        ),
        roce=_roce(before.roce if before is not None else None, after.roce, per_second),
        queue_pairs=_queue_pairs(before.roce if before is not None else None, after.roce, per_second),
        neighbours=after.neighbours,
    )


MAX_QUEUE_PAIRS = 64


def _queue_pairs(
    before: RoceTraffic | None, after: RoceTraffic | None, per_second: float
) -> tuple[QueuePairChange, ...]:
    earlier = {_ends(each): _counted(each) for each in (before.queue_pairs if before is not None else ())}
    changes = []
    for each in after.queue_pairs[:MAX_QUEUE_PAIRS] if after is not None else ():
        now = _counted(each)
        old = earlier.get(_ends(each), (0,) * len(now))
        frames, octets, ce, cnps, missing, repeats, naks = (a - b for a, b in zip(now, old, strict=True))
        changes.append(
            QueuePairChange(
                source=each.source,
                destination=each.destination,
                queue_pair=each.queue_pair,
                frames=each.frames,
                bits_per_s=8 * octets * per_second,
                ce_share=ce / max(1, frames),
                cnps=cnps,
                psns_missing=missing,
                psn_repeats=repeats,
                naks=naks,
            )
        )
    return tuple(changes)


def _ends(each: QueuePair) -> tuple[str, str, int]:
    return each.source, each.destination, each.queue_pair


def _counted(each: QueuePair) -> tuple[int, ...]:
    psns = each.psns_missing or 0, each.psn_repeats or 0
    return each.frames, each.octets, each.ce_frames, each.cnps_against, *psns, each.refusals_against


def _roce(before: RoceTraffic | None, after: RoceTraffic | None, per_second: float) -> RoceChange | None:
    if after is None:
        return None
    now, old = (
        (0, 0, 0) if each is None else (each.frames, sum(each.ce_over_time), sum(each.cnps_over_time))
        for each in (after, before)
    )
    frames, ce, cnps = (a - b for a, b in zip(now, old, strict=True))
    return RoceChange(
        frames=after.frames,
        frames_per_s=frames * per_second,
        ce_share=ce / max(1, frames),
        cnps_per_s=cnps * per_second,
    )


def _paused(statistics: Statistics) -> list[tuple[tuple[bytes | None, int | None], ClassPause]]:
    """Return the pauses by sender and priority."""
    senders = statistics.pauses.senders if statistics.pauses else ()
    return [((sender.source, each.priority), each) for sender in senders for each in sender.classes]


class Rotation(Output):
    """A writer of batches to ``path``, or to rotating files with names like ``name_00001.pcapng``.

    A new file starts if a frame would make the current file longer than ``octets`` before compression. A new
    file also starts ``span_ns`` after the first frame of the current file. A file can always store at least
    one frame. The last ``keep`` files remain; ``None`` means that all files remain. ``interfaces`` are the
    interfaces of the batches. Raises OutputError if a file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        interfaces: Sequence[Interface],
        *,
        octets: int | None = None,
        span_ns: int | None = None,
        keep: int | None = None,
        force: bool = False,
    ) -> None:
        self.files: deque[str] = deque()
        """Finished files that still exist in the folder."""
        self.frames: int = 0
        self._path = PurePath(path)
        self._interfaces = interfaces
        self._octets = octets
        self._span_ns = span_ns
        self._keep = keep
        self._force = force
        self._turns = octets is not None or span_ns is not None
        self._number = 0
        self._name = ""
        self._left = 0
        self._first_ns: int | None = None
        self._writer = self._begin()

    def _begin(self) -> PcapWriter | PcapngWriter:
        self._number += 1
        self._name = os.fspath(self._path)
        if self._turns:
            suffix = "".join(self._path.suffixes)
            stem = self._path.name.removesuffix(suffix)
            self._name = os.fspath(self._path.with_name(f"{stem}_{self._number:05}{suffix}"))
        self._first_ns = None
        writer = self._opened()
        self.sink = writer.sink
        self._left = (1 << 62 if self._octets is None else self._octets) - writer.sink.octets
        return writer

    def _opened(self) -> PcapWriter | PcapngWriter:
        if format_of(self._name, "pcapng") == "pcapng":
            return PcapngWriter(self._name, interfaces=self._interfaces, force=self._force)
        linktypes = {each.linktype for each in self._interfaces}
        if len(linktypes) > 1:
            needed = "interfaces of one kind in a pcap file"
            raise OutputError(path=self._name, needed=needed, got="several; write pcapng instead")
        return PcapWriter(self._name, linktype=linktypes.pop(), force=self._force)

    def write(self, batch: Batch) -> None:
        """Write frames to one or more files."""
        at = 0
        while at < len(batch):
            rest = batch.select(np.arange(at, len(batch))) if at else batch
            fitting = self._fitting(rest)
            if not fitting:
                self.close()
                self._writer = self._begin()
                continue
            self._put(rest if fitting == len(rest) else rest.select(np.arange(fitting)))
            at += fitting

    def flush(self) -> None:
        """Flush the written frames, so that the file stays readable if this process terminates."""
        self.sink.flush()

    def _fitting(self, batch: Batch) -> int:
        """Return the number of frames of the batch that fit into the open file."""
        if not self._turns:
            return len(batch)
        if self._first_ns is None:
            # an empty file accepts a frame of any length
            self._first_ns = int(batch.time_ns[0])
            return max(1, self._within(batch))
        return self._within(batch)

    def _within(self, batch: Batch) -> int:
        ends = np.cumsum(self._writer.builder.record_octets(batch.captured))
        fitting = int(np.searchsorted(ends, self._left, side="right"))
        if self._span_ns is not None and self._first_ns is not None:
            late = np.flatnonzero(batch.time_ns - self._first_ns >= self._span_ns)
            fitting = min(fitting, int(late[0])) if len(late) else fitting
        return fitting

    def _put(self, batch: Batch) -> None:
        self._writer.write_batch(batch)
        self._left -= int(self._writer.builder.record_octets(batch.captured).sum())
        self.frames += len(batch)

    def close(self) -> None:
        """Finish the current file."""
        self._writer.close()
        self.files.append(self._name)
        while self._keep is not None and len(self.files) > self._keep:
            with suppress(FileNotFoundError):
                os.unlink(self.files.popleft())
