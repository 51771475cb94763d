"""The check of capture readers finds earlier faults again if their corrections are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import pytest

from ecmproto.frames.capture import batch, pcapng
from ecmproto.tools.fuzz.checks.readers import CaptureUseCheck
from ecmproto.tools.fuzz.subjects import SUBJECTS

CASES = 500


def described() -> Iterator[bytes]:
    """Yield a seed's first cases with an interface's clock or speed."""
    captures = SUBJECTS["captures"]
    for case in islice(captures.cases(captures.corpus(), 7).starting_at(0), CASES):
        if "set_clock" in case.mutations:
            yield case.octets


def use() -> None:
    check = CaptureUseCheck()
    for octets in described():
        assert list(check.differences([octets])) == []


def test_drawn_clocks_and_speeds_stop_nothing() -> None:
    use()


@pytest.mark.parametrize("module", [pcapng, batch], ids=["speed", "time shown"])
def test_unclamped_numbers_are_detected(module: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_64_bits", lambda number: number)
    pcapng._described.cache_clear()
    with pytest.raises(OverflowError):
        use()
    pcapng._described.cache_clear()


def test_arrivals_beyond_time_limit_are_detected() -> None:
    planted = (
        "from ecmproto.control.engine import arrivals; arrivals._LATEST_NS = arrivals.TIME_LIMIT_NS; "
        "from tests.fuzz.checks.test_readers import use; use()"
    )
    done = subprocess.run(
        [sys.executable, "-c", planted], env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, capture_output=True
    )
    assert b"_change_rate" in done.stderr
