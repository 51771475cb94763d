"""Known answers: a frame of every format, octet by octet from wire-formats.md, with its fields.

The octets do not come from the code under test. Stations are 02:00:00:00:00:01 and :02. The congestion point
is 02:00:00:00:00:cc with local identifier 1.
"""

from __future__ import annotations

import dataclasses
import zlib

from ecmproto.wire.codec import (
    ARP,
    BCN,
    CNM,
    E2CM,
    ECM,
    PFC,
    TCP,
    TLV,
    UDP,
    VLAN,
    CMTag,
    CNTag,
    CongestionNotificationTLV,
    Data,
    DBPRateReport,
    Ethernet,
    EthernetARP,
    FECNReturn,
    IPv4,
    IPv4ARP,
    IPv6,
    ITag,
    Layer,
    MACControl,
    OtherARP,
    Pause,
    RDTag,
    RRTTag,
    STag,
    UnknownMessage,
    UnknownTag,
)
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEEPFC,
    CEETLV,
    Application,
    Applications,
    CEEApplication,
    CEEApplications,
    CEEControl,
    CEEGroups,
    ETSConfiguration,
    ETSRecommendation,
    PFCConfiguration,
)
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3, Platform
from ecmproto.wire.formats.ethernet import SNAP, OtherLLC, OtherSNAP
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import GRE, GREChecksum, GREKey, GRESequence
from ecmproto.wire.formats.hpcc import HPCCAck, INTTag
from ecmproto.wire.formats.infiniband import (
    AETH,
    BTH,
    CNP,
    DETH,
    GRH,
    ICRC,
    IETH,
    RDETH,
    RETH,
    AtomicAckETH,
    AtomicETH,
    ImmDt,
)
from ecmproto.wire.formats.ip import AH, DestinationOptions, FragmentHeader, HopByHop, Routing
from ecmproto.wire.formats.isolation import CIM
from ecmproto.wire.formats.lldp import IEEE8021TLV, IEEE8023TLV, OrganizationTLV
from ecmproto.wire.formats.mpls import MPLS, ControlWord
from ecmproto.wire.formats.tzsp import TZSP, Mark, Tag
from ecmproto.wire.formats.vxlan import GPE, VXLAN
from tests.standards.octets import octets

ONE = bytes.fromhex("020000000001")
TWO = bytes.fromhex("020000000002")
CP = bytes.fromhex("0200000000cc")
CPID = 0x0200_0000_00CC_0001
HOST_1, HOST_2 = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownAnswer:
    """A frame and its fields."""

    name: str
    octets: bytes
    layers: tuple[Layer, ...]
    padding: int = 0
    trailer: bytes = b""

    def __str__(self) -> str:
        return self.name


IP_UDP = octets("""
    45 00 00 2e   # version 4, header 5 words, DSCP 0, total length 46
    00 00 00 00   # identification, flags, fragment offset
    40 11 66 bd   # TTL 64, UDP, checksum by hand: ~(4500+002e+4011+0a00+0001+0a00+0002) = ~9942
    0a 00 00 01   # 10.0.0.1
    0a 00 00 02   # 10.0.0.2
    03 e8 07 d0   # ports 1000, 2000
    00 1a 00 00   # length 26, no checksum
    00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11
""")
IP_UDP_LAYERS = (
    IPv4(len=46, proto=17, checksum=0x66BD, src=HOST_1, dst=HOST_2),
    UDP(srcport=1000, dstport=2000, length=26),
    Data(data=bytes(range(18))),
)

CN_TAG = KnownAnswer(
    name="CN-TAG behind a VLAN tag",
    octets=octets("""
        02 00 00 00 00 02   # DA
        02 00 00 00 00 01   # SA
        81 00 60 64         # C-TAG: priority 3, DEI 0, VLAN 100
        22 e9 00 2a         # CN-TAG: flow 42
        08 00               # payload: IPv4
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x8100),
        VLAN(priority=3, id=100, etype=0x22E9),
        CNTag(flow_id=42, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

CN_TAG_UNTAGGED = KnownAnswer(
    name="CN-TAG without a VLAN tag",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        22 e9 ff ff         # CN-TAG: flow 65535
        88 f7               # payload: an EtherType not decoded here
    """) + bytes(range(42)),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x22E9),
        CNTag(flow_id=0xFFFF, etype=0x88F7),
        Data(data=bytes(range(42))),
    ),
)  # fmt: skip

CNM_SHORT = KnownAnswer(
    name="short CNM, padded",
    octets=octets("""
        02 00 00 00 00 01         # DA: the sampled frame's source
        02 00 00 00 00 cc         # SA: the congestion point
        81 00 c0 64               # C-TAG: priority 6, VLAN 100
        22 e9 00 2a               # CN-TAG: the sampled frame's flow
        22 e7                     # CNM
        00 28                     # version 0, ReservedV 0, Quantized Feedback 40
        02 00 00 00 00 cc 00 01   # CPID: MAC, local identifier 1
        ff 9c                     # cnmQOffset -100: congested
        00 0c                     # cnmQDelta +12: growing
        60 00                     # Encapsulated priority 3
        02 00 00 00 00 02         # Encapsulated destination MAC
        00 02                     # Encapsulated MSDU length
        08 00                     # Encapsulated MSDU
        00 00 00 00 00 00 00 00 00 00 00 00   # padding to 60
    """),
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x8100),
        VLAN(priority=6, id=100, etype=0x22E9),
        CNTag(flow_id=42, etype=0x22E7),
        CNM(
            qntz_fb=40, cpid=CPID, q_offset=-100, q_delta=12, encap_prio=3, encap_dst=TWO, msdu_length=2,
            msdu=b"\x08\x00",
        ),
    ),
    padding=12,
)  # fmt: skip

