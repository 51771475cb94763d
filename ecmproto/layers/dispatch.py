"""Which layer stands behind an EtherType, and where layers share one, which of them.

The formats of `ecmproto.codec` say by which discriminator word or opcode they are told apart; each of
them has one layer here.
"""

from __future__ import annotations

from typing import Any

from scapy.config import conf
from scapy.layers.l2 import Dot1AD, Dot1AH, Dot1Q
from scapy.packet import Packet

from ecmproto import codec
from ecmproto.formats.registry import dispatch
from ecmproto.layers.bcn import BCN, RRTTag
from ecmproto.layers.cn import CNM, CNTag
from ecmproto.layers.e2cm import E2CM
from ecmproto.layers.ecm import ECM, CMTag
from ecmproto.layers.experimental import UnknownMessage, UnknownTag
from ecmproto.layers.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.layers.lldp import LLDPTLV, LLDPCongestionNotification
from ecmproto.layers.mac_control import PFC, MACControl, Pause

LAYERS: dict[type[codec.Layer], type[Packet]] = {
    codec.CNTag: CNTag,
    codec.CNM: CNM,
    codec.ECM: ECM,
    codec.CMTag: CMTag,
    codec.BCN: BCN,
    codec.RRTTag: RRTTag,
    codec.E2CM: E2CM,
    codec.RDTag: RDTag,
    codec.FECNReturn: FECNReturn,
    codec.DBPRateReport: DBPRateReport,
    codec.UnknownMessage: UnknownMessage,
    codec.UnknownTag: UnknownTag,
    codec.Pause: Pause,
    codec.PFC: PFC,
    codec.MACControl: MACControl,
    codec.TLV: LLDPTLV,
    codec.CongestionNotificationTLV: LLDPCongestionNotification,
}
"""The layer of each format that this package has one for."""

VLAN_LAYERS: dict[str, type[Packet]] = {"c_tag": Dot1Q, "s_tag": Dot1AD, "i_tag": Dot1AH}
"""Scapy's own layers by their role in the EtherType map."""

RENAMED = {"payload": "sample"}
"""Fields that cannot have their format's key as their name, since Scapy's Packet has it already."""

_FORMATS = dispatch()


def _behind(role: str, octets: bytes | None, otherwise: type[Packet]) -> type[Packet]:
    """Return the layer that ``octets`` are behind the EtherType of ``role``."""
    if not octets:
        return otherwise
    ethertype = getattr(_FORMATS.ethertypes, role)
    found = _FORMATS.announced(ethertype, octets, 0, len(octets))[0]
    if found.otherwise is not None and found.cannot_be(octets, 0, len(octets), len(octets)):
        found = found.otherwise
    cls = LAYERS[found]
    return cls.dispatch_hook(octets) if hasattr(cls, "dispatch_hook") else conf.raw_layer


class ExperimentalMessage(Packet):
    """Any message of the experimental EtherType: dissects as the layer that the word announces."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        """Return the layer by Protocol and Type."""
        return _behind("message", _pkt, UnknownMessage)


class ExperimentalTag(Packet):
    """Any tag of the experimental EtherType: dissects as the layer that the word announces."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        """Return the layer by Protocol and Type."""
        return _behind("tag", _pkt, UnknownTag)


class MACControlFrame(Packet):
    """Any MAC Control frame: dissects as the layer of its opcode."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        """Return the layer by opcode."""
        return _behind("mac_control", _pkt, MACControl)


class LLDPDU(Packet):
    """An LLDPDU: dissects as the layer of its first TLV."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        """Return the layer of the first TLV."""
        return _behind("lldp", _pkt, LLDPTLV)


DOORS: dict[str, type[Packet]] = {
    "cn_tag": CNTag,
    "cnm": CNM,
    "message": ExperimentalMessage,
    "tag": ExperimentalTag,
    "mac_control": MACControlFrame,
    "lldp": LLDPDU,
}
"""By role in the EtherType map, the layer that is asked to dissect."""
