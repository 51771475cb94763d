"""Statistics of a capture: the kinds of frames, plain values, and the JSON document of them.

Times are ns since 1970, durations ns, sizes octets on the wire as the capture's records state them (without
FCS unless the capture has it).  Rates are means over the capture's span unless stated otherwise.
In JSON times are integer ns, CPIDs hex, addresses text; missing values are null, and lists ``over_time``
have a value for each interval of ``intervals``.
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
from ecmproto.units import NS_PER_S, NS_PER_US, format_time
from ecmproto.values import dataclass
from ecmproto.wire.codec.document import json_text
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.e2cm import TYPES as E2CM_TYPES
from ecmproto.wire.formats.infiniband import NAK_CODES
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import mac_text

Group = Literal["message", "flow control", "tag", "payload"]


def in_json(name: str | None = None, *, also: str = "", plain: Callable[[Any], Any] | None = None) -> Any:
    """Return a field's metadata: its ``name`` in JSON unless its own, and the members after it.

    ``also`` has names of properties, or of methods of `Statistics` for the value.  A name ``*`` puts members
    in place of the whole, "" leaves the field out; ``plain`` makes its value plain data.
    """
    return {"name": name, "also": also.split(), "plain": plain}


_LEFT_OUT = in_json("")
CPID = in_json(plain="{:016x}".format)
_RATES = "frames_per_s bits_per_s"
_PEAKS = "peak_frames_per_s peak_bits_per_s"


def _or_null(value: Any) -> Any:
    return value or None


def means(sums: Iterable[int], counts: Iterable[int]) -> list[float | None]:
    """Return the mean of each interval, None where there was nothing."""
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind: ``name`` is the layer's in filters; a frame with one of ``layers`` is of the kind."""

    name: str = field(metadata=in_json("kind"))
    title: str
    group: Group
    layers: tuple[str, ...] = field(default=(), metadata=_LEFT_OUT)


E2CM_KINDS = tuple(
    Kind(name=f"e2cm.{word.lower()}", title=f"E²CM {word}", group="message") for word in E2CM_TYPES.values()
)
"""E²CM frames by their type, in the order of the types, as they have one layer."""
OTHER = Kind(name="other", title="other", group="payload")
"""Frames that hold nothing else that has a kind, tags aside."""


def _counted_types() -> Iterator[Kind]:
    """Yield the kinds of the formats by their roles, each E²CM type after E²CM."""
    for role in get_args(Group):
        formats = [cls for cls in FORMATS if cls.role == role and cls.counted_as]
        # VLAN tags after the tags of congestion management
        formats.sort(key=lambda cls: cls.announced_by in ("c_tag", "s_tag", "i_tag"))
        for title in dict.fromkeys(cls.counted_as for cls in formats):
            layers = tuple(cls.prefix for cls in formats if cls.counted_as == title)
            yield Kind(name=layers[0], title=title, group=role, layers=layers)
            if layers == (E2CM.prefix,):
                yield from E2CM_KINDS
    yield OTHER


KINDS: tuple[Kind, ...] = tuple(_counted_types())
NUMBER_OF = {kind.name: number for number, kind in enumerate(KINDS)}
_BY_LAYER = {layer: number for number, kind in enumerate(KINDS) for layer in kind.layers}
_OTHER = NUMBER_OF[OTHER.name]


def kind_of(layer: str) -> Kind:
    """Return the kind of the frames that have a layer which is counted."""
    return KINDS[_BY_LAYER[layer]]


def kind_numbers(protocols: str) -> list[int]:
    """Return the numbers of the kinds of a frame whose layers are ``protocols``, E²CM's types aside."""
    numbers = sorted({_BY_LAYER[layer] for layer in protocols.split(":") if layer in _BY_LAYER})
    if all(KINDS[number].group == "tag" for number in numbers):
        numbers.append(_OTHER)
    return numbers


