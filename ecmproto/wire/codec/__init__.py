"""Decoding and encoding of frames, for all formats.

>>> from ecmproto.wire.codec import decode, encode
>>> frame = decode(octets)                  # raises DecodeError if malformed; decode_lax never raises
>>> frame[CNM].qntz_fb, frame.spans("cnm.qntz_fb")
>>> encode(frame) == octets
"""

from ecmproto.wire.codec.frame import Frame, Placed, Span, decode, decode_lax, encapsulated, encode
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.bcn import BCN, RRTTag
from ecmproto.wire.formats.cn import CNM, CNTag
from ecmproto.wire.formats.csig import CSIG
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.ecm import ECM, CMTag
from ecmproto.wire.formats.ethernet import MSDU, VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.experimental import UnknownMessage, UnknownTag
from ecmproto.wire.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.formats.infiniband import AETH, BTH, CNP, GRH, ICRC, RETH
from ecmproto.wire.formats.ip import ARP, TCP, UDP, EthernetARP, IPv4, IPv4ARP, IPv6, OtherARP
from ecmproto.wire.formats.lldp import TLV, CongestionNotificationTLV
from ecmproto.wire.formats.mac_control import PFC, MACControl, Pause
from ecmproto.wire.formats.schema import Field

__all__ = [
    "AETH", "ARP", "BCN", "BTH", "CNM", "CNP", "CSIG", "E2CM", "ECM", "GRH", "ICRC", "MSDU", "PFC",
    "RETH", "TCP", "TLV", "UDP", "VLAN", "CMTag", "CNTag", "CongestionNotificationTLV", "DBPRateReport",
    "Data", "EtherTypes", "Ethernet", "EthernetARP", "FECNReturn", "Field", "Frame", "IPv4", "IPv4ARP",
    "IPv6", "ITag", "Layer", "MACControl", "OtherARP", "Pause", "Placed", "RDTag", "RRTTag", "STag",
    "Span", "UnknownMessage", "UnknownTag", "decode", "decode_lax", "encapsulated", "encode",
]  # fmt: skip
