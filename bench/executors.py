"""Sweeps of short points: one process, two processes and a cluster of two workers, compared with plain loops.

``python -m bench executors [--points N] [--duration TIME] [--rounds N] [--memory] [--mishaps]`` runs N points
per round on warm workers. It prints the time per point, the share of the workers' time that points take, and
a comparison with hand-written loops. There is a loop per worker, which only simulates and evaluates figures.

``--memory`` prints the memory and the processor time of ``ecmproto lab sweep`` with 1,000 and 10,000 points.

``--mishaps`` runs a sweep of N points in one process, in two shards, and on a cluster. Half-way, a worker of
the cluster is killed. Later the scheduler is killed, and the command is repeated. All rows must be equal
except for elapsed times.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.fleet import LocalCluster, Peaks, broken_off, environment, finished, started
from ecmproto.control.lab.results.sweeps import full_factorial, parse_axis, point_task, sweep_call
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.executors.cluster import Cluster
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Executor
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import run_tasks

SCENARIO = """
[scenario]
name = "two-into-one"
title = "Two hosts into one"
duration = "{duration}"
topology = "dumbbell sources=2 destinations=1 rate=10G buffer=150kB"

[[flow]]
name = "r1..r2"
from = "s1..s2"
to = "d1"
pattern = "saturating"

[control]
mechanism = "qcn"

[measure]
port = "left>right"
"""
KEY, VALUES = "control.qeq", ("20kB", "26kB", "33kB", "40kB")
FIGURES = ("queue.mean", "queue.p99", "drops")
BY_HAND = """
import sys, time
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.setup.figures import parse_figure
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.simulation.simulate import simulate

path, key, values, figures = sys.argv[1:]
scenario = load_scenario(path)
figures = [parse_figure(text) for text in figures.split(",")]
for line in sys.stdin:
    first, end = map(int, line.split())
    begun_s = time.perf_counter()
    for value in values.split(","):
        experiment = scenario.with_value(key, value).experiment()
        for seed in range(first, end):
            run = RunFigures(simulate(experiment, seed=seed))
            [figure.evaluate(run) for figure in figures]
    print(time.perf_counter() - begun_s, flush=True)
