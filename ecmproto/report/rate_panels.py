"""Rates of the flows: what they sent and may send, and what of it left the port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ecmproto.report.palette import MUTED, OTHERS, LineStyle, line_style
from ecmproto.report.panels import Panels, TimeAxis, value_axis
from ecmproto.report.reduction import Floats, coarse_edges, coarse_means, highest
from ecmproto.report.run import FlowCurves, Run
from ecmproto.report.scale import greatest, rate_scale
from ecmproto.report.sheet import Entry, Format

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKS = 7
"""How many markers a line has along the whole axis."""
_DOTS = (0, (1, 1.6))


class RatePanels(Panels):
    """Panels of rates on one scale; a flow has the same line in every one of them."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if any(len(flow.sent_bps) for flow in run.flows)], time, form)
        labels = dict.fromkeys(flow.label for run in self.runs for flow in run.flows)
        self._places = {label: place for place, label in enumerate(labels)}
        drawn = [self._drawn(flow, self._curve(flow)) for run in self.runs for flow in run.flows]
        self._top_bps = greatest(map(highest, drawn)) or 1.0
        self._scale = rate_scale(self._top_bps)

    def unit(self, run: Run) -> str:
        """Return the axis' prefixed unit."""
        return self._scale.unit

    def height_px(self, run: Run) -> float:
        """Return the height of the axes."""
        return 1.15 * self.form.panel_px

    def entries(self) -> list[Entry]:
        """Return what the lines mean."""
        from matplotlib.lines import Line2D

        return [
            Entry(handle=Line2D((), (), **_line(self._style(label))), text=label) for label in self._places
        ]

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        value_axis(axes, 0, 1.06 * self._top_bps / self._scale.factor, self.form)
        for flow in run.flows:
            self._draw(axes, flow, self._curve(flow))

    def _draw(self, axes: Axes, flow: FlowCurves, values: Floats, **look: Any) -> None:
        edges = coarse_edges(flow.edges_ns, self.form.spans) / self.time.scale.factor
        rates = self._drawn(flow, values) / self._scale.factor
        step = max(1, len(rates) // _MARKS)
        start = step * self._places[flow.label] // max(1, len(self._places))
        line = _line(self._style(flow.label)) | {"markevery": (min(start, len(rates) - 1), step)} | look
        if len(rates):
            axes.plot((edges[1:] + edges[:-1]) / 2, rates, **line)

    def _curve(self, flow: FlowCurves) -> Floats:
        return flow.delivered_bps

    def _drawn(self, flow: FlowCurves, values: Floats) -> Floats:
        return coarse_means(flow.edges_ns, values, self.form.spans)

    def _style(self, label: str) -> LineStyle:
        if label.casefold().startswith("others"):
            return LineStyle(colour=OTHERS, marker="")
        return line_style(self._places[label])


class SentPanels(RatePanels):
    """Panels of what the flows sent, with the limits that reaction points set; one if all sent the same."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._alike = len(self.runs) > 1 and all(_sent_alike(self.runs[0], run) for run in self.runs[1:])
        if self._alike:
            self.runs = self.runs[:1]

    def title(self, run: Run) -> str:
        """Return whose panel it is."""
        return "All runs" if self._alike else ""

    def entries(self) -> list[Entry]:
        """Return what the lines mean."""
        from matplotlib.lines import Line2D

        entries = super().entries()
        if any(flow.limit_bps is not None for run in self.runs for flow in run.flows):
            line = Line2D((), (), color=MUTED.light, linewidth=1.3, linestyle=_DOTS)
            entries.append(Entry(handle=line, text="dotted: the flow's rate limit"))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        super().draw(axes, run)
        for flow in run.flows:
            if flow.limit_bps is not None:
                self._draw(axes, flow, flow.limit_bps, linestyle=_DOTS, marker="", linewidth=1.3)

    def _curve(self, flow: FlowCurves) -> Floats:
        return flow.sent_bps


def _line(style: LineStyle) -> dict[str, Any]:
    return {
        "color": style.colour.light,
        "marker": style.marker,
        "markersize": 6,
        "markeredgewidth": 0,
        "linewidth": 1.4,
    }


def _sent_alike(one: Run, other: Run) -> bool:
    return [flow.label for flow in one.flows] == [flow.label for flow in other.flows] and all(
        a.limit_bps is None
        and b.limit_bps is None
        and np.array_equal(a.edges_ns, b.edges_ns)
        and np.array_equal(a.sent_bps, b.sent_bps, equal_nan=True)
        for a, b in zip(one.flows, other.flows, strict=True)
    )
