"""Summary of a replay: counts, queues over time and feedback, as plain values for a table or JSON."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import field
from typing import Any

import numpy as np

from ecmproto.control.engine.config import Buffer, PortRate, RateChange, buffer_text, port_rate_text
from ecmproto.control.engine.gauge import (
    TOTAL,
    Gauge,
    QueueStatistics,
    QueueTrace,
    bin_lengths_ns,
    priorities_used,
    queue_statistics,
    queue_trace,
    settled,
    utilisation,
)
from ecmproto.control.engine.statistics import FlowRates, PortCounts, second_half_ns
from ecmproto.control.mechanisms.api.machine import Machine
from ecmproto.control.mechanisms.api.protocol import CongestionPoint
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.values import dataclass
from ecmproto.wire.formats.text import mac_text


@dataclass(frozen=True, slots=True, kw_only=True)
class DropTrace:
    """The number of dropped frames over time, in spans of ``span_ns`` from the first arrival."""

    span_ns: int
    frames: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSummary:
    """The results of a port.

    ``frames`` and ``octets`` (without FCS) are arrivals. ``dropped_frames`` are frames for which the buffer
    had no space. ``samples`` counts sampling instants, and ``messages`` counts sent messages by type.
    ``unanswered`` counts samples that found congestion, but that permit no message to the frame's source. The
    reasons are a group address, the port's own address, a truncated header, or a missing CN-TAG.
    ``fb_histogram`` counts samples by quantized feedback 0 to 63; the histogram is empty for a mechanism
    without quantized feedback. ``utilisation`` is the share of time in which the line was busy.
    ``second_half_mean_octets`` is the mean queue length in the second half of the time.
    """

    name: str
    frames: int
    octets: int
    dropped_frames: int
    dropped_octets: int
    samples: int
    messages: dict[str, int]
    unanswered: int
    utilisation: float
    queue: QueueStatistics
    second_half_mean_octets: float
    queue_by_priority: dict[int, QueueStatistics]
    """Statistics of each priority for which a frame was queued."""
    fb_histogram: tuple[int, ...]
    trace: QueueTrace
    drops: DropTrace
    counters: dict[str, int] = field(default_factory=dict)
    """The counters of the congestion point, for actions that send no counted message."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseTrace:
    """Pauses over time: the time in which a station was stopped, by span of ``span_ns`` and by priority."""

    span_ns: int
    stopped_ns: dict[int, tuple[int, ...]]
    """The stopped time per span, for each priority that was stopped at least once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationsSummary:
    """Counts of frames and messages at the stations of a closed loop.

    ``held_out_frames`` are frames for which the station's queue had no space. ``limited_frames`` waited for a
    limiter. ``messages`` are messages that reached a station. ``counters`` are the mechanism's counters,
    summed over all stations. A priority counts as stopped while PAUSE or PFC stops it, but not before the
    station's first frame of this priority.
    """

    stations: int
    flows: int
    link_rate_bps: int
    feedback_delay_ns: int
    queue_octets: int
    held_out_frames: int
    held_out_octets: int
    limited_frames: int
    delivered_frames: int
    delivered_octets: int
    waiting_frames: int
    """Frames that wait at stations at the end of the time."""
    waiting_octets: int
    queued_frames: int
    """Frames in the port's queues at the end of the time."""
    probes: int
    messages: int
    longest_wait_octets: int
    paused_ns: int
    """The time in which at least one priority of one station was stopped."""
    paused_sum_ns: int
    """The stopped time summed over all stations and priorities."""
    pauses: PauseTrace
    rtt_average_ns: float | None
    """The mean over frames of the average round-trip time of the frame's limiter (RTTavg of S000).

    ``None`` means that no round-trip time was measured.
    """
    fairness: float
    """Jain's index of the rates of flows with traffic in the second half; 1 for equal rates."""
    fairness_flows: int
    """The number of flows that ``fairness`` covers."""
    counters: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """The results of a replay.

    The results cover the time from the first to the last arrival of the capture, ``duration_ns``. Frames that
    still wait at the end are served later and not counted. The second half starts at ``second_half_ns``.

    ``frames`` and ``octets`` (without FCS) are all arrivals. ``passed_by`` are arrivals that occupied no
    queue (MAC Control, link-local, empty) or belonged to no port. ``backwards`` are frames with an earlier
    time than a previous frame. ``untimed`` are frames without a time.
    Frames of both types arrive at the latest time so far.
    """

    mechanism: str
    variant: str = ""
    """The name of the replay among others of the mechanism, such as ``qcn:w=4``, or the mechanism's name."""
    frames: int
    octets: int
    first_time_ns: int
    duration_ns: int
    second_half_ns: int
    passed_by: int
    backwards: int
    untimed: int
    ports: tuple[PortSummary, ...]
    stations: StationsSummary | None
    """The stations of a closed loop; ``None`` means an open loop."""
    flows: tuple[FlowRates, ...]
    """The flows, if requested; a closed loop always has flows."""
    flow_span_ns: int
    rate_bps: int
    buffer_octets: int
    buffer_frames: int = 0
    """The capacity of the port's queues in frames; 0 means that ``buffer_octets`` is the capacity."""
    rate_changes: tuple[RateChange, ...] = ()
    overhead_octets: int
    seed: int
    parameters: dict[str, dict[str, str]]
    """Values of parameters by role and name."""

    @property
    def loop(self) -> str:
        """Return ``open`` or ``closed``."""
        return "open" if self.stations is None else "closed"

    @property
    def rate(self) -> str:
        """Return the port's rate as text, including the changes of the rate."""
        return port_rate_text(PortRate(self.rate_bps, self.rate_changes))

    @property
    def buffer(self) -> str:
        """Return the port's buffer as text."""
        return buffer_text(Buffer(self.buffer_octets, self.buffer_frames))

    def as_dict(self) -> dict[str, Any]:
        """Return the complete summary as dicts, lists and numbers."""
        plain: dict[str, Any] = _plain(self)
        return {"loop": self.loop} | plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [None if np.isnan(each) else each for each in value.tolist()]
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def port_summary(
    name: str, gauge: Gauge, now_ns: int, counts: PortCounts, machine: Machine, point: CongestionPoint
) -> PortSummary:
    """Return the summary of a port at ``now_ns``."""
    settled(gauge, now_ns)
    counters = machine.counters(point) if machine.shown_counters else {}
    trace = queue_trace(gauge)
    return PortSummary(
        name=name,
        utilisation=utilisation(gauge),
        queue=queue_statistics(gauge, TOTAL),
        second_half_mean_octets=_second_half(trace, now_ns),
        queue_by_priority={p: queue_statistics(gauge, p) for p in priorities_used(gauge)},
        trace=trace,
        counters={name: counters[name] for name in machine.shown_counters if name in counters},
        remarks=machine.remarks(point),
        **counted_fields(counts),
    )


