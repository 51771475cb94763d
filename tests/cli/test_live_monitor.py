"""``ecmproto live monitor`` as users run the command."""

from __future__ import annotations

import json
import os
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
from tests.batch.test_inner import WRAPPERS
from tests.capture.linux.traffic import readable_frames
from tests.namespaces import FAR, NEAR, PATIENCE_S, Network

CNM = encode(build("cnm", cpid=0x0200000000C10001, vlan=5))
PAUSE = encode(build("pause", pause_time=1000))
DATA = bytes(12) + b"\x99\x99" + bytes(46)


@contextmanager
def traffic() -> Iterator[None]:
    """Send a CNM, a PAUSE frame and a data frame every few milliseconds."""
    ended = threading.Event()
    batch = Batch.from_frames([CNM, PAUSE, DATA])
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


def test_lines_are_followed_by_a_table(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with traffic():
        assert run(["live", "monitor", "-i", FAR, "--duration", "1s", "--interval", "300ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "CNM" in lines[0]
    assert "stopped" in lines[0]
    text = "\n".join(lines)
    assert "time paused by PAUSE and PFC" in text
    assert "02:00:00:00:00:c1/1" in text


def test_counts_of_documents_equal_the_summary(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    with traffic():
        words = ["--duration", "1s", "--interval", "300ms", "-T", "ndjson", "-Y", "cnm or macc"]
        assert run(["live", "monitor", "-i", FAR, *words]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["schema"] for each in documents} == {"ecmproto/monitor/1"}
    *looks, summary = documents
    assert [each["event"] for each in looks] == ["stats"] * len(looks)
    assert summary["event"] == "summary"
    frames = 0.0
    for each in looks:
        frames += each["frames_per_s"] * each["span_ns"] / 1e9
        assert each["frames"] == pytest.approx(frames)
        assert {kind["kind"] for kind in each["kinds"]} >= {"cnm", "pause"}
        assert "other" not in {kind["kind"] for kind in each["kinds"]}
        assert [point["cpid"] for point in each["congestion_points"]] == ["0200000000c10001"]
        assert each["pauses"][0]["priority"] is None
    assert summary["stats"]["frames"] >= looks[-1]["frames"]


def test_selected_frames_are_written(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cnms.pcapng"
    with traffic():
        assert run(["live", "monitor", "-i", FAR, "--duration", "600ms", "-Y", "cnm", "-w", str(path)]) == 0
    with open_capture(path) as reader:
        frames = [octets for batch in reader for octets in batch.frames()]
    assert set(frames) == {CNM}
    assert f"{len(frames):,} frames written to {path}" in capsys.readouterr().err


def test_output_files_rotate(veth: Network, tmp_path: Path) -> None:
    words = ["-w", str(tmp_path / "x.pcap"), "-b", "duration:200ms", "-b", "files:2", "--snaplen", "64"]
    with traffic():
        assert run(["live", "monitor", "-i", FAR, "--duration", "1s", *words]) == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert names[0] > "x_00002.pcap"
    for name in names:
        with open_capture(tmp_path / name) as reader:
            times = [int(each) for batch in reader for each in batch.time_ns]
            assert times[-1] - times[0] < 200_000_000


def test_an_interrupt_completes_report_and_file(veth: Network, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    words = ["live", "monitor", "-i", FAR, "-w", str(path), "-T", "ndjson", "--interval", "300ms"]
    code = "from ecmproto_cli.main import main; main()"
    with traffic():
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE_S)[0]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    summary = json.loads(out.splitlines()[-1])
    with open_capture(path) as reader:
        assert sum(len(batch) for batch in reader) == summary["stats"]["frames"] > 0


def test_removing_the_interface_ends_monitoring(
    veth: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def remove() -> None:
        until = time.monotonic() + PATIENCE_S
        with traffic():
            while not readable_frames(tmp_path) and time.monotonic() < until:
                time.sleep(0.05)
        veth.ip(f"link del {FAR}")

    thread = threading.Thread(target=remove)
    thread.start()
    assert run(["live", "monitor", "-i", FAR, "-w", str(tmp_path / "x.pcap")]) == 4
    thread.join()
    assert "expected the interface, got its removal while it was in use" in capsys.readouterr().err


def test_an_idle_interface_uses_little_processor_time(
    veth: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["live", "monitor", "-i", FAR, "--duration", "1ms"])  # this code is compiled and loaded once
    before = time.process_time_ns()
    assert run(["live", "monitor", "-i", FAR, "--duration", "2s"]) == 0
    assert time.process_time_ns() - before < 1_000_000_000
    assert capsys.readouterr().out.splitlines()[-1] == "0 frames"


def test_a_terminal_is_redrawn_in_place(veth: Network) -> None:
    code = "from ecmproto_cli.main import main; main()"
    words = ["live", "monitor", "-i", FAR, "--duration", "1500ms", "--interval", "400ms"]
    ours, theirs = os.openpty()
    with traffic():
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        assert process.wait(60) == 0
    os.close(ours)
    assert shown.count(b"\x1b[H") >= 3
    first = shown.split(b"\x1b[H")[1]
    assert b"messages by congestion point" in first
    assert first.count(b"\n") <= 24


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-b", "files:3"], "-b needs -w"),
        (["-w", "x.pcap", "-b", "files:3"], "-b files:N needs -b filesize:SIZE or -b duration:TIME"),
        (["-w", "-"], "stdout contains the reports"),
        (["--interval", "often"], "expected a time"),
    ],
)
def test_wrong_options_are_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["live", "monitor", "-i", "lo", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_missing_interface_is_exit_code_4(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["live", "monitor", "-i", "fra"]) == 4
    assert "did you mean 'far'?" in capsys.readouterr().err


def test_innermost_frames_are_counted(veth: Network, capsys: pytest.CaptureFixture[str]) -> None:
    ended = threading.Event()
    batch = Batch.from_frames([WRAPPERS["VXLAN VNI 77"](PAUSE, 0), DATA])
    with FrameSender(NEAR) as sender:

        def send() -> None:
            while not ended.wait(0.005):
                sender.send(batch.buffer, batch.offset, batch.captured)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            words = ["--duration", "1s", "--interval", "300ms", "-T", "ndjson", "-Y", "pause"]
            assert run(["live", "monitor", "-i", FAR, *words]) == 0
        finally:
            ended.set()
            thread.join()
    captured = capsys.readouterr()
    summary = json.loads(captured.out.splitlines()[-1])["stats"]
    assert [each["kind"] for each in summary["kinds"]] == ["pause"]
    assert [each["name"] for each in summary["interfaces"]] == [FAR, f"{FAR} VXLAN VNI 77"]
    assert "unwrapped " in captured.err
