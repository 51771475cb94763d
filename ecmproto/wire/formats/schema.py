"""Fields of a wire format: declaration and position.

``uint``, ``sint``, ``mac``, ``address`` and ``octets`` declare a field with width and meaning. `fields_of`
assigns consecutive positions to the fields of a format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, overload

from ecmproto.values import dataclass
from ecmproto.wire.formats.ethertypes import MAX_LENGTH

Kind = Literal["uint", "sint", "mac", "cpid", "ipv4", "ipv6", "octets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BitPart:
    """Named part of a number: at most 8 bits, with ``low`` bits below the part."""

    name: str
    low: int
    bits: int
    doc: str
    names: Mapping[int, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def mask(self) -> int:
        """Mask of the bits in the number."""
        return (1 << self.bits) - 1 << self.low

    def of(self, number: int) -> int:
        """Return the value of the part in ``number``."""
        return number >> self.low & (1 << self.bits) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Meaning of a field: kind, default, unit, names of values.

    ``name`` is the field's full name if the name differs from ``prefix.key``, as some names of Wireshark do.
    ``length_name`` is the full name if the value is an 802.3 length (≤ 1500). ``parts`` are the named bits.
    An empty ``source`` means the source of the format.
    """

    kind: Kind
    default: int | bytes
    doc: str
    source: str = ""
    unit: str = ""
    base: Literal["dec", "hex"] = "dec"
    names: Mapping[int, str] = dataclasses.field(default_factory=dict)
    name: str = ""
    length_name: str = ""
    parts: tuple[BitPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Number of octets of a variable field.

    With a ``key``, the number is ``scale`` times the value of the field ``key``, minus ``minus``. A ``scale``
    of 0 therefore makes the number fixed. Without a ``key``, the field contains all remaining octets.

    ``when`` = (key, values) makes the field empty unless the field ``key`` has one of ``values``.
    """

    key: str = ""
    scale: int = 1
    minus: int = 0
    when: tuple[str, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        """Raise TypeError for a scale or subtrahend without a key."""
        if not self.key and (self.scale, self.minus) != (1, 0):
            got = f"scale={self.scale}, minus={self.minus} without one"
            raise TypeError(f"Count: expected the key of a field to count by, got {got}")


REST = Count()
"""Count of all remaining octets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Declared field without a position: width in bits (``None`` for a variable field) and meaning."""

    bits: int | None
    meta: Meta
    count: Count | None = None


class Address:
    """Type of an address field: octets that can be set as text.

    No instances of this class exist. Type checkers read the accepted and returned types from the class.
    """

    @overload
    def __get__(self, value: None, owner: Any) -> Address: ...
    @overload
    def __get__(self, value: object, owner: Any) -> bytes: ...
    def __get__(self, value: object, owner: Any) -> Any:
        """Return the octets of the address."""

    def __set__(self, value: object, given: bytes | str) -> None:
        """Accept octets, or text such as ``02:00:00:00:00:01`` or ``192.0.2.1``."""


class CPID:
    """Type of a congestion point identifier: a number that can be set as text.

    No instances of this class exist. Type checkers read the accepted and returned types from the class.
    """

    @overload
    def __get__(self, value: None, owner: Any) -> CPID: ...
    @overload
    def __get__(self, value: object, owner: Any) -> int: ...
    def __get__(self, value: object, owner: Any) -> Any:
        """Return the identifier as a number."""

    def __set__(self, value: object, given: int | str) -> None:
        """Accept a number, or text such as ``02:00:00:00:00:c1/1``."""


def uint(
    bits: int,
    *,
    default: int,
    doc: str,
    source: str = "",
    kind: Kind = "uint",
    unit: str = "",
    base: Literal["dec", "hex"] = "dec",
    names: Mapping[int, str] | None = None,
    name: str = "",
    length_name: str = "",
    flags: str = "",
    parts: tuple[BitPart, ...] = (),
) -> Any:
    """Declare an unsigned big-endian field of ``bits`` bits.

    ``flags`` is a template such as ``macc.cbfc.enbv.c{}`` for the names of the lower 8 bits, one name per
    bit. Bit 0 is the least significant bit.
    """
    if flags:
        parts += tuple(
            BitPart(name=flags.format(bit), low=bit, bits=1, doc=f"{doc}: bit {bit}") for bit in range(8)
        )
    meta = Meta(
        kind=kind,
        default=default,
        doc=doc,
        source=source,
        unit=unit,
        base=base,
        names=names or {},
        name=name,
        length_name=length_name,
        parts=parts,
    )
    return declared(bits, meta)


def sint(bits: int, *, default: int, doc: str, source: str = "", unit: str = "", name: str = "") -> Any:
    """Declare a two's complement big-endian field of ``bits`` bits."""
    return declared(bits, Meta(kind="sint", default=default, doc=doc, source=source, unit=unit, name=name))


def mac(*, default: bytes, doc: str, source: str = "", name: str = "") -> Any:
    """Declare a MAC address of six octets."""
    return declared(48, Meta(kind="mac", default=default, doc=doc, source=source, name=name))


def address(bits: Literal[32, 128], *, default: bytes, doc: str, source: str = "", name: str = "") -> Any:
    """Declare an IPv4 address (32 bits) or an IPv6 address (128 bits)."""
    kind: Kind = "ipv4" if bits == 32 else "ipv6"
    return declared(bits, Meta(kind=kind, default=default, doc=doc, source=source, name=name))


def octets(count: Count, *, default: bytes, doc: str, source: str = "", name: str = "") -> Any:
    """Declare a field of variable length.

    The field is either the last field of a format, or other fields determine the length. Each declaration
    sets a default, because type checkers treat a field without a default as required.
    """
    meta = Meta(kind="octets", default=default, doc=doc, source=source, name=name)
    return dataclasses.field(default=default, metadata={"width": Width(bits=None, meta=meta, count=count)})


def declared(bits: int, meta: Meta) -> Any:
    """Return the dataclass field for a field of fixed width."""
    return dataclasses.field(default=meta.default, metadata={"width": Width(bits=bits, meta=meta)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Field of a format, with the field's position.

    ``name`` is the full name (``cnm.qntz_fb``), and ``key`` is the attribute of the layer. ``bit_offset``
    counts from the first bit of the layer. ``bits`` is ``None`` for a variable field, whose length ``count``
    describes.

    ``behind`` contains the keys of the variable fields before this field. The lengths of these fields must be
    added to the offset.
    """

    name: str
    key: str
    bit_offset: int
    bits: int | None
    meta: Meta
    source: str = ""
    """Clause or document that defines the field."""
    count: Count | None = None
    behind: tuple[str, ...] = ()
    part: BitPart | None = None
    """Named bits of the field ``key``; ``None`` means the whole field."""

    def parts(self) -> Iterator[Field]:
        """Yield the named parts of the field as fields."""
        for part in self.meta.parts:
            meta = Meta(kind="uint", default=0, doc=part.doc, names=part.names, name=part.name)
            position = self.bit_offset + self._width - part.bits - part.low
            yield dataclasses.replace(
                self, name=part.name, bit_offset=position, bits=part.bits, meta=meta, part=part
            )

    @property
    def kind(self) -> Kind:
        """Kind of the field's value, for example a number, an address or octets."""
        return self.meta.kind

    @property
    def is_number(self) -> bool:
        """Whether the field's value is an int."""
        return self.meta.kind in ("uint", "sint", "cpid")

    @property
    def described(self) -> str:
        """Meaning and unit of the field."""
        return f"{self.meta.doc}{f' [{self.meta.unit}]' if self.meta.unit else ''}"

    @property
    def minimum(self) -> int:
        """Minimum of a number field."""
        return -(1 << (self._width - 1)) if self.meta.kind == "sint" else 0

    @property
    def maximum(self) -> int:
        """Maximum of a number field."""
        return (1 << (self._width - (self.meta.kind == "sint"))) - 1

    @property
    def _width(self) -> int:
        assert self.bits is not None, f"{self.name} is no number"
        return self.bits

    def name_for(self, value: int | bytes) -> str:
        """Return the field's name for a value.

        The name of an EtherType field is different for values ≤ 1500, which are 802.3 lengths.
        """
        if self.meta.length_name and isinstance(value, int) and value <= MAX_LENGTH:
            return self.meta.length_name
        return self.name


def fields_of(declared: Iterable[tuple[str, Width]], prefix: str, source: str) -> tuple[Field, ...]:
    """Return the fields of a format.

    ``declared`` contains the key and width of each field in wire order. The full names start with ``prefix``.
    ``source`` is the source of fields without their own source. Raises TypeError for fields of bits that do
    not end on an octet boundary.
    """
    fields: list[Field] = []
    offset = 0
    following: tuple[str, ...] = ()
    for key, width in declared:
        if width.bits is None:
            _refuse_part_of_octet(fields, offset)
        fields.append(
            Field(
                name=width.meta.name or f"{prefix}.{key}",
                key=key,
                bit_offset=offset,
                bits=width.bits,
                meta=width.meta,
                source=width.meta.source or source,
                count=width.count,
                behind=following,
            )
        )
        offset += width.bits or 0
        following += (key,) if width.bits is None else ()
    _refuse_part_of_octet(fields, offset)
    return tuple(fields)


def _refuse_part_of_octet(fields: list[Field], offset: int) -> None:
    if offset % 8:
        raise TypeError(f"{fields[-1].name} ends {offset % 8} bits into an octet")


class BitField(NamedTuple):
    """Position of a number in a layer: offset and number of octets, then shift and mask of the bits."""

    at: int
    octets: int
    shift: int
    mask: int


def bit_field(field: Field) -> BitField:
    """Return the position of a number field in the layer."""
    assert field.bits is not None
    first, last = field.bit_offset // 8, -(-(field.bit_offset + field.bits) // 8)
    return BitField(first, last - first, 8 * last - field.bit_offset - field.bits, (1 << field.bits) - 1)
