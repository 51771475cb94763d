"""Statistics of frames, counted batch by batch.

An `Accumulator` counts the frames of a whole capture, or the frames of an interface while they arrive. Memory
use is bounded for any number of frames. The notes of the result name everything that was left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError, ParameterError, counted
from ecmproto.frames.batch.beginnings import KNOWN_LINKTYPES
from ecmproto.frames.batch.inner import InnerReader, open_innermost, sflow_reports
from ecmproto.frames.batch.sflow import SflowReports
from ecmproto.frames.capture import Batch, CaptureReader
from ecmproto.frames.capture.batch import ETHERNET, Interface, first_frames
from ecmproto.frames.capture.forked import PART_OCTETS, Done, ForkedCapture
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.threads import new_pool
from ecmproto.frames.stats.counters import (
    FEEDBACK_FIELDS,
    FEEDBACK_FORMATS,
    FRAME_FIELDS,
    MAX_FLOWS,
    MAX_MALFORMED,
    MAX_POINTS,
    MAX_PROBED_FLOWS,
    MAX_QUEUES,
    PROBE_FIELDS,
    RATE_CARRIERS,
    RATE_FIELDS,
    FeedbackCounts,
    FrameCounts,
    KindCounts,
    ProbeCounts,
    RateCounts,
    outer_priorities,
)
from ecmproto.frames.stats.mirrors import MIRROR_FIELDS, MirrorCounts
from ecmproto.frames.stats.neighbours import LLDP_FIELD, MAX_NEIGHBOURS, MAX_OCTETS, NeighbourCounts
from ecmproto.frames.stats.pauses import (
    DETECT_NS,
    MAX_SENDERS,
    MAX_STORED,
    PAUSE_FIELDS,
    RESTORE_NS,
    PauseCounts,
    storm_rule,
)
from ecmproto.frames.stats.pfc_faults import PfcFaultCounts
from ecmproto.frames.stats.plain_data import State, plain_value, restore, state_of
from ecmproto.frames.stats.roce import (
    MAX_QUEUE_PAIRS,
    ROCE_FIELD,
    ROCE_FIELDS,
    RoceCounts,
    RoceEvents,
    of_sample,
)
from ecmproto.frames.stats.sampling import SampleCounts
from ecmproto.frames.stats.statistics import Intervals, RoceTraffic, Sample, Span, Statistics
from ecmproto.frames.stats.tally import FARTHEST_NS, CountedBatch, Timeline, counted_batch, usable_times
from ecmproto.units import format_rate, format_time
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ecmproto.frames.filter import Filter

plain_value(Interface)
DEFAULT_SPEED_BPS = 10 * 10**9
"""Default link speed, in bit/s, for interfaces without a stated speed."""
FIELDS = tuple(
    dict.fromkeys(
        (
            *FRAME_FIELDS, *FEEDBACK_FIELDS, *PROBE_FIELDS, *RATE_FIELDS, *PAUSE_FIELDS, *MIRROR_FIELDS,
            LLDP_FIELD, ROCE_FIELD,
        )
    )
)  # fmt: skip
"""Columns that the statistics need."""
FIELDS_WITH_ROCE = tuple(dict.fromkeys((*FIELDS, *ROCE_FIELDS)))
"""Columns that the statistics need in batches with RoCE frames."""


class Accumulator:
    """A counter of frames that processes batches as they arrive.

    `result` can be read at any time, and counting can continue afterwards. The result does not depend on the
    division into batches, and memory use does not depend on the number of frames.

    ``interval_ns`` is the width of time intervals. ``None`` selects a width that gives the capture 200 to
    1000 intervals. ``speed_bps`` is the link speed of interfaces that do not state their speed. ``detect_ns``
    and ``restore_ns`` are the detection time and the restoration time of storms. ``lossless`` contains the
    priorities that PFC may pause, and ``None`` allows all priorities. ``sampled`` is the number of frames per
    sampled frame, and whether exactly every N-th frame was sampled (`sampling.parse_sampled`). This number is
    multiplied by the sampling rate of the interface. ``pool`` is a thread pool that shares the work. Raises
    ParameterError for an invalid value.
    """

    NOT_STATE = ("_options", "_interval_ns", "_ethertypes", "_pool")

    def __init__(
        self,
        *,
        interval_ns: int | None = None,
        speed_bps: int = DEFAULT_SPEED_BPS,
        detect_ns: int = DETECT_NS,
        restore_ns: int = RESTORE_NS,
        lossless: Collection[int] | None = None,
        sampled: tuple[int, bool] = (1, False),
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        _check("interval", interval_ns, "1 ns to 146 years")
        _check("speed", speed_bps, "1 bit/s to 4 Eb/s")
        _check("detection time of storms", detect_ns, "1 ns to 146 years")
        _check("restoration time of storms", restore_ns, "1 ns to 146 years")
        priorities = None if lossless is None else tuple(sorted(set(lossless)))
        self._options = interval_ns, speed_bps, detect_ns, restore_ns, ethertypes, priorities, tuple(sampled)
        self._interval_ns = interval_ns
        self._ethertypes = ethertypes
        self._pool = pool
        self._interfaces: Sequence[Interface] = ()
        self._timeline = timeline = Timeline(interval_ns)
        self._clock = _CaptureTimes(timeline)
        self._read = self._untimed = 0
        self._frames = FrameCounts()
        self._kinds = KindCounts(timeline)
        self._feedback = [FeedbackCounts(format, timeline) for format in FEEDBACK_FORMATS]
        self._probes = ProbeCounts(timeline)
        self._rates = [RateCounts(carrier, timeline) for carrier in RATE_CARRIERS]
        self._pauses = PauseCounts(timeline, speed_bps, storm_rule(detect_ns, restore_ns))
        self._pfc = PfcFaultCounts(lossless, ethertypes)
        self._roce = RoceCounts(timeline)
        self._neighbours = NeighbourCounts()
        self._mirrors = MirrorCounts()
        self._sample = SampleCounts(*sampled, queue_pairs=MAX_QUEUE_PAIRS)
        self._counters: tuple[_Counter, ...] = (
            self._frames, self._kinds, *self._feedback, self._probes, *self._rates, self._mirrors
        )  # fmt: skip

    @property
    def frames(self) -> int:
        """Number of counted frames."""
        return self._frames.frames

    def state(self) -> State:
        """Return the counts so far as plain data, for storage or transmission (see `stats.plain_data`)."""
        interval_ns, speed_bps, detect_ns, restore_ns, ethertypes, lossless, sampled = self._options
        options = {
            "interval_ns": interval_ns, "speed_bps": speed_bps,
            "detect_ns": detect_ns, "restore_ns": restore_ns,
            "lossless": None if lossless is None else list(lossless), "sampled": list(sampled),
            "ethertypes": dataclasses.asdict(ethertypes),
        }  # fmt: skip
        return {"options": options, "counts": state_of(self)}

    @classmethod
    def of_state(cls, state: State, *, pool: ThreadPoolExecutor | None = None) -> Accumulator:
        """Return a new accumulator with the counts of a saved state.

        Raises ParameterError for an invalid state.
        """
        try:
            options = {**state["options"], "ethertypes": EtherTypes(**state["options"]["ethertypes"])}
            made = cls(**options, pool=pool)
            made.restore(state)
        except (KeyError, TypeError) as error:
            raise ParameterError(name="state", needed="one of statistics", got=repr(error)) from error
        return made

    def restore(self, state: State) -> None:
        """Load the counts of another accumulator with the same options. This accumulator must be empty."""
        restore(self, state["counts"])

    def add(
        self, batch: Batch, *, interfaces: Sequence[Interface] = (), selected: NDArray[np.bool_] | None = None
    ) -> None:
        """Count the frames of a batch.

        ``interfaces`` describes the interfaces of the batch. If ``interfaces`` is empty, all frames are
        Ethernet frames. ``selected`` is a mask of the frames to count, and ``None`` selects all frames. The
        time span and the notes on times cover all frames of the batch.
        """
        self._interfaces = interfaces
        timed = usable_times(batch)
        self._read += len(batch)
        self._untimed += len(batch) - int(timed.sum())
        self._clock.see(batch.time_ns[timed])
        chosen = batch
        if selected is not None:
            chosen, timed = batch.select(selected), timed[selected]
        if not len(chosen):
            return
        # RoCE fields are read only in batches with RoCE frames, because reading IP addresses is slow.
        columns = extract(
            chosen, FIELDS, interfaces=interfaces, ethertypes=self._ethertypes, pool=self._pool,
            where_any=(ROCE_FIELD, FIELDS_WITH_ROCE), nesting="outer",
        )  # fmt: skip
        counted = counted_batch(chosen, columns, self._timeline.slots(chosen.time_ns[timed]), timed)
        rates = self._sample.rates(counted, interfaces)
        roce: list[RoceEvents] = []
        if len(columns[ROCE_FIELD]):
            self._roce.add(counted, roce.append)
        if rates is not None:
            self._sample.add(counted, rates, outer_priorities(counted), *roce)
        for counter in self._counters:
            counter.add(counted)
        self._pauses.add(counted, interfaces)
        self._pfc.add(counted, interfaces)
        self._neighbours.add(counted, interfaces, self._ethertypes)

    def follow(self, earlier: Accumulator) -> None:
        """Do nothing, because statistics do not contain estimates from earlier frames."""

    def can_merge(self, later: Accumulator) -> bool:
        """Return whether `merge` with ``later`` would be exact.

        The merge is exact if no list of ``later`` is full and neither accumulator counts a sample.
        """
        full = later._left_out() or later._pauses.may_cut_short or not self._clock.can_join(later._clock)
        return not (full or self._sample.any or later._sample.any)

    def merge(self, later: Accumulator, *, other_interfaces: bool = False) -> None:
        """Add the counts of ``later``, an accumulator of the frames that follow.

        The result is the same as if this accumulator had counted these frames. ``later`` does not change and
        can continue to count. By default, both accumulators have the same interfaces. With
        ``other_interfaces``, the interfaces of ``later`` belong to another capture and are appended. The
        merge is exact if no list of ``later`` is full (see `can_merge`). Raises ParameterError if the options
        of the accumulators differ.
        """
        if later._options != self._options:
            raise ParameterError(
                name="statistics", needed="the same interval, speed, times of storms, lossless "
                "priorities and EtherTypes", got="others",
            )  # fmt: skip
        if self._sample.any or later._sample.any:
            raise ParameterError(name="statistics", needed="statistics of whole captures", got="a sample")
        shift = len(self._interfaces) if other_interfaces else 0
        if other_interfaces:
            moved = [dataclasses.replace(each, index=each.index + shift) for each in later._interfaces]
            self._interfaces = [*self._interfaces, *moved]
        elif len(later._interfaces) >= len(self._interfaces):
            self._interfaces = later._interfaces
        self._clock.join(later._clock)
        self._read += later._read
        self._untimed += later._untimed
        self._frames.join(later._frames, shift)
        self._kinds.join(later._kinds)
        for here, theirs in zip(self._feedback, later._feedback, strict=True):
            here.join(theirs)
        self._probes.join(later._probes)
        for own, other in zip(self._rates, later._rates, strict=True):
            own.join(other)
        self._pauses.join(later._pauses, shift)
        self._pfc.join(later._pfc)
        self._roce.join(later._roce)
        self._neighbours.join(later._neighbours, shift)
        self._mirrors.join(later._mirrors)

    def result(
        self,
        *,
        interfaces: Sequence[Interface] | None = None,
        problem: CaptureError | None = None,
        sflow: SflowReports | None = None,
    ) -> Statistics:
        """Return the statistics of all batches so far.

        ``interfaces`` contains the known interfaces. ``None`` selects the interfaces of the latest batch.
        ``problem`` is the error that ended the capture. ``sflow`` contains the reports of sFlow agents.
        """
        span, timeline, counts = self._clock.span, self._timeline, self._frames
        in_frames, in_octets = self._kinds.over_time
        sample = self._sample.sample(span, self._read, self._roce.name_of)
        roce = self._roce.traffic
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
            kinds=self._kinds.counts,
            sizes=counts.sizes,
            priorities=counts.priorities,
            congestion_points=tuple(
                point for counts in self._feedback for point in counts.congestion_points()
            ),
            message_flows=tuple(flow for counts in self._feedback for flow in counts.message_flows()),
            probes=self._probes.probes if sample is None else None,
            rates=tuple(rate for counts in self._rates for rate in counts.rates()),
            pauses=self._pauses.times(span.last_ns or 0) if sample is None else None,
            pfc=self._pfc.frames,
            sflow=sflow,
            roce=roce if sample is None or roce is None else of_sample(roce),
            neighbours=self._neighbours.neighbours,
            sample=sample,
            mirrors=self._mirrors.mirrors,
            left_out=self._left_out(),
            notes=(),
            problem=problem,
        )
        known = self._interfaces if interfaces is None else interfaces
        mirrored = any(
            one.wrapper and each.frames for one, each in zip(known, statistics.interfaces, strict=False)
        )
        notes = _notes(statistics, self._pauses.untimed, self._pauses.cut_short, mirrored)
        return dataclasses.replace(statistics, notes=tuple(notes))

    def _left_out(self) -> Mapping[str, int]:
        """Return for each full list the number of frames without a row."""
        numberings = {
            "congestion_points": [counts.points for counts in self._feedback],
            "message_flows": [counts.flows for counts in self._feedback],
            "probed_flows": [self._probes.flows],
            "rates": [counts.queues for counts in self._rates],
            "pause_senders": [self._pauses.senders],
            "queue_pairs": [self._roce.queue_pairs],
        }
        counts = {name: sum(each.left_out for each in group) for name, group in numberings.items()}
        counts["malformed"] = self._frames.left_out
        counts["neighbours"] = self._neighbours.left_out
        return {name: count for name, count in counts.items() if count}


class _Counter(Protocol):
    """A counter that looks at each frame."""

    def add(self, counted: CountedBatch) -> None: ...


def _check(name: str, value: int | None, needed: str) -> None:
    if value is not None and not 0 < value < FARTHEST_NS:
        raise ParameterError(name=name, needed=needed, got=str(value))


_MAX_RISING = 1 << 16


class _CaptureTimes:
    """The times of frames in a capture.

    This class extends the timeline to the times of all frames and counts frames with a time before an earlier
    frame.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._rising: NDArray[np.int64] = np.empty(0, np.int64)
        """Increasing times at the start of the capture, for a join with an earlier part."""
        self.backwards = 0

    def see(self, time_ns: NDArray[np.int64]) -> None:
        """Process the times of frames, in the order of the capture."""
        if not len(time_ns):
            return
        low, high = int(time_ns.min()), int(time_ns.max())
        latest = np.maximum.accumulate(time_ns)
        if self._last_ns is not None:
            np.maximum(latest, self._last_ns, out=latest)
        late = time_ns < latest
        self.backwards += int(late.sum())
        self._keep(time_ns[~late])
        self._cover(low, high)

    def join(self, later: _CaptureTimes) -> None:
        """Process the times of the frames in ``later``."""
        if later._first_ns is None or later._last_ns is None:
            return
        late = 0 if self._last_ns is None else int(np.searchsorted(later._rising, self._last_ns))
        self.backwards += later.backwards + late
        self._keep(later._rising[late:])
        self._cover(later._first_ns, later._last_ns)

    def can_join(self, later: _CaptureTimes) -> bool:
        """Return whether the stored increasing times of ``later`` reach the last time of this object."""
        whole = len(later._rising) < _MAX_RISING
        return whole or self._last_ns is None or self._last_ns <= int(later._rising[-1])

    def _keep(self, rising: NDArray[np.int64]) -> None:
        space = _MAX_RISING - len(self._rising)
        if space > 0 and len(rising):
            self._rising = np.concatenate([self._rising, rising[:space]])

    def _cover(self, low_ns: int, high_ns: int) -> None:
        self._timeline.cover(low_ns, high_ns)
        self._first_ns = low_ns if self._first_ns is None else min(low_ns, self._first_ns)
        self._last_ns = high_ns if self._last_ns is None else max(high_ns, self._last_ns)

    def plain_state(self) -> tuple[int | None, int | None, int, NDArray[np.int64], NDArray[np.int64]]:
        """Return the state. The increasing times are stored as the first time and small differences."""
        return self._first_ns, self._last_ns, self.backwards, self._rising[:1], np.diff(self._rising)

    def take_plain_state(
        self, state: tuple[int | None, int | None, int, NDArray[np.int64], NDArray[np.int64]]
    ) -> None:
        """Load a state that `plain_state` returned."""
        self._first_ns, self._last_ns, self.backwards, first, steps = state
        self._rising = np.cumsum(np.concatenate([first, steps]))

    @property
    def span(self) -> Span:
        """Time span from the earliest to the latest time."""
        return Span(first_ns=self._first_ns, last_ns=self._last_ns)


