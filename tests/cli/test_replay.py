"""``ecmproto replay`` as users run the command."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ecmproto import CNM, VLAN, CNTag, Ethernet, decode
from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter, comments, open_capture
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto_cli.main import run
from pcaps.hotspot import data_frame
from pcaps.manifest import FOLDER

HOTSPOT = str(FOLDER / "hotspot.pcap.gz")
CONGESTED = ["--cp", "qcn", "--speed", "1G", "--seed", "1"]


def frames_in(path: Path) -> list[tuple[int, bytes, tuple[str, ...]]]:
    with open_capture(path) as reader:
        return [
            (int(batch.time_ns[i]), batch.frame(i), comments(batch, i))
            for batch in reader
            for i in range(len(batch))
        ]


def congested_capture(path: Path, *, fcs: bool = False, linktype: int = 1) -> None:
    """Write 400 consecutive frames at 10 Gb/s to pcapng, on the second of two interfaces."""
    octets = data_frame(1)
    octets += frame_check_sequence(octets) if fcs else b""
    ports = [Interface(index=i, linktype=linktype, name=f"port{i}", fcs_octets=4 * fcs) for i in range(2)]
    with PcapngWriter(str(path), interfaces=ports, comment="kept") as writer:
        for i in range(400):
            writer.write_frame(octets, 10**9 + 1220 * i, interface=1, comment=f"frame {i}")


def test_the_table_equals_the_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "--seed", "1", "--color", "never"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "ecmproto: seed 1\n"
    golden = Path(__file__).with_name("replay_table.txt")
    assert captured.out.replace(HOTSPOT, "hotspot.pcap.gz") == golden.read_text(encoding="utf-8")


def test_output_is_the_capture_with_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    congested_capture(source)
    assert run(["replay", "-r", str(source), *CONGESTED, "-T", "json", "-w", str(out)]) == 0
    summary = json.loads(capsys.readouterr().out)
    before, after = frames_in(source), frames_in(out)
    own = [frame for frame in after if not frame[2][0].startswith("CNM")]
    sent = [frame for frame in after if frame[2][0].startswith("CNM")]
    assert own == before
    assert len(sent) == summary["ports"][0]["messages"]["CNM"] > 0
    for index, (time_ns, octets, (comment,)) in enumerate(after):
        if comment.startswith("CNM"):
            cause = after[index - 1]
            assert time_ns == cause[0]
            assert comment.startswith(f"CNM for frame {before.index(cause) + 1}: priority 3, Qlen ")
            message = decode(octets)
            assert message[Ethernet].dst == decode(cause[1])[Ethernet].src
            assert message[VLAN] == VLAN(id=100, priority=6, etype=0x22E9)
            assert message[CNTag].flow_id == 1
            assert message[CNM].msdu == cause[1][20:84]


def test_a_pcapng_keeps_its_interfaces_and_blocks(tmp_path: Path) -> None:
    source, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    congested_capture(source)
    assert run(["replay", "-r", str(source), *CONGESTED, "-w", str(out)]) == 0
    with open_capture(source) as before, open_capture(out) as after:
        assert [item for item in before.items() if hasattr(item, "kind")] == [
            item for item in after.items() if hasattr(item, "kind")
        ]
        assert [port.name for port in after.interfaces] == ["port0", "port1"]


def test_messages_have_an_fcs_like_the_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    congested_capture(source, fcs=True)
    assert run(["replay", "-r", str(source), *CONGESTED, "-T", "json", "-w", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["octets"] == 400 * 1500
    for _, octets, _ in frames_in(out):
        assert octets[-4:] == frame_check_sequence(octets[:-4])


def test_the_same_seed_gives_the_same_octets(tmp_path: Path) -> None:
    made = {}
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        out = tmp_path / f"{name}.pcap"
        assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "--seed", seed, "-w", str(out)]) == 0
        made[name] = out.read_bytes()
    assert made["a"] == made["b"] != made["c"]


def test_a_printed_random_seed_repeats_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "-T", "json"]) == 0
    captured = capsys.readouterr()
    seed = captured.err.removeprefix("ecmproto: seed ").strip()
    assert run(["replay", "-r", HOTSPOT, "--cp", "qcn", "-T", "json", "--seed", seed]) == 0
    assert capsys.readouterr().out == captured.out


def test_replay_reads_and_writes_pipes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecmproto_cli", "replay", "-r", "-", *CONGESTED, "-w", "-"]
    done = subprocess.run(command, input=Path(HOTSPOT).read_bytes(), capture_output=True, check=True)
    out = tmp_path / "out.pcap"
    out.write_bytes(done.stdout)
    assert len(frames_in(out)) > 15_662
    assert b"(802.1Qau), open loop" in done.stderr


def test_a_truncated_capture_is_replayed_until_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "cut.pcap", tmp_path / "out.pcap"
    cut.write_bytes(gzip.decompress(Path(HOTSPOT).read_bytes())[:-100])
    assert run(["replay", "-r", str(cut), *CONGESTED, "-T", "json", "-w", str(out)]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["frames"] == 15_661
    assert "after 15,661 frames: expected" in captured.err
    assert len(frames_in(out)) > 15_661


def test_an_empty_capture_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.pcap"
    with PcapWriter(str(empty)):
        pass
    assert run(["replay", "-r", str(empty), *CONGESTED]) == 0
    assert "  frames         0, 0 B\n" in capsys.readouterr().out


def test_other_link_types_are_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    congested_capture(source, linktype=113)
    assert run(["replay", "-r", str(source), *CONGESTED, "-w", str(out)]) == 3
    assert (
        "expected Ethernet frames for a replay, got link type LINUX_SLL on interface 1"
        in capsys.readouterr().err
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--cp qcm",
            "mechanism: expected one of qcn, ecm, bcn, e2cm, fecn, dbp, dcqcn, ecn, hpcc, swift, csig, "
            "isolation, pause, pfc, none, "
            "got 'qcm' (did you mean 'qcn'?)",
        ),
        (
            "--cp ecm --rp qcn",
            "--rp qcn: reaction points of qcn do not understand ecm's messages",
        ),
        ("--speed 1G", "expected a mechanism: --cp or --compare"),
        ("--compare qcn --cp qcn", "--compare names the mechanisms itself: omit --cp and --rp"),
        ("--cp none --set a=1", "parameter: expected none: none has no parameters, got a=1"),
        ("--cp qcn --rp qcn --ports dst", "--ports is for open loops: a closed loop has one port"),
        ("--cp qcn --samples x.txt", "x.txt: expected a name that ends in .csv or .parquet, got another"),
        ("--cp qcn --speed fast", "rate: expected a rate such as 10G, 2.5Gb/s or 100Mbps, got 'fast'"),
        ("--cp qcn --speed 0", "rate: expected 1000 to 10000000000000 bit/s, got 0"),
        (
            "--cp qcn --speed 10G,1G",
            "rate: expected a rate, then rates with times, as in 10G,1G@10ms, got '1G'",
        ),
        (
            "--cp qcn --speed 10G,1G@5ms,2G@5ms",
            "rate: expected each change later than the previous one, got 5 ms after 5 ms",
        ),
        ("--cp qcn --speed 10G,0@1ms", "rate: expected 1000 to 10000000000000 bit/s, got 0"),
        ("--cp qcn --buffer 0", "buffer: expected 1 to 1000000000 octets, got 0"),
        ("--cp qcn --buffer 0frames", "buffer: expected 1 to 658761 frames, got 0frames"),
        ("--cp qcn --set qeq=5B", "qeq: expected 100 B to 4294967295 B, got 5 B"),
        ("--cp qcn --cp-mac x", "MAC address: expected six octets such as 02:00:00:00:00:01, got 'x'"),
        ("--cp qcn -T json -w -", "-w - writes the capture to stdout, so no report can be printed there"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "-r", HOTSPOT, *arguments.split()]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"ecmproto: {sentence}"


def test_a_buffer_may_be_given_in_frames(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--cp", "qcn"], ["--cp", "qcn", "--rp", "qcn"], ["--compare", "qcn,none"]):
        command = ["replay", "-r", HOTSPOT, *options, "--speed", "1G", "--seed", "1", "--buffer", "20frames"]
        assert run(command) == 0
        assert "20 frames" in capsys.readouterr().out
        assert run([*command, "-T", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        (first, *_) = document.get("replays", [document])
        assert (first["buffer_frames"], first["buffer_octets"]) == (20, 20 * 1518)
        # The buffer is counted in frames of the capture's length, and not in octets.
        assert first["ports"][0]["queue"]["peak_octets"] <= 20 * 1518


def test_a_rate_may_change_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--cp", "qcn"], ["--cp", "fecn", "--rp", "fecn"], ["--compare", "fecn,none"]):
        command = ["replay", "-r", HOTSPOT, *options, "--speed", "5G,1G@5ms,8G@7.5ms", "--seed", "1"]
        assert run(command) == 0
        assert "5 Gb/s, 1 Gb/s from 5 ms, 8 Gb/s from 7.5 ms" in capsys.readouterr().out
        assert run([*command, "-T", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        (first, *_) = document.get("replays", [document])
        assert first["rate_bps"] == 5 * 10**9
        assert first["rate_changes"] == [
            {"time_ns": 5_000_000, "rate_bps": 10**9},
            {"time_ns": 7_500_000, "rate_bps": 8 * 10**9},
        ]


def test_the_parameters_are_listed_with_ranges_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fields", "qcn"]) == 0
    shown = capsys.readouterr().out
    assert "\ncp.qeq=26 kB  equilibrium queue length of the congestion point (Qeq)\n    100 B to " in shown
    assert all(f"\n{name}=" in shown for name in ("cp.w", "cp.sample_base", "rp.gd", "edge.mode"))
