"""The HPCC reaction point: a window for each flow, and a rate of one window per round-trip time.

Each acknowledgement runs Algorithm 1 of the paper. For each link of the path, the records of two frames give
the queue and the octets sent in the base round-trip time T. The sum of both, as a share of the link capacity
in T, is the utilisation of the link. The maximum utilisation of all links enters an average U. The weight in
the average is the time between the two records, divided by T.

    U ≥ η, or max_stage consecutive additive increases:  W = W^c · η/U + W_AI
    otherwise:                                           W = W^c + W_AI

Each acknowledgement updates the window W. The reference window W^c is updated once per round trip, so that a
queue is not counted twice. As in the public simulator, W is at most the initial window and at least the
window for the minimum rate. The first acknowledgement of a path only stores the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    NO_LIMITER,
    Departure,
    Message,
    Outbox,
    Sent,
)
from ecmproto.control.mechanisms.hpcc.congestion_point import NUMBER_BITS
from ecmproto.control.mechanisms.hpcc.parameters import HPCCReactionPointParameters
from ecmproto.control.mechanisms.limiter import NEVER_NS, RateLimiter, leave, leaves_ns, set_rate
from ecmproto.control.mechanisms.window import (
    SEQUENCES,
    STALE,
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
from ecmproto.kernels.structs import payload_view
from ecmproto.units import NS_PER_S
from ecmproto.wire.formats.hpcc import (
    GBPS,
    QLEN_BITS,
    QLEN_UNIT,
    RECORDS,
    SENT_BITS,
    SENT_UNIT,
    TIME_BITS,
    INTTag,
)

_TIMES = 1 << TIME_BITS
_MAX_AGE_NS = (SENT_UNIT << SENT_BITS) * 8 // max(GBPS)
"""Maximum age of usable records: the octet counter of the fastest link wraps in this time."""
_RATE_AT = TIME_BITS + SENT_BITS + QLEN_BITS
_OCTET_BITS = 8
_TAG_OCTETS = INTTag.fixed_octets


class AckPayload:
    """Record of an acknowledgement's payload: records of ports, and ``mark`` and ``tag`` of the tag."""

    record1: int
    record2: int
    record3: int
    record4: int
    record5: int
    mark: int
    tag: int


ack_payload = payload_view(AckPayload, "payload")


class HPCCLimiter(RateLimiter, Window):
    """Record of the reaction point of one flow (``kernels.record``)."""

    window_octets: float
    """Window W in octets."""
    reference_octets: float
    """Reference window W^c in octets."""
    utilisation: float
    """Average utilisation U."""
    stage: int
    """Number of consecutive additive increases (incStage)."""
    update_octets: int
    """Octet number after which an acknowledgement changes W^c (lastUpdateSeq); 0 before the first."""
    measured_ns: int
    """Time of the acknowledgement that contained ``records``."""
    mark: int
    """Mark of the acknowledgement that contained ``records``, with hops and path."""
    records: Annotated[NDArray[np.int64], RECORDS]
    """Records of the last acknowledgement (L)."""


class HPCCStation(WindowStation):
    """Record of a station's timer and counters."""

    unmeasured: int
    """Number of acknowledgements without records, or with more hops than records in a stack."""
    new_paths: int
    """Number of acknowledgements for a new path, including the first acknowledgement of each flow."""
    updates: int
    """Number of changes of a reference window."""
    multiplicative: int
    """Number of changes of a reference window that followed the utilisation."""


class HPCCSettings:
    """Record of the reaction point parameters that the kernels read."""

    eta: float
    max_stage: int
    base_rtt_ns: int
    increase_octets: int
    first_octets: float
    """Initial and maximum window in octets."""
    floor_octets: float
    """Minimum window in octets."""
    timeout_ns: int


@compiled
def measure(limiter: HPCCLimiter, settings: HPCCSettings, records: NDArray[np.int64], hops: int) -> None:
    """Update U from the records of ``hops`` links, and store the records (MeasureInflight)."""
    base_ns, busiest, busiest_ns = settings.base_rtt_ns, 0.0, 0
    for hop in range(hops):
        new, old = records[hop], limiter.records[hop]
        limiter.records[hop] = new
        elapsed_ns = (new >> SENT_BITS + QLEN_BITS) - (old >> SENT_BITS + QLEN_BITS) & _TIMES - 1
        if elapsed_ns == 0:
            continue
        units = (new >> QLEN_BITS) - (old >> QLEN_BITS) & (1 << SENT_BITS) - 1
        queue = min(new & (1 << QLEN_BITS) - 1, old & (1 << QLEN_BITS) - 1)
        octets_per_ns = GBPS[new >> _RATE_AT & 7] / _OCTET_BITS
        sent = float(units * SENT_UNIT) / elapsed_ns
        share = float(queue * QLEN_UNIT) / (octets_per_ns * base_ns) + sent / octets_per_ns
        if share > busiest:
            busiest, busiest_ns = share, elapsed_ns
    weight = min(busiest_ns, base_ns) / base_ns
    limiter.utilisation = (1.0 - weight) * limiter.utilisation + weight * busiest


