"""Fields for filters by name, and parsed filters: tests over operands.

A `FilterField` contains the kind and origin of its values, all derived from the schemas: a new format is
available in filters as soon as it is listed. A `Test` holds or does not hold for a frame; an `Operand` has
none, one or several values in a frame. All fields in them are resolved, all values have their field's kind;
they are frozen, comparable and independent of their evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ecmproto.values import dataclass
from ecmproto.wire.codec.document import nearest
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import ALIASES, FORMATS, catalogue
from ecmproto.wire.formats.schema import Field as WireField
from ecmproto.wire.formats.wrapper import inner_frames

Kind = Literal["number", "mac", "ipv4", "ipv6", "cpid", "octets", "text", "time", "layer"]
"""Kinds of values: int, but bytes for MAC and IP addresses and octets, and str for text; a time is in ns."""

Origin = Literal["record", "frame", "layers"]
Part = Literal["whole", "type", "length", "bits"]

INNER = "encapsulated"

Nesting = Literal["", "inner", "outer"]
"""The frames of a wrapped frame that a field belongs to: all, or the innermost or outermost alone."""
NESTINGS: tuple[Nesting, ...] = ("", "inner", "outer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """The source of a field in a layer: its attribute ``key``, whole or in part.

    A field that is an EtherType or an 802.3 length has two names: ``part`` is then "type" or "length", and
    the field is present under one of them at a time. For "bits", it is the ``bits`` bits from the field's bit
    ``low`` up.
    """

    format: type[Layer]
    key: str
    part: Part = "whole"
    low: int = 0
    bits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterField:
    """A field or layer of filters; equal when the names and nestings are.

    ``origin`` is the capture's record, the frame as a whole or its layers; ``sources`` are its sources in
    layers, ``formats`` the formats of a layer's name. With ``inner``, it belongs to the frame quoted by a
    message; ``nesting`` are the frames in wrappers that it belongs to. ``bits`` is the width of a number, 64
    by default.
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
    """Named code points."""


BOTH_ENDS = {
    "eth.addr": ("eth.dst", "eth.src"),
    "ip.addr": ("ip.src", "ip.dst"),
    "ipv6.addr": ("ipv6.src", "ipv6.dst"),
    "tcp.port": ("tcp.srcport", "tcp.dstport"),
    "udp.port": ("udp.srcport", "udp.dstport"),
}
"""Wireshark's names for the fields of either end."""


def find(name: str) -> FilterField | None:
    """Return the field or layer called ``name``; None if there is none."""
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
    """Return the nesting of a name, and the name without it."""
    prefix, _, rest = name.partition(".")
    return (prefix, rest) if prefix in NESTINGS[1:] and rest else ("", name)


def frames_within(nesting: Nesting, formats: Sequence[type[Layer]]) -> slice:
    """Return the slice of a frame's layers that are in the frames of ``nesting``."""
    inner = inner_frames(formats) if nesting else []
    if not inner:
        return slice(None)
    return slice(inner[-1], None) if nesting == "inner" else slice(inner[0])


def hint(name: str) -> str:
    """Return a hint with the nearest name, or with the command that lists all names."""
    nesting, _ = nested(name)
    prefix = f"{nesting or INNER}." if nesting or name.startswith(f"{INNER}.") else ""
    possible = [other for other in known() if find(prefix + other) is not None]
    suggestion = nearest(name.removeprefix(prefix).lower(), possible)
    if not suggestion.startswith("did"):
        return "`ecmproto fields` lists them"
    return suggestion.replace("'", f"'{prefix}", 1)


@functools.cache
def known() -> Mapping[str, FilterField]:
    """Return every field and layer by its name, except fields of encapsulated frames."""
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
    """Yield a layer for every format's own name, and for Wireshark's names of protocols."""
    formats: dict[str, list[type[Layer]]] = {}
    for cls in FORMATS:
        prefixes = {field.name.partition(".")[0]: 0 for field in cls.layout}
        # An extension header is no IPv6 header, though its fields are named after it.
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
"""The field that depends on the displayed frames, in a filter on those that it selected before."""
IN_SEQUENCE = ("frame.number", "frame.time_relative", "frame.time_delta", DISPLAYED)
"""Fields that depend on the preceding frames."""
_RECORD = (*IN_SEQUENCE, "frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id")


def _of_capture() -> Iterator[FilterField]:
    for entry in catalogue():
        if entry.formats == ("frame",):
            origin: Origin = "record" if entry.name in _RECORD else "frame"
            yield FilterField(name=entry.name, kind=_CAPTURE_KINDS[entry.type], origin=origin)


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
        length = dataclasses.replace(whole, part="length")
        yield FilterField(name=meta.length_name, kind=kind, sources=(length,), bits=bits)
    for part in meta.parts:
        some = dataclasses.replace(whole, part="bits", low=part.low, bits=part.bits)
        yield FilterField(name=part.name, kind="number", sources=(some,), bits=part.bits, names=part.names)


Value: TypeAlias = int | bytes | str


def rank(value: Value) -> tuple[int, Value]:
    """Return the sort key of a value: longer octets are greater, as in Wireshark."""
    return (len(value), value) if isinstance(value, bytes) else (0, value)


Relation = Literal["==", "!=", "<", "<=", ">", ">=", "contains"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Octets or characters from ``start`` on: ``length`` of them, or all (None).

    A negative ``start`` counts from the end; ``stop`` (inclusive), if given, is the end in the same notation
    and replaces ``length``.
    """

    start: int
    length: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Parts of an operand's values, concatenated; a part that extends beyond the end is left out."""

    of: FilterField | Slice
    ranges: tuple[Range, ...]

    @property
    def kind(self) -> Kind:
        """Kind of the slice: text of text, octets of anything else."""
        return "text" if self.of.kind == "text" else "octets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A value in a filter, in the form of fields of its kind."""

    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """IP addresses with a common prefix of ``bits`` bits; ``address`` has zeros after them."""

    kind: Literal["ipv4", "ipv6"]
    address: bytes
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The bitwise AND of an operand's values and ``mask``; octets have the length of the shorter."""

    of: FilterField | Slice | Masked
    mask: Constant | FilterField | Slice

    @property
    def kind(self) -> Kind:
        """Kind of the masked operand."""
        return self.of.kind


Operand: TypeAlias = FilterField | Slice | Masked
Right: TypeAlias = Constant | Network | Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Presence of the layer or of a value of the operand: not empty (`Slice`), with a bit set (`Masked`)."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Some value on the left is in the relation to some on the right; with ``every``, every to every one.

    Either way there must be a value on both sides.
    """

    left: Operand
    relation: Relation
    right: Right
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Some value (with ``every``: every value, at least one) matches the regular expression ``pattern``.

    It is searched in octets, in text as UTF-8, ignoring the case of letters.
    """

    operand: Operand
    pattern: bytes
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The values from ``first`` to ``last``, both included."""

    first: Constant
    last: Constant


Item: TypeAlias = Constant | Network | Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Some value (with ``every``: every value, at least one) is one of the items."""

    operand: Operand
    items: tuple[Item, ...]
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Not:
    """The test does not hold."""

    test: Test


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    """All tests hold; with none, every frame does."""

    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    """One of the tests holds."""

    tests: tuple[Test, ...]


Test: TypeAlias = Present | Comparison | Match | Membership | Not | And | Or
