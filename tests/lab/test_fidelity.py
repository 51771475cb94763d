"""Rows of docs/fidelity.md that are not bands of a scenario."""

from __future__ import annotations

import dataclasses

import pytest

from ecmproto.control.engine.config import Buffer
from ecmproto.control.lab.model import Control, Experiment, Flow, Pattern, Thresholds
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import simulate
from tests.lab.test_paths import MS, experiment, figure

SOURCES = 100


@pytest.mark.parametrize(("load", "within"), [(0.5, 0.05), (0.8, 0.05), (0.9, 0.1)])
def test_queue_of_poisson_sources_is_an_md1_queue(load: float, within: float) -> None:
    network = parse_topology(f"star hosts={SOURCES + 1} rate=10G buffer=10MB").network()
    flows = [
        Flow(
            name=f"f{number}", source=f"h{number}", destination=f"h{SOURCES + 1}",
            pattern=Pattern.POISSON, rate_bps=int(load * 10**10 / SOURCES),
        )
        for number in range(1, SOURCES + 1)
    ]  # fmt: skip
    result = simulate(experiment(network, *flows, duration_ns=200 * MS), seed=1)
    (mean_octets,) = figure(result, f"queue.mean(core>h{SOURCES + 1})[10ms..200ms]")
    expected = load + load**2 / (2 * (1 - load))
    assert mean_octets / 1500 == pytest.approx(expected, rel=within)


def test_dynamic_thresholds_share_memory_equally() -> None:
    result = simulate(load_scenario("dynamic-thresholds").experiment(), seed=1)
    # Sixteen inputs with x = 734 kB - 16 x, plus the octets that arrive after XOFF: 1 us at 100 Gb/s, and a
    # frame.
    share = 734_000 / 17
    assert figure(result, "queue.peak(core>h17)")[0] == pytest.approx(16 * (share + 14_000), rel=0.01)


def incast(line: str, senders: int, control: Control, *, duration_ns: int) -> Experiment:
    """Return an experiment with saturating senders at one switch, and one receiver."""
    network = parse_topology(f"star hosts={senders + 1} {line}").network()
    flows = [
        Flow(name=f"f{number}", source=f"h{number}", destination=f"h{senders + 1}",
             pattern=Pattern.SATURATING, priority=3)
        for number in range(1, senders + 1)
    ]  # fmt: skip
    return dataclasses.replace(experiment(network, *flows, duration_ns=duration_ns), control=control)


@pytest.mark.parametrize(
    ("senders", "queue_octets", "busy"), [(2, 81_750, 0.998), (8, 155_000, 1), (20, 133_600, 0.934)]
)
def test_dcqcn_is_fair_with_a_queue_above_kmin(senders: int, queue_octets: int, busy: float) -> None:
    red = ("cp.kmin=100kB", "cp.kmax=400kB", "cp.pmax=0.05")
    control = Control(mechanism="dcqcn", flow_control="pfc", parameters=red)
    line = "rate=40G propagation=500ns buffer=20MB queue=4MB"
    result = simulate(incast(line, senders, control, duration_ns=60 * MS), seed=1)
    port = f"core>h{senders + 1}"
    assert figure(result, f"queue.mean({port})[30ms..60ms]")[0] == pytest.approx(queue_octets, rel=0.05)
    assert figure(result, f"utilisation({port})[30ms..60ms]")[0] == pytest.approx(busy, abs=0.005)
    assert figure(result, "jain(rate(*)[30ms..60ms])")[0] > 0.95
    assert figure(result, "pause.count[10ms..60ms]") == (0,)


def test_queue_of_twenty_dcqcn_senders_follows_the_model() -> None:
    red = ("cp.kmin=100kB", "cp.kmax=1.7MB", "cp.pmax=0.266")
    control = Control(mechanism="dcqcn", flow_control="pfc", parameters=red)
    line = "rate=40G propagation=500ns buffer=20MB queue=4MB"
    result = simulate(incast(line, 20, control, duration_ns=60 * MS), seed=1)
    # At a mark, the rate R falls by R alpha / 2, and alpha is p R K.  Until the next mark, after 1 / (p R),
    # the target rises by R_AI every T.  The two are equal for p^3 = R_AI / (K R^2) (1 / (R T))^2.
    packets, ai, timer = 40e9 / 12_000 / 20, 40e6 / 12_000, 55e-6
    share = (ai / (timer * packets**2) / (packets * timer) ** 2) ** (1 / 3)
    queue_octets = 100_000 + share / 0.266 * 1_600_000
    assert figure(result, "queue.mean(core>h21)[30ms..60ms]")[0] == pytest.approx(queue_octets, rel=0.2)
    assert figure(result, "utilisation(core>h21)[30ms..60ms]")[0] > 0.98


@pytest.mark.parametrize(
    ("blocked", "headroom", "drops"),
    [(False, 64_500, False), (False, 60_000, True), (True, 129_500, False), (True, 120_000, True)],
)
def test_pfc_headroom_is_one_round_trip(blocked: bool, headroom: int, drops: bool) -> None:
    base = incast("rate=100G propagation=5us", 2, Control(mechanism="pfc"), duration_ns=MS)
    switch = dataclasses.replace(
        base.network.switches[0], buffer=Buffer(1_000_000, 0), partition=Buffer(100_000 + headroom, 0),
        pause=Thresholds(high_octets=100_000, low_octets=50_000),
    )  # fmt: skip
    *senders, receiver = base.network.hosts
    if blocked:
        receiver = dataclasses.replace(receiver, storms=((0, MS),))
    network = dataclasses.replace(base.network, switches=(switch,), hosts=(*senders, receiver))
    result = simulate(dataclasses.replace(base, network=network), seed=1)
    assert (result.conservation.dropped_frames > 0) is drops
    # 10 us at 100 Gb/s, and up to three frames: the one that exceeds XOFF, and one at each end of the link.
    # A port that sends at its rate takes half of what either input receives.
    (port,) = (each for each in result.ports if each.name == "core>h3")
    low, high = (125_000, 129_500) if blocked else (62_500, 65_500)
    assert drops or low <= port.greatest_input_octets - 100_000 <= high
