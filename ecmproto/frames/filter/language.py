r"""The language of display filters: Wireshark's (4.0), as far as it is useful on these fields.

A filter is a test, or tests joined by ``not`` (``!``), ``and`` (``&&``) and ``or`` (``||``), which bind in
this order; parentheses go around tests.  The empty filter holds for every frame.  A test is one of

=================================  =======================================================================
``cnm``, ``cnm.qntz_fb``           the frame has such a layer or field; an empty octet string is none
``eth.src[0:3] == 02:00:00``       ``==`` ``eq`` ``any_eq``: some value of the field is equal
``ip.addr != 192.0.2.0/24``        ``!=`` ``ne`` ``all_ne``: the field is present, no value is equal
``vlan.id === 5``                  ``===`` ``all_eq``: the field is present, every value is equal
``vlan.id !== 5``                  ``!==`` ``~=`` ``any_ne``: some value differs
``frame.len >= 1000``              ``>`` ``gt`` ``>=`` ``ge`` ``<`` ``lt`` ``<=`` ``le``: some value is
``frame contains "port1"``         some value contains these octets, or this text, case-sensitive
``frame matches r"port\d"``        ``matches`` ``~``: some value matches the regular expression, in any case
``vlan.id in {1, 5..9}``           some value is one of these or in one of the ranges, ends included
``vlan.id not in {1, 5..9}``       none is: equivalent to ``not vlan.id in {1, 5..9}``
``eth.dst[0] & 1``                 ``&`` ``bitwise_and``: some value has a bit in common with the mask
``all vlan.priority == 3``         ``all``: every value, at least one; ``any``: some value
=================================  =======================================================================

The left of a test is a field, the right a value or another field of the same kind.  The result of ``&`` can
be compared too: ``frame.len & 3 == 2``.  A layer, and ``frame``, the whole frame, have no value, but octets:
slices of a layer are of its own octets; ``contains`` and ``matches`` search from its first octet to the end
of the last layer.  ``encapsulated`` is the frame quoted by a message, from its first layer to its last, and
``encapsulated.NAME`` a field or layer of it.
``eth.addr``, ``ip.addr``, ``ipv6.addr``, ``tcp.port`` and ``udp.port`` are the fields of either end.

Slices are of addresses, CPIDs, octets, text and layers: ``[i:n]`` n octets from i, ``[i-j]`` from i to j,
``[i]`` one, ``[:n]`` the first n, ``[i:]`` all from i, several joined by commas; negative offsets count from
the end.  A part that extends beyond the end is left out.  The result may be empty: then the slice alone does
not hold, but it can be compared.  Longer octets are greater, whatever their values.

Values:

- numbers in decimal, ``0x`` hexadecimal, ``0`` octal, ``0b`` binary; a name of the field's own, with quotes
  or without (``arp.opcode == request``); ``true`` and ``false`` for single bits
- octets in hexadecimal pairs with ``:``, ``-``, ``.`` or nothing between, as after ``0x``, or a string; MAC
  addresses likewise, without strings
- IP addresses, also with ``/prefix``
- CPIDs as ``MAC/number``, as 8 octets (16 digits) or as a number
- text as a string, times in seconds

Strings are in double quotes; ``\"`` ``\\`` ``\a`` ``\b`` ``\f`` ``\n`` ``\r`` ``\t`` ``\v`` ``\xhh`` and
octal ``\ooo`` are octets in them.  After ``r``, as in ``r"\d"``, a backslash is a backslash.

Intended differences from Wireshark:

- Arithmetic, functions (``len``, ``count``, ``lower`` …), layer numbers (``vlan#2``), references (``${…}``),
  chains (``a < b < c``), characters (``'a'``), fields within sets and literals marked by ``.`` or ``:`` are
  refused.
- A negative number for an unsigned field (``frame.len > -1``) is refused; Wireshark takes it for a large one.
  Any other number only has to fit into 64 bits: ``vlan.id < 70000`` is true.
- Elements of a set are separated by commas, as in Wireshark 4; the blanks of older versions are refused.
- A range with its end before its start is refused; in Wireshark it is empty.
- Octets with an odd number of digits, except a single one, are refused; Wireshark accepts some.
- Slices may be of one octet written ``[2-2]``, and may precede ``in``.
- Strings are always in quotes, so that a misspelt field is not taken for one; hosts have no names.
- ``contains`` takes a string for MAC addresses too, but no empty one; of layers, ``==`` compares slices only.
- Regular expressions are RE2's, on octets, in linear time: no lookaround, backreferences, atomic or
  possessive groups; ``$`` is the very end, and ``\s`` leaves out the vertical tab.
- Flags are numbers of one bit, to which ``&`` applies; names of values are accepted in any case, and are
  listed by ``ecmproto fields``: ``eth.type == IPv4`` is refused.
- ``frame.protocols`` are the names of the layers here, and ``eth.fcs`` is octets.
- The layers of a frame, and so its fields, are those decoded by `ecmproto.wire.codec`: CN-TAGs and the layers
  after them, but nothing inside the payload of TCP, UDP or an unknown type.
- Padding and trailer belong to ``frame``; ``contains`` and ``matches`` do not search them in other layers.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ecmproto.errors import FilterError, SpecError, shown
from ecmproto.frames.filter import fields
from ecmproto.frames.filter.fields import (
    And,
    Comparison,
    Constant,
    FilterField,
    Interval,
    Item,
    Kind,
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
from ecmproto.frames.filter.literals import (
    WITH_ARTICLE,
    expression,
    literal,
    needed_for,
    quoted,
    string_octets,
    whole_number,
)
from ecmproto.frames.filter.syntax import Node, Token, Tree

MAX_DEPTH = 100
"""Maximum nesting of tests; evaluation recurses as deeply."""

_MAX_PARTS = 10
"""Maximum number of nested slices, and of masks, of an operand."""

_MAX_COPIES = 1000
"""Maximum number of copies of an octet in nested slices, which limits the size of their values."""

_NUMBER_BITS = 62
"""Width above which a number is too large for some field."""

_RELATIONS: dict[str, tuple[Relation, bool]] = {
    "==": ("==", False), "eq": ("==", False), "any_eq": ("==", False),
    "===": ("==", True), "all_eq": ("==", True),
    "!=": ("!=", True), "ne": ("!=", True), "all_ne": ("!=", True),
    "!==": ("!=", False), "~=": ("!=", False), "any_ne": ("!=", False),
    ">": (">", False), "gt": (">", False), ">=": (">=", False), "ge": (">=", False),
    "<": ("<", False), "lt": ("<", False), "<=": ("<=", False), "le": ("<=", False),
    "contains": ("contains", False),
}  # fmt: skip
"""Relation of each operator, and whether it applies to every value."""

_SLICED = frozenset(("mac", "ipv4", "ipv6", "cpid", "octets", "text", "layer"))
_MASKED = frozenset(("number", "mac", "ipv4", "ipv6", "cpid", "octets"))
_SEARCHED = frozenset(("mac", "octets", "text", "layer"))

_NUMBER = r"-?(?:0[xX][0-9a-fA-F]{1,8}|0[0-7]{0,9}|[1-9][0-9]{0,8})"
_RANGE = re.compile(rf"\s*(?:({_NUMBER})?\s*:\s*({_NUMBER})?|({_NUMBER})\s*-\s*({_NUMBER})|({_NUMBER}))\s*")


def checked(text: str, tree: Tree) -> Test:
    """Return the test of a filter's syntax tree; FilterError for a tree without meaning."""
    return _Checker(text).start(tree)


