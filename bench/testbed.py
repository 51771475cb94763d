"""All testbeds at one rate: whether each mechanism keeps its bounds between live devices on this machine.

``python -m bench testbed [--runs N] [--rate 50M] [--seconds 10] [--only NAME,…]`` runs nine mechanisms,
including PAUSE and PFC, and QCN with PFC below. It also runs CSIG, whose hosts add no tags here, and no
control. The last two must fill the buffer and lose frames, otherwise the testbed could not distinguish
control from no control. Three senders offer 1.8 times the port's rate, and the first sender also sends to a
victim.

A run needs 10 s. Mechanisms start at line rate and take up to 5 s to settle, which are not counted. From the
following 5 s, iperf3 reports four whole seconds, which are 21,000 frames at 50 Mb/s. All testbeds run once,
then all run again, so that a temporary disturbance does not affect a single mechanism.

A run takes about 20 s, and all runs take 4 minutes, or more if code must be compiled. The exit code is 1 if a
bound was missed. Needs root, and an otherwise idle machine. The times for which the devices waited for a
processor, and for which a hypervisor took a processor away, show whether the machine was idle. A fiftieth of
a run is much.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ecmproto.units import NS_PER_S, parse_rate

COMMAND = (sys.executable, "-m", "ecmproto_cli", "live", "testbed", "--any-rate", "-T", "json")
VICTIM_SHARE = 0.04
BUFFER_OCTETS = 1000 * 1442
TESTBEDS: dict[str, tuple[str, ...]] = {
    name: ("--mechanism", name)
    for name in ("qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "dcqcn", "pause", "pfc")
} | {
    "qcn over pfc": ("--mechanism", "qcn", "--flow-control", "pfc"),
    "csig": ("--mechanism", "csig"),
    "none": ("--mechanism", "none"),
}
UNCONTROLLED = ("csig", "none")
PAUSING = ("pause", "pfc")
_MAX_QUEUE, _MAX_FULL, _MIN_FULL, _MIN_JAIN, _MIN_VICTIM = 1.5, 0.75, 0.9, 0.95, 0.9
_DCQCN_OCTETS = 60_000
"""Queue length in octets that replaces the set point of DCQCN: Kmax at 50 Mb/s, above which all frames are
marked.
"""


class Bound(NamedTuple):
    """A result as text, and whether the result is within its bound. ``None`` means that no bound exists."""

    told: str
    holds: bool | None


def bounds(testbed: str, outcome: dict[str, Any], victim_bps: float) -> dict[str, Bound]:
    """Return the results for the queue, Jain's index, the victim's rate and drops, by name."""
    queue, drops = outcome["queue_mean_octets"], outcome["dropped_frames"]
    set_point = outcome["set_point_octets"] or _DCQCN_OCTETS
    full = queue / BUFFER_OCTETS
    limits = testbed not in UNCONTROLLED
    if not limits or testbed in PAUSING:
        standing = Bound(f"{full:.0%} full", full <= _MAX_FULL if limits else full >= _MIN_FULL)
    else:
        told = f"{queue / set_point:.2f} × {set_point / 1000:.0f} kB"
        standing = Bound(told, queue <= _MAX_QUEUE * set_point)
    victim = outcome["victim_bps"] / victim_bps
    return {
        "queue": standing,
        "Jain": Bound(f"{outcome['fairness']:.3f}", outcome["fairness"] >= _MIN_JAIN if limits else None),
        # PAUSE and PFC also stop the victim.
        "victim": Bound(
            f"{victim:.0%}", victim >= _MIN_VICTIM if limits and testbed not in PAUSING else None
        ),
        "drops": Bound(str(drops), drops == 0 if limits else drops > 0),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Results of a run by bound, the longest waiting and stolen times of its devices, and the duration of the
    run.
    """

    bounds: dict[str, Bound]
    waited_s: float
    stolen_s: float
    took_s: float

    @property
    def holds(self) -> bool:
        """Whether no bound is missed."""
        return all(each.holds is not False for each in self.bounds.values())


