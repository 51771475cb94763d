"""Conversion of frames to plain data (JSON, TOML) and back.

A document has the form ``{"layers": [{"layer": "cnm", "cnm.qntz_fb": 40, …}, …]}``.

`to_document` writes each field under the full name, and adds a scaled value (``cnm.q_offset_octets``) for
each field with a unit.

`from_document` reads such documents and shorter documents. In a shorter document, field names need no prefix,
fields may be missing, and values have any form that `ecmproto.wire.formats.text.value_of` accepts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ecmproto.errors import DecodeError, SpecError, escaped, hint_on_name, shown
from ecmproto.units import QUEUE_UNIT_OCTETS, RATE_INFINITY
from ecmproto.wire.codec.frame import SUSPICIOUS, Frame, encapsulated, is_suspicious
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ecm import ECM, CMTag, ticks_to_ns
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.hpcc import QLEN_UNIT, SENT_UNIT
from ecmproto.wire.formats.registry import BY_PREFIX
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.text import json_of, value_of

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_TAILS = ("padding", "trailer", "fcs")
_DERIVED = ("cut", "error", "encapsulated")
"""Keys of a document that are derived from the frame's octets, and ignored by `from_document`."""


def to_document(frame: Frame) -> dict[str, Json]:
    """Return a frame as plain data, which `from_document` converts back to an equal frame."""
    document: dict[str, Json] = {"layers": [_layer_document(value) for value in frame.layers]}
    for key in _TAILS:
        octets: bytes = getattr(frame, key)
        if octets:
            document[key] = octets.hex()
    if frame.cut:
        document["cut"] = frame.cut
    if frame.error is not None:
        document["error"] = error_document(frame.error)
    inner = encapsulated(frame)
    if inner is not None:
        document["encapsulated"] = shown = to_document(inner)
        if is_suspicious(frame, inner):
            shown["suspicious"] = SUSPICIOUS
    return document


_JSON = json.JSONEncoder(ensure_ascii=False)
_SINGLE = frozenset((str, int, float, bool, type(None)))


def json_text(document: object, *, indented: bool = False) -> str:
    """Return plain data as JSON, with non-printable characters escaped."""
    return escaped(_indented(document, "\n") if indented else _JSON.encode(document), keep="\n")


def _indented(value: object, start: str) -> str:
    """Return the text of ``json.dumps(value, indent=2)``.

    The fast encoder of the standard library does not indent, so this function adds the indentation and calls
    the fast encoder for flat values.
    """
    inner = f"{start}  "
    if isinstance(value, dict) and value:
        if _SINGLE.issuperset(map(type, value.values())):
            body = _encoder(inner).encode(value)[1:-1]
        else:
            items = value.items()
            body = f",{inner}".join(f"{_key(key)}{_indented(item, inner)}" for key, item in items)
        return f"{{{inner}{body}{start}}}"
    if isinstance(value, list | tuple) and value:
        if _SINGLE.issuperset(map(type, value)):
            body = _encoder(inner).encode(value)[1:-1]
        else:
            body = f",{inner}".join(_indented(item, inner) for item in value)
        return f"[{inner}{body}{start}]"
    return _JSON.encode(value)


@functools.lru_cache(maxsize=1024, typed=True)
def _key(key: object) -> str:
    """Return a key as JSON, with the colon."""
    return _JSON.encode({key: 0})[1:-2]


@functools.cache
def _encoder(start: str) -> json.JSONEncoder:
    """Return an encoder that starts a new line before each value."""
    return json.JSONEncoder(ensure_ascii=False, separators=(f",{start}", ": "))


def error_document(wrong: DecodeError) -> dict[str, Json]:
    """Return a decoding error as plain data."""
    return {"layer": wrong.layer, "offset": wrong.offset, "needed": wrong.needed, "got": wrong.got}


def _layer_document(value: Layer) -> dict[str, Json]:
    cls = type(value)
    document: dict[str, Json] = {"layer": cls.prefix}
    for field, derived in zip(cls.layout, derived_names(cls), strict=True):  # type: ignore[arg-type]  # classes hash
        got = getattr(value, field.key)
        name = field.name_for(got) if field.meta.length_name else field.name
        document[name] = json_of(field, got)
        if derived:
            document[derived] = scaled(value, field)
    return document


@functools.cache
def derived_names(cls: type[Layer]) -> tuple[str, ...]:
    """Return the name of the scaled value of each field, or "" for a field without a scaled value."""
    keys = (scaled_key(cls, field) for field in cls.layout)
    return tuple(f"{cls.prefix}.{key}" if key else "" for key in keys)


