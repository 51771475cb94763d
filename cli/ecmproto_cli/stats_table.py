"""Statistics of a capture as text: the sections that have data, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from ecmproto.errors import escaped
from ecmproto.tables import bars, sparkline
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time
from ecmproto_cli.output import columns_of, pairs
from ecmproto_cli.terminal import paint

if TYPE_CHECKING:
    from ecmproto.stats import (
        AdvertisedRate,
        ClassPause,
        CongestionPoint,
        Distribution,
        KindCount,
        PauseInterface,
        PauseSender,
        PauseStorm,
        QueuePair,
        RoceTraffic,
        Statistics,
    )

ABSENT = "–"
OVER_TIME_COLUMNS = 56
_SENDERS_SHOWN = 8
_STORMS_SHOWN = 16
_POINTS_SHOWN = 12
_FLOWS_SHOWN = 10
_QUEUES_SHOWN = 12
_FB_STEP = 8

_Rows = list[tuple[str, Sequence[str]]]

_WIDTH = 100
_NAMES = 11
_BAR = 40
_INTERFACES_SHOWN = 16
_MALFORMED_SHOWN = 12
_WHOLE_FRAMES = 65535
"""A snap length from here on cuts nothing that a link carries."""
_CURVES = ("message", "flow control")
"""The groups of kinds that are shown over time."""


def stats_table(statistics: Statistics, path: str) -> str:
    """Return the statistics as text."""
    parts = [_head(statistics, path), _kinds(statistics)]
    if statistics.intervals.count > 1:
        parts.append(_curves(statistics))
    parts += [
        *pauses(statistics), *history(statistics), *storms(statistics), *pfc_frames(statistics),
        *roce(statistics),
        *feedback(statistics), *probes(statistics), *rates(statistics), _sizes(statistics),
        *_priorities(statistics), *_malformed(statistics), *_notes(statistics),
    ]  # fmt: skip
    return "\n\n".join(parts)


def _head(statistics: Statistics, path: str) -> str:
    rows = [*_totals(statistics), *_times(statistics), *_interfaces(statistics)]
    odd = (
        ("cut", statistics.cut_frames, "frames of which the capture has less than there was"),
        ("malformed", statistics.malformed_frames, "frames; see below"),
        ("untimed", statistics.untimed_frames, "frames without a time"),
        ("backwards", statistics.backwards_frames, "frames stamped before an earlier one"),
    )
    rows += [(name, f"{count:,}  ({meaning})") for name, count, meaning in odd if count]
    lost = zip(("paused", ""), lost_to_pause(statistics), strict=False)
    rows = [*((name, paint(text, "pause")) for name, text in lost), *rows]
    return f"{paint(escaped(path), 'title')}\n{pairs(rows, width=_NAMES)}"


def _totals(statistics: Statistics) -> Iterator[tuple[str, str]]:
    selected = ""
    if statistics.read_frames != statistics.frames:
        selected = f" of {statistics.read_frames:,}"
    captured = ""
    if statistics.captured_octets != statistics.octets:
        captured = f", {format_octets(statistics.captured_octets)} of them captured"
    yield "frames", f"{statistics.frames:,}{selected}, {format_octets(statistics.octets)}{captured}"
    frames_per_s = statistics.span.per_second(statistics.frames)
    bits_per_s = statistics.span.per_second(8 * statistics.octets)
    if frames_per_s is None or bits_per_s is None:
        return
    yield "mean rate", f"{per_second(frames_per_s)}, {format_rate(bits_per_s)}"
    peaks = [statistics.peak_per_second(values) or 0.0 for values in _over_time(statistics)]
    width = format_time(statistics.intervals.width_ns)
    yield "peak rate", f"{per_second(peaks[0])}, {format_rate(8 * peaks[1])} in {width}"


def _over_time(statistics: Statistics) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return statistics.frames_over_time, statistics.octets_over_time


def _times(statistics: Statistics) -> Iterator[tuple[str, str]]:
    span = statistics.span
    if span.first_ns is not None:
        yield "span", f"{format_time(span.duration_ns)} from {_date(span.first_ns)}"


def _date(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def _interfaces(statistics: Statistics) -> Iterator[tuple[str, str]]:
    used = [each for each in statistics.interfaces if each.frames]
    for place, each in enumerate(used[:_INTERFACES_SHOWN]):
        facts = [each.linktype_name]
        if each.speed_bps:
            facts.append(format_rate(each.speed_bps))
        if 0 < each.snaplen_octets < _WHOLE_FRAMES:
            facts.append(f"at most {each.snaplen_octets} octets of a frame")
        text = ", ".join(facts)
        if len(used) > 1 or each.name:
            name = interface_name(statistics, each.index)
            text = f"{name}: {text}, {each.frames:,} frames, {format_octets(each.octets)}"
        yield ("interfaces" if len(used) > 1 else "interface") if place == 0 else "", text
    if len(used) > _INTERFACES_SHOWN:
        yield "", f"and {len(used) - _INTERFACES_SHOWN} more"


def _kinds(statistics: Statistics) -> str:
    names = ["frames", "share", "octets", "frames/s", "rate", "peak rate"]
    rows: list[tuple[str, Sequence[str]]] = [("", names)]
    group = ""
    for each in statistics.kinds:
        if each.kind.group != group:
            group = each.kind.group
            rows.append((_GROUPS[group], [""] * len(names)))
        deeper = "    " if "." in each.kind.name else "  "
        rows.append((f"{deeper}{each.kind.title}", _kind(statistics, each)))
    title = paint("kinds of frames", "title")
    table = "\n".join(line.rstrip() for line in columns_of(rows).splitlines())
    return f"{title}; a frame counts with each that it is of\n{table}"


_GROUPS = {"message": "messages", "flow control": "flow control", "tag": "tags", "payload": "payloads"}


def _kind(statistics: Statistics, each: KindCount) -> list[str]:
    frames_per_s = statistics.span.per_second(each.frames)
    bits_per_s = statistics.span.per_second(8 * each.octets)
    peak = statistics.peak_per_second(each.octets_over_time)
    return [
        f"{each.frames:,}",
        share(each.frames / statistics.frames),
        format_octets(each.octets),
        per_second(frames_per_s) if frames_per_s is not None else ABSENT,
        format_rate(bits_per_s) if bits_per_s is not None else ABSENT,
        format_rate(8 * peak) if peak is not None and bits_per_s is not None else ABSENT,
    ]


def _curves(statistics: Statistics) -> str:
    width_ns = statistics.intervals.width_ns
    scale = NS_PER_S / width_ns
    curves = [
        ("all frames", [8 * value * scale for value in statistics.octets_over_time], format_rate),
        *(
            (each.kind.title, [value * scale for value in each.frames_over_time], per_second)
            for each in statistics.kinds
            if each.kind.group in _CURVES
        ),
    ]
    label = max(len(name) for name, _, _ in curves)
    lines = [over_time(name.ljust(label), values, show(max(values))) for name, values, show in curves]
    end = format_time(width_ns * statistics.intervals.count)
    columns = min(OVER_TIME_COLUMNS, statistics.intervals.count)
    lines.append(f"  {'':{label}}  0{end.rjust(columns - 1)}")
    title = (
        f"{paint('rates over time', 'title')}, intervals of {format_time(width_ns)}, full height at the right"
    )
    return "\n".join([title, *lines])


def _sizes(statistics: Statistics) -> str:
    sizes = statistics.sizes
    assert sizes.minimum is not None
    assert sizes.maximum is not None
    used = [place for place, bucket in enumerate(sizes.buckets) if bucket.frames]
    shown = sizes.buckets[used[0] : used[-1] + 1]
    counts = [
        (f"{each.low} and more" if each.high is None else f"{each.low}–{each.high}", each.frames)
        for each in shown
    ]
    least, mean, most = sizes.minimum, sizes.mean, sizes.maximum
    title = f"{paint('sizes in octets', 'title')}, {least} to {most}, mean {mean:.1f}"
    return f"{title}\n{bars(counts, width=_BAR)}"


def _priorities(statistics: Statistics) -> Iterator[str]:
    if statistics.priorities:
        counts = [(str(priority), count) for priority, count in statistics.priorities.items()]
        yield f"{paint('frames by VLAN priority', 'title')}\n{bars(counts, width=_BAR)}"


def _malformed(statistics: Statistics) -> Iterator[str]:
    if not statistics.malformed:
        return
    items = list(statistics.malformed.items())
    rows = [(f"{count:,}", what) for what, count in items[:_MALFORMED_SHOWN]]
    if len(items) > _MALFORMED_SHOWN:
        rest = sum(count for _, count in items[_MALFORMED_SHOWN:])
        rows.append((f"{rest:,}", f"in {len(items) - _MALFORMED_SHOWN} more ways"))
    width = max(len(count) for count, _ in rows)
    lines = [f"  {count.rjust(width)}  {what}" for count, what in rows]
    yield "\n".join([paint("malformed", "title"), *lines])


def _notes(statistics: Statistics) -> Iterator[str]:
    if statistics.notes:
        lines = [
            textwrap.fill(note, _WIDTH, initial_indent="  ", subsequent_indent="    ")
            for note in statistics.notes
        ]
        yield "\n".join([paint("notes", "title"), *lines])


def pauses(statistics: Statistics) -> Iterator[str]:
    """Yield the section on pauses: who stopped whom for how long."""
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


def history(statistics: Statistics) -> Iterator[str]:
    """Yield the history of pauses: by who sent them and class, as the other end of the link counts them."""
    if statistics.pauses is None:
        return
    parts = [f"{paint('history of pauses', 'title')}, by who sent them; times of day are UTC"]
    for sender in statistics.pauses.senders[:_SENDERS_SHOWN]:
        rows: _Rows = [("", ["transitions", "total µs", "latest at", "for µs", "ran out"])]
        rows += [(f"  {class_name(each)}", _history(each)) for each in sender.classes]
        parts += [_sender_title(statistics, sender.interface, sender.source), columns_of(rows)]
    parts += _more(len(statistics.pauses.senders), _SENDERS_SHOWN, "senders")
    yield "\n".join(parts)


def _history(each: ClassPause) -> list[str]:
    return [
        f"{each.transitions:,}",
        _microseconds(each.paused_ns),
        ABSENT if each.recent_ns is None else _clock(each.recent_ns),
        _microseconds(each.recent_paused_ns or 0),
        f"{each.expired:,}",
    ]


def _microseconds(duration_ns: int) -> str:
    return f"{duration_ns / 1000:,.3f}"


def _clock(time_ns: int) -> str:
    """Return a time of day to the microsecond."""
    return _date(time_ns)[11:26]


def _sender_title(statistics: Statistics, interface: int, source: bytes | None) -> str:
    where = f" on {interface_name(statistics, interface)}" if len(statistics.interfaces) > 1 else ""
    return f"  {address(source)}{where}"


def storms(statistics: Statistics) -> Iterator[str]:
    """Yield the storms: who stopped which class for nearly all of a detection time, and what was seen."""
    if statistics.pauses is None or not statistics.pauses.storms:
        return
    found = statistics.pauses
    detect, restore = format_time(found.detect_ns), format_time(found.restore_ns)
    parts = [f"{paint('storms', 'title')}: paused for 99 % of {detect}, restored after {restore} without"]
    shown = found.storms[:_STORMS_SHOWN]
    for interface, source in dict.fromkeys((storm.interface, storm.source) for storm in shown):
        rows: _Rows = [("", ["begun", "detected", "restored", "seen"])]
        for storm in shown:
            if (storm.interface, storm.source) == (interface, source):
                restored = ABSENT if storm.restored_ns is None else _clock(storm.restored_ns)
                seen = f"{storm.frames_left:,} frames left" if storm.seen == "traffic" else storm.seen
                times = _clock(storm.begun_ns), _clock(storm.detected_ns), restored
                rows.append((f"  {class_name(storm)}", [*times, seen]))
        parts += [_sender_title(statistics, interface, source), columns_of(rows)]
    parts += _more(len(found.storms) + found.more_storms, len(shown), "storms")
    yield "\n".join(parts)


def pfc_frames(statistics: Statistics) -> Iterator[str]:
    """Yield the section on PFC frames that are not valid."""
    from ecmproto.stats.statistics import PFC_FAULTS

    if statistics.pfc is None:
        return
    pfc = statistics.pfc
    title = f"{paint('PFC frames', 'title')}: {pfc.valid:,} of {pfc.frames:,} valid"
    if pfc.lossless is not None:
        title += f", lossless {', '.join(map(str, pfc.lossless)) or 'none'}"
    width = max((len(f"{each.frames:,}") for each in pfc.faults), default=0)
    lines = [
        f"  {f'{each.frames:,}'.rjust(width)}  {PFC_FAULTS[each.fault]}; first from {address(each.source)}"
        for each in pfc.faults
    ]
    yield "\n".join([title, *lines])


def roce(statistics: Statistics) -> Iterator[str]:
    """Yield the section on RoCE: marks and CNPs over time, and the queue pairs with most trouble."""
    found = statistics.roce
    if found is None:
        return
    title = f"{paint('RoCE', 'title')}, by queue pair and direction, most trouble first"
    lines = [title, pairs(list(_roce(statistics, found)), width=_NAMES)]
    names = ["frames", "rate", "CE", "CNPs", "delay", "missing", "again", "NAKs"]
    rows: _Rows = [("", names)]
    rows += [(_flow_name(each), _queue_pair(statistics, each)) for each in found.queue_pairs[:_FLOWS_SHOWN]]
    lines += [columns_of(rows), *_more(len(found.queue_pairs), _FLOWS_SHOWN, "queue pairs")]
    if statistics.intervals.count > 1 and found.cnps:
        both = zip(found.ce_over_time, found.frames_over_time, strict=True)
        marked = [ce / max(1, frames) for ce, frames in both]
        width_ns = statistics.intervals.width_ns
        cnps = [count * NS_PER_S / width_ns for count in found.cnps_over_time]
        lines.append(over_time("CE share", marked, share(max(marked))))
        lines.append(over_time("CNPs    ", cnps, per_second(max(cnps))))
    yield "\n".join(lines)


def _roce(statistics: Statistics, found: RoceTraffic) -> Iterator[tuple[str, str]]:
    ect, ce = (sum(values) for values in (found.ect_over_time, found.ce_over_time))
    timed = max(1, sum(found.frames_over_time))
    yield "frames", f"{found.frames:,}, {share(ect / timed)} ECT, {share(ce / timed)} CE"
    if found.cnps:
        unsure = sum(each.cnps for each in found.queue_pairs if not each.is_settled)
        sure = f", of {unsure:,} it is not known for which flow" if unsure else ""
        yield "CNPs", f"{found.cnps:,}, {_rate(statistics, found.cnps)}{sure}"
    if found.delay_ns is not None:
        values = (("p50", found.delay_ns.p50), ("p90", found.delay_ns.p90), ("p99", found.delay_ns.p99))
        told = ", ".join(f"{name} {format_time(value)}" for name, value in values)
        most = format_time(found.delay_ns.maximum)
        yield "delay", f"from the first CE to the CNP: {told}, most {most}"
    refused: dict[str, int] = {}
    for each in found.queue_pairs:
        for code, count in each.naks.items():
            refused[code] = refused.get(code, 0) + count
        if each.receiver_not_ready:
            refused[_NOT_READY] = refused.get(_NOT_READY, 0) + each.receiver_not_ready
    if refused:
        yield "NAKs", ", ".join(f"{code} {count:,}" for code, count in refused.items())


_NOT_READY = "receiver not ready"
_ADDRESS = 15


def _flow_name(each: QueuePair) -> str:
    whole = each.source, each.destination
    ends = (text if len(text) <= _ADDRESS else f"{text[:7]}…{text[-7:]}" for text in whole)
    return f"{' → '.join(ends)} QP {each.queue_pair:#x}"


def _queue_pair(statistics: Statistics, each: QueuePair) -> list[str]:
    rate = statistics.span.per_second(8 * each.octets)
    return [
        f"{each.frames:,}",
        ABSENT if rate is None else format_rate(rate),
        share(each.ce_frames / each.frames),
        f"{each.cnps_against:,}" if each.other_direction else "?",
        ABSENT if each.delay_ns is None else format_time(each.delay_ns.p50),
        f"{each.psns_missing:,}",
        f"{each.psn_repeats:,}",
        f"{each.refusals_against if each.refusals_against or each.is_settled else each.refusals:,}",
    ]


def feedback(statistics: Statistics) -> Iterator[str]:
    """Yield the section on feedback: the messages of each congestion point, and their targets."""
    from ecmproto.stats.statistics import kind_of

    for kind in dict.fromkeys(point.kind for point in statistics.congestion_points):
        title = kind_of(kind).title
        points = [point for point in statistics.congestion_points if point.kind == kind]
        yield f"{paint(f'{title}s by congestion point', 'title')}\n{_points(statistics, points)}"
        if points[0].fb_histogram:
            yield f"{paint(f'{title}s by quantized feedback', 'title')}\n{_histogram(points)}"
        yield f"{paint(f'{title}s by flow', 'title')}\n{_flows(statistics, kind)}"


def _points(statistics: Statistics, points: Sequence[CongestionPoint]) -> str:
    from ecmproto.formats.text import cpid_text

    names = ["frames", "rate"]
    for name in points[0].quantities:
        names += _heads(name)
    rows: _Rows = [("", names)]
    for point in points[:_POINTS_SHOWN]:
        cells = [f"{point.frames:,}", _rate(statistics, point.frames)]
        for name, quantity in point.quantities.items():
            cells += _quantity(name, quantity)
        rows.append((cpid_text(point.cpid), cells))
    lines = [columns_of(rows), *_types(points), *_more(len(points), _POINTS_SHOWN, "congestion points")]
    return "\n".join(lines)


_HEADS = {
    "qntz_fb": ("Fb", "max"),
    "q_offset_octets": ("Qoffset", "least"),
    "q_delta_octets": ("Qdelta", "most"),
    "q_off_octets": ("Qoff", "most"),
    "e_octets": ("e", "least"),
}
"""What the mean and the end that tells of congestion are called."""


def _heads(name: str) -> tuple[str, str]:
    return _HEADS.get(name, (name.removesuffix("_octets"), "most"))


def _quantity(name: str, quantity: Distribution) -> tuple[str, str]:
    end = quantity.minimum if _heads(name)[1] == "least" else quantity.maximum
    if not name.endswith("_octets"):
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
    """Return the histogram of quantized feedback: 0 by itself, then in the steps that shorten sampling."""
    whole = [sum(values) for values in zip(*(point.fb_histogram for point in points), strict=True)]
    counts = [("0", whole[0])]
    for first in range(0, len(whole), _FB_STEP):
        low, last = max(1, first), first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(whole[low : last + 1])))
    return bars(counts, width=_BAR)


def _flows(statistics: Statistics, kind: str) -> str:
    from ecmproto.formats.text import cpid_text

    flows = [flow for flow in statistics.message_flows if flow.kind == kind]
    with_fb = any(flow.fb_mean is not None for flow in flows)
    rows: _Rows = [("", ["flow", "frames", "rate", *(("Fb", "max") if with_fb else ())])]
    for flow in flows[:_FLOWS_SHOWN]:
        cells = [flow_text(kind, flow.flow_id), f"{flow.frames:,}"]
        cells.append(_rate(statistics, flow.frames))
        if with_fb:
            cells += [f"{flow.fb_mean:.1f}", str(flow.fb_maximum)]
        rows.append((f"{cpid_text(flow.cpid)} → {address(flow.destination)}", cells))
    return "\n".join([columns_of(rows), *_more(len(flows), _FLOWS_SHOWN, "flows")])


def probes(statistics: Statistics) -> Iterator[str]:
    """Yield the section on E²CM's probes: their counts, latency and measurements."""
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
    from ecmproto.stats.statistics import kind_of

    for kind in dict.fromkeys(rate.kind for rate in statistics.rates):
        queues = [rate for rate in statistics.rates if rate.kind == kind]
        rows: _Rows = [("", ["RLQ", "frames", "no limit", "mean", "least", "most"])]
        shown = queues[:_QUEUES_SHOWN]
        rows += [(address(queue.station), _queue(queue)) for queue in shown]
        curves = [over_time(*curve) for queue in shown if (curve := _curve(queue))]
        carrier = kind_of(kind)
        whose = "from" if carrier.group == "tag" else "to"
        head = f"{paint(f'rates in {carrier.title}s', 'title')}, by the station they go {whose}"
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


