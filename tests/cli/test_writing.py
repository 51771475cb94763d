"""The option ``-w``: output files, errors, and several captures in one command."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto.errors import pip_install
from ecmproto.frames.capture import open_capture
from ecmproto_cli.main import run
from ecmproto_cli.output import output_form
from tests.dissect.sample import FRAMES, write_sample

HOTSPOT = "pcaps/hotspot.pcap.gz"
REPLAY = ["replay", "--cp", "qcn", "--seed", "1"]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "sample.pcap")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a.pcap", "pcap"), ("a.pcapng.zst", "pcapng"), ("a.json.gz", "json"), ("a.py", "python"),
        ("a", None), ("a.hex", "hex"), ("a.ndjson", "ndjson"), ("a.xyz", None), ("a.PARQUET", "parquet"),
        ("a.txt", "line"), ("-", None), ("a.tsv", "fields"),
    ],
)  # fmt: skip
def test_file_names_select_the_form(path: str, form: str | None) -> None:
    forms = ["pcap", "pcapng", "json", "ndjson", "python", "hex", "parquet", "fields", "line"]
    assert output_form(path, None, forms, text="line") == form


def test_the_file_has_the_requested_form(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "z.csv"
    words = ["-e", "frame.number", "-e", "frame.len"]
    assert run(["dissect", "-r", str(sample), "-T", "csv", *words]) == 0
    shown = capsys.readouterr().out
    for asked in (["-T", "csv"], []):
        assert run(["dissect", "-r", str(sample), *asked, *words, "-w", str(out), "--force"]) == 0
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", f"{len(FRAMES)} frames written to {out}\n")
        assert out.read_text(encoding="utf-8") == shown
    assert len(list(csv.reader(shown.splitlines()))) == len(FRAMES) + 1


@pytest.mark.parametrize(
    ("name", "words", "same"),
    [
        ("z.json", [], ["-T", "json"]), ("z.ndjson", ["-Y", "cnm"], ["-Y", "cnm", "-T", "ndjson"]),
        ("z.txt", [], ["-T", "line"]), ("z.txt", ["-V", "-c", "3"], ["-V", "-c", "3"]),
        ("z", ["-T", "json"], ["-T", "json"]),
        ("z.txt", ["-x", "-c", "2"], ["-x", "-c", "2"]), ("z.tsv", ["-e", "eth.src"], ["-e", "eth.src"]),
    ],
)  # fmt: skip
def test_files_equal_the_output_on_stdout(
    name: str,
    words: list[str],
    same: list[str],
    sample: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["dissect", "-r", str(sample), *same]) == 0
    shown = capsys.readouterr().out
    assert run(["dissect", "-r", str(sample), *words, "-w", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / name).read_text(encoding="utf-8") == shown


def test_names_of_columns_select_columns(sample: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "x.parquet"
    assert run(["dissect", "-r", str(sample), "-w", str(out)]) == 0
    assert parquet.read_table(out).num_rows == len(FRAMES)


def test_a_capture_is_copied_beside_the_output(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, form in (("z", []), ("z.pcapng", []), ("y", ["-T", "pcapng"])):
        out = tmp_path / name
        assert run(["dissect", "-r", str(sample), "-e", "frame.number", *form, "-w", str(out)]) == 0
        assert capsys.readouterr().out.split() == [str(number) for number in range(1, len(FRAMES) + 1)]
        with open_capture(out) as reader:
            assert reader.format == ("pcap" if name == "z" else "pcapng")
            assert sum(map(len, reader)) == len(FRAMES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["dissect", "-r", "in", "-T", "json", "-w", "x.pcap"],
            "x.pcap: expected a suffix and a -T that agree, got pcap and json",
        ),
        (["dissect", "-r", "in", "-w", "x.hex"], "x.hex: expected a name that ends in .pcap"),
        (
            ["craft", "cnm", "-T", "json", "-w", "x.pcap"],
            "x.pcap: expected a suffix and a -T that agree, got pcap and json",
        ),
        (["craft", "cnm", "-w", "x.parquet"], "got one of parquet"),
        (
            [*REPLAY, "-r", "in", "-w", "x.json"],
            "x.json: expected a name that ends in .pcap, .cap, .pcapng, .ntar",
        ),
    ],
)
def test_name_and_form_that_contradict_are_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    assert said in capsys.readouterr().err
    assert not Path("x.pcap").exists()


@pytest.mark.parametrize(
    "words",
    [
        [*REPLAY, "--report"], [*REPLAY, "--flows"], [*REPLAY, "--samples"], [*REPLAY, "-w"],
        ["stats", "--report"], ["dissect", "-w"],
    ],
)  # fmt: skip
def test_outputs_are_refused_before_the_work(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The capture is missing, so starting the work, or opening the capture, would fail."""
    name = {"--report": "x.html", "--flows": "x.csv", "--samples": "x.csv", "-w": "x.pcap"}[words[-1]]
    there = tmp_path / name
    there.write_text("mine", encoding="utf-8")
    assert run([*words, str(there), "-r", str(tmp_path / "none.pcap")]) == 2
    told = capsys.readouterr().err
    assert "expected a name that is free, got a file of that name\nhelp: another name, or --force" in told
    assert there.read_text(encoding="utf-8") == "mine"
    assert run([*words, str(tmp_path / "no" / name), "-r", str(tmp_path / "none.pcap")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    assert run([*words, str(tmp_path), "-r", str(tmp_path / "none.pcap")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_outputs_to_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x.csv")
    assert run([*REPLAY, "-r", HOTSPOT, "--flows", out, "--samples", out]) == 2
    assert f"{out}: expected a different file for each output, got the same twice" in capsys.readouterr().err


def test_a_second_capture_does_not_replace_the_first(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_sample(tmp_path / "other.pcap")
    for words in (
        ["-r", str(sample), "-r", str(other)],
        [str(sample), str(other)],
        [str(other), "-r", str(sample)],
    ):
        assert (
            run(["dissect", *words, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.interface_id"])
            == 0
        )
        told = capsys.readouterr()
        lines = [line.split("\t") for line in told.out.splitlines()]
        assert len(lines) == 2 * len(FRAMES)
        assert [line[0] for line in lines] == sorted(line[0] for line in lines)
        assert {line[1] for line in lines} == {"0", "1"}
        assert told.err == "ecmproto: 2 captures merged in time order\n"
    assert run(["stats", str(sample), str(other), "-T", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["frames"] == 2 * len(FRAMES)


def test_folders_patterns_and_named_captures_are_read(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"x{number}.pcap").write_bytes(sample.read_bytes())
    shown = ["-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch", "-e", "frame.interface_id"]
    assert run(["dissect", str(sample), str(sample), "--order", "named", *shown]) == 0
    named = capsys.readouterr()
    assert named.err == "ecmproto: 2 captures read one after the other\n"
    numbers = [line.split("\t")[0] for line in named.out.splitlines()]
    assert numbers == [str(number) for number in range(1, 2 * len(FRAMES) + 1)]
    for words in ([str(folder)], ["-r", str(folder / "x?.pcap")]):
        assert run(["dissect", *words, *shown]) == 0
        assert capsys.readouterr() == (named.out, "")
    (folder / "x3.pcap").write_bytes(b"no capture")
    assert run(["stats", str(folder), "-T", "json"]) == 3
    told = capsys.readouterr()
    assert json.loads(told.out)["frames"] == 2 * len(FRAMES)
    assert "x3.pcap: expected a pcap or pcapng capture" in told.err
    assert run(["check", str(tmp_path / "none*.pcap")]) == 3
    assert "none*.pcap: expected a file that matches, got none" in capsys.readouterr().err


def test_stdin_is_read_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", "-", "-r", "-"]) == 2
    assert "stdin can be read only once: expected - once, got it twice" in capsys.readouterr().err


def test_columns_of_several_captures_are_joined(sample: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    other = write_sample(tmp_path / "other.pcap")
    out = tmp_path / "x.parquet"
    assert run(["dissect", str(sample), str(other), "-w", str(out)]) == 0
    table = parquet.read_table(out)
    assert table["frame.number"].to_pylist() == list(range(1, 2 * len(FRAMES) + 1))
    assert set(table["frame.interface_id"].to_pylist()) == {0, 1}


def test_one_of_several_captures_may_be_stdin(sample: Path, tmp_path: Path) -> None:
    other = write_sample(tmp_path / "other.pcap")
    command = [sys.executable, "-m", "ecmproto_cli", "dissect", "-r", "-", "-r", str(other)]
    with sample.open("rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 2 * len(FRAMES)


@pytest.mark.parametrize("option", ["--flows", "--samples"])
def test_a_missing_library_is_reported_before_work(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert run([*REPLAY, "-r", str(tmp_path / "none.pcap"), option, str(tmp_path / "x.parquet")]) == 5
    assert pip_install("arrow") in capsys.readouterr().err
