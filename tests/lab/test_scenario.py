import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.config import Buffer, RateChange
from ecmproto.control.lab.model import Experiment, Flow, Link, Pattern, Thresholds
from ecmproto.control.lab.setup.scenario import (
    Row,
    Scenario,
    apply,
    load_scenario,
    read_scenario,
    scenario_names,
    template,
)
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.mechanisms.registry import mechanism_names
from ecmproto.errors import SpecError

_HEAD = """
[scenario]
name = "mine"
title = "Two into one"
duration = "200ms"
topology = "dumbbell sources=4"
"""
_FLOW = """
[[flow]]
name = "bulk"
from = "s1..s2"
to = "d1"
pattern = "saturating"
"""
_CBR = """
[[flow]]
name = "voice"
from = "s3"
to = "d1"
pattern = "cbr"
rate = "1G"
"""


def _read(text: str) -> Scenario:
    return read_scenario(io.BytesIO(text.encode()))


def _experiment(more: str = "", head: str = _HEAD, flow: str = _FLOW) -> Experiment:
    return _read(head + flow + more).experiment()


def _flows(keys: str) -> tuple[Flow, ...]:
    return _experiment(flow=f"[[flow]]\n{keys}\n").flows


def test_a_short_scenario_has_defaults_for_all_else() -> None:
    experiment = _experiment()
    assert (experiment.name, experiment.duration_ns, experiment.overhead_octets) == ("mine", 200_000_000, 0)
    assert [flow.name for flow in experiment.flows] == ["bulk1", "bulk2"]
    assert {flow.group for flow in experiment.flows} == {"bulk"}
    assert experiment.control.mechanism == "none"
    assert experiment.measure.from_ns == 100_000_000


def test_short_runs_are_measured_from_half_way() -> None:
    assert _experiment(head=_HEAD.replace("200ms", "50ms")).measure.from_ns == 25_000_000


def test_ten_hosts_with_uniform_destinations_are_few_lines() -> None:
    flows = _experiment(
        head=_HEAD.replace("dumbbell sources=4", "star hosts=10"),
        flow='[[flow]]\nfrom = "h1..h10"\nto = "all others"\npattern = "bernoulli"\nhost_rate = "8.1G"\n',
    ).flows
    assert len(flows) == 90
    assert {flow.rate_bps for flow in flows} == {900_000_000}
    assert flows[0].name == "h1>h2"
    assert all(flow.source != flow.destination for flow in flows)


def test_flows_are_named_by_range_number_or_hosts() -> None:
    rest = 'from = ["s1", "s3..s4"]\nto = "d1"\npattern = "saturating"'
    assert [flow.name for flow in _flows(f'name = "r7..r9"\n{rest}')] == ["r7", "r8", "r9"]
    assert [flow.name for flow in _flows(f'name = "r"\n{rest}')] == ["r1", "r2", "r3"]
    assert [flow.name for flow in _flows(rest)] == ["s1>d1", "s3>d1", "s4>d1"]
    assert [flow.source for flow in _flows('from = "s*"\nto = "d1"\npattern = "saturating"')] == [
        "s1", "s2", "s3", "s4",
    ]  # fmt: skip


def test_one_to_one_goes_by_order() -> None:
    flows = _flows('from = "s1..s2"\nto = "s4, s3"\nmatch = "one to one"\npattern = "saturating"')
    assert [(flow.source, flow.destination) for flow in flows] == [("s1", "s4"), ("s2", "s3")]


def test_patterns_take_their_keys() -> None:
    base = 'name = "x"\nfrom = "s1"\nto = "d1"\npattern = '
    (flow,) = _flows(
        base
        + '"on-off"\nrate = "5G"\non = "1ms"\noff = "2ms"\ntimes = "pareto"\nshape = 1.2\nrandom_start = true'
    )
    assert (flow.pattern, flow.rate_bps, flow.on_ns, flow.off_ns) == (
        Pattern.ON_OFF,
        5 * 10**9,
        10**6,
        2 * 10**6,
    )
    assert (flow.shape, flow.random_start) == (1.2, True)
    (flow,) = _flows(base + '"on-off"\nrate = "5G"\non = "1ms"\noff = "2ms"\ntimes = "constant"')
    assert flow.shape < 0
    (flow,) = _flows(
        base + '"tcp"\nconnections = 10\ntcp = { window = 44, algorithm = "cubic", syn = false }'
    )
    assert flow.connections == 10
    assert flow.tcp is not None
    assert (flow.tcp.window, flow.tcp.algorithm, flow.tcp.syn) == (44, "cubic", False)
    (flow,) = _flows(base + '"transactions"\nrequest = 0\nresponse = "10kB"\nidle = "16us"')
    assert (flow.request_octets, flow.response_octets, flow.idle_ns) == (0, 10_000, 16_000)
    (flow,) = _flows(base + '"schedule"\nbursts = ["0ms 100kB", "5ms 16frames"]')
    assert flow.bursts == ((0, 100_000), (5_000_000, 24_000))
    (flow,) = _flows(base + '"capture"\ncapture = "in.pcap"\ncapture_source = "02:00:00:00:00:01"')
    assert (flow.capture, flow.capture_source) == ("in.pcap", "02:00:00:00:00:01")


