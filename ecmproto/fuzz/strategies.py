"""Hypothesis strategies for layers and frames, derived from a walk over the schemas (extra ``fuzz``).

>>> from hypothesis import given
>>> from ecmproto.fuzz.strategies import cnms, frames, layers_of
>>> @given(frames())
... def test_my_switch(frame):
...     assert forward(encode(frame))

`layers_of` gives typed values of any format that decode as that format; `cnms`, `cm_tags` and their like are
it by name.  `message_frames`, `tagged_frames`, `pause_frames`, `pfc_frames`, `lldp_frames` and `frames` give
whole frames, each of which strict decoding reads back as an equal one.  `truncated` and `mutated` spoil them.

Boundary values come up often, and everything shrinks toward the defaults of its fields and the fewest layers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.wire import lldp, mac_control
from ecmproto.wire.bcn import BCN, RRTTag
from ecmproto.wire.cn import CNM, MAX_MSDU, CNTag
from ecmproto.wire.e2cm import BCN_TYPES, E2CM, PROBE_FWD, PROBE_REV
from ecmproto.wire.ecm import ECM, CMTag
from ecmproto.wire.encoder import encode, fixed
from ecmproto.wire.ethernet import VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.wire.experimental import MIN_SAMPLED_OCTETS, UnknownMessage, UnknownTag, Word, selector
from ecmproto.wire.fcs import frame_check_sequence
from ecmproto.wire.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.formats import FORMATS, announcement
from ecmproto.wire.frame import Frame
from ecmproto.wire.ip import ARP, NO_NEXT_HEADER, PROTO_TCP, PROTO_UDP, TCP, UDP, IPv4, IPv6
from ecmproto.wire.layer import Layer
from ecmproto.wire.layout import Field
from ecmproto.wire.lldp import TLV, CongestionNotificationTLV
from ecmproto.wire.mac_control import PFC, MACControl, Pause
from ecmproto.wire.schema import Count

T = TypeVar("T", bound=Layer)

MAX_DRAWN_OCTETS = 96
"""The longest payload drawn unless the caller says otherwise: long enough for every minimum and limit."""


def values_of(field: Field) -> SearchStrategy[Any]:
    """Return values of one fixed field: its default, its boundaries, anything its width holds."""
    assert field.bits is not None, f"{field.name} is counted by another field"
    if field.is_number:
        simplest = st.just(field.meta.default)
        return simplest | st.integers(field.minimum, field.maximum) | st.sampled_from(_boundaries(field))
    octets = field.bits // 8
    edges = [field.meta.default, bytes(octets), b"\xff" * octets]
    return st.sampled_from(edges) | st.binary(min_size=octets, max_size=octets)


def _boundaries(field: Field) -> list[int]:
    """Return the ends of the range, what stands beside them and beside zero, and each single bit."""
    assert field.bits is not None
    near = {field.minimum, field.minimum + 1, field.maximum - 1, field.maximum, -1, 0, 1}
    bits = {1 << bit for bit in range(field.bits)}
    return sorted(
        (v for v in near | bits if field.minimum <= v <= field.maximum), key=lambda v: (abs(v), v < 0)
    )


def layers_of(cls: type[T], **overrides: Any) -> SearchStrategy[T]:
    """Return values of a format that decode as that format.

    Fields that tell formats apart (protocol and type, opcode, version of IP) have this format's values, and
    length fields fit what they count.  ``overrides`` replaces fields by a value or a strategy; those may be
    anything, out of range too.
    """
    if not overrides:
        return _any_of(cls)  # type: ignore[arg-type, return-value]  # mypy denies that type[T] is hashable
    given = {key: _strategy(value) for key, value in overrides.items()}
    unknown = given.keys() - {field.key for field in cls.layout}
    if unknown:
        raise TypeError(f"{cls.__name__} has no field {', '.join(sorted(unknown))}")
    return _layer(cls, given)


@functools.cache
def _any_of(cls: type[Layer]) -> SearchStrategy[Layer]:
    values = _layer(cls, {})
    # by chance, an organisation's TLV could be a Congestion Notification one
    return values.filter(_is_other_tlv) if cls is TLV else values


def _strategy(value: object) -> SearchStrategy[Any]:
    return value if isinstance(value, SearchStrategy) else st.just(value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How to draw a format: strategies made once, since making them costs more than drawing from them."""

    selection: SearchStrategy[dict[str, Any]]
    fields: dict[str, SearchStrategy[Any]]
    tail: Field | None
    counted: SearchStrategy[bytes] | None


