"""Fields of filters by name, and parsed filters: tests over operands.

A `FilterField` contains the type and the origin of its values, which are derived from the schemas. A new
format is therefore available in filters as soon as it is registered. A `Test` is true or false for a frame.
An `Operand` can have any number of values in a frame. In parsed filters, all fields are resolved, and all
values have the type of their field. Parsed filters are frozen, comparable and independent of their
evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ecmproto.errors import nearest_name
from ecmproto.values import dataclass
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import ALIASES, CAPTURE_FIELDS, FORMATS
from ecmproto.wire.formats.schema import Field as WireField
from ecmproto.wire.formats.wrapper import inner_frames

Kind = Literal["number", "mac", "ipv4", "ipv6", "cpid", "octets", "text", "time", "layer"]
"""Types of values.

Python values are int, but bytes for MAC addresses, IP addresses and octets, and str for text. A time is in
ns.
"""

Origin = Literal["record", "frame", "layers"]
Part = Literal["whole", "type", "length", "bits"]

INNER = "encapsulated"

Nesting = Literal["", "inner", "outer"]
"""Frames inside wrappers to which a field belongs: all frames, only the innermost, or only the outermost."""
NESTINGS: tuple[Nesting, ...] = ("", "inner", "outer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """The source of a field in a layer: the attribute ``key`` of the layer, or a part of it.

    A field that is an EtherType or an 802.3 length has two names. For such a field, ``part`` is "type" or
    "length", and a value is present under only one of the two names. If ``part`` is "bits", the source is
    ``bits`` bits, starting with bit ``low`` of the field.
    """

    format: type[Layer]
    key: str
    part: Part = "whole"
    low: int = 0
    bits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterField:
    """A field or layer of filters; equal to fields with the same name and nesting.

    ``origin`` is the record of the capture, the whole frame or the layers of the frame. ``sources`` are the
    sources of the field in layers. ``formats`` are the formats that a layer's name stands for. With
    ``inner``, the field belongs to the frame quoted by a message. ``nesting`` restricts the field to
    innermost or outermost frames. ``bits`` is the width of a number, 64 by default.
    """

    name: str
    kind: Kind = dataclasses.field(compare=False)
    origin: Origin = dataclasses.field(compare=False, default="layers", repr=False)
    sources: tuple[FieldSource, ...] = dataclasses.field(compare=False, default=(), repr=False)
    formats: tuple[type[Layer], ...] = dataclasses.field(compare=False, default=(), repr=False)
    inner: bool = dataclasses.field(compare=False, default=False, repr=False)
    nesting: Nesting = ""
    signed: bool = dataclasses.field(compare=False, default=False, repr=False)
    bits: int = dataclasses.field(compare=False, default=64, repr=False)
    names: Mapping[int, str] = dataclasses.field(compare=False, default_factory=dict, repr=False)
    """Names of code points, by number."""


BOTH_ENDS = {
    "eth.addr": ("eth.dst", "eth.src"),
    "ip.addr": ("ip.src", "ip.dst"),
    "ipv6.addr": ("ipv6.src", "ipv6.dst"),
    "tcp.port": ("tcp.srcport", "tcp.dstport"),
    "udp.port": ("udp.srcport", "udp.dstport"),
}
"""Wireshark's names for a source field and a destination field together."""


def find(name: str) -> FilterField | None:
    """Return the field or layer called ``name``; ``None`` if the name is unknown."""
    nesting, of_nesting = nested(name)
    if nesting:
        field = known().get(of_nesting)
        if field is None or field.origin != "layers":
            return None
        return dataclasses.replace(field, name=str(name), nesting=nesting)
    if name == INNER or not name.startswith(f"{INNER}."):
        return known().get(name)
    outer = known().get(name.removeprefix(f"{INNER}."))
    if outer is None or outer.origin == "record" or outer.inner:
        return None
    return dataclasses.replace(outer, name=str(name), inner=True)


def nested(name: str) -> tuple[Nesting, str]:
    """Return the nesting prefix of a name, and the name without the prefix."""
    prefix, _, rest = name.partition(".")
    return (prefix, rest) if prefix in NESTINGS[1:] and rest else ("", name)


def frames_within(nesting: Nesting, formats: Sequence[type[Layer]]) -> slice:
    """Return the slice of a frame's layers that belong to the frames of ``nesting``."""
    inner = inner_frames(formats) if nesting else []
    if not inner:
        return slice(None)
    return slice(inner[-1], None) if nesting == "inner" else slice(inner[0])


def hint(name: str) -> str:
    """Return a hint with the nearest name, or with the command that lists all names."""
    nesting, _ = nested(name)
    prefix = f"{nesting or INNER}." if nesting or name.startswith(f"{INNER}.") else ""
    possible = [other for other in known() if find(prefix + other) is not None]
    near = nearest_name(name.removeprefix(prefix).lower(), possible)
    return f"did you mean {prefix + near!r}?" if near else "`ecmproto fields` lists them"


@functools.cache
def known() -> Mapping[str, FilterField]:
    """Return every field and layer by name, except fields of encapsulated frames."""
    fields: dict[str, FilterField] = {}
    for field in (*_layers(), *_of_capture(), *_of_layers()):
        fields[field.name] = _merged(fields[field.name], field) if field.name in fields else field
    for name, ends in BOTH_ENDS.items():
        sources = [source for end in ends for source in fields[end].sources]
        fields[name] = dataclasses.replace(fields[ends[0]], name=name, sources=tuple(sources))
    for alias, name in ALIASES.items():
        fields[alias] = dataclasses.replace(fields[name], name=alias)
    return fields


