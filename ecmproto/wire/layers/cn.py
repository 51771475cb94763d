"""Scapy layers for congestion notification of 802.1Q: the CN-TAG and the message (CNM)."""

from __future__ import annotations

from typing import Any, ClassVar

from scapy.layers.l2 import Dot3, Ether
from scapy.packet import Packet, Raw
from scapy.utils import mac2str

from ecmproto.wire import codec
from ecmproto.wire.layers.derived import fields_of
from ecmproto.wire.layers.parts import (
    LastLayer,
    Tag,
    frame_of,
    over_ether,
    raw_octets,
    whole_or_raw,
)


class CNTag(Tag):
    """CN-TAG, which identifies the flow of a data frame (802.1Q 32.2.1).

    >>> Ether() / Dot1Q(prio=3) / CNTag(flow_id=7) / IP() / UDP()
    """

    name = "Congestion notification tag (CN-TAG)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CNTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 0 for a CNM about another flow; otherwise return whether the payloads match."""
        if not isinstance(other, CNTag):
            return 0
        if isinstance(self.payload, CNM) and self.flow_id != other.flow_id:
            return 0
        return int(self.payload.answers(other.payload))

    def hashret(self) -> bytes:
        """Return the same value for every frame, so that Scapy compares a CNM with all data frames."""
        return b""

    def mysummary(self) -> str:
        """Return the flow and the type as summary."""
        return self.sprintf("CNTag flow_id=%flow_id% (%etype%)")


class CNM(LastLayer):
    """Congestion notification message (802.1Q 33.4).

    ``q_offset`` is Qeq − Qlen, negative when congested. ``msdu_length`` defaults to the length of ``msdu``.

    >>> Ether(dst="02:00:00:00:00:02") / Dot1Q(prio=6) / CNTag(flow_id=7) / CNM(qntz_fb=40, msdu=b"…")
    """

    name = "Congestion notification message (CNM)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CNM)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def encapsulated(self) -> Packet | None:
        """Return the part of the sampled frame in the MSDU, or ``None`` for an empty MSDU.

        The source of the sampled frame is the CNM's destination, or zero without an Ethernet header. The VLAN
        tag and CN-TAG of the sampled frame are before the CNM and are not included.
        """
        msdu = raw_octets(self, "msdu")
        if len(msdu) < 2:
            return Raw(msdu) if msdu else None
        source = _destination_below(self)
        return frame_of(raw_octets(self, "encap_dst") + (mac2str(source) if source else bytes(6)) + msdu)

    def quotes(self, payload: Packet) -> bool:
        """Return whether ``payload``, the first layer after a frame's tags, matches the MSDU."""
        lower = payload.underlayer
        if lower is None:
            return False
        octets = _type_or_length_below(lower, payload) + bytes(payload)
        msdu = raw_octets(self, "msdu")
        return octets[: len(msdu)] == msdu and _destination_below(payload) in (None, self.encap_dst)

    def answers(self, other: Packet) -> int:
        """Return 1 if the MSDU matches the frame ``other``."""
        return int(not isinstance(other, CNM) and self.quotes(other))

    def mysummary(self) -> Any:
        """Return the addresses, flow, feedback, congestion point and queue length as summary."""
        shown = "CNM qntz_fb=%qntz_fb% cpid=%cpid% q_offset=%q_offset% q_delta=%q_delta%"
        return over_ether(self.sprintf(shown), CNTag)


def _destination_below(packet: Packet) -> str | None:
    """Return the destination in the Ethernet header before a layer, or ``None`` if no destination is set."""
    lower = packet.underlayer
    while lower is not None and not isinstance(lower, Ether | Dot3):
        lower = lower.underlayer
    return None if lower is None or lower.fields.get("dst") is None else str(lower.dst)


def _type_or_length_below(lower: Packet, payload: Packet) -> bytes:
    octets = bytes(lower)
    start = len(octets) - len(bytes(payload))
    return octets[start - 2 : start]
