"""Statistics of a capture for a person: sections for what there is, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ecmproto.errors import escaped
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time
from ecmproto_cli.paint import paint
from ecmproto_cli.stats_sections import feedback, pauses, probes, rates
from ecmproto_cli.stats_words import (
    ABSENT,
    OVER_TIME_COLUMNS,
    interface_name,
    lost_to_pause,
    over_time,
    per_second,
    share,
)
from ecmproto_cli.table import bars, columns_of, pairs

if TYPE_CHECKING:
    from ecmproto.stats import KindCount, Statistics

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
        *pauses(statistics), *feedback(statistics), *probes(statistics), *rates(statistics),
        _sizes(statistics), *_priorities(statistics), *_malformed(statistics), *_notes(statistics),
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
