"""A campaign against a device: times of heartbeats, and the search for the frames that silence the device."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import open_capture
from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.device_campaign import (
    DeviceCampaign,
    FrameFitter,
    HeartbeatSchedule,
    Narrowing,
    Suspect,
)
from ecmproto.tools.fuzz.findings import Progress
from ecmproto.tools.fuzz.subjects import template_frames
from ecmproto.wire.codec import CNM, decode_lax
from tests.fuzz.fake_device import FRAME_S, FakeDevice, any_has


def test_heartbeats_are_due_after_frames_or_time() -> None:
    assert not HeartbeatSchedule(every_frames=10, retries=2).due(9, 1e9)
    assert HeartbeatSchedule(every_frames=10, retries=2).due(10, 0)
    assert not HeartbeatSchedule(every_s=1.5, retries=2).due(10**9, 1.4)
    assert HeartbeatSchedule(every_s=1.5, retries=2).due(0, 1.5)


@given(st.integers(0, 5), st.integers(0, 10))
def test_retries_allow_for_lost_heartbeats(retries: int, lost: int) -> None:
    device = FakeDevice(lambda frames: False)
    device.deaf_beats = lost
    silence = HeartbeatSchedule(every_s=1, retries=retries).silence(device)
    assert silence == ("no answer" if lost > retries else "")
    assert device.beats == min(lost, retries) + 1


@given(st.binary(max_size=120), st.integers(14, 60), st.integers(60, 100))
def test_frames_fit_minimum_and_maximum_length(octets: bytes, least: int, most: int) -> None:
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
def test_narrowing_finds_exactly_the_needed_frames(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3))
    wanted = [b"frame %03d" % i for i in needed]

    def dies(frames: Sequence[bytes]) -> bool:
        return all(any(part in octets for octets in frames) for part in wanted)

    narrowing = narrowed(FakeDevice(dies, recovers=True), suspects(count))
    assert sorted(each.index for each in narrowing.reduced) == sorted(100 + i for i in needed)
    assert narrowing.again == 2
    assert narrowing.result_text.startswith(f"narrowed down to {len(needed)} frame")


def test_a_frame_alone_is_made_simpler_too() -> None:
    (least,) = narrowed(FakeDevice(any_has(b"017")), suspects(40)).reduced
    assert least.index == 117
    assert least.octets.rstrip(b"\0") == b"017"
    assert len(least.octets) == 60, "as it is sent"


def test_known_failing_frame_is_not_simplified() -> None:
    (least,) = narrowed(FakeDevice(any_has(b"017")), suspects(40), known=lambda octets: True).reduced
    assert least == suspects(40)[17]


def test_each_trial_begins_with_live_device() -> None:
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


def test_frames_harmless_alone_are_tried_with_predecessors() -> None:
    def dies(frames: Sequence[bytes]) -> bool:
        return any_has(b"003")(frames) and any_has(b"017")(frames)

    narrowing = narrowed(FakeDevice(dies, recovers=True), suspects(20)[10:], suspects(20))
    assert [each.index for each in narrowing.reduced] == [103, 117]
    # A device that cannot be reset keeps the state of earlier trials, so all trials are needed.
    assert len(narrowed(FakeDevice(dies), suspects(20)).reduced) == 20
    assert narrowed(FakeDevice(any_has(b"x")), suspects(20), []).result_text == (
        "sent again, the same frames did not silence it"
    )


def test_irreproducible_failure_keeps_all_frames() -> None:
    left = [True]

    def dies(frames: Sequence[bytes]) -> bool:
        return left.pop() if left else False

    narrowing = narrowed(FakeDevice(dies), suspects(20))
    assert list(narrowing.reduced) == suspects(20)
    assert narrowing.result_text == "it is not reproducible: all frames are stored"


def test_unrecovered_device_leaves_known_suspects() -> None:
    narrowing = narrowed(FakeDevice(any_has(b"017"), lives=3), suspects(32))
    assert narrowing.lost
    assert narrowing.result_text == "the device did not recover"
    assert 117 in [each.index for each in narrowing.reduced]
    assert len(narrowing.reduced) == 8, "the third time that it fell silent"
    device = FakeDevice(any_has(b""), lives=1)
    device.alive = False
    assert narrowed(device, suspects(4)).reduced == ()
    assert device.sent == []


def test_tries_are_bounded() -> None:
    narrowing = narrowed(FakeDevice(any_has(b"017")), suspects(500), tries=3)
    assert narrowing.trials <= 1 + 3 + 2
    assert 117 in [each.index for each in narrowing.reduced]


CASES = Cases(template_frames(), seed=7)
LINE = "send it again"


def lying(octets: bytes) -> bool:
    """Return whether a frame has a CNM whose MSDU length exceeds the frame."""
    cnm = decode_lax(octets).get(CNM)
    return cnm is not None and cnm.msdu_length > len(octets)


def killed_by(indices: Sequence[int]) -> Callable[[Sequence[bytes]], bool]:
    """Return a condition that is true if the frames contain all these cases."""
    wanted = {CASES[index].octets.ljust(60, b"\0") for index in indices}
    return lambda frames: wanted <= set(frames)


def fits() -> FrameFitter:
    return FrameFitter(longest_octets=1514, longest_tagged_octets=1518)


def campaign(
    device: FakeDevice, folder: Path, pulse: HeartbeatSchedule | None = None, **more: Any
) -> DeviceCampaign:
    pulse = pulse or HeartbeatSchedule(every_frames=50, retries=0)
    return DeviceCampaign(
        device, CASES, fits(), folder, pulse=pulse, line=LINE, clock=device.clock, tries=300, **more
    )


def always(progress: Progress) -> bool:
    return True


def fitting_index(start: int) -> int:
    """Return the number of the first case from ``start`` on that can be sent."""
    return next(index for index in range(start, start + 50) if fits().fitted(CASES[index].octets))


def test_cases_are_sent_in_order(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: False)
    made = campaign(device, tmp_path)
    assert list(made.run(always, max_cases=420)) == []
    frames = [fits().fitted(CASES[index].octets) for index in range(420)]
    assert [octets for sent in device.sent for octets in sent] == [each for each in frames if each]
    assert len(device.sent) == device.beats == 9
    assert (made.progress.index, made.progress.runs, made.progress.failures) == (420, 9, 0)


def test_heartbeats_by_time(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: False)
    list(
        campaign(device, tmp_path, HeartbeatSchedule(every_s=100 * FRAME_S, retries=2)).run(
            always, max_cases=1000
        )
    )
    assert len(device.sent) == pytest.approx(9, abs=1)
    assert all(len(sent) >= 100 for sent in device.sent[:-1])


def test_killing_frame_is_reduced_and_stored(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: any(map(lying, frames)))
    said: list[str] = []
    made = campaign(device, tmp_path, report=said.append)
    (found,) = made.run(lambda progress: not made.findings)
    (octets,) = found.frames
    assert lying(octets)
    assert lying(CASES[found.index].octets)
    assert found.outcome.signature == "after eth cnm"
    start = found.index // 50 * 50
    assert said == [f"no answer after cases {start} to {start + 49}: narrowing down what silenced it"]
    lines = found.outcome.output.splitlines()
    assert lines[0] == f"no answer after cases {start} to {start + 49} of seed 7"
    assert lines[1].startswith("narrowed down to 1 frame by ")
    assert lines[1].endswith("silent 2 of 2 times again")
    assert lines[2] == f"case {found.index}: {', '.join(CASES[found.index].mutations)}"
    folder = tmp_path / "findings" / found.name
    assert (folder / "reproduce.sh").read_text() == LINE + "\n"
    assert json.loads((folder / "finding.json").read_text())["kind"] == "silence"
    with open_capture(str(folder / "case.pcap")) as reader:
        assert [frame for batch in reader for frame in batch.frames()] == [octets]
    assert made.progress.index == start + 50
    assert made.trials > 0
    assert made.trial_frames >= made.trials


def test_campaign_continues_and_counts_known_failures(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: any(map(lying, frames)))
    first = campaign(device, tmp_path)
    next(first.run(always))
    again = campaign(device, tmp_path)
    index = again.progress.index
    assert index == first.progress.index
    device.sent.clear()
    assert list(again.run(always, max_cases=600)) == []
    assert device.sent[0][0] == fits().fitted(CASES[fitting_index(index)].octets)
    (found,) = again.findings.values()
    assert found.count == 1 + again.progress.failures - first.progress.failures
    assert found.count > 1


def test_frames_before_the_last_heartbeat_are_suspects(tmp_path: Path) -> None:
    indices = (fitting_index(120), fitting_index(230))
    made = campaign(FakeDevice(killed_by(indices), recovers=True), tmp_path)
    (found,) = made.run(always, max_cases=300)
    assert len(found.frames) == 2
    assert found.index == indices[0]
    assert found.outcome.signature.startswith("after 2 frames, the last eth")
    assert f"case {indices[1]}: " in found.outcome.output


def test_irreproducible_silence_stores_all_suspects(tmp_path: Path) -> None:
    times = [True]

    def dies(frames: Sequence[bytes]) -> bool:
        return len(frames) > 70 and bool(times) and times.pop()

    made = campaign(FakeDevice(dies), tmp_path)
    (found,) = made.run(always, max_cases=300)
    assert found.outcome.signature == "after one of cases 50 to 99 of seed 7"
    frames = [fits().fitted(CASES[index].octets) for index in range(50, 100)]
    assert list(found.frames) == [each for each in frames if each]
    assert made.progress.index == 300, "it went on"
    assert "sent again, the same frames did not silence it" in found.outcome.output


def test_silent_device_ends_campaign_without_losing_frames(tmp_path: Path) -> None:
    index = fitting_index(70)
    device = FakeDevice(killed_by([index]), lives=1)
    made = campaign(device, tmp_path)
    (found,) = made.run(always, max_cases=300)
    assert made.lost
    assert "the device did not recover" in found.outcome.output
    assert fits().fitted(CASES[index].octets) in found.frames
    device.lives, device.alive = 100, True
    again = campaign(device, tmp_path)
    assert again.progress.index == 100
    assert list(again.run(always, max_cases=100)) == []
    assert not again.lost


def test_interrupted_campaign_resumes_after_last_heartbeat(tmp_path: Path) -> None:
    def going_on(progress: Progress) -> bool:
        if device.beats == 3 and len(device.sent) == 4:
            raise KeyboardInterrupt
        return True

    device = FakeDevice(lambda frames: False)
    with pytest.raises(KeyboardInterrupt):
        list(campaign(device, tmp_path).run(going_on))
    assert campaign(device, tmp_path).progress.index == 150


def test_interrupted_narrowing_stores_its_suspects(tmp_path: Path) -> None:
    class Interrupted(FakeDevice):
        def settle(self) -> None:
            if self.lives < 999_998:
                raise KeyboardInterrupt

    made = campaign(Interrupted(lambda frames: any(map(lying, frames))), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        list(made.run(always))
    (found,) = campaign(FakeDevice(lambda frames: False), tmp_path).findings.values()
    assert any(map(lying, found.frames))
    assert "interrupted while it was narrowed down" in found.outcome.output


def test_octets_may_come_from_another_source(tmp_path: Path) -> None:
    def octets_from(index: int) -> Iterator[bytes]:
        while True:
            yield index.to_bytes(60, "big")
            index += 1

    device = FakeDevice(lambda frames: False)
    list(campaign(device, tmp_path, octets_from=octets_from).run(always, max_cases=70))
    assert device.got == [index.to_bytes(60, "big") for index in range(70)]
