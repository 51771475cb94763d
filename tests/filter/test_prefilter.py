"""The kernel accepts at least the frames that the filter selects."""

from __future__ import annotations

import functools
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.bpf import MAX_INSTRUCTIONS, Instruction
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.evaluation import Filter, values_of
from ecmproto.frames.filter.fields import Test, Value, known
from ecmproto.frames.filter.literals import text_of
from ecmproto.frames.filter.prefilter import prefilter
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames
from ecmproto.wire.codec import Frame, decode_lax, encode
from ecmproto.wire.formats.ethertypes import EtherTypes
from tests.capture.linux.traffic import received
from tests.conftest import REPOSITORY
from tests.filter.captured import Seen, of_capture
from tests.filter.drawn_filters import Drawer
from tests.filter.drawn_tests import TESTS
from tests.filter.kernel import takes, views
from tests.namespaces import FAR, NEAR, network

BUNDLED = [
    record.octets
    for name in ("mixed.pcap", "vlan_stacks.pcap", "qcn_pbb.pcap", "lldp_cn.pcap", "dcbx.pcap", "pfc.pcap")
    for record in of_capture(REPOSITORY / "pcaps" / name)[:100]
]
OF_LENGTHS = [bytes(12) + length.to_bytes(2) + bytes(60) for length in (0, 46, 1500, 1501)]
UNSEEN = (b"\x88\xb6", b"\x88\xe7")


def seen(octets: bytes, snap_octets: int = 1 << 18, ethertypes: EtherTypes | None = None) -> Seen:
    kept = octets[:snap_octets]
    original = len(octets)
    frame = (
        decode_lax(kept, original_octets=original)
        if ethertypes is None
        else decode_lax(kept, original_octets=original, ethertypes=ethertypes)
    )
    return Seen(frame=frame, octets=kept, original_octets=original)


@functools.lru_cache(maxsize=1)
def compiled(text: str, snap_octets: int) -> tuple[Filter, tuple[Instruction, ...]]:
    """Return a filter and its program for the kernel."""
    filter = compile_filter(text)
    return filter, prefilter(filter, snap_octets=snap_octets)


def check(text: str, octets: bytes, snap_octets: int = 1 << 18) -> bool:
    """Assert that the kernel accepts a frame that the filter selects, and return whether the kernel accepts
    the frame.
    """
    filter, program = compiled(text, snap_octets)
    taken = [not program or takes(program, held) for held in views(octets)]
    if filter.matches(seen(octets, snap_octets)):
        assert all(taken), f"{text} selects {octets.hex()}"
    return all(taken)


def octets_of(given: Frame | bytes) -> bytes:
    return encode(given) if isinstance(given, Frame) else given


FRAMES = (frames() | arbitrary_octets()).map(octets_of).filter(lambda octets: len(octets) >= 14)


@given(TESTS, FRAMES, st.integers(14, 100))
def test_drawn_tests_over_drawn_frames(test: Test, octets: bytes, snap_octets: int) -> None:
    check(text_of(test), octets)
    check(text_of(test), octets, snap_octets)


@pytest.mark.parametrize("seed", range(4))
def test_filters_over_values_that_frames_have(seed: int) -> None:
    pool: dict[str, list[Value]] = defaultdict(list)
    for frame in map(seen, BUNDLED):
        for name, field in known().items():
            if field.kind != "layer":
                pool[name] += values_of(field)(frame)
    drawer = Drawer(pool, seed)
    left_out = 0
    for _ in range(60):
        text = drawer.filter()
        for octets in BUNDLED[seed::4]:
            left_out += not check(text, octets)
    assert left_out > 100


EXACT = [
    "eth.dst == 01:80:c2:00:00:01",
    "eth.src != 02:00:00:00:00:01",
    "not eth.dst in {01:80:c2:00:00:01, 01:80:c2:00:00:0e}",
    "eth.addr == 02:00:00:00:00:01",
    "eth.addr != 02:00:00:00:00:01",
    "frame.len > 64",
    "frame.len <= 64 and not frame.len == 60",
    "frame.len in {60..70, 200}",
    "eth.type == 0x8808",
    "not eth.type >= 0x8808",
    "not eth.type != 0x8808",
    "eth.type < 0x8808",
    "macc",
    "cnm",
    "lldp or macc",
]


@pytest.mark.parametrize("text", EXACT)
def test_some_filters_become_exact_kernel_programs(text: str) -> None:
    # what stands behind tags of other lengths is not looked for
    plain = [*OF_LENGTHS, *(each for each in BUNDLED if not any(tag in each[12:32] for tag in UNSEEN))]
    assert len(plain) > 20
    selected = [octets for octets in plain if compile_filter(text).matches(seen(octets))]
    assert [octets for octets in plain if check(text, octets)] == selected


