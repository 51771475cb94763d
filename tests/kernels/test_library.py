"""The kernel library: its functions return and raise as numba's functions do, without numba."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("numba")

KERNELS = """
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import new_record, new_records, columns
from ecmproto.kernels.structs import Struct, as_interface, interface, method_errors


class Pair(NamedTuple):
    first: int
    second: NDArray[np.float64]


class Meter:
    octets: int


@interface
class Counter(Protocol):
    def count(self, octets: int) -> int: ...


class Own(Struct):
    meter: Meter
    step: int

    def count(self, octets: int) -> int:
        if octets < 0:
            raise ValueError("below 0")
        self.meter.octets += octets * self.step
        return self.meter.octets


class Later(Struct):
    step: int

    def count(self, octets: int) -> int:
        return octets * self.step


@released
def total(pair: Pair, numbers: NDArray[np.int32], fixed: NDArray[np.uint8]) -> float:
    found = 0.0
    for row in range(numbers.shape[0]):
        for column in range(numbers.shape[1]):
            found += numbers[row, column]
    return found + pair.first + pair.second.sum() + len(fixed)


@compiled
def bounds(least: int, flag: bool) -> tuple[int, int]:
    return -least, 1 if flag else 0


@compiled
def is_large(number: float) -> bool:
    return number > 1e9


@compiled
def high(number: np.uint64) -> np.uint64:
    return number | np.uint64(1 << 63)


@compiled
def add(meter: Meter, octets: int) -> None:
    meter.octets += octets


@compiled
def drive(counter: Counter, octets: int) -> int:
    return counter.count(octets) + counter.count(octets)


@compiled
def nested(number: int) -> tuple[int, tuple[int, int]]:
    return number, (number, number)


@compiled
def check(number: int) -> int:
    if number > 7:
        raise IndexError("too large")
    return number


def results() -> list[object]:
    numbers = np.arange(12, dtype=np.int32).reshape(3, 4)
    fixed = np.zeros(5, np.uint8)
    fixed.flags.writeable = False
    single, several = new_record(Meter), new_records(Meter, 3)
    add(single, 5)
    add(several[1], 6)
    own = Own(new_record(Meter), 3)
    return [
        total(Pair(1, np.ones(4)), numbers, fixed), total(Pair(1, np.ones(4)), numbers[:, ::2], fixed),
        bounds(1 << 40, True), is_large(2e9), is_large(2.0), int(high(np.uint64(1))),
        single.octets, columns(several)["octets"].tolist(), drive(as_interface(own, Counter), 2), check(7),
    ]


def failures() -> list[object]:
    import traceback
    found = []
    own = Own(new_record(Meter), 3)
    for call in (lambda: check(8), lambda: drive(as_interface(own, Counter), -1)):
        try:
            with method_errors():
                call()
        except Exception as error:
            trace = traceback.extract_tb(error.__traceback__)
            lines = [line.lineno for line in trace if line.filename.endswith("planted.py")]
            found.append([type(error).__name__, str(error).split("planted.py")[-1], lines[-1:]])
    return found
