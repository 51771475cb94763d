"""What silenced a device is found among what it was sent, by sending parts of it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.fuzz.device_campaign import FrameFitter, HeartbeatSchedule, Narrowing, Suspect
from tests.fuzz.fake_device import FakeDevice, any_has

FITTING = FrameFitter(longest_octets=1514, longest_tagged_octets=1518)
PULSE = HeartbeatSchedule(every_s=1, retries=0)


def suspects(count: int) -> list[Suspect]:
    return [Suspect(index=100 + i, octets=b"frame %03d" % i + bytes(60)) for i in range(count)]


def narrowed(
    device: FakeDevice,
    *alternatives: Sequence[Suspect],
    tries: int = 2000,
    known: Callable[[bytes], bool] = lambda octets: False,
) -> Narrowing:
    narrowing = Narrowing(device, PULSE, FITTING, tries=tries, known=known)
    narrowing.run(*alternatives)
    return narrowing


@given(st.integers(1, 60), st.data())
def test_the_frames_that_it_takes_are_found(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    wanted = [b"frame %03d" % i for i in needed]

    def dies(frames: Sequence[bytes]) -> bool:
        return all(any(part in octets for octets in frames) for part in wanted)

    narrowing = narrowed(FakeDevice(dies, recovers=True), suspects(count))
    assert sorted(each.index for each in narrowing.least) == sorted(100 + i for i in needed)
    assert narrowing.again == 2
    assert narrowing.told.startswith(f"narrowed down to {len(needed)} frame")


def test_a_frame_alone_is_made_simpler_too() -> None:
    (least,) = narrowed(FakeDevice(any_has(b"017")), suspects(40)).least
    assert least.index == 117
    assert least.octets.rstrip(b"\0") == b"017"
    assert len(least.octets) == 60, "as it is sent"


def test_a_frame_that_is_known_stays_as_it_was() -> None:
    (least,) = narrowed(FakeDevice(any_has(b"017")), suspects(40), known=lambda octets: True).least
    assert least == suspects(40)[17]


def test_each_trial_begins_with_a_device_that_is_alive() -> None:
    deaths = []

    def dies(frames: Sequence[bytes]) -> bool:
        if any_has(b"017")(frames):
            deaths.append(len(frames))
        return bool(frames) and any_has(b"017")(frames)

    device = FakeDevice(dies)
    device.alive = False
    narrowing = narrowed(device, suspects(32))
    assert device.alive
    assert 1_000_000 - device.lives == len(deaths) + 1
    assert narrowing.trials == len(device.sent)
    assert narrowing.frames == sum(map(len, device.sent))


def test_frames_that_do_nothing_by_themselves_are_tried_with_those_before() -> None:
    def dies(frames: Sequence[bytes]) -> bool:
        return any_has(b"003")(frames) and any_has(b"017")(frames)

    narrowing = narrowed(FakeDevice(dies, recovers=True), suspects(20)[10:], suspects(20))
    assert [each.index for each in narrowing.least] == [103, 117]
    # one that cannot be reset keeps what trials leave in it: then all of them
    assert len(narrowed(FakeDevice(dies), suspects(20)).least) == 20
    assert narrowed(FakeDevice(any_has(b"x")), suspects(20), []).told == (
        "sent again, the same frames did not silence it"
    )


def test_what_does_not_happen_every_time_keeps_all_frames() -> None:
    left = [True]

    def dies(frames: Sequence[bytes]) -> bool:
        return left.pop() if left else False

    narrowing = narrowed(FakeDevice(dies), suspects(20))
    assert list(narrowing.least) == suspects(20)
    assert narrowing.told == "it does not happen every time: all frames are kept"


def test_a_device_that_does_not_come_back_leaves_what_is_known() -> None:
    narrowing = narrowed(FakeDevice(any_has(b"017"), lives=3), suspects(32))
    assert narrowing.lost
    assert narrowing.told == "the device did not come back"
    assert 117 in [each.index for each in narrowing.least]
    assert len(narrowing.least) == 8, "the third time that it fell silent"
    device = FakeDevice(any_has(b""), lives=1)
    device.alive = False
    assert narrowed(device, suspects(4)).least == ()
    assert device.sent == []


def test_tries_are_bounded() -> None:
    narrowing = narrowed(FakeDevice(any_has(b"017")), suspects(500), tries=3)
    assert narrowing.trials <= 1 + 3 + 2
    assert 117 in [each.index for each in narrowing.least]