@pytest.mark.parametrize("name", ["websearch", "datamining"])
def test_flow_sizes_of_published_distribution_rise_to_one(name: str) -> None:
    (flow,) = _flows(f'name="x"\nfrom="s1"\nto="d1"\npattern="sizes"\nrate="1G"\nsizes="{name}"')
    octets, shares = zip(*flow.sizes, strict=True)
    assert list(octets) == sorted(set(octets))
    assert list(shares) == sorted(shares)
    assert shares[-1] == 1
    mean = sum((b - a) * (m + n) / 2 for (m, a), (n, b) in zip(flow.sizes, flow.sizes[1:], strict=False))
    assert (
        {"websearch": 1.6e6, "datamining": 7e6}[name] < mean < {"websearch": 1.8e6, "datamining": 8e6}[name]
    )


def test_flow_sizes_come_from_file_or_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sizes.csv").write_text("# mine\noctets,share\n1000,0.5\n2MB,1\n")
    base = 'name="x"\nfrom="s1"\nto="d1"\npattern="sizes"\nrate="1G"\nsizes='
    for text in ("sizes.csv", "1kB:0.5, 2MB:1"):
        assert _flows(f'{base}"{text}"')[0].sizes == ((1_000, 0.5), (2_000_000, 1.0))


def test_tables_change_what_the_topology_line_made() -> None:
    network = _experiment(
        """
        [[link]]
        a = "left"
        b = "right"
        rate = "10G,1G@10ms"
        [[link]]
        a = "right"
        b = "d1"
        propagation = "3us"
        [[switch]]
        name = "e*"
        buffer = "100frames"
        pause = { high = "90frames", low = "8frames", on = "output" }
        [[host]]
        name = "d1"
        delay = "1us"
        adapter = { rate = "10G,5G@50ms", buffer = "150kB", pause = { high = "140kB", low = "130kB" } }
        """
    ).network
    links = {(link.a, link.b): link for link in network.links}
    assert links["left", "right"].rate_changes == (RateChange(10_000_000, 10**9),)
    assert links["left", "right"].rate_back_bps == 10**10
    assert links["d1", "right"].propagation_ns == 3_000
    edges = [switch for switch in network.switches if switch.name[0] == "e"]
    assert {switch.buffer.frames for switch in edges} == {100}
    assert {switch.pause for switch in edges} == {
        Thresholds(high_octets=135_000, low_octets=12_000, on_output=True)
    }
    (host,) = (host for host in network.hosts if host.name == "d1")
    assert host.adapter is not None
    assert (host.delay_ns, host.adapter.rate_bps, host.adapter.buffer) == (1_000, 10**10, Buffer(150_000, 0))
    assert host.adapter.rate_changes == (RateChange(50_000_000, 5 * 10**9),)


def test_a_network_can_be_of_tables_alone() -> None:
    experiment = _experiment(
        """
        [[host]]
        name = "a, b"
        [[switch]]
        name = "sw"
        [[link]]
        a = ["a", "b"]
        b = "sw"
        rate = "1G"
        """,
        head=_HEAD.replace('topology = "dumbbell sources=4"', ""),
        flow='[[flow]]\nfrom = "a"\nto = "b"\npattern = "saturating"\n',
    )
    assert experiment.network.links == (
        Link(a="a", b="sw", rate_bps=10**9),
        Link(a="b", b="sw", rate_bps=10**9),
    )


