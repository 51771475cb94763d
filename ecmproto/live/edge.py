"""The edge of a domain: a bridge in the wire before a receiver, driven by its caller's clock.

What comes from the network goes to the host without the mechanism's tags, probes and tags are answered, and
what the mechanism's domain asks of its edge is done (`ecmproto.mechanisms.api.machine.DomainEdge`).  Frames
that need no more than their tag taken out go from interface to interface in compiled code (`pass_on`).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.classes import FrameClasses, class_of, classify
from ecmproto.batch.flows import FlowTable
from ecmproto.batch.headers import roles_of
from ecmproto.batch.tags import TagLayout, tag_layout, tag_offsets
from ecmproto.capture.batch import Batch
from ecmproto.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    NOT_SENT,
    TIME_CAME,
    WOKEN,
    Sockets,
    Wires,
    has_frames,
    is_served,
    monotonic_ns,
    receive,
    send,
    sleep,
)
from ecmproto.codec import EtherTypes
from ecmproto.engine.arrivals import Arrivals, Intake, Taken
from ecmproto.engine.config import check_seed
from ecmproto.engine.frames import octets_of
from ecmproto.engine.statistics import kind_name
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.kernel import compiled, inlined
from ecmproto.live.device import EXAMPLE_FRAME, Send, Snapshot, discard, exercise
from ecmproto.live.tagging import precompile_tagging, with_vlan, without_tags, without_vlan
from ecmproto.mechanisms.api.machine import DomainEdge, Machine, PortContext, SampledFrame
from ecmproto.mechanisms.api.protocol import (
    NO_CAUSE,
    PROBE_KIND,
    Delivery,
    NullReceivers,
    Outbox,
    Receivers,
    has_room,
    new_outbox,
)
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import new_record
from ecmproto.structs import Struct, as_interface

_ROOM = 16
NET, HOST = 0, 1
"""The interfaces: towards the network, and towards the receiver."""
LARGEST_STATIONS = 256
LARGEST_FLOWS = 16
"""Senders, and flows of each, that are told apart and answered."""
_MESSAGES_AT_ONCE = 4096
_SHOWN_OCTETS = 256


class EdgeCounts:
    """Counters of frames at an edge."""

    def __init__(self) -> None:
        self.net_frames = self.host_frames = 0
        self.stripped_frames = 0
        self.probes = 0
        """Answered, not handed on."""
        self.consumed_frames = 0
        """LLDP frames, and CNMs for the backbone's edge."""
        self.unanswered = 0
        """Answers to flows of which no frame was kept."""


class PathFacts:
    """What becomes of frames that need nothing but their tags taken out; a record (``ecmproto.record``)."""

    own: int
    """The edge's address, as a number."""
    net_is_looked_at: int
    host_is_looked_at: int
    """1 where all frames from there are for `Edge.take`."""
    is_domain: int
    """1 where frames that are no data are, too."""
    net_frames: int
    host_frames: int
    stripped_frames: int
    """Counters of what went through without it."""


class Path(Struct):
    """The way of frames that need no Python."""

    facts: PathFacts
    roles: NDArray[np.uint8]
    layout: TagLayout


@compiled
def pass_on(path: Path, wires: Wires, until_ns: int, coalesce_ns: int) -> int:
    """Send on what comes until ``until_ns``, or until the caller is needed; return why.

    That is as in `ecmproto.capture.linux.wires`: ``wires.state`` has the frames that are for the caller, or,
    from ``position`` on, those that found no room on their way to the other interface.
    """
    state = wires.state
    while True:
        now_ns = monotonic_ns(wires)
        if now_ns >= until_ns:
            return TIME_CAME
        if is_served(wires) and sleep(wires, until_ns - now_ns, coalesce_ns):
            return WOKEN
        for interface in range(state.interfaces):
            if not has_frames(wires, interface):
                continue
            if not receive(wires, interface):
                return FAILED
            if state.frames == 0:
                continue
            if not _ready(path, wires):
                return FRAMES_CAME
            state.position = send(
                wires, HOST - interface, state.slots_at, wires.offset, wires.captured, state.frames
            )
            if state.position < state.frames:
                return NOT_SENT


