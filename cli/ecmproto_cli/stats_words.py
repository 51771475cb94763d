"""The words and small pictures that sections of statistics share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ecmproto.codec.text import mac_text
from ecmproto.dissect.form import printable
from ecmproto.units import format_time
from ecmproto_cli.paint import paint
from ecmproto_cli.table import sparkline

if TYPE_CHECKING:
    from ecmproto.stats import ClassPause, Statistics

ABSENT = "–"
OVER_TIME_COLUMNS = 56


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
    """Return a flow identifier as the formats write it: E²CM's is a hash."""
    if flow_id is None:
        return ABSENT
    return f"{flow_id:#06x}" if kind == "e2cm" else str(flow_id)


def class_name(each: ClassPause) -> str:
    """Return whom pauses of a class stop."""
    return "the whole link" if each.priority is None else f"priority {each.priority}"


def interface_name(statistics: Statistics, index: int) -> str:
    """Return what an interface is called, as a terminal can show it."""
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
