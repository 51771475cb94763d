"""Loops in compiled code, on sockets that need no rights: what goes through them, and what ends them."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ecmproto.capture.batch import Batch
from ecmproto.capture.linux.wires import Sockets
from ecmproto.codec import CNM, decode
from ecmproto.engine.config import PortConfig
from ecmproto.live.edge import HOST, NET, Edge
from ecmproto.live.port import SwitchPort
from ecmproto.mechanisms.limiter import NEVER_NS
from tests.live.virtual import CP_MAC, Clock, frame, machine_for
from tests.namespaces import PATIENCE_S
from tests.replay.many_kinds import TAGS

INPUTS = 2
MS = 1_000_000
RECEIVER = 250
EDGE_MAC = bytes.fromhex("0200000000ee")


class Bench:
    """A port between sockets: what is sent to ``ends[i]`` comes in at its interface i."""

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
        """Let the port run for a while."""
        self.port.serve(self.sockets, time.monotonic_ns() + milliseconds * MS, 0)

    def settle(self) -> None:
        """Let the port run until it has done everything."""
        deadline = time.monotonic() + PATIENCE_S
        while select.select(self.own, [], [], 0)[0] or self.port.due_ns != NEVER_NS:
            assert time.monotonic() < deadline
            self.serve(1)

    def received(self, interface: int) -> list[bytes]:
        """Return the frames that the port has sent by an interface since the last call."""
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
    """Return frames that are queued, bridged, flooded and discarded, each with where it comes in."""
    learned = [(INPUTS, frame(RECEIVER, b"\xff" * 6)), (0, frame(1, RECEIVER)), (1, frame(2, RECEIVER))]
    bridged = [(0, frame(1, 2, 200)), (INPUTS, frame(RECEIVER, 1, 300)), (1, frame(2, 77, 400))]
    own = [(0, bytes.fromhex("0180c2000001") + bytes(54)), (1, b"\x02" * 10)]
    return learned + [each for n in range(3) for each in (*bridged, *own, (0, frame(1, RECEIVER, number=n)))]


@pytest.mark.parametrize("bench", [("none", 10**10), ("qcn", 10**10)], indirect=True)
def test_the_same_frames_leave_as_from_the_loop_in_python(bench: Bench) -> None:
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
    assert bench.port.counts == port.counts
    assert bench.sockets.wires.sent.tolist() == [len(frames) for frames in left]
    assert bench.sockets.wires.sent_octets.tolist() == [sum(map(len, frames)) for frames in left]


@pytest.mark.parametrize("bench", [("qcn", 10**6)], indirect=True)
def test_messages_are_sent_about_the_frames_that_caused_them(bench: Bench) -> None:
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
def test_frames_from_the_output_are_looked_at_where_rates_in_them_are_lowered(bench: Bench) -> None:
    bench.ends[INPUTS].send(frame(RECEIVER, b"\xff" * 6, 100))
    bench.settle()
    assert bench.port.counts.flooded_frames == 1
    assert [left.interface for left in bench.clock.left] == [0, 1]


@pytest.mark.parametrize("bench", [("none", 10**10)], indirect=True)
def test_frames_without_room_are_left_to_who_sends_the_rest(bench: Bench) -> None:
    sent = [frame(1, RECEIVER, 500, number=number) for number in range(600)]
    sends_in_batches(bench, sent)
    rest = bench.clock.out_of(INPUTS)
    assert rest
    assert sorted(bench.received(INPUTS) + rest) == sorted(sent)
    assert bench.port.counts.departed_frames == len(sent)


def sends_in_batches(bench: Bench, frames: Sequence[bytes]) -> None:
    """Send frames to the first input, as many at once as its socket takes."""
    for octets in frames:
        try:
            bench.ends[0].send(octets)
        except BlockingIOError:
            bench.settle()
            bench.ends[0].send(octets)
    bench.settle()


@pytest.mark.parametrize("bench", [("none", 10**9)], indirect=True)
def test_an_interface_that_fails_ends_it_at_once(bench: Bench) -> None:
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
def test_its_time_or_the_bell_end_it(bench: Bench) -> None:
    start_ns = time.monotonic_ns()
    bench.serve(20)
    assert time.monotonic_ns() - start_ns >= 20 * MS
    bench.ends[-1].send(b"!")
    bench.serve(60_000)
    assert time.monotonic_ns() - start_ns < 30_000 * MS
    assert bench.sockets.wires.state.error == 0


class EdgeBench:
    """An edge between sockets."""

    def __init__(self, mechanism: str, **options: Any) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(3)]
        self.ends, self._own = [end for end, _ in pairs], [own for _, own in pairs]
        for each in (*self.ends, *self._own):
            each.setblocking(False)
        self._sockets = Sockets(2, frame_octets=2048)
        numbers = [own.fileno() for own in self._own]
        self._sockets.attach(numbers[:2], numbers[:2], numbers[2])
        self.clock = Clock()
        self.edge = edge_of(mechanism, self.clock, time.monotonic_ns(), **options)

    def pushes(self, interface: int, frames: Sequence[bytes]) -> None:
        """Let frames come in together, and the edge do what it has to."""
        for octets in frames:
            self.ends[interface].send(octets)
        deadline = time.monotonic() + PATIENCE_S
        while select.select(self._own, [], [], 0)[0]:
            assert time.monotonic() < deadline
            self.edge.serve(self._sockets, time.monotonic_ns() + MS, 0)

    def left_by(self, interface: int) -> list[bytes]:
        """Return what has left by an interface: what was sent, then what was left to Python to send."""
        left = []
        while select.select([self.ends[interface]], [], [], 0)[0]:
            left.append(self.ends[interface].recv(4096))
        left += self.clock.out_of(interface)
        self.clock.left.clear()
        return left

    def close(self) -> None:
        for each in (*self.ends, *self._own):
            each.close()


def edge_of(mechanism: str, clock: Clock, start_ns: int, **options: Any) -> Edge:
    return Edge(
        machine_for(mechanism, []), link_rate_bps=10**9, mac=EDGE_MAC, seed=1, start_ns=start_ns,
        send=clock.send, **options,
    )  # fmt: skip


@pytest.mark.parametrize("mechanism", ["none", "qcn", "ecm", "bcn", "e2cm", "fecn", "dbp"])
@pytest.mark.parametrize("options", [{}, {"vlan": 5}])
def test_an_edge_sends_on_what_its_loop_in_python_does(mechanism: str, options: dict[str, Any]) -> None:
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
    bench = EdgeBench(mechanism, **options)
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
        counters = [each.snapshot(time.monotonic_ns()).counters for each in (bench.edge, other)]
        assert counters[0] == counters[1]
    finally:
        bench.close()


def test_what_an_edge_finds_no_room_for_is_left_to_who_sends_the_rest() -> None:
    bench = EdgeBench("none")
    sent = [frame(1, RECEIVER, 500, number=number) for number in range(600)]
    try:
        for first in range(0, len(sent), 9):
            bench.pushes(NET, sent[first : first + 9])
        assert bench.clock.left
        assert sorted(bench.left_by(HOST)) == sorted(sent)
    finally:
        bench.close()


def test_an_interface_that_always_has_frames_for_python_keeps_no_other_waiting() -> None:
    bench = EdgeBench("fecn")
    edge, left = bench.edge, list[int]()
    take = edge.take

    def busy(batch: Batch, interface: int, now_ns: int) -> None:
        take(batch, interface, now_ns)
        left.append(len(bench.left_by(NET)))
        if len(left) < 20:
            bench.ends[NET].send(frame(1, RECEIVER))

    edge.take = busy  # type: ignore[method-assign]
    try:
        bench.ends[NET].send(frame(1, RECEIVER))
        bench.pushes(HOST, [frame(RECEIVER, 1)])
    finally:
        bench.close()
    assert left[:2] == [0, 1]
