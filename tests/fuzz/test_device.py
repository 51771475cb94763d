"""When heartbeats are due, when a device is silent, and what an interface can carry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.fuzz.device_campaign import FrameFitter, HeartbeatSchedule
from tests.fuzz.fake_device import FakeDevice


def test_heartbeats_are_due_after_frames_or_time() -> None:
    assert not HeartbeatSchedule(every_frames=10, retries=2).due(9, 1e9)
    assert HeartbeatSchedule(every_frames=10, retries=2).due(10, 0)
    assert not HeartbeatSchedule(every_s=1.5, retries=2).due(10**9, 1.4)
    assert HeartbeatSchedule(every_s=1.5, retries=2).due(0, 1.5)


@given(st.integers(0, 5), st.integers(0, 10))
def test_so_many_heartbeats_may_be_lost(retries: int, lost: int) -> None:
    device = FakeDevice(lambda frames: False)
    device.deaf_beats = lost
    silence = HeartbeatSchedule(every_s=1, retries=retries).silence(device)
    assert silence == ("no answer" if lost > retries else "")
    assert device.beats == min(lost, retries) + 1


@given(st.binary(max_size=120), st.integers(14, 60), st.integers(60, 100))
def test_frames_have_the_least_and_the_greatest_length(octets: bytes, least: int, most: int) -> None:
    fitting = FrameFitter(longest_octets=most, longest_tagged_octets=most + 4, shortest_octets=least)
    frame = fitting.frame(octets)
    limit = most + 4 if octets[12:14] == b"\x81\0" else most
    assert (frame is None) == (len(octets) > limit) == bool(fitting.left_out)
    assert fitting.padded == (frame is not None and len(octets) < least)
    if frame is not None:
        assert frame[: len(octets)] == octets
        assert len(frame) == max(least, len(octets))
        assert not any(frame[len(octets) :])
    assert fitting.fitted(octets) == frame


def test_a_c_tag_may_go_beyond_the_mtu() -> None:
    fitting = FrameFitter(longest_octets=100, longest_tagged_octets=104)
    tagged = bytes(12) + b"\x81\0" + bytes(90)
    assert fitting.frame(tagged) == tagged
    assert fitting.frame(bytes(104)) is None
    assert fitting.frame(tagged + b"1") is None
    assert (fitting.padded, fitting.left_out) == (0, 2)
