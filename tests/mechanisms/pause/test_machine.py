"""PAUSE and PFC through the protocol of all mechanisms."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import PortContext, SampledFrame, machine_of
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    PAUSE_KIND,
    PFC_KIND,
    SILENT,
    Arrival,
    Message,
    Outbox,
    fields_of,
    flow_control_payload,
    new_outbox,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import FlowControlPoint
from ecmproto.control.mechanisms.pause.gate import new_gates, obey, opens_ns
from ecmproto.control.mechanisms.pause.machine import FlowControlMachine, PauseMachine, PFCMachine
from ecmproto.control.mechanisms.pause.messages import read_flow_control
from ecmproto.control.mechanisms.pause.parameters import (
    PAUSE,
    PFC,
    GenerationParameters,
    PauseReactionParameters,
    PFCGenerationParameters,
    PFCReactionParameters,
)
from ecmproto.control.mechanisms.pause.reaction_point import KIND_PAUSE, KIND_PFC
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.units import quanta_to_ns
from tests.conftest import REPOSITORY
from tests.mechanisms.crossing import crossing, said, shown
from tests.mechanisms.pause.literal import LiteralSender
from tests.mechanisms.pause.machine_trace import trace

RATE = 10_000_000_000
HALF_NS = quanta_to_ns(0xFFFF, RATE) // 2
STATIONS = 3
PLACE = PortContext(
    rate_bps=25 * 10**9,
    link_rate_bps=RATE,
    cp_mac=bytes.fromhex("020000000001"),
    stations=STATIONS,
    flows=1,
)
ABOUT = SampledFrame(octets=bytes(64), length_octets=64, msdu_offset=12)
QLENS = np.zeros(8, np.int64)


class Told(NamedTuple):
    """The contents of a message, in short."""

    now_ns: int
    station: int
    enable_vector: int
    quanta: int
    qlen_octets: int


class Port:
    """A congestion point, with functions that enqueue and dequeue frames."""

    def __init__(self, machine: FlowControlMachine, room: int = 64) -> None:
        point = machine.congestion_point(PLACE, np.random.default_rng(1))
        assert isinstance(point, FlowControlPoint)
        self.machine, self.point = machine, point
        self.outbox = new_outbox(room)

    def comes(
        self, now_ns: int, octets: int, *, station: int = 0, priority: int = 0, enqueued: bool = True
    ) -> list[Told]:
        self.point.on_arrival(
            Arrival(now_ns, station, 0, priority, octets, False, False, enqueued, False, 0, 0, 0, 0),
            self.outbox,
        )
        return self.said()

    def leaves(self, now_ns: int, octets: int, *, station: int = 0, priority: int = 0) -> list[Told]:
        self.point.on_dequeue(now_ns, station, priority, octets, 0, self.outbox)
        return self.said()

    def tick(self, now_ns: int) -> list[Told]:
        self.point.on_timer(now_ns, QLENS, self.outbox)
        return self.said()

    def said(self) -> list[Told]:
        """Remove and return the posted messages from the outbox."""
        told = [
            Told(*(int(m[name]) for name in ("time_ns", *Told._fields[1:])))
            for m in (fields_of(each, {}) for each in messages(self.outbox))
        ]
        assert all(int(m.kind) == self.machine.kind and m.sent == 1 for m in messages(self.outbox))
        self.outbox.posted.count = 0
        return told


def messages(outbox: Outbox) -> list[Message]:
    return [outbox.messages[index] for index in range(int(outbox.posted.count))]


def pause(**values: object) -> PauseMachine:
    chosen = GenerationParameters(high_octets=3000, low_octets=1000, **values)  # type: ignore[arg-type]
    return PauseMachine({Role.CONGESTION_POINT: chosen, Role.REACTION_POINT: PauseReactionParameters()})


def pfc(**values: object) -> PFCMachine:
    chosen = PFCGenerationParameters(high_octets=3000, low_octets=1000, **values)  # type: ignore[arg-type]
    return PFCMachine({Role.CONGESTION_POINT: chosen, Role.REACTION_POINT: PFCReactionParameters()})


def test_the_mechanisms_name_their_machines() -> None:
    assert isinstance(machine_of(PAUSE, {}), PauseMachine)
    assert isinstance(machine_of(PFC, {}), PFCMachine)


def test_input_occupancy_stops_only_its_station() -> None:
    port = Port(pause())
    assert port.machine.knows_stations
    assert port.comes(10, 2000, station=0, priority=1) == []
    assert port.comes(20, 2000, station=1, priority=1) == []
    # PAUSE applies to all priorities, so the frames of a station are counted together.
    assert port.comes(30, 1001, station=1, priority=5) == [Told(30, 1, 0xFF, 0xFFFF, 3001)]
    assert port.leaves(40, 2000, station=1, priority=1) == []
    assert port.leaves(50, 1, station=1, priority=5) == [Told(50, 1, 0xFF, 0, 1000)]
    assert port.point.next_timer_ns() == NEVER_NS


def test_pfc_counts_priorities_of_a_station_separately() -> None:
    port = Port(pfc())
    assert port.comes(10, 2000, station=2, priority=3) == []
    assert port.comes(20, 2000, station=2, priority=4) == []
    assert port.comes(30, 2000, station=2, priority=3) == [Told(30, 2, 0x08, 0xFFFF, 4000)]
    assert port.comes(40, 2000, station=2, priority=4) == [Told(40, 2, 0x10, 0xFFFF, 4000)]
    assert port.leaves(50, 3000, station=2, priority=3) == [Told(50, 2, 0x08, 0, 1000)]


def test_output_occupancy_stops_every_station() -> None:
    port = Port(pfc(pause_on="output"))
    assert not port.machine.knows_stations
    assert port.comes(10, 2000, station=0, priority=3) == []
    # Frames of unknown stations fill the queue, too.
    assert port.comes(20, 1500, station=-1, priority=3) == [Told(20, EVERY_STATION, 0x08, 0xFFFF, 3500)]
    assert port.comes(30, 2000, station=1, priority=4) == []
    assert port.leaves(40, 2500, station=-1, priority=3) == [Told(40, EVERY_STATION, 0x08, 0, 1000)]
    whole = Port(pause(pause_on="output"))
    whole.comes(10, 2000, station=0, priority=3)
    assert whole.comes(30, 2000, station=1, priority=4) == [Told(30, EVERY_STATION, 0xFF, 0xFFFF, 4000)]


def test_dropped_and_unknown_frames_occupy_no_input() -> None:
    port = Port(pause())
    assert port.comes(10, 9000, enqueued=False) == []
    assert port.comes(20, 9000, station=-1) == []
    assert port.leaves(30, 9000, station=-1) == []
    assert not port.point.octets.any()


def test_priority_that_takes_no_part_is_not_stopped() -> None:
    port = Port(pfc(priorities=frozenset({3})))
    assert port.comes(10, 9000, priority=4) == []
    assert port.point.next_timer_ns() == NEVER_NS
    assert port.leaves(20, 9000, priority=4) == []


def test_stops_are_refreshed_at_half_their_time() -> None:
    port = Port(pfc())
    assert port.point.next_timer_ns() == NEVER_NS
    port.comes(100, 4000, station=0, priority=3)
    port.comes(100, 4000, station=0, priority=5)
    port.comes(200, 4000, station=2, priority=5)
    assert port.point.next_timer_ns() == 100 + HALF_NS
    assert port.tick(99 + HALF_NS) == []
    # One PFC frame contains all priorities of a link that are due. The message has the lowest priority.
    assert port.tick(100 + HALF_NS) == [Told(100 + HALF_NS, 0, 0x28, 0xFFFF, 4000)]
    assert port.outbox.messages[0].priority == 3
    assert port.point.next_timer_ns() == 200 + HALF_NS
    assert port.tick(200 + HALF_NS) == [Told(200 + HALF_NS, 2, 0x20, 0xFFFF, 4000)]
    assert port.point.next_timer_ns() == 100 + 2 * HALF_NS
    assert port.machine.counters(port.point) == {"xoff_frames": 3, "xon_frames": 0, "refresh_frames": 2}


def test_refreshes_that_find_no_room_come_later() -> None:
    port = Port(pause(), room=2)
    for station in range(STATIONS):
        assert len(port.comes(100, 4000, station=station)) == 1
    due_ns = 100 + HALF_NS
    assert [told.station for told in port.tick(due_ns)] == [0, 1]
    assert port.point.next_timer_ns() == due_ns
    assert [told.station for told in port.tick(due_ns)] == [2]
    assert port.point.next_timer_ns() == due_ns + HALF_NS


def test_stations_obey_xoff_refresh_and_xon() -> None:
    port = Port(pfc())
    gates = new_gates(STATIONS, rate_bps=RATE, pause=False, pfc_priorities=frozenset(range(8)))
    told: list[tuple[int, int, int]] = []

    def obey_all(now_ns: int, *sent: Told) -> None:
        for index, each in enumerate(sent):
            obey(gates, each.station, port.outbox.messages[index], now_ns)
            told.append((each.station, each.enable_vector, each.quanta))

    # Station 1 sends too many frames of priority 3 and is stopped. Its priority 4 and other stations
    # continue.
    obey_all(1_000, *port.comes(0, 4000, station=1, priority=3))
    assert opens_ns(gates, 1, 3, 1_000) == 1_000 + 2 * HALF_NS
    assert opens_ns(gates, 1, 4, 1_000) == opens_ns(gates, 0, 3, 1_000) == 1_000
    # After half of the time, a refresh extends the pause.
    due_ns = port.point.next_timer_ns()
    obey_all(due_ns + 1_000, *port.tick(due_ns))
    assert opens_ns(gates, 1, 3, due_ns) == 1_000 + 3 * HALF_NS
    # The queue empties, and the station may send immediately.
    obey_all(due_ns + 6_000, *port.leaves(due_ns + 5_000, 4000, station=1, priority=3))
    assert opens_ns(gates, 1, 3, due_ns + 6_000) == due_ns + 6_000
    assert told == [(1, 0x08, 0xFFFF), (1, 0x08, 0xFFFF), (1, 0x08, 0)]
    assert port.point.next_timer_ns() == NEVER_NS


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, HALF_NS // 2), st.integers(0, 2), st.integers(0, 7), st.integers(-3000, 3000)
        ),
        max_size=50,
    ),
    by_priority=st.booleans(),
    pause_on=st.sampled_from(["input", "output"]),
)
def test_equals_literal_senders_of_each_station_and_class(
    steps: list[tuple[int, int, int, int]], by_priority: bool, pause_on: str
) -> None:
    machine = pfc(pause_on=pause_on) if by_priority else pause(pause_on=pause_on)
    port = Port(machine)
    senders = {
        (station, number): LiteralSender(high=3000, low=1000, rate=RATE)
        for station in (range(STATIONS) if pause_on == "input" else [EVERY_STATION])
        for number in (range(8) if by_priority else [0])
    }
    frames: dict[tuple[int, int], int] = {}
    occupancies = dict.fromkeys(senders, 0)
    now_ns = 0
    for gap_ns, station, priority, grows in steps:
        now_ns += gap_ns
        while port.point.next_timer_ns() <= now_ns:
            tick_ns = port.point.next_timer_ns()
            refreshed: dict[int, int] = {}
            for (link, number), sender in senders.items():
                if sender.clock(tick_ns) is not None:
                    refreshed[link] = refreshed.get(link, 0) | (1 << number if by_priority else 0xFF)
            assert {told.station: told.enable_vector for told in port.tick(tick_ns)} == refreshed
        assert not any(sender.stopped and now_ns >= sender.told + sender.half for sender in senders.values())
        octets = max(grows, -frames.get((station, priority), 0))
        frames[station, priority] = frames.get((station, priority), 0) + octets
        key = (station if pause_on == "input" else EVERY_STATION, priority if by_priority else 0)
        occupancies[key] += octets
        quanta = senders[key].occupancy(now_ns, occupancies[key])
        told = (
            port.comes(now_ns, octets, station=station, priority=priority)
            if octets >= 0
            else port.leaves(now_ns, -octets, station=station, priority=priority)
        )
        vector = 1 << key[1] if by_priority else 0xFF
        expected = [] if quanta is None else [Told(now_ns, key[0], vector, quanta, occupancies[key])]
        assert told == expected
        assert (port.point.next_timer_ns() == NEVER_NS) == (not any(s.stopped for s in senders.values()))


def test_stations_do_not_disturb_each_other() -> None:
    frames = crossing(3, steps=1500, stations=STATIONS, buffer_octets=60_000, gap_ns=2_000)
    machine = pfc()
    every = said(shown(machine.congestion_point(PLACE, np.random.default_rng(1)), frames))
    assert every
    where = list(Message.__annotations__).index("station")
    for station in range(STATIONS):
        mine = frames.station == station
        alone = frames._replace(**{name: column[mine] for name, column in frames._asdict().items()})
        own = said(shown(machine.congestion_point(PLACE, np.random.default_rng(1)), alone))
        assert own == [message for message in every if message[where] == station]


def test_on_output_occupancy_is_queues_own_length() -> None:
    frames = crossing(4, steps=1500, stations=STATIONS, buffer_octets=60_000, gap_ns=2_000)
    machine = pfc(pause_on="output")
    outbox = shown(machine.congestion_point(PLACE, np.random.default_rng(1)), frames)
    assert outbox.posted.count > 5
    for message in messages(outbox):
        step = np.searchsorted(frames.now_ns, message.time_ns, side="right") - 1
        assert message.qlen_octets == frames.qlens_octets[step][message.priority]


def test_compiled_and_plain_runs_are_identical() -> None:
    other = "0" if os.environ.get("NUMBA_DISABLE_JIT", "0") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mechanisms.pause.machine_trace", "7"],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": other},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == trace(7)


@given(
    by_priority=st.booleans(),
    vector=st.integers(1, 0xFF),
    quanta=st.integers(0, 0xFFFF),
    obeyed=st.frozensets(st.integers(0, 7), min_size=1),
)
def test_a_message_does_what_its_frame_says(
    by_priority: bool, vector: int, quanta: int, obeyed: frozenset[int]
) -> None:
    message = new_record(Message)
    message.kind = PFC_KIND if by_priority else PAUSE_KIND
    flow_control_payload(message).enable_vector = vector if by_priority else 0xFF
    flow_control_payload(message).quanta = quanta
    octets = (pfc() if by_priority else pause()).frame(message, ABOUT, PLACE)
    assert len(octets) == 60
    assert octets[6:12] == PLACE.cp_mac
    frame = read_flow_control(octets)
    assert frame.kind == (KIND_PFC if by_priority else KIND_PAUSE)
    assert frame.enable_vector == flow_control_payload(message).enable_vector
    named = [time for number, time in enumerate(frame.times_quanta) if frame.enable_vector >> number & 1]
    assert set(named) == {quanta}
    gates = new_gates(1, rate_bps=RATE, pause=True, pfc_priorities=obeyed)
    obey(gates, 0, message, 50)
    for priority, time in enumerate(frame.times_quanta):
        holds = frame.enable_vector >> priority & 1 and (not by_priority or priority in obeyed)
        assert opens_ns(gates, 0, priority, 50) == 50 + (quanta_to_ns(time, RATE) if holds else 0)


def test_no_frame_of_another_kind_is_built() -> None:
    message = new_record(Message)
    message.kind = SILENT
    with pytest.raises(ParameterError, match="PAUSE or PFC"):
        pause().frame(message, ABOUT, PLACE)