def from_document(
    document: object, *, where: str = "frame", ethertypes: EtherTypes = DEFAULT
) -> tuple[Frame, tuple[frozenset[str], ...]]:
    """Return the frame of a document, and the names of the fields that the document sets in each layer.

    ``where`` is the path of the document in error messages. Raises SpecError for an invalid document; the
    error suggests the nearest valid name.
    """
    if not isinstance(document, Mapping):
        raise SpecError(where=where, needed="an object with layers", got=type(document).__name__)
    layers = document.get("layers")
    if not isinstance(layers, list):
        raise SpecError(where=f"{where}.layers", needed="a list of layers", got=shown(layers))
    read = [layer_from(item, where=f"{where}.layers[{i}]") for i, item in enumerate(layers)]
    frame = Frame(
        layers=tuple(value for value, _ in read),
        padding=_octets(document, "padding", where),
        trailer=_octets(document, "trailer", where),
        fcs=_octets(document, "fcs", where),
        ethertypes=ethertypes,
    )
    return frame, tuple(given for _, given in read)


def _octets(document: Mapping[str, object], key: str, where: str) -> bytes:
    try:
        return bytes.fromhex(str(document.get(key, "")))
    except ValueError:
        got = shown(document[key])
        raise SpecError(where=f"{where}.{key}", needed="octets in hex", got=got) from None


def frame_keys() -> frozenset[str]:
    """Return the keys that a frame's document may have."""
    return frozenset(("layers", *_TAILS, *_DERIVED))


def layer_from(item: object, *, where: str) -> tuple[Layer, frozenset[str]]:
    """Return the layer of ``{"layer": NAME, FIELD: VALUE, …}``, and the names of the fields in the object."""
    if not isinstance(item, Mapping) or not isinstance(item.get("layer"), str):
        raise SpecError(where=where, needed='an object with "layer": NAME', got=shown(item))
    cls = format_named(item["layer"], where=where)
    derived = derived_names(cls)  # type: ignore[arg-type]  # classes hash
    values: dict[str, int | bytes] = {}
    for name, given in item.items():
        if name == "layer" or name in derived:
            continue
        field = field_named(cls, name, where=where)
        if field.key in values:
            raise SpecError(where=where, needed=f"{field.name} once", got=f"{shown(name)} too")
        values[field.key] = value_of(field, given)
    make: Callable[..., Layer] = cls
    return make(**values), frozenset(values)


def format_named(name: str, *, where: str) -> type[Layer]:
    """Return the format with the prefix ``name``.

    Raises SpecError for an unknown prefix; the error suggests the nearest prefix.
    """
    cls = BY_PREFIX.get(name)
    if cls is None:
        raise SpecError(
            where=where, needed="the name of a format", got=shown(name), hint=hint_on_name(name, BY_PREFIX)
        )
    return cls


def field_named(cls: type[Layer], name: str, *, where: str) -> Field:
    """Return the field of ``cls`` with this key, full name or length name.

    Raises SpecError for an unknown name.
    """
    field = _fields_by_name(cls).get(name)  # type: ignore[arg-type]  # classes hash
    if field is not None:
        return field
    keys = [field.key for field in cls.layout]
    short = name.removeprefix(f"{cls.prefix}.")
    raise SpecError(
        where=where, needed=f"a field of {cls.prefix}", got=shown(name), hint=hint_on_name(short, keys)
    )


@functools.cache
def _fields_by_name(cls: type[Layer]) -> dict[str, Field]:
    names = {}
    for field in reversed(cls.layout):
        for name in (field.key, field.name, field.meta.length_name, f"{cls.prefix}.{field.key}"):
            names[name] = field
    names.pop("", None)
    return names


def scaled_key(cls: type[Layer], field: Field) -> str:
    """Return the key of a field's scaled value (``q_offset_octets``, ``rate_bps``, …), or ""."""
    if field.key == "timestamp" and issubclass(cls, ECM | CMTag):
        return "timestamp_ns"
    suffix, _ = _SCALES.get(field.meta.unit, ("", 1))
    return f"{field.key}{suffix}" if suffix else ""


def scaled(value: Layer, field: Field) -> int | None:
    """Return a field's scaled value in ns, b/s or octets; ``None`` means an infinite rate."""
    if isinstance(value, ECM | CMTag) and field.key == "timestamp":
        return ticks_to_ns(value)
    number: int = getattr(value, field.key)
    return None if is_rate(field) and number == RATE_INFINITY else number * scale_of(field)


def scale_of(field: Field) -> int:
    """Return the factor between a field's value and the scaled value."""
    return _SCALES[field.meta.unit][1]


def is_rate(field: Field) -> bool:
    """Return whether a field is a rate, which may be infinite."""
    return field.meta.unit == "kb/s" and field.key == "rate"


_SCALES = {"kb/s": ("_bps", 1000), "ns": ("_ns", 1)} | {
    f"{octets} octets": ("_octets", octets) for octets in (QUEUE_UNIT_OCTETS, QLEN_UNIT, SENT_UNIT)
}
