"""``--inner`` and ``--outer``: commands on captures of mirrored frames."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ecmproto.control.lab.setup.captured import capture_document
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER
from tests.batch.test_inner import WRAPPERS, bare, written
from tests.batch.test_sflow import DATA, datagram, flow, raw, sent

SUMMARY = "ecmproto: unwrapped 300 frames (ERSPAN II 300); sequence numbers show that the mirror lost 0"


@pytest.fixture
def captures(tmp_path: Path) -> tuple[str, str]:
    """Write the frames of a hotspot, bare and in ERSPAN, and return the paths."""
    frames, original, times = bare(FOLDER / "hotspot.pcap.gz")
    wrapped = [WRAPPERS["ERSPAN II session 12"](frame, number) for number, frame in enumerate(frames)]
    plain, mirror = (tmp_path / name for name in ("plain.pcap", "mirror.pcap"))
    return str(written(plain, frames, times, original)), str(written(mirror, wrapped, times))


def test_dissect_writes_the_innermost_frames(
    captures: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "bare.pcap")
    assert run(["dissect", captures[1], "--inner", "-w", out]) == 0
    assert SUMMARY in capsys.readouterr().err
    assert bare(Path(out)) == bare(Path(captures[0]))
    for form in (["-T", "fields", "-e", "eth.dst", "-e", "frame.len"], []):
        shown = []
        for path in (captures[0], captures[1]):
            assert run(["dissect", path, "--inner", *form]) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]


def test_replay_of_innermost_equals_bare_frames(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    documents = []
    for path in captures:
        assert run(["replay", path, "--cp", "qcn", "--speed", "1G", "--seed", "1", "-T", "json"]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    for document in documents:
        document.pop("capture", None)
    assert documents[0] == documents[1]


def test_outer_check_ignores_inner_frames(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(["check", captures[1]])
    assert SUMMARY in capsys.readouterr().err
    run(["check", captures[1], "--outer"])
    assert SUMMARY not in capsys.readouterr().err


def test_wrapped_output_loads_no_unwrapping_module(captures: tuple[str, str]) -> None:
    check = (
        "import sys; from ecmproto_cli.main import run; "
        f"code = run(['dissect', '-c', '3', {captures[1]!r}]); "
        "sys.exit(code or 'ecmproto.frames.batch.inner' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, capture_output=True)


def test_inner_frames_of_an_interface_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-i", "lo", "--inner"]) == 2
    assert "--inner needs -r" in capsys.readouterr().err


def test_diff_of_innermost_frames_finds_no_difference(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, mirror = captures
    assert run(["diff", plain, mirror, "--stat", "--outer"]) == 1
    assert "innermost" not in capsys.readouterr().err
    assert run(["diff", plain, mirror, "--stat"]) == 0
    assert f"ecmproto: {mirror}: {SUMMARY.removeprefix('ecmproto: ')}" in capsys.readouterr().err


def test_laboratory_runs_on_innermost_frames(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    documents = []
    outer = ["--set", "flow.capture_outer=true"]
    for path, option in ((captures[0], []), (captures[1], []), (captures[1], outer)):
        command = ["lab", "run", path, *option, "--set", "topology.rate=1G", "--seed", "1", "-T", "json"]
        assert run(command) == 0
        documents.append(json.loads(capsys.readouterr().out)["figures"])
    assert documents[0] == documents[1] != documents[2]
    title = capture_document(captures[1]).scenario["title"]
    assert SUMMARY.removeprefix("ecmproto: ") in title


def test_innermost_frames_are_the_default(
    captures: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diff", *captures, "--stat", "--inner"]) == 0
    assert "ecmproto: --inner is the default\n" in capsys.readouterr().err


TWICE = [n - 3 * late for n in range(3, 60) for late in (0, 1)]
"""PSNs of packets that two ports mirror, the second time three packets later."""


@pytest.mark.parametrize(
    ("psns", "step"),
    [(range(60), ""), (TWICE, ""), (range(0, 300, 5), "PSNs of RoCE advance by 5 per frame")],
)
def test_missing_psns_hint_at_a_sample(
    psns: Sequence[int], step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packet = "ip udp bth opcode=0 infiniband.bth.destqp=17 psn={}"
    frames = [encode(build(packet.format(psn))) for psn in psns]
    wrapped = [WRAPPERS["ERSPAN II session 12"](frame, number) for number, frame in enumerate(frames)]
    mirror = str(written(tmp_path / "mirror.pcap", wrapped))
    for command in (["check", mirror], ["stats", mirror], ["replay", mirror, "--cp", "dcqcn"]):
        run(command)
        printed = capsys.readouterr().err
        assert (step in printed) if step else "PSNs of RoCE" not in printed


def test_replay_of_sampled_headers_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["replay", str(written(tmp_path / "sflow.pcap", sent(datagram(flow(raw(DATA)))))), "--cp", "qcn"])
    assert "warning: the frames are a sample" in capsys.readouterr().err
