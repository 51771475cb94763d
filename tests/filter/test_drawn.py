"""Random filters raise only the documented errors, and a printed filter has the meaning of the original
filter.
"""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import FilterError
from ecmproto.frames.filter import Filter, compile_filter
from ecmproto.frames.filter import fields as known_fields
from ecmproto.frames.filter.evaluation import predicate
from ecmproto.frames.filter.fields import Comparison, Not, Test
from ecmproto.frames.filter.language import checked
from ecmproto.frames.filter.literals import text_of
from ecmproto.frames.filter.syntax import parse
from tests.filter.captured import bundled
from tests.filter.drawn_tests import TESTS, comparisons
from tests.filter.test_meaning import CASES

FRAMES = [*bundled("mixed.pcap"), *bundled("malformed.pcapng"), *bundled("qcn_pbb.pcap")]

# text

_PIECES = st.sampled_from([
    *known_fields.known(), "encapsulated.ip.src", "==", "!=", "===", "!==", "~=", "<", ">=", "contains",
    "matches", "~", "in", "not", "!", "and", "or", "&&", "||", "(", ")", "{", "}", ",", "..", "&", "any",
    "all", "[0:3]", "[-1]", "[2-1]", "[", "]", "5", "0x10", "-3", "08", "1.5", "10.0.0.0/8", "::1/64", "c1",
    "02:00:00:00:00:01", "02:00:00:00:00:01/1",
    '"text"', 'r"\\d+"', '"\\x"', '"', "true", "request", "#", "$", "é", "\x00", "\ud800",
])  # fmt: skip
_SOUP = st.lists(_PIECES, max_size=12).map(" ".join) | st.lists(_PIECES, max_size=6).map("".join)


@st.composite
def _edited(draw: st.DrawFn) -> str:
    """Draw a filter with a few characters of it changed, doubled or lost."""
    text = draw(st.sampled_from([*CASES]))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        kept = at + draw(st.integers(-2, 2))
        text = text[:at] + draw(_PIECES | st.text(max_size=2)) + text[max(0, kept) :]
    return text


TEXTS = _SOUP | st.text(max_size=40) | _edited()


def attempt(text: str) -> Filter | FilterError:
    try:
        return compile_filter(text)
    except FilterError as error:
        return error


@given(TEXTS)
@example("cnm[0:99999999999999999999999999] == 02")
@example("eth.src[" + "9" * 5000 + "]")
def test_any_text_is_filter_or_filter_error(text: str) -> None:
    compiled = attempt(text)
    if isinstance(compiled, FilterError):
        assert str(compiled).encode().count(b"\n") == 2
        assert 0 <= compiled.start < compiled.stop <= len(text) + 1
        return
    again = compile_filter(text_of(compiled.test))
    assert again.test == compiled.test
    for frame in FRAMES:
        assert compiled.matches(frame) == again.matches(frame)


@given(TESTS)
def test_printed_filter_parses_back_and_evaluates(test: Test) -> None:
    text = text_of(test)
    assert checked(text, parse(text)) == test
    holds, fails = predicate(test), predicate(Not(test=test))
    for frame in FRAMES:
        assert holds(frame) is (not fails(frame))


@given(comparisons())
def test_every_implies_some(test: Comparison) -> None:
    some = predicate(Comparison(left=test.left, relation=test.relation, right=test.right))
    every = predicate(Comparison(left=test.left, relation=test.relation, right=test.right, every=True))
    for frame in FRAMES:
        assert some(frame) or not every(frame)
