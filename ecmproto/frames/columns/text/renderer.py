"""Rendering of batches as text: a program for each frame, and work shared by threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import DecodeError
from ecmproto.frames.batch.headers import fixed, signed
from ecmproto.frames.batch.parse_tables import NUMBER_OF, parse_tables
from ecmproto.frames.capture.batch import ETHERNET, Batch, Interface
from ecmproto.frames.columns.gathering import look_up
from ecmproto.frames.columns.invariant_crc import crc_states
from ecmproto.frames.columns.layers import BatchLayers, find_layers, frames_of, sampled_frames
from ecmproto.frames.columns.layout_cache import FCS_AT, FIRST_LAYER, FROM_END, LAST, LAYERS, TAIL, ZEROS
from ecmproto.frames.columns.text.pieces import Path, Pieces, RecordNumber
from ecmproto.frames.columns.text.program import (
    SPARE_OCTETS,
    Assembler,
    Programs,
    UnsupportedPieceError,
    render,
)
from ecmproto.frames.columns.text.vocabulary import Vocabulary
from ecmproto.frames.columns.threads import some_ahead
from ecmproto.frames.columns.walk import decoded_frame
from ecmproto.kernels.kernel import inlined, over_batches
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.infiniband import ICRC
from ecmproto.wire.formats.registry import FORMATS, MAX_FORMATS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

TAILS = 4
"""Number of boundaries after the layers: padding, trailer, FCS, end."""
_FORMATS = MAX_FORMATS
_KEY_WORDS = 3
_WORD_LAYERS, _BITS = 9, 7
"""Number of layers in a word of a key, and number of bits for each layer."""
_MANY_LAYERS = -1
_MAX_PATHS = 2048
_SLOTS = 4 * _MAX_PATHS
_DENSE_PAIRS = 1 << 16
NO_PATH = -1
"""Path number of a frame with too many layers, or whose path exceeds the maximum number of paths."""

assert MAX_FORMATS < 1 << _BITS, "more formats than a path's key can distinguish"


@over_batches
def _layout_keys(layout: Int64, layer: Int64, boundaries: Int64, stops: Int64, keys: Int64) -> None:
    """Compute the boundaries of each layout (see `columns.layout_cache`), their end, and a key of its
    layers, in the first words of a row of ``keys``.
    """
    at = 0
    for row in range(len(layout)):
        first = layout[row, FIRST_LAYER]
        layers = 0
        for index in range(first, first + layout[row, LAYERS]):
            if layer[index, 0] < _FORMATS:
                boundaries[at] = layer[index, 1]
                word = layers // _WORD_LAYERS
                if word < _KEY_WORDS:
                    keys[row, word] = (keys[row, word] << _BITS) | (layer[index, 0] + 1)
                layers += 1
                at += 1
        boundaries[at] = layout[row, TAIL]
        boundaries[at + 1] = layout[row, TAIL] + layout[row, ZEROS]
        boundaries[at + 2] = layout[row, FCS_AT]
        boundaries[at + 3] = -FROM_END
        at += TAILS
        stops[row] = at
        if layers > _KEY_WORDS * _WORD_LAYERS:
            keys[row, 0] = _MANY_LAYERS


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
    """Compute the boundaries of each pair of layouts: first the outer layout, then the quoted layout.

    The quoted frame starts ``shown_at`` octets after the start of the last layer, and ends with the last
    layer.
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
def _locate(
    layout_of: Int32,
    layout_boundaries: Int64,
    stops: Int64,
    offset: Int64,
    captured: Int64,
    boundaries: Int64,
    boundaries_at: Int64,
) -> None:
    """Write the buffer offsets of the boundaries of each frame."""
    at = 0
    for row in range(len(layout_of)):
        which = signed(layout_of[row])
        first = stops[which - 1] if which > 0 else 0
        start = offset[row]
        beyond = start + captured[row] + FROM_END
        boundaries_at[row] = at
        for index in range(first, stops[which]):
            boundary = layout_boundaries[index]
            boundaries[at] = boundary + (start if boundary >= 0 else beyond)
            at += 1