"""

BUILD = """
import sys
from pathlib import Path
import planted
from ecmproto.kernels import building, compiler
compiler.emitters[:] = [building.Emitter(Path(sys.argv[1]))]
planted.results(), planted.nested(3)
compiler.emitters[-1].link(Path(sys.argv[1], "made.so"))
print(*compiler.emitters[-1].left_out.values())
"""

RUN = """
import json, sys
from pathlib import Path
hidden = [sys.modules.__setitem__(name, None) for name in sys.argv[2:]]
from ecmproto.kernels import library
library.PATH = Path(sys.argv[1])
import planted
found = [library.is_loaded(), planted.results(), planted.failures()]
print(json.dumps(found, default=lambda each: each.item()))
print("numba" in sys.modules and sys.modules["numba"] is not None)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with a module and the library of its kernels."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "planted.py").write_text(KERNELS)
    done = run(folder, BUILD, folder, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert (done.stdout, done.returncode) == ("it takes or returns UniTuple(int64 x 2)\n", 0), done.stderr
    return folder


def run(folder: Path, text: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", text, *words],
        env={**others, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "cache"), **environment},
        cwd=folder, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def test_library_kernels_return_and_raise_like_numba(folder: Path) -> None:
    ours = run(folder, RUN, folder / "made.so", "numba", "llvmlite")
    theirs = run(folder, RUN, folder / "nothing.so")
    plain = run(folder, RUN, folder / "nothing.so", NUMBA_DISABLE_JIT="1")
    assert ours.stderr == theirs.stderr == ""
    (with_library, *found), loaded = json.loads(ours.stdout.splitlines()[0]), ours.stdout.splitlines()[1]
    (without, *computed) = json.loads(theirs.stdout.splitlines()[0])
    assert (with_library, loaded, without) == (True, "False", False)
    assert found == computed == json.loads(plain.stdout.splitlines()[0])[1:]
    assert [each[0] for each in found[1]] == ["IndexError", "MethodError"]


def test_kernels_are_plain_python_without_library(folder: Path) -> None:
    plain = run(folder, RUN, folder / "nothing.so", "numba", "llvmlite")
    ours = run(folder, RUN, folder / "made.so", "numba", "llvmlite")
    assert json.loads(plain.stdout.splitlines()[0])[1:] == json.loads(ours.stdout.splitlines()[0])[1:]
    said = [line for line in plain.stderr.splitlines() if "CacheWarning: kernels run as plain Python" in line]
    assert len(said) == 1


def test_a_library_of_other_sources_is_not_used(folder: Path) -> None:
    text = "import ecmproto.kernels.library as library; library.checksum = lambda path: 1\n" + RUN
    done = run(folder, text, folder / "made.so")
    assert json.loads(done.stdout.splitlines()[0])[0] is False
    assert done.stderr.count("CacheWarning: the library of kernels was built from other sources") == 1


@pytest.mark.parametrize("name", ["NUMBA_BOUNDSCHECK", "NUMBA_CPU_NAME"])
def test_code_of_other_options_is_compiled(name: str, folder: Path) -> None:
    value = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CPU_NAME": "generic"}[name]
    done = run(folder, RUN, folder / "made.so", **{name: value})
    assert json.loads(done.stdout.splitlines()[0])[0] is False
    assert done.stdout.splitlines()[1] == "True"


def test_functions_missing_in_library_are_compiled(folder: Path) -> None:
    text = RUN + "print(planted.bounds(True, 2))\n"
    done = run(folder, text, folder / "made.so")
    assert done.stdout.splitlines()[2:] == ["(-1, 1)"]
    done = run(folder, text, folder / "made.so", "numba", "llvmlite")
    assert done.stdout.splitlines()[2:] == ["(-1, 1)"]
    assert done.stderr.count("CacheWarning: planted.bounds and what it calls run as plain Python") == 1


def test_missing_method_runs_by_its_loop(folder: Path) -> None:
    call = "print(planted.drive(planted.as_interface(planted.Later(7), planted.Counter), 2))\n"
    call += "print([name for name in sys.modules.get('ecmproto.kernels.cache').compiled])\n"
    done = run(folder, RUN + call, folder / "made.so")
    assert done.stdout.splitlines()[2:] == ["28", "['planted.Later.count']"]
    without = call.rpartition("print")[0]
    done = run(folder, RUN + without, folder / "made.so", "numba", "llvmlite")
    assert done.stdout.splitlines()[2:] == ["28"]
    assert done.stderr.count("CacheWarning: planted.drive and what it calls run as plain Python") == 1


def test_wheel_with_library_is_for_all_pythons(folder: Path, tmp_path: Path, repository: Path) -> None:
    environment = {**os.environ, "ECMPROTO_LIBRARY": str(folder / "made.so")}
    command: list[str | Path] = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    assert "-py3-none-manylinux_2_" in wheel.name
    with zipfile.ZipFile(wheel) as file:
        assert file.read("ecmproto/kernels/ecmproto-kernels.so") == (folder / "made.so").read_bytes()
