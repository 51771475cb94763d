"""Rates that FECN and DBP advertise: collected by RD tags, and returned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ecmproto.stats.distribution import Distributions
from ecmproto.stats.moment import Moment, address_octets
from ecmproto.stats.statistics import AdvertisedRate
from ecmproto.stats.tally import NO_NUMBER, NO_SLOT, Numbering, count_at
from ecmproto.stats.timeline import Timeline
from ecmproto.units import RATE_INFINITY

MOST_QUEUES = 256
"""Rate-limited queues of one kind told apart."""

_KBPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """What carries rates: its layer, and which address is the station whose queue it is."""

    kind: str
    station: str


CARRIERS = (
    Carrier(kind="rdtag", station="eth.src"),
    Carrier(kind="fecn", station="eth.dst"),
    Carrier(kind="dbp", station="eth.dst"),
)

FIELDS = ("eth.src", "eth.dst", *(f"{each.kind}.{part}" for each in CARRIERS for part in ("rlq_id", "rate")))


class RateCounts:
    """Counts of the rates that one carrier brings."""

    def __init__(self, carrier: Carrier, timeline: Timeline) -> None:
        self._carrier = carrier
        self._timeline = timeline
        self.queues = Numbering(MOST_QUEUES)
        self._frames = np.zeros(MOST_QUEUES, np.int64)
        self._unlimited = np.zeros(MOST_QUEUES, np.int64)
        self._rates = Distributions()
        self._limited_in = timeline.series()
        self._sums_in = timeline.series()

    def add(self, moment: Moment) -> None:
        """Count the rates in a batch."""
        kind = self._carrier.kind
        rows = moment.columns[f"{kind}.rate"].outermost().rows
        if not len(rows):
            return
        rate = moment.values(f"{kind}.rate", rows)
        station = moment.addresses(self._carrier.station, rows)
        queues = self.queues.numbers(station, moment.values(f"{kind}.rlq_id", rows))
        known, limited = queues != NO_NUMBER, rate != RATE_INFINITY
        self._frames += np.bincount(queues[known], minlength=MOST_QUEUES)
        self._unlimited += np.bincount(queues[known & ~limited], minlength=MOST_QUEUES)
        self._rates.add(queues[limited], rate[limited], self.queues.count)
        slots = moment.slots[rows]
        timed = known & limited & (slots != NO_SLOT)
        for series, amounts in ((self._limited_in, np.ones_like(rate)), (self._sums_in, rate)):
            series.grow(self.queues.count)
            count_at(series.values, queues[timed], slots[timed], amounts[timed])

    def rates(self) -> list[AdvertisedRate]:
        """Return the rates of each queue, that of the most frames first."""
        order = np.argsort(-self._frames[: self.queues.count], kind="stable").tolist()
        stations, ids = self.queues.low.tolist(), self.queues.high.tolist()
        return [self._rate(number, stations[number], ids[number]) for number in order]

    def _rate(self, number: int, station: int, rlq_id: int) -> AdvertisedRate:
        rates, used = self._rates.row(number), self._timeline.used
        sums = self._sums_in.values[number, :used].tolist()
        return AdvertisedRate(
            kind=self._carrier.kind,
            station=address_octets(station),
            rlq_id=rlq_id,
            frames=int(self._frames[number]),
            unlimited=int(self._unlimited[number]),
            rate_bps=None if rates is None else rates.scaled(_KBPS),
            limited_over_time=tuple(self._limited_in.values[number, :used].tolist()),
            rate_sum_bps_over_time=tuple(_KBPS * total for total in sums),
        )