def _token(node: Node) -> Token:
    assert isinstance(node, Token)
    return node


class _Checker:
    """Checker of one filter; ``_text`` is quoted in errors."""

    def __init__(self, text: str) -> None:
        self._text = text

    def start(self, tree: Tree) -> Test:
        tests = tree.trees
        return self._test(tests[0], 0) if tests else And(tests=())

    def _fail(self, node: Node, needed: str, got: str = "", hint: str = "") -> NoReturn:
        self._fail_at(node.start, node.stop, needed, got, hint)

    def _fail_at(self, start: int, stop: int, needed: str, got: str = "", hint: str = "") -> NoReturn:
        shown_text = got or shown(self._text[start:stop])
        raise FilterError(filter=self._text, start=start, stop=stop, needed=needed, got=shown_text, hint=hint)

    # tests

    def _test(self, node: Tree, depth: int) -> Test:
        if depth > MAX_DEPTH:
            self._fail_at(node.start, node.start + 1, f"at most {MAX_DEPTH} tests within one another", "more")
        match node.data:
            case "either":
                return Or(tests=tuple(self._test(child, depth + 1) for child in node.trees))
            case "both":
                return And(tests=tuple(self._test(child, depth + 1) for child in node.trees))
            case "negated":
                return Not(test=self._test(node.trees[0], depth + 1))
            case "present":
                return Present(operand=self._operand(node.trees[0], alone=True))
            case "comparison":
                return self._comparison(node)
            case "membership":
                return self._membership(node)
            case _:
                return Not(test=self._membership(node))

    def _comparison(self, node: Tree) -> Test:
        *quantifier, left_node, operator_node, right_node = node.trees
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

    def _match(self, left: Operand, left_node: Tree, right: Tree, every: bool) -> Match:
        if left.kind not in _SEARCHED:
            self._fail(left_node, "octets, text, a MAC address or a layer to search", _named(left))
        token = _only_token(right)
        if token is None or token.type == "WORD":
            self._fail(right, "a regular expression in double quotes")
        pattern = self._string(token)
        try:
            expression(pattern)
        except SpecError as error:
            start, stop = token.start, token.stop
            at = token.find(error.where) if error.where else -1
            if at >= 0:
                start, stop = start + at, start + at + len(error.where)
            self._fail_at(start, stop, error.needed, error.got)
        return Match(operand=left, pattern=pattern, every=every)

    def _membership(self, node: Tree) -> Membership:
        *quantifier, left_node, set_node = node.trees
        left = self._operand(left_node)
        if left.kind == "layer":
            self._fail(left_node, "a field, or a slice of the layer's octets", _named(left))
        items = tuple(self._item(item, left) for item in set_node.trees)
        return Membership(operand=left, items=items, every=_every(quantifier))

    def _item(self, node: Tree, left: Operand) -> Item:
        values = [self._value(_token(child), left.kind, left) for child in node.children]
        if len(values) == 1:
            return values[0]
        first, last = values
        for value, child in zip(values, node.children, strict=True):
            if isinstance(value, Network):
                self._fail(child, f"{WITH_ARTICLE[value.kind]} without a prefix")
        assert isinstance(first, Constant)
        assert isinstance(last, Constant)
        if rank(first.value) > rank(last.value):
            self._fail(node, "a range whose end is not before its start")
        return Interval(first=first, last=last)

    # operands

    def _operand(self, node: Tree, *, alone: bool = False) -> Operand:
        """Return an operand that has to be a field; ``alone`` where its presence is the test."""
        first, *masks = node.trees
        operand: Operand = self._sliced(first, alone=alone and not masks)
        return self._masked(operand, first, masks)

    def _masked(self, operand: Operand, first: Tree, masks: list[Tree]) -> Operand:
        if masks and operand.kind not in _MASKED:
            self._fail(first, "a number, an address or octets before '&'", _named(operand))
        if len(masks) > _MAX_PARTS:
            self._fail(masks[_MAX_PARTS], f"at most {_MAX_PARTS} times '&'", "more")
        for mask in masks:
            right = self._right_part(mask, operand.kind, operand)
            if isinstance(right, Network):
                self._fail(mask, f"{WITH_ARTICLE[right.kind]} without a prefix")
            operand = Masked(of=operand, mask=right)
        return operand

    def _sliced(self, node: Tree, *, alone: bool = False) -> FilterField | Slice:
        word, *slices = map(_token, node.children)
        if word.type != "WORD":
            self._fail(word, "the name of a field")
        field = fields.find(word)
        if field is None:
            needed = "the name of a field or layer" if alone else "the name of a field"
            value = word[0] in "-:" or word[0].isdigit()
            self._fail(word, needed, hint="write values on the right" if value else fields.hint(word))
        return self._slices(field, word, slices)

    def _slices(self, field: FilterField, word: Token, slices: list[Token]) -> FilterField | Slice:
        if slices and field.kind not in _SLICED:
            self._fail(word, "an address, a CPID, octets, text or a layer to slice", _named(field))
        if slices and field.inner and field.origin == "frame" and field.kind == "layer":
            self._fail(word, "a layer of the encapsulated frame to slice", _named(field))
        if len(slices) > _MAX_PARTS:
            self._fail(slices[_MAX_PARTS], f"at most {_MAX_PARTS} slices of slices", "more")
        operand: FilterField | Slice = field
        copies = 1
        for token in slices:
            operand = Slice(of=operand, ranges=self._ranges(token))
            copies *= len(operand.ranges)
            if copies > _MAX_COPIES:
                self._fail(token, f"slices that have each octet at most {_MAX_COPIES} times", "more")
        return operand

    def _ranges(self, token: Token) -> tuple[Range, ...]:
        ranges = []
        start = token.start + 1
        for part in str(token)[1:-1].split(","):
            stop = start + len(part)
            match = _RANGE.fullmatch(part)
            if match is None or part.strip() == ":":
                self._fail_at(
                    start, max(stop, start + 1), "octets such as 0:3, 0-2, :3, 3: or 5", shown(part)
                )
            made = _range(*match.groups())
            if made is None:
                self._fail_at(start, stop, "a slice of at least one octet")
            ranges.append(made)
            start = stop + 1
        return tuple(ranges)

    # right-hand side

    def _right(self, node: Tree, kind: Kind, left: Operand) -> Right:
        first, *masks = node.trees
        right = self._right_part(first, kind, left)
        if masks and isinstance(right, Constant | Network):
            self._fail(first, "a field before '&'")
        return self._masked(right, first, masks) if masks else right  # type: ignore[arg-type]  # an operand

    def _right_part(self, node: Tree, kind: Kind, left: Operand) -> Constant | Network | FilterField | Slice:
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
            needed = f"{needed_for(_field_of(left), kind)}, or a field that is {WITH_ARTICLE[kind]}"
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
    """Return a hint for a word that is no value."""
    if token.type != "WORD":
        return ""
    if fields.find(token) is not None:
        return "write a field alone on the right, not in a set"
    if kind == "octets" and re.fullmatch("[0-9a-fA-F:.-]+", token):
        return "hexadecimal digits come in pairs"
    if kind in ("octets", "text"):
        return "write text in double quotes"
    if kind == "number" and (whole_number(token) or 0).bit_length() > _NUMBER_BITS:
        return "numbers have at most 64 bits"
    return fields.hint(token) if re.match(r"[a-z_0-9]{1,40}\.[a-z]", token) else ""