def test_bands_are_in_the_unit_of_their_figure() -> None:
    (band, other) = _experiment(
        """
        [[band]]
        figure = "queue.mean(left>right)[50ms..90ms]"
        low = "10frames"
        high = "40kB"
        median_of = 5
        note = "†"
        [[band]]
        figure = "jain(bulk)"
        low = "99%"
        """
    ).measure.bands
    assert (band.low, band.high, band.median_of, band.note) == (15_000, 40_000, 5, "†")
    assert (other.low, other.high) == (0.99, None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[flow]]\nrate = 5", "flow[1].rate: expected a rate with its unit, such as 5G, got 5"),
        ("[[flow]]\nrat = 5", "flow[1].rat: expected a key of [[flow]], got 'rat' (did you mean 'rate'?)"),
        ("[[flwo]]\nrate = 5", "flwo: expected a table of a scenario, got 'flwo' (did you mean 'flow'?)"),
        ("[host]\ndelay = 5", "host: expected tables, [[host]]"),
        ("[[control]]", "control: expected a table, [control]"),
        ("[[flow]]", "flow[1].from: expected names"),
        ('[[flow]]\nfrom = "s9"', "flow[1].to: expected names"),
        ("[control]\nmechanism = 'qnc'", "control.mechanism: expected a mechanism"),
        ("[control]\nmechanism = 'qnc'", "got 'qnc' (did you mean 'qcn'?)"),
        (
            "[control]\nmechanism = 'qcn'\nrp.ru = '4Mb/s'",
            "control.rp.ru: expected a parameter of qcn, got 'rp.ru'",
        ),
        (
            "[control]\nmechanism = 'qcn'\ncp.qeq = 5",
            "control.cp.qeq: expected a number with its unit: 5B or 5kB?",
        ),
        ("[control]\nmechanism = 'qcn'\ncp.qeq = '5B'", "control.cp.qeq: expected 100 B to"),
        ("[control]\nmechanism = 'qcn'\ncp.qeq = []", "control.cp.qeq: expected a size such as 33kB"),
        (
            "[control]\nmechanism = 'bcn'\n[control.cp]\nqeq = '90kB'\nqsc = '80kB'",
            "control.cp.qsc: expected more",
        ),
        ("[control]\nin_band = 'perhaps'", "control.in_band: expected true or false, got 'perhaps'"),
        ("[control]\nin_band = 1", "control.in_band: expected true or false, got 1"),
        (
            "[control]\nmessage_priority = 3",
            "control.message_priority: expected in_band=yes with it, got no",
        ),
        (
            "[control]\nin_band = true\nmessage_delay = '10us'",
            "control.message_delay: expected in_band=no with it, got yes",
        ),
        ("[control]\nhops = true", "control.hops: expected a whole number, got true"),
        ("[control]\nhops = 300", "control.hops: expected 1 to 255, got 300"),
        ("[control]\nmechanism = 'pause'\nflow_control = 'pfc'", "control.flow_control: expected none"),
        (
            "[control]\npoints = ['lefty']",
            "control.points: expected a switch, or a port as switch>peer, got 'lefty'",
        ),
        ("[measure]\nport = 'left>rihgt'", "got 'left>rihgt' (did you mean 'left>right'?)"),
        ("[measure]\nfrom = '1s'", "measure.from: expected before the end, 200 ms, got 1 s"),
        ("[measure]\nuntil = '50ms'", "measure.until: expected 100 ms to 200 ms, got 50 ms"),
        ("[[link]]\na = 'left'\nb = 'nowhere'", "link[0].b: expected a host or a switch, got 'nowhere'"),
        ("[[link]]\na = 'left'\nb = 'left'", "link[0].b: expected a node other than a"),
        ("[[link]]\na = 's1'\nb = 'left'", "link: expected one link of host s1, got 2"),
        ("[[link]]\na='left'\nb='right'\nrate='10G,1G'", "link[0].rate: expected a rate with its unit"),
        ("[[link]]\na=''\nb='right'", "link[0].a: expected names"),
        ("[[link]]\na='left'\nb='right'\nrate='0'", "link[0].rate: expected 1 kb/s to 10 Tb/s, got 0 b/s"),
        ("[[host]]\nname = 'x1'", "link: expected one link of host x1, got 0"),
        ("[[host]]\nname = 'x*'", "host[0].name: expected a pattern that matches nodes, got 'x*'"),
        ("[[host]]\nname = '1x'", "host[0].name: expected a name: a letter"),
        (
            "[[host]]\nname = 'd1'\nadapter.rate = '1G'",
            "host[0].adapter.buffer: expected a size with its unit",
        ),
        ("[[switch]]\nname = 's1'", "switch: expected names that no other host has, got 's1'"),
        ("[[switch]]\nname = '*'\npause.high = '1kB'", "switch[0].pause.low: expected a size"),
        (
            "[[switch]]\nname = '*'\npause = {high = '1kB', low = '2kB'}",
            "switch[0].pause.low: expected at most high",
        ),
        ("[[switch]]\nname = '*'\nbuffer = 0", "switch[0].buffer: expected a buffer that is not 0, got 0"),
        ("[[band]]\nfigure = 'queue.mean'", "band[0]: expected low, high, or both, got neither"),
        ("[[band]]\nfigure = 'queue.mean'\nhigh = 5", "band[0].high: expected a size, as 40kB, got 5"),
        ("[[band]]\nfigure = 'queue.men'\nhigh = 5", "band[0].figure (figure 'queue.men' at character 1)"),
        (
            "[[band]]\nfigure = 'rate(bluk)'\nhigh = '1G'",
            "band[0].figure: expected a flow or a group, got bluk",
        ),
        (
            "[[band]]\nfigure = 'drops@fast'\nhigh = 0",
            "band[0].figure: expected a variant or a mechanism after @",
        ),
        ("[[band]]\nfigure = 'drops'\nlow = 3\nhigh = 2", "band[0].high: expected at least low, got 2"),
        ("[[published]]\nfigure = 'drops'", "published[0].value: expected a text in quotes"),
        ("[mechanisms.qcm.cp]\nqeq = '5kB'", "mechanisms.qcm: expected a mechanism"),
        ("[mechanisms.qcn]\nqeq = '5kB'", "mechanisms.qcn.qeq: expected cp, rp or edge, with parameters"),
        (
            "[variants.x]\nsets = {}",
            "variants.x.sets: expected a key of a variant, got 'sets' (did you mean 'set'?)",
        ),
        ("[variants.x.set]\nflow.rate = '1G'", "variants.x.set: "),
        (
            '[variants.x.set]\n"topology.k" = 4',
            "variants.x.set: topology.k: expected an option of dumbbell, got 'k'",
        ),
        ('[sources]\n"flow.bursts" = "S001"', "sources.flow.bursts: expected the path of a value"),
        ("x =", "scenario: expected a TOML document"),
        ("[a." + "b." * 100 + "c]", "scenario"),
    ],
)
def test_errors_name_the_path_of_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(SpecError) as raised:
        _experiment(text)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (
            'to = "d1"\npattern = "bernoulli"',
            "flow[0].rate: expected a rate with its unit, such as 5G: offered rate",
        ),
        (
            'to = "d1"\npattern = "saturating"\nrate = "5G"',
            "flow[0].rate: expected no such key with pattern saturating",
        ),
        ('to = "d1"\npattern = "cbr"\nrate = "5G"\nhost_rate = "5G"', "flow[0].host_rate: expected either"),
        ('to = "d1"\npattern = "saturated"', "flow[0].pattern: expected one of saturating, cbr"),
        ('to = "d2"\npattern = "saturating"', "flow[0].to: expected a host, got 'd2' (did you mean '"),
        ('to = "s1"\npattern = "saturating"', "flow[0].to: expected a host other than the source"),
        ('to = "left"\npattern = "saturating"', "flow[0].to: expected a host, got 'left'"),
        ('to = "s1..s9999999"\npattern = "saturating"', "flow[0].to: expected"),
        (
            'to = "d1"\npattern = "saturating"\nstart = "5ms"\nstop = "5ms"',
            "flow[0].stop: expected later than start",
        ),
        ('to = "d1"\npattern = "saturating"\nname = "a b"', "flow[0].name: expected a name: a letter"),
        ('to = "d1"\npattern = "saturating"\nname = "rate"', "flow[0].name: expected a name"),
        ('to = "d1"\npattern = "saturating"\nname = "r1..r3"', "flow[0].name: expected one name, or 1"),
        (
            'to = "d1"\npattern = "on-off"\nrate="1G"\non="1ms"\noff="1ms"\nshape=2',
            "flow[0].shape: expected times=pareto with it, got exponential",
        ),
        ('to = "d1"\npattern = "sizes"\nrate="1G"\nsizes="websearh"', "(did you mean 'websearch'?)"),
        (
            'to = "d1"\npattern = "sizes"\nrate="1G"\nsizes="1kB:0.5"',
            "flow[0].sizes: expected shares rising to 1",
        ),
        (
            'to = "d1"\npattern = "sizes"\nrate="1G"\nsizes="none.csv"',
            "flow[0].sizes: expected a readable file",
        ),
        (
            'to = "d1"\npattern = "schedule"\nbursts=["5ms 1kB", "1ms 1kB"]',
            "flow[0].bursts: expected bursts in the",
        ),
        ('to = "d1"\npattern = "schedule"\nbursts=[1]', "flow[0].bursts: expected texts in quotes, got 1"),
        ('to = "d1"\npattern = "tcp"\ntcp.rto_min = "2s"', "flow[0].tcp.rto_min: expected at most rto_max"),
        ('to = "d1"\npattern = "tcp"\ntpc.window = 4', "flow[0].tpc.window: expected a key of [[flow]]"),
        (
            'to = "d1"\npattern = "saturating"\nframe = "1B"',
            "flow[0].frame: expected 60 B to 9.216 kB, got '1B'",
        ),
        ('to = "d1"\npattern = "saturating"\npriority = 8', "flow[0].priority: expected 0 to 7, got 8"),
    ],
)
def test_errors_of_flows_name_their_path(keys: str, told: str) -> None:
    with pytest.raises(SpecError) as raised:
        _flows(f'from = "s1"\n{keys}')
    assert told in str(raised.value)


