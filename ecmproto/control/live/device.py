"""A live device, its network interfaces, and the loop between them.

A `Device` has neither sockets nor a clock; a `LiveInterface` survives going down, coming back and vanishing;
`run` moves frames between the interfaces and the device, and sleeps in between. A device with a compiled loop
runs that loop itself while all its interfaces are up.
"""

from __future__ import annotations

import ctypes
import io
import os
import select
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.interface import InterfaceFacts, interface_facts
from ecmproto.frames.capture.linux.receiver import FrameReceiver, Ring
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.wires import Sockets, Wires, detach
from ecmproto.kernels.structs import method_errors
from ecmproto.units import NS_PER_S

_AGAIN_NS = NS_PER_S
"""The interval between searches for a vanished interface."""
_LONGEST_SLEEP_NS = NS_PER_S
"""The maximum sleep, for searches of vanished interfaces; all other events wake the loop."""
EXAMPLE_FRAME = bytes.fromhex("020000000002020000000001810000010800").ljust(1500, b"\0")
"""A data frame with a VLAN tag, for code that is compiled before frames come."""
_EXAMPLE_MESSAGES = (
    bytes.fromhex("0200000000010200000000cc88b50700").ljust(60, b"\0"),
    bytes.fromhex("0180c200000e0200000000fb88cc0207040200000000fb0403076162060200780000").ljust(60, b"\0"),
)
EXAMPLE_FRAMES = 400
TAKEN_AT_ONCE = 64
"""The maximum batch of frames from Python to a reaction point or an edge, without their compiled loops."""
EXERCISED_NS = 10 * NS_PER_S
"""The end time of `exercise`, for devices that start at 0."""
_PR_SET_TIMERSLACK = 29
_FINE_NS = 1
MACHINE_COUNTS = "/proc/stat"
_COUNTS_OCTETS = 100
_MACHINE_COUNTS_OCTETS = 1 << 16
"""A bound on the lines of all processors, which come first."""
_STARVED = 50
"""A fiftieth of the time: in 20 ms of a second 50 Mb/s are 125 kB, more than any set point for that rate."""
Send = Callable[[int, NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], None]
"""The sender of frames by an interface: its number, the frames' octets, their offsets and lengths.

The octets stay valid until it returns.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Counters and state of a device at one time.

    ``counters`` never decrease, nor do ``messages``, the sent ones by kind, and ``mechanism``, the
    mechanism's own counters. ``gauges`` are the current state; units are in the names. ``warnings`` are
    sentences for the user, each present since it became true.
    """

    counters: Mapping[str, int]
    messages: Mapping[str, int] = field(default_factory=dict)
    mechanism: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Device(Protocol):
    """A device with interfaces, numbered from 0 on, that receive and send frames."""

    @property
    def due_ns(self) -> int:
        """Return the next time to call `advance`; NEVER_NS for none."""

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Process the frames received at ``interface`` by ``now_ns``; times never decrease."""

    def advance(self, now_ns: int) -> None:
        """Process all events due by ``now_ns``."""

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return counters and state at ``now_ns``."""


class CompiledDevice(Device, Protocol):
    """A device with a compiled loop of its own, for the time when all its interfaces are up."""

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until another event wakes it.

        It returns earlier if ``sockets.wires.state.error`` reports a receive error.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounts:
    """Counters of an interface, frames without FCS; all but ``down`` and ``gone`` never decrease.

    ``received_frames`` were passed to the device. ``overflow_frames`` were dropped by the kernel before they
    were read, or were unread at the end; ``unsent_frames`` found full buffers, the interface down or a far
    end that does not accept their length, ``refused_frames`` exceeded the MTU. ``lost`` counts the times that
    the interface vanished.
    """

    received_frames: int
    overflow_frames: int
    sent_frames: int
    sent_octets: int
    unsent_frames: int
    refused_frames: int
    lost: int
    down: bool
    gone: bool


