"""Packet sockets (packet(7)): opening, binding to an interface, and setting options.

The constants and structures are defined in linux/if_packet.h, linux/if_ether.h, asm-generic/socket.h and
linux/net_tstamp.h. Python's socket module lacks two of the system calls: sendmmsg(2) and recvmmsg(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP
from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS, Instruction, cut_at, packed, without_outgoing
from ecmproto.frames.capture.linux.interface import InterfaceFacts, interface_facts, interface_names, missing

ETH_P_ALL = 3
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
TPACKET_V2, TPACKET_V3 = 1, 2

SO_ATTACH_FILTER = 26
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
"""Socket option, and type of the control message with the time; its seconds have the size of a C long."""
SOF_TIMESTAMPING_RAW_HARDWARE = 1 << 6

TP_STATUS_KERNEL = 0
TP_STATUS_USER = 1
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
TP_STATUS_TS_RAW_HARDWARE = 1 << 31

# Fields of a block in a ring, and of a frame header in the block, as indices of 32-bit words.
BLOCK_STATUS, BLOCK_FRAMES, BLOCK_FIRST, BLOCK_USED = 2, 3, 4, 5
FRAME_NEXT, FRAME_SECONDS, FRAME_NS, FRAME_CAPTURED, FRAME_ORIGINAL, FRAME_STATUS, FRAME_FIELDS = range(7)
FRAME_TCI, FRAME_TPID = 8, 9

AUXDATA_STATUS, AUXDATA_ORIGINAL, AUXDATA_TAG = 0, 1, 4
"""Indices of words in struct tpacket_auxdata; the last word contains tp_vlan_tci and tp_vlan_tpid."""

SLOT_HEADER = np.dtype(
    [
        ("status", np.uint32),
        ("original", np.uint32),
        ("captured", np.uint32),
        ("mac", np.uint16),
        ("net", np.uint16),
        ("seconds", np.uint32),
        ("ns", np.uint32),
        ("tci", np.uint16),
        ("tpid", np.uint16),
        ("padding", np.uint32),
    ]
)
"""Layout of struct tpacket2_hdr, at the start of each slot of a ring of version 2."""

_POINTER = np.dtype(np.uintp)

IOVEC = np.dtype([("base", _POINTER), ("octets", _POINTER)], align=True)
"""Layout of struct iovec."""

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
"""Layout of struct mmsghdr: a struct msghdr, and the number of octets sent or received."""


def message_array(count: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return ``count`` messages with one part each, and the parts (struct iovec)."""
    messages, parts = np.zeros(count, dtype=MESSAGE), np.zeros(count, dtype=IOVEC)
    steps = np.arange(count, dtype=np.uintp) * IOVEC.itemsize
    messages["header"]["parts"] = parts.ctypes.data + steps
    messages["header"]["part_count"] = 1
    return messages, parts


DOWN_ERRORS = frozenset({errno.ENETDOWN, errno.ENXIO, errno.ENODEV})
"""Error numbers for an interface that is down or removed."""

