"""Base class of mechanisms with parameters, which also converts messages to and from frames.

`machine_of` returns a :class:`Machine` for a registered mechanism with parameters. A machine creates the
congestion point, the senders and the receivers. `ecmproto.control.mechanisms.api.protocol` describes the use
of these objects.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.frames import (
    ADDRESS_OCTETS,
    MessageFormat,
    framed,
    headers,
    is_group,
    outer_vlan,
    priority_of,
)
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role, isolation_of
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.api.protocol import (
    PAYLOAD_WORDS,
    SILENT,
    Arrival,
    CongestionPoint,
    Message,
    NullCongestionPoint,
    NullReactionPoints,
    NullReceivers,
    Outbox,
    Receivers,
    Senders,
    fields_of,
)
from ecmproto.errors import ParameterError
from ecmproto.wire.codec import Ethernet, EtherTypes, decode_lax
from ecmproto.wire.codec.tags import ECNField, TagFormat
from ecmproto.wire.flow import FlowHash, FlowKey, QueuePair
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT

UNKNOWN_NS = -1
HEADER_OCTETS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class PortContext:
    """The port at which a mechanism runs: rates in bit/s, address, and numbers of stations and flows."""

    rate_bps: int
    link_rate_bps: int
    """Rate of each station's link in bit/s."""
    cp_mac: bytes
    stations: int
    flows: int
    """Maximum number of flows per station."""
    flight_ns: int = UNKNOWN_NS
    """Time that a probe takes on an idle path after a data frame to the same destination."""
    hops: int = 1
    """Number of congestion points on the path of a flow."""
    ethertypes: EtherTypes = DEFAULT


class SampledFrame(NamedTuple):
    """A frame that a message is about, as captured octets and length without FCS."""

    octets: bytes
    length_octets: int
    msdu_offset: int
    """Offset of the payload's EtherType or length field."""
    queue_pair: int = 0
    """Queue pair of the flow at the sender; 0 until an acknowledge contains the queue pair."""


class AboutFlow(NamedTuple):
    """The flow of a message, as far as the message identifies the flow; the source is the receiver."""

    destination: bytes
    vlan: int | None
    """VLAN identifier in the outermost VLAN tag; ``None`` for an untagged flow."""
    priority: int | None
    """Priority of the flow; ``None`` if the message does not contain the priority."""
    cn_flow: int | None = None
    """Flow ID in the frames of the flow; ``None`` without a Flow ID."""
    given: int | None = None
    """Number of the flow within the station, if a reaction point of this process assigned the Flow ID."""
    among: range | None = None
    """Possible numbers of the flow within the station, if the message identifies a queue."""
    queue_pair: QueuePair | None = None
    """Queue pair in the message; a queue pair alone identifies the flow."""


class ParsedFeedback(NamedTuple):
    """A message received as a frame. Fields of `protocol.Message` that a frame does not contain are 0."""

    fields: Mapping[str, int]
    """Message fields except station and flow, whose numbers are not transmitted."""
    about: AboutFlow | None
    """Flow of the message; ``None`` if the station cannot have such a flow."""


class ParsedProbe(NamedTuple):
    """A sender's probe received as a frame."""

    mark: int
    """Mark of the probe, as in `protocol.ProbePayload`."""
    source: bytes
    about: AboutFlow | None
    """Measured flow; ``None`` for a refused probe, which gets no answer."""


class DomainEdge(Protocol):
    """Functions of a domain's edge port, except answers and the removal of tags.

    Tables have one entry per priority, 0 to 7.
    """

    @property
    def due_ns(self) -> int:
        """Next time to call `on_timer`."""

    @property
    def strips(self) -> Sequence[bool] | None:
        """Whether frames to the host lose their tags, by priority; ``None`` means for all priorities."""

    @property
    def received(self) -> Sequence[int]:
        """New priority of a frame from the host, by the priority in the frame."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator."""

    def on_timer(self, now_ns: int) -> bytes | None:
        """Return the frame to send now to both the host and the network, or ``None``."""

    def take_from_net(self, octets: bytes) -> tuple[bool, bytes | None]:
        """Return whether a non-data frame was addressed to the edge, and a replacement for the host."""

    def take_from_host(self, octets: bytes, now_ns: int) -> bool:
        """Return whether a frame for bridges was addressed to the edge."""

    def count_entering(self, priority: int, frames: int) -> None:
        """Count frames from the host whose VLAN tags already have the priority of `received`."""

    def counters(self) -> dict[str, int]:
        """Return the counters of frames and mode changes."""

    def mechanism_counters(self) -> dict[str, int]:
        """Return the counters of the mechanism."""