def counted_fields(counts: PortCounts) -> dict[str, Any]:
    """Return the fields of `PortSummary` that follow from counts."""
    names = ("frames", "octets", "dropped_frames", "dropped_octets", "samples", "unanswered")
    return {name: getattr(counts, name) for name in names} | {
        "messages": dict(sorted(counts.messages.items())),
        "drops": _drops(counts),
        "fb_histogram": tuple(counts.qntz_fb.tolist()) if counts.qntz_fb[1:].any() else (),
    }


def _drops(counts: PortCounts) -> DropTrace:
    frames = np.trim_zeros(counts.drops.values[0], "b").astype(np.int64)
    return DropTrace(span_ns=counts.drops.bin_ns, frames=tuple(frames.tolist()))


def _second_half(trace: QueueTrace, duration_ns: int) -> float:
    # A span of the trace starts at the start of the second half, because the grid of spans is finer.
    first = min(second_half_ns(duration_ns) // trace.span_ns, len(trace.mean_octets) - 1)
    half = np.array(trace.mean_octets[first:])
    lengths_ns = bin_lengths_ns(len(trace.mean_octets), trace.span_ns, duration_ns)[first:]
    return float(half @ lengths_ns / lengths_ns.sum())


def flow_labels(table: FlowTable) -> dict[int, str]:
    """Return the label of each flow by flow number.

    The label is the station's address if the station has no other flow.
    """
    flows = table.flows()
    flows_of = Counter(flow.station for flow in flows)
    numbers = table.numbers(
        np.array([flow.station for flow in flows], np.int32),
        np.array([flow.flow for flow in flows], np.int32),
    )
    return {
        number: mac_text(flow.source) if flows_of[flow.station] == 1 else flow.label
        for number, flow in zip(numbers.tolist(), flows, strict=True)
    }
