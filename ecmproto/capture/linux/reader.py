"""Reading an interface as one reads a file: batches, interfaces, warnings, and why it ended.

>>> with open_interface("eth0") as reader:
...     for batch in reader:
...         ...
"""

from __future__ import annotations

import io
import select
import time
from collections.abc import Iterator, Sequence

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Block, ByteOrder, Format, Interface
from ecmproto.capture.linux.blocks import heading, statistics
from ecmproto.capture.linux.bpf import MAX_CUT_OCTETS, Instruction, cut, cut_at
from ecmproto.capture.linux.ethtool import speed_bps
from ecmproto.capture.linux.hardware_clock import use_hardware_clock
from ecmproto.capture.linux.interface import InterfaceFacts
from ecmproto.capture.linux.packet_socket import KernelCounts, PacketSocket, open_receiving
from ecmproto.capture.linux.ring import RETIRE_MS, RING_OCTETS, Ring
from ecmproto.capture.parsing import Parser, Shortage
from ecmproto.capture.reader import CaptureReader
from ecmproto.capture.source import Source, StreamSource
from ecmproto.capture.walk import Walker
from ecmproto.errors import InterfaceGoneError, counted
from ecmproto.units import NS_PER_S

_LOOK_MS = 250
"""How often a reader that waits looks whether it is to stop, or whether its interface is still there."""


class InterfaceReader(CaptureReader):
    """An interface being read, to its end where that comes: `stop`, or the interface's removal (`problem`).

    To whoever copies or shows it, it is a pcapng capture with times in ns: `items` begins with the blocks
    that describe it and ends with one of statistics.  While the interface is down it waits; that is in
    ``warnings``, as is what the kernel dropped, once the end is reached.
    """

    def __init__(self, live: _Live) -> None:
        self._live = live
        name = live.facts.name
        super().__init__(StreamSource(io.BytesIO(), size=None, owned=False), name, batch_frames=0)
        self._pending += heading(live.interfaces[0])

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        return self._live

    @property
    def facts(self) -> InterfaceFacts:
        """What the kernel said of the interface when it was opened."""
        return self._live.facts

    @property
    def hardware_times(self) -> bool:
        """Whether times are those of the network card's clock."""
        return self._live.hardware_times

    @property
    def octets_read(self) -> int:
        """Octets of frames that were given so far."""
        return self._live.octets

    def items(self) -> Iterator[Batch | Block]:
        """Yield the blocks that describe the capture, batches, and statistics at the end.

        With ``idle_batches`` an empty batch comes when there was nothing for a while.
        """
        yield from super().items()
        self._live.finish()
        yield statistics(self._live.counts(), self._live.began_ns, time.time_ns(), self.frames)
        if self._live.gone:
            self.problem = InterfaceGoneError(
                path=self.path, offset=self.octets_read, frame=self.frames,
                needed="the interface", got="its removal while it was in use",
            )  # fmt: skip

    def counts(self) -> KernelCounts:
        """Return how many frames the kernel delivered and how many it dropped for want of room."""
        return self._live.counts()

    def stop(self) -> None:
        """End soon, with what arrived before; may be called by a signal's handler or another thread."""
        self._live.stop()

    def close(self) -> None:
        """Stop receiving; batches already given stay valid."""
        super().close()
        self._live.close()


class _Live:
    """The parser of an interface: takes from the ring what the kernel put there, and waits for it."""

    format: Format = "pcapng"
    byte_order: ByteOrder = "little"
    batch_frames: int = 0
    """Of no effect: a batch is what a block of the ring holds."""
    frames_only: bool = False

    def __init__(self, opened: PacketSocket, ring: Ring, snap_octets: int, idle_batches: bool) -> None:
        self.facts = opened.facts
        snaplen = 0 if snap_octets >= MAX_CUT_OCTETS else snap_octets
        self.interfaces = [
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
        self.frames = 0
        self.octets = 0
        self.gone = False
        self.hardware_times = False
        self.began_ns = time.time_ns()
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

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next batch when there is one; a shortage at the end."""
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
        """End once the kernel has handed over the block that it is filling."""
        self._stop_at_ns = time.monotonic_ns() + 2 * RETIRE_MS * 1_000_000

    def _stopped(self) -> bool:
        return self._closed or (self._stop_at_ns is not None and time.monotonic_ns() >= self._stop_at_ns)

    def _wait(self) -> None:
        """Wait for a block, or for so long that what else happens is seen in time."""
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
        """Return the kernel's counts; the last ones once it is closed."""
        if not self._closed:
            self._last = self._socket.counts()
        return self._last

    def finish(self) -> None:
        """Say what was lost."""
        dropped = self.counts().dropped
        if dropped:
            self.warnings.append(f"{counted(dropped, 'frame')} dropped by the kernel: the ring was full")

    def close(self) -> None:
        if not self._closed:
            self.counts()
            self._closed = True
            self._ring.close()
            self._socket.close()


def open_interface(
    interface: str,
    *,
    promiscuous: bool = True,
    outgoing: bool = True,
    snap_octets: int = MAX_CUT_OCTETS,
    program: Sequence[Instruction] = (),
    ring_octets: int = RING_OCTETS,
    idle_batches: bool = False,
) -> InterfaceReader:
    """Begin to capture on ``interface`` and return its reader.

    ``outgoing`` takes in the frames too that this machine sends there; ``snap_octets`` is the most of a frame
    that is kept; ``program`` lets the kernel drop frames (`ecmproto.filter.prefilter` makes one of a display
    filter); what is not read yet waits in a ring of ``ring_octets``.  ``idle_batches`` yields an empty batch
    each quarter of a second without frames, for whoever has something else to do.
    Times are the network card's where its clock stamps all frames, else the kernel's, in ns.
    Raises InterfaceError when the interface is not there or may not be opened.
    """
    rings: list[Ring] = []
    opened = open_receiving(
        interface,
        promiscuous=promiscuous,
        outgoing=outgoing,
        program=cut(program, snap_octets) if program else cut_at(snap_octets),
        prepare=lambda each: rings.append(Ring(each, octets=ring_octets)),
    )
    live = _Live(opened, rings[0], snap_octets, idle_batches)
    live.hardware_times = use_hardware_clock(opened)
    return InterfaceReader(live)
