"""The sending ends of many stations, beneath any mechanism."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.protocol import (
    PAUSE_KIND,
    PFC_KIND,
    SILENT,
    Message,
    flow_control_payload,
)
from ecmproto.control.mechanisms.pause.gate import (
    ANY_PRIORITY,
    Gates,
    counters,
    new_gates,
    obey,
    opens_ns,
    paused_ns,
    settle_standstill,
    starts_sending,
)
from ecmproto.kernels.record import new_record
from tests.mechanisms.pause.literal import LiteralReceiver

ALL = frozenset(range(8))
QUANTUM_IS_1_NS = 512 * 10**9
QUANTUM_IS_10_NS = 512 * 10**8


def gates(
    stations: int = 1,
    *,
    rate_bps: int = QUANTUM_IS_1_NS,
    pause: bool = True,
    pfc_priorities: frozenset[int] = ALL,
) -> Gates:
    return new_gates(stations, rate_bps=rate_bps, pause=pause, pfc_priorities=pfc_priorities)


def message(kind: int, quanta: int, *priorities: int) -> Message:
    made = new_record(Message)
    made.kind, fields = kind, flow_control_payload(made)
    fields.quanta = quanta
    fields.enable_vector = sum(1 << priority for priority in priorities)
    return made


def opening(ends: Gates, station: int, now_ns: int) -> list[int]:
    return [opens_ns(ends, station, priority, now_ns) for priority in range(8)]


def test_pfc_stops_enabled_priorities_of_its_station_alone() -> None:
    ends = gates(3)
    obey(ends, 1, message(PFC_KIND, 100, 3, 5), 10)
    assert opening(ends, 1, 10) == [10, 10, 10, 110, 10, 110, 10, 10]
    assert opening(ends, 0, 10) == opening(ends, 2, 10) == [10] * 8


def test_pause_stops_all_priorities_whatever_its_vector() -> None:
    ends = gates()
    obey(ends, 0, message(PAUSE_KIND, 100, 0), 10)
    assert opening(ends, 0, 10) == [110] * 8
    assert opening(ends, 0, 200) == [200] * 8


def test_neither_kind_resumes_what_the_other_has_stopped() -> None:
    ends = gates()
    obey(ends, 0, message(PAUSE_KIND, 100), 0)
    obey(ends, 0, message(PFC_KIND, 300, 3), 0)
    obey(ends, 0, message(PFC_KIND, 0, 4), 10)
    assert opening(ends, 0, 10)[3:5] == [300, 100]
    obey(ends, 0, message(PAUSE_KIND, 0), 20)
    assert opening(ends, 0, 20)[3:5] == [300, 20]
    obey(ends, 0, message(PFC_KIND, 0, 3), 30)
    assert opening(ends, 0, 30) == [30] * 8


def test_what_a_station_does_not_obey_is_counted() -> None:
    ends = gates(2, pause=False, pfc_priorities=frozenset({3}))
    obey(ends, 0, message(PAUSE_KIND, 100), 0)
    obey(ends, 1, message(PFC_KIND, 100, 3, 4), 0)
    obey(ends, 1, message(SILENT, 100, 3), 0)
    assert opening(ends, 0, 0) == [0] * 8
    assert opening(ends, 1, 0) == [0, 0, 0, 100, 0, 0, 0, 0]
    assert counters(ends) == {
        "pause_frames": 0,
        "pfc_frames": 1,
        "ignored_frames": 1,
        "ignored_times": 1,
        "refused_frames": 1,
    }


def test_without_priorities_pfc_is_not_obeyed_at_all() -> None:
    ends = gates(pfc_priorities=frozenset())
    obey(ends, 0, message(PFC_KIND, 100, 3), 0)
    assert opening(ends, 0, 0) == [0] * 8
    assert counters(ends)["ignored_frames"] == 1


def test_paused_time_counts_what_both_kinds_stop_once() -> None:
    ends = gates(2)
    obey(ends, 0, message(PAUSE_KIND, 100), 0)
    obey(ends, 0, message(PFC_KIND, 100, 3), 50)
    assert paused_ns(ends, 0, 3, 70) == 70
    assert paused_ns(ends, 0, 3, 1000) == 150
    assert paused_ns(ends, 0, 4, 1000) == 100
    assert paused_ns(ends, 1, 3, 1000) == 0
    # A query has no effect on later queries.
    assert paused_ns(ends, 0, 3, 70) == 70
    obey(ends, 0, message(PFC_KIND, 20, 3), 200)
    assert paused_ns(ends, 0, 3, 1000) == 170


_MESSAGES = st.tuples(
    st.integers(0, 40),
    st.sampled_from([PAUSE_KIND, PFC_KIND]),
    st.integers(0, 60),
    st.sets(st.integers(0, 7)),
)


@given(st.lists(_MESSAGES, max_size=12), st.booleans(), st.frozensets(st.integers(0, 7)))
def test_priority_opens_as_in_the_literal_receivers(
    steps: list[tuple[int, int, int, set[int]]], pause: bool, pfc_priorities: frozenset[int]
) -> None:
    ends = gates(pause=pause, pfc_priorities=pfc_priorities)
    literal_pause, literal_pfc = LiteralReceiver(QUANTUM_IS_1_NS), LiteralReceiver(QUANTUM_IS_1_NS)
    now_ns = 0
    for gap_ns, kind, quanta, priorities in steps:
        now_ns += gap_ns
        obey(ends, 0, message(kind, quanta, *priorities), now_ns)
        if kind == PAUSE_KIND and pause:
            literal_pause.receive(now_ns, 0xFF, [quanta] * 8)
        if kind == PFC_KIND:
            vector = sum(1 << priority for priority in priorities & pfc_priorities)
            literal_pfc.receive(now_ns, vector, [quanta] * 8)
        for priority in range(8):
            start_ns = opens_ns(ends, 0, priority, now_ns)
            stopped = [
                literal_pause.paused(priority, at_ns) or literal_pfc.paused(priority, at_ns)
                for at_ns in range(now_ns, start_ns + 1)
            ]
            assert stopped == [True] * (start_ns - now_ns) + [False]
    for priority in range(8):
        total = sum(
            literal_pause.paused(priority, at_ns) or literal_pfc.paused(priority, at_ns)
            for at_ns in range(now_ns)
        )
        assert paused_ns(ends, 0, priority, now_ns) == total


def test_pause_counts_only_priorities_in_use() -> None:
    sums, spans = {}, {}
    for kind in (PAUSE_KIND, PFC_KIND):
        ends = gates(2)
        for station in range(2):
            starts_sending(ends, station, 3, 0)
            obey(ends, station, message(kind, 100, 3), 10)
        settle_standstill(ends, 1000)
        sums[kind] = sum(
            paused_ns(ends, station, priority, 1000)
            for station in range(2)
            for priority in range(8)
            if ends.stopped[station].sending_mask >> priority & 1
        )
        spans[kind] = ends.standstill.stopped_ns.tolist()
    assert sums[PAUSE_KIND] == sums[PFC_KIND] == 200
    assert spans[PAUSE_KIND] == spans[PFC_KIND] == [0, 0, 0, 100, 0, 0, 0, 0, 100]


_STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 30, 600_000]),
        st.integers(0, 1),
        st.sampled_from(["frame", PAUSE_KIND, PFC_KIND]),
        st.sampled_from([0, 1, 40]),
        st.sets(st.integers(0, 2)),
    ),
    max_size=12,
)


@given(_STEPS, st.integers(0, 60))
def test_station_standstill_equals_the_literal_receivers(
    steps: list[tuple[int, int, int | str, int, set[int]]], after_ns: int
) -> None:
    ends = gates(2)
    literal = {(station, kind): LiteralReceiver(QUANTUM_IS_1_NS) for station in range(2) for kind in (0, 1)}
    sending: set[tuple[int, int]] = set()
    totals, now_ns, over_time = [0] * 9, 0, dict[int, int]()

    def still(station: int, priority: int, at_ns: int) -> bool:
        return any(literal[station, kind].paused(priority, at_ns) for kind in (0, 1))

    def run(until_ns: int) -> None:
        # No pause here is longer than 40 ns, so the gate is open afterwards.
        for at_ns in range(now_ns, min(until_ns, now_ns + 41)):
            stopped = {priority for station, priority in sending if still(station, priority, at_ns)}
            for row in stopped | ({ANY_PRIORITY} if stopped else set()):
                totals[row] += 1
            over_time[at_ns] = len(stopped)

    for gap_ns, station, what, quanta, priorities in [*steps, (after_ns, 0, PFC_KIND, 0, set())]:
        run(now_ns + gap_ns)
        now_ns += gap_ns
        if what == "frame":
            new = {(station, priority) for priority in priorities} - sending
            sending |= new
            for _, priority in sorted(new):
                starts_sending(ends, station, priority, now_ns)
            continue
        assert isinstance(what, int)
        obey(ends, station, message(what, quanta, *priorities), now_ns)
        vector = 0xFF if what == PAUSE_KIND else sum(1 << priority for priority in priorities)
        literal[station, int(what == PFC_KIND)].receive(now_ns, vector, [quanta] * 8)
    settle_standstill(ends, now_ns)
    assert ends.standstill.stopped_ns.tolist() == totals
    spans = ends.standstill.over_time_ns
    assert spans.sum(axis=1).tolist() == totals
    width_ns = 1 << int(ends.standstill.span_shift)
    first = sum(1 for at_ns, stopped in over_time.items() if stopped and at_ns < width_ns)
    assert spans[ANY_PRIORITY, 0] == first


class Station:
    """A link with a queue for each priority, which starts a frame when its gate permits."""

    def __init__(self, ends: Gates, frame_ns: int) -> None:
        self.ends, self.frame_ns, self.free_ns = ends, frame_ns, 0
        self.ready: list[tuple[int, int]] = []
        self.started: list[tuple[int, int]] = []

    def run(self, until_ns: int) -> None:
        """Start what may start before ``until_ns``: the earliest first."""
        while self.ready:
            starts = [
                (opens_ns(self.ends, 0, priority, max(ready_ns, self.free_ns)), index)
                for index, (ready_ns, priority) in enumerate(self.ready)
            ]
            start_ns, index = min(starts)
            if start_ns >= until_ns:
                return
            self.started.append((start_ns, self.ready.pop(index)[1]))
            self.free_ns = start_ns + self.frame_ns


@given(
    messages=st.lists(_MESSAGES, max_size=12),
    frames=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7)), max_size=25),
    frame_ns=st.integers(1, 50),
)
def test_paused_priority_never_starts_frame_before_its_resume(
    messages: list[tuple[int, int, int, set[int]]], frames: list[tuple[int, int]], frame_ns: int
) -> None:
    station = Station(gates(rate_bps=QUANTUM_IS_10_NS), frame_ns)
    station.ready = sorted(frames)
    literal = {kind: LiteralReceiver(QUANTUM_IS_10_NS) for kind in (PAUSE_KIND, PFC_KIND)}
    now_ns = 0
    for gap_ns, kind, quanta, priorities in messages:
        now_ns += gap_ns
        # A started frame always ends. A frame that has not started is checked again.
        station.run(now_ns)
        obey(station.ends, 0, message(kind, quanta, *priorities), now_ns)
        vector = 0xFF if kind == PAUSE_KIND else sum(1 << priority for priority in priorities)
        literal[kind].receive(now_ns, vector, [quanta] * 8)
    station.run(10**9)
    assert len(station.started) == len(frames)
    for start_ns, priority in station.started:
        assert not any(receiver.paused(priority, start_ns) for receiver in literal.values())


@pytest.mark.parametrize(
    ("rate_bps", "lasts_ns"), [(10**9, 512), (10**10, 52), (25 * 10**9, 21), (10**11, 6)]
)
def test_pause_lasts_by_links_rate_rounded_up(rate_bps: int, lasts_ns: int) -> None:
    ends = gates(rate_bps=rate_bps)
    obey(ends, 0, message(PFC_KIND, 1, 6), 7)
    assert opens_ns(ends, 0, 6, 7) == 7 + lasts_ns
