"""Runs come in order, and have as many frames as a program reads quickly."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from ecmproto.errors import ParameterError
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.command import Command, Kind, Outcome
from ecmproto.fuzz.target import FIRST_FRAMES, MOST_FRAMES, Feed, RunFrames, Runs, Trial


def ended(*, kind: Kind = "fine", seconds: float = 0.01, processor_s: float = 0.01) -> Outcome:
    return Outcome(
        kind=kind,
        signature="",
        status=0,
        seconds=seconds,
        output="",
        processor_s=processor_s,
    )


def test_quick_runs_get_more_frames_and_others_fewer() -> None:
    frames = RunFrames(None, 5.0)
    for _ in range(20):
        frames.took(frames.count, ended())
    assert frames.count == MOST_FRAMES
    frames.took(frames.count, ended(kind="crash"))
    assert frames.count == MOST_FRAMES // 2
    frames.took(frames.count, ended(processor_s=2))
    assert frames.count == MOST_FRAMES // 4
    # one that sleeps may take too long with more of them
    frames.took(frames.count, ended(seconds=4))
    assert frames.count == MOST_FRAMES // 4
    frames.took(7, ended())
    assert frames.count == MOST_FRAMES // 4
    for _ in range(20):
        frames.took(frames.count, ended(kind="report"))
    assert frames.count == 1


def test_a_slow_start_is_no_reason_for_fewer_frames() -> None:
    frames = RunFrames(None, 60.0)
    for _ in range(4):
        frames.took(frames.count, ended(seconds=3, processor_s=3))
    assert frames.count == 16 * FIRST_FRAMES
    frames.took(frames.count, ended(seconds=13, processor_s=13))
    assert frames.count == 8 * FIRST_FRAMES
    for _ in range(20):
        frames.took(frames.count, ended(seconds=13, processor_s=13))
    assert frames.count == FIRST_FRAMES


def test_a_number_of_frames_that_is_asked_for() -> None:
    frames = RunFrames(FIRST_FRAMES, 5.0)
    frames.took(FIRST_FRAMES, ended())
    frames.took(FIRST_FRAMES, ended(kind="crash"))
    assert frames.count == FIRST_FRAMES


def trials() -> Iterator[Trial]:
    for index in itertools.count():
        yield Trial(items=(b"%d" % index,), index=index, whole=True)


@pytest.mark.parametrize("jobs", [1, 5])
def test_runs_come_in_their_order(jobs: int) -> None:
    source = trials()
    # early ones take longer than those behind them
    script = 'n=$(cat); test $((n % 5)) != 0 || sleep 0.1; echo "$n"'
    with Runs(Command(words=("sh", "-c", script)), lambda: next(source), jobs=jobs) as runs:
        for index in range(12):
            trial, outcome = runs.next()
            assert trial.index == index
            assert outcome.output == f"{index}\n"


def test_leaving_ends_what_runs() -> None:
    source = trials()
    start = time.monotonic()
    script = "test $(cat) = 0 || sleep 60"
    with Runs(Command(words=("sh", "-c", script), seconds=60), lambda: next(source), jobs=3) as runs:
        runs.next()
    assert time.monotonic() - start < 30


def test_a_feed_of_nothing_or_of_two_seeds() -> None:
    with pytest.raises(ParameterError, match="needed frames, captures or both, got neither"):
        Feed()
    with pytest.raises(ParameterError, match="needed seed 1, as frames have, got 2"):
        Feed(frames=Cases([], seed=1), captures=Cases([], seed=2))


def test_parts_of_a_trial_know_their_case() -> None:
    trial = Trial(items=(b"a", b"b", b"c"), index=40)
    assert trial.part([1, 2]) == Trial(items=(b"b", b"c"), index=41)
    assert trial.part([]) == Trial(items=(), index=40)
    assert trial.changed(1, b"x").items == (b"a", b"x", b"c")
