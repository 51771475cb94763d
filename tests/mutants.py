"""Mutants: ``python -m tests.mutants [COUNT [SEED [FILE...]]]`` changes code and prints what no test noticed.

A mutant has one comparison with its limit on the other side (``<`` for ``<=``, ``==`` for ``!=``), or one
integer that is greater by 1.  It is made in a copy of the repository, in the body of a function of `ROOMS`,
and the room's quick tests run on it, as plain Python.  COUNT mutants are drawn (60), 0 for all.

mutmut leaves decorated functions alone, which kernels are; cosmic-ray has one command for all files.
"""

from __future__ import annotations

import ast
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
_RULES = "ecmproto/tools/check/rules"
ROOMS = {
    "ecmproto/frames/columns/walk.py": "tests/columns/test_extraction.py -k not two_threads",
    "ecmproto/frames/batch/tags.py": "tests/batch/test_tags.py tests/batch/test_splice.py",
    "ecmproto/frames/stats/pauses.py": "tests/stats/test_pauses.py tests/stats/test_storms.py",
    "ecmproto/frames/stats/roce.py": "tests/stats/test_roce.py -k not million",
    "ecmproto/frames/capture/parts.py": "tests/capture/test_parts.py",
    "ecmproto/control/engine/switches.py": "tests/lab/test_simulation.py -k partition",
    "ecmproto/tools/edit/checksums.py": "tests/edit/test_checksums.py",
    f"{_RULES}/cnms.py": "tests/check/test_cnms.py",
    f"{_RULES}/domain.py": "tests/check/test_domain.py",
    f"{_RULES}/drafts.py": "tests/check/test_drafts.py",
    f"{_RULES}/e2cm.py": "tests/check/test_drafts.py",
    f"{_RULES}/fecn.py": "tests/check/test_fecn.py",
    f"{_RULES}/pfc.py": "tests/check/test_pfc.py",
    f"{_RULES}/qcn.py": "tests/check/test_qcn.py",
    f"{_RULES}/reactions.py": "tests/check/test_reactions.py",
    f"{_RULES}/roce.py": "tests/check/test_dcqcn.py",
}
"""Files, and the arguments of pytest for the tests that hold them."""
_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "build", "dist", "*.n?c")


class Mutant(NamedTuple):
    """A change: the number of it in its file, the line, and the expression or statement before and after."""

    path: str
    number: int
    line: int
    before: str
    after: str


def mutants_of(path: str, tree: ast.Module) -> Iterator[Mutant]:
    """Yield the mutants of a file; ``tree`` is the mutant's as long as the iterator stands at it."""
    return (Mutant(path, number, *change) for number, change in enumerate(_changes(tree)))


def _changes(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    bodies = [each.body for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    statements = dict.fromkeys(node for body in bodies for each in body for node in ast.walk(each))
    for node in statements:
        if isinstance(node, ast.Compare):
            for number, operator in enumerate(node.ops):
                if type(operator) in _OTHER:
                    before = ast.unparse(node)
                    node.ops[number] = _OTHER[type(operator)]()
                    yield node.lineno, before, ast.unparse(node)
                    node.ops[number] = operator
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            before = _line_of(statements, node)
            node.value += 1
            yield node.lineno, before, _line_of(statements, node)
            node.value -= 1


def text_of(mutant: Mutant, source: str) -> str:
    """Return the text of a mutant's file."""
    tree = ast.parse(source)
    next(itertools.islice(mutants_of(mutant.path, tree), mutant.number, None))
    return ast.unparse(tree)


def _line_of(nodes: Iterable[ast.AST], number: ast.Constant) -> str:
    """Return the longest expression or statement on the line of a number."""
    around = [
        each
        for each in nodes
        if isinstance(each, ast.expr | ast.Assign | ast.AugAssign | ast.Return)
        and each.lineno == each.end_lineno == number.lineno
    ]
    return max((ast.unparse(each) for each in around), key=len)


class Copy:
    """A copy of the repository, whose tests run as plain Python."""

    def __init__(self, folder: Path) -> None:
        self._folder = shutil.copytree(REPOSITORY, folder / "copy", ignore=_NOT_COPIED)
        path = os.pathsep.join([str(self._folder), str(self._folder / "cli")])
        self._environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
        self._limits_s: dict[str, float] = {}

    def passes(self, tests: str) -> bool:
        """Return whether tests pass; those that take five times as long as they did first fail."""
        arguments, _, chosen = tests.partition(" -k ")
        marked = ["-m", "not slow and not thorough and not alone", "-k", chosen]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-pno:cacheprovider", *marked]
        begun = time.monotonic()
        try:
            ended = subprocess.run(
                [*command, *arguments.split()], cwd=self._folder, env=self._environment, capture_output=True,
                timeout=self._limits_s.get(tests), check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
        self._limits_s.setdefault(tests, 60 + 5 * (time.monotonic() - begun))
        return ended.returncode == 0

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return (self._folder / path).read_text(encoding="utf-8")

    def survives(self, mutant: Mutant) -> bool:
        """Return whether the tests of a mutant's room pass all the same."""
        file, tests = self._folder / mutant.path, ROOMS[mutant.path]
        source = self.read(mutant.path)
        if tests not in self._limits_s and not self.passes(tests):
            sys.exit(f"mutants: {tests} fails without any")
        try:
            file.write_text(text_of(mutant, source), encoding="utf-8")
            return self.passes(tests)
        finally:
            file.write_text(source, encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Draw mutants and print those that survive."""
    count, seed = [*map(int, arguments[:2]), *(60, 1)[len(arguments) :]]
    paths = arguments[2:] or list(ROOMS)
    os.nice(10)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = Copy(Path(name))
        every = [each for path in paths for each in mutants_of(path, ast.parse(copy.read(path)))]
        drawn = random.Random(seed).sample(every, min(count or len(every), len(every)))
        for each in sorted(drawn, key=lambda mutant: (mutant.path, mutant.line)):
            if copy.survives(each):
                survivors += 1
                print(f"{each.path}:{each.line}: {each.before}  survives as  {each.after}", flush=True)
    print(f"{len(drawn)} of {len(every)} mutants: {len(drawn) - survivors} killed, {survivors} survive")


if __name__ == "__main__":
    main(sys.argv[1:])
