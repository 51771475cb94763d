"""Messages, and the three interfaces that the engine drives, common to every mechanism.

A mechanism's machines are structs (``ecmproto.kernels.structs``) with the methods below. Frames enter as
plain numbers; the result is a decision, or a :class:`Message` posted to the caller's outbox. The caller reads
the time of the next timer and runs it when it is due, before any other event of that time::

    CongestionPoint     one output port of a switch, all its priorities
    Senders             the reaction points of many stations, each with limiters of its own
    Receivers           the destinations after the port, which process tags and probes

They run compiled, called by their addresses, and as plain Python. `mechanisms.api.machine` creates them, and
converts their messages to octets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records, record_dtype
from ecmproto.kernels.structs import Struct, interface, payload_view

NO_LIMITER = -1
EVERY_STATION = -2
NO_STATION = -1
NO_CAUSE = -1
NO_AVERAGE = -1.0
"""The value of a missing average round-trip time: without a sample, or not measured."""

EVENT_MESSAGES = 16
"""A bound on the messages, frames and notes of one event; ticks and reports check the capacity themselves."""
SILENT = 0
"""The kind of an unsent message: a sample without a result. The other kinds are a mechanism's."""
PAUSE_KIND = 100
PFC_KIND = 101
PROBE_KIND = 102
"""A frame that a sender inserts in band, after the one it is about, to the destination of its flow."""


PAYLOAD_WORDS = 8


class Message:
    """A message that a machine posts, or a sample that stayed SILENT; a record.

    All messages have this head; the mechanism's other fields are in the payload, a record of its own.
    """

    kind: int
    sent: int
    """1 unless it is SILENT or its frame's source may not be answered."""
    time_ns: int
    cause: int
    """The caller's number of the sampled or delivered frame, NO_CAUSE for none."""
    station: int
    """The receiving station; EVERY_STATION for all that feed the port."""
    flow: int
    """The flow of the station, −1 for none."""
    priority: int
    qlen_octets: int
    qoff_octets: int
    qdelta_octets: int
    fb_octets: float
    """The feedback by its mechanism's rules, below 0 for congestion."""
    rate_kbps: int
    """The advertised rate, 0 for a message without one."""
    payload: Annotated[NDArray[np.int64], PAYLOAD_WORDS]
    """The other fields of the message: the record that its mechanism declares for its kind."""


class FlowControlPayload:
    """The payload of a message of PAUSE_KIND or PFC_KIND; a record."""

    enable_vector: int
    quanta: int


class ProbePayload:
    """The payload of a message of PROBE_KIND; a record."""

    mark: int
    """The mark in the probe's frame, such as a time."""


flow_control_payload: Callable[[Any], FlowControlPayload] = payload_view(FlowControlPayload, "payload")
probe_payload: Callable[[Any], ProbePayload] = payload_view(ProbePayload, "payload")

SHARED_PAYLOADS: dict[int, type[Any]] = {
    PAUSE_KIND: FlowControlPayload,
    PFC_KIND: FlowControlPayload,
    PROBE_KIND: ProbePayload,
}
"""The payloads of the kinds that all mechanisms share."""


