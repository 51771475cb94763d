"""Frames for tests of tables: stacks of all types of tags, hostile frames, truncated frames, and random
octets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Frames = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]

DA, SA = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


def batch_of(frames: Sequence[bytes]) -> Frames:
    """Return the buffer, the offsets and the captured lengths of frames, with unused octets between the
    frames.
    """
    gap = b"\x81\x00\x88"
    lengths = np.array([len(frame) for frame in frames], np.int64)
    buffer = np.frombuffer(b"".join(frame + gap for frame in frames), np.uint8)
    return buffer, np.cumsum(lengths + len(gap)) - lengths - len(gap), lengths


def texts(frames: Frames) -> list[bytes]:
    """Return the octets of each frame."""
    buffer, offset, captured = frames
    return [buffer[start : start + n].tobytes() for start, n in zip(offset, captured, strict=True)]


def _tag(announced: int, octets: int, *, word: int | None = None) -> st.SearchStrategy[bytes]:
    if word is None:
        return st.binary(min_size=octets, max_size=octets).map(lambda body: announced.to_bytes(2) + body)
    # Version, Q bit and reserved bits may be anything: they do not tell tags apart.
    free = st.integers(0, 0xFFFF).map(lambda bits: (bits & 0xF80F) | word)
    body = st.binary(min_size=octets - 2, max_size=octets - 2)
    return st.builds(lambda word, body: announced.to_bytes(2) + word.to_bytes(2) + body, free, body)


VLANS = st.sampled_from([0x8100, 0x88A8, 0x9100]).flatmap(lambda announced: _tag(announced, 2))
CN_TAGS = _tag(0x22E9, 2)
CM_TAGS = _tag(0x88B6, 14, word=0)
E2CM_TAGS = _tag(0x88B6, 14, word=0x200)
RRT_TAGS = _tag(0x88B6, 10, word=0x100)
RD_TAGS = _tag(0x88B6, 8, word=0x300)
TAGS = st.one_of(VLANS, CN_TAGS, CM_TAGS, E2CM_TAGS, RRT_TAGS, RD_TAGS)
ENDS = st.one_of(
    st.sampled_from(
        ["0800", "0026", "0000", "88e7", "22e7", "88b5", "8808", "88b6 0400", "88b6 0010", "88cc"]
    ),
    st.sampled_from(["8100", "22e9", "88b6", "88b6 0000", "88b6 0300", "81", "88", "9100 00"]),
).map(lambda text: bytes.fromhex(text))
ADDRESSES = st.sampled_from([DA, SA, bytes.fromhex("ffffffffffff"), bytes.fromhex("0180c2000001")])


def _stacked(tags: list[bytes], end: bytes, rest: bytes) -> bytes:
    return DA + SA + b"".join(tags) + end + rest


STACKS = st.builds(
    _stacked, st.lists(TAGS, max_size=6), ENDS, st.sampled_from([b"", b"\x45", bytes(7), bytes(46)])
)
ORDINARY = st.builds(
    lambda outer, cn, tags: _stacked([*outer, *cn, *tags], b"\x08\x00", bytes(46)),
    st.lists(VLANS, max_size=2),
    st.lists(CN_TAGS, max_size=1),
    st.lists(st.one_of(CM_TAGS, E2CM_TAGS, RRT_TAGS, RD_TAGS), max_size=1),
)
DEEP = st.builds(
    lambda tags, times, more, end: _stacked([*tags * times, *more], end, bytes(10)),
    st.lists(TAGS, min_size=1, max_size=5),
    st.integers(5, 40),
    st.lists(TAGS, max_size=3),
    ENDS,
)
"""Frames with more tags than some parsers read."""
CUT = st.builds(lambda frame, n: frame[: n % (len(frame) + 1)], st.one_of(STACKS, DEEP), st.integers(0, 999))
ANY = st.one_of(STACKS, ORDINARY, CUT, DEEP, st.binary(max_size=60))
