"""``ecmproto fuzz guided``: fuzz the decoders of ecmproto with inputs guided by coverage."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from ecmproto_cli.capturing import DeferredInterrupt
from ecmproto_cli.commands.fuzz import (
    Session,
    campaign_options,
    duration_of,
    report,
    run_session,
    seed_for,
    stored_line,
)

TARGETS = ("frames", "columns", "captures", "filters", "specs", "messages")


@click.command()
@click.argument("target", type=click.Choice(TARGETS))
@campaign_options("inputs")
@click.option(
    "-w",
    "--write",
    "out",
    metavar="DIR",
    help="Folder of state, corpus and findings.  [default: fuzz-guided/TARGET]",
)
def command(target: str, seed: int | None, duration: int | None, runs: int | None, out: str | None) -> int:
    """Fuzz these decoders with atheris: inputs that reach new lines are stored, and mutated further.

    tools/fuzz/guided/targets.py has the invariants of each target.  Kernels run as plain Python, so that
    their lines count.  Findings are stored as by `fuzz decode`, and fuzzing continues.

    \b
    ecmproto fuzz guided frames --duration 60s
    ecmproto fuzz guided columns --duration 600s -w campaign
    """
    from ecmproto.tools.fuzz.guided.campaign import GuidedCampaign, require_atheris

    require_atheris()
    seconds = duration_of(duration, runs)
    folder = Path(out or f"fuzz-guided/{target}")
    campaign = GuidedCampaign(target, folder, seed=seed_for(folder, seed))
    session = Session(duration_s=seconds, noun="inputs", interrupt=DeferredInterrupt())

    failures = campaign.run(session.going_on, max_cases=runs)
    interrupted = run_session(session, failures, folder)
    coverage = campaign.coverage
    rows = [
        ("edges", f"{coverage.edges:,}; {coverage.first_edges:,} of them by the first inputs"),
        ("corpus", f"{coverage.inputs:,} inputs, each with its own coverage"),
    ]
    again = partial(stored_line, folder)
    return report(session, campaign, rows, again, interrupted=interrupted)
