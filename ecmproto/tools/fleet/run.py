"""A run over a fleet of captures.

An executor runs the missing tasks, and the run stores and combines the results.

The folder contains the results of each capture, the results of all captures together, the manifest, and the
rows of finished tasks (`DONE`). With these rows, a stopped run can continue. A changed capture is processed
again. Memory contains a line for each capture and part. The states are loaded one by one from the rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ecmproto.errors import CaptureError, OutputError, ParameterError
from ecmproto.executors.checked import checked
from ecmproto.executors.processes import Processes
from ecmproto.executors.protocol import Call, Executor, Shard, Task, TaskResult
from ecmproto.executors.rows import RowStore
from ecmproto.executors.running import Tally, task_key
from ecmproto.frames.capture import open_sink
from ecmproto.frames.capture.names import name_shown
from ecmproto.frames.capture.parts import Extent, Links, Part, Reached, linked, split_capture
from ecmproto.frames.capture.writer import write_output
from ecmproto.frames.filter.fields import DISPLAYED, IN_SEQUENCE
from ecmproto.paths import make_folder, path_below
from ecmproto.tools.fleet.jobs import (
    ALL,
    ALL_COPIES,
    DONE,
    FINDINGS,
    FRAMES,
    PIECES,
    CheckJob,
    Count,
    FilterJob,
    Job,
    StatsJob,
    settings_of,
)
from ecmproto.tools.fleet.manifest import FILE, ManifestLine, read_manifest, write_manifest
from ecmproto.tools.fleet.members import Member, Roster, results_of
from ecmproto.tools.fleet.names import DATE
from ecmproto.tools.fleet.tasks import (
    COPY,
    COUNT,
    FINISH,
    MERGE,
    TOGETHER,
    WORK,
    ReachedRow,
    Row,
    SameRow,
    WorkRow,
)
from ecmproto.wire.codec.document import json_text

CHECK_SCHEMA = "ecmproto/fleet-check/1"
PART_OCTETS = 256_000_000
"""The size of a part of a capture, in octets."""
_OF_OUTPUT = ("OutputError", "MissingDependencyError")
"""Failures that would also occur for every other capture."""
_BRANCHES = 32
"""The number of captures whose states a task merges."""
_MERGED_COPIES = 16
"""The number of copies that a task merges."""
_PARTIAL = re.compile(r"(.+?)\.\d+(?:-\d+)?\.partial", re.DOTALL)
_OWN_FOLDERS = (f"{PIECES}/", f"{FRAMES}/{DATE}=")
_MAX_LOCAL = 16
"""The maximum number of captures that this process combines. For more captures, workers are started."""


class FinishedRows:
    """The rows of finished tasks in the fleet's folder, from this run or shard and from all others."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        which = f"-{shard.number}-of-{shard.count}" if shard.count > 1 else ""
        own = folder / f"{DONE}{which}.ndjson"
        self._own = RowStore(own)
        self._others = [RowStore(path) for path in sorted(folder.glob(f"{DONE}*.ndjson")) if path != own]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(*self._others, self._own)

    def described(self, key: str) -> Row | None:
        """Return the JSON data of a row, or ``None`` if the row is missing."""
        store = self._store(key)
        return None if store is None else store.described(key)

    def state_of(self, key: str) -> list[str]:
        """Return the position of the state in an existing row."""
        store = self._store(key)
        assert store is not None
        return store.position_of(key, "state")

    def _store(self, key: str) -> RowStore | None:
        return next((store for store in (self._own, *self._others) if key in store), None)

    def add(self, result: TaskResult) -> None:
        """Store the row of a finished task."""
        self._own.add(result.task.key, result.packed)

    def close(self) -> None:
        """Write all rows to the disk."""
        self._own.close()


