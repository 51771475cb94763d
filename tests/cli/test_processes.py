"""Large captures in several processes: the output equals the output of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, PcapWriter, forked
from ecmproto.frames.stats import accumulator
from ecmproto_cli.main import run
from tests.capture.test_parts import record
from tests.dissect.sample import FRAMES

COMMANDS = (
    ["dissect"],
    ["dissect", "-V"],
    ["dissect", "-T", "ndjson", "-Y", "vlan"],
    ["dissect", "-T", "json"],
    ["dissect", "-T", "csv", "-e", "frame.number", "-e", "frame.time_relative", "-e", "frame.time_delta"],
    ["dissect", "-T", "fields", "--header", "-Y", "frame.number > 100", "-e", "frame.time_delta_displayed"],
    ["stats", "-T", "json"],
    ["stats", "-Y", "frame.number > 70"],
    ["check", "-T", "ndjson"],
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a truncated capture of all types of frames; some frames contain octets that look like records."""
    fakes = [bytes(14) + record(bytes(40)) * 6, bytes(12) + b"\x88\xb5" + record(bytes(60)) * 20]
    frames = [*FRAMES.values(), *fakes] * 8
    path = tmp_path / "in.pcap"
    with PcapWriter(str(path)) as writer:
        times = 1_700_000_000 * 10**9 + np.arange(len(frames)) * 999
        writer.write_batch(Batch.from_frames(frames, time_ns=times))
    path.write_bytes(path.read_bytes()[:-7])
    return path


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make commands use several processes for small captures, and record the numbers of processes."""
    used: list[int] = []
    start = forked.ForkedCapture.__enter__

    def noted(self: forked.ForkedCapture) -> forked.ForkedCapture:
        used.append(self._processes)
        return start(self)

    monkeypatch.setattr(forked.ForkedCapture, "__enter__", noted)
    monkeypatch.setattr(forked, "PART_OCTETS", 4096)
    monkeypatch.setattr(accumulator, "PART_OCTETS", 4096)
    monkeypatch.setattr(accumulator, "_MAX_PART_OCTETS", 4096)
    return used


def told(arguments: Sequence[str], capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, bytes, bytes]:
    code = run(list(arguments))
    out, err = capfdbinary.readouterr()
    return code, out, err


@pytest.fixture
def count_again(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Sequence[str]], None]:
    """Return a function that runs a command in one process and in two, and compares the outputs."""

    def compare(arguments: Sequence[str]) -> None:
        alone = told(arguments, capfdbinary)
        monkeypatch.setattr(forked, "processes_for", lambda paths: 2)
        assert told(arguments, capfdbinary) == alone

    return compare


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_output_equals_that_of_one_process(
    command: list[str],
    path: Path,
    processes: list[int],
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [*command, "-r", str(path)]
    alone = told(arguments, capfdbinary)
    assert not processes
    for count in (2, 3):
        monkeypatch.setattr(forked, "processes_for", lambda paths, count=count: count)
        assert told(arguments, capfdbinary) == alone
    in_turn = command == ["dissect", "-T", "json"] or "frame.time_delta_displayed" in command
    assert processes == ([] if in_turn else [2, 3])


def test_wrapped_frames_are_counted_by_one_process(
    path: Path,
    processes: list[int],
    capfdbinary: pytest.CaptureFixture[bytes],
    count_again: Callable[[Sequence[str]], None],
) -> None:
    wrapped = path.with_name("wrapped.pcap")
    assert told(["edit", "-r", str(path), "-w", str(wrapped), "--encap", "erspan2,session=12"], capfdbinary)
    count_again(["stats", "-T", "json", "-r", str(wrapped)])
    assert processes == [2]


@pytest.mark.parametrize("command", [["stats", "-T", "json"], ["check", "-T", "ndjson"]], ids=" ".join)
def test_one_process_counts_captures_that_fill_a_list(
    command: list[str],
    path: Path,
    processes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    count_again: Callable[[Sequence[str]], None],
) -> None:
    monkeypatch.setattr("ecmproto.frames.stats.counters.MAX_POINTS", 1)
    monkeypatch.setattr("ecmproto.tools.check.checker.Checker.can_merge", lambda *_: False)
    count_again([*command, "-r", str(path)])
    assert processes == [2]


SCRIPT = """
import sys
from ecmproto.frames.capture import forked
from ecmproto_cli.main import main
forked.processes_for = lambda paths: 2
forked.PART_OCTETS = 4096
sys.argv[0] = "ecmproto"
main()
"""


def test_a_closed_pipe_ends_all_processes(path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, "dissect", "-r", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        # stderr ends when all processes that share it have ended.
        assert not process.stderr.read()
    assert process.returncode == 141


def test_an_interrupt_ends_all_processes(path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, "dissect", "-V", "-r", str(path)]
    # Without a buffer, because `communicate` would not return what the buffer has read.
    with subprocess.Popen(
        command, bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith(b"ecmproto: interrupted\n")
    assert out.endswith(b"\n")