def test_values_set_by_path_record_their_origin() -> None:
    scenario = _read(_HEAD + _FLOW + _CBR + '[control]\nmechanism = "bcn"\nrp.ru = "4Mb/s"\n')
    changed = apply(
        scenario,
        [
            "duration=1s", "seed=7", "topology.bottleneck=1G", "flow.rate=2G", "flow[bulk].start=1ms",
            "flow[1].priority=3", "control.rp.ru=8Mb/s", "cp.sf=30kB", "qeq=16frames", "in_band=yes",
            "link[left>right].propagation=5us", "host[d1].delay=1us", "measure.from=500ms",
        ],
    )  # fmt: skip
    experiment = changed.experiment()
    bulk, _, voice = experiment.flows
    assert (experiment.duration_ns, changed.seed) == (10**9, 7)
    assert (bulk.start_ns, voice.start_ns, voice.rate_bps, voice.priority) == (10**6, 0, 2 * 10**9, 3)
    assert experiment.control.parameters == ("rp.ru=8Mb/s", "cp.sf=30kB", "cp.qeq=24kB")
    assert experiment.control.in_band
    link = next(link for link in experiment.network.links if link.a == "left")
    assert (link.rate_bps, link.propagation_ns) == (10**9, 5_000)
    rows = {row.path: row for row in changed.explain()}
    assert (rows["control.rp.ru"].value, rows["control.rp.ru"].set_by) == ("8 Mb/s", "command line")
    assert (rows["topology.sources"].set_by, rows["topology.bottleneck"].set_by) == (
        "scenario",
        "command line",
    )
    assert rows["flow[voice].rate"].set_by == "command line"
    assert rows["flow[voice].start"] == Row(
        path="flow[voice].start", value="0 ns", source="", set_by="default", doc="start time"
    )
    assert rows["control.rp.gi"].source.startswith("S004")
    assert scenario.experiment().duration_ns == 200_000_000


