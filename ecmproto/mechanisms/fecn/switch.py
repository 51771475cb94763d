"""The FECN congestion point as replay, laboratory and live drive it (`ecmproto.mechanisms.protocol`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.fecn.congestion_point import (
    Settings,
    State,
    advertised,
    count,
    lowered,
    next_timer_ns,
    on_timer,
    settings_record,
    start,
)
from ecmproto.mechanisms.fecn.parameters import CongestionPointParameters
from ecmproto.mechanisms.machine import Place, total
from ecmproto.mechanisms.protocol import EVERY_STATION, SILENT, Arrival, Outbox, has_room, post
from ecmproto.record import new_record
from ecmproto.structs import Draws, Struct


class FECNPort(Struct):
    """One congestion point for all priorities: they share the port's output queue, whose octets add up."""

    state: State
    settings: Settings

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Count a data frame, a dropped one too."""
        if arrival.sampled:
            count(self.state, arrival.octets)

    def forwarded(self, priority: int, tag: int) -> int:
        """Return the lesser of the rate ``tag`` and the advertised one."""
        return lowered(self.state, tag)

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Do nothing: it measures at its ticks."""

    def tick_ns(self) -> int:
        """Return when the advertised rate is next updated."""
        return next_timer_ns(self.state)

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Update the advertised rate; post it, silent, for whoever draws it."""
        if now_ns < self.state.timer_ns:
            return
        qlen_octets = qlens_octets.sum()
        on_timer(self.state, self.settings, now_ns, qlen_octets)
        if has_room(outbox, 1):
            post(outbox, SILENT, now_ns, EVERY_STATION, -1, 0)
            # Plain Python gets a copy of a record that a compiled function returns.
            message = outbox.messages[outbox.posted.count - 1]
            message.qlen_octets = qlen_octets
            message.rate = advertised(self.state)


def new_port(parameters: CongestionPointParameters, place: Place, generator: np.random.Generator) -> FECNPort:
    """Return the congestion point of a port at its start."""
    port = FECNPort(new_record(State), settings_record(parameters))
    start(port.state, port.settings, Draws(generator), 0, float(place.rate_bps))
    return port


def port_counters(port: FECNPort) -> dict[str, int]:
    """Return what the congestion point has counted, by name."""
    return total(
        port.state, "updates", "idle_ticks", "limited_updates", "bounded_updates", "tags", "lowered_tags"
    )
