"""Frames that differ only in length: a cached layout is valid for all lengths."""

from __future__ import annotations

import random

import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.layers import find_layers, frames_of
from ecmproto.tools.fuzz.checks.frames import NAMES
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    TCP,
    UDP,
    VLAN,
    CMTag,
    CNTag,
    Data,
    DBPRateReport,
    Ethernet,
    FECNReturn,
    Frame,
    IPv4,
    IPv6,
    Layer,
    RRTTag,
    encode,
)
from ecmproto.wire.formats.ethernet import SNAP, STag
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.ip import AH, ARP, DestinationOptions, FragmentHeader, HopByHop, Routing
from tests.columns.reference import assert_equal
from tests.columns.spoilt import INTERFACES
from tests.dissect.sample import FRAMES


def _lengthened(generator: random.Random, octets: bytes) -> bytes:
    """Return a frame longer or shorter by some octets, zero or others."""
    if generator.random() < 0.3:
        return octets[: max(0, len(octets) - generator.randrange(8))]
    more = generator.randrange(24)
    return octets + (bytes(more) if generator.random() < 0.5 else generator.randbytes(more))


@pytest.mark.parametrize("name", FRAMES)
def test_lengths_of_every_kind_of_frame(name: str) -> None:
    generator = random.Random(name)
    frames = [_lengthened(generator, FRAMES[name]) for _ in range(120)]
    batch = Batch.from_frames(
        frames,
        original=[len(frame) + generator.choice((0, 0, 0, 0, 2, 4, 30)) for frame in frames],
        interface=[generator.choice((0, 0, 2, 6)) for _ in frames],
    )
    assert_equal(batch, NAMES, INTERFACES)


def _packets(header: Layer, transport: Layer, sizes: range) -> list[bytes]:
    tags = (Ethernet(), VLAN(id=5))
    return [
        encode(
            Frame(layers=(*tags, header, transport, *([Data(data=b"x" * size)] if size else ()))), fix=True
        )
        for size in sizes
    ]


@pytest.mark.parametrize("transport", [UDP(), TCP()], ids=["udp", "tcp"])
@pytest.mark.parametrize("header", [IPv4(), IPv6()], ids=["ipv4", "ipv6"])
def test_wrong_ip_lengths_are_not_mistaken(header: Layer, transport: Layer) -> None:
    generator = random.Random(7)
    frames = _packets(header, transport, range(80))
    # right, and wrong by an octet or two
    frames += [frame + bytes(generator.randrange(3)) for frame in frames]
    frames += [frame[: -generator.randrange(1, 3)] for frame in frames]
    generator.shuffle(frames)
    assert_equal(Batch.from_frames(frames), NAMES)
    cut = [frame[: generator.randrange(40, 90)] for frame in frames]
    assert_equal(Batch.from_frames(cut, original=[len(frame) for frame in frames]), NAMES)


def test_lengths_that_are_ethertypes_of_longer_frames() -> None:
    # 802.3 lengths; 2048 octets behind the header are no length, but IPv4
    sizes = [*range(40, 70), 1500, 1501, 0x05FF, 0x0600, 0x0800, 0x0806, 0x0800, 0x86DD]
    frames = [bytes(12) + size.to_bytes(2, "big") + b"\x45" * size for size in sizes]
    frames += [frame + b"\1" * 3 for frame in frames]
    assert_equal(Batch.from_frames(frames), NAMES)


def test_frames_that_differ_in_length_have_one_layout() -> None:
    frames = _packets(IPv4(), UDP(), range(40, 400))
    found = find_layers(frames_of(Batch.from_frames(frames), ()), (), DEFAULT, None)
    (part,) = found.parts
    assert len(part.layouts) == 1


def test_referenced_memory_is_not_reused() -> None:
    messages = [encode(Frame(layers=(Ethernet(), CNM(qntz_fb=n))), fix=True) for n in range(1, 41)]
    held = [extract(Batch.from_frames([octets] * 300))["cnm.qntz_fb"].values for octets in messages]
    for number, values in enumerate(held, 1):
        assert set(values) == {number}


def test_frames_differing_only_in_cpid_are_distinguished() -> None:
    generator = random.Random(7)
    possible = (1, 1 << 63, 0x0200000000C10001, 0x0000000000C10000, 1 << 57)
    cpids = [generator.choice((0, 1 << 56, (1 << 64) - 1, *possible)) for _ in range(300)]
    header = Ethernet(dst=b"\x02" * 6, src=b"\x04" * 6)
    messages = [
        [ECM(cpid=cpid, payload=bytes(30)), BCN(cpid=cpid, payload=bytes(30)), E2CM(cpid=cpid, type=3)]
        for cpid in cpids
    ]
    frames = [
        encode(Frame(layers=(header, generator.choice(choice))), fix=True) + bytes(generator.randrange(4))
        for choice in messages
    ]
    frames += [
        encode(Frame(layers=(header, CMTag(cpid=one), RRTTag(cpid=other), Data(data=bytes(30)))), fix=True)
        for one, other in zip(cpids, reversed(cpids), strict=True)
    ]
    assert_equal(Batch.from_frames(frames), NAMES, INTERFACES)


