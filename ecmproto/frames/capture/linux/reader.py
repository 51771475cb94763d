"""Reading of an interface like a file: batches, interfaces, warnings, and the reason for the end.

TPACKET_V3 delivers frames in a ring of blocks, which the kernel fills and user space empties. A block is
copied at once and returned to the kernel, so that the kernel never waits for the processing of frames. The
copy is the buffer of the batch. Receivers that need a batch only until the next batch can leave the frames in
the ring.

The kernel, or the network card, moves the outermost VLAN tag of a received frame to the metadata of the
packet. The reader restores the tag in the space that the kernel reserves before each frame (PACKET_RESERVE).

>>> with open_interface("eth0") as reader:
...     for batch in reader:
...         ...
"""

from __future__ import annotations

import mmap
import select
import struct
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import InterfaceGoneError, counted
from ecmproto.frames.capture.batch import (
    INTERFACE_DESCRIPTION,
    INTERFACE_STATISTICS,
    SECTION_HEADER,
    Batch,
    Block,
    ByteOrder,
    Format,
    Int64,
    Interface,
    Octets,
)
from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS, Instruction, cut, cut_at
from ecmproto.frames.capture.linux.interface import TAG_OCTETS, InterfaceFacts, speed_bps
from ecmproto.frames.capture.linux.packet_socket import (
    BLOCK_FIRST,
    BLOCK_FRAMES,
    BLOCK_STATUS,
    BLOCK_USED,
    FRAME_CAPTURED,
    FRAME_FIELDS,
    FRAME_NS,
    FRAME_ORIGINAL,
    FRAME_SECONDS,
    FRAME_STATUS,
    FRAME_TCI,
    FRAME_TPID,
    PACKET_RESERVE,
    PACKET_RX_RING,
    PACKET_VERSION,
    SOL_PACKET,
    TP_STATUS_KERNEL,
    TP_STATUS_USER,
    TPACKET_V3,
    KernelCounts,
    PacketSocket,
    open_receiving,
    use_hardware_clock,
)
from ecmproto.frames.capture.linux.receiver import LITTLE, restore_tag
from ecmproto.frames.capture.pcapng import build_block, build_options
from ecmproto.frames.capture.reader import ParsedReader
from ecmproto.frames.capture.source import Parser, Shortage, Source
from ecmproto.frames.capture.writer import interface_block, section_block
from ecmproto.kernels.kernel import compiled
from ecmproto.units import NS_PER_S

BLOCK_OCTETS = 1 << 20
RING_OCTETS = 64 << 20
RETIRE_MS = 50
"""Time after which a partly filled block is delivered, in ms."""
_FRAME_OCTETS = 2048
"""Frame size with which the kernel checks the shape of the ring; frames in a block may be longer."""
_LOOK_MS = 250
"""Interval of checks by a waiting reader for a stop or a removed interface, in ms."""


def open_interface(
    interface: str,
    *,
    promiscuous: bool = True,
    outgoing: bool = True,
    snap_octets: int = MAX_CUT_OCTETS,
    program: Sequence[Instruction] = (),
    ring_octets: int = RING_OCTETS,
    retire_ms: int = RETIRE_MS,
    idle_batches: bool = False,
    zero_copy: bool = False,
) -> InterfaceReader:
    """Open ``interface`` for capture and return the reader.

    ``outgoing`` includes frames that this host sends on the interface. ``snap_octets`` is the maximum
    captured length. ``program`` is a BPF program with which the kernel drops frames; `filter.prefilter` makes
    a program from a display filter.

    Unread frames are stored in a ring of ``ring_octets``. A block of the ring is delivered when it is full,
    or after ``retire_ms``. The ring stores more frames if ``retire_ms`` is longer. ``idle_batches`` yields an
    empty batch after each quarter of a second without frames, for callers with other work. ``zero_copy``
    leaves frames in the ring, which is faster; a batch is then valid until the next batch.

    Times are in ns, from the clock of the network card if it stamps all frames, otherwise from the kernel.
    Raises InterfaceError when the interface is missing or may not be opened.
    """
    rings: list[Ring] = []
    opened = open_receiving(
        interface,
        promiscuous=promiscuous,
        outgoing=outgoing,
        program=cut(program, snap_octets) if program else cut_at(snap_octets),
        prepare=lambda each: rings.append(
            Ring(each, octets=ring_octets, retire_ms=retire_ms, zero_copy=zero_copy)
        ),
    )
    live = _Live(opened, rings[0], snap_octets, idle_batches)
    live.hardware_times = use_hardware_clock(opened)
    return InterfaceReader(live)


