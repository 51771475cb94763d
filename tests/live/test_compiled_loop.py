"""Device loops in compiled code, on sockets that need no permissions: forwarded frames, and ends of the
loop.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.live.device import CompiledDevice
from ecmproto.control.live.edge import HOST, NET, Edge
from ecmproto.control.live.port import SwitchPort
from ecmproto.control.live.reaction_point import HOST as SENDER
from ecmproto.control.live.reaction_point import NET as NETWORK
from ecmproto.control.live.reaction_point import ReactionPoint
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.departures import new_counts
from ecmproto.frames.capture.linux.packet_socket import SLOT_HEADER
from ecmproto.frames.capture.linux.receiver import Ring, RingFacts
from ecmproto.frames.capture.linux.wires import Sockets, count_late, lateness_gauges, sleep
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec import CNM, decode
from tests.live.virtual import CP_MAC, Clock, frame, machine_for
from tests.namespaces import PATIENCE_S
from tests.replay.many_kinds import TAGS

INPUTS = 2
MS = 1_000_000
RECEIVER = 250
EDGE_MAC = bytes.fromhex("0200000000ee")


class Bench:
    """A port between sockets. Frames that are sent to ``ends[i]`` arrive at interface i."""

    def __init__(self, mechanism: str, rate_bps: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(INPUTS + 2)]
        self.ends = [end for end, _ in pairs]
        self.own = [own for _, own in pairs]
        for each in (*self.ends, *self.own):
            each.setblocking(False)
        self.sockets = Sockets(INPUTS + 1, frame_octets=2048)
        *numbers, bell = [own.fileno() for own in self.own]
        self.sockets.attach(numbers, numbers, bell)
        self.clock = Clock()
        self.port = port_of(mechanism, rate_bps, self.clock, time.monotonic_ns())

    def serve(self, milliseconds: int) -> None:
        """Run the port for some milliseconds."""
        self.port.serve(self.sockets, time.monotonic_ns() + milliseconds * MS, 0)

    def settle(self) -> None:
        """Run the port until no work is pending."""
        deadline = time.monotonic() + PATIENCE_S
        while select.select(self.own, [], [], 0)[0] or self.port.due_ns != NEVER_NS:
            assert time.monotonic() < deadline
            self.serve(1)

    def received(self, interface: int) -> list[bytes]:
        """Return the frames that the port has sent on an interface since the last call."""
        frames = []
        try:
            while True:
                frames.append(self.ends[interface].recv(4096))
        except BlockingIOError:
            return frames


def port_of(mechanism: str, rate_bps: int, clock: Clock, start_ns: int) -> SwitchPort:
    return SwitchPort(
        machine_for(mechanism, []), PortConfig(rate_bps=rate_bps, buffer_octets=10**6, cp_mac=CP_MAC),
        inputs=INPUTS, frames=1000, seed=7, start_ns=start_ns, send=clock.send,
    )  # fmt: skip


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(*request.param)
    yield made
    for each in (*made.ends, *made.own):
        each.close()


def traffic() -> list[tuple[int, bytes]]:
    """Return queued, bridged, flooded and discarded frames, each with its input interface."""
    learned = [(INPUTS, frame(RECEIVER, b"\xff" * 6)), (0, frame(1, RECEIVER)), (1, frame(2, RECEIVER))]
    bridged = [(0, frame(1, 2, 200)), (INPUTS, frame(RECEIVER, 1, 300)), (1, frame(2, 77, 400))]
    own = [(0, bytes.fromhex("0180c2000001") + bytes(54)), (1, b"\x02" * 10)]
    return learned + [each for n in range(3) for each in (*bridged, *own, (0, frame(1, RECEIVER, number=n)))]


@pytest.mark.parametrize("bench", [("none", 10**10), ("qcn", 10**10)], indirect=True)
def test_compiled_and_plain_ports_forward_equally(bench: Bench) -> None:
    clock = Clock()
    port = port_of(bench.port.machine.name, 10**10, clock, 0)
    left: list[list[bytes]] = [[], [], []]
    for number, (interface, octets) in enumerate(traffic()):
        bench.ends[interface].send(octets)
        bench.settle()
        for each, frames in enumerate(left):
            frames += bench.received(each)
        port.take(Batch.from_frames([octets]), interface, number * MS)
        port.advance(number * MS + MS // 2)
    assert left == [clock.out_of(each) for each in range(INPUTS + 1)]
    bench.port.counts.missed_ns = 0  # the processor's, not the port's
    assert bench.port.counts == port.counts
    assert bench.sockets.wires.sent.tolist() == [len(frames) for frames in left]
    assert bench.sockets.wires.sent_octets.tolist() == [sum(map(len, frames)) for frames in left]


@pytest.mark.parametrize("bench", [("none", 10**10)], indirect=True)
def test_simultaneous_inputs_are_served_in_turn(bench: Bench) -> None:
    leaders = []
    for turn in range(4):
        for interface in range(INPUTS):
            bench.ends[interface].send(frame(1 + interface, RECEIVER, number=turn))
        bench.settle()
        leaders.append(bench.received(INPUTS)[0][11])
    assert leaders == [1, 2, 1, 2]


def ring_of(frames: Sequence[tuple[int, bytes]]) -> Ring:
    """Return a ring that the kernel would fill with these frames, with times of the real-time clock."""
    slots, facts = np.zeros((256, 2048), np.uint8), new_record(RingFacts)
    facts.at, facts.slots, facts.slot_octets = slots.ctypes.data, *slots.shape
    for slot, (came_ns, octets) in zip(slots, frames, strict=False):
        slot[128 : 128 + len(octets)] = np.frombuffer(octets, np.uint8)
        head = slot[: SLOT_HEADER.itemsize].view(SLOT_HEADER)
        head["status"], head["mac"], head["captured"], head["original"] = 1, 128, len(octets), len(octets)
        head["seconds"], head["ns"] = divmod(came_ns, 10**9)
    return Ring(facts, slots.reshape(-1), slots.reshape(-1).view(np.uint32))


@pytest.mark.alone  # the maximum time that the device catches up
@pytest.mark.parametrize("bench", [("none", 10**7), ("fecn", 10**7)], indirect=True)
def test_a_delayed_port_catches_up_in_order(bench: Bench) -> None:
    *numbers, bell = [own.fileno() for own in bench.own]
    bench.sockets.attach(numbers, numbers, bell, [ring_of([]), ring_of([]), ring_of([])])
    bench.serve(1)
    bench.port.switch.clock.start_ns -= 1000 * MS
    # One frame per millisecond, to alternating inputs. A frame takes 0.82 ms on the line.
    begin_ns = time.time_ns() - 50 * MS
    sent = [(begin_ns + n * MS, frame(n % 2 + 1, RECEIVER, 1000, number=n)) for n in range(50)]
    bench.sockets.attach(numbers, numbers, bell, [ring_of(sent[::2]), ring_of(sent[1::2]), ring_of([])])
    for end in bench.ends[:INPUTS]:
        end.send(b"frames are in the ring")
    bench.serve(3)
    left = [*bench.received(INPUTS), *bench.clock.out_of(INPUTS)]
    assert sorted(int.from_bytes(octets[14:18]) for octets in left) == list(range(50))
    seen = bench.port.snapshot(time.monotonic_ns())
    # The steps are one millisecond plus the transmission time. Otherwise, a step would be 50 000 octets.
    assert seen.gauges["queue_peak_octets"] <= 25_000
    assert seen.counters["missed_ns"] == 0
    # Nobody could have heard of rates in between.
    assert seen.mechanism.get("updates", 0) <= 10


@pytest.mark.parametrize("bench", [("none", 10**7)], indirect=True)
def test_a_port_skips_delays_beyond_200_ms(bench: Bench) -> None:
    *numbers, bell = [own.fileno() for own in bench.own]
    bench.port.switch.clock.start_ns -= 1000 * MS
    came = ring_of([(time.time_ns() - 900 * MS, frame(1, RECEIVER, 1000))])
    bench.sockets.attach(numbers, numbers, bell, [came, ring_of([]), ring_of([])])
    bench.ends[0].send(b"a frame is in the ring")
    bench.serve(3)
    assert bench.port.counts.missed_ns >= 700 * MS
    assert len(bench.received(INPUTS)) == 1


@pytest.mark.parametrize("bench", [("qcn", 10**6)], indirect=True)
def test_messages_refer_to_frames_that_caused_them(bench: Bench) -> None:
    sent = [frame(1, RECEIVER, 1400, number=number) for number in range(450)]
    sends_in_batches(bench, sent)
    said = [left.octets for left in bench.clock.left if left.interface == 0]
    assert len(said) == bench.port.messages["CNM"] > 0
    started = [octets[:64] for octets in sent]
    for octets in said:
        message = decode(octets).get(CNM)
        assert message is not None
        assert octets[:6] == sent[0][6:12]
        assert any(message.msdu[:40] in each for each in started)


@pytest.mark.parametrize("bench", [("dbp", 10**9)], indirect=True)
def test_dbp_inspects_frames_from_the_output(bench: Bench) -> None:
    bench.ends[INPUTS].send(frame(RECEIVER, b"\xff" * 6, 100))
    bench.settle()
    assert bench.port.counts.flooded_frames == 1
    assert [left.interface for left in bench.clock.left] == [0, 1]


@pytest.mark.parametrize("bench", [("none", 10**10)], indirect=True)
def test_frames_a_full_socket_refuses_go_to_python(bench: Bench) -> None:
    sent = [frame(1, RECEIVER, 500, number=number) for number in range(600)]
    sends_in_batches(bench, sent)
    rest = bench.clock.out_of(INPUTS)
    assert rest
    assert sorted(bench.received(INPUTS) + rest) == sorted(sent)
    assert bench.port.counts.departed_frames == len(sent)


def sends_in_batches(bench: Bench, frames: Sequence[bytes]) -> None:
    """Send frames to the first input, in groups of at most the socket's capacity."""
    for octets in frames:
        try:
            bench.ends[0].send(octets)
        except BlockingIOError:
            bench.settle()
            bench.ends[0].send(octets)
    bench.settle()


