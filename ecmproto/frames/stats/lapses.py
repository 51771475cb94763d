"""Lapses of pauses at a receiver: gaps between pause frames that are longer than the quanta cover.

A frame with quanta pauses a class until these quanta have elapsed. The pause lapses if the next frame for the
class arrives later. A frame without quanta ends the pause. No pause can lapse until the next frame with
quanta.

>>> lapses = Lapses({"eth1": 400 * 10**9})
>>> for batch in reader:
...     lapses.take("eth1", batch)
>>> lapses.held()
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ecmproto.frames.batch.headers import TYPE_AT, fixed, signed, two_octets
from ecmproto.frames.capture.batch import Batch, Int64, Octets
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_records
from ecmproto.units import NS_PER_S, QUANTUM_BITS

LINK = 8
"""Class number of PAUSE, which stops the whole link. Classes 0 to 7 are the priorities of PFC."""
_MAC_CONTROL = 0x8808
_PAUSE, _PFC = 1, 0x101
_PAUSE_OCTETS, _PFC_OCTETS = 18, 34
MAX_GAPS = 1 << 20
_LISTED_GAPS = 1000


class Gap(NamedTuple):
    """A gap between pause frames that is longer than the quanta allow."""

    begin_ns: int
    """Time of the frame before the gap, on the clock of the receiver."""
    length_ns: int
    taken_ns: int
    """Part of the gap, in ns, in which the host had taken the processors away from the sender."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """Gaps longer than the quanta allow, without the processor time that the host took from the sender."""

    gaps: int
    lapsed_ns: int
    longest_ns: int
    """Longest gap in ns, even if the quanta cover the gap."""
    first: tuple[Gap, ...]
    """First 1000 gaps, with gaps that the quanta cover after subtraction of the processor time."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Held:
    """Frames of one class on one port, and the gaps that the pauses of this class did not cover."""

    port: str
    priority: int | None
    """Priority of the class, or ``None`` for the whole link."""
    frames: int
    """Number of frames with a pause time greater than 0."""
    releases: int
    gaps: int
    lapsed_ns: int
    """Total time in ns by which gaps exceeded the quanta."""
    longest_lapse_ns: int
    longest_ns: int
    """Longest gap in ns between a frame with a pause time and the next frame."""
    first_lapse_ns: int | None
    """End of the first pause that lapsed, on the clock of the receiver."""
    late: Int64 = dataclasses.field(repr=False)
    """Row for each gap: times of the frames before and after the gap, with the end of the pause between."""

    def remaining(self, stolen: Int64) -> Remaining:
        """Return the gaps that remain after subtraction of the intervals ``stolen``.

        Each row of ``stolen`` is the start and the end of an interval. The rows are sorted.
        """
        rows = self.late
        before = np.concatenate([[0], np.cumsum(stolen[:, 1] - stolen[:, 0])])

        def stolen_before(time_ns: Int64) -> Int64:
            at = np.searchsorted(stolen[:, 0], time_ns, side="right")
            into: Int64 = np.minimum(time_ns - stolen[at - 1, 0], stolen[at - 1, 1] - stolen[at - 1, 0])
            return np.where(at > 0, before[at - 1] + into, 0)

        whole_ns = rows[:, 2] - rows[:, 0]
        stolen_ns = (
            stolen_before(rows[:, 2]) - stolen_before(rows[:, 0]) if len(stolen) else np.zeros_like(whole_ns)
        )
        gap_ns = whole_ns - stolen_ns
        lapse_ns = np.maximum(gap_ns - (rows[:, 1] - rows[:, 0]), 0)
        longest_ns = self.longest_ns if self.gaps == 0 else int(gap_ns.max())
        return Remaining(
            gaps=int((lapse_ns > 0).sum()) + self.gaps - len(rows), lapsed_ns=int(lapse_ns.sum()),
            longest_ns=longest_ns,
            first=tuple(
                itertools.starmap(
                    Gap, np.stack([rows[:, 0], whole_ns, stolen_ns], axis=1)[:_LISTED_GAPS].tolist()
                )
            ),
        )  # fmt: skip

    def document(self) -> dict[str, object]:
        """Return the counts as plain data."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.repr}


class _ClassState:
    """Counts of one class, and the state after the class's latest frame. This class declares a record."""

    frames: int
    releases: int
    gaps: int
    lapsed_ns: int
    longest_lapse_ns: int
    longest_ns: int
    first_lapse_ns: int
    until_ns: int
    """End of the pause that the latest frame requested."""
    last_ns: int
    holds: int
    """1 if the latest frame had a pause time greater than 0, else 0."""


