"""DBP destinations, which send rate reports, and DBP sources, which obey reports (algorithms §5 item 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    Delivery,
    Message,
    Outbox,
    Receivers,
    Senders,
    has_capacity,
    post,
)
from ecmproto.control.mechanisms.dbp.parameters import DBPEdgeParameters, DBPReactionPointParameters
from ecmproto.control.mechanisms.fecn.congestion_point import LARGEST_RATE
from ecmproto.control.mechanisms.fecn.machine import AnsweredMachine
from ecmproto.control.mechanisms.fecn.reaction_point import (
    FECNFields,
    FECNQueue,
    FECNSource,
    FECNSourceSettings,
    FECNStations,
    new_stations,
    on_return,
    queue_index,
    queues_of,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records, record_from
from ecmproto.kernels.structs import Draws, Random, Struct
from ecmproto.units import BPS_PER_KBPS
from ecmproto.wire.codec import DBPRateReport
from ecmproto.wire.flow import FlowKey


class DBPDestination:
    """Record of a destination's state (``kernels.record``)."""

    timer_ns: int
    """Time of the next reports; NEVER_NS while no source is active."""
    phase_ns: int
    """Phase of the reports; reports are due at the phase plus a multiple of the report interval."""
    last_source: int
    """Largest number of a source that was active so far; −1 before the first active source."""
    reports: int
    """Number of reports that became due."""
    unheard_frames: int
    """Number of data frames from sources outside the table, which get no reports."""


class DBPSource:
    """Record of the time of the last data from one source."""

    last_data_ns: int


class DBPDestinationSettings:
    """Record of the destination parameters that the kernels read."""

    report_interval_ns: int
    active_ns: int
    random_phase: int


def destination_settings(parameters: DBPEdgeParameters) -> DBPDestinationSettings:
    """Return the settings record for ``parameters``."""
    return record_from(DBPDestinationSettings, parameters)


@compiled
def start(
    destination: DBPDestination,
    source_times: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    generator: Random,
) -> None:
    """Initialise ``destination``; draw one random number if the phase is random."""
    destination.timer_ns = NEVER_NS
    destination.last_source = -1
    destination.phase_ns = 0
    if settings.random_phase:
        destination.phase_ns = math.floor(generator.random() * settings.report_interval_ns)
    for index in range(len(source_times)):
        source_times[index].last_data_ns = -NEVER_NS


@inlined
def next_timer_ns(destination: DBPDestination) -> int:
    """Return the time of the next reports, or NEVER_NS while no source is active."""
    return destination.timer_ns


@compiled
def record_data(
    destination: DBPDestination,
    source_times: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    source: int,
    now_ns: int,
) -> None:
    """Record a data frame from ``source`` at ``now_ns``; ``source`` is −1 for a source outside the table."""
    if source < 0 or source >= len(source_times):
        destination.unheard_frames += 1
        return
    source_times[source].last_data_ns = now_ns
    destination.last_source = max(destination.last_source, source)
    if destination.timer_ns == NEVER_NS:
        intervals = (now_ns - destination.phase_ns) // settings.report_interval_ns + 1
        destination.timer_ns = destination.phase_ns + intervals * settings.report_interval_ns


@compiled
def on_timer(
    destination: DBPDestination,
    source_times: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    now_ns: int,
    due: NDArray[np.int64],
) -> int:
    """Write the numbers of the sources that get a report now into ``due``, and return their number.

    Each call processes one due time. A late caller repeats the call while :func:`next_timer_ns` is in the
    past.
    """
    if now_ns < destination.timer_ns:
        return 0
    earliest_ns = destination.timer_ns - settings.active_ns
    count = 0
    for index in range(destination.last_source + 1):
        if source_times[index].last_data_ns >= earliest_ns:
            due[count] = index
            count += 1
    destination.reports += count
    destination.timer_ns = NEVER_NS if count == 0 else destination.timer_ns + settings.report_interval_ns
    return count


