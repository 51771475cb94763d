"""``ecmproto diff``: compare two captures frame by frame and field by field."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar

import click

from ecmproto.errors import counted
from ecmproto.units import TIME_UNITS
from ecmproto_cli.errors import FINDINGS, warn
from ecmproto_cli.options import filter_option, form_option, outer_option, with_ethertypes
from ecmproto_cli.output import Stdout
from ecmproto_cli.progress import reading, work
from ecmproto_cli.terminal import echo, paint, wrapped

if TYPE_CHECKING:
    from ecmproto.frames.capture import Batch, CaptureReader
    from ecmproto.frames.dissect import Lines
    from ecmproto.frames.filter import Filter
    from ecmproto.tools.diff import Comparison, Difference, FieldChange, Summary
    from ecmproto.tools.diff.clocks import TimeDifference
    from ecmproto.tools.diff.comparison import Kind
    from ecmproto.wire.codec import EtherTypes

_Item = TypeVar("_Item")
_LISTED = 50
_MIN_WINDOW, _MAX_WINDOW = 1000, 1 << 30


def _tolerances(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    tolerances = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not (name and equals and text):
            raise click.BadParameter(f"expected FIELD=VALUE, as in frame.time_epoch=1us, got {each!r}")
        tolerances[name] = text
    return tolerances


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--ignore", "ignore_fields", metavar="NAME", multiple=True,
    help="Ignore a field or a whole layer, such as ip.ttl or cntag, and the checksums that depend on it.",
)  # fmt: skip
@click.option(
    "--tolerance", metavar="FIELD=VALUE", multiple=True, callback=_tolerances,
    help="Treat numbers within a tolerance as equal: frame.time_epoch=1us, cnm.qntz_fb=2, rdtag.rate=1%.",
)  # fmt: skip
@click.option(
    "--align-time", type=click.Choice(["offset", "drift"]),
    help="Align B's clock with A's first. offset subtracts the median difference; drift also subtracts the "
    "linear drift.",
)  # fmt: skip
@click.option(
    "--per-interface",
    is_flag=True,
    help="Compare each interface separately. The order of frames on different interfaces is ignored.",
)
@click.option(
    "-s", "--snaplen", "snap_octets", metavar="N", type=click.IntRange(1, 2**31 - 1),
    help="Compare only the first N octets of each frame, for captures with different snap lengths.",
)  # fmt: skip
@filter_option("Compare only frames that this display filter selects, in both captures.")
@form_option("text", "json", "ndjson", help="Output format.")
@click.option("--stat", is_flag=True, help="Show only the summary.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing. The exit code is 1 if the captures differ.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=0),
    help=f"List at most N differences; 0 lists all.  [default: {_LISTED} in text, else all]",
)  # fmt: skip
@click.option(
    "--times/--no-times", "times", default=None,
    help="List frames that differ only in time.  [default: --times, but --no-times if more than half of the "
    "frames differ only in time]",
)  # fmt: skip
@click.option(
    "--window", metavar="N", type=click.IntRange(min=_MIN_WINDOW, max=_MAX_WINDOW),
    help="Align N frames of each capture at a time. A frame takes some 100 bytes of memory.  [default: "
    "3000000]",
)  # fmt: skip
@outer_option
@with_ethertypes
def command(
    a: str,
    b: str,
    ignore_fields: tuple[str, ...],
    tolerance: dict[str, str],
    align_time: Literal["offset", "drift"] | None,
    per_interface: bool,
    snap_octets: int | None,
    filter: Filter | None,
    form: str,
    stat: bool,
    quiet: bool,
    limit: int | None,
    times: bool | None,
    window: int | None,
    outer: bool,
    ethertypes: EtherTypes,
) -> int:
    """Compare the captures A and B (- is stdin), and list the frames and fields that differ.

    Frames are aligned by content, and classified as missing, added, moved, changed, or equal but at another
    time. Exits with 1 if there are differences.

    \b
    ecmproto diff before.pcap after.pcapng.gz
    ecmproto diff in.pcap out.pcapng --ignore cntag --tolerance frame.time_epoch=1us
    ecmproto diff port1.pcap port2.pcap --ignore eth --align-time drift
    ecmproto diff mirror.pcap port.pcap --align-time offset
    """
    if a == b == "-":
        raise click.UsageError("stdin can be read only once: expected - once, got it twice")
    if stat and quiet:
        raise click.UsageError(
            "--stat shows the summary, and --quiet shows nothing: expected only one of them"
        )
    from ecmproto.tools.diff import Comparison, rules_of
    from ecmproto.tools.diff.comparison import WINDOW_FRAMES

    rules = rules_of(
        ignore_fields,
        tolerance,
        align_time=align_time or "none",
        by_interface=per_interface,
        snap_octets=snap_octets,
    )
    with Comparison(
        a, b, rules, filter=filter, ethertypes=ethertypes, outer=outer, window=window or WINDOW_FRAMES,
        list_times=times, watch=_watched,
    ) as comparison:  # fmt: skip
        out = Stdout()
        try:
            if quiet:
                comparison.run()
            elif form == "text":
                _show_text(comparison, out, 0 if stat else _LISTED if limit is None else limit or None)
            else:
                _show_json(comparison, out, 0 if stat else limit or None, lines=form == "ndjson")
        finally:
            out.flush()
        warn(*comparison.warnings)
        for line in comparison.unwrapped:
            echo(f"ecmproto: {line}", err=True)
        if comparison.problem is not None:
            raise comparison.problem
        return FINDINGS if comparison.summary.differences else 0


def _watched(batches: Iterable[Batch], reader: CaptureReader) -> Iterator[Batch]:
    reading(reader, "diff")
    yield from batches
    work.at("diff: aligning frames")


def _show_text(comparison: Comparison, out: Stdout, limit: int | None) -> None:
    """Write the summary and the differences, at most ``limit`` differences if given."""
    from ecmproto.frames.dissect import Lines

    text = DifferenceText(Lines(), width=shutil.get_terminal_size().columns if sys.stdout.isatty() else 0)
    listed = 0
    comparison.listing = limit != 0
    for difference in comparison:
        if limit is None or listed < limit:
            if not listed:
                a, b = comparison.captures
                out.write(f"A {a.path}\nB {b.path}\n\n")
            listed += 1
            out.write(wrapped(text.difference(difference)))
        else:
            comparison.listing = False
    out.write(text.rest())
    summary = comparison.summary
    listable = summary.differences - (0 if comparison.lists_times else summary.kinds["retimed"])
    more = listable - listed if limit else 0
    out.write(("\n" if listed else "") + wrapped(summary_text(comparison, more=more)))


def _show_json(comparison: Comparison, out: Stdout, limit: int | None, *, lines: bool) -> None:
    from ecmproto.tools.diff.document import SCHEMA, difference_document, summary_document
    from ecmproto.wire.codec.document import json_text

    listed = 0
    comparison.listing = limit != 0
    if not lines:
        out.write(f'{{"schema": "{SCHEMA}", "differences": [')
    for difference in comparison:
        if limit is not None and listed >= limit:
            comparison.listing = False
            continue
        document = difference_document(difference)
        if lines:
            out.write(json_text({"schema": SCHEMA, **document}) + "\n")
        else:
            out.write(("," if listed else "") + "\n" + json_text(document))
        listed += 1
    summary = summary_document(comparison)
    if lines:
        out.write(json_text({"schema": SCHEMA, "kind": "summary", **summary}) + "\n")
    else:
        out.write(f'\n], "summary": {json_text(summary)}}}\n')


_STYLES: dict[Kind, str] = {
    "changed": "congestion",
    "retimed": "dim",
    "moved": "pause",
    "missing": "error",
    "added": "tag",
}
_PHRASES: dict[Kind, str] = {
    "changed": "changed", "retimed": "at other times", "moved": "moved", "missing": "only in A",
    "added": "only in B",
}  # fmt: skip
_ARROW = "→"
_OCTETS_SHOWN = 16
_FEW_OF_LAYER = 5
_FEW_FIELDS = 12
"""The maximum number of fields in the summary."""
_INDENT = " " * 8


class DifferenceText:
    """A writer of differences; frames that moved together are shown in one line.

    ``width`` is the maximum width of a frame's line; 0 means unlimited.
    """

    def __init__(self, lines: Lines, *, width: int = 0) -> None:
        self._lines = lines
        self._width = width
        self._moved: list[Difference] = []

    def difference(self, difference: Difference) -> str:
        """Return the pending lines and the difference as text.

        A moved frame stays pending, because the next frame may have moved together with this frame.
        """
        if difference.kind == "moved" and self._goes_on(difference):
            self._moved.append(difference)
            return ""
        before = self.rest()
        if difference.kind == "moved":
            self._moved.append(difference)
            return before
        return before + self._text(difference)

    def rest(self) -> str:
        """Return the text of the pending differences."""
        moved, self._moved = self._moved, []
        if len(moved) < 2:
            return "".join(map(self._text, moved))
        (first_a, first_b), (last_a, last_b) = _numbers(moved[0]), _numbers(moved[-1])
        word = _word("moved")
        return f"{word} {first_a}–{last_a} {_ARROW} {first_b}–{last_b}  {counted(len(moved), 'frame')}\n"

    def _goes_on(self, difference: Difference) -> bool:
        if not self._moved:
            return False
        (a, b), (next_a, next_b) = _numbers(self._moved[-1]), _numbers(difference)
        return (a + 1, b + 1) == (next_a, next_b)

    def _text(self, difference: Difference) -> str:
        side = difference.a or difference.b
        assert side is not None
        # the line of `dissect` without number and time, truncated to the remaining width
        record = dataclasses.replace(side.record, number=0, time_ns=None)
        line = self._lines.record(record).rstrip("\n")[_AFTER_TIME:]
        a = str(difference.a.number) if difference.a is not None else ""
        b = str(difference.b.number) if difference.b is not None else ""
        arrow = _ARROW if a and b else " "
        apart = ""
        if difference.kind == "retimed":
            apart = _apart_text(difference.time_left_ns) + "  "
        suffix = f"{a:>6} {arrow} {b:<6} {apart}{line}"
        width = self._width - _WORD_WIDTH - 1
        if self._width and len(suffix) > width:
            suffix = f"{suffix[: max(0, width - 1)]}…"
        head = f"{_word(difference.kind)} {suffix}\n"
        return head + "".join(f"{_INDENT}{text}\n" for text in changes_text(difference.fields))


_AFTER_TIME = 19
_WORD_WIDTH = 7


def _word(kind: Kind) -> str:
    label = "time" if kind == "retimed" else kind
    return paint(label.ljust(_WORD_WIDTH), _STYLES[kind])


def _numbers(difference: Difference) -> tuple[int, int]:
    assert difference.a is not None
    assert difference.b is not None
    return difference.a.number, difference.b.number


def _apart_text(apart_ns: int | None) -> str:
    if apart_ns is None:
        return "only one has a time"
    return f"{_exact(abs(apart_ns))} {'later' if apart_ns > 0 else 'earlier'}"


def _exact(ns: int) -> str:
    """Return a time with all digits, in the largest unit that does not exceed the time."""
    exponent, unit = next((each for each in TIME_UNITS if ns >= 10 ** each[0]), TIME_UNITS[-1])
    whole, part = divmod(ns, 10**exponent)
    digits = f"{part:0{exponent}}".rstrip("0") if exponent else ""
    return f"{whole}.{digits} {unit}" if digits else f"{whole} {unit}"


def changes_text(changes: Sequence[FieldChange]) -> Iterator[str]:
    """Yield one line per different field, or one line for a layer that only one frame has."""
    width = max((len(change.name) for change in changes), default=0)
    for layer, some in _by_layer(changes, lambda change: change.name).items():
        one_side = _one_side(layer, some)
        if one_side:
            yield one_side
            continue
        for change in some:
            yield f"{paint(change.name.ljust(width), 'name')}  {change_text(change)}"


def _by_layer(items: Iterable[_Item], name_of: Callable[[_Item], str]) -> dict[str, list[_Item]]:
    layers: dict[str, list[_Item]] = {}
    for item in items:
        layers.setdefault(name_of(item).rpartition(".")[0], []).append(item)
    return layers


def _one_side(layer: str, changes: Sequence[FieldChange]) -> str:
    """Return the line for a layer with several fields that only one of the frames has."""
    if len(changes) < 2 or layer in ("frame", "eth"):
        return ""
    added = all(not change.a for change in changes)
    if not added and any(change.b for change in changes):
        return ""
    word = f"{paint(layer, 'name')} {'added' if added else 'gone'}"
    if len(changes) > _FEW_OF_LAYER:
        return f"{word}: {counted(len(changes), 'field')}"
    text = " ".join(
        f"{change.name.rpartition('.')[2]}={_values(change.name, change.b if added else change.a)}"
        for change in changes
    )
    return f"{word}: {text}"


def change_text(change: FieldChange) -> str:
    """Return a field's change as text."""
    from ecmproto.tools.diff.rules import TIME

    if change.name == TIME and change.a and change.b:
        (a,), (b,) = change.a, change.b
        assert isinstance(a, int)
        assert isinstance(b, int)
        return _apart_text(b - a)
    long = [
        value for value in (*change.a, *change.b) if isinstance(value, bytes) and len(value) > _OCTETS_SHOWN
    ]
    if long and len(change.a) == len(change.b) == 1:
        return _octets_text(change)
    return f"{_values(change.name, change.a)} {_ARROW} {_values(change.name, change.b)}"


