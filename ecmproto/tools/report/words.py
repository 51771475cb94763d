"""Words of reports of replays and experiments: mechanisms, captions, a glossary, opening sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ecmproto.tools.report.figures import Kind, listed, short_names
from ecmproto.tools.report.run import Report, Run, greatest, measured, value_text
from ecmproto.units import format_octets, format_time

MECHANISMS: Mapping[str, str] = {
    "qcn": (
        "The congestion point samples arriving frames and notifies the source of a sampled frame how far the "
        "queue is off its set point; the source slows down, and recovers by itself."
    ),
    "ecm": (
        "The congestion point samples arriving frames and sends their sources both increases and decreases, "
        "depending on the queue's distance from its set point and its rate of change."
    ),
    "bcn": (
        "The congestion point samples arriving frames and sends their sources increases and "
        "decreases, and stops them for a moment when the queue is very long."
    ),
    "e2cm": (
        "As ECM; in addition sources send probes that the receivers return, from which each source learns "
        "its fair rate."
    ),
    "fecn": (
        "Sources send a tag along with their frames in which each congestion point on the way writes the "
        "rate it has capacity for; receivers send the tag back."
    ),
    "dbp": (
        "Receivers keep sending each of their sources a report, in which every congestion point on its way "
        "lowers the rate to its capacity; the sources' own frames carry nothing."
    ),
    "dcqcn": (
        "The congestion point marks frames that may be marked, the more the longer its queue is; the "
        "destination answers marks with notifications (CNPs), and each marked queue pair slows down."
    ),
    "csig": (
        "Frames carry a tag in which each congestion point on the way writes its load, if that is worse than "
        "the value in the tag; no sender here reacts to it."
    ),
    "pfc": (
        "A port whose queue grows too long makes its neighbours stop sending one priority, until the queue "
        "is shorter again; the flow at fault is not identified."
    ),
    "pause": (
        "A port whose queue grows too long makes its neighbours stop sending altogether, until the queue is "
        "shorter again."
    ),
    "none": (
        "The sources get no feedback: the queue grows until the buffer is full, and then frames are lost. "
        "The others are compared with this."
    ),
}
"""Each mechanism in a sentence, for newcomers."""
GLOSSARY: Sequence[tuple[str, str]] = (
    ("Congestion point", "the queue at a switch's output port where frames wait for the line"),
    ("Reaction point", "the part of a sender that limits the rate of a flow by feedback"),
    ("Set point", "the queue length that a mechanism steers to"),
    ("Buffer", "the capacity of the port in octets; frames that arrive when it is full are lost"),
    (
        "Feedback",
        "a message to a source: the queue's distance from its set point, or a rate",
    ),
    ("Open and closed loop", "in an open loop the sources ignore feedback, in a closed loop they obey it"),
    (
        "Fairness",
        "Jain's index of the rates of all flows with traffic in the second half: 1 when all are equal, 1/n "
        "when one of n has it all",
    ),
    (
        "Paused",
        "a priority of a sender is stopped by PAUSE or PFC: the time in which at least one was, and the sum "
        "over all senders and the priorities that they use",
    ),
    ("kB, Gb/s", "1,000 octets, and 1,000,000,000 bits a second"),
)
"""Terms of a report and their meanings."""


def summary(report: Report) -> list[str]:
    """Return the opening sentences of the report: the replay, and its results."""
    runs = report.runs
    if not runs:
        return [f"Nothing was replayed from {report.capture}."]
    return [_replayed(report), *(_single(runs[0]) if len(runs) == 1 else _several(runs))]


def _replayed(report: Report) -> str:
    runs = report.runs
    if report.lead:
        return report.lead
    frames = measured(runs[0], "frames")
    what = "The frames" if frames is None else f"The {value_text(frames, 'frames')} frames"
    if frames == 0:
        return f"{report.capture} contains no frame that reaches the port."
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
    (low, shortest), (high, longest) = min(means), max(means)
    if low == high:
        return f"The mean queue was {format_octets(high)} with each of them."
    return (
        f"On average the queue was shortest with {shortest} ({format_octets(low)}) and longest with "
        f"{longest} ({format_octets(high)})."
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
    """Return the text of a figure for screen readers."""
    names = listed(short_names(runs))
    if kind == "phase":
        return f"{heading} for {names}. The table of results has the figures."
    if kind != "queue":
        return f"{heading} over time for {names}. The table of results has the figures."
    peaks = [greatest(run.queue.peak_octets.tolist()) for run in runs]
    longest = [f"{name} {format_octets(peak)}" for name, peak in zip(short_names(runs), peaks, strict=True)]
    return f"{heading} over time. Longest queue: {listed(longest)}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
