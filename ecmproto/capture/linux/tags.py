"""VLAN tags put back where the kernel took them out.

On the way in the kernel moves a frame's outermost VLAN tag into the packet's description, whether the
network card did so or not.  What a socket delivers is a frame without it and, beside it, the tag's control
information and EtherType.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Int64, Octets
from ecmproto.capture.linux import abi

ADDRESS_OCTETS = 12


def restore_tags(
    buffer: Octets,
    offset: Int64,
    captured: Int64,
    original: Int64,
    *,
    status: NDArray[np.uint32],
    tci: NDArray[np.uint32],
    tpid: NDArray[np.uint16],
) -> None:
    """Put tags back into the frames of ``buffer`` and adapt their places and lengths, all in place.

    The four octets in front of each frame must be free: the addresses move there.  ``status`` is
    tp_status, ``tci`` and ``tpid`` the tag in this machine's byte order; a kernel that gives no EtherType
    means a C-TAG.  Frames cut within their addresses have no place for it.
    """
    taken_out = status & abi.TP_STATUS_VLAN_VALID != 0
    original[taken_out] += abi.TAG_OCTETS
    tagged = np.flatnonzero(taken_out & (captured >= ADDRESS_OCTETS))
    if not len(tagged):
        return
    known = status[tagged] & abi.TP_STATUS_VLAN_TPID_VALID != 0
    tag = np.empty((len(tagged), 2), dtype=">u2")
    tag[:, 0] = np.where(known, tpid[tagged], abi.C_TAG)
    tag[:, 1] = tci[tagged]
    starts = offset[tagged]
    moved = np.empty((len(tagged), ADDRESS_OCTETS + abi.TAG_OCTETS), dtype=np.uint8)
    moved[:, :ADDRESS_OCTETS] = rows(buffer, starts, ADDRESS_OCTETS)
    moved[:, ADDRESS_OCTETS:] = tag.view(np.uint8)
    width = moved.shape[1]
    target = np.ndarray((len(buffer) - width + 1,), dtype=f"V{width}", buffer=buffer, strides=(1,))
    target[starts - abi.TAG_OCTETS] = moved.view(f"V{width}")[:, 0]
    offset[tagged] -= abi.TAG_OCTETS
    captured[tagged] += abi.TAG_OCTETS


def rows(buffer: Octets, starts: Int64, width: int) -> Octets:
    """Return ``width`` octets from each of ``starts`` on, a row each."""
    items = np.ndarray((len(buffer) - width + 1,), dtype=f"V{width}", buffer=buffer, strides=(1,))
    return items[starts].view(np.uint8).reshape(len(starts), width)
