"""Receiving with little delay: one system call returns all frames that have arrived.

This module is for forwarding. A ring (`capture.linux.reader`) delivers frames in blocks, which needs less
time for each frame but delays frames by up to tens of milliseconds.
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
    SocketUser,
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
"""Number of octets above the MTU, for VLAN tags and for the tag that is restored."""
HEADROOM_OCTETS = 64
"""Free octets before each frame, for the tag that is restored and for tags that forwarders insert."""
CONTROL_OCTETS = 128
"""Length of the control messages of a frame: a time (32) and struct tpacket_auxdata (40)."""


class FrameReceiver(SocketUser):
    """A receiver of frames from an interface, up to ``frames`` in one call.

    Frames wait in a kernel buffer of ``socket_octets``. ``program`` is a BPF program with which the kernel
    drops frames (`capture.linux.bpf`). Frames that this host sends on the interface are skipped unless
    ``outgoing``. With ``in_ring``, frames are read from memory shared with the kernel; this is faster, and
    the ring has about ``socket_octets``. A frame longer than ``frame_octets`` is truncated, and ``original``
    is the full length; the default is slightly above the MTU.

    Raises InterfaceError if the interface cannot be opened.
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
        """Maximum length of a frame that is not truncated, in octets."""
        self._socket = open_receiving(
            interface, promiscuous=promiscuous, outgoing=outgoing, program=program, prepare=self._prepare
        )
        self._socket.enlarge(socket_octets)
        self.facts: InterfaceFacts = self._socket.facts
        self.down: bool = False
        """Whether the interface was down at the last check."""
        self._doubtful = False
        # Frames in a ring need no slots in the buffer.
        self._buffer = ReceiveBuffer(self.frame_octets if self._ring is None else 0, capacity=frames)
        self.ring: Ring = no_ring(self._buffer) if self._ring is None else self._ring
        """Ring of frames shared with the kernel; without slots if frames are received as messages."""

    def _prepare(self, opened: PacketSocket) -> None:
        self.frame_octets = self.frame_octets or opened.facts.longest_octets + MORE_OCTETS
        if self._ring_octets:
            # The kernel would drop frames that arrived before the ring, and count them as received.
            self._ring = _new_ring(opened, self.frame_octets, self._ring_octets)
            return
        opened.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        opened.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def fileno(self) -> int:
        """Return the descriptor for polling: readable with frames, in error when the link goes down."""
        return self._socket.socket.fileno()

    def receive(self) -> Batch | None:
        """Return the available frames with their VLAN tags, or ``None`` if there are no frames.

        The method does not wait. The next call overwrites the batch and its arrays. ``time_ns`` is the time
        at which the kernel received each frame, or the time of reading just after opening. While the
        interface is down there are no frames; repeated calls check the interface (`down`). Raises
        InterfaceError when the interface was removed.
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
        """Compile the loops that `receive` uses."""
        buffer = self._buffer
        buffer.unpack(0)
        give_back_slots(self.ring)
        take_slots(
            self.ring, 0, ANY_TIME_NS, buffer.offset, buffer.captured, buffer.original, buffer.time_ns
        )  # fmt: skip

    def missed(self, error: OSError) -> None:
        """Handle the error of a failed reception.

        Raises InterfaceError when the interface was removed.
        """
        if error.errno in DOWN_ERRORS:
            # the error is reported before the available frames, which may be the last frames
            self.down = self._doubtful = True
            return
        if error.errno not in (errno.EAGAIN, errno.EINTR, errno.ENOBUFS):
            raise self._socket.unexpected(error, "frames") from error
        if self._doubtful and self._socket.gone:
            raise self._socket.vanished()
        self._doubtful = self.down

    def look(self) -> bool:
        """Return whether the interface is down; an interface that was up before is not checked."""
        if self.down:
            self.down = not interface_facts(self.facts.name).up
        return self.down

    def counts(self) -> KernelCounts:
        """Return the numbers of frames that are delivered, dropped, and unread in the ring."""
        kernel, facts = self._socket.counts(), self.ring.facts
        if not facts.slots:
            return kernel
        return dataclasses.replace(kernel, unread=kernel.received - int(facts.frames))


class ReceiveBuffer:
    """The messages that recvmmsg(2) fills; each has a slot for the frame and a control buffer.

    ``address`` is the address of the messages, and ``messages`` are their contents.
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
        """Fill the arrays for the ``count`` frames that have arrived, and restore their VLAN tags."""
        unpack(
            self.slots, self.starts, self.controls, self.messages, count,
            self.offset, self.captured, self.original, self.time_ns,
        )  # fmt: skip

    def batch(self, count: int, ring: Ring) -> Batch:
        """Return the first ``count`` frames, which are in ``ring`` until the next frames overwrite them."""
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
    """The size of a ring and the index of its next slot, as a record (``kernels.record``)."""

    at: int
    """Address of the octets."""
    slots: int
    """Number of slots; 0 means that frames are received as messages."""
    slot_octets: int
    first: int
    """Index of the first slot that is filled or that the kernel fills next."""
    in_use: int
    """Number of slots before ``first`` that are still in use."""
    frames: int
    """Number of frames received since the ring was created."""


