"""pcapng files composed octet by octet."""

from __future__ import annotations

import io
import struct

import pytest

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, Block, comments, open_capture, source
from tests.capture.octets import block, description, enhanced, obsolete, option, section, simple, small_pcapng
from tests.capture.seen import read

HAND_WRITTEN = bytes.fromhex(
    "0a0d0d0a 1c000000 4d3c2b1a 0100 0000 ffffffffffffffff 1c000000"  # section header, little-endian, 1.0
    "01000000 20000000 0100 0000 00000400 0900 0100 09000000 00000000 20000000"  # Ethernet, if_tsresol 9
    "06000000 28000000 00000000 01000000 02000000 05000000 40000000 0102030405 000000 28000000"  # 5 of 64
)


def test_a_hand_written_file_is_read() -> None:
    seen, reader = read(HAND_WRITTEN)
    assert (reader.format, reader.byte_order, reader.resolution) == ("pcapng", "little", 1_000_000_000)
    assert [(s.time_ns, s.original, s.frame) for s in seen] == [((1 << 32) + 2, 64, bytes(range(1, 6)))]
    assert seen[0].record == HAND_WRITTEN[-40:]
    assert reader.problem is None


def test_all_packet_blocks_and_byte_orders_are_read() -> None:
    seen, reader = read(small_pcapng())
    assert [s.frame for s in seen] == [b"one", b"twos", b"three", b"four", b"five"]
    assert [s.time_ns for s in seen] == [1_000_000_007, 1_125_000_000, 0, 3, 5000]
    assert [s.timed for s in seen] == [True, True, False, True, True]
    assert [s.interface for s in seen] == [0, 1, 0, 0, 2]
    assert [s.number for s in seen] == [0, 1, 2, 3, 4]
    assert reader.problem is None


def test_interfaces_are_numbered_over_all_sections() -> None:
    _, reader = read(small_pcapng())
    places = [(i.index, i.section, i.local_index, i.linktype, i.name) for i in reader.interfaces]
    assert places == [(0, 0, 0, 1, "eth0"), (1, 0, 1, 101, ""), (2, 1, 0, 1, "")]
    assert [i.ticks_per_second for i in reader.interfaces] == [10**9, 8, 10**6]


def test_items_equal_the_complete_file() -> None:
    octets = small_pcapng()
    with open_capture(io.BytesIO(octets)) as reader:
        parts, kinds = [], []
        for item in reader.items():
            if isinstance(item, Block):
                parts.append(item.octets)
                kinds.append(item.name)
                assert octets[item.offset : item.offset + 4] == item.octets[:4]
            else:
                parts.extend(item.record(i) for i in range(len(item)))
    assert b"".join(parts) == octets
    assert kinds[:3] == ["section header", "interface description", "interface description"]
    assert kinds[3:5] == ["name resolution", "custom"]


@pytest.mark.parametrize("big", [False, True])
def test_mixed_packet_blocks_keep_their_order(big: bool) -> None:
    head = section(big=big) + description(big=big, snaplen=4) + description(big=big, snaplen=9)
    frames = (
        simple(b"abcd", big=big, original=10)
        + enhanced(b"efgh", big=big, ticks=2, interface=1)
        + obsolete(b"ij", big=big, ticks=3, interface=1, drops=0xFFFF)
        + simple(b"kl", big=big)
    )
    seen, _ = read(head + frames)
    assert [s.frame for s in seen] == [b"abcd", b"efgh", b"ij", b"kl"]
    assert [s.original for s in seen] == [10, 4, 2, 2]
    assert [s.time_ns for s in seen] == [0, 2000, 3000, 0]
    assert [s.interface for s in seen] == [0, 1, 1, 0]
    assert [s.timed for s in seen] == [False, True, True, False]


def test_simple_packet_blocks_end_at_the_snaplen() -> None:
    seen, _ = read(section() + description(snaplen=5) + simple(b"abcde", original=100))
    assert seen[0].frame == b"abcde"
    seen, _ = read(section() + description() + simple(b"abcde\0\0\0", original=100))
    assert seen[0].frame == b"abcde\0\0\0"


def test_options_of_an_interface_are_read() -> None:
    options = (
        option(2, "Uplink µ".encode())
        + option(3, b"to the core\0")
        + option(14, struct.pack("<q", -3))
        + option(13, b"\x04")
        + option(9, b"\x03")
        + option(0x9999, b"unknown")
    )
    seen, reader = read(section() + description(options=options) + enhanced(b"x", ticks=5001))
    interface = reader.interfaces[0]
    assert (interface.name, interface.description) == ("Uplink µ", "to the core")
    assert (interface.ticks_per_second, interface.offset_s, interface.fcs_octets) == (1000, -3, 4)
    assert interface.options[-1] == (0x9999, b"unknown")
    assert seen[0].time_ns == 2_001_000_000


