"""Planted faults in CNMs: each fault is found by its rule, and no other rule reports the fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.tools.check import Checked, Checker, check_capture, chosen
from ecmproto.tools.check.rules import qcn
from ecmproto.tools.check.rules.qcn import FeedbackAgainstQueue
from ecmproto.units import exact_octets
from pcaps.manifest import FOLDER
from tests.check.planting import MS, Event, batch_of, checked, checker_of, faults, frame

LINE = "vlan id=5 priority=6 cntag flow_id=7 cnm qntz_fb=12 q_offset=-406 q_delta=0"


def test_version_and_reserved_bits_are_0() -> None:
    seen = [
        (0, frame(LINE)),
        (MS, frame(LINE, version=1)),
        (2 * MS, frame(LINE, reserved=3)),
        (3 * MS, frame(LINE, encap_reserved=1)),
    ]
    result = checked(seen, ["QCN001"])
    assert faults(result) == [("QCN001", 2), ("QCN001", 3), ("QCN001", 4)]
    assert result.findings[1].measured == "Version 0, ReservedV 3, encapsulated reserved 0"
    assert {each.allowed for each in result.findings} == {0}


def test_cnms_have_their_priority() -> None:
    other = LINE.replace("priority=6", "priority=3")
    seen = [(0, frame(LINE)), (MS, frame(other)), (2 * MS, frame("cnm"))]
    assert faults(checked(seen, ["QCN002"])) == [("QCN002", 2)]
    assert faults(checked(seen, ["QCN002"], {"qcn.cnm_priority": "3"})) == [("QCN002", 1)]


def cnm(fb: int, offset: int, delta: int, **fields: Any) -> bytes:
    line = "vlan id=5 priority=6 cntag flow_id=7 cnm"
    return frame(line, qntz_fb=fb, q_offset=offset, q_delta=delta, **fields)


QUEUES = [(-410, 30), (-500, 90), (-300, 200), (-700, -20), (-406, 0), (-250, 77), (-900, 100), (-333, 11)]
"""Offsets and deltas in units of 64 octets."""


def feedback(offset: int, delta: int, w: float, qeq: int) -> int:
    return min(63, max(0, int(64 * (w * delta - offset) * 63 // (qeq * (2 * w + 1)))))


@pytest.mark.parametrize(("w", "qeq"), [(2, 26_000), (0.5, 33_000), (4, 100_000)])
def test_wrong_feedback_is_found_with_estimated_parameters(w: float, qeq: int) -> None:
    seen: list[Event] = []
    for at, (offset, delta) in enumerate(QUEUES * 3):
        seen.append((at * MS, cnm(feedback(offset, delta, w, qeq), offset, delta)))
    right = feedback(*QUEUES[1], w, qeq)
    seen.append((99 * MS, cnm(right + 3, *QUEUES[1])))
    seen.append((100 * MS, cnm(right, *QUEUES[1], cpid="02:00:00:00:00:99/1")))
    result = checked(seen, ["QCN003"])
    assert faults(result) == [("QCN003", 25)]
    assert result.findings[0].measured == right + 3
    assert str(right) in str(result.findings[0].allowed).split(" for ")[0]
    estimated, silent = sorted(result.notes)
    assert estimated.startswith(f"QCN003 estimated qcn.w = {w:g} and qcn.qeq = {exact_octets(qeq)} from 2")
    assert silent.endswith("1 CNM of 02:00:00:00:00:99/1.")
    given = checked(seen, ["QCN003"], {"qcn.w": str(w), "qcn.qeq": f"{qeq}B"})
    assert (faults(given), given.notes, given.results[0].judged) == ([("QCN003", 25)], (), 26)
    # With the parameters of other implementations, most messages are wrong.
    assert checked(seen, ["QCN003"], {"qcn.w": "2", "qcn.qeq": "9kB"}).wrong > 10
    # The messages are also wrong if no parameters match the given parameter.
    other = checker_of(seen, ["QCN003"], {"qcn.qeq": "9kB"}).result()
    assert other.wrong > 10
    assert "qcn.w = 2 and qcn.qeq = 9 kB" in other.notes[0]


def test_cnms_beyond_the_limit_use_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedbackAgainstQueue, "_MAX_STORED", 10)
    seen: list[Event] = []
    for at, (offset, delta) in enumerate(QUEUES * 3):
        fb = feedback(offset, delta, 2, 26_000) + (10 if at in (3, 20) else 0)
        seen.append((at * MS, cnm(fb, offset, delta)))
    for at_once in (1, 7, 100):
        result = checker_of(seen, ["QCN003"], at_once=at_once).result()
        assert (faults(result), result.results[0].judged) == ([("QCN003", 4), ("QCN003", 21)], 24)


def test_congestion_points_beyond_the_limit_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedbackAgainstQueue, "_MAX_POINTS", 1)
    seen: list[Event] = []
    for at, (offset, delta) in enumerate(QUEUES):
        fb = feedback(offset, delta, 2, 26_000)
        seen += [(2 * at, cnm(fb, offset, delta, cpid=f"02:00:00:00:00:9{point}/1")) for point in (1, 0)]
    (rule,) = checker_of(seen, ["QCN003"], at_once=3).result().results
    assert [(case.subject, case.judged) for case in rule.cases] == [("02:00:00:00:00:91/1", 8)]


Numbers = tuple[int, int, int]
MISTAKES: dict[str, Callable[[int, int, int], Numbers]] = {
    "the sign of the offset is inverted": lambda fb, offset, delta: (fb, -offset, delta),
    "offset and delta are in octets instead of units of 64 octets": lambda fb, offset, delta: (
        fb, max(-32768, 64 * offset), 64 * delta
    ),
    "the feedback is too high by 1": lambda fb, offset, delta: (min(63, fb + 1), offset, delta),
    "the feedback is too low by 1": lambda fb, offset, delta: (max(0, fb - 1), offset, delta),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(("w", "qeq"), [(2, 26_000), (0.5, 33_000)])
def test_a_systematic_mistake_is_one_finding(mistake: str, w: float, qeq: int) -> None:
    spread = [(offset, delta) for offset in range(-420, 0, 47) for delta in range(-90, 140, 37)]
    right = [(feedback(*each, w, qeq), *each) for each in spread]
    seen: list[Event] = [(at * MS, cnm(*each)) for at, each in enumerate(right)]
    assert faults(checked(seen, ["QCN003"])) == []
    seen = [(at * MS, cnm(*MISTAKES[mistake](*each))) for at, each in enumerate(right)]
    result = checked(seen, ["QCN003"])
    assert faults(result) == [("QCN003", 1)]
    allowed = str(result.findings[0].allowed)
    assert f"{mistake}, with w {w:g} and Qeq {exact_octets(qeq)}" in allowed


def test_a_weight_between_powers_of_2_is_estimated() -> None:
    seen: list[Event] = [
        (at * MS, cnm(feedback(*each, 3, 26_000), *each)) for at, each in enumerate(QUEUES * 3)
    ]
    result = checked(seen, ["QCN003"])
    assert result.wrong == 0
    assert result.notes[0].startswith("QCN003 estimated qcn.w = 3 and qcn.qeq = 26 kB")


def test_feedback_that_no_parameters_fit_is_found_once() -> None:
    drawn = Random(1)
    seen: list[Event] = [
        (at * MS, cnm(drawn.randrange(1, 63), drawn.randrange(-999, 0), drawn.randrange(99)))
        for at in range(30)
    ]
    result = checked(seen, ["QCN003"])
    assert (faults(result), result.results[0].judged) == ([("QCN003", 1)], 1)
    assert "no known mistake" in str(result.findings[0].allowed)


def in_full(result: Callable[[], Checked]) -> Checked:
    """Return the result of QCN003 if every fit is calculated."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(qcn, "_can_overlap", lambda *_: True)
        return result()


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    w=st.sampled_from([0.3, 0.5, 1.25, 2, 3, 4]),
    qeq=st.sampled_from([9_000, 26_000, 100_000]),
    mistake=st.sampled_from([lambda *numbers: numbers, *MISTAKES.values()]),
    noise=st.sampled_from([0, 0.04, 0.06, 0.3, 0.4, 1]),
)
def test_skipped_fits_change_no_finding(
    seed: int, w: float, qeq: int, mistake: Callable[..., Numbers], noise: float
) -> None:
    drawn = Random(seed)
    seen: list[Event] = []
    for at in range(drawn.randrange(8, 200)):
        offset, delta = drawn.randrange(-900, 100), drawn.randrange(-200, 400)
        fb = feedback(offset, delta, w, qeq) if drawn.random() >= noise else drawn.randrange(64)
        seen.append((at * MS, cnm(*mistake(fb, offset, delta))))
    checker = checker_of(seen, ["QCN003"])
    assert checker.result() == in_full(checker.result)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*qcn*.pcap*")), ids=lambda path: path.name)
