"""Checksums of edited frames: those over what is written brought up to date, or all computed anew.

`keep_right` does what a router does (RFC 1624): the difference that the written octets make is taken off the
checksum.  What was right stays right, of a frame that a snap length has cut and of a first fragment too, and
what was wrong stays wrong.  An invariant CRC (RoCE) or an FCS is computed anew where it was right before.

`put_right` computes all of a frame's lengths and checksums, right or wrong before, as far as its octets were
captured.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections import Counter
from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture import Batch
from ecmproto.columns.layers import Entries, LayersFound
from ecmproto.edit.assignments import Written, put_rows, rows_at
from ecmproto.formats.base import Layer
from ecmproto.formats.ethernet import VLAN, Data, Ethernet, ITag, STag
from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.infiniband import BTH, GRH, ICRC
from ecmproto.formats.ip import TCP, UDP, IPv4, IPv6, Routing
from ecmproto.formats.registry import FORMATS

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

NOWHERE = -1
_BTHS = tuple(cls for cls in FORMATS if issubclass(cls, BTH))
_LENGTHS = (Ethernet, VLAN, STag, ITag)
COVERED = (IPv4, IPv6, GRH, UDP, TCP, ICRC, *_BTHS)
"""The formats to be found for `keep_right`."""
FIXED = (*COVERED, *_LENGTHS, Routing)
"""Those for `put_right`."""

EXTENTS = frozenset(
    {
        (IPv4, "ihl"), (IPv4, "len"), (IPv4, "proto"), (IPv4, "flags"), (IPv4, "frag_offset"), (IPv6, "plen"),
        (IPv6, "nxt"), (UDP, "length"),
    }
)  # fmt: skip
"""Fields that say which octets a checksum behind them covers, or what kind of checksum there is."""

_IPV4_SUM, _UDP_SUM, _TCP_SUM = 10, 6, 16
_IPV4_LEN, _IPV6_LEN, _UDP_LEN = 2, 4, 4
_IPV4_OCTETS, _IPV6_OCTETS = IPv4.fixed_octets, IPv6.fixed_octets
_UDP, _TCP = 17, 6
_FCS_OCTETS = 4
_LINK_HEADER_CRC = zlib.crc32(b"\xff" * 8)
_ALL = 0xFFFF


def _behind_ip() -> frozenset[type[Layer]]:
    """Return the formats that stand in IP packets."""
    found: set[type[Layer]] = {IPv4, IPv6, GRH, Data}
    for cls in FORMATS:
        if cls.ip_protocol is not None or cls.next_header is not None or cls.udp_ports:
            found |= {cls, *(each for several in cls.sequences.values() for each in several)}
            found |= {cls.closed_by} - {None}  # type: ignore[arg-type]
    return frozenset(found)


BEHIND_IP = _behind_ip()
"""Formats whose fields a checksum may cover."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Packets:
    """The network and transport headers of frames, an entry a frame: places in a buffer, NOWHERE without."""

    network: Int64
    is_ip4: NDArray[np.bool_]
    header_end: Int64
    transport: Int64
    is_udp: NDArray[np.bool_]
    bth: Int64
    crc: Int64
    """Where the invariant CRC stands."""

    @property
    def sum_at(self) -> Int64:
        """Where the transport's checksum stands."""
        return self.transport + np.where(self.is_udp, _UDP_SUM, _TCP_SUM)


def packets_in(found: LayersFound, buffer: Octets, shift: int = 0) -> Packets:
    """Return the packets of frames; ``buffer`` has them ``shift`` octets in front of where they were."""
    count = len(found.frames.offset)

    def first_of(*kinds: type[Layer]) -> Int64:
        place = np.full(count, NOWHERE, np.int64)
        for kind in kinds:
            entries = found.entries.get(kind)
            if entries is not None:
                # the last one written is the outermost
                place[entries.row[::-1]] = entries.start[::-1] - shift
        return place

    ip4, ip6, grh, udp, tcp = (first_of(kind) for kind in (IPv4, IPv6, GRH, UDP, TCP))
    network = np.where(ip4 >= 0, ip4, np.where(ip6 >= 0, ip6, grh))
    header = np.where(ip4 >= 0, 4 * (buffer[np.maximum(ip4, 0)] & 15).astype(np.int64), _IPV6_OCTETS)
    return Packets(
        network=network,
        is_ip4=ip4 >= 0,
        header_end=network + header,
        transport=np.where(udp >= 0, udp, tcp),
        is_udp=udp >= 0,
        bth=first_of(*_BTHS),
        crc=first_of(ICRC),
    )


