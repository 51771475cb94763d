"""From the syntax tree to tests: names become fields, words become values, and kinds have to fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeGuard

from ecmproto.errors import FilterError, SpecError, shown
from ecmproto.filter import fields
from ecmproto.filter.fields import Field, Kind
from ecmproto.filter.literals import A, expression, literal, needed_for, quoted, string_octets, whole_number
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
    Relation,
    Right,
    Slice,
    Test,
    rank,
)

if TYPE_CHECKING:
    from lark import Token, Tree

    Node: TypeAlias = Token | Tree[Token]

MAX_DEPTH = 100
"""How deep tests may be nested; what evaluates them calls itself as deep."""

_MAX_PARTS = 10
"""How many slices of slices, and masks, an operand may have."""

_MAX_COPIES = 1000
"""How often a slice, with those within it, may have one octet: so many times larger than a frame it gets."""

_NUMBER_BITS = 62
"""More are too many for some field."""

_RELATIONS: dict[str, tuple[Relation, bool]] = {
    "==": ("==", False), "eq": ("==", False), "any_eq": ("==", False),
    "===": ("==", True), "all_eq": ("==", True),
    "!=": ("!=", True), "ne": ("!=", True), "all_ne": ("!=", True),
    "!==": ("!=", False), "~=": ("!=", False), "any_ne": ("!=", False),
    ">": (">", False), "gt": (">", False), ">=": (">=", False), "ge": (">=", False),
    "<": ("<", False), "lt": ("<", False), "<=": ("<=", False), "le": ("<=", False),
    "contains": ("contains", False),
}  # fmt: skip
"""What each operator means, and whether it is of every value."""

_SLICED = frozenset(("mac", "ipv4", "ipv6", "cpid", "octets", "text", "layer"))
_MASKED = frozenset(("number", "mac", "ipv4", "ipv6", "cpid", "octets"))
_SEARCHED = frozenset(("mac", "octets", "text", "layer"))

_NUMBER = r"-?(?:0[xX][0-9a-fA-F]{1,8}|0[0-7]{0,9}|[1-9][0-9]{0,8})"
_RANGE = re.compile(rf"\s*(?:({_NUMBER})?\s*:\s*({_NUMBER})?|({_NUMBER})\s*-\s*({_NUMBER})|({_NUMBER}))\s*")


def checked(text: str, tree: Tree[Token]) -> Test:
    """Return what a filter's syntax tree means; FilterError for what means nothing."""
    return _Checker(text).start(tree)


def _place(node: Node) -> tuple[int, int]:
    """Return the characters of the filter that a node stands on."""
    if _is_tree(node):
        return node.meta.start_pos, node.meta.end_pos
    token = _token(node)
    return token.start_pos or 0, token.end_pos or 0


def _is_tree(node: Node) -> TypeGuard[Tree[Token]]:
    return hasattr(node, "children")  # the class is lark's, which is not loaded before there is a filter


def _trees(node: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in node.children if _is_tree(child)]


def _token(node: Node) -> Token:
    assert not _is_tree(node)
    return node  # type: ignore[return-value]


