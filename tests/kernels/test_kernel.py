"""The cache of compiled code is invalidated by a change in any of its sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.dispatcher import _DispatcherBase as Base

from ecmproto.kernels.folder import MAX_FORMS
from ecmproto.kernels.kernel import compiled

INNER = (
    "from ecmproto.kernels.kernel import compiled\n@compiled\ndef inner(x: int) -> int:\n    return x + {}\n"
)
OUTER = (
    "from ecmproto.kernels.kernel import compiled\nfrom inner_part import inner\n"
    "@compiled\ndef outer(x: int) -> int:\n    return inner(x)\n"
)
TIME = (1_580_601_600, 1_580_601_600)


def run_outer(folder: Path, **environment: str) -> tuple[str, str]:
    code = "from outer_part import outer; print(outer(1))"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=folder,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "NUMBA_DEBUG_CACHE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    *cache, result = done.stdout.splitlines()
    return result, "\n".join(cache)


def run_code(code: str, folder: Path) -> str:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def plant(file: Path, pickled: bytes) -> None:
    """Write ``pickled`` to the file of the cache that the next lookup reads."""
    stamp = file.read_bytes()[:32]
    file.write_bytes(stamp + hashlib.sha256(pickled).digest() + pickled)


def test_changed_callee_of_equal_size_is_recompiled(tmp_path: Path) -> None:
    # Wheels carry one fixed time for every file: an upgrade must not run the old version's code.
    (tmp_path / "outer_part.py").write_text(OUTER)
    for added, expected in ((1, "2"), (2, "3")):
        (tmp_path / "inner_part.py").write_text(INNER.format(added))
        for part in ("inner_part.py", "outer_part.py"):
            os.utime(tmp_path / part, TIME)
        result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
        assert result == expected
        assert "data saved" in cache
    result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
    assert result == "3"
    assert "data loaded" in cache
    assert "saved" not in cache


def test_unreadable_cache_is_rewritten(tmp_path: Path) -> None:
    # As after an upgrade that moved a class which signatures in the cache name.
    (tmp_path / "outer_part.py").write_text(OUTER)
    (tmp_path / "inner_part.py").write_text(INNER.format(1))
    assert run_outer(tmp_path, NUMBA_DISABLE_JIT="0")[0] == "2"
    kept = list((tmp_path / "cache").rglob("*.nbc"))
    assert kept
    for each in kept:
        plant(each, b"cno_such_module\nNothing\n.")
    result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
    assert result == "2"
    assert "data saved" in cache
    assert "data loaded" in run_outer(tmp_path, NUMBA_DISABLE_JIT="0")[1]


FORWARD = (
    "from ecmproto.kernels.kernel import compiled\nfrom inner_part import inner\n"
    "@compiled\ndef outer(x: int) -> int:\n    return below(x)\n"
    "@compiled\ndef below(x: int) -> int:\n    return inner(x)\n"
)


def test_changes_in_indirect_callees_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(FORWARD)
    for added, expected in ((1, "2"), (2, "3")):
        (tmp_path / "inner_part.py").write_text(INNER.format(added))
        assert run_outer(tmp_path, NUMBA_DISABLE_JIT="0")[0] == expected


COMMENTED = '''"""What this is."""
# why
from ecmproto.kernels.kernel import compiled


@compiled
def inner(x: int) -> int:
    """Return more."""
    # by this
    return x + {}  # hence
'''


def test_comments_and_docstrings_compile_nothing(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(OUTER)
    for text, saved in ((INNER, True), (COMMENTED, False), (COMMENTED.replace("more", "x and more"), False)):
        (tmp_path / "inner_part.py").write_text(text.format(1))
        result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
        assert result == "2"
        assert ("data saved" in cache) == saved


def test_a_comment_above_a_kernel_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "inner_part.py").write_text(INNER.format(1))
    for text, saved in ((OUTER, True), ("# why\n" + OUTER, False)):
        (tmp_path / "outer_part.py").write_text(text)
        assert ("data saved" in run_outer(tmp_path, NUMBA_DISABLE_JIT="0")[1]) == saved


RAISING = (
    "from ecmproto.kernels.kernel import compiled\n{}@compiled\ndef inner(x: int) -> int:\n"
    "    if x > 0:\n        raise ValueError\n    return x\n"
)


def test_a_raised_exception_keeps_its_line(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(OUTER)
    code = (
        "import traceback\nfrom outer_part import outer\n"
        "try:\n    outer(1)\n"
        "except ValueError as error:\n    print(traceback.extract_tb(error.__traceback__)[-1].lineno)"
    )
    for comment, line in (("", 5), ("# why\n", 6)):
        (tmp_path / "inner_part.py").write_text(RAISING.format(comment))
        assert run_code(code, tmp_path) == f"{line}\n"


def test_latest_versions_of_kernel_stay_cached(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(OUTER)
    for added in (1, 2, 3, 4, 5):
        (tmp_path / "inner_part.py").write_text(INNER.format(added))
        run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == MAX_FORMS
    for added, saved in ((2, False), (5, False), (1, True)):
        (tmp_path / "inner_part.py").write_text(INNER.format(added))
        result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
        assert (result, "data saved" in cache) == (str(1 + added), saved)


TWO_OF_A_NAME = """
import os
from ecmproto.kernels.kernel import compiled

