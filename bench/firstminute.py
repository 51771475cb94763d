"""The first minute of a new user: a wheel in a new environment and its first commands, compared with tshark
and Scapy.

``python -m bench firstminute [--gate] [WHEEL]`` uses the newest wheel in ``dist/`` by default. The
environment is new and read-only, and has no home directory, no cache and no compiler. For root, the
environment is mounted read-only.

The output shows the time of the first run of each command and the best time of three later runs. With
``--gate``, the exit code is 1 if a command needed a kernel that is missing from the wheel's library.
``--pages`` runs the commands of the documentation instead, with all extras and numba installed, and reports
the kernels that each page compiled.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from docs.transcripts import DOCUMENTS, CommandError, Folder, blocks_of

REPOSITORY = Path(__file__).resolve().parent.parent
ROUNDS = 3
_READERS = ("duckdb", "pandas", "polars")
"""Programs other than ecmproto that the pages use."""
_PROGRAMS = ("/usr/bin", "/bin")
_FEW = 20
_SCAPY_FRAMES = 20_000
_LACKING = "plain Python"
"""Text of the warning about a kernel that is missing from the library."""
_CLOSED = """
own=$PATH
PATH=$PATH:/usr/bin:/bin:/sbin
mkdir -p "$2" && mount -t tmpfs -o ro none "$2" || exit 9
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 9
shift 2
PATH=$own exec "$@"
"""
_SCAPY = """
import sys
from scapy.all import PcapReader
with PcapReader(sys.argv[1]) as reader:
    for number, frame in zip(range(int(sys.argv[2])), reader):
        print(frame.summary())
"""


def run(arguments: Sequence[str]) -> None:
    """Measure the commands, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m bench firstminute")
    parser.add_argument("wheel", nargs="?", type=Path)
    parser.add_argument("--gate", action="store_true", help="exit with 1 where the first minute has to wait")
    parser.add_argument("--python", default=sys.executable, help="the Python that the environment is made of")
    parser.add_argument(
        "--pages",
        metavar="PAGE",
        nargs="*",
        help="run the commands of pages, and print the kernels that they compile (default: all)",
    )
    given = parser.parse_args(arguments)
    wheel = given.wheel or _newest()
    with tempfile.TemporaryDirectory(prefix="firstminute-") as name:
        place = Place(Path(name), given.python)
        if given.pages is not None:
            place.install(f"{wheel.resolve()}[all]", *_READERS)
            _pages(place, given.pages or DOCUMENTS)
            return
        print(f"{wheel.name}, {os.cpu_count()} processors")
        print(f"  installed in an empty environment in {place.install(str(wheel.resolve())):.1f} s")
        late = _commands(place)
        _peers(place)
    if given.gate and late:
        sys.exit("firstminute: " + "; ".join(late))


