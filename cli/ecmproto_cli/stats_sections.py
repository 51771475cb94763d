"""The sections on what congestion management did: pauses, feedback, probes, advertised rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ecmproto.codec.text import cpid_text
from ecmproto.units import format_octets, format_rate, format_time
from ecmproto_cli.paint import paint
from ecmproto_cli.stats_words import (
    ABSENT,
    address,
    class_name,
    flow_text,
    interface_name,
    over_time,
    paused_line,
    per_second,
    share,
)
from ecmproto_cli.table import bars, columns_of, pairs

if TYPE_CHECKING:
    from ecmproto.stats import (
        AdvertisedRate,
        CongestionPoint,
        Distribution,
        PauseInterface,
        PauseSender,
        Statistics,
    )

_SENDERS_SHOWN = 8
_POINTS_SHOWN = 12
_FLOWS_SHOWN = 10
_QUEUES_SHOWN = 12
_FB_STEP = 8
_BAR = 40
_TITLES = {"cnm": "CNM", "ecm": "ECM", "bcn": "BCN", "e2cm": "E²CM"}
_CARRIERS = {"rdtag": "RD tag", "fecn": "FECN return", "dbp": "DBP report"}

_Rows = list[tuple[str, Sequence[str]]]


def pauses(statistics: Statistics) -> Iterator[str]:
    """Yield who stopped whom for how long."""
    if statistics.pauses is None:
        return
    senders = statistics.pauses.senders
    several = len(statistics.interfaces) > 1
    parts = []
    for sender in senders[:_SENDERS_SHOWN]:
        where = f" on {interface_name(statistics, sender.interface)}" if several else ""
        stated = "" if sender.speed_is_stated else " (assumed)"
        speed = f"{format_rate(sender.speed_bps)}{stated}"
        title = f"  {address(sender.source)}{where}, {sender.frames:,} frames, at {speed}"
        parts.append(f"{title}\n{_classes(statistics, sender)}")
    if len(senders) > _SENDERS_SHOWN:
        parts.append(f"  and {len(senders) - _SENDERS_SHOWN} more senders")
    for port in statistics.pauses.interfaces:
        if sum(sender.interface == port.interface for sender in senders) > 1:
            name = interface_name(statistics, port.interface)
            parts.append(f"  all senders of {name} together\n{_classes(statistics, port)}")
    yield "\n".join([f"{paint('time stopped by PAUSE and PFC', 'title')}, by who sent them", *parts])


def _classes(statistics: Statistics, whole: PauseSender | PauseInterface) -> str:
    rows: _Rows = [("", ["share", "time", "pauses", "resumes"])]
    for each in whole.classes:
        asked = f"{each.pauses:,}", f"{each.resumes:,}"
        rows.append((f"  {class_name(each)}", [*_paused(statistics, each.paused_ns), *asked]))
    if len(whole.classes) > 1:
        rows.append(("  any of them", [*_paused(statistics, whole.paused_ns), "", ""]))
    lines = columns_of(rows).splitlines()
    for place, each in enumerate(whole.classes, 1):
        curve = each.paused_ns_over_time
        if len(curve) > 1 and any(curve):
            lines[place] += f"  {paused_line(curve, statistics.intervals.width_ns)}"
    return "\n".join(line.rstrip() for line in lines)


def _paused(statistics: Statistics, paused_ns: int) -> tuple[str, str]:
    return share(statistics.share(paused_ns)), format_time(paused_ns)


def feedback(statistics: Statistics) -> Iterator[str]:
    """Yield what congestion points said, and to whom."""
    for kind, title in _TITLES.items():
        points = [point for point in statistics.congestion_points if point.kind == kind]
        if not points:
            continue
        yield f"{paint(f'{title}s by congestion point', 'title')}\n{_points(statistics, points)}"
        if kind == "cnm":
            yield _histogram(points)
        yield f"{paint(f'{title}s by flow', 'title')}\n{_flows(statistics, kind)}"


def _points(statistics: Statistics, points: Sequence[CongestionPoint]) -> str:
    names = ["frames", "rate"]
    for name in points[0].quantities:
        names += _QUANTITIES[name]
    rows: _Rows = [("", names)]
    for point in points[:_POINTS_SHOWN]:
        cells = [f"{point.frames:,}", _rate(statistics, point.frames)]
        for name, quantity in point.quantities.items():
            cells += _quantity(name, quantity)
        rows.append((cpid_text(point.cpid), cells))
    lines = [columns_of(rows), *_types(points), *_more(len(points), _POINTS_SHOWN, "congestion points")]
    return "\n".join(lines)


_QUANTITIES = {
    "qntz_fb": ("Fb", "max"),
    "q_offset_octets": ("Qoffset", "least"),
    "q_delta_octets": ("Qdelta", "most"),
    "q_off_octets": ("Qoff", "most"),
    "e_octets": ("e", "least"),
}
"""What the mean and the end that tells of congestion are called."""


def _quantity(name: str, quantity: Distribution) -> tuple[str, str]:
    end = quantity.minimum if _QUANTITIES[name][1] == "least" else quantity.maximum
    if name == "qntz_fb":
        return f"{quantity.mean:.1f}", str(end)
    return format_octets(quantity.mean), format_octets(end)


def _types(points: Sequence[CongestionPoint]) -> list[str]:
    counts: dict[str, int] = {}
    for point in points:
        for name, count in point.types.items():
            counts[name] = counts.get(name, 0) + count
    return (
        [f"  by type: {', '.join(f'{name} {count:,}' for name, count in counts.items())}"] if counts else []
    )


def _rate(statistics: Statistics, frames: int) -> str:
    rate = statistics.span.per_second(frames)
    return ABSENT if rate is None else per_second(rate)


def _more(count: int, shown: int, noun: str) -> list[str]:
    return [f"  and {count - shown:,} more {noun}"] if count > shown else []


def _histogram(points: Sequence[CongestionPoint]) -> str:
    """Return the histogram of quantized feedback: none by itself, then in the steps that shorten sampling."""
    whole = [sum(values) for values in zip(*(point.fb_histogram for point in points), strict=True)]
    counts = [("0", whole[0])]
    for first in range(0, len(whole), _FB_STEP):
        low, last = max(1, first), first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(whole[low : last + 1])))
    return f"{paint('CNMs by quantized feedback', 'title')}\n{bars(counts, width=_BAR)}"


def _flows(statistics: Statistics, kind: str) -> str:
    flows = [flow for flow in statistics.message_flows if flow.kind == kind]
    with_fb = kind == "cnm"
    rows: _Rows = [("", ["flow", "frames", "rate", *(("Fb", "max") if with_fb else ())])]
    for flow in flows[:_FLOWS_SHOWN]:
        cells = [flow_text(kind, flow.flow_id), f"{flow.frames:,}"]
        cells.append(_rate(statistics, flow.frames))
        if with_fb:
            cells += [f"{flow.fb_mean:.1f}", str(flow.fb_maximum)]
        rows.append((f"{cpid_text(flow.cpid)} → {address(flow.destination)}", cells))
    return "\n".join([columns_of(rows), *_more(len(flows), _FLOWS_SHOWN, "flows")])


def probes(statistics: Statistics) -> Iterator[str]:
    """Yield what E²CM's probes measured."""
    found = statistics.probes
    if found is None:
        return
    rows = [("probes", f"{found.forward:,} forward, {found.replies:,} replies")]
    if found.latency_ns is not None:
        rows.append(("latency", _percentiles(found.latency_ns)))
    title = (
        f"{paint('E²CM probes', 'title')}; replies carry the destination’s clock less the source’s timestamp"
    )
    parts = [title, pairs(rows)]
    if found.flows:
        table: _Rows = [("", ["flow", "replies", "latency p50", "p99", "throughput"])]
        for flow in found.flows[:_FLOWS_SHOWN]:
            latency = flow.latency_ns
            times = format_time(latency.p50), format_time(latency.p99)
            cells = [flow_text("e2cm", flow.flow_id), f"{latency.count:,}", *times]
            cells.append(format_rate(flow.throughput_bps.mean))
            table.append((f"{address(flow.station)} → {address(flow.destination)}", cells))
        parts += [columns_of(table), *_more(len(found.flows), _FLOWS_SHOWN, "flows")]
    yield "\n".join(parts)


