"""Receiving with little delay: many frames by one system call, as soon as there is one.

For forwarding.  A ring (`capture.linux.reader`) delivers frames block by block, which takes less time a frame
and delays each by up to tens of milliseconds.
"""

from __future__ import annotations

import dataclasses
import errno
import mmap
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.batch import Batch, Int64, Octets
from ecmproto.frames.capture.linux.bpf import Instruction
from ecmproto.frames.capture.linux.interface import (
    ADDRESSES_OCTETS,
    TAG_OCTETS,
    InterfaceFacts,
    interface_facts,
)
from ecmproto.frames.capture.linux.packet_socket import (
    AUXDATA_ORIGINAL,
    AUXDATA_STATUS,
    AUXDATA_TAG,
    C_TAG,
    DOWN_ERRORS,
    MESSAGE,
    PACKET_AUXDATA,
    PACKET_RESERVE,
    PACKET_RX_RING,
    PACKET_VERSION,
    SLOT_HEADER,
    SO_TIMESTAMPNS,
    SOL_PACKET,
    TP_STATUS_KERNEL,
    TP_STATUS_USER,
    TP_STATUS_VLAN_TPID_VALID,
    TP_STATUS_VLAN_VALID,
    TPACKET_V2,
    KernelCounts,
    PacketSocket,
    message_array,
    open_receiving,
    receive_messages,
)
from ecmproto.kernels.kernel import compiled, inlined, instruction
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct
from ecmproto.units import NS_PER_S

FRAMES = 256
SOCKET_OCTETS = 8 << 20
_ALIGNED = 64
MORE_OCTETS = 64
"""Octets reserved for tags beyond the MTU, and for the tag that is restored."""
HEADROOM_OCTETS = 64
"""Free octets before each frame: for the tag that is restored, and for tags that forwarders insert."""
CONTROL_OCTETS = 128
"""Octets of a frame's control messages: a time (32) and struct tpacket_auxdata (40)."""


