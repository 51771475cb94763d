"""Commands on files work without the Python modules and functions that exist only on Linux."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PCAPS = Path(__file__).resolve().parents[2] / "pcaps"
ELSEWHERE = """
import os, sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ("fcntl", "grp", "pwd", "resource"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
for name in ("fcntl", "grp", "pwd", "resource"):
    sys.modules.pop(name, None)
for name in ("sched_getaffinity", "geteuid", "getuid"):
    delattr(os, name)

from ecmproto_cli.main import main
main()
"""


def elsewhere(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", ELSEWHERE, *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    "line",
    [
        "dissect -r {pcap}",
        "stats -r {pcap}",
        "check -r {pcap}",
        "replay {pcap} --cp bcn",
        "craft cnm -w out.pcap",
        "edit -r {pcap} -w out.pcap --set eth.src=02:00:00:00:00:01",
        "diff {pcap} {pcap}",
        "fleet stats {pcap} -w results --jobs 1",
    ],
)
def test_files_are_handled_on_every_system(line: str, tmp_path: Path) -> None:
    words = line.format(pcap=PCAPS / "bcn_cp.pcap").split()
    done = elsewhere(*words, folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr


def test_interfaces_outside_linux_give_a_clear_error(tmp_path: Path) -> None:
    done = elsewhere("dissect", "-i", "eth0", folder=tmp_path)
    assert done.returncode == 5
    assert "expected Linux, got a system without Python's fcntl" in done.stderr
    assert "Traceback" not in done.stderr
