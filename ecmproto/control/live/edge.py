"""The edge of a domain: an inline bridge before a receiver, which uses its caller's clock.

Frames from the network are forwarded to the host without the mechanism's tags. The edge answers probes and
tags, and the mechanism's domain performs the edge functions (`mechanisms.api.machine.DomainEdge`). Compiled
code (`step`) forwards frames between the interfaces. Python generates answers, and examines the non-data
frames that the mechanism or the domain may use.
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
from ecmproto.control.live.device import (
    EXAMPLE_FRAME,
    FRAMES_AT_ONCE,
    LARGEST_OCTETS,
    Send,
    Snapshot,
    discard,
    exercise,
    send_frame,
)
from ecmproto.control.live.tagging import (
    Tagging,
    new_tagging,
    put_vlan_on,
    set_priority,
    take_tags_off,
    take_vlan_off,
)
from ecmproto.control.mechanisms.api.machine import DomainEdge, Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVENT_MESSAGES,
    NO_CAUSE,
    PROBE_KIND,
    Delivery,
    Outbox,
    Receivers,
    has_capacity,
    new_outbox,
    takes_deliveries,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.frames.batch.classes import class_of
from ecmproto.frames.batch.flows import FlowTable, FullFlowTable, Numbers, learn_frames, number_frames
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
"""The interfaces to the network and to the receiver."""
LARGEST_STATIONS = 256
LARGEST_FLOWS = 16
"""The maximum number of flows per sender, and of senders, that the edge distinguishes and answers."""
SERVE, TAKE, GO_ON = range(3)
"""Tasks of `step`: serve real interfaces, process the current frames, or continue with these frames."""
_MESSAGES_AT_ONCE = 4096
_SHOWN_OCTETS = 256
_GROUP_BIT = 1
_NOWHERE = -1


class EdgeCounts:
    """Counters of frames at an edge, stored in a record (``kernels.record``)."""

    net_frames: int
    host_frames: int
    stripped_frames: int
    probes: int
    """Answered probes; answered probes are not forwarded."""
    consumed_frames: int
    """LLDP frames, and CNMs that the edge of a backbone converts."""
    unanswered: int
    """Unsent answers, because the flow has no stored frame or the answer has no destination address."""
    refused_frames: int
    """Frames that are longer than the device accepts."""


class EdgeFacts:
    """The constants and the time of an edge, stored in a record."""

    own: int
    """The edge's address, as a number."""
    start_ns: int
    now_ns: int
    """The time since ``start_ns`` at which the current frames were received."""
    delivers: int
    """1 if the edge delivers frames to receivers."""
    asks_net: int
    asks_host: int
    """1 if the caller first examines non-data frames from the host; ``asks_net`` is for the network."""
    strips: int
    """1 if the edge removes the mechanism's tags."""


class EdgeProgress:
    """The progress through the batch of received frames, stored in a record."""

    passed: int
    """The end index of the frames that are forwarded without examination."""
    probe: int
    """The index of a sender's probe, or −1 for no probe; ``mark`` is the mark of the probe."""
    mark: int
    unsent: int
    """The end index of the frames to send next."""


class EdgeState(Struct):
    """The state of an edge, with tables by priority."""

    facts: EdgeFacts
    counts: EdgeCounts
    progress: EdgeProgress
    flows: FullFlowTable
    tagging: Tagging
    outbox: Outbox
    strips: NDArray[np.bool_]
    received: NDArray[np.int64]
    """The priority that the edge assigns to a frame from the host."""
    entered: NDArray[np.int64]
    """The frames received from the host since the last report to the domain."""
    priority: NDArray[np.uint8]
    is_data: NDArray[np.bool_]
    """Whether each current frame from the network is data."""
    numbered: NDArray[np.bool_]
    station: NDArray[np.int32]
    flow: NDArray[np.int32]
    examples: NDArray[np.uint8]
    example_octets: NDArray[np.int64]
    """The start of the first frame of each flow, which is a template for answers."""


@released
def step(
    edge: EdgeState, receivers: Receivers, wires: Wires, task: int, until_ns: int, coalesce_ns: int
) -> int:
    """Do ``task``, or serve until ``until_ns``, and return when the caller must act.

    The result is a reason of `capture.linux.wires`; TIME_CAME means that the task is complete. NOT_SENT means
    that the caller sends the frames from ``wires.state.position`` to ``progress.unsent``. Other reasons mean
    that the caller sends the messages in the outbox, or examines the frame at ``wires.state.position``
    (FRAMES_CAME). Then the caller calls the function again.
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
    """Post the receivers' reports that are due at ``now_ns``, up to the capacity of the outbox."""
    while receivers.next_report_ns() <= now_ns and has_capacity(outbox, EVENT_MESSAGES):
        receivers.post_reports(max(receivers.next_report_ns(), 0), outbox)


