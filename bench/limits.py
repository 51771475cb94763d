"""Limits: the rate at which a testbed on this machine first misses a bound, for each mechanism.

``python -m bench limits [--mechanism NAME,…] [--seconds N]``: three senders offer 1.8 times the port's rate,
the first sends to a victim beside it too.  The bounds: a queue within 1.5 times the set point (with PAUSE and
PFC, three quarters of the buffer), Jain's index from 0.95 on, the victim's rate but for a tenth (not with
PAUSE or PFC, which stop it too), no frame dropped at the port.  A rate misses them if two runs of two do.
Rates are doubled until then, and halved in between three times.  Takes half an hour; needs root, and a
machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

COMMAND = (sys.executable, "-m", "ecmproto_cli", "live", "testbed", "--any-rate", "-T", "json")
MECHANISMS = ("qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "pause", "pfc")
FIRST_BPS, LEAST_BPS, MOST_BPS = 50_000_000, 5_000_000, 10_000_000_000
VICTIM_SHARE = 0.04
BUFFER_OCTETS = 1000 * 1442
_BISECTIONS, _ATTEMPTS = 3, 2
_MOST_QUEUE, _MOST_FULL, _LEAST_JAIN, _LEAST_VICTIM = 1.5, 0.75, 0.95, 0.9


def missed_bounds(outcome: dict[str, Any], victim_bps: float) -> list[str]:
    """Return the bounds that a run misses, each with what it came to."""
    set_point, queue = outcome["set_point_octets"], outcome["queue_mean_octets"]
    found = []
    if set_point and queue > _MOST_QUEUE * set_point:
        found.append(f"queue {queue / set_point:.2f} times the set point")
    if not set_point and queue > _MOST_FULL * BUFFER_OCTETS:
        found.append(f"queue {queue / BUFFER_OCTETS:.0%} of the buffer")
    if outcome["fairness"] < _LEAST_JAIN:
        found.append(f"Jain {outcome['fairness']:.3f}")
    if set_point and outcome["victim_bps"] < _LEAST_VICTIM * victim_bps:
        found.append(f"victim {outcome['victim_bps'] / victim_bps:.0%} of its rate")
    if outcome["dropped_frames"]:
        found.append(f"{outcome['dropped_frames']} dropped")
    return found


def found_limit(misses: Callable[[int], bool]) -> tuple[int, int]:
    """Return the highest rate known to hold and the lowest known to miss; 0 for none."""
    rate_bps, holds, breaks = FIRST_BPS, 0, 0
    while LEAST_BPS <= rate_bps <= MOST_BPS and not (holds and breaks):
        if misses(rate_bps):
            breaks, rate_bps = rate_bps, rate_bps // 2
        else:
            holds, rate_bps = rate_bps, rate_bps * 2
    for _ in range(_BISECTIONS if holds and breaks else 0):
        between = int((holds * breaks) ** 0.5)
        if misses(between):
            breaks = between
        else:
            holds = between
    return holds, breaks


def run(words: Sequence[str] = ()) -> None:
    """Print the limit of each mechanism, and what broke there."""
    parser = argparse.ArgumentParser(prog="python -m bench limits")
    parser.add_argument("--mechanism", default=",".join(MECHANISMS))
    parser.add_argument("--seconds", type=int, default=12)
    asked = parser.parse_args(words)
    if os.geteuid() != 0:
        print("limits: needs root, to make namespaces")
        return
    print(f"{'mechanism':10}  {'holds up to':>12}  misses at")
    for mechanism in asked.mechanism.split(","):
        said: dict[int, str] = {}

        def misses(rate_bps: int, mechanism: str = mechanism, said: dict[int, str] = said) -> bool:
            victim_bps = int(VICTIM_SHARE * rate_bps)
            for _ in range(_ATTEMPTS):
                outcome = _outcome(mechanism, rate_bps, victim_bps, asked.seconds)
                found = missed_bounds(outcome, victim_bps)
                if not found:
                    return False
                starved = f" (kept from the processor for {outcome['starved_ns'] / 1e9:.1f} s)"
                said[rate_bps] = ", ".join(found) + (starved if outcome["starved_ns"] else "")
            return True

        holds, breaks = found_limit(misses)
        told = f"{breaks / 1e6:.0f} Mb/s: {said[breaks]}" if breaks else "none tried"
        print(f"{mechanism:10}  {holds / 1e6:7.0f} Mb/s  {told}", flush=True)


def _outcome(mechanism: str, rate_bps: int, victim_bps: int, seconds: int) -> dict[str, Any]:
    words = ("--mechanism", mechanism, "--rate", f"{rate_bps}b/s", "--victim", f"{victim_bps}b/s")
    shown = subprocess.run(
        [*COMMAND, *words, "--time", f"{seconds}s"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    (outcome,) = json.loads(shown.stdout)["runs"]
    return dict(outcome)
