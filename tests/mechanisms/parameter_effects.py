"""Effects of parameters of mechanisms, in short runs of plain Python.

``python -m tests.mechanisms.parameter_effects MECHANISM`` prints a JSON document. For each parameter by role
and name, the document contains a value that had an effect, or null. Run this module with NUMBA_DISABLE_JIT=1,
because compilation would take longer than the hundreds of short runs.

The machines are first called directly with arrivals and messages that trigger every rule, which takes
milliseconds. Parameters without an effect in these calls are then tried at an edge and in replays.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.frames import octets_of as octets_of_message
from ecmproto.control.live.edge import HOST as TO_HOST
from ecmproto.control.live.edge import NET, Edge
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.mechanism import Role
from ecmproto.control.mechanisms.api.parameters import UNITS, Parameter
from ecmproto.control.mechanisms.api.protocol import (
    NO_CAUSE,
    NO_CPID,
    NO_LIMITER,
    PROBE_KIND,
    Arrival,
    Departure,
    Message,
    Outbox,
    Senders,
    messages_of,
    new_outbox,
    signed_cpid,
)
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.errors import ParameterError
from ecmproto.frames.capture.batch import Batch
from ecmproto.kernels.record import new_records
from ecmproto.wire.codec import UDP, VLAN, Ethernet, Frame, IPv4, encode
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.formats.infiniband import BTH, ICRC
from ecmproto.wire.formats.ip import CE, ECT0
from ecmproto.wire.formats.text import cpid
from tests.live.virtual import HOST, START_NS, Clock, frame
from tests.mechanisms.qcn.test_edge import BACKBONE_EDGE, backbone_cnm, i_tagged
from tests.replay.loops import BUSY, CP_MAC, Sent, batches_of, machine, octets_of, run
from tests.replay.many_kinds import TAGS

_AT_MSDU = 16
_FLOWS = 12
_RATE_BPS = 5 * 10**9
"""A rate that differs from BCN's rate for Ru."""
_DELAY_NS = 2_500
"""A delay in ns that is not a multiple of the time stamps' ticks."""


