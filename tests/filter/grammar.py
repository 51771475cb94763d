"""An independent filter parser from a Lark grammar, with which ecmproto's parser is compared."""

from __future__ import annotations

import functools
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

GRAMMAR = r"""
start: either?

?either: both (("or" | "||") both)*
?both: plain (("and" | "&&") plain)*
?plain: ("not" | "!") plain                         -> negated
      | "(" either ")"
      | relation

?relation: operand                                  -> present
         | quantifier? operand operator operand     -> comparison
         | quantifier? operand "in" set             -> membership
         | operand "not" "in" set                   -> absence

!quantifier: "any" | "all"
!operator: "==" | "eq" | "any_eq" | "===" | "all_eq" | "!=" | "ne" | "all_ne" | "!==" | "~=" | "any_ne"
         | ">" | "gt" | ">=" | "ge" | "<" | "lt" | "<=" | "le" | "contains" | "matches" | "~"

operand: sliced (("&" | "bitwise_and") sliced)*
sliced: (WORD | STRING | RAW_STRING) SLICE*

set: "{" item ("," item)* "}"
item: _value [".." _value]
_value: WORD | STRING | RAW_STRING

WORD: /-?[0-9A-Za-z_:](?:[0-9A-Za-z_:\/-]|\.(?!\.))*/
STRING: /"(?:[^"\\]|\\.)*"/s
RAW_STRING.2: /[rR]"(?:[^"\\]|\\.)*"/s
SLICE: /\[[^\[\]]*\]/

%ignore /\s+/
"""


@functools.cache
def _parser() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True)


def read(text: str) -> tuple[Any, ...]:
    """Return a filter's tree as nested tuples.

    For an invalid filter, return the position of the error and the possible continuations.

    The possible continuations are None for a character that starts no token.
    """
    try:
        return plain(_parser().parse(text))
    except UnexpectedToken as error:
        spelling = {
            each.name: each.pattern.value for each in _parser().terminals if each.pattern.type == "str"
        }
        token = error.token
        at = len(text.rstrip()) if token.type == "$END" else token.start_pos
        return at, {spelling.get(name, name) for name in error.accepts}
    except UnexpectedInput as error:
        return error.pos_in_stream, None


def plain(node: Tree[Token] | Token) -> tuple[Any, ...]:
    """Return a node as its rule, its position and its content."""
    if isinstance(node, Token):
        return str(node), node.start_pos, node.end_pos
    place = () if node.meta.empty else (node.meta.start_pos, node.meta.end_pos)
    return node.data, *place, *map(plain, node.children)
