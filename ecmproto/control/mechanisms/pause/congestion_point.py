"""Who sends PAUSE and PFC, and when: occupancy against two thresholds (algorithms §6).

There are two kinds of record.  A :class:`OccupancyMeter` watches one occupancy: what frames of one input
(and class) take of the memory, or one output queue (and class).  A :class:`FlowControlState` is what one
link's upstream end has been told; it may be asked to stop by several meters at once, and resumes when the
last of them does.  A class is a priority with PFC; with PAUSE there is class 0 alone.  For each change of an
occupancy::

    change = judge(meter, settings, occupancy_octets)
    if change != 0:
        signal = demand(state, settings, now_ns, number, change)    # of every link concerned

``pause_on = input`` concerns the input's own link, ``output`` every link that feeds the queue.  A frame
is sent if ``signal.enable_vector`` is not 0; ``on_timer`` refreshes what has stopped for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    Arrival,
    Outbox,
    flow_control_payload,
    has_room,
    post,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.parameters import GenerationParameters
from ecmproto.control.mechanisms.pause.reaction_point import ALL_PRIORITIES
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.kernels.structs import Struct
from ecmproto.units import quanta_to_ns

CLASSES = 8


class OccupancyMeter:
    """An occupancy compared with the XOFF and XON thresholds; a record (``kernels.record``)."""

    above: int
    """1 from when the occupancy exceeds the high mark until it is at or below the low one, else 0."""


class FlowControlState:
    """The stops in force on one link, per class; a record.  Zeroed, it is at its start."""

    demands: Annotated[NDArray[np.int64], CLASSES]
    """How many meters want the class stopped."""
    refresh_ns: Annotated[NDArray[np.int64], CLASSES]
    """When the stop is refreshed, if the class is stopped."""
    since_ns: Annotated[NDArray[np.int64], CLASSES]
    """When the class was stopped, if it is."""
    stopped_ns: Annotated[NDArray[np.int64], CLASSES]
    """How long the class was stopped in all, up to its last XON."""
    xoff_frames: int
    xon_frames: int
    refresh_frames: int


class FlowControlSettings:
    """The parameters as the kernels read them; a record."""

    high_octets: int
    low_octets: int
    pause_quanta: int
    refresh_after_ns: int
    class_mask: int
    """Bit n: class n is ever stopped."""


class Signal(NamedTuple):
    """A frame to send: ``quanta`` for the classes in ``enable_vector``; none if that is 0."""

    enable_vector: int
    quanta: int


def flow_control_settings(parameters: GenerationParameters, *, rate_bps: int) -> FlowControlSettings:
    """Return the record of settings for ``parameters`` on a link of ``rate_bps``."""
    return record_from(
        FlowControlSettings, parameters, class_mask=sum(1 << number for number in parameters.classes),
        refresh_after_ns=quanta_to_ns(parameters.pause_quanta, rate_bps) // 2,
    )  # fmt: skip


@inlined
def judge(meter: OccupancyMeter, settings: FlowControlSettings, occupancy_octets: int) -> int:
    """Return 1 if the occupancy now wants a stop, −1 if it wants that no more, 0 if nothing changed."""
    if meter.above == 0 and occupancy_octets > settings.high_octets:
        meter.above = 1
        return 1
    if meter.above == 1 and occupancy_octets <= settings.low_octets:
        meter.above = 0
        return -1
    return 0


@compiled
def demand(
    state: FlowControlState, settings: FlowControlSettings, now_ns: int, number: int, change: int
) -> Signal:
    """Take a meter's ``change`` of class ``number``; return XOFF for the first demand, XON after the last."""
    if not (settings.class_mask >> number) & 1:
        return Signal(0, 0)
    before = state.demands[number]
    state.demands[number] = before + change
    if before == 0 and change > 0:
        state.since_ns[number] = now_ns
        state.refresh_ns[number] = now_ns + settings.refresh_after_ns
        state.xoff_frames += 1
        return Signal(1 << number, settings.pause_quanta)
    if before > 0 and before + change == 0:
        state.stopped_ns[number] += now_ns - state.since_ns[number]
        state.xon_frames += 1
        return Signal(1 << number, 0)
    return Signal(0, 0)


@compiled
def on_timer(state: FlowControlState, settings: FlowControlSettings, now_ns: int) -> Signal:
    """Return one frame that refreshes every stop that is due at ``now_ns``.

    The next refresh counts from this one, early enough even if this one was late.
    """
    due = 0
    for number in range(CLASSES):
        if state.demands[number] > 0 and state.refresh_ns[number] <= now_ns:
            due |= 1 << number
            state.refresh_ns[number] = now_ns + settings.refresh_after_ns
    if due == 0:
        return Signal(0, 0)
    state.refresh_frames += 1
    return Signal(due, settings.pause_quanta)


