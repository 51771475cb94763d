"""``ecmproto replay`` with a filter (``-Y``), and on captures that contain feedback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ecmproto.frames.capture import Interface, PcapngWriter, open_capture
from ecmproto.frames.capture.batch import LINUX_SLL
from ecmproto_cli.main import run
from pcaps.hotspot import data_frame
from pcaps.manifest import FOLDER

HOTSPOT = str(FOLDER / "hotspot.pcap.gz")
FILTER = "eth.src in {02:00:00:00:00:01, 02:00:00:00:00:03} and vlan"
LOOPS = {"open": ["--cp", "qcn"], "closed": ["--cp", "qcn", "--rp", "qcn"]}


def replay(capsys: pytest.CaptureFixture[str], path: Path | str, *arguments: str) -> dict[str, Any]:
    """Return the report of a replay without the name of the capture."""
    options = ["--seed", "1", "--speed", "2G", "--buffer", "100kB", "-T", "json"]
    assert run(["replay", "-r", str(path), *options, *arguments]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    del report["capture"]
    return report


def octets_of(path: Path) -> list[bytes]:
    with open_capture(path) as reader:
        return [octets for batch in reader for octets in batch.frames()]


@pytest.mark.parametrize("loop", LOOPS)
def test_filtered_replay_equals_replay_of_filtered_capture(
    loop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, one, other = tmp_path / "copy.pcap", tmp_path / "one.pcap", tmp_path / "other.pcap"
    assert run(["dissect", "-r", HOTSPOT, "-Y", FILTER, "-w", str(copy)]) == 0
    wanted = replay(capsys, copy, *LOOPS[loop], "-w", str(one))
    assert replay(capsys, HOTSPOT, *LOOPS[loop], "-Y", FILTER, "-w", str(other)) == wanted
    assert 0 < wanted["frames"] < replay(capsys, HOTSPOT, *LOOPS[loop])["frames"]
    assert octets_of(one) == octets_of(other)
    assert len(octets_of(one)) > len(octets_of(copy)) / 2


@pytest.mark.parametrize("loop", LOOPS)
def test_an_empty_selection_replays_no_frames(loop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(capsys, HOTSPOT, *LOOPS[loop], "-Y", "arp")["frames"] == 0


def test_a_filter_can_exclude_other_link_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixed.pcapng"
    ports = [Interface(index=0, linktype=1), Interface(index=1, linktype=LINUX_SLL)]
    with PcapngWriter(str(path), interfaces=ports) as writer:
        for number in range(6):
            writer.write_frame(data_frame(1), 1000 * number, interface=number % 2)
    assert run(["replay", "-r", str(path), "--cp", "qcn"]) == 3
    assert "Ethernet frames for a replay" in capsys.readouterr().err
    assert replay(capsys, path, "--cp", "qcn", "-Y", "frame.interface_id == 0")["frames"] == 3


def test_messages_name_frame_numbers_of_whole_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.pcapng"
    arguments = ["--cp", "qcn", "-Y", FILTER, "-w", str(path)]
    messages = replay(capsys, HOTSPOT, *arguments)["ports"][0]["messages"]["CNM"]
    assert messages > 0
    with open_capture(HOTSPOT) as reader:
        sources = [octets[6:12] for batch in reader for octets in batch.frames()]
    assert run(["dissect", "-r", str(path), "-Y", "cnm", "-T", "ndjson"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(shown) == messages
    for record in shown:
        number = int(json.dumps(record).partition("CNM for frame ")[2].partition(":")[0])
        assert sources[number - 1].hex() in json.dumps(record).replace(":", "")


def test_a_misspelt_filter_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "-Y", "vlan.prio == 3"]) == 2
    assert "did you mean 'vlan.priority'?" in capsys.readouterr().err


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["replay", "--seed", "1", "-T", "json", *arguments]) == 0
    summary: dict[str, Any] = json.loads(capsys.readouterr().out)
    return summary


def test_captured_messages_slow_their_stations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered = str(tmp_path / "answered.pcapng")
    sent = replayed(capsys, "-r", HOTSPOT, "--cp", "qcn", "-w", answered)["ports"][0]["messages"]["CNM"]
    obeyed = replayed(capsys, "-r", answered, "--cp", "none", "--rp", "qcn")
    counters = obeyed["stations"]["counters"]
    assert sent == counters["taken_cnms"] == counters["decreased"] > 0
    assert obeyed["ports"][0]["messages"] == {}
    assert obeyed["stations"]["held_out_frames"] > 0
    assert {flow["label"] for flow in obeyed["flows"]} == {f"02:00:00:00:00:0{n}" for n in range(1, 5)}
    assert all(flow["second_half_bps"] < 20_000_000 for flow in obeyed["flows"])


def test_own_congestion_points_ignore_captured_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answered = str(tmp_path / "answered.pcapng")
    replayed(capsys, "-r", HOTSPOT, "--cp", "qcn", "-w", answered)
    own = replayed(capsys, "-r", answered, "--cp", "qcn", "--rp", "qcn")
    assert own["stations"]["counters"]["messages"] == own["ports"][0]["messages"].get("CNM", 0)


def test_messages_to_unknown_stations_are_only_counted(capsys: pytest.CaptureFixture[str]) -> None:
    foreign = str(FOLDER / "qcn_cp.pcapng")
    summary = replayed(capsys, "-r", foreign, "--cp", "none", "--rp", "qcn")
    counters = summary["stations"]["counters"]
    assert counters["foreign_cnms"] == counters["feedback_frames"] == 66
    assert (counters["messages"], counters["created"], summary["stations"]["limited_frames"]) == (0, 0, 0)
