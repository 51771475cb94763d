"""Planted faults in the addresses and VLANs of CNMs."""

from __future__ import annotations

from typing import Any

import pytest

from ecmproto.tools.check import Checked
from tests.check.planting import MS, Event, checked, faults, frame

STATION, OTHER, SINK = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:0a"
SWITCH = "02:00:00:00:00:c1"


def data(source: str = STATION, to: str = SINK, vlan: int = 5) -> bytes:
    return frame(f"eth src={source} dst={to} vlan id={vlan} priority=3 cntag flow_id=7 data data=00")


def cnm(vlan: str = "vlan id=5 priority=6", **fields: Any) -> bytes:
    known = {"src": SWITCH, "dst": STATION, "cpid": f"{SWITCH}/1", "encap_dst": SINK, "qntz_fb": 12}
    return frame(f"{vlan} cntag flow_id=7 cnm", **known | fields)


def cnms(*frames: bytes) -> Checked:
    events: list[Event] = [(at * MS, each) for at, each in enumerate(frames)]
    return checked(events, ["QCN012", "QCN013", "QCN014", "QCN015"])


@pytest.mark.parametrize("source", ["03:00:00:00:00:c1", "00:00:00:00:00:00"])
def test_a_cnm_from_group_or_null_is_found(source: str) -> None:
    result = cnms(cnm(), cnm(src=source, cpid=f"{source}/1"))
    assert faults(result)[0] == ("QCN012", 2)
    assert result.findings[0].measured == source


def test_a_cpid_of_another_address_is_found() -> None:
    result = cnms(cnm(), cnm(cpid="02:00:00:00:00:c2/1"))
    assert faults(result) == [("QCN013", 2)]
    assert (result.findings[0].measured, result.findings[0].allowed) == ("02:00:00:00:00:c2", SWITCH)


def test_encapsulated_address_without_traffic_is_found() -> None:
    result = cnms(data(), cnm(), cnm(encap_dst=OTHER), data(OTHER, OTHER))
    assert faults(result) == [("QCN014", 3)]
    assert result.findings[0].measured == OTHER
    assert faults(cnms(data(OTHER), cnm(encap_dst=OTHER))) == []  # nothing of the station is in the capture


def test_cnm_in_vlan_of_others_is_found() -> None:
    other = cnm("vlan id=6 priority=6")
    result = cnms(data(), cnm(), other, data(OTHER, vlan=6))
    assert faults(result) == [("QCN015", 3)]
    assert result.findings[0].measured == 6
    assert faults(cnms(data(), other, data(vlan=6))) == []
    untagged = frame(f"eth src={STATION} dst={SINK} data data=00")
    assert faults(cnms(untagged, other)) == []  # tags come from the switch's port
