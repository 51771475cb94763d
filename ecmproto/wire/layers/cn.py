"""Congestion notification of 802.1Q as Scapy layers: the CN-TAG and the message (CNM)."""

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
    """CN-TAG with the flow of a data frame (802.1Q 32.2.1).

    >>> Ether() / Dot1Q(prio=3) / CNTag(flow_id=7) / IP() / UDP()
    """

    name = "Congestion notification tag (CN-TAG)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CNTag)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def answers(self, other: Packet) -> int:
        """Return 1 for a CNM about a frame of the same flow; otherwise the payloads decide."""
        if not isinstance(other, CNTag):
            return 0
        if isinstance(self.payload, CNM) and self.flow_id != other.flow_id:
            return 0
        return int(self.payload.answers(other.payload))

    def hashret(self) -> bytes:
        """Return the same octets for every frame: a CNM has to find the data frame that it answers."""
        return b""

    def mysummary(self) -> str:
        """Return the summary: flow and type."""
        return self.sprintf("CNTag flow_id=%flow_id% (%etype%)")


class CNM(LastLayer):
    """Congestion notification message (802.1Q 33.4).

    ``q_offset`` is Qeq − Qlen: negative when congested.  ``msdu_length`` counts ``msdu`` when left out.

    >>> Ether(dst="02:00:00:00:00:02") / Dot1Q(prio=6) / CNTag(flow_id=7) / CNM(qntz_fb=40, msdu=b"…")
    """

    name = "Congestion notification message (CNM)"
    fields_desc: ClassVar[list[Any]] = fields_of(codec.CNM)
    dispatch_hook: Any = classmethod(whole_or_raw)

    def encapsulated(self) -> Packet | None:
        """Return the sampled frame as far as the MSDU contains it, None without one.

        Its source is the CNM's destination, zero without an Ethernet header below.  VLAN tag and CN-TAG of
        the sampled frame are before the CNM, not in here.
        """
        msdu = raw_octets(self, "msdu")
        if len(msdu) < 2:
            return Raw(msdu) if msdu else None
        source = _destination_below(self)
        return frame_of(raw_octets(self, "encap_dst") + (mac2str(source) if source else bytes(6)) + msdu)

    def quotes(self, payload: Packet) -> bool:
        """Return whether ``payload``, the first layer of a frame after its tags, matches the MSDU."""
        lower = payload.underlayer
        if lower is None:
            return False
        octets = _type_or_length_below(lower, payload) + bytes(payload)
        msdu = raw_octets(self, "msdu")
        return octets[: len(msdu)] == msdu and _destination_below(payload) in (None, self.encap_dst)

    def answers(self, other: Packet) -> int:
        """Return 1 for the frame that it quotes."""
        return int(not isinstance(other, CNM) and self.quotes(other))

    def mysummary(self) -> Any:
        """Return the feedback, its congestion point and queue length, after addresses and flow."""
        shown = "CNM qntz_fb=%qntz_fb% cpid=%cpid% q_offset=%q_offset% q_delta=%q_delta%"
        return over_ether(self.sprintf(shown), CNTag)


def _destination_below(packet: Packet) -> str | None:
    """Return the destination in the Ethernet header under a layer; None if it is not set."""
    lower = packet.underlayer
    while lower is not None and not isinstance(lower, Ether | Dot3):
        lower = lower.underlayer
    return None if lower is None or lower.fields.get("dst") is None else str(lower.dst)


def _type_or_length_below(lower: Packet, payload: Packet) -> bytes:
    octets = bytes(lower)
    start = len(octets) - len(bytes(payload))
    return octets[start - 2 : start]