@compiled
def compute_window(
    station: HPCCStation, limiter: HPCCLimiter, settings: HPCCSettings, changes_reference: bool
) -> None:
    """Set the window from U, between the minimum and the maximum window (ComputeWind)."""
    share = limiter.utilisation / settings.eta
    follows = share >= 1.0 or limiter.stage >= settings.max_stage
    window = limiter.reference_octets
    if follows and share > 0.0:
        window /= share
    window = min(settings.first_octets, max(settings.floor_octets, window + settings.increase_octets))
    limiter.window_octets = window
    if changes_reference:
        limiter.reference_octets = window
        limiter.stage = 0 if follows else limiter.stage + 1
        station.updates += 1
        station.multiplicative += int(follows)


@compiled
def acknowledge(
    station: HPCCStation, limiter: HPCCLimiter, settings: HPCCSettings, message: Message, now_ns: int
) -> None:
    """React to an acknowledgement of a flow (NewAck)."""
    payload = ack_payload(message)
    if acknowledged(station, limiter, payload.tag, now_ns) == STALE:
        return
    hops = payload.mark >> NUMBER_BITS
    if not 1 <= hops <= RECORDS:
        station.unmeasured += 1
        return
    is_old = now_ns - limiter.measured_ns >= _MAX_AGE_NS
    limiter.measured_ns = now_ns
    if payload.mark != limiter.mark or limiter.update_octets == 0 or is_old:
        station.new_paths += 1
        limiter.mark = payload.mark
        for hop in range(RECORDS):
            limiter.records[hop] = message.payload[hop]
        limiter.update_octets = limiter.next_octets
        return
    measure(limiter, settings, message.payload, hops)
    changes_reference = limiter.acked_octets > limiter.update_octets
    compute_window(station, limiter, settings, changes_reference)
    if changes_reference:
        limiter.update_octets = limiter.next_octets
    set_rate(limiter, now_ns, rate_of(settings, limiter))


@inlined
def rate_of(settings: HPCCSettings, limiter: HPCCLimiter) -> float:
    """Return the rate R = W/T in bit/s."""
    return limiter.window_octets * _OCTET_BITS * NS_PER_S / settings.base_rtt_ns


class HPCCStations(WindowStations):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    points: Sequence[HPCCStation]
    slots: Sequence[HPCCLimiter]
    settings: HPCCSettings

    def on_enqueue(self, station: int, limiter: int) -> None:
        """Start a flow at the first frame."""
        slot = self.slots[station * self.slots_each + limiter]
        if slot.started == 0:
            slot.started = 1
            slot.window_octets = slot.reference_octets = self.settings.first_octets
            slot.utilisation = 1.0
            slot.rate_bps = rate_of(self.settings, slot)

    def next_tx_ns(self, station: int, limiter: int, now_ns: int) -> int:
        """Return the earliest departure time of the first frame in the queue; NEVER_NS for a full window."""
        slot = self.slots[station * self.slots_each + limiter]
        if float(slot.next_octets - slot.acked_octets) >= slot.window_octets:
            return NEVER_NS
        return leaves_ns(slot, now_ns)

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Count a frame at the limiter, and add a tag without records."""
        if departure.limiter == NO_LIMITER:
            return Sent(departure.tagged, departure.tag, departure.mark, 0)
        added = 0 if departure.tagged else _TAG_OCTETS
        slot = self.slots[departure.station * self.slots_each + departure.limiter]
        send(
            self.points[departure.station], slot, departure.octets + added, self.settings.timeout_ns,
            departure.now_ns,
        )  # fmt: skip
        leave(slot, departure.now_ns, departure.octets + added)
        return Sent(True, slot.next_octets % SEQUENCES, 0, added)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to an acknowledgement."""
        slot = slot_of(self, message)
        if slot != NO_LIMITER:
            acknowledge(self.points[message.station], self.slots[slot], self.settings, message, now_ns)

    def on_station_timer(self, station: int, now_ns: int) -> None:
        """Stop counting octets in flight for each flow without an acknowledgement within the timeout."""
        point, first = self.points[station], station * self.slots_each
        point.due_ns = NEVER_NS
        for slot in self.slots[first : first + self.slots_each]:
            times_out(point, slot, self.settings.timeout_ns, now_ns)

    def limit_bps(self, station: int, limiter: int) -> float:
        """Return the current rate of the flow in bit/s."""
        return self.slots[station * self.slots_each + limiter].rate_bps


def new_stations(parameters: HPCCReactionPointParameters, context: PortContext) -> HPCCStations:
    """Return the reaction points of all stations before the first frames, with a record per flow."""
    first_octets = context.link_rate_bps * parameters.base_rtt_ns / (_OCTET_BITS * NS_PER_S)
    floor_octets = parameters.min_rate_bps * parameters.base_rtt_ns / (_OCTET_BITS * NS_PER_S)
    settings = record_from(
        HPCCSettings, parameters, first_octets=first_octets, floor_octets=min(first_octets, floor_octets)
    )
    return HPCCStations(*new_windows(HPCCStation, HPCCLimiter, parameters.max_flows, context), settings)
