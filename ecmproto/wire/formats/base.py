"""The base of the wire formats: each is one class whose fields carry construct schemas.

A format is a class under ``@layer(...)``; each field is declared with a function of
`ecmproto.wire.formats.schema`, with its width, meaning and source::

    @layer("cntag", title="Congestion notification tag", source="802.1Q clause 33")
    class CNTag(Layer):
        flow_id: int = uint(16, default=0, doc="…", source="…")

This declaration is the source of the frozen typed value (the class itself), the field table, its construct
schema (``CNTag.schema``, a real ``construct.Struct`` that parses and builds), the bit diagrams, the
documentation, the Hypothesis strategies and the fast one-frame codec: Python functions generated from the
field table. construct itself parses some 20–50 thousand headers a second; these functions read and write the
same fields a few times faster, and a test compares each of them with its construct schema, both ways.

Schema, functions and constructor are made at their first use: a process has all formats, and mostly uses few
of them.
"""

from __future__ import annotations

import dataclasses
import operator
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
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

from ecmproto.errors import DecodeError, EncodeError, ParameterError, SpecError
from ecmproto.values import Later, dataclass
from ecmproto.wire.formats.ethertypes import MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.schema import (
    Field,
    Width,
    address,
    declared,
    fields_of,
    mac,
    octets,
    sint,
    uint,
)
from ecmproto.wire.formats.summary import Summary, check_summary, summary_of_fields
from ecmproto.wire.formats.text import value_of

if TYPE_CHECKING:
    from ecmproto.wire.formats.constructs import FlatStruct

Role: TypeAlias = Literal["header", "tag", "message", "flow control", "payload", "wrapper"]
"""The role of a format in a frame."""

Direction: TypeAlias = Literal["data", "feedback", "reply", "link"]
"""The direction of a frame: with the flow from its source to its destination, from a congestion point to the
source, from the destination to the source, or to the next station on the link.
"""

Follows: TypeAlias = Literal[
    "",
    "ethertype",
    "cooked",
    "snap",
    "ipv4",
    "ipv6",
    "extension",
    "fragment",
    "port",
    "grh",
    "sequence",
    "data",
    "tlv",
    "content",
    "own",
]
"""The selection of the following format: none, by an EtherType or length (a cooked header: no length; SNAP:
few EtherTypes), by IP's protocol or next header, by a UDP port or as if by RoCE's; with one of its
``sequences``; octets and TLVs need no selector.  "content": one that the wrapper ``wraps``.  "own": by the
format's own method.
"""

Following: TypeAlias = "tuple[type[Layer] | None, int]"
"""The format after a layer (None: none) and the maximum end of it."""


UNBOUNDED = 1 << 32
"""More octets than any frame has: an unknown length, for example of a sampled frame."""


class Formats(Protocol):
    """The lookups that a layer uses to find the format that follows it."""

    @property
    def ethertypes(self) -> EtherTypes:
        """The EtherType map."""

    @property
    def behind_snap(self) -> frozenset[int]:
        """The EtherTypes that are decoded after SNAP."""

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format of an EtherType or length at ``data[pos:stop]``, and its maximum end."""

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType of ``following``, None without one."""

    def behind_ip(self, version: int, protocol: int) -> type[Layer]:
        """Return the format that IPv4's protocol or IPv6's next header selects; `Data` for others."""

    def behind_port(self, port: int, data: bytes, pos: int, stop: int) -> type[Layer]:
        """Return the format that a UDP port selects at ``data[pos:stop]``; `Data` for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A range ``low`` to ``high`` of the field ``key`` in all valid frames of the format."""

    key: str
    low: int
    high: int
    name: str = ""
    """The name of the field in errors, if not its key."""

    @property
    def needed(self) -> str:
        """The limit as text."""
        values = str(self.low) if self.low == self.high else f"{self.low}..{self.high}"
        return f"{self.name or self.key} {values}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crafting:
    """The defaults for crafting frames of a format: direction, destination, priority, field values."""

    direction: Direction | None = None
    """The direction of such a frame; None: by the role (a message is feedback, others are data)."""
    destination: bytes = b""
    """The group address as its destination; empty: a station."""
    priority: int = 0
    """The priority of such a frame."""
    values: Mapping[str, int | bytes] = dataclasses.field(default_factory=dict)
    """The values of fields that differ from their defaults."""
    outer: Mapping[type[Layer], Mapping[str, int | bytes]] = dataclasses.field(default_factory=dict)
    """The values of fields in outer headers that differ from theirs, by format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The fields that statistics count of a congestion point's messages, besides CPID and queue lengths."""

    types: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """The values of its field ``type`` that are feedback, and their names; empty: every message is."""
    flow_id: str = ""
    """The full name of the flow's field, its own or a tag's; 16 bits or fewer."""
    quantized: str = ""
    """The field of quantized feedback, of 6 bits or fewer."""


