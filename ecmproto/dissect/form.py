"""What every form of output has in common: text before the frames, for each frame, and after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ecmproto.capture import CaptureReader
from ecmproto.dissect.record import Record
from ecmproto.units import NS_PER_S

Paint = Callable[[str, str], str]
"""Puts text into a named style: title, name, dim, congestion, pause, tag, error."""


def plain(text: str, style: str) -> str:
    """Return ``text`` as it is: the `Paint` that paints nothing."""
    return text


class Form(Protocol):
    """A way of writing frames out; the three texts, joined, are the whole output."""

    def begin(self, reader: CaptureReader) -> str:
        """Return what stands before the first frame; called once ``reader`` has read up to it."""

    def passed(self, record: Record) -> None:
        """Take note of a frame in front of the next one that is not to be shown."""

    def record(self, record: Record) -> str:
        """Return one frame, with its line ends."""

    def end(self, reader: CaptureReader) -> str:
        """Return what stands behind the last frame."""


class Listing:
    """A form that has frames only, with times that count from the capture's first frame, shown or not."""

    origin_ns: int | None = None
    """The time that times count from."""

    def begin(self, reader: CaptureReader) -> str:
        """Return nothing."""
        return ""

    def passed(self, record: Record) -> None:
        """Count times from it if it is the first."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns

    def end(self, reader: CaptureReader) -> str:
        """Return nothing."""
        return ""


def printable(text: str) -> str:
    """Return ``text`` from a capture without what a terminal would obey or a line could not hold."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def seconds_text(time_ns: int) -> str:
    """Return a time in decimal seconds with nine places, exactly."""
    seconds, ns = divmod(abs(time_ns), NS_PER_S)
    text = f"{seconds}.{ns:09d}"
    return text if time_ns >= 0 else f"-{text}"
