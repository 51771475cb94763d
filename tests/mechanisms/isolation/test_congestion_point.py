"""The congestion isolation point beside a slow oracle of its rules, its messages, and its limits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.control.mechanisms.api.machine import MessageDiscards, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    Arrival,
    CongestionPoint,
    Message,
    messages_of,
    new_outbox,
)
from ecmproto.control.mechanisms.isolation.congestion_point import CIM_KIND, cim_payload
from ecmproto.control.mechanisms.isolation.parameters import IsolationPointParameters
from ecmproto.errors import ParameterError
from ecmproto.kernels.record import new_record
from ecmproto.tools.craft import build
from ecmproto.wire.codec import Ethernet, decode, encode
from ecmproto.wire.formats.isolation import CIM
from tests.replay.loops import CP_MAC, machine

CONTEXT = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=CP_MAC, stations=4, flows=4)
OCTETS = 1000


def point(*assignments: str) -> CongestionPoint:
    return machine("isolation", *assignments).congestion_point(CONTEXT, np.random.default_rng(1))


def arrival(now_ns: int, station: int, qlen_octets: int, *, priority: int = 3, flow: int = 0) -> Arrival:
    return Arrival(
        now_ns=now_ns, station=station, flow=flow, priority=priority, octets=OCTETS, sampled=True,
        answerable=True, enqueued=True, tagged=False, tag=0, mark=0, qlen_octets=qlen_octets,
        port_octets=qlen_octets,
    )  # fmt: skip


class Step(NamedTuple):
    """An event at a port: a frame, a message or a departure from the isolated queue, after ``after_ns``."""

    what: str
    after_ns: int
    station: int
    qlen_octets: int
    is_stopped: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["frame", "frame", "frame", "message", "leave"]),
        st.sampled_from([0, 1, 90, 400]),
        st.integers(0, 3),
        st.sampled_from([0, 1500, 1501, 3000, 3001, 9000]),
        st.booleans(),
    ),
    max_size=60,
)


def expected(
    steps: list[Step], *, threshold: int, minimum: int, interval: int, hold: int, limit: int
) -> list[tuple[int, bool]]:
    """Return the queue of each frame, and whether it causes a message, by the module's rules, literally."""
    counted: dict[int, int] = {}
    until: dict[int, int] = {}
    silent: dict[int, int] = {}
    waiting, now, results = 0, 0, []
    for step in steps:
        now += step.after_ns
        flow = step.station
        if step.what == "leave":
            waiting = max(0, waiting - 1)
            continue
        if waiting == 0:
            for ended in [each for each, end in until.items() if end <= now]:
                del until[ended]
        if step.what == "frame" and step.qlen_octets <= threshold // 2:
            counted.clear()
        fits = flow in counted or flow in until or len(counted) + len(until) < limit
        if step.what == "message":
            if fits:
                silent[flow] = silent[flow] if flow in until else 0
                counted.pop(flow, None)
                until[flow] = now + hold
            continue
        if flow not in until and fits and step.qlen_octets > threshold // 2 and not step.is_stopped:
            counted[flow] = counted.get(flow, 0) + OCTETS
            if step.qlen_octets > threshold and counted[flow] >= minimum:
                del counted[flow]
                until[flow], silent[flow] = now + hold, 0
        sends = flow in until and now >= silent[flow]
        if sends:
            silent[flow] = now + interval
        waiting += flow in until
        results.append((1 if flow in until else 3, sends))
    return results


@settings(max_examples=200)
@given(STEPS, st.sampled_from([0, 1000, 3000]), st.sampled_from([1, 150]), st.sampled_from([1, 300]))
def test_a_port_follows_the_rules(steps: list[Step], minimum: int, interval: int, hold: int) -> None:
    own = point(
        "threshold=3kB", f"flow_octets={minimum}B", f"interval={interval}ns", f"hold={hold}ns", "max_flows=3"
    )
    outbox, now_ns, waiting, results = new_outbox(2), 0, 0, []
    for step in steps:
        now_ns += step.after_ns
        if step.what == "leave":
            if waiting:
                waiting -= 1
                own.on_dequeue(now_ns, step.station, 1, OCTETS, 0, outbox)
            continue
        if step.what == "message":
            own.on_message(cim(step.station), now_ns)
            continue
        frame = arrival(now_ns, step.station, step.qlen_octets)
        queue = own.select_queue(frame, 0xFF if step.is_stopped else 0xF7, outbox)
        own.on_arrival(frame._replace(priority=queue), outbox)
        waiting += queue == 1
        results.append((queue, outbox.posted.count == 1))
        outbox.posted.count = 0
    given_rules = {"threshold": 3000, "minimum": minimum, "interval": interval, "hold": hold, "limit": 3}
    assert results == expected(steps, **given_rules)


def cim(station: int, priority: int = 3) -> Message:
    fields = {"kind": CIM_KIND, "station": 9, "flow": 0, "priority": priority, "origin": station}
    (message,) = messages_of([fields], machine("isolation").payloads)
    return message


def test_other_priorities_and_unknown_flows_keep_their_queue() -> None:
    own, outbox = point("threshold=1B", "flow_octets=0B"), new_outbox(2)
    own.on_message(cim(0, priority=4), 0)
    for each in (arrival(0, 0, 9000, priority=4), arrival(0, -1, 9000), arrival(0, 0, 9000, flow=-1)):
        assert own.select_queue(each, 0, outbox) == each.priority
    assert outbox.posted.count == 0
    assert own.select_queue(arrival(0, 0, 9000), 0, outbox) == 1
    assert machine("isolation").counters(own) == {
        "isolated": 1,
        "requested": 0,
        "returned": 0,
        "untracked": 0,
    }


def test_messages_are_octets_that_show_the_flow() -> None:
    own, outbox = point("threshold=1B", "flow_octets=0B"), new_outbox(2)
    own.select_queue(arrival(5, 2, 9000), 0, outbox)
    data = encode(build("vlan id=5 priority=3 ip udp"))
    frame = machine("isolation").frame(outbox.messages[0], SampledFrame(data, len(data), 16), CONTEXT)
    sent = decode(frame)
    assert (sent[CIM].priority, sent[CIM].queue, sent[CIM].cpid >> 16) == (3, 1, int.from_bytes(CP_MAC))
    assert sent[CIM].payload.startswith(data[:24])
    assert sent[Ethernet].dst == decode(data)[Ethernet].src
    parsed = machine("isolation").parse_feedback(
        frame, sent[Ethernet].dst, CONTEXT, new_record(MessageDiscards)
    )
    assert parsed is not None
    assert (parsed.fields["kind"], parsed.fields["priority"], parsed.fields["queue"]) == (CIM_KIND, 3, 1)
    assert cim_payload(outbox.messages[0]).origin == 2


def test_isolated_queue_is_below_the_priority() -> None:
    with pytest.raises(ParameterError, match="queue: expected a queue below priority 3, got 3"):
        IsolationPointParameters.parse(["queue=3"])
    assert IsolationPointParameters.parse(["priority=7", "queue=6"]).isolation == (7, 6)
