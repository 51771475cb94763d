"""What a live device has come to, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ecmproto.errors import counted
from ecmproto.units import NS_PER_S, format_octets, format_rate, format_time
from ecmproto_cli.output import columns_of, paint, pairs

if TYPE_CHECKING:
    from ecmproto.live.device import Snapshot
    from ecmproto.live.link import LinkCounts

_NAMES = 13
_INTEGRAL = "_seconds"
"""What a gauge is called that only means something to whoever takes differences."""
_LINK_FIELDS = (
    ("received", "received_frames"),
    ("sent", "sent_frames"),
    ("overflow", "overflow_frames"),
    ("unsent", "unsent_frames"),
    ("refused", "refused_frames"),
    ("lost", "lost"),
)


def live_table(title: str, elapsed_ns: int, snapshot: Snapshot, links: Mapping[str, LinkCounts]) -> str:
    """Return the summary of a device that ran for ``elapsed_ns``."""
    parts = [paint(f"{title}, {format_time(elapsed_ns)}", "title"), _links(links)]
    rows = [
        (_said(name), _value(name, value))
        for name, value in snapshot.gauges.items()
        if not name.endswith(_INTEGRAL)
    ]
    rows += [(_said(name), str(value)) for name, value in snapshot.counters.items() if value]
    if rows:
        parts.append(pairs(rows, width=_NAMES))
    for heading, counts in (("messages sent", snapshot.messages), ("mechanism", snapshot.mechanism)):
        shown = [(_said(name), str(value)) for name, value in counts.items() if value]
        if shown:
            parts.append(paint(heading, "title") + "\n" + pairs(shown, width=_NAMES))
    return "\n\n".join(parts)


def _links(links: Mapping[str, LinkCounts]) -> str:
    rows = [("", [heading for heading, _ in _LINK_FIELDS])]
    rows += [
        (name, [str(getattr(counts, field)) for _, field in _LINK_FIELDS]) for name, counts in links.items()
    ]
    return columns_of(rows)


def live_line(elapsed_ns: int, span_ns: int, snapshot: Snapshot, before: Snapshot | None) -> str:
    """Return one line about the last ``span_ns``, at whose beginning there was ``before``."""
    parts = [format_time(elapsed_ns).rjust(8)]
    counters = snapshot.counters
    for name, value in counters.items():
        grown = value - (before.counters[name] if before else 0)
        if name.endswith("_octets") and name[: -len("octets")] + "frames" in counters:
            parts.append(f"{_said(name[: -len('_octets')])} {format_rate(8 * grown * NS_PER_S / span_ns)}")
    if "queue_octets" in snapshot.gauges:
        parts.append(f"queue {format_octets(snapshot.gauges['queue_octets'])}")
    sent = sum(snapshot.messages.values()) - (sum(before.messages.values()) if before else 0)
    parts.append(counted(sent, "message"))
    return "  ".join(parts)


def _said(name: str) -> str:
    for unit in ("_bps", "_ns"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def _value(name: str, value: float) -> str:
    if name.endswith("_octets"):
        return format_octets(value)
    if name.endswith("_bps"):
        return format_rate(value)
    if name.endswith("_ns"):
        return format_time(value)
    return f"{value:.4g}"
