"""Findings and the number of judged frames for each subject, in bounded memory.

A report keeps the findings with the lowest frame numbers of each rule. The division of a capture into batches
or parts does not change a report.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ecmproto.frames.stats.plain_data import plain_value
from ecmproto.tools.check.keyed import NO_NUMBER
from ecmproto.tools.check.rule import (
    NO_TIME,
    Int64,
    Judged,
    Mask,
    Rows,
    RowValue,
    Rule,
    Shift,
    Subject,
    Value,
    Where,
)

MAX_LISTED = 1000
"""The maximum number of kept findings of a rule. Further findings are only counted."""
_NO_FRAME = 1 << 62
"""The sort key of findings without a frame, after all other findings."""
MAX_CASES = 4096
"""The maximum number of subjects of a rule."""


@plain_value
class Finding(NamedTuple):
    """A violation of a rule by a frame or by a missing frame.

    A finding about a missing frame has no frame number.
    """

    rule: str
    frame: int | None
    """The frame number, which starts at 1, as in ``frame.number``."""
    time_ns: int | None
    interface: int | None
    """The index of the interface in the capture."""
    key: int
    """The key of the subject; ``subject`` is the text for this key."""
    subject: str
    what: str
    measured: Value = None
    allowed: Value = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A subject that a rule has judged. ``interface`` is the interface of the subject's first frame."""

    subject: str
    interface: int | None
    judged: int
    """The number of judged frames, or of other units if the rule counts other units."""
    wrong: int


class _Counts:
    """The cases of a rule, at most ``MAX_CASES``."""

    def __init__(self) -> None:
        from ecmproto.frames.stats.tally import Numbering

        self.keys: Numbering = Numbering(MAX_CASES)
        self.cases: Int64 = np.zeros((0, 3), np.int64)
        """The number of judged rows, the number of wrong rows, and the interface of each key."""
        self.others: Int64 = np.zeros(2, np.int64)

    def add(self, keys: Int64, judged: Int64, wrong: Int64, interfaces: Int64) -> None:
        added = np.column_stack([judged, wrong, interfaces])
        some = np.flatnonzero(judged | wrong)
        numbers, added = self.keys.numbers(keys[some], np.zeros_like(some)), added[some]
        new = numbers >= len(self.cases)
        known = (numbers != NO_NUMBER) & ~new
        self.cases[numbers[known], :2] += added[known, :2]
        self.cases = np.concatenate([self.cases, added[new]])  # new keys are numbered in this order
        self.others += added[numbers == NO_NUMBER, :2].sum(axis=0)

    def judge(
        self, keys: Int64, which: Int64, about: Mask | None, wrong_rows: Int64, interface: Int64
    ) -> None:
        """Count rows by key index. Each case has the interface of the first judged row."""
        judged = which if about is None else which[about]
        first = np.zeros(len(keys), np.int64)
        first[judged[::-1]] = (interface if about is None else interface[about])[::-1]
        judged_of, wrong_of = (np.bincount(rows, minlength=len(keys)) for rows in (judged, which[wrong_rows]))
        self.add(keys, judged_of, wrong_of, first)

    def join(self, later: _Counts, shift: Shift, subject: Subject) -> None:
        keys = [_moved_key(subject, key, shift) for key in later.subjects]
        judged, wrong, interfaces = later.cases.T
        self.add(np.array(keys, np.int64), judged, wrong, interfaces + shift.interfaces)
        self.others += later.others

    @property
    def subjects(self) -> list[int]:
        keys: list[int] = self.keys.low.astype(np.int64).tolist()
        return keys


