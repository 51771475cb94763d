"""The fields of a wire format: their declaration and their position.

A field is declared with ``uint``, ``sint``, ``mac``, ``address`` or ``octets``, with its width and meaning;
`fields_of` places the fields of a format one after the other.
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
    """Named bits of a number, at most 8, above ``low`` others."""

    name: str
    low: int
    bits: int
    doc: str
    names: Mapping[int, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def mask(self) -> int:
        """The mask of the bits in the number."""
        return (1 << self.bits) - 1 << self.low

    def of(self, number: int) -> int:
        """Return its value in a number."""
        return number >> self.low & (1 << self.bits) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """The meaning of a field: kind, default, unit, names.

    ``name`` is the field's full name where it is not ``prefix.key`` (Wireshark's own name then),
    ``length_name`` its name when its value is an 802.3 length (≤ 1500), ``parts`` are its named bits.
    """

    kind: Kind
    default: int | bytes
    doc: str
    source: str
    unit: str = ""
    base: Literal["dec", "hex"] = "dec"
    names: Mapping[int, str] = dataclasses.field(default_factory=dict)
    name: str = ""
    length_name: str = ""
    parts: tuple[BitPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The number of octets of a variable field.

    Either ``scale`` times the field ``key`` minus ``minus``, a fixed number with a scale of 0; or, with no
    key, all remaining octets. ``when`` = (key, values) makes the field empty unless that other field has one
    of those values.
    """

    key: str = ""
    scale: int = 1
    minus: int = 0
    when: tuple[str, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        """Refuse arguments without meaning unless there is a key."""
        if not self.key and (self.scale, self.minus) != (1, 0):
            got = f"scale={self.scale}, minus={self.minus} without one"
            raise TypeError(f"Count: expected the key of a field to count by, got {got}")


REST = Count()
"""All remaining octets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A declared field without its position: its width in bits (None: variable) and meaning."""

    bits: int | None
    meta: Meta
    count: Count | None = None


class Address:
    """The type of an address field: octets, which may be given as text.

    A program has no instances of this class; type checkers read the accepted and returned types from it.
    """

    @overload
    def __get__(self, value: None, owner: Any) -> Address: ...
    @overload
    def __get__(self, value: object, owner: Any) -> bytes: ...
    def __get__(self, value: object, owner: Any) -> Any:
        """Return octets."""

    def __set__(self, value: object, given: bytes | str) -> None:
        """Accept octets, or text such as ``02:00:00:00:00:01`` or ``192.0.2.1``."""


class CPID:
    """The type of a congestion point's identifier: a number, which may be given as text; see `Address`."""

    @overload
    def __get__(self, value: None, owner: Any) -> CPID: ...
    @overload
    def __get__(self, value: object, owner: Any) -> int: ...
    def __get__(self, value: object, owner: Any) -> Any:
        """Return a number."""

    def __set__(self, value: object, given: int | str) -> None:
        """Accept a number, or text such as ``02:00:00:00:00:c1/1``."""


def uint(
    bits: int,
    *,
    default: int,
    doc: str,
    source: str,
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

    ``flags`` is a template such as ``macc.cbfc.enbv.c{}`` that names its lower 8 bits one by one, bit 0 the
    least significant.
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


def sint(bits: int, *, default: int, doc: str, source: str, unit: str = "", name: str = "") -> Any:
    """Declare a two's complement big-endian field of ``bits`` bits."""
    return declared(bits, Meta(kind="sint", default=default, doc=doc, source=source, unit=unit, name=name))


def mac(*, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare a MAC address: six octets."""
    return declared(48, Meta(kind="mac", default=default, doc=doc, source=source, name=name))


def address(bits: Literal[32, 128], *, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare an IPv4 (32) or IPv6 (128) address."""
    kind: Kind = "ipv4" if bits == 32 else "ipv6"
    return declared(bits, Meta(kind=kind, default=default, doc=doc, source=source, name=name))


def octets(count: Count, *, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare a field of variable length: the last of a format, or several that other fields count.

    Defaults are given in each declaration, since type checkers take a field without one for required.
    """
    meta = Meta(kind="octets", default=default, doc=doc, source=source, name=name)
    return dataclasses.field(default=default, metadata={"width": Width(bits=None, meta=meta, count=count)})


def declared(bits: int, meta: Meta) -> Any:
    """Return the dataclass field of a field of fixed width."""
    return dataclasses.field(default=meta.default, metadata={"width": Width(bits=bits, meta=meta)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a format, with its position.

    ``name`` is the full name (``cnm.qntz_fb``), ``key`` the attribute of the typed value; ``bit_offset``
    counts from the layer's first bit, ``bits`` is None for a variable field whose octets are counted by
    ``count``. ``behind`` are the keys of the variable fields before it, whose octets are to be added to the
    offset.
    """

    name: str
    key: str
    bit_offset: int
    bits: int | None
    meta: Meta
    count: Count | None = None
    behind: tuple[str, ...] = ()
    part: BitPart | None = None
    """The named bits of the field ``key``; None: the field itself."""

    def parts(self) -> Iterator[Field]:
        """Yield its named bits as fields."""
        for part in self.meta.parts:
            meta = Meta(
                kind="uint",
                default=0,
                doc=part.doc,
                source=self.meta.source,
                names=part.names,
                name=part.name,
            )
            place = self.bit_offset + self._width - part.bits - part.low
            yield dataclasses.replace(
                self, name=part.name, bit_offset=place, bits=part.bits, meta=meta, part=part
            )

    @property
    def kind(self) -> Kind:
        """The kind of its value: a number, an address, octets."""
        return self.meta.kind

    @property
    def is_number(self) -> bool:
        """Whether its value is an int."""
        return self.meta.kind in ("uint", "sint", "cpid")

    @property
    def described(self) -> str:
        """The meaning and the unit."""
        return f"{self.meta.doc}{f' [{self.meta.unit}]' if self.meta.unit else ''}"

    @property
    def minimum(self) -> int:
        """The minimum of a number."""
        return -(1 << (self._width - 1)) if self.meta.kind == "sint" else 0

    @property
    def maximum(self) -> int:
        """The maximum of a number."""
        return (1 << (self._width - (self.meta.kind == "sint"))) - 1

    @property
    def _width(self) -> int:
        assert self.bits is not None, f"{self.name} is no number"
        return self.bits

    def name_for(self, value: int | bytes) -> str:
        """Return its name with this value: an EtherType ≤ 1500 is an 802.3 length."""
        if self.meta.length_name and isinstance(value, int) and value <= MAX_LENGTH:
            return self.meta.length_name
        return self.name


def fields_of(declared: Iterable[tuple[str, Width]], prefix: str) -> tuple[Field, ...]:
    """Return the fields of a format, declared in wire order as (key, width), their names under ``prefix``.

    TypeError for fields of bits that do not end with an octet.
    """
    fields: list[Field] = []
    offset = 0
    behind: tuple[str, ...] = ()
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
                count=width.count,
                behind=behind,
            )
        )
        offset += width.bits or 0
        behind += (key,) if width.bits is None else ()
    _refuse_part_of_octet(fields, offset)
    return tuple(fields)


def _refuse_part_of_octet(fields: list[Field], offset: int) -> None:
    if offset % 8:
        raise TypeError(f"{fields[-1].name} ends {offset % 8} bits into an octet")


class BitField(NamedTuple):
    """The position of a number in its layer: its octets, and its bits in those."""

    at: int
    octets: int
    shift: int
    mask: int


def bit_field(field: Field) -> BitField:
    """Return the position of a number in its layer."""
    assert field.bits is not None
    first, last = field.bit_offset // 8, -(-(field.bit_offset + field.bits) // 8)
    return BitField(first, last - first, 8 * last - field.bit_offset - field.bits, (1 << field.bits) - 1)
