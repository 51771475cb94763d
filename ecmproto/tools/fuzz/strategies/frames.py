"""Strategies for complete frames. Strict decoding restores every generated frame.

Frames with boundary values are generated early, so a hundred examples contain all boundary values. In a frame
with boundary values, almost every field is at the minimum or maximum of its range. Four frames of each layer
stack contain the minimum and maximum of every field in different combinations. Two of these four frames have
valid versions and reserved bits, because a receiver may ignore other values. Hypothesis generates no frame
twice, so later examples are ordinary frames.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.errors import EcmprotoError
from ecmproto.tools.fuzz.strategies.layers import (
    MAX_DRAWN_OCTETS,
    SELECTING,
    cn_tags,
    is_tlv_of_its_format,
    layers_of,
    messages,
    possible_cpid,
)
from ecmproto.tools.fuzz.strategies.surroundings import addresses, payload_layers, tag_stacks, vlan_stacks
from ecmproto.wire.codec.frame import Frame, decode, encode, fixed, frame_check_sequence
from ecmproto.wire.formats import lldp, mac_control
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.bcn import BCN, RRTTag
from ecmproto.wire.formats.cn import CNM, CNTag
from ecmproto.wire.formats.dcbx import (
    CEE,
    CEETLV,
    Applications,
    ETSConfiguration,
    ETSRecommendation,
    PFCConfiguration,
)
from ecmproto.wire.formats.e2cm import E2CM
from ecmproto.wire.formats.ecm import ECM, CMTag
from ecmproto.wire.formats.erspan import ERSPAN, ERSPAN3, Platform
from ecmproto.wire.formats.ethernet import LLC, VLAN, Data, Ethernet, ITag, STag
from ecmproto.wire.formats.ethertypes import DEFAULT, MAX_LENGTH
from ecmproto.wire.formats.experimental import MIN_SAMPLED_OCTETS, UnknownTag
from ecmproto.wire.formats.fecn import DBPRateReport, FECNReturn, RDTag
from ecmproto.wire.formats.geneve import Geneve
from ecmproto.wire.formats.gre import BRIDGED, GRE, SEQUENCE, GREChecksum, GREKey, GRESequence
from ecmproto.wire.formats.infiniband import (
    BTH,
    CNP,
    CNP_OPCODE,
    DEFAULT_P_KEY,
    GRH,
    ICRC,
    OPCODES,
    ROCE_PORT,
)
from ecmproto.wire.formats.ip import UDP, IPv4, IPv6
from ecmproto.wire.formats.lldp import (
    IEEE8021TLV,
    IEEE8023TLV,
    TLV,
    CongestionNotificationTLV,
    OrganizationTLV,
)
from ecmproto.wire.formats.mac_control import PFC, MACControl, Pause
from ecmproto.wire.formats.mpls import MPLS, ControlWord
from ecmproto.wire.formats.schema import Field
from ecmproto.wire.formats.tzsp import TZSP, Mark, Tag
from ecmproto.wire.formats.vxlan import GPE, VXLAN
from ecmproto.wire.formats.wrapper import inner_frames


def frame_of(layers: Sequence[Layer], *, trailer: bytes = b"", fcs_octets: int = 0) -> Frame:
    """Return the complete frame of some layers, with computed types, lengths and checksums, padding and FCS.

    If the length of the last layer is not limited, the last layer includes the padding, as in a decoder.
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
    """Return whether no length field limits the last layer."""
    last = layers[-1]
    count = last.layout[-1].count
    if count is None or count.key or (count.when and getattr(last, count.when[0]) not in count.when[1]):
        return False
    inner = max(inner_frames([*map(type, layers)]), default=0)
    inner = inner if type(layers[inner]) is Ethernet else 0
    bounded = any(isinstance(value, IPv4 | IPv6 | LLC) for value in layers[inner:])
    if not isinstance(last, Data) or bounded:
        return not bounded
    before = layers[-2]
    return bool(getattr(before, before.next_key) > MAX_LENGTH)


