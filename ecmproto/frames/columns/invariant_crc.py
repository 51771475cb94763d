"""Computation and verification of the invariant CRCs of RoCE packets in many frames.

`ecmproto.wire.formats.infiniband.crc_status` does the same for one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.batch.headers import fixed, signed
from ecmproto.frames.batch.parse_tables import NUMBER_OF
from ecmproto.frames.columns.gathering import Collected, Want
from ecmproto.frames.columns.walk import Frames
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.infiniband import (
    BTH,
    CHANGING,
    ICRC,
    LRH,
    NETWORKS,
)
from ecmproto.wire.formats.ip import UDP, IPv4, IPv6
from ecmproto.wire.formats.registry import FORMATS

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]

_NOWHERE = -1
_POLYNOMIAL = 0xEDB88320
_ONES = 0xFFFFFFFF
_LINK_HEADER_OCTETS = 8
_AT_ONCE = 8
_FLAGS_AT, _MORE_FRAGMENTS = 6, 0x20


class WalkedLayers(Protocol):
    """Layers found by the walk; see `ecmproto.frames.columns.layers.BatchLayers`."""

    frames: Frames

    def count(self, kind: int) -> int:
        """Return the number of layers of a type."""

    def collect(self, wants: Mapping[int, Want]) -> dict[int, Collected]:
        """Return the requested values of some layer types."""


def crc_states(source: WalkedLayers) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the indices of the frames with a base transport header, and the state of each CRC.

    A state is an index into ``CRC_STATES``.
    """
    ip4s, bths, udps = _formats_of(IPv4), _formats_of(BTH), _formats_of(UDP)
    every = dict.fromkeys([*ip4s, *bths, ICRC, LRH, *NETWORKS, *udps])
    wants = {NUMBER_OF[cls]: Want(positions=True) for cls in every if source.count(NUMBER_OF[cls])}
    collected = source.collect(wants)
    frames = len(source.frames.offset)
    has_bth = np.zeros(frames, np.bool_)
    for cls in bths:
        if NUMBER_OF[cls] in collected:
            has_bth[collected[NUMBER_OF[cls]].row] = True
    rows = np.flatnonzero(has_bth)
    whole = collected.pop(NUMBER_OF[ICRC], None)
    if whole is None:
        return rows.astype(np.int32), np.zeros(len(rows), np.int8)
    # Most frames of a capture may be truncated: only those with a CRC are processed further.
    row, first = np.unique(whole.row, return_index=True)
    icrc = whole.start[first]
    layers = _layers_before(collected, row, icrc, frames)
    bth, network, udp, ip4 = (_last(layers, types, len(row)) for types in (bths, NETWORKS, udps, [IPv4]))
    is_ip4 = (network != _NOWHERE) & (ip4 == network)
    checked = (network != _NOWHERE) & (bth != _NOWHERE)
    checked[layers.get(NUMBER_OF[LRH], _NO_LAYERS)[0]] = False  # the CRC also covers the LRH
    for cls in ip4s:
        at, start, _ = layers.get(NUMBER_OF[cls], _NO_LAYERS)
        checked[at[source.frames.buffer[start + _FLAGS_AT] & _MORE_FRAGMENTS != 0]] = False
    chosen = np.flatnonzero(checked)
    buffer = source.frames.buffer
    crcs = invariant_crcs(buffer, network[chosen], is_ip4[chosen], udp[chosen], bth[chosen], icrc[chosen])
    received = buffer[icrc[chosen, None] + np.arange(ICRC.fixed_octets)].view("<u4").reshape(-1)
    states = np.zeros(frames, np.int8)
    states[row[chosen]] = 1 + (received == crcs)
    return rows.astype(np.int32), states[rows]


def invariant_crcs(
    buffer: Octets, network: Int64, is_ip4: NDArray[np.bool_], udp: Int64, bth: Int64, icrc: Int64
) -> NDArray[np.uint32]:
    """Return the correct CRCs of packets up to ``icrc``, least significant octet first.

    The other arguments are the starts of headers in ``buffer``. ``udp`` is negative for a packet without UDP.
    """
    crcs = np.empty(len(network), "<u4")
    _compute(
        fixed(buffer), fixed(network), fixed(is_ip4), fixed(udp), fixed(bth), fixed(icrc),
        _TABLES, _MASKS, crcs,
    )  # fmt: skip
    return crcs


