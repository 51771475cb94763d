"""A mechanism that another package brings, with its own tag and messages, works like ecmproto's own."""

from __future__ import annotations

import json
import os
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
    """What the checks said that failed, by their names: all run in one process."""
    known = os.pathsep.join([str(installed), str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.check_added", *check_added.NAMES], cwd=installed, text=True,
        env=os.environ | {"PYTHONPATH": known, "NUMBA_DISABLE_JIT": "1"}, encoding="utf-8",
        capture_output=True, check=False,
    )  # fmt: skip
    assert not ended.returncode, ended.stderr
    return dict(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", check_added.NAMES)
def test_an_added_mechanism_is_like_others(name: str, failed: dict[str, str]) -> None:
    assert name not in failed, failed[name]


def test_the_example_has_fewer_than_a_hundred_lines() -> None:
    lines = [line for block in BLOCKS for line in block.text.splitlines() if block.language == "python"]
    assert 0 < len([line for line in lines if line.strip()]) < 100
