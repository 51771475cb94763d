"""What `live monitor` tells: a table that is drawn anew, a line, or a document."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ecmproto.formats.text import cpid_text, mac_text
from ecmproto.units import format_octets, format_rate, format_time
from ecmproto_cli.output import columns_of, paint, pairs
from ecmproto_cli.stats_table import address, per_second, share

if TYPE_CHECKING:
    from ecmproto.live.monitor import Change, PauseChange
    from ecmproto.stats import Statistics

SCHEMA = "ecmproto/monitor/1"
_NAMES = 13
_POINTS_SHOWN = 12
_PAUSES_SHOWN = 12
_TITLES = {"cnm": "CNM", "ecm": "ECM", "bcn": "BCN", "e2cm": "E²CM"}
_TOLD = ("message", "flow control")
"""The groups of kinds that a line tells."""
_HOME, _REST, _LINE_REST = "\x1b[H", "\x1b[J", "\x1b[K"

_Rows = list[tuple[str, Sequence[str]]]


class Screen:
    """A terminal that is drawn over; what is not one is never drawn on."""

    def __init__(self) -> None:
        self._drawn = False

    def draw(self, text: str) -> None:
        """Show ``text`` in place of what was shown, as much of it as there is room for."""
        lines = text.splitlines()[: shutil.get_terminal_size().lines - 1]
        start = _HOME if self._drawn else _HOME + _REST
        self._drawn = True
        sys.stdout.write(start + "".join(f"{line}{_LINE_REST}\n" for line in lines) + _REST)
        sys.stdout.flush()

    def clear(self) -> None:
        """Make room for what is told at the end."""
        if self._drawn:
            sys.stdout.write(_HOME + _REST)
            self._drawn = False


def monitor_table(change: Change, name: str, elapsed_ns: int, dropped: int) -> str:
    """Return what happened and what it comes to, as a table."""
    rows = [
        ("now", f"{per_second(change.frames_per_s)}, {format_rate(change.bits_per_s)}"),
        ("frames", f"{change.frames:,}, {format_octets(change.octets)}"),
    ]
    if dropped:
        rows.append(("dropped", f"{dropped:,} by the kernel: not counted below"))
    title = f"{paint(name, 'title')}, {format_time(elapsed_ns)}"
    # what is cut off where a terminal has few lines comes last
    parts = [f"{title}\n{pairs(rows, width=_NAMES)}", *_pauses(change), *_points(change), *_kinds(change)]
    return "\n\n".join(parts)


def _kinds(change: Change) -> Iterator[str]:
    if not change.kinds:
        return
    rows: _Rows = [("", ["frames", "now", ""])]
    for each in change.kinds:
        cells = [f"{each.frames:,}", per_second(each.frames_per_s), format_rate(each.bits_per_s)]
        if "." not in each.kind.name:  # types of messages are told at the end
            rows.append((each.kind.title, cells))
    yield f"{paint('kinds of frames', 'title')}\n{columns_of(rows)}"


def _points(change: Change) -> Iterator[str]:
    if not change.points:
        return
    rows: _Rows = [("", ["messages", "now"])]
    for point in change.points[:_POINTS_SHOWN]:
        cells = [f"{point.frames:,}", per_second(point.frames_per_s)]
        rows.append((f"{_TITLES[point.kind]} {cpid_text(point.cpid)}", cells))
    more = len(change.points) - _POINTS_SHOWN
    tail = f"\n  and {more} more" if more > 0 else ""
    yield f"{paint('messages by congestion point', 'title')}\n{columns_of(rows)}{tail}"


def _pauses(change: Change) -> Iterator[str]:
    if not change.pauses:
        return
    rows: _Rows = [("", ["frames", "stopped", "now"])]
    for each in change.pauses[:_PAUSES_SHOWN]:
        cells = [f"{each.frames:,}", format_time(each.paused_ns), share(min(1.0, each.share))]
        rows.append((f"{address(each.source)} {_class(each)}", cells))
    more = len(change.pauses) - _PAUSES_SHOWN
    tail = f"\n  and {more} more" if more > 0 else ""
    yield f"{paint('time stopped by PAUSE and PFC', 'title')}, by who sent them\n{columns_of(rows)}{tail}"


def _class(each: PauseChange) -> str:
    return "link" if each.priority is None else f"priority {each.priority}"


def monitor_line(change: Change, elapsed_ns: int, dropped: int) -> str:
    """Return what happened in one line."""
    parts = [
        format_time(elapsed_ns).rjust(8),
        per_second(change.frames_per_s).rjust(10),
        format_rate(change.bits_per_s).rjust(10),
    ]
    parts += [
        f"{each.kind.title} {per_second(each.frames_per_s)}"
        for each in change.kinds
        if each.kind.group in _TOLD and "." not in each.kind.name and each.frames_per_s
    ]
    stopped = max((each.share for each in change.pauses), default=0.0)
    if stopped > 0:
        parts.append(f"stopped {share(min(1.0, stopped))}")
    if dropped:
        parts.append(f"dropped {dropped:,}")
    return "  ".join(parts)


def document_line(change: Change, name: str, elapsed_ns: int, dropped: int) -> str:
    """Return what happened as a JSON document on one line."""
    document = {
        "schema": SCHEMA,
        "event": "stats",
        "interface": name,
        "elapsed_ns": elapsed_ns,
        "span_ns": change.span_ns,
        "dropped_frames": dropped,
        "frames": change.frames,
        "octets": change.octets,
        "frames_per_s": change.frames_per_s,
        "bits_per_s": change.bits_per_s,
        "kinds": [
            {
                "kind": each.kind.name,
                "frames": each.frames,
                "frames_per_s": each.frames_per_s,
                "bits_per_s": each.bits_per_s,
            }
            for each in change.kinds
        ],
        "congestion_points": [
            {**dataclasses.asdict(point), "cpid": f"{point.cpid:016x}"} for point in change.points
        ],
        "pauses": [
            {**dataclasses.asdict(each), "source": None if each.source is None else mac_text(each.source)}
            for each in change.pauses
        ],
    }
    return json.dumps(document)


def summary_line(statistics: Statistics, name: str, dropped: int) -> str:
    """Return everything as a JSON document on one line: that of `ecmproto stats`, and what was dropped."""
    from ecmproto.stats import as_document

    document = {"schema": SCHEMA, "event": "summary", "interface": name, "dropped_frames": dropped}
    return json.dumps({**document, "stats": as_document(statistics, name)})
