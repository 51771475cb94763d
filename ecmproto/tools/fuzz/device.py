"""A device that is connected to an interface, with scheduled transmission of frames and liveness checks.

A heartbeat is an ICMP echo, a frame that passes through the device, or a command that succeeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ecmproto.errors import InterfaceError, ParameterError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS, Value, all_of, equal, program_of
from ecmproto.frames.capture.linux.interface import interface_facts
from ecmproto.frames.capture.linux.packet_socket import PacketSocket, open_receiving
from ecmproto.frames.capture.linux.transmission import Transmission
from ecmproto.units import NS_PER_S, format_time
from ecmproto.wire.codec.frame import MIN_OCTETS

PollCheck = Callable[[], None]
"""A function that is called often during a wait. An exception ends the wait."""

_SLICE_S = 0.05
_LOCAL_EXPERIMENT = 0x88B5
"""EtherType for local experiments (802 clause 9.2.4)."""
_ECHO = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""ICMP types of echo request and echo reply (RFC 792, RFC 4443)."""
_HEAD = struct.Struct(">BBHI")
"""ICMP header: type, code, checksum, and a word with identifier and sequence number."""
_TOKEN_OCTETS = 16
_AGAIN_S = 0.1
"""Seconds between checks of a device that should recover."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Times in seconds: timeout of a heartbeat, wait after suspects, and timeout of a recovery."""

    beat_s: float
    settle_s: float
    recover_s: float


