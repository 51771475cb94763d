"""The frames of a capture that can be sent, once or repeatedly."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, Interface, PcapngWriter, open_capture
from ecmproto.frames.capture.linux.sender import Sendable, repeated
from ecmproto.frames.capture.writer import Sink


def capture() -> io.BytesIO:
    memory = io.BytesIO()
    interfaces = [
        Interface(index=0, linktype=1),
        Interface(index=1, linktype=101),
        Interface(index=2, linktype=1, fcs_octets=4),
    ]
    writer = PcapngWriter(Sink("", memory), interfaces=interfaces)
    writer.write_frame(b"whole" * 10, 1)
    writer.write_frame(b"bare IP", 2, interface=1)
    writer.write_frame(b"frame" * 10 + b"FCS!", 3, interface=2)
    writer.write_frame(b"frame" * 10 + b"FC", 4, interface=2, original=54)
    writer.write_frame(b"cut", 5, interface=2, original=54)
    memory.seek(0)
    return memory


def test_ethernet_frames_are_sent_without_their_fcs() -> None:
    sendable = Sendable()
    with open_capture(capture()) as reader:
        frames = [each for batch in sendable.of(reader) for each in batch.frames()]
    assert frames == [b"whole" * 10, b"frame" * 10, b"frame" * 10, b"cut"]
    assert sendable.foreign == 1


def test_frames_lacking_payload_count_as_cut() -> None:
    sendable = Sendable()
    with open_capture(capture()) as reader:
        list(sendable.of(reader))
    assert sendable.cut == 1


def source() -> Iterator[Batch]:
    yield Batch.from_frames([b"a", b"bb"], time_ns=[100, 200])
    yield Batch.from_frames([], first=2)
    yield Batch.from_frames([b"ccc"], time_ns=[400], first=2)


def taken(frames: int) -> list[tuple[bytes, int, int]]:
    """Return the octets, the times and the number of repeated frames."""
    batches = list(repeated(source, frames=frames))
    return [
        (octets, int(batch.time_ns[i]), int(batch.numbers[i]))
        for batch in batches
        for i, octets in enumerate(batch.frames())
    ]


@pytest.mark.parametrize("kept_octets", [0, 1 << 20], ids=["asked for again", "kept"])
def test_repeated_frames_keep_intervals_and_numbers(
    kept_octets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.sender._CACHED_OCTETS", kept_octets)
    # 300 ns from first to last, and 150 to the first again
    rounds = [
        [(b"a", 100 + 450 * n, 0), (b"bb", 200 + 450 * n, 1), (b"ccc", 400 + 450 * n, 2)] for n in range(4)
    ]
    assert taken(11) == [each for one in rounds for each in one][:11]


@pytest.mark.parametrize("frames", [0, 1, 2, 3, 4, 10_000])
def test_repetition_ends_at_the_frame_count(frames: int) -> None:
    given = taken(frames)
    assert [octets for octets, _, _ in given] == [(b"a", b"bb", b"ccc")[i % 3] for i in range(frames)]
    assert (np.diff([time for _, time, _ in given]) > 0).all()


def test_repetition_without_a_count_is_endless() -> None:
    given = 0
    for batch in islice(repeated(source), 50):
        given += len(batch)
    assert given > 50_000, "what is small goes in few batches"


def test_an_empty_source_repeats_nothing() -> None:
    assert list(repeated(lambda: iter([]))) == []
    assert list(repeated(lambda: iter([Batch.from_frames([])]))) == []


def test_a_single_frame_repeats_without_interval() -> None:
    batches = list(repeated(lambda: [Batch.from_frames([b"a"], time_ns=7)], frames=5))
    assert [time for batch in batches for time in batch.time_ns.tolist()] == [7] * 5
