"""Comparison of two captures: the differences in order, and their summary.

Both captures are read as digests and aligned, a window of frames at a time. Then the differing frames are
read again and compared field by field. The memory required depends only on the window. Frames after the last
common frame of a window are moved to the next window. A frame that moved further than a window is missing and
added.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError, ParameterError, counted
from ecmproto.frames.capture import Interface
from ecmproto.frames.dissect.form import Record, records
from ecmproto.frames.filter import Filter
from ecmproto.tools.diff.alignment import WHOLE, Alignment, Pairs, Parts, Rows, align, mixed
from ecmproto.tools.diff.captures import DigestReader, FramePicker, ReadTwice, Watch
from ecmproto.tools.diff.clocks import Clock, TimeDifference, TimeSample, timed_pairs
from ecmproto.tools.diff.digests import NO_TIME, Digester, Digests, Numbers
from ecmproto.tools.diff.fields import ChangedField, FieldChange, FieldComparison, Side, differing_interfaces
from ecmproto.tools.diff.rules import INTERFACE, TIME, Rules, Tolerance
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]

Kind: TypeAlias = Literal["changed", "retimed", "moved", "missing", "added"]
KINDS: tuple[Kind, ...] = ("changed", "retimed", "moved", "missing", "added")
"""Types of differences.

A changed frame has differing fields. A retimed frame differs only in its time. A moved frame has an equal
frame at another position. A missing frame is only in the first capture, and an added frame is only in the
second capture.
"""
_SAME = len(KINDS)
_CHANGED, _RETIMED, _MOVED, _MISSING, _ADDED = range(_SAME)

WINDOW_FRAMES = 3_000_000
"""Number of frames of each capture aligned at a time."""
_PAIRS_AT_ONCE = 1 << 20
_AT_ONCE = 4096
_NO_TOLERANCE = Tolerance()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A frame in one of the captures: its number from 1, its time or ``None``, and its interface."""

    number: int
    time_ns: int | None
    interface: str
    record: Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A frame that differs; ``a`` is ``None`` for an added frame, ``b`` for a missing frame."""

    kind: Kind
    a: Place | None
    b: Place | None
    fields: tuple[FieldChange, ...] = ()
    """Differing fields of a changed frame, in the order of headers."""
    time_difference_ns: int | None = None
    """Time in the second capture minus time in the first in ns, uncorrected; ``None`` without two times."""
    time_left_ns: int | None = None
    """Time difference in ns after the correction of offset and drift."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceCounts:
    """Counts of the frames of an interface: equal frames, and frames by type of difference."""

    name: str
    same: int
    kinds: dict[Kind, int]


