"""The bundled captures equal the output of their commands, and their dissection has not changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ecmproto_cli.main import run
from pcaps.manifest import FOLDER, Entry, entries, frame_count, made, sha256

GOLDEN = FOLDER / "golden"


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.file)
def test_capture_equals_output_of_its_command(entry: Entry) -> None:
    bundled = (FOLDER / entry.file).read_bytes()
    assert sha256(bundled) == entry.sha256
    assert sha256(made(entry)) == entry.sha256, f"run: python -m pcaps {entry.file}"
    assert frame_count(FOLDER / entry.file) == entry.frames


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.file)
def test_a_capture_dissects_as_written_down(entry: Entry, capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for form, arguments in {"lines": [], "tree": ["-V", "-x"]}.items():
        limit = ["-c", "40"] if form == "lines" else ["-c", "12"]
        assert run(["dissect", "-r", str(FOLDER / entry.file), "--color", "never", *limit, *arguments]) == 0
        shown[form] = capsys.readouterr().out
    for form, text in shown.items():
        path = GOLDEN / f"{entry.file}.{form}.txt"
        if os.environ.get("ECMPROTO_GOLDEN") == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "ECMPROTO_GOLDEN=write pytest tests/pcaps"


def test_the_manifest_lists_every_capture() -> None:
    captures = {path.name for path in FOLDER.iterdir() if {".pcap", ".pcapng"} & set(path.suffixes)}
    assert captures == {entry.file for entry in entries()}


def test_every_golden_dissection_belongs_to_a_capture() -> None:
    names = {entry.file for entry in entries()}
    assert {Path(path.stem).stem for path in GOLDEN.iterdir()} == names


def test_twins_hold_the_same_frames(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for file in ("mixed.pcap", "mixed.pcapng"):
        assert run(["dissect", "-r", str(FOLDER / file), "--color", "never"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
