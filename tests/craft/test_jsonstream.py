"""JSON in pieces: the values do not depend on the pieces, and an error states its line."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto import documents
from ecmproto.documents import JsonStream
from ecmproto.errors import SpecError

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


class Dribble(io.StringIO):
    """A stream that returns a few characters per call."""

    def read(self, size: int | None = -1, /) -> str:
        return super().read(3)


@given(st.lists(_values, max_size=5), st.sampled_from([None, 2]))
def test_a_list_in_small_pieces_is_the_list(values: list[Any], indent: int | None) -> None:
    stream = JsonStream(Dribble(json.dumps(values, indent=indent)), "x")
    assert list(stream.items()) == values
    assert stream.peek() == ""


@given(st.dictionaries(st.text(), _values, max_size=5))
def test_an_object_in_small_pieces_is_the_object(value: dict[str, Any]) -> None:
    stream = JsonStream(Dribble(" " + json.dumps(value) + "\n"), "x")
    assert {key: stream.value() for key in stream.members()} == value


def read(text: str) -> object:
    stream = JsonStream(Dribble(text), "in.json")
    return {key: stream.value() for key in stream.members()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "in.json, line 1: expected '{', got the end of the text"),
        ("[]", "in.json, line 1: expected '{', got '['"),
        ("{1: 2}", "in.json, line 1: expected a key in quotes, got '1'"),
        ('{"a": 1,}', "in.json, line 1: expected a key in quotes, got '}'"),
        ('{"a"', "in.json, line 1: expected ':', got the end of the text"),
        ('{"a": 1 2}', "in.json, line 1: expected ',' or '}', got '2'"),
        ('{"a": 1,\n"a": 2}', "in.json, line 2: expected each key once, got 'a' twice"),
        ('{"a":\n\n{"b": 1, "b": 2}}', "in.json, line 3: expected each key once, got 'b' twice"),
        ('{"a": NaN}', "in.json, line 1: expected a number that JSON allows, got NaN"),
        ('{"a": -Infinity}', "in.json, line 1: expected a number that JSON allows, got -Infinity"),
        ('{"a": tru}', "in.json, line 1: expected JSON, got Expecting value"),
        ('{"a": ' + "9" * 5000 + "}", "in.json, line 1: expected numbers of at most 4,300 digits, got a longer one"),
        ('{"a": ' + "[" * 100_000, "in.json, line 1: expected less than a thousand levels of nesting, got deeper nesting"),
    ],
)  # fmt: skip
def test_invalid_json_is_refused_with_its_line(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    assert str(caught.value) == sentence


def test_overlong_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUE_CHARACTERS", 1000)
    monkeypatch.setattr(documents, "_CHUNK", 100)
    stream = JsonStream(io.StringIO('["' + "x" * 10_000), "x")
    with pytest.raises(SpecError, match="a longer one"):
        list(stream.items())


def test_start_of_text_can_be_matched() -> None:
    stream = JsonStream(io.StringIO(' {"schema": "a"}'), "x")
    assert stream.starts_with(re.compile(r'\{"schema"'))
    assert stream.value() == {"schema": "a"}
