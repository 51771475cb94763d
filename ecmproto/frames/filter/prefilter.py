"""Prefilters: kernel programs that drop frames of a live capture that a filter cannot select.

The kernel's programs read only the first octets of frames, so they accept a superset of the frames that the
filter selects. The filter is then applied to the accepted frames. Each test is translated into two
conditions. A necessary condition is true whenever the test is true. A sufficient condition is true only if
the test is true. Negation swaps the two conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.capture.linux.bpf import (
    ALWAYS,
    NEVER,
    VLAN_PRESENT,
    VLAN_TCI,
    VLAN_TPID,
    Condition,
    Instruction,
    Value,
    above,
    all_of,
    any_of,
    at_or_above,
    equal,
    inverse,
    program_of,
)
from ecmproto.frames.filter.evaluation import Filter, fields_of
from ecmproto.frames.filter.fields import (
    IN_SEQUENCE,
    And,
    Comparison,
    Constant,
    FieldSource,
    FilterField,
    Interval,
    Masked,
    Match,
    Membership,
    Network,
    Not,
    Operand,
    Or,
    Present,
    Slice,
    Test,
)
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethernet import SNAP_START, VLAN, Ethernet, STag
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH, EtherTypes
from ecmproto.wire.formats.ip import PROTO_UDP, SFLOW_PORT, Extension, IPv4, IPv6
from ecmproto.wire.formats.registry import FORMATS, announcement, dispatch

_HEADER_OCTETS = 14
_TYPE = Value(offset=12, octets=2)
_TAG_OCTETS = 4
_SNAP_OCTETS = 8
"""Octets from a length field to the EtherType in a SNAP header."""
_IP4_START = 0x45
"""First octet of an IPv4 header without options."""
_WRAPPERS = [cls for cls in FORMATS if cls.wraps]
_WRAPPER_PORTS = [*(port for cls in _WRAPPERS for port in cls.udp_ports), SFLOW_PORT]
_WRAPPER_PROTOCOLS = [cls.ip_protocol for cls in _WRAPPERS if cls.ip_protocol is not None]
_EXTENSIONS = [
    number
    for cls in FORMATS
    if issubclass(cls, Extension)
    for number in (cls.next_header, cls.ip_protocol)
    if number is not None
]
_MAX_TAGS = 4
"""Maximum number of tags before the field; frames with more tags are accepted."""

_PRESENT = above(Value(offset=VLAN_PRESENT), 0)
_TPID = Value(offset=VLAN_TPID)
_LENGTH = Value(length=True)
_TCI_PARTS = {"priority": (0xE000, 13), "dei": (0x1000, 12), "id": (0x0FFF, 0)}
_ADDRESS_AT = {"dst": 0, "src": 6}

_Leaf: TypeAlias = Present | Comparison | Match | Membership


def prefilter(
    filter: Filter,
    *,
    linktype: int = ETHERNET,
    snap_octets: int | None = None,
    ethertypes: EtherTypes = DEFAULT,
    outer: bool = True,
) -> tuple[Instruction, ...]:
    """Return the program by which the kernel accepts a superset of the filter's selection on an interface.

    Without ``outer``, the filter applies to innermost frames, and the program accepts all wrapped frames.

    The program is empty and accepts all frames if no frame can be dropped. This is the case for links other
    than Ethernet, for a snap length shorter than the Ethernet header, and for filters that depend on frame
    numbers or times.
    """
    has_header = snap_octets is None or snap_octets >= _HEADER_OCTETS
    if linktype != ETHERNET or not has_header or not set(IN_SEQUENCE).isdisjoint(filter.fields):
        return ()
    translator = _Translator(ethertypes)
    condition = translator.necessary(filter.test)
    fields = fields_of(filter.test)
    if not outer or any(field.origin != "record" and field.nesting != "outer" for field in fields):
        condition = any_of(condition, translator.wrapped())
    return program_of(condition)


class _Translator:
    """Translator of tests for a given map of EtherTypes."""

    def __init__(self, ethertypes: EtherTypes) -> None:
        self._ethertypes = ethertypes
        self._tags = (ethertypes.c_tag, ethertypes.s_tag, ethertypes.old_s_tag)
        # The layers after other tags are not searched, so such frames are accepted.
        steps = {*self._tags, ethertypes.cn_tag}
        tags = {announcement(cls, ethertypes) for cls in FORMATS if cls.role == "tag"} - {None}
        self._opaque = tuple(sorted(value for value in tags if value is not None and value not in steps))
        announced = [(announcement(cls, ethertypes), *cls.further_ethertypes) for cls in _WRAPPERS]
        self._labels = sorted(value for values in announced for value in values if value is not None)

    def necessary(self, test: Test) -> Condition:
        """Return a condition that is true whenever the test is true."""
        match test:
            case And(tests=tests):
                return all_of(*map(self.necessary, tests))
            case Or(tests=tests):
                return any_of(*map(self.necessary, tests))
            case Not(test=inner):
                return inverse(self.sufficient(inner))
        exact = self._exact(test)
        return self._carried(test) if exact is None else exact

    def wrapped(self) -> Condition:
        """Return a condition that is true for frames with a wrapped frame, which may have any layer."""
        return self._wrapped_at(_TYPE, _MAX_TAGS)

    def _wrapped_at(self, at: Value, more: int) -> Condition:
        """Return a condition that is true for possible wrappers, by the EtherType at ``at`` or after tags."""
        steps = {*self._tags, self._ethertypes.cn_tag}
        snap = Value(offset=at.offset + _SNAP_OCTETS, octets=2)
        has_snap = all_of(
            inverse(above(at, MAX_LENGTH)),
            equal(Value(offset=at.offset + 2), int.from_bytes(SNAP_START) << 8),
        )
        condition = any_of(
            equal(at, *self._labels, *self._opaque),
            self._packet_at(at),
            all_of(has_snap, self._packet_at(snap)),
        )
        if not more:
            return any_of(condition, equal(at, *steps))
        following = Value(offset=at.offset + _TAG_OCTETS, octets=2)
        return any_of(condition, all_of(equal(at, *steps), self._wrapped_at(following, more - 1)))

    def _packet_at(self, at: Value) -> Condition:
        """Return a condition that is true if the IP packet after an EtherType may contain a wrapper."""
        ip = at.offset + 2
        conditions = []
        for cls, protocol_at, octets, others in (
            (IPv4, 9, IPv4.fixed_octets, ()), (IPv6, 6, IPv6.fixed_octets, _EXTENSIONS)
        ):  # fmt: skip
            protocol = Value(offset=ip + protocol_at, octets=1)
            port = equal(Value(offset=ip + octets + 2, octets=2), *_WRAPPER_PORTS)
            if cls is IPv4:
                port = any_of(inverse(equal(Value(offset=ip, octets=1), _IP4_START)), port)
            datagram = all_of(equal(protocol, PROTO_UDP), port)
            inside = any_of(equal(protocol, *_WRAPPER_PROTOCOLS, *others), datagram)
            conditions.append(all_of(equal(at, *self._types_of(cls)), inside))
        return any_of(*conditions)

    def sufficient(self, test: Test) -> Condition:
        """Return a condition that is true only if the test is true."""
        match test:
            case And(tests=tests):
                return all_of(*map(self.sufficient, tests))
            case Or(tests=tests):
                return any_of(*map(self.sufficient, tests))
            case Not(test=inner):
                return inverse(self.necessary(inner))
        field = _single_field(test)
        # The exact condition concerns the outermost frame.
        elsewhere = getattr(test, "every", False) or (field is not None and field.nesting == "inner")
        exact = self._exact(test)
        if exact is None:
            return NEVER
        return all_of(exact, inverse(self.wrapped())) if elsewhere and field and field.sources else exact

    # tests of fields that every Ethernet frame has

    def _exact(self, test: _Leaf) -> Condition | None:
        """Return a condition that is equivalent to the test; ``None`` if no such condition exists."""
        field = _single_field(test)
        if field is None or field.inner:
            return None
        if field.name == "frame.len":
            # The kernel does not count a tag that it extracted.
            extracted, within = _condition(test, _LENGTH, less=_TAG_OCTETS), _condition(test, _LENGTH)
            return None if extracted is None or within is None else _either(extracted, within)
        if {source.format for source in field.sources} != {Ethernet}:
            return None
        conditions = [_of_header(test, source) for source in field.sources]
        if None in conditions:
            return None
        parts = [each for each in conditions if each is not None]
        return all_of(*parts) if getattr(test, "every", False) else any_of(*parts)

    # tests of layers that only some frames have

    def _carried(self, test: _Leaf) -> Condition:
        """Return a condition that is true whenever the layers used by the test are present."""
        operands = [test.left, test.right] if isinstance(test, Comparison) else [test.operand]
        fields = [field for operand in operands for field in _fields_of(operand)]
        conditions = [self._present_types(self._formats_types(field)) for field in fields]
        return all_of(*conditions, self._outer_tag(test))

    def _formats_types(self, field: FilterField) -> frozenset[int] | None:
        """Return the EtherTypes before the layers of a field; ``None`` if the EtherTypes are unknown."""
        if field.inner:
            return self._any_of([cls for cls in FORMATS if cls.shows is not None])
        if field.origin != "layers":
            return None
        return self._any_of(field.formats or {source.format for source in field.sources})

    def _any_of(self, formats: Collection[type[Layer]]) -> frozenset[int] | None:
        types: set[int] = set()
        for cls in formats:
            own = self._types_of(cls)
            if not own:
                return None
            types |= own
        return frozenset(types)

    def _types_of(self, cls: type[Layer]) -> set[int]:
        if cls.ip_protocol is not None or cls.udp_ports:
            return {type_ for each in (IPv4, IPv6) for type_ in self._types_of(each)}
        if issubclass(cls, Extension):
            return self._types_of(IPv6)
        announced = announcement(cls, self._ethertypes)
        types = {announced} if announced is not None else set()
        return types | {self._ethertypes.old_s_tag} if cls is VLAN else types

    def _present_types(self, types: frozenset[int] | None) -> Condition:
        """Return a condition that is true if one of the EtherTypes is present, also after tags."""
        if types is None:
            return ALWAYS
        tags = types.intersection(self._tags)
        outer = all_of(_PRESENT, equal(_TPID, *tags))
        return any_of(outer, self._within(types, _TYPE, _MAX_TAGS))

    def _within(self, types: frozenset[int], at: Value, more: int) -> Condition:
        """Return a condition that is true if one of the EtherTypes is at an offset or after tags."""
        steps = {*self._tags, self._ethertypes.cn_tag}
        accepted = types.union(self._opaque) if more else types.union(self._opaque, steps)
        condition = equal(at, *accepted)
        if not dispatch(self._ethertypes).after_snap.isdisjoint(types):
            condition = any_of(condition, inverse(above(at, MAX_LENGTH)))
        if not more:
            return condition
        tagged = equal(at, *(steps - accepted))
        following = Value(offset=at.offset + _TAG_OCTETS, octets=2)
        return any_of(condition, all_of(tagged, self._within(types, following, more - 1)))

    def _outer_tag(self, test: _Leaf) -> Condition:
        """Return a test of VLAN tags as a condition of the outermost tag; more tags are accepted."""
        field = _single_field(test)
        if field is None or field.inner or not field.sources:
            return ALWAYS
        if not {source.format for source in field.sources} <= {VLAN, STag}:
            return ALWAYS
        conditions = []
        for source in field.sources:
            mask, shift = _TCI_PARTS.get(source.key, (0, 0))
            condition = _condition(test, Value(offset=VLAN_TCI, mask=mask), shift=shift) if mask else None
            if condition is None:
                return ALWAYS
            conditions.append(all_of(equal(_TPID, *self._types_of(source.format)), condition))
        types = self._formats_types(field) or frozenset()
        return any_of(all_of(_PRESENT, any_of(*conditions)), self._within(types, _TYPE, _MAX_TAGS))


def _of_header(test: _Leaf, source: FieldSource) -> Condition | None:
    """Return the condition for a test of an address or an EtherType; ``None`` if no such condition exists."""
    if source.key in _ADDRESS_AT:
        return _of_address(test, _ADDRESS_AT[source.key])
    if source.part != "type":
        return None
    extracted, within = _condition(test, _TPID), _condition(test, _TYPE)
    return (
        None
        if extracted is None or within is None
        else _either(extracted, all_of(above(_TYPE, MAX_LENGTH), within))
    )


def _either(extracted: Condition, within: Condition) -> Condition:
    """Return a condition that uses ``extracted`` for frames whose tag the kernel extracted.

    For all other frames, the condition uses ``within``.
    """
    return any_of(all_of(_PRESENT, extracted), all_of(inverse(_PRESENT), within))


def _of_address(test: _Leaf, offset: int) -> Condition | None:
    items = _items(test)
    if items is None or not all(
        isinstance(item, Constant) and isinstance(item.value, bytes) for item in items
    ):
        return None
    high, low = Value(offset=offset), Value(offset=offset + 4, octets=2)
    condition = any_of(
        *(
            all_of(equal(high, int.from_bytes(item.value[:4])), equal(low, int.from_bytes(item.value[4:])))
            for item in items
            if isinstance(item, Constant) and isinstance(item.value, bytes) and len(item.value) == 6
        )
    )
    relation = test.relation if isinstance(test, Comparison) else "=="
    return condition if relation == "==" else inverse(condition) if relation == "!=" else None


def _condition(test: _Leaf, value: Value, *, less: int = 0, shift: int = 0) -> Condition | None:
    """Return the condition for a comparison with numbers; ``None`` if no such condition exists.

    The numbers are reduced by ``less`` and shifted left by ``shift`` bits.
    """
    items = _items(test)
    if items is None:
        return None

    def scaled(number: object) -> int:
        assert isinstance(number, int)  # the checker allows only integers for numbers
        return number - less << shift

    relation = test.relation if isinstance(test, Comparison) else "=="
    conditions: list[Condition | None] = []
    for item in items:
        if isinstance(item, Interval):
            first, last = scaled(item.first.value), scaled(item.last.value)
            conditions.append(all_of(at_or_above(value, first), inverse(above(value, last))))
        else:
            conditions.append(_related(relation, value, scaled(item.value)))
    return None if None in conditions else any_of(*(each for each in conditions if each is not None))


def _related(relation: str, value: Value, number: int) -> Condition | None:
    match relation:
        case "==":
            return equal(value, number)
        case "!=":
            return inverse(equal(value, number))
        case ">":
            return above(value, number)
        case ">=":
            return at_or_above(value, number)
        case "<":
            return inverse(at_or_above(value, number))
        case "<=":
            return inverse(above(value, number))
    return None


def _items(test: _Leaf) -> tuple[Constant | Interval, ...] | None:
    """Return the constants and intervals of a test; ``None`` for a comparison with other operands."""
    match test:
        case Comparison(right=Constant() as constant):
            return (constant,)
        case Membership(items=items):
            values = tuple(item for item in items if isinstance(item, Constant | Interval))
            return values if len(values) == len(items) else None
    return None


def _single_field(test: _Leaf) -> FilterField | None:
    """Return the field of a test with a single unsliced and unmasked field; ``None`` for other tests."""
    operand = test.left if isinstance(test, Comparison) else test.operand
    return operand if isinstance(operand, FilterField) else None


def _fields_of(operand: Operand | Constant | Network) -> Iterator[FilterField]:
    match operand:
        case FilterField():
            yield operand
        case Slice() | Masked():
            yield from _fields_of(operand.of)
            if isinstance(operand, Masked):
                yield from _fields_of(operand.mask)
