"""Queue length over time: mean and peak, the set point and the buffer's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ecmproto.report.comparison import measured
from ecmproto.report.palette import ALERT, INK, QUEUE
from ecmproto.report.panels import BEYOND, Panels, TimeAxis, value_axis
from ecmproto.report.reduction import coarse_edges, coarse_means, coarse_peaks, drawable, highest
from ecmproto.report.run import Run
from ecmproto.report.scale import Scale, greatest, octet_scale
from ecmproto.report.sheet import Entry, Format
from ecmproto.units import format_octets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = (0, (6, 4))
_DOTS = (0, (1, 2.5))
_PEAK_ALPHA = 0.28
_MARGIN = 1.06
_USUAL_PERCENT, _ABOVE_USUAL, _FAR_BEYOND = 96, 1.25, 2.0
"""What this part of the spans stays under is usual; a scale ends a little above that where peaks go twice as
far, so that they do not flatten everything else."""
_STEPS_BELOW = 60
"""Fewer spans than these are drawn as steps, more as a line through their middles."""


class QueuePanels(Panels):
    """Panels of the queue, each on a scale of its own: queues differ by orders of magnitude.

    A scale reaches to what the queue is nearly all the time; the few spans beyond that, such as the first
    overshoot, are marked at its upper end, and the readout says how far they go.
    """

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__(runs, time, form)
        self._tops = {id(run): self._top_octets(run) for run in runs}

    def _top_octets(self, run: Run) -> float:
        """Return what the run's axis reaches to."""
        longest = greatest([_longest(run), float(run.set_point_octets or 0)]) or 1.0
        peaks = coarse_peaks(run.queue.peak_octets, self.form.spans)
        peaks = peaks[drawable(peaks)]
        if not len(peaks):
            return longest
        usual = greatest([float(np.percentile(peaks, _USUAL_PERCENT)), float(run.set_point_octets or 0)])
        return _ABOVE_USUAL * usual if 0 < _FAR_BEYOND * usual < longest else longest

    def _scale(self, run: Run) -> Scale:
        return octet_scale(self._tops[id(run)])

    def _overshoots(self, run: Run) -> bool:
        return _longest(run) > self._tops[id(run)]

    def unit(self, run: Run) -> str:
        """Return the axis' prefixed unit."""
        return self._scale(run).unit

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
        if run.buffer_octets is not None:
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
        if any(self._overshoots(run) for run in self.runs):
            mark = Line2D((), (), **BEYOND)
            entries.append(Entry(handle=mark, text="beyond the scale"))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        top, factor = self._tops[id(run)], self._scale(run).factor
        value_axis(axes, 0, _MARGIN * top / factor, self.form)
        self._draw_curves(axes, run)
        if run.set_point_octets is not None:
            axes.axhline(run.set_point_octets / factor, color=INK.light, linewidth=1.1, linestyle=_DASHES)
        if self._buffer_is_near(run) and run.buffer_octets is not None:
            axes.axhline(run.buffer_octets / factor, color=ALERT.light, linewidth=1.6, linestyle=_DOTS)

    def _draw_curves(self, axes: Axes, run: Run) -> None:
        curve, most = run.queue, self.form.spans
        if not len(curve.mean_octets):
            return
        top, factor = _MARGIN * self._tops[id(run)] / self._scale(run).factor, self._scale(run).factor
        edges = coarse_edges(curve.edges_ns, most) / self.time.scale.factor
        peak = coarse_peaks(curve.peak_octets, most) / factor
        mean = coarse_means(curve.edges_ns, curve.mean_octets, most) / factor
        middles = (edges[1:] + edges[:-1]) / 2
        axes.stairs(
            np.minimum(peak, top), edges, fill=True, color=QUEUE.light, alpha=_PEAK_ALPHA, linewidth=0
        )
        if len(mean) < _STEPS_BELOW:
            axes.stairs(mean, edges, baseline=None, color=QUEUE.light, linewidth=1.6)
        else:
            axes.plot(middles, mean, color=QUEUE.light, linewidth=1.4)
        if self._overshoots(run):
            beyond = middles[peak > top]
            axes.plot(beyond, np.full(len(beyond), top), clip_on=False, **BEYOND)

    def _buffer_is_near(self, run: Run) -> bool:
        return run.buffer_octets is not None and run.buffer_octets <= _MARGIN * self._tops[id(run)]


def _longest(run: Run) -> float:
    return max(highest(run.queue.peak_octets), highest(run.queue.mean_octets))