def traffic() -> list[Sent]:
    """Return two bursts of three stations, twelve flows each, that overload a port; then all fall silent."""
    frames = []
    for start_ns in (0, 500_000):
        for slot in range(50):
            for station in (1, 2, 3):
                octets, priority = (1500, 600)[slot % 3 == 0], (3, 5)[slot // 5 % 2]
                vlan, destination = 1 + slot % 3, 250 + slot % 4
                time_ns = start_ns + slot * 1_300 + station
                frames.append(Sent(time_ns, station, octets, priority, vlan, destination))
    return [*frames, Sent(2_500_000, 1, 100, 3, 1, 250), Sent(3_000_000, 1, 100, 3, 1, 250)]


TRAFFIC = traffic()
BUSIER = {
    "qcn": ["cp.qeq=10kB", "cp.sample_base=10kB", "rp.byte_reset=15kB", "rp.time_reset=50us"],
    "ecm": ["cp.qeq=10kB", "cp.sf=4kB", "cp.sr=1kB", "cp.qsc=40kB", "rp.td=100us", "rp.gi=20"],
    "bcn": ["cp.qeq=10kB", "cp.sf=4kB", "cp.sr=1kB", "cp.qsc=40kB", "rp.td=100us", "rp.gi=20"],
    "e2cm": [
        "cp.qeq=10kB", "cp.sf=4kB", "cp.tagged_sf=4kB", "cp.qmc=60kB", "cp.qsc=100kB", "rp.probe_octets=3kB",
        "rp.td=100us", "rp.rd=1M", "rp.flow_qeq=2kB", "rp.flow_qmax=9kB", "rp.qeq=10kB",
    ],
    "dbp": [
        "cp.T=100us", "cp.N0=4", "rp.N0=4", "edge.report_interval=100us", "edge.active=200us", "cp.qeq=5kB",
        "cp.qsc=20kB",
    ],
    "dcqcn": [
        "cp.kmin=4kB", "cp.kmax=100kB", "rp.f=1", "rp.timer=15us", "rp.byte_counter=1kB", "rp.min_rate=1M",
        "edge.interval=1ms",
    ],
    "fecn": [*BUSY["fecn"], "cp.qeq=5kB", "cp.qsc=20kB"],
}  # fmt: skip
"""Parameters with which these runs trigger every rule of a mechanism."""

WITH: dict[Any, list[str]] = {
    "k": ["cp.linear=yes"],
    "hops_exponent": ["hops=3"],
    "key_src": ["rp.hash_bits=1"],
    "qst_low": ["cp.qst=60kB"],
    ("bcn", "qmc"): ["cp.sscale=2"],
    "decrease_interval": ["rp.variant=nic"],
    "clamp_target": ["rp.variant=nic", "rp.timer=60us"],
    "rate_on_first_cnp": ["rp.variant=nic"],
    "alternate_priority": ["edge.cnpv=3", "edge.mode=4"],
    "mode": ["edge.cnpv=3"],
    "retx_reset": ["rp.timeout=5us"],
}
"""Other values that a parameter needs; ``hops`` is the number of congestion points on a path."""
VALUES = {
    "qmc": ["20kB"],
    "qst": ["60kB"],
    "cnpv": ["5", "3,5"],
    "enabled": ["3", "none"],
    "priorities": ["3", "none"],
    "min_rate": ["4G", "6G"],
    "max_rate": ["1G"],
    "alpha_interval": ["10us"],
    "max_cwnd": ["5"],
}
"""Values that are tried first."""

QLENS_OCTETS = (
    0, 4_990, 9_990, 12_000, 30_000, 50_000, 80_000, 150_000, 90_000, 45_000, 15_000, 9_000, 7_000, 4_000, 0,
)  # fmt: skip
"""Below, just below and above every threshold of `BUSIER`, and back."""
MARKED = [
    encode(
        Frame(
            layers=(
                Ethernet(dst=HOST + b"\xfa", src=HOST + bytes([source])), VLAN(id=5),
                IPv4(src=bytes([10, 0, 0, source]), dst=bytes([10, 0, 0, 250]), dsfield=CE),
                UDP(srcport=50_000), BTH(qp=0x10 + number), ICRC(),
            )
        ), fix=True,
    )
    for source, number in ((1, 0), (1, 1), (2, 0), (1, 0))
]  # fmt: skip
"""Marked frames of three queue pairs."""
CPIDS = [signed_cpid(cpid(CP_MAC, number)) for number in range(1, 9)]
"""The CPIDs of a port's congestion points, by priority."""
_PRIORITIES = (3, 5)
_STEP_NS = 20_000


@lru_cache(maxsize=4096)
def digest(part: Callable[[Machine, int], Iterator[Any]], name: str, assignments: tuple[str, ...]) -> str:
    """Return a hash of all that a part of the runs of a mechanism comes to."""
    hops = [int(text.partition("=")[2]) for text in assignments if text.startswith("hops=")]
    own = machine(name, *[text for text in assignments if not text.startswith("hops=")])
    seen = hashlib.sha256()
    for one in part(own, (hops or [1])[0]):
        seen.update(repr(one).encode())
    return seen.hexdigest()


def _place(hops: int = 1) -> PortContext:
    return PortContext(
        rate_bps=_RATE_BPS, link_rate_bps=10**10, cp_mac=CP_MAC, stations=4, flows=_FLOWS, hops=hops
    )


def _taken(outbox: Outbox) -> list[tuple[Any, ...]]:
    """Return the messages in ``outbox``, and empty the outbox."""
    rows: list[tuple[Any, ...]] = np.asarray(outbox.messages)[: outbox.posted.count].tolist()
    outbox.posted.count = 0
    return rows


def _port(own: Machine, hops: int) -> Iterator[Any]:
    """Yield a congestion point's responses to arrivals while its queues pass all thresholds, and back."""
    point, outbox = own.congestion_point(_place(), np.random.default_rng(1)), new_outbox(64)
    for step in range(8 * len(QLENS_OCTETS)):
        now_ns, qlen_octets = step * _STEP_NS, QLENS_OCTETS[step // 8]
        qlens_octets = np.zeros(8, np.int64)
        qlens_octets[list(_PRIORITIES)] = qlen_octets
        if point.next_timer_ns() <= now_ns:
            point.on_timer(now_ns, qlens_octets, outbox)
        for station, priority in enumerate(_PRIORITIES):
            tagged = step % 2 == 1
            tag = CPIDS[priority]
            if isinstance(own.tag, ECNField):
                tag = ECT0
            arrival = Arrival(
                now_ns=now_ns, station=station, flow=0, priority=priority, octets=6_000, sampled=True,
                answerable=True, enqueued=step % 5 > 0, tagged=tagged,
                tag=tag if tagged else NO_CPID, mark=step, qlen_octets=qlen_octets,
                port_octets=2 * qlen_octets,
            )  # fmt: skip
            point.on_arrival(arrival, outbox)
            messages = _taken(outbox)
            yield messages
            if isinstance(own.tag, ECNField):
                yield point.rewrite_tag(priority, tag)
            if own.isolation:
                yield [point.select_queue(arrival._replace(flow=flow), 0, outbox) for flow in (0, 1)]
                yield _taken(outbox)
            if own.name == "csig":
                # Each signal, with what says least of the path.
                yield [point.rewrite_tag(priority, n << 12 | (31 if n < 2 else 0) << 7) for n in range(4)]
            if step % 8 == 1:
                octets = octets_of(Sent(now_ns, station + 1, priority=priority))
                yield _frames(own, messages, SampledFrame(octets, len(octets), _AT_MSDU))
        yield point.rewrite_tag(3, 10**7)
        point.on_dequeue(now_ns, 0, 3, 1_500, qlen_octets, outbox)
        yield _taken(outbox)
    yield own.counters(point)


def _frames(own: Machine, messages: list[tuple[Any, ...]], about: SampledFrame) -> list[bytes]:
    """Return the messages that are sent as frames."""
    records = new_records(Message, len(messages))
    np.asarray(records)[:] = messages
    return [octets_of_message(own, one, about, _place()) for one in records if one.sent]


def _reactions(own: Machine, hops: int) -> Iterator[Any]:
    """Yield the states of reaction points that get every kind of message: bad news, good news, stops."""
    senders, outbox = own.senders(_place(hops), np.random.default_rng(1)), new_outbox(64)
    waiting: dict[tuple[int, int], Departure] = {}
    for step in range(100):
        now_ns = step * _STEP_NS
        for station in (0, 1):
            while senders.next_station_timer_ns(station) <= now_ns:
                senders.on_station_timer(station, senders.next_station_timer_ns(station))
            for flow, priority in enumerate(_PRIORITIES):
                limiter = senders.route(station, flow, priority, now_ns)
                is_ip = isinstance(own.tag, ECNField)
                frame = Departure(now_ns, station, limiter, flow, priority, 1_500, is_ip, NO_CPID, 0)
                if limiter == NO_LIMITER:
                    yield tuple(senders.on_transmit(frame, outbox)), _taken(outbox)
                elif (station, limiter) not in waiting:
                    senders.on_enqueue(station, limiter)
                    waiting[station, limiter] = frame
            for key in [key for key in waiting if key[0] == station]:
                leaves_ns = senders.next_tx_ns(*key, now_ns)
                yield leaves_ns
                if leaves_ns <= now_ns:
                    frame = waiting.pop(key)._replace(now_ns=now_ns)
                    yield tuple(senders.on_transmit(frame, outbox)), _taken(outbox)
            for message in _messages(own, step, station):
                senders.on_message(message, now_ns)
            yield _state(senders, station)
        yield own.counters(senders)


def _state(senders: Senders, station: int) -> Any:
    limiters = range(min(senders.limiters(), 100))
    # In whole bit/s and ns: what rounding alone changes is no effect.
    rates_bps = [round(senders.limit_bps(station, limiter)) for limiter in limiters]
    averages_ns = [round(senders.rtt_average_ns(station, limiter)) for limiter in limiters]
    return rates_bps, averages_ns, senders.next_station_timer_ns(station)


def _messages(own: Machine, step: int, station: int) -> Iterator[Message]:
    """Yield the messages of a step: a congestion point's, and an answer of a destination."""
    flow = step % 2
    priority = _PRIORITIES[flow]
    for kind, name in own.kinds.items():
        stop = "ZERO" in name or "STOP" in name or "(0,0)" in name
        phase = step % 80
        if kind == PROBE_KIND or (stop and phase != 70) or (not stop and phase == 70):
            continue
        worse = phase < 20 or ("MAX" in name.upper() and phase < 24)
        if not worse and "MAX" in name.upper():
            continue
        size = 1 + step % 20
        fields = {
            "cpid": CPIDS[priority],
            "qntz_fb": size if worse else 0,
            # For a link of 1 Gb/s, a value that differs from BCN's value for Ru.
            "capacity": 10**6,
            "timestamp": step // 2,
            "tagged": step % 3 > 0,
            "rlq_id": flow,
            "latency": 5_000 + step % 13 * 4_000,
            "throughput": 2 * 10**6,
            "enable_vector": 1 << priority,
            "quanta": 500 if step % 5 else 0,
            "kind": kind,
            "sent": 1,
            "station": station,
            "flow": flow,
            "priority": priority,
            "rate_kbps": 10**6 * (1 + step % 7),
        }
        if not stop:
            fields["q_off"], fields["q_delta"] = (8 * size, size) if worse else (-size, -2)
            fields["e"] = -4 * size if worse else size
        (message,) = messages_of([fields], own.payloads)
        yield message


def _loop(own: Machine, hops: int) -> Iterator[Any]:
    """Yield the results of the closed loop, its messages as frames too."""
    loop = run(TRAFFIC, own, rate_bps=_RATE_BPS, buffer_octets=150_000, delay_ns=_DELAY_NS, hops=hops)
    yield loop.passages.tolist()
    yield loop.messages.tolist()
    yield loop.stations.counters, loop.stations.rtt_average_ns
    names = loop.messages.dtype.names or ()
    for row in loop.messages[(loop.messages["sent"] == 1) & (loop.messages["cause"] != NO_CAUSE)][
        :40
    ].tolist():
        octets = octets_of(TRAFFIC[row[names.index("cause")]])
        yield _frames(own, [row], SampledFrame(octets, len(octets), _AT_MSDU))


def _open(own: Machine, hops: int) -> Iterator[Any]:
    """Yield a port's messages in an open loop, where frames have no tags."""
    port = PortConfig(rate_bps=_RATE_BPS, buffer_octets=150_000, cp_mac=CP_MAC)
    for replayed in OpenLoopReplay(batches_of(TRAFFIC), machine=own, port=port, seed=1):
        yield replayed.messages.tolist()


def _edge(own: Machine, hops: int) -> Iterator[Any]:
    """Yield the frames that the edge beside a receiver sends."""
    clock = Clock()
    edge = Edge(own, link_rate_bps=10**9, mac=BACKBONE_EDGE, seed=1, start_ns=START_NS, send=clock.send)
    tag = TAGS.get(own.name, "")
    heads = [f"8100 {priority << 13 | 5:04x} {tag}" for priority in (0, 3, 5)]
    for step in range(4):
        clock.now_ns = START_NS + step * 300_000
        edge.take(
            Batch.from_frames([frame(n + 1, 250, 200, head=h) for n, h in enumerate(heads)]),
            NET,
            clock.now_ns,
        )
        edge.take(Batch.from_frames([frame(250, 1, 200, head=head) for head in heads]), TO_HOST, clock.now_ns)
        if isinstance(own.tag, ECNField):
            edge.take(Batch.from_frames(MARKED), NET, clock.now_ns)
        clock.pass_until(edge, clock.now_ns + 100_000)
    if own.name == "qcn":
        # A CNM for a customer behind a backbone's edge, which is this one.
        edge.take(Batch.from_frames([backbone_cnm(i_tagged())]), NET, clock.now_ns)
    yield [(left.interface, left.octets) for left in clock.left]


PARTS = {
    Role.CONGESTION_POINT: (_port, _open, _loop),
    Role.REACTION_POINT: (_reactions, _loop),
    Role.EDGE: (_edge, _loop),
}
"""The runs, the quickest first."""


def candidates(parameter: Parameter) -> Iterator[str]:
    """Yield values of ``parameter`` as texts."""
    yield from VALUES.get(parameter.name, ())
    default, unit = parameter.default, UNITS[parameter.unit]
    if parameter.unit == "flag":
        yield unit.format(not default)
    elif parameter.choices:
        yield from parameter.choices
    elif parameter.minimum is not None and parameter.maximum is not None:
        known = default if isinstance(default, int | float) else parameter.maximum / 16
        for value in (parameter.minimum, known * 4, known / 4, known / 2 + 1, parameter.maximum, known + 1):
            value = min(parameter.maximum, max(parameter.minimum, value))
            if parameter.step:
                value -= value % parameter.step
            suffix = {"octets": "B", "ns": "ns", "bit/s": "bps"}.get(parameter.unit, "")
            yield f"{int(value)}{suffix}" if int in unit.types and float not in unit.types else f"{value}"


def effect(name: str, role: Role, parameter: Parameter) -> str | None:
    """Return a value of a parameter that changes the results of its mechanism, or None if no value does."""
    base = (*BUSIER.get(name, BUSY[name]), *WITH.get((name, parameter.name), WITH.get(parameter.name, ())))
    for part in PARTS[role]:
        before = digest(part, name, base)
        for text in candidates(parameter):
            try:
                if digest(part, name, (*base, f"{role.value}.{parameter.name}={text}")) != before:
                    return text
            except ParameterError:
                continue
    return None


def effects(name: str) -> dict[str, str | None]:
    """Return for each parameter of a mechanism the value that had an effect."""
    return {
        f"{role.value}.{parameter.name}": effect(name, role, parameter)
        for role, part in find_mechanism(name).roles.items()
        for parameter in part.describe()
    }


if __name__ == "__main__":
    print(json.dumps(effects(sys.argv[1])))
