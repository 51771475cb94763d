"""Ctrl-C held back until the work is at a place where it can stop with everything written whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class HeldInterrupt:
    """While entered, a first interrupt waits for the next `check`; a second one comes through at once.

    ``signals`` are what interrupts.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self._came = False
        self._at_once = False
        self._signals = signals or (signal.SIGINT,)
        self._before: dict[signal.Signals, Any] = {}

    def check(self) -> None:
        """Raise the KeyboardInterrupt that came, if one did."""
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let an interrupt through at once meanwhile: for long work that writes nothing."""
        self.check()
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._came or self._at_once:
            raise KeyboardInterrupt
        self._came = True

    def __enter__(self) -> HeldInterrupt:
        # only the main thread may ask for signals, and only it gets them
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._hold) for number in self._signals}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if error is None:
            self.check()
