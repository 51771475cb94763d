"""The header parser: kernels, columns and flow tables find the same values in a frame as the codec."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from ecmproto.frames.batch.packets import NOWHERE, headers_of, packet_at
from ecmproto.frames.batch.parse_tables import CNM, OTHER, parse_tables
from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.tools.fuzz.checks.headers import HeaderCheck
from ecmproto.tools.fuzz.strategies import frames as drawn_frames
from ecmproto.tools.fuzz.strategies import roce_frames
from ecmproto.wire.codec import Frame, decode_lax, encode
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.infiniband import BTH
from tests.formats.roce import frames as roce_examples

TABLES = parse_tables(DEFAULT)
CAPTURES = Path(__file__).parents[3] / "shared" / "captures"
MACS = "020000000002020000000001"
TRAILER_LIKE_BTH = (
    bytes.fromhex(MACS + "0800" + "4500001c000000004011000001010101" + "02020202" + "c00012b700080000")
    + bytes.fromhex("64ffffff00000777")
    + bytes(4 + 16)
)
ADDRESSES = bytes(15) + b"\1" + bytes(15) + b"\2"
HOP_BY_HOP = (
    bytes.fromhex(MACS + "86dd" + "60000000" + "00280040") + ADDRESSES
    + bytes.fromhex("1100000000000000" + "c00012b700200000" + "0440ffff0000077700000001") + bytes(12)
)  # fmt: skip


def assert_agreement(octets: Sequence[bytes], original: Sequence[int]) -> None:
    """Assert that packets, flow keys, ECN fields, CNPs and columns of a batch agree with the codec."""
    assert [str(each) for each in HeaderCheck().of_captured(octets, original)] == []


def test_trailer_after_an_ip_packet_is_no_roce() -> None:
    assert_agreement([TRAILER_LIKE_BTH], [len(TRAILER_LIKE_BTH)])
    assert packet_at(np.frombuffer(TRAILER_LIKE_BTH, np.uint8), 0, 66, 66, TABLES).bth == NOWHERE


def test_ethertype_at_end_of_frame_has_its_role() -> None:
    octets = np.frombuffer(bytes.fromhex(MACS + "22e7"), np.uint8)
    assert [headers_of(octets, 0, end, TABLES).role for end in (14, 13)] == [CNM, OTHER]


def test_authentication_header_in_ipv4_is_parsed() -> None:
    text = "4500 0038 00000000 4033 0000 0a000001 0a000002" + "1104 0000 00000001 00000002" + "00" * 12
    octets = bytes.fromhex(MACS + "0800" + text + "c000 0007 000c 0000 00000000")
    assert_agreement([octets], [len(octets)])


def test_roce_after_hop_by_hop_options_is_parsed() -> None:
    assert decode_lax(HOP_BY_HOP)[BTH].qp == 1911
    assert_agreement([HOP_BY_HOP], [len(HOP_BY_HOP)])


@given(st.one_of(drawn_frames(), roce_frames()), st.data())
@settings(max_examples=300, deadline=None)
def test_drawn_frames_are_parsed_as_by_the_codec(frame: Frame, data: st.DataObject) -> None:
    octets = encode(frame)
    kept = data.draw(st.integers(0, len(octets)))
    assert_agreement([octets, octets[:kept]], [len(octets)] * 2)


def mutated(examples: Sequence[bytes], count: int, seed: int) -> Iterator[tuple[bytes, int]]:
    """Yield altered and truncated copies of frames with their original lengths."""
    draw = random.Random(seed)
    for _ in range(count):
        octets = bytearray(draw.choice(examples))
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            octets[draw.randrange(12, len(octets))] = draw.choice(
                (0, 6, 17, 43, 44, 51, 0x45, 0x60, draw.randrange(256))
            )
        octets += bytes(draw.choice((0, 0, 8, 40)))
        kept = draw.randrange(14, len(octets) + 1) if draw.random() < 0.3 else len(octets)
        yield bytes(octets[:kept]), len(octets)


EXTENSIONS = [
    HOP_BY_HOP[:20] + bytes([first]) + HOP_BY_HOP[21:54] + bytes([17, length]) + HOP_BY_HOP[56:62]
    + bytes(8) * extra + HOP_BY_HOP[62:]
    for first in (0, 43, 44, 51, 60) for length, extra in ((0, 0), (1, 1), (1, 0), (2, 1))
]  # fmt: skip


def test_mutated_frames_are_parsed_as_by_the_codec() -> None:
    examples = [*roce_examples(), TRAILER_LIKE_BTH, HOP_BY_HOP, *EXTENSIONS]
    examples += [each[:12] + (0x88E7).to_bytes(2) + bytes(16) + each[12:] for each in examples[:9]]
    examples += [
        each[:12] + (len(each) - 6).to_bytes(2) + bytes.fromhex("aaaa03000000") + each[12:]
        for each in (roce_examples()[0], HOP_BY_HOP, TRAILER_LIKE_BTH)
    ]
    cases = list(mutated(examples, 6000, 11))
    assert_agreement(*zip(*cases, strict=True))


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="no captures of others beside the project")
def test_captured_frames_are_parsed_as_by_the_codec() -> None:
    compared = 0
    for path in sorted(each for each in CAPTURES.rglob("*") if each.is_file()):
        with suppress(CaptureError), open_capture(str(path)) as reader:
            batch = next(iter(reader), None)
            if batch is None or any(each.linktype != ETHERNET for each in reader.interfaces):
                continue
            rows = range(min(len(batch), 60))
            octets, original = [batch.frame(row) for row in rows], batch.original[: len(rows)].tolist()
            assert_agreement(octets, original)
            compared += len(rows)
    assert compared > 1000