@dataclass(slots=True, kw_only=True)
class Summary:
    """The summary of a fleet."""

    captures: int = 0
    known: int = 0
    """The number of captures that earlier runs finished."""
    outcomes: dict[str, int] = field(default_factory=dict)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    """The outcomes and errors of captures that were not read to their end."""
    warned: int = 0
    """The number of captures with warnings. The line on unwrapped frames is also a warning."""
    frames: int = 0
    selected: int = 0
    octets: int = 0
    outputs: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    findings: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """The numbers of judgements, of findings, and of captures with findings, by rule."""

    def take(self, line: ManifestLine) -> None:
        """Add a capture."""
        self.captures += 1
        self.outcomes[line.outcome] = self.outcomes.get(line.outcome, 0) + 1
        if line.problem is not None:
            self.troubles.append((line.outcome, line.problem))
        self.warned += bool(line.warnings)
        self.frames += line.frames
        self.selected += line.selected
        self.octets += line.size_octets
        self.outputs += len(line.outputs)
        if line.first_ns is not None and line.last_ns is not None:
            self.first_ns = line.first_ns if self.first_ns is None else min(self.first_ns, line.first_ns)
            self.last_ns = line.last_ns if self.last_ns is None else max(self.last_ns, line.last_ns)
        for rule, (judged, wrong) in (line.findings or {}).items():
            before = self.findings.get(rule, (0, 0, 0))
            self.findings[rule] = before[0] + judged, before[1] + wrong, before[2] + (wrong > 0)


@dataclass(slots=True, kw_only=True)
class Plan:
    """The remaining work. The number of parts is estimated from the sizes of the captures."""

    captures: int = 0
    octets: int = 0
    known: int = 0
    missing: int = 0
    missing_octets: int = 0
    parts: int = 0


