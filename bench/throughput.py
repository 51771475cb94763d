"""Processing by columns: start-up time, the speed-up with a second processor, and ratios to tshark.

Commands run on one processor and on two processors (`os.sched_setaffinity`). For comparison, two independent
commands each process half of the frames at once, which is the maximum that a second processor can contribute.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from bench import dissect, varied
from ecmproto.frames.capture import open_capture

FRAMES = 1_000_000
MANY_FRAMES = max(1, int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000")) // FRAMES // 2) * FRAMES * 2
START_FRAMES = 30_000
"""Number of frames that is just large enough for columns, so that nearly all time is start-up time."""
TSHARK_FRAMES = 100_000
ROUNDS = 5
_PCAP_HEADER_OCTETS = 24
_FILTER = "vlan.priority == 6 and cnm.qntz_fb > 40"
_THEIRS = "vlan.priority == 6 and vlan.id > 40"


def run() -> None:
    """Print the results."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large, start, small, kinds = (
            folder / f"{each}.pcap" for each in ("large", "start", "small", "kinds")
        )
        for path, frames in ((large, FRAMES), (start, START_FRAMES), (small, TSHARK_FRAMES)):
            dissect.write_varied(path, frames)
        varied.write_frames(kinds, FRAMES)
        program = str(Path(sys.executable).with_name("ecmproto"))
        ours = [program, "dissect", "-r"]
        parquet = ["dissect", "-T", "parquet", "-w", str(folder / "out.parquet"), "--force"]
        print(f"\nstart of the path by columns, {START_FRAMES:,} frames")
        _show(_measured([*ours, str(start)]), START_FRAMES)
        for frames in dict.fromkeys((2 * FRAMES, MANY_FRAMES)):
            print(f"\n{frames:,} frames on one processor and on two")
            fields = [f"-e{each}" for each in dissect.FIELDS]
            for what, (path, command) in {
                "lines": (large, ["dissect", "-r"]),
                "filter": (large, ["dissect", "-Y", _FILTER, "-r"]),
                "fields": (
                    large,
                    ["dissect", "-T", "fields", *fields, "-r"],
                ),
                "stats": (large, ["stats", "-r"]),
                "check": (large, ["check", "-r"]),
                "Parquet": (large, [*parquet, "-r"]),
                "Parquet, frames of all kinds": (kinds, [*parquet, "-r"]),
                "Parquet, all fields of them": (kinds, [*parquet, "--all-fields", "-r"]),
            }.items():
                _compare(
                    what, [program, *command], _repeated(path, frames), _repeated(path, frames // 2), frames
                )
        print("\nbeside tshark")
        for what, mine, theirs in (("lines", [], []), ("filter", ["-Y", _FILTER], ["-Y", _THEIRS])):
            our_s, _ = _measured([*ours, str(large), *mine])
            their_s, _ = _measured(["tshark", "-n", "-r", str(small), *theirs])
            ratio = their_s / TSHARK_FRAMES / (our_s / FRAMES)
            print(f"  {what:<32} ecmproto is {ratio:6.2f} × tshark")


def _repeated(path: Path, frames: int) -> str:
    """Return the path of a capture with ``frames`` frames, which repeats ``path`` each second."""
    if frames == FRAMES:
        return str(path)
    longer = path.with_name(f"{path.stem}-{frames}.pcap")
    octets = np.fromfile(path, np.uint8)
    with open_capture(path) as reader:
        starts = np.concatenate([batch.record_offset for batch in reader])
    seconds = octets[starts[:, np.newaxis] + np.arange(4)].view("<u4")
    with longer.open("wb") as file:
        octets[:_PCAP_HEADER_OCTETS].tofile(file)
        for _ in range(frames // FRAMES):
            octets[_PCAP_HEADER_OCTETS:].tofile(file)
            seconds += 1
            octets[starts[:, np.newaxis] + np.arange(4)] = seconds.view(np.uint8)
    return str(longer)


def _compare(what: str, command: Sequence[str], whole: str, half: str, frames: int) -> None:
    """Print the times of a command on one processor, on two processors, and of two commands on half of the
    frames.
    """
    processors = sorted(os.sched_getaffinity(0))[:2]
    runs = {
        "one": [([*command, whole], processors[:1])],
        "two": [([*command, whole], processors)],
        "halves": [([*command, half], [each]) for each in processors],
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            taken[name].append(_timed(run))
    one, two, halves = (min(seconds for seconds, _ in taken[name]) for name in runs)
    print(
        f"  {what:<32} two processors are {one / two:4.2f} × one, "
        f"two commands on halves {one / halves:4.2f} ×: {halves / two:4.2f} of these"
    )
    _show(min(taken["two"]), frames)


def _timed(run: Sequence[tuple[Sequence[str], Sequence[int]]]) -> tuple[float, float]:
    """Return the duration and the processor time in seconds of simultaneous commands on given processors."""
    start, before = time.perf_counter(), os.times()
    started = [
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=partial(os.sched_setaffinity, 0, allowed),
        )
        for command, allowed in run
    ]  # fmt: skip
    if any(process.wait() not in (0, 1) for process in started):  # `check` exits with 1 if there are findings
        raise RuntimeError(f"{run}: expected exit codes 0 and 1")
    seconds, after = time.perf_counter() - start, os.times()
    return seconds, sum(after[2:4]) - sum(before[2:4])


def _measured(command: Sequence[str]) -> tuple[float, float]:
    """Return the medians of the duration and the processor time of a command in seconds."""
    every = sorted(os.sched_getaffinity(0))
    taken = [_timed([(command, every)]) for _ in range(ROUNDS + 1)][1:]  # the first run fills caches
    seconds, used = zip(*taken, strict=True)
    return statistics.median(seconds), statistics.median(used)


def _show(measured: tuple[float, float], frames: int) -> None:
    seconds, used = measured
    print(
        f"    {seconds:6.3f} s  {used:6.3f} s of processors ({used / seconds:4.2f} cores)"
        f"  {frames / seconds:>12,.0f} frames/s"
    )
