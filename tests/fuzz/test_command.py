"""How programs end is told apart, and they take no more than they may."""

from __future__ import annotations

import resource
import sys
import threading
import time
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError
from ecmproto.fuzz.command import FILE_OCTETS, TAIL_OCTETS, Command, Outcome
from ecmproto.fuzz.findings import reproduction


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"octets")
    return file


def shell(path: Path, script: str, **limits: object) -> Outcome:
    return Command(words=("sh", "-c", script), **limits).run(path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "limits", "kind", "signature"),
    [
        ("cat >/dev/null", {}, "fine", ""),
        ("exec <&-; exit 0", {}, "fine", ""),
        ("exit 3", {}, "fine", ""),
        ("exit 3", {"failing": frozenset({3})}, "exit", "exit status 3"),
        ("kill -SEGV $$", {}, "crash", "SIGSEGV"),
        ("sh -c 'kill -ABRT $$'", {}, "crash", "SIGABRT"),
        ("sleep 30", {"seconds": 0.2}, "hang", "hang"),
        ("trap '' TERM INT; sleep 30 & wait", {"seconds": 0.2}, "hang", "hang"),
        ("exec >&- 2>&-; sleep 30", {"seconds": 0.2}, "hang", "hang"),
        ("yes", {"seconds": 0.3}, "hang", "hang"),
        ("sleep 30 & exec >&-; exit 0", {}, "fine", ""),
        ("yes & exit 0", {}, "fine", ""),
        ("yes | head -c 3000000", {}, "fine", ""),
        ("echo 'a.c:7:3: runtime error: shift exponent 4711 is too large'", {}, "report",
         "a.c:7:3: shift exponent N is too large"),
        ("echo 'a.c:7:3: runtime error: much'; yes | head -c 3000000", {}, "report", "a.c:7:3: much"),
        ("echo \"prog: a.c:900: main: Assertion \\`x > 0' failed.\"; kill -ABRT $$", {}, "crash",
         "SIGABRT a.c:900: main: Assertion `x > 0' failed"),
    ],
)  # fmt: skip
def test_ends_are_told_apart(
    script: str, limits: dict[str, object], kind: str, signature: str, path: Path
) -> None:
    outcome = shell(path, script, **limits)
    assert (outcome.kind, outcome.signature) == (kind, signature)


def test_nothing_that_it_started_outlives_it(path: Path, tmp_path: Path) -> None:
    shell(path, f"(trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; wait) & sleep 60", seconds=0.3)
    child = Path(f"/proc/{int((tmp_path / 'child').read_text())}/stat")
    for _ in range(100):
        # killed, it may still wait for being taken note of
        if not child.exists() or child.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("a child runs on")


@pytest.mark.parametrize("wrapped", [False, True])
def test_memory_is_that_of_all_processes(wrapped: bool, path: Path) -> None:
    growing = "import time\nkept = bytearray(200_000_000)\ntime.sleep(20)"
    words: tuple[str, ...] = (sys.executable, "-S", "-c", growing)
    if wrapped:
        words = ("sh", "-c", '"$@"; true', "sh", *words)
    assert Command(words=words, memory_octets=100_000_000).run(path).kind == "memory"


def test_memory_is_counted_though_it_was_taken_briefly(path: Path) -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    command = Command(
        words=(sys.executable, "-S", "-c", f"bytearray({own + 100_000_000})"),
        memory_octets=own + 50_000_000,
    )
    assert command.run(path).kind == "memory"


def test_files_are_bounded(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "filled"
    near = (FILE_OCTETS >> 20) - 1
    words = ("dd", "if=/dev/zero", f"of={file}", "bs=1M", f"seek={near}", "count=1000000")
    outcome = Command(words=words, seconds=60).run(path)
    assert outcome.signature == "SIGXFSZ"
    assert file.stat().st_size < 2 * FILE_OCTETS
    file.unlink()


def test_what_is_kept_of_output_is_bounded(path: Path) -> None:
    outcome = shell(path, "yes first | head -n 1000000; echo last")
    assert outcome.output.endswith("first\nlast\n")
    assert len(outcome.output) == TAIL_OCTETS


def test_a_run_is_ended_from_outside(path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    outcome = Command(words=("sleep", "60"), seconds=60).run(path, stop=stop)
    assert outcome.seconds < 30
    assert outcome.status < 0


def test_commands_that_cannot_run(path: Path) -> None:
    with pytest.raises(ParameterError, match="needed a program that can be run, got no-such-program"):
        Command(words=("no-such-program",)).run(path)
    with pytest.raises(ParameterError, match="needed a program and its arguments"):
        Command(words=())


def test_reproduction_is_a_line_for_a_shell() -> None:
    assert reproduction(["tshark", "-r", "{}"], "case.pcap") == "tshark -r case.pcap"
    assert reproduction(["my reader", "-"], "a b.pcap") == "'my reader' - < 'a b.pcap'"
