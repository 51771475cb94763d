"""Decoding of octets into frames and encoding of frames, for every format of the five documents.

>>> from ecmproto.codec import decode, encode
>>> frame = decode(octets)                  # DecodeError when malformed; decode_lax never raises
>>> frame[CNM].qntz_fb, frame.spans("cnm.qntz_fb")
>>> encode(frame) == octets
"""

from ecmproto.codec.frame import Frame, Placed, Span, decode, decode_lax, encapsulated, encode
from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import BCN, RRTTag
from ecmproto.formats.cn import CNM, CNTag
from ecmproto.formats.csig import CSIG
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM, CMTag
from ecmproto.formats.ethernet import MSDU, VLAN, Data, Ethernet, ITag, STag
from ecmproto.formats.ethertypes import EtherTypes
from ecmproto.formats.experimental import UnknownMessage, UnknownTag
from ecmproto.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.formats.infiniband import AETH, BTH, CNP, GRH, ICRC, RETH
from ecmproto.formats.ip import ARP, TCP, UDP, EthernetARP, IPv4, IPv4ARP, IPv6, OtherARP
from ecmproto.formats.lldp import TLV, CongestionNotificationTLV
from ecmproto.formats.mac_control import PFC, MACControl, Pause
from ecmproto.formats.schema import Field

__all__ = [
    "AETH", "ARP", "BCN", "BTH", "CNM", "CNP", "CSIG", "E2CM", "ECM", "GRH", "ICRC", "MSDU", "PFC",
    "RETH", "TCP", "TLV", "UDP", "VLAN", "CMTag", "CNTag", "CongestionNotificationTLV", "DBPRateReport",
    "Data", "EtherTypes", "Ethernet", "EthernetARP", "FECNReturn", "Field", "Frame", "IPv4", "IPv4ARP",
    "IPv6", "ITag", "Layer", "MACControl", "OtherARP", "Pause", "Placed", "RDTag", "RRTTag", "STag",
    "Span", "UnknownMessage", "UnknownTag", "decode", "decode_lax", "encapsulated", "encode",
]  # fmt: skip
