"""The differences of two captures as text: a line a frame, followed by its changed fields; a summary."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ecmproto.errors import counted
from ecmproto.units import TIME_UNITS
from ecmproto_cli.terminal import paint

if TYPE_CHECKING:
    from ecmproto.frames.dissect import Lines
    from ecmproto.tools.diff import Comparison, Difference, FieldChange, Summary
    from ecmproto.tools.diff.clocks import TimeDifference
    from ecmproto.tools.diff.comparison import FieldCount, Kind

_WORDS: dict[Kind, str] = {
    "changed": "changed",
    "retimed": "time",
    "moved": "moved",
    "missing": "missing",
    "added": "added",
}
_STYLES: dict[Kind, str] = {
    "changed": "congestion",
    "retimed": "dim",
    "moved": "pause",
    "missing": "error",
    "added": "tag",
}
_PHRASES: dict[Kind, str] = {
    "changed": "changed", "retimed": "at another time", "moved": "moved", "missing": "only in A",
    "added": "only in B",
}  # fmt: skip
_ARROW = "→"
_OCTETS_SHOWN = 16
_FEW_OF_LAYER = 5
_FEW_FIELDS = 12
"""Fields in the summary."""
_INDENT = " " * 8


class DifferenceText:
    """Writes differences; frames that moved together share a line.

    ``width`` is the maximum width of a frame's line; 0: unlimited.
    """

    def __init__(self, lines: Lines, *, width: int = 0) -> None:
        self._lines = lines
        self._width = width
        self._moved: list[Difference] = []

    def difference(self, difference: Difference) -> str:
        """Return a difference as text, or nothing yet if it may be one of several that moved together."""
        if difference.kind == "moved" and self._goes_on(difference):
            self._moved.append(difference)
            return ""
        before = self.rest()
        if difference.kind == "moved":
            self._moved.append(difference)
            return before
        return before + self._text(difference)

    def rest(self) -> str:
        """Return the pending lines."""
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
        place = difference.a or difference.b
        assert place is not None
        # a line of `dissect` after number and time, limited to the remaining width
        record = dataclasses.replace(place.record, number=0, time_ns=None)
        line = self._lines.record(record).rstrip("\n")[_BEHIND_TIME:]
        a = str(difference.a.number) if difference.a is not None else ""
        b = str(difference.b.number) if difference.b is not None else ""
        arrow = _ARROW if a and b else " "
        apart = ""
        if difference.kind == "retimed":
            apart = _apart_text(difference.time_left_ns) + "  "
        behind = f"{a:>6} {arrow} {b:<6} {apart}{line}"
        room = self._width - _WORD_WIDTH - 1
        if self._width and len(behind) > room:
            behind = f"{behind[: max(0, room - 1)]}…"
        head = f"{_word(difference.kind)} {behind}\n"
        return head + "".join(f"{_INDENT}{text}\n" for text in changes_text(difference.fields))


_BEHIND_TIME = 19
_WORD_WIDTH = 7


def _word(kind: Kind) -> str:
    return paint(f"{_WORDS[kind]:<{_WORD_WIDTH}}", _STYLES[kind])


def _numbers(difference: Difference) -> tuple[int, int]:
    assert difference.a is not None
    assert difference.b is not None
    return difference.a.number, difference.b.number


def _apart_text(apart_ns: int | None) -> str:
    if apart_ns is None:
        return "only one has a time"
    return f"{_exact(abs(apart_ns))} {'later' if apart_ns > 0 else 'earlier'}"


def _exact(ns: int) -> str:
    """Return a time with all its digits, in the largest unit that does not exceed it."""
    exponent, unit = next((each for each in TIME_UNITS if ns >= 10 ** each[0]), TIME_UNITS[-1])
    whole, part = divmod(ns, 10**exponent)
    digits = f"{part:0{exponent}}".rstrip("0") if exponent else ""
    return f"{whole}.{digits} {unit}" if digits else f"{whole} {unit}"


def changes_text(changes: Sequence[FieldChange]) -> Iterator[str]:
    """Yield a line for each field that differs, or one for a whole layer that only one frame has."""
    width = max((len(change.name) for change in changes), default=0)
    for layer, some in _by_layer(changes):
        one_side = _one_side(layer, some)
        if one_side:
            yield one_side
            continue
        for change in some:
            yield f"{paint(change.name.ljust(width), 'name')}  {change_text(change)}"


def _by_layer(changes: Sequence[FieldChange]) -> Iterator[tuple[str, list[FieldChange]]]:
    layers: dict[str, list[FieldChange]] = {}
    for change in changes:
        layers.setdefault(change.name.rpartition(".")[0], []).append(change)
    yield from layers.items()


def _one_side(layer: str, changes: Sequence[FieldChange]) -> str:
    """Return the line of a layer with several fields in one of the frames and none in the other."""
    if len(changes) < 2 or layer in ("frame", "eth"):
        return ""
    added = all(not change.a for change in changes)
    if not added and any(change.b for change in changes):
        return ""
    word = f"{paint(layer, 'name')} {'added' if added else 'gone'}"
    if len(changes) > _FEW_OF_LAYER:
        return f"{word}: {counted(len(changes), 'field')}"
    told = " ".join(
        f"{change.name.rpartition('.')[2]}={_values(change.name, change.b if added else change.a)}"
        for change in changes
    )
    return f"{word}: {told}"


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
    """Return the difference of two octet strings: sizes, first offset, and the octets from there."""
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
    """Return the summary: counts, fields, times, interfaces; ``more`` differences were not listed."""
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
    told = [f"{summary.kinds[kind]:,} {phrase}" for kind, phrase in _PHRASES.items() if summary.kinds[kind]]
    if not told:
        return f"the same: {counted(summary.same, 'frame')}"
    frames = f"{counted(summary.frames_a, 'frame')} in A, {summary.frames_b:,} in B"
    return f"{frames}: {', '.join([f'{summary.same:,} the same', *told])}"


def _fields_text(summary: Summary) -> Iterator[str]:
    rows: dict[str, tuple[int, str]] = {}
    for layer, counts in _counts_by_layer(summary).items():
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
    for name, (frames, told) in ordered[:_FEW_FIELDS]:
        yield f"  {paint(name.ljust(width), 'name')} {frames:>9,}  {told}".rstrip()
    if len(ordered) > _FEW_FIELDS:
        yield f"  and {counted(len(ordered) - _FEW_FIELDS, 'more field')}"


def _counts_by_layer(summary: Summary) -> dict[str, dict[str, FieldCount]]:
    layers: dict[str, dict[str, FieldCount]] = {}
    for name, count in summary.fields.items():
        layers.setdefault(name.rpartition(".")[0], {})[name] = count
    return layers


def _times_text(times: TimeDifference, comparison: Comparison) -> Iterator[str]:
    from ecmproto.tools.diff.rules import TIME

    if times.least_ns == times.most_ns:
        yield f"times: B is {_apart_text(times.offset_ns)} in all {counted(times.pairs, 'frame')}"
    else:
        spread = f"by {_signed(times.least_ns)} to {_signed(times.most_ns)} in B"
        yield f"times: {times.differing:,} of {counted(times.pairs, 'frame')} differ, {spread}"
        yield f"  the median is {_signed(times.offset_ns)}"
        around = f"90 % are {_signed(times.low_ns)} to {_signed(times.high_ns)} around it"
        if times.has_drift:
            way = "fast" if times.drift_ppm > 0 else "slow"
            around = f"B's clock goes {abs(times.drift_ppm):.4g} ppm {way}; with that, {around}"
        yield f"  {around}"
    if TIME in comparison.rules.names:
        yield "  times are ignored"
    elif comparison.rules.align_time != "none" or TIME in comparison.rules.tolerances:
        taken = {"none": "", "offset": "the median", "drift": "median and drift"}[comparison.rules.align_time]
        tolerance = comparison.rules.tolerances.get(TIME)
        within = f"within {_exact(tolerance.absolute)}" if tolerance else "the same"
        behind = f" once {taken} {'are' if 'and' in taken else 'is'} taken off" if taken else ""
        yield f"  {times.pairs - times.beyond:,} are {within}{behind}"


def _signed(ns: int) -> str:
    return f"{'−' if ns < 0 else '+'}{_exact(abs(ns))}" if ns else "0"


def _interfaces_text(summary: Summary) -> Iterator[str]:
    from ecmproto_cli.output import columns_of

    rows = [
        (each.name, [f"{each.same:,}", *(f"{each.kinds[kind]:,}" for kind in _PHRASES)])
        for each in summary.interfaces
    ]
    yield columns_of([("interface", ["the same", *_PHRASES.values()]), *rows])
