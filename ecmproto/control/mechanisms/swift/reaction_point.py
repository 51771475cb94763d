"""The Swift reaction point: a window in packets for each flow, which follows the delay of acknowledgements.

Each acknowledgement runs Algorithm 1 of the paper. The delay is the time since the acknowledged frame was
sent. The target delay grows with the number of hops, and with 1/√cwnd (section 3.5).

    delay < target:               cwnd grows by ai per round trip
    otherwise:                    cwnd · max(1 − β · (delay − target)/delay, 1 − max_mdf)
    lost frame, or time-out:      cwnd · (1 − max_mdf)
    retx_reset time-outs:         min_cwnd

A window decreases at most once per round trip: the acknowledged frame was sent after the last decrease.
While the window is below 1, a frame leaves every delay/cwnd. Otherwise, acknowledgements clock the frames.

- A packet is as long as the largest frame of the flow so far.
- As each frame is acknowledged, an acknowledgement of more octets than a packet shows a loss.
- Only a smaller window sets the time of the last decrease, as in htsim. In the printed algorithm (line 27),
  an unchanged window also sets this time. Each acknowledgement in a long queue would then postpone the next
  decrease.
- Destinations of the laboratory answer at once. Hence there is no endpoint delay, and no second window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER, Departure, Message, Outbox, Sent
from ecmproto.control.mechanisms.hpcc.reaction_point import ack_payload
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.swift.parameters import SwiftReactionPointParameters
from ecmproto.control.mechanisms.window import (
    SEQUENCES,
    Window,
    WindowStation,
    WindowStations,
    acknowledged,
    new_windows,
    send,
    slot_of,
    times_out,
)
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import record_from
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.hpcc import TIME_BITS, INTTag

HOPS_BITS = 16
HOPS = (1 << HOPS_BITS) - 1
"""Mask for the hops in a tag; the time is in the higher bits."""
_TIMES = 1 << TIME_BITS
_OCTET_BITS = 8
_TAG_OCTETS = INTTag.fixed_octets


class SwiftWindow(Window):
    """Record of the reaction point of one flow (``kernels.record``)."""

    cwnd: float
    """Window in packets."""
    packet_octets: int
    """Length of the largest frame so far."""
    sent_ns: int
    """Time of the last frame."""
    rtt_ns: int
    """Delay of the last acknowledgement."""
    decreased_ns: int
    """Time of the last decrease."""
    retransmits: int
    """Number of time-outs since the last acknowledgement (retransmit_cnt)."""


class SwiftStation(WindowStation):
    """Record of a station's timer and counters."""

    increases: int
    decreases: int
    losses: int
    """Number of acknowledgements that showed a loss."""


class SwiftSettings:
    """Record of the reaction point parameters that the kernels read."""

    base_target_ns: int
    hop_ns: int
    fs_range_ns: int
    alpha: float
    """Factor of 1/√cwnd in the target delay, in ns."""
    offset_ns: float
    """Term of flow scaling that is 0 together with the first at fs_max_cwnd (the paper's β of scaling)."""
    increase: float
    beta: float
    max_mdf: float
    first_cwnd: float
    min_cwnd: float
    max_cwnd: float
    retransmit_threshold: int
    timeout_ns: int
    line_bps: float


@compiled
def target_ns(settings: SwiftSettings, cwnd: float, hops: int) -> float:
    """Return the target delay of a window (section 3.5)."""
    scaling = min(settings.alpha / math.sqrt(cwnd) + settings.offset_ns, float(settings.fs_range_ns))
    return settings.base_target_ns + hops * settings.hop_ns + max(0.0, scaling)


@inlined
def change(
    station: SwiftStation, window: SwiftWindow, settings: SwiftSettings, cwnd: float, now_ns: int
) -> None:
    """Set the window within the bounds, and the time of a decrease (lines 26 to 28)."""
    cwnd = min(settings.max_cwnd, max(settings.min_cwnd, cwnd))
    station.increases += int(cwnd > window.cwnd)
    if cwnd < window.cwnd:
        station.decreases += 1
        window.decreased_ns = now_ns
    window.cwnd = cwnd


