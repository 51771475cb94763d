"""Compiled code is loaded only from folders to which other users cannot write."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ecmproto.kernels import folder
from tests.kernels.test_kernel import INNER, OUTER, plant

SOMEBODY = 54_321
ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not ROOT, reason="only root gives files to another user")


class Planted:
    """An object that runs a command when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.trace),)


def run(sources: Path, environment: dict[str, str], code: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{code}\nfrom outer_part import outer; print(outer(1))"
    return subprocess.run(
        [sys.executable, "-B", "-c", code],
        cwd=sources,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", "NUMBA_DEBUG_CACHE": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder of sources, and a folder ``cache`` with their compiled code."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "outer_part.py").write_text(OUTER)
    (folder / "inner_part.py").write_text(INNER.format(1))
    assert run(folder, {"NUMBA_CACHE_DIR": str(folder / "cache")}).stderr == ""
    return folder


@pytest.fixture
def sources(once: Path, tmp_path: Path) -> Path:
    """The folder of sources, of which ``tmp_path`` / ``cache`` has the compiled code and no other folder."""
    shutil.copytree(once / "cache", tmp_path / "cache")
    shutil.rmtree(once / "__pycache__", ignore_errors=True)
    return once


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose folders for compiled code are all in ``tmp_path``."""
    return {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}


def compiled_in(cache: Path) -> Path:
    """Return the file with the compiled code of the function that is run."""
    (file,) = cache.rglob("outer_part.outer-*.nbc")
    return file


def planted_in(cache: Path, trace: Path) -> Path:
    """Change the only file of ``cache`` so that the loaded form has this ``trace``, and return the file."""
    file = compiled_in(cache)
    plant(file, pickle.dumps(Planted(trace)))
    return file


def given_away(path: Path) -> None:
    os.chown(path, SOMEBODY, SOMEBODY)


def for_everyone(path: Path) -> None:
    path.chmod(0o777 if path.is_dir() else 0o666)


def for_a_group(path: Path) -> None:
    os.chown(path, -1, SOMEBODY)
    path.chmod(0o775 if path.is_dir() else 0o664)


UNSAFE = [
    pytest.param(given_away, marks=needs_root),
    pytest.param(for_everyone),
    pytest.param(for_a_group, marks=needs_root),
]
WHERE: dict[str, Callable[[Path], Path]] = {
    "file": lambda file: file,
    "folder": lambda file: file.parent,
    "folder_above": lambda file: file.parent.parent,
}


def test_a_planted_file_would_run(sources: Path, elsewhere: dict[str, str], tmp_path: Path) -> None:
    # The files that the following tests plant are valid if this user wrote them.
    planted_in(tmp_path / "cache", tmp_path / "trace")
    assert run(sources, elsewhere).stdout.endswith("2\n")
    assert (tmp_path / "trace").exists()


@pytest.mark.parametrize("opened", UNSAFE)
@pytest.mark.parametrize("where", WHERE)
def test_code_writable_by_others_was_unpickled(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path, where: str, opened: Callable[[Path], None]
) -> None:
    file = planted_in(tmp_path / "cache", tmp_path / "trace")
    path = WHERE[where](file)
    opened(path)
    done = run(sources, elsewhere)
    assert done.stdout.endswith("2\n")
    assert not (tmp_path / "trace").exists()
    (warning,) = [line for line in done.stderr.splitlines() if "Warning" in line]
    assert f"{path} " in warning
    assert "compiled code in it is not loaded" in warning
    if where == "file":  # in a folder of this user's it is replaced
        assert run(sources, elsewhere).stderr == ""
    else:
        assert "__pycache__ instead" in warning


@pytest.mark.parametrize("cache_home", ["", "relative"])
def test_code_was_loaded_from_working_directory(monkeypatch: pytest.MonkeyPatch, cache_home: str) -> None:
    # numba joins an empty or relative XDG_CACHE_HOME to it.
    monkeypatch.setenv("XDG_CACHE_HOME", cache_home)
    candidates = list(folder._candidates("/x", ""))
    assert len(candidates) >= 2
    assert [place for place in candidates if not place.startswith("/")] == []


@needs_root
def test_code_was_loaded_from_another_users_home(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    # As in `sudo -E` with a package folder that is not writable.
    del elsewhere["NUMBA_CACHE_DIR"]
    own = tmp_path / "own"
    code = (
        "import pwd, types\n"
        "import ecmproto.kernels.folder as cache\n"
        "every = cache._candidates\n"
        "cache._candidates = lambda *given: list(every(*given))[1:]\n"
        "root = pwd.getpwuid(0)\n"
        f"mine = types.SimpleNamespace(pw_name='root', pw_gid=root.pw_gid, pw_dir={str(own)!r})\n"
        "pwd.getpwuid = lambda uid: mine if uid == 0 else {}[uid]\n"
    )
    run(sources, elsewhere, code)
    home = tmp_path / "home"
    planted_in(home, tmp_path / "trace")
    for each in (home, *home.rglob("*")):
        given_away(each)
    done = run(sources, elsewhere, code)
    assert done.stdout.endswith("2\n")
    assert done.stderr == ""  # nobody asked for that folder by name
    assert not (tmp_path / "trace").exists()
    assert "data loaded" in run(sources, elsewhere, code).stdout
    assert list(own.rglob("*.nbc"))

    given_away(own)
    done = run(sources, elsewhere, code)
    assert done.stdout.endswith("2\n")
    assert "saved" not in done.stdout
    assert f"{home} belongs to user {SOMEBODY}" in done.stderr
    assert "compiled again by each process" in done.stderr


@needs_root
def test_cache_writable_by_owners_group_is_used(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    # If each user has a group, this group can often write the user's files.
    for each in (tmp_path / "cache").rglob("*"):
        each.chmod(0o775 if each.is_dir() else 0o664)
    done = run(sources, elsewhere)
    assert done.stderr == ""
    assert "data loaded" in done.stdout


def test_pipe_as_cache_file_blocked_loading(sources: Path, elsewhere: dict[str, str], tmp_path: Path) -> None:
    file = compiled_in(tmp_path / "cache")
    file.unlink()
    os.mkfifo(file)
    assert run(sources, elsewhere).stdout.endswith("2\n")
    assert file.is_file()


def test_cache_is_private_under_an_open_umask(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "cache")
    run(sources, elsewhere, "import os; os.umask(0)")
    made = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert len(made) >= 3
    assert {path.stat().st_mode & 0o022 for path in made} == {0}


@pytest.mark.parametrize("octets", [0, 40, -1])
def test_truncated_cache_file_is_rewritten(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path, octets: int
) -> None:
    file = compiled_in(tmp_path / "cache")
    whole = file.read_bytes()
    file.write_bytes(whole[:octets])
    assert run(sources, elsewhere).stdout.endswith("2\n")
    assert len(file.read_bytes()) >= len(whole) - 64
    assert "data loaded" in run(sources, elsewhere).stdout


def test_loading_code_does_not_import_its_compiler(sources: Path, elsewhere: dict[str, str]) -> None:
    code = """
import sys
from outer_part import outer
for number, compiles in ((1, False), (1.5, True)):
    assert outer(number) == number + 1
    assert ("numba.np.linalg" in sys.modules) == compiles, number
"""
    assert run(sources, elsewhere, code).stdout.endswith("2\n")


DRAWING = """
from ecmproto.kernels.kernel import compiled

@compiled
def total(generator, count):
    value = 0.0
    for _ in range(count):
        value += generator.random()
    return value
"""


def test_cached_code_with_generator_runs_first(elsewhere: dict[str, str], tmp_path: Path) -> None:
    """Cached code of this type caused a segmentation fault when numba's modules for its compilation were not
    loaded.
    """
    (tmp_path / "drawing_part.py").write_text(DRAWING)
    code = "from drawing_part import total; import numpy; print(total(numpy.random.default_rng(1), 3))"
    command = [sys.executable, "-B", "-c", code]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "0", "NUMBA_DEBUG_CACHE": "1", **elsewhere}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    first, second = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=600).stdout
        for _ in range(2)
    )
    assert ("data loaded" in first, "data loaded" in second) == (False, True)
    expected = float(np.random.default_rng(1).random(3).sum())
    assert [float(text.splitlines()[-1]) for text in (first, second)] == pytest.approx([expected, expected])


def test_cached_code_of_other_types_is_ignored(
    sources: Path, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    # The state after two processes numbered their files at the same time.
    whole = compiled_in(tmp_path / "cache")
    assert run(sources, elsewhere, "from outer_part import outer; print(outer(0.5))").stdout.count("1.5") == 1
    (other,) = set((tmp_path / "cache").rglob("outer_part.outer-*.nbc")) - {whole}
    shutil.copyfile(other, whole)
    assert run(sources, elsewhere).stdout.splitlines()[-1] == "2"


CHECKED = """
import numpy as np
from ecmproto.kernels.kernel import compiled
from ecmproto.frames.columns.octets import load_4, store_8, copy

@compiled
def third(octets):
    return int(octets[3])

@compiled
def placed(octets, at):
    store_8(octets, at, 1)

@compiled
def copied(octets, at):
    copy(octets, at, octets, 0, 1)

@compiled
def loaded(octets, at):
    return load_4(octets, at)

def outer(x):
    whole = np.zeros(48, np.uint8)
    found = []
    for function, arguments in (
        (third, (whole[:3],)),
        (placed, (whole[:20], 13)),
        (copied, (whole[:40], 9)),
        (loaded, (whole[:9], 6)),
    ):
        try:
            function(*arguments)
        except IndexError:
            found.append(function.__name__)
    placed(whole[:20], 12), copied(whole[:40], 8), loaded(whole[:10], 6)
    return found
"""


def test_bounds_checked_code_is_cached_separately(tmp_path: Path, elsewhere: dict[str, str]) -> None:
    # numba's own cache does not distinguish these functions, and runs the function that was compiled first.
    (tmp_path / "outer_part.py").write_text(CHECKED)
    every = "['third', 'placed', 'copied', 'loaded']"
    for wanted, environment in (("[]", {"NUMBA_BOUNDSCHECK": "0"}), (every, {"NUMBA_BOUNDSCHECK": "1"})):
        for cached in ("data saved", "data loaded"):
            done = run(tmp_path, elsewhere | environment)
            assert done.stdout.splitlines()[-1] == wanted
            assert cached in done.stdout


def test_command_warns_once_without_a_cache(
    tmp_path: Path, elsewhere: dict[str, str], repository: Path
) -> None:
    (tmp_path / "cache").mkdir()
    for_everyone(tmp_path / "cache")
    code = (
        "import sys, ecmproto.kernels.folder as cache\n"
        "first = cache._candidates\n"
        "cache._candidates = lambda *given: list(first(*given))[:1]\n"
        "from ecmproto.kernels import library\n"
        "library.PATH = library.PACKAGE + '/nothing.so'\n"
        "from ecmproto.frames.capture import source\n"
        "source.COMPILE_FROM_OCTETS = source._FEW_RECORDS = 0\n"
        "from ecmproto_cli.main import main\n"
        "main()\n"
    )
    capture = next(iter(sorted((repository / "pcaps").rglob("*.pcap"))))
    done = subprocess.run(
        [sys.executable, "-c", code, "dissect", "-c", "1", "-r", str(capture)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0", **elsewhere},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ecmproto: warning: {tmp_path / 'cache'} can be written to by everyone: ")


def test_truncated_file_of_capture_walk_broke_every_run(
    tmp_path: Path, elsewhere: dict[str, str], repository: Path
) -> None:
    capture = next(iter(sorted((repository / "pcaps").rglob("*.pcap"))))
    code = (
        "import sys\n"
        "import numba\n"  # without it so few records are walked interpreted
        "from ecmproto.kernels import library\n"
        "library.PATH = library.PACKAGE + '/nothing.so'\n"
        "from ecmproto.frames.capture import open_capture, source\n"
        "source.COMPILE_FROM_OCTETS = 0\n"
        "with open_capture(sys.argv[1]) as reader: print(sum(map(len, reader)))\n"
    )
    seen = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, str(capture)],
            env={**os.environ, "NUMBA_DISABLE_JIT": "0", **elsewhere},
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        seen.add(done.stdout)
        kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
        assert kept
        for each in kept:
            each.write_bytes(each.read_bytes()[:100])
    assert len(seen) == 1


DIGESTS = """
import importlib, pkgutil
from ecmproto import frames
from ecmproto.control import engine
from ecmproto.kernels import sources
for package in frames, engine:
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
for function in set(sources.functions.values()):
    print(function.__module__, function.__qualname__, sources.source_digest(function))
"""


def test_processes_agree_on_digests_of_sources() -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "NUMBA_DISABLE_JIT": "0", "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    )  # fmt: skip
    assert len(first) > 100
    assert sorted(first) == sorted(second)
