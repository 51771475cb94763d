"""The congestion isolation point (CIP) of a port, which moves flows to the isolated queue.

1. The port counts the octets of each flow that is not isolated, while the queue of the watched priority is
   longer than half the threshold and flow control does not stop this queue. The counts start again when the
   queue is shorter.
2. A frame's flow is isolated if the queue is longer than the threshold and the flow has at least
   ``flow_octets``, or if the neighbour downstream sends a congestion isolation message (CIM) about the flow.
3. All frames of an isolated flow enter the isolated queue. At most once in ``interval_ns``, such a frame
   causes a CIM to the neighbour upstream. Isolation therefore spreads along the whole path of the flow.
4. A flow returns if the isolated queue is empty and the flow's ``hold_ns`` have passed. No frame of the flow
   is then in the port, so the flow keeps its order.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Any

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    Arrival,
    Message,
    NullCongestionPoint,
    Outbox,
    post,
    signed_cpid,
)
from ecmproto.control.mechanisms.isolation.parameters import IsolationPointParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_records, record_from
from ecmproto.kernels.structs import payload_view

CIM_KIND = 1
_NONE = -1


class CIMPayload:
    """Record of the payload of a CIM."""

    cpid: int
    queue: int
    origin: int
    """Source station of the flow; in a frame, the sampled frame contains the flow."""


cim_payload: Callable[[Any], CIMPayload] = payload_view(CIMPayload, "payload")


class IsolationState:
    """Record of a port's parameters, isolated queue and counters (``kernels.record``)."""

    priority: int
    queue: int
    threshold_octets: int
    flow_octets: int
    interval_ns: int
    hold_ns: int
    cpid: int
    flows: int
    """Number of used entries of the flow table."""
    queued_octets: int
    """Number of octets in the isolated queue, including the frame on the line."""
    isolated: int
    """Number of times that the port isolated a flow because of its own queue."""
    requested: int
    """Number of times that the port isolated a flow because of a message."""
    returned: int
    untracked: int
    """Number of frames and messages whose flow did not fit into the flow table."""


class FlowEntry:
    """Record of a flow that the port counts or isolates."""

    station: int
    flow: int
    octets: int
    """Number of counted octets (rule 1)."""
    is_isolated: int
    until_ns: int
    """Time before which the flow does not return."""
    message_ns: int
    """Time before which the port sends no further message about the flow."""


class IsolationPoint(NullCongestionPoint):
    """The congestion isolation point of a port."""

    state: IsolationState
    entries: MutableSequence[FlowEntry]

    def select_queue(self, arrival: Arrival, stopped_mask: int, outbox: Outbox) -> int:
        """Return the isolated queue for a frame of an isolated flow (rules 1 to 4)."""
        state = self.state
        if arrival.priority != state.priority or arrival.station < 0 or arrival.flow < 0:
            return arrival.priority
        is_long = arrival.qlen_octets > state.threshold_octets // 2
        number = _find(self, arrival.now_ns, arrival.station, arrival.flow, is_long)
        if number == _NONE or self.entries[number].is_isolated == 0:
            if not is_long or (stopped_mask >> state.priority) & 1:
                return arrival.priority
            number = _count(self, number, arrival)
            if number == _NONE:
                return arrival.priority
        if arrival.answerable and arrival.now_ns >= self.entries[number].message_ns:
            self.entries[number].message_ns = arrival.now_ns + state.interval_ns
            _post(state, arrival, outbox)
        return int(state.queue)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Isolate the flow of a CIM, or keep the flow isolated."""
        state, origin = self.state, cim_payload(message).origin
        if message.kind != CIM_KIND or message.priority != state.priority:
            return
        number = _find(self, now_ns, origin, message.flow, True)
        if number == _NONE:
            number = _add(self, origin, message.flow)
        if number != _NONE:
            state.requested += 1 - self.entries[number].is_isolated
            _isolate(self, number, now_ns)

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a frame in the isolated queue."""
        if arrival.enqueued and arrival.priority == self.state.queue:
            self.state.queued_octets += arrival.octets

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Subtract a frame that left the isolated queue."""
        if priority == self.state.queue:
            self.state.queued_octets -= octets


@compiled
def _post(state: IsolationState, arrival: Arrival, outbox: Outbox) -> None:
    """Post a CIM about the flow of a frame."""
    message = post(outbox, CIM_KIND, arrival.now_ns, arrival.station, arrival.flow, arrival.priority)
    message.qlen_octets = state.queued_octets
    payload = cim_payload(message)
    payload.cpid, payload.queue, payload.origin = state.cpid, state.queue, arrival.station


@compiled
def _find(point: IsolationPoint, now_ns: int, station: int, flow: int, keeps_counts: bool) -> int:
    """Return the number of a flow's entry, or _NONE; remove all entries that have ended (rules 1 and 4)."""
    state, entries, match, remaining = point.state, point.entries, _NONE, 0
    for number in range(state.flows):
        entry = entries[number]
        if entry.is_isolated == 1:
            stays = state.queued_octets > 0 or now_ns < entry.until_ns
            state.returned += int(not stays)
        else:
            stays = keeps_counts
        if stays:
            if entry.station == station and entry.flow == flow:
                match = remaining
            if remaining < number:
                entries[remaining] = entry
            remaining += 1
    state.flows = remaining
    return match


@compiled
def _count(point: IsolationPoint, number: int, arrival: Arrival) -> int:
    """Count a frame of a flow; return the number of its entry if the flow is now isolated, or _NONE."""
    state = point.state
    if number == _NONE:
        number = _add(point, arrival.station, arrival.flow)
        if number == _NONE:
            return _NONE
    entry = point.entries[number]
    entry.octets += arrival.octets
    if arrival.qlen_octets <= state.threshold_octets or entry.octets < state.flow_octets:
        return _NONE
    state.isolated += 1
    _isolate(point, number, arrival.now_ns)
    return number


@compiled
def _add(point: IsolationPoint, station: int, flow: int) -> int:
    """Return the number of a new entry, or _NONE if the table is full."""
    state = point.state
    if state.flows == len(point.entries):
        state.untracked += 1
        return _NONE
    entry = point.entries[state.flows]
    entry.station, entry.flow = station, flow
    entry.octets = entry.is_isolated = entry.until_ns = entry.message_ns = 0
    state.flows += 1
    return int(state.flows - 1)


@inlined
def _isolate(point: IsolationPoint, number: int, now_ns: int) -> None:
    """Isolate a flow for at least ``hold_ns`` from now on."""
    entry = point.entries[number]
    entry.is_isolated, entry.until_ns = 1, now_ns + point.state.hold_ns


def new_point(parameters: IsolationPointParameters, context: PortContext) -> IsolationPoint:
    """Return a port without isolated flows."""
    cpid = signed_cpid(int.from_bytes(context.cp_mac) << 16 | parameters.queue)
    state = record_from(
        IsolationState, parameters, cpid=cpid, flows=0, queued_octets=0, isolated=0, requested=0, returned=0,
        untracked=0,
    )  # fmt: skip
    entries: Any = new_records(FlowEntry, parameters.max_flows)
    return IsolationPoint(state, entries)
