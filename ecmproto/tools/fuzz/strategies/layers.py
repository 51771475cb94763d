"""Strategies for single fields and for every format, generated from the schema of the format.

Default values are generated first, and boundary values often. `layers_of` accepts any format. The functions
after `layers_of` are shorthands.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.bcn import BCN, RRTTag
from ecmproto.wire.formats.cn import CNM, CNTag
from ecmproto.wire.formats.dcbx import CEE, CEE_TYPES, CEE_VERSION, CEETLV, CIN
from ecmproto.wire.formats.e2cm import BCN_TYPES, E2CM, PROBE_FWD, PROBE_REV
from ecmproto.wire.formats.ecm import ECM, CMTag
from ecmproto.wire.formats.ethernet import OtherLLC, OtherSNAP, llc_at
from ecmproto.wire.formats.experimental import Proposed, UnknownMessage, Word, selector
from ecmproto.wire.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.formats.hpcc import HPCCAck
from ecmproto.wire.formats.ip import (
    ARP,
    ARP_HARDWARE,
    ARP_PROTOCOLS,
    UDP,
    EthernetARP,
    IPv4,
    IPv4ARP,
    OtherARP,
    arp_format,
)
from ecmproto.wire.formats.isolation import CIM
from ecmproto.wire.formats.lldp import TLV, OtherOrganizationTLV
from ecmproto.wire.formats.mac_control import MACControl
from ecmproto.wire.formats.registry import AFTER_PORTS, FORMATS, OWN, dispatch
from ecmproto.wire.formats.schema import Count, Field


def values_of(field: Field) -> SearchStrategy[Any]:
    """Return values of a field of fixed width: the default value, boundary values, and any other value."""
    assert field.bits is not None, f"{field.name} is counted by another field"
    if field.is_number:
        simplest = st.just(field.meta.default)
        return simplest | st.integers(field.minimum, field.maximum) | st.sampled_from(_boundaries(field))
    octets = field.bits // 8
    edges = [field.meta.default, bytes(octets), b"\xff" * octets]
    return st.sampled_from(edges) | st.binary(min_size=octets, max_size=octets)


def _boundaries(field: Field) -> list[int]:
    """Return boundary values: the limits, values next to the limits and zero, and single bits."""
    assert field.bits is not None
    near = {field.minimum, field.minimum + 1, field.maximum - 1, field.maximum, -1, 0, 1}
    bits = {1 << bit for bit in range(field.bits)}
    return sorted(
        (v for v in near | bits if field.minimum <= v <= field.maximum), key=lambda v: (abs(v), v < 0)
    )


SELECTING = ("protocol", "type", "opcode")
"""Keys of fields that select a format of an EtherType, or a message of a format."""


def selection(cls: type[Layer]) -> SearchStrategy[dict[str, Any]]:
    """Return field values that distinguish a format from other formats with the same EtherType."""
    if issubclass(cls, Word):
        return st.sampled_from(
            [dict(zip(("protocol", "type"), pair, strict=True)) for pair in selectors(cls)]
        )
    if cls is MACControl:
        known = {
            opcode for other in FORMATS if other.announced_by == "mac_control" for opcode in other.selected_by
        }
        return st.integers(0, 0xFFFF).filter(lambda opcode: opcode not in known).map(lambda o: {"opcode": o})
    if cls in ARPS:
        sizes = st.sampled_from([0, 4, 6, 8, 16, 20, 255]) | st.integers(0, 32)
        types = st.integers(0, 0xFFFF)
        return st.fixed_dictionaries({
            "hw_type": types if cls in (IPv4ARP, OtherARP) else st.sampled_from(ARP_HARDWARE),
            "proto_type": types if cls in (EthernetARP, OtherARP) else st.sampled_from(ARP_PROTOCOLS),
            "hw_size": sizes if cls in (IPv4ARP, OtherARP) else st.just(6),
            "proto_size": sizes if cls in (EthernetARP, OtherARP) else st.just(4),
        }).filter(lambda types: arp_format(**types) is cls)  # fmt: skip
    if cls is CEE:
        octets = st.fixed_dictionaries({"proto": st.just(CIN)})
        return octets | st.just({"proto": CEE_VERSION, "length": 4, "value": b""})
    if cls is OtherLLC:
        points = st.fixed_dictionaries({key: st.integers(0, 0xFF) for key in ("dsap", "ssap", "control")})
        return points.filter(lambda values: llc_at(bytes(values.values()) + bytes(8), 0, 11) is OtherLLC)
    return st.fixed_dictionaries({"oui": st.integers(1, (1 << 24) - 1)} if cls is OtherSNAP else {})


ARPS: tuple[type[Layer], ...] = (ARP, EthernetARP, IPv4ARP, OtherARP)


def selectors(cls: type[Word]) -> list[tuple[int, int]]:
    """Return each (protocol, type) of a format.

    For an unknown format, return each unassigned (protocol, type).
    """
    pairs = [(protocol, type) for protocol in range(8) for type in range(16)]
    if cls.selected_by:
        return [pair for pair in pairs if selector(*pair) in cls.selected_by]
    used = {v for other in FORMATS if other.announced_by == cls.announced_by for v in other.selected_by}
    return sorted((pair for pair in pairs if selector(*pair) not in used), reverse=True)


def _possible_cpids(cls: type[Layer]) -> SearchStrategy[int]:
    """Return any valid CPIDs, which are not zero and have no group address."""
    field = next(field for field in cls.layout if field.key == "cpid")
    return values_of(field).map(possible_cpid)


def possible_cpid(number: int) -> int:
    """Return a valid CPID that is similar to ``number``."""
    return number & ~_GROUP_BIT or 1


_GROUP_BIT = 1 << 56


def _insisted(cls: type[Layer]) -> dict[str, SearchStrategy[Any]]:
    fields: dict[str, SearchStrategy[Any]] = {
        limit.key: st.integers(limit.low, limit.high) if limit.low < limit.high else st.just(limit.low)
        for limit in cls.limits
    }
    fields |= {field.key: st.just(field.meta.default) for field in cls.layout if field.key in cls.constants}
    if issubclass(cls, Proposed) and cls.has_cpid:
        fields["cpid"] = _possible_cpids(cls)
    if cls is IPv4:
        fields["len"] = st.just(0) | st.integers(60, 0xFFFF)
    if cls is CEETLV:
        fields["type"] = st.integers(0, 127).filter(lambda type: type not in CEE_TYPES)
    if cls is UDP and AFTER_PORTS:
        fields["dstport"] = st.integers(0, 0xFFFF).filter(lambda port: port not in AFTER_PORTS)
    return fields


INSISTED = {cls: _insisted(cls) for cls in FORMATS}
"""Strategies for fields with restricted values, by format."""


T = TypeVar("T", bound=Layer)

MAX_DRAWN_OCTETS = 96
"""Default maximum length of a payload in octets, which is larger than all minimum lengths and limits."""


def layers_of(cls: type[T], **overrides: Any) -> SearchStrategy[T]:
    """Return layers of a format that decode as the same format.

    Fields that select formats (protocol and type, opcode, IP version) have the values of the format. Length
    fields match the octets that they count. ``overrides`` replaces the strategies of fields by a value or a
    strategy, which can also be out of range.
    """
    if not overrides:
        return _any_of(cls)  # type: ignore[arg-type, return-value]  # mypy denies that type[T] is hashable
    given = {
        key: value if isinstance(value, SearchStrategy) else st.just(value)
        for key, value in overrides.items()
    }
    unknown = given.keys() - {field.key for field in cls.layout}
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    return _layer(cls, given)


@functools.cache
def _any_of(cls: type[Layer]) -> SearchStrategy[Layer]:
    values = _layer(cls, {})
    # a random OUI and subtype could be an organization TLV with a specific format
    return values.filter(is_tlv_of_its_format) if issubclass(cls, TLV | OtherOrganizationTLV) else values


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The strategies of a format.

    A plan is created once, because creating strategies is slower than drawing values.
    """

    selection: SearchStrategy[dict[str, Any]]
    fields: dict[str, SearchStrategy[Any]]
    counted_by_selection: tuple[Field, ...]
    """Variable fields whose lengths are among the selecting values, in formats with several."""
    tail: Field | None
    counted: SearchStrategy[bytes] | None


