"""A live device, the device's network interfaces, and the loop that connects both.

A `Device` has neither sockets nor a clock. A `LiveInterface` remains usable after the interface goes down,
returns or vanishes. `run` moves frames between the interfaces and the device, and sleeps when there is
nothing to do. A device with a compiled loop runs this loop while all interfaces are up.
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
"""The maximum sleep between searches for vanished interfaces; all other events wake the loop."""
EXAMPLE_FRAME = bytes.fromhex("020000000002020000000001810000010800").ljust(1500, b"\0")
"""A data frame with a VLAN tag, for code that is compiled before the first frame is received."""
_EXAMPLE_MESSAGES = (
    bytes.fromhex("0200000000010200000000cc88b50700").ljust(60, b"\0"),
    bytes.fromhex("0180c200000e0200000000fb88cc0207040200000000fb0403076162060200780000").ljust(60, b"\0"),
)
EXAMPLE_FRAMES = 400
LARGEST_OCTETS = 2048
"""The default maximum length of a frame, in octets."""
FRAMES_AT_ONCE = 64
"""The maximum batch that Python passes to a reaction point or an edge when the compiled loop does not run."""
EXERCISED_NS = 10 * NS_PER_S
"""The time at which `exercise` ends, for devices that start at time 0."""
_PR_SET_TIMERSLACK = 29
_FINE_NS = 1
MACHINE_COUNTS = "/proc/stat"
_COUNTS_OCTETS = 100
_MACHINE_COUNTS_OCTETS = 1 << 16
"""The maximum length of the text read from `MACHINE_COUNTS`, which begins with the processors' counters."""
_STARVED = 50
"""The part of the time, a fiftieth, above which a device is starved.

In 20 ms, a line of 50 Mb/s sends 125 kB, which is more than any set point for that rate.
"""
Send = Callable[[int, NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]], None]
"""A function that sends frames by an interface.

The arguments are the interface's number, the frames' octets, offsets and lengths. The octets stay valid until
the function returns.
"""


