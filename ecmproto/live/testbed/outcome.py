"""What a run of a testbed came to, in numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ecmproto.engine.statistics import jain_index
from ecmproto.live.loop import is_starved
from ecmproto.live.testbed.run import Report
from ecmproto.units import NS_PER_S

SETTLING_S = 5.0
"""What a mechanism is given to settle before its queue and its losses count; at most half of the run."""
_BUSY_FRAMES = 50
"""More than this leave the port between two reports while there is traffic."""
_ROUND_TRIP = re.compile(r"time=([0-9.]+) ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run in numbers, once it had time to settle: rates in bit/s as the receivers got them, the queue.

    ``lost_share`` is of all that UDP senders sent, wherever it was lost, ``retransmits`` the segments TCP
    senders sent again, both of the whole run and None without such senders; ``dropped_frames`` at the port
    after it settled.  Ping times, of the whole run, are None if none came back.  ``starved_ns`` is what the
    device that other programs kept longest from the processor waited for it, or gave up; 0 if hardly any.
    """

    mechanism: str
    rates_bps: tuple[float, ...]
    fairness: float
    victim_bps: float | None
    lost_share: float | None
    retransmits: int | None
    queue_mean_octets: float
    queue_peak_octets: float
    set_point_octets: int | None
    dropped_frames: int
    messages: int
    ping_p50_ms: float | None
    ping_p99_ms: float | None
    starved_ns: int = 0


def outcome_of(mechanism: str, set_point_octets: int | None, report: Report) -> Outcome:
    """Return what ``report`` comes to."""
    rates = tuple(_rate_bps(flow) for flow in report.senders)
    trips = [float(found) for found in _ROUND_TRIP.findall(report.ping)]
    lost = [share for flow in report.senders if (share := _lost_share(flow)) is not None]
    again = [count for flow in report.sent if (count := _retransmits(flow)) is not None]
    settled = _settled(report.port)
    queue = [document["gauges"]["queue_octets"] for document in settled]
    return Outcome(
        mechanism=mechanism,
        rates_bps=rates,
        fairness=jain_index(np.array(rates)),
        victim_bps=None if report.victim is None else _rate_bps(report.victim),
        lost_share=float(np.mean(lost)) if lost else None,
        retransmits=sum(again) if again else None,
        queue_mean_octets=_mean_queue(settled),
        queue_peak_octets=float(max(queue, default=0)),
        set_point_octets=set_point_octets,
        dropped_frames=_grown(settled, "dropped_frames"),
        messages=sum(
            sum(documents[-1]["messages"].values()) for documents in (report.port, report.edge) if documents
        ),
        ping_p50_ms=float(np.percentile(trips, 50)) if trips else None,
        ping_p99_ms=float(np.percentile(trips, 99)) if trips else None,
        starved_ns=max(map(_starved_ns, (report.port, report.edge, *report.points))),
    )


def _starved_ns(documents: list[dict[str, Any]]) -> int:
    """Return what a device waited or gave up in all, if that makes its figures the machine's."""
    if not documents:
        return 0
    last = documents[-1]
    waited_ns, missed_ns = last.get("waited_ns", 0), last.get("counters", {}).get("missed_ns", 0)
    starved = is_starved(waited_ns, missed_ns, last.get("elapsed_ns", NS_PER_S))
    return max(waited_ns, missed_ns) if starved else 0


def _settled(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the reports of the port while there was traffic, but for the time it had to settle."""
    busy = [
        later
        for earlier, later in pairwise(documents)
        if later["counters"]["departed_frames"] > earlier["counters"]["departed_frames"] + _BUSY_FRAMES
    ]
    if not busy:
        return []
    start_ns, end_ns = busy[0]["elapsed_ns"], busy[-1]["elapsed_ns"]
    from_ns = start_ns + min(SETTLING_S * NS_PER_S, (end_ns - start_ns) / 2)
    # The last one may reach beyond the traffic's end.
    return [document for document in busy[:-1] if document["elapsed_ns"] >= from_ns]


def _mean_queue(settled: list[dict[str, Any]]) -> float:
    if len(settled) < 2:
        return 0.0
    elapsed_s = (settled[-1]["elapsed_ns"] - settled[0]["elapsed_ns"]) / NS_PER_S
    sums = [document["gauges"]["queue_octet_seconds"] for document in (settled[0], settled[-1])]
    return float((sums[1] - sums[0]) / elapsed_s)


def _grown(settled: list[dict[str, Any]], name: str) -> int:
    return int(settled[-1]["counters"][name] - settled[0]["counters"][name]) if settled else 0


def _rate_bps(flow: dict[str, Any]) -> float:
    """Return what iperf3's receiving end got once the run had time to settle."""
    spans = [interval["sum"] for interval in flow.get("intervals", [])]
    from_s = min(SETTLING_S, spans[-1]["end"] / 2) if spans else 0.0
    # The last one is not whole, and has what came late.
    settled = [span for span in spans[:-1] if span["start"] >= from_s]
    seconds = sum(span["seconds"] for span in settled)
    return 8 * sum(span["bytes"] for span in settled) / seconds if seconds else _rate_in_all_bps(flow)


def _rate_in_all_bps(flow: dict[str, Any]) -> float:
    end = flow.get("end", {})
    for name in ("sum_received", "sum"):
        found = end.get(name, {})
        if "bits_per_second" in found:
            return float(found["bits_per_second"])
    return 0.0


def _lost_share(flow: dict[str, Any]) -> float | None:
    percent = flow.get("end", {}).get("sum", {}).get("lost_percent")
    return None if percent is None else float(percent) / 100


def _retransmits(flow: dict[str, Any]) -> int | None:
    count = flow.get("end", {}).get("sum_sent", {}).get("retransmits")
    return None if count is None else int(count)
