"""The E²CM reaction point: algorithms §4, rules 2 and 4, on the shared table of limiters.

A :class:`Source` is ECM's table and, by flow, what probes know.  One limiter serves both kinds of feedback:
messages of congestion points, which associate it, and replies to probes, which never do::

    receive(source, settings, generator, message, flow, priority, now_ns)     # BCN, BCN_MAX, BCN_ZERO
    receive_reply(source, settings, flow, latency_ns, throughput_kbps, now_ns)    # BCN_PROBE_REV
    if depart(source, settings, index, now_ns, octets): ...               # a probe follows the frame
    if pass_by(source, settings, flow, now_ns, octets): ...               # of no limiter: only if autonomous
    if probe_on_timer(source, settings, flow, now_ns): ...                # only if probes are sent per time

Where frames queue (`route`, `join`) and the limiters' own timers (`on_timer`, `next_timer_ns`) are ECM's, on
``source.limiters``.  Flows are 0 to ``max_flows`` − 1; −1 is a flow the caller does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ecmproto.errors import ParameterError
from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd import departure
from ecmproto.mechanisms.aimd.limiters import (
    FREE,
    NO_FLOW,
    NO_LIMITER,
    TIMED_OUT,
    Limiter,
    Limiters,
    allocate,
    find_fine,
    fine_count,
    join,
    limiter_of,
    new_limiters,
    route,
    set_table,
)
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.aimd.reaction import NOTHING, STOP, Demand, decrease, increase, react
from ecmproto.mechanisms.aimd.timers import next_timer_ns, on_timer
from ecmproto.mechanisms.cpid import NO_CPID
from ecmproto.mechanisms.e2cm.messages import BCN_ZERO, Message
from ecmproto.mechanisms.e2cm.probing import (
    NO_LATENCY,
    ProbeCounters,
    ProbeSettings,
    Probing,
    Reaction,
    next_probe_ns,
    on_departure,
    on_probe_timer,
    on_reply,
    set_probing,
    start_probing,
    stop_probing,
)
from ecmproto.mechanisms.e2cm.reaction_parameters import ReactionPointParameters
from ecmproto.mechanisms.ecm import reaction_point as ecm
from ecmproto.mechanisms.ecm.messages import Message as ECMMessage
from ecmproto.mechanisms.ecm.reaction_point import average_rtt, demanded
from ecmproto.mechanisms.limiter import NEVER_NS
from ecmproto.record import new_record, new_records
from ecmproto.structs import Random
from ecmproto.units import QUEUE_UNIT_OCTETS

__all__ = [
    "Limiter", "Limiters", "Settings", "Source", "depart", "join", "new_source", "next_probe",
    "next_timer_ns", "on_timer", "pass_by", "probe_on_timer", "receive", "receive_reply", "route", "set_path",
    "settings_record",
]  # fmt: skip

_LATENCIES = 2**32
_depart = departure.depart


class Settings(ecm.Settings, ProbeSettings):
    """The parameters as the kernels read them; a record."""

    flow_step_bps: float
    """Gi·Ru of probes for an octet of feedback."""
    flow_share: float
    """Gd of probes for an octet of feedback."""
    autonomous: int


class Source(NamedTuple):
    """A reaction point: its limiters, and by flow what probes know."""

    limiters: Limiters
    counters: ProbeCounters
    probings: Sequence[Probing]


class ProbeDue(NamedTuple):
    """The next probe by time: of which flow, and when; NO_FLOW and NEVER_NS if there is none."""

    flow: int
    due_ns: int


def settings_record(parameters: ReactionPointParameters, link_rate_bps: int) -> Settings:
    """Return the record of settings for a link of ``link_rate_bps``.

    Raises ParameterError if the floor is above the initial rate on such a link.
    """
    record = new_record(Settings)
    set_table(
        record,
        parameters,
        link_rate_bps=link_rate_bps,
        floor_bps=parameters.floor_bps,
        restart_bps=parameters.restart_bps,
        self_increase_bps=parameters.self_increase_bps,
    )
    set_probing(record, parameters)
    gains = parameters.gains(link_rate_bps)
    units_8 = QUEUE_UNIT_OCTETS / WEIGHT_DENOMINATOR
    record.step_bps_8 = gains.increase * parameters.rate_unit_bps * units_8
    record.share_8 = gains.decrease * units_8
    record.flow_step_bps = gains.flow_increase * parameters.rate_unit_bps
    record.flow_share = gains.flow_decrease
    record.rtt_weight = 0.5**parameters.rtt_shift
    record.autonomous = int(parameters.autonomous)
    return record


def new_source(
    parameters: ReactionPointParameters, settings: Settings, now_ns: int, *, congested_hops: int = 1
) -> Source:
    """Return a reaction point without active limiters, started at ``now_ns``; all paths are alike."""
    limiters = new_limiters(Limiter, parameters.limiters, settings, now_ns)
    source = Source(limiters, new_record(ProbeCounters), new_records(Probing, parameters.max_flows))
    for flow in range(parameters.max_flows):
        set_path(source, parameters, flow, priority=0, congested_hops=congested_hops)
    return source


def set_path(
    source: Source,
    parameters: ReactionPointParameters,
    flow: int,
    *,
    priority: int,
    congested_hops: int = 1,
    flight_ns: int = NO_LATENCY,
) -> None:
    """Say what is known of the path of ``flow``; it holds from when its probing next starts.

    ``congested_hops`` decides its share (see ``hops_exponent``); ``flight_ns`` is the latency of the
    unloaded path where source and destination share a clock, else NO_LATENCY.  Raises ParameterError for a
    flow that there is no record for, or fewer hops than 1.
    """
    if not 0 <= flow < len(source.probings):
        raise ParameterError(name="flow", needed=f"0 to {len(source.probings) - 1}", got=str(flow))
    probing = source.probings[flow]
    probing.priority = priority
    probing.qeq_octets = parameters.path_qeq_octets(congested_hops)
    probing.qmax_octets = parameters.path_qmax_octets(int(probing.qeq_octets))
    probing.known_flight_ns = NO_LATENCY if flight_ns == NO_LATENCY else flight_ns % _LATENCIES


@compiled
def receive(
    source: Source,
    settings: Settings,
    generator: Random,
    message: Message,
    flow: int,
    priority: int,
    now_ns: int,
) -> int:
    """React to a congestion point's message about a frame of ``flow`` and ``priority``.

    A flow that has a limiter of its own is probed from then on (rule 2).  Returns the limiter that heeded the
    message, NO_LIMITER if none did; what was ignored is counted in ``limiters.point``.
    """
    limiters, _, probings = source
    allocated = limiters.point.allocated
    demand = _demand(settings, message)
    index = react(limiters, settings, generator, demand, flow, priority, now_ns)
    if index == NO_LIMITER:
        return index
    if message.tagged and limiters.slots[index].cpid == message.cpid:
        average_rtt(limiters.slots[index], settings, _as_ecm(message), now_ns)
    if flow < len(probings) and index < fine_count(limiters):
        renewed = settings.autonomous == 0 and limiters.point.allocated != allocated
        if renewed or probings[flow].active == 0:
            start_probing(probings[flow], settings, now_ns)
    return index


@inlined
def _as_ecm(message: Message) -> ECMMessage:
    return ECMMessage(
        message.cpid,
        message.q_off,
        message.q_delta,
        message.q,
        message.timestamp,
        message.unit,
        message.tagged,
    )


@compiled
def _demand(settings: Settings, message: Message) -> Demand:
    # The type says what ECM tells by (0,0).
    demand = demanded(settings, _as_ecm(message))
    if message.type == BCN_ZERO:
        return Demand(STOP, message.cpid, 0.0, 0.0, False, 0.0)
    if demand.kind == STOP:
        return Demand(NOTHING, message.cpid, 0.0, 0.0, False, 0.0)
    return demand


@compiled
def receive_reply(
    source: Source, settings: Settings, flow: int, latency_ns: int, throughput_kbps: int, now_ns: int
) -> Reaction:
    """React to a probe's reply, fields as on the wire (rule 4); return what it says.

    The limiter's association with a congestion point stays as it is.
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
    source: Source, settings: Settings, flow: int, index: int, feedback_octets: float, now_ns: int
) -> None:
    limiters, counters, probings = source
    if index == NO_LIMITER:
        priority = probings[flow].priority
        if feedback_octets < 0.0 and settings.enabled[priority] == 1:
            counters.allocated += 1
            index = allocate(limiters, settings, flow, priority, NO_CPID, now_ns)
            if settings.initial_bps >= settings.link_bps:
                # As for a congestion point's message: at the link's rate it would limit nothing.
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
def depart(source: Source, settings: Settings, index: int, now_ns: int, octets: int) -> bool:
    """Let the head of limiter ``index``'s queue, a frame of ``octets``, leave; True: a probe follows it.

    The caller has fired the timers due by then and `leaves_ns` says now.
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
def pass_by(source: Source, settings: Settings, flow: int, now_ns: int, octets: int) -> bool:
    """Note that a data frame left which no limiter held; True: a probe follows it (only if autonomous)."""
    probings = source.probings
    if flow < 0 or flow >= len(probings):
        return False
    if settings.autonomous == 0:
        stop_probing(probings[flow])
    elif probings[flow].active == 0:
        start_probing(probings[flow], settings, now_ns)
    return on_departure(probings[flow], source.counters, settings, octets)


@compiled
def probe_on_timer(source: Source, settings: Settings, flow: int, now_ns: int) -> bool:
    """Return whether a probe of ``flow`` is due by time; its limiter may be gone, and with it its probes."""
    limiters, counters, probings = source
    if flow < 0 or flow >= len(probings):
        return False
    if settings.autonomous == 0 and find_fine(limiters, flow) == NO_LIMITER:
        stop_probing(probings[flow])
    return on_probe_timer(probings[flow], counters, settings, now_ns)


@compiled
def next_probe(source: Source, settings: Settings) -> ProbeDue:
    """Return which flow's probe is next by time, and when; it takes a look at every flow."""
    flow = NO_FLOW
    due_ns = NEVER_NS
    if settings.probe_interval_ns > 0:
        for candidate in range(len(source.probings)):
            if next_probe_ns(source.probings[candidate]) < due_ns:
                flow = candidate
                due_ns = next_probe_ns(source.probings[candidate])
    return ProbeDue(flow, due_ns)
