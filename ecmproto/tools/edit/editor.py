"""Edits of a capture, applied a batch at a time, and their counts.

First, frames are unwrapped. Then frames are selected by number and time, and a filter selects the frames to
edit. The edits are made in this order: fields are set, tags are removed and inserted, lengths and checksums
are fixed, times are moved, frames are truncated to a snap length, and wrappers are added. Frames that the
filter does not select are written unchanged.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError, counted
from ecmproto.frames.batch.inner import InnerReader
from ecmproto.frames.capture import Batch, CaptureCopier, CaptureReader, Interface, open_captures
from ecmproto.frames.capture.batch import ETHERNET, Block, Format
from ecmproto.frames.capture.copier import format_of
from ecmproto.frames.columns import walk
from ecmproto.frames.columns.extraction import SHARED_FRAMES
from ecmproto.frames.columns.layers import BatchLayers, frames_of, sampled_frames
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.filter import Filter
from ecmproto.tables import Tabular
from ecmproto.tools.edit.assignments import Assignment, Targets, Written, outermost_layers, targets_of, write
from ecmproto.tools.edit.checksums import (
    AFTER_IP,
    COVERED,
    FIXED,
    keep_right,
    packets_in,
    put_checksums_right,
    put_fcs,
    put_lengths_right,
    right_fcs,
    unclear_frames,
)
from ecmproto.tools.edit.records import Clock, move_times, own_records, unwrapped_records, with_frames
from ecmproto.tools.edit.selection import Frames, Span
from ecmproto.tools.edit.wrapping import Wrapper
from ecmproto.wire.codec.tags import TagFormat, kind_of
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.gre import GREChecksum
from ecmproto.wire.formats.ip import UDP, IPv4, IPv6

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Edits to apply to a capture."""

    assignments: tuple[Assignment, ...] = ()
    filter: Filter | None = None
    """Filter that selects the frames to edit; ``None`` selects all frames."""
    drop: str = ""
    """Frames to drop: "selected" or "others", according to the filter; "" drops no frames."""
    frames: Frames | None = None
    span: Span | None = None
    strip: tuple[type[Layer], ...] = ()
    """Tag formats to remove; all tags of these formats are removed."""
    tags: tuple[Layer, ...] = ()
    """Tags to insert; each tag is inserted outside all tags already present."""
    replace_tags: bool = False
    """Whether an inserted tag replaces tags of the same format, after the VLAN tags at the frame's start."""
    clock: Clock | None = None
    snap_octets: int | None = None
    fix: bool = False
    """Whether lengths and checksums are recomputed, whatever their old values."""
    update_checksums: bool = True
    """Whether checksums over edited fields are updated."""
    decap: bool = False
    """Whether frames wrapped by mirrors and tunnels are replaced by their innermost frames."""
    wrappers: tuple[Wrapper, ...] = ()
    """Wrappers to add to frames; the last wrapper becomes the outermost."""
    ethertypes: EtherTypes = DEFAULT

    @property
    def changes_frames(self) -> bool:
        """Whether the edits change octets in frames."""
        return bool(self.assignments or self.strip or self.tags or self.fix or self.wrappers)


@dataclasses.dataclass(slots=True, kw_only=True)
class Assigned:
    """The result of an assignment, in numbers of frames."""

    text: str
    name: str
    frames: int = 0
    """Number of frames that now have the value."""
    same: int = 0
    """Number of frames that already had the value."""
    without: int = 0
    """Number of frames without the field, or with a field of another length."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Tagged:
    """The result of the insertion of a tag, in numbers of frames."""

    name: str
    frames: int = 0
    """Number of frames into which the tag was inserted."""
    replaced: int = 0
    """Number of frames in which the tag replaced tags of the same format."""
    without: int = 0
    """Number of frames without the new tag: truncated within their tags, or not Ethernet."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Wrapped:
    """The number of frames that received a wrapper."""

    name: str
    frames: int = 0
    without: int = 0
    """Number of frames without the wrapper: not Ethernet, or too long for an IP packet."""


