"""A capture with a frame of each type."""

from __future__ import annotations

from pathlib import Path

from ecmproto.frames.capture import Batch, PcapWriter, open_sink
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
    Frame,
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
    encode,
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
from ecmproto.wire.formats.ethernet import OtherSNAP
from ecmproto.wire.formats.hpcc import HPCCAck, INTTag
from ecmproto.wire.formats.isolation import CIM
from ecmproto.wire.formats.lldp import IEEE8021TLV, IEEE8023TLV, OrganizationTLV
from ecmproto.wire.formats.text import cpid

SOURCE = bytes.fromhex("020000000001")
SINK = bytes.fromhex("020000000002")
SWITCH = bytes.fromhex("020000000099")
MAC_CONTROL = bytes.fromhex("0180c2000001")
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
CP1 = cpid(SWITCH, 1)

START_NS = 1_700_000_000_000_000_000
STEP_NS = 1_001


def octets(*layers: Layer) -> bytes:
    return encode(Frame(layers=layers), fix=True)


_FORTH = Ethernet(dst=SINK, src=SOURCE)
_NOTIFY = Ethernet(dst=SOURCE, src=SWITCH)
_REPLY = Ethernet(dst=SOURCE, src=SINK)
_VLAN = VLAN(priority=3, id=5)
_IP = IPv4(src=bytes([10, 0, 0, 1]), dst=bytes([10, 0, 0, 2]))
_IP6 = IPv6(src=bytes.fromhex("20010db8" + 23 * "0" + "1"), dst=bytes.fromhex("20010db8" + 23 * "0" + "2"))
_UDP = UDP(srcport=49152, dstport=4711)

DATA = octets(_FORTH, _VLAN, CNTag(flow_id=7), _IP, _UDP, Data(data=b"payload!" * 12))
_MSDU, _SAMPLE = DATA[20:84], DATA[:48]
CNM_OCTETS = octets(
    _NOTIFY,
    VLAN(priority=6, id=5),
    CNTag(flow_id=7),
    CNM(qntz_fb=40, cpid=CP1, q_offset=-100, q_delta=20, encap_prio=3, encap_dst=SINK, msdu=_MSDU),
)
TOO_LONG = octets(_NOTIFY, CNM(cpid=CP1))
TOO_LONG = TOO_LONG[:36] + (200).to_bytes(2, "big") + TOO_LONG[38:]

