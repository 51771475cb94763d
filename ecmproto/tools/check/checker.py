"""The checker extracts the columns of each batch once, and applies all rules to these columns.

A rule receives only the frames with its ``on`` fields, so a rule about CNMs takes no time in a capture
without CNMs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from ecmproto.errors import CaptureError, EcmprotoError, ParameterError, SpecError, counted
from ecmproto.frames.batch.inner import open_innermost
from ecmproto.frames.capture import Batch, CaptureReader
from ecmproto.frames.capture.batch import Interface
from ecmproto.frames.columns import Texts
from ecmproto.frames.columns.extraction import Extraction
from ecmproto.frames.filter.fields import find
from ecmproto.frames.stats.accumulator import add_all
from ecmproto.frames.stats.plain_data import State, restore, state_of
from ecmproto.frames.stats.tally import usable_times
from ecmproto.tables import Tabular
from ecmproto.tools.check.registry import FAMILIES, families_of, settings_of
from ecmproto.tools.check.report import MAX_LISTED, Case, Finding, Report
from ecmproto.tools.check.rule import ERROR, PORT, Family, Mask, Memory, Rows, Rule, Settings, Shift
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

if TYPE_CHECKING:
    from ecmproto.frames.filter import Filter

_PROTOCOLS = "frame.protocols"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of a rule, with a case for each subject and the kept findings."""

    rule: Rule
    cases: tuple[Case, ...]
    findings: tuple[Finding, ...]

    known: int = 0
    """The number of findings in the baseline. The other counts exclude these findings."""

    @property
    def judged(self) -> int:
        """The number of judged frames, or of other units if the rule counts other units."""
        return sum(case.judged for case in self.cases)

    @property
    def wrong(self) -> int:
        """The number of findings, including findings that were not kept."""
        return sum(case.wrong for case in self.cases)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Checked(Tabular):
    """The result for a capture. The table has a row for each kept finding."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        "rule", "severity", "frame", "time_ns", "interface", "subject", "what", "measured", "allowed",
    )  # fmt: skip

    frames: int
    first_ns: int | None
    """The time of the first frame with a time."""
    results: tuple[RuleResult, ...]
    """The result of each rule, in the order of the rules."""
    interfaces: tuple[Interface, ...]
    notes: tuple[str, ...]
    """Sentences on assumptions, estimates and omissions."""
    problem: CaptureError | None
    """The error that ended the capture early."""

    @property
    def wrong(self) -> int:
        """The number of findings, including findings that were not kept."""
        return sum(result.wrong for result in self.results)

    def records(self) -> list[dict[str, Any]]:
        """Return the kept findings."""
        severities = {result.rule.id: result.rule.severity for result in self.results}
        return [
            {"rule": each.rule, "severity": severities[each.rule]}
            | {name: getattr(each, name) for name in self.COLUMNS[2:]}
            for each in self.findings
        ]

    def __repr__(self) -> str:
        broken = [f"{each.rule.id} {each.wrong:,}" for each in self.results if each.wrong]
        counts = f"{counted(self.wrong, 'finding')} in {counted(self.frames, 'frame')}"
        return f"{counts}: {', '.join(broken)}" if broken else counts

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The kept findings, in the order of frames."""
        every = [finding for result in self.results for finding in result.findings]
        return tuple(sorted(every, key=lambda each: each.frame or 1 << 62))


class _Group:
    """Rules that have the same ``on`` fields and receive the same rows."""

    def __init__(self, on: tuple[str, ...]) -> None:
        self.on = on
        self.layers = frozenset(layer for name in on for layer in _layers_of(name))
        self.expressions: list[tuple[Rule, object]] = []
        self.memories: list[tuple[Rule, Memory]] = []
        self.fields: tuple[str, ...] = ()


