"""Enhanced BCN as Scapy layers: the message and the RRT tag."""

from __future__ import annotations

from typing import Any

from scapy.fields import IntField, SignedIntField, XStrField

from ecmproto.formats.bcn import TYPES
from ecmproto.formats.experimental import DEFAULT_CPID
from ecmproto.layers.fields import CPIDField, EtypeField, word
from ecmproto.layers.sample import Sampling
from ecmproto.layers.tag import Tag
from ecmproto.layers.whole import over_ether, whole_or_raw


class BCN(Sampling):
    """BCN message: feedback ``e`` (positive means increase) and the link's ``capacity`` in kb/s.

    ``type="STOP"`` (1) stops the flow.
    """

    name = "BCN message"
    fields_desc = [
        *word(protocol=1, types=TYPES),
        CPIDField("cpid", DEFAULT_CPID),
        SignedIntField("e", 0),
        IntField("capacity", 0),
        XStrField("sample", b""),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Whose feedback, and how much."""
        return over_ether(self.sprintf("BCN %type% cpid=%cpid% e=%e% capacity=%capacity%kb/s"))


class RRTTag(Tag):
    """RRT tag: names the congestion point that regulates the frame's flow."""

    name = "RRT tag"
    fields_desc = [
        *word(protocol=1),
        CPIDField("cpid", DEFAULT_CPID),
        EtypeField("etype"),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Whose regulation, and the type of what follows."""
        return self.sprintf("RRTTag cpid=%cpid% (%etype%)")
