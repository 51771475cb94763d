"""``ecmproto fuzz`` as users run the command."""

from __future__ import annotations

import dataclasses
import json
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect import Record
from ecmproto.tools.fuzz.checks.frames import FieldRows, FieldValues
from ecmproto.tools.fuzz.checks.tshark import TsharkCheck
from ecmproto.tools.fuzz.subjects import SUBJECTS, template_frames
from ecmproto.wire.codec import VLAN, decode_lax
from ecmproto_cli.commands import fuzz
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER

MIXED = str(FOLDER / "mixed.pcap")
READER = str(Path(__file__).parents[1] / "fuzz" / "planted" / "reader.py")
Told = tuple[str, str]


def told(arguments: list[str], capsys: pytest.CaptureFixture[str], *, code: int = 0) -> Told:
    """Run the command, and return its stdout and stderr."""
    assert run(["fuzz", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run commands in an empty folder and in one process, without tshark, whose start takes too long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ecmproto_cli.commands.fuzz.decode.processors", lambda: 1)
    monkeypatch.setattr(TsharkCheck, "program", staticmethod(lambda: None))
    return tmp_path


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a defect: the decoder for single frames loses the priority of S-TAGs."""
    right = FieldValues.of

    def wrong(self: FieldValues, records: Sequence[Record]) -> dict[str, FieldRows]:
        values = right(self, records)
        values.pop("ieee8021ad.priority", None)
        return values

    monkeypatch.setattr(FieldValues, "of", wrong)


def test_a_campaign_without_findings_stores_progress(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = told(["decode", "--seed", "7", "--runs", "100"], capsys)
    assert err == "ecmproto: seed 7\n"
    assert "executions  100 frames in " in out
    assert "\n  columns     100 frames, 100 so far\n" in out
    assert out.endswith("  findings    0\n")
    assert json.loads((folder / "fuzz-decode" / "campaign.json").read_text())["progress"]["cases"] == 100


def test_a_campaign_continues_with_its_seed(capsys: pytest.CaptureFixture[str]) -> None:
    told(["decode", "--runs", "10", "--seed", "3", "-w", "here"], capsys)
    out, err = told(["decode", "--runs", "20", "-w", "here"], capsys)
    assert err == "ecmproto: seed 3, continues the campaign in here\n"
    assert "executions  20 frames" in out
    assert "campaign    30 frames" in out


def test_a_disagreement_is_stored_and_reproducible(
    planted: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = told(["decode", "--seed", "1", "--runs", "600", "-r", MIXED], capsys, code=1)
    assert out.startswith("difference: columns: ieee8021ad.priority\n  kept in fuzz-decode/findings/")
    (again,) = [line.split("again", 1)[1] for line in out.splitlines() if line.startswith("  again")]
    words = shlex.split(again)
    assert words[:3] == ["ecmproto", "fuzz", "decode"]
    out, _ = told(words[2:], capsys, code=1)
    assert f"case {words[-1]} of seed 1, from " in out
    assert "difference: columns: ieee8021ad.priority" in out
    (kept,) = (folder / "fuzz-decode" / "findings").iterdir()
    assert (kept / "reproduce.sh").read_text() == "ecmproto fuzz decode --as-is -r case.pcap\n"
    out, _ = told(["decode", "--as-is", "-r", str(kept / "case.pcap")], capsys, code=1)
    assert out.startswith("difference: columns: ieee8021ad.priority\n")


def test_a_filter_selects_frames_to_mutate(planted: None, capsys: pytest.CaptureFixture[str]) -> None:
    reads = ["-r", MIXED, "-Y", "ieee8021ad"]
    out, _ = told(["decode", "--seed", "1", "--runs", "100", *reads], capsys, code=1)
    (again,) = [line.split("again", 1)[1] for line in out.splitlines() if line.startswith("  again")]
    assert shlex.split(again)[5:7] == reads[2:]
    told(shlex.split(again)[2:], capsys, code=1)
    out, _ = told(["target", "--runs", "1", *reads, "--", "true"], capsys)
    assert "executions  64 frames" in out


def test_a_case_without_disagreement_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(["decode", "--seed", "1", "--index", "77"], capsys)
    lines = out.splitlines()
    assert lines[0].startswith("case 77 of seed 1, from item ")
    assert lines[-1] == "all agree: schema, headers, columns, documents, text, scapy"
    assert err == ""


@pytest.mark.parametrize("what", ["captures", "filters", "specs"])
def test_other_inputs_are_fuzzed(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(["decode", "--what", what, "--seed", "1", "--runs", "20"], capsys)
    assert "executions  20 cases" in out
    assert f"\n  {what.ljust(10)}  20 cases, 20 so far\n" in out


def test_unmutated_files_are_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(["decode", "--what", "captures", "--as-is", "-r", MIXED], capsys)
    assert out == "all agree: captures, uses\n"
    (folder / "filters").write_text("vlan.id == 5\ncnm and\n")
    told(["decode", "--what", "filters", "-r", "filters", "--seed", "1", "--runs", "50"], capsys)
    assert (
        told(["decode", "--what", "filters", "--as-is", "-r", "filters"], capsys)[0] == "all agree: filters\n"
    )


def test_a_failing_frame_is_reduced_and_stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-I", "-S", READER, "msdu-length", "{}"]
    options = ["--seed", "1", "--runs", "8", "--frames-per-run", "64"]
    out, err = told(["target", *options, "--", *command], capsys, code=1)
    assert err == "ecmproto: seed 1\n"
    assert out.startswith("report: IndexError in read_cnm (reader.py:")
    assert "executions  512 frames" in out
    (kept,) = (folder / "fuzz-target" / "findings").iterdir()
    with open_capture(kept / "case.pcap") as reader:
        assert sum(len(batch) for batch in reader) == 1


def test_unmutated_files_keep_time_and_memory_limits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = ["target", "--as-is", "-r", MIXED, "--timeout", "20s"]
    assert told([*once, "--", "cat", "{}"], capsys)[0] == f"fine: {MIXED}\n"
    swelling = [sys.executable, "-S", "-c", "import time; kept = bytearray(200_000_000); time.sleep(60)"]
    out, _ = told([*once, "--memory", "100000000B", "--", *swelling], capsys, code=1)
    assert out == "memory: memory\n"
    assert list(folder.iterdir()) == []


def test_findings_not_reduced_in_time_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-I", "-S", READER, "msdu-length", "{}"]
    options = ["--seed", "1", "--duration", "1s", "--frames-per-run", "512"]
    _, err = told(["target", *options, "--", *command], capsys, code=1)
    assert err.endswith("--duration ended before 1 finding could be reduced: all frames are stored\n")


def test_fail_exit_defines_a_failing_target(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = told(["target", "-r", MIXED, "--runs", "2", "--frames-per-run", "3", "--", "true"], capsys)
    assert "executions  6 frames" in out
    out, _ = told(
        ["target", "--runs", "1", "-w", "b", "--fail-exit", "3", "--", "sh", "-c", "exit 3"],
        capsys,
        code=1,
    )
    assert "exit: exit status 3" in out


@pytest.mark.parametrize(
    ("options", "told_of"),
    [
        (["--what", "captures"], "executions  5 cases"),
        (["--what", "captures", "--jobs", "2", "-r", MIXED], "executions  5 cases"),
        (["--what", "both", "--frames-per-run", "4"], "executions  14 cases"),
        (["--jobs", "3", "--frames-per-run", "4"], "executions  20 frames"),
    ],
)
def test_targets_receive_frames_and_captures(
    options: list[str], told_of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = told(["target", "--seed", "1", "--runs", "5", *options, "--", "cat"], capsys)
    assert told_of in out


def test_a_failing_capture_is_reduced_and_stored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-I", "-S", READER, "record-length", "{}"]
    options = ["--what", "captures", "--seed", "1", "--runs", "60"]
    out, _ = told(["target", *options, "--", *command], capsys, code=1)
    assert out.startswith("crash: SIGABRT\n")
    (kept,) = (folder / "fuzz-target" / "findings").iterdir()
    assert (kept / "reproduce.sh").read_text().endswith("record-length case.capture\n")
    assert (kept / "case.capture").stat().st_size == 24 + 16


def test_relative_programs_work_from_the_findings_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "own").write_text("#!/bin/sh\nexit 9\n")
    (folder / "own").chmod(0o755)
    told(["target", "--runs", "1", "--fail-exit", "9", "--", "./own", "{}"], capsys, code=1)
    (kept,) = (folder / "fuzz-target" / "findings").iterdir()
    assert (kept / "reproduce.sh").read_text() == f"{folder}/own case.pcap\n"


def test_ctrl_c_keeps_the_state(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = fuzz.Session.going_on

    def interrupted(session: fuzz.Session, progress: object) -> bool:
        if session.cases:
            signal.raise_signal(signal.SIGINT)
        return right(session, progress)  # type: ignore[arg-type]

    monkeypatch.setattr(fuzz.Session, "going_on", interrupted)
    monkeypatch.setitem(SUBJECTS, "frames", dataclasses.replace(SUBJECTS["frames"], batch_cases=64))
    out, err = told(["decode", "--seed", "1", "--duration", "60s"], capsys, code=130)
    assert err.endswith("ecmproto: interrupted; the same command continues\n")
    assert "findings    0" in out
    assert json.loads((folder / "fuzz-decode" / "campaign.json").read_text())["progress"]["runs"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["decode", "--duration", "soon"], 2, "expected a time such as 15ms"),
        (["decode", "--seed", "-1"], 2, "--seed"),
        (["decode", "--runs", "0"], 2, "--runs"),
        (["decode", "--index", "5"], 2, "expected --seed N"),
        (["decode", "--as-is"], 2, "expected -r FILE"),
        (["decode", "--as-is", "-r", MIXED, "--seed", "1"], 2, "--as-is generates no cases"),
        (["decode", "--seed", "1", "--index", "1", "--duration", "1s"], 2, "apply to campaigns"),
        (["decode", "--what", "bugs"], 2, "bugs"),
        (["decode", "-Y", "vlan"], 2, "-Y filters the frames of -r"),
        (["decode", "-Y", "vlan", "--what", "specs"], 2, "-Y filters frames, not specs"),
        (["decode", "-r", MIXED, "-Y", "vlan.id == 999"], 2, "-Y selects none of the frames"),
        (["decode", "-r", MIXED, "-Y", "vlan.idd"], 2, "did you mean 'vlan.id'?"),
        (["decode", "-r", "nowhere.pcap"], 3, "nowhere.pcap"),
        (["decode", "--what", "specs", "-r", "nowhere.toml"], 3, "nowhere.toml"),
        (["decode", "--timeout", "0", "--runs", "1"], 2, "timeout: expected more than 0"),
        (["decode", "--memory", "much"], 2, "expected a size such as"),
        (["target"], 2, "CMD"),
        (["target", "--", "no-such-program"], 2, "or a script with #!, got no-such-program"),
        (["target", "--timeout", "0", "--", "true"], 2, "timeout: expected more than 0"),
        (["target", "--fail-exit", "256", "--", "true"], 2, "256"),
        (["target", "-r", "nowhere.pcap", "--", "true"], 3, "nowhere.pcap"),
        (["target", "--what", "captures", "-r", "nowhere.pcap", "--", "true"], 3, "nowhere.pcap"),
        (["target", "--what", "captures", "-r", MIXED, "-Y", "vlan", "--", "true"], 2, "-Y filters frames"),
        (["target", "--jobs", "0", "--", "true"], 2, "--jobs"),
        (["target", "--what", "filters", "--", "true"], 2, "filters"),
        (["trouble"], 2, "trouble"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    out, err = told(arguments, capsys, code=code)
    assert said in err
    assert "help: " in err
    assert out == ""


def test_a_file_as_output_folder_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "taken").write_text("")
    _, err = told(["decode", "--seed", "1", "--runs", "1", "-w", "taken"], capsys, code=3)
    assert "taken" in err


def test_templates_have_tags_of_every_kind() -> None:
    assert any(VLAN in decode_lax(octets) for octets in template_frames())
