"""Selection of frames of a capture by number and by time, and the tags to insert."""

from __future__ import annotations

import dataclasses
import datetime
import re

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.frames.capture import Batch
from ecmproto.units import NS_PER_S, parse_time
from ecmproto.wire.codec.document import format_named, layer_from
from ecmproto.wire.codec.tags import is_tag
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import FORMATS

_RANGE = re.compile(r"([1-9][0-9]{0,17})?(-)?([1-9][0-9]{0,17})?")
_SECONDS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,9}))?")
_LAST = (1 << 62) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frames:
    """The frames whose numbers, from 1, are in one of the ``ranges``; ranges include both ends."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def last(self) -> int:
        """Highest frame number in the ranges."""
        return max(last for _, last in self.ranges)

    def mask(self, batch: Batch) -> NDArray[np.bool_]:
        """Return a mask of the frames of a batch that are in the ranges."""
        numbers = batch.numbers + 1
        mask = np.zeros(len(batch), np.bool_)
        for first, last in self.ranges:
            mask |= (numbers >= first) & (numbers <= last)
        return mask


def frames_from(text: str) -> Frames:
    """Return the frames for a text such as ``100-200,300-``.

    A range is ``n-m``, ``n``, ``n-`` or ``-n``. Raises SpecError for an invalid range.
    """
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or not any(match.groups()) or match[0] == "-":
            raise SpecError(
                where="--frames", needed="frame numbers from 1 on, such as 100-200,300-", got=shown(text)
            )
        first = int(match[1] or 1)
        last = int(match[3] or _LAST) if match[2] else first
        if last < first:
            raise SpecError(where="--frames", needed="ranges that do not end before their start", got=part)
        ranges.append((first, last))
    return Frames(tuple(ranges))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time in ns since 1970, or in ns since the first frame of a capture."""

    ns: int
    since_first: bool


def moment_from(text: str, option: str) -> Moment:
    """Return the time for a text: ``1.5s`` since the first frame, seconds since 1970, or ISO 8601.

    Raises SpecError, with the name ``option``, for any other text.
    """
    text = text.strip()
    seconds = _SECONDS.fullmatch(text)
    if seconds is not None:
        ns = int(seconds[1]) * NS_PER_S + int((seconds[2] or "").ljust(9, "0"))
        return Moment(ns=ns, since_first=False)
    try:
        return Moment(ns=parse_time(text.removeprefix("+")), since_first=True)
    except ParameterError:
        pass
    try:
        date, _, fraction = text.partition(".")
        digits = re.match("[0-9]*", fraction)
        assert digits is not None
        when = datetime.datetime.fromisoformat(date + fraction[digits.end() :])
        if len(digits[0]) > 9 or ("." in text and not digits[0]):
            raise ValueError
    except ValueError:
        needed = "1.5s after the first frame, seconds since 1970, or a time such as 2026-01-31T12:00:00.5Z"
        raise SpecError(where=option, needed=needed, got=shown(text)) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    since = when - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    ns = (since.days * 86_400 + since.seconds) * NS_PER_S + int(digits[0].ljust(9, "0") or 0)
    return Moment(ns=ns, since_first=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The frames from time ``start`` to before time ``stop``; ``None`` means no limit."""

    start: Moment | None = None
    stop: Moment | None = None

    def mask(self, batch: Batch, first_ns: int) -> NDArray[np.bool_]:
        """Return a mask of the frames of a batch that are within the span.

        A frame without a time is never within the span. ``first_ns`` is the time of the capture's first
        frame.
        """
        mask = np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed.copy()
        if self.start is not None:
            mask &= batch.time_ns >= _clamped(self.start, first_ns)
        if self.stop is not None:
            mask &= batch.time_ns < _clamped(self.stop, first_ns)
        return mask


def _clamped(moment: Moment, first_ns: int) -> int:
    ns = moment.ns + (first_ns if moment.since_first else 0)
    return min(ns, (1 << 63) - 1)


def span_from(start: str | None, stop: str | None) -> Span | None:
    """Return the span between two times; ``None`` if no time is given.

    Either time may be ``None``. Raises SpecError for an invalid time.
    """
    if start is None and stop is None:
        return None
    return Span(
        start=None if start is None else moment_from(start, "--from"),
        stop=None if stop is None else moment_from(stop, "--to"),
    )


def tag_named(name: str, *, where: str = "--strip") -> type[Layer]:
    """Return the tag format called ``name``; raise SpecError, with the known tags, for any other name."""
    kind = format_named(name.strip(), where=where)
    if not is_tag(kind):
        tags = ", ".join(each.prefix for each in FORMATS if is_tag(each))
        raise SpecError(where=where, needed=f"a tag: {tags}", got=shown(name))
    return kind


def name_and_values(text: str, *, where: str, needed: str) -> tuple[str, dict[str, str]]:
    """Return the first word of a text such as ``vlan id=5,priority=3``, and the values by key.

    Raises SpecError for a word without ``=``, and for a repeated key.
    """
    name, *words = text.replace(",", " ").split() or [""]
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in {"layer", *values}:  # the first word names the layer
            raise SpecError(where=where, needed=needed, got=shown(word))
        values[key] = value
    return name, values


def tag_from(text: str) -> Layer:
    """Return the tag for a text such as ``vlan id=5 priority=3``.

    Raises SpecError for an unknown tag, and EncodeError for an invalid value.
    """
    name, values = name_and_values(text, where="--add-tag", needed="each field once, such as id=5")
    layer, _ = layer_from({"layer": tag_named(name, where="--add-tag").prefix, **values}, where="--add-tag")
    layer.build()
    return layer
