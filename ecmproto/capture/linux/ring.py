"""TPACKET_V3: the ring of blocks that the kernel fills with frames and user space empties.

A block is copied out at once and given back, so the kernel never waits for whoever looks at the frames;
the copy is the buffer of the batch, and VLAN tags are put back within it.  The kernel leaves room in front
of each frame for that (PACKET_RESERVE).
"""

from __future__ import annotations

import mmap
import struct
from array import array

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch, Int64, Octets
from ecmproto.capture.linux import abi
from ecmproto.capture.linux.packet_socket import PacketSocket
from ecmproto.capture.linux.tags import restore_tags
from ecmproto.units import NS_PER_S

BLOCK_OCTETS = 1 << 20
RING_OCTETS = 64 << 20
RETIRE_MS = 50
"""After so long a block that is not full is handed over."""

_FRAME_OCTETS = 2048
"""What the kernel checks the ring's shape by; frames of any length follow one another in a block."""


class Ring:
    """The ring of a packet socket, of ``octets`` in all; `take` returns the next block's frames.

    Raises OSError when the kernel has no memory for it.
    """

    def __init__(self, packet_socket: PacketSocket, *, octets: int = RING_OCTETS) -> None:
        blocks = max(2, octets // BLOCK_OCTETS)
        opened = packet_socket.socket
        opened.setsockopt(abi.SOL_PACKET, abi.PACKET_VERSION, abi.TPACKET_V3)
        opened.setsockopt(abi.SOL_PACKET, abi.PACKET_RESERVE, abi.TAG_OCTETS)
        frames = blocks * (BLOCK_OCTETS // _FRAME_OCTETS)
        shape = struct.pack("=7I", BLOCK_OCTETS, blocks, _FRAME_OCTETS, frames, RETIRE_MS, 0, 0)
        opened.setsockopt(abi.SOL_PACKET, abi.PACKET_RX_RING, shape)
        self._map = mmap.mmap(opened.fileno(), blocks * BLOCK_OCTETS, mmap.MAP_SHARED)
        self._octets: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._words = memoryview(self._map).cast("I")
        self._blocks = blocks
        self._next = 0

    def take(self, *, first: int, snap_octets: int) -> Batch | None:
        """Return the frames of the next block, None when the kernel still has it.

        ``first`` is the number of the first frame, ``snap_octets`` the most octets of a frame that are kept.
        """
        start = self._next * BLOCK_OCTETS
        head = start // 4
        if not self._words[head + abi.BLOCK_STATUS] & abi.TP_STATUS_USER:
            return None
        count = self._words[head + abi.BLOCK_FRAMES]
        used = self._words[head + abi.BLOCK_OCTETS]
        begin = self._words[head + abi.BLOCK_FIRST]
        block = self._octets[start : start + used].copy()
        self._words[head + abi.BLOCK_STATUS] = abi.TP_STATUS_KERNEL
        self._next = (self._next + 1) % self._blocks
        return batch_of(block, begin, count, first=first, snap_octets=snap_octets)

    def close(self) -> None:
        """Give the ring's memory back; batches stay valid."""
        self._words.release()
        del self._octets
        self._map.close()


def batch_of(block: Octets, begin: int, count: int, *, first: int, snap_octets: int) -> Batch:
    """Return the ``count`` frames of a copied block, the first header at octet ``begin``, tags put back."""
    padded = block[: len(block) & ~3]
    words = padded.view(np.uint32)
    places = _chain(words, begin // 4, count)
    captured = words[places + abi.FRAME_CAPTURED].astype(np.int64)
    original = words[places + abi.FRAME_ORIGINAL].astype(np.int64)
    halves = padded.view(np.uint16)
    offset = places * 4 + halves[places * 2 + 2 * abi.FRAME_PLACES]
    restore_tags(
        block, offset, captured, original,
        status=words[places + abi.FRAME_STATUS],
        tci=words[places + abi.FRAME_TCI],
        tpid=halves[places * 2 + 2 * abi.FRAME_TPID],
    )  # fmt: skip
    np.minimum(captured, snap_octets, out=captured)
    block.flags.writeable = False
    return Batch(
        buffer=block, offset=offset, captured=captured, original=original,
        time_ns=words[places + abi.FRAME_SECONDS] * np.int64(NS_PER_S) + words[places + abi.FRAME_NS],
        interface=np.zeros(len(places), dtype=np.int64),
        record_offset=offset, record_length=captured, first=first,
    )  # fmt: skip


def _chain(words: NDArray[np.uint32], start: int, count: int) -> Int64:
    """Return the word at which each of ``count`` headers starts; each says how far the next one is."""
    places = array("q", bytes(8 * count))
    view = words.data
    for i in range(count):
        places[i] = start
        start += view[start] >> 2
    return np.frombuffer(places, dtype=np.int64)
