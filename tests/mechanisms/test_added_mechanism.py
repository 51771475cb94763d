"""An installed mechanism of another package, with a new tag and new messages, works like ecmproto's
mechanisms.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.transcripts import REPOSITORY, Folder, blocks_of
from tests.mechanisms import check_added

PAGE = REPOSITORY / "docs/control.md"
BLOCKS = [
    block
    for block in blocks_of(PAGE.read_text(encoding="utf-8").partition("## Adding a mechanism")[2])
    if block.language in ("python", "toml")
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's formats and mechanism are installed."""
    path = tmp_path_factory.mktemp("added")
    folder = Folder(path)
    for block in BLOCKS:
        folder.run(block)
    return path


@pytest.fixture(scope="module")
def failed(installed: Path) -> dict[str, str]:
    """The errors of failed checks, by name: all run in one process."""
    return failures(installed, *check_added.NAMES)


def failures(installed: Path, *names: str) -> dict[str, str]:
    """Return the errors of failed checks, by name."""
    known = os.pathsep.join([str(installed), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.check_added", *names], cwd=installed, text=True,
        env=os.environ | {"PYTHONPATH": known, "NUMBA_DISABLE_JIT": "1"}, encoding="utf-8",
        capture_output=True, check=False,
    )  # fmt: skip
    assert not ended.returncode, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", check_added.NAMES)
def test_an_added_mechanism_is_like_others(name: str, failed: dict[str, str]) -> None:
    assert name not in failed, failed[name]


@pytest.mark.slow
def test_an_added_mechanism_runs_in_every_scenario(installed: Path) -> None:
    failed = failures(installed, "scenarios")
    assert not failed, failed["scenarios"]


TYPOS = {
    "set": ("self.state.stepped_ns = ", "self.state.steppd_ns = ", "Point.on_arrival", "'steppd_ns'"),
    "read": ("arrival.port_octets", "arrival.prt_octets", "Point.on_arrival", "'prt_octets'"),
    "name": ("return min(tag", "return mim(tag", "Point.rewrite_tag", "name 'mim' is not defined"),
}


@pytest.mark.slow
@pytest.mark.parametrize("typo", TYPOS)
def test_a_typo_is_one_sentence_with_its_line(typo: str, installed: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    right, wrong, method, got = TYPOS[typo]
    folder = tmp_path / "typo"
    shutil.copytree(installed, folder)
    path = folder / "share.py"
    text = path.read_text(encoding="utf-8").replace(right, wrong)
    path.write_text(text, encoding="utf-8")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if wrong in each)
    known = os.pathsep.join([str(folder), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [
            sys.executable, "-m", "ecmproto_cli", "lab", "run", "incast-victim", "--mechanism", "share",
            "--set", "duration=1ms", "--set", "measure.from=0ms",
        ],
        cwd=folder, text=True, env=os.environ | {"PYTHONPATH": known, "NUMBA_DISABLE_JIT": "0"},
        encoding="utf-8", capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    (sentence,) = [each for each in ended.stderr.splitlines() if "cannot be compiled" in each]
    assert sentence.startswith(f"ecmproto: {path}:{line}: {method} cannot be compiled: ")
    assert got in sentence
    assert "Traceback" not in ended.stderr


def test_the_example_has_fewer_than_a_hundred_lines() -> None:
    lines = [line for block in BLOCKS for line in block.text.splitlines() if block.language == "python"]
    assert 0 < len([line for line in lines if line.strip()]) < 100