@functools.cache
def _plan(cls: type[Layer]) -> _Plan:
    fixed_fields = {field.key: values_of(field) for field in cls.layout if field.count is None}
    tail = cls.layout[-1] if cls.layout[-1].count is not None else None
    return _Plan(
        selection=_selection(cls),
        fields=fixed_fields | _FIXED.get(cls, {}),
        tail=tail,
        counted=_counted_octets(cls, tail.count) if tail and tail.count and tail.count.key else None,
    )


@st.composite
def _layer(draw: DrawFn, cls: type[T], given: dict[str, SearchStrategy[Any]]) -> T:
    plan = _plan(cls)  # type: ignore[arg-type]  # mypy denies that type[T] is hashable
    selected = draw(plan.selection)
    values: dict[str, Any] = {key: value for key, value in selected.items() if key not in given}
    count = plan.tail.count if plan.tail else None
    if plan.tail and plan.counted is not None and count and count.key not in given:
        # the counted octets first, so that they and not their length are what shrinks
        values[plan.tail.key] = octets = draw(given.get(plan.tail.key, plan.counted))
        values[count.key] = (len(octets) + count.minus) // count.scale
    for key, strategy in plan.fields.items():
        if key not in values:
            values[key] = draw(given.get(key, strategy))
    if plan.tail and count and plan.tail.key not in values:
        drawn = given.get(plan.tail.key)
        values[plan.tail.key] = draw(_octets(cls, count, values) if drawn is None else drawn)
    return cls(**values)


