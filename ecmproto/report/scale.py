"""Prefixes for axes and texts for measures: what a person reads instead of octets, bit/s and ns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ecmproto.report.run import Measure, Unit
from ecmproto.units import NS_PER_S, format_index, format_octets, format_rate, format_time

ABSENT = "–"
"""What stands for a value that is no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How an axis is labelled: values are divided by ``factor`` and are then in ``unit``."""

    factor: float
    unit: str


def octet_scale(greatest: float) -> Scale:
    """Return the scale on which octets up to ``greatest`` are read best."""
    return _prefixed(greatest, "B")


def rate_scale(greatest: float) -> Scale:
    """Return the scale on which bit/s up to ``greatest`` are read best."""
    return _prefixed(greatest, "b/s")


def time_scale(span_ns: float) -> Scale:
    """Return the scale on which a time axis of ``span_ns`` is read best."""
    for unit, factor in (("s", NS_PER_S), ("ms", 10**6), ("µs", 10**3)):
        if span_ns >= factor:
            return Scale(factor=factor, unit=unit)
    return Scale(factor=1, unit="ns")


def labelled_scale(label: str, greatest: float) -> tuple[str, Scale]:
    """Split ``label`` ("Fb (octets)") into what it names and the scale for values up to ``greatest``."""
    match = _IN_PARENTHESES.fullmatch(label.strip())
    if match is None:
        return label.strip(), Scale(factor=1, unit="")
    name, unit = match.groups()
    scale = _SCALES.get(unit)
    return name, scale(greatest) if scale else Scale(factor=1, unit=unit)


_IN_PARENTHESES = re.compile(r"(.*?)\s*\(([^()]+)\)")
_SCALES: dict[str, Callable[[float], Scale]] = {
    "octets": octet_scale,
    "bit/s": rate_scale,
    "ns": time_scale,
}


def _prefixed(greatest: float, unit: str) -> Scale:
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if greatest >= factor:
            return Scale(factor=factor, unit=f"{prefix}{unit}")
    return Scale(factor=1, unit=unit)


def measure_text(measure: Measure) -> str:
    """Return a measure's value with its unit for a person; ``ABSENT`` if it is no number."""
    return value_text(measure.value, measure.unit)


def value_text(value: float, unit: Unit) -> str:
    """Return ``value`` with its unit for a person; ``ABSENT`` if it is no number."""
    return _TEXTS[unit](value) if finite(value) else ABSENT


def finite(value: float) -> bool:
    """Return whether ``value`` is a number that can be shown and compared."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def greatest(values: Iterable[float]) -> float:
    """Return the greatest finite one of ``values``, at least 0."""
    return max((value for value in values if finite(value)), default=0.0)


def _grouped(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if value % 1 else f"{value:,.0f}"


def _share(value: float) -> str:
    percent = 100 * value
    decimals = 0 if percent in (0, 100) else 1 if abs(percent) >= 1 else 3
    return f"{percent:.{decimals}f} %"


_TEXTS: dict[Unit, Callable[[float], str]] = {
    "octets": format_octets,
    "frames": _grouped,
    "bit/s": format_rate,
    "ns": format_time,
    "share": _share,
    "index": format_index,
    "count": _grouped,
}