CNM_LONG = KnownAnswer(
    name="CNM with an MSDU of 64 octets",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        22 e9 00 00               # CN-TAG: flow 0, the sampled frame had none
        22 e7
        00 3f                     # Quantized Feedback 63
        02 00 00 00 00 cc 00 01
        80 00                     # cnmQOffset -32768, saturated
        7f ff                     # cnmQDelta 32767, saturated
        e0 00                     # Encapsulated priority 7
        02 00 00 00 00 02
        00 40                     # Encapsulated MSDU length 64
        88 f7                     # MSDU: payload EtherType
    """) + bytes(range(62)),      # and 62 octets
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x22E9),
        CNTag(flow_id=0, etype=0x22E7),
        CNM(
            qntz_fb=63, cpid=CPID, q_offset=-32768, q_delta=32767, encap_prio=7, encap_dst=TWO,
            msdu_length=64, msdu=b"\x88\xf7" + bytes(range(62)),
        ),
    ),
)  # fmt: skip

_SAMPLED_24 = octets("""
    02 00 00 00 00 02 02 00 00 00 00 01   # the sampled frame: DA, SA
    81 00 60 64                           # its VLAN tag
    08 00 45 00 00 2e 00 00               # and eight octets more
""")

ECM_TAGGED = KnownAnswer(
    name="ECM",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        81 00 e0 64               # C-TAG: priority 7, VLAN 100
        88 b5                     # message
        08 00                     # version 0, Q 1, protocol 0 (ECM), type 0, reserved 0
        02 00 00 00 00 cc 00 01   # CPID
        00 19                     # Qoff +25: congested
        ff fd                     # Qdelta -3
        12 34                     # timestamp
        50 00                     # unit 5: one tick is 32 µs; reserved 0
    """) + _SAMPLED_24,
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x8100),
        VLAN(priority=7, id=100, etype=0x88B5),
        ECM(q=1, cpid=CPID, q_off=25, q_delta=-3, timestamp=0x1234, unit=5, payload=_SAMPLED_24),
    ),
)  # fmt: skip

_SAMPLED_28 = octets("02 00 00 00 00 02 02 00 00 00 00 01 88 f7") + bytes(range(14))

ECM_ZERO = KnownAnswer(
    name="ECM(0,0), untagged",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        88 b5
        00 00                     # word: ECM
        02 00 00 00 00 cc 00 01
        00 00 00 00               # Qoff 0, Qdelta 0
        00 00 00 00               # no CM-Tag: timestamp 0, unit 0
    """) + _SAMPLED_28,           # 28 octets when untagged: 60 in all
    layers=(Ethernet(dst=ONE, src=CP, type=0x88B5), ECM(cpid=CPID, payload=_SAMPLED_28)),
)  # fmt: skip

_SAMPLED_48 = _SAMPLED_24 + bytes(range(24))

ECM_MAX = KnownAnswer(
    name="ECM-Max",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        88 b5
        08 00                     # Q: Qdelta is saturated
        02 00 00 00 00 cc 00 01
        3f ff                     # Qoff = Qeq, the largest that is allowed: 16383
        7f fe                     # Qdelta = 2 Qeq
        00 00 00 00
    """) + _SAMPLED_48,
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x88B5),
        ECM(q=1, cpid=CPID, q_off=16383, q_delta=32766, payload=_SAMPLED_48),
    ),
)  # fmt: skip

CM_TAG = KnownAnswer(
    name="CM-Tag",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        81 00 60 64
        88 b6                     # tag
        00 00                     # word: ECM
        02 00 00 00 00 cc 00 01   # CPID of the rate limiter
        00 ff                     # timestamp
        30 00                     # unit 3, reserved 0
        08 00
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x8100),
        VLAN(priority=3, id=100, etype=0x88B6),
        CMTag(cpid=CPID, timestamp=255, unit=3, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

CM_TAG_E2CM = KnownAnswer(
    name="CM-Tag of E2CM",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 b6
        02 00                     # word: protocol 2
        02 00 00 00 00 cc 00 01
        00 00 00 00
        08 00
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88B6), CMTag(protocol=2, cpid=CPID, etype=0x0800), *IP_UDP_LAYERS,
    ),
)  # fmt: skip

BCN_NORMAL = KnownAnswer(
    name="BCN, normal",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        88 b5
        01 00                     # word: protocol 1, type 0
        02 00 00 00 00 cc 00 01
        ff ff ff fb               # e = -5: decrease
        00 98 96 80               # C = 10 000 000 kb/s
    """) + _SAMPLED_28,
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x88B5),
        BCN(cpid=CPID, e=-5, capacity=10_000_000, payload=_SAMPLED_28),
    ),
)  # fmt: skip

BCN_STOP = KnownAnswer(
    name="BCN, STOP",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        81 00 e0 64
        88 b5
        01 10                     # word: protocol 1, type 1
        02 00 00 00 00 cc 00 01
        80 00 00 00               # e: the least there is
        ff ff ff ff               # C: the most there is
    """) + _SAMPLED_24,
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x8100),
        VLAN(priority=7, id=100, etype=0x88B5),
        BCN(type=1, cpid=CPID, e=-(1 << 31), capacity=0xFFFFFFFF, payload=_SAMPLED_24),
    ),
)  # fmt: skip

