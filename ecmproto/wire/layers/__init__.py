"""Scapy layers for every format: build, dissect, subclass them like Scapy's own.

>>> from ecmproto.wire.layers import CNM, CNTag, bind
>>> from scapy.layers.l2 import Dot1Q, Ether
>>> bind()                                     # explicit; unbind() undoes it
>>> Ether(dst="02:00:00:00:00:01") / Dot1Q(prio=6) / CNTag(flow_id=7) / CNM(qntz_fb=40)

Importing this binds nothing.  Scapy's own Dot1Q, Dot1AD (S-TAG) and Dot1AH (I-TAG) serve for VLAN and PBB
tags; for RoCE BTH, GRH, AETH and CNPPadding of its `scapy.contrib.roce`, which `bind` loads.  So that
importing stays quick, Scapy does not read the host's routes; to send IP packets by route, call
``conf.route.resync()``, or import ``scapy.all`` first.
"""

import sys

from scapy.config import conf

if "scapy.route" not in sys.modules:
    conf.route_autoload = conf.route6_autoload = False

# the layers load Scapy's, which read those settings
from ecmproto.wire.layers.bindings import (
    CSIG,
    Branch,
    bind,
    bound,
    bound_ethertypes,
    from_scapy,
    payload_text,
    payload_tree,
    to_scapy,
    unbind,
)
from ecmproto.wire.layers.cn import CNM, CNTag
from ecmproto.wire.layers.infiniband import DETH, IETH, RDETH, RETH, AtomicETH, ImmDt
from ecmproto.wire.layers.lldp import LLDPTLV, LLDPCongestionNotification
from ecmproto.wire.layers.mac_control import PFC, MACControl, Pause
from ecmproto.wire.layers.parts import CPIDField, EtypeField, Tag
from ecmproto.wire.layers.proposals import (
    BCN,
    E2CM,
    ECM,
    CMTag,
    DBPRateReport,
    FECNReturn,
    RDTag,
    RRTTag,
    UnknownMessage,
    UnknownTag,
)

__all__ = [
    "BCN", "CNM", "CSIG", "DETH", "E2CM", "ECM", "IETH", "LLDPTLV", "PFC", "RDETH", "RETH", "AtomicETH",
    "Branch", "CMTag", "CNTag", "CPIDField", "DBPRateReport", "EtypeField", "FECNReturn", "ImmDt",
    "LLDPCongestionNotification", "MACControl", "Pause", "RDTag", "RRTTag", "Tag", "UnknownMessage",
    "UnknownTag", "bind", "bound", "bound_ethertypes", "from_scapy", "payload_text", "payload_tree",
    "to_scapy", "unbind",
]  # fmt: skip
