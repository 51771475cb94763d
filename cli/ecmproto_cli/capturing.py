"""Handlers of interrupts, and captures of interfaces, which run until an interrupt.

During work on a file, `DeferredInterrupt` defers Ctrl-C until all written data is complete.
`StoppingInterrupt` stops a capture of an interface, and the result of the capture is complete.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.options import F

if TYPE_CHECKING:
    from ecmproto.frames.capture import CaptureReader
    from ecmproto.frames.capture.linux.reader import InterfaceReader
    from ecmproto.frames.filter import Filter
    from ecmproto.wire.codec import EtherTypes


def opened(
    paths: Sequence[str],
    *,
    inner: bool,
    ethertypes: EtherTypes,
    trailer: str | None = None,
    batch_frames: int | None = None,
) -> CaptureReader:
    """Open captures that are read as one capture, with the innermost frames if ``inner``.

    ``trailer`` is described in `open_innermost`, and ``batch_frames`` in `open_captures`. The modules that
    change frames are imported only if they are needed, so other commands do not wait for these imports.
    """
    from ecmproto.frames.capture import open_captures
    from ecmproto.frames.capture.reader import BATCH_FRAMES
    from ecmproto.memory import keep_freed_memory

    keep_freed_memory()
    frames = batch_frames or BATCH_FRAMES
    if not inner and trailer is None:
        return open_captures(paths, batch_frames=frames)
    from ecmproto.frames.batch.inner import open_innermost

    return open_innermost(paths, outer=not inner, trailer=trailer, ethertypes=ethertypes, batch_frames=frames)


@contextmanager
def handled(
    signals: Iterable[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Call ``handler`` for signals while the context is active. Call this function in the main thread."""
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


class DeferredInterrupt:
    """A context that defers the first interrupt until the next `check`; the second interrupt takes effect at
    once.

    ``signals`` are the handled signals.
    """

    def __init__(self, *signals: signal.Signals) -> None:
        self._came = False
        self._at_once = False
        self._signals = signals or (signal.SIGINT,)
        self._before: dict[signal.Signals, Any] = {}

    def check(self) -> None:
        """Raise KeyboardInterrupt if an interrupt was deferred."""
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise interrupts at once in the context, for long work that writes nothing."""
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

    def __enter__(self) -> DeferredInterrupt:
        # only the main thread may install signal handlers and receives signals
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


_SAVED_EVERY_NS = 500_000_000
"""The interval of flushes, which is less than a second even with the delays of a ring and an idle reader."""


def interface_option(help: str) -> Callable[[F], F]:
    """Return the option ``-i IF``."""
    return click.option("-i", "--interface", metavar="IF", help=help)


def captured(
    interface: str,
    *,
    filter: Filter | None,
    ethertypes: EtherTypes,
    snap_octets: int | None = None,
    promiscuous: bool = True,
    idle_batches: bool = False,
    outer: bool = True,
) -> InterfaceReader:
    """Return the reader of an interface; the kernel may leave out frames that ``filter`` does not select.

    Without ``outer``, the filter applies to the innermost frames.
    """
    from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS
    from ecmproto.frames.capture.linux.interface import interface_facts
    from ecmproto.frames.capture.linux.reader import open_interface
    from ecmproto.frames.filter.prefilter import prefilter

    linktype = interface_facts(interface).linktype
    program = (
        prefilter(filter, linktype=linktype, snap_octets=snap_octets, ethertypes=ethertypes, outer=outer)
        if filter is not None
        else ()
    )
    return open_interface(
        interface,
        promiscuous=promiscuous,
        snap_octets=snap_octets or MAX_CUT_OCTETS,
        program=program,
        idle_batches=idle_batches,
    )


class Saving:
    """A timer that calls ``flush`` every half second, for files of a capture that may end at any time.

    `look` must be called more often than this. A reader with ``idle_batches`` returns often enough.
    """

    def __init__(self, flush: Callable[[], None]) -> None:
        self._flush = flush
        self._last_ns = time.monotonic_ns()

    def look(self) -> None:
        """Flush if the interval has elapsed."""
        now_ns = time.monotonic_ns()
        if now_ns - self._last_ns >= _SAVED_EVERY_NS:
            self._flush()
            self._last_ns = now_ns


class StoppingInterrupt:
    """A context in which the first SIGINT or SIGTERM calls ``stop``; the second signal takes effect at once.

    The context is for work that runs until it is stopped, and whose result is complete when it is stopped.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.came = False
        """Whether a signal was received."""
        self._stop = stop

    def check(self) -> None:
        """Do nothing, because ``stop`` ends the work, unlike with `DeferredInterrupt`."""

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Do nothing, as in `check`."""
        yield

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
        self._stop()

    @contextmanager
    def handled(self) -> Iterator[StoppingInterrupt]:
        """Handle the signals while the context is active."""
        # only the main thread may install signal handlers and receives signals
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        with handled((signal.SIGINT, signal.SIGTERM), self._take):
            yield self


def interrupts(reader: CaptureReader) -> AbstractContextManager[DeferredInterrupt | StoppingInterrupt]:
    """Return the interrupt handler for ``reader``, which stops a capture or ends work on a file."""
    # only the reader of an interface has ``stop``; importing its class would slow down commands on files
    stop = getattr(reader, "stop", None)
    return DeferredInterrupt() if stop is None else StoppingInterrupt(stop).handled()
