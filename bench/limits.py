"""Limits: the lowest rate at which a testbed on this machine misses a bound, for each mechanism.

``python -m bench limits [--mechanism NAME,…] [--minutes N] [--seconds N]``: three senders offer 1.8 times the
port's rate, and the first sender also sends to a victim. The bounds are the bounds of ``bench testbed``. The
queue must be within 1.5 times the set point (with PAUSE and PFC, three quarters of the buffer). Jain's index
must be at least 0.95. The victim must receive nine tenths of its rate (except with PAUSE and PFC, which also
stop the victim). No frame may be dropped at the port. A rate misses the bounds if two runs out of two miss a
bound, or if the testbed does not run at this rate.

Rates are 50 Mb/s times powers of the square root of two. The search for the first mechanism starts at 50 Mb/s
and goes up or down in steps that double. Each other search starts at the previous limit, because the machine
determines most limits. If a mechanism's share of the time is over, its limit is printed as a range. The
benchmark takes at most 12 minutes. Needs root, and an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.testbed import TESTBEDS, VICTIM_SHARE, bounds, outcome_of
from ecmproto.units import format_rate

MECHANISMS = ("qcn", "ecm", "bcn", "e2cm", "fecn", "dbp", "dcqcn", "pause", "pfc")
_FIRST_BPS, _BELOW, _ABOVE = 50_000_000, 6, 12
RATES = tuple(int(round(_FIRST_BPS * 2 ** (step / 2), -5)) for step in range(-_BELOW, _ABOVE + 1))
"""Rates from 6 Mb/s to 3.2 Gb/s, in steps of 41 %."""
_ATTEMPTS = 2
_RUN_MORE_S = 8
"""Duration of a run in seconds in addition to its traffic."""


class Limit(NamedTuple):
    """Indices in `RATES` of the highest rate that holds and of the lowest rate that misses; None if
    unknown.
    """

    holds: int | None
    misses: int | None


def found_limit(
    misses: Callable[[int], bool], first: int, *, is_over: Callable[[], bool] = lambda: False
) -> Limit:
    """Search for the limit from the index ``first`` until the limit is found or ``is_over`` returns true.

    Steps double until a rate holds and another rate misses. Then the interval between the rates is halved.
    """
    limit, number, step = Limit(None, None), first, 1
    while not is_over():
        if misses(RATES[number]):
            limit, direction = limit._replace(misses=number), -1
        else:
            limit, direction = limit._replace(holds=number), 1
        if limit.holds is not None and limit.misses is not None:
            if limit.misses - limit.holds <= 1:
                break
            number = (limit.holds + limit.misses) // 2
            continue
        following = min(max(number + direction * step, 0), len(RATES) - 1)
        if following == number:
            break
        number, step = following, 2 * step
    return limit


class _Testbeds:
    """Runs of a mechanism, and the missed bounds by rate."""

    def __init__(self, mechanism: str, seconds: int) -> None:
        self.missed: dict[int, str] = {}
        self._mechanism = mechanism
        self._seconds = seconds

    def misses(self, rate_bps: int) -> bool:
        """Return whether all runs at a rate miss a bound."""
        return all(self._missed(rate_bps) for _ in range(_ATTEMPTS))

    def _missed(self, rate_bps: int) -> bool:
        try:
            with tempfile.TemporaryDirectory() as folder:
                outcome = outcome_of(TESTBEDS[self._mechanism], rate_bps, self._seconds, Path(folder))
        except subprocess.CalledProcessError as error:
            said = (error.stderr or "").strip().splitlines()[-1:]
            self.missed[rate_bps] = f"it does not run: {''.join(said)}"
            return True
        held = bounds(self._mechanism, outcome, VICTIM_SHARE * rate_bps)
        found = [f"{name} {each.told}" for name, each in held.items() if each.holds is False]
        starved = f" (kept from the processor for {outcome['starved_ns'] / 1e9:.1f} s)"
        self.missed[rate_bps] = ", ".join(found) + (starved if outcome["starved_ns"] else "")
        return bool(found)


def _holds(limit: Limit) -> str:
    return "none tried" if limit.holds is None else format_rate(RATES[limit.holds])


def _misses(limit: Limit, missed: Mapping[int, str]) -> str:
    if limit.misses is None:
        return "none tried"
    rate_bps = RATES[limit.misses]
    gap = limit.misses - (-1 if limit.holds is None else limit.holds)
    between = f" (the time was over: {gap - 1} rates between are untried)" if gap > 1 else ""
    return f"{format_rate(rate_bps)}: {missed[rate_bps]}{between}"


def _is_past(monotonic_s: float) -> bool:
    return time.monotonic() > monotonic_s


def run(words: Sequence[str] = ()) -> None:
    """Print the limit of each mechanism and the bounds that were missed."""
    parser = argparse.ArgumentParser(prog="python -m bench limits")
    parser.add_argument("--mechanism", default=",".join(MECHANISMS))
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--seconds", type=int, default=6)
    asked = parser.parse_args(words)
    names = asked.mechanism.split(",")
    if unknown := [name for name in names if name not in MECHANISMS]:
        parser.error(f"there is no mechanism {unknown[0]!r}: one of {', '.join(MECHANISMS)}")
    if os.geteuid() != 0:
        print("limits: needs root, to make namespaces")
        return
    began_s = time.monotonic()
    end_s, first = began_s + 60 * asked.minutes, RATES.index(_FIRST_BPS)
    print(f"{'mechanism':10}  {'holds up to':>12}  misses at", flush=True)
    for place, name in enumerate(names):
        testbeds, now_s = _Testbeds(name, asked.seconds), time.monotonic()
        # The search for the first mechanism takes longest. A rate that misses a bound needs all attempts.
        share_s = (end_s - now_s) / (len(names) - place) if place else 2 * (end_s - now_s) / (len(names) + 1)
        last_s = now_s + share_s - _ATTEMPTS * (asked.seconds + _RUN_MORE_S)
        limit = found_limit(testbeds.misses, first, is_over=partial(_is_past, last_s))
        first = first if limit.holds is None else limit.holds
        print(f"{name:10}  {_holds(limit):>12}  {_misses(limit, testbeds.missed)}", flush=True)
    print(f"in {time.monotonic() - began_s:.0f} s")
