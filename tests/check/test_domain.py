"""Rules for congestion notification domains: each rule finds its planted fault, and no other rule reports the
fault.
"""

from __future__ import annotations

from ecmproto.tools.check import Checked
from tests.check.planting import MS, Event, checked, faults, frame

TAGGED = frame("vlan id=5 priority=3 cntag flow_id=7 data data=00")


def announced(source: str, cnpv: int = 0b1000, ready: int = 0b1000) -> bytes:
    return frame(f"eth src={source} lldpcn cnpv={cnpv} ready={ready}")


def domain(events: list[Event], **parameters: str) -> Checked:
    return checked(events, ["DOM"], {f"domain.{name}": value for name, value in parameters.items()})


STATION, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:c1"


def test_a_cn_tag_outside_the_cnpvs_is_found() -> None:
    events: list[Event] = [(0, TAGGED), (MS, frame("vlan id=5 priority=4 cntag flow_id=7 data data=00"))]
    assert faults(domain(events)) == []
    result = domain(events, cnpv="3")
    assert faults(result) == [("DOM001", 2)]
    assert (result.findings[0].measured, result.findings[0].allowed) == (4, "3")


def test_untagged_cn_tag_counts_as_priority_0() -> None:
    untagged = frame("cntag flow_id=7 data data=00")
    cnm = frame("cntag flow_id=7 cnm qntz_fb=1")
    result = domain([(0, TAGGED), (MS, untagged), (2 * MS, cnm)], cnpv="3")
    assert faults(result) == [("DOM001", 2)]
    assert result.findings[0].measured == 0
    assert "without a VLAN tag" in result.findings[0].what
    assert faults(domain([(0, untagged)], cnpv="0,3")) == []
    assert faults(domain([(0, announced(STATION)), (MS, untagged)])) == [("DOM002", 2)]


def test_a_cn_tag_leaving_the_domain_is_found() -> None:
    chassis_port_and_time = bytes.fromhex("02070402000000 00c1 04020731 06020078 0000")
    silent = bytes.fromhex(f"0180c200000e{SWITCH.replace(':', '')}88cc") + chassis_port_and_time
    events: list[Event] = [(0, announced(STATION)), (MS, silent), (2 * MS, TAGGED), (3 * MS, TAGGED)]
    result = domain(events)
    assert faults(result) == [("DOM002", 3)]
    assert result.findings[0].what == f"priority 3 of CN-TAGs is not a CNPV at {SWITCH}"
    assert result.findings[0].measured == "2 frames in total"


def test_a_cn_tag_before_ready_is_found() -> None:
    events: list[Event] = [(0, announced(STATION)), (MS, announced(SWITCH, ready=0)), (2 * MS, TAGGED)]
    assert faults(domain(events)) == [("DOM003", 3)]
    assert faults(domain([*events, (3 * MS, announced(SWITCH))])) == []


def test_links_without_announcements_are_not_judged() -> None:
    events: list[Event] = [(0, TAGGED), (MS, announced(SWITCH, cnpv=0, ready=0), 1)]
    assert faults(domain(events)) == []


def test_all_eight_priorities_as_cnpvs_are_found() -> None:
    events: list[Event] = [(0, announced(STATION, 0xFE, 0)), (MS, announced(SWITCH, 0xFF, 0))]
    assert faults(domain(events)) == [("DOM004", 2)]


def test_ready_bits_outside_the_cnpvs_are_found() -> None:
    events: list[Event] = [(0, announced(STATION, 0b11000, 0b10000)), (MS, announced(SWITCH, 0b1000, 0b1010))]
    result = domain(events)
    assert faults(result) == [("DOM005", 2)]
    assert (result.findings[0].measured, result.findings[0].allowed) == ("1, 3", "only CNPVs (3)")


def test_a_second_cn_tag_is_found() -> None:
    two = frame("vlan id=5 priority=3 cntag flow_id=7 cntag flow_id=8 data data=00")
    inside = frame("ieee8021ad id=5 cntag flow_id=7 ieee8021ah isid=1 vlan id=5 cntag flow_id=8 data data=00")
    result = domain([(0, TAGGED), (MS, two), (2 * MS, inside)])
    assert faults(result) == [("DOM007", 2)]
    assert result.findings[0].measured == 2


EAST, WEST = 0, 1


def test_unremapped_cnpv_after_the_edge_is_found() -> None:
    sent, kept, remapped = (
        frame(f"eth src={STATION} vlan id=5 priority={each} data data=00") for each in (3, 3, 2)
    )
    link: list[Event] = [(0, announced(STATION, cnpv=0, ready=0), EAST), (1, announced(SWITCH), EAST)]
    events: list[Event] = [*link, (MS, sent, EAST), (2 * MS, remapped, WEST), (3 * MS, kept, WEST)]
    result = domain(events)
    assert faults(result) == [("DOM006", 5)]
    assert (result.findings[0].measured, result.findings[0].allowed) == (3, "a priority other than 3")
    assert faults(domain(events[1:])) == []  # nothing says that the station is outside
    again: Event = (4 * MS, announced(STATION, cnpv=0, ready=0), WEST)
    assert faults(domain([*events, again])) == []  # both captures are of the same link
