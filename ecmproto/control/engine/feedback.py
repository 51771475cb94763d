"""Captured feedback: frames that carry messages, converted into messages for reaction points.

Messages are PAUSE, PFC and the mechanisms' messages in any format. The mechanism's reader reads each such
frame once, and discards and counts invalid frames:

- A message is for the station with the message's destination address, if earlier frames of this station
  arrived. The message is about flow −1 if its flow has not arrived before, or does not belong to the station.
  The reaction point counts such a message, and follows its rules for unknown flows.
- PAUSE and PFC are for all stations, as if the port had sent the frame. PAUSE and PFC frames that a station
  sent stop devices other than stations, and are only counted.

Frames are not stored, so a flood of messages costs only the time to read the frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.engine.arrivals import Arrivals, EngineBatch
from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.mechanisms.api.machine import AboutFlow, Machine, PortContext
from ecmproto.control.mechanisms.api.protocol import EVERY_STATION, NO_CAUSE, Message, messages_of
from ecmproto.control.mechanisms.pause.messages import PauseDiscards
from ecmproto.control.mechanisms.pause.messages import parse_flow_control as flow_control_fields
from ecmproto.frames.batch.flows import NO_NUMBER, FlowTable
from ecmproto.frames.batch.headers import ADDRESS_OCTETS
from ecmproto.frames.batch.parse_tables import CNM, MAC_CONTROL, MESSAGE, parse_tables
from ecmproto.kernels.record import new_record, new_records
from ecmproto.wire.codec import EtherTypes

_NONE = -1
_FOR_NO_STATION = b""
_TYPE_OCTETS = 2
_FEEDBACK_ROLES = (CNM, MESSAGE, MAC_CONTROL)
_NO_MESSAGES = new_records(Message, 0)


class CapturedFeedbackCounts:
    """Counters of feedback frames; a record."""

    feedback_frames: int
    """Number of frames whose EtherType marks them as feedback."""
    heard_messages: int
    """Number of messages to reaction points; one PFC frame may contain several messages."""
    own_pauses: int
    """Number of PAUSE and PFC frames sent by stations."""


class FeedbackCounters(NamedTuple):
    """Counters of feedback frames and of discarded feedback frames, as records."""

    counts: CapturedFeedbackCounts
    mechanism: Any
    """Refusal counters of the mechanism (the machine's ``refusal_record``)."""
    flow_control: PauseDiscards


class CapturedFeedback(NamedTuple):
    """Messages of a batch: frame i carries ``messages[message[i]]`` up to, but not including, ``until[i]``.

    ``message`` and ``until`` are −1 for a frame without messages. In each message, ``station`` is a number or
    EVERY_STATION, and ``flow`` is −1 for an unknown flow. ``time_ns`` is the frame's time, and ``cause`` is
    NO_CAUSE.
    """

    message: NDArray[np.int32]
    until: NDArray[np.int32]
    messages: Sequence[Message]


def new_feedback_counters(machine: Machine) -> FeedbackCounters:
    """Return counters that are all 0."""
    return FeedbackCounters(
        new_record(CapturedFeedbackCounts), new_record(machine.refusal_record), new_record(PauseDiscards)
    )


def feedback_counters(counters: FeedbackCounters) -> dict[str, int]:
    """Return the values of the counters by name."""
    records: tuple[Any, ...] = tuple(counters)
    return {name: int(record[name]) for record in records for name in record.dtype.names}


def read_feedback(
    engine_batch: EngineBatch,
    machine: Machine,
    context: PortContext,
    flows: FlowTable,
    counters: FeedbackCounters,
) -> CapturedFeedback:
    """Return the messages that the frames of ``engine_batch`` carry.

    ``flows`` must have numbered this batch, and no later batch. The result does not depend on the batch
    boundaries.
    """
    batch, arrivals = engine_batch.batch, engine_batch.arrivals
    positions = _feedback(engine_batch, context.ethertypes)
    if len(positions) == 0:
        return no_feedback(len(batch))
    reader, earlier = FeedbackReader(machine, context, flows, counters), _EarlierFrames(arrivals, flows)
    message, until = (np.full(len(batch), _NONE, np.int32) for _ in range(2))
    messages: list[Mapping[str, int]] = []
    for position in positions.tolist():
        fields = reader.fields(
            batch.frame(position)[: arrivals.octets[position]],
            length_octets=int(arrivals.octets[position]),
            msdu_at=int(engine_batch.classes.msdu_offset[position]),
            time_ns=int(arrivals.time_ns[position]),
            number_filter=partial(earlier.numbers_before, position),
        )
        if fields:
            message[position] = len(messages)
            messages += fields
            until[position] = len(messages)
    return CapturedFeedback(message, until, messages_of(messages, machine.payloads))


def no_feedback(frames: int) -> CapturedFeedback:
    """Return the feedback of ``frames`` frames without messages."""
    none = np.full(frames, _NONE, np.int32)
    return CapturedFeedback(none, none, _NO_MESSAGES)


def _feedback(engine_batch: EngineBatch, ethertypes: EtherTypes) -> NDArray[np.int64]:
    """Return the indices of feedback frames, recognised by their EtherType or as messages over IP."""
    batch, classes = engine_batch.batch, engine_batch.classes
    # Data frames may be sampled, but feedback frames are never sampled.
    suspects = np.flatnonzero(~classes.sampled)
    if len(suspects) == 0:
        return suspects
    over_ip = np.zeros(0, np.int64)
    if engine_batch.messages is not None:
        over_ip = np.flatnonzero(engine_batch.messages)
        suspects = suspects[~engine_batch.messages[suspects]]
    at = classes.msdu_offset[suspects]
    whole = at + _TYPE_OCTETS <= batch.captured[suspects]
    suspects = suspects[whole]
    at = batch.offset[suspects] + at[whole]
    types = batch.buffer[at].astype(np.uint16) << 8 | batch.buffer[at + 1]
    chosen = suspects[np.isin(parse_tables(ethertypes).roles[types], _FEEDBACK_ROLES)]
    return np.sort(np.concatenate([chosen, over_ip])) if len(over_ip) else chosen


def is_feedback(octets: bytes, msdu_at: int, ethertypes: EtherTypes) -> bool:
    """Return whether the EtherType of a frame marks feedback. ``msdu_at`` is the offset of the MSDU."""
    if msdu_at + _TYPE_OCTETS > len(octets):
        return False
    role = parse_tables(ethertypes).roles[int.from_bytes(octets[msdu_at : msdu_at + _TYPE_OCTETS])]
    return int(role) in _FEEDBACK_ROLES


NumberFilter = Callable[[tuple[int, int]], tuple[int, int]]
"""A function that replaces the numbers of a station or flow without an earlier frame by NO_NUMBER."""


def _unchanged(numbers: tuple[int, int]) -> tuple[int, int]:
    return numbers


class FeedbackReader:
    """Parser of feedback frames, one at a time."""

    def __init__(
        self, machine: Machine, context: PortContext, flows: FlowTable, counters: FeedbackCounters
    ) -> None:
        self._machine = machine
        self._context = context
        self._flows = flows
        self._counters = counters
        self._number_filter: NumberFilter = _unchanged

    def fields(
        self,
        octets: bytes,
        *,
        length_octets: int,
        msdu_at: int,
        time_ns: int,
        number_filter: NumberFilter = _unchanged,
    ) -> list[dict[str, int]]:
        """Return the fields of the messages in a feedback frame.

        ``octets`` are the captured octets of the frame, and ``length_octets`` is the length of the frame,
        both without FCS. ``msdu_at`` is the offset of the MSDU.
        """
        self._number_filter = number_filter
        if int.from_bytes(octets[msdu_at : msdu_at + _TYPE_OCTETS]) == self._context.ethertypes.mac_control:
            messages = self._flow_control(octets)
        else:
            messages = self._message(octets, length_octets)
        self._counters.counts.feedback_frames += 1
        self._counters.counts.heard_messages += len(messages)
        return [{"sent": 1, "time_ns": time_ns, "cause": NO_CAUSE, **fields} for fields in messages]

    def _message(self, octets: bytes, length_octets: int) -> list[dict[str, int]]:
        mac = octets[:ADDRESS_OCTETS]
        station, _ = self._number_filter(self._flows.find(mac))
        station_mac = _FOR_NO_STATION if station == NO_NUMBER else mac
        parsed = self._machine.parse_feedback(
            octets, station_mac, self._context, self._counters.mechanism, length_octets=length_octets
        )
        if parsed is None:
            return []
        flow = NO_NUMBER if parsed.about is None else self._flow(mac, parsed.about)
        return [{**parsed.fields, "station": station, "flow": flow}]

    def _flow(self, mac: bytes, about: AboutFlow) -> int:
        """Return the number of the flow of station ``mac`` that a message is about, or NO_NUMBER."""
        if about.queue_pair is not None:
            return self._number_filter(self._flows.find_queue_pair(mac, about.queue_pair))[1]
        if about.cn_flow is not None:
            numbers = self._flows.find(mac, priority=about.priority, cn_flow=about.cn_flow)
            _, flow = self._number_filter(numbers)
            if flow != NO_NUMBER:
                return flow
        numbers = self._flows.find(
            mac, destination=about.destination, vlan=about.vlan, priority=about.priority
        )
        _, flow = self._number_filter(numbers)
        if flow == NO_NUMBER and about.among is not None:
            flow = self._queued_flow(mac, about, about.among)
        return flow if about.given in (None, flow) else NO_NUMBER

    def _queued_flow(self, mac: bytes, about: AboutFlow, among: range) -> int:
        """Return the number, within ``among``, of a flow from station ``mac`` to the message's source."""
        for priority in range(PRIORITIES) if about.priority is None else ():
            numbers = self._flows.find(mac, destination=about.destination, vlan=about.vlan, priority=priority)
            _, flow = self._number_filter(numbers)
            if flow in among:
                return flow
        return NO_NUMBER

    def _flow_control(self, octets: bytes) -> list[dict[str, int]]:
        if self._number_filter(self._flows.find(octets[ADDRESS_OCTETS : 2 * ADDRESS_OCTETS]))[0] >= 0:
            self._counters.counts.own_pauses += 1
            return []
        messages = flow_control_fields(
            octets, self._counters.flow_control, ethertypes=self._context.ethertypes
        )
        return [{**fields, "station": EVERY_STATION, "flow": NO_NUMBER} for fields in messages]


class _EarlierFrames:
    """The first frames of the stations and flows in the last numbered batch."""

    def __init__(self, arrivals: Arrivals, flows: FlowTable) -> None:
        self._arrivals = arrivals
        self._flows = flows
        self._firsts: tuple[dict[int, int], dict[int, int]] | None = None

    def numbers_before(self, position: int, numbers: tuple[int, int]) -> tuple[int, int]:
        """Return ``numbers`` if frames before ``position``, in any batch, use these numbers."""
        station, flow = numbers
        if station == NO_NUMBER or not self._flows.is_fresh(station, flow):
            return numbers
        if self._firsts is None:
            number = self._flows.numbers(self._arrivals.station, self._arrivals.flow)
            self._firsts = _firsts(self._arrivals.station), _firsts(number)
        if self._flows.is_fresh(station) and self._firsts[0][station] >= position:
            return NO_NUMBER, NO_NUMBER
        if flow != NO_NUMBER:
            (number,) = self._flows.numbers(np.array([station], np.int32), np.array([flow], np.int32))
            if self._firsts[1][int(number)] >= position:
                flow = NO_NUMBER
        return station, flow


def _firsts(numbers: NDArray[Any]) -> dict[int, int]:
    """Return the first index of each number."""
    values, first = np.unique(numbers, return_index=True)
    return dict(zip(values.tolist(), first.tolist(), strict=True))