def _percentiles(times: Distribution) -> str:
    values = (
        ("least", times.minimum),
        ("mean", times.mean),
        ("p50", times.p50),
        ("p90", times.p90),
        ("p99", times.p99),
        ("most", times.maximum),
    )
    return ", ".join(f"{name} {format_time(value)}" for name, value in values)


def rates(statistics: Statistics) -> Iterator[str]:
    """Yield the rates that FECN and DBP advertise."""
    for kind, title in _CARRIERS.items():
        queues = [rate for rate in statistics.rates if rate.kind == kind]
        if not queues:
            continue
        rows: _Rows = [("", ["RLQ", "frames", "no limit", "mean", "least", "most"])]
        shown = queues[:_QUEUES_SHOWN]
        rows += [(address(queue.station), _queue(queue)) for queue in shown]
        curves = [over_time(*curve) for queue in shown if (curve := _curve(queue))]
        whose = "from" if kind == "rdtag" else "to"
        head = f"{paint(f'rates in {title}s', 'title')}, by the station they go {whose}"
        yield "\n".join([head, columns_of(rows), *_more(len(queues), _QUEUES_SHOWN, "queues"), *curves])


def _queue(queue: AdvertisedRate) -> list[str]:
    cells = [str(queue.rlq_id), f"{queue.frames:,}", f"{queue.unlimited:,}"]
    if queue.rate_bps is None:
        return [*cells, ABSENT, ABSENT, ABSENT]
    ends = queue.rate_bps.mean, queue.rate_bps.minimum, queue.rate_bps.maximum
    return [*cells, *map(format_rate, ends)]


def _curve(queue: AdvertisedRate) -> tuple[str, list[float], str] | None:
    """Return the mean rate over time, 0 where none was advertised; None where a curve says nothing."""
    counts = queue.limited_over_time
    if sum(count > 0 for count in counts) < 2:
        return None
    sums = queue.rate_sum_bps_over_time
    means = [total / count if count else 0.0 for total, count in zip(sums, counts, strict=True)]
    return f"{address(queue.station)} RLQ {queue.rlq_id}", means, format_rate(max(means))
