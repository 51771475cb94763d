"""Messages, and the three interfaces between the engine and each mechanism.

The objects of a mechanism are structs (``ecmproto.kernels.structs``) with the methods of these interfaces.
Frames are passed as plain numbers. The result is a return value, or a :class:`Message` posted to the caller's
outbox. The caller reads the time of the next timer, and runs the timer before any other event of the same
time::

    CongestionPoint     one output port of a switch, with all priorities
    Senders             the reaction points of many stations, each with its own limiters
    Receivers           the destinations after the port, which process tags and probes

The methods run either compiled or as plain Python. `mechanisms.api.machine` creates the objects and converts
messages to octets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leaves_ns
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records, record_dtype
from ecmproto.kernels.structs import Struct, interface, payload_view

NO_LIMITER = -1
EVERY_STATION = -2
NO_STATION = -1
NO_CAUSE = -1
NO_AVERAGE = -1.0
"""Value of an average round-trip time that is not measured or has no sample yet."""

EVENT_MESSAGES = 16
"""Maximum number of messages, frames and notes per event; timers and reports check the capacity."""
SILENT = 0
"""Message kind of a sample without a sent message; each mechanism defines other kinds."""
PAUSE_KIND = 100
PFC_KIND = 101
PROBE_KIND = 102
"""Message kind of a probe frame, which a sender sends after a data frame to the destination of the flow."""


PAYLOAD_WORDS = 8


class Message:
    """Record of a posted message, or of a SILENT sample.

    All messages have these header fields. Fields of one mechanism are in the payload, which is a separate
    record.
    """

    kind: int
    sent: int
    """1 for a sent message; 0 for a SILENT sample, and if the source of the frame may not be answered."""
    time_ns: int
    cause: int
    """Caller's number of the sampled or delivered frame, or NO_CAUSE if the event has no frame."""
    station: int
    """Receiving station; EVERY_STATION means all stations that send to the port."""
    flow: int
    """Flow number within the station; −1 for a message without a flow."""
    priority: int
    qlen_octets: int
    qoff_octets: int
    qdelta_octets: int
    fb_octets: float
    """Feedback as defined by the mechanism; a negative feedback means congestion."""
    rate_kbps: int
    """Advertised rate in kb/s; 0 for a message without a rate."""
    payload: Annotated[NDArray[np.int64], PAYLOAD_WORDS]
    """Fields of the payload record that the mechanism declares for this message kind."""


class FlowControlPayload:
    """Record of the payload of a PAUSE_KIND or PFC_KIND message."""

    enable_vector: int
    quanta: int


class ProbePayload:
    """Record of the payload of a PROBE_KIND message."""

    mark: int
    """Mark in the frame of the probe, such as a time."""


flow_control_payload: Callable[[Any], FlowControlPayload] = payload_view(FlowControlPayload, "payload")
probe_payload: Callable[[Any], ProbePayload] = payload_view(ProbePayload, "payload")

SHARED_PAYLOADS: dict[int, type[Any]] = {
    PAUSE_KIND: FlowControlPayload,
    PFC_KIND: FlowControlPayload,
    PROBE_KIND: ProbePayload,
}
"""Payload record types of the message kinds that all mechanisms share."""


