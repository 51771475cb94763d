"""Machine code of kernels runs without the compiler: it is what numba made, and nothing else is run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto.kernels import folder
from ecmproto.kernels.machine_code import NotLinkableError, can_link, link

pytestmark = pytest.mark.skipif(not can_link(), reason="machine code is linked for x86-64 Linux alone")

INNER = "from ecmproto.kernels.kernel import inlined\n@inlined\ndef more(x: int) -> int:\n    return x + {}\n"
KERNELS = '''
import sys
from typing import NamedTuple
import numpy as np
from ecmproto.kernels.kernel import over_batches
from ecmproto.kernels.record import new_record
from inner_part import more

class State:
    count: int
    share: float

class Pair(NamedTuple):
    values: np.ndarray
    factor: float

class Both(NamedTuple):
    pair: Pair
    limits: tuple[int, bool]

@over_batches
def total(octets, matrix, both, number, wide, nothing, state):
    """Use every kind of argument."""
    sum = 0.0
    for i in range(len(octets)):
        sum += more(np.int64(octets[i]))
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            sum += matrix[i, j] * (i + 1)
    for value in both.pair.values:
        sum += value * both.pair.factor
    if both.limits[1]:
        sum += both.limits[0]
    state.count += number
    state.share = sum
    return sum + number + wide

@over_batches
def nothing(out):
    out[0] = 7

@over_batches
def pair(number, flag):
    return number - 1, not flag

@over_batches
def unsigned(number):
    return np.uint64(number) * np.uint64(2)

@over_batches
def named(values, factor):
    return Pair(values, factor)

def shown():
    state = new_record(State)
    matrix = np.arange(12, dtype=np.int16).reshape(3, 4)
    fixed = np.arange(5, dtype=np.uint8)
    fixed.flags.writeable = False
    both = Both(Pair(np.arange(4.0)[::2], 0.5), (3, True))
    out = np.zeros(1, np.int32)
    results = [
        total(fixed, matrix[:, ::2].T, both, -3, np.int32(9), None, state),
        total(fixed.copy(), matrix, both, 5, np.int32(9), None, state),
        state.count, state.share, nothing(out), out[0], pair(-(1 << 62), False), unsigned(1 << 62),
    ]
    return [each.item() if isinstance(each, np.generic) else each for each in results]
'''


OBJECT = """
import sys
import ecmproto.kernels.compiler as compiler
made = []
link = compiler.link
compiler.link = lambda octets: (made.append(octets), link(octets))[1]
import numpy as np, outer_part
kernel = outer_part.{0}
from ecmproto.kernels.compiler import entry
class Place:
    def save(self, image): pass
entry(kernel.dispatcher, Place(), (np.zeros(1, np.int64),) if "{0}" == "nothing" else (1, True))
sys.stdout.buffer.write(made[0])
"""


def run(folder: Path, code: str = "", **environment: str) -> tuple[list[str], str]:
    code = f"{code}\nimport sys, outer_part\nprint(outer_part.shown())\nprint('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=folder,
        env={
            **{name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")},
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "NUMBA_DEBUG_CACHE": "1",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    *cache, result, numba = done.stdout.splitlines()
    return [result, numba], "\n".join(cache)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sources, and beside it ``cache`` with their machine code."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "outer_part.py").write_text(KERNELS)
    (folder / "inner_part.py").write_text(INNER.format(1))
    told, cache = run(folder)
    assert told == [expected(folder), "True"]
    assert "data saved" in cache
    return folder


def expected(folder: Path) -> str:
    """Return what the kernels give as plain Python."""
    (result, numba), cache = run(folder, NUMBA_DISABLE_JIT="1")
    assert (numba, cache) == ("False", "")
    return result


def test_what_numba_made_runs_without_it(once: Path) -> None:
    told, cache = run(once)
    assert told == [expected(once), "False"]
    assert cache.count("data loaded") == 5
    assert "saved" not in cache


@pytest.mark.parametrize(
    "spoil", [lambda octets: octets[:-9], lambda octets: octets[:80] + b"x" + octets[81:]]
)
def test_code_that_is_not_what_was_saved_is_not_run(once: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    (file,) = (once / "cache").rglob("outer_part.nothing-*.nmc")
    whole = file.read_bytes()
    file.write_bytes(spoil(whole))
    told, cache = run(once)
    assert told == [expected(once), "True"]
    assert cache.count("data saved") == 1
    assert len(file.read_bytes()) == len(whole)


def test_other_sources_and_other_ways_to_compile_are_other_code(once: Path) -> None:
    (once / "inner_part.py").write_text(INNER.format(2))
    try:
        told, _ = run(once)
        assert told == [expected(once), "True"]
    finally:
        (once / "inner_part.py").write_text(INNER.format(1))
    # bounds are checked by numba's own way alone, and so is what it returns as objects of its own
    assert "nmc" not in run(once, NUMBA_BOUNDSCHECK="1")[1]
    named = (
        "import outer_part, numpy\nassert type(outer_part.named(numpy.arange(2.0), 1.5)).__name__ == 'Pair'"
    )
    run(once, named)
    assert not list((once / "cache").rglob("outer_part.named-*.nmc"))


def test_a_numba_with_other_insides_compiles_all_the_same(once: Path, tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['ecmproto.kernels.entry'] = None"
    told, _ = run(once, hidden, NUMBA_CACHE_DIR=str(tmp_path))
    assert told == [expected(once), "True"]


def test_spoilt_images_are_never_run(once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(once / "cache"))
    source = str(once / "outer_part.py")
    (file,) = (once / "cache").rglob("outer_part.pair-*.nmc")
    whole, draw = file.read_bytes(), random.Random(7)
    stamp, name = whole[:32], (file.name.rpartition("-")[0], ".nmc")
    assert folder.load(source, name, stamp) == whole[64:]
    try:
        for _ in range(300):
            octets = bytearray(whole)
            for _ in range(draw.choice((1, 1, 4))):
                octets[draw.randrange(len(octets))] ^= 1 << draw.randrange(8)
            spoilt = octets[: draw.choice((len(octets), draw.randrange(len(octets))))]
            file.write_bytes(spoilt)
            assert spoilt == whole or folder.load(source, name, stamp) is None
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize("name", ["nothing", "pair"])
def test_object_files_with_something_unforeseen_are_refused(once: Path, name: str) -> None:
    made = subprocess.run(
        [sys.executable, "-B", "-c", OBJECT.format(name)],
        cwd=once,
        capture_output=True,
        check=True,
        timeout=600,
    ).stdout
    assert link(made)
    draw, refused = random.Random(9), 0
    for _ in range(300):
        octets = bytearray(made)
        octets[draw.randrange(len(octets))] ^= 1 << draw.randrange(8)
        try:
            link(bytes(octets))
        except NotLinkableError:
            refused += 1
    assert refused


@pytest.mark.parametrize(
    "octets", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), Path(sys.executable).read_bytes()[:4096]]
)
def test_what_is_no_object_file_is_not_linked(octets: bytes) -> None:
    with pytest.raises(NotLinkableError):
        link(octets)
