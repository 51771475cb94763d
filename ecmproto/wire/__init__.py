"""What the bytes mean: every format of the five documents, decoding and encoding.

>>> from ecmproto.wire import decode, encode
>>> frame = decode(octets)                  # DecodeError when malformed; decode_lax never raises
>>> frame[CNM].qntz_fb, frame.spans("cnm.qntz_fb")
>>> encode(frame) == octets
"""

from ecmproto.wire.bcn import BCN, RRTTag
from ecmproto.wire.cn import CNM, CNTag
from ecmproto.wire.decoder import decode, decode_lax, encapsulated
from ecmproto.wire.e2cm import E2CM
from ecmproto.wire.ecm import ECM, CMTag
from ecmproto.wire.encoder import encode
from ecmproto.wire.ethernet import MSDU, VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.ethertypes import EtherTypes
from ecmproto.wire.experimental import UnknownMessage, UnknownTag
from ecmproto.wire.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.frame import Frame, Placed, Span
from ecmproto.wire.ip import ARP, TCP, UDP, IPv4, IPv6
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field
from ecmproto.wire.lldp import TLV, CongestionNotificationTLV
from ecmproto.wire.mac_control import PFC, MACControl, Pause

__all__ = [
    "ARP", "BCN", "CNM", "E2CM", "ECM", "MSDU", "PFC", "TCP", "TLV", "UDP", "VLAN", "CMTag", "CNTag",
    "CongestionNotificationTLV", "DBPRateReport", "Data", "EtherTypes", "Ethernet", "FECNReturn", "Field",
    "Frame", "IPv4", "IPv6", "ITag", "Layer", "MACControl", "Pause", "Placed", "RDTag", "RRTTag", "STag",
    "Span", "UnknownMessage", "UnknownTag", "decode", "decode_lax", "encapsulated", "encode",
]  # fmt: skip