def send_frame(send: Send, interface: int, octets: bytes) -> None:
    """Send one frame by an interface."""
    frame = np.frombuffer(octets, np.uint8)
    send(interface, frame, np.zeros(1, np.int64), np.array([len(frame)], np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Counters and state of a device at one time.

    ``counters`` never decrease. ``messages`` are the numbers of sent messages by type, and ``mechanism`` are
    the mechanism's own counters; these numbers never decrease either. ``gauges`` are the current state, with
    units in the names. ``warnings`` are sentences for the user. A warning stays in the list after it was
    first issued.
    """

    counters: Mapping[str, int]
    messages: Mapping[str, int] = field(default_factory=dict)
    mechanism: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Device(Protocol):
    """A device that receives and sends frames at interfaces with numbers from 0 on."""

    @property
    def due_ns(self) -> int:
        """Return the time of the next call of `advance`, or NEVER_NS if no event is pending."""

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Process the frames received at ``interface`` until ``now_ns``; times never decrease."""

    def advance(self, now_ns: int) -> None:
        """Process all events that are due at ``now_ns``."""

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return the counters and the state at ``now_ns``."""


class CompiledDevice(Device, Protocol):
    """A device with a compiled loop, which runs while all interfaces are up."""

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until another event wakes the loop.

        The function returns earlier if ``sockets.wires.state.error`` reports a receive error.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounts:
    """Counters of an interface, with frame lengths without FCS.

    All counters but ``down`` and ``gone`` never decrease. ``received_frames`` were passed to the device.
    ``overflow_frames`` were dropped by the kernel before the device read these frames, or were unread at the
    end. ``unsent_frames`` were lost because the buffers were full, the interface was down, or the other end
    does not accept frames of this length. ``refused_frames`` exceeded the MTU. ``lost`` counts how often the
    interface vanished.
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
    """An open network interface with the name ``name``.

    Raises InterfaceError if the interface is missing or may not be opened.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._before = (0, 0, 0, 0, 0)
        self._unsent = self._lost = 0
        self.opened: int = 0
        """The number of times the interface was opened: at first, and after each time it vanished."""
        self._again_ns = 0
        self._receiver: FrameReceiver | None = None
        self._sender: FrameSender | None = None
        self._wires: tuple[Wires, int] | None = None
        # Another thread reads metrics, and must not use sockets that are half closed.
        self._closing = threading.RLock()
        self._open()

    def _open(self) -> None:
        receiver = FrameReceiver(self.name, in_ring=True)
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
        """Return whether the loop can wait for the interface."""
        return self._receiver is not None

    @property
    def is_down(self) -> bool:
        """Return whether the interface was down at the last call of `receive` or `counts`."""
        return self._receiver is not None and self._receiver.down

    def fileno(self) -> int:
        """Return the file descriptor to wait for."""
        assert self._receiver is not None
        return self._receiver.fileno()

    def precompile(self) -> None:
        """Compile the code that receives frames, and load the code that searches for a vanished interface."""
        if self._receiver is not None:
            self._receiver.warm_up()
        with suppress(InterfaceError):
            interface_facts("")

    def receive(self) -> Batch | None:
        """Return the received frames, which the next call overwrites, or ``None`` without frames."""
        if self._receiver is None:
            return None
        try:
            return self._receiver.receive()
        except InterfaceError:
            self._lose()
            return None

    def send(self, octets: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> None:
        """Send frames, and count the frames that are lost because buffers are full or the interface is
        missing.

        The kernel reports a full buffer if a frame is too long for the other end of a veth pair. Such a frame
        is skipped, and the following frames are sent.
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
        """Return the descriptor for receiving and the descriptor for sending."""
        assert self._receiver is not None
        assert self._sender is not None
        return self._receiver.fileno(), self._sender.fileno()

    @property
    def ring(self) -> Ring:
        """Return the memory in which the kernel stores received frames."""
        assert self._receiver is not None
        return self._receiver.ring

    @property
    def frame_octets(self) -> int:
        """Return the maximum frame length that is received completely."""
        assert self._receiver is not None
        return self._receiver.frame_octets

    def count_with(self, wires: Wires, number: int) -> None:
        """Count the frames that ``wires`` send by interface ``number`` at this interface from now on."""
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
        """Record that receiving from the descriptor of this interface failed with error ``number``."""
        if self._receiver is None:  # sending has already detected that the interface vanished
            return
        try:
            self._receiver.missed(OSError(number, os.strerror(number)))
        except InterfaceError:
            self._lose()

    def revive(self, now_ns: int) -> bool:
        """Search for a vanished interface at intervals; return whether the interface has returned."""
        if now_ns < self._again_ns:
            return False
        self._again_ns = now_ns + _AGAIN_NS
        try:
            self._open()
        except InterfaceError:
            return False
        return True

    def counts(self, *, last: bool = False) -> InterfaceCounts:
        """Return the counters of the interface, including the time before the interface vanished.

        ``last`` means that no receive follows, so unread frames count as overflow.
        """
        with self._closing:
            with suppress(InterfaceError):  # the interface has vanished, as `receive` will detect
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
        """Close the sockets of a vanished interface, and keep the counters."""
        with self._closing:
            self._before = self._totals(last=True)
            if self._wires is not None:
                detach(*self._wires)
            self._wires = None
            self._lost += 1
            self.close()

    def close(self) -> None:
        """Close the sockets of the interface."""
        with self._closing:
            for part in (self._receiver, self._sender):
                if part is not None:
                    part.close()
            self._receiver = self._sender = None


_Result = TypeVar("_Result")
_RINGS = 4096
ReportAt = Callable[[int], None]
"""A callback for reports, called with the time of the report."""


class Stop:
    """Handler of SIGINT and SIGTERM, which request the end of the loop.

    ``number`` is the received signal, or 0 if none was received. Other threads may request the end of the
    loop, or a function call between two wakes.
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
        """Request the end of another thread's loop, as if signal ``number`` had been received."""
        self.number = number
        self._ring()

    def _ring(self) -> None:
        with suppress(BlockingIOError):  # the socket is already full of wake-ups
            self._bell.send(b"\0")

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Call ``function`` in the loop between two wakes, and return the result.

        Without a loop, the calling thread calls ``function``.
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
        """Serve requests of other threads while the loop runs."""
        self._running = True
        try:
            yield
        finally:
            with self._change:
                self._running = False
            self.answer()

    def answer(self) -> None:
        """Call the functions that other threads requested; the loop calls this method between two wakes."""
        with suppress(BlockingIOError):
            self.waker.recv(_RINGS)
        while self._calls:
            function, result = self._calls.popleft()
            try:
                result.set_result(function())
            except Exception as error:
                result.set_exception(error)

    @property
    def requested(self) -> bool:
        """Return whether a signal was received."""
        return self.number != 0

    @contextmanager
    def handled(self) -> Iterator[Stop]:
        """Handle the signals while the context is active."""
        before = {
            number: signal.signal(number, self._take_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        # Data on this descriptor wakes a sleeping select, which python resumes after a signal.
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
    """Run ``device`` until a stop is requested or until ``until_ns``.

    Interface number i of the device is ``links[i]``. Times are readings of the monotonic clock. ``report`` is
    called every ``report_every_ns``. With ``coalesce_ns``, the loop waits that long for further events after
    each wake, which saves processor time. Without ``coalesce_ns``, the compiled loop ends each sleep
    ``spin_ns`` early, and then polls the clock.
    """
    report_ns = time.monotonic_ns() + report_every_ns if report is not None else NEVER_NS
    compiled = _CompiledLoop(device, links, stop, spin_ns) if hasattr(device, "serve") else None
    with stop.running():
        while not stop.requested:
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
            if coalesce_ns and not stop.requested:
                time.sleep(coalesce_ns / NS_PER_S)
                ready |= _wait_ready(links, stop, 0)
            _serve(device, links, ready)
            for link in links:
                if not link.is_open:
                    link.revive(time.monotonic_ns())


class _CompiledLoop:
    """The compiled loop of a device, and the device's interfaces."""

    def __init__(self, device: Any, links: Sequence[LiveInterface], stop: Stop, spin_ns: int) -> None:
        self._device: CompiledDevice = device
        self._spin_ns = spin_ns
        self._links = links
        self._bell = stop.waker.fileno()
        self._attached: list[tuple[int, tuple[int, int]]] = []
        self._sockets: Sockets

    def serve(self, until_ns: int, coalesce_ns: int) -> None:
        """Run the loop until ``until_ns``, or until an earlier event."""
        self._attach()
        self._device.serve(self._sockets, until_ns, coalesce_ns)
        state = self._sockets.wires.state
        if state.error:
            self._links[int(state.interface)].fail(int(state.error))

    def _attach(self) -> None:
        """Use the current sockets of the interfaces; an interface that returned has new sockets."""
        # An interface that returned may have equal descriptors, but has new sockets.
        attached = [(link.opened, link.descriptors) for link in self._links]
        if attached != self._attached:
            descriptors = [each for _, each in attached]
            # Received frames are in the interfaces' rings.
            self._sockets = Sockets(len(self._links), frame_octets=0)
            self._sockets.wires.state.spin_ns = self._spin_ns
            receiving, sending = zip(*descriptors, strict=True)
            self._sockets.attach(receiving, sending, self._bell, [link.ring for link in self._links])
            for number, link in enumerate(self._links):
                link.count_with(self._sockets.wires, number)
            self._attached = attached


def _wait_ready(links: Sequence[LiveInterface], stop: Stop, sleep_ns: int) -> set[int]:
    """Return the descriptors that are ready after a sleep of at most ``sleep_ns``."""
    waited: list[Any] = [link.fileno() for link in links if link.is_open]
    ready, _, _ = select.select([*waited, stop.waker], [], [], max(0, sleep_ns) / NS_PER_S)
    return {each for each in ready if isinstance(each, int)}


def _serve(device: Device, links: Sequence[LiveInterface], ready: set[int]) -> None:
    # All frames have one time, so the events that they cause need no further check.
    now_ns = time.monotonic_ns()
    for interface, link in enumerate(links):
        if link.is_open and (link.is_down or link.fileno() in ready):
            batch = link.receive()
            if batch is not None:
                device.take(batch, interface, now_ns)
    if device.due_ns <= now_ns:
        device.advance(now_ns)


def is_starved(waited_ns: int, elapsed_ns: int) -> bool:
    """Return whether a device waited so long for the processor that the figures are unreliable.

    ``waited_ns`` is the time in which the device was ready to run but did not run, from `ProcessorWait`.
    """
    return waited_ns * _STARVED > elapsed_ns


class ProcessorWait:
    """The processor time of the creating thread, and the time in which the thread was ready but did not run.

    Linux counts both times in ``/proc/thread-self/schedstat``. In a virtual machine, Linux also counts the
    time that the hypervisor took from the processors (``/proc/stat``). Without these files, the times are 0.
    """

    def __init__(self) -> None:
        # The files are opened once, because a device without root's rights cannot open the files again.
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
        """Return the time since creation in which the thread was ready but did not run."""
        return self._counts()[1] - self._before[1]

    def stolen_ns(self) -> int:
        """Return the time that the hypervisor took from a processor since creation, on average."""
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
    """Return the time that the hypervisor took from a processor of this machine, on average."""
    if file is None:
        return 0
    with suppress(OSError, ValueError, IndexError):
        # The first line is for all processors, the next lines for one each; the eighth number is stolen time.
        together, *lines = os.pread(file.fileno(), _MACHINE_COUNTS_OCTETS, 0).splitlines()
        processors = sum(line.startswith(b"cpu") for line in lines)
        return int(together.split()[8]) * (NS_PER_S // os.sysconf("SC_CLK_TCK")) // max(1, processors)
    return 0


def sleep_precisely() -> None:
    """Set the thread's timer slack to 1 ns; with the default slack, the kernel wakes the thread up to 50 µs
    late.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_FINE_NS), 0, 0, 0)


@method_errors()
def exercise(device: Device) -> None:
    """Pass some frames and messages through a device without interfaces, so that the code is compiled."""
    data = Batch.from_matrix(np.tile(np.frombuffer(EXAMPLE_FRAME, np.uint8), (EXAMPLE_FRAMES, 1)))
    messages = Batch.from_frames(_EXAMPLE_MESSAGES)
    batches = ((data, 0), (data, 1), (messages, 1), (messages, 0), (data, 0))
    for second, (batch, interface) in enumerate(batches):
        device.take(batch, interface, second * NS_PER_S)
        _ = device.due_ns  # computes the machines' due times
    device.advance(EXERCISED_NS)
    device.snapshot(EXERCISED_NS)


def discard(*_: object) -> None:
    """Discard frames; this is the `Send` function of devices without interfaces."""