FRAMES: dict[str, bytes] = {
    "data": DATA,
    "tcp": octets(_FORTH, _IP, TCP(srcport=40000, dstport=80, flags=0x112)),
    "cnm": CNM_OCTETS,
    "cnm without a sample": octets(_NOTIFY, CNM(cpid=cpid(SINK, 2), encap_prio=1)),
    "cnm too long": TOO_LONG,
    "ecm": octets(_NOTIFY, VLAN(priority=7, id=5), ECM(cpid=CP1, q_off=100, q_delta=-20, payload=_SAMPLE)),
    "ecm(0,0)": octets(_NOTIFY, ECM(cpid=CP1, payload=_SAMPLE)),
    "ecm-max": octets(
        _NOTIFY, ECM(cpid=CP1, q=1, q_off=375, q_delta=750, timestamp=8, unit=3, payload=_SAMPLE)
    ),
    "ecm with a short sample": octets(_NOTIFY, VLAN(id=5), ECM(cpid=CP1, q_off=1))[:41],
    "cm-tag": octets(_FORTH, _VLAN, CMTag(cpid=CP1, timestamp=9, unit=2), _IP, _UDP, Data(data=bytes(30))),
    "bcn": octets(_NOTIFY, BCN(cpid=CP1, e=-200, capacity=10_000_000, payload=_SAMPLE)),
    "bcn stop": octets(_NOTIFY, BCN(type=1, cpid=CP1, e=-200, capacity=10_000_000, payload=_SAMPLE)),
    "rrt tag": octets(_FORTH, RRTTag(cpid=CP1), _IP, _UDP),
    "e2cm bcn_max": octets(
        _NOTIFY, E2CM(type=1, cpid=CP1, q_off=3, q_delta=4, flow_id=0x4EDD, payload=_SAMPLE)
    ),
    "e2cm probe": octets(_FORTH, _VLAN, E2CM(type=3, cpid=cpid(SINK, 0), latency=123_456, flow_id=0x4EDD)),
    "e2cm reply": octets(
        _REPLY, E2CM(type=4, cpid=cpid(SINK, 0), latency=23_456, flow_id=0x4EDD, throughput=9_400_000)
    ),
    "rd tag": octets(_FORTH, _VLAN, RDTag(rlq_id=1), _IP, _UDP, Data(data=bytes(30))),
    "fecn": octets(_REPLY, FECNReturn(rlq_id=1, rate=2_350_000)),
    "inttag": octets(_FORTH, _VLAN, INTTag(nhop=1), _IP, _UDP, Data(data=bytes(30))),
    "hpcc": octets(_REPLY, HPCCAck(nhop=1)),
    "cim": octets(_REPLY, CIM(priority=3, queue=1, payload=bytes(48))),
    "dbp": octets(_REPLY, DBPRateReport(rate=5_000_000)),
    "pause": octets(Ethernet(dst=MAC_CONTROL, src=SOURCE), Pause(pause_time=65535)),
    "resume": octets(Ethernet(dst=MAC_CONTROL, src=SOURCE), Pause()),
    "pfc": octets(Ethernet(dst=MAC_CONTROL, src=SOURCE), PFC(class_enable_vector=0x18, time3=65535, time5=9)),
    "mac control": octets(Ethernet(dst=MAC_CONTROL, src=SOURCE), MACControl(opcode=2, body=bytes(4))),
    "lldp": octets(
        Ethernet(dst=NEAREST_BRIDGE, src=SWITCH),
        TLV(type=5, value=b"sw\x1b[31m1"),
        CongestionNotificationTLV(cnpv=0x28, ready=0x08),
        TLV(),
    ),
    "qinq": octets(_FORTH, STag(priority=3, id=100), VLAN(id=5, dei=1), _IP, _UDP),
    "pbb": octets(
        Ethernet(dst=SINK, src=SWITCH),
        STag(priority=3, id=100),
        ITag(priority=3, isid=4096, cdst=SINK, csrc=SOURCE),
        VLAN(priority=2, id=5),
        _IP6,
        _UDP,
    ),
    "arp": octets(_FORTH, ARP(opcode=1, src_proto=_IP.src, dst_proto=_IP.dst)),
    "llc": octets(_FORTH, Data(data=b"\x42\x42\x03" + bytes(35))),
    "unknown ethertype": octets(Ethernet(dst=SINK, src=SOURCE, type=0x88F7), Data(data=bytes(44))),
    "unknown message": octets(_NOTIFY, UnknownMessage(protocol=6, body=b"abc")),
    "unknown tag": octets(_FORTH, UnknownTag(protocol=6, body=b"abc")),
    "trailer": octets(_FORTH, _IP, _UDP) + b"\xca\xfe",
    "cut": DATA[:60],
    "only addresses": DATA[:13],
    "arp over infiniband": octets(
        _FORTH, IPv4ARP(opcode=2, src_hw=bytes(range(20)), src_proto=_IP.src, dst_proto=_IP.dst)
    ),
    "arp of another protocol": octets(_FORTH, EthernetARP(src_hw=SOURCE, src_proto=_IP6.src)),
    "arp of other addresses": octets(
        _FORTH, VLAN(id=5), OtherARP(src_hw=b"\1\2", src_proto=b"\3\4\5", dst_hw=b"\6\7", dst_proto=b"abc")
    ),
    "arp cut": octets(_FORTH, IPv4ARP())[:40],
    "dcbx": octets(
        Ethernet(dst=NEAREST_BRIDGE, src=SWITCH),
        ETSConfiguration(maxtcs=2, prio3=3, per0=50, per3=50, tsa0=2, tsa3=2, prio6=6),
        ETSRecommendation(prio3=3, per0=50, per3=50, tsa0=2, tsa3=2),
        PFCConfiguration(willing=1, enable=8),
        Applications(),
        Application(priority=3, protocol=4791),
        Application(priority=6, selector=5, protocol=48),
        TLV(),
    ),
    "cee": octets(
        Ethernet(dst=NEAREST_BRIDGE, src=SWITCH),
        CEE(),
        CEEControl(seq=2, ack=1),
        CEEGroups(enabled=1, prio3=1, prio6=15, per0=50, per1=50),
        CEEPFC(enabled=1, willing=1, enable=8),
        CEEApplications(enabled=1),
        CEEApplication(protocol=0x8906, selector=0, priorities=8),
        CEETLV(value=b"abc"),
        CEE(proto=1, value=b"cin"),
        TLV(),
    ),
    "other organizations": octets(
        Ethernet(dst=NEAREST_BRIDGE, src=SWITCH),
        IEEE8021TLV(value=b"\0\1"),
        IEEE8023TLV(value=b"\3\x6c\1\0\x10"),
        OrganizationTLV(oui=0x12BB, subtype=1, value=b"med"),
        TLV(),
    ),
    "protocol of an organization": octets(_FORTH, OtherSNAP(pid=0x2000), Data(data=b"cdp")),
}


def write_sample(path: Path) -> Path:
    frames = list(FRAMES.values())
    original = [len(DATA) if name == "cut" else len(frame) for name, frame in FRAMES.items()]
    times = [START_NS + STEP_NS * index for index in range(len(frames))]
    with open_sink(path) as sink:
        PcapWriter(sink).write_batch(Batch.from_frames(frames, time_ns=times, original=original))
    return path
