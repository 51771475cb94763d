"""Parameters of mechanisms, which have documentation and ranges and can be parsed from ``name=value`` texts.

The parameters of a mechanism are a frozen dataclass derived from :class:`Parameters`. A function named after
the unit declares each field and its documentation::

    qeq_octets: int = octets("qeq", 26_000, (100, MAX_OCTETS), source="S001", doc="queue length …")

The range checks, the command line parser and the tables in the documentation are derived from these
declarations.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from ecmproto.errors import ParameterError, did_you_mean
from ecmproto.units import NO_UNIT, exact_octets, exact_rate, exact_time, parse_octets, parse_rate, parse_time

_KEY = "ecmproto"
_RELATIONS = {
    "at least": operator.ge, "at most": operator.le, "less than": operator.lt, "more than": operator.gt
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Description of one parameter.

    ``name`` is the short name on a command line (``qeq``), and ``attribute`` is the dataclass field
    (``qeq_octets``). ``minimum`` and ``maximum`` are inclusive, and ``None`` for flags and sets. The value is
    a multiple of ``step``, unless ``step`` is 0. ``unit`` is a key of :data:`UNITS`. A parameter with the
    unit "choice" has one of ``choices``.
    """

    name: str
    attribute: str
    default: Any
    unit: str
    minimum: float | None
    maximum: float | None
    source: str
    doc: str
    step: float = 0
    choices: tuple[str, ...] = ()

    @property
    def range_text(self) -> str:
        """Return the range and unit as text for tables and errors."""
        unit = UNITS[self.unit]
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.minimum is None or self.maximum is None:
            return unit.needed
        text = f"{unit.format(self.minimum)} to {unit.format(self.maximum)}"
        return f"{text} in steps of {unit.format(self.step)}" if self.step else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Conversion of a unit's values to and from text, and the Python types of these values."""

    types: tuple[type, ...]
    needed: str
    parse: Callable[[str], Any]
    format: Callable[[Any], str]


def parse_flag(text: str) -> bool:
    """Return the truth value of ``yes``, ``on``, ``true``, ``no``, ``off`` or ``false``."""
    answers = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}
    return answers[text.strip().lower()]


def _priorities(text: str) -> frozenset[int]:
    """Return the priorities in ``text``: ``all``, ``none``, or numbers and ranges such as ``3,5-7``."""
    text = text.strip().lower()
    if text in ("all", "none"):
        return frozenset(range(8)) if text == "all" else frozenset()
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (len(first) == 1 and (not last or len(last) == 1)):
            raise ValueError(part)
        chosen.update(range(int(first), int(last or first) + 1))
    return frozenset(chosen)


def _listed(priorities: Iterable[int]) -> str:
    return ",".join(str(priority) for priority in sorted(priorities)) or "none"


UNITS: Mapping[str, Unit] = {
    "octets": Unit(types=(int,), needed="a size such as 33kB", parse=parse_octets, format=exact_octets),
    "bit/s": Unit(types=(int,), needed="a rate such as 10G", parse=parse_rate, format=exact_rate),
    "ns": Unit(types=(int,), needed="a time such as 15ms", parse=parse_time, format=exact_time),
    "count": Unit(types=(int,), needed="a whole number", parse=int, format=str),
    "ratio": Unit(types=(float, int), needed="a number", parse=float, format=lambda v: f"{v:g}"),
    "flag": Unit(types=(bool,), needed="yes or no", parse=parse_flag, format=lambda v: "yes" if v else "no"),
    "choice": Unit(types=(str,), needed="a word", parse=lambda text: text.strip().lower(), format=str),
    "priorities": Unit(
        types=(frozenset,),
        needed="priorities 0 to 7 such as 3,5-7, all or none",
        parse=_priorities,
        format=_listed,
    ),
}
"""Units that a parameter can have, by name."""


_Range = tuple[float, float]
_Value = TypeVar("_Value")

