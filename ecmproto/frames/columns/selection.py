"""Display filters as operations on whole columns; `filter.evaluation` evaluates one frame at a time.

`selected` returns the frames of a batch that a filter selects. `count` returns their number in a capture.
Cheap tests are evaluated first, and other tests examine only the remaining frames. A `Scope` provides the
values of fields, the octets of layers and the presence of layers. Operands are evaluated in portions.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.frames.capture import open_captures
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.frames.columns.column import Column, Int64, Stretches, Texts, Values
from ecmproto.frames.columns.extraction import SHARED_FRAMES, extract
from ecmproto.frames.columns.files import CapturePath
from ecmproto.frames.columns.layers import BatchLayers, find_layers, frames_of, sampled_frames
from ecmproto.frames.columns.relations import (
    bitwise_and,
    compared,
    has_bits,
    is_something,
    joined,
    lengths,
    matched,
    octet_strings,
    related,
    repeated,
    shorter,
    within,
)
from ecmproto.frames.columns.threads import new_pool
from ecmproto.frames.columns.walk import decoded_frame
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter.evaluation import Captured, cut, fields_of
from ecmproto.frames.filter.fields import (
    DISPLAYED,
    INNER,
    And,
    Comparison,
    Constant,
    FilterField,
    Masked,
    Match,
    Membership,
    Nesting,
    Network,
    Not,
    Operand,
    Or,
    Present,
    Range,
    Slice,
    Test,
    Value,
    frames_within,
)
from ecmproto.values import dataclass
from ecmproto.wire.codec.frame import Frame
from ecmproto.wire.formats.ethernet import Data
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.registry import BY_PREFIX

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Mask = NDArray[np.bool_]

_SPARSE = 2
"""Divisor: if fewer than 1 / ``_SPARSE`` of all frames remain, the remaining frames are copied."""


def selected(
    batch: Batch,
    filter: Filter,
    *,
    interfaces: Sequence[Interface] = (),
    ethertypes: EtherTypes = DEFAULT,
    pool: ThreadPoolExecutor | None = None,
) -> Mask:
    """Return a mask of the frames of ``batch`` that ``filter`` selects.

    ``interfaces`` are the interfaces of the capture, as for `ecmproto.frames.columns.extract`. ``pool`` is a
    thread that shares the work.
    """
    scope = Scope(batch, interfaces, ethertypes, pool)
    return _sequentially(filter, scope) if DISPLAYED in filter.fields else _holds(filter.test, scope)


def _sequentially(filter: Filter, scope: Scope) -> Mask:
    """Return a mask of the frames selected by a filter that depends on the previously selected frames.

    The other tests of the filter are applied first, to all frames at once. The remaining frames are tested
    one by one.
    """
    tests = filter.test.tests if isinstance(filter.test, And) else (filter.test,)
    other = [test for test in tests if all(field.name != DISPLAYED for field in fields_of(test))]
    mask = _all(other, scope)
    rows = np.flatnonzero(mask)
    mask[rows] = [filter.matches(record) for record in scope.records(rows)]
    return mask


def count(
    path: CapturePath, filter: Filter | str, *, ethertypes: EtherTypes = DEFAULT, threads: int = 2
) -> int:
    """Return the number of frames of the capture at ``path`` that a filter selects.

    With ``threads`` 1, the calling thread does all work. Memory does not grow with the capture. Raises
    FilterError for an invalid filter, and CaptureError for a capture that cannot be read to its end.
    """
    compiled = compile_filter(filter) if isinstance(filter, str) else filter
    pool = new_pool() if threads > 1 else None
    frames = 0
    with pool or contextlib.nullcontext(), open_captures((path,)) as reader:
        for batch in reader:
            mask = selected(batch, compiled, interfaces=reader.interfaces, ethertypes=ethertypes, pool=pool)
            frames += int(mask.sum())
        if reader.problem is not None:
            raise reader.problem
    return frames


def _holds(test: Test, scope: Scope) -> Mask:
    """Return a mask of the frames for which a test is true."""
    match test:
        case And():
            return _all(test.tests, scope)
        case Or():
            return ~_all([Not(test=each) for each in test.tests], scope)
        case Not():
            return ~_holds(test.test, scope)
        case Present(operand=FilterField() as field):
            return scope.present(field)
        case Comparison():
            return _comparison(test, scope)
    results = _Results(len(scope), every=not isinstance(test, Present) and test.every)
    match test:
        case Present():
            predicate = has_bits if isinstance(test.operand, Masked) else is_something
            for listed in values_of(test.operand, scope):
                results.add(listed.rows, predicate(listed.values))
        case Match():
            for listed in searched(test.operand, scope):
                results.add(listed.rows, matched(listed.values, test.pattern))
        case Membership():
            for listed in values_of(test.operand, scope):
                results.add(listed.rows, within(listed.values, test.items))
    return results.mask


def _all(tests: Iterable[Test], scope: Scope) -> Mask:
    """Return a mask of the frames for which all tests are true."""
    alive = np.ones(len(scope), np.bool_)
    for cost, group in itertools.groupby(sorted(tests, key=_cost), key=_cost):
        together = list(group)
        for some in [together] if cost < _SEARCH else [[test] for test in together]:
            rows = np.flatnonzero(alive)
            if not len(rows):
                return alive
            if len(rows) * _SPARSE < len(scope):
                alive[rows] = _each(some, scope.narrowed(rows))
            else:
                alive &= _each(some, scope)
    return alive


def _each(tests: Sequence[Test], scope: Scope) -> Mask:
    scope.prepare(field for test in tests for field in fields_of(test))
    mask: Mask = np.logical_and.reduce([_holds(test, scope) for test in tests])
    return mask


def _comparison(test: Comparison, scope: Scope) -> Mask:
    results = _Results(len(scope), every=test.every)
    read = searched if test.relation == "contains" else values_of
    for left in read(test.left, scope):
        if isinstance(test.right, Constant | Network):
            results.add(left.rows, compared(left.values, test.relation, test.right))
            continue
        for right in values_of(test.right, scope):
            for one, other in pairs(left, right, len(scope)):
                results.add(one.rows, related(one.values, test.relation, other.values))
    return results.mask


class _Results:
    """Collector of results for values, combined for each frame.

    A frame is selected if the test is true for any value or, with ``every``, for all values.
    """

    def __init__(self, frames: int, *, every: bool) -> None:
        self._every = every
        self._seen = np.zeros(frames, np.bool_)
        """Frames with a value for which the test is true; with ``every``, frames with any value."""
        self._failed = np.zeros(frames if every else 0, np.bool_)

    def add(self, rows: NDArray[np.int32], mask: Mask) -> None:
        """Add the results for one value of each frame in ``rows``."""
        if self._every:
            self._seen[rows] = True
            self._failed[rows[~mask]] = True
        else:
            self._seen[rows[mask]] = True

    @property
    def mask(self) -> Mask:
        """Mask of the frames for which the test is true."""
        return self._seen & ~self._failed if self._every else self._seen


_RECORD, _FIELDS, _WALKS, _SEARCH = range(4)
"""Costs of tests: record data, one walk over the frames, several walks, a search of every octet."""


def _cost(test: Test) -> int:
    match test:
        case And() | Or():
            return max(map(_cost, test.tests), default=_RECORD)
        case Not():
            return _cost(test.test)
        case Match() if test.operand.kind != "text":
            return _SEARCH
        case Comparison(relation="contains") if test.left.kind != "text":
            return _SEARCH
    fields = list(fields_of(test))
    if all(field.origin == "record" for field in fields):
        return _RECORD
    octets = not isinstance(test, Present) or not isinstance(test.operand, FilterField)
    if any(field.inner or (field.kind == "layer" and octets) for field in fields):
        return _WALKS
    return _FIELDS


_PROTOCOLS = "frame.protocols"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameValues:
    """Values, and the index of the frame of each value in ascending order."""

    rows: NDArray[np.int32]
    values: Values

    def select(self, indices: Any) -> FrameValues:
        """Return the values at indices or in a slice."""
        values = self.values
        selection = values[indices] if isinstance(values, np.ndarray) else values.select(indices)
        return FrameValues(rows=self.rows[indices], values=selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A single frame; implements `ecmproto.frames.filter.evaluation.Captured`."""

    number: int
    time_ns: int | None
    since_first_ns: int | None
    since_previous_ns: int | None
    since_displayed_ns: int | None
    octets: bytes
    original_octets: int
    interface_id: int
    frame: Frame


