r"""The language of display filters: Wireshark's (4.0), as far as it is useful on these fields.

A filter is a test, or tests joined by ``not`` (``!``), ``and`` (``&&``) and ``or`` (``||``), which bind in
this order; parentheses go around tests.  The empty filter holds for every frame.  A test is one of

=================================  =======================================================================
``cnm``, ``cnm.qntz_fb``           the frame has such a layer or field; an empty octet string is none
``eth.src[0:3] == 02:00:00``       ``==`` ``eq`` ``any_eq``: some value of the field is equal
``ip.addr != 192.0.2.0/24``        ``!=`` ``ne`` ``all_ne``: the field is there, no value is equal
``vlan.id === 5``                  ``===`` ``all_eq``: the field is there, every value is equal
``vlan.id !== 5``                  ``!==`` ``~=`` ``any_ne``: some value differs
``frame.len >= 1000``              ``>`` ``gt`` ``>=`` ``ge`` ``<`` ``lt`` ``<=`` ``le``: some value is
``frame contains "port1"``         some value holds these octets, or this text, case as written
``frame matches r"port\d"``        ``matches`` ``~``: some value holds the regular expression, in any case
``vlan.id in {1, 5..9}``           some value is one of these or in one of the ranges, ends included
``vlan.id not in {1, 5..9}``       none is: the same as ``not vlan.id in {1, 5..9}``
``eth.dst[0] & 1``                 ``&`` ``bitwise_and``: some bit is left of some value
``all vlan.priority == 3``         ``all``: every value, and there is one; ``any``: some value
=================================  =======================================================================

On the left of a test stands a field, on the right a value or another field of the same kind.  What ``&``
leaves can be compared too: ``frame.len & 3 == 2``.  A layer, and ``frame``, the whole frame, have no value,
but octets: slices of a layer are of its own octets; ``contains`` and ``matches`` look from its first octet
to the end of the last layer.  ``encapsulated`` is the frame that a message shows, from its first layer to its
last, and ``encapsulated.NAME`` a field or layer of it.
``eth.addr``, ``ip.addr``, ``ipv6.addr``, ``tcp.port`` and ``udp.port`` are those of either end.

Slices are of addresses, CPIDs, octets, text and layers: ``[i:n]`` n octets from i, ``[i-j]`` from i to j,
``[i]`` one, ``[:n]`` the first n, ``[i:]`` all from i, several joined by commas; negative positions count
from the end.  A part that reaches beyond the end is left out.  What is left may be nothing: then the slice
alone does not hold, but it can be compared.  Of octets the longer are greater, whatever they are.

Values:

- numbers in decimal, ``0x`` hexadecimal, ``0`` octal, ``0b`` binary; a name of the field's own, with quotes
  or without (``arp.opcode == request``); ``true`` and ``false`` for single bits
- octets in hexadecimal pairs with ``:``, ``-``, ``.`` or nothing between, as after ``0x``, or a string; MAC
  addresses the same without strings
- IP addresses, also with ``/prefix``
- CPIDs as ``MAC/number``, as 8 octets (16 digits) or as a number
- text as a string, times in seconds

Strings are in double quotes; ``\"`` ``\\`` ``\a`` ``\b`` ``\f`` ``\n`` ``\r`` ``\t`` ``\v`` ``\xhh`` and
octal ``\ooo`` are octets in them.  After ``r``, as in ``r"\d"``, a backslash is a backslash.

Where this differs from Wireshark on purpose:

- Arithmetic, functions (``len``, ``count``, ``lower`` …), layer numbers (``vlan#2``), references (``${…}``),
  chains (``a < b < c``), characters (``'a'``), fields within sets and literals marked by ``.`` or ``:`` are
  refused.
- A negative number for an unsigned field (``frame.len > -1``) is refused; Wireshark takes it for a large one.
  Any other number only has to fit into 64 bits: ``vlan.id < 70000`` is true.
- A range that ends before it begins is refused; in Wireshark it holds nothing.
- Octets of an odd number of digits, but for a single one, are refused; Wireshark reads something into some.
- Slices may be of one octet written ``[2-2]``, and may stand before ``in``.
- Strings are always in quotes, so that a misspelt field is not taken for one; hosts have no names.
- ``contains`` takes a string for MAC addresses too, but no empty one; of layers, ``==`` compares slices only.
- Regular expressions are RE2's, on octets, which take no longer the more there is to try: no lookaround,
  backreferences, atomic or possessive groups; ``$`` is the very end, and ``\s`` leaves out the vertical tab.
- Flags are numbers of one bit, which ``&`` takes; names of values are understood in any case, and are those
  that ``ecmproto schema`` lists: ``eth.type == IPv4`` is not understood.
- ``frame.protocols`` are the names of the layers here, and ``eth.fcs`` is octets.
- What a frame is made of, and so which fields it has, is what `ecmproto.codec` says: CN-TAGs and what is
  behind them, but nothing inside the payload of TCP, UDP or an unknown type.
- Padding and trailer belong to ``frame``, not to what ``contains`` and ``matches`` find in other layers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ecmproto.errors import FilterError, shown

if TYPE_CHECKING:
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


def parse(text: str) -> Tree[Token]:
    """Return the syntax tree of a filter, every node with its place; FilterError for what is none."""
    from lark import UnexpectedInput, UnexpectedToken

    try:
        return _parser().parse(text)
    except UnexpectedToken as error:
        raise _unexpected(text, error) from None
    except UnexpectedInput as error:
        raise _unreadable(text, error) from None


@functools.cache
def _parser() -> Lark:
    # Loading the parser library takes longer than decoding a small capture: only filters pay for it.
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True)


def _unexpected(text: str, error: UnexpectedToken) -> FilterError:
    """Return what is wrong with a token that stands where it cannot."""
    token: Token = error.token
    ended = token.type == "$END"
    start = len(text.rstrip()) if ended else token.start_pos or 0
    stop = start + 1 if ended else token.end_pos or start + 1
    got = "the end of the filter" if ended else shown(str(token))
    possible = _possible(error)
    hint = ""
    if token == "(" and "==" in possible:
        hint = "there are no functions"
    elif token.lower() in possible:
        hint = f"did you mean {token.lower()!r}?"
    return FilterError(filter=text, start=start, stop=stop, needed=_needed(possible), got=got, hint=hint)


def _possible(error: UnexpectedToken) -> set[str]:
    """Return what could have stood there: tokens as they are written, terminals by name."""
    spelling = {
        terminal.name: terminal.pattern.value
        for terminal in _parser().terminals
        if terminal.pattern.type == "str"
    }
    return {spelling.get(name, name) for name in error.accepts}


_ENDS = {"$END": "the end of the filter", ")": "')'"}


def _needed(possible: set[str]) -> str:
    if "(" in possible:
        return "a test such as frame.len > 1000"
    if "WORD" in possible:
        return "a field or a value"
    if "==" in possible:
        ends = [end for end in (")", "$END") if end in possible]
        if not ends:
            return "an operator such as =="
        return f"an operator such as ==, 'and', 'or' or {_ENDS[ends[0]]}"
    if "$END" in possible:
        return f"'and', 'or' or {_ENDS['$END']}"
    if ")" in possible:
        return f"'and', 'or' or {_ENDS[')']}"
    return " or ".join(sorted(map(repr, possible)))


_MEANT = {
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


def _unreadable(text: str, error: UnexpectedInput) -> FilterError:
    """Return what is wrong with a character that begins nothing."""
    start = error.pos_in_stream or 0
    char = text[start]
    needed = _MEANT.get(char, "a word, a number, text in double quotes or an operator")
    return FilterError(filter=text, start=start, stop=start + 1, needed=needed, got=shown(char))
