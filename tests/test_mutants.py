"""The mutants that `tests.mutants` creates from a text."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutants import EQUIVALENT, REPOSITORY, ROOMS, mutants_of

TEXT = "LIMIT = 3\n\ndef f(a: int = 7) -> bool:\n    return 0 <= a < LIMIT and a != 5\n"


def test_each_mutant_changes_one_expression() -> None:
    tree = ast.parse(TEXT)
    bodies = [ast.unparse(tree.body[-1]).partition("return ")[2] for _ in mutants_of("f.py", tree)]
    assert sorted(bodies) == [
        "0 < a < LIMIT and a != 5", "0 <= a < LIMIT and a != 6", "0 <= a < LIMIT and a == 5",
        "0 <= a <= LIMIT and a != 5", "1 <= a < LIMIT and a != 5",
    ]  # fmt: skip


def test_mutants_restore_the_tree() -> None:
    tree = ast.parse(TEXT)
    assert len(list(mutants_of("f.py", tree))) == 5
    assert ast.dump(tree) == ast.dump(ast.parse(TEXT))


def test_mutated_files_and_their_tests_exist() -> None:
    tests = {word for line in ROOMS.values() for word in line.split() if word.startswith("tests/")}
    paths = {*tests, *(room.partition("::")[0] for room in ROOMS)}
    assert [path for path in paths if not Path(REPOSITORY, path).is_file()] == []


def test_equivalent_mutants_are_of_present_lines() -> None:
    files = {room.partition("::")[0] for room in ROOMS}
    lines = {
        line.strip() for file in files for line in Path(REPOSITORY, file).read_text("utf-8").splitlines()
    }
    assert [line for _, line in EQUIVALENT if line not in lines] == []
