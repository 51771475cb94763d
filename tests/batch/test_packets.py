"""One parser of headers: kernels, columns and flow tables find in a frame what the codec finds."""

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
from ecmproto.frames.batch.flows import NO_NUMBER, FlowTable
from ecmproto.frames.batch.headers import roles_of
from ecmproto.frames.batch.packets import (
    GLOBAL,
    IP4,
    IP6,
    NO_NETWORK,
    NOWHERE,
    Packet,
    is_udp_message,
    packet_at,
)
from ecmproto.frames.batch.tags import own_tag, tag_layout
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.columns import extract
from ecmproto.tools.fuzz.strategies import frames as drawn_frames
from ecmproto.tools.fuzz.strategies import roce_frames
from ecmproto.wire.codec import TCP, UDP, Frame, IPv4, IPv6, decode_lax, encode
from ecmproto.wire.codec.tags import ECNField
from ecmproto.wire.flow import FlowKey
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.infiniband import BTH, CNP, CNP_OPCODE, GRH, NETWORKS, ROCE_PORT
from ecmproto.wire.formats.ip import CE, Extension
from tests.formats.roce import frames as roce_examples

ROLES = roles_of(DEFAULT)
ECN = tag_layout(ECNField(), DEFAULT)
KINDS: dict[type[Layer], int] = {IPv4: IP4, IPv6: IP6, GRH: GLOBAL}
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


def expected(frame: Frame) -> Packet:
    """Return the packet that the codec finds."""
    index = next((i for i in reversed(range(len(frame.layers))) if type(frame.layers[i]) in NETWORKS), None)
    if index is None:
        return Packet(NO_NETWORK, NOWHERE, 0, NOWHERE, NOWHERE, NOWHERE, 0)
    network = frame.layers[index]
    protocol = next(getattr(network, key) for key in ("proto", "nxt", "nxthdr") if hasattr(network, key))
    payload = transport = bth = NOWHERE
    for layer, start in zip(frame.layers[index + 1 :], frame.starts[index + 1 :], strict=False):
        if isinstance(layer, Extension):
            protocol = layer.nxt
            continue
        if payload == NOWHERE:
            payload = start
        if isinstance(layer, UDP | TCP):
            transport = start
        elif isinstance(layer, BTH):
            bth = start
    return Packet(KINDS[type(network)], frame.starts[index], protocol, payload, transport, bth, 0)


def is_comparable(frame: Frame) -> bool:
    """Return whether no header up to the transport's is malformed or cut."""
    headers = [layer for layer in frame.layers if isinstance(layer, (*NETWORKS, Extension))]
    if frame.cut and headers and headers[-1] is frame.layers[-1]:
        return False
    broken = {"ip", "ipv6", "grh", "ah", "llc", "eth", "vlan"} | {layer.prefix for layer in headers}
    return frame.error is None or frame.error.layer not in broken


def assert_agreement(octets: bytes, original: int) -> None:
    frame = decode_lax(octets, original_octets=original)
    if not is_comparable(frame):
        return
    buffer = np.frombuffer(b"\x5a" + octets + b"\xa5", np.uint8)
    end = 1 + len(octets)
    found = packet_at(buffer, 1, end, 1 + max(original, len(octets)), ROLES)
    wanted = expected(frame)
    shown = f"{octets.hex()} of {original}"
    offsets = [at if at == NOWHERE else at - 1 for at in (found.network, found.transport, found.bth)]
    if wanted.transport == NOWHERE and found.transport != NOWHERE:
        # The two ports of a header that is cut: the codec has no header then.
        assert found.stop - found.transport < 20, shown
        offsets[1] = NOWHERE
    assert (found.kind, found.protocol) == (wanted.kind, wanted.protocol), shown
    assert offsets == [wanted.network, wanted.transport, wanted.bth], shown
    if found.payload != NOWHERE and wanted.payload != NOWHERE:
        assert found.payload - 1 == wanted.payload, shown
    network = frame.layers[frame.starts.index(wanted.network)] if wanted.network != NOWHERE else None
    own = own_tag(buffer, 1, len(octets), ROLES, ECN)
    assert own.tagged == isinstance(network, IPv4 | IPv6), shown
    if isinstance(network, IPv4 | IPv6):
        traffic = network.dsfield if isinstance(network, IPv4) else network.tclass
        assert own.tag == traffic & CE, shown
    is_message = is_udp_message(buffer, 1, end, 1 + max(original, end - 1), ROLES, ROCE_PORT, CNP_OPCODE)
    if CNP in frame and not isinstance(network, GRH):
        assert is_message, shown


