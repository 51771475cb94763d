"""Values of any format, from a walk over its schema."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.formats import lldp
from ecmproto.formats.base import Layer
from ecmproto.formats.bcn import BCN
from ecmproto.formats.cn import CNM, MAX_MSDU
from ecmproto.formats.e2cm import E2CM
from ecmproto.formats.ecm import ECM
from ecmproto.formats.experimental import MIN_SAMPLED_OCTETS
from ecmproto.formats.lldp import TLV
from ecmproto.formats.schema import Count, Field
from ecmproto.fuzz.strategies.fields import values_of
from ecmproto.fuzz.strategies.selection import INSISTED, selection

T = TypeVar("T", bound=Layer)

MAX_DRAWN_OCTETS = 96
"""The longest payload drawn unless the caller says otherwise: long enough for every minimum and limit."""


def layers_of(cls: type[T], **overrides: Any) -> SearchStrategy[T]:
    """Return values of a format that decode as that format.

    Fields that tell formats apart (protocol and type, opcode, version of IP) have this format's values, and
    length fields fit what they count.  ``overrides`` replaces fields by a value or a strategy; those may be
    anything, out of range too.
    """
    if not overrides:
        return _any_of(cls)  # type: ignore[arg-type, return-value]  # mypy denies that type[T] is hashable
    given = {key: _strategy(value) for key, value in overrides.items()}
    unknown = given.keys() - {field.key for field in cls.layout}
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    return _layer(cls, given)


@functools.cache
def _any_of(cls: type[Layer]) -> SearchStrategy[Layer]:
    values = _layer(cls, {})
    # by chance, an organisation's TLV could be a Congestion Notification one
    return values.filter(is_other_tlv) if cls is TLV else values


def _strategy(value: object) -> SearchStrategy[Any]:
    return value if isinstance(value, SearchStrategy) else st.just(value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How to draw a format: strategies made once, since making them costs more than drawing from them."""

    selection: SearchStrategy[dict[str, Any]]
    fields: dict[str, SearchStrategy[Any]]
    tail: Field | None
    counted: SearchStrategy[bytes] | None


@functools.cache
def _plan(cls: type[Layer]) -> _Plan:
    plain = {field.key: values_of(field) for field in cls.layout if field.count is None}
    tail = cls.layout[-1] if cls.layout[-1].count is not None else None
    return _Plan(
        selection=selection(cls),
        fields=plain | INSISTED.get(cls, {}),
        tail=tail,
        counted=_counted_octets(cls, tail.count) if tail and tail.count and tail.count.key else None,
    )


@st.composite
def _layer(draw: DrawFn, cls: type[T], given: dict[str, SearchStrategy[Any]]) -> T:
    plan = _plan(cls)  # type: ignore[arg-type]  # mypy denies that type[T] is hashable
    selected = draw(plan.selection)
    values: dict[str, Any] = {key: value for key, value in selected.items() if key not in given}
    count = plan.tail.count if plan.tail else None
    if plan.tail and plan.counted is not None and count and count.key not in given:
        # the counted octets first, so that they and not their length are what shrinks
        values[plan.tail.key] = octets = draw(given.get(plan.tail.key, plan.counted))
        values[count.key] = (len(octets) + count.minus) // count.scale
    for key, strategy in plan.fields.items():
        if key not in values:
            values[key] = draw(given.get(key, strategy))
    if plan.tail and count and plan.tail.key not in values:
        drawn = given.get(plan.tail.key)
        values[plan.tail.key] = draw(_octets(cls, count, values) if drawn is None else drawn)
    return cls(**values)


def _counted_octets(cls: type[Layer], count: Count) -> SearchStrategy[bytes]:
    key = next(field for field in cls.layout if field.key == count.key)
    most = MAX_MSDU if cls is CNM else key.maximum * count.scale - count.minus
    if count.scale == 1:
        short = st.binary(max_size=min(most, MAX_DRAWN_OCTETS))
        return short | st.sampled_from([bytes(most), b"\xff" * most])
    groups = st.lists(
        st.binary(min_size=count.scale, max_size=count.scale), max_size=min(most // count.scale, 16)
    )
    first = -count.minus % count.scale  # octets that the length does not count
    return st.builds(
        lambda one, more: one + b"".join(more), st.binary(min_size=first, max_size=first), groups
    )


def _octets(cls: type[Layer], count: Count, values: dict[str, Any]) -> SearchStrategy[bytes]:
    """Return the octets of a last field: as many as its length field says, or of no said length."""
    if count.when is not None and values[count.when[0]] not in count.when[1]:
        return st.just(b"")
    if count.key:
        octets = max(0, values[count.key] * count.scale - count.minus)
        return st.binary(min_size=octets, max_size=octets)
    least = MIN_SAMPLED_OCTETS if cls in (ECM, BCN, E2CM) else 0
    return st.binary(min_size=least, max_size=MAX_DRAWN_OCTETS)


def is_other_tlv(tlv: Layer) -> bool:
    """Return whether a TLV is no Congestion Notification one by its octets."""
    octets = tlv.build()
    return lldp.tlv_at(octets, 0, len(octets)) is TLV
