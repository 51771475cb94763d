"""A run of a small experiment with figures that are easy to calculate, without a simulation."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from ecmproto.control.engine.config import Buffer
from ecmproto.control.lab.model import (
    Band,
    Control,
    Experiment,
    Flow,
    Host,
    Link,
    Measure,
    Network,
    Pattern,
    Published,
    Switch,
)
from ecmproto.control.lab.simulation.series import (
    Completions,
    Conservation,
    FlowControlEvents,
    FlowSeries,
    Levels,
    MessageSeries,
    PortSeries,
    Progress,
    RunResult,
    Watch,
)

WINDOWS = 100
WINDOW_NS = 1_000_000
MS = 1_000_000
R_BPS = 5 * 10**9


def experiment(**changes: Any) -> Experiment:
    """Two hosts that send 5 Gb/s each through one switch to a third, for 100 ms; measured from 50 ms on."""
    given = Experiment(
        name="two-to-one",
        title="two senders, one receiver",
        source="S000, Fig. 0",
        duration_ns=WINDOWS * WINDOW_NS,
        network=Network(
            hosts=(Host(name="a"), Host(name="b"), Host(name="d")),
            switches=(Switch(name="s", buffer=Buffer(150_000, 0), delay_ns=1_000),),
            links=(Link(a="a", b="s"), Link(a="b", b="s"), Link(a="s", b="d")),
        ),
        flows=tuple(
            Flow(
                name=f"r{n}",
                source=source,
                destination="d",
                pattern=Pattern.CBR,
                rate_bps=R_BPS,
                group="bulk",
            )
            for n, source in enumerate("ab", 1)
        ),
        control=Control(mechanism="qcn"),
        measure=Measure(
            from_ns=50 * MS,
            bands=(Band(figure="queue.mean", low=20_000.0, high=30_000.0, source="p. 1"),),
            published=(Published(figure="rate(r1..r2)", value="4.9 5.1 Gb/s", source="Table 0"),),
        ),
    )
    return replace(given, **changes)


def simulate(given: Experiment, *, seed: int, watch: Watch | None = None, **_: object) -> RunResult:
    """Return a synthetic run with the same arguments as `run_result`.

    The first port is fuller for a larger seed.

    Every flow that starts in the first half has the same rate. ``watch`` is called ten times, and ``trace``
    is never called.
    """
    steps = 10
    for step in range(1, steps + 1):
        now_ns = step * given.duration_ns // steps
        progress = Progress(
            now_ns=now_ns,
            duration_ns=given.duration_ns,
            events=1000 * step,
            frames=100 * step,
            elapsed_s=step,
        )
        if watch is not None and not watch(progress):
            break
    window_ns = given.duration_ns // WINDOWS
    whole = run_result(seed, settled_octets=20_000 + 1000 * (seed % 10))
    reached = WINDOWS * step // steps
    switches = {switch.name for switch in given.network.switches}
    ends = [each for link in given.network.links for each in ((link.a, link.b), (link.b, link.a))]
    ports = tuple(_port(whole, a, b, reached, a in switches) for a, b in ends)
    flows = tuple(
        _cut(
            replace(
                whole.flows[place % 2],
                name=flow.name,
                group=flow.group or flow.name,
                source=flow.source,
                destination=flow.destination,
                path=(ports[-1].name,),
            ),
            reached,
        )
        for place, flow in enumerate(given.flows)
    )
    return replace(
        whole,
        experiment=given,
        duration_ns=window_ns * reached,
        window_ns=window_ns,
        ports=ports,
        flows=flows,
        messages=tuple(_cut(each, reached) for each in whole.messages),
    )


def _port(whole: RunResult, a: str, b: str, windows: int, switch: bool) -> PortSeries:
    return _cut(replace(whole.ports[1 if switch else 0], name=f"{a}>{b}"), windows)


S = TypeVar("S", PortSeries, FlowSeries, MessageSeries)


def _cut(series: S, windows: int) -> S:
    """Return the first windows of a series."""
    arrays = {
        each.name: getattr(series, each.name)[:windows]
        for each in fields(series)
        if isinstance(getattr(series, each.name), np.ndarray)
    }
    cut: S = replace(series, **arrays)
    return cut


def run_result(seed: int = 1, *, settled_octets: int = 24_000, **changes: Any) -> RunResult:
    """A queue that falls from 100 kB to ``settled_octets`` at 20 ms.

    r2 begins at 10 ms; host a is paused for 2 ms.
    """
    queue = np.full(WINDOWS, float(settled_octets))
    queue[:20] = 100_000.0
    level = queue.astype(np.int64)
    each = np.full(WINDOWS, 625_000, np.int64)
    late = each.copy()
    late[:10] = 0
    sent = each + late
    paused = np.zeros(WINDOWS, np.int64)
    paused[60:62] = MS
    drops = np.zeros(WINDOWS, np.int64)
    drops[5] = 7
    nothing = np.zeros(WINDOWS, np.int64)
    result = RunResult(
        experiment=experiment(),
        seed=seed,
        duration_ns=WINDOWS * WINDOW_NS,
        window_ns=WINDOW_NS,
        ports=(
            PortSeries(
                name="a>s",
                kind="host",
                octet_ns=np.full(WINDOWS, 1e6 * 900_000),
                peak_octets=level + 900_000,
                level_octets=level,
                sent_frames=each // 1500,
                sent_octets=each,
                line_octets=each.astype(np.float64),
                lost_messages=nothing,
                dropped_frames=nothing,
                dropped_octets=nothing,
                paused_ns=paused,
                xoff_frames=paused // MS,
                xon_frames=nothing,
                service_bps=np.full(WINDOWS, 1e10),
            ),
            PortSeries(
                name="s>d",
                kind="switch",
                buffer_octets=150_000,
                set_point_octets=26_000,
                xoff_octets=140_000,
                greatest_input_octets=110_000,
                octet_ns=queue * WINDOW_NS,
                peak_octets=level + 10_000,
                level_octets=level,
                sent_frames=sent // 1500,
                sent_octets=sent,
                line_octets=sent.astype(np.float64),
                lost_messages=drops,
                dropped_frames=drops,
                dropped_octets=1500 * drops,
                paused_ns=nothing,
                xoff_frames=nothing,
                xon_frames=nothing,
                service_bps=np.full(WINDOWS, 1e10),
                levels=Levels(
                    octets=np.array([settled_octets - 3000, settled_octets, settled_octets + 10_000]),
                    level_ns=np.array([10 * MS, 39 * MS, MS]),
                ),
            ),
        ),
        flows=tuple(
            FlowSeries(
                name=name,
                group="bulk",
                source=source,
                destination="d",
                path=(f"{source}>s", "s>d"),
                offered_frames=octets // 1500,
                offered_octets=octets,
                sent_frames=octets // 1500,
                sent_octets=octets,
                delivered_frames=octets // 1500,
                delivered_octets=octets,
                dropped_frames=drops if name == "r1" else nothing,
                dropped_octets=nothing,
                held_out_frames=nothing,
                held_out_octets=nothing,
                delay_ns=(octets // 1500 * 20_000).astype(np.float64),
                delay_max_ns=np.full(WINDOWS, 30_000, np.int64),
                limit_bps=np.where(np.arange(WINDOWS) < 20, np.nan, 5e9),
                completed=np.ones(WINDOWS, np.int64) if name == "r2" else nothing,
                completion_ns=np.full(WINDOWS, 40_000.0 if name == "r2" else 0.0),
            )
            for name, source, octets in (("r1", "a", each), ("r2", "b", late))
        ),
        messages=(
            MessageSeries(
                port="s>d",
                kind="CNM",
                frames=np.full(WINDOWS, 2, np.int64),
                octets=np.full(WINDOWS, 2 * 64, np.int64),
            ),
        ),
        flow_control=FlowControlEvents(
            time_ns=np.array([60 * MS, 61 * MS, 62 * MS]),
            port=np.zeros(3, np.int64),
            priority=np.full(3, -1),
            stops=np.array([True, True, False]),
        ),
        completions=Completions(
            flow=np.ones(WINDOWS, np.int64),
            start_ns=np.arange(WINDOWS) * MS + 10_000,
            end_ns=np.arange(WINDOWS) * MS + 10_000 + np.where(np.arange(WINDOWS) == 99, 80_000, 40_000),
            octets=np.full(WINDOWS, 10_000),
        ),
        conservation=Conservation(
            sent_frames=80_000, received_frames=79_900, dropped_frames=7, in_flight_frames=93
        ),
        events=1_000_000,
        elapsed_s=0.5,
    )
    return replace(result, **changes)
