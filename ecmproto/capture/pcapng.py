"""pcapng: sections of blocks (draft-ietf-opsawg-pcapng).

Read are both byte orders, several sections, every resolution and offset of time, enhanced, simple and
obsolete packet blocks; every other block is handed on as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import (
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    OBSOLETE_PACKET,
    SECTION_HEADER,
    SIMPLE_PACKET,
    Block,
    ByteOrder,
    Format,
    Interface,
    RecordFormat,
    block_name,
)
from ecmproto.capture.options import (
    COMMENT,
    IF_DESCRIPTION,
    IF_FCSLEN,
    IF_NAME,
    IF_SPEED,
    IF_TSOFFSET,
    IF_TSRESOL,
    parse_options,
)
from ecmproto.capture.parsing import BATCH_OCTETS, MAX_RECORD_OCTETS, Fault, Shortage, word, words
from ecmproto.capture.source import Source
from ecmproto.capture.timestamps import Clock, ticks_to_ns
from ecmproto.capture.walk import Walker, walk_pcapng

SECTION_MAGIC = SECTION_HEADER.to_bytes(4, "big")
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_LEAST_OCTETS = {
    SECTION_HEADER: 28,
    INTERFACE_DESCRIPTION: 20,
    SIMPLE_PACKET: 16,
    ENHANCED_PACKET: 32,
    OBSOLETE_PACKET: 32,
}
_NO_LIMIT = np.iinfo(np.int64).max


class PcapngParser:
    """Reads the blocks of a pcapng file."""

    format: Format = "pcapng"

    def __init__(self, walker: Walker, batch_frames: int) -> None:
        self.byte_order: ByteOrder = "little"
        self.interfaces: list[Interface] = []
        self.warnings: list[str] = []
        self.frames = 0
        self._walker = walker
        self.batch_frames = batch_frames
        self._section = -1
        self._base = 0
        self._clocks: list[Clock] = []

    def take(self, source: Source) -> Batch | Block | Shortage | Fault:
        """Return the next run of frames as a batch, the next other block, or why there is none."""
        if len(source.buffer) - source.position < 12:
            return Shortage(octets=12, what="a block of at least 12 octets")
        starts, after = self._walker.run(
            walk_pcapng,
            source.buffer,
            source.position,
            source.position + BATCH_OCTETS,
            self.batch_frames,
            len(self._clocks),
            self.byte_order == "big",
        )
        if not len(starts):
            return self._block(source)
        source.position = after
        batch = self._batch(source, starts)
        self.frames += len(batch)
        return batch

    def _batch(self, source: Source, starts: NDArray[np.int64]) -> Batch:
        kinds = words(source.buffer, starts, 4, self.byte_order)
        simple = kinds[:, 0] == SIMPLE_PACKET
        if not simple.any():
            return self._enhanced(source, starts, kinds)
        if simple.all():
            return self._simple(source, starts, kinds)
        return self._mixed(source, starts, kinds, simple)

    def _enhanced(self, source: Source, starts: NDArray[np.int64], head: NDArray[np.uint32]) -> Batch:
        tail = words(source.buffer, starts + 16, 3, self.byte_order)
        local = head[:, 2].astype(np.int64)
        obsolete = head[:, 0] == OBSOLETE_PACKET
        if obsolete.any():  # 16 bits of interface in front of 16 bits of drops
            first = local >> 16 if self.byte_order == "big" else local & 0xFFFF
            local = np.where(obsolete, first, local)
        ticks = head[:, 3].astype(np.uint64) << np.uint64(32) | tail[:, 0]
        return Batch(
            buffer=source.buffer,
            offset=starts + 28,
            captured=tail[:, 1].astype(np.int64),
            original=tail[:, 2].astype(np.int64),
            time_ns=self._times(ticks, local),
            interface=local + self._base,
            record_offset=starts,
            record_length=head[:, 1].astype(np.int64),
            first=self.frames,
            records=RecordFormat(format="pcapng", byte_order=self.byte_order, header_octets=28),
        )

    def _simple(self, source: Source, starts: NDArray[np.int64], head: NDArray[np.uint32]) -> Batch:
        """Simple packet blocks are the section's first interface's, cut at its snaplen, without time."""
        length = head[:, 1].astype(np.int64)
        original = head[:, 2].astype(np.int64)
        snaplen = self.interfaces[self._base].snaplen or _NO_LIMIT
        return Batch(
            buffer=source.buffer,
            offset=starts + 12,
            captured=np.minimum(np.minimum(original, snaplen), length - 16),
            original=original,
            time_ns=np.zeros(len(starts), dtype=np.int64),
            interface=np.full(len(starts), self._base, dtype=np.int64),
            record_offset=starts,
            record_length=length,
            first=self.frames,
            timed=np.zeros(len(starts), dtype=np.bool_),
            records=RecordFormat(format="pcapng", byte_order=self.byte_order, header_octets=12),
        )

    def _mixed(
        self, source: Source, starts: NDArray[np.int64], head: NDArray[np.uint32], simple: NDArray[np.bool_]
    ) -> Batch:
        """Put the frames of both kinds back into the order they stand in."""
        order = np.argsort(np.concatenate([np.flatnonzero(~simple), np.flatnonzero(simple)]), kind="stable")
        one = self._enhanced(source, starts[~simple], head[~simple])
        other = self._simple(source, starts[simple], head[simple])

        def merged(name: str) -> NDArray[np.int64]:
            joined: NDArray[np.int64] = np.concatenate([getattr(one, name), getattr(other, name)])
            return joined[order]

        return Batch(
            buffer=source.buffer,
            offset=merged("offset"),
            captured=merged("captured"),
            original=merged("original"),
            time_ns=merged("time_ns"),
            interface=merged("interface"),
            record_offset=starts,
            record_length=merged("record_length"),
            first=self.frames,
            timed=~simple,
            records=one.records,
        )

    def _times(self, ticks: NDArray[np.uint64], local: NDArray[np.int64]) -> NDArray[np.int64]:
        clocks = list(dict.fromkeys(self._clocks))
        if len(clocks) == 1:
            return self._clamped(*ticks_to_ns(ticks, clocks[0]))
        which = np.array([clocks.index(clock) for clock in self._clocks])[local]
        times = np.zeros(len(ticks), dtype=np.int64)
        for i, clock in enumerate(clocks):
            times[which == i] = self._clamped(*ticks_to_ns(ticks[which == i], clock))
        return times

    def _clamped(self, times: NDArray[np.int64], clamped: int) -> NDArray[np.int64]:
        if clamped:
            self._warn("times beyond 64 bits of nanoseconds were clamped")
        return times

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _block(self, source: Source) -> Block | Shortage | Fault:
        at = source.position
        kind, byte_order = word(source, at, self.byte_order), self.byte_order
        if source.buffer[at : at + 4].tobytes() == SECTION_MAGIC:
            magic = source.buffer[at + 8 : at + 12].tobytes()
            if int.from_bytes(magic, "little") != _BYTE_ORDER_MAGIC != int.from_bytes(magic, "big"):
                return Fault(at=at + 8, needed="the byte-order magic 0x1a2b3c4d", got=f"0x{magic.hex()}")
            byte_order = "little" if magic[0] == 0x4D else "big"
        total = word(source, at + 4, byte_order)
        refusal = self._length_refusal(source, kind, total, byte_order)
        if refusal is not None:
            return refusal
        block = Block(
            kind=kind,
            octets=source.buffer[at : at + total].tobytes(),
            byte_order=byte_order,
            section=self._section + (kind == SECTION_HEADER),
            offset=source.base + at,
            frame=self.frames,
        )
        source.position += total
        if kind == SECTION_HEADER:
            self._start_section(block)
        elif kind == INTERFACE_DESCRIPTION:
            self._add_interface(block)
        return block

    def _length_refusal(
        self, source: Source, kind: int, total: int, byte_order: ByteOrder
    ) -> Shortage | Fault | None:
        """Say what is wrong with the block at the position, or None if it is whole and holds no frame."""
        at, name = source.position, block_name(kind)
        least = _LEAST_OCTETS.get(kind, 12)
        if total < least:
            return Fault(
                at=at + 4, needed=f"a length of at least {least} for a block of type {name}", got=str(total)
            )
        if total % 4:
            return Fault(at=at + 4, needed="a block length that is a multiple of 4", got=str(total))
        if total > MAX_RECORD_OCTETS:
            needed = f"a block length of at most {MAX_RECORD_OCTETS}"
            return Fault(at=at + 4, needed=needed, got=str(total))
        if total > len(source.buffer) - at:
            return Shortage(octets=total, what=f"a block of {total} octets (type {name})")
        trailer = word(source, at + total - 4, byte_order)
        if trailer != total:
            needed = f"the block length {total} again at its end"
            return Fault(at=at + total - 4, needed=needed, got=str(trailer))
        if kind in (ENHANCED_PACKET, OBSOLETE_PACKET, SIMPLE_PACKET):
            return self._frame_refusal(source, kind, total)
        return None

    def _frame_refusal(self, source: Source, kind: int, total: int) -> Fault:
        """Say why the walk stopped in front of this packet block: its captured length or its interface."""
        at = source.position
        captured = word(source, at + 20, self.byte_order) if kind != SIMPLE_PACKET else 0
        if kind != SIMPLE_PACKET and captured > total - 32:
            needed = f"a captured length of at most {total - 32} in a block of {total} octets"
            return Fault(at=at + 20, needed=needed, got=str(captured))
        size = {ENHANCED_PACKET: 4, OBSOLETE_PACKET: 2, SIMPLE_PACKET: 0}[kind]
        interface = int.from_bytes(source.buffer[at + 8 : at + 8 + size].tobytes(), self.byte_order)
        needed = f"one of the {len(self._clocks)} interfaces described so far in the section"
        return Fault(at=at + 8, needed=needed, got=f"interface {interface}")

    def _start_section(self, block: Block) -> None:
        self._section += 1
        self.byte_order = block.byte_order
        self._base = len(self.interfaces)
        self._clocks = []
        major, minor = (int.from_bytes(block.octets[i : i + 2], block.byte_order) for i in (12, 14))
        if major != 1 or minor not in (0, 2):
            self._warn(f"pcapng version {major}.{minor} in section {self._section} is not 1.0")

    def _add_interface(self, block: Block) -> None:
        interface, clock, whole = parse_interface(
            block, index=len(self.interfaces), local_index=len(self.interfaces) - self._base
        )
        self.interfaces.append(interface)
        self._clocks.append(clock)
        if not whole:
            self._warn(f"the options of interface {interface.index} end in the middle")


def parse_interface(block: Block, *, index: int, local_index: int) -> tuple[Interface, Clock, bool]:
    """Return the interface a description block describes, its clock, and whether its options were whole."""
    order, body = block.byte_order, block.body
    options, whole = parse_options(body[8:], order)
    first: dict[int, bytes] = {}
    for code, value in options:
        first.setdefault(code, value)
    offset, speed = first.get(IF_TSOFFSET, b""), first.get(IF_SPEED, b"")
    clock = Clock(
        resolution=first[IF_TSRESOL][0] if first.get(IF_TSRESOL) else 6,
        offset_s=int.from_bytes(offset, order, signed=True) if len(offset) == 8 else 0,
    )
    interface = Interface(
        index=index,
        linktype=int.from_bytes(body[:2], order),
        snaplen=int.from_bytes(body[4:8], order),
        name=_text(first.get(IF_NAME, b"")),
        description=_text(first.get(IF_DESCRIPTION, b"")),
        ticks_per_second=clock.ticks_per_second,
        offset_s=clock.offset_s,
        fcs_octets=_fcs_octets(first.get(IF_FCSLEN, b"")),
        speed_bps=int.from_bytes(speed, order) if len(speed) == 8 else 0,
        section=block.section,
        local_index=local_index,
        options=options,
    )
    return interface, clock, whole


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", errors="replace")


def _fcs_octets(value: bytes) -> int:
    # The draft says bits and shows 4; files hold octets (as Wireshark reads it) as well as bits.
    length = value[0] if value else 0
    return length // 8 if length >= 8 else length


def comments(batch: Batch, i: int) -> tuple[str, ...]:
    """Return the comments in the block of frame ``i`` of ``batch``; none where it is no pcapng block."""
    if batch.records is None or batch.records.format != "pcapng":
        return ()
    record, order = batch.record(i), batch.records.byte_order
    if int.from_bytes(record[:4], order) == SIMPLE_PACKET:
        return ()
    options, _ = parse_options(record[28 + (int(batch.captured[i]) + 3 & ~3) : -4], order)
    return tuple(_text(value) for code, value in options if code == COMMENT)
