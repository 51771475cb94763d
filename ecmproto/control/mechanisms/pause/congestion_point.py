"""The senders of PAUSE and PFC, which compare an occupancy with two thresholds (algorithms §6).

An :class:`OccupancyMeter` measures one occupancy: the frames of one input, or one output queue, if necessary
by class. A :class:`FlowControlState` is the state of the other end of one link. Several meters may stop a
link at the same time, and the link resumes when the last of these meters resumes. With PFC, a class is a
priority. With PAUSE, the only class is 0. For each change of an occupancy, the caller runs::

    change = judge(meter, settings, occupancy_octets)
    if change != 0:
        signal = demand(state, settings, now_ns, number, change)    # for each affected link

With ``pause_on = input``, the affected link is the link of the input. With ``output``, all links that send to
the queue are affected. The caller sends a frame if ``signal.enable_vector`` is not 0. ``on_timer`` refreshes
long stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    Arrival,
    NullCongestionPoint,
    Outbox,
    flow_control_payload,
    has_capacity,
    post,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.pause.parameters import GenerationParameters
from ecmproto.control.mechanisms.pause.reaction_point import ALL_PRIORITIES
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.units import quanta_to_ns

CLASSES = 8


class OccupancyMeter:
    """Record of the comparison of an occupancy with the XOFF and XON thresholds (``kernels.record``)."""

    above: int
    """1 after the occupancy exceeds XOFF, and 0 after the occupancy drops to XON."""


class FlowControlState:
    """Record of the stops in force on one link, by class; all fields are initially 0."""

    demands: Annotated[NDArray[np.int64], CLASSES]
    """Number of meters that stop the class."""
    refresh_ns: Annotated[NDArray[np.int64], CLASSES]
    """Time of the next refresh, if the class is stopped."""
    since_ns: Annotated[NDArray[np.int64], CLASSES]
    """Start of the stop, if the class is stopped."""
    stopped_ns: Annotated[NDArray[np.int64], CLASSES]
    """Total time of completed stops of the class."""
    xoff_frames: int
    xon_frames: int
    refresh_frames: int


class FlowControlSettings:
    """Record of the flow control parameters that the kernels read."""

    high_octets: int
    low_octets: int
    pause_quanta: int
    refresh_after_ns: int
    class_mask: int
    """Bit mask of the classes that the port stops."""
    alpha: float
    """Ratio of the XOFF threshold to the free memory; 0 for static thresholds."""
    shared_octets: int
    """Shared memory in octets; dynamic XON thresholds are ``hysteresis_octets`` below XOFF."""
    hysteresis_octets: int


class Signal(NamedTuple):
    """A frame with ``quanta`` for the classes in ``enable_vector``; 0 in ``enable_vector`` means no frame."""

    enable_vector: int
    quanta: int


def flow_control_settings(parameters: GenerationParameters, *, rate_bps: int) -> FlowControlSettings:
    """Return the settings record for ``parameters`` on a link of ``rate_bps``."""
    return record_from(
        FlowControlSettings, parameters, class_mask=sum(1 << number for number in parameters.classes),
        refresh_after_ns=quanta_to_ns(parameters.pause_quanta, rate_bps) // 2,
        alpha=0.0, shared_octets=0, hysteresis_octets=0,
    )  # fmt: skip


@inlined
def judge(meter: OccupancyMeter, settings: FlowControlSettings, occupancy_octets: int) -> int:
    """Return 1 if the occupancy starts to require a stop, −1 if the requirement ends, otherwise 0."""
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
    """Apply a ``change`` to class ``number``; return XOFF for the first stop, and XON after the last stop."""
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
    """Return a frame that refreshes all stops that are due at ``now_ns``.

    The time of the next refresh counts from ``now_ns``, so a late call does not delay later refreshes.
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
    """Return the next time to call ``on_timer``, or NEVER_NS if no class is stopped."""
    first_ns = NEVER_NS
    for number in range(CLASSES):
        if state.demands[number] > 0:
            first_ns = min(first_ns, state.refresh_ns[number])
    return first_ns


