"""Offloads turned off, which on veth would leave checksums and segments for nobody to complete.

The kernel hands frames over between namespaces without checksums, and segments of up to 64 KiB; what goes
through a packet socket has to be as on a wire.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
from contextlib import suppress

_SIOCETHTOOL = 0x8946
# linux/ethtool.h
_RX_CHECKSUM, _TX_CHECKSUM, _SCATTER, _TSO, _GSO, _GRO = 0x15, 0x17, 0x19, 0x1F, 0x24, 0x2C
_ALL = (_TSO, _GSO, _GRO, _TX_CHECKSUM, _RX_CHECKSUM, _SCATTER)


def turn_off(interface: str) -> None:
    """Turn off what there is of them at an interface of this thread's namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for command in _ALL:
            value = array.array("B", struct.pack("=II", command, 0))
            request = struct.pack("16sP16x", os.fsencode(interface), value.buffer_info()[0])
            # An interface that does not have it says so.
            with suppress(OSError):
                fcntl.ioctl(asked.fileno(), _SIOCETHTOOL, request)