def payload_columns(messages: NDArray[Any], kind: type[Any]) -> NDArray[Any]:
    """Return the payloads in ``messages`` as an array of ``kind`` records."""
    dtype = record_dtype(cast(Any, kind))
    values: NDArray[Any] = messages["payload"][:, : dtype.itemsize // messages["payload"].itemsize]
    return np.ascontiguousarray(values).view(dtype)[:, 0]


def fields_of(message: Any, payloads: Mapping[int, type[Any]]) -> dict[str, Any]:
    """Return the header and payload fields of a message by name."""
    fields = dict(zip(message.dtype.names, message.item(), strict=True))
    rows = fields.pop("payload")
    payload = payloads.get(fields["kind"]) or SHARED_PAYLOADS.get(fields["kind"])
    if payload is not None:
        dtype = record_dtype(cast(Any, payload))
        values = rows[: dtype.itemsize // rows.itemsize].view(dtype)[0].item()
        fields |= zip(dtype.names or (), values, strict=True)
    return fields


def messages_of(
    fields_each: Sequence[Mapping[str, Any]], payloads: Mapping[int, type[Any]]
) -> Sequence[Message]:
    """Return messages with the fields in ``fields_each``; ``payloads`` are the record types by kind."""
    messages: Any = new_records(Message, len(fields_each))
    columns = np.asarray(messages)
    types = [fields.get("kind", SILENT) for fields in fields_each]
    for name in {name for fields in fields_each for name in fields} & set(columns.dtype.names or ()):
        columns[name] = [fields.get(name, 0) for fields in fields_each]
    for kind, payload in (SHARED_PAYLOADS | dict(payloads)).items():
        of_kind = [index for index, each in enumerate(types) if each == kind]
        if not of_kind:
            continue
        values = np.zeros(len(of_kind), record_dtype(cast(Any, payload)))
        for name in values.dtype.names or ():
            values[name] = [fields_each[index].get(name, 0) for index in of_kind]
        rows = values.view(np.int64).reshape(len(of_kind), -1)
        columns["payload"][of_kind, : rows.shape[1]] = rows
    typed: Sequence[Message] = messages
    return typed


class Posted:
    """Record of the current frame and the number of messages in an outbox."""

    count: int
    cause: int
    """Caller's number of the current frame, or NO_CAUSE if the event has no frame."""


class Outbox(Struct):
    """Posted messages; the caller reads ``messages[:posted.count]`` and sets ``posted.count`` to 0."""

    posted: Posted
    messages: Sequence[Message]


def new_outbox(capacity: int) -> Outbox:
    """Return an empty outbox for ``capacity`` messages."""
    outbox = Outbox(new_record(Posted), new_records(Message, capacity))
    outbox.posted.cause = NO_CAUSE
    return outbox


@inlined
def has_capacity(outbox: Outbox, count: int) -> bool:
    """Return whether the outbox has capacity for ``count`` more messages."""
    return outbox.posted.count + count <= len(outbox.messages)


@inlined
def post(outbox: Outbox, kind: int, now_ns: int, station: int, flow: int, priority: int) -> Message:
    """Append a message to the outbox and return the message; ``sent`` is 0 for a SILENT sample.

    All fields without an argument are 0. The caller has checked the capacity.
    """
    message = outbox.messages[outbox.posted.count]
    outbox.posted.count += 1
    clear(message)
    message.kind = kind
    message.sent = int(kind != SILENT)
    message.time_ns = now_ns
    message.cause = outbox.posted.cause
    message.station = station
    message.flow = flow
    message.priority = priority
    return message


@compiled
def clear(message: Message) -> None:
    """Set the payload, rate, feedback and queue length fields of ``message`` to 0."""
    message.qlen_octets = message.qoff_octets = message.qdelta_octets = 0
    message.fb_octets = 0.0
    message.rate_kbps = 0
    for word in range(PAYLOAD_WORDS):
        message.payload[word] = 0


class Arrival(NamedTuple):
    """A frame that arrived at a port and was just enqueued or dropped.

    ``tagged``, ``tag`` and ``mark`` describe the mechanism's tag in the frame, such as CPID and timestamp, or
    rate and RLQ-ID. ``qlen_octets`` is the length of the priority's queue after the frame. ``port_octets`` is
    the length of all queues.
    """

    now_ns: int
    station: int
    flow: int
    priority: int
    octets: int
    sampled: bool
    """Whether the congestion point may sample the frame (wire-formats 1.2)."""
    answerable: bool
    """Whether a message may be sent to the source of the frame."""
    enqueued: bool
    tagged: bool
    tag: int
    mark: int
    qlen_octets: int
    port_octets: int


class Departure(NamedTuple):
    """A frame that leaves a sender through ``limiter`` or NO_LIMITER, with the existing tag of the frame."""

    now_ns: int
    station: int
    limiter: int
    flow: int
    priority: int
    octets: int
    tagged: bool
    tag: int
    mark: int


class Delivery(NamedTuple):
    """A frame that left the port for the destination."""

    now_ns: int
    station: int
    """Source station of the frame."""
    flow: int
    priority: int
    octets: int
    probe: bool
    """Whether the frame is a sender's probe; in a probe, ``mark`` is the timestamp."""
    tagged: bool
    tag: int
    mark: int
    destination: int = 0
    """Receiving station in a network; at most 0 if there is only one destination."""
    stack: NDArray[np.int64] = np.zeros(0, np.int64)
    """Records that ports added to the frame, in path order. The array has the maximum number of records."""


class Sent(NamedTuple):
    """The tag of a sent frame, and the number of octets that the sender added."""

    tagged: bool
    tag: int
    mark: int
    added_octets: int


@interface
class CongestionPoint(Protocol):
    """Interface of a congestion point: one output port of a switch."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count, sample and answer a frame that was enqueued or dropped; post at most two messages."""

    def select_queue(self, arrival: Arrival, stopped_mask: int, outbox: Outbox) -> int:
        """Return the queue for a frame that will be enqueued or dropped: its priority or the isolated queue.

        Post at most one message, which is for the device that sent the frame. ``arrival`` describes the port
        before the frame. Bit p of ``stopped_mask`` is 1 if flow control stops queue p. The engine calls this
        method only if `Machine.isolation` is set.
        """

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a message from the port's neighbour."""

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the new tag of a tagged frame that was just enqueued."""

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Count a frame that left the port; post at most one message."""

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Add a record to the ``stack`` of a tagged frame that left the port, and return the frame's new
        mark.

        ``line_octets`` is the number of all octets, including overhead, that the port has sent on the line.
        """

    def next_timer_ns(self) -> int:
        """Return the next time to call `on_timer`, or NEVER_NS."""

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Run the due timers and post messages while the outbox has capacity.

        ``qlens_octets`` are the queue lengths by priority.
        """


@interface
class Senders(Protocol):
    """Interface of the reaction points of stations 0 to n − 1."""

    def limiters(self) -> int:
        """Return the number of limiters per station."""

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of a frame, or NO_LIMITER for a frame that leaves without delay."""

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that enters the queue of a limiter."""

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the departure time of the first frame in the queue, or NEVER_NS in a time-out."""

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Send a frame and return the new tag; post a probe after the frame if a probe is due."""

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a message for one of the stations."""

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the station's next timer."""

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the due timers of the station."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the rate of a limiter in bit/s."""

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return the average round-trip time from a limiter to the congestion point, or NO_AVERAGE."""


@interface
class Receivers(Protocol):
    """Interface of the destinations after the port."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Process a frame that left the port; post at most one answer to the source station."""

    def next_report_ns(self) -> int:
        """Return the next time to call `post_reports`, or NEVER_NS."""

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Post the due reports while the outbox has capacity."""


class NullCongestionPoint(Struct):
    """A congestion point that never sends a message."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Do nothing."""

    def select_queue(self, arrival: Arrival, stopped_mask: int, outbox: Outbox) -> int:
        """Return the priority of the frame."""
        return arrival.priority

    def on_message(self, message: Message, now_ns: int) -> None:
        """Do nothing."""

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag unchanged."""
        return tag

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing."""

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Return the mark unchanged."""
        return mark

    def next_timer_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Do nothing."""


class NullReactionPoints(Struct):
    """Stations without rate limiters."""

    def limiters(self) -> int:
        """Return 0."""
        return 0

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return NO_LIMITER."""
        return NO_LIMITER

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Do nothing."""

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return ``now_ns``."""
        return now_ns

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Return the tag of the frame unchanged."""
        return Sent(departure.tagged, departure.tag, departure.mark, 0)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Do nothing."""

    def next_station_timer_ns(self, station: int) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Do nothing."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return 0."""
        return 0.0

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return NO_AVERAGE."""
        return NO_AVERAGE


class LimiterStations(NullReactionPoints):
    """Stations with the same number of consecutive rate limiters per station."""

    slots: Sequence[RateLimiter]
    slots_each: int

    def limiters(self) -> int:
        """Return the number of limiters per station."""
        return self.slots_each

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the earliest departure time of the first frame in the queue."""
        return leaves_ns(self.slots[station * self.slots_each + limiter], now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the current rate of the limiter in bit/s."""
        return self.slots[station * self.slots_each + limiter].rate_bps


class NullReceivers(Struct):
    """Destinations that send no answers."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Do nothing."""

    def next_report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing."""


def takes_deliveries(receivers: Receivers) -> bool:
    """Return whether ``receivers`` process delivered frames."""
    return type(receivers).on_delivery is not NullReceivers.on_delivery


def reports(receivers: Receivers) -> bool:
    """Return whether ``receivers`` post reports, which congestion points change on the path."""
    return type(receivers).post_reports is not NullReceivers.post_reports


NO_CPID = 0

_BITS = 64


def signed_cpid(cpid: int) -> int:
    """Return an unsigned 64-bit ``cpid`` as the signed number with the same bits, for use in kernels."""
    return cpid - (1 << _BITS) if cpid >> (_BITS - 1) else cpid
