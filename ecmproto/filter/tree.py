"""A filter that is understood: tests over operands, every field resolved, every value of its field's kind.

Nodes are frozen and comparable, and know nothing of how they are evaluated.  `Test` is what holds or does
not hold of a frame, `Operand` what gives the values of a frame: none, one or several.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from ecmproto.filter.fields import Field, Kind

Value: TypeAlias = int | bytes | str


def rank(value: Value) -> tuple[int, Value]:
    """Return what values of a kind are ordered by: of octets, the longer are greater, as in Wireshark."""
    return (len(value), value) if isinstance(value, bytes) else (0, value)


Relation = Literal["==", "!=", "<", "<=", ">", ">=", "contains"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Octets or characters from ``start`` on: ``length`` of them, or all (None).

    A negative ``start`` counts from the end; ``stop`` (inclusive), where it is given, says the end in the
    same way in place of ``length``.
    """

    start: int
    length: int | None = None
    stop: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Parts of an operand's values one after the other; one that reaches beyond the end is left out."""

    of: Field | Slice
    ranges: tuple[Range, ...]

    @property
    def kind(self) -> Kind:
        """Text of text, octets of anything else."""
        return "text" if self.of.kind == "text" else "octets"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A value that the filter gives, in the form that fields of its kind have."""

    kind: Kind
    value: Value


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """IP addresses that share their first ``bits`` bits; ``address`` has zeros behind them."""

    kind: Literal["ipv4", "ipv6"]
    address: bytes
    bits: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The bits that an operand's values and ``mask`` both have; of octets, as many as the shorter has."""

    of: Field | Slice | Masked
    mask: Constant | Field | Slice

    @property
    def kind(self) -> Kind:
        """As of what is masked."""
        return self.of.kind


Operand: TypeAlias = Field | Slice | Masked
Right: TypeAlias = Constant | Network | Operand


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The frame has the layer, or a value of the operand: of a `Slice`, one that is not empty, of a `Masked`
    one, with a bit that is set."""

    operand: Operand


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Some value on the left stands in the relation to some on the right; with ``every``, every to every one.

    Either way there must be a value on both sides.
    """

    left: Operand
    relation: Relation
    right: Right
    every: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Some value (with ``every``: every value, and there is one) holds the regular expression ``pattern``.

    It is searched in octets, in those of text as UTF-8, and letters match in either case.
    """

    operand: Operand
    pattern: bytes
    every: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The values from ``first`` to ``last``, both included."""

    first: Constant
    last: Constant


Item: TypeAlias = Constant | Network | Interval


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Some value (with ``every``: every value, and there is one) is one of the items."""

    operand: Operand
    items: tuple[Item, ...]
    every: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The test does not hold."""

    test: Test


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All tests hold; with none, every frame does."""

    tests: tuple[Test, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """One of the tests holds."""

    tests: tuple[Test, ...]


Test: TypeAlias = Present | Comparison | Match | Membership | Not | And | Or