class LiveInterface:
    """The interface called ``name``; InterfaceError if it is missing or not permitted.

    ``frame_octets`` is the maximum length received completely; None for the MTU plus headers.
    """

    def __init__(self, name: str, *, frame_octets: int | None = None) -> None:
        self.name = name
        self._frame_octets = frame_octets
        self._before = (0, 0, 0, 0, 0)
        self._unsent = self._lost = 0
        self.opened: int = 0
        """The number of times that it was opened: again after each time it vanished."""
        self._again_ns = 0
        self._receiver: FrameReceiver | None = None
        self._sender: FrameSender | None = None
        self._wires: tuple[Wires, int] | None = None
        # Another thread reads metrics, and must not find sockets half closed.
        self._closing = threading.RLock()
        self._open()

    def _open(self) -> None:
        receiver = FrameReceiver(self.name, frame_octets=self._frame_octets, in_ring=True)
        try:
            self._sender = FrameSender(self.name)
        except InterfaceError:
            receiver.close()
            raise
        self._receiver = receiver
        self.opened += 1
        self.facts: InterfaceFacts = receiver.facts

    @property
    def is_open(self) -> bool:
        """Return whether the interface can be waited for."""
        return self._receiver is not None

    @property
    def is_down(self) -> bool:
        """Return whether the interface was down at the last `receive` or `counts`."""
        return self._receiver is not None and self._receiver.down

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        assert self._receiver is not None
        return self._receiver.fileno()

    def precompile(self) -> None:
        """Load and compile the code that receives, and that searches for a vanished interface."""
        if self._receiver is not None:
            self._receiver.warm_up()
        with suppress(InterfaceError):
            interface_facts("")

    def receive(self) -> Batch | None:
        """Return the received frames, which the next call overwrites; None without any."""
        if self._receiver is None:
            return None
        try:
            return self._receiver.receive()
        except InterfaceError:
            self._lose()
            return None

    def send(self, octets: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Send frames; those that find full buffers, or no interface, are lost and counted.

        The kernel reports a frame too long for the far end of a veth pair as a full buffer. Such a frame is
        skipped, and the following ones are sent.
        """
        count, done = len(offset), 0
        while done < count and self._sender is not None:
            full = self._sender.full
            try:
                done += self._sender.send(octets, offset[done:], length[done:])
            except InterfaceError:
                self._lose()
                break
            if done == count or self._sender.full == full:
                break
            self._unsent += 1
            done += 1
        self._unsent += count - done

    @property
    def descriptors(self) -> tuple[int, int]:
        """Return the descriptors to receive from and to send to."""
        assert self._receiver is not None
        assert self._sender is not None
        return self._receiver.fileno(), self._sender.fileno()

    @property
    def ring(self) -> Ring:
        """Return the memory that frames are received in."""
        assert self._receiver is not None
        return self._receiver.ring

    @property
    def frame_octets(self) -> int:
        """Return the maximum frame length received completely."""
        assert self._receiver is not None
        return self._receiver.frame_octets

    def count_with(self, wires: Wires, number: int) -> None:
        """Count the frames that ``wires`` send by interface ``number`` as this interface's from now on."""
        with self._closing:
            sent, octets = self._sent_by_wires()
            received, overflow, *others, refused = self._before
            self._before = (received, overflow, others[0] + sent, others[1] + octets, refused)
            self._wires = wires, number

    def _sent_by_wires(self) -> tuple[int, int]:
        if self._wires is None:
            return 0, 0
        wires, number = self._wires
        return int(wires.sent[number]), int(wires.sent_octets[number])

    def fail(self, number: int) -> None:
        """Record that receiving from this interface's descriptor failed with error ``number``."""
        if self._receiver is None:  # sending has already detected that it vanished
            return
        try:
            self._receiver.missed(OSError(number, os.strerror(number)))
        except InterfaceError:
            self._lose()

    def revive(self, now_ns: int) -> bool:
        """Search for a vanished interface, at intervals; return whether it is back."""
        if now_ns < self._again_ns:
            return False
        self._again_ns = now_ns + _AGAIN_NS
        try:
            self._open()
        except InterfaceError:
            return False
        return True

    def counts(self, *, last: bool = False) -> InterfaceCounts:
        """Return the counters of the interface, including the time before it vanished.

        With ``last`` no receive follows, so that unread frames count as overflow.
        """
        with self._closing:
            with suppress(InterfaceError):  # one that has vanished, as `receive` will detect
                if self._receiver is not None:
                    self._receiver.look()
            received, overflow, sent, octets, refused = self._totals(last=last)
            return InterfaceCounts(
                received_frames=received,
                overflow_frames=overflow,
                sent_frames=sent,
                sent_octets=octets,
                unsent_frames=self._unsent,
                refused_frames=refused,
                lost=self._lost,
                down=self.is_down,
                gone=self._receiver is None,
            )

    def _totals(self, *, last: bool) -> tuple[int, int, int, int, int]:
        now = (0, 0, 0, 0, 0)
        if self._receiver is not None and self._sender is not None:
            kernel, sender = self._receiver.counts(), self._sender
            sent, octets = self._sent_by_wires()
            now = (
                kernel.received - kernel.unread,
                kernel.dropped + (kernel.unread if last else 0),
                sender.sent + sent,
                sender.octets + octets,
                sender.refused,
            )
        one, two, three, four, five = (a + b for a, b in zip(self._before, now, strict=True))
        return one, two, three, four, five

    def _lose(self) -> None:
        """Close the sockets of a vanished interface, and keep its counters."""
        with self._closing:
            self._before = self._totals(last=True)
            if self._wires is not None:
                detach(*self._wires)
            self._wires = None
            self._lost += 1
            self.close()

    def close(self) -> None:
        """Close the sockets."""
        with self._closing:
            for part in (self._receiver, self._sender):
                if part is not None:
                    part.close()
            self._receiver = self._sender = None


_Result = TypeVar("_Result")
_RINGS = 4096
ReportAt = Callable[[int], None]
"""A callback for reports, with the time of the report."""


class Stop:
    """SIGINT and SIGTERM as requests to end the loop; ``number`` is the received signal, 0 for none.

    Other threads may request the end of the loop, or a call of a function between two wakes.
    """

    def __init__(self) -> None:
        self.number: int = 0
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._running = False
        self._change = threading.Lock()
        waker, self._bell = socket.socketpair()
        self.waker: socket.socket = waker
        self._bell.setblocking(False)
        self.waker.setblocking(False)

    def _take_signal(self, number: int, frame: FrameType | None) -> None:
        self.number = number

    def ask(self, number: int) -> None:
        """Request the end of another thread's loop, as if this signal had been received."""
        self.number = number
        self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # it is full of wake-ups already
            self._bell.send(b"\0")

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Let the loop call ``function`` between two wakes, and return its result.

        Without a loop it is called here.
        """
        with self._change:
            if not self._running:
                return function()
            result: Future[_Result] = Future()
            self._calls.append((function, result))
        self._ring()
        return result.result()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve the loop for as long as it runs."""
        self._running = True
        try:
            yield
        finally:
            with self._change:
                self._running = False
            self.answer()

    def answer(self) -> None:
        """Call the functions requested by other threads; the loop does so between two wakes."""
        with suppress(BlockingIOError):
            self.waker.recv(_RINGS)
        while self._calls:
            function, result = self._calls.popleft()
            try:
                result.set_result(function())
            except Exception as error:
                result.set_exception(error)

    @property
    def asked(self) -> bool:
        """Return whether a signal was received."""
        return self.number != 0

    @contextmanager
    def held(self) -> Iterator[Stop]:
        """Handle the signals within the context."""
        before = {
            number: signal.signal(number, self._take_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        # Data on this descriptor wakes a sleeping select: python resumes it after a signal.
        bell = signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(bell)
            for number, handler in before.items():
                signal.signal(number, handler)
            self.close()

    def close(self) -> None:
        """Close the descriptors that wake the loop."""
        self.waker.close()
        self._bell.close()


@method_errors()
def run(
    device: Device,
    links: Sequence[LiveInterface],
    stop: Stop,
    *,
    until_ns: int = NEVER_NS,
    report: ReportAt | None = None,
    report_every_ns: int = NS_PER_S,
    coalesce_ns: int = 0,
    spin_ns: int = 0,
) -> None:
    """Drive ``device``, whose interface i is ``links[i]``, until a stop is requested or ``until_ns``.

    Times are the monotonic clock's. ``report`` is called every ``report_every_ns``. With ``coalesce_ns`` the
    loop waits that long after a wake for further events, which saves processor time; without it the compiled
    loop ends its sleep ``spin_ns`` early and polls the clock from then on.
    """
    report_ns = time.monotonic_ns() + report_every_ns if report is not None else NEVER_NS
    compiled = _CompiledLoop(device, links, stop, spin_ns) if hasattr(device, "serve") else None
    with stop.running():
        while not stop.asked:
            stop.answer()
            now_ns = time.monotonic_ns()
            if now_ns >= until_ns:
                break
            if report is not None and now_ns >= report_ns:
                report(now_ns)
                report_ns = max(report_ns + report_every_ns, now_ns)
            wake_ns = min(report_ns, until_ns, now_ns + _LONGEST_SLEEP_NS)
            if compiled is not None and all(link.is_open and not link.is_down for link in links):
                compiled.serve(wake_ns, coalesce_ns)
                continue
            wake_ns = min(device.due_ns, wake_ns)
            ready = _wait_ready(links, stop, wake_ns - now_ns)
            if coalesce_ns and not stop.asked:
                time.sleep(coalesce_ns / NS_PER_S)
                ready |= _wait_ready(links, stop, 0)
            _serve(device, links, ready)
            for link in links:
                if not link.is_open:
                    link.revive(time.monotonic_ns())


class _CompiledLoop:
    """The compiled loop of a device, and its interfaces."""

    def __init__(self, device: Any, links: Sequence[LiveInterface], stop: Stop, spin_ns: int) -> None:
        self._device: CompiledDevice = device
        self._spin_ns = spin_ns
        self._links = links
        self._bell = stop.waker.fileno()
        self._attached: list[tuple[int, tuple[int, int]]] = []
        self._sockets: Sockets

    def serve(self, until_ns: int, coalesce_ns: int) -> None:
        """Run the loop until ``until_ns`` at the latest."""
        self._attach()
        self._device.serve(self._sockets, until_ns, coalesce_ns)
        state = self._sockets.wires.state
        if state.error:
            self._links[int(state.interface)].fail(int(state.error))

    def _attach(self) -> None:
        """Use the current sockets of the interfaces; one that came back has new ones."""
        # An interface that came back may have equal descriptors, but is another one.
        attached = [(link.opened, link.descriptors) for link in self._links]
        if attached != self._attached:
            descriptors = [each for _, each in attached]
            # Frames are in the interfaces' rings.
            self._sockets = Sockets(len(self._links), frame_octets=0)
            self._sockets.wires.state.spin_ns = self._spin_ns
            receiving, sending = zip(*descriptors, strict=True)
            self._sockets.attach(receiving, sending, self._bell, [link.ring for link in self._links])
            for number, link in enumerate(self._links):
                link.count_with(self._sockets.wires, number)
            self._attached = attached


def _wait_ready(links: Sequence[LiveInterface], stop: Stop, sleep_ns: int) -> set[int]:
    """Return the ready descriptors, after a sleep of at most ``sleep_ns``."""
    waited: list[Any] = [link.fileno() for link in links if link.is_open]
    ready, _, _ = select.select([*waited, stop.waker], [], [], max(0, sleep_ns) / NS_PER_S)
    return {each for each in ready if isinstance(each, int)}


def _serve(device: Device, links: Sequence[LiveInterface], ready: set[int]) -> None:
    # One time for all: events caused by the frames need no further check.
    now_ns = time.monotonic_ns()
    for interface, link in enumerate(links):
        if link.is_open and (link.is_down or link.fileno() in ready):
            batch = link.receive()
            if batch is not None:
                device.take(batch, interface, now_ns)
    if device.due_ns <= now_ns:
        device.advance(now_ns)


def is_starved(waited_ns: int, elapsed_ns: int) -> bool:
    """Return whether waiting for the processor has made a device's figures unreliable.

    ``waited_ns`` is the time for which it was ready to run but did not, from `ProcessorWait`.
    """
    return waited_ns * _STARVED > elapsed_ns


class ProcessorWait:
    """The time for which the creating thread was ready to run but did not, and its processor time.

    Linux counts both (``/proc/thread-self/schedstat``), and in a virtual machine the time that the hypervisor
    took from its processors (``/proc/stat``); without these files, the times are 0.
    """

    def __init__(self) -> None:
        # Opened once, since a device without root cannot open them.
        self._file = _opened("/proc/thread-self/schedstat")
        self._machine_file = _opened(MACHINE_COUNTS)
        self._before = self._counts()
        self._stolen_before_ns = _stolen_ns(self._machine_file)

    def _counts(self) -> tuple[int, int]:
        if self._file is None:
            return 0, 0
        ran_ns, waited_ns, *_ = os.pread(self._file.fileno(), _COUNTS_OCTETS, 0).split()
        return int(ran_ns), int(waited_ns)

    def ns(self) -> int:
        """Return the time since creation for which the thread was ready and did not run."""
        return self._counts()[1] - self._before[1]

    def stolen_ns(self) -> int:
        """Return the time since creation that the hypervisor took from a processor, on average."""
        return _stolen_ns(self._machine_file) - self._stolen_before_ns

    def ran_ns(self) -> int:
        """Return the thread's processor time since creation."""
        return self._counts()[0] - self._before[0]

    def __enter__(self) -> ProcessorWait:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, self._machine_file):
            if file is not None:
                file.close()


def _opened(path: str) -> io.FileIO | None:
    with suppress(OSError):
        return io.FileIO(path)
    return None


def _stolen_ns(file: io.FileIO | None) -> int:
    """Return the time that a hypervisor has taken from a processor of this machine, on average."""
    if file is None:
        return 0
    with suppress(OSError, ValueError, IndexError):
        # The line of all processors, and of each: the eighth number is the stolen time.
        together, *lines = os.pread(file.fileno(), _MACHINE_COUNTS_OCTETS, 0).splitlines()
        processors = sum(line.startswith(b"cpu") for line in lines)
        return int(together.split()[8]) * (NS_PER_S // os.sysconf("SC_CLK_TCK")) // max(1, processors)
    return 0


def sleep_precisely() -> None:
    """Set the thread's timer slack to 1 ns; by default the kernel wakes it up to 50 µs late."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_FINE_NS), 0, 0, 0)


@method_errors()
def exercise(device: Device) -> None:
    """Pass some frames and messages through a device without interfaces, so that its code is compiled."""
    data = Batch.from_matrix(np.tile(np.frombuffer(EXAMPLE_FRAME, np.uint8), (EXAMPLE_FRAMES, 1)))
    messages = Batch.from_frames(_EXAMPLE_MESSAGES)
    batches = ((data, 0), (data, 1), (messages, 1), (messages, 0), (data, 0))
    for second, (batch, interface) in enumerate(batches):
        device.take(batch, interface, second * NS_PER_S)
        _ = device.due_ns  # computes the machines' due times
    device.advance(EXERCISED_NS)
    device.snapshot(EXERCISED_NS)


def discard(*_: object) -> None:
    """Discard frames; a `Send` for devices without interfaces."""
