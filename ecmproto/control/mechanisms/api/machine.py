"""The machines of a mechanism, and the conversion between their messages and octets.

`machine_of` returns a :class:`Machine` for a mechanism of the registry with its parameters. The objects that
it creates are driven as described in `ecmproto.control.mechanisms.api.protocol`; the mechanism's own messages
convert frames.
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
from ecmproto.control.mechanisms.api.mechanism import Mechanism, Role
from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.control.mechanisms.api.protocol import (
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
from ecmproto.kernels.structs import Struct
from ecmproto.wire.codec import Ethernet, EtherTypes, decode_lax
from ecmproto.wire.codec.tags import ECNField, TagFormat
from ecmproto.wire.flow import FlowHash, FlowKey, QueuePair
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT

UNKNOWN_NS = -1
HEADER_OCTETS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class PortContext:
    """The port that machines run at: rates in bit/s, CP address, number of stations and flows."""

    rate_bps: int
    link_rate_bps: int
    """The rate of the stations' own links."""
    cp_mac: bytes
    stations: int
    flows: int
    """The maximum number of a station's flows."""
    flight_ns: int = UNKNOWN_NS
    """The time of a probe after a data frame to its destination over an idle path."""
    hops: int = 1
    """The number of congestion points on the path of a flow."""
    ethertypes: EtherTypes = DEFAULT


class SampledFrame(NamedTuple):
    """A frame that a message is about: its captured octets and its length, without FCS."""

    octets: bytes
    length_octets: int
    msdu_offset: int
    """The offset of its payload EtherType or length."""
    queue_pair: int = 0
    """The sender's queue pair of the flow, 0 until an acknowledge has shown it."""


class AboutFlow(NamedTuple):
    """The flow of a message, as far as it is specified; its source is the receiving station."""

    destination: bytes
    vlan: int | None
    """The identifier in the outermost VLAN tag; None without one."""
    priority: int | None
    """The priority; None if the message does not specify it."""
    cn_flow: int | None = None
    """The Flow ID in the flow's frames, if any."""
    given: int | None = None
    """The flow's number within its station, if a reaction point here assigned its Flow ID."""
    among: range | None = None
    """The possible numbers of the flow within its station, if the message names its queue."""
    queue_pair: QueuePair | None = None
    """The queue pair in the message, which then alone identifies the flow."""


class ParsedFeedback(NamedTuple):
    """A message received as a frame: its fields of `protocol.Message`; the others are 0."""

    fields: Mapping[str, int]
    """The fields without station and flow, which have no numbers on a wire."""
    about: AboutFlow | None
    """The flow; None if no flow of the station is possible."""


class ParsedProbe(NamedTuple):
    """A sender's probe received as a frame."""

    mark: int
    """The mark, as in `protocol.ProbePayload`."""
    source: bytes
    about: AboutFlow | None
    """The measured flow; None for a refused probe, which has no answer."""


class DomainEdge(Protocol):
    """The functions of a domain's edge port, besides answers and the removal of tags.

    Tables are by priority, 0 to 7.
    """

    @property
    def due_ns(self) -> int:
        """The next time to call `on_timer`."""

    @property
    def strips(self) -> Sequence[bool] | None:
        """Whether frames to the host lose their tags; None for all."""

    @property
    def received(self) -> Sequence[int]:
        """The priority assigned to a frame from the host."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the operator."""

    def on_timer(self, now_ns: int) -> bytes | None:
        """Return the frame to send both ways now, if any."""

    def take_from_net(self, octets: bytes) -> tuple[bool, bytes | None]:
        """Return whether a non-data frame was for the edge itself, and its replacement for the host."""

    def take_from_host(self, octets: bytes, now_ns: int) -> bool:
        """Return whether a frame for bridges only was for the edge itself."""

    def count_entering(self, priority: int, frames: int) -> None:
        """Count frames from the host, whose VLAN tags have the priority of `received`."""

    def counters(self) -> dict[str, int]:
        """Return the counters of frames and changes."""

    def mechanism_counters(self) -> dict[str, int]:
        """Return the mechanism's own counters."""


class NoRefusals:
    """The discard counters of a mechanism without messages; a record without fields."""


class MessageDiscards:
    """The discard counters of messages that are read by the names of their fields; a record."""

    group_address: int
    """Messages to a group address."""
    foreign_address: int
    """Messages to another station, or about another station's frame."""
    malformed: int
    """Messages that are truncated, or do not identify the flow."""


