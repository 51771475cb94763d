"""Simulations of networks: timetables calculated by hand, conservation, and the effect of PAUSE on trees."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ecmproto.control.engine.config import Buffer, RateChange
from ecmproto.control.engine.frame_pool import NOWHERE
from ecmproto.control.lab.model import (
    TCP,
    Adapter,
    Control,
    Experiment,
    Flow,
    Host,
    Link,
    Measure,
    Network,
    Pattern,
    Switch,
    Thresholds,
)
from ecmproto.control.lab.setup.scenario import load_scenario, scenario_names
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation import windows
from ecmproto.control.lab.simulation.series import RunResult
from ecmproto.control.lab.simulation.simulate import Simulation, simulate
from ecmproto.errors import SpecError

BUFFER = Buffer(500_000, 0)
MS = 1_000_000


def row(rates_bps: tuple[int, ...], flows: tuple[Flow, ...], duration_ns: int, **more: object) -> Experiment:
    """Return an experiment on a row of switches between the hosts a and b, with links of ``rates_bps``."""
    names = ["a", *(f"s{number}" for number in range(1, len(rates_bps))), "b"]
    links = [
        Link(a=one, b=other, rate_bps=rate_bps)
        for one, other, rate_bps in zip(names, names[1:], rates_bps, strict=False)
    ]
    fields = {
        "name": "row",
        "title": "a row of switches",
        "duration_ns": duration_ns,
        "network": Network(
            hosts=(Host(name="a"), Host(name="b")),
            switches=tuple(Switch(name=name, buffer=BUFFER) for name in names[1:-1]),
            links=tuple(links),
        ),
        "flows": flows,
        "measure": Measure(from_ns=0, window_ns=100_000),
    } | more
    return Experiment(**fields)  # type: ignore[arg-type]


def bursts(*times: tuple[int, int]) -> Flow:
    """Return a flow of bursts with the given times and lengths."""
    return Flow(name="f", source="a", destination="b", pattern=Pattern.SCHEDULE, bursts=times)


def port(result: RunResult, name: str):  # type: ignore[no-untyped-def]
    """Return the events at a port."""
    (found,) = (each for each in result.ports if each.name == name)
    return found


def rate_bps(result: RunResult, flow: str, from_ns: int = 0) -> float:
    """Return the rate at which a flow was delivered from ``from_ns`` on."""
    (found,) = (each for each in result.flows if each.name == flow)
    first = from_ns // result.window_ns
    return float(found.delivered_octets[first:].sum()) * 8e9 / (result.duration_ns - from_ns)


def test_twelve_frames_over_two_hops_arrive_exactly() -> None:
    # 1500 octets take 1200 ns at 10 Gb/s, and 2400 ns at 5 Gb/s. Each link delays by 500 ns. The first frame
    # of a burst at t arrives at s1 at t + 1700, leaves the 5 Gb/s line at t + 4100, arrives at s2 at t +
    # 4600, leaves s2 at t + 5800, and arrives at its destination at t + 6300. On the 5 Gb/s line, each frame
    # ends 2400 ns after the previous frame.
    result = simulate(
        row((10**10, 5 * 10**9, 10**10), (bursts((1_000, 4_500), (20_000, 1_500), (30_000, 12_000)),), MS),
        seed=1,
    )
    assert result.completions.end_ns.tolist() == [
        1_000 + 6_300 + 2 * 2_400, 20_000 + 6_300, 30_000 + 6_300 + 7 * 2_400,
    ]  # fmt: skip
    assert result.conservation.received_frames == 12
    # Frame k of a burst leaves its host 1200 · k after its creation, and takes 1200 · k longer than the first
    # frame.
    delays = [6_300 + 1_200 * k for burst in (3, 1, 8) for k in range(burst)]
    assert result.flows[0].delay_ns.sum() == sum(delays)
    assert result.flows[0].delay_max_ns.max() == max(delays)
    # While seven wait at s1: the eighth came 1200 · 7 after the first, when 3.5 had gone.
    assert port(result, "s1>s2").peak_octets.max() == 5 * 1_500
    assert port(result, "s2>b").peak_octets.max() == 1_500


def test_overhead_is_on_every_link() -> None:
    experiment = row((10**10, 10**10), (bursts((0, 1_500)),), MS, overhead_octets=24)
    result = simulate(experiment, seed=1)
    # 1524 octets at 10 Gb/s: 1219.2 ns, a whole one more.
    assert result.completions.end_ns.tolist() == [1_220 + 500 + 1_220 + 500]


@pytest.mark.parametrize("gbps", [10, 25, 100, 400, 800, 1_600])
@pytest.mark.parametrize("octets", [64, 1_500])
def test_frames_follow_one_another_at_exactly_line_rate(gbps: int, octets: int) -> None:
    flow = Flow(name="f", source="a", destination="b", pattern=Pattern.SATURATING, frame_octets=octets)
    rate_bps = gbps * 10**9
    result = simulate(row((rate_bps, rate_bps), (flow,), 100_000), seed=1)
    frame_ns = Fraction(8 * octets * 10**9, rate_bps)
    leaves_ns: list[int] = []
    through_ns, number = Fraction(0), 0
    while not leaves_ns or leaves_ns[-1] + 500 < 100_000:
        number += 1
        came_ns = math.ceil(number * frame_ns) + 500
        through_ns = max(through_ns, Fraction(came_ns)) + frame_ns
        leaves_ns.append(math.ceil(through_ns))
    assert result.flows[0].delivered_frames.sum() == len(leaves_ns) - 1
    assert abs(len(leaves_ns) * frame_ns - (100_000 - 1_000)) <= 3 * frame_ns + 2


def test_rate_change_holds_from_next_frame_on() -> None:
    experiment = row((10**10, 10**10), (bursts((0, 4_500)),), MS)
    slow = Link(a="s1", b="b", rate_bps=10**10, rate_changes=(RateChange(2_000, 10**9),))
    network = dataclasses.replace(experiment.network, links=(experiment.network.links[0], slow))
    result = simulate(dataclasses.replace(experiment, network=network), seed=1)
    # The first frame is on the line from 1700 to 2900. Each other frame takes 12 µs.
    assert result.completions.end_ns.tolist() == [2_900 + 2 * 12_000 + 500]
    service = port(result, "s1>b").service_bps
    assert service[0] == pytest.approx((2_900 * 10**10 + 97_100 * 10**9) / 100_000)
    assert service[1] == 10**9


def test_switches_hosts_and_adapters_take_their_time() -> None:
    experiment = row((10**10, 10**10), (bursts((0, 1_500)),), MS)
    network = Network(
        hosts=(Host(name="a"), Host(name="b", delay_ns=700, adapter=Adapter(rate_bps=10**9, buffer=BUFFER))),
        switches=(Switch(name="s1", buffer=BUFFER, delay_ns=1_000),),
        links=experiment.network.links,
    )
    result = simulate(dataclasses.replace(experiment, network=network), seed=1)
    assert result.completions.end_ns.tolist() == [1_200 + 500 + 1_000 + 1_200 + 500 + 700 + 12_000]
    assert port(result, "b>adapter").sent_frames.sum() == 1


@pytest.mark.parametrize(("k", "cores"), [(4, 4), (8, 16)])
def test_fat_tree_spreads_flows_evenly_over_cores(k: int, cores: int) -> None:
    network = parse_topology(f"fat-tree k={k}").network()
    half = len(network.hosts) // 2
    pairs = [(f"h{a}", f"h{b}") for a in range(1, half + 1) for b in range(half + 1, 2 * half + 1)]
    flows = tuple(
        Flow(name=f"{a}>{b}", source=a, destination=b, pattern=Pattern.SCHEDULE, bursts=((0, 1_500),))
        for a, b in pairs[: 64 * cores]
    )
    result = simulate(Experiment(name="t", title="t", duration_ns=MS, network=network, flows=flows), seed=3)
    used = Counter(port.partition(">")[0] for flow in result.flows for port in flow.path if port[0] == "c")
    # Of n flows each core has n / cores, by a binomial distribution: five deviations are not exceeded.
    share = len(flows) / cores
    assert len(used) == cores
    assert all(abs(count - share) < 5 * math.sqrt(share) for count in used.values())
    # Frames used the specified paths.
    told = Counter(port for flow in result.flows for port in flow.path)
    sent = {each.name: int(each.sent_frames.sum()) for each in result.ports if each.kind == "switch"}
    assert sent == {name: told[name] for name in sent}


def test_a_shared_memory_is_shared() -> None:
    network = parse_topology("star hosts=4 buffer=1MB memory=30kB").network()
    flows = tuple(
        Flow(name=f"{a}{b}", source=a, destination=b, pattern=Pattern.SCHEDULE, bursts=((0, 60_000),))
        for a, b in (("h1", "h3"), ("h2", "h3"))
    )
    experiment = Experiment(
        name="m", title="m", duration_ns=MS, network=network, flows=flows, measure=Measure(from_ns=0)
    )
    result = simulate(experiment, seed=1)
    # Two input lines and one output line: while 80 frames arrive, 40 leave, and 20 fit into 30 kB.
    assert result.conservation.dropped_frames == 80 - result.conservation.received_frames
    assert port(result, "core>h3").peak_octets.max() == 30_000
    without = dataclasses.replace(
        network, switches=tuple(dataclasses.replace(each, memory=None) for each in network.switches)
    )
    assert not simulate(dataclasses.replace(experiment, network=without), seed=1).conservation.dropped_frames


def incast(control: Control, *, pause: Thresholds | None = None, duration_ns: int = 20 * MS) -> RunResult:
    """Four hosts send to d1 through a switch that a victim's flow to d2 shares with two of them."""
    links = [Link(a=f"h{number}", b="left" if number < 3 else "right") for number in range(1, 5)]
    links += [Link(a="v", b="left"), Link(a="left", b="right"), Link(a="right", b="d1")]
    links += [Link(a="right", b="d2")]
    names = ("h1", "h2", "h3", "h4", "v", "d1", "d2")
    flows = tuple(
        Flow(name=f"f{number}", source=f"h{number}", destination="d1", pattern=Pattern.SATURATING)
        for number in range(1, 5)
    )
    flows += (Flow(name="victim", source="v", destination="d2", pattern=Pattern.CBR, rate_bps=3 * 10**9),)
    return simulate(
        Experiment(
            name="incast", title="incast", duration_ns=duration_ns, control=control, flows=flows,
            network=Network(
                hosts=tuple(Host(name=name) for name in names),
                switches=tuple(Switch(name=n, buffer=BUFFER, pause=pause) for n in ("left", "right")),
                links=tuple(links),
            ),
            measure=Measure(from_ns=duration_ns // 2),
        ),
        seed=1,
    )  # fmt: skip


def test_hosts_obey_pfc_in_their_priorities_alone() -> None:
    obeyed, ignored = (
        incast(Control(mechanism="pfc", parameters=(f"rp.priorities={priorities}",)))
        for priorities in ("0,3", "3")
    )
    assert obeyed.conservation.dropped_frames == 0
    assert sum(int(port.paused_ns.sum()) for port in obeyed.ports) > 0
    assert ignored.conservation.dropped_frames > 0
    assert sum(int(port.paused_ns.sum()) for port in ignored.ports) == 0


@pytest.mark.parametrize("kind", ["pause", "pfc"])
@pytest.mark.parametrize("pause", [None, Thresholds(high_octets=60_000, low_octets=40_000)])
def test_pause_spreads_upstream_to_the_victim(kind: str, pause: Thresholds | None) -> None:
    lossy = incast(Control())
    assert lossy.conservation.dropped_frames > 1_000
    result = incast(Control(mechanism=kind), pause=pause)
    assert result.conservation.dropped_frames == 0
    assert result.conservation.missing_frames == 0
    # The tree: the switch right stops the port of left, and left stops its sources, including the victim's
    # host.
    stopped = {each.name for each in result.ports if each.paused_ns.sum() > MS}
    assert {"left>right", "h1>left", "h2>left", "h3>right", "v>left"} <= stopped
    assert rate_bps(result, "victim", 10 * MS) < 0.8 * 3e9
    assert not result.deadlocks
    assert all(sent <= MS for sent in port(result, "left>right").paused_ns)


def test_pause_waits_for_the_frame_in_transmission() -> None:
    """A frame takes 1200 ns, or 2400 ns on the way to h2. PAUSE takes 48 ns, and each link delays by 500
    ns.
    """
    network = parse_topology("star hosts=3").network()
    links = tuple(
        dataclasses.replace(link, rate_back_bps=5 * 10**9 if link.a == "h2" else None)
        for link in network.links
    )
    switch = dataclasses.replace(network.switches[0], pause=Thresholds(high_octets=3_100, low_octets=0))
    flows = tuple(
        Flow(name=f"{a}>{b}", source=a, destination=b, pattern=Pattern.SCHEDULE, bursts=(burst,))
        for a, b, burst in (("h3", "h1", (0, 9_000)), ("h1", "h2", (100, 10_500)))
    )
    result = simulate(
        Experiment(
            name="p", title="p", duration_ns=100_000, control=Control(mechanism="pause"), flows=flows,
            network=dataclasses.replace(network, links=links, switches=(switch,)),
            measure=Measure(from_ns=0, window_ns=6_520),
        ),
        seed=1,
    )  # fmt: skip
    # At 5400, the fourth frame of h1 has arrived and one frame has left. The line to h1 is busy until 6500.
    # XON finds this line idle when the sixth frame has left, at 16200, so the seventh frame starts
    # immediately.
    assert result.flow_control.time_ns.tolist() == [6_500 + 48 + 500, 16_200 + 48 + 500]
    ends_ns = dict(zip(result.completions.flow.tolist(), result.completions.end_ns.tolist(), strict=True))
    assert ends_ns == {0: 8_900 + 48 + 500, 1: 16_748 + 1_200 + 500 + 2_400 + 500}
    # The first window ends 20 ns after PAUSE has begun.
    line_octets = port(result, "core>h1").line_octets
    assert line_octets[0] == pytest.approx(4 * 1_500 + 25)
    assert line_octets.sum() == 6 * 1_500 + 2 * 60


def test_a_mechanism_frees_the_victim() -> None:
    result = incast(Control(mechanism="qcn", flow_control="pfc"), duration_ns=100 * MS)
    assert result.conservation.dropped_frames == 0
    assert rate_bps(result, "victim", 50 * MS) > 0.95 * 3e9


def test_pauses_in_a_ring_deadlock_and_are_found() -> None:
    thresholds = Thresholds(high_octets=20_000, low_octets=10_000)
    number = 5
    links = [Link(a=f"s{k}", b=f"s{(k + 1) % number}") for k in range(number)]
    links += [Link(a=f"h{k}", b=f"s{k}") for k in range(number)]
    flows = tuple(
        Flow(name=f"f{k}", source=f"h{k}", destination=f"h{(k + 2) % number}", pattern=Pattern.SATURATING)
        for k in range(number)
    )
    experiment = Experiment(
        name="ring", title="ring", duration_ns=30 * MS, control=Control(mechanism="pfc"), flows=flows,
        network=Network(
            hosts=tuple(Host(name=f"h{k}") for k in range(number)),
            switches=tuple(Switch(name=f"s{k}", buffer=BUFFER, pause=thresholds) for k in range(number)),
            links=tuple(links),
        ),
    )  # fmt: skip
    result = simulate(experiment, seed=1)
    # All flows cross two switches in the same direction of the ring, so every switch waits for the next
    # switch.
    assert set(result.deadlocks[0].ports) == {f"s{k}>s{(k + 1) % number}" for k in range(number)}
    assert result.flows[0].delivered_frames[-5:].sum() == 0
    assert result.conservation.missing_frames == 0


@pytest.mark.parametrize("kind", ["pause", "pfc"])
@pytest.mark.parametrize(
    "line",
    [
        "fat-tree k=4 buffer=300kB",
        "clos leaves=4 spines=2 hosts=4 buffer=60kB memory=150kB",
        "clos leaves=4 spines=2 hosts=2 buffer=60kB propagation=2us delay=1us host_delay=1us",
        "dumbbell sources=4 destinations=4 buffer=300kB partition=50kB",
    ],
)
def test_trees_neither_deadlock_nor_lose_frames_by_default(line: str, kind: str) -> None:
    network = parse_topology(line).network()
    hosts = [host.name for host in network.hosts]
    flows = tuple(
        Flow(name=f"{a}>{b}", source=a, destination=b, pattern=Pattern.SATURATING)
        for number, a in enumerate(hosts)
        for b in sorted({hosts[(number + step) % len(hosts)] for step in (3, 5, 7)} | {hosts[0]})
        if a != b
    )
    experiment = Experiment(
        name="t", title="t", duration_ns=3 * MS, network=network, flows=flows,
        control=Control(mechanism=kind), measure=Measure(from_ns=0, window_ns=100_000),
    )  # fmt: skip
    result = simulate(experiment, seed=1)
    assert not result.deadlocks
    assert result.conservation.dropped_frames == 0
    assert sum(int(each.paused_ns.sum()) for each in result.ports) > 10 * MS
    # In the second half, every flow still delivers frames, and the link to the common destination is busy.
    assert all(flow.delivered_frames[15:].sum() > 0 for flow in result.flows)
    (sink,) = (each for each in result.ports if each.name.endswith(f">{hosts[0]}"))
    assert sink.sent_octets[15:].sum() * 8e9 > 0.8 * 10**10 * 1_500_000


@pytest.mark.parametrize("in_band", [False, True])
@pytest.mark.parametrize("mechanism", ["qcn", "ecm", "bcn", "e2cm", "fecn", "dbp"])
def test_every_mechanism_slows_incast_without_losing_frames_forever(mechanism: str, in_band: bool) -> None:
    result = incast(Control(mechanism=mechanism, in_band=in_band), duration_ns=60 * MS)
    lossy = incast(Control(), duration_ns=60 * MS)
    assert result.conservation.missing_frames == 0
    late = result.windows // 2
    dropped = sum(int(each.dropped_frames[late:].sum()) for each in result.flows)
    assert dropped < 0.1 * sum(int(each.dropped_frames[late:].sum()) for each in lossy.flows)
    assert sum(int(each.frames.sum()) for each in result.messages) > 0


def beyond_data(result: RunResult) -> int:
    """Return the number of frames that switches sent more than their flows delivered."""
    sent = sum(int(each.sent_frames.sum()) for each in result.ports if each.kind == "switch")
    return sent - sum(int(flow.delivered_frames.sum()) * (len(flow.path) - 1) for flow in result.flows)


@pytest.mark.parametrize(("mechanism", "octets"), [("qcn", 26_000), ("fecn", 24_000), ("none", None)])
def test_congestion_point_ports_report_their_set_point(mechanism: str, octets: int | None) -> None:
    given = row((10**10, 10**10), (bursts((0, 1500)),), MS, control=Control(mechanism=mechanism))
    result = simulate(given, seed=1)
    assert {port.set_point_octets for port in result.ports if port.kind == "switch"} == {octets}


def test_messages_in_band_occupy_every_link_on_path() -> None:
    runs = [incast(Control(mechanism="fecn", in_band=each), duration_ns=60 * MS) for each in (False, True)]
    messages = [sum(int(each.frames.sum()) for each in run.messages) for run in runs]
    assert messages[0] == pytest.approx(messages[1], rel=0.1)
    # Half of d1's returning frames cross one switch, and half cross both switches. Some data frames are still
    # in transit.
    assert beyond_data(runs[0]) < 100
    assert beyond_data(runs[1]) - beyond_data(runs[0]) == pytest.approx(1.5 * messages[1], rel=0.1)


@pytest.mark.parametrize("name", scenario_names())
def test_frames_of_every_scenario_are_conserved(name: str) -> None:
    experiment = load_scenario(name).experiment()
    start_ns = min(flow.start_ns for flow in experiment.flows)
    short = dataclasses.replace(
        experiment,
        duration_ns=min(experiment.duration_ns, start_ns + 12 * MS),
        measure=dataclasses.replace(experiment.measure, from_ns=start_ns + 2 * MS, until_ns=None),
    )
    result = simulate(short, seed=5)
    assert result.conservation.sent_frames > 100
    assert result.conservation.missing_frames == 0
    lengths_ns = np.diff([*range(0, result.duration_ns, result.window_ns), result.duration_ns])
    for each in result.ports:
        assert (8e9 * each.line_octets <= each.service_bps * lengths_ns + 1e-3).all(), each.name
        assert (each.level_octets >= 0).all(), each.name
        assert (each.octet_ns >= 0).all(), each.name
        assert (each.peak_octets >= each.level_octets).all() or each.kind == "host"


def test_run_is_determined_by_its_seed() -> None:
    experiment = dataclasses.replace(load_scenario("qcn-baseline-1").experiment(), duration_ns=15 * MS)
    first, again, other = (simulate(experiment, seed=seed) for seed in (3, 3, 4))
    for one, two in zip(first.ports, again.ports, strict=True):
        assert np.array_equal(one.octet_ns, two.octet_ns)
        assert np.array_equal(one.sent_octets, two.sent_octets)
    assert first.events == again.events != other.events


def test_lazily_counted_deliveries_equal_event_driven_ones() -> None:
    experiment = dataclasses.replace(load_scenario("bcn-parking-lot").experiment(), duration_ns=3 * MS)
    lazy, eager = Simulation(experiment, seed=1), Simulation(experiment, seed=1)
    ends = [output.counts_only for output in eager.network.outputs if output.next_switch == NOWHERE]
    assert ends == [1] * 9
    for output in eager.network.outputs:
        output.counts_only = 0
    one, two = lazy.run(), eager.run()
    assert one.events == two.events
    for each, other in zip(one.flows, two.flows, strict=True):
        assert each.delivered_frames.sum() > 0
        for name in ("delivered_frames", "delivered_octets", "delay_ns", "delay_max_ns"):
            assert np.array_equal(getattr(each, name), getattr(other, name)), name


@pytest.mark.parametrize("name", ["e2cm-hotspot", "bcn-six-source"])
def test_frames_that_somebody_acts_on_are_events(name: str) -> None:
    network = Simulation(load_scenario(name).experiment(), seed=1).network
    assert not any(output.counts_only for output in network.outputs)


def test_watching_sees_each_window_and_can_end_run() -> None:
    seen = []
    experiment = row((10**10, 10**10), (bursts((0, 1_500)),), MS)

    def watch(progress):  # type: ignore[no-untyped-def]
        seen.append(progress.now_ns)
        return progress.now_ns < 500_000

    result = Simulation(experiment, seed=1).run(watch)
    assert seen == [100_000, 200_000, 300_000, 400_000, 500_000]
    assert (result.duration_ns, result.complete, result.windows) == (500_000, False, 5)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"links": ()}, "host 'a': expected one link, got 0"),
        ({"links": (Link(a="a", b="b"),)}, "expected a switch at one end"),
        (
            {"links": (Link(a="a", b="s1"), Link(a="s1", b="x"))},
            "expected names of hosts and switches",
        ),
    ],
)
def test_a_network_that_cannot_be_is_told(change: dict[str, tuple[Link, ...]], told: str) -> None:
    experiment = row((10**10, 10**10), (bursts((0, 1_500)),), MS)
    network = dataclasses.replace(experiment.network, **change)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=told.replace("(", r"\(")):
        simulate(dataclasses.replace(experiment, network=network), seed=1)


