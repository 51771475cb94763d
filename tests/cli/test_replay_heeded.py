"""``--cp none --rp MECHANISM``: stations heed the feedback that the capture itself holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ecmproto_cli.main import run
from pcaps.manifest import FOLDER

HOTSPOT = str(FOLDER / "hotspot.pcap.gz")


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["replay", "--seed", "1", "-T", "json", *arguments]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def test_captured_messages_slow_the_stations_that_they_are_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = str(tmp_path / "answered.pcapng")
    sent = replayed(capsys, "-r", HOTSPOT, "--cp", "qcn", "-w", answered)["ports"][0]["messages"]["CNM"]
    heeded = replayed(capsys, "-r", answered, "--cp", "none", "--rp", "qcn")
    counters = heeded["stations"]["counters"]
    assert sent == counters["taken_cnms"] == counters["decreased"] > 0
    assert heeded["ports"][0]["messages"] == {}
    assert heeded["stations"]["held_out_frames"] > 0
    assert {flow["label"] for flow in heeded["flows"]} == {f"02:00:00:00:00:0{n}" for n in range(1, 5)}
    assert all(flow["second_half_bps"] < 20_000_000 for flow in heeded["flows"])


def test_with_its_own_congestion_point_a_replay_leaves_captured_messages_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = str(tmp_path / "answered.pcapng")
    replayed(capsys, "-r", HOTSPOT, "--cp", "qcn", "-w", answered)
    own = replayed(capsys, "-r", answered, "--cp", "qcn", "--rp", "qcn")
    assert own["stations"]["counters"]["messages"] == own["ports"][0]["messages"].get("CNM", 0)


def test_messages_for_nobody_here_change_nothing_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    foreign = str(FOLDER / "qcn_cp.pcapng")
    summary = replayed(capsys, "-r", foreign, "--cp", "none", "--rp", "qcn")
    counters = summary["stations"]["counters"]
    assert counters["foreign_cnms"] == counters["feedback_frames"] == 66
    assert (counters["messages"], counters["created"], summary["stations"]["limited_frames"]) == (0, 0, 0)