def test_skipped_fits_change_no_bundled_finding(path: Path) -> None:
    assert check_capture(path) == in_full(lambda: check_capture(path))


def test_a_cnm_with_zero_feedback_is_found() -> None:
    seen: list[Event] = [(0, cnm(0, 5, 0)), (MS, cnm(1, -40, 0))]
    assert faults(checked(seen, ["QCN004"])) == [("QCN004", 1)]


def test_wrong_msdu_lengths_are_found() -> None:
    whole = frame(LINE, msdu=bytes(40))
    beyond = frame("vlan id=5 priority=6 cntag flow_id=7 cnm", msdu_length=65, msdu=bytes(65))
    missing = whole[:-10]
    result = checked([(0, whole), (MS, beyond), (2 * MS, missing), (3 * MS, frame(LINE))], ["QCN005"])
    assert [(each.frame, each.measured) for each in result.findings] == [(2, 65), (3, 40)]


def test_octets_cut_by_the_capture_are_not_missing() -> None:
    batch = batch_of([(0, frame(LINE, msdu=bytes(40))[:60])])
    checker = Checker(chosen(["QCN005"]))
    checker.add(dataclasses.replace(batch, original=batch.captured + 22))
    assert checker.result().wrong == 0


def test_a_cnm_to_a_group_address_is_found() -> None:
    seen: list[Event] = [(0, frame(LINE)), (MS, frame(LINE, dst="01:00:5e:00:00:01"))]
    result = checked(seen, ["QCN006"])
    assert [(each.frame, each.measured) for each in result.findings] == [(2, "01:00:5e:00:00:01")]


def test_control_frames_are_not_sampled() -> None:
    seen: list[Event] = [
        (0, frame(LINE, msdu=bytes.fromhex("080045000000"))),
        (MS, frame(LINE, msdu=bytes.fromhex("22e700000000"))),
        (2 * MS, frame(LINE, msdu=bytes.fromhex("88b500000000"))),
        (3 * MS, frame(LINE, msdu=bytes.fromhex("0800"), encap_dst="01:80:c2:00:00:0e")),
        (4 * MS, frame(LINE)),
    ]
    result = checked(seen, ["QCN007"])
    assert [(each.frame, each.measured) for each in result.findings] == [
        (2, "a CNM"), (3, "a congestion message"), (4, "a frame to 01:80:c2:00:00:0e"),
    ]  # fmt: skip


def data(station: int, flow: int | None, **fields: Any) -> bytes:
    tag = "" if flow is None else f"cntag flow_id={flow}"
    return frame(f"vlan id=5 priority=3 {tag} ip udp data", src=f"02:00:00:00:00:{station:02x}", **fields)


def told(station: int, flow: int | None) -> bytes:
    line = "vlan id=5 priority=6 cnm" if flow is None else f"vlan id=5 priority=6 cntag flow_id={flow} cnm"
    return frame(line, dst=f"02:00:00:00:00:{station:02x}", src="02:00:00:00:cc:01")


def test_wrong_stations_and_flows_of_cnms_are_found() -> None:
    seen: list[Event] = [
        (0, data(1, 7)), (1, data(2, None)), (2, told(1, 7)), (3, told(2, None)), (4, told(3, 7)),
        (5, told(1, 8)), (6, told(1, 8)), (7, told(1, 0)), (8, told(4, 5)), (9, data(4, 5)),
    ]  # fmt: skip
    result = checked(seen, ["QCN008", "QCN009"])
    assert [(each.rule, each.frame, each.subject) for each in result.findings] == [
        ("QCN008", 5, "02:00:00:00:00:03"),
        ("QCN009", 6, "02:00:00:00:00:01"), ("QCN009", 8, "02:00:00:00:00:01"),
    ]  # fmt: skip
    assert "flow ID 8" in result.findings[1].what
    assert "without a CN-TAG" in result.findings[2].what


def test_stations_are_not_judged_from_cnms_alone() -> None:
    result = checked([(0, told(1, 7)), (1, told(2, 7))], ["QCN008", "QCN009"])
    assert [each.judged for each in result.results] == [0, 0]


def sampled(*intervals: int) -> list[Event]:
    """Return CNMs with ``octets`` octets of priority 3 between them, in frames of 8000 octets."""
    seen: list[Event] = []
    for octets in intervals:
        seen += [(len(seen) + each, data(1, 7, data=bytes(7942))) for each in range(octets // 8000)]
        seen.append((len(seen), cnm(1, -40, 0, encap_prio=3)))
    return seen


def test_intervals_between_cnms_follow_the_table() -> None:
    seen = sampled(*[160_000] * 6, 40_000, 150_000)
    short = 6 * 21 + 6
    result = checked(seen, ["QCN010"])
    assert faults(result) == [("QCN010", short)]
    assert result.results[0].judged == 7
    # stronger feedback asks for fewer octets
    strong = cnm(63, -2000, 0, encap_prio=3)
    seen[short - 7] = (seen[short - 7][0], strong)
    assert faults(checked(seen, ["QCN010"])) == []


def test_intervals_are_not_judged_from_few_frames() -> None:
    seen = sampled(*[20_000] * 8)
    assert checked(seen, ["QCN010"]).results[0].judged == 0
    assert checked(seen, ["QCN010"], {"qcn.has_all": "yes"}).wrong == 7
