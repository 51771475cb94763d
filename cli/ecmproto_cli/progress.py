"""Progress reports for long work: a bar while a large capture is read on a terminal, else lines.

If a command prints nothing for two seconds, a line on stderr reports the current step and its progress. On a
terminal, each further long step is reported too. `reporting_compilation` reports that kernels are being
compiled. The environment variable in `SWITCH` turns progress reports off if its value is 0.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from ecmproto.errors import counted, escaped
from ecmproto_cli.errors import warn
from ecmproto_cli.terminal import echo, echo_over

if TYPE_CHECKING:
    import threading
    from types import TracebackType

    from ecmproto.executors.running import Tally

T = TypeVar("T")

SWITCH = "ECMPROTO_PROGRESS"
PATIENCE_S = 2.0
_COMPILING_PATIENCE_S = 1.0
_COMPILER = "numba.core.compiler"
_LINE_S, _LINES_S = 0.5, 60.0
"""Minimum intervals between progress lines in seconds: on a terminal, and elsewhere."""
_MAX_FAILURES = 10
_WORTH_OCTETS = 4 << 20
"""Minimum size in octets of a source with a progress bar."""


class Sized(Protocol):
    """A source with known progress."""

    @property
    def octets_read(self) -> int:
        """Number of octets that were read."""

    @property
    def size_octets(self) -> int | None:
        """Size of the source in octets, or None if the size is unknown."""


def is_enabled() -> bool:
    """Return whether progress reports are enabled."""
    return os.environ.get(SWITCH) != "0"


class Work:
    """The current step of a command, which is reported on stderr if the step takes long."""

    def __init__(self) -> None:
        self.reports = 0
        """Number of reports that were printed."""
        self._begun = False
        self._describe: Callable[[], str] | None = None
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        """Start reporting long steps."""
        self.reports = 0
        self._begun = True

    def at(self, step: str | Callable[[], str]) -> None:
        """Set the current step, if reporting was started.

        If ``step`` is a function, it is called only when a report is printed.
        """
        if self._begun:
            self._describe = step if callable(step) else lambda: step
            if self._timer is None or (self.reports and sys.stderr.isatty()):
                if self._timer is not None:
                    self._timer.cancel()
                if is_enabled():
                    import threading

                    self._timer = threading.Timer(PATIENCE_S, self._report)
                    self._timer.daemon = True
                    self._timer.start()

    def end(self) -> None:
        """Stop reporting, because the command writes output or has ended."""
        self._begun = False
        self._describe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report(self) -> None:
        describe = self._describe
        if describe is not None:
            compiling = f": {_compiling()}" if is_compiling() else ""
            echo(f"ecmproto: {describe()}{compiling}", err=True)
            self.reports += 1


work = Work()
"""The current work of the command in this process."""


def is_compiling() -> bool:
    """Return whether a thread of this process is compiling kernels."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_globals.get("__name__") == _COMPILER:
                return True
            frame = frame.f_back
    return False


def _compiling() -> str:
    """Return a text that names the kernel being compiled."""
    under_way = getattr(sys.modules.get("ecmproto.kernels.cache"), "under_way", [])
    return f"compiling{' '.join(['', *under_way[-1:]])}, which only a first run does"


def watched(items: Iterable[T], source: Sized, label: str) -> Iterator[T]:
    """Yield ``items`` and show the progress of reading ``source``."""
    if not is_enabled() or not sys.stderr.isatty() or (source.size_octets or 0) < _WORTH_OCTETS:
        reading(source, label)
        yield from items
        return
    bar: Any = click.progressbar(length=source.size_octets, label=escaped(label), file=sys.stderr)
    work.end()
    with bar:
        done = 0
        for item in items:
            yield item
            bar.update(source.octets_read - done)
            done = source.octets_read


def reading(source: Sized, label: str) -> None:
    """Set reading ``source`` as the current step."""

    def describe() -> str:
        size, read = source.size_octets, source.octets_read
        return f"{label}: {100 * read // size} % read" if size else f"{label}: {read:,} octets read"

    work.at(describe)


