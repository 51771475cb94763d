"""Fleets of captures: the result of each capture does not depend on the fleet, the workers or the parts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.fleet import results, rows_kept
from ecmproto.executors.processes import Processes
from ecmproto.frames.capture import Batch, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.columns import read_table
from ecmproto.tools.fleet.manifest import ManifestLine, read_manifest
from ecmproto.wire.formats.registry import USUAL_FIELDS
from ecmproto_cli.main import run
from ecmproto_cli.options import Execution
from tests.batch.test_inner import WRAPPERS, written
from tests.conftest import REPOSITORY

Lines = dict[str, ManifestLine]
FRAMES = 1500
PART = "40kB"
"""Size of parts in octets; large captures have several parts."""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return captures of two racks: large and small captures, pcap and pcapng files, a compressed file, a
    truncated file and an invalid file.
    """
    folder = tmp_path_factory.mktemp("captures")
    pool = _frames("mixed.pcap", "pfc.pcap", "ecm_cp.pcap")
    random = np.random.default_rng(1)
    for number, (name, writer) in enumerate(
        [("rack1/sw1-2026-03-01.pcap", PcapWriter), ("rack2/sw2-20260302.pcapng", PcapngWriter)]
    ):
        path = folder / name
        path.parent.mkdir()
        order = random.integers(0, len(pool), FRAMES).tolist()
        with writer(path) as out:
            times = 10**18 + 10**9 * number + 1000 * np.arange(FRAMES)
            out.write_batch(Batch.from_frames([pool[index] for index in order], time_ns=times))
    shutil.copy(REPOSITORY / "pcaps" / "qcn_cp.pcapng", folder / "qcn.pcapng")
    shutil.copy(REPOSITORY / "pcaps" / "hotspot.pcap.gz", folder / "hotspot.pcap.gz")
    (folder / "cut.pcap").write_bytes((REPOSITORY / "pcaps" / "mixed.pcap").read_bytes()[:-5])
    (folder / "none.pcap").write_bytes(b"no capture at all")
    (folder / "notes.txt").write_text("not named like one")
    return folder


def _frames(*names: str) -> list[bytes]:
    found: list[bytes] = []
    for name in names:
        with open_capture(REPOSITORY / "pcaps" / name) as reader:
            found += [frame for batch in reader for frame in batch.frames()]
    return found


