"""All stored inputs from coverage-guided fuzzing, run without atheris and with compiled kernels."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from ecmproto.tools.fuzz.checks.base import Items
from ecmproto.tools.fuzz.guided.targets import (
    TARGETS,
    committed_inputs,
    find_target,
    inputs_in_folder,
    write_folder,
    write_lines,
)
from ecmproto.tools.fuzz.subjects import SUBJECTS
from ecmproto_cli.commands.fuzz.guided import TARGETS as OF_THE_COMMAND

MAX_OCTETS = 200_000


@pytest.mark.parametrize("name", TARGETS)
def test_committed_inputs_show_no_difference(name: str) -> None:
    target = find_target(name)
    inputs = committed_inputs(name)
    assert len(inputs) >= 40
    batches = [target.items(octets) for octets in inputs]
    if all(len(items) == 1 for items in batches):
        batches = [[items[0] for items in batches]]
    checks = target.checks()
    assert [
        wrong for items in map(Items, batches) for check in checks for wrong in check.differences(items)
    ] == []


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_small_and_in_order(name: str) -> None:
    inputs = committed_inputs(name)
    assert inputs == sorted(set(inputs), key=lambda octets: (len(octets), octets))
    assert sum(map(len, inputs)) < MAX_OCTETS
    assert max(map(len, inputs)) <= find_target(name).longest_octets


@pytest.mark.parametrize("name", TARGETS)
def test_target_has_promises_and_instrumented_packages(name: str) -> None:
    target = find_target(name)
    assert len(target.promises) >= 2
    assert target.subject in SUBJECTS
    assert target.starts()
    for package in target.instrumented:
        assert find_spec(package) is not None


def test_command_offers_every_target() -> None:
    assert tuple(TARGETS) == OF_THE_COMMAND


def test_inputs_are_written_and_read_again(tmp_path: Path) -> None:
    inputs = [b"", b"\0", b"ab", b"aa"]
    write_folder(tmp_path / "some", [*inputs, b"aa"])
    assert sorted(inputs_in_folder(tmp_path / "some")) == sorted(inputs)
    write_lines(tmp_path / "lines", [*inputs, b"aa"])
    assert (tmp_path / "lines").read_text() == "\n00\n6161\n6162\n"
