"""The testbed with TCP, whose own control has a say as well: loose bounds, the rest is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.live.testbeds import requires_testbeds, run

RATE_BPS = 50_000_000
BUFFER_FRAMES = 1000
FRAME_OCTETS = 1500 + 14


@pytest.mark.alone
@pytest.mark.parametrize("mechanism", ["qcn", "dbp"])
def test_tcp_goes_through(mechanism: str, tmp_path: Path) -> None:
    requires_testbeds()
    folder = tmp_path / "kept"
    document = run("--mechanism", mechanism, "--tcp", "--rate", f"{RATE_BPS}b/s", seconds=8, folder=folder)
    (outcome,) = document["runs"]
    assert sum(outcome["rates_bps"]) >= 0.5 * RATE_BPS
    assert min(outcome["rates_bps"]) > 0
    assert outcome["messages"] > 0
    assert outcome["lost_share"] is None
    # TCP alone fills what there is: with a mechanism below it most of the buffer is free.
    assert outcome["queue_mean_octets"] < 0.5 * BUFFER_FRAMES * FRAME_OCTETS
    kept = folder / mechanism
    again = 0
    for number in (1, 2, 3):
        sent = json.loads((kept / f"flow{number}-sent.json").read_text(encoding="utf-8"))["end"]
        assert sent["sender_tcp_congestion"] == "cubic"
        again += sent["sum_sent"]["retransmits"]
        *_, summary = (kept / f"point{number}.ndjson").read_text(encoding="utf-8").splitlines()
        assert json.loads(summary)["counters"]["limited_frames"] > 0
    assert outcome["retransmits"] == again
