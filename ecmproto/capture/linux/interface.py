"""A network interface: whether it is there, what it is, and what it can carry."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from ecmproto.capture.linktypes import ETHERNET, RAW_IP
from ecmproto.capture.linux.abi import ETHERNET_HEADER_OCTETS, TAG_OCTETS
from ecmproto.errors import InterfaceError

_SIOCGIFFLAGS, _SIOCGIFMTU, _SIOCGIFHWADDR = 0x8913, 0x8921, 0x8927
_SIOCSIFMTU = 0x8922
_IFF_UP, _IFF_RUNNING = 1, 1 << 6
_NAME_OCTETS = 16
_REQUEST_OCTETS = 40
_LINKTYPES = {1: ETHERNET, 772: ETHERNET, 512: RAW_IP, 768: RAW_IP, 769: RAW_IP, 776: RAW_IP, 65534: RAW_IP}
"""ARPHRD numbers: Ethernet and loopback; PPP, tunnels and what has no header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceFacts:
    """What the kernel says of an interface now.

    ``linktype`` is what its frames begin with, -1 where this project does not know it.  ``mtu_octets``
    counts what follows the Ethernet header.  ``up`` is the administrative state, ``running`` says that
    there is a link too.
    """

    name: str
    index: int
    linktype: int
    mtu_octets: int
    address: bytes
    up: bool
    running: bool

    @property
    def longest_octets(self) -> int:
        """The longest frame without FCS that may be sent; one with a C-TAG may have 4 octets more."""
        return self.mtu_octets + (ETHERNET_HEADER_OCTETS if self.linktype == ETHERNET else 0)

    @property
    def longest_tagged_octets(self) -> int:
        """The longest frame that may be sent whose first tag is a C-TAG (as packet(7) counts)."""
        return self.longest_octets + TAG_OCTETS


def interface_names() -> list[str]:
    """Return the names of the interfaces in this network namespace."""
    return [name for _, name in socket.if_nameindex()]


def interface_facts(name: str) -> InterfaceFacts:
    """Return the facts of the interface ``name``; InterfaceError when it is not there."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            index = socket.if_nametoindex(name)
            flags = struct.unpack_from("=H", _ask(asked, _SIOCGIFFLAGS, name))[0]
            mtu = struct.unpack_from("=i", _ask(asked, _SIOCGIFMTU, name))[0]
            hardware, address = struct.unpack_from("=H6s", _ask(asked, _SIOCGIFHWADDR, name))
    except (OSError, ValueError) as error:
        if not isinstance(error, OSError) or error.errno in (None, errno.ENODEV, errno.ENXIO):
            raise missing(name, interface_names()) from None
        raise InterfaceError(interface=name, needed="to be asked about", got=str(error.strerror)) from error
    return InterfaceFacts(
        name=name, index=index, linktype=_LINKTYPES.get(hardware, -1), mtu_octets=mtu, address=address,
        up=bool(flags & _IFF_UP), running=bool(flags & _IFF_RUNNING),
    )  # fmt: skip


def set_mtu(name: str, mtu_octets: int) -> None:
    """Set the MTU of an interface; InterfaceError where the driver or the process may not."""
    request = struct.pack("16si20x", os.fsencode(name), mtu_octets)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            fcntl.ioctl(asked.fileno(), _SIOCSIFMTU, request)
        except OSError as error:
            denied = isinstance(error, PermissionError)
            got = "a process without CAP_NET_ADMIN" if denied else str(error.strerror)
            raise InterfaceError(interface=name, needed=f"an MTU of {mtu_octets}", got=got) from error


def _ask(asked: socket.socket, request: int, name: str) -> bytes:
    """Return what an interface ioctl puts behind the name in struct ifreq."""
    octets = struct.pack(f"{_REQUEST_OCTETS}s", os.fsencode(name))
    return fcntl.ioctl(asked.fileno(), request, octets)[_NAME_OCTETS:]


def missing(name: str, names: Iterable[str]) -> InterfaceError:
    """Return the error for an interface that is not there, with the nearest of those that are."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}" if known else ""
    return InterfaceError(
        interface=name,
        needed="a network interface",
        got="none of that name",
        hint=hint,
        remedy="ip -brief link lists interfaces; those of a namespace: ip netns exec NAME ecmproto …",
    )
