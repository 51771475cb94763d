"""Rules: each has an id, a sentence, a clause, and an expression over columns of frames.

A new rule takes four steps.

1. Write an expression in the file of the rule's family in `check/rules/`.  The expression receives the
   family's parameters and a `Rows`: the frames of a batch with one of the rule's ``on`` fields.  The
   expression returns a `Judged`: a mask of the wrong rows, and the text of the findings.  Expressions work on
   whole arrays.  Only `what`, `measured` and `allowed` may be functions of one row, which are called only for
   listed findings::

       def _priority(cnms: Rows, parameters: QCNRules) -> Judged:
           priority = cnms["vlan.priority"]
           return Judged(priority != parameters.priority, "the priority is wrong", priority,
                         parameters.priority)

2. Add a `Rule` to the family's `RULES`.  Each judged row has all ``fields``.  The ``optional`` fields may be
   missing (`Rows.has`).
3. A rule that depends on earlier frames has a `Memory` instead of the expression.  A memory is bounded.
   `Memory.join` adds the memory of a later part of the capture, so processes can check parts separately.
   Checkers are pickled, so rules contain no lambdas.  `ecmproto.tools.check.keyed` has common parts of
   memories: the previous frame of the same key (`Chain`), and sets of keys (`SeenKeys`).
4. Plant the fault in `tests/check/test_FAMILY.py`, which `tests/check/test_registry.py` looks for, and run
   ``python -m docs.rule_reference`` for the rule's page.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ecmproto.control.mechanisms.api.parameters import Parameters
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.text import cpid_text, mac_text

if TYPE_CHECKING:
    from ecmproto.frames.capture.batch import Batch, Interface
    from ecmproto.frames.columns import Column, Columns
    from ecmproto.tools.check.report import Report

Int64 = NDArray[np.int64]
Mask = NDArray[np.bool_]
Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""Severities: an error violates the clause, a warning violates advice, and a note deserves attention."""

PRIORITY_FIELDS = ("vlan.priority", "ieee8021ad.priority")
"""The fields of `Rows.priority`."""
ERROR = "frame.error"
"""The field of malformed frames. A rule may have this field in ``on``."""
NO_TIME = -(1 << 63)
"""The value for the time of a frame without a time."""

Value: TypeAlias = "int | float | str | None"
RowValue: TypeAlias = "Value | NDArray[Any] | Callable[[int], Value]"
"""One value for all rows, an array with an entry for each row, or a function of the row index."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The type of object that a rule judges, such as a congestion point, a port or a flow.

    Each subject is a case in a test report. ``key`` calculates a number for each row from ``fields``.
    ``text`` converts this number to text.
    """

    name: str
    fields: tuple[str, ...]
    key: Callable[[Rows], Int64]
    text: Callable[[int], str]
    moved: Callable[[int, int], int] | None = None
    """A function that shifts the interface index in a key, or ``None`` for keys without an interface."""


class Judged(NamedTuple):
    """A mask of the wrong rows, and the texts of their findings."""

    wrong: Mask
    what: str | Callable[[int], str]
    """The fault, as a sentence without a full stop."""
    measured: RowValue = None
    allowed: RowValue = None
    about: Mask | None = None
    """A mask of the judged rows. ``None`` means that every row with the rule's fields was judged."""


Expression: TypeAlias = "Callable[[Rows, Any], Judged]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """A rule with either an ``expression`` or a ``memory``. Rules with the same id are equal.

    The rule receives frames with at least one ``on`` field, or all frames if ``on`` is empty. A frame is
    judged only if the frame has all ``fields``. The rule also reads the ``optional`` fields. Rules with the
    same ``memory`` class share one object.
    """

    id: str
    name: str
    """A name of two to four words for lists."""
    sentence: str
    """The condition that the rule checks."""
    why: str
    """The meaning of a finding, the conditions for judging, and advice on the next step."""
    clause: str
    severity: Severity
    subject: Subject
    on: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """The short names of the family parameters that the rule reads."""
    expression: Expression | None = None
    memory: type[Memory] | None = None
    source: str = ""
    """The file that defines a user's rule."""

    @property
    def needs_every_frame(self) -> bool:
        """Whether the rule compares frames. Such a rule is skipped if the capture is a sample.

        A memory that judges each frame alone has the attribute ``frames_alone = True``.
        """
        return self.memory is not None and not getattr(self.memory, "frames_alone", False)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the rule reads."""
        return (*self.on, *self.fields, *self.optional, *self.subject.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Rules with common parameters. ``name`` is the prefix of the parameter names, such as ``qcn``."""

    name: str
    title: str
    parameters: type[Parameters]
    rules: tuple[Rule, ...]


