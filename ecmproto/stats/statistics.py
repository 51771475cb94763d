"""Statistics of a capture: the kinds of frames told apart, plain values, and the JSON document of them.

Times are ns since 1970, durations ns, sizes octets on the wire as the capture's records state them (without
FCS unless the capture has it).  Rates are means over the capture's span unless they say otherwise.
In JSON times are integer ns, CPIDs hex, addresses text; what has no value is null, and lists ``over_time``
have a value for each interval of ``intervals``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ecmproto.codec.document import json_text
from ecmproto.errors import CaptureError
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.formats.registry import FORMATS
from ecmproto.formats.text import mac_text
from ecmproto.units import NS_PER_S

NS_PER_US = 1000

Group = Literal["message", "flow control", "tag", "payload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind: ``name`` is the layer's in filters, ``layers`` those of which one makes a frame be of it."""

    name: str
    title: str
    group: Group
    layers: tuple[str, ...] = ()


E2CM_KINDS = tuple(
    Kind(name=f"e2cm.{word.lower()}", title=f"E²CM {word}", group="message") for word in E2CM_TYPES.values()
)
"""E²CM frames by their type, in the order of the types: the layer alone does not tell them apart."""
OTHER = Kind(name="other", title="other", group="payload")
"""Frames that hold nothing else that has a kind, tags aside."""


def _kinds() -> Iterator[Kind]:
    """Yield the kinds of the formats by their roles, each E²CM type behind E²CM."""
    for role in get_args(Group):
        formats = [cls for cls in FORMATS if cls.role == role and cls.counted_as]
        # VLAN tags behind those of congestion management
        formats.sort(key=lambda cls: cls.announced_by in ("c_tag", "s_tag", "i_tag"))
        for title in dict.fromkeys(cls.counted_as for cls in formats):
            layers = tuple(cls.prefix for cls in formats if cls.counted_as == title)
            yield Kind(name=layers[0], title=title, group=role, layers=layers)
            if layers == (E2CM.prefix,):
                yield from E2CM_KINDS
    yield OTHER


KINDS: tuple[Kind, ...] = tuple(_kinds())
NUMBER_OF = {kind.name: number for number, kind in enumerate(KINDS)}
_BY_LAYER = {layer: number for number, kind in enumerate(KINDS) for layer in kind.layers}
_OTHER = NUMBER_OF[OTHER.name]


def kind_of(layer: str) -> Kind:
    """Return the kind of the frames that have a layer which is counted."""
    return KINDS[_BY_LAYER[layer]]


def kinds_of(protocols: str) -> list[int]:
    """Return the numbers of the kinds of a frame whose layers are ``protocols``, E²CM's types aside."""
    found = sorted({_BY_LAYER[layer] for layer in protocols.split(":") if layer in _BY_LAYER})
    if all(KINDS[number].group == "tag" for number in found):
        found.append(_OTHER)
    return found


