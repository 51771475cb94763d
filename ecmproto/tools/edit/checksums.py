"""Checksums of edited frames: incremental updates, or complete computation.

`keep_right` updates checksums as a router does (RFC 1624): it subtracts the difference of the written octets
from the checksum. A correct checksum remains correct, and an incorrect checksum remains incorrect. This also
works for frames truncated by a snap length and for first fragments. An invariant CRC (RoCE) or an FCS is
recomputed only if it was correct before. The checksum is updated even if the TCP header is truncated after
the checksum. If the checksum itself is truncated, the frame is counted.

`put_lengths_right` and `put_checksums_right` compute all lengths and checksums of a frame, if the required
octets were captured.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns.invariant_crc import invariant_crcs
from ecmproto.frames.columns.layers import BatchLayers, Entries
from ecmproto.frames.columns.walk import Frames
from ecmproto.tools.edit.assignments import Targets, Written, put_rows, rows_at
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.formats.ethertypes import MAX_LENGTH
from ecmproto.wire.formats.gre import GRE, GREChecksum
from ecmproto.wire.formats.infiniband import BTH, GRH, ICRC, LRH
from ecmproto.wire.formats.ip import TCP, UDP, Extension, FragmentHeader, IPv4, IPv6, Routing
from ecmproto.wire.formats.registry import FORMATS

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
_BTHS = tuple(cls for cls in FORMATS if issubclass(cls, BTH))
_LENGTHS = (Ethernet, VLAN, STag, ITag)
_EXTENSIONS = tuple(cls for cls in FORMATS if issubclass(cls, Extension))
COVERED = (IPv4, IPv6, GRH, LRH, UDP, TCP, ICRC, GREChecksum, *_BTHS, *_EXTENSIONS)
"""Formats that `keep_right` needs."""
FIXED = (*COVERED, *_LENGTHS)
"""Formats that `put_lengths_right` and `put_checksums_right` need."""

EXTENTS = frozenset(
    {
        (IPv4, "ihl"), (IPv4, "len"), (IPv4, "proto"), (IPv4, "flags"), (IPv4, "frag_offset"), (IPv6, "plen"),
        (IPv6, "nxt"), (UDP, "length"), (GRE, "flags"),
    }
)  # fmt: skip
"""Fields that determine the range or the type of a following checksum."""

_IPV4_SUM, _UDP_SUM, _TCP_SUM = 10, 6, 16
_IPV4_LEN, _IPV6_LEN, _UDP_LEN = 2, 4, 4
_IPV4_OCTETS, _IPV6_OCTETS = IPv4.fixed_octets, IPv6.fixed_octets
_UDP, _TCP = 17, 6
_FRAGMENT_OFFSET = {IPv4: (6, 0x1FFF), FragmentHeader: (2, 0xFFF8)}
_FCS_OCTETS = 4
_CRC = "infiniband.invariant.crc"
_ALL = 0xFFFF


def _after_ip() -> frozenset[type[Layer]]:
    """Return the formats that can occur inside IP packets."""
    result: set[type[Layer]] = {IPv4, IPv6, GRH, Data}
    for cls in FORMATS:
        if (
            cls.role == "wrapper"
            or cls.ip_protocol is not None
            or cls.next_header is not None
            or cls.udp_ports
        ):
            result |= {cls, *(each for several in cls.sequences.values() for each in several)}
            result |= {cls.closed_by} - {None}  # type: ignore[arg-type]
    return frozenset(result)


AFTER_IP = _after_ip()
"""Formats whose fields a checksum may cover."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """The network and transport headers of frames, with one entry per frame.

    Entries are offsets in a buffer, or NOWHERE for a missing header.
    """

    network: Int64
    is_ip4: NDArray[np.bool_]
    header_end: Int64
    transport: Int64
    """Start of the TCP or UDP header, which may be truncated."""
    is_udp: NDArray[np.bool_]
    bth: Int64
    crc: Int64
    """Start of the invariant CRC, which may be truncated."""
    gre: Int64
    """Start of the GRE checksum."""
    end: Int64
    """End of the captured octets, without the FCS."""

    @property
    def sum_at(self) -> Int64:
        """Offset of the TCP or UDP checksum."""
        return self.transport + np.where(self.is_udp, _UDP_SUM, _TCP_SUM)

    def captured(self, rows: NDArray[np.intp], at: Int64, octets: int) -> tuple[NDArray[np.intp], int]:
        """Return the ``rows`` whose ``octets`` from ``at`` are captured.

        The second result is the number of frames in which only a part of the octets is captured.
        """
        start, end = at[rows], self.end[rows]
        return rows[start + octets <= end], int(((start < end) & (end < start + octets)).sum())


def frame_ends(frames: Frames) -> tuple[Int64, Int64]:
    """Return the ends of frames without their FCS: of the captured octets, and on the wire."""
    # the FCS is last on the wire, so a cut frame loses its FCS first
    lacks = np.maximum(frames.original - frames.captured, 0)
    end = frames.offset + frames.captured - np.maximum(frames.fcs - lacks, 0)
    return end, end + np.maximum(lacks - frames.fcs, 0)


def packets_in(layers: BatchLayers, shift: int = 0) -> Packets:
    """Return the headers in the original frames; all offsets are reduced by ``shift``."""
    buffer, count = layers.frames.buffer, len(layers.frames.offset)

    def first_of(*formats: type[Layer]) -> Int64:
        offset = np.full(count, NOWHERE, np.int64)
        for kind in formats:
            entries = layers.entries.get(kind)
            if entries is not None:
                # the reversed assignment keeps the outermost header
                offset[entries.row[::-1]] = entries.start[::-1]
        return offset

    ip4, ip6, grh, udp, tcp = (first_of(kind) for kind in (IPv4, IPv6, GRH, UDP, TCP))
    network = np.where(ip4 >= 0, ip4, np.where(ip6 >= 0, ip6, grh))
    header = np.where(ip4 >= 0, 4 * (buffer[np.maximum(ip4, 0)] & 15).astype(np.int64), _IPV6_OCTETS)
    transport, is_udp = np.where(udp >= 0, udp, tcp), udp >= 0
    if ((network >= 0) & (transport < 0)).any():
        inner, protocol = _after_ip_headers(layers)
        cut = (transport < 0) & np.isin(protocol, (_UDP, _TCP))
        transport[cut], is_udp[cut] = inner[cut], protocol[cut] == _UDP
    bth, crc = first_of(*_BTHS), first_of(ICRC)
    end, reach = frame_ends(layers.frames)
    rows = np.flatnonzero((bth >= 0) & (crc < 0) & (network >= 0))
    if len(rows):
        # an extended header may be truncated, but the CRC is still at the end
        stop = np.minimum(reach[rows], _packet_end(buffer, network[rows], (ip4 >= 0)[rows]))
        crc[rows] = np.where(stop - bth[rows] >= BTH.least_octets, stop - ICRC.fixed_octets, NOWHERE)

    # the CRC also covers a link header of InfiniBand, which is not supported here
    crc[first_of(LRH) >= 0] = NOWHERE

    def moved(offset: Int64) -> Int64:
        return np.where(offset >= 0, offset - shift, NOWHERE)

    return Packets(
        network=moved(network), is_ip4=ip4 >= 0, header_end=moved(network + header),
        transport=moved(transport), is_udp=is_udp, bth=moved(bth), crc=moved(crc),
        gre=moved(first_of(GREChecksum)), end=moved(end),
    )  # fmt: skip


def _after_ip_headers(results: BatchLayers) -> tuple[Int64, Int64]:
    """Return the end of the IP headers and extension headers of each frame, and the protocol that follows.

    Both are NOWHERE for a frame without IP headers. The protocol is NOWHERE for a fragment that is not the
    first fragment.
    """
    buffer, count = results.frames.buffer, len(results.frames.offset)
    end, protocol = np.full(count, NOWHERE, np.int64), np.full(count, NOWHERE, np.int64)
    for kind in (IPv4, IPv6, *_EXTENSIONS):
        if kind in results.entries:
            entries = results.entries[kind]
            entries = entries.select(entries.start >= end[entries.row])
            end[entries.row] = entries.start + entries.octets
            protocol[entries.row] = buffer[entries.start + {IPv4: 9, IPv6: 6}.get(kind, 0)]
            if kind in _FRAGMENT_OFFSET:
                at, mask = _FRAGMENT_OFFSET[kind]
                protocol[entries.row[_number(buffer, entries.start + at) & mask != 0]] = NOWHERE
    return end, protocol


def keep_right(
    packets: Packets,
    buffer: Octets,
    before: Octets,
    shift: int,
    written: list[Written],
    set_fields: Collection[tuple[type[Layer], str]],
    unclear: NDArray[np.bool_],
) -> tuple[Counter[str], Counter[str]]:
    """Update checksums for the octets ``written`` to ``buffer``.

    Returns the number of frames with changed checksums, by field. Also returns, by field, the number of
    frames whose checksum is unchanged because it is truncated. ``before`` is the original buffer, in which
    offsets are larger by ``shift``. ``set_fields`` are the fields that assignments set. The checksums of
    TCP, UDP and GRE are not updated in frames in ``unclear`` (`unclear_frames`).
    """
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    if (ICRC, "crc") not in set_fields:
        renewed, left[_CRC] = _renew_crc(packets, buffer, before, shift, written)
        counts[_CRC] = int(renewed.differs.sum())
        written = [*written, renewed]
    count = len(packets.network)
    header, transport, tunnel = (np.zeros(count, np.int64) for _ in range(3))
    for each in written:
        _add_differences(packets, each, header, transport, tunnel)
    if not {(IPv4, "ihl"), (IPv4, "checksum")} & set(set_fields):
        rows = np.flatnonzero((header != 0) & packets.is_ip4)
        counts["ip.checksum"] = _update(buffer, packets.network[rows] + _IPV4_SUM, header[rows])
    transport[unclear] = tunnel[unclear] = 0
    for kind, name, sum_at, difference in (
        (UDP, "udp", packets.sum_at, np.where(packets.is_udp, transport, 0)),
        (TCP, "tcp", packets.sum_at, np.where(packets.is_udp, 0, transport)),
        (GREChecksum, "gre", packets.gre, tunnel),
    ):
        if (kind, "checksum") in set_fields:
            continue
        rows, left[f"{name}.checksum"] = packets.captured(np.flatnonzero(difference), sum_at, 2)
        if kind is UDP:
            # 0 means no checksum
            rows = rows[_number(buffer, sum_at[rows]) != 0]
        counts[f"{name}.checksum"] = _update(buffer, sum_at[rows], difference[rows], zero_is_none=kind is UDP)
    return +counts, +left


def unclear_frames(count: int, targets: Iterable[Targets]) -> NDArray[np.bool_]:
    """Return a mask of ``count`` frames that is set if an assignment writes one of the `EXTENTS`."""
    unclear = np.zeros(count, np.bool_)
    for each in targets:
        if (each.writing.source.format, each.writing.source.key) in EXTENTS:
            unclear[each.row] = True
    return unclear


def _add_differences(
    packets: Packets, written: Written, header: Int64, transport: Int64, tunnel: Int64
) -> None:
    """Add the differences of written octets to the sums of the IP header, the transport segment and GRE."""
    row = written.row
    network, inner = packets.network[row], packets.transport[row]
    is_ip4 = packets.is_ip4[row]
    has_segment = inner >= 0
    gre = packets.gre[row]
    differences = written.after.astype(np.int64) - written.before
    for column in range(differences.shape[1]):
        difference = differences[:, column]
        at = written.start + column
        position = at - network
        in_ip = (network >= 0) & (position >= 0) & (at < packets.header_end[row])
        weight = np.where(position & 1, 1, 256)
        summed = in_ip & is_ip4 & (position != _IPV4_SUM) & (position != _IPV4_SUM + 1)
        np.add.at(header, row, np.where(summed, difference * weight, 0))
        address = np.where(is_ip4, (position >= 12) & (position < 20), (position >= 8) & (position < 40))
        np.add.at(transport, row, np.where(in_ip & has_segment & address, difference * weight, 0))
        for total, start, sum_at in (
            (transport, inner, packets.sum_at[row]),
            (tunnel, np.where(gre >= 0, gre - GRE.fixed_octets, NOWHERE), gre),
        ):
            covered = (start >= 0) & (at >= start) & (at != sum_at) & (at != sum_at + 1)
            weight = np.where((at - start) & 1, 1, 256)
            np.add.at(total, row, np.where(covered, difference * weight, 0))


def _update(buffer: Octets, at: Int64, difference: Int64, *, zero_is_none: bool = False) -> int:
    """Update checksums by differences of their sums (RFC 1624); return the number of changes."""
    return _put_checksum(buffer, at, _ALL - _number(buffer, at) + difference, zero_is_none=zero_is_none)


def _put_checksum(buffer: Octets, at: Int64, total: Int64, *, zero_is_none: bool) -> int:
    """Write the checksums for sums of octets; return the number of changed checksums."""
    # a sum that is 0 modulo 0xFFFF is 0xFFFF, unless all octets are zero
    rest = total % _ALL
    checksum = _ALL - np.where(rest == 0, _ALL, rest)
    if zero_is_none:
        checksum[checksum == 0] = _ALL
    return _replace(buffer, at, _two(checksum))


def _two(numbers: Int64) -> Octets:
    return numbers.astype(">u2").view(np.uint8).reshape(-1, 2)


def _number(buffer: Octets, at: Int64) -> Int64:
    return rows_at(buffer, at, 2).view(">u2").reshape(-1).astype(np.int64)


def _renew_crc(
    packets: Packets, buffer: Octets, before: Octets, shift: int, written: list[Written]
) -> tuple[Written, int]:
    """Recompute the invariant CRCs that were correct before covered octets were written.

    Returns the written CRCs, and the number of frames with a truncated CRC.
    """
    touched = np.zeros(len(packets.network), np.bool_)
    for each in written:
        at, row = each.start, each.row
        covered = (packets.crc[row] > at) & (packets.network[row] <= at)
        touched[row[covered & each.differs]] = True
    rows = np.flatnonzero(touched & (packets.bth >= 0) & (packets.network >= 0))
    rows, cut = packets.captured(rows[~_is_fragment(packets, buffer, rows)], packets.crc, _FCS_OCTETS)
    checksums = rows_at(before, packets.crc[rows] + shift, _FCS_OCTETS)
    old = _invariant_crcs(packets, before, rows, shift)
    rows = rows[(old == checksums).all(axis=1)]
    new = _invariant_crcs(packets, buffer, rows)
    at = packets.crc[rows]
    was = rows_at(buffer, at, _FCS_OCTETS)
    put_rows(buffer, at, new)
    return Written(rows.astype(np.int32), at, was, new), cut


def _is_fragment(packets: Packets, buffer: Octets, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return a mask of the IPv4 fragments, whose transport checksum also covers octets of other fragments."""
    flags = _number(buffer, np.where(packets.is_ip4[rows], packets.network[rows] + 6, 0))
    fragments: NDArray[np.bool_] = packets.is_ip4[rows] & (flags & 0x3FFF != 0)
    return fragments


