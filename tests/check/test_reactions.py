"""Sources that react to feedback, sources that do not react, and captures that prove neither."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check.planting import MS, US, Event, checked, checker_of, faults, frame

SINK, POINT = "02:00:00:00:00:0a", "02:00:00:00:cc:01/4"
EVERY_NS = 25 * US
"""Interval in ns between two frames of a source that does not react."""


def station(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


def data(number: int) -> bytes:
    return frame("vlan id=5 priority=3 cntag flow_id=7 ip udp dstport=9 data", src=station(number), dst=SINK)


def told(number: int, kind: str, weak: bool) -> bytes:
    known: dict[str, Any] = {"dst": station(number), "cpid": POINT}
    if kind == "cnm":
        return frame("vlan id=5 priority=6 cntag flow_id=7 cnm", qntz_fb=5 if weak else 40, **known)
    known["payload"] = data(number)[:48]
    if kind == "ecm":
        known |= {"q_off": 9 if weak else 0, "q_delta": 0}
    else:
        known |= {"type": 0 if weak else 1, "e": -9, "capacity": 10_000_000}
    return frame(f"vlan id=5 priority=7 {kind}", **known)


def capture(kind: str, messages: int, reacting: dict[int, bool], *, weak: bool = False) -> list[Event]:
    """Return a capture in which each source sends before and after each message, and sends less if it
    reacts.
    """
    seen: list[Event] = []
    for number, reacts in reacting.items():
        for at in range(messages):
            start = at * MS + number * US
            seen += [(start + each * EVERY_NS, data(number)) for each in range(24) if each < 9 or not reacts]
            seen.append((start + 8 * EVERY_NS + US, told(number, kind, weak)))
    seen.append((messages * MS, frame("arp")))
    return sorted(seen)


@pytest.mark.parametrize(
    ("kind", "rule", "least"), [("cnm", "QCN011", 10), ("ecm", "ECM008", 3), ("bcn", "BCN007", 3)]
)
def test_a_source_ignoring_feedback_is_found(kind: str, rule: str, least: int) -> None:
    seen = capture(kind, least, {1: True, 2: False})
    result = checked(seen, [rule])
    (finding,) = result.findings
    assert (finding.rule, finding.subject.split()[0], finding.measured) == (
        rule,
        station(2),
        "100.0 % of the octets before the messages",
    )
    assert seen[(finding.frame or 0) - 1][1] == told(2, kind, weak=False)
    assert result.results[0].judged == 2
    name = f"{rule[:3].lower()}.closed"
    # Few messages or weak messages prove nothing. If no flow reacts, the loop is open.
    assert checker_of(capture(kind, least - 1, {1: True, 2: False}), [rule]).result().results[0].judged == 0
    assert checker_of(capture(kind, least, {1: True, 2: False}, weak=True), [rule]).result().wrong == 0
    alone = capture(kind, least, {2: False})
    assert checker_of(alone, [rule]).result().results[0].judged == 0
    assert checker_of(alone, [rule], {name: "yes"}).result().wrong == 1


def test_reactions_are_summed_across_parts() -> None:
    seen = capture("ecm", 4, {1: True, 2: False})
    here, there = (checker_of(part, ["ECM008"]) for part in (seen[: len(seen) // 2], seen[len(seen) // 2 :]))
    here.merge(there)
    assert [found for found, _ in faults(here.result())] == ["ECM008"]
    assert here.result().findings[0].frame == checker_of(seen, ["ECM008"]).result().findings[0].frame
