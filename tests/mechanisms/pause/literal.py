"""A literal transcription of algorithms §6, sentence by sentence, over complete histories and with exact
numbers.

The transcription contains no code from ecmproto.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

QUANTUM_BITS = 512


class LiteralSender:
    """The rule "above high XOFF with 0xFFFF, refreshed at half its time; at or below low XON"."""

    def __init__(self, *, high: int, low: int, rate: int, quanta: int = 0xFFFF) -> None:
        self.high, self.low, self.quanta = high, low, quanta
        self.half = ceil(Fraction(quanta * QUANTUM_BITS * 10**9, rate)) // 2
        self.stopped = False
        self.told = 0

    def occupancy(self, now: int, octets: int) -> int | None:
        """Return the quanta of the frame to send, if any."""
        if not self.stopped and octets > self.high:
            self.stopped, self.told = True, now
            return self.quanta
        if self.stopped and octets <= self.low:
            self.stopped = False
            return 0
        return None

    def clock(self, now: int) -> int | None:
        if self.stopped and now >= self.told + self.half:
            self.told = now
            return self.quanta
        return None


class LiteralReceiver:
    """ "A received frame overwrites only the enabled priorities' timers (0 resumes)": the history itself."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.history: list[tuple[int, int, Sequence[int]]] = []

    def receive(self, end_of_reception: int, enabled: int, times: Sequence[int]) -> None:
        self.history.append((end_of_reception, enabled, times))

    def _pauses(self, priority: int) -> list[tuple[int, int]]:
        """The times at which the priority's timer ran: from, to."""
        mine = [(end, times[priority]) for end, enabled, times in self.history if enabled >> priority & 1]
        ends = [end for end, _ in mine[1:]]
        pauses = []
        for index, (end, quanta) in enumerate(mine):
            until = end + ceil(Fraction(quanta * QUANTUM_BITS * 10**9, self.rate))
            pauses.append((end, min(until, ends[index]) if index < len(ends) else until))
        return pauses

    def paused(self, priority: int, now: int) -> bool:
        return any(start <= now < stop for start, stop in self._pauses(priority))

    def total(self, priority: int, now: int) -> int:
        return sum(max(0, min(stop, now) - start) for start, stop in self._pauses(priority))
