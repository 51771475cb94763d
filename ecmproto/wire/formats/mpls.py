"""MPLS: the labels before a packet, or before a frame with a control word."""

from __future__ import annotations

from typing import ClassVar

from ecmproto.wire.formats.base import Limit, layer
from ecmproto.wire.formats.ethernet import Ethernet
from ecmproto.wire.formats.schema import uint
from ecmproto.wire.formats.summary import Summary
from ecmproto.wire.formats.wrapper import Packet, Wrapper

_SOURCE, _CONTROL_WORD = "RFC 3032 2.1", "RFC 4448 4.6"


@layer("pwethcw", title="Pseudowire control word", source=_CONTROL_WORD)
class ControlWord(Wrapper):
    """Four octets between the labels and the frame of an Ethernet pseudowire."""

    zero: int = uint(4, default=0, doc="0, unlike the version of an IP packet")
    reserved: int = uint(12, default=0, doc="0")
    sequence: int = uint(
        16, default=0, doc="sequence number; 0 means that it is not used", name="pweth.cw.sequence_number"
    )
    limits = (Limit(key="zero", low=0, high=0),)
    wraps = {0: Ethernet}
    summary = Summary()


class LabelledPacket(Packet):
    """Content of a label stack, which no field announces."""

    __slots__ = ()

    by_nibble: ClassVar = {**Packet.by_nibble, 0: ControlWord}


@layer("mpls", title="MPLS label", source=_SOURCE)
class MPLS(Wrapper):
    """Label of a label stack. The stack ends with the first label that has the bottom bit set.

    Signalling is unknown, so the first four bits after the stack determine the content. These bits are the IP
    version, or 0 for a control word before a frame.
    """

    label: int = uint(20, default=16, doc="label")
    exp: int = uint(3, default=0, doc="traffic class", source="RFC 5462")
    bottom: int = uint(1, default=1, doc="whether this is the last label (bottom of stack)")
    ttl: int = uint(8, default=64, doc="time to live")
    announced_by = 0x8847
    further_ethertypes = (0x8848,)
    next_key = "bottom"
    session_key = "label"
    summary = Summary(tag="MPLS {label}")


MPLS.wraps = {0: MPLS, 1: LabelledPacket}
