"""Calls from several threads return the results of one thread, also if each thread is the first to call."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ecmproto
from ecmproto.frames.capture import open_capture
from ecmproto.frames.columns import column, extract
from ecmproto.frames.dissect import Lines, NdJson, Trees
from ecmproto.frames.stats.statistics import document_text

ROOT = Path(__file__).parents[1]
CAPTURES = [
    str(ROOT / "pcaps" / name)
    for name in ("mixed.pcap", "mixed.pcapng", "malformed.pcapng", "pfc.pcap", "dcbx.pcap", "qcn_cp.pcapng")
]
FRAMES = 50
THREADS = 4
Call = Callable[[str], Any]


def texts(form: Any) -> Call:
    def call(path: str) -> list[bytes]:
        with open_capture(path) as reader:
            batches = [batch[:FRAMES] for batch in reader]
        return [bytes(text) for batch in batches for text in form().batch(batch, reader.interfaces)]

    return call


def columns(path: str) -> list[Any]:
    with open_capture(path) as reader:
        every = [extract(batch[:FRAMES]) for batch in reader]
    return [(name, each.rows.tolist(), list(each)) for some in every for name, each in some.items()]


CALLS: dict[str, Call] = {
    "stats": lambda path: document_text(ecmproto.stats(path), path),
    "check": lambda path: repr(ecmproto.check(path).findings),
    "dissect": lambda path: [repr(each.frame) for each in ecmproto.dissect(path, count=FRAMES)],
    "filter": lambda path: [each.number for each in ecmproto.dissect(path, filter="cnm or pfc", count=9)],
    "lines": texts(Lines),
    "json": texts(NdJson),
    "trees": texts(Trees),
    "columns": columns,
}
WORK = [(name, path) for name in CALLS for path in CAPTURES]


def compare() -> None:
    """Exit with the differing results of threads that begin at once in a new process."""
    results: list[dict[tuple[str, str], Any]] = [{} for _ in range(THREADS)]
    start = threading.Barrier(THREADS)

    def run(thread: int) -> None:
        order = random.Random(thread // 2).sample(WORK, len(WORK))  # two threads share each order
        start.wait()
        for name, path in order:
            results[thread][name, path] = CALLS[name](path)

    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    expected = {(name, path): CALLS[name](path) for name, path in WORK}
    different = [item for item in WORK for own in results if own.get(item) != expected[item]]
    sys.exit("\n".join(map(repr, different)) or None)


def test_four_threads_return_equal_results() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.test_threads"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_shared_rows_may_shrink_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(list[Any]):
        def __setitem__(self, index: Any, rows: Any) -> None:
            super().__setitem__(index, rows[:1])  # another thread stores fewer rows

    monkeypatch.setattr(column, "_every", Shared([np.empty(0, np.int32)]))
    assert column.every_row(5).tolist() == [0, 1, 2, 3, 4]


if __name__ == "__main__":
    compare()