def _invariant_crcs(packets: Packets, buffer: Octets, rows: NDArray[np.intp], shift: int = 0) -> Octets:
    """Return the correct invariant CRCs of the packets in ``rows``, in wire order."""
    udp = np.where(packets.is_udp, packets.transport + shift, NOWHERE)
    crcs = invariant_crcs(
        buffer, packets.network[rows] + shift, packets.is_ip4[rows], udp[rows], packets.bth[rows] + shift,
        packets.crc[rows] + shift,
    )  # fmt: skip
    return crcs.view(np.uint8).reshape(-1, _FCS_OCTETS)


def right_fcs(batch: Batch, fcs_octets: NDArray[np.integer], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the ``rows`` of complete frames with a correct FCS of four octets."""
    whole = (fcs_octets[rows] == _FCS_OCTETS) & (batch.captured[rows] > _FCS_OCTETS)
    rows = rows[whole & (batch.original[rows] <= batch.captured[rows])]
    if not len(rows):
        return rows
    captured = rows_at(batch.buffer, batch.offset[rows] + batch.captured[rows] - _FCS_OCTETS, _FCS_OCTETS)
    right: NDArray[np.intp] = rows[(captured == _fcs(batch, rows)).all(axis=1)]
    return right


def put_fcs(batch: Batch, buffer: Octets, rows: NDArray[np.intp]) -> int:
    """Recompute the FCS of frames; return the number of FCSs that were incorrect."""
    at = batch.offset[rows] + batch.captured[rows] - _FCS_OCTETS
    new = _fcs(batch, rows)
    changed = (rows_at(buffer, at, _FCS_OCTETS) != new).any(axis=1)
    put_rows(buffer, at[changed], new[changed])
    return int(changed.sum())


def _fcs(batch: Batch, rows: NDArray[np.intp]) -> Octets:
    view = batch.buffer.data
    stops = batch.offset[rows] + batch.captured[rows] - _FCS_OCTETS
    crcs = [
        zlib.crc32(view[first:last])
        for first, last in zip(batch.offset[rows].tolist(), stops.tolist(), strict=True)
    ]
    return np.array(crcs, "<u4").view(np.uint8).reshape(-1, _FCS_OCTETS)


# complete computation


def put_lengths_right(layers: BatchLayers, buffer: Octets) -> Counter[str]:
    """Correct length fields that exceed the frame on the wire or are shorter than their header.

    The corrected length is the available length. Returns the number of corrected frames, by field.
    """
    counts: Counter[str] = Counter()
    _, reach = frame_ends(layers.frames)
    bound = reach.copy()
    for cls, at, end in ((Ethernet, 12, 14), (VLAN, 2, 4), (STag, 2, 4), (ITag, 16, 18)):
        for entries in _by_depth(layers, cls):
            value = _number(buffer, entries.start + at)
            start = entries.start + end
            space = reach[entries.row] - start
            is_length = (value <= MAX_LENGTH) & (space <= MAX_LENGTH)
            _set(counts, f"{cls.prefix}.len", buffer, entries, at, space, is_length & (value > space))
            stop = start + np.minimum(value, space)
            bound[entries.row[is_length]] = np.minimum(bound[entries.row], stop)[is_length]
    for entries in _by_depth(layers, IPv4):
        header = 4 * (buffer[entries.start] & 15).astype(np.int64)
        value, space = _number(buffer, entries.start + _IPV4_LEN), bound[entries.row] - entries.start
        wrong = (value > space) | (value < header)
        _set(counts, "ip.len", buffer, entries, _IPV4_LEN, space, wrong & (space >= header) & (space <= _ALL))
        value = _number(buffer, entries.start + _IPV4_LEN)
        bound[entries.row] = np.minimum(bound[entries.row], entries.start + value)
    for name, kind in (("ipv6.plen", IPv6), ("infiniband.grh.paylen", GRH)):
        for entries in _by_depth(layers, kind):
            value = _number(buffer, entries.start + _IPV6_LEN)
            space = bound[entries.row] - entries.start - _IPV6_OCTETS
            wrong = (value > space) & (space >= 0)
            _set(counts, name, buffer, entries, _IPV6_LEN, space, wrong)
            value = _number(buffer, entries.start + _IPV6_LEN)
            stop = entries.start + _IPV6_OCTETS + np.where(value == 0, 1 << 40, value)
            bound[entries.row] = np.minimum(bound[entries.row], stop)
    for entries in _by_depth(layers, UDP):
        value, space = _number(buffer, entries.start + _UDP_LEN), bound[entries.row] - entries.start
        few = (value > 0) & (value < UDP.fixed_octets)
        wrong = ((value > space) | few) & (space >= UDP.fixed_octets) & (space <= _ALL)
        packets = packets_in(layers)
        rows = np.arange(len(reach))
        wrong &= ~_is_fragment(packets, buffer, rows)[entries.row]
        _set(counts, "udp.length", buffer, entries, _UDP_LEN, space, wrong)
    return +counts


def _by_depth(results: BatchLayers, cls: type[Layer]) -> Iterator[Entries]:
    """Yield the layers of a format: the first layer of each frame, then the second layers, and so on."""
    entries = results.entries.get(cls)
    if entries is None:
        return
    heads = np.flatnonzero(np.diff(entries.row, prepend=-1))
    nth = np.arange(len(entries.row)) - np.repeat(heads, np.diff(heads, append=len(entries.row)))
    for number in range(int(nth.max()) + 1):
        yield entries.select(nth == number)


def _set(
    reported: Counter[str], name: str, buffer: Octets, entries: Entries, at: int, values: Int64,
    wrong: NDArray[np.bool_],
) -> None:  # fmt: skip
    put_rows(buffer, entries.start[wrong] + at, _two(values[wrong]))
    reported[name] += int(wrong.sum())


def put_checksums_right(layers: BatchLayers, buffer: Octets) -> tuple[Counter[str], Counter[str]]:
    """Compute the checksums of completely captured packets.

    Returns the number of frames with changed checksums, by field. Also returns, by field, the number of
    frames whose checksum is unchanged because octets are missing. Octets can be truncated, in other
    fragments, or in a routing header.
    """
    counts: Counter[str] = Counter()
    left: Counter[str] = Counter()
    packets = packets_in(layers)
    end = packets.end
    every = np.arange(len(end))
    fragment = _is_fragment(packets, buffer, every)
    rows = np.flatnonzero((packets.bth >= 0) & (packets.crc >= 0) & ~fragment)
    rows, left[_CRC] = packets.captured(rows, packets.crc, _FCS_OCTETS)
    counts[_CRC] = _replace(buffer, packets.crc[rows], _invariant_crcs(packets, buffer, rows))
    entries = layers.entries.get(IPv4)
    if entries is not None:
        start = entries.start
        header = 4 * (buffer[start] & 15).astype(np.int64)
        whole = (header >= _IPV4_OCTETS) & (start + header <= end[entries.row])
        start, header = start[whole], header[whole]
        total = _sums(buffer, start, start + header) - _number(buffer, start + _IPV4_SUM)
        counts["ip.checksum"] = _replace_checksum(buffer, start + _IPV4_SUM, total, zero_is_none=False)
    routed = np.zeros(len(end), np.bool_)
    if Routing in layers.entries:
        routed[layers.entries[Routing].row] = True
    for kind, name in ((UDP, "udp.checksum"), (TCP, "tcp.checksum")):
        is_kind = packets.is_udp if kind is UDP else ~packets.is_udp & (packets.transport >= 0)
        rows = np.flatnonzero(is_kind & (packets.network >= 0))
        rows, cut = packets.captured(rows, packets.sum_at, 2)
        if kind is UDP:
            rows = rows[_number(buffer, packets.sum_at[rows]) != 0]
        stop = _segment_end(packets, buffer, rows, kind)
        fixed_end = packets.transport[rows] + kind.fixed_octets
        known = (stop <= end[rows]) & (stop >= fixed_end) & ~fragment[rows] & ~routed[rows]
        left[name] = cut + int((~known).sum())
        rows, stop = rows[known], stop[known]
        total = _pseudo(packets, buffer, rows, stop, _UDP if kind is UDP else _TCP)
        total += _sums(buffer, packets.transport[rows], stop) - _number(buffer, packets.sum_at[rows])
        counts[name] = _replace_checksum(buffer, packets.sum_at[rows], total, zero_is_none=kind is UDP)
    if GREChecksum in layers.entries:
        at, row = layers.entries[GREChecksum].start, layers.entries[GREChecksum].row
        stop = _packet_end(buffer, packets.network[row], packets.is_ip4[row])
        known = (packets.network[row] >= 0) & (stop <= end[row]) & ~fragment[row]
        left["gre.checksum"] = int((~known).sum())
        at, stop = at[known], stop[known]
        total = _sums(buffer, at - GRE.fixed_octets, stop) - _number(buffer, at)
        counts["gre.checksum"] = _replace_checksum(buffer, at, total, zero_is_none=False)
    return +counts, +left


def _packet_end(buffer: Octets, network: Int64, is_ip4: NDArray[np.bool_]) -> Int64:
    """Return the ends of packets according to their network headers.

    Without a length in the header, the end is far beyond the buffer.
    """
    lengths = _number(buffer, network + np.where(is_ip4, _IPV4_LEN, _IPV6_LEN))
    return network + np.where(lengths == 0, 1 << 40, lengths + np.where(is_ip4, 0, _IPV6_OCTETS))


def _segment_end(packets: Packets, buffer: Octets, rows: NDArray[np.intp], kind: type[Layer]) -> Int64:
    """Return the ends of transport segments according to their headers."""
    of_ip = _packet_end(buffer, packets.network[rows], packets.is_ip4[rows])
    if kind is not UDP:
        return of_ip
    length = _number(buffer, packets.transport[rows] + _UDP_LEN)
    return np.where(length == 0, of_ip, packets.transport[rows] + length)


def _pseudo(packets: Packets, buffer: Octets, rows: NDArray[np.intp], stop: Int64, protocol: int) -> Int64:
    network, is_ip4 = packets.network[rows], packets.is_ip4[rows]
    first = network + np.where(is_ip4, 12, 8)
    return _sums(buffer, first, first + np.where(is_ip4, 8, 32)) + (stop - packets.transport[rows]) + protocol


def _replace_checksum(buffer: Octets, at: Int64, total: Int64, *, zero_is_none: bool) -> int:
    # both zeros of ones' complement are correct, also for an IPv4 header
    wrong = (total + _number(buffer, at)) % _ALL != 0
    return _put_checksum(buffer, at[wrong], total[wrong], zero_is_none=zero_is_none)


def _replace(buffer: Octets, at: Int64, rows: Octets) -> int:
    changed = (rows_at(buffer, at, rows.shape[1]) != rows).any(axis=1)
    put_rows(buffer, at[changed], rows[changed])
    return int(changed.sum())


_SUMMED_OCTETS = 4 << 20


def _sums(buffer: Octets, start: Int64, stop: Int64) -> Int64:
    """Return the sum of each octet range as 16-bit numbers; an odd last octet is padded with 0."""
    if len(start) and (start[1:] < start[:-1]).any():
        order = np.argsort(start)
        shuffled = np.empty(len(start), np.int64)
        shuffled[order] = _sums(buffer, start[order], stop[order])
        return shuffled
    total = np.zeros(len(start), np.int64)
    done = 0
    while done < len(start):
        low = int(start[done])
        # ranges are sorted, so adjacent ranges are near each other
        last = max(done + 1, int(np.searchsorted(start, low + _SUMMED_OCTETS)))
        part = slice(done, last)
        low -= low & 1
        octets = buffer[low : int(stop[part].max())]
        even = np.concatenate([[0], np.cumsum(octets[0::2], dtype=np.int64)])
        odd = np.concatenate([[0], np.cumsum(octets[1::2], dtype=np.int64)])
        first, end = start[part] - low, stop[part] - low
        evens = even[(end + 1) // 2] - even[(first + 1) // 2]
        odds = odd[end // 2] - odd[first // 2]
        total[part] = np.where(first & 1, 256 * odds + evens, 256 * evens + odds)
        done = last
    return total
