"""Packet sockets (packet(7)): opened, bound to an interface, and what is set on them."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ecmproto.capture.linktypes import ETHERNET, RAW_IP
from ecmproto.capture.linux.abi import (
    ETH_P_ALL,
    PACKET_ADD_MEMBERSHIP,
    PACKET_IGNORE_OUTGOING,
    PACKET_MR_PROMISC,
    PACKET_QDISC_BYPASS,
    PACKET_STATISTICS,
    SO_ATTACH_FILTER,
    SO_RCVBUFFORCE,
    SOL_PACKET,
)
from ecmproto.capture.linux.bpf import MAX_CUT_OCTETS, Instruction, cut_at, packed, without_outgoing
from ecmproto.capture.linux.interface import InterfaceFacts, interface_facts, interface_names, missing
from ecmproto.errors import InterfaceError

DOWN_ERRORS = frozenset({errno.ENETDOWN, errno.ENXIO, errno.ENODEV})
"""What the kernel says of an interface that is down or gone."""

REMEDY = (
    "run it as root, or: sudo setpriv --inh-caps +net_raw,+net_admin --ambient-caps +net_raw,+net_admin "
    "--reuid $USER --init-groups ecmproto …"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts:
    """Frames that the kernel had for a socket: delivered, and dropped for want of room."""

    received: int = 0
    dropped: int = 0


class PacketSocket:
    """A packet socket on one interface; receives nothing until `bind`, so that it can be prepared before.

    Raises InterfaceError where the interface is not there, is none with Ethernet or bare IP frames, or
    where the process may not open packet sockets.
    """

    def __init__(self, interface: str) -> None:
        self.facts: InterfaceFacts = interface_facts(interface)
        if self.facts.linktype not in (ETHERNET, RAW_IP):
            raise InterfaceError(
                interface=interface,
                needed="frames of Ethernet or bare IP",
                got="an interface of another kind",
            )
        try:
            # no protocol: a socket with one would receive from every interface until it is bound
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError as error:
            raise not_permitted(interface) from error
        except OSError as error:
            got = error.strerror or str(error)
            raise InterfaceError(interface=interface, needed="a packet socket", got=got) from error
        self._received = 0
        self._dropped = 0

    def bind(self, protocol: int = ETH_P_ALL) -> None:
        """Begin to receive; with protocol 0 the socket only sends."""
        try:
            self.socket.bind((self.facts.name, protocol))
        except OSError as error:
            self.socket.close()
            if error.errno in (errno.ENODEV, errno.ENXIO):
                raise missing(self.facts.name, interface_names()) from None
            if error.errno != errno.ENETDOWN:
                raise

    def promiscuous(self) -> None:
        """Take in frames to other stations too, for as long as the socket is open."""
        request = struct.pack("=iHH8s", self.facts.index, PACKET_MR_PROMISC, 0, b"")
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)

    def ignore_outgoing(self) -> bool:
        """Leave out frames that this machine sends itself; False where the kernel (before 4.20) cannot."""
        return self._set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)

    def bypass_queues(self) -> bool:
        """Hand frames to the driver past the queueing discipline; False where the kernel cannot."""
        return self._set(SOL_PACKET, PACKET_QDISC_BYPASS, 1)

    def enlarge(self, octets: int) -> None:
        """Ask for a receive buffer of ``octets``, beyond the system's bound where the process may."""
        if not self._set(socket.SOL_SOCKET, SO_RCVBUFFORCE, octets // 2):
            self._set(socket.SOL_SOCKET, socket.SO_RCVBUF, octets // 2)

    def _set(self, level: int, option: int, value: int) -> bool:
        with suppress(OSError):
            self.socket.setsockopt(level, option, value)
            return True
        return False

    def attach(self, program: Sequence[Instruction]) -> None:
        """Let the kernel drop or cut frames by a program; OSError when it does not accept it."""
        octets, head = packed(program)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
        del octets  # the head points into it

    def counts(self) -> KernelCounts:
        """Return the kernel's counts since the socket was opened."""
        # the kernel forgets what it told
        given = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12)
        packets, dropped = struct.unpack_from("=II", given)
        # tp_packets counts those dropped too
        self._received += packets - dropped
        self._dropped += dropped
        return KernelCounts(received=self._received, dropped=self._dropped)

    @property
    def gone(self) -> bool:
        """Whether the interface is not there any more: removed, or moved to another namespace."""
        with suppress(OSError):
            return not self.socket.getsockname()[0]
        return True

    def pending_error(self) -> int:
        """Return the error that waits at the socket, and clear it; 0 without one."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def vanished(self) -> InterfaceError:
        """Return the error for an interface that went away."""
        name = self.facts.name
        return InterfaceError(interface=name, needed="the interface", got="its removal while it was in use")

    def unexpected(self, error: OSError, needed: str) -> InterfaceError:
        """Return the error for what else the kernel may say."""
        got = os.strerror(error.errno) if error.errno else str(error)
        return InterfaceError(interface=self.facts.name, needed=needed, got=got)

    def close(self) -> None:
        """Close the socket; the interface leaves promiscuous mode with its last user."""
        self.socket.close()


def not_permitted(interface: str) -> InterfaceError:
    """Return the error of a process that may not open packet sockets."""
    return InterfaceError(
        interface=interface,
        needed="the capability CAP_NET_RAW, to send and receive frames",
        got="a process without it",
        remedy=REMEDY,
    )


def open_receiving(
    interface: str,
    *,
    promiscuous: bool,
    outgoing: bool,
    program: Sequence[Instruction],
    prepare: Callable[[PacketSocket], None],
) -> PacketSocket:
    """Return a packet socket that receives from ``interface``; ``prepare`` is called before it does."""
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
