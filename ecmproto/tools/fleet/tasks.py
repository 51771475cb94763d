"""The tasks of a worker: counting the frames of a part, processing a part, and combining parts.

Tasks and rows are plain data, so that any executor can transport the tasks and rows. A row contains the
digest of the processed octets. A worker compares the digest of new octets with the digests of earlier rows,
and skips octets that were already processed.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from ecmproto.errors import CaptureError, SpecError
from ecmproto.executors.rows import octets_at
from ecmproto.frames.capture import CaptureCopier, CaptureReader, open_capture, open_captures
from ecmproto.frames.capture.names import is_remote, name_shown, size_and_time
from ecmproto.frames.capture.parts import Part, PartReader, open_part, read_through
from ecmproto.frames.capture.reader import BATCH_FRAMES, unreadable
from ecmproto.frames.capture.writer import write_output
from ecmproto.paths import make_folder, path_below
from ecmproto.tools.fleet.jobs import (
    ALL,
    Count,
    Done,
    Finished,
    State,
    StatsJob,
    Target,
    job_of,
    packed,
    unpacked,
)
from ecmproto.tools.fleet.names import DATE, day_of

Row = dict[str, Any]

COUNT, WORK, FINISH, MERGE, TOGETHER, COPY = (
    f"{__name__}:{name}" for name in ("count", "work", "finish", "merge", "together", "copy_merged")
)
"""Import paths of the functions for executors."""
_MERGED_FRAMES = 4096
"""The number of frames of each capture that are in memory during merging."""

_FREE_OCTETS, _MAX_RATIO = 1 << 30, 200
"""The uncompressed size in octets that is always permitted, and the maximum ratio for larger captures."""
_READ_OCTETS = 1 << 20
_OVERLAP_OCTETS = 1 << 20
"""The number of octets after the end of a part that the digest includes, for the last record."""
_FIRST_FRAMES = 64
"""The number of frames that are searched for the first time of a capture."""


class ProblemRow(TypedDict):
    """A `CaptureError` as plain data."""

    path: str
    offset: int
    frame: int
    needed: str
    got: str


class ReachedRow(TypedDict):
    """A `Reached` as plain data."""

    offset: int
    described: bytes | None
    frames: int
    first_ns: int | None
    last_ns: int | None
    warnings: Sequence[str]
    problem: ProblemRow | None


class _WorkRow(TypedDict, total=False):
    reached: ReachedRow | None
    parts: int


class WorkRow(_WorkRow):
    """The row of a capture or part."""

    digest: str
    place: str
    content: str
    partition: Mapping[str, str | None]
    count: Count
    problem: ProblemRow | None
    warnings: Sequence[str]
    state: Mapping[str, str]
    outputs: Sequence[str]
    findings: Mapping[str, tuple[int, int]] | None
    seconds: float


class SameRow(TypedDict):
    """The row of a capture or part whose result is in another row."""

    digest: str
    same_as: str
    content: str


def count(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Return the number of frames, the times and the end of a part."""
    try:
        return {"reached": read_through(Part.of_dict(data["part"])).as_dict()}
    except CaptureError as error:
        return {"unreadable": error.as_dict()}


