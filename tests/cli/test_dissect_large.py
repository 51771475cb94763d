"""``ecmproto dissect`` on large captures: the switch to columns does not change the output."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, PcapWriter, open_sink
from ecmproto.frames.dissect.form import Listing
from ecmproto_cli.commands import dissect
from ecmproto_cli.main import run
from ecmproto_cli.progress import reporting_compilation
from tests.dissect.sample import FRAMES

DISSECT = [sys.executable, "-m", "ecmproto_cli", "dissect"]
REPEATS = 12
FORMS = {
    "line": [],
    "tree": ["-V"],
    "hex": ["-x"],
    "json": ["-T", "json"],
    "ndjson": ["-T", "ndjson"],
    "csv": ["-T", "csv", "-e", "frame.time_epoch", "-e", "vlan.id", "-e", "lldp.tlv.type"],
    "fields": ["-T", "fields", "-e", "frame.number", "-e", "frame.error", "-e", "encapsulated.ip.src"],
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    frames = list(FRAMES.values()) * REPEATS
    path = tmp_path / "in.pcap"
    with open_sink(str(path)) as sink:
        writer = PcapWriter(sink)
        writer.write_batch(
            Batch.from_frames(frames, time_ns=1_700_000_000 * 10**9 + np.arange(len(frames)) * 999)
        )
    return path


@pytest.fixture
def switching(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lower the minimum size of large captures, and record the numbers of frames processed by columns."""
    seen: list[int] = []
    plain = Listing.texts

    def noted(self: Listing, batch: Batch, *arguments: object, **options: object) -> object:
        seen.append(len(batch))
        return plain(self, batch, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Listing, "texts", noted)
    monkeypatch.setattr(dissect, "FIRST_FRAMES", 20)
    monkeypatch.setattr(dissect, "_MANY_FRAMES", 100)
    monkeypatch.setattr(dissect, "_MANY_OF_FORM", {})
    monkeypatch.setattr(dissect, "_FULL_FRAMES", 1)
    monkeypatch.setattr(dissect, "_LARGE_FRAMES", 70)
    return seen


