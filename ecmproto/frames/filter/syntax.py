"""Hand-written parser of display filters, which turns text into a syntax tree.

Generating a parser from a grammar takes longer than filtering a hundred thousand frames. The tests compare
this parser with the following grammar:

    filter:     [or]
    or:         and (("or" | "||") and)*
    and:        plain (("and" | "&&") plain)*
    plain:      ("not" | "!") plain | "(" or ")" | relation
    relation:   operand
              | ["any" | "all"] operand OPERATOR operand
              | ["any" | "all"] operand "in" set
              | operand "not" "in" set
    operand:    sliced (("&" | "bitwise_and") sliced)*
    sliced:     VALUE SLICE*
    set:        "{" item ("," item)* "}"
    item:       VALUE [".." VALUE]

A VALUE is a WORD, or text in double quotes (STRING or RAW_STRING).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from typing import NamedTuple, NoReturn, TypeAlias

from ecmproto.errors import FilterError, shown


class Token(str):
    """A token of a filter; its type is a token class or, for a keyword or sign, its text."""

    __slots__ = ("start", "stop", "type")
    type: str
    start: int
    stop: int


@dataclasses.dataclass(slots=True)
class Tree:
    """A rule of the grammar with its parts, and its start and stop in the filter."""

    data: str
    children: list[Node]
    start: int
    stop: int

    @property
    def trees(self) -> list[Tree]:
        """Children that are trees."""
        return [child for child in self.children if isinstance(child, Tree)]


Node: TypeAlias = Token | Tree

_VALUES = ("WORD", "STRING", "RAW_STRING")
_QUANTIFIERS = ("any", "all")
OPERATORS = (
    "==", "eq", "any_eq", "===", "all_eq", "!=", "ne", "all_ne", "!==", "~=", "any_ne", ">", "gt", ">=", "ge",
    "<", "lt", "<=", "le", "contains", "matches", "~",
)  # fmt: skip
_OR, _AND, _NOT, _MASK = ("or", "||"), ("and", "&&"), ("not", "!"), ("&", "bitwise_and")
_KEYWORDS = frozenset(
    each
    for each in (*OPERATORS, *_QUANTIFIERS, *_OR, *_AND, *_NOT, *_MASK, "in", "(", ")", "{", "}", ",", "..")
)
_SIGNS = "|".join(
    re.escape(each) for each in sorted(_KEYWORDS, key=len, reverse=True) if not each[0].isalpha()
)
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<RAW_STRING>[rR]"(?:[^"\\]|\\.)*")
    | (?P<STRING>"(?:[^"\\]|\\.)*")
    | (?P<SLICE>\[[^\[\]]*\])
    | (?P<WORD>-?[0-9A-Za-z_:](?:[0-9A-Za-z_:/-]|\.(?!\.))*)
    | (?P<SIGN>{_SIGNS})
    | (?P<END>\Z)
    )""",
    re.DOTALL | re.VERBOSE,
)
_SPACE = re.compile(r"\s*")
_END = "$END"


def parse(text: str) -> Tree:
    """Return the syntax tree of a filter, with the position of every node.

    Raises FilterError for invalid text.
    """
    return _Parser(text).filter()


class _Part(NamedTuple):
    """A test, with its start and stop including the parentheses around the test."""

    tree: Tree
    start: int
    stop: int