_ROWS = 4
_ORDINARY = 3
"""Number of choices for an ordinary frame per choice of a frame with varied fields."""
_CHECKED = ("version", "reserved")
"""Suffixes of fields whose values can cause a receiver to ignore a frame."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _SettableField:
    """A field of a layer stack, and the minimum and maximum distance from its default value."""

    layer: int
    field: Field
    low: int
    high: int

    def put(self, layers: list[Layer], distance: int) -> None:
        """Set the field to a distance from its default value.

        Octets are combined with the distance by exclusive or.
        """
        layer, key = layers[self.layer], self.field.key
        default = getattr(layer, key)
        if isinstance(default, bytes):
            value: int | bytes = (int.from_bytes(default) ^ distance).to_bytes(len(default))
        elif key == "cpid" and getattr(layer, "has_cpid", False):
            value = possible_cpid(default + distance)
        else:
            value = default + distance
        layers[self.layer] = layer.replace(**{key: value})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Layers with valid values, and the fields that can vary."""

    layers: tuple[Layer, ...]
    fields: tuple[_SettableField, ...]

    def with_distances(self, distances: Sequence[int]) -> list[Layer]:
        layers = list(self.layers)
        for field, distance in zip(self.fields, distances, strict=True):
            field.put(layers, distance)
        return layers


def edges_first(
    stacks: Sequence[Sequence[Layer]], ordinary: SearchStrategy[Frame], fcs_octets: int
) -> SearchStrategy[Frame]:
    """Return ``ordinary`` frames, mixed with frames of each layer stack that have boundary values."""
    return _with_edges([_stack(layers) for layers in stacks], ordinary, fcs_octets)


def _stack(layers: Sequence[Layer]) -> _Stack:
    """Return a layer stack with the fields whose minimum and maximum are valid."""
    fields = tuple(each for each in _settable_fields(layers) if _either_end(layers, each))
    return _Stack(layers=tuple(layers), fields=fields)


def _settable_fields(layers: Sequence[Layer]) -> Iterator[_SettableField]:
    for index, layer in enumerate(layers):
        if isinstance(layer, Ethernet):
            continue
        counting = {field.count.key for field in layer.layout if field.count is not None}
        for field in layer.layout:
            if field.bits is None or field.count is not None or field.key in counting:
                continue
            if field.key == layer.next_key or field.key in SELECTING:
                continue
            low, high = 0, (1 << field.bits) - 1
            if field.is_number:
                default = getattr(layer, field.key)
                low, high = field.minimum - default, field.maximum - default
            yield _SettableField(layer=index, field=field, low=low, high=high)


def _either_end(layers: Sequence[Layer], field: _SettableField) -> bool:
    for distance in (field.low, field.high):
        changed = list(layers)
        field.put(changed, distance)
        if _valid(changed, 0) is None:
            return False
    return True


def _row(stack: _Stack, number: int) -> list[int]:
    """Return each field's distance from its default in boundary frame ``number`` of a layer stack."""
    ends = []
    for index, field in enumerate(stack.fields):
        # rows 2 and 3 have other combinations: fields with different ends in rows 0 and 1 have equal ends
        high = (index >> (number >> 1)) + number & 1
        if field.field.key.rstrip("0123456789").endswith(_CHECKED):
            ends.append(field.high if number >= 2 else 0)
        else:
            ends.append(field.high if high else field.low)
    return ends


