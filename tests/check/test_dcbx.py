"""DCBX rules: each rule finds its planted fault, and no other rule reports the fault."""

from __future__ import annotations

from ecmproto.tools.check import Checked
from tests.check.planting import MS, Event, checked, faults, frame

HOST, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:c1"
SHARED = "lldpets per0=50 per3=50 prio3=3 tsa0=2 tsa3=2"
LOSSLESS = "lldppfc enable=8"
ROCE = "ip dsfield=0x68 udp bth"


def lldp(source: str, tlvs: str) -> bytes:
    return frame(f"eth src={source} {tlvs}")


def dcbx(*events: Event) -> Checked:
    return checked(list(events), ["DCB"])


def link(host: str, switch: str, *traffic: bytes) -> Checked:
    """Return the findings on a link whose ends advertise the given settings and exchange frames."""
    sent = (lldp(HOST, host), lldp(SWITCH, switch), *traffic)
    return dcbx(*((at * MS, octets) for at, octets in enumerate(sent)))


def test_matching_ends_break_no_rule() -> None:
    both = f"{SHARED} {LOSSLESS} lldpapp lldpapp.entry priority=3 protocol=4791"
    result = link(both, both, frame(f"vlan id=5 priority=3 {ROCE}"), frame("pfc prio3=9"))
    assert faults(result) == []
    judged = {each.rule.id for each in result.results if each.judged}
    assert judged == {f"DCB{number:03d}" for number in range(1, 10)}


def test_different_pfc_masks_of_two_ends_are_found() -> None:
    one_willing = link(f"{LOSSLESS} willing=1", "lldppfc enable=16")
    assert faults(one_willing) == [("DCB001", 2)]
    assert one_willing.findings[0].measured == f"{HOST}: 3, willing, {SWITCH}: 4"
    assert faults(link(LOSSLESS, "lldppfc enable=16")) == [("DCB001", 2), ("DCB002", 2)]
    assert faults(link(LOSSLESS, "lldpcee lldpcee.pfc enable=16"))[:1] == [("DCB001", 2)]


def test_the_latest_lldpdu_of_an_end_counts() -> None:
    events: list[Event] = [
        (0, lldp(HOST, "lldppfc enable=16")), (1, lldp(SWITCH, LOSSLESS)), (2, lldp(HOST, LOSSLESS))
    ]  # fmt: skip
    assert faults(dcbx(*events)) == []
    assert faults(dcbx(*events, (3, lldp(HOST, "lldppfc enable=16")))) == [("DCB001", 4), ("DCB002", 4)]
    assert faults(dcbx(events[1], (3, lldp(HOST, "lldppfc enable=16"), 1))) == []  # another link


def test_bandwidths_not_summing_to_100_are_found() -> None:
    short, recommended = SHARED.replace("per3=50", "per3=40"), "lldpetsrec per0=50 tsa0=2"
    result = link(short, f"{SHARED} {recommended}")
    assert faults(result) == [("DCB003", 1), ("DCB003", 2)]
    assert [each.measured for each in result.findings] == ["90 %", "50 %"]
    assert faults(link("lldpcee lldpcee.pg per0=60 per1=30", SHARED))[0] == ("DCB003", 1)
    assert faults(link("lldpets", SHARED)) == []  # all classes are strict


def test_a_strict_lossless_priority_is_found() -> None:
    strict = f"lldpets per0=100 prio3=3 tsa0=2 tsa3=0 {LOSSLESS}"
    result = link(strict, f"{SHARED} {LOSSLESS}")
    assert faults(result) == [("DCB004", 1)]
    assert (result.findings[0].measured, result.findings[0].subject) == ("3", HOST)
    group_15 = "lldpcee lldpcee.pg per0=100 prio3=15 lldpcee.pfc enable=8"
    assert ("DCB004", 1) in faults(link(group_15, group_15))


def test_roce_in_another_priority_than_assigned_is_found() -> None:
    by_port = f"{LOSSLESS} lldpapp lldpapp.entry priority=3 protocol=4791"
    by_dscp = f"{by_port} lldpapp.entry priority=4 selector=5 protocol=26"
    in_3, in_4 = (frame(f"vlan id=5 priority={priority} {ROCE}") for priority in (3, 4))
    cnp = frame("vlan id=5 priority=6 ip udp cnp")
    assert faults(link(by_port, LOSSLESS, in_3, cnp)) == []
    found = link(by_port, LOSSLESS, in_3, in_4, in_4)
    assert ("DCB005", 4) in faults(found)
    assert found.findings[0].measured == "2 frames in total"
    assert ("DCB005", 3) in faults(link(by_dscp, LOSSLESS, in_3))
    assert ("DCB005", 3) not in faults(link(by_dscp, LOSSLESS, in_4))
    of_cee = "lldpcee lldpcee.app lldpcee.app.entry protocol=4791 priorities=8"
    assert faults(link(of_cee, of_cee, in_3, in_4)) == [("DCB005", 4)]


def test_pfc_at_one_end_alone_is_found() -> None:
    assert faults(link(LOSSLESS, SHARED)) == [("DCB006", 2)]
    assert faults(link("lldppfc", SHARED)) == []
    assert faults(dcbx((0, lldp(HOST, LOSSLESS)))) == []  # the other end may not speak LLDP at all


def test_two_dcbx_dialects_on_a_link_are_found() -> None:
    cee = "lldpcee lldpcee.pfc enable=8"
    assert faults(link(LOSSLESS, cee)) == [("DCB007", 2)]
    assert faults(link(LOSSLESS, f"{LOSSLESS} {cee}")) == []
    assert faults(link(cee, cee)) == []


def test_pfc_of_a_disabled_priority_is_found() -> None:
    result = link(LOSSLESS, LOSSLESS, frame("pfc prio3=9"), frame("pfc prio5=9"), frame("pfc prio4=0"))
    assert faults(result) == [("DCB008", 4)]
    assert result.findings[0].allowed == "only priorities with PFC (3)"
    assert faults(link(SHARED, SHARED, frame("pfc prio5=9"))) == []


def test_roce_in_a_lossy_priority_is_found() -> None:
    in_4, untagged = frame(f"vlan id=5 priority=4 {ROCE}"), frame(ROCE)
    assert faults(link(LOSSLESS, LOSSLESS, in_4, untagged)) == [("DCB009", 3)]
    by_dscp = f"{LOSSLESS} lldpapp lldpapp.entry priority=5 selector=5 protocol=26"
    assert faults(link(by_dscp, LOSSLESS, untagged)) == [("DCB009", 3)]


def test_a_tlv_of_a_wrong_length_is_found() -> None:
    assert faults(dcbx((0, lldp(HOST, "lldppfc enable=8 length=7")))) == [("DCB000", 1)]
