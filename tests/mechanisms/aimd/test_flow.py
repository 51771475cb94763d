"""Keys of flows (algorithms §1, RP, heading and rule 8)."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.ecm.parameters import ECMReactionPointParameters
from tests.mechanisms.aimd.flow import flow_of

DA, SA = "020000000001", "020000000002"


def frame(header: str = "", da: str = DA, sa: str = SA) -> bytes:
    return bytes.fromhex((da + sa + header + "0800" + "45" * 46).replace(" ", ""))


FRAMES = [
    frame(), frame("8100 0000"), frame("8100 0001"), frame("8100 2001"), frame("8100 0002"),
    frame(da="020000000009"), frame(sa="020000000009"), frame("8100 0fff"),
]  # fmt: skip


def test_default_key_tells_vlan_addresses_and_priority_apart() -> None:
    parameters = ECMReactionPointParameters()
    for one, other in combinations(FRAMES, 2):
        assert flow_of(one, parameters).key != flow_of(other, parameters).key
    assert flow_of(frame("8100 7001"), parameters) == flow_of(frame("8100 6001"), parameters)  # DEI


def test_priority_is_the_outermost_tags_or_0() -> None:
    parameters = ECMReactionPointParameters()
    assert flow_of(frame("88a8 6001 8100 a002"), parameters).priority == 3
    assert flow_of(frame("22e9 0001 8100 a002"), parameters).priority == 5
    assert flow_of(frame(), parameters).priority == 0


def test_the_key_is_configurable() -> None:
    by_priority = ECMReactionPointParameters(key_vlan=False, key_dst=False, key_src=False)
    assert flow_of(FRAMES[3], by_priority).key == b"\x01"
    assert len({flow_of(octets, by_priority).key for octets in FRAMES}) == 2
    without_priority = ECMReactionPointParameters(key_priority=False)
    assert flow_of(FRAMES[2], without_priority).key == flow_of(FRAMES[3], without_priority).key
    assert flow_of(FRAMES[3], without_priority).priority == 1


def test_tags_of_other_kinds_do_not_change_flow() -> None:
    parameters = ECMReactionPointParameters()
    plain = flow_of(frame("8100 2001"), parameters)
    assert flow_of(frame("8100 2001 22e9 0009 88b6 0000 0202030405060708 0001 0000"), parameters) == plain
    assert flow_of(frame("88b6 0100 0202030405060708 8100 2001"), parameters) == plain


def test_a_hash_of_few_bits_puts_flows_together() -> None:
    parameters = ECMReactionPointParameters(hash_bits=1)
    keys = {flow_of(frame(da=f"0200000000{n:02x}"), parameters).key for n in range(64)}
    assert keys == {b"\0\0\0\0", b"\0\0\0\1"}


@given(st.binary(max_size=80))
def test_any_octets_have_a_flow(octets: bytes) -> None:
    flow = flow_of(octets.ljust(14, b"\0"), ECMReactionPointParameters())
    assert len(flow.key) == 15
    assert 0 <= flow.priority <= 7
