"""A filter as text again: what is printed is read back as the same tests."""

from __future__ import annotations

from ecmproto.filter.fields import Field
from ecmproto.filter.literals import constant_text, string_text
from ecmproto.filter.tree import (
    And,
    Comparison,
    Constant,
    Interval,
    Item,
    Masked,
    Match,
    Membership,
    Network,
    Not,
    Operand,
    Or,
    Present,
    Range,
    Slice,
    Test,
)


def text_of(test: Test) -> str:
    """Return the filter that means ``test``."""
    match test:
        case Present():
            return _operand(test.operand)
        case Comparison():
            left, right = _operand(test.left), _right(test.right)
            return f"{_quantified(test)}{left} {_operator(test)} {right}"
        case Match():
            return f"{'all ' * test.every}{_operand(test.operand)} matches {string_text(test.pattern)}"
        case Membership():
            items = ", ".join(map(_item, test.items))
            return f"{'all ' * test.every}{_operand(test.operand)} in {{{items}}}"
        case Not():
            return f"not {_within(test.test)}"
        case And():
            return " and ".join(map(_within, test.tests))
        case Or():
            return " or ".join(map(_within, test.tests))


def _within(test: Test) -> str:
    text = text_of(test)
    return f"({text})" if isinstance(test, And | Or) else text


_OPERATORS = {("==", True): "===", ("!=", False): "!=="}


def _operator(test: Comparison) -> str:
    return _OPERATORS.get((test.relation, test.every), test.relation)


def _quantified(test: Comparison) -> str:
    return "all " if test.every and test.relation not in ("==", "!=") else ""


def _item(item: Item) -> str:
    if isinstance(item, Interval):
        return f"{constant_text(item.first)}..{constant_text(item.last)}"
    return constant_text(item)


def _right(right: Constant | Network | Operand) -> str:
    return constant_text(right) if isinstance(right, Constant | Network) else _operand(right)


def _operand(operand: Operand) -> str:
    match operand:
        case Field():
            return operand.name
        case Slice():
            return f"{_operand(operand.of)}[{','.join(map(_range, operand.ranges))}]"
        case Masked():
            return f"{_operand(operand.of)} & {_right(operand.mask)}"


def _range(part: Range) -> str:
    if part.stop is not None:
        return f"{part.start}-{part.stop}"
    if part.length is None:
        return f"{part.start}:"
    return f"{part.start}:{part.length}"
