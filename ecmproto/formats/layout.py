"""The walk over a schema: which fields a format has, where they stand, how wide they are.

`fields_of` walks the construct tree itself, so whatever is read off a `Field` is what the schema says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from construct import BitsInteger, Renamed, Struct

from ecmproto.formats.ethertypes import MAX_LENGTH
from ecmproto.formats.schema import Count, Documented, FlatStruct, Kind, Meta


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a format as its schema places it.

    ``name`` is the whole name (``cnm.qntz_fb``), ``key`` the attribute of the typed value;
    ``bit_offset`` counts from the layer's first bit, ``bits`` is None for a variable field whose octets
    are counted by ``count``.
    """

    name: str
    key: str
    bit_offset: int
    bits: int | None
    meta: Meta
    count: Count | None = None

    @property
    def kind(self) -> Kind:
        """What its octets are: a number, an address, octets."""
        return self.meta.kind

    @property
    def is_number(self) -> bool:
        """Whether its value is an int."""
        return self.meta.kind in ("uint", "sint", "cpid")

    @property
    def minimum(self) -> int:
        """The least value of a number."""
        return -(1 << (self._width - 1)) if self.meta.kind == "sint" else 0

    @property
    def maximum(self) -> int:
        """The largest value of a number."""
        return (1 << (self._width - (self.meta.kind == "sint"))) - 1

    @property
    def _width(self) -> int:
        assert self.bits is not None, f"{self.name} is no number"
        return self.bits

    def name_for(self, value: int | bytes) -> str:
        """Return the name it goes by with this value: an EtherType ≤ 1500 is an 802.3 length."""
        if self.meta.length_name and isinstance(value, int) and value <= MAX_LENGTH:
            return self.meta.length_name
        return self.name


def fields_of(schema: FlatStruct, prefix: str) -> tuple[Field, ...]:
    """Return the fields of ``schema`` in wire order, their names under ``prefix``."""
    fields = []
    offset = 0
    for key, leaf in _leaves(schema.subcon):
        bits = None if leaf.count else _bits(leaf.subcon)
        fields.append(
            Field(
                name=leaf.meta.name or f"{prefix}.{key}",
                key=key,
                bit_offset=offset,
                bits=bits,
                meta=leaf.meta,
                count=leaf.count,
            )
        )
        offset += bits or 0
    return tuple(fields)


def _leaves(construct: Any) -> Iterator[tuple[str, Documented]]:
    for renamed in construct.subcons:
        assert isinstance(renamed, Renamed)
        inner = renamed.subcon
        if isinstance(inner, Documented):
            yield renamed.name, inner
        else:  # a BitStruct: Transformed or Restreamed around a Struct
            assert isinstance(inner.subcon, Struct)
            yield from _leaves(inner.subcon)


def _bits(construct: Any) -> int:
    return int(construct.length) if isinstance(construct, BitsInteger) else 8 * int(construct.sizeof())
