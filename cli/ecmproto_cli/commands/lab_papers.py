"""``ecmproto lab papers``: a page for each source document, its published figures and ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.progress import is_wanted, work

if TYPE_CHECKING:
    from ecmproto.lab.results.papers import Entry
    from ecmproto.lab.setup.scenario import Scenario


@click.command()
@click.argument("documents", nargs=-1, metavar="[DOCUMENT]...")
@click.option("--out", metavar="FOLDER", default="docs/papers", show_default=True, help="Where pages go.")
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="K",
    help="Seeds of each scenario: words of SHA-256(its name + the commit).",
)  # fmt: skip
@click.option("--commit", metavar="TEXT", help="What seeds follow from.  [default: the checkout's]")
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Processes.  [default: one a core]")
@click.option(
    "--rows", "file", metavar="FILE",
    help="Add each finished run to this file, and skip those that it has: a line of JSON each.",
)  # fmt: skip
@click.option("--no-pictures", is_flag=True, help="Leave pictures out; they need ecmproto[report].")
def command(
    documents: tuple[str, ...],
    out: str,
    seeds: int,
    commit: str | None,
    jobs: int | None,
    file: str | None,
    no_pictures: bool,
) -> int:
    """Run every published experiment and write a page for each DOCUMENT, S000 to S004, all by default.

    Each published figure stands beside ours, with seeds, band and verdict. Exits with 1 where a band is
    missed on more than one seed of ten.
    """
    from ecmproto.lab.results import papers
    from ecmproto.lab.results.running import commit_of_code
    from ecmproto.lab.results.sweeps import LocalExecutor, ResultFile, code_digest, run_sweep

    for name in documents:
        if name not in papers.DOCUMENTS:
            raise click.UsageError(f"{name}: needed one of {', '.join(papers.DOCUMENTS)}")
    if not no_pictures:
        from ecmproto.report.sheet import require_matplotlib

        require_matplotlib()
    given = commit or commit_of_code()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    known = ResultFile(file) if file else None
    code = code_digest()
    executor = LocalExecutor(jobs or os.cpu_count() or 1)
    every: dict[str, list[Entry]] = {}
    try:
        for document in documents or papers.DOCUMENTS:
            entries = []
            pictures: dict[str, str] = {}
            for scenario in papers.entries_of(document):
                _tell(scenario.name)
                points = papers.points_of(scenario, given, seeds)
                rows = run_sweep(
                    points,
                    papers.run_entry,
                    scenario=scenario.toml(),
                    file=known,
                    executor=executor,
                    code=code,
                )
                entries.append(papers.entry_of(scenario, rows))
                if not no_pictures and not scenario.variant:
                    pictures[scenario.name] = _picture(scenario, points[0].seed, folder)
            if entries:
                every[document] = entries
                text = papers.page(document, entries, commit=given, pictures=pictures)
                (folder / papers.page_name(document)).write_text(text, encoding="utf-8")
    except KeyboardInterrupt:
        return INTERRUPTED
    work.end()
    if not documents:
        (folder / "README.md").write_text(papers.index(every), encoding="utf-8")
    missed = [
        f"{entry.name}: {row.figure.text}"
        for each in every.values()
        for entry in each
        for row in entry.missed
    ]
    for line in missed:
        click.echo(f"missed: {line}")
    return FINDINGS if missed else 0


def _tell(name: str) -> None:
    work.at(f"lab papers {name}")
    if is_wanted():
        click.echo(f"ecmproto: {name}", err=True)


def _picture(scenario: Scenario, seed: int, folder: Path) -> str:
    """Draw the first seed of a scenario, and return the picture's name."""
    from ecmproto.lab.results.measurements import RunFigures
    from ecmproto.lab.results.outcome import Outcome
    from ecmproto.lab.simulation.simulate import simulate
    from ecmproto.report.labs import picture

    experiment = scenario.experiment()
    outcome = Outcome(experiment, [RunFigures(simulate(experiment, seed=seed))])
    name = f"{scenario.name}.png"
    (folder / name).write_bytes(picture([outcome], name, ("queue", "delivered")))
    return name
