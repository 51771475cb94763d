"""Commands with the kernel library import neither numba nor llvmlite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto.kernels import library
from tests.conftest import CI
from tests.live.testbeds import requires_testbeds
from tests.namespaces import FAR, NEAR, Network

pytestmark = pytest.mark.alone  # live devices; with the library that CI builds

WATCH = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "llvmlite"):
            with open(os.environ["IMPORTED"], "a") as file:
                print(name, file=file)

sys.meta_path.insert(0, Watch())
"""
REPLAY = ("replay", "-r", "pcaps/incast.pcap.gz", "--seed", "1", "--cp", "qcn")
COMMANDS = {
    "dissect": ("dissect", "-r", "large.pcap"),
    "dissect -T": ("dissect", "-r", "large.pcap", "-T", "ndjson"),
    "dissect -Y": ("dissect", "-r", "large.pcap", "-Y", "cnm.qntz_fb > 10 and vlan.priority == 3"),
    "dissect -w": ("dissect", "-r", "large.pcap", "-w", "written.pcapng"),
    "stats": ("stats", "-r", "large.pcap", "--interval", "1s"),
    "check": ("check", "-r", "large.pcap"),
    "replay --cp": REPLAY,
    "replay --rp": (*REPLAY, "--rp", "qcn"),
    "lab": ("lab", "run", "bcn-symmetric", "--set", "duration=2ms", "--set", "measure.from=500us",
            "--set", "measure.until=2ms", "--set", "measure.window=500us"),
    "send": ("send", "-i", NEAR, "cnm", "--count", "9", "--rate", "1k"),
    "live cp": ("live", "cp", "--in", NEAR, "--out", FAR, "--speed", "1G", "--duration", "100ms"),
    "live rp": ("live", "rp", "--host", NEAR, "--net", FAR, "--speed", "1G", "--duration", "100ms"),
    "live testbed": ("live", "testbed", "--mechanism", "dbp", "--duration", "1s", "--any-rate",
                     "-w", "testbed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Return a folder with captures, and with a module that records imports of numba."""
    if not library.is_loaded():
        why = f"{library.why_not()}: `make kernels` builds it"
        if CI:
            pytest.fail(why)
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("commands")
    (folder / "sitecustomize.py").write_text(WATCH)
    (folder / "pcaps").symlink_to(repository / "pcaps")
    sweep = ("--sweep", "cntag.flow_id=0..65535", "--sweep", "qntz_fb=1..16", "--vlan", "3")
    assert called(folder, "craft", "cnm", *sweep, "-w", "large.pcap") == (0, "", "")
    return folder


def called(folder: Path, *words: str, program: str = "-m ecmproto_cli") -> tuple[int, str, str]:
    """Return the exit code of a command, its error messages, and the modules of numba that it tried to
    import.
    """
    imported = folder / "imported"
    imported.write_text("")
    paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, *program.split(), *words], cwd=folder, capture_output=True, text=True, timeout=600,
        env=os.environ | {"PYTHONPATH": paths, "IMPORTED": str(imported)},
    )  # fmt: skip
    return done.returncode, done.stderr, imported.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_import_no_numba(command: str, folder: Path, veth: Network) -> None:
    if command == "live testbed":
        requires_testbeds()
    code, said, imported = called(folder, *COMMANDS[command])
    assert (code in (0, 1), "plain Python" in said, imported) == (True, False, ""), said


def test_imports_of_numba_are_recorded(folder: Path) -> None:
    assert "numba\n" in called(folder, "import numba", program="-c")[2]