class _Checker:
    """Checks one filter; ``_text`` is where errors point."""

    def __init__(self, text: str) -> None:
        self._text = text

    def start(self, tree: Tree[Token]) -> Test:
        tests = _trees(tree)
        return self._test(tests[0], 0) if tests else And(tests=())

    def _fail(self, node: Node, needed: str, got: str = "", hint: str = "") -> NoReturn:
        start, stop = _place(node)
        self._fail_at(start, stop, needed, got, hint)

    def _fail_at(self, start: int, stop: int, needed: str, got: str = "", hint: str = "") -> NoReturn:
        told = got or shown(self._text[start:stop])
        raise FilterError(filter=self._text, start=start, stop=stop, needed=needed, got=told, hint=hint)

    # tests

    def _test(self, node: Tree[Token], depth: int) -> Test:
        if depth > MAX_DEPTH:
            start, _ = _place(node)
            self._fail_at(start, start + 1, f"at most {MAX_DEPTH} tests within one another", "more")
        match node.data:
            case "either":
                return Or(tests=tuple(self._test(child, depth + 1) for child in _trees(node)))
            case "both":
                return And(tests=tuple(self._test(child, depth + 1) for child in _trees(node)))
            case "negated":
                return Not(test=self._test(_trees(node)[0], depth + 1))
            case "present":
                return Present(operand=self._operand(_trees(node)[0], alone=True))
            case "comparison":
                return self._comparison(node)
            case "membership":
                return self._membership(node)
            case _:
                return Not(test=self._membership(node))

    def _comparison(self, node: Tree[Token]) -> Test:
        *quantifier, left_node, operator_node, right_node = _trees(node)
        left = self._operand(left_node)
        operator = operator_node.children[0]
        written = str(operator)
        if written in ("matches", "~"):
            return self._match(left, left_node, right_node, _every(quantifier))
        relation, every = _RELATIONS[written]
        if quantifier:
            every = _every(quantifier)
        if relation == "contains" and left.kind not in _SEARCHED:
            self._fail(left_node, "octets, text, a MAC address or a layer to search", _named(left))
        if relation != "contains" and left.kind == "layer":
            self._fail(left_node, "a field, or a slice of the layer's octets", _named(left))
        kind: Kind = "octets" if relation == "contains" and left.kind != "text" else left.kind
        right = self._right(right_node, kind, left)
        if relation == "contains" and isinstance(right, Constant) and not right.value:
            self._fail(right_node, "at least one octet to find")
        return Comparison(left=left, relation=relation, right=right, every=every)

    def _match(self, left: Operand, left_node: Tree[Token], right: Tree[Token], every: bool) -> Match:
        if left.kind not in _SEARCHED:
            self._fail(left_node, "octets, text, a MAC address or a layer to search", _named(left))
        token = _only_token(right)
        if token is None or token.type == "WORD":
            self._fail(right, "a regular expression in double quotes")
        pattern = self._string(token)
        try:
            expression(pattern)
        except SpecError as error:
            start, stop = _place(token)
            at = token.find(error.where) if error.where else -1
            if at >= 0:
                start, stop = start + at, start + at + len(error.where)
            self._fail_at(start, stop, error.needed, error.got)
        return Match(operand=left, pattern=pattern, every=every)

    def _membership(self, node: Tree[Token]) -> Membership:
        *quantifier, left_node, set_node = _trees(node)
        left = self._operand(left_node)
        if left.kind == "layer":
            self._fail(left_node, "a field, or a slice of the layer's octets", _named(left))
        items = tuple(self._item(item, left) for item in _trees(set_node))
        return Membership(operand=left, items=items, every=_every(quantifier))

    def _item(self, node: Tree[Token], left: Operand) -> Item:
        values = [self._value(_token(child), left.kind, left) for child in node.children]
        if len(values) == 1:
            return values[0]
        first, last = values
        for value, child in zip(values, node.children, strict=True):
            if isinstance(value, Network):
                self._fail(child, f"{A[value.kind]} without a prefix")
        assert isinstance(first, Constant)
        assert isinstance(last, Constant)
        if rank(first.value) > rank(last.value):
            self._fail(node, "a range whose end is not before its start")
        return Interval(first=first, last=last)

    # operands

    def _operand(self, node: Tree[Token], *, alone: bool = False) -> Operand:
        """Return an operand that has to be a field; ``alone`` where its presence is the test."""
        first, *masks = _trees(node)
        operand: Operand = self._sliced(first, alone=alone and not masks)
        return self._masked(operand, first, masks)

    def _masked(self, operand: Operand, first: Tree[Token], masks: list[Tree[Token]]) -> Operand:
        if masks and operand.kind not in _MASKED:
            self._fail(first, "a number, an address or octets before '&'", _named(operand))
        if len(masks) > _MAX_PARTS:
            self._fail(masks[_MAX_PARTS], f"at most {_MAX_PARTS} times '&'", "more")
        for mask in masks:
            right = self._right_part(mask, operand.kind, operand)
            if isinstance(right, Network):
                self._fail(mask, f"{A[right.kind]} without a prefix")
            operand = Masked(of=operand, mask=right)
        return operand

    def _sliced(self, node: Tree[Token], *, alone: bool = False) -> Field | Slice:
        word, *slices = map(_token, node.children)
        if word.type != "WORD":
            self._fail(word, "the name of a field")
        field = fields.find(word)
        if field is None:
            needed = "the name of a field or layer" if alone else "the name of a field"
            value = word[0] in "-:" or word[0].isdigit()
            self._fail(word, needed, hint="values stand on the right" if value else fields.hint(word))
        return self._slices(field, word, slices)

    def _slices(self, field: Field, word: Token, slices: list[Token]) -> Field | Slice:
        if slices and field.kind not in _SLICED:
            self._fail(word, "an address, a CPID, octets, text or a layer to slice", _named(field))
        if slices and field.inner and field.origin == "frame" and field.kind == "layer":
            self._fail(word, "a layer of the encapsulated frame to slice", _named(field))
        if len(slices) > _MAX_PARTS:
            self._fail(slices[_MAX_PARTS], f"at most {_MAX_PARTS} slices of slices", "more")
        operand: Field | Slice = field
        copies = 1
        for token in slices:
            operand = Slice(of=operand, ranges=self._ranges(token))
            copies *= len(operand.ranges)
            if copies > _MAX_COPIES:
                self._fail(token, f"slices that have each octet at most {_MAX_COPIES} times", "more")
        return operand

    def _ranges(self, token: Token) -> tuple[Range, ...]:
        ranges = []
        start = (token.start_pos or 0) + 1
        for part in str(token)[1:-1].split(","):
            stop = start + len(part)
            found = _RANGE.fullmatch(part)
            if found is None or part.strip() == ":":
                self._fail_at(
                    start, max(stop, start + 1), "octets such as 0:3, 0-2, :3, 3: or 5", shown(part)
                )
            made = _range(*found.groups())
            if made is None:
                self._fail_at(start, stop, "a slice of at least one octet")
            ranges.append(made)
            start = stop + 1
        return tuple(ranges)

    # what stands on the right

    def _right(self, node: Tree[Token], kind: Kind, left: Operand) -> Right:
        first, *masks = _trees(node)
        right = self._right_part(first, kind, left)
        if masks and isinstance(right, Constant | Network):
            self._fail(first, "a field before '&'")
        return self._masked(right, first, masks) if masks else right  # type: ignore[arg-type]  # an operand

    def _right_part(self, node: Tree[Token], kind: Kind, left: Operand) -> Constant | Network | Field | Slice:
        word, *slices = map(_token, node.children)
        field = fields.find(word) if word.type == "WORD" else None
        if not slices:
            value = literal(word, kind, _field_of(left)) if word.type == "WORD" else None
            if value is not None:
                return value
            if field is None:
                return self._value(word, kind, left)
        if field is None:
            self._fail(word, "the name of a field to slice", hint=fields.hint(word))
        right = self._slices(field, word, slices)
        if _group(right.kind) != _group(kind):
            needed = f"{needed_for(_field_of(left), kind)}, or a field that is {A[kind]}"
            self._fail(node, needed, _named(right))
        return right

    def _value(self, token: Token, kind: Kind, left: Operand) -> Constant | Network:
        field = _field_of(left)
        if token.type == "WORD":
            value = literal(token, kind, field)
        else:
            value = quoted(self._string(token), kind, field)
        if value is None:
            needed = f"{needed_for(field, kind)} for {_source(left)}"
            self._fail(token, needed, hint=_literal_hint(token, kind))
        return value

    def _string(self, token: Token) -> bytes:
        try:
            return string_octets(token)
        except SpecError as error:
            self._fail(token, error.needed, error.got)


