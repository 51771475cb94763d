"""Rules for sampling intervals, which are the octets between two messages of a congestion point.

A capture contains the arriving frames or the departing frames of a queue. The growth of the queue, as
reported in the messages, limits the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ecmproto.control.mechanisms.aimd.parameters import SamplingParameters
from ecmproto.control.mechanisms.api.parameters import flag, ratio, redeclared
from ecmproto.tools.check.keyed import Chain, Pairs, first_of, moved
from ecmproto.tools.check.report import Report
from ecmproto.tools.check.rule import (
    PRIORITY_FIELDS,
    Int64,
    Judged,
    Mask,
    Rows,
    Rule,
    Settings,
    Shift,
    Where,
    congestion_point,
)
from ecmproto.tools.check.rules.drafts import SHOWN
from ecmproto.tools.check.rules.reactions import Closed
from ecmproto.units import QUEUE_UNIT_OCTETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Closed):
    """The base class for parameters of families with a sampling interval rule."""

    has_all: bool = flag(
        "has_all", False, source="choice",
        doc="assume that the capture contains all frames to the congestion points. Otherwise the rule checks "
        "only congestion points with enough captured octets",
    )  # fmt: skip
    enough: float = ratio(
        "enough", 0.85, (0, 1), source="choice",
        doc="minimum ratio of the captured octets to the octets that the sampling intervals require. Below "
        "this ratio, the rule ignores the congestion point",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling(Counted):
    """Sampling parameters of ECM and BCN congestion points."""

    fixed_octets: int = redeclared(SamplingParameters, "fixed_octets")
    random_octets: int = redeclared(
        SamplingParameters, "random_octets",
        doc="half the width of the random part of the sampling interval. The default is 0.3·sf, at most "
        "64 kB",
    )  # fmt: skip
    oversampling_shift: int = redeclared(SamplingParameters, "oversampling_shift")

    def __post_init__(self) -> None:
        """Validate the fields. Raises ParameterError for an invalid value or combination."""
        sampling = SamplingParameters(
            fixed_octets=self.fixed_octets,
            random_octets=self.random_octets,
            oversampling_shift=self.oversampling_shift,
        )
        object.__setattr__(self, "random_octets", sampling.random_octets)
        Counted.__post_init__(self)


class Intervals:
    """A comparison of the octets between two messages of a congestion point with the minimum.

    Each rule has a subclass.
    """

    RULE = ""
    PREFIX = ""
    """The prefix of the message fields."""
    SHOWS = f"{SHOWN}eth.type"
    """A field that is present if the message contains the priority of the sampled frame."""
    PRIORITIES: tuple[str, ...] = tuple(SHOWN + name for name in PRIORITY_FIELDS)
    """The fields with the priority of the sampled frame. The field of the outermost tag is last."""
    FIELDS: tuple[str, str]
    """Two fields of a message that determine the sampling interval."""
    BY = ""
    """The names of the values that determine the minimum number of octets, for findings."""
    PARAMETERS: type[Counted]
    GIVEN = ""
    """The required parameter, or an empty text. The rule judges nothing without this parameter."""

    _MAX_POINTS = 1024
    _MAX_SHORT = 1000
    _FEW = 0.2
    """The maximum share of too short intervals. Above this share, the capture is assumed to be incomplete."""

    def __init__(self, settings: Settings, report: Report) -> None:
        self._parameters: Any = settings.of(self.PARAMETERS)
        self._is_silent = bool(self.GIVEN) and not settings.is_given(f"{self.PREFIX}.{self.GIVEN}")
        self._totals = np.zeros(8, np.int64)
        self._largest = 0
        self._chain = Chain(self._MAX_POINTS, 4)
        self._points: dict[int, list[int]] = {}
        """The counted octets, the required octets and the number of intervals for each CPID."""
        self._short: Int64 = np.zeros((0, 6), np.int64)

    def needed(self, pairs: Pairs) -> Int64:
        """Return the minimum number of octets between the two messages of each pair.

        Columns 5 and 6 are `FIELDS`.
        """
        raise NotImplementedError

    def grown(self, pairs: Pairs) -> Int64:
        """Return the growth of the queue between the messages of each pair, or an upper limit, in octets."""
        raise NotImplementedError

    def is_judged(self, pairs: Pairs) -> Mask:
        """Return a mask of the pairs whose messages report the growth of the queue."""
        return np.ones(len(pairs.low), np.bool_)

    def add(self, rows: Rows) -> None:
        """Count the octets of each priority, and process the messages."""
        if self._is_silent:
            return
        cpid = f"{self.PREFIX}.cpid"
        priority, octets = rows.priority, rows.octets
        if len(rows.columns[cpid]):
            is_message = rows.has(cpid)
            octets = np.where(is_message, 0, octets)
            at = np.flatnonzero(is_message & rows.has(self.SHOWS))
            self._take(self._followed(rows, at, priority, octets))
        # floats represent the sums of a batch exactly, because the sums are far below 2^53
        self._totals += np.bincount(priority, weights=octets, minlength=8).astype(np.int64)
        self._largest = max(self._largest, int(octets.max(initial=0)))

    def _followed(self, rows: Rows, at: Int64, priority: Int64, octets: Int64) -> Pairs:
        """Return the messages in the given rows as pairs with the previous message."""
        sampled = np.zeros(len(at), np.int64)
        for name in self.PRIORITIES:
            sampled = np.where(rows.has(name)[at], rows[name][at], sampled)
        until = np.zeros(len(at), np.int64)
        for each in np.flatnonzero(np.bincount(sampled)).tolist():
            summed = np.cumsum(np.where(priority == each, octets, 0))
            mine = sampled == each
            until[mine] = self._totals[each] + summed[at[mine]]
        one, other = (rows[f"{self.PREFIX}.{name}"][at] for name in self.FIELDS)
        seen = rows.events(at, until, sampled, one, other)
        return self._chain.follow(rows[f"{self.PREFIX}.cpid"][at], rows.interface[at], seen)

    def _take(self, pairs: Pairs) -> None:
        pairs = pairs.select(self.is_judged(pairs))
        if not len(pairs.low):
            return
        needed = self.needed(pairs)
        counted_octets = pairs.now[:, 3] - pairs.before[:, 3] + np.maximum(self.grown(pairs), 0)
        cpids, which = np.unique(pairs.low, return_inverse=True)
        # floats represent the sums of a batch exactly, because the sums are far below 2^53
        added = [np.bincount(which, weights=octets) for octets in (counted_octets, needed)]
        for cpid, *sums in zip(cpids.tolist(), *added, np.bincount(which), strict=True):
            here = self._points.setdefault(cpid, [0, 0, 0])
            here[:] = [one + int(other) for one, other in zip(here, sums, strict=True)]
        minimum = counted_octets + 2 * QUEUE_UNIT_OCTETS
        short = np.flatnonzero(minimum < needed)
        if len(short):
            more = np.column_stack([pairs.now[short, :3], pairs.low[short], minimum[short], needed[short]])
            self._short = first_of(self._short, more, self._MAX_SHORT)

    def join(self, later: Intervals, shift: Shift) -> None:
        """Add the pairs of a later part, whose octet counts start at 0."""

        def change(rows: Int64) -> Int64:
            rows[:, 3] += self._totals[rows[:, 4]]
            return rows

        across = self._chain.join(later._chain, shift, change)
        self._take(across)
        for cpid, sums in later._points.items():
            here = self._points.setdefault(cpid, [0, 0, 0])
            here[:] = [one + other for one, other in zip(here, sums, strict=True)]
        self._short = first_of(self._short, moved(later._short, shift), self._MAX_SHORT)
        self._totals += later._totals
        self._largest = max(self._largest, later._largest)

    def end(self, report: Report) -> None:
        """Report too short intervals of congestion points with enough captured octets."""
        # in the capture, a frame may precede or follow the message that the frame caused
        short = self._short[self._short[:, 4] + 2 * self._largest < self._short[:, 5]]
        for cpid, (have, need, intervals) in self._points.items():
            rows = short[short[:, 3] == cpid]
            enough = have >= self._parameters.enough * need and len(rows) <= self._FEW * intervals
            if not enough and not self._parameters.has_all:
                continue
            number, time_ns, interface, subject, octets, needed = rows.T
            passed = np.zeros(intervals - len(rows), np.int64)
            report.count(self.RULE, Where(passed, passed, passed, passed + cpid))
            every = np.ones(len(rows), np.bool_)

            def allowed(row: int, needed: Int64 = needed) -> str:
                return f"at least {needed[row]} for {self.BY}"

            report.record(
                self.RULE, Where(number, time_ns, interface, subject),
                Judged(every, "too few octets since the previous message", octets, allowed),
            )  # fmt: skip


class DraftIntervals(Intervals):
    """The base class for intervals of ECM and BCN, which do not depend on the contents of messages."""

    GIVEN, BY = "sf", "sf, sr and sscale"
    GROWTH = "The growth of the queue is Qdelta ÷ Qscale."
    """A sentence that explains the growth of the queue."""
    GROWN_BY: tuple[str, ...]
    """The parameters that determine the growth of the queue."""

    def needed(self, pairs: Pairs) -> Int64:
        """Return (Sf − Sr) ÷ 2^Sscale for each pair."""
        sampling = self._parameters
        minimum = max(0, sampling.fixed_octets - sampling.random_octets) >> sampling.oversampling_shift
        return np.full(len(pairs.low), minimum, np.int64)


COUNTED = (
    "The rule counts the octets of all captured frames with the sampled frame's priority. The rule adds the "
    "growth of the queue, because frames that are still in the queue may be missing from the capture."
)


def condition(family: str) -> str:
    """Return a sentence on the captures to which the rule applies."""
    return (
        f"The rule applies if the capture contains enough octets for most intervals (see {family}.enough), "
        f"or with --set {family}.has_all=yes."
    )


def sampling_interval(memory: type[DraftIntervals], **attributes: Any) -> Rule:
    """Return the rule for the octets between two messages of ECM or BCN."""
    prefix = memory.PREFIX
    fields = (memory.SHOWS, *memory.PRIORITIES, *(f"{prefix}.{name}" for name in ("cpid", *memory.FIELDS)))
    return Rule(
        id=memory.RULE,
        name="sampling interval",
        sentence="Between two messages, a congestion point receives at least (Sf − Sr) ÷ 2^Sscale octets.",
        why="A congestion point that sends messages more often reduces the rates too far. The rule needs "
        f"--set {prefix}.sf, because S000 defines no default for Sf. Set Sr and Sscale with --set "
        f"{prefix}.sr and --set {prefix}.sscale. {COUNTED} {memory.GROWTH} The rule ignores messages that "
        "report a full queue, because a full queue drops frames. Dropped frames count for the sampling "
        f"interval, but may be missing from the capture. {condition(prefix)}",
        severity="warning",
        subject=congestion_point(f"{prefix}.cpid"),
        optional=(*PRIORITY_FIELDS, *fields),
        parameters=("sf", "sr", "sscale", "has_all", "enough", *memory.GROWN_BY),
        memory=memory,
        **attributes,
    )
