"""``ecmproto send`` as users run the command."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.capture.linux.traffic import TAGGED, frame, received
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

FRAMES = [frame(head) for head in TAGGED.values()]
CNM = encode(build("cnm", qntz_fb=40, flow_id=7, vlan=5, prio=3))


def capture(path: Path, frames: list[bytes], every_ns: int = 0) -> str:
    with PcapWriter(path) as writer:
        for number, octets in enumerate(frames):
            writer.write_frame(octets, 10**18 + number * every_ns)
    return str(path)


def test_frames_of_a_capture_arrive(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = capture(tmp_path / "in.pcap", FRAMES, 1000)
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", path]) == 0
        assert received(receiver, len(FRAMES)) == FRAMES
        assert receiver.receive() is None
    told = capsys.readouterr()
    lines = dict(line.split(None, 1) for line in told.out.splitlines())
    assert lines["sent"] == f"{len(FRAMES)} frames, 704 B from near"
    assert lines["requested"] == "the capture's times × 1"
    assert list(lines) == ["sent", "requested", "reached", "time", "jitter", "spacing"]
    assert told.err == ""


def test_a_line_is_sent_as_craft_builds_it(veth: Network) -> None:
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "cnm", "qntz_fb=40", "flow_id=7", "--vlan", "5", "--prio", "3"]) == 0
        assert received(receiver, 1) == [CNM]


def test_a_sweep_starts_over_until_the_count(veth: Network) -> None:
    words = ["cnm", "--sweep", "qntz_fb=0..2", "--count", "7", "--rate", "max"]
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, *words]) == 0
        assert received(receiver, 7) == [encode(build("cnm", qntz_fb=i % 3)) for i in range(7)]
        assert receiver.receive() is None


def test_random_frames_follow_from_the_seed(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cnm", "--sweep", "cpid=random:3", "--count", "6"]
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, *words]) == 0
        first = received(receiver, 6)
        seed = capsys.readouterr().err.split()[-1]
        assert run(["send", "-i", NEAR, *words, "--seed", seed]) == 0
        assert received(receiver, 6) == first
        assert first[:3] == first[3:], "each time round the same ones"


def test_a_specification_is_sent(veth: Network, tmp_path: Path) -> None:
    (tmp_path / "frames.toml").write_text(
        '[[frames]]\nframe = "cnm qntz_fb=5"\ncount = 2\n', encoding="utf-8"
    )
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "--spec", str(tmp_path / "frames.toml")]) == 0
        assert received(receiver, 2) == [encode(build("cnm", qntz_fb=5))] * 2


def test_a_capture_starts_over_until_the_count(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = capture(tmp_path / "in.pcap", FRAMES[:3])
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", path, "--count", "8", "--rate", "5kpps", "-T", "json"]) == 0
        assert received(receiver, 8) == (FRAMES[:3] * 3)[:8]
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "ecmproto/send/1"
    assert (document["frames"], document["octets"], document["asked_fps"]) == (8, 8 * 64, 5000)
    assert document["duration_ns"] >= 0.9 * 7 * 200_000
    assert document["rate_fps"] == pytest.approx(7e9 / document["duration_ns"])
    assert document["jitter"]["p50_ns"] <= document["jitter"]["max_ns"]


def test_only_ethernet_frames_of_pcapng_are_sent(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.pcapng"
    interfaces = [Interface(index=0, linktype=1), Interface(index=1, linktype=101)]
    with PcapngWriter(path, interfaces=interfaces) as writer:
        writer.write_frame(FRAMES[0], 1)
        writer.write_frame(b"E" * 40, 2, interface=1)
        writer.write_frame(FRAMES[1][:60], 3, original=64)
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", str(path)]) == 0
        assert received(receiver, 2) == [FRAMES[0], FRAMES[1][:60]]
    told = capsys.readouterr().err
    assert "1 frame of other link types than Ethernet not sent" in told
    assert "1 frame truncated by the capture, sent with the captured octets only" in told


def test_frames_refused_by_the_interface_are_named(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = capture(tmp_path / "in.pcap", [FRAMES[0], bytes(1600), FRAMES[1], bytes(5)])
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", path]) == 1
        assert received(receiver, 2) == FRAMES[:2]
    told = capsys.readouterr()
    assert told.err == (
        "ecmproto: warning: 2 frames not sent: longer than the MTU of near (1500) or shorter than a header; "
        "the first is frame 2 of 1,600 octets\n"
    )
    assert "refused    2 frames" in told.out


@pytest.mark.parametrize("words", [["cnm", "--count", "0"], ["data", "data=" + "00" * 1600]])
def test_sending_no_frame_fails(veth: Network, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "-i", NEAR, *words]) == 1
    assert "ecmproto: no frame was sent\n" in capsys.readouterr().err


def test_an_empty_capture_sends_nothing(veth: Network, tmp_path: Path) -> None:
    path = capture(tmp_path / "in.pcap", [])
    assert run(["send", "-i", NEAR, "-r", path]) == 1
    assert run(["send", "-i", NEAR, "-r", path, "--loop"]) == 1


def test_a_truncated_capture_is_sent_until_its_end(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(capture(tmp_path / "in.pcap", FRAMES[:3]))
    path.write_bytes(path.read_bytes()[:-10])
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", str(path)]) == 3
        assert received(receiver, 2) == FRAMES[:2]
    told = capsys.readouterr()
    assert "sent       2 frames" in told.out
    assert "after 2 frames: expected" in told.err


def test_frames_are_read_from_stdin(veth: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    octets = Path(capture(tmp_path / "in.pcap", FRAMES[:2])).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets)))
    with FrameReceiver(FAR) as receiver:
        assert run(["send", "-i", NEAR, "-r", "-"]) == 0
        assert received(receiver, 2) == FRAMES[:2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-r", "x.pcap", "cnm"], "expected one of a LAYER, -r or --spec, got several"),
        ([], "expected one of a LAYER, -r or --spec, got none"),
        (["cnm", "--loop", "--count", "3"], "expected --count or --loop, got both"),
        (["-r", "-", "--loop"], "stdin can be read only once"),
        (["cnm", "--rate", "fast"], "1000pps or 1.5Mpps, bits a second such as 1G, or max, got 'fast'"),
        (["cnm", "--rate", "-1x"], "speed: expected a factor"),
        (["cnm", "qntz_fb=4000"], "qntz_fb"),
    ],
)
def test_wrong_arguments_are_refused(
    veth: Network, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["send", "-i", NEAR, *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""


def test_a_missing_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["send", "-i", "nera", "cnm"]) == 4
    told = capsys.readouterr().err
    assert "nera: expected a network interface, got none of that name (did you mean 'near'?)" in told
    assert "help: ip -brief link" in told


def test_a_down_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    veth.ip(f"link set {NEAR} down")
    assert run(["send", "-i", NEAR, "cnm"]) == 4
    told = capsys.readouterr().err
    assert "near: expected an interface that is up, got one that is down" in told
    assert "help: ip link set near up" in told


def test_missing_capabilities_are_exit_code_4(veth: Network, capfd: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        code = run(["send", "-i", NEAR, "cnm"])
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    told = capfd.readouterr().err
    assert "near: expected the capability CAP_NET_RAW" in told
    assert "setpriv" in told


def test_an_interrupt_ends_with_the_report(veth: Network) -> None:
    code = "from ecmproto_cli.main import main; main()"
    words = ["send", "-i", NEAR, "cnm", "--loop", "--rate", "1000pps"]
    with FrameReceiver(FAR) as receiver:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        received(receiver, 12)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert int(lines["sent"].split()[0].replace(",", "")) > 10
    assert "jitter" in lines


def test_a_few_frames_are_repeated_many_times(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = capture(tmp_path / "in.pcap", FRAMES[:4])
    assert run(["send", "-i", NEAR, "-r", path, "--rate", "max", "--count", "100003", "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["frames"], document["octets"], document["jitter"]) == (100_003, 100_003 * 64, None)


def test_a_missing_carrier_is_warned_of(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    veth.unplug(FAR)
    run(["send", "-i", NEAR, "cnm"])
    assert "warning: near has no link: frames may be lost" in capsys.readouterr().err


def test_even_pacing_requires_a_rate_and_reports_spacing(
    veth: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["send", "-i", NEAR, "cnm", "--rate", "1kpps", "--count", "50", "--timing", "pacing=even"]
    assert run([*words, "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["frames"] == 50
    assert document["spacing"]["p50_ns"] >= 875_000
    assert run([*words, "--rate", "max"]) == 2
    assert (
        "--timing pacing=even keeps frames apart: expected a rate or times, got max"
        in capsys.readouterr().err
    )
