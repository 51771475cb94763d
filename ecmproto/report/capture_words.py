"""The texts of a report on what is in a capture."""

from __future__ import annotations

from collections.abc import Mapping

from ecmproto.formats.text import mac_text
from ecmproto.report.capture_figures import Name
from ecmproto.report.scale import value_text
from ecmproto.stats import ClassPause, Statistics
from ecmproto.units import format_octets, format_rate, format_time

READING: Mapping[Name, str] = {
    "rate": (
        "Octets of frames as they were on the wire, times eight. The line is the mean of each short span "
        "of time, the shaded area reaches up to the peak in it."
    ),
    "pauses": (
        "For how much of each short span of time a pause was in force; the figure at the right is the part "
        "of the whole capture. Whoever is named sent the pause frames: who stood still is the other end of "
        "the link. No drop counter shows this time."
    ),
    "kinds": "Congestion messages and pause frames a second, kind by kind.",
    "points": "Congestion notification messages a second of the congestion points that sent most.",
    "feedback": (
        "How strongly CNMs asked for less, from 0 to 63. The farther to the right, the more congested the "
        "queues were when they were sampled."
    ),
    "advertised": (
        "The rates that switches allow rate-limited queues, as RD tags collect them and as they come back; "
        "tags that no switch has lowered yet are not drawn."
    ),
    "latency": (
        "The time that forward probes took, as the replies carry it: the destination's clock less the "
        "source's timestamp, so a difference of the two clocks is in it."
    ),
}
"""How to read each panel."""


def extent(statistics: Statistics) -> str:
    """Return how much there is in the capture."""
    frames = value_text(statistics.frames, "frames")
    if not statistics.frames:
        return "There is no frame in it."
    size = f"{frames} frames, {format_octets(statistics.octets)}"
    rate = statistics.span.per_second(8 * statistics.octets)
    if rate is not None:
        size += f" in {format_time(statistics.span.duration_ns)} ({format_rate(rate)})"
    return f"{size}."


def lost_to_pause(statistics: Statistics) -> str:
    """Return a sentence on what the worst sender of pauses cost; nothing where nobody paused."""
    if statistics.pauses is None or not statistics.pauses.senders[0].paused_ns:
        return ""
    sender = statistics.pauses.senders[0]
    worst = max(sender.classes, key=lambda each: each.paused_ns)
    share = statistics.share(sender.paused_ns)
    part = "" if share is None else f"{value_text(share, 'share')} of the time, "
    source = "a sender" if sender.source is None else mac_text(sender.source)
    most = ", most of all" if worst.paused_ns != sender.paused_ns else ""
    stopped = f"{source} stopped its link partner{most}: {whom(worst)}"
    return f"Lost to pause: {part}{format_time(sender.paused_ns)}. {stopped[0].upper()}{stopped[1:]}."


def whom(each: ClassPause) -> str:
    """Return whom pauses of a class stop."""
    return "the whole link" if each.priority is None else f"priority {each.priority}"