@st.composite
def _with_edges(
    draw: DrawFn, stacks: Sequence[_Stack], ordinary: SearchStrategy[Frame], fcs_octets: int
) -> Frame:
    # one choice for all, so that each frame of boundary values is one example; sampled_from, because
    # Hypothesis tries the value of a draw in other draws of the same type, and field values are integers
    choice = draw(st.sampled_from(range(len(stacks) * _ROWS + 1)))
    if not choice:
        if draw(st.integers(0, _ORDINARY)):
            return draw(ordinary)
        stack = stacks[draw(st.integers(0, len(stacks) - 1))]
        distances = [draw(st.integers(settable.low, settable.high)) for settable in stack.fields]
    else:
        # each value is drawn from one value, so that the frame can shrink with 0 as the first choice
        which, number = divmod(choice - 1, _ROWS)
        draw(st.integers(0, 0))
        stack = stacks[draw(st.integers(which, which))]
        distances = [draw(st.integers(value, value)) for value in _row(stack, number)]
    frame = _valid(stack.with_distances(distances), fcs_octets)
    return reject() if frame is None else frame


def _valid(layers: list[Layer], fcs_octets: int) -> Frame | None:
    """Return the frame of some layers if decoding restores the frame, or else ``None``."""
    try:
        frame = frame_of(layers, fcs_octets=fcs_octets)
        return frame if decode(encode(frame), fcs_octets=fcs_octets) == frame else None
    except EcmprotoError:
        return None


def tagged_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return padded data frames with any tags and any payload, some with a trailer.

    The minimum and maximum values of each tag are generated early, with a payload of one octet.
    """
    return edges_first(_TAGGED, _tagged_frames(fcs_octets), fcs_octets)


_TAGGED: tuple[tuple[Layer, ...], ...] = tuple(
    (Ethernet(), tag.replace(**{tag.next_key: 0x88F7}), Data(data=bytes(1)))
    for tag in (VLAN(), CNTag(), STag(), ITag(), CMTag(), RRTTag(cpid=1), RDTag())
)


@st.composite
def _tagged_frames(draw: DrawFn, fcs_octets: int) -> Frame:
    tags = draw(tag_stacks())
    ethertype, payload = draw(payload_layers())
    outer: list[Layer] = [Ethernet(dst=draw(addresses()), src=draw(addresses())), *tags]
    outer[-1] = outer[-1].replace(**{outer[-1].next_key: ethertype})
    if not payload and ethertype > MAX_LENGTH:  # otherwise padding would look like a payload
        payload = [Data(data=bytes(1))]
    layers = _with_old_s_tag([*outer, *payload]) if draw(st.booleans()) else [*outer, *payload]
    trailer = draw(st.just(b"") | st.binary(max_size=8))
    return frame_of(layers, trailer=trailer, fcs_octets=fcs_octets)


def _with_old_s_tag(layers: list[Layer]) -> list[Layer]:
    """Return layers in which the EtherType of the first C-TAG is 0x9100."""
    for index, value in enumerate(layers[:-1]):
        if isinstance(layers[index + 1], VLAN):
            changed = value.replace(**{value.next_key: DEFAULT.old_s_tag})
            return [*layers[:index], changed, *layers[index + 1 :]]
    return layers


def message_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return padded frames with any message after VLAN tags and a CN-TAG.

    The minimum and maximum values of each field are generated early, in messages with and without tags.
    """
    return edges_first(_MESSAGES, _message_frames(fcs_octets), fcs_octets)


_SAMPLED: dict[str, Any] = {"cpid": 1, "payload": bytes(MIN_SAMPLED_OCTETS)}
_MESSAGES: tuple[tuple[Layer, ...], ...] = tuple(
    (Ethernet(), *tags, message)
    for tags in ((), (VLAN(), CNTag()))
    for message in (
        CNM(), ECM(**_SAMPLED), BCN(**_SAMPLED), E2CM(**_SAMPLED), FECNReturn(), DBPRateReport(),
    )
)  # fmt: skip


@st.composite
def _message_frames(draw: DrawFn, fcs_octets: int) -> Frame:
    tags = draw(vlan_stacks(max_size=2)) + ([draw(cn_tags())] if draw(st.booleans()) else [])
    header = Ethernet(dst=draw(addresses()), src=draw(addresses()))
    message = draw(messages())
    under: list[Layer] = []
    if message.udp_ports:
        under = [draw(layers_of(IPv4, frag_offset=0)), UDP(dstport=draw(st.sampled_from(message.udp_ports)))]
    return frame_of([header, *tags, *under, message], fcs_octets=fcs_octets)


