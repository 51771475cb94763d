"""The layers of a frame under construction, with the given fields of each layer.

A given field can belong to a layer that the frame type implies. For example, ``cnm flow_id=7`` means a CN-TAG
before the CNM. `Stack.locate` finds the layer of a field, or raises an error with the most similar name. This
module also parses the line notation of a frame, such as ``cnm qntz_fb=40 flow_id=7`` or ``vlan id=5 cntag
flow_id=7 ip … udp …``.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ecmproto.errors import EncodeError, SpecError, hint_on_name, shown
from ecmproto.wire.codec.document import format_named
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.cn import CNM, CNTag
from ecmproto.wire.formats.ethernet import VLAN, Ethernet, ITag, STag
from ecmproto.wire.formats.ip import IPv4, IPv6
from ecmproto.wire.formats.lldp import AnyTLV
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS
from ecmproto.wire.formats.schema import BitPart, Field
from ecmproto.wire.formats.text import value_of

VLAN_TAGS = (VLAN, STag)
_FRONT = (Ethernet, VLAN, STag, ITag)

ALIASES: dict[str, dict[str, str]] = {
    "pfc": {f"prio{priority}": f"time{priority}" for priority in range(8)}
    | {"enable": "class_enable_vector"},
    "pause": {"quanta": "pause_time", "time": "pause_time"},
}
"""Alternative field names of each format."""

SHORTHANDS = {"dst": "eth.dst", "src": "eth.src"}
"""Short field names that are valid in all frames. ``vlan``, ``prio`` and ``flow`` are handled separately."""

_NUMBERED = re.compile(r"(.+)#([1-9][0-9]{0,3})")


@dataclasses.dataclass(slots=True, eq=False)
class Part:
    """A planned layer: its format and the given field values."""

    cls: type[Layer]
    values: dict[str, int | bytes] = dataclasses.field(default_factory=dict)
    bits: dict[str, dict[BitPart, int]] = dataclasses.field(default_factory=dict)
    """Values of bit ranges, for fields that are only partly given."""

    @property
    def given(self) -> frozenset[str]:
        """The keys of fields that were given completely or partly."""
        return frozenset(self.values) | frozenset(self.bits)

    def made(self, filled: Mapping[str, int | bytes]) -> Layer:
        """Return the layer. Fields that were not given have the values in ``filled``."""
        values = {**filled, **self.values}
        for key, bits in self.bits.items():
            number = values.get(key, _field(self.cls, key).meta.default)
            for part, value in bits.items():
                assert isinstance(number, int)
                number = number & ~part.mask | value << part.low
            values[key] = number
        return self.cls(**values)

    @property
    def is_tlv(self) -> bool:
        """Whether the layer is an LLDP TLV."""
        return issubclass(self.cls, AnyTLV)

    def give(self, field: Field, value: int | bytes) -> None:
        """Set the value of a field. Raises SpecError if the field already has a value."""
        bits = self.bits.get(field.key, {})
        if field.key in self.values or field.part in bits or (bits and field.part is None):
            raise SpecError(
                where=f"{self.cls.prefix}.{field.key}", needed="each field once", got="the same field twice"
            )
        self.set(field, value)

    def set(self, field: Field, value: int | bytes) -> None:
        """Set or replace a field's value. Raises EncodeError if a bit range is too small for the value."""
        if field.part is None:
            self.values[field.key] = value
            return
        assert isinstance(value, int)
        if not 0 <= value <= field.maximum:
            needed = f"an integer in 0..{field.maximum}"
            raise EncodeError(layer=self.cls.prefix, field=field.name, needed=needed, got=str(value))
        self.bits.setdefault(field.key, {})[field.part] = value

    def own(self, name: str) -> Field | None:
        """Return the field of this layer with the name ``name``. The prefix of the format is optional."""
        prefix = self.cls.prefix
        key = ALIASES.get(prefix, {}).get(name.removeprefix(f"{prefix}."), name)
        for field in self.cls.layout:
            if key in (field.key, field.name, field.meta.length_name, f"{prefix}.{field.key}"):
                return field
        for field in self.cls.layout:
            for part in field.parts():
                # single bits have no short names
                short = part.name.rpartition(".")[2] if part.maximum > 1 else part.name
                if name in (part.name, short, f"{prefix}.{short}"):
                    return part
        return None


