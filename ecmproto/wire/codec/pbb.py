"""Translation of CNMs at the edge of a provider backbone (wire-formats 3.1; 802.1Q 32.16)."""

from __future__ import annotations

import dataclasses

from ecmproto.wire.codec.frame import Frame, fixed
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNM, CNM_PRIORITY, CNTag
from ecmproto.wire.formats.ethernet import VLAN, Ethernet, ITag, STag
from ecmproto.wire.formats.registry import dispatch

_TYPE_OCTETS = 2
_TAG_OCTETS = 4


def convert_cnm(frame: Frame, *, priority: int = CNM_PRIORITY) -> Frame | None:
    """Return the customer's CNM for a CNM that a backbone congestion point sent to this edge.

    The I-TAG, VLAN tags and CN-TAG are removed from the Encapsulated MSDU. The customer's addresses, tags and
    priority replace the backbone's. SA, Quantized Feedback, CPID, offset and delta stay unchanged.

    The result is ``None`` if the MSDU ends before the end of the customer's tags; the caller discards and
    counts such a CNM. Raises KeyError if the frame contains no CNM.
    """
    cnm = frame[CNM]
    stripped = _customer_layers(cnm.msdu, frame)
    if stripped is None:
        return None
    itag, tags, cntag, msdu = stripped
    inner_priority = tags[0].priority if tags else 0
    outer: list[Layer] = [tag.replace(priority=priority, dei=0) for tag in tags[:1]]
    message = cnm.replace(encap_dst=itag.cdst, encap_prio=inner_priority, msdu_length=len(msdu), msdu=msdu)
    layers = (Ethernet(dst=itag.csrc, src=frame[Ethernet].src), *outer, *tags[1:], cntag, message)
    bare = Frame(layers=layers, ethertypes=frame.ethertypes)
    return dataclasses.replace(fixed(bare), cut=0)


_Stripped = tuple[ITag, list[VLAN | STag], CNTag, bytes]


def _customer_layers(msdu: bytes, frame: Frame) -> _Stripped | None:
    """Return the I-TAG, VLAN tags, CN-TAG and payload of a backbone MSDU.

    An MSDU without a CN-TAG gets a CN-TAG with flow 0. The result is ``None`` if the MSDU is truncated.
    """
    types = frame.ethertypes
    if int.from_bytes(msdu[:_TYPE_OCTETS], "big") != types.i_tag:
        return None
    parsed = ITag.parse(msdu + bytes(_TYPE_OCTETS), _TYPE_OCTETS, len(msdu) + _TYPE_OCTETS)
    if parsed is None:
        return None
    itag = parsed[0]
    assert isinstance(itag, ITag)
    tags: list[VLAN | STag] = []
    pos = ITag.fixed_octets  # the last EtherType belongs to the next tag
    while len(msdu) - pos >= _TYPE_OCTETS:
        ethertype = int.from_bytes(msdu[pos : pos + _TYPE_OCTETS], "big")
        cls = dispatch(types).plain.get(ethertype)
        if cls not in (VLAN, STag, CNTag):
            return itag, tags, CNTag(), msdu[pos:]
        assert cls is not None
        if len(msdu) - pos < _TAG_OCTETS:
            return None
        # the octets of a tag, then a placeholder for the next EtherType, which may be missing
        tag = cls.parse(msdu[pos + _TYPE_OCTETS : pos + _TAG_OCTETS] + bytes(_TYPE_OCTETS), 0, _TAG_OCTETS)
        assert tag is not None
        pos += _TAG_OCTETS
        if isinstance(tag[0], CNTag):
            return itag, tags, tag[0], msdu[pos:]
        assert isinstance(tag[0], VLAN | STag)
        tags.append(tag[0])
    return None