REMEDY = (
    "run it as root, or: sudo setpriv --inh-caps +net_raw,+net_admin --ambient-caps +net_raw,+net_admin "
    "--reuid $USER --init-groups ecmproto …"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts:
    """Numbers of frames from the kernel for a socket: delivered, and dropped because the buffer was full.

    ``unread`` is the number of delivered frames that are still in a ring.
    """

    received: int = 0
    dropped: int = 0
    unread: int = 0


class PacketSocket:
    """A packet socket on one interface, which receives nothing before `bind`.

    Options can therefore be set before frames are received. Raises InterfaceError if the interface is
    missing, if its frames are neither Ethernet nor IP without a link header, or if the process may not open
    packet sockets.
    """

    def __init__(self, interface: str) -> None:
        self.facts: InterfaceFacts = interface_facts(interface)
        if self.facts.linktype not in (ETHERNET, RAW_IP):
            raise InterfaceError(
                interface=interface,
                needed="frames of Ethernet or IP without a link header",
                got="an interface of another type",
            )
        try:
            # a socket with a protocol would receive from every interface until `bind`
            self.socket: socket.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError as error:
            raise InterfaceError(
                interface=interface, needed="the capability CAP_NET_RAW, to send and receive frames",
                got="a process without that permission", remedy=REMEDY,
            ) from error  # fmt: skip
        except OSError as error:
            got = error.strerror or str(error)
            raise InterfaceError(interface=interface, needed="a packet socket", got=got) from error
        self._received = 0
        self._dropped = 0

    def bind(self, protocol: int = ETH_P_ALL) -> None:
        """Start to receive; with protocol 0 the socket only sends."""
        try:
            self.socket.bind((self.facts.name, protocol))
        except OSError as error:
            self.socket.close()
            if error.errno in (errno.ENODEV, errno.ENXIO):
                raise missing(self.facts.name, interface_names()) from None
            if error.errno != errno.ENETDOWN:
                raise

    def promiscuous(self) -> None:
        """Also receive frames for other stations, while the socket is open."""
        request = struct.pack("=iHH8s", self.facts.index, PACKET_MR_PROMISC, 0, b"")
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)

    def ignore_outgoing(self) -> bool:
        """Skip frames that this host sends; return False if the kernel (before 4.20) cannot skip them."""
        return self._set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)

    def bypass_queues(self) -> bool:
        """Send frames directly to the driver, without the queueing discipline.

        Return False if the kernel does not support this.
        """
        return self._set(SOL_PACKET, PACKET_QDISC_BYPASS, 1)

    def enlarge(self, octets: int) -> None:
        """Request a receive buffer of ``octets``, above the limit of the system if the process may."""
        if not self._set(socket.SOL_SOCKET, SO_RCVBUFFORCE, octets // 2):
            self._set(socket.SOL_SOCKET, socket.SO_RCVBUF, octets // 2)

    def _set(self, level: int, option: int, value: int) -> bool:
        with suppress(OSError):
            self.socket.setsockopt(level, option, value)
            return True
        return False

    def attach(self, program: Sequence[Instruction]) -> None:
        """Attach a program that drops or truncates frames.

        Raises OSError when the kernel does not accept the program.
        """
        octets, head = packed(program)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
        del octets  # the program contains its address

    def counts(self) -> KernelCounts:
        """Return the counts of the kernel since the socket was opened."""
        # the kernel resets its counts with each request
        given = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12)
        packets, dropped = struct.unpack_from("=II", given)
        # tp_packets includes dropped frames
        self._received += packets - dropped
        self._dropped += dropped
        return KernelCounts(received=self._received, dropped=self._dropped)

    @property
    def gone(self) -> bool:
        """Whether the interface was removed, or moved to another namespace."""
        with suppress(OSError):
            return not self.socket.getsockname()[0]
        return True

    def pending_error(self) -> int:
        """Return and clear the pending error of the socket; 0 means no error."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def vanished(self) -> InterfaceError:
        """Return the error for a removed interface."""
        name = self.facts.name
        return InterfaceError(interface=name, needed="the interface", got="its removal while it was in use")

    def unexpected(self, error: OSError, needed: str) -> InterfaceError:
        """Return the error for an unexpected failure of a system call."""
        got = os.strerror(error.errno) if error.errno else str(error)
        return InterfaceError(interface=self.facts.name, needed=needed, got=got)

    def close(self) -> None:
        """Close the socket; the interface leaves promiscuous mode unless another user needs it."""
        self.socket.close()


class SocketUser:
    """Base of users of a packet socket; the socket is closed at the end of a ``with`` block."""

    _socket: PacketSocket

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_receiving(
    interface: str,
    *,
    promiscuous: bool,
    outgoing: bool,
    program: Sequence[Instruction],
    prepare: Callable[[PacketSocket], None],
) -> PacketSocket:
    """Return a packet socket that receives from ``interface``; ``prepare`` is called before reception."""
    opened = PacketSocket(interface)
    try:
        prepare(opened)
        if not outgoing and not opened.ignore_outgoing():
            program = without_outgoing(program or cut_at(MAX_CUT_OCTETS))
        if program:
            opened.attach(program)
        if promiscuous:
            opened.promiscuous()
        opened.bind()
    except BaseException as error:
        opened.close()
        if isinstance(error, OSError):
            raise opened.unexpected(error, "a packet socket that receives") from error
        raise
    return opened


def send_messages(descriptor: int, messages: int, count: int, flags: int) -> int:
    """Send ``count`` messages (struct mmsghdr) at the address ``messages``; return the number accepted.

    Raises OSError if the kernel refuses the first message (sendmmsg(2)).
    """
    return _checked(_libc().sendmmsg(descriptor, messages, count, flags))


def receive_messages(descriptor: int, messages: int, count: int, flags: int) -> int:
    """Receive up to ``count`` frames into the messages at the address ``messages``; return their number.

    Raises OSError if no frame is available (recvmmsg(2)).
    """
    return _checked(_libc().recvmmsg(descriptor, messages, count, flags, None))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    number, address, size = ctypes.c_int, ctypes.c_void_p, ctypes.c_uint
    library.sendmmsg.argtypes = [number, address, size, number]
    library.recvmmsg.argtypes = [number, address, size, number, address]
    return library


_SIOCGHWTSTAMP = 0x89B1
_FILTER_NONE, _FILTER_ALL = 0, 1
_CONFIG_OCTETS = 12


def use_hardware_clock(opened: PacketSocket) -> bool:
    """Use the card's clock for the times in a ring if the card stamps every frame; return True on success.

    ``hwstamp_ctl -i IF -r 1`` enables stamps for every frame. This function does not change the setting,
    because the setting applies to every process.
    """
    if _receive_filter(opened) != _FILTER_ALL:
        return False
    with suppress(OSError):
        opened.socket.setsockopt(SOL_PACKET, PACKET_TIMESTAMP, SOF_TIMESTAMPING_RAW_HARDWARE)
        return True
    return False


def _receive_filter(opened: PacketSocket) -> int:
    """Return the receive filter of the card's stamps (struct hwtstamp_config); none if unknown."""
    config = ctypes.create_string_buffer(_CONFIG_OCTETS)
    request = struct.pack("16sP16x", os.fsencode(opened.facts.name), ctypes.addressof(config))
    with suppress(OSError):
        fcntl.ioctl(opened.socket.fileno(), _SIOCGHWTSTAMP, request)
        receive: int = struct.unpack_from("=iii", config)[2]
        return receive
    return _FILTER_NONE
