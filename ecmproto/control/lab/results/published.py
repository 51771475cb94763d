"""Published figures as numbers: numbers printed in a document, for comparison with measured values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ecmproto.control.lab.setup.figures import Dimension, parse_value
from ecmproto.errors import ParameterError

READING = 0.1
"""Accuracy of a published number; most published numbers are rounded, or are read off plots."""
_STATED = re.compile(r"(?:(less than|convergence <)|(more than)|about|around)?\s*(?=\d)(.*)")
_NUMBER = re.compile(r"\d(?:[\d,.]*\d)?")
_UNIT = re.compile(r"(?<=[\d+])\s*(%|[kMGT]?b/s|[kM]?B|[µmn]?s)(?!\w)")


def published_ratios(text: str, dimension: Dimension, values: Sequence[float]) -> tuple[float, ...]:
    """Return measured values divided by the numbers of a published text; a kept limit gives 1.

    Return no ratios unless the text has one number for each value or one number for all. Text in parentheses
    is ignored.
    """
    stated = _STATED.match(text.partition("(")[0])
    if stated is None:
        return ()
    below, above, rest = stated.groups()
    unit = _UNIT.search(rest)
    try:
        numbers = [
            parse_value(number.replace(",", "") + (unit[1] if unit else ""), dimension)
            for number in _NUMBER.findall(rest)
        ]
    except ParameterError:
        return ()
    if len(numbers) not in (1, len(values)) or any(map(math.isnan, values)):
        return ()
    numbers = numbers * (len(values) // len(numbers))
    ratios = (_ratio(value, number) for value, number in zip(values, numbers, strict=True))
    above = above or "+" in rest
    return tuple(1.0 if (below and ratio < 1) or (above and ratio > 1) else ratio for ratio in ratios)


def _ratio(value: float, number: float) -> float:
    return value / number if number else 1.0 if not value else math.inf


def are_met(ratios: Sequence[float]) -> bool:
    """Return whether all values match the published numbers within `READING`."""
    return all(abs(ratio - 1) < READING + 1e-9 for ratio in ratios)
