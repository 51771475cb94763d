"""Completion times and slowdowns by flow size, over all seeds of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ecmproto.control.lab.model import Pattern
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.units import format_octets, format_time

HEADINGS = ("size", "flows", "median", "99 %", "slowdown", "99 %")
"""Column headings of tables by flow size: medians and 99th percentiles of completion times and slowdowns."""
_MAX_OCTETS = 10**15
_BORDERS_OCTETS = (0, *(10**power for power in range(3, 9)), _MAX_OCTETS)


class Size(NamedTuple):
    """Size class of flows, above ``low_octets`` and up to ``high_octets``, with percentiles."""

    low_octets: int
    high_octets: int
    flows: int
    fct_p50_ns: float
    fct_p99_ns: float
    slowdown_p50: float
    slowdown_p99: float

    @property
    def up_to(self) -> str:
        """The upper limit as text."""
        return "any size" if self.high_octets == _MAX_OCTETS else format_octets(self.high_octets)

    def cells(self) -> tuple[str, ...]:
        """Return the cells under `HEADINGS`."""
        size = f"{format_octets(self.low_octets)} to {format_octets(self.high_octets)}"
        if self.high_octets == _MAX_OCTETS:
            size = f"above {format_octets(self.low_octets)}"
        elif not self.low_octets:
            size = f"up to {format_octets(self.high_octets)}"
        times = (format_time(self.fct_p50_ns), format_time(self.fct_p99_ns))
        return size, f"{self.flows:,}", *times, f"{self.slowdown_p50:.4g}", f"{self.slowdown_p99:.4g}"


def by_size(runs: Sequence[RunFigures]) -> list[Size]:
    """Return the size classes of flows that ended in the measured time of ``runs``."""
    parts = []
    for run in runs:
        transactions = {
            flow.name for flow in run.result.experiment.flows if flow.pattern is Pattern.TRANSACTIONS
        }
        for flow in run.result.flows:
            if flow.completed.any() and flow.name not in transactions:
                took_ns, octets = run.completions(flow, (run.from_ns, run.until_ns))
                parts.append((octets, took_ns, run.slowdowns(flow, took_ns, octets)))
    if not parts:
        return []
    octets, took_ns, slowdowns = (np.concatenate(column) for column in zip(*parts, strict=True))
    sizes = []
    for low, high in pairwise(_BORDERS_OCTETS):
        own = (octets > low) & (octets <= high)
        if own.any():
            percentiles = (np.percentile(values[own], (50, 99)) for values in (took_ns, slowdowns))
            sizes.append(Size(low, high, int(own.sum()), *np.concatenate([*percentiles]).tolist()))
    return sizes
