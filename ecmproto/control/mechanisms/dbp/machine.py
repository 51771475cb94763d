"""DBP: destinations' rate reports, the sources that obey them, and its machine (algorithms §5 item 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import PortContext, total
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
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
    source_settings_record,
)
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.kernels.kernel import compiled, inlined
from ecmproto.kernels.record import new_record, new_records, record_from
from ecmproto.kernels.structs import Draws, Random, Struct
from ecmproto.units import BPS_PER_KBPS
from ecmproto.wire.codec import DBPRateReport
from ecmproto.wire.flow import FlowKey


class DBPDestination:
    """The state of a destination; a record (``kernels.record``)."""

    timer_ns: int
    """The time of the next reports; NEVER_NS while no source is active."""
    phase_ns: int
    """The phase of reports, which are due at multiples of their interval plus this."""
    last_source: int
    """The largest number of an active source so far, −1 before the first."""
    reports: int
    """Reports that became due."""
    unheard_frames: int
    """Data frames from sources beyond the table, which get no reports."""


class DBPSource:
    """The time of the last data from one source; a record."""

    heard_ns: int


class DBPDestinationSettings:
    """The parameters as the kernels read them; a record."""

    report_interval_ns: int
    active_ns: int
    random_phase: int


def destination_settings(parameters: DBPEdgeParameters) -> DBPDestinationSettings:
    """Return the record of settings for ``parameters``."""
    return record_from(DBPDestinationSettings, parameters)


@compiled
def start(
    destination: DBPDestination,
    heard: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    generator: Random,
) -> None:
    """Initialise ``destination``; one random number if the phase is random."""
    destination.timer_ns = NEVER_NS
    destination.last_source = -1
    destination.phase_ns = 0
    if settings.random_phase:
        destination.phase_ns = math.floor(generator.random() * settings.report_interval_ns)
    for index in range(len(heard)):
        heard[index].heard_ns = -NEVER_NS


@inlined
def next_timer_ns(destination: DBPDestination) -> int:
    """Return the time of the next reports; NEVER_NS while no source is active."""
    return destination.timer_ns


@compiled
def hear(
    destination: DBPDestination,
    heard: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    source: int,
    now_ns: int,
) -> None:
    """Record a data frame of the source numbered ``source`` (−1: beyond the table) at ``now_ns``."""
    if source < 0 or source >= len(heard):
        destination.unheard_frames += 1
        return
    heard[source].heard_ns = now_ns
    destination.last_source = max(destination.last_source, source)
    if destination.timer_ns == NEVER_NS:
        intervals = (now_ns - destination.phase_ns) // settings.report_interval_ns + 1
        destination.timer_ns = destination.phase_ns + intervals * settings.report_interval_ns


@compiled
def on_timer(
    destination: DBPDestination,
    heard: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    now_ns: int,
    due: NDArray[np.int64],
) -> int:
    """Write the numbers of the sources to report to into ``due``; return how many entries it has.

    Each call handles one due time: a late caller repeats it while :func:`next_timer_ns` is in the past.
    """
    if now_ns < destination.timer_ns:
        return 0
    earliest_ns = destination.timer_ns - settings.active_ns
    count = 0
    for index in range(destination.last_source + 1):
        if heard[index].heard_ns >= earliest_ns:
            due[count] = index
            count += 1
    destination.reports += count
    destination.timer_ns = NEVER_NS if count == 0 else destination.timer_ns + settings.report_interval_ns
    return count


def receiving_rate(link_rate_bps: int) -> int:
    """Return the initial rate of a report: the receiving link's speed in kb/s, always a finite one."""
    return min(LARGEST_RATE, link_rate_bps // BPS_PER_KBPS)


def settings_record(parameters: DBPReactionPointParameters) -> FECNSourceSettings:
    """Return the record of settings for ``parameters``."""
    return source_settings_record(parameters)


@compiled
def on_report(
    source: FECNSource,
    queues: Sequence[FECNQueue],
    settings: FECNSourceSettings,
    flow: int,
    rate: int,
    now_ns: int,
) -> None:
    """Set the queue of the destination numbered ``flow`` (−1: unknown) to ``rate``, kb/s as on the wire."""
    rlq_id = queue_index(queues, flow) + 1 if flow >= 0 else 0
    on_return(source, queues, settings, FECNFields(rlq_id, rate), now_ns)


REPORT_KIND = 1


class DBPRound:
    """Due reports that are not yet posted: entries ``posted`` to ``count`` − 1 of a list; a record."""

    due_ns: int
    posted: int
    count: int


class DBPReceivers(Struct):
    """All destinations after the port; source s · ``flows_each`` + f is flow f of station s."""

    destination: DBPDestination
    heard: Sequence[DBPSource]
    flows_each: int
    settings: DBPDestinationSettings
    round: DBPRound
    due: NDArray[np.int64]
    rate: int
    """The initial rate of reports: the destinations' receiving link speed, in kb/s."""

    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        """Record the source of a data frame, after the reports that are due by then."""
        begin(self.destination, self.heard, self.settings, self.round, self.due, delivery.now_ns)
        source = delivery.station * self.flows_each + delivery.flow
        hear(self.destination, self.heard, self.settings, source, delivery.now_ns)

    def next_report_ns(self) -> int:
        """Return the time of the next reports."""
        if self.round.posted < self.round.count:
            return self.round.due_ns
        return next_timer_ns(self.destination)

    def post_reports(self, now_ns: int, outbox: Outbox) -> None:
        """Post the due reports, up to the capacity; they have no priority."""
        begin(self.destination, self.heard, self.settings, self.round, self.due, now_ns)
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
    heard: Sequence[DBPSource],
    settings: DBPDestinationSettings,
    round: DBPRound,
    due: NDArray[np.int64],
    now_ns: int,
) -> None:
    """Write the sources whose reports are due at ``now_ns`` into ``due``, unless others still wait there."""
    if round.posted < round.count or now_ns < destination.timer_ns:
        return
    round.due_ns = destination.timer_ns
    round.posted = 0
    round.count = on_timer(destination, heard, settings, now_ns, due)


def new_destinations(
    parameters: DBPEdgeParameters, context: PortContext, generator: np.random.Generator
) -> DBPReceivers:
    """Return destinations without active sources; stations beyond ``sources`` have no entry."""
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
    start(destinations.destination, destinations.heard, destinations.settings, Draws(generator))
    return destinations


class DBPStations(FECNStations):
    """FECN's sources, without tags, at the rates of reports."""

    __slots__ = ()

    def on_message(self, message: Message, now_ns: int) -> None:
        """Set the rate of a report for its flow's queue."""
        queues = queues_of(self.queues, self.queues_each, message.station)
        on_report(
            self.sources[message.station], queues, self.settings, message.flow, message.rate_kbps, now_ns
        )


class DBPMachine(AnsweredMachine):
    """DBP with its parameters."""

    flow_key: FlowKey = FlowKey(vlan=False, dst=True, priority=False, cn_tag=False)
    answer_priority = "report_priority"
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

    def counters(self, machine: CongestionPoint | Senders | Receivers) -> dict[str, int]:
        """Return the counters of the congestion point, the sources or the destinations."""
        if isinstance(machine, DBPReceivers):
            return total(machine.destination, "reports", "unheard_frames")
        return super().counters(machine)
