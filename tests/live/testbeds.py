"""Testbeds run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import requires
from tests.live.wires import requires_namespaces

COMMAND = (sys.executable, "-m", "ecmproto_cli", "live", "testbed")


def requires_testbeds() -> None:
    """Skip the test by name where a testbed cannot be built."""
    requires_namespaces()
    pytest.importorskip("pyroute2")
    requires("iperf3")
    requires("ping")


def run(*words: str, seconds: int, folder: Path) -> dict[str, Any]:
    """Run a testbed that keeps its files in ``folder``; return its document."""
    shown = subprocess.run(
        [*COMMAND, "--time", f"{seconds}s", "--seed", "1", "-T", "json", "--keep", str(folder), *words],
        stdout=subprocess.PIPE, check=True, timeout=600,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(shown.stdout)
    return found
