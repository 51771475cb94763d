"""The meaning of filters on a few example frames."""

from __future__ import annotations

import copy
import pickle

import pytest

from ecmproto.errors import FilterError
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.wire.codec import ARP, CNM, PFC, UDP, VLAN, CNTag, Data, Ethernet, IPv4, STag
from ecmproto.wire.formats.text import cpid
from tests.filter.captured import bundled, seen, selected

_A, _B = bytes.fromhex("020000000001"), bytes.fromhex("0200000000c1")
_AB = Ethernet(src=_A, dst=_B)
_BA = Ethernet(src=_B, dst=_A)
_IP = IPv4(src=bytes([192, 0, 2, 1]), dst=bytes([192, 0, 2, 200]))
_DATA = Data(data=b"a Port of call" + bytes(40))
_CNM = CNM(qntz_fb=40, cpid=cpid(_B, 1), q_offset=-400, q_delta=30, encap_dst=_B)

FRAMES = [
    seen(_AB, VLAN(priority=3, id=100), CNTag(flow_id=7), _IP, UDP(srcport=5, dstport=6), _DATA, number=1),
    seen(_AB, STag(id=7), VLAN(priority=3, id=5), VLAN(priority=4, id=6), _IP, _DATA, number=2, time_ns=None),
    seen(_BA, VLAN(priority=6, id=100), _CNM, number=3, time_ns=1_700_000_000_000_000_001, interface_id=2),
    seen(Ethernet(src=_B, dst=bytes.fromhex("0180c2000001")), PFC(class_enable_vector=8, time3=99), number=4),
    seen(Ethernet(src=_A, dst=b"\xff" * 6), ARP(), number=5),
    seen(Ethernet(src=_A, dst=b"\xff" * 6, type=46), Data(data=bytes(46)), number=6),
]
ALL = [1, 2, 3, 4, 5, 6]

CASES: dict[str, list[int]] = {
    "": ALL,
    # presence
    "frame": ALL,
    "vlan": [1, 2, 3],
    "cnm": [3],
    "cnm.qntz_fb": [3],
    "cnm.msdu": [],
    "macc": [4],
    "pfc": [4],
    "pause": [],
    "frame.time_epoch": [1, 3, 4, 5, 6],
    "frame.error": [],
    "eth.type": [1, 2, 3, 4, 5],
    "eth.len": [6],
    "eth.len == 46": [6],
    # any value, every value
    "vlan.priority == 3": [1, 2],
    "vlan.priority != 3": [3],
    "vlan.priority === 3": [1],
    "vlan.priority !== 3": [2, 3],
    "vlan.priority ~= 3": [2, 3],
    "not vlan.priority == 3": [3, 4, 5, 6],
    "vlan.id > 5": [1, 2, 3],
    "all vlan.id > 5": [1, 3],
    "any vlan.id != 5": [1, 2, 3],
    "all vlan.id in {5, 6}": [2],
    "vlan.id in {1..5, 99}": [2],
    "vlan.id not in {5..6}": [1, 3, 4, 5, 6],
    "eth.addr == 02:00:00:00:00:01": [1, 2, 3, 5, 6],
    "eth.addr != 02-00-00-00-00-01": [4],
    # words for operators
    "vlan.priority eq 3 and not ieee8021ad": [1],
    "frame.number gt 1 && frame.number le 3": [2, 3],
    "frame.number lt 2 || frame.number ge 6": [1, 6],
    "frame.number ne 1": [2, 3, 4, 5, 6],
    # what binds first
    "frame.number == 1 or frame.number == 2 and frame.number == 3": [1],
    "(frame.number == 1 or frame.number == 2) and frame.number == 2": [2],
    "!frame.number == 1 && frame.number < 3": [2],
    "!(frame.number == 1 || frame.number == 2)": [3, 4, 5, 6],
    # numbers and names
    "frame.number == 0x3": [3],
    "frame.number == 03": [3],
    "frame.number == 0b11": [3],
    "cnm.q_offset == -400": [3],
    "cnm.q_offset < -0x18f": [3],
    "arp.opcode == request": [5],
    'arp.opcode == "REQUEST"': [5],
    "macc.opcode == pfc": [4],
    "macc.cbfc.enbv.c3 == true": [4],
    "macc.cbfc.enbv.c3 == false": [],
    "macc.cbfc.enbv & 8": [4],
    "frame.number & 3 == 2": [2, 6],
    "frame.number & 4 & 6": [4, 5, 6],
    # addresses
    "eth.dst == 0200.0000.00c1": [1, 2],
    "eth.dst == 0200000000C1": [1, 2],
    "eth.src < 02:00:00:00:00:c1": [1, 2, 5, 6],
    "eth.dst & 01:00:00:00:00:00": [4, 5, 6],
    "eth.dst in {01:80:c2:00:00:00..01:80:c2:00:00:0f}": [4],
    "ip.src == 192.0.2.0/24": [1, 2],
    "ip.src == 192.0.2.77/24": [1, 2],
    "ip.src == 192.0.2.0/32": [],
    "ip.addr == 0.0.0.0/0": [1, 2],
    "ip.src > 192.0.2.0/24": [],
    "ip.src in {10.0.0.0/8, 192.0.2.0/25}": [1, 2],
    "ip.dst in {192.0.2.100..192.0.2.201}": [1, 2],
    "ip.src < ip.dst": [1, 2],
    "ipv6.addr == ::/0": [],
    "cnm.cpid == 02:00:00:00:00:c1/1": [3],
    "cnm.cpid == 0200000000c10001": [3],
    "cnm.cpid == 02:00:00:00:00:c1:00:01": [3],
    "cnm.cpid == 0x0200000000c10001": [3],
    "cnm.cpid[0:6] == 02:00:00:00:00:c1": [3],
    # slices
    "eth.src[5] == c1": [3, 4],
    "eth.src[-1] == c1": [3, 4],
    "eth.src[0:3] == 02:00:00": ALL,
    "eth.src[0-2] == 020000": ALL,
    "eth.src[:3] == eth.dst[:3]": [1, 2, 3],
    "eth.src[3:] == 00-00-c1": [3, 4],
    "eth.src[0,5] == 0x02c1": [3, 4],
    "eth.src[ 0 : 2 , -1 ] == 02:00:c1": [3, 4],
    "eth.src[2]": ALL,
    "eth.src[6]": [],
    "eth.src[0:7]": [],
    "eth.src[0,9] == 02": ALL,
    "eth.src[6] != 00": ALL,
    'eth.src[6:] == ""': ALL,
    "ip.src[4] < 00": [1, 2],
    "eth.src[6] & ff": [],
    "eth.src[0:3] > ff:ff": ALL,
    "eth.src[0:3] > 02:00:00": [],
    "eth.src > eth.dst[1:4]": ALL,
    "eth.src[0:3] in {ff..01:00:00:00}": ALL,
    "eth.src[2-2] in {00..01}": ALL,
    "eth.src[1:][4] == c1": [3, 4],
    "eth.dst[0] & 1": [4, 5, 6],
    "eth.dst[0] & 1 == 1": [4, 5, 6],
    "eth[12:2] == 08:06": [5],
    "eth[12:3]": [],
    "ip.src[0:2] == c0:00": [1, 2],
    "frame[14:4] == 00:01:08:00": [5],
    'frame.protocols[0:8] == "eth:vlan"': [1, 3],
    # searching
    'frame contains "Port"': [1, 2],
    'frame contains "port"': [],
    "frame contains 50:6f:72:74": [1, 2],
    'udp contains "Port"': [1],
    'eth contains "Port"': [1, 2],
    'cnm contains "Port"': [],
    "eth.src contains c1": [3, 4],
    'frame matches "port"': [1, 2],
    'frame matches "p.rt"': [1, 2],
    r'frame matches r"\x50\w{3} of"': [1, 2],
    'eth.src ~ "\\xc1$"': [3, 4],
    'frame.protocols matches "^eth:ieee8021ad:"': [2],
    'frame.protocols contains "vlan:vlan"': [2],
    'frame.protocols == "eth:arp"': [5],
    # the record
    "frame.len == frame.cap_len": ALL,
    "frame.interface_id == 2": [3],
    "frame.time_epoch == 1700000000.000000001": [3],
    "frame.time_epoch > 1.5": [3],
    "frame.time_epoch in {0..0.5}": [1, 4, 5, 6],
}


