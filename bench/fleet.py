"""Fleets of captures: one process, two processes, a Dask cluster, and a large file in parts.

``python -m bench fleet [--files N] [--gigabytes N] [--large N] [--rounds N] [--folder DIR] [--mishaps]``
creates a fleet of N files, with two gigabytes by default, and a file of ``--large`` gigabytes. The folder of
the files is removed at the end. The output shows the times of one worker, of two workers, and of two
simultaneous commands with half of the captures each. It also shows the limit of the machine, and the cost of
the scheduler compared with processes.

``--mishaps`` processes the fleet on a cluster. Half-way, a worker is killed. Later the scheduler is killed,
and the command is repeated. One of the files is truncated, and another file is not a capture. The results
must be equal to the results of one process, octet for octet. The output shows the peak memory of each type of
process, and of the command with a tenth of the files.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from ecmproto.frames.capture import Batch, PcapngWriter, PcapWriter, open_capture
from pcaps.manifest import FOLDER

KINDS = ("mixed.pcap", "qcn_cp.pcapng", "pfc.pcap", "fecn_source.pcap", "vlan_stacks.pcap", "incast.pcap.gz")
MAX_OF_A_KIND = 4000
DATA_OCTETS = 900
"""Length in octets of the data frames between messages."""
BEGUN_NS = 1_772_323_200_000_000_000
"""Time of the first frame in ns: 2026-03-01."""
GAP_NS = 1000
HOSTS = 4
SCHEDULER_PORT = 18786
_TICKS = os.sysconf("SC_CLK_TCK")


# A fleet --------------------------------------------------------------------------------------------------


def frames_of_all_kinds() -> Batch:
    """Return the frames of the bundled captures, with data frames between them."""
    frames: list[bytes] = []
    for name in KINDS:
        with open_capture(FOLDER / name) as reader:
            own = [frame for batch in reader for frame in batch.frames()]
        frames += own[:MAX_OF_A_KIND]
    plain = next(frame for frame in frames if frame[12:14] == b"\x08\x00")
    return Batch.from_frames([*frames, *[plain + bytes(DATA_OCTETS - len(plain))] * (len(frames) // 2)])


def write_fleet(folder: Path, files: int, octets: int, *, seed: int = 1) -> list[Path]:
    """Write ``files`` captures with ``octets`` octets in total, in pcap and pcapng, from a few hosts in time
    order.
    """
    pool = frames_of_all_kinds()
    mean_octets = float(pool.captured.mean()) + 20
    paths = []
    for number in range(files):
        host, turn = number % HOSTS, number // HOSTS
        suffix = "pcapng" if number % 3 == 1 else "pcap"
        path = folder / f"rack{host % 2}" / f"sw{host}-2026-03-{1 + turn % 28:02}-{turn:05}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = max(1, round(octets / files / mean_octets))
        write_capture(
            path, pool, frames, begun_ns=BEGUN_NS + turn * frames * GAP_NS + host, seed=seed + number
        )
        paths.append(path)
    return paths


def write_capture(path: Path, pool: Batch, frames: int, *, begun_ns: int, seed: int) -> None:
    """Write a capture with ``frames`` frames from a pool in random order."""
    random = np.random.default_rng(seed)
    writer = PcapngWriter if path.suffix == ".pcapng" else PcapWriter
    with writer(path, force=True) as out:
        for first in range(0, frames, MAX_IN_A_PIECE):
            count = min(MAX_IN_A_PIECE, frames - first)
            piece = pool.select(random.integers(0, len(pool), count))
            times = begun_ns + GAP_NS * np.arange(first, first + count)
            out.write_batch(dataclasses.replace(piece, time_ns=times, timeline=None))


MAX_IN_A_PIECE = 100_000


def spoil(paths: Sequence[Path]) -> None:
    """Truncate the last record of a capture, and replace another capture with text."""
    cut = paths[len(paths) // 3]
    os.truncate(cut, cut.stat().st_size - 7)
    paths[len(paths) // 2].write_bytes(b"no capture at all\n" * 10)


# Results --------------------------------------------------------------------------------------------------


def results(folder: Path) -> dict[str, str]:
    """Return digests of the result files in a folder by name, without elapsed times."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            octets = _timeless(path) if name == "manifest.ndjson" else path.read_bytes()
            found[name] = hashlib.sha256(octets).hexdigest()
    return found


