"""The filter parser, compared with a grammar: equal trees, and errors at equal positions."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import FilterError
from ecmproto.frames.filter.syntax import OPERATORS, Token, Tree, needed, parse
from tests.filter import grammar
from tests.filter.test_drawn import TEXTS
from tests.filter.test_errors import WRONG
from tests.filter.test_meaning import CASES

_PIECES = st.sampled_from([
    "vlan", "5", "-1", "a.b", '"x"', r'r"\d"', "[0:3]", "[", "any", "all", "in", "not", "!", "and", "&&",
    "or", "||", "(", ")", "{", "}", ",", "..", "&", "bitwise_and", "AND", "In", "=", *OPERATORS,
])  # fmt: skip
_TESTS = st.recursive(
    st.sampled_from(["a", "a[1] & b == 5", "any a in {1, 2..3}", "a not in {x}", 'all a ~ "x"']),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).flatmap(
            lambda parts: st.sampled_from([" and ", "||", ") or (", " && not "]).map(
                lambda by: by.join(parts)
            )
        )
        | inner.map(lambda text: f"({text})")
        | inner.map(lambda text: f"!{text}")
    ),
    max_leaves=6,
)


@st.composite
def _nearly(draw: st.DrawFn) -> str:
    """Draw a filter with one inserted or replaced piece."""
    words = draw(_TESTS).split(" ")
    at = draw(st.integers(0, len(words)))
    words[at : at + draw(st.integers(0, 1))] = draw(st.lists(_PIECES, max_size=2))
    return " ".join(words)


@given(TEXTS | st.lists(_PIECES, max_size=9).map(" ".join) | _TESTS | _nearly())
@example(" ")
@example("(" * 2000 + "a" + ")" * 2000)
def test_parser_agrees_with_the_grammar(text: str) -> None:
    _same(text)


def test_the_parser_reads_examples_as_the_grammar_does() -> None:
    for text in (*CASES, *WRONG):
        _same(text)


def _same(text: str) -> None:
    expected, found = grammar.read(text), _read(text)
    if not isinstance(found, FilterError):
        assert found == expected
        return
    at, possible = expected
    assert found.start == at
    if possible is not None:
        assert found.needed == needed(possible)
        assert found.hint in ("", "there are no functions") or found.hint.split("'")[1] in possible


def _read(text: str) -> FilterError | tuple[Any, ...]:
    try:
        return _plain(parse(text))
    except FilterError as error:
        return error


def _plain(node: Tree | Token) -> tuple[Any, ...]:
    if isinstance(node, Token):
        return str(node), node.start, node.stop
    place = (node.start, node.stop) if node.children else ()
    return node.data, *place, *map(_plain, node.children)