class RefreshClock:
    """Record of the next refresh of stops (``kernels.record``)."""

    stops: int
    """Number of stopped classes on all links."""
    refresh_ns: int
    """Lower bound of the next refresh time, if ``stops`` is not 0."""
    buffered_octets: int
    """Number of octets in the frames of all links."""


class FlowControlPoint(NullCongestionPoint):
    """Comparison of a port's occupancy with the thresholds, by class, or by input and class.

    ``octets`` and ``meters`` have CLASSES consecutive entries for each link in ``links``. A link is either
    the link of one station or all links together.
    """

    octets: NDArray[np.int64]
    meters: Sequence[OccupancyMeter]
    links: Sequence[FlowControlState]
    clock: RefreshClock
    settings: Sequence[FlowControlSettings]
    kind: int
    by_priority: bool
    """Whether classes are priorities; otherwise the only class is 0."""
    by_station: bool
    """Whether the frames of each station are counted and stopped separately."""

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count an enqueued frame; post XOFF if the occupancy exceeds the XOFF threshold."""
        if arrival.enqueued:
            _change(self, arrival.now_ns, arrival.station, arrival.priority, arrival.octets, outbox)

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Subtract a frame that left; post XON if the occupancy drops to the XON threshold."""
        _change(self, now_ns, station, priority, -octets, outbox)

    def next_timer_ns(self) -> int:
        """Return a lower bound of the next refresh time."""
        return self.clock.refresh_ns if self.clock.stops > 0 else NEVER_NS

    def on_timer(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Refresh the stops that are due."""
        _refresh(self, now_ns, outbox)


@compiled
def _change(
    point: FlowControlPoint, now_ns: int, station: int, priority: int, octets: int, outbox: Outbox
) -> None:
    """Change the occupancy of a link by ``octets``, and stop or resume the link's stations if required."""
    link = station if point.by_station else 0
    if link < 0:
        return
    number = priority if point.by_priority else 0
    index = link * CLASSES + number
    point.octets[index] += octets
    point.clock.buffered_octets += octets
    settings = point.settings[link]
    if settings.alpha > 0.0:
        _share(settings, point.clock.buffered_octets)
    change = judge(point.meters[index], settings, point.octets[index])
    if change == 0:
        return
    signal = demand(point.links[link], point.settings[link], now_ns, number, change)
    if signal.enable_vector == 0:
        return
    if point.clock.stops == 0:
        # All later stops have a later refresh.
        point.clock.refresh_ns = point.links[link].refresh_ns[number]
    point.clock.stops += change
    _post_signal(point, now_ns, link, number, signal, outbox)


@inlined
def _share(settings: FlowControlSettings, buffered_octets: int) -> None:
    """Set the dynamic thresholds from the free memory (Choudhury and Hahne, 1998)."""
    free_octets = max(0, settings.shared_octets - buffered_octets)
    settings.high_octets = int(settings.alpha * float(free_octets))
    # A stopped input still has frames in the queue, and resumes when the last of them leaves.
    settings.low_octets = max(0, settings.high_octets - settings.hysteresis_octets)


@compiled
def _refresh(point: FlowControlPoint, now_ns: int, outbox: Outbox) -> None:
    first_ns = NEVER_NS
    for link in range(len(point.links)):
        due_ns = next_timer_ns(point.links[link])
        if due_ns <= now_ns:
            if not has_capacity(outbox, 1):
                return
            signal = on_timer(point.links[link], point.settings[link], now_ns)
            _post_signal(point, now_ns, link, _lowest(signal.enable_vector), signal, outbox)
            due_ns = next_timer_ns(point.links[link])
        first_ns = min(first_ns, due_ns)
    point.clock.refresh_ns = first_ns


@compiled
def _post_signal(
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