class Shift(NamedTuple):
    """The offsets for the frame numbers and interface indices of a later part."""

    frames: int
    interfaces: int


class Memory(Protocol):
    """The state of a rule that compares frames, in bounded memory."""

    def __init__(self, settings: Settings, report: Report) -> None: ...

    def add(self, rows: Rows) -> None:
        """Add the rows of a batch, and report the findings that later frames cannot change."""

    def join(self, later: Any, shift: Shift) -> None:
        """Add the memory of a later part. The report already contains the findings of ``later``."""

    def end(self, report: Report) -> None:
        """Report the remaining findings at the end of the capture.

        The memory must not change, as frames may follow.
        """


class SingleFrames:
    """The base class for memories of rules that judge each frame alone, so that nothing is kept."""

    frames_alone = True

    def __init__(self, settings: Settings, report: Report) -> None:
        self._report = report

    def join(self, later: Any, shift: Shift) -> None:
        """Do nothing, because each frame was judged alone."""

    def end(self, report: Report) -> None:
        """Do nothing, because all frames are already judged."""


_Parameters = TypeVar("_Parameters", bound=Parameters)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of all families, the parameter names that the user gave, and the ids of active rules."""

    parameters: Mapping[type[Parameters], Parameters]
    given: frozenset[str] = frozenset()
    active: frozenset[str] = frozenset()

    def of(self, cls: type[_Parameters]) -> _Parameters:
        """Return the parameters of a family."""
        result = self.parameters.get(cls, None)
        return cls() if result is None else result  # type: ignore[return-value]

    def is_given(self, name: str) -> bool:
        """Return whether the user gave a parameter. ``name`` is the full name, such as ``qcn.w``."""
        return name in self.given

    def is_active(self, rule: str) -> bool:
        """Return whether a rule is active."""
        return rule in self.active

    def __hash__(self) -> int:
        return hash((self.given, self.active))


class Where(NamedTuple):
    """The frames and subjects of findings. Each array has an entry for each frame."""

    number: Int64
    """The frame number, which starts at 1."""
    time_ns: Int64
    """The time. NO_TIME means that the frame has no time."""
    interface: Int64
    subject: Int64

    def select(self, selection: Any) -> Where:
        """Return the frames that indices or a mask select."""
        return Where(*(array[selection] for array in self))


class Rows:
    """The frames of a batch, in order. ``rows["vlan.priority"]`` has an entry for each frame."""

    def __init__(
        self,
        batch: Batch,
        columns: Columns,
        *,
        interfaces: Sequence[Interface] = (),
        usable: Mask | None = None,
        ethertypes: EtherTypes = DEFAULT,
    ) -> None:
        self.batch = batch
        self.columns = columns
        self.interfaces = interfaces
        self.ethertypes = ethertypes
        self.number: Int64 = batch.numbers + 1
        timed = usable if usable is not None else np.ones(len(batch), np.bool_)
        self.time_ns: Int64 = np.where(timed, batch.time_ns, NO_TIME)
        """The time of each frame. NO_TIME means that the frame has no time."""
        self._values: dict[str, Int64] = {}
        self._present: dict[str, Mask] = {}
        self._subjects: dict[str, tuple[Int64, Int64]] = {}
        self._counts: dict[str, tuple[Int64, Int64]] = {}

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def interface(self) -> Int64:
        """The interface index of each frame."""
        return self.batch.interface

    @property
    def octets(self) -> Int64:
        """The length of each frame on the wire, in octets."""
        return self.batch.original

    @property
    def is_cut(self) -> Mask:
        """A mask of the truncated frames."""
        return self.batch.captured < self.batch.original

    def __getitem__(self, name: str) -> Int64:
        """Return the outermost value of a number or address field for each row.

        Rows without the field have 0.
        """
        if name not in self._values:
            self._values[name] = _int64(self.columns[name], len(self))
        return self._values[name]

    def has(self, name: str) -> Mask:
        """Return a mask of the rows with a field."""
        if name not in self._present:
            self._present[name] = self.columns[name].present
        return self._present[name]

    def have(self, names: Sequence[str]) -> Mask:
        """Return a mask of the rows with all named fields."""
        present = np.ones(len(self), np.bool_)
        for name in names:
            present &= self.has(name)
        return present

    @functools.cached_property
    def is_tagged(self) -> Mask:
        """A mask of the rows with a VLAN tag. The rule must have `PRIORITY_FIELDS` as optional fields."""
        return self.has("vlan.priority") | self.has("ieee8021ad.priority")

    @functools.cached_property
    def priority(self) -> Int64:
        """The priority of each row's S-TAG, or of the C-TAG if the S-TAG is missing.

        Rows without a tag have 0.
        """
        return np.where(self.has("ieee8021ad.priority"), self["ieee8021ad.priority"], self["vlan.priority"])

    def subjects(self, subject: Subject) -> tuple[Int64, Int64]:
        """Return the unique keys of a subject, and for each row the index of its key."""
        if subject.name not in self._subjects:
            keys, which = np.unique(subject.key(self), return_inverse=True)
            self._subjects[subject.name] = keys, which.reshape(-1)
        return self._subjects[subject.name]

    def counts(self, subject: Subject) -> tuple[Int64, Int64]:
        """Return the number of rows and the interface of the first row for each key of `subjects`."""
        if subject.name not in self._counts:
            keys, which = self.subjects(subject)
            first = np.zeros(len(keys), np.int64)
            first[which[::-1]] = self.interface[::-1]
            self._counts[subject.name] = np.bincount(which, minlength=len(keys)), first
        return self._counts[subject.name]

    def events(self, at: Any, *values: Int64) -> Int64:
        """Return the frames in the given rows as events. ``values`` are columns after the common columns."""
        return np.stack([*self.frames(at), *values], axis=1)

    def frames(self, at: Any) -> tuple[Int64, Int64, Int64]:
        """Return the number, the time and the interface of the frames in the given rows."""
        return self.number[at], self.time_ns[at], self.interface[at]

    def where(self, subject: Subject) -> Where:
        """Return the frames and subjects of the rows, for findings."""
        keys, which = self.subjects(subject)
        return Where(self.number, self.time_ns, self.interface, keys[which])


def _int64(column: Column, rows: int) -> Int64:
    """Return the outermost value of a column for each row. Addresses and CPIDs are numbers."""
    outer = column.outermost()
    values = outer.values
    assert isinstance(values, np.ndarray), column.name
    if values.ndim == 2:
        octets = np.zeros((len(values), 8), np.uint8)
        octets[:, 8 - values.shape[1] :] = values
        values = octets.view(">i8").reshape(-1)
    if len(outer) == rows:
        return values.astype(np.int64)
    result = np.zeros(rows, np.int64)
    result[outer.rows] = values.astype(np.int64)
    return result


def mac_of_key(key: int) -> str:
    """Return the MAC address of a key as text."""
    return mac_text((key & (1 << 48) - 1).to_bytes(6, "big"))


def cpid_of_key(key: int) -> str:
    """Return the CPID of a key as text, such as ``02:00:00:00:cc:01/1``."""
    return cpid_text(key & (1 << 64) - 1)


def value_of(field: str, rows: Rows) -> Int64:
    """Return the values of a field as keys.

    ``functools.partial(value_of, field)`` is a valid ``key`` of a subject.
    """
    return rows[field]


def congestion_point(field: str) -> Subject:
    """Return the subject for the CPIDs in a field."""
    return Subject(name="CPID", fields=(field,), key=partial(value_of, field), text=cpid_of_key)


def _interface(rows: Rows) -> Int64:
    return rows.interface


SENDER = Subject(name="sender", fields=("eth.src",), key=partial(value_of, "eth.src"), text=mac_of_key)
STATION = Subject(name="station", fields=("eth.dst",), key=partial(value_of, "eth.dst"), text=mac_of_key)
PORT = Subject(name="interface", fields=(), key=_interface, text="interface {}".format, moved=operator.add)
