"""Lapses of pauses at a receiver: gaps between frames that are longer than the quanta cover.

A frame with a time pauses a class until its quanta have passed; the next frame for the class has to come
before.  A frame without quanta ends the pause, and nothing lapses until the next one with quanta.

>>> lapses = Lapses({"eth1": 400 * 10**9})
>>> for batch in reader:
...     lapses.take("eth1", batch)
>>> lapses.held()
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ecmproto.frames.capture.batch import Batch, Int64
from ecmproto.units import NS_PER_S, QUANTUM_BITS

LINK = 8
"""The class of PAUSE, which stops the link; 0 to 7 are priorities."""
_MAC_CONTROL = bytes.fromhex("8808")
_PAUSE, _PFC = 1, 0x101
_PAUSE_OCTETS, _PFC_OCTETS = 18, 34


MOST_GAPS = 1 << 20
_LISTED_GAPS = 1000


class Gap(NamedTuple):
    """A gap that the quanta do not cover."""

    begin_ns: int
    """The frame before it, by the receiver's clock."""
    length_ns: int
    taken_ns: int
    """The part of it in which the machine had taken the sender's processors."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Gaps that the quanta do not cover, without the time that a machine took from its sender."""

    gaps: int
    lapsed_ns: int
    longest_ns: int
    """The longest gap, a gap that the quanta cover included."""
    first: tuple[Gap, ...]
    """The first 1,000 gaps, also those that are covered without the time that was taken."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Held:
    """One class of one port: its frames, and the gaps that its pauses did not cover."""

    port: str
    priority: int | None
    """None for the link."""
    frames: int = 0
    """Frames with a time."""
    releases: int = 0
    gaps: int = 0
    lapsed_ns: int = 0
    """The total time beyond what the quanta cover."""
    longest_lapse_ns: int = 0
    longest_ns: int = 0
    """The longest gap between a frame with a time and the next one."""
    first_lapse_ns: int | None = None
    """The end of the first pause that lapsed, by the receiver's clock."""
    _late: list[Int64] = dataclasses.field(default_factory=list, repr=False)
    """Rows of each gap: the frame before it, the end of that one's pause, the frame after it."""
    _until_ns: int = dataclasses.field(default=0, repr=False)
    _last_ns: int = dataclasses.field(default=0, repr=False)
    _open: bool = dataclasses.field(default=False, repr=False)

    def take(self, time_ns: Int64, quanta: Int64, rate_bps: int) -> None:
        """Take frames in the order in which they came."""
        if not len(time_ns):
            return
        asking = quanta > 0
        until_ns = time_ns + -(-quanta * QUANTUM_BITS * NS_PER_S // rate_bps)
        before_until = np.concatenate([[self._until_ns], until_ns[:-1]])
        before_ns = np.concatenate([[self._last_ns], time_ns[:-1]])
        holding = np.concatenate([[self._open], asking[:-1]])
        lapse_ns = np.where(holding, np.maximum(time_ns - before_until, 0), 0)
        late = np.flatnonzero(lapse_ns)
        self.frames += int(asking.sum())
        self.releases += int((~asking).sum())
        self.gaps += len(late)
        self.lapsed_ns += int(lapse_ns.sum())
        self.longest_lapse_ns = max(self.longest_lapse_ns, int(lapse_ns.max()))
        if holding.any():
            self.longest_ns = max(self.longest_ns, int((time_ns - before_ns)[holding].max()))
        if self.gaps - len(late) < MOST_GAPS:
            self._late.append(np.stack([before_ns, before_until, time_ns], axis=1)[late])
        if len(late) and self.first_lapse_ns is None:
            self.first_lapse_ns = int(before_until[late[0]])
        self._until_ns, self._last_ns, self._open = int(until_ns[-1]), int(time_ns[-1]), bool(asking[-1])

    def remaining(self, taken: Int64) -> Remaining:
        """Return the gaps that remain without the times ``taken``: rows of begin and end, in order."""
        rows = np.concatenate([np.zeros((0, 3), np.int64), *self._late])
        before = np.concatenate([[0], np.cumsum(taken[:, 1] - taken[:, 0])])

        def taken_until(time_ns: Int64) -> Int64:
            at = np.searchsorted(taken[:, 0], time_ns, side="right")
            into: Int64 = np.minimum(time_ns - taken[at - 1, 0], taken[at - 1, 1] - taken[at - 1, 0])
            return np.where(at > 0, before[at - 1] + into, 0)

        whole_ns = rows[:, 2] - rows[:, 0]
        taken_ns = (
            taken_until(rows[:, 2]) - taken_until(rows[:, 0]) if len(taken) else np.zeros_like(whole_ns)
        )
        gap_ns = whole_ns - taken_ns
        lapse_ns = np.maximum(gap_ns - (rows[:, 1] - rows[:, 0]), 0)
        longest_ns = self.longest_ns if self.gaps == 0 else int(gap_ns.max())
        return Remaining(
            gaps=int((lapse_ns > 0).sum()) + self.gaps - len(rows), lapsed_ns=int(lapse_ns.sum()),
            longest_ns=longest_ns,
            first=tuple(
                itertools.starmap(
                    Gap, np.stack([rows[:, 0], whole_ns, taken_ns], axis=1)[:_LISTED_GAPS].tolist()
                )
            ),
        )  # fmt: skip

    def document(self) -> dict[str, object]:
        """Return it as plain data."""
        fields = (each.name for each in dataclasses.fields(self) if not each.name.startswith("_"))
        return {name: getattr(self, name) for name in fields}


class Lapses:
    """The classes of several ports; ``rates_bps`` has the rate of each port's link."""

    def __init__(self, rates_bps: Mapping[str, int]) -> None:
        self._rates_bps = dict(rates_bps)
        self._held: dict[tuple[str, int], Held] = {}

    def take(self, port: str, batch: Batch) -> None:
        """Take the frames that came to a port; those that are neither PAUSE nor PFC do not count."""
        octets = batch.buffer
        offset = batch.offset[batch.captured >= _PAUSE_OCTETS]
        time_ns, captured = (
            each[batch.captured >= _PAUSE_OCTETS] for each in (batch.time_ns, batch.captured)
        )
        opcode = octets[offset + 14].astype(np.int64) << 8 | octets[offset + 15]
        control = (octets[offset + 12] == _MAC_CONTROL[0]) & (octets[offset + 13] == _MAC_CONTROL[1])
        link = control & (opcode == _PAUSE)
        self._take(port, LINK, time_ns[link], _numbers(octets, offset[link] + 16))
        pfc = control & (opcode == _PFC) & (captured >= _PFC_OCTETS)
        offset, time_ns = offset[pfc], time_ns[pfc]
        enabled = octets[offset + 17]
        for priority in range(8):
            rows = enabled & 1 << priority != 0
            self._take(port, priority, time_ns[rows], _numbers(octets, offset[rows] + 18 + 2 * priority))

    def _take(self, port: str, priority: int, time_ns: Int64, quanta: Int64) -> None:
        if len(time_ns):
            named = None if priority == LINK else priority
            held = self._held.setdefault((port, priority), Held(port=port, priority=named))
            held.take(time_ns, quanta, self._rates_bps[port])

    def held(self) -> list[Held]:
        """Return each class of each port that a frame came for, by port and class."""
        return [self._held[key] for key in sorted(self._held)]


def _numbers(octets: np.ndarray[tuple[int], np.dtype[np.uint8]], offset: Int64) -> Int64:
    """Return the 16-bit numbers at offsets."""
    numbers: Int64 = octets[offset].astype(np.int64) << 8 | octets[offset + 1]
    return numbers
