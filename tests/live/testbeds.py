"""Testbeds run as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import requires
from tests.live.wires import requires_namespaces

COMMAND = (sys.executable, "-m", "ecmproto_cli", "live", "testbed")
RATE_BPS = 50_000_000
VICTIM_BPS = 2_000_000
SECONDS = 15
SENDERS = 3
EXTRA_RUNS = 2
"""Of each mechanism: what one was starved of leaves the others theirs, and a miss its second look."""
_STARVED_NS = 50_000_000


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


class Laboratory:
    """Runs of each mechanism beside a victim flow, which several tests look at; files are in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._extra: Counter[str] = Counter()
        self._outcomes: dict[str, dict[str, Any]] = {}

    def outcome(self, mechanism: str) -> dict[str, Any]:
        """Return what the last run with ``mechanism`` came to."""
        if mechanism not in self._outcomes:
            self._run(mechanism)
        return self._outcomes[mechanism]

    def again(self, mechanism: str) -> bool:
        """Run once more, unless that was done often enough; return whether it was."""
        self._extra[mechanism] += 1
        if self._extra[mechanism] > EXTRA_RUNS:
            return False
        self._run(mechanism)
        return True

    def starved_ms(self, mechanism: str) -> float:
        """Return for how long other programs kept the last run's devices from what was due, 0 if hardly.

        Devices that cannot run are no reaction points, whatever the mechanism; what they gave up tells.
        """
        missed_ns = 0
        for number in range(SENDERS):
            path = self.folder / mechanism / f"point{number + 1}.ndjson"
            *_, summary = path.read_text(encoding="utf-8").splitlines()
            missed_ns += json.loads(summary)["counters"]["missed_ns"]
        return missed_ns / 1e6 if missed_ns > _STARVED_NS else 0.0

    def _run(self, mechanism: str) -> None:
        document = run(
            "--mechanism", mechanism, "--victim", f"{VICTIM_BPS}b/s", "--rate", f"{RATE_BPS}b/s", "--force",
            seconds=SECONDS, folder=self.folder,
        )  # fmt: skip
        (self._outcomes[mechanism],) = document["runs"]
