"""What drivers say of their interfaces, and what can be set there (linux/ethtool.h).

An interface that does not know a question, as many virtual ones do, gives None.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from ecmproto.errors import InterfaceError

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
    """Work that a card or driver does in the kernel's place; ``keyword`` is ethtool's for it."""

    keyword: str
    title: str
    ask: int
    set: int
    flag: int = 0
    """The bit, where the question is for flags."""


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
    """Whether an interface negotiates PAUSE, obeys it (``receive``) and sends it (``transmit``)."""

    negotiated: bool
    receive: bool
    transmit: bool


def speed_bps(interface: str) -> int | None:
    """Return the link's speed."""
    told = _ask(interface, struct.pack("=I", _GSET).ljust(_SETTINGS_OCTETS, b"\0"))
    if told is None:
        return None
    low, high = (
        struct.unpack_from("=H", told, _SPEED_AT)[0],
        struct.unpack_from("=H", told, _SPEED_HIGH_AT)[0],
    )
    speed: int = high << 16 | low
    return None if speed in _SPEED_UNKNOWN else speed * 10**6


def driver(interface: str) -> str | None:
    """Return the driver's name."""
    told = _ask(interface, struct.pack("=I", _GDRVINFO).ljust(_DRIVER_OCTETS, b"\0"))
    return None if told is None else _text(told[4:36])


def flow_control(interface: str) -> FlowControl | None:
    """Return whether the interface takes part in PAUSE."""
    told = _ask(interface, struct.pack("=I", _GPAUSEPARAM).ljust(_PAUSE_OCTETS, b"\0"))
    if told is None:
        return None
    negotiated, receive, transmit = struct.unpack_from("=III", told, 4)
    return FlowControl(negotiated=bool(negotiated), receive=bool(receive), transmit=bool(transmit))


def is_on(interface: str, offload: Offload) -> bool | None:
    """Return whether an offload is on."""
    told = _ask(interface, struct.pack("=II", offload.ask, 0))
    if told is None:
        return None
    value: int = struct.unpack_from("=I", told, 4)[0]
    return bool(value & offload.flag if offload.flag else value)


def switch_off(interface: str, offload: Offload) -> None:
    """Switch an offload off; InterfaceError where the driver or the process may not."""
    value = 0
    if offload.flag:
        told = _ask(interface, struct.pack("=II", offload.ask, 0))
        value = struct.unpack_from("=I", told, 4)[0] & ~offload.flag if told else 0
    try:
        _call(interface, struct.pack("=II", offload.set, value))
    except OSError as error:
        raise _refusal(interface, f"{offload.title} off", error) from error


def statistics(interface: str) -> dict[str, int]:
    """Return the driver's own counters by name; none where it has none."""
    told = _ask(interface, struct.pack("=I", _GDRVINFO).ljust(_DRIVER_OCTETS, b"\0"))
    count: int = struct.unpack_from("=I", told, _STATISTICS_COUNT_AT)[0] if told else 0
    if not 0 < count <= _NO_MORE_STATISTICS:
        return {}
    names = _ask(
        interface, struct.pack("=III", _GSTRINGS, _ETH_SS_STATS, count) + bytes(count * _STRING_OCTETS)
    )
    values = _ask(interface, struct.pack("=II", _GSTATS, count) + bytes(8 * count))
    if names is None or values is None:
        return {}
    texts = [_text(names[12 + _STRING_OCTETS * i :][:_STRING_OCTETS]) for i in range(count)]
    return dict(zip(texts, struct.unpack_from(f"={count}Q", values, 8), strict=True))


def _text(octets: bytes) -> str:
    return octets.partition(b"\0")[0].decode("ascii", "replace")


def _ask(interface: str, question: bytes) -> bytes | None:
    with suppress(OSError):
        return _call(interface, question)
    return None


def _call(interface: str, question: bytes) -> bytes:
    """Put a question to the driver and return what it made of it; OSError where it does not know it."""
    buffer = ctypes.create_string_buffer(question, len(question))
    request = struct.pack("16sP16x", os.fsencode(interface), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked.fileno(), _SIOCETHTOOL, request)
    return buffer.raw


def _refusal(interface: str, needed: str, error: OSError) -> InterfaceError:
    got = "a process without CAP_NET_ADMIN" if isinstance(error, PermissionError) else str(error.strerror)
    return InterfaceError(interface=interface, needed=needed, got=got)