@functools.cache
def _plan(cls: type[Layer]) -> _Plan:
    plain = {field.key: values_of(field) for field in cls.layout if field.count is None}
    counted = [field for field in cls.layout if field.count is not None]
    tail = counted[0] if len(counted) == 1 else None
    count = tail.count if tail else None
    return _Plan(
        counted_by_selection=tuple(counted) if tail is None else (),
        selection=selection(cls),
        fields=plain | INSISTED.get(cls, {}),
        tail=tail,
        # a scale of 0 means a fixed length, from which the length field cannot be computed
        counted=_counted_octets(cls, count) if count and count.key and count.scale else None,
    )


@st.composite
def _layer(draw: DrawFn, cls: type[T], given: dict[str, SearchStrategy[Any]]) -> T:
    plan = _plan(cls)  # type: ignore[arg-type]  # mypy denies that type[T] is hashable
    selected = draw(plan.selection)
    values: dict[str, Any] = {key: value for key, value in selected.items() if key not in given}
    count = plan.tail.count if plan.tail else None
    if plan.tail and plan.counted is not None and count and count.key not in given | values:
        # the counted octets are drawn first, so that Hypothesis shrinks the octets, not their length
        values[plan.tail.key] = octets = draw(given.get(plan.tail.key, plan.counted))
        values[count.key] = (len(octets) + count.minus) // count.scale
    for key, strategy in plan.fields.items():
        if key not in values:
            values[key] = draw(given.get(key, strategy))
    for field in plan.counted_by_selection:
        assert field.count is not None
        drawn = given.get(field.key)
        values[field.key] = draw(_octets(cls, field.count, values) if drawn is None else drawn)
    if plan.tail and count and plan.tail.key not in values:
        drawn = given.get(plan.tail.key)
        values[plan.tail.key] = draw(_octets(cls, count, values) if drawn is None else drawn)
    return cls(**values)


