"""DBP's destinations as replay, laboratory and live drive them (`ecmproto.mechanisms.protocol`).

Each destination numbers its sources by their stations.  A flow of a station is one destination, so a table
by station and flow is all destinations' tables of sources in one; as their reports are due at the same times,
one record keeps time for all (with a random phase: the same one for all).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.kernel import compiled
from ecmproto.mechanisms.dbp.edge import (
    Destination,
    Heard,
    Settings,
    hear,
    next_timer_ns,
    on_timer,
    settings_record,
    start,
)
from ecmproto.mechanisms.dbp.messages import receiving_rate
from ecmproto.mechanisms.dbp.parameters import EdgeParameters
from ecmproto.mechanisms.machine import Place
from ecmproto.mechanisms.protocol import Delivery, Outbox, has_room, post
from ecmproto.record import new_record, new_records
from ecmproto.structs import Draws, Struct

REPORT_KIND = 1


class Round:
    """Reports that are due and not yet posted: entries ``posted`` to ``count`` − 1 of a list; a record."""

    due_ns: int
    posted: int
    count: int


class DBPReceivers(Struct):
    """All destinations behind the port; source s · ``flows_each`` + f is flow f of station s."""

    destination: Destination
    heard: Sequence[Heard]
    flows_each: int
    settings: Settings
    round: Round
    due: NDArray[np.int64]
    rate: int
    """What reports start with: the destinations' receiving link speed, in kb/s."""

    def delivered(self, delivery: Delivery, outbox: Outbox) -> None:
        """Note where a data frame came from, after the reports that are due by then."""
        begin(self.destination, self.heard, self.settings, self.round, self.due, delivery.now_ns)
        source = delivery.station * self.flows_each + delivery.flow
        hear(self.destination, self.heard, self.settings, source, delivery.now_ns)

    def report_ns(self) -> int:
        """Return when reports are due next."""
        if self.round.posted < self.round.count:
            return self.round.due_ns
        return next_timer_ns(self.destination)

    def report(self, now_ns: int, outbox: Outbox) -> None:
        """Post the reports that are due, as far as there is room; they are about no priority."""
        begin(self.destination, self.heard, self.settings, self.round, self.due, now_ns)
        while self.round.posted < self.round.count and has_room(outbox, 1):
            source = self.due[self.round.posted]
            self.round.posted += 1
            station, flow = source // self.flows_each, source % self.flows_each
            post(outbox, REPORT_KIND, now_ns, station, flow, 0)
            # Plain Python gets a copy of a record that a compiled function returns.
            outbox.messages[outbox.posted.count - 1].rate = self.rate


@compiled
def begin(
    destination: Destination,
    heard: Sequence[Heard],
    settings: Settings,
    round: Round,
    due: NDArray[np.int64],
    now_ns: int,
) -> None:
    """Put the sources whose reports are due at ``now_ns`` into ``due``, unless others still wait there."""
    if round.posted < round.count or now_ns < destination.timer_ns:
        return
    round.due_ns = destination.timer_ns
    round.posted = 0
    round.count = on_timer(destination, heard, settings, now_ns, due)


def new_destinations(
    parameters: EdgeParameters, place: Place, generator: np.random.Generator
) -> DBPReceivers:
    """Return destinations that have heard nothing; they have no room for stations beyond ``sources``."""
    sources = min(place.stations, parameters.sources) * place.flows
    destinations = DBPReceivers(
        new_record(Destination),
        new_records(Heard, sources),
        place.flows,
        settings_record(parameters),
        new_record(Round),
        np.zeros(sources, np.int64),
        receiving_rate(place.link_rate_bps),
    )
    start(destinations.destination, destinations.heard, destinations.settings, Draws(generator))
    return destinations
