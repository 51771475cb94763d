"""Statistics of a capture: frame types, rates over time, feedback, probes, advertised rates, pause times.

>>> statistics = capture_stats("in.pcapng")
>>> statistics.frames, statistics.pauses.senders[0].paused_ns

`Accumulator` counts batches from any source, such as an interface, as they arrive.
"""

from __future__ import annotations

from ecmproto.frames.stats.accumulator import Accumulator, capture_stats
from ecmproto.frames.stats.statistics import (
    AdvertisedRate,
    AppPriority,
    ClassPause,
    CongestionPoint,
    Distribution,
    Estimate,
    InterfaceCount,
    Intervals,
    KindCount,
    MessageFlow,
    Neighbour,
    PauseInterface,
    PauseSender,
    PauseStorm,
    PauseTimes,
    PfcFault,
    PfcFrames,
    ProbedFlow,
    Probes,
    QueuePair,
    RoceTraffic,
    Sample,
    SizeBucket,
    Sizes,
    Span,
    Statistics,
    as_document,
    document_text,
)

__all__ = [
    "Accumulator", "AdvertisedRate", "AppPriority", "ClassPause", "CongestionPoint", "Distribution",
    "Estimate", "InterfaceCount", "Intervals", "KindCount", "MessageFlow", "Neighbour", "PauseInterface",
    "PauseSender", "PauseStorm", "PauseTimes", "PfcFault", "PfcFrames", "ProbedFlow", "Probes",
    "QueuePair", "RoceTraffic", "Sample", "SizeBucket", "Sizes", "Span", "Statistics", "as_document",
    "capture_stats", "document_text",
]  # fmt: skip