def outcome_of(words: Sequence[str], rate_bps: int, seconds: int, folder: Path) -> dict[str, Any]:
    """Run a testbed with a victim, and return the outcome; the files of the run are kept in ``folder``."""
    shown = subprocess.run(
        [
            *COMMAND, *words, "--speed", f"{rate_bps}b/s", "--victim", f"{int(VICTIM_SHARE * rate_bps)}b/s",
            "--duration", f"{seconds}s", "-w", str(folder), "--force",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (outcome,) = json.loads(shown.stdout)["runs"]
    return dict(outcome)


def _longest_s(folder: Path, name: str) -> float:
    """Return the maximum in seconds of the named time in the devices' summaries."""
    times = [0]
    for path in folder.rglob("*.ndjson"):
        lines = path.read_text(encoding="utf-8").splitlines()
        times += [json.loads(line).get(name, 0) for line in lines[-1:]]
    return max(times) / NS_PER_S


_WIDTHS = {"queue": 20, "Jain": 12, "victim": 11, "drops": 12}


def run(words: Sequence[str] = ()) -> None:
    """Run all testbeds, print each run, and print the number of runs in which each bound was kept."""
    parser = argparse.ArgumentParser(prog="python -m bench testbed")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rate", default="50M")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--only", default=",".join(TESTBEDS))
    asked = parser.parse_args(words)
    names = asked.only.split(",")
    if unknown := [name for name in names if name not in TESTBEDS]:
        parser.error(f"there is no testbed {unknown[0]!r}: one of {', '.join(TESTBEDS)}")
    if os.geteuid() != 0:
        print("testbed: needs root, to make namespaces")
        return
    rate_bps, began = parse_rate(asked.rate), time.monotonic()
    runs: dict[str, list[Run]] = defaultdict(list)
    print(f"{'':13}{'run':>4}{_titles()}{'waited':>9}{'stolen':>9}{'took':>7}", flush=True)
    for number in range(asked.runs):
        for name in names:
            done = _ran(name, rate_bps, asked.seconds)
            runs[name].append(done)
            told = "".join(_shown(each).rjust(_WIDTHS[what]) for what, each in done.bounds.items())
            times = f"{done.waited_s:>7.2f} s{done.stolen_s:>7.2f} s{done.took_s:>5.0f} s"
            print(f"{name:13}{number + 1:>4}{told}{times}", flush=True)
    print(f"\n{'of all runs':13}{'':4}{_titles()}{'waited':>9}{'stolen':>9}")
    for name, all_runs in runs.items():
        print(f"{name:13}{'':4}{_sums(all_runs)}  {_verdict(all_runs)}")
    print(
        f"in {time.monotonic() - began:.0f} s; waited and stolen: medians, of the device that waited longest"
    )
    if not all(each.holds for all_runs in runs.values() for each in all_runs):
        sys.exit(1)


def _ran(name: str, rate_bps: int, seconds: int) -> Run:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = outcome_of(TESTBEDS[name], rate_bps, seconds, Path(folder))
        waited_s, stolen_s = (_longest_s(Path(folder), name) for name in ("waited_ns", "stolen_ns"))
    return Run(
        bounds=bounds(name, outcome, VICTIM_SHARE * rate_bps), waited_s=waited_s, stolen_s=stolen_s,
        took_s=time.monotonic() - began,
    )  # fmt: skip


def _titles() -> str:
    return "".join(name.rjust(width) for name, width in _WIDTHS.items())


def _shown(bound: Bound) -> str:
    return bound.told + {True: " ok  ", False: " FAIL", None: "  -  "}[bound.holds]


def _sums(runs: Sequence[Run]) -> str:
    """Return the number of runs in which each bound was kept, and the medians of the devices' waiting
    times.
    """
    told = ""
    for name, width in _WIDTHS.items():
        held = [each.bounds[name].holds for each in runs]
        told += ("-" if held[0] is None else f"{sum(map(bool, held))} of {len(runs)}").rjust(width)
    for times in ([each.waited_s for each in runs], [each.stolen_s for each in runs]):
        told += f"{statistics.median(times):>7.2f} s"
    return told


def _verdict(runs: Sequence[Run]) -> str:
    return "PASS" if all(each.holds for each in runs) else "FAIL"
