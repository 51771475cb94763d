"""A wheel with machine code compiles nothing, wherever it is; what does not fit is compiled, saying why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecmproto.kernels import prebuilt

STEP = "interfaces"
"""What compiles in seconds."""
NOTHING = "nothing to compile: all of it came with the wheel, or was compiled before\n"


def build(folder: Path, repository: Path) -> Path:
    """Build a wheel with the code of one step; return it."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0"}
    command: list[str | Path] = [sys.executable, "-m", "ecmproto_cli.prebuilding", folder / "prebuilt", STEP]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"]
    environment["ECMPROTO_PREBUILT"] = str(folder / "prebuilt")
    subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True)
    (wheel,) = (folder / "dist").iterdir()
    return wheel


def unpack(wheel: Path, folder: Path) -> Path:
    """Return an environment that has the wheel, and what it depends on, and is read-only."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)
    return packages


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("wheel")
    folder.chmod(0o755)
    packages = unpack(build(folder, repository), folder / "environment")
    yield packages
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)


def warm(packages: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Prepare the step where nothing can be written, and there is no home."""
    python = packages.parent.parent.parent / "bin" / "python"
    alone = {
        "PATH": "/nonexistent",
        "HOME": "/nonexistent",
        "NUMBA_DISABLE_JIT": "0",
        "ECMPROTO_PROGRESS": "0",
    }
    return subprocess.run(
        [python, "-B", "-m", "ecmproto_cli", "warm", STEP],
        cwd=packages,
        env={**alone, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_wheel_with_machine_code_compiles_nothing(packages: Path) -> None:
    done = warm(packages)
    assert (done.returncode, done.stdout, done.stderr) == (0, NOTHING, "")
    manifest = json.loads((packages / "ecmproto" / "_prebuilt" / prebuilt.MANIFEST).read_text())
    assert len(manifest["files"]) >= 4
    assert not any(str(packages).encode() in each.read_bytes() for each in packages.rglob("*.nbc"))


def test_code_that_was_changed_is_compiled_anew_and_said_once(packages: Path, tmp_path: Path) -> None:
    folder = packages / "ecmproto" / "_prebuilt"
    file = next(folder.rglob("*unpack*.nbc"))
    whole = file.read_bytes()
    file.chmod(0o644)
    try:
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        done = warm(packages, NUMBA_CACHE_DIR=str(tmp_path))
    finally:
        file.write_bytes(whole)
    assert done.stdout == "1 kernel compiled\n"
    (line,) = done.stderr.splitlines()
    assert line.endswith("is not what the wheel had: its SHA-256 digest differs")


@pytest.mark.parametrize(
    ("part", "what", "said"),
    [("by", "numba", "the machine code of the wheel is for numba 0.1, this is"),
     ("for", "python", "the machine code of the wheel is for python 0.1, this is")],
)  # fmt: skip
def test_code_for_another_numba_is_not_loaded(part: str, what: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "part.f-1.nbc"
    file.write_bytes(b"code")
    digest = "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b"
    manifest = {
        "for": prebuilt.here(), "by": prebuilt.compilers(), "files": {file.name: digest},
    }  # fmt: skip
    source = str(Path(prebuilt.__file__).parents[1] / "part.py")
    (tmp_path / prebuilt.MANIFEST).write_text(json.dumps(manifest))
    assert prebuilt.Store(tmp_path).read(source, file.name) == b"code"
    manifest[part][what] = "0.1"
    (tmp_path / prebuilt.MANIFEST).write_text(json.dumps(manifest))
    store = prebuilt.Store(tmp_path)
    assert store.read(source, file.name) is None
    assert said in store.why_not
