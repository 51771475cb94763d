"""Frame strategies: complete frames are valid, and all features occur."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ecmproto.errors import EncodeError
from ecmproto.tools.fuzz import strategies
from ecmproto.tools.fuzz.strategies import (
    arbitrary_octets,
    captures,
    cnms,
    e2cm_messages,
    e2cm_probes,
    frames,
    layers_of,
    lldp_frames,
    message_frames,
    mutated,
    octets_of,
    pause_frames,
    pfc_frames,
    roce_frames,
    tag_stacks,
    tagged_frames,
    truncated,
    values_of,
    vlan_stacks,
)
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    PFC,
    TLV,
    VLAN,
    CMTag,
    CNTag,
    DBPRateReport,
    Ethernet,
    FECNReturn,
    Frame,
    ITag,
    Layer,
    Pause,
    RDTag,
    RRTTag,
    STag,
    decode,
    decode_lax,
    encode,
)
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.registry import FORMATS, announcement
from ecmproto.wire.formats.schema import Field
from tests.fuzz.strategies.drawing import NAMED, collected

NUMBERS = {
    (field.minimum, field.maximum, field.meta.default, field.bits): field
    for cls in FORMATS
    for field in cls.layout
    if field.is_number and (field.bits or 0) >= 8
}.values()
"""One field of each range, default value and width, which determine the drawn values."""
ANNOUNCED = [cls for cls in FORMATS if announcement(cls, DEFAULT) is not None]


@pytest.mark.parametrize("cls", ANNOUNCED, ids=lambda cls: cls.prefix)
@given(data=st.data())
def test_a_layer_decodes_as_its_format(cls: type[Layer], data: st.DataObject) -> None:
    value = data.draw(layers_of(cls))
    ethertype = announcement(cls, DEFAULT)
    assert ethertype is not None
    octets = Ethernet(type=ethertype).build() + value.build()
    assert decode_lax(octets, original_octets=1 << 32).layers[1] == value


@pytest.mark.parametrize(("named", "cls"), NAMED, ids=[named.__name__ for named, _ in NAMED])
@given(data=st.data())
def test_named_strategies_take_overrides(
    named: Callable[..., SearchStrategy[Any]], cls: type[Layer], data: st.DataObject
) -> None:
    keys = ("flow_id", "etype") if cls is CNTag else ("version", "reserved")
    value = data.draw(named(**{keys[0]: 9, keys[1]: st.just(3)}))
    assert type(value) is cls
    assert [getattr(value, key) for key in keys] == [9, 3]


@given(layers_of(CNM, msdu_length=64))
def test_octets_fit_a_given_length(cnm: CNM) -> None:
    assert len(cnm.msdu) == 64


@given(layers_of(CNM, msdu_length=64, msdu=b"abc"))
def test_overrides_may_contradict_each_other(cnm: CNM) -> None:
    assert (cnm.msdu_length, cnm.msdu) == (64, b"abc")


@given(layers_of(VLAN, priority=8))
def test_overrides_may_be_out_of_range(tag: VLAN) -> None:
    with pytest.raises(EncodeError):
        tag.build()


def test_an_override_of_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="CNM has no field nothing"):
        cnms(nothing=1)


@given(e2cm_probes())
def test_probes_have_neither_feedback_nor_payload(probe: E2CM) -> None:
    assert (probe.q_off, probe.q_delta, probe.payload) == (0, 0, b"")
    assert probe.type in (3, 4)


@given(e2cm_messages())
def test_messages_of_e2cm_show_a_sample(message: E2CM) -> None:
    assert len(message.payload) >= 24
    assert message.type in (0, 1, 2)


@pytest.mark.parametrize("fcs_octets", [0, 4])
@given(data=st.data())
def test_frames_are_whole_and_valid(fcs_octets: int, data: st.DataObject) -> None:
    frame = data.draw(frames(fcs_octets=fcs_octets))
    octets = encode(frame)
    assert decode(octets, fcs_octets=fcs_octets) == frame
    assert len(octets) >= 60 + fcs_octets
    if fcs_octets:
        assert frame.fcs == frame_check_sequence(octets[:-4])


@pytest.mark.parametrize(
    ("strategy", "cls"),
    [(pause_frames(), Pause), (pfc_frames(), PFC), (lldp_frames(), TLV), (message_frames(), Ethernet)],
    ids=["pause", "pfc", "lldp", "message"],
)
@given(data=st.data())
def test_frames_by_name(strategy: SearchStrategy[Frame], cls: type[Layer], data: st.DataObject) -> None:
    frame = data.draw(strategy)
    assert cls in frame
    assert decode(encode(frame)) == frame


MESSAGES = (CNM, ECM, BCN, E2CM, FECNReturn, DBPRateReport)


TAGS = (VLAN, STag, ITag, CNTag, CMTag, RRTTag, RDTag)


@pytest.mark.parametrize(
    ("strategy", "formats", "behind"),
    [
        (message_frames, MESSAGES, (0, 2)),
        (pause_frames, (Pause,), (0,)),
        (pfc_frames, (PFC,), (0,)),
        (tagged_frames, TAGS, (0,)),
    ],
    ids=["message", "pause", "pfc", "tagged"],
)
def test_boundary_values_were_missed_in_a_hundred_examples(
    strategy: Callable[[], SearchStrategy[Frame]], formats: tuple[type[Layer], ...], behind: tuple[int, ...]
) -> None:
    """Each field's minimum and maximum, in messages without tags and after two."""
    edges = {cls.prefix: edges_of(cls) for cls in formats}
    wanted = {(tags, edge) for tags in behind for each in edges.values() for edge in each}
    missed = {}
    for number in range(1, 6):
        seen = set()
        for octets in seeded(octets_of(strategy()), 100, number):
            layers = decode(octets).layers[1:]
            tags = sum(isinstance(layer, TAGS) for layer in layers) if len(behind) > 1 else 0
            seen |= {
                (tags, edge) for layer in layers for edge in edges.get(layer.prefix, ()) if has(layer, edge)
            }
        missed[number] = wanted - seen
    # 32 to 45 of 76 in messages were missed in 0.1.0
    assert missed == {number: set() for number in missed}


