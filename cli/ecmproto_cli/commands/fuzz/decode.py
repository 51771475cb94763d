"""``ecmproto fuzz decode``: compare the decoders of ecmproto with one another."""

from __future__ import annotations

import itertools
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.commands.fuzz import (
    Session,
    campaign_options,
    captured_frames,
    check_single,
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
    from ecmproto.tools.fuzz.checks.base import BatchCheck
    from ecmproto.tools.fuzz.findings import Finding
    from ecmproto.tools.fuzz.judgement import Bounds

WHAT = ("frames", "captures", "filters", "specs", "messages")
FRAMES = ("frames", "messages")
"""Types of cases that are made from frames."""


@click.command()
@corpus_option(
    "Start from this capture, file of filters, or other input (see --what).  [default: craft's templates]"
)
@corpus_filter_option
@click.option("--what", type=click.Choice(WHAT), default="frames", show_default=True, help="Type of cases.")
@campaign_options("cases")
@click.option("--index", type=click.IntRange(min=0, max=(1 << 64) - 1), help="Run only this case.")
@click.option("--as-is", is_flag=True, help="Run the inputs of -r unchanged.")
@folder_option("fuzz-decode")
@jobs_option
@click.option(
    "--every", metavar="CHECK=N", multiple=True, callback=lambda _, __, given: _shares(given),
    help="Run a check on one batch in N (0 disables the check). May be repeated.",
)  # fmt: skip
@click.option("--timeout", type=TIME, default="10s", show_default=True, help="Time limit of a check.")
@click.option("--memory", type=SIZE, default="256MB", show_default=True, help="Memory limit of a check.")
def command(
    paths: tuple[str, ...],
    filter: Filter | None,
    what: str,
    seed: int | None,
    duration: int | None,
    runs: int | None,
    index: int | None,
    as_is: bool,
    out: str,
    jobs: int | None,
    every: dict[str, int],
    timeout: int,
    memory: int,
) -> int:
    """Test all of ecmproto's decoders, and tshark if installed, on malformed octets: they must agree.

    Each batch goes through the frame decoder and the column decoder, and occasionally through JSON, text
    output, Scapy and tshark.  Cases that cause disagreements, exceptions, or excessive time or memory are
    reduced and stored.

    \b
    ecmproto fuzz decode --duration 60s
    ecmproto fuzz decode -r in.pcap --seed 7 --runs 20000000 --jobs 2 --every tshark=200 -w campaign
    ecmproto fuzz decode --seed 7 --index 4711
    ecmproto fuzz decode --what captures --duration 10s
    """
    from ecmproto.tools.fuzz.agreement import AgreementCampaign
    from ecmproto.tools.fuzz.judgement import Bounds
    from ecmproto.tools.fuzz.subjects import SUBJECTS

    check_single(paths, seed, index, as_is, runs, duration, "runs the inputs", "a case")
    if (as_is or index is not None) and (every or jobs):
        raise click.UsageError("--jobs and --every apply to campaigns, not to a single case")
    bounds = Bounds(seconds=timeout_of(timeout), memory_octets=memory)
    seconds = duration_of(duration, runs)
    corpus = _corpus(what, paths, filter, whole=as_is)
    if as_is:
        return _tried(corpus, _checks(what), bounds)
    if index is not None and seed is not None:
        return _case(what, corpus, seed, index, bounds)
    reads = list(itertools.chain.from_iterable(("-r", os.path.relpath(path)) for path in paths))
    reads += ["-Y", filter.text] if filter is not None else []
    subject, folder = SUBJECTS[what], Path(out)
    seed = seed_for(folder, seed)
    arguments = ["ecmproto", "fuzz", "decode", *(["--what", what] if what != "frames" else [])]
    campaign = AgreementCampaign(
        _checks(what),
        subject.cases(corpus, seed),
        folder,
        line=shlex.join([*arguments, "--as-is", "-r", subject.file]),
        file=subject.file,
        bounds=bounds,
        every=every,
        batch_cases=subject.batch_cases,
        jobs=jobs or processors(),
    )

    def again(finding: Finding) -> str:
        """Return the command that reproduces a finding."""
        if len(finding.frames) > 1:
            return stored_line(folder, finding)
        return shlex.join([*arguments, *reads, "--seed", str(finding.seed), "--index", str(finding.index)])

    session = Session(
        duration_s=seconds, noun="frames" if what in FRAMES else "cases", interrupt=DeferredInterrupt()
    )
    failures = campaign.run(session.going_on, max_cases=runs, left_s=session.left_s)
    interrupted = run_session(session, failures, folder)
    session.count(campaign.progress)
    rows = [
        (name, f"{count:,} {session.noun}, {campaign.progress.checked.get(name, 0):,} so far")
        for name, count in campaign.executions.items()
    ]
    return report(session, campaign, rows, again, interrupted=interrupted)


def _shares(given: tuple[str, ...]) -> dict[str, int]:
    """Return a mapping of checks to frequencies, parsed from texts ``CHECK=N``."""
    shares = {}
    for text in given:
        name, _, count = text.partition("=")
        if not count.isdecimal():
            raise click.UsageError(f"--every: expected CHECK=N, such as scapy=16, got {text!r}")
        shares[name] = int(count)
    return shares


def _corpus(what: str, paths: tuple[str, ...], filter: Filter | None, *, whole: bool) -> list[bytes]:
    from ecmproto.tools.fuzz.subjects import SUBJECTS

    if what in FRAMES:
        return captured_frames(paths, filter)
    if filter is not None:
        raise click.UsageError(f"-Y filters frames, not {what}")
    if not paths:
        return SUBJECTS[what].corpus()
    files = [Path(path).read_bytes() for path in paths]
    if what == "filters" and not whole:
        return [line for octets in files for line in octets.splitlines()]
    return files


def _checks(what: str) -> list[BatchCheck]:
    from ecmproto.tools.fuzz.subjects import SUBJECTS

    checks = SUBJECTS[what].checks()
    if what == "frames":
        from ecmproto.tools.fuzz.checks.scapy import ScapyCheck
        from ecmproto.tools.fuzz.checks.tshark import TsharkCheck

        checks.append(ScapyCheck())
        if TsharkCheck.program() is not None:
            checks.append(TsharkCheck())
    return checks


def _tried(items: list[bytes], checks: list[BatchCheck], bounds: Bounds) -> int:
    """Run checks on unchanged inputs, print the findings, and return the exit code."""
    from ecmproto.tools.fuzz.checks.base import Items
    from ecmproto.tools.fuzz.judgement import disagreements

    batch = Items(items)
    failures = [wrong for check in checks for wrong in disagreements(check, batch, bounds, measured=False)]
    for wrong in failures:
        echo(f"{wrong.kind}: {wrong.signature}\n{wrong.detail}")
    if not failures:
        echo(f"all agree: {', '.join(check.name for check in checks)}")
    return FINDINGS if failures else 0


def _case(what: str, corpus: list[bytes], seed: int, index: int, bounds: Bounds) -> int:
    from ecmproto.tools.fuzz.subjects import SUBJECTS

    case = next(SUBJECTS[what].cases(corpus, seed).starting_at(index))
    made = f"from item {case.source + 1} of the corpus" if case.source >= 0 else "from nothing"
    echo(f"case {index} of seed {seed}, {made}: {', '.join(case.mutations)}")
    echo(f"{len(case.octets):5} {case.octets.hex()}")
    return _tried([case.octets], _checks(what), bounds)
