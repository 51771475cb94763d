"""``ecmproto wireshark`` and ``schema -T lua``: files in Wireshark's folders, and no changes to other
files.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ecmproto.tools.interop.lua import dissector
from ecmproto.tools.interop.wireshark import folders
from ecmproto_cli.main import run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "WIRESHARK_CONFIG_DIR", "WIRESHARK_PLUGIN_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def files_in(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


def test_tshark_finds_the_installed_dissector(
    tshark: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["wireshark", "install"]) == 0
    assert run(["wireshark", "install"]) == 0  # anew, over our own
    written = [line.removeprefix("wrote ") for line in capsys.readouterr().out.splitlines()]
    assert [Path(path).name for path in written[:2]] == ["ecmproto.lua", "ecmproto-extcap"]
    assert all(home in Path(path).parents for path in written)
    assert files_in(home)["ecmproto.lua"] == dissector()
    protocols = subprocess.run(
        [tshark, "-G", "protocols"], capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout
    assert "\tcntag\t" in protocols or "\tcntag\n" in protocols
    assert run(["wireshark", "uninstall"]) == 0
    assert files_in(home) == {}
    assert run(["wireshark", "uninstall"]) == 1


def test_foreign_files_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "ecmproto.lua"
    other.write_text("-- somebody else's", encoding="utf-8")
    assert run(["wireshark", "install", "--dir", str(tmp_path)]) == 2
    assert "expected a name that is free, got a file that ecmproto did not write" in capsys.readouterr().err
    assert run(["wireshark", "uninstall", "--dir", str(tmp_path)]) == 1
    assert files_in(tmp_path) == {"ecmproto.lua": "-- somebody else's"}
    assert run(["wireshark", "install", "--dir", str(tmp_path), "--force"]) == 0
    assert files_in(tmp_path)["ecmproto.lua"] == dissector()


def test_without_tshark_the_default_folders_are_taken(home: Path) -> None:
    assert folders(tshark="no such program") == {
        "plugin": home / ".local/lib/wireshark/plugins",
        "extcap": home / ".config/wireshark/extcap",
    }


def test_dissectors_of_one_or_all_formats_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["wireshark", "print"]) == 0
    whole = capsys.readouterr().out
    assert whole == dissector()
    assert run(["fields", "cnm", "-T", "lua"]) == 0
    assert capsys.readouterr().out in whole
