"""Batches as text: which program each frame follows, and the work shared by threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import DecodeError
from ecmproto.frames.batch.headers import fixed, signed
from ecmproto.frames.capture.batch import ETHERNET, Batch, Interface
from ecmproto.frames.columns.gathering import look_up
from ecmproto.frames.columns.layers import SHOWN_AS, LayersFound, find_layers, frames_of, sampled_frames
from ecmproto.frames.columns.layout_cache import FCS_AT, FIRST_LAYER, FROM_END, LAYERS, TAIL, ZEROS
from ecmproto.frames.columns.parse_tables import NUMBER_OF, parse_tables
from ecmproto.frames.columns.text.pieces import Path, Pieces, RecordNumber
from ecmproto.frames.columns.text.program import SPARE_OCTETS, Assembler, Programs, UnsaidError, render
from ecmproto.frames.columns.text.vocabulary import Vocabulary
from ecmproto.frames.columns.threads import some_ahead
from ecmproto.frames.columns.walk import decoded_frame
from ecmproto.kernels.kernel import over_batches
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.infiniband import BAD, ICRC
from ecmproto.wire.formats.registry import FORMATS, MOST_FORMATS

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

TAILS = 4
"""Marks behind the layers: padding, trailer, FCS, end."""
_FORMATS = MOST_FORMATS
_MOST_LAYERS = 9
_BITS = 7
_MANY_LAYERS = -1
_MOST_PATHS = 2048
_SLOTS = 4 * _MOST_PATHS
_DENSE_PAIRS = 1 << 16
UNTOLD = -1
"""Instead of the number of a path: that of a frame with more layers, or of one more path, than are told."""

assert MOST_FORMATS < 1 << _BITS, "more formats than a path's key can tell apart"


@over_batches
def _layout_keys(layout: Int64, layer: Int64, boundaries: Int64, stops: Int64, keys: Int64) -> None:
    """Give each layout its boundaries, places as `columns.layout_cache` has them, and its key.

    ``stops`` is given where the boundaries of each end; the key says which layers it has.
    """
    at = 0
    for row in range(len(layout)):
        first = layout[row, FIRST_LAYER]
        key, layers = np.int64(0), 0
        for index in range(first, first + layout[row, LAYERS]):
            if layer[index, 0] < _FORMATS:
                boundaries[at] = layer[index, 1]
                key = (key << _BITS) | (layer[index, 0] + 1)
                layers += 1
                at += 1
        boundaries[at] = layout[row, TAIL]
        boundaries[at + 1] = layout[row, TAIL] + layout[row, ZEROS]
        boundaries[at + 2] = layout[row, FCS_AT]
        boundaries[at + 3] = -FROM_END
        at += TAILS
        stops[row] = at
        keys[row] = key if layers <= _MOST_LAYERS else _MANY_LAYERS


@over_batches
def _join(
    outer: Int64,
    inner: Int64,
    outer_boundaries: Int64,
    outer_stops: Int64,
    inner_boundaries: Int64,
    inner_stops: Int64,
    shown_at: Int64,
    boundaries: Int64,
    stops: Int64,
) -> None:
    """Give each pair of layouts its boundaries: those of the outer one, then those of the one that it shows.

    What is shown starts ``shown_at`` octets behind the last layer's start, and ends with it.
    """
    at = 0
    for pair in range(len(outer)):
        which = outer[pair]
        first = outer_stops[which - 1] if which > 0 else 0
        for index in range(first, outer_stops[which]):
            boundaries[at] = outer_boundaries[index]
            at += 1
        start = boundaries[at - TAILS - 1] + shown_at[pair]
        end = boundaries[at - TAILS]
        which = inner[pair]
        first = inner_stops[which - 1] if which > 0 else 0
        for index in range(first, inner_stops[which]):
            boundary = inner_boundaries[index]
            boundaries[at] = start + boundary if boundary >= 0 else end + (boundary + FROM_END)
            at += 1
        stops[pair] = at


@over_batches
def _place(
    layout_of: Int32,
    layout_boundaries: Int64,
    stops: Int64,
    offset: Int64,
    captured: Int64,
    boundaries: Int64,
    boundaries_at: Int64,
) -> None:
    """Write where the boundaries of each frame's layout are in the buffer."""
    at = 0
    for row in range(len(layout_of)):
        which = signed(layout_of[row])
        first = stops[which - 1] if which > 0 else 0
        start = offset[row]
        behind = start + captured[row] + FROM_END
        boundaries_at[row] = at
        for index in range(first, stops[which]):
            boundary = layout_boundaries[index]
            boundaries[at] = boundary + (start if boundary >= 0 else behind)
            at += 1


