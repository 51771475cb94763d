"""Time and memory that a piece of work may take, in this process."""

from __future__ import annotations

import dataclasses
import signal
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

DEFAULT_SECONDS = 10.0
DEFAULT_MEMORY_OCTETS = 256_000_000


class TooSlowError(Exception):
    """Work took more time than it may."""


class TooLargeError(Exception):
    """Work took more memory than it may."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What each check of a batch may take.

    Time is the processor's, so that other programs do not matter; it is watched in the main thread, while
    Python runs.  Memory is what Python and numpy allocate; measuring it takes a multiple of the time.
    """

    seconds: float = DEFAULT_SECONDS
    memory_octets: int = DEFAULT_MEMORY_OCTETS

    @contextmanager
    def in_time(self, factor: float = 1) -> Iterator[None]:
        """Raise TooSlowError in the middle of work that takes ``factor`` times as long as it may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, _ring)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds * factor)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Raise TooLargeError behind work that took too much at some time."""
        tracemalloc.start()
        try:
            yield
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if peak > self.memory_octets:
            raise TooLargeError(f"{peak:,} octets")


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooSlowError
