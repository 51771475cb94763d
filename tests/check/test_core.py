"""The core of the rule checker: rows, subjects, state, stored findings, and merged parts."""

from __future__ import annotations

import dataclasses
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

from ecmproto.control.mechanisms.api.parameters import Parameters, count, duration
from ecmproto.errors import ParameterError
from ecmproto.tools.check import Checker, Family, Judged, Rows, Rule, Subject, chosen, find_rule
from ecmproto.tools.check.keyed import TIME, Chain, Pairs
from ecmproto.tools.check.report import MAX_CASES, Report
from ecmproto.tools.check.rule import SENDER, Settings, Shift, Where, mac_of_key, value_of
from tests.check.planting import LINKS, MS, START_NS, Event, batch_of, checked, checker_of, faults, frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToyParameters(Parameters):
    most_flow: int = count("most_flow", 10, (0, 65535), source="a test", doc="largest flow")
    least_ns: int = duration("least", MS, (0, 10**12), source="a test", doc="least interval")


def _flow(rows: Rows, parameters: ToyParameters) -> Judged:
    flow = rows["cntag.flow_id"]
    return Judged(flow > parameters.most_flow, "too large", flow, parameters.most_flow)


class Intervals:
    """A test rule: the frames of a flow have a minimum interval."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._least = settings.of(ToyParameters).least_ns
        self._report = report
        self._chain = Chain(8, 0)

    def add(self, rows: Rows) -> None:
        seen = rows.events(slice(None))
        self._tell(self._chain.follow(rows["cntag.flow_id"], 0, seen))

    def _tell(self, pairs: Pairs) -> None:
        apart = pairs.now[:, TIME] - pairs.before[:, TIME]
        number, time_ns, interface = pairs.now.T
        where = Where(number, time_ns, interface, pairs.low)
        self._report.record("TOY002", where, Judged(apart < self._least, "too soon", apart, self._least))

    def join(self, later: Any, shift: Shift) -> None:
        self._tell(self._chain.join(later._chain, shift))

    def end(self, report: Report) -> None:
        pass


FLOW = Subject(name="flow", fields=("cntag.flow_id",), key=partial(value_of, "cntag.flow_id"), text=str)
RULES = (
    Rule(
        id="TOY001", name="flow", sentence="Flows are small.", why="", clause="a test",
        severity="error", subject=SENDER, on=("cntag.flow_id",), fields=("vlan.id",),
        parameters=("most_flow",), expression=_flow,
    ),
    Rule(
        id="TOY002", name="apart", sentence="They are apart.", why="", clause="a test", severity="note",
        subject=FLOW, on=("cntag.flow_id",), parameters=("least",), memory=Intervals,
    ),
)  # fmt: skip
TOY = (Family(name="toy", title="Toy", parameters=ToyParameters, rules=RULES),)


def tagged(flow: int, station: int = 1) -> bytes:
    return (
        frame("vlan id=5 priority=3 cntag ip udp data", flow_id=flow)
        if station == 1
        else frame(
            "vlan id=5 priority=3 cntag ip udp data", flow_id=flow, src=f"02:00:00:00:00:{station:02x}"
        )
    )


def test_findings_contain_rule_frame_subject_and_values() -> None:
    seen: list[Event] = [(0, tagged(3)), (MS, tagged(30, 2), 1), (2 * MS, frame("ip udp data"))]
    seen.append((3 * MS, tagged(11)))
    result = checked(seen, ["TOY001"], families=TOY)
    first, second = result.findings
    assert (first.rule, first.frame, first.time_ns, first.interface) == ("TOY001", 2, START_NS + MS, 1)
    assert (first.subject, first.what, first.measured, first.allowed) == (
        "02:00:00:00:00:02", "too large", 30, 10,
    )  # fmt: skip
    assert second.frame == 4
    (rule,) = result.results
    assert [(case.subject, case.judged, case.wrong) for case in rule.cases] == [
        ("02:00:00:00:00:01", 2, 1), ("02:00:00:00:00:02", 1, 1),
    ]  # fmt: skip
    assert result.frames == 4


def test_frames_without_the_rules_field_are_not_judged() -> None:
    result = checked([(0, frame("cntag flow_id=99 ip udp data"))], ["TOY001"], families=TOY)
    assert (result.wrong, result.results[0].judged) == (0, 0)


def test_memory_spans_batches_and_parts() -> None:
    times = {1: (0, 2, 2.5, 9, 9.25), 2: (1, 2.25, 9.1), 3: (4,)}
    seen: list[Event] = sorted((int(at * MS), tagged(flow)) for flow, when in times.items() for at in when)
    result = checked(seen, ["TOY002"], families=TOY)
    assert [(each.frame, each.subject, each.measured) for each in result.findings] == [
        (5, "1", MS // 2), (9, "1", MS // 4),
    ]  # fmt: skip
    (rule,) = result.results
    assert [(case.subject, case.judged, case.wrong) for case in rule.cases] == [("1", 4, 2), ("2", 2, 0)]


def test_memory_stays_within_its_bound() -> None:
    seen = [(at, tagged(flow)) for at, flow in enumerate([*range(12)] * 2)]
    result = checker_of(seen, ["TOY002"], families=TOY).result()
    assert result.wrong == 8  # flows behind the eighth are followed no more


def test_findings_beyond_the_limit_are_counted() -> None:
    checker = Checker(RULES[:1], families=TOY, max_findings=3)
    for first in (0, 5):
        checker.add(batch_of([(0, tagged(11 + each)) for each in range(5)], first))
    result = checker.result()
    assert (len(result.findings), result.wrong) == (3, 10)
    other = Checker(RULES[:1], families=TOY, max_findings=3)
    other.merge(checker)
    assert other.result() == result


def test_subjects_beyond_the_limit_are_summed_as_others() -> None:
    report = Report(RULES[:1])
    keys = np.arange(MAX_CASES + 5, dtype=np.int64)
    zeros = np.zeros_like(keys)
    where = Where(zeros + 1, zeros, zeros, keys)
    report.record("TOY001", where, Judged(np.ones(len(keys), np.bool_), "wrong"))
    cases = report.cases("TOY001")
    assert (len(cases), cases[-1].subject, cases[-1].judged, cases[-1].wrong) == (
        MAX_CASES + 1, "others", 5, 5,
    )  # fmt: skip


def test_a_case_has_interface_of_first_judged_frame() -> None:
    line = "cnm qntz_fb=1 cpid=02:00:00:00:cc:01/1"
    untagged: Event = (0, frame(line), 0)
    result = checked([untagged, (MS, frame(f"vlan id=5 priority=6 {line}"), 1)], ["QCN002"])
    assert [(case.judged, case.interface) for case in result.results[0].cases] == [(1, 1)]


def test_interfaces_of_a_merged_capture_are_renumbered() -> None:
    here, there = (checker_of([(0, tagged(99), 1)], ["TOY001"], families=TOY) for _ in range(2))
    here.merge(there, other_interfaces=True)
    result = here.result()
    assert [(each.frame, each.interface) for each in result.findings] == [(1, 1), (2, 3)]
    assert [each.name for each in result.interfaces] == ["east", "west", "east", "west"]


def test_parts_with_other_rules_or_parameters_are_refused() -> None:
    here = Checker(RULES, families=TOY)
    for there in (Checker(RULES[:1], families=TOY), Checker(RULES, {"toy.least": "1s"}, families=TOY)):
        with pytest.raises(ParameterError, match="the same rules"):
            here.merge(there)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("toy.leest", "1", "did you mean 'toy.least'"),
        ("least", "1", "toy.least"),
        ("toy.least", "soon", "toy.least"),
    ],
)
def test_wrong_parameters_are_refused_by_full_name(name: str, text: str, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        Checker(RULES, {name: text}, families=TOY)


def test_rules_are_selected_by_prefix_of_id() -> None:
    assert [rule.id for rule in chosen(["toy"], ["TOY001"], TOY)] == ["TOY002"]
    assert find_rule("toy002", TOY) is RULES[1]
    with pytest.raises(ParameterError, match="did you mean 'TOY001'"):
        chosen(["TAY001"], (), TOY)
    with pytest.raises(ParameterError, match="TOY002"):
        find_rule("TOY9", TOY)


def test_findings_in_untimed_frames_have_no_time() -> None:
    batch = dataclasses.replace(batch_of([(0, tagged(99))]), timed=np.zeros(1, np.bool_))
    checker = Checker(RULES[:1], families=TOY)
    checker.add(batch, interfaces=LINKS)
    assert checker.result().findings[0].time_ns is None


def test_checkers_survive_pickling() -> None:
    checker = pickle.loads(pickle.dumps(Checker()))
    assert checker.result().wrong == 0
    assert mac_of_key(0x0200_0000_0001) == "02:00:00:00:00:01"
    assert faults(checker.result()) == []
