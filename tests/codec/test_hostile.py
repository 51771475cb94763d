"""Hostile input: truncated, damaged and random octets are decoded or raise DecodeError, and cause no other
error.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ecmproto.errors import DecodeError
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, mutated, truncated
from ecmproto.wire.codec import (
    Data,
    Ethernet,
    EtherTypes,
    Frame,
    UnknownMessage,
    decode,
    decode_lax,
    encapsulated,
    encode,
)
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.lldp import AnyTLV
from ecmproto.wire.formats.mpls import ControlWord
from ecmproto.wire.formats.registry import dispatch
from tests.standards.known_answers import KNOWN_ANSWERS, KnownAnswer

EVERY = pytest.mark.parametrize("answer", KNOWN_ANSWERS, ids=str)


def strictly(octets: bytes, fcs_octets: int = 0, original: int | None = None) -> Frame | DecodeError:
    try:
        return decode(octets, fcs_octets=fcs_octets, original_octets=original)
    except DecodeError as error:
        return error


def outcome(octets: bytes, fcs_octets: int = 0, original: int | None = None) -> Frame | None:
    """Return the frame that strict decoding gives, None for a DecodeError; check that the twins agree."""
    lax = decode_lax(octets, fcs_octets=fcs_octets, original_octets=original)
    assert encode(lax) == octets
    strict = strictly(octets, fcs_octets, original)
    if isinstance(strict, DecodeError):
        assert lax.error == strict
        assert 0 <= strict.offset <= len(octets)
        return None
    assert lax.error is None
    assert strict == lax
    return strict


@EVERY
def test_every_length_decodes_or_raises(answer: KnownAnswer) -> None:
    for kept in range(len(answer.octets)):
        outcome(answer.octets[:kept])


@EVERY
def test_every_length_within_the_fixed_layers_raises(answer: KnownAnswer) -> None:
    """Strict decoding never returns plain octets for a known type."""
    frame = decode(answer.octets)
    outer = answer.layers[: next(iter(frame.inner_frames()), None)]  # a mirror may truncate what is inside
    for start, stop, value in zip(frame.starts, frame.starts[1:], outer, strict=False):
        needed = start + type(value).fixed_octets
        # The previous layer announces each layer, except TLVs and the layer after the last MPLS label.
        first = start + 1 if isinstance(value, AnyTLV | ControlWord) else start
        for kept in range(first, needed):
            assert outcome(answer.octets[:kept]) is None, (
                f"{kept} octets, {value.prefix} needs {needed} of {stop}"
            )


@EVERY
def test_every_single_bit_flip_decodes_or_raises(answer: KnownAnswer) -> None:
    for bit in range(8 * len(answer.octets)):
        octets = bytearray(answer.octets)
        octets[bit // 8] ^= 0x80 >> bit % 8
        outcome(bytes(octets))


@given(arbitrary_octets(), st.integers(0, 8), st.none() | st.integers(0, 300))
@example(b"", 4, None)
@example(b"\x00" * 3, 4, 3)
@example(b"\x00" * 14, 4, 16)
def test_arbitrary_octets_decode_or_raise(octets: bytes, fcs_octets: int, original: int | None) -> None:
    outcome(octets, fcs_octets, original)


@given(mutated())
def test_spoilt_frames_decode_or_raise(octets: bytes) -> None:
    outcome(octets)


@given(arbitrary_octets())
def test_decoding_the_sampled_frame_never_raises(octets: bytes) -> None:
    inner = encapsulated(decode_lax(octets))
    assert inner is None or inner.layers


@given(frames())
def test_a_frame_reads_back_as_itself(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@given(frames(fcs_octets=4))
def test_a_frame_with_fcs_reads_back_as_itself(frame: Frame) -> None:
    assert decode(encode(frame), fcs_octets=4) == frame


@given(truncated())
def test_frame_cut_by_snap_length_is_wellformed(cut: tuple[bytes, int]) -> None:
    octets, original = cut
    frame = decode(octets, original_octets=original)
    assert frame.cut == original - len(octets)
    assert encode(frame) == octets
    outcome(octets)  # the same octets in a complete frame: an error or a frame


@given(truncated(frames(fcs_octets=4)))
def test_a_cut_frame_loses_its_fcs_first(cut: tuple[bytes, int]) -> None:
    octets, original = cut
    frame = decode(octets, original_octets=original, fcs_octets=4)
    assert len(frame.fcs) == max(0, 4 - frame.cut)
    assert encode(frame) == octets


@given(frames(), st.data())
def test_cut_keeps_layers_before_it(frame: Frame, data: st.DataObject) -> None:
    octets = encode(frame)
    kept = data.draw(st.integers(0, len(octets)))
    starts = decode(octets).starts
    whole = sum(stop <= kept for stop in starts[1:])
    cut = decode(octets[:kept], original_octets=len(octets))
    assert cut.layers[:whole] == frame.layers[:whole]


@given(frames())
def test_any_bytes_type_is_decoded(frame: Frame) -> None:
    octets = encode(frame)
    assert decode(bytearray(octets)) == decode(memoryview(octets)) == decode(octets)


@pytest.mark.parametrize("ethertype", sorted({*dispatch(DEFAULT).plain, *dispatch(DEFAULT).chosen}))
@given(body=st.binary(max_size=120))
def test_a_known_ethertype_is_never_plain_octets(ethertype: int, body: bytes) -> None:
    """Frames with enough octets are decoded in their format, and shorter frames raise an error."""
    try:
        frame = decode(bytes(12) + ethertype.to_bytes(2, "big") + body)
    except DecodeError:
        return
    following = frame.layers[1]
    assert not isinstance(following, Data)
    assert following.announced_by or following.prefix == "lldpcn"


@pytest.mark.parametrize("octets", [0, 1])
def test_truncated_experimental_word_raises(octets: int) -> None:
    with pytest.raises(DecodeError, match=f"expmsg at octet 14: expected 2 octets, got {octets} octets"):
        decode(bytes(12) + b"\x88\xb5" + bytes(octets))


def test_a_higher_unassigned_type_is_no_error() -> None:
    assert decode(bytes(12) + b"\x88\xb5\x0f\xff" + bytes(44))[UnknownMessage].type == 15


def test_a_frame_of_tags_alone_is_linear_work() -> None:
    """A jumbo frame of 16,000 tags neither reaches a recursion limit nor takes quadratic time."""
    octets = bytes(12) + b"\x81\x00\x00\x01" * 16_000 + b"\x88\xf7"
    frame = decode(octets)
    assert len(frame.layers) == 16_001
    assert encode(frame) == octets


@pytest.mark.parametrize("octets", [b"", b"\0", bytes(13)])
def test_less_than_a_header(octets: bytes) -> None:
    with pytest.raises(DecodeError, match=f"eth at octet 0: expected 14 octets, got {len(octets)} octets"):
        decode(octets)
    lax = decode_lax(octets)
    assert lax.layers == ((Data(data=octets),) if octets else ())
    assert decode(octets, original_octets=60).cut == 60 - len(octets)


def test_strict_and_lax_twin_share_their_map() -> None:
    vendor = EtherTypes(cnm=0x9999)
    octets = bytes(12) + b"\x99\x99" + bytes(10)
    assert decode_lax(octets, ethertypes=vendor).error is not None
    assert decode_lax(octets).layers[0] == Ethernet(type=0x9999)
    assert decode_lax(octets).error is None