@over_batches
def _identify(keys: Int64, known: Int64, slots: Int32, used: int, paths: Int32) -> int:
    """Assign numbers to the paths; return the number of known paths."""
    mask = len(slots) - 1
    for row in range(len(keys)):
        paths[row] = NO_PATH
        if keys[row, 0] == _MANY_LAYERS or keys[row, _KEY_WORDS] == _MANY_LAYERS:
            continue
        mixed = np.int64(0)
        for word in range(2 * _KEY_WORDS):
            mixed = ((mixed >> _BITS) ^ keys[row, word]) & 0x3FFFFFFFFFFFFFF
        mixed ^= (mixed >> 29) ^ (mixed >> 15)
        slot = mixed & mask
        while slots[slot] != 0 and not _equal(keys, row, known, slots[slot] - 1):
            slot = (slot + 1) & mask
        if slots[slot] == 0:
            if used == len(known):
                continue
            for word in range(2 * _KEY_WORDS):
                known[used, word] = keys[row, word]
            used += 1
            slots[slot] = used
        paths[row] = slots[slot] - 1
    return used


@inlined
def _equal(keys: Int64, row: int, known: Int64, entry: int) -> bool:
    """Return whether two rows are equal."""
    word = 0
    while word < 2 * _KEY_WORDS and keys[row, word] == known[entry, word]:
        word += 1
    return word == 2 * _KEY_WORDS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrameBoundaries:
    """The frames of a batch with their paths and boundaries."""

    layers: BatchLayers
    paths: Int32
    """Number of the path of each frame, or NO_PATH."""
    boundaries_at: Int64
    """Index of the first boundary of each frame."""
    boundaries: Int64
    """Offsets in the buffer, see `Path`."""
    malformed: NDArray[np.bool_]
    """Whether each frame has an error."""
    shows_malformed: NDArray[np.bool_]
    """Whether the quoted frame has an error."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LayoutBoundaries:
    """The layouts of frames, with the boundaries of all layouts and the end of each layout's boundaries."""

    boundaries: Int64
    stops: Int64
    keys: Int64
    """Key of the layers of each layout, and of the quoted frame's layers (0 without one); row per layout."""
    last: Int64
    """Number of the last layer of each layout."""
    of: Int32


class PathBook:
    """The known paths of frames, by number."""

    def __init__(self) -> None:
        self._keys = np.zeros((_MAX_PATHS, 2 * _KEY_WORDS), np.int64)
        self._slots = np.zeros(_SLOTS, np.int32)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __getitem__(self, number: int) -> Path:
        outer, inner = map(_formats_of, self._keys[number].reshape(2, -1).tolist())
        sampled = Path(layers=inner, first=len(outer) + TAILS) if inner else None
        return Path(layers=outer, sampled=sampled)

    def locate(self, layers: BatchLayers, ethertypes: EtherTypes, *, sampled: bool) -> FrameBoundaries:
        """Return the paths and boundaries of frames.

        With ``sampled``, quoted frames are included.
        """
        frames = layers.frames
        malformed = np.zeros(len(frames.offset), np.bool_)
        malformed[layers.error_rows] = True
        shows_malformed = np.zeros_like(malformed)
        layouts = _layout_boundaries(layers)
        rows, shown = sampled_frames(layers) if sampled else (_NO_ROWS, None)
        if shown is not None and len(rows):
            inside = find_layers(shown, (), ethertypes, None)
            shows_malformed[rows[inside.error_rows]] = True
            layouts = _paired(layouts, _layout_boundaries(inside), rows, ethertypes)
        paths = np.empty(len(layouts.stops), np.int32)
        self._used = _identify(layouts.keys, self._keys, self._slots, self._used, paths)
        sizes = np.diff(layouts.stops, prepend=0)
        boundaries = np.empty(int(sizes[layouts.of].sum()), np.int64)
        boundaries_at = np.empty(len(layouts.of), np.int64)
        _locate(
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
            layers=layers,
            paths=path_of,
            boundaries_at=fixed(boundaries_at),
            boundaries=fixed(boundaries),
            malformed=malformed,
            shows_malformed=shows_malformed,
        )


_NO_ROWS = np.empty(0, np.int32)


