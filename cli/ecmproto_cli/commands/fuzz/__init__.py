"""``ecmproto fuzz``: malformed frames for decoders and devices.

Each subcommand is imported when it is called. This module has the common options, the end of a campaign and
the reports.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto.errors import ParameterError, counted
from ecmproto.units import NS_PER_S
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.main import LazyGroup
from ecmproto_cli.options import TIME, F, filter_option, with_options
from ecmproto_cli.output import pairs
from ecmproto_cli.terminal import echo, echo_over

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch, CaptureReader
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.fuzz.findings import Campaign, Finding, Progress


COMMANDS = {
    "decode": "Compare ecmproto's decoders with one another on malformed input.",
    "guided": "",
    "send": "Test a switch with frames from an interface, and check that it stays alive.",
    "target": "Test any program that reads captures: tshark, a decoder of your own.",
}


@click.group(cls=LazyGroup, table=COMMANDS, prefix="fuzz.")
def command() -> None:
    """Find defects in decoders: generate cases from a seed, reduce and store failures, resume campaigns.

    Exits with 1 if there are findings, else with 0.
    """


_SHOWN_EVERY_S = 0.25


def corpus_option(help: str) -> Callable[[F], F]:
    """Return the option ``-r FILE``, which can be repeated."""
    return click.option("-r", "--read", "paths", metavar="FILE", multiple=True, help=help)


def campaign_options(runs: str) -> Callable[[F], F]:
    """Return the options ``--seed``, ``--duration`` and ``--runs``; ``runs`` is the noun for the maximum."""
    return with_options(
        click.option(
            "--seed", type=click.IntRange(min=0, max=1 << 64),
            help="Seed of all cases.  [default: the folder's, else a new one]",
        ),
        click.option("--duration", type=TIME, help="Maximum duration.  [default: 60s without --runs]"),
        click.option("--runs", type=click.IntRange(min=1), help=f"Maximum number of {runs}."),
    )  # fmt: skip


def folder_option(default: str) -> Callable[[F], F]:
    """Return the option ``-w DIR``."""
    return click.option(
        "-w", "--write", "out", metavar="DIR", default=default, show_default=True,
        help="Folder for state and findings.",
    )  # fmt: skip


corpus_filter_option = filter_option("Mutate only frames of -r that this display filter selects.")
"""The option ``-Y FILTER``."""


def check_single(
    paths: tuple[str, ...],
    seed: int | None,
    index: int | None,
    as_is: bool,
    runs: int | None,
    duration: int | None,
    action: str,
    single: str,
) -> None:
    """Raise UsageError for options that contradict ``--as-is`` or ``--index``.

    ``action`` and ``single`` are parts of the error texts.
    """
    if as_is and not paths:
        raise click.UsageError(f"--as-is {action} of -r: expected -r FILE")
    if as_is and (index is not None or seed is not None):
        raise click.UsageError("--as-is generates no cases: expected no --seed and no --index")
    if index is not None and seed is None:
        raise click.UsageError("--index is the number of a case of a seed: expected --seed N")
    if (as_is or index is not None) and (runs is not None or duration is not None):
        raise click.UsageError(f"--runs and --duration apply to campaigns, not to {single}")


def captured_frames(paths: Sequence[str], filter: Filter | None) -> list[bytes]:
    """Return the frames of captures that ``filter`` selects, or craft's template frames without captures.

    Raises UsageError if there is a filter without captures, or if the filter selects no frame.
    """
    from ecmproto.frames.capture import open_captures
    from ecmproto.tools.fuzz.subjects import template_frames

    if not paths:
        if filter is not None:
            raise click.UsageError("-Y filters the frames of -r: expected -r FILE")
        return template_frames()
    frames: list[bytes] = []
    for path in paths:
        with open_captures((path,)) as reader:
            for batch in reader:
                frames += batch.frames() if filter is None else _selected(batch, filter, reader)
                if len(frames) > MAX_FRAMES:
                    raise ParameterError(
                        name="-r", needed=f"at most {MAX_FRAMES:,} frames to mutate", got=f"more in {path}"
                    )
            if reader.problem is not None:
                raise reader.problem
    if filter is not None and not frames:
        raise click.UsageError(f"-Y selects none of the frames of {', '.join(paths)}")
    return frames


def _selected(batch: Batch, filter: Filter, reader: CaptureReader) -> Iterator[bytes]:
    from ecmproto.frames.columns import selected

    return batch.select(selected(batch, filter, interfaces=reader.interfaces)).frames()


MAX_FRAMES = 200_000
"""Maximum number of frames in a corpus, which is kept in memory."""


def seed_for(folder: Path, given: int | None) -> int:
    """Return and print the seed of a campaign.

    The line also states whether the campaign in ``folder`` is continued.
    """
    from ecmproto.tools.fuzz.findings import seed_of

    earlier = seed_of(folder)
    seed = given if given is not None else secrets.randbits(32) if earlier is None else earlier
    continued = "" if earlier is None else f", continues the campaign in {folder}"
    echo(f"ecmproto: seed {seed}{continued}", err=True)
    return seed


@dataclasses.dataclass(slots=True, kw_only=True)
class Session:
    """A call of a campaign, with its time limit, its cases and its findings."""

    duration_s: float | None
    noun: str
    """The unit of progress: ``cases`` or ``frames``."""
    interrupt: DeferredInterrupt
    start: float = dataclasses.field(default_factory=time.monotonic)
    cases: int = 0
    """Number of cases that this call has tried."""
    findings: int = 0
    _first: int | None = None
    _shown: float = 0.0

    def going_on(self, progress: Progress) -> bool:
        """Show the progress, and return whether time remains.

        Raises a deferred interrupt.
        """
        self.count(progress)
        self.interrupt.check()
        self._show()
        return self.duration_s is None or self.seconds < self.duration_s

    def count(self, progress: Progress) -> None:
        """Update the number of tried cases."""
        self._first = progress.cases if self._first is None else self._first
        self.cases = progress.cases - self._first

    @property
    def seconds(self) -> float:
        """Elapsed time in seconds."""
        return time.monotonic() - self.start

    def left_s(self) -> float:
        """Return the remaining time in seconds."""
        return math.inf if self.duration_s is None else self.duration_s - self.seconds

    @property
    def rate(self) -> str:
        """The rate of cases per second as text."""
        return f"{self.cases / max(self.seconds, 1e-9):,.0f} {self.noun}/s"

    def _show(self) -> None:
        if not sys.stderr.isatty() or self.seconds - self._shown < _SHOWN_EVERY_S:
            return
        self._shown = self.seconds
        text = f"{self.seconds:.0f} s, {self.cases:,} {self.noun}, {self.rate}"
        echo_over(f"{text}, {counted(self.findings, 'finding')}")

    def cleared(self) -> None:
        """Clear the progress line."""
        if sys.stderr.isatty():
            echo_over()


def run_session(session: Session, findings: Iterator[Finding], folder: Path) -> bool:
    """Run a campaign, print each finding, and return whether the campaign was interrupted."""
    try:
        with session.interrupt:
            for finding in findings:
                session.findings += 1
                session.cleared()
                echo(f"{finding.outcome.kind}: {finding.outcome.signature}")
                echo(f"  kept in {folder / 'findings' / finding.name}")
    except KeyboardInterrupt:
        return True
    finally:
        session.cleared()
    return False


def stored_line(folder: Path, finding: Finding) -> str:
    """Return the command that reproduces a finding with the script in the folder of the finding."""
    return f"cd {shlex.quote(str(folder / 'findings' / finding.name))} && sh reproduce.sh"


def timeout_of(timeout_ns: int) -> float:
    """Return a timeout in seconds.

    Raises ParameterError unless the timeout is positive.
    """
    if timeout_ns <= 0:
        raise ParameterError(name="timeout", needed="more than 0", got=str(timeout_ns))
    return timeout_ns / NS_PER_S


def duration_of(duration_ns: int | None, runs: int | None) -> float | None:
    """Return the seconds of a campaign: 60 by default, or None if only ``runs`` limits the campaign."""
    if duration_ns is None:
        return None if runs is not None else 60
    return duration_ns / NS_PER_S


def report(
    session: Session,
    campaign: Campaign,
    rows: Sequence[tuple[str, str]],
    line: Callable[[Finding], str],
    *,
    interrupted: bool,
) -> int:
    """Print the result of a campaign, and return the exit code."""
    progress, findings = campaign.progress, campaign.findings
    all_rows = [
        ("executions", f"{session.cases:,} {session.noun} in {session.seconds:.1f} s, {session.rate}"),
        *rows,
        ("campaign", f"{progress.cases:,} {session.noun} in {progress.seconds:.1f} s so far"),
        ("failures", f"{progress.failures:,} of {progress.runs:,} runs"),
        ("findings", str(len(findings))),
    ]
    echo(pairs(all_rows), wrap=True)
    return ended(findings, line, interrupted=interrupted)


def ended(findings: dict[str, Finding], line: Callable[[Finding], str], *, interrupted: bool) -> int:
    """Print the findings of a campaign and the commands that reproduce them, and return the exit code."""
    for finding in findings.values():
        echo(f"\n{finding.outcome.kind}: {finding.outcome.signature}")
        echo(pairs([("seen", counted(finding.count, "time")), ("again", line(finding))]))
    if interrupted:
        echo("ecmproto: interrupted; the same command continues", err=True)
        return INTERRUPTED
    return FINDINGS if findings else 0
