"""Queue length over time: mean and peak, the set point and the buffer's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ecmproto.report.comparison import measured
from ecmproto.report.palette import ALERT, INK, QUEUE
from ecmproto.report.panels import Panels, TimeAxis, value_axis
from ecmproto.report.reduction import coarse_edges, coarse_means, coarse_peaks, highest
from ecmproto.report.run import Run
from ecmproto.report.scale import greatest, octet_scale
from ecmproto.report.sheet import Entry, Format
from ecmproto.units import format_octets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = (0, (6, 4))
_DOTS = (0, (1, 2.5))
_PEAK_ALPHA = 0.28
_BUFFER_SHOWN = 0.4
"""The buffer's end is on the axis only if some queue reached this share of it."""
_STEPS_BELOW = 60
"""Fewer spans than these are drawn as steps, more as a line through their middles."""


class QueuePanels(Panels):
    """Panels of the queue, all on one scale."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        longest = greatest(
            [*(_longest(run) for run in runs), *(float(run.set_point_octets or 0) for run in runs)]
        )
        near = [float(run.buffer_octets or 0) for run in runs]
        near = [buffer for buffer in near if longest >= _BUFFER_SHOWN * buffer]
        self._top_octets = greatest([longest, *near]) or 1.0
        self._scale = octet_scale(self._top_octets)

    def unit(self, run: Run) -> str:
        """Return the axis' prefixed unit."""
        return self._scale.unit

    def height_px(self, run: Run) -> float:
        """Return the height of the axes."""
        return self.form.panel_px if len(self.runs) > 1 else 1.7 * self.form.panel_px

    def readout(self, run: Run) -> str:
        """Return the run's figures in short."""
        if not len(run.queue.mean_octets):
            return "nothing queued"
        parts = [f"peak {format_octets(greatest([_longest(run)]))}"]
        mean = measured(run, "queue_mean_octets")
        if mean is not None:
            parts.insert(0, f"mean {format_octets(mean)}")
        if run.set_point_octets is not None and not self.form.narrow:
            parts.append(f"set point {format_octets(run.set_point_octets)}")
        if run.buffer_octets is not None and not self.form.narrow:
            parts.append(f"buffer {format_octets(run.buffer_octets)}")
        return " · ".join(parts)

    def entries(self) -> list[Entry]:
        """Return what the lines mean."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        mean = Line2D((), (), color=QUEUE.light, linewidth=1.6)
        peak = Patch(facecolor=QUEUE.light, alpha=_PEAK_ALPHA, linewidth=0)
        entries = [Entry(handle=mean, text="mean"), Entry(handle=peak, text="up to the peak")]
        if any(run.set_point_octets is not None for run in self.runs):
            line = Line2D((), (), color=INK.light, linewidth=1.1, linestyle=_DASHES)
            entries.append(Entry(handle=line, text="set point"))
        if any(self._buffer_is_near(run) for run in self.runs):
            line = Line2D((), (), color=ALERT.light, linewidth=1.6, linestyle=_DOTS)
            entries.append(Entry(handle=line, text="end of the buffer"))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        value_axis(axes, 0, 1.06 * self._top_octets / self._scale.factor, self.form)
        self._draw_curves(axes, run)
        if run.set_point_octets is not None:
            height = run.set_point_octets / self._scale.factor
            axes.axhline(height, color=INK.light, linewidth=1.1, linestyle=_DASHES)
        if self._buffer_is_near(run) and run.buffer_octets is not None:
            height = run.buffer_octets / self._scale.factor
            axes.axhline(height, color=ALERT.light, linewidth=1.6, linestyle=_DOTS)

    def _draw_curves(self, axes: Axes, run: Run) -> None:
        curve, most = run.queue, self.form.spans
        if not len(curve.mean_octets):
            return
        edges = coarse_edges(curve.edges_ns, most) / self.time.scale.factor
        peak = coarse_peaks(curve.peak_octets, most) / self._scale.factor
        mean = coarse_means(curve.edges_ns, curve.mean_octets, most) / self._scale.factor
        axes.stairs(peak, edges, fill=True, color=QUEUE.light, alpha=_PEAK_ALPHA, linewidth=0)
        if len(mean) < _STEPS_BELOW:
            axes.stairs(mean, edges, baseline=None, color=QUEUE.light, linewidth=1.6)
        else:
            axes.plot((edges[1:] + edges[:-1]) / 2, mean, color=QUEUE.light, linewidth=1.4)

    def _buffer_is_near(self, run: Run) -> bool:
        return run.buffer_octets is not None and run.buffer_octets <= self._top_octets


def _longest(run: Run) -> float:
    return max(highest(run.queue.peak_octets), highest(run.queue.mean_octets))
