"""tshark with and without the dissector: whole processes, which run alternately on the same frames.

Without the dissector, tshark stops at a CN-TAG and has less to do. For comparison, tshark also reads the same
packets without CN-TAGs, and dissects all their headers.

``tag.lua`` is a hand-written dissector for CN-TAGs only. The processor times of both dissectors on the same
tagged frames show the cost of the general dissector, which also writes the Info column.
"""

from __future__ import annotations

import resource
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.contest import rates, show
from bench.dissect import write_varied
from ecmproto.tools.interop.lua import FILE_NAME, dissector

FRAMES = 100_000
ROUNDS = 5
BY_HAND = Path(__file__).with_name("tag.lua")
BOTH_WAYS = {"printing": [], "filtering": ["-Y", "cntag.flow_id == 7"]}
_TAG_AT, _TAG_OCTETS = 16, 4
_FILE_HEADER, _RECORD_HEADER = 24, 16

WAYS = {
    "a line each": [],
    "fields": ["-T", "fields", "-e", "frame.number", "-e", "eth.src", "-e", "ip.src"],
    "a filter": ["-Y", "frame.number == 0"],
    "a tree each": ["-V"],
}


def run() -> None:
    """Print the speed of tshark on tagged frames and CNMs."""
    with tempfile.TemporaryDirectory() as folder:
        plugin, tagged, plain = (Path(folder) / name for name in (FILE_NAME, "tagged.pcap", "plain.pcap"))
        plugin.write_text(dissector(), encoding="utf-8")
        write_varied(tagged, FRAMES)
        _write_untagged(tagged, plain)
        for title, options in WAYS.items():
            contenders = {
                "with the dissector": _frames(tagged, ["-X", f"lua_script:{plugin}", *options]),
                "without it": _frames(tagged, options),
                "without it, no tags": _frames(plain, options),
            }
            show(
                f"tshark, nine tagged frames in ten and a CNM: {title}",
                rates(contenders, rounds=3),
                "frames/s",
            )
        write_varied(tagged, FRAMES, period=FRAMES + 1)
        for title, options in BOTH_WAYS.items():
            _beside_by_hand(title, plugin, ["-r", str(tagged), *options])


def _beside_by_hand(title: str, plugin: Path, options: list[str]) -> None:
    """Print the processor times of tshark with ecmproto's dissector and with the hand-written dissector."""
    seconds: dict[Path, list[float]] = {plugin: [], BY_HAND: []}
    for _ in range(ROUNDS):
        for script, spent in seconds.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            command = ["tshark", "-n", "-X", f"lua_script:{script}", *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            spent.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    ours, by_hand = map(statistics.median, seconds.values())
    print(f"\n{title}: {ours:.2f} s of user time, {by_hand:.2f} s by hand, {ours / by_hand:.2f} times it")


def _frames(capture: Path, options: list[str]) -> Callable[[], int]:
    command = ["tshark", "-n", "-r", str(capture), *options]

    def work() -> int:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return FRAMES

    return work


def _write_untagged(tagged: Path, plain: Path) -> None:
    """Write a copy of a capture without CN-TAGs."""
    octets = tagged.read_bytes()
    parts, at = [octets[:_FILE_HEADER]], _FILE_HEADER
    while at < len(octets):
        seconds, part, captured, original = struct.unpack_from("<IIII", octets, at)
        at += _RECORD_HEADER
        frame = octets[at : at + captured]
        at += captured
        parts.append(struct.pack("<IIII", seconds, part, captured - _TAG_OCTETS, original - _TAG_OCTETS))
        parts.append(frame[:_TAG_AT] + frame[_TAG_AT + _TAG_OCTETS :])
    plain.write_bytes(b"".join(parts))
