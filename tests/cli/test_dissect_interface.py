"""``ecmproto dissect -i``: a capture from an interface is processed like a file."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.capture.linux.traffic import readable_frames
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

CNM = encode(build("cnm", qntz_fb=40, flow_id=7, vlan=5))
DATA = bytes(12) + b"\x99\x99" + bytes(46)


@contextmanager
def traffic() -> Iterator[None]:
    """Send a CNM and a data frame every few milliseconds."""
    ended = threading.Event()
    batch = Batch.from_frames([CNM, DATA])
    with FrameSender(NEAR) as sender:

        def send() -> None:
            while not ended.wait(0.005):
                sender.send(batch.buffer, batch.offset, batch.captured)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def test_count_limits_the_captured_frames(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with traffic():
        assert run(["dissect", "-i", FAR, "-c", "6", "-Y", "cnm"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("CNM" in line and "vlan 5" in line for line in lines)


def test_json_of_an_interface_is_craftable(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traffic():
        assert run(["dissect", "-i", FAR, "-c", "4", "-T", "json"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["capture"]["interfaces"][0]["name"] == FAR
    (tmp_path / "in.json").write_text(text, encoding="utf-8")
    assert run(["craft", "--from-json", str(tmp_path / "in.json"), "-w", str(tmp_path / "x.pcapng")]) == 0
    with open_capture(tmp_path / "x.pcapng") as reader:
        assert {octets for batch in reader for octets in batch.frames()} == {CNM, DATA}


@pytest.mark.parametrize("name", ["x.pcapng", "x.pcap"])
def test_an_interrupt_finishes_the_copy(veth: Network, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    words = ["dissect", "-i", FAR, "-Y", "cnm", "-w", str(path), "-e", "cnm.qntz_fb"]
    code = "from ecmproto_cli.main import main; main()"
    with traffic():
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE_S)[0]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    with open_capture(path) as reader:
        frames = [octets for batch in reader for octets in batch.frames()]
    assert set(frames) == {CNM}
    assert out.splitlines() == ["40"] * len(frames)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "got none"),
        (["-r", "x.pcap", "-i", "lo"], "got both"),
        (["-i", "lo", "-T", "parquet"], "needs -r"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dissect", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_removing_the_interface_keeps_captured_frames(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcapng"

    def remove() -> None:
        until = time.monotonic() + PATIENCE_S
        with traffic():
            while not readable_frames(tmp_path) and time.monotonic() < until:
                time.sleep(0.05)
        veth.ip(f"link del {FAR}")

    thread = threading.Thread(target=remove)
    thread.start()
    assert run(["dissect", "-i", FAR, "-w", str(path)]) == 4
    thread.join()
    said = capsys.readouterr()
    assert "expected the interface, got its removal while it was in use" in said.err
    with open_capture(path) as reader:
        assert sum(len(batch) for batch in reader) > 0


def test_a_missing_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-i", "fra"]) == 4
    assert "did you mean 'far'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["dissect"], "x.pcapng"),
        (["dissect"], "x.pcap"),
        (["dissect"], "x.pcapng.gz"),
        (["dissect"], "x.pcap.zst"),
        (["live", "monitor"], "x.pcapng.gz"),
    ],
)
def test_a_killed_capture_keeps_its_frames(
    veth: Network, tmp_path: Path, command: list[str], name: str
) -> None:
    sent = Batch.from_frames([CNM, DATA, CNM])
    words = [sys.executable, "-m", "ecmproto_cli", *command, "-i", FAR, "-w", str(tmp_path / name)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process, FrameSender(NEAR) as sender:
        try:
            frames: list[bytes] = []
            deadline = time.monotonic() + PATIENCE_S
            while not frames:  # until it listens
                assert time.monotonic() < deadline, "nothing that was captured is in the file"
                sender.send(sent.buffer, sent.offset, sent.captured)
                time.sleep(0.25)
                frames = readable_frames(tmp_path)
            until = time.monotonic() + PATIENCE_S
            sender.send(sent.buffer, sent.offset, sent.captured)
            count = len(frames)
            while len(frames) < count + 3:
                assert time.monotonic() < until, "the last frames before a silence are not in the file"
                time.sleep(0.05)
                frames = readable_frames(tmp_path)
        finally:
            process.kill()
    assert readable_frames(tmp_path)[-3:] == [CNM, DATA, CNM]
