"""The statistics of a capture as text.

Sections without data are omitted. Lines have at most 100 columns.
"""

from __future__ import annotations

import functools
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from ecmproto.errors import counted, escaped, printable
from ecmproto.tables import bars, sparkline
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_share, format_time, per_second
from ecmproto_cli.output import columns_of, pairs
from ecmproto_cli.terminal import paint, prose_width, terminal_width

if TYPE_CHECKING:
    from ecmproto.control.live.monitor import QueuePairChange
    from ecmproto.frames.stats import (
        AdvertisedRate,
        CongestionPoint,
        Neighbour,
        PauseInterface,
        PauseSender,
        PauseStorm,
        QueuePair,
        RoceTraffic,
        Statistics,
    )
    from ecmproto.frames.stats.cells import Columns

_WHOLE_WIDTH = 100
"""Width in columns of tables that are not printed on a terminal."""
_SENDERS_SHOWN = 8
_STORMS_SHOWN = 16
_DISCARDS_SHOWN = 12
_ESTIMATES_SHOWN = 24
_PORTS_SHOWN = 12
_POINTS_SHOWN = 12
_FLOWS_SHOWN = 10
_QUEUES_SHOWN = 12
_FB_STEP = 8

_Rows = list[tuple[str, Sequence[str]]]

_NAMES = 11
_BAR = 40
_INTERFACES_SHOWN = 16
_MALFORMED_SHOWN = 12
_WHOLE_FRAMES = 65535
"""Minimum snap length in octets at which no frame is truncated."""
_CURVES = ("message", "flow control")
"""Groups of frames whose rates are drawn over time."""


def _width() -> int:
    return terminal_width() or _WHOLE_WIDTH


def over_time_columns() -> int:
    """Return the width of a rate curve in columns, without the label and the maximum."""
    return max(8, min(56, _width() - 36))


def stats_table(statistics: Statistics, path: str) -> str:
    """Return the statistics of a capture as text."""
    sections = (
        _sample, _frame_types, _curves, _pauses, _history, _storms, _pfc_frames, _discards, _ports,
        _neighbours, _roce, _feedback, _probes, _rates, _sizes, _priorities, _malformed, _notes,
    )  # fmt: skip
    parts = [_head(statistics, path), *(part for section in sections for part in section(statistics))]
    return "\n\n".join(parts)


def _cells(row: Any, columns: Columns, whole: Any) -> list[str]:
    """Return the cells of a row; `ecmproto.frames.stats.cells.cells` is imported on the first call."""
    from ecmproto.frames.stats import cells as made

    return made.cells(row, columns, whole)


def table(rows: Sequence[tuple[str, Any]], columns: Columns, whole: Any) -> str:
    """Return a table with a row for each named item, and with the headings of ``columns``."""
    named = [(name, _cells(row, columns, whole)) for name, row in rows]
    return columns_of([("", list(columns)), *named])


_Each = TypeVar("_Each")


def _by(rows: Iterable[_Each], *names: str) -> list[list[_Each]]:
    """Return rows grouped by the named attributes, in order of first appearance."""
    groups: dict[Any, list[_Each]] = {}
    for row in rows:
        groups.setdefault(attrgetter(*names)(row), []).append(row)
    return list(groups.values())


def _first(
    rows: Sequence[tuple[str, Any]], columns: Columns, statistics: Statistics, limit: int, noun: str
) -> list[str]:
    """Return a table of the first rows, and a line on the number of further rows."""
    return [table(rows[:limit], columns, statistics), *_more(len(rows), limit, noun)]


def _titled(title: str, *lines: str, rest: str = "") -> str:
    return "\n".join([f"{paint(title, 'title')}{rest}", *lines])


def _head(statistics: Statistics, path: str) -> str:
    rows = [*_totals(statistics), *_times(statistics), *_interfaces(statistics)]
    odd = (
        ("cut", statistics.cut_frames, "truncated frames"),
        ("malformed", statistics.malformed_frames, "frames; see below"),
        ("untimed", statistics.untimed_frames, "frames without a time"),
        ("backwards", statistics.backwards_frames, "frames with a decreasing time"),
    )
    rows += [(name, f"{count:,}  ({meaning})") for name, count, meaning in odd if count]
    lost = zip(("paused", ""), _lost_to_pause(statistics), strict=False)
    rows = [*((name, paint(text, "pause")) for name, text in lost), *rows]
    return _titled(escaped(path), pairs(rows, width=_NAMES))