@pytest.mark.parametrize("bench", [("none", 10**9)], indirect=True)
def test_a_failing_interface_ends_the_loop(bench: Bench) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"no frame")
        numbers = [bench.own[0].fileno(), reading, bench.own[2].fileno()]
        bench.sockets.attach(numbers, numbers, bench.own[3].fileno())
        start_ns = time.monotonic_ns()
        bench.serve(60_000)
        assert time.monotonic_ns() - start_ns < 30_000 * MS
    finally:
        os.close(reading)
        os.close(writing)
    state = bench.sockets.wires.state
    assert (state.interface, state.error) == (1, errno.ENOTSOCK)


@pytest.mark.parametrize("bench", [("none", 10**9)], indirect=True)
def test_the_deadline_or_a_signal_ends_the_loop(bench: Bench) -> None:
    start_ns = time.monotonic_ns()
    bench.serve(20)
    assert time.monotonic_ns() - start_ns >= 20 * MS
    bench.ends[-1].send(b"!")
    bench.serve(60_000)
    assert time.monotonic_ns() - start_ns < 30_000 * MS
    assert bench.sockets.wires.state.error == 0


class WireBench:
    """A device in the wire between sockets."""

    def __init__(self, device: CompiledDevice, clock: Clock) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
        self.ends, self._own = [end for end, _ in pairs], [own for _, own in pairs]
        for each in (*self.ends, *self._own):
            each.setblocking(False)
        self._sockets = Sockets(2, frame_octets=2048)
        numbers = [own.fileno() for own in self._own]
        self._sockets.attach(numbers[:2], numbers[:2], numbers[2])
        self.clock, self.device = clock, device

    def pushes(self, interface: int, frames: Sequence[bytes]) -> None:
        """Deliver frames together, and run the device until no work is pending."""
        for octets in frames:
            self.ends[interface].send(octets)
        deadline = time.monotonic() + PATIENCE_S
        while select.select(self._own, [], [], 0)[0]:
            assert time.monotonic() < deadline
            self.serve(1)

    def serve(self, milliseconds: int) -> None:
        """Run the device for some milliseconds."""
        self.device.serve(self._sockets, time.monotonic_ns() + milliseconds * MS, 0)

    def left_by(self, interface: int) -> list[bytes]:
        """Return the frames that left through an interface: frames sent by compiled code, then frames for
        Python to send.
        """
        left = []
        while select.select([self.ends[interface]], [], [], 0)[0]:
            left.append(self.ends[interface].recv(4096))
        left += self.clock.out_of(interface)
        self.clock.left.clear()
        return left

    def close(self) -> None:
        for each in (*self.ends, *self._own):
            each.close()