class _Level:
    """The tests between a pair of parentheses, or outside all parentheses."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.negations: list[int] = []
        """Start of each ``not`` before the next test."""
        self.both: list[_Part] = []
        self.either: list[_Part] = []


class _Parser:
    """Left-to-right parser, without recursion; open parentheses are stored in a list."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = self._read(0)
        self._stop = 0
        """End of the previous token."""
        self._more: tuple[str, ...] = ()
        """Types of tokens that could have continued the previous test."""

    def filter(self) -> Tree:
        levels = [_Level(0)]
        if self._next.type == _END:
            return Tree("start", [], 0, 0)
        while True:
            if self._next.type in _NOT:
                levels[-1].negations.append(self._take().start)
                continue
            if self._next.type == "(":
                levels.append(_Level(self._take().start))
                continue
            relation = self._relation()
            part: _Part | None = _Part(relation, relation.start, relation.stop)
            while part is not None:
                part = self._joined(levels, part)
                if part is not None and not levels:
                    return Tree("start", [part.tree], part.start, part.stop)

    def _joined(self, levels: list[_Level], part: _Part) -> _Part | None:
        """Add a test to its level; return the result of the level, or ``None`` if more tests follow."""
        level, inside = levels[-1], len(levels) > 1
        while level.negations:
            start = level.negations.pop()
            part = _Part(Tree("negated", [part.tree], start, part.stop), start, part.stop)
        level.both.append(part)
        if self._next.type in _AND:
            self._take()
            return None
        level.either.append(_together("both", level.both))
        level.both = []
        if self._next.type in _OR:
            self._take()
            return None
        end = ")" if inside else _END
        if self._next.type != end:
            # At the end, or at a closing parenthesis, the test is complete.
            more = () if self._next.type in _ENDS else self._more
            self._fail((*more, *_AND, *_OR, end))
        result = _together("either", level.either)
        levels.pop()
        if inside:
            self._take()
            self._more = ()
            return _Part(result.tree, level.start, self._stop)
        return result

    def _relation(self) -> Tree:
        children: list[Node] = []
        if self._next.type in _QUANTIFIERS:
            token = self._take()
            children.append(Tree("quantifier", [token], token.start, token.stop))
        elif self._next.type not in _VALUES:
            self._fail((*_VALUES, *_QUANTIFIERS, *_NOT, "("))
        quantified = bool(children)
        children.append(self._operand())
        token = self._next
        if token.type in OPERATORS:
            self._take()
            children += [Tree("operator", [token], token.start, token.stop), self._operand()]
            return self._made("comparison", children)
        self._more = (*self._more, *OPERATORS, "in", *([] if quantified else ["not"]))
        if token.type == "in":
            self._take()
            children.append(self._set())
            return self._made("membership", children)
        if quantified:
            self._fail(self._more)
        if token.type != "not":
            return self._made("present", children)
        self._take()
        self._expect("in")
        children.append(self._set())
        return self._made("absence", children)

    def _operand(self) -> Tree:
        parts: list[Node] = [self._sliced()]
        while self._next.type in _MASK:
            self._take()
            parts.append(self._sliced())
        return self._made("operand", parts)

    def _sliced(self) -> Tree:
        parts: list[Node] = [self._expect(*_VALUES)]
        while self._next.type == "SLICE":
            parts.append(self._take())
        self._more = ("SLICE", *_MASK)
        return self._made("sliced", parts)

    def _set(self) -> Tree:
        start = self._expect("{").start
        items: list[Node] = [self._item()]
        while self._next.type == ",":
            self._take()
            items.append(self._item())
        if self._next.type != "}":
            self._fail((*self._more, ",", "}"))
        self._take()
        self._more = ()
        return Tree("set", items, start, self._stop)

    def _item(self) -> Tree:
        values: list[Node] = [self._expect(*_VALUES)]
        self._more = ("..",)
        if self._next.type == "..":
            self._take()
            values.append(self._expect(*_VALUES))
            self._more = ()
        return self._made("item", values)

    def _made(self, rule: str, children: list[Node]) -> Tree:
        return Tree(rule, children, children[0].start, self._stop)

    # tokens

    def _expect(self, *possible: str) -> Token:
        if self._next.type not in possible:
            self._fail(possible)
        return self._take()

    def _take(self) -> Token:
        """Return the next token and read the token after it."""
        token = self._next
        self._stop = token.stop
        self._next = self._read(token.stop)
        return token

    def _read(self, at: int) -> Token:
        match = _TOKEN.match(self._text, at)
        if match is None or match.lastgroup is None:
            raise _unreadable(self._text, at)
        token = Token(match[match.lastgroup])
        token.start, token.stop = match.span(match.lastgroup)
        token.type = _END if match.lastgroup == "END" else token if token in _KEYWORDS else match.lastgroup
        return token

    def _fail(self, possible: tuple[str, ...]) -> NoReturn:
        raise _unexpected(self._text, self._next, possible)


def _together(rule: str, parts: list[_Part]) -> _Part:
    """Return a rule made of several parts; a single part is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    start, stop = parts[0].start, parts[-1].stop
    return _Part(Tree(rule, [part.tree for part in parts], start, stop), start, stop)


def _unexpected(text: str, token: Token, possible: tuple[str, ...]) -> FilterError:
    """Return the error for an unexpected token, with the expected tokens."""
    ended = token.type == _END
    start = len(text.rstrip()) if ended else token.start
    stop = start + 1 if ended else token.stop
    got = "the end of the filter" if ended else shown(str(token))
    hint = ""
    if token == "(" and "==" in possible:
        hint = "there are no functions"
    elif token.lower() in possible:
        hint = f"did you mean {token.lower()!r}?"
    return FilterError(filter=text, start=start, stop=stop, needed=needed(possible), got=got, hint=hint)


_ENDS = {")": "')'", _END: "the end of the filter"}


def needed(possible: Collection[str]) -> str:
    """Return a description of the expected words, signs and types of tokens."""
    if "(" in possible:
        return "a test such as frame.len > 1000"
    if "WORD" in possible:
        return "a field or a value"
    end = next((_ENDS[end] for end in (")", _END) if end in possible), "")
    if "==" in possible:
        return f"an operator such as ==, 'and', 'or' or {end}" if end else "an operator such as =="
    return f"'and', 'or' or {end}" if end else " or ".join(sorted(map(repr, possible)))


_HINTS = {
    '"': "the double quote that ends the text",
    "[": "a slice with its ']', such as [0:3]",
    "'": "double quotes around text",
    "=": "== to compare",
    "|": "|| or 'or'",
    "$": "the name of a field",
    "#": "a field without a layer number",
    "+": "a test without arithmetic",
    "*": "a test without arithmetic",
    "%": "a test without arithmetic",
    ".": "a name or a value that starts with a letter or digit",
}


def _unreadable(text: str, at: int) -> FilterError:
    """Return the error for a character that starts no token."""
    space = _SPACE.match(text, at)
    start = space.end() if space is not None else at
    char = text[start]
    expected = _HINTS.get(char, "a word, a number, text in double quotes or an operator")
    return FilterError(filter=text, start=start, stop=start + 1, needed=expected, got=shown(char))