def test_full_partition_drops_frames_of_its_input_only() -> None:
    network = parse_topology("star hosts=4 buffer=10MB partition=30kB").network()
    flows = (
        Flow(name="a", source="h1", destination="h3", pattern=Pattern.SCHEDULE, bursts=((0, 60_000),)),
        Flow(name="b", source="h2", destination="h3", pattern=Pattern.SCHEDULE, bursts=((0, 60_000),)),
        Flow(name="c", source="h4", destination="h3", pattern=Pattern.SCHEDULE, bursts=((0, 15_000),)),
    )
    experiment = Experiment(
        name="p", title="p", duration_ns=MS, network=network, flows=flows, measure=Measure(from_ns=0)
    )
    a, b, c = simulate(experiment, seed=1).flows
    assert a.dropped_frames.sum() > 0
    assert b.dropped_frames.sum() > 0
    assert c.dropped_frames.sum() == 0


@pytest.mark.parametrize(
    ("partition", "dropped"),
    [
        (Buffer(4 * 1_500, 0), 0),
        (Buffer(4 * 1_500 - 1, 0), 1),
        (Buffer(0, 4), 0),
        (Buffer(0, 3), 1),
    ],
)
def test_a_partition_holds_frames_up_to_its_limit(partition: Buffer, dropped: int) -> None:
    # The four frames arrive before the slow line has sent one frame.
    experiment = row((10**10, 10**8), (bursts((0, 4 * 1_500)),), 5 * MS)
    switches = tuple(dataclasses.replace(each, partition=partition) for each in experiment.network.switches)
    network = dataclasses.replace(experiment.network, switches=switches)
    (flow,) = simulate(dataclasses.replace(experiment, network=network), seed=1).flows
    assert (flow.sent_frames.sum(), flow.dropped_frames.sum()) == (4, dropped)


