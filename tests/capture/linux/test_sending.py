"""Sending: sent frames, refused frames, and reports."""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.interface import interface_facts
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.schedule import schedule_of
from ecmproto.frames.capture.linux.sender import FrameSender, Messages
from ecmproto.frames.capture.linux.transmission import Refusal, Transmission
from tests.capture.linux.traffic import TAGGED, eventually, frame, random_frames, received
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network


def refused(mtu: int, octets: int, head: str = "0800") -> bool:
    """Return whether a frame of this length is refused, and assert that the prediction and the kernel
    agree.
    """
    batch = Batch.from_frames([frame(head, octets) if octets >= 20 else bytes(octets)])
    with FrameSender(NEAR) as sender:
        assert sender.facts.mtu_octets == mtu
        predicted = bool(sender.unsendable(batch.buffer, batch.offset, batch.captured)[0])
        assert sender.send(batch.buffer, batch.offset, batch.captured) == 1
        assert (sender.sent, sender.refused) == ((0, 1) if predicted else (1, 0))
    return predicted


@pytest.mark.parametrize("mtu", [1500, 1600, 100])
@pytest.mark.parametrize(
    "head", ["0800", "8100600a0800", "88a8600a0800", "8100600a8100600a0800", "22e900010800"]
)
def test_longest_frame_equals_the_kernels_limit(veth: Network, mtu: int, head: str) -> None:
    for name in (NEAR, FAR):
        veth.ip(f"link set {name} mtu {mtu}")
    extra = 4 if head.startswith("8100") else 0
    assert not refused(mtu, mtu + 14 + extra, head)
    assert refused(mtu, mtu + 15 + extra, head)


def test_frames_without_complete_header_are_refused(veth: Network) -> None:
    assert not refused(1500, 14)
    assert refused(1500, 13)
    assert refused(1500, 1)


def test_refused_frames_do_not_stop_the_others(veth: Network) -> None:
    good = [frame(head) for head in TAGGED.values()]
    frames = [good[0], bytes(3), *good[1:5], bytes(2000), bytes(2001), *good[5:], bytes(1)]
    batch = Batch.from_frames(frames)
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:
        assert sender.send(batch.buffer, batch.offset, batch.captured) == len(frames)
        assert (sender.sent, sender.refused) == (len(good), 4)
        assert received(receiver, len(good)) == good


def test_large_batches_take_several_calls(veth: Network) -> None:
    frames = random_frames(5000, 3)
    batch = Batch.from_frames(frames)
    with FrameReceiver(FAR, socket_octets=64 << 20) as receiver, FrameSender(NEAR) as sender:
        assert sender.send(batch.buffer, batch.offset, batch.captured) == len(frames)
        assert received(receiver, len(frames)) == frames


def narrow(veth: Network) -> None:
    """Limit the rate and the queue of the sending interface."""
    command = veth.command("tc", *f"qdisc add dev {NEAR} root tbf rate 8mbit burst 3000 limit 6000".split())
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the kernel has no token bucket filter (sch_tbf)")


def test_frames_after_a_full_queue_can_be_retried(veth: Network) -> None:
    narrow(veth)
    frames = [frame("0800", 1000)[:-2] + number.to_bytes(2) for number in range(50)]
    batch = Batch.from_frames(frames)
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:
        done = sender.send(batch.buffer, batch.offset, batch.captured)
        assert 0 < done < len(frames)
        assert (sender.sent, sender.full) == (done, 1)
        until = time.monotonic() + PATIENCE_S
        while done < len(frames) and time.monotonic() < until:
            done += sender.send(batch.buffer, batch.offset[done:], batch.captured[done:])
        assert received(receiver, len(frames)) == frames
        assert sender.sent == len(frames)


@pytest.mark.parametrize("many", [False, True])
def test_a_transmission_waits_for_room(veth: Network, many: bool) -> None:
    narrow(veth)
    frames = [frame("0800", 1000)[:-2] + number.to_bytes(2) for number in range(100)]
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("max"), many=many)
        transmission.run([Batch.from_frames(frames)])
        assert received(receiver, len(frames)) == frames
    report = transmission.report()
    assert (report.frames, report.octets) == (100, 100_000)
    assert report.full > 0
    assert report.rate_bps is not None
    assert report.rate_bps < 12_000_000, "what was reached, not what was handed over"