MAX_OCTETS = 2**32 - 1
"""Maximum queue length in octets, the limit of the MIB's 32-bit objects."""
MOST_OCTETS = MAX_OCTETS
"""Previous name of `MAX_OCTETS`."""


def octets(name: str, default: int, within: tuple[int, int], *, source: str, doc: str) -> int:
    """Declare a parameter in octets; ``within`` is the pair of minimum and maximum."""
    return _declared(name, default, within, unit="octets", source=source, doc=doc)


def rate(name: str, default: int, within: tuple[int, int], *, step: int = 0, source: str, doc: str) -> int:
    """Declare a rate parameter in bit/s."""
    return _declared(name, default, within, unit="bit/s", step=step, source=source, doc=doc)


def duration(
    name: str, default: int, within: tuple[int, int], *, step: int = 0, source: str, doc: str
) -> int:
    """Declare a duration parameter in ns."""
    return _declared(name, default, within, unit="ns", step=step, source=source, doc=doc)


def count(name: str, default: int, within: tuple[int, int], *, source: str, doc: str) -> int:
    """Declare an integer parameter."""
    return _declared(name, default, within, unit="count", source=source, doc=doc)


def ratio(name: str, default: float, within: _Range, *, step: float = 0, source: str, doc: str) -> float:
    """Declare a parameter that is a number without a unit."""
    return _declared(name, default, within, unit="ratio", step=step, source=source, doc=doc)


def flag(name: str, default: bool, *, source: str, doc: str) -> bool:
    """Declare a yes-or-no parameter."""
    return _declared(name, default, unit="flag", source=source, doc=doc)


def choice(name: str, default: str, choices: tuple[str, ...], *, source: str, doc: str) -> str:
    """Declare a parameter whose value is one of ``choices``."""
    return _declared(name, default, unit="choice", choices=choices, source=source, doc=doc)


def priority_set(name: str, default: frozenset[int], *, source: str, doc: str) -> frozenset[int]:
    """Declare a parameter whose value is a set of priorities."""
    return _declared(name, default, unit="priorities", source=source, doc=doc)


def _declared(name: str, default: _Value, within: _Range | None = None, **described: Any) -> _Value:
    minimum, maximum = within or (None, None)
    described |= {"name": name, "minimum": minimum, "maximum": maximum}
    # The return type is the type of the default, as for dataclasses.field.
    value: _Value = field(default=default, metadata={_KEY: described})
    return value


_AS_IN_BASE: Any = object()


