"""``ecmproto dissect`` on pcapng files written block by block: copies, comments, interfaces, and JSON."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import pytest

from ecmproto_cli.main import run
from tests.capture.octets import block, description, enhanced, option, section, simple, small_pcapng
from tests.dissect.sample import CNM_OCTETS, FRAMES, write_sample

COMMENT, IF_NAME, IF_TSRESOL, END = 1, 2, 9, bytes(4)
COMMENTED = option(COMMENT, b"the queue\x1b[2J") + END
CAPTURE = (
    section()
    + description(options=option(IF_NAME, b"eth0") + option(IF_TSRESOL, b"\x09") + END)
    + enhanced(CNM_OCTETS, ticks=1_700_000_000_123_456_789, options=COMMENTED)
    + description(linktype=189, options=option(IF_NAME, b"usb") + END)
    + enhanced(b"usb!", interface=1, ticks=1_700_000_000_123_456)
    + block(0x0ECF, b"unknown to everyone")
    + enhanced(FRAMES["pfc"], ticks=1_700_000_001_000_000_000, original=64)
    + block(5, struct.pack("<III", 0, 0, 0))
)


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "in.pcapng"
    path.write_bytes(CAPTURE)
    return path


def test_copy_keeps_every_block(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "out.pcapng"
    assert run(["dissect", "-r", str(capture), "-w", str(copy)]) == 0
    assert copy.read_bytes() == CAPTURE
    told = ["1 frame of link type USB_LINUX (189) not decoded", f"3 frames written to {copy}"]
    assert capsys.readouterr().err.splitlines() == told


def test_copy_of_first_frame_ends_after_it(capture: Path, tmp_path: Path) -> None:
    copy = tmp_path / "out.pcapng"
    assert run(["dissect", "-r", str(capture), "-w", str(copy), "-c", "1"]) == 0
    assert CAPTURE.startswith(copy.read_bytes())
    assert copy.read_bytes().endswith(
        COMMENTED + CAPTURE[len(copy.read_bytes()) - 4 : len(copy.read_bytes())]
    )


def test_comments_and_interfaces_are_shown(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", str(capture), "-V"]) == 0
    shown = capsys.readouterr().out
    assert "    comment    the queue\N{REPLACEMENT CHARACTER}[2J\n" in shown
    assert "Frame 2  4 octets on the wire, 4 captured, interface 1\n    link type  USB_LINUX (189)\n" in shown
    assert run(["dissect", "-r", str(capture), "-e", "frame.interface_id", "-e", "frame.time_epoch"]) == 0
    assert capsys.readouterr().out == (
        "0\t1700000000.123456789\n1\t1700000000.123456000\n0\t1700000001.000000000\n"
    )


def test_document_contains_later_interfaces(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", str(capture), "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["capture"]["format"] == "pcapng"
    assert [each["name"] for each in document["capture"]["interfaces"]] == ["eth0"]
    assert [(each["index"], each["name"]) for each in document["later_interfaces"]] == [(1, "usb")]
    assert document["frames"][0]["comments"] == ["the queue\x1b[2J"]
    assert document["frames"][0]["time_ns"] == 1_700_000_000_123_456_789
    assert [frame.get("linktype") for frame in document["frames"]] == [None, 189, None]
    assert (document["frames"][2]["captured_octets"], document["frames"][2]["original_octets"]) == (60, 64)


def test_frames_without_time_have_empty_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "simple.pcapng"
    path.write_bytes(section() + description() + simple(FRAMES["arp"]))
    assert run(["dissect", "-r", str(path), "-e", "frame.number", "-e", "frame.time_epoch"]) == 0
    assert capsys.readouterr().out == "1\t\n"


def json_back(
    path: Path, output: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capsys.readouterr()
    assert run(["dissect", "-r", str(path), "-T", "json"]) == 0
    text = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))
    assert run(["craft", "--from-json", "-w", str(output)]) == 0


def test_document_reproduces_the_pcap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, again = write_sample(tmp_path / "sample.pcap"), tmp_path / "again.pcap"
    json_back(sample, again, capsys, monkeypatch)
    assert again.read_bytes() == sample.read_bytes()


def test_document_reproduces_the_frames_of_a_pcapng(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    again = tmp_path / "again.pcapng"
    json_back(capture, again, capsys, monkeypatch)
    capsys.readouterr()
    shown = []
    for path in (capture, again):
        assert run(["dissect", "-r", str(path), "-T", "ndjson"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_interface_ids_equal_those_of_wireshark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pcapng").write_bytes(small_pcapng())
    assert run(["dissect", "-r", str(tmp_path / "a.pcapng"), "-e", "frame.interface_id"]) == 0
    assert capsys.readouterr().out.split() == ["0", "1", "0", "0", "0"]
