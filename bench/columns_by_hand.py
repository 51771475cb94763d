"""Hand-written loops for the frames of `bench.columns`, which serve as the comparison.

The loops read Ethernet, one VLAN tag, CN-TAG, CNM, MAC Control, IPv4 without options, TCP and UDP at the
fixed offsets of these frames. They return the result of `columns.extract`: the values and the frames of each
column. `check` compares the results of the loops with the results of ecmproto.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import signed
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import Columns
from ecmproto.frames.columns.column import Stretches
from ecmproto.kernels.kernel import compiled, inlined

Octets = NDArray[np.uint8]
Found: TypeAlias = "dict[str, tuple[NDArray[np.int32], Any]]"
"""The row numbers and the values of each column, by column name."""

CN_FIELDS = ("cntag.flow_id", "cnm.qntz_fb", "cnm.cpid", "cnm.q_offset", "cnm.q_delta")

_ETH = {"dst": "6u1", "src": "6u1", "type": "u2"}
_VLAN = {"priority": "u1", "dei": "u1", "id": "u2", "etype": "u2"}
_TAG = {"flow_id": "u2", "etype": "u2"}
_CNM = {
    "version": "u1", "reserved": "u1", "qntz_fb": "u1", "cpid": "u8", "q_offset": "i2", "q_delta": "i2",
    "encap_prio": "u1", "encap_reserved": "u2", "encap_dst": "6u1", "msdu_length": "u2",
}  # fmt: skip
_PAUSE = {"opcode": "u2", "pause_time": "u2"}
_IP = {
    "version": "u1", "ihl": "u1", "dsfield": "u1", "dsfield.dscp": "u1", "dsfield.ecn": "u1", "len": "u2",
    "id": "u2", "flags": "u1", "frag_offset": "u2", "ttl": "u1", "proto": "u1", "checksum": "u2",
    "src": "4u1", "dst": "4u1",
}  # fmt: skip
_TCP = {
    "srcport": "u2", "dstport": "u2", "seq_raw": "u4", "ack_raw": "u4", "data_offset": "u1", "flags": "u2",
    "window_size_value": "u2", "checksum": "u2", "urgent_pointer": "u2",
}  # fmt: skip
_UDP = {"srcport": "u2", "dstport": "u2", "length": "u2", "checksum": "u2"}
_LAYERS = {
    "eth": _ETH, "vlan": _VLAN, "cntag": _TAG, "cnm": _CNM, "macc": _PAUSE, "ip": _IP, "tcp": _TCP,
    "udp": _UDP,
}  # fmt: skip
_BEHIND = ("cnm.msdu", "eth.padding", "eth.trailer")
FIELDS = (*(f"{layer}.{key}" for layer, keys in _LAYERS.items() for key in keys), *_BEHIND)


def cn_fields(batch: Batch) -> Found:
    """Return the columns `CN_FIELDS`."""
    count = len(batch)
    tag_row, row = np.empty(count, np.int32), np.empty(count, np.int32)
    arrays: list[NDArray[Any]] = [np.empty(count, kind) for kind in ("u2", "u1", "u8", "i2", "i2")]
    tags, messages = _cn_fields(batch.buffer, batch.offset, batch.captured, tag_row, row, *arrays)
    counts = (tags, *[messages] * 4)
    rows = (tag_row, *[row] * 4)
    return {
        name: (rows_of[:count], array[:count])
        for name, rows_of, array, count in zip(CN_FIELDS, rows, arrays, counts, strict=True)
    }


def all_fields(batch: Batch) -> Found:
    """Return the columns `FIELDS`."""
    count = len(batch)
    rows = [np.empty(count, np.int32) for _ in (*_LAYERS, *_BEHIND)]
    layers = [tuple(np.empty(count, kind) for kind in keys.values()) for keys in _LAYERS.values()]
    behind = [(np.empty(count, np.int64), np.empty(count, np.int64)) for _ in _BEHIND]
    used = np.zeros(len(rows), np.int64)
    _all_fields(
        batch.buffer, batch.offset, batch.captured, tuple(rows), used, tuple(layers), tuple(behind)
    )  # fmt: skip
    rows = [row[:there] for row, there in zip(rows, used, strict=True)]
    found: Found = {}
    for (layer, keys), row, values in zip(_LAYERS.items(), rows, layers, strict=False):
        found |= {f"{layer}.{key}": (row, each[: len(row)]) for key, each in zip(keys, values, strict=True)}
    for name, row, (start, octets) in zip(_BEHIND, rows[len(_LAYERS) :], behind, strict=True):
        there = len(row)
        found[name] = row, Stretches(buffer=batch.buffer, start=start[:there], octets=octets[:there])
    return found


def check(theirs: Found, ours: Columns) -> None:
    """Raise AssertionError unless both results contain the same values for the same frames."""
    assert set(theirs) == set(ours)
    for name, (rows, values) in theirs.items():
        column = ours[name]
        assert np.array_equal(column.rows, rows), name
        for mine, hand in _arrays(column.values, values):
            assert mine.dtype == hand.dtype, name
            assert np.array_equal(mine, hand), name


def _arrays(ours: Any, theirs: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    if isinstance(theirs, Stretches):
        return [(ours.start, theirs.start), (ours.octets, theirs.octets)]
    return [(ours, theirs)]


@inlined
def _two(buffer: Octets, at: int) -> int:
    return (signed(buffer[at]) << 8) | signed(buffer[at + 1])


@inlined
def _four(buffer: Octets, at: int) -> int:
    return (_two(buffer, at) << 16) | _two(buffer, at + 2)


@inlined
def _copied(out: NDArray[np.uint8], index: int, buffer: Octets, at: int, octets: int) -> None:
    for octet in range(octets):
        out[index, octet] = buffer[at + octet]


@compiled
def _cn_fields(
    buffer: Octets,
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    tag_row: NDArray[np.int32],
    row: NDArray[np.int32],
    flow_id: NDArray[np.uint16],
    feedback: NDArray[np.uint8],
    cpid: NDArray[np.uint64],
    q_offset: NDArray[np.int16],
    q_delta: NDArray[np.int16],
) -> tuple[int, int]:
    tags = messages = 0
    for i in range(len(offset)):
        at, end = offset[i] + 12, offset[i] + captured[i]
        while at + 4 <= end and buffer[at] == 0x81 and buffer[at + 1] == 0:
            at += 4
        if at + 4 <= end and buffer[at] == 0x22 and buffer[at + 1] == 0xE9:
            tag_row[tags] = i
            flow_id[tags] = _two(buffer, at + 2)
            tags += 1
            at += 4
        if at + 26 <= end and buffer[at] == 0x22 and buffer[at + 1] == 0xE7:
            row[messages] = i
            feedback[messages] = buffer[at + 3] & 63
            number = np.uint64(0)
            for octet in range(at + 4, at + 12):
                number = (number << np.uint64(8)) | np.uint64(buffer[octet])
            cpid[messages] = number
            q_offset[messages] = _two(buffer, at + 12)
            q_delta[messages] = _two(buffer, at + 14)
            messages += 1
    return tags, messages


@compiled
def _all_fields(
    buffer: Octets,
    offset: NDArray[np.int64],
    captured: NDArray[np.int64],
    rows: Any,
    used: NDArray[np.int64],
    layers: Any,
    behind: Any,
) -> None:
    (
        eth_row, vlan_row, tag_row, cnm_row, pause_row, ip_row, tcp_row, udp_row, msdu_row, pad_row,
        trailer_row,
    ) = rows  # fmt: skip
    eth, vlan, tag, cnm, pause, ip, tcp, udp = layers
    dst, src, ethertype = eth
    vlan_priority, vlan_dei, vlan_id, vlan_type = vlan
    flow_id, tag_type = tag
    (
        cnm_version, cnm_reserved, feedback, cpid, q_offset, q_delta, encap_prio, encap_reserved, encap_dst,
        msdu_length,
    ) = cnm  # fmt: skip
    opcode, pause_time = pause
    (
        version, ihl, dsfield, dscp, ecn, ip_length, ip_id, ip_flags, fragment, ttl, protocol, ip_checksum,
        ip_src, ip_dst,
    ) = ip  # fmt: skip
    tcp_src, tcp_dst, seq, ack, data_offset, tcp_flags, window, tcp_checksum, urgent = tcp
    udp_src, udp_dst, udp_length, udp_checksum = udp
    (msdu_start, msdu_octets), (pad_start, pad_octets), (trailer_start, trailer_octets) = behind
    vlans = tags = messages = pauses = packets = tcps = udps = msdus = pads = trailers = 0
    for i in range(len(offset)):
        begin = offset[i]
        end = begin + captured[i]
        if end - begin < 14:
            continue
        eth_row[i] = i
        _copied(dst, i, buffer, begin, 6)
        _copied(src, i, buffer, begin + 6, 6)
        announced = _two(buffer, begin + 12)
        ethertype[i] = announced
        at = begin + 14
        if announced == 0x8100 and at + 4 <= end:
            word = _two(buffer, at)
            vlan_row[vlans] = i
            vlan_priority[vlans] = word >> 13
            vlan_dei[vlans] = word >> 12 & 1
            vlan_id[vlans] = word & 0xFFF
            announced = _two(buffer, at + 2)
            vlan_type[vlans] = announced
            vlans += 1
            at += 4
        if announced == 0x22E9 and at + 4 <= end:
            tag_row[tags] = i
            flow_id[tags] = _two(buffer, at)
            announced = _two(buffer, at + 2)
            tag_type[tags] = announced
            tags += 1
            at += 4
        tail = end
        if announced == 0x22E7 and at + 24 <= end:
            word = _two(buffer, at)
            cnm_row[messages] = i
            cnm_version[messages] = word >> 12
            cnm_reserved[messages] = word >> 6 & 63
            feedback[messages] = word & 63
            cpid[messages] = (np.uint64(_four(buffer, at + 2)) << np.uint64(32)) | np.uint64(
                _four(buffer, at + 6)
            )
            q_offset[messages] = _two(buffer, at + 10)
            q_delta[messages] = _two(buffer, at + 12)
            word = _two(buffer, at + 14)
            encap_prio[messages] = word >> 13
            encap_reserved[messages] = word & 0x1FFF
            _copied(encap_dst, messages, buffer, at + 16, 6)
            length = _two(buffer, at + 22)
            msdu_length[messages] = length
            messages += 1
            at += 24
            length = min(length, end - at)
            if length > 0:
                msdu_row[msdus] = i
                msdu_start[msdus] = at
                msdu_octets[msdus] = length
                msdus += 1
            tail = at + length
        elif announced == 0x8808 and at + 4 <= end:
            pause_row[pauses] = i
            opcode[pauses] = _two(buffer, at)
            pause_time[pauses] = _two(buffer, at + 2)
            pauses += 1
            tail = at + 4
        elif announced == 0x0800 and at + 20 <= end:
            ip_row[packets] = i
            octet = signed(buffer[at])
            version[packets] = octet >> 4
            ihl[packets] = octet & 15
            octet = signed(buffer[at + 1])
            dsfield[packets] = octet
            dscp[packets] = octet >> 2
            ecn[packets] = octet & 3
            length = _two(buffer, at + 2)
            ip_length[packets] = length
            ip_id[packets] = _two(buffer, at + 4)
            word = _two(buffer, at + 6)
            ip_flags[packets] = word >> 13
            fragment[packets] = word & 0x1FFF
            ttl[packets] = buffer[at + 8]
            protocol[packets] = buffer[at + 9]
            ip_checksum[packets] = _two(buffer, at + 10)
            _copied(ip_src, packets, buffer, at + 12, 4)
            _copied(ip_dst, packets, buffer, at + 16, 4)
            packets += 1
            carried = buffer[at + 9]
            tail = min(end, at + length)
            at += 20
            if carried == 6 and at + 20 <= tail:
                tcp_row[tcps] = i
                tcp_src[tcps] = _two(buffer, at)
                tcp_dst[tcps] = _two(buffer, at + 2)
                seq[tcps] = _four(buffer, at + 4)
                ack[tcps] = _four(buffer, at + 8)
                word = _two(buffer, at + 12)
                data_offset[tcps] = word >> 12
                tcp_flags[tcps] = word & 0xFFF
                window[tcps] = _two(buffer, at + 14)
                tcp_checksum[tcps] = _two(buffer, at + 16)
                urgent[tcps] = _two(buffer, at + 18)
                tcps += 1
            elif carried == 17 and at + 8 <= tail:
                udp_row[udps] = i
                udp_src[udps] = _two(buffer, at)
                udp_dst[udps] = _two(buffer, at + 2)
                udp_length[udps] = _two(buffer, at + 4)
                udp_checksum[udps] = _two(buffer, at + 6)
                udps += 1
        if tail < end:
            least = min(end, begin + 60)
            stop = tail
            while stop < least and buffer[stop] == 0:
                stop += 1
            if stop < least:
                stop = tail
            if stop > tail:
                pad_row[pads] = i
                pad_start[pads] = tail
                pad_octets[pads] = stop - tail
                pads += 1
            if stop < end:
                trailer_row[trailers] = i
                trailer_start[trailers] = stop
                trailer_octets[trailers] = end - stop
                trailers += 1
    used[:] = (len(offset), vlans, tags, messages, pauses, packets, tcps, udps, msdus, pads, trailers)
