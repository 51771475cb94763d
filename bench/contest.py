"""Measurements of contenders, which run alternately, so that changes of the machine's speed affect all
contenders.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Mapping

ROUNDS = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The result of a contender: the median, minimum and maximum of the rounds."""

    median: float
    least: float
    most: float


def processor_s() -> float:
    """Return the processor time of this process and of its ended children, in seconds."""
    return sum(os.times()[:4])


def rates(
    contenders: Mapping[str, Callable[[], int]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Figure]:
    """Return the rate of each contender in items per second; a call returns the number of processed items."""
    seen: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()  # caches, lazy imports, compilation
    for _ in range(rounds):
        for name, work in contenders.items():
            start = clock()
            done = work()
            seen[name].append(done / (clock() - start))
    return {
        name: Figure(median=statistics.median(values), least=min(values), most=max(values))
        for name, values in seen.items()
    }


def show(title: str, figures: Mapping[str, Figure], unit: str) -> None:
    """Print the rates of the contenders, and the ratio of the first contender, ecmproto, to each other
    contender.
    """
    ours = next(iter(figures.values()))
    print(f"\n{title}")
    width = max(len(name) for name in figures)
    for name, figure in figures.items():
        ratio = "" if figure is ours else f"ecmproto is {ours.median / figure.median:8.2f} ×"
        spread = f"({figure.least:,.0f}–{figure.most:,.0f})"
        print(f"  {name.ljust(width)} {figure.median:>14,.0f} {unit:<9} {spread:<26} {ratio}")