def test_bypassing_avoids_the_queueing_discipline(veth: Network) -> None:
    narrow(veth)
    frames = [frame("0800", 1000)] * 50
    batch = Batch.from_frames(frames)
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR, bypass_queues=True) as sender:
        assert sender.bypasses
        assert sender.send(batch.buffer, batch.offset, batch.captured) == 50
        assert received(receiver, 50) == frames


@pytest.mark.parametrize("many", [False, True])
def test_no_frame_leaves_before_its_time(veth: Network, many: bool) -> None:
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("500pps"), many=many)
        before = time.time_ns()
        transmission.run([Batch.from_frames([frame("0800")] * 50)])
        after = time.time_ns()
        batch = receiver.receive()
    assert batch is not None
    assert len(batch) == 50
    assert (batch.time_ns >= before + 2_000_000 * batch.numbers).all()
    report = transmission.report()
    assert 0 < report.duration_ns <= after - before
    assert report.rate_fps == 49 * 10**9 / report.duration_ns
    assert report.rate_bps == report.rate_fps * 8 * (64 + 24)
    assert report.asked_fps == 500
    assert report.reached == report.rate_fps / 500
    assert report.jitter is not None
    assert 0 <= report.jitter.p50_ns <= report.jitter.p99_ns <= report.jitter.max_ns <= after - before


@pytest.mark.parametrize("many", [False, True])
def test_report_contains_the_first_refused_frame(veth: Network, many: bool) -> None:
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of(), many=many)
        transmission.run(
            [
                Batch.from_frames([frame("0800")] * 3),
                Batch.from_frames([frame("0800"), bytes(1600), bytes(1700)], first=3),
                Batch.from_frames([bytes(1800)], first=6),
            ]
        )
    report = transmission.report()
    assert report.frames == 4
    assert report.refused == Refusal(frames=3, number=5, octets=1600)


def test_rate_without_frames_is_none(veth: Network) -> None:
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("1G"))
        transmission.run([])
        report = transmission.report()
    assert (report.frames, report.duration_ns, report.rate_fps, report.rate_bps) == (0, 0, None, None)
    assert report.jitter is None
    assert report.reached is None


@pytest.mark.parametrize("many", [False, True])
def test_sending_waits_for_a_returning_link(veth: Network, many: bool) -> None:
    with FrameSender(NEAR) as sender:
        veth.ip(f"link set {NEAR} down")
        timer = threading.Timer(0.2, veth.ip, [f"link set {NEAR} up"])
        timer.start()
        transmission = Transmission(sender, schedule_of("max"), many=many)
        transmission.run([Batch.from_frames([frame("0800")] * 3)])
        timer.join()
    assert transmission.report().frames == 3
    assert transmission.report().down > 0


@pytest.mark.parametrize("many", [False, True])
def test_a_link_that_stays_down_is_an_error(
    veth: Network, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.transmission._PATIENCE_NS", 50_000_000)
    with FrameSender(NEAR) as sender:
        veth.ip(f"link set {NEAR} down")
        transmission = Transmission(sender, schedule_of("max"), many=many)
        with pytest.raises(InterfaceError, match="a link that stayed down"):
            transmission.run([Batch.from_frames([frame("0800")])])
        assert transmission.report().frames == 0


@pytest.mark.parametrize("many", [False, True])
def test_frames_refused_by_the_peer_are_an_error(
    veth: Network, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.transmission._PATIENCE_NS", 50_000_000)
    veth.ip(f"link set {NEAR} mtu 1600")
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("max"), many=many)
        with pytest.raises(InterfaceError, match=r"no space for a frame for 5 s .*has a smaller MTU"):
            transmission.run([Batch.from_frames([frame("0800"), frame("0800", 1600)])])
        assert transmission.report().frames == 1


def test_removing_the_interface_is_an_error(veth: Network) -> None:
    batch = Batch.from_frames([frame("0800")])
    with FrameSender(NEAR) as sender:
        veth.ip(f"link del {NEAR}")

        def gone() -> bool:
            with pytest.raises(InterfaceError, match="its removal while it was in use"):
                sender.send(batch.buffer, batch.offset, batch.captured)
            return True

        assert eventually(gone)
    with pytest.raises(InterfaceError, match="none of that name"):
        FrameSender(NEAR)


@pytest.mark.parametrize("many", [False, True])
def test_an_interrupted_transmission_has_a_report(veth: Network, many: bool) -> None:
    def check() -> None:
        if sender.sent >= 10:
            raise KeyboardInterrupt

    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("1000pps"), many=many, check=check)
        with pytest.raises(KeyboardInterrupt):
            transmission.run([Batch.from_frames([frame("0800")] * 1000)])
    assert 10 <= transmission.report().frames < 1000


