"""Reading and writing of numbers, addresses and fields in headers, for kernels."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.wire.formats.experimental import CPID_OCTETS

_Scalar = TypeVar("_Scalar", bound=np.generic)

ADDRESS_OCTETS = 6
TYPE_AT = 12
HEADER_OCTETS = 14
_CHECKSUM_AT = 10
_ECN_BITS = 3


def fixed(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Return ``array`` as a read-only contiguous array.

    With a single form of arguments, each kernel is compiled only once.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@inlined
def signed(octet: np.uint8) -> int:
    """Return an octet as a signed integer.

    In compiled code, ``int`` would return an unsigned octet, which cannot be combined with other integers.
    """
    return int(np.int64(octet))


@inlined
def two_octets(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the 16-bit number at ``start``."""
    return (signed(buffer[start]) << 8) | signed(buffer[start + 1])


@inlined
def four_octets(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the 32-bit number at ``start``."""
    return (two_octets(buffer, start) << 16) | two_octets(buffer, start + 2)


@inlined
def address(buffer: NDArray[np.uint8], start: int) -> int:
    """Return the MAC address at ``start`` as a number."""
    number = 0
    for octet in range(start, start + ADDRESS_OCTETS):
        number = (number << 8) | signed(buffer[octet])
    return number


@inlined
def is_group(number: int) -> bool:
    """Return whether a MAC address is a group address."""
    return (number >> 40) & 1 != 0


@inlined
def ecn_at(buffer: NDArray[np.uint8], ip: int) -> int:
    """Return the ECN field of the IP header at ``ip``."""
    octet = signed(buffer[ip + 1])
    return octet & _ECN_BITS if signed(buffer[ip]) >> 4 == 4 else octet >> 4 & _ECN_BITS


@over_batches
def write_ecn(buffer: NDArray[np.uint8], ip: int, codepoint: int) -> None:
    """Write the ECN field of the IP header at ``ip`` and update the IPv4 header checksum (RFC 1624)."""
    before = two_octets(buffer, ip)
    if before >> 12 != 4:
        buffer[ip + 1] = signed(buffer[ip + 1]) & ~(_ECN_BITS << 4) | codepoint << 4
        return
    buffer[ip + 1] = signed(buffer[ip + 1]) & ~_ECN_BITS | codepoint
    # Equation 3: HC' = ~(~HC + ~m + m').
    checksum = two_octets(buffer, ip + _CHECKSUM_AT)
    total = (~checksum & 0xFFFF) + (~before & 0xFFFF) + two_octets(buffer, ip)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    buffer[ip + _CHECKSUM_AT] = ~total >> 8 & 0xFF
    buffer[ip + _CHECKSUM_AT + 1] = ~total & 0xFF


@inlined
def has_no_cpid(buffer: NDArray[np.uint8], at: int, end: int) -> bool:
    """Return whether the octets at ``at`` cannot be a CPID (see `formats.experimental.is_no_cpid`)."""
    if at + CPID_OCTETS > end:
        return False
    some = 0
    for octet in range(at, at + CPID_OCTETS):
        some |= signed(buffer[octet])
    return some == 0 or signed(buffer[at]) & 1 != 0
