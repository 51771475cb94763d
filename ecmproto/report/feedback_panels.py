"""The feedback that a congestion point computed, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import counted
from ecmproto.report.palette import INK, LineStyle, line_style
from ecmproto.report.panels import BEYOND, Panels, TimeAxis, value_axis
from ecmproto.report.reduction import drawable, extremes
from ecmproto.report.run import Run
from ecmproto.report.scale import Scale, labelled_scale
from ecmproto.report.sheet import Entry, Format

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RATE = "(bit/s)"
"""What ends the label of feedback that is a rate: it stays in force until the next."""
_USUAL_PERCENT, _ABOVE_USUAL, _FAR_BEYOND = 95, 1.5, 1.5
"""How many of the values are usual at either end, and how far a scale reaches beyond them at least."""
_DOTTED_BELOW = 160
"""Fewer points than these get a dot at their tip."""


class FeedbackPanels(Panels):
    """Panels of the feedback; mechanisms measure different things, so each run has its own scale."""

    def __init__(self, runs: Sequence[Run], time: TimeAxis, form: Format) -> None:
        super().__init__([run for run in runs if drawable(run.feedback.value).any()], time, form)
        self._ends = {id(run): _ends(run) for run in self.runs}
        priorities = [np.unique(run.feedback.priority) for run in self.runs]
        self._priorities: list[int] = np.unique(np.concatenate(priorities)).tolist() if priorities else []

    def unit(self, run: Run) -> str:
        """Return the axis' prefixed unit."""
        return self._label(run)[1].unit

    def readout(self, run: Run) -> str:
        """Return the run's figures in short."""
        return f"{self._label(run)[0]} · {counted(len(run.feedback.value), 'sample')}"

    def entries(self) -> list[Entry]:
        """Return what the lines mean."""
        from matplotlib.lines import Line2D

        several = self._priorities if len(self._priorities) > 1 else []
        entries = [
            Entry(handle=Line2D((), (), **_line(self._style(priority))), text=_priority_text(priority))
            for priority in several
        ]
        if any(self._beyond(run, run.feedback.value).any() for run in self.runs):
            entries.append(Entry(handle=Line2D((), (), **BEYOND), text="beyond the scale"))
        return entries

    def draw(self, axes: Axes, run: Run) -> None:
        """Draw the run's panel."""
        scale = self._label(run)[1]
        least, most = (end / scale.factor for end in self._ends[id(run)])
        margin = 0.07 * (most - least) or 1.0
        bottom, top = least - margin * (least < 0), most + margin * (most > 0 or least == 0)
        value_axis(axes, bottom, top, self.form)
        axes.axhline(0, color=INK.light, linewidth=0.8)
        for priority in self._priorities:
            chosen = run.feedback.priority == priority
            time, values = extremes(
                run.feedback.time_ns[chosen],
                run.feedback.value[chosen],
                self.time.span_ns,
                self.form.spans,
            )
            across, upward = time / self.time.scale.factor, (values / scale.factor).clip(bottom, top)
            beyond = self._beyond(run, values)
            for end, mark in ((bottom, "v"), (top, "^")):
                there = across[beyond & (upward == end)]
                if len(there):
                    axes.plot(there, np.full(len(there), end), clip_on=False, **BEYOND | {"marker": mark})
            if run.feedback_label.endswith(_RATE):
                axes.step(across, upward, where="post", **_line(self._style(priority)) | {"marker": ""})
            else:
                self._needles(axes, across, upward, self._style(priority))

    def _needles(
        self, axes: Axes, time: NDArray[np.float64], values: NDArray[np.float64], style: LineStyle
    ) -> None:
        """Draw a line from 0 to each value, all in one path."""
        gap = np.full(len(time), np.nan)
        across = np.stack((time, time, gap), axis=1).ravel()
        upward = np.stack((np.zeros(len(time)), values, gap), axis=1).ravel()
        axes.plot(across, upward, color=style.colour.light, linewidth=0.9, solid_capstyle="butt")
        if len(self._priorities) > 1 or len(values) < _DOTTED_BELOW:
            axes.plot(time, values, **_line(style) | {"linestyle": "none", "markersize": 3})

    def _beyond(self, run: Run, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which values lie beyond the scale."""
        least, most = self._ends[id(run)]
        margin = 0.07 * (most - least)
        beyond: NDArray[np.bool_] = drawable(values) & ((values < least - margin) | (values > most + margin))
        return beyond

    def _label(self, run: Run) -> tuple[str, Scale]:
        return labelled_scale(run.feedback_label, max(map(abs, self._ends[id(run)])))

    def _style(self, priority: int) -> LineStyle:
        # Of the priority alone, so that it has one colour in every report.
        return line_style(priority + 1)


def _ends(run: Run) -> tuple[float, float]:
    """Return from where to where the scale of a run's feedback reaches, 0 within.

    That is what nearly all values lie between, where the others go far beyond: a first overshoot would
    flatten everything behind it.
    """
    values = run.feedback.value[drawable(run.feedback.value)]
    least, most = min(0.0, float(values.min())), max(0.0, float(values.max()))
    if run.feedback_label.endswith(_RATE):
        return least, most
    low, high = np.percentile(values, [100 - _USUAL_PERCENT, _USUAL_PERCENT]).tolist()
    reach = _ABOVE_USUAL * max(-low, high)
    if not 0 < _FAR_BEYOND * reach < max(-least, most):
        return least, most
    return max(least, -reach), min(most, reach)


def _line(style: LineStyle) -> dict[str, Any]:
    return {
        "color": style.colour.light,
        "marker": style.marker,
        "markersize": 5,
        "markeredgewidth": 0,
        "linewidth": 1.2,
    }


def _priority_text(priority: int) -> str:
    return f"priority {priority}" if priority >= 0 else "all priorities"
