"""Contributions to other projects: Scapy's own campaign, and files made of the declarations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.upstream.generate import FOLDER, files, formats, ksy, p4
from ecmproto.wire.codec import Layer


def test_utscapy_passes_the_campaign(tmp_path: Path) -> None:
    words = ["-t", str(FOLDER / "scapy" / "cn.uts"), "-f", "text"]
    path = f"import scapy.contrib; scapy.contrib.__path__.append({str(FOLDER / 'scapy')!r})"
    command = [sys.executable, "-m", "scapy.tools.UTscapy", "-P", path, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED=5 FAILED=0" in done.stdout + done.stderr


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_files_are_made_of_the_declarations(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == files()[path], "run python -m docs.upstream.generate"


@pytest.mark.parametrize("cls", formats(), ids=lambda cls: cls.prefix)
def test_headers_have_the_declared_widths(cls: type[Layer]) -> None:
    declared = sum(field.bits for field in cls.layout if field.bits is not None)
    assert sum(map(int, re.findall(r"^    (?:bit|int)<(\d+)>", p4(cls), re.MULTILINE))) == declared
    text = ksy(cls)
    octets = re.findall(r"type: s(\d)$|size: (\d+)$", text, re.MULTILINE)
    bits = sum(map(int, re.findall(r"type: b(\d+)$", text, re.MULTILINE)))
    assert bits + 8 * sum(int(number) for pair in octets for number in pair if number) == declared
