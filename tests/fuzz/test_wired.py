"""A device at the end of an interface: what is sent, what it is asked, how it is brought back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ecmproto.capture.linux.receiver import FrameReceiver
from ecmproto.capture.linux.schedule import schedule_of
from ecmproto.capture.linux.sender import FrameSender, Transmission
from ecmproto.errors import InterfaceError
from ecmproto.fuzz.device import Patience, WiredDevice, heartbeat_of
from tests.capture.linux.traffic import frame, received
from tests.namespaces import FAR, NEAR, Network

FRAMES = [frame("0800", octets) for octets in range(60, 100)]
PATIENCE = Patience(beat_s=0.2, settle_s=0.05, recover_s=10)


@contextmanager
def wired(
    heartbeat: str, *, recovery: str = "", patience: Patience = PATIENCE, say: Callable[[str], None] = print
) -> Iterator[tuple[WiredDevice, Transmission]]:
    with FrameSender(NEAR) as sender:
        sending = Transmission(sender, schedule_of(rate="10kpps"))
        beats = [heartbeat_of(heartbeat, NEAR, lambda: None)] if heartbeat else []
        try:
            yield WiredDevice(sending, NEAR, beats, patience=patience, recovery=recovery, say=say), sending
        finally:
            for each in beats:
                each.close()


def test_frames_leave_in_order_and_waiting_is_no_part_of_their_rate(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, wired(f"frame:{FAR}") as (device, sending):
        for _ in range(3):
            device.send(FRAMES)
            device.settle()
        assert received(receiver, 120) == FRAMES * 3
        assert sending.report().frames == 120
        assert sending.rested_ns >= 90_000_000
        assert device.beat() == ""
        assert (device.beats, device.missed) == (1, 0)


def test_nothing_is_waited_for_without_heartbeats(veth: Network) -> None:
    with wired("") as (device, sending):
        device.send(FRAMES)
        device.settle()
        assert device.beat() == ""
        device.send(FRAMES)
        assert sending.rested_ns == 0
        assert (device.beats, device.missed) == (0, 0)


def test_a_device_that_takes_its_link_down_is_silent(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecmproto.capture.linux.sender._PATIENCE_NS", 10_000_000)
    recovery = f"ip link set {NEAR} up"
    with FrameReceiver(FAR) as receiver, wired(f"frame:{FAR}", recovery=recovery) as (device, sending):
        device.send(FRAMES)
        veth.ip(f"link set {NEAR} down")
        device.send(FRAMES)
        device.send(FRAMES)
        assert sending.report().frames == len(FRAMES)
        assert device.beat().startswith("no frame at far: ")
        assert device.recovers
        assert device.recover()
        while receiver.receive() is not None:
            pass
        device.send(FRAMES)
        assert received(receiver, len(FRAMES)) == FRAMES
    with wired("") as (device, _):
        veth.ip(f"link set {NEAR} down")
        with pytest.raises(InterfaceError, match="a link that stayed down"):
            device.send(FRAMES)


def test_recovery_is_tried_and_waited_for(veth: Network, tmp_path: Path) -> None:
    said: list[str] = []
    mark = tmp_path / "alive"
    alive = f"command:test -e {mark}"
    with wired(alive, recovery=f"sleep 0.2; touch {mark}", say=said.append) as (device, _):
        assert device.beat() == f"'test -e {mark}' exited with 1"
        assert device.recover()
        assert (device.beats, device.missed) == (1, 1)
    mark.unlink()
    short = dataclasses.replace(PATIENCE, recover_s=0.3)
    with wired(alive, recovery="exit 9", patience=short, say=said.append) as (device, _):
        assert not device.recover()
        assert not said[0].removeprefix("recovery: 'exit 9' exited with 9")
    with wired(alive, patience=short) as (device, _):
        assert not device.recovers
        assert not device.recover()