@dataclasses.dataclass(slots=True, kw_only=True)
class FieldCount:
    """The number of changed frames in which a field differs."""

    frames: int = 0
    added: int = 0
    """Number of changed frames in which only the second capture has the field."""
    gone: int = 0
    """Number of changed frames in which only the first capture has the field."""
    change: FieldChange | None = None
    """Values of the field, if all frames counted have the same values."""

    def add(self, frames: int, change: FieldChange | None = None, *, added: int = 0, gone: int = 0) -> None:
        """Count more frames; ``change`` has their values, if all of these frames have the same values."""
        self.change = change if not self.frames or self.change == change else None
        self.frames += frames
        self.added += added
        self.gone += gone


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of the differences."""

    frames_a: int
    frames_b: int
    same: int
    kinds: dict[Kind, int]
    """Number of frames with each type of difference."""
    fields: dict[str, FieldCount]
    """Fields that differ in changed frames, most frequent first."""
    times: TimeDifference | None
    """Time differences; ``None`` if no frame has a time in both captures."""
    clock: Clock
    """Correction subtracted from the times of the second capture."""
    interfaces: tuple[InterfaceCounts, ...]
    """Counts by interface; empty for a single interface."""

    @property
    def differences(self) -> int:
        """Number of differences."""
        return sum(self.kinds.values())


class _Events(NamedTuple):
    """Differences in order: their types, and the rows of the frames, or −1 for no frame."""

    kind: NDArray[np.uint8]
    a: Rows
    b: Rows

    def part(self, start: int, stop: int) -> _Events:
        return _Events(self.kind[start:stop], self.a[start:stop], self.b[start:stop])


class Comparison:
    """A comparison of two captures, given as paths; one path may be ``-`` for stdin.

    Iteration yields all differences in order. A missing frame is listed at its position in the first capture.
    ``list_times`` determines whether frames that differ only in time are listed. By default, these frames are
    listed unless more than half of the frames differ in time. `Summary.times` always includes these frames.
    ``filter`` restricts the comparison in both captures. By default, the innermost frames of mirrors and
    tunnels are compared, without their interfaces. With ``outer``, wrappers are compared. ``window`` is a
    number of frames; memory use is about 100 bytes per frame of the window.

    Raises CaptureError for an unreadable capture. A truncated capture is compared as far as possible, and
    ``problem`` is set afterwards.
    """

    def __init__(
        self,
        a: str,
        b: str,
        rules: Rules | None = None,
        *,
        filter: Filter | None = None,
        ethertypes: EtherTypes = DEFAULT,
        outer: bool = False,
        window: int = WINDOW_FRAMES,
        list_times: bool | None = None,
        threads: int = 2,
        watch: Watch = lambda batches, reader: batches,
    ) -> None:
        self.rules: Rules = rules or Rules()
        self.list_times = list_times
        self.listing: bool = True
        """Whether differences are yielded or only counted; may be changed during iteration."""
        self._window = window
        self._ethertypes = ethertypes
        self._pickers: tuple[FramePicker, ...] = ()
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(1)) if threads > 1 else None
            reading = partial(ReadTwice, stack=stack, outer=outer, ethertypes=ethertypes)
            self.captures: tuple[ReadTwice, ReadTwice] = reading(a), reading(b)
            digester = self._digester = Digester(self.rules, ethertypes)
            digests = (
                DigestReader(each, digester, filter=filter, ethertypes=ethertypes, pool=pool, watch=watch)
                for each in self.captures
            )
            self._digests = tuple(stack.enter_context(contextlib.closing(each)) for each in digests)
            self._comparing = FieldComparison(self.rules, ethertypes, pool)
            self._stack = stack.pop_all()
        self._sample = TimeSample()
        self._clock: Clock | None = None
        self._counts: Counter[int] = Counter()
        self._fields: dict[str, FieldCount] = {}
        self._by_interface: dict[str, Counter[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the captures."""
        for picker in self._pickers:
            picker.close()
        self._stack.close()

    @property
    def warnings(self) -> list[str]:
        """Warnings about the captures, with the names of the captures."""
        pairs = zip(self.captures, self._digests, strict=True)
        return [f"{capture.path}: {text}" for capture, digests in pairs for text in digests.warnings]

    @property
    def unwrapped(self) -> list[str]:
        """Lines about unwrapped frames, with the names of the captures."""
        pairs = zip(self.captures, self._digests, strict=True)
        return [f"{capture.path}: {digests.unwrapped}" for capture, digests in pairs if digests.unwrapped]

    @property
    def problem(self) -> CaptureError | None:
        """Error that ended the reading of a capture early."""
        return next((each.problem for each in self._digests if each.problem is not None), None)

    def run(self) -> Summary:
        """Compare the remaining frames without yielding differences, and return the summary."""
        self.listing = False
        for _ in self:
            pass
        return self.summary

    def __iter__(self) -> Iterator[Difference]:
        while True:
            a, b = (each.window(self._window) for each in self._digests)
            done = all(each.is_read for each in self._digests)
            if self.rules.by_interface and not done:
                frames = counted(self._window, "frame")
                raise ParameterError(
                    name="per interface", needed=f"captures of {frames} at most, or a larger window",
                    got="one with more",
                )  # fmt: skip
            yield from self._compared(a, b, done=done)
            if done:
                return

    @property
    def summary(self) -> Summary:
        """Summary of the differences so far."""
        a, b = self._digests
        interfaces = [
            InterfaceCounts(
                name=name, same=counts[_SAME], kinds={kind: counts[each] for each, kind in enumerate(KINDS)}
            )
            for name, counts in self._by_interface.items()
        ]
        return Summary(
            frames_a=a.frames,
            frames_b=b.frames,
            same=self._counts[_SAME],
            kinds={kind: self._counts[each] for each, kind in enumerate(KINDS)},
            fields=dict(sorted(self._fields.items(), key=lambda item: -item[1].frames)),
            times=self._sample.difference(),
            clock=self._clock or Clock(),
            interfaces=tuple(interfaces) if len(interfaces) > 1 else (),
        )

    def _by_interfaces(self, a: Digests, b: Digests) -> tuple[Digests, Digests, Parts]:
        """Return the frames sorted by interface name, and one part for each interface."""
        names = self._interface_names()
        number = {name: index for index, name in enumerate(dict.fromkeys([*names[0], *names[1]]))}
        sides, starts = [], []
        for side, own in zip((a, b), names, strict=True):
            part = np.array([number[name] for name in own] or [0])[side.interface]
            order = np.argsort(part, kind="stable")
            ordered = side.at(order)
            sides.append(dataclasses.replace(ordered, digest=mixed(part[order], ordered.digest)))
            starts.append(np.searchsorted(part[order], np.arange(len(number) or 1)).astype(np.int32))
        return sides[0], sides[1], Parts(*starts)

    def _interface_names(self) -> tuple[list[str], list[str]]:
        """Return the names of the interfaces, or all numbers if any interface has no name."""
        a, b = (each.interfaces for each in self._digests)
        named = all(each.name for each in (*a, *b))

        def names(interfaces: Sequence[Interface]) -> list[str]:
            return [each.name if named else str(each.local_index) for each in interfaces]

        return names(a), names(b)

    def _compared(self, a: Digests, b: Digests, *, done: bool) -> Iterator[Difference]:
        """Yield the differences between two windows.

        Frames after the last common frame are given back to the readers, unless all frames were read.
        """
        parts = WHOLE
        if self.rules.by_interface:
            a, b, parts = self._by_interfaces(a, b)
        alignment = align(a, b, reach=None if done else self._window, parts=parts)
        if not done:
            self._digests[0].give_back(a.part(alignment.end_a, len(a)))
            self._digests[1].give_back(b.part(alignment.end_b, len(b)))
        codes = self._codes(a, b, alignment)
        events = self._events(alignment, codes, parts)
        self._count(a, b, alignment, codes)
        # With several parts, the captures are read again for each interface, so more differences are
        # processed at a time.
        at_once = _AT_ONCE if parts is WHOLE else 8 * _AT_ONCE
        for start in range(0, len(events.kind), at_once):
            some = events.part(start, start + at_once)
            yield from self._differences(a, b, some)

    def _codes(self, a: Digests, b: Digests, alignment: Alignment) -> NDArray[np.uint8]:
        """Return the type of difference for each ordered pair, and record the times of the pairs."""
        ordered = alignment.ordered
        codes = np.full(len(ordered), _SAME, np.uint8)
        codes[np.searchsorted(ordered.a, alignment.changed.a)] = _CHANGED
        for start in range(0, len(ordered), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            self._classify(a, b, ordered.select(part), codes[part])
        return codes

    def _classify(self, a: Digests, b: Digests, ordered: Pairs, codes: NDArray[np.uint8]) -> None:
        """Set the type of pairs that differ in record data, or by more than a tolerance."""
        times_a, times_b = a.time_ns[ordered.a], b.time_ns[ordered.b]
        timed = timed_pairs(times_a, times_b)
        self._sample.add(times_a[timed], times_b[timed])
        if self._clock is None and timed.any():
            self._clock = self._sample.clock(self.rules.align_time)
        if TIME not in self.rules.names:
            beyond = self._beyond(times_a, times_b)
            self._sample.beyond += int(np.count_nonzero(beyond & timed))
            codes[beyond & (codes == _SAME)] = _RETIMED
        if INTERFACE not in self.rules.names:
            of_a, of_b = (reader.interfaces for reader in self._digests)
            *_, differ = differing_interfaces(of_a, a.interface[ordered.a], of_b, b.interface[ordered.b])
            codes[differ] = _CHANGED
        for name, tolerance in self.rules.tolerances.items():
            if name != TIME:
                codes[_apart(a.values[name], b.values[name], ordered, tolerance)] = _CHANGED

    def _beyond(self, times_a: Int64, times_b: Int64) -> Mask:
        """Return a mask of the times that differ by more than the tolerance, or exist in only one capture."""
        timed = timed_pairs(times_a, times_b)
        apart = times_b - times_a - (self._clock or Clock()).ahead_ns(times_a)
        tolerance = self.rules.tolerances.get(TIME, _NO_TOLERANCE).absolute
        beyond: Mask = np.where(timed, np.abs(apart) > tolerance, times_a != times_b)
        return beyond

    def _events(self, alignment: Alignment, codes: NDArray[np.uint8], parts: Parts) -> _Events:
        """Return the differences in order; at the same position, missing frames precede added frames."""
        ordered = alignment.ordered
        listed = codes != _SAME
        if not self.lists_times:
            listed &= codes != _RETIMED
        some = ordered.select(listed)
        a = np.concatenate([some.a, alignment.moved.a, alignment.missing])
        b = np.concatenate([some.b, alignment.moved.b, np.full(len(alignment.missing), -1, np.int32)])
        kind = np.concatenate(
            [
                codes[listed],
                np.full(len(alignment.moved), _MOVED, np.uint8),
                np.full(len(alignment.missing), _MISSING, np.uint8),
            ]
        )
        order = np.argsort(a, kind="stable")
        a, b, kind = a[order], b[order], kind[order]
        # Added frames come before the next common frame, or after the part.
        following = np.searchsorted(ordered.b, alignment.added)
        part = np.searchsorted(parts.b, alignment.added, side="right")
        position = np.minimum(
            np.append(ordered.a, alignment.end_a)[following], np.append(parts.a, alignment.end_a)[part]
        )
        at = np.searchsorted(a, position)
        return _Events(
            kind=np.insert(kind, at, np.uint8(_ADDED)),
            a=np.insert(a, at, -1),
            b=np.insert(b, at, alignment.added),
        )

    @property
    def lists_times(self) -> bool:
        """Whether the yielded differences include frames that differ only in time."""
        if self.list_times is not None:
            return self.list_times
        return 2 * self._sample.beyond <= self._sample.pairs

    def _count(self, a: Digests, b: Digests, alignment: Alignment, codes: NDArray[np.uint8]) -> None:
        names_a, names_b = self._interface_names()
        parts = [
            (names_a, a.interface[alignment.ordered.a], codes),
            (names_a, a.interface[alignment.moved.a], np.full(len(alignment.moved), _MOVED, np.uint8)),
            (names_a, a.interface[alignment.missing], np.full(len(alignment.missing), _MISSING, np.uint8)),
            (names_b, b.interface[alignment.added], np.full(len(alignment.added), _ADDED, np.uint8)),
        ]
        for names, interface, kind in parts:
            counts = np.bincount(interface.astype(np.int32) * (_SAME + 1) + kind)
            for pair in np.flatnonzero(counts).tolist():
                index, each = divmod(pair, _SAME + 1)
                self._counts[each] += int(counts[pair])
                self._by_interface.setdefault(names[index], Counter())[each] += int(counts[pair])

    def _differences(self, a: Digests, b: Digests, events: _Events) -> Iterator[Difference]:
        """Read the frames of some differences, count the differing fields, and yield the differences."""
        self._pickers = self._pickers or tuple(map(FramePicker, self.captures))
        changed = np.flatnonzero(events.kind == _CHANGED)
        listing = self.listing
        needed_a = events.a >= 0 if listing else events.kind == _CHANGED
        needed_b = np.isin(events.kind, (_CHANGED, _ADDED)) if listing else events.kind == _CHANGED
        one = self._side(0, a, events.a[needed_a])
        other = self._side(1, b, events.b[needed_b])
        changes: list[ChangedField] = []
        if len(changed):
            at_a, at_b = np.cumsum(needed_a)[changed] - 1, np.cumsum(needed_b)[changed] - 1
            changes = self._comparing.changes(
                one._replace(batch=one.batch.select(at_a)), other._replace(batch=other.batch.select(at_b))
            )
            for change in changes:
                pairs = np.flatnonzero(change.pairs).tolist()
                self._fields.setdefault(change.name, FieldCount()).add(
                    len(pairs), _common(change, pairs), added=sum(not change.a[pair] for pair in pairs),
                    gone=sum(not change.b[pair] for pair in pairs),
                )  # fmt: skip
            if TIME not in self.rules.names:
                beyond = self._beyond(a.time_ns[events.a[changed]], b.time_ns[events.b[changed]])
                if beyond.any():
                    self._fields.setdefault(TIME, FieldCount()).add(int(np.count_nonzero(beyond)))
        if listing:
            yield from self._listed(a, b, events, (one, other), changes)

    def _side(self, index: int, digests: Digests, rows: Rows) -> Side:
        picker = self._pickers[index]
        numbers = digests.numbers(rows)
        order = np.argsort(numbers, kind="stable")
        batch = self._digester.cut(picker.take(numbers[order]))
        return Side(batch.select(np.argsort(order)), picker.interfaces)

    def _listed(
        self, a: Digests, b: Digests, events: _Events, sides: tuple[Side, Side], changes: list[ChangedField]
    ) -> Iterator[Difference]:
        one, other = (records(each.batch, each.interfaces, ethertypes=self._ethertypes) for each in sides)
        names_a, names_b = self._interface_names()
        pair = 0
        for kind, row_a, row_b in zip(*(each.tolist() for each in events), strict=True):
            record = next(one) if row_a >= 0 else None
            position_a = position_b = None
            fields: list[FieldChange] = []
            if record is not None:
                position_a = _frame_at(a, row_a, names_a, record)
            if row_b >= 0:
                # A moved frame is equal in both captures, so the record of the first capture is used.
                record_b = next(other) if kind in (_CHANGED, _ADDED) else record
                assert record_b is not None
                position_b = _frame_at(b, row_b, names_b, record_b)
            if kind == _CHANGED:
                fields = [
                    FieldChange(name=each.name, a=tuple(each.a[pair]), b=tuple(each.b[pair]))
                    for each in changes
                    if each.pairs[pair]
                ]
                pair += 1
            apart = left = None
            if row_a >= 0 and row_b >= 0:
                time_a, time_b = int(a.time_ns[row_a]), int(b.time_ns[row_b])
                if NO_TIME not in (time_a, time_b):
                    apart = time_b - time_a
                    left = apart - int((self._clock or Clock()).ahead_ns(a.time_ns[[row_a]])[0])
                if kind == _CHANGED and TIME not in self.rules.names:
                    beyond = self._beyond(a.time_ns[[row_a]], b.time_ns[[row_b]])[0]
                    if beyond:
                        times = ((each,) if each != NO_TIME else () for each in (time_a, time_b))
                        fields.insert(0, FieldChange(name=TIME, a=next(times), b=next(times)))
            yield Difference(
                kind=KINDS[kind],
                a=position_a,
                b=position_b,
                fields=tuple(fields),
                time_difference_ns=apart,
                time_left_ns=left,
            )


def _frame_at(digests: Digests, row: int, names: Sequence[str], record: Record) -> Place:
    time_ns = int(digests.time_ns[row])
    return Place(
        number=int(digests.numbers(np.array([row]))[0]) + 1,
        time_ns=None if time_ns == NO_TIME else time_ns,
        interface=names[int(digests.interface[row])],
        record=record,
    )


def _common(change: ChangedField, pairs: Sequence[int]) -> FieldChange | None:
    """Return the values of a field in both captures if all ``pairs`` of frames have the same values."""
    a, b = change.a[pairs[0]], change.b[pairs[0]]
    if all(change.a[pair] == a and change.b[pair] == b for pair in pairs):
        return FieldChange(name=change.name, a=tuple(a), b=tuple(b))
    return None


def _apart(a: Numbers, b: Numbers, pairs: Pairs, tolerance: Tolerance) -> Mask:
    """Return a mask of the pairs that differ in a field.

    Pairs differ if a value differs by more than the tolerance, or if the number of values differs.
    """
    first_a, count_a = _spans(a, pairs.a)
    first_b, count_b = _spans(b, pairs.b)
    mask: Mask = count_a != count_b
    some = np.flatnonzero(~mask & (count_a > 0))
    count = count_a[some]
    nth = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    one = a.value[np.repeat(first_a[some], count) + nth]
    other = b.value[np.repeat(first_b[some], count) + nth]
    allowed = np.maximum(
        float(tolerance.absolute), float(tolerance.share) * np.maximum(np.abs(one), np.abs(other))
    )
    far = np.abs(one - other) > allowed
    mask[np.repeat(some, count)[far]] = True
    return mask


def _spans(numbers: Numbers, rows: Rows) -> tuple[Int64, Int64]:
    """Return the index of the first value of each frame, and the number of values of each frame."""
    first = np.searchsorted(numbers.row, rows)
    return first, np.searchsorted(numbers.row, rows, side="right") - first