def seeded(strategy: SearchStrategy[bytes], count: int, number: int) -> list[bytes]:
    """Return examples from a fixed seed, so each call returns the same examples."""
    values: list[bytes] = []

    @seed(number)
    @settings(max_examples=count, database=None, derandomize=False, phases=[Phase.generate])
    @given(strategy)
    def collect(value: bytes) -> None:
        values.append(value)

    collect()
    return values


Edge = tuple[type[Layer], str, int | bytes]


def has(layer: Layer, edge: Edge) -> bool:
    cls, key, value = edge
    return type(layer) is cls and bool(getattr(layer, key) == value)


def edges_of(cls: type[Layer]) -> list[Edge]:
    """Return the minima and maxima of the fields of a format that do not identify it."""
    edges: list[Edge] = []
    for field in cls.layout:
        if field.bits is None or field.count is not None or field.key == cls.next_key:
            continue
        if field.key in ("protocol", "type", "opcode", "cpid", "msdu_length"):
            continue
        if field.is_number:
            edges += [(cls, field.key, field.minimum), (cls, field.key, field.maximum)]
        else:
            edges += [(cls, field.key, octet * (field.bits // 8)) for octet in (b"\0", b"\xff")]
    return edges


def test_every_format_is_drawn_in_frames() -> None:
    never = {"csig", "keyframe", "lrh", "msdu", "sll", "sll2"}  # the first two have no EtherType unless given
    missing = set(FORMATS)
    for number in range(20):
        for strategy in (frames(), roce_frames()):
            for octets in seeded(octets_of(strategy), 300, number):
                missing -= {type(value) for value in decode(octets).layers}
        if {cls.prefix for cls in missing} == never:
            break
    assert {cls.prefix for cls in missing} == never


def test_tags_come_in_standard_and_other_orders() -> None:
    stacks = {tuple(value.prefix for value in frame.layers) for frame in collected(tagged_frames(), 1000)}
    joined = {" ".join(stack) for stack in stacks}
    for part in (
        "ieee8021ad vlan",
        "vlan cntag",
        "cntag cmtag",
        "ieee8021ad ieee8021ah",
        "vlan vlan",
        "cntag vlan",
    ):
        assert any(part in stack for stack in joined), part


def test_old_s_tags_and_lengths_are_drawn() -> None:
    values = [value for frame in collected(tagged_frames(), 250) for value in frame.layers if value.next_key]
    types = {getattr(value, value.next_key) for value in values}
    assert 0x9100 in types
    assert any(0 < value <= 1500 for value in types)


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.name)
def test_boundary_values_are_drawn(field: Field) -> None:
    drawn = set(collected(values_of(field), 200))
    assert {field.minimum, field.maximum, field.meta.default} <= drawn


@given(truncated())
def test_cut_frames_have_their_original_length(cut: tuple[bytes, int]) -> None:
    octets, original = cut
    assert len(octets) <= original
    assert original >= 60


@given(mutated(pause_frames()), octets_of(st.just(b"abc")))
def test_sources_may_be_frames_or_octets(spoilt: bytes, octets: bytes) -> None:
    assert isinstance(spoilt, bytes)
    assert octets == b"abc"


def test_most_mutated_frames_differ() -> None:
    whole = encode(Frame(layers=(Ethernet(type=0x8808), Pause(pause_time=7))), fix=True)
    spoilt = collected(mutated(st.just(whole)), 200)
    assert sum(octets != whole for octets in spoilt) > 150
    assert {len(octets) < len(whole) for octets in spoilt} == {True, False}


def test_options_without_source_are_keyword_only() -> None:
    named: tuple[Callable[..., SearchStrategy[Any]], ...] = (
        vlan_stacks, tag_stacks, arbitrary_octets, captures, frames, cnms,
    )  # fmt: skip
    for strategy in named:
        with pytest.raises(TypeError, match="positional"):
            strategy(2)


def test_public_names_exist() -> None:
    for name in strategies.__all__:
        assert getattr(strategies, name) is not None