@compiled
def _begin(edge: EdgeState, wires: Wires) -> None:
    """Start to process the batch of received frames."""
    state, tables = wires.state, edge.tagging.tables
    slots = wires.rings[state.interface].octets
    edge.progress.passed = state.position = 0
    edge.progress.probe = _NOWHERE
    count = state.frames
    if state.interface == HOST:
        edge.counts.host_frames += count
        for frame in range(count):
            edge.numbered[frame] = False
        # The host's acknowledgements show which queue pairs form a connection.
        learn_frames(
            edge.flows, slots, wires.offset[:count], wires.captured[:count], wires.original[:count],
            edge.numbered[:count], tables,
        )  # fmt: skip
        return
    edge.counts.net_frames += count
    for frame in range(count):
        start, octets = wires.offset[frame], wires.captured[frame]
        frame_class = class_of(slots, start, start + octets, tables, edge.facts.own)
        edge.priority[frame], edge.is_data[frame] = frame_class.priority, frame_class.sampled
        # As in `ecmproto.control.engine.arrivals`, a group has no single destination that could answer.
        edge.numbered[frame] = frame_class.sampled and octets > 0 and signed(slots[start]) & _GROUP_BIT == 0
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
            tables,
            numbers,
        )


@compiled
def _carry_on(edge: EdgeState, receivers: Receivers, wires: Wires) -> int:
    """Forward the remaining current frames; return a reason as `step` does."""
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
        elif not has_capacity(edge.outbox, EVENT_MESSAGES):
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
    """Deliver a frame from the network and prepare the frame for the host.

    Return False if the caller must examine the frame.
    """
    facts, progress, tagging = edge.facts, edge.progress, edge.tagging
    if facts.asks_net != 0 and not edge.is_data[frame] and frame >= progress.passed:
        return False
    if facts.delivers != 0:
        if not has_capacity(edge.outbox, EVENT_MESSAGES):
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
    """Prepare a frame from the host for the network; return False if the caller must examine the frame."""
    slots, tagging = wires.rings[HOST].octets, edge.tagging
    start, octets = wires.offset[frame], wires.captured[frame]
    if (
        edge.facts.asks_host != 0
        and frame >= edge.progress.passed
        and not class_of(slots, start, start + octets, tagging.tables, edge.facts.own).occupies
    ):
        return False
    longer = put_vlan_on(tagging, slots, start, octets)
    start, octets = start - longer, octets + longer
    wires.offset[frame], wires.captured[frame] = start, octets
    if edge.facts.asks_host != 0:
        priority = class_of(slots, start, start + octets, tagging.tables, edge.facts.own).priority
        edge.entered[priority] += 1
        if edge.received[priority] != priority:
            set_priority(tagging, slots, start, octets, edge.received[priority])
    return True


@compiled
def _deliver(edge: EdgeState, receivers: Receivers, wires: Wires, frame: int, is_probe: bool) -> None:
    """Deliver a frame to the receivers, unless the frame has no station or flow."""
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
    tag = own_tag(slots, start, octets, edge.tagging.tables, edge.tagging.layout)
    mark = edge.progress.mark if is_probe else tag.mark
    outbox = edge.outbox
    outbox.posted.cause = frame
    receivers.on_delivery(
        Delivery(
            edge.facts.now_ns, int(station), int(flow), int(edge.priority[frame]), octets, is_probe,
            tag.tagged, tag.tag, mark, 0, edge.example_octets[:0],
        ),
        outbox,
    )  # fmt: skip
    outbox.posted.cause = NO_CAUSE


