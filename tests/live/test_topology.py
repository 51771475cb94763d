"""The plan of a testbed, and the evaluation of reports from its programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ecmproto.control.live.testbed.run import RunReport, TrafficCost, carried_bps, check_rate, outcome_of
from ecmproto.control.live.testbed.topology import Sender, Topology, dumbbell, read_topology
from ecmproto.control.mechanisms.registry import find_mechanism, mechanism_names
from ecmproto.errors import ParameterError, SpecError
from ecmproto_cli.commands.live.testbed import table_of_runs


def test_a_dumbbell_divides_load_among_senders() -> None:
    topology = dumbbell(senders=3, rate_bps=50_000_000, load=1.8)
    assert topology.senders == (Sender(rate_bps=30_000_000),) * 3
    assert topology.victim_bps == 0


@pytest.mark.parametrize("senders", [0, 33])
def test_numbers_of_senders_outside_limits_are_refused(senders: int) -> None:
    with pytest.raises(ParameterError, match="1 to 32"):
        dumbbell(senders=senders, rate_bps=10**6, load=1)


def test_a_topology_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text(
        'rate = "50M"\nbuffer = "200kB"\nvictim = "5M"\n'
        '[[sender]]\nrate = "30M"\n[[sender]]\nprotocol = "tcp"\n'
    )
    assert read_topology(str(path)) == Topology(
        rate_bps=50_000_000,
        buffer="200kB",
        victim_bps=5_000_000,
        senders=(Sender(rate_bps=30_000_000), Sender(rate_bps=0, protocol="tcp")),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate = ", "a TOML document"),
        ('[[sender]]\nrate = "1M"', "rate: expected a text in quotes"),
        ("rate = 5", "a text in quotes, got 5"),
        ('rate = "fast"', "a rate such as"),
        ('rate = "1M"', "senders: expected 1 to 32"),
        ('rate = "1M"\nsender = 3', "tables"),
        ('rate = "1M"\nspeed = "1M"', "got 'speed'"),
        ('rate = "1M"\n[[sender]]\nprotocol = "sctp"', "udp or tcp"),
        ('rate = "1M"\n[[sender]]\nweight = "2"', "one of protocol, rate"),
    ],
)
def test_wrong_topology_files_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "topology.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=said):
        read_topology(str(path))


@pytest.mark.parametrize("rate_bps", [0, 999, 10**14])
def test_impossible_rates_are_refused_before_running(rate_bps: int) -> None:
    with pytest.raises(ParameterError, match="rate: expected 1000 to 10000000000000 bit/s"):
        dumbbell(senders=3, rate_bps=rate_bps, load=2.0)


@pytest.mark.parametrize("name", mechanism_names())
@pytest.mark.parametrize("rate_bps", [10**6, 50_000_000, 10**9, 10**10])
def test_low_rate_parameters_are_valid(name: str, rate_bps: int) -> None:
    mechanism = find_mechanism(name)
    assert mechanism.parse(mechanism.low_rate_parameters(rate_bps)).keys() == mechanism.roles.keys()
    assert rate_bps < 10**10 or not mechanism.low_rate_parameters(rate_bps)


def port_documents(seconds: int = 10) -> list[dict[str, Any]]:
    """Return reports every half second: a queue of 10 kB at first, of 30 kB from the fifth second on."""
    documents, integral = [], 0.0
    for half in range(2 * seconds + 1):
        octets = 10_000 if half <= 10 else 30_000
        integral += octets / 2
        documents.append(
            {
                "elapsed_ns": half * 500_000_000,
                "counters": {"departed_frames": 1000 * half, "dropped_frames": 7 if half < 8 else 9},
                "gauges": {"queue_octets": octets, "queue_octet_seconds": integral},
                "messages": {"CNM": 5 * half},
            }
        )
    return documents


def iperf(rate_bps: float, lost: float) -> dict[str, Any]:
    return {
        "end": {
            "sum_received": {"bits_per_second": rate_bps},
            "sum": {"bits_per_second": 0.0, "lost_percent": lost},
        }
    }


def test_reports_are_converted_to_figures() -> None:
    report = RunReport(
        senders=(iperf(10e6, 20.0), iperf(30e6, 40.0)),
        sent=({}, {}),
        victim=iperf(5e6, 0.0),
        ping="64 bytes: time=1.00 ms\n64 bytes: time=3.00 ms\n64 bytes: time=2.00 ms\n",
        port=port_documents(),
        edge=[{"messages": {"FECN return": 3}}],
        points=(),
    )
    outcome = outcome_of("qcn", 26_000, report)
    assert outcome.rates_bps == (10e6, 30e6)
    assert outcome.fairness == pytest.approx(0.8)
    assert outcome.victim_bps == 5e6
    assert outcome.lost_share == pytest.approx(0.3)
    assert outcome.retransmits is None
    # What was before the fifth second does not count.
    assert outcome.queue_mean_octets == pytest.approx(30_000)
    assert outcome.queue_peak_octets == 30_000
    assert outcome.dropped_frames == 0
    assert outcome.messages == 103
    assert outcome.ping_p50_ms == 2.0
    assert outcome.starved_ns == 0


def test_a_testbed_reports_starved_devices_first() -> None:
    point = {"elapsed_ns": 20 * 10**9, "waited_ns": 3_900_000_000, "counters": {}}
    calm = {"elapsed_ns": 20 * 10**9, "waited_ns": 300_000_000, "counters": {"missed_ns": 5_000_000_000}}
    report = RunReport(
        senders=(iperf(10e6, 0.0),), sent=({},), victim=None, ping="", port=port_documents(), edge=[],
        points=([calm], [calm, point]),
    )  # fmt: skip
    outcome = outcome_of("fecn", 24_000, report)
    assert outcome.starved_ns == 3_900_000_000
    request: Any = SimpleNamespace(topology=dumbbell(senders=1, rate_bps=10**6, load=1), duration_s=20.0)
    first = table_of_runs(request, [outcome]).splitlines()[0]
    assert first == (
        "Kept from the processor (fecn for 3.9 s of 20 s): these figures reflect this machine, not the "
        "mechanisms. Run it on a less busy machine."
    )


class TestCapacity:
    COST = TrafficCost(
        elapsed_ns=10**9, processor_ns=800_000_000, busiest_ns=400_000_000, frames=80 * 10**6 // (8 * 1442)
    )
    """A load of 80 Mb/s used two fifths of two processors, and two fifths of the busiest processor."""

    @pytest.mark.parametrize(
        ("differently", "most_bps"),
        [
            ({}, 100e6),
            ({"processor_ns": 1_600_000_000, "busiest_ns": 500_000_000}, 50e6),
            ({"busiest_ns": 800_000_000}, 50e6),
        ],
    )
    def test_the_sustainable_rate_reserves_a_fifth(
        self, differently: dict[str, int], most_bps: float
    ) -> None:
        cost = dataclasses.replace(self.COST, **differently)
        topology = dumbbell(senders=2, rate_bps=50_000_000, load=1.6)
        assert carried_bps(topology, cost, processors=2) == pytest.approx(most_bps, rel=1e-3)

    def test_too_high_rates_are_refused_naming_the_limit(self) -> None:
        # Hosts that offer 160 Mb/s got rid of half of it: the machine was the limit.
        topology = dumbbell(senders=2, rate_bps=100_000_000, load=1.6)
        full = dataclasses.replace(self.COST, processor_ns=2 * 10**9, busiest_ns=300_000_000)
        with pytest.raises(ParameterError, match="100 Mb/s") as caught:
            check_rate(topology, full, processors=2)
        assert caught.value.needed.startswith("at most 39 Mb/s on this machine (a frame takes 288")
        assert caught.value.needed.endswith("of its 2 processors), or --any-rate")
        check_rate(topology, full, processors=8)
        check_rate(topology, dataclasses.replace(full, frames=0), processors=2)


def test_tcp_senders_report_retransmissions() -> None:
    tcp = {"end": {"sum_received": {"bits_per_second": 1e6}}}
    sent = tuple({"end": {"sum_sent": {"retransmits": count}}} for count in (3, 0))
    report = RunReport(senders=(tcp, tcp), sent=sent, victim=None, ping="", port=[], edge=[], points=())
    outcome = outcome_of("none", None, report)
    assert outcome.rates_bps == (1e6, 1e6)
    assert outcome.retransmits == 3
    assert outcome.lost_share is None


def test_rates_exclude_the_settling_time() -> None:
    spans = [
        {"start": float(n), "end": n + 1.0, "seconds": 1.0, "bytes": 1_000_000 if n < 5 else 2_000_000}
        for n in range(10)
    ]
    spans.append({"start": 10.0, "end": 10.2, "seconds": 0.2, "bytes": 9_000_000})
    flow = iperf(1.0, 0.0) | {"intervals": [{"sum": span} for span in spans]}
    report = RunReport(senders=(flow,), sent=({},), victim=None, ping="", port=[], edge=[], points=())
    assert outcome_of("qcn", 26_000, report).rates_bps == (16e6,)


def test_missing_program_reports_give_zeros() -> None:
    report = RunReport(senders=({}, {}), sent=({}, {}), victim=None, ping="", port=[], edge=[], points=())
    outcome = outcome_of("none", None, report)
    assert outcome.rates_bps == (0.0, 0.0)
    assert outcome.lost_share is outcome.retransmits is None
    assert outcome.ping_p50_ms is None
    assert outcome.queue_mean_octets == 0