def test_fcs_length_in_bits_is_read() -> None:
    _, reader = read(section() + description(options=option(13, b"\x20")))
    assert reader.interfaces[0].fcs_octets == 4


@pytest.mark.parametrize("big", [False, True])
def test_link_speed_is_read(big: bool) -> None:
    speed = struct.pack(">Q" if big else "<Q", 400 * 10**9)
    _, reader = read(section(big=big) + description(big=big, options=option(8, speed, big=big)))
    assert reader.interfaces[0].speed_bps == 400 * 10**9


def test_speed_of_other_than_eight_octets_is_none() -> None:
    _, reader = read(section() + description(options=option(8, b"\x01\x02")))
    assert reader.interfaces[0].speed_bps == 0


def test_broken_options_are_a_warning() -> None:
    seen, reader = read(section() + description(options=b"\x02\x00\xff\x00eth0") + enhanced(b"x"))
    assert len(seen) == 1
    assert reader.warnings == ["the options of interface 0 end in the middle"]


def test_comments_of_a_frame_are_read() -> None:
    with open_capture(io.BytesIO(small_pcapng())) as reader:
        found = [comments(batch, i) for batch in reader for i in range(len(batch))]
    assert found == [(), ("remark",), (), (), ()]
    assert comments(Batch.from_frames([b"crafted"]), 0) == ()


def test_interfaces_between_frames_are_read() -> None:
    octets = section() + description() + enhanced(b"a") + description() + enhanced(b"b", interface=1)
    seen, reader = read(octets)
    assert [(s.frame, s.interface) for s in seen] == [(b"a", 0), (b"b", 1)]
    assert reader.problem is None


def test_times_beyond_64_bits_are_clamped_with_warning() -> None:
    options = option(14, struct.pack("<q", 1 << 40))
    seen, reader = read(section() + description(options=options) + enhanced(b"a", ticks=1))
    assert seen[0].time_ns == (1 << 63) - 1
    assert reader.warnings == ["times beyond 64 bits of nanoseconds are clamped in calculations"]


@pytest.mark.parametrize(("version", "warned"), [((1, 0), 0), ((1, 2), 0), ((1, 1), 1)])
def test_other_minor_versions_are_a_warning(version: tuple[int, int], warned: int) -> None:
    seen, reader = read(section(version=version) + description() + enhanced(b"x"))
    assert (len(seen), len(reader.warnings)) == (1, warned)


@pytest.mark.parametrize("major", [0, 2, 0x0100])
def test_a_section_of_another_major_version_is_refused(major: int) -> None:
    with pytest.raises(
        CaptureError, match=rf"at octet 12, .*expected pcapng version 1, got version {major}\.0"
    ):
        read(section(version=(major, 0)) + description() + enhanced(b"x"))
    seen, reader = read(GOOD + section(version=(major, 0)) + description() + enhanced(b"x"))
    assert len(seen) == 1
    assert reader.problem is not None
    assert reader.problem.got == f"version {major}.0"


GOOD = section() + description() + enhanced(b"good")
BAD_TAILS = {
    "zero-length block": (bytes(64), 4, "at least 12"),
    "block of four GiB": (struct.pack("<II", 0xABC, 0xFFFFFFFC) + bytes(99), 4, "at most 268435456"),
    "length of no multiple of four": (struct.pack("<II", 0xABC, 21) + bytes(99), 4, "multiple of 4"),
    "packet block too short for its header": (block(6, bytes(16)), 4, "at least 32"),
    "lengths that differ": (block(0xABC, bytes(4))[:-4] + bytes(4), 12, "again at its end"),
    "captured length beyond the block": (
        enhanced(b"x").replace(b"\1\0\0\0\1", b"\5\0\0\0\1"),
        20,
        "at most 4",
    ),
    "captured length of four GiB": (
        enhanced(b"x").replace(b"\1\0\0\0\1", b"\xff\xff\xff\xff\1"),
        20,
        "at most 4",
    ),
    "interface that is not there": (enhanced(b"x", interface=1), 8, "one of the 1 interfaces"),
    "no interface in a new section": (section() + simple(b"x"), 28 + 8, "one of the 0 interfaces"),
    "section of no byte order": (section().replace(b"\x4d\x3c", b"\x4d\x3d"), 8, "byte-order magic"),
    "block cut short": (enhanced(b"long enough")[:-1], 0, "a block of 44 octets (type enhanced packet)"),
}


