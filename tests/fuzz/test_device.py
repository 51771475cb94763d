"""A device at the end of an interface: sent frames, present and missing heartbeats, and recovery."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ecmproto.errors import InterfaceError, ParameterError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.schedule import schedule_of
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.transmission import Transmission
from ecmproto.tools.fuzz.device import Heartbeat, Patience, WiredDevice, heartbeat_of
from tests.capture.linux.traffic import frame, received
from tests.namespaces import FAR, NEAR, Network


def unchecked() -> None:
    """Do not check the waiting time."""


@contextmanager
def heartbeat(text: str) -> Iterator[Heartbeat]:
    with closing(heartbeat_of(text, NEAR, unchecked)) as made:
        yield made


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_running_host_answers_the_echo(veth: Network, address: str) -> None:
    veth.ip("link set lo up")
    with heartbeat(f"ping:{address}") as echo:
        assert [echo.beat(5) for _ in range(3)] == ["", "", ""]
        veth.ip("link set lo down")
        assert echo.beat(0.05).startswith(f"no echo from {address}")


def test_missing_host_gives_no_echo(veth: Network) -> None:
    veth.ip(f"address add 192.0.2.1/24 dev {NEAR}")
    veth.ip(f"link set {NEAR} arp on")
    with heartbeat("ping:192.0.2.2") as echo:
        assert echo.beat(0.05) == "no echo from 192.0.2.2 within 50 ms"


def test_frame_crosses_only_while_link_is_up(veth: Network) -> None:
    with heartbeat(f"frame:{FAR}") as crossing:
        assert [crossing.beat(5) for _ in range(3)] == ["", "", ""]
        veth.ip(f"link set {FAR} down")
        assert crossing.beat(0.05).startswith("no frame at far")
        veth.ip(f"link set {FAR} up")
        until = time.monotonic() + 10
        while crossing.beat(0.1):
            assert time.monotonic() < until


def test_flood_does_not_displace_the_awaited_frame(veth: Network) -> None:
    flood = bytes(6) + b"\2\0\0\0\0\1\x88\xb5" + bytes(1400)
    batch = Batch.from_frames([flood] * 1000)
    with heartbeat(f"frame:{FAR}") as crossing, FrameSender(NEAR) as sender:
        # Including frames that look like tagged frames to the kernel.
        like = bytes(6) + sender.facts.address + b"\x88\xb5" + bytes(1400)
        for each in (batch, Batch.from_frames([like] * 1000)):
            assert sender.send(each.buffer, each.offset, each.captured) == 1000
            assert crossing.beat(1) == ""


def test_removed_interface_is_an_error(veth: Network) -> None:
    with heartbeat(f"frame:{FAR}") as crossing:
        veth.ip(f"link del {FAR}")
        with pytest.raises(InterfaceError, match="its removal while it was in use"):
            crossing.beat(0.05)


def test_exit_status_of_command_is_the_heartbeat(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with heartbeat("command:exit 0") as alive, heartbeat("command:exit 7") as dead:
        assert alive.beat(10) == ""
        assert dead.beat(10) == "'exit 7' exited with 7"
    with heartbeat(f"command:echo $$ > {pid}; sleep 60; true") as slow:
        assert slow.beat(1).endswith("did not end within 1 s")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_waiting_can_be_interrupted(veth: Network) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    veth.ip(f"address add 192.0.2.1/24 dev {NEAR}")
    veth.ip(f"link set {NEAR} arp on")
    for text in ("command:sleep 60", "ping:192.0.2.2"):
        with closing(heartbeat_of(text, NEAR, interrupt)) as made, pytest.raises(KeyboardInterrupt):
            made.beat(60)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pong:192.0.2.1", "expected ping:ADDRESS, frame:INTERFACE or command:CMD, got 'pong:192.0.2.1'"),
        ("ping:", "got 'ping:'"),
        ("192.0.2.1", "got '192.0.2.1'"),
        ("ping:nowhere.invalid", "expected an address that answers echoes, got nowhere.invalid"),
        (f"frame:{NEAR}", "expected an interface other than the sending one, got near"),
    ],
)
def test_mistakes(veth: Network, text: str, told: str) -> None:
    with pytest.raises(ParameterError) as caught:
        heartbeat_of(text, NEAR, unchecked)
    assert told in str(caught.value)


def test_a_missing_interface(veth: Network) -> None:
    with pytest.raises(InterfaceError, match=r"fra: expected a network interface"):
        heartbeat_of("frame:fra", NEAR, unchecked)


FRAMES = [frame("0800", octets) for octets in range(60, 100)]
PATIENCE = Patience(beat_s=0.2, settle_s=0.05, recover_s=10)


@contextmanager
def wired(
    heartbeat: str,
    *,
    recovery: str = "",
    patience: Patience = PATIENCE,
    report: Callable[[str], None] = print,
) -> Iterator[tuple[WiredDevice, Transmission]]:
    with FrameSender(NEAR) as sender:
        sending = Transmission(sender, schedule_of("10kpps"))
        beats = [heartbeat_of(heartbeat, NEAR, lambda: None)] if heartbeat else []
        try:
            yield (
                WiredDevice(sending, NEAR, beats, patience=patience, recovery=recovery, report=report),
                sending,
            )
        finally:
            for each in beats:
                each.close()


def test_rate_excludes_waiting_and_order_is_kept(veth: Network) -> None:
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


def test_device_with_its_link_down_is_silent(veth: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.transmission._PATIENCE_NS", 10_000_000)
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


def test_recovery_is_started_and_awaited(veth: Network, tmp_path: Path) -> None:
    said: list[str] = []
    mark = tmp_path / "alive"
    alive = f"command:test -e {mark}"
    with wired(alive, recovery=f"sleep 0.2; touch {mark}", report=said.append) as (device, _):
        assert device.beat() == f"'test -e {mark}' exited with 1"
        assert device.recover()
        assert (device.beats, device.missed) == (1, 1)
    mark.unlink()
    short = dataclasses.replace(PATIENCE, recover_s=0.3)
    with wired(alive, recovery="exit 9", patience=short, report=said.append) as (device, _):
        assert not device.recover()
        assert not said[0].removeprefix("recovery: 'exit 9' exited with 9")
    with wired(alive, patience=short) as (device, _):
        assert not device.recovers
        assert not device.recover()