def edge_bench(mechanism: str, **options: Any) -> WireBench:
    clock = Clock()
    return WireBench(edge_of(mechanism, clock, time.monotonic_ns(), **options), clock)


def edge_of(mechanism: str, clock: Clock, start_ns: int, **options: Any) -> Edge:
    return Edge(
        machine_for(mechanism, []), link_rate_bps=10**9, mac=EDGE_MAC, seed=1, start_ns=start_ns,
        send=clock.send, **options,
    )  # fmt: skip


@pytest.mark.parametrize("mechanism", ["none", "qcn", "ecm", "bcn", "e2cm", "fecn", "dbp"])
@pytest.mark.parametrize("options", [{}, {"vlan": 5}])
def test_compiled_and_plain_edges_forward_equally(mechanism: str, options: dict[str, Any]) -> None:
    plain, tag = frame(1, RECEIVER, 300), bytes.fromhex(TAGS.get(mechanism, TAGS["ecm"]))
    tagged = plain[:12] + tag + plain[12:]
    behind_vlan = plain[:12] + b"\x81\x00\x00\x07" + tag + plain[12:]
    lldp = bytes.fromhex("0180c200000e0200000000fb88cc0207040200000000fb").ljust(60, b"\0")
    message = bytes.fromhex("0200000000010200000000cc22e7").ljust(90, b"\1")
    short, cut = b"\2" * 9, tagged[:15]
    batches = [
        [plain, tagged], [tagged[:12] + tag + tagged[12:], plain], [behind_vlan], [lldp, plain], [message],
        [short, cut], [tagged] * 20,
    ]  # fmt: skip
    bench = edge_bench(mechanism, **options)
    clock = Clock()
    other = edge_of(mechanism, clock, time.monotonic_ns(), **options)
    try:
        # DBP's receiver reports to the network whenever it is time.
        for interface in (NET,) if mechanism == "dbp" else (NET, HOST):
            for frames in batches:
                clock.left.clear()
                other.take(Batch.from_frames(frames), interface, time.monotonic_ns())
                bench.pushes(interface, frames)
                assert bench.left_by(1 - interface) == clock.out_of(1 - interface)
        counters = [each.snapshot(time.monotonic_ns()).counters for each in (bench.device, other)]
        assert counters[0] == counters[1]
    finally:
        bench.close()


