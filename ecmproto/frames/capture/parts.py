"""Parts of a large capture, which are read separately and then checked.

>>> parts = split_capture("large.pcap")
>>> reached = {}
>>> while (links := linked(parts, reached)).missing:
...     for part in links.missing:               # in any process, in any order
...         with open_part(part) as reader:
...             for batch in reader:
...                 ...
...             reached[part.place] = reader.reached
>>> links.parts                                  # in order, with the results of all parts

In a pcap file, the start of a record depends on the previous records, and a frame may contain octets that
look like a record. An offset that a search for records finds is therefore a guess. A part begins at a guess,
and ends with the first record that reaches the start of the next part. If the part ends exactly there, then
the next part also began at a record. Otherwise the result of the next part is invalid, and the next part is
read again from the right offset. The first part begins at the first record, so that the parts of `linked` are
correct for any contents. The same method applies to pcapng, and to the section and interface blocks that
describe later blocks.

A file that can only be read from the start, such as a compressed file, is one part.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ecmproto.errors import CaptureError
from ecmproto.frames.capture.batch import (
    BLOCK_TYPES,
    Batch,
    Block,
    ByteOrder,
    Int64,
    Octets,
    timeline_of,
)
from ecmproto.frames.capture.erf import pcap_parser
from ecmproto.frames.capture.pcap import HEADER_OCTETS, PcapHeader, PcapParser, byte_order_of, parse_header
from ecmproto.frames.capture.pcapng import SECTION_MAGIC, PcapngParser
from ecmproto.frames.capture.reader import BATCH_FRAMES, CaptureReader, opened_file, opened_source, unreadable
from ecmproto.frames.capture.source import (
    BoundedSource,
    OctetsSource,
    Parser,
    Source,
    Walker,
    is_compressed,
    regular_size,
    uint32_rows,
)
from ecmproto.values import dataclass

PART_OCTETS = 256 << 20
"""Default size of a part in octets, which takes some seconds to read."""
_HEAD_OCTETS = 1 << 20
"""Maximum offset of the first frame in a pcapng file that is split, in octets."""
_SEARCHED_OCTETS = 1 << 18
"""Number of octets that are searched for a record; most captures have no longer record."""
_WINDOWS_OCTETS = (1 << 17, 9 << 18)
"""Sizes of the searched windows in octets: the first is enough for most captures, the second for all."""
_STRIDE = 1 << 12
_FOLLOWED = 16
_MIN_RECORDS = 3
"""Minimum number of consecutive records that confirm a guess, unless the file ends."""
_FEW_FRAMES = 64
_EACH = ("offset", "captured", "original", "time_ns", "interface", "record_offset", "record_length")
"""Arrays of a batch with one entry for each frame."""
_DAY_S, _YEARS_S = 86_400, 10 * 366 * 86_400
"""Length of a day, and maximum difference between the times of a record and the first record, in seconds."""


class Extent(NamedTuple):
    """The extent of a part: its start and end, and the blocks that describe its records."""

    start: int
    stop: int | None
    described: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a capture: the records that begin at octet ``start`` or later and before ``stop``.

    ``stop`` is ``None`` for a part that reaches the end of the capture. ``described`` contains the octets
    needed to read the records: the header of pcap, or the previous section and interface blocks of pcapng.
    ``described`` is empty for the first part.

    ``before`` is the number of previous frames. ``first_ns`` and ``before_ns`` are the times of the first and
    the last previous frame. These three values are ``None`` if unknown. ``octets`` is the approximate size of
    the part.
    """

    path: str
    start: int = 0
    stop: int | None = None
    described: bytes = b""
    octets: int = 0
    before: int | None = None
    first_ns: int | None = None
    before_ns: int | None = None

    @property
    def place(self) -> Extent:
        """Extent of the part, which is equal for parts with the same records."""
        return Extent(self.start, self.stop, self.described)

    def as_dict(self) -> dict[str, Any]:
        """Return the part as JSON-compatible data for ``Part.of_dict``."""
        return {**dataclasses.asdict(self), "described": base64.b64encode(self.described).decode()}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Part:
        """Return the part from the data of `as_dict`."""
        return cls(**{**values, "described": base64.b64decode(values["described"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The result of reading a part to its end: ``frames`` frames, and the next ``offset`` in the capture.

    ``described`` contains the blocks that describe the records after ``offset``, or ``None`` if the blocks
    are too large. ``first_ns`` and ``last_ns`` are the times of the first and the last frame with a time.
    ``problem`` is the error that ended the part and therefore the capture; the error counts frames from the
    start of the part.
    """

    offset: int
    described: bytes | None
    frames: int
    first_ns: int | None
    last_ns: int | None
    warnings: tuple[str, ...] = ()
    problem: CaptureError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-compatible data for ``Reached.of_dict``."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.described is not None:
            values["described"] = base64.b64encode(self.described).decode()
        if self.problem is not None:
            values["problem"] = self.problem.as_dict()
        return {**values, "warnings": list(self.warnings)}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Reached:
        """Return the result from the data of `as_dict`."""
        described, problem = values["described"], values["problem"]
        return cls(**{
            **values,
            "described": None if described is None else base64.b64decode(described),
            "warnings": tuple(values["warnings"]),
            "problem": None if problem is None else CaptureError(**problem),
        })  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The progress of reading a capture in parts, each of which ends where the next part begins.

    ``parts`` are the confirmed parts in order, with their results and the numbers of previous frames.
    ``missing`` are the parts to read next. The first missing part follows ``parts``; later missing parts may
    turn out to be invalid. If no part is missing, ``parts`` are the whole capture.
    """

    parts: tuple[tuple[Part, Reached], ...]
    missing: tuple[Part, ...]

    @property
    def frames(self) -> int:
        """Number of frames in the parts."""
        return sum(reached.frames for _, reached in self.parts)

    @property
    def warnings(self) -> list[str]:
        """Warnings for the parts, without duplicates."""
        return list(dict.fromkeys(text for _, reached in self.parts for text in reached.warnings))

    @property
    def problem(self) -> CaptureError | None:
        """Error that ended the reading of the capture early."""
        if not self.parts or self.parts[-1][1].problem is None:
            return None
        part, reached = self.parts[-1]
        assert reached.problem is not None
        return reached.problem.counted_on(part.before or 0)


def linked(parts: Sequence[Part], reached: Mapping[Extent, Reached]) -> Links:
    """Return the confirmed parts of a capture, with frame numbers and times, and the parts to read next.

    ``parts`` is the result of `split_capture`. ``reached`` contains the results of all parts read so far.
    """
    whole = dataclasses.replace(parts[0], stop=None, octets=sum(part.octets for part in parts))
    if len(parts) > 1 and whole.place in reached:
        return linked([whole], reached)
    done: list[tuple[Part, Reached]] = []
    number, part = 0, dataclasses.replace(parts[0], before=0, first_ns=None, before_ns=None)
    while True:
        result = reached.get(part.place)
        if result is None:
            after = [each for each in parts[number + 1 :] if each.place not in reached]
            return Links(parts=tuple(done), missing=(part, *after))
        done.append((part, result))
        if result.problem is not None:
            return Links(parts=tuple(done), missing=())
        number += 1
        # a record may be longer than a part
        while number < len(parts) and (parts[number].stop or result.offset + 1) <= result.offset:
            number += 1
        if number == len(parts):
            return Links(parts=tuple(done), missing=())
        if result.described is None:
            return Links(parts=(), missing=(whole,))
        part = following(part, result, parts[number])


def following(part: Part, reached: Reached, planned: Part) -> Part:
    """Return the part ``planned`` with the start, numbers and times that follow ``part`` and its result."""
    return dataclasses.replace(
        planned,
        start=reached.offset,
        described=reached.described or b"",
        before=(part.before or 0) + reached.frames,
        first_ns=reached.first_ns if part.first_ns is None else part.first_ns,
        before_ns=part.before_ns if reached.last_ns is None else reached.last_ns,
    )


def split_capture(
    path: str | os.PathLike[str], octets: int = PART_OCTETS, *, count: int | None = None
) -> list[Part]:
    """Split a capture into ``count`` parts, or into parts of about ``octets`` octets.

    Return one part if the capture cannot be split. The starts of the parts are guesses, which `linked`
    confirms or corrects. Raises CaptureError for a file that cannot be read or does not start like a capture.
    """
    file, name, owned = opened_file(path)
    try:
        size = regular_size(file)
        if size is None:
            return [Part(path=name)]
        each = max(1, octets if count is None else -(-size // max(1, count)))
        search = RecordSearch(file, name) if size > each else None
        starts = [0] if search is None else [0, *search.near(range(each, size, each))]
        described = [b"", *([b"" if search is None else search.described] * (len(starts) - 1))]
        return [
            Part(path=name, start=start, stop=stop, described=header, octets=(stop or size) - start)
            for start, stop, header in zip(starts, [*starts[1:], None], described, strict=True)
        ]
    except OSError as error:
        raise unreadable(name, error) from error
    finally:
        if owned:
            file.close()


class RecordSearch:
    """A search for probable records in a file."""

    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self.described: bytes = b""
        """Octets needed to read the records, if they precede the first record."""
        self._find: _Finder | None = None
        head = self._octets(0, _HEAD_OCTETS)
        if not head or is_compressed(head, name):
            return
        if byte_order_of(head) is not None:
            header = parse_header(head, name)
            self.described = header.octets
            self._find = _PcapFinder(header, head)
        elif head.startswith(SECTION_MAGIC):
            parser = PcapngParser(Walker(0, compiled=False), 1)
            if _described_up_to_frames(parser, head) and parser.described is not None:
                self.described = parser.described
                self._find = _PcapngFinder(parser.byte_order)

    @property
    def can_find(self) -> bool:
        """Whether records can be found in the file."""
        return self._find is not None

    def near(self, guesses: Sequence[int]) -> Iterator[int]:
        """Yield the offset of a probable record at or after each guess, if a record is found."""
        last = len(self.described)
        for guess in guesses if self._find is not None else ():
            at = max(guess, last + 1) & ~3
            assert self._find is not None
            for octets in _WINDOWS_OCTETS:
                window = np.frombuffer(self._octets(at, octets), np.uint8)
                result = _first_followed(window, self._find)
                if result is not None or len(window) < octets:
                    break
            if result is not None and at + result > last:
                last = at + result
                yield last

    def _octets(self, at: int, octets: int) -> bytes:
        self._file.seek(at)
        pieces = []
        while octets and (piece := self._file.read(octets)):
            pieces.append(piece)
            octets -= len(piece)
        return b"".join(pieces)


class _Finder(Protocol):
    """Finder of records by their headers."""

    header_octets: int

    def lengths(self, octets: Octets, starts: Int64) -> Int64:
        """Return the lengths of the probable records at ``starts`` in octets, 0 where there is no record."""


class _PcapFinder:
    """Finder of pcap records with lengths and times similar to the first record."""

    def __init__(self, header: PcapHeader, head: bytes) -> None:
        self.header_octets = header.record_header_octets
        self._order = header.byte_order
        self._ticks = header.ticks_per_second
        self._largest = min(max(header.snaplen, 1 << 10), _SEARCHED_OCTETS)
        self._first_s = int.from_bytes(head[HEADER_OCTETS : HEADER_OCTETS + 4], header.byte_order)

    def lengths(self, octets: Octets, starts: Int64) -> Int64:
        """Return the lengths of the probable records at ``starts`` in octets, 0 where there is no record."""
        seconds, ticks, one, other = uint32_rows(octets, starts, 4, self._order).astype(np.int64).T
        captured, original = np.minimum(one, other), np.maximum(one, other)
        # zeros look like empty frames of 1970
        is_record = (captured > 0) & (captured <= self._largest) & (original <= _SEARCHED_OCTETS)
        is_record &= (ticks < self._ticks) & (np.abs(seconds - self._first_s) <= _YEARS_S)
        return np.where(is_record, captured + self.header_octets, 0)


class _PcapngFinder:
    """Finder of pcapng blocks of defined types with the same length at both ends."""

    header_octets = 16
    _TYPES = np.array(BLOCK_TYPES)

    def __init__(self, byte_order: ByteOrder) -> None:
        self._order = byte_order

    def lengths(self, octets: Octets, starts: Int64) -> Int64:
        """Return the lengths of the probable blocks at ``starts`` in octets, 0 where there is no block."""
        kind, total, *_ = uint32_rows(octets, starts, 4, self._order).astype(np.int64).T
        present = np.isin(kind, self._TYPES) & (starts % 4 == 0)
        present &= (total >= 12) & (total % 4 == 0) & (starts + total <= len(octets))
        ends = np.where(present, starts + total - 4, 0)
        present &= uint32_rows(octets, ends, 1, self._order)[:, 0] == total
        return np.where(present, total, 0)


def _first_followed(octets: Octets, finder: _Finder) -> int | None:
    """Return the offset of the first record that other records follow immediately."""
    space = len(octets) - finder.header_octets + 1
    if space <= 0:
        return None
    searched = min(space, _SEARCHED_OCTETS)
    for first in range(0, searched, _STRIDE):
        starts = np.arange(first, min(first + _STRIDE, searched), dtype=np.int64)
        for start in starts[finder.lengths(octets, starts) > 0].tolist():
            if _is_followed(octets, finder, start):
                return int(start)
    return None


def _is_followed(octets: Octets, finder: _Finder, start: int) -> bool:
    """Return whether records follow the record at ``start``, up to the end of ``octets``."""
    at, followed = start, 0
    while followed < _FOLLOWED and at + finder.header_octets <= len(octets):
        length = int(finder.lengths(octets, np.array([at]))[0])
        if not length:
            return False
        at, followed = at + length, followed + 1
    return followed >= _MIN_RECORDS or at == len(octets)


def _described_up_to_frames(parser: PcapngParser, octets: bytes) -> bool:
    """Parse the blocks before the first frame in ``octets``; return whether there is a frame."""
    source = OctetsSource(octets, base=0)
    while isinstance(item := parser.take(source), Block):
        pass
    return isinstance(item, Batch)


def open_part(part: Part, *, batch_frames: int = BATCH_FRAMES) -> PartReader:
    """Open a part of a capture, with the frame numbers and times of the whole capture.

    If the number of previous frames is unknown, frame numbers start at the part. ``frame.time_relative`` and
    similar fields then also start at the part. Raises CaptureError for a file that cannot be read or does not
    start like a capture.
    """
    with opened_source(part.path, start=part.start) as (source, _):
        return PartReader(source, part, batch_frames=max(1, batch_frames))


class PartReader(CaptureReader):
    """A reader of a part of a capture, which `open_part` returns.

    ``interfaces`` are the interfaces of the whole capture so far. ``begun`` contains the section and
    interface blocks that apply at the start of a part of pcapng; a copy of the part begins with these blocks.
    ``problem`` counts frames from the start of the capture, or from the start of the part if the number of
    previous frames is unknown.
    """

    def __init__(self, source: Source, part: Part, *, batch_frames: int) -> None:
        self.part: Part = part
        self.begun: list[Block] = []
        self._first_ns: int | None = None
        self._stored: deque[Batch] | None = None
        is_part = part.start or part.stop is not None
        super().__init__(
            BoundedSource(source, part.stop) if is_part else source, part.path, batch_frames=batch_frames
        )
        self._parser.frames = self._before = part.before or 0
        self.follow(part)

    def read(self) -> None:
        """Read the part to its end and keep the batches for iteration; the file must be mapped."""
        pending: deque[Batch] = deque()
        for batch in self:
            # the last record extends beyond the end of a part, and is a separate batch
            few = pending and pending[-1].timed is batch.timed is None and len(batch) <= _FEW_FRAMES
            pending.append(_joined(pending.pop(), batch) if few else batch)
        self._stored = pending

    def follow(self, part: Part) -> None:
        """Number and time the frames as in ``part``, which has the same extent."""
        self._parser.frames += (part.before or 0) - (self.part.before or 0)
        self.part = part
        self._timeline = None
        self.displayed.last_ns = part.before_ns
        if part.first_ns is not None:
            self._timeline = dataclasses.replace(
                timeline_of(np.zeros(0, np.int64), displayed=self.displayed),
                first_ns=part.first_ns, before_ns=part.before_ns,
            )  # fmt: skip

    def items(self) -> Iterator[Batch | Block]:
        """Yield batches and blocks; after `read`, only batches."""
        if self._stored is None:
            yield from super().items()
            return
        shift = (self.part.before or 0) - self._before
        while self._stored:
            batch = self._stored.popleft()
            yield self._followed(dataclasses.replace(batch, first=batch.first + shift))

    def _parser_for(self, source: Source, walker: Walker, batch_frames: int) -> Parser:
        if not self.part.start:
            return super()._parser_for(source, walker, batch_frames)
        if byte_order_of(self.part.described) is not None:
            pcap = pcap_parser(parse_header(self.part.described, self.path), walker, batch_frames)
            self.header: PcapHeader | None = pcap.header
            return pcap
        parser = PcapngParser(walker, batch_frames)
        described = OctetsSource(self.part.described, base=0)
        while isinstance(item := parser.take(described), Block):
            self.begun.append(item)
        return parser

    def _followed(self, batch: Batch) -> Batch:
        if self._first_ns is None:
            times = batch.time_ns if batch.timed is None else batch.time_ns[batch.timed]
            self._first_ns = int(times[0]) if len(times) else None
        return super()._followed(batch)

    @property
    def reached(self) -> Reached:
        """Result of the part after reading to its end."""
        before = self.part.before or 0
        parser, problem = self._parser, self.problem
        described = parser.described if isinstance(parser, PcapngParser | PcapParser) else None
        if problem is not None:
            problem = problem.counted_on(-before)
        timed = self._first_ns is not None and self._timeline is not None
        return Reached(
            offset=self._source.base + self._source.position,
            described=described,
            frames=self.frames - before,
            first_ns=self._first_ns,
            last_ns=self._timeline.last_ns if timed and self._timeline is not None else None,
            warnings=tuple(self.warnings),
            problem=problem,
        )


def _joined(batch: Batch, later: Batch) -> Batch:
    """Return two batches of a mapped file as one batch."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(batch, name), getattr(later, name)]) for name in _EACH
    }
    return dataclasses.replace(batch, buffer=later.buffer, **arrays)


def read_through(part: Part) -> Reached:
    """Read a part, and return only its number of frames, its end, and its first and last times."""
    with open_part(part) as reader:
        for _ in reader:
            pass
        return reader.reached
