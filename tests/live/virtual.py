"""Live devices in virtual time, with the times of received and sent frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.live.device import Device
from ecmproto.control.live.port import SwitchPort
from ecmproto.control.mechanisms.api.machine import Machine, machine_of
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.frames.capture.batch import Batch

START_NS = 5_000_000_000_000
CP_MAC = bytes.fromhex("0200000000cc")
HOST = bytes.fromhex("0200000000")
GROUP = bytes.fromhex("0300000000fa")


class Came(NamedTuple):
    time_ns: int
    interface: int
    octets: bytes


class Left(NamedTuple):
    time_ns: int
    interface: int
    octets: bytes


class Clock:
    """A simulated clock, and the frames that have left."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.left: list[Left] = []

    def send(
        self, interface: int, octets: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]
    ) -> None:
        for start, count in zip(offset.tolist(), length.tolist(), strict=True):
            frame = octets[start : start + count].tobytes()
            self.left.append(Left(self.now_ns - START_NS, interface, frame))

    def out_of(self, interface: int) -> list[bytes]:
        return [left.octets for left in self.left if left.interface == interface]

    def drive(self, device: Device, frames: Iterable[Came]) -> None:
        """Pass ``frames``, in the order of time, to ``device``, called when it is due."""
        for frame in frames:
            self.pass_until(device, START_NS + frame.time_ns)
            device.take(Batch.from_frames([frame.octets]), frame.interface, self.now_ns)
        self.pass_until(device, NEVER_NS)

    def pass_until(self, device: Device, until_ns: int) -> None:
        """Let time pass to ``until_ns``, or as long as there is something to do."""
        while device.due_ns <= until_ns and device.due_ns != NEVER_NS:
            self.now_ns = max(self.now_ns, device.due_ns)
            device.advance(self.now_ns)
        if until_ns != NEVER_NS:
            self.now_ns = until_ns


def machine_for(name: str, assignments: Sequence[str] = ()) -> Machine:
    mechanism = find_mechanism(name)
    return machine_of(mechanism, mechanism.parse(assignments))


def switch_port(clock: Clock, machine: Machine | None = None, **options: Any) -> SwitchPort:
    """Return a port of 1 Gb/s with two inputs."""
    facts: dict[str, Any] = {
        "rate_bps": 10**9,
        "buffer_octets": 150_000,
        "buffer_frames": 0,
        "cp_mac": CP_MAC,
    }
    facts |= {name: options.pop(name) for name in list(options) if name in facts}
    chosen = {"inputs": 2, "frames": 1000, "seed": 1} | options
    return SwitchPort(
        machine or machine_for("none"), PortConfig(**facts), start_ns=START_NS, send=clock.send, **chosen
    )


def frame(
    source: int, destination: int | bytes, octets: int = 100, *, head: str = "", number: int = 0
) -> bytes:
    """Return a frame of ``octets`` whose payload contains its ``number``."""
    to = destination if isinstance(destination, bytes) else HOST + bytes([destination])
    start = to + HOST + bytes([source]) + bytes.fromhex(head) + b"\x99\x99" + number.to_bytes(4)
    return start.ljust(octets, bytes([number & 0xFF]))