@dataclasses.dataclass(slots=True, kw_only=True, repr=False)
class Report(Tabular):
    """The counts of the frames of a capture; a table has one row per count."""

    read: int = 0
    taken: int = 0
    """Number of frames within the requested numbers and times."""
    selected: int = 0
    """Number of frames that the filter selects among the frames taken."""
    written: int = 0
    changed: int = 0
    """Number of frames with changed octets, lengths or times."""
    assigned: list[Assigned] = dataclasses.field(default_factory=list)
    stripped: Counter[str] = dataclasses.field(default_factory=Counter)
    tagged: list[Tagged] = dataclasses.field(default_factory=list)
    wrapped: list[Wrapped] = dataclasses.field(default_factory=list)
    unwrapped: str = ""
    """Line about the unwrapped frames; empty if no frame was unwrapped."""
    kept: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of updated checksums, by field."""
    fixed: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of corrected lengths and checksums, by field."""
    unknown: Counter[str] = dataclasses.field(default_factory=Counter)
    """Number of checksums that could not be computed, by field."""
    cut: int = 0
    """Number of truncated frames."""
    moved: int = 0
    """Number of frames with a moved time."""
    untimed: int = 0
    """Number of frames without a time to move."""
    rounded: int = 0
    """Number of frames whose new time is rounded to a tick of the file."""
    warnings: list[str] = dataclasses.field(default_factory=list)
    problem: CaptureError | None = None
    """Error that ended reading early."""

    def __repr__(self) -> str:
        return f"{counted(self.written, 'frame')} written, {self.changed:,} of them changed"

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each count: what was done, the field or tag, and the number of frames.

        The field or tag is "" for counts of all frames.
        """
        named = {
            "set": {each.name: each.frames for each in self.assigned},
            "stripped": self.stripped,
            "added": {each.name: each.frames for each in self.tagged},
            "updated": self.kept,
            "fixed": self.fixed,
            "not computed": self.unknown,
        }
        rows = [("read", "", self.read), ("taken", "", self.taken), ("selected", "", self.selected)]
        rows += [(what, name, frames) for what, of in named.items() for name, frames in of.items()]
        rows += [("cut", "", self.cut), ("moved", "", self.moved)]
        rows += [("changed", "", self.changed), ("written", "", self.written)]
        return [{"what": what, "name": name, "frames": frames} for what, name, frames in rows]


class Editor:
    """Editor of the batches of a capture, which must be passed in order; ``report`` counts the frames so far.

    With ``in_records``, frames are written as records in the format of the capture.
    """

    def __init__(
        self,
        edit: Edit,
        *,
        swapped: bool = False,
        pool: ThreadPoolExecutor | None = None,
        in_records: bool = True,
    ) -> None:
        self.edit = edit
        self.report: Report = Report(
            assigned=[Assigned(text=each.text, name=each.name) for each in edit.assignments],
            tagged=[Tagged(name=each.prefix) for each in edit.tags],
            wrapped=[Wrapped(name=each.name) for each in edit.wrappers],
        )
        self._swapped = swapped
        self._in_records = in_records
        self._pool = pool
        self._first_ns: int | None = None
        self._strip = [TagFormat(format=kind) for kind in edit.strip]
        self._tags = [(kind_of(tag), np.frombuffer(tag.build(), np.uint8)) for tag in edit.tags]
        self._covered = any(
            writing.source.format in AFTER_IP for each in edit.assignments for writing in each.writings
        )

    @property
    def is_done(self) -> bool:
        """Whether all requested frames have been read."""
        frames = self.edit.frames
        return frames is not None and self.report.read >= frames.last

    def batch(self, batch: Batch, interfaces: Sequence[Interface]) -> Batch:
        """Return the remaining frames of a batch, edited, with records as `CaptureReader` returns them.

        Raises RecordError for a time that the format of the capture cannot hold.
        """
        edit, report = self.edit, self.report
        report.read += len(batch)
        bare = batch.numbers[:0]
        if edit.decap:
            batch, unwrapped = unwrapped_records(batch)
            bare = batch.numbers[unwrapped]
        batch = self._within(batch)
        report.taken += len(batch)
        mask = None
        if edit.filter is not None and len(batch):
            mask = selected(
                batch, edit.filter, interfaces=interfaces, ethertypes=edit.ethertypes, pool=self._pool
            )
        report.selected += len(batch) if mask is None else int(mask.sum())
        if edit.drop:
            mask = np.ones(len(batch), np.bool_) if mask is None else mask
            batch, mask = batch.select(~mask if edit.drop == "selected" else mask), None
        rows = np.arange(len(batch)) if mask is None else np.flatnonzero(mask)
        touched = np.isin(batch.numbers, bare)
        if len(rows) and edit.drop != "selected":
            work = _Work(batch=batch, rows=rows, interfaces=interfaces, touched=touched)
            self._edited(work)
            batch = work.batch
        report.changed += int(touched.sum())
        report.written += len(batch)
        return batch

    def _within(self, batch: Batch) -> Batch:
        if self._first_ns is None:
            timed = np.flatnonzero(np.ones(len(batch)) if batch.timed is None else batch.timed)
            if len(timed):
                self._first_ns = int(batch.time_ns[timed[0]])
        mask = None
        if self.edit.frames is not None:
            mask = self.edit.frames.mask(batch)
        if self.edit.span is not None:
            within = self.edit.span.mask(batch, self._first_ns or 0)
            mask = within if mask is None else mask & within
        return batch if mask is None or mask.all() else batch.select(mask)

    def _edited(self, work: _Work) -> None:
        edit, report = self.edit, self.report
        good_fcs = _good_fcs(work) if edit.changes_frames else work.rows[:0]
        if edit.assignments:
            self._assign(work)
        if edit.strip or edit.tags:
            self._retag(work)
        if edit.fix:
            self._fix(work)
        if len(good_fcs):
            changed = good_fcs[work.touched[good_fcs]]
            report.kept["eth.fcs"] += put_fcs(work.batch, work.own(), changed)
        if edit.clock is not None:
            self._move(work, edit.clock)
        if edit.snap_octets is not None:
            self._snap(work, edit.snap_octets)
        for wrapper, counts in zip(edit.wrappers, report.wrapped, strict=True):
            self._wrap(work, wrapper, counts)
        batch = work.batch
        if edit.wrappers and len(good_fcs):
            whole = good_fcs[batch.captured[good_fcs] >= batch.original[good_fcs]]
            put_fcs(batch, batch.buffer, whole)
        batch.buffer.flags.writeable = False

    def _layers(self, frames: walk.Frames, formats: Collection[type[Layer]]) -> BatchLayers:
        pool = self._pool if len(frames.offset) >= SHARED_FRAMES else None
        return outermost_layers(frames, formats, self.edit.ethertypes, pool)

    def _assign(self, work: _Work) -> None:
        edit, report, rows, touched = self.edit, self.report, work.rows, work.touched
        chosen = work.chosen
        inner = [each for each in edit.assignments if each.field.inner]
        requested = COVERED if self._covered else ()
        located = self._layers(frames_of(chosen, work.interfaces), requested)
        outer = targets_of([each for each in edit.assignments if not each.field.inner], located)
        shown, frame_of, inside = located, np.empty(0, np.int32), []
        if inner:
            frame_of, frames = sampled_frames(located, "outer")
            shown = self._layers(frames, requested)
            inside = targets_of(inner, shown)
        low = int(work.batch.record_offset.min())
        buffer = work.own()
        outcome = _written(outer, buffer, low, len(chosen))
        outcome_inside = _written(inside, buffer, low, len(frame_of))
        for packets, targets, done, is_inner in (
            (located, outer, outcome, False), (shown, inside, outcome_inside, True),
        ):  # fmt: skip
            if self._covered and edit.update_checksums and done.written:
                updates, left = keep_right(
                    packets_in(packets, low), buffer, chosen.buffer, low, done.written,
                    self._set_in(inner=is_inner), unclear_frames(len(packets.frames.offset), targets),
                )  # fmt: skip
                report.kept += updates
                report.unknown += left
        for each, counts in zip(edit.assignments, report.assigned, strict=True):
            had, differs = (outcome_inside if each.field.inner else outcome).counts.get(each, (0, 0))
            counts.frames += had
            counts.same += had - differs
            counts.without += len(rows) - had
        touched[rows[outcome.changed]] = True
        if inner:
            touched[rows[frame_of[outcome_inside.changed]]] = True

    def _set_in(self, *, inner: bool) -> frozenset[tuple[type[Layer], str]]:
        """Return the formats and keys of the assigned fields; ``inner`` selects fields of quoted frames."""
        return frozenset(
            (writing.source.format, writing.source.key)
            for each in self.edit.assignments
            if each.field.inner == inner
            for writing in each.writings
        )

    def _retag(self, work: _Work) -> None:
        # this import loads numba, which other edits do not need
        from ecmproto.frames.batch.tags import NOWHERE, spliced_batch, tag_splice, tags_of, without_tags

        edit, report, rows = self.edit, self.report, work.rows
        frames = work.batch
        ethernet = np.array([each.linktype == ETHERNET for each in work.interfaces])
        only = np.zeros(len(frames), np.bool_)
        only[rows] = ethernet[frames.interface[rows]] if len(ethernet) else True
        for kind in self._strip:
            located = tags_of(frames.buffer, frames.offset, frames.captured, kind, ethertypes=edit.ethertypes)
            tagged = only & (located.old_tags > 0)
            report.stripped[kind.format.prefix] += int(tagged.sum())
            work.touched |= tagged
            frames, _ = without_tags(frames, kind, only=tagged, ethertypes=edit.ethertypes)
        for (kind, octets), counts in zip(self._tags, report.tagged, strict=True):
            splice = tag_splice(
                frames, np.broadcast_to(octets, (len(frames), len(octets))), kind, only=only,
                outermost=not edit.replace_tags, ethertypes=edit.ethertypes,
            )  # fmt: skip
            takes = splice.at != NOWHERE
            counts.frames += int(takes.sum())
            counts.without += len(rows) - int(takes.sum())
            if splice.removed is not None:
                counts.replaced += int((splice.removed > 0).sum())
            work.touched |= takes
            frames = spliced_batch(frames, splice)
        self._rewrite(work, frames)

    def _rewrite(self, work: _Work, frames: Batch) -> None:
        """Give the records of a batch the octets and lengths of other frames."""
        batch = work.batch
        if frames is batch:
            return
        simple = batch.timed is not None and bool((frames.captured != batch.captured)[~batch.timed].any())
        if simple and _SIMPLE not in self.report.warnings:
            self.report.warnings.append(_SIMPLE)
        frames = dataclasses.replace(frames, records=batch.records)
        work.batch, work.buffer = with_frames(batch, frames, swapped=self._swapped), None

    def _fix(self, work: _Work) -> None:
        report = self.report
        buffer = work.own()
        chosen, before = work.chosen, buffer.copy()
        frames = frames_of(chosen, work.interfaces)
        located = self._layers(frames, FIXED)
        lengths = put_lengths_right(located, buffer)
        if lengths:
            # octets after an incorrect length are now decoded
            located = self._layers(frames, FIXED)
        sums, left = put_checksums_right(located, buffer)
        report.fixed += lengths + sums
        report.unknown += left
        if lengths or sums:
            work.touched[work.rows[_differ(before, buffer, chosen)]] = True

    def _move(self, work: _Work, clock: Clock) -> None:
        buffer, before = work.own(), work.batch.time_ns
        work.batch, lost = move_times(
            work.batch, buffer, work.rows, clock, self._first_ns or 0, work.interfaces,
            in_records=self._in_records,
        )  # fmt: skip
        moved = work.batch.time_ns != before
        self.report.moved += int(moved.sum())
        self.report.rounded += lost
        if work.batch.timed is not None:
            self.report.untimed += int((~work.batch.timed[work.rows]).sum())
        work.touched |= moved

    def _snap(self, work: _Work, octets: int) -> None:
        captured = work.batch.captured.copy()
        captured[work.rows] = np.minimum(captured[work.rows], octets)
        cut = captured < work.batch.captured
        if cut.any():
            self.report.cut += int(cut.sum())
            work.touched |= cut
            self._rewrite(work, dataclasses.replace(work.batch, captured=captured))

    def _wrap(self, work: _Work, wrapper: Wrapper, counts: Wrapped) -> None:
        """Wrap the frames that the wrapper can hold.

        An FCS remains at the end of the frame and is recomputed later as the FCS of the wrapper.
        """
        # this import loads numba, which other edits do not need
        from ecmproto.frames.batch.tags import NOWHERE, Splice, spliced_batch

        batch, rows = work.batch, work.rows
        frames = frames_of(batch, work.interfaces)
        original = np.maximum(batch.original, batch.captured)
        octets: Int64 = original - frames.fcs.astype(np.int64)
        fits = frames.padded[rows] & (octets[rows] <= wrapper.max_frame_octets)
        mine = rows[fits]
        counts.without += len(rows) - len(mine)
        at = np.full(len(batch), NOWHERE)
        at[mine] = 0
        inserted = np.zeros((len(batch), len(wrapper.octets)), np.uint8)
        inserted[mine] = wrapper.rows(
            octets[mine], (original == batch.captured)[mine], batch.time_ns[mine], before=counts.frames
        )
        counts.frames += len(mine)
        work.touched[mine] = True
        self._rewrite(work, spliced_batch(batch, Splice(at=at, inserted=inserted)))
        wrapped = frames_of(work.batch.select(mine), work.interfaces)
        put_checksums_right(self._layers(wrapped, (IPv4, IPv6, UDP, GREChecksum)), work.batch.buffer)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Work:
    """A batch during its edits."""

    batch: Batch
    rows: NDArray[np.intp]
    """Rows of the frames to edit."""
    interfaces: Sequence[Interface]
    touched: NDArray[np.bool_]
    """Mask of the frames with changed octets, lengths or times."""
    buffer: Octets | None = None
    """Writable buffer with a copy of the records, after `own`."""

    @property
    def chosen(self) -> Batch:
        return self.batch if len(self.rows) == len(self.batch) else self.batch.select(self.rows)

    def own(self) -> Octets:
        """Return a writable buffer with the records of the batch."""
        if self.buffer is None:
            self.batch, self.buffer = own_records(self.batch)
        return self.buffer


def _good_fcs(work: _Work) -> NDArray[np.intp]:
    if not any(each.fcs_octets for each in work.interfaces):
        return work.rows[:0]
    octets = np.array([each.fcs_octets * (each.linktype == ETHERNET) for each in work.interfaces])
    return right_fcs(work.batch, octets[work.batch.interface], work.rows)


_SIMPLE = "simple packet blocks of other lengths are written as enhanced ones, at time 0"


class _Outcome(NamedTuple):
    """The octets written into frames, a mask of the changed frames, and counts for each assignment.

    The counts are the number of frames with the field, and the number of changed frames.
    """

    written: list[Written]
    changed: NDArray[np.bool_]
    counts: dict[Assignment, tuple[int, int]]


def _written(positions: Sequence[Targets], buffer: Octets, low: int, frames: int) -> _Outcome:
    """Write values into ``frames`` frames, whose offsets in ``buffer`` are reduced by ``low``."""
    done = []
    changed = np.zeros(frames, np.bool_)
    masks: dict[Assignment, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}
    for each in positions:
        written = write(buffer, each._replace(start=each.start - low))
        done.append(written)
        had, differs = masks.setdefault(
            each.assignment, (np.zeros(frames, np.bool_), np.zeros(frames, np.bool_))
        )
        had[written.row] = True
        differs[written.row[written.differs]] = True
        changed |= differs
    counts = {each: (int(had.sum()), int(differs.sum())) for each, (had, differs) in masks.items()}
    return _Outcome(done, changed, counts)


def _differ(before: Octets, after: Octets, frames: Batch) -> NDArray[np.bool_]:
    """Return a mask of the frames whose octets differ between two buffers."""
    differs = np.concatenate([[0], np.cumsum(before != after, dtype=np.int64)])
    result: NDArray[np.bool_] = differs[frames.offset + frames.captured] != differs[frames.offset]
    return result


def edit_capture(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    edit: Edit,
    *,
    format: Format | None = None,
    force: bool = False,
    watch: Callable[[Iterable[Batch | Block], CaptureReader], Iterable[Batch | Block]] | None = None,
) -> Report:
    """Write captures with edited frames to ``out``; several captures are merged by time.

    ``format`` is the format of the output. By default, the file name determines the format, or else the
    format of the input is used. ``watch`` is a function that passes on the batches from the reader to the
    editor. Memory does not grow with the captures.

    Raises OutputError if ``out`` cannot be written, and RecordError for times that the output format cannot
    hold. If a capture cannot be read to its end, the readable part is written; see `Report.problem`.
    """
    with ExitStack() as stack:
        reader = source = stack.enter_context(open_captures(paths))
        if edit.decap:
            reader = InnerReader(source, ethertypes=edit.ethertypes, records=True)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        form = format or format_of(out, source.format)
        grown = sum(len(each.octets) for each in edit.wrappers)
        swapped = reader.header is not None and reader.header.lengths == 1
        with CaptureCopier(reader, out, format=form, grown_octets=grown, force=force) as copier:
            in_records = copier.format == reader.format
            editor = Editor(edit, swapped=swapped, pool=pool, in_records=in_records)
            report = editor.report
            items = reader.items()
            for item in items if watch is None else watch(items, reader):
                if isinstance(item, Batch):
                    item = editor.batch(item, reader.interfaces)
                if not isinstance(item, Batch) or len(item):
                    copier.write(item)
                if editor.is_done:
                    break
        report.warnings += [*reader.warnings, *copier.warnings]
        report.problem = reader.problem
        report.unwrapped = getattr(reader, "summary", "")
    return report
