"""Text output, compared with stored text.

`ECMPROTO_GOLDEN=1 pytest tests/dissect/test_golden.py` updates the stored text.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ecmproto_cli.main import run
from tests.dissect.sample import write_sample

GOLDEN = Path(__file__).parent / "golden"
COLUMNS = ("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len", "eth.type", "eth.len", "vlan.id")
FLAGS = ("cnm.qntz_fb", "encapsulated.ip.src", "macc.cbfc.enbv.c3", "lldp.ieee.802_1qau.cnpv.prio5")


def asked(*names: str) -> list[str]:
    return [word for name in names for word in ("-e", name)]


VIEWS: dict[str, list[str]] = {
    "line.txt": [],
    "line-color.txt": ["--color", "always"],
    "tree.txt": ["-V"],
    "line-hex.txt": ["-x"],
    "frames.json": ["-T", "json"],
    "frames.ndjson": ["-T", "ndjson", "-c", "5"],
    "fields.tsv": ["-T", "fields", "-E", "header=y", *asked(*COLUMNS, "frame.protocols")],
    "fields.csv": ["-T", "csv", *asked("frame.number", *FLAGS, "lldp.tlv.len", "frame.error")],
}


@pytest.mark.parametrize("name", VIEWS)
def test_view(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", str(write_sample(tmp_path / "sample.pcap")), *VIEWS[name]]) == 0
    shown = capsys.readouterr().out
    if os.environ.get("ECMPROTO_GOLDEN"):
        (GOLDEN / name).write_text(shown, encoding="utf-8")
    assert shown == (GOLDEN / name).read_text(encoding="utf-8"), f"ECMPROTO_GOLDEN=1 pytest {__file__}"
