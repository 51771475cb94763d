"""What coverage once led to: every committed input, tried again without atheris, kernels compiled."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

from ecmproto.fuzz.guided import targets
from ecmproto.fuzz.guided.corpus import committed, in_folder, write_folder, write_lines
from ecmproto.fuzz.guided.targets import NAMES, find_target
from ecmproto.fuzz.items import Items
from ecmproto.fuzz.kinds import SUBJECTS
from ecmproto_cli.commands.fuzz_guided import TARGETS

MOST_OCTETS = 200_000


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_what_was_committed(name: str) -> None:
    target = find_target(name)
    inputs = committed(name)
    assert len(inputs) >= 40
    batches = [target.items(octets) for octets in inputs]
    if all(len(items) == 1 for items in batches):
        batches = [[items[0] for items in batches]]
    checks = target.checks()
    assert [
        wrong for items in map(Items, batches) for check in checks for wrong in check.differences(items)
    ] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_is_small_and_in_order(name: str) -> None:
    inputs = committed(name)
    assert inputs == sorted(set(inputs), key=lambda octets: (len(octets), octets))
    assert sum(map(len, inputs)) < MOST_OCTETS
    assert max(map(len, inputs)) <= find_target(name).longest_octets


@pytest.mark.parametrize("name", NAMES)
def test_a_target_says_first_what_must_hold(name: str) -> None:
    module = import_module(f"{targets.__name__}.{name}")
    source = inspect.getsource(module)
    assert source.startswith('"""Of any ')
    told = ast.get_docstring(ast.parse(source))
    assert told is not None
    assert told.count("\n- ") >= 2
    assert find_target(name).subject in SUBJECTS
    assert find_target(name).starts()


def test_the_command_knows_every_target() -> None:
    assert TARGETS == NAMES
    files = {path.stem for path in Path(str(targets.__file__)).parent.glob("*.py")}
    assert files == {"__init__", *NAMES}


def test_inputs_are_written_and_read_again(tmp_path: Path) -> None:
    inputs = [b"", b"\0", b"ab", b"aa"]
    write_folder(tmp_path / "some", [*inputs, b"aa"])
    assert sorted(in_folder(tmp_path / "some")) == sorted(inputs)
    write_lines(tmp_path / "lines", [*inputs, b"aa"])
    assert (tmp_path / "lines").read_text() == "\n00\n6161\n6162\n"
