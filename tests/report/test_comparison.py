"""The table that compares runs, and its sentences."""

from __future__ import annotations

import math
from dataclasses import replace

from ecmproto.tools.report.figures import listed, short_names
from ecmproto.tools.report.html import summary
from ecmproto.tools.report.run import ABSENT, FlowCurves, Measure, Run, comparison
from tests.report.sample import full_run, measure, measures, report_of


def run(name: str, *of: Measure) -> Run:
    return Run(name=name, title=name, duration_ns=0, measures=of)


def best(*values: float, better: str | None = "low") -> list[bool]:
    runs = [run("qcn", measure("k", value, better=better)) for value in values]
    return [cell.best for cell in comparison(runs)[0].cells]


def test_best_value_follows_the_good_direction() -> None:
    assert best(1, 2, 3) == [True, False, False]
    assert best(1, 2, 3, better="high") == [False, False, True]
    assert best(1, 2, 3, better=None) == [False, False, False]


def test_equal_best_values_share_the_star() -> None:
    assert best(0, 0, 7, 8) == [True, True, False, False]
    assert best(5, 5, 5) == [False, False, False]
    assert best(1.000001, 1.0, 2, 2) == [True, True, False, False]


def test_majority_of_equal_values_has_no_star() -> None:
    assert best(*[0] * 8, 7) == [False] * 9
    assert best(0, 0, 7) == [False, False, False]


def test_non_numbers_are_never_best() -> None:
    assert best(math.nan, 1, 2) == [False, True, False]
    assert best(math.inf, 1, better="high") == [False, False]
    assert best(4) == [False]


def test_runs_without_control_are_never_best() -> None:
    runs = [
        run(name, measure("k", value, better="low")) for name, value in (("none", 1), ("qcn", 2), ("ecm", 3))
    ]
    assert [cell.best for cell in comparison(runs)[0].cells] == [False, True, False]
    assert not any(cell.best for cell in comparison(runs[:1] * 2)[0].cells)


def test_fairness_of_other_flows_has_no_star() -> None:
    fair = (
        measure("fairness", 0.9, unit="index", better="high"),
        measure("fairness", 0.5, unit="index", better="high"),
    )
    alike = [replace(run("qcn", each), flows=(FlowCurves(label="a"),)) for each in fair]
    assert [cell.best for cell in comparison(alike)[0].cells] == [True, False]
    other = [alike[0], replace(alike[1], flows=(FlowCurves(label="b"),))]
    assert not any(cell.best for cell in comparison(other)[0].cells)


def test_runs_are_matched_by_measure_key() -> None:
    rows = comparison([run("a", measure("x", 1), measure("y", 2)), run("b", measure("y", 4))])
    assert [row.label for row in rows] == ["x", "y"]
    assert [[cell.text for cell in row.cells] for row in rows] == [["1 B", ABSENT], ["2 B", "4 B"]]
    assert [cell.part for cell in rows[1].cells] == [0.5, 1.0]


def test_names_are_short_and_all_different() -> None:
    names = short_names([run(name) for name in ("qcn", "e2cm", "none", "qcn", "qcn", "")])
    assert names == ["QCN", "E²CM", "no control", "QCN (2)", "QCN (3)", "run"]


def test_variants_are_named_by_their_parameters() -> None:
    variants = ("qcn", "qcn:w=4", "e2cm:rp.gd=0.1:w=4 over pfc", "none over pause")
    names = short_names([replace(run(text.partition(":")[0]), variant=text) for text in variants])
    assert names == ["QCN", "QCN w=4", "E²CM rp.gd=0.1 w=4 over PFC", "no control over PAUSE"]


def test_lists_read_as_in_a_sentence() -> None:
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_summary_of_single_run_names_losses() -> None:
    one = replace(full_run(label="x"), title="QCN", measures=measures(dropped=21))
    assert summary(report_of(one)) == [
        "The 1,000 frames of hotspot.pcap were sent through a simulated switch port with QCN.",
        "21 frames (2.1 %) were lost.",
        "The queue was 26 kB long on average, and 52 kB at its longest.",
    ]


def test_summary_of_several_runs_names_extremes() -> None:
    runs = [
        run("qcn", *measures(mean=26_000)),
        run(
            "pfc",
            *measures(mean=90_000),
            measure("paused_ns", 2_000_000, unit="ns"),
            measure("paused_sum_ns", 6_000_000, unit="ns"),
        ),
        run("none", *measures(dropped=1, mean=400_000)),
    ]
    assert summary(report_of(*runs))[1:] == [
        "No frame was lost with QCN and PFC; with no control 1 frame (0.1 %) was lost.",
        "On average the queue was shortest with QCN (26 kB) and longest with no control (400 kB).",
        "With PFC some sender was stopped for 2 ms, 6 ms summed up over senders and priorities.",
    ]


def test_summary_without_runs_or_frames() -> None:
    assert summary(report_of()) == ["Nothing was replayed from hotspot.pcap."]
    empty = run("qcn", *measures(frames=0, mean=math.nan))
    assert summary(report_of(empty)) == ["hotspot.pcap contains no frame that reaches the port."]
    assert summary(report_of(run("qcn"), run("ecm")))[1:] == []
