"""Messages of congestion points: per CPID, and per flow that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ecmproto.formats.bcn import TYPES as BCN_TYPES
from ecmproto.formats.e2cm import BCN_TYPES as E2CM_FEEDBACK
from ecmproto.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.stats.distribution import Distributions
from ecmproto.stats.moment import Moment, address_octets
from ecmproto.stats.statistics import CongestionPoint, MessageFlow
from ecmproto.stats.tally import NO_NUMBER, NO_SLOT, Numbering, count_at
from ecmproto.stats.timeline import Timeline
from ecmproto.units import QUEUE_UNIT_OCTETS

Int64 = NDArray[np.int64]

MOST_POINTS = 256
"""Congestion points of one mechanism told apart."""
MOST_FLOWS = 16384
"""Flows of one mechanism told apart."""
FB_VALUES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Where a mechanism's messages have what is counted: fields, and the values of the type field that do."""

    kind: str
    quantities: Mapping[str, str]
    """The fields in 64 octets by what they are called in octets."""
    flow_id: str = ""
    types: Mapping[int, str]
    fb: str = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """All its fields."""
        named = (self.flow_id, self.fb, f"{self.kind}.type" if self.types else "")
        return (f"{self.kind}.cpid", *self.quantities.values(), *filter(None, named))


FORMATS = (
    Format(
        kind="cnm", fb="cnm.qntz_fb", flow_id="cntag.flow_id", types={},
        quantities={"q_offset_octets": "cnm.q_offset", "q_delta_octets": "cnm.q_delta"},
    ),
    Format(kind="ecm", types={}, quantities={"q_off_octets": "ecm.q_off", "q_delta_octets": "ecm.q_delta"}),
    Format(kind="bcn", types=BCN_TYPES, quantities={"e_octets": "bcn.e"}),
    Format(
        kind="e2cm", flow_id="e2cm.flow_id", types={type: E2CM_TYPES[type] for type in E2CM_FEEDBACK},
        quantities={"q_off_octets": "e2cm.q_off", "q_delta_octets": "e2cm.q_delta"},
    ),
)  # fmt: skip

FIELDS = ("eth.dst", *(name for format in FORMATS for name in format.fields))


class FeedbackCounts:
    """Counts of one mechanism's messages."""

    def __init__(self, format: Format, timeline: Timeline) -> None:
        self._format = format
        self._timeline = timeline
        self.points = Numbering(MOST_POINTS)
        self.flows = Numbering(MOST_FLOWS)
        self._frames = np.zeros(MOST_POINTS, np.int64)
        self._fb = np.zeros((MOST_POINTS, FB_VALUES), np.int64)
        self._types = np.zeros((MOST_POINTS, len(format.types)), np.int64)
        self._quantities = {name: Distributions() for name in (*_fb_name(format), *format.quantities)}
        self._over_time = timeline.series()
        self._of_flows = np.zeros((3, MOST_FLOWS), np.int64)

    def add(self, moment: Moment) -> None:
        """Count the messages of a batch."""
        format = self._format
        rows = moment.columns[f"{format.kind}.cpid"].rows
        if format.types:
            types = moment.values(f"{format.kind}.type", rows)
            rows = rows[np.isin(types, list(format.types))]
        if not len(rows):
            return
        cpid = moment.values(f"{format.kind}.cpid", rows)
        fb = moment.values(format.fb, rows) if format.fb else np.zeros(len(rows), np.int64)
        self._add_points(moment, rows, cpid, fb)
        self._add_flows(moment, rows, cpid, fb)

    def _add_points(self, moment: Moment, rows: NDArray[np.int32], cpid: Int64, fb: Int64) -> None:
        format = self._format
        points = self.points.numbers(cpid, np.zeros(len(cpid), np.int64))
        known, count = points != NO_NUMBER, self.points.count
        self._frames += np.bincount(points[known], minlength=MOST_POINTS)
        for name in _fb_name(format):
            self._quantities[name].add(points, fb, count)
            count_at(self._fb, points[known], fb[known])
        for name, field in format.quantities.items():
            self._quantities[name].add(points, moment.values(field, rows), count)
        if format.types:
            types = moment.values(f"{format.kind}.type", rows)
            places = np.searchsorted(np.array(sorted(format.types)), types)
            count_at(self._types, points[known], places[known])
        self._over_time.grow(count)
        timed = known & (moment.slots[rows] != NO_SLOT)
        count_at(self._over_time.values, points[timed], moment.slots[rows][timed])

    def _add_flows(self, moment: Moment, rows: NDArray[np.int32], cpid: Int64, fb: Int64) -> None:
        format = self._format
        flow_id = moment.values(format.flow_id, rows) if format.flow_id else np.zeros(len(rows), np.int64)
        destination = moment.addresses("eth.dst", rows)
        flows = self.flows.numbers(cpid, (destination << 16) | flow_id)
        known = flows != NO_NUMBER
        frames, total, greatest = self._of_flows
        frames += np.bincount(flows[known], minlength=MOST_FLOWS)
        np.add.at(total, flows[known], fb[known])
        np.maximum.at(greatest, flows[known], fb[known])

    def congestion_points(self) -> list[CongestionPoint]:
        """Return what each congestion point sent, the one that sent most first."""
        order = np.argsort(-self._frames[: self.points.count], kind="stable").tolist()
        return [self._point(number, int(self.points.low[number])) for number in order]

    def _point(self, number: int, cpid: int) -> CongestionPoint:
        format, quantities = self._format, {}
        for name, distributions in self._quantities.items():
            distribution = distributions.row(number)
            assert distribution is not None
            unit = QUEUE_UNIT_OCTETS if name in format.quantities else 1
            quantities[name] = distribution.scaled(unit)
        types = zip(sorted(format.types), self._types[number].tolist(), strict=True)
        return CongestionPoint(
            kind=format.kind,
            cpid=cpid,
            frames=int(self._frames[number]),
            quantities=quantities,
            types={format.types[type]: count for type, count in types if count},
            fb_histogram=tuple(self._fb[number].tolist()) if format.fb else (),
            frames_over_time=tuple(self._over_time.values[number, : self._timeline.used].tolist()),
        )

    def message_flows(self) -> list[MessageFlow]:
        """Return what the flows were told, the one that was told most first."""
        count = self.flows.count
        order = np.argsort(-self._of_flows[0, :count], kind="stable").tolist()
        low, high = self.flows.low.tolist(), self.flows.high.tolist()
        columns = self._of_flows[:, :count].T.tolist()
        return [self._flow(low[number], high[number], *columns[number]) for number in order]

    def _flow(self, cpid: int, key: int, frames: int, total: int, greatest: int) -> MessageFlow:
        format = self._format
        return MessageFlow(
            kind=format.kind,
            cpid=cpid,
            flow_id=key & 0xFFFF if format.flow_id else None,
            destination=address_octets(key >> 16),
            frames=frames,
            fb_mean=total / frames if format.fb else None,
            fb_maximum=greatest if format.fb else None,
        )


def _fb_name(format: Format) -> tuple[str, ...]:
    return (format.fb.partition(".")[2],) if format.fb else ()


FeedbackMaker = Callable[[Timeline], FeedbackCounts]
MAKERS: tuple[FeedbackMaker, ...] = tuple(partial(FeedbackCounts, format) for format in FORMATS)
"""What makes the counts of each mechanism."""