def _merged(field: FilterField, other: FilterField) -> FilterField:
    return dataclasses.replace(field, sources=field.sources + other.sources, bits=max(field.bits, other.bits))


def _layers() -> Iterator[FilterField]:
    """Yield a layer for the name of every format, and for Wireshark's names of protocols."""
    formats: dict[str, list[type[Layer]]] = {}
    for cls in FORMATS:
        prefixes = {field.name.partition(".")[0]: 0 for field in cls.layout}
        # An extension header is no IPv6 header, although its fields have the prefix of IPv6.
        for name in {cls.prefix: 0} | ({} if "." in cls.prefix else prefixes):
            formats.setdefault(name, []).append(cls)
    yield FilterField(name="frame", kind="layer", origin="record")
    yield FilterField(name=INNER, kind="layer", origin="frame", inner=True)
    formats |= dict.fromkeys(("roce", "rocev2"), formats["bth"])
    for name, classes in formats.items():
        yield FilterField(name=name, kind="layer", formats=tuple(classes))


_CAPTURE_KINDS: dict[str, Kind] = {
    "uint": "number",
    "time": "time",
    "duration": "time",
    "text": "text",
    "octets": "octets",
}
DISPLAYED = "frame.time_delta_displayed"
"""Field with the time since the previously displayed frame, which is the frame that the filter selected
last.
"""
IN_SEQUENCE = ("frame.number", "frame.time_relative", "frame.time_delta", DISPLAYED)
"""Fields that depend on the preceding frames."""
_RECORD = (*IN_SEQUENCE, "frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id")


def _of_capture() -> Iterator[FilterField]:
    for name, kind, _, _ in CAPTURE_FIELDS:
        origin: Origin = "record" if name in _RECORD else "frame"
        yield FilterField(name=name, kind=_CAPTURE_KINDS[kind], origin=origin)


_NUMBERS: dict[str, Kind] = {"uint": "number", "sint": "number"}


def _of_layers() -> Iterator[FilterField]:
    for cls in FORMATS:
        for field in cls.layout:
            yield from _of_layer(cls, field)


def _of_layer(cls: type[Layer], field: WireField) -> Iterator[FilterField]:
    meta = field.meta
    kind: Kind = _NUMBERS.get(field.kind) or field.kind  # type: ignore[assignment]  # the others are the same
    bits = field.bits or 0
    whole = FieldSource(format=cls, key=field.key, part="type" if meta.length_name else "whole")
    signed = field.kind == "sint"
    yield FilterField(
        name=field.name, kind=kind, sources=(whole,), signed=signed, bits=bits, names=meta.names
    )
    if meta.length_name:
        length = FieldSource(format=cls, key=field.key, part="length")
        yield FilterField(name=meta.length_name, kind=kind, sources=(length,), bits=bits)
    for part in meta.parts:
        some = FieldSource(format=cls, key=field.key, part="bits", low=part.low, bits=part.bits)
        yield FilterField(name=part.name, kind="number", sources=(some,), bits=part.bits, names=part.names)


Value: TypeAlias = int | bytes | str


def rank(value: Value) -> tuple[int, Value]:
    """Return the sort key of a value; longer octet strings are greater, as in Wireshark."""
    return (len(value), value) if isinstance(value, bytes) else (0, value)


Relation = Literal["==", "!=", "<", "<=", ">", ">=", "contains"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``length`` octets or characters from ``start``; with ``None``, all octets from ``start``.

    A negative ``start`` counts from the end. If ``stop`` is given, it replaces ``length``. ``stop`` is
    inclusive, and a negative ``stop`` counts from the end.
    """

    start: int
    length: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Concatenated parts of an operand's values; a part that extends beyond the end is left out."""

    of: FilterField | Slice
    ranges: tuple[Range, ...]

    @property
    def kind(self) -> Kind:
        """Type of the slice: text for a slice of text, octets for all other slices."""
        return "text" if self.of.kind == "text" else "octets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant in a filter, represented like the values of fields of the same type."""

    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """IP addresses with a common prefix of ``bits`` bits; the other bits of ``address`` are zero."""

    kind: Literal["ipv4", "ipv6"]
    address: bytes
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The bitwise AND of an operand's values and ``mask``; octets are truncated to the shorter length."""

    of: FilterField | Slice | Masked
    mask: Constant | FilterField | Slice

    @property
    def kind(self) -> Kind:
        """Type of the masked operand."""
        return self.of.kind


Operand: TypeAlias = FilterField | Slice | Masked
Right: TypeAlias = Constant | Network | Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Test for the presence of a layer or of a value.

    For a `Slice`, the value must not be empty. For a `Masked` operand, a bit must be set.
    """

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Test that some value on the left is in the relation to some value on the right.

    With ``every``, every left value must be in the relation to every right value. Both sides must have at
    least one value.
    """

    left: Operand
    relation: Relation
    right: Right
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Test that some value matches the regular expression ``pattern``.

    With ``every``, every value must match, and there must be at least one value. The expression is searched
    in octets, or in text as UTF-8. The case of letters is ignored.
    """

    operand: Operand
    pattern: bytes
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The values from ``first`` to ``last``, including both ends."""

    first: Constant
    last: Constant


Item: TypeAlias = Constant | Network | Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Test that some value is one of the items.

    With ``every``, every value must be one of the items, and there must be at least one value.
    """

    operand: Operand
    items: tuple[Item, ...]
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """Test that another test is false."""

    test: Test


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """Test that all tests are true; without tests, the test is true for every frame."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """Test that at least one of the tests is true."""

    tests: tuple[Test, ...]


Test: TypeAlias = Present | Comparison | Match | Membership | Not | And | Or
