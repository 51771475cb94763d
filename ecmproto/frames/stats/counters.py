"""Counters of frame sizes, frame types, congestion feedback, E²CM probes and advertised rates.

Each counter processes batches as they arrive. Tables have a maximum number of rows, so that memory use is
bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError
from ecmproto.frames.batch.headers import fixed
from ecmproto.frames.capture.batch import Batch, Int64, Interface
from ecmproto.frames.columns import Column, Texts
from ecmproto.frames.stats.statistics import (
    E2CM_LISTS,
    KINDS,
    AdvertisedRate,
    CongestionPoint,
    InterfaceCount,
    KindCount,
    MessageFlow,
    ProbedFlow,
    Probes,
    SizeBucket,
    Sizes,
    kind_numbers,
    listed,
)
from ecmproto.frames.stats.tally import (
    NO_NUMBER,
    NO_SLOT,
    CountedBatch,
    Distributions,
    Numbering,
    Timeline,
    address_octets,
    count_at,
    tally,
)
from ecmproto.units import BPS_PER_KBPS, QUEUE_UNIT_OCTETS, RATE_INFINITY
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Feedback, Layer
from ecmproto.wire.formats.e2cm import PROBE_FWD, PROBE_REV
from ecmproto.wire.formats.registry import FORMATS, all_fields

FRAME_FIELDS = ("frame.protocols", "frame.error", "vlan.priority", "ieee8021ad.priority", "e2cm.type")
BUCKET_STARTS = (0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
"""Minimum frame length, in octets, of each bucket. Wireshark uses the same buckets."""
_STARTS = np.array(BUCKET_STARTS, np.int64)
MAX_MALFORMED = 100
OTHER_MALFORMED = "other"


class FrameCounts:
    """Frame counts by all properties except time."""

    def __init__(self) -> None:
        self.frames: int = 0
        self.octets: int = 0
        self.captured_octets: int = 0
        self.cut_frames: int = 0
        self.malformed: Counter[str] = Counter()
        self.left_out: int = 0
        """Number of malformed frames that were counted as ``other`` because the table was full."""
        self._sizes = np.zeros(len(BUCKET_STARTS), np.int64)
        self._minimum: int | None = None
        self._greatest: int | None = None
        self._by_interface: Int64 = np.zeros((2, 0), np.int64)
        self._priorities = np.zeros(8, np.int64)

    def add(self, counted: CountedBatch) -> None:
        """Count the frames of a batch."""
        batch = counted.batch
        if not len(batch):
            return
        self.frames += len(batch)
        self.octets += int(batch.original.sum())
        self.captured_octets += int(batch.captured.sum())
        self.cut_frames += int((batch.captured < batch.original).sum())
        indices = np.searchsorted(_STARTS, batch.original, side="right") - 1
        self._sizes += np.bincount(indices, minlength=len(self._sizes))
        minimum, greatest = int(batch.original.min()), int(batch.original.max())
        self._minimum = minimum if self._minimum is None else min(minimum, self._minimum)
        self._greatest = greatest if self._greatest is None else max(greatest, self._greatest)
        self._add_interfaces(batch)
        customer = counted.columns["vlan.priority"].outermost()
        if len(counted.columns["ieee8021ad.priority"].outermost()):
            outer = outer_priorities(counted)
            self._priorities += np.bincount(outer[outer >= 0], minlength=8)
        else:
            self._priorities += np.bincount(np.asarray(customer.values), minlength=8)
        self._add_malformed(counted.columns["frame.error"])

    def _add_interfaces(self, batch: Batch) -> None:
        have, maximum = self._by_interface.shape[1], int(batch.interface.max()) + 1
        if have < maximum:
            wider = np.zeros((2, maximum), np.int64)
            wider[:, :have] = self._by_interface
            self._by_interface, have = wider, maximum
        self._by_interface[0] += np.bincount(batch.interface, minlength=have)
        # floats are exact here, because the sums of a batch are far below 2^53
        octets = np.bincount(batch.interface, weights=batch.original, minlength=have)
        self._by_interface[1] += octets.astype(np.int64)

    def _add_malformed(self, errors: Column) -> None:
        texts = errors.values
        assert isinstance(texts, Texts)
        counts = np.bincount(texts.codes, minlength=len(texts.words)).tolist()
        self.add_errors({word: count for word, count in zip(texts.words, counts, strict=True) if count})

    def add_errors(self, counts: Mapping[str, int]) -> None:
        """Add the numbers of malformed frames per error."""
        for error, count in counts.items():
            what = malformation(error)
            if what not in self.malformed and len(self.malformed) >= MAX_MALFORMED:
                what = OTHER_MALFORMED
                self.left_out += count
            self.malformed[what] += count

    def join(self, later: FrameCounts, shift: int) -> None:
        """Add the counts of ``later``, a counter of later frames.

        ``shift`` is added to the interface numbers of ``later``.
        """
        self.frames += later.frames
        self.octets += later.octets
        self.captured_octets += later.captured_octets
        self.cut_frames += later.cut_frames
        self.left_out += later.left_out
        self.add_errors({what: count for what, count in later.malformed.items() if what != OTHER_MALFORMED})
        if later.left_out:
            self.malformed[OTHER_MALFORMED] += later.left_out
        self._sizes += later._sizes
        self._priorities += later._priorities
        if later._minimum is not None and later._greatest is not None:
            self._minimum = later._minimum if self._minimum is None else min(later._minimum, self._minimum)
            self._greatest = max(later._greatest, self._greatest or 0)
        have, others = self._by_interface.shape[1], later._by_interface.shape[1]
        if others:
            wider = np.zeros((2, max(have, shift + others)), np.int64)
            wider[:, :have] = self._by_interface
            wider[:, shift : shift + others] += later._by_interface
            self._by_interface = wider

    @property
    def malformations(self) -> Mapping[str, int]:
        """Number of malformed frames per error, sorted by descending number and then alphabetically."""
        return dict(sorted(self.malformed.items(), key=lambda item: (-item[1], item[0])))

    @property
    def sizes(self) -> Sizes:
        """Distribution of frame lengths."""
        ends = [start - 1 for start in BUCKET_STARTS[1:]]
        buckets = zip(BUCKET_STARTS, [*ends, None], self._sizes.tolist(), strict=True)
        return Sizes(
            minimum=self._minimum,
            mean=self.octets / self.frames if self.frames else None,
            maximum=self._greatest,
            buckets=tuple(SizeBucket(low=low, high=high, frames=count) for low, high, count in buckets),
        )

    @property
    def priorities(self) -> Mapping[int, int]:
        """Number of frames per priority of the outermost VLAN tag."""
        return {priority: count for priority, count in enumerate(self._priorities.tolist()) if count}

    def interfaces(self, described: Sequence[Interface]) -> tuple[InterfaceCount, ...]:
        """Return the counts of all interfaces in ``described``.

        If ``described`` is empty, return the counts of all interfaces with frames.
        """
        known = described or [Interface(index=i, linktype=1) for i in range(self._by_interface.shape[1])]
        frames, octets = self._by_interface.tolist()
        none = [0] * (len(known) - len(frames))
        return tuple(
            InterfaceCount(
                index=each.index,
                name=each.name,
                linktype=each.linktype,
                linktype_name=each.linktype_name,
                snaplen_octets=each.snaplen,
                speed_bps=each.speed_bps,
                frames=count,
                octets=size,
            )
            for each, count, size in zip(known, frames + none, octets + none, strict=True)
        )


_SHORT = r"(?P<layer>[\w.]+) at octet \d+: expected (?:(?P<octets>\d+ octets)|(?P<needed>.*)), got .*"


def malformation(error: str) -> str:
    """Return the text of a decoding error without the numbers that are specific to one frame."""
    match = re.fullmatch(_SHORT, error)
    if match is None:
        return error
    needed = "more octets" if match["octets"] else match["needed"]
    return f"{match['layer']}: expected {needed}"


_TAGS = ("vlan", "ieee8021ad")


def outer_priorities(counted: CountedBatch) -> Int64:
    """Return the priority in the outermost C-TAG or S-TAG of each frame, or -1 for a frame without a tag."""
    customer = counted.columns["vlan.priority"].outermost()
    service = counted.columns["ieee8021ad.priority"].outermost()
    outer = np.full(customer.frames, -1, np.int64)
    outer[service.rows] = np.asarray(service.values)
    inner = outer[customer.rows] < 0
    if len(service):
        inner |= _customer_first(counted.columns["frame.protocols"])[customer.rows]
    outer[customer.rows[inner]] = np.asarray(customer.values)[inner]
    return outer


def _customer_first(protocols: Column) -> NDArray[np.bool_]:
    """Return a mask of the frames with a C-TAG before any S-TAG."""
    texts = protocols.values
    assert isinstance(texts, Texts)
    first = [next((name for name in word.split(":") if name in _TAGS), "") for word in texts.words]
    before: NDArray[np.bool_] = np.array([name == "vlan" for name in first])[texts.codes]
    return before


class KindCounts:
    """Frame counts by frame type, in total and over time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._frames = np.zeros(len(KINDS) + 1, np.int64)
        self._octets = np.zeros(len(KINDS) + 1, np.int64)
        # the last row is for all frames
        self._frames_in = timeline.series(len(KINDS) + 1)
        self._octets_in = timeline.series(len(KINDS) + 1)

    def add(self, counted: CountedBatch) -> None:
        """Count the frames of a batch."""
        texts = counted.columns["frame.protocols"].values
        assert isinstance(texts, Texts)
        lists = listed([[*kind_numbers(word), len(KINDS)] for word in texts.words])
        self._tally(texts.codes.astype(np.int64), counted.slots, counted.batch.original, lists)
        types = counted.columns["e2cm.type"]
        if len(types):
            rows = types.rows
            codes = np.asarray(types.values).astype(np.int64)
            self._tally(codes, counted.slots[rows], counted.batch.original[rows], E2CM_LISTS)

    def _tally(self, codes: Int64, slots: Int64, octets: Int64, lists: tuple[Int64, Int64]) -> None:
        kind_numbers, bounds = lists
        tally(
            fixed(codes), fixed(slots), fixed(octets), fixed(kind_numbers), fixed(bounds), self._frames,
            self._octets, self._frames_in.values, self._octets_in.values,
        )  # fmt: skip

    def join(self, later: KindCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        self._frames += later._frames
        self._octets += later._octets
        for here, other in ((self._frames_in, later._frames_in), (self._octets_in, later._octets_in)):
            here.values += self._timeline.of(later._timeline, other.values)

    @property
    def counts(self) -> tuple[KindCount, ...]:
        """Counts of the frame types that occur."""
        return tuple(
            KindCount(
                kind=kind,
                frames=int(self._frames[number]),
                octets=int(self._octets[number]),
                frames_over_time=self._over_time(self._frames_in.values[number]),
                octets_over_time=self._over_time(self._octets_in.values[number]),
            )
            for number, kind in enumerate(KINDS)
            if self._frames[number]
        )

    @property
    def over_time(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Number of frames and number of octets in each interval, for all frame types together."""
        return self._over_time(self._frames_in.values[-1]), self._over_time(self._octets_in.values[-1])

    def _over_time(self, values: Int64) -> tuple[int, ...]:
        return tuple(values[: self._timeline.used].tolist())


MAX_POINTS = 256
"""Maximum number of congestion points per mechanism."""
MAX_FLOWS = 16384
"""Maximum number of flows per mechanism."""
FB_BITS = 6
FLOW_ID_BITS = 16
_QUEUE_UNIT = f"{QUEUE_UNIT_OCTETS} octets"
"""Unit of queue lengths in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackFormat:
    """Field names of a feedback format. An empty string means that the format does not have the field."""

    kind: str
    cpid: str
    quantities: Mapping[str, str]
    """Fields in units of 64 octets. Each key is the name of the quantity in octets."""
    flow_id: str
    fb: str
    type: str
    types: Mapping[int, str]
    """Names of the values of ``type`` that are feedback."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of all fields that the format has."""
        named = self.cpid, *self.quantities.values(), self.flow_id, self.fb, self.type
        return tuple(name for name in named if name)


_BITS = {field.name: field.bits or 0 for _, field in all_fields()}


def _feedback_format(cls: type[Layer], declared: Feedback) -> FeedbackFormat:
    """Return the field names of a feedback format. Raises ParameterError if a field is too wide to count."""
    fb = f"{cls.prefix}.{declared.quantized}" if declared.quantized else ""
    for name, maximum in ((declared.flow_id, FLOW_ID_BITS), (fb, FB_BITS)):
        if name and not 0 < _BITS.get(name, 0) <= maximum:
            raise ParameterError(name=cls.prefix, needed=f"a field of at most {maximum} bits", got=name)
    return FeedbackFormat(
        kind=cls.prefix,
        cpid=next(field.name for field in cls.layout if field.kind == "cpid"),
        quantities={
            f"{field.key}_octets": field.name
            for field in cls.layout
            if field.meta.unit == _QUEUE_UNIT and field.kind in ("uint", "sint")
        },
        flow_id=declared.flow_id,
        fb=fb,
        type=f"{cls.prefix}.type" if declared.types else "",
        types=declared.types,
    )


FEEDBACK_FORMATS = tuple(
    _feedback_format(cls, cls.as_feedback) for cls in FORMATS if cls.counted_as and cls.as_feedback
)
FEEDBACK_FIELDS = ("eth.dst", *(name for format in FEEDBACK_FORMATS for name in format.fields))


class FeedbackCounts:
    """Counts of the messages of one mechanism."""

    def __init__(self, format: FeedbackFormat, timeline: Timeline) -> None:
        self._format = format
        self._timeline = timeline
        self.points: Numbering = Numbering(MAX_POINTS)
        self.flows: Numbering = Numbering(MAX_FLOWS)
        self._frames = np.zeros(MAX_POINTS, np.int64)
        self._fb = np.zeros((MAX_POINTS, 1 << FB_BITS), np.int64)
        self._types = np.zeros((MAX_POINTS, len(format.types)), np.int64)
        self._quantities = {name: Distributions() for name in (*_fb_name(format), *format.quantities)}
        self._over_time = timeline.series()
        self._of_flows = np.zeros((3, MAX_FLOWS), np.int64)

    def add(self, counted: CountedBatch) -> None:
        """Count the messages of a batch."""
        format = self._format
        rows = counted.columns[format.cpid].outermost().rows
        if format.types:
            types = counted.values(format.type, rows)
            rows = rows[np.isin(types, list(format.types))]
        if not len(rows):
            return
        cpid = counted.values(format.cpid, rows)
        fb = counted.values(format.fb, rows) if format.fb else np.zeros(len(rows), np.int64)
        self._add_points(counted, rows, cpid, fb)
        self._add_flows(counted, rows, cpid, fb)

    def _add_points(self, counted: CountedBatch, rows: NDArray[np.int32], cpid: Int64, fb: Int64) -> None:
        format = self._format
        points = self.points.numbers(cpid, np.zeros(len(cpid), np.int64))
        known, count = points != NO_NUMBER, self.points.count
        self._frames += np.bincount(points[known], minlength=MAX_POINTS)
        for name in _fb_name(format):
            self._quantities[name].add(points, fb, count)
            count_at(self._fb, points[known], fb[known])
        for name, field in format.quantities.items():
            self._quantities[name].add(points, counted.values(field, rows), count)
        if format.types:
            types = counted.values(format.type, rows)
            indices = np.searchsorted(np.array(sorted(format.types)), types)
            count_at(self._types, points[known], indices[known])
        self._over_time.grow(count)
        timed = known & (counted.slots[rows] != NO_SLOT)
        count_at(self._over_time.values, points[timed], counted.slots[rows][timed])

    def _add_flows(self, counted: CountedBatch, rows: NDArray[np.int32], cpid: Int64, fb: Int64) -> None:
        format = self._format
        flow_id = counted.values(format.flow_id, rows) if format.flow_id else np.zeros(len(rows), np.int64)
        destination = counted.addresses("eth.dst", rows)
        flows = self.flows.numbers(cpid, (destination << FLOW_ID_BITS) | flow_id)
        known = flows != NO_NUMBER
        frames, total, greatest = self._of_flows
        frames += np.bincount(flows[known], minlength=MAX_FLOWS)
        np.add.at(total, flows[known], fb[known])
        np.maximum.at(greatest, flows[known], fb[known])

    def join(self, later: FeedbackCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        points = self.points.join(later.points, later._frames)
        known, count = points[points != NO_NUMBER], self.points.count
        rows = np.flatnonzero(points != NO_NUMBER)
        for here, other in (
            (self._frames, later._frames),
            (self._fb, later._fb),
            (self._types, later._types),
        ):
            here[known] += other[rows]
        for name, quantity in self._quantities.items():
            quantity.join(later._quantities[name], points, count)
        self._over_time.join(self._timeline.of(later._timeline, later._over_time.values), points)
        flows = self.flows.join(later.flows, later._of_flows[0])
        known, rows = flows[flows != NO_NUMBER], np.flatnonzero(flows != NO_NUMBER)
        self._of_flows[:2, known] += later._of_flows[:2, rows]
        self._of_flows[2, known] = np.maximum(self._of_flows[2, known], later._of_flows[2, rows])

    def congestion_points(self) -> list[CongestionPoint]:
        """Return the congestion points, sorted by descending number of messages."""
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
        """Return the flows that feedback messages name, sorted by descending number of messages."""
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
            flow_id=key & ((1 << FLOW_ID_BITS) - 1) if format.flow_id else None,
            destination=address_octets(key >> FLOW_ID_BITS),
            frames=frames,
            fb_mean=total / frames if format.fb else None,
            fb_maximum=greatest if format.fb else None,
        )


def _fb_name(format: FeedbackFormat) -> tuple[str, ...]:
    return (format.fb.partition(".")[2],) if format.fb else ()


MAX_PROBED_FLOWS = 512
PROBE_FIELDS = ("eth.dst", "e2cm.type", "e2cm.cpid", "e2cm.flow_id", "e2cm.latency", "e2cm.throughput")


class ProbeCounts:
    """Counts of probes and replies."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.flows: Numbering = Numbering(MAX_PROBED_FLOWS)
        self._forward = self._replies = 0
        self._latency = Distributions()
        """Latency of all replies, in a single row."""
        self._latencies = Distributions()
        self._throughputs = Distributions()
        self._over_time = timeline.series(2)

    def add(self, counted: CountedBatch) -> None:
        """Count the probes of a batch."""
        rows = counted.columns["e2cm.type"].rows
        types = counted.values("e2cm.type", rows)
        self._forward += int((types == PROBE_FWD).sum())
        rows = rows[types == PROBE_REV]
        if not len(rows):
            return
        self._replies += len(rows)
        latency = counted.values("e2cm.latency", rows)
        self._latency.add(np.zeros(len(rows), np.int64), latency, 1)
        destination = (counted.values("e2cm.cpid", rows) >> 16) & ((1 << 48) - 1)
        low = (destination << 16) | counted.values("e2cm.flow_id", rows)
        flows = self.flows.numbers(low, counted.addresses("eth.dst", rows))
        self._latencies.add(flows, latency, self.flows.count)
        self._throughputs.add(flows, counted.values("e2cm.throughput", rows), self.flows.count)
        timed = counted.slots[rows] != NO_SLOT
        slots, first = counted.slots[rows][timed], np.zeros(int(timed.sum()), np.int64)
        count_at(self._over_time.values, first, slots)
        count_at(self._over_time.values, first + 1, slots, latency[timed])

    def join(self, later: ProbeCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        self._forward += later._forward
        self._replies += later._replies
        self._latency.join(later._latency, np.zeros(1, np.int64), 1)
        flows = self.flows.join(later.flows, later._latencies.counts())
        self._latencies.join(later._latencies, flows, self.flows.count)
        self._throughputs.join(later._throughputs, flows, self.flows.count)
        self._over_time.values += self._timeline.of(later._timeline, later._over_time.values)

    @property
    def probes(self) -> Probes | None:
        """Counts of probes and replies so far, or ``None`` without probes and replies."""
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
            throughput_bps=throughput.scaled(BPS_PER_KBPS),
        )


MAX_QUEUES = 256
"""Maximum number of rate-limited queues per rate carrier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateCarrier:
    """A layer that contains rates, and the address field that identifies the station of the rate-limited
    queue.
    """

    kind: str
    station: str


def _carries_rates(cls: type[Layer]) -> bool:
    return bool(cls.counted_as) and {"rlq_id", "rate"} <= {field.key for field in cls.layout}


RATE_CARRIERS = tuple(
    RateCarrier(kind=cls.prefix, station="eth.src" if cls.role == "tag" else "eth.dst")
    for cls in FORMATS
    if _carries_rates(cls)
)
RATE_FIELDS = (
    "eth.src",
    "eth.dst",
    *(f"{each.kind}.{part}" for each in RATE_CARRIERS for part in ("rlq_id", "rate")),
)


class RateCounts:
    """Counts of the rates in one layer."""

    def __init__(self, carrier: RateCarrier, timeline: Timeline) -> None:
        self._carrier = carrier
        self._timeline = timeline
        self.queues: Numbering = Numbering(MAX_QUEUES)
        self._frames = np.zeros(MAX_QUEUES, np.int64)
        self._unlimited = np.zeros(MAX_QUEUES, np.int64)
        self._rates = Distributions()
        self._limited_in = timeline.series()
        self._sums_in = timeline.series()

    def add(self, counted: CountedBatch) -> None:
        """Count the rates in a batch."""
        kind = self._carrier.kind
        rows = counted.columns[f"{kind}.rate"].outermost().rows
        if not len(rows):
            return
        rate = counted.values(f"{kind}.rate", rows)
        station = counted.addresses(self._carrier.station, rows)
        queues = self.queues.numbers(station, counted.values(f"{kind}.rlq_id", rows))
        known, limited = queues != NO_NUMBER, rate != RATE_INFINITY
        self._frames += np.bincount(queues[known], minlength=MAX_QUEUES)
        self._unlimited += np.bincount(queues[known & ~limited], minlength=MAX_QUEUES)
        self._rates.add(queues[limited], rate[limited], self.queues.count)
        slots = counted.slots[rows]
        timed = known & limited & (slots != NO_SLOT)
        for series, amounts in ((self._limited_in, np.ones_like(rate)), (self._sums_in, rate)):
            series.grow(self.queues.count)
            count_at(series.values, queues[timed], slots[timed], amounts[timed])

    def join(self, later: RateCounts) -> None:
        """Add the counts of ``later``, a counter of later frames."""
        queues = self.queues.join(later.queues, later._frames)
        known, rows = queues[queues != NO_NUMBER], np.flatnonzero(queues != NO_NUMBER)
        self._frames[known] += later._frames[rows]
        self._unlimited[known] += later._unlimited[rows]
        self._rates.join(later._rates, queues, self.queues.count)
        for here, other in ((self._limited_in, later._limited_in), (self._sums_in, later._sums_in)):
            here.grow(self.queues.count)
            here.join(self._timeline.of(later._timeline, other.values), queues)

    def rates(self) -> list[AdvertisedRate]:
        """Return the rates of each queue, sorted by descending number of frames."""
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
            rate_bps=None if rates is None else rates.scaled(BPS_PER_KBPS),
            limited_over_time=tuple(self._limited_in.values[number, :used].tolist()),
            rate_sum_bps_over_time=tuple(BPS_PER_KBPS * total for total in sums),
        )
