"""Rules of a comparison: ignored fields and layers, and tolerances for numbers.

If a field is ignored or has a tolerance, the checksums that depend on the field are ignored too. The IPv4
header checksum depends on the fields of IPv4. The checksums of TCP and UDP and the invariant CRC depend on
the fields that they cover. The frame check sequence depends on every field.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Literal

from ecmproto.errors import ParameterError, SpecError, shown
from ecmproto.frames.batch.beginnings import FORMAT_OF
from ecmproto.frames.filter.fields import FieldSource, FilterField, find, hint, known
from ecmproto.units import parse_time
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import MSDU, SNAP, Data
from ecmproto.wire.formats.infiniband import CRC_STATUS, GRH, ICRC
from ecmproto.wire.formats.ip import TCP, UDP, IPv4, IPv6

TIME = "frame.time_epoch"
LENGTH, CAPTURED, INTERFACE = "frame.len", "frame.cap_len", "frame.interface_id"
FCS = "eth.fcs"
_SHORT = {"time": TIME}
"""Short names accepted for fields."""

Alignment = Literal["none", "offset", "drift"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Maximum difference of numbers: ``absolute``, or a ``share`` of the larger magnitude.

    ``absolute`` is in the unit of the field; for times, the unit is ns.
    """

    absolute: int = 0
    share: Fraction = Fraction(0)

    def allows(self, one: int, other: int) -> bool:
        """Return whether two numbers are equal within the tolerance."""
        apart = abs(one - other)
        maximum: Fraction = self.share * max(abs(one), abs(other))
        return bool(apart <= self.absolute or apart <= maximum)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a comparison; created by `rules_of`."""

    ignored: tuple[str, ...] = ()
    """Fields and layers as given by the user."""
    fields: tuple[FilterField, ...] = ()
    """Ignored fields, with dependent checksums but without fields of records."""
    layers: tuple[tuple[type[Layer], bool], ...] = ()
    """Formats whose layers are ignored; the second element is True for layers in quoted frames."""
    names: frozenset[str] = frozenset()
    """Names of all fields that are not compared exactly."""
    tolerances: Mapping[str, Tolerance] = dataclasses.field(default_factory=dict)
    """Tolerances by field name; `TIME` is the only field of records."""
    align_time: Alignment = "none"
    """Correction of the second capture's times: none, the median offset, or offset and drift."""
    by_interface: bool = False
    """Whether the order of frames is compared only within each interface."""
    snap_octets: int | None = None
    """Number of compared octets per frame; ``None`` means all captured octets."""

    @property
    def changes_frames(self) -> bool:
        """Whether parts of the frames are ignored, in contrast to data of the records."""
        return bool(self.fields or self.layers)


def rules_of(
    ignore: Iterable[str] = (),
    tolerance: Mapping[str, str] | None = None,
    *,
    align_time: Alignment = "none",
    by_interface: bool = False,
    snap_octets: int | None = None,
) -> Rules:
    """Return the rules for fields and layers to ``ignore``, and for tolerances by field name.

    A tolerance is a number, or a percentage with a trailing %. For times, a tolerance is a time with a unit,
    such as 1us. Raises SpecError, with the nearest name, for an unknown name. Raises ParameterError for an
    unreadable tolerance, or for the tolerance of a field without numbers.
    """
    ignored = tuple(dict.fromkeys(_SHORT.get(name, name) for name in ignore))
    left_out: dict[FilterField, None] = {}
    layers: dict[tuple[type[Layer], bool], None] = {}
    names: set[str] = set()
    for name in ignored:
        field = _named(name, "--ignore")
        names |= set(_names(field))
        if field.kind == "layer":
            layers |= dict.fromkeys((cls, field.inner) for cls in field.formats)
        elif field.origin != "record" and field.kind != "text":
            left_out[field] = None
    tolerances = {_SHORT.get(name, name): text for name, text in (tolerance or {}).items()}
    read = {name: _tolerance(name, text) for name, text in tolerances.items() if name not in names}
    for name in read:
        field = _named(name, "--tolerance")
        if field.origin != "record":
            left_out[field] = None
            names.add(name)
    for follower in _followers([*left_out, *(_layer(cls) for cls, inner in layers if not inner)]):
        left_out[follower] = None
        names.add(follower.name)
    if left_out or layers:
        names.add(CRC_STATUS)
    return Rules(
        ignored=ignored, fields=tuple(left_out), layers=tuple(layers), names=frozenset(names),
        tolerances=read, align_time=align_time, by_interface=by_interface, snap_octets=snap_octets,
    )  # fmt: skip


