"""A network interface: its state and limits, and the settings and counters of its driver.

Requests to the driver are defined in linux/ethtool.h. Functions return ``None`` if an interface, such as a
virtual interface, does not support a request.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ecmproto.errors import InterfaceError, hint_on_name
from ecmproto.frames.capture.batch import ETHERNET, RAW_IP

ADDRESSES_OCTETS = 12
"""Length of both MAC addresses of a frame, in octets."""
ETHERNET_HEADER_OCTETS = 14
TAG_OCTETS = 4
_SIOCGIFFLAGS, _SIOCGIFMTU, _SIOCGIFHWADDR = 0x8913, 0x8921, 0x8927
_SIOCSIFMTU = 0x8922
_IFF_UP, _IFF_RUNNING = 1, 1 << 6
_NAME_OCTETS = 16
_REQUEST_OCTETS = 40
_LINKTYPES = {1: ETHERNET, 772: ETHERNET, 512: RAW_IP, 768: RAW_IP, 769: RAW_IP, 776: RAW_IP, 65534: RAW_IP}
"""Link types by ARPHRD number: Ethernet and loopback; PPP, tunnels and other types without a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceFacts:
    """The current properties of an interface.

    ``linktype`` is the link type of its frames, -1 if unknown. ``mtu_octets`` is the maximum length after the
    Ethernet header. ``up`` is the administrative state. ``running`` means that the interface also has a link.
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
        """Maximum length of a frame without FCS, in octets; a frame with a C-TAG may have 4 octets more."""
        return self.mtu_octets + (ETHERNET_HEADER_OCTETS if self.linktype == ETHERNET else 0)

    @property
    def longest_tagged_octets(self) -> int:
        """Maximum length of a frame whose first tag is a C-TAG, in octets (counted as in packet(7))."""
        return self.longest_octets + TAG_OCTETS


def interface_names() -> list[str]:
    """Return the names of the interfaces in this network namespace."""
    return [name for _, name in socket.if_nameindex()]


def interface_facts(name: str) -> InterfaceFacts:
    """Return the properties of the interface ``name``.

    Raises InterfaceError if the interface is missing.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            index = socket.if_nametoindex(name)
            flags = struct.unpack_from("=H", _ask(sock, _SIOCGIFFLAGS, name))[0]
            mtu = struct.unpack_from("=i", _ask(sock, _SIOCGIFMTU, name))[0]
            hardware, address = struct.unpack_from("=H6s", _ask(sock, _SIOCGIFHWADDR, name))
    except (OSError, ValueError) as error:
        if not isinstance(error, OSError) or error.errno in (None, errno.ENODEV, errno.ENXIO):
            raise missing(name, interface_names()) from None
        raise InterfaceError(
            interface=name, needed="an interface that can be queried", got=str(error.strerror)
        ) from error
    return InterfaceFacts(
        name=name, index=index, linktype=_LINKTYPES.get(hardware, -1), mtu_octets=mtu, address=address,
        up=bool(flags & _IFF_UP), running=bool(flags & _IFF_RUNNING),
    )  # fmt: skip


def set_mtu(name: str, mtu_octets: int) -> None:
    """Set the MTU of an interface.

    Raises InterfaceError if the driver or missing permissions prevent the change.
    """
    request = struct.pack("16si20x", os.fsencode(name), mtu_octets)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            fcntl.ioctl(sock.fileno(), _SIOCSIFMTU, request)
        except OSError as error:
            raise _not_set(name, f"an MTU of {mtu_octets}", error) from error


def _ask(sock: socket.socket, request: int, name: str) -> bytes:
    """Return the octets that an interface ioctl writes after the name in struct ifreq."""
    octets = struct.pack(f"{_REQUEST_OCTETS}s", os.fsencode(name))
    return fcntl.ioctl(sock.fileno(), request, octets)[_NAME_OCTETS:]


def missing(name: str, names: Iterable[str]) -> InterfaceError:
    """Return the error for a missing interface, with the most similar existing name."""
    return InterfaceError(
        interface=name,
        needed="a network interface",
        got="none of that name",
        hint=hint_on_name(name, names),
        remedy="ip -brief link lists interfaces; in a namespace: ip netns exec NAME ecmproto …",
    )


