"""``ecmproto warm``: kernels compiled in advance, so that no command waits for them later."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted
from ecmproto_cli.errors import FINDINGS, USAGE, CommandError, warn
from ecmproto_cli.output import pairs
from ecmproto_cli.progress import is_enabled
from ecmproto_cli.terminal import echo, echo_over

if TYPE_CHECKING:
    from ecmproto_cli.warming import Outcome, Step


@click.command()
@click.argument("what", metavar="[WHAT]...", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the possible WHAT, and about how long each takes.")
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(min=1),
    help="Number of processes.  [default: one for each processor]",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Report no progress.")
def command(what: tuple[str, ...], listed: bool, jobs: int | None, quiet: bool) -> int:
    """Compile the kernels that commands would compile at their first use.

    WHAT are commands and mechanisms; without any, all.  Kernels that are compiled already, or came with the
    wheel, are skipped.

    \b
    ecmproto warm
    ecmproto warm dissect stats qcn
    ecmproto warm --list
    """
    from ecmproto_cli.warming import chosen, processors, run, subjects

    if listed:
        echo(_listing())
        return 0
    try:
        steps = chosen(what)
    except KeyError as unknown:
        raise CommandError(
            f"WHAT: needed one of {', '.join(subjects())}, got {unknown.args[0]!r}",
            exit_code=USAGE,
            help="ecmproto warm --list",
        ) from unknown
    import numba  # noqa: F401  # once, not in each of the processes

    jobs = jobs or processors()
    progress = Progress(steps, jobs, enabled=not quiet and is_enabled())
    outcomes = run(steps, processes=jobs, tell=progress.tell)
    progress.end()
    return _told(outcomes)


def _listing() -> str:
    from ecmproto_cli.warming import steps, subjects

    rows = []
    for name, found in subjects().items():
        told = ", ".join(step.name for step in found if len(found) <= _FEW) or f"{len(found)} steps"
        rows.append((name, f"{sum(step.seconds for step in found):3.0f} s  {told}"))
    every = sum(step.seconds for step in steps())
    return f"{pairs(rows)}\nall: {every:.0f} s of one processor's time where nothing is compiled yet"


_FEW = 4
"""The maximum number of steps listed by name."""


def _told(outcomes: Sequence[Outcome]) -> int:
    from ecmproto.kernels import prebuilt

    kernels = [kernel for outcome in outcomes for kernel in outcome.kernels]
    if kernels:
        echo(f"{counted(len(kernels), 'kernel')} compiled")
    elif prebuilt.store().is_empty:
        echo("nothing to compile: all of it was compiled before")
    else:
        echo("nothing to compile: all of it came with the wheel, or was compiled before")
    for why in dict.fromkeys(outcome.unused for outcome in outcomes if outcome.unused):
        warn(why)
    for outcome in outcomes:
        if outcome.problem:
            warn(f"{outcome.step.name}: {outcome.problem}")
    return FINDINGS if any(outcome.problem for outcome in outcomes) else 0


class Progress:
    """Progress on stderr: a line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, steps: Sequence[Step], jobs: int, *, enabled: bool) -> None:
        self._steps = steps
        self._jobs = jobs
        self._enabled = enabled
        self._terminal = sys.stderr.isatty()
        self._told = time.monotonic()
        self._line = False

    def tell(self, done: Sequence[Outcome], running: Sequence[Step]) -> None:
        """Show the finished and the running steps."""
        now = time.monotonic()
        if not self._enabled or not running or (not self._terminal and now - self._told < _EVERY_S):
            return
        self._told = now
        names = ", ".join(step.name for step in running)
        line = (
            f"compiling {names}: {len(done)} of {len(self._steps)} done, some {self._left(done):.0f} s left"
        )
        if self._terminal:
            line = line[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]
            echo_over(line)
            self._line = True
        else:
            echo(f"ecmproto: {line}", err=True)

    def _left(self, done: Sequence[Outcome]) -> float:
        """Return about the remaining seconds, from the durations of finished steps."""
        expected = sum(outcome.step.seconds for outcome in done)
        pace = sum(outcome.seconds for outcome in done) / expected if expected else 1.0
        return max(1.0, (sum(step.seconds for step in self._steps) - expected) * pace / self._jobs)

    def end(self) -> None:
        """Clear the line that changes."""
        if self._line:
            echo_over()


_EVERY_S = 5.0