def _counted_octets(cls: type[Layer], count: Count) -> SearchStrategy[bytes]:
    key = next(field for field in cls.layout if field.key == count.key)
    greatest = min([key.maximum, *(limit.high for limit in cls.limits if limit.key == count.key)])
    maximum = greatest * count.scale - count.minus
    if count.scale == 1:
        short = st.binary(max_size=min(maximum, MAX_DRAWN_OCTETS))
        return short | st.sampled_from([bytes(maximum), b"\xff" * maximum])
    groups = st.lists(
        st.binary(min_size=count.scale, max_size=count.scale), max_size=min(maximum // count.scale, 16)
    )
    first = -count.minus % count.scale  # octets that the length does not count
    return st.builds(
        lambda one, more: one + b"".join(more), st.binary(min_size=first, max_size=first), groups
    )


def _octets(cls: type[Layer], count: Count, values: dict[str, Any]) -> SearchStrategy[bytes]:
    """Return the octets of a variable field.

    The length field determines their number, if there is a length field.
    """
    if count.when is not None and values[count.when[0]] not in count.when[1]:
        return st.just(b"")
    if count.key:
        octets = max(0, values[count.key] * count.scale - count.minus)
        return st.binary(min_size=octets, max_size=octets)
    return st.binary(min_size=cls.min_shown_octets, max_size=MAX_DRAWN_OCTETS)


def is_tlv_of_its_format(tlv: Layer) -> bool:
    """Return whether the encoded TLV decodes as the same format, not as the format of its OUI and subtype."""
    octets, formats = tlv.build(), dispatch()
    return formats.announced(formats.ethertypes.lldp, octets, 0, len(octets))[0] is type(tlv)


def _named(name: str, cls: type[T], doc: str) -> Callable[..., SearchStrategy[T]]:
    """Return a function that returns layers of a format, which is documented by ``doc``."""

    def layers(**overrides: Any) -> SearchStrategy[T]:
        return layers_of(cls, **overrides)

    layers.__name__ = layers.__qualname__ = name
    layers.__doc__ = doc
    layers.__annotations__["return"] = f"SearchStrategy[{cls.__name__}]"
    return layers


cn_tags = _named("cn_tags", CNTag, "Return CN-TAGs (wire-formats 2).")
cnms = _named("cnms", CNM, "Return CNMs with an Encapsulated MSDU of 0 to 64 octets (wire-formats 3).")
ecm_frames = _named(
    "ecm_frames", ECM, "Return ECM layers with at least 24 octets of the sampled frame (wire-formats 4)."
)
cm_tags = _named("cm_tags", CMTag, "Return CM-Tags of ECM and E²CM (wire-formats 4).")
bcn_messages = _named("bcn_messages", BCN, "Return normal and STOP messages of BCN (wire-formats 5).")
rrt_tags = _named("rrt_tags", RRTTag, "Return RRT tags (wire-formats 5).")
rd_tags = _named("rd_tags", RDTag, "Return rate-discovery tags of FECN (wire-formats 7).")
fecn_returns = _named("fecn_returns", FECNReturn, "Return layers of returning FECN frames (wire-formats 7).")
dbp_reports = _named("dbp_reports", DBPRateReport, "Return layers of DBP rate reports (wire-formats 7).")


def e2cm_probes(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return forward and reverse E²CM probes without feedback or payload (wire-formats 6)."""
    probe = {"type": st.sampled_from((PROBE_FWD, PROBE_REV)), "q_off": 0, "q_delta": 0, "payload": b""}
    return layers_of(E2CM, **(probe | overrides))


def e2cm_messages(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return messages from E²CM congestion points: BCN, BCN_MAX, BCN_ZERO (wire-formats 6)."""
    return layers_of(E2CM, **({"type": st.sampled_from(BCN_TYPES)} | overrides))


@functools.cache
def messages() -> SearchStrategy[Layer]:
    """Return layers of any message, including messages with an unassigned type."""
    return st.one_of(
        cnms(), ecm_frames(), bcn_messages(), e2cm_messages(), e2cm_probes(), fecn_returns(), dbp_reports(),
        layers_of(HPCCAck), layers_of(CIM), layers_of(UnknownMessage),
        *(layers_of(cls) for cls in FORMATS[len(OWN):] if cls.role == "message"),
    )  # fmt: skip