def _totals(statistics: Statistics) -> Iterator[tuple[str, str]]:
    selected = captured = ""
    if statistics.read_frames != statistics.frames:
        selected = f" of {statistics.read_frames:,}"
    if statistics.captured_octets != statistics.octets:
        captured = f", {format_octets(statistics.captured_octets)} of them captured"
    yield "frames", f"{statistics.frames:,}{selected}, {format_octets(statistics.octets)}{captured}"
    if statistics.span.duration_ns:
        yield "mean rate", ", ".join(_cells(statistics, _MEAN, statistics))
        width = format_time(statistics.intervals.width_ns)
        yield "peak rate", f"{', '.join(_cells(statistics, _PEAK, statistics))} in {width}"


_MEAN: Columns = {"frames": "frames_per_s", "octets": "bits_per_s"}
_PEAK: Columns = {"frames": "peak_frames_per_s", "octets": "peak_bits_per_s"}


def _times(statistics: Statistics) -> Iterator[tuple[str, str]]:
    span = statistics.span
    if span.first_ns is not None:
        yield "span", f"{format_time(span.duration_ns)} from {_date(span.first_ns)}"


def _date(time_ns: int) -> str:
    seconds, rest = divmod(time_ns, NS_PER_S)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def _interfaces(statistics: Statistics) -> Iterator[tuple[str, str]]:
    used = [each for each in statistics.interfaces if each.frames]
    for number, each in enumerate(used[:_INTERFACES_SHOWN]):
        facts = [each.linktype_name]
        if each.speed_bps:
            facts.append(format_rate(each.speed_bps))
        if 0 < each.snaplen_octets < _WHOLE_FRAMES:
            facts.append(f"at most {each.snaplen_octets} octets per frame")
        text = ", ".join(facts)
        if len(used) > 1 or each.name:
            name = _interface_name(statistics, each.index)
            text = f"{name}: {text}, {each.frames:,} frames, {format_octets(each.octets)}"
        yield ("interfaces" if len(used) > 1 else "interface") if number == 0 else "", text
    if len(used) > _INTERFACES_SHOWN:
        yield "", f"and {len(used) - _INTERFACES_SHOWN} more"


def _sample(statistics: Statistics) -> Iterator[str]:
    sample = statistics.sample
    if sample is None or not sample.estimates:
        return
    rows: _Rows = [("", ["estimate"] if sample.every else ["estimate", "from", "to"])]
    shown = sample.estimates[:_ESTIMATES_SHOWN]
    for each in shown:
        name = f"  {each.figure}{f' of {each.subject}' if each.subject else ''}"
        figures = (each.value, each.low, each.high)
        rows.append((name, [_in_unit(value, each.unit) for value in figures if value is not None]))
    one_in = ", ".join(f"{rate:,}" for rate in sample.one_in) or "an unknown number of"
    more = _more(len(sample.estimates), len(shown), "estimates")
    rest = f", by a sample of one in {one_in} frames: 95 % intervals"
    if sample.every:
        rest = f", by every {one_in}th: no intervals, since the sample may be in step"
    yield _titled("all frames", columns_of(rows), *more, rest=rest)


_COUNT_COLUMNS: Columns = {
    "frames": "frames", "share": "frames_share", "octets": "octets", "frames/s": "frames_per_s",
    "rate": "bits_per_s",
    "peak rate": lambda each, whole: (
        format_rate(whole.peak_bits_per_s(each)) if whole.span.duration_ns else None
    ),
}  # fmt: skip
_GROUPS = {"message": "messages", "flow control": "flow control", "tag": "tags", "payload": "payloads"}


def _frame_types(statistics: Statistics) -> Iterator[str]:
    rows: _Rows = [("", list(_COUNT_COLUMNS))]
    group = ""
    for each in statistics.kinds:
        if each.kind.group != group:
            group = each.kind.group
            rows.append((_GROUPS[group], [""] * len(_COUNT_COLUMNS)))
        deeper = "    " if "." in each.kind.name else "  "
        rows.append((f"{deeper}{each.kind.title}", _cells(each, _COUNT_COLUMNS, statistics)))
    lines = (line.rstrip() for line in columns_of(rows).splitlines())
    yield _titled("types of frames", *lines, rest="; a frame can have several types")


