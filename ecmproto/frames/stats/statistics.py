"""Statistics of a capture: frame types, result classes and the JSON document of the results.

Times are ns since 1970, and durations are ns. Sizes are octets on the wire as the records of the capture
state them. Sizes include the FCS only if the capture contains the FCS. Rates are means over the time span of
the capture unless stated otherwise.

In JSON, times are integer ns, CPIDs are hexadecimal and addresses are text. Missing values are null. Lists
with the suffix ``over_time`` have a value for each interval of ``intervals``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError, counted
from ecmproto.frames.batch.sflow import SflowReports
from ecmproto.frames.stats.cells import value_of
from ecmproto.tables import Tabular
from ecmproto.units import NS_PER_S, NS_PER_US, format_time, one_precision
from ecmproto.values import dataclass
from ecmproto.wire.codec.document import json_text
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.infiniband import NAK_CODES
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import mac_text

Group = Literal["message", "flow control", "tag", "payload"]


def in_json(name: str | None = None, *, also: str = "", plain: Callable[[Any], Any] | None = None) -> Any:
    """Return the metadata of a field for the JSON document.

    ``name`` is the name in JSON, if this name differs from the field name. An empty name omits the field, and
    ``*`` inserts the members of the value instead of the value. ``also`` contains the names of additional
    members. These names are properties of the object, or methods of `Statistics` that receive the object.
    ``plain`` is a function that converts the value to plain data.
    """
    return {"name": name, "also": also.split(), "plain": plain}


_LEFT_OUT = in_json("")
CPID = in_json(plain="{:016x}".format)
_RATES = "frames_per_s bits_per_s"
_PEAKS = "peak_frames_per_s peak_bits_per_s"


def _or_null(value: Any) -> Any:
    return value or None


def means(sums: Iterable[int], counts: Iterable[int]) -> list[float | None]:
    """Return the mean of each interval, or ``None`` for an interval with count 0."""
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A frame type.

    ``name`` is the name of the layer in filters. A frame has this type if it contains one of ``layers``.
    """

    name: str = field(metadata=in_json("kind"))
    title: str
    group: Group
    layers: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)


E2CM_COUNTED = tuple(
    Kind(name=f"e2cm.{word.lower()}", title=f"E²CM {word}", group="message") for word in E2CM_TYPES.values()
)
"""Frame types of E²CM, in the order of the E²CM types. All E²CM types share a single layer."""
OTHER = Kind(name="other", title="other", group="payload")
"""Frame type of frames without any other type except tags."""


def _counted_types() -> Iterator[Kind]:
    """Yield the frame types by role. The E²CM types follow E²CM."""
    for role in get_args(Group):
        formats = [cls for cls in FORMATS if cls.role == role and cls.counted_as]
        # VLAN tags follow the tags of congestion management
        formats.sort(key=lambda cls: cls.announced_by in ("c_tag", "s_tag", "i_tag"))
        for title in dict.fromkeys(cls.counted_as for cls in formats):
            layers = tuple(cls.prefix for cls in formats if cls.counted_as == title)
            yield Kind(name=layers[0], title=title, group=role, layers=layers)
            if layers == (E2CM.prefix,):
                yield from E2CM_COUNTED
    yield OTHER


KINDS: tuple[Kind, ...] = tuple(_counted_types())
NUMBER_OF = {kind.name: number for number, kind in enumerate(KINDS)}
_BY_LAYER = {layer: number for number, kind in enumerate(KINDS) for layer in kind.layers}
_OTHER = NUMBER_OF[OTHER.name]


def kind_of(layer: str) -> Kind:
    """Return the frame type of a counted layer."""
    return KINDS[_BY_LAYER[layer]]


def kind_numbers(protocols: str) -> list[int]:
    """Return the numbers of the frame types of a frame with the layers ``protocols``, without E²CM types."""
    numbers = sorted({_BY_LAYER[layer] for layer in protocols.split(":") if layer in _BY_LAYER})
    if all(KINDS[number].group == "tag" for number in numbers):
        numbers.append(_OTHER)
    return numbers