@inlined
def _ready(path: Path, wires: Wires) -> bool:
    """Make the frames that have come ready for the other interface; False if they need the caller."""
    facts, layout, state = path.facts, path.layout, wires.state
    offset, captured = wires.offset, wires.captured
    from_net = state.interface == NET
    if (facts.net_is_looked_at if from_net else facts.host_is_looked_at) != 0:
        return False
    for frame in range(state.frames):
        start, octets = offset[frame], captured[frame]
        if facts.is_domain != 0:
            found = class_of(wires.slots, start, start + octets, path.roles, facts.own)
            if not (found.sampled if from_net else found.occupies):
                return False
        if from_net and tag_offsets(wires.slots, start, octets, path.roles, layout).old_tags > 1:
            return False
    if not from_net:
        facts.host_frames += state.frames
        return True
    facts.net_frames += state.frames
    for frame in range(state.frames):
        start = offset[frame]
        at = tag_offsets(wires.slots, start, captured[frame], path.roles, layout).old_at
        if at >= 0:
            # What is in front of the tag moves over it.
            for octet in range(start + at - 1, start - 1, -1):
                wires.slots[octet + layout.octets] = wires.slots[octet]
            offset[frame] += layout.octets
            captured[frame] -= layout.octets
            facts.stripped_frames += 1
    return True


