"""Drawings for each mechanism: the states of its machines, and the response of its port to a queue length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from docs.site.machines import LINK_BPS, PRIORITY, Loop, Subject, machine_with, place_of
from ecmproto.control.mechanisms.aimd import reaction_point as aimd
from ecmproto.control.mechanisms.api.protocol import (
    SILENT,
    Arrival,
    Departure,
    Message,
    fields_of,
    messages_of,
    new_outbox,
)
from ecmproto.control.mechanisms.csig.machine import bucket
from ecmproto.control.mechanisms.dcqcn import reaction_point as dcqcn
from ecmproto.control.mechanisms.dcqcn.congestion_point import marks
from ecmproto.control.mechanisms.fecn.congestion_point import queue_control
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.gate import opens_ns
from ecmproto.control.mechanisms.qcn import reaction_point as qcn
from ecmproto.control.mechanisms.qcn.congestion_point import CNM_KIND
from ecmproto.wire.formats.csig import AVAILABLE, DELAY, DEPTH, SHARE

QCN_STATES = ("no limiter", "fast recovery", "active increase", "hyper-active increase")
DCQCN_STATES = ("no CNP yet", "fast recovery", "additive increase", "hyper increase", "line rate")
AIMD_STATES = ("no limiter", "limiting", "silent")
E2CM_STATES = ("no limiter", "limiting, probed", "limiting", "silent")
SOURCE_STATES = ("unused", "at C/N0", "at the returned rate")


def _qcn(loop: Loop, before: str, changed: frozenset[str]) -> str:
    limiter = loop.senders.slots[0]
    if not limiter.active:
        return QCN_STATES[0]
    return QCN_STATES[1 + qcn.phase(loop.senders.settings, limiter)]


def _dcqcn(loop: Loop, before: str, changed: frozenset[str]) -> str:
    limiter = loop.senders.slots[0]
    if not limiter.active:
        return DCQCN_STATES[0]
    if limiter.timer_ns == NEVER_NS:
        return DCQCN_STATES[4]
    return DCQCN_STATES[1 + dcqcn.phase(loop.senders.settings, limiter)]


def _aimd(loop: Loop, before: str, changed: frozenset[str]) -> str:
    names = {aimd.FREE: "no limiter", aimd.ACTIVE: "limiting", aimd.TIMED_OUT: "silent"}
    return names[int(loop.senders.slots[0].status)]


def _e2cm(loop: Loop, before: str, changed: frozenset[str]) -> str:
    state = _aimd(loop, before, changed)
    return E2CM_STATES[1] if state == "limiting" and loop.senders.probings[0].active else state


def _source(loop: Loop, before: str, changed: frozenset[str]) -> str:
    if "restarts" in changed:
        return SOURCE_STATES[1]
    return SOURCE_STATES[2] if "returns" in changed else before


def _reports(loop: Loop, before: str, changed: frozenset[str]) -> str:
    return "no source active" if loop.receivers.destination.timer_ns == NEVER_NS else "reporting"


def _notifies(loop: Loop, before: str, changed: frozenset[str]) -> str:
    held = loop.now_ns - int(loop.receivers.sent_ns[0]) < loop.receivers.interval_ns
    return "within the interval" if held else "ready"


def _port(loop: Loop, before: str, changed: frozenset[str]) -> str:
    number = PRIORITY if loop.point.by_priority else 0
    return "stopped" if loop.point.links[0].demands[number] else "open"


def _station(loop: Loop, before: str, changed: frozenset[str]) -> str:
    return "paused" if opens_ns(loop.gates, 0, PRIORITY, loop.now_ns) > loop.now_ns else "sending"


def _flow_control(name: str) -> tuple[Subject, ...]:
    marks = ("cp.high=300kB", "cp.low=150kB")
    return (
        Subject(name, "point", "The port that pauses", ("open", "stopped"), _port, marks, 0.3),
        Subject(name, "gates", "The station that is paused", ("sending", "paused"), _station, marks, 0.3),
    )


_RP = "Reaction point"
_QUICK = ("cp.qsc=80kB", "cp.sf=40kB", "cp.sr=10kB", "rp.td=200us", "rp.rd=100Mb/s")
"""Parameters with which a rate limiter reaches all its states in milliseconds."""
_PAPER = ("rp.variant=paper", "rp.byte_counter=60kB", "rp.f=2", "rp.timer=200us", "rp.alpha_interval=1ms")
_NIC = ("rp.variant=nic", "rp.decrease_interval=50us", "rp.alpha_interval=1ms", "rp.f=3")

SUBJECTS: dict[str, tuple[Subject, ...]] = {
    "qcn": (
        Subject(
            "qcn",
            "senders",
            _RP,
            QCN_STATES,
            _qcn,
            ("rp.byte_reset=60kB", "rp.time_reset=300us", "rp.threshold=2", "rp.ai_rate=100Mb/s"),
        ),
    ),
    "ecm": (Subject("ecm", "senders", _RP, AIMD_STATES, _aimd, _QUICK),),
    "bcn": (Subject("bcn", "senders", _RP, AIMD_STATES, _aimd, _QUICK),),
    "e2cm": (
        Subject(
            "e2cm",
            "senders",
            _RP,
            E2CM_STATES,
            _e2cm,
            ("cp.qmc=0", "cp.qsc=120kB", "rp.td=200us", "rp.rd=100Mb/s"),
        ),
    ),
    "fecn": (Subject("fecn", "senders", "Source", SOURCE_STATES, _source),),
    "dbp": (
        Subject("dbp", "senders", "Source", SOURCE_STATES, _source),
        Subject("dbp", "receivers", "Destination", ("no source active", "reporting"), _reports),
    ),
    "dcqcn": (
        Subject("dcqcn", "senders", "Reaction point, variant paper", DCQCN_STATES, _dcqcn, _PAPER),
        Subject(
            "dcqcn", "receivers", "Notification point", ("ready", "within the interval"), _notifies, _PAPER
        ),
        Subject("dcqcn", "senders", "Reaction point, variant nic", DCQCN_STATES, _dcqcn, _NIC),
    ),
    "ecn": (),
    "hpcc": (),
    "swift": (),
    "isolation": (),
    "csig": (),
    "pause": _flow_control("pause"),
    "pfc": _flow_control("pfc"),
    "none": (),
}
"""The machines with states by mechanism; a mechanism without machines keeps no state for a flow."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve of a chart, whose points are connected."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves with common axes, and a table below the curves."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def charts_of(mechanism: str) -> tuple[Chart, ...]:
    """Return the charts of a mechanism's congestion point and of a source that receives its messages."""
    return tuple(make() for make in CHARTS.get(mechanism, ()))