class Machine:
    """A mechanism with its parameters.

    Roles without a method are idle: the port only forwards, stations send without limits, destinations do not
    answer.
    """

    name = "none"
    """The mechanism's name in the registry."""
    knows_stations = False
    """Whether the congestion point needs a frame's station."""
    flow_key: FlowKey = FlowKey(vlan=True, dst=True, priority=True, cn_tag=False)
    flow_hash: FlowHash = FlowHash()
    tag: TagFormat | ECNField | None = None
    """The tag of data frames, with its fields for the machines' tag and mark; or the ECN field of IP."""
    udp_messages: tuple[int, int] | None = None
    """The UDP destination port of messages over IP, and the first octet after it."""
    messages: Mapping[int, MessageFormat] = MappingProxyType({})
    """The kinds of messages and their formats, which `frame` and `parse_feedback` convert by field names.

    ``kinds``, ``answers`` and ``payloads`` follow from it.
    """
    kinds: Mapping[int, str] = MappingProxyType({})
    """The names of the kinds of messages."""
    answers: frozenset[int] = frozenset()
    """The kinds that destinations send, instead of a congestion point about a sampled frame."""
    payloads: Mapping[int, type[Any]] = MappingProxyType({})
    """The payload records by kind, including SILENT ones if they have any."""
    shown_fields: Mapping[str, str] = MappingProxyType({})
    """Payload fields displayed in a comment on a message, by their labels."""
    shown_counters: tuple[str, ...] = ()
    """Counters of the congestion point displayed in a summary, if no message reports its actions."""
    histogram_field = ""
    """The payload field of samples whose values, 0 to 63, are counted; empty for none."""
    feedback_label = ""
    """The label of ``Message.fb_octets``; empty for none."""
    set_point_octets: int | None = None
    """The equilibrium queue length of the congestion point."""
    refusal_record: type[Any] = NoRefusals
    """The record of `parse_feedback`'s counters, by field name."""
    probe_refusal_record: type[Any] = NoRefusals
    """The record of `parse_probe`'s counters."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "messages" not in cls.__dict__:
            return
        formats = cls.messages.items()
        payloads = {kind: each.payload for kind, each in formats if each.payload is not None}
        sampled = [each for kind, each in payloads.items() if not cls.messages[kind].is_answer]
        following: dict[str, Any] = {
            "kinds": {kind: each.name or each.format.counted_as for kind, each in formats},
            "answers": frozenset(kind for kind, each in formats if each.is_answer),
            # A silent sample has the payload of messages about samples.
            "payloads": ({SILENT: sampled[0]} if sampled else {}) | payloads,
            "refusal_record": MessageDiscards if cls.refusal_record is NoRefusals else cls.refusal_record,
        }
        for name, value in following.items():
            if name not in cls.__dict__:
                setattr(cls, name, value)

    def __init__(self, parameters: Mapping[Role, Parameters]) -> None:
        self.parameters = parameters

    @property
    def tag_octets(self) -> int:
        """The octets that the tag adds to a frame."""
        return 0 if self.tag is None else self.tag.octets

    @property
    def stack_records(self) -> int:
        """The number of records that ports can add to a frame's tag."""
        return len(self.tag.stack) if isinstance(self.tag, TagFormat) else 0

    @property
    def strips_tags(self) -> bool:
        """Whether an edge removes the tag, by its parameter ``strip`` if there is one."""
        return not isinstance(self.tag, ECNField) and bool(
            getattr(self.parameters.get(Role.EDGE), "strip", True)
        )

    def parameters_as_text(self, rate_bps: int | None = None) -> dict[str, dict[str, str]]:
        """Return the values of all parameters by role and name, with the defaults for a port's rate."""
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

        ``about`` is the frame that caused it, or one of its flow: the message goes to its source with the
        same VLAN tags, in the priority of its format. ValueError for a source that ports may not answer,
        ParameterError for a kind that is not in ``messages``.
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
        # A group has no address to answer from: the port's replaces it.
        answers = made.is_answer and not is_group(destination)
        return framed(
            layer,
            headers(about.octets, context.ethertypes),
            dst=source,
            src=destination if answers else context.cp_mac,
            priority=made.format.crafting.priority,
            ethertypes=context.ethertypes,
        )

    def format_of(self, kind: int) -> MessageFormat:
        """Return the format of a kind of message; ParameterError for one that is not in ``messages``."""
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

        None for a frame that is no message of the mechanism, or a refused one, which is counted in
        ``refusals``, a record of ``refusal_record``. ``octets`` have no FCS; ``length_octets`` is their
        number on the wire, if a snap length may have truncated them. With an empty ``station_mac`` the frame
        is for no station. Never raises, for any octets.
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
        # Without a field for the data's priority, the message's own priority is not the data's.
        priority = fields.get("priority", 0 if vlan is None else None)
        about = AboutFlow(destination, None if vlan is None else vlan.id, priority)
        return ParsedFeedback(fields, about)

    def _about_shown(
        self, fields: dict[str, int], layer: Layer, station_mac: bytes, context: PortContext, refusals: Any
    ) -> ParsedFeedback | None:
        """Return the feedback about the flow of the frame in a message."""
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
        """Return remarks on the run of ``point`` for the user."""
        return ()

    def parse_probe(self, octets: bytes, context: PortContext, refusals: Any) -> ParsedProbe | None:
        """Return the probe of a sender in the frame ``octets``; None if it is none.

        A refused one is counted in ``refusals``, a record of ``probe_refusal_record``.
        """
        return None

    def domain_edge(self, context: PortContext, port: str) -> DomainEdge | None:
        """Return the domain's edge functions of ``port``, with address ``context.cp_mac``, if any."""
        return None

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the rate of the line of ``point`` from now on; most keep their initial C."""
        return

    def set_path(self, senders: Senders, station: int, flow: int, *, hops: int, flight_ns: int) -> None:
        """Set the path of a station's flow in ``senders``; most do not distinguish paths.

        ``hops`` is the number of congestion points on it, ``flight_ns`` the time of a probe on the idle path.
        It holds from the first frame of the flow on.
        """
        return

    def tags(self, tag: NDArray[np.int64], mark: NDArray[np.int64]) -> Mapping[str, Any]:
        """Return the fields of the tags of data frames, by name, for values as in `protocol.Sent`."""
        first, second = (number.astype(np.int64).view(np.uint64) for number in (tag, mark))
        return {} if self.tag is None else self.tag.values(first, second)

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of a machine created here, by name, over all its stations."""
        return {}

    def gauges(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, float]:
        """Return the current measurements of a machine created here; each name ends in its unit."""
        return {}


