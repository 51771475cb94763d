"""Measurements of a run with known figures, and outcomes over several seeds."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ecmproto.control.lab.model import Band, Control, Measure
from ecmproto.control.lab.results.measurements import RunFigures, settling_ns
from ecmproto.control.lab.results.outcome import Comparison, Outcome, explanations, problems
from ecmproto.control.lab.results.sizes import by_size
from ecmproto.control.lab.setup.figures import MEASUREMENTS, parse_expectation, parse_figure
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.simulation.series import Completions, Conservation, Deadlock, RunResult
from ecmproto.control.lab.simulation.simulate import simulate
from ecmproto.errors import SpecError
from tests.lab.synthetic import MS, experiment, run_result


def value(text: str, result: RunResult | None = None) -> tuple[float, ...]:
    return parse_figure(text).evaluate(RunFigures(result or run_result()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("queue.mean", 24_000),
        ("queue.mean[0ms..100ms]", 0.2 * 100_000 + 0.8 * 24_000),
        ("queue.mean[19ms..21ms]", 62_000),
        ("queue.peak", 34_000),
        ("queue.peak[0ms..20ms]", 110_000),
        ("queue.p50", 24_000),
        ("queue.p10", 21_000),
        ("queue.p99", 34_000),
        ("queue.min", 21_000),
        ("queue.std", math.sqrt(0.2 * 2600**2 + 0.78 * 400**2 + 0.02 * 10_400**2)),
        ("queue.within(20kB..25kB)", 0.98),
        ("queue.within(90kB..110kB)[0ms..40ms]", 0.5),
        ("queue.p60[0ms..40ms]", 100_000),
        ("queue.mean(a>s)", 900_000),
        ("queue.settling(20kB..30kB)[0ms..]", 20 * MS),
        ("queue.settling(25%)[0ms..]", 20 * MS),
        ("queue.settling(25%, 8ms)[0ms..]", 24 * MS),
        ("queue.settling(25%)", 0),
        ("queue.settling(50kB..60kB)[0ms..]", math.inf),
        ("throughput", 1e10),
        ("throughput[0ms..20ms]", 7.5e9),
        ("throughput.reaches(8G)[0ms..]", 10 * MS),
        ("throughput.reaches(11G)[0ms..]", math.inf),
        ("utilisation[0ms..20ms]", 0.75),
        ("drops", 0),
        ("drops[0ms..]", 7),
        ("drops(s>d)[0ms..]", 7),
        ("pause.count", 1),
        ("pause.count(s>d)", 0),
        ("pause.time", 2 * MS),
        ("control.frames", 100),
        ("control.octets", 6400),
        ("control.lost[0ms..10ms]", 7),
        ("control.overhead", 6400 / (50 * 1_250_000)),
        ("rate(r1)", 5e9),
        ("rate(r2)[0ms..20ms]", 2.5e9),
        ("rate.reaches(r2, 4G)[0ms..]", 10 * MS),
        ("rate.settling(r2, 5%)[0ms..]", 10 * MS),
        ("sum(rate(bulk))", 1e10),
        ("jain(rate(*))", 1.0),
        ("offered(r2)", 5e9),
        ("lost(r1)[0ms..]", 7),
        ("lost(r2)[0ms..]", 0),
        ("delay(r1)", 20_000),
        ("tps(r2)", 1000),
        ("latency(r2)", 40_000),
        ("latency.p50(r2)", 40_000),
        ("latency.p99(r2)", 60_400),
    ],
)
def test_measurement(text: str, expected: float) -> None:
    assert list(value(text)) == pytest.approx([expected], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("text", ["queue.mean[19500us..20500us]", "drops[..20.5ms]", "rate(r1)[19500us..]"])
def test_misaligned_ranges_are_refused_with_a_window_hint(text: str) -> None:
    with pytest.raises(SpecError, match=r"multiples of measure\.window, 1 ms, got") as caught:
        value(text)
    assert caught.value.hint == "measure.window=500µs fits"


def test_every_measurement_can_be_read() -> None:
    limits = {"queue.within": "(1kB..2kB)", "reaches": "(1G)", "settling": "(25%)"}
    for name in MEASUREMENTS:
        behind = limits.get(name) or limits.get(name.rpartition(".")[2]) or ""
        for each in value(name + behind):
            assert isinstance(each, float | int), name


def test_slowdown_is_by_way_through_empty_network() -> None:
    """A transfer of 10 000 octets sends 1500 octets over two links, then 8500 octets.

    Each link delays by 0.5 µs, and the switch by 1 µs.
    """
    unloaded_ns = 2 * 1200 + 6800 + 2 * 500 + 1000
    assert list(value("slowdown.p50(r2)")) == pytest.approx([40_000 / unloaded_ns])


def test_completion_times_by_size_are_over_all_seeds() -> None:
    run = RunFigures(run_result())
    (size,) = by_size([run, run])
    assert (size.low_octets, size.high_octets) == (1_000, 10_000)
    (count,) = value("tps(r2)")
    assert size.flows == 2 * round(count * (run.until_ns - run.from_ns) / 10**9)
    assert size.fct_p50_ns == 40_000
    assert value("slowdown.p99(r2)") == (by_size([run])[0].slowdown_p99,)
    assert size.cells()[0] == "1 kB to 10 kB"
    assert not by_size([RunFigures(run_result(completions=Completions()))])


def test_what_there_is_nothing_of_is_no_number() -> None:
    assert math.isnan(value("latency(r1)")[0])
    assert math.isnan(value("slowdown(r1)")[0])
    assert math.isnan(value("queue.mean[100ms..]")[0])
    assert value("tps(r1)") == (0.0,)


def test_stopped_run_is_measured_until_its_end() -> None:
    whole = run_result()
    ports = tuple(
        replace(port, octet_ns=port.octet_ns[:60], sent_octets=port.sent_octets[:60]) for port in whole.ports
    )
    stopped = replace(whole, duration_ns=59_500_000, ports=ports)
    assert value("throughput(s>d)[0ms..59ms]", stopped) == value("throughput(s>d)[0ms..59ms]", whole)
    assert not stopped.complete
    assert list(problems([RunFigures(stopped)])) == ["seed 1: stopped at 59.5 ms of 100 ms"]


def test_main_port_is_fullest_switch_port_by_default() -> None:
    assert RunFigures(run_result()).main_port == "s>d"
    named = run_result(experiment=experiment(measure=Measure(port="a>s")))
    assert RunFigures(named).main_port == "a>s"
    missing = run_result(experiment=experiment(measure=Measure(port="x>y")))
    with pytest.raises(SpecError, match="x>y"):
        RunFigures(missing).port("")


def test_queue_settles_after_its_last_excursion() -> None:
    means = np.array([9.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    assert settling_ns(means, 1000, (0.0, 2.0)) == 3000
    assert settling_ns(means[:3], 1000, (0.0, 2.0)) == math.inf
    assert settling_ns(means[:0], 1000, (0.0, 2.0)) == math.inf


# Outcomes -------------------------------------------------------------------------------------------------


def outcome(*settled_octets: int) -> Outcome:
    runs = [run_result(seed, settled_octets=octets) for seed, octets in enumerate(settled_octets, 1)]
    return Outcome(experiment(), [RunFigures(run) for run in runs])


def test_band_holds_with_nine_of_ten_seeds_inside() -> None:
    assert outcome(*[24_000] * 9, 31_500).holds
    assert not outcome(*[24_000] * 8, 31_500, 31_500).holds
    assert not outcome(31_500).holds


def test_verdict_says_by_how_much_band_is_missed() -> None:
    assert outcome(24_000).rows[0].verdict_text() == "inside"
    assert outcome(24_000, 25_000).rows[0].verdict_text() == "inside on all 2"
    assert outcome(31_500).rows[0].verdict_text() == "outside, 5.0 % above"
    assert outcome(24_000, 15_000).rows[0].verdict_text() == "inside on 1 of 2; worst 25.0 % below"


def test_row_of_several_seeds_has_median_and_range() -> None:
    row = outcome(24_000, 22_000, 29_000).rows[0]
    assert list(row.medians) == [24_000]
    assert list(row.ranges) == [(22_000, 29_000)]
    assert row.ours_text() == "24 kB"
    assert row.range_text() == "22 kB … 29 kB"
    assert row.band_text() == "20 kB … 30 kB"


def test_values_of_several_flows_stand_together() -> None:
    row = next(row for row in outcome(24_000).rows if row.published)
    assert (row.ours_text(), row.published_text()) == ("2 × 5 Gb/s", "4.9 5.1 Gb/s")


def test_different_values_share_their_unit() -> None:
    row = outcome(24_000).row("rate(r1..r2)[0ms..20ms]")
    assert row.ours_text() == "5.0 2.5 Gb/s"


def test_the_table_has_ours_beside_published_and_band() -> None:
    lines = outcome(24_000).table().splitlines()
    assert lines[0] == "two-to-one: two senders, one receiver"
    assert any(
        line.split() == ["queue.mean", "24.00", "kB", "20", "kB", "…", "30", "kB", "inside"] for line in lines
    )
    assert "no frame was dropped" not in "\n".join(lines)


def test_json_has_neither_infinity_nor_nan() -> None:
    given = outcome(24_000, 100_000)
    document = json.loads(json.dumps(given.as_dict(), allow_nan=False))
    assert document["schema"] == "ecmproto/lab/1"
    assert document["figures"][0]["inside"] == [True, False]
    assert document["figures"][0]["values"] == [[24_000], [100_000]]
    units = {row["figure"]: row["unit"] for row in document["figures"]}
    assert (units["queue.mean"], units["rate(r1..r2)"], units["utilisation"]) == ("octets", "bit/s", "")


def test_figures_of_other_runs_are_of_same_seed() -> None:
    bands = Measure(from_ns=50 * MS, bands=(Band(figure="queue.mean / queue.mean@none", low=0.4, high=0.6),))
    given = experiment(measure=bands)
    ours = [RunFigures(run_result(seed, settled_octets=12_000)) for seed in (1, 2)]
    none = [RunFigures(run_result(seed, settled_octets=24_000 * seed)) for seed in (1, 2)]
    row = Outcome(given, ours, others={"none": none}).rows[0]
    assert row.values == ((0.5,), (0.25,))


def test_comparison_is_about_same_port_in_every_run() -> None:
    first = run_result()
    other = replace(first.ports[1], name="s>e", octet_ns=first.ports[1].octet_ns / 2)
    whole = replace(first, ports=(*first.ports, other))
    turned = replace(first, ports=(*first.ports, replace(other, octet_ns=first.ports[1].octet_ns * 2)))
    assert RunFigures(turned).main_port == "s>e"
    runs = {"a": [RunFigures(whole)], "b": [RunFigures(turned)]}
    outcomes = {name: Outcome(experiment(), each) for name, each in runs.items()}
    lines = Comparison(outcomes).table().splitlines()
    assert any(line.split() == ["queue.mean", "24.00", "kB", "24.00", "kB"] for line in lines)


def test_an_expectation_reads_the_same_figures() -> None:
    figures = RunFigures(run_result())
    assert parse_expectation("queue.p99 < 40kB").check(figures)[0]
    assert not parse_expectation("queue.p99 < 20kB").check(figures)[0]


# What never happened --------------------------------------------------------------------------------------


def quiet(mechanism: str, flow_control: str | None = None) -> RunFigures:
    """Return a run without messages, PAUSE frames and drops."""
    given = run_result(experiment=experiment(control=Control(mechanism=mechanism, flow_control=flow_control)))
    still = np.zeros(100, np.int64)
    ports = tuple(replace(port, dropped_frames=still, xoff_frames=still) for port in given.ports)
    none = replace(given.flow_control, time_ns=np.zeros(0, np.int64), stops=np.zeros(0, np.bool_))
    none = replace(none, port=np.zeros(0, np.int64), priority=np.zeros(0, np.int64))
    return RunFigures(replace(given, ports=ports, messages=(), flow_control=none))


def test_it_says_how_far_pfc_was_from_firing() -> None:
    lines = list(explanations([quiet("none", "pfc")]))
    assert "PFC was never sent: peak 110 kB, XOFF 140 kB, at s>d" in lines
    assert not any("fired" in line for line in explanations([RunFigures(run_result())]))


def test_it_says_why_there_was_no_message() -> None:
    assert any(
        line.startswith("no qcn message: no sample was taken") for line in explanations([quiet("qcn")])
    )
    short = quiet("qcn").result
    ports = tuple(replace(port, peak_octets=port.peak_octets // 100) for port in short.ports)
    lines = list(explanations([RunFigures(replace(short, ports=ports))]))
    assert "no qcn message: no queue exceeded Qeq (peak 1.1 kB, Qeq 26 kB, at s>d)" in lines
    assert not any("message" in line for line in explanations([quiet("none")]))


def test_the_reason_for_no_message_fits_the_mechanism() -> None:
    assert "no csig message: the mechanism sends none" in list(explanations([quiet("csig")]))
    marking = quiet("dcqcn").result
    ports = tuple(replace(port, set_point_octets=None) for port in marking.ports)
    watched = tuple(replace(port, is_watched=True) for port in ports)
    why_none = "nothing caused one, although pauses stopped 1 port (lowest XOFF: 140 kB)"
    for there, why in ((watched, why_none), (ports, "no port has a congestion point")):
        lines = list(explanations([RunFigures(replace(marking, ports=there))]))
        assert f"no dcqcn message: {why}" in lines
    lines = list(explanations([RunFigures(replace(quiet("isolation").result, ports=watched))]))
    assert "no isolation message: the ports watch priority 3, which no flow has (flow.priority)" in lines


def test_it_says_how_full_the_fullest_buffer_was() -> None:
    assert "no frame was dropped: peak 110 kB, buffer 150 kB, at s>d" in list(explanations([quiet("none")]))
    assert not any("dropped" in line for line in explanations([RunFigures(run_result())]))


def test_what_one_seed_saw_did_happen() -> None:
    assert not any("fired" in line for line in explanations([quiet("pause"), RunFigures(run_result())]))


@pytest.mark.parametrize(
    ("start_ns", "offered", "sent", "why"),
    [
        (200 * MS, 0, 0, "it starts at 200 ms, but the run ends at 100 ms"),
        (0, 0, 0, "its source had nothing to send"),
        (0, 5, 0, "nothing left its host"),
        (0, 5, 5, "7 frames dropped on the path"),
    ],
)
def test_it_says_why_a_flow_brought_nothing(start_ns: int, offered: int, sent: int, why: str) -> None:
    given = run_result()
    first, second = given.experiment.flows
    still = np.zeros(100, np.int64)
    flow = replace(
        given.flows[0],
        delivered_frames=still,
        offered_frames=still + offered,
        sent_frames=still + sent,
    )
    changed = experiment(flows=(replace(first, start_ns=start_ns), second))
    lines = list(explanations([RunFigures(replace(given, experiment=changed, flows=(flow, given.flows[1])))]))
    assert any(line.startswith(f"flow r1 delivered nothing: {why}") for line in lines)


def test_flows_idle_alike_share_a_line() -> None:
    given, still = run_result(), np.zeros(100, np.int64)
    flows = tuple(replace(each, delivered_frames=still, offered_frames=still) for each in given.flows)
    lines = list(explanations([RunFigures(replace(given, flows=flows))]))
    assert "2 flows, such as r1, delivered nothing: its source had nothing to send" in lines


def test_table_has_lone_flows_beside_a_large_group() -> None:
    scenario = load_scenario("storage-incast").with_value("duration", "1ms")
    given = scenario.experiment()
    figures = {row.figure.text for row in Outcome(given, [RunFigures(simulate(given, seed=1))]).rows}
    assert {"rate(other)", "median(rate(read))", "max(fct.max(read))"} <= figures
    assert "rate(read1)" not in figures


def test_lost_frames_and_negative_queues_are_reported() -> None:
    assert not list(problems([RunFigures(run_result())]))
    lost = run_result(conservation=Conservation(sent_frames=10, received_frames=9))
    assert list(problems([RunFigures(lost)])) == [
        "seed 1: the simulation itself lost 1 frame: its figures are not reliable"
    ]
    port = run_result().ports[1]
    below = run_result(ports=(replace(port, level_octets=port.level_octets - 30_000),))
    assert "negative queue" in next(problems([RunFigures(below)]))


def test_a_pause_deadlock_is_a_circle() -> None:
    given = run_result(deadlocks=(Deadlock(time_ns=3 * MS, ports=("a>b", "b>c", "c>a")),))
    assert list(problems([RunFigures(given)])) == [
        "seed 1: a pause deadlock from 3 ms on: a>b → b>c → c>a → a>b"
    ]