def _literal_hint(token: Token, kind: Kind) -> str:
    """Return what could help whoever wrote a value that is none."""
    if token.type != "WORD":
        return ""
    if fields.find(token) is not None:
        return "a field stands alone on the right, not in a set"
    if kind == "octets" and re.fullmatch("[0-9a-fA-F:.-]+", token):
        return "hexadecimal digits come in pairs"
    if kind in ("octets", "text"):
        return "text stands in double quotes"
    if kind == "number" and (whole_number(token) or 0).bit_length() > _NUMBER_BITS:
        return "numbers have at most 64 bits"
    return fields.hint(token) if re.match(r"[a-z_0-9]{1,40}\.[a-z]", token) else ""


def _every(quantifier: list[Tree[Token]]) -> bool:
    return bool(quantifier) and str(quantifier[0].children[0]) == "all"


def _only_token(node: Node) -> Token | None:
    """Return the token that an operand consists of; None where it is more."""
    while _is_tree(node):
        if len(node.children) != 1:
            return None
        node = node.children[0]
    return _token(node)


def _field_of(operand: Operand) -> Field | None:
    """Return the field whose values an operand has, all of them or some bits; None of a slice."""
    while isinstance(operand, Masked):
        operand = operand.of
    return operand if isinstance(operand, Field) else None


def _source(operand: Operand) -> str:
    while isinstance(operand, Masked):
        operand = operand.of
    return f"a slice of {_source(operand.of)}" if isinstance(operand, Slice) else operand.name


def _named(operand: Operand) -> str:
    """Return what an operand is, as an error says it was given."""
    return f"{_source(operand)}, which is {A[operand.kind]}"


def _group(kind: Kind) -> str:
    """Return what kinds that can be compared have in common."""
    return "octets" if kind == "mac" else kind


def _range(
    colon_start: str | None, length: str | None, first: str | None, last: str | None, single: str | None
) -> Range | None:
    """Return one range of a slice from what stands in the brackets; None for one that can hold nothing."""
    if single is not None:
        made = Range(start=_int(single), length=1)
    elif first is not None and last is not None:
        made = Range(start=_int(first), stop=_int(last))
        if (made.start < 0) == (_int(last) < 0) and made.start > _int(last):
            return None
    else:
        made = Range(start=_int(colon_start or "0"), length=None if length is None else _int(length))
    return None if made.length is not None and made.length < 1 else made


def _int(text: str) -> int:
    number = whole_number(text)
    assert number is not None, text
    return number
