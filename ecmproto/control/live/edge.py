"""The edge of a domain: a bridge in the wire before a receiver, driven by its caller's clock.

What comes from the network goes to the host without the mechanism's tags, probes and tags are answered, and
what the mechanism's domain asks of its edge is done (`mechanisms.api.machine.DomainEdge`).  Frames
go from interface to interface in compiled code (`step`); Python makes answers, and looks at frames that are
no data where the mechanism or its domain may want them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import flow_table
from ecmproto.control.engine.config import check_seed
from ecmproto.control.engine.frames import octets_of
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.statistics import kind_name
from ecmproto.control.live.device import EXAMPLE_FRAME, TAKEN_AT_ONCE, Send, Snapshot, discard, exercise
from ecmproto.control.live.tagging import (
    Tagging,
    new_tagging,
    put_vlan_on,
    set_priority,
    take_tags_off,
    take_vlan_off,
)
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVENT_MESSAGES,
    NO_CAUSE,
    PROBE_KIND,
    Delivery,
    Outbox,
    Receivers,
    has_room,
    new_outbox,
    takes_deliveries,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.batch.classes import class_of
from ecmproto.frames.batch.flows import FullFlowTable, Numbers, learn_frames, number_frames
from ecmproto.frames.batch.headers import signed
from ecmproto.frames.batch.tags import own_tag
from ecmproto.frames.capture.batch import Batch
from ecmproto.frames.capture.linux.receiver import FRAMES
from ecmproto.frames.capture.linux.wires import (
    FAILED,
    FRAMES_CAME,
    MESSAGES_POSTED,
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
from ecmproto.kernels.kernel import compiled, inlined, released
from ecmproto.kernels.record import new_record
from ecmproto.kernels.structs import Struct, as_interface
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.formats.ethertypes import DEFAULT

NET, HOST = 0, 1
"""The interfaces: towards the network, and towards the receiver."""
LARGEST_STATIONS = 256
LARGEST_FLOWS = 16
"""Senders, and flows of each, that are told apart and answered."""
LARGEST_OCTETS = 2048
"""Of a frame, unless the maker of an edge says otherwise."""
SERVE, TAKE, GO_ON = range(3)
"""What `step` is to do: serve real interfaces, take the frames that are in hand, or carry on with these."""
_MESSAGES_AT_ONCE = 4096
_SHOWN_OCTETS = 256
_GROUP_BIT = 1
_NOWHERE = -1


class EdgeCounts:
    """Counters of frames at an edge; a record (``kernels.record``)."""

    net_frames: int
    host_frames: int
    stripped_frames: int
    probes: int
    """Answered, not handed on."""
    consumed_frames: int
    """LLDP frames, and CNMs for the backbone's edge."""
    unanswered: int
    """Answers to flows of which no frame was kept, or none that can be answered."""
    refused_frames: int
    """Longer than the device takes."""


class EdgeFacts:
    """The constants of an edge, and its time; a record."""

    own: int
    """Its address, as a number."""
    start_ns: int
    now_ns: int
    """When the frames in hand were received, since then."""
    delivers: int
    """1 where there are receivers that frames are delivered to."""
    asks_net: int
    asks_host: int
    """1 where frames from there that are no data are for the caller first."""
    strips: int
    """1 where the mechanism's tags end."""


class EdgeProgress:
    """How far the frames that were received last are done with; a record."""

    passed: int
    """Those before that one are sent on, whatever they are."""
    probe: int
    """The one that is a sender's probe, −1 for none, and its mark."""
    mark: int
    unsent: int
    """Up to before which one they are to be sent next."""


class EdgeState(Struct):
    """The state of an edge.  Tables are by priority."""

    facts: EdgeFacts
    counts: EdgeCounts
    progress: EdgeProgress
    flows: FullFlowTable
    tagging: Tagging
    outbox: Outbox
    strips: NDArray[np.bool_]
    received: NDArray[np.int64]
    """The priority that a frame from the host gets."""
    entered: NDArray[np.int64]
    """Frames from the host since the domain was told of them."""
    priority: NDArray[np.uint8]
    is_data: NDArray[np.bool_]
    """Of each frame in hand that is from the network …"""
    numbered: NDArray[np.bool_]
    station: NDArray[np.int32]
    flow: NDArray[np.int32]
    examples: NDArray[np.uint8]
    example_octets: NDArray[np.int64]
    """The head of the first frame of each flow: answers are made like it."""


