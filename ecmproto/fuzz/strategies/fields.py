"""Values of single fields: defaults first, boundaries often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.formats.schema import Field


def values_of(field: Field) -> SearchStrategy[Any]:
    """Return values of one fixed field: its default, its boundaries, anything its width holds."""
    assert field.bits is not None, f"{field.name} is counted by another field"
    if field.is_number:
        simplest = st.just(field.meta.default)
        return simplest | st.integers(field.minimum, field.maximum) | st.sampled_from(_boundaries(field))
    octets = field.bits // 8
    edges = [field.meta.default, bytes(octets), b"\xff" * octets]
    return st.sampled_from(edges) | st.binary(min_size=octets, max_size=octets)


def _boundaries(field: Field) -> list[int]:
    """Return the ends of the range, what stands beside them and beside zero, and each single bit."""
    assert field.bits is not None
    near = {field.minimum, field.minimum + 1, field.maximum - 1, field.maximum, -1, 0, 1}
    bits = {1 << bit for bit in range(field.bits)}
    return sorted(
        (v for v in near | bits if field.minimum <= v <= field.maximum), key=lambda v: (abs(v), v < 0)
    )