RRT_TAG = KnownAnswer(
    name="RRT tag",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 b6
        01 00                     # word: protocol 1
        02 00 00 00 00 cc 00 01
        08 00
    """) + IP_UDP,
    layers=(Ethernet(dst=TWO, src=ONE, type=0x88B6), RRTTag(cpid=CPID, etype=0x0800), *IP_UDP_LAYERS),
)  # fmt: skip


def _e2cm_message(type: int, name: str, offset: str, q_off: int, q_delta: int) -> KnownAnswer:
    return KnownAnswer(
        name=name,
        octets=octets(f"""
            02 00 00 00 00 01 02 00 00 00 00 cc
            81 00 e0 64
            88 b5
            02 {type}0                   # word: protocol 2
            02 00 00 00 00 cc 00 01
            {offset}                     # Qoff, Qdelta
            00 00 00 00                  # latency
            4e dd                        # flow of DA …02, SA …01, priority 3
            00 00 00 00                  # throughput
        """) + _SAMPLED_24,
        layers=(
            Ethernet(dst=ONE, src=CP, type=0x8100),
            VLAN(priority=7, id=100, etype=0x88B5),
            E2CM(type=type, cpid=CPID, q_off=q_off, q_delta=q_delta, flow_id=0x4EDD, payload=_SAMPLED_24),
        ),
    )  # fmt: skip


E2CM_BCN = _e2cm_message(0, "E2CM BCN", "00 19 ff fd", 25, -3)
E2CM_BCN_MAX = _e2cm_message(1, "E2CM BCN_MAX", "3f ff 7f fe", 16383, 32766)
E2CM_BCN_ZERO = _e2cm_message(2, "E2CM BCN_ZERO", "00 00 00 00", 0, 0)

E2CM_PROBE_FWD = KnownAnswer(
    name="E2CM BCN_PROBE_FWD",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01   # from the source to the destination
        88 b5
        02 30                     # word: protocol 2, type 3
        02 00 00 00 00 02 00 00   # CPID: the destination's MAC, 0
        00 00 00 00               # Qoff, Qdelta: 0 in probes
        fe dc ba 98               # the source's timestamp modulo 2^32
        4e dd                     # flow id
        00 00 00 00               # throughput: 0 in FWD
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88B5),
        E2CM(type=3, cpid=0x0200_0000_0002_0000, latency=0xFEDCBA98, flow_id=0x4EDD),
    ),
    padding=22,
)  # fmt: skip

E2CM_PROBE_REV = KnownAnswer(
    name="E2CM BCN_PROBE_REV",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 02   # back to the source
        81 00 e0 64
        88 b5
        02 40                     # word: protocol 2, type 4
        02 00 00 00 00 02 00 00
        00 00 00 00
        00 00 c3 50               # latency: 50 000 ns
        4e dd
        00 0f 42 40               # throughput: 1 000 000 kb/s
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    """),
    layers=(
        Ethernet(dst=ONE, src=TWO, type=0x8100),
        VLAN(priority=7, id=100, etype=0x88B5),
        E2CM(type=4, cpid=0x0200_0000_0002_0000, latency=50_000, flow_id=0x4EDD, throughput=1_000_000),
    ),
    padding=18,
)  # fmt: skip

RD_TAG = KnownAnswer(
    name="RD tag",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 b6
        03 00                     # word: protocol 3, type 0 (forward)
        00 07                     # RLQ-ID 7
        00 98 96 80               # rate 10 000 000 kb/s
        08 00
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88B6), RDTag(rlq_id=7, rate=10_000_000, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

_PADDING = "00" * 38

FECN_RETURN = KnownAnswer(
    name="FECN return",
    octets=octets(f"""
        02 00 00 00 00 01 02 00 00 00 00 02
        88 b5
        03 10                     # word: protocol 3, type 1 (returning)
        00 07
        ff ff ff fe               # the largest finite rate
        {_PADDING}
    """),
    layers=(Ethernet(dst=ONE, src=TWO, type=0x88B5), FECNReturn(rlq_id=7, rate=0xFFFFFFFE)),
    padding=38,
)  # fmt: skip

FECN_RETURN_INFINITY = KnownAnswer(
    name="FECN return of the initial rate, infinity",
    octets=octets(f"""
        02 00 00 00 00 01 02 00 00 00 00 02
        88 b5 03 10 00 01
        ff ff ff ff               # -1
        {_PADDING}
    """),
    layers=(Ethernet(dst=ONE, src=TWO, type=0x88B5), FECNReturn(rlq_id=1, rate=0xFFFFFFFF)),
    padding=38,
)  # fmt: skip

DBP_REPORT = KnownAnswer(
    name="DBP rate report",
    octets=octets(f"""
        02 00 00 00 00 01 02 00 00 00 00 02
        88 b5
        04 00                     # word: protocol 4, type 0
        00 00                     # RLQ-ID 0
        00 0f 42 40               # 1 000 000 kb/s
        {_PADDING}
    """),
    layers=(Ethernet(dst=ONE, src=TWO, type=0x88B5), DBPRateReport(rate=1_000_000)),
    padding=38,
)  # fmt: skip

INT_TAG = KnownAnswer(
    name="INT tag of two hops",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 b6
        05 00                     # word: protocol 5, type 0
        00 00 05 dc               # 1500 octets
        00 03                     # path
        40 02 46 80 00 c8 00 0a   # 100 Gb/s, 0x1234 ns, 100 units of 128 octets, a queue of 10 times 80
        00 00 00 20 00 00 00 00   # 25 Gb/s, 1 ns
    """) + bytes(24) + octets("00 02 08 00") + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88B6),
        INTTag(
            seq=1500, path=3, nhop=2, rate1=2, time1=0x1234, sent1=100, qlen1=10, time2=1, etype=0x0800,
        ),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

HPCC_ACKNOWLEDGEMENT = KnownAnswer(
    name="HPCC acknowledgement without a hop",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 02
        88 b5
        05 10                     # word: protocol 5, type 1
        ff ff ff ff
        00 00
    """) + bytes(42),
    layers=(Ethernet(dst=ONE, src=TWO, type=0x88B5), HPCCAck(seq=0xFFFFFFFF)),
)  # fmt: skip

