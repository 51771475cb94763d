"""Compiled and interpreted departures agree with each other and with the rules, under a simulated clock."""

from __future__ import annotations

import itertools
import random
import threading
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux import compiled_departures, departures
from ecmproto.frames.capture.linux.compiled_departures import as_record, compiled_text
from ecmproto.frames.capture.linux.departures import (
    ALL_LEFT,
    BURST,
    LOOK,
    NOT_ACCEPTED,
    DepartureState,
    count_ns,
    new_counts,
    percentile_ns,
)
from ecmproto.frames.capture.linux.schedule import FrameRate, schedule_of
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.transmission import Transmission
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from tests.capture.linux.traffic import frame
from tests.namespaces import NEAR, PATIENCE_S, Network

LOOKS_NS = 200_000


class MadeUpFacts:
    now_ns: int
    naps: int
    calls: int
    sent: int


class MadeUpLine(Struct):
    """A simulated clock and kernel, which wakes up late and accepts a random number of frames."""

    facts: MadeUpFacts
    late: NDArray[np.int64]
    takes: NDArray[np.int64]
    left_ns: NDArray[np.int64]


@compiled
def clock_ns(line: MadeUpLine) -> int:
    line.facts.now_ns += 30
    return line.facts.now_ns


@compiled
def nap(line: MadeUpLine, until_ns: int) -> bool:
    facts = line.facts
    facts.naps += 1
    facts.now_ns = max(facts.now_ns, until_ns) + line.late[facts.naps % len(line.late)]
    return facts.naps % 17 != 0


@compiled
def transmit(line: MadeUpLine, state: DepartureState, count: int) -> int:
    facts = line.facts
    facts.calls += 1
    most = line.takes[facts.calls % len(line.takes)]
    taken = min(count, int(most))
    for _ in range(taken):
        facts.now_ns += 1500
        line.left_ns[facts.sent % len(line.left_ns)] = facts.now_ns
        facts.sent += 1
    state.error = 0 if taken == count else 105
    return taken


PARTS = {
    "clock_ns": clock_ns, "nap": nap, "transmit": transmit, "count_ns": compiled_departures.count_ns,
}  # fmt: skip
COMPILED = compiled_text(**PARTS)
PLAIN: Any = FunctionType(
    departures.depart.__code__,
    {**vars(departures), **{name: getattr(each, "py_func", each) for name, each in PARTS.items()}},
)


def sent_with(depart: Any, due_ns: list[int], seed: int, **settings: int) -> tuple[Any, ...]:
    """Return the departure times of frames and all counters."""
    draws = random.Random(seed)
    facts: Any = new_record(MadeUpFacts)
    state = as_record(DepartureState())
    line = MadeUpLine(
        facts,
        np.array([draws.choice((0, 5_000, 60_000, 2_000_000)) for _ in range(29)]),
        np.array([draws.choice((0, 1, 7, 1024, 1024, 1024)) for _ in range(31)]),
        np.zeros(4096, np.int64),
    )
    facts.now_ns = state.start_ns = 10**9
    state.count = len(due_ns)
    for name, value in settings.items():
        setattr(state, name, value)
    late, apart, why = new_counts(), new_counts(), LOOK
    times = np.array(due_ns)
    for _ in range(20_000):
        state.look_ns = facts.now_ns + LOOKS_NS
        why = depart(line, state, times, late, apart)
        if why == ALL_LEFT:
            break
        if why == NOT_ACCEPTED:
            assert state.error == 105
            facts.now_ns += 300_000
    assert why == ALL_LEFT
    return line.left_ns[: facts.sent].tolist(), state.tolist(), facts.tolist(), late.tolist(), apart.tolist()


