"""Batches as text: which program each frame follows, and the work shared by threads."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.batch.headers import fixed
from ecmproto.capture.batch import Batch
from ecmproto.capture.container import Interface
from ecmproto.capture.linktypes import ETHERNET
from ecmproto.columns.framing import SHOWN_AS, frames_of
from ecmproto.columns.layers import LayersFound, decoded_frame, find_layers
from ecmproto.columns.text.desk import Desk, Job
from ecmproto.columns.text.paths import UNTOLD, Marked, PathBook
from ecmproto.columns.text.pieces import Path, Pieces, RecordNumber
from ecmproto.columns.text.program import Assembler
from ecmproto.columns.text.rendering import SPARE_OCTETS
from ecmproto.errors import DecodeError
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes

Octets = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
_Result = TypeVar("_Result")

SHARE_FRAMES = 4096
SHARE_OCTETS = 1 << 20
"""What a thread takes at a time: so many frames, or fewer of so many octets."""
WORTH_FRAMES = 16
"""Of a path that fewer frames of a batch have, and none had before, no program is made."""
_AHEAD = 3
_NONE, _UNASKED = -1, -2
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
        self._desks: list[Desk] = []

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
        """Yield the text of the frames of a batch in pieces, each of which is valid until the next.

        ``single`` gives the text of frames that no program tells: of those, in order, that ``odd`` marks too.
        ``origin_ns`` is what `RecordNumber.SINCE_NS` counts from.  ``pool`` shares the work.
        """
        if not len(batch):
            return
        frames = frames_of(batch, interfaces)
        found = find_layers(frames, tuple(SHOWN_AS) if self._sampled else (), ethertypes, pool)
        marked = self._paths.mark(found, ethertypes, sampled=self._sampled)
        record, far = _record(batch, interfaces, origin_ns)
        alone = far if odd is None else odd | far
        if not self._malformed:
            alone |= marked.malformed
        if not self._malformed or self._wrong is not None:
            alone |= marked.shows_malformed
        program = self._chosen(marked, alone)
        rows = np.flatnonzero(program < 0)
        singles = single(batch.select(rows)) if len(rows) else ()
        errors = self._errors(found, ethertypes) if self._malformed else ()
        if errors:
            record[RecordNumber.ERROR, found.error_rows] = len(rows) + 1 + found.errors.codes
            record[RecordNumber.FLAWED, found.error_rows] = 1
        program[rows] = -1 - np.arange(len(rows))
        texts, bounds = _packed([*singles, *errors])
        job = Job(
            marked=marked,
            program=fixed(program),
            record=fixed(record),
            singles=texts,
            single_bounds=bounds,
            longest_error=int(np.diff(bounds[len(rows) :]).max(initial=0)),
            programs=self._programs,
            functions=self._assembler.functions,
            shapes=self._assembler.shapes,
        )
        yield from self._shares(job, batch.captured, pool)

    def _errors(self, found: LayersFound, ethertypes: EtherTypes) -> Sequence[str]:
        """Return what stands for each way of being malformed."""
        words = found.errors.words
        if self._wrong is None or not words:
            return words
        # one frame for each, decoded; the last of several in an array is the one that stays
        rows = np.zeros(len(words), np.int64)
        rows[found.errors.codes] = found.error_rows
        errors = (decoded_frame(found.frames, ethertypes, row).error for row in rows.tolist())
        return [self._wrong(error) if error is not None else "" for error in errors]

    def _chosen(self, marked: Marked, alone: NDArray[np.bool_]) -> Int32:
        """Return the number of each frame's program, −1 for those told alone."""
        more = len(self._paths) - len(self._program_of)
        self._program_of = np.concatenate([self._program_of, np.full(more, _UNASKED, np.int32)])
        told = (marked.paths != UNTOLD) & ~alone
        counts = np.bincount(marked.paths[told], minlength=len(self._paths))
        for number in np.flatnonzero((counts >= self._worth_frames) & (self._program_of == _UNASKED)):
            pieces = self._write(self._paths[int(number)])
            self._program_of[number] = _NONE if pieces is None else self._assembler.add(pieces)
        if len(self._assembler) >= len(self._programs.bounds):
            self._programs = self._assembler.programs()
        program = np.full(len(marked.paths), _NONE, np.int32)
        program[told] = self._program_of[marked.paths[told]]
        return program

    def _shares(self, job: Job, captured: Int64, pool: ThreadPoolExecutor | None) -> Iterator[memoryview]:
        """Yield the text of the rows, share by share, with threads that are two shares ahead."""
        works = [partial(self._share, job, *share) for share in _shared(captured)]
        shared = pool if len(works) > 1 else None
        for desk, texts in _done(works, shared):
            yield from texts
            self._desks.append(desk)

    def _share(self, job: Job, begin: int, end: int) -> tuple[Desk, list[memoryview]]:
        try:
            desk = self._desks.pop()
        except IndexError:
            desk = Desk()
        return desk, desk.texts(job, begin, end)