def test_tag_in_frame_or_metadata_is_matched() -> None:
    head = bytes(12)
    five, six = bytes.fromhex("81000005"), bytes.fromhex("81000006")
    rest = bytes.fromhex("0800") + bytes(50)
    assert check("vlan.id == 5", head + five + rest)
    assert check("vlan.id == 5", head + bytes.fromhex("88a80005") + five + rest)
    program = prefilter(compile_filter("vlan.id == 5"))
    sent, arrived = views(head + six + rest)
    assert takes(program, sent), "tags within are only looked for"
    assert not takes(program, arrived)
    assert not any(takes(program, held) for held in views(head + rest))


@pytest.mark.parametrize("octets", range(14, 22))
def test_frame_that_ends_within_ethertype_is_taken(octets: int) -> None:
    frame = (bytes.fromhex("0200000000090200000000018100000522e9000722e7") + bytes(10))[:octets]
    program = prefilter(compile_filter("cnm or eth.dst == 02:00:00:00:00:09"))
    assert all(takes(program, held) for held in views(frame))


@pytest.mark.parametrize("depth", [0, 1, 3, 4, 5, 6, 20])
def test_any_number_of_leading_tags_is_skipped(depth: int) -> None:
    tags = bytes.fromhex("8100000188a8000222e9000391000004" * 5)
    octets = bytes(12) + tags[: 4 * depth] + bytes.fromhex("22e7") + bytes(60)
    assert compile_filter("cnm").matches(seen(octets))
    assert check("cnm", octets)


def test_changed_ethertypes_are_matched() -> None:
    ethertypes = EtherTypes(cnm=0x1234)
    filter = compile_filter("cnm")
    program = prefilter(filter, ethertypes=ethertypes)
    ours, theirs = (bytes(12) + bytes.fromhex(type_) + bytes(60) for type_ in ("1234", "22e7"))
    assert filter.matches(seen(ours, ethertypes=ethertypes))
    assert [takes(program, next(views(octets))) for octets in (ours, theirs)] == [True, False]


@pytest.mark.parametrize(
    "text", ["frame", "frame.number > 5 and cnm", "not cnm", "frame contains 00", "cnm or eth"]
)
def test_undecidable_filters_take_every_frame(text: str) -> None:
    assert prefilter(compile_filter(text)) == ()


def test_other_link_types_have_no_prefilter() -> None:
    filter = compile_filter("cnm")
    assert prefilter(filter)
    assert prefilter(filter, linktype=101) == ()
    assert prefilter(filter, snap_octets=13) == ()


def test_long_programs_jump_far_or_take_everything() -> None:
    macs = ", ".join(f"02:00:00:00:{i >> 8:02x}:{i & 255:02x}" for i in range(100))
    long = prefilter(compile_filter(f"eth.dst in {{{macs}}}"))
    assert 255 < len(long) <= MAX_INSTRUCTIONS
    listed = [takes(long, next(views((2 << 40 | i).to_bytes(6) + bytes(54)))) for i in range(300)]
    assert listed == [True] * 100 + [False] * 200
    both = prefilter(compile_filter(f"eth.type == 0x9999 and eth.dst in {{{macs}}}"))
    frames = [
        (2 << 40 | i).to_bytes(6) + bytes(6) + type_.to_bytes(2) + bytes(46)
        for type_ in (0x9999, 0x9998)
        for i in (0, 99, 100)
    ]
    assert [takes(both, next(views(each))) for each in frames] == [True, True, False, False, False, False]
    either = prefilter(compile_filter(f"cnm or eth.dst in {{{macs}}}"))
    carried = {type_: bytes(12) + type_.to_bytes(2) + bytes(46) for type_ in (0x22E7, 0x88B6, 0x88E7, 0x88E8)}
    assert [takes(either, next(views(each))) for each in carried.values()] == [True, True, True, False]
    many = " or ".join(f"eth.dst in {{{macs}}}" for _ in range(10))
    assert prefilter(compile_filter(many)) == ()


@pytest.mark.parametrize("text", [*EXACT, "vlan.id == 5", "vlan.priority in {1, 3..5} or pfc", "udp", "ecm"])
def test_kernel_agrees_with_the_program(text: str) -> None:
    program = prefilter(compile_filter(text))
    octets = [each for each in BUNDLED if 18 <= len(each) <= 1514]
    with network(), FrameReceiver(FAR, program=program) as receiver, FrameSender(NEAR) as sender:
        batch = Batch.from_frames(octets)
        assert sender.send(batch.buffer, batch.offset, batch.captured) == len(octets)
        # as received: with the first tag taken out
        expected = [each for each in octets if takes(program, list(views(each))[-1])]
        got = received(receiver, len(expected))
        assert receiver.receive() is None
    assert got == expected
    assert set(got) >= {each for each in octets if compile_filter(text).matches(seen(each))}