def test_sources_apply_to_one_table_or_all() -> None:
    scenario = _read(
        _HEAD
        + _FLOW
        + _CBR
        + '[sources]\n"flow.rate" = "S001"\n"scenario.duration" = "S002"\n"flow[bulk].to" = "S003"\n'
    )
    rows = {row.path: row.source for row in scenario.explain()}
    assert (rows["flow[voice].rate"], rows["scenario.duration"]) == ("S001", "S002")
    assert (rows["flow[bulk].to"], rows["flow[voice].to"]) == ("S003", "")
    changed = {row.path: row.source for row in apply(scenario, ["duration=1s"]).explain()}
    assert changed["scenario.duration"] == ""


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("flow.rate", "expected path=value, such as flow.rate=5G"),
        ("flow[0].rate=5G", "flow[0].rate: expected no such key with pattern saturating"),
        ("flow[9].start=5ms", "flow[9].start: expected a number below 2, got 9"),
        ("flow[blk].start=5ms", "expected a flow's name or number, got 'blk' (did you mean 'bulk'?)"),
        ("flow.rate=5", "flow[1].rate: expected a rate with its unit, such as 5G, got '5'"),
        ("flow.on=5ms", "flow.on: expected a scenario with a table [[flow]] that has it"),
        ("flwo.rate=5G", "did you mean 'flow'?"),
        ("durtion=5ms", "did you mean 'duration'?"),
        (
            "topology.sorces=5",
            "topology.sorces: expected an option of dumbbell, got 'sorces' (did you mean 'sources'?)",
        ),
        ("control.qeqq=5kB", "control.qeqq: expected a value of the scenario, or a parameter of qcn"),
        ("link[left].rate=1G", "expected a link's number, or its ends, such as left>right"),
        ("link[s1>s2].rate=1G", "expected one link of host s1, got 2"),
        ("measure.prt=x", "measure.prt: expected a key of [measure], got 'prt' (did you mean 'port'?)"),
        ("band[0].low=3", "expected a value of the experiment, got one of band"),
        ("measure[0].from=3ms", "expected measure without [ ]"),
        ("=3", "expected a path such as"),
    ],
)
def test_errors_of_assignments_name_their_path(assignment: str, told: str) -> None:
    scenario = _read(_HEAD + _FLOW + _CBR + '[control]\nmechanism = "qcn"\n')
    with pytest.raises(SpecError) as raised:
        apply(scenario, [assignment]).experiment()
    assert told in str(raised.value)


