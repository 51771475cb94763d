"""The E²CM reaction point (algorithms §4, rules 2 and 4), with the same table of limiters as ECM.

An :class:`E2CMStation` contains the table of limiters and the probing state of each flow. Both messages of
congestion points and replies to probes change the rate of a limiter. Only messages associate the limiter with
a congestion point::

    receive(source, settings, generator, message, flow, priority, now_ns)     # BCN, BCN_MAX, BCN_ZERO
    receive_reply(source, settings, flow, latency_ns, throughput_kbps, now_ns)    # BCN_PROBE_REV
    if depart(source, settings, index, now_ns, octets): ...               # a probe follows the frame
    if pass_by(source, settings, flow, now_ns, octets): ...               # no limiter, only if autonomous
    if probe_on_timer(source, settings, flow, now_ns): ...                # if probes are sent by time

The functions of ECM for queues (`route`, `join`) and for timers of limiters (`on_timer`, `next_timer_ns`)
apply to ``source.limiters``. Flows are numbered from 0 to ``max_flows`` − 1; −1 is an unknown flow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ecmproto.control.mechanisms.aimd import reaction_point
from ecmproto.control.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.control.mechanisms.aimd.reaction_point import (
    FREE,
    NOTHING,
    STOP,
    TIMED_OUT,
    Demand,
    Limiters,
    Stations,
    allocate,
    decrease,
    find_fine,
    fine_count,
    increase,
    limiter_of,
    limiters_at,
    new_limiters,
    on_timer,
    react,
)
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    NO_CPID,
    NO_LIMITER,
    PROBE_KIND,
    Departure,
    Message,
    Outbox,
    Sent,
    post,
    probe_payload,
)
from ecmproto.control.mechanisms.e2cm.congestion_point import BCN_KIND, BCN_ZERO_KIND
from ecmproto.control.mechanisms.e2cm.edge import REPLY_KIND, reply_payload
from ecmproto.control.mechanisms.e2cm.parameters import OWN_PRIORITY, E2CMReactionPointParameters
from ecmproto.control.mechanisms.ecm import reaction_point as ecm
from ecmproto.control.mechanisms.ecm.reaction_point import (
    TAG_OCTETS,
    TIMESTAMP_BITS,
    ECMFields,
    average_rtt,
    demanded,
    fields_read,
    ticks,
)  # fmt: skip
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import ParameterError
from ecmproto.kernels.kernel import compiled, expanded, inlined
from ecmproto.kernels.record import columns, new_record, new_records, record_from
from ecmproto.kernels.structs import Random
from ecmproto.units import QUEUE_UNIT_OCTETS
from ecmproto.wire.formats.e2cm import BCN_TYPES

NO_LATENCY = -1
"""Value of an unknown latency."""

_LATENCIES = 2**32
_KBPS_NS_PER_OCTET = 8e6
"""Rate of one octet per ns in kb/s, which is 8 Gb/s."""


class Probing:
    """Record of the configuration and state of a probed flow at the source (``kernels.record``)."""

    priority: int
    qeq_octets: int
    """Equilibrium Qeq of the flow in octets, which sets the fairness between flows."""
    qmax_octets: int
    known_flight_ns: int
    """Latency of the unloaded path in ns; NO_LATENCY if source and destination do not share a clock."""
    active: int
    """1 while the flow is probed, otherwise 0."""
    sent_octets: int
    """Number of data octets sent since the last probe was due."""
    sent_frames: int
    due_ns: int
    """Time of the next probe, if probes are sent by time."""
    replies: int
    """Number of replies since probing started."""
    flight_ns: int
    """Minimum latency so far in ns modulo 2^32, or NO_LATENCY."""
    queue_octets: float
    """Queued octets of the flow (flowQ) at the last reaction, which is flowLastQ in S002."""


class ProbeCounters:
    """Record of the counters of probes and replies by outcome, summed over all flows."""

    probes: int
    reactions: int
    """Number of replies that measured the queued octets of the flow."""
    unknown_replies: int
    """Number of replies for an unknown flow."""
    idle_replies: int
    """Number of replies for a flow that is not probed."""
    first_replies: int
    """Number of first replies after the start of probing, whose throughput is from before the start."""
    unmeasured_replies: int
    """Number of later replies without a throughput."""
    allocated: int
    """Number of limiters that replies assigned, which happens only in the autonomous mode."""
    held_replies: int
    """Number of replies for a limiter that is in a time-out or replaced by a coarse limiter."""


class ProbeSettings:
    """Record of the probing parameters that the kernels read."""

    probe_octets: int
    """Number of data octets between probes; 0 disables probes by octets."""
    probe_frames: int
    """Number of frames between probes; 0 disables probes by frames."""
    probe_interval_ns: int
    """Time between probes in ns; 0 disables probes by time."""
    weight_8: int
    """Weight W in units of 1/8."""


class Reaction(NamedTuple):
    """The result of a reply: flowQ and the feedback in octets, which apply only if ``reacts`` is true."""

    reacts: bool
    queue_octets: float
    feedback_octets: float


@compiled
def start_probing(probing: Probing, settings: ProbeSettings, now_ns: int) -> None:
    """Start probing a flow at ``now_ns`` without the state of earlier probes (rule 4).

    If the latency of the unloaded path is unknown, the minimum measured latency replaces it. A queue that
    exists at the first probe then counts as a part of the path.
    """
    probing.active = 1
    probing.sent_octets = 0
    probing.sent_frames = 0
    probing.due_ns = now_ns + settings.probe_interval_ns if settings.probe_interval_ns > 0 else NEVER_NS
    probing.replies = 0
    probing.flight_ns = probing.known_flight_ns
    probing.queue_octets = 0.0


@inlined
def stop_probing(probing: Probing) -> None:
    """Stop probing the flow; later replies are ignored."""
    probing.active = 0
    probing.due_ns = NEVER_NS


@inlined
def on_departure(probing: Probing, counters: ProbeCounters, settings: ProbeSettings, octets: int) -> bool:
    """Count a sent data frame of ``octets``, and return whether a probe follows the frame."""
    if probing.active == 0:
        return False
    probing.sent_octets += octets
    probing.sent_frames += 1
    due = False
    if settings.probe_octets > 0 and probing.sent_octets >= settings.probe_octets:
        due = True
        # The excess counts for the next probe, so that the average distance is probe_octets.
        probing.sent_octets %= settings.probe_octets
    if settings.probe_frames > 0 and probing.sent_frames >= settings.probe_frames:
        due = True
        probing.sent_frames = 0
    if due:
        counters.probes += 1
    return due


@compiled
def on_probe_timer(probing: Probing, counters: ProbeCounters, settings: ProbeSettings, now_ns: int) -> bool:
    """Return whether a probe is due by time; a late call replaces all missed intervals by one probe."""
    if probing.active == 0 or settings.probe_interval_ns == 0 or probing.due_ns > now_ns:
        return False
    missed = (now_ns - probing.due_ns) // settings.probe_interval_ns
    probing.due_ns += (missed + 1) * settings.probe_interval_ns
    counters.probes += 1
    return True


@inlined
def signed_difference(latency_ns: int, other_ns: int) -> int:
    """Return ``latency_ns`` − ``other_ns`` as a signed 32-bit number."""
    return (latency_ns - other_ns + _LATENCIES // 2) % _LATENCIES - _LATENCIES // 2


@compiled
def on_reply(
    probing: Probing,
    counters: ProbeCounters,
    settings: ProbeSettings,
    latency_ns: int,
    throughput_kbps: int,
) -> Reaction:
    """Process a reply for a flow, with ``latency_ns`` modulo 2^32 and ``throughput_kbps`` from the reply.

    Each reply updates the minimum latency. The first reply (rule 3) and a reply without a throughput measure
    nothing.
    """
    if probing.active == 0:
        counters.idle_replies += 1
        return Reaction(False, 0.0, 0.0)
    first = probing.replies == 0
    probing.replies += 1
    if probing.flight_ns == NO_LATENCY or signed_difference(latency_ns, probing.flight_ns) < 0:
        probing.flight_ns = latency_ns
    if first:
        counters.first_replies += 1
        return Reaction(False, 0.0, 0.0)
    if throughput_kbps == 0:
        counters.unmeasured_replies += 1
        return Reaction(False, 0.0, 0.0)
    counters.reactions += 1
    waited_ns = float(signed_difference(latency_ns, probing.flight_ns))
    queue_octets = float(throughput_kbps) * waited_ns / _KBPS_NS_PER_OCTET
    feedback_octets = _feedback_octets(probing, settings, queue_octets)
    probing.queue_octets = queue_octets
    return Reaction(True, queue_octets, feedback_octets)


@compiled
def _feedback_octets(probing: Probing, settings: ProbeSettings, queue_octets: float) -> float:
    weight = float(settings.weight_8) / WEIGHT_DENOMINATOR
    qeq = float(probing.qeq_octets)
    if queue_octets > float(probing.qmax_octets):
        return -(1.0 + 2.0 * weight) * qeq
    offset = max(-qeq, min(qeq, qeq - queue_octets))
    change = max(-2.0 * qeq, min(2.0 * qeq, queue_octets - float(probing.queue_octets)))
    return offset - weight * change


_depart = reaction_point.depart


BCN, BCN_MAX, BCN_ZERO = BCN_TYPES


class E2CMStationSettings(ecm.ECMStationSettings, ProbeSettings):
    """Record of the reaction point parameters that the kernels read."""

    flow_step_bps: float
    """Increase Gi·Ru in bit/s per octet of feedback from probes."""
    flow_share: float
    """Decrease Gd as a share of the rate per octet of feedback from probes."""
    autonomous: int


class E2CMStation(NamedTuple):
    """A reaction point with limiters and the probing state of each flow."""

    limiters: Limiters
    counters: ProbeCounters
    probings: Sequence[Probing]


def settings_record(parameters: E2CMReactionPointParameters, link_rate_bps: int) -> E2CMStationSettings:
    """Return the settings record for a link of ``link_rate_bps``.

    Raises ParameterError if the minimum rate is above the initial rate on this link.
    """
    gains = parameters.gains(link_rate_bps)
    units_8 = QUEUE_UNIT_OCTETS / WEIGHT_DENOMINATOR
    return record_from(
        E2CMStationSettings, parameters, **ecm.limiting_fields(parameters, link_rate_bps),
        step_bps_8=gains.increase * parameters.rate_unit_bps * units_8, share_8=gains.decrease * units_8,
        flow_step_bps=gains.flow_increase * parameters.rate_unit_bps, flow_share=gains.flow_decrease,
    )  # fmt: skip


def new_source(
    parameters: E2CMReactionPointParameters,
    settings: E2CMStationSettings,
    now_ns: int,
    *,
    congested_hops: int = 1,
) -> E2CMStation:
    """Return a reaction point without active limiters, started at ``now_ns``; all flows have one path."""
    limiters = new_limiters(parameters.limiters, settings, now_ns)
    source = E2CMStation(limiters, new_record(ProbeCounters), new_records(Probing, parameters.max_flows))
    for flow in range(parameters.max_flows):
        set_path(source, parameters, flow, priority=0, congested_hops=congested_hops)
    return source


def set_path(
    source: E2CMStation,
    parameters: E2CMReactionPointParameters,
    flow: int,
    *,
    priority: int,
    congested_hops: int = 1,
    flight_ns: int = NO_LATENCY,
) -> None:
    """Set the path parameters of ``flow``, which apply from the next start of probing.

    ``congested_hops`` determines Qeq of the flow (see ``hops_exponent``). ``flight_ns`` is the latency of the
    unloaded path, or NO_LATENCY if source and destination do not share a clock. Raises ParameterError for a
    flow without a record, and for fewer hops than 1.
    """
    if not 0 <= flow < len(source.probings):
        raise ParameterError(name="flow", needed=f"0 to {len(source.probings) - 1}", got=str(flow))
    probing = source.probings[flow]
    probing.priority = priority
    _set_path(probing, parameters, congested_hops, flight_ns)


def _set_path(
    probing: Probing, parameters: E2CMReactionPointParameters, congested_hops: int, flight_ns: int
) -> None:
    probing.qeq_octets = parameters.path_qeq_octets(congested_hops)
    probing.qmax_octets = parameters.path_qmax_octets(int(probing.qeq_octets))
    probing.known_flight_ns = NO_LATENCY if flight_ns == NO_LATENCY else flight_ns % _LATENCIES


@compiled
def receive(
    source: E2CMStation,
    settings: E2CMStationSettings,
    generator: Random,
    message: ECMFields,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """React to a congestion point's message about a frame of ``flow`` and ``priority``.

    The message starts probing of a flow with a fine limiter (rule 2). Returns the index of the changed
    limiter, or NO_LIMITER for an ignored message, which is counted in ``limiters.point``.
    """
    limiters, _, probings = source
    allocated = limiters.point.allocated
    demand = _demand(settings, message)
    index = react(limiters, settings, generator, demand, flow, priority, now_ns)
    if index == NO_LIMITER:
        return index
    average_rtt(limiters.slots[index], settings, message, now_ns)
    if flow < len(probings) and index < fine_count(limiters):
        renewed = settings.autonomous == 0 and limiters.point.allocated != allocated
        if renewed or probings[flow].active == 0:
            start_probing(probings[flow], settings, now_ns)
    return index


@compiled
def _demand(settings: E2CMStationSettings, message: ECMFields) -> Demand:
    # The message type BCN_ZERO replaces ECM(0,0).
    demand = demanded(settings, message)
    if message.type == BCN_ZERO:
        return Demand(STOP, message.cpid, 0.0, 0.0, False, 0.0)
    if demand.kind == STOP:
        return Demand(NOTHING, message.cpid, 0.0, 0.0, False, 0.0)
    return demand


@compiled
def receive_reply(
    source: E2CMStation,
    settings: E2CMStationSettings,
    flow: int,
    latency_ns: int,
    throughput_kbps: int,
    now_ns: int,
) -> Reaction:
    """React to the fields of a probe's reply (rule 4), and return the result.

    The associated congestion point of the limiter does not change.
    """
    limiters, counters, probings = source
    on_timer(limiters, settings, now_ns)
    if flow < 0 or flow >= len(probings):
        counters.unknown_replies += 1
        return Reaction(False, 0.0, 0.0)
    probing = probings[flow]
    index = limiter_of(limiters, flow, probing.priority)
    if index == NO_LIMITER and settings.autonomous == 0:
        stop_probing(probing)
    reaction = on_reply(probing, counters, settings, latency_ns, throughput_kbps)
    if reaction.reacts:
        _adjust(source, settings, flow, index, reaction.feedback_octets, now_ns)
    return reaction


@compiled
def _adjust(
    source: E2CMStation,
    settings: E2CMStationSettings,
    flow: int,
    index: int,
    feedback_octets: float,
    now_ns: int,
) -> None:
    limiters, counters, probings = source
    if index == NO_LIMITER:
        priority = probings[flow].priority
        if feedback_octets < 0.0 and settings.enabled[priority] == 1:
            counters.allocated += 1
            index = allocate(limiters, settings, flow, priority, NO_CPID, now_ns)
            if settings.initial_bps >= settings.link_bps:
                # A limiter at the link rate would have no effect, so decrease the rate now.
                share = settings.flow_share * -feedback_octets
                decrease(limiters, settings, limiters.slots[index], share, False, now_ns)
        return
    limiter = limiters.slots[index]
    if index >= fine_count(limiters) or limiter.status == TIMED_OUT:
        counters.held_replies += 1
    elif feedback_octets < 0.0:
        decrease(limiters, settings, limiter, settings.flow_share * -feedback_octets, False, now_ns)
    elif feedback_octets > 0.0:
        increase(limiters, settings, limiter, settings.flow_step_bps * feedback_octets, False, now_ns)


@compiled
def depart(source: E2CMStation, settings: E2CMStationSettings, index: int, now_ns: int, octets: int) -> bool:
    """Send the first frame, of ``octets``, from the queue of limiter ``index``.

    Return whether a probe follows.

    The caller has run the timers that are due by ``now_ns``, and ``now_ns`` is the result of `leaves_ns`.
    """
    limiters, counters, probings = source
    flow = limiters.slots[index].flow
    _depart(limiters, settings, index, now_ns, octets)
    if flow < 0 or flow >= len(probings):
        return False
    if limiters.slots[index].status == FREE and settings.autonomous == 0:
        stop_probing(probings[flow])
    return on_departure(probings[flow], counters, settings, octets)


@compiled
def pass_by(source: E2CMStation, settings: E2CMStationSettings, flow: int, now_ns: int, octets: int) -> bool:
    """Count a data frame that left without a limiter; return whether a probe follows the frame.

    A probe follows only in the autonomous mode.
    """
    probings = source.probings
    if flow < 0 or flow >= len(probings):
        return False
    if settings.autonomous == 0:
        stop_probing(probings[flow])
    elif probings[flow].active == 0:
        start_probing(probings[flow], settings, now_ns)
    return on_departure(probings[flow], source.counters, settings, octets)


@compiled
def probe_on_timer(source: E2CMStation, settings: E2CMStationSettings, flow: int, now_ns: int) -> bool:
    """Return whether a probe of ``flow`` is due by time; without a limiter, probing of the flow stops."""
    limiters, counters, probings = source
    if flow < 0 or flow >= len(probings):
        return False
    if settings.autonomous == 0 and find_fine(limiters, flow) == NO_LIMITER:
        stop_probing(probings[flow])
    return on_probe_timer(probings[flow], counters, settings, now_ns)


class E2CMStations(Stations[E2CMStationSettings]):
    """Reaction points of all stations, with the same number of consecutive records per station."""

    settings: E2CMStationSettings
    counters: Sequence[ProbeCounters]
    probings: Sequence[Probing]
    probings_each: int
    """Number of probed flows per station; flows with a higher number are not probed."""
    probe_priority: int

    def on_transmit(self, departure: Departure, outbox: Outbox) -> Sent:
        """Add a CM-Tag to a rate-limited frame, and post a probe after the frame if a probe is due.

        The limiter counts the frame including the tag, but does not count probes. A probe that is due by time
        follows the next frame of the flow.
        """
        station, flow, now_ns = departure.station, departure.flow, departure.now_ns
        source = _source(self, station)
        if 0 <= flow < self.probings_each:
            source.probings[flow].priority = departure.priority
        tagged, tag, mark, added = departure.tagged, departure.tag, departure.mark, 0
        if departure.limiter == NO_LIMITER:
            probed = pass_by(source, self.settings, flow, now_ns, departure.octets)
        else:
            # Read the CPID before the departure, which may release the limiter.
            tag = self.slots[station * self.slots_each + departure.limiter].cpid
            mark = self.timestamp_unit << TIMESTAMP_BITS | ticks(now_ns, self.timestamp_unit)
            added = 0 if tagged else TAG_OCTETS
            self.points[station].replaced_tags += 1 if tagged else 0
            tagged = True
            octets = departure.octets + added
            probed = depart(source, self.settings, departure.limiter, now_ns, octets)
        if not probed and self.settings.probe_interval_ns > 0:
            probed = probe_on_timer(source, self.settings, flow, now_ns)
        if probed:
            own = self.probe_priority == OWN_PRIORITY
            priority = departure.priority if own else self.probe_priority
            probe = post(outbox, PROBE_KIND, now_ns, station, flow, priority)
            probe_payload(probe).mark = now_ns % _LATENCIES
        return Sent(tagged, tag, mark, added)

    def on_message(self, message: Message, now_ns: int) -> None:
        """React to the message of a congestion point or to the reply to a probe."""
        if message.station < 0:
            return
        source = _source(self, message.station)
        if message.kind == REPLY_KIND:
            reply = reply_payload(message)
            receive_reply(source, self.settings, message.flow, reply.latency, reply.throughput, now_ns)
        elif BCN_KIND <= message.kind <= BCN_ZERO_KIND:
            fields, flow = fields_read(message, message.kind - BCN_KIND), message.flow
            receive(source, self.settings, self.generator, fields, flow, message.priority, now_ns)


@expanded
def _source(stations: E2CMStations, station: int) -> E2CMStation:
    probing = station * stations.probings_each
    return E2CMStation(
        limiters_at(stations, station),
        stations.counters[station],
        stations.probings[probing : probing + stations.probings_each],
    )


def new_stations(
    parameters: E2CMReactionPointParameters, context: PortContext, generator: np.random.Generator
) -> E2CMStations:
    """Return the reaction points of all stations without active limiters.

    All paths have ``context.hops`` congestion points and an unknown latency. Raises ParameterError if the
    minimum rate is above the initial rate on the link of a station.
    """
    settings = settings_record(parameters, context.link_rate_bps)
    probed = max(1, min(context.flows, parameters.max_flows))
    one = new_source(replace(parameters, max_flows=probed), settings, 0, congested_hops=context.hops)
    stations = reaction_point.new_stations(
        E2CMStations,
        parameters,
        settings,
        context,
        generator,
        timestamp_unit=parameters.timestamp_unit,
        counters=new_records(ProbeCounters, context.stations),
        probings=new_records(Probing, context.stations * probed),
        probings_each=probed,
        probe_priority=parameters.probe_priority,
    )
    columns(stations.probings)[:] = np.tile(columns(one.probings), context.stations)
    return stations


def set_path_of(
    stations: E2CMStations,
    parameters: E2CMReactionPointParameters,
    station: int,
    flow: int,
    *,
    congested_hops: int,
    flight_ns: int,
) -> None:
    """Set the path parameters of a station's flow, as `set_path` does, if the flow can be probed."""
    if flow < stations.probings_each:
        probing = stations.probings[station * stations.probings_each + flow]
        _set_path(probing, parameters, congested_hops, flight_ns)


def set_flight(stations: E2CMStations, flight_ns: int) -> None:
    """Set the latency of the unloaded path for all flows.

    NO_LATENCY means that source and destination do not share a clock. The latency applies to a flow from the
    next start of probing (algorithms §4, rule 4).
    """
    known_ns = NO_LATENCY if flight_ns == NO_LATENCY else flight_ns % _LATENCIES
    columns(stations.probings)["known_flight_ns"] = known_ns
