"""Frames without an Ethernet header, as far as something can be said of them: Linux cooked, raw IP.

Nothing is invented for the addresses they do not have; a frame of any other link type is its octets.
"""

from __future__ import annotations

import dataclasses

from ecmproto.batch.beginnings import first_format
from ecmproto.capture.batch import COOKED_TYPES, ETHERNET, RAW_IP_TYPES
from ecmproto.codec.frame import Frame, decode_lax
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

KNOWN = frozenset((ETHERNET,)) | COOKED_TYPES | RAW_IP_TYPES
"""The link types of which something can be said."""


def decode_linktype(
    linktype: int, octets: bytes, *, original_octets: int = 0, ethertypes: EtherTypes = DEFAULT
) -> Frame:
    """Decode a frame of a link type other than Ethernet as far as its headers are known here, laxly."""
    first = first_format(linktype, octets)
    frame = decode_lax(octets, first=first, original_octets=original_octets, ethertypes=ethertypes)
    # the 60 octets that padding fills up to are Ethernet's
    return dataclasses.replace(frame, padding=b"", trailer=frame.padding + frame.trailer)
