"""Storms and sequences of ``ecmproto craft``: captures, specifications, expectations and errors."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ecmproto.frames.capture import open_capture
from ecmproto.tools.craft.switch_tests import SEQUENCES
from ecmproto.wire.codec import CNM, PFC, decode
from ecmproto_cli.main import run

STORM = ["pfc", "prio3=65535", "prio4=65535", "--storm", "10G"]


def frames(path: Path) -> list[tuple[bytes, int]]:
    with open_capture(path) as reader:
        return [
            each for batch in reader for each in zip(batch.frames(), batch.time_ns.tolist(), strict=True)
        ]  # fmt: skip


def test_a_storm_prints_its_calculated_rates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "storm.pcap"
    assert run(["craft", *STORM, "-w", str(path)]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert dict(line.split(None, 1) for line in told.err.splitlines()) == {
        "storm": "priorities 3, 4 for 1 s, by 597 frames",
        "pause": "65,535 quanta, 3.355 ms at 10 Gb/s",
        "needed": "at least 298 frames/s",
        "renewed": "every 1.678 ms, 0.5 of the pause: 596.1 frames/s",
        "takes": "50.07 kB/s, 0.004 % of the link",
    }
    found = frames(path)
    assert len(found) == 598
    assert [time for _, time in found[:3]] == [0, 1_677_696, 3_355_392]
    assert found[-1][1] == 10**9
    assert decode(found[-1][0])[PFC].times == (0,) * 8


def test_stats_finds_the_storm_uninterrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "storm.pcap"
    run(["craft", *STORM, "--duration", "100ms", "-w", str(path)])
    assert run(["stats", "-r", str(path), "--speed", "10G", "-T", "json"]) == 0
    (sender,) = json.loads(capsys.readouterr().out)["pauses"]["senders"]
    stopped = {
        each["priority"]: each["paused_ns"] for each in sender["classes"] if each["priority"] is not None
    }
    assert stopped == {3: 10**8, 4: 10**8}


def test_storm_options_set_duration_renewal_and_release(tmp_path: Path) -> None:
    path = tmp_path / "storm.pcap"
    options = ["--duration", "5ms", "--renew", "25%", "--time", "7s", "--no-release"]
    assert run(["craft", "pause", "quanta=1000", "--storm", "1G", *options, "-w", str(path)]) == 0
    assert [time - 7 * 10**9 for _, time in frames(path)] == [128_000 * i for i in range(40)]
    assert len({octets for octets, _ in frames(path)}) == 1


@pytest.mark.parametrize(
    "words",
    [
        [*STORM, "--duration", "20ms"],
        ["cnm-flood", "flows=1..3"],
        [
            "cnm",
            "qntz_fb=3",
            "--vlan",
            "5",
            "--prio",
            "2",
            "--sweep",
            "flow_id=1..4",
            "--count",
            "9",
            "--rate",
            "5pps",
        ],
        ["vlan", "id=5", "cntag", "ip", "--dst", "02:00:00:00:00:99", "--rate", "3us", "--time", "1s"],
        ["eth", "type=0x1234", "data", "data=00", "--raw"],
        ["cnd-boundary", "cnpv=0,7"],
    ],
)
def test_toml_output_crafts_the_same_capture(words: list[str], tmp_path: Path) -> None:
    spec, direct, again = tmp_path / "x.toml", tmp_path / "direct.pcapng", tmp_path / "again.pcapng"
    assert run(["craft", *words, "-w", str(spec)]) == 0
    assert run(["craft", *words, "-w", str(direct)]) == 0
    assert run(["craft", "--spec", str(spec), "-w", str(again)]) == 0
    assert direct.read_bytes() == again.read_bytes()


def test_expectations_are_written_to_file_and_comments(tmp_path: Path) -> None:
    capture, expectations = tmp_path / "x.pcapng", tmp_path / "x.ndjson"
    words = ["cnd-boundary", "cnpv=3", "--vlan", "7", "-w", str(capture), "--expectations", str(expectations)]
    assert run(["craft", *words]) == 0
    documents = [json.loads(line) for line in expectations.read_text().splitlines()]
    assert [each["frame"] for each in documents] == list(range(1, len(frames(capture)) + 1))
    assert [each["time_ns"] for each in documents] == [time for _, time in frames(capture)]
    assert {each["schema"] for each in documents} == {"ecmproto/expectation/1"}
    assert b"priority 3 (CNPV, edge), CN-TAG: received by the port: priority 2; " in capture.read_bytes()


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    capture, expectations = tmp_path / "x.pcapng", tmp_path / "x.ndjson"
    words = ["craft", "cnd-boundary", "-w", str(capture), "--expectations", str(expectations)]
    expectations.write_text("mine")
    assert run(words) == 2
    assert expectations.read_text() == "mine"
    assert not capture.exists()
    assert run([*words, "--force"]) == 0


def test_options_set_parameters_of_their_name(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    words = ["cnm-flood", "flows=5", "--vlan", "9", "--prio", "1", "--rate", "10pps", "--count", "3"]
    assert run(["craft", *words, "--dst", "02:00:00:00:00:77", "-w", str(path)]) == 0
    found = frames(path)
    assert [time for _, time in found] == [0, 10**8, 2 * 10**8]
    assert found[0][0].startswith(bytes.fromhex("020000000077"))
    assert CNM in decode(found[0][0])


def test_the_list_names_every_sequence_and_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["craft", "--list"]) == 0
    out = capsys.readouterr().out
    for sequence in SEQUENCES.values():
        assert f"{sequence.name}: {sequence.doc}" in out
        for name, parameter in sequence.parameters.items():
            assert f"  {name}={parameter.default} " in out
            assert parameter.doc in out
    assert max(map(len, out.splitlines())) <= 110


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pfc", "prio3=0", "--storm", "10G"], "--storm: expected an enabled time of at least 1 quantum, got a frame that pauses nothing"),
        (["pfc", "prio8=1", "--storm", "10G"], "expected a field of pfc or of a layer it implies, got 'prio8' (did you mean 'prio3'?)"),
        (["pfc", "prio3=65536", "--storm", "10G"], "pfc.time3: expected an integer in 0..65535, got 65536"),
        (["pfc", "prio3=1", "--storm", "10G"], "storm: expected at least 3 quanta: a frame takes 68 ns of the link, got 1, renewed every 25.6 ns"),
        (["pfc", "--storm", "0"], "storm: expected a link of more than 0 bit/s, got 0 b/s"),
        (["pfc", "--storm", "fast"], "rate: expected a rate such as 10G"),
        (["cnm", "--storm", "10G"], "--storm: expected a pause or pfc frame, such as pfc prio3=65535, got 'cnm'"),
        (["cnd-boundary", "--storm", "10G"], "expected the name of a format, got 'cnd-boundary'"),
        (["pfc", "--storm", "10G", "--duration", "0s"], "duration: expected a time of more than 0 that ends before 2^63 ns, got 0 ns"),
        (["pfc", "--storm", "10G", "--duration", "300000000s"], "duration: expected at most 46.6 h, 100,000,000 frames, got 83330 h"),
        (["pfc", "--storm", "10G", "--duration", "99999999999999s"], "duration: expected a time of more than 0 that ends before 2^63 ns"),
        (["pfc", "--storm", "10G", "--time", "9223372036s"], "duration: expected a time of more than 0 that ends before 2^63 ns"),
        (["pfc", "--storm", "10G", "--renew", "2"], "renew: expected a share of the pause between 0 and 1, such as 0.5 or 50%, got '2'"),
        (["pfc", "--storm", "10G", "--vlan", "5"], "a MAC Control frame, which never has one"),
        (["pfc", "--storm", "10G", "--count", "5"], "--storm sets the frames' times itself: expected no --count"),
        (["pfc", "--storm", "10G", "--sweep", "time3=1..2"], "expected no --sweep"),
        (["--spec", "x.toml", "--storm", "10G"], "--storm needs a pause or pfc frame given as LAYER FIELD=VALUE ..."),
        (["pfc", "--no-release"], "--no-release needs --storm"),
        (["cnm", "--duration", "1s"], "--duration needs --storm"),
        (["cnm-flod"], "expected the name of a layer or of a sequence, got 'cnm-flod' (did you mean 'cnm-flood'?)"),
        (["cnm-flood", "flow=1"], "cnm-flood: expected a parameter of it, got 'flow' (did you mean 'flows'?)"),
        (["cnm-flood", "flows=1", "flows=2"], "cnm-flood: expected PARAMETER=VALUE, each parameter once, got 'flows' twice"),
        (["cnm-flood", "cnm"], "cnm-flood: expected PARAMETER=VALUE, each parameter once, got 'cnm'"),
        (["cnm-flood", "vlan=1", "--vlan", "2"], "cnm-flood: expected each parameter once, got 'vlan' twice"),
        (["cnm-flood", "--sweep", "qntz_fb=1"], "cnm-flood: expected a parameter of it, got 'sweep'"),
        (["cnd-boundary", "--time", "1s"], "a sequence sets its own times: expected no --time"),
        (["cnm-flood", "--rate", "1s"], "a sequence sets its own times: expected no --rate with a time"),
        (["cnm-flood", "--expectations", "x.ndjson"], "expected a sequence with expectations: cnd-boundary"),
        (["--spec", "x.json", "-T", "toml"], "-T toml needs a LAYER or a sequence, got a file"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["craft", *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""
    assert len(told.err.splitlines()) == 2
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".partial"]