def per_second(rate: float) -> str:
    """Return a rate of frames: ``783.2 k/s``."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= factor:
            return f"{rate / factor:.4g} {prefix}/s"
    return f"{rate:.4g} /s"


def share(part: float | None) -> str:
    """Return a part of 1 in per cent."""
    if part is None:
        return ABSENT
    percent = 100 * part
    return f"{percent:.1f} %" if percent >= 0.1 or percent == 0 else f"{percent:.2g} %"


def address(octets: bytes | None) -> str:
    """Return a MAC address; a word for none."""
    from ecmproto.formats.text import mac_text

    return "(no address)" if octets is None else mac_text(octets)


def over_time(label: str, values: Sequence[float], full: str, *, top: float | None = None) -> str:
    """Return a line of blocks between its label and what its full height stands for."""
    line = sparkline(values, top=max(values) if top is None else top, width=OVER_TIME_COLUMNS)
    return f"  {label}  {paint(line, 'congestion')}  {full}"


def paused_line(paused_ns: Sequence[int], width_ns: int) -> str:
    """Return the share of the time that was paused as blocks, over intervals of ``width_ns``."""
    columns = min(OVER_TIME_COLUMNS // 2, len(paused_ns))
    bounds = [place * len(paused_ns) // columns for place in range(columns + 1)]
    shares = [sum(paused_ns[low:high]) / (high - low) for low, high in pairwise(bounds)]
    return paint(sparkline(shares, top=width_ns, width=columns), "pause")


def flow_text(kind: str, flow_id: int | None) -> str:
    """Return a flow identifier as its format writes it: E²CM's, a hash, in hex."""
    from ecmproto.formats.registry import BY_PREFIX, all_fields

    feedback = BY_PREFIX[kind].as_feedback
    if flow_id is None or feedback is None:
        return ABSENT
    hashed = any(field.name == feedback.flow_id and field.meta.base == "hex" for _, field in all_fields())
    return f"{flow_id:#06x}" if hashed else str(flow_id)


def class_name(each: ClassPause | PauseStorm) -> str:
    """Return the traffic that pauses of a class stop."""
    return "the whole link" if each.priority is None else f"priority {each.priority}"


def interface_name(statistics: Statistics, index: int) -> str:
    """Return the name of an interface in characters that a terminal can show."""
    from ecmproto.errors import printable

    return printable(statistics.interface_name(index))[:32]


def lost_to_pause(statistics: Statistics) -> tuple[str, ...]:
    """Return how long the capture's worst sender of pauses stopped its link partner, and who it was."""
    if statistics.pauses is None or not statistics.pauses.senders[0].paused_ns:
        return ()
    sender = statistics.pauses.senders[0]
    worst = max(sender.classes, key=lambda each: each.paused_ns)
    where = f" on {interface_name(statistics, sender.interface)}" if len(statistics.interfaces) > 1 else ""
    text = f"{share(statistics.share(sender.paused_ns))} of the time, {format_time(sender.paused_ns)}"
    whom = class_name(worst)
    if worst.paused_ns != sender.paused_ns:
        whom = f"{len(sender.classes)} classes, most of all {whom}"
    return text, f"{address(sender.source)}{where} stopped {whom}"