class NoRefusals:
    """Record without fields, for mechanisms without messages."""


class MessageDiscards:
    """Record of discard counters of messages."""

    group_address: int
    """Number of messages to a group address."""
    foreign_address: int
    """Number of messages to another station or about a frame of another station."""
    malformed: int
    """Number of messages that are truncated or do not identify a flow."""


class Machine:
    """Base class of mechanisms with parameters.

    The base class is idle: the port only forwards, stations send without limits, and destinations send no
    answers.
    """

    name = "none"
    """Name of the mechanism in the registry."""
    knows_stations = False
    """Whether the congestion point needs the source station of a frame."""
    flow_key: FlowKey = FlowKey(vlan=True, dst=True, priority=True, cn_tag=False)
    flow_hash: FlowHash = FlowHash()
    tag: TagFormat | ECNField | None = None
    """Tag of data frames with the fields for tag and mark, or ECN field of IP; ``None`` without a tag."""
    udp_messages: tuple[int, int] | None = None
    """UDP destination port of messages over IP, and first octet of the UDP payload."""
    messages: Mapping[int, MessageFormat] = MappingProxyType({})
    """Format of each message kind, used by `frame` and `parse_feedback`.

    ``kinds``, ``answers`` and ``payloads`` are derived from ``messages``.
    """
    kinds: Mapping[int, str] = MappingProxyType({})
    """Name of each message kind."""
    answers: frozenset[int] = frozenset()
    """Message kinds that destinations send."""
    payloads: Mapping[int, type[Any]] = MappingProxyType({})
    """Payload record type of each message kind; SILENT samples can also have a payload."""
    shown_fields: Mapping[str, str] = MappingProxyType({})
    """Payload fields, by label, that a comment on a message displays."""
    counted: Mapping[type[Any], tuple[str, ...]] = MappingProxyType({})
    """Attribute of the records, followed by the names of the counters in these records, by type of struct."""
    shown_counters: tuple[str, ...] = ()
    """Counters of the congestion point that a summary displays, for mechanisms without messages."""
    histogram_field = ""
    """Payload field of samples, from 0 to 63, that is counted in a histogram; empty for no histogram."""
    feedback_label = ""
    """Label of ``Message.fb_octets``; empty if the mechanism does not use the field."""
    set_point_octets: int | None = None
    """Equilibrium queue length of the congestion point in octets; ``None`` without an equilibrium.

    The parameter ``qeq_octets`` of the congestion point, if any, sets this attribute.
    """
    refusal_record: type[Any] = NoRefusals
    """Record type of the refusal counters of `parse_feedback`."""
    probe_refusal_record: type[Any] = NoRefusals
    """Record type of the refusal counters of `parse_probe`."""
    answer_priority = ""
    """Edge parameter with the priority of answers; empty for the priority of the message format."""

    _cp: Any
    _rp: Any
    _edge: Any
    """Parameters of the congestion point, the reaction point and the edge; ``None`` without the role."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        records = len(cls.tag.stack) if isinstance(cls.tag, TagFormat) else 0
        if records > PAYLOAD_WORDS:  # a traced message has one word for each record
            needed = f"at most {PAYLOAD_WORDS} records in a stack"
            raise ParameterError(name=f"{cls.__name__}.tag", needed=needed, got=str(records))
        if "messages" not in cls.__dict__:
            return
        formats = cls.messages.items()
        payloads = {kind: each.payload for kind, each in formats if each.payload is not None}
        sampled = [each for kind, each in payloads.items() if not cls.messages[kind].is_answer]
        following: dict[str, Any] = {
            "kinds": {kind: each.name or each.format.counted_as for kind, each in formats},
            "answers": frozenset(kind for kind, each in formats if each.is_answer),
            # A silent sample has the same payload type as messages about samples.
            "payloads": ({SILENT: sampled[0]} if sampled else {}) | payloads,
            "refusal_record": MessageDiscards if cls.refusal_record is NoRefusals else cls.refusal_record,
        }
        for name, value in following.items():
            if name not in cls.__dict__:
                setattr(cls, name, value)

    def __init__(self, parameters: Mapping[Role, Parameters]) -> None:
        self.parameters = parameters
        self._cp, self._rp, self._edge = (parameters.get(role) for role in Role)
        self.set_point_octets = getattr(self._cp, "qeq_octets", self.set_point_octets)

    @property
    def tag_octets(self) -> int:
        """Number of octets that the tag adds to a frame."""
        return 0 if self.tag is None else self.tag.octets

    @property
    def stack_records(self) -> int:
        """Maximum number of records that ports can add to the tag of a frame."""
        return len(self.tag.stack) if isinstance(self.tag, TagFormat) else 0

    @property
    def isolation(self) -> tuple[int, int] | None:
        """Return the watched priority and the queue of its isolated flows; ``None`` without isolation."""
        return isolation_of(self.parameters)

    @property
    def strips_tags(self) -> bool:
        """Whether an edge removes the tag; the edge parameter ``strip``, if any, decides."""
        return not isinstance(self.tag, ECNField) and bool(getattr(self._edge, "strip", True))

    def parameters_as_text(self, rate_bps: int | None = None) -> dict[str, dict[str, str]]:
        """Return the values of all parameters by role and name, including defaults for the port rate."""
        return {role.value: parameters.as_text() for role, parameters in self.parameters.items()}

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of a port, initialised at time 0."""
        return NullCongestionPoint()

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return the reaction points of ``context.stations`` stations, initialised at time 0."""
        return NullReactionPoints()

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return the destinations after the port, initialised at time 0."""
        return NullReceivers()

    def frame(self, message: Message, about: SampledFrame, context: PortContext) -> bytes:
        """Return ``message`` as a frame, padded to 60 octets, without FCS.

        ``about`` is the frame that caused the message, or another frame of the same flow. The result goes to
        the source of ``about``, with the same VLAN tags and the priority of ``answer_priority`` or of the
        message format. Raises ValueError if a port may not answer this source. Raises ParameterError if the
        message kind is not in ``messages``.
        """
        made = self.format_of(message.kind)
        layer = made.layer_of(fields_of(message, self.payloads))
        destination, source = about.octets[:ADDRESS_OCTETS], about.octets[ADDRESS_OCTETS:][:ADDRESS_OCTETS]
        if not made.is_answer:
            source = source_of(about, context.cp_mac)
        if made.destination:
            layer = layer.replace(**{made.destination: destination})
        if made.format.shows is Ethernet:
            shown = about.octets[: max(made.shown_octets, made.format.min_shown_octets)]
            layer = layer.replace(
                **{made.format.layout[-1].key: shown.ljust(made.format.min_shown_octets, b"\0")}
            )
        # A group address cannot be a source address, so the port address replaces it.
        answers = made.is_answer and not is_group(destination)
        return framed(
            layer,
            headers(about.octets, context.ethertypes),
            dst=source,
            src=destination if answers else context.cp_mac,
            priority=getattr(self._edge, self.answer_priority, made.format.crafting.priority),
            ethertypes=context.ethertypes,
        )

    def format_of(self, kind: int) -> MessageFormat:
        """Return the format of a message kind. Raises ParameterError if the kind is not in ``messages``."""
        if kind not in self.messages:
            known = ", ".join(map(str, self.messages)) or "none, without messages"
            raise ParameterError(name="message", needed=f"a kind of {known}", got=f"kind {kind}")
        return self.messages[kind]

    def parse_feedback(
        self,
        octets: bytes,
        station_mac: bytes,
        context: PortContext,
        refusals: Any,
        *,
        length_octets: int | None = None,
    ) -> ParsedFeedback | None:
        """Return the feedback in the frame ``octets`` for the reaction points of ``station_mac``.

        The result is ``None`` for a frame that is not a message of this mechanism, and for a refused message.
        Refused messages are counted in ``refusals``, a record of type ``refusal_record``. ``octets`` have no
        FCS. ``length_octets`` is the frame length on the wire, for a frame that a snap length may have
        truncated. An empty ``station_mac`` matches no station. Invalid octets never raise an exception.
        """
        if not self.messages:
            return None
        frame = decode_lax(octets, original_octets=length_octets, ethertypes=context.ethertypes)
        formats = {each.format for each in self.messages.values()}
        layer = next((layer for layer in frame.layers if type(layer) in formats), None)
        known = (kind for kind, each in self.messages.items() if each.format is type(layer))
        kind = next((kind for kind in known if layer is not None and self.messages[kind].is_of(layer)), None)
        if layer is None or kind is None:
            wrong = frame.error is not None and frame.error.layer in {each.prefix for each in formats}
            refusals.malformed += wrong
            return None
        header, made = frame[Ethernet], self.messages[kind]
        if is_group(header.dst):
            refusals.group_address += 1
            return None
        if header.dst != station_mac:
            refusals.foreign_address += 1
            return None
        fields = {"kind": kind, **made.fields_of(layer)}
        if made.format.shows is Ethernet:
            return self._about_shown(fields, layer, station_mac, context, refusals)
        destination = getattr(layer, made.destination) if made.destination else header.src
        vlan = outer_vlan(frame)
        # The priority of the message is not the priority of the data.
        priority = fields.get("priority", 0 if vlan is None else None)
        about = AboutFlow(destination, None if vlan is None else vlan.id, priority)
        return ParsedFeedback(fields, about)

    def _about_shown(
        self, fields: dict[str, int], layer: Layer, station_mac: bytes, context: PortContext, refusals: Any
    ) -> ParsedFeedback | None:
        """Return the feedback about the flow of the sampled frame in a message."""
        shown: bytes = getattr(layer, layer.layout[-1].key)
        if len(shown) < HEADER_OCTETS:
            refusals.malformed += 1
            return None
        sampled = headers(shown, context.ethertypes)
        if sampled[Ethernet].src != station_mac:
            refusals.foreign_address += 1
            return None
        vlan, priority = outer_vlan(sampled), priority_of(sampled)
        about = AboutFlow(sampled[Ethernet].dst, None if vlan is None else vlan.id, priority)
        return ParsedFeedback({**fields, "priority": priority}, about)

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return remarks for the user about the run of ``point``."""
        return ()

    def parse_probe(self, octets: bytes, context: PortContext, refusals: Any) -> ParsedProbe | None:
        """Return the sender's probe in the frame ``octets``, or ``None`` if the frame is not a probe.

        A refused probe is counted in ``refusals``, a record of type ``probe_refusal_record``.
        """
        return None

    def domain_edge(self, context: PortContext, port: str) -> DomainEdge | None:
        """Return the domain's edge functions of ``port`` with address ``context.cp_mac``, or ``None``."""
        return None

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the line rate of ``point``. Most mechanisms ignore the change."""
        return

    def set_path(self, senders: Senders, station: int, flow: int, *, hops: int, flight_ns: int) -> None:
        """Set the path of a station's flow in ``senders``. Most mechanisms ignore paths.

        ``hops`` is the number of congestion points on the path. ``flight_ns`` is the time that a probe takes
        on the idle path. The caller sets the path before the first frame of the flow.
        """
        return

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> Mapping[str, Any]:
        """Return the tag fields of data frames by name.

        ``tag`` and ``mark`` are values as in `protocol.Sent`.
        """
        first, second = (number.astype(np.int64).view(np.uint64) for number in (tag, mark))
        return {} if self.tag is None else self.tag.values(first, second)

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of ``machine``, by name, summed over all stations."""
        for kind, (records, *names) in self.counted.items():
            if isinstance(machine, kind):
                return total(getattr(machine, records), *names)
        return {}

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the current measurements of ``machine`` by name; each name ends in the unit."""
        return {}


def source_of(about: SampledFrame, cp_mac: bytes) -> bytes:
    """Return the source of the frame that a message is about.

    Raises ValueError if ``cp_mac`` may not answer the source.

    A group address and the congestion point itself receive no messages. A truncated frame has no known
    source.
    """
    source = about.octets[ADDRESS_OCTETS : 2 * ADDRESS_OCTETS]
    if len(about.octets) < HEADER_OCTETS or is_group(source) or source == cp_mac:
        raise ValueError("the source of the sampled frame receives no messages")
    return source


def machine_of(mechanism: Mechanism, parameters: Mapping[Role, Parameters]) -> Machine:
    """Return ``mechanism`` with ``parameters``; a role without parameters has the defaults."""
    module, _, name = mechanism.machine.rpartition(":")
    kind: type[Any] = getattr(importlib.import_module(module), name)
    chosen = {role: parameters.get(role, part()) for role, part in mechanism.roles.items()}
    made: Machine = kind(chosen)
    made.name = mechanism.name
    return made


def total(records: Any, *names: str) -> dict[str, int]:
    """Return, for each name in ``names``, the sum of this integer field over ``records``."""
    columns = np.asarray(records)
    return {name: int(columns[name].sum()) for name in names}


class StackedCongestionPoint(NullCongestionPoint):
    """Two independent congestion points; each call runs ``first`` before ``second``.

    Both congestion points process each frame as the frame arrived at the port. The maximum number of posted
    messages is twice the maximum of one congestion point. Either congestion point can also be a
    `StackedCongestionPoint`. Neither may isolate flows.
    """

    first: CongestionPoint
    second: CongestionPoint

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Pass the frame to both congestion points, which count, sample and answer the frame."""
        self.first.on_arrival(arrival, outbox)
        self.second.on_arrival(arrival, outbox)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag after a change by the first and then by the second congestion point."""
        return self.second.rewrite_tag(priority, self.first.rewrite_tag(priority, tag))

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Count a frame that left the queue in both congestion points."""
        self.first.on_dequeue(now_ns, station, priority, octets, port_octets, outbox)
        self.second.on_dequeue(now_ns, station, priority, octets, port_octets, outbox)

    def add_record(
        self, now_ns: int, line_octets: int, port_octets: int, mark: int, stack: NDArray[np.int64]
    ) -> int:
        """Return the mark after the first and then the second congestion point added a record."""
        mark = self.first.add_record(now_ns, line_octets, port_octets, mark, stack)
        return self.second.add_record(now_ns, line_octets, port_octets, mark, stack)

    def next_timer_ns(self) -> int:
        """Return the earlier of the next timers of both congestion points."""
        return min(self.first.next_timer_ns(), self.second.next_timer_ns())

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Run the due timers of each congestion point."""
        if self.first.next_timer_ns() <= now_ns:
            self.first.on_timer(now_ns, qlens_octets, outbox)
        if self.second.next_timer_ns() <= now_ns:
            self.second.on_timer(now_ns, qlens_octets, outbox)


class StackedMachine(Machine):
    """The mechanism ``upper`` on a port at which a congestion point of ``lower`` also runs."""

    def __init__(self, upper: Machine, lower: Machine) -> None:
        super().__init__(upper.parameters)
        if self.isolation is not None:
            # PFC must stop the queue of the previous device. Only a network has this queue.
            needed = f"none with {upper.name}, except in the lab"
            raise ParameterError(name="flow control", needed=needed, got=lower.name)
        self.name: str = f"{upper.name} over {lower.name}"
        self.knows_stations: bool = upper.knows_stations or lower.knows_stations
        for name in (
            "flow_key", "flow_hash", "tag", "udp_messages", "messages", "kinds", "payloads",
            "answers", "shown_fields", "shown_counters", "histogram_field", "feedback_label",
            "set_point_octets", "refusal_record", "probe_refusal_record", "senders", "set_path", "receivers",
            "frame", "parse_feedback", "parse_probe", "domain_edge", "gauges", "parameters_as_text",
        ):  # fmt: skip
            setattr(self, name, getattr(upper, name))
        self._upper, self._lower = upper, lower

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion points of both mechanisms as one `StackedCongestionPoint`."""
        return StackedCongestionPoint(
            self._upper.congestion_point(context, generator), self._lower.congestion_point(context, generator)
        )

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the line rate of the port in both congestion points."""
        if isinstance(point, StackedCongestionPoint):
            self._upper.set_capacity(point.first, capacity_bps)
            self._lower.set_capacity(point.second, capacity_bps)

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return the remarks of the upper mechanism on its congestion point."""
        return self._upper.remarks(point.first) if isinstance(point, StackedCongestionPoint) else ()

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the upper mechanism."""
        if isinstance(machine, StackedCongestionPoint):
            machine = machine.first
        return self._upper.counters(machine)


class NoControl(Machine):
    """The mechanism without congestion control: all roles are idle."""
