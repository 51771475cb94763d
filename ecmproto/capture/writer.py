"""Writing captures: pcap and pcapng, frame by frame, batch by batch, or records as they stand."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import ENHANCED_PACKET, Block, ByteOrder, Interface
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.capture.options import (
    COMMENT,
    IF_DESCRIPTION,
    IF_FCSLEN,
    IF_NAME,
    IF_SPEED,
    IF_TSRESOL,
    build_options,
)
from ecmproto.capture.pcap import MAGIC_NS, MAGIC_US, PcapHeader
from ecmproto.capture.records import RecordBuilder, Resolution
from ecmproto.capture.sink import Sink, open_sink
from ecmproto.errors import EncodeError
from ecmproto.units import NS_PER_S

SNAPLEN = 262_144
_MATRIX_OCTETS = 16 << 20
_SHB_APPLICATION = 4

Target = str | os.PathLike[str] | Sink


class _Writer:
    """What both writers share; frames go through ``builder``."""

    def __init__(self, target: Target, builder: RecordBuilder, *, force: bool) -> None:
        self.sink = target if isinstance(target, Sink) else open_sink(target, force=force)
        self.builder = builder
        self.frames = 0
        self.warnings: list[str] = []

    def write_batch(self, batch: Batch) -> None:
        """Write the frames of ``batch`` as new records; EncodeError for what the format cannot hold."""
        self._check(batch.captured, batch.interface)
        self.sink.write(self.builder.from_batch(batch))
        self.frames += len(batch)

    def write_matrix(
        self,
        matrix: NDArray[np.uint8],
        time_ns: ArrayLike,
        *,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
    ) -> None:
        """Write the rows of ``matrix`` (n × length) as frames; the rest is one value or one a row."""
        count, length = matrix.shape
        times, ports = (np.broadcast_to(np.asarray(v, dtype=np.int64), count) for v in (time_ns, interface))
        wire = None if original is None else np.broadcast_to(np.asarray(original, dtype=np.int64), count)
        self._check(np.array([length]), ports)
        step = max(1, _MATRIX_OCTETS // max(1, length))
        for low in range(0, count, step):
            part = slice(low, low + step)
            records = self.builder.from_matrix(
                matrix[part],
                times[part],
                original=None if wire is None else wire[part],
                interface=ports[part],
            )
            self.sink.write(records.reshape(-1))
        self.frames += count

    def write_records(self, batch: Batch) -> None:
        """Write the records of ``batch`` as they stand in its buffer; neighbours go in one piece."""
        if not len(batch):
            return
        starts, ends = batch.record_offset, batch.record_offset + batch.record_length
        breaks = np.flatnonzero(starts[1:] != ends[:-1])
        lows = starts[np.concatenate([[0], breaks + 1])].tolist()
        highs = ends[np.append(breaks, len(ends) - 1)].tolist()
        view = batch.buffer.data
        if len(lows) > 1:
            self.sink.write(b"".join([view[low:high] for low, high in zip(lows, highs, strict=True)]))
        else:
            self.sink.write(view[lows[0] : highs[0]])
        self.frames += len(batch)

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Finish the capture and give it its final name."""
        self.sink.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.sink.abandon(error)


class PcapWriter(_Writer):
    """Writes a pcap file of one link type, in nanoseconds unless ``resolution`` is ``"us"``.

    ``header`` is another file's header, to be repeated as it stands in front of that file's records.
    Raises OutputError when ``target`` (a path, ``-``, or an open sink) cannot be written.
    """

    def __init__(
        self,
        target: Target,
        *,
        linktype: int = ETHERNET,
        snaplen: int = SNAPLEN,
        fcs_octets: int = 0,
        byte_order: ByteOrder = "little",
        resolution: Resolution = "ns",
        header: PcapHeader | None = None,
        force: bool = False,
    ) -> None:
        if header is not None:
            byte_order, snaplen = header.byte_order, header.snaplen
            resolution = "ns" if header.ticks_per_second == NS_PER_S else "us"
        super().__init__(target, RecordBuilder(byte_order=byte_order, resolution=resolution), force=force)
        self.snaplen = snaplen
        # A repeated header may announce longer records than the usual (Kuznetzov's libpcap).
        usual = self.builder.header_octets
        self._more_header = bytes(header.record_header_octets - usual if header is not None else 0)
        # FCS lengths count 16-bit words, beside the bit that says there is one.
        word = linktype | (fcs_octets // 2 << 28 | 1 << 26 if fcs_octets else 0)
        magic = MAGIC_NS if resolution == "ns" else MAGIC_US
        order = "<" if byte_order == "little" else ">"
        fresh = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, word)
        self.sink.write(header.octets if header else fresh)

    def write_frame(
        self,
        octets: bytes,
        time_ns: int,
        *,
        original: int | None = None,
        interface: int = 0,
        comment: str | None = None,
    ) -> None:
        """Write one frame; a ``comment`` has no place in pcap and is dropped with a warning."""
        lost = "comments are lost: pcap has no place for them"
        if comment is not None and lost not in self.warnings:
            self.warnings.append(lost)
        batch = Batch.from_frames([octets], time_ns=time_ns, original=original, interface=interface)
        self._check(batch.captured, batch.interface)
        record = self.builder.from_batch(batch).tobytes()
        head = self.builder.header_octets
        self.sink.write(record[:head] + self._more_header + record[head:])
        self.frames += 1

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        longest = int(captured.max()) if len(captured) else 0
        if longest > max(self.snaplen, SNAPLEN):
            needed = f"at most the snaplen of {self.snaplen} octets"
            raise EncodeError(layer="pcap record", field="captured", needed=needed, got=str(longest))