# some headers, such as AtomicETH, occur in few opcodes: assigned opcodes are drawn more often
_ROCE_OPCODES = (st.sampled_from(sorted(OPCODES)) | st.integers(0, 0xFF)).filter(
    lambda each: each != CNP_OPCODE
)


@st.composite
def roce_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return RoCE packets of any opcode over IPv4, IPv6 or a GRH, including CNPs, with a valid CRC."""
    bth: BTH = draw(layers_of(CNP) | layers_of(BTH, opcode=_ROCE_OPCODES))
    if not (bth.opcode or bth.p_key):
        bth = bth.replace(p_key=DEFAULT_P_KEY)
    under: list[Layer] = draw(
        st.sampled_from(([IPv4(flags=2), UDP(dstport=ROCE_PORT)], [IPv6(), UDP(dstport=ROCE_PORT)], [GRH()]))
    )
    following = [draw(layers_of(cls)) for cls in bth.following_headers()]
    payload = draw(st.binary(max_size=MAX_DRAWN_OCTETS)) if not isinstance(bth, CNP) else b""
    layers = [*under, bth, *following, *([Data(data=payload)] if payload else []), ICRC()]
    header = Ethernet(dst=draw(addresses()), src=draw(addresses()))
    return frame_of([header, *draw(vlan_stacks(max_size=2)), *layers], fcs_octets=fcs_octets)


def pause_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return PAUSE frames (wire-formats 8). The minimum and maximum values are generated early."""
    return _flow_control_frames(Pause, fcs_octets)


def pfc_frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return priority-based flow control frames (wire-formats 8).

    The minimum and maximum values are generated early.
    """
    return _flow_control_frames(PFC, fcs_octets)


def _flow_control_frames(cls: type[Layer], fcs_octets: int) -> SearchStrategy[Frame]:
    header = Ethernet(dst=mac_control.DESTINATION)
    return edges_first([(header, cls())], _any_flow_control(cls, fcs_octets), fcs_octets)


@st.composite
def _any_flow_control(draw: DrawFn, cls: type[Layer], fcs_octets: int) -> Frame:
    header = Ethernet(dst=mac_control.DESTINATION, src=draw(addresses()))
    return frame_of([header, draw(layers_of(cls))], fcs_octets=fcs_octets)


@st.composite
def lldp_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return LLDP frames with any TLVs, including Congestion Notification and DCBX TLVs, and the End TLV."""
    header = Ethernet(dst=lldp.DESTINATION, src=draw(addresses()))
    return frame_of([header, *draw(_tlvs()), TLV()], fcs_octets=fcs_octets)


@functools.cache
def _tlvs() -> SearchStrategy[list[Layer]]:
    other = layers_of(TLV, type=st.integers(1, 127)).filter(is_tlv_of_its_format)
    single = (other, *map(layers_of, (CongestionNotificationTLV, *_SINGLE_TLVS)))
    groups = [*(each.map(_alone) for each in single), _holding(Applications), _holding(CEE)]
    return st.lists(st.one_of(groups), max_size=5).map(_joined)


_SINGLE_TLVS = (
    ETSConfiguration, ETSRecommendation, PFCConfiguration, CEE, IEEE8021TLV, IEEE8023TLV, OrganizationTLV,
)  # fmt: skip


def _alone(value: Layer) -> list[Layer]:
    return [value]


def _joined(groups: list[list[Layer]]) -> list[Layer]:
    return [value for group in groups for value in group]


