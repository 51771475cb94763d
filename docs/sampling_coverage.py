"""The coverage of confidence intervals from samples, for the table in `docs/sampling.md`.

``python -m docs.sampling_coverage`` simulates lab runs whose exact figures are known, and draws random
samples of their frames. It prints the percentage of 95 % intervals that contain the exact figure. One table
is for figures with at least `MIN_FRAMES` expected frames in a sample, another table for figures with fewer
frames. If a sample has no frame of a figure, the interval that the page states is used.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.stats import Accumulator, Statistics
from ecmproto.frames.stats.sampling import NONE_SEEN
from ecmproto_cli.main import run

RUNS: Mapping[str, tuple[str, ...]] = {
    "dcqcn": (
        "replay", "-r", "pcaps/roce_incast.pcap.gz", "--cp", "dcqcn", "--rp", "dcqcn", "--speed", "100G",
    ),
    "pfc": ("lab", "run", "dcqcn-incast", "--variant", "pfc-only"),
    "qcn": ("lab", "run", "qcn-baseline-2", "--set", "duration=12ms", "--set", "measure.from=6ms"),
}  # fmt: skip
"""Commands that simulate a run and write all its frames."""
ONE_IN = (16, 64, 256, 1024, 4096)
SAMPLES = 1000
"""Number of samples per run and sampling rate."""
MIN_FRAMES = 10

Key = tuple[str, str]


def simulated(name: str, folder: Path) -> Batch:
    """Return all frames of a run."""
    path = str(folder / f"{name}.pcapng")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run([*RUNS[name], "--seed", "1", "-w", path])
    with open_capture(path) as reader:
        parts = list(reader)
        return Batch.from_frames(
            [frame for part in parts for frame in part],
            time_ns=np.concatenate([part.time_ns for part in parts]),
            original=np.concatenate([part.original for part in parts]),
        )


def statistics_of(batch: Batch, one_in: int = 1) -> Statistics:
    """Return the statistics of a batch of frames."""
    counts = Accumulator(sampled=(one_in, False))
    counts.add(batch)
    return counts.result()


def figures(statistics: Statistics) -> dict[Key, float]:
    """Return the exact figures that samples estimate."""
    seconds = statistics.span.duration_ns / 1e9
    found = {("frames", ""): statistics.frames / seconds, ("rate", ""): 8 * statistics.octets / seconds}
    for kind in statistics.kinds:
        if kind.kind.group in ("message", "flow control"):
            found[f"{kind.kind.title} frames", ""] = kind.frames / seconds
    for priority, frames in statistics.priorities.items():
        found["share of frames", f"priority {priority}"] = frames / statistics.frames
    if statistics.roce is not None:
        pairs = statistics.roce.queue_pairs
        found["CE share", ""] = sum(each.ce_frames for each in pairs) / statistics.roce.frames
        for each in pairs:
            name = f"{each.source} → {each.destination} QP {each.queue_pair:#x}"
            found["rate", name] = 8 * each.octets / seconds
    return {key: value for key, value in found.items() if "share" not in key[0] or 0 < value < 1}


def frames_of(statistics: Statistics) -> dict[Key, int]:
    """Return the number of frames for each figure; for a share, the frames in the smaller part."""
    found = {("frames", ""): statistics.frames, ("rate", ""): statistics.frames}
    for kind in statistics.kinds:
        found[f"{kind.kind.title} frames", ""] = kind.frames
    for priority, frames in statistics.priorities.items():
        found["share of frames", f"priority {priority}"] = min(frames, statistics.frames - frames)
    for each in () if statistics.roce is None else statistics.roce.queue_pairs:
        found["rate", f"{each.source} → {each.destination} QP {each.queue_pair:#x}"] = each.frames
        found["CE share", ""] = found.get(("CE share", ""), 0) + each.ce_frames
    return found


def kind_of(key: Key) -> str:
    """Return the table row to which a figure belongs."""
    figure, subject = key
    if figure == "rate":
        return "rate of a queue pair" if subject else "bit/s of all frames"
    return {
        "frames": "frames/s",
        "CE share": "CE share",
        "CNP frames": "CNPs/s",
        "share of frames": "share of a priority",
    }.get(figure, "frames/s of a type")


def covered(truth: Mapping[Key, float], batch: Batch, one_in: int) -> Iterator[tuple[Key, bool]]:
    """Yield each figure, and whether its interval contains the exact value."""
    statistics = statistics_of(batch, one_in)
    assert statistics.sample is not None
    stated = {(each.figure, each.subject): (each.low, each.high) for each in statistics.sample.estimates}
    seconds = statistics.span.duration_ns / 1e9
    if not seconds:  # there are no estimates from a single frame
        return
    mean_octets = statistics.octets / statistics.frames
    for key, value in truth.items():
        unit = 8 * mean_octets if key[0] == "rate" else 1
        low, high = stated.get(key, (0.0, NONE_SEEN * one_in * unit / seconds))
        assert low is not None
        assert high is not None
        yield key, low <= value <= high


def counts_of(samples: int) -> dict[tuple[str, int, bool], list[int]]:
    """Return the number of intervals with the exact value and the number of all intervals.

    The keys are the table row, N, and whether the expected number of frames is below `MIN_FRAMES`.
    """
    counts: dict[tuple[str, int, bool], list[int]] = defaultdict(lambda: [0, 0])
    with tempfile.TemporaryDirectory() as folder:
        for name in RUNS:
            batch = simulated(name, Path(folder))
            statistics = statistics_of(batch)
            truth, frames = figures(statistics), frames_of(statistics)
            draw = np.random.default_rng(1)
            for one_in in ONE_IN:
                for _ in range(samples):
                    sample = batch.select(draw.random(len(batch)) < 1 / one_in)
                    for key, holds in covered(truth, sample, one_in):
                        count = counts[kind_of(key), one_in, frames[key] < MIN_FRAMES * one_in]
                        count[0] += holds
                        count[1] += 1
            print(f"{name}: {len(batch):,} frames", file=sys.stderr)
    return counts


def table(counts: Mapping[tuple[str, int, bool], Sequence[int]], *, few: bool) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield f"| | {' | '.join(f'1:{one_in}' for one_in in ONE_IN)} |"
    yield f"|---|{'---|' * len(ONE_IN)}"
    for row in dict.fromkeys(row for row, _, is_few in counts if is_few == few):
        cells = [counts.get((row, one_in, few)) for one_in in ONE_IN]
        texts = [f"{100 * cell[0] / cell[1]:.1f}" if cell else "–" for cell in cells]
        yield f"| {row} | {' | '.join(texts)} |"


if __name__ == "__main__":
    counted = counts_of(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES)
    for few in (False, True):
        print(*table(counted, few=few), "", sep="\n")