def _timeless(path: Path) -> bytes:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return "\n".join(json.dumps({**line, "seconds": 0}) for line in lines).encode()


# Processes ------------------------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """Return the environment for processes: one thread per library, no progress bars, and no profiler in
    workers.
    """
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    quiet = {"ECMPROTO_PROGRESS": "0", "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false"}
    return {**os.environ, **single, **quiet}


def started(arguments: Sequence[str], *, heard: bool = True) -> subprocess.Popen[bytes]:
    """Start a Python module as a process; ``heard`` means that stderr is piped."""
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if heard else subprocess.DEVNULL,
    )


def fleet_command(kind: str, paths: Sequence[Path], out: Path, *options: str) -> list[str]:
    """Return the arguments for ``ecmproto fleet``."""
    return ["ecmproto_cli", "fleet", kind, *map(str, paths), "-w", str(out), *options]


class Peaks:
    """Records the peak memory and the processor time of processes by role."""

    def __init__(self) -> None:
        self.peaks_mib: dict[str, float] = {}
        self.processor_s: dict[str, float] = {}
        """Processor time in seconds of the newest process in each role."""
        self._watched: dict[int, str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def watch(self, process: int, role: str) -> None:
        """Watch a process and its child processes."""
        self._watched[process] = role

    def _follow(self) -> None:
        while not self._ended.wait(0.2):
            for root, role in list(self._watched.items()):
                own = ((child, f"a process of {role}") for child in _children(root))
                for process, name in ((root, role), *own):
                    with suppress(OSError, IndexError, ValueError):
                        text = Path(f"/proc/{process}/status").read_text()
                        peak = int(text.partition("VmHWM:")[2].split()[0]) / 1024
                        self.peaks_mib[name] = max(peak, self.peaks_mib.get(name, 0))
                        times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                        self.processor_s[name] = (int(times[11]) + int(times[12])) / _TICKS

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()


def _children(process: int) -> list[int]:
    with suppress(OSError):
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
        own = [int(word) for word in text.split()]
        return [each for child in own for each in (child, *_children(child))]
    return []


class LocalCluster:
    """A Dask scheduler and workers, each in a separate process."""

    def __init__(self, workers: int, port: int = SCHEDULER_PORT) -> None:
        self.address = f"tcp://127.0.0.1:{port}"
        self._port = port
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in range(workers)]

    def _scheduler(self) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--port", str(self._port), "--no-dashboard"]
        return started(["distributed.cli.dask_scheduler", *options], heard=False)

    def _worker(self) -> subprocess.Popen[bytes]:
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
        return started(["distributed.cli.dask_worker", self.address, *options], heard=False)

    def kill_worker(self) -> None:
        """Kill a worker with SIGKILL, and start another worker."""
        self.workers[0].kill()
        self.workers[0].wait()
        self.workers[0] = self._worker()

    def restart_scheduler(self) -> None:
        """Kill the scheduler and all workers, and restart them."""
        self.close()
        self.scheduler = self._scheduler()
        self.workers = [self._worker() for _ in self.workers]

    def watched(self, peaks: Peaks) -> None:
        """Watch the processes of the cluster."""
        peaks.watch(self.scheduler.pid, "the scheduler")
        for worker in self.workers:
            peaks.watch(worker.pid, "a worker of the cluster")

    def close(self) -> None:
        """Kill all processes of the cluster."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def finished(
    command: Sequence[str], exits: Sequence[int] = (0,), peaks: Peaks | None = None, role: str = "the command"
) -> float:
    """Run a command until it ends, and return its duration in seconds."""
    begun_s = time.perf_counter()
    process = started(command)
    if peaks is not None:
        peaks.watch(process.pid, role)
    _, told = process.communicate()
    if process.returncode not in exits:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{told.decode()}")
    return time.perf_counter() - begun_s