def _shared(captured: Int64) -> Iterator[tuple[int, int]]:
    """Yield where shares of frames begin and end."""
    stops = np.cumsum(captured)
    begin = octets = 0
    while begin < len(stops):
        whole = int(np.searchsorted(stops, octets + SHARE_OCTETS, side="right"))
        end = min(max(whole, begin + 1), begin + SHARE_FRAMES, len(stops))
        yield begin, end
        begin, octets = end, int(stops[end - 1])


def _done(works: Sequence[Callable[[], _Result]], pool: ThreadPoolExecutor | None) -> Iterator[_Result]:
    """Yield what each of ``works`` returns, in order; ``pool`` is at the next ones meanwhile."""
    if pool is None:
        yield from (work() for work in works)
        return
    under_way = collections.deque(pool.submit(work) for work in works[:_AHEAD])
    for work in works[_AHEAD:]:
        yield under_way.popleft().result()
        under_way.append(pool.submit(work))
    while under_way:
        yield under_way.popleft().result()


def _record(batch: Batch, interfaces: Sequence[Interface], origin_ns: int) -> tuple[Int64, NDArray[np.bool_]]:
    """Return the numbers of the frames' records, and which frames have one that is too large to be told."""
    links, used = batch.links(interfaces)
    if not links:
        links, used = [Interface(index=0, linktype=ETHERNET)], np.zeros(len(batch), np.int64)
    timed = np.ones(len(batch), np.bool_) if batch.timed is None else batch.timed
    far = np.abs(batch.time_ns.astype(np.float64) - origin_ns) > _FAR_NS
    far |= np.abs(batch.time_ns.astype(np.float64)) > _FAR_NS
    record = np.empty((len(RecordNumber), len(batch)), np.int64)
    record[RecordNumber.NUMBER] = batch.numbers + 1
    record[RecordNumber.TIME_NS] = batch.time_ns
    record[RecordNumber.TIMED] = timed
    record[RecordNumber.SINCE_NS] = np.where(timed & ~far, batch.time_ns, origin_ns) - origin_ns
    record[RecordNumber.ORIGINAL] = batch.original
    record[RecordNumber.CAPTURED] = batch.captured
    record[RecordNumber.CUT] = np.maximum(0, batch.original - batch.captured)
    record[RecordNumber.ERROR] = 0
    record[RecordNumber.FLAWED] = batch.original > batch.captured
    record[RecordNumber.INTERFACE] = batch.interface
    record[RecordNumber.INTERFACE_ID] = np.array([each.local_index for each in links], np.int64)[used]
    record[RecordNumber.LINKTYPE] = np.array([each.linktype for each in links], np.int64)[used]
    return record, far


def _packed(texts: Iterable[str]) -> tuple[Octets, Int64]:
    """Return texts as octets one behind the other, and where each starts; then where the last ends."""
    encoded = [text.encode("utf-8", errors="replace") for text in texts]
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(octets) for octets in encoded], out=bounds[1:])
    return fixed(np.frombuffer(b"".join([*encoded, bytes(SPARE_OCTETS)]), np.uint8)), fixed(bounds)
