"""Statistics of frames that come batch by batch, from a file or from an interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.columns import extract
from ecmproto.errors import CaptureError, ParameterError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.stats import advertised, feedback, frames, pauses, probes
from ecmproto.stats.clock import Clock
from ecmproto.stats.moment import FARTHEST_NS, Moment, moment_of, usable_times
from ecmproto.stats.notes import notes_on
from ecmproto.stats.statistics import Intervals, Statistics
from ecmproto.stats.timeline import Timeline

DEFAULT_SPEED_BPS = 10 * 10**9
"""What links are taken to run at where nobody says."""

FIELDS = tuple(
    dict.fromkeys((*frames.FIELDS, *feedback.FIELDS, *probes.FIELDS, *advertised.FIELDS, *pauses.FIELDS))
)
"""The columns that statistics are made of."""


class _Part(Protocol):
    """What counts something of each frame."""

    def add(self, moment: Moment) -> None: ...


class Accumulator:
    """Counts batches as they come; `result` may be asked for at any time, and again later.

    What comes out does not depend on how frames are batched, and memory not on how many there are.
    ``interval_ns`` is the width of intervals of time (None: one that suits the capture, from 200 to 1000 of
    them), ``speed_bps`` the rate of links whose interface does not state it, ``pool`` a thread that shares
    the work.  ParameterError for an interval or a speed that is none.
    """

    def __init__(
        self,
        *,
        interval_ns: int | None = None,
        speed_bps: int = DEFAULT_SPEED_BPS,
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        _check("interval", interval_ns, "1 ns to 146 years")
        _check("speed", speed_bps, "1 bit/s to 4 Eb/s")
        self._interval_ns = interval_ns
        self._ethertypes = ethertypes
        self._pool = pool
        self._interfaces: Sequence[Interface] = ()
        self._timeline = timeline = Timeline(interval_ns)
        self._clock = Clock(timeline)
        self._read = self._untimed = 0
        self._frames = frames.FrameCounts()
        self._kinds = frames.KindCounts(timeline)
        self._feedback = [make(timeline) for make in feedback.MAKERS]
        self._probes = probes.ProbeCounts(timeline)
        self._rates = [advertised.RateCounts(carrier, timeline) for carrier in advertised.CARRIERS]
        self._pauses = pauses.PauseCounts(timeline, speed_bps)
        self._parts: tuple[_Part, ...] = (
            self._frames, self._kinds, *self._feedback, self._probes, *self._rates
        )  # fmt: skip

    def add(
        self,
        batch: Batch,
        *,
        interfaces: Sequence[Interface] = (),
        selected: NDArray[np.bool_] | None = None,
    ) -> None:
        """Count a batch: of ``interfaces`` (none: Ethernet), and only the frames ``selected`` (None: all).

        The span, and what is said of times, are of all frames.
        """
        self._interfaces = interfaces
        timed = usable_times(batch)
        self._read += len(batch)
        self._untimed += len(batch) - int(timed.sum())
        self._clock.see(batch.time_ns[timed])
        kept = batch
        if selected is not None:
            kept, timed = batch.select(selected), timed[selected]
        if not len(kept):
            return
        columns = extract(kept, FIELDS, interfaces=interfaces, ethertypes=self._ethertypes, pool=self._pool)
        moment = moment_of(kept, columns, self._timeline.slots(kept.time_ns[timed]), timed)
        for part in self._parts:
            part.add(moment)
        self._pauses.add(moment, interfaces)

    def result(
        self, *, interfaces: Sequence[Interface] | None = None, problem: CaptureError | None = None
    ) -> Statistics:
        """Return what the batches so far come to.

        ``interfaces`` are those known by now (None: those of the last batch), ``problem`` is what kept there
        from being more.
        """
        span, timeline, counts = self._clock.span, self._timeline, self._frames
        in_frames, in_octets = self._kinds.over_time
        statistics = Statistics(
            read_frames=self._read,
            frames=counts.frames,
            octets=counts.octets,
            captured_octets=counts.captured_octets,
            cut_frames=counts.cut_frames,
            untimed_frames=self._untimed,
            backwards_frames=self._clock.backwards,
            span=span,
            intervals=Intervals(
                start_ns=timeline.start_ns,
                width_ns=timeline.width_ns,
                count=timeline.used,
                asked_ns=self._interval_ns,
            ),
            frames_over_time=in_frames,
            octets_over_time=in_octets,
            interfaces=counts.interfaces(self._interfaces if interfaces is None else interfaces),
            malformed=counts.malformations,
            kinds=self._kinds.kinds,
            sizes=counts.sizes,
            priorities=counts.priorities,
            congestion_points=tuple(
                point for counts in self._feedback for point in counts.congestion_points()
            ),
            message_flows=tuple(flow for counts in self._feedback for flow in counts.message_flows()),
            probes=self._probes.probes,
            rates=tuple(rate for counts in self._rates for rate in counts.rates()),
            pauses=self._pauses.times(span.last_ns or 0),
            left_out=self._left_out(),
            notes=(),
            problem=problem,
        )
        return notes_on(statistics, self._pauses.untimed)

    def _left_out(self) -> Mapping[str, int]:
        """Return the frames that lists have no row for, by the list."""
        numberings = {
            "congestion_points": [counts.points for counts in self._feedback],
            "message_flows": [counts.flows for counts in self._feedback],
            "probed_flows": [self._probes.flows],
            "rates": [counts.queues for counts in self._rates],
            "pause_senders": [self._pauses.senders],
        }
        counts = {name: sum(each.left_out for each in group) for name, group in numberings.items()}
        counts["malformed"] = self._frames.left_out
        return {name: count for name, count in counts.items() if count}


def _check(name: str, value: int | None, needed: str) -> None:
    if value is not None and not 0 < value < FARTHEST_NS:
        raise ParameterError(name=name, needed=needed, got=str(value))