class InterfaceReader(ParsedReader):
    """A reader of an interface, which ends after `stop` or when the interface is removed (`problem`).

    For copies and output, the reader is a pcapng capture with times in ns. `items` begins with the blocks
    that describe the interface, and ends with an interface statistics block. The reader waits while the
    interface is down, and ``warnings`` reports this state. At the end ``warnings`` also reports frames that
    the kernel dropped.
    """

    def __init__(self, live: _Live) -> None:
        self._live = live
        super().__init__(live, live.facts.name)
        self._pending += heading_blocks(live.interfaces[0])

    @property
    def facts(self) -> InterfaceFacts:
        """Properties of the interface when it was opened."""
        return self._live.facts

    @property
    def hardware_times(self) -> bool:
        """Whether the times are from the clock of the network card."""
        return self._live.hardware_times

    @property
    def octets_read(self) -> int:
        """Number of octets in the frames returned so far."""
        return self._live.octets

    def items(self) -> Iterator[Batch | Block]:
        """Yield the blocks that describe the capture, batches, and an interface statistics block at the end.

        With ``idle_batches``, an empty batch is yielded after a time without frames.
        """
        yield from super().items()
        self._live.finish()
        yield statistics_block(self._live.counts(), self._live.began_ns, time.time_ns(), self.frames)
        if self._live.gone:
            self.problem = InterfaceGoneError(
                path=self.path, offset=self.octets_read, frame=self.frames,
                needed="the interface", got="its removal while it was in use",
            )  # fmt: skip

    def counts(self) -> KernelCounts:
        """Return the numbers of frames that the kernel delivered and dropped."""
        return self._live.counts()

    def stop(self) -> None:
        """Stop after the frames that have arrived; a signal handler or another thread may call this."""
        self._live.stop()

    def close(self) -> None:
        """Stop capturing; returned batches stay valid."""
        super().close()
        self._live.close()