ISOLATION_MESSAGE = KnownAnswer(
    name="congestion isolation message",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        88 b5
        06 00                     # word: protocol 6, type 0
        02 00 00 00 00 cc 00 01   # port, queue 1
        64 00                     # priority 3, queue 1
    """) + bytes(34),
    layers=(
        Ethernet(dst=ONE, src=bytes.fromhex("0200000000cc"), type=0x88B5),
        CIM(cpid=0x0200000000CC0001, priority=3, queue=1, payload=bytes(34)),
    ),
)  # fmt: skip

MAC_CONTROL_DA = bytes.fromhex("0180c2000001")

PAUSE = KnownAnswer(
    name="PAUSE",
    octets=octets("""
        01 80 c2 00 00 01 02 00 00 00 00 01
        88 08                     # MAC Control
        00 01                     # PAUSE
        ff ff                     # 65535 quanta
    """) + bytes(42),
    layers=(Ethernet(dst=MAC_CONTROL_DA, src=ONE, type=0x8808), Pause(pause_time=0xFFFF)),
    padding=42,
)  # fmt: skip

PFC_FRAME = KnownAnswer(
    name="PFC",
    octets=octets("""
        01 80 c2 00 00 01 02 00 00 00 00 01
        88 08
        01 01                     # PFC
        00 88                     # enabled: priorities 3 and 7
        00 01 00 02 00 03 ff ff   # times of priorities 0 to 3
        00 05 00 06 00 07 00 08   # and 4 to 7
    """) + bytes(26),
    layers=(
        Ethernet(dst=MAC_CONTROL_DA, src=ONE, type=0x8808),
        PFC(
            class_enable_vector=0x88, time0=1, time1=2, time2=3, time3=0xFFFF, time4=5, time5=6, time6=7,
            time7=8,
        ),
    ),
    padding=26,
)  # fmt: skip

MAC_CONTROL_OTHER = KnownAnswer(
    name="MAC Control of another opcode",
    octets=octets("""
        01 80 c2 00 00 01 02 00 00 00 00 01
        88 08
        00 02                     # GATE (802.3 64.3.6.1)
    """) + bytes(range(44)),
    layers=(
        Ethernet(dst=MAC_CONTROL_DA, src=ONE, type=0x8808), MACControl(opcode=2, body=bytes(range(44))),
    ),
)  # fmt: skip

LLDP_CN = KnownAnswer(
    name="LLDP with the Congestion Notification TLV",
    octets=octets("""
        01 80 c2 00 00 0e 02 00 00 00 00 01
        88 cc
        02 07 04 02 00 00 00 00 01   # Chassis ID: MAC address
        04 07 03 02 00 00 00 00 01   # Port ID: MAC address
        06 02 00 78                  # Time To Live: 120 s
        fe 06                        # type 127, length 6
        00 80 c2 08                  # OUI of 802.1, subtype Congestion Notification
        48 40                        # CNPV: priorities 3 and 6; Ready: priority 6
        00 00                        # End
    """) + bytes(14),
    layers=(
        Ethernet(dst=bytes.fromhex("0180c200000e"), src=ONE, type=0x88CC),
        TLV(type=1, length=7, value=b"\x04" + ONE),
        TLV(type=2, length=7, value=b"\x03" + ONE),
        TLV(type=3, length=2, value=b"\x00\x78"),
        CongestionNotificationTLV(cnpv=0x48, ready=0x40),
        TLV(),
    ),
    padding=14,
)  # fmt: skip

LLDP_QAZ = KnownAnswer(
    name="LLDP with DCBX of 802.1Qaz",
    octets=octets("""
        01 80 c2 00 00 0e 02 00 00 00 00 01
        88 cc
        06 02 00 78                  # Time To Live: 120 s
        fe 19 00 80 c2 09            # type 127, length 25, ETS Configuration
        84                           # willing, no CBS, 4 traffic classes
        00 03 00 00                  # priority 3 in traffic class 3, the others in 0
        32 00 00 32 00 00 00 00      # 50 % each for 0 and 3
        02 00 00 02 00 00 00 00      # ETS for 0 and 3, strict for the others
        fe 19 00 80 c2 0a            # ETS Recommendation
        00
        00 03 00 00
        32 00 00 32 00 00 00 00
        02 00 00 02 00 00 00 00
        fe 06 00 80 c2 0b            # PFC Configuration
        88 08                        # willing, 8 priorities; 3 is protected
        fe 08 00 80 c2 0c 00         # Application Priority
        63 12 b7                     # priority 3, UDP port 4791
        00 00                        # End
    """),
    layers=(
        Ethernet(dst=bytes.fromhex("0180c200000e"), src=ONE, type=0x88CC),
        TLV(type=3, length=2, value=b"\x00\x78"),
        ETSConfiguration(willing=1, maxtcs=4, prio3=3, per0=50, per3=50, tsa0=2, tsa3=2),
        ETSRecommendation(prio3=3, per0=50, per3=50, tsa0=2, tsa3=2),
        PFCConfiguration(willing=1, capability=8, enable=8),
        Applications(length=8),
        Application(priority=3, selector=3, protocol=4791),
        TLV(),
    ),
)  # fmt: skip

LLDP_CEE = KnownAnswer(
    name="LLDP with DCBX of CEE",
    octets=octets("""
        01 80 c2 00 00 0e 02 00 00 00 00 01
        88 cc
        06 02 00 78                  # Time To Live: 120 s
        fe 3b 00 1b 21 02            # type 127, length 59, CEE
        02 0a 00 00                  # control, length 10, versions 0
        00 00 00 07 00 00 00 06      # sequence 7, acknowledged 6
        04 11 00 00 c0 00            # priority groups, length 17: enabled, willing
        00 01 f0 00                  # priority 3 in group 1, 4 in 15
        3c 28 00 00 00 00 00 00 08   # 60 % and 40 %; 8 traffic classes
        06 06 00 00 c0 00 08 08      # PFC: enabled, willing, priority 3; 8 traffic classes
        08 0a 00 00 c0 00            # applications, length 10: enabled, willing
        89 06 00 1b 21 08            # FCoE in priority 3
        0a 02 61 62                  # another type, 5
        00 00                        # End
    """),
    layers=(
        Ethernet(dst=bytes.fromhex("0180c200000e"), src=ONE, type=0x88CC),
        TLV(type=3, length=2, value=b"\x00\x78"),
        CEE(length=59),
        CEEControl(seq=7, ack=6),
        CEEGroups(enabled=1, willing=1, prio3=1, prio4=15, per0=60, per1=40, numtcs=8),
        CEEPFC(enabled=1, willing=1, enable=8, numtcs=8),
        CEEApplications(length=10, enabled=1, willing=1),
        CEEApplication(protocol=0x8906, selector=0, oui=0x1B21, priorities=8),
        CEETLV(length=2, value=b"ab"),
        TLV(),
    ),
)  # fmt: skip

LLDP_ORGANIZATIONS = KnownAnswer(
    name="LLDP with TLVs of three organizations",
    octets=octets("""
        01 80 c2 00 00 0e 02 00 00 00 00 01
        88 cc
        06 02 00 78                  # Time To Live: 120 s
        fe 06 00 80 c2 01 00 64      # type 127, length 6, 802.1, Port VLAN ID 100
        fe 06 00 12 0f 04 05 f2      # 802.3, Maximum Frame Size 1522
        fe 05 00 1b 22 01 02         # another organization, subtype 1
        00 00                        # End
    """) + bytes(17),
    layers=(
        Ethernet(dst=bytes.fromhex("0180c200000e"), src=ONE, type=0x88CC),
        TLV(type=3, length=2, value=b"\x00\x78"),
        IEEE8021TLV(length=6, value=b"\x00\x64"),
        IEEE8023TLV(length=6, subtype=4, value=b"\x05\xf2"),
        OrganizationTLV(length=5, oui=0x1B22, subtype=1, value=b"\x02"),
        TLV(),
    ),
    padding=17,
)  # fmt: skip

SNAP_OF_AN_ORGANIZATION = KnownAnswer(
    name="SNAP with the protocol of an organization",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        00 2e                     # 46 octets follow
        aa aa 03                  # 802.2: SNAP, unnumbered information
        00 00 0c                  # Cisco
        20 00                     # CDP
    """) + bytes(38),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=46),
        OtherSNAP(dsap=0xAA, ssap=0xAA, control=3, oui=0x00000C, pid=0x2000),
        Data(data=bytes(38)),
    ),
)  # fmt: skip