@pytest.fixture(autouse=True)
def one_job_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a single job in this process, because starting another process takes too long."""
    monkeypatch.setattr(Execution, "executor", lambda self, tasks, tell, apart: Processes(self.jobs or 1))


def fleet(kind: str, captures: Path, out: Path, *options: str, code: int = 3) -> Lines:
    """Run a fleet and return its manifest.

    By default, the exit code must be the exit code for an invalid capture.
    """
    assert run(["fleet", kind, str(captures), "-w", str(out), "--part-size", PART, *options]) == code
    return lines_of(out)


def lines_of(out: Path) -> Lines:
    return {line.name: line for line in read_manifest(out)[1]}


def printed(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    capsys.readouterr()
    run(list(arguments))
    return capsys.readouterr().out


def test_statistics_equal_those_of_single_captures(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = fleet("stats", captures, tmp_path, "--jobs", "1")
    told = capsys.readouterr().err
    assert "cut short" in told
    assert "none.pcap: expected a pcap or pcapng capture" in told
    assert {name: line.outcome for name, line in lines.items()} == {
        "cut.pcap": "cut short", "hotspot.pcap.gz": "done", "none.pcap": "unreadable", "qcn.pcapng": "done",
        "rack1/sw1-2026-03-01.pcap": "done", "rack2/sw2-20260302.pcapng": "done",
    }  # fmt: skip
    for name, line in lines.items():
        if line.outcome != "unreadable":
            alone = printed(capsys, ["stats", "-r", str(captures / name), "-T", "json"])
            assert (tmp_path / "files" / f"{name}.json").read_text() == alone
            assert line.frames == json.loads(alone)["frames"]
            assert (line.first_ns, line.last_ns) == (
                json.loads(alone)["first_ns"],
                json.loads(alone)["last_ns"],
            )
    large = lines["rack1/sw1-2026-03-01.pcap"]
    assert large.parts == -(-large.size_octets // 40_000)
    together = json.loads((tmp_path / "all.json").read_text())
    assert together["frames"] == sum(line.frames for line in lines.values()) > FRAMES
    assert len(together["interfaces"]) == 5
    assert lines["cut.pcap"].problem is not None
    assert "after 25 frames" in lines["cut.pcap"].problem


def test_findings_equal_those_of_single_captures(
    captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = fleet("check", captures, tmp_path, "--jobs", "1", "--ignore", "QCN")
    findings = (tmp_path / "findings.ndjson").read_text().splitlines()
    found = []
    for name, line in lines.items():
        if line.outcome != "unreadable":
            arguments = ["check", "-r", str(captures / name), "-T", "ndjson", "--ignore", "QCN"]
            alone = printed(capsys, arguments)
            assert (tmp_path / "files" / f"{name}.ndjson").read_text() == alone
            found += alone.splitlines()[:-1]
    assert findings == found
    together = {each["rule"]: each for each in json.loads((tmp_path / "all.json").read_text())["rules"]}
    assert not any(rule.startswith("QCN") for rule in together)
    assert sum(each["findings"] for each in together.values()) >= len(findings) > 0
    ecm = [line.findings["ECM002"] for line in lines.values() if line.findings and "ECM002" in line.findings]
    assert together["ECM002"]["judged"] == sum(looked for looked, _ in ecm)
    assert together["ECM002"]["captures"] == sum(wrong > 0 for _, wrong in ecm)


def test_parquet_set_is_partitioned_with_all_columns(captures: Path, tmp_path: Path) -> None:
    import pyarrow.dataset

    lines = fleet(
        "parquet", captures, tmp_path, "--jobs", "2", "--name-pattern", "{rack}/{host}-{date}.pcap*",
        "-Y", "cnm or ecm",
    )  # fmt: skip
    whole = pyarrow.dataset.dataset(tmp_path / "frames", partitioning="hive").to_table()
    assert set(USUAL_FIELDS) < set(whole.schema.names)
    for name, rack, host in (
        ("rack1/sw1-2026-03-01.pcap", "rack1", "sw1"),
        ("rack2/sw2-20260302.pcapng", "rack2", "sw2"),
    ):
        line = lines[name]
        assert line.partition == {"date": line.partition["date"], "rack": rack, "host": host}
        alone = read_table(captures / name, USUAL_FIELDS, filter="cnm or ecm")
        mask = pyarrow.compute.equal(whole["host"], host)
        mine = whole.filter(mask).sort_by("frame.number").select(USUAL_FIELDS)
        assert mine.to_pylist() == alone.to_pylist()
        assert len(line.outputs) == line.parts > 1
        assert line.selected == len(alone) < line.frames
    assert lines["rack2/sw2-20260302.pcapng"].partition["date"] == "2026-03-02"
    # of other names the first frame says the day, and nobody the host
    assert lines["qcn.pcapng"].partition == {"date": "2023-11-14", "rack": None, "host": None}
    assert "host=__HIVE_DEFAULT_PARTITION__" in lines["qcn.pcapng"].outputs[0]


def test_filter_copies_equal_those_of_dissect(captures: Path, tmp_path: Path) -> None:
    wanted = "(cnm or pfc) and frame.number > 20"
    lines = fleet("filter", captures, tmp_path / "out", "--jobs", "1", "-Y", wanted)
    for name, line in lines.items():
        if line.outcome == "done" and line.selected:
            alone = tmp_path / Path(name).name
            assert run(["dissect", "-r", str(captures / name), "-Y", wanted, "-w", str(alone)]) == 0
            assert (tmp_path / "out" / name).read_bytes() == alone.read_bytes()
    assert lines["rack1/sw1-2026-03-01.pcap"].outputs == ("rack1/sw1-2026-03-01.pcap",)
    assert lines["cut.pcap"].selected == 0
    assert not (tmp_path / "out" / "cut.pcap").exists()
    assert not (tmp_path / "out" / ".pieces").exists()


def test_copies_are_merged_a_few_at_a_time(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ecmproto.tools.fleet.run._MERGED_COPIES", 2)
    out, merged = tmp_path / "out", tmp_path / "out" / "all.pcapng"
    lines = fleet("filter", captures, out, "--jobs", "1", "-Y", "cnm or pfc or bcn", "--merge")
    copies = [str(out / name) for name, line in lines.items() if line.outputs]
    assert len(copies) == 4
    alone = tmp_path / "alone.pcapng"
    assert run(["dissect", *[word for copy in copies for word in ("-r", copy)], "-w", str(alone)]) == 0
    assert merged.read_bytes() == alone.read_bytes()
    assert not (out / ".pieces").exists()
    # The file is updated, and contains no frames of removed captures.
    few = tmp_path / "few"
    shutil.copytree(captures / "rack1", few)
    fleet("filter", few, tmp_path / "one", "-Y", "cnm", "--merge", code=0)
    with open_capture(tmp_path / "one" / "all.pcapng") as reader:
        before = sum(map(len, reader))
    shutil.copy(captures / "qcn.pcapng", few / "more.pcapng")
    lines = fleet("filter", few, tmp_path / "one", "-Y", "cnm", code=0)
    with open_capture(tmp_path / "one" / "all.pcapng") as reader:
        assert sum(map(len, reader)) == sum(line.selected for line in lines.values()) > before > 0
    fleet("filter", few, tmp_path / "none", "-Y", "frame.len == 1", "--merge", code=0)
    assert not (tmp_path / "none" / "all.pcapng").exists()
    (few / "all.pcapng").write_bytes((captures / "qcn.pcapng").read_bytes())
    capsys.readouterr()
    assert run(["fleet", "filter", str(few), "-w", str(tmp_path / "two"), "-Y", "cnm", "--merge"]) == 2
    assert "no capture called all.pcapng" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["stats", "parquet"])
def test_processes_and_shards_write_equal_results(kind: str, captures: Path, tmp_path: Path) -> None:
    one, two, shards = (tmp_path / name for name in ("one", "two", "shards"))
    fleet(kind, captures, one, "--jobs", "1")
    fleet(kind, captures, two, "--jobs", "2")
    for number in (2, 1):
        code = run(["fleet", kind, str(captures), "-w", str(shards), "--part-size", PART, "--jobs", "1",
                    "--shard", f"{number}/2"])  # fmt: skip
        assert code in (0, 3)
        assert not (shards / "all.json").exists()
    fleet(kind, captures, shards, "--jobs", "1")
    assert results(one) == results(two) == results(shards)
    assert len(results(one)) > 5


@pytest.fixture
def few(tmp_path: Path) -> Path:
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("mixed.pcap", "pfc.pcap", "qcn_cp.pcapng"):
        shutil.copy(REPOSITORY / "pcaps" / name, folder)
    return folder


def test_repeated_run_does_only_missing_captures(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    done: list[str] = []
    own = Processes.run

    def recorded(self: Processes, tasks: Any, call: Any, *, expected: int = 0) -> Any:
        listed = list(tasks)
        done.extend(Path(task.name).name for task in listed)
        return own(self, listed, call, expected=expected)

    monkeypatch.setattr(Processes, "run", recorded)

    def again(*more: str) -> list[str]:
        done.clear()
        fleet("parquet", few, out, "--jobs", "1", *more, code=0)
        return sorted(done)

    assert again() == ["mixed.pcap", "pfc.pcap", "qcn_cp.pcapng"]
    before = results(out)
    assert again() == []
    assert results(out) == before
    # The file has a new time but the same content, so only its octets are read.
    os.utime(few / "mixed.pcap", ns=(1, 1))
    rows = rows_kept(out)
    assert again() == ["mixed.pcap"]
    assert b'"same_as"' in (out / ".done.ndjson").read_bytes().splitlines()[rows]
    # changed
    shutil.copy(few / "qcn_cp.pcapng", few / "pfc.pcap")
    assert again() == ["pfc.pcap"]
    assert lines_of(out)["pfc.pcap"].frames == lines_of(out)["qcn_cp.pcapng"].frames
    # a result that is not there any more
    (out / lines_of(out)["mixed.pcap"].outputs[0]).unlink()
    assert again() == ["mixed.pcap"]
    # The results of a removed capture are kept.
    (few / "mixed.pcap").unlink()
    assert again() == []
    assert lines_of(out)["mixed.pcap"].frames == 26
    # One more capture, and the frames of an earlier day are removed.
    shutil.copy(REPOSITORY / "pcaps" / "pause.pcap", few)
    assert again() == ["pause.pcap"]
    stale = lines_of(out)["pfc.pcap"].outputs
    with PcapWriter(few / "pfc.pcap", force=True) as writer:
        writer.write_frame(bytes(60), 10**18)
    assert again() == ["pfc.pcap"]
    assert lines_of(out)["pfc.pcap"].outputs != stale
    assert not (out / stale[0]).exists()


def test_interrupted_run_keeps_its_results(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    own = Processes.run

    def interrupted(self: Processes, tasks: Any, call: Any, *, expected: int = 0) -> Any:
        for number, result in enumerate(own(self, tasks, call, expected=expected)):
            if number == 2:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(Processes, "run", interrupted)
    assert run(["fleet", "stats", str(few), "-w", str(out), "--jobs", "1"]) == 130
    assert "2 of 3" in capsys.readouterr().err
    monkeypatch.undo()
    assert "done before  2" in printed(capsys, ["fleet", "stats", str(few), "-w", str(out), "--dry-run"])
    whole = tmp_path / "whole"
    fleet("stats", few, out, "--jobs", "1", code=0)
    fleet("stats", few, whole, "--jobs", "1", code=0)
    assert results(out) == results(whole)


def test_dry_run_writes_nothing(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed(capsys, ["fleet", "stats", str(few), "-w", str(tmp_path / "out"), "--dry-run"])
    assert "3 captures" in told
    assert not (tmp_path / "out").exists()


def test_folder_with_other_results_is_not_used(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fleet("filter", few, out, "-Y", "cnm", "--jobs", "1", code=0)
    assert run(["fleet", "filter", str(few), "-w", str(out), "-Y", "pfc", "--jobs", "1"]) == 2
    assert "results of another job" in capsys.readouterr().err
    fleet("filter", few, out, "-Y", "pfc", "--jobs", "1", "--force", code=0)
    assert lines_of(out)["pfc.pcap"].selected > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["filter"], "expected a filter"),
        (["stats", "--name-pattern", "x"], "words in braces"),
        (["check", "--select", "XYZ"], "XYZ"),
        (["parquet", "-e", "no.such"], "no.such"),
    ],
)
def test_invalid_options_are_refused_before_any_work(
    options: list[str], told: str, few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", *options, str(few), "-w", str(tmp_path / "out")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_captures_are_named_and_skipped(
    few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = str(few / "gone.pcap")
    out = tmp_path / "out"
    arguments = ["fleet", "stats", str(few / "mixed.pcap"), gone, "-w", str(out), "--jobs", "1"]
    assert run(arguments) == 3
    assert "gone.pcap: expected a readable capture file, got No such file" in capsys.readouterr().err
    assert lines_of(out)["mixed.pcap"].outcome == "done"
    assert json.loads((out / "all.json").read_text())["frames"] == 26


@pytest.mark.parametrize("first", [0, FRAMES // 2, FRAMES - 20])
@pytest.mark.parametrize("kind", ["stats", "check"])
def test_captures_of_mirrors_are_done_as_alone(
    kind: str, first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "captures" / "mirror.pcap", tmp_path / "out"
    path.parent.mkdir()
    pool = _frames("mixed.pcap", "pfc.pcap")
    plain = [pool[number % len(pool)] for number in range(FRAMES)]
    wrapped = [
        WRAPPERS[("VXLAN VNI 77", "GRE")[number % 7 == 0]](frame, number) if number >= first else frame
        for number, frame in enumerate(plain)
    ]
    written(path, wrapped, list(range(10**18, 10**18 + 1000 * FRAMES, 1000)))
    for option in ([], ["--outer"]):
        folder = out.with_suffix(f".{len(option)}")
        wrong = kind == "check" and not (option and first == 0)
        lines = fleet(kind, path.parent, folder, "--jobs", "1", *option, code=int(wrong))
        told = "ecmproto: warnings or unwrapped frames in 1 capture, see "
        assert (told in capsys.readouterr().err) == (not option)
        suffix, form = ("json", "json") if kind == "stats" else ("ndjson", "ndjson")
        alone = printed(capsys, [kind, "-r", str(path), "-T", form, *option])
        assert (folder / "files" / f"mirror.pcap.{suffix}").read_text() == alone
        told = f"unwrapped {FRAMES - first:,} frames"
        assert any(told in each for each in lines["mirror.pcap"].warnings) == (not option)
        # Sessions have the same numbers throughout a capture only if one process reads the whole capture.
        assert (lines["mirror.pcap"].parts == 1) == (not option and first < FRAMES - 20)
