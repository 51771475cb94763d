"""Every field is at its documented position: flipping a bit changes this field and no other field."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import DecodeError
from ecmproto.tools.fuzz.strategies import frames
from ecmproto.wire.codec import CNM, VLAN, Data, Ethernet, Frame, Layer, Placed, decode, decode_lax, encode
from ecmproto.wire.formats.ethernet import LLC
from ecmproto.wire.formats.mpls import ControlWord
from tests.standards.known_answers import CNM_SHORT, KNOWN_ANSWERS, QINQ, KnownAnswer

SELECTORS = {
    "protocol", "type", "cpid", "opcode", "length", "oui", "subtype", "proto",
    "hw_type", "proto_type", "hw_size", "proto_size",
}  # fmt: skip
"""Fields that identify the format of a frame."""


def flipped(octets: bytes, bit: int) -> bytes:
    return octets[: bit // 8] + bytes([octets[bit // 8] ^ 0x80 >> bit % 8]) + octets[bit // 8 + 1 :]


def depends_on(value: Layer, key: str) -> set[str]:
    """Return the fields whose octets are counted by ``key``, or that follow such fields."""
    depending: set[str] = set()
    for field in value.layout:
        count = field.count
        counted = count and (count.key == key or (count.when and count.when[0] == key))
        if counted or not depending.isdisjoint(field.behind):
            depending.add(field.key)
    return depending


def changed_field(octets: bytes, frame: Frame, placed: Placed, bit: int) -> None:
    """Flip a bit of ``placed``, and check the results of strict and lax decoding."""
    spoilt = flipped(octets, bit)
    try:
        strict = decode(spoilt)
    except DecodeError:
        strict = None
    after = decode_lax(spoilt)
    assert (strict is None) == (after.error is not None)
    assert after.layers[: placed.layer] == frame.layers[: placed.layer]
    before, key = frame.layers[placed.layer], placed.field.key
    assert len(after.layers) > placed.layer
    now = after.layers[placed.layer]
    if type(now) is not type(before):
        # The first six octets identify LLC and SNAP headers; other headers are data.
        is_selector = (
            key in SELECTORS
            or (isinstance(before, LLC) and key not in ("etype", "pid"))
            or (isinstance(before, ControlWord) and key == "zero")
        )
        assert is_selector, f"{placed.field.name} made {before!r} into {now!r}"
        return
    differing = {f.key for f in before.layout if getattr(before, f.key) != getattr(now, f.key)}
    assert key in differing
    assert differing <= {key} | depends_on(before, key), f"{placed.field.name}: {before!r} became {now!r}"


@pytest.mark.parametrize("answer", KNOWN_ANSWERS, ids=str)
def test_every_bit_of_every_known_answer(answer: KnownAnswer) -> None:
    frame = decode(answer.octets)
    for placed in frame.fields():
        for bit in range(placed.span.bit_start, placed.span.bit_stop):
            changed_field(answer.octets, frame, placed, bit)


@given(frames(), st.data())
def test_any_bit_of_any_frame(frame: Frame, data: st.DataObject) -> None:
    octets = encode(frame)
    decoded = decode(octets)
    placed = data.draw(
        st.sampled_from([one for one in decoded.fields() if one.span.bit_stop > one.span.bit_start])
    )
    changed_field(
        octets, decoded, placed, data.draw(st.integers(placed.span.bit_start, placed.span.bit_stop - 1))
    )


@given(frames())
def test_spans_cover_the_layers_without_gap_or_overlap(frame: Frame) -> None:
    decoded = decode(encode(frame))
    end = 0
    for placed in decoded.fields():
        assert placed.span.bit_start == end
        end = placed.span.bit_stop
        assert (placed.span.start, placed.span.stop) == (placed.span.bit_start // 8, -(-end // 8))
    assert end // 8 == decoded.boundaries()[-1]
    assert end // 8 + len(decoded.padding + decoded.trailer) == len(encode(frame))


@given(frames())
def test_numbers_are_read_at_their_spans(frame: Frame) -> None:
    octets = encode(frame)
    whole = int.from_bytes(octets, "big")
    for placed in decode(octets).fields():
        span = placed.span
        if isinstance(placed.value, bytes):
            assert octets[span.start : span.stop] == placed.value
        else:
            bits = span.bit_stop - span.bit_start
            value = whole >> 8 * len(octets) - span.bit_stop & (1 << bits) - 1
            assert value == placed.value & (1 << bits) - 1


@given(frames())
def test_built_frame_has_boundaries_like_decoded_one(frame: Frame) -> None:
    assert frame.starts == ()
    assert frame.boundaries() == decode(encode(frame)).starts


def test_spans_by_name() -> None:
    frame = decode(CNM_SHORT.octets)
    (span,) = frame.spans("cnm.qntz_fb")
    assert (span.start, span.stop, span.bit_start, span.bit_stop) == (23, 24, 186, 192)
    assert [(s.start, s.stop) for s in decode(QINQ.octets).spans("vlan.id")] == [(18, 20)]
    assert frame.spans("cnm.nothing") == ()


def test_access_by_format() -> None:
    frame = decode(CNM_SHORT.octets)
    assert CNM in frame
    assert frame[CNM] is frame.get(CNM) is frame.all(CNM)[0]
    assert Data not in frame
    assert frame.get(Data) is None
    assert frame.all(Data) == ()
    with pytest.raises(KeyError, match="data"):
        frame[Data]


def test_equality_depends_on_contents_only() -> None:
    frame = decode(CNM_SHORT.octets)
    assert frame == Frame(layers=CNM_SHORT.layers, padding=bytes(12))
    assert frame != Frame(layers=CNM_SHORT.layers)
    assert Frame(layers=(Ethernet(), VLAN())) != Frame(layers=(Ethernet(), VLAN(id=1)))
    assert len({frame, decode(CNM_SHORT.octets)}) == 1


def test_changed_frame_has_new_spans() -> None:
    decoded = decode(
        bytes(12) + bytes.fromhex("81000005") + bytes.fromhex("22e9000708004500"), original_octets=99
    )
    changed = dataclasses.replace(decoded, layers=(decoded.layers[0], *decoded.layers[2:]))
    assert decoded.spans("cntag.flow_id")[0].start == 18
    assert changed.spans("cntag.flow_id")[0].start == 14
    assert decoded.starts != ()


def test_spans_of_deep_stack_take_linear_time() -> None:
    tags = (VLAN(etype=0x8100),) * 5000
    placed = list(Frame(layers=(Ethernet(type=0x8100), *tags)).fields())
    assert placed[-1].span.stop == 14 + 4 * 5000