class Layer:
    """Base of every typed layer value: one format's fields with their values in a frame.

    Frozen, slotted, keyword-only; equal when all fields are equal.  Values are not range-checked when
    constructed but when encoded, so that a decoder never has to refuse a code point.
    """

    __slots__ = ()

    schema: ClassVar[FlatStruct]
    """The construct schema."""
    prefix: ClassVar[str]
    """The prefix of its field names, and its name in JSON and on the command line."""
    title: ClassVar[str]
    """The name in prose."""
    source: ClassVar[str]
    """The clause or document that defines it."""

    role: ClassVar[Role]
    """The role in a frame.  Default: "tag", "payload" or "header", by its and the next announcement."""
    counted_as: ClassVar[str]
    """The name of its frames in statistics; "" if not counted.  Default: the title, except for headers."""
    summary: ClassVar[Summary]
    """Its part of a frame's summary line; default: its fields by name."""
    as_feedback: ClassVar[Feedback | None]
    """The fields counted by congestion point; None without.  Default: for messages with a CPID."""

    announced_by: ClassVar[str | int] = ""
    """The role in the `EtherTypes` map, or the EtherType itself, that announces it; "" without one."""
    further_ethertypes: ClassVar[tuple[int, ...]] = ()
    """Other EtherTypes that announce it."""
    selected_by: ClassVar[tuple[int, ...]] = ()
    """The values of the selector that announce this one of several formats of an EtherType or a UDP port: the
    first two octets unless the EtherType has another selector; () for any other value.
    """
    behind_snap: ClassVar[bool] = False
    """Whether its EtherType announces it in SNAP headers too."""
    ip_protocol: ClassVar[int | None] = None
    """The protocol of IPv4 and next header of IPv6 that announces it."""
    next_header: ClassVar[int | None] = None
    """The next header that announces it after IPv6 alone."""
    udp_ports: ClassVar[tuple[int, ...]] = ()
    """The UDP destination ports that announce it, beginning with the one of crafted frames."""
    next_key: ClassVar[str] = ""
    """The field with the EtherType or length of what follows; "" when the layer ends the frame."""
    follows: ClassVar[Follows]
    """The selection of what follows; default: by EtherType if there is a ``next_key``."""
    constants: ClassVar[tuple[str, ...]] = ()
    """The fields that have their defaults in all frames of the format, and identify it."""
    limits: ClassVar[tuple[Limit, ...]] = ()
    """The limits of its fields, in the order of their checks."""
    shows: ClassVar[type[Layer] | None] = None
    """The first format of the frame inside its last field; None without one."""
    sequence_key: ClassVar[str] = ""
    """The field whose value selects one of ``sequences``: by 8 bits, above ``sequence_shift`` others."""
    sequence_shift: ClassVar[int] = 0
    sequences: ClassVar[Mapping[int, tuple[type[Layer], ...]]] = {}
    """The formats that follow, in order, by the value of that field, if this format alone determines them.
    Not listed: values with mere octets after them.
    """
    closed_by: ClassVar[type[Layer] | None] = None
    """The format of the last octets of the packet that starts with this one and follows its sequence."""
    wraps: ClassVar[Mapping[int, type[Layer]]] = {}
    """The formats inside a wrapper, by the value of its ``next_key``; by 0 without one."""
    session_key: ClassVar[str] = ""
    """The field of a wrapper with the number of its session."""
    covers: ClassVar[str] = ""
    """The field computed from the octets before this layer; see `covering`."""
    holds: ClassVar[tuple[type[Layer], ...]] = ()
    """The formats inside this one, as TLVs inside a TLV; see `inside`."""
    min_shown_octets: ClassVar[int] = 0
    """The minimum octets on the wire of the frame inside its last field."""

    colour: ClassVar[str]
    """The style of its name: its summary's, else its role's."""
    crafting: ClassVar[Crafting]
    """The defaults of a crafted frame; default: by its role."""

    layout: ClassVar[tuple[Field, ...]]
    """The fields in wire order."""
    read_from_text: ClassVar[tuple[Field, ...]]
    """The fields that accept text for their value: addresses and CPIDs."""
    moving: ClassVar[tuple[Field, ...]]
    """The first variable field and those after it, if more than the last is variable; usually empty."""
    fixed_octets: ClassVar[int]
    """The octets of its fixed part: the fields before the first variable one."""
    parse: ClassVar[Callable[[bytes, int, int], tuple[Layer, int, int] | None]]
    """Read one from ``data[start:stop]``: (value, end, octets missing at its end), or None if even the fixed
    part is incomplete.  Generated from the layout by `ecmproto.wire.formats.base`.
    """
    build: Callable[[], bytes]
    """Write one; EncodeError for a value out of its field's range.  Generated from the layout."""

    otherwise: ClassVar[type[Layer] | None] = None
    """The format of octets that are announced as this one and are not valid as such; None if all are."""
    least_octets: ClassVar[int] = 0
    """The minimum octets on the wire from this layer on, if there is an ``otherwise``."""
    nonzero_octets: ClassVar[int] = 0
    """The number of octets at its start that are not all zero, if there are ``least_octets``."""

    @classmethod
    def cannot_be(cls, data: bytes, start: int, stop: int, reach: int) -> bool:
        """Return whether the octets announced as this format belong to ``otherwise``.

        They are ``data[start:stop]`` and reached octet ``reach`` on the wire.  Default: fewer octets than its
        fixed part, fewer on the wire than its minimum, or zeros at its start.
        """
        if not cls.least_octets:
            return False
        few = stop - start < cls.fixed_octets or reach - start < cls.least_octets
        return few or not any(data[start : start + cls.nonzero_octets])

    @classmethod
    def short(cls, data: bytes, start: int, stop: int, reach: int) -> DecodeError | None:
        """Return the error of an incomplete fixed part if it was incomplete on the wire too, else None.

        Arguments as in `cannot_be`.
        """
        return too_few(cls, start, stop, reach)

    def check(self, start: int, reach: int) -> DecodeError | None:
        """Return the error of this value at octet ``start`` if its format forbids it, else None.

        ``reach`` is the maximum end on the wire.  Generated from limits, if any.
        """
        return None

    within: ClassVar[Callable[[Any, int, int], DecodeError | None]] = check
    """Return the error of the first limit that this value breaks, or None; arguments as in `check`."""

    @classmethod
    def direction_of(cls, values: Mapping[str, int | bytes]) -> Direction:
        """Return the direction of a frame with these ``values``."""
        return cls.crafting.direction or _DIRECTIONS.get(cls.role, "data")

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the correct values of length, type and checksum fields.

        ``rest`` is what follows this layer in the frame (without padding), ``following`` the layer it starts
        with.  For a layer that holds others ``rest`` is the octets inside.
        """
        if not self.next_key:
            return {}
        value: int = getattr(self, self.next_key)
        ethertype = formats.ethertype_of(following)
        if following is not None and value in following.further_ethertypes:
            return {}
        if ethertype is None:
            return {self.next_key: len(rest)} if value <= MAX_LENGTH >= len(rest) else {}
        old = ethertype == formats.ethertypes.c_tag and value == formats.ethertypes.old_s_tag
        return {} if old else {self.next_key: ethertype}

    @classmethod
    def covering(cls, layers: Sequence[Layer], starts: Sequence[int]) -> Callable[[bytes], int] | None:
        """Return the function that computes the field that ``covers`` the octets before it; None without one.

        ``starts`` are the offsets of the preceding ``layers`` in the frame, then the end of the last.
        """
        return None

    def sequence_behind(self) -> tuple[type[Layer], ...]:
        """Return the formats that follow this layer one after another; see ``sequences``."""
        return self.sequences.get(self.selected_sequence, ())

    @property
    def selected_sequence(self) -> int:
        """The value that selects its sequence; 0 without a ``sequence_key``."""
        value: int = getattr(self, self.sequence_key) >> self.sequence_shift if self.sequence_key else 0
        return value

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the first format inside this layer, None without any, and the end of the last one.

        The layer starts at octet ``start`` and its own fields end at ``end``.  The result of `following`
        comes after all layers inside.
        """
        return None, end

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format that follows in ``data[end:stop]``, and its maximum end.

        None when this layer is the last: the rest is padding or trailer.
        """
        if not self.next_key:
            return None, end
        return formats.announced(getattr(self, self.next_key), data, end, stop)

    def __repr__(self) -> str:
        """Return the Python expression of an equal value, with the fields that differ from their defaults."""
        shown = (
            (field, getattr(self, field.key))
            for field in self.layout
            if getattr(self, field.key) != field.meta.default
        )
        return f"{type(self).__name__}({', '.join(f'{f.key}={_literal(f, v)}' for f, v in shown)})"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


def too_few(cls: type[Layer], start: int, stop: int, reach: int) -> DecodeError | None:
    """Return the error of an incomplete fixed part of a format, missing octets included."""
    if reach - start >= cls.fixed_octets:
        return None
    return DecodeError(
        layer=cls.prefix, offset=start, needed=f"{cls.fixed_octets} octets", got=f"{stop - start} octets"
    )


def _literal(field: Field, value: int | bytes) -> str:
    if isinstance(value, int):
        return f"{value:#x}" if field.meta.base == "hex" else str(value)
    # a value is checked when encoded, not before, so it may be anything here
    return f"bytes.fromhex('{value.hex()}')" if isinstance(value, bytes) else repr(value)


L = TypeVar("L", bound=type[Layer])


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(uint, sint, mac, address, octets)
)
def shared(cls: L) -> L:
    """Make a class without slots from which formats inherit fields, beginning with their last base."""
    made: Any = dataclass(frozen=True, kw_only=True, repr=False)(cls)
    return made  # type: ignore[no-any-return]


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(uint, sint, mac, address, octets)
)
def layer(prefix: str, *, title: str, source: str, **defaults: int) -> Callable[[L], L]:
    """Make a class of declared fields a format.

    ``defaults`` are this format's own values of inherited fields (an ECM message is Protocol 0, a BCN message
    Protocol 1).
    """

    def decorate(cls: L) -> L:
        annotations = vars(cls).get("__annotations__", {})
        taken = [key for key in annotations if key in Layer.__annotations__ or hasattr(Layer, key)]
        if taken:
            raise TypeError(f"{cls.__name__}: a field of a format cannot be called {taken[0]}")
        for key, default in defaults.items():
            setattr(cls, key, _with_default(cls, key, default))
            annotations.setdefault(key, "int")
        cls.__annotations__ = annotations
        if "__post_init__" not in cls.__dict__:
            cls.__post_init__ = _read_text  # type: ignore[attr-defined]
        made: Any = dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)
        made.prefix, made.title, made.source = prefix, title, source
        made.layout = fields_of(_declared(made), prefix)
        made.__slots__ = {field.key: field.described for field in made.layout}  # ``help`` shows them
        made.read_from_text = tuple(f for f in made.layout if f.kind in ("mac", "ipv4", "ipv6", "cpid"))
        made.moving = _moving(made)
        made.fixed_octets = sum(field.bits or 0 for field in _fixed(made)) // 8
        for name, make in _LATER.items():
            setattr(made, name, Later(made, name, make))
        if made.limits:
            made.within = _within(made)
            if made.check is Layer.check:
                made.check = made.within
        _fill_in(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _declared(cls: Any) -> list[tuple[str, Width]]:
    return [(field.name, field.metadata["width"]) for field in dataclasses.fields(cls)]


def _schema(cls: type[Layer]) -> FlatStruct:
    from ecmproto.wire.formats.constructs import schema_of

    return schema_of(_declared(cls))


def _read_text(value: Layer) -> None:
    """Replace an address given as text by its octets; decoders set the slots and never call this."""
    for field in value.read_from_text:
        given = getattr(value, field.key)
        if isinstance(given, str):
            try:
                object.__setattr__(value, field.key, value_of(field, given))
            except SpecError as error:
                raise EncodeError(
                    layer=value.prefix, field=field.key, needed=error.needed, got=error.got
                ) from None


_DIRECTIONS: dict[Role, Direction] = {"message": "feedback", "flow control": "link"}


_COLOURS: dict[Role, str] = {"message": "congestion", "flow control": "pause", "tag": "tag"}


def _fill_in(cls: Any) -> None:
    """Set the attributes of a format that neither its declaration nor its bases set."""
    announced = bool(cls.announced_by or cls.udp_ports) or {cls.ip_protocol, cls.next_header} != {None}
    filled: set[str] = set()

    def fill(name: str, value: object) -> None:
        if not any(name in vars(base) and name not in vars(base).get(_FILLED, ()) for base in cls.__mro__):
            setattr(cls, name, value)
            filled.add(name)

    fill("role", "header" if not announced else "tag" if cls.next_key else "payload")
    plain = cls.following is Layer.following
    named: Follows = "ethertype" if cls.next_key else "sequence" if cls.sequence_key else ""
    fill("follows", named if plain else "own")
    fill("counted_as", "" if cls.role == "header" else cls.title)
    fill("crafting", Crafting())
    shows = cls.shows is not None
    fill("summary", summary_of_fields(cls.prefix, cls.role, cls.layout, next_key=cls.next_key, shows=shows))
    check_summary(cls.__name__, cls.summary)
    by_points = cls.role == "message" and any(field.kind == "cpid" for field in cls.layout)
    fill("as_feedback", Feedback() if by_points else None)
    cls.colour = cls.summary.colour or _COLOURS.get(cls.role, "title")
    setattr(cls, _FILLED, frozenset(filled))


_FILLED = "_filled_in"


def _within(cls: type[Layer]) -> Callable[[Any, int, int], DecodeError | None]:
    """Return the function that checks a format's limits, one comparison each."""
    places = {field.key: field.bit_offset // 8 for field in cls.layout}

    def refused(value: Layer, index: int, start: int) -> DecodeError:
        limit = cls.limits[index]
        at = start + places[limit.key]
        return DecodeError(
            layer=cls.prefix, offset=at, needed=limit.needed, got=str(getattr(value, limit.key))
        )

    lines = ["def within(self, start, reach):"]
    for index, limit in enumerate(cls.limits):
        lines.append(
            f" if not {limit.low} <= self.{limit.key} <= {limit.high}: return refused(self, {index}, start)"
        )
    scope: dict[str, Any] = {"refused": refused}
    exec("\n".join([*lines, " return None"]), scope)
    within: Callable[[Any, int, int], DecodeError | None] = scope["within"]
    return within


ADDED: list[type[Layer]] = []
"""Formats added by `register`, for `ecmproto.wire.formats.registry`."""


def register(cls: L) -> L:
    """Add a format to ecmproto's, and return it: a class decorator above ``@layer``.

    The tables of formats are made once, at the first decoding or encoding; ParameterError for a format that
    comes later.  Formats of the entry point group ``ecmproto.formats`` are in every process without this.
    """
    if "ecmproto.wire.formats.registry" in sys.modules:
        raise ParameterError(
            name=cls.prefix,
            needed="a format registered before any import of ecmproto but ecmproto.wire.formats.base",
            got="one that comes later",
        )
    ADDED.append(cls)
    return cls


def _with_default(cls: type[Layer], key: str, default: int) -> Any:
    inherited: Width = next(
        field.metadata["width"]
        for base in cls.__mro__
        if dataclasses.is_dataclass(base)
        for field in dataclasses.fields(base)
        if field.name == key
    )
    assert inherited.bits is not None
    return declared(inherited.bits, dataclasses.replace(inherited.meta, default=default))


def _moving(cls: type[Layer]) -> tuple[Field, ...]:
    """Return the fields of a format without a fixed offset; TypeError for invalid ones."""
    moved = [field for field in cls.layout if field.behind]
    for field in moved:
        if field.bits is not None and (field.is_number or cls.otherwise is None):
            needed = "octets or, in a format with an otherwise for incomplete ones, an address"
            raise TypeError(f"{field.name}: after a field of variable length, {needed}")
    first = cls.layout.index(moved[0]) - 1 if moved else len(cls.layout)
    return cls.layout[first:]


_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def _parser(cls: type[Layer]) -> staticmethod[..., Any]:
    """Return a format's ``parse``; see `Layer`."""
    groups = _groups(cls)
    # slotted classes: setting through the slot skips the frozen dataclass's __init__
    scope: dict[str, Any] = {f"set_{field.key}": getattr(cls, field.key).__set__ for field in cls.layout}
    scope |= {
        "unpack": _codes(groups).unpack_from,
        "new": object.__new__,
        "cls": cls,
        "int_from": int.from_bytes,
    }
    exec(_parse_source(groups, cls.fixed_octets, _rest(cls)), scope)
    return staticmethod(scope["parse"])


def _builder(cls: type[Layer]) -> Callable[[Layer], bytes]:
    """Return a format's ``build``; see `Layer`."""
    groups = _groups(cls)
    scope: dict[str, Any] = {
        "pack": _codes(groups).pack,
        "index": operator.index,
        "explain": _explain(cls.layout),
        "error": struct.error,
    }
    exec(_build_source(groups, _rest(cls)), scope)
    build: Callable[[Layer], bytes] = scope["build"]
    return build


_LATER: dict[str, Callable[[type[Layer]], Any]] = {
    "schema": _schema,
    "parse": _parser,
    "build": _builder,
}


def _fixed(cls: type[Layer]) -> list[Field]:
    """Return the fields before the first variable one."""
    return [field for field in cls.layout if field.bits is not None and not field.behind]


def _rest(cls: type[Layer]) -> list[Field]:
    return [field for field in cls.layout if field.bits is None or field.behind]


def _codes(groups: list[list[Field]]) -> struct.Struct:
    return struct.Struct(">" + "".join(_code(group) for group in groups))


def _groups(cls: type[Layer]) -> list[list[Field]]:
    """Return the fixed fields by the struct code that reads them: alone, or a run of sub-octet ones."""
    groups: list[list[Field]] = []
    run = 0
    for field in _fixed(cls):
        assert field.bits is not None
        if run % 8:
            groups[-1].append(field)
            run += field.bits
        else:
            groups.append([field])
            run = field.bits
    return groups


def _width(group: list[Field]) -> int:
    return sum(field.bits or 0 for field in group)


def _code(group: list[Field]) -> str:
    width = _width(group)
    if width not in _CODES or (len(group) == 1 and not group[0].is_number):
        return f"{width // 8}s"
    code = _CODES[width]
    return code.lower() if group[0].kind == "sint" else code


def _parse_source(groups: list[list[Field]], octets: int, rest: list[Field]) -> str:
    lines = ["def parse(data, start, stop):", f" if stop - start < {octets}: return None"]
    if groups:
        lines.append(f" {''.join(f'w{i}, ' for i in range(len(groups)))} = unpack(data, start)")
    lines.append(" self = new(cls)")
    for i, group in enumerate(groups):
        if len(group) == 1 and not group[0].is_number:
            lines.append(f" set_{group[0].key}(self, w{i})")
            continue
        if _code(group).endswith("s"):
            lines.append(f" w{i} = int_from(w{i}, 'big')")
        shift = _width(group)
        for field in group:
            shift -= field.bits or 0
            part = f"w{i} >> {shift} & {field.maximum}" if len(group) > 1 else f"w{i}"
            lines.append(f" set_{field.key}(self, {part})")
    lines.append(f" end = start + {octets}")
    for field in rest:
        if field.bits is not None:
            # it is complete or missing
            lines += [f" last = end + {field.bits // 8}", " if last > stop: return None"]
        else:
            lines.append(f" last = end + ({_length_source(field)})")
        lines += [f" set_{field.key}(self, data[end:last if last < stop else stop])", " end = last"]
    if rest:
        lines.append(" if end > stop: return self, stop, end - stop")
    lines.append(" return self, end, 0")
    return "\n".join(lines) + "\n"


def _length_source(field: Field) -> str:
    """Return the expression of a variable field's length in octets."""
    count = field.count
    assert count is not None
    length = f"self.{count.key} * {count.scale} - {count.minus}" if count.key else "stop - end"
    if count.minus > 0 or (field.behind and not count.key):
        length = f"max(0, {length})"
    return f"{length} if self.{count.when[0]} in {count.when[1]!r} else 0" if count.when else length


def _build_source(groups: list[list[Field]], rest: list[Field]) -> str:
    lines = ["def build(self):", " try:"]
    parts = []
    for i, group in enumerate(groups):
        if len(group) == 1 and not group[0].is_number:
            lines += [
                f"  w{i} = self.{group[0].key}",
                f"  if len(w{i}) != {_width(group) // 8}: explain(self)",
            ]
        else:
            lines += _pack_source(i, group)
        parts.append(f"w{i}")
    lines += [
        f"  if len(self.{field.key}) != {field.bits // 8}: explain(self)"
        for field in rest
        if field.bits is not None
    ]
    octets = "".join(f" + bytes(memoryview(self.{field.key}))" for field in rest)
    lines.append(f"  return pack({', '.join(parts)}){octets}")
    lines += [" except (error, TypeError, ValueError):", "  explain(self)", "  raise"]
    return "\n".join(lines) + "\n"


def _pack_source(i: int, group: list[Field]) -> list[str]:
    """Return lines that range-check a group's fields and shift them together, as int: numpy's overflow."""
    lines, terms = [], []
    shift = _width(group)
    alone = len(group) == 1 and not _code(group).endswith("s")
    for field in group:
        shift -= field.bits or 0
        lines.append(f"  if not {field.minimum} <= self.{field.key} <= {field.maximum}: explain(self)")
        number = f"self.{field.key}" if alone else f"index(self.{field.key})"
        terms.append(f"{number} << {shift}" if shift else number)
    joined = " | ".join(terms)
    if _code(group).endswith("s"):
        joined = f"({joined}).to_bytes({_width(group) // 8}, 'big')"
    return [*lines, f"  w{i} = {joined}"]


def _explain(fields: tuple[Field, ...]) -> Callable[[Layer], None]:
    """Return the function that raises EncodeError for the first field whose value is out of range."""

    def explain(value: Layer) -> None:
        for field in fields:
            got = getattr(value, field.key)
            shown = repr(got)
            if field.is_number:
                if _is_in_range(got, field):
                    continue
                needed = f"an integer in {field.minimum}..{field.maximum}"
            elif field.bits is None:
                if isinstance(got, bytes | bytearray | memoryview):
                    continue
                needed = "octets"
            elif isinstance(got, bytes | bytearray):
                if len(got) == field.bits // 8:
                    continue
                needed, shown = f"{field.bits // 8} octets", f"{len(got)} octets"
            else:
                needed = f"{field.bits // 8} octets"
            raise EncodeError(
                layer=value.prefix,
                field=field.key,
                needed=needed,
                got=shown,
            )

    return explain


def _is_in_range(value: Any, field: Field) -> bool:
    try:
        return field.minimum <= operator.index(value) <= field.maximum
    except TypeError:
        return False
