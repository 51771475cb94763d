"""``ecmproto fuzz send`` as users run the command, between interfaces of a namespace."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ecmproto.frames.capture import PcapWriter, open_capture
from ecmproto.frames.capture.linux.receiver import FrameReceiver
from ecmproto.tools.fuzz import device_campaign
from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.device import heartbeat_of
from ecmproto.tools.fuzz.device_campaign import FrameFitter
from ecmproto.tools.fuzz.subjects import template_frames
from ecmproto_cli.main import run
from tests.fuzz.planted.device import kills
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

DEVICE = Path(__file__).parents[1] / "fuzz" / "planted" / "device.py"
SIDE, BEHIND = "side", "behind"
QUICK = ["--heartbeat-timeout", "200ms", "--heartbeat-retries", "1", "--settle", "5ms"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(device_campaign, "SIMPLER_SECONDS", 2.0)
    return tmp_path


def send(*words: str) -> int:
    return run(["fuzz", "send", "-i", NEAR, *words])


def table(text: str) -> dict[str, str]:
    """Return the lines of the report by name."""
    parts = [line.strip().partition("  ") for line in text.splitlines() if line.startswith("  ")]
    return {name: told.strip() for name, _, told in parts}


def frames_of(seed: int, count: int) -> list[bytes]:
    """Return the octets of the first cases of a seed that an interface can carry."""
    fitting = FrameFitter(longest_octets=1514, longest_tagged_octets=1518)
    cases = Cases(template_frames(), seed=seed)
    fitted = (fitting.fitted(cases[index].octets) for index in range(count))
    return [frame for frame in fitted if frame is not None]


def captured(receiver: FrameReceiver) -> tuple[list[bytes], list[int]]:
    """Return the received frames and their times."""
    frames: list[bytes] = []
    times: list[int] = []
    while (batch := receiver.receive()) is not None:
        frames += batch.frames()
        times += batch.time_ns.tolist()
    return frames, times


@contextmanager
def device(heartbeat: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the faulty device, and continue when its first heartbeat arrives."""
    program = subprocess.Popen([sys.executable, str(DEVICE), *words], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "ready\n"
        until = time.monotonic() + 30
        with closing(heartbeat_of(heartbeat, NEAR, lambda: None)) as beating:
            while beating.beat(1):
                assert time.monotonic() < until
        yield program
    finally:
        program.kill()
        program.communicate()


@contextmanager
def bridge(veth: Network, defect: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Run the faulty device between NEAR and SIDE."""
    veth.ip(f"link add name {SIDE} type veth peer name {BEHIND}")
    for name in (SIDE, BEHIND):
        veth.ip(f"link set {name} addrgenmode none")
        veth.ip(f"link set {name} arp off up")
    with device(f"frame:{SIDE}", defect, str(seconds), "bridge", FAR, BEHIND) as program:
        yield program


def test_sent_frames_arrive_at_the_reported_rate(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with FrameReceiver(FAR) as receiver:
        assert send("--seed", "7", "--runs", "500", "--rate", "2kpps") == 0
        frames, times = captured(receiver)
    assert frames == frames_of(7, 500)
    told = capsys.readouterr()
    assert told.err == "ecmproto: seed 7\n"
    rows = table(told.out)
    assert list(rows) == [
        "sent", "requested", "reached", "time", "jitter", "spacing", "padded", "left out", "campaign",
        "findings",
    ]  # fmt: skip
    assert rows["sent"].startswith(f"{len(frames)} frames, ")
    assert rows["requested"] == "2,000 frames/s"
    assert rows["left out"] == f"{500 - len(frames)} cases longer than 1514 octets"
    reached = float(rows["reached"].split()[0].replace(",", ""))
    assert reached == pytest.approx((len(frames) - 1) * 1e9 / (times[-1] - times[0]), rel=0.05)


def test_pad_allows_short_frames(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    # The kernel drops frames that look like truncated tags.
    path = "short.pcap"
    octets = [bytes(range(length)) for length in (1, 14, 30, 60, 61)]
    with PcapWriter(path) as writer:
        for each in octets:
            writer.write_frame(each, 0)
    with FrameReceiver(FAR) as receiver:
        assert send("--as-is", "-r", path, "--pad", "14") == 0
        assert captured(receiver)[0] == [each.ljust(14, b"\0") for each in octets]
        assert send("--as-is", "-r", path) == 0
        assert captured(receiver)[0] == [each.ljust(60, b"\0") for each in octets]
    assert table(capsys.readouterr().out)["padded"] == "3 cases shorter than 60 octets"


def test_a_smaller_mtu_omits_longer_cases(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with FrameReceiver(FAR) as receiver:
        assert send("--seed", "7", "--runs", "200", "--rate", "max", "--mtu", "100") == 0
        frames, _ = captured(receiver)
    assert max(map(len, frames)) <= 118
    assert 0 < len(frames) < 200
    assert table(capsys.readouterr().out)["left out"] == f"{200 - len(frames)} cases longer than 114 octets"
    assert send("--runs", "1", "--mtu", "9000") == 2
    assert "mtu: expected at most the 1500 octets of near, got 9000" in capsys.readouterr().err


def test_a_campaign_continues_after_its_last_case(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with FrameReceiver(FAR) as receiver:
        for count in ("100", "150"):
            assert send("--seed", "7", "--runs", count, "--rate", "max") == 0
        assert captured(receiver)[0] == frames_of(7, 250)
    assert table(capsys.readouterr().out)["campaign"].startswith("250 cases in ")


def test_index_sends_a_single_case(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    case = Cases(template_frames(), seed=7)[5]
    with FrameReceiver(FAR) as receiver:
        assert send("--seed", "7", "--index", "5") == 0
        assert captured(receiver)[0] == [case.octets.ljust(60, b"\0")]
    assert capsys.readouterr().out.startswith(f"case 5 of seed 7: {', '.join(case.mutations)}\n")


def test_heartbeats_are_reported(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    beats = ["--heartbeat", f"frame:{FAR}", "--heartbeat", "command:true", "--heartbeat-every", "100"]
    assert send("--seed", "7", "--runs", "450", "--rate", "5kpps", *beats) == 0
    assert table(capsys.readouterr().out)["heartbeats"].startswith("6 came, 0 did not; sending stalled")


MTU_OCTETS = 1514
"""Maximum frame length in octets that is sent."""


def first_deep_tags(seed: int) -> int:
    """Return the index of the first case of ``seed`` that makes a device with this defect fail."""
    cases = Cases(template_frames(), seed=seed)
    return next(
        index
        for index in itertools.count()
        if len(cases[index].octets) <= MTU_OCTETS and kills(cases[index].octets.ljust(60, b"\0"), "deep-tags")
    )


def test_the_frame_silencing_a_bridge_is_found(
    veth: Network, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = first_deep_tags(5)
    first = index - index % 50
    with bridge(veth, "deep-tags", 0) as program:
        recovery = f"kill -HUP {program.pid}"
        beats = ["--heartbeat", f"frame:{SIDE}", "--heartbeat-every", "50", "--recover", recovery, *QUICK]
        assert send("--seed", "5", "--runs", str(first + 50), *beats) == 1
        told = capsys.readouterr()
        assert f"no frame at side within 200 ms after cases {first} to {first + 49}: narrowing" in told.err
        assert told.out.startswith("silence: after eth ")
        (kept,) = (folder / "fuzz-send" / "findings").iterdir()
        with open_capture(kept / "case.pcap") as reader:
            (octets,) = [frame for batch in reader for frame in batch.frames()]
        assert kills(octets, "deep-tags")
        document = json.loads((kept / "finding.json").read_text())
        assert (document["kind"], document["seed"], document["index"]) == ("silence", 5, index)
        # from what was saved
        os.chdir(kept)
        words = shlex.split((kept / "reproduce.sh").read_text())
        assert run(words[1:]) == 1
        assert "silence: no frame at side within 200 ms" in capsys.readouterr().out
        assert run(words[1:]) == 1
        assert "no frame at side within 200 ms, before any frame was sent" in capsys.readouterr().err
        program.send_signal(signal.SIGHUP)
        assert send("--seed", "5", "--index", str(index - 1), "--heartbeat", f"frame:{SIDE}") == 0
        assert send("--seed", "5", "--index", str(index), "--heartbeat", f"frame:{SIDE}", *QUICK) == 1


def test_a_self_recovering_host_is_found(
    veth: Network, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    veth.ip(f"address add 192.0.2.1/24 dev {NEAR}")
    veth.ip(f"link set {NEAR} arp on")
    with device("ping:192.0.2.2", "msdu-length", "0.7", "host", FAR, "192.0.2.2"):
        beats = ["--heartbeat", "ping:192.0.2.2", "--heartbeat-every", "40ms", *QUICK]
        assert send("--seed", "12", "--runs", "60", *beats) == 1
    told = capsys.readouterr()
    assert "no echo from 192.0.2.2 within 200 ms after cases " in told.err
    (kept,) = (folder / "fuzz-send" / "findings").iterdir()
    with open_capture(kept / "case.pcap") as reader:
        (octets,) = [frame for batch in reader for frame in batch.frames()]
    assert kills(octets, "msdu-length")
    assert "case 45: " in (kept / "output.txt").read_text()


def test_a_device_without_recovery_ends_the_campaign(
    veth: Network, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = first_deep_tags(5)
    first = index - index % 50
    with bridge(veth, "deep-tags", 0) as program:
        beats = ["--heartbeat", f"frame:{SIDE}", "--heartbeat-every", "50", *QUICK]
        assert send("--seed", "5", "--runs", "400", "--recover-wait", "100ms", *beats) == 1
        told = capsys.readouterr()
        assert told.err.endswith("the device did not recover; the same command continues after these cases\n")
        assert f"after one of cases {first} to {first + 49} of seed 5" in told.out
        program.send_signal(signal.SIGHUP)
        assert send("--runs", "50", *beats) == 1, "the finding is still there"
        told = capsys.readouterr()
        assert table(told.out)["campaign"].startswith(f"{first + 100} cases in ")
        assert told.err == "ecmproto: seed 5, continues the campaign in fuzz-send\n"


def test_a_device_silent_beforehand_stops_the_campaign(
    veth: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    with FrameReceiver(FAR) as receiver:
        assert send("--heartbeat", "command:exit 3", "--runs", "10") == 1
        assert captured(receiver)[0] == []
    told = capsys.readouterr()
    assert "ecmproto: 'exit 3' exited with 3, before any frame was sent\n" in told.err
    assert "help: --heartbeat must succeed while the device works" in told.err
    assert told.out == ""
    recovery = ["--recover", "touch alive"]
    assert send("--heartbeat", "command:test -e alive", "--runs", "10", "--rate", "max", *recovery) == 0


def test_sending_no_frame_fails(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with PcapWriter("long.pcap") as writer:
        writer.write_frame(bytes(2000), 0)
    assert send("--as-is", "-r", "long.pcap") == 1
    told = capsys.readouterr()
    assert told.err == "ecmproto: no frame was sent\n"
    assert table(told.out)["left out"] == "1 case longer than 1514 octets"


def test_an_interrupt_ends_with_the_report(veth: Network, folder: Path) -> None:
    words = [
        "fuzz",
        "send",
        "-i",
        NEAR,
        "--seed",
        "7",
        "--heartbeat",
        f"frame:{FAR}",
        "--heartbeat-every",
        "50",
    ]
    code = "from ecmproto_cli.main import main; main()"
    with FrameReceiver(FAR) as receiver:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        frames: list[bytes] = []
        until = time.monotonic() + PATIENCE_S
        while len(frames) < 200 and time.monotonic() < until:
            time.sleep(0.05)
            frames += captured(receiver)[0]
        # Like a terminal, send the signal to the process and its children.
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert err.endswith("ecmproto: interrupted; the same command continues\n")
    assert "Traceback" not in err
    sent = int(table(out)["sent"].split()[0].replace(",", ""))
    done = json.loads((folder / "fuzz-send" / "campaign.json").read_text())["progress"]["index"]
    assert sent >= 150
    assert done % 50 == 0
    assert done >= 150


def test_removing_the_interface_ends_with_a_report(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    remover = subprocess.Popen(
        ["sh", "-c", f"while ! test -e fuzz-send/campaign.json; do sleep 0.1; done; ip link del {FAR}"]
    )
    assert send("--seed", "7", "--duration", "60s") == 4
    assert remover.wait() == 0
    told = capsys.readouterr()
    assert "near: expected the interface, got its removal while it was in use" in told.err
    assert "campaign" in table(told.out)


def test_missing_capabilities_are_exit_code_4(veth: Network, capfd: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setresuid(65534, 65534, 65534)
        code = send("--runs", "1")
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 4
    assert "near: expected the capability CAP_NET_RAW" in capfd.readouterr().err


def test_missing_interfaces_are_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fuzz", "send", "-i", "nera", "--runs", "1"]) == 4
    assert "nera: expected a network interface, got none of that name" in capsys.readouterr().err
    assert send("--heartbeat", "frame:fra", "--runs", "1") == 4
    assert "fra: expected a network interface" in capsys.readouterr().err
    veth.ip(f"link set {NEAR} down")
    assert send("--runs", "1") == 4
    assert "near: expected an interface that is up, got one that is down" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--heartbeat", "pong:here"], "heartbeat: expected ping:ADDRESS, frame:INTERFACE or command:CMD"),
        (["--heartbeat-every", "0", "--heartbeat", "command:true"], "expected more than 0"),
        (["--heartbeat-every", "often", "--heartbeat", "command:true"], "expected a time such as"),
        (["--heartbeat-timeout", "0"], "expected more than 0"),
        (["--rate", "fast"], "rate: expected frames a second such as 1000pps"),
        (["--rate", "0pps"], "rate: expected frames a second"),
        (["--pad", "13"], "--pad"),
        (["--as-is"], "--as-is sends the frames of -r"),
        (["--index", "5"], "expected --seed N"),
        (["--index", "5", "--seed", "1", "--runs", "3"], "not to frames that are sent once"),
        (["-Y", "cnm"], "-Y filters the frames of -r"),
    ],
)
def test_wrong_options_are_refused(
    veth: Network, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert send(*words) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""
