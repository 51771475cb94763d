"""Hand-written frames from wire-formats.md, decoded and encoded; see known_answers.py."""

from __future__ import annotations

import pytest

from ecmproto.wire.codec import Frame, decode, encode
from ecmproto.wire.formats.registry import FORMATS
from tests.standards.known_answers import KNOWN_ANSWERS, KnownAnswer

EVERY = pytest.mark.parametrize("known", KNOWN_ANSWERS, ids=str)


@EVERY
def test_decodes_as_written(known: KnownAnswer) -> None:
    frame = decode(known.octets)
    assert frame.layers == known.layers
    assert (frame.padding, frame.trailer, frame.fcs) == (bytes(known.padding), known.trailer, b"")


@EVERY
def test_encodes_as_written(known: KnownAnswer) -> None:
    frame = Frame(layers=known.layers, padding=bytes(known.padding), trailer=known.trailer)
    assert encode(frame) == known.octets


@EVERY
def test_fixing_leaves_a_correct_frame_unchanged(known: KnownAnswer) -> None:
    assert encode(decode(known.octets), fix=True) == known.octets


@EVERY
def test_fixing_computes_types_lengths_checksums_and_padding(known: KnownAnswer) -> None:
    layers = []
    for index, value in enumerate(known.layers):
        zero = {key: 0 for key in ("msdu_length", "len", "plen", "checksum") if hasattr(value, key)}
        if value.next_key and index + 1 < len(known.layers) and known.layers[index + 1].announced_by:
            zero[value.next_key] = 0
        layers.append(value if value.prefix in ("udp", "tcp", "gresum") else value.replace(**zero))
    assert encode(Frame(layers=tuple(layers)), fix=True) == known.octets


def test_every_format_has_a_known_answer() -> None:
    shown = {type(value) for known in KNOWN_ANSWERS for value in known.layers}
    assert {cls.prefix for cls in FORMATS if cls not in shown} == {
        "csig",  # have no EtherType by default
        "keyframe",
        "msdu",  # stands inside a CNM only
        "lrh",  # of captures that hold no Ethernet header
        "sll",
        "sll2",
    }, "write a frame of the new format, from its document, into known_answers.py"