def _layout_boundaries(layers: BatchLayers) -> _LayoutBoundaries:
    """Return the layouts of frames with their boundaries."""
    counts = [len(part.layouts) for part in layers.parts]
    of = np.empty(len(layers.frames.offset), np.int32)
    boundaries, stops = [], []
    keys = np.zeros((sum(counts), 2 * _KEY_WORDS), np.int64)
    first = 0
    for part, add in zip(layers.parts, itertools.accumulate(counts, initial=0), strict=False):
        np.add(part.layout_of, add, out=of[part.begin : part.end])
        ends_ = np.empty(len(part.layer) + TAILS * len(part.layouts), np.int64)
        ends = np.empty(len(part.layouts), np.int64)
        _layout_keys(part.layouts, part.layer, ends_, ends, keys[add:])
        used = int(ends[-1]) if len(ends) else 0
        boundaries.append(ends_[:used])
        stops.append(ends + first)
        first += used
    return _LayoutBoundaries(
        boundaries=np.concatenate(boundaries),
        stops=np.concatenate(stops),
        keys=keys,
        last=np.concatenate([part.layouts[:, LAST] for part in layers.parts]),
        of=of,
    )


def _paired(
    outer: _LayoutBoundaries, inner: _LayoutBoundaries, rows: Int32, ethertypes: EtherTypes
) -> _LayoutBoundaries:
    """Return the layouts of frames, where the frames ``rows`` quote frames of the layouts ``inner``."""
    count = len(inner.stops)
    pairs = outer.of[rows] * np.int64(count) + inner.of
    if len(outer.stops) * count <= _DENSE_PAIRS:
        pairs_used = np.flatnonzero(np.bincount(pairs))
        index_of = np.zeros(len(outer.stops) * count, np.int64)
        index_of[pairs_used] = np.arange(len(pairs_used))
        inverse = index_of[pairs]
    else:
        pairs_used, inverse = np.unique(pairs, return_inverse=True)
    first, second = pairs_used // count, pairs_used % count
    sizes = np.diff(outer.stops, prepend=0)[first] + np.diff(inner.stops, prepend=0)[second]
    boundaries, stops = np.empty(int(sizes.sum()), np.int64), np.empty(len(pairs_used), np.int64)
    shown_at = parse_tables(ethertypes).fixed[outer.last[first]]
    keys = np.hstack([outer.keys[first, :_KEY_WORDS], inner.keys[second, :_KEY_WORDS]])
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
    of[rows] = len(outer.stops) + inverse
    return _LayoutBoundaries(
        boundaries=np.concatenate([outer.boundaries, boundaries]),
        stops=np.concatenate([outer.stops, stops + len(outer.boundaries)]),
        keys=np.concatenate([outer.keys, keys]),
        last=np.concatenate([outer.last, outer.last[first]]),
        of=of,
    )


def _formats_of(key: Sequence[int]) -> tuple[type[Layer], ...]:
    shifts = range((_WORD_LAYERS - 1) * _BITS, -1, -_BITS)
    numbers = ((word >> shift) & (1 << _BITS) - 1 for word in key for shift in shifts)
    return tuple(FORMATS[number - 1] for number in numbers if number)


Octets = NDArray[np.uint8]

_INITIAL_OCTETS = 4 << 20
_MAX_OCTETS = 16 << 20
"""Capacity of the text buffer in octets, exceeded only for a single larger frame."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """A batch to render."""

    located: FrameBoundaries
    program: Int32
    """Program of each frame; a value of −1 − k means text k of ``singles``."""
    record: Int64
    """One row per `RecordNumber`, with a number for each frame."""
    singles: Octets
    single_bounds: Int64
    longest_error: int
    """Length in octets of the longest error text in ``singles``."""
    programs: Programs
    functions: Sequence[Callable[..., str]]
    argument_octets: Sequence[tuple[int, ...]]


class RenderBuffers:
    """Buffer for the text of a share, used by one thread at a time."""

    def __init__(self) -> None:
        self._out = np.empty(_INITIAL_OCTETS, np.uint8)
        self._vocabulary = Vocabulary()

    def texts(self, job: Job, begin: int, end: int) -> list[memoryview]:
        """Return the text of rows ``begin`` to ``end`` in parts that are valid until the next call."""
        programs, located, words = job.programs, job.located, self._vocabulary
        frames = located.layers.frames
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
                programs.literals, programs.capacity, codes[at - begin :], words.octets, words.bounds,
                max(words.longest, job.longest_error), job.record, frames.buffer, located.boundaries,
                located.boundaries_at, job.singles, job.single_bounds, self._out, used,
            )  # fmt: skip
            if at > before:
                texts.append(self._out[: used[0]].data)
            if at < end:
                # Views of the text keep the old buffer alive.
                self._out = np.empty(max(min(2 * len(self._out), _MAX_OCTETS), int(used[1])), np.uint8)
        return texts


SHARE_FRAMES = 1 << 13
SHARE_OCTETS = 2 << 20
"""Maximum number of frames and octets in a share, which one thread renders at a time."""
WORTH_FRAMES = 16
"""Minimum number of frames with a new path in a batch for which a program is compiled."""
_AHEAD = 3
AHEAD_OCTETS = 32 << 20
"""Octets of text rendered at once by the calling thread, enough for most whole batches.

