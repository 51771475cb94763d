"""Rules: an id, a sentence, a source, and an expression over columns of many frames.

A new rule takes four steps.

1. Write an expression in the file of its family in `check/rules/`.  It gets a `Rows`, the frames of a batch
   that have one of the rule's ``on`` fields, and the family's parameters.  It returns a `Judged`: a mask of
   the wrong rows, and the text of their findings.  It works on whole arrays; only `what`, `measured` and
   `allowed` may be functions of one row, called for listed findings alone::

       def _priority(cnms: Rows, parameters: QCNRules) -> Judged:
           priority = cnms["vlan.priority"]
           return Judged(priority != parameters.priority, "it has another priority", priority,
                         parameters.priority)

2. Describe it by a `Rule` in the family's `RULES`.  Each judged row has all ``fields``; ``optional`` fields
   may be missing (`Rows.has`).
3. A rule that depends on earlier frames has a `Memory` in place of the expression.  It is bounded, and
   `Memory.join` adds the memory of a later part of the capture, so that processes may check parts apart.
   A checker is pickled: rules contain no lambdas.  `ecmproto.tools.check.keyed` has the common parts: the
   previous frame of the same key (`Chain`), sets of keys (`SeenKeys`).
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
"""An error breaks the clause; a warning goes against its defaults or advice; a note is worth a look."""

PRIORITY_FIELDS = ("vlan.priority", "ieee8021ad.priority")
"""The fields of `Rows.priority`."""
ERROR = "frame.error"
"""The field that malformed frames have: rules may be on it."""
NO_TIME = -(1 << 63)
"""The time of a frame whose record has none."""

Value: TypeAlias = "int | float | str | None"
RowValue: TypeAlias = "Value | NDArray[Any] | Callable[[int], Value]"
"""The same for all rows, or an entry a row, or a function of the row."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object of a rule, and a case in a report of tests: a congestion point, a port, a flow.

    ``key`` returns a number for each row from ``fields``, ``text`` its text for people.
    """

    name: str
    fields: tuple[str, ...]
    key: Callable[[Rows], Int64]
    text: Callable[[int], str]
    moved: Callable[[int, int], int] | None = None
    """A key that holds the index of an interface, with that many added; None: it holds none."""


class Judged(NamedTuple):
    """A mask of the wrong rows, and the text of their findings."""

    wrong: Mask
    what: str | Callable[[int], str]
    """The fault, as a sentence without its end."""
    measured: RowValue = None
    allowed: RowValue = None
    about: Mask | None = None
    """The rows that were judged; None: all that have the rule's fields."""