def redeclared(
    base: type[Parameters],
    attribute: str,
    default: Any = _AS_IN_BASE,
    within: _Range | None = None,
    **changed: str,
) -> Any:
    """Declare a parameter with the properties of ``attribute`` in ``base``, except for given properties."""
    (known,) = [one for one in fields(base) if one.name == attribute]
    described: dict[str, Any] = known.metadata[_KEY] | changed
    if within is not None:
        described["minimum"], described["maximum"] = within
    default = known.default if default is _AS_IN_BASE else default
    return field(default=default, metadata={_KEY: described})


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Base class of all parameters of mechanisms, whose values are always within their ranges."""

    relations: ClassVar[Sequence[tuple[str, str, str]]] = ()
    """Arguments of `check_relation` for relations that all values of the class have."""

    def __post_init__(self) -> None:
        """Raise ParameterError for the first value out of range, and for the first missing relation."""
        for parameter in self.describe():
            check(parameter, getattr(self, parameter.attribute))
        for relation in self.relations:
            self.check_relation(*relation)

    def check_relation(self, name: str, relation: str, other: str) -> None:
        """Raise ParameterError unless the parameter ``name`` has the relation to the parameter ``other``."""
        known = {parameter.name: parameter for parameter in self.describe()}
        value, limit = (getattr(self, known[each].attribute) for each in (name, other))
        if not _RELATIONS[relation](value, limit):
            show = UNITS[known[name].unit].format
            raise ParameterError(name=name, needed=f"{relation} {other} ({show(limit)})", got=show(value))

    @property
    def isolation(self) -> tuple[int, int] | None:
        """Return the priority whose flows ports isolate, and the queue of isolated flows; or ``None``."""
        return None

    @classmethod
    def describe(cls) -> tuple[Parameter, ...]:
        """Return the description of each parameter, in the order of the fields."""
        return tuple(
            Parameter(attribute=one.name, default=one.default, **one.metadata[_KEY]) for one in fields(cls)
        )

    @classmethod
    def parse(cls, assignments: Iterable[str] | Mapping[str, str] = ()) -> Self:
        """Return the parameters from texts such as ``qeq=33kB``; missing parameters have defaults.

        Both short names and field names are valid. The last assignment of a parameter applies. Raises
        ParameterError for an unknown name, for a text that is invalid for the unit, and for a value out of
        range. The error for an unknown name contains the nearest name.
        """
        pairs = assignments.items() if isinstance(assignments, Mapping) else map(_split, assignments)
        known = {name: p for p in cls.describe() for name in (p.name, p.attribute)}
        values: dict[str, Any] = {}
        for name, text in pairs:
            parameter = known.get(name)
            if parameter is None:
                raise unknown_name(name, sorted({p.name for p in known.values()}), kind="parameter")
            values[parameter.attribute] = read(parameter, text)
        return cls(**values)

    def as_text(self) -> dict[str, str]:
        """Return each value as text by short name; ``parse`` converts the result back to equal parameters."""
        return {p.name: _round_trip(p, getattr(self, p.attribute)) for p in self.describe()}


def check(parameter: Parameter, value: Any) -> None:
    """Raise ParameterError unless ``value`` is valid for ``parameter``."""
    unit = UNITS[parameter.unit]
    fits = isinstance(value, unit.types) and isinstance(value, bool) == (parameter.unit == "flag")
    if fits and parameter.unit == "priorities":
        fits = all(isinstance(priority, int) and 0 <= priority <= 7 for priority in value)
    if fits and parameter.unit == "choice":
        fits = value in parameter.choices
    if fits and parameter.minimum is not None and parameter.maximum is not None:
        fits = math.isfinite(value) and parameter.minimum <= value <= parameter.maximum
        fits = fits and not (parameter.step and value / parameter.step % 1)
    if not fits:
        plain = isinstance(value, unit.types) and parameter.unit != "choice"
        got = unit.format(value) if plain else repr(value)
        raise ParameterError(name=parameter.name, needed=parameter.range_text, got=got)


def read(parameter: Parameter, text: str) -> Any:
    """Return the value of ``parameter`` in ``text``. Raises ParameterError for an invalid text."""
    try:
        return UNITS[parameter.unit].parse(text)
    except (ValueError, KeyError, ParameterError) as error:
        if isinstance(error, ParameterError) and error.needed.startswith(NO_UNIT):
            raise ParameterError(name=parameter.name, needed=error.needed, got=error.got) from None
        needed = f"{UNITS[parameter.unit].needed} ({parameter.range_text})"
        if parameter.range_text == UNITS[parameter.unit].needed:
            needed = parameter.range_text
        raise ParameterError(name=parameter.name, needed=needed, got=repr(text)) from None


def unknown_name(name: str, known: list[str], *, kind: str) -> ParameterError:
    """Return the error for a ``name`` that is not in ``known``; the error suggests the nearest known name."""
    hint = f" ({suggested})" if (suggested := did_you_mean(name, known)) else ""
    return ParameterError(name=kind, needed=f"one of {', '.join(known)}", got=f"{name!r}{hint}")


def _split(assignment: str) -> tuple[str, str]:
    name, equals, text = assignment.partition("=")
    if not equals:
        raise ParameterError(name="parameter", needed="name=value, such as qeq=33kB", got=repr(assignment))
    return name.strip(), text.strip()


def _round_trip(parameter: Parameter, value: Any) -> str:
    return f"{value}" if parameter.unit == "ratio" else UNITS[parameter.unit].format(value)
