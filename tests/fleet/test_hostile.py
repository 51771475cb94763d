"""Result folders with files of other users, and hostile names of captures."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError, SpecError
from ecmproto.executors.processes import Processes
from ecmproto.frames.capture import open_capture, open_sink
from ecmproto.frames.capture.names import size_and_time
from ecmproto.frames.stats.plain_data import restore
from ecmproto.paths import path_below
from ecmproto.tools.fleet.manifest import read_manifest
from ecmproto_cli.main import run
from ecmproto_cli.options import Execution
from tests.conftest import REPOSITORY

CAPTURES = ("mixed.pcap", "pfc.pcap")
Fleet = tuple[Path, Path]


@pytest.fixture(autouse=True, scope="module")
def one_job_is_done_here() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Execution, "executor", lambda self, tasks, tell, apart: Processes(self.jobs or 1))
        yield


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    folder.mkdir()
    for name in CAPTURES:
        shutil.copy(REPOSITORY / "pcaps" / name, folder)
    return folder


def fleet(kind: str, captures: Path | str, out: Path, *options: str) -> int:
    return run(["fleet", kind, str(captures), "-w", str(out), "--jobs", "1", *options])


def octets_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# Results and files of others ------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["captures", "link"])
@pytest.mark.parametrize("filter", ["pfc", "frame.len == 1"])
def test_copies_never_replace_captures(
    captures: Path, out: str, filter: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = octets_below(captures)
    (captures.parent / "link").symlink_to(captures)
    assert fleet("filter", captures, captures.parent / out, "-Y", filter) == 2
    assert "of the capture" in capsys.readouterr().err
    assert octets_below(captures) == before


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("filter", "pfc.pcap"),
        ("filter", "all.pcapng"),
        ("stats", "files/pfc.pcap.json"),
        ("stats", "all.json"),
        ("check", "findings.ndjson"),
    ],
)
def test_foreign_files_are_not_overwritten(
    kind: str, name: str, captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "out" / name
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    options = ("-Y", "cnm") if kind == "filter" else ()
    assert fleet(kind, captures, tmp_path / "out", *options) == 2
    assert "does not belong to the fleet" in capsys.readouterr().err
    assert octets_below(tmp_path / "out") == {name: b"mine"}


def test_copies_begun_by_a_killed_run_are_replaced(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Processes, tasks: Any, call: Any, *, expected: int = 0) -> Any:
        (tmp_path / "out" / "pfc.pcap").write_text("written, but not yet a row")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Processes, "run", killed)
        assert fleet("filter", captures, tmp_path / "out", "-Y", "pfc") == 130
    assert fleet("filter", captures, tmp_path / "out", "-Y", "pfc") == 0
    with open_capture(tmp_path / "out" / "pfc.pcap") as reader:
        assert sum(map(len, reader)) > 0


@pytest.mark.parametrize("pattern", ["", "/**/*.pcap"])
def test_results_among_captures_are_no_captures(captures: Path, pattern: str) -> None:
    out = captures / "out"
    for _ in range(2):
        assert fleet("filter", f"{captures}{pattern}", out, "-Y", "pfc") == 0
        assert [line.name for line in read_manifest(out)[1]] == list(CAPTURES)


def test_folder_with_nothing_but_results_has_no_captures(
    captures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (captures / "out").mkdir()
    for name in CAPTURES:
        (captures / name).rename(captures / "out" / name)
    assert fleet("stats", captures, captures / "out") == 3
    assert "beside the folder of results" in capsys.readouterr().err


def test_simultaneous_shards_share_a_folder(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_shard_first(path: str) -> tuple[int, int]:
        monkeypatch.undo()
        monkeypatch.setattr(Execution, "executor", lambda self, tasks, tell, apart: Processes(1))
        assert fleet("stats", captures, tmp_path / "out", "--shard", "1/2") == 0
        return size_and_time(path)

    monkeypatch.setattr("ecmproto.tools.fleet.members.size_and_time", other_shard_first)
    assert fleet("stats", captures, tmp_path / "out", "--shard", "2/2") == 0
    assert len(octets_below(tmp_path / "out" / "files")) == 2


def test_only_own_partial_files_are_removed(captures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    left = [out / "files" / f"pfc.pcap.json.{pid}.partial" for pid in ("1234", "1234-1")]
    others = [out / name for name in ("notes.partial", "files/other.pcap.json.1234.partial", "x.1.partial")]
    (out / "files").mkdir(parents=True)
    for path in (*left, *others):
        path.touch()
    assert fleet("stats", captures, out) == 0
    assert [path.exists() for path in (*left, *others)] == [False, False, True, True, True]


# Names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../a", "/a", "//a", "a/../../b", "a\0b", "x" * 256, "x/" * 2100 + "x", "\ud800", "link",
     "link/a", "inner/link", "pipe", "inner"],
)  # fmt: skip
def test_paths_outside_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "link").symlink_to("inner")
    (tmp_path / "inner" / "link").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SpecError, match="regular file"):
        path_below(tmp_path, name)


def test_names_below_a_folder_are_paths(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for name in ("a", "b/c", "\udcff"):
        assert path_below(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize("kind", ["stats", "check", "parquet", "filter"])
def test_a_name_without_results_stops_no_fleet(
    kind: str, captures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["x" * 240 + ".pcap", os.fsdecode(b"bad\xff.pcap"), "\x1b[31m\u202e.pcap"]
    for name in (*names, ".done.ndjson"):
        shutil.copy(captures / "pfc.pcap", captures / name)
    options = ("-Y", "pfc") if kind == "filter" else ()
    every = [str(captures / name) for name in (*CAPTURES, *names, ".done.ndjson")]
    out = tmp_path / "out"
    for _ in range(2):
        assert run(["fleet", kind, *every, "-w", str(out), "--jobs", "1", *options]) == 3
        told = capsys.readouterr().err
        assert "set aside" in told
        assert told.isprintable() or set(told) - {"\n"} == {each for each in told if each.isprintable()}
        outcomes = {line.name: line.outcome for line in read_manifest(out)[1]}
        assert outcomes["x" * 240 + ".pcap"] == "set aside"
        assert outcomes[".done.ndjson"] == ("set aside" if kind == "filter" else "done")
        assert [outcomes[name] for name in (*CAPTURES, names[2])] == ["done"] * 3
        assert len(outcomes) == 6
    (out / "manifest.ndjson").read_bytes().decode()


# Manifests and rows ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a finished fleet and its captures. One capture is processed in parts."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "captures").mkdir()
    for name in (*CAPTURES, "qcn_cp.pcapng"):
        shutil.copy(REPOSITORY / "pcaps" / name, folder / "captures")
    assert stats(folder / "captures", folder / "out") == 0
    return folder / "captures", folder / "out"


def stats(captures: Path, out: Path) -> int:
    return fleet("stats", captures, out, "--part-size", "1kB")


def spoilt(document: Any, draw: random.Random, value: Any) -> Any:
    """Return a document in which a value at a drawn position is replaced or removed."""
    if not isinstance(document, dict | list) or not document or draw.random() < 0.1:
        return value
    place = draw.choice(list(document) if isinstance(document, dict) else range(len(document)))
    if draw.random() < 0.1:
        del document[place]
    else:
        document[place] = spoilt(document[place], draw, value)
    return document


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=5),
    st.sampled_from([1 << 63, 10**400, -1, float("nan"), float("inf")]),
    st.sampled_from(["../captures/pfc.pcap", "/etc/hostname", "http://127.0.0.1:1/a.pcap"]),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@given(
    st.sampled_from(["manifest.ndjson", ".done.ndjson"]), st.randoms(use_true_random=False), values, st.data()
)
def test_spoilt_lines_end_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, done: Fleet, file: str, draw: random.Random, value: Any,
    data: st.DataObject,
) -> None:  # fmt: skip
    captures, out = tmp_path_factory.mktemp("captures"), tmp_path_factory.mktemp("out")
    shutil.copytree(done[0], captures, dirs_exist_ok=True)
    shutil.copytree(done[1], out, dirs_exist_ok=True)
    before = octets_below(captures)
    lines = [json.loads(line) for line in (out / file).read_text().splitlines()]
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = spoilt(copy.deepcopy(lines[number]), draw, value)
    (out / file).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert stats(captures, out) in (0, 2, 3)
    assert octets_below(captures) == before


def test_captures_in_the_manifest_are_not_reopened(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert fleet("stats", captures / "pfc.pcap", out) == 0
    before = octets_below(out / "files")
    (captures / "pfc.pcap").unlink()
    os.mkfifo(captures / "pfc.pcap")
    assert fleet("stats", captures / "mixed.pcap", out) == 0
    manifest = out / "manifest.ndjson"
    manifest.write_text(
        manifest.read_text().replace(str(captures / "pfc.pcap"), "http://127.0.0.1:1/pfc.pcap")
    )
    # as after an update, when no row is of use
    monkeypatch.setattr("ecmproto.executors.running.code_digest", lambda: "other")
    assert fleet("stats", captures / "mixed.pcap", out) == 3
    outcomes = {line.name: (line.outcome, len(line.outputs)) for line in read_manifest(out)[1]}
    assert outcomes == {"mixed.pcap": ("done", 1), "pfc.pcap": ("set aside", 1)}
    assert octets_below(out / "files").items() >= before.items()


@pytest.mark.parametrize(
    "state",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b'{"!octets": 1}',
        b'{"options": {"ethertypes": {}}, "counts": {"!": "object", "of": {"frames": {"!": "none"}}}}',
    ],
)
def test_spoilt_states_end_in_a_sentence(
    state: bytes, done: Fleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(done[1], out)
    (out / "all.json").unlink()
    for path in (out / ".done.ndjson.arrays").rglob("*.npz"):
        arrays: dict[str, Any] = {"0": np.frombuffer(state, np.uint8)}
        np.savez(path, **arrays)
    assert stats(done[0], out) == 2
    assert "expected states to merge" in capsys.readouterr().err


class Held:
    """An object with an array."""

    def __init__(self) -> None:
        self.array = np.zeros(1)


def test_arrays_from_nothing_are_refused() -> None:
    zeros = {"!": "array", "dtype": "<i8", "shape": [1 << 26], "used": 0, "rest": bytes(8), "kept": "<i8"}
    with pytest.raises(ParameterError, match="536870912 octets from 0"):
        restore(Held(), {"!": "object", "of": {"array": {**zeros, "of": b""}}})


# Compressed captures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compression_bombs_are_set_aside(
    suffix: str,
    captures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ecmproto.tools.fleet.tasks._FREE_OCTETS", 1 << 20)
    plain = (captures / "pfc.pcap").read_bytes()
    with open_sink(captures / f"bomb.pcap{suffix}") as sink:
        sink.write(plain[:24] + bytes(1 << 26))
    assert fleet("stats", captures, tmp_path / "out") == 3
    assert "expected up to" in capsys.readouterr().err
    assert {line.name: line.outcome for line in read_manifest(tmp_path / "out")[1]} == {
        f"bomb.pcap{suffix}": "set aside", "mixed.pcap": "done", "pfc.pcap": "done",
    }  # fmt: skip
