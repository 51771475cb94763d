"""``ecmproto warm``: commands take the lines of its steps, and what goes wrong in one is told."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

import click
import pytest

from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto_cli.main import cli
from ecmproto_cli.warming import Step, captures, chosen, steps, subjects

RUN = ("interfaces", "stats", "check", "lab-qcn", "replay-qcn", "live-qcn")
"""Steps that take about a second each in plain Python."""
_RUN = """
import sys
from ecmproto_cli.warming import Step, chosen, run
spoilt = Step(name="spoilt", about=(), seconds=1, lines=("dissect -r @nothing.pcap",))
for outcome in run([*chosen(sys.argv[1:]), spoilt], many=300):
    print(outcome.step.name, outcome.kernels, outcome.problem or outcome.lacking or "done")
"""


def parse(words: Sequence[str], command: click.Command = cli, parent: click.Context | None = None) -> None:
    """Have a command take its arguments, and not run; click's error says which it does not take."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group):
        _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        parse(rest, found, context)


def test_commands_take_the_lines_of_each_step() -> None:
    lines = [line for step in steps() for line in step.lines]
    assert len(lines) > 50
    for line in [*captures(300), *lines]:
        parse(shlex.split(line))
    with pytest.raises(click.UsageError):
        parse(shlex.split(f"{lines[0]} --no-such-option"))


def named(found: Sequence[Step]) -> list[str]:
    return [step.name for step in found]


def test_steps_are_named_once_and_found_by_command_and_mechanism() -> None:
    names = named(steps())
    assert len(names) == len(set(names))
    for mechanism in MECHANISMS:
        assert {f"{part}-{mechanism.name}" for part in ("replay", "lab", "live")} < set(names)
    for name, found in subjects().items():
        assert named(chosen([name])) == named(found), name
    assert named(chosen([])) == names
    assert named(chosen(["check", names[0]])) == named(chosen([names[0], "check"]))
    with pytest.raises(KeyError, match="nothing"):
        chosen(["check", "nothing"])


def test_steps_run_and_one_that_does_not_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *RUN], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    came_of = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert {name: came_of[name] for name in RUN} == dict.fromkeys(RUN, "[] done")
    assert came_of["spoilt"].startswith("[] dissect -r @nothing.pcap: exit code 3: ")
    assert "nothing.pcap" in came_of["spoilt"].partition("exit code 3")[2]
