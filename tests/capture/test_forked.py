"""Captures that several processes read equal captures that one process reads, for all boundaries of parts."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.errors import ExecutorError, ParameterError
from ecmproto.frames.capture import PcapWriter, forked
from ecmproto.frames.capture.forked import ForkedCapture, Put
from ecmproto.frames.capture.parts import PartReader
from ecmproto.frames.stats import Accumulator, capture_stats
from ecmproto.frames.stats.accumulator import ForkedCounting
from ecmproto.tools.check import Checker, check_capture
from ecmproto.tools.check.rules.qcn import FeedbackAgainstQueue
from pcaps.manifest import FOLDER
from tests.capture.test_parts import Rows, pcap_files, pcapng_files, rows_of, whole_of
from tests.check.planting import frame
from tests.namespaces import PATIENCE_S
from tests.stats.test_against_slow import assert_same

NUMBERS = st.integers(1, 3)


def work(reader: PartReader, put: Put) -> Rows:
    """Pass on the octets of the frames in a part, and return all other data of the frames."""
    rows = rows_of(reader)
    for row in rows:
        put(row[-1])
    return rows


@settings(max_examples=60)
@given(octets=st.one_of(pcap_files(), pcapng_files()), each=st.integers(8, 200), processes=NUMBERS)
def test_parts_of_any_size_equal_the_whole(
    tmp_path_factory: pytest.TempPathFactory, octets: bytes, each: int, processes: int
) -> None:
    path = tmp_path_factory.mktemp("forked") / "in"
    path.write_bytes(octets)
    taken: list[bytes] = []
    rows: Rows = []
    with ForkedCapture(
        path, work, processes=processes, part_octets=4 * each, take=lambda piece: taken.append(bytes(piece))
    ) as capture:
        for done in capture:
            rows += done.result
    expected, problem, warnings, interfaces = whole_of(path)
    assert rows == expected
    assert b"".join(taken) == b"".join(row[-1] for row in expected)
    assert (str(capture.problem), capture.warnings, capture.frames) == (problem, warnings, len(expected))
    assert capture.interfaces == interfaces


def test_output_of_any_length_arrives_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_SLOT_OCTETS", 4096)
    taken: list[bytes] = []

    def many(reader: PartReader, put: Put) -> None:
        for number, _, *_ in rows_of(reader):
            put(number.to_bytes(4) * (number % 3000))

    path = FOLDER / "mixed.pcap"
    with ForkedCapture(
        path, many, processes=2, part_octets=512, take=lambda each: taken.append(bytes(each))
    ) as capture:
        assert sum(done.reached.frames for done in capture) == len(whole_of(path)[0])
    expected = b"".join(row[0].to_bytes(4) * (row[0] % 3000) for row in whole_of(path)[0])
    assert b"".join(taken) == expected


def _refuse(reader: PartReader, put: Put) -> None:
    raise ParameterError(name="x", needed="y", got="z")


def _die(reader: PartReader, put: Put) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("work", "error"), [(_refuse, ParameterError), (_die, ExecutorError)])
def test_errors_of_child_processes_are_raised(
    work: Callable[[PartReader, Put], None], error: type[Exception]
) -> None:
    with (
        pytest.raises(error),
        ForkedCapture(FOLDER / "mixed.pcap", work, processes=2, part_octets=512) as capture,
    ):
        list(capture)


def test_processes_end_with_their_context() -> None:
    with ForkedCapture(FOLDER / "mixed.pcap", work, processes=2, part_octets=512) as capture:
        next(iter(capture))
        running = list(capture._running)
    assert not any(process.is_alive() for process in running)


def counted(new: Callable[[], Any], path: Path, octets: int) -> Any:
    """Return the counts of two processes, or None if two processes cannot count the capture."""
    total = new()
    counting = ForkedCounting(new, path, processes=2, part_octets=octets)
    if not counting.add_to(total):
        return None
    return total.result(interfaces=counting.capture.interfaces, problem=counting.capture.problem)


NAMES = ("mixed.pcap", "qcn_cp.pcapng", "pfc.pcap", "malformed.pcapng", "dcbx.pcap")


@settings(max_examples=12, deadline=None)
@given(name=st.sampled_from(NAMES), each=st.integers(100, 5000))
def test_statistics_and_findings_equal_the_whole(name: str, each: int) -> None:
    path = FOLDER / name
    assert_same(counted(Accumulator, path, 4 * each), capture_stats(path))
    assert counted(Checker, path, 4 * each) == check_capture(path)


def test_processes_report_a_congestion_point_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each process estimates the parameters of a congestion point once, in its first part."""
    monkeypatch.setattr(FeedbackAgainstQueue, "_MAX_STORED", 50)
    estimated = tmp_path / "estimated"
    estimate = FeedbackAgainstQueue._estimate

    def counted_estimate(*arguments: Any) -> Any:
        with estimated.open("a") as file:
            file.write(f"{os.getpid()} ")
        until = time.monotonic() + PATIENCE_S  # the other process takes the next part
        while len(set(estimated.read_text().split())) < 2:
            assert time.monotonic() < until, "one process takes all parts"
            time.sleep(0.001)
        return estimate(*arguments)

    monkeypatch.setattr(FeedbackAgainstQueue, "_estimate", counted_estimate)
    drawn, path = Random(1), tmp_path / "in.pcap"
    with PcapWriter(path) as writer:
        for at in range(600):
            offset, delta = drawn.randrange(-999, 0), drawn.randrange(99)
            writer.write_frame(
                frame("cnm", qntz_fb=drawn.randrange(1, 63), q_offset=offset, q_delta=delta), 10**18 + at
            )
    total = counted(Checker, path, path.stat().st_size // 8 & -4)
    by_process = Counter(estimated.read_text().split())
    assert len(by_process) == 2
    assert set(by_process.values()) == {1}
    assert total == check_capture(path)
    assert [each.wrong for each in total.results if each.rule.id == "QCN003"] == [1]


@pytest.mark.parametrize("most", [1, 3])
def test_one_process_counts_when_part_lists_are_full(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("ecmproto.frames.stats.pauses.MAX_STORED", most)
    monkeypatch.setattr("ecmproto.frames.stats.accumulator._MAX_RISING", most)
    assert counted(Accumulator, FOLDER / "pfc.pcap", 2000) is None
