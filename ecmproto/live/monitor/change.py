"""What happened between two looks at the same statistics, as rates."""

from __future__ import annotations

from dataclasses import dataclass

from ecmproto.stats import Statistics
from ecmproto.stats.statistics import Kind
from ecmproto.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChange:
    """Frames of a kind: all so far, and how many a second since the look before."""

    kind: Kind
    frames: int
    frames_per_s: float
    bits_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PointChange:
    """Messages of a congestion point: ``kind`` is cnm, ecm, bcn or e2cm."""

    kind: str
    cpid: int
    frames: int
    frames_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChange:
    """For how long a sender of PAUSE (``priority`` None) or PFC stopped its link partner.

    ``share`` is the part of the time since the look before; it may exceed 1 where a pause that was asked for
    lasts beyond it.
    """

    source: bytes | None
    priority: int | None
    frames: int
    paused_ns: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happened in ``span_ns``; ``frames`` and ``octets`` are all so far."""

    span_ns: int
    frames: int
    octets: int
    frames_per_s: float
    bits_per_s: float
    kinds: tuple[KindChange, ...]
    points: tuple[PointChange, ...]
    pauses: tuple[PauseChange, ...]


def change(before: Statistics | None, after: Statistics, span_ns: int) -> Change:
    """Return what happened in the ``span_ns`` between two looks (None: since the beginning)."""
    per_second = NS_PER_S / max(1, span_ns)
    kinds = {each.kind.name: (each.frames, each.octets) for each in before.kinds} if before else {}
    points = {(each.kind, each.cpid): each.frames for each in before.congestion_points} if before else {}
    paused = {key: paused_ns for key, _, paused_ns in _paused(before)} if before else {}
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
                frames_per_s=(each.frames - kinds.get(each.kind.name, (0, 0))[0]) * per_second,
                bits_per_s=8 * (each.octets - kinds.get(each.kind.name, (0, 0))[1]) * per_second,
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
                frames=count,
                paused_ns=paused_ns,
                share=(paused_ns - paused.get((source, priority), 0)) / max(1, span_ns),
            )
            for (source, priority), count, paused_ns in _paused(after)
        ),
    )


def _paused(statistics: Statistics) -> list[tuple[tuple[bytes | None, int | None], int, int]]:
    """Return senders and classes, their frames, and for how long each was stopped."""
    senders = statistics.pauses.senders if statistics.pauses else ()
    return [
        ((sender.source, each.priority), each.pauses + each.resumes, each.paused_ns)
        for sender in senders
        for each in sender.classes
    ]
