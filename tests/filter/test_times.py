"""Times between frames in filters, fields and columns, and short names of PFC fields."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, PcapWriter, open_capture
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.files import column_batches, read_table
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect import Record, records
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.units import NS_PER_S
from ecmproto.wire.codec import VLAN, Data, Ethernet, encode
from ecmproto_cli.main import run
from tests.conftest import CI

FIELDS = ("frame.time_relative", "frame.time_delta", "frame.time_delta_displayed")
FILTERS = [
    "frame", "vlan", "frame.time_delta > 0.000003", "frame.time_relative >= 0.00005",
    "frame.time_delta_displayed > 0.000004", "vlan and frame.time_delta_displayed > 0.000002",
    "not frame.time_delta_displayed < 0.000005", "frame.time_delta < 0 or frame.time_delta_displayed == 0",
    "frame.time_delta_displayed > frame.time_delta", "frame.time_delta in {0.000001..0.000004}",
]  # fmt: skip
FRAMES = 300


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a capture whose times increase, with exceptions."""
    path = tmp_path_factory.mktemp("times") / "in.pcap"
    random = np.random.default_rng(8)
    time_ns = 1_700_000_000 * NS_PER_S
    with PcapWriter(path) as writer:
        for _ in range(FRAMES):
            time_ns += int(random.integers(-2000, 9000))
            tags = [VLAN(id=3)] if random.integers(2) else []
            writer.write_frame(encode(Ethernet(), *tags, Data(data=bytes(46))), time_ns)
    return path


def of_each(path: Path, text: str) -> list[Record]:
    """Return the frames that a filter selects frame by frame."""
    matches, found = compile_filter(text).matches, []
    with open_capture(path, batch_frames=37) as reader:
        for batch in reader:
            for record in records(batch, reader.interfaces, displayed=reader.displayed):
                if matches(record):
                    found.append(record)
                    reader.displayed.last_ns = record.time_ns
    return found


@pytest.mark.parametrize("text", FILTERS)
def test_columns_and_single_frames_agree(capture: Path, text: str) -> None:
    expected = of_each(capture, text)
    wanted = compile_filter(text)
    with open_capture(capture, batch_frames=41) as reader:
        masks = [(batch, selected(batch, wanted, interfaces=reader.interfaces)) for batch in reader]
    numbers = [number + 1 for batch, mask in masks for number in batch.numbers[mask].tolist()]
    assert numbers == [record.number for record in expected]
    with open_capture(capture, batch_frames=23) as reader:
        columns = list(column_batches(reader, FIELDS, filter=text))
    got = [[value for each in columns for value in np.asarray(each[name]).tolist()] for name in FIELDS]
    assert got == [
        [record.since_first_ns for record in expected],
        [record.since_previous_ns for record in expected],
        [record.since_displayed_ns for record in expected],
    ]


@pytest.mark.skipif(not shutil.which("tshark") and not CI, reason="needs tshark")
def test_times_equal_those_of_tshark(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = [word for name in ("frame.number", *FIELDS) for word in ("-e", name)]
    lines = 0
    for text in FILTERS[:7]:
        shown = ["-r", str(capture), "-Y", text, "-T", "fields", *fields]
        told = subprocess.run(["tshark", "-n", *shown], check=True, capture_output=True, text=True)
        assert run(["dissect", *shown]) == 0
        assert capsys.readouterr().out == told.stdout, text
        lines += told.stdout.count("\n")
    assert lines > 2 * FRAMES


def test_large_captures_print_the_same_rows(
    capture: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = ["dissect", "-r", str(capture), *(word for name in FIELDS for word in ("-e", name))]
    filters: list[list[str]] = [[], ["-Y", "vlan"], ["-Y", "frame.time_delta_displayed > 0.000004"]]
    small = []
    for each in filters:
        assert run([*shown, *each]) == 0
        small.append(capsys.readouterr().out)
    monkeypatch.setattr("ecmproto_cli.commands.dissect._MANY_FRAMES", 1)
    monkeypatch.setattr("ecmproto_cli.commands.dissect.FIRST_FRAMES", 64)
    for each, text in zip(filters, small, strict=True):
        assert run([*shown, *each]) == 0
        assert capsys.readouterr().out == text


def test_frames_without_time_are_left_out() -> None:
    timed = np.array([False, True, False, True, True])
    frames = [encode(Ethernet(), Data(data=bytes(46)))] * 5
    batch = Batch.from_frames(frames, time_ns=[0, 10, 0, 15, 13])
    batch = dataclasses.replace(batch, timed=timed)
    columns = extract(batch, FIELDS)
    assert columns["frame.time_relative"].lists() == [[], [0], [], [5], [3]]
    assert columns["frame.time_delta"].lists() == [[], [0], [], [5], [-2]]
    later = batch.select([3, 4])
    assert extract(later, FIELDS)["frame.time_delta"].lists() == [[5], [-2]]
    assert extract(later, FIELDS)["frame.time_delta_displayed"].lists() == [[0], [-2]]


def test_times_are_durations_in_tables(capture: Path) -> None:
    table = read_table(str(capture), FIELDS, filter="vlan")
    assert {str(field.type) for field in table.schema} == {"duration[ns]"}
    expected = [record.since_displayed_ns for record in of_each(capture, "vlan")]
    assert table["frame.time_delta_displayed"].cast("int64").to_pylist() == expected


def test_short_names_of_pfc_are_its_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pfc.pcap"
    with PcapWriter(path) as writer:
        for quanta in (0, 7, 900):
            writer.write_frame(encode(build("pfc", prio3=quanta)), 0)
        writer.write_frame(encode(build("pfc", prio5=900)), 0)
    for text, numbers in {
        "pfc.prio3 > 5": [2, 3], "pfc.enabled.3": [1, 2, 3, 4], "pfc.enabled.3 == 1": [1, 2, 3],
        "pfc.prio5 == 900 and pfc.enabled.5 == true": [4],
    }.items():  # fmt: skip
        with open_capture(path) as reader:
            for batch in reader:
                wanted = compile_filter(text)
                mask = selected(batch, wanted, interfaces=reader.interfaces)
                assert (batch.numbers[mask] + 1).tolist() == numbers
                single = records(batch, reader.interfaces)
                assert [each.number for each in single if wanted.matches(each)] == numbers
                assert extract(batch, ["pfc.prio3"])["pfc.prio3"].lists() == [[0], [7], [900], [0]]
    assert run(["dissect", "-r", str(path), "-e", "pfc.prio3", "-e", "pfc.enabled.3"]) == 0
    assert capsys.readouterr().out == "0\t1\n7\t1\n900\t1\n0\t0\n"