class Stack:
    """The parts of a frame, outermost first."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.vlan_ids: list[int] | None = None
        self.ip_ends: tuple[bytes, bytes] | None = None
        self.priority: int | None = None

    def add(self, name: str, *, where: str) -> Part:
        """Append a layer by the name of its format.

        Raises SpecError with the most similar name for an unknown format.
        """
        part = Part(format_named(name, where=where))
        self.parts.append(part)
        return part

    def get(self, cls: type[Layer]) -> Part | None:
        """Return the outermost layer of a format in the innermost frame, or ``None``."""
        return next((part for part in self._frame if part.cls is cls), None)

    @property
    def _begin(self) -> int:
        """The index of the first part of the innermost frame.

        Wrappers at the end of the stack belong to this frame.
        """
        inner = [part.cls.role == "wrapper" for part in self.parts]
        ends = [at for at in range(1, len(inner)) if inner[at - 1] and not inner[at]]
        return max(ends, default=0)

    @property
    def _frame(self) -> list[Part]:
        """The parts of the innermost frame."""
        return self.parts[self._begin :]

    @property
    def is_mac_control(self) -> bool:
        """Whether the frame is a PAUSE, PFC or other MAC Control frame."""
        return any(part.cls.role == "flow control" for part in self._frame)

    @property
    def is_lldp(self) -> bool:
        """Whether the frame is an LLDPDU, in which every TLV is a layer."""
        return any(part.is_tlv for part in self._frame)

    def tags(self) -> Iterator[Part]:
        """Return an iterator over the VLAN tags, outermost first."""
        return (part for part in self._frame if part.cls in VLAN_TAGS)

    def give(self, name: str, given: object, part: Part | None) -> None:
        """Set the field ``name`` of ``part`` or of the whole frame. Raises SpecError for an unknown field."""
        own = part.own(name) if part else None
        if own is None and name == "vlan":
            self.give_vlans(given)
        elif own is None and name == "prio":
            self.give_priority(given)
        elif own is None and name == "ip":
            self.give_ip(given)
        else:
            owner, field = self.locate(name, part)
            owner.give(field, value_of(field, given))

    def give_vlans(self, given: object) -> None:
        """Set the VLAN IDs of the tags, outermost first.

        ``given`` is a number, a list, or a text such as ``"100,5"``.
        """
        if self.vlan_ids is not None:
            raise SpecError(where="vlan", needed="VLAN ids once", got="them twice")
        field = _field(VLAN, "id")
        items = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else [given]
        self.vlan_ids = [_number(field, item) for item in items]

    def give_priority(self, given: object) -> None:
        """Set the priority of the outermost tag."""
        if self.priority is not None:
            raise SpecError(where="prio", needed="the priority once", got="it twice")
        self.priority = _number(_field(VLAN, "priority"), given)

    def give_ip(self, given: object) -> None:
        """Set the IP addresses of source and destination: ``"10.0.0.1,10.0.0.2"``, or two IPv6 addresses."""
        if self.ip_ends is not None:
            raise SpecError(where="ip", needed="IP addresses once", got="them twice")
        items = given.split(",") if isinstance(given, str) else given
        try:
            source, destination = (ipaddress.ip_address(str(item).strip()) for item in items)  # type: ignore[attr-defined]
        except (ValueError, TypeError):
            needed = "two addresses such as 192.0.2.1,192.0.2.2"
            raise SpecError(where="ip", needed=needed, got=shown(given)) from None
        if source.version != destination.version:
            raise SpecError(where="ip", needed="two addresses of one version", got=shown(given))
        self.ip_ends = source.packed, destination.packed

    def settle(self) -> None:
        """Add the tags for ``vlan`` and ``prio``, and the addresses and header for ``ip``.

        Of several VLAN IDs, the last ID belongs to a C-TAG, and the other IDs belong to S-TAGs. A priority
        without a VLAN tag adds a priority tag.
        """
        self._settle_ip()
        ids, priority = self.vlan_ids, self.priority
        self.vlan_ids = self.priority = None
        if ids is None and priority is None:
            return
        self._refuse_tags("vlan" if ids is not None else "prio")
        for index, number in enumerate(reversed(ids or ())):
            tag = Part(STag if index else VLAN, {"id": number})
            self.parts.insert(self._ethernet_end(), tag)
        if priority is not None:
            tag = self._outermost_tag()
            tag.give(_field(tag.cls, "priority"), priority)

    def _settle_ip(self) -> None:
        ends, self.ip_ends = self.ip_ends, None
        if ends is None:
            return
        version = IPv4 if len(ends[0]) == 4 else IPv6
        part = self.get(version)
        if part is None:
            frame = enumerate(self._frame, self._begin)
            at = next((at for at, part in frame if _is_carried(part.cls)), None)
            if at is None or self.get(IPv4) or self.get(IPv6):
                got = " ".join(part.cls.prefix for part in self.parts)
                raise SpecError(where="ip", needed=f"a frame with {version.title}", got=got)
            part = Part(version)
            self.parts.insert(at, part)
        for key, octets in zip(("src", "dst"), ends, strict=True):
            part.give(_field(version, key), octets)

    def locate(self, name: str, part: Part | None) -> tuple[Part, Field]:
        """Return the layer and field that ``name`` means after ``part``.

        An implied layer is added if it is missing.

        ``vlan.id#2`` is the field of the second layer with the field ``vlan.id``. Raises SpecError with the
        most similar name for an unknown field.
        """
        numbered = _NUMBERED.fullmatch(name)
        if numbered:
            return self._nth(numbered[1], int(numbered[2]))
        field = part.own(name) if part else None
        if part and field:
            return part, field
        if part and part.cls.wraps and (owned := self._in_header(part, name)):
            return owned
        if name in ("vlan", "prio"):
            self._refuse_tags(name)
            tag = self._outermost_tag()
            return tag, _field(tag.cls, "id" if name == "vlan" else "priority")
        if name == "flow":
            # an explicitly requested CN-TAG can be added to any frame that can have tags
            self._refuse_tags(name)
            tag = self.get(CNTag) or self._insert(CNTag)
            return tag, _field(CNTag, "flow_id")
        name = SHORTHANDS.get(name, name)
        for other in reversed(self.parts) if part is None else (*self._frame, *self.parts):
            field = other.own(name)
            if field and (part is None or "." in name or other.cls in (*_FRONT, CNTag)):
                return other, field
        for cls in self._implied():
            field = Part(cls).own(name)
            if field:
                return self._insert(cls), field
        raise self._unknown(name, part)

    def _in_header(self, wrapper: Part, name: str) -> tuple[Part, Field] | None:
        """Return a field of the header parts of a wrapper. A missing part is added."""
        at = self.parts.index(wrapper) + 1
        for cls in max(wrapper.cls.sequences.values(), key=len, default=()):
            present = at < len(self.parts) and self.parts[at].cls is cls
            part = self.parts[at] if present else Part(cls)
            field = part.own(name)
            if field and not present:
                self.parts.insert(at, part)
            if field:
                return part, field
            at += present
        return None

    def _nth(self, name: str, number: int) -> tuple[Part, Field]:
        results = [(part, field) for part in self.parts if (field := part.own(name))]
        if len(results) < number:
            raise SpecError(
                where=f"{name}#{number}", needed=f"{number} layers with {name}", got=f"{len(results)} of them"
            )
        return results[number - 1]

    def _implied(self) -> tuple[type[Layer], ...]:
        """Formats that the frame type implies if one of their fields is given."""
        outside: tuple[type[Layer], ...] = (Ethernet,)
        if self.is_mac_control or self.is_lldp:
            return outside
        # a CNM is the only message with a CN-TAG (wire-formats 3 to 7)
        message = any(part.cls.role == "message" for part in self._frame)
        return (Ethernet, VLAN) if message and not self.get(CNM) else (Ethernet, VLAN, CNTag)

    def _insert(self, cls: type[Layer]) -> Part:
        frame = enumerate(self._frame, self._begin)
        if cls is Ethernet:
            position = self._begin
        elif cls is VLAN:
            position = self._ethernet_end()
        else:
            position = next((i for i, part in frame if part.cls not in _FRONT), len(self.parts))
        part = Part(cls)
        self.parts.insert(position, part)
        return part

    def _ethernet_end(self) -> int:
        return self._begin + (self._frame[:1] != [] and self._frame[0].cls is Ethernet)

    def _outermost_tag(self) -> Part:
        return next(self.tags(), None) or self._insert(VLAN)

    def _refuse_tags(self, name: str) -> None:
        if self.is_mac_control:
            raise SpecError(
                where=name,
                needed="a frame that may have a tag",
                got="a MAC Control frame, which never has one",
                hint="to send one on purpose, name the tag explicitly: vlan id=5 pfc …",
            )

    def _unknown(self, name: str, part: Part | None) -> SpecError:
        near = [part] if part else self.parts
        known = [field.key for each in near for field in each.cls.layout]
        for each in near:
            known += ALIASES.get(each.cls.prefix, {})
        for cls in self._implied():
            known += [field.name if "." in name else field.key for field in cls.layout]
        what = " or ".join(dict.fromkeys(each.cls.prefix for each in near))
        short = name if not part else name.removeprefix(f"{part.cls.prefix}.")
        if "." in short:
            known += [f"{each.cls.prefix}.{field.key}" for each in near for field in each.cls.layout]
        return SpecError(
            where=part.cls.prefix if part else "sweep",
            needed=f"a field of {what} or of a layer it implies",
            got=repr(name),
            hint=hint_on_name(short, dict.fromkeys(known)),
        )


def _is_carried(cls: type[Layer]) -> bool:
    return bool(cls.udp_ports or cls in LEADERS) or (cls.ip_protocol is not None and cls.role != "header")


def _leaders() -> dict[type[Layer], tuple[type[Layer], str, int]]:
    """Return the default leader of each format in a sequence, as a format, the key of a field and its value.

    The default is the sequence with the fewest formats. Among sequences of equal length, the last sequence is
    used.
    """
    leaders: dict[type[Layer], tuple[type[Layer], str, int]] = {}
    for leader in FORMATS:
        if leader.wraps:
            continue  # the parts of a wrapper's header
        for value in sorted(leader.sequences, key=lambda value: -len(leader.sequences[value])):
            leaders |= dict.fromkeys(leader.sequences[value], (leader, leader.sequence_key, value))
    return leaders


LEADERS = _leaders()


def _field(cls: type[Layer], key: str) -> Field:
    return next(field for field in cls.layout if field.key == key)


def _number(field: Field, given: object) -> int:
    value = value_of(field, given.strip() if isinstance(given, str) else given)
    assert isinstance(value, int)
    return value


def stack_from_arguments(arguments: Sequence[str], *, where: str = "frame") -> Stack:
    """Return the layers from words such as ``["cnm", "qntz_fb=40"]``. Raises SpecError for invalid words."""
    stack = Stack()
    part = None
    for word in arguments:
        name, equals, value = word.partition("=")
        if not equals:
            part = stack.add(word.lower(), where=where)
        elif part is None:
            raise SpecError(
                where=where,
                needed="the name of a layer in front of its fields",
                got=repr(word),
                hint=_layer_first(word),
            )
        else:
            stack.give(name.lower(), value, part)
    if part is None:
        raise SpecError(where=where, needed="the name of a layer", got="nothing", hint=_LAYERS)
    return stack


_LAYERS = "ecmproto fields lists them"


def _layer_first(word: str) -> str:
    """Return the hint for a field that does not follow a layer."""
    prefix, _, field = word.lower().rpartition(".")
    return f"write: {prefix} {field}" if prefix in BY_PREFIX else _LAYERS


def stack_from_line(line: str, *, where: str = "frame") -> Stack:
    """Return the layers from a line. The line is split into words by the rules of a shell."""
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise SpecError(where=where, needed="a line with its quotes closed", got=repr(line)) from error
    return stack_from_arguments(parts, where=where)


def give_fields(stack: Stack, fields: Mapping[str, object]) -> None:
    """Set fields of the last layer of ``stack``, or of its implied layers, by name."""
    part = stack.parts[-1]
    for name, value in fields.items():
        stack.give(name, value, part)
