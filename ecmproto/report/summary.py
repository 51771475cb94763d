"""What came out of a report's replays, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ecmproto.report.comparison import measured
from ecmproto.report.figures import Kind
from ecmproto.report.names import listed, short_names
from ecmproto.report.run import Report, Run
from ecmproto.report.scale import greatest, value_text
from ecmproto.units import format_octets, format_time


def summary(report: Report) -> list[str]:
    """Return the sentences that open the report: what was replayed, and what came out."""
    runs = report.runs
    if not runs:
        return [f"Nothing was replayed from {report.capture}."]
    return [_replayed(report), *(_single(runs[0]) if len(runs) == 1 else _several(runs))]


def _replayed(report: Report) -> str:
    runs = report.runs
    frames = measured(runs[0], "frames")
    what = "The frames" if frames is None else f"The {value_text(frames, 'frames')} frames"
    if frames == 0:
        return f"{report.capture} holds no frame that reaches the port."
    if len(runs) == 1:
        return f"{what} of {report.capture} were sent through a simulated switch port with {runs[0].title}."
    return (
        f"{what} of {report.capture} were sent through the same simulated switch port {len(runs)} times, "
        f"each time with another way to manage congestion: {listed(short_names(runs))}."
    )


def _single(run: Run) -> list[str]:
    sentences = []
    dropped, mean = measured(run, "dropped_frames"), measured(run, "queue_mean_octets")
    if dropped is not None and measured(run, "frames") != 0:
        sentences.append(f"{_capital(_lost(run, dropped))}.")
    if mean is not None:
        peak = measured(run, "queue_peak_octets")
        longest = f", and {format_octets(peak)} at its longest" if peak is not None else ""
        sentences.append(f"The queue was {format_octets(mean)} long on average{longest}.")
    return sentences + _paused(run, "Some sender")


def _several(runs: Sequence[Run]) -> list[str]:
    names = short_names(runs)
    sentences = []
    losses = [(name, run, measured(run, "dropped_frames")) for name, run in zip(names, runs, strict=True)]
    lossless = [name for name, _, dropped in losses if dropped == 0]
    lossy = [(name, run, dropped) for name, run, dropped in losses if dropped]
    if lossy:
        kept = f"No frame was lost with {listed(lossless)}; " if lossless else ""
        parts = [f"with {name} {_lost(run, dropped)}" for name, run, dropped in lossy]
        sentences.append(f"{kept}{listed(parts)}." if kept else f"{_capital(listed(parts))}.")
    elif lossless:
        sentences.append("No frame was lost with any of them." if len(lossless) == len(runs) else "")
    sentences.append(_queues(names, runs))
    for name, run in zip(names, runs, strict=True):
        sentences.extend(_paused(run, f"With {name} some sender"))
    return [sentence for sentence in sentences if sentence]


def _queues(names: Sequence[str], runs: Sequence[Run]) -> str:
    means = [(mean, name) for name, run in zip(names, runs, strict=True) if (mean := _mean(run)) is not None]
    if len(means) < 2:
        return ""
    (least, shortest), (most, longest) = min(means), max(means)
    if least == most:
        return f"The mean queue was {format_octets(most)} with each of them."
    return (
        f"On average the queue was shortest with {shortest} ({format_octets(least)}) and longest with "
        f"{longest} ({format_octets(most)})."
    )


def _mean(run: Run) -> float | None:
    return measured(run, "queue_mean_octets")


def _lost(run: Run, dropped: float) -> str:
    frames = measured(run, "frames")
    if not dropped:
        return "no frame was lost"
    share = f" ({value_text(dropped / frames, 'share')})" if frames else ""
    verb = "was" if dropped == 1 else "were"
    noun = "frame" if dropped == 1 else "frames"
    return f"{value_text(dropped, 'frames')} {noun}{share} {verb} lost"


def _paused(run: Run, who: str) -> list[str]:
    paused, summed = measured(run, "paused_ns"), measured(run, "paused_sum_ns")
    if not paused:
        return []
    together = f", {format_time(summed)} summed up over senders and priorities" if summed else ""
    return [f"{who} stood still for {format_time(paused)}{together}."]


def alternative(kind: Kind, runs: Sequence[Run], heading: str) -> str:
    """Return what a screen reader says instead of a figure."""
    names = listed(short_names(runs))
    if kind != "queue":
        return f"{heading} over time for {names}. The table of results has the figures."
    peaks = [greatest(run.queue.peak_octets.tolist()) for run in runs]
    longest = [f"{name} {format_octets(peak)}" for name, peak in zip(short_names(runs), peaks, strict=True)]
    return f"{heading} over time. Longest queue: {listed(longest)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
