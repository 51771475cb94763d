"""What `send` says of what it sent."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ecmproto.units import format_octets, format_rate, format_time
from ecmproto_cli.output import pairs

if TYPE_CHECKING:
    from ecmproto.capture.linux.sender import GapCounts, Jitter, Sendable, SendReport, Spacing

SCHEMA = "ecmproto/send/1"
_NAMES = 9
_SHORT = 0.995
"""A rate that is reached to less than this is said to have been missed."""


def report_table(report: SendReport) -> str:
    """Return the report for a person."""
    return pairs(report_rows(report), width=_NAMES)


def report_rows(report: SendReport) -> list[tuple[str, str]]:
    """Return what the report says, by name."""
    told = f"{_frames(report.frames)}, {format_octets(report.octets)}, out of {report.interface}"
    rows = [("sent", told), ("asked", report.asked)]
    if report.rate_fps is not None and report.rate_bps is not None:
        reached = f"{report.rate_fps:,.6g} frames/s, {format_rate(report.rate_bps)} on the wire"
        if report.reached is not None and report.reached < _SHORT:
            reached += f": {report.reached:.1%} of what was asked"
        rows += [("reached", reached), ("time", format_time(report.duration_ns))]
    if report.jitter is not None:
        rows.append(("jitter", f"{_distribution(report.jitter)} late"))
    if report.spacing is not None and report.gaps is None:  # which tell what matters of a storm
        rows.append(("apart", _distribution(report.spacing)))
    if report.gaps is not None:
        rows.append(("held", _held(report.gaps)))
        if report.gaps.skipped:
            rows.append(("left out", f"{_frames(report.gaps.skipped)} that would have come too late"))
    if report.full:
        rows.append(("no room", f"{report.full:,} times, tried again"))
    if report.down:
        rows.append(("link down", f"{report.down:,} times, tried again"))
    if report.refused is not None:
        rows.append(("refused", _frames(report.refused.frames)))
    return rows


def _distribution(of: Jitter | Spacing) -> str:
    values = (("p50", of.p50_ns), ("p99", of.p99_ns), ("max", of.max_ns))
    return ", ".join(f"{name} {format_time(value)}" for name, value in values)


def _held(gaps: GapCounts) -> str:
    """Return whether each frame came before the pause of the one before it was over."""
    limit, longest = format_time(gaps.limit_ns), format_time(gaps.longest_ns)
    if not gaps.longer:
        return f"all the time: longest gap {longest}, a pause is {limit}"
    times = "once" if gaps.longer == 1 else f"{gaps.longer:,} times"
    return (
        f"not all the time: {times} a gap of more than {limit}, the longest {longest}; "
        f"up to {format_time(gaps.excess_ns)} free to run"
    )


def _frames(count: int) -> str:
    return "1 frame" if count == 1 else f"{count:,} frames"


def report_document(report: SendReport, sendable: Sendable | None = None) -> dict[str, object]:
    """Return the report as plain data; ``sendable`` says what of a capture was not sent as it is."""
    return {
        "schema": SCHEMA,
        **dataclasses.asdict(report),
        "rate_fps": report.rate_fps,
        "rate_bps": report.rate_bps,
        "reached": report.reached,
        "other_link_types": sendable.foreign if sendable is not None else 0,
        "cut": sendable.cut if sendable is not None else 0,
    }
