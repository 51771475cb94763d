"""The testbed with TCP, which has its own congestion control: wide bounds, and reported values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.testbeds import EXTRA_RUNS, Miss, Outcome, judged, missed, requires_testbeds, run

RATE_BPS = 50_000_000
BUFFER_FRAMES = 1000
FRAME_OCTETS = 1500 + 14
SECONDS = 5


def judge(outcome: Outcome) -> dict[str, Miss]:
    """Return the amount by which TCP above a mechanism misses the requirements."""
    rates = outcome["rates_bps"]
    goodput = sum(rates) / RATE_BPS
    # TCP alone fills the buffer. With a mechanism, most of the buffer is free.
    full = outcome["queue_mean_octets"] / (BUFFER_FRAMES * FRAME_OCTETS)
    return {
        "goodput": missed(narrow=goodput >= 0.5, wide=goodput >= 0.25, any=goodput > 0),
        "each sender": missed(narrow=min(rates) > 0),
        "messages": missed(narrow=True, any=outcome["messages"] > 0),
        "queue": missed(narrow=full < 0.5, wide=full < 0.75),
    }


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", ["qcn", "dbp"])
def test_tcp_completes_through_the_testbed(mechanism: str, tmp_path: Path) -> None:
    requires_testbeds()
    folder = tmp_path / "kept"
    words = ("--mechanism", mechanism, "--tcp", "--rate", f"{RATE_BPS}b/s", "--force")
    runs = (run(*words, seconds=SECONDS, folder=folder) for _ in range(1 + EXTRA_RUNS))
    outcome = judged(runs, judge, seconds=SECONDS)
    assert outcome["lost_share"] is None
    kept = folder / mechanism
    again = 0
    for number in (1, 2, 3):
        sent = json.loads((kept / f"flow{number}-sent.json").read_text(encoding="utf-8"))["end"]
        assert sent["sender_tcp_congestion"] == "cubic"
        again += sent["sum_sent"]["retransmits"]
        *_, summary = (kept / f"point{number}.ndjson").read_text(encoding="utf-8").splitlines()
        assert json.loads(summary)["counters"]["limited_frames"] > 0
    assert outcome["retransmits"] == again