"""
_SCHEDULER_PORT = 18787
WORKERS = {"one process": 1, "two processes": 2, "a cluster of two workers": 2}


def run(arguments: Sequence[str]) -> None:
    """Print the time per point for each executor."""
    parser = argparse.ArgumentParser(prog="python -m bench executors")
    parser.add_argument("--points", type=int, default=800, help="points of a round")
    parser.add_argument("--duration", default="1ms", help="virtual time of a point")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--mishaps", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "two.toml")
        path.write_text(SCENARIO.format(duration=given.duration))
        if given.memory:
            _show_memory(path)
            return
        if given.mishaps:
            _mishaps(path, given.points)
            return
        # Dask workers import the main module, which must be this module, not the command line of benchmarks
        program = "import sys; from bench.executors import measure; measure(*sys.argv[1:])"
        command = [sys.executable, "-c", program, str(path), str(given.points), str(given.rounds)]
        told = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE, text=True)
    seen: dict[str, list[tuple[float, float]]] = json.loads(told.stdout)
    print(f"\npoints of {given.duration}, in rounds of {given.points:,}")
    for name, rounds in seen.items():
        line = f"  {name:<26} {1e3 * statistics.median(point_s for point_s, _ in rounds):8.3f} ms a point"
        if name in WORKERS:
            peer = _loops(WORKERS[name])
            beside = statistics.median(
                ours / theirs for (ours, _), (theirs, _) in zip(rounds, seen[peer], strict=True)
            )
            busy = statistics.median(part for _, part in rounds)
            line += f" {100 * (beside - 1):+6.1f} % beside {peer}, {100 * busy:.1f} % of the time with points"
        print(line)


def _loops(count: int) -> str:
    return "a loop by hand" if count == 1 else f"{count} loops by hand"


def measure(path: str, points: str, rounds: str) -> None:
    """Print the times per point and the shares of busy time of all contenders and rounds as JSON."""
    call = sweep_call(load_scenario(path), FIGURES)
    seeds = max(2, int(points) // len(VALUES))
    seen: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as kept:
        cluster = kept.enter_context(LocalCluster(2, _SCHEDULER_PORT))
        executors: dict[str, Executor] = {
            "one process": Processes(1, apart=True),
            "two processes": Processes(2),
            "a cluster of two workers": Cluster(address=cluster.address),
        }
        loops = [kept.enter_context(_loop(path)) for _ in range(2)]
        for executor in executors.values():
            kept.enter_context(executor)
        for turn in range(int(rounds) + 1):
            seeds_now = range(turn * seeds, (turn + 1) * seeds)
            found = {_loops(count): (_by_hand(loops[:count], seeds_now), 1.0) for count in (1, 2)}
            for name, executor in executors.items():
                found[name] = _swept(executor, WORKERS[name], call, seeds_now)
            if turn:  # the first round warms up
                for name, each in found.items():
                    seen.setdefault(name, []).append(each)
        for loop in loops:
            loop.communicate()
    print(json.dumps(seen))


def _loop(path: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BY_HAND, path, KEY, ",".join(VALUES), ",".join(FIGURES)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def _by_hand(loops: Sequence[subprocess.Popen[str]], seeds: range) -> float:
    """Return the time per point of loops that share the seeds."""
    share = len(seeds) // len(loops)
    for number, loop in enumerate(loops):
        assert loop.stdin is not None
        loop.stdin.write(f"{seeds.start + number * share} {seeds.start + (number + 1) * share}\n")
    elapsed_s = [float(loop.stdout.readline()) for loop in loops if loop.stdout is not None]
    return statistics.fmean(elapsed_s) / (share * len(loops) * len(VALUES))


def _swept(executor: Executor, workers: int, call: Call, seeds: range) -> tuple[float, float]:
    """Return the time per point, including storage of its row, and the share of busy time of the workers."""
    points = full_factorial([parse_axis(f"{KEY}={','.join(VALUES)}")], seeds)
    busy_s = 0.0
    with tempfile.TemporaryDirectory() as folder, RowStore(Path(folder, "rows")) as store:
        begun_s = time.perf_counter()
        tasks = [point_task(point, call) for point in points]
        for result in run_tasks(tasks, call, executor=executor, store=store):
            busy_s += result.elapsed_s
        elapsed_s = time.perf_counter() - begun_s
    return elapsed_s / len(points), busy_s / (workers * elapsed_s)


def _sweep(path: Path, points: int, out: Path, *options: str) -> list[str]:
    """Return the arguments of ``ecmproto lab sweep`` with ``points`` points."""
    shown = [option for figure in FIGURES for option in ("--show", figure)]
    axis = f"{KEY}={','.join(VALUES)}"
    return [
        "ecmproto_cli", "lab", "sweep", str(path), "--sweep", axis, "--seeds", str(points // len(VALUES)),
        *shown, "-w", str(out), "-T", "ndjson", *options,
    ]  # fmt: skip


def _show_memory(path: Path) -> None:
    """Print the peak memory of the command without its workers, its duration and its processor time."""
    for number, points in itertools.product(range(2), (1_000, 10_000)):
        with LocalCluster(2, _SCHEDULER_PORT) as cluster:
            options = (("--jobs", "2"), ("--scheduler", cluster.address))[number]
            command = _sweep(path, points, Path(f"{path}.{number}"), *options)
            with Peaks() as peaks:
                elapsed_s = finished(command, peaks=peaks, role="command")
            print(
                f"  {' '.join(options):<20} {points:>6,} points {elapsed_s:8.1f} s "
                f"{peaks.peaks_mib['command']:6.0f} MiB, {peaks.processor_s['command']:5.1f} s of a processor"
            )


def _mishaps(path: Path, points: int) -> None:
    """Compare the rows of one process with the rows of shards and of a cluster with failures, and print the
    result.
    """
    alone, broken, joined = (path.with_name(f"{name}.ndjson") for name in ("alone", "broken", "joined"))
    with Peaks() as peaks, LocalCluster(2, _SCHEDULER_PORT) as cluster:
        elapsed_s = finished(_sweep(path, points, alone, "--jobs", "1"), peaks=peaks, role="one process")
        print(f"\na sweep of {points:,} points: one process took {elapsed_s:.1f} s")

        parts = [path.with_name(f"part-{number}.ndjson") for number in (1, 2)]
        begun_s = time.perf_counter()
        shards = [
            started(_sweep(path, points, part, "--jobs", "1", "--shard", f"{number}/2"), heard=False)
            for number, part in enumerate(parts, 1)
        ]
        codes = [shard.wait() for shard in shards]
        if any(codes):
            raise SystemExit("a shard did not end well")
        print(f"  two shards at once took {time.perf_counter() - begun_s:.1f} s")
        joined.write_bytes(b"".join(part.read_bytes() for part in parts))

        cluster.watched(peaks)
        role = "the command with a cluster"
        command = _sweep(path, points, broken, "--scheduler", cluster.address)
        before = broken_off(command, functools.partial(_lines_of, broken), points, cluster, peaks, role)
        again_s = finished(command, peaks=peaks, role=role)
        print(f"  a worker killed, then the scheduler, {before:,} of {points:,} rows kept")
        print(f"  the same command again, to the end, took {again_s:.1f} s")
    for role, peak in sorted(peaks.peaks_mib.items()):
        print(f"  most memory, {role:<36} {peak:6.0f} MiB")
    expected = _timeless(alone)
    assert len(expected) == points
    for name, found in (("of the shards", joined), ("of the cluster", broken)):
        same = _timeless(found) == expected
        print(f"  the rows {name} are {'the same' if same else 'NOT THE SAME'}", flush=True)
        if not same:
            raise SystemExit(1)


def _lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _timeless(path: Path) -> list[bytes]:
    """Return the sorted lines of a file of rows, without elapsed times."""
    return sorted(re.sub(rb'"elapsed_s": [^,}]+', b"", line) for line in path.read_bytes().splitlines())
