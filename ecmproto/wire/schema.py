"""How a wire format is written down: once, as a class whose fields carry construct schemas.

A format is a class under ``@layer(...)``; each field is declared with ``uint``, ``sint``, ``mac`` or
``octets``, which name its width, what it means and which document says so::

    @layer("cntag", title="Congestion Notification Tag", source="802.1Q 32.17")
    class CNTag(Layer):
        flow_id: int = uint(16, default=0, doc="…", source="…")

From that one text come the frozen typed value (the class itself), its construct schema
(``CNTag.schema``, a real ``construct.Struct`` that parses and builds), and, by a walk over the schema
(`ecmproto.wire.layout`), the field table, the fast codec, the bit diagrams, the documentation and the
Hypothesis strategies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)

from construct import (
    Adapter,
    BitsInteger,
    BitStruct,
    Bytes,
    BytesInteger,
    Container,
    GreedyBytes,
    IfThenElse,
    Struct,
    Subconstruct,
    this,
)

from ecmproto.errors import DecodeError
from ecmproto.wire.ethertypes import MAX_LENGTH, EtherTypes

if TYPE_CHECKING:
    from ecmproto.wire.layout import Field

Kind = Literal["uint", "sint", "mac", "cpid", "ipv4", "ipv6", "octets"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """What a field means; it rides on the field's construct in the schema.

    ``name`` is the field's whole name where it is not ``prefix.key`` (Wireshark's own name then),
    ``length_name`` the name it goes by when its value is an 802.3 length (≤ 1500), ``flags`` a template
    such as ``macc.cbfc.enbv.c{}`` that names its bits one by one, bit 0 the least significant.
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
    flags: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many octets a variable last field has.

    Either ``scale`` times the field ``key`` minus ``minus``; or, with no key, every octet that is left.
    ``when`` = (key, values) makes the field empty unless that other field has one of those values.
    """

    key: str = ""
    scale: int = 1
    minus: int = 0
    when: tuple[str, tuple[int, ...]] | None = None


REST = Count()
"""Every octet that is left."""


class Documented(Subconstruct):  # type: ignore[misc]  # construct is untyped
    """A construct that carries a field's `Meta` and, for a variable one, its `Count`."""

    def __init__(self, subcon: Any, meta: Meta, count: Count | None = None) -> None:
        super().__init__(subcon)
        self.meta = meta
        self.count = count


class FlatStruct(Adapter):  # type: ignore[misc]
    """A Struct whose BitStruct members, named ``_bits…``, show as fields of the whole."""

    def _decode(self, obj: Any, context: Any, path: str) -> Any:
        flat = Container()
        for key, value in obj.items():
            if key.startswith("_bits"):
                flat.update((k, v) for k, v in value.items() if not k.startswith("_"))
            elif not key.startswith("_"):
                flat[key] = value
        return flat

    def _encode(self, obj: Any, context: Any, path: str) -> Any:
        nested = Container()
        for member in self.subcon.subcons:
            if member.name.startswith("_bits"):
                nested[member.name] = {bit.name: obj[bit.name] for bit in member.subcon.subcon.subcons}
            else:
                nested[member.name] = obj[member.name]
        return nested


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """A declared field before it is placed: its width in bits (None: variable) and meaning."""

    bits: int | None
    meta: Meta
    count: Count | None = None


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
) -> Any:
    """Declare an unsigned big-endian field of ``bits`` bits."""
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
        flags=flags,
    )
    return _declare(bits, meta)


def sint(bits: int, *, default: int, doc: str, source: str, unit: str = "", name: str = "") -> Any:
    """Declare a two's complement big-endian field of ``bits`` bits."""
    return _declare(bits, Meta(kind="sint", default=default, doc=doc, source=source, unit=unit, name=name))


