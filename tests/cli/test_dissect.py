"""``ecmproto dissect`` as users run the command: invalid options, exit codes, and agreement with tshark."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest

from ecmproto.frames.capture import Batch, PcapWriter, open_sink
from ecmproto_cli.main import run
from tests.conftest import SHARED_CAPTURES, requires
from tests.dissect.sample import FRAMES, write_sample
from tests.namespaces import PATIENCE_S

DISSECT = [sys.executable, "-m", "ecmproto_cli", "dissect"]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "sample.pcap")


@pytest.mark.parametrize("exists", [False, True])
def test_missing_bundled_captures_are_explained(
    exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if exists:
        (tmp_path / "pcaps").mkdir()
    assert run(["dissect", "-r", "pcaps/mixed.pcap"]) == 3
    assert ("\nhelp: ecmproto demo -w pcaps writes" in capsys.readouterr().err) is not exists


def test_a_truncated_capture_is_shown_then_fails(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample.write_bytes(sample.read_bytes()[:-1])
    assert run(["dissect", "-r", str(sample), "-T", "json"]) == 3
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["frames"]) == len(FRAMES) - 1
    assert shown.err.endswith(f"\nhelp: the {len(FRAMES) - 1} frames before it were used\n")
    assert shown.err.startswith(f"ecmproto: {sample}: at octet ")


@pytest.mark.parametrize(("form", "shown"), [("line", ""), ("json", []), ("ndjson", "")])
def test_an_empty_capture_shows_nothing(
    form: str, shown: object, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.write_bytes(sample.read_bytes()[:24])
    assert run(["dissect", "-r", str(sample), "-T", form]) == 0
    got = capsys.readouterr()
    assert got.err == "0 frames\n"
    assert (json.loads(got.out)["frames"] if form == "json" else got.out) == shown


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("missing.pcap", None, "No such file"),
        ("empty.pcap", b"", "got 0 octets"),
        ("text.pcap", b"Dear diary, today", "expected a pcap or pcapng capture"),
        ("half.pcap", bytes.fromhex("d4c3b2a1020004"), "expected a pcap header of 24 octets"),
    ],
)
def test_files_that_are_no_captures_fail(
    name: str, content: bytes | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["dissect", "-r", str(tmp_path / name)]) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-e", "cnm.qtz_fb"], "did you mean 'cnm.qntz_fb'?"),
        (["-T", "fields"], "-T fields needs a field"),
        (["-T", "json", "-e", "eth.src"], "-e needs -T fields, csv, parquet or arrow"),
        (["-V", "-e", "eth.src"], "-e needs -T fields"),
        (["-V", "-T", "json"], "-V means -T tree"),
        (["-x", "-T", "ndjson"], "-x needs lines or -V"),
        (["--deep", "-T", "line"], "--deep needs -V"),
        (["-E", "header=y"], "-E header needs -T fields"),
        (["-w", "-", "-V"], "-w - writes the copy to stdout"),
        (["-c", "0"], "0 is not in the range x>=1"),
        (["-T", "yaml"], "'yaml' is not one of"),
        (["--ethertype", "nothing=1"], "got 'nothing'"),
        (["--ethertype", "cnm=5"], "expected 0x0600..0xffff"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: list[str], told: str, sample: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dissect", "-r", str(sample), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert told in shown.err


def test_count_limits_the_frames_shown(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", str(sample), "-c", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_another_ethertype_is_decoded(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["dissect", "-r", str(sample), "-e", "frame.protocols", "-c", "3", "--ethertype", "cnm=0x22e8"])
        == 0
    )
    assert capsys.readouterr().out.splitlines()[2] == "eth:vlan:cntag:data"


def test_deep_adds_the_layers_of_scapy(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["dissect", "-r", str(sample), "-c", "1", "--deep"]) == 0
    shown = capsys.readouterr().out
    assert "udp.dstport   4711" in shown
    assert "dport = 4711" in shown


def test_copy_is_lossless_and_quiet(sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy.pcap"
    assert run(["dissect", "-r", str(sample), "-w", str(copy)]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"{len(FRAMES)} frames written to {copy}\n")
    assert copy.read_bytes() == sample.read_bytes()


def test_the_shown_frames_are_copied(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.pcap"
    assert run(["dissect", "-r", str(sample), "-w", str(copy), "-c", "1", "-e", "eth.src"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert copy.read_bytes() == sample.read_bytes()[: 24 + 16 + len(FRAMES["data"])]


def pcapng(major: int, *ticks: int) -> bytes:
    """Return a pcapng section with the given version, an Ethernet interface in µs, and a frame for each
    time.
    """
    frame = next(iter(FRAMES.values()))
    bodies = [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, major, 0, -1)), (1, struct.pack("<HHI", 1, 0, 0))]
    for tick in ticks:
        head = struct.pack("<IIIII", 0, tick >> 32, tick & 0xFFFFFFFF, len(frame), len(frame))
        bodies.append((6, head + frame + bytes(-len(frame) % 4)))
    return b"".join(
        struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
        for kind, body in bodies
    )


@pytest.mark.parametrize("major", [0, 2])
def test_pcapng_of_another_major_version_is_refused(
    major: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.pcapng").write_bytes(pcapng(major, 1))
    assert run(["dissect", "-r", str(tmp_path / "other.pcapng")]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert f"expected pcapng version 1, got version {major}.0" in err


def test_copies_keep_times_beyond_64_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    octets = pcapng(1, 5, (1 << 64) - 7, 1 << 63)
    (tmp_path / "far.pcapng").write_bytes(octets)
    assert run(["dissect", "-r", str(tmp_path / "far.pcapng"), "-w", str(tmp_path / "copy.pcapng")]) == 0
    assert (tmp_path / "copy.pcapng").read_bytes() == octets
    assert run(["dissect", "-r", str(tmp_path / "far.pcapng"), "-T", "ndjson"]) == 0
    out, err = capsys.readouterr()
    times = [json.loads(line)["time_ns"] for line in out.splitlines()]
    assert times == [5_000, ((1 << 64) - 7) * 1000, 1000 << 63]
    assert "times beyond 64 bits of nanoseconds are clamped in calculations" in err


def test_existing_file_is_kept_without_force(
    sample: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(b"mine")
    assert run(["dissect", "-r", str(sample), "-w", str(copy)]) != 0
    assert "--force" in capsys.readouterr().err
    assert copy.read_bytes() == b"mine"
    assert run(["dissect", "-r", str(sample), "-w", str(copy), "--force"]) == 0
    assert copy.read_bytes() == sample.read_bytes()


def test_other_link_types_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "usb.pcap"
    with open_sink(path) as sink:
        PcapWriter(sink, linktype=189).write_batch(Batch.from_frames([b"one", b"two"]))
    assert run(["dissect", "-r", str(path)]) == 0
    shown = capsys.readouterr()
    assert shown.out.count("link type USB_LINUX (189)") == 2
    assert shown.err == "2 frames of link type USB_LINUX (189) not decoded\n"


def test_compressed_stdin_is_read(sample: Path) -> None:
    done = subprocess.run(
        [*DISSECT, "-r", "-", "-e", "frame.number"],
        input=gzip.compress(sample.read_bytes()),
        capture_output=True,
        check=True,
    )
    assert done.stdout.split() == [str(n + 1).encode() for n in range(len(FRAMES))]


def many_frames(path: Path, count: int) -> Path:
    with open_sink(path) as sink:
        PcapWriter(sink).write_batch(Batch.from_frames([FRAMES["arp"]] * count))
    return path


def test_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    path = many_frames(tmp_path / "many.pcap", 20_000)
    with subprocess.Popen(
        [*DISSECT, "-r", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"    1 ")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def waiting_octets(pipe: IO[bytes]) -> int:
    """Return the number of octets that are pending in a pipe."""
    count = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


def test_an_interrupted_document_is_well_formed(tmp_path: Path) -> None:
    path = many_frames(tmp_path / "many.pcap", 100_000)
    with subprocess.Popen(
        [*DISSECT, "-r", str(path), "-T", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out = process.stdout.readline()
        # until the pipe is full and the interrupt comes in the middle of a write
        until = time.monotonic() + PATIENCE_S
        while waiting_octets(process.stdout) < fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ) - 16384:
            assert time.monotonic() < until, "the pipe does not fill"
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out += process.stdout.read()
        err = process.stderr.read()
    assert process.returncode == 130
    assert err.strip() == b"ecmproto: interrupted"
    assert 0 < len(json.loads(out)["frames"]) < 100_000


def test_terminal_gets_colour_and_no_progress_bar(sample: Path) -> None:
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*DISSECT, "-r", str(sample), "-c", "3"], stdout=follower, stderr=follower, env=environment
    ) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the terminal is gone with its last user
                break
            if not piece:
                break
            shown += piece
    os.close(leader)
    assert process.returncode == 0
    assert b"\x1b[33mCNM  \x1b[0m" in shown
    assert shown.count(b"\r") == 3


COMPARED = {
    "the-tcpdump-group-tcpdump/dcb_qcn.pcap": (
        "eth.dst", "eth.src", "eth.type", "eth.len", "lldp.tlv.type", "lldp.tlv.len",
        "lldp.ieee.802_1qau.cnpv.prio5", "lldp.ieee.802_1qau.cnpv.prio4", "lldp.ieee.802_1qau.ready.prio5",
    ),
    "ntop-PF_RING/QinQpacket.pcap": ("eth.dst", "eth.src", "eth.type"),
    "cisco-system-traffic-generator-trex-core/tcp2_http_vlan_s.pcap": (
        "eth.dst", "eth.src", "vlan.id", "vlan.priority", "vlan.dei", "vlan.etype", "ip.src", "ip.dst",
        "tcp.srcport", "tcp.dstport", "tcp.seq_raw",
    ),
    "DNS-OARC-PacketQ/sample-bigendian.pcap.gz": ("eth.src", "eth.type"),
}  # fmt: skip
RECORD_FIELDS = ("frame.number", "frame.time_epoch", "frame.len", "frame.cap_len")


@pytest.mark.parametrize("name", COMPARED)
def test_rows_equal_those_of_tshark(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    tshark = requires("tshark")
    path = SHARED_CAPTURES / name
    if not path.exists():
        pytest.skip(f"{path} is not there: no real capture to compare on")
    fields = [word for field in (*RECORD_FIELDS, *COMPARED[name]) for word in ("-e", field)]
    theirs = subprocess.run(
        [tshark, "-r", str(path), "-T", "fields", *fields], capture_output=True, check=True, text=True
    ).stdout
    assert run(["dissect", "-r", str(path), *fields]) == 0
    assert capsys.readouterr().out.splitlines() == theirs.splitlines()


def test_flow_control_fields_equal_those_of_tshark(sample: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tshark = requires("tshark")
    names = [*RECORD_FIELDS, "eth.dst", "eth.src", "macc.opcode", "macc.pause_time", "macc.cbfc.enbv"]
    names += [f"macc.cbfc.{part}.c{n}" for n in range(8) for part in ("enbv", "pause_time")]
    fields = [word for name in names for word in ("-e", name)]
    theirs = subprocess.run(
        [tshark, "-r", str(sample), "-Y", "macc", "-T", "fields", *fields],
        capture_output=True, check=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    assert run(["dissect", "-r", str(sample), *fields]) == 0
    ours = capsys.readouterr().out.splitlines()
    assert theirs
    assert [
        line for line in ours if "\t0x0001\t" in line or "\t0x0101\t" in line or "\t0x0002\t" in line
    ] == theirs
