"""The edge receiver: what a destination measures between two probes of a flow (algorithms §4, rule 3).

Per flow (source, destination, priority) there is one record of :class:`Flow`.  Frames are counted and probes
read as they arrive, **before** the queue of the egress adapter; a probe is answered with what `on_probe`
returns.  Probes are no data and are not counted.
"""

from __future__ import annotations

from typing import NamedTuple

from ecmproto.kernel import compiled, inlined
from ecmproto.mechanisms.aimd.envelope import Refusals

_TIMESTAMPS = 2**32
_LARGEST_KBPS = 2**32 - 1
_LARGEST_OCTETS = 10**12
"""Keeps octets · 8·10⁶ within 63 bits."""
_KBPS_NS_PER_OCTET = 8_000_000
"""An octet in a ns is 8 Gb/s."""


class Flow:
    """What a destination remembers of one flow; a record (``ecmproto.record``)."""

    probed: int
    """1 once a probe has come."""
    probed_ns: int
    """When the last probe came."""
    counted_octets: int
    """Octets of the flow since then."""


class EdgeCounters(Refusals):
    """Over all flows; a record."""

    probes: int
    """Answered."""
    unmeasured_probes: int
    """Of those, without throughput: the first of a flow, two at one time, or no room for the flow."""
    unanswerable: int
    """Not answered: from a group address, or the station's own."""


class ProbeReply(NamedTuple):
    """The fields of BCN_PROBE_REV: ns modulo 2^32, kb/s."""

    latency_ns: int
    throughput_kbps: int


@inlined
def on_data(flow: Flow, octets: int) -> None:
    """Count a data frame of ``octets`` that arrived."""
    flow.counted_octets = min(flow.counted_octets + octets, _LARGEST_OCTETS)


@inlined
def latency_ns(now_ns: int, timestamp_ns: int) -> int:
    """Return now − timestamp modulo 2^32, whatever the two clocks are."""
    return (now_ns - timestamp_ns) % _TIMESTAMPS


@compiled
def on_probe(flow: Flow, counters: EdgeCounters, now_ns: int, timestamp_ns: int) -> ProbeReply:
    """Answer a forward probe of a flow: the latency so far, and the flow's service rate since its last probe.

    The throughput is 0 for the first probe; for one that comes at the same time as the one before, too, and
    then the measurement goes on.
    """
    counters.probes += 1
    elapsed_ns = now_ns - flow.probed_ns
    throughput_kbps = 0
    if flow.probed == 1 and elapsed_ns <= 0:
        counters.unmeasured_probes += 1
        return ProbeReply(latency_ns(now_ns, timestamp_ns), 0)
    if flow.probed == 1:
        throughput_kbps = min(flow.counted_octets * _KBPS_NS_PER_OCTET // elapsed_ns, _LARGEST_KBPS)
    else:
        counters.unmeasured_probes += 1
    flow.probed = 1
    flow.probed_ns = now_ns
    flow.counted_octets = 0
    return ProbeReply(latency_ns(now_ns, timestamp_ns), throughput_kbps)


@compiled
def on_unknown_probe(counters: EdgeCounters, now_ns: int, timestamp_ns: int) -> ProbeReply:
    """Answer a probe of a flow that no record is free for: the source still learns its flight time."""
    counters.probes += 1
    counters.unmeasured_probes += 1
    return ProbeReply(latency_ns(now_ns, timestamp_ns), 0)