def capture_stats(
    source: str | os.PathLike[str] | BinaryIO | CaptureReader,
    *,
    filter: Filter | str | None = None,
    interval_ns: int | None = None,
    speed_bps: int = DEFAULT_SPEED_BPS,
    detect_ns: int = DETECT_NS,
    restore_ns: int = RESTORE_NS,
    lossless: Collection[int] | None = None,
    sampled: tuple[int, bool] = (1, False),
    ethertypes: EtherTypes = DEFAULT,
    limit: int | None = None,
    threads: int = 2,
    outer: bool = False,
) -> Statistics:
    """Return the statistics of a capture, which is read to the end.

    ``source`` is a path, ``-``, a file object or a reader. For frames inside a mirror or tunnel
    encapsulation, the innermost frame is counted. ``outer`` counts the outer frames instead. ``filter``
    selects the frames to count, and ``limit`` is the maximum number of frames to read. ``threads=1`` uses
    only the calling thread. The remaining parameters are the same as for `Accumulator`. If an error ends the
    capture early, ``problem`` contains this error. Raises CaptureError if ``source`` is not a capture,
    FilterError for an invalid filter, and ParameterError for any other invalid argument.
    """
    from ecmproto.frames.filter import compile_filter

    compiled = compile_filter(filter) if isinstance(filter, str) else filter
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(new_pool()) if threads > 1 else None
        counts = Accumulator(
            interval_ns=interval_ns, speed_bps=speed_bps, detect_ns=detect_ns, restore_ns=restore_ns,
            lossless=lossless, sampled=sampled, ethertypes=ethertypes, pool=pool,
        )  # fmt: skip
        reader = (
            source
            if isinstance(source, CaptureReader)
            else stack.enter_context(open_innermost((source,), outer=outer, ethertypes=ethertypes))
        )
        add_all(counts, reader, filter=compiled, limit=limit, ethertypes=ethertypes, pool=pool)
        return counts.result(
            interfaces=reader.interfaces, problem=reader.problem, sflow=sflow_reports(reader)
        )