def _holding(cls: type[Layer]) -> SearchStrategy[list[Layer]]:
    """Return TLVs of a format with inner layers. The lengths of the TLVs are computed with the frame."""
    short = {"value": st.binary(max_size=MAX_DRAWN_OCTETS)}
    inside = [
        _holding(each) if each.holds else layers_of(each, **(short if each is CEETLV else {})).map(_alone)
        for each in cls.holds
        if not any(each in other.holds for other in cls.holds)
    ]
    return st.lists(st.one_of(*inside), max_size=4).map(lambda groups: [cls(), *_joined(groups)])


@st.composite
def _unknown_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    last: SearchStrategy[Layer] = layers_of(MACControl) | layers_of(UnknownTag)
    return frame_of(
        [Ethernet(dst=draw(addresses()), src=draw(addresses())), draw(last)], fcs_octets=fcs_octets
    )


@functools.cache
def _wrapper_stacks() -> SearchStrategy[list[Layer]]:
    """Return the headers of a wrapper, from IP or MPLS to the last header before the inner Ethernet frame."""
    classes: tuple[type[Layer], ...] = (GREKey, GREChecksum, GRESequence, Platform, ControlWord)
    parts = {cls: layers_of(cls) for cls in classes}
    numbered = [GRE(flags=SEQUENCE << GRE.sequence_shift), GRESequence()]
    tags: SearchStrategy[Layer] = layers_of(
        Tag, type=st.integers(2, 255), value=st.binary(max_size=MAX_DRAWN_OCTETS)
    )
    gre = st.sampled_from(sorted(GRE.sequences.items())).flatmap(
        lambda each: st.tuples(
            st.just(GRE(flags=each[0] << GRE.sequence_shift)), *(parts[cls] for cls in each[1])
        )
    )
    datagrams = st.one_of(
        st.tuples(layers_of(VXLAN) | layers_of(GPE, next=3) | layers_of(Geneve, protocol=BRIDGED)),
        st.lists(tags | st.just(Mark(type=0)), max_size=3).map(lambda each: [TZSP(), *each, Mark()]),
    )
    packets = st.one_of(
        gre,
        layers_of(ERSPAN).map(lambda each: [*numbered, each]),
        layers_of(ERSPAN3, ft=0, o=0).map(lambda each: [*numbered, each]),
        layers_of(ERSPAN3, ft=0, o=1).flatmap(
            lambda each: parts[Platform].map(lambda part: [*numbered, each, part])
        ),
    )
    ip = layers_of(IPv4, frag_offset=0) | layers_of(IPv6)
    labels = st.lists(layers_of(MPLS), min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda below, each: [below, *each], ip, packets),
        st.builds(lambda below, each: [below, UDP(), *each], ip, datagrams),
        st.builds(lambda each, word: [*each, word], labels, parts[ControlWord]),
    )


@st.composite
def wrapped_frames(draw: DrawFn, *, fcs_octets: int = 0) -> Frame:
    """Return frames in one to three mirror or tunnel wrappers."""
    layers = list(draw(_tagged_frames(0) | _message_frames(0) | _any_flow_control(PFC, 0)).layers)
    for around in draw(st.lists(_wrapper_stacks(), min_size=1, max_size=3)):
        layers = [Ethernet(dst=draw(addresses()), src=draw(addresses())), *around, *layers]
    return frame_of(layers, fcs_octets=fcs_octets)


def frames(*, fcs_octets: int = 0) -> SearchStrategy[Frame]:
    """Return any complete valid frame, with ``fcs_octets`` octets of its frame check sequence."""
    # the strategies with most formats are listed twice
    return st.one_of(
        _tagged_frames(fcs_octets),
        _tagged_frames(fcs_octets),
        _message_frames(fcs_octets),
        _message_frames(fcs_octets),
        _any_flow_control(Pause, fcs_octets),
        _any_flow_control(PFC, fcs_octets),
        lldp_frames(fcs_octets=fcs_octets),
        _unknown_frames(fcs_octets=fcs_octets),
        wrapped_frames(fcs_octets=fcs_octets),
    )
