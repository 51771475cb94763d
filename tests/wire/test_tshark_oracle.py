"""tshark beside the codec: addresses, tags, types, MAC Control and LLDP fields of every Ethernet frame.

All Ethernet frames, of real captures, of the bundled ones and crafted here, go into one capture that tshark
reads in one run.  Where the two differ on purpose, DELIBERATE says why; nothing else may differ.
"""

from __future__ import annotations

import dataclasses
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from ecmproto.capture import open_capture
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.errors import CaptureError
from ecmproto.fuzz.strategies import mutated, octets_of, pause_frames, pfc_frames, tagged_frames
from ecmproto.wire import (
    ARP,
    PFC,
    TLV,
    UDP,
    VLAN,
    CMTag,
    CNTag,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    IPv4,
    ITag,
    Layer,
    Pause,
    RDTag,
    RRTTag,
    STag,
    decode_lax,
    encode,
)
from tests.conftest import REPOSITORY, SHARED_CAPTURES, requires
from tests.standards.known_answers import KNOWN_ANSWERS

PLAIN_FIELDS = (
    "eth.dst", "eth.src", "eth.type", "eth.len",
    "vlan.priority", "vlan.dei", "vlan.id", "vlan.etype", "vlan.len",
    "ieee8021ad.priority", "ieee8021ad.dei", "ieee8021ad.id", "ieee8021ad.svid", "ieee8021ad.cvid",
    "ieee8021ah.priority", "ieee8021ah.drop", "ieee8021ah.nca", "ieee8021ah.res1", "ieee8021ah.res2",
    "ieee8021ah.isid", "ieee8021ah.cdst", "ieee8021ah.csrc", "ieee8021ah.etype",
    "macc.opcode", "macc.pause_time", "macc.cbfc.enbv",
)  # fmt: skip
FIELDS = (
    *PLAIN_FIELDS,
    *(f"macc.cbfc.pause_time.c{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.cnpv.prio{priority}" for priority in range(8)),
    *(f"lldp.ieee.802_1qau.ready.prio{priority}" for priority in range(8)),
)
# What could hold another Ethernet frame, whose fields would be listed behind those of the outer one.
STOP_AT = ("ip", "ipv6", "llc", "mpls", "arp")