@over_batches
def _identify(keys: Int64, inner: Int64, known: Int64, slots: Int32, used: int, paths: Int32) -> int:
    """Number the paths; returns how many are known then."""
    mask = len(slots) - 1
    for row in range(len(keys)):
        outside, inside = keys[row], inner[row]
        paths[row] = UNTOLD
        if outside == _MANY_LAYERS or inside == _MANY_LAYERS:
            continue
        mixed = (outside ^ (inside >> 7)) & 0x3FFFFFFFFFFFFFF
        mixed ^= (mixed >> 29) ^ (mixed >> 15)
        slot = mixed & mask
        while slots[slot] != 0:
            entry = slots[slot] - 1
            if known[entry, 0] == outside and known[entry, 1] == inside:
                break
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            if used == len(known):
                continue
            known[used, 0] = outside
            known[used, 1] = inside
            used += 1
            slots[slot] = used
        paths[row] = slots[slot] - 1
    return used


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameBoundaries:
    """The frames of a batch with their paths and boundaries."""

    found: LayersFound
    paths: Int32
    """The number of each frame's path, or UNTOLD."""
    boundaries_at: Int64
    """Where each frame's boundaries start."""
    boundaries: Int64
    """Places in the buffer, see `Path`."""
    malformed: NDArray[np.bool_]
    """Whether there is an error in a frame."""
    shows_malformed: NDArray[np.bool_]
    """Whether there is one in the frame that it shows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LayoutBoundaries:
    """The layouts of frames: boundaries, one layout's behind the other's, and where those of each end."""

    boundaries: Int64
    stops: Int64
    outer: Int64
    """The keys that say which layers each has, and which the frame that it shows has (0: none)."""
    inner: Int64
    of: Int32
    """The layout of each frame."""


class PathBook:
    """The paths that frames have had, by number."""

    def __init__(self) -> None:
        self._keys = np.zeros((_MOST_PATHS, 2), np.int64)
        self._slots = np.zeros(_SLOTS, np.int32)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, number: int) -> Path:
        outer, inner = (_formats_of(int(key)) for key in self._keys[number])
        sampled = Path(layers=inner, first=len(outer) + TAILS) if inner else None
        return Path(layers=outer, sampled=sampled)

    def locate(self, found: LayersFound, ethertypes: EtherTypes, *, sampled: bool) -> FrameBoundaries:
        """Return the paths and boundaries of frames.

        ``sampled`` tells the frames that messages show, too: the layers that show them must be among the
        entries found.
        """
        frames = found.frames
        malformed = np.zeros(len(frames.offset), np.bool_)
        malformed[found.error_rows] = True
        shows_malformed = np.zeros_like(malformed)
        layouts = _layout_boundaries(found)
        rows, shown = sampled_frames(found) if sampled else (_NO_ROWS, None)
        if shown is not None and len(rows):
            inside = find_layers(shown, (), ethertypes, None)
            shows_malformed[rows[inside.error_rows]] = True
            layouts = _paired(layouts, _layout_boundaries(inside), rows, ethertypes)
        paths = np.empty(len(layouts.stops), np.int32)
        self._used = _identify(layouts.outer, layouts.inner, self._keys, self._slots, self._used, paths)
        sizes = np.diff(layouts.stops, prepend=0)
        boundaries = np.empty(int(sizes[layouts.of].sum()), np.int64)
        boundaries_at = np.empty(len(layouts.of), np.int64)
        _place(
            layouts.of,
            layouts.boundaries,
            layouts.stops,
            frames.offset,
            frames.captured,
            boundaries,
            boundaries_at,
        )
        path_of = np.empty(len(layouts.of), np.int32)
        look_up(paths, layouts.of, path_of)
        return FrameBoundaries(
            found=found,
            paths=path_of,
            boundaries_at=fixed(boundaries_at),
            boundaries=fixed(boundaries),
            malformed=malformed,
            shows_malformed=shows_malformed,
        )


_NO_ROWS = np.empty(0, np.int32)


def _layout_boundaries(found: LayersFound) -> _LayoutBoundaries:
    """Return the layouts of frames as layouts."""
    counts = [len(part.layouts) for part in found.parts]
    of = np.empty(len(found.frames.offset), np.int32)
    boundaries, stops, keys = [], [], []
    first = 0
    for part, add in zip(found.parts, itertools.accumulate(counts, initial=0), strict=False):
        np.add(part.layout_of, add, out=of[part.begin : part.end])
        here = np.empty(len(part.layer) + TAILS * len(part.layouts), np.int64)
        ends, names = np.empty(len(part.layouts), np.int64), np.empty(len(part.layouts), np.int64)
        _layout_keys(part.layouts, part.layer, here, ends, names)
        used = int(ends[-1]) if len(ends) else 0
        boundaries.append(here[:used])
        stops.append(ends + first)
        keys.append(names)
        first += used
    outer = np.concatenate(keys)
    return _LayoutBoundaries(
        boundaries=np.concatenate(boundaries),
        stops=np.concatenate(stops),
        outer=outer,
        inner=np.zeros_like(outer),
        of=of,
    )


def _paired(
    outer: _LayoutBoundaries, inner: _LayoutBoundaries, rows: Int32, ethertypes: EtherTypes
) -> _LayoutBoundaries:
    """Return the layouts of frames, of which ``rows`` show frames of others."""
    many = len(inner.stops)
    pairs = outer.of[rows] * np.int64(many) + inner.of
    if len(outer.stops) * many <= _DENSE_PAIRS:
        there = np.flatnonzero(np.bincount(pairs))
        place = np.zeros(len(outer.stops) * many, np.int64)
        place[there] = np.arange(len(there))
        places = place[pairs]
    else:
        there, places = np.unique(pairs, return_inverse=True)
    first, second = there // many, there % many
    sizes = np.diff(outer.stops, prepend=0)[first] + np.diff(inner.stops, prepend=0)[second]
    boundaries, stops = np.empty(int(sizes.sum()), np.int64), np.empty(len(there), np.int64)
    key = outer.outer[first]
    last = np.where(key == _MANY_LAYERS, 0, (key & (1 << _BITS) - 1) - 1)
    shown_at = parse_tables(ethertypes).fixed[last]
    _join(
        first,
        second,
        outer.boundaries,
        outer.stops,
        inner.boundaries,
        inner.stops,
        shown_at,
        boundaries,
        stops,
    )
    of = outer.of.copy()
    of[rows] = len(outer.stops) + places
    return _LayoutBoundaries(
        boundaries=np.concatenate([outer.boundaries, boundaries]),
        stops=np.concatenate([outer.stops, stops + len(outer.boundaries)]),
        outer=np.concatenate([outer.outer, outer.outer[first]]),
        inner=np.concatenate([outer.inner, inner.outer[second]]),
        of=of,
    )


def _formats_of(key: int) -> tuple[type[Layer], ...]:
    numbers = []
    while key:
        numbers.append((key & (1 << _BITS) - 1) - 1)
        key >>= _BITS
    return tuple(FORMATS[number] for number in reversed(numbers))


Octets = NDArray[np.uint8]

_ROOM_OCTETS = 4 << 20
_MOST_OCTETS = 16 << 20
"""No more room than that is held, unless a single frame needs more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A batch to render."""

    located: FrameBoundaries
    program: Int32
    """Of each frame; −1 − k stands for text k of ``singles``."""
    record: Int64
    """A row for each `RecordNumber`, in it the number of each frame."""
    singles: Octets
    single_bounds: Int64
    longest_error: int
    """Octets of the longest of ``singles`` that says what is malformed."""
    programs: Programs
    functions: Sequence[Callable[..., str]]
    argument_octets: Sequence[tuple[int, ...]]


class RenderBuffers:
    """Room for the text of a share; given to one thread at a time."""

    def __init__(self) -> None:
        self._out = np.empty(_ROOM_OCTETS, np.uint8)
        self._vocabulary = Vocabulary()

    def texts(self, job: Job, begin: int, end: int) -> list[memoryview]:
        """Return the text of rows ``begin`` to ``end`` in pieces, valid until this is called again."""
        programs, located, words = job.programs, job.located, self._vocabulary
        frames = located.found.frames
        codes = words.codes(
            begin, end, job.program, programs, job.functions, job.argument_octets, job.record, frames.buffer,
            located.boundaries, located.boundaries_at,
        )  # fmt: skip
        used = np.zeros(2, np.int64)
        texts: list[memoryview] = []
        at = begin
        while at < end:
            before = at
            at = render(
                at, end, job.program, programs.bounds, programs.operations, programs.numbers,
                programs.literals, programs.room, codes[at - begin :], words.octets, words.bounds,
                max(words.longest, job.longest_error), job.record, frames.buffer, located.boundaries,
                located.boundaries_at, job.singles, job.single_bounds, self._out, used,
            )  # fmt: skip
            if at > before:
                texts.append(self._out[: used[0]].data)
            if at < end:
                # the old buffer stays with the text in it
                self._out = np.empty(max(min(2 * len(self._out), _MOST_OCTETS), int(used[1])), np.uint8)
        return texts


SHARE_FRAMES = 1 << 13
SHARE_OCTETS = 2 << 20
"""A thread's share at a time: so many frames, or fewer of so many octets."""
WORTH_FRAMES = 16
"""Of a path that fewer frames of a batch have, and none had before, no program is made."""
_AHEAD = 3
AHEAD_OCTETS = 32 << 20
"""With threads, so much text of a batch, that of most as a whole, is made at once by whoever asks for it: a
share that passes from thread to thread makes each of them wait for the interpreter."""
_NONE, _UNASKED = -1, -2
_NEAR_NS = 1 << 60
_FAR_NS = 2.0**62
"""Times whose sums and differences would not fit are told one by one."""