# ioctls and structures of linux/ethtool.h
_SIOCETHTOOL = 0x8946
_GSET, _GDRVINFO, _GPAUSEPARAM, _GSTRINGS, _GSTATS = 0x01, 0x03, 0x12, 0x1B, 0x1D
_SETTINGS_OCTETS, _DRIVER_OCTETS, _PAUSE_OCTETS, _STRING_OCTETS = 44, 196, 16, 32
_SPEED_AT, _SPEED_HIGH_AT, _STATISTICS_COUNT_AT = 12, 28, 180
_ETH_SS_STATS = 1
_SPEED_UNKNOWN = (0, 0xFFFF, 0xFFFFFFFF)
_NO_MORE_STATISTICS = 65_536
_GFLAGS, _SFLAGS = 0x25, 0x26


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Work that a card or driver does for the kernel; ``keyword`` is its name in ethtool."""

    keyword: str
    title: str
    ask: int
    set: int
    flag: int = 0
    """Bit of the offload in a reply with flags."""


OFFLOADS = (
    Offload(keyword="tso", title="TCP segmentation offload", ask=0x1E, set=0x1F),
    Offload(keyword="gso", title="generic segmentation offload", ask=0x23, set=0x24),
    Offload(keyword="gro", title="generic receive offload", ask=0x2B, set=0x2C),
    Offload(keyword="lro", title="large receive offload", ask=_GFLAGS, set=_SFLAGS, flag=1 << 15),
    Offload(keyword="tx", title="transmit checksumming", ask=0x16, set=0x17),
    Offload(keyword="rx", title="receive checksumming", ask=0x14, set=0x15),
    Offload(keyword="rxvlan", title="VLAN stripping", ask=_GFLAGS, set=_SFLAGS, flag=1 << 8),
    Offload(keyword="txvlan", title="VLAN insertion", ask=_GFLAGS, set=_SFLAGS, flag=1 << 7),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControl:
    """Whether an interface negotiates PAUSE, obeys PAUSE (``receive``) and sends PAUSE (``transmit``)."""

    negotiated: bool
    receive: bool
    transmit: bool


def speed_bps(interface: str) -> int | None:
    """Return the link speed in bit/s."""
    answer = _ask_driver(interface, struct.pack("=I", _GSET).ljust(_SETTINGS_OCTETS, b"\0"))
    if answer is None:
        return None
    low, high = (
        struct.unpack_from("=H", answer, _SPEED_AT)[0],
        struct.unpack_from("=H", answer, _SPEED_HIGH_AT)[0],
    )
    speed: int = high << 16 | low
    return None if speed in _SPEED_UNKNOWN else speed * 10**6


def driver(interface: str) -> str | None:
    """Return the name of the driver."""
    answer = _ask_driver(interface, struct.pack("=I", _GDRVINFO).ljust(_DRIVER_OCTETS, b"\0"))
    return None if answer is None else _driver_text(answer[4:36])


def flow_control(interface: str) -> FlowControl | None:
    """Return the PAUSE settings of the interface."""
    answer = _ask_driver(interface, struct.pack("=I", _GPAUSEPARAM).ljust(_PAUSE_OCTETS, b"\0"))
    if answer is None:
        return None
    negotiated, receive, transmit = struct.unpack_from("=III", answer, 4)
    return FlowControl(negotiated=bool(negotiated), receive=bool(receive), transmit=bool(transmit))


def is_on(interface: str, offload: Offload) -> bool | None:
    """Return whether an offload is on."""
    answer = _ask_driver(interface, struct.pack("=II", offload.ask, 0))
    if answer is None:
        return None
    value: int = struct.unpack_from("=I", answer, 4)[0]
    return bool(value & offload.flag if offload.flag else value)


def switch_off(interface: str, offload: Offload) -> None:
    """Switch an offload off.

    Raises InterfaceError if the driver or missing permissions prevent the change.
    """
    value = 0
    if offload.flag:
        answer = _ask_driver(interface, struct.pack("=II", offload.ask, 0))
        value = struct.unpack_from("=I", answer, 4)[0] & ~offload.flag if answer else 0
    try:
        _call_driver(interface, struct.pack("=II", offload.set, value))
    except OSError as error:
        raise _not_set(interface, f"{offload.title} off", error) from error


def driver_statistics(interface: str) -> dict[str, int]:
    """Return the driver-specific counters by name; empty if the driver has no counters."""
    answer = _ask_driver(interface, struct.pack("=I", _GDRVINFO).ljust(_DRIVER_OCTETS, b"\0"))
    count: int = struct.unpack_from("=I", answer, _STATISTICS_COUNT_AT)[0] if answer else 0
    if not 0 < count <= _NO_MORE_STATISTICS:
        return {}
    names = _ask_driver(
        interface, struct.pack("=III", _GSTRINGS, _ETH_SS_STATS, count) + bytes(count * _STRING_OCTETS)
    )
    values = _ask_driver(interface, struct.pack("=II", _GSTATS, count) + bytes(8 * count))
    if names is None or values is None:
        return {}
    texts = [_driver_text(names[12 + _STRING_OCTETS * i :][:_STRING_OCTETS]) for i in range(count)]
    return dict(zip(texts, struct.unpack_from(f"={count}Q", values, 8), strict=True))


def _driver_text(octets: bytes) -> str:
    return octets.partition(b"\0")[0].decode("ascii", "replace")


def _ask_driver(interface: str, question: bytes) -> bytes | None:
    with suppress(OSError):
        return _call_driver(interface, question)
    return None


def _call_driver(interface: str, question: bytes) -> bytes:
    """Send a request to the driver and return its reply.

    Raises OSError if the driver does not support the request.
    """
    buffer = ctypes.create_string_buffer(question, len(question))
    request = struct.pack("16sP16x", os.fsencode(interface), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)
    return buffer.raw


def _not_set(interface: str, needed: str, error: OSError) -> InterfaceError:
    got = "a process without CAP_NET_ADMIN" if isinstance(error, PermissionError) else str(error.strerror)
    return InterfaceError(interface=interface, needed=needed, got=got)
