"""Messages, and the three interfaces that the engine drives: the same for every mechanism.

A mechanism's machines are structs (``ecmproto.kernels.structs``) with the methods below.  Frames go in
as plain numbers; what comes out is a decision, or a :class:`Message` posted to the caller's outbox.  Whoever
drives them asks for the next timer and calls it when its time has come, before anything else of that time::

    CongestionPoint     one output port of a switch, all its priorities
    Senders             the reaction points of many stations, each with limiters of its own
    Receivers           what the destinations behind the port do with tags and probes

They run compiled, called by their addresses, and as plain Python.  `mechanisms.api.machine` has how
they are made, and how what they say becomes octets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""Instead of an average round-trip time: there was no sample, or the mechanism measures none."""

EVENT_MESSAGES = 16
"""More messages, frames and notes than one event makes; ticks and reports look for room themselves."""
SILENT = 0
"""The kind of a message that is not sent: a sample that found nothing to say.  Others are a mechanism's."""
PAUSE_KIND = 100
PFC_KIND = 101
PROBE_KIND = 102
"""A frame that a sender puts in band, behind the one that it is about; to the destination of its flow."""


PAYLOAD_WORDS = 8


class Message:
    """A message that a machine posts, or a sample that stayed SILENT; a record.

    All messages have this head; what a mechanism says besides is in the payload, a record of its own.
    """

    kind: int
    sent: int
    """1 unless it is SILENT or its frame's source may not be answered."""
    time_ns: int
    cause: int
    """The caller's number of the frame that was sampled or delivered, NO_CAUSE for none."""
    station: int
    """Whom it is for; EVERY_STATION: all that feed the port."""
    flow: int
    """Which of the station's flows it is about, −1 for none."""
    priority: int
    qlen_octets: int
    qoff_octets: int
    qdelta_octets: int
    fb_octets: float
    """The feedback as its mechanism's rules have it, below 0 for congestion."""
    rate_kbps: int
    """The rate that it advertises, 0 if it is none of rates."""
    payload: Annotated[NDArray[np.int64], PAYLOAD_WORDS]
    """The other fields of the message: the record that its mechanism declares for its kind."""


class FlowControlPayload:
    """The payload of a message of PAUSE_KIND or PFC_KIND; a record."""

    enable_vector: int
    quanta: int


class ProbePayload:
    """The payload of a message of PROBE_KIND; a record."""

    mark: int
    """The mark that the probe's frame carries, such as a time."""


flow_control_payload = payload_view(FlowControlPayload, "payload")
probe_payload = payload_view(ProbePayload, "payload")

SHARED_PAYLOADS: dict[int, type[Any]] = {
    PAUSE_KIND: FlowControlPayload,
    PFC_KIND: FlowControlPayload,
    PROBE_KIND: ProbePayload,
}
"""The payloads of the kinds that are no one mechanism's."""


