"""The path by columns, whole processes: its start, what a second thread brings, and ratios to tshark.

Threads are compared on one processor and on two (`os.sched_setaffinity`), so that the same program runs in
both; processor time beside elapsed time says how much of them it used, and what two processes that share
nothing do at once is what this machine's second processor can bring at most.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import dissect, varied

FRAMES = 1_000_000
MANY_FRAMES = max(1, int(os.environ.get("ECMPROTO_BENCH_FRAMES", "10000000")) // FRAMES) * FRAMES
START_FRAMES = 30_000
"""Few more than go by columns: nearly all of the time is the start."""
TSHARK_FRAMES = 100_000
ROUNDS = 5
_PCAP_HEADER_OCTETS = 24
_FILTER = "vlan.priority == 6 and cnm.qntz_fb > 40"
_THEIRS = "vlan.priority == 6 and vlan.id > 40"


def run() -> None:
    """Print them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large, start, small, kinds = (
            folder / f"{each}.pcap" for each in ("large", "start", "small", "kinds")
        )
        for path, frames in ((large, FRAMES), (start, START_FRAMES), (small, TSHARK_FRAMES)):
            dissect.write_varied(path, frames)
        varied.write_frames(kinds, FRAMES)
        ours = [str(Path(sys.executable).with_name("ecmproto")), "dissect", "-r"]
        parquet = ["-T", "parquet", "-w", str(folder / "out.parquet"), "--force"]
        print(f"\nstart of the path by columns, {START_FRAMES:,} frames")
        _show(_measured([*ours, str(start)]), START_FRAMES)
        print(f"\ntwo processors are {_ceiling():4.2f} × one for processes that share nothing")
        for frames in dict.fromkeys((FRAMES, MANY_FRAMES)):
            print(f"\n{frames:,} frames on one processor and on two")
            of_messages, of_all_kinds = (_repeated(path, frames) for path in (large, kinds))
            for what, command in {
                "lines": [*ours, of_messages],
                "filter": [*ours, of_messages, "-Y", _FILTER],
                "fields": [*ours, of_messages, "-T", "fields", *(f"-e{each}" for each in dissect.FIELDS)],
                "Parquet": [*ours, of_messages, *parquet],
                "Parquet, frames of all kinds": [*ours, of_all_kinds, *parquet],
                "Parquet, all fields of them": [*ours, of_all_kinds, *parquet, "--all-fields"],
            }.items():
                one, two = (_measured(command, processors) for processors in (1, 2))
                print(f"  {what:<32} two processors are {one[0] / two[0]:4.2f} × one")
                _show(two, frames)
        print("\nbeside tshark")
        for what, mine, theirs in (("lines", [], []), ("filter", ["-Y", _FILTER], ["-Y", _THEIRS])):
            our_s, _ = _measured([*ours, str(large), *mine])
            their_s, _ = _measured(["tshark", "-n", "-r", str(small), *theirs])
            ratio = their_s / TSHARK_FRAMES / (our_s / FRAMES)
            print(f"  {what:<32} ecmproto is {ratio:6.2f} × tshark")


def _repeated(path: Path, frames: int) -> str:
    """Return a capture of so many frames, those of ``path`` again and again."""
    if frames == FRAMES:
        return str(path)
    longer = path.with_name(f"{path.stem}-{frames}.pcap")
    octets = path.read_bytes()
    with longer.open("wb") as file:
        file.write(octets[:_PCAP_HEADER_OCTETS])
        for _ in range(frames // FRAMES):
            file.write(octets[_PCAP_HEADER_OCTETS:])
    return str(longer)


def _ceiling() -> float:
    """Return how many times as much two processes do at once as one."""
    command = [sys.executable, "-c", "sum(number for number in range(20_000_000))"]

    def seconds(processes: int) -> float:
        start = time.perf_counter()
        for process in [subprocess.Popen(command) for _ in range(processes)]:
            process.wait()
        return time.perf_counter() - start

    one, two = (statistics.median(seconds(processes) for _ in range(ROUNDS)) for processes in (1, 2))
    return 2 * one / two


def _measured(command: Sequence[str], processors: int | None = None) -> tuple[float, float]:
    """Return the median seconds that a process takes, and of processor time."""
    allowed = sorted(os.sched_getaffinity(0))[: processors or None]
    seconds, used = [], []
    for _ in range(ROUNDS + 1):
        start, before = time.perf_counter(), os.times()
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        )  # fmt: skip
        seconds.append(time.perf_counter() - start)
        after = os.times()
        used.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    # the first one makes what the others find
    return statistics.median(seconds[1:]), statistics.median(used[1:])


def _show(measured: tuple[float, float], frames: int) -> None:
    seconds, used = measured
    print(
        f"    {seconds:6.3f} s  {used:6.3f} s of processors ({used / seconds:4.2f} cores)"
        f"  {frames / seconds:>12,.0f} frames/s"
    )
