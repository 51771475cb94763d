"""Copying of captures: unchanged within a format, converted between pcap and pcapng."""

from __future__ import annotations

import dataclasses
import os
from typing import TypeVar

import numpy as np

from ecmproto.errors import OutputError
from ecmproto.frames.capture.batch import (
    ETHERNET,
    INTERFACE_DESCRIPTION,
    SECTION_HEADER,
    Batch,
    Block,
    Format,
    Interface,
    linktype_name,
)
from ecmproto.frames.capture.pcapng import comments
from ecmproto.frames.capture.reader import CaptureReader
from ecmproto.frames.capture.writer import SNAPLEN, Output, PcapngWriter, PcapWriter, open_sink, packet_block
from ecmproto.paths import suffix_of

_Otherwise = TypeVar("_Otherwise", Format, None)

_SNAPLEN_AT = 12
"""Offset of the snap length in an interface description block, in octets."""
_SUFFIXES: dict[str, Format] = {".pcap": "pcap", ".cap": "pcap", ".pcapng": "pcapng", ".ntar": "pcapng"}


def format_of(path: str | os.PathLike[str], otherwise: _Otherwise) -> Format | _Otherwise:
    """Return the format for a file suffix (without .gz or .zst), or ``otherwise`` for other suffixes."""
    return _SUFFIXES.get(suffix_of(path), otherwise)