def keep_right(
    packets: Packets,
    buffer: Octets,
    before: Octets,
    shift: int,
    written: list[Written],
    set_fields: Collection[tuple[type[Layer], str]],
) -> Counter[str]:
    """Bring checksums up to date with what was ``written`` to ``buffer``; return how many frames', by field.

    ``before`` is the buffer as it was, ``shift`` octets further; ``set_fields`` are the fields that were set.
    """
    told: Counter[str] = Counter()
    if (ICRC, "crc") not in set_fields:
        renewed = _renew_crc(packets, buffer, before, shift, written)
        if renewed is not None:
            told["infiniband.invariant.crc"] = len(renewed.row)
            written = [*written, renewed]
    count = len(packets.network)
    header, transport = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for each in written:
        _add_differences(packets, each, header, transport)
    if not {(IPv4, "ihl"), (IPv4, "checksum")} & set(set_fields):
        rows = np.flatnonzero((header != 0) & packets.is_ip4)
        _update(buffer, packets.network[rows] + _IPV4_SUM, header[rows])
        told["ip.checksum"] = len(rows)
    if EXTENTS.isdisjoint(set_fields):
        for name, mask in (("udp", packets.is_udp), ("tcp", ~packets.is_udp)):
            kind = UDP if name == "udp" else TCP
            if (kind, "checksum") in set_fields:
                continue
            rows = np.flatnonzero((transport != 0) & mask & (packets.transport >= 0))
            there = _number(buffer, packets.sum_at[rows])
            if name == "udp":
                # 0: none
                rows = rows[there != 0]
            _update(buffer, packets.sum_at[rows], transport[rows], zero_is_none=name == "udp")
            told[f"{name}.checksum"] = len(rows)
    return +told


def _add_differences(packets: Packets, written: Written, header: Int64, transport: Int64) -> None:
    """Add what written octets make the sums differ by, of IP's header and of the transport's segment."""
    row = written.row
    network, behind = packets.network[row], packets.transport[row]
    is_ip4 = packets.is_ip4[row]
    sum_at = packets.sum_at[row]
    has_segment = behind >= 0
    differences = written.after.astype(np.int64) - written.before
    for column in range(differences.shape[1]):
        difference = differences[:, column]
        at = written.start + column
        place = at - network
        in_ip = (network >= 0) & (place >= 0) & (at < packets.header_end[row])
        weight = np.where(place & 1, 1, 256)
        summed = in_ip & is_ip4 & (place != _IPV4_SUM) & (place != _IPV4_SUM + 1)
        np.add.at(header, row, np.where(summed, difference * weight, 0))
        address = np.where(is_ip4, (place >= 12) & (place < 20), (place >= 8) & (place < 40))
        np.add.at(transport, row, np.where(in_ip & has_segment & address, difference * weight, 0))
        in_segment = has_segment & (at >= behind) & (at != sum_at) & (at != sum_at + 1)
        weight = np.where((at - behind) & 1, 1, 256)
        np.add.at(transport, row, np.where(in_segment, difference * weight, 0))


def _update(buffer: Octets, at: Int64, difference: Int64, *, zero_is_none: bool = False) -> None:
    """Bring checksums up to date with what their sums differ by (RFC 1624)."""
    _put_checksum(buffer, at, _ALL - _number(buffer, at) + difference, zero_is_none=zero_is_none)


def _put_checksum(buffer: Octets, at: Int64, total: Int64, *, zero_is_none: bool) -> None:
    # a sum of octets that are not all zero is 0xFFFF where it is 0 modulo 0xFFFF
    rest = total % _ALL
    checksum = _ALL - np.where(rest == 0, _ALL, rest)
    if zero_is_none:
        checksum[checksum == 0] = _ALL
    put_rows(buffer, at, _two(checksum))