class Scope:
    """The fields of the frames in a batch; each field is computed once and cached."""

    def __init__(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        ethertypes: EtherTypes,
        pool: ThreadPoolExecutor | None,
    ) -> None:
        self._batch = batch
        self._interfaces = interfaces
        self._ethertypes = ethertypes
        self._pool = pool
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._batch)

    def narrowed(self, rows: NDArray[np.intp]) -> Scope:
        """Return a scope with only the frames at ``rows``."""
        return Scope(self._batch.select(rows), self._interfaces, self._ethertypes, self._pool)

    def records(self, rows: NDArray[np.intp]) -> Iterator[Captured]:
        """Yield the frames at ``rows`` one by one."""
        batch = self._batch.select(rows)
        frames = frames_of(batch, self._interfaces)
        names = (
            "frame.number",
            "frame.time_epoch",
            "frame.time_relative",
            "frame.time_delta",
            "frame.interface_id",
        )
        columns = extract(batch, names, interfaces=self._interfaces)
        listed = (columns[name].lists() for name in names)
        for row, (number, time_ns, since_first_ns, since_previous_ns, interface_id) in enumerate(
            zip(*listed, strict=True)
        ):
            yield _Row(
                number=number[0], time_ns=next(iter(time_ns), None), interface_id=interface_id[0],
                since_first_ns=next(iter(since_first_ns), None),
                since_previous_ns=next(iter(since_previous_ns), None), since_displayed_ns=None,
                octets=batch.frame(row), original_octets=int(batch.original[row]),
                frame=decoded_frame(frames, self._ethertypes, row),
            )  # fmt: skip

    def prepare(self, fields: Iterable[FilterField]) -> None:
        """Compute the values of ``fields``, and the presence of layers, in one walk over the frames."""
        names = {_column(field) for field in fields} - {""} - self._columns.keys()
        if names:
            self._columns |= extract(
                self._batch,
                sorted(names),
                interfaces=self._interfaces,
                ethertypes=self._ethertypes,
                pool=self._pool,
            )

    def present(self, field: FilterField) -> NDArray[np.bool_]:
        """Return a mask of the frames that have a field or layer."""
        if field.kind != "layer":
            return self._column(field).present
        if field.origin == "record":
            return np.ones(len(self), np.bool_)
        paths = self._column(field)
        if field.origin == "frame":
            return paths.present
        assert isinstance(paths.values, Texts)
        names = {cls.prefix for cls in field.formats}
        has = np.array([_has_one(word, names, field.nesting) for word in paths.values.words], np.bool_)
        mask = np.zeros(len(self), np.bool_)
        mask[paths.rows] = has[paths.values.codes]
        return mask

    def values(self, field: FilterField) -> FrameValues:
        """Return the values of a field, or the octets of a layer without the following layers."""
        if field.kind == "layer":
            return self._whole() if field.origin == "record" else self._layers(field, to_end=False)
        column = self._column(field)
        return FrameValues(rows=column.rows, values=column.values)

    def octets_from(self, field: FilterField) -> FrameValues:
        """Return the octets from the start of a layer to the end of the frame's last layer."""
        return self._whole() if field.origin == "record" else self._layers(field, to_end=True)

    def _column(self, field: FilterField) -> Column:
        self.prepare([field])
        return self._columns[_column(field)]

    def _whole(self) -> FrameValues:
        batch = self._batch
        return FrameValues(
            rows=np.arange(len(batch), dtype=np.int32),
            values=Stretches(buffer=batch.buffer, start=batch.offset, octets=batch.captured),
        )

    def _layers(self, field: FilterField, *, to_end: bool) -> FrameValues:
        frame_of, layers = self._layers_of(field)
        if frame_of is not None and field.origin == "frame":
            start = layers.frames.offset
            shown = Stretches(buffer=layers.frames.buffer, start=start, octets=layers.ends.tail - start)
            return FrameValues(rows=frame_of, values=shown)
        entries = [layers.entries[cls] for cls in field.formats if cls in layers.entries]
        none = np.empty(0, np.int64)
        inside = np.concatenate([none, *(each.row for each in entries)]).astype(np.int32)
        start = np.concatenate([none, *(each.start for each in entries)])
        own = np.concatenate([none, *(each.octets for each in entries)])
        octets = layers.ends.tail[inside] - start if to_end else own
        rows = inside if frame_of is None else frame_of[inside]
        ascending = np.argsort(rows, kind="stable")
        values = Stretches(buffer=layers.frames.buffer, start=start, octets=octets)
        return FrameValues(rows=rows, values=values).select(ascending)

    def _layers_of(self, field: FilterField) -> tuple[NDArray[np.int32] | None, BatchLayers]:
        """Return the layers of a field; for quoted frames, also return the indices of the quoting frames."""
        pool = self._pool if len(self) >= SHARED_FRAMES else None
        outer = () if field.inner else field.formats
        frames = frames_of(self._batch, self._interfaces)
        layers = find_layers(frames, outer, self._ethertypes, pool, nesting=field.nesting)
        if not field.inner:
            return None, layers
        rows, frames = sampled_frames(layers, field.nesting)
        return rows, find_layers(frames, field.formats, self._ethertypes, pool)