_STEP_OCTETS = 2_000
_LONGEST_OCTETS = 200_000


def _sampled(point: Any, qlen_octets: int, *, tagged: bool, tag: int) -> Message:
    """Return the message of a congestion point whose queue has had a constant length for a while."""
    outbox = new_outbox(8)
    seen = 0
    for _ in range(2_000):
        outbox.posted.count = 0
        point.on_arrival(
            Arrival(0, 0, 0, PRIORITY, 3_000, True, True, True, tagged, tag, 0, qlen_octets, qlen_octets),
            outbox,
        )
        seen += int(outbox.posted.count)
        if seen > 1 and outbox.posted.count:  # before the first sample, the queue had another length
            return outbox.messages[0]
    raise AssertionError(f"no sample with {qlen_octets} octets in the queue")


def _answers(mechanism: str, label: str, assignments: tuple[str, ...] = ()) -> Chart:
    """Return a chart of the feedback at constant queue lengths, with the type of message for each length."""
    machine = machine_with(mechanism, assignments)
    point: Any = machine.congestion_point(place_of(), _generator())
    meters: Any = point.states if hasattr(point, "states") else point.meters
    own_tag = int(meters[PRIORITY].cpid) if mechanism != "qcn" else 1
    curves: list[Curve] = []
    kinds: list[list[str]] = []
    for name, tagged in (("frames without its tag", False), ("frames with its tag", True)):
        points: list[tuple[float, float]] = []
        ranges: list[list[Any]] = []
        for qlen in range(0, _LONGEST_OCTETS + 1, _STEP_OCTETS):
            message = _sampled(point, qlen, tagged=tagged, tag=own_tag)
            kind = machine.kinds.get(int(message.kind), "nothing")
            feedback = 0.0 if message.kind == SILENT else message.fb_octets / 1000
            if machine.histogram_field and message.kind != SILENT:
                feedback = float(_payload(machine, message, machine.histogram_field))
            points.append((qlen / 1000, feedback))
            if not ranges or ranges[-1][0] != kind:
                ranges.append([kind, qlen, qlen])
            ranges[-1][2] = qlen
        curves.append(Curve(name, tuple(points)))
        kinds.append([f"{kind} ({first // 1000} to {last // 1000} kB)" for kind, first, last in ranges])
    if curves[0].points == curves[1].points:
        curves, kinds = [Curve("", curves[0].points)], kinds[:1]
    rows = tuple(
        (curve.label or "any frame", ", ".join(each)) for curve, each in zip(curves, kinds, strict=True)
    )
    title = "Feedback of a sample at a constant queue length"
    return Chart(title, "queue, kB", label, tuple(curves), ("sampled", "message"), rows)


def _payload(machine: Any, message: Any, name: str) -> int:
    return int(fields_of(message, machine.payloads)[name])


def _generator() -> Any:
    return np.random.default_rng(1)


class _Drawn:
    """A random number generator that always returns the same number."""

    def __init__(self, number: float) -> None:
        self._number = number

    def random(self) -> float:
        return self._number


