"""Waiting, receiving and sending on several interfaces in compiled code, without Python.

`Wires` contains the sockets of several interfaces. `sleep` waits for events on all interfaces, `receive`
returns the available frames of one interface, and `send` sends frames on one interface. System calls are made
by name.

The loops with these calls run without the interpreter's lock (`ecmproto.kernels.kernel.released`), so that
devices in several threads of one process run in parallel. Other threads read the state of a device only
through calls that the thread of the device makes between two wakes (`live.device.Stop.call`). The caller
handles errors of interfaces that are down or removed.

With ``NUMBA_DISABLE_JIT=1``, the same code makes the same calls through ctypes.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import select
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.departures import count_ns, percentile_ns
from ecmproto.frames.capture.linux.packet_socket import MESSAGE, message_array
from ecmproto.frames.capture.linux.receiver import (
    ANY_TIME_NS,
    FRAMES,
    ReceiveBuffer,
    Ring,
    first_came_ns,
    give_back_slots,
    no_ring,
    take_slots,
    unpack,
)
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.units import NS_PER_S

TIME_CAME, WOKEN, FAILED, FRAMES_CAME, MESSAGES_POSTED, NOT_SENT = range(6)
"""Reasons for which a loop over `Wires` returns.

The reasons in order: the time has elapsed; the caller or another thread woke the loop; an interface failed;
frames have arrived for the caller; messages are to be sent; a send buffer is full.
"""
SENT_AT_ONCE = 1024
"""Maximum number of frames in one call; the limit of the kernel is UIO_MAXIOV."""
_FD, _EVENTS, _REVENTS, _POLL_PARTS = 0, 2, 3, 4
"""Indices in struct pollfd as 16-bit numbers, of which the descriptor uses two."""
_POLLIN = select.POLLIN
_CLOSED = -1
_CLOCK_REALTIME, CLOCK_MONOTONIC = 0, 1
DONTWAIT = 0x40
"""Value of MSG_DONTWAIT on Linux, which Python lacks on some systems."""
_WOULD_BLOCK = (errno.EAGAIN, errno.EINTR, errno.ENOBUFS)
_EAGAIN, _EINTR, _ENOBUFS = _WOULD_BLOCK
_PARTS = 2
"""Number of 64-bit words in a struct iovec."""
_MESSAGE_OCTETS = MESSAGE.itemsize


class WireState:
    """The state shared by compiled code and its caller, as a record (``kernels.record``)."""

    interfaces: int
    capacity: int
    """Maximum number of frames that one call receives."""
    polls_at: int
    messages_at: int
    outgoing_at: int
    slots_at: int
    moment_at: int
    """Address of ``moment``, after the addresses of descriptors, messages and received octets."""
    first: int
    """Interface with which a loop begins."""
    interface: int
    """Interface of the last received frames, or of an error."""
    frames: int
    """Number of frames in the last reception."""
    position: int
    """Number of frames in the last reception that were processed."""
    error: int
    """Error of the interface; 0 means no error."""
    spin_ns: int
    """Time before the end of `sleep` at which `sleep` starts to poll the clock."""


class Wires(Struct):
    """The sockets of interfaces, and a descriptor that wakes a sleeping loop.

    Interfaces are numbered in the order of arguments. Received frames are in the ring of their interface
    until the next frames are received. Their arrays have the same meaning as in `capture.batch.Batch`.
    ``sent`` and ``sent_octets`` are counts by interface.
    """

    state: WireState
    polls: NDArray[np.int16]
    receiving: NDArray[np.int32]
    sending: NDArray[np.int32]
    sent: NDArray[np.int64]
    sent_octets: NDArray[np.int64]
    rings: Sequence[Ring]
    slots: NDArray[np.uint8]
    """Memory for frames that are received as messages."""
    starts: NDArray[np.int64]
    controls: NDArray[np.uint32]
    messages: NDArray[np.uint32]
    offset: NDArray[np.int64]
    captured: NDArray[np.int64]
    original: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    pieces: NDArray[np.int64]
    moment: NDArray[np.int64]


class Sockets:
    """The memory of `Wires`, for ``capacity`` frames of at most ``frame_octets`` with tags."""

    def __init__(self, interfaces: int, *, frame_octets: int, capacity: int = FRAMES) -> None:
        self._buffer = ReceiveBuffer(frame_octets, capacity=capacity)
        self._outgoing, parts = message_array(SENT_AT_ONCE)
        self._polls = np.zeros((interfaces + 1, _POLL_PARTS), np.int16)
        self._polls[:, _EVENTS] = select.POLLIN
        buffer, state = self._buffer, new_record(WireState)
        self._no_ring = no_ring(buffer)
        self.wires: Wires = Wires(
            state, self._polls.reshape(-1), np.zeros(interfaces, np.int32), np.zeros(interfaces, np.int32),
            np.zeros(interfaces, np.int64), np.zeros(interfaces, np.int64),
            [self._no_ring] * interfaces, buffer.slots, buffer.starts,
            buffer.controls, buffer.messages, buffer.offset, buffer.captured, buffer.original, buffer.time_ns,
            parts.view(np.int64), np.zeros(_PARTS, np.int64),
        )  # fmt: skip
        state.interfaces, state.capacity = interfaces, buffer.capacity
        state.polls_at, state.messages_at = self._polls.ctypes.data, buffer.address
        state.slots_at = buffer.slots.ctypes.data
        state.outgoing_at, state.moment_at = self._outgoing.ctypes.data, self.wires.moment.ctypes.data
        self.attach([_CLOSED] * interfaces, [_CLOSED] * interfaces, _CLOSED)

    def attach(
        self, receiving: Sequence[int], sending: Sequence[int], bell: int, rings: Sequence[Ring] | None = None
    ) -> None:
        """Use the given nonnegative descriptors from now on; ``rings`` are the rings of ``receiving``."""
        self.wires.rings = list(rings) if rings is not None else [self._no_ring] * len(receiving)
        self.wires.receiving[:], self.wires.sending[:] = receiving, sending
        descriptors = np.array([*receiving, bell], np.int32)
        self._polls[:, _FD:_EVENTS] = descriptors.view(np.int16).reshape(-1, 2)

    @property
    def capacity(self) -> int:
        """Capacity in frames."""
        return self._buffer.capacity

    def fill(self, batch: Batch, interface: int, first: int) -> None:
        """Copy frames of ``batch`` from index ``first`` as if they were received, up to the capacity."""
        buffer, state = self._buffer, self.wires.state
        last = min(len(batch), first + buffer.capacity)
        state.interface, state.frames, state.position, state.error = interface, last - first, 0, 0
        state.slots_at = buffer.slots.ctypes.data
        for index, position in enumerate(range(first, last)):
            octets = batch.frame(position)[: buffer.frame_octets]
            start = int(buffer.starts[index])
            buffer.slots[start : start + len(octets)] = np.frombuffer(octets, np.uint8)
            buffer.offset[index], buffer.captured[index] = start, len(octets)
            buffer.original[index] = batch.original[position]

    def received(self) -> Batch:
        """Return the last received frames; the next reception overwrites them."""
        state = self.wires.state
        return self._buffer.batch(int(state.frames), self.wires.rings[int(state.interface)])


def detach(wires: Wires, interface: int) -> None:
    """Remove the closed descriptors of an interface, because the system may reuse their numbers."""
    wires.receiving[interface] = wires.sending[interface] = _CLOSED
    start = _POLL_PARTS * interface
    wires.polls[start + _FD : start + _EVENTS] = _CLOSED
    wires.polls[start + _REVENTS] = 0


class External:
    """A C function that compiled code calls by name and that plain Python calls through ctypes.

    ``types`` are the numba names of the return type and of the argument types.
    """

    def __init__(self, name: str, *types: str) -> None:
        self._name = name
        self._types = types

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """The numba type of the function for kernels."""
        from numba.core import types

        returns, *arguments = (getattr(types, kind) for kind in self._types)
        return types.ExternalFunction(self._name, returns(*arguments))

    @functools.cached_property
    def _function(self) -> Any:
        function = getattr(ctypes.CDLL(None, use_errno=True), self._name)
        function.argtypes = [_C_KINDS[kind] for kind in self._types[1:]]
        return function

    def __call__(self, *arguments: int) -> int:
        """Call the function."""
        called: int = self._function(*arguments)
        return called


_C_KINDS = {"int32": ctypes.c_int, "uint32": ctypes.c_uint, "int64": ctypes.c_size_t}
clock_gettime: External = External("clock_gettime", "int32", "int32", "int64")
_ppoll = External("ppoll", "int32", "int64", "int64", "int64", "int64")
_recvmmsg = External("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
sendmmsg: External = External("sendmmsg", "int32", "int32", "int64", "uint32", "int32")


class _LastError:
    """The error number of the last failed C function, in an array of one element."""

    @functools.cached_property
    def _numba_type_(self) -> Any:
        """The numba type of the function for kernels."""
        from numba.core import types

        pointer: Any = types.CPointer
        return types.ExternalFunction("__errno_location", pointer(types.int32)())

    def __call__(self) -> tuple[int]:
        """Return the error number."""
        return (ctypes.get_errno(),)


last_error: _LastError = _LastError()


@inlined
def monotonic_ns(wires: Wires) -> int:
    """Return the time of the monotonic clock."""
    clock_gettime(CLOCK_MONOTONIC, wires.state.moment_at)
    return int(wires.moment[0] * NS_PER_S + wires.moment[1])


@compiled
def sleep(wires: Wires, sleep_ns: int, coalesce_ns: int) -> bool:
    """Sleep until frames arrive, at most ``sleep_ns``, and then for ``coalesce_ns``.

    Return whether the wake descriptor ended the sleep, so that the caller must handle the wake. `has_frames`
    reports the interfaces with frames.
    """
    state, polls = wires.state, wires.polls
    _give_back(wires)
    spin_ns = 0
    if coalesce_ns == 0:
        spin_ns = max(0, min(state.spin_ns, sleep_ns))
    until_ns = monotonic_ns(wires) + sleep_ns if spin_ns > 0 else 0
    ready = _poll(wires, max(sleep_ns - spin_ns, 0), state.interfaces + 1)
    if spin_ns > 0 and ready == 0:
        # The kernel wakes a sleeping thread some µs late.
        while monotonic_ns(wires) < until_ns:
            pass
    if coalesce_ns > 0 and polls[_POLL_PARTS * state.interfaces + _REVENTS] == 0:
        _poll(wires, coalesce_ns, 0)
        _poll(wires, 0, state.interfaces + 1)
    return bool(polls[_POLL_PARTS * state.interfaces + _REVENTS] != 0)


@inlined
def _poll(wires: Wires, sleep_ns: int, descriptors: int) -> int:
    """Sleep until a descriptor is ready; return the number of ready descriptors."""
    wires.moment[0] = sleep_ns // NS_PER_S
    wires.moment[1] = sleep_ns % NS_PER_S
    state = wires.state
    ready = int(_ppoll(state.polls_at, descriptors, state.moment_at, 0))
    if ready < 0:
        # interrupted before any descriptor was checked
        for each in range(state.interfaces + 1):
            wires.polls[_POLL_PARTS * each + _REVENTS] = 0
    return ready


@inlined
def has_frames(wires: Wires, interface: int) -> bool:
    """Return whether the last sleep found frames at ``interface`` that were not received yet."""
    return bool(wires.polls[_POLL_PARTS * interface + _REVENTS] != 0)


@inlined
def is_served(wires: Wires) -> bool:
    """Return whether all frames that the last sleep found were received.

    A loop that returned to its caller early must continue with the remaining interfaces, so that each
    interface is served.
    """
    served = True
    for interface in range(wires.state.interfaces):
        served = served and not has_frames(wires, interface)
    return served


@inlined
def _give_back(wires: Wires) -> None:
    """Return the memory of the last received frames to the kernel."""
    for interface in range(wires.state.interfaces):
        give_back_slots(wires.rings[interface])


@compiled
def receive(wires: Wires, interface: int) -> bool:
    """Receive the available frames of ``interface``, up to the capacity.

    Return False on failure, with the reason in ``state.error``.
    """
    state, ring = wires.state, wires.rings[interface]
    happened = wires.polls[_POLL_PARTS * interface + _REVENTS]
    wires.polls[_POLL_PARTS * interface + _REVENTS] = 0
    state.interface, state.frames, state.error = interface, 0, 0
    state.slots_at = ring.facts.at
    _give_back(wires)
    if ring.facts.slots != 0 and happened == _POLLIN:
        state.frames = take_slots(
            ring, state.capacity, ANY_TIME_NS, wires.offset, wires.captured, wires.original, wires.time_ns
        )  # fmt: skip
        return True
    # Without a ring the call receives frames, with a ring it returns a pending error.
    count = _recvmmsg(wires.receiving[interface], state.messages_at, state.capacity, DONTWAIT, 0)
    if count < 0:
        error = int(last_error()[0])
        if error != _EAGAIN and error != _EINTR and error != _ENOBUFS:
            state.error = error
        return state.error == 0
    if ring.facts.slots != 0:
        return True
    unpack(
        wires.slots, wires.starts, wires.controls, wires.messages, count,
        wires.offset, wires.captured, wires.original, wires.time_ns,
    )  # fmt: skip
    state.frames = count
    return True


@inlined
def _day_ns(wires: Wires) -> int:
    """Return the difference between the system clock, which rings use, and the monotonic clock."""
    clock_gettime(_CLOCK_REALTIME, wires.state.moment_at)
    day_ns = int(wires.moment[0] * NS_PER_S + wires.moment[1])
    return day_ns - monotonic_ns(wires)


@compiled
def came_ns(wires: Wires) -> int:
    """Return the arrival time of the first unread frame in rings, from the monotonic clock.

    ANY_TIME_NS means that the last sleep found no frame.
    """
    first_ns = ANY_TIME_NS
    for interface in range(wires.state.interfaces):
        if has_frames(wires, interface):
            first_ns = min(first_ns, first_came_ns(wires.rings[interface]))
    return first_ns if first_ns == ANY_TIME_NS else first_ns - _day_ns(wires)


@compiled
def receive_until(wires: Wires, interface: int, until_ns: int) -> None:
    """Receive frames that arrived in the ring of ``interface`` up to ``until_ns`` (monotonic clock).

    `receive` handles later frames and all other events.
    """
    state, ring = wires.state, wires.rings[interface]
    state.interface, state.error = interface, 0
    state.slots_at = ring.facts.at
    _give_back(wires)
    state.frames = take_slots(
        ring, state.capacity, until_ns + _day_ns(wires), wires.offset, wires.captured, wires.original,
        wires.time_ns,
    )  # fmt: skip


@compiled
def send(
    wires: Wires,
    interface: int,
    octets_at: int,
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    count: int,
) -> int:
    """Send ``count`` frames, at most `SENT_AT_ONCE`; ``offset`` is relative to the address ``octets_at``.

    Return the number of frames sent. If fewer frames were sent, the caller must find the reason.
    """
    pieces, total = wires.pieces, 0
    for frame in range(count):
        pieces[_PARTS * frame] = octets_at + offset[frame]
        pieces[_PARTS * frame + 1] = length[frame]
    done = 0
    while done < count:
        messages_at = wires.state.outgoing_at + done * _MESSAGE_OCTETS
        accepted = sendmmsg(wires.sending[interface], messages_at, count - done, DONTWAIT)
        if accepted <= 0:
            break
        done += accepted
    for frame in range(done):
        total += length[frame]
    wires.sent[interface] += done
    wires.sent_octets[interface] += total
    return done


count_late: Callable[[NDArray[np.int64], int], None] = inlined(count_ns)


def lateness_gauges(lateness: NDArray[np.int64]) -> dict[str, float]:
    """Return the median, 99th percentile and maximum lateness of departures; empty without departures."""
    if not lateness[1:].any():
        return {}
    gauges = {f"late_p{percent}_ns": float(percentile_ns(lateness, percent)) for percent in (50, 99)}
    return gauges | {"late_max_ns": float(lateness[0])}
