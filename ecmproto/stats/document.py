"""Statistics as JSON takes them: numbers as numbers, times in integer ns, CPIDs as hex, addresses as text.

What has no value is null.  Lists ``over_time`` have a value for each interval of ``intervals``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ecmproto.codec.document import json_text
from ecmproto.codec.text import mac_text
from ecmproto.stats.distribution import Distribution
from ecmproto.stats.statistics import (
    AdvertisedRate,
    ClassPause,
    CongestionPoint,
    InterfaceCount,
    MessageFlow,
    PauseTimes,
    ProbedFlow,
    Probes,
    Statistics,
)

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
    }
