"""Storms whose departure times the kernel keeps: set-up and passed frames, with substitutes for etf and
fq.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from ecmproto.errors import InterfaceError
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.frames.capture.linux.streams import Segment, Stream
from ecmproto.frames.capture.linux.timed_departures import (
    AHEAD_NS,
    TimedSender,
    missed_times,
    time_keeping,
)
from ecmproto_cli.main import run
from tests.capture.linux.test_streams import HOLD, MS, RELEASE
from tests.namespaces import FAR, NEAR, Network

INTERVAL_NS = 2 * MS
STORM = Stream(
    name="storm",
    interface=NEAR,
    segments=(
        Segment(frames=(HOLD,), until_ns=400 * MS, interval_ns=INTERVAL_NS, limit_ns=2 * INTERVAL_NS),
        Segment(frames=(RELEASE,), first_ns=400 * MS),
    ),
)


def tc(known: Sequence[str], ran: list[str], present: str = "0:") -> Any:
    """Return a substitute for tc that has some disciplines and appends its commands to ``ran``."""

    def answer(words: Sequence[str]) -> str:
        ran.append(" ".join(words))
        if "show" in words:
            return json.dumps([{"kind": "htb", "handle": present}])
        if "replace" in words and words[words.index("root") + 1] not in known:
            raise OSError("Error: Specified qdisc kind is unknown.")
        return ""

    return answer


@pytest.mark.parametrize("known", [["etf", "fq"], ["fq"]])
def test_a_queueing_discipline_is_installed_and_removed(known: list[str]) -> None:
    ran: list[str] = []
    with suppress(KeyError), time_keeping("eth7", tc(known, ran)) as kind:
        assert kind == known[0]
        raise KeyError
    put = {"etf": "etf clockid CLOCK_TAI delta 300000", "fq": "fq limit 100000 flow_limit 100000"}
    tried = ["etf"] if "etf" in known else ["etf", "fq"]
    assert ran == [
        "tc -j qdisc show dev eth7 root",
        *(f"tc qdisc replace dev eth7 root {put[name]}" for name in tried),
        "tc qdisc del dev eth7 root",
    ]


def test_an_existing_queueing_discipline_is_not_replaced() -> None:
    ran: list[str] = []
    with (
        pytest.raises(
            InterfaceError, match="its default queueing discipline, to restore it in the end, got htb"
        ),
        time_keeping("eth7", tc(["etf"], ran, "8001:")),
    ):
        pass
    assert len(ran) == 1


def test_a_kernel_without_etf_and_fq_is_reported() -> None:
    with (
        pytest.raises(InterfaceError, match="etf or fq, got Error: Specified qdisc kind is unknown"),
        time_keeping("eth7", tc([], [])),
    ):
        pass


class Handed:
    """A substitute socket that records frames with their times, and reports late frames."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.frames: list[tuple[bytes, int, int]] = []
        self.late: list[int] = []

    def sendmsg(self, octets: list[bytes], ancillary: list[tuple[int, int, bytes]]) -> None:
        ((level, kind, data),) = ancillary
        assert (level, kind, len(data)) == (socket.SOL_SOCKET, 61, 8)
        (at,) = struct.unpack("=Q", data)
        self.frames.append((octets[0], at, at - time.clock_gettime_ns(time.CLOCK_TAI)))
        self._own.sendmsg(octets, ancillary)

    def recvmsg(self, octets: int, room: int, flags: int) -> Any:
        assert flags == socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT
        if not self.late:
            return self._own.recvmsg(octets, room, flags)
        at = self.late.pop()
        error = struct.pack("=IBBBBII", 125, 6, 0, 2, 0, at & 0xFFFFFFFF, at >> 32)
        return b"", [(263, 16, error)], 0, None

    def close(self) -> None:
        self._own.close()


def test_renewals_are_handed_over_ahead_with_their_times(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver, TimedSender([STORM], "etf") as sender:
        options = sender._socket.socket.getsockopt(socket.SOL_SOCKET, 61, 8)
        assert struct.unpack("=iI", options) == (time.CLOCK_TAI, 2), "SO_TXTIME: TAI, errors reported"
        handed: Any = Handed(sender._socket.socket)
        sender._socket.socket = handed
        sender.run()
        report = sender.report().streams[0]
        arrived: list[bytes] = []
        while (batch := receiver.receive()) is not None:
            arrived += batch.frames()
    octets, times, ahead = zip(*handed.frames, strict=True)
    assert arrived == list(octets) == [HOLD] * 200 + [RELEASE]
    assert {after - before for before, after in pairwise(times)} == {INTERVAL_NS}
    assert max(ahead) <= AHEAD_NS + 10 * MS
    assert ahead[0] > 0
    assert (report.frames, report.released, report.gaps.longer, report.gaps.skipped) == (201, True, 0, 0)


def test_late_frames_in_the_error_queue_are_gaps(veth: Network) -> None:
    with TimedSender([STORM], "etf") as sender:
        handed: Any = Handed(sender._socket.socket)
        sender._socket.socket = handed
        sender._start_ns = 10**18
        sender._handed = 200
        handed.late = [10**18 + number * INTERVAL_NS for number in (7, 50, 51, 52, 90, 91)]
        sender._take_errors()
        report = sender.report().streams[0]
    assert report.frames == 194
    # The previous pause covers one missing frame, but not two or three.
    assert (report.gaps.longer, report.gaps.skipped) == (2, 6)
    assert report.gaps.longest_ns == 4 * INTERVAL_NS
    assert report.gaps.excess_ns == (4 - 2 + 3 - 2) * INTERVAL_NS


def test_other_error_queue_messages_are_ignored() -> None:
    assert missed_times([(263, 16, struct.pack("=IBBBBII", 0, 4, 0, 0, 0, 1, 2)), (1, 2, b"")]) == []


def test_the_command_reports_missing_queueing_disciplines(
    veth: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(
        ["send", "-i", NEAR, "pause", "--storm", "1G", "--duration", "100ms", "--timing", "pacing=kernel"]
    )
    told = capsys.readouterr()
    if code == 4:
        assert "the queueing discipline etf or fq" in told.err
    else:
        assert "the kernel's " in told.out
    assert run(["send", "-i", NEAR, "pause", "--timing", "pacing=kernel"]) == 2
