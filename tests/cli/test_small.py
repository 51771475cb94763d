"""Small captures never wait for a compiler, and `stats` and `check` say the same of them without it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto_cli import small
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER

_TOLD = "import atexit, sys; atexit.register(lambda: print('numba' in sys.modules, file=sys.stderr)); "
_MAIN = "from ecmproto_cli.main import main; main()"


@pytest.mark.parametrize("command", small.COMMANDS)
def test_a_small_capture_is_looked_at_without_numba(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, "-r", str(FOLDER / "mixed.pcapng")]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    alone = subprocess.run(
        [sys.executable, "-c", _TOLD + _MAIN, *arguments], env=environment, capture_output=True, text=True
    )
    assert alone.stderr.splitlines()[-1] == "False"
    assert not [*tmp_path.iterdir()]
    code = run(arguments)  # with kernels, as this process is not there for it alone
    assert (alone.returncode, alone.stdout) == (code, capsys.readouterr().out)


def test_captures_are_small_by_their_frames(tmp_path: Path) -> None:
    octets = (FOLDER / "mixed.pcap").read_bytes()
    frames = octets[24:]
    few, many, packed, broken = (str(tmp_path / name) for name in ("few", "many", "packed", "broken"))
    Path(few).write_bytes(octets)
    Path(many).write_bytes(octets + frames * (small.MAX_OCTETS // len(frames)))
    Path(packed).write_bytes(gzip.compress(Path(many).read_bytes()))
    Path(broken).write_bytes(octets[:10])
    assert os.path.getsize(packed) < small.MAX_OCTETS
    small_ones = [small._are_small(each) for each in ([few], [few, few], [broken])]
    others: tuple[list[str], ...] = ([], [many], [few, many], [packed], ["-"], [str(tmp_path)])
    large_ones = [small._are_small(each) for each in others]
    assert (small_ones, large_ones) == ([True] * 3, [False] * 6)


def test_only_a_process_for_the_command_alone_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setattr(small, "_alone", [])
    monkeypatch.setitem(sys.modules, "numba", sys)
    paths = [str(FOLDER / "mixed.pcap")]
    for command in ("", "demo", "stats"):
        small.begin(command)
        small.without_compiler(paths)
        assert "NUMBA_DISABLE_JIT" not in os.environ, "it may be loaded, or be of others"
