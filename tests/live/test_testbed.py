"""The testbed with real interfaces and real traffic: what it reports, and that nothing of it stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.testbeds import COMMAND, requires_testbeds, run

PATIENCE_S = 30.0
JAIN = {"ecm": 0.90, "qcn": 0.95, "e2cm": 0.95, "fecn": 0.98, "bcn": 0.90, "dbp": 0.98}
"""What is asked of the shares of three equal senders."""
RATE_BPS = 50_000_000
VICTIM_BPS = 2_000_000


@pytest.fixture(autouse=True)
def programs() -> None:
    requires_testbeds()


def namespaces_of(number: int) -> list[Path]:
    return list(Path("/run/netns").glob(f"ecmproto-{number}-*"))


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", sorted(JAIN))
def test_each_mechanism_closes_the_loop(mechanism: str, tmp_path: Path) -> None:
    document = run(
        "--mechanism", mechanism, "--victim", str(VICTIM_BPS), "--rate", str(RATE_BPS),
        seconds=15, folder=tmp_path / "kept",
    )  # fmt: skip
    (outcome,) = document["runs"]
    set_point_octets = outcome["set_point_octets"]
    assert outcome["dropped_frames"] == 0
    assert 0.5 <= outcome["queue_mean_octets"] / set_point_octets <= 2
    assert outcome["fairness"] >= JAIN[mechanism]
    assert outcome["victim_bps"] >= 0.9 * VICTIM_BPS
    assert outcome["ping_p50_ms"] <= 2 * set_point_octets * 8 / RATE_BPS * 1000 + 5
    assert outcome["messages"] > 0


@pytest.mark.alone
def test_without_control_the_queue_stands_and_loses(tmp_path: Path) -> None:
    document = run("--mechanism", "none", seconds=12, folder=tmp_path / "kept")
    (outcome,) = document["runs"]
    assert outcome["queue_mean_octets"] >= 0.9 * 1000 * 1442
    assert outcome["dropped_frames"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_whatever_ends_it(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    program = subprocess.Popen(
        [*COMMAND, "--mechanism", "none", "--time", "60s", "--keep", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (folder / "none" / "ping.txt").exists():
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert namespaces_of(program.pid)
        os.kill(program.pid, number)
        program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
        program.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while namespaces_of(program.pid):
        assert time.monotonic() < deadline, "namespaces stay behind"
        time.sleep(0.1)
    if number != signal.SIGKILL:
        assert program.returncode == 130


def test_a_testbed_without_its_programs_says_so(tmp_path: Path) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    (only / "ip").symlink_to(str(shutil.which("ip")))
    shown = subprocess.run(
        [*COMMAND, "--mechanism", "none", "--time", "1s"],
        stderr=subprocess.PIPE, text=True, check=False, env=os.environ | {"PATH": str(only)},
    )  # fmt: skip
    assert shown.returncode == 5
    assert "needed iperf3" in shown.stderr