class CaptureCopier(Output):
    """Writer that copies all or some items of ``reader`` to ``path``.

    The output format is ``format``. Without ``format``, the suffix of ``path`` determines the output format,
    and otherwise the format of ``reader``.

    A copy without conversion is not rebuilt: pcap keeps the header and the records, and pcapng keeps every
    block. Write all items of ``reader.items()``; batches may be narrowed by ``select``. Section lengths
    become "unknown", since a selection changes section lengths. A conversion rebuilds frames with times in
    nanoseconds, and ``warnings`` lists the losses.

    ``grown_octets`` is the number of octets by which frames may have grown. Snap lengths are increased by
    this number.

    Raises OutputError when ``path`` cannot be written. `write` also raises OutputError for frames of several
    link types in a pcap output.
    """

    def __init__(
        self,
        reader: CaptureReader,
        path: str | os.PathLike[str],
        *,
        format: Format | None = None,
        grown_octets: int = 0,
        force: bool = False,
    ) -> None:
        self.format: Format = format or format_of(path, reader.format)
        self.warnings: list[str] = []
        self._reader = reader
        self._grown_octets = grown_octets
        self._path = os.fspath(path)
        self.sink = open_sink(path, force=force)
        self._sections = 0
        self._pcap: PcapWriter | None = None
        self._linktype = ETHERNET
        self._pcapng: PcapngWriter | None = None
        if self.format == "pcapng":
            same = reader.format == "pcapng"
            described = [self._grown(each) for each in reader.interfaces]
            self._pcapng = PcapngWriter(self.sink, interfaces=described, bare=same)
            if same:
                # the blocks that describe the interfaces are copied
                self._pcapng.interfaces = reader.interfaces
        elif reader.header is not None:
            header = reader.header
            snaplen = self._grown(header.interface).snaplen
            octets = header.octets[:16] + snaplen.to_bytes(4, header.byte_order) + header.octets[20:]
            self._pcap = PcapWriter(
                self.sink, header=dataclasses.replace(header, octets=octets, snaplen=snaplen)
            )

    @property
    def frames(self) -> int:
        """Number of frames written."""
        writer = self._pcap or self._pcapng
        return writer.frames if writer else 0

    @property
    def partial(self) -> str:
        """Name of the unfinished output, empty after the output is finished."""
        return self.sink.partial

    def write(self, item: Batch | Block) -> None:
        """Write a block or the frames of a batch."""
        if isinstance(item, Block):
            self._write_block(item)
        elif self.format == self._reader.format:
            if self._pcapng is not None and not self._sections:
                raise self._refusal("the section header before the frames (copy reader.items())", "frames")
            writer = self._pcap or self._pcapng
            assert writer is not None  # without conversion, one writer exists from the start
            if item.records is None:
                writer.write_batch(item)
            else:
                writer.write_records(item)
        elif self._pcapng is not None:
            self._pcapng.write_batch(item)
        elif len(item):
            self._convert_to_pcap(item)

    def flush(self) -> None:
        """Flush the output, so that everything written before can be read even if this process ends."""
        self.sink.flush()

    def insert(self, octets: bytes, *, time_ns: int, interface: int, comment: str = "") -> None:
        """Write a frame that is not in ``reader`` after the frames written so far.

        ``interface`` is an index of the reader's interfaces. The time is rounded up to the ticks of that
        interface. ``comment`` is dropped in pcap, which has no comments.
        """
        if self._pcap is not None:
            self._pcap.write_frame(octets, time_ns)
        elif self._pcapng is not None and self.format != self._reader.format:
            self._pcapng.write_frame(octets, time_ns, interface=interface, comment=comment or None)
        elif self._pcapng is not None:
            described = self._reader.interfaces[interface]
            block = packet_block(octets, described, self._reader.byte_order, time_ns=time_ns, comment=comment)
            self._pcapng.write_block(block)
            self._pcapng.frames += 1

    def _write_block(self, block: Block) -> None:
        if self._pcapng is not None:
            self._sections += block.kind == SECTION_HEADER
            if block.kind == INTERFACE_DESCRIPTION:
                block = self._with_snaplen(block)
            self._pcapng.write_block(_open_ended(block))
        elif block.kind not in (SECTION_HEADER, INTERFACE_DESCRIPTION):
            self._warn(f"blocks of type {block.name} are lost: pcap cannot store them")

    def _grown(self, interface: Interface) -> Interface:
        """Return the interface with its snap length increased by the growth of frames."""
        if not 0 < interface.snaplen < SNAPLEN:
            return interface
        return dataclasses.replace(interface, snaplen=interface.snaplen + self._grown_octets)

    def _with_snaplen(self, block: Block) -> Block:
        """Return the interface description block with its snap length increased by the growth of frames."""
        at = slice(_SNAPLEN_AT, _SNAPLEN_AT + 4)
        before = Interface(index=0, linktype=0, snaplen=int.from_bytes(block.octets[at], block.byte_order))
        snaplen = self._grown(before).snaplen.to_bytes(4, block.byte_order)
        octets = block.octets[: at.start] + snaplen + block.octets[at.stop :]
        return dataclasses.replace(block, octets=octets)

    def _convert_to_pcap(self, batch: Batch) -> None:
        used = [self._reader.interfaces[i] for i in np.unique(batch.interface).tolist()]
        if self._pcap is None:
            self._linktype = used[0].linktype
            same = {interface.fcs_octets for interface in used}
            fcs = same.pop() if len(same) == 1 else 0
            snaplen = max(SNAPLEN, *(interface.snaplen for interface in used))
            self._pcap = PcapWriter(self.sink, linktype=self._linktype, snaplen=snaplen, fcs_octets=fcs)
        other = next((i.linktype for i in used if i.linktype != self._linktype), None)
        if other is not None:
            needed = f"frames of one link type ({linktype_name(self._linktype)}) in a pcap file"
            raise self._refusal(needed, f"{linktype_name(other)}; write pcapng instead")
        self._note_losses(batch)
        self._pcap.write_batch(batch)

    def _note_losses(self, batch: Batch) -> None:
        if batch.timed is not None and not batch.timed.all():
            self._warn("frames of simple packet blocks have no time: they are written at 0")
        if len(self._reader.interfaces) > 1:
            self._warn("pcap has only one interface: the interfaces of frames are lost")
        captured = batch.captured + 3 & ~np.int64(3)
        optioned = np.flatnonzero(batch.record_length > captured + 32)
        if any(comments(batch, i) for i in optioned[:1000].tolist()):
            self._warn("comments are lost: pcap cannot store them")
        elif len(optioned):
            self._warn("options of frames are lost: pcap cannot store them")

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _refusal(self, needed: str, got: str) -> OutputError:
        return OutputError(path=self._path, needed=needed, got=got)

    def close(self) -> None:
        """Finish the copy and rename it to its final name."""
        if self._pcap is None and self._pcapng is None:  # a capture without frames is valid
            interfaces = self._reader.interfaces
            self._pcap = PcapWriter(self.sink, linktype=interfaces[0].linktype if interfaces else ETHERNET)
        super().close()


def _open_ended(block: Block) -> bytes:
    """Return the octets of the block; the section length in a section header becomes "unknown"."""
    if block.kind != SECTION_HEADER:
        return block.octets
    return block.octets[:16] + b"\xff" * 8 + block.octets[24:]