def test_frames_an_edge_cannot_send_go_to_python() -> None:
    bench = edge_bench("none")
    sent = [frame(1, RECEIVER, 500, number=number) for number in range(600)]
    try:
        for first in range(0, len(sent), 9):
            bench.pushes(NET, sent[first : first + 9])
        assert bench.clock.left
        assert sorted(bench.left_by(HOST)) == sorted(sent)
    finally:
        bench.close()


def test_a_busy_interface_delays_no_other() -> None:
    bench = edge_bench("qcn")
    edge, left = cast(Edge, bench.device), list[int]()
    look, message = edge._look, bytes.fromhex("0200000000010200000000cc22e7").ljust(90, b"\1")

    def busy(sockets: Sockets) -> None:
        look(sockets)
        left.append(len(bench.left_by(NET)))
        if len(left) < 20:
            bench.ends[NET].send(message)

    edge._look = busy  # type: ignore[method-assign]
    try:
        bench.ends[NET].send(message)
        bench.pushes(HOST, [frame(RECEIVER, 1)])
    finally:
        bench.close()
    assert left[:2] == [0, 1]


def point_of(mechanism: str, clock: Clock, start_ns: int, **options: Any) -> ReactionPoint:
    chosen: dict[str, Any] = {"longest_octets": 1600, "seed": 1} | options
    config = LoopConfig(link_rate_bps=chosen.pop("link_rate_bps", 10**12))
    return ReactionPoint(
        machine_for(mechanism, []), config, start_ns=start_ns, send=clock.send,
        **chosen,
    )  # fmt: skip