def listed(lists: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the concatenated lists and their bounds.

    The bounds are the start of each list and the end of the last list.
    """
    rows = [np.asarray(row, np.int64) for row in lists]
    bounds = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=bounds[1:])
    return np.concatenate(rows) if rows else np.empty(0, np.int64), bounds


E2CM_LISTS = listed([[NUMBER_OF[kind.name]] for kind in E2CM_COUNTED])
"""Frame type numbers and bounds for each E²CM type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The distribution of a set of integers.

    Percentiles are nearest-rank values from buckets. A percentile is at most 1/32 greater than the exact
    value.
    """

    count: int
    minimum: int
    mean: float
    maximum: int
    p50: int
    p90: int
    p99: int

    def as_times(self, names: str) -> str:
        """Return the values in ``names`` as durations, for example ``p50 8 µs, max 9 µs``.

        ``min`` is the minimum and ``max`` is the maximum.
        """
        ends = {"min": "minimum", "max": "maximum"}
        texts = [f"{name} {format_time(getattr(self, ends.get(name, name)))}" for name in names.split()]
        return ", ".join(one_precision([texts])[0])

    def scaled(self, factor: int) -> Distribution:
        """Return the distribution of all numbers multiplied by ``factor``."""
        values = {name: factor * value for name, value in dataclasses.asdict(self).items()}
        return Distribution(**values | {"count": self.count})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The time from the earliest to the latest frame. Both times are ``None`` if no frame has a time."""

    first_ns: int | None = None
    last_ns: int | None = field(default=None, metadata=in_json(also="duration_ns"))

    @property
    def duration_ns(self) -> int:
        """Duration in ns."""
        return 0 if self.first_ns is None or self.last_ns is None else self.last_ns - self.first_ns

    def per_second(self, count: float) -> float | None:
        """Return the mean rate per second for ``count``, or ``None`` if the duration is 0."""
        return count * NS_PER_S / self.duration_ns if self.duration_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Equal time intervals from ``start_ns`` on. Each ``over_time`` list has one value per interval."""

    start_ns: int
    width_ns: int
    count: int
    asked_ns: int | None = None
    """Requested width in ns, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """Number of frames of one frame type, in total and over time."""

    kind: Kind = field(metadata=in_json("*"))
    frames: int
    octets: int = field(metadata=in_json(also=f"{_RATES} {_PEAKS}"))
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCount:
    """An interface and the number of frames that were captured on it."""

    index: int
    name: str
    linktype: int
    linktype_name: str
    snaplen_octets: int
    """Snap length in octets, or 0 if the capture does not state any."""
    speed_bps: int = field(metadata=in_json(plain=_or_null))
    """Link speed in bit/s, or 0 if the capture does not state any."""
    frames: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBucket:
    """Number of frames from ``low`` to ``high`` octets, inclusive.

    If ``high`` is ``None``, there is no upper limit.
    """

    low: int = field(metadata=in_json("low_octets"))
    high: int | None = field(metadata=in_json("high_octets"))
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The distribution of frame lengths. The values are ``None`` if there are no frames."""

    minimum: int | None = field(metadata=in_json("minimum_octets"))
    mean: float | None = field(metadata=in_json("mean_octets"))
    maximum: int | None = field(metadata=in_json("maximum_octets"))
    buckets: tuple[SizeBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPoint:
    """Messages of one mechanism with the same CPID."""

    kind: str
    """Message format: cnm, ecm, bcn, e2cm, or a format of another package."""
    cpid: int = field(metadata=CPID)
    frames: int = field(metadata=in_json(also="frames_per_s"))
    quantities: Mapping[str, Distribution] = field(metadata=in_json("*"))
    """Distributions of field values, by field name with unit.

    The names are qntz_fb; q_offset_octets and q_delta_octets (CNM: Qeq − Qlen); q_off_octets (ECM and E²CM:
    Qlen − Qeq); e_octets (BCN).
    """
    types: Mapping[str, int]
    """Number of messages per type, for formats with types."""
    fb_histogram: tuple[int, ...] = ()
    """Number of CNMs per value of the 6-bit quantized feedback."""
    frames_over_time: tuple[int, ...] = field(repr=False, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFlow:
    """Messages about one flow.

    All messages have the same congestion point, flow identifier and destination.
    """

    kind: str
    cpid: int = field(metadata=CPID)
    flow_id: int | None
    """Flow ID in the CN-TAG (0 without a CN-TAG) or in the E²CM message, ``None`` without a flow ID."""
    destination: bytes | None
    """Station that receives the messages, or ``None`` for a link layer without addresses."""
    frames: int = field(metadata=in_json(also="frames_per_s"))
    fb_mean: float | None
    """Mean quantized feedback of the CNMs."""
    fb_maximum: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedFlow:
    """Replies to the E²CM probes of one flow, with the measurements of the destination.

    A reply contains the travel time of the forward probe to the destination. The destination subtracts the
    source's timestamp from its own clock, modulo 2^32 ns. The result is therefore correct only up to the
    difference between the two clocks.
    """

    station: bytes | None
    """Source of the flow, which receives the replies."""
    destination: bytes
    """Destination of the flow, from the CPID."""
    flow_id: int
    latency_ns: Distribution
    throughput_bps: Distribution
    """Service rate in bit/s that the destination measured between two probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Counts of E²CM probes and replies."""

    forward: int
    replies: int
    latency_ns: Distribution | None
    """Distribution of the latency of all replies, in ns."""
    replies_over_time: tuple[int, ...] = field(repr=False, metadata=in_json(also="latency_mean_ns_over_time"))
    latency_sum_ns_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)
    flows: tuple[ProbedFlow, ...]

    @property
    def latency_mean_ns_over_time(self) -> list[float | None]:
        """Mean latency in ns of the replies in each interval."""
        return means(self.latency_sum_ns_over_time, self.replies_over_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedRate:
    """Rates for one rate-limited queue from RD tags, FECN returns or DBP reports."""

    kind: str
    """Format: rdtag, fecn or dbp."""
    station: bytes | None
    """Station with the rate-limited queue: the source of tags, or the destination of returns and reports."""
    rlq_id: int
    frames: int
    unlimited: int
    """Number of messages whose rate is still infinity (−1)."""
    rate_bps: Distribution | None = field(metadata=in_json(also="rate_mean_bps_over_time"))
    """Distribution of the rates of all other messages, in bit/s."""
    limited_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)
    rate_sum_bps_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)

    @property
    def rate_mean_bps_over_time(self) -> list[float | None]:
        """Mean finite rate in each interval, in bit/s."""
        return means(self.rate_sum_bps_over_time, self.limited_over_time)


def _whom(priority: int | None) -> str:
    return "the whole link" if priority is None else f"priority {priority}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPause:
    """The pauses of one class. A ``priority`` of ``None`` is PAUSE, which stops the whole link."""

    priority: int | None
    pauses: int
    """Number of frames with a pause time greater than 0."""
    resumes: int
    """Number of frames with pause time 0, which end a pause."""
    paused_ns: int = field(metadata=in_json(also="paused_share *history"))
    """Total time in ns with a pause in force. Overlapping pauses count once."""
    transitions: int | None = field(default=None, metadata=_LEFT_OUT)
    """Number of changes from not paused to paused, or ``None`` if several senders are combined."""
    recent_ns: int | None = field(default=None, metadata=_LEFT_OUT)
    """Start of the latest pause, or ``None`` if there is no single sender."""
    recent_paused_ns: int | None = field(default=None, metadata=_LEFT_OUT)
    """Duration of the latest pause so far in ns, or ``None`` if several senders are combined."""
    expired: int | None = field(default=None, metadata=_LEFT_OUT)
    """Number of pauses that no frame renewed or ended, or ``None`` if several senders are combined."""
    paused_ns_over_time: tuple[int, ...] = field(repr=False, default=())

    @property
    def whom(self) -> str:
        """The stopped traffic, as text."""
        return _whom(self.priority)

    @property
    def history(self) -> Mapping[str, Any]:
        """Pause counters under the names that switches use.

        The mapping is empty if several senders are combined.
        """
        if self.transitions is None:
            return {}
        return {
            "transitions": self.transitions,
            "total_pause_time_us": self.paused_ns / NS_PER_US,
            "recent_pause_timestamp_ns": self.recent_ns,
            "recent_pause_time_us": 0 if self.recent_paused_ns is None else self.recent_paused_ns / NS_PER_US,
            "expired": self.expired,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseSender:
    """A station that sends PAUSE or PFC frames to its link partner."""

    interface: int
    source: bytes | None
    frames: int
    speed_bps: int
    speed_is_stated: bool
    """Whether the capture states the link speed. Otherwise the speed is an assumption."""
    paused_ns: int = field(metadata=in_json(also="paused_share"))
    """Total time in ns with at least one paused class."""
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseInterface:
    """The union of the pauses of all senders on an interface, for both directions of a link."""

    interface: int
    frames: int
    paused_ns: int = field(metadata=in_json(also="paused_share"))
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStorm:
    """A class that was paused for at least 99 % of a detection time.

    If ``priority`` is ``None``, the class is the whole link.
    """

    interface: int
    source: bytes | None
    """Sender of the pause frames."""
    priority: int | None
    begun_ns: int
    """Start of the pause at the beginning of the detection time."""
    detected_ns: int
    restored_ns: int | None
    """End of the restoration time without pauses; ``None`` for a storm that was not over at the end."""
    frames_left: int | None = field(metadata=in_json(also="seen"))
    """Number of frames of the priority that left the stopped port within the detection time, while the pause
    was in force.

    ``None`` means that the capture cannot show such frames.
    """

    @property
    def whom(self) -> str:
        """The stopped traffic, as text."""
        return _whom(self.priority)

    @property
    def seen(self) -> str:
        """The observed part of a storm: "pause", "pause and stall" or "traffic".

        "pause" means that only the pauses were observed. "pause and stall" means that the port also stopped.
        "traffic" means that the port continued to send in spite of the pauses, so there is no storm.
        """
        if self.frames_left is None:
            return "pause"
        return "traffic" if self.frames_left else "pause and stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTimes:
    """Pause times and storms of PAUSE and PFC."""

    senders: tuple[PauseSender, ...]
    """Senders of pause frames, sorted by descending pause time."""
    interfaces: tuple[PauseInterface, ...]
    detect_ns: int = field(default=200_000_000, metadata=in_json("storm_detect_ns"))
    restore_ns: int = field(default=400_000_000, metadata=in_json("storm_restore_ns"))
    """Restoration time of storms, in ns."""
    more_storms: int = 0
    """Number of storms that are not in the list."""
    storms: tuple[PauseStorm, ...] = ()


PFC_FAULTS = {
    "destination": "the destination address is not 01-80-C2-00-00-01",
    "source": "the source address is a group address or 0",
    "vlan_tag": "the PFC frame has a VLAN tag",
    "not_lossless": "the PFC frame pauses a priority that is not lossless",
    "upper_octet": "the upper octet of the class-enable vector is not 0",
    "timers": "the pause time of a disabled priority is not 0",
    "padding": "the padding is not 0",
    "length": "the PFC frame is not 64 octets long with the FCS",
    "malformed": "the PFC frame is too short to be decoded",
}
"""Descriptions of the faults of PFC frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFault:
    """PFC frames with one of the faults in `PFC_FAULTS`."""

    fault: str = field(metadata=in_json(also="meaning"))
    frames: int
    source: bytes | None = field(metadata=in_json("first_source"))
    """Source of the first frame with the fault."""

    @property
    def meaning(self) -> str:
        """Description of the fault."""
        return PFC_FAULTS[self.fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFrames:
    """Counts of PFC frames and their faults. Late frames are counted in `ClassPause.expired` instead."""

    frames: int
    valid: int
    lossless: tuple[int, ...] | None
    """Priorities that may be paused; ``None`` without declared priorities means any priority."""
    faults: tuple[PfcFault, ...]


QAZ, CEE_DIALECT, CIN_DIALECT = "802.1Qaz", "CEE", "CIN"
"""Names of the DCBX variants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPriority:
    """The priorities that a station advertises for an application."""

    selector: str
    """Type of the identifier: "ethertype", "tcp port", "udp port", "port" (TCP or UDP) or "dscp"."""
    protocol: int
    priorities: tuple[int, ...]

    @property
    def text(self) -> str:
        """Application and its priorities as text, such as ``udp port 4791: 3``."""
        protocol = f"{self.protocol:#06x}" if self.selector == "ethertype" else str(self.protocol)
        return f"{self.selector} {protocol}: {priorities_text(self.priorities)}"


def priorities_text(priorities: Sequence[int] | None) -> str | None:
    """Return priorities as text, or ``None`` if ``priorities`` is ``None``. An empty list is ``none``."""
    return None if priorities is None else ",".join(map(str, priorities)) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A station on an interface, as described by its LLDP frames.

    DCBX provides the priorities that the station protects.

    The value of a missing advertisement is ``None``.
    """

    interface: int
    source: bytes | None
    chassis: str
    port: str
    system: str = field(metadata=in_json(plain=_or_null))
    frames: int
    dialects: tuple[str, ...]
    """DCBX variants in the LLDP frames: 802.1Qaz, CEE, CIN."""
    pfc_enabled: tuple[int, ...] | None
    """Priorities that PFC protects."""
    pfc_willing: bool | None
    """Whether the station accepts the PFC configuration of its neighbour."""
    traffic_classes: tuple[int, ...] | None
    """Traffic class of each priority, or priority group of each priority in CEE."""
    bandwidths: tuple[int, ...] | None
    """Bandwidth of each traffic class in percent."""
    strict: tuple[int, ...] = field(metadata=in_json("strict_priorities"))
    """Priorities in classes that are served first, regardless of the bandwidths."""
    ets_willing: bool | None
    recommended_bandwidths: tuple[int, ...] | None
    """Bandwidths in percent that the station recommends to its neighbour."""
    applications: tuple[AppPriority, ...]
    cnpvs: tuple[int, ...] | None
    """Priorities in the congestion notification TLV."""

    @property
    def pfc_text(self) -> str | None:
        """Priorities that PFC protects, and whether the station is willing, as text."""
        text = priorities_text(self.pfc_enabled)
        return f"{text}, willing" if self.pfc_willing else text

    @property
    def ets_text(self) -> str | None:
        """Priorities and bandwidth of each class as text, for example ``0-2,4-7 50 %; 3 50 %``.

        Strict priorities are last.
        """
        if self.traffic_classes is None or self.bandwidths is None:
            return None
        classes = sorted({each for at, each in enumerate(self.traffic_classes) if at not in self.strict})
        parts = [
            f"{_ranges([n for n, of in enumerate(self.traffic_classes) if of == each])} {share} %"
            for each in classes
            for share in self.bandwidths[each : each + 1]
        ]
        parts += [f"{_ranges(self.strict)} strict"] if self.strict else []
        return "; ".join(parts) + (", willing" if self.ets_willing else "")

    @property
    def applications_text(self) -> str | None:
        """Applications and their priorities, as text."""
        return "; ".join(each.text for each in self.applications) or None

    @property
    def cnpvs_text(self) -> str | None:
        """Priorities of congestion notification, as text."""
        return priorities_text(self.cnpvs)

    @property
    def dialects_text(self) -> str | None:
        """DCBX variants, as text."""
        return " and ".join(self.dialects) or None


def _ranges(priorities: Sequence[int]) -> str:
    """Return priorities as text with ranges, for example ``0-2,4``."""
    parts: list[list[int]] = []
    for each in priorities:
        if parts and parts[-1][-1] == each - 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


GO_BACK_N, SELECTIVE_REPEAT = "go-back-N", "selective repeat"
SEQUENCE_ERROR, NOT_READY = NAK_CODES[0], "receiver not ready"
"""NAK for a sequence error, and the reply of a receiver that is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """RoCE frames to one queue pair between two addresses. This is one direction of a connection."""

    source: str
    destination: str
    queue_pair: int
    frames: int
    octets: int = field(metadata=in_json(also=_RATES))
    data_frames: int = field(metadata=in_json(also="ect_share ce_share"))
    """Number of frames that are neither acknowledges nor CNPs."""
    ect_frames: int
    """Number of frames with an ECN-capable transport, marked or not."""
    ce_frames: int
    """Number of CE-marked frames, without CNPs."""
    cnps: int = field(metadata=in_json(also="cnps_per_s"))
    """Number of CNPs among the frames, which slow this queue pair's sending in the other direction."""
    acknowledges: int
    receiver_not_ready: int
    naks: Mapping[str, int]
    """Number of negative acknowledgments per code."""
    psn_gaps: int | None
    """Number of frames whose PSN is greater than the expected PSN. The value is ``None`` for a sample."""
    psns_missing: int | None
    """Number of missing PSNs in the gaps. The value is ``None`` for a sample."""
    psn_repeats: int | None
    """Number of frames whose PSN is smaller than the expected PSN. The value is ``None`` for a sample."""
    go_backs: int | None
    """Number of retransmissions of all packets from the PSN of a NAK on."""
    selective_repeats: int | None
    """Number of retransmissions of only some packets after a NAK."""
    unasked_repeats: int | None = field(metadata=in_json(also="retransmission card_counters"))
    """Number of retransmissions without a NAK in the capture, for example after a timeout."""
    other_direction: bool = field(metadata=in_json("other_direction_seen"))
    """Whether the capture contains frames in the opposite direction between the addresses."""
    about: tuple[int, ...] = field(metadata=in_json("about_queue_pairs"))
    """Queue pairs of the flows that the CNPs and acknowledges in this row may refer to."""
    about_by: str = field(metadata=in_json(plain=_or_null))
    """Evidence for ``about``: "acknowledged", "only one", "one of", or "" without the flow in the capture."""
    cnps_against: int
    """Number of CNPs that were sent back because of these frames, as far as this relation is certain."""
    naks_against: Mapping[str, int] = field(metadata=in_json(also="refusals_against"))
    """Number of NAKs per code and of receiver-not-ready replies that certainly answer these frames."""
    delay_ns: Distribution | None = field(metadata=in_json("cnp_delay_ns"))
    """Distribution of CNP delays in ns, from the first CE-marked frame after a CNP to the next CNP."""
    first_ce_ns: int | None = field(metadata=_LEFT_OUT)
    """Time of the first CE-marked frame."""

    @property
    def ect_share(self) -> float:
        """Share of ECN-capable frames."""
        return self.ect_frames / self.frames

    @property
    def ce_share(self) -> float:
        """Share of CE-marked frames."""
        return self.ce_frames / self.frames

    @property
    def trouble(self) -> int:
        """Sum of marks, CNPs, missing PSNs, repeated PSNs and NAKs.

        CNPs and NAKs count for the flow that they refer to. If this flow is unknown, these packets count for
        the row of their destination.
        """
        psns = (self.psns_missing or 0) + (self.psn_repeats or 0)
        here = self.ce_frames + psns + self.cnps_against + self.refusals_against
        return here if self.is_settled else here + self.cnps + self.refusals

    @property
    def retransmission(self) -> str | None:
        """Type of retransmission after a NAK: `GO_BACK_N`, `SELECTIVE_REPEAT`, ``None`` if undetermined."""
        if self.go_backs is None or self.selective_repeats is None or self.go_backs == self.selective_repeats:
            return None
        return GO_BACK_N if self.go_backs > self.selective_repeats else SELECTIVE_REPEAT

    @property
    def card_counters(self) -> Mapping[str, int | None]:
        """Corresponding counters of network cards, under the names that mlx5 uses.

        ``out_of_sequence`` is a counter of the receiver, which also counts packets after a gap. All other
        counters are counters of the sender.
        """
        return {
            "out_of_sequence": self.psn_gaps,
            "packet_seq_err": self.naks_against.get(SEQUENCE_ERROR, 0),
            "rnr_nak_retry_err": self.naks_against.get(NOT_READY, 0),
            "local_ack_timeout_err": self.unasked_repeats,
        }

    @property
    def refusals_against(self) -> int:
        """Number of NAKs and receiver-not-ready replies to these frames."""
        return sum(self.naks_against.values())

    @property
    def refusals(self) -> int:
        """Number of NAKs and receiver-not-ready replies among the frames."""
        return self.receiver_not_ready + sum(self.naks.values())

    @property
    def is_settled(self) -> bool:
        """Whether the flow of the CNPs and acknowledges in this row is certain."""
        return self.about_by in ("acknowledged", "only one")


def _delay_histogram(quarters: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [{"low_ns": low, "high_ns": high, "cnps": count} for low, high, count in quarters]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceTraffic:
    """RoCE frames by queue pair and direction."""

    frames: int
    address_pairs: int
    """Number of pairs of source and destination address. The two directions are two pairs."""
    pairs_of_both_directions: int
    """Number of address pairs for which the capture also contains the opposite direction."""
    delay_ns: Distribution | None = field(metadata=in_json("cnp_delay_ns"))
    """Distribution of the CNP delay in ns, for all flows with assigned CNPs."""
    delay_quarters: tuple[tuple[int, int, int], ...] = field(
        repr=False, metadata=in_json("cnp_delay_histogram", plain=_delay_histogram)
    )
    """Histogram of the CNP delay, four buckets per doubling: minimum, minimum of the next bucket, count."""
    frames_over_time: tuple[int, ...] = field(repr=False)
    ect_over_time: tuple[int, ...] = field(repr=False, metadata=in_json("ect_frames_over_time"))
    ce_over_time: tuple[int, ...] = field(repr=False, metadata=in_json("ce_frames_over_time"))
    cnps_over_time: tuple[int, ...] = field(repr=False)
    queue_pairs: tuple[QueuePair, ...]
    """Queue pairs, sorted by descending `QueuePair.trouble`."""

    @property
    def cnps(self) -> int:
        """Total number of CNPs."""
        return sum(each.cnps for each in self.queue_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimated value for all frames, and the bounds of its 95 % interval."""

    figure: str
    subject: str
    """Queue pair or priority that the estimate is for. An empty text means all frames."""
    unit: Literal["share", "per_s", "bits_per_s"]
    value: float
    low: float | None = None
    high: float | None = None
    """Upper bound, or ``None`` if every N-th frame was sampled, which can be in step with the traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Estimates for all frames from a sample."""

    one_in: tuple[int, ...]
    """Numbers of frames per sampled frame. Each number is a sampling rate in the capture."""
    every: bool
    """Whether exactly every N-th frame was sampled, not each frame with the same probability."""
    frames: int
    unknown_frames: int
    """Number of frames in no estimate: their sampling rate is unknown or the table of rates is full."""
    estimates: tuple[Estimate, ...]
    not_estimated: tuple[str, ...] = (
        "time paused, storms and renewals of pauses", "gaps and repeats of PSNs", "delay of CNPs",
        "latency and throughput of probes", "order and spacing of frames",
    )  # fmt: skip
    """Values that a sample does not determine."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Statistics(Tabular):
    """Statistics of a capture, or of the frames that a filter selects.

    As a table, there is one row per frame type.
    """

    read_frames: int
    """Number of all frames that were read, including frames that the filter rejected."""
    frames: int
    octets: int
    captured_octets: int
    cut_frames: int = field(metadata=in_json(also="malformed_frames"))
    """Number of truncated frames."""
    untimed_frames: int
    """Number of frames without a time, or with an invalid time before 1824 or after 2116."""
    backwards_frames: int
    """Number of frames with a time before an earlier frame."""
    span: Span = field(metadata=in_json("*", also=f"{_RATES} {_PEAKS} linktypes"))
    """Time span of all frames that were read."""
    interfaces: tuple[InterfaceCount, ...]
    malformed: Mapping[str, int]
    """Number of malformed frames per error, sorted by descending number."""
    intervals: Intervals
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)
    kinds: tuple[KindCount, ...]
    """Frame types in the capture."""
    sizes: Sizes
    priorities: Mapping[int, int]
    """Number of frames per priority of the outermost VLAN tag."""
    congestion_points: tuple[CongestionPoint, ...]
    """Congestion points by mechanism, sorted by descending number of messages."""
    message_flows: tuple[MessageFlow, ...]
    """Flows that messages refer to, sorted by descending number of messages."""
    probes: Probes | None
    rates: tuple[AdvertisedRate, ...]
    pauses: PauseTimes | None
    pfc: PfcFrames | None
    sflow: SflowReports | None
    """Reports of sFlow agents, without sampled headers."""
    roce: RoceTraffic | None
    neighbours: tuple[Neighbour, ...]
    """Stations that send LLDP frames, by interface."""
    sample: Sample | None
    """Estimates for all frames, without pauses and probes, or ``None`` if the capture is not a sample."""
    mirrors: Mapping[str, int]
    """Number of frames that carry other frames, by encapsulation. The inner frames were not decoded."""
    left_out: Mapping[str, int]
    """Number of frames that are missing from each full list above."""
    notes: tuple[str, ...]
    """Sentences on the limits of these numbers."""
    problem: CaptureError | None = field(default=None, metadata=_LEFT_OUT)
    """Error that ended the capture early."""

    @property
    def malformed_frames(self) -> int:
        """Number of malformed frames."""
        return sum(self.malformed.values())

    @property
    def linktypes(self) -> Mapping[str, int]:
        """Number of frames per link type."""
        result: dict[str, int] = {}
        for interface in self.interfaces:
            if interface.frames:
                result[interface.linktype_name] = result.get(interface.linktype_name, 0) + interface.frames
        return result

    def interface_name(self, index: int) -> str:
        """Return the name of an interface in the capture, with any characters, or its number."""
        return self.interfaces[index].name or f"interface {index}"

    def records(self) -> list[dict[str, Any]]:
        """Return one row per frame type with counts, share and rates.

        The names are the names of the JSON document.
        """
        return [
            {name: value for name, value in members(each, self).items() if not name.endswith("_over_time")}
            for each in self.kinds
        ]

    def __repr__(self) -> str:
        names = ", ".join(f"{each.kind.title} {each.frames:,}" for each in self.kinds)
        return f"{counted(self.frames, 'frame')} in {format_time(self.span.duration_ns)}: {names}"

    def frames_per_s(self, each: Any) -> float | None:
        """Return the mean frame rate per second over the time span, or ``None`` if the duration is 0."""
        return self.span.per_second(each.frames)

    def bits_per_s(self, each: KindCount | QueuePair | Statistics) -> float | None:
        """Return the mean bit rate over the time span, or ``None`` if the duration is 0."""
        return self.span.per_second(8 * each.octets)

    def frames_share(self, each: KindCount) -> float:
        """Return the share of all frames."""
        return each.frames / self.frames

    def cnps_per_s(self, each: QueuePair | RoceTraffic) -> float | None:
        """Return the mean number of CNPs per second over the time span, or ``None`` if the duration is 0."""
        return self.span.per_second(each.cnps)

    def peak_per_second(self, over_time: tuple[int, ...]) -> float | None:
        """Return the maximum rate per second of any interval, or ``None`` without intervals."""
        return max(over_time) * NS_PER_S / self.intervals.width_ns if over_time else None

    def peak_frames_per_s(self, each: KindCount | Statistics) -> float | None:
        """Return the maximum number of frames per second in any interval, or ``None`` without intervals."""
        return self.peak_per_second(each.frames_over_time)

    def peak_bits_per_s(self, each: KindCount | Statistics) -> float | None:
        """Return the maximum bit rate in any interval, or ``None`` without intervals."""
        peak = self.peak_per_second(each.octets_over_time)
        return peak and 8 * peak

    def share(self, duration_ns: int) -> float | None:
        """Return the share of the time span, or ``None`` if the time span is 0."""
        return duration_ns / self.span.duration_ns if self.span.duration_ns else None

    def paused_share(self, each: ClassPause | PauseInterface | PauseSender) -> float | None:
        """Return the share of the time span with a pause in force."""
        return self.share(each.paused_ns)


SCHEMA = "ecmproto/stats/1"


def as_document(statistics: Statistics, capture: str) -> dict[str, Any]:
    """Return the statistics of ``capture`` as a JSON document."""
    problem = None if statistics.problem is None else str(statistics.problem)
    return {"schema": SCHEMA, "capture": capture, "problem": problem, **members(statistics, statistics)}


def members(value: Any, whole: object) -> dict[str, Any]:
    """Return the fields of a dataclass and their additional members as plain data.

    The methods of the additional members belong to ``whole``. ``value`` is a part of ``whole``.
    """
    made: dict[str, Any] = {}
    for name, source, plain in _entries(type(value)):  # type: ignore[arg-type]
        result = value_of(value, source, whole) if plain is None else plain(getattr(value, source))
        if type(result) not in _SINGLE:
            result = _plain(result, whole)
        if name == "*":
            made.update(result)
        else:
            made[name] = result
    return made


_SINGLE = frozenset({type(None), bool, int, float, str})


@functools.cache
def _entries(cls: type[Any]) -> Sequence[tuple[str, str, Callable[[Any], Any] | None]]:
    """Return for each member the JSON name, the name for `value_of` and the function that returns plain data.

    The JSON name ``*`` means the members of the value.
    """
    entries: list[tuple[str, str, Callable[[Any], Any] | None]] = []
    for each in dataclasses.fields(cls):
        name = each.metadata.get("name")
        if name != "":
            plain = each.metadata.get("plain") or (lambda value: value)
            entries.append((each.name if name is None else name, each.name, plain))
        also = each.metadata.get("also", ())
        entries += [("*" if more[0] == "*" else more, more.lstrip("*"), None) for more in also]
    return entries


def _plain(value: Any, whole: object) -> Any:
    if isinstance(value, bytes):
        return mac_text(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each, whole) for key, each in value.items()}
    if isinstance(value, tuple):
        is_nested = value and dataclasses.is_dataclass(value[0])
        return [members(each, whole) for each in value] if is_nested else list(value)
    return members(value, whole) if dataclasses.is_dataclass(value) else value


def document_text(statistics: Statistics, capture: str) -> str:
    """Return the JSON document of the statistics as text."""
    return json_text(as_document(statistics, capture), indented=True) + "\n"