QINQ = KnownAnswer(
    name="QinQ",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 a8 b0 c8               # S-TAG: priority 5, DEI 1, VLAN 200
        81 00 60 64               # C-TAG: priority 3, VLAN 100
        22 e9 00 2a               # CN-TAG
        08 00
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88A8),
        STag(priority=5, dei=1, id=200, etype=0x8100),
        VLAN(priority=3, id=100, etype=0x22E9),
        CNTag(flow_id=42, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

PBB = KnownAnswer(
    name="provider backbone",
    octets=octets("""
        02 00 00 00 00 bb 02 00 00 00 00 ba   # backbone DA, SA
        88 a8 90 0a               # B-TAG: priority 4, DEI 1, B-VLAN 10
        88 e7                     # I-TAG
        6c                        # priority 3, drop 0, NCA 1, reserved 1, 00
        00 12 34                  # I-SID 0x1234
        02 00 00 00 00 02         # C-DA
        02 00 00 00 00 01         # C-SA
        81 00 60 64
        22 e9 00 2a
        08 00
    """) + IP_UDP,
    layers=(
        Ethernet(dst=bytes.fromhex("0200000000bb"), src=bytes.fromhex("0200000000ba"), type=0x88A8),
        STag(priority=4, dei=1, id=10, etype=0x88E7),
        ITag(priority=3, nca=1, res1=1, isid=0x1234, cdst=TWO, csrc=ONE, etype=0x8100),
        VLAN(priority=3, id=100, etype=0x22E9),
        CNTag(flow_id=42, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip

LENGTH = KnownAnswer(
    name="802.3 length",
    octets=octets("""
        01 80 c2 00 00 00 02 00 00 00 00 01
        00 26                     # 38 octets follow
        42 42 03                  # LLC: a spanning tree BPDU
    """) + bytes(35) + bytes(8),
    layers=(
        Ethernet(dst=bytes.fromhex("0180c2000000"), src=ONE, type=38),
        OtherLLC(dsap=0x42, ssap=0x42, control=3), Data(data=bytes(35)),
    ),
    padding=8,
)  # fmt: skip

LENGTH_TAGGED = KnownAnswer(
    name="802.3 length behind a VLAN tag and a CN-TAG",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        81 00 60 64
        22 e9 00 01
        00 04                     # the length counts what follows it
        aa aa 03 00
    """) + bytes(34),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x8100),
        VLAN(priority=3, id=100, etype=0x22E9),
        CNTag(flow_id=1, etype=4),
        OtherLLC(dsap=0xAA, ssap=0xAA, control=3), Data(data=b"\0"),
    ),
    padding=34,
)  # fmt: skip

UNKNOWN_MESSAGE = KnownAnswer(
    name="message of an unassigned protocol",
    octets=octets("""
        02 00 00 00 00 01 02 00 00 00 00 cc
        88 b5
        15 2f                     # version 1, protocol 5, type 2, reserved 15
    """) + bytes(range(44)),
    layers=(
        Ethernet(dst=ONE, src=CP, type=0x88B5),
        UnknownMessage(version=1, protocol=5, type=2, reserved=15, body=bytes(range(44))),
    ),
)  # fmt: skip

UNKNOWN_TAG = KnownAnswer(
    name="tag of an unassigned type",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        88 b6
        03 10                     # protocol 3, but a message's type
    """) + bytes(range(44)),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x88B6), UnknownTag(protocol=3, type=1, body=bytes(range(44))),
    ),
)  # fmt: skip

ARP_REQUEST = KnownAnswer(
    name="ARP request",
    octets=octets("""
        ff ff ff ff ff ff 02 00 00 00 00 01
        08 06
        00 01 08 00 06 04 00 01   # Ethernet, IPv4, 6 and 4 octets, request
        02 00 00 00 00 01 0a 00 00 01
        00 00 00 00 00 00 0a 00 00 02
    """) + bytes(18),
    layers=(
        Ethernet(dst=b"\xff" * 6, src=ONE, type=0x0806),
        ARP(src_hw=ONE, src_proto=HOST_1, dst_proto=HOST_2),
    ),
    padding=18,
)  # fmt: skip

ARP_INFINIBAND = KnownAnswer(
    name="ARP reply over InfiniBand",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        08 06
        00 20 08 00 14 04 00 02   # InfiniBand, IPv4, 20 and 4 octets, reply
        80 00 00 48 fe 80 00 00 00 00 00 00 00 02 c9 03 00 0a 0b 0c
        0a 00 00 01
        80 00 00 49 fe 80 00 00 00 00 00 00 00 02 c9 03 00 0a 0b 0d
        0a 00 00 02
    """),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x0806),
        IPv4ARP(
            opcode=2,
            src_hw=bytes.fromhex("80000048fe800000000000000002c903000a0b0c"), src_proto=HOST_1,
            dst_hw=bytes.fromhex("80000049fe800000000000000002c903000a0b0d"), dst_proto=HOST_2,
        ),
    ),
)  # fmt: skip

ARP_CHAOS = KnownAnswer(
    name="ARP request of Chaosnet",
    octets=octets("""
        ff ff ff ff ff ff 02 00 00 00 00 01
        08 06
        00 01 08 04 06 02 00 01   # Ethernet, Chaosnet, 6 and 2 octets, request
        02 00 00 00 00 01 05 f1
        00 00 00 00 00 00 05 f2
    """) + bytes(22),
    layers=(
        Ethernet(dst=b"\xff" * 6, src=ONE, type=0x0806),
        EthernetARP(
            proto_type=0x0804, proto_size=2, src_hw=ONE, src_proto=b"\x05\xf1", dst_proto=b"\x05\xf2"
        ),
    ),
    padding=22,
)  # fmt: skip

ARP_OTHER = KnownAnswer(
    name="ARP request of Chaosnet over Chaosnet",
    octets=octets("""
        ff ff ff ff ff ff 02 00 00 00 00 01
        08 06
        00 05 08 04 02 02 00 01   # Chaosnet, Chaosnet, 2 and 2 octets, request
        05 f1 05 f1
        00 00 05 f2
    """) + bytes(30),
    layers=(
        Ethernet(dst=b"\xff" * 6, src=ONE, type=0x0806),
        OtherARP(
            hw_type=5, proto_type=0x0804, hw_size=2, proto_size=2,
            src_hw=b"\x05\xf1", src_proto=b"\x05\xf1", dst_hw=bytes(2), dst_proto=b"\x05\xf2",
        ),
    ),
    padding=30,
)  # fmt: skip

IPV6_TCP = KnownAnswer(
    name="IPv6 and TCP with options",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        86 dd
        6a b1 23 45               # version 6, class 0xab, flow 0x12345
        00 1a 06 40               # payload 26, TCP, hop limit 64
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
        00 50 c0 00               # ports 80, 49152
        00 00 00 01 00 00 00 02   # sequence, acknowledgment
        61 18 ff ff               # header 6 words, flags 0x118, window
        12 34 00 00               # checksum, urgent pointer
        02 04 05 b4               # option: MSS 1460
        68 69                     # data
    """),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x86DD),
        IPv6(
            tclass=0xAB, flow=0x12345, plen=26, nxt=6, src=b"\xfd" + bytes(14) + b"\x01",
            dst=b"\xfd" + bytes(14) + b"\x02",
        ),
        TCP(
            srcport=80, dstport=49152, seq_raw=1, ack_raw=2, data_offset=6, flags=0x118,
            window_size_value=0xFFFF, checksum=0x1234, options=b"\x02\x04\x05\xb4",
        ),
        Data(data=b"hi"),
    ),
)  # fmt: skip

