"""Which parameters of mechanisms change anything, in short runs of plain Python.

``python -m tests.control.parameter_effects MECHANISM`` prints as JSON, for each parameter by role and name,
the value that had an effect, null without one.  Run it with NUMBA_DISABLE_JIT=1: it makes a hundred short
runs, none of which is worth compiling.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ecmproto.capture.batch import Batch
from ecmproto.control.machine import Machine, Place, SampledFrame
from ecmproto.control.mechanism import Role
from ecmproto.control.parameters import UNITS, Parameter
from ecmproto.control.protocol import NO_CAUSE
from ecmproto.control.registry import find_mechanism
from ecmproto.errors import ParameterError
from ecmproto.live.edge import HOST as TO_HOST
from ecmproto.live.edge import NET, Edge
from ecmproto.replay.facts import PortFacts
from ecmproto.replay.generated import octets_of as octets_of_message
from ecmproto.replay.open_loop import replay_open_loop
from tests.control.qcn.test_edge import BACKBONE_EDGE, backbone_cnm, i_tagged
from tests.live.virtual import START_NS, Clock, frame
from tests.replay.loops import BUSY, CP_MAC, Sent, batches_of, machine, octets_of, run
from tests.replay.many_kinds import TAGS

_AT_MSDU = 16
_FLOWS = 12
_RATE_BPS = 5 * 10**9
"""Not what BCN gives Ru for."""
_DELAY_NS = 2_500
"""No whole number of the ticks that time stamps count in."""


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
    "fecn": [*BUSY["fecn"], "cp.qeq=5kB", "cp.qsc=20kB"],
}  # fmt: skip
"""What lets every rule of a mechanism take effect in these runs."""

WITH: dict[Any, list[str]] = {
    "k": ["cp.linear=yes"],
    "c": ["cp.qeq=64B", "cp.a=100"],
    "hops_exponent": ["hops=3"],
    "key_src": ["rp.hash_bits=1"],
    "qst_low": ["cp.qst=60kB"],
    "sscale": ["cp.qmc=20kB"],
    ("bcn", "qmc"): ["cp.sscale=2"],
    "beta": ["rp.gi=100"],
    "b": ["cp.qeq=100kB", "cp.qsc=140kB"],
    "ai_rate": ["rp.threshold=1", "rp.byte_reset=1kB"],
    "hai_rate": ["rp.threshold=1", "rp.byte_reset=1kB", "rp.time_reset=5us", "rp.max_rps=1"],
    "alternate_priority": ["edge.cnpv=3", "edge.mode=4"],
    "mode": ["edge.cnpv=3"],
    "idle": ["rp.idle=1us"],
}
"""What a parameter needs beside it; ``hops`` is how many congestion points a path has."""
VALUES = {
    "qmc": ["20kB"],
    "qst": ["60kB"],
    "mode": ["1", "2", "4"],
    "cnpv": ["5", "3,5"],
    "enabled": ["3", "none"],
    "priorities": ["3", "none"],
    "pause_quanta": ["1000"],
    "td": ["300us"],
    "idle": ["10s"],
    "min_rate": ["4G"],
    "max_rate": ["1G"],
    "ai_rate": ["500M"],
    "hai_rate": ["1G"],
    "b": ["1.5"],
}
"""Values that are tried first."""


@lru_cache
def digest(name: str, assignments: tuple[str, ...]) -> str:
    """Return a hash of all that runs of a mechanism come to."""
    hops = [int(text.partition("=")[2]) for text in assignments if text.startswith("hops=")]
    own = machine(name, *[text for text in assignments if not text.startswith("hops=")])
    seen = hashlib.sha256()
    for part in (*_loop(own, (hops or [1])[0]), *_open(own), *_edge(own)):
        seen.update(repr(part).encode())
    return seen.hexdigest()


def _loop(own: Machine, hops: int) -> Iterator[Any]:
    """Yield what the closed loop comes to, its messages as frames too."""
    loop = run(TRAFFIC, own, rate_bps=_RATE_BPS, buffer_octets=150_000, delay_ns=_DELAY_NS, hops=hops)
    yield loop.passages.tolist()
    yield loop.messages.tolist()
    yield loop.stations.counters, loop.stations.rtt_average_ns
    place = Place(rate_bps=_RATE_BPS, link_rate_bps=10**10, cp_mac=CP_MAC, stations=4, flows=_FLOWS)
    names = loop.messages.dtype.names or ()
    for row in loop.messages[loop.messages["sent"] == 1][:40].tolist():
        message = SimpleNamespace(**dict(zip(names, row, strict=True)))
        if message.cause != NO_CAUSE:
            octets = octets_of(TRAFFIC[message.cause])
            yield octets_of_message(own, message, SampledFrame(octets, len(octets), _AT_MSDU), place)


def _open(own: Machine) -> Iterator[Any]:
    """Yield what a port says in an open loop, where frames have no tags."""
    port = PortFacts(rate_bps=_RATE_BPS, buffer_octets=150_000, cp_mac=CP_MAC)
    for replayed in replay_open_loop(batches_of(TRAFFIC), machine=own, port=port, seed=1):
        yield replayed.messages.tolist()


def _edge(own: Machine) -> Iterator[Any]:
    """Yield what the edge beside a receiver sends."""
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
        clock.pass_until(edge, clock.now_ns + 100_000)
    if own.name == "qcn":
        # A CNM for a customer behind a backbone's edge, which is this one.
        edge.take(Batch.from_frames([backbone_cnm(i_tagged())]), NET, clock.now_ns)
    yield [(left.place, left.octets) for left in clock.left]


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
    """Return a value of a parameter that changes what its mechanism does; None without one."""
    base = (*BUSIER.get(name, BUSY[name]), *WITH.get((name, parameter.name), WITH.get(parameter.name, ())))
    before = digest(name, base)
    for text in candidates(parameter):
        try:
            if digest(name, (*base, f"{role.value}.{parameter.name}={text}")) != before:
                return text
        except ParameterError:
            continue
    return None


def effects(name: str) -> dict[str, str | None]:
    """Return for each parameter of a mechanism the value that had an effect."""
    return {
        f"{role.value}.{parameter.name}": effect(name, role, parameter)
        for role, part in find_mechanism(name).roles.items()
        for parameter in part.parameters.describe()
    }


if __name__ == "__main__":
    print(json.dumps(effects(sys.argv[1])))