class FleetRun:
    """A run of a job for the captures of a fleet, in a folder.

    ``part_octets`` is the size of the parts of a capture, and 0 means that captures are not split. ``shard``
    selects the captures of this run. ``merge`` also merges the copies of a filter job. The copies are also
    merged if an earlier run merged the copies. ``tally`` counts the progress, and ``notify`` is called with
    the tally. Raises ParameterError if the copy of a capture has the name of the merged copy.
    """

    def __init__(
        self,
        job: Job,
        roster: Roster,
        folder: Path,
        *,
        executor: Executor,
        part_octets: int = PART_OCTETS,
        shard: Shard | None = None,
        merge: bool = False,
        tally: Tally | None = None,
        notify: Callable[[Tally], None] = lambda tally: None,
    ) -> None:
        which = Shard() if shard is None else shard
        self.job = job
        self.members: Sequence[Member] = which.of(roster.members)
        self._is_all = which.count == 1
        self._states: list[str] = []
        self.known: int = 0
        """The number of captures that earlier runs finished, set by `run`."""
        self._folder = folder
        self._executor = executor
        self._part_octets = part_octets
        self._tally = Tally() if tally is None else tally
        self._notify = notify
        self._roster = roster
        self._stored = FinishedRows(folder, which)
        options = {"kind": job.kind, "settings": settings_of(job), "folder": str(folder.absolute())}
        self._work, self._merge, self._finish, self._all, self._copy = (
            Call(function, options, outside=("folder",)) for function in (WORK, MERGE, FINISH, TOGETHER, COPY)
        )
        self._count = Call(COUNT)
        is_in_use = any(member.name == ALL_COPIES for member in roster.members)
        if merge and is_in_use:
            raise ParameterError(name="merged copies", needed=f"no capture called {ALL_COPIES}", got="one")
        self._is_merged = merge or (not is_in_use and (folder / ALL_COPIES).exists())
        self._numbers = not set(IN_SEQUENCE).isdisjoint(job.fields_used)
        self._is_sequential = DISPLAYED in job.fields_used

    # Finished work ------------------------------------------------------------------------------------

    def _identity(self, member: Member, part: Part | None) -> list[Any]:
        """Return the identity of a capture or part, which does not depend on the contents."""
        numbered = part if part is None or self._numbers else dataclasses.replace(
            part, before=None, first_ns=None, before_ns=None, octets=0
        )  # fmt: skip
        return [member.path, member.name, member.partition, None if numbered is None else numbered.as_dict()]

    def _work_key(self, member: Member, part: Part | None) -> str:
        return task_key(self._work, self._identity(member, part), member.mark)

    def _count_key(self, member: Member, part: Part) -> str:
        start, stop, described = part.place
        return task_key(self._count, member.path, member.mark, start, stop, described)

    def _whole_key(self, member: Member) -> str:
        """Return the key of the row with the result of the whole capture."""
        if not member.parts:
            return self._work_key(member, None)
        return task_key(self._finish, self._identity(member, None), member.mark, self._part_octets)

    def _row(self, key: str) -> Row | None:
        """Return the row of a capture or part without arrays, or ``None`` if the row is missing."""
        row = self._stored.described(self._done_as(key))
        return None if row is None else cast("Row", checked(row, WorkRow, f"{self._folder}, row {key}"))

    def _done_as(self, key: str) -> str:
        """Return the key of the row that contains the result. A row may refer to an equal row."""
        row = self._stored.described(key)
        if row is None or "same_as" not in row:
            return key
        same: str = checked(row, SameRow, f"{self._folder}, row {key}")["same_as"]
        return same

    def _state_of(self, key: str) -> list[str]:
        return self._stored.state_of(self._done_as(key))

    def _exist(self, outputs: Iterable[str]) -> bool:
        return all(path_below(self._folder, output).exists() for output in outputs)

    def _is_done(self, key: str) -> bool:
        row = self._row(key)
        return row is not None and self._exist(row["outputs"])

    def _links(self, member: Member, key_of: Callable[[Member, Part], str]) -> Links:
        """Return the finished parts and the missing parts of a capture."""
        reached: dict[Extent, Reached] = {}
        while True:
            links = linked(member.parts, reached)
            new: dict[Extent, Reached] = {}
            for part in links.missing:
                key = key_of(member, part)
                row = self._stored.described(self._done_as(key))
                if row is not None:
                    reached_row = checked(row.get("reached"), ReachedRow, f"{self._folder}, row {key}")
                    new[part.place] = Reached.of_dict(reached_row)
            if not new:
                return links
            reached |= new

    def plan(self) -> Plan:
        """Return the remaining work."""
        plan = Plan()
        for member in self.members:
            plan.captures += 1
            plan.octets += member.size_octets
            large = self._is_large(member)
            if large and member.earlier is None:
                member.parts = (Part(path=member.path),)  # marks that parts exist
            if member.trouble is None and self._is_done(self._whole_key(member)):
                plan.known += 1
                continue
            if member.earlier is not None:
                continue
            plan.missing += 1
            plan.missing_octets += member.size_octets
            plan.parts += -(-member.size_octets // self._part_octets) if large else 1
        return plan

    # Running tasks ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the missing tasks. Finished tasks are stored, even if the run is interrupted."""
        self._tally.unit, self._tally.amount_of = "frames", _frames
        make_folder(self._folder)
        self._begin()
        try:
            with self._executor:
                self._split_large()
                self._do_parts()
                self._combine_parts()
                if isinstance(self.job, StatsJob) and self._is_all:
                    self._merge_states()
                    self._combine_all()
                if isinstance(self.job, FilterJob) and self._is_all and self._is_merged:
                    self._merge_copies()
        finally:
            self._stored.close()

    def _begin(self) -> None:
        """Add all captures to the manifest, so that results belong to the fleet after a power failure."""
        roster = self._roster
        new = [member.line() for member in roster.members if member.name not in roster.earlier]
        if new or not (self._folder / FILE).exists():
            before = read_manifest(self._folder)[1] if roster.earlier else ()
            write_manifest(self._folder, roster.base, roster.request, itertools.chain(before, new))

    def _do(
        self,
        call: Call,
        tasks: Iterable[Task],
        count: int,
        take: Callable[[TaskResult], None],
        *,
        local: bool = False,
        store: bool = True,
    ) -> None:
        """Run ``count`` tasks, and call ``take`` with each result. ``store`` stores the rows."""
        if not count:
            return
        executor: Executor = Processes(1) if local else self._executor
        self._tally.total += count
        with closing(executor.run(tasks, call, expected=count)) as results:
            for result in results:
                self._tally.take(result)
                self._tally.workers = executor.workers
                self._notify(self._tally)
                if result.failure is not None and result.failure.error in _OF_OUTPUT:
                    raise OutputError(
                        path=str(self._folder), needed="space for results", got=result.failure.sentence
                    )
                if store and result.failure is None and "unreadable" not in result.row:
                    self._stored.add(result)
                take(result)

    def _is_large(self, member: Member) -> bool:
        return bool(self._part_octets) and member.size_octets > self._part_octets

    def _split_large(self) -> None:
        """Find the parts of large captures.

        Errors in a capture are ignored here, and reported when the capture is read.
        """
        for member in self.members:
            is_read = member.trouble is None and member.earlier is None
            if is_read and self._is_large(member) and not self._is_sequential:
                with suppress(CaptureError):
                    parts = split_capture(member.path, self._part_octets)
                    member.parts = parts if len(parts) > 1 else ()

    def _do_parts(self) -> None:
        """Process the missing captures and parts, and repeat parts if the estimated position was wrong."""
        earlier = self._earlier()
        left = []
        for member in self.members:
            if member.trouble is None and self._is_done(self._whole_key(member)):
                self.known += 1
            elif member.earlier is not None:
                got = "no row of this version; name the capture to process it again"
                member.trouble = "set aside", f"{name_shown(member.path)}: expected a finished row, got {got}"
            elif member.trouble is None:
                left.append(member)
        if self._numbers:
            self._do_rounds(self._count, [member for member in left if member.parts], self._counting)
        self._do_rounds(self._work, left, lambda member: self._working(member, earlier))

    def _do_rounds(
        self, call: Call, members: Sequence[Member], tasks_of: Callable[[Member], Iterable[Task]]
    ) -> None:
        """Run the tasks of captures until no task remains. The tasks are created on demand."""
        while members:
            of: dict[str, Member] = {}
            done = 0

            def tasks(members: Sequence[Member] = members, of: dict[str, Member] = of) -> Iterator[Task]:
                for member in members:
                    for task in tasks_of(member) if member.trouble is None else ():
                        of[task.key] = member
                        yield task

            def take(result: TaskResult, of: dict[str, Member] = of) -> None:
                nonlocal done
                done += 1
                self._record_trouble(of.pop(result.task.key), result)

            self._do(call, tasks(), sum(max(1, len(member.parts)) for member in members), take)
            self._tally.total = self._tally.finished
            members = [member for member in members if member.parts] if done else []

    def _record_trouble(self, member: Member, result: TaskResult) -> None:
        if result.failure is not None:
            member.trouble = "set aside", f"{result.task.name}: {result.failure.sentence}"
        elif "unreadable" in result.row:
            member.trouble = "unreadable", str(CaptureError(**result.row["unreadable"]))
        elif not self._exist(result.row.get("outputs", ())):
            got = f"{result.worker}, which has another folder"
            problem = f"{name_shown(member.path)}: expected a worker that has {self._folder}, got {got}"
            member.trouble = "set aside", problem

    def _counting(self, member: Member) -> list[Task]:
        """Return the tasks that determine the reader state before each part."""
        missing = self._links(member, self._count_key).missing
        return [
            Task(
                key=self._count_key(member, part), data={"part": part.as_dict()},
                name=_task_name(member, part), size=max(1, part.octets),
            )
            for part in missing
        ]  # fmt: skip

    def _parts(self, member: Member) -> Sequence[Part]:
        """Return the parts of a capture whose positions are verified."""
        links = self._links(member, self._count_key if self._numbers else self._work_key)
        return [part for part, _ in links.parts]

    def _working(self, member: Member, earlier: Mapping[str, tuple[str, str]]) -> list[Task]:
        """Return the unfinished tasks of a capture."""
        parts: Sequence[Part | None] = (None,)
        if member.parts and self._numbers:
            parts = [part for part in self._parts(member) if not self._is_done(self._work_key(member, part))]
        elif member.parts:
            links = self._links(member, self._work_key)
            redone = [part for part, _ in links.parts if not self._is_done(self._work_key(member, part))]
            parts = [*redone, *links.missing]
        return [self._working_on(member, part, earlier) for part in parts]

    def _working_on(self, member: Member, part: Part | None, earlier: Mapping[str, tuple[str, str]]) -> Task:
        key = self._work_key(member, part)
        identity = task_key(self._work, self._identity(member, part))
        same = {}
        if identity in earlier:
            content, row_key = earlier[identity]
            if content and row_key != key and self._is_done(row_key):
                same[content] = row_key
        data = {
            "path": member.path, "name": member.name, "partition": member.partition,
            "part": None if part is None else part.as_dict(), "place": identity, "known": same,
        }  # fmt: skip
        size = member.size_octets if part is None else part.octets
        return Task(key=key, data=data, name=_task_name(member, part), size=max(1, size))

    def _earlier(self) -> dict[str, tuple[str, str]]:
        """Return the content digest and the key of the newest row for each identity in earlier runs."""
        earlier = {}
        for key in self._stored:
            row = self._stored.described(key)
            identity, content = (row.get("place"), row.get("content")) if row is not None else (None, None)
            if isinstance(identity, str) and isinstance(content, str):
                earlier[identity] = content, key
        return earlier

    def _combine_parts(self) -> None:
        of = {
            self._whole_key(member): member
            for member in self.members
            if member.parts and member.trouble is None and not self._is_done(self._whole_key(member))
        }

        def take(result: TaskResult) -> None:
            if result.failure is not None:
                member = of[result.task.key]
                member.trouble = "set aside", f"{name_shown(member.path)}: {result.failure.sentence}"

        tasks = (self._finishing(key, member) for key, member in of.items())
        self._do(self._finish, tasks, len(of), take, local=len(of) <= _MAX_LOCAL)

    def _finishing(self, key: str, member: Member) -> Task:
        links = self._links(member, self._count_key if self._numbers else self._work_key)
        keys = [self._work_key(member, part) for part, _ in links.parts]
        rows = [row for row in map(self._row, keys) if row is not None]
        proven = {part.place for part, _ in links.parts}
        for part in member.parts:
            row = self._row(self._work_key(member, part)) if part.place not in proven else None
            self._remove(() if row is None else row["outputs"])
        problem = links.problem
        data = {
            "path": member.path, "name": member.name,
            "parts": [
                {"count": row["count"], "state": self._state_of(key), "outputs": row["outputs"]}
                for key, row in zip(keys, rows, strict=True)
            ],
            "row": {
                "place": "", "content": f"parts:{_digest_of(rows)}", "partition": rows[0]["partition"],
                "count": _count_of(rows).as_dict(), "warnings": links.warnings, "parts": len(rows),
                "problem": None if problem is None else problem.as_dict(),
                "seconds": sum(row["seconds"] for row in rows),
            },
        }  # fmt: skip
        return Task(key=key, data=data, name=name_shown(member.path), size=len(rows))

    def _merge_states(self) -> None:
        """Merge the states of adjacent captures until at most `_BRANCHES` states remain."""
        keys = [self._whole_key(member) for member in self.members if member.trouble is None]
        failed: list[TaskResult] = []

        def take(result: TaskResult) -> None:
            if result.failure is not None:
                failed.append(result)

        while len(keys) > _BRANCHES and not failed:
            groups = {
                task_key(self._merge, group): group
                for group in (keys[first : first + _BRANCHES] for first in range(0, len(keys), _BRANCHES))
            }
            missing = [key for key in groups if self._stored.described(key) is None]
            tasks = (self._merging(key, groups[key]) for key in missing)
            self._do(self._merge, tasks, len(missing), take)
            # If a worker fails, this process merges the states.
            keys = keys if failed else list(groups)
        self._states = keys

    def _merging(self, key: str, group: Sequence[str]) -> Task:
        states = [self._state_of(each) for each in group]
        return Task(key=key, data={"states": states}, name=f"{len(group)} captures", size=len(group))

    def _combine_all(self) -> None:
        """Write the result of all captures together. If a worker is running, the worker writes the result."""
        keys = self._states
        data = {"states": [self._state_of(key) for key in keys], "captures": len(self.members)}
        task = Task(key=task_key(self._all, keys), data=data, name=ALL, size=max(1, len(keys)))

        def take(result: TaskResult) -> None:
            if result.failure is not None:
                path = str(self._folder / ALL)
                raise OutputError(path=path, needed="states to merge", got=result.failure.sentence)

        self._do(self._all, [task], 1, take, local=not self._tally.done, store=False)

    def _merge_copies(self) -> None:
        """Merge the copies of all captures in order of time.

        Groups of copies are merged until one copy remains.
        """
        self._remove_pieces("merged-*")
        rows = (self._row(self._whole_key(member)) for member in self.members if member.trouble is None)
        copies = [output for row in rows if row is not None for output in row["outputs"]]
        if not copies:
            self._remove((ALL_COPIES,))
            return
        for level in itertools.count():
            firsts = range(0, len(copies), _MERGED_COPIES)
            groups = [copies[first : first + _MERGED_COPIES] for first in firsts]
            outputs = [f"{PIECES}/merged-{level}-{number:08}" for number in range(len(groups))]
            if len(groups) == 1:
                outputs = [ALL_COPIES]
            self._copy_groups(dict(zip(outputs, groups, strict=True)))
            self._remove_pieces(f"merged-{level - 1}-*")
            if len(groups) == 1:
                break
            copies = outputs
        with suppress(OSError):
            (self._folder / PIECES).rmdir()

    def _copy_groups(self, groups: Mapping[str, Sequence[str]]) -> None:

        def take(result: TaskResult) -> None:
            if result.failure is not None:
                path = str(self._folder / ALL_COPIES)
                raise OutputError(path=path, needed="copies to merge", got=result.failure.sentence)

        tasks = (
            Task(
                key=task_key(self._copy, output), data={"copies": list(copies), "output": output},
                name=output, size=len(copies),
            )
            for output, copies in groups.items()
        )  # fmt: skip
        self._do(self._copy, tasks, len(groups), take, local=not self._tally.done, store=False)

    def _remove_pieces(self, pattern: str) -> None:
        for path in (self._folder / PIECES).glob(pattern):
            path.unlink()

    # Results ------------------------------------------------------------------------------------------

    def lines(self) -> Iterator[ManifestLine]:
        """Yield the outcome of each capture."""
        for member in self.members:
            row = self._row(self._whole_key(member)) if member.trouble is None else None
            yield member.line() if row is None else _line_of(member, row)

    def write(self) -> Summary:
        """Write the manifest and the findings of all captures together, and return the summary."""
        summary = Summary(known=self.known)
        self._remove(self._partials())

        def counted_lines() -> Iterator[ManifestLine]:
            for line in self.lines():
                summary.take(line)
                self._remove(set(self._roster.earlier.get(line.name, ())).difference(line.outputs))
                yield line

        write_manifest(self._folder, self._roster.base, self._roster.request, counted_lines())
        if isinstance(self.job, CheckJob):
            self._write_findings(self.job, summary)
        return summary

    def _remove(self, outputs: Iterable[str]) -> None:
        for output in outputs:
            with suppress(FileNotFoundError):
                path_below(self._folder, output).unlink()

    def _partials(self) -> Iterator[str]:
        """Yield incomplete files of the fleet, which killed workers left."""
        partials = [path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*.partial")]
        if not partials:
            return
        own = {result for member in self.members for result in results_of(self.job, member.name)}
        own.update((FILE, *self.job.of_all))
        for name in partials:
            match = _PARTIAL.fullmatch(name)
            if match and (match[1] in own or match[1].startswith(_OWN_FOLDERS)):
                yield name

    def _write_findings(self, job: CheckJob, summary: Summary) -> None:
        """Write the findings of all captures in order, and the counts of each rule."""
        with open_sink(self._folder / FINDINGS, force=True, whole=True) as sink:
            for line in self.lines():
                for output in line.outputs:
                    with path_below(self._folder, output).open(encoding="utf-8") as file:
                        # The last line is the summary.
                        for text, _ in itertools.pairwise(file):
                            sink.write(text)
        document = {
            "schema": CHECK_SCHEMA,
            "captures": summary.captures,
            "frames": summary.frames,
            "findings": sum(wrong for _, wrong, _ in summary.findings.values()),
            "rules": [
                {
                    "rule": rule.id, "sentence": rule.sentence, "severity": rule.severity, "judged": judged,
                    "findings": wrong, "captures": captures,
                }
                for rule in job.checker().rules
                for judged, wrong, captures in [summary.findings.get(rule.id, (0, 0, 0))]
            ],
        }  # fmt: skip
        write_output(self._folder / ALL, json_text(document, indented=True) + "\n", force=True)


def _task_name(member: Member, part: Part | None) -> str:
    path = name_shown(member.path)
    return path if part is None else f"{path} from octet {part.start:,} on"


def _frames(result: TaskResult) -> float:
    count: Mapping[str, Any] = result.row.get("count") or {}
    frames: float = count.get("frames", 0)
    return frames


def _digest_of(rows: Sequence[Row]) -> str:
    return hashlib.sha256("".join(row["content"] for row in rows).encode()).hexdigest()


def _count_of(rows: Sequence[Row]) -> Count:
    whole = Count()
    for row in rows:
        whole.join(Count(**row["count"]))
    return whole


def _line_of(member: Member, row: Row) -> ManifestLine:
    count, problem, findings = Count(**row["count"]), row["problem"], row["findings"]
    return dataclasses.replace(
        member.line(),
        digest=row["content"],
        parts=row.get("parts", 1),
        outcome="done" if problem is None else "cut short",
        problem=None if problem is None else str(CaptureError(**problem)),
        frames=count.frames,
        selected=count.selected,
        first_ns=count.first_ns,
        last_ns=count.last_ns,
        partition=row["partition"],
        outputs=tuple(row["outputs"]),
        findings=None if findings is None else {rule: tuple(each) for rule, each in findings.items()},
        warnings=tuple(row["warnings"]),
        seconds=round(row["seconds"], 3),
    )