def _every(quantifier: list[Tree]) -> bool:
    return bool(quantifier) and str(quantifier[0].children[0]) == "all"


def _only_token(node: Node) -> Token | None:
    """Return the only token of an operand; None if there are several."""
    while isinstance(node, Tree):
        if len(node.children) != 1:
            return None
        node = node.children[0]
    return _token(node)


def _field_of(operand: Operand) -> FilterField | None:
    """Return the field of an operand's values, all of them or some bits; None of a slice."""
    while isinstance(operand, Masked):
        operand = operand.of
    return operand if isinstance(operand, FilterField) else None


def _source(operand: Operand) -> str:
    while isinstance(operand, Masked):
        operand = operand.of
    return f"a slice of {_source(operand.of)}" if isinstance(operand, Slice) else operand.name


def _named(operand: Operand) -> str:
    """Return the name of an operand for errors."""
    return f"{_source(operand)}, which is {WITH_ARTICLE[operand.kind]}"


def _group(kind: Kind) -> str:
    """Return the group of mutually comparable kinds."""
    return "octets" if kind == "mac" else kind


def _range(
    colon_start: str | None, length: str | None, first: str | None, last: str | None, single: str | None
) -> Range | None:
    """Return one range of a slice from the text in the brackets; None for one that is always empty."""
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