def rows_kept(out: Path) -> int:
    """Return the number of finished parts in a fleet's folder."""
    return sum(path.read_bytes().count(b"\n") for path in out.glob(".done*.ndjson"))


@contextmanager
def half_way(command: Sequence[str], done: Callable[[], int], rows: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the process of a command after ``done`` has returned half of ``rows``."""
    process = started(command)
    try:
        while done() < rows // 2 and process.poll() is None:
            time.sleep(0.02)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


# Figures --------------------------------------------------------------------------------------------------


def run(arguments: Sequence[str]) -> None:
    """Print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench fleet")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--large", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kinds", default="stats,parquet", help="what is done, as stats,parquet,check")
    parser.add_argument("--mishaps", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        paths = write_fleet(folder / "fleet", given.files, round(given.gigabytes * 1e9))
        if given.mishaps:
            mishaps(folder, paths, given.kinds.split(","))
            return
        octets = sum(path.stat().st_size for path in paths)
        print(f"\na fleet of {given.files:,} captures, {octets / 1e9:.2f} GB")
        for kind in given.kinds.split(","):
            _fleet(kind, folder, octets, given.rounds)
        if given.large:
            _large(folder, given.large, given.rounds, given.kinds.split(","))


def _fleet(kind: str, folder: Path, octets: int, rounds: int) -> None:
    """Compare one process with two processes, with two commands on halves, and with a cluster of two
    workers.
    """
    captures = [folder / "fleet"]
    with LocalCluster(2) as cluster:
        contenders = {
            "two processes": ["--jobs", "2"],
            "one process": ["--jobs", "1"],
            "a cluster of two workers": ["--scheduler", cluster.address],
        }
        seen = _measured(kind, captures, folder, contenders, rounds)
    two, one, clustered = (seen[name] for name in contenders)
    seen["two commands, a half each"] = halves = min(_halves(kind, folder) for _ in range(rounds))
    for name, seconds in seen.items():
        print(f"  fleet {kind:<8} {name:<26} {seconds:8.2f} s {octets / seconds / 1e6:10,.0f} MB/s")
    print(
        f"  two processes are {one / two:.2f} × one, of {one / halves:.2f} that this machine gives; "
        f"the scheduler costs {100 * (clustered / two - 1):+.1f} %"
    )


def _halves(kind: str, folder: Path) -> float:
    """Return the duration of two simultaneous commands, each of which processes half of a fleet in one
    process.
    """
    with tempfile.TemporaryDirectory(dir=folder) as out:
        begun_s = time.perf_counter()
        halves = [
            started(fleet_command(kind, [rack], Path(out, rack.name), "--jobs", "1"), heard=False)
            for rack in sorted((folder / "fleet").iterdir())
        ]
        codes = [half.wait() for half in halves]
        elapsed_s = time.perf_counter() - begun_s
    if any(codes):
        raise SystemExit(f"half of a fleet: exit codes {codes}")
    return elapsed_s


def _large(folder: Path, gigabytes: float, rounds: int, kinds: Sequence[str]) -> None:
    """Compare a large capture in parts with the same capture in one process."""
    path = folder / "large.pcap"
    pool = frames_of_all_kinds()
    frames = round(gigabytes * 1e9 / (float(pool.captured.mean()) + 16))
    write_capture(path, pool, frames, begun_ns=BEGUN_NS, seed=0)
    octets = path.stat().st_size
    print(f"\none capture of {octets / 1e9:.2f} GB")
    for kind in kinds:
        contenders = {
            "in parts, two processes": ["--jobs", "2"],
            "one process": ["--jobs", "1", "--part-size", "0"],
        }
        seen = _measured(kind, [path], folder, contenders, rounds)
        for name, seconds in seen.items():
            print(f"  fleet {kind:<8} {name:<26} {seconds:8.2f} s {octets / seconds / 1e6:10,.0f} MB/s")
        parts, one = (seen[name] for name in contenders)
        print(f"  in parts it is {one / parts:.2f} × one process")


def _measured(
    kind: str, captures: Sequence[Path], folder: Path, contenders: Mapping[str, Sequence[str]], rounds: int
) -> dict[str, float]:
    """Return the median time of each contender over several rounds, after a round that warms up."""
    seen: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for name, options in contenders.items():
            with tempfile.TemporaryDirectory(dir=folder) as out:
                seconds = finished(fleet_command(kind, captures, Path(out), *options))
            if turn:
                seen[name].append(seconds)
    return {name: statistics.median(times) for name, times in seen.items()}


def broken_off(
    command: Sequence[str], done: Callable[[], int], rows: int, cluster: LocalCluster, peaks: Peaks, role: str
) -> int:
    """Kill a worker when a command has half of its rows and the scheduler at three quarters, and interrupt
    the command.

    Returns the number of finished rows. The cluster runs again afterwards.
    """
    with half_way(command, done, rows) as process:
        peaks.watch(process.pid, role)
        cluster.kill_worker()
        cluster.watched(peaks)
        while done() < 3 * rows // 4 and process.poll() is None:
            time.sleep(0.05)
        if process.poll() is not None:
            raise SystemExit(f"{' '.join(command)}: ended before its scheduler was killed")
        cluster.restart_scheduler()
        process.send_signal(signal.SIGINT)
        process.communicate()
    cluster.watched(peaks)
    return done()


def mishaps(folder: Path, paths: Sequence[Path], kinds: Sequence[str]) -> None:
    """Compare the results of a cluster with failures with the results of one process, and print the
    differences.
    """
    spoil(paths)
    captures = [folder / "fleet"]
    tenth = paths[: max(1, len(paths) // 10)]
    for kind in kinds:
        alone, broken, few = folder / f"{kind}-alone", folder / f"{kind}-broken", folder / f"{kind}-few"
        with Peaks() as peaks, LocalCluster(2) as cluster:
            command = fleet_command(kind, captures, alone, "--jobs", "1")
            seconds = finished(command, exits=(3,), peaks=peaks, role="one process alone")
            rows = rows_kept(alone)
            cluster.watched(peaks)
            where = ["--scheduler", cluster.address]
            role = f"the command with {len(tenth):,} captures"
            finished(fleet_command(kind, tenth, few, *where), exits=(0, 3), peaks=peaks, role=role)
            command = fleet_command(kind, captures, broken, *where)
            role = f"the command with {len(paths):,} captures"
            before = broken_off(command, functools.partial(rows_kept, broken), rows, cluster, peaks, role)
            again_s = finished(command, exits=(3,), peaks=peaks, role=role)
            first, second = results(alone), results(broken)
        print(f"\nfleet {kind} of {len(paths):,} captures: one process took {seconds:.1f} s")
        print(f"  a worker killed, then the scheduler, {before:,} of {rows:,} rows kept")
        print(f"  the same command again, to the end, took {again_s:.1f} s")
        for role, peak in sorted(peaks.peaks_mib.items()):
            print(f"  most memory, {role:<36} {peak:6.0f} MiB")
        print(
            f"  {len(first):,} files of results are {'the same' if first == second else 'NOT THE SAME'}",
            flush=True,
        )
        if first != second:
            for name in sorted({name for name, _ in first.items() ^ second.items()}):
                print(f"  not the same: {name}")
            raise SystemExit(1)
        for out in (alone, broken, few):
            shutil.rmtree(out)