def payload_columns(messages: NDArray[Any], kind: type[Any]) -> NDArray[Any]:
    """Return the payloads in ``messages`` as an array of ``kind`` records."""
    dtype = record_dtype(cast(Any, kind))
    words: NDArray[Any] = messages["payload"][:, : dtype.itemsize // messages["payload"].itemsize]
    return np.ascontiguousarray(words).view(dtype)[:, 0]


def fields_of(message: Any, payloads: Mapping[int, type[Any]]) -> dict[str, Any]:
    """Return a message's fields by name: the head's and, by its kind, the payload's."""
    fields = dict(zip(message.dtype.names, message.item(), strict=True))
    words = fields.pop("payload")
    payload = payloads.get(fields["kind"]) or SHARED_PAYLOADS.get(fields["kind"])
    if payload is not None:
        dtype = record_dtype(cast(Any, payload))
        values = words[: dtype.itemsize // words.itemsize].view(dtype)[0].item()
        fields |= zip(dtype.names or (), values, strict=True)
    return fields


def messages_of(
    fields_each: Sequence[Mapping[str, Any]], payloads: Mapping[int, type[Any]]
) -> Sequence[Message]:
    """Return messages with the fields in ``fields_each``; payload fields follow the record of the kind."""
    messages: Any = new_records(Message, len(fields_each))
    columns = np.asarray(messages)
    kinds = [fields.get("kind", SILENT) for fields in fields_each]
    for name in {name for fields in fields_each for name in fields} & set(columns.dtype.names or ()):
        columns[name] = [fields.get(name, 0) for fields in fields_each]
    for kind, payload in (SHARED_PAYLOADS | dict(payloads)).items():
        of_kind = [index for index, each in enumerate(kinds) if each == kind]
        if not of_kind:
            continue
        values = np.zeros(len(of_kind), record_dtype(cast(Any, payload)))
        for name in values.dtype.names or ():
            values[name] = [fields_each[index].get(name, 0) for index in of_kind]
        words = values.view(np.int64).reshape(len(of_kind), -1)
        columns["payload"][of_kind, : words.shape[1]] = words
    typed: Sequence[Message] = messages
    return typed


class Posted:
    """The number of messages in an outbox, and the current frame; a record."""

    count: int
    cause: int
    """The caller's number of the current frame, NO_CAUSE for none."""


class Outbox(Struct):
    """A list of posted messages; the caller takes ``messages[:posted.count]`` and sets the count to 0."""

    posted: Posted
    messages: Sequence[Message]


def new_outbox(capacity: int) -> Outbox:
    """Return an empty outbox for ``capacity`` messages."""
    outbox = Outbox(new_record(Posted), new_records(Message, capacity))
    outbox.posted.cause = NO_CAUSE
    return outbox


@inlined
def has_capacity(outbox: Outbox, count: int) -> bool:
    """Return whether ``count`` more messages may be posted."""
    return outbox.posted.count + count <= len(outbox.messages)


@inlined
def post(outbox: Outbox, kind: int, now_ns: int, station: int, flow: int, priority: int) -> Message:
    """Return a new message in the outbox, sent unless it is SILENT, its other fields 0.

    The caller has checked the capacity.
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
    """Set all fields of ``message`` to 0."""
    message.qlen_octets = message.qoff_octets = message.qdelta_octets = 0
    message.fb_octets = 0.0
    message.rate_kbps = 0
    for word in range(PAYLOAD_WORDS):
        message.payload[word] = 0


class Arrival(NamedTuple):
    """A frame that reached a port and was just enqueued or dropped.

    ``tagged``, ``tag`` and ``mark`` are the frame's values of the mechanism's own tag: its CPID and
    timestamp, or its rate and RLQ-ID. ``qlen_octets`` is the length of its priority's queue after it,
    ``port_octets`` the length of all queues.
    """

    now_ns: int
    station: int
    flow: int
    priority: int
    octets: int
    sampled: bool
    """Whether it may be sampled (wire-formats 1.2)."""
    answerable: bool
    """Whether a message may go to its source."""
    enqueued: bool
    tagged: bool
    tag: int
    mark: int
    qlen_octets: int
    port_octets: int


class Departure(NamedTuple):
    """A frame that leaves a sender, through ``limiter`` or none, with the tag that it had, if any."""

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
    """A frame that left the port for its destination."""

    now_ns: int
    station: int
    """The source station."""
    flow: int
    priority: int
    octets: int
    probe: bool
    """Whether it is a sender's probe; ``mark`` is then its timestamp."""
    tagged: bool
    tag: int
    mark: int
    destination: int = 0
    """The receiving station in a network; below 1 if there is only one."""
    stack: NDArray[np.int64] = np.zeros(0, np.int64)
    """The records that ports added to the frame, in the order of its path; as long as the stack may get."""


class Sent(NamedTuple):
    """A sender's changes to a frame: the mechanism's tag, and the added octets."""

    tagged: bool
    tag: int
    mark: int
    added_octets: int


@interface
class CongestionPoint(Protocol):
    """One output port of a switch."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count, sample and answer a frame that was enqueued or dropped; post at most two messages."""

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag of an enqueued, tagged frame at its departure."""

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Count a frame that left the port; post at most one message."""

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Add a record to the ``stack`` of a tagged frame that left the port, and return its new mark.

        ``line_octets`` is the sum of all octets that the port has put on its line, overhead included.
        """

    def next_timer_ns(self) -> int:
        """Return the next time to call `on_timer`, NEVER_NS for none."""

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Run the due timers and post messages up to the capacity; ``qlens_octets`` is by priority."""


@interface
class Senders(Protocol):
    """The reaction points of stations 0 to n − 1."""

    def limiters(self) -> int:
        """Return the number of a station's limiters."""

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter of a frame, or NO_LIMITER for one that leaves at once."""

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that queues for a limiter."""

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the departure time of the queue's head, if nothing changes; NEVER_NS in a time-out."""

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Send a frame and return its new tag; post a probe that follows it, if due."""

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a message for one of the stations."""

    def next_station_timer_ns(self, station: int) -> int:
        """Return the time of the station's next timer."""

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the due timers of the station."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the rate of a limiter."""

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return a limiter's average round-trip time to its congestion point, NO_AVERAGE without one."""


@interface
class Receivers(Protocol):
    """The destinations after the port."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Process a frame that has left the port; post at most one answer to its station."""

    def next_report_ns(self) -> int:
        """Return the next time to call `post_reports`, NEVER_NS for none."""

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Post the due reports, up to the capacity."""


class NullCongestionPoint(Struct):
    """A congestion point that never sends a message."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
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
        """Return now."""
        return now_ns

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Leave the frame unchanged."""
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


class NullReceivers(Struct):
    """Destinations that answer nothing."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Do nothing."""

    def next_report_ns(self) -> int:
        """Return NEVER_NS."""
        return NEVER_NS

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Do nothing."""


def takes_deliveries(receivers: Receivers) -> bool:
    """Return whether ``receivers`` act on delivered frames."""
    return type(receivers).on_delivery is not NullReceivers.on_delivery


NO_CPID = 0

_BITS = 64


def signed_cpid(cpid: int) -> int:
    """Return an unsigned 64-bit ``cpid`` in the kernels' form: the signed number of the same bits."""
    return cpid - (1 << _BITS) if cpid >> (_BITS - 1) else cpid