@compiled
def react(
    station: SwiftStation, window: SwiftWindow, settings: SwiftSettings, octets: int, hops: int, now_ns: int
) -> None:
    """React to the acknowledgement of ``octets`` with the delay ``rtt_ns`` (lines 4 to 14 and 22 to 28)."""
    cwnd, delay_ns = window.cwnd, float(window.rtt_ns)
    can_decrease = now_ns - window.decreased_ns >= window.rtt_ns
    window.retransmits = 0
    target = target_ns(settings, cwnd, hops)
    if octets > window.packet_octets:
        station.losses += 1
        if can_decrease:
            cwnd *= 1.0 - settings.max_mdf
    elif delay_ns < target:
        added = settings.increase * (float(octets) / float(window.packet_octets))
        cwnd += added / cwnd if cwnd >= 1.0 else added
    elif can_decrease:
        cwnd *= max(1.0 - settings.beta * ((delay_ns - target) / delay_ns), 1.0 - settings.max_mdf)
    change(station, window, settings, cwnd, now_ns)


@compiled
def time_out(station: SwiftStation, window: SwiftWindow, settings: SwiftSettings, now_ns: int) -> None:
    """React to a time-out (lines 15 to 21 and 26 to 28)."""
    cwnd = window.cwnd
    window.retransmits += 1
    if window.retransmits >= settings.retransmit_threshold:
        cwnd = settings.min_cwnd
    elif now_ns - window.decreased_ns >= window.rtt_ns:
        cwnd *= 1.0 - settings.max_mdf
    change(station, window, settings, cwnd, now_ns)


class SwiftStations(WindowStations):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    points: Sequence[SwiftStation]
    slots: Sequence[SwiftWindow]
    settings: SwiftSettings

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Start a flow at the first frame."""
        slot = self.slots[station * self.slots_each + limiter]
        if slot.started == 0:
            slot.started = 1
            slot.cwnd = min(self.settings.max_cwnd, max(self.settings.min_cwnd, self.settings.first_cwnd))
            slot.rtt_ns = self.settings.base_target_ns

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the earliest departure time of the first frame in the queue; NEVER_NS for a full window."""
        slot = self.slots[station * self.slots_each + limiter]
        if slot.cwnd < 1.0:
            return max(now_ns, slot.sent_ns + math.ceil(float(slot.rtt_ns) / slot.cwnd))
        in_flight = slot.next_octets - slot.acked_octets + slot.packet_octets
        return NEVER_NS if float(in_flight) > slot.cwnd * float(slot.packet_octets) else now_ns

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame, and add a tag with the time."""
        if departure.limiter == NO_LIMITER:
            return Sent(departure.tagged, departure.tag, departure.mark, 0)
        added, now_ns = 0 if departure.tagged else _TAG_OCTETS, departure.now_ns
        slot = self.slots[departure.station * self.slots_each + departure.limiter]
        octets = departure.octets + added
        send(self.points[departure.station], slot, octets, self.settings.timeout_ns, now_ns)
        slot.packet_octets, slot.sent_ns = max(slot.packet_octets, octets), now_ns
        return Sent(True, now_ns % _TIMES << HOPS_BITS, slot.next_octets % SEQUENCES, added)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to an acknowledgement."""
        index = slot_of(self, message)
        if index == NO_LIMITER:
            return
        point, slot, payload = self.points[message.station], self.slots[index], ack_payload(message)
        octets = acknowledged(point, slot, payload.mark, now_ns)
        if octets > 0:
            slot.rtt_ns = (now_ns - (payload.tag >> HOPS_BITS)) % _TIMES
            react(point, slot, self.settings, octets, payload.tag & HOPS, now_ns)

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Reduce the window of each flow without an acknowledgement within the timeout."""
        point, first = self.points[station], station * self.slots_each
        point.due_ns = NEVER_NS
        for slot in self.slots[first : first + self.slots_each]:
            if times_out(point, slot, self.settings.timeout_ns, now_ns):
                time_out(point, slot, self.settings, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the rate of a window per round trip in bit/s, at most the rate of the link."""
        slot = self.slots[station * self.slots_each + limiter]
        window_bits = slot.cwnd * float(_OCTET_BITS * slot.packet_octets)
        return min(self.settings.line_bps, window_bits * NS_PER_S / float(max(1, slot.rtt_ns)))

    def rtt_average_ns(self, station: int, limiter: int) -> float:
        """Return the delay of the last acknowledgement."""
        return float(self.slots[station * self.slots_each + limiter].rtt_ns)


def new_stations(parameters: SwiftReactionPointParameters, context: PortContext) -> SwiftStations:
    """Return the reaction points of all stations before the first frames, with a record per flow."""
    slowest, fastest = parameters.fs_min_cwnd**-0.5, parameters.fs_max_cwnd**-0.5
    alpha = parameters.fs_range_ns / (slowest - fastest)
    settings = record_from(
        SwiftSettings, parameters, alpha=alpha, offset_ns=-alpha * fastest, line_bps=context.link_rate_bps
    )
    return SwiftStations(*new_windows(SwiftStation, SwiftWindow, parameters.max_flows, context), settings)
