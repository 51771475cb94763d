"""Fields by name: Wireshark's semantics, both names of a length, single flag bits, and sampled frames."""

from __future__ import annotations

import pytest

from ecmproto.errors import SpecError
from ecmproto.frames.dissect import Csv, FieldReader, Tabs
from ecmproto.frames.dissect.tree import bit_pattern
from ecmproto.tools.craft import build
from ecmproto.wire.codec import Ethernet, Frame, IPv6
from ecmproto.wire.codec.frame import encode
from ecmproto.wire.formats.ethernet import SNAP
from ecmproto.wire.formats.ip import AH, DestinationOptions, FragmentHeader, HopByHop, Routing
from ecmproto.wire.formats.registry import catalogue
from tests.dissect.sample import FRAMES
from tests.dissect.test_forms import record
from tests.formats import roce

WRAPPERS = (
    "gre checksum=1 key=7 sequence=5", "erspan", "erspan3 o=1", "vxlan", "gpe", "mpls",
    "geneve optlen=1 options=01028000", "tzsp tzsp.tag type=10 value=01 tzsp.mark type=1",
)  # fmt: skip


def value(name: str, frame: str) -> str:
    (got,) = FieldReader([name]).row(record(FRAMES[frame], time_ns=1_700_000_000_000_000_007))
    return got


@pytest.mark.parametrize(
    ("name", "frame", "expected"),
    [
        ("frame.time_epoch", "arp", "1700000000.000000007"),
        ("frame.len", "data", "146"),
        ("frame.protocols", "lldp", "eth:lldp:lldpcn:lldp"),
        ("frame.error", "cnm too long", "cnm at octet 36: expected msdu_length 0..64, got 200"),
        ("eth.type", "arp", "0x0806"),
        ("eth.len", "arp", ""),
        ("eth.len", "llc", "38"),
        ("eth.type", "llc", ""),
        ("eth.trailer", "trailer", "cafe"),
        ("vlan.id", "arp", ""),
        ("cnm.cpid", "cnm", "0200000000990001"),
        ("cnm.q_offset", "cnm", "-100"),
        ("macc.cbfc.enbv", "pfc", "0x0018"),
        ("macc.cbfc.enbv.c3", "pfc", "1"),
        ("macc.cbfc.enbv.c2", "pfc", "0"),
        ("macc.cbfc.pause_time.c5", "pfc", "9"),
        ("macc.opcode", "pause", "0x0001"),
        ("lldp.ieee.802_1qau.cnpv.prio5", "lldp", "1"),
        ("lldp.ieee.802_1qau.ready.prio5", "lldp", "0"),
        ("lldp.tlv.type", "lldp", "5,127,0"),
        ("lldp.tlv.value", "lldp", "73771b5b33316d31"),
        ("eth.src", "ecm", "02:00:00:00:00:99"),
        ("encapsulated.eth.src", "ecm", "02:00:00:00:00:01"),
        ("encapsulated.udp.dstport", "cnm", "4711"),
        ("encapsulated.udp.dstport", "data", ""),
        ("rdtag.rate", "rd tag", "4294967295"),
    ],
)
def test_value(name: str, frame: str, expected: str) -> None:
    assert value(name, frame) == expected


def test_every_catalogue_name_can_be_printed() -> None:
    # Other tests cover other link types. CSIG and key frames have no EtherType by default.
    others = ("sll", "csig", "keyframe", "infiniband.lrh")
    names = [entry.name for entry in catalogue() if not entry.name.startswith(others)]
    headers = (SNAP(), IPv6(), HopByHop(), Routing(), DestinationOptions(), AH(icv=b"icv."), FragmentHeader())
    extended = encode(Frame(layers=(Ethernet(), *headers)), fix=True)
    reader = FieldReader(names)
    wrapped = [encode(build(line)) for line in WRAPPERS]
    rows = [reader.row(record(octets)) for octets in [*FRAMES.values(), *roce.frames(), extended, *wrapped]]
    filled = {name for row in rows for name, text in zip(names, row, strict=True) if text}
    # what no frame of the sample has
    assert {name for name in names if name not in filled} == {
        name
        for name in names
        if name.endswith(".len") and not name.startswith(("frame.", "eth.", "ip.", "ipv6.", "lldp."))
    } | {"ip.options", "tcp.options", "eth.fcs", "msdu.type"}, (
        "write a frame of the new format into FRAMES of sample.py"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cnm.qtz_fb", "did you mean 'cnm.qntz_fb'?"),
        ("encapsulated.ip.sorc", "did you mean 'ip.src'?"),
        ("xyzzy", "`ecmproto fields` lists them"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        FieldReader([name])
    assert caught.value.hint == hint


def test_rows_have_tabs_or_quotes() -> None:
    names = ["lldp.tlv.type", "frame.error"]
    assert Tabs(names).record(record(FRAMES["lldp"])) == "5,127,0\t\n"
    assert Csv(names).record(record(FRAMES["lldp"])) == '"5,127,0",\n'


@pytest.mark.parametrize(
    ("number", "offset", "bits", "width", "expected"),
    [
        (3, 0, 3, 16, "011. .... .... ...."),
        (5, 4, 12, 16, ".... 0000 0000 0101"),
        (40, 10, 6, 16, ".... .... ..10 1000"),
        (-1, 4, 4, 8, ".... 1111"),
    ],
)
def test_bit_pattern(number: int, offset: int, bits: int, width: int, expected: str) -> None:
    assert bit_pattern(number, offset, bits, width) == expected
