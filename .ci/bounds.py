"""Runs tests with the oldest or the newest dependencies that pyproject.toml allows: ``make oldest newest``.

``python .ci/bounds.py oldest|newest FOLDER [WORDS…]`` creates the environment in FOLDER. WORDS are arguments
of pytest and replace `TESTS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
TESTS = (
    "tests/test_api.py",
    "tests/kernels/test_kernel.py",
    "tests/codec",
    "tests/columns/test_arrow.py",
    "tests/columns/text",
    "tests/craft/test_builders.py",
    "tests/cli/test_main.py",
    "tests/cli/test_dissect.py",
    "tests/cli/test_stats.py",
    "tests/filter/test_meaning.py",
    "tests/layers",
    "tests/replay/test_open_loop.py",
    "tests/report/test_output.py",
    "tests/fuzz/strategies/test_captures.py",
)
"""Some of each room, and of each dependency."""


def main() -> int:
    """Create the environment, run the tests in the environment, and return their exit code."""
    which, folder, *words = sys.argv[1:]
    python = Path(folder).absolute() / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in (
        [*uv, "venv", "--clear", "--python", sys.executable, folder],
        [*uv, "pip", "install", "--python", str(python), "--resolution", RESOLUTIONS[which],
         "--editable", ".[all]", "--group", "test"],
        [*uv, "pip", "list", "--python", str(python)],
    ):  # fmt: skip
        subprocess.run(command, check=True, env=environment)
    tests = words or TESTS
    # an old package calls a newer one by names that are to go, which is no matter of ours
    return subprocess.run(
        [str(python), "-m", "pytest", "-q", "-W", "default::DeprecationWarning", *tests],
        env=environment,
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
