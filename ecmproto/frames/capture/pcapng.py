"""pcapng: sections of blocks (draft-ietf-opsawg-pcapng).

The parser supports both byte orders, several sections, every resolution and offset of time, and enhanced,
simple and obsolete packet blocks. All other blocks are returned unchanged.

Times are computed with integer arithmetic modulo 2^64. Nanoseconds increase with ticks, so that only the
minimum and maximum times are checked for overflow.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture.batch import (
    ENHANCED_PACKET,
    FRAME_ARRAYS,
    INTERFACE_DESCRIPTION,
    OBSOLETE_PACKET,
    SECTION_HEADER,
    SIMPLE_PACKET,
    Batch,
    Block,
    ByteOrder,
    Format,
    Int64,
    Interface,
    RecordFormat,
    block_name,
)
from ecmproto.frames.capture.source import (
    BATCH_OCTETS,
    MAX_RECORD_OCTETS,
    Fault,
    Shortage,
    Source,
    Walker,
    word,
)
from ecmproto.units import NS_PER_S, in_64_bits
from ecmproto.values import dataclass

SECTION_MAGIC = SECTION_HEADER.to_bytes(4, "big")
END_OF_OPTIONS = 0
COMMENT = 1
IF_NAME = 2
IF_DESCRIPTION = 3
IF_SPEED = 8
IF_TSRESOL = 9
IF_FCSLEN = 13
IF_TSOFFSET = 14
Options = tuple[tuple[int, bytes], ...]


def parse_options(octets: bytes, byte_order: ByteOrder) -> tuple[Options, bool]:
    """Return the options in ``octets`` and whether they were complete; a truncated option is dropped."""
    head = struct.Struct("<HH" if byte_order == "little" else ">HH")
    results: list[tuple[int, bytes]] = []
    position = 0
    while position + 4 <= len(octets):
        code, length = head.unpack_from(octets, position)
        if code == END_OF_OPTIONS:
            return tuple(results), True
        value = octets[position + 4 : position + 4 + length]
        if len(value) < length:
            return tuple(results), False
        results.append((code, value))
        position += 4 + (length + 3 & ~3)
    return tuple(results), position >= len(octets)


def build_options(options: Iterable[tuple[int, bytes]], byte_order: ByteOrder) -> bytes:
    """Return ``options`` as octets with their end mark, or no octets without options."""
    head = struct.Struct("<HH" if byte_order == "little" else ">HH")
    parts = [head.pack(code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
    return b"".join([*parts, bytes(4)]) if parts else b""


def build_block(kind: int, body: bytes, byte_order: ByteOrder) -> bytes:
    """Return a block of type ``kind``; ``body`` contains the octets between the two length fields."""
    kind_octets, length = (each.to_bytes(4, byte_order) for each in (kind, len(body) + 12))
    return kind_octets + length + body + length


UInt64 = NDArray[np.uint64]
_MASK = (1 << 64) - 1
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_FIELDS = 7
"""Number of 32-bit fields at the start of a packet block with its type, lengths, interface and time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TickClock:
    """The clock of a pcapng interface: the octet of if_tsresol, and if_tsoffset in seconds."""

    resolution: int = 6
    offset_s: int = 0

    @property
    def ticks_per_second(self) -> int:
        """Ticks per second: 2^n if the top bit of the octet is set, otherwise 10^n."""
        exponent = self.resolution & 0x7F
        return 1 << exponent if self.resolution & 0x80 else int(10**exponent)

    def ns(self, ticks: int) -> int:
        """Return ⌊10⁹·ticks/ticks_per_second⌋ + 10⁹·offset, without a limit of 64 bits."""
        return ticks * NS_PER_S // self.ticks_per_second + self.offset_s * NS_PER_S


def ticks_to_ns(ticks: UInt64, clock: TickClock) -> tuple[Int64, int]:
    """Return the times of ``ticks`` in ns, and the number of times that were clamped to 64 bits."""
    if not len(ticks):
        return np.empty(0, dtype=np.int64), 0
    if clock.ns(int(ticks.min())) >= _LOWEST and clock.ns(int(ticks.max())) <= _HIGHEST:
        offset = np.uint64(clock.offset_s * NS_PER_S & _MASK)
        return (_scaled(ticks, clock) + offset).view(np.int64), 0
    exact = [clock.ns(tick) for tick in ticks.tolist()]
    clamped = sum(not _LOWEST <= time <= _HIGHEST for time in exact)
    return np.array([min(max(time, _LOWEST), _HIGHEST) for time in exact], dtype=np.int64), clamped


