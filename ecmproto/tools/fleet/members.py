"""The captures of a fleet, which are the captures of this run and the captures of earlier runs."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecmproto.errors import OutputError, OutputExistsError, ParameterError, SpecError
from ecmproto.frames.capture.names import name_shown, size_and_time
from ecmproto.frames.capture.parts import Part
from ecmproto.frames.capture.reader import unreadable
from ecmproto.tools.fleet.jobs import Job, settings_of
from ecmproto.tools.fleet.manifest import FILE, ManifestLine, Outcome, read_manifest
from ecmproto.tools.fleet.names import DATE, NamePattern, common_folder, result_name


@dataclass(slots=True, kw_only=True)
class Member:
    """A capture of a fleet."""

    path: str
    name: str
    """The name of the capture's results."""
    partition: Mapping[str, str | None]
    """Values from the capture's name. The day may be unknown."""
    size_octets: int = 0
    modified_ns: int = 0
    parts: Sequence[Part] = ()
    """The estimated positions of the capture's parts. If empty, the capture is processed as a whole."""
    trouble: tuple[Outcome, str] | None = None
    """The outcome and the error if the capture has no results."""
    earlier: ManifestLine | None = None
    """The manifest line of a capture that only an earlier run named. Such a capture is not read again."""

    @property
    def mark(self) -> list[int]:
        """The size and the modification time, which change if the capture changes."""
        return [self.size_octets, self.modified_ns]

    def line(self) -> ManifestLine:
        """Return a manifest line without results."""
        outcome, problem = self.trouble or ("set aside", f"{name_shown(self.path)}: not done")
        if self.earlier is not None:
            return dataclasses.replace(self.earlier, outcome=outcome, problem=problem)
        return ManifestLine(
            path=name_shown(self.path), name=self.name, size_octets=self.size_octets,
            modified_ns=self.modified_ns, digest=None, parts=max(1, len(self.parts)),
            outcome=outcome, problem=problem, frames=0,
            selected=0, first_ns=None, last_ns=None, partition=self.partition, outputs=(), findings=None,
            warnings=(), seconds=0.0,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The captures of a fleet, sorted by name, and their common folder."""

    base: str
    request: Mapping[str, Any]
    """The request that determines the results, as JSON data."""
    members: Sequence[Member]
    earlier: Mapping[str, Sequence[str]]
    """The results in the existing manifest, by capture name."""


def roster(
    paths: Sequence[str], folder: Path, job: Job, pattern: NamePattern | None = None, *, force: bool = False
) -> Roster:
    """Return the captures in ``paths``, and the captures in the manifest of ``folder``.

    Raises OutputExistsError if the folder contains results of another job and ``force`` is false. Raises
    OutputError if a result would replace a capture, or a file that does not belong to the fleet.
    """
    requested = request_of(job, pattern)
    lines: dict[str, ManifestLine] = {}
    base: str | None = None
    if os.path.lexists(folder / FILE):
        before, manifest_lines = read_manifest(folder)
        if before["asked"] == requested:
            base = before["base"]
            lines = {line.path: line for line in manifest_lines}
        elif not force:
            raise OutputExistsError(
                path=str(folder),
                needed="a new folder, or one with the same job's results",
                got="results of another job",
            )
    base = common_folder(paths) if base is None else base
    members: dict[str, Member] = {}
    for path in paths:
        name = lines[name_shown(path)].name if name_shown(path) in lines else result_name(path, base)
        other = members.get(name)
        if other is not None:
            raise ParameterError(
                name="captures", needed="a different name for each", got=f"{name} of {other.path} and {path}"
            )
        members[name] = _member(path, name, pattern)
    _check_results(folder, job, members.values(), requested)
    for line in lines.values():
        if line.name not in members and line.digest is not None:
            members[line.name] = _gone(line, pattern)
    ordered = sorted(members.values(), key=lambda member: member.name)
    return Roster(
        base=base,
        request=requested,
        members=ordered,
        earlier={line.name: line.outputs for line in lines.values()},
    )


def request_of(job: Job, pattern: NamePattern | None) -> dict[str, Any]:
    """Return the request that determines the results, as JSON data."""
    requested = {
        "job": job.kind, "settings": settings_of(job),
        "name_pattern": None if pattern is None else pattern.text,
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(requested))
    return plain


def _partition(path: str, pattern: NamePattern | None) -> dict[str, str | None]:
    partition: dict[str, str | None] = {DATE: None}
    if pattern is not None:
        partition |= dict.fromkeys(pattern.names) | (pattern.values(path) or {})
    return partition


def _member(path: str, name: str, pattern: NamePattern | None) -> Member:
    member = Member(path=path, name=name, partition=_partition(path, pattern))
    try:
        member.size_octets, member.modified_ns = size_and_time(path)
    except OSError as error:
        member.trouble = "unreadable", str(unreadable(name_shown(path), error))
    return member


def results_of(job: Job, name: str) -> Sequence[str]:
    """Return the result paths that are known before reading the capture, or none for an invalid name."""
    with suppress(SpecError):
        return job.results(name)
    return ()


def _own_results(folder: Path, job: Job, request: Mapping[str, Any]) -> set[str]:
    """Return the files that the manifest of a folder lists."""
    if not os.path.lexists(folder / FILE):
        return set()
    before, lines = read_manifest(folder)
    own = set(job.of_all)
    for line in lines:
        own.update(line.outputs, results_of(job, line.name) if before["asked"] == request else ())
    return own


def _check_results(folder: Path, job: Job, members: Iterable[Member], request: Mapping[str, Any]) -> None:
    """Raise OutputError if results would replace captures, or files that are not in the manifest."""
    own: set[str] | None = None
    captures = {}
    for member in members:
        with suppress(OSError):
            captures[_identity(member.path)] = member.path
    for result in (*job.of_all, *(result for member in members for result in results_of(job, member.name))):
        with suppress(OSError):
            path = folder / result
            capture = captures.get(_identity(path))
            if capture is not None:
                got = f"the path of the capture {name_shown(capture)}"
                raise OutputError(path=str(path), needed="a path of its own for a result", got=got)
            if own is None:  # as late as possible, because another shard may have started
                own = _own_results(folder, job, request)
            if result not in own:
                got = "a file that does not belong to the fleet"
                raise OutputError(path=str(path), needed="a free path for a result", got=got)


def _identity(path: str | Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _gone(line: ManifestLine, pattern: NamePattern | None) -> Member:
    """Return a capture that is only in the manifest, with its earlier results; do not open it."""
    member = Member(
        path=line.path, name=line.name, partition=_partition(line.path, pattern),
        size_octets=line.size_octets, modified_ns=line.modified_ns, earlier=line,
    )  # fmt: skip
    if line.parts > 1:
        member.parts = (Part(path=line.path),)  # marks that parts exist
    return member