class Report:
    """The results of rules, with at most ``maximum`` kept findings of each rule."""

    NOT_STATE = ("rules", "maximum")

    def __init__(self, rules: Iterable[Rule], maximum: int = MAX_LISTED) -> None:
        self.rules: dict[str, Rule] = {rule.id: rule for rule in rules}
        self.maximum = maximum
        self._findings: dict[str, list[Finding]] = {name: [] for name in self.rules}
        self._counts: dict[str, _Counts] = {name: _Counts() for name in self.rules}
        self._notes: dict[str, str] = {}

    def judge(self, rule: str, rows: Rows, judged: Judged) -> None:
        """Add the result of a rule for the rows of a batch."""
        if rule not in self.rules:
            return
        subject = self.rules[rule].subject
        about = judged.about
        needed = self.rules[rule].fields
        if needed:
            present = rows.have(needed)
            about = present if about is None else about & present
        wrong = judged.wrong if about is None else judged.wrong & about
        keys, which = rows.subjects(subject)
        wrong_rows = np.flatnonzero(wrong)
        if about is None or about.all():
            judged_of, first = rows.counts(subject)
            self._counts[rule].add(
                keys, judged_of, np.bincount(which[wrong_rows], minlength=len(keys)), first
            )
        else:
            self._counts[rule].judge(keys, which, about, wrong_rows, rows.interface)
        # rows have the order of frames
        listed = wrong_rows[: self.maximum][
            rows.number[wrong_rows[: self.maximum]] <= self._last_listed(rule)
        ]
        if len(listed):
            at = Where(rows.number[listed], rows.time_ns[listed], rows.interface[listed], keys[which[listed]])
            self._list(rule, at, listed.tolist(), judged)

    def record(self, rule: str, where: Where, judged: Judged) -> None:
        """Add the result of a rule for frames of any batch, or for frame number 0, which means no frame."""
        if rule not in self.rules or not len(where.number):
            return
        about = judged.about
        wrong: Mask = judged.wrong if about is None else judged.wrong & about
        keys, which = np.unique(where.subject, return_inverse=True)
        wrong_rows = np.flatnonzero(wrong)
        self._counts[rule].judge(keys, which.reshape(-1), about, wrong_rows, where.interface)
        number = np.where(where.number > 0, where.number, _NO_FRAME)[wrong_rows]
        first = np.argsort(number, kind="stable")[: self.maximum]
        # findings about the same frame keep the order of their reports
        listed = wrong_rows[np.sort(first[number[first] <= self._last_listed(rule)])]
        self._list(rule, where.select(listed), listed.tolist(), judged)

    def count(self, rule: str, where: Where) -> None:
        """Count frames that a rule has judged to be correct."""
        self.record(rule, where, Judged(np.zeros(len(where.number), np.bool_), ""))

    def note(self, key: str, text: str) -> None:
        """Add a sentence on an assumption or estimate.

        A later sentence with the same key replaces this sentence.
        """
        self._notes[key] = text

    def _last_listed(self, rule: str) -> int:
        """Return the highest frame number of the kept findings of a rule."""
        result = self._findings[rule]
        if len(result) < self.maximum:
            return _NO_FRAME
        if len(result) > self.maximum:
            result.sort(key=_frame_number)
            del result[self.maximum :]
        return max(map(_frame_number, result), default=0)

    def _list(self, rule: str, at: Where, rows: list[int], judged: Judged) -> None:
        text = self.rules[rule].subject.text
        for index, row in enumerate(rows):
            number, time_ns = int(at.number[index]), int(at.time_ns[index])
            self._findings[rule].append(
                Finding(
                    rule=rule,
                    frame=number or None,
                    time_ns=None if time_ns == NO_TIME else time_ns,
                    interface=int(at.interface[index]),
                    key=int(at.subject[index]),
                    subject=text(int(at.subject[index])),
                    what=judged.what if isinstance(judged.what, str) else judged.what(row),
                    measured=_value_at(judged.measured, row),
                    allowed=_value_at(judged.allowed, row),
                )
            )

    def copy(self) -> Report:
        """Return an independent copy of the report."""
        copied = Report((), self.maximum)
        copied.rules = self.rules
        copied._findings = {name: list(results) for name, results in self._findings.items()}
        copied._counts = copy.deepcopy(self._counts)
        copied._notes = dict(self._notes)
        return copied

    def join(self, later: Report, shift: Shift) -> None:
        """Add the report of a later part."""
        for name, result in later._findings.items():
            last = self._last_listed(name)
            self._findings[name] += [
                _moved(each, shift, self.rules[name].subject)
                for each in result
                if last == _NO_FRAME or _frame_number(each) + shift.frames <= last
            ]
            self._last_listed(name)
            self._counts[name].join(later._counts[name], shift, self.rules[name].subject)
        self._notes |= later._notes

    def findings(self, rule: str) -> tuple[Finding, ...]:
        """Return the kept findings of a rule, in the order of their frames."""
        return tuple(sorted(self._findings[rule], key=_frame_number)[: self.maximum])

    def cases(self, rule: str) -> tuple[Case, ...]:
        """Return the cases of a rule. Subjects beyond the limit are combined into one case."""
        text, counts = self.rules[rule].subject.text, self._counts[rule]
        cases = [
            Case(subject=text(key), interface=interface, judged=max(judged, wrong), wrong=wrong)
            for key, (judged, wrong, interface) in sorted(
                zip(counts.subjects, counts.cases.tolist(), strict=True)
            )
        ]
        if counts.others.any():
            judged, wrong = counts.others.tolist()
            cases.append(Case(subject="others", interface=None, judged=judged, wrong=wrong))
        return tuple(cases)

    @property
    def notes(self) -> Mapping[str, str]:
        """Sentences on assumptions and estimates, by key."""
        return self._notes


def _frame_number(finding: Finding) -> int:
    return finding.frame or _NO_FRAME


def _value_at(reported: RowValue, row: int) -> Value:
    if isinstance(reported, np.ndarray):
        value: Value = reported[row].item()
        return value
    return reported(row) if callable(reported) else reported


def _moved_key(subject: Subject, key: int, shift: Shift) -> int:
    return key if subject.moved is None else subject.moved(key, shift.interfaces)


def _moved(finding: Finding, shift: Shift, subject: Subject) -> Finding:
    key = _moved_key(subject, finding.key, shift)
    return finding._replace(
        frame=None if finding.frame is None else finding.frame + shift.frames,
        interface=None if finding.interface is None else finding.interface + shift.interfaces,
        key=key,
        subject=subject.text(key),
    )
