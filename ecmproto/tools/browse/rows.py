"""Frames as rows of a list: numbers, times in several formats, addresses, kinds and summaries."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Literal, get_args

from ecmproto.frames.dissect.form import Record, seconds_text
from ecmproto.frames.dissect.lines import KIND_STYLES, Lines
from ecmproto.units import NS_PER_S

TimeFormat = Literal["relative", "delta", "delta shown", "utc", "epoch"]
"""Formats of times; ``delta`` is relative to the preceding frame, ``delta shown`` to the one shown."""
TIME_FORMATS: tuple[TimeFormat, ...] = get_args(TimeFormat)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FrameRow:
    """A frame in the list; ``style`` is its type's style (`dissect.form.Paint`), "" for most."""

    number: int
    time_ns: int | None
    addresses: str
    octets: int
    kind: str
    summary: str
    style: str


class Rows:
    """Makes rows of records."""

    def __init__(self) -> None:
        self._lines = Lines()

    def row(self, record: Record) -> FrameRow:
        """Return the row of a frame."""
        addresses, kind, summary = self._lines.parts(record)
        style = "error" if record.frame.error is not None else KIND_STYLES.get(kind, "")
        return FrameRow(
            number=record.number, time_ns=record.time_ns, addresses=addresses, octets=record.original_octets,
            kind=kind, summary=summary, style=style,
        )  # fmt: skip


def time_text(time_ns: int | None, before_ns: int | None, form: TimeFormat) -> str:
    """Return a time in a format; ``before_ns`` is the reference of relative times and deltas."""
    if time_ns is None:
        return "-"
    if form == "epoch":
        return seconds_text(time_ns)
    if form == "utc":
        return time_of_day(time_ns)
    return seconds_text(time_ns - (time_ns if before_ns is None else before_ns))


def time_of_day(time_ns: int) -> str:
    """Return hours, minutes and seconds in UTC; seconds since 1970 for years outside the calendar."""
    seconds, ns = divmod(time_ns, NS_PER_S)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return seconds_text(time_ns)
    return f"{moment:%H:%M:%S}.{ns:09d}"
