"""Times of received frames by the network card's own clock, where it is switched on (linux/net_tstamp.h)."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from contextlib import suppress

from ecmproto.capture.linux.abi import PACKET_TIMESTAMP, SOF_TIMESTAMPING_RAW_HARDWARE, SOL_PACKET
from ecmproto.capture.linux.packet_socket import PacketSocket

_SIOCGHWTSTAMP = 0x89B1
_FILTER_NONE, _FILTER_ALL = 0, 1
_CONFIG_OCTETS = 12


def use_hardware_clock(opened: PacketSocket) -> bool:
    """Take the times of a ring from the card's clock if it stamps every frame; return whether it does.

    Cards are told to by ``hwstamp_ctl -i IF -r 1``, which changes them for everyone, so it is not done here.
    """
    if _receive_filter(opened) != _FILTER_ALL:
        return False
    with suppress(OSError):
        opened.socket.setsockopt(SOL_PACKET, PACKET_TIMESTAMP, SOF_TIMESTAMPING_RAW_HARDWARE)
        return True
    return False


def _receive_filter(opened: PacketSocket) -> int:
    """Return which frames the card stamps (struct hwtstamp_config); none where it cannot say."""
    config = ctypes.create_string_buffer(_CONFIG_OCTETS)
    request = struct.pack("16sP16x", os.fsencode(opened.facts.name), ctypes.addressof(config))
    with suppress(OSError):
        fcntl.ioctl(opened.socket.fileno(), _SIOCGHWTSTAMP, request)
        receive: int = struct.unpack_from("=iii", config)[2]
        return receive
    return _FILTER_NONE