def _two(numbers: Int64) -> Octets:
    return numbers.astype(">u2").view(np.uint8).reshape(-1, 2)


def _number(buffer: Octets, at: Int64) -> Int64:
    return rows_at(buffer, at, 2).view(">u2").reshape(-1).astype(np.int64)


def _renew_crc(
    packets: Packets, buffer: Octets, before: Octets, shift: int, written: list[Written]
) -> Written | None:
    """Compute anew those invariant CRCs that were right before octets they cover were written."""
    touched = np.zeros(len(packets.network), np.bool_)
    for each in written:
        at, row = each.start, each.row
        covered = (packets.crc[row] > at) & (packets.network[row] <= at)
        touched[row[covered & each.differs]] = True
    rows = np.flatnonzero(touched & (packets.bth >= 0) & (packets.network >= 0))
    rows = rows[~_is_fragment(packets, buffer, rows)]
    if not len(rows):
        return None
    there = rows_at(before, packets.crc[rows] + shift, _FCS_OCTETS)
    old = invariant_crcs(packets, before, rows, shift)
    rows = rows[(old == there).all(axis=1)]
    new = invariant_crcs(packets, buffer, rows)
    at = packets.crc[rows]
    was = rows_at(buffer, at, _FCS_OCTETS)
    put_rows(buffer, at, new)
    return Written(rows.astype(np.int32), at, was, new)


