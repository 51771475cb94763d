"""``ecmproto dissect -T parquet`` and ``-T arrow``: files and streams of columns."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ecmproto.errors import pip_install
from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect import FieldReader, records
from ecmproto.wire.formats.registry import USUAL_FIELDS
from ecmproto_cli.main import run
from tests.dissect.sample import FRAMES, write_sample

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DISSECT = [sys.executable, "-m", "ecmproto_cli", "dissect"]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "sample.pcap")


def read(path: Path) -> Any:
    return pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


def cells(sample: Path, name: str) -> list[str]:
    with open_capture(sample) as reader:
        return [
            FieldReader([name]).row(record)[0]
            for batch in reader for record in records(batch, reader.interfaces)
        ]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_go_to_a_file(kind: str, sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = sample.with_suffix(f".{kind}")
    assert run(["dissect", "-r", str(sample), "-T", kind, "-w", str(out)]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{len(FRAMES)} frames written to {out}\n")
    table = read(out)
    assert table["frame.number"].to_pylist() == list(range(1, len(FRAMES) + 1))
    feedback = table["cnm.qntz_fb"].to_pylist()
    assert [str(value) if value is not None else "" for value in feedback] == cells(sample, "cnm.qntz_fb")
    assert tuple(table.column_names) == USUAL_FIELDS


def test_columns_contain_every_field_with_values(sample: Path) -> None:
    out = sample.with_suffix(".parquet")
    assert run(["dissect", "-r", str(sample), "--all-fields", "-w", str(out)]) == 0
    table = read(out)
    assert {"cnm.version", "data.data", "eth.padding"} <= set(table.column_names)
    assert not [name for name in table.column_names if not table[name].drop_null()]
    usual = sample.with_name("usual.parquet")
    assert run(["dissect", "-r", str(sample), "-w", str(usual)]) == 0
    for name in set(USUAL_FIELDS) & set(table.column_names):
        assert read(usual)[name] == table[name], name


@pytest.mark.parametrize(("more", "got"), [(["-e", "eth.src"], "with -e"), (["-T", "json"], "with -T json")])
def test_all_fields_go_to_column_files(
    more: list[str], got: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dissect", "-r", str(sample), "--all-fields", *more]) == 2
    assert f"--all-fields needs -T parquet or arrow and no -e, got {got}" in capsys.readouterr().err


def test_selected_columns_of_selected_frames_are_written(sample: Path) -> None:
    out = sample.with_suffix(".parquet")
    chosen = ["-e", "vlan.id", "-e", "cnm.cpid", "-e", "tcp.options"]
    assert run(["dissect", "-r", str(sample), "-T", "parquet", *chosen, "-Y", "cnm", "-w", str(out)]) == 0
    table = read(out)
    assert table.column_names == ["vlan.id", "cnm.cpid", "tcp.options"]
    assert table.num_rows == sum(bool(cell) for cell in cells(sample, "cnm.version"))


@pytest.mark.parametrize("limit", [1, 5, len(FRAMES), len(FRAMES) + 1])
def test_count_limits_the_frames_written(limit: int, sample: Path) -> None:
    out = sample.with_suffix(".arrow")
    assert run(["dissect", "-r", str(sample), "-T", "arrow", "-c", str(limit), "-w", str(out)]) == 0
    assert read(out).num_rows == min(limit, len(FRAMES))


def test_a_pipe_receives_a_stream(sample: Path) -> None:
    with sample.open("rb") as file:
        for more in ([], ["-w", "-"]):
            file.seek(0)
            done = subprocess.run(
                [*DISSECT, "-r", "-", "-T", "arrow", *more], stdin=file, capture_output=True, check=True
            )
            assert pa.ipc.open_stream(done.stdout).read_all().num_rows == len(FRAMES)


def test_columns_are_never_written_to_a_terminal(sample: Path) -> None:
    terminal, side = pty.openpty()
    done = subprocess.run(
        [*DISSECT, "-r", str(sample), "-T", "parquet"], stdout=side, stderr=subprocess.PIPE, text=True
    )
    os.close(side)
    os.close(terminal)
    assert done.returncode == 2
    assert "-T parquet is binary: expected -w FILE or a pipe" in done.stderr


def test_frames_of_a_truncated_capture_are_written(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample.write_bytes(sample.read_bytes()[:-1])
    out = sample.with_suffix(".parquet")
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-w", str(out)]) == 3
    assert read(out).num_rows == len(FRAMES) - 1
    assert f"{len(FRAMES) - 1} frames written to {out}\n" in capsys.readouterr().err


def test_an_existing_file_is_kept(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = sample.with_suffix(".parquet")
    out.write_text("mine")
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-w", str(out)]) == 2
    assert out.read_text() == "mine"
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-w", str(out), "--force"]) == 0
    assert read(out).num_rows == len(FRAMES)


def test_missing_pyarrow_is_reported(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    out = sample.with_suffix(".parquet")
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-w", str(out)]) == 5
    assert pip_install("arrow") in capsys.readouterr().err
    assert not out.exists()


def test_unknown_names_are_refused(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = sample.with_suffix(".parquet")
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-e", "cnm.qtz_fb", "-w", str(out)]) == 2
    assert "did you mean 'cnm.qntz_fb'?" in capsys.readouterr().err
    assert not out.exists()


def interrupted(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Create a capture of many batches, and cause ``times`` interrupts after the first batch."""
    from ecmproto.frames.columns import files

    made = files.batch_tasks

    def batches(*arguments: Any, **options: Any) -> Iterator[Any]:
        first = list(made(*arguments, **options))
        yield from first
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
        for _ in range(1000):
            time.sleep(0.01)
            yield from first

    monkeypatch.setattr(files, "batch_tasks", batches)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_an_interrupted_file_does_not_replace_another(
    kind: str, sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(monkeypatch, 1)
    out = sample.with_suffix(f".{kind}")
    out.write_bytes(b"precious")
    assert run(["dissect", "-r", str(sample), "-T", kind, "-w", str(out), "--force"]) == 130
    assert out.read_bytes() == b"precious"
    (partial,) = sample.parent.glob("*.partial")
    assert f"the output before it is in {partial}\n" in capsys.readouterr().err
    frames = read(partial.rename(sample.with_name(f"partial.{kind}"))).num_rows
    assert len(FRAMES) <= frames < 1000 * len(FRAMES)


def test_a_second_interrupt_removes_the_unreadable_file(
    sample: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(monkeypatch, 2)
    out = sample.with_suffix(".parquet")
    assert run(["dissect", "-r", str(sample), "-T", "parquet", "-w", str(out)]) == 130
    assert f"{out} cannot be read without its end: the partial file was removed" in (capsys.readouterr().err)
    assert os.listdir(sample.parent) == [sample.name]