@contextmanager
def reporting_compilation() -> Iterator[None]:
    """Print that kernels are being compiled, if the block compiles for more than a second."""
    import threading

    from ecmproto.kernels.sources import when_compiling

    timer = threading.Timer(_COMPILING_PATIENCE_S, _report_compiling)
    timer.daemon = True

    def begin() -> None:
        if not timer.is_alive() and not timer.finished.is_set():
            timer.start()

    when_compiling.append(begin)
    try:
        yield
    finally:
        when_compiling.remove(begin)
        timer.cancel()


def _report_compiling() -> None:
    if is_enabled():
        echo(f"ecmproto: {_compiling()}", err=True)


class TaskProgress:
    """The progress of an executor's tasks.

    On a terminal, a progress line is updated every half second. Elsewhere, a line is printed every minute.
    ``store`` names the file of finished tasks. ``shown`` enables output.
    """

    def __init__(self, tally: Tally, *, store: str | None, shown: bool = True) -> None:
        self.tally = tally
        self._store = store
        self._shown = shown and is_enabled()
        self._began_s = self._reported_s = time.monotonic()
        self._line = False

    def __enter__(self) -> TaskProgress:
        if self._shown:
            work.at(self.text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        late = time.monotonic() >= self._began_s + PATIENCE_S
        if kind is None and self._shown and late and not sys.stderr.isatty():
            tally = self.tally
            echo(f"ecmproto: {tally.finished:,} of {counted(tally.total, tally.noun)}", err=True)

    def text(self) -> str:
        """Return the number of finished tasks, the rate of tasks, and the remaining time as text."""
        tally = self.tally
        parts = [f"{tally.finished:,} of {counted(tally.total, tally.noun)}"]
        if tally.known:
            parts[0] += f" ({tally.known:,} before)"
        if tally.failures:
            parts.append(f"{len(tally.failures):,} failed")
        to_go_s = tally.to_go_s
        if to_go_s is not None:
            parts.append(f"{_figure(tally.rate)} {tally.unit or tally.noun + 's'}/s")
            parts.append(f"{_duration(to_go_s)} to go")
        if tally.workers:
            parts.append(counted(tally.workers, "worker"))
        return ", ".join(parts)

    def show(self, tally: Tally) -> None:
        """Show the progress after a finished task, at most once per interval."""
        if not self._shown:
            return
        terminal = sys.stderr.isatty()
        now_s = time.monotonic()
        if now_s < self._reported_s + (_LINE_S if terminal else _LINES_S):
            return
        self._reported_s = now_s
        work.end()
        self._line = terminal
        if terminal:
            echo_over(self.text())
        else:
            echo(f"ecmproto: {self.text()}", err=True)

    def _clear(self) -> None:
        work.end()
        if self._line:
            echo_over()
            self._line = False

    def print_interrupted(self) -> None:
        """Print the number of finished tasks, and whether the same command continues the work."""
        tally = self.tally
        done = f"{tally.known + tally.done:,} of {counted(tally.total, tally.noun)} done"
        where = f"stored in {self._store}: the same command continues" if self._store else "none is stored"
        echo(f"ecmproto: interrupted: {done}, {where}", err=True)

    def notify(self, sentence: str) -> None:
        """Print a message about a worker."""
        self._clear()
        if self._shown:
            echo(f"ecmproto: {sentence}", err=True)


def _figure(rate: float) -> str:
    return f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}" if rate < 1e6 else f"{rate / 1e6:.1f} million"


def _duration(seconds: float) -> str:
    minutes, hours = round(seconds / 60), seconds / 3600
    return f"{seconds:.0f} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{hours:.1f} h"


def print_failures(tally: Tally) -> bool:
    """Print the failed tasks on stderr, and return whether any task failed."""
    for result in tally.failures[:_MAX_FAILURES]:
        failure = result.failure
        if failure is not None:
            error = "" if failure.error in failure.sentence else f"{failure.error}: "
            warn(f"{result.task.name}: {error}{failure.sentence}")
    more = len(tally.failures) - _MAX_FAILURES
    if more > 0:
        warn(f"{more:,} more failed")
    return bool(tally.failures)