class Edge:
    """A device with the network at interface NET and the receiver behind interface HOST.

    ``mac`` is the edge's own address: LLDP says it, and CNMs to it are converted (a backbone's edge).
    ``vlan`` is the control information of a C-TAG for frames from the host that have none, taken off frames
    to it.  With QCN and ``edge.cnpv`` set, defence modes decide about tags and priorities; else all tags end
    here.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        link_rate_bps: int,
        mac: bytes,
        seed: int,
        start_ns: int,
        send: Send,
        port: str = "host",
        vlan: int | None = None,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self.counts = EdgeCounts()
        self.messages: dict[str, int] = {}
        self.context = PortContext(
            rate_bps=link_rate_bps,
            link_rate_bps=link_rate_bps,
            cp_mac=mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self.flows = FlowTable(
            machine.flow_key,
            hashed=machine.flow_hash,
            max_stations=LARGEST_STATIONS,
            max_flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self._intake = Intake(
            machine, cp_mac=mac, ethertypes=ethertypes, interfaces=(), flows=self.flows, first_time_ns=0
        )
        self._probe_reader = ProbeReader(machine, self.context)
        self._start_ns = start_ns
        self._send = send
        self._vlan = vlan
        self.receivers = machine.receivers(self.context, np.random.default_rng(seed))
        self._interface = as_interface(self.receivers, Receivers)
        self._outbox = new_outbox(_MESSAGES_AT_ONCE)
        self._examples: dict[int, bytes] = {}
        self.domain = machine.domain_edge(self.context, port)
        self._path = self._new_path()

    def _new_path(self) -> Path:
        ethertypes, domain = self.context.ethertypes, self.domain
        facts = new_record(PathFacts)
        facts.own = int.from_bytes(self.context.cp_mac)
        rewrites = self._vlan is not None or (domain is not None and domain.strips is not None)
        facts.host_is_looked_at = int(rewrites)
        facts.net_is_looked_at = int(rewrites or type(self.receivers) is not NullReceivers)
        facts.is_domain = int(domain is not None)
        layout = tag_layout(self.machine.tag if self.machine.strips_tags else None, ethertypes)
        return Path(facts, roles_of(ethertypes), layout)

    @property
    def due_ns(self) -> int:
        """Return when `advance` is next needed."""
        due_ns = self.receivers.next_report_ns()
        if self.domain is not None:
            due_ns = min(due_ns, self.domain.due_ns)
        return NEVER_NS if due_ns >= NEVER_NS else self._start_ns + due_ns

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Take the frames that have come in at ``interface`` by ``now_ns``; times never decrease."""
        time_ns = now_ns - self._start_ns
        if interface == NET:
            self._from_net(batch, time_ns)
        else:
            self._from_host(batch, time_ns)

    def advance(self, now_ns: int) -> None:
        """Do everything that is due by ``now_ns``."""
        time_ns = now_ns - self._start_ns
        while self.receivers.next_report_ns() <= time_ns:
            report(self._interface, time_ns, self._outbox)
            self._answer()
        if self.domain is not None and self.domain.due_ns <= time_ns:
            said = self.domain.on_timer(time_ns)
            if said is not None:
                self._send_one(HOST, said)
                self._send_one(NET, said)

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until something else wakes it.

        It returns before that when ``sockets.wires.state.error`` says that receiving failed.
        """
        wires, state = sockets.wires, sockets.wires.state
        state.error = 0
        while True:
            why = pass_on(self._path, wires, min(until_ns, self.due_ns), coalesce_ns)
            if why in (WOKEN, FAILED):
                return
            now_ns = time.monotonic_ns()
            if why == TIME_CAME:
                if now_ns >= until_ns:
                    return
                self.advance(now_ns)
                continue
            batch, interface = sockets.received(), int(state.interface)
            if why == FRAMES_CAME:
                self.take(batch, interface, now_ns)
            else:
                left = slice(int(state.position), None)
                self._send(HOST - interface, batch.buffer, batch.offset[left], batch.captured[left])
            if self.due_ns <= now_ns:
                self.advance(now_ns)

    def _from_net(self, batch: Batch, time_ns: int) -> None:
        self.counts.net_frames += len(batch)
        kept = np.ones(len(batch), np.bool_)
        if type(self.receivers) is not NullReceivers:
            kept = ~self._delivered(batch, time_ns)
        chosen = None
        if self.domain is not None:
            where = batch.buffer, batch.offset, batch.captured
            classes = classify(*where, ethertypes=self.context.ethertypes)
            if not classes.sampled.all():
                kept &= ~self._own(batch, classes, self.domain)
            if self.domain.strips is not None:
                chosen = np.array(self.domain.strips)[classes.priority][kept]
        rest = batch if kept.all() else batch.select(kept)
        if self.machine.strips_tags:
            rest, count = without_tags(rest, self.machine, self.context.ethertypes, chosen=chosen)
            self.counts.stripped_frames += count
        if self._vlan is not None:
            rest = without_vlan(rest, self._vlan, self.context.ethertypes)
        self._send_all(HOST, rest)

    def _delivered(self, batch: Batch, time_ns: int) -> NDArray[np.bool_]:
        """Deliver the frames to the receivers and send their answers; return which frames are probes."""
        taken = self._intake.take(batch, time_ns=np.full(len(batch), time_ns))
        self._remember(taken)
        arrivals, probe = self._probe_reader.found(taken, self.flows)
        position = 0
        while position < len(batch):
            position = deliver(self._interface, arrivals, probe, self._outbox, position)
            self._answer()
        self.counts.probes += int(probe.sum())
        return probe

    def _from_host(self, batch: Batch, time_ns: int) -> None:
        self.counts.host_frames += len(batch)
        if self._vlan is not None:
            batch = with_vlan(batch, self._vlan, self.context.ethertypes)
        if self.domain is not None:
            batch = self._defended(batch, self.domain, time_ns)
        self._send_all(NET, batch)

    def _defended(self, batch: Batch, domain: DomainEdge, time_ns: int) -> Batch:
        """Return the host's frames as the domain has them, without those that are for the edge itself."""
        classes = classify(batch.buffer, batch.offset, batch.captured, ethertypes=self.context.ethertypes)
        kept = np.ones(len(batch), np.bool_)
        for position in np.flatnonzero(~classes.occupies).tolist():
            kept[position] = not domain.take_from_host(batch.frame(position), time_ns)
        self.counts.consumed_frames += int((~kept).sum())
        ruled = np.array(domain.received)[classes.priority] != classes.priority
        if not (ruled & kept).any():
            return batch.select(kept) if not kept.all() else batch
        return Batch.from_frames([domain.entering(batch.frame(i)) for i in np.flatnonzero(kept).tolist()])

    def _own(self, batch: Batch, classes: FrameClasses, domain: DomainEdge) -> NDArray[np.bool_]:
        """Take the network's frames that are for the edge itself; return which those are."""
        own = np.zeros(len(batch), np.bool_)
        for position in np.flatnonzero(~classes.sampled).tolist():
            own[position], for_host = domain.take_from_net(batch.frame(position))
            if for_host is not None:
                self._send_one(HOST, for_host)
        self.counts.consumed_frames += int(own.sum())
        return own

    def _remember(self, taken: Taken) -> None:
        """Keep the head of the first frame of each flow: answers are made like it."""
        number = self.flows.numbers(taken.arrivals.station, taken.arrivals.flow)
        for position, flow in enumerate(number.tolist()):
            if flow >= 0 and flow not in self._examples:
                self._examples[flow] = taken.batch.frame(position)[:_SHOWN_OCTETS]

    def _answer(self) -> None:
        """Send the messages that destinations have posted."""
        outbox = self._outbox
        if not outbox.posted.count:
            return
        for message in outbox.messages[: outbox.posted.count]:
            if not message.sent:
                continue
            number = self.flows.numbers(np.array([message.station]), np.array([message.flow]))
            octets = self._examples.get(int(number[0]))
            if octets is None:
                self.counts.unanswered += 1
                continue
            about = SampledFrame(octets, len(octets), 0)
            self._send_one(NET, octets_of(self.machine, message, about, self.context))
            kind = kind_name(self.machine, int(message.kind))
            self.messages[kind] = self.messages.get(kind, 0) + 1
        outbox.posted.count = 0

    def _send_one(self, interface: int, octets: bytes) -> None:
        frame = np.frombuffer(octets, np.uint8)
        self._send(interface, frame, np.zeros(1, np.int64), np.array([len(frame)]))

    def _send_all(self, interface: int, batch: Batch) -> None:
        if len(batch):
            self._send(interface, batch.buffer, batch.offset, batch.captured)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return counters and warnings at ``now_ns``."""
        counters = {name: int(value) for name, value in vars(self.counts).items()}
        for name in ("net_frames", "host_frames", "stripped_frames"):
            counters[name] += int(getattr(self._path.facts, name))
        mechanism = self.machine.counters(self.receivers)
        warnings: tuple[str, ...] = ()
        if self.domain is not None:
            counters |= self.domain.counters()
            mechanism |= self.domain.mechanism_counters()
            warnings = self.domain.warnings
        return Snapshot(
            counters=counters, messages=dict(self.messages), mechanism=mechanism, warnings=warnings
        )


@compiled
def deliver(
    receivers: Receivers, arrivals: Arrivals, probe: NDArray[np.bool_], outbox: Outbox, first: int
) -> int:
    """Deliver ``arrivals`` from position ``first`` on; frames without station or flow are nobody's.

    The position of the frame that caused an answer is in the message's ``cause``.  Returns the position of
    the first that was not delivered: it stops early when ``outbox`` has no more room.
    """
    times_ns, octets, priorities = arrivals.time_ns, arrivals.octets, arrivals.priority
    tagged, tags, marks = arrivals.tagged, arrivals.tag, arrivals.mark
    stations, flows = arrivals.station, arrivals.flow
    for position in range(first, len(times_ns)):
        if not has_room(outbox, _ROOM):
            return position
        if stations[position] < 0 or flows[position] < 0:
            continue
        outbox.posted.cause = position
        delivery = Delivery(
            times_ns[position], int(stations[position]), int(flows[position]), int(priorities[position]),
            octets[position], probe[position], tagged[position], tags[position], marks[position],
        )  # fmt: skip
        receivers.on_delivery(delivery, outbox)
        outbox.posted.cause = NO_CAUSE
    return len(times_ns)


@compiled
def report(receivers: Receivers, now_ns: int, outbox: Outbox) -> None:
    """Send the receivers' reports that are due by ``now_ns``, as far as there is room."""
    while receivers.next_report_ns() <= now_ns and has_room(outbox, _ROOM):
        receivers.post_reports(max(receivers.next_report_ns(), 0), outbox)