_COUNTS = ("frames", "releases", "gaps", "lapsed_ns", "longest_lapse_ns", "longest_ns")


class Lapses:
    """The pauses of all classes on several ports. ``rates_bps`` maps each port to the rate of its link."""

    def __init__(self, rates_bps: Mapping[str, int]) -> None:
        self._rates_bps = dict(rates_bps)
        self._classes = {port: new_records(_ClassState, LINK + 1) for port in rates_bps}
        self._late: dict[str, list[Int64]] = {port: [np.zeros((0, 4), np.int64)] for port in rates_bps}

    def take(self, port: str, batch: Batch) -> None:
        """Process the frames that arrived on a port. Frames other than PAUSE and PFC are ignored."""
        classes = self._classes[port]
        late = np.empty((LINK * len(batch), 4), np.int64)
        before = sum(state.gaps for state in classes)
        count = _follow(
            fixed(batch.buffer), fixed(batch.offset), fixed(batch.captured), fixed(batch.time_ns),
            self._rates_bps[port], classes, late,
        )  # fmt: skip
        if count and before < MAX_GAPS:
            self._late[port].append(late[:count].copy())

    def held(self) -> list[Held]:
        """Return the counts of each class with frames, sorted by port and class."""
        pending = []
        for port, classes in sorted(self._classes.items()):
            late = np.concatenate(self._late[port])
            pending += [
                Held(
                    port=port,
                    priority=None if number == LINK else number,
                    **{name: int(getattr(state, name)) for name in _COUNTS},
                    first_lapse_ns=int(state.first_lapse_ns) if state.gaps else None,
                    late=late[late[:, 0] == number, 1:],
                )
                for number, state in enumerate(classes)
                if state.frames or state.releases
            ]
        return pending


@compiled
def _follow(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    time_ns: Int64,
    rate_bps: int,
    classes: Sequence[_ClassState],
    late: Int64,
) -> int:
    """Count frames in the state of their ``classes``, write gaps to ``late``, return the number of gaps."""
    result = 0
    for row in range(len(offset)):
        at = offset[row]
        if captured[row] < _PAUSE_OCTETS or two_octets(buffer, at + TYPE_AT) != _MAC_CONTROL:
            continue
        opcode = two_octets(buffer, at + 14)
        if opcode == _PAUSE:
            first, enabled, times_at = LINK, 1, at + 16
        elif opcode == _PFC and captured[row] >= _PFC_OCTETS:
            first, enabled, times_at = 0, signed(buffer[at + 17]), at + 18
        else:
            continue
        for number in range(8):
            if not enabled >> number & 1:
                continue
            state, now = classes[first + number], time_ns[row]
            quanta = two_octets(buffer, times_at + 2 * number)
            if state.holds:
                state.longest_ns = max(state.longest_ns, now - state.last_ns)
                lapse_ns = now - state.until_ns
                if lapse_ns > 0:
                    if state.gaps == 0:
                        state.first_lapse_ns = state.until_ns
                    state.gaps += 1
                    state.lapsed_ns += lapse_ns
                    state.longest_lapse_ns = max(state.longest_lapse_ns, lapse_ns)
                    late[result, 0] = first + number
                    late[result, 1], late[result, 2], late[result, 3] = state.last_ns, state.until_ns, now
                    result += 1
            if quanta:
                state.frames += 1
            else:
                state.releases += 1
            state.last_ns = now
            state.until_ns = now - -quanta * QUANTUM_BITS * NS_PER_S // rate_bps
            state.holds = int(quanta > 0)
    return result