def point_bench(mechanism: str, **options: Any) -> WireBench:
    clock = Clock()
    return WireBench(point_of(mechanism, clock, time.monotonic_ns(), **options), clock)


def to_the_network(mechanism: str) -> list[list[bytes]]:
    """Return batches of frames that get tags, have tags, get none, or are for bridges alone."""
    own, vlan = TAGS.get(mechanism, TAGS["ecm"]), "8100 0007"
    plain = [frame(1, RECEIVER, octets, number=octets) for octets in (60, 300, 1500, 1598)]
    tagged = [frame(1, RECEIVER, 200, head=head) for head in (own, f"{own} {own}", f"{vlan} {own}", vlan)]
    pause = bytes.fromhex("0180c2000001 020000000001 8808 0001 0000").ljust(60, b"\0")
    groups = [frame(1, b"\xff" * 6), frame(2, b"\x03" + bytes(5)), frame(3, RECEIVER)]
    return [plain, tagged, [pause, plain[0], b"\2" * 9, tagged[0][:15]], groups, plain * 5]


@pytest.mark.parametrize("mechanism", ["none", "qcn", "ecm", "bcn", "e2cm", "fecn", "dbp"])
@pytest.mark.parametrize("options", [{}, {"vlan": 5, "longest_octets": 1400}])
def test_compiled_and_plain_reaction_points_forward_equally(mechanism: str, options: dict[str, Any]) -> None:
    bench, clock = point_bench(mechanism, **options), Clock()
    other = point_of(mechanism, clock, time.monotonic_ns(), **options)
    back = [
        [frame(RECEIVER, 1, 100), frame(RECEIVER, 1, 100, head="8100 2005")],
        [bytes.fromhex("0200000000770200000000cc22e7").ljust(90, b"\1"), frame(RECEIVER, 1, 77)],
    ]
    lists = [(SENDER, each) for each in to_the_network(mechanism)] + [(NETWORK, each) for each in back]
    try:
        for interface, frames in lists:
            clock.left.clear()
            for octets in frames:  # one by one, because the time distinguishes marks
                bench.pushes(interface, [octets])
                other.take(Batch.from_frames([octets]), interface, time.monotonic_ns())
                let_all_leave(bench, other)
            left, expected = bench.left_by(1 - interface), clock.out_of(1 - interface)
            assert [without_mark(each, mechanism) for each in left] == [
                without_mark(each, mechanism) for each in expected
            ]
            assert interface == NETWORK or len(left) == len(frames)
        counters = [dict(each.snapshot(time.monotonic_ns()).counters) for each in (bench.device, other)]
        for each in counters:
            del each["missed_ns"], each["limited_frames"]
        assert counters[0] == counters[1]
    finally:
        bench.close()


