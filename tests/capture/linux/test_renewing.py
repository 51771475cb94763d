"""A frame renewed at its interval: what leaves, what is left out, and what is said of the gaps."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.schedule import FrameRate
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.linux.transmission import Refusal, SendReport, Transmission
from tests.capture.linux.traffic import frame
from tests.namespaces import FAR, NEAR, Network

MS = 10**6
HOLD, RELEASE = frame("880800010009"), frame("880800010000")


def seen(receiver: FrameReceiver) -> tuple[list[bytes], np.ndarray]:
    """Return all frames that came, and when."""
    frames: list[bytes] = []
    times: list[int] = []
    while (batch := receiver.receive()) is not None:
        frames += batch.frames()
        times += batch.time_ns.tolist()
    return frames, np.array(times, dtype=np.int64)


@pytest.fixture(autouse=True)
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `check` called behind each frame."""
    monkeypatch.setattr("ecmproto.frames.capture.linux.transmission._LOOK_NS", 0)


def report_of(
    interval_ns: int,
    limit_ns: int,
    until_ns: int,
    *,
    many: bool = False,
    naps: dict[int, float] | None = None,
) -> tuple[SendReport, list[bytes], np.ndarray]:
    """Renew a frame, asleep for some seconds behind frames of some numbers."""
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:

        def check() -> None:
            if naps and sender.sent in naps:
                time.sleep(naps.pop(sender.sent))

        transmission = Transmission(sender, FrameRate(Fraction(10**9, interval_ns)), many=many, check=check)
        batch = Batch.from_frames([HOLD])
        transmission.renew(batch, interval_ns=interval_ns, limit_ns=limit_ns, until_ns=until_ns)
        transmission.end(Batch.from_frames([RELEASE]), due_ns=until_ns)
        report = transmission.report()
        frames, times = seen(receiver)
    return report, frames, times


@pytest.mark.parametrize("many", [False, True])
def test_frames_leave_at_their_interval_and_the_last_ones_at_the_end(veth: Network, many: bool) -> None:
    began = time.time_ns()
    report, frames, times = report_of(2 * MS, 1000 * MS, 100 * MS, many=many)
    assert report.gaps is not None
    assert len(frames) == report.frames == 51 - report.gaps.skipped
    assert frames == [HOLD] * (len(frames) - 1) + [RELEASE]
    assert report.gaps.longer == report.gaps.excess_ns == 0
    assert times[-1] >= began + 100 * MS
    assert report.duration_ns > 0
    assert report.asked_fps == 500


def test_gaps_are_those_that_the_receiver_sees(veth: Network) -> None:
    report, _, times = report_of(2 * MS, 20 * MS, 800 * MS, naps={10: 0.05, 30: 0.07})
    gaps, real = report.gaps, np.diff(times[:-1])
    assert gaps is not None
    assert gaps.limit_ns == 20 * MS
    # the clocks of sender and receiver run alike to 1 in 1000
    assert gaps.longest_ns >= real.max() * 0.999 >= 69 * MS
    assert gaps.longer >= int((real > 20.1 * MS).sum()) >= 2
    assert gaps.excess_ns >= int(np.maximum(real - 20 * MS, 0).sum() * 0.999)
    # a busy machine may take the processor away between the clock and the call
    assert gaps.longest_ns <= real.max() + 100 * MS


def test_what_comes_too_late_is_left_out_and_the_end_is_kept(veth: Network) -> None:
    report, frames, _ = report_of(MS, 500 * MS, 150 * MS, naps={5: 0.1})
    assert report.gaps is not None
    assert report.gaps.skipped >= 95
    assert len(frames) == report.frames == 151 - report.gaps.skipped
    assert frames[-1] == RELEASE
    assert report.reached is not None
    assert report.reached < 0.5, "what was asked and did not leave is missing"


def test_an_interrupt_can_be_ended_at_once(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, FrameSender(NEAR) as sender:

        def check() -> None:
            if sender.sent == 3:
                raise KeyboardInterrupt

        transmission = Transmission(sender, FrameRate(Fraction(100)), check=check)
        with pytest.raises(KeyboardInterrupt):
            transmission.renew(Batch.from_frames([HOLD]), interval_ns=10 * MS, limit_ns=MS, until_ns=None)
        before = transmission.report().gaps
        transmission.end(Batch.from_frames([RELEASE]))
        assert seen(receiver)[0] == [HOLD] * 3 + [RELEASE]
        assert before is not None
        assert before.longer == 2
        assert transmission.report().gaps == before, "the last frame's gap is none"


def test_a_frame_that_is_refused_ends_it(veth: Network) -> None:
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, FrameRate(Fraction(100)))
        transmission.renew(Batch.from_frames([bytes(1600)]), interval_ns=MS, limit_ns=MS, until_ns=None)
    report = transmission.report()
    assert (report.frames, report.refused) == (0, Refusal(frames=1, number=1, octets=1600))


def test_other_transmissions_have_no_gaps(veth: Network) -> None:
    with FrameSender(NEAR) as sender:
        transmission = Transmission(sender, FrameRate(Fraction(10_000)))
        transmission.run([Batch.from_frames([HOLD] * 3)])
        assert transmission.report().gaps is None