@pytest.mark.parametrize("name", BAD_TAILS)
def test_frames_before_a_bad_tail_are_read(name: str) -> None:
    tail, at, needed = BAD_TAILS[name]
    seen, reader = read(GOOD + tail)
    assert [s.frame for s in seen] == [b"good"]
    assert reader.problem is not None
    assert (reader.problem.offset, reader.problem.frame) == (len(GOOD) + at, 1)
    assert needed in reader.problem.needed


def test_nothing_follows_a_bad_block() -> None:
    seen, reader = read(GOOD + bytes(12) + enhanced(b"never"))
    assert [s.frame for s in seen] == [b"good"]
    assert list(reader.items()) == []


def test_every_truncation_keeps_the_complete_blocks() -> None:
    octets = small_pcapng()
    whole, _ = read(octets)
    ends = [0]
    while ends[-1] < len(octets):
        big = ends[-1] >= octets.rindex(b"\x0a\x0d\x0d\x0a")
        ends.append(
            ends[-1] + int.from_bytes(octets[ends[-1] + 4 : ends[-1] + 8], "big" if big else "little")
        )
    first = ends[1]
    for length in range(len(octets)):
        if length < first:
            with pytest.raises(CaptureError):
                read(octets[:length])
            continue
        seen, reader = read(octets[:length])
        assert seen == whole[: len(seen)]
        assert (reader.problem is None) == (length in ends)
        if reader.problem is not None:
            assert reader.problem.offset == max(end for end in ends if end <= length)


def test_other_blocks_do_not_split_a_batch() -> None:
    """A batch for each of a million blocks took milliseconds; numbers still count within their sections."""
    octets = b"".join(
        section() + description(options=option(9, bytes([3 * (n % 4)]))) + block(0xABC, bytes(8))
        + enhanced(b"a%d" % n, ticks=n) + description() + simple(b"b%d" % n)
        + enhanced(b"c%d" % n, interface=1, ticks=n)
        for n in range(300)
    )  # fmt: skip
    with open_capture(io.BytesIO(octets)) as reader:
        (batch,) = list(reader)
        assert reader.problem is None
        assert len(reader.interfaces) == 600
    with open_capture(io.BytesIO(octets)) as reader:
        singly = [item for item in reader.items() if isinstance(item, Batch)]
        assert len(singly) == 600
    frames = [frame for one in singly for frame in one.frames()]
    assert list(batch.frames()) == frames
    for name in ("time_ns", "interface", "captured", "original", "record_offset", "record_length", "numbers"):
        assert getattr(batch, name).tolist() == [n for one in singly for n in getattr(one, name).tolist()]
    timed = [value for one in singly for value in (one.timed if one.timed is not None else [True] * len(one))]
    assert batch.timed is not None
    assert batch.timed.tolist() == timed


def test_section_in_other_byte_order_begins_batch() -> None:
    octets = GOOD + section(big=True) + description(big=True) + enhanced(b"big", big=True) + GOOD
    with open_capture(io.BytesIO(octets)) as reader:
        assert [list(batch.frames()) for batch in reader] == [[b"good"], [b"big"], [b"good"]]


def test_interfaces_of_earlier_sections_are_not_valid() -> None:
    octets = GOOD + description() + section() + description() + enhanced(b"x", interface=1)
    with open_capture(io.BytesIO(octets)) as reader:
        assert [list(batch.frames()) for batch in reader] == [[b"good"]]
        assert reader.problem is not None
        assert reader.problem.needed == "one of the 1 interfaces described so far in the section"


@pytest.mark.parametrize(
    "octets",
    [
        GOOD + (block(0xABC, bytes(8)) + enhanced(b"x")) * 1000,
        GOOD + b"".join(description() + enhanced(b"x", interface=i) for i in range(1000)),
        GOOD * 1000,
        GOOD + block(0xABC, bytes(8)) * 1000 + enhanced(b"x"),
    ],
    ids=["other blocks", "interfaces", "sections", "nothing between"],
)
@pytest.mark.parametrize("compiled_from", [0, 1 << 40])
def test_thousands_of_blocks_make_few_batches(
    octets: bytes, compiled_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "COMPILE_FROM_OCTETS", compiled_from)
    with open_capture(io.BytesIO(octets)) as reader:
        batches = [len(batch) for batch in reader]
        assert len(batches) == 1
        assert reader.problem is None