def _has_one(protocols: str, names: set[str], nesting: Nesting) -> bool:
    """Return whether the layers in ``protocols`` contain one of ``names``.

    ``nesting`` restricts the search to the innermost or outermost frame.
    """
    layers = protocols.split(":")
    if nesting:
        layers = layers[frames_within(nesting, [BY_PREFIX.get(name, Data) for name in layers])]
    return not names.isdisjoint(layers)


def _column(field: FilterField) -> str:
    """Return the name of the column for a field or for the presence of a layer.

    The name is empty for a layer of all frames.
    """
    if field.kind != "layer":
        return field.name
    if field.origin == "record":
        return ""
    return f"{INNER}.{_PROTOCOLS}" if field.inner else _PROTOCOLS


AT_ONCE = 1 << 21
"""Maximum number of pairs of values, or of octets, computed at once."""


def values_of(operand: Operand, scope: Scope) -> Iterator[FrameValues]:
    """Yield the values of an operand; the values of one frame may be spread over several yields."""
    match operand:
        case FilterField():
            yield scope.values(operand)
        case Slice():
            for listed in values_of(operand.of, scope):
                yield from _sliced(listed, operand.ranges)
        case Masked():
            for listed in values_of(operand.of, scope):
                yield from _masked(listed, operand.mask, scope)