def test_frames_longer_than_their_message_are_distinguished() -> None:
    generator = random.Random(8)
    made = [Frame(layers=(Ethernet(), last)) for last in (FECNReturn(), DBPRateReport(), E2CM(type=4))]
    frames = [encode(generator.choice(made), fix=True) + bytes(generator.randrange(30)) for _ in range(200)]
    original = [len(frame) + generator.choice((0, 0, 5, 30)) for frame in frames]
    assert_equal(Batch.from_frames(frames, original=original), NAMES, INTERFACES)


def test_ipv6_extension_headers_are_distinguished() -> None:
    generator = random.Random(9)
    kinds: tuple[Layer, ...] = (
        HopByHop(), DestinationOptions(options=bytes(14)), Routing(), AH(icv=bytes(8)), AH(length=0),
        FragmentHeader(), FragmentHeader(offset=3), UDP(), TCP(),
    )  # fmt: skip
    frames = []
    for _ in range(400):
        chain = [generator.choice(kinds) for _ in range(generator.randrange(5))]
        layers = (Ethernet(), IPv6(), *chain, Data(data=generator.randbytes(40)))
        octets = encode(Frame(layers=layers), fix=generator.random() < 0.9)
        frames.append(octets[: generator.randrange(54, len(octets))] if generator.random() < 0.2 else octets)
    original = [len(frame) + generator.choice((0, 0, 30)) for frame in frames]
    assert_equal(Batch.from_frames(frames, original=original), NAMES, INTERFACES)


def test_snap_and_other_payload_after_length_are_distinguished() -> None:
    generator = random.Random(10)
    kinds: tuple[tuple[Layer, ...], ...] = (
        (SNAP(), IPv4(), UDP()), (SNAP(), IPv6(), AH(icv=bytes(8)), TCP()), (SNAP(), ARP()),
        (SNAP(etype=0x8137),), (SNAP(etype=46),), (SNAP(oui=9, etype=0x0800),), (SNAP(control=0x7F),),
        (SNAP(dsap=0x42),), (),
    )  # fmt: skip
    frames = []
    for _ in range(400):
        tags: tuple[Layer, ...] = generator.choice(((), (VLAN(),), (STag(), CNTag())))
        layers = (Ethernet(), *tags, *generator.choice(kinds), Data(data=generator.randbytes(20)))
        octets = encode(Frame(layers=layers), fix=generator.random() < 0.9)
        frames.append(octets[: generator.randrange(14, len(octets))] if generator.random() < 0.3 else octets)
    original = [len(frame) + generator.choice((0, 0, 30)) for frame in frames]
    assert_equal(Batch.from_frames(frames, original=original), NAMES, INTERFACES)


def test_authentication_header_after_ipv4_is_distinguished() -> None:
    generator = random.Random(11)
    kinds: tuple[tuple[Layer, ...], ...] = (
        (AH(icv=bytes(8)), UDP()), (AH(), TCP()), (AH(length=0), UDP()), (AH(icv=bytes(12)),), (UDP(),),
    )  # fmt: skip
    frames = []
    for _ in range(200):
        ip = IPv4(frag_offset=generator.choice((0, 0, 5)))
        layers = (Ethernet(), ip, *generator.choice(kinds), Data(data=generator.randbytes(20)))
        octets = encode(Frame(layers=layers), fix=generator.random() < 0.9)
        frames.append(octets[: generator.randrange(34, len(octets))] if generator.random() < 0.2 else octets)
    original = [len(frame) + generator.choice((0, 0, 30)) for frame in frames]
    assert_equal(Batch.from_frames(frames, original=original), NAMES, INTERFACES)


def test_short_frames_after_a_run_are_distinguished() -> None:
    generator = random.Random(12)
    long = _packets(IPv4(), UDP(), range(40, 60))
    for octets in (0, 1, 13, 23, 24, 30, 41):
        run = [generator.choice(long) for _ in range(12)]
        assert_equal(Batch.from_frames([*run, long[0][:octets]]), NAMES)
    # Frames with equal starts may differ in a word, in the padding or in the captured length.
    frame = encode(Frame(layers=(Ethernet(), CNM(qntz_fb=1))), fix=True).ljust(60, b"\0")
    other = frame[:-1] + b"\1"
    frames = [frame] * 9 + [other] * 9 + [frame] * 2 + [frame[:12] + b"\x08\x06" + frame[14:]] * 7
    original = [60] * 9 + [60] * 5 + [64] * 4 + [60] * 9
    assert_equal(Batch.from_frames(frames, original=original), NAMES)