def listed(lists: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lists one behind the other, and where each starts; then where the last one ends."""
    rows = [np.asarray(row, np.int64) for row in lists]
    bounds = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=bounds[1:])
    return np.concatenate(rows) if rows else np.empty(0, np.int64), bounds


E2CM_LISTS = listed([[NUMBER_OF[kind.name]] for kind in E2CM_KINDS])
"""The kinds of each type of E²CM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of many whole numbers.

    Percentiles are nearest-rank, and read off buckets: at most 1/32 of the number beyond it.
    """

    count: int
    minimum: int
    mean: float
    maximum: int
    p50: int
    p90: int
    p99: int

    def scaled(self, factor: int) -> Distribution:
        """Return the distribution of the numbers times ``factor``."""
        return Distribution(
            count=self.count,
            minimum=factor * self.minimum,
            mean=factor * self.mean,
            maximum=factor * self.maximum,
            p50=factor * self.p50,
            p90=factor * self.p90,
            p99=factor * self.p99,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the earliest to the latest time in a capture; both None where no frame has one."""

    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def duration_ns(self) -> int:
        """The duration."""
        return 0 if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def per_second(self, count: float) -> float | None:
        """Return the mean rate of ``count`` things; None over no time."""
        return count * NS_PER_S / self.duration_ns if self.duration_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Equal spans of time from ``start_ns`` on, which ``over_time`` values are for, one each."""

    start_ns: int
    width_ns: int
    count: int
    asked_ns: int | None = None
    """The width asked for, where one was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """The number of frames of a kind, and their times."""

    kind: Kind
    frames: int
    octets: int
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCount:
    """An interface and the numbers of frames captured on it."""

    index: int
    name: str
    linktype: int
    linktype_name: str
    snaplen_octets: int
    """0: no limit stated."""
    speed_bps: int
    """0: none stated."""
    frames: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBucket:
    """Frames of ``low`` to ``high`` octets, both included; no ``high``: and more."""

    low: int
    high: int | None
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The distribution of frame lengths; None if there are no frames."""

    minimum: int | None
    mean: float | None
    maximum: int | None
    buckets: tuple[SizeBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPoint:
    """The messages of one mechanism with one CPID."""

    kind: str
    """The format: cnm, ecm, bcn, e2cm, or one that another package brings."""
    cpid: int
    frames: int
    quantities: Mapping[str, Distribution]
    """qntz_fb; q_offset_octets and q_delta_octets (CNM: Qeq − Qlen), q_off_octets (ECM and E²CM: Qlen − Qeq),
    e_octets (BCN), by the names of the fields with their unit."""
    types: Mapping[str, int]
    """Frames by their type, where the format has types."""
    fb_histogram: tuple[int, ...] = ()
    """CNMs by their 6-bit quantized feedback."""
    frames_over_time: tuple[int, ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFlow:
    """The messages about one flow: from one congestion point, for one flow identifier, to one station."""

    kind: str
    cpid: int
    flow_id: int | None
    """Of the CN-TAG (0 without one), or E²CM's; None where messages have none."""
    destination: bytes | None
    """The station that is told to slow down; None under a link layer without addresses."""
    frames: int
    fb_mean: float | None
    """Mean quantized feedback of CNMs."""
    fb_maximum: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedFlow:
    """The replies to E²CM's probes of one flow, which say what the destination has measured.

    A reply carries the time the forward probe took to reach the destination: its clock less the timestamp
    of the source, modulo 2^32 ns, hence only what the two clocks' difference leaves it.
    """

    station: bytes | None
    """The source of the flow, to which the reply goes."""
    destination: bytes
    """The destination of the flow, from the CPID."""
    flow_id: int
    latency_ns: Distribution
    throughput_bps: Distribution
    """Service rate between two probes as the destination saw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """E²CM's probes."""

    forward: int
    replies: int
    latency_ns: Distribution | None
    """Of all replies."""
    flows: tuple[ProbedFlow, ...]
    replies_over_time: tuple[int, ...] = field(repr=False)
    latency_sum_ns_over_time: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedRate:
    """The rates that RD tags, FECN returns or DBP reports carry for one rate-limited queue."""

    kind: str
    """The format: rdtag, fecn or dbp."""
    station: bytes | None
    """The source whose queue it is: where a tag comes from, and where a return or report goes."""
    rlq_id: int
    frames: int
    unlimited: int
    """Frames whose rate is still infinity, −1."""
    rate_bps: Distribution | None
    """Of the others."""
    limited_over_time: tuple[int, ...] = field(repr=False)
    rate_sum_bps_over_time: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPause:
    """The pauses of one class; ``priority`` None is PAUSE, which stops the whole link."""

    priority: int | None
    pauses: int
    """Frames that asked for a time."""
    resumes: int
    """Frames that asked for none, which ends a pause."""
    paused_ns: int
    """For how long a pause was in force: the union of all."""
    transitions: int | None = None
    """How often it went from not paused to paused; None of several senders together, as the next three."""
    recent_ns: int | None = None
    """When the latest pause began."""
    recent_paused_ns: int | None = None
    """For how long that was in force, so far."""
    expired: int | None = None
    """Pauses that ran out: neither renewed nor ended by a frame in time."""
    paused_ns_over_time: tuple[int, ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSender:
    """A station that sends PAUSE or PFC, which stops whoever sends to it: its link partner."""

    interface: int
    source: bytes | None
    frames: int
    speed_bps: int
    speed_is_stated: bool
    """Whether the capture states the speed; otherwise it is assumed."""
    paused_ns: int
    """For how long at least one class was stopped."""
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseInterface:
    """The pauses of all senders of an interface: their union, both directions of a link."""

    interface: int
    frames: int
    paused_ns: int
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStorm:
    """A class that was stopped for 99 % of a detection time or more; ``priority`` None is the whole link."""

    interface: int
    source: bytes | None
    """Who stopped it."""
    priority: int | None
    begun_ns: int
    """When the pause began with which the detection time started."""
    detected_ns: int
    restored_ns: int | None
    """When there had been no pause for a restoration time; None: not before the end."""
    frames_left: int | None
    """Frames of the priority that left the stopped port within the detection time while the pause was in
    force; None where the capture cannot show any."""

    @property
    def seen(self) -> str:
        """Which of the two parts of a storm was seen: "pause" alone, or the "stall" of the port as well.

        "traffic": the port went on sending in spite of the pause, so that it is no storm.
        """
        if self.frames_left is None:
            return "pause"
        return "traffic" if self.frames_left else "pause and stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTimes:
    """PAUSE and PFC as time."""

    senders: tuple[PauseSender, ...]
    """Those who stopped somebody for longest first."""
    interfaces: tuple[PauseInterface, ...]
    storms: tuple[PauseStorm, ...] = ()
    more_storms: int = 0
    """Storms beyond those in the list."""
    detect_ns: int = 200_000_000
    restore_ns: int = 400_000_000
    """The times that storms were detected with."""


PFC_FAULTS = {
    "destination": "destination is not 01-80-C2-00-00-01",
    "source": "source is a group's address or none",
    "vlan_tag": "has a VLAN tag",
    "not_lossless": "pauses a priority that is not declared lossless",
    "upper_octet": "upper octet of the class-enable vector is not 0",
    "timers": "time of a priority that is not enabled is not 0",
    "padding": "padding is not 0",
    "length": "is not 64 octets long with its FCS",
    "malformed": "is too short to be read",
}
"""What may be wrong with a PFC frame, and how that is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFault:
    """PFC frames with one of `PFC_FAULTS`."""

    fault: str
    frames: int
    source: bytes | None
    """Who sent the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFrames:
    """PFC frames and what is wrong with some; those that did not come in time are in `ClassPause.expired`."""

    frames: int
    valid: int
    lossless: tuple[int, ...] | None
    """The priorities that may be paused; None: nobody declared them, and any may."""
    faults: tuple[PfcFault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """RoCE frames to one queue pair between two addresses: one direction of a connection."""

    source: str
    destination: str
    queue_pair: int
    frames: int
    octets: int
    data_frames: int
    """Neither acknowledges nor CNPs."""
    ect_frames: int
    """Of an ECN-capable transport, marked or not."""
    ce_frames: int
    """Marked on the way, CNPs aside."""
    cnps: int
    """CNPs among the frames: they tell this queue pair to slow down, which sends the other way round."""
    acknowledges: int
    receiver_not_ready: int
    naks: Mapping[str, int]
    """Negative acknowledgments by their codes."""
    psn_gaps: int
    psns_missing: int
    """PSNs in these gaps."""
    psn_repeats: int
    """Frames whose PSN was before the next one."""
    other_direction: bool
    """Whether the capture has frames of the other direction between the addresses."""
    about: tuple[int, ...]
    """The queue pairs of the flows that CNPs and acknowledges here may be about."""
    about_by: str
    """How that is known: "acknowledged", "only one", "one of" several; "" where the flow is not seen."""
    cnps_against: int
    """CNPs that came back for these frames, as far as it is known that they are for them."""
    refusals_against: int
    """NAKs and receivers not ready that came back for these frames, likewise."""
    delay_ns: Distribution | None
    """From the first CE-marked frame since the last such CNP to the next one."""
    first_ce_ns: int | None
    """When the first CE-marked frame came."""

    @property
    def trouble(self) -> int:
        """How much is wrong: marks, CNPs, missing and repeated PSNs, NAKs.

        What came back counts with the flow that it is about, or where it goes if that is not known.
        """
        here = (
            self.ce_frames + self.psns_missing + self.psn_repeats + self.cnps_against + self.refusals_against
        )
        return here if self.is_settled else here + self.cnps + self.refusals

    @property
    def refusals(self) -> int:
        """NAKs and receivers not ready among the frames."""
        return self.receiver_not_ready + sum(self.naks.values())

    @property
    def is_settled(self) -> bool:
        """Whether it is known which flow CNPs and acknowledges here are about."""
        return self.about_by in ("acknowledged", "only one")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceTraffic:
    """RoCE frames, by queue pair and direction."""

    frames: int
    address_pairs: int
    """Sources and destinations, each direction by itself."""
    pairs_of_both_directions: int
    """Those of them whose other direction is in the capture too."""
    queue_pairs: tuple[QueuePair, ...]
    """Those with most trouble first."""
    delay_ns: Distribution | None
    """Of all flows that CNPs are known to be for."""
    delay_quarters: tuple[tuple[int, int, int], ...] = field(repr=False)
    """These by quarters of doublings: least, least of the next, count."""
    frames_over_time: tuple[int, ...] = field(repr=False)
    ect_over_time: tuple[int, ...] = field(repr=False)
    ce_over_time: tuple[int, ...] = field(repr=False)
    cnps_over_time: tuple[int, ...] = field(repr=False)

    @property
    def cnps(self) -> int:
        """All CNPs."""
        return sum(each.cnps for each in self.queue_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The statistics of a capture, or of the frames that a filter selects."""

    read_frames: int
    """All frames, those that a filter left out too."""
    frames: int
    octets: int
    captured_octets: int
    cut_frames: int
    """Frames of which the capture has less than there was."""
    untimed_frames: int
    """Frames without a time, or with one that is no time: before 1824 or after 2116."""
    backwards_frames: int
    """Frames stamped before an earlier one."""
    span: Span
    """Of all frames read."""
    intervals: Intervals
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)
    interfaces: tuple[InterfaceCount, ...]
    malformed: Mapping[str, int]
    """Malformed frames by what is malformed, the most frequent first."""
    kinds: tuple[KindCount, ...]
    """Those that there are."""
    sizes: Sizes
    priorities: Mapping[int, int]
    """Frames by the priority of their outermost VLAN tag."""
    congestion_points: tuple[CongestionPoint, ...]
    """Those that sent most first, in each mechanism."""
    message_flows: tuple[MessageFlow, ...]
    """Those that were told most first."""
    probes: Probes | None
    rates: tuple[AdvertisedRate, ...]
    pauses: PauseTimes | None
    pfc: PfcFrames | None
    roce: RoceTraffic | None
    mirrors: Mapping[str, int]
    """Frames that carry others, which are not looked into, by their encapsulation."""
    left_out: Mapping[str, int]
    """Frames left out of the lists above because those have as many rows as there may be."""
    notes: tuple[str, ...]
    """Sentences on what these numbers do not say."""
    problem: CaptureError | None = None
    """The error that kept the capture from being read to its end."""

    @property
    def malformed_frames(self) -> int:
        """The number of malformed frames."""
        return sum(self.malformed.values())

    @property
    def linktypes(self) -> Mapping[str, int]:
        """Frames by their link type."""
        found: dict[str, int] = {}
        for interface in self.interfaces:
            if interface.frames:
                found[interface.linktype_name] = found.get(interface.linktype_name, 0) + interface.frames
        return found

    def interface_name(self, index: int) -> str:
        """Return the capture's name of an interface, with whatever characters it has, else its number."""
        return self.interfaces[index].name or f"interface {index}"

    def peak_per_second(self, over_time: tuple[int, ...]) -> float | None:
        """Return the greatest rate of an interval; None without any."""
        return max(over_time) * NS_PER_S / self.intervals.width_ns if over_time else None

    def share(self, duration_ns: int) -> float | None:
        """Return a duration as a part of the span; None where that is none."""
        return duration_ns / self.span.duration_ns if self.span.duration_ns else None


SCHEMA = "ecmproto/stats/1"


def as_document(statistics: Statistics, capture: str) -> dict[str, Any]:
    """Return the JSON document of the statistics of ``capture``."""
    span, intervals, sizes = statistics.span, statistics.intervals, statistics.sizes
    return {
        "schema": SCHEMA,
        "capture": capture,
        "problem": None if statistics.problem is None else str(statistics.problem),
        "read_frames": statistics.read_frames,
        "frames": statistics.frames,
        "octets": statistics.octets,
        "captured_octets": statistics.captured_octets,
        "cut_frames": statistics.cut_frames,
        "malformed_frames": statistics.malformed_frames,
        "untimed_frames": statistics.untimed_frames,
        "backwards_frames": statistics.backwards_frames,
        "first_ns": span.first_ns,
        "last_ns": span.last_ns,
        "duration_ns": span.duration_ns,
        **_rates(statistics, statistics.frames, statistics.octets),
        "peak_frames_per_s": statistics.peak_per_second(statistics.frames_over_time),
        "peak_bits_per_s": _eightfold(statistics.peak_per_second(statistics.octets_over_time)),
        "linktypes": dict(statistics.linktypes),
        "interfaces": [_interface(each) for each in statistics.interfaces],
        "malformed": dict(statistics.malformed),
        "intervals": dataclasses.asdict(intervals),
        "frames_over_time": list(statistics.frames_over_time),
        "octets_over_time": list(statistics.octets_over_time),
        "kinds": [
            {
                "kind": each.kind.name,
                "title": each.kind.title,
                "group": each.kind.group,
                "frames": each.frames,
                "octets": each.octets,
                **_rates(statistics, each.frames, each.octets),
                "peak_frames_per_s": statistics.peak_per_second(each.frames_over_time),
                "peak_bits_per_s": _eightfold(statistics.peak_per_second(each.octets_over_time)),
                "frames_over_time": list(each.frames_over_time),
                "octets_over_time": list(each.octets_over_time),
            }
            for each in statistics.kinds
        ],
        "sizes": {
            "minimum_octets": sizes.minimum,
            "mean_octets": sizes.mean,
            "maximum_octets": sizes.maximum,
            "buckets": [
                {"low_octets": each.low, "high_octets": each.high, "frames": each.frames}
                for each in sizes.buckets
            ],
        },
        "priorities": {str(priority): count for priority, count in statistics.priorities.items()},
        "congestion_points": [_point(statistics, each) for each in statistics.congestion_points],
        "message_flows": [_flow(statistics, each) for each in statistics.message_flows],
        "probes": None if statistics.probes is None else _probes(statistics.probes),
        "rates": [_rate(each) for each in statistics.rates],
        "pauses": None if statistics.pauses is None else _pauses(statistics, statistics.pauses),
        "pfc": None if statistics.pfc is None else _pfc(statistics.pfc),
        "roce": None if statistics.roce is None else _roce(statistics, statistics.roce),
        "mirrors": dict(statistics.mirrors),
        "left_out": dict(statistics.left_out),
        "notes": list(statistics.notes),
    }


def document_text(statistics: Statistics, capture: str) -> str:
    """Return the same as the text of a file."""
    return json_text(as_document(statistics, capture), indented=True) + "\n"


def _rates(statistics: Statistics, frames: int, octets: int) -> dict[str, float | None]:
    span = statistics.span
    return {"frames_per_s": span.per_second(frames), "bits_per_s": span.per_second(8 * octets)}


def _interface(interface: InterfaceCount) -> dict[str, Any]:
    return {**dataclasses.asdict(interface), "speed_bps": interface.speed_bps or None}


def _eightfold(octets: float | None) -> float | None:
    return None if octets is None else 8 * octets


def _address(octets: bytes | None) -> str | None:
    return None if octets is None else mac_text(octets)


def _cpid(cpid: int) -> str:
    return f"{cpid:016x}"


def _distribution(distribution: Distribution | None) -> dict[str, Any] | None:
    return None if distribution is None else dataclasses.asdict(distribution)


def _point(statistics: Statistics, point: CongestionPoint) -> dict[str, Any]:
    return {
        "kind": point.kind,
        "cpid": _cpid(point.cpid),
        "frames": point.frames,
        "frames_per_s": statistics.span.per_second(point.frames),
        **{name: _distribution(quantity) for name, quantity in point.quantities.items()},
        "types": dict(point.types),
        "fb_histogram": list(point.fb_histogram),
        "frames_over_time": list(point.frames_over_time),
    }


def _flow(statistics: Statistics, flow: MessageFlow) -> dict[str, Any]:
    return {
        "kind": flow.kind,
        "cpid": _cpid(flow.cpid),
        "flow_id": flow.flow_id,
        "destination": _address(flow.destination),
        "frames": flow.frames,
        "frames_per_s": statistics.span.per_second(flow.frames),
        "fb_mean": flow.fb_mean,
        "fb_maximum": flow.fb_maximum,
    }


def _probes(probes: Probes) -> dict[str, Any]:
    return {
        "forward": probes.forward,
        "replies": probes.replies,
        "latency_ns": _distribution(probes.latency_ns),
        "replies_over_time": list(probes.replies_over_time),
        "latency_mean_ns_over_time": _means(probes.latency_sum_ns_over_time, probes.replies_over_time),
        "flows": [_probed(flow) for flow in probes.flows],
    }


def _probed(flow: ProbedFlow) -> dict[str, Any]:
    return {
        "station": _address(flow.station),
        "destination": _address(flow.destination),
        "flow_id": flow.flow_id,
        "latency_ns": _distribution(flow.latency_ns),
        "throughput_bps": _distribution(flow.throughput_bps),
    }


def _rate(rate: AdvertisedRate) -> dict[str, Any]:
    return {
        "kind": rate.kind,
        "station": _address(rate.station),
        "rlq_id": rate.rlq_id,
        "frames": rate.frames,
        "unlimited": rate.unlimited,
        "rate_bps": _distribution(rate.rate_bps),
        "rate_mean_bps_over_time": _means(rate.rate_sum_bps_over_time, rate.limited_over_time),
    }


def _means(sums: Iterable[int], counts: Iterable[int]) -> list[float | None]:
    """Return the mean of each interval, null where there was nothing."""
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def _pfc(pfc: PfcFrames) -> dict[str, Any]:
    return {
        "frames": pfc.frames,
        "valid": pfc.valid,
        "lossless": None if pfc.lossless is None else list(pfc.lossless),
        "faults": [
            {
                "fault": each.fault,
                "meaning": PFC_FAULTS[each.fault],
                "frames": each.frames,
                "first_source": _address(each.source),
            }
            for each in pfc.faults
        ],
    }


def _roce(statistics: Statistics, roce: RoceTraffic) -> dict[str, Any]:
    return {
        "frames": roce.frames,
        "address_pairs": roce.address_pairs,
        "pairs_of_both_directions": roce.pairs_of_both_directions,
        "cnp_delay_ns": _distribution(roce.delay_ns),
        "cnp_delay_histogram": [
            {"low_ns": low, "high_ns": high, "cnps": count} for low, high, count in roce.delay_quarters
        ],
        "frames_over_time": list(roce.frames_over_time),
        "ect_frames_over_time": list(roce.ect_over_time),
        "ce_frames_over_time": list(roce.ce_over_time),
        "cnps_over_time": list(roce.cnps_over_time),
        "queue_pairs": [_queue_pair(statistics, each) for each in roce.queue_pairs],
    }


def _queue_pair(statistics: Statistics, each: QueuePair) -> dict[str, Any]:
    return {
        "source": each.source,
        "destination": each.destination,
        "queue_pair": each.queue_pair,
        "frames": each.frames,
        "octets": each.octets,
        **_rates(statistics, each.frames, each.octets),
        "data_frames": each.data_frames,
        "ect_share": each.ect_frames / each.frames,
        "ce_share": each.ce_frames / each.frames,
        "ect_frames": each.ect_frames,
        "ce_frames": each.ce_frames,
        "cnps": each.cnps,
        "cnps_per_s": statistics.span.per_second(each.cnps),
        "acknowledges": each.acknowledges,
        "receiver_not_ready": each.receiver_not_ready,
        "naks": dict(each.naks),
        "psn_gaps": each.psn_gaps,
        "psns_missing": each.psns_missing,
        "psn_repeats": each.psn_repeats,
        "other_direction_seen": each.other_direction,
        "about_queue_pairs": list(each.about),
        "about_by": each.about_by or None,
        "cnps_against": each.cnps_against,
        "refusals_against": each.refusals_against,
        "cnp_delay_ns": _distribution(each.delay_ns),
    }


def _history(each: ClassPause) -> dict[str, Any]:
    """Return the history of a class, by the names that switches' users know."""
    if each.transitions is None:
        return {}
    return {
        "transitions": each.transitions,
        "total_pause_time_us": each.paused_ns / NS_PER_US,
        "recent_pause_timestamp_ns": each.recent_ns,
        "recent_pause_time_us": each.recent_paused_ns / NS_PER_US if each.recent_paused_ns is not None else 0,
        "expired": each.expired,
    }


def _pauses(statistics: Statistics, pauses: PauseTimes) -> dict[str, Any]:
    def paused(duration_ns: int) -> Mapping[str, Any]:
        return {"paused_ns": duration_ns, "paused_share": statistics.share(duration_ns)}

    def classes(each: tuple[ClassPause, ...]) -> list[dict[str, Any]]:
        return [
            {
                "priority": one.priority,
                "pauses": one.pauses,
                "resumes": one.resumes,
                **paused(one.paused_ns),
                **_history(one),
                "paused_ns_over_time": list(one.paused_ns_over_time),
            }
            for one in each
        ]

    return {
        "senders": [
            {
                "interface": sender.interface,
                "source": _address(sender.source),
                "frames": sender.frames,
                "speed_bps": sender.speed_bps,
                "speed_is_stated": sender.speed_is_stated,
                **paused(sender.paused_ns),
                "classes": classes(sender.classes),
            }
            for sender in pauses.senders
        ],
        "interfaces": [
            {
                "interface": port.interface,
                "frames": port.frames,
                **paused(port.paused_ns),
                "classes": classes(port.classes),
            }
            for port in pauses.interfaces
        ],
        "storm_detect_ns": pauses.detect_ns,
        "storm_restore_ns": pauses.restore_ns,
        "more_storms": pauses.more_storms,
        "storms": [
            {
                "interface": storm.interface,
                "source": _address(storm.source),
                "priority": storm.priority,
                "begun_ns": storm.begun_ns,
                "detected_ns": storm.detected_ns,
                "restored_ns": storm.restored_ns,
                "frames_left": storm.frames_left,
                "seen": storm.seen,
            }
            for storm in pauses.storms
        ],
    }
