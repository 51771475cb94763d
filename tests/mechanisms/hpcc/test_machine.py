"""HPCC's ports, destinations and messages, and stacks of several hops in networks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.lab.model import Control, Flow, Pattern
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.mechanisms.api.machine import MessageDiscards, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import CongestionPoint, Delivery, messages_of, new_outbox
from ecmproto.control.mechanisms.hpcc.machine import ACK_KIND
from ecmproto.kernels.record import new_record
from ecmproto.tools.craft import build
from ecmproto.wire.codec import Ethernet, decode, encode
from ecmproto.wire.codec.tags import joined_word
from ecmproto.wire.formats.hpcc import RECORD_FIELDS, HPCCAck, INTTag
from tests.lab.test_paths import experiment
from tests.lab.test_trace import links_of, traced
from tests.replay.loops import CP_MAC, incast, machine, run

CONTEXT = PortContext(rate_bps=10**11, link_rate_bps=10**11, cp_mac=CP_MAC, stations=2, flows=2)
NUMBER = int.from_bytes(CP_MAC[-2:])
WORDS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=5, max_size=5)


def port(rate_bps: int = 10**11) -> CongestionPoint:
    return machine("hpcc").congestion_point(
        PortContext(rate_bps=rate_bps, link_rate_bps=10**11, cp_mac=CP_MAC, stations=1, flows=1),
        np.random.default_rng(1),
    )


@given(st.integers(0, 2**62), st.integers(0, 2**52), st.integers(0, 10**9), st.integers(0, 4))
def test_a_port_fills_the_next_record(now_ns: int, line_octets: int, queue: int, hops: int) -> None:
    stack = np.zeros(5, np.int64)
    mark = port().add_record(now_ns, line_octets, queue, hops << 16 | 0x1234, stack)
    assert (mark >> 16, mark & 0xFFFF) == (hops + 1, 0x1234 ^ NUMBER)
    assert np.flatnonzero(stack).tolist() == [hops]
    word = int(stack[hops]) % 2**64
    length = min(queue // 80, 2**17 - 1)
    assert word == 2 << 61 | now_ns % 2**24 << 37 | line_octets // 128 % 2**20 << 17 | length


def test_a_full_stack_only_counts_hops() -> None:
    stack = np.arange(1, 6)
    point = port()
    assert point.add_record(9, 9, 9, 5 << 16, stack) >> 16 == 6
    assert point.add_record(9, 9, 9, 0xFFFF << 16, stack) >> 16 == 0xFFFF
    assert stack.tolist() == [1, 2, 3, 4, 5]
    assert machine("hpcc").counters(point) == {"records": 0, "full_stacks": 2}


@pytest.mark.parametrize(("rate_bps", "code", "scale"), [(5 * 10**9, 5, 2), (16 * 10**11, 7, 0.5)])
def test_rates_without_code_are_reported_in_proportion(rate_bps: int, code: int, scale: float) -> None:
    point, stack = port(rate_bps), np.zeros(5, np.int64)
    point.add_record(0, 12_800, 8_000, 0, stack)
    assert int(stack[0]) % 2**64 == code << 61 | int(100 * scale) << 17 | int(100 * scale)
    # Octets before a change keep their proportion.
    machine("hpcc").set_capacity(point, 25 * 10**9)
    point.add_record(0, 25_600, 8_000, 0, stack)
    assert stack[0] == int(100 * scale + 100) << 17 | 100


@given(WORDS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_acknowledgements_return_what_frames_collected(words: list[int], seq: int, mark: int) -> None:
    own, outbox = machine("hpcc"), new_outbox(2)
    receivers = own.receivers(CONTEXT, np.random.default_rng(1))
    stack = np.array(words)
    receivers.on_delivery(Delivery(70, 1, 1, 3, 1_500, False, True, seq, mark, 0, stack), outbox)
    receivers.on_delivery(Delivery(70, 1, 1, 3, 1_500, False, False, 0, 0, 0, stack), outbox)
    assert outbox.posted.count == 1
    data = encode(build("vlan id=5 priority=3 ip udp"))
    frame = own.frame(outbox.messages[0], SampledFrame(data, len(data), 16), CONTEXT)
    answer = decode(frame)[HPCCAck]
    assert (answer.seq, answer.nhop << 16 | answer.path) == (seq, mark)
    source = decode(data)[Ethernet].src
    parsed = own.parse_feedback(frame, source, CONTEXT, new_record(MessageDiscards))
    assert parsed is not None
    assert parsed.fields["kind"] == ACK_KIND
    (message,) = messages_of([{**parsed.fields, "station": 1, "flow": 1}], own.payloads)
    assert message.payload[:7].tolist() == outbox.messages[0].payload[:7].tolist() == [*words, mark, seq]
    assert parsed.about is not None
    assert (parsed.about.destination, parsed.about.vlan) == (decode(data)[Ethernet].dst, 5)


def test_closed_loop_keeps_its_queue_below_buffer() -> None:
    free, controlled = (run(incast(5), name, buffer_octets=400_000) for name in ("none", "hpcc"))
    dropped = [loop.summary.ports[0].dropped_frames for loop in (free, controlled)]
    assert dropped[0] > 1_000
    assert dropped[1] == 0
    counts = controlled.stations.counters
    assert counts["acks"] > 1_000
    assert counts["multiplicative"] > 10
    assert counts["stale"] == counts["unknown_flow"] == counts["unmeasured"] == counts["timeouts"] == 0


def test_stacks_grow_by_one_record_a_hop(tmp_path: Path) -> None:
    network = parse_topology("fat-tree k=4").network()
    flow = Flow(name="f", source="h1", destination="h16", pattern=Pattern.SATURATING, priority=3)
    control = Control(mechanism="hpcc", parameters=("rp.base_rtt=20us",))
    measured = dataclasses.replace(experiment(network, flow, duration_ns=100_000), control=control)
    simulation, result = traced(tmp_path / "t.pcapng", measured)
    links = links_of(tmp_path / "t.pcapng")
    (route,) = {tuple(each.path) for each in result.flows}
    before: dict[int, INTTag] = {}
    for hops, name in enumerate(["h1>e1", *route[1:]]):
        tags = {frame[INTTag].seq: frame[INTTag] for _, _, frame in links[name] if INTTag in frame}
        assert len(tags) > 20
        for seq, tag in tags.items():
            words = [joined_word(tag, names) for names in RECORD_FIELDS]
            assert tag.nhop == hops == sum(word > 0 for word in words)
            if hops:
                earlier = [joined_word(before[seq], names) for names in RECORD_FIELDS]
                assert words[: hops - 1] == earlier[: hops - 1]
                assert tag.path != before[seq].path
        before = tags
    times = [(tag.time1, tag.time2, tag.time3, tag.time4, tag.time5) for tag in before.values()]
    assert all(list(each) == sorted(set(each)) for each in times)
    assert simulation.machine.counters(simulation._senders[0])["unmeasured"] == 0
    assert result.conservation.missing_frames == result.conservation.dropped_frames == 0