Fields = dict[str, list[str]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """An Ethernet frame and where it came from."""

    where: str
    octets: bytes
    original: int


# the frames


def from_capture(path: Path) -> Iterator[Sample]:
    """Yield the Ethernet frames of a capture, as far as it can be read."""
    try:
        reader = open_capture(path)
    except CaptureError:  # another format, or a compression left to other programs
        return
    with reader:
        number = 0
        for batch in reader:
            for index in range(len(batch)):
                number += 1
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


def crafted() -> Iterator[Sample]:
    for name, layers in CRAFTED.items():
        octets = encode(Frame(layers=layers), fix=True)
        yield Sample(where=name, octets=octets, original=len(octets))
    for control in (Pause(), _PFC):
        octets = encode(Frame(layers=(_CONTROL.replace(type=0x8808), control)))[:-1]
        yield Sample(where=f"{control.prefix} that ends too early", octets=octets, original=len(octets))


# the two views


def ours(sample: Sample) -> Fields:
    """Return what the codec says, under tshark's names and in tshark's notation."""
    frame = decode_lax(sample.octets, original_octets=sample.original)
    fields: Fields = {name: [] for name in FIELDS}
    for placed in frame.fields():
        name = placed.field.name_for(placed.value)
        if placed.field.meta.flags.startswith("lldp"):
            assert isinstance(placed.value, int)
            for bit in range(8):
                fields[placed.field.meta.flags.format(bit)].append(str(placed.value >> bit & 1))
        elif name in fields:
            shown = placed.value.hex(":") if isinstance(placed.value, bytes) else str(placed.value)
            fields[name].append(shown)
    _as_tshark_names_s_tags(frame, fields)
    return fields


def _as_tshark_names_s_tags(frame: Frame, fields: Fields) -> None:
    """Rename as tshark does.

    Of two S-TAGs in a row it calls the identifiers svid and cvid; the EtherType behind S-TAGs it calls
    ieee8021ah.etype, and shows none between the two, or between a B-TAG and its I-TAG.
    """
    for name in ("ieee8021ad.id", "ieee8021ah.etype"):
        fields[name] = []
    layers = [value for value in frame.layers if not isinstance(value, Data)]
    index = 0
    while index < len(layers):
        tag = layers[index]
        following = layers[index + 1] if index + 1 < len(layers) else None
        if isinstance(tag, STag) and isinstance(following, STag):
            fields["ieee8021ad.svid"].append(str(tag.id))
            fields["ieee8021ad.cvid"].append(str(following.id))
            fields["ieee8021ah.etype"].append(str(following.etype))
            index += 2
            continue
        if isinstance(tag, STag):
            fields["ieee8021ad.id"].append(str(tag.id))
        if isinstance(tag, ITag) or (isinstance(tag, STag) and tag.etype != EtherTypes().i_tag):
            fields["ieee8021ah.etype"].append(str(tag.etype))
        index += 1


def theirs(program: str, capture: Path) -> list[Fields]:
    """Return what tshark says of each frame, numbers in decimal."""
    command = [program, "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=a", "-E", "separator=/t"]
    for protocol in STOP_AT:
        command += ["--disable-protocol", protocol]
    for name in FIELDS:
        command += ["-e", name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [_row(line) for line in run.stdout.splitlines()]


def _row(line: str) -> Fields:
    cells = line.split("\t")
    assert len(cells) == len(FIELDS), line
    return {
        name: [_number(value) for value in cell.split(",")] if cell else []
        for name, cell in zip(FIELDS, cells, strict=True)
    }


def _number(text: str) -> str:
    return str(int(text, 16)) if text.startswith("0x") else text


def write_pcap(path: Path, samples: Sequence[Sample]) -> None:
    """Write a capture by hand: what is compared is the codec, not the writer."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for sample in samples:
            file.write(struct.pack("<IIII", 0, 0, len(sample.octets), sample.original) + sample.octets)


# where they differ on purpose

_Applies = Callable[[Sample, list[str], list[str]], bool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reason:
    """Why the two differ in some fields on purpose, and whether that is why in a given frame."""

    why: str
    fields: tuple[str, ...] = FIELDS
    applies: _Applies


def _ethertype(sample: Sample) -> int:
    return int.from_bytes(sample.octets[12:14], "big")


def _isl(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return sample.octets[:5] == bytes.fromhex("01000c0000")


def _fabric_path(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return _ethertype(sample) == 0x8903


def _vn_tag(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return _ethertype(sample) == 0x8926 and their[: len(mine)] == mine


def _behind_a_congestion_tag(sample: Sample, mine: list[str], their: list[str]) -> bool:
    layers = decode_lax(sample.octets).layers
    return (
        any(isinstance(value, CNTag | CMTag | RRTTag | RDTag) for value in layers)
        and mine[: len(their)] == their
    )


def _neither_length_nor_type(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return 1500 < _ethertype(sample) < 1536 and not their


def _length_0(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return {tuple(mine), tuple(their)} == {("0",), ()}


def _too_deep(sample: Sample, mine: list[str], their: list[str]) -> bool:
    return len(their) == 20 and mine[:20] == their


def _unfinished(sample: Sample, mine: list[str], their: list[str]) -> bool:
    frame = decode_lax(sample.octets, original_octets=sample.original)
    return (
        (frame.error is not None or frame.cut > 0) and len(mine) < len(their) and their[: len(mine)] == mine
    )


def _mandatory_tlvs_missing(sample: Sample, mine: list[str], their: list[str]) -> bool:
    types = [
        value.type
        for value in decode_lax(sample.octets).layers
        if isinstance(value, TLV | CongestionNotificationTLV)
    ]
    return types[:3] != [1, 2, 3] and not their


_LLDP = tuple(name for name in FIELDS if name.startswith("lldp"))
_VLAN = tuple(name for name in FIELDS if name.startswith("vlan"))

DELIBERATE = (
    Reason(
        why="tshark takes DA 01-00-0C-00-00-XX for Cisco's ISL header; we read what 802.3 says", applies=_isl
    ),
    Reason(
        why="tshark reads on behind Cisco's FabricPath header and lists the inner addresses; for us it is an "
        "EtherType with data",
        applies=_fabric_path,
    ),
    Reason(
        why="tshark reads on behind a VN-TAG; no document of ours has it, so what follows is data",
        applies=_vn_tag,
    ),
    Reason(
        why="tshark stops at CN-TAGs and experimental tags (wire-formats 10); we read what is behind them",
        applies=_behind_a_congestion_tag,
    ),
    Reason(
        why="1501 to 1535 is neither length nor type (802.3 3.2.6): tshark shows neither, we an unknown type",
        fields=("eth.type",),
        applies=_neither_length_nor_type,
    ),
    Reason(
        why="0 is a length for us (wire-formats 1.2: up to 1500), an EtherType for tshark",
        fields=("eth.type", "eth.len", "vlan.etype", "vlan.len"),
        applies=_length_0,
    ),
    Reason(
        why="tshark gives up after 20 VLAN tags; wire-formats 1.2: any depth", fields=_VLAN, applies=_too_deep
    ),
    Reason(
        why="of a header that ends too early tshark shows the fields there are; we keep it as octets and, "
        "where no snap length cut it, say what is missing",
        applies=_unfinished,
    ),
    Reason(
        why="tshark reads no LLDP whose first three TLVs are not the mandatory ones; we read every TLV",
        fields=_LLDP,
        applies=_mandatory_tlvs_missing,
    ),
)


def differing(mine: Fields, their: Fields) -> list[str]:
    return [name for name in FIELDS if mine[name] != their[name]]


def reasons(sample: Sample, name: str, mine: Fields, their: Fields) -> list[Reason]:
    return [one for one in DELIBERATE if name in one.fields and one.applies(sample, mine[name], their[name])]


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
            found = reasons(sample, name, mine, their)
            used |= {reason.why for reason in found}
            if not found:
                shown = f"we {mine[name]}, tshark {their[name]}; {sample.octets[:64].hex()}"
                lines.append(f"{sample.where}: {name}: {shown}")
    assert not lines, "\n".join(lines[:40])
    return used


def test_crafted_frames_and_that_every_reason_is_still_needed(tmp_path: Path) -> None:
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
    """Return whole and spoilt tagged and MAC Control frames, the same ones every time."""
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
