"""Planted faults in advertised rates."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from tests.check.planting import MS, START_NS, US, Event, checked, faults, frame

SOURCE, SINK = "02:00:00:00:00:01", "02:00:00:00:00:0a"
ENDS, BACK = {"src": SOURCE, "dst": SINK}, {"src": SINK, "dst": SOURCE}


def tagged(rate: int, **fields: Any) -> bytes:
    tag = "".join(f" {name}={value}" for name, value in ({"rlq_id": 1, "rate": rate} | fields).items())
    return frame(f"vlan id=5 priority=3 rdtag{tag} ip udp data", **ENDS)


def returned(rate: int, **fields: Any) -> bytes:
    return frame("vlan id=5 priority=7 fecn", **{"rlq_id": 1, "rate": rate} | BACK | fields)


def reported(rate: int = 5000, **fields: Any) -> bytes:
    return frame("vlan id=5 priority=7 dbp", **{"rate": rate} | BACK | fields)


def test_reserved_bits_are_0() -> None:
    seen: list[Event] = [
        (0, returned(900)), (1, returned(900, version=1)), (2, tagged(900)), (3, tagged(900, reserved=1)),
        (4, reported()), (5, reported(q=1)), (6, reported(rlq_id=3)),
    ]  # fmt: skip
    result = checked(seen, ["FECN001", "FECN002", "DBP001"])
    assert faults(result) == [("FECN001", 2), ("FECN002", 4), ("DBP001", 6), ("DBP001", 7)]


def test_rates_are_lowered_along_a_path() -> None:
    infinite = 0xFFFFFFFF
    seen: list[Event] = [
        (0, tagged(infinite), 0), (20 * US, tagged(9000), 1), (MS, tagged(infinite), 0),
        (MS + 9 * US, tagged(8000), 1), (2 * MS, tagged(7000), 0), (2 * MS + 9 * US, tagged(7001), 1),
        (3 * MS, tagged(6000), 0), (3 * MS + 9 * US, tagged(6000), 1),
    ]  # fmt: skip
    result = checked(seen, ["FECN003"])
    assert [(each.frame, each.measured, each.allowed, each.subject) for each in result.findings] == [
        (6, "7.001 Mb/s", "7 Mb/s at most", f"{SOURCE} RLQ 1")
    ]
    assert result.results[0].judged == 4
    # A single interface has no path, and equal tags may belong to different frames.
    assert checked([(event[0], event[1]) for event in seen], ["FECN003"]).results[0].judged == 0
    often: list[Event] = [(9 * MS + at * US, tagged(100 * at), 0) for at in range(1, 4)]
    assert checked([*seen, *often], ["FECN003"]).wrong == 0


@pytest.mark.parametrize(("later_ns", "judged"), [(500 * US, 1), (500 * US + 1, 0)])
def test_one_tag_is_matched_within_half_an_interval(later_ns: int, judged: int) -> None:
    seen: list[Event] = [(0, tagged(9000), 0), (later_ns, tagged(8000), 1)]
    assert checked(seen, ["FECN003"], {"fecn.interval": "1ms"}).results[0].judged == judged


@pytest.mark.parametrize(("later_ns", "wrong"), [(500 * US, 1), (500 * US + 1, 0)])
def test_the_rate_of_a_later_hop_counts(later_ns: int, wrong: int) -> None:
    own: list[Event] = [(2 * at * MS, tagged(9000), 0) for at in range(9)]
    hop: list[Event] = [(2 * at * MS + later_ns, tagged(5000), 1) for at in range(9)]
    back: list[Event] = [(18 * MS, returned(9000), 0)]
    assert checked([*sorted(own + hop), *back], ["FECN004"]).wrong == wrong


def test_returned_rates_not_sent_before_are_found() -> None:
    seen: list[Event] = []
    for at in range(20):
        seen += [(at * MS, tagged(900 - at)), (at * MS + US, returned(900 - at))]
    seen.insert(31, (15 * MS, returned(899)))
    seen += [(21 * MS, returned(5000)), (22 * MS, returned(300)), (23 * MS, returned(9999, rlq_id=2))]
    result = checked(seen, ["FECN004"])
    # 899 is the rate of a tag that is no longer among the latest eight
    assert [(each.frame, each.measured) for each in result.findings] == [(32, "899 kb/s"), (42, "5 Mb/s")]
    assert result.results[0].judged == 23


def test_returned_rates_match_tags_after_later_hops() -> None:
    infinite = 0xFFFFFFFF
    own: list[Event] = [(at * MS, tagged(infinite), 0) for at in range(20)]
    behind: list[Event] = [(at * MS + 20 * US, tagged(900 - at), 1) for at in range(20)]
    back: list[Event] = [(at * MS + 40 * US, returned(900 - at), 0) for at in range(20)]
    back[15] = (back[15][0], returned(899), 0)
    back[18] = (back[18][0], returned(infinite), 0)
    result = checked(sorted(own + behind + back), ["FECN004"])
    assert [each.measured for each in result.findings] == ["899 kb/s", "no limit"]
    assert result.results[0].judged == 20
    # The source's link alone has no rate for the comparison.
    assert checked(sorted(own + back), ["FECN004"]).results[0].judged == 0
    # tags that come often may be of other frames
    often: list[Event] = [(at * MS + 9 * US, tagged(infinite), 0) for at in range(20)]
    assert checked(sorted(own + often + behind + back), ["FECN004"]).wrong == 0


def test_rates_no_switch_advertises_are_found() -> None:
    seen: list[Event] = [
        (0, returned(100)), (1, returned(99)), (2, returned(0xFFFFFFFF)),
        (3, reported(99)), (4, reported(100)),
    ]  # fmt: skip
    assert faults(checked(seen, ["FECN005", "DBP003"])) == [("FECN005", 2), ("DBP003", 4)]


def test_reports_come_every_10_ms() -> None:
    times = [0, 10, 20.5, 30, 34, 44, 59, 90, 100]
    seen: list[Event] = [(int(at * MS), reported()) for at in times]
    result = checked(seen, ["DBP002"])
    assert [(each.frame, each.measured) for each in result.findings] == [(5, "4 ms"), (7, "15 ms")]
    # Another source has a separate rate, and so has another interface.
    seen = [(0, reported(), 0), (MS, reported(), 1), (2 * MS, reported(dst="02:00:00:00:00:02"), 0)]
    assert checked(seen, ["DBP002"]).results[0].judged == 0
    assert checked(seen, ["DBP002"], {"fecn.report": "1ms"}).wrong == 0


def sent(times_ms: Iterable[float], interface: int = 0, **fields: Any) -> list[Event]:
    octets = frame("vlan id=5 priority=3 ip udp data", **ENDS | fields)
    return [(int(at * MS), octets, interface) for at in times_ms]


def reports(*times_ms: float, interface: int = 0) -> list[Event]:
    return [(int(at * MS) + 1, reported(), interface) for at in times_ms]


def found(*events: list[Event]) -> list[tuple[float, Any]]:
    """Return the time of each finding in milliseconds and the measured values."""
    result = checked(sorted(itertools.chain(*events)), ["DBP002"])
    return [((each.time_ns or 0) // 1000 / 1000 - START_NS / MS, each.measured) for each in result.findings]


def test_missing_reports_to_active_sources_are_found() -> None:
    always = sent(at / 2 for at in range(200))
    assert found(always, reports(*range(10, 100, 10))) == []
    assert [at for at, _ in found(always, reports(*range(10, 100, 20)))] == [30, 50, 70, 90]
    assert found(always, reports(10, 20, 60, 70, 80, 90)) == [(60, "40 ms")]
    # reports that end before the data does
    assert found(always, reports(10, 20, 30)) == [(30, "last report 69.5 ms before the end")]
    # another's data is no reason to report
    assert found(sent(range(100), src="02:00:00:00:00:02"), reports(10, 20, 60, 70)) == []


def test_reports_resume_after_silence_of_the_source() -> None:
    data = sent([*range(12), *range(55, 100)])
    assert found(data, reports(10, 20, 30, 64, 74, 84, 94)) == []
    assert found(data, reports(10, 20, 30, 68, 78, 88, 98)) == [(68, "38 ms")]


def test_data_on_other_interfaces_belong_to_the_source() -> None:
    data, right = sent(range(100), 1), range(10, 100, 10)
    both = [*reports(*right), *reports(10, 20, 30, 60, 70, 80, 90, interface=1)]
    assert found(data, both) == [(60, "30 ms")]


def test_a_return_for_an_untagged_queue_is_found() -> None:
    seen: list[Event] = [
        (0, tagged(900)), (10 * US, returned(900)), (2 * MS, returned(900, rlq_id=2)),
        (3 * MS, tagged(900, rlq_id=2)), (4 * MS, returned(900, rlq_id=2)),
    ]  # fmt: skip
    result = checked(seen, ["FECN006"])
    assert faults(result) == [("FECN006", 3)]
    assert result.findings[0].subject == f"{SOURCE} RLQ 2"
    early = [seen[0], (20 * US, returned(900, rlq_id=2))]
    assert faults(checked(early, ["FECN006"])) == []  # its tag may stand before the capture
    assert faults(checked(seen[1:3], ["FECN006"])) == []  # no tag of the station is in it