if os.environ.get("SUBTRACTED"):
    @compiled
    def outer(x: int) -> int:
        return x - 1
else:
    @compiled
    def outer(x: int) -> int:
        return x + 1
"""


def test_functions_of_equal_name_are_separate_kernels(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(TWO_OF_A_NAME)
    for environment, expected in (({}, "2"), ({"SUBTRACTED": "1"}, "0"), ({}, "2")):
        assert run_outer(tmp_path, NUMBA_DISABLE_JIT="0", **environment)[0] == expected


def test_disabled_jit_runs_plain_python(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(OUTER)
    (tmp_path / "inner_part.py").write_text(INNER.format(5))
    assert run_outer(tmp_path, NUMBA_DISABLE_JIT="1") == ("6", "")


def test_kernels_compile_without_a_cache_folder(tmp_path: Path) -> None:
    (tmp_path / "inner_part.py").write_text(INNER.format(1))
    code = (
        "import ecmproto.kernels.folder as cache\n"
        "cache._candidates = lambda *_: ()\n"
        "from inner_part import inner; print(inner(1), hasattr(inner, 'py_func'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2 True\n"


def test_numba_with_other_internals_still_compiles(tmp_path: Path) -> None:
    (tmp_path / "inner_part.py").write_text(INNER.format(1))
    (tmp_path / "outer_part.py").write_text(OUTER)
    for hidden in ("parts", "cache"):
        code = (
            f"import sys; sys.modules['ecmproto.kernels.{hidden}'] = None\n"
            "from outer_part import outer; print(outer(1), outer.signatures)"
        )
        assert run_code(code, tmp_path) == "2 [(int64,)]\n"


def test_a_kernel_typed_at_a_prompt_is_compiled(tmp_path: Path) -> None:
    code = (
        "from ecmproto.kernels.kernel import compiled\n"
        "@compiled\ndef added(x):\n    return x + 1\nprint(added(1))"
    )
    assert run_code(code, tmp_path) == "2\n"


SHAPES = """
from typing import Protocol
from ecmproto.kernels.kernel import compiled, is_disabled
from ecmproto.kernels.structs import Struct, interface
from inner_part import inner

@interface
class Shape(Protocol):
    def area(self, scale: int) -> int: ...

class Square(Struct):
    side: int
    def area(self, scale: int) -> int:
        return inner(self.side) * scale

class Frame(Struct):
    hole: Square
    side: float
    def area(self, scale: int) -> int:
        return int(self.side) - self.hole.area(scale)

@compiled
def measured(shape: Shape, scale: int) -> int:
    return shape.area(scale)

def outer(x: int) -> int:
    return measured(Square(x), 3) + measured(Frame(Square(x), 50.0), 2)
"""


def test_interface_methods_are_compiled_and_cached(tmp_path: Path) -> None:
    (tmp_path / "outer_part.py").write_text(SHAPES)
    for added, expected in ((1, str(6 + 46)), (2, str(9 + 44))):
        (tmp_path / "inner_part.py").write_text(INNER.format(added))
        for part in ("inner_part.py", "outer_part.py"):
            os.utime(tmp_path / part, TIME)
        assert run_outer(tmp_path, NUMBA_DISABLE_JIT="1") == (expected, "")
        result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
        assert result == expected
        assert "data saved" in cache
        result, cache = run_outer(tmp_path, NUMBA_DISABLE_JIT="0")
        assert result == expected
        assert "saved" not in cache


@compiled
def _twice(number: int) -> int:
    return 2 * number


@compiled
def _of_constants(number: int) -> int:
    return _twice(3) + _twice(4) + _twice(number)


def test_a_function_is_compiled_once_for_all_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = getattr(_of_constants, "dispatcher", None)
    if dispatcher is not None:  # loaded from the cache, it would not be compiled at all
        monkeypatch.setattr(dispatcher, "_cache", NullCache())
    assert _of_constants(5) == 24
    part = getattr(_twice, "_part", None)
    assert part is None or len(part.signatures) == 1


class _Run(NamedTuple):
    values: Any
    first: Any


@compiled
def _sum(run: _Run) -> float:
    total = 0.0
    for value in run.values[int(run.first) :]:
        total += value
    return total


def test_named_tuple_is_typed_once_per_part_types(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(_sum, "typeof_pyval"):
        pytest.skip("compiled code alone has types")
    typed: list[Any] = []
    original = Base.typeof_pyval

    def counted(dispatcher: Any, value: Any) -> Any:
        typed.append(value)
        return original(dispatcher, value)

    monkeypatch.setattr(Base, "typeof_pyval", counted)
    even = np.arange(6.0)
    fixed = even.copy()
    fixed.flags.writeable = False
    kinds = [
        _Run(even, 2),
        _Run(even[::2], 1),
        _Run(fixed, 2),
        _Run(even.astype(np.int32), 2),
        _Run(even, 2.0),
    ]
    for _ in range(3):
        assert [_sum(run) for run in kinds] == [14.0, 6.0, 14.0, 14.0, 14.0]
    assert typed == kinds
