"""Construct schemas, generated codecs and typed values encode and decode the same octets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.tools.fuzz.strategies import layers_of
from ecmproto.wire.codec import E2CM, Layer
from ecmproto.wire.formats.registry import FORMATS

ANY_FORMAT = pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.prefix)


def fields_of(value: Layer) -> dict[str, Any]:
    return {field.key: getattr(value, field.key) for field in value.layout}


@ANY_FORMAT
@given(data=st.data())
def test_schema_and_codec_have_equal_octets_and_values(cls: type[Layer], data: st.DataObject) -> None:
    value = data.draw(layers_of(cls))
    octets = value.build()
    assert cls.schema.build(fields_of(value)) == octets
    assert cls.parse(octets, 0, len(octets)) == (value, len(octets), 0)
    parsed = dict(cls.schema.parse(octets))
    parsed.pop("_io", None)
    assert parsed == fields_of(value)


@ANY_FORMAT
@given(data=st.data())
def test_schema_and_codec_parse_same_of_any_octets(cls: type[Layer], data: st.DataObject) -> None:
    octets = data.draw(st.binary(min_size=cls.fixed_octets, max_size=cls.fixed_octets + 40))
    parsed = cls.parse(octets, 0, len(octets))
    if parsed is None:
        assert _has_addresses_without_a_place(cls)
        return
    value, end, missing = parsed
    if not missing and not _negative_tail(value):
        theirs = dict(cls.schema.parse(octets))
        theirs.pop("_io", None)
        assert theirs == fields_of(value)
    assert value.build() == octets[:end]


@ANY_FORMAT
def test_schema_and_layout_describe_the_same_fields(cls: type[Layer]) -> None:
    of_schema = [(name, leaf.meta, leaf.count, bits) for name, leaf, bits in _leaves(cls.schema.subcon)]
    assert of_schema == [(field.key, field.meta, field.count, field.bits) for field in cls.layout]


def _leaves(construct: Any) -> Iterator[tuple[str, Any, int | None]]:
    """Yield the name, the contents and the width in bits of each field in a construct."""
    for renamed in construct.subcons:
        inner = renamed.subcon
        if not hasattr(inner, "meta"):  # a BitStruct
            yield from _leaves(inner.subcon)
        elif inner.count is not None:
            yield renamed.name, inner, None
        else:
            bits = getattr(inner.subcon, "length", None)
            is_bits = type(inner.subcon).__name__ == "BitsInteger"
            yield renamed.name, inner, bits if is_bits else 8 * inner.subcon.sizeof()


@ANY_FORMAT
@given(data=st.data())
def test_equality_copying_pickling_and_repr_go_by_fields(cls: type[Layer], data: st.DataObject) -> None:
    value, other = data.draw(layers_of(cls)), data.draw(layers_of(cls))
    assert (value == other) == (fields_of(value) == fields_of(other))
    for same in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (same, hash(same), type(same)) == (value, hash(value), cls)
    assert all(value != object.__new__(kind) for kind in FORMATS if kind is not cls)
    assert eval(repr(value), {known.__name__: known for known in FORMATS}) == value


def _has_addresses_without_a_place(cls: type[Layer]) -> bool:
    """Return whether it has addresses after a variable field, which are complete or missing."""
    return any(field.bits is not None for field in cls.moving)


def _negative_tail(value: Layer) -> bool:
    """Return whether a length field has a value that is too small, so that construct raises an error."""
    count = value.layout[-1].count
    return bool(count and count.key and getattr(value, count.key) * count.scale < count.minus)


@ANY_FORMAT
@given(data=st.data())
def test_parsing_stays_between_start_and_stop(cls: type[Layer], data: st.DataObject) -> None:
    octets = data.draw(layers_of(cls)).build()
    before, behind = data.draw(st.tuples(st.binary(max_size=9), st.binary(max_size=9)))
    framed = before + octets + behind
    start, stop = len(before), len(before) + len(octets)
    parsed, expected = cls.parse(framed, start, stop), cls.parse(octets, 0, len(octets))
    assert parsed is not None
    assert expected is not None
    assert (parsed[0], parsed[1] - start, parsed[2]) == expected


@ANY_FORMAT
def test_truncated_fixed_part_parses_as_none(cls: type[Layer]) -> None:
    octets = cls().build() + bytes(8)
    for kept in range(cls.fixed_octets):
        assert cls.parse(octets, 0, kept) is None


@ANY_FORMAT
@given(data=st.data())
def test_missing_octets_of_the_variable_field_are_counted(cls: type[Layer], data: st.DataObject) -> None:
    value = data.draw(layers_of(cls))
    octets = value.build()
    kept = data.draw(st.integers(cls.fixed_octets, len(octets)))
    parsed = cls.parse(octets, 0, kept)
    if parsed is None:
        assert kept < len(octets)
        assert _has_addresses_without_a_place(cls)
        return
    cut, end, missing = parsed
    count = cls.layout[-1].count
    counted = bool(cls.moving) or (count is not None and bool(count.key))
    assert (end, missing) == (kept, len(octets) - kept if counted else 0)
    assert cut.build() == octets[:kept]


@ANY_FORMAT
def test_the_default_value_builds_and_reads_back(cls: type[Layer]) -> None:
    octets = cls().build()
    assert cls.parse(octets, 0, len(octets)) == (cls(), len(octets), 0)


@ANY_FORMAT
def test_repr_shows_invalid_values_too(cls: type[Layer]) -> None:
    for field in cls.layout:
        assert f"{field.key}=None" in repr(cls(**{field.key: None}))


@ANY_FORMAT
def test_values_are_frozen_and_keyword_only(cls: type[Layer]) -> None:
    key = cls.layout[0].key
    with pytest.raises(AttributeError):
        setattr(cls(), key, 0)
    with pytest.raises(AttributeError):
        delattr(cls(), key)
    with pytest.raises(TypeError):
        cls(0)  # type: ignore[call-arg]  # what must fail
    assert not hasattr(cls(), "__dict__")


def test_replace_changes_a_copy() -> None:
    value = E2CM(type=3)
    assert (value.replace(latency=5), value) == (E2CM(type=3, latency=5), E2CM(type=3))
