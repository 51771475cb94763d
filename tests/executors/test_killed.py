"""A sweep of compiled points is repeated after a kill of the worker, the scheduler or the command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.executors import SCENARIO
from ecmproto.executors.rows import RowStore
from tests.executors.test_cluster import Dask

pytest.importorskip("distributed")

POINTS = 160
NOT_THERE = 4
"""The exit code for a missing requirement."""


class Sweep:
    """A sweep command that can be repeated, and the file of its rows."""

    def __init__(self, folder: Path, name: str) -> None:
        self.out = folder / f"{name}.ndjson"
        self._folder = folder
        self._command = [
            sys.executable, "-m", "ecmproto_cli", "lab", "sweep", "two.toml", "--sweep",
            "control.qeq=26kB,33kB", "--seeds", str(POINTS // 2), "--show", "queue.mean", "--show", "drops",
            "-T", "csv", "-w", str(self.out),
        ]  # fmt: skip

    def start(self, address: str = "", *, progress: bool = False) -> subprocess.Popen[str]:
        """Start the sweep with a scheduler or without a scheduler. The progress output names crashed
        workers.
        """
        who = ["--scheduler", address] if address else ["--jobs", "1"]
        environment = {
            **os.environ,
            "ECMPROTO_PROGRESS": str(int(progress)),
            "NUMBA_DISABLE_JIT": "0",
            "PYTHONPATH": os.pathsep.join(map(str, sys.path)),
        }
        return subprocess.Popen(
            [*self._command, *who], cwd=self._folder, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    @property
    def done(self) -> int:
        """Number of rows in the file."""
        return self.out.read_bytes().count(b"\n") if self.out.exists() else 0

    def wait(self, process: subprocess.Popen[str], rows: int) -> None:
        """Wait until ``count`` points are done."""
        while self.done < rows:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)


@contextmanager
def started(folder: Path, repository: Path, name: str) -> Iterator[Dask]:
    """Start a scheduler and two workers that compile."""
    (folder / name).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_DISABLE_JIT", "0")
        dask = Dask(folder / name, repository, tls=False)
        try:
            dask.start_workers(2)
            dask.wait()
            yield dask
        finally:
            dask.end()


def test_rows_survive_killed_worker_scheduler_and_command(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "two.toml").write_text(SCENARIO.format(duration="5ms"))
    alone, broken = Sweep(tmp_path, "alone"), Sweep(tmp_path, "broken")
    process = alone.start()
    expected, said = process.communicate()
    assert (process.returncode, said, expected.count("\n")) == (0, "", POINTS + 1)

    with started(tmp_path, repository, "first") as dask:
        process = broken.start(dask.address, progress=True)
        broken.wait(process, 4)
        dask.processes[1].kill()  # a worker
        assert process.stderr is not None
        assert any("died" in line for line in process.stderr)
        dask.processes[0].kill()  # the scheduler
        _, said = process.communicate()
    assert process.returncode == NOT_THERE
    assert "the same command does what is missing" in said
    kept = broken.done
    assert 4 <= kept < POINTS

    with started(tmp_path, repository, "second") as dask:
        process = broken.start(dask.address)
        broken.wait(process, kept + 4)
        process.kill()  # the command
        process.communicate()
        process = broken.start(dask.address)
        printed, said = process.communicate()
    assert (process.returncode, said) == (0, "")
    assert printed == expected
    rows = [
        {key: {**store[key], "elapsed_s": 0} for key in store}
        for store in (RowStore(alone.out), RowStore(broken.out))
    ]
    assert rows[0] == rows[1]
    assert broken.done == POINTS