IPV6_EXTENDED = KnownAnswer(
    name="IPv6 with extension headers in the order of RFC 8200 4.1",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        86 dd
        60 00 00 00
        00 5a 00 40               # payload 90: 8 + 8 + 24 + 8 + 24 + 8 + 8 + 2; hop-by-hop options
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
        3c 00                     # RFC 8200 4.3: destination options follow; 8 octets
        05 02 00 00               # router alert: MLD (RFC 2711)
        01 00                     # PadN
        2b 00                     # 4.6: a routing header follows; 8 octets
        01 04 00 00 00 00         # PadN
        2c 02                     # 4.4: a fragment header follows; 8 + 2 * 8 octets
        02 01                     # type 2 (RFC 6275 6.4), 1 segment left
        00 00 00 00               # reserved
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 03
        33 00                     # 4.5: an AH follows; reserved
        00 01                     # fragment offset 0, reserved 0, more fragments
        12 34 56 78               # identification
        3c 04                     # RFC 4302 2: destination options follow; 6 words less 2
        00 00                     # reserved
        00 00 01 00 00 00 00 07   # SPI, sequence number
        a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 aa ab
        11 00                     # 4.6: UDP follows; 8 octets
        01 04 00 00 00 00
        03 e8 07 d0 00 0a 12 34   # ports 1000, 2000, length 10, checksum
        68 69                     # data
    """),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x86DD),
        IPv6(
            plen=90, nxt=0, src=b"\xfd" + bytes(14) + b"\x01", dst=b"\xfd" + bytes(14) + b"\x02",
        ),
        HopByHop(nxt=60, len=0, options=b"\x05\x02\x00\x00\x01\x00"),
        DestinationOptions(nxt=43, len=0, options=b"\x01\x04" + bytes(4)),
        Routing(nxt=44, len=2, type=2, segleft=1, data=bytes(4) + b"\xfd" + bytes(14) + b"\x03"),
        FragmentHeader(nxt=51, offset=0, more=1, ident=0x12345678),
        AH(nxt=60, length=4, spi=0x100, sequence=7, icv=bytes(range(0xA0, 0xAC))),
        DestinationOptions(nxt=17, len=0, options=b"\x01\x04" + bytes(4)),
        UDP(srcport=1000, dstport=2000, length=10, checksum=0x1234),
        Data(data=b"hi"),
    ),
)  # fmt: skip

IPV6_LATER_FRAGMENT = KnownAnswer(
    name="IPv6 fragment that is neither the first nor the last",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        86 dd
        60 00 00 00
        00 10 2c 40               # payload 16, fragment header
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01
        fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02
        06 00                     # RFC 8200 4.5: of TCP, which is in the first fragment
        05 a9                     # fragment offset 181 (1448 octets), reserved 0, more fragments
        00 00 00 01               # identification
        01 02 03 04 05 06 07 08
    """),
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x86DD),
        IPv6(
            plen=16, nxt=44, src=b"\xfd" + bytes(14) + b"\x01", dst=b"\xfd" + bytes(14) + b"\x02",
        ),
        FragmentHeader(nxt=6, offset=181, more=1, ident=1),
        Data(data=bytes(range(1, 9))),
    ),
)  # fmt: skip

