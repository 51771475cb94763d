"""Parts of a capture that other processes count and check, merged with their neighbours in any order."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch, Interface, PcapngWriter, open_capture
from ecmproto.frames.capture.parts import linked, open_part, read_through, split_capture
from ecmproto.frames.stats import Accumulator, Statistics
from ecmproto.tools.check import Checked, Checker
from pcaps.manifest import FOLDER
from tests.plain import sent
from tests.stats.test_against_slow import assert_same

LINKS = (
    Interface(index=0, linktype=1, name="east", speed_bps=10**10),
    Interface(index=1, linktype=1, name="west"),
)
MAX = 500
NAMES = (
    "mixed.pcap", "qcn_cp.pcapng", "pfc.pcap", "ecm_cp.pcap", "bcn_cp.pcap", "e2cm_edge.pcap",
    "fecn_edge.pcap", "dbp_edge.pcap", "lldp_cn.pcap", "dcbx.pcap", "malformed.pcapng", "hotspot.pcap.gz",
    "roce_incast.pcap.gz",
)  # fmt: skip
Sums = Accumulator | Checker


@functools.cache
def frames_of(name: str) -> tuple[list[bytes], np.ndarray[Any, Any]]:
    """Return the first frames of a bundled capture, with times that start at 0."""
    frames: list[bytes] = []
    times: list[int] = []
    with open_capture(FOLDER / name, batch_frames=MAX) as reader:
        for batch in reader:
            frames += batch.frames()
            times += batch.time_ns.tolist()
            if len(frames) >= MAX:
                break
    return frames[:MAX], np.array(times[:MAX]) - min(times[:MAX])


@st.composite
def captures(draw: st.DrawFn) -> Batch:
    """Return consecutive spans of bundled captures, in which the same flows occur repeatedly."""
    frames: list[bytes] = []
    times, links = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    now = 1_700_000_000_000_000_000
    stretches = st.tuples(st.sampled_from(NAMES), st.integers(0, MAX), st.integers(1, 120), st.integers(0, 1))
    for name, first, count, link in draw(st.lists(stretches, min_size=1, max_size=7)):
        octets, at = frames_of(name)
        first = min(first, len(octets) - 1)
        frames += octets[first : first + count]
        taken = at[first : first + count]
        times.append(taken - taken.min() + now)
        links.append(np.full(len(taken), link))
        now = int(times[-1].max()) + draw(st.sampled_from([0, 700, 150_000, 10**8]))
    return Batch.from_frames(frames, time_ns=np.concatenate(times), interface=np.concatenate(links))


def of_parts(whole: Batch, cuts: list[int], make: Callable[[], Sums], picks: list[int]) -> Sums:
    """Return the merged counts of parts; ``picks`` selects the neighbours that are merged next."""
    parts: list[Any] = []
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    for low, high in itertools.pairwise(edges):
        part, frames = make(), whole.select(np.arange(low, high))
        if low % 2:
            # A reader of one part does not know the number of earlier frames.
            frames = dataclasses.replace(frames, first=0, picked=None)
        part.add(frames, interfaces=LINKS)
        parts.append(there(part, make))
    while len(parts) > 1:
        at = picks.pop() % (len(parts) - 1) if picks else 0
        parts[at].merge(parts.pop(at + 1))
        parts[at] = there(parts[at], make)
    merged: Sums = parts[0]
    return merged


def there(sums: Any, make: Callable[[], Sums]) -> Any:
    """Return counts after a transfer to another process."""
    state = sent(sums.state())
    if isinstance(sums, Accumulator):
        return Accumulator.of_state(state)
    made = make()
    assert isinstance(made, Checker)
    made.restore(state)
    return made


def checker() -> Checker:
    """Return a checker of all rules, of which as many as can speak."""
    return Checker(
        None,
        {"pfc.lossless": "3", "qcn.closed": "yes", "ecm.closed": "yes", "bcn.closed": "yes"},
        max_findings=7,
    )


def of_whole(whole: Batch, sums: Sums) -> Any:
    """Return the result for a whole capture."""
    sums.add(whole, interfaces=LINKS)
    return sums.result()


PARTS = st.lists(st.integers(0, 10**6), max_size=6)


@settings(max_examples=15)
@given(whole=captures(), cuts=PARTS, picks=PARTS)
def test_statistics_are_equal_for_any_grouping_of_parts(
    whole: Batch, cuts: list[int], picks: list[int]
) -> None:
    found = of_parts(whole, cuts, Accumulator, list(picks)).result()
    wanted = of_whole(whole, Accumulator())
    assert isinstance(found, Statistics)
    assert_same(found, wanted)


@settings(max_examples=15)
@given(whole=captures(), cuts=PARTS, picks=PARTS)
def test_findings_are_equal_for_any_grouping_of_parts(
    whole: Batch, cuts: list[int], picks: list[int]
) -> None:
    found = of_parts(whole, cuts, checker, list(picks)).result()
    wanted = of_whole(whole, checker())
    assert isinstance(found, Checked)
    assert found == wanted


def test_parts_of_a_large_file_equal_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.pcapng"
    with PcapngWriter(path, interfaces=LINKS) as writer:
        now = 1_700_000_000_000_000_000
        for name in NAMES:
            octets, times = frames_of(name)
            for at, each in enumerate(octets):
                writer.write_frame(each, now + int(times[at]), interface=at % 2)
            now += int(times.max()) + 1000
    whole, parts = checker(), [checker()]
    with open_capture(path) as reader:
        for batch in reader:
            whole.add(batch, interfaces=reader.interfaces)
    guessed = split_capture(path, count=6)
    for part, _ in linked(guessed, {part.place: read_through(part) for part in guessed}).parts:
        parts.append(checker())
        with open_part(part) as read:
            for batch in read:
                parts[-1].add(batch, interfaces=read.interfaces)
    for later in parts[1:]:
        parts[0].merge(later)
    assert len(parts) == 7
    assert parts[0].result() == whole.result()
    assert whole.result().wrong > 0