class ProbeReader:
    """Finds the probes of a mechanism that has some; ``counters`` count those that were refused."""

    def __init__(self, machine: Machine, context: PortContext) -> None:
        self.counters: Any = new_record(machine.probe_refusal_record)
        self._machine = machine
        self._context = context
        self._looks = PROBE_KIND in machine.kinds

    def found(self, taken: Taken, flows: FlowTable) -> tuple[Arrivals, NDArray[np.bool_]]:
        """Return the arrivals of ``taken``, probes with the flow that they measure, and which are probes.

        One of a flow of which nothing came before is nobody's.
        """
        probe = np.zeros(len(taken.batch), np.bool_)
        if not self._looks:
            return taken.arrivals, probe
        arrivals = taken.arrivals
        station, flow, mark = arrivals.station.copy(), arrivals.flow.copy(), arrivals.mark.copy()
        for position in np.flatnonzero(arrivals.occupies & ~arrivals.sampled).tolist():
            octets = taken.batch.frame(position)
            parsed = self._machine.parse_probe(octets, self._context, self.counters)
            if parsed is None:
                continue
            probe[position], mark[position] = True, parsed.mark
            if parsed.about is not None:
                station[position], flow[position] = flows.find(
                    parsed.source,
                    destination=parsed.about.destination,
                    vlan=parsed.about.vlan,
                    priority=parsed.about.priority,
                )
        return arrivals._replace(station=station, flow=flow, mark=mark), probe


def precompile_edge(machine: Machine, ethertypes: EtherTypes) -> None:
    """Compile the code that an edge with ``machine`` runs."""
    edge = Edge(
        machine, link_rate_bps=10**8, mac=EXAMPLE_FRAME[:6], seed=1, start_ns=0, send=discard,
        ethertypes=ethertypes,
    )  # fmt: skip
    exercise(edge)
    edge.serve(Sockets(2, frame_octets=len(EXAMPLE_FRAME)), 0, 0)
    edge.flows.find(EXAMPLE_FRAME[6:12], destination=EXAMPLE_FRAME[:6], priority=0)  # as messages do
    precompile_tagging(machine, ethertypes)
