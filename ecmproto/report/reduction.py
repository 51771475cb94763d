"""Curves and points reduced to what a figure can show, so that its size does not grow with the capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


_LARGEST = 1e30
"""Greater values are no measurements, and sums of them overflow: they are left out like NaN."""


def drawable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of ``values`` are numbers that a figure can show."""
    with np.errstate(invalid="ignore"):
        small: NDArray[np.bool_] = np.abs(values) <= _LARGEST
    return small


def highest(values: NDArray[Any]) -> float:
    """Return the greatest drawable one of ``values``; 0 if there is none."""
    return float(values.max(initial=0.0, where=drawable(values)))


def _starts(slots: int, most: int) -> Integers:
    return np.arange(0, slots, max(1, -(-slots // most)), dtype=np.int64)


def coarse_edges(edges_ns: Integers, most: int) -> Floats:
    """Return the edges that are left when neighbouring slots are joined into at most ``most``."""
    slots = max(0, len(edges_ns) - 1)
    if not slots:
        return np.empty(0)
    edges: Floats = np.append(edges_ns[_starts(slots, most)], edges_ns[-1]).astype(np.float64)
    return edges


def coarse_means(edges_ns: Integers, values: NDArray[Any], most: int) -> Floats:
    """Return the means over the joined slots, weighted by their lengths; NaN where no slot has a number."""
    if not len(values):
        return np.empty(0)
    starts = _starts(len(values), most)
    known = drawable(values)
    weight = np.where(known, np.maximum(np.diff(edges_ns), 1), 0).astype(np.float64)
    sums = np.add.reduceat(np.where(known, values, 0.0) * weight, starts)
    weights = np.add.reduceat(weight, starts)
    means: Floats = np.full(len(starts), np.nan)
    np.divide(sums, weights, out=means, where=weights > 0)
    return means


def coarse_peaks(values: NDArray[Any], most: int) -> Floats:
    """Return the greatest number of each group of joined slots; NaN where there is none."""
    if not len(values):
        return np.empty(0)
    floor = np.where(drawable(values), values, -np.inf)
    peaks: Floats = np.maximum.reduceat(floor, _starts(len(values), most))
    peaks[np.isneginf(peaks)] = np.nan
    return peaks


def bin_of(time_ns: Integers, duration_ns: int, bins: int) -> Integers:
    """Return in which of ``bins`` equal spans of the run each time lies; times outside go to the ends."""
    position = time_ns.astype(np.float64) * (bins / max(1, duration_ns))
    return np.clip(position, 0, bins - 1).astype(np.int64)


def bin_centres(duration_ns: int, bins: int) -> Floats:
    """Return the middle of each of ``bins`` equal spans of the run, in ns."""
    centres: Floats = (np.arange(bins, dtype=np.float64) + 0.5) * (max(1, duration_ns) / bins)
    return centres


def extremes(time_ns: Integers, values: Floats, duration_ns: int, bins: int) -> tuple[Floats, Floats]:
    """Return the points as they are, or if they are many the least and the greatest one of each span."""
    known = drawable(values)
    time, values = time_ns[known].astype(np.float64), values[known].astype(np.float64)
    if len(values) <= 2 * bins:
        return time, values
    place = bin_of(time_ns[known], duration_ns, bins)
    order = np.lexsort((values, place))
    first = np.flatnonzero(np.diff(place[order], prepend=-1))
    last = np.append(first[1:], len(order)) - 1
    kept = np.unique(order[np.concatenate((first, last))])
    return time[kept], values[kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A span of time in which something was stopped."""

    start_ns: int
    end_ns: int


def paused_shares(pauses: Sequence[Pause], duration_ns: int, bins: int) -> Floats:
    """Return the share of each span of the run in which at least one of ``pauses`` lasted."""
    edges = np.linspace(0.0, float(max(1, duration_ns)), bins + 1)
    starts, ends = _merged(pauses)
    if not len(starts):
        return np.zeros(bins)
    paused = np.concatenate(([0.0], np.cumsum(ends - starts)))
    times = np.stack((starts, ends), axis=1).ravel()
    until = np.stack((paused[:-1], paused[1:]), axis=1).ravel()
    shares: Floats = np.diff(np.interp(edges, times, until)) / np.diff(edges)
    return shares.clip(0.0, 1.0)


def shares_of(edges_ns: Integers, stopped_ns: Floats, duration_ns: int, bins: int) -> Floats:
    """Return the share of each of ``bins`` equal spans of the run that ``stopped_ns`` of slots makes up."""
    edges = np.linspace(0.0, float(max(1, duration_ns)), bins + 1)
    if not len(stopped_ns):
        return np.zeros(bins)
    until = np.concatenate(([0.0], np.cumsum(stopped_ns)))
    shares: Floats = np.diff(np.interp(edges, edges_ns.astype(np.float64), until)) / np.diff(edges)
    return shares.clip(0.0, 1.0)


def _merged(pauses: Sequence[Pause]) -> tuple[Floats, Floats]:
    """Return starts and ends of the spans, those that overlap joined."""
    spans = np.array(sorted((p.start_ns, max(p.start_ns, p.end_ns)) for p in pauses), dtype=np.float64)
    if not len(spans):
        return np.empty(0), np.empty(0)
    reach = np.maximum.accumulate(spans[:, 1])
    new = np.append(True, spans[1:, 0] > reach[:-1])
    last = np.append(np.flatnonzero(new)[1:], len(spans)) - 1
    return spans[new, 0], reach[last]