@released
def step(
    edge: EdgeState, receivers: Receivers, wires: Wires, task: int, until_ns: int, coalesce_ns: int
) -> int:
    """Do ``task``, or serve until ``until_ns``, as long as the caller is not needed.

    Return why (`capture.linux.wires`), TIME_CAME for what is done.  The caller has to send the
    frames from ``wires.state.position`` to ``progress.unsent`` (NOT_SENT), to send the messages in the
    outbox, or to look at the frame at that position (FRAMES_CAME), and calls again.
    """
    state, facts = wires.state, edge.facts
    if task == TAKE:
        facts.now_ns = until_ns - facts.start_ns
        _begin(edge, wires)
    while True:
        why = _carry_on(edge, receivers, wires)
        if why != TIME_CAME or task != SERVE:
            return why
        now_ns = monotonic_ns(wires)
        if now_ns >= until_ns:
            return TIME_CAME
        if is_served(wires):
            report_ns = receivers.next_report_ns()
            due_ns = NEVER_NS if report_ns >= NEVER_NS else facts.start_ns + report_ns
            if due_ns <= now_ns:
                _report(receivers, now_ns - facts.start_ns, edge.outbox)
                return MESSAGES_POSTED
            if sleep(wires, min(due_ns, until_ns) - now_ns, coalesce_ns):
                return WOKEN
            now_ns = monotonic_ns(wires)
        for interface in range(state.interfaces):
            if has_frames(wires, interface):
                if not receive(wires, interface):
                    return FAILED
                facts.now_ns = now_ns - facts.start_ns
                _begin(edge, wires)
                break


@compiled
def _report(receivers: Receivers, now_ns: int, outbox: Outbox) -> None:
    """Post the receivers' reports that are due by ``now_ns``, as far as there is room."""
    while receivers.next_report_ns() <= now_ns and has_room(outbox, EVENT_MESSAGES):
        receivers.post_reports(max(receivers.next_report_ns(), 0), outbox)


@compiled
def _begin(edge: EdgeState, wires: Wires) -> None:
    """Begin with the frames that were received last."""
    state, roles = wires.state, edge.tagging.roles
    slots = wires.rings[state.interface].octets
    edge.progress.passed = state.position = 0
    edge.progress.probe = _NOWHERE
    count = state.frames
    if state.interface == HOST:
        edge.counts.host_frames += count
        for frame in range(count):
            edge.numbered[frame] = False
        # Acknowledges of the host tell which queue pairs belong together.
        learn_frames(
            edge.flows, slots, wires.offset[:count], wires.captured[:count], wires.original[:count],
            edge.numbered[:count], roles,
        )  # fmt: skip
        return
    edge.counts.net_frames += count
    for frame in range(count):
        start, octets = wires.offset[frame], wires.captured[frame]
        found = class_of(slots, start, start + octets, roles, edge.facts.own)
        edge.priority[frame], edge.is_data[frame] = found.priority, found.sampled
        # As in `ecmproto.control.engine.arrivals`: groups have no one destination that could answer.
        edge.numbered[frame] = found.sampled and octets > 0 and signed(slots[start]) & _GROUP_BIT == 0
        edge.station[frame] = edge.flow[frame] = _NOWHERE
    if edge.facts.delivers != 0:
        numbers = Numbers(edge.station[:count], edge.flow[:count])
        number_frames(
            edge.flows,
            slots,
            wires.offset[:count],
            wires.captured[:count],
            wires.original[:count],
            edge.numbered[:count],
            roles,
            numbers,
        )


@compiled
def _carry_on(edge: EdgeState, receivers: Receivers, wires: Wires) -> int:
    """Send on the frames that are left of those in hand; return as `step` does."""
    state, progress = wires.state, edge.progress
    offset, captured, original = wires.offset, wires.captured, wires.original
    from_net = state.interface == NET
    while state.position < state.frames:
        first = frame = state.position
        while frame < state.frames and original[frame] <= captured[frame]:
            if from_net:
                if not _pass_to_host(edge, receivers, wires, frame):
                    break
            elif not _pass_to_net(edge, wires, frame):
                break
            frame += 1
        if frame > first:
            sent = send(
                wires, 1 - state.interface, state.slots_at, offset[first:], captured[first:], frame - first
            )
            state.position = first + sent
            if state.position < frame:
                progress.unsent = frame
                return NOT_SENT
        if frame == state.frames:
            break
        if original[frame] > captured[frame]:
            edge.counts.refused_frames += 1
            state.position += 1
        elif not has_room(edge.outbox, EVENT_MESSAGES):
            return MESSAGES_POSTED
        elif frame == progress.probe:
            _deliver(edge, receivers, wires, frame, True)
            edge.counts.probes += 1
            state.position += 1
        else:
            return FRAMES_CAME
    outbox = edge.outbox
    for number in range(outbox.posted.count):
        if outbox.messages[number].sent != 0:
            return MESSAGES_POSTED
    outbox.posted.count = 0
    return TIME_CAME


