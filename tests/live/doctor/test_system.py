"""Findings about the machine and the process."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from ecmproto.control.live import doctor
from ecmproto.control.live.doctor import Diagnosis
from ecmproto.errors import pip_install


def found() -> dict[str, Diagnosis]:
    return {check.name: check for check in doctor.of_system()}


def tshark(folder: Path, told: str) -> None:
    program = folder / "tshark"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{told}\nEND\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("told", "state", "sentence"),
    [
        (
            "TShark (Wireshark) 4.0.17 (Git)\n\nCompiled with libnl 3, with Lua\n5.2.4, with GnuTLS",
            "ok",
            "tshark 4.0.17, with Lua 5.2.4 for dissectors",
        ),
        (
            "TShark (Wireshark) 4.2.0.\n\nCompiled without Lua, with GnuTLS",
            "note",
            "tshark 4.2.0 without Lua: it cannot load our dissectors",
        ),
        (
            "something else",
            "note",
            "tshark of unknown version without Lua: it cannot load our dissectors",
        ),
    ],
)
def test_tshark_version_and_lua_are_detected(
    told: str, state: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tshark(tmp_path, told)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    check = found()["tshark"]
    assert (check.state, check.text) == (state, sentence)


def test_missing_programs_come_with_install_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    checks = found()
    assert checks["tshark"].commands == ("apt-get install tshark",)
    assert checks["ip"].commands == ("apt-get install iproute2",)
    assert {checks[name].state for name in ("tshark", "ip", "ethtool", "tc", "iperf3")} == {"note"}


def test_a_missing_capability_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "Name:\tx\nCapEff:\t0000000000001000\n")
    checks = found()
    assert checks["CAP_NET_RAW"].state == "finding"
    assert "setpriv" in checks["CAP_NET_RAW"].commands[0]
    assert checks["CAP_NET_ADMIN"].state == "ok"
    assert checks["CAP_SYS_ADMIN"].state == "note"


def test_checked_extras_equal_the_projects_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    required = [
        "numpy>=1.26",
        "hypothesis>=6.100; extra == 'fuzz'",
        'no-such-package>=1; extra == "report"',
        'numpy>=1; extra == "report"',
        'ecmproto[fuzz,report]; extra == "all"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    checks = {name: check for name, check in found().items() if name.startswith("extra")}
    assert list(checks) == ["extra fuzz", "extra report"]
    assert checks["extra fuzz"].state == "ok"
    assert checks["extra report"].text == "extra report: no-such-package not installed"
    assert checks["extra report"].commands == (pip_install("report"),)