class Edge:
    """A device with the network at interface NET and the receiver at interface HOST.

    ``mac`` is the edge's own address. LLDP reports this address, and the edge of a backbone converts CNMs
    that are sent to this address. ``vlan`` is the control information of a C-TAG. The edge adds this C-TAG to
    untagged frames from the host, and removes the C-TAG from frames to the host. With QCN and ``edge.cnpv``,
    defence modes decide about tags and priorities; otherwise the edge removes all tags. Frames of more than
    ``largest_octets`` are refused.
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
        self.context: PortContext = PortContext(
            rate_bps=link_rate_bps,
            link_rate_bps=link_rate_bps,
            cp_mac=mac,
            stations=LARGEST_STATIONS,
            flows=LARGEST_FLOWS,
            ethertypes=ethertypes,
        )
        self.flows: FlowTable = flow_table(
            machine, stations=LARGEST_STATIONS, flows=LARGEST_FLOWS, ethertypes=ethertypes
        )
        self._start_ns = start_ns
        self._send = send
        self.receivers: Receivers = machine.receivers(self.context, np.random.default_rng(seed))
        self._interface = as_interface(self.receivers, Receivers)
        self.domain: DomainEdge | None = machine.domain_edge(self.context, port)
        self._has_probes = PROBE_KIND in machine.kinds
        self._refusals: Any = new_record(machine.probe_refusal_record)
        self._edge = self._new_state(new_tagging(machine, vlan, ethertypes))
        self._update_rules()
        self._sockets = Sockets(2, frame_octets=largest_octets, capacity=FRAMES_AT_ONCE)

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
            facts=facts, counts=new_record(EdgeCounts), progress=progress, flows=self.flows.preallocated(),
            tagging=tagging, outbox=new_outbox(_MESSAGES_AT_ONCE), strips=np.ones(PRIORITIES, np.bool_),
            received=np.arange(PRIORITIES), entered=column(np.int64, PRIORITIES), priority=column(np.uint8),
            is_data=column(np.bool_), numbered=column(np.bool_), station=column(np.int32),
            flow=column(np.int32), examples=column(np.uint8, flows * _SHOWN_OCTETS),
            example_octets=column(np.int64, flows),
        )  # fmt: skip

    @property
    def counts(self) -> Any:
        """Return the counters of frames, a record of type `EdgeCounts`."""
        return self._edge.counts

    @property
    def due_ns(self) -> int:
        """Return the time of the next call of `advance`."""
        due_ns = min(int(self.receivers.next_report_ns()), self._domain_ns())
        return NEVER_NS if due_ns >= NEVER_NS else self._start_ns + due_ns

    def _domain_ns(self) -> int:
        return NEVER_NS if self.domain is None else self.domain.due_ns

    def take(self, batch: Batch, interface: int, now_ns: int) -> None:
        """Process the frames received at ``interface`` until ``now_ns``; times never decrease."""
        for first in range(0, len(batch), self._sockets.capacity):
            self._sockets.fill(batch, interface, first)
            self._follow(self._step(self._sockets, TAKE, now_ns), self._sockets)

    def advance(self, now_ns: int) -> None:
        """Process all events that are due at ``now_ns``."""
        time_ns = now_ns - self._start_ns
        while self.receivers.next_report_ns() <= time_ns:
            _report(self._interface, time_ns, self._edge.outbox)
            self._answer()
        if self.domain is not None and self.domain.due_ns <= time_ns:
            self._count_entered()
            frame = self.domain.on_timer(time_ns)
            self._update_rules()
            if frame is not None:
                send_frame(self._send, HOST, frame)
                send_frame(self._send, NET, frame)

    def serve(self, sockets: Sockets, until_ns: int, coalesce_ns: int) -> None:
        """Move frames between real interfaces until ``until_ns``, or until another event wakes the loop.

        The function returns earlier if ``sockets.wires.state.error`` reports a receive error.
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
        """Do the tasks that compiled code leaves to Python, until all tasks are complete."""
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
        """Examine a non-data frame, and forward the frame unless it is a probe or addressed to the edge."""
        state, progress, domain = sockets.wires.state, self._edge.progress, self.domain
        position = int(state.position)
        octets, is_own = sockets.received().frame(position), False
        if state.interface == NET:
            if self._has_probes and self._is_probe(octets, position):
                return
            if domain is not None:
                is_own, for_host = domain.take_from_net(octets)
                if for_host is not None:
                    send_frame(self._send, HOST, for_host)
        elif domain is not None:
            self._count_entered()
            is_own = domain.take_from_host(octets, int(self._edge.facts.now_ns))
            self._update_rules()
        progress.passed = position + 1
        if is_own:
            self._edge.counts.consumed_frames += 1
            state.position += 1

    def _is_probe(self, octets: bytes, position: int) -> bool:
        """Return whether a frame is a sender's probe, which is delivered next.

        A probe of an unknown flow is not delivered.
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
        """Update the priority rules from the domain."""
        if self.domain is not None:
            self._edge.received[:] = self.domain.received
            self._edge.strips[:] = True if self.domain.strips is None else self.domain.strips

    def _count_entered(self) -> None:
        """Report to the domain the number of frames from the host since the last report."""
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
            send_frame(self._send, NET, answer)
            kind = kind_name(self.machine, int(message.kind))
            self.messages[kind] = self.messages.get(kind, 0) + 1
        outbox.posted.count = 0

    def _example(self, station: int, flow: int) -> bytes:
        """Return the start of the first frame of a flow; the result is empty for an unknown flow."""
        if station < 0 or flow < 0:
            return b""
        number = station * LARGEST_FLOWS + flow
        start = number * _SHOWN_OCTETS
        return bytes(self._edge.examples[start : start + int(self._edge.example_octets[number])])

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
    """Compile the code that is used by an edge with ``machine``."""
    edge = Edge(
        machine, link_rate_bps=10**8, mac=EXAMPLE_FRAME[:6], seed=1, start_ns=0, send=discard,
        ethertypes=ethertypes,
    )  # fmt: skip
    exercise(edge)
    edge.flows.find(EXAMPLE_FRAME[6:12], destination=EXAMPLE_FRAME[:6], priority=0)  # as messages do