If threads pass shares to other threads, each thread must wait for the interpreter.
"""
_NONE, _UNDECIDED = -1, -2
_NEAR_NS = 1 << 61
_FAR_NS = 2.0**62
"""Maximum absolute time. Frames with times whose sums or differences may overflow are written singly."""

Single = Callable[[Batch], Iterable[str]]
"""Function that returns the text of each frame of a batch, one frame at a time."""


class Renderer:
    """Renderer of batches as text.

    ``write`` returns the pieces of a frame's text for a path. If ``write`` returns ``None``, the frames of
    the path have no program and are written one by one. With ``sampled``, ``write`` uses the frames quoted by
    messages (`Path.sampled`, otherwise always ``None``). With ``malformed``, the pieces include `Mark.ERROR`
    for malformed frames; otherwise, malformed frames are written one by one. ``wrong`` returns the text of
    `Mark.ERROR`. With ``wrong``, frames that quote malformed frames are written one by one. With
    ``worth_frames`` 1, all paths have programs.
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
        """Return the text of the frames of a batch in parts; a part is valid until the next part is
        requested.

        ``single`` returns, in order, the texts of frames without a program and of frames selected by ``odd``.
        ``origin_ns`` is the origin of `RecordNumber.SINCE_NS`.
        The call renders about AHEAD_OCTETS, and ``pool`` renders further parts ahead of the caller. Several
        threads may call this method, each with a different batch.
        """
        if not len(batch):
            return iter(())
        frames = frames_of(batch, interfaces)
        located = find_layers(frames, (), ethertypes, None)
        with self._lock:
            job = self._job(batch, located, single, interfaces, ethertypes, odd, origin_ns)
        return self._shares(job, batch.captured, pool)

    def _job(
        self,
        batch: Batch,
        layers: BatchLayers,
        single: Single,
        interfaces: Sequence[Interface],
        ethertypes: EtherTypes,
        odd: NDArray[np.bool_] | None,
        origin_ns: int,
    ) -> Job:
        located = self._paths.locate(layers, ethertypes, sampled=self._sampled)
        far = _far(batch, origin_ns)
        alone = far if odd is None else odd | far
        if not self._malformed:
            alone |= located.malformed
        if not self._malformed or self._wrong is not None:
            alone |= located.shows_malformed
        program = self._chosen(located, alone)
        record = _record(batch, layers, interfaces, origin_ns, self._assembler.record_numbers, far)
        rows = np.flatnonzero(program < 0)
        singles = single(batch.select(rows)) if len(rows) else ()
        errors = self._errors(layers, ethertypes) if self._malformed else ()
        if errors:
            record[RecordNumber.ERROR, layers.error_rows] = len(rows) + 1 + layers.errors.codes
            record[RecordNumber.FLAWED, layers.error_rows] = 1
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

    def _errors(self, layers: BatchLayers, ethertypes: EtherTypes) -> Sequence[str]:
        """Return the text of each distinct error."""
        texts = layers.errors.words
        if self._wrong is None or not texts:
            return texts
        # Decode one frame for each error: the array assignment keeps the last frame of several.
        rows = np.zeros(len(texts), np.int64)
        rows[layers.errors.codes] = layers.error_rows
        errors = (decoded_frame(layers.frames, ethertypes, row).error for row in rows.tolist())
        return [self._wrong(error) if error is not None else "" for error in errors]

    def _chosen(self, located: FrameBoundaries, alone: NDArray[np.bool_]) -> Int32:
        """Return the program number of each frame, −1 for frames written one by one."""
        more = len(self._paths) - len(self._program_of)
        self._program_of = np.concatenate([self._program_of, np.full(more, _UNDECIDED, np.int32)])
        usable = (located.paths != NO_PATH) & ~alone
        counts = np.bincount(located.paths[usable], minlength=len(self._paths))
        for number in np.flatnonzero((counts >= self._worth_frames) & (self._program_of == _UNDECIDED)):
            self._program_of[number] = self._program(self._paths[int(number)])
        if len(self._assembler) >= len(self._programs.bounds):
            self._programs = self._assembler.programs()
        program = np.full(len(located.paths), _NONE, np.int32)
        program[usable] = self._program_of[located.paths[usable]]
        return program

    def _program(self, path: Path) -> int:
        pieces = self._write(path)
        try:
            return _NONE if pieces is None else self._assembler.add(pieces)
        except UnsupportedPieceError:
            return _NONE

    def _shares(self, job: Job, captured: Int64, pool: ThreadPoolExecutor | None) -> Iterator[memoryview]:
        """Return the text of the rows, share by share.

        The calling thread renders some shares now. Threads render the remaining shares ahead of their use.
        """
        works = [partial(self._share, job, *share) for share in _shared(captured)]
        made: list[tuple[RenderBuffers, list[memoryview]]] = []
        left = 0 if pool is None else AHEAD_OCTETS
        while left > 0 and len(made) < len(works):
            made.append(works[len(made)]())
            left -= sum(len(text) for text in made[-1][1])
        return self._texts(itertools.chain(made, some_ahead(works[len(made) :], pool, _AHEAD)))

    def _texts(self, shares: Iterable[tuple[RenderBuffers, list[memoryview]]]) -> Iterator[memoryview]:
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
    """Yield the first row and the end of each share of frames."""
    stops = np.cumsum(captured)
    begin = octets = 0
    while begin < len(stops):
        whole = int(np.searchsorted(stops, octets + SHARE_OCTETS, side="right"))
        end = min(max(whole, begin + 1), begin + SHARE_FRAMES, len(stops))
        yield begin, end
        begin, octets = end, int(stops[end - 1])


