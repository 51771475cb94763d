"""Numbers, times and rates in specifications, checked; and the place of a mistake put in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ecmproto.capture.linux.schedule import BitRate
from ecmproto.capture.linux.schedule import rate_of as scheduled_rate
from ecmproto.craft.recipe import MAX_TIME_NS, Spacing, WireRate
from ecmproto.errors import EncodeError, ParameterError, SpecError, shown
from ecmproto.units import NO_UNIT, NS_PER_S, parse_time


def integer(item: Mapping[str, Any], key: str, default: int, highest: int, where: str) -> int:
    """Return an integer of a document, or its default; SpecError when it is none in 0..highest."""
    value = item.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise SpecError(where=f"{where}.{key}", needed=f"an integer in 0..{highest}", got=shown(value))
    return value


_RATE_CHARACTERS = 24
MAX_TEXT_OCTETS = 65_535
"""The longest comment or name that pcapng has room for."""


def is_text(value: object) -> bool:
    """Return whether a value is text that a capture can hold: UTF-8, and not too long for an option."""
    try:
        return isinstance(value, str) and len(value.encode()) <= MAX_TEXT_OCTETS
    except UnicodeEncodeError:  # JSON can write halves of characters
        return False


def time_of(given: object, where: str) -> int:
    """Return the ns that ``"1us"`` says; SpecError otherwise, also for a number without its unit."""
    needed = "a time such as 15ms, 500us or 1s, in whole ns"
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise SpecError(where=where, needed=needed, got=shown(given))
    try:
        value = parse_time(str(given))
    except ParameterError as error:
        needed = error.needed if error.needed.startswith(NO_UNIT) else needed
        raise SpecError(where=where, needed=needed, got=shown(given)) from None
    if value > MAX_TIME_NS:
        raise SpecError(where=where, needed="less than 2^63 ns", got=shown(given))
    return value


def time_text(ns: int) -> str:
    """Return a time exactly, as `time_of` reads it."""
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns % factor == 0:
            return f"{ns // factor}{unit}"
    return f"{ns}ns"


def rate_of(given: object) -> Spacing:
    """Return the spacing of frames at a rate: ``"1000pps"`` frames, ``"1G"`` bits a second."""
    needed = "frames a second such as 1000pps or 1.5Mpps, or bits a second on the wire such as 1G"
    refusal = SpecError(where="rate", needed=needed, got=shown(given))
    text = given.strip() if isinstance(given, str) else str(given)
    if isinstance(given, bool) or not isinstance(given, int | str) or len(text) > _RATE_CHARACTERS:
        raise refusal
    try:
        asked = scheduled_rate(text)
    except ParameterError:
        raise refusal from None
    return WireRate(asked.rate_bps) if isinstance(asked, BitRate) else NS_PER_S / asked.frames_per_s


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Put the place in the specification in front of what an error inside says."""
    try:
        yield
    except SpecError as error:
        raise SpecError(
            where=f"{where}: {error.where}", needed=error.needed, got=error.got, hint=error.hint
        ) from None
    except EncodeError as error:
        raise SpecError(
            where=f"{where}: {error.layer}.{error.field}", needed=error.needed, got=error.got
        ) from None
