"""Swift's ports, acknowledgements, closed loop, and hops in networks."""

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
from ecmproto.control.mechanisms.api.protocol import Delivery, messages_of, new_outbox
from ecmproto.kernels.record import new_record
from ecmproto.tools.craft import build
from ecmproto.wire.codec import Ethernet, decode, encode
from ecmproto.wire.formats.hpcc import HPCCAck, INTTag
from tests.lab.test_paths import experiment
from tests.lab.test_trace import links_of, traced
from tests.replay.loops import CP_MAC, incast, machine, run

CONTEXT = PortContext(rate_bps=10**11, link_rate_bps=10**11, cp_mac=CP_MAC, stations=2, flows=2)


@pytest.mark.parametrize(("hops", "more"), [(0, 1), (5, 6), (0xFFFF, 0xFFFF)])
def test_ports_count_hops(hops: int, more: int) -> None:
    own = machine("swift")
    point = own.congestion_point(CONTEXT, np.random.default_rng(1))
    assert own.remarks(point)
    assert point.rewrite_tag(3, 0xABCDEF << 16 | hops) == 0xABCDEF << 16 | more
    assert (own.counters(point), own.remarks(point)) == ({"tagged_frames": 1}, ())


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
def test_acknowledgements_return_time_hops_and_octets(time_ns: int, hops: int, seq: int) -> None:
    own, outbox = machine("swift"), new_outbox(2)
    receivers = own.receivers(CONTEXT, np.random.default_rng(1))
    receivers.on_delivery(Delivery(70, 1, 1, 3, 1_500, False, True, time_ns << 16 | hops, seq), outbox)
    data = encode(build("vlan id=5 priority=3 ip udp"))
    frame = own.frame(outbox.messages[0], SampledFrame(data, len(data), 16), CONTEXT)
    answer = decode(frame)[HPCCAck]
    assert (answer.time1, answer.nhop, answer.seq) == (time_ns, hops, seq)
    parsed = own.parse_feedback(frame, decode(data)[Ethernet].src, CONTEXT, new_record(MessageDiscards))
    assert parsed is not None
    (message,) = messages_of([{**parsed.fields, "station": 1, "flow": 1}], own.payloads)
    assert message.payload[5:7].tolist() == [seq, time_ns << 16 | hops]


def test_closed_loop_keeps_its_queue_below_buffer() -> None:
    free, controlled = (run(incast(5), name, buffer_octets=400_000) for name in ("none", "swift"))
    dropped = [loop.summary.ports[0].dropped_frames for loop in (free, controlled)]
    assert dropped[0] > 1_000
    assert dropped[1] == 0
    counts = controlled.stations.counters
    assert counts["acks"] > 1_000
    assert counts["decreases"] > 10
    assert counts["stale"] == counts["unknown_flow"] == counts["losses"] == counts["timeouts"] == 0


def test_tags_count_the_switches_of_a_path(tmp_path: Path) -> None:
    network = parse_topology("fat-tree k=4").network()
    flow = Flow(name="f", source="h1", destination="h16", pattern=Pattern.SATURATING, priority=3)
    control = Control(mechanism="swift")
    measured = dataclasses.replace(experiment(network, flow, duration_ns=50_000), control=control)
    simulation, result = traced(tmp_path / "t.pcapng", measured)
    links = links_of(tmp_path / "t.pcapng")
    (route,) = {tuple(each.path) for each in result.flows}
    for hops, name in enumerate(["h1>e1", *route[1:]]):
        tags = [frame[INTTag] for _, _, frame in links[name] if INTTag in frame]
        assert len(tags) > 5
        assert {tag.nhop for tag in tags} == {hops}
        assert len({tag.time1 for tag in tags}) > 5
    counts = simulation.machine.counters(simulation._senders[0])
    assert counts["increases"] == counts["acks"] > 5
