"""``ecmproto stats`` as users run the command."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter
from ecmproto.frames.capture.reader import BATCH_FRAMES
from ecmproto.frames.stats import Accumulator
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER
from tests.stats.test_pauses import EAST, WEST, other, pause, pfc

MIXED, HOTSPOT = str(FOLDER / "mixed.pcap"), str(FOLDER / "hotspot.pcap.gz")
MAX_COLUMNS = 100
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], *, code: int = 0) -> tuple[str, str]:
    """Run the command, and return its stdout and stderr."""
    assert run(["stats", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_the_table_equals_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(["-r", MIXED, "--color", "never"], capsys)
    assert err == ""
    golden = Path(__file__).with_name("stats_table.txt")
    assert out.replace(MIXED, "mixed.pcap") == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted(path for path in FOLDER.glob("*.pcap*") if "incast" not in path.name), ids=lambda p: p.name
)
def test_tables_are_narrow_without_empty_sections(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(["-r", str(path), "--color", "never"], capsys)
    lines = out.splitlines()
    assert max(len(line) for line in lines[1:]) <= MAX_COLUMNS
    assert not any(line != line.rstrip() for line in lines if "│" not in line and "█" not in line)
    assert ("CNMs by congestion point" in out) == (
        path.name in ("mixed.pcap", "mixed.pcapng", "qcn_cp.pcapng", "qcn_pbb.pcap", "malformed.pcapng")
    )


def test_time_lost_to_pauses_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lost.pcapng"
    links = [Interface(index=0, linktype=1, name="spine \x1b[31m1", speed_bps=400 * 10**9)]
    links.append(Interface(index=1, linktype=1))
    frames = [pfc(EAST, time3=16_953), pause(1000, WEST), other()]
    with PcapngWriter(path, interfaces=links) as writer:
        writer.write_batch(Batch.from_frames(frames, time_ns=[0, 0, 100_000], interface=[0, 1, 0]))
    out, _ = told(["-r", str(path), "--speed", "100G", "--color", "never"], capsys)
    assert out.splitlines()[1:3] == [
        "  paused       21.7 % of the time, 21.7 µs",
        "               02:00:00:00:00:0e on spine �[31m1 paused priority 3",
    ]
    assert "02:00:00:00:00:0f on interface 1, 1 frames, at 100 Gb/s (assumed)" in out
    assert "priority 3  21.7 %  21.7 µs       1        0" in out


def test_json_contains_intervals_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(["-r", HOTSPOT, "-T", "json", "--interval", "1ms"], capsys)
    document = json.loads(out)
    assert (document["schema"], document["frames"], err) == ("ecmproto/stats/1", 15662, "")
    assert document["intervals"]["width_ns"] == 10**6
    assert sum(document["frames_over_time"]) == 15662


def test_filter_and_count_combine(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(["-r", MIXED, "-Y", "cnm", "-c", "10", "--color", "never"], capsys)
    assert "frames       1 of 10, 110 B" in out


def test_captures_without_frames_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.pcap"
    PcapWriter(empty).close()
    assert told(["-r", str(empty)], capsys) == ("0 frames\n", "")
    assert told(["-r", MIXED, "-Y", "frame.len > 5000"], capsys) == ("0 of 26 frames selected\n", "")
    assert json.loads(told(["-r", str(empty), "-T", "json"], capsys)[0])["frames"] == 0


def test_a_truncated_capture_is_counted_until_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((FOLDER / "mixed.pcap").read_bytes()[:-1])
    out, err = told(["-r", str(cut), "--color", "never"], capsys, code=3)
    assert "frames       25, " in out
    assert err.startswith(f"ecmproto: {cut}: at octet ")
    assert err.endswith("help: the 25 frames before it were used\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "fast"], "'--interval': expected a time such as 15ms"),
        (["--interval", "0s"], "interval: expected 1 ns to 146 years, got 0"),
        (["--speed", "quick"], "'--speed': expected a rate such as 10G"),
        (["--lossless", "3,9"], "'--lossless': expected priorities from 0 to 7, as in 3,4, got '3,9'"),
        (["--storm-detect", "0s"], "detection time of storms: expected 1 ns"),
        (["--speed", "0"], "speed: expected 1 bit/s to 4 Eb/s, got 0"),
        (
            ["--report", "out.pdf"],
            "out.pdf: expected a name that ends in .html, .htm, .png, .svg, .json, got .pdf",
        ),
        (["-Y", "cmn"], "cmn"),
        (["-T", "xml"], "xml"),
    ],
)
def test_wrong_options_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = told(["-r", MIXED, *arguments], capsys, code=2)
    assert out == ""
    assert said in err
    assert "help: " in err


def test_a_missing_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(["-r", "nowhere.pcap"], capsys, code=3)
    assert (out, "nowhere.pcap" in err) == ("", True)


def test_reports_are_written_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["out.html", "out.png", "out.svg", "out.json"]
    paths = [tmp_path / name for name in names]
    arguments = [word for path in paths for word in ("--report", str(path))]
    out, _ = told(["-r", MIXED, "-T", "json", *arguments], capsys)
    starts = (b"<!DOCTYPE html>", b"\x89PNG\r\n", b"<?xml", b"{")
    for path, start in zip(paths, starts, strict=True):
        assert path.read_bytes().startswith(start)
    assert paths[3].read_text(encoding="utf-8") == out
    _, err = told(["-r", MIXED, "--report", str(paths[0])], capsys, code=2)
    assert "--force" in err
    told(["-r", MIXED, "--report", str(paths[0]), "--force"], capsys)


@pytest.mark.skipif(PLAIN, reason="a batch of tens of thousands of frames as plain Python takes long")
def test_an_interrupt_shows_partial_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.pcap"
    rows = np.zeros((BATCH_FRAMES + 1000, 60), np.uint8)
    with PcapWriter(path) as writer:
        writer.write_matrix(rows, time_ns=1000 * np.arange(len(rows)))
    add = Accumulator.add

    def interrupted(self: Accumulator, *arguments: Any, **others: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        add(self, *arguments, **others)

    monkeypatch.setattr(Accumulator, "add", interrupted)
    out, err = told(["-r", str(path), "--color", "never"], capsys, code=130)
    assert err.endswith("ecmproto: interrupted\n")
    assert f"frames       {BATCH_FRAMES:,}, " in out