class _Live:
    """Parser of an interface, which returns frames from the ring and waits for more frames."""

    format: Format = "pcapng"
    byte_order: ByteOrder = "little"
    batch_frames: int = 0
    """Ignored, because a batch is a block of the ring."""
    frames_only: bool = False

    def __init__(self, opened: PacketSocket, ring: Ring, snap_octets: int, idle_batches: bool) -> None:
        self.facts: InterfaceFacts = opened.facts
        snaplen = 0 if snap_octets >= MAX_CUT_OCTETS else snap_octets
        self.interfaces: list[Interface] = [
            Interface(
                index=0,
                linktype=self.facts.linktype,
                name=self.facts.name,
                snaplen=snaplen,
                ticks_per_second=NS_PER_S,
                speed_bps=speed_bps(self.facts.name) or 0,
            )
        ]
        self.warnings: list[str] = []
        self.frames: int = 0
        self.octets: int = 0
        self.gone: bool = False
        self.hardware_times = False
        self.began_ns: int = time.time_ns()
        self._stop_at_ns: int | None = None
        self._socket = opened
        self._ring = ring
        self._snap_octets = snap_octets
        self._idle_batches = idle_batches
        self._down = False
        self._last = KernelCounts()
        self._closed = False
        self._poll = select.poll()
        self._poll.register(opened.socket, select.POLLIN | select.POLLERR)

    @property
    def state(self) -> Hashable:
        """``None``, because the ring does not keep frames that were read."""
        return None

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> Parser:
        """Raise NotImplementedError, because frames cannot be read again."""
        raise NotImplementedError

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next batch, or a shortage at the end."""
        while not self._stopped():
            batch = self._ring.take(first=self.frames, snap_octets=self._snap_octets)
            if batch is not None:
                self._down = False
                self.frames += len(batch)
                self.octets += int(batch.captured.sum())
                return batch
            self._wait()
            if self._idle_batches:
                return Batch.from_frames([], first=self.frames)
        return Shortage(octets=1, what="")

    def stop(self) -> None:
        """Stop after the kernel has delivered the current block."""
        self._stop_at_ns = time.monotonic_ns() + 2 * self._ring.retire_ms * 1_000_000

    def _stopped(self) -> bool:
        return self._closed or (self._stop_at_ns is not None and time.monotonic_ns() >= self._stop_at_ns)

    def _wait(self) -> None:
        """Wait for a block, but not longer than until the next check."""
        for _, events in self._poll.poll(RETIRE_MS if self._stop_at_ns is not None else _LOOK_MS):
            if events & select.POLLERR and self._socket.pending_error():
                self._down = True
                warning = f"{self.facts.name} was down after {counted(self.frames, 'frame')}"
                if warning not in self.warnings:
                    self.warnings.append(warning)
        if self._down and not self.gone and self._socket.gone:
            self.gone = True
            self.stop()

    def counts(self) -> KernelCounts:
        """Return the counts of the kernel; after `close` the final counts."""
        if not self._closed:
            self._last = self._socket.counts()
        return self._last

    def finish(self) -> None:
        """Add a warning if the kernel dropped frames."""
        dropped = self.counts().dropped
        if dropped:
            self.warnings.append(f"{counted(dropped, 'frame')} dropped by the kernel: the ring was full")

    def close(self) -> None:
        if not self._closed:
            self.counts()
            self._closed = True
            self._ring.close()
            self._socket.close()


class Ring:
    """The ring of a packet socket with a total size of ``octets``; `take` returns the frames of a block.

    Raises OSError when the kernel has not enough memory.
    """

    def __init__(self, packet_socket: PacketSocket, octets: int, retire_ms: int, *, zero_copy: bool) -> None:
        batch_of(np.zeros(8, np.uint8), 0, 0, first=0, snap_octets=0)  # compiles before frames arrive
        self.retire_ms = retire_ms
        self._zero_copy = zero_copy
        self._lent = False
        """Whether a returned batch still uses the next block."""
        blocks = max(2, octets // BLOCK_OCTETS)
        opened = packet_socket.socket
        opened.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
        opened.setsockopt(SOL_PACKET, PACKET_RESERVE, TAG_OCTETS)
        frames = blocks * (BLOCK_OCTETS // _FRAME_OCTETS)
        shape = struct.pack("=7I", BLOCK_OCTETS, blocks, _FRAME_OCTETS, frames, retire_ms, 0, 0)
        opened.setsockopt(SOL_PACKET, PACKET_RX_RING, shape)
        self._map = mmap.mmap(opened.fileno(), blocks * BLOCK_OCTETS, mmap.MAP_SHARED)
        self._octets: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._words = memoryview(self._map).cast("I")
        self._blocks = blocks
        self._next = 0

    def take(self, *, first: int, snap_octets: int) -> Batch | None:
        """Return the frames of the next block, or ``None`` if the kernel is still filling the block.

        ``first`` is the number of the first frame. ``snap_octets`` is the maximum captured length.
        """
        if self._lent:
            self._give_back()
        start = self._next * BLOCK_OCTETS
        head = start // 4
        if not self._words[head + BLOCK_STATUS] & TP_STATUS_USER:
            return None
        count = self._words[head + BLOCK_FRAMES]
        used = self._words[head + BLOCK_USED]
        begin = self._words[head + BLOCK_FIRST]
        block = self._octets[start : start + used]
        self._lent = self._zero_copy
        if not self._lent:
            block = block.copy()
            self._give_back()
        return batch_of(block, begin, count, first=first, snap_octets=snap_octets)

    def _give_back(self) -> None:
        self._words[self._next * BLOCK_OCTETS // 4 + BLOCK_STATUS] = TP_STATUS_KERNEL
        self._next = (self._next + 1) % self._blocks
        self._lent = False

    def close(self) -> None:
        """Free the memory of the ring, or leave it to the last batch that still uses it."""
        self._words.release()
        del self._octets
        with suppress(BufferError):
            self._map.close()


def batch_of(block: Octets, begin: int, count: int, *, first: int, snap_octets: int) -> Batch:
    """Return the ``count`` frames of a block with their VLAN tags; ``begin`` is the first header's offset."""
    offset, captured, original, time_ns = np.empty((4, count), np.int64)
    _unpack_block(block, block[: len(block) & ~3].view(np.uint32), begin, offset, captured, original, time_ns)
    np.minimum(captured, snap_octets, out=captured)
    block.flags.writeable = False
    return Batch(
        buffer=block, offset=offset, captured=captured, original=original, time_ns=time_ns,
        interface=np.zeros(count, np.int64), record_offset=offset, record_length=captured, first=first,
    )  # fmt: skip