_Layers = tuple[Int64, Int64, NDArray[np.bool_]]
_NO_LAYERS: _Layers = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_))


def _layers_before(
    collected: Mapping[int, Collected], row: NDArray[np.int32], stop: Int64, frames: int
) -> dict[int, _Layers]:
    """Return the layers of the frames in ``row``, by layer type.

    Each entry has the index of the frame, the start of the layer, and whether the layer precedes ``stop``.
    """
    index_of = np.full(frames, _NOWHERE, np.int64)
    index_of[row] = np.arange(len(row))
    layers = {}
    for number, each in collected.items():
        index = index_of[each.row]
        mine = np.flatnonzero(index != _NOWHERE)
        index, start = index[mine], each.start[mine]
        layers[number] = index, start, start < stop[index]
    return layers


def _last(layers: Mapping[int, _Layers], formats: Iterable[type[Layer]], frames: int) -> Int64:
    """Return, for each frame, the start of the last layer before its stop that has one of ``formats``."""
    last = np.full(frames, _NOWHERE, np.int64)
    for cls in formats:
        index, start, in_front = layers.get(NUMBER_OF[cls], _NO_LAYERS)
        np.maximum.at(last, index[in_front], start[in_front])
    return last


def _formats_of(base: type[Layer]) -> list[type[Layer]]:
    return [cls for cls in FORMATS if issubclass(cls, base)]


def _tables() -> Int64:
    """Return the contribution of eight octets to a CRC-32, by position and value of the octet."""
    crc = np.arange(256, dtype=np.int64)
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ _POLYNOMIAL, crc >> 1)
    tables = [crc]
    for _ in range(_AT_ONCE - 1):
        tables.append(tables[-1] >> 8 ^ crc[tables[-1] & 0xFF])
    return fixed(np.stack(tables))


_TABLES = _tables()
_MASKED_OCTETS = 12
"""Number of octets at the start of a header that may contain variant fields."""


def _masks() -> Octets:
    """Return the bits that are set to one in the first octets of IPv4, IPv6, GRH, UDP and BTH headers."""
    masks = np.zeros((4, _MASKED_OCTETS), np.uint8)
    for row, cls in enumerate((IPv4, IPv6, UDP, BTH)):
        for octet, bits in CHANGING[cls]:
            masks[row, octet] = bits
    return fixed(masks)


_MASKS = _masks()


@inlined
def _octet(crc: int, octet: int, tables: Int64) -> int:
    return int(crc >> 8 ^ tables[0, (crc ^ octet) & 0xFF])


@over_batches
def _compute(
    buffer: Octets,
    network: Int64,
    is_ip4: NDArray[np.bool_],
    udp: Int64,
    bth: Int64,
    icrc: Int64,
    tables: Int64,
    masks: Octets,
    crcs: NDArray[np.uint32],
) -> None:
    """Compute the invariant CRCs from ``network`` to ``icrc``, with ones for variant fields (`coverage`)."""
    for row in range(len(network)):
        first, stop, transport, datagram = network[row], icrc[row], bth[row], udp[row]
        crc = _ONES
        for _ in range(_LINK_HEADER_OCTETS):
            crc = _octet(crc, 0xFF, tables)
        plain = min(stop, max(first, transport, datagram) + _MASKED_OCTETS)
        for at in range(first, plain):
            octet = signed(buffer[at])
            for header, start in ((0 if is_ip4[row] else 1, first), (2, datagram), (3, transport)):
                if start >= 0 and start <= at < start + _MASKED_OCTETS:
                    octet |= signed(masks[header, at - start])
            crc = _octet(crc, octet, tables)
        at = plain
        while at + 8 <= stop:
            crc = int(
                tables[7, (crc ^ signed(buffer[at])) & 0xFF]
                ^ tables[6, (crc >> 8 ^ signed(buffer[at + 1])) & 0xFF]
                ^ tables[5, (crc >> 16 ^ signed(buffer[at + 2])) & 0xFF]
                ^ tables[4, (crc >> 24 ^ signed(buffer[at + 3])) & 0xFF]
                ^ tables[3, signed(buffer[at + 4])]
                ^ tables[2, signed(buffer[at + 5])]
                ^ tables[1, signed(buffer[at + 6])]
                ^ tables[0, signed(buffer[at + 7])]
            )
            at += 8
        while at < stop:
            crc = _octet(crc, signed(buffer[at]), tables)
            at += 1
        crcs[row] = crc ^ _ONES
