"""What the kernel calls things: constants and structures of packet(7), socket(7) and recvmmsg(2).

Numbers are those of linux/if_packet.h, linux/if_ether.h and asm-generic/socket.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ETH_P_ALL = 3
ETHERNET_HEADER_OCTETS = 14
TAG_OCTETS = 4
C_TAG = 0x8100

SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_RX_RING = 5
PACKET_STATISTICS = 6
PACKET_AUXDATA = 8
PACKET_VERSION = 10
PACKET_RESERVE = 12
PACKET_TIMESTAMP = 17
PACKET_QDISC_BYPASS = 20
PACKET_IGNORE_OUTGOING = 23
PACKET_MR_PROMISC = 1
TPACKET_V3 = 2

SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
"""The option, and the type of the control message that carries the time (with the kernel's own long)."""
SOF_TIMESTAMPING_RAW_HARDWARE = 1 << 6

TP_STATUS_KERNEL = 0
TP_STATUS_USER = 1
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
TP_STATUS_TS_RAW_HARDWARE = 1 << 31

# What stands where in a ring's block and in the header of a frame in it, as indices of 32-bit words.
BLOCK_STATUS, BLOCK_FRAMES, BLOCK_FIRST, BLOCK_OCTETS = 2, 3, 4, 5
FRAME_NEXT, FRAME_SECONDS, FRAME_NS, FRAME_CAPTURED, FRAME_ORIGINAL, FRAME_STATUS, FRAME_PLACES = range(7)
FRAME_TCI, FRAME_TPID = 8, 9

AUXDATA_STATUS, AUXDATA_ORIGINAL, AUXDATA_TAG = 0, 1, 4
"""Words of struct tpacket_auxdata; the last holds tp_vlan_tci and tp_vlan_tpid."""

_POINTER = np.dtype(np.uintp)

IOVEC = np.dtype([("base", _POINTER), ("octets", _POINTER)], align=True)
"""struct iovec."""

_MESSAGE = np.dtype(
    [
        ("name", _POINTER),
        ("name_octets", np.uint32),
        ("parts", _POINTER),
        ("part_count", _POINTER),
        ("control", _POINTER),
        ("control_octets", _POINTER),
        ("flags", np.int32),
    ],
    align=True,
)
MESSAGE = np.dtype([("header", _MESSAGE), ("octets", np.uint32)], align=True)
"""struct mmsghdr: a struct msghdr, and how many octets were sent or received."""


def message_array(count: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return ``count`` messages of one part each, and their parts (struct iovec), which they point at."""
    messages, parts = np.zeros(count, dtype=MESSAGE), np.zeros(count, dtype=IOVEC)
    steps = np.arange(count, dtype=np.uintp) * IOVEC.itemsize
    messages["header"]["parts"] = parts.ctypes.data + steps
    messages["header"]["part_count"] = 1
    return messages, parts
