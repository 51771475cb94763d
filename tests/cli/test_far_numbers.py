"""Captures whose clocks and speeds 64 bits cannot hold: every command reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.codec import encode
from ecmproto.craft import build
from ecmproto_cli.main import run
from tests.capture.octets import description, enhanced, option, section

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
def test_numbers_beyond_64_bits_stop_no_command(
    command: Sequence[str], octets: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "far.pcapng").write_bytes(octets)
    status = run([*command, "-r", str(tmp_path / "far.pcapng")])
    out, err = capsys.readouterr()
    assert status in (0, 1), err
    assert out
