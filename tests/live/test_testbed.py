"""The testbed with real interfaces and real traffic: what it reports, and that nothing of it stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live.testbeds import COMMAND, RATE_BPS, VICTIM_BPS, Laboratory, requires_testbeds
from tests.live.wires import READY_S
from tests.namespaces import PATIENCE_S

JAIN = {"ecm": 0.90, "qcn": 0.95, "e2cm": 0.95, "fecn": 0.98, "bcn": 0.90, "dbp": 0.98}
"""What is asked of the shares of three equal senders."""


@pytest.fixture(autouse=True)
def programs() -> None:
    requires_testbeds()


def namespaces_of(number: int) -> list[Path]:
    return list(Path("/run/netns").glob(f"ecmproto-{number}-*"))


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", sorted(JAIN))
def test_each_mechanism_closes_the_loop(mechanism: str, laboratory: Laboratory) -> None:
    missed, starved = [], []
    while True:
        short = shortcomings(mechanism, laboratory.outcome(mechanism))
        if not short:
            return
        told = f"{', '.join(short)} of {laboratory.outcome(mechanism)}"
        starved_ms = laboratory.starved_ms(mechanism)
        if starved_ms:
            starved.append(f"devices were kept from the processor for {starved_ms:.0f} ms: {told}")
        else:
            missed.append(told)
        if len(missed) > 1 or not laboratory.again(mechanism):
            break
    if len(missed) > 1:
        pytest.fail("\n".join(missed))
    pytest.skip("NOT TESTED: this machine is too busy for a testbed: " + "; ".join(starved + missed))


def shortcomings(mechanism: str, outcome: dict[str, Any]) -> list[str]:
    """Return what a run has not reached."""
    set_point_octets = outcome["set_point_octets"]
    latest_ms = 2 * set_point_octets * 8 / RATE_BPS * 1000 + 5
    reached = {
        "drops": outcome["dropped_frames"] == 0,
        "queue": 0.5 <= outcome["queue_mean_octets"] / set_point_octets <= 2,
        "fairness": outcome["fairness"] >= JAIN[mechanism],
        "victim": outcome["victim_bps"] >= 0.9 * VICTIM_BPS,
        "round trip": outcome["ping_p50_ms"] <= latest_ms,
        "messages": outcome["messages"] > 0,
    }
    return [what for what, is_reached in reached.items() if not is_reached]


@pytest.mark.alone
def test_without_control_the_queue_stands_and_loses(laboratory: Laboratory) -> None:
    outcome = laboratory.outcome("none")
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
        deadline = time.monotonic() + READY_S
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
