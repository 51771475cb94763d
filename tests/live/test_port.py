"""The software switch port in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.port import ENQUEUED
from ecmproto.control.live.port import SwitchPort, buffer_of
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.messages import pause_frame, pfc_frame
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.errors import ParameterError
from ecmproto.frames.capture.batch import Batch
from ecmproto.units import serialisation_ns
from ecmproto.wire.codec import CNM, decode
from tests.live.virtual import CP_MAC, GROUP, HOST, START_NS, Came, Clock, frame, machine_for, switch_port
from tests.replay.loops import BUSY
from tests.replay.many_kinds import TAGS, VLAN

LIVE = sorted(BUSY.keys() - {"hpcc", "isolation"})

RECEIVER = 250
OUTPUT = 2


def crowd(mechanism: str, *, count: int = 1500, seed: int = 1) -> list[Came]:
    """Return frames from two inputs, more than the output can carry, tagged as reaction points would."""
    draws = np.random.default_rng(seed)
    frames = []
    now_ns = 0
    for number in range(count):
        interface = int(draws.integers(2)) if number > 1 else number
        octets = int(draws.choice([60, 400, 1500]))
        head = f"8100 {int(draws.choice([0, 3, 5])) << 13 | 7:04x}"
        if mechanism in TAGS and draws.random() < 0.7:
            head += TAGS[mechanism].replace("0200000000cc0004", CP_MAC.hex() + "0001")
        frames.append(
            Came(now_ns, interface, frame(interface + 1, RECEIVER, octets, head=head, number=number))
        )
        now_ns += int(draws.exponential(8.0 * (octets + 24) / 1.5))
    return frames


def replayed(mechanism: str, frames: list[Came]) -> dict[str, Any]:
    """Return the result of the same frames in an open-loop replay."""
    batch = Batch.from_frames(
        [came.octets for came in frames], time_ns=[came.time_ns for came in frames], interface=0
    )
    replay = OpenLoopReplay(
        [batch],
        machine=machine_for(mechanism, BUSY[mechanism]),
        port=PortConfig(rate_bps=10**9, buffer_octets=150_000, cp_mac=CP_MAC),
        seed=1,
    )
    (piece,) = replay
    carried = piece.forwarded()
    return {
        "messages": [(made.time_ns, made.octets) for _, made in piece.generated()],
        "enqueued": [carried.frame(i) for i in np.flatnonzero(piece.disposition == ENQUEUED).tolist()],
        "summary": replay.summary().ports[0],
    }


@pytest.mark.parametrize("mechanism", ["hpcc", "isolation"])
def test_ports_that_change_frames_or_queues_are_refused(mechanism: str) -> None:
    with pytest.raises(ParameterError, match=f"expected one whose ports add no records .*, got {mechanism}"):
        switch_port(Clock(), machine_for(mechanism, []))


@pytest.mark.parametrize("mechanism", LIVE)
def test_a_port_equals_replay_of_its_arrivals(mechanism: str) -> None:
    frames = crowd(mechanism)
    expected = replayed(mechanism, frames)
    clock = Clock()
    port = switch_port(clock, machine_for(mechanism, BUSY[mechanism]))
    clock.drive(port, frames)
    last_ns = frames[-1].time_ns
    messages = Counter(
        (left.time_ns, left.octets)
        for left in clock.left
        if left.interface != OUTPUT and left.octets[6:12] == CP_MAC and left.time_ns <= last_ns
    )
    # PAUSE is for every station and leaves through both inputs. PFC leaves through one input here (BUSY).
    copies = 2 if mechanism == "pause" else 1
    assert messages == Counter(expected["messages"] * copies)
    assert sorted(clock.out_of(OUTPUT)) == sorted(expected["enqueued"])
    counts, summary = port.counts, expected["summary"]
    assert (counts.dropped_frames, counts.dropped_octets) == (summary.dropped_frames, summary.dropped_octets)
    assert counts.dropped_frames > 0 or mechanism in ("pause", "pfc")
    assert counts.departed_frames == counts.queued_frames == len(expected["enqueued"])
    if mechanism not in ("none", "dbp", "dcqcn", "ecn", "csig", "fecn", "swift"):
        assert expected["messages"]


def test_frames_leave_after_their_serialisation_time() -> None:
    clock = Clock()
    clock.drive(switch_port(clock), [Came(1000, 0, frame(1, RECEIVER, 1000)) for _ in range(3)])
    each_ns = serialisation_ns(1024, 10**9)
    assert [left.time_ns for left in clock.left if left.interface == OUTPUT] == [
        1000 + each_ns, 1000 + 2 * each_ns, 1000 + 3 * each_ns,
    ]  # fmt: skip


def test_higher_priorities_leave_first_in_order() -> None:
    clock = Clock()
    frames = [
        Came(0, 0, frame(1, RECEIVER, head=f"8100 {priority << 13:04x}", number=number))
        for number, priority in enumerate([0, 0, 5, 0, 5, 7])
    ]
    clock.drive(switch_port(clock), frames)
    numbers = [octets[18:22][-1] for octets in clock.out_of(OUTPUT)]
    assert numbers == [0, 5, 2, 4, 1, 3]


def test_late_calls_do_not_change_the_output() -> None:
    frames = crowd("qcn", count=400)
    clocks = Clock(), Clock()
    for clock in clocks:
        port = switch_port(clock, machine_for("qcn", BUSY["qcn"]))
        if clock is clocks[0]:
            clock.drive(port, frames)
            continue
        for came in frames:
            port.take(Batch.from_frames([came.octets]), came.interface, START_NS + came.time_ns)
        port.advance(START_NS + 10**9)
    for interface in range(3):
        assert clocks[0].out_of(interface) == clocks[1].out_of(interface)


def test_a_batch_equals_frames_arriving_together() -> None:
    frames = [frame(1, RECEIVER, 100 + number, number=number) for number in range(700)]
    clocks = Clock(), Clock()
    one, many = (switch_port(clock, buffer_octets=10**6) for clock in clocks)
    for octets in frames:
        one.take(Batch.from_frames([octets]), 0, START_NS)
    many.take(Batch.from_frames(frames), 0, START_NS)
    for port, clock in zip((one, many), clocks, strict=True):
        clock.pass_until(port, NEVER_NS)
    assert clocks[0].left == clocks[1].left
    assert len(clocks[0].out_of(OUTPUT)) == 700


def test_tags_do_not_count_towards_the_buffer() -> None:
    rd_tag = "88b6 0300 0001 ffffffff"
    octets = [frame(1, RECEIVER, 500), frame(1, RECEIVER, 510, head=rd_tag), frame(1, RECEIVER, 500)]
    clock = Clock()
    port = switch_port(clock, machine_for("fecn"), buffer_octets=1_000)
    port.take(Batch.from_frames(octets), 0, START_NS)
    assert (port.counts.queued_octets, port.counts.dropped_frames) == (1_010, 1)


def test_a_buffer_in_frames_ignores_frame_length() -> None:
    clock = Clock()
    frames, octets = buffer_of("3frames")
    port = switch_port(clock, frames=frames, buffer_octets=octets, buffer_frames=frames)
    port.take(Batch.from_frames([frame(1, RECEIVER, 2000) for _ in range(5)]), 0, START_NS)
    assert (port.counts.queued_octets, port.counts.dropped_frames) == (6_000, 2)


def test_frames_beyond_the_queue_limit_are_dropped() -> None:
    clock = Clock()
    port = switch_port(clock, frames=10)
    port.take(Batch.from_frames([frame(1, RECEIVER)] * 25), 0, START_NS)
    assert (port.counts.queued_frames, port.counts.dropped_frames) == (10, 15)
    assert port.snapshot(START_NS).gauges["queue_frames"] == 10
    clock.pass_until(port, NEVER_NS)
    assert port.snapshot(clock.now_ns).gauges["queue_frames"] == 0
    assert len(clock.out_of(OUTPUT)) == 10


class TestBridging:
    def frames_of(self, port: SwitchPort, clock: Clock, interface: int, octets: bytes) -> dict[int, int]:
        """Return the number of frames that leave through each interface after one frame arrived."""
        clock.left.clear()
        port.take(Batch.from_frames([octets]), interface, clock.now_ns)
        clock.pass_until(port, NEVER_NS)
        return {where: len(clock.out_of(where)) for where in range(3) if clock.out_of(where)}

    def learned(self) -> tuple[SwitchPort, Clock]:
        """Return a port that has learned 1 and 11 at input 0, 2 at input 1 and the receiver at the output."""
        clock = Clock()
        port = switch_port(clock)
        for interface, source in ((0, 1), (0, 11), (1, 2), (OUTPUT, RECEIVER)):
            self.frames_of(port, clock, interface, frame(source, 99))
        return port, clock

    @pytest.mark.parametrize(
        ("interface", "destination", "expected"),
        [
            (0, RECEIVER, {OUTPUT: 1}),
            (0, 2, {1: 1}),
            (0, 11, {}),
            (0, GROUP, {1: 1, OUTPUT: 1}),
            (0, 99, {1: 1, OUTPUT: 1}),
            (OUTPUT, 1, {0: 1}),
            (OUTPUT, RECEIVER, {}),
            (OUTPUT, GROUP, {0: 1, 1: 1}),
            (0, bytes.fromhex("0180c200000e"), {}),
        ],
    )
    def test_frames_are_forwarded_to_the_learned_interface(
        self, interface: int, destination: int | bytes, expected: dict[int, int]
    ) -> None:
        port, clock = self.learned()
        source = 77 if interface == OUTPUT else 1 if interface == 0 else 2
        assert self.frames_of(port, clock, interface, frame(source, destination)) == expected

    def test_a_moved_station_is_learned_again(self) -> None:
        port, clock = self.learned()
        self.frames_of(port, clock, 1, frame(1, 99))
        assert self.frames_of(port, clock, OUTPUT, frame(RECEIVER, 1)) == {1: 1}

    def test_a_silent_station_is_forgotten(self) -> None:
        port, clock = self.learned()
        clock.now_ns += 301 * 10**9
        assert self.frames_of(port, clock, OUTPUT, frame(RECEIVER, 1)) == {0: 1, 1: 1}

    def test_the_address_table_has_limited_size(self) -> None:
        port, clock = self.learned()
        draws = np.random.default_rng(1)
        for _ in range(20):
            sources = draws.integers(0, 256, (500, 6), np.uint8)
            sources[:, 0] &= 0xFE
            rows = np.zeros((500, 60), np.uint8)
            rows[:, 6:12] = sources
            port.take(Batch.from_matrix(rows), 0, clock.now_ns)
            clock.pass_until(port, NEVER_NS)
        assert port.counts.learned > 9000
        assert len(port.switch.addresses.address) == 4096
        self.frames_of(port, clock, 1, frame(2, 99))
        assert self.frames_of(port, clock, OUTPUT, frame(RECEIVER, 2)) == {1: 1}


def test_messages_leave_by_the_sources_interface() -> None:
    clock = Clock()
    port = switch_port(clock, machine_for("qcn", BUSY["qcn"]))
    frames = [Came(0, number % 2, frame(1 + number % 2, RECEIVER, 1500)) for number in range(80)]
    clock.drive(port, frames)
    for interface in (0, 1):
        made = [octets for octets in clock.out_of(interface) if octets[6:12] == CP_MAC]
        assert made
        assert {octets[:6] for octets in made} == {HOST + bytes([1 + interface])}
        assert all(decode(octets).get(CNM) for octets in made)
    assert port.messages["CNM"] == sum(octets[6:12] == CP_MAC for _, _, octets in clock.left)


def test_rate_reports_are_lowered_on_their_way_back() -> None:
    clock = Clock()
    port = switch_port(clock, machine_for("dbp", ["cp.N0=10"]))
    clock.drive(port, crowd("dbp", count=100))
    report = bytes.fromhex("020000000001 0200000000fa 88b5 0400 0000 ffffffff".replace(" ", ""))
    clock.left.clear()
    port.take(Batch.from_frames([report.ljust(60, b"\0")]), OUTPUT, clock.now_ns)
    (left,) = clock.left
    assert left.interface == 0
    assert left.octets[:18] == report[:18]
    assert int.from_bytes(left.octets[18:22]) <= 10**9 // 10 // 1000


@given(
    st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=200)), max_size=30),
    st.sampled_from(LIVE),
)
def test_arbitrary_frames_never_stop_a_port(frames: list[tuple[int, bytes]], mechanism: str) -> None:
    clock = Clock()
    port = switch_port(clock, machine_for(mechanism, BUSY[mechanism]))
    for interface, octets in frames:
        port.take(Batch.from_frames([octets]), interface, clock.now_ns)
        clock.now_ns += 100
    clock.pass_until(port, NEVER_NS)
    assert port.counts.queued_frames == port.counts.departed_frames


def test_cut_long_and_short_frames_are_refused() -> None:
    clock = Clock()
    port = switch_port(clock, largest_octets=1600)
    cut = Batch.from_frames([frame(1, RECEIVER)], original=2000)
    for batch in (cut, Batch.from_frames([b"\0" * 13]), Batch.from_frames([frame(1, RECEIVER, 1601)])):
        port.take(batch, 0, START_NS)
    assert port.counts.refused_frames == 3
    assert port.due_ns == NEVER_NS


def test_other_tags_and_every_octet_are_kept() -> None:
    heads = [VLAN, *(f"{VLAN} {tag}" for tag in TAGS.values() if "0300" not in tag)]
    frames = [frame(1, RECEIVER, 300, head=head, number=n) for n, head in enumerate(heads)]
    clock = Clock()
    clock.drive(switch_port(clock), [Came(0, 0, octets) for octets in frames])
    assert clock.out_of(OUTPUT) == frames


PFC_ALL = range(8)


def paused(quanta: int, source: int = RECEIVER) -> bytes:
    return pause_frame(Signal(0xFF, quanta), src=HOST + bytes([source]))


def pfc(quanta: int, *priorities: int) -> bytes:
    return pfc_frame(Signal(sum(1 << p for p in priorities), quanta), src=HOST + bytes([RECEIVER]))


class TestPausesFromTheOutput:
    """At 1 Gb/s a quantum is 512 ns, and a frame of 976 octets takes 8 µs."""

    def left(
        self, frames: list[Came], *, obeys: str | None, until_ns: int | None = None
    ) -> tuple[list[tuple[int, int]], SwitchPort]:
        """Return the times in µs and the priorities of frames that leave the output, and the port."""
        clock = Clock()
        port = switch_port(clock, obeys=obeys)
        clock.drive(port, frames)
        clock.now_ns += until_ns or 0
        return [
            (left.time_ns // 1000, left.octets[14] >> 5) for left in clock.left if left.interface == OUTPUT
        ], port

    def frame(self, time_us: int, priority: int = 0) -> Came:
        octets = frame(1, RECEIVER, 976, head=f"8100 {priority << 13:04x}")
        return Came(1000 * time_us, 0, octets)

    def test_pause_stops_all_after_the_current_frame(self) -> None:
        frames = [self.frame(0), self.frame(0, 3), Came(4_000, OUTPUT, paused(1000))]
        left, port = self.left(frames, obeys="pause")
        assert left == [(8, 0), (4 + 512 + 8, 3)]
        counters = port.snapshot(START_NS + 10**9).counters
        assert counters["downstream_pause_frames"] == 1
        assert {counters[f"stopped_ns_priority_{p}"] for p in PFC_ALL} == {512_000}

    def test_a_pause_of_0_quanta_resumes(self) -> None:
        frames = [Came(0, OUTPUT, paused(65535)), self.frame(1), Came(100_000, OUTPUT, paused(0))]
        left, _ = self.left(frames, obeys="pause")
        assert left == [(108, 0)]

    def test_pfc_stops_only_its_priorities_in_order(self) -> None:
        frames = [
            Came(0, OUTPUT, pfc(1000, 3, 5)), self.frame(1, 3), self.frame(2, 5), self.frame(3, 0),
            self.frame(4, 3), self.frame(5, 0), Came(200_000, OUTPUT, pfc(0, 5)),
        ]  # fmt: skip
        left, port = self.left(frames, obeys="pfc")
        assert left == [(11, 0), (19, 0), (208, 5), (520, 3), (528, 3)]
        counters = port.snapshot(START_NS + 10**9).counters
        assert counters["downstream_pfc_frames"] == 2
        assert [counters[f"stopped_ns_priority_{p}"] for p in PFC_ALL] == [0, 0, 0, 512_000, 0, 200_000, 0, 0]

    @pytest.mark.parametrize("obeys", ["pause", "pfc"])
    def test_forged_or_disabled_pauses_are_only_counted(self, obeys: str) -> None:
        other = {"pause": pfc(1000, *PFC_ALL), "pfc": paused(1000)}[obeys]
        forged = paused(1000)[:5] + b"\x07" + paused(1000)[6:]
        frames = [Came(0, OUTPUT, other), Came(0, OUTPUT, forged), self.frame(1)]
        left, port = self.left(frames, obeys=obeys)
        assert left == [(9, 0)]
        counters = port.snapshot(START_NS + 10**6).counters
        assert (counters["downstream_ignored_frames"], counters["downstream_refused_frames"]) == (1, 1)

    def test_pauses_from_inputs_are_ignored(self) -> None:
        for interface, source, obeys in ((0, 1, "pause"), (OUTPUT, RECEIVER, None)):
            left, _ = self.left([Came(0, interface, paused(1000, source)), self.frame(1)], obeys=obeys)
            assert left == [(9, 0)]

    def test_frames_exceeding_the_buffer_while_paused_drop(self) -> None:
        frames = [Came(0, OUTPUT, paused(65535)), *(self.frame(n) for n in range(1, 31))]
        clock = Clock()
        port = switch_port(clock, obeys="pause", frames=10)
        clock.drive(port, frames)
        assert (port.counts.queued_frames, port.counts.dropped_frames) == (10, 20)
        assert len(clock.out_of(OUTPUT)) == 10

    @given(
        pauses=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7), st.integers(0, 300)), max_size=12),
        frames=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 7)), max_size=30),
    )
    @example(pauses=[(197, 0, 4), (198, 0, 0)], frames=[(198, 0)])
    def test_no_frame_starts_while_its_priority_stops(
        self, pauses: list[tuple[int, int, int]], frames: list[tuple[int, int]]
    ) -> None:
        came = [Came(1000 * at, OUTPUT, pfc(quanta, priority)) for at, priority, quanta in pauses]
        came = sorted([*came, *(self.frame(*one) for one in frames)])
        left, _ = self.left(came, obeys="pfc")
        assert sorted(priority for _, priority in left) == sorted(priority for _, priority in frames)
        until: dict[int, list[tuple[int, int]]] = {}
        for at, priority, quanta in sorted(pauses, key=lambda pause: pause[0]):
            until.setdefault(priority, []).append((1000 * at, 1000 * at + 512 * quanta))
        for leaves_us, priority in left:
            start_ns = 1000 * (leaves_us - 8)
            times = until.get(priority, [])
            ends = [end for at, end in times if at < start_ns]
            # A frame may start when a simultaneous PFC frame releases its priority.
            assert not ends or start_ns + 1000 > ends[-1] or (start_ns, start_ns) in times

    def watched(self, frames: list[Came], *, obeys: str) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """Return the frames that leave a port with a watchdog of 200 µs, and the port's counters one second
        later.
        """
        clock = Clock()
        port = switch_port(clock, obeys=obeys, watchdog_ns=200_000)
        clock.drive(port, frames)
        left = [
            (each.time_ns // 1000, each.octets[14] >> 5) for each in clock.left if each.interface == OUTPUT
        ]
        return left, dict(port.snapshot(START_NS + 10**9).counters)

    def test_a_watchdog_ends_an_endless_pause_storm(self) -> None:
        storm = [Came(1000 * at, OUTPUT, paused(65535)) for at in range(0, 1000, 50)]
        frames = sorted([*storm, self.frame(1), self.frame(500, 3)], key=lambda came: came.time_ns)
        left, counters = self.watched(frames, obeys="pause")
        assert left == [(208, 0), (508, 3)]
        assert counters["watchdog_trips"] == 8
        assert counters["watchdog_ignored_times"] == 8 * sum(came.time_ns >= 200_000 for came in storm)
        assert {counters[f"stopped_ns_priority_{p}"] for p in PFC_ALL} == {200_000}

    def test_a_watchdog_obeys_again_after_silence(self) -> None:
        frames = [
            Came(0, OUTPUT, pfc(65535, 3)), self.frame(1, 3), self.frame(2, 0),
            Came(500_000, OUTPUT, pfc(100, 3)), self.frame(501, 3),
        ]  # fmt: skip
        left, counters = self.watched(frames, obeys="pfc")
        assert left == [(10, 0), (208, 3), (500 + 51 + 8, 3)]
        assert (counters["watchdog_trips"], counters["watchdog_ignored_times"]) == (1, 0)

    def test_an_idle_watchdog_changes_nothing(self) -> None:
        pauses = [Came(1000 * at, OUTPUT, paused(200)) for at in range(0, 1000, 150)]
        resumes = [Came(1000 * at, OUTPUT, paused(0)) for at in (160, 460)]
        frames = sorted(
            [*pauses, *resumes, *map(self.frame, range(1, 999, 20))], key=lambda came: came.time_ns
        )
        left, counters = self.watched(frames, obeys="pause")
        assert left == self.left(frames, obeys="pause")[0]
        assert counters["watchdog_trips"] == 0

    def test_without_a_watchdog_pauses_are_unlimited(self) -> None:
        storm = [Came(1000 * at, OUTPUT, paused(65535)) for at in range(0, 1000, 50)]
        left, _ = self.left([*storm, self.frame(999)], obeys="pause")
        assert left == [(950 + 33_553 + 8, 0)]