def source_of(about: SampledFrame, cp_mac: bytes) -> bytes:
    """Return the source of the frame that a message is about; ValueError if ``cp_mac`` may not answer it.

    A group and the congestion point itself accept no messages, and a truncated frame has no known source.
    """
    source = about.octets[ADDRESS_OCTETS : 2 * ADDRESS_OCTETS]
    if len(about.octets) < HEADER_OCTETS or is_group(source) or source == cp_mac:
        raise ValueError("the source of the sampled frame receives no messages")
    return source


def machine_of(mechanism: Mechanism, parameters: Mapping[Role, Parameters]) -> Machine:
    """Return ``mechanism`` with ``parameters``; a role that they lack has its defaults."""
    module, _, name = mechanism.machine.rpartition(":")
    kind: type[Any] = getattr(importlib.import_module(module), name)
    chosen = {role: parameters.get(role, part()) for role, part in mechanism.roles.items()}
    made: Machine = kind(chosen)
    made.name = mechanism.name
    return made


def total(records: Any, *names: str) -> dict[str, int]:
    """Return the sums of the integer fields of ``records`` called ``names``."""
    columns = np.asarray(records)
    return {name: int(columns[name].sum()) for name in names}


class StackedCongestionPoint(Struct):
    """Two independent congestion points; ``first`` always comes first.

    Each sees every frame as it reached the port. The bound on posted messages doubles. Either may again be
    two.
    """

    first: CongestionPoint
    second: CongestionPoint

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Pass the frame to both congestion points, which count, sample and answer it."""
        self.first.on_arrival(arrival, outbox)
        self.second.on_arrival(arrival, outbox)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag as rewritten by the first congestion point, then by the second."""
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
        """Return the mark after the records of the first congestion point, then of the second."""
        mark = self.first.add_record(now_ns, line_octets, port_octets, mark, stack)
        return self.second.add_record(now_ns, line_octets, port_octets, mark, stack)

    def next_timer_ns(self) -> int:
        """Return the earlier `on_timer` time of both congestion points."""
        return min(self.first.next_timer_ns(), self.second.next_timer_ns())

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Run the due timers of each congestion point."""
        if self.first.next_timer_ns() <= now_ns:
            self.first.on_timer(now_ns, qlens_octets, outbox)
        if self.second.next_timer_ns() <= now_ns:
            self.second.on_timer(now_ns, qlens_octets, outbox)


class StackedMachine(Machine):
    """The mechanism ``upper`` on a port that the congestion point of ``lower`` watches too."""

    def __init__(self, upper: Machine, lower: Machine) -> None:
        super().__init__(upper.parameters)
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
        """Return both congestion points as one."""
        return StackedCongestionPoint(
            self._upper.congestion_point(context, generator), self._lower.congestion_point(context, generator)
        )

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the rate of the port's line in both congestion points."""
        if isinstance(point, StackedCongestionPoint):
            self._upper.set_capacity(point.first, capacity_bps)
            self._lower.set_capacity(point.second, capacity_bps)

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return the remarks on the upper mechanism's congestion point."""
        return self._upper.remarks(point.first) if isinstance(point, StackedCongestionPoint) else ()

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the upper mechanism's machine."""
        if isinstance(machine, StackedCongestionPoint):
            machine = machine.first
        return self._upper.counters(machine)


class NoControl(Machine):
    """The mechanism without control: all its roles are idle."""
