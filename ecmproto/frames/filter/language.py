r"""The language of display filters: the parts of Wireshark's language (4.0) that suit these fields.

A filter is a test, or several tests joined by ``not`` (``!``), ``and`` (``&&``) and ``or`` (``||``), in order
of decreasing precedence.  Tests can be put in parentheses.  The empty filter selects every frame.  The
following tests exist:

=================================  =======================================================================
``cnm``, ``cnm.qntz_fb``           the frame has such a layer or field; an empty octet string is no field
``eth.src[0:3] == 02:00:00``       ``==`` ``eq`` ``any_eq``: some value of the field is equal
``ip.addr != 192.0.2.0/24``        ``!=`` ``ne`` ``all_ne``: the field is present, no value is equal
``vlan.id === 5``                  ``===`` ``all_eq``: the field is present, every value is equal
``vlan.id !== 5``                  ``!==`` ``~=`` ``any_ne``: some value differs
``frame.len >= 1000``              ``>`` ``gt`` ``>=`` ``ge`` ``<`` ``lt`` ``<=`` ``le``: some value is
``frame contains "port1"``         some value contains these octets, or this text, case-sensitive
``frame matches r"port\d"``        ``matches`` ``~``: some value matches the regular expression, in any case
``vlan.id in {1, 5..9}``           some value is an element or in a range, both ends included
``vlan.id not in {1, 5..9}``       equivalent to ``not vlan.id in {1, 5..9}``
``eth.dst[0] & 1``                 ``&`` ``bitwise_and``: some value has a bit in common with the mask
``all vlan.priority == 3``         ``all``: every value, and at least one value; ``any``: some value
=================================  =======================================================================

The left side of a test is a field.  The right side is a value, or another field of the same type.  The result
of ``&`` can also be compared: ``frame.len & 3 == 2``.

A layer has no value, but it has octets.  ``frame`` is a layer with the octets of the whole frame.  A slice of
a layer contains octets of that layer only.  ``contains`` and ``matches`` search from the first octet of a
layer to the end of the last layer.  ``encapsulated`` is the frame quoted by a message, from its first layer
to its last layer.  ``encapsulated.NAME`` is a field or layer of the quoted frame.  ``eth.addr``, ``ip.addr``,
``ipv6.addr``, ``tcp.port`` and ``udp.port`` are the source and destination fields together.

Addresses, CPIDs, octets, text and layers can be sliced.  ``[i:n]`` is n octets from i, ``[i-j]`` is the
octets from i to j, ``[i]`` is one octet, ``[:n]`` is the first n octets, and ``[i:]`` is all octets from i.
Several slices are separated by commas.  Negative offsets count from the end.  A part that extends beyond the
end is left out.  An empty result is false as a test, but it can be compared.  Longer octet strings are
greater, whatever their values.

Values have the following notations:

- Numbers are decimal, hexadecimal (``0x``), octal (``0``) or binary (``0b``).  A name of the field's value is
  also a number, with or without quotes (``arp.opcode == request``).  Single bits can be ``true`` or
  ``false``.
- Octets are a string, or pairs of hexadecimal digits.  ``:``, ``-``, ``.`` or nothing separates the pairs.
  After ``0x``, nothing separates the pairs.  MAC addresses have the same notations, except strings.
- IP addresses can have a ``/prefix``.
- CPIDs are ``MAC/number``, 8 octets (16 digits) or a number.
- Text is a string.  Times are in seconds.

Strings are in double quotes.  In strings, ``\"`` ``\\`` ``\a`` ``\b`` ``\f`` ``\n`` ``\r`` ``\t`` ``\v``
``\xhh`` and octal ``\ooo`` represent octets.  In strings with the prefix ``r``, as in ``r"\d"``, a backslash
represents itself.

The language intentionally differs from Wireshark's:

- Arithmetic, functions (``len``, ``count``, ``lower`` …), layer numbers (``vlan#2``), references (``${…}``),
  chains (``a < b < c``), characters (``'a'``), fields within sets and literals marked by ``.`` or ``:`` are
  refused.
- A negative number for an unsigned field (``frame.len > -1``) is refused.  Wireshark treats it as a large
  number.  All other numbers must only fit into 64 bits: ``vlan.id < 70000`` is true.
- Commas separate the elements of a set, as in Wireshark 4.  The blanks of older versions are refused.
- A range with its end before its start is refused.  In Wireshark, it is an empty range.
- Octets with an odd number of digits are refused, except a single digit.  Wireshark accepts some of them.
- A slice can be written ``[2-2]`` for one octet.  A slice may precede ``in``.
- Strings are always in quotes, so that a misspelt field is not read as a string.  Hosts have no names.
- ``contains`` accepts a string for MAC addresses too, but no empty string.  ``==`` compares slices of layers,
  but no whole layers.
- Regular expressions have RE2's syntax and search octets in linear time.  Lookaround, backreferences, atomic
  groups and possessive groups are refused.  ``$`` matches only at the very end.  ``\s`` does not match the
  vertical tab.
- Flags are numbers of one bit, to which ``&`` applies.  The case of value names is ignored.  Only names
  listed by ``ecmproto fields`` are accepted: ``eth.type == IPv4`` is refused.
- ``frame.protocols`` lists the names of the layers in this decoder, and ``eth.fcs`` is octets.
- The layers of a frame, and so its fields, are the layers decoded by `ecmproto.wire.codec`.  These include
  CN-TAGs and the layers after CN-TAGs, but no layers inside the payload of TCP, UDP or an unknown type.
- Padding and trailer belong to ``frame``.  In other layers, ``contains`` and ``matches`` do not search them.
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
"""Maximum nesting of tests, and so the maximum recursion depth of the evaluation."""

_MAX_PARTS = 10
"""Maximum number of nested slices, and maximum number of masks, of an operand."""

_MAX_COPIES = 1000
"""Maximum number of copies of an octet in nested slices, which limits the size of their values."""

_NUMBER_BITS = 62
"""Width in bits above which a number may be too large for a field."""

_RELATIONS: dict[str, tuple[Relation, bool]] = {
    "==": ("==", False), "eq": ("==", False), "any_eq": ("==", False),
    "===": ("==", True), "all_eq": ("==", True),
    "!=": ("!=", True), "ne": ("!=", True), "all_ne": ("!=", True),
    "!==": ("!=", False), "~=": ("!=", False), "any_ne": ("!=", False),
    ">": (">", False), "gt": (">", False), ">=": (">=", False), "ge": (">=", False),
    "<": ("<", False), "lt": ("<", False), "<=": ("<=", False), "le": ("<=", False),
    "contains": ("contains", False),
}  # fmt: skip
"""Relation of each operator, and whether the relation must be true for every value."""

_SLICED = frozenset(("mac", "ipv4", "ipv6", "cpid", "octets", "text", "layer"))
_MASKED = frozenset(("number", "mac", "ipv4", "ipv6", "cpid", "octets"))
_SEARCHED = frozenset(("mac", "octets", "text", "layer"))

_NUMBER = r"-?(?:0[xX][0-9a-fA-F]{1,8}|0[0-7]{0,9}|[1-9][0-9]{0,8})"
_RANGE = re.compile(rf"\s*(?:({_NUMBER})?\s*:\s*({_NUMBER})?|({_NUMBER})\s*-\s*({_NUMBER})|({_NUMBER}))\s*")


def checked(text: str, tree: Tree) -> Test:
    """Return the test for the syntax tree of a filter; raise FilterError for a tree without meaning."""
    return _Checker(text).start(tree)


def _token(node: Node) -> Token:
    assert isinstance(node, Token)
    return node


class _Checker:
    """Checker of one filter; errors quote ``_text``."""

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
        """Return an operand that must be a field.

        ``alone`` means that the test is for the presence of the field.
        """
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
    """Return a hint for a word that is not a value."""
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
    """Return the token of an operand that has only one token; ``None`` for all other operands."""
    while isinstance(node, Tree):
        if len(node.children) != 1:
            return None
        node = node.children[0]
    return _token(node)


def _field_of(operand: Operand) -> FilterField | None:
    """Return the field of an operand's values, masked or not; ``None`` for a slice."""
    while isinstance(operand, Masked):
        operand = operand.of
    return operand if isinstance(operand, FilterField) else None


def _source(operand: Operand) -> str:
    while isinstance(operand, Masked):
        operand = operand.of
    return f"a slice of {_source(operand.of)}" if isinstance(operand, Slice) else operand.name


def _named(operand: Operand) -> str:
    """Return the name of an operand for error messages."""
    return f"{_source(operand)}, which is {WITH_ARTICLE[operand.kind]}"


def _group(kind: Kind) -> str:
    """Return the group of types that can be compared with each other."""
    return "octets" if kind == "mac" else kind


def _range(
    colon_start: str | None, length: str | None, first: str | None, last: str | None, single: str | None
) -> Range | None:
    """Return one range of a slice from the text in brackets; ``None`` for a range that is always empty."""
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
