"""Senders with reaction points, a port and an edge before the receiver, connected in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.live.device import Device
from ecmproto.control.live.edge import Edge
from ecmproto.control.live.port import SwitchPort
from ecmproto.control.live.reaction_point import ReactionPoint
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.capture.batch import Batch
from tests.live.virtual import CP_MAC, START_NS, frame, machine_for

RECEIVER = 250
EDGE_MAC = bytes.fromhex("0200000000ee")
RATE_BPS = 100_000_000


class Got(NamedTuple):
    time_ns: int
    octets: bytes


class Network:
    """Sender i is address i + 1; frames take no time on wires."""

    def __init__(self, mechanism: str, parameters: Sequence[str] = (), *, senders: int = 3) -> None:
        self.now_ns = START_NS
        self.received: list[Got] = []
        self.at_port: list[Got] = []
        self.to_hosts: list[bytes] = []
        self._wire: list[tuple[Device, int, bytes]] = []

        def machine() -> Machine:
            return machine_for(mechanism, parameters)

        facts = LoopConfig(link_rate_bps=RATE_BPS)
        self.points = [
            ReactionPoint(
                machine(), facts, seed=n, start_ns=START_NS, longest_octets=1700,
                send=lambda interface, *frames, n=n: self._leave("point", n, interface, *frames),
            )
            for n in range(senders)
        ]  # fmt: skip
        self.port = SwitchPort(
            machine(), PortConfig(rate_bps=RATE_BPS, buffer_octets=1_500_000, cp_mac=CP_MAC),
            inputs=senders, frames=1000, seed=7, start_ns=START_NS,
            send=lambda interface, *frames: self._leave("port", 0, interface, *frames),
        )  # fmt: skip
        self.edge = Edge(
            machine(), link_rate_bps=RATE_BPS, mac=EDGE_MAC, seed=8, start_ns=START_NS,
            send=lambda interface, *frames: self._leave("edge", 0, interface, *frames),
        )  # fmt: skip

    def _leave(
        self,
        device: str,
        number: int,
        interface: int,
        octets: NDArray[np.uint8],
        offset: NDArray[np.int64],
        length: NDArray[np.int64],
    ) -> None:
        for start, count in zip(offset.tolist(), length.tolist(), strict=True):
            left = octets[start : start + count].tobytes()
            if device == "point" and interface == 1:
                self.at_port.append(Got(self.now_ns - START_NS, left))
                self._wire.append((self.port, number, left))
            elif device == "point":
                self.to_hosts.append(left)
            elif device == "port" and interface == len(self.points):
                self._wire.append((self.edge, 0, left))
            elif device == "port":
                self._wire.append((self.points[interface], 1, left))
            elif interface == 0:
                self._wire.append((self.port, len(self.points), left))
            else:
                self.received.append(Got(self.now_ns - START_NS, left))

    def run(self, duration_ns: int, *, load: float = 1.8, octets: int = 1500) -> None:
        """Run senders that together offer ``load`` times the port's rate, without gaps between the frames of
        a sender.
        """
        gap_ns = int(8 * octets * 10**9 / RATE_BPS / load * len(self.points))
        devices: list[Device] = [*self.points, self.port, self.edge]
        next_ns = [START_NS + n * gap_ns // len(self.points) for n in range(len(self.points))]
        number = 0
        # The port learns where the receiver lives.
        self.port.take(Batch.from_frames([frame(RECEIVER, b"\xff" * 6)]), len(self.points), self.now_ns)
        while True:
            self._deliver()
            self.now_ns = max(self.now_ns, min(*(device.due_ns for device in devices), *next_ns))
            if self.now_ns > START_NS + duration_ns:
                return
            for device in devices:
                if device.due_ns <= self.now_ns < NEVER_NS:
                    device.advance(self.now_ns)
            for n, point in enumerate(self.points):
                if next_ns[n] <= self.now_ns:
                    next_ns[n] += gap_ns
                    sent = frame(n + 1, RECEIVER, octets, number=number)
                    number += 1
                    point.take(Batch.from_frames([sent]), 0, self.now_ns)

    def _deliver(self) -> None:
        while self._wire:
            wire, self._wire = self._wire, []
            for device, interface, octets in wire:
                device.take(Batch.from_frames([octets]), interface, self.now_ns)

    def shares(self, since_ns: int) -> list[int]:
        """Return the octets that the receiver got from each sender since a time."""
        octets = [0] * len(self.points)
        for got in self.received:
            if got.time_ns >= since_ns and got.octets[0:6] == bytes.fromhex("0200000000") + bytes([RECEIVER]):
                octets[got.octets[11] - 1] += len(got.octets)
        return octets
