"""The testbed with real interfaces and real traffic: its reports, and the removal of all its parts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import requires
from tests.live.testbeds import (
    BUFFER_OCTETS,
    COMMAND,
    FEW_DROPS,
    JAIN,
    Laboratory,
    Miss,
    Outcome,
    missed,
    misses,
    requires_testbeds,
)
from tests.live.wires import READY_S
from tests.namespaces import PATIENCE_S


@pytest.fixture(autouse=True)
def programs() -> None:
    requires_testbeds()


def namespaces_of(number: int) -> list[Path]:
    return list(Path("/run/netns").glob(f"ecmproto-{number}-*"))


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", sorted(JAIN))
def test_each_mechanism_closes_the_loop(mechanism: str, laboratory: Laboratory) -> None:
    laboratory.judged(mechanism, lambda outcome: misses(outcome, jain=JAIN[mechanism]))


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", ["pause", "pfc"])
def test_pauses_alone_avoid_drops_and_share_equally(mechanism: str, laboratory: Laboratory) -> None:
    def judge(outcome: Outcome) -> dict[str, Miss]:
        # XOFF is sent at two thirds of the buffer, XON at one.
        full, drops = outcome["queue_mean_octets"] / BUFFER_OCTETS, outcome["dropped_frames"]
        fairness = outcome["fairness"]
        return {
            "drops": missed(narrow=drops == 0, wide=drops < FEW_DROPS),
            "queue": missed(narrow=0.25 <= full <= 0.75, wide=0 < full <= 0.9),
            "fairness": missed(narrow=fairness >= 0.95, wide=fairness >= 0.8),
            "messages": missed(narrow=True, any=outcome["messages"] > 0),
        }

    laboratory.judged(mechanism, judge)


@pytest.mark.alone
def test_frames_of_the_kernel_are_marked_and_slowed(laboratory: Laboratory) -> None:
    """DCQCN's port marks ECT frames from the kernel's own sockets, and DCQCN's edge sends CNPs."""

    def judge(outcome: Outcome) -> dict[str, Miss]:
        drops, fairness = outcome["dropped_frames"], outcome["fairness"]
        return {
            "drops": missed(narrow=drops == 0, wide=drops < FEW_DROPS),
            "queue": missed(narrow=0 < outcome["queue_mean_octets"] <= 120_000, wide=True),
            "fairness": missed(narrow=fairness >= 0.95, wide=fairness >= 0.8),
            "messages": missed(narrow=True, any=outcome["messages"] > 0),
        }

    laboratory.judged("dcqcn", judge)
    came = laboratory.folder / "dcqcn" / "receiver.pcap"
    assert len(chosen(came, "ip.dsfield.ecn == 3")) > 100
    assert not chosen(came, 'ip.checksum.status == "Bad"')


def chosen(path: Path, condition: str) -> list[str]:
    """Return the numbers of the frames that tshark chooses, header checksums checked."""
    words = [requires("tshark"), "-r", str(path), "-o", "ip.check_checksum:TRUE", "-Y", condition]
    words += ["-T", "fields", "-e", "frame.number"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.alone
def test_without_control_the_queue_fills_and_drops(laboratory: Laboratory) -> None:
    def judge(outcome: Outcome) -> dict[str, Miss]:
        full = outcome["queue_mean_octets"] / BUFFER_OCTETS
        return {
            "queue": missed(narrow=full >= 0.9, wide=full >= 0.5),
            "drops": missed(narrow=outcome["dropped_frames"] > 0),
        }

    laboratory.judged("none", judge)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_any_signal_leaves_no_namespace_behind(number: int, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    program = subprocess.Popen(
        [*COMMAND, "--mechanism", "none", "--duration", "60s", "-w", str(folder)],
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


def test_a_device_that_ends_early_ends_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    program = subprocess.Popen(
        [*COMMAND, "--mechanism", "none", "--duration", "60s", "-w", str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_S
        while not (folder / "none" / "ping.txt").exists():
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        devices = subprocess.run(
            ["pgrep", "-f", f"live net {folder}"], stdout=subprocess.PIPE, text=True, check=True
        )
        for number in devices.stdout.split():
            os.kill(int(number), signal.SIGKILL)
        _, error = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
        program.communicate()
    assert "net.log: expected a device that runs until the end" in error
    assert not namespaces_of(program.pid)


def test_missing_programs_of_a_testbed_are_reported(tmp_path: Path) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    (only / "ip").symlink_to(str(shutil.which("ip")))
    shown = subprocess.run(
        [*COMMAND, "--mechanism", "none", "--duration", "1s"],
        stderr=subprocess.PIPE, text=True, check=False, env=os.environ | {"PATH": str(only)},
    )  # fmt: skip
    assert shown.returncode == 5
    assert "expected iperf3" in shown.stderr