AH_IPV4 = KnownAnswer(
    name="AH behind IPv4",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        08 00
        45 00 00 46               # total length 70: 20 + 24 + 26
        00 00 00 00
        40 33 66 83               # AH; checksum by hand: ~(4500+0046+4033+0a00+0001+0a00+0002) = ~997c
        0a 00 00 01
        0a 00 00 02
        11 04                     # RFC 4302 2: UDP follows; 6 words less 2
        00 00                     # reserved
        01 02 03 04 00 00 00 09   # SPI, sequence number
        b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 ba bb
    """) + IP_UDP[20:],
    layers=(
        Ethernet(dst=TWO, src=ONE, type=0x0800),
        IPv4(len=70, proto=51, checksum=0x6683, src=HOST_1, dst=HOST_2),
        AH(nxt=17, length=4, spi=0x01020304, sequence=9, icv=bytes(range(0xB0, 0xBC))),
        *IP_UDP_LAYERS[1:],
    ),
)  # fmt: skip

SNAP_IPV4 = KnownAnswer(
    name="IPv4 behind LLC and SNAP",
    octets=octets("""
        02 00 00 00 00 02 02 00 00 00 00 01
        00 36                     # 54 octets follow: 8 + 46
        aa aa 03                  # 802.2: DSAP and SSAP of SNAP, unnumbered information
        00 00 00                  # RFC 1042: organisation 0, EtherTypes
        08 00                     # IPv4
    """) + IP_UDP,
    layers=(
        Ethernet(dst=TWO, src=ONE, type=54),
        SNAP(dsap=0xAA, ssap=0xAA, control=3, oui=0, etype=0x0800),
        *IP_UDP_LAYERS,
    ),
)  # fmt: skip


def roce(name: str, written: str, *layers: Layer, hidden: int) -> KnownAnswer:
    """Return a RoCEv1 packet of ``written`` octets after a GRH; ``hidden`` is BTH octet 4."""
    packet = octets(written)
    grh = (
        octets("60 00 00 00")
        + (len(packet) + 4).to_bytes(2, "big")
        + octets("1b 40")
        + bytes(15)
        + b"\1"
        + bytes(15)
        + b"\2"
    )
    seen = bytes.fromhex("6fffffff") + grh[4:7] + b"\xff" + grh[8:] + packet[:4] + b"\xff" + packet[5:]
    assert packet[4] == hidden
    crc = zlib.crc32(b"\xff" * 8 + seen)
    return KnownAnswer(
        name=name,
        octets=TWO + ONE + octets("89 15") + grh + packet + crc.to_bytes(4, "little"),
        layers=(
            Ethernet(dst=TWO, src=ONE, type=0x8915),
            GRH(paylen=len(packet) + 4, hoplmt=64, sgid=bytes(15) + b"\1", dgid=bytes(15) + b"\2"),
            *layers, ICRC(crc=int.from_bytes(crc.to_bytes(4, "little"), "big")),
        ),
    )  # fmt: skip


CNP_OF_A_CARD = KnownAnswer(
    name="CNP that a network card sent",
    octets=octets("""
        e4 1d 2d ab 2b c2 7c fe 90 64 3b 32 08 00
        45 c2 00 3c 71 8c 40 00 40 11 91 61   # DSCP 48, ECT(0)
        0a 00 11 01 0a 00 12 01
        00 00 12 b7 00 28 00 00               # ports 0, 4791
        81 00 ff ff                           # opcode CNP, partition key
        40                                    # BECN
        00 01 18                              # queue pair 0x118
        00 00 00 00
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
        82 fd 00 2a                           # ICRC
    """),
    layers=(
        Ethernet(dst=bytes.fromhex("e41d2dab2bc2"), src=bytes.fromhex("7cfe90643b32"), type=0x0800),
        IPv4(
            dsfield=0xC2, len=60, id=0x718C, flags=2, proto=17, checksum=0x9161,
            src=bytes((10, 0, 17, 1)), dst=bytes((10, 0, 18, 1)),
        ),
        UDP(srcport=0, dstport=4791, length=40), CNP(qp=0x118), ICRC(crc=0x82FD002A),
    ),
)  # fmt: skip

BEHIND_GRH = (
    roce(
        "RDMA write",
        """
        0a 40 ff ff 80 00 01 18   # RC RDMA WRITE only, migrated, FECN, queue pair 0x118
        80 00 00 05               # acknowledge request, PSN 5
        00 00 00 00 00 00 10 00   # address
        00 00 00 2a 00 00 00 04   # key 42, length 4
        01 02 03 04
        """,
        BTH(opcode=0x0A, m=1, fecn=1, qp=0x118, a=1, psn=5), RETH(va=0x1000, r_key=42, dmalen=4),
        Data(data=b"\1\2\3\4"), hidden=0x80,
    ),
    roce(
        "atomic acknowledge",
        """
        12 00 ff ff 00 00 00 07 00 00 00 06
        1f 00 00 03               # syndrome: ACK, unlimited credits; MSN 3
        00 00 00 00 00 00 00 09   # what was there
        """,
        BTH(opcode=0x12, qp=7, psn=6), AETH(syndrome=0x1F, msn=3), AtomicAckETH(origremdt=9), hidden=0,
    ),
    roce(
        "compare and swap",
        """
        13 00 ff ff 00 00 00 07 00 00 00 06
        00 00 00 00 00 00 20 00 00 00 00 2b
        00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 02   # swap, compare
        """,
        BTH(opcode=0x13, qp=7, psn=6), AtomicETH(va=0x2000, r_key=43, swapdt=1, cmpdt=2), hidden=0,
    ),
    roce(
        "datagram with immediate data",
        """
        65 00 ff ff 00 00 00 01 00 00 00 08   # UD SEND only with immediate, queue pair 1
        80 01 00 00 00 00 00 11               # queue key, source queue pair 0x11
        de ad be ef
        """,
        BTH(opcode=0x65, qp=1, psn=8), DETH(q_key=0x80010000, srcqp=0x11), ImmDt(immdt=0xDEADBEEF), hidden=0,
    ),
    roce(
        "send with invalidate",
        "17 00 ff ff 00 00 00 07 00 00 00 09 00 00 00 2c",
        BTH(opcode=0x17, qp=7, psn=9), IETH(r_key=44), hidden=0,
    ),
    roce(
        "reliable datagram",
        "44 00 ff ff 00 00 00 07 00 00 00 0a 00 00 00 0c 00 00 00 05 00 00 00 12",
        BTH(opcode=0x44, qp=7, psn=10), RDETH(eecnxt=12), DETH(q_key=5, srcqp=0x12), hidden=0,
    ),
)  # fmt: skip

INNER = octets("02 00 00 00 00 02 02 00 00 00 00 01 08 00") + IP_UDP
"""The frame of 60 octets inside mirrors and tunnels."""
INNER_LAYERS = (Ethernet(dst=TWO, src=ONE, type=0x0800), *IP_UDP_LAYERS)


def _in_ip(
    name: str, protocol: int, checksum: str, written: str, inner: bytes, *layers: Layer
) -> KnownAnswer:
    """Return a frame whose IPv4 packet contains ``written`` octets and an inner frame or packet."""
    content = octets(written) + inner
    total = 20 + len(content)
    header = octets("45 00") + total.to_bytes(2, "big") + octets("00 00 00 00 40") + bytes((protocol,))
    return KnownAnswer(
        name=name,
        octets=TWO + ONE + octets("08 00") + header + octets(checksum) + HOST_1 + HOST_2 + content,
        layers=(
            Ethernet(dst=TWO, src=ONE, type=0x0800),
            IPv4(
                len=total,
                proto=protocol,
                checksum=int.from_bytes(octets(checksum), "big"),
                src=HOST_1,
                dst=HOST_2,
            ),
            *layers,
        ),
    )


MIRRORS = (
    _in_ip(
        "GRE with checksum, key and sequence number", 47, "66 6d",
        """
        b0 00 65 58   # checksum, key and sequence number; Ethernet
        8a 15 00 00   # checksum of all of it, reserved
        00 00 00 64   # key 100
        00 00 00 07   # sequence number 7
        """,
        INNER,
        GRE(flags=0xB000), GREChecksum(checksum=0x8A15), GREKey(key=100), GRESequence(sequence=7),
        *INNER_LAYERS,
    ),
    _in_ip(
        "ERSPAN II", 47, "66 6d",
        """
        10 00 88 be 00 00 00 07   # GRE, sequence number 7
        10 64                     # version 1, VLAN 100
        70 0c                     # priority 3, 802.1Q, session 12
        00 01 23 45               # index
        """,
        INNER,
        GRE(flags=0x1000, protocol=0x88BE), GRESequence(sequence=7),
        ERSPAN(vlan=100, cos=3, encapsulation=2, session=12, index=0x12345), *INNER_LAYERS,
    ),
    _in_ip(
        "ERSPAN III with a platform subheader", 47, "66 61",
        """
        10 00 22 eb 00 00 00 08   # GRE, sequence number 8
        20 64                     # version 2, VLAN 100
        64 0c                     # priority 3, truncated, session 12
        00 00 01 00               # time stamp
        00 05                     # security group tag
        80 2b                     # Ethernet, engine 2, outgoing, 100 ns, a subheader follows
        14 00 00 07 00 00 00 2a   # platform 5
        """,
        INNER,
        GRE(flags=0x1000, protocol=0x22EB), GRESequence(sequence=8),
        ERSPAN3(
            vlan=100, cos=3, truncated=1, session=12, timestamp=256, sgt=5, hardware=2, direction=1,
            granularity=1, o=1,
        ),
        Platform(platform=5, info=7, number=42), *INNER_LAYERS,
    ),
    _in_ip(
        "VXLAN", 17, "66 8b",
        """
        c0 00 12 b5 00 4c 00 00   # ports 49152, 4789; length 76, no checksum
        08 00 00 00 00 00 2a 00   # network identifier 42
        """,
        INNER,
        UDP(srcport=49152, dstport=4789, length=76), VXLAN(vni=42), *INNER_LAYERS,
    ),
    _in_ip(
        "VXLAN-GPE around a packet", 17, "66 99",
        """
        c0 00 12 b6 00 3e 00 00   # ports 49152, 4790; length 62, no checksum
        0c 00 00 01 00 00 2a 00   # next protocol IPv4, network identifier 42
        """,
        IP_UDP,
        UDP(srcport=49152, dstport=4790, length=62), GPE(next=1, vni=42), *IP_UDP_LAYERS,
    ),
    _in_ip(
        "Geneve with an option", 17, "66 87",
        """
        c0 00 17 c1 00 50 00 00   # ports 49152, 6081; length 80, no checksum
        01 00 65 58 00 00 2a 00   # an option of four octets, Ethernet, network identifier 42
        01 02 80 00               # class 0x102, critical type 0, no data
        """,
        INNER,
        UDP(srcport=49152, dstport=6081, length=80),
        Geneve(optlen=1, vni=42, options=bytes((1, 2, 0x80, 0))), *INNER_LAYERS,
    ),
    _in_ip(
        "TZSP with tags", 17, "66 8a",
        """
        c0 00 90 90 00 4d 00 00   # ports 49152, 37008; length 77, no checksum
        01 00 00 01               # received frame, Ethernet
        00 0a 01 9c 01            # padding, signal 0x9c, end
        """,
        INNER,
        UDP(srcport=49152, dstport=37008, length=77), TZSP(), Mark(type=0), Tag(length=1, value=b"\x9c"),
        Mark(), *INNER_LAYERS,
    ),
    KnownAnswer(
        name="Ethernet pseudowire in MPLS",
        octets=octets("""
            02 00 00 00 00 02 02 00 00 00 00 01
            88 47         # MPLS
            00 01 00 40   # label 16, TTL 64
            00 01 1b 40   # label 17, traffic class 5, bottom of the stack
            00 00 00 07   # control word, sequence number 7
        """) + INNER,
        layers=(
            Ethernet(dst=TWO, src=ONE, type=0x8847),
            MPLS(label=16, bottom=0), MPLS(label=17, exp=5), ControlWord(sequence=7), *INNER_LAYERS,
        ),
    ),
)  # fmt: skip

KNOWN_ANSWERS: tuple[KnownAnswer, ...] = (
    *(value for value in list(globals().values()) if isinstance(value, KnownAnswer)), *BEHIND_GRH, *MIRRORS,
)  # fmt: skip
