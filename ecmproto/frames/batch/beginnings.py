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
"""The first layer's format by link type, where the link type determines it."""

KNOWN_LINKTYPES = frozenset(FORMAT_OF) | RAW_IP_TYPES
"""The link types whose frames are decoded."""
FORMAT_OF_VERSION: Mapping[int, type[Layer]] = {4: IPv4, 6: IPv6}
"""By the first four bits of frames that start with an IP header."""


def first_format(linktype: int, octets: bytes) -> type[Layer]:
    """Return the first format of a frame of a link type; `Data` for an unsupported type."""
    if linktype in RAW_IP_TYPES and octets:
        return FORMAT_OF_VERSION.get(octets[0] >> 4, Data)
    return FORMAT_OF.get(linktype, Data)