@inlined
def _pass_to_host(edge: EdgeState, receivers: Receivers, wires: Wires, frame: int) -> bool:
    """Deliver a network's frame and make it ready for the host; return False if it is to be looked at."""
    facts, progress, tagging = edge.facts, edge.progress, edge.tagging
    if facts.asks_net != 0 and not edge.is_data[frame] and frame >= progress.passed:
        return False
    if facts.delivers != 0:
        if not has_room(edge.outbox, EVENT_MESSAGES):
            return False
        _deliver(edge, receivers, wires, frame, False)
    slots, start, octets = wires.rings[NET].octets, wires.offset[frame], wires.captured[frame]
    shorter = 0
    if facts.strips != 0 and edge.strips[edge.priority[frame]]:
        shorter = take_tags_off(tagging, slots, start, octets)
        edge.counts.stripped_frames += int(shorter > 0)
    shorter += take_vlan_off(tagging, slots, start + shorter, octets - shorter)
    wires.offset[frame], wires.captured[frame] = start + shorter, octets - shorter
    return True


@inlined
def _pass_to_net(edge: EdgeState, wires: Wires, frame: int) -> bool:
    """Make a frame of the host's ready for the network; return False if it is to be looked at."""
    slots, tagging = wires.rings[HOST].octets, edge.tagging
    start, octets = wires.offset[frame], wires.captured[frame]
    if (
        edge.facts.asks_host != 0
        and frame >= edge.progress.passed
        and not class_of(slots, start, start + octets, tagging.roles, edge.facts.own).occupies
    ):
        return False
    longer = put_vlan_on(tagging, slots, start, octets)
    start, octets = start - longer, octets + longer
    wires.offset[frame], wires.captured[frame] = start, octets
    if edge.facts.asks_host != 0:
        priority = class_of(slots, start, start + octets, tagging.roles, edge.facts.own).priority
        edge.entered[priority] += 1
        if edge.received[priority] != priority:
            set_priority(tagging, slots, start, octets, edge.received[priority])
    return True


@compiled
def _deliver(edge: EdgeState, receivers: Receivers, wires: Wires, frame: int, is_probe: bool) -> None:
    """Deliver a frame to the receivers; those without station or flow are nobody's."""
    station, flow = edge.station[frame], edge.flow[frame]
    if station < 0 or flow < 0:
        return
    slots, start, octets = wires.rings[NET].octets, wires.offset[frame], wires.captured[frame]
    number = station * LARGEST_FLOWS + flow
    if edge.example_octets[number] == 0 and not is_probe:
        count = min(octets, _SHOWN_OCTETS)
        edge.example_octets[number] = count
        for octet in range(count):
            edge.examples[number * _SHOWN_OCTETS + octet] = slots[start + octet]
    tag = own_tag(slots, start, octets, edge.tagging.roles, edge.tagging.layout)
    mark = edge.progress.mark if is_probe else tag.mark
    outbox = edge.outbox
    outbox.posted.cause = frame
    receivers.on_delivery(
        Delivery(
            edge.facts.now_ns, int(station), int(flow), int(edge.priority[frame]), octets, is_probe,
            tag.tagged, tag.tag, mark, 0,
        ),
        outbox,
    )  # fmt: skip
    outbox.posted.cause = NO_CAUSE


