"""``ecmproto lab papers``: write a page for each source document, with its published figures and ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ecmproto_cli.errors import FINDINGS, INTERRUPTED
from ecmproto_cli.options import Execution, execution_options
from ecmproto_cli.output import check_outputs
from ecmproto_cli.progress import TaskProgress, print_failures, work
from ecmproto_cli.terminal import echo

if TYPE_CHECKING:
    from ecmproto.control.lab.setup.scenario import Scenario


@click.command()
@click.argument("documents", nargs=-1, metavar="[DOCUMENT]...")
@click.option(
    "-w", "--write", "out", metavar="DIR", default="docs/papers", show_default=True, help="Output folder."
)
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="K",
    help="Number of seeds per scenario. The seeds are parts of SHA-256(scenario name + commit).",
)  # fmt: skip
@click.option("--commit", metavar="TEXT", help="Commit for seeds.  [default: the checkout's]")
@click.option(
    "--rows", "file", metavar="FILE",
    help="Append each finished run to this file, as a line of JSON, and skip runs already in it.",
)  # fmt: skip
@execution_options
@click.option("--no-pictures", is_flag=True, help="Omit pictures, which need ecmproto[report].")
def command(
    documents: tuple[str, ...],
    out: str,
    seeds: int,
    commit: str | None,
    file: str | None,
    execution: Execution,
    no_pictures: bool,
) -> int:
    """Run every published experiment and write a page for each DOCUMENT, S000 to S004, all by default.

    Each published figure is shown beside ours, with seeds, band and verdict.  Exits with 1 where a band is
    missed on more than one seed of ten.
    """
    from ecmproto.control.lab.results import papers
    from ecmproto.control.lab.results.running import commit_of_code
    from ecmproto.executors.rows import RowStore
    from ecmproto.executors.running import Tally, run_tasks
    from ecmproto.frames.capture.writer import write_output
    from ecmproto.paths import make_folder

    for name in documents:
        if name not in papers.DOCUMENTS:
            raise click.UsageError(f"{name}: expected one of {', '.join(papers.DOCUMENTS)}")
    if not no_pictures:
        from ecmproto.tools.report.sheet import require_matplotlib

        require_matplotlib()
    store = RowStore(file, papers.EntryRow) if file else None
    check_outputs([file], force=True)  # rows are appended to an existing file
    given = commit or commit_of_code()
    folder = make_folder(out)
    scenarios = {name: list(papers.entries_of(name)) for name in documents or papers.DOCUMENTS}
    tasks = {
        scenario.name: papers.tasks_of(scenario, given, seeds)
        for each in scenarios.values()
        for scenario in each
    }
    every_task = [task for each in tasks.values() for task in each]
    progress = TaskProgress(Tally(total=len(every_task), noun="run"), store=file)
    rows: dict[str, dict[str, Any]] = {}
    try:
        with progress:
            for result in run_tasks(
                every_task,
                papers.CALL,
                executor=execution.executor(len(every_task), progress.notify),
                store=store,
                tally=progress.tally,
                progress=progress.show,
            ):
                rows[result.task.key] = dict(result.row)
    except KeyboardInterrupt:
        progress.print_interrupted()
        return INTERRUPTED
    finally:
        if store is not None:
            store.close()
    if print_failures(progress.tally):
        return FINDINGS
    every = {}
    for document, each in scenarios.items():
        entries = []
        pictures: dict[str, str] = {}
        for scenario in each:
            own = tasks[scenario.name]
            entries.append(papers.entry_of(scenario, [rows[task.key] for task in own]))
            if not no_pictures and not scenario.variant:
                work.at(f"lab papers {scenario.name}")
                pictures[scenario.name] = _picture(scenario, own[0].data["seed"], folder)
        if entries:
            every[document] = entries
            text = papers.page(document, entries, commit=given, pictures=pictures)
            write_output(folder / papers.page_name(document), text, force=True)
    work.end()
    if not documents:
        write_output(folder / "README.md", papers.index(every), force=True)
    missed = [
        f"{entry.name}: {row.figure.text}"
        for each in every.values()
        for entry in each
        for row in entry.missed
    ]
    for line in missed:
        echo(f"missed: {line}")
    return FINDINGS if missed else 0


def _picture(scenario: Scenario, seed: int, folder: Path) -> str:
    """Draw a picture of a scenario with one seed, and return the file name of the picture."""
    from ecmproto.control.lab.results.measurements import RunFigures
    from ecmproto.control.lab.results.outcome import Outcome
    from ecmproto.control.lab.simulation.simulate import simulate
    from ecmproto.frames.capture.writer import write_output
    from ecmproto.tools.report.labs import picture

    experiment = scenario.experiment()
    outcome = Outcome(experiment, [RunFigures(simulate(experiment, seed=seed))])
    name = f"{scenario.name}.png"
    write_output(folder / name, picture([outcome], name, ("queue", "delivered")), force=True)
    return name
