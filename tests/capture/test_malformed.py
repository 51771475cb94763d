"""Damaged captures: opening raises only CaptureError, and reading neither hangs nor raises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from tests.capture.octets import small_pcap, small_pcapng
from tests.capture.seen import Seen, read

SAMPLES = {"pcap": small_pcap(), "pcapng": small_pcapng()}


def read_damaged(octets: bytes) -> list[Seen]:
    try:
        seen, reader = read(octets, chunk_octets=1 << 12)
    except CaptureError:
        return []
    # Each frame that was read is in the file exactly once.
    assert sum(len(s.record) for s in seen) <= len(octets)
    assert all(len(s.frame) <= len(s.record) for s in seen)
    if reader.problem is not None:
        assert 0 <= reader.problem.offset <= len(octets)
        assert reader.problem.frame == len(seen)
    return seen


@pytest.mark.parametrize("name", SAMPLES)
def test_replacing_any_octet_raises_only_capture_errors(name: str) -> None:
    octets = SAMPLES[name]
    for i in range(len(octets)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, octets[i] ^ 1, octets[i] ^ 0x80}:
            read_damaged(octets[:i] + bytes([value]) + octets[i + 1 :])


@pytest.mark.parametrize("name", SAMPLES)
def test_replacing_any_word_raises_only_capture_errors(name: str) -> None:
    octets = SAMPLES[name]
    for i in range(len(octets) - 3):
        for value in (0, 0xFFFFFFFF, 0xFFFFFFFC, 0x80000000, 0x0FFFFFFF):
            read_damaged(octets[:i] + value.to_bytes(4, "little") + octets[i + 4 :])


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
@settings(max_examples=150)
def test_spliced_captures_raise_only_capture_errors(name: str, data: st.DataObject) -> None:
    octets = SAMPLES[name]
    cut = data.draw(st.integers(0, len(octets)))
    resume = data.draw(st.integers(0, len(octets)))
    read_damaged(octets[:cut] + data.draw(st.binary(max_size=40)) + octets[resume:])


@given(tail=st.binary(max_size=200))
def test_random_octets_after_a_header_are_survived(tail: bytes) -> None:
    for name, header in (("pcap", 24), ("pcapng", 28)):
        read_damaged(SAMPLES[name][:header] + tail)


@given(octets=st.binary(max_size=100))
def test_random_octets_raise_only_capture_errors(octets: bytes) -> None:
    read_damaged(octets)
