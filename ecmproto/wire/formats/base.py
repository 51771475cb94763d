"""Base of the wire formats. Each format is one class, which declares all fields.

A format is a class with the decorator ``@layer(...)``. Functions of `ecmproto.wire.formats.schema` declare
the width, meaning and source of each field::

    @layer("cntag", title="Congestion notification tag", source="802.1Q clause 33")
    class CNTag(Layer):
        flow_id: int = uint(16, default=0, doc="…", source="…")

The following are derived from this declaration:

- the type of the frozen values (the class itself)
- the field table, the bit diagrams and the documentation
- the construct schema (``CNTag.schema``, a ``construct.Struct`` that parses and builds)
- the Hypothesis strategies
- the codec for single frames: Python functions, generated from the field table

construct parses about 20–50 thousand headers per second. The generated functions read and write the same
fields a few times faster. A test compares each function with the construct schema, in both directions.

Schema, functions and constructor are created at the first use, because most processes use few formats.
"""

from __future__ import annotations

import dataclasses
import inspect
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
"""The direction of a frame: from the source to the destination of a flow, from a congestion point to the
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
"""The rule that selects the following format.

The selector is an EtherType or length (a cooked header has no length, and SNAP has few EtherTypes), IP's
protocol or next header, a UDP port or RoCE's port, or one of the format's ``sequences``. Octets and TLVs need
no selector. "content" means a format that the wrapper ``wraps``, and "own" means the format's own method.
"""

Following: TypeAlias = "tuple[type[Layer] | None, int]"
"""The format after a layer, or None, and the maximum end of that format."""


UNBOUNDED = 1 << 32
"""A length greater than any frame's, for unknown lengths, such as the length of a sampled frame."""