_VARIED = (
    _HEAD
    + _FLOW
    + """
[control]
mechanism = "bcn"
rp.ru = "4Mb/s"
[mechanisms.ecm]
rp.ru = "2Mb/s"
[[band]]
figure = "queue.mean"
high = "40kB"
[variants.1g]
title = "A slow link"
set = { "topology.bottleneck" = "1G", "rp.ru" = "8Mb/s" }
[[variants.1g.band]]
figure = "queue.mean / queue.mean@none"
low = 0.5
[sources]
"control.rp.ru" = "S004"
"mechanisms.ecm.rp.ru" = "S000"
"""
)


def test_variants_have_values_and_bands_of_their_own() -> None:
    scenario = _read(_VARIED)
    assert scenario.variants == {"1g": "A slow link"}
    slow = scenario.with_variant("1g")
    assert slow.name == "mine:1g"
    assert [band.figure for band in slow.experiment().measure.bands] == ["queue.mean / queue.mean@none"]
    rows = {row.path: row for row in slow.explain()}
    assert (rows["control.rp.ru"].value, rows["control.rp.ru"].set_by) == ("8 Mb/s", "variant 1g")
    assert rows["topology.bottleneck"].set_by == "variant 1g"
    with pytest.raises(SpecError, match="did you mean '1g'"):
        scenario.with_variant("2g")


def test_variant_with_another_mechanism_keeps_its_own_bands() -> None:
    text = _VARIED.replace('"rp.ru" = "8Mb/s" }', '"control.mechanism" = "ecm" }')
    slow = _read(text).with_variant("1g").experiment()
    assert (slow.title, slow.control.mechanism, len(slow.measure.bands)) == ("A slow link", "ecm", 1)


def test_another_mechanism_takes_own_parameters_and_no_bands() -> None:
    scenario = _read(_VARIED)
    other = scenario.with_mechanism("ecm", ["qeq=30kB"])
    experiment = other.experiment()
    assert experiment.control.parameters == ("rp.ru=2Mb/s", "cp.qeq=30kB")
    assert experiment.measure.bands == ()
    rows = {row.path: row for row in other.explain()}
    assert (rows["control.rp.ru"].source, rows["control.rp.ru"].set_by) == ("S000", "scenario")
    assert rows["control.mechanism"].set_by == "command line"
    assert scenario.with_mechanism("none").experiment().control.parameters == ()
    assert scenario.with_mechanism("bcn").experiment() == scenario.experiment()


def test_what_is_written_reads_the_same() -> None:
    scenario = apply(_read(_VARIED), ["flow.start=1ms", 'scenario.title=a "quoted"\ntitle\x7f'])
    again = _read(scenario.toml())
    assert again.document == scenario.document
    assert again.experiment() == scenario.experiment()


@pytest.mark.parametrize("name", scenario_names())
def test_packaged_scenario_survives_writing_and_reading(name: str) -> None:
    scenario = load_scenario(name)
    assert _read(scenario.toml()).document == scenario.document