@pytest.mark.parametrize("even", [0, 1])
@pytest.mark.parametrize("spin_ns", [0, 120_000])
def test_compiled_and_plain_departures_are_equal(even: int, spin_ns: int) -> None:
    for seed in range(4):
        draws = random.Random(seed)
        gaps = [draws.choice((0, 0, 2_000, 10_000, 400_000)) for _ in range(300)]
        due_ns = list(itertools.accumulate(gaps))
        settings = {"even": even, "spin_ns": spin_ns}
        found = sent_with(COMPILED, due_ns, seed, **settings)
        assert found == sent_with(PLAIN, due_ns, seed, **settings)
        left_ns = found[0]
        assert len(left_ns) == len(due_ns)
        # A call takes 1500 ns, and its frame leaves during the call.
        assert all(left - due >= 10**9 for left, due in zip(left_ns, due_ns, strict=True))
        assert sum(found[3][1:]) == sum(found[4][1:]) + 1 == len(due_ns)
        if even:
            apart = [later - earlier for earlier, later in itertools.pairwise(left_ns)]
            assert all(found >= asked * 7 // 8 for found, asked in zip(apart, gaps[1:], strict=True))


def test_compiled_and_plain_unpaced_departures_are_equal() -> None:
    found = sent_with(COMPILED, [0] * 3000, 1, paced=0)
    assert found == sent_with(PLAIN, [0] * 3000, 1, paced=0)
    assert len(found[0]) == 3000
    assert not any(found[3])


def test_a_real_time_process_sleeps_regularly() -> None:
    due_ns = list(range(0, 20_000_000, 10_000))
    found = sent_with(COMPILED, due_ns, 1, spin_ns=120_000, uninterrupted_ns=400_000)
    assert found == sent_with(PLAIN, due_ns, 1, spin_ns=120_000, uninterrupted_ns=400_000)
    naps = dict(zip(MadeUpFacts.__annotations__, found[2], strict=True))["naps"]
    never = sent_with(COMPILED, due_ns, 1, spin_ns=120_000)
    assert naps >= 20 > dict(zip(MadeUpFacts.__annotations__, never[2], strict=True))["naps"]


def test_late_frames_leave_in_bursts_of_limited_size() -> None:
    left_ns = sent_with(PLAIN, [0] * 200, 3)[0]
    apart = np.diff(left_ns)
    # 30 ns for each of three looks at the clock, or more where the kernel took none
    bursts = np.split(left_ns, np.flatnonzero(apart > 1500) + 1)
    assert max(map(len, bursts)) == BURST


@given(st.lists(st.integers(-5, 1 << 50), min_size=1, max_size=60), st.sampled_from([1, 50, 90, 99, 100]))
def test_percentiles_are_accurate_to_1_in_128(times_ns: list[int], percent: int) -> None:
    counts = new_counts()
    for each in times_ns:
        count_ns(counts, each)
    exact = sorted(max(0, each) for each in times_ns)[-(-len(times_ns) * percent // 100) - 1]
    told = percentile_ns(counts, percent)
    assert exact <= told <= exact + exact / 128
    assert counts[0] == percentile_ns(counts, 100) == max(0, *times_ns)


def test_percentiles_below_256_ns_are_exact() -> None:
    counts = new_counts()
    assert percentile_ns(counts, 99) == 0
    for each in range(256):
        count_ns(counts, each)
    assert [percentile_ns(counts, percent) for percent in (50, 99, 100)] == [127, 253, 255]


def test_few_frames_do_not_wait_for_the_compiler(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(descriptor: int) -> None:
        raise AssertionError("it is loaded")

    monkeypatch.setattr(compiled_departures, "new_line", loaded)
    few, many = (Batch.from_frames([frame("0800")] * count) for count in (1999, 2000))
    with FrameSender(NEAR) as sender:
        sending = Transmission(sender, schedule_of("1000kpps"))
        sending.run([few, many])
        assert sending.report().frames == 3999
        with pytest.raises(AssertionError, match="it is loaded"):
            Transmission(sender, schedule_of("1000kpps")).run([many])


def test_max_rate_does_not_wait_for_the_compiler(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_departures, "new_line", None)
    with FrameSender(NEAR) as sender:
        sending = Transmission(sender, schedule_of("max"))
        sending.run([Batch.from_frames([frame("0800")] * 3000)])
        assert sending.report().frames == 3000


def test_failing_and_hanging_sources_end_the_transmission(veth: Network) -> None:
    batch = Batch.from_frames([frame("0800")] * 3000)
    hangs, go_on, left = (threading.Event() for _ in range(3))

    def failing() -> Any:
        yield batch
        raise ValueError("broken")

    def hanging() -> Any:
        yield batch
        hangs.set()
        go_on.wait(PATIENCE_S)
        left.set()

    def check() -> None:
        if hangs.is_set() and sender.sent >= 6000:
            raise KeyboardInterrupt

    with FrameSender(NEAR) as sender:
        sending = Transmission(sender, FrameRate(schedule_of("1Mpps").frames_per_s), check=check)  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="broken"):
            sending.run(failing())
        assert sending.report().frames == 3000
        with pytest.raises(KeyboardInterrupt):
            sending.run(hanging())
        assert sending.report().frames == 6000
        assert not left.is_set()  # no thread waited
        go_on.set()
