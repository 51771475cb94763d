"""E²CM's probes: what the replies say about latency and throughput."""

from __future__ import annotations

import numpy as np

from ecmproto.formats.e2cm import PROBE_FWD, PROBE_REV
from ecmproto.stats.distribution import Distributions
from ecmproto.stats.moment import Moment, address_octets
from ecmproto.stats.statistics import ProbedFlow, Probes
from ecmproto.stats.tally import NO_SLOT, Numbering, count_at
from ecmproto.stats.timeline import Timeline

MOST_FLOWS = 512

FIELDS = ("eth.dst", "e2cm.type", "e2cm.cpid", "e2cm.flow_id", "e2cm.latency", "e2cm.throughput")

_KBPS = 1000


class ProbeCounts:
    """Counts of probes and their replies."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.flows = Numbering(MOST_FLOWS)
        self._forward = self._replies = 0
        self._latency = Distributions()
        """One row, of all replies."""
        self._latencies = Distributions()
        self._throughputs = Distributions()
        self._over_time = timeline.series(2)

    def add(self, moment: Moment) -> None:
        """Count the probes of a batch."""
        rows = moment.columns["e2cm.type"].rows
        types = moment.values("e2cm.type", rows)
        self._forward += int((types == PROBE_FWD).sum())
        rows = rows[types == PROBE_REV]
        if not len(rows):
            return
        self._replies += len(rows)
        latency = moment.values("e2cm.latency", rows)
        self._latency.add(np.zeros(len(rows), np.int64), latency, 1)
        destination = (moment.values("e2cm.cpid", rows) >> 16) & ((1 << 48) - 1)
        low = (destination << 16) | moment.values("e2cm.flow_id", rows)
        flows = self.flows.numbers(low, moment.addresses("eth.dst", rows))
        self._latencies.add(flows, latency, self.flows.count)
        self._throughputs.add(flows, moment.values("e2cm.throughput", rows), self.flows.count)
        timed = moment.slots[rows] != NO_SLOT
        slots, first = moment.slots[rows][timed], np.zeros(int(timed.sum()), np.int64)
        count_at(self._over_time.values, first, slots)
        count_at(self._over_time.values, first + 1, slots, latency[timed])

    @property
    def probes(self) -> Probes | None:
        """What there was of them; None without any."""
        if not self._forward and not self._replies:
            return None
        replies, sums = self._over_time.values[:, : self._timeline.used].tolist()
        low, high = self.flows.low.tolist(), self.flows.high.tolist()
        flows = [self._flow(number, *key) for number, key in enumerate(zip(low, high, strict=True))]
        return Probes(
            forward=self._forward,
            replies=self._replies,
            latency_ns=self._latency.row(0),
            flows=tuple(sorted(flows, key=lambda flow: -flow.latency_ns.count)),
            replies_over_time=tuple(replies),
            latency_sum_ns_over_time=tuple(sums),
        )

    def _flow(self, number: int, low: int, high: int) -> ProbedFlow:
        latency, throughput = self._latencies.row(number), self._throughputs.row(number)
        assert latency is not None
        assert throughput is not None
        return ProbedFlow(
            station=address_octets(high),
            destination=(low >> 16).to_bytes(6),
            flow_id=low & 0xFFFF,
            latency_ns=latency,
            throughput_bps=throughput.scaled(_KBPS),
        )