def _newest() -> Path:
    """Return the newest wheel in ``dist/`` that contains the kernel library."""
    wheels = (REPOSITORY / "dist").glob("ecmproto-*-manylinux*.whl")
    found = sorted(wheels, key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit("firstminute: expected a wheel with the library in dist/, got none: make wheel")
    return found[-1]


def closed(environment: Path, hidden: Path | None = None) -> Sequence[str | Path]:
    """Return a command prefix that makes ``environment`` read-only and hides ``hidden``, also for root."""
    if os.geteuid() != 0:
        return ()
    return [
        *("/usr/bin/unshare", "--mount", "/bin/sh", "-c", _CLOSED, "sh"),
        *(environment, hidden or environment.with_name("nothing")),
    ]


class Seconds(NamedTuple):
    """The duration and the processor time of a command in seconds, and its stderr."""

    wall: float
    processor: float
    said: str


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Place:
    """A folder with a new virtual environment and captures."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.python = folder / "environment" / "bin" / "python"
        self.command = self.python.with_name("ecmproto")
        self.million = folder / "million.pcap"
        self.incast = folder / "incast.pcap.gz"
        self._interpreter = python
        for name in ("scratch", "cache"):
            (folder / name).mkdir()
        scratch = str(folder / "scratch")
        self.alone = {"PATH": str(self.python.parent), "HOME": "/nonexistent", "TMPDIR": scratch}

    def install(self, *wanted: str) -> float:
        """Install packages, make the environment read-only, and return the duration in seconds."""
        start = time.perf_counter()
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([self._interpreter, "-m", "venv", self.python.parent.parent], check=True)
        subprocess.run([self.python, "-m", "pip", "install", *quiet, *wanted], check=True)
        seconds = time.perf_counter() - start
        subprocess.run(["chmod", "-R", "a-w", self.python.parent.parent], check=True)
        sweep = ["--sweep", "cntag.flow_id=0..65535", "--sweep", "qntz_fb=1..16"]
        subprocess.run([self.command, "craft", "cnm", *sweep, "-w", self.million], check=True, env=os.environ)
        shutil.copy(REPOSITORY / "pcaps" / "incast.pcap.gz", self.incast)
        for path in (self.million, self.incast):
            path.chmod(0o644)
        return seconds

    def seconds(self, command: Sequence[str | Path]) -> Seconds:
        """Run a command without its output, and return its duration."""
        start, before = time.perf_counter(), _used()
        done = subprocess.run(
            [*closed(self.python.parent.parent, Path.home() / ".cache"), *command],
            env=self.alone, cwd=self.folder / "scratch",
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            sys.exit(
                f"firstminute: {' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr}"
            )
        return Seconds(time.perf_counter() - start, _used() - before, done.stderr)


def _commands(place: Place) -> list[str]:
    """Measure the first commands, and return warnings about missing kernels."""
    replay: list[str | Path] = ["replay", "-r", place.incast, "--cp", "qcn", "--rp", "qcn", "--seed", "1"]
    commands: dict[str, list[str | Path]] = {
        "dissect, a million frames": ["dissect", "-r", place.million],
        "closed loop, 196,720 frames": replay,
        "stats, a million frames": ["stats", "-r", place.million],
        "check, a million frames": ["check", "-r", place.million],
    }
    print(f"\n  {'seconds, and of processors':<30}       first       again")
    late = []
    for title, arguments in commands.items():
        first, *others = (place.seconds([place.command, *arguments]) for _ in range(1 + ROUNDS))
        told = [f"{each.wall:6.2f} {each.processor:5.2f}" for each in (first, min(others))]
        print(f"  {title:<30}{told[0]}{told[1]}", flush=True)
        if _LACKING in first.said:
            late.append(f"{title}: {first.said.strip()}")
    print(f"  {'; '.join(late) or 'the library had all kernels'}")
    return late


def _pages(place: Place, names: Sequence[str]) -> None:
    """Run the commands of pages, and print the kernels that each page compiled."""
    python = [
        str(word) for word in (*closed(place.python.parent.parent, Path.home() / ".cache"), place.python)
    ]
    for name in names:
        text = (REPOSITORY / name).read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(dir=place.folder) as path, tempfile.TemporaryDirectory() as cache:
            paths = os.pathsep.join([place.alone["PATH"], *_PROGRAMS])
            folder = Folder(
                Path(path),
                python,
                {**place.alone, "PATH": paths, "NUMBA_CACHE_DIR": cache, "LANG": "C.UTF-8"},
            )
            found: set[str] = set()
            for block in blocks_of(text):
                line = text.count("\n", 0, block.start)
                try:
                    folder.run(block)
                except CommandError as error:
                    print(f"  {name}:{line}: {' '.join(str(error).split())[:200]}")
                made = {file.name for file in Path(cache).rglob("*.n?c")} - found
                for kernel in sorted(each.rpartition("-")[0] for each in made):
                    print(f"  {name}:{line}: compiled {kernel}")
                found |= made
            print(f"  {name}: {len(found)} compiled", flush=True)


def _peers(place: Place) -> None:
    """Measure tshark and Scapy on the same frames, and all three programs on few frames."""
    scapy: list[str | Path] = [place.python, "-c", _SCAPY, place.million]
    commands: dict[str, list[str | Path]] = {
        f"ecmproto dissect, {_FEW} frames": [place.command, "dissect", "-r", place.million, "-c", str(_FEW)],
        f"Scapy's summaries, {_FEW} frames": [*scapy, str(_FEW)],
        "ecmproto dissect, a million frames": [place.command, "dissect", "-r", place.million],
        f"Scapy's summaries, {_SCAPY_FRAMES:,} frames": [*scapy, str(_SCAPY_FRAMES)],
    }
    tshark = shutil.which("tshark")
    if tshark is not None:
        commands[f"tshark, {_FEW} frames"] = [tshark, "-n", "-r", place.million, "-c", str(_FEW)]
        commands["tshark, a million frames"] = [tshark, "-n", "-r", place.million]
    print("\n  seconds, and of processors: whole processes, each once")
    for title, command in sorted(commands.items(), key=lambda item: ("million" in item[0], item[0])):
        taken = place.seconds(command)
        print(f"  {title:<36} {taken.wall:7.2f} {taken.processor:7.2f}", flush=True)
