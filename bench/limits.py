"""Limits: the rate at which a testbed on this machine first misses a bound, for each mechanism.

``python -m bench limits [--mechanism NAME,…] [--seconds N]``: three senders offer 1.8 times the port's rate,
the first sends to a victim beside it too.  The bounds are those of ``bench testbed``: a queue within 1.5
times the set point (with PAUSE and PFC, three quarters of the buffer), Jain's index from 0.95 on, the
victim's rate but for a tenth (not with PAUSE or PFC, which stop it too), no frame dropped at the port.  A
rate misses them if two runs of two do.  Rates are doubled until then, and halved in between three times.
Takes half an hour; needs root, and a machine with nothing else to do.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.testbed import TESTBEDS, VICTIM_SHARE, bounds, outcome_of

MECHANISMS = ("qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "pause", "pfc")
FIRST_BPS, LEAST_BPS, MOST_BPS = 50_000_000, 5_000_000, 10_000_000_000
_BISECTIONS, _ATTEMPTS = 3, 2


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
            for _ in range(_ATTEMPTS):
                with tempfile.TemporaryDirectory() as folder:
                    outcome = outcome_of(TESTBEDS[mechanism], rate_bps, asked.seconds, Path(folder))
                held = bounds(mechanism, outcome, VICTIM_SHARE * rate_bps)
                found = [f"{name} {each.told}" for name, each in held.items() if each.holds is False]
                if not found:
                    return False
                starved = f" (kept from the processor for {outcome['starved_ns'] / 1e9:.1f} s)"
                said[rate_bps] = ", ".join(found) + (starved if outcome["starved_ns"] else "")
            return True

        holds, breaks = found_limit(misses)
        told = f"{breaks / 1e6:.0f} Mb/s: {said[breaks]}" if breaks else "none tried"
        print(f"{mechanism:10}  {holds / 1e6:7.0f} Mb/s  {told}", flush=True)