def _values(name: str, values: Sequence[int | bytes | str]) -> str:
    from ecmproto.tools.diff.fields import value_text

    texts = []
    for value in values:
        if isinstance(value, bytes) and len(value) > _OCTETS_SHOWN:
            texts.append(f"{value[:_OCTETS_SHOWN].hex()}… ({len(value)} octets)")
        else:
            texts.append(value_text(name, value))
    return ",".join(texts) or "–"


def _octets_text(change: FieldChange) -> str:
    """Return the difference of two octet strings: sizes, and the octets from the first difference on."""
    (a,), (b,) = change.a, change.b
    assert isinstance(a, bytes)
    assert isinstance(b, bytes)
    first = next(
        (at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b))
    )
    size = str(len(a)) if len(a) == len(b) else f"{len(a)} {_ARROW} {len(b)}"
    parts = []
    for octets in (a, b):
        shown = octets[first : first + _OCTETS_SHOWN // 2].hex()
        more = "…" if len(octets) > first + _OCTETS_SHOWN // 2 else ""
        parts.append(f"{shown}{more}" or "–")
    return f"{size} octets, from octet {first} on {parts[0]} {_ARROW} {parts[1]}"


def summary_text(comparison: Comparison, *, more: int = 0) -> str:
    """Return the summary: counts, fields, times and interfaces; ``more`` differences were not listed."""
    summary = comparison.summary
    lines = []
    if more:
        lines.append(f"… {counted(more, 'more difference')} not listed (--limit 0 lists all)")
    lines.append(_counts_text(summary))
    lines += _fields_text(summary)
    if summary.times is not None and summary.times.differing:
        lines += _times_text(summary.times, comparison)
    if summary.interfaces:
        lines += _interfaces_text(summary)
    return "\n".join(lines) + "\n"


def _counts_text(summary: Summary) -> str:
    counts = [f"{summary.kinds[kind]:,} {phrase}" for kind, phrase in _PHRASES.items() if summary.kinds[kind]]
    if not counts:
        return f"equal: {counted(summary.same, 'frame')}"
    frames = f"{counted(summary.frames_a, 'frame')} in A, {summary.frames_b:,} in B"
    return f"{frames}: {', '.join([f'{summary.same:,} equal', *counts])}"


def _fields_text(summary: Summary) -> Iterator[str]:
    rows: dict[str, tuple[int, str]] = {}
    for layer, items in _by_layer(summary.fields.items(), lambda item: item[0]).items():
        counts = dict(items)
        for word in ("added", "gone"):
            of_one = {count.added if word == "added" else count.gone for count in counts.values()}
            if len(counts) > 1 and of_one == {count.frames for count in counts.values()}:
                rows[layer] = max(of_one), word
                break
        else:
            for name, count in counts.items():
                rows[name] = count.frames, "" if count.change is None else change_text(count.change)
    ordered = sorted(rows.items(), key=lambda row: -row[1][0])
    width = max((len(name) for name, _ in ordered[:_FEW_FIELDS]), default=0)
    for name, (frames, values) in ordered[:_FEW_FIELDS]:
        yield f"  {paint(name.ljust(width), 'name')} {frames:>9,}  {values}".rstrip()
    if len(ordered) > _FEW_FIELDS:
        yield f"  and {counted(len(ordered) - _FEW_FIELDS, 'more field')}"


def _times_text(times: TimeDifference, comparison: Comparison) -> Iterator[str]:
    from ecmproto.tools.diff.rules import TIME

    if times.min_ns == times.max_ns:
        yield f"times: B is {_apart_text(times.offset_ns)} in all {counted(times.pairs, 'frame')}"
    else:
        spread = f"by {_signed(times.min_ns)} to {_signed(times.max_ns)} in B"
        yield f"times: {times.differing:,} of {counted(times.pairs, 'frame')} differ, {spread}"
        yield f"  the median is {_signed(times.offset_ns)}"
        around = f"90 % are {_signed(times.low_ns)} to {_signed(times.high_ns)} around it"
        if times.has_drift:
            way = "fast" if times.drift_ppm > 0 else "slow"
            around = f"B's clock is {abs(times.drift_ppm):.4g} ppm {way}; with that, {around}"
        yield f"  {around}"
    if TIME in comparison.rules.names:
        yield "  times are ignored"
    elif comparison.rules.align_time != "none" or TIME in comparison.rules.tolerances:
        removed = {"none": "", "offset": "the median", "drift": "median and drift"}[
            comparison.rules.align_time
        ]
        tolerance = comparison.rules.tolerances.get(TIME)
        within = f"within {_exact(tolerance.absolute)}" if tolerance else "equal"
        suffix = f" once {removed} {'are' if 'and' in removed else 'is'} taken off" if removed else ""
        yield f"  {times.pairs - times.beyond:,} are {within}{suffix}"


def _signed(ns: int) -> str:
    return f"{'−' if ns < 0 else '+'}{_exact(abs(ns))}" if ns else "0"


def _interfaces_text(summary: Summary) -> Iterator[str]:
    from ecmproto_cli.output import columns_of

    rows = [
        (each.name, [f"{each.same:,}", *(f"{each.kinds[kind]:,}" for kind in _PHRASES)])
        for each in summary.interfaces
    ]
    yield columns_of([("interface", ["equal", *_PHRASES.values()]), *rows])
