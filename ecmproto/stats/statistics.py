"""What statistics of a capture come to: plain values, as tables, JSON and figures take them.

Times are ns since 1970, durations ns, sizes octets on the wire as the capture's records state them (without
FCS unless the capture has it).  Rates are means over the capture's span unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ecmproto.errors import CaptureError
from ecmproto.stats.distribution import Distribution
from ecmproto.stats.kinds import Kind
from ecmproto.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From the earliest to the latest time in a capture; both None where no frame has one."""

    first_ns: int | None = None
    last_ns: int | None = None

    @property
    def duration_ns(self) -> int:
        """How long it is."""
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
    """How many frames are of a kind, and when."""

    kind: Kind
    frames: int
    octets: int
    frames_over_time: tuple[int, ...] = field(repr=False)
    octets_over_time: tuple[int, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCount:
    """An interface and what was captured on it."""

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
    """How long frames are; None where there are none."""

    minimum: int | None
    mean: float | None
    maximum: int | None
    buckets: tuple[SizeBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestionPoint:
    """The messages of one mechanism with one CPID."""

    kind: str
    """cnm, ecm, bcn or e2cm."""
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
    """rdtag, fecn or dbp."""
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
    """What pause frames did to one class; ``priority`` None is PAUSE, which stops the whole link."""

    priority: int | None
    pauses: int
    """Frames that asked for a time."""
    resumes: int
    """Frames that asked for none, which ends a pause."""
    paused_ns: int
    """For how long a pause was in force: the union of all."""
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
    """What all senders of an interface together did: the union of their pauses, both directions of a link."""

    interface: int
    frames: int
    paused_ns: int
    classes: tuple[ClassPause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTimes:
    """PAUSE and PFC as time."""

    senders: tuple[PauseSender, ...]
    """Those who stopped somebody for longest first."""
    interfaces: tuple[PauseInterface, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What is in a capture, or in what a filter selects of it."""

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
    left_out: Mapping[str, int]
    """Frames left out of the lists above because those have as many rows as there may be."""
    notes: tuple[str, ...]
    """Sentences on what these numbers do not say."""
    problem: CaptureError | None = None
    """What kept the capture from being read to its end."""

    @property
    def malformed_frames(self) -> int:
        """How many frames are malformed."""
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
        """Return what the capture calls an interface, whatever characters are in it; else its number."""
        return self.interfaces[index].name or f"interface {index}"

    def peak_per_second(self, over_time: tuple[int, ...]) -> float | None:
        """Return the greatest rate of an interval; None without any."""
        return max(over_time) * NS_PER_S / self.intervals.width_ns if over_time else None

    def share(self, duration_ns: int) -> float | None:
        """Return a duration as a part of the span; None where that is none."""
        return duration_ns / self.span.duration_ns if self.span.duration_ns else None
