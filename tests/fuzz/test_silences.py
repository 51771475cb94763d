"""A campaign against a device finds the frames that silence it, keeps them, and goes on later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ecmproto.capture import open_capture
from ecmproto.codec import CNM, decode_lax
from ecmproto.fuzz.cases import Cases
from ecmproto.fuzz.device_campaign import DeviceCampaign, FrameFitter, HeartbeatSchedule
from ecmproto.fuzz.findings import Progress
from ecmproto.fuzz.subjects import template_frames
from tests.fuzz.fake_device import FRAME_S, FakeDevice

CASES = Cases(template_frames(), seed=7)
LINE = "send it again"


def lying(octets: bytes) -> bool:
    """Whether it has a CNM whose MSDU is longer than the frame has octets for."""
    cnm = decode_lax(octets).get(CNM)
    return cnm is not None and cnm.msdu_length > len(octets)


def killed_by(indices: Sequence[int]) -> Callable[[Sequence[bytes]], bool]:
    """Return what holds of frames with all of these cases among them."""
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
    """Return the number of a case that can be sent, from ``start`` on."""
    return next(index for index in range(start, start + 50) if fits().fitted(CASES[index].octets))


def test_what_is_sent_are_the_cases_in_order(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: False)
    made = campaign(device, tmp_path)
    assert list(made.run(always, most_cases=420)) == []
    frames = [fits().fitted(CASES[index].octets) for index in range(420)]
    assert [octets for stretch in device.sent for octets in stretch] == [each for each in frames if each]
    assert len(device.sent) == device.beats == 9
    assert (made.progress.index, made.progress.runs, made.progress.failures) == (420, 9, 0)


def test_heartbeats_by_time(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: False)
    list(
        campaign(device, tmp_path, HeartbeatSchedule(every_s=100 * FRAME_S, retries=2)).run(
            always, most_cases=1000
        )
    )
    assert len(device.sent) == pytest.approx(9, abs=1)
    assert all(len(stretch) >= 100 for stretch in device.sent[:-1])


def test_the_frame_that_kills_is_found_reduced_and_kept(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: any(map(lying, frames)))
    said: list[str] = []
    made = campaign(device, tmp_path, say=said.append)
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


def test_a_campaign_goes_on_and_counts_what_it_knows(tmp_path: Path) -> None:
    device = FakeDevice(lambda frames: any(map(lying, frames)))
    first = campaign(device, tmp_path)
    next(first.run(always))
    again = campaign(device, tmp_path)
    index = again.progress.index
    assert index == first.progress.index
    device.sent.clear()
    assert list(again.run(always, most_cases=3000)) == []
    assert device.sent[0][0] == fits().fitted(CASES[fitting_index(index)].octets)
    (found,) = again.findings.values()
    assert found.count == 1 + again.progress.failures - first.progress.failures
    assert found.count > 1


def test_frames_of_an_earlier_stretch_are_suspects_too(tmp_path: Path) -> None:
    indices = (fitting_index(120), fitting_index(230))
    made = campaign(FakeDevice(killed_by(indices), recovers=True), tmp_path)
    (found,) = made.run(always, most_cases=300)
    assert len(found.frames) == 2
    assert found.index == indices[0]
    assert found.outcome.signature.startswith("after 2 frames, the last eth")
    assert f"case {indices[1]}: " in found.outcome.output


def test_what_cannot_be_seen_again_leaves_the_suspects(tmp_path: Path) -> None:
    times = [True]

    def dies(frames: Sequence[bytes]) -> bool:
        return len(frames) > 70 and bool(times) and times.pop()

    made = campaign(FakeDevice(dies), tmp_path)
    (found,) = made.run(always, most_cases=300)
    assert found.outcome.signature == "after one of cases 50 to 99 of seed 7"
    frames = [fits().fitted(CASES[index].octets) for index in range(50, 100)]
    assert list(found.frames) == [each for each in frames if each]
    assert made.progress.index == 300, "it went on"
    assert "sent again, the same frames did not silence it" in found.outcome.output


def test_a_device_that_stays_silent_ends_it_and_loses_nothing(tmp_path: Path) -> None:
    index = fitting_index(70)
    device = FakeDevice(killed_by([index]), lives=1)
    made = campaign(device, tmp_path)
    (found,) = made.run(always, most_cases=300)
    assert made.lost
    assert "the device did not come back" in found.outcome.output
    assert fits().fitted(CASES[index].octets) in found.frames
    device.lives, device.alive = 100, True
    again = campaign(device, tmp_path)
    assert again.progress.index == 100
    assert list(again.run(always, most_cases=100)) == []
    assert not again.lost


def test_an_interrupt_keeps_what_was_asked_after(tmp_path: Path) -> None:
    def going_on(progress: Progress) -> bool:
        if device.beats == 3 and len(device.sent) == 4:
            raise KeyboardInterrupt
        return True

    device = FakeDevice(lambda frames: False)
    with pytest.raises(KeyboardInterrupt):
        list(campaign(device, tmp_path).run(going_on))
    assert campaign(device, tmp_path).progress.index == 150


def test_an_interrupt_while_narrowing_keeps_what_is_known(tmp_path: Path) -> None:
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


def test_octets_may_be_made_elsewhere(tmp_path: Path) -> None:
    def octets_from(index: int) -> Iterator[bytes]:
        while True:
            yield index.to_bytes(60, "big")
            index += 1

    device = FakeDevice(lambda frames: False)
    list(campaign(device, tmp_path, octets_from=octets_from).run(always, most_cases=70))
    assert device.got == [index.to_bytes(60, "big") for index in range(70)]
