"""Two ports in a row between switches: ports and congestion points that serve several ports."""

from __future__ import annotations

from collections import deque

import numpy as np

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.port import Port, arrive, depart, departs, new_port
from ecmproto.control.mechanisms.api.machine import PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import Arrival, CongestionPoint, Outbox, new_outbox
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.structs import as_interface

OCTETS = 976
"""Frame length that takes 800 ns at 10 Gb/s, with 24 octets of overhead."""
LINK_NS = 5_000
COUNT, GAP_NS = 200, 1_000


@compiled
def come(port: Port, point: CongestionPoint, outbox: Outbox, now_ns: int, serial: int) -> bool:
    """Enqueue a frame or drop it, and notify the congestion point."""
    enqueued = arrive(port, now_ns, 3, OCTETS, serial, False)
    qlen_octets, port_octets = port.gauge.queues[3].octets, port.gauge.total.octets
    point.on_arrival(
        Arrival(now_ns, 0, 0, 3, OCTETS, True, True, enqueued, False, 0, 0, qlen_octets, port_octets), outbox
    )
    return enqueued


@compiled
def leave(port: Port, point: CongestionPoint, outbox: Outbox) -> int:
    """Remove the frame on the line, and notify the congestion point."""
    now_ns = port.line.departure_ns
    serial = depart(port)
    point.on_dequeue(now_ns, 0, 3, OCTETS, port.gauge.total.octets, outbox)
    return serial


class SwitchPort:
    """A switch port with a QCN congestion point."""

    def __init__(self, rate_bps: int, number: int) -> None:
        mechanism = find_mechanism("qcn")
        machine = machine_of(mechanism, mechanism.parse(["cp.qeq=10kB", "cp.sample_base=10kB"]))
        mac = bytes([2, 0, 0, 0, 0, number])
        config = PortConfig(rate_bps=rate_bps, buffer_octets=60_000, cp_mac=mac)
        place = PortContext(rate_bps=rate_bps, link_rate_bps=10**10, cp_mac=mac, stations=1, flows=1)
        self.port = new_port(config)
        self.point = machine.congestion_point(place, np.random.default_rng(number))
        self.interface = as_interface(self.point, CongestionPoint)
        self.outbox = new_outbox(1000)
        self.left_ns: list[int] = []
        self.dropped = 0

    @property
    def messages(self) -> list[float]:
        """Feedback values of the sent messages; negative values mean congestion."""
        posted = self.outbox.messages[: self.outbox.posted.count]
        return [float(message.fb_octets) for message in posted if message.sent]

    def take(self, now_ns: int, serial: int) -> None:
        """Enqueue an arriving frame."""
        self.dropped += not come(self.port, self.interface, self.outbox, now_ns, serial)

    def release(self) -> int:
        """Remove the frame on the line, and return its number."""
        self.left_ns.append(int(self.port.line.departure_ns))
        return int(leave(self.port, self.interface, self.outbox))


def through(first: SwitchPort, second: SwitchPort) -> list[int]:
    """Send frames through both ports, and return the numbers of the frames that leave the second port."""
    came = deque((number * GAP_NS, number) for number in range(COUNT))
    on_link: deque[tuple[int, int]] = deque()
    out = []
    never = 10**12
    while came or on_link or departs(first.port.line, never) or departs(second.port.line, never):
        lines = [first.port.line, second.port.line]
        leaves = [int(line.departure_ns) if departs(line, never) else never for line in lines]
        comes = came[0][0] if came else never
        reaches = on_link[0][0] if on_link else never
        now_ns = min(*leaves, comes, reaches)
        if leaves[1] == now_ns:
            out.append(second.release())
        elif leaves[0] == now_ns:
            on_link.append((now_ns + LINK_NS, first.release()))
        elif reaches == now_ns:
            second.take(*on_link.popleft())
        else:
            first.take(*came.popleft())
    return out


def test_second_port_receives_after_the_link_delay() -> None:
    first, second = SwitchPort(10**10, 1), SwitchPort(10**10, 2)
    assert through(first, second) == list(range(COUNT))
    assert first.left_ns == [number * GAP_NS + 800 for number in range(COUNT)]
    assert second.left_ns == [left_ns + LINK_NS + 800 for left_ns in first.left_ns]
    assert first.messages == second.messages == []


def test_the_slower_port_alone_fills_and_sends_messages() -> None:
    first, second = SwitchPort(10**10, 1), SwitchPort(5 * 10**9, 2)
    out = through(first, second)
    assert (first.dropped, first.messages) == (0, [])
    assert second.dropped == COUNT - len(out) > 0
    assert np.diff(second.left_ns).tolist() == [1_600] * (len(out) - 1)
    assert len(second.messages) > 3
    assert max(second.messages) < 0
    assert second.port.gauge.total.peak_octets > 10 * OCTETS > first.port.gauge.total.peak_octets