def payload_columns(messages: NDArray[Any], kind: type[Any]) -> NDArray[Any]:
    """Return the payloads of ``messages`` as an array of records of ``kind``."""
    dtype = record_dtype(cast(Any, kind))
    words: NDArray[Any] = messages["payload"][:, : dtype.itemsize // messages["payload"].itemsize]
    return np.ascontiguousarray(words).view(dtype)[:, 0]


def fields_of(message: Any, payloads: Mapping[int, type[Any]]) -> dict[str, Any]:
    """Return a message's fields by name: those of its head and, by its kind, those of its payload."""
    fields = dict(zip(message.dtype.names, message.item(), strict=True))
    words = fields.pop("payload")
    payload = payloads.get(fields["kind"]) or SHARED_PAYLOADS.get(fields["kind"])
    if payload is not None:
        dtype = record_dtype(cast(Any, payload))
        values = words[: dtype.itemsize // words.itemsize].view(dtype)[0].item()
        fields |= zip(dtype.names or (), values, strict=True)
    return fields


def messages_of(found: Sequence[Mapping[str, Any]], payloads: Mapping[int, type[Any]]) -> Sequence[Message]:
    """Return messages with the fields that are ``found``, those of a payload by the record of its kind."""
    messages: Any = new_records(Message, len(found))
    columns = np.asarray(messages)
    kinds = [fields.get("kind", SILENT) for fields in found]
    for name in {name for fields in found for name in fields} & set(columns.dtype.names or ()):
        columns[name] = [fields.get(name, 0) for fields in found]
    for kind, payload in (SHARED_PAYLOADS | dict(payloads)).items():
        of_kind = [index for index, each in enumerate(kinds) if each == kind]
        if not of_kind:
            continue
        values = np.zeros(len(of_kind), record_dtype(cast(Any, payload)))
        for name in values.dtype.names or ():
            values[name] = [found[index].get(name, 0) for index in of_kind]
        words = values.view(np.int64).reshape(len(of_kind), -1)
        columns["payload"][of_kind, : words.shape[1]] = words
    typed: Sequence[Message] = messages
    return typed


class Posted:
    """The number of messages in an outbox, and the frame that machines handle now; a record."""

    count: int
    cause: int
    """The caller's number of the frame that machines are told about now, NO_CAUSE for none."""


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
def has_room(outbox: Outbox, count: int) -> bool:
    """Return whether ``count`` more messages may be posted."""
    return outbox.posted.count + count <= len(outbox.messages)


@inlined
def post(outbox: Outbox, kind: int, now_ns: int, station: int, flow: int, priority: int) -> Message:
    """Return a new message in the outbox, sent unless it is SILENT, its other fields 0.

    The caller has made sure that there is room.
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
    """A frame that came to a port: it was just enqueued or dropped.

    ``tagged``, ``tag`` and ``mark`` are what the frame carries of the mechanism's own tag: its CPID and
    timestamp, or its rate and RLQ-ID.  ``qlen_octets`` is the length of its priority's queue after it,
    ``port_octets`` that of all queues.
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
    """A frame that leaves a sender, through ``limiter`` or none, as it came: with its tag, if it had one."""

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
    """Its source."""
    flow: int
    priority: int
    octets: int
    probe: bool
    """Whether it is a sender's probe; ``mark`` is its timestamp then."""
    tagged: bool
    tag: int
    mark: int
    destination: int = 0
    """Where it came, the number of a station in a network; below 1 where there is but one."""


class Sent(NamedTuple):
    """The change that a sender makes to a frame it sends: the mechanism's tag, and the octets it added."""

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
        """Return the tag that an enqueued, tagged frame has when it leaves."""

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Count a frame that left the port; post at most one message."""

    def next_timer_ns(self) -> int:
        """Return when `on_timer` is next needed, NEVER_NS if it is not."""

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Run the timers that are due; ``qlens_octets`` is by priority.  Post as far as there is room."""


@interface
class Senders(Protocol):
    """The reaction points of stations 0 to n − 1."""

    def limiters(self) -> int:
        """Return how many limiters a station has."""

    def route(self, station: int, flow: int, priority: int, now_ns: int) -> int:
        """Return the limiter that a frame queues behind, or NO_LIMITER: it leaves at once."""

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Count a frame that queues behind a limiter."""

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return when the head of the queue may leave, if nothing changes; NEVER_NS in a time-out."""

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Send a frame and return the tag it carries now; post a probe if one follows it."""

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to a message for one of the stations."""

    def next_station_timer_ns(self, station: int) -> int:
        """Return when the station's next timer is due."""

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Run the station's timers that are due."""

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the rate of a limiter."""

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return a limiter's average round-trip time to its congestion point, NO_AVERAGE without one."""


@interface
class Receivers(Protocol):
    """The destinations behind the port."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Take a frame that has left the port; post at most one answer to its station."""

    def next_report_ns(self) -> int:
        """Return when `post_reports` is next needed, NEVER_NS if it is not."""

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Post the reports that are due, as far as there is room."""


class NullCongestionPoint(Struct):
    """A congestion point that never sends a message."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Do nothing."""

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag as it came."""
        return tag

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing."""

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
        """Leave the frame as it is."""
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
    """Return whether ``receivers`` act on frames that come to them."""
    return type(receivers).on_delivery is not NullReceivers.on_delivery


NO_CPID = 0

_BITS = 64


def signed_cpid(cpid: int) -> int:
    """Return an unsigned 64-bit ``cpid`` as kernels hold it: the signed number of the same bits."""
    return cpid - (1 << _BITS) if cpid >> (_BITS - 1) else cpid
