"""What the numbers of a capture do not say, in sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ecmproto.capture.linktypes import COOKED_TYPES, ETHERNET, RAW_IP_TYPES
from ecmproto.errors import counted
from ecmproto.stats.advertised import MOST_QUEUES
from ecmproto.stats.feedback import MOST_FLOWS, MOST_POINTS
from ecmproto.stats.frames import MOST_MALFORMED
from ecmproto.stats.pauses import MOST_SENDERS
from ecmproto.stats.probes import MOST_FLOWS as MOST_PROBED
from ecmproto.stats.statistics import Statistics
from ecmproto.units import format_rate, format_time

_KNOWN = frozenset((ETHERNET,)) | COOKED_TYPES | RAW_IP_TYPES

_LISTS = {
    "congestion_points": f"about congestion points beyond the first {MOST_POINTS} of a mechanism",
    "message_flows": f"about flows beyond the first {MOST_FLOWS} of a mechanism",
    "probed_flows": f"about probed flows beyond the first {MOST_PROBED}",
    "rates": f"about rate-limited queues beyond the first {MOST_QUEUES}",
    "pause_senders": f"from senders of pauses beyond the first {MOST_SENDERS}",
    "malformed": f"malformed in ways beyond the first {MOST_MALFORMED}",
}


def notes_on(statistics: Statistics, untimed_pauses: int) -> Statistics:
    """Return ``statistics`` with their notes; ``untimed_pauses`` are pause frames without a time."""
    return dataclasses.replace(statistics, notes=tuple(_notes(statistics, untimed_pauses)))


def _notes(statistics: Statistics, untimed_pauses: int) -> Iterator[str]:
    if not statistics.frames:
        return
    yield from _on_pauses(statistics, untimed_pauses)
    yield from _on_frames(statistics)
    yield from _on_times(statistics)
    for name, count in statistics.left_out.items():
        yield f"{counted(count, 'frame')} {_LISTS[name]} counted, but not listed."


def _on_pauses(statistics: Statistics, untimed: int) -> Iterator[str]:
    if not any(each.frames and each.linktype == ETHERNET for each in statistics.interfaces):
        return
    assumed = {}
    if statistics.pauses is not None:
        assumed = {
            sender.interface: sender.speed_bps
            for sender in statistics.pauses.senders
            if not sender.speed_is_stated
        }
    if assumed:
        speed = format_rate(next(iter(assumed.values())))
        yield f"Pauses are reckoned for {speed}: the capture does not state the speed of the link."
    if statistics.pauses is None and not untimed:
        yield "No PAUSE or PFC frame proves nothing: network cards normally consume them before a capture."
    else:
        yield "Network cards normally consume PAUSE and PFC frames: there may have been more."
    if untimed:
        yield f"{counted(untimed, 'pause frame')} without a time: what they stopped is not known."


def _on_frames(statistics: Statistics) -> Iterator[str]:
    if statistics.cut_frames:
        yield (
            f"{counted(statistics.cut_frames, 'frame')} cut by the capture: what stands behind the cut is "
            "not counted by kind; sizes are those on the wire."
        )
    strange = {each.linktype: each.linktype_name for each in statistics.interfaces if each.frames}
    for linktype, name in strange.items():
        if linktype not in _KNOWN:
            yield f"Frames of link type {name} ({linktype}) are not decoded: they count as other."


def _on_times(statistics: Statistics) -> Iterator[str]:
    if statistics.untimed_frames:
        yield f"{counted(statistics.untimed_frames, 'frame')} without a time: in no rate over time."
    if statistics.backwards_frames:
        yield (
            f"{counted(statistics.backwards_frames, 'frame')} stamped before an earlier one: counted at the "
            "time stamped, but pauses never go back."
        )
    intervals = statistics.intervals
    if intervals.asked_ns is not None and intervals.width_ns != intervals.asked_ns:
        asked, width = format_time(intervals.asked_ns), format_time(intervals.width_ns)
        yield f"Intervals of {asked} would be more than there is room for: joined to {width}."
