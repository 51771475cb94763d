"""Frames without an Ethernet header, as far as something can be said of them: Linux cooked, raw IP.

Nothing is invented for the addresses they do not have; a frame of any other link type is its octets.
"""

from __future__ import annotations

import dataclasses

from ecmproto.capture.linktypes import COOKED_TYPES, ETHERNET, LINUX_SLL, LINUX_SLL2, RAW_IP_TYPES
from ecmproto.wire.cooked import SLL, SLL2
from ecmproto.wire.decoder import decode_lax
from ecmproto.wire.ethernet import Data
from ecmproto.wire.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.frame import Frame
from ecmproto.wire.ip import IPv4, IPv6
from ecmproto.wire.layer import Layer

KNOWN = frozenset((ETHERNET,)) | COOKED_TYPES | RAW_IP_TYPES
"""The link types of which something can be said."""


def decode_linktype(
    linktype: int, octets: bytes, *, original_octets: int = 0, ethertypes: EtherTypes = DEFAULT
) -> Frame:
    """Decode a frame of a link type other than Ethernet as far as its headers are known here, laxly."""
    first = _first_format(linktype, octets)
    frame = decode_lax(octets, first=first, original_octets=original_octets, ethertypes=ethertypes)
    # the 60 octets that padding fills up to are Ethernet's
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)


def _first_format(linktype: int, octets: bytes) -> type[Layer]:
    if linktype == LINUX_SLL:
        return SLL
    if linktype == LINUX_SLL2:
        return SLL2
    if linktype in RAW_IP_TYPES and octets:
        return {4: IPv4, 6: IPv6}.get(octets[0] >> 4, Data)
    return Data