def _scaled(ticks: UInt64, clock: TickClock) -> UInt64:
    exponent = clock.resolution & 0x7F
    if clock.resolution & 0x80:
        whole = ticks >> np.uint64(exponent) if exponent < 64 else np.zeros_like(ticks)
        fraction = ticks & np.uint64((1 << exponent) - 1 & _MASK)
        second = np.uint64(NS_PER_S)
        if exponent <= 34:  # 2^34 · 10^9 < 2^64
            return whole * second + (fraction * second >> np.uint64(exponent))
        high, low = fraction >> np.uint64(32), fraction & np.uint64(0xFFFFFFFF)
        upper = high * second + (low * second >> np.uint64(32))
        rest = exponent - 32
        return whole * second + (upper >> np.uint64(rest) if rest < 64 else np.zeros_like(upper))
    if exponent <= 9:
        return ticks * np.uint64(10 ** (9 - exponent))
    if exponent <= 28:
        return ticks // np.uint64(10 ** (exponent - 9))
    return np.zeros_like(ticks)  # less than 2^64 ticks of 10^-29 s are below one ns


_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_MIN_OCTETS = {
    SECTION_HEADER: 28,
    INTERFACE_DESCRIPTION: 20,
    SIMPLE_PACKET: 16,
    ENHANCED_PACKET: 32,
    OBSOLETE_PACKET: 32,
}
_NO_LIMIT = int(np.iinfo(np.int64).max)
_MAJOR = 1
_MAX_DESCRIBED_OCTETS = 1 << 20


class _Numbers:
    """An array with one number for each interface; appending takes constant time."""

    def __init__(self) -> None:
        self._store = np.zeros(16, np.int64)
        self._used = 0

    @property
    def values(self) -> NDArray[np.int64]:
        """Numbers, indexed by interface."""
        return self._store[: self._used]

    def append(self, number: int) -> None:
        """Append the number of the next interface."""
        if self._used == len(self._store):
            self._store = np.concatenate([self._store, np.zeros_like(self._store)])
        self._store[self._used] = number
        self._used += 1

    def first(self, count: int) -> _Numbers:
        """Return a copy for the first ``count`` interfaces."""
        numbers = _Numbers()
        numbers._store = np.concatenate([self._store[:count], np.zeros(16, np.int64)])
        numbers._used = count
        return numbers


class _Runs:
    """The runs of frames in a batch, each with the first interface of its section."""

    def __init__(self) -> None:
        self.frames = 0
        self._records: list[Int64] = []
        self._bases: list[int] = []

    def add(self, records: Int64, base: int) -> None:
        """Add a run of frames."""
        if records.shape[1]:
            self._records.append(records)
            self._bases.append(base)
            self.frames += records.shape[1]

    def joined(self) -> tuple[Int64, Int64]:
        """Return the records of all frames, and for each frame the first interface of its section."""
        base = np.repeat(np.array(self._bases, np.int64), [each.shape[1] for each in self._records])
        return (self._records[0] if len(self._records) == 1 else np.concatenate(self._records, axis=1)), base


