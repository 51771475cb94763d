"""Evaluation of testbed runs: a busy machine excuses its effects, but does not excuse a broken mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ecmproto.control.live.testbed.run import _Reader
from ecmproto.errors import OutputError
from tests.live.testbeds import BUFFER_OCTETS, JAIN, SECONDS, Outcome, judged, misses

GOOD: Outcome = {
    "set_point_octets": 26_000, "queue_mean_octets": 30_000.0, "ping_p50_ms": 12.0, "dropped_frames": 0,
    "fairness": 0.99, "victim_bps": 1_990_000.0, "messages": 900, "starved_ns": 0,
}  # fmt: skip
CALM, BUSY, STARVED = {"starved_ns": 0}, {"starved_ns": 400_000_000}, {"starved_ns": 1_900_000_000}
LATE = {"ping_p50_ms": 14.35}
"""Beyond the narrow bound of 13.32 ms."""
FAR = {"queue_mean_octets": 5 * 26_000.0, "dropped_frames": 30}
UNCONTROLLED = {
    "queue_mean_octets": 0.99 * BUFFER_OCTETS, "ping_p50_ms": 238.0, "dropped_frames": 8_000,
    "fairness": 0.75,
}  # fmt: skip
"""The result of a testbed without a mechanism."""


def judgement(outcomes: Sequence[dict[str, Any]]) -> str:
    """Return the verdict on a test whose runs differ from a good one by ``outcomes``."""
    try:
        judged([GOOD | each for each in outcomes], lambda o: misses(o, jain=JAIN["qcn"]), seconds=SECONDS)
    except pytest.fail.Exception:
        return "fails"
    except pytest.skip.Exception as told:
        return "is skipped" if str(told).startswith("NOT TESTED: ") else str(told)
    return "passes"


@pytest.mark.parametrize(
    ("difference", "calm", "busy", "starved"),
    [
        ({}, "passes", "passes", "passes"),
        (LATE, "fails", "is skipped", "is skipped"),
        (FAR, "fails", "fails", "is skipped"),
        ({"ping_p50_ms": None}, "fails", "fails", "is skipped"),
        ({"fairness": 0.7}, "fails", "fails", "is skipped"),
        (UNCONTROLLED, "fails", "fails", "fails"),
        ({"messages": 0}, "fails", "fails", "fails"),
    ],
)
def test_a_busy_machine_excuses_only_explained_misses(
    difference: dict[str, Any], calm: str, busy: str, starved: str
) -> None:
    told = [judgement([difference | how] * 3) for how in (CALM, BUSY, STARVED)]
    assert told == [calm, busy, starved]


def test_one_good_run_passes_three_misses_fail() -> None:
    assert judgement([LATE | CALM, {}]) == "passes"
    assert judgement([LATE | BUSY, UNCONTROLLED | STARVED, {}]) == "passes"
    assert judgement([LATE | CALM, LATE | STARVED, LATE | BUSY]) == "is skipped"
    assert judgement([LATE | CALM, LATE | STARVED, LATE | CALM]) == "fails"


def test_a_failed_device_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "port.ndjson").write_text('{"event": "failed", "error": "OSError: no buffer"}\n')
    reader = _Reader(cast(Any, None), cast(Any, SimpleNamespace(folder=tmp_path)))
    with pytest.raises(OutputError, match="a device that runs until the end, got OSError: no buffer"):
        reader.documents("port")
