"""The edge receiver's measurements (algorithms §4, rule 3), and against the literal transcription."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.mechanisms.e2cm.edge import (
    E2CMEdgeCounters,
    MeasuredFlow,
    ProbeReply,
    on_data,
    on_probe,
    on_unknown_probe,
)
from ecmproto.kernels.record import new_record
from tests.mechanisms.e2cm.literal import LiteralEdge


class Edge:
    def __init__(self) -> None:
        self.flow: MeasuredFlow = new_record(MeasuredFlow)
        self.counters: E2CMEdgeCounters = new_record(E2CMEdgeCounters)

    def data(self, octets: int) -> None:
        on_data(self.flow, octets)

    def probe(self, now_ns: int, timestamp_ns: int) -> ProbeReply:
        return on_probe(self.flow, self.counters, now_ns, timestamp_ns)


def test_3_first_probe_has_latency_and_no_throughput() -> None:
    edge = Edge()
    edge.data(75_000)
    assert edge.probe(1_000_000, 990_000) == ProbeReply(10_000, 0)
    assert edge.counters.unmeasured_probes == 1


def test_3_throughput_covers_octets_since_last_probe() -> None:
    edge = Edge()
    edge.probe(0, 0)
    for _ in range(50):
        edge.data(1_500)
    assert edge.probe(60_000, 0).throughput_kbps == 10_000_000
    edge.data(1_500)
    assert edge.probe(12_060_000, 0).throughput_kbps == 1_000
    assert edge.probe(12_070_000, 0).throughput_kbps == 0


def test_3_latency_wraps_at_2_to_the_32() -> None:
    assert Edge().probe(2**32 + 5, 2**32 - 5).latency_ns == 10
    assert Edge().probe(100, 2_000).latency_ns == 2**32 - 1_900
    assert Edge().probe(2**60 + 7, 7).latency_ns == 0


def test_3_throughput_is_integral_and_saturates_its_field() -> None:
    edge = Edge()
    edge.probe(0, 0)
    edge.data(1)
    assert edge.probe(7, 0).throughput_kbps == 8_000_000 // 7
    edge.data(10**15)
    assert edge.probe(8, 0).throughput_kbps == 2**32 - 1


def test_two_probes_at_one_time_lose_no_octets() -> None:
    edge = Edge()
    edge.probe(0, 0)
    edge.data(1_500)
    edge.probe(1_200, 0)
    edge.data(1_500)
    assert edge.probe(1_200, 0).throughput_kbps == 0
    assert edge.counters.unmeasured_probes == 2
    assert edge.probe(2_400, 0).throughput_kbps == 10_000_000


def test_flow_without_record_is_answered_with_its_latency() -> None:
    edge = Edge()
    assert on_unknown_probe(edge.counters, 500, 100) == ProbeReply(400, 0)
    assert (edge.counters.probes, edge.counters.unmeasured_probes) == (1, 1)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**9), st.lists(st.integers(1, 10**6), max_size=5), st.integers(0, 2**32 - 1)
        ),
        max_size=40,
    )
)
def test_equals_the_literal_transcription(steps: list[tuple[int, list[int], int]]) -> None:
    edge, literal = Edge(), LiteralEdge()
    now_ns = 2**32 - 10**9
    for gap_ns, frames, timestamp_ns in steps:
        now_ns += gap_ns
        for octets in frames:
            edge.data(octets)
            literal.data(octets)
        assert edge.probe(now_ns, timestamp_ns) == literal.probe(now_ns, timestamp_ns)
    assert edge.counters.probes == len(steps)