@compiled
def _unpack_block(
    octets: Octets,
    values: NDArray[np.uint32],
    begin: int,
    offset: Int64,
    captured: Int64,
    original: Int64,
    time_ns: Int64,
) -> None:
    """Fill the arrays for the frames of a block; each frame header contains the distance to the next header.

    ``values`` are the same octets as 32-bit values.
    """
    at = begin
    for row in range(len(offset)):
        word = at >> 2
        distance, tpid = np.int64(values[word + FRAME_FIELDS]), np.int64(values[word + FRAME_TPID])
        offset[row] = at + (distance & 0xFFFF if LITTLE else distance >> 16)
        captured[row], original[row] = values[word + FRAME_CAPTURED], values[word + FRAME_ORIGINAL]
        time_ns[row] = np.int64(values[word + FRAME_SECONDS]) * NS_PER_S + values[word + FRAME_NS]
        tci = np.int64(values[word + FRAME_TCI])
        tag = tci | tpid << 16 if LITTLE else tci << 16 | tpid >> 16
        restore_tag(octets, row, values[word + FRAME_STATUS], tag, offset, captured, original)
        at += int(np.int64(values[word]))


# Option codes of an interface statistics block.
_START, _END, _RECEIVED, _DROPPED = 2, 3, 4, 5


def heading_blocks(interface: Interface) -> list[Block]:
    """Return the section header block and the description block of ``interface``, as in `PcapngWriter`."""
    section, described = section_block("little"), interface_block(interface, "little")
    return [
        _block(SECTION_HEADER, section, 0, 0), _block(INTERFACE_DESCRIPTION, described, len(section), 0)
    ]  # fmt: skip


def statistics_block(counts: KernelCounts, began_ns: int, ended_ns: int, frames: int) -> Block:
    """Return the interface statistics block with the counts of the kernel between two times."""
    options = [
        (_START, _time_octets(began_ns)),
        (_END, _time_octets(ended_ns)),
        (_RECEIVED, struct.pack("<Q", counts.received + counts.dropped)),
        (_DROPPED, struct.pack("<Q", counts.dropped)),
    ]
    body = struct.pack("<I", 0) + _time_octets(ended_ns) + build_options(options, "little")
    return _block(INTERFACE_STATISTICS, build_block(INTERFACE_STATISTICS, body, "little"), 0, frames)


def _time_octets(time_ns: int) -> bytes:
    """Return a time in the encoding of blocks: the upper half first."""
    return struct.pack("<II", time_ns >> 32, time_ns & 0xFFFFFFFF)


def _block(kind: int, octets: bytes, offset: int, frame: int) -> Block:
    return Block(kind=kind, octets=octets, byte_order="little", section=0, offset=offset, frame=frame)