class _Taker(Protocol):
    """A consumer of batches, such as an `Accumulator`."""

    def add(
        self, batch: Batch, *, interfaces: Sequence[Interface] = (), selected: NDArray[np.bool_] | None = None
    ) -> None: ...


class MergingTaker(_Taker, Protocol):
    """A consumer of batches that can merge the counts of a consumer of later frames."""

    def state(self) -> State:
        """Return plain data for `restore`."""

    def restore(self, state: State) -> None:
        """Load a state. This object must be empty."""

    def follow(self, earlier: Any) -> None:
        """Use the estimates of a consumer of earlier frames. This object must be empty."""

    def can_merge(self, later: Any) -> bool:
        """Return whether `merge` with ``later`` is exact."""

    def merge(self, later: Any) -> None:
        """Add the counts of ``later``, which processed the frames that follow."""


def add_all(
    counts: _Taker,
    reader: CaptureReader,
    *,
    filter: Filter | None = None,
    limit: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    pool: ThreadPoolExecutor | None = None,
    watch: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
    filtering: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Add the frames of a reader to ``counts``, at most ``limit`` frames.

    ``watch`` wraps the iterator of batches, for example to show progress. ``filtering`` returns a context
    manager that is entered while the filter runs on a batch. ``pool`` is the executor that the filter uses.
    """
    for batch in watch(first_frames(reader, limit)):
        mask = None
        if filter is not None:
            from ecmproto.frames.columns.selection import selected

            with filtering():
                mask = selected(batch, filter, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)
        counts.add(batch, interfaces=reader.interfaces, selected=mask)


_MAX_PART_OCTETS = 256 << 20
_PARTS_EACH = 4
"""Minimum number of parts per process. Small parts keep processes from waiting at the end."""


def _part_octets(path: str | os.PathLike[str], processes: int) -> int:
    """Return the size of a part in octets, for the same number of parts per process.

    Parts are large because each merge takes a few milliseconds.
    """
    size = os.path.getsize(path)
    parts = processes * max(_PARTS_EACH, math.ceil(size / (_MAX_PART_OCTETS * processes)))
    return max(PART_OCTETS, 4 * math.ceil(size / (4 * parts)))


class ForkedCounting:
    """The counting of a large capture by several processes.

    ``new`` is a function that returns an empty counter. Each process counts with its own counter.
    """

    def __init__(
        self,
        new: Callable[[], MergingTaker],
        path: str | os.PathLike[str],
        *,
        processes: int,
        filter: Filter | None = None,
        outer: bool = False,
        ethertypes: EtherTypes = DEFAULT,
        part_octets: int | None = None,
    ) -> None:
        self._new, self._outer, self._ethertypes = new, outer, ethertypes
        self._earlier: MergingTaker | None = None
        self._add = functools.partial(add_all, filter=filter, ethertypes=ethertypes)
        self.capture: ForkedCapture = ForkedCapture(
            path, self._work, processes=processes, part_octets=part_octets or _part_octets(path, processes)
        )

    def add_to(
        self, total: MergingTaker, *, watch: Callable[[Iterable[Done]], Iterable[Done]] = iter
    ) -> bool:
        """Add all frames of the capture to ``total``.

        Return ``False`` if one process must count all frames: frames are encapsulated, and only a single
        reader can number the sessions, or a list of a part is full, so that a merge would not be exact.
        """
        with self.capture:
            for done in watch(self.capture):
                state, self.capture.interfaces, unwrapped = done.result
                later = self._new()
                later.restore(state)
                if unwrapped or not total.can_merge(later):
                    return False
                total.merge(later)
        return True

    def _work(self, reader: CaptureReader, _: object) -> tuple[State, list[Interface], str]:
        counts, frames = self._new(), self._frames_of(reader)
        if self._earlier is not None:  # an earlier part of this process
            counts.follow(self._earlier)
        self._earlier = counts
        self._add(counts, frames)
        return counts.state(), frames.interfaces, getattr(frames, "summary", "")

    def _frames_of(self, reader: CaptureReader) -> CaptureReader:
        return reader if self._outer else InnerReader(reader, ethertypes=self._ethertypes)


_LEFT_OUT_OF = {
    "congestion_points": f"about congestion points beyond the first {MAX_POINTS} of a mechanism",
    "message_flows": f"about flows beyond the first {MAX_FLOWS} of a mechanism",
    "probed_flows": f"about probed flows beyond the first {MAX_PROBED_FLOWS}",
    "rates": f"about rate-limited queues beyond the first {MAX_QUEUES}",
    "pause_senders": f"from senders of pauses beyond the first {MAX_SENDERS}",
    "queue_pairs": f"to RoCE queue pairs beyond the first {MAX_QUEUE_PAIRS}",
    "neighbours": f"of LLDP from stations beyond the first {MAX_NEIGHBOURS}, or longer than {MAX_OCTETS} "
    "octets",
    "malformed": f"malformed in ways beyond the first {MAX_MALFORMED}",
}


def _notes(statistics: Statistics, untimed_pauses: int, cut_short: bool, mirrored: bool) -> Iterator[str]:
    """Yield notes; ``untimed_pauses`` is the number of pause frames without a time.

    ``cut_short`` has the same meaning as in `PauseCounts`. ``mirrored`` is whether a mirror sent the frames.
    """
    if not statistics.frames:
        return
    if statistics.sample is None:
        yield from _on_pauses(statistics, untimed_pauses, cut_short, mirrored)
    else:
        yield from _on_sample(statistics.sample, mirrored)
    yield from _on_roce(statistics.roce)
    yield from _on_frames(statistics)
    yield from _on_times(statistics)
    for name, count in statistics.left_out.items():
        yield f"{counted(count, 'frame')} {_LEFT_OUT_OF[name]} counted, but not listed."


_WITHOUT_PAUSES = (
    "The absence of PAUSE and PFC frames proves nothing, since network cards normally consume them before a "
    "capture."
)
_CARDS = "There may have been more PAUSE and PFC frames, since network cards normally consume them."
_IN_STEP = (
    "A sample of every N-th frame misses traffic that repeats in step with N, so its estimates have no "
    "intervals. If no traffic does so, --sampled 1:N gives the intervals of a random sample."
)
_MIRROR = "Many switches do not mirror PAUSE and PFC frames, so their absence from a mirror proves nothing."


def _on_pauses(statistics: Statistics, untimed: int, cut_short: bool, mirrored: bool) -> Iterator[str]:
    if not any(each.frames and each.linktype == ETHERNET for each in statistics.interfaces):
        return
    assumed = {}
    if statistics.pauses is not None:
        assumed = {
            sender.interface: sender.speed_bps
            for sender in statistics.pauses.senders
            if not sender.speed_is_stated
        }
    if assumed:
        speed = format_rate(next(iter(assumed.values())))
        yield f"Pauses are computed for {speed}: the capture does not contain the link speed."
    if mirrored:
        yield _MIRROR
    elif not statistics.mirrors:
        yield _WITHOUT_PAUSES if statistics.pauses is None and not untimed else _CARDS
    if statistics.pfc is not None and statistics.pfc.lossless is None:
        yield "No lossless priorities are declared: pauses of lossy priorities were not checked."
    storms = statistics.pauses.storms if statistics.pauses is not None else ()
    if any(storm.seen == "pause" for storm in storms):
        yield (
            "Storms marked as pause alone: the capture contains no earlier frame of the priority to the "
            "sender of the pauses, so it is unknown whether traffic stopped."
        )
    if cut_short:
        yield (
            f"Only the first {MAX_STORED:,} pause frames of a part were kept: pauses that cross the boundary "
            "of two parts may be counted slightly too short."
        )
    if untimed:
        yield f"{counted(untimed, 'pause frame')} without a time: their effect is unknown."


def _on_sample(sample: Sample, mirrored: bool) -> Iterator[str]:
    """Yield notes on the limits of a sample."""
    yield (
        "These frames are a sample. Counts and rates describe the sample; one section estimates all frames. "
        f"Not estimated: {', '.join(sample.not_estimated)}."
    )
    if sample.every:
        yield _IN_STEP
    if mirrored:
        yield _MIRROR
    if sample.unknown_frames:
        unknown = counted(sample.unknown_frames, "frame")
        yield f"{unknown} with an unknown sampling rate, which are not in the estimates."


def _on_roce(roce: RoceTraffic | None) -> Iterator[str]:
    if roce is None:
        return
    one = roce.address_pairs - roce.pairs_of_both_directions
    if one == roce.address_pairs:
        yield (
            "The capture contains only one direction of RoCE, so CNPs and acknowledgements cannot be "
            "matched to frames, and the delay of CNPs is unknown."
        )
    elif one:
        yield (
            f"{one} of {roce.address_pairs} pairs of addresses with RoCE have only one direction in the "
            "capture, so the answers to their frames are unknown."
        )
    if any(each.cnps and each.about_by == "one of" for each in roce.queue_pairs):
        yield (
            "CNPs name the queue pair of a flow's sender. Between addresses with several flows, a CNP "
            "cannot be assigned to one flow unless an acknowledgement shows which two queue pairs belong "
            "together."
        )


def _on_frames(statistics: Statistics) -> Iterator[str]:
    if statistics.mirrors:
        carried = [f"{counted(count, 'frame')} of {name}" for name, count in statistics.mirrors.items()]
        yield f"The frames inside {', '.join(carried)} were not decoded, and are not counted."
    if statistics.cut_frames:
        yield (
            f"{counted(statistics.cut_frames, 'frame')} truncated by the capture: layers beyond the cut are "
            "not counted; sizes are sizes on the wire."
        )
    strange = {each.linktype: each.linktype_name for each in statistics.interfaces if each.frames}
    for linktype, name in strange.items():
        if linktype not in KNOWN_LINKTYPES:
            yield f"Frames of link type {name} ({linktype}) are not decoded, and count as other."


def _on_times(statistics: Statistics) -> Iterator[str]:
    if statistics.untimed_frames:
        yield f"{counted(statistics.untimed_frames, 'frame')} without a time: not in the rates over time."
    if statistics.backwards_frames:
        yield (
            f"{counted(statistics.backwards_frames, 'frame')} with a time before the previous frame's: "
            "counted at their own time, but pauses never go back in time."
        )
    intervals = statistics.intervals
    if intervals.asked_ns is not None and intervals.width_ns != intervals.asked_ns:
        requested, width = format_time(intervals.asked_ns), format_time(intervals.width_ns)
        yield f"Intervals of {requested} would exceed the memory limit: joined to {width}."