def receiving_rate(link_rate_bps: int) -> int:
    """Return the initial rate of a report: the rate of the receiving link in kb/s, below infinity."""
    return min(LARGEST_RATE, link_rate_bps // BPS_PER_KBPS)


def settings_record(parameters: DBPReactionPointParameters) -> FECNSourceSettings:
    """Return the settings record of a source that never tags."""
    return record_from(FECNSourceSettings, parameters, tag_interval_ns=0, frames_per_tag=0, random_phase=0)


@compiled
def on_report(
    source: FECNSource,
    queues: Sequence[FECNQueue],
    settings: FECNSourceSettings,
    flow: int,
    rate: int,
    now_ns: int,
) -> None:
    """Set the queue of ``flow`` to ``rate`` in kb/s; a ``flow`` of −1 is unknown."""
    rlq_id = queue_index(queues, flow) + 1 if flow >= 0 else 0
    on_return(source, queues, settings, FECNFields(rlq_id, rate), now_ns)


REPORT_KIND = 1


class DBPRound:
    """Record of due reports; the list entries from ``posted`` to ``count`` − 1 are not yet posted."""

    due_ns: int
    posted: int
    count: int


class DBPReceivers(Struct):
    """All destinations after the port; flow f of station s is source s · ``flows_each`` + f."""

    destination: DBPDestination
    source_times: Sequence[DBPSource]
    flows_each: int
    settings: DBPDestinationSettings
    round: DBPRound
    due: NDArray[np.int64]
    rate: int
    """Initial rate of reports in kb/s, which is the rate of the destinations' receiving links."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Collect the reports that are due, then record the source of a data frame."""
        begin(self.destination, self.source_times, self.settings, self.round, self.due, delivery.now_ns)
        source = delivery.station * self.flows_each + delivery.flow
        record_data(self.destination, self.source_times, self.settings, source, delivery.now_ns)

    def next_report_ns(self) -> int:
        """Return the time of the next reports."""
        if self.round.posted < self.round.count:
            return self.round.due_ns
        return next_timer_ns(self.destination)

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Post the due reports, without a priority, while the outbox has capacity."""
        begin(self.destination, self.source_times, self.settings, self.round, self.due, now_ns)
        while self.round.posted < self.round.count and has_capacity(outbox, 1):
            source = self.due[self.round.posted]
            self.round.posted += 1
            station, flow = source // self.flows_each, source % self.flows_each
            post(outbox, REPORT_KIND, now_ns, station, flow, 0)
            # In plain Python a compiled function returns a copy of a record.
            outbox.messages[outbox.posted.count - 1].rate_kbps = self.rate


@compiled
def begin(
    destination: DBPDestination,
    source_times: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    round: DBPRound,
    due: NDArray[np.int64],
    now_ns: int,
) -> None:
    """Write the sources with a report due at ``now_ns`` into ``due``, unless earlier reports are unposted."""
    if round.posted < round.count or now_ns < destination.timer_ns:
        return
    round.due_ns = destination.timer_ns
    round.posted = 0
    round.count = on_timer(destination, source_times, settings, now_ns, due)


def new_destinations(
    parameters: DBPEdgeParameters, context: PortContext, generator: np.random.Generator
) -> DBPReceivers:
    """Return destinations without active sources. Stations beyond ``sources`` have no entry."""
    sources = min(context.stations, parameters.sources) * context.flows
    destinations = DBPReceivers(
        new_record(DBPDestination),
        new_records(DBPSource, sources),
        context.flows,
        destination_settings(parameters),
        new_record(DBPRound),
        np.zeros(sources, np.int64),
        receiving_rate(context.link_rate_bps),
    )
    start(destinations.destination, destinations.source_times, destinations.settings, Draws(generator))
    return destinations


class DBPStations(FECNStations):
    """FECN sources that do not tag frames and send at the rates in reports."""

    __slots__ = ()

    def on_message(self, message: Message, now_ns: int) -> None:
        """Set the queue of the flow to the rate in the report."""
        queues = queues_of(self.slots, self.slots_each, message.station)
        on_report(
            self.sources[message.station], queues, self.settings, message.flow, message.rate_kbps, now_ns
        )


class DBPMachine(AnsweredMachine):
    """DBP with parameters."""

    flow_key: FlowKey = FlowKey(vlan=False, dst=True, priority=False, cn_tag=False)
    answer_priority = "report_priority"
    counted = MappingProxyType(
        {**AnsweredMachine.counted, DBPReceivers: ("destination", "reports", "unheard_frames")}
    )
    messages = MappingProxyType(
        {
            REPORT_KIND: MessageFormat(
                format=DBPRateReport, fields={"rate": "rate_kbps"}, is_answer=True, lowered="rate"
            )
        }
    )

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return sources without used queues."""
        return DBPStations(*new_stations(self._rp, settings_record(self._rp), context, generator))

    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        """Return destinations without active sources."""
        return new_destinations(self._edge, context, generator)