def searched(operand: Operand, scope: Scope) -> Iterator[FrameValues]:
    """Yield the octets that ``contains`` and ``matches`` search.

    For a layer, the octets extend to the end of the frame.
    """
    if isinstance(operand, FilterField) and operand.kind == "layer":
        return iter([scope.octets_from(operand)])
    return values_of(operand, scope)


def pairs(left: FrameValues, right: FrameValues, frames: int) -> Iterator[tuple[FrameValues, FrameValues]]:
    """Yield all pairs of a left value and a right value of the same frame."""
    if _one_each(left.rows, right.rows):
        yield left, right
        return
    counts = np.bincount(right.rows, minlength=frames)
    firsts = np.cumsum(counts) - counts
    partners = counts[left.rows]
    for part in portions(partners):
        many = partners[part]
        ends = np.cumsum(many)
        first = np.repeat(firsts[left.rows[part]] - (ends - many), many)
        lefts = np.repeat(np.arange(part.start, part.stop), many)
        yield left.select(lefts), right.select(first + np.arange(len(first)))


def _one_each(left: NDArray[np.int32], right: NDArray[np.int32]) -> bool:
    """Return whether each frame has either one value on both sides or no value on both sides."""
    return len(left) == len(right) and bool((left == right).all() and (left[1:] > left[:-1]).all())