def shown(arguments: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> bytes:
    assert run(["dissect", *arguments]) == 0
    return capsysbinary.readouterr().out


@pytest.mark.parametrize("more", [[], ["-Y", "vlan.id == 5 or macc"], ["-c", "333"]], ids=["all", "-Y", "-c"])
@pytest.mark.parametrize("form", FORMS)
def test_columns_and_frames_give_equal_output(
    form: str, more: list[str], capture: Path, capsysbinary: pytest.CaptureFixture[bytes],
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    arguments = ["-r", str(capture), *FORMS[form], *more]
    expected = shown(arguments, capsysbinary)
    seen = request.getfixturevalue("switching")
    assert shown(arguments, capsysbinary) == expected
    if form in ("tree", "json", "ndjson", "csv", "fields"):
        assert sum(seen) > 100


def test_times_are_relative_to_the_first_frame(
    capture: Path, switching: list[int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    last = len(FRAMES) * REPEATS
    told = shown(["-r", str(capture), "-Y", f"frame.number == {last}"], capsysbinary).decode()
    assert told.split()[:2] == [str(last), f"0.{(last - 1) * 999:09d}"]


@pytest.mark.parametrize("more", [[], ["-e", "frame.number"]])
def test_copies_of_selected_frames_are_equal(
    more: list[str], capture: Path, request: pytest.FixtureRequest
) -> None:
    copies = []
    for name in ("plain.pcap", "switched.pcap"):
        out = capture.parent / name
        assert run(["dissect", "-r", str(capture), "-Y", "cntag", "-w", str(out), *more]) == 0
        copies.append(out.read_bytes())
        request.getfixturevalue("switching")
    assert copies[0] == copies[1]
    assert len(copies[0]) > 24


def test_large_pipes_are_processed_by_columns(
    capture: Path, switching: list[int], monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    expected = shown(["-r", str(capture), "-T", "ndjson"], capsysbinary)
    assert switching
    switching.clear()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(capture.read_bytes())))
    assert shown(["-r", "-", "-T", "ndjson"], capsysbinary) == expected
    assert switching


def test_frames_of_a_slow_pipe_appear_immediately(capture: Path) -> None:
    octets = capture.read_bytes()
    with subprocess.Popen(
        [*DISSECT, "-r", "-", "-T", "ndjson"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(octets[: 24 + 16 + len(next(iter(FRAMES.values())))])
        process.stdin.flush()
        # The next output appears only after this output is complete.
        assert json.loads(process.stdout.readline())["number"] == 1
        process.stdin.close()
        assert process.wait() == 0


def test_small_captures_load_no_kernels(capture: Path) -> None:
    for arguments in FORMS.values():
        check = (
            "import sys; from ecmproto_cli.main import run; "
            f"code = run(['dissect', '-r', {str(capture)!r}, '-c', '20', *{arguments!r}]); "
            "sys.exit(code or 'numba' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


def test_unencodable_characters_are_replaced(capture: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*DISSECT, "-r", str(capture), "-c", "3"], env=environment, capture_output=True, check=True
    )
    assert b" ? " in done.stdout


def test_an_interrupt_leaves_complete_lines(
    capture: Path,
    switching: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    plain = Listing.texts

    def interrupted(self: Listing, batch: Batch, *arguments: object, **options: object) -> Iterator[object]:
        for text in plain(self, batch, *arguments, **options):  # type: ignore[arg-type]
            os.kill(os.getpid(), 2)
            time.sleep(0)
            yield text

    monkeypatch.setattr(Listing, "texts", interrupted)
    assert run(["dissect", "-r", str(capture), "-T", "json"]) == 130
    frames = json.loads(capsysbinary.readouterr().out)["frames"]
    assert [frame["number"] for frame in frames] == list(range(1, len(frames) + 1))
    assert frames


def test_long_compilation_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = pytest.importorskip("numba.core.event")
    pytest.importorskip("ecmproto.kernels.compiler")  # tells of what numba does
    monkeypatch.setattr("ecmproto_cli.progress._COMPILING_PATIENCE_S", 0.01)
    done = threading.Event()
    monkeypatch.setattr("ecmproto_cli.progress._report_compiling", done.set)
    with reporting_compilation():
        assert not done.wait(0.1)  # nothing is compiled
        with event.trigger_event("numba:compile"):
            assert done.wait(10)
    done.clear()
    with reporting_compilation(), event.trigger_event("numba:compile"):
        pass
    assert not done.wait(0.1)


def test_a_truncated_capture_is_shown_until_its_end(
    capture: Path, switching: list[int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    capture.write_bytes(capture.read_bytes()[:-1])
    assert run(["dissect", "-r", str(capture), "-T", "ndjson"]) == 3
    assert len(capsysbinary.readouterr().out.splitlines()) == len(FRAMES) * REPEATS - 1


def test_batches_grow_in_size(
    capture: Path, switching: list[int], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    shown(["-r", str(capture), "-T", "ndjson"], capsysbinary)
    assert (switching[0], max(switching)) == (20, 70)


def test_an_interrupt_stops_a_running_filter(
    capture: Path, switching: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*arguments: object, **options: object) -> NoReturn:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the interrupt waits")

    monkeypatch.setattr("ecmproto.frames.columns.selection.selected", endless)
    assert run(["dissect", "-r", str(capture), "-Y", "cnm"]) == 130
    assert run(["stats", "-r", str(capture), "-Y", "cnm"]) == 130


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_large_captures_are_processed_by_columns(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path, seen = tmp_path / f"in.pcap{suffix}", []
    with open_sink(str(path)) as sink:
        PcapWriter(sink).write_batch(Batch.from_frames([FRAMES["arp"]] * 30_000))
    assert path.stat().st_size < 1 << 16
    plain = Listing.texts

    def noted(self: Listing, batch: Batch, *arguments: object, **options: object) -> object:
        seen.append(len(batch))
        return plain(self, batch, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Listing, "texts", noted)
    assert run(["dissect", "-r", str(path)]) == 0
    assert capsysbinary.readouterr().out.count(b"\n") == 30_000
    assert sum(seen) >= 30_000 - dissect.FIRST_FRAMES