def _far(batch: Batch, origin_ns: int) -> NDArray[np.bool_]:
    """Return a mask of the frames with times that are too large for programs."""
    if max(abs(origin_ns), batch.farthest_ns()) < _NEAR_NS:
        return np.zeros(len(batch), np.bool_)
    near = batch.time_ns.astype(np.float64)
    far = (np.abs(near - origin_ns) > _FAR_NS) | (np.abs(near) > _FAR_NS)
    for times in (batch.since_first_ns(), batch.since_previous_ns(), batch.since_displayed_ns()):
        far |= np.abs(times.astype(np.float64)) > _FAR_NS
    return far


def _record(
    batch: Batch,
    layers: BatchLayers,
    interfaces: Sequence[Interface],
    origin_ns: int,
    needed: Collection[int],
    far: NDArray[np.bool_],
) -> Int64:
    """Return one row per number of the records; rows not in ``needed`` are undefined."""
    links, used = batch.links(interfaces)
    if not links:
        links, used = [Interface(index=0, linktype=ETHERNET)], np.zeros(len(batch), np.int64)

    def since_ns() -> Int64:
        if batch.timed is None and not far.any():
            return batch.time_ns - origin_ns
        since_ns = np.zeros(len(batch), np.int64)
        near = ~far if batch.timed is None else batch.timed & ~far
        if near.any():  # otherwise the origin may exceed 64 bits
            since_ns[near] = batch.time_ns[near] - origin_ns
        return since_ns

    def crc_states_of_frames() -> Int64:
        every = np.zeros(len(batch), np.int64)
        if layers.count(NUMBER_OF[ICRC]):
            packets, states = crc_states(layers)
            every[packets] = states
        return every

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
        RecordNumber.INVARIANT_CRC: crc_states_of_frames,
        RecordNumber.FLAWED: lambda: batch.original > batch.captured,
        RecordNumber.INTERFACE: lambda: batch.interface,
        RecordNumber.INTERFACE_ID: lambda: of_links(each.local_index for each in links),
        RecordNumber.LINKTYPE: lambda: of_links(each.linktype for each in links),
    }
    record = np.empty((len(RecordNumber), len(batch)), np.int64)
    for number in RecordNumber:
        if number in needed:
            record[number] = numbers[number]()
    return record


def _packed(texts: Iterable[str]) -> tuple[Octets, Int64]:
    """Return texts as concatenated octets, and the offset of each text followed by the total length."""
    encoded = [text.encode("utf-8", errors="replace") for text in texts]
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(octets) for octets in encoded], out=bounds[1:])
    return fixed(np.frombuffer(b"".join([*encoded, bytes(SPARE_OCTETS)]), np.uint8)), fixed(bounds)
