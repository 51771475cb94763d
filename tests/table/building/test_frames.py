"""Frames from a template and columns: each one what the one-frame encoder gives."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import EncodeError
from ecmproto.fuzz.strategies import frames, layers_of, values_of
from ecmproto.table.building import frames_from
from ecmproto.wire import (
    Data,
    Ethernet,
    Frame,
    IPv4,
    encode,
)
from ecmproto.wire.formats import FORMATS
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field
from ecmproto.wire.text import text_of

MIXED_OCTETS = st.binary(max_size=12) | st.sampled_from([bytes(46), bytes(64), b"\x01" * 70])


def octets(template: Frame | bytes, count: int, columns: dict[str, Any], **options: Any) -> list[bytes]:
    return list(frames_from(template, count, columns, **options).frames())


def with_values(frame: Frame, layer: int | None, key: str, value: Any) -> Frame:
    if layer is None:
        return dataclasses.replace(frame, **{key: value})
    layers = list(frame.layers)
    layers[layer] = layers[layer].replace(**{key: value})
    return dataclasses.replace(frame, layers=tuple(layers))


def column(draw: st.DrawFn, field: Field, values: list[Any]) -> Any:
    """Return values in one of the forms that columns may have."""
    forms: list[Any] = [values, tuple(values)]
    if field.is_number:
        assert field.bits is not None
        widths = [width for width in (1, 2, 4, 8) if 8 * width >= field.bits]
        sign = "i" if field.kind == "sint" else "u"
        forms += [np.array(values, f"{sign}{width}") for width in widths]
        forms.append(np.array(values, object))
    else:
        if len({len(value) for value in values}) == 1:
            matrix = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
            forms += [matrix, np.asfortranarray(matrix)]
        forms.append([text_of(field, value) for value in values])
    return draw(st.sampled_from(forms))


def number_names(frame: Frame) -> list[tuple[str, int, Field]]:
    """Return each field's name, numbered where it is not the outermost's."""
    seen: dict[str, int] = {}
    found = []
    for index, layer in enumerate(frame.layers):
        for field in layer.layout:
            number = seen.get(field.name, 0)
            seen[field.name] = number + 1
            found.append((f"{field.name}[{number}]" if number else field.name, index, field))
    return found


@st.composite
def cases(draw: st.DrawFn, templates: st.SearchStrategy[Frame]) -> tuple[Frame, dict[str, Any], list[Frame]]:
    """Draw a template, columns, and the frames that should come of them."""
    template = draw(templates)
    count = draw(st.integers(1, 4))
    expected = [template] * count
    columns: dict[str, Any] = {}
    names: list[tuple[str, int | None, Field | None]] = [*number_names(template)]
    names += [(f"eth.{key}", None, None) for key in ("padding", "trailer", "fcs")]
    for name, layer, field in draw(
        st.lists(st.sampled_from(names), unique_by=lambda name: name[0], max_size=4)
    ):
        of_field = MIXED_OCTETS if field is None or field.bits is None else values_of(field)
        key = name.removeprefix("eth.") if field is None else field.key
        if draw(st.booleans()):
            values = draw(st.lists(of_field, min_size=count, max_size=count))
            columns[name] = values if field is None else column(draw, field, values)
        else:
            columns[name] = one = draw(of_field)
            values = [one] * count
        expected = [
            with_values(frame, layer, key, value) for frame, value in zip(expected, values, strict=True)
        ]
    return template, columns, expected


ANY_LAYERS = st.lists(st.sampled_from(FORMATS).flatmap(layers_of), min_size=1, max_size=5)
ANYTHING = ANY_LAYERS.map(lambda layers: Frame(layers=tuple(layers), trailer=b"\x01"))


def check(case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool) -> None:
    template, columns, expected = case
    try:
        encoded = [encode(frame, fix=fix) for frame in expected]
    except EncodeError:
        with pytest.raises(EncodeError):
            octets(template, len(expected), columns, fix=fix)
        return
    assert octets(template, len(expected), columns, fix=fix) == encoded


@given(cases(frames() | frames(fcs_octets=4)), st.booleans())
def test_frames_are_what_the_encoder_gives_of_each(
    case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool
) -> None:
    check(case, fix)


@given(cases(ANYTHING), st.booleans())
@example(
    (
        Frame(layers=(IPv4(), Data())),
        {"ip.options": [b"1", b"123"]},
        [Frame(layers=(IPv4(options=b"1"), Data())), Frame(layers=(IPv4(options=b"123"), Data()))],
    ),
    True,
)
def test_layers_in_any_order_are_what_the_encoder_gives(
    case: tuple[Frame, dict[str, Any], list[Frame]], fix: bool
) -> None:
    check(case, fix)


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.prefix)
@given(data=st.data(), fix=st.booleans())
def test_every_field_of_every_format_can_be_set(kind: type[Layer], data: st.DataObject, fix: bool) -> None:
    base = layers_of(kind).map(lambda layer: Frame(layers=(Ethernet(), layer, Data(data=bytes(30)))))
    check(data.draw(cases(base)), fix)
