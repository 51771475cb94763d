"""Senders of PAUSE and PFC, and their times (algorithms §6)."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import (
    FlowControlSettings,
    FlowControlState,
    OccupancyMeter,
    Signal,
    demand,
    flow_control_settings,
    judge,
    next_timer_ns,
    on_timer,
)
from ecmproto.control.mechanisms.pause.parameters import (
    GenerationParameters,
    PFCGenerationParameters,
)
from ecmproto.kernels.record import new_record
from tests.conftest import REPOSITORY
from tests.mechanisms.pause.literal import LiteralSender
from tests.mechanisms.pause.trace import stopped_ns, trace

RATE = 10_000_000_000
HALF_NS = 65_535 * 512 * 10**9 // RATE // 2
XOFF, XON, NOTHING = Signal(1, 0xFFFF), Signal(1, 0), Signal(0, 0)


class Sender:
    """A link whose requests come from meters of one traffic class each."""

    def __init__(self, parameters: GenerationParameters | None = None) -> None:
        self.settings: FlowControlSettings = flow_control_settings(
            parameters or GenerationParameters(), rate_bps=RATE
        )
        self.state: FlowControlState = new_record(FlowControlState)
        self.meters: dict[tuple[int, int], OccupancyMeter] = {}

    def occupancy(self, now_ns: int, octets: int, *, number: int = 0, meter: int = 0) -> Signal:
        watching = self.meters.setdefault((number, meter), new_record(OccupancyMeter))
        change = judge(watching, self.settings, octets)
        return demand(self.state, self.settings, now_ns, number, change) if change else NOTHING

    def clock(self, now_ns: int) -> Signal:
        return on_timer(self.state, self.settings, now_ns)


def test_xoff_and_xon_follow_their_marks() -> None:
    sender = Sender()
    assert sender.occupancy(10, 280_000) == NOTHING
    assert sender.occupancy(20, 280_001) == XOFF
    assert sender.occupancy(30, 299_000) == NOTHING
    assert sender.occupancy(40, 260_001) == NOTHING
    assert sender.occupancy(50, 260_000) == XON
    assert sender.occupancy(60, 260_000) == NOTHING
    assert sender.occupancy(70, 280_001) == XOFF


def test_xoff_is_refreshed_at_half_its_time() -> None:
    sender = Sender()
    assert next_timer_ns(sender.state) == NEVER_NS
    sender.occupancy(1_000, 290_000)
    assert next_timer_ns(sender.state) == 1_000 + HALF_NS
    assert sender.clock(1_000 + HALF_NS - 1) == NOTHING
    assert sender.clock(1_000 + HALF_NS) == XOFF
    assert next_timer_ns(sender.state) == 1_000 + 2 * HALF_NS
    sender.occupancy(2_000 + HALF_NS, 0)
    assert next_timer_ns(sender.state) == NEVER_NS
    assert sender.clock(10**12) == NOTHING


def test_the_refresh_follows_the_links_rate() -> None:
    assert flow_control_settings(GenerationParameters(), rate_bps=10**9).refresh_after_ns == 65_535 * 512 // 2
    assert flow_control_settings(GenerationParameters(), rate_bps=10**11).refresh_after_ns == 335_540 // 2


def test_late_refresh_counts_from_its_sending() -> None:
    sender = Sender()
    sender.occupancy(0, 290_000)
    assert sender.clock(5 * HALF_NS) == XOFF
    assert next_timer_ns(sender.state) == 6 * HALF_NS
    assert sender.state.refresh_frames == 1


def test_link_resumes_when_its_last_queue_does() -> None:
    # On the output queue: one XON must not undo another queue's XOFF.
    sender = Sender(GenerationParameters(pause_on="output"))
    assert sender.occupancy(0, 290_000, meter=0) == XOFF
    assert sender.occupancy(5, 290_000, meter=1) == NOTHING
    assert sender.occupancy(10, 0, meter=0) == NOTHING
    assert next_timer_ns(sender.state) == HALF_NS
    assert sender.occupancy(15, 0, meter=1) == XON
    assert (sender.state.xoff_frames, sender.state.xon_frames) == (1, 1)
    assert stopped_ns(sender.state, 0, 99) == 15


def test_pfc_merges_due_refreshes_of_separate_priorities() -> None:
    sender = Sender(PFCGenerationParameters(high_octets=90_000, low_octets=8_000))
    assert sender.occupancy(0, 90_001, number=3) == Signal(0x08, 0xFFFF)
    assert sender.occupancy(0, 90_001, number=5) == Signal(0x20, 0xFFFF)
    assert sender.occupancy(1, 90_001, number=7) == Signal(0x80, 0xFFFF)
    assert sender.clock(HALF_NS) == Signal(0x28, 0xFFFF)
    assert sender.clock(HALF_NS + 1) == Signal(0x80, 0xFFFF)
    assert sender.occupancy(HALF_NS + 2, 8_000, number=3) == Signal(0x08, 0)
    assert sender.clock(2 * HALF_NS + 1) == Signal(0xA0, 0xFFFF)


def test_priority_that_takes_no_part_is_never_stopped() -> None:
    sender = Sender(PFCGenerationParameters(priorities=frozenset({3})))
    assert sender.occupancy(0, 299_000, number=4) == NOTHING
    assert sender.occupancy(0, 299_000, number=3) == Signal(0x08, 0xFFFF)
    assert sender.clock(10**12) == Signal(0x08, 0xFFFF)


def test_counters_and_the_time_stopped_per_class() -> None:
    sender = Sender(PFCGenerationParameters())
    sender.occupancy(100, 290_000, number=1)
    assert stopped_ns(sender.state, 1, 350) == 250
    sender.clock(100 + HALF_NS)
    sender.occupancy(200 + HALF_NS, 0, number=1)
    sender.occupancy(500 + HALF_NS, 290_000, number=1)
    assert stopped_ns(sender.state, 1, 510 + HALF_NS) == HALF_NS + 100 + 10
    assert stopped_ns(sender.state, 2, 510 + HALF_NS) == 0
    state = sender.state
    assert (state.xoff_frames, state.refresh_frames, state.xon_frames) == (2, 1, 1)


@given(
    thresholds=st.tuples(st.integers(0, 1000), st.integers(1, 1000)).map(sorted),
    steps=st.lists(st.tuples(st.integers(0, 10_000_000), st.integers(0, 1_100)), max_size=60),
)
def test_equals_the_literal_transcription(thresholds: list[int], steps: list[tuple[int, int]]) -> None:
    low, high = thresholds
    sender = Sender(GenerationParameters(high_octets=max(1, high), low_octets=low))
    literal = LiteralSender(high=max(1, high), low=low, rate=RATE)
    now_ns = 0
    for gap_ns, octets in steps:
        now_ns += gap_ns
        expected = literal.clock(now_ns)
        assert sender.clock(now_ns) == (NOTHING if expected is None else Signal(1, expected))
        expected = literal.occupancy(now_ns, octets)
        assert sender.occupancy(now_ns, octets) == (NOTHING if expected is None else Signal(1, expected))


@given(
    st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 7), st.integers(0, 2), st.integers(0, 400_000)),
        max_size=60,
    )
)
def test_class_stops_only_while_meters_are_above(
    steps: list[tuple[int, int, int, int]],
) -> None:
    sender = Sender(PFCGenerationParameters())
    told = [False] * 8
    now_ns = 0
    for gap_ns, number, meter, octets in steps:
        now_ns += gap_ns
        refreshed = sender.clock(now_ns).enable_vector
        assert all(told[n] for n in range(8) if refreshed >> n & 1)
        assert next_timer_ns(sender.state) > now_ns
        signal = sender.occupancy(now_ns, octets, number=number, meter=meter)
        if signal.enable_vector:
            assert signal.enable_vector == 1 << number
            assert told[number] != (signal.quanta > 0)
            told[number] = signal.quanta > 0
        for n in range(8):
            above = sum(int(m.above) for (owner, _), m in sender.meters.items() if owner == n)
            assert int(sender.state.demands[n]) == above
            assert told[n] == (above > 0)
            assert 0 <= stopped_ns(sender.state, n, now_ns) <= now_ns


def test_compiled_and_plain_runs_are_identical() -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.pause.trace", "7"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == trace(7)