@pytest.mark.parametrize("mechanism", mechanism_names())
def test_the_template_loads_for_every_mechanism(mechanism: str) -> None:
    text = template(mechanism)
    assert _read(text).experiment().control.mechanism == mechanism
    everything = (
        text.replace('# high = "2', 'high = "2').replace("# figure", "figure").replace("# [[band", "[[band")
    )
    assert len(_read(everything).experiment().measure.bands) == 1


@pytest.mark.parametrize(
    ("line", "source", "destination", "port"),
    [
        ("fat-tree k=4 buffer=300kB", "h1", "h16", "e8>h16"),
        ("clos leaves=2 hosts=1", "h1", "h2", "leaf2>h2"),
        ("dumbbell sources=2 destinations=3", "s1", "d1", "left>right"),
        ("parking-lot hops=3", "s1", "d0", "sw1>sw2"),
        ("trunk", "h1", "h7", "core>h7"),
    ],
)
def test_the_template_fits_each_topology(line: str, source: str, destination: str, port: str) -> None:
    experiment = _read(template("ecm", line)).experiment()
    assert (experiment.flows[0].source, experiment.flows[0].destination) == (source, destination)
    assert experiment.measure.port == port
    assert len(experiment.network.hosts) == len(parse_topology(line).network().hosts)


def test_a_template_needs_two_hosts() -> None:
    with pytest.raises(SpecError, match="two hosts"):
        template("qcn", "star hosts=1")


@pytest.mark.parametrize("mechanism", mechanism_names())
def test_the_template_s_parameters_are_at_their_defaults(mechanism: str) -> None:
    head, parameters = template(mechanism).split("in_band = true")
    assigned = re.compile(r"^# (\w+ = (?!…))", re.MULTILINE)
    control, measure = parameters.split("[measure]")
    told = _read(f"{head}in_band = true{assigned.sub(lambda match: match[1], control)}[measure]{measure}")
    assert len(told.experiment().control.parameters) == control.count("\n# ") - control.count("= …")
    given, default = (
        {row.path: row.value for row in each.explain()} for each in (told, _read(template(mechanism)))
    )
    assert given == default


def test_scenario_errors_suggest_names_or_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring.toml").write_text(template("qcn", "fat-tree k=4"))
    with pytest.raises(SpecError, match=r"\(there is a file ring\.toml\)"):
        load_scenario("ring")
    scenario = load_scenario("ring.toml")
    with pytest.raises(SpecError, match=r"host\[h99\]\.delay: expected a host of the network.*'h9'"):
        scenario.with_value("host[h99].delay", "1us")
    with pytest.raises(SpecError, match=r"expected a port.*one of .*a1>c1.* more\)"):
        scenario.with_value("measure.port", "nowhere").experiment()
    with pytest.raises(SpecError, match="a range of at most 100,000 names"):
        scenario.with_value("flow[bulk].from", "h1..h1000000000").experiment()
    with pytest.raises(SpecError, match=r"needs measure\.from=25 ms or so"):
        scenario.with_value("duration", "50ms").experiment()


def test_scenarios_are_found_by_name_variant_and_file(tmp_path: Path) -> None:
    assert load_scenario("bcn-symmetric:1g").variant == "1g"
    file = tmp_path / "mine.toml"
    file.write_text(_VARIED)
    assert load_scenario(str(file)).name == "mine"
    assert load_scenario(f"{file}:1g").name == "mine:1g"
    with pytest.raises(SpecError, match="did you mean 'bcn-symmetric'"):
        load_scenario("bcn-symetric")
    with pytest.raises(SpecError, match="No such file"):
        load_scenario("./nothing.toml")
    for name in ("", ":", "a\0.toml", str(tmp_path), "x" * 5000):
        with pytest.raises(SpecError):
            load_scenario(name)


def test_flowlet_gap_without_flowlets_is_refused() -> None:
    with pytest.raises(SpecError, match="flowlet_gap: expected paths=flowlet with it, got ecmp"):
        apply(load_scenario("incast-victim"), ["flowlet_gap=5us"]).experiment()


