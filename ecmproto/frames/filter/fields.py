"""Fields that a filter can ask for by name, and a filter that is understood: tests over operands.

A `FilterField` says the kind of its values and where they come from, all read off the schemas, so that a new
format is in filters as soon as it is listed.  A `Test` holds or does not hold of a frame, an `Operand` gives
values of a frame: none, one or several.  Every field in them is resolved, every value of its field's kind;
they are frozen and comparable, and know nothing of how they are evaluated.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from ecmproto.values import dataclass
from ecmproto.wire.codec.document import nearest
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import ALIASES, FORMATS, catalogue
from ecmproto.wire.formats.schema import Field as WireField

Kind = Literal["number", "mac", "ipv4", "ipv6", "cpid", "octets", "text", "time", "layer"]
"""Kinds of values: int, but bytes for MAC and IP addresses and octets, and str for text; a time is in ns."""

Origin = Literal["record", "frame", "layers"]
Part = Literal["whole", "type", "length", "bits"]

INNER = "encapsulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSource:
    """Where a layer has a field: its attribute ``key``, whole or in part.

    A field that is an EtherType or an 802.3 length goes by two names: ``part`` is "type" or "length" then,
    and it is there under one of them at a time.  "bits" are ``bits`` of them, the lowest the field's ``low``.
    """

    format: type[Layer]
    key: str
    part: Part = "whole"
    low: int = 0
    bits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterField:
    """A field or layer that a filter names; equal when the names are.

    ``origin`` says whether it comes from the capture's record, the frame as a whole or its layers;
    ``sources`` are those in layers, ``formats`` what a layer's name stands for.  ``inner`` means that of the
    frame that a message shows.  ``bits`` is the width of a number, 64 where nothing else is known.
    """

    name: str
    kind: Kind = dataclasses.field(compare=False)
    origin: Origin = dataclasses.field(compare=False, default="layers", repr=False)
    sources: tuple[FieldSource, ...] = dataclasses.field(compare=False, default=(), repr=False)
    formats: tuple[type[Layer], ...] = dataclasses.field(compare=False, default=(), repr=False)
    inner: bool = dataclasses.field(compare=False, default=False, repr=False)
    signed: bool = dataclasses.field(compare=False, default=False, repr=False)
    bits: int = dataclasses.field(compare=False, default=64, repr=False)
    names: Mapping[int, str] = dataclasses.field(compare=False, default_factory=dict, repr=False)
    """Code points that have a name."""


BOTH_ENDS = {
    "eth.addr": ("eth.dst", "eth.src"),
    "ip.addr": ("ip.src", "ip.dst"),
    "ipv6.addr": ("ipv6.src", "ipv6.dst"),
    "tcp.port": ("tcp.srcport", "tcp.dstport"),
    "udp.port": ("udp.srcport", "udp.dstport"),
}
"""Wireshark's names for what either end has."""


def find(name: str) -> FilterField | None:
    """Return the field or layer called ``name``; None when there is none."""
    if name == INNER or not name.startswith(f"{INNER}."):
        return known().get(name)
    outer = known().get(name.removeprefix(f"{INNER}."))
    if outer is None or outer.origin == "record" or outer.inner:
        return None
    return dataclasses.replace(outer, name=str(name), inner=True)


def hint(name: str) -> str:
    """Return which name is near ``name``, or where they are listed."""
    prefix = f"{INNER}." if name.startswith(f"{INNER}.") else ""
    possible = [other for other in known() if find(prefix + other) is not None]
    told = nearest(name.removeprefix(prefix).lower(), possible)
    if not told.startswith("did"):
        return "`ecmproto fields` lists them"
    return told.replace("'", f"'{prefix}", 1)


@functools.cache
def known() -> Mapping[str, FilterField]:
    """Return every field and layer by its name, but for those of encapsulated frames."""
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
    """Yield a layer for every format's own name, and for what Wireshark names the formats of a protocol."""
    formats: dict[str, list[type[Layer]]] = {}
    for cls in FORMATS:
        prefixes = {field.name.partition(".")[0]: 0 for field in cls.layout}
        # an extension header is no IPv6 header, though its fields are called after it
        for name in {cls.prefix: 0} | ({} if "." in cls.prefix else prefixes):
            formats.setdefault(name, []).append(cls)
    yield FilterField(name="frame", kind="layer", origin="record")
    yield FilterField(name=INNER, kind="layer", origin="frame", inner=True)
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
"""The field that depends on which frames are displayed: of a filter, on those that it selected before."""
IN_SEQUENCE = ("frame.number", "frame.time_relative", "frame.time_delta", DISPLAYED)
"""Fields that say something of the frames before it."""
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
    """Return the sort key of a value: of octets, the longer are greater, as in Wireshark."""
    return (len(value), value) if isinstance(value, bytes) else (0, value)


Relation = Literal["==", "!=", "<", "<=", ">", ">=", "contains"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Octets or characters from ``start`` on: ``length`` of them, or all (None).

    A negative ``start`` counts from the end; ``stop`` (inclusive), where it is given, says the end in the
    same way in place of ``length``.
    """

    start: int
    length: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Parts of an operand's values one after the other; one that reaches beyond the end is left out."""

    of: FilterField | Slice
    ranges: tuple[Range, ...]

    @property
    def kind(self) -> Kind:
        """Text of text, octets of anything else."""
        return "text" if self.of.kind == "text" else "octets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A value that the filter gives, in the form that fields of its kind have."""

    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """IP addresses that share their first ``bits`` bits; ``address`` has zeros behind them."""

    kind: Literal["ipv4", "ipv6"]
    address: bytes
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """The bits that an operand's values and ``mask`` both have; of octets, as many as the shorter has."""

    of: FilterField | Slice | Masked
    mask: Constant | FilterField | Slice

    @property
    def kind(self) -> Kind:
        """As of what is masked."""
        return self.of.kind


Operand: TypeAlias = FilterField | Slice | Masked
Right: TypeAlias = Constant | Network | Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The frame has the layer, or a value of the operand: of a `Slice`, one that is not empty, of a `Masked`
    one, with a bit that is set."""

    operand: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Some value on the left stands in the relation to some on the right; with ``every``, every to every one.

    Either way there must be a value on both sides.
    """

    left: Operand
    relation: Relation
    right: Right
    every: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Some value (with ``every``: every value, and there is one) holds the regular expression ``pattern``.

    It is searched in octets, in those of text as UTF-8, and letters match in either case.
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
    """Some value (with ``every``: every value, and there is one) is one of the items."""

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