@pytest.mark.parametrize("text", CASES)
def test_filter_selects_the_expected_frames(text: str) -> None:
    assert selected(text, FRAMES) == CASES[text]


def test_sampled_frame_is_selectable() -> None:
    frames = bundled("qcn_cp.pcapng")
    shown = selected("encapsulated", frames)
    assert shown == selected("cnm.msdu", frames) != []
    inner = selected("encapsulated.ip.src == 192.0.2.0/24", frames)
    assert set(inner) <= set(shown)
    assert selected("encapsulated.ip", frames) == selected("encapsulated.ip[0] == 45", frames) == inner != []
    assert selected("ip and encapsulated", frames) == []
    assert selected('encapsulated matches "^"', frames) == shown
    sources = "encapsulated contains c0:00:02"
    assert selected(sources, frames) == selected("encapsulated.ip contains c0:00:02", frames) == inner


def test_slices_equal_the_captured_octets() -> None:
    for record in bundled():
        octets = record.octets
        told = compile_filter(f"frame[0:] == {octets.hex(':')} and eth[0:] == {octets[:14].hex()}")
        assert told.matches(record)


def test_filter_lists_its_fields_once() -> None:
    text = (
        "udp.srcport == udp.dstport or not (eth.src[0] & eth.dst[0] and ip in {1} or udp.srcport in {1..2})"
    )
    text = text.replace("ip in {1}", 'frame matches "x"')
    assert compile_filter(text).fields == ("udp.srcport", "udp.dstport", "eth.src", "eth.dst", "frame")


def test_filters_are_values() -> None:
    one = compile_filter("vlan.id == 5")
    assert one == compile_filter("vlan.id == 5") != compile_filter("vlan.id == 6")
    assert hash(one) == hash(compile_filter("vlan.id == 5"))
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert isinstance(other, Filter)
        assert other == one
        assert selected(other.text, FRAMES) == [2]
    with pytest.raises(AttributeError):
        one.text = ""  # type: ignore[misc]


def test_errors_are_values() -> None:
    with pytest.raises(FilterError) as raised:
        compile_filter("vlan.id == x")
    error = raised.value
    assert (error.start, error.stop, error.filter) == (11, 12, "vlan.id == x")
    assert pickle.loads(pickle.dumps(error)) == error


def test_patterns_match_in_linear_time() -> None:
    frame = seen(Ethernet(src=_A, dst=_B, type=0x9999), Data(data=b"x" * 1400))
    assert selected('frame matches "(x+x+)+y"', [frame]) == []
    assert selected('frame matches "(x+x+)+X"', [frame]) == [frame.number]


def test_only_ascii_letters_match_in_either_case() -> None:
    frame = seen(Ethernet(src=_A, dst=_B, type=0x9999), Data(data=b"PoRt \xc9" + bytes(60)))
    assert selected(r'data.data matches r"port\s\xc9"', [frame]) == [frame.number]
    assert selected(r'data.data matches r"\xe9"', [frame]) == []
    assert selected(r'data.data matches r"[\xe0-\xef]"', [frame]) == []