class Ring(Struct):
    """Memory shared with the kernel, which writes each frame to a slot after a header (PACKET_RX_RING).

    In a ring without slots, ``octets`` is the memory of received messages.
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
    """Return a new ring of about ``octets`` octets for the frames of a socket."""
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
    """Return the offset of a field in a structure, in octets."""
    assert kind.fields is not None
    return int(kind.fields[name][1])


# struct cmsghdr: a length with the size of a pointer, and two words.
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
# struct tpacket2_hdr, then struct sockaddr_ll, then alignment.
_SLOT_HEAD_OCTETS = SLOT_HEADER.itemsize + 20 + 32
_MIN_SLOTS, _MAX_SLOTS, _BLOCK_OCTETS = 256, 4096, 1 << 16
_SLOT_STATUS, _SLOT_ORIGINAL, _SLOT_CAPTURED, _SLOT_MAC, _SLOT_SECONDS, _SLOT_NS, _SLOT_TAG = (
    _field_at(SLOT_HEADER, name) // 4
    for name in ("status", "original", "captured", "mac", "seconds", "ns", "tci")
)
ANY_TIME_NS = 2**62
"""Time later than any frame."""


@inlined
def restore_tag(
    octets: Octets, row: int, status: Any, tag: Any, offset: Int64, captured: Int64, original: Int64
) -> None:
    """Restore the VLAN tag of a frame in ``octets`` if the kernel moved the tag to the metadata.

    The addresses are moved to the four octets before the frame, which must be free. ``status`` is tp_status.
    ``tag`` is the word of tp_vlan_tci and tp_vlan_tpid; if the EtherType is missing, the tag is a C-TAG. A
    frame truncated within its addresses keeps no tag.
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
    """Return the numba typing function of `fence`."""
    from numba.core import types

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return lambda _: (types.void(), code)


@instruction(_barrier)
def fence() -> None:
    """Prevent reordering of reads and writes in shared memory across this call.

    In plain Python the function does nothing, because Python does not reorder.
    """


@compiled
def give_back_slots(ring: Ring) -> None:
    """Return the used slots to the kernel, which may then overwrite their frames."""
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
    """Return the time at which the kernel filled a slot, from the system clock."""
    at = slot * (ring.facts.slot_octets // 4)
    return int(np.int64(ring.values[at + _SLOT_SECONDS]) * NS_PER_S + np.int64(ring.values[at + _SLOT_NS]))


@compiled
def first_came_ns(ring: Ring) -> int:
    """Return the arrival time of the next frame in a ring, from the system clock.

    ANY_TIME_NS means that no frame is available.
    """
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
    """Take up to ``capacity`` slots that the kernel has filled; return their number and fill the arrays.

    VLAN tags are restored. Frames that arrived after ``until_ns`` (system clock) stay in the ring.
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
    # The contents of a slot must be read after its status.
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
    """Fill the arrays for ``count`` received frames from their control messages, and restore their VLAN tags.

    ``starts`` are the offsets of the frames in ``slots``, with free octets before each frame. ``messages``
    are the headers of the frames, which are prepared for the next call.
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