def let_all_leave(bench: WireBench, other: ReactionPoint) -> None:
    """Advance the time until no frame waits in either device."""
    deadline = time.monotonic() + PATIENCE_S
    while cast(ReactionPoint, bench.device).waiting_frames or other.waiting_frames:
        assert time.monotonic() < deadline
        bench.serve(1)
        other.advance(time.monotonic_ns())


def without_mark(octets: bytes, mechanism: str) -> bytes:
    """Return a frame without the time that its tag may have, which differs from run to run."""
    return octets[:12] + octets[28:] if mechanism in ("ecm", "e2cm") else octets


def test_frames_leave_in_order_after_a_pause() -> None:
    bench = point_bench("qcn", link_rate_bps=10**7)
    pause = bytes.fromhex("0180c2000001 0200000000cc 8808 0001 ffff").ljust(60, b"\0")
    sent = [frame(1, RECEIVER, 60 + number, number=number) for number in range(90)]
    try:
        bench.pushes(SENDER, [frame(1, RECEIVER)])
        bench.pushes(NETWORK, [pause])
        for first in range(0, len(sent), 9):
            bench.pushes(SENDER, sent[first : first + 9])
        point = cast(ReactionPoint, bench.device)
        assert (point.waiting_frames, len(bench.left_by(NETWORK))) == (len(sent), 1)
        bench.pushes(NETWORK, [pause[:16] + bytes(2) + pause[18:]])
        left, deadline = bench.left_by(NETWORK), time.monotonic() + PATIENCE_S
        while point.waiting_frames and time.monotonic() < deadline:
            bench.serve(1)
            left += bench.left_by(NETWORK)
        assert [octets[:12] + octets[16:] for octets in left] == sent
        assert point.counts.consumed_frames == 2
        assert point.counts.left_frames == 1 + len(sent)
    finally:
        bench.close()


def test_lateness_is_reported_in_percentiles() -> None:
    lateness = new_counts()
    assert lateness_gauges(lateness) == {}
    values = [-5, 0, 3, 15, 16, 17, 250, *range(1000, 100_000, 101), 7 * 10**9]
    for value in values:
        count_all_late(lateness, value)
    gauges = lateness_gauges(lateness)
    ordered = sorted(max(0, value) for value in values)
    for name, percent in (("late_p50_ns", 50), ("late_p99_ns", 99)):
        exact = ordered[-(-len(ordered) * percent // 100) - 1]
        assert exact <= gauges[name] <= exact + exact / 128
    assert gauges["late_max_ns"] == 7 * 10**9


@compiled
def count_all_late(lateness: NDArray[np.int64], value: int) -> None:
    count_late(lateness, value)


@pytest.mark.parametrize("bench", [("none", 10**8)], indirect=True)
def test_each_departure_has_one_lateness(bench: Bench) -> None:
    assert "late_max_ns" not in bench.port.snapshot(time.monotonic_ns()).gauges
    sends_in_batches(bench, [frame(1, RECEIVER, 500, number=number) for number in range(30)])
    assert bench.port.switch.outgoing.lateness[1:].sum() == len(bench.received(INPUTS)) == 30
    assert bench.port.snapshot(time.monotonic_ns()).gauges["late_max_ns"] >= 0


@pytest.mark.parametrize("spin_ns", [0, MS, 60_000 * MS])
def test_a_sleep_never_ends_early(spin_ns: int) -> None:
    sockets = Sockets(1, frame_octets=100)
    sockets.wires.state.spin_ns = spin_ns
    start_ns = time.monotonic_ns()
    sleep(sockets.wires, 5 * MS, 0)
    assert time.monotonic_ns() - start_ns >= 5 * MS
