"""What came to a port, counted batch by batch."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.machine import Machine
from ecmproto.mechanisms.protocol import PAUSE_KIND, PFC_KIND, PROBE_KIND, SILENT
from ecmproto.replay.spans import Spans

_LARGEST_QNTZ_FB = 63
_SHARED_KINDS = {SILENT: "sample", PAUSE_KIND: "PAUSE", PFC_KIND: "PFC", PROBE_KIND: "probe"}


class Timed(Protocol):
    """Frames by columns."""

    @property
    def time_ns(self) -> NDArray[np.int64]:
        """When they came."""

    @property
    def octets(self) -> NDArray[np.int64]:
        """Their lengths."""


class PortCounts:
    """Frames and octets that came to a port and that it dropped; its samples and messages."""

    def __init__(self, machine: Machine) -> None:
        self.frames = self.octets = self.dropped_frames = self.dropped_octets = 0
        self.samples = self.unanswered = 0
        self.drops = Spans(1)
        """Dropped frames over time."""
        self.messages: Counter[str] = Counter()
        self.qntz_fb = np.zeros(_LARGEST_QNTZ_FB + 1, np.int64)
        self._machine = machine
        self._no_samples = [PAUSE_KIND, PFC_KIND, PROBE_KIND, *machine.answers]

    def add_frames(self, frames: Timed, came: NDArray[np.bool_], dropped: NDArray[np.bool_]) -> None:
        """Count the frames that ``came``, and those of them that were ``dropped``."""
        lost_ns = frames.time_ns[dropped]
        self.drops.add(np.zeros(len(lost_ns), np.int64), lost_ns, np.ones(len(lost_ns)))
        self.frames += int(np.count_nonzero(came))
        self.octets += int(frames.octets.sum(where=came))
        self.dropped_frames += len(lost_ns)
        self.dropped_octets += int(frames.octets[dropped].sum())

    def add_messages(self, messages: NDArray[Any]) -> None:
        """Count messages and silent samples."""
        kind, sent = messages["kind"], messages["sent"]
        sampled = (messages["cause"] >= 0) & np.isin(kind, self._no_samples, invert=True)
        self.samples += int(sampled.sum())
        self.unanswered += int((sampled & (kind != SILENT) & (sent == 0)).sum())
        for value, count in zip(*np.unique(kind[sent == 1], return_counts=True), strict=True):
            self.messages[kind_name(self._machine, int(value))] += int(count)
        self.qntz_fb += np.bincount(messages["qntz_fb"][sampled], minlength=_LARGEST_QNTZ_FB + 1)


def kind_name(machine: Machine, kind: int) -> str:
    """Return what a kind of message is called."""
    return machine.kinds.get(kind) or _SHARED_KINDS.get(kind) or f"kind {kind}"