@compiled
def next_timer_ns(state: FlowControlState) -> int:
    """Return when ``on_timer`` has something to do, NEVER_NS if nothing is stopped."""
    first_ns = NEVER_NS
    for number in range(CLASSES):
        if state.demands[number] > 0:
            first_ns = min(first_ns, state.refresh_ns[number])
    return first_ns


@compiled
def stopped_ns(state: FlowControlState, number: int, now_ns: int) -> int:
    """Return how long class ``number`` was stopped in all, up to ``now_ns``."""
    running_ns = now_ns - state.since_ns[number] if state.demands[number] > 0 else 0
    return int(state.stopped_ns[number] + running_ns)


class RefreshClock:
    """The next refresh of stops; a record (``kernels.record``)."""

    stops: int
    """How many classes are stopped, of all links."""
    refresh_ns: int
    """While that is not 0: no stop is due before this."""


class FlowControlPoint(Struct):
    """The occupancy of a port compared with the thresholds, by input and class or by class alone.

    ``octets`` and ``meters`` have CLASSES entries for each link of ``links``, one link after the other.  A
    link is a station's, or all of them together.
    """

    octets: NDArray[np.int64]
    meters: Sequence[OccupancyMeter]
    links: Sequence[FlowControlState]
    clock: RefreshClock
    settings: Sequence[FlowControlSettings]
    """Of each link."""
    kind: int
    by_priority: bool
    """Whether classes are priorities; else there is class 0 alone."""
    by_station: bool
    """Whether each station's frames count by themselves, and it alone is stopped."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued frame; post XOFF if that exceeds the XOFF threshold."""
        if arrival.enqueued:
            _change(self, arrival.now_ns, arrival.station, arrival.priority, arrival.octets, outbox)

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag as it came."""
        return tag

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Take the frame off; post XON if that reaches the XON threshold."""
        _change(self, now_ns, station, priority, -octets, outbox)

    def next_timer_ns(self) -> int:
        """Return when the next refresh may be due: never later than it is."""
        return self.clock.refresh_ns if self.clock.stops > 0 else NEVER_NS

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Refresh the stops that are due."""
        _refresh(self, now_ns, outbox)


@compiled
def _change(
    point: FlowControlPoint, now_ns: int, station: int, priority: int, octets: int, outbox: Outbox
) -> None:
    """Add a frame to a link's occupancy or take it off, and tell its stations if they must stop or start."""
    link = station if point.by_station else 0
    if link < 0:
        return
    number = priority if point.by_priority else 0
    index = link * CLASSES + number
    point.octets[index] += octets
    change = judge(point.meters[index], point.settings[link], point.octets[index])
    if change == 0:
        return
    signal = demand(point.links[link], point.settings[link], now_ns, number, change)
    if signal.enable_vector == 0:
        return
    if point.clock.stops == 0:
        # Later stops are due later: this is the first until it has been refreshed.
        point.clock.refresh_ns = point.links[link].refresh_ns[number]
    point.clock.stops += change
    _tell(point, now_ns, link, number, signal, outbox)


@compiled
def _refresh(point: FlowControlPoint, now_ns: int, outbox: Outbox) -> None:
    first_ns = NEVER_NS
    for link in range(len(point.links)):
        due_ns = next_timer_ns(point.links[link])
        if due_ns <= now_ns:
            if not has_room(outbox, 1):
                return
            signal = on_timer(point.links[link], point.settings[link], now_ns)
            _tell(point, now_ns, link, _lowest(signal.enable_vector), signal, outbox)
            due_ns = next_timer_ns(point.links[link])
        first_ns = min(first_ns, due_ns)
    point.clock.refresh_ns = first_ns


@compiled
def _tell(
    point: FlowControlPoint, now_ns: int, link: int, number: int, signal: Signal, outbox: Outbox
) -> None:
    station = link if point.by_station else EVERY_STATION
    message = post(outbox, point.kind, now_ns, station, -1, number)
    message.qlen_octets = point.octets[link * CLASSES + number]
    fields = flow_control_payload(message)
    fields.enable_vector = signal.enable_vector if point.by_priority else ALL_PRIORITIES
    fields.quanta = signal.quanta


@compiled
def _lowest(enable_vector: int) -> int:
    number = 0
    while not (enable_vector >> number) & 1:
        number += 1
    return number
