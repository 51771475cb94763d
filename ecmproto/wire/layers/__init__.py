"""Scapy layers for every format, which can be built, dissected and subclassed like Scapy's own layers.

>>> from ecmproto.wire.layers import CNM, CNTag, bind
>>> from scapy.layers.l2 import Dot1Q, Ether
>>> bind()                                     # unbind() removes the bindings
>>> Ether(dst="02:00:00:00:00:01") / Dot1Q(prio=6) / CNTag(flow_id=7) / CNM(qntz_fb=40)

Importing this package does not bind the layers.

Scapy already has layers for some formats: Dot1Q, Dot1AD (S-TAG) and Dot1AH (I-TAG) for VLAN and PBB tags, and
BTH, GRH, AETH and CNPPadding of `scapy.contrib.roce` for RoCE. `bind` imports `scapy.contrib.roce`.

This package prevents Scapy from reading the host's routes, which would make the import slow. To send IP
packets by route, call ``conf.route.resync()`` or import ``scapy.all`` first.
"""

import sys

from scapy.config import conf

if "scapy.route" not in sys.modules:
    conf.route_autoload = conf.route6_autoload = False

# the import of the layers loads Scapy's layers, which read these settings
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