def test_a_network_of_too_many_ports_is_told() -> None:
    experiment = row((10**10, 10**10), (bursts((0, 1_500)),), MS)
    network = parse_topology("star hosts=8193").network()
    with pytest.raises(
        SpecError, match=r"network: expected at most 8,192 output ports of switches, got 8,193"
    ):
        simulate(dataclasses.replace(experiment, network=network), seed=1)


def test_folded_windows_have_what_was_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = load_scenario("bcn-symmetric").experiment()
    measure = dataclasses.replace(experiment.measure, from_ns=0, until_ns=None, window_ns=100_000)
    experiment = dataclasses.replace(experiment, duration_ns=2_950_000, measure=measure)
    fine = simulate(experiment, seed=1)
    monkeypatch.setattr(windows, "MAX_WINDOWS", 8)
    coarse = simulate(experiment, seed=1)
    assert (fine.windows, coarse.windows, coarse.window_ns) == (30, 4, 800_000)
    starts = np.arange(0, 30, 8)
    for one, other in zip(fine.ports, coarse.ports, strict=True):
        assert (np.add.reduceat(one.sent_octets, starts) == other.sent_octets).all()
        assert np.allclose(np.add.reduceat(one.octet_ns, starts), other.octet_ns)
        assert (np.maximum.reduceat(one.peak_octets, starts) == other.peak_octets).all()
    for flow, folded in zip(fine.flows, coarse.flows, strict=True):
        assert (np.add.reduceat(flow.delivered_octets, starts) == folded.delivered_octets).all()
    for message, few in zip(fine.messages, coarse.messages, strict=True):
        assert (np.add.reduceat(message.frames, starts) == few.frames).all()


