"""The steps for the kernel library: commands accept the command lines, and failures are reported."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence

import click
import pytest

from ecmproto.control.mechanisms.registry import MECHANISMS
from ecmproto_cli.kernel_steps import captures, steps
from ecmproto_cli.main import cli

RUN = ("interfaces", "live-qcn")
"""Steps that take about a second each in plain Python. `make kernels` runs all steps."""
_RUN = """
import sys
from ecmproto_cli.kernel_steps import Step, run, steps
chosen = [step for step in steps() if step.name in sys.argv[1:]]
spoilt = Step(name="spoilt", lines=("dissect -r @nothing.pcap",))
try:
    for name in run([*chosen, spoilt], many=300):
        print(name)
except RuntimeError as error:
    print(error)
"""


def parse(words: Sequence[str], command: click.Command = cli, parent: click.Context | None = None) -> None:
    """Parse the arguments of a command without running the command; invalid arguments cause click's error."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group):
        _, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        parse(rest, found, context)


def test_lines_of_each_step_are_valid_commands() -> None:
    lines = [line for step in steps() for line in step.lines]
    assert len(lines) > 50
    for line in [*captures(300), *lines]:
        parse(shlex.split(line))
    with pytest.raises(click.UsageError):
        parse(shlex.split(f"{lines[0]} --no-such-option"))


def test_step_names_are_unique() -> None:
    names = [step.name for step in steps()]
    assert len(names) == len(set(names))
    for mechanism in MECHANISMS:
        assert {f"{part}-{mechanism.name}" for part in ("replay", "lab", "live")} < set(names)


def test_failing_steps_report_their_cause() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *RUN], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    *names, failed = done.stdout.splitlines()
    assert (names[0], set(names)) == ("captures", {"captures", *RUN})
    assert failed.startswith("spoilt: dissect -r @nothing.pcap: exit code 3: ")
    assert "nothing.pcap" in failed.partition("exit code 3")[2]