class Checker:
    """A checker that processes a capture batch by batch. `result` can be called at any time.

    The result does not depend on the division into batches, and memory use does not depend on the number of
    frames. ``rules`` selects rules of ``families``, and ``None`` selects all rules. ``parameters`` maps full
    names to texts, such as ``{"qcn.w": "2"}``. ``max_findings`` is the maximum number of kept findings of
    each rule. ``sampled`` means that the frames are a sample, and skips the rules that need every frame.
    ``pool`` is a thread that shares the work. Raises ParameterError for an invalid value.
    """

    NOT_STATE = ("rules", "_settings", "_max_findings", "_ethertypes", "_pool", "_groups")

    def __init__(
        self,
        rules: Iterable[Rule] | None = None,
        parameters: Mapping[str, str] | None = None,
        *,
        families: Sequence[Family] = FAMILIES,
        max_findings: int = MAX_LISTED,
        sampled: bool = False,
        ethertypes: EtherTypes = DEFAULT,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self.rules: tuple[Rule, ...] = (
            tuple(rule for family in families for rule in family.rules) if rules is None else tuple(rules)
        )
        self._settings = settings_of(parameters or {}, self.rules, families)
        self._max_findings = max_findings
        self._sampled = sampled
        self._ethertypes = ethertypes
        self._pool = pool
        self._report = Report(self.rules, max_findings)
        self._interfaces: Sequence[Interface] = ()
        self._frames = self._before = 0
        self._first_ns: int | None = None
        self._memories: list[Memory] = []
        self._groups = self._grouped(families_of(families))

    @property
    def frames(self) -> int:
        """The number of frames, including frames that were not selected."""
        return self._frames

    def state(self) -> State:
        """Return the current findings as plain data, for storage or transmission (see `stats.plain_data`).

        Raises TypeError if the memory of a user's rule contains other data.
        """
        return {"rules": [rule.id for rule in self.rules], "found": state_of(self, given=(Settings,))}

    def restore(self, state: State) -> None:
        """Load the findings of another checker with the same rules and parameters.

        This checker must be empty.

        Raises ParameterError for an invalid state.
        """
        rules = state.get("rules")
        if rules != [rule.id for rule in self.rules]:
            raise ParameterError(name="state", needed="one of the same rules", got=str(rules))
        restore(self, state["found"])

    def follow(self, earlier: Checker) -> None:
        """Use the estimates of ``earlier``, a checker of earlier frames. This checker must be empty."""
        for here, other in zip(self._memories, earlier._memories, strict=True):
            follow: Any = getattr(here, "follow", None)
            if follow is not None:
                follow(other)

    def _grouped(self, family_of: Mapping[str, Family]) -> list[_Group]:
        groups: dict[tuple[str, ...], _Group] = {}
        made: dict[type[Memory], Memory] = {}
        fields: dict[tuple[str, ...], list[str]] = {}
        for rule in self.rules:
            group = groups.setdefault(rule.on, _Group(rule.on))
            fields.setdefault(rule.on, []).extend(rule.columns)
            if rule.expression is not None:
                family = family_of.get(rule.id)
                group.expressions.append(
                    (rule, None if family is None else self._settings.of(family.parameters))
                )
            elif rule.memory is not None and rule.memory not in made:
                made[rule.memory] = rule.memory(self._settings, self._report)
                group.memories.append((rule, made[rule.memory]))
        self._memories = list(made.values())
        for on, group in groups.items():
            group.fields = tuple(dict.fromkeys(fields[on])) or ("frame.len",)
        return list(groups.values())

    def add(
        self,
        batch: Batch,
        *,
        interfaces: Sequence[Interface] = (),
        selected: Mask | None = None,
    ) -> None:
        """Check the frames of a batch.

        ``interfaces`` describes the interfaces of the batch. If ``interfaces`` is empty, all frames are
        Ethernet frames. ``selected`` is a mask of the frames to check, and ``None`` selects all frames.
        """
        self._interfaces = interfaces
        if not self._frames and len(batch):
            self._before = int(batch.numbers[0])
        self._frames += len(batch)
        if self._first_ns is None:
            timed = batch.time_ns[usable_times(batch)]
            self._first_ns = int(timed[0]) if len(timed) else None
        if selected is not None:
            batch = batch.select(selected)
        if not len(batch):
            return
        walk = self._extraction(batch)
        columns = walk.columns((_PROTOCOLS, ERROR))
        protocols, malformed = columns[_PROTOCOLS].values, columns[ERROR].rows
        assert isinstance(protocols, Texts)
        layers = [frozenset(word.split(":")) for word in protocols.words]
        looked_at: dict[_Group, Mask] = {}
        for group in self._groups:
            present = np.array(
                [not group.on or not group.layers.isdisjoint(each) for each in layers], np.bool_
            )
            if not present.any() and not (ERROR in group.on and len(malformed)):
                continue
            rows = present[protocols.codes]
            if ERROR in group.on:
                rows[malformed] = True
            looked_at[group] = rows
        # Groups that receive every frame share one `Rows`, so each column is computed once.
        all_rows = None
        whole = [group for group, rows in looked_at.items() if rows.all()]
        if whole:
            all_rows = self._rows(batch, walk, [name for group in whole for name in group.fields])
        for group, rows in looked_at.items():
            if all_rows is not None and group in whole:
                self._look(group, all_rows)
            else:
                self._look_among(group, batch.select(rows))

    def _extraction(self, batch: Batch) -> Extraction:
        return Extraction(
            batch, interfaces=self._interfaces, ethertypes=self._ethertypes, pool=self._pool, nesting="outer"
        )

    def _rows(self, batch: Batch, walk: Extraction, names: Sequence[str]) -> Rows:
        return Rows(
            batch, walk.columns(dict.fromkeys(names)), interfaces=self._interfaces,
            usable=usable_times(batch), ethertypes=self._ethertypes,
        )  # fmt: skip

    def _look_among(self, group: _Group, batch: Batch) -> None:
        self._look(group, self._rows(batch, self._extraction(batch), group.fields))

    def _look(self, group: _Group, rows: Rows) -> None:
        """Apply the rules of a group to the frames of a batch that have the ``on`` fields of the group."""
        if group.on:
            present = np.any([rows.has(name) for name in group.on], axis=0)
            if not present.all():
                if present.any():
                    self._look_among(group, rows.batch.select(present))
                return
        for rule, parameters in group.expressions:
            assert rule.expression is not None
            with _blamed_on(rule):
                self._report.judge(rule.id, rows, rule.expression(rows, parameters))
        for rule, memory in group.memories:
            with _blamed_on(rule):
                memory.add(rows)

    def can_merge(self, later: Checker) -> bool:
        """Return whether `merge` is exact. The merge is exact if no list of ``later`` is full."""
        return not any(
            getattr(each, "is_full", False) for memory in later._memories for each in vars(memory).values()
        )

    def merge(self, later: Checker, *, other_interfaces: bool = False) -> None:
        """Add the findings of ``later``, a checker of the frames that follow.

        The result is the same as if this checker had checked these frames. The frame numbers of ``later``
        start at 1, or continue the numbers of this checker. ``later`` does not change. By default, both
        checkers have the same interfaces. With ``other_interfaces``, the interfaces of ``later`` are
        appended. Raises ParameterError if the rules or parameters of the checkers differ.
        """
        same = [rule.id for rule in later.rules] == [rule.id for rule in self.rules]
        if not same or later._settings != self._settings or later._ethertypes != self._ethertypes:
            raise ParameterError(
                name="checks", needed="the same rules, parameters and EtherTypes", got="others"
            )
        if not self._frames:
            self._before = later._before
        frames = self._before + self._frames - later._before
        shift = Shift(frames, len(self._interfaces) if other_interfaces else 0)
        if other_interfaces:
            moved = [
                dataclasses.replace(each, index=each.index + shift.interfaces) for each in later._interfaces
            ]
            self._interfaces = [*self._interfaces, *moved]
        elif len(later._interfaces) >= len(self._interfaces):
            self._interfaces = later._interfaces
        self._frames += later._frames
        self._first_ns = later._first_ns if self._first_ns is None else self._first_ns
        self._report.join(later._report, shift)
        for here, other in zip(self._memories, later._memories, strict=True):
            here.join(other, shift)

    def result(
        self, *, interfaces: Sequence[Interface] | None = None, problem: CaptureError | None = None
    ) -> Checked:
        """Return the findings in all batches so far.

        ``interfaces`` contains the known interfaces, and ``None`` selects the interfaces of the latest batch.
        ``problem`` is the error that ended the capture.
        """
        report = self._report.copy()
        known = tuple(self._interfaces if interfaces is None else interfaces)
        is_sample = self._sampled or any(each.sampling != 1 for each in known)
        silent = {rule.id for rule in self.rules if is_sample and rule.needs_every_frame}
        ended = {rule.memory for rule in self.rules if rule.id not in silent}
        for memory in self._memories:
            if type(memory) in ended:
                memory.end(report)
        notes = tuple(report.notes.values())
        if silent:
            what = "The frames are a sample. The rules that need every frame were skipped"
            notes = (*notes, f"{what}: {' '.join(sorted(silent))}.")
        return Checked(
            frames=self._frames,
            first_ns=self._first_ns,
            results=tuple(
                _named(
                    RuleResult(
                        rule=rule,
                        cases=() if rule.id in silent else report.cases(rule.id),
                        findings=() if rule.id in silent else report.findings(rule.id),
                    ),
                    known,
                )
                for rule in self.rules
            ),
            interfaces=known,
            notes=notes,
            problem=problem,
        )


def _named(result: RuleResult, interfaces: Sequence[Interface]) -> RuleResult:
    """Return a result with the names of interfaces, if the subjects of the rule are interfaces."""
    if result.rule.subject.name != PORT.name:
        return result
    names = {
        PORT.text(index): f"{PORT.name} {each.name}" for index, each in enumerate(interfaces) if each.name
    }
    return dataclasses.replace(
        result,
        cases=tuple(
            dataclasses.replace(each, subject=names.get(each.subject, each.subject)) for each in result.cases
        ),
        findings=tuple(
            each._replace(subject=names.get(each.subject, each.subject)) for each in result.findings
        ),
    )


@contextlib.contextmanager
def _blamed_on(rule: Rule) -> Iterator[None]:
    """Convert an exception in a user's rule into an error that names the file of the rule."""
    try:
        yield
    except Exception as error:
        if not rule.source or isinstance(error, EcmprotoError):
            raise
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, KeyError):
            text += ": the rule does not declare this field"
        raise SpecError(
            where=f"rules {rule.source}: {rule.id}", needed="a rule without errors", got=text
        ) from error