def _counted_octets(cls: type[Layer], count: Count) -> SearchStrategy[bytes]:
    key = next(field for field in cls.layout if field.key == count.key)
    most = MAX_MSDU if cls is CNM else key.maximum * count.scale - count.minus
    if count.scale == 1:
        short = st.binary(max_size=min(most, MAX_DRAWN_OCTETS))
        return short | st.sampled_from([bytes(most), b"\xff" * most])
    groups = st.lists(st.binary(min_size=count.scale, max_size=count.scale), max_size=most // count.scale)
    return groups.map(b"".join)


def _octets(cls: type[Layer], count: Count, values: dict[str, Any]) -> SearchStrategy[bytes]:
    """Return the octets of a last field: as many as its length field says, or of no said length."""
    if count.when is not None and values[count.when[0]] not in count.when[1]:
        return st.just(b"")
    if count.key:
        octets = max(0, values[count.key] * count.scale - count.minus)
        return st.binary(min_size=octets, max_size=octets)
    least = MIN_SAMPLED_OCTETS if cls in (ECM, BCN, E2CM) else 0
    return st.binary(min_size=least, max_size=MAX_DRAWN_OCTETS)


def _selection(cls: type[Layer]) -> SearchStrategy[dict[str, Any]]:
    """Return the values by which a format is told from others of its EtherType."""
    if issubclass(cls, Word):
        return st.sampled_from(
            [dict(zip(("protocol", "type"), pair, strict=True)) for pair in _selectors(cls)]
        )
    if cls is MACControl:
        known = set(mac_control.OPCODES)
        return st.integers(0, 0xFFFF).filter(lambda opcode: opcode not in known).map(lambda o: {"opcode": o})
    return st.just({})


def _selectors(cls: type[Word]) -> list[tuple[int, int]]:
    """Return each (protocol, type) that means this format; of an unknown one, each that means no other."""
    pairs = [(protocol, type) for protocol in range(8) for type in range(16)]
    if cls.selected_by:
        return [pair for pair in pairs if selector(*pair) in cls.selected_by]
    taken = {v for other in FORMATS if other.announced_by == cls.announced_by for v in other.selected_by}
    return sorted((pair for pair in pairs if selector(*pair) not in taken), reverse=True)


_FIXED: dict[type[Layer], dict[str, SearchStrategy[Any]]] = {
    Pause: {"opcode": st.just(mac_control.PAUSE_OPCODE)},
    PFC: {"opcode": st.just(mac_control.PFC_OPCODE)},
    CongestionNotificationTLV: {
        "type": st.just(127),
        "length": st.just(6),
        "oui": st.just(lldp.OUI_8021),
        "subtype": st.just(lldp.CN_SUBTYPE),
    },
    ARP: {"hw_size": st.just(6), "proto_size": st.just(4)},
    IPv4: {"version": st.just(4), "len": st.just(0) | st.integers(60, 0xFFFF)},
    IPv6: {"version": st.just(6)},
}
"""Values that formats insist on."""


def cn_tags(**overrides: Any) -> SearchStrategy[CNTag]:
    """Return CN-TAGs (wire-formats 2)."""
    return layers_of(CNTag, **overrides)


def cnms(**overrides: Any) -> SearchStrategy[CNM]:
    """Return CNMs with an Encapsulated MSDU of 0 to 64 octets (wire-formats 3)."""
    return layers_of(CNM, **overrides)


def ecm_frames(**overrides: Any) -> SearchStrategy[ECM]:
    """Return the layer of ECM frames, with at least 24 octets of the sampled frame (wire-formats 4)."""
    return layers_of(ECM, **overrides)


def cm_tags(**overrides: Any) -> SearchStrategy[CMTag]:
    """Return CM-Tags of ECM and of E²CM (wire-formats 4)."""
    return layers_of(CMTag, **overrides)


def bcn_messages(**overrides: Any) -> SearchStrategy[BCN]:
    """Return BCN messages, normal and STOP (wire-formats 5)."""
    return layers_of(BCN, **overrides)


def rrt_tags(**overrides: Any) -> SearchStrategy[RRTTag]:
    """Return RRT tags (wire-formats 5)."""
    return layers_of(RRTTag, **overrides)


def e2cm_probes(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return E²CM probes, forward and reverse, with neither feedback nor payload (wire-formats 6)."""
    probe = {"type": st.sampled_from((PROBE_FWD, PROBE_REV)), "q_off": 0, "q_delta": 0, "payload": b""}
    return layers_of(E2CM, **(probe | overrides))


def e2cm_messages(**overrides: Any) -> SearchStrategy[E2CM]:
    """Return what E²CM's congestion points send: BCN, BCN_MAX, BCN_ZERO (wire-formats 6)."""
    return layers_of(E2CM, **({"type": st.sampled_from(BCN_TYPES)} | overrides))


def rd_tags(**overrides: Any) -> SearchStrategy[RDTag]:
    """Return FECN's rate-discovery tags (wire-formats 7)."""
    return layers_of(RDTag, **overrides)


def fecn_returns(**overrides: Any) -> SearchStrategy[FECNReturn]:
    """Return the layer of FECN's returning frames (wire-formats 7)."""
    return layers_of(FECNReturn, **overrides)


def dbp_reports(**overrides: Any) -> SearchStrategy[DBPRateReport]:
    """Return the layer of DBP rate reports (wire-formats 7)."""
    return layers_of(DBPRateReport, **overrides)


_RESERVED_TYPES = frozenset(
    value for cls in FORMATS if (value := announcement(cls, DEFAULT)) is not None
) | {DEFAULT.old_s_tag}  # fmt: skip


@functools.cache
def unknown_ethertypes() -> SearchStrategy[int]:
    """Return values above 1500 that announce no format under the default EtherType map."""
    likely = st.sampled_from([0x88F7, 0x8847, 0x0600, 0xFFFF, MAX_LENGTH + 1])
    return likely | st.integers(MAX_LENGTH + 1, 0xFFFF).filter(lambda value: value not in _RESERVED_TYPES)


@functools.cache
def addresses() -> SearchStrategy[bytes]:
    """Return MAC addresses: individual, group, all zeros, broadcast."""
    likely = [bytes.fromhex("020000000001"), bytes.fromhex("020000000002"), bytes(6), b"\xff" * 6]
    return st.sampled_from([*likely, lldp.DESTINATION]) | st.binary(min_size=6, max_size=6)


@functools.cache
def vlan_stacks(max_size: int = 3) -> SearchStrategy[list[Layer]]:
    """Return stacks of C-TAGs and S-TAGs, outermost first; half of them with the S-TAGs outside."""
    tag: SearchStrategy[Layer] = layers_of(VLAN) | layers_of(STag)
    return _stacks(tag, max_size)


@functools.cache
def tag_stacks(max_size: int = 5) -> SearchStrategy[list[Layer]]:
    """Return stacks of every tag there is: VLAN tags, I-TAGs, CN-TAGs and experimental tags.

    Half are in the order of wire-formats 1.2 (S-TAGs, PBB's I-TAG, C-TAGs, CN-TAG, experimental tags), the
    others in any.
    """
    tag: SearchStrategy[Layer] = st.one_of(
        layers_of(VLAN), layers_of(STag), cn_tags(), layers_of(ITag), cm_tags(), rrt_tags(), rd_tags()
    )
    return _stacks(tag, max_size)


_ORDER = {STag: 0, ITag: 1, VLAN: 2, CNTag: 3}


def _stacks(tag: SearchStrategy[Layer], max_size: int) -> SearchStrategy[list[Layer]]:
    # one list, ordered afterwards, so that any tag of it can be dropped when it shrinks
    return st.builds(_ordered, st.lists(tag, max_size=max_size), st.booleans())


def _ordered(tags: list[Layer], sensibly: bool) -> list[Layer]:
    return sorted(tags, key=lambda tag: _ORDER.get(type(tag), len(_ORDER))) if sensibly else tags


@functools.cache
def payload_layers() -> SearchStrategy[tuple[int, list[Layer]]]:
    """Return ``(ethertype, layers)`` of a payload, the value 0 where the layers say it themselves.

    IPv4 and IPv6 with UDP, TCP or other octets, ARP, octets of an unknown EtherType, octets behind an 802.3
    length.
    """
    return _payload()


@st.composite
def _payload(draw: DrawFn) -> tuple[int, list[Layer]]:
    kind = draw(st.sampled_from(("raw", "length", "ipv4", "ipv6", "arp")))
    octets = draw(st.binary(max_size=MAX_DRAWN_OCTETS))
    data: list[Layer] = [Data(data=octets)] if octets else []
    if kind == "raw":
        return draw(unknown_ethertypes()), data
    if kind == "length":
        return len(octets), data
    if kind == "arp":
        return 0, [draw(layers_of(ARP))]
    udp_or_tcp: SearchStrategy[Layer] = layers_of(UDP) | layers_of(TCP)
    transport = draw(st.lists(udp_or_tcp, max_size=1))
    if kind == "ipv4":
        return 0, [draw(_ipv4(bool(transport))), *transport, *data]
    # a payload length of 0 would say that there is no length, unless there is no next header either
    other = st.just(NO_NEXT_HEADER) if not data else st.integers(0, 255).filter(_no_transport)
    return 0, [draw(layers_of(IPv6, **({} if transport else {"nxt": other}))), *transport, *data]


def _no_transport(proto: int) -> bool:
    return proto not in (PROTO_TCP, PROTO_UDP)


@st.composite
def _ipv4(draw: DrawFn, followed: bool) -> IPv4:
    if followed:
        return draw(layers_of(IPv4, frag_offset=0))
    if draw(st.booleans()):
        return draw(layers_of(IPv4, frag_offset=st.integers(1, 0x1FFF)))
    return draw(layers_of(IPv4, proto=st.integers(0, 255).filter(_no_transport)))


def frame_of(layers: Sequence[Layer], *, trailer: bytes = b"", fcs_octets: int = 0) -> Frame:
    """Return the whole frame of these layers: types, lengths and checksums computed, padded, with its FCS.

    A last layer that takes all octets left takes the padding too, as a decoder would see it.
    """
    last = layers[-1]
    takes_all = _takes_all(layers)
    frame = fixed(Frame(layers=tuple(layers)))
    if takes_all:
        key = last.layout[-1].key
        grown = last.replace(**{key: getattr(last, key) + frame.padding + trailer})
        frame = fixed(Frame(layers=(*frame.layers[:-1], grown)))
    else:
        frame = dataclasses.replace(frame, trailer=trailer)
    if not fcs_octets:
        return frame
    return dataclasses.replace(frame, fcs=frame_check_sequence(encode(frame))[:fcs_octets])


def _takes_all(layers: Sequence[Layer]) -> bool:
    """Return whether the last layer has no end of its own: no length counts it, outside it or inside."""
    last = layers[-1]
    count = last.layout[-1].count
    if count is None or count.key or (count.when and getattr(last, count.when[0]) not in count.when[1]):
        return False
    bounded = any(isinstance(value, IPv4 | IPv6) for value in layers)
    if not isinstance(last, Data) or bounded:
        return not bounded
    before = layers[-2]
    return bool(getattr(before, before.next_key) > MAX_LENGTH)


@st.composite
def tagged_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return data frames: any stack of tags around any payload, padded, some with a trailer."""
    tags = draw(tag_stacks())
    ethertype, payload = draw(payload_layers())
    outer: list[Layer] = [Ethernet(dst=draw(addresses()), src=draw(addresses())), *tags]
    outer[-1] = outer[-1].replace(**{outer[-1].next_key: ethertype})
    if not payload and ethertype > MAX_LENGTH:  # its padding could not be told from a payload
        payload = [Data(data=bytes(1))]
    layers = _with_old_s_tag([*outer, *payload]) if draw(st.booleans()) else [*outer, *payload]
    trailer = draw(st.just(b"") | st.binary(max_size=8))
    return frame_of(layers, trailer=trailer, fcs_octets=fcs_octets)


def _with_old_s_tag(layers: list[Layer]) -> list[Layer]:
    """Return the layers with the first C-TAG announced by 0x9100."""
    for index, value in enumerate(layers[:-1]):
        if isinstance(layers[index + 1], VLAN):
            changed = value.replace(**{value.next_key: DEFAULT.old_s_tag})
            return [*layers[:index], changed, *layers[index + 1 :]]
    return layers


@functools.cache
def messages() -> SearchStrategy[Layer]:
    """Return the layer of any message: CNM, ECM, BCN, E²CM, FECN return, DBP report, an unassigned one."""
    return st.one_of(
        cnms(), ecm_frames(), bcn_messages(), e2cm_messages(), e2cm_probes(), fecn_returns(), dbp_reports(),
        layers_of(UnknownMessage),
    )  # fmt: skip


@st.composite
def message_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return frames of every message behind VLAN tags and a CN-TAG, padded."""
    tags = draw(vlan_stacks(2)) + ([draw(cn_tags())] if draw(st.booleans()) else [])
    header = Ethernet(dst=draw(addresses()), src=draw(addresses()))
    return frame_of([header, *tags, draw(messages())], fcs_octets=fcs_octets)


@st.composite
def pause_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return PAUSE frames (wire-formats 8)."""
    header = Ethernet(dst=mac_control.DESTINATION, src=draw(addresses()))
    return frame_of([header, draw(layers_of(Pause))], fcs_octets=fcs_octets)


@st.composite
def pfc_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return priority-based flow control frames (wire-formats 8)."""
    header = Ethernet(dst=mac_control.DESTINATION, src=draw(addresses()))
    return frame_of([header, draw(layers_of(PFC))], fcs_octets=fcs_octets)


@st.composite
def lldp_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return LLDP frames: any TLVs, Congestion Notification ones among them, and the End TLV."""
    header = Ethernet(dst=lldp.DESTINATION, src=draw(addresses()))
    return frame_of([header, *draw(_tlvs()), TLV()], fcs_octets=fcs_octets)


@functools.cache
def _tlvs() -> SearchStrategy[list[Layer]]:
    other = layers_of(TLV, type=st.integers(1, 127)).filter(_is_other_tlv)
    tlv: SearchStrategy[Layer] = layers_of(CongestionNotificationTLV) | other
    return st.lists(tlv, max_size=5)


def _is_other_tlv(tlv: Layer) -> bool:
    octets = tlv.build()
    return lldp.tlv_at(octets, 0, len(octets)) is TLV


@st.composite
def _unknown_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    last: SearchStrategy[Layer] = layers_of(MACControl) | layers_of(UnknownTag)
    return frame_of(
        [Ethernet(dst=draw(addresses()), src=draw(addresses())), draw(last)], fcs_octets=fcs_octets
    )


def frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return any whole valid frame, with ``fcs_octets`` of the right frame check sequence behind it."""
    return st.one_of(
        tagged_frames(fcs_octets=fcs_octets),
        message_frames(fcs_octets=fcs_octets),
        pause_frames(fcs_octets=fcs_octets),
        pfc_frames(fcs_octets=fcs_octets),
        lldp_frames(fcs_octets=fcs_octets),
        _unknown_frames(fcs_octets=fcs_octets),
    )


def octets_of(source: SearchStrategy[Frame] | SearchStrategy[bytes] | None = None) -> SearchStrategy[bytes]:
    """Return the octets of the frames that ``source`` gives, of any valid frame by default."""
    given: SearchStrategy[Any] = frames() if source is None else source
    return given.map(lambda value: encode(value) if isinstance(value, Frame) else bytes(value))


@st.composite
def truncated(
    draw: DrawFn, source: SearchStrategy[Frame] | SearchStrategy[bytes] | None = None
) -> tuple[bytes, int]:
    """Return ``(octets, original_octets)`` of frames of which a snap length kept the first octets."""
    octets = draw(octets_of(source))
    kept = draw(st.integers(0, len(octets)))
    return octets[:kept], len(octets)


@st.composite
def mutated(draw: DrawFn, source: SearchStrategy[Frame] | SearchStrategy[bytes] | None = None) -> bytes:
    """Return frames spoilt in one to four places: bits flipped, octets set, put in, taken out, doubled."""
    octets = draw(octets_of(source))
    for _ in range(draw(st.integers(1, 4))):
        octets = draw(_spoilt(octets))
    return octets


@st.composite
def _spoilt(draw: DrawFn, octets: bytes) -> bytes:
    start = draw(st.integers(0, len(octets)))
    stop = draw(st.integers(start, min(len(octets), start + 16)))
    part = octets[start:stop]
    how = draw(st.sampled_from(("flip", "set", "put in", "take out", "double")))
    if how == "flip" and part:
        bit = draw(st.integers(0, 7))
        part = bytes([part[0] ^ 1 << bit]) + part[1:]
    elif how == "set":
        part = draw(st.sampled_from((bytes(len(part)), b"\xff" * len(part))))
    elif how == "put in":
        part += draw(st.binary(max_size=16))
    elif how == "take out":
        part = b""
    elif how == "double":
        part += part
    return octets[:start] + part + octets[stop:]


def arbitrary_octets(max_size: int = 160) -> SearchStrategy[bytes]:
    """Return octets of any kind: random ones, spoilt frames, random ones behind a known EtherType."""
    known = sorted(_RESERVED_TYPES)
    behind = st.builds(
        lambda header, ethertype, rest: header + ethertype.to_bytes(2, "big") + rest,
        st.binary(min_size=12, max_size=12),
        st.sampled_from(known) | st.integers(0, MAX_LENGTH),
        st.binary(max_size=max_size),
    )
    return st.binary(max_size=max_size) | behind | mutated()


__all__ = [
    "MAX_DRAWN_OCTETS",
    "addresses",
    "arbitrary_octets",
    "bcn_messages",
    "cm_tags",
    "cn_tags",
    "cnms",
    "dbp_reports",
    "e2cm_messages",
    "e2cm_probes",
    "ecm_frames",
    "fecn_returns",
    "frame_of",
    "frames",
    "layers_of",
    "lldp_frames",
    "message_frames",
    "messages",
    "mutated",
    "octets_of",
    "pause_frames",
    "payload_layers",
    "pfc_frames",
    "rd_tags",
    "rrt_tags",
    "tag_stacks",
    "tagged_frames",
    "truncated",
    "unknown_ethertypes",
    "values_of",
    "vlan_stacks",
]