def assert_batch_agrees(octets: Sequence[bytes], original: Sequence[int]) -> None:
    """Hold flow keys and columns of a batch to the codec."""
    batch = Batch.from_frames(list(octets), original=np.array(original))
    numbers = (table := FlowTable(FlowKey(conversation=True), max_flows=1 << 16)).number_batch(batch)
    flows = table.numbers(numbers.station, numbers.flow)
    pairs = extract(batch, ["infiniband.bth.destqp"])["infiniband.bth.destqp"]
    queue_pairs = dict(zip(pairs.rows.tolist(), pairs, strict=True))
    for row, (each, wire) in enumerate(zip(octets, original, strict=True)):
        frame = decode_lax(each, original_octets=wire)
        bth = frame.get(BTH)
        assert queue_pairs.get(row) == (None if bth is None else bth.qp), each.hex()
        if flows[row] == NO_NUMBER or not is_comparable(frame):
            continue
        conversation = table.flow(int(flows[row])).conversation
        wanted = expected(frame)
        if wanted.kind not in (IP4, IP6) or isinstance(bth, CNP):
            assert conversation is None, each.hex()
            continue
        assert conversation is not None, each.hex()
        network = frame.layers[frame.starts.index(wanted.network)]
        mapped = IPv6 if len(conversation.source) > 4 else IPv4
        if isinstance(network, mapped):
            assert conversation.source == network.src, each.hex()
        assert conversation.queue_pair == (None if bth is None else bth.qp), each.hex()
        assert conversation.protocol == wanted.protocol, each.hex()


def test_trailer_after_an_ip_packet_is_no_roce() -> None:
    assert_agreement(TRAILER_LIKE_BTH, len(TRAILER_LIKE_BTH))
    assert_batch_agrees([TRAILER_LIKE_BTH], [len(TRAILER_LIKE_BTH)])
    assert packet_at(np.frombuffer(TRAILER_LIKE_BTH, np.uint8), 0, 66, 66, ROLES).bth == NOWHERE


def test_roce_after_hop_by_hop_options_has_its_queue_pair() -> None:
    assert decode_lax(HOP_BY_HOP)[BTH].qp == 1911
    assert_agreement(HOP_BY_HOP, len(HOP_BY_HOP))
    assert_batch_agrees([HOP_BY_HOP], [len(HOP_BY_HOP)])


@given(st.one_of(drawn_frames(), roce_frames()), st.data())
@settings(max_examples=300, deadline=None)
def test_drawn_frames_are_parsed_as_by_the_codec(frame: Frame, data: st.DataObject) -> None:
    octets = encode(frame)
    kept = data.draw(st.integers(0, len(octets)))
    for captured in (len(octets), kept):
        assert_agreement(octets[:captured], len(octets))


def mutated(examples: Sequence[bytes], count: int, seed: int) -> Iterator[tuple[bytes, int]]:
    """Yield altered and cut copies of frames with their lengths on the wire."""
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
    for octets, original in cases:
        assert_agreement(octets, original)
    assert_batch_agrees(*zip(*cases, strict=True))


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
            for each, wire in zip(octets, original, strict=True):
                assert_agreement(each, wire)
            assert_batch_agrees(octets, original)
            compared += len(rows)
    assert compared > 1000