Expression: TypeAlias = "Callable[[Rows, Any], Judged]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """A rule, the same as another with its id; exactly one of ``expression`` and ``memory`` is given.

    ``on`` are the fields of which a frame must have one to be looked at (none: every frame is), ``fields``
    those that it must have to be judged, ``optional`` others that are read.  Rules with one ``memory`` share
    a single object of it.
    """

    id: str
    name: str
    """Two to four words for lists."""
    sentence: str
    """The condition that the rule checks."""
    why: str
    """The meaning of a finding, the conditions for judging, and the next thing to look at."""
    clause: str
    severity: Severity
    subject: Subject
    on: tuple[str, ...]
    fields: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """The short names of its family's parameters that it reads."""
    expression: Expression | None = None
    memory: type[Memory] | None = None
    source: str = ""
    """The file of a rule of the user's own."""

    @property
    def needs_every_frame(self) -> bool:
        """Whether it compares frames with others, so that a sample makes it silent.

        A memory whose rules judge frames by themselves has an attribute ``frames_alone`` that is true.
        """
        return self.memory is not None and not getattr(self.memory, "frames_alone", False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it reads."""
        return (*self.on, *self.fields, *self.optional, *self.subject.fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rule) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Rules with a file and parameters of their own; ``name`` is the prefix of parameters (``qcn.w``)."""

    name: str
    title: str
    parameters: type[Parameters]
    rules: tuple[Rule, ...]


class Shift(NamedTuple):
    """The offsets of the numbers of frames and interfaces of a later part."""

    frames: int
    interfaces: int


class Memory(Protocol):
    """The bounded memory of earlier frames."""

    def __init__(self, settings: Settings, report: Report) -> None: ...

    def add(self, rows: Rows) -> None:
        """Look at the rows of a batch, and report the findings that are certain by now."""

    def join(self, later: Any, shift: Shift) -> None:
        """Add the memory of the frames that follow; the report has the findings of ``later`` already."""

    def end(self, report: Report) -> None:
        """Report the findings at the end of the capture; the memory does not change, as more may come."""


_Parameters = TypeVar("_Parameters", bound=Parameters)


class Settings:
    """The parameters of all families, which of them somebody gave, and which rules are looked at."""

    def __init__(
        self,
        parameters: Mapping[type[Parameters], Parameters],
        given: frozenset[str] = frozenset(),
        active: frozenset[str] = frozenset(),
    ) -> None:
        self._parameters = parameters
        self._given = given
        self._active = active

    def of(self, cls: type[_Parameters]) -> _Parameters:
        """Return the parameters of a family."""
        found = self._parameters.get(cls, None)
        return cls() if found is None else found  # type: ignore[return-value]

    def is_given(self, name: str) -> bool:
        """Return whether somebody gave a parameter, by its whole name, as ``qcn.w``."""
        return name in self._given

    def is_active(self, rule: str) -> bool:
        """Return whether a rule is looked at."""
        return rule in self._active

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and (
            (self._parameters, self._given, self._active) == (other._parameters, other._given, other._active)
        )

    def __hash__(self) -> int:
        return hash((self._given, self._active))


class Where(NamedTuple):
    """Frames as findings name them, and the keys of what they are about: an entry a frame in each array."""

    number: Int64
    """From 1."""
    time_ns: Int64
    """NO_TIME where the record has none."""
    interface: Int64
    subject: Int64

    def select(self, selection: Any) -> Where:
        """Return the frames at positions, or where a mask is True."""
        return Where(*(array[selection] for array in self))


class Rows:
    """Frames of one batch, in their order: ``rows["vlan.priority"]`` has an entry for each."""

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
        """NO_TIME where there is none."""
        self._values: dict[str, Int64] = {}
        self._present: dict[str, Mask] = {}
        self._subjects: dict[str, tuple[Int64, Int64]] = {}
        self._counts: dict[str, tuple[Int64, Int64]] = {}

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def interface(self) -> Int64:
        """The index of the interface of each."""
        return self.batch.interface

    @property
    def octets(self) -> Int64:
        """The length on the wire of each."""
        return self.batch.original

    @property
    def is_cut(self) -> Mask:
        """Whether the capture has less of it than there was."""
        return self.batch.captured < self.batch.original

    def __getitem__(self, name: str) -> Int64:
        """Return the outermost value of a number or of an address; 0 for a row without the field."""
        if name not in self._values:
            self._values[name] = _int64(self.columns[name], len(self))
        return self._values[name]

    def has(self, name: str) -> Mask:
        """Return a mask of the rows with a field."""
        if name not in self._present:
            self._present[name] = self.columns[name].present
        return self._present[name]

    def have(self, names: Sequence[str]) -> Mask:
        """Return a mask of the rows with all fields of a list."""
        there = np.ones(len(self), np.bool_)
        for name in names:
            there &= self.has(name)
        return there

    @functools.cached_property
    def is_tagged(self) -> Mask:
        """A mask of the rows with a VLAN tag; for rules with `PRIORITY_FIELDS` as optional fields."""
        return self.has("vlan.priority") | self.has("ieee8021ad.priority")

    @functools.cached_property
    def priority(self) -> Int64:
        """The priority of each row's S-TAG, or else of its C-TAG; 0 without either."""
        return np.where(self.has("ieee8021ad.priority"), self["ieee8021ad.priority"], self["vlan.priority"])

    def subjects(self, subject: Subject) -> tuple[Int64, Int64]:
        """Return the keys of a subject that there are, and for each row which of these it has."""
        if subject.name not in self._subjects:
            keys, which = np.unique(subject.key(self), return_inverse=True)
            self._subjects[subject.name] = keys, which.reshape(-1)
        return self._subjects[subject.name]

    def counts(self, subject: Subject) -> tuple[Int64, Int64]:
        """Return for each key of `subjects` the number of its rows, and the interface of the first."""
        if subject.name not in self._counts:
            keys, which = self.subjects(subject)
            first = np.zeros(len(keys), np.int64)
            first[which[::-1]] = self.interface[::-1]
            self._counts[subject.name] = np.bincount(which, minlength=len(keys)), first
        return self._counts[subject.name]

    def where(self, subject: Subject) -> Where:
        """Return the rows as findings name them."""
        keys, which = self.subjects(subject)
        return Where(self.number, self.time_ns, self.interface, keys[which])


def _int64(column: Column, rows: int) -> Int64:
    """Return a column's outermost values, an entry a row; addresses and CPIDs as numbers."""
    outer = column.outermost()
    values = outer.values
    assert isinstance(values, np.ndarray), column.name
    if values.ndim == 2:
        octets = np.zeros((len(values), 8), np.uint8)
        octets[:, 8 - values.shape[1] :] = values
        values = octets.view(">i8").reshape(-1)
    if len(outer) == rows:
        return values.astype(np.int64)
    found = np.zeros(rows, np.int64)
    found[outer.rows] = values.astype(np.int64)
    return found


def mac_of_key(key: int) -> str:
    """Return a MAC address that is a key."""
    return mac_text((key & (1 << 48) - 1).to_bytes(6, "big"))


def cpid_of_key(key: int) -> str:
    """Return a CPID that is a key, as ``02:00:00:00:cc:01/1``."""
    return cpid_text(key & (1 << 64) - 1)


def value_of(field: str, rows: Rows) -> Int64:
    """Return the values of a field as keys; ``functools.partial(value_of, field)`` is a subject's ``key``."""
    return rows[field]


def congestion_point(field: str) -> Subject:
    """Return the congestion points that a field names by their CPIDs."""
    return Subject(name="CPID", fields=(field,), key=partial(value_of, field), text=cpid_of_key)


def _interface(rows: Rows) -> Int64:
    return rows.interface


def _interface_text(key: int) -> str:
    return f"interface {key}"


SENDER = Subject(name="sender", fields=("eth.src",), key=partial(value_of, "eth.src"), text=mac_of_key)
STATION = Subject(name="station", fields=("eth.dst",), key=partial(value_of, "eth.dst"), text=mac_of_key)
PORT = Subject(name="interface", fields=(), key=_interface, text=_interface_text, moved=operator.add)
