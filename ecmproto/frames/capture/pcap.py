"""pcap: a header of 24 octets, then records (draft-ietf-opsawg-pcap).

The parser supports both byte orders, microseconds and nanoseconds, Kuznetzov's modified records, and the
swapped lengths of versions before 2.4.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import numpy as np

from ecmproto.errors import CaptureError
from ecmproto.frames.capture.batch import (
    Batch,
    Block,
    ByteOrder,
    Format,
    Int64,
    Interface,
    RecordFormat,
    largest_frame_octets,
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
from ecmproto.units import NS_PER_S
from ecmproto.values import dataclass

HEADER_OCTETS = 24
RECORD_HEADER_OCTETS = 16
MAGIC_US = 0xA1B2C3D4
MAGIC_NS = 0xA1B23C4D
_MAGIC_MODIFIED = 0xA1B2CD34
_MODIFIED_HEADER_OCTETS = 24
_FIELDS = 4
"""Number of 32-bit fields with a time and lengths at the start of each record."""

_FCS_PRESENT = 1 << 26
_LINKTYPE_RESERVED = 0x03FF0000 | 1 << 27


@dataclass(frozen=True, slots=True, kw_only=True)
class PcapHeader:
    """The header of a pcap file; ``octets`` is the unchanged header."""

    octets: bytes
    byte_order: ByteOrder
    ticks_per_second: int
    record_header_octets: int
    version: tuple[int, int]
    snaplen: int
    linktype_word: int

    @property
    def interface(self) -> Interface:
        """Interface of the file; the FCS length counts 16-bit words and requires its presence bit."""
        word = self.linktype_word
        return Interface(
            index=0,
            linktype=word & 0xFFFF,
            snaplen=self.snaplen,
            ticks_per_second=self.ticks_per_second,
            fcs_octets=2 * (word >> 28) if word & _FCS_PRESENT else 0,
        )

    @property
    def lengths(self) -> int:
        """Position of the captured length in a record: first (0), second (1), or the smaller length (2).

        The original length is first before version 2.3 and in version 543 of Digital Unix. Version 2.3 has
        both orders.
        """
        major, minor = self.version
        if major == 543 or (major == 2 and minor < 3):
            return 1
        return 2 if self.version == (2, 3) else 0

    @property
    def warnings(self) -> list[str]:
        """Unusual properties of the header that do not prevent reading."""
        results = []
        if self.version != (2, 4):
            results.append(f"pcap version {self.version[0]}.{self.version[1]} is not 2.4")
        if self.linktype_word & _LINKTYPE_RESERVED:
            results.append(f"reserved bits are set in the link type word 0x{self.linktype_word:08x}")
        return results


def byte_order_of(magic: bytes) -> ByteOrder | None:
    """Return the byte order of a pcap file that starts with ``magic``, or ``None`` for other files."""
    known = (MAGIC_US, MAGIC_NS, _MAGIC_MODIFIED)
    if int.from_bytes(magic[:4], "little") in known:
        return "little"
    return "big" if int.from_bytes(magic[:4], "big") in known else None


def parse_header(octets: bytes, path: str) -> PcapHeader:
    """Return the header at the start of ``octets``.

    Raises CaptureError if ``octets`` has fewer than 24 octets.
    """
    byte_order = byte_order_of(octets)
    if byte_order is None or len(octets) < HEADER_OCTETS:
        raise CaptureError(
            path=path, offset=0, frame=0, needed="a pcap header of 24 octets", got=f"{len(octets)} octets"
        )

    def field(at: int, size: int) -> int:
        return int.from_bytes(octets[at : at + size], byte_order)

    magic = field(0, 4)
    return PcapHeader(
        octets=octets[:HEADER_OCTETS],
        byte_order=byte_order,
        ticks_per_second=NS_PER_S if magic == MAGIC_NS else 1_000_000,
        record_header_octets=_MODIFIED_HEADER_OCTETS if magic == _MAGIC_MODIFIED else RECORD_HEADER_OCTETS,
        version=(field(4, 2), field(6, 2)),
        snaplen=field(16, 4),
        linktype_word=field(20, 4),
    )


class PcapParser:
    """Parser for the records after a pcap header."""

    format: Format = "pcap"

    def __init__(self, header: PcapHeader, walker: Walker, batch_frames: int) -> None:
        self.header = header
        """Header for the records that the parser returns."""
        self.described: bytes = header.octets
        """Header of the file."""
        self.byte_order = header.byte_order
        self.interfaces: list[Interface] = [header.interface]
        self.warnings: list[str] = header.warnings
        self.frames: int = 0
        self._walker = walker
        self.batch_frames = batch_frames
        self.frames_only = False
        self._header = header.record_header_octets
        self._tick_ns = NS_PER_S // header.ticks_per_second
        self._lengths = header.lengths
        bound = max(header.snaplen, largest_frame_octets(self.interfaces[0].linktype))
        self._largest = min(bound, MAX_RECORD_OCTETS - self._header)
        self._records = RecordFormat(format="pcap", byte_order=self.byte_order, header_octets=self._header)

    @property
    def state(self) -> Hashable:
        """``None``, because all records of a file have the same format."""
        return None

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> PcapParser:
        """Return a parser for later records; see `Parser`."""
        parser = copy.copy(self)
        parser.frames, parser._walker = frames, Walker(0, compiled=compiled)
        return parser

    def take(self, source: Source) -> Batch | Block | Shortage | Fault | None:
        """Return the next records as a batch, or the reason for their absence."""
        if len(source.buffer) - source.position < self._header:
            return Shortage(octets=self._header, what=f"a record header of {self._header} octets")
        records, after = self._walker.run(
            walk_pcap,
            _FIELDS,
            source.buffer,
            source.position,
            source.position + BATCH_OCTETS,
            self.batch_frames,
            self._header,
            self._largest,
            self._lengths,
            self.byte_order == "big",
        )
        if not records.shape[1]:
            return self._refusal(source)
        source.position = after
        batch = self._batch(source, records)
        self.frames += len(batch)
        return batch

    def _batch(self, source: Source, records: Int64) -> Batch:
        starts, seconds, ticks, *lengths = records
        captured, original = self._both_lengths(*lengths)
        return Batch(
            buffer=source.buffer,
            offset=starts + self._header,
            captured=captured,
            original=original,
            time_ns=seconds * NS_PER_S + ticks * self._tick_ns,
            interface=np.zeros(len(starts), dtype=np.int64),
            record_offset=starts,
            record_length=captured + self._header,
            first=self.frames,
            records=self._records,
        )

    def _both_lengths(self, first: Int64, second: Int64) -> tuple[Int64, Int64]:
        if self._lengths == 2:
            return np.minimum(first, second), np.maximum(first, second)
        return (second, first) if self._lengths else (first, second)

    def _refusal(self, source: Source) -> Shortage | Fault:
        lengths = (np.array(word(source, source.position + at, self.byte_order)) for at in (8, 12))
        captured = int(self._both_lengths(*lengths)[0])
        if captured > self._largest:
            needed = f"a captured length of at most {self._largest} octets"
            return Fault(at=source.position, needed=needed, got=str(captured))
        octets = self._header + captured
        return Shortage(octets=octets, what=f"a record of {octets} octets")


def walk_pcap(
    octets: Any,
    position: int,
    stop: int,
    end: int,
    records: Any,
    count: int,
    capacity: int,
    header: int,
    largest: int,
    lengths: int,
    big: bool,
) -> tuple[int, int]:
    """Walk pcap records from ``position``; return the number of records, and the start of the next record.

    The starts and the first fields of the records are written to ``records`` from column ``count`` on (see
    `Walker.run`). Records start before ``stop`` and end at or before ``end``. ``header`` is the length of the
    record header in octets, and ``largest`` is the maximum plausible captured length. ``lengths`` is the
    position of the captured length: first (0), second (1), or the smaller length (2).
    """
    s0, s1, s2, s3 = (24, 16, 8, 0) if big else (0, 8, 16, 24)
    while count < capacity and position < stop and position + header <= end:
        records[0, count] = position
        for number in range(_FIELDS):
            at = position + 4 * number
            records[1 + number, count] = (
                octets[at] << s0 | octets[at + 1] << s1 | octets[at + 2] << s2 | octets[at + 3] << s3
            )
        captured = records[4, count] if lengths == 1 else records[3, count]
        if lengths == 2:
            captured = min(captured, records[4, count])
        if captured > largest or position + header + captured > end:
            break
        count += 1
        position += header + captured
    return count, position