def _curves(statistics: Statistics) -> Iterator[str]:
    width_ns, count = statistics.intervals.width_ns, statistics.intervals.count
    if count < 2:
        return
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
    lines = [_over_time(name.ljust(label), values, show(max(values))) for name, values, show in curves]
    end = format_time(width_ns * count).rjust(min(over_time_columns(), count) - 1)
    rest = f", intervals of {format_time(width_ns)}, full scale at the right"
    yield _titled("rates over time", *lines, f"  {'':{label}}  0{end}", rest=rest)


def _sizes(statistics: Statistics) -> Iterator[str]:
    sizes = statistics.sizes
    used = [index for index, bucket in enumerate(sizes.buckets) if bucket.frames]
    counts = [
        (f"{each.low} and more" if each.high is None else f"{each.low}–{each.high}", each.frames)
        for each in sizes.buckets[used[0] : used[-1] + 1]
    ]
    rest = f", {sizes.minimum} to {sizes.maximum}, mean {sizes.mean:.1f}"
    yield _titled("sizes in octets", bars(counts, width=min(_BAR, _width() - 24)), rest=rest)


def _priorities(statistics: Statistics) -> Iterator[str]:
    if statistics.priorities:
        counts = [(str(priority), count) for priority, count in statistics.priorities.items()]
        yield _titled("frames by VLAN priority", bars(counts, width=min(_BAR, _width() - 24)))


def _malformed(statistics: Statistics) -> Iterator[str]:
    items = [(f"{count:,}", what) for what, count in statistics.malformed.items()]
    rows, rest = items[:_MALFORMED_SHOWN], [*statistics.malformed.values()][_MALFORMED_SHOWN:]
    if rest:
        rows.append((f"{sum(rest):,}", f"in {len(rest)} more ways"))
    if rows:
        yield _titled("malformed", *_counted(rows))


