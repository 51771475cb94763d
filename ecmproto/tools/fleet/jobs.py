"""Jobs for each capture of a fleet: statistics, checks, Parquet files, and copies of filtered frames.

A job is plain data that can be sent to any worker. ``work`` processes a part of a capture and returns the
state. ``finish`` combines the states of the parts. The results depend neither on the workers nor on the
order, so one process and many processes write the same octets.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from ecmproto.errors import CaptureError, SpecError
from ecmproto.frames.capture import Batch, CaptureCopier, CaptureReader, open_sink
from ecmproto.frames.capture.pcap import HEADER_OCTETS
from ecmproto.frames.capture.writer import write_output
from ecmproto.paths import make_folder, path_below
from ecmproto.tools.fleet.manifest import FILE as MANIFEST
from ecmproto.tools.fleet.names import partition_folder
from ecmproto.wire.formats.ethertypes import EtherTypes
from ecmproto.wire.formats.registry import USUAL_FIELDS

if TYPE_CHECKING:
    from ecmproto.frames.columns.arrow import Addresses, Repeated
    from ecmproto.frames.filter import Filter
    from ecmproto.frames.stats import Accumulator
    from ecmproto.tools.check.checker import Checker

_PARTIAL = ".4194304-99.partial"
"""The longest suffix of an incomplete file."""
State = dict[str, Any]
"""The state of a part as plain data. States of several parts can be combined."""

DOCUMENTS, FRAMES, PIECES = "files", "frames", ".pieces"
"""Folders of a fleet for the documents of captures, the Parquet files, and the parts of copies."""
DONE = ".done"
"""The prefix of files that contain the rows of finished tasks."""
ALL, FINDINGS, ALL_COPIES = "all.json", "findings.ndjson", "all.pcapng"
"""Files with the results of all captures together: statistics or counts, findings, and merged copies."""


@dataclass(slots=True)
class Count:
    """The counts of the frames in a part. ``selected`` is the number of frames that the filter selects."""

    frames: int = 0
    selected: int = 0
    first_ns: int | None = None
    """The earliest time of a frame; ``last_ns`` is the latest time."""
    last_ns: int | None = None
    begun_ns: int | None = None
    """The time of the first frame with a time; ``ended_ns`` is the time of the last frame with a time."""
    ended_ns: int | None = None

    def as_dict(self) -> dict[str, int | None]:
        """Return the counts as plain data."""
        return dataclasses.asdict(self)

    def watched(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Count the frames of batches, and yield the batches."""
        for batch in batches:
            self.add(batch)
            yield batch

    def join(self, later: Count) -> None:
        """Add the frames of a later part."""
        self.frames += later.frames
        self.selected += later.selected
        for name, first in (("first_ns", min), ("last_ns", max)):
            times = [each for each in (getattr(self, name), getattr(later, name)) if each is not None]
            setattr(self, name, first(times) if times else None)
        self.begun_ns = later.begun_ns if self.begun_ns is None else self.begun_ns
        self.ended_ns = self.ended_ns if later.ended_ns is None else later.ended_ns

    def add(self, batch: Batch) -> None:
        """Count the frames of a batch."""
        times = batch.time_ns if batch.timed is None else batch.time_ns[batch.timed]
        self.frames += len(batch)
        if len(times):
            low, high = int(times.min()), int(times.max())
            self.first_ns = low if self.first_ns is None else min(low, self.first_ns)
            self.last_ns = high if self.last_ns is None else max(high, self.last_ns)
            self.begun_ns = int(times[0]) if self.begun_ns is None else self.begun_ns
            self.ended_ns = int(times[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The destination of a capture's results, which depends on ``folder``, ``name`` and ``partition``.

    ``path`` is the path of the capture as given. ``part`` is the offset of a part, or ``None`` for the whole
    capture.
    """

    folder: Path
    name: str
    path: str
    partition: Mapping[str, str | None] = field(default_factory=dict)
    part: int | None = None

    def path_of(self, result: str) -> Path:
        """Create the folder of a result, and return the path of the result.

        Raises SpecError for an invalid name.
        """
        path_below(self.folder, f"{result}{_PARTIAL}")
        path = path_below(self.folder, result)
        make_folder(path.parent)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a part: the counts, the state, and the written files."""

    count: Count
    read: Callable[[], State] = dict
    """A function that returns the state. States are loaded one by one, because there may be thousands."""
    outputs: tuple[str, ...] = ()
    counted: Accumulator | Checker | None = None
    """The counter of the whole capture, if available. With this counter, `finish` needs no state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a capture: the written files.

    For a check, the numbers of judgements and findings of each rule.
    """

    outputs: tuple[str, ...]
    findings: Mapping[str, tuple[int, int]] | None = None


class Job(Protocol):
    """The processing of each capture, as a dataclass of plain data."""

    kind: ClassVar[str]
    merges: ClassVar[bool]
    """Whether the states of all captures are combined into a result for all captures together."""

    of_all: ClassVar[Sequence[str]]
    """The files with the results of all captures together."""

    @property
    def fields_used(self) -> Sequence[str]:
        """Used fields whose values may depend on the position of a part in the capture."""

    def results(self, name: str) -> Sequence[str]:
        """Return the result paths that are known before reading, relative to the fleet's folder."""

    def frames_of(self, reader: CaptureReader) -> CaptureReader:
        """Return the reader of the frames to process, which are all frames or the innermost frames."""

    def work(self, reader: CaptureReader, target: Target) -> Done:
        """Process a part of a capture."""

    def finish(self, parts: Sequence[Done], target: Target, problem: CaptureError | None) -> Finished:
        """Combine the parts of a capture in order, and write the results."""

    def joined(self, states: Iterable[State]) -> State:
        """Return the state of a capture from the states of its parts."""


@functools.cache
def _compiled(text: str) -> Filter:
    from ecmproto.frames.filter import compile_filter

    return compile_filter(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filtered:
    """The common settings of all jobs: the text of a filter, and non-default EtherTypes by role."""

    merges: ClassVar[bool] = False
    of_all: ClassVar[Sequence[str]] = ()

    filter: str | None = None
    ethertypes: Mapping[str, int] = field(default_factory=dict)

    @property
    def fields_used(self) -> Sequence[str]:
        return () if self.filter is None else _compiled(self.filter).fields

    def frames_of(self, reader: CaptureReader) -> CaptureReader:
        """Return ``reader``, because the frames are processed unchanged."""
        return reader

    def results(self, name: str) -> Sequence[str]:
        """Return no paths, because the paths depend on the frames."""
        return ()

    def compiled(self) -> Filter | None:
        return None if self.filter is None else _compiled(self.filter)

    def types(self) -> EtherTypes:
        return EtherTypes(**self.ethertypes)

    def joined(self, states: Iterable[State]) -> State:
        """Return an empty state, because the results of all captures need no states."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfInnermost(_Filtered):
    """The base class for jobs that process innermost frames."""

    outer: bool = False
    """Whether the outer frames of mirror and tunnel encapsulations are processed."""

    def frames_of(self, reader: CaptureReader) -> CaptureReader:
        from ecmproto.frames.batch.inner import InnerReader

        return reader if self.outer else InnerReader(reader, ethertypes=self.types())

    def added(self, counts: Accumulator | Checker, reader: CaptureReader, target: Target) -> Done:
        """Add the frames of a part to ``counts``."""
        from ecmproto.frames.stats.accumulator import add_all

        count = Count()
        add_all(counts, reader, filter=self.compiled(), ethertypes=self.types(), watch=count.watched)
        # The interfaces of a capture without frames are recorded too.
        counts.add(Batch.from_frames([]), interfaces=reader.interfaces)
        return Done(count=count, read=counts.state, counted=counts if target.part is None else None)


# Statistics -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsJob(_OfInnermost):
    """`ecmproto stats` for each capture, and for all captures together."""

    kind: ClassVar[str] = "stats"
    merges: ClassVar[bool] = True
    of_all: ClassVar[Sequence[str]] = (ALL,)

    interval_ns: int | None = None
    speed_bps: int = 10 * 10**9
    detect_ns: int = 200_000_000
    restore_ns: int = 400_000_000
    lossless: Sequence[int] | None = None

    def results(self, name: str) -> Sequence[str]:
        """Return the path of the capture's document."""
        return (f"{DOCUMENTS}/{name}.json",)

    def counts(self) -> Accumulator:
        """Return an empty accumulator."""
        from ecmproto.frames.stats import Accumulator

        return Accumulator(
            interval_ns=self.interval_ns, speed_bps=self.speed_bps, detect_ns=self.detect_ns,
            restore_ns=self.restore_ns, lossless=self.lossless, ethertypes=self.types(),
        )  # fmt: skip

    def work(self, reader: CaptureReader, target: Target) -> Done:
        """Count the frames of a part."""
        counts = self.counts()
        done = self.added(counts, reader, target)
        done.count.selected = counts.frames
        return done

    def finish(self, parts: Sequence[Done], target: Target, problem: CaptureError | None) -> Finished:
        """Write the document that `ecmproto stats -T json` prints."""
        from ecmproto.frames.stats import Accumulator, document_text

        counts = parts[0].counted
        if not isinstance(counts, Accumulator):
            counts = self.together((part.read() for part in parts), other_captures=False)
        (result,) = self.results(target.name)
        text = document_text(counts.result(problem=problem), target.path)
        write_output(target.path_of(result), text, force=True)
        return Finished(outputs=(result,))

    def joined(self, states: Iterable[State]) -> State:
        """Return the counts of a capture from the counts of its parts."""
        return self.together(states, other_captures=False).state()

    def together(self, states: Iterable[State], *, other_captures: bool) -> Accumulator:
        """Return the combined counts of the parts of a capture, or of several captures, in order."""
        from ecmproto.frames.stats import Accumulator

        whole = self.counts()
        for state in states:
            whole.merge(Accumulator.of_state(state), other_interfaces=other_captures)
        return whole


# Checks ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJob(_OfInnermost):
    """`ecmproto check` for each capture, and the number of findings of each rule in all captures."""

    kind: ClassVar[str] = "check"
    of_all: ClassVar[Sequence[str]] = (ALL, FINDINGS)

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    own_rules: Sequence[str] = ()
    """The files with the user's rules. Each worker reads these files."""
    own_digests: Sequence[str] = ()
    """The digests of the files with the user's rules. Changed rules are therefore a different job."""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def results(self, name: str) -> Sequence[str]:
        """Return the path of the capture's findings."""
        return (f"{DOCUMENTS}/{name}.ndjson",)

    def checker(self) -> Checker:
        """Return an empty checker."""
        from ecmproto.tools.check.checker import Checker
        from ecmproto.tools.check.own import own_family
        from ecmproto.tools.check.registry import FAMILIES, chosen

        families = (*FAMILIES, *map(own_family, self.own_rules))
        rules = chosen(self.select, self.ignore, families)
        return Checker(rules, self.parameters, families=families, ethertypes=self.types())

    def work(self, reader: CaptureReader, target: Target) -> Done:
        """Check a part of a capture."""
        done = self.added(self.checker(), reader, target)
        done.count.selected = done.count.frames
        return done

    def finish(self, parts: Sequence[Done], target: Target, problem: CaptureError | None) -> Finished:
        """Write the lines that `ecmproto check -T ndjson` prints."""
        from ecmproto.tools.check.checker import Checker
        from ecmproto.tools.check.documents import json_lines

        whole = parts[0].counted
        if not isinstance(whole, Checker):
            whole = self.checker()
            for part in parts:
                later = self.checker()
                later.restore(part.read())
                whole.merge(later)
        checked = whole.result(problem=problem)
        (result,) = self.results(target.name)
        lines = "".join(f"{line}\n" for line in json_lines(checked, target.path))
        write_output(target.path_of(result), lines, force=True)
        findings = {each.rule.id: (each.judged, each.wrong) for each in checked.results if each.judged}
        return Finished(outputs=(result,), findings=findings)


# Parquet --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetJob(_Filtered):
    """The columns of each capture as Parquet files with Hive partitions."""

    kind: ClassVar[str] = "parquet"

    fields: Sequence[str] = USUAL_FIELDS
    """The columns of the Parquet files, which are the same for all captures."""
    repeated: Repeated = "list"
    addresses: Addresses = "text"

    @property
    def fields_used(self) -> Sequence[str]:
        """The columns, and the fields of the filter."""
        return (*self.fields, *(() if self.filter is None else _compiled(self.filter).fields))

    def work(self, reader: CaptureReader, target: Target) -> Done:
        """Write a Parquet file, unless no frame is selected."""
        from ecmproto.frames.columns.arrow import schema_of
        from ecmproto.frames.columns.files import column_batches, write_batches

        types, count = self.types(), Count()
        schema = schema_of(self.fields, repeated=self.repeated, addresses=self.addresses, ethertypes=types)
        columns = column_batches(
            reader, self.fields, filter=self.compiled(), ethertypes=types, threads=1, watch=count.watched
        )
        filled = (each for each in columns if each.frames)
        first = next(filled, None)
        if first is None:
            return Done(count=count)
        result = f"{FRAMES}/{partition_folder(target.partition)}/{_file_of(target)}"
        with open_sink(target.path_of(result), force=True, whole=True) as sink:
            every = itertools.chain([first], filled)
            count.selected = write_batches(every, schema, sink, "parquet", threads=1)
        return Done(count=count, outputs=(result,))

    def finish(self, parts: Sequence[Done], target: Target, problem: CaptureError | None) -> Finished:
        """Return the files of the parts, which need no combination."""
        return Finished(outputs=tuple(output for part in parts for output in part.outputs))


def _file_of(target: Target) -> str:
    """Return the name of a Parquet file, with the capture name, a hash for uniqueness, and the part."""
    part = "" if target.part is None else f"-{target.part:012}"
    return f"{Path(target.name).name}-{_digits(target.name)}{part}.parquet"


def _digits(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:8]


# Filtered copies ------------------------------------------------------------------------------------------


_COPIED_OCTETS = 1 << 20
_OWN = (MANIFEST, DONE, f"{PIECES}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterJob(_Filtered):
    """A copy of each capture, under the same name, with the frames that the filter selects."""

    kind: ClassVar[str] = "filter"
    of_all: ClassVar[Sequence[str]] = (ALL_COPIES,)

    def results(self, name: str) -> Sequence[str]:
        """Return the path of the capture's copy.

        Raises SpecError for a name that the fleet uses for another file.
        """
        if name.startswith(_OWN):
            raise SpecError(
                where=name, needed="a name that the fleet does not use itself", got="one of its own"
            )
        return (name,)

    def work(self, reader: CaptureReader, target: Target) -> Done:
        """Copy the selected frames of a part. A whole capture without selected frames has no file."""
        from ecmproto.frames.columns.selection import selected

        count, compiled, types = Count(), self.compiled(), self.types()
        (result,) = self.results(target.name)
        if target.part is not None:
            result = f"{PIECES}/{_digits(target.name)}-{target.part:012}"
        path = target.path_of(result)
        head = 0
        with CaptureCopier(reader, path, format=reader.format, force=True) as copier:
            if target.part:
                # Each part repeats the blocks of the first part. Joining removes these blocks.
                blocks = getattr(reader, "begun", ())
                head = sum(len(block.octets) for block in blocks) if reader.header is None else HEADER_OCTETS
                for block in blocks:
                    copier.write(block)
            for item in reader.items():
                if isinstance(item, Batch):
                    count.add(item)
                    if compiled is not None:
                        mask = selected(item, compiled, interfaces=reader.interfaces, ethertypes=types)
                        item = item.select(mask)
                    count.selected += len(item)
                copier.write(item)
        if target.part is None and not count.selected:
            path.unlink()
            return Done(count=count)
        return Done(count=count, read=lambda: {"head_octets": head}, outputs=(result,))

    def finish(self, parts: Sequence[Done], target: Target, problem: CaptureError | None) -> Finished:
        """Concatenate the copies of the parts."""
        outputs = [output for part in parts for output in part.outputs]
        if outputs in ([], [target.name]):
            return Finished(outputs=tuple(outputs))
        pieces = [target.path_of(f"{PIECES}/{PurePosixPath(output).name}") for output in outputs]
        result: tuple[str, ...] = ()
        if any(part.count.selected for part in parts):
            result = (target.name,)
            with open_sink(target.path_of(target.name), force=True) as sink:
                for part, piece in zip(parts, pieces, strict=True):
                    with piece.open("rb") as file:
                        file.seek(part.read()["head_octets"])
                        while octets := file.read(_COPIED_OCTETS):
                            sink.write(octets)
        for piece in pieces:
            piece.unlink()
        with suppress(OSError):  # it contains other files
            (target.folder / PIECES).rmdir()
        return Finished(outputs=result)


JOBS: Mapping[str, type[StatsJob | CheckJob | ParquetJob | FilterJob]] = {
    job.kind: job for job in (StatsJob, CheckJob, ParquetJob, FilterJob)
}


def packed(state: State) -> bytes:
    """Return a state as encoded JSON, so that the state is not parsed when the row is read."""
    return json.dumps(state, default=_as_text, allow_nan=False).encode()


def unpacked(octets: bytes) -> State:
    """Return the state that `packed` encoded."""
    state: State = json.loads(octets, object_hook=_as_octets)
    return state


_OCTETS = "!octets"


def _as_text(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {_OCTETS: base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} cannot be part of a state: expected plain data or octets")


def _as_octets(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_OCTETS]) if _OCTETS in value else value


def settings_of(job: Job) -> dict[str, Any]:
    """Return the settings of a job as plain data."""
    return dataclasses.asdict(cast("Any", job))


def job_of(kind: str, settings: Mapping[str, Any]) -> Job:
    """Return a job with the given type and settings."""
    return JOBS[kind](**settings)
