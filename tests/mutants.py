"""Mutation tests: ``python -m tests.mutants [COUNT [SEED [ROOM...]]]`` prints code changes that no test
detects.

A mutant has one changed comparison (``<`` and ``<=``, ``==`` and ``!=`` and so on are exchanged), or one
integer increased by 1. Mutants are made in the bodies of functions, in a copy of the repository. The tests of
the room run on each mutant as plain Python.

COUNT is the number of random mutants, 60 by default; 0 selects all mutants. ROOM is a key of `ROOMS`, or a
function in one of these files, as in ``FILE::NAME``. By default, all rooms are used.

mutmut skips decorated functions, which include kernels. cosmic-ray uses one test command for all files.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
_STATS = "ecmproto/frames/stats"
_RULES = "ecmproto/tools/check/rules"
ROOMS = {
    "ecmproto/frames/columns/walk.py": "tests/columns/test_extraction.py -k not two_threads and not shared",
    "ecmproto/frames/batch/steps.py": "tests/columns/test_extraction.py -k not two_threads and not shared",
    "ecmproto/frames/batch/packets.py": "tests/batch/test_packets.py tests/batch/test_tags.py",
    "ecmproto/frames/batch/tags.py": "tests/batch/test_tags.py tests/batch/test_splice.py",
    f"{_STATS}/pauses.py": "tests/stats/test_pauses.py tests/stats/test_storms.py tests/stats/test_merge.py",
    f"{_STATS}/roce.py": "tests/stats/test_roce.py -k not million",
    "ecmproto/frames/capture/parts.py": "tests/capture/test_parts.py",
    "ecmproto/control/engine/switches.py::_fits_partition": "tests/lab/test_simulation.py -k partition_holds",
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
"""Files, or functions in files, with the pytest arguments for their tests."""
EQUIVALENT = {
    ("0 → 1", "transport, is_udp = np.where(udp >= 0, udp, tcp), udp >= 0"): "UDP starts no frame",
    ("0 → 1", "rows = np.flatnonzero((bth >= 0) & (crc < 0) & (network >= 0))"): "nor do BTH and CRC",
    ("1 → 2", "while step > 1:"): "steps are powers of ten",
    ("6 → 7", "if stop - pos < 6:"): "no ARP header of so few octets is complete",
    ("0 → 1", "none = Packet(NO_NETWORK, NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE, stop)"): "nothing reads it",
    (
        "layer != _ETHERNET → layer == _ETHERNET",
        "if layer != _IPV4 and (layer != _ETHERNET or two_octets(buffer, start + TYPE_AT) != _IPV4_TYPE):",
    ): "the general walk finds the same",
}
"""Changes that no test can detect, with their source lines and the reasons."""
_OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".*_cache", ".hypothesis", "build", "dist", "*.n?c")


class Mutant(NamedTuple):
    """A code change, with its room, its number in the room and its line."""

    room: str
    number: int
    line: int
    change: str


def mutants_of(room: str, tree: ast.Module) -> Iterator[Mutant]:
    """Yield the mutants of a file.

    While a mutant is the current item of the iterator, ``tree`` contains its change.
    """
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    chosen = [each for each in functions if room.partition("::")[2] in ("", each.name)]
    return (Mutant(room, number, *change) for number, change in enumerate(_changes(chosen)))


def _changes(functions: Sequence[ast.FunctionDef]) -> Iterator[tuple[int, str]]:
    statements = [statement for function in functions for statement in function.body]
    # nested functions are visited once
    for node in dict.fromkeys(node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Compare):
            for number, operator in enumerate(node.ops):
                if type(operator) in _OTHER:
                    before = ast.unparse(node)
                    node.ops[number] = _OTHER[type(operator)]()
                    yield node.lineno, f"{before} → {ast.unparse(node)}"
                    node.ops[number] = operator
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            node.value += 1
            yield node.lineno, f"{node.value - 1} → {node.value}"
            node.value -= 1


class Copy:
    """A copy of the repository in which tests run as plain Python."""

    def __init__(self, folder: Path) -> None:
        self._folder = shutil.copytree(REPOSITORY, folder / "copy", ignore=_NOT_COPIED)
        path = os.pathsep.join([str(self._folder), str(self._folder / "cli")])
        # Byte code files are compared only by time in seconds and length, so mutants would share them.
        plain = {"NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self._environment = os.environ | plain | {"PYTHONPATH": path}
        self._limits_s: dict[str, float] = {}

    def passes(self, tests: str) -> bool:
        """Return whether tests pass.

        Tests that take five times as long as the first run fail.
        """
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

    def file(self, room: str) -> Path:
        """Return the path of the file of a room."""
        return self._folder / room.partition("::")[0]

    def survives(self, mutant: Mutant) -> bool:
        """Return whether the tests of the room pass with a mutant."""
        file = self.file(mutant.room)
        tests = ROOMS.get(mutant.room) or ROOMS[mutant.room.partition("::")[0]]
        source = file.read_text(encoding="utf-8")
        if tests not in self._limits_s and not self.passes(tests):
            sys.exit(f"mutants: {tests} fails without any")
        tree = ast.parse(source)
        next(itertools.islice(mutants_of(mutant.room, tree), mutant.number, None))
        try:
            file.write_text(ast.unparse(tree), encoding="utf-8")
            return self.passes(tests)
        finally:
            file.write_text(source, encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Run the tests on random mutants, and print the mutants that no test detects."""
    count, seed = [*map(int, arguments[:2]), *(60, 1)[len(arguments) :]]
    rooms = arguments[2:] or list(ROOMS)
    os.nice(10)
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        copy = Copy(Path(name))
        every = [each for room in rooms for each in mutants_of(room, ast.parse(copy.file(room).read_bytes()))]
        drawn = random.Random(seed).sample(every, min(count or len(every), len(every)))
        for each in sorted(drawn, key=lambda mutant: (mutant.room, mutant.line)):
            line = copy.file(each.room).read_text(encoding="utf-8").splitlines()[each.line - 1].strip()
            if (each.change, line) not in EQUIVALENT and copy.survives(each):
                survivors.append(each)
                print(f"{each.room}:{each.line}: {each.change} in: {line}", flush=True)
    print(f"{len(drawn)} of {len(every)} mutants, {len(survivors)} of which no test notices")


if __name__ == "__main__":
    main(sys.argv[1:])
