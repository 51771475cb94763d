"""ERF, the records of Endace's DAG cards, in pcap (link type 197); the Ethernet frame in each record is read.

A record has a header of 16 octets. If bit 7 of the type is set, an extension header of 8 octets follows; an
extension header may be followed by another extension header. An Ethernet record has two octets of padding
before the frame, and the frame ends with an FCS. The layout is from the ERF types document of Endace.
"""

from __future__ import annotations

import copy
import dataclasses
import struct
from collections import Counter
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.frames.capture.batch import ERF, ETHERNET, Batch, Block, Interface
from ecmproto.frames.capture.pcap import MAGIC_NS, PcapHeader, PcapParser, parse_header
from ecmproto.frames.capture.source import Fault, Shortage, Source, Walker, uint32_rows
from ecmproto.frames.capture.writer import SNAPLEN, RecordBuilder
from ecmproto.units import NS_PER_S

_ETHERNET_TYPES = np.array([2, 11, 16, 20], np.uint8)
_NAMES = {
    1: "HDLC_POS", 3: "ATM", 4: "AAL5", 5: "MC_HDLC", 6: "MC_RAW", 7: "MC_ATM", 8: "MC_RAW_CHANNEL",
    9: "MC_AAL5", 10: "COLOR_HDLC_POS", 12: "MC_AAL2", 13: "IP_COUNTER", 14: "TCP_FLOW_COUNTER",
    15: "DSM_COLOR_HDLC_POS", 17: "COLOR_MC_HDLC_POS", 18: "AAL2", 19: "COLOR_HASH_POS", 21: "INFINIBAND",
    22: "IPV4", 23: "IPV6", 24: "RAW_LINK", 25: "INFINIBAND_LINK", 27: "META", 48: "PAD",
}  # fmt: skip
_HEADER_OCTETS, _EXTENSION_OCTETS, _PADDING_OCTETS, _FCS_OCTETS = 16, 8, 2, 4
_TYPE_AT, _LENGTH_AT, _WIRE_LENGTH_AT = 8, 10, 14
_MORE = 0x80
_MAX_EXTENSIONS = 16
_CUT = -1
"""Type number for a record that ends within its headers."""
_BUILDER = RecordBuilder(format="pcap", byte_order="little", resolution="ns")


def pcap_parser(header: PcapHeader, walker: Walker, batch_frames: int) -> PcapParser:
    """Return the parser for the records after a pcap header."""
    kind = ErfParser if header.interface.linktype == ERF else PcapParser
    return kind(header, walker, batch_frames)


class ErfParser(PcapParser):
    """Parser that reads ERF records as Ethernet records in ns, with the times of the card.

    Records of other types are skipped and counted in ``warnings``.
    """

    def __init__(self, header: PcapHeader, walker: Walker, batch_frames: int) -> None:
        super().__init__(header, walker, batch_frames)
        linktype = ETHERNET | _FCS_OCTETS // 2 << 28 | 1 << 26
        self.header: PcapHeader = parse_header(
            struct.pack("<IHHiIII", MAGIC_NS, 2, 4, 0, 0, SNAPLEN, linktype), ""
        )
        self.interfaces: list[Interface] = [self.header.interface]
        self._records = dataclasses.replace(
            self._records, byte_order=_BUILDER.byte_order, header_octets=_BUILDER.header_octets
        )
        self._reported = self.warnings
        self._left_out: Counter[int] = Counter()

    @property
    def state(self) -> Hashable:
        """Number of frames so far, because positions in a batch are not positions in the file."""
        return self.frames

    def resumed(self, state: Hashable, *, frames: int, compiled: bool) -> PcapParser:
        """Return a parser for later records; see `Parser`."""
        parser = copy.copy(self)
        parser.frames, parser._walker = frames, Walker(0, compiled=compiled)
        parser._left_out = Counter()
        return parser

    def take(self, source: Source) -> Batch | Block | Shortage | Fault | None:
        """Return the frames of the next records as a batch, or the reason for their absence."""
        before = self.frames
        batch = super().take(source)
        if not isinstance(batch, Batch):
            return batch
        frames, types = _frames_of(batch)
        self.frames: int = before + len(frames)
        if len(types):
            self._left_out.update(types.tolist())
            self.warnings = [*self._reported, *(_left_out(*each) for each in sorted(self._left_out.items()))]
        if not len(frames):
            return None
        octets = _BUILDER.record_octets(frames.captured)
        start = np.cumsum(octets) - octets
        return dataclasses.replace(
            frames, buffer=_BUILDER.from_batch(frames), offset=start + _BUILDER.header_octets,
            record_offset=start, record_length=octets, picked=None, timeline=None,
        )  # fmt: skip


def _left_out(kind: int, records: int) -> str:
    what = "cut within their headers" if kind == _CUT else f"of ERF type {_NAMES.get(kind, kind)}"
    return f"left out: {counted(records, 'record')} {what}"


def _frames_of(batch: Batch) -> tuple[Batch, NDArray[np.int64]]:
    """Return the Ethernet frames in ERF records, and the types of the records without such a frame."""
    whole = batch.captured >= _HEADER_OCTETS
    types = np.full(len(batch), _CUT, np.int64)
    batch_of = batch.select(whole)
    kind = batch_of.buffer[batch_of.offset + _TYPE_AT]
    types[whole] = kind & ~np.uint8(_MORE)
    head = np.full(len(batch_of), _HEADER_OCTETS, np.int64)
    more = kind & _MORE != 0
    is_cut = np.zeros(len(batch_of), np.bool_)
    for _ in range(_MAX_EXTENSIONS):
        is_cut |= more & (head + _EXTENSION_OCTETS > batch_of.captured)
        more &= ~is_cut
        if not more.any():
            break
        at = np.where(more, batch_of.offset + head, 0)
        head += _EXTENSION_OCTETS * more
        more &= batch_of.buffer[at] & _MORE != 0
    head += _PADDING_OCTETS
    length, on_wire = (_numbers(batch_of, at) for at in (_LENGTH_AT, _WIRE_LENGTH_AT))
    captured = np.minimum(np.minimum(batch_of.captured, length) - head, on_wire)
    is_cut |= more | (captured < 0)
    chosen = np.isin(kind & ~np.uint8(_MORE), _ETHERNET_TYPES)
    rows = np.flatnonzero(whole)
    types[rows[chosen & is_cut]] = _CUT
    chosen &= ~is_cut
    left = np.ones(len(batch), np.bool_)
    left[rows[chosen]] = False
    frames = dataclasses.replace(
        batch_of, offset=batch_of.offset + head, captured=captured, original=on_wire, time_ns=_times(batch_of)
    )
    return frames.select(chosen), types[left]


def _numbers(batch: Batch, at: int) -> NDArray[np.int64]:
    """Return the 16-bit numbers at offset ``at`` of each record."""
    high, low = (batch.buffer[batch.offset + at + each].astype(np.int64) for each in (0, 1))
    return high << 8 | low


def _times(batch: Batch) -> NDArray[np.int64]:
    """Return the times of records in ns, rounded from little-endian times in units of 2⁻³² s."""
    fraction, seconds = uint32_rows(batch.buffer, batch.offset, 2, "little").astype(np.uint64).T
    ns = (fraction * np.uint64(NS_PER_S) + np.uint64(1 << 31)) >> np.uint64(32)
    times: NDArray[np.int64] = (seconds * np.uint64(NS_PER_S) + ns).astype(np.int64)
    return times