class PcapngWriter(_Writer):
    """Writes a pcapng file of one section, in nanoseconds unless ``resolution`` is ``"us"``.

    ``interfaces`` are described in front of the frames, more can be added; frames name them by position.
    ``bare`` writes no block of its own, for a copy that brings its own section headers.
    Raises OutputError when ``target`` (a path, ``-``, or an open sink) cannot be written.
    """

    def __init__(
        self,
        target: Target,
        *,
        interfaces: Sequence[Interface] = (Interface(index=0, linktype=ETHERNET),),
        byte_order: ByteOrder = "little",
        resolution: Resolution = "ns",
        comment: str | None = None,
        bare: bool = False,
        force: bool = False,
    ) -> None:
        builder = RecordBuilder(format="pcapng", byte_order=byte_order, resolution=resolution)
        super().__init__(target, builder, force=force)
        self.interfaces: list[Interface] = []
        self._order = "<" if byte_order == "little" else ">"
        if not bare:
            self._write_section(comment)
            for interface in interfaces:
                self.add_interface(interface)

    def _write_section(self, comment: str | None) -> None:
        options = [(COMMENT, comment.encode())] if comment is not None else []
        options.append((_SHB_APPLICATION, b"ecmproto"))
        body = struct.pack(self._order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
        self.write_block(self._block(0x0A0D0D0A, body + build_options(options, self.builder.byte_order)))

    def add_interface(self, interface: Interface) -> int:
        """Describe one more interface (link type, snaplen, name, speed, FCS …); return its position."""
        options = [(IF_NAME, interface.name.encode())] if interface.name else []
        if interface.description:
            options.append((IF_DESCRIPTION, interface.description.encode()))
        if interface.speed_bps:
            octets = interface.speed_bps.to_bytes(8, self.builder.byte_order)
            options.append((IF_SPEED, octets))
        options.append((IF_TSRESOL, b"\x09" if self.builder.resolution == "ns" else b"\x06"))
        if interface.fcs_octets:
            options.append((IF_FCSLEN, bytes([interface.fcs_octets])))
        body = struct.pack(self._order + "HHI", interface.linktype, 0, interface.snaplen)
        self.write_block(self._block(1, body + build_options(options, self.builder.byte_order)))
        self.interfaces.append(interface)
        return len(self.interfaces) - 1

    def write_block(self, block: Block | bytes) -> None:
        """Write a whole block as it stands; its byte order has to be the section's."""
        self.sink.write(block if isinstance(block, bytes) else block.octets)

    def write_frame(
        self,
        octets: bytes,
        time_ns: int,
        *,
        original: int | None = None,
        interface: int = 0,
        comment: str | None = None,
    ) -> None:
        """Write one frame, with a comment if there is one."""
        batch = Batch.from_frames([octets], time_ns=time_ns, original=original, interface=interface)
        if comment is None:
            self.write_batch(batch)
            return
        self._check(batch.captured, batch.interface)
        record = self.builder.from_batch(batch).tobytes()
        options = build_options([(COMMENT, comment.encode())], self.builder.byte_order)
        self.write_block(self._block(6, record[8:-4] + options))
        self.frames += 1

    def _block(self, kind: int, body: bytes) -> bytes:
        total = len(body) + 12
        return struct.pack(self._order + "II", kind, total) + body + struct.pack(self._order + "I", total)

    def _check(self, captured: NDArray[np.int64], interface: NDArray[np.int64]) -> None:
        if len(interface) and not 0 <= int(interface.min()) <= int(interface.max()) < len(self.interfaces):
            needed = f"one of the {len(self.interfaces)} interfaces described"
            got = str(max(int(interface.max()), -int(interface.min())))
            raise EncodeError(layer="enhanced packet block", field="interface", needed=needed, got=got)


def packet_block(
    octets: bytes, interface: Interface, byte_order: ByteOrder, *, time_ns: int, comment: str = ""
) -> bytes:
    """Return an enhanced packet block of one frame in a section that exists, in the interface's own ticks."""
    order = "<" if byte_order == "little" else ">"
    since_ns = time_ns - interface.offset_s * NS_PER_S
    ticks = -(-since_ns * interface.ticks_per_second // NS_PER_S)
    if not 0 <= ticks < 1 << 64:
        needed = "a time that the interface's clock can show"
        raise EncodeError(layer="enhanced packet block", field="time", needed=needed, got=f"{time_ns} ns")
    head = struct.pack(
        order + "5I", interface.local_index, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), len(octets)
    )
    options = build_options([(COMMENT, comment.encode())], byte_order) if comment else b""
    body = head + octets + bytes(-len(octets) % 4) + options
    total = len(body) + 12
    return struct.pack(order + "II", ENHANCED_PACKET, total) + body + struct.pack(order + "I", total)
