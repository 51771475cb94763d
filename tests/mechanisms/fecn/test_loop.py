"""FECN's machines in a closed loop: S003's convergence estimate, fairness, and compiled against plain."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mechanisms.fecn.loop import MS, Loop, trace

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("n0", [20, 40, 80, 100])
def test_section_7_convergence_takes_logarithm_of_n0(n0: int) -> None:
    sources, fair_bps = 4, 2.5e9
    loop = Loop(sources, n0=n0)
    settled_ms = 0.0
    while min(loop.rates_bps()) < 0.95 * fair_bps:
        settled_ms += 0.1
        loop.run_until(round(settled_ms * MS))
    assert abs(settled_ms - math.log(n0 / sources, 1.414)) <= 4
    assert loop.drops == 0


def test_rates_become_equal_and_queue_stays_at_qeq() -> None:
    loop = Loop(4, n0=20)
    loop.run_until(18 * MS)
    served = loop.served_octets
    for ms in range(19, 24):
        loop.run_until(ms * MS)
        rates = loop.rates_bps()
        assert max(rates) - min(rates) <= 0.01 * 2.5e9
        assert rates == pytest.approx([2.5e9] * 4, rel=0.02)
        assert 0 < loop.qlen_octets(ms * MS) <= 30_000
    assert loop.served_octets - served >= 0.98 * 5 * 1_250_000
    assert loop.drops == 0


def test_a_random_phase_stays_fair() -> None:
    loop = Loop(4, n0=20, random_phase=True, seed=3)
    loop.run_until(22 * MS)
    rates = loop.rates_bps()
    assert max(rates) - min(rates) <= 0.02 * 2.5e9


def test_trap_sources_starting_at_line_rate_drop_frames() -> None:
    careful, careless = Loop(20, n0=40), Loop(20, n0=1)
    for loop in (careful, careless):
        loop.run_until(MS)
    assert careful.drops == 0
    assert careless.drops > 1_000


def test_compiled_and_plain_runs_are_identical() -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.fecn.loop"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == trace(7)
