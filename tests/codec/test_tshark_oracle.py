"""Comparison of tshark and the codec: addresses, tags, types, MAC Control and LLDP fields of every Ethernet
frame.

The Ethernet frames of real captures, bundled captures and crafted captures are merged into one capture, which
one tshark process reads. DELIBERATE lists the intended differences with the reasons. No other difference is
allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.tools.fuzz.checks.tshark import (
    DELIBERATE,
    Sample,
    differing,
    ours,
    reasons,
    theirs,
    unexplained,
    write_pcap,
)
from ecmproto.tools.fuzz.strategies import mutated, octets_of, pause_frames, pfc_frames, tagged_frames
from ecmproto.wire.codec import (
    ARP,
    PFC,
    TLV,
    UDP,
    VLAN,
    CNTag,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    Frame,
    IPv4,
    ITag,
    Layer,
    Pause,
    STag,
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
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import GRE, SONIC
from ecmproto.wire.formats.mpls import MPLS, ControlWord
from ecmproto.wire.formats.vxlan import VXLAN
from tests.conftest import REPOSITORY, SHARED_CAPTURES, requires
from tests.standards.known_answers import KNOWN_ANSWERS

# the frames


_FIRST_FRAMES, _STEP_FRAMES = 2_000, 97
"""The number of compared frames at the start of a capture, and the step between the compared frames after
these.
"""


def from_capture(path: Path) -> Iterator[Sample]:
    """Yield the Ethernet frames of a capture until the first error.

    Only some frames of a long capture are returned.
    """
    try:
        reader = open_capture(path)
    except CaptureError:  # another format, or a compression left to other programs
        return
    with reader:
        number = 0
        for batch in reader:
            for index in range(len(batch)):
                number += 1
                if number > _FIRST_FRAMES and number % _STEP_FRAMES:
                    continue
                if reader.interfaces[int(batch.interface[index])].linktype == ETHERNET:
                    where = f"{path.parent.name}/{path.name} frame {number}"
                    yield Sample(where=where, octets=batch.frame(index), original=int(batch.original[index]))


def captures_in(folder: Path) -> list[Path]:
    texts = {".md", ".tsv", ".toml", ".py", ".txt", ".json"}
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in texts)


_DST, _SRC = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
_HEADER = Ethernet(dst=_DST, src=_SRC)
_CONTROL = Ethernet(dst=bytes.fromhex("0180c2000001"), src=_SRC)
_NEAREST = Ethernet(dst=bytes.fromhex("0180c200000e"), src=_SRC)
_IP = (IPv4(), UDP(srcport=1, dstport=2), Data(data=bytes(30)))
_LLC = Data(data=bytes.fromhex("424203") + bytes(43))
_C1, _C2 = VLAN(priority=3, id=101), VLAN(priority=6, dei=1, id=102)
_S1, _S2, _S3 = STag(priority=5, dei=1, id=201), STag(priority=1, id=202), STag(id=4095)
_I = ITag(priority=3, drop=1, nca=1, res1=1, res2=2, isid=0x123456, cdst=b"\x02" * 6, csrc=b"\x04" * 6)
_PFC = PFC(class_enable_vector=0x88, **{f"time{priority}": 100 + priority for priority in range(8)})
_MANDATORY = (
    TLV(type=1, value=b"\x04" + _SRC),
    TLV(type=2, value=b"\x03" + _SRC),
    TLV(type=3, value=b"\0\x78"),
)
_CN = CongestionNotificationTLV(cnpv=0x4A, ready=0x40)
_SHARES = {
    **{f"prio{n}": n for n in range(8)}, **{f"per{n}": n for n in range(8)},
    **{f"tsa{n}": (0, 1, 2, 255, 0, 1, 2, 255)[n] for n in range(8)},
}  # fmt: skip
_QAZ = (
    ETSConfiguration(willing=1, cbs=1, maxtcs=5, **_SHARES), ETSRecommendation(**_SHARES),
    PFCConfiguration(willing=1, mbc=1, capability=4, enable=0x48),
    Applications(), Application(priority=3, protocol=4791),
    Application(priority=6, selector=5, protocol=48), Application(priority=5, selector=1, protocol=0x8906),
)  # fmt: skip
_HEAD = {"version": 1, "max_version": 2, "enabled": 1, "willing": 1, "error": 1, "subtype": 3}
_CEE = (
    CEE(), CEEControl(version=1, max_version=2, seq=5, ack=1 << 31),
    CEEGroups(**_HEAD, numtcs=3, **{key: value for key, value in _SHARES.items() if "tsa" not in key}),
    CEEPFC(**_HEAD, enable=0x48, numtcs=4), CEEApplications(**_HEAD),
    CEEApplication(protocol=0x8906, selector=0, priorities=8),
    CEEApplication(protocol=4791, priorities=1),
)  # fmt: skip

CRAFTED: dict[str, tuple[Layer, ...]] = {
    "plain": (_HEADER, *_IP),
    "C": (_HEADER, _C1, *_IP),
    "C C": (_HEADER, _C1, _C2, *_IP),
    "S": (_HEADER, _S1, *_IP),
    "S C": (_HEADER, _S1, _C1, *_IP),
    "C S": (_HEADER, _C1, _S1, *_IP),
    "S S": (_HEADER, _S1, _S2, *_IP),
    "S S S": (_HEADER, _S1, _S2, _S3, *_IP),
    "S S C C": (_HEADER, _S1, _S2, _C1, _C2, *_IP),
    "S C S C": (_HEADER, _S1, _C1, _S2, _C2, *_IP),
    "0x9100": (_HEADER.replace(type=0x9100), _C2, *_IP),
    "0x9100 C": (_HEADER.replace(type=0x9100), _C2, _C1, *_IP),
    "C 0x9100": (_HEADER, _C1.replace(etype=0x9100), _C2, *_IP),
    "S 0x9100": (_HEADER, _S1.replace(etype=0x9100), _C2, *_IP),
    "I": (_HEADER, _I, *_IP),
    "I I": (_HEADER, _I, _I, *_IP),
    "I C": (_HEADER, _I, _C1, *_IP),
    "B I": (_HEADER, _S1, _I, *_IP),
    "B I C": (_HEADER, _S1, _I, _C1, *_IP),
    "B I S": (_HEADER, _S1, _I, _S2, *_IP),
    "B I S C": (_HEADER, _S1, _I, _S2, _C1, *_IP),
    "S S I": (_HEADER, _S1, _S2, _I, *_IP),
    "C I": (_HEADER, _C1, _I, *_IP),
    "twenty C": (_HEADER, *(VLAN(id=number) for number in range(20)), *_IP),
    "twenty-five C": (_HEADER, *(VLAN(id=number) for number in range(25)), *_IP),
    "length": (_HEADER, _LLC),
    "C length": (_HEADER, _C1, _LLC),
    "C C length": (_HEADER, _C1, _C2, _LLC),
    "S length": (_HEADER, _S1, _LLC),
    "S C length": (_HEADER, _S1, _C1, _LLC),
    "I length": (_HEADER, _I, _LLC),
    "length 0": (_HEADER,),
    "C length 0": (_HEADER, _C1),
    "length 1500": (_HEADER, Data(data=bytes.fromhex("424203") + bytes(1497))),
    "type 1501": (_HEADER.replace(type=1501), _LLC),
    "type 1535": (_HEADER.replace(type=1535), _LLC),
    "type 1536": (_HEADER.replace(type=1536), _LLC),
    "C type 1501": (_HEADER, _C1.replace(etype=1501), _LLC),
    "C type 1535": (_HEADER, _C1.replace(etype=1535), _LLC),
    "CN-TAG": (_HEADER, CNTag(flow_id=5), *_IP),
    "C CN-TAG": (_HEADER, _C1, CNTag(flow_id=5), *_IP),
    "C CN-TAG C": (_HEADER, _C1, CNTag(flow_id=5), _C2, *_IP),
    "C ARP": (_HEADER, _C1, ARP()),
    "PAUSE": (_CONTROL, Pause(pause_time=0xFFFF)),
    "C PAUSE": (_CONTROL, _C1, Pause(pause_time=77)),
    "PFC": (_CONTROL, _PFC),
    "PFC of all": (_CONTROL, _PFC.replace(class_enable_vector=0xFF)),
    "PFC of none": (_CONTROL, _PFC.replace(class_enable_vector=0)),
    "PFC with a high octet": (_CONTROL, _PFC.replace(class_enable_vector=0xFFFF)),
    "PFC to another address": (_HEADER, _PFC),
    "LLDP": (_NEAREST, *_MANDATORY, _CN, TLV()),
    "LLDP without CN": (_NEAREST, *_MANDATORY, TLV()),
    "C LLDP": (_NEAREST, _C1, *_MANDATORY, _CN, TLV()),
    "LLDP to another address": (_HEADER, *_MANDATORY, _CN, TLV()),
    "LLDP, every priority": (_NEAREST, *_MANDATORY, _CN.replace(cnpv=0xFF, ready=0xFF), TLV()),
    "CN before the mandatory TLVs": (_NEAREST, _CN, *_MANDATORY, TLV()),
    "two CN TLVs": (_NEAREST, *_MANDATORY, _CN, _CN.replace(cnpv=0x80), TLV()),
    "802.1Qaz": (_NEAREST, *_MANDATORY, *_QAZ, _CN, TLV()),
    "no application": (_NEAREST, *_MANDATORY, Applications(), _CN, TLV()),
    "CEE": (_NEAREST, *_MANDATORY, *_CEE, _CN, TLV()),
    "CEE of nothing": (_NEAREST, *_MANDATORY, CEE(), _CN, TLV()),
    "CEE with another subject": (_NEAREST, *_MANDATORY, CEE(), CEETLV(value=bytes(4)), _CEE[3], TLV()),
    "CIN": (_NEAREST, *_MANDATORY, CEE(proto=1, value=CEEControl().build()), _CN, TLV()),
    "both dialects": (_NEAREST, *_MANDATORY, *_CEE, *_QAZ, TLV()),
    "FabricPath": (
        Ethernet(dst=bytes.fromhex("020000000171"), src=_SRC, type=0x8903),
        Data(data=bytes.fromhex("0020") + _DST + _SRC + b"\x08\x00" + bytes(40)),
    ),
    "VN-TAG": (
        _HEADER.replace(type=0x8926),
        Data(data=bytes.fromhex("00000000 8100 000b 0800") + bytes(40)),
    ),
    "ISL's address": (_HEADER.replace(dst=bytes.fromhex("01000c000003")), _LLC),
}


def _built(tlvs: Sequence[TLV]) -> list[TLV]:
    return [tlv.replace(length=len(tlv.value)) for tlv in tlvs]


def crafted() -> Iterator[Sample]:
    for name, layers in CRAFTED.items():
        octets = encode(Frame(layers=layers), fix=True)
        yield Sample(where=name, octets=octets, original=len(octets))
    for control in (Pause(), _PFC):
        octets = encode(Frame(layers=(_CONTROL.replace(type=0x8808), control)))[:-1]
        yield Sample(where=f"{control.prefix} that ends too early", octets=octets, original=len(octets))
    octets = encode(Frame(layers=(_NEAREST.replace(type=0x88CC), *_built(_MANDATORY), _CN.replace(length=2))))
    yield Sample(where="a CN TLV of a wrong length", octets=octets, original=len(octets))
    long_cn = TLV(type=127, length=8, value=_CN.build()[2:] + bytes(2))
    octets = encode(Frame(layers=(_NEAREST.replace(type=0x88CC), *_built(_MANDATORY), long_cn, _CN, TLV())))
    yield Sample(where="a CN TLV that is too long", octets=octets, original=len(octets))
    odd = TLV(type=2, value=b"\3name")
    octets = encode(Frame(layers=(_NEAREST, _MANDATORY[0], odd, _MANDATORY[2], _CN, TLV())), fix=True)
    yield Sample(where="a Port ID that is no address", octets=octets, original=len(octets))
    long_time = TLV(type=3, length=6, value=b"\0\x78" + bytes(4))
    octets = encode(Frame(layers=(_NEAREST.replace(type=0x88CC), *_built(_MANDATORY[:2]), long_time, _CN)))
    yield Sample(where="a Time To Live TLV that is too long", octets=octets, original=len(octets))
    for value in (_QAZ[0], _QAZ[2], _CEE[3]):
        around = (CEE(length=20),) if value is _CEE[3] else ()
        layers = (
            _NEAREST.replace(type=0x88CC),
            *_built(_MANDATORY),
            *around,
            value.replace(length=9),
            _CN,
            TLV(),
        )
        octets = encode(Frame(layers=layers))
        yield Sample(where=f"{value.prefix} of a wrong length", octets=octets, original=len(octets))
    octets = encode(Frame(layers=(_HEADER, _S1, _S2, *_IP)), fix=True)[:21]
    yield Sample(where="a second S-TAG that ends too early", octets=octets, original=len(octets))
    inner = encode(Frame(layers=(_HEADER.replace(dst=bytes.fromhex("001b21000001")), *_IP)), fix=True)
    octets = encode(Frame(layers=(_HEADER, MPLS(), Data(data=inner))), fix=True)
    yield Sample(where="a frame in MPLS without a control word", octets=octets, original=len(octets))
    octets = encode(Frame(layers=(_HEADER, MPLS(), ControlWord(), _HEADER, *_IP)), fix=True)
    yield Sample(where="a pseudowire's frame of local addresses", octets=octets, original=len(octets))
    outer = (_HEADER, IPv4(), GRE(protocol=SONIC))
    octets = encode(Frame(layers=(*outer, _HEADER, *_IP)), fix=True)
    yield Sample(where="a mirror of SONiC", octets=octets, original=len(octets))
    octets = encode(Frame(layers=(*outer[:2], GRE(), _HEADER, *_IP)), fix=True)
    yield Sample(where="a truncated frame in GRE", octets=octets[:-4], original=len(octets))
    reply = UDP(srcport=Geneve.udp_ports[0], dstport=2)
    octets = encode(Frame(layers=(_HEADER, IPv4(), reply, Data(data=encode(Geneve()) + inner))), fix=True)
    yield Sample(where="a frame from the port of Geneve", octets=octets, original=len(octets))
    octets = encode(Frame(layers=(_HEADER, IPv4(), UDP(srcport=1), VXLAN(), _HEADER, *_IP)), fix=True)
    octets = octets[:38] + bytes((0, 4)) + octets[40:]
    yield Sample(where="VXLAN over UDP of length 4", octets=octets, original=len(octets))


def compare(folder: Path, samples: Sequence[Sample]) -> set[str]:
    """Fail for what differs without a reason; return the reasons there were."""
    program = requires("tshark")
    capture = folder / "samples.pcap"
    write_pcap(capture, samples)
    rows = theirs(program, capture)
    assert len(rows) == len(samples) > 0
    lines, used = [], set()
    for sample, their in zip(samples, rows, strict=True):
        mine = ours(sample)
        for name in differing(mine, their):
            used |= {reason.why for reason in reasons(sample, name, mine, their)}
        lines += [f"{sample.where}: {name}: {how}" for name, how in unexplained(sample, mine, their)]
    assert not lines, "\n".join(lines[:40])
    return used


def test_crafted_frames_need_every_deliberate_difference(tmp_path: Path) -> None:
    assert compare(tmp_path, list(crafted())) == {reason.why for reason in DELIBERATE}


def test_every_cut_of_the_known_answers(tmp_path: Path) -> None:
    samples = [
        Sample(where=f"{answer}, {kept} octets", octets=answer.octets[:kept], original=len(answer.octets))
        for answer in KNOWN_ANSWERS
        for kept in range(1, len(answer.octets))
    ]
    compare(tmp_path, samples)


def test_drawn_frames(tmp_path: Path) -> None:
    samples = [Sample(where=octets.hex(), octets=octets, original=len(octets)) for octets in drawn(150)]
    compare(tmp_path, samples)


def drawn(count: int) -> list[bytes]:
    """Return complete and damaged tagged frames and MAC Control frames. Each call returns the same frames."""
    control = pause_frames() | pfc_frames()
    collected: list[bytes] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate])
    @given(octets_of(tagged_frames() | control), mutated(tagged_frames()))
    def collect(whole: bytes, spoilt: bytes) -> None:
        collected.extend(octets for octets in (whole, spoilt) if octets)

    collect()
    return collected


def test_bundled_captures(tmp_path: Path) -> None:
    compare(tmp_path, [sample for path in captures_in(REPOSITORY / "pcaps") for sample in from_capture(path)])


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="the collection of real captures is not here")
def test_real_captures(tmp_path: Path) -> None:
    compare(tmp_path, [sample for path in captures_in(SHARED_CAPTURES) for sample in from_capture(path)])