class Formats(Protocol):
    """The tables in which a layer finds the format that follows."""

    @property
    def ethertypes(self) -> EtherTypes:
        """The EtherType map."""

    @property
    def after_snap(self) -> frozenset[int]:
        """The EtherTypes that are decoded after SNAP."""

    def announced(self, value: int, data: bytes, pos: int, stop: int) -> tuple[type[Layer], int]:
        """Return the format of an EtherType or length at ``data[pos:stop]``, and its maximum end."""

    def ethertype_of(self, following: Layer | None) -> int | None:
        """Return the EtherType of ``following``, or None if ``following`` has no EtherType."""

    def after_ip(self, version: int, protocol: int) -> type[Layer]:
        """Return the format of an IPv4 protocol or IPv6 next header, or `Data` for an unknown protocol."""

    def after_port(self, port: int, data: bytes, pos: int, stop: int) -> type[Layer]:
        """Return the format of a UDP port at ``data[pos:stop]``, or `Data` for an unknown port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The valid range of the field ``key``: from ``low`` to ``high`` in all frames of the format."""

    key: str
    low: int
    high: int
    name: str = ""
    """Name of the field in errors, if the name differs from ``key``."""

    @property
    def needed(self) -> str:
        """The limit as text."""
        values = str(self.low) if self.low == self.high else f"{self.low}..{self.high}"
        return f"{self.name or self.key} {values}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crafting:
    """The defaults of crafted frames of a format: direction, destination, priority and field values."""

    direction: Direction | None = None
    """Direction of crafted frames. With None, the role decides: messages are feedback, other formats are
    data.
    """
    destination: bytes = b""
    """Group address as the destination; empty if the destination is a station."""
    priority: int = 0
    """Priority of crafted frames."""
    values: Mapping[str, int | bytes] = dataclasses.field(default_factory=dict)
    """Values of fields that differ from the fields' defaults."""
    outer: Mapping[type[Layer], Mapping[str, int | bytes]] = dataclasses.field(default_factory=dict)
    """Values of fields in outer headers that differ from the fields' defaults, by format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The fields of a congestion point's messages that statistics count, besides CPID and queue lengths."""

    types: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Values of the field ``type`` that are feedback, with names. If empty, every message is feedback."""
    flow_id: str = ""
    """Full name of the field with the flow, in the message or in a tag, of at most 16 bits."""
    quantized: str = ""
    """Name of the field with quantized feedback, of at most 6 bits."""


class Layer:
    """Base class of typed layers. A layer contains the fields of one format with their values in a frame.

    Layers are frozen, slotted and keyword-only. Two layers are equal if all fields are equal. Values are
    range-checked during encoding, not during construction, so a decoder accepts every code point.
    """

    __slots__ = ()

    schema: ClassVar[FlatStruct]
    """The construct schema."""
    prefix: ClassVar[str]
    """Prefix of the field names, and name of the format in JSON and on the command line."""
    field_prefix: ClassVar[str] = ""
    """Prefix of the field names, if it differs from ``prefix``."""
    title: ClassVar[str]
    """Name in prose."""
    source: ClassVar[str]
    """Clause or document that defines the format."""

    role: ClassVar[Role]
    """Role in a frame. The default is "tag", "payload" or "header", derived from the announcements."""
    counted_as: ClassVar[str]
    """Name of the format's frames in statistics, or "". The default is the title, or "" for headers."""
    summary: ClassVar[Summary]
    """Part of the format in a frame's summary line. The default lists the fields by name."""
    as_feedback: ClassVar[Feedback | None]
    """Fields counted by congestion point, or None. The default applies to messages with a CPID."""

    announced_by: ClassVar[str | int] = ""
    """Role in the `EtherTypes` map, or EtherType, that announces the format, or ""."""
    further_ethertypes: ClassVar[tuple[int, ...]] = ()
    """Other EtherTypes that announce the format."""
    selected_by: ClassVar[tuple[int, ...]] = ()
    """Values of the selector that announce the format, if several formats share an EtherType or UDP port.

    The selector is the first two octets, unless the EtherType has another selector. () stands for all other
    values.
    """
    after_snap: ClassVar[bool] = False
    """Whether the EtherType also announces the format in SNAP headers."""
    ip_protocol: ClassVar[int | None] = None
    """IPv4 protocol and IPv6 next header that announce the format."""
    next_header: ClassVar[int | None] = None
    """Next header that announces the format only after IPv6."""
    udp_ports: ClassVar[tuple[int, ...]] = ()
    """UDP destination ports that announce the format. Crafted frames have the first port."""
    next_key: ClassVar[str] = ""
    """Field with the EtherType or length of the following format; "" if the layer ends the frame."""
    follows: ClassVar[Follows]
    """Rule that selects the following format. The default is the EtherType if there is a ``next_key``."""
    constants: ClassVar[tuple[str, ...]] = ()
    """Fields that identify the format, because the fields have their defaults in all of its frames."""
    limits: ClassVar[tuple[Limit, ...]] = ()
    """Limits of the fields, in the order of the checks."""
    shows: ClassVar[type[Layer] | None] = None
    """First format of the frame inside the last field, or None."""
    sequence_key: ClassVar[str] = ""
    """Field that selects one of ``sequences``, by the 8 bits above the lowest ``sequence_shift`` bits."""
    sequence_shift: ClassVar[int] = 0
    sequences: ClassVar[Mapping[int, tuple[type[Layer], ...]]] = {}
    """Following formats in order, by the value of ``sequence_key``, if this format alone determines them.

    Values that are followed only by octets are not listed.
    """
    closed_by: ClassVar[type[Layer] | None] = None
    """Format of the last octets of a packet that starts with this format, after the sequence."""
    wraps: ClassVar[Mapping[int, type[Layer]]] = {}
    """Formats inside a wrapper, by the value of ``next_key``, or by 0 if there is no ``next_key``."""
    session_key: ClassVar[str] = ""
    """Field with the session number of a wrapper."""
    covers: ClassVar[str] = ""
    """Field computed from the octets before this layer. See `covering`."""
    holds: ClassVar[tuple[type[Layer], ...]] = ()
    """Formats inside this format, such as TLVs inside a TLV. See `inside`."""
    min_shown_octets: ClassVar[int] = 0
    """Minimum octets on the wire of the frame inside the last field."""

    colour: ClassVar[str]
    """Style of the name in output. The default is the style of the summary, or else of the role."""
    crafting: ClassVar[Crafting]
    """Defaults of crafted frames. The default depends on the role."""

    layout: ClassVar[tuple[Field, ...]]
    """Fields in wire order."""
    read_from_text: ClassVar[tuple[Field, ...]]
    """Fields that accept text as their value: addresses and CPIDs."""
    moving: ClassVar[tuple[Field, ...]]
    """The first variable field and all later fields, if a field other than the last is variable; usually
    empty.
    """
    fixed_octets: ClassVar[int]
    """Octets of the fixed part, which are the fields before the first variable field."""
    parse: ClassVar[Callable[[bytes, int, int], tuple[Layer, int, int] | None]]
    """Function that reads a layer from ``data[start:stop]``.

    The result is (value, end, number of octets missing at the end), or None if the fixed part is incomplete.
    This module generates the function from the layout.
    """
    build: Callable[[], bytes]
    """Function that encodes a layer. Raises EncodeError for a value out of range. Generated from the
    layout.
    """

    otherwise: ClassVar[type[Layer] | None] = None
    """Format of octets that are announced as this format but invalid, or None if all octets are valid."""
    least_octets: ClassVar[int] = 0
    """Minimum octets on the wire from this layer on, if there is an ``otherwise``."""
    nonzero_octets: ClassVar[int] = 0
    """Number of leading octets that must not all be zero, if there are ``least_octets``."""

    @classmethod
    def cannot_be(cls, data: bytes, start: int, stop: int, reach: int) -> bool:
        """Return whether the octets announced as this format belong to ``otherwise``.

        The octets are ``data[start:stop]``, and extended to octet ``reach`` on the wire. By default, they
        belong to ``otherwise`` if there are fewer octets than the fixed part, fewer octets on the wire than
        the minimum, or only zeros at the start.
        """
        if not cls.least_octets:
            return False
        few = stop - start < cls.fixed_octets or reach - start < cls.least_octets
        return few or not any(data[start : start + cls.nonzero_octets])

    @classmethod
    def short(cls, data: bytes, start: int, stop: int, reach: int) -> DecodeError | None:
        """Return the error of an incomplete fixed part, or None if the part was complete on the wire.

        The arguments are the same as in `cannot_be`.
        """
        return too_few(cls, start, stop, reach)

    def check(self, start: int, reach: int) -> DecodeError | None:
        """Return the error of this value at octet ``start`` if the format forbids the value, else None.

        ``reach`` is the maximum end on the wire. The function is generated from the limits, if there are any.
        """
        return None

    within: ClassVar[Callable[[Any, int, int], DecodeError | None]] = check
    """Function that returns the error of the first violated limit, or None. Arguments as in `check`."""

    @classmethod
    def direction_of(cls, values: Mapping[str, int | bytes]) -> Direction:
        """Return the direction of a frame with these ``values``."""
        return cls.crafting.direction or _DIRECTIONS.get(cls.role, "data")

    def computed(self, rest: bytes, following: Layer | None, formats: Formats) -> dict[str, int]:
        """Return the correct values of length, type and checksum fields.

        ``rest`` contains the octets after this layer, without padding, and ``following`` is the first layer
        of ``rest``. For a layer that contains other layers, ``rest`` contains the octets of these layers.
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
        """Return the function that computes the field ``covers`` from the preceding octets, or None.

        ``starts`` are the offsets of the preceding ``layers`` in the frame, then the end of the last one.
        """
        return None

    def following_headers(self) -> tuple[type[Layer], ...]:
        """Return the sequence of formats after this layer. See ``sequences``."""
        return self.sequences.get(self.selected_sequence, ())

    @property
    def selected_sequence(self) -> int:
        """Value that selects the sequence; 0 without a ``sequence_key``."""
        value: int = getattr(self, self.sequence_key) >> self.sequence_shift if self.sequence_key else 0
        return value

    def inside(self, data: bytes, start: int, end: int, stop: int) -> Following:
        """Return the first format inside this layer, or None, and the end of the last format inside.

        The layer starts at octet ``start``, and its own fields end at ``end``. The result of `following`
        comes after all layers inside.
        """
        return None, end

    def following(self, formats: Formats, data: bytes, end: int, stop: int) -> Following:
        """Return the format that follows in ``data[end:stop]``, and the maximum end of that format.

        None means that this layer is the last one, and that padding or a trailer follows.
        """
        if not self.next_key:
            return None, end
        return formats.announced(getattr(self, self.next_key), data, end, stop)

    def __repr__(self) -> str:
        """Return the Python expression of an equal layer, with the fields that differ from their defaults."""
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
    """Return the error of a format with an incomplete fixed part. The error counts missing octets."""
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
    """Make a class without slots whose fields formats inherit, starting with the fields of the last base."""
    made: Any = dataclass(frozen=True, kw_only=True, repr=False)(cls)
    return made  # type: ignore[no-any-return]


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(uint, sint, mac, address, octets)
)
def layer(prefix: str, *, title: str, source: str, **defaults: int) -> Callable[[L], L]:
    """Make a format from a class of declared fields.

    ``defaults`` are the format's values of inherited fields: an ECM message has Protocol 0, a BCN message has
    Protocol 1.
    """

    def decorate(cls: L) -> L:
        annotations = inspect.get_annotations(cls)
        clashes = [key for key in annotations if key in Layer.__annotations__ or hasattr(Layer, key)]
        if clashes:
            raise TypeError(f"{cls.__name__}: a field of a format cannot be called {clashes[0]}")
        for key, default in defaults.items():
            setattr(cls, key, _with_default(cls, key, default))
            annotations.setdefault(key, "int")
        cls.__annotations__ = annotations
        if "__post_init__" not in cls.__dict__:
            cls.__post_init__ = _read_text  # type: ignore[attr-defined]
        made: Any = dataclass(frozen=True, slots=True, kw_only=True, repr=False)(cls)
        made.prefix, made.title, made.source = prefix, title, source
        made.layout = fields_of(_declared(made), made.field_prefix or prefix, source)
        made.__slots__ = {field.key: field.described for field in made.layout}  # ``help`` shows them
        made.read_from_text = tuple(f for f in made.layout if f.kind in ("mac", "ipv4", "ipv6", "cpid"))
        made.moving = _moving(made)
        made.fixed_octets = sum(field.bits or 0 for field in _fixed(made)) // 8
        for name, make in _LATER.items():
            setattr(made, name, Later(made, name, make))
        if made.limits:
            made.within = Later(made, "within", _within)
            if made.check is Layer.check:
                made.check = Later(made, "check", operator.attrgetter("within"))
        _fill_in(made)
        return made  # type: ignore[no-any-return]

    return decorate


def _declared(cls: Any) -> list[tuple[str, Width]]:
    return [(field.name, field.metadata["width"]) for field in dataclasses.fields(cls)]


def _schema(cls: type[Layer]) -> FlatStruct:
    from ecmproto.wire.formats.constructs import schema_of

    return schema_of(_declared(cls))


def _read_text(value: Layer) -> None:
    """Replace addresses given as text by octets. Decoders set the slots directly, without this function."""
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
    """Set the attributes of a format that are missing in the declaration and in the base classes."""
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
    fill("crafting", _PLAIN_CRAFTING)
    fill("summary", Later(cls, "summary", _summary))
    if "summary" not in filled:
        check_summary(cls.__name__, cls.summary)
    by_points = cls.role == "message" and any(field.kind == "cpid" for field in cls.layout)
    fill("as_feedback", Feedback() if by_points else None)
    colour = "" if "summary" in filled else cls.summary.colour
    cls.colour = colour or _COLOURS.get(cls.role, "title")
    setattr(cls, _FILLED, frozenset(filled))


def _summary(cls: type[Layer]) -> Summary:
    shows = cls.shows is not None
    return summary_of_fields(cls.prefix, cls.role, cls.layout, next_key=cls.next_key, shows=shows)


_FILLED = "_filled_in"
_PLAIN_CRAFTING = Crafting()


def _within(cls: type[Layer]) -> Callable[[Any, int, int], DecodeError | None]:
    """Return the function that checks the limits of a format, with one comparison per limit."""
    offsets = {field.key: field.bit_offset // 8 for field in cls.layout}

    def refused(value: Layer, index: int, start: int) -> DecodeError:
        limit = cls.limits[index]
        at = start + offsets[limit.key]
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
    """Add a format to ecmproto and return the format. Use this class decorator above ``@layer``.

    The tables of formats are made once, at the first decoding or encoding. Raises ParameterError for a format
    that is registered later. Formats of the entry point group ``ecmproto.formats`` need no registration.
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
    """Return the fields of a format without a fixed offset. Raises TypeError for invalid fields."""
    moved = [field for field in cls.layout if field.behind]
    for field in moved:
        if field.bits is not None and (field.is_number or cls.otherwise is None):
            needed = "octets or, in a format with an otherwise for incomplete ones, an address"
            raise TypeError(f"{field.name}: after a field of variable length, {needed}")
    first = cls.layout.index(moved[0]) - 1 if moved else len(cls.layout)
    return cls.layout[first:]


_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


def _parser(cls: type[Layer]) -> staticmethod[..., Any]:
    """Return the ``parse`` function of a format. See `Layer`."""
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
    """Return the ``build`` function of a format. See `Layer`."""
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
    """Return the fields before the first variable field."""
    return [field for field in cls.layout if field.bits is not None and not field.behind]


def _rest(cls: type[Layer]) -> list[Field]:
    return [field for field in cls.layout if field.bits is None or field.behind]


def _codes(groups: list[list[Field]]) -> struct.Struct:
    return struct.Struct(">" + "".join(_code(group) for group in groups))


def _groups(cls: type[Layer]) -> list[list[Field]]:
    """Return the fixed fields grouped by struct code: single fields, and runs of fields smaller than an
    octet.
    """
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
    """Return source lines that range-check the fields of a group and shift them into one number.

    The lines convert values to int, because numpy's numbers would overflow.
    """
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