@pytest.mark.parametrize(
    ("mechanism", "path"),
    [
        ("qcn", "cnm_priority"), ("bcn", "control.cp.keep_priority"), ("ecm", "cp.message_priority"),
        ("dcqcn", "edge.cnp_priority"), ("dbp", "report_priority"), ("fecn", "return_priority"),
        ("e2cm", "reply_priority"),
    ],
)  # fmt: skip
def test_priorities_of_messages_are_refused_with_their_key(mechanism: str, path: str) -> None:
    scenario = load_scenario("incast-victim").with_mechanism(mechanism)
    with pytest.raises(SpecError, match=r"messages in band use control\.message_priority"):
        scenario.with_value(path, 5)
    with pytest.raises(SpecError, match=r"messages in band use control\.message_priority"):
        scenario.with_mechanism("none").with_mechanism(mechanism, [f"{path.removeprefix('control.')}=5"])


def test_a_w_that_changes_nothing_is_refused() -> None:
    scenario = load_scenario("e2cm-hotspot")
    with pytest.raises(SpecError, match=r"control\.cp\.w: expected rp\.w, or cp\.increase_signals=no"):
        scenario.with_value("cp.w", 4).experiment()
    assert "cp.w=4" in scenario.with_value("w", 4).experiment().control.parameters
    both = scenario.with_value("cp.w", 4).with_value("increase_signals", value="no")
    assert "cp.w=4" in both.experiment().control.parameters


_KEYS = st.sampled_from(
    ["scenario", "flow", "host", "switch", "link", "control", "measure", "band", "variants", "sources",
     "mechanisms", "name", "from", "to", "pattern", "rate", "topology", "duration", "cp", "rp", "qeq", "set",
     "figure", "low", "x"]
)  # fmt: skip
_SCALARS = st.one_of(
    st.sampled_from(
        ["5G", "h1..h9", "s*", "all others", "1..99999999", "10ms", "bernoulli", "qcn", "@", "\0", ""]
    ),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(max_size=10),
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=20,
)


def _mixed(base: Any, drawn: Any) -> Any:
    """Return a good document with drawn values in some places."""
    if isinstance(base, dict) and isinstance(drawn, dict):
        return {**base, **{key: _mixed(base.get(key), value) for key, value in drawn.items()}}
    if isinstance(base, list) and isinstance(drawn, dict) and base:
        return [_mixed(base[0], drawn), *base[1:]]
    return drawn


@given(st.dictionaries(_KEYS, _TREES, max_size=4))
def test_no_document_gives_anything_but_experiment_or_error(drawn: dict[str, Any]) -> None:
    import tomllib

    from ecmproto.control.lab.setup.keys import read_tables

    tree = _mixed(tomllib.loads(_VARIED), drawn)
    with contextlib.suppress(SpecError):
        scenario = Scenario(document=read_tables(tree))
        scenario.experiment()
        scenario.explain()
        for variant in scenario.variants:
            scenario.with_variant(variant).experiment()


@given(st.binary(max_size=200))
def test_no_octets_give_anything_but_scenario_or_error(octets: bytes) -> None:
    with contextlib.suppress(SpecError):
        read_scenario(io.BytesIO(octets))


_SCENARIO = _read(_VARIED)


@given(st.text(alphabet="flowcontrlqtpygbskrae[]0123.=>GkBm ", max_size=40))
def test_no_assignment_gives_anything_but_scenario_or_error(assignment: str) -> None:
    with contextlib.suppress(SpecError):
        changed = apply(_SCENARIO, [assignment])
        changed.experiment()
        changed.explain()


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        ('[[band]]\nfigure = "drops[1500us..]"\nhigh = 0\n', "band[0].figure"),
        ('[[published]]\nfigure = "drops[..1500us]"\nvalue = "none"\n', "published[0].figure"),
        ('[measure]\nfrom = "1500us"\n', "measure.from"),
        ('[measure]\nuntil = "2500us"\n', "measure.until"),
    ],
)
def test_times_within_windows_are_refused_before_a_run(tables: str, where: str) -> None:
    head = '[scenario]\nname = "n"\ntitle = "t"\nduration = "3ms"\ntopology = "star"\n'
    flow = '[[flow]]\nfrom = "h1"\nto = "h2"\npattern = "saturating"\n'
    with pytest.raises(SpecError, match=r"multiples of measure\.window, 1 ms") as caught:
        _read(head + flow + tables)
    assert caught.value.where.startswith(where)
    assert caught.value.hint == "measure.window=500µs fits"
    # By default, the measurement begins at a multiple of 1 ms: at 1 ms, and not at half of 3 ms.
    assert _read(head + flow).experiment().measure.from_ns == 1_000_000