class Edge:
    """A device with the network at interface NET and the receiver behind interface HOST.

    ``mac`` is the edge's own address: LLDP says it, and CNMs to it are converted (a backbone's edge).
    ``vlan`` is the control information of a C-TAG for frames from the host that have none, taken off frames
    to it.  With QCN and ``edge.cnpv`` set, defence modes decide about tags and priorities; else all tags end
    here.  Frames of more than ``largest_octets`` are refused.
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
        largest_octets: int = LARGEST_OCTETS,
    ) -> None:
        check_seed(seed)
        self.machine = machine
        self.messages: dict[str, int] = {}
        self.context = PortContext(
            rate_bps=link_rate_bps,
            link_rate_bps=link_rate_bps,
            cp_mac=mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self.flows = flow_table(
            machine, stations=LARGEST_STATIONS, flows=LARGEST_FLOWS, ethertypes=ethertypes
        )
        self._start_ns = start_ns
        self._send = send
        self.receivers = machine.receivers(self.context, np.random.default_rng(seed))
        self._interface = as_interface(self.receivers, Receivers)
        self.domain = machine.domain_edge(self.context, port)
        self._has_probes = PROBE_KIND in machine.kinds
        self._refusals: Any = new_record(machine.probe_refusal_record)
        self._edge = self._new_state(new_tagging(machine, vlan, ethertypes))
        self._update_rules()
        self._sockets = Sockets(2, frame_octets=largest_octets, room=TAKEN_AT_ONCE)

    def _new_state(self, tagging: Tagging) -> EdgeState:
        facts, progress, flows = (
            new_record(EdgeFacts),
            new_record(EdgeProgress),
            LARGEST_STATIONS * LARGEST_FLOWS,
        )
        facts.own, facts.start_ns = int.from_bytes(self.context.cp_mac), self._start_ns
        facts.delivers = int(takes_deliveries(self.receivers))
        facts.asks_net = int(self._has_probes or self.domain is not None)
        facts.asks_host = int(self.domain is not None)
        facts.strips = int(self.machine.strips_tags)
        progress.probe = _NOWHERE

        def column(kind: Any, count: int = FRAMES) -> NDArray[Any]:
            return np.zeros(count, kind)

        return EdgeState(
            facts=facts, counts=new_record(EdgeCounts), progress=progress, flows=self.flows.with_all_room(),
            tagging=tagging, outbox=new_outbox(_MESSAGES_AT_ONCE), strips=np.ones(PRIORITIES, np.bool_),
            received=np.arange(PRIORITIES), entered=column(np.int64, PRIORITIES), priority=column(np.uint8),
            is_data=column(np.bool_), numbered=column(np.bool_), station=column(np.int32),
            flow=column(np.int32), examples=column(np.uint8, flows * _SHOWN_OCTETS),
            example_octets=column(np.int64, flows),
        )  # fmt: skip

    @property
    def counts(self) -> Any:
        """Return the counters of frames, a record of `EdgeCounts`."""
        return self._edge.counts

    @property
    def due_ns(self) -> int:
        """Return when `advance` is next needed."""
        due_ns = min(int(self.receivers.next_report_ns()), self._domain_ns())
        return NEVER_NS if due_ns >= NEVER_NS else self._start_ns + due_ns

    def _domain_ns(self) -> int:
        return NEVER_NS if self.domain is None else self.domain.due_ns

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Take the frames that have come in at ``interface`` by ``now_ns``; times never decrease."""
        for first in range(0, len(batch), self._sockets.room):
            self._sockets.fill(batch, interface, first)
            self._follow(self._step(self._sockets, TAKE, now_ns), self._sockets)

    def advance(self, now_ns: int) -> None:
        """Do everything that is due by ``now_ns``."""
        time_ns = now_ns - self._start_ns
        while self.receivers.next_report_ns() <= time_ns:
            _report(self._interface, time_ns, self._edge.outbox)
            self._answer()
        if self.domain is not None and self.domain.due_ns <= time_ns:
            self._count_entered()
            said = self.domain.on_timer(time_ns)
            self._update_rules()
            if said is not None:
                self._send_one(HOST, said)
                self._send_one(NET, said)

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until something else wakes it.

        It returns before that when ``sockets.wires.state.error`` says that receiving failed.
        """
        sockets.wires.state.error = 0
        while True:
            domain_ns = self._domain_ns()
            due_ns = NEVER_NS if domain_ns == NEVER_NS else self._start_ns + domain_ns
            why = self._step(sockets, SERVE, min(until_ns, due_ns), coalesce_ns)
            if why in (WOKEN, FAILED):
                return
            if why == TIME_CAME:
                now_ns = time.monotonic_ns()
                if now_ns >= until_ns:
                    return
                self.advance(now_ns)
            self._follow(why, sockets)

    def _step(self, sockets: Sockets, task: int, until_ns: int, coalesce_ns: int = 0) -> int:
        return int(step(self._edge, self._interface, sockets.wires, task, until_ns, coalesce_ns))

    def _follow(self, why: int, sockets: Sockets) -> None:
        """Do what compiled code needs Python for, until all is done."""
        state, progress = sockets.wires.state, self._edge.progress
        while why != TIME_CAME:
            if why == NOT_SENT:
                rest = slice(int(state.position), int(progress.unsent))
                batch = sockets.received()
                self._send(1 - int(state.interface), batch.buffer, batch.offset[rest], batch.captured[rest])
                state.position = progress.unsent
            elif why == MESSAGES_POSTED:
                self._answer()
            elif why == FRAMES_CAME:
                self._look(sockets)
            why = self._step(sockets, GO_ON, 0)

    def _look(self, sockets: Sockets) -> None:
        """Look at a frame that is no data: it may be for the edge itself, or a probe; if not, it passes."""
        state, progress, domain = sockets.wires.state, self._edge.progress, self.domain
        position = int(state.position)
        octets, is_own = sockets.received().frame(position), False
        if state.interface == NET:
            if self._has_probes and self._is_probe(octets, position):
                return
            if domain is not None:
                is_own, for_host = domain.take_from_net(octets)
                if for_host is not None:
                    self._send_one(HOST, for_host)
        elif domain is not None:
            self._count_entered()
            is_own = domain.take_from_host(octets, int(self._edge.facts.now_ns))
            self._update_rules()
        progress.passed = position + 1
        if is_own:
            self._edge.counts.consumed_frames += 1
            state.position += 1

    def _is_probe(self, octets: bytes, position: int) -> bool:
        """Return whether a frame is a sender's probe, which is delivered next then.

        One of a flow of which nothing came before is nobody's.
        """
        parsed = self.machine.parse_probe(octets, self.context, self._refusals)
        if parsed is None:
            return False
        self._edge.progress.probe, self._edge.progress.mark = position, parsed.mark
        if parsed.about is not None:
            self._edge.station[position], self._edge.flow[position] = self.flows.find(
                parsed.source,
                destination=parsed.about.destination,
                vlan=parsed.about.vlan,
                priority=parsed.about.priority,
            )
        return True

    def _update_rules(self) -> None:
        """Take over what the domain says of priorities now."""
        if self.domain is not None:
            self._edge.received[:] = self.domain.received
            self._edge.strips[:] = True if self.domain.strips is None else self.domain.strips

    def _count_entered(self) -> None:
        """Tell the domain of the frames from the host that have come since the last time."""
        entered = self._edge.entered
        for priority, frames in enumerate(entered.tolist()):
            if frames and self.domain is not None:
                self.domain.count_entering(priority, frames)
        entered[:] = 0

    def _answer(self) -> None:
        """Send the messages that destinations have posted."""
        outbox = self._edge.outbox
        for message in outbox.messages[: outbox.posted.count]:
            if not message.sent:
                continue
            octets = self._example(int(message.station), int(message.flow))
            if not octets:
                self.counts.unanswered += 1
                continue
            queue_pair = self.flows.queue_pair(int(message.station), int(message.flow))
            about = SampledFrame(octets, len(octets), 0, queue_pair)
            try:
                answer = octets_of(self.machine, message, about, self.context)
            except ValueError:
                self.counts.unanswered += 1
                continue
            self._send_one(NET, answer)
            kind = kind_name(self.machine, int(message.kind))
            self.messages[kind] = self.messages.get(kind, 0) + 1
        outbox.posted.count = 0

    def _example(self, station: int, flow: int) -> bytes:
        """Return the head of the first frame of a flow; nothing if there was none."""
        if station < 0 or flow < 0:
            return b""
        number = station * LARGEST_FLOWS + flow
        start = number * _SHOWN_OCTETS
        return bytes(self._edge.examples[start : start + int(self._edge.example_octets[number])])

    def _send_one(self, interface: int, octets: bytes) -> None:
        frame = np.frombuffer(octets, np.uint8)
        self._send(interface, frame, np.zeros(1, np.int64), np.array([len(frame)]))

    def snapshot(self, now_ns: int) -> Snapshot:
        """Return counters and warnings at ``now_ns``."""
        counters = {name: int(getattr(self.counts, name)) for name in self.counts.dtype.names}
        mechanism = self.machine.counters(self.receivers)
        warnings: tuple[str, ...] = ()
        if self.domain is not None:
            self._count_entered()
            counters |= self.domain.counters()
            mechanism |= self.domain.mechanism_counters()
            warnings = self.domain.warnings
        return Snapshot(
            counters=counters, messages=dict(self.messages), mechanism=mechanism, warnings=warnings
        )


def precompile_edge(machine: Machine, ethertypes: EtherTypes) -> None:
    """Compile the code that an edge with ``machine`` runs."""
    edge = Edge(
        machine, link_rate_bps=10**8, mac=EXAMPLE_FRAME[:6], seed=1, start_ns=0, send=discard,
        ethertypes=ethertypes,
    )  # fmt: skip
    exercise(edge)
    edge.flows.find(EXAMPLE_FRAME[6:12], destination=EXAMPLE_FRAME[:6], priority=0)  # as messages do