@dataclasses.dataclass
class WiredDevice:
    """A `DeviceUnderTest` that receives frames from ``transmission``.

    The device is alive while all ``heartbeats`` succeed. ``recovery`` is a shell command that restores the
    device, and "" if the device recovers without a command. ``check`` is called often. ``report`` is called
    with messages for the user.
    """

    transmission: Transmission
    interface: str
    heartbeats: Sequence[Heartbeat]
    patience: Patience
    recovery: str = ""
    check: PollCheck = lambda: None
    report: Callable[[str], None] = lambda text: None
    beats: int = 0
    """Number of successful heartbeats."""
    missed: int = 0
    """Number of missing heartbeats."""
    _unreachable: bool = False

    def send(self, frames: Sequence[bytes]) -> None:
        """Send frames by the schedule. Raises InterfaceError if the frames cannot be sent.

        A device that disables the link is a finding, and the remaining frames are not sent.
        """
        if self._unreachable or not frames:
            return
        try:
            self.transmission.run([Batch.from_frames(frames)])
        except InterfaceError:
            if not self.heartbeats or interface_facts(self.interface).running:
                raise
            self._unreachable = True

    def beat(self) -> str:
        """Check all heartbeats, and return a text about the first missing heartbeat or "".

        The time of the check is not used for frames.
        """
        if not self.heartbeats:
            return ""
        self.transmission.rest()
        self._unreachable = False
        for heartbeat in self.heartbeats:
            missing = heartbeat.beat(self.patience.beat_s)
            if missing:
                self.missed += 1
                return missing
        self.beats += 1
        return ""

    def settle(self) -> None:
        """Wait before the heartbeats that follow suspects."""
        if not self.heartbeats:
            return
        self.transmission.rest()
        self._wait(self.patience.settle_s)

    @property
    def recovers(self) -> bool:
        """Whether a command can restore the device from any state."""
        return bool(self.recovery)

    def recover(self) -> bool:
        """Run the recovery command, wait for a heartbeat, and return whether the device is alive."""
        self.transmission.rest()
        until = time.monotonic() + self.patience.recover_s
        if self.recovery:
            failed = run_command(self.recovery, self.patience.recover_s, self.check)
            if failed:
                self.report(f"recovery: {failed}")
        while True:
            if not self.beat():
                return True
            if time.monotonic() >= until:
                return False
            self._wait(_AGAIN_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.check()
            time.sleep(min(left, _AGAIN_S))


class Heartbeat(Protocol):
    """A check that a device is alive."""

    def beat(self, seconds: float) -> str:
        """Return "" if the heartbeat arrives within ``seconds``, or else a text about the failure."""

    def close(self) -> None:
        """Close all sockets."""


def heartbeat_of(text: str, interface: str, check: PollCheck) -> Heartbeat:
    """Return the heartbeat for ``ping:ADDRESS``, ``frame:IF`` or ``command:CMD``.

    Heartbeat frames are sent from ``interface``. Raises ParameterError for other text, and InterfaceError for
    an unknown interface.
    """
    kind, _, what = text.partition(":")
    if what and kind == "ping":
        return PingHeartbeat(what, check)
    if what and kind == "frame":
        return FrameHeartbeat(interface, what, check)
    if what and kind == "command":
        return CommandHeartbeat(what, check)
    raise ParameterError(
        name="heartbeat", needed="ping:ADDRESS, frame:INTERFACE or command:CMD", got=repr(text)
    )


def _within(seconds: float) -> str:
    return f"within {format_time(round(seconds * NS_PER_S))}"


def _empty(opened: socket.socket) -> None:
    """Discard all received packets, so that the buffer has space for the expected packet."""
    with contextlib.suppress(BlockingIOError):
        while True:
            opened.recv(1)


def _arrives(
    opened: socket.socket, matches: Callable[[bytes], bool], seconds: float, check: PollCheck
) -> bool:
    """Return whether a packet with ``matches`` arrives at a socket within ``seconds``."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            while True:
                if matches(opened.recv(MAX_CUT_OCTETS)):
                    return True
        check()
        left = until - time.monotonic()
        if left <= 0:
            return False
        select.select([opened], [], [], min(left, _SLICE_S))


class PingHeartbeat:
    """An ICMP echo request that the kernel routes to ``address``, which is an IPv4 address, IPv6 address or
    host name.

    Raises ParameterError for an invalid address.
    """

    def __init__(self, address: str, check: PollCheck) -> None:
        self._name = address
        self._check = check
        try:
            family, _, _, _, where = socket.getaddrinfo(address, None, type=socket.SOCK_RAW)[0]
        except OSError as error:
            raise ParameterError(
                name="heartbeat", needed="an address that answers echoes", got=f"{address}: {error.strerror}"
            ) from error
        self._family = family
        self._request, self._reply = _ECHO[family]
        protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
        self._address = where
        self._socket = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)

    def beat(self, seconds: float) -> str:
        """Send an echo request, and wait for the reply with the same octets."""
        token = secrets.token_bytes(_TOKEN_OCTETS)
        head = _HEAD.pack(self._request, 0, 0, 0)
        if self._family == socket.AF_INET:
            # for IPv6, the kernel computes the checksum
            head = _HEAD.pack(self._request, 0, _checksum(head + token), 0)

        def is_reply(packet: bytes) -> bool:
            reply = packet[-_HEAD.size - len(token) :]
            return reply.endswith(token) and reply[0] == self._reply

        try:
            _empty(self._socket)
            self._socket.sendto(head + token, self._address)
            came = _arrives(self._socket, is_reply, seconds, self._check)
        except OSError as error:
            # no reply can be expected
            time.sleep(min(seconds, _SLICE_S))
            return f"no echo from {self._name}: {error.strerror}"
        return "" if came else f"no echo from {self._name} {_within(seconds)}"

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _checksum(octets: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of octets."""
    total: int = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class FrameHeartbeat:
    """A frame from ``interface`` to ``other`` that passes through the device.

    Before each heartbeat, a frame is sent in the opposite direction, so that a switch learns the address of
    ``other``.
    """

    def __init__(self, interface: str, other: str, check: PollCheck) -> None:
        if interface == other:
            raise ParameterError(
                name="heartbeat", needed="an interface other than the sending one", got=other
            )
        self._name = other
        self._check = check
        self._near = PacketSocket(interface)
        self._near.bind(0)
        source = self._near.facts.address
        # without a filter, other frames would fill the receive buffer
        program = program_of(
            all_of(
                equal(Value(offset=6, octets=4), int.from_bytes(source[:4], "big")),
                equal(Value(offset=10, octets=2), int.from_bytes(source[4:], "big")),
                equal(Value(offset=12, octets=2), _LOCAL_EXPERIMENT),
            )
        )
        try:
            self._far = open_receiving(
                other, promiscuous=True, outgoing=False, program=program, prepare=lambda opened: None
            )
        except InterfaceError:
            self._near.close()
            raise
        self._far.socket.setblocking(False)

    def beat(self, seconds: float) -> str:
        """Send a frame with unique octets, and wait for this frame at the other interface."""
        near, far = self._near.facts.address, self._far.facts.address
        token = secrets.token_bytes(_TOKEN_OCTETS)
        try:
            _empty(self._far.socket)
            self._send(self._far, near, far, token)
            self._send(self._near, far, near, token)
            came = _arrives(self._far.socket, lambda octets: token in octets, seconds, self._check)
        except OSError as error:
            if self._near.gone or self._far.gone:
                lost = self._near if self._near.gone else self._far
                raise lost.vanished() from error
            time.sleep(min(seconds, _SLICE_S))
            return f"no frame at {self._name}: {os.strerror(error.errno or errno.EIO)}"
        return "" if came else f"no frame at {self._name} {_within(seconds)}"

    @staticmethod
    def _send(by: PacketSocket, to: bytes, source: bytes, token: bytes) -> None:
        head = to + source + _LOCAL_EXPERIMENT.to_bytes(2, "big") + b"ecmproto heartbeat "
        by.socket.send((head + token).ljust(MIN_OCTETS, b"\0"))

    def close(self) -> None:
        """Close the sockets."""
        self._near.close()
        self._far.close()


class CommandHeartbeat:
    """A shell command that exits with status 0 while the device is alive."""

    def __init__(self, command: str, check: PollCheck) -> None:
        self._command = command
        self._check = check

    def beat(self, seconds: float) -> str:
        """Run the command."""
        return run_command(self._command, seconds, self._check)

    def close(self) -> None:
        """Do nothing, because no socket is open."""


def run_command(command: str, seconds: float, check: PollCheck) -> str:
    """Run a shell command, and return "" if the command exits with status 0 within ``seconds``.

    Otherwise, return a text about the failure.
    """
    until = time.monotonic() + seconds
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(min(_SLICE_S, max(0.0, until - time.monotonic())))
                return f"{command!r} exited with {status}" if status else ""
            check()
        return f"{command!r} did not end {_within(seconds)}"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