def _is_fragment(packets: Packets, buffer: Octets, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which IPv4 packets are fragments, whose transport checksum covers more than is there."""
    flags = _number(buffer, np.where(packets.is_ip4[rows], packets.network[rows] + 6, 0))
    fragments: NDArray[np.bool_] = packets.is_ip4[rows] & (flags & 0x3FFF != 0)
    return fragments


def invariant_crcs(packets: Packets, buffer: Octets, rows: NDArray[np.intp], shift: int = 0) -> Octets:
    """Return the invariant CRCs that the packets of ``rows`` should have, as they stand on the wire."""
    start, stop = packets.network[rows] + shift, packets.crc[rows] + shift
    if not len(rows):
        return np.empty((0, _FCS_OCTETS), np.uint8)
    scratch = buffer[int(start.min()) : int(stop.max())].copy()
    low = int(start.min())
    start, stop = start - low, stop - low
    is_ip4 = packets.is_ip4[rows]
    for place, bits in ((1, 0xFF), (8, 0xFF), (10, 0xFF), (11, 0xFF)):
        scratch[start[is_ip4] + place] |= bits
    for place, bits in ((0, 0x0F), (1, 0xFF), (2, 0xFF), (3, 0xFF), (7, 0xFF)):
        scratch[start[~is_ip4] + place] |= bits
    udp = rows[packets.is_udp[rows]]
    for place in (_UDP_SUM, _UDP_SUM + 1):
        scratch[packets.transport[udp] + shift - low + place] = 0xFF
    scratch[packets.bth[rows] + shift - low + 4] = 0xFF
    view = scratch.data
    crcs = [
        zlib.crc32(view[first:last], _LINK_HEADER_CRC)
        for first, last in zip(start.tolist(), stop.tolist(), strict=True)
    ]
    return np.array(crcs, "<u4").view(np.uint8).reshape(-1, _FCS_OCTETS)


def right_fcs(batch: Batch, fcs_octets: NDArray[np.integer], rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return those of the frames at ``rows`` that are whole and end in a right FCS of four octets."""
    whole = (fcs_octets[rows] == _FCS_OCTETS) & (batch.captured[rows] > _FCS_OCTETS)
    rows = rows[whole & (batch.original[rows] <= batch.captured[rows])]
    if not len(rows):
        return rows
    there = rows_at(batch.buffer, batch.offset[rows] + batch.captured[rows] - _FCS_OCTETS, _FCS_OCTETS)
    right: NDArray[np.intp] = rows[(there == _fcs(batch, rows)).all(axis=1)]
    return right


def put_fcs(batch: Batch, buffer: Octets, rows: NDArray[np.intp]) -> int:
    """Compute the FCS of frames anew; return how many were not right."""
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


# all of them


def put_lengths_right(found: LayersFound, buffer: Octets, reach: Int64) -> Counter[str]:
    """Set lengths that claim more than a frame has on the wire, or less than their header, to what it has.

    ``reach`` is where each frame ends on the wire, without its FCS.  Return of how many frames, by field.
    """
    told: Counter[str] = Counter()
    bound = reach.copy()
    for cls, at, behind in ((Ethernet, 12, 14), (VLAN, 2, 4), (STag, 2, 4), (ITag, 16, 18)):
        for entries in _there(found, cls):
            value = _number(buffer, entries.start + at)
            start = entries.start + behind
            room = reach[entries.row] - start
            is_length = (value <= MAX_LENGTH) & (room <= MAX_LENGTH)
            _set(told, f"{cls.prefix}.len", buffer, entries, at, room, is_length & (value > room))
            stop = start + np.minimum(value, room)
            bound[entries.row[is_length]] = np.minimum(bound[entries.row], stop)[is_length]
    for entries in _there(found, IPv4):
        header = 4 * (buffer[entries.start] & 15).astype(np.int64)
        value, room = _number(buffer, entries.start + _IPV4_LEN), bound[entries.row] - entries.start
        wrong = (value > room) | (value < header)
        _set(told, "ip.len", buffer, entries, _IPV4_LEN, room, wrong & (room >= header) & (room <= _ALL))
        value = _number(buffer, entries.start + _IPV4_LEN)
        bound[entries.row] = np.minimum(bound[entries.row], entries.start + value)
    for name, kind in (("ipv6.plen", IPv6), ("infiniband.grh.paylen", GRH)):
        for entries in _there(found, kind):
            value = _number(buffer, entries.start + _IPV6_LEN)
            room = bound[entries.row] - entries.start - _IPV6_OCTETS
            wrong = (value > room) & (room >= 0)
            _set(told, name, buffer, entries, _IPV6_LEN, room, wrong)
            value = _number(buffer, entries.start + _IPV6_LEN)
            stop = entries.start + _IPV6_OCTETS + np.where(value == 0, 1 << 40, value)
            bound[entries.row] = np.minimum(bound[entries.row], stop)
    for entries in _there(found, UDP):
        value, room = _number(buffer, entries.start + _UDP_LEN), bound[entries.row] - entries.start
        few = (value > 0) & (value < UDP.fixed_octets)
        wrong = ((value > room) | few) & (room >= UDP.fixed_octets) & (room <= _ALL)
        packets = packets_in(found, buffer)
        rows = np.arange(len(reach))
        wrong &= ~_is_fragment(packets, buffer, rows)[entries.row]
        _set(told, "udp.length", buffer, entries, _UDP_LEN, room, wrong)
    return +told


def _there(found: LayersFound, cls: type[Layer]) -> Iterator[Entries]:
    """Yield the layers of a format, those of a frame's first, then its second and so on."""
    entries = found.entries.get(cls)
    if entries is None:
        return
    heads = np.flatnonzero(np.diff(entries.row, prepend=-1))
    nth = np.arange(len(entries.row)) - np.repeat(heads, np.diff(heads, append=len(entries.row)))
    for number in range(int(nth.max()) + 1):
        yield entries.select(nth == number)


def _set(
    told: Counter[str], name: str, buffer: Octets, entries: Entries, at: int, values: Int64,
    wrong: NDArray[np.bool_],
) -> None:  # fmt: skip
    put_rows(buffer, entries.start[wrong] + at, _two(values[wrong]))
    told[name] += int(wrong.sum())


def put_checksums_right(found: LayersFound, buffer: Octets, end: Int64) -> tuple[Counter[str], Counter[str]]:
    """Compute the checksums of packets that are captured whole, up to ``end`` of each frame.

    Return how many frames had others, by field, and of how many they were left since octets are missing:
    cut off, in other fragments, or in a routing header.
    """
    told: Counter[str] = Counter()
    left: Counter[str] = Counter()
    packets = packets_in(found, buffer)
    every = np.arange(len(end))
    fragment = _is_fragment(packets, buffer, every)
    rows = np.flatnonzero((packets.bth >= 0) & (packets.crc >= 0) & ~fragment)
    if len(rows):
        new = invariant_crcs(packets, buffer, rows)
        told["infiniband.invariant.crc"] = _replace(buffer, packets.crc[rows], new)
    entries = found.entries.get(IPv4)
    if entries is not None:
        start = entries.start
        header = 4 * (buffer[start] & 15).astype(np.int64)
        whole = (header >= _IPV4_OCTETS) & (start + header <= end[entries.row])
        start, header = start[whole], header[whole]
        total = _sums(buffer, start, start + header) - _number(buffer, start + _IPV4_SUM)
        told["ip.checksum"] = _replace_checksum(buffer, start + _IPV4_SUM, total, zero_is_none=False)
    routed = np.zeros(len(end), np.bool_)
    if Routing in found.entries:
        routed[found.entries[Routing].row] = True
    for kind, name in ((UDP, "udp.checksum"), (TCP, "tcp.checksum")):
        if kind not in found.entries:
            continue
        is_kind = packets.is_udp if kind is UDP else ~packets.is_udp & (packets.transport >= 0)
        rows = np.flatnonzero(is_kind & (packets.network >= 0))
        if kind is UDP:
            rows = rows[_number(buffer, packets.sum_at[rows]) != 0]
        stop = _segment_end(packets, buffer, rows, kind)
        fixed_end = packets.transport[rows] + kind.fixed_octets
        known = (stop <= end[rows]) & (stop >= fixed_end) & ~fragment[rows] & ~routed[rows]
        left[name] = int((~known).sum())
        rows, stop = rows[known], stop[known]
        total = _pseudo(packets, buffer, rows, stop, _UDP if kind is UDP else _TCP)
        total += _sums(buffer, packets.transport[rows], stop) - _number(buffer, packets.sum_at[rows])
        told[name] = _replace_checksum(buffer, packets.sum_at[rows], total, zero_is_none=kind is UDP)
    return +told, +left


def _segment_end(packets: Packets, buffer: Octets, rows: NDArray[np.intp], kind: type[Layer]) -> Int64:
    """Return where the segments of the transport end, as their headers say."""
    network = packets.network[rows]
    is_ip4 = packets.is_ip4[rows]
    lengths = _number(buffer, network + np.where(is_ip4, _IPV4_LEN, _IPV6_LEN))
    of_ip = network + lengths + np.where(is_ip4, 0, _IPV6_OCTETS)
    of_ip = np.where(lengths == 0, 1 << 40, of_ip)
    if kind is not UDP:
        return of_ip
    length = _number(buffer, packets.transport[rows] + _UDP_LEN)
    return np.where(length == 0, of_ip, packets.transport[rows] + length)


def _pseudo(packets: Packets, buffer: Octets, rows: NDArray[np.intp], stop: Int64, protocol: int) -> Int64:
    """Return the sums of pseudo headers."""
    network, is_ip4 = packets.network[rows], packets.is_ip4[rows]
    first = network + np.where(is_ip4, 12, 8)
    return _sums(buffer, first, first + np.where(is_ip4, 8, 32)) + (stop - packets.transport[rows]) + protocol


def _replace_checksum(buffer: Octets, at: Int64, total: Int64, *, zero_is_none: bool) -> int:
    before = _number(buffer, at)
    # both zeros of ones' complement are right, of an IPv4 header too
    same = (total + before) % _ALL == 0
    _put_checksum(buffer, at[~same], total[~same], zero_is_none=zero_is_none)
    return int((~same).sum())


def _replace(buffer: Octets, at: Int64, rows: Octets) -> int:
    changed = (rows_at(buffer, at, rows.shape[1]) != rows).any(axis=1)
    put_rows(buffer, at[changed], rows[changed])
    return int(changed.sum())


_SUMMED_OCTETS = 4 << 20


def _sums(buffer: Octets, start: Int64, stop: Int64) -> Int64:
    """Return the sums of stretches as numbers of two octets, the last one filled up with 0."""
    if len(start) and (start[1:] < start[:-1]).any():
        order = np.argsort(start)
        shuffled = np.empty(len(start), np.int64)
        shuffled[order] = _sums(buffer, start[order], stop[order])
        return shuffled
    total = np.zeros(len(start), np.int64)
    done = 0
    while done < len(start):
        low = int(start[done])
        # stretches stand in order, so that some neighbours are near to one another
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