def portions(sizes: Int64) -> Iterator[slice]:
    """Yield slices of ``sizes`` with a sum of at most `AT_ONCE`; a larger element has a separate slice."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + AT_ONCE, "right")))
        yield slice(start, stop)
        start = stop


def _sliced(listed: FrameValues, ranges: Sequence[Range]) -> Iterator[FrameValues]:
    values = listed.values
    if isinstance(values, Texts):
        words = tuple(cut(word, ranges) for word in values.words)
        yield FrameValues(rows=listed.rows, values=Texts(codes=values.codes, words=words))
    elif isinstance(values, Stretches):
        yield from _cut(listed.rows, [_part(values, each) for each in ranges])
    else:
        if values.ndim == 1:  # a number of 64 bits, in network order
            values = values.astype(">u8").view(np.uint8).reshape(-1, 8)
        columns = cut(tuple(range(values.shape[1])), ranges)
        yield FrameValues(rows=listed.rows, values=values[:, np.array(columns, np.intp)])


def _part(values: Stretches, part: Range) -> Stretches:
    """Return the given range of each string.

    This is `ecmproto.frames.filter.evaluation.cut` for `Stretches`.
    """
    size = values.octets
    start = size + part.start if part.start < 0 else np.full_like(size, part.start)
    if part.length is not None:
        stop = start + part.length
    elif part.stop is not None:
        stop = (size + part.stop if part.stop < 0 else np.full_like(size, part.stop)) + 1
    else:
        stop = size
    valid = (start >= 0) & (start < stop) & (stop <= size)
    start = np.where(valid, start, 0)
    return Stretches(
        buffer=values.buffer, start=values.start + start, octets=np.where(valid, stop - start, 0)
    )


def _cut(rows: NDArray[np.int32], parts: Sequence[Stretches]) -> Iterator[FrameValues]:
    if len(parts) == 1:
        yield FrameValues(rows=rows, values=parts[0])
        return
    for portion in portions(lengths(parts)):
        yield FrameValues(rows=rows[portion], values=joined([part.select(portion) for part in parts]))


def _masked(listed: FrameValues, mask: Constant | FilterField | Slice, scope: Scope) -> Iterator[FrameValues]:
    if isinstance(mask, Constant):
        yield from _bitwise_and(listed, _constant(mask.value, listed))
        return
    for right in values_of(mask, scope):
        for one, other in pairs(listed, right, len(scope)):
            yield from _bitwise_and(one, other.values)


def _constant(value: Value, listed: FrameValues) -> Values:
    """Return ``value`` repeated for each value in ``listed``."""
    if isinstance(value, bytes):
        if isinstance(listed.values, np.ndarray):
            return np.broadcast_to(np.frombuffer(value, np.uint8), (len(listed.rows), len(value)))
        return repeated(value, len(listed.rows))
    assert isinstance(value, int)
    return np.broadcast_to(np.array(value, np.int64 if value < 0 else np.uint64), len(listed.rows))


def _bitwise_and(left: FrameValues, right: Values) -> Iterator[FrameValues]:
    """Yield the bitwise AND of left values and right values."""
    values = left.values
    assert not isinstance(values, Texts)
    assert not isinstance(right, Texts)
    if isinstance(values, np.ndarray) and isinstance(right, np.ndarray):
        width = min(values.shape[-1], right.shape[-1])
        rows = values.ndim > 1
        common = values[:, :width] & right[:, :width] if rows else integers_anded(values, right)
        yield FrameValues(rows=left.rows, values=common)
        return
    one, other = octet_strings(values), octet_strings(right)
    for part in portions(shorter(one, other)):
        yield FrameValues(rows=left.rows[part], values=bitwise_and(one.select(part), other.select(part)))


def integers_anded(left: NDArray[np.integer], right: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return ``left & right`` with the semantics of Python integers, which are signed and unbounded."""
    if left.dtype.kind == right.dtype.kind:
        return left & right
    # One operand has no negative numbers, so the result has none.
    return _unsigned(left) & _unsigned(right)


def _unsigned(numbers: NDArray[np.integer]) -> NDArray[np.uint64]:
    return (
        numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    )
