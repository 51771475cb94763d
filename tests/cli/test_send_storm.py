"""``ecmproto send --storm`` and sequences on a veth pair: received frames, reports, and the release."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.capture.linux.traffic import begun, received
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

EIGHT = {f"prio{p}": 60_000 + p for p in range(8)}
WORDS = ["pfc", *(f"{name}={quanta}" for name, quanta in EIGHT.items())]
HOLD = encode(build(" ".join(WORDS)))
RELEASE = encode(build(" ".join(["pfc", *(f"{name}=0" for name in EIGHT)])))
SLOW = "100M"
"""A slow link speed, at which a pause of 60000 quanta lasts 307 ms, so no frame is too late."""


def rows(text: str) -> dict[str, str]:
    return {line[:11].strip(): line[11:].strip() for line in text.splitlines()}


def seen(receiver: FrameReceiver) -> tuple[list[bytes], list[int]]:
    frames: list[bytes] = []
    times: list[int] = []
    while (batch := receiver.receive()) is not None:
        frames += batch.frames()
        times += batch.time_ns.tolist()
    return frames, times


def test_storm_arrives_octet_for_octet_and_is_released(
    veth: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    with FrameReceiver(FAR) as receiver:
        words = [*WORDS, "--storm", SLOW, "--duration", "500ms", "--renew", "1%"]
        before = time.time_ns()
        assert run(["send", "-i", NEAR, *words, "--color", "never"]) == 0
        frames, times = seen(receiver)
    told = rows(capsys.readouterr().out)
    assert frames == [HOLD] * (len(frames) - 1) + [RELEASE]
    assert told["storm"] == "priorities 0, 1, 2, 3, 4, 5, 6, 7 for 500 ms, by 163 frames"
    assert told["pause"] == "60,000 quanta, 307.2 ms at 100 Mb/s"
    assert told["sent"].startswith(f"{len(frames)} frames, ")
    assert told["paused"].startswith("the whole time: longest gap ")
    assert told["released"] == "at the end"
    assert before + 0.5 * 10**9 <= times[-1]


def test_reported_gaps_bound_the_measured_ones(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with FrameReceiver(FAR) as receiver:
        # The kernel starts to time-stamp frames shortly after the request. Until then, times are the times of
        # reading.
        time.sleep(0.1)
        words = ["pause", "quanta=3000", "--storm", "1G", "--duration", "1s", "-T", "json"]
        code = run(["send", "-i", NEAR, *words])
        frames, times = seen(receiver)
    document = json.loads(capsys.readouterr().out)
    gaps, storm = document["gaps"], document["storm"]
    assert storm["pause_ns"] == gaps["limit_ns"] == 3000 * 512
    assert storm["needed_fps"] == pytest.approx(1e9 / (3000 * 512))
    assert storm["interval_ns"] == 3000 * 256
    assert storm["priorities"] is None
    assert document["released"] is True
    assert document["frames"] == len(frames) >= 1303 + 1 - gaps["skipped"]
    # On a busy machine, a frame's time stamp may be earlier or later than its departure.
    slack = 0.1 * 10**9
    assert document["duration_ns"] == pytest.approx(times[-1] - times[0], abs=slack)
    assert document["rate_fps"] == pytest.approx(1e9 * (len(times) - 1) / document["duration_ns"])
    real = np.diff(times)
    assert real.max() * 0.999 <= gaps["longest_ns"] <= real.max() + slack
    assert gaps["longer"] >= int((real > 1.001 * gaps["limit_ns"]).sum())
    assert code == (1 if gaps["longer"] else 0)


def test_gaps_in_a_storm_are_a_finding(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    # every 0.6 µs: nobody can
    words = ["pause", "quanta=6", "--storm", "2500M", "--duration", "20ms", "--color", "never"]
    assert run(["send", "-i", NEAR, *words]) == 1
    told = capsys.readouterr()
    found = rows(told.out)
    assert re.fullmatch(
        r"not the whole time: (?:once|[\d,]+ times) a gap of more than 1\.229 µs, the longest .*; up to .* "
        r"without pause",
        found["paused"],
    )
    assert "frames that would have been too late" in found["skipped"]
    assert "% of the requested rate" in found["reached"]
    assert ("real-time threads send them" in told.err) is (found["sent by"] == "ordinary threads")


def test_storm_uses_the_interfaces_speed(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "-i", NEAR, "pause", "--duration", "10ms", "-T", "json", "--storm"]) in (0, 1)
    # a veth says 10 Gb/s
    assert json.loads(capsys.readouterr().out)["storm"]["link_bps"] == 10**10


def test_no_release_sends_no_release(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with FrameReceiver(FAR) as receiver:
        words = [*WORDS, "--storm", SLOW, "--duration", "10ms", "--no-release", "--color", "never"]
        assert run(["send", "-i", NEAR, *words]) == 0
        assert seen(receiver)[0] == [HOLD]
    assert rows(capsys.readouterr().out)["released"] == "no: the last pause expires"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["--loop"], ["--duration", "1000s"]])
def test_a_signal_releases_the_pause(veth: Network, number: signal.Signals, words: list[str]) -> None:
    code = "from ecmproto_cli.main import main; main()"
    storm = [*WORDS, "--storm", SLOW, "--renew", "1%", *words]
    with FrameReceiver(FAR) as receiver:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "send", "-i", NEAR, *storm],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        frames = received(receiver, 6)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
        frames += seen(receiver)[0]
    assert process.returncode == 130, err
    assert len(frames) > 5
    assert frames == [HOLD] * (len(frames) - 1) + [RELEASE]
    assert rows(out)["released"] == "at the end"


def test_other_sending_ends_with_its_report_at_sigterm(veth: Network) -> None:
    code = "from ecmproto_cli.main import main; main()"
    with FrameReceiver(FAR) as receiver:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "send", "-i", NEAR, "cnm", "--loop", "--rate", "1000pps"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun(receiver)
        process.terminate()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "sent" in rows(out)


def test_precise_requires_cap_sys_nice(
    veth: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.streams.may_run_ahead", lambda: False)
    words = [*WORDS, "--storm", SLOW, "--duration", "10ms", "--precise"]
    assert run(["send", "-i", NEAR, *words]) == 4
    assert "the capability CAP_SYS_NICE, for real-time priority" in capsys.readouterr().err


def test_precise_restores_the_scheduling_policy(
    veth: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policies: list[int] = []
    monkeypatch.setattr(
        "ecmproto.frames.capture.linux.transmission.Transmission.run",
        lambda *_, **__: policies.append(os.sched_getscheduler(0)),
    )
    before = os.sched_getscheduler(0)
    code = run(["send", "-i", NEAR, "cnm", "--precise"])
    if code == 4:
        assert "the capability CAP_SYS_NICE" in capsys.readouterr().err
        pytest.skip("the kernel grants no realtime scheduling here")
    assert policies == [os.SCHED_RR]
    assert os.sched_getscheduler(0) == before


def test_the_boundary_check_keeps_its_times(veth: Network, tmp_path: Path) -> None:
    words = ["cnd-boundary", "settle=10ms", "rate=1000pps", "src=02:00:00:00:00:55"]
    path = tmp_path / "x.pcapng"
    assert run(["craft", *words, "-w", str(path)]) == 0
    with FrameReceiver(FAR) as receiver:
        before = time.time_ns()
        assert run(["send", "-i", NEAR, *words]) == 0
        frames, times = seen(receiver)
    with open_capture(path) as reader:
        batches = list(reader)
    assert frames == [octets for batch in batches for octets in batch.frames()]
    due = [time_ns for batch in batches for time_ns in batch.time_ns.tolist()]
    assert all(left >= before + time_ns for left, time_ns in zip(times, due, strict=True))


def test_a_flood_arrives_octet_for_octet(veth: Network, tmp_path: Path) -> None:
    words = ["cnm-flood", "flows=0..511", "fb=1..4"]
    path = tmp_path / "x.pcap"
    assert run(["craft", *words, "-w", str(path)]) == 0
    with FrameReceiver(FAR, socket_octets=64 << 20) as receiver:
        assert run(["send", "-i", NEAR, *words, "--rate", "max"]) == 0
        frames = received(receiver, 8192)
    with open_capture(path) as reader:
        assert frames == [octets for batch in reader for octets in batch.frames()]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pfc", "prio3=0", "--storm"], "--storm: expected an enabled time of at least 1 quantum"),
        (["pfc", "--storm", "0"], "storm: expected a link of more than 0 bit/s"),
        (["pfc", "--storm", "10G", "--duration", "0s"], "duration: expected a time of more than 0"),
        (
            ["pfc", "--storm", "10G", "--duration", "99999999999999s"],
            "duration: expected a time of more than 0",
        ),
        (
            ["pfc", "--storm", "10G", "--rate", "5pps"],
            "--storm sets the frames' times itself: expected no --rate",
        ),
        (["pfc", "--storm", "10G", "--rate", "2x"], "expected no --rate"),
        (["-r", "x.pcap", "--storm"], "--storm needs a pause or pfc frame"),
        (["pfc", "--loop", "--duration", "1s", "--storm"], "expected --duration or --loop, got both"),
        (["pfc", "--renew", "0.5"], "--renew needs --storm"),
        (["cnd-bondary"], "did you mean 'cnd-boundary'?"),
        (["cnd-boundary", "cnpv=9"], "cnpv: expected an integer in 0..7, got '9'"),
    ],
)
def test_wrong_arguments_are_refused(
    veth: Network, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["send", "-i", NEAR, *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""


def test_storm_without_known_speed_is_refused(
    veth: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ecmproto.frames.capture.linux.interface.speed_bps", lambda _: None)
    assert run(["send", "-i", NEAR, "pause", "--storm"]) == 2
    assert (
        "storm: expected the link's speed, as in --storm 10G, got near, which reports none"
        in capsys.readouterr().err
    )


def test_a_missing_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "-i", "nera", "pause", "--storm"]) == 4
    assert "did you mean 'near'?" in capsys.readouterr().err
