"""All commands read captures with times and speeds that do not fit into 64 bits."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.capture.octets import description, enhanced, option, pcap_header, pcap_record, section

IF_SPEED, IF_TSOFFSET = 8, 14
PFC, DATA = encode(build("pfc prio3=65535")), encode(build("vlan id=5 ip udp"))


def offset(seconds: int) -> bytes:
    return option(IF_TSOFFSET, struct.pack("<q", seconds))


FAST = section() + description(options=option(IF_SPEED, b"\xff" * 8)) + enhanced(PFC) * 2
LATE = section() + description(options=offset(1 << 62)) + enhanced(DATA, ticks=(1 << 64) - 1) * 1100
APART = (
    section() + description() + description(options=offset(-(1 << 62)))
    + enhanced(DATA, interface=1) + enhanced(DATA, ticks=5) * 2
)  # fmt: skip
COMMANDS = (
    ("check",), ("stats",), ("dissect",), ("dissect", "-T", "ndjson"),
    ("dissect", "-T", "fields", "-e", "frame.time_delta_displayed"),
    ("replay", "--cp", "qcn"), ("replay", "--cp", "qcn", "--rp", "qcn"),
)  # fmt: skip


@pytest.mark.parametrize("octets", [FAST, LATE, APART], ids=["fast", "late", "apart"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_all_commands_accept_numbers_beyond_64_bits(
    command: Sequence[str], octets: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far.pcapng").write_bytes(octets)
    status = run([*command, "-r", str(tmp_path / "far.pcapng")])
    out, err = capsys.readouterr()
    assert status in (0, 1), err
    assert out


FAR_US = [5, 1 << 63, (1 << 64) - 7_000_000]
FAR = section() + description() + b"".join(enhanced(DATA, ticks=each) for each in FAR_US)


def times_of(path: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    capsys.readouterr()
    assert run(["dissect", "-r", str(path), "-T", "ndjson"]) == 0
    return [json.loads(line)["time_ns"] for line in capsys.readouterr().out.splitlines()]


def test_times_beyond_pcap_can_move_to_pcapng(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = tmp_path / "late.pcap"
    late.write_bytes(pcap_header() + pcap_record(DATA, seconds=(1 << 32) - 1, ticks=5))
    assert run(["edit", "-r", str(late), "--shift", "1.5s", "-w", str(tmp_path / "late.pcapng")]) == 0
    assert times_of(tmp_path / "late.pcapng", capsys) == [(1 << 32) * 10**9 + 500_005_000]


@pytest.mark.parametrize(("option", "shift_us"), [("1s", 1_000_000), ("1500ns", 1)])
def test_times_beyond_64_bits_move_exactly(
    option: str, shift_us: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far.pcapng").write_bytes(FAR)
    out = tmp_path / "moved.pcapng"
    assert run(["edit", "-r", str(tmp_path / "far.pcapng"), "--shift", option, "-w", str(out)]) == 0
    assert times_of(out, capsys) == [1000 * (each + shift_us) for each in FAR_US]


@pytest.mark.parametrize(
    ("name", "shift"), [("far.pcapng", "8s"), ("far.pcapng", "-1s"), ("late.pcap", "2s")]
)
def test_times_beyond_the_format_are_refused(
    name: str, shift: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    octets = pcap_header() + pcap_record(DATA) + pcap_record(DATA, seconds=(1 << 32) - 1)
    (tmp_path / name).write_bytes(FAR if name == "far.pcapng" else octets)
    out = tmp_path / f"moved.{name}"
    assert run(["edit", "-r", str(tmp_path / name), f"--shift={shift}", "-w", str(out)]) == 1
    assert "capture record.time: expected" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_craft_reads_all_times_of_dissect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "far.pcapng").write_bytes(FAR)
    assert run(["dissect", "-r", str(tmp_path / "far.pcapng"), "-T", "json"]) == 0
    (tmp_path / "far.json").write_text(capsys.readouterr().out)
    out = tmp_path / "again.pcapng"
    assert run(["craft", "--from-json", str(tmp_path / "far.json"), "-w", str(out)]) == 0
    assert "are written as the nearest" in capsys.readouterr().err
    # in microseconds, as the capture has them
    assert times_of(out, capsys) == [5_000, *[((1 << 63) - 1) // 1000 * 1000] * 2]
