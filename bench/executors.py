"""Sweeps of short points: one process, two and a cluster of two workers beside loops written by hand.

``python -m bench executors [--points N] [--duration TIME] [--rounds N] [--memory]`` runs so many points in
each round with workers that are warm, and prints what a point takes, how much of the workers' time is spent
with points, and how it compares with as many loops at once that only simulate and evaluate figures.
``--memory`` shows what ``ecmproto lab sweep`` itself needs with 1,000 points and with 10,000.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.fleet import Peaks, environment
from ecmproto.executors.cluster import Cluster
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Executor
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import run_tasks
from ecmproto.lab.results.sweeps import full_factorial, parse_axis, point_task, sweep_call
from ecmproto.lab.setup.scenario import load_scenario

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
from ecmproto.lab.results.measurements import RunFigures
from ecmproto.lab.setup.figures import parse_figure
from ecmproto.lab.setup.scenario import load_scenario
from ecmproto.lab.simulation.simulate import simulate

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
WORKERS = {"one process": 1, "two processes": 2, "a cluster of two workers": 2}


def run(arguments: Sequence[str]) -> None:
    """Print what a point takes with each executor."""
    parser = argparse.ArgumentParser(prog="python -m bench executors")
    parser.add_argument("--points", type=int, default=800, help="points of a round")
    parser.add_argument("--duration", default="1ms", help="virtual time of a point")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "two.toml")
        path.write_text(SCENARIO.format(duration=given.duration))
        if given.memory:
            _show_memory(path)
            return
        # workers of Dask's import what started them: this, and not the command line of benchmarks
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
    """Print what a point takes with each contender, round after round, and how busy workers were: as JSON."""
    call = sweep_call(load_scenario(path), FIGURES)
    seeds = max(2, int(points) // len(VALUES))
    executors: dict[str, Executor] = {
        "one process": Processes(1, apart=True),
        "two processes": Processes(2),
        "a cluster of two workers": Cluster(address="local:2"),
    }
    seen: dict[str, list[tuple[float, float]]] = {}
    with ExitStack() as kept:
        loops = [kept.enter_context(_loop(path)) for _ in range(2)]
        for executor in executors.values():
            kept.enter_context(executor)
        for turn in range(int(rounds) + 1):
            seeds_now = range(turn * seeds, (turn + 1) * seeds)
            found = {_loops(count): (_by_hand(loops[:count], seeds_now), 1.0) for count in (1, 2)}
            for name, executor in executors.items():
                found[name] = _swept(executor, WORKERS[name], call, seeds_now)
            if turn:  # the first one warms up
                for name, each in found.items():
                    seen.setdefault(name, []).append(each)
        for loop in loops:
            loop.communicate()
    print(json.dumps(seen))


def _loop(path: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BY_HAND, path, KEY, ",".join(VALUES), ",".join(FIGURES)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def _by_hand(loops: Sequence[subprocess.Popen[str]], seeds: range) -> float:
    """Return what a point takes where loops share the seeds."""
    share = len(seeds) // len(loops)
    for number, loop in enumerate(loops):
        assert loop.stdin is not None
        loop.stdin.write(f"{seeds.start + number * share} {seeds.start + (number + 1) * share}\n")
    elapsed_s = [float(loop.stdout.readline()) for loop in loops if loop.stdout is not None]
    return statistics.fmean(elapsed_s) / (share * len(loops) * len(VALUES))


def _swept(executor: Executor, workers: int, call: Call, seeds: range) -> tuple[float, float]:
    """Return what a point takes, with its row in a file, and the part of the time that workers had one."""
    points = full_factorial([parse_axis(f"{KEY}={','.join(VALUES)}")], seeds)
    busy_s = 0.0
    with tempfile.TemporaryDirectory() as folder, RowStore(Path(folder, "rows")) as store:
        begun_s = time.perf_counter()
        tasks = [point_task(point, call) for point in points]
        for result in run_tasks(tasks, call, executor=executor, store=store):
            busy_s += result.elapsed_s
        elapsed_s = time.perf_counter() - begun_s
    return elapsed_s / len(points), busy_s / (workers * elapsed_s)


def _show_memory(path: Path) -> None:
    """Print the most memory that the command has, without its workers."""
    for options in (("--jobs", "2"), ("--scheduler", "local:2")):
        for points in (1_000, 10_000):
            command = [
                sys.executable, "-m", "ecmproto_cli", "lab", "sweep", str(path), "--sweep",
                f"{KEY}={','.join(VALUES)}", "--seeds", str(points // len(VALUES)), "--out",
                f"{path}.{options[1]}", "-T", "ndjson", *options,
            ]  # fmt: skip
            with Peaks() as peaks:
                begun_s = time.perf_counter()
                process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL)
                peaks.watch(process.pid, "command")
                if process.wait():
                    raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
                elapsed_s = time.perf_counter() - begun_s
            most_mib = peaks.peaks_mib["command"]
            print(f"  {' '.join(options):<20} {points:>6,} points {elapsed_s:8.1f} s {most_mib:6.0f} MiB")