class PcapngParser:
    """Parser for the blocks of a pcapng file."""

    format: Format = "pcapng"

    def __init__(self, walker: Walker, batch_frames: int) -> None:
        self.byte_order: ByteOrder = "little"
        self.interfaces: list[Interface] = []
        self.warnings: list[str] = []
        self.frames: int = 0
        self._walker = walker
        self.batch_frames = batch_frames
        self._section = -1
        self._base = 0
        self._clocks: dict[TickClock, int] = {}
        self._clock_of = _Numbers()
        self._snaplens = _Numbers()
        self.frames_only = False
        self._descriptions: list[bytes] = []
        self._described_octets = 0

    @property
    def state(self) -> tuple[int, int, int, ByteOrder]:
        """Number of interfaces, section number, first interface of the section, and byte order."""
        return len(self.interfaces), self._section, self._base, self.byte_order

    @property
    def described(self) -> bytes | None:
        """Section headers and interface descriptions so far; ``None`` if they are too large."""
        return None if self._described_octets > _MAX_DESCRIBED_OCTETS else b"".join(self._descriptions)

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> PcapngParser:
        """Return a parser for later blocks; see `Parser`."""
        assert isinstance(state, tuple)
        parser = PcapngParser(Walker(0, compiled=compiled), self.batch_frames)
        interfaces, parser._section, parser._base, parser.byte_order = state
        parser.frames, parser.frames_only = frames, True
        parser.interfaces = self.interfaces[:interfaces]
        parser._clocks = dict(self._clocks)
        parser._clock_of = self._clock_of.first(interfaces)
        parser._snaplens = self._snaplens.first(interfaces)
        return parser

    def take(self, source: Source) -> Batch | Block | Shortage | Fault | None:
        """Return the next run of frames as a batch, the next other block, or the reason for their absence.

        With ``frames_only``, a batch continues after other blocks and from section to section.
        """
        runs = _Runs()
        stop = source.position + BATCH_OCTETS
        while runs.frames < self.batch_frames and source.position < stop:
            if len(source.buffer) - source.position < 12:
                item: Block | Shortage | Fault = Shortage(octets=12, what="a block of at least 12 octets")
            else:
                records, after = self._walker.run(
                    walk_pcapng,
                    _FIELDS,
                    source.buffer,
                    source.position,
                    stop,
                    self.batch_frames - runs.frames,
                    len(self.interfaces) - self._base,
                    self.byte_order == "big",
                    MAX_RECORD_OCTETS if self.frames_only else 0,
                )
                runs.add(records, self._base)
                if after > source.position:
                    source.position = after
                    if self.frames_only:
                        continue
                    break
                if runs.frames and self._turns(source):
                    break
                item = self._block(source)
            if not isinstance(item, Block) or not self.frames_only:
                if not runs.frames:
                    return item
                break
        if not runs.frames:
            return None
        batch = self._batch(source, *runs.joined())
        self.frames += len(batch)
        return batch

    def _turns(self, source: Source) -> bool:
        """Return whether a section in the other byte order starts at the position."""
        at = source.position
        magic = source.buffer[at + 8 : at + 12].tobytes()
        return source.buffer[at : at + 4].tobytes() == SECTION_MAGIC and magic != _BYTE_ORDER_MAGIC.to_bytes(
            4, self.byte_order
        )

    def _batch(self, source: Source, records: Int64, base: Int64) -> Batch:
        """Return the frames of records; ``base`` is the first interface of the section of each frame."""
        simple = records[1] == SIMPLE_PACKET
        if not simple.any():
            return self._enhanced(source, records, base)
        if simple.all():
            return self._simple(source, records, base)
        return self._mixed(source, records, simple, base)

    def _enhanced(self, source: Source, records: Int64, base: Int64) -> Batch:
        starts, kind, octets, local, high, low, captured, original = records
        obsolete = kind == OBSOLETE_PACKET
        if obsolete.any():  # 16 bits of interface before 16 bits of drops
            first = local >> 16 if self.byte_order == "big" else local & 0xFFFF
            local = np.where(obsolete, first, local)
        ticks = (high << 32 | low).view(np.uint64)
        return Batch(
            buffer=source.buffer,
            offset=starts + 28,
            captured=captured,
            original=original,
            time_ns=self._times(ticks, local + base),
            interface=local + base,
            record_offset=starts,
            record_length=octets,
            first=self.frames,
            records=RecordFormat(format="pcapng", byte_order=self.byte_order, header_octets=28),
        )

    def _simple(self, source: Source, records: Int64, base: Int64) -> Batch:
        """Return the frames of simple packet blocks, which have the first interface and no time."""
        starts, _, length, original, *_ = records
        snaplen = self._snaplens.values[base]
        return Batch(
            buffer=source.buffer,
            offset=starts + 12,
            captured=np.minimum(np.minimum(original, snaplen), length - 16),
            original=original,
            time_ns=np.zeros(len(starts), dtype=np.int64),
            interface=base,
            record_offset=starts,
            record_length=length,
            first=self.frames,
            timed=np.zeros(len(starts), dtype=np.bool_),
            records=RecordFormat(format="pcapng", byte_order=self.byte_order, header_octets=12),
        )

    def _mixed(self, source: Source, records: Int64, simple: NDArray[np.bool_], base: Int64) -> Batch:
        """Return the frames of simple and other packet blocks in file order."""
        order = np.argsort(np.concatenate([np.flatnonzero(~simple), np.flatnonzero(simple)]), kind="stable")
        one = self._enhanced(source, records[:, ~simple], base[~simple])
        other = self._simple(source, records[:, simple], base[simple])
        arrays: dict[str, Any] = {
            name: np.concatenate([getattr(one, name), getattr(other, name)])[order] for name in FRAME_ARRAYS
        }
        return Batch(buffer=source.buffer, **arrays, first=self.frames, timed=~simple, records=one.records)

    def _times(self, ticks: NDArray[np.uint64], interface: NDArray[np.int64]) -> NDArray[np.int64]:
        clocks = list(self._clocks)
        if len(clocks) == 1:
            return self._clamped(*ticks_to_ns(ticks, clocks[0]))
        which = self._clock_of.values[interface]
        times = np.zeros(len(ticks), dtype=np.int64)
        order = np.argsort(which, kind="stable")
        used, first = np.unique(which[order], return_index=True)
        for number, rows in zip(used.tolist(), np.split(order, first[1:]), strict=True):
            times[rows] = self._clamped(*ticks_to_ns(ticks[rows], clocks[number]))
        return times

    def _clamped(self, times: NDArray[np.int64], clamped: int) -> NDArray[np.int64]:
        if clamped:
            self._warn("times beyond 64 bits of nanoseconds are clamped in calculations")
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
        if kind == SECTION_HEADER:
            major, minor = (
                int.from_bytes(source.buffer[at + i : at + i + 2].tobytes(), byte_order) for i in (12, 14)
            )
            if major != _MAJOR:
                return Fault(at=at + 12, needed=f"pcapng version {_MAJOR}", got=f"version {major}.{minor}")
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
            self._describe(block)
            interface, clock, whole = parse_interface(
                block, index=len(self.interfaces), local_index=len(self.interfaces) - self._base
            )
            self.interfaces.append(interface)
            self._clock_of.append(self._clocks.setdefault(clock, len(self._clocks)))
            self._snaplens.append(interface.snaplen or _NO_LIMIT)
            if not whole:
                self._warn(f"the options of interface {interface.index} end in the middle")
        return block

    def _length_refusal(
        self, source: Source, kind: int, total: int, byte_order: ByteOrder
    ) -> Shortage | Fault | None:
        """Return the error of the block at the position, or ``None`` for a complete block without a frame."""
        at, name = source.position, block_name(kind)
        minimum = _MIN_OCTETS.get(kind, 12)
        if total < minimum:
            return Fault(
                at=at + 4, needed=f"a length of at least {minimum} for a block of type {name}", got=str(total)
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
        """Return the error of an invalid packet block: its captured length or its interface."""
        at = source.position
        captured = word(source, at + 20, self.byte_order) if kind != SIMPLE_PACKET else 0
        if kind != SIMPLE_PACKET and captured > total - 32:
            needed = f"a captured length of at most {total - 32} in a block of {total} octets"
            return Fault(at=at + 20, needed=needed, got=str(captured))
        size = {ENHANCED_PACKET: 4, OBSOLETE_PACKET: 2, SIMPLE_PACKET: 0}[kind]
        interface = int.from_bytes(source.buffer[at + 8 : at + 8 + size].tobytes(), self.byte_order)
        needed = f"one of the {len(self.interfaces) - self._base} interfaces described so far in the section"
        return Fault(at=at + 8, needed=needed, got=f"interface {interface}")

    def _describe(self, block: Block) -> None:
        self._described_octets += len(block.octets)
        if self._described_octets <= _MAX_DESCRIBED_OCTETS:
            self._descriptions.append(block.octets)
        else:
            self._descriptions.clear()

    def _start_section(self, block: Block) -> None:
        self._describe(block)
        self._section += 1
        self.byte_order = block.byte_order
        self._base = len(self.interfaces)
        minor = int.from_bytes(block.octets[14:16], block.byte_order)
        if minor not in (0, 2):
            self._warn(f"pcapng version {_MAJOR}.{minor} in section {self._section} is not 1.0")


def parse_interface(block: Block, *, index: int, local_index: int) -> tuple[Interface, TickClock, bool]:
    """Return the interface of a description block, its clock, and whether its options were complete."""
    described, clock, whole = _described(block.body, block.byte_order)
    interface = Interface(index=index, section=block.section, local_index=local_index, **described)
    return interface, clock, whole


@functools.lru_cache(maxsize=1024)
def _described(body: bytes, order: ByteOrder) -> tuple[Mapping[str, Any], TickClock, bool]:
    """Return the fields of an interface description, its clock, and whether its options were complete."""
    options, whole = parse_options(body[8:], order)
    first: dict[int, bytes] = {}
    for code, value in options:
        first.setdefault(code, value)
    offset, speed = first.get(IF_TSOFFSET, b""), first.get(IF_SPEED, b"")
    clock = TickClock(
        resolution=first[IF_TSRESOL][0] if first.get(IF_TSRESOL) else 6,
        offset_s=int.from_bytes(offset, order, signed=True) if len(offset) == 8 else 0,
    )
    described = {
        "linktype": int.from_bytes(body[:2], order),
        "snaplen": int.from_bytes(body[4:8], order),
        "name": _text(first.get(IF_NAME, b"")),
        "description": _text(first.get(IF_DESCRIPTION, b"")),
        "ticks_per_second": clock.ticks_per_second,
        "offset_s": clock.offset_s,
        "fcs_octets": _fcs_octets(first.get(IF_FCSLEN, b"")),
        "speed_bps": in_64_bits(int.from_bytes(speed, order)) if len(speed) == 8 else 0,
        "options": options,
    }
    return described, clock, whole


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", errors="replace")


def _fcs_octets(value: bytes) -> int:
    # The draft's text has bits and its example is 4. Files contain octets (as Wireshark reads it) or bits.
    length = value[0] if value else 0
    return length // 8 if length >= 8 else length


def exact_times(batch: Batch, interfaces: Sequence[Interface]) -> list[int]:
    """Return the exact times of the frames in ns, also times beyond 64 bits.

    ``time_ns`` is clamped to 64 bits; the exact time of a clamped frame is computed from its block.
    """
    times: list[int] = batch.time_ns.tolist()
    if batch.records is not None and batch.records.format == "pcapng":
        order = batch.records.byte_order
        for i in np.flatnonzero((batch.time_ns == _LOWEST) | (batch.time_ns == _HIGHEST)).tolist():
            record, interface = batch.record(i), interfaces[int(batch.interface[i])]
            high, low = (int.from_bytes(record[at : at + 4], order) for at in (12, 16))
            ticks = high << 32 | low
            times[i] = ticks * NS_PER_S // interface.ticks_per_second + interface.offset_s * NS_PER_S
    return times


def comments(batch: Batch, i: int) -> tuple[str, ...]:
    """Return the comments in the block of frame ``i``; frames without a pcapng block have no comments."""
    if batch.records is None or batch.records.format != "pcapng":
        return ()
    record, order = batch.record(i), batch.records.byte_order
    if int.from_bytes(record[:4], order) == SIMPLE_PACKET:
        return ()
    options, _ = parse_options(record[28 + (int(batch.captured[i]) + 3 & ~3) : -4], order)
    return tuple(_text(value) for code, value in options if code == COMMENT)


def walk_pcapng(
    octets: Any,
    position: int,
    stop: int,
    end: int,
    records: Any,
    count: int,
    capacity: int,
    interfaces: int,
    big: bool,
    largest: int,
) -> tuple[int, int]:
    """Walk a run of pcapng blocks with frames (EPB 6, SPB 3, obsolete PB 2).

    Return the same values as ``walk_pcap``. ``interfaces`` is the number of interfaces in the section so far.
    Blocks of other types, except descriptions of sections and interfaces, are skipped if they have at most
    ``largest`` octets. Any other block ends the run, and so does an invalid length or interface.
    """
    s0, s1, s2, s3 = (24, 16, 8, 0) if big else (0, 8, 16, 24)
    h0, h1 = (8, 0) if big else (0, 8)
    while count < capacity and position < stop and position + 16 <= end:
        at = position
        kind = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
        holds = kind == 6 or kind == 3 or kind == 2
        if not holds and (largest == 0 or kind == 1 or kind == 0x0A0D0D0A):
            break
        at = position + 4
        total = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
        if total < 12 or total & 3 or position + total > end:
            break
        at = position + total - 4
        if total != octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3:
            break
        if not holds:
            if total > largest:
                break
            position += total
            continue
        if total < 16:
            break
        interface = 0
        if kind != 3:
            if total < 32:
                break
            at = position + 20
            captured = octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
            if captured > total - 32:
                break
            at = position + 8
            interface = octets[at] << h0 | octets[at + 1] << h1
            if kind == 6:
                interface = (
                    octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
                )
        if interface >= interfaces:
            break
        records[0, count] = position
        for number in range(min(_FIELDS, total // 4)):
            at = position + 4 * number
            records[1 + number, count] = (
                octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
            )
        count += 1
        position += total
    return count, position
