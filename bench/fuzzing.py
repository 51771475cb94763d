"""Fuzzing: generated and compared cases per second, compared with Scapy's fuzz(), and the speed of each
check.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from bench.contest import rates, show
from ecmproto.tools.fuzz.cases import FuzzCase
from ecmproto.tools.fuzz.checks.base import BatchCheck

CASES = 512
_SCAPY_FRAMES = 200
_PROGRAM_FRAMES = 64
_ROUNDS = 3


def run() -> None:
    """Print the speeds."""
    from ecmproto.tools.fuzz.cases import Cases
    from ecmproto.tools.fuzz.checks.scapy import ScapyCheck
    from ecmproto.tools.fuzz.checks.tshark import TsharkCheck
    from ecmproto.tools.fuzz.subjects import SUBJECTS, template_frames

    source = Cases(template_frames(), seed=1).starting_at(0)
    frames = _taken(source)
    checks: list[BatchCheck] = [*SUBJECTS["frames"].checks(), ScapyCheck(), TsharkCheck()]
    always = [check for check in checks if check.every == 1]

    def made_and_compared() -> int:
        items = _taken(source)
        return min(_checked(check, items) for check in always)

    contest = rates({"fuzz decode, schema and columns": made_and_compared, "Scapy fuzz(), dissected": _scapy})
    show("cases made, decoded and compared", contest, "frames/s")
    each = {check.name: partial(_checked, check, frames) for check in checks}
    _list("each check alone", {"making cases": lambda: len(_taken(source)), **each}, "frames/s")
    others = {}
    for name, subject in SUBJECTS.items():
        if name != "frames":
            items = _taken(subject.cases(subject.corpus(), 1).starting_at(0))
            others[name] = partial(_checked, subject.checks()[0], items)
    _list("other spoilt input", others, "cases/s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.pcap"
        programs = {name: _program(words, path, frames) for name, words in _PROGRAMS.items()}
        _list(f"programs, {_PROGRAM_FRAMES} frames a run", programs, "frames/s")


def _list(title: str, works: Mapping[str, Callable[[], int]], unit: str) -> None:
    """Print rates without comparing the rates with each other."""
    print(f"\n{title}")
    for name, figure in rates(works, rounds=_ROUNDS).items():
        print(f"  {name.ljust(16)} {figure.median:>10,.0f} {unit} ({figure.least:,.0f}–{figure.most:,.0f})")


_PROGRAMS = {
    "true": ("true", "{}"),
    "tcpdump": ("tcpdump", "-nvr", "{}"),
    "tshark -V": ("tshark", "-Vr", "{}"),
}


def _taken(source: Iterator[FuzzCase]) -> list[bytes]:
    return [case.octets for case in islice(source, CASES)]


def _checked(check: BatchCheck, items: list[bytes]) -> int:
    assert not list(check.differences(items))
    return len(items)


def _scapy() -> int:
    """Return the source of a Scapy script that draws fields, builds frames and dissects frames."""
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw, fuzz

    for _ in range(_SCAPY_FRAMES):
        packet = Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01") / fuzz(
            Dot1Q() / IP(src="192.0.2.1", dst="192.0.2.2") / UDP()
        )
        Ether(bytes(packet / Raw(bytes(20)))).lastlayer()
    return _SCAPY_FRAMES


def _program(words: tuple[str, ...], path: Path, frames: list[bytes]) -> Callable[[], int]:
    """Return a function that runs a program on the first frames."""
    from ecmproto.tools.fuzz.command import Command
    from ecmproto.tools.fuzz.findings import capture_of

    command = Command(arguments=words)

    def work() -> int:
        path.write_bytes(capture_of(frames[:_PROGRAM_FRAMES]))
        assert not command.run(path).failed
        return _PROGRAM_FRAMES

    return work
