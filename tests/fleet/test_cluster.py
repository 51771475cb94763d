"""A fleet on a real cluster with a killed worker and a killed scheduler equals a fleet in one process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.fleet import (
    LocalCluster,
    Peaks,
    environment,
    fleet_command,
    results,
    rows_kept,
    spoil,
    write_fleet,
)
from ecmproto_cli.main import run

FILES = 60
MAX_MIB = 1024
"""Maximum memory of a worker in MiB."""
PATIENCE_S = 120.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def until_kept(out: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until ``count`` parts are done; a command that is done before is no test."""
    end_s = time.monotonic() + PATIENCE_S
    while rows_kept(out) < rows:
        assert process.poll() is None
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_killed_workers_and_schedulers_change_nothing(tmp_path: Path) -> None:
    paths = write_fleet(tmp_path / "captures", FILES, 1_500_000)
    spoil(paths)
    alone, broken = tmp_path / "alone", tmp_path / "broken"
    assert run(["fleet", "parquet", str(tmp_path / "captures"), "-w", str(alone), "--jobs", "1"]) == 3
    with LocalCluster(2, free_port()) as cluster, Peaks() as peaks:
        command = fleet_command("parquet", [tmp_path / "captures"], broken, "--scheduler", cluster.address)

        def begun() -> subprocess.Popen[bytes]:
            cluster.watched(peaks)
            return subprocess.Popen(
                [sys.executable, "-m", *command],
                env=environment(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

        with begun() as first:
            until_kept(broken, FILES // 4, first)
            cluster.kill_worker()
            until_kept(broken, FILES // 3, first)
            cluster.restart_scheduler()
            first.kill()
        assert not (broken / "all.json").exists()
        before = rows_kept(broken)
        assert FILES // 3 <= before < FILES
        with begun() as second:
            assert second.wait(PATIENCE_S) == 3
    assert results(broken) == results(alone)
    # what was done was not done again
    rows = [json.loads(line) for line in (broken / ".done.ndjson").read_text().splitlines()]
    assert len(rows) == len({row["digest"] for row in rows}) == FILES - 1
    assert max(peaks.peaks_mib.values()) < MAX_MIB
