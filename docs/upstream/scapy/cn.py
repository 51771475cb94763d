# SPDX-License-Identifier: GPL-2.0-only
# This file is part of Scapy
# See https://scapy.net/ for more information

# scapy.contrib.description = Congestion notification of IEEE 802.1Q (QCN)
# scapy.contrib.status = loads

"""
Congestion notification, IEEE 802.1Q-2018 clauses 30 to 33 (802.1Qau)

The CN-TAG names the flow of a data frame; a congestion point answers with a
congestion notification message (CNM), which quotes the beginning of the
frame. Both have an EtherType.
"""

from scapy.data import ETHER_TYPES
from scapy.fields import (
    BitField,
    FieldLenField,
    MACField,
    ShortField,
    SignedShortField,
    StrLenField,
    XLongField,
    XShortEnumField,
)
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, bind_layers

ETHERTYPE_CNM = 0x22E7
ETHERTYPE_CN_TAG = 0x22E9


class CNTag(Packet):
    """CN-TAG, 802.1Q 32.2.1: after its EtherType, the flow and the next type"""

    name = "CN-TAG"
    fields_desc = [
        ShortField("flow_id", 0),
        XShortEnumField("type", 0x0000, ETHER_TYPES),
    ]

    def mysummary(self):
        return self.sprintf("CNTag flow_id=%flow_id% (%type%)")


class CNM(Packet):
    """Congestion notification message, 802.1Q 33.4

    q_offset and q_delta count units of 64 octets; q_offset is negative when
    the queue is longer than its set point.
    """

    name = "CNM"
    fields_desc = [
        BitField("version", 0, 4),
        BitField("reserved", 0, 6),
        BitField("qntz_fb", 0, 6),
        XLongField("cpid", 0),
        SignedShortField("q_offset", 0),
        SignedShortField("q_delta", 0),
        BitField("encap_prio", 0, 3),
        BitField("encap_reserved", 0, 13),
        MACField("encap_dst", "00:00:00:00:00:00"),
        FieldLenField("msdu_length", None, length_of="msdu"),
        StrLenField("msdu", b"", length_from=lambda pkt: pkt.msdu_length),
    ]

    def mysummary(self):
        return self.sprintf("CNM qntz_fb=%qntz_fb% cpid=%cpid%")


for lower in (Ether, Dot1Q, Dot1AD, CNTag):
    bind_layers(lower, CNM, type=ETHERTYPE_CNM)
    if lower is not CNTag:
        bind_layers(lower, CNTag, type=ETHERTYPE_CN_TAG)
bind_layers(CNTag, Dot1Q, type=0x8100)
bind_layers(CNTag, IP, type=0x0800)
bind_layers(CNTag, IPv6, type=0x86DD)