def _counted(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return a line for each count and its label."""
    width = max((len(count) for count, _ in rows), default=0)
    return [f"  {count.rjust(width)}  {what}" for count, what in rows]


def _notes(statistics: Statistics) -> Iterator[str]:
    if statistics.notes:
        yield _titled("notes", *(
            textwrap.fill(note, prose_width(), initial_indent="  ", subsequent_indent="    ")
            for note in statistics.notes
        ))  # fmt: skip


_PAUSED: Columns = {"share": "paused_share", "time": "paused_ns"}
_CLASSES: Columns = {**_PAUSED, "pauses": "pauses", "resumes": "resumes"}


def _pauses(statistics: Statistics) -> Iterator[str]:
    if statistics.pauses is None:
        return
    senders = statistics.pauses.senders
    parts = []
    for sender in senders[:_SENDERS_SHOWN]:
        stated = "" if sender.speed_is_stated else " (assumed)"
        facts = f"{sender.frames:,} frames, at {format_rate(sender.speed_bps)}{stated}"
        parts += [f"{_sender(statistics, sender)}, {facts}", _classes(statistics, sender)]
    parts += _more(len(senders), _SENDERS_SHOWN, "senders")
    for port in statistics.pauses.interfaces:
        if sum(sender.interface == port.interface for sender in senders) > 1:
            name = _interface_name(statistics, port.interface)
            parts += [f"  all senders of {name} together", _classes(statistics, port)]
    yield _titled("time paused by PAUSE and PFC", *parts, rest=", by sender")


def _classes(statistics: Statistics, whole: PauseSender | PauseInterface) -> str:
    rows: _Rows = [("", list(_CLASSES))]
    rows += [(f"  {each.whom}", _cells(each, _CLASSES, statistics)) for each in whole.classes]
    if len(whole.classes) > 1:
        rows.append(("  any of them", [*_cells(whole, _PAUSED, statistics), "", ""]))
    lines = columns_of(rows).splitlines()
    for number, each in enumerate(whole.classes, 1):
        curve = each.paused_ns_over_time
        if len(curve) > 1 and any(curve):
            left = _width() - len(lines[number]) - 2
            lines[number] += f"  {_paused_line(curve, statistics.intervals.width_ns, left)}"
    return "\n".join(line.rstrip() for line in lines)


_HISTORY: Columns = {
    "transitions": "transitions",
    "total µs": lambda each, _: _microseconds(each.paused_ns),
    "latest at": lambda each, _: _clock(each.recent_ns),
    "for µs": lambda each, _: _microseconds(each.recent_paused_ns or 0),
    "ran out": "expired",
}


def _history(statistics: Statistics) -> Iterator[str]:
    """Yield the history of pauses by sender and class, as counted at the receiving end of the link."""
    if statistics.pauses is None:
        return
    senders = statistics.pauses.senders
    parts = []
    for sender in senders[:_SENDERS_SHOWN]:
        rows = [(f"  {each.whom}", each) for each in sender.classes]
        parts += [_sender(statistics, sender), table(rows, _HISTORY, statistics)]
    parts += _more(len(senders), _SENDERS_SHOWN, "senders")
    yield _titled("history of pauses", *parts, rest=", by sender; times of day are UTC")


def _microseconds(duration_ns: int) -> str:
    return f"{duration_ns / 1000:,.3f}"


def _clock(time_ns: int | None) -> str | None:
    """Return the time of day with a resolution of a microsecond."""
    return None if time_ns is None else _date(time_ns)[11:26]


def _sender(statistics: Statistics, sender: PauseSender | PauseStorm) -> str:
    several = len(statistics.interfaces) > 1
    where = f" on {_interface_name(statistics, sender.interface)}" if several else ""
    return f"  {address(sender.source)}{where}"


_STORMS: Columns = {
    "begun": lambda each, _: _clock(each.begun_ns),
    "detected": lambda each, _: _clock(each.detected_ns),
    "restored": lambda each, _: _clock(each.restored_ns),
    "seen": lambda each, _: f"{each.frames_left:,} frames left" if each.seen == "traffic" else each.seen,
}


def _storms(statistics: Statistics) -> Iterator[str]:
    pauses = statistics.pauses
    if pauses is None or not pauses.storms:
        return
    shown = pauses.storms[:_STORMS_SHOWN]
    parts = []
    for of_sender in _by(shown, "interface", "source"):
        rows = [(f"  {storm.whom}", storm) for storm in of_sender]
        parts += [_sender(statistics, of_sender[0]), table(rows, _STORMS, statistics)]
    parts += _more(len(pauses.storms) + pauses.more_storms, len(shown), "storms")
    detect, restore = format_time(pauses.detect_ns), format_time(pauses.restore_ns)
    yield _titled("storms", *parts, rest=f": paused for 99 % of {detect}, restored after {restore} without")


def _pfc_frames(statistics: Statistics) -> Iterator[str]:
    pfc = statistics.pfc
    if pfc is None:
        return
    rest = f": {pfc.valid:,} of {pfc.frames:,} valid"
    if pfc.lossless is not None:
        rest += f", lossless {', '.join(map(str, pfc.lossless)) or 'none'}"
    rows = [(f"{each.frames:,}", f"{each.meaning}; first from {address(each.source)}") for each in pfc.faults]
    yield _titled("PFC frames", *_counted(rows), rest=rest)


_NEIGHBOURS_SHOWN = 16
_FACT = 14


def _neighbours(statistics: Statistics) -> Iterator[str]:
    neighbours = [each for each in statistics.neighbours if each.dialects or each.cnpvs is not None]
    if not neighbours:
        return
    shown = neighbours[:_NEIGHBOURS_SHOWN]
    parts = [line for each in shown for line in (_neighbour_name(statistics, each), _facts(each))]
    yield _titled(
        "neighbours", *parts, *_more(len(neighbours), len(shown), "neighbours"), rest=", by their latest LLDP"
    )


def _neighbour_name(statistics: Statistics, each: Neighbour) -> str:
    several = len(statistics.interfaces) > 1
    where = f" on {_interface_name(statistics, each.interface)}" if several else ""
    names = " of ".join(escaped(name) for name in (each.port, each.system) if name)
    return f"  {address(each.source)}{where}{f', port {names}' if names else ''}"


def _facts(each: Neighbour) -> str:
    facts = [
        ("    DCBX", each.dialects_text),
        ("    PFC", each.pfc_text),
        ("    ETS", each.ets_text),
        ("    CNPV", each.cnpvs_text),
        *((f"    {'' if at else 'applications'}", one.text) for at, one in enumerate(each.applications)),
    ]
    return pairs([(name, text) for name, text in facts if text is not None], width=_FACT)


_DISCARDS: Columns = {"frames": "frames", "in": "input", "out": "output", "agent": "agent"}


def _discards(statistics: Statistics) -> Iterator[str]:
    sflow = statistics.sflow
    if sflow is None or not sflow.discards:
        return
    rows = [(f"  {each.reason}", each) for each in sflow.discards]
    lines = _first(rows, _DISCARDS, statistics, _DISCARDS_SHOWN, "reasons and ports")
    yield _titled("discarded packets", *lines, rest=", as reported by sFlow")


_PORTS: Columns = {
    "reports": "reports", "in": "in_octets", "discards": "in_discards", "errors": "in_errors",
    "out": "out_octets", "discards ": "out_discards", "errors ": "out_errors",
}  # fmt: skip


def _ports(statistics: Statistics) -> Iterator[str]:
    sflow = statistics.sflow
    if sflow is None or not sflow.ports:
        return
    rows = [(f"  {each.agent} port {each.port}", each) for each in sflow.ports]
    rest = ", as reported by sFlow: from the first report to the last"
    yield _titled("counters of ports", *_first(rows, _PORTS, statistics, _PORTS_SHOWN, "ports"), rest=rest)


def _refusals(each: QueuePair, whole: object) -> int:
    return each.refusals_against if each.refusals_against or each.is_settled else each.refusals


_QUEUE_PAIRS: Columns = {
    "frames": "frames", "rate": "bits_per_s", "CE": "ce_share",
    "CNPs": lambda each, _: each.cnps_against if each.other_direction else "?",
    "delay": "delay_ns.p50", "missing": "psns_missing", "repeated": "psn_repeats", "NAKs": _refusals,
}  # fmt: skip


def _roce(statistics: Statistics) -> Iterator[str]:
    """Yield the section on RoCE: ECN marks and CNPs over time, and the queue pairs with the most events."""
    roce = statistics.roce
    if roce is None:
        return
    rows = [(flow_name(each), each) for each in roce.queue_pairs]
    lines = [pairs(list(_roce_facts(statistics, roce)), width=_NAMES)]
    lines += _first(rows, _QUEUE_PAIRS, statistics, _FLOWS_SHOWN, "queue pairs")
    if statistics.intervals.count > 1 and roce.cnps:
        both = zip(roce.ce_over_time, roce.frames_over_time, strict=True)
        marked = [ce / max(1, frames) for ce, frames in both]
        width_ns = statistics.intervals.width_ns
        cnps = [count * NS_PER_S / width_ns for count in roce.cnps_over_time]
        lines.append(_over_time("CE share", marked, format_share(max(marked))))
        lines.append(_over_time("CNPs    ", cnps, per_second(max(cnps))))
    yield _titled("RoCE", *lines, rest=", by queue pair and direction, worst first")


def _roce_facts(statistics: Statistics, roce: RoceTraffic) -> Iterator[tuple[str, str]]:
    ect, ce = (sum(values) for values in (roce.ect_over_time, roce.ce_over_time))
    timed = max(1, sum(roce.frames_over_time))
    total = f"{roce.frames:,}{' with CNPs' if roce.cnps else ''}"
    yield "frames", f"{total}, {format_share(ect / timed)} ECT, {format_share(ce / timed)} CE"
    if roce.cnps:
        unsure = sum(each.cnps for each in roce.queue_pairs if not each.is_settled)
        sure = f", {unsure:,} for an unknown flow" if unsure else ""
        (rate,) = _cells(roce, {"": "cnps_per_s"}, statistics)
        yield "CNPs", f"{roce.cnps:,}, {rate}{sure}"
    if roce.delay_ns is not None:
        yield "delay", f"from the first CE to the CNP: {roce.delay_ns.as_times('p50 p90 p99 max')}"
    refused: Counter[str] = Counter()
    for each in roce.queue_pairs:
        refused += Counter({**each.naks, "receiver not ready": each.receiver_not_ready})
    if refused:
        yield "NAKs", _listed(refused)
    again = Counter(each.retransmission for each in roce.queue_pairs if each.retransmission)
    facts = [f"{counted(count, 'flow')} by {how}" for how, count in sorted(again.items())]
    unasked = sum(each.unasked_repeats or 0 for each in roce.queue_pairs)
    facts += [f"{unasked:,} times without a NAK"] if unasked else []
    if facts:
        yield "sent again", ", ".join(facts)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


_ADDRESS = 15


def flow_name(each: QueuePair | QueuePairChange) -> str:
    """Return a text with the shortened addresses and the queue pair number."""
    whole = each.source, each.destination
    ends = (text if len(text) <= _ADDRESS else f"{text[:7]}…{text[-7:]}" for text in whole)
    return f"{' → '.join(ends)} QP {each.queue_pair:#x}"


_FRAMES: Columns = {"frames": "frames", "rate": "frames_per_s"}
_FB: Columns = {"Fb": "fb_mean", "max": "fb_maximum"}


def _feedback(statistics: Statistics) -> Iterator[str]:
    """Yield the section on feedback messages: the messages of each congestion point, and their receivers."""
    from ecmproto.frames.stats.statistics import kind_of
    from ecmproto.wire.formats.text import cpid_text

    for points in _by(statistics.congestion_points, "kind"):
        kind = points[0].kind
        title = kind_of(kind).title
        yield _titled(f"{title}s by congestion point", *_points(statistics, points))
        if points[0].fb_histogram:
            yield _titled(f"{title}s by quantized feedback", _histogram(points))
        flows = [flow for flow in statistics.message_flows if flow.kind == kind]
        with_fb = any(flow.fb_mean is not None for flow in flows)
        columns = {"flow": _flow_id, **_FRAMES, **(_FB if with_fb else {})}
        rows = [(f"{cpid_text(flow.cpid)} → {address(flow.destination)}", flow) for flow in flows]
        yield _titled(f"{title}s by flow", *_first(rows, columns, statistics, _FLOWS_SHOWN, "flows"))


def _points(statistics: Statistics, points: Sequence[CongestionPoint]) -> list[str]:
    from ecmproto.wire.formats.text import cpid_text

    heads, names = list(_FRAMES), []
    for name in points[0].quantities:
        mean, end = _HEADS.get(name, (name.removesuffix("_octets"), "max"))
        heads += [mean, end]
        names.append((name, "minimum" if end == "min" else "maximum"))
    rows: _Rows = [("", heads)]
    for point in points[:_POINTS_SHOWN]:
        texts = _cells(point, _FRAMES, statistics)
        for name, end in names:
            values = point.quantities[name].mean, getattr(point.quantities[name], end)
            octets = name.endswith("_octets")
            texts += map(format_octets, values) if octets else (f"{values[0]:.1f}", str(values[1]))
        rows.append((cpid_text(point.cpid), texts))
    counts: Counter[str] = Counter()
    for point in points:
        counts.update(point.types)
    types = [f"  by type: {_listed(counts)}"] if counts else []
    return [columns_of(rows), *types, *_more(len(points), _POINTS_SHOWN, "congestion points")]


_HEADS = {
    "qntz_fb": ("Fb", "max"),
    "q_offset_octets": ("Qoffset", "min"),
    "q_delta_octets": ("Qdelta", "max"),
    "q_off_octets": ("Qoff", "max"),
    "e_octets": ("e", "min"),
}
"""Column headings for the mean of each field, and for the extreme value that indicates congestion."""


def _more(count: int, shown: int, noun: str) -> list[str]:
    return [f"  and {count - shown:,} more {noun}"] if count > shown else []


def _histogram(points: Sequence[CongestionPoint]) -> str:
    """Return a histogram of quantized feedback values.

    The value 0 has its own bar. Each other bar covers a step at which the sampling interval changes.
    """
    whole = [sum(values) for values in zip(*(point.fb_histogram for point in points), strict=True)]
    counts = [("0", whole[0])]
    for first in range(0, len(whole), _FB_STEP):
        low, last = max(1, first), first + _FB_STEP - 1
        counts.append((f"{low}–{last}", sum(whole[low : last + 1])))
    return bars(counts, width=min(_BAR, _width() - 24))


def _flow_id(each: Any, whole: object) -> str | None:
    """Return a flow identifier as text: hash values in hexadecimal, other identifiers in decimal."""
    if each.flow_id is None:
        return None
    return f"{each.flow_id:#06x}" if _has_hash(getattr(each, "kind", "e2cm")) else str(each.flow_id)


@functools.cache
def _has_hash(kind: str) -> bool:
    """Return whether the flow identifiers of a feedback format are hash values."""
    from ecmproto.wire.formats.registry import BY_PREFIX, all_fields

    feedback = BY_PREFIX[kind].as_feedback
    name = feedback.flow_id if feedback else ""
    return any(field.name == name and field.meta.base == "hex" for _, field in all_fields())


_PROBED: Columns = {
    "flow": _flow_id, "replies": "latency_ns.count", "latency p50": "latency_ns.p50",
    "p99": "latency_ns.p99", "throughput": "throughput_bps.mean",
}  # fmt: skip


def _probes(statistics: Statistics) -> Iterator[str]:
    probes = statistics.probes
    if probes is None:
        return
    facts = [("probes", f"{probes.forward:,} forward, {probes.replies:,} replies")]
    if probes.latency_ns is not None:
        facts.append(("latency", probes.latency_ns.as_times("min mean p50 p90 p99 max")))
    parts = [pairs(facts)]
    if probes.flows:
        rows = [(f"{address(flow.station)} → {address(flow.destination)}", flow) for flow in probes.flows]
        parts += _first(rows, _PROBED, statistics, _FLOWS_SHOWN, "flows")
    rest = "; replies contain the destination’s clock minus the source’s time stamp"
    yield _titled("E²CM probes", *parts, rest=rest)


_QUEUES: Columns = {
    "RLQ": lambda each, _: str(each.rlq_id), "frames": "frames", "no limit": "unlimited",
    "mean": "rate_bps.mean", "min": "rate_bps.minimum", "max": "rate_bps.maximum",
}  # fmt: skip


def _rates(statistics: Statistics) -> Iterator[str]:
    from ecmproto.frames.stats.statistics import kind_of

    for queues in _by(statistics.rates, "kind"):
        rows = [(address(queue.station), queue) for queue in queues]
        curves = [_over_time(*curve) for queue in queues[:_QUEUES_SHOWN] if (curve := _curve(queue))]
        carrier = kind_of(queues[0].kind)
        rest = f", by the station they go {'from' if carrier.group == 'tag' else 'to'}"
        lines = _first(rows, _QUEUES, statistics, _QUEUES_SHOWN, "queues")
        yield _titled(f"rates in {carrier.title}s", *lines, *curves, rest=rest)


def _curve(queue: AdvertisedRate) -> tuple[str, list[float], str] | None:
    """Return the label, the mean rates over time and the maximum rate as text.

    Intervals without an advertised rate count as 0. Returns None if fewer than two intervals have a rate.
    """
    if sum(count > 0 for count in queue.limited_over_time) < 2:
        return None
    means = [mean or 0.0 for mean in queue.rate_mean_bps_over_time]
    return f"{address(queue.station)} RLQ {queue.rlq_id}", means, format_rate(max(means))


def _in_unit(value: float, unit: str) -> str:
    return {"share": format_share, "per_s": per_second, "bits_per_s": format_rate}[unit](value)


def address(octets: bytes | None) -> str:
    """Return a MAC address as text, or ``(no address)`` for None."""
    from ecmproto.wire.formats.text import mac_text

    return "(no address)" if octets is None else mac_text(octets)


def _over_time(label: str, values: Sequence[float], full: str) -> str:
    """Return a line with a label, a curve of blocks and the text for the maximum."""
    line = sparkline(values, top=max(values), width=over_time_columns())
    return f"  {label}  {paint(line, 'congestion')}  {full}"


def _paused_line(paused_ns: Sequence[int], width_ns: int, left: int) -> str:
    """Return the share of paused time as a line of at most ``left`` blocks.

    ``width_ns`` is the width of an interval in ``paused_ns``.
    """
    columns = min(28, left, len(paused_ns))
    if columns < 1:
        return ""
    bounds = [column * len(paused_ns) // columns for column in range(columns + 1)]
    shares = [sum(paused_ns[low:high]) / (high - low) for low, high in pairwise(bounds)]
    return paint(sparkline(shares, top=width_ns, width=columns), "pause")


def _interface_name(statistics: Statistics, index: int) -> str:
    """Return the name of an interface, with only printable characters."""
    return printable(statistics.interface_name(index))[:32]


def _lost_to_pause(statistics: Statistics) -> tuple[str, ...]:
    """Return texts on the sender that paused its link partner for the longest time."""
    if statistics.pauses is None or not statistics.pauses.senders[0].paused_ns:
        return ()
    sender = statistics.pauses.senders[0]
    worst = max(sender.classes, key=lambda each: each.paused_ns)
    part, time = _cells(sender, _PAUSED, statistics)
    whom = worst.whom
    if worst.paused_ns != sender.paused_ns:
        whom = f"{len(sender.classes)} priorities, the longest {whom}"
    assumed = "" if sender.speed_is_stated else f"; {format_rate(sender.speed_bps)} assumed: --speed"
    return f"{part} of the time, {time}{assumed}", f"{_sender(statistics, sender)[2:]} paused {whom}"