def work(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Process a part of a capture or the whole capture, and return the row with the state.

    An unreadable capture also has a row. The row refers to another row with ``same_as`` if an earlier run
    processed the same octets.
    """
    begun_s = time.perf_counter()
    job = job_of(options["kind"], options["settings"])
    part = None if data["part"] is None else Part.of_dict(data["part"])
    try:
        content = content_digest(data["path"], part)
        if content in data["known"]:
            return {"same_as": data["known"][content], "content": content}
        target = _target(data, options, part)
        with _open_whole(data["path"]) if part is None else open_part(part) as reader:
            frames = job.frames_of(reader)
            done = job.work(frames, target)
            problem, warnings = reader.problem, list(reader.warnings)
            reached = reader.reached if isinstance(reader, PartReader) else None
            if unwrapped := getattr(frames, "summary", ""):
                warnings.append(unwrapped)
                # Sessions are numbered in order of appearance, and lost frames are counted across parts.
                # Therefore the capture is processed as a whole.
                reached = reached and dataclasses.replace(
                    reached, described=None, warnings=(*reached.warnings, unwrapped)
                )
            if reached is not None and reached.offset > _digested_to(data["path"], part):
                content = ""  # some octets were not digested
    except CaptureError as error:
        return {"unreadable": error.as_dict()}
    finished = Finished(outputs=done.outputs)
    if part is None:
        finished = job.finish([done], target, problem)
    return {
        "place": data["place"], "content": content, "partition": target.partition,
        "count": done.count.as_dict(),
        "problem": None if problem is None else problem.as_dict(), "warnings": warnings,
        "reached": None if reached is None else reached.as_dict(),
        "state": packed(done.read()) if part is not None or job.merges else b"",
        **_finished_row(finished), "seconds": time.perf_counter() - begun_s,
    }  # fmt: skip


def finish(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Combine the parts of a capture, and return the row that processing the whole capture would return."""
    job = job_of(options["kind"], options["settings"])
    target = Target(
        folder=Path(options["folder"]), name=data["name"], path=name_shown(data["path"]),
        partition=data["row"]["partition"],
    )  # fmt: skip
    parts = [
        Done(
            count=Count(**part["count"]), read=functools.partial(_state_at, part["state"]),
            outputs=tuple(part["outputs"]),
        )
        for part in data["parts"]
    ]  # fmt: skip
    problem = data["row"]["problem"]
    finished = job.finish(parts, target, None if problem is None else CaptureError(**problem))
    state = packed(job.joined(part.read() for part in parts)) if job.merges else b""
    return {**data["row"], "state": state, **_finished_row(finished)}


def _state_at(position: Sequence[str]) -> State:
    octets = octets_at(position)
    try:
        return unpacked(octets)
    except (ValueError, TypeError, RecursionError) as error:
        raise SpecError(where=position[0], needed="a state in JSON", got=str(error)) from None


def merge(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Return the combined state of several captures."""
    job = StatsJob(**options["settings"])
    counts = job.together(map(_state_at, data["states"]), other_captures=True)
    return {"state": packed(counts.state())}


def together(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Write the statistics of all captures together, from the states of the captures in order."""
    from ecmproto.frames.stats import document_text

    job = StatsJob(**options["settings"])
    counts = job.together(map(_state_at, data["states"]), other_captures=True)
    text = document_text(counts.result(), f"{data['captures']} captures")
    write_output(Path(options["folder"]) / ALL, text, force=True)
    return {}


def copy_merged(data: Mapping[str, Any], options: Mapping[str, Any]) -> Row:
    """Merge copies of several captures into one capture, in order of time."""
    folder = Path(options["folder"])
    path = path_below(folder, data["output"])
    make_folder(path.parent)
    names = [path_below(folder, copy) for copy in data["copies"]]
    with (
        open_captures(names, batch_frames=_MERGED_FRAMES, order="time") as reader,
        CaptureCopier(reader, path, format="pcapng", force=True) as copier,
    ):
        for item in reader.items():
            copier.write(item)
        if reader.problem is not None:
            raise reader.problem
    return {"outputs": [data["output"]]}


def _open_whole(path: str, batch_frames: int = BATCH_FRAMES) -> CaptureReader:
    """Open a capture. Reading stops early if the uncompressed size exceeds a limit, to protect the fleet."""
    try:
        octets, _ = size_and_time(path)
    except OSError as error:
        raise unreadable(name_shown(path), error) from error
    limit = max(_FREE_OCTETS, _MAX_RATIO * octets)
    return open_capture(path, most_octets=limit, batch_frames=batch_frames)


def _finished_row(finished: Finished) -> Row:
    return {"outputs": list(finished.outputs), "findings": finished.findings}


def _target(data: Mapping[str, Any], options: Mapping[str, Any], part: Part | None) -> Target:
    partition = dict(data["partition"])
    if partition[DATE] is None:
        with _open_whole(data["path"], batch_frames=_FIRST_FRAMES) as reader:
            partition[DATE] = _first_day(reader)
    return Target(
        folder=Path(options["folder"]), name=data["name"], path=name_shown(data["path"]), partition=partition,
        part=None if part is None else part.start,
    )  # fmt: skip


def _first_day(reader: CaptureReader) -> str | None:
    """Return the day of the first frame with a time in the first batch, or ``None``."""
    seen = Count()
    for batch in reader:
        seen.add(batch)
        break
    return None if seen.begun_ns is None else day_of(seen.begun_ns)


def content_digest(path: str, part: Part | None) -> str:
    """Return the SHA-256 digest of a file or of a part. Raises CaptureError if the file cannot be read.

    A URL is not read. The digest of a URL includes the size and the version mark of the server instead of the
    octets.
    """
    whole = hashlib.sha256()
    try:
        if is_remote(path):
            size, mark = size_and_time(path)
            return f"server:{size}-{mark}"
        with open(path, "rb", buffering=0) as file:
            start = 0 if part is None else part.start
            left = _digested_to(path, part) - start
            file.seek(start)
            view = memoryview(bytearray(_READ_OCTETS))
            while size := file.readinto(view[: min(left, _READ_OCTETS)]):
                whole.update(view[:size])
                left -= size
    except OSError as error:
        raise unreadable(name_shown(path), error) from error
    return whole.hexdigest()


def _digested_to(path: str, part: Part | None) -> int:
    size, _ = size_and_time(path)
    return size if part is None or part.stop is None else min(size, part.stop + _OVERLAP_OCTETS)
