"""``ecmproto fuzz target``: any program that reads captures."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto_cli.campaigning import (
    Session,
    campaign_options,
    captured_frames,
    corpus_filter_option,
    corpus_option,
    duration_of,
    report,
    run_session,
    seed_for,
    timeout_of,
)
from ecmproto_cli.interrupt import HeldInterrupt

if TYPE_CHECKING:
    from ecmproto.filter import Filter
    from ecmproto.fuzz.findings import Finding
    from ecmproto.fuzz.state import Progress


@click.command(context_settings={"ignore_unknown_options": False})
@corpus_option("Spoil the frames of this capture.  [default: the templates of craft]")
@corpus_filter_option
@campaign_options
@click.option("--runs", type=click.IntRange(min=1), help="How many runs of the program.")
@click.option(
    "--frames-per-run", type=click.IntRange(min=1, max=1_000_000), default=64, show_default=True,
    help="Frames in the capture of a run.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="TIME", default="5s", show_default=True, help="Of a run: longer is a hang."
)
@click.option("--memory", metavar="SIZE", default="1GB", show_default=True, help="Of a run, resident.")
@click.option(
    "--fail-exit", "failing", metavar="CODE", type=click.IntRange(1, 255), multiple=True,
    help="An exit status that is a failure; any number of times.",
)  # fmt: skip
@click.option(
    "--out",
    metavar="DIR",
    default="fuzz-target",
    show_default=True,
    help="Where state and findings are kept.",
)
@click.argument("words", nargs=-1, metavar="-- CMD [ARG|{}]...", required=True, type=click.UNPROCESSED)
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    seed: int | None,
    duration: str | None,
    runs: int | None,
    frames_per_run: int,
    timeout: str,
    memory: str,
    failing: tuple[int, ...],
    out: str,
    words: tuple[str, ...],
) -> int:
    """Run a program on captures of spoilt frames; keep what crashes, hangs or swells it.

    The capture's name takes the place of {}; without one it comes by standard input.  Crashes, reports of
    sanitizers, tracebacks, hangs and too much memory are failures; each kind is reduced to the least frames
    and kept as pcap, hex and a line that shows it again.

    \b
    ecmproto fuzz target --time 60s -- tshark -V -r {}
    ecmproto fuzz target -r in.pcap --fail-exit 1 -- ./my-decoder {}
    """
    from ecmproto.fuzz.cases import Cases
    from ecmproto.fuzz.command import Command
    from ecmproto.fuzz.target import TargetCampaign
    from ecmproto.units import parse_octets

    program = Command(
        words=_placed(words),
        seconds=timeout_of(timeout),
        memory_octets=parse_octets(memory),
        failing=frozenset(failing),
    )
    seconds = duration_of(duration, runs)
    frames = captured_frames(paths, filter)
    folder = Path(out)
    cases = Cases(frames, seed=seed_for(folder, seed))
    campaign = TargetCampaign(program, cases, folder, frames_per_run=frames_per_run)
    session = Session(duration_s=seconds, noun="frames", held=HeldInterrupt())
    last = None if runs is None else campaign.progress.runs + runs

    def going_on(progress: Progress) -> bool:
        return session.going_on(progress) and (last is None or progress.runs < last)

    def again(finding: Finding) -> str:
        return f"cd {shlex.quote(str(folder / 'findings' / finding.name))} && sh reproduce.sh"

    interrupted = run_session(session, campaign.run(going_on), folder, lambda found: found.outcome.signature)
    return report(session, campaign.progress, campaign.findings, (), again, interrupted=interrupted)


def _placed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command that can be called from any folder."""
    return tuple(
        str(Path(word).absolute()) if os.sep in word and Path(word).exists() else word for word in words
    )
