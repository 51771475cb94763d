"""``ecmproto demo``: the bundled captures; ``make demo`` runs the whole demonstration in CI."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ecmproto_cli.commands import demo
from ecmproto_cli.main import COMMANDS, run


def test_captures_are_copied_unchanged(
    tmp_path: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "captures"
    assert run(["demo", "-w", str(folder)]) == 0
    expected = {path.name: path.read_bytes() for path in (repository / "pcaps").glob("*.pcap*")}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected
    assert capsys.readouterr().out == f"{len(expected)} captures in {folder}\n"
    assert run(["demo", "-w", str(folder)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["demo", "-w", str(folder), "--force"]) == 0


def test_the_first_failing_step_ends_the_demo(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = (
        ("Look", "dissect -r pcaps/mixed.pcap -c 1"), ("Fail", "fields nowhere"), ("Never", "fields")
    )  # fmt: skip
    monkeypatch.setattr(demo, "STEPS", steps)
    assert run(["demo"]) == 1
    shown = capfd.readouterr().out.splitlines()
    assert shown[1:3] == ["Look", "$ ecmproto dissect -r pcaps/mixed.pcap -c 1"]
    assert "CN-TAG flow 7" in shown[3]
    assert shown[4:] == ["", "Fail", "$ ecmproto fields nowhere"]


def test_steps_read_bundled_captures() -> None:
    folder = demo.captures_folder()
    for _, words in demo.STEPS:
        command, *arguments = shlex.split(words)
        assert command in COMMANDS
        for word in arguments:
            if word.startswith("pcaps/"):
                assert (folder / word.removeprefix("pcaps/")).is_file()
