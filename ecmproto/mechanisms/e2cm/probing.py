"""When a flow is probed, and what the replies say about it (algorithms §4, rules 2 and 4).

Per flow there is one record of :class:`Probing`, apart from the flow's rate limiter.  It starts when the flow
becomes rate limited (or, autonomous, when it first sends), ends with the limiter, and knows nothing of before
when it starts again.  While it runs a probe follows the data frame after which one is due, in band and with
the flow's own priority; probes are not held by the limiter.

Latencies are ns modulo 2^32 of clocks that need not agree: only their differences count, taken as signed
32-bit numbers.  By Little's formula a flow has throughput × (latency − flight time) octets on its path.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.parameters import WEIGHT_DENOMINATOR
from ecmproto.mechanisms.e2cm.reaction_parameters import ReactionPointParameters
from ecmproto.mechanisms.limiter import NEVER_NS

NO_LATENCY = -1
"""Instead of a latency: it is not known."""

_LATENCIES = 2**32
_KBPS_NS_PER_OCTET = 8e6
"""An octet in a ns is 8 Gb/s."""


class Probing:
    """What the source knows and remembers of one flow; a record (``ecmproto.record``)."""

    priority: int
    qeq_octets: int
    """The flow's own Qeq: its fairness setting."""
    qmax_octets: int
    known_flight_ns: int
    """The latency of the unloaded path, where source and destination share a clock, else NO_LATENCY."""
    active: int
    """1 while the flow is probed."""
    sent_octets: int
    """Data octets that left since the last probe was due."""
    sent_frames: int
    due_ns: int
    """When the next probe is due, if they are sent per time."""
    replies: int
    """Since probing started."""
    flight_ns: int
    """The least latency seen, modulo 2^32, or NO_LATENCY."""
    queue_octets: float
    """flowQ at the last reaction (flowLastQ)."""


class ProbeCounters:
    """What became of probes and replies, over all flows; a record."""

    probes: int
    """Sent."""
    reactions: int
    """Replies that measured the flow's queue."""
    unprobeable: int
    """Probes not sent: the flow's destination is a group."""
    unknown_replies: int
    """For no flow of this source."""
    idle_replies: int
    """For a flow that is not probed (any more)."""
    first_replies: int
    """The first since probing started: they measure no throughput of this time."""
    unmeasured_replies: int
    """Others without a throughput."""
    allocated: int
    """Limiters that a reply gave its flow; only if autonomous."""
    held_replies: int
    """For a limiter that is in a time-out, or gives way to its priority's."""


class ProbeSettings:
    """A record."""

    probe_octets: int
    """A probe is due after so many octets of data; 0: they do not count."""
    probe_frames: int
    """After so many frames; 0: they do not count."""
    probe_interval_ns: int
    """After so long; 0: time does not count."""
    weight_8: int
    """W in 1/8."""


class Reaction(NamedTuple):
    """What a reply says: flowQ, and the feedback for the AIMD, both in octets; nothing if not ``reacts``."""

    reacts: bool
    queue_octets: float
    feedback_octets: float


def set_probing(record: ProbeSettings, parameters: ReactionPointParameters) -> None:
    """Fill ``record``."""
    record.probe_octets = parameters.probe_octets
    record.probe_frames = parameters.probe_frames
    record.probe_interval_ns = parameters.probe_interval_ns
    record.weight_8 = int(parameters.weight * WEIGHT_DENOMINATOR)


@compiled
def start_probing(probing: Probing, settings: ProbeSettings, now_ns: int) -> None:
    """Start probing a flow at ``now_ns``, with nothing left of what earlier probes said (rule 4).

    Where the flow's flight time is not known, the least latency seen stands for it, and a standing queue
    that the first probe meets is taken for a part of the path.
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
    """Probe the flow no more; replies that are still under way are ignored."""
    probing.active = 0
    probing.due_ns = NEVER_NS


@inlined
def on_departure(probing: Probing, counters: ProbeCounters, settings: ProbeSettings, octets: int) -> bool:
    """Count a data frame of ``octets`` that left; True: a probe follows it."""
    if probing.active == 0:
        return False
    probing.sent_octets += octets
    probing.sent_frames += 1
    due = False
    if settings.probe_octets > 0 and probing.sent_octets >= settings.probe_octets:
        due = True
        # What went beyond counts towards the next one: one probe per X octets, whatever the lengths.
        probing.sent_octets %= settings.probe_octets
    if settings.probe_frames > 0 and probing.sent_frames >= settings.probe_frames:
        due = True
        probing.sent_frames = 0
    if due:
        counters.probes += 1
    return due


@compiled
def on_probe_timer(probing: Probing, counters: ProbeCounters, settings: ProbeSettings, now_ns: int) -> bool:
    """Return whether a probe is due by time; a late timer gives one probe and keeps to its beat."""
    if probing.active == 0 or settings.probe_interval_ns == 0 or probing.due_ns > now_ns:
        return False
    missed = (now_ns - probing.due_ns) // settings.probe_interval_ns
    probing.due_ns += (missed + 1) * settings.probe_interval_ns
    counters.probes += 1
    return True


@inlined
def next_probe_ns(probing: Probing) -> int:
    """Return when `on_probe_timer` has something to do, NEVER_NS if nothing is probed by time."""
    return int(probing.due_ns) if probing.active == 1 else NEVER_NS


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
    """Take a reply for a flow: ``latency_ns`` (modulo 2^32) and ``throughput_kbps`` as on the wire.

    The flight time follows every reply.  The first one measures nothing (rule 3); nor does any other
    without a throughput.
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
