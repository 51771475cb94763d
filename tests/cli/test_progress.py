"""Progress reports of commands during long work."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ecmproto.kernels.sources import when_compiling
from ecmproto_cli import progress
from ecmproto_cli.commands import replay
from ecmproto_cli.errors import CommandError
from ecmproto_cli.main import run
from ecmproto_cli.progress import Work, is_compiling, reporting_compilation, work
from tests.dissect.sample import write_sample

PATIENT_S = 120


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.SWITCH, "1")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.01)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_long_comparison_reports_progress(
    impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []

    def slow(*arguments: Any) -> None:
        steps.append(arguments[-1])
        work.at(arguments[-1])
        until(lambda: work.reports)
        raise CommandError("enough", exit_code=1)

    monkeypatch.setattr(replay, "_replay", slow)
    assert run(["replay", "-r", "pcaps/hotspot.pcap.gz", "--compare", "qcn,fecn,none", "--seed", "1"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert steps == ["replay qcn, 1 of 3"]
    assert told[:3] == ["ecmproto: seed 1", "ecmproto: replay qcn, 1 of 3", "ecmproto: enough"]


def test_without_terminal_progress_is_one_line(impatient: None, capsys: pytest.CaptureFixture[str]) -> None:
    told = Work()
    told.begin()
    told.at("replay qcn, 1 of 2")
    until(lambda: told.reports)
    told.at("replay fecn, 2 of 2")
    time.sleep(0.1)
    told.end()
    assert capsys.readouterr().err == "ecmproto: replay qcn, 1 of 2\n"


def test_a_terminal_shows_each_long_step(
    impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    told = Work()
    told.begin()
    for number in (1, 2):
        told.at(f"replay, {number} of 2")
        until(lambda number=number: told.reports == number)  # type: ignore[misc]
    told.end()
    assert capsys.readouterr().err == "ecmproto: replay, 1 of 2\necmproto: replay, 2 of 2\n"


def test_quick_commands_report_no_progress(
    impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 3600.0)
    sample = write_sample(tmp_path / "sample.pcap")
    assert run(["stats", str(sample), "-c", "1"]) == 0
    assert capsys.readouterr().err == ""
    assert not [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, threading.Timer) and not thread.finished.is_set()
    ]


def test_progress_can_be_disabled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.SWITCH, "0")
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    told = Work()
    told.begin()
    told.at("replay qcn, 1 of 2")
    told.end()
    assert capsys.readouterr().err == ""
    assert not told.reports


def test_waiting_for_the_compiler_is_reported(impatient: None, capsys: pytest.CaptureFixture[str]) -> None:
    held, seen = threading.Event(), threading.Event()
    # as it is on the stack of a thread that compiles
    names = {"__name__": "numba.core.compiler", "held": held, "seen": seen}
    exec("def compile():\n    held.set()\n    seen.wait()", names)
    thread = threading.Thread(target=names["compile"], daemon=True)  # type: ignore[arg-type]
    assert not is_compiling()
    thread.start()
    held.wait()
    assert is_compiling()
    told = Work()
    told.begin()
    told.at("replay qcn, 1 of 9")
    until(lambda: told.reports)
    told.end()
    seen.set()
    thread.join()
    wanted = "ecmproto: replay qcn, 1 of 9: compiling, which only a first run does\n"
    assert capsys.readouterr().err == wanted


def test_each_compiled_function_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(progress.SWITCH, "1")
    monkeypatch.setattr(progress, "_COMPILING_PATIENCE_S", 0.0)
    monkeypatch.setitem(
        sys.modules, "ecmproto.kernels.cache", SimpleNamespace(under_way=["stats.rates.count"])
    )
    said = io.StringIO()
    with reporting_compilation():
        for tell in when_compiling * 2:
            tell()
        until(lambda: said.write(capsys.readouterr().err))
    assert said.getvalue() == "ecmproto: compiling stats.rates.count, which only a first run does\n"