def test_a_pause_forgets_earlier_lateness(veth: Network) -> None:
    def starved() -> Iterator[Batch]:
        yield Batch.from_frames([frame("0800")])
        time.sleep(0.1)
        yield Batch.from_frames([frame("0800")])

    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("1kpps"))
        transmission.run(starved())
        for _ in range(400):
            transmission.rest()
            transmission.run([Batch.from_frames([frame("0800")])])
        report = transmission.report()
    assert report.jitter is not None
    assert report.jitter.max_ns >= 90_000_000
    assert report.jitter.p99_ns < 90_000_000, "one frame was late"
    assert report.duration_ns >= 400_000_000 + 90_000_000, "which its rate knows"


def test_pauses_between_runs_do_not_count(veth: Network) -> None:
    frames = [frame("0800")] * 10
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("1kpps"))
        transmission.rest()
        began = time.perf_counter_ns()
        for _ in range(3):
            transmission.run([Batch.from_frames(frames)])
            time.sleep(0.2)
            transmission.rest()
        ended = time.perf_counter_ns()
        report = transmission.report()
        times = []
        while (batch := receiver.receive()) is not None:
            times += batch.time_ns.tolist()
    assert len(times) == report.frames == 30
    # the two rests in between, but for the distance that the frames have in any case
    assert transmission.rested_ns >= 2 * 190_000_000
    assert 28_000_000 < report.duration_ns <= ended - began - transmission.rested_ns
    assert times[10] - times[9] > 190_000_000
    assert times[19] - times[10] > 2_000_000


class SlowMachine:
    """A simulated clock and sender: a clock reading takes 100 ns, a frame 2 µs, and the 50th call 1 ms
    longer.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.calls: list[tuple[int, int]] = []
        self.sent = self.octets = self.full = self.down = 0
        self.facts = interface_facts("lo")
        self.messages = Messages(1024)

    def perf_counter_ns(self) -> int:
        self.now_ns += 100
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)

    def unsendable(self, buffer: object, offset: object, captured: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.zeros(len(captured), np.bool_)

    def take(self, first: int, count: int) -> tuple[int, int]:
        self.calls.append((self.now_ns, count))
        self.now_ns += 2_000 * count + (1_000_000 if len(self.calls) == 50 else 0)
        self.sent += count
        return count, 0


@pytest.mark.parametrize("even", [False, True])
def test_even_pacing_never_sends_bursts(even: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    machine: Any = SlowMachine()
    for module in ("departures", "transmission"):
        monkeypatch.setattr(f"ecmproto.frames.capture.linux.{module}.time", machine)
    transmission = Transmission(machine, schedule_of("100kpps"), even=even)
    transmission.run([Batch.from_frames([bytes(60)] * 1000)] * 2)
    times = [now_ns for now_ns, _ in machine.calls]
    apart = [later - earlier for earlier, later in itertools.pairwise(times)]
    report = transmission.report()
    assert report.spacing is not None
    assert report.spacing.max_ns >= 1_000_000
    if even:
        assert {count for _, count in machine.calls} == {1}
        assert min(apart) >= 10_000 * 7 // 8
        assert abs(report.spacing.p50_ns - 10_000) <= 200
        assert report.reached is not None
        assert 0.94 < report.reached < 0.96, "the millisecond is not made up for, and nothing else is lost"
    else:
        assert max(count for _, count in machine.calls) == 64
        assert report.reached is not None
        assert report.reached > 0.99


def test_spacing_of_departures_excludes_pauses(veth: Network) -> None:
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, schedule_of("1kpps"))
        transmission.run([Batch.from_frames([frame("0800")])])
        assert transmission.report().spacing is None
        transmission.rest()
        time.sleep(0.3)
        transmission.run([Batch.from_frames([frame("0800")] * 100)])
        report = transmission.report()
    assert report.spacing is not None
    assert 0 < report.spacing.p50_ns <= report.spacing.p99_ns <= report.spacing.max_ns
    assert report.spacing.p50_ns < 300_000_000
