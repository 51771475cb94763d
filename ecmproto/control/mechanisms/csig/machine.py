"""The CSIG congestion point and mechanism, without a reaction point; tags stay in the frames.

A tag requests one of four signals. When a tagged frame is enqueued, the port compares its value of the signal
with the value in the tag. If the port is more congested, the port writes its value and locator into the tag.
The four signals are the minimum available bandwidth, the minimum share of available capacity, the maximum
delay, and the maximum queue length.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ecmproto.control.mechanisms.api.machine import Machine, PortContext
from ecmproto.control.mechanisms.api.protocol import (
    Arrival,
    CongestionPoint,
    NullCongestionPoint,
    Outbox,
)
from ecmproto.control.mechanisms.csig.parameters import CSIGParameters
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, record_from
from ecmproto.units import NS_PER_S
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.csig import AVAILABLE, CSIG, DELAY, DEPTH, SHARE

LARGEST_BUCKET = 31
_BUCKET_BITS, _LOCATOR_BITS = 5, 7
_OCTET_BITS = 8


class CSIGState:
    """Record of a port's state and counters (``kernels.record``)."""

    capacity_bps: float
    begun_ns: int
    """Start of the interval in which sent octets are counted."""
    sent_octets: int
    available_bps: float
    """Available bandwidth in the previous interval, in bit/s."""
    qlen_octets: int
    port_octets: int
    """Length of all queues after the last frame; ``qlen_octets`` is the length of the frame's queue."""
    tagged_frames: int
    replaced_frames: int
    """Number of tagged frames in which the port wrote its value and locator."""


class CSIGSettings:
    """Record of the congestion point parameters that the kernels read."""

    interval_ns: int
    rate_step_bps: float
    """Step of available bandwidth in bit/s; 0 means 1/31 of the capacity."""
    delay_step_ns: int
    depth_step_octets: int
    locator: int


@inlined
def advance(state: CSIGState, settings: CSIGSettings, now_ns: int) -> None:
    """Start a new interval if the current interval has ended."""
    intervals = (now_ns - state.begun_ns) // settings.interval_ns
    if intervals <= 0:
        return
    sent_bps = float(_OCTET_BITS * state.sent_octets) * NS_PER_S / settings.interval_ns
    # If more than one interval has passed, nothing was sent in the last interval.
    state.available_bps = max(0.0, state.capacity_bps - sent_bps) if intervals == 1 else state.capacity_bps
    state.sent_octets = 0
    state.begun_ns += intervals * settings.interval_ns


@compiled
def bucket(state: CSIGState, settings: CSIGSettings, signal: int) -> int:
    """Return the port's value of a signal, from 0 to 31, or −1 for an unknown signal."""
    if signal == AVAILABLE and settings.rate_step_bps > 0.0:
        value = int(state.available_bps / settings.rate_step_bps)
    elif signal in (AVAILABLE, SHARE):
        value = int(LARGEST_BUCKET * state.available_bps / state.capacity_bps)
    elif signal == DELAY:
        delay_ns = float(_OCTET_BITS * state.port_octets) * NS_PER_S / state.capacity_bps
        value = int(delay_ns / settings.delay_step_ns)
    elif signal == DEPTH:
        value = state.qlen_octets // settings.depth_step_octets
    else:
        return -1
    return min(LARGEST_BUCKET, value)


class CSIGPort(NullCongestionPoint):
    """The CSIG congestion point of a port."""

    state: CSIGState
    settings: CSIGSettings

    def on_arrival(self, arrival: Arrival, outbox: Outbox) -> None:
        """Record the lengths of the queues after a frame was enqueued or dropped."""
        advance(self.state, self.settings, arrival.now_ns)
        self.state.qlen_octets = arrival.qlen_octets
        self.state.port_octets = arrival.port_octets

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag, with the port's value and locator if the port is more congested."""
        state, settings = self.state, self.settings
        signal = tag >> (_BUCKET_BITS + _LOCATOR_BITS)
        value = tag >> _LOCATOR_BITS & LARGEST_BUCKET
        own = bucket(state, settings, signal)
        state.tagged_frames += 1
        if own < 0:
            return tag
        is_worse = own < value if signal in (AVAILABLE, SHARE) else own > value
        if not is_worse:
            return tag
        state.replaced_frames += 1
        return (signal << _BUCKET_BITS | own) << _LOCATOR_BITS | settings.locator

    def on_dequeue(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Count a frame that left the port."""
        advance(self.state, self.settings, now_ns)
        self.state.sent_octets += octets


class CSIGMachine(Machine):
    """CSIG with parameters."""

    tag = TagFormat(format=CSIG, tag=("t", "s", "lm"))
    shown_counters = ("tagged_frames", "replaced_frames")
    counted = MappingProxyType({CSIGPort: ("state", *shown_counters)})

    _cp: CSIGParameters

    @property
    def strips_tags(self) -> bool:
        """False, since tags are for the receiver."""
        return False

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of the port."""
        locator = self._cp.locator or context.cp_mac[-1] & (1 << _LOCATOR_BITS) - 1
        settings, state = record_from(CSIGSettings, self._cp, locator=locator), new_record(CSIGState)
        state.capacity_bps = state.available_bps = context.rate_bps
        return CSIGPort(state, settings)

    def set_capacity(self, point: CongestionPoint, capacity_bps: int) -> None:
        """Set the line rate for later signals."""
        if isinstance(point, CSIGPort):
            point.state.capacity_bps = capacity_bps

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return a remark if no frame had a tag."""
        if not isinstance(point, CSIGPort) or point.state.tagged_frames:
            return ()
        return ("CSIG wrote nothing: no frame had a tag of its EtherType (as in --ethertype csig=0x9900)",)
