"""Sweeps of many short points: by one process, by two and by a cluster, beside a loop written by hand.

``python -m bench executors [--points N] [--few N] [--duration TIME] [--rounds N]`` gives ``ecmproto lab
sweep`` so many points, and a few.  A point's time is what more points take longer, over how many more they
are, so that neither the start of Python and Dask nor the loading of kernels is in it.  It is compared with
what the simulation and its figures take in a loop, of which as many run at once as there are workers.  What
the command itself needs of memory is shown for both numbers of points.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.fleet import Peaks, environment

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

path, key, values, figures, seeds = sys.argv[1:]
scenario = load_scenario(path)
figures = [parse_figure(text) for text in figures.split(",")]
simulate(scenario.experiment(), seed=1)
begun_s = time.perf_counter()
for value in values.split(","):
    experiment = scenario.with_value(key, value).experiment()
    for seed in range(int(seeds)):
        run = RunFigures(simulate(experiment, seed=seed))
        [figure.evaluate(run) for figure in figures]
print(time.perf_counter() - begun_s)
"""
BY_HAND_AT_ONCE = {"a loop by hand": 1, "two loops by hand": 2}
CONTENDERS = {
    "one process": ("--jobs", "1"),
    "two processes": ("--jobs", "2"),
    "a cluster of two workers": ("--scheduler", "local:2"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A command that has ended."""

    elapsed_s: float
    peak_mib: float
    """Of the command itself, not of its workers."""


def run(arguments: Sequence[str]) -> None:
    """Print what a point takes with each executor."""
    parser = argparse.ArgumentParser(prog="python -m bench executors")
    parser.add_argument("--points", type=int, default=1200)
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--duration", default="1ms", help="virtual time of a point")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "two.toml")
        path.write_text(SCENARIO.format(duration=given.duration))
        swept(path, 8, CONTENDERS["one process"])  # kernels are compiled
        seen: dict[str, list[float]] = {name: [] for name in (*BY_HAND_AT_ONCE, *CONTENDERS)}
        peaks: dict[str, tuple[float, float]] = {}
        for _ in range(given.rounds):
            for name, at_once in BY_HAND_AT_ONCE.items():
                seen[name].append(_by_hand(path, given.points - given.few, at_once))
            for name, options in CONTENDERS.items():
                few, many = (swept(path, points, options) for points in (given.few, given.points))
                seen[name].append((many.elapsed_s - few.elapsed_s) / (given.points - given.few))
                peaks[name] = few.peak_mib, many.peak_mib
    print(f"\npoints of {given.duration}, one of them:")
    one, two = BY_HAND_AT_ONCE
    for name, times in seen.items():
        point_s = statistics.median(times)
        told = f"  {name:<26} {1e3 * point_s:8.3f} ms"
        if name in peaks:
            peer = one if name == "one process" else two
            ratio = statistics.median(a / b for a, b in zip(times, seen[peer], strict=True))
            few_mib, many_mib = peaks[name]
            told += f"  {100 * (ratio - 1):+6.1f} % beside {peer}; the command has {few_mib:.0f} MiB with"
            told += f" {given.few:,} points, {many_mib:.0f} MiB with {given.points:,}"
        print(told)


def _by_hand(path: Path, points: int, at_once: int) -> float:
    """Return what a point takes, in seconds, where so many loops run at once."""
    seeds = max(1, points // len(VALUES) // at_once)
    command = [sys.executable, "-c", BY_HAND, str(path), KEY, ",".join(VALUES), ",".join(FIGURES), str(seeds)]
    loops = [
        subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(at_once)
    ]
    elapsed_s = [float(loop.communicate()[0]) for loop in loops]
    return statistics.fmean(elapsed_s) / (seeds * len(VALUES) * at_once)


def swept(path: Path, points: int, options: Sequence[str]) -> Run:
    """Sweep so many points, rows into a file."""
    show = [word for figure in FIGURES for word in ("--show", figure)]
    seeds = max(1, points // len(VALUES))
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, Peaks() as peaks:
        out = Path(folder, "rows.ndjson")
        command = [
            sys.executable, "-m", "ecmproto_cli", "lab", "sweep", str(path), "--sweep",
            f"{KEY}={','.join(VALUES)}", "--seed", "0", "--seeds", str(seeds), *show, "--out", str(out),
            *options, "-T", "ndjson",
        ]  # fmt: skip
        begun_s = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        peaks.watch(process.pid, "command")
        _, told = process.communicate()
        elapsed_s = time.perf_counter() - begun_s
        if process.returncode or out.read_bytes().count(b"\n") != seeds * len(VALUES):
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}\n{told.decode()}")
    return Run(elapsed_s, peaks.peaks_mib.get("command", 0))
