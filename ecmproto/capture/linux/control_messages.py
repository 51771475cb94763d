"""What the kernel says beside frames that were received by recvmmsg: times, lengths and VLAN tags."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Int64, Octets
from ecmproto.capture.linux import abi
from ecmproto.kernel import compiled, inlined
from ecmproto.units import NS_PER_S

CONTROL_OCTETS = 128
"""Room for the control messages of a frame: a time (32 octets) and struct tpacket_auxdata (40)."""

# struct cmsghdr: a length as wide as a pointer, and two words.
_LONG_WORDS = np.dtype(np.uintp).itemsize // 4
_LITTLE = sys.byteorder == "little"
_LOW = 0 if _LITTLE else _LONG_WORDS - 1
_STEP = 4 * _LONG_WORDS
_HEAD = _LONG_WORDS + 2
_LEVEL, _TYPE = _LONG_WORDS, _LONG_WORDS + 1
_SOL_SOCKET = 1
_SOL_PACKET, _AUXDATA, _TIME = abi.SOL_PACKET, abi.PACKET_AUXDATA, abi.SO_TIMESTAMPNS
_STATUS, _ORIGINAL, _TAG = abi.AUXDATA_STATUS, abi.AUXDATA_ORIGINAL, abi.AUXDATA_TAG
_VALID, _TPID_VALID = abi.TP_STATUS_VLAN_VALID, abi.TP_STATUS_VLAN_TPID_VALID
_TAG_OCTETS, _C_TAG, _NS_PER_S = abi.TAG_OCTETS, abi.C_TAG, NS_PER_S
_ADDRESS_OCTETS = 12


@inlined
def _insert(slots: Octets, start: int, tpid: np.int64, tci: np.int64) -> None:
    """Put a tag into the frame at ``start``, whose addresses move to the front."""
    at = start - _TAG_OCTETS
    for k in range(at, at + _ADDRESS_OCTETS):
        slots[k] = slots[k + _TAG_OCTETS]
    at += _ADDRESS_OCTETS
    slots[at], slots[at + 1] = tpid >> 8, tpid & 0xFF
    slots[at + 2], slots[at + 3] = tci >> 8, tci & 0xFF


@compiled
def unpack(
    slots: Octets,
    starts: Int64,
    controls: NDArray[np.uint32],
    control_octets: NDArray[np.uintp],
    octets: NDArray[np.uint32],
    count: int,
    offset: Int64,
    captured: Int64,
    original: Int64,
    time_ns: Int64,
) -> None:
    """Fill the arrays for ``count`` received frames from their control messages, and put their tags back.

    ``starts`` is where each frame was put in ``slots``, behind four free octets; ``control_octets`` and
    ``octets`` are the messages' fields, the former prepared for the next call.
    """
    stride = CONTROL_OCTETS // 4
    for i in range(count):
        offset[i] = starts[i]
        captured[i] = octets[i]
        original[i] = captured[i]
        time_ns[i] = 0
        at = i * stride
        end = at + np.int64(control_octets[i]) // 4
        control_octets[i] = CONTROL_OCTETS
        while at + _HEAD <= end:
            length = np.int64(controls[at + _LOW])
            body = at + _HEAD
            level, kind = controls[at + _LEVEL], controls[at + _TYPE]
            if level == _SOL_SOCKET and kind == _TIME:
                seconds = np.int64(controls[body + _LOW])
                time_ns[i] = seconds * _NS_PER_S + controls[body + _LONG_WORDS + _LOW]
            elif level == _SOL_PACKET and kind == _AUXDATA:
                original[i] = controls[body + _ORIGINAL]
                status = controls[body + _STATUS]
                original[i] += _TAG_OCTETS if status & _VALID else 0
                if status & _VALID and captured[i] >= _ADDRESS_OCTETS:
                    word = np.int64(controls[body + _TAG])
                    tci = word & 0xFFFF if _LITTLE else word >> 16
                    tpid = word >> 16 if _LITTLE else word & 0xFFFF
                    if not status & _TPID_VALID:
                        tpid = np.int64(_C_TAG)
                    _insert(slots, starts[i], tpid, tci)
                    offset[i] -= _TAG_OCTETS
                    captured[i] += _TAG_OCTETS
            if length < 4 * _HEAD:
                break
            at += int(length + _STEP - 1) // _STEP * _LONG_WORDS
