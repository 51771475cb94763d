"""``ecmproto fuzz target``: fuzz any program that reads captures."""

from __future__ import annotations

import dataclasses
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto.errors import counted
from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.commands.fuzz import (
    Session,
    campaign_options,
    captured_frames,
    corpus_filter_option,
    corpus_option,
    duration_of,
    folder_option,
    report,
    run_session,
    seed_for,
    stored_line,
    timeout_of,
)
from ecmproto_cli.errors import FINDINGS
from ecmproto_cli.options import SIZE, TIME, jobs_option, processors
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.fuzz.command import Command
    from ecmproto.tools.fuzz.findings import Progress
    from ecmproto.tools.fuzz.target import Feed

WHAT = ("frames", "captures", "both")


@click.command(context_settings={"ignore_unknown_options": False})
@corpus_option("Mutate this capture, or its frames.  [default: the templates of craft]")
@corpus_filter_option
@click.option(
    "--what", type=click.Choice(WHAT), default="frames", show_default=True,
    help="Mutate the frames, the capture file itself, or both in turn.",
)  # fmt: skip
@click.option("--as-is", is_flag=True, help="Run the program once on each -r FILE as it is.")
@campaign_options("runs of the program")
@click.option(
    "--frames-per-run", type=click.IntRange(min=1, max=1_000_000),
    help="Number of frames per run.  [default: 64, then more if the program is fast]",
)  # fmt: skip
@jobs_option
@click.option(
    "--timeout",
    type=TIME,
    metavar="TIME",
    default="5s",
    show_default=True,
    help="Maximum duration of a run. A longer run counts as a hang.",
)
@click.option("--memory", type=SIZE, default="1GB", show_default=True, help="Maximum resident memory.")
@click.option(
    "--fail-exit", "failing", metavar="CODE", type=click.IntRange(1, 255), multiple=True,
    help="Treat this exit status as a failure. May be repeated.",
)  # fmt: skip
@folder_option("fuzz-target")
@click.argument("arguments", nargs=-1, metavar="-- CMD [ARG|{}]...", required=True, type=click.UNPROCESSED)
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    what: str,
    as_is: bool,
    seed: int | None,
    duration: int | None,
    runs: int | None,
    frames_per_run: int | None,
    jobs: int | None,
    timeout: int,
    memory: int,
    failing: tuple[int, ...],
    out: str,
    arguments: tuple[str, ...],
) -> int:
    """Run a program on malformed captures, or captures of malformed frames; store crashes, hangs and leaks.

    The capture's name replaces {}. Without {}, the program reads the capture from standard input.  Crashes,
    sanitizer reports, tracebacks, hangs and excessive memory are failures. Each failing case is reduced to
    the fewest frames or octets, and stored as a capture and as hex, with a command that reproduces the
    failure.

    \b
    ecmproto fuzz target --duration 60s --jobs 2 -- tshark -V -r {}
    ecmproto fuzz target --what captures -r in.pcapng -- tcpdump -nvr {}
    ecmproto fuzz target -r in.pcap --fail-exit 1 -- ./my-decoder {}
    ecmproto fuzz target --as-is -r case.pcap --memory 100MB -- ./my-decoder {}
    """
    from ecmproto.tools.fuzz.command import Command
    from ecmproto.tools.fuzz.target import MAX_JOBS, TargetCampaign

    program = Command(
        arguments=_placed(arguments),
        seconds=timeout_of(timeout),
        memory_octets=memory,
        failing=frozenset(failing),
    )
    if as_is:
        if not paths or seed is not None or runs is not None or duration is not None:
            raise click.UsageError(
                "--as-is runs once on each -r FILE: expected -r, and no --seed, --runs, --duration"
            )
        return _once(program, paths)
    seconds = duration_of(duration, runs)
    folder = Path(out)
    corpora = _corpora(what, paths, filter)
    feed = _feed(corpora, seed_for(folder, seed))
    campaign = TargetCampaign(
        program, feed, folder, frames_per_run=frames_per_run, jobs=jobs or min(processors(), MAX_JOBS)
    )
    session = Session(
        duration_s=seconds, noun="frames" if what == "frames" else "cases", interrupt=DeferredInterrupt()
    )
    last = None if runs is None else campaign.progress.runs + runs

    def going_on(progress: Progress) -> bool:
        return session.going_on(progress) and (last is None or progress.runs < last)

    findings = campaign.run(going_on, left_s=session.left_s)
    interrupted = run_session(session, findings, folder)
    again = partial(stored_line, folder)
    code = report(session, campaign, (), again, interrupted=interrupted)
    if campaign.cut_short:
        shortened = counted(len(campaign.cut_short), "finding")
        echo(
            f"ecmproto: --duration ended before {shortened} could be reduced: all frames are stored", err=True
        )
    return code


def _once(program: Command, paths: tuple[str, ...]) -> int:
    code = 0
    for path in paths:
        outcome = dataclasses.replace(program, measured=True).run(Path(path))
        echo(f"{outcome.kind}: {outcome.signature}" if outcome.failed else f"fine: {path}")
        if outcome.failed:
            echo(outcome.output, nl=False)
            code = FINDINGS
    return code


def _corpora(what: str, paths: tuple[str, ...], filter: Filter | None) -> dict[str, list[bytes]]:
    """Return the inputs from which cases are made, by type: frames and captures."""
    from ecmproto.tools.fuzz.cases import LONGEST_INPUT_OCTETS
    from ecmproto.tools.fuzz.subjects import SUBJECTS

    corpora = {}
    if what == "captures" and filter is not None:
        raise click.UsageError("-Y filters frames, not captures")
    if what != "captures":
        corpora["frames"] = captured_frames(paths, filter)
    if what != "frames":
        files = []
        for path in paths:
            with open(path, "rb") as file:
                files.append(file.read(LONGEST_INPUT_OCTETS))
        corpora["captures"] = files or SUBJECTS["captures"].corpus()
    return corpora


def _feed(corpora: dict[str, list[bytes]], seed: int) -> Feed:
    from ecmproto.tools.fuzz.subjects import SUBJECTS
    from ecmproto.tools.fuzz.target import Feed

    return Feed(**{what: SUBJECTS[what].cases(corpus, seed) for what, corpus in corpora.items()})


def _placed(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command line with absolute paths."""
    program, *others = arguments
    exists = os.sep in program and Path(program).exists()
    return (
        str(Path(program).absolute()) if exists else program,
        *(str(Path(word).absolute()) if _is_path(word) else word for word in others),
    )


def _is_path(word: str) -> bool:
    return Path(word).exists() if os.sep in word else Path(word).is_file()