def mac(*, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare a MAC address: six octets."""
    return _declare(48, Meta(kind="mac", default=default, doc=doc, source=source, name=name))


def address(bits: Literal[32, 128], *, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare an IPv4 (32) or IPv6 (128) address."""
    kind: Kind = "ipv4" if bits == 32 else "ipv6"
    return _declare(bits, Meta(kind=kind, default=default, doc=doc, source=source, name=name))


def octets(count: Count, *, default: bytes, doc: str, source: str, name: str = "") -> Any:
    """Declare the variable last field of a format.

    Defaults are given in each declaration, since type checkers take a field without one for required.
    """
    meta = Meta(kind="octets", default=default, doc=doc, source=source, name=name)
    return dataclasses.field(default=default, metadata={"width": Width(bits=None, meta=meta, count=count)})


def _declare(bits: int, meta: Meta) -> Any:
    return dataclasses.field(default=meta.default, metadata={"width": Width(bits=bits, meta=meta)})


Following: TypeAlias = "tuple[type[Layer] | None, int]"
"""The format of what follows a layer (None: nothing does) and the octet where that must end."""


class Formats(Protocol):
    """What a layer may ask about the formats around it."""

    @property
    def ethertypes(self) -> EtherTypes:
        """The EtherType map."""

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format that EtherType or length ``value`` announces at ``data[pos:stop]``, and where
        it may reach.
        """

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType that announces ``following``, None when none does."""


class Layer:
    """Base of every typed layer value: one format's fields as they stand in a frame.

    Frozen, slotted, keyword-only; equal when all fields are equal.  Values are not range-checked when
    constructed but when encoded, so that a decoder never has to refuse a code point.
    """

    __slots__ = ()

    schema: ClassVar[FlatStruct]
    """The construct schema."""
    prefix: ClassVar[str]
    """What the names of its fields start with, and its name in JSON and on the command line."""
    title: ClassVar[str]
    """Its name in prose."""
    source: ClassVar[str]
    """The clause or document that defines it."""

    announced_by: ClassVar[str | int] = ""
    """The role in the `EtherTypes` map, or the EtherType itself, that announces it; "" when neither does."""
    selected_by: ClassVar[tuple[int, ...]] = ()
    """Where formats share an EtherType: the selector values that mean this one; () for any other."""
    next_key: ClassVar[str] = ""
    """The field that announces what follows by EtherType or length; "" when the layer ends the frame."""

    layout: ClassVar[tuple[Field, ...]]
    """Its fields in wire order, as the walk over the schema finds them."""
    fixed_octets: ClassVar[int]
    """Octets of its fixed part."""
    parse: ClassVar[Callable[[bytes, int, int], tuple[Layer, int, int] | None]]
    """Read one from ``data[start:stop]``: (value, end, octets missing at its end), or None when not even
    the fixed part is there.  Generated from the schema by `ecmproto.wire.codec`."""
    build: Callable[[], bytes]
    """Write one; EncodeError for a value out of its field's range.  Generated from the schema."""

    def check(self, start: int, cut: bool) -> DecodeError | None:
        """Return what makes this value, found at octet ``start``, one that its format forbids, or None.

        ``cut`` says that its last octets are missing because of the capture's snap length.
        """
        return None

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the values that length, type and checksum fields should have.

        ``rest`` is what follows this layer in the frame (without padding), ``following`` the layer it
        starts with.
        """
        if not self.next_key:
            return {}
        value: int = getattr(self, self.next_key)
        ethertype = formats.ethertype_of(following)
        if ethertype is None:
            return {self.next_key: len(rest)} if value <= MAX_LENGTH >= len(rest) else {}
        old = ethertype == formats.ethertypes.c_tag and value == formats.ethertypes.old_s_tag
        return {} if old else {self.next_key: ethertype}

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format of what follows in ``data[end:stop]`` and where that may reach.

        None when this layer is the last: what is left is padding or trailer.
        """
        if not self.next_key:
            return None, end
        return formats.announced(getattr(self, self.next_key), data, end, stop)

    def __repr__(self) -> str:
        """Python that makes an equal value: the fields that differ from their defaults."""
        shown = (
            (field, getattr(self, field.key))
            for field in self.layout
            if getattr(self, field.key) != field.meta.default
        )
        return f"{type(self).__name__}({', '.join(f'{f.key}={_literal(f, v)}' for f, v in shown)})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def _literal(field: Field, value: int | bytes) -> str:
    if isinstance(value, int):
        return f"{value:#x}" if field.meta.base == "hex" else str(value)
    # a value is checked when encoded, not before, so it may be anything here
    return f"bytes.fromhex('{value.hex()}')" if isinstance(value, bytes) else repr(value)


L = TypeVar("L", bound=type[Layer])


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(uint, sint, mac, address, octets)
)
def layer(prefix: str, *, title: str, source: str, **defaults: int) -> Callable[[L], L]:
    """Make a class of declared fields a format.

    ``defaults`` are this format's own values of inherited fields (an ECM message is Protocol 0, a BCN
    message Protocol 1).
    """

    def decorate(cls: L) -> L:
        for key, default in defaults.items():
            setattr(cls, key, _with_default(cls, key, default))
            cls.__annotations__.setdefault(key, "int")
        made: Any = dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)
        made.prefix, made.title, made.source = prefix, title, source
        made.schema = _schema((f.name, f.metadata["width"]) for f in dataclasses.fields(made))

        # the walk and the codec read the finished class
        from ecmproto.wire.codec import generate
        from ecmproto.wire.layout import fields_of

        made.layout = fields_of(made.schema, prefix)
        made.fixed_octets, made.parse, made.build = generate(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _with_default(cls: type[Layer], key: str, default: int) -> Any:
    inherited: Width = next(
        field.metadata["width"]
        for base in cls.__mro__
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
        if field.name == key
    )
    assert inherited.bits is not None
    return _declare(inherited.bits, dataclasses.replace(inherited.meta, default=default))


def _schema(widths: Iterable[tuple[str, Width]]) -> FlatStruct:
    """Return the construct: octet fields as they are, runs of sub-octet fields as BitStructs."""
    members: list[Any] = []
    run: list[Any] = []
    run_bits = 0
    where: dict[str, Any] = {}
    for key, width in widths:
        if width.bits is None:
            assert width.count is not None
            members.append(key / Documented(_variable(width.count, where), width.meta, width.count))
        elif width.bits % 8 or run_bits:
            group = f"_bits{len(members)}"
            run.append(key / Documented(BitsInteger(width.bits), width.meta))
            run_bits += width.bits
            where[key] = this[group][key]
            if run_bits % 8 == 0:
                members.append(group / BitStruct(*run))
                run, run_bits = [], 0
        else:
            members.append(key / Documented(_fixed(width), width.meta))
            where[key] = this[key]
    if run_bits:
        raise TypeError(f"{run_bits} bits of {[bit.name for bit in run]} do not fill octets")
    return FlatStruct(Struct(*members))


def _fixed(width: Width) -> Any:
    assert width.bits is not None
    if width.meta.kind in ("uint", "sint", "cpid"):
        return BytesInteger(width.bits // 8, signed=width.meta.kind == "sint")
    return Bytes(width.bits // 8)


def _variable(count: Count, where: Mapping[str, Any]) -> Any:
    body = Bytes(where[count.key] * count.scale - count.minus) if count.key else GreedyBytes
    if count.when is None:
        return body
    key, values = count.when
    path = where[key]
    return IfThenElse(lambda context: path(context) in values, body, Bytes(0))