class FrameReceiver:
    """Frames from an interface, up to ``frames`` at a time; they wait in the kernel in ``socket_octets``.

    ``program`` lets the kernel drop frames (`capture.linux.bpf`).  Frames that this machine sends out of the
    interface are left out unless ``outgoing``.  With ``in_ring`` they are read from memory shared with the
    kernel, which takes less time, and have no times; the ring has about ``socket_octets``.  A frame longer
    than ``frame_octets`` (default: the MTU and some) is truncated, which ``original`` shows.  Raises
    InterfaceError.
    """

    def __init__(
        self,
        interface: str,
        *,
        frames: int = FRAMES,
        frame_octets: int | None = None,
        socket_octets: int = SOCKET_OCTETS,
        promiscuous: bool = True,
        outgoing: bool = False,
        program: Sequence[Instruction] = (),
        in_ring: bool = False,
    ) -> None:
        self._ring_octets = socket_octets if in_ring else 0
        self._ring: Ring | None = None
        self.frame_octets: int = frame_octets or 0
        """The maximum length of a frame that is not truncated."""
        self._socket: PacketSocket = open_receiving(
            interface, promiscuous=promiscuous, outgoing=outgoing, program=program, prepare=self._prepare
        )
        self._socket.enlarge(socket_octets)
        self.facts: InterfaceFacts = self._socket.facts
        self.down: bool = False
        """Whether the interface was down at the last check; it may come up again."""
        self._doubtful = False
        # In a ring frames have their slots.
        self._buffer = ReceiveBuffer(self.frame_octets if self._ring is None else 0, capacity=frames)
        self.ring: Ring = no_ring(self._buffer) if self._ring is None else self._ring
        """The frames that are not in messages of the kernel."""

    def _prepare(self, opened: PacketSocket) -> None:
        self.frame_octets = self.frame_octets or opened.facts.longest_octets + MORE_OCTETS
        if self._ring_octets:
            # Before frames arrive: the kernel would drop earlier ones, and count them as received.
            self._ring = _new_ring(opened, self.frame_octets, self._ring_octets)
            return
        opened.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        opened.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def fileno(self) -> int:
        """Return the descriptor to wait at: readable when there are frames, in error when it went down."""
        return self._socket.socket.fileno()

    def receive(self) -> Batch | None:
        """Return the waiting frames, tags restored; None without any, at once.

        The next call overwrites the batch and its arrays.  ``time_ns`` is the time at which the kernel
        received each frame, or read it if that was just after opening.  InterfaceError when the interface was
        removed; while it is down there are no frames, and repeated calls check it (`down`).
        """
        buffer, ring = self._buffer, self.ring
        give_back_slots(ring)
        count = take_slots(
            ring, buffer.capacity, ANY_TIME_NS,
            buffer.offset, buffer.captured, buffer.original, buffer.time_ns,
        )  # fmt: skip
        if count:
            self.down = False
            return buffer.batch(count, ring)
        try:
            count = receive_messages(self.fileno(), buffer.address, buffer.capacity, socket.MSG_DONTWAIT)
        except OSError as error:
            self.missed(error)
            return None
        self.down = False
        if ring.facts.slots:
            return None
        buffer.unpack(count)
        return buffer.batch(count, ring)

    def warm_up(self) -> None:
        """Compile the loops that `receive` runs."""
        buffer = self._buffer
        buffer.unpack(0)
        give_back_slots(self.ring)
        take_slots(
            self.ring, 0, ANY_TIME_NS, buffer.offset, buffer.captured, buffer.original, buffer.time_ns
        )  # fmt: skip

    def missed(self, error: OSError) -> None:
        """Note the error of a failed reception; InterfaceError when the interface was removed."""
        if error.errno in DOWN_ERRORS:
            # is reported before the waiting frames, which may be the last ones
            self.down = self._doubtful = True
            return
        if error.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOBUFS):
            raise self._socket.unexpected(error, "frames") from error
        if self._doubtful and self._socket.gone:
            raise self._socket.vanished()
        self._doubtful = self.down

    def look(self) -> bool:
        """Return whether an interface that was down still is; a missing frame is no sign of that."""
        if self.down:
            self.down = not interface_facts(self.facts.name).up
        return self.down

    def counts(self) -> KernelCounts:
        """Return the numbers of frames delivered, dropped, and waiting in the ring."""
        kernel, facts = self._socket.counts(), self.ring.facts
        if not facts.slots:
            return kernel
        return dataclasses.replace(kernel, unread=kernel.received - int(facts.frames))

    def close(self) -> None:
        """Stop receiving."""
        self._socket.close()

    def __enter__(self) -> FrameReceiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReceiveBuffer:
    """The messages that recvmmsg(2) fills: a slot and a buffer for control messages each.

    ``address`` is their address, ``messages`` their contents.
    """

    def __init__(self, frame_octets: int, *, capacity: int = FRAMES) -> None:
        self.capacity = capacity
        width = -(-(frame_octets + HEADROOM_OCTETS) // _ALIGNED) * _ALIGNED
        self.frame_octets: int = width - HEADROOM_OCTETS
        self.slots: NDArray[np.uint8] = np.zeros(capacity * width, dtype=np.uint8)
        self.controls: NDArray[np.uint32] = np.zeros(capacity * CONTROL_OCTETS // 4, dtype=np.uint32)
        self._messages, self._parts = message_array(capacity)
        steps = np.arange(capacity, dtype=np.int64)
        self.starts: NDArray[np.int64] = steps * width + HEADROOM_OCTETS
        self._parts["base"] = self.slots.ctypes.data + self.starts
        self._parts["octets"] = self.frame_octets
        self._messages["header"]["control"] = self.controls.ctypes.data + steps * CONTROL_OCTETS
        self._messages["header"]["control_octets"] = CONTROL_OCTETS
        self.address: int = self._messages.ctypes.data
        self.messages: NDArray[np.uint32] = self._messages.view(np.uint32)
        columns: NDArray[np.int64] = np.zeros((4, capacity), dtype=np.int64)
        self.offset: NDArray[np.int64] = columns[0]
        self.captured: NDArray[np.int64] = columns[1]
        self.original: NDArray[np.int64] = columns[2]
        self.time_ns: NDArray[np.int64] = columns[3]
        self._interface = np.zeros(capacity, dtype=np.int64)
        self._frames = 0

    def unpack(self, count: int) -> None:
        """Fill the columns for the ``count`` frames that have arrived, tags restored."""
        unpack(
            self.slots, self.starts, self.controls, self.messages, count,
            self.offset, self.captured, self.original, self.time_ns,
        )  # fmt: skip

    def batch(self, count: int, ring: Ring) -> Batch:
        """Return the first ``count`` frames, which are in ``ring`` and are overwritten by the next ones."""
        shown: NDArray[np.uint8] = ring.octets.view()
        shown.flags.writeable = False
        first, self._frames = self._frames, self._frames + count
        offset, captured = self.offset[:count], self.captured[:count]
        return Batch(
            buffer=shown, offset=offset, captured=captured, original=self.original[:count],
            time_ns=self.time_ns[:count], interface=self._interface[:count],
            record_offset=offset, record_length=captured, first=first,
        )  # fmt: skip


class RingFacts:
    """The size of a ring, and the index of its next slot; a record (``kernels.record``)."""

    at: int
    """The address of the octets."""
    slots: int
    """The number of slots; 0: frames come in messages."""
    slot_octets: int
    first: int
    """The index of the slot that the kernel fills next, or has filled first."""
    in_use: int
    """The number of slots before ``first`` that are still in use."""
    frames: int
    """The number of frames received since the ring was made."""


class Ring(Struct):
    """Memory shared with the kernel, which puts each frame into a slot after a header (PACKET_RX_RING).

    Without slots, ``octets`` are the memory of received messages.
    """

    facts: RingFacts
    octets: NDArray[np.uint8]
    values: NDArray[np.uint32]


def no_ring(buffer: ReceiveBuffer) -> Ring:
    """Return a ring without slots, for frames that are received into ``buffer``."""
    facts = new_record(RingFacts)
    facts.at = buffer.slots.ctypes.data
    return Ring(facts, buffer.slots, buffer.slots.view(np.uint32))


def _new_ring(opened: PacketSocket, frame_octets: int, octets: int) -> Ring:
    """Return a ring of about ``octets`` octets for the future frames of a socket."""
    facts = new_record(RingFacts)
    needed = _SLOT_HEAD_OCTETS + HEADROOM_OCTETS + frame_octets
    facts.slot_octets = slot = 1 << (needed - 1).bit_length()
    facts.slots = min(max(octets // slot, _MIN_SLOTS), _MAX_SLOTS)
    block, size = max(slot, _BLOCK_OCTETS), slot * int(facts.slots)
    option = opened.socket.setsockopt
    try:
        option(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        option(SOL_PACKET, PACKET_RESERVE, HEADROOM_OCTETS)
        option(SOL_PACKET, PACKET_RX_RING, struct.pack("=IIII", block, size // block, slot, int(facts.slots)))
        memory = mmap.mmap(opened.socket.fileno(), size)
    except OSError as error:
        opened.close()
        raise opened.unexpected(error, f"a ring of {size} octets for received frames") from error
    shared: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
    facts.at = shared.ctypes.data
    return Ring(facts, shared, shared.view(np.uint32))


def _field_at(kind: np.dtype[np.void], name: str) -> int:
    """Return the offset of a field in a structure."""
    assert kind.fields is not None
    return int(kind.fields[name][1])


# struct cmsghdr: a length as wide as a pointer, and two words.
_LONG_WORDS = np.dtype(np.uintp).itemsize // 4
LITTLE = sys.byteorder == "little"
_LOW = 0 if LITTLE else _LONG_WORDS - 1
_STEP = 4 * _LONG_WORDS
_HEAD = _LONG_WORDS + 2
_LEVEL, _TYPE = _LONG_WORDS, _LONG_WORDS + 1
_MESSAGE_WORDS = MESSAGE.itemsize // 4
_OCTETS_AT = _field_at(MESSAGE, "octets") // 4
_CONTROL_OCTETS_AT = _field_at(MESSAGE["header"], "control_octets") // 4 + _LOW
_SOL_SOCKET = 1
# struct tpacket2_hdr, and a struct sockaddr_ll after it; then the kernel aligns.
_SLOT_HEAD_OCTETS = SLOT_HEADER.itemsize + 20 + 32
_MIN_SLOTS, _MAX_SLOTS, _BLOCK_OCTETS = 256, 4096, 1 << 16
_SLOT_STATUS, _SLOT_ORIGINAL, _SLOT_CAPTURED, _SLOT_MAC, _SLOT_SECONDS, _SLOT_NS, _SLOT_TAG = (
    _field_at(SLOT_HEADER, name) // 4
    for name in ("status", "original", "captured", "mac", "seconds", "ns", "tci")
)
ANY_TIME_NS = 2**62
"""Later than any frame."""


@inlined
def restore_tag(
    octets: Octets, row: int, status: Any, tag: Any, offset: Int64, captured: Int64, original: Int64
) -> None:
    """Restore the VLAN tag of a frame in ``octets`` where the kernel moved it into the metadata.

    The addresses move into the four octets before the frame, which must be free.  ``status`` is tp_status,
    ``tag`` the word of tp_vlan_tci and tp_vlan_tpid; no EtherType means a C-TAG.  A frame truncated within
    its addresses stays without the tag.
    """
    if not status & TP_STATUS_VLAN_VALID:
        return
    original[row] += TAG_OCTETS
    if captured[row] < ADDRESSES_OCTETS:
        return
    word = np.int64(tag)
    tci = word & 0xFFFF if LITTLE else word >> 16
    tpid = word >> 16 if LITTLE else word & 0xFFFF
    if not status & TP_STATUS_VLAN_TPID_VALID:
        tpid = np.int64(C_TAG)
    offset[row] -= TAG_OCTETS
    captured[row] += TAG_OCTETS
    at = offset[row]
    for k in range(at, at + ADDRESSES_OCTETS):
        octets[k] = octets[k + TAG_OCTETS]
    at += ADDRESSES_OCTETS
    octets[at], octets[at + 1] = tpid >> 8, tpid & 0xFF
    octets[at + 2], octets[at + 3] = tci >> 8, tci & 0xFF


def _barrier() -> Any:
    """Return the typing function of `fence` for numba."""
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return lambda _: (types.void(), code)


@instruction(_barrier)
def fence() -> None:
    """Keep what is read and written before it, in memory shared with the kernel, before what is after it.

    Plain Python moves nothing.
    """


@compiled
def give_back_slots(ring: Ring) -> None:
    """Return the used slots to the kernel, which overwrites the frames in them from now on."""
    facts, values = ring.facts, ring.values
    if facts.in_use == 0:
        return
    fence()
    step = facts.slot_octets // 4
    for number in range(facts.first - facts.in_use, facts.first):
        values[(number & (facts.slots - 1)) * step + _SLOT_STATUS] = TP_STATUS_KERNEL
    facts.first &= facts.slots - 1
    facts.in_use = 0


@inlined
def _came_ns(ring: Ring, slot: int) -> int:
    """Return the time at which the kernel filled a slot, by the system clock."""
    at = slot * (ring.facts.slot_octets // 4)
    return int(np.int64(ring.values[at + _SLOT_SECONDS]) * NS_PER_S + np.int64(ring.values[at + _SLOT_NS]))


@compiled
def first_came_ns(ring: Ring) -> int:
    """Return the arrival of the next frame in a ring, by the system clock; ANY_TIME_NS without any."""
    facts = ring.facts
    if facts.slots == 0:
        return ANY_TIME_NS
    slot = facts.first & (facts.slots - 1)
    if ring.values[slot * (facts.slot_octets // 4) + _SLOT_STATUS] & TP_STATUS_USER == 0:
        return ANY_TIME_NS
    fence()
    return _came_ns(ring, slot)


@compiled
def take_slots(
    ring: Ring, capacity: int, until_ns: int, offset: Int64, captured: Int64, original: Int64, time_ns: Int64
) -> int:
    """Take the slots that the kernel has filled, ``capacity`` at most; return their number; fill the arrays.

    Frames that arrived after ``until_ns``, by the system clock, stay.  Tags are restored.
    """
    facts, values, octets = ring.facts, ring.values, ring.octets
    count, step = 0, facts.slot_octets // 4
    if facts.slots == 0:
        return 0
    while count < capacity:
        slot = (facts.first + count) & (facts.slots - 1)
        if values[slot * step + _SLOT_STATUS] & TP_STATUS_USER == 0:
            break
        count += 1
    if count == 0:
        return 0
    # The contents of a slot are read after its status.
    fence()
    for i in range(count):
        slot = (facts.first + i) & (facts.slots - 1)
        at = slot * step
        if until_ns != ANY_TIME_NS and _came_ns(ring, slot) > until_ns:
            count = i
            break
        offsets, status = np.int64(values[at + _SLOT_MAC]), values[at + _SLOT_STATUS]
        start = int(slot * facts.slot_octets + (offsets & 0xFFFF if LITTLE else offsets >> 16))
        offset[i], time_ns[i] = start, 0
        captured[i], original[i] = values[at + _SLOT_CAPTURED], values[at + _SLOT_ORIGINAL]
        restore_tag(octets, i, status, values[at + _SLOT_TAG], offset, captured, original)
    facts.first += count
    facts.in_use = count
    facts.frames += count
    return count


@compiled
def unpack(
    slots: Octets,
    starts: Int64,
    controls: NDArray[np.uint32],
    messages: NDArray[np.uint32],
    count: int,
    offset: Int64,
    captured: Int64,
    original: Int64,
    time_ns: Int64,
) -> None:
    """Fill the arrays for ``count`` received frames from their control messages, and restore their tags.

    ``starts`` are the offsets of the frames in ``slots``, after free octets; ``messages`` are their headers,
    which are prepared for the next call.
    """
    stride = CONTROL_OCTETS // 4
    for i in range(count):
        offset[i] = starts[i]
        message = i * _MESSAGE_WORDS
        captured[i] = messages[message + _OCTETS_AT]
        original[i] = captured[i]
        time_ns[i] = 0
        at = i * stride
        end = at + np.int64(messages[message + _CONTROL_OCTETS_AT]) // 4
        messages[message + _CONTROL_OCTETS_AT] = CONTROL_OCTETS
        while at + _HEAD <= end:
            length = np.int64(controls[at + _LOW])
            body = at + _HEAD
            level, kind = controls[at + _LEVEL], controls[at + _TYPE]
            if level == _SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds = np.int64(controls[body + _LOW])
                time_ns[i] = seconds * NS_PER_S + controls[body + _LONG_WORDS + _LOW]
            elif level == SOL_PACKET and kind == PACKET_AUXDATA:
                original[i] = controls[body + AUXDATA_ORIGINAL]
                status, tag = controls[body + AUXDATA_STATUS], controls[body + AUXDATA_TAG]
                restore_tag(slots, i, status, tag, offset, captured, original)
            if length < 4 * _HEAD:
                break
            at += int(length + _STEP - 1) // _STEP * _LONG_WORDS
