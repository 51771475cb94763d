"""The first format of the frames of each supported link type."""

from __future__ import annotations

from collections.abc import Mapping

from ecmproto.frames.capture.batch import ETHERNET, INFINIBAND, LINUX_SLL, LINUX_SLL2, RAW_IP_TYPES
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import SLL, SLL2, Data, Ethernet
from ecmproto.wire.formats.infiniband import LRH
from ecmproto.wire.formats.ip import IPv4, IPv6

FORMAT_OF: Mapping[int, type[Layer]] = {
    ETHERNET: Ethernet, LINUX_SLL: SLL, LINUX_SLL2: SLL2, INFINIBAND: LRH
}  # fmt: skip
"""Format of the first layer by link type, for link types with a fixed first format."""

KNOWN_LINKTYPES = frozenset(FORMAT_OF) | RAW_IP_TYPES
"""Link types whose frames can be decoded."""
FORMAT_OF_VERSION: Mapping[int, type[Layer]] = {4: IPv4, 6: IPv6}
"""Format by the first four bits, for frames that start with an IP header."""


def first_format(linktype: int, octets: bytes) -> type[Layer]:
    """Return the first format of a frame, or `Data` for an unsupported link type."""
    if linktype in RAW_IP_TYPES and octets:
        return FORMAT_OF_VERSION.get(octets[0] >> 4, Data)
    return FORMAT_OF.get(linktype, Data)
