"""Cisco's Ethernet Congestion Manager as Scapy layers: the ECM frame and the CM-Tag."""

from __future__ import annotations

from typing import Any

from scapy.fields import BitField, ShortField, SignedShortField, XStrField

from ecmproto.formats.experimental import DEFAULT_CPID
from ecmproto.layers.fields import CPIDField, EtypeField, word
from ecmproto.layers.sample import Sampling
from ecmproto.layers.tag import Tag
from ecmproto.layers.whole import over_ether, whole_or_raw


class ECM(Sampling):
    """ECM frame: how far a queue is from its equilibrium.

    ``q_off`` is Qlen − Qeq: positive when congested, the opposite of a CNM's ``q_offset``.
    """

    name = "ECM frame"
    fields_desc = [
        *word(protocol=0),
        CPIDField("cpid", DEFAULT_CPID),
        SignedShortField("q_off", 0),
        SignedShortField("q_delta", 0),
        ShortField("timestamp", 0),
        BitField("unit", 0, 4),
        BitField("reserved2", 0, 12),
        XStrField("sample", b""),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> Any:
        """Whose feedback, and how much."""
        return over_ether(self.sprintf("ECM cpid=%cpid% q_off=%q_off% q_delta=%q_delta%"))


class CMTag(Tag):
    """CM-Tag: ties a rate-limited frame to the congestion point that limits it; ``protocol=2`` in E²CM."""

    name = "CM-Tag"
    fields_desc = [
        *word(protocol=0),
        CPIDField("cpid", DEFAULT_CPID),
        ShortField("timestamp", 0),
        BitField("unit", 0, 4),
        BitField("reserved2", 0, 12),
        EtypeField("etype"),
    ]
    dispatch_hook = classmethod(whole_or_raw)

    def mysummary(self) -> str:
        """Whose limit, and the type of what follows."""
        return self.sprintf("CMTag cpid=%cpid% (%etype%)")