def _named(name: str, where: str) -> FilterField:
    field = find(name)
    if field is None or (field.kind == "layer" and field.origin != "layers"):
        needed = "the name of a field or layer" if where == "--ignore" else "the name of a field"
        advice = hint(name) if field is None else "`ecmproto fields` lists them"
        raise SpecError(where=where, needed=needed, got=shown(name), hint=advice)
    return field


def _tolerance(name: str, text: str) -> Tolerance:
    field = _named(name, "--tolerance")
    if field.kind == "time":
        percent = _PERCENT.fullmatch(text.strip())
        if percent is not None:
            raise ParameterError(name=name, needed="a time such as 1us", got=shown(text))
        return Tolerance(absolute=parse_time(text))
    if field.kind != "number" or field.origin == "record" or field.inner:
        raise ParameterError(name=name, needed="a field with numbers in the frame, or a time", got=field.kind)
    percent = _PERCENT.fullmatch(text.strip())
    if percent is not None:
        return Tolerance(share=Fraction(percent[1]) / 100)
    if _NUMBER.fullmatch(text.strip()) is None:
        raise ParameterError(name=name, needed="a tolerance such as 2 or 1%", got=shown(text))
    return Tolerance(absolute=int(text))


_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_NUMBER = re.compile(r"\d{1,18}")


def _names(field: FilterField) -> Iterator[str]:
    """Yield all names of the values of a field, or of the fields of a layer."""
    yield field.name
    prefix = "encapsulated." if field.inner else ""
    for cls in field.formats:
        for each in cls.layout:
            names = (each.name, each.meta.length_name, *(part.name for part in each.meta.parts))
            yield from (f"{prefix}{name}" for name in names)
    for source in field.sources:
        for each in source.format.layout:
            if each.key == source.key and source.part != "bits":
                yield from (f"{prefix}{name}" for name in (each.name, each.meta.length_name) if name)


def _layer(cls: type[Layer]) -> FilterField:
    """Return a whole layer as a field, to find the dependent checksums."""
    sources = tuple(FieldSource(format=cls, key=each.key) for each in cls.layout)
    return FilterField(name=cls.prefix, kind="octets", sources=sources)


_LINK = frozenset({*FORMAT_OF.values(), MSDU, SNAP}) - {IPv4, IPv6}
_MUTABLE = {IPv4: {"dsfield", "ttl", "checksum"}, IPv6: {"tclass", "flow", "hlim"}}
"""Fields that routers may change and that the invariant CRC does not cover.

See `formats.infiniband.coverage`.
"""


def _followers(fields: Iterable[FilterField]) -> Iterator[FilterField]:
    """Yield the checksums that depend on fields of frames."""
    sources = [source for field in fields if not field.inner for source in field.sources]
    formats = {source.format for source in sources}
    if sources:
        yield known()[FCS]
    if IPv4 in formats:
        yield known()["ip.checksum"]
    addresses = any(source.format in (IPv4, IPv6) and source.key in ("src", "dst") for source in sources)
    if addresses or any(map(_is_transported, formats)):
        yield known()["udp.checksum"]
        yield known()["tcp.checksum"]
    if any(_is_invariant(source) for source in sources):
        crc = next(each for each in ICRC.layout if each.key == ICRC.covers)
        yield known()[crc.name]


def _is_transported(cls: type[Layer]) -> bool:
    """Return whether a format is TCP or UDP, or follows TCP or UDP."""
    if cls in _LINK:
        return False
    return (
        cls in (TCP, UDP, Data)
        or bool(cls.udp_ports)
        or not (cls.announced_by or cls.ip_protocol is not None or cls.next_header is not None)
    )


def _is_invariant(source: FieldSource) -> bool:
    """Return whether the invariant CRC, if present, covers a field."""
    if source.format in _MUTABLE:
        return source.key not in _MUTABLE[source.format]
    if source.format is ICRC:
        return False
    return source.format in (UDP, GRH) or (source.format is not TCP and _is_transported(source.format))