Single = Callable[[Batch], Iterable[str]]
"""Gives the text of each frame of a batch, one by one."""


class Renderer:
    """Turns batches into text.

    ``write`` gives the pieces of a frame's text for a path, or None where it has no program: such frames are
    told one by one.  ``sampled`` says that it asks for the frames that messages show (`Path.sampled`; None
    always otherwise), ``malformed`` that its pieces tell malformed frames too (`Mark.ERROR`); they are told
    one by one otherwise.  ``wrong`` gives what stands for `Mark.ERROR`; frames that show malformed ones are
    told one by one then, too.  ``worth_frames`` 1 makes programs for all paths.
    """

    def __init__(
        self,
        write: Callable[[Path], Pieces | None],
        *,
        sampled: bool,
        malformed: bool = False,
        wrong: Callable[[DecodeError], str] | None = None,
        worth_frames: int | None = None,
    ) -> None:
        self._write = write
        self._sampled = sampled
        self._malformed = malformed
        self._wrong = wrong
        self._worth_frames = WORTH_FRAMES if worth_frames is None else worth_frames
        self._paths = PathBook()
        self._assembler = Assembler()
        self._programs = self._assembler.programs()
        self._program_of = np.empty(0, np.int32)
        self._buffers: list[RenderBuffers] = []
        self._lock = threading.Lock()

    def batch(
        self,
        batch: Batch,
        single: Single,
        *,
        interfaces: Sequence[Interface] = (),
        ethertypes: EtherTypes = DEFAULT,
        odd: NDArray[np.bool_] | None = None,
        origin_ns: int = 0,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[memoryview]:
        """Return the text of the frames of a batch in pieces, each of which is valid until the next.

        ``single`` gives the text of frames that no program tells: of those, in order, that ``odd`` says too,
        and of RoCE packets whose invariant CRC is bad.
        ``origin_ns`` is what `RecordNumber.SINCE_NS` counts from.  ``pool`` makes it ahead of who
        takes it, and about AHEAD_OCTETS of it are made now.  Several threads may ask, for one batch each.
        """
        if not len(batch):
            return iter(())
        frames = frames_of(batch, interfaces)
        found = find_layers(frames, tuple(SHOWN_AS) if self._sampled else (), ethertypes, None)
        with self._lock:
            job = self._job(batch, found, single, interfaces, ethertypes, odd, origin_ns)
        return self._shares(job, batch.captured, pool)

    def _job(
        self,
        batch: Batch,
        found: LayersFound,
        single: Single,
        interfaces: Sequence[Interface],
        ethertypes: EtherTypes,
        odd: NDArray[np.bool_] | None,
        origin_ns: int,
    ) -> Job:
        located = self._paths.locate(found, ethertypes, sampled=self._sampled)
        far = _far(batch, origin_ns)
        alone = far if odd is None else odd | far
        if not self._malformed:
            alone |= located.malformed
        if not self._malformed or self._wrong is not None:
            alone |= located.shows_malformed
        if self._sampled and found.count[NUMBER_OF[ICRC]]:
            packets, states = found.crc_states
            alone[packets[np.array([word == BAD for word in states.words])[states.codes]]] = True
        program = self._chosen(located, alone)
        record = _record(batch, interfaces, origin_ns, self._assembler.record_numbers, far)
        rows = np.flatnonzero(program < 0)
        singles = single(batch.select(rows)) if len(rows) else ()
        errors = self._errors(found, ethertypes) if self._malformed else ()
        if errors:
            record[RecordNumber.ERROR, found.error_rows] = len(rows) + 1 + found.errors.codes
            record[RecordNumber.FLAWED, found.error_rows] = 1
        program[rows] = -1 - np.arange(len(rows))
        texts, bounds = _packed([*singles, *errors])
        return Job(
            located=located,
            program=fixed(program),
            record=fixed(record),
            singles=texts,
            single_bounds=bounds,
            longest_error=int(np.diff(bounds[len(rows) :]).max(initial=0)),
            programs=self._programs,
            functions=self._assembler.functions,
            argument_octets=self._assembler.argument_octets,
        )

    def _errors(self, found: LayersFound, ethertypes: EtherTypes) -> Sequence[str]:
        """Return the text for each way of being malformed."""
        words = found.errors.words
        if self._wrong is None or not words:
            return words
        # one frame for each, decoded; the last of several in an array is the one that stays
        rows = np.zeros(len(words), np.int64)
        rows[found.errors.codes] = found.error_rows
        errors = (decoded_frame(found.frames, ethertypes, row).error for row in rows.tolist())
        return [self._wrong(error) if error is not None else "" for error in errors]

    def _chosen(self, located: FrameBoundaries, alone: NDArray[np.bool_]) -> Int32:
        """Return the number of each frame's program, −1 for frames written one by one."""
        more = len(self._paths) - len(self._program_of)
        self._program_of = np.concatenate([self._program_of, np.full(more, _UNASKED, np.int32)])
        told = (located.paths != UNTOLD) & ~alone
        counts = np.bincount(located.paths[told], minlength=len(self._paths))
        for number in np.flatnonzero((counts >= self._worth_frames) & (self._program_of == _UNASKED)):
            self._program_of[number] = self._program(self._paths[int(number)])
        if len(self._assembler) >= len(self._programs.bounds):
            self._programs = self._assembler.programs()
        program = np.full(len(located.paths), _NONE, np.int32)
        program[told] = self._program_of[located.paths[told]]
        return program

    def _program(self, path: Path) -> int:
        pieces = self._write(path)
        try:
            return _NONE if pieces is None else self._assembler.add(pieces)
        except UnsaidError:
            return _NONE

    def _shares(self, job: Job, captured: Int64, pool: ThreadPoolExecutor | None) -> Iterator[memoryview]:
        """Return the text of the rows, share by share: some made now, then by threads some shares ahead."""
        works = [partial(self._share, job, *share) for share in _shared(captured)]
        made: list[tuple[RenderBuffers, list[memoryview]]] = []
        left = 0 if pool is None else AHEAD_OCTETS
        while left > 0 and len(made) < len(works):
            made.append(works[len(made)]())
            left -= sum(len(text) for text in made[-1][1])
        return self._taken(itertools.chain(made, some_ahead(works[len(made) :], pool, _AHEAD)))

    def _taken(self, shares: Iterable[tuple[RenderBuffers, list[memoryview]]]) -> Iterator[memoryview]:
        for buffers, texts in shares:
            yield from texts
            self._buffers.append(buffers)

    def _share(self, job: Job, begin: int, end: int) -> tuple[RenderBuffers, list[memoryview]]:
        try:
            buffers = self._buffers.pop()
        except IndexError:
            buffers = RenderBuffers()
        return buffers, buffers.texts(job, begin, end)


def _shared(captured: Int64) -> Iterator[tuple[int, int]]:
    """Yield where shares of frames begin and end."""
    stops = np.cumsum(captured)
    begin = octets = 0
    while begin < len(stops):
        whole = int(np.searchsorted(stops, octets + SHARE_OCTETS, side="right"))
        end = min(max(whole, begin + 1), begin + SHARE_FRAMES, len(stops))
        yield begin, end
        begin, octets = end, int(stops[end - 1])


def _far(batch: Batch, origin_ns: int) -> NDArray[np.bool_]:
    """Return which frames have times too large to be written by programs."""
    if max(abs(origin_ns), batch.farthest_ns()) < _NEAR_NS:
        return np.zeros(len(batch), np.bool_)
    near = batch.time_ns.astype(np.float64)
    far = (np.abs(near - origin_ns) > _FAR_NS) | (np.abs(near) > _FAR_NS)
    for times in (batch.since_first_ns(), batch.since_previous_ns(), batch.since_displayed_ns()):
        far |= np.abs(times.astype(np.float64)) > _FAR_NS
    return far


def _record(
    batch: Batch,
    interfaces: Sequence[Interface],
    origin_ns: int,
    wanted: Collection[int],
    far: NDArray[np.bool_],
) -> Int64:
    """Return the numbers of the frames' records, a row each: those ``wanted``, the others are anything."""
    links, used = batch.links(interfaces)
    if not links:
        links, used = [Interface(index=0, linktype=ETHERNET)], np.zeros(len(batch), np.int64)

    def since_ns() -> Int64:
        if batch.timed is None and not far.any():
            return batch.time_ns - origin_ns
        since_ns = np.zeros(len(batch), np.int64)
        near = ~far if batch.timed is None else batch.timed & ~far
        if near.any():  # else the origin may be more than 64 bits hold
            since_ns[near] = batch.time_ns[near] - origin_ns
        return since_ns

    def of_links(values: Iterable[int]) -> Int64 | int:
        numbers = list(values)
        return numbers[0] if len(numbers) == 1 else np.array(numbers, np.int64)[used]

    numbers: dict[RecordNumber, Callable[[], Any]] = {
        RecordNumber.NUMBER: lambda: batch.numbers + 1,
        RecordNumber.TIME_NS: lambda: batch.time_ns,
        RecordNumber.TIMED: lambda: 1 if batch.timed is None else batch.timed,
        RecordNumber.SINCE_NS: since_ns,
        RecordNumber.SINCE_FIRST_NS: batch.since_first_ns,
        RecordNumber.SINCE_PREVIOUS_NS: batch.since_previous_ns,
        RecordNumber.SINCE_DISPLAYED_NS: batch.since_displayed_ns,
        RecordNumber.ORIGINAL: lambda: batch.original,
        RecordNumber.CAPTURED: lambda: batch.captured,
        RecordNumber.CUT: lambda: np.maximum(0, batch.original - batch.captured),
        RecordNumber.ERROR: lambda: 0,
        RecordNumber.FLAWED: lambda: batch.original > batch.captured,
        RecordNumber.INTERFACE: lambda: batch.interface,
        RecordNumber.INTERFACE_ID: lambda: of_links(each.local_index for each in links),
        RecordNumber.LINKTYPE: lambda: of_links(each.linktype for each in links),
    }
    record = np.empty((len(RecordNumber), len(batch)), np.int64)
    for number in RecordNumber:
        if number in wanted:
            record[number] = numbers[number]()
    return record


def _packed(texts: Iterable[str]) -> tuple[Octets, Int64]:
    """Return texts as octets one behind the other, and where each starts; then where the last ends."""
    encoded = [text.encode("utf-8", errors="replace") for text in texts]
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(octets) for octets in encoded], out=bounds[1:])
    return fixed(np.frombuffer(b"".join([*encoded, bytes(SPARE_OCTETS)]), np.uint8)), fixed(bounds)