def listed(lists: Iterable[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return lists in sequence, and the start of each, followed by the end of the last."""
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

    def as_times(self, names: str) -> str:
        """Return some numbers as durations, ``least`` to ``most``: ``p50 8 µs, most 9 µs``."""
        ends = {"least": "minimum", "most": "maximum"}
        return ", ".join(
            f"{name} {format_time(getattr(self, ends.get(name, name)))}" for name in names.split()
        )

    def scaled(self, factor: int) -> Distribution:
        """Return the distribution of the numbers times ``factor``."""
        values = {name: factor * value for name, value in dataclasses.asdict(self).items()}
        return Distribution(**values | {"count": self.count})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the earliest to the latest time in a capture; both None where no frame has one."""

    first_ns: int | None = None
    last_ns: int | None = field(default=None, metadata=in_json(also="duration_ns"))

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
    """The requested width, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCount:
    """The number of frames of a kind, and their times."""

    kind: Kind = field(metadata=in_json("*"))
    frames: int
    octets: int = field(metadata=in_json(also=f"{_RATES} {_PEAKS}"))
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
    speed_bps: int = field(metadata=in_json(plain=_or_null))
    """0: none stated."""
    frames: int
    octets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBucket:
    """Frames of ``low`` to ``high`` octets, both included; no ``high``: and more."""

    low: int = field(metadata=in_json("low_octets"))
    high: int | None = field(metadata=in_json("high_octets"))
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The distribution of frame lengths; None if there are no frames."""

    minimum: int | None = field(metadata=in_json("minimum_octets"))
    mean: float | None = field(metadata=in_json("mean_octets"))
    maximum: int | None = field(metadata=in_json("maximum_octets"))
    buckets: tuple[SizeBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPoint:
    """The messages of one mechanism with one CPID."""

    kind: str
    """The format: cnm, ecm, bcn, e2cm, or one that another package brings."""
    cpid: int = field(metadata=CPID)
    frames: int = field(metadata=in_json(also="frames_per_s"))
    quantities: Mapping[str, Distribution] = field(metadata=in_json("*"))
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
    cpid: int = field(metadata=CPID)
    flow_id: int | None
    """Flow ID of the CN-TAG (0 without one), or of E²CM; None where messages have none."""
    destination: bytes | None
    """The station that gets the messages; None under a link layer without addresses."""
    frames: int = field(metadata=in_json(also="frames_per_s"))
    fb_mean: float | None
    """Mean quantized feedback of CNMs."""
    fb_maximum: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedFlow:
    """The replies to E²CM's probes of one flow, with the destination's measurements.

    A reply carries the forward probe's time to the destination: its clock less the timestamp of the source,
    modulo 2^32 ns, hence only correct up to the difference of the two clocks.
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
    """Latencies of all replies."""
    replies_over_time: tuple[int, ...] = field(repr=False, metadata=in_json(also="latency_mean_ns_over_time"))
    latency_sum_ns_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)
    flows: tuple[ProbedFlow, ...]

    @property
    def latency_mean_ns_over_time(self) -> list[float | None]:
        """Mean latency of the replies in each interval."""
        return means(self.latency_sum_ns_over_time, self.replies_over_time)


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
    rate_bps: Distribution | None = field(metadata=in_json(also="rate_mean_bps_over_time"))
    """Rates of the other messages."""
    limited_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)
    rate_sum_bps_over_time: tuple[int, ...] = field(repr=False, metadata=_LEFT_OUT)

    @property
    def rate_mean_bps_over_time(self) -> list[float | None]:
        """Mean of the others in each interval."""
        return means(self.rate_sum_bps_over_time, self.limited_over_time)


def _whom(priority: int | None) -> str:
    return "the whole link" if priority is None else f"priority {priority}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassPause:
    """The pauses of one class; ``priority`` None is PAUSE, which stops the whole link."""

    priority: int | None
    pauses: int
    """Frames with a time."""
    resumes: int
    """Frames with time 0, which end a pause."""
    paused_ns: int = field(metadata=in_json(also="paused_share *history"))
    """The total time with a pause in force: the union of all."""
    transitions: int | None = field(default=None, metadata=_LEFT_OUT)
    """Changes from not paused to paused; None for several senders together, as the next three."""
    recent_ns: int | None = field(default=None, metadata=_LEFT_OUT)
    """The begin of the latest pause."""
    recent_paused_ns: int | None = field(default=None, metadata=_LEFT_OUT)
    """The time for which it was in force so far."""
    expired: int | None = field(default=None, metadata=_LEFT_OUT)
    """Pauses that ran out: neither renewed nor ended by a frame in time."""
    paused_ns_over_time: tuple[int, ...] = field(repr=False, default=())

    @property
    def whom(self) -> str:
        """The traffic that is stopped."""
        return _whom(self.priority)

    @property
    def history(self) -> Mapping[str, Any]:
        """Numbers of its pauses by switches' names; none for several senders together."""
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
    """A station that sends PAUSE or PFC to its link partner."""

    interface: int
    source: bytes | None
    frames: int
    speed_bps: int
    speed_is_stated: bool
    """Whether the capture states the speed; otherwise it is assumed."""
    paused_ns: int = field(metadata=in_json(also="paused_share"))
    """The total time with at least one class stopped."""
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseInterface:
    """The pauses of all senders of an interface: their union, both directions of a link."""

    interface: int
    frames: int
    paused_ns: int = field(metadata=in_json(also="paused_share"))
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseStorm:
    """A class that was stopped for 99 % of a detection time or more; ``priority`` None is the whole link."""

    interface: int
    source: bytes | None
    """The sender of the pauses."""
    priority: int | None
    begun_ns: int
    """The begin of the pause at the start of the detection time."""
    detected_ns: int
    restored_ns: int | None
    """The time at the end of a restoration time without pauses; None: not before the end."""
    frames_left: int | None = field(metadata=in_json(also="seen"))
    """Frames of the priority that left the stopped port within the detection time while the pause was in
    force; None where the capture cannot show any."""

    @property
    def whom(self) -> str:
        """The traffic that is stopped."""
        return _whom(self.priority)

    @property
    def seen(self) -> str:
        """The observed part of a storm: "pause" alone, or the "stall" of the port as well.

        "traffic": the port continued to send in spite of the pause, so that it is no storm.
        """
        if self.frames_left is None:
            return "pause"
        return "traffic" if self.frames_left else "pause and stall"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTimes:
    """PAUSE and PFC as time."""

    senders: tuple[PauseSender, ...]
    """Senders of pauses, longest total first."""
    interfaces: tuple[PauseInterface, ...]
    detect_ns: int = field(default=200_000_000, metadata=in_json("storm_detect_ns"))
    restore_ns: int = field(default=400_000_000, metadata=in_json("storm_restore_ns"))
    """The times that storms were detected with."""
    more_storms: int = 0
    """Storms beyond those in the list."""
    storms: tuple[PauseStorm, ...] = ()


PFC_FAULTS = {
    "destination": "destination is not 01-80-C2-00-00-01",
    "source": "source is a group address or missing",
    "vlan_tag": "has a VLAN tag",
    "not_lossless": "pauses a priority that is not declared lossless",
    "upper_octet": "upper octet of the class-enable vector is not 0",
    "timers": "time of a priority that is not enabled is not 0",
    "padding": "padding is not 0",
    "length": "is not 64 octets long with its FCS",
    "malformed": "is too short to be read",
}
"""Faults of a PFC frame, and their texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFault:
    """PFC frames with one of `PFC_FAULTS`."""

    fault: str = field(metadata=in_json(also="meaning"))
    frames: int
    source: bytes | None = field(metadata=in_json("first_source"))
    """The source of the first of them."""

    @property
    def meaning(self) -> str:
        """The text of the fault."""
        return PFC_FAULTS[self.fault]


@dataclass(frozen=True, slots=True, kw_only=True)
class PfcFrames:
    """PFC frames and what is wrong with some; those that did not come in time are in `ClassPause.expired`."""

    frames: int
    valid: int
    lossless: tuple[int, ...] | None
    """The priorities that may be paused; None: not declared, any may."""
    faults: tuple[PfcFault, ...]


QAZ, CEE_DIALECT, CIN_DIALECT = "802.1Qaz", "CEE", "CIN"
"""The dialects of DCBX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppPriority:
    """The priorities that a station advertises for an application."""

    selector: str
    """The kind of its identifier: "ethertype", "tcp port", "udp port", "port" of either, "dscp"."""
    protocol: int
    priorities: tuple[int, ...]

    @property
    def text(self) -> str:
        """The application and its priorities, as ``udp port 4791: 3``."""
        protocol = f"{self.protocol:#06x}" if self.selector == "ethertype" else str(self.protocol)
        return f"{self.selector} {protocol}: {priorities_text(self.priorities)}"


def priorities_text(priorities: Sequence[int] | None) -> str | None:
    """Return priorities as text, ``none`` without any; None where they are not advertised."""
    return None if priorities is None else ",".join(map(str, priorities)) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A station at an interface by its LLDP, and by DCBX the priorities that it protects.

    Missing advertisements are None.
    """

    interface: int
    source: bytes | None
    chassis: str
    port: str
    system: str = field(metadata=in_json(plain=_or_null))
    frames: int
    dialects: tuple[str, ...]
    """The dialects of DCBX in its LLDP: 802.1Qaz, CEE, CIN."""
    pfc_enabled: tuple[int, ...] | None
    """The priorities that PFC protects."""
    pfc_willing: bool | None
    """Whether it accepts its neighbour's."""
    traffic_classes: tuple[int, ...] | None
    """The traffic class of each priority, or its priority group in CEE."""
    bandwidths: tuple[int, ...] | None
    """The bandwidth of each of these in percent."""
    strict: tuple[int, ...] = field(metadata=in_json("strict_priorities"))
    """The priorities in classes that are served first, whatever the bandwidths."""
    ets_willing: bool | None
    recommended_bandwidths: tuple[int, ...] | None
    """Bandwidths that it recommends to its neighbour."""
    applications: tuple[AppPriority, ...]
    cnpvs: tuple[int, ...] | None
    """The priorities that its congestion notification TLV names."""

    @property
    def pfc_text(self) -> str | None:
        """The priorities that PFC protects, and whether it is willing."""
        text = priorities_text(self.pfc_enabled)
        return f"{text}, willing" if self.pfc_willing else text

    @property
    def ets_text(self) -> str | None:
        """The priorities of each class with its bandwidth, strict ones last, as ``0-2,4-7 50 %; 3 50 %``."""
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
        """The applications with their priorities."""
        return "; ".join(each.text for each in self.applications) or None

    @property
    def cnpvs_text(self) -> str | None:
        """The priorities of congestion notification."""
        return priorities_text(self.cnpvs)

    @property
    def dialects_text(self) -> str | None:
        """The dialects."""
        return " and ".join(self.dialects) or None


def _ranges(priorities: Sequence[int]) -> str:
    """Return priorities as text, consecutive ones by their ends: ``0-2,4``."""
    parts: list[list[int]] = []
    for each in priorities:
        if parts and parts[-1][-1] == each - 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


GO_BACK_N, SELECTIVE_REPEAT = "go-back-N", "selective repeat"
SEQUENCE_ERROR, NOT_READY = NAK_CODES[0], "receiver not ready"
"""NAKs for a sequence error, and answers of a receiver that is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """RoCE frames to one queue pair between two addresses: one direction of a connection."""

    source: str
    destination: str
    queue_pair: int
    frames: int
    octets: int = field(metadata=in_json(also=_RATES))
    data_frames: int = field(metadata=in_json(also="ect_share ce_share"))
    """Neither acknowledges nor CNPs."""
    ect_frames: int
    """Frames of an ECN-capable transport, marked or not."""
    ce_frames: int
    """Marked on the way, CNPs aside."""
    cnps: int = field(metadata=in_json(also="cnps_per_s"))
    """CNPs among the frames: they slow this queue pair, which sends in the other direction."""
    acknowledges: int
    receiver_not_ready: int
    naks: Mapping[str, int]
    """Negative acknowledgments by their codes."""
    psn_gaps: int | None
    """Frames with a PSN beyond the next one; None in a sample, as the next two."""
    psns_missing: int | None
    """PSNs in these gaps."""
    psn_repeats: int | None
    """Frames whose PSN was before the next one."""
    go_backs: int | None
    """Retransmissions of all packets from a NAK's PSN on."""
    selective_repeats: int | None
    """Retransmissions of some of these packets only."""
    unasked_repeats: int | None = field(metadata=in_json(also="retransmission card_counters"))
    """Retransmissions without a NAK in the capture, as after a time-out."""
    other_direction: bool = field(metadata=in_json("other_direction_seen"))
    """Whether the capture has frames of the other direction between the addresses."""
    about: tuple[int, ...] = field(metadata=in_json("about_queue_pairs"))
    """The queue pairs of the flows that CNPs and acknowledges here may be about."""
    about_by: str = field(metadata=in_json(plain=_or_null))
    """The evidence: "acknowledged", "only one", "one of" several; "" without the flow in the capture."""
    cnps_against: int
    """CNPs that came back for these frames, as far as it is known that they are for them."""
    naks_against: Mapping[str, int] = field(metadata=in_json(also="refusals_against"))
    """NAKs by their codes, and receivers not ready, that came back for these frames, likewise."""
    delay_ns: Distribution | None = field(metadata=in_json("cnp_delay_ns"))
    """From the first CE-marked frame since the last such CNP to the next one."""
    first_ce_ns: int | None = field(metadata=_LEFT_OUT)
    """The time of the first CE-marked frame."""

    @property
    def ect_share(self) -> float:
        """Part of the frames that is ECN-capable."""
        return self.ect_frames / self.frames

    @property
    def ce_share(self) -> float:
        """Part of the frames that was marked."""
        return self.ce_frames / self.frames

    @property
    def trouble(self) -> int:
        """The sum of marks, CNPs, missing and repeated PSNs, and NAKs.

        Returning packets count with their flow, or with their destination if the flow is unknown.
        """
        psns = (self.psns_missing or 0) + (self.psn_repeats or 0)
        here = self.ce_frames + psns + self.cnps_against + self.refusals_against
        return here if self.is_settled else here + self.cnps + self.refusals

    @property
    def retransmission(self) -> str | None:
        """The retransmission after a NAK: `GO_BACK_N` or `SELECTIVE_REPEAT`, None if undetermined."""
        if self.go_backs is None or self.selective_repeats is None or self.go_backs == self.selective_repeats:
            return None
        return GO_BACK_N if self.go_backs > self.selective_repeats else SELECTIVE_REPEAT

    @property
    def card_counters(self) -> Mapping[str, int | None]:
        """The corresponding counters of network cards, with mlx5's names.

        ``out_of_sequence`` is the receiver's, which also counts packets after a gap, the others the sender's.
        """
        return {
            "out_of_sequence": self.psn_gaps,
            "packet_seq_err": self.naks_against.get(SEQUENCE_ERROR, 0),
            "rnr_nak_retry_err": self.naks_against.get(NOT_READY, 0),
            "local_ack_timeout_err": self.unasked_repeats,
        }

    @property
    def refusals_against(self) -> int:
        """NAKs and receivers not ready that came back for these frames."""
        return sum(self.naks_against.values())

    @property
    def refusals(self) -> int:
        """NAKs and receivers not ready among the frames."""
        return self.receiver_not_ready + sum(self.naks.values())

    @property
    def is_settled(self) -> bool:
        """Whether it is known which flow CNPs and acknowledges here are about."""
        return self.about_by in ("acknowledged", "only one")


def _delay_histogram(quarters: Iterable[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [{"low_ns": low, "high_ns": high, "cnps": count} for low, high, count in quarters]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceTraffic:
    """RoCE frames, by queue pair and direction."""

    frames: int
    address_pairs: int
    """Sources and destinations, each direction by itself."""
    pairs_of_both_directions: int
    """Queue pairs with the other direction in the capture too."""
    delay_ns: Distribution | None = field(metadata=in_json("cnp_delay_ns"))
    """Delays of all flows with known CNPs."""
    delay_quarters: tuple[tuple[int, int, int], ...] = field(
        repr=False, metadata=in_json("cnp_delay_histogram", plain=_delay_histogram)
    )
    """These by quarters of doublings: least, least of the next, count."""
    frames_over_time: tuple[int, ...] = field(repr=False)
    ect_over_time: tuple[int, ...] = field(repr=False, metadata=in_json("ect_frames_over_time"))
    ce_over_time: tuple[int, ...] = field(repr=False, metadata=in_json("ce_frames_over_time"))
    cnps_over_time: tuple[int, ...] = field(repr=False)
    queue_pairs: tuple[QueuePair, ...]
    """Queue pairs, worst first."""

    @property
    def cnps(self) -> int:
        """All CNPs."""
        return sum(each.cnps for each in self.queue_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure of all frames, and the bounds of its interval of 95 %."""

    figure: str
    subject: str
    """Queue pair or priority of the figure; empty: all frames."""
    unit: Literal["share", "per_s", "bits_per_s"]
    value: float
    low: float | None = None
    high: float | None = None
    """None where every N-th frame was sampled: a sample in step with the traffic shows no bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Estimates for all frames from a sample."""

    one_in: tuple[int, ...]
    """The numbers of frames for each sampled one."""
    every: bool
    """Whether every N-th frame was sampled; otherwise each with the same probability."""
    frames: int
    unknown_frames: int
    """Frames with an unknown sampling rate, or beyond the maximum number of rates: in no estimate."""
    estimates: tuple[Estimate, ...]
    not_estimated: tuple[str, ...] = (
        "time paused, storms and renewals of pauses", "gaps and repeats of PSNs", "delay of CNPs",
        "latency and throughput of probes", "order and spacing of frames",
    )  # fmt: skip
    """Figures that a sample does not determine."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Statistics(Tabular):
    """The statistics of a capture, or of the frames that a filter selects; as a table, one row a kind."""

    read_frames: int
    """All frames, those that a filter left out too."""
    frames: int
    octets: int
    captured_octets: int
    cut_frames: int = field(metadata=in_json(also="malformed_frames"))
    """Truncated frames."""
    untimed_frames: int
    """Frames without a time, or with one that is no time: before 1824 or after 2116."""
    backwards_frames: int
    """Frames stamped before an earlier one."""
    span: Span = field(metadata=in_json("*", also=f"{_RATES} {_PEAKS} linktypes"))
    """The span of all frames read."""
    interfaces: tuple[InterfaceCount, ...]
    malformed: Mapping[str, int]
    """Malformed frames by what is malformed, the most frequent first."""
    intervals: Intervals
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)
    kinds: tuple[KindCount, ...]
    """The kinds in the capture."""
    sizes: Sizes
    priorities: Mapping[int, int]
    """Frames by the priority of their outermost VLAN tag."""
    congestion_points: tuple[CongestionPoint, ...]
    """Congestion points, most messages first, by mechanism."""
    message_flows: tuple[MessageFlow, ...]
    """Flows of messages, most messages first."""
    probes: Probes | None
    rates: tuple[AdvertisedRate, ...]
    pauses: PauseTimes | None
    pfc: PfcFrames | None
    sflow: SflowReports | None
    """Reports of sFlow agents beside sampled headers."""
    roce: RoceTraffic | None
    neighbours: tuple[Neighbour, ...]
    """Stations that send LLDP, by interface."""
    sample: Sample | None
    """Estimates for all frames where these are a sample, without pauses and probes; else None."""
    mirrors: Mapping[str, int]
    """Frames that carry others, which are not looked into, by their encapsulation."""
    left_out: Mapping[str, int]
    """Frames left out of the lists above, which have a maximum length."""
    notes: tuple[str, ...]
    """Sentences on the limits of these numbers."""
    problem: CaptureError | None = field(default=None, metadata=_LEFT_OUT)
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

    def records(self) -> list[dict[str, Any]]:
        """Return one row a kind of frame: counts, share and rates, with the names of the JSON document."""
        return [
            {name: value for name, value in members(each, self).items() if not name.endswith("_over_time")}
            for each in self.kinds
        ]

    def __repr__(self) -> str:
        kinds = ", ".join(f"{each.kind.title} {each.frames:,}" for each in self.kinds)
        return f"{counted(self.frames, 'frame')} in {format_time(self.span.duration_ns)}: {kinds}"

    def frames_per_s(self, each: Any) -> float | None:
        """Return the mean rate of frames over the span; None over no time, as the next two."""
        return self.span.per_second(each.frames)

    def bits_per_s(self, each: KindCount | QueuePair | Statistics) -> float | None:
        """Return the mean rate of octets, in bits."""
        return self.span.per_second(8 * each.octets)

    def frames_share(self, each: KindCount) -> float:
        """Return a part of all frames."""
        return each.frames / self.frames

    def cnps_per_s(self, each: QueuePair | RoceTraffic) -> float | None:
        """Return the mean rate of CNPs."""
        return self.span.per_second(each.cnps)

    def peak_per_second(self, over_time: tuple[int, ...]) -> float | None:
        """Return the greatest rate of an interval; None without any, as the next two."""
        return max(over_time) * NS_PER_S / self.intervals.width_ns if over_time else None

    def peak_frames_per_s(self, each: KindCount | Statistics) -> float | None:
        """Return the greatest rate of frames."""
        return self.peak_per_second(each.frames_over_time)

    def peak_bits_per_s(self, each: KindCount | Statistics) -> float | None:
        """Return the greatest rate of octets, in bits."""
        peak = self.peak_per_second(each.octets_over_time)
        return peak and 8 * peak

    def share(self, duration_ns: int) -> float | None:
        """Return a duration as a part of the span; None where that is none."""
        return duration_ns / self.span.duration_ns if self.span.duration_ns else None

    def paused_share(self, each: ClassPause | PauseInterface | PauseSender) -> float | None:
        """Return the time paused as a part of the span."""
        return self.share(each.paused_ns)


SCHEMA = "ecmproto/stats/1"


def as_document(statistics: Statistics, capture: str) -> dict[str, Any]:
    """Return the JSON document of the statistics of ``capture``."""
    problem = None if statistics.problem is None else str(statistics.problem)
    return {"schema": SCHEMA, "capture": capture, "problem": problem, **members(statistics, statistics)}


def members(value: Any, whole: object) -> dict[str, Any]:
    """Return the fields of a dataclass, and the members after them, as plain data.

    ``whole`` has the methods of these members; the value is a part of it.
    """
    made: dict[str, Any] = {}
    for name, source, plain in _entries(type(value)):  # type: ignore[arg-type]
        found = value_of(value, source, whole) if plain is None else plain(getattr(value, source))
        if type(found) not in _SINGLE:
            found = _plain(found, whole)
        if name == "*":
            made.update(found)
        else:
            made[name] = found
    return made


_SINGLE = frozenset({type(None), bool, int, float, str})


@functools.cache
def _entries(cls: type[Any]) -> Sequence[tuple[str, str, Callable[[Any], Any] | None]]:
    """Return names in JSON (``*``: of a value's members), names for `value_of`, functions to plain values."""
    entries: list[tuple[str, str, Callable[[Any], Any] | None]] = []
    for each in dataclasses.fields(cls):
        name = each.metadata.get("name")
        if name != "":
            plain = each.metadata.get("plain") or _itself
            entries.append((each.name if name is None else name, each.name, plain))
        also = each.metadata.get("also", ())
        entries += [("*" if more[0] == "*" else more, more.lstrip("*"), None) for more in also]
    return entries


def _itself(value: Any) -> Any:
    return value


def _plain(value: Any, whole: object) -> Any:
    if isinstance(value, bytes):
        return mac_text(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each, whole) for key, each in value.items()}
    if isinstance(value, tuple):
        held = value and dataclasses.is_dataclass(value[0])
        return [members(each, whole) for each in value] if held else list(value)
    return members(value, whole) if dataclasses.is_dataclass(value) else value


def document_text(statistics: Statistics, capture: str) -> str:
    """Return the same as the text of a file."""
    return json_text(as_document(statistics, capture), indented=True) + "\n"
