"""A compiled filter, and how a text becomes one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ecmproto.filter.checker import checked
from ecmproto.filter.evaluation import Predicate, predicate
from ecmproto.filter.fields import Field
from ecmproto.filter.grammar import parse
from ecmproto.filter.tree import And, Comparison, Constant, Masked, Network, Not, Operand, Or, Slice, Test


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A display filter: its ``text`` as given and the ``test`` that it means; made by `compile_filter`.

    Filters are equal when texts are; they can be copied and pickled.
    """

    text: str
    test: Test = dataclasses.field(compare=False, repr=False)
    fields: tuple[str, ...] = dataclasses.field(compare=False)
    """The names of the fields and layers that it asks for, each once, in order."""
    matches: Predicate = dataclasses.field(compare=False, repr=False)
    """``matches(captured)``: whether it holds of a decoded frame with its capture record (`Captured`)."""

    def __reduce__(self) -> tuple[object, ...]:
        return compile_filter, (self.text,)


def compile_filter(text: str) -> Filter:
    """Return the filter that ``text`` writes; FilterError, which points at the place, when it is none."""
    test = checked(text, parse(text))
    names = dict.fromkeys(field.name for field in fields_of(test))
    return Filter(text=text, test=test, fields=tuple(names), matches=predicate(test))


def fields_of(test: Test) -> Iterator[Field]:
    """Yield the fields and layers that a test asks for, in order."""
    match test:
        case And(tests=tests) | Or(tests=tests):
            for each in tests:
                yield from fields_of(each)
        case Not():
            yield from fields_of(test.test)
        case Comparison():
            yield from _of_operand(test.left)
            if not isinstance(test.right, Constant | Network):
                yield from _of_operand(test.right)
        case _:
            yield from _of_operand(test.operand)


def _of_operand(operand: Operand) -> Iterator[Field]:
    match operand:
        case Field():
            yield operand
        case Slice():
            yield from _of_operand(operand.of)
        case Masked():
            yield from _of_operand(operand.of)
            if not isinstance(operand.mask, Constant):
                yield from _of_operand(operand.mask)