@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("algorithm", ["newreno", "cubic"])
@pytest.mark.parametrize("sack", [False, True])
def test_tcp_loses_little_after_its_first_overshoot(algorithm: str, connections: int, sack: bool) -> None:
    """One buffer of 1 MB at 5 Gb/s, and windows that never limit."""
    line = f"dumbbell sources={connections} bottleneck=5G buffer=1MB propagation=10us queue=100MB"
    flows = tuple(
        Flow(
            name=f"f{number}", source=f"s{number}", destination="d1", pattern=Pattern.TCP,
            tcp=TCP(algorithm=algorithm, window=5_000, sack=sack),
        )
        for number in range(1, connections + 1)
    )  # fmt: skip
    result = simulate(
        Experiment(
            name="t", title="t", duration_ns=600 * MS, network=parse_topology(line).network(),
            flows=flows, measure=Measure(from_ns=0, window_ns=10 * MS),
        ),
        seed=1,
    )  # fmt: skip
    lost, came = (
        sum(getattr(flow, name)[10:].sum() for flow in result.flows)
        for name in ("dropped_frames", "delivered_frames")
    )
    # Path and buffer hold C = 1 MB / 1500 + 5 Gb/s · 80 us / 12000 = 700 segments.  A window of C / n that
    # grows by one segment per round trip from half of C / n, or by 0.53 segments from 0.7 of C / n, takes at
    # least 3/8 (C / n)^2 segments until its next loss, which is a loss of at most two segments.
    cycle = 3 / 8 * (700 / connections) ** 2
    assert lost <= 2 * (came / cycle + connections)
    assert came * 12_000 > 0.98 * 5e9 * 0.5


def test_many_queue_pairs_need_few_events_per_frame() -> None:
    network = parse_topology("fat-tree k=4").network()
    names = [host.name for host in network.hosts]
    flows = tuple(
        Flow(name=f"{a}>{b}", source=a, destination=b, pattern=Pattern.SATURATING, priority=3)
        for a in names
        for b in names
        if a != b
    )
    experiment = Experiment(
        name="t", title="t", duration_ns=MS, network=network, flows=flows, control=Control(mechanism="dcqcn")
    )
    result = simulate(experiment, seed=1)
    frames = sum(int(flow.delivered_frames.sum()) for flow in result.flows)
    assert result.events < 15 * frames
