"""Runs and reports for tests of drawings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ecmproto.tools.report.run import (
    Drops,
    Feedback,
    FlowCurves,
    Measure,
    Messages,
    PauseCurve,
    QueueCurve,
    Report,
    Run,
)

MS = 1_000_000


def floats(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def measure(key: str, value: float, **kwargs: object) -> Measure:
    given = {"label": key.replace("_", " "), "unit": "octets", "better": None} | kwargs
    return Measure(key=key, value=value, **given)  # type: ignore[arg-type]


def measures(*, frames: int = 1000, dropped: int = 0, mean: float = 26_000.0) -> tuple[Measure, ...]:
    return (
        measure("frames", frames, unit="frames"),
        measure("dropped_frames", dropped, unit="frames", better="low"),
        measure("queue_mean_octets", mean, better="low"),
        measure("queue_peak_octets", 2 * mean, better="low"),
    )


def full_run(name: str = "qcn", *, label: str = "02:00:00:00:00:01") -> Run:
    """Return a run with data in every figure; ``label`` is in every text."""
    edges = np.arange(0, 11, dtype=np.int64) * MS
    ramp = np.linspace(0, 1, 10)
    flow = FlowCurves(
        label=label, edges_ns=edges, sent_bps=ramp * 1e10, delivered_bps=ramp * 5e9, limit_bps=ramp * 1.1e10
    )
    return Run(
        name=name,
        title=f"title {label}",
        duration_ns=10 * MS,
        facts=(("seed", "1"), (label, label)),
        parameters=((label, label, label),),
        measures=(*measures(), measure("own", 1, label=label)),
        queue=QueueCurve(edges_ns=edges, mean_octets=ramp * 30_000, peak_octets=ramp * 60_000),
        buffer_octets=100_000,
        set_point_octets=26_000,
        feedback=Feedback(
            time_ns=integers(0, MS, 2 * MS), value=floats(3e4, -5e4, -1e3), priority=integers(3, 3, 5)
        ),
        feedback_label=f"{label} (octets)",
        flows=(flow, replace(flow, label="others (3)")),
        messages=Messages(
            labels=(label, "b"), time_ns=integers(MS, 2 * MS), row=integers(0, 1), strength=floats(1, 0.2)
        ),
        pauses=(
            PauseCurve(
                label=label, edges_ns=integers(0, MS, 3 * MS, 10 * MS), stopped_ns=floats(0, 2 * MS, 0)
            ),
        ),
        drops=Drops(time_ns=integers(5 * MS), count=integers(21)),
    )


def report_of(*runs: Run, title: str = "Hot spot", notes: tuple[str, ...] = ()) -> Report:
    return Report(title=title, capture="hotspot.pcap", runs=runs, notes=notes)
