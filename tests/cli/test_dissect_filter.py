"""``ecmproto dissect -Y``: selected frames keep the numbers and times of the whole capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecmproto.frames.capture import open_capture
from ecmproto_cli.main import run
from tests.conftest import REPOSITORY
from tests.filter.captured import of_capture, selected

MIXED = str(REPOSITORY / "pcaps" / "mixed.pcap")
QCN = str(REPOSITORY / "pcaps" / "qcn_cp.pcapng")


def dissect(*arguments: str) -> int:
    return run(["dissect", *arguments])


@pytest.mark.parametrize("form", [[], ["-V"], ["-x"], ["-V", "-x"]])
def test_lines_keep_numbers_of_the_whole_capture(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dissect("-r", MIXED, *form) == 0
    whole = capsys.readouterr().out
    assert dissect("-r", MIXED, "-Y", "cnm or macc", *form) == 0
    shown = capsys.readouterr().out
    assert 0 < len(shown) < len(whole)
    assert set(shown.splitlines()) <= set(whole.splitlines())
    assert dissect("-r", MIXED, "-Y", "", *form) == 0
    assert capsys.readouterr().out == whole


def test_json_holds_the_selected_frames(capsys: pytest.CaptureFixture[str]) -> None:
    assert dissect("-r", MIXED, "-Y", "cnm or macc", "-T", "json") == 0
    frames = json.loads(capsys.readouterr().out)["frames"]
    expected = selected("cnm or macc", of_capture(Path(MIXED)))
    assert [frame["number"] for frame in frames] == expected == [2, 17, 18, 23]


def test_count_limits_the_frames_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert dissect("-r", MIXED, "-Y", "frame.number > 2", "-c", "4", "-e", "frame.number") == 0
    assert capsys.readouterr().out == "3\n4\n"


@pytest.mark.parametrize("capture", [MIXED, QCN])
def test_the_selected_frames_are_copied(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / Path(capture).name
    wanted = selected("cnm", of_capture(Path(capture)))
    assert dissect("-r", capture, "-Y", "cnm", "-w", str(output)) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{len(wanted)} frame")
    copied = of_capture(output)
    originals = [record for record in of_capture(Path(capture)) if record.number in wanted]
    assert [(each.octets, each.time_ns) for each in copied] == [
        (each.octets, each.time_ns) for each in originals
    ]
    assert len(copied) == len(wanted) > 0


def test_a_copy_is_written_beside_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.pcap"
    assert dissect("-r", MIXED, "-Y", "cnm", "-w", str(output), "-e", "frame.number") == 0
    assert capsys.readouterr().out == "2\n"
    with open_capture(output) as reader:
        assert sum(map(len, reader)) == 1


def test_an_empty_selection_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert dissect("-r", MIXED, "-Y", "cnm.version == 3") == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "0 of 26 frames selected\n")


def test_a_wrong_filter_is_refused_before_reading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out.pcap"
    assert dissect("-r", "missing.pcap", "-Y", "cnm.qntz_fbb > 4", "-w", str(output)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "ecmproto: filter at character 1: expected the name of a field, got 'cnm.qntz_fbb' "
        "(did you mean 'cnm.qntz_fb'?)\n"
        "  cnm.qntz_fbb > 4\n"
        "  ^^^^^^^^^^^^\n"
        "help: ecmproto dissect --help\n"
    )
    assert not output.exists()


def test_other_ethertypes_are_filtered_by_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert dissect("-r", MIXED, "-Y", "cnm", "--ethertype", "cnm=0x22ea", "-e", "frame.number") == 0
    assert capsys.readouterr().out == ""