def _layers_of(name: str) -> frozenset[str]:
    """Return the layers with a field, as named in ``frame.protocols``. The result is empty for `ERROR`."""
    if name == ERROR:
        return frozenset()
    field = find(name)
    if field is None or not field.sources:
        raise ParameterError(name="rule", needed="fields of layers to be on", got=name)
    return frozenset(source.format.prefix for source in field.sources)


def check_capture(
    source: str | os.PathLike[str] | BinaryIO | CaptureReader,
    rules: Iterable[Rule] | None = None,
    parameters: Mapping[str, str] | None = None,
    *,
    filter: Filter | None = None,
    max_findings: int = MAX_LISTED,
    families: Sequence[Family] = FAMILIES,
    ethertypes: EtherTypes = DEFAULT,
    limit: int | None = None,
    threads: int = 2,
    outer: bool = False,
    sampled: bool = False,
) -> Checked:
    """Check a capture and return the findings.

    ``source`` is a path, ``-``, a file object or a reader. ``rules`` contains the rules to apply, and
    ``None`` selects all rules. For frames inside a mirror or tunnel encapsulation, the innermost frame is
    checked. ``outer`` checks the outer frames instead. ``parameters`` maps full names to texts, and
    ``families`` are the families of these parameters. ``filter``
    selects the frames to check, and ``limit`` is the maximum number of frames to read. ``sampled`` means that
    the frames are a sample, as for `Checker`. ``threads=1`` uses only the calling thread. If an error ends
    the capture early, ``problem`` contains this error. Raises CaptureError if ``source`` is not a capture,
    and ParameterError for invalid arguments.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1)) if threads > 1 else None
        checker = Checker(
            rules,
            parameters,
            families=families,
            max_findings=max_findings,
            sampled=sampled,
            ethertypes=ethertypes,
            pool=pool,
        )
        reader = (
            source
            if isinstance(source, CaptureReader)
            else stack.enter_context(open_innermost((source,), outer=outer, ethertypes=ethertypes))
        )
        add_all(checker, reader, filter=filter, limit=limit, ethertypes=ethertypes, pool=pool)
        return checker.result(interfaces=reader.interfaces, problem=reader.problem)