def _marking() -> Chart:
    point: Any = machine_with("dcqcn").congestion_point(place_of(), _generator())

    def probability(qlen_octets: int) -> float:
        """Return the marking probability at a queue length."""
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            drawn: Any = _Drawn(middle)
            low, high = (middle, high) if marks(point.settings, drawn, qlen_octets) else (low, middle)
        return round(high, 4)

    points = tuple((qlen / 1000, probability(qlen)) for qlen in range(0, _LONGEST_OCTETS + 1, 500))
    return Chart("Probability that an ECT frame is marked", "queue, kB", "probability", (Curve("", points),))


def _control() -> Chart:
    point: Any = machine_with("fecn").congestion_point(place_of(), _generator())
    points = tuple((qlen / 1000, queue_control(point.settings, qlen)) for qlen in range(0, 150_001, 1_000))
    title = "f(q), the divisor of the measured load"
    return Chart(title, "queue, kB", "f", (Curve("", points),))


def _signals() -> Chart:
    point: Any = machine_with("csig").congestion_point(place_of(), _generator())
    curves = []
    for label, signal, name in (
        ("available share", SHARE, "available_bps"),
        ("available bandwidth", AVAILABLE, "available_bps"),
        ("depth of the queue", DEPTH, "qlen_octets"),
        ("delay", DELAY, "port_octets"),
    ):
        values = []
        for percent in range(101):
            share = percent / 100
            setattr(
                point.state, name, share * LINK_BPS if name == "available_bps" else int(share * 1_000_000)
            )
            values.append((float(percent), float(bucket(point.state, point.settings, signal))))
        curves.append(Curve(label, tuple(values)))
    title = "The value that a port writes if it is worse than the tag's"
    x = "available share of the line, or share of a queue of 1 MB, in %"
    distinct = {curve.points: curve for curve in reversed(curves)}
    return Chart(title, x, "signal, 0 to 31", tuple(reversed(distinct.values())))


_RECOVERY_NS = 4_000_000
_LONG_FRAME_OCTETS = 9_000


def _recovery(
    mechanism: str, variants: Sequence[tuple[str, tuple[str, ...]]], kind: int, fields: dict[str, int]
) -> Chart:
    """Return a chart of the rate of a source after a single message."""
    curves = []
    for label, assignments in variants:
        machine = machine_with(mechanism, assignments)
        senders: Any = machine.senders(place_of(), _generator())
        outbox = new_outbox(8)
        (message,) = messages_of([{"kind": kind, "priority": PRIORITY, **fields}], machine.payloads)
        senders.on_message(message, 0)
        points, now_ns = [(-0.2, LINK_BPS / 1e9), (0.0, LINK_BPS / 1e9)], 0
        while now_ns < _RECOVERY_NS:
            limiter = senders.route(0, 0, PRIORITY, now_ns)
            if limiter < 0:
                points.append((now_ns / 1e6, LINK_BPS / 1e9))
                break
            points.append((now_ns / 1e6, senders.limit_bps(0, limiter) / 1e9))
            senders.on_enqueue(0, limiter)
            while (leaves_ns := int(senders.next_tx_ns(0, limiter, now_ns))) > now_ns:
                now_ns = int(min(leaves_ns, senders.next_station_timer_ns(0)))
                senders.on_station_timer(0, now_ns)
            departure = Departure(now_ns, 0, limiter, 0, PRIORITY, _LONG_FRAME_OCTETS, False, 0, 0)
            senders.on_transmit(departure, outbox)
            now_ns += 1
        points.append((max(now_ns, _RECOVERY_NS) / 1e6, points[-1][1]))
        curves.append(Curve(label, _thinned(points)))
    title = "Rate of a source after a single message"
    return Chart(title, "ms since the message", "Gb/s", tuple(curves))


def _thinned(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the points at which the value changes, so that the curve has steps."""
    kept = [points[0]]
    for before, point in pairwise(points):
        if point[1] != before[1]:
            kept += [(point[0], before[1]), point]
    return (*kept, points[-1])


CHARTS: dict[str, tuple[Callable[[], Chart], ...]] = {
    "qcn": (
        lambda: _answers("qcn", "QntzFb"),
        lambda: _recovery(
            "qcn",
            (("variant pseudocode", ()), ("variant standard", ("rp.variant=standard",))),
            CNM_KIND,
            {"qntz_fb": 63},
        ),
    ),
    "ecm": (lambda: _answers("ecm", "Fb, kB", ("cp.qmc=100kB", "cp.qsc=150kB")),),
    "bcn": (lambda: _answers("bcn", "e, kB", ("cp.qsc=150kB",)),),
    "e2cm": (lambda: _answers("e2cm", "Fb, kB"),),
    "fecn": (_control,),
    "dbp": (),
    "dcqcn": (
        _marking,
        lambda: _recovery(
            "dcqcn",
            (("variant paper", ("rp.variant=paper",)), ("variant nic", ("rp.variant=nic",))),
            1,
            {},
        ),
    ),
    "ecn": (_marking,),
    "csig": (_signals,),
}
"""Functions that create the charts of each mechanism."""
