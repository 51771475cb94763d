"""Statistics, compared with tshark and capinfos for contents that both decode."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ecmproto.frames.capture import Batch, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.capture.batch import Interface
from ecmproto.frames.stats import Statistics, capture_stats
from ecmproto.tools.fuzz.strategies import frame_of
from ecmproto.wire.codec import ARP, TCP, UDP, VLAN, Data, Ethernet, IPv4, IPv6, encode
from ecmproto_cli.main import run
from pcaps.manifest import FOLDER
from tests.cli.test_replay import congested_capture

MACC = ("pause", "pfc", "macc")
KNOWN = ("vlan", "ieee8021ad", "ieee8021ah", "ip", "ipv6", "tcp", "udp", "arp", "lldp")
BUNDLED = ("vlan_stacks.pcap", "pause.pcap", "pfc.pcap", "lldp_cn.pcap", "dcbx.pcap")
UNKNOWN = ("not cntag", "not (eth.type == 0x22e9 or vlan.etype == 0x22e9)")
"""A filter without the tags at which tshark stops: for us, and for tshark."""

_PHS = re.compile(r"^( *)(\S+) +frames:(\d+) bytes:(\d+)$", re.MULTILINE)
_STAT = re.compile(r"^\| *[\d.]+ <> +(?:[\d.]+|Dur) *\| *(\d+) \| *(\d+) \|$", re.MULTILINE)
_SIZE = re.compile(r"^ (\d+)(?:-\d+| and greater) +(\d+) ", re.MULTILINE)


def told(tshark: str, path: Path, *arguments: str) -> str:
    command = [tshark, "-n", "-q", "-r", str(path), "-o", "ip.defragment:FALSE", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hierarchy(text: str) -> Counter[tuple[str, str]]:
    """Return frames and octets by protocol, a protocol within itself not again."""
    counts: Counter[tuple[str, str]] = Counter()
    path: list[str] = []
    for indent, name, frames, octets in _PHS.findall(text):
        path[len(indent) // 2 :] = [name]
        if name not in path[:-1]:
            counts[name, "frames"] += int(frames)
            counts[name, "octets"] += int(octets)
    return counts


def assert_same_kinds(statistics: Statistics, tshark: str, path: Path) -> None:
    wanted = hierarchy(told(tshark, path, "-z", f"io,phs,{UNKNOWN[1]}"))
    kinds = {each.kind.name: each for each in statistics.kinds}
    for name in KNOWN:
        frames, octets = (kinds[name].frames, kinds[name].octets) if name in kinds else (0, 0)
        assert (frames, octets) == (wanted[name, "frames"], wanted[name, "octets"]), name
    assert sum(kinds[name].frames for name in MACC if name in kinds) == wanted["macc", "frames"]
    assert wanted["eth", "frames"] == statistics.frames


def plain_capture(path: Path) -> None:
    """Write frames of all formats that tshark has, in VLANs and without; it counts time in whole µs."""
    tops = [(VLAN(id=5), VLAN(id=6)), (VLAN(id=7),), ()]
    inner = [
        (IPv4(proto=6), TCP()), (IPv4(proto=17), UDP(srcport=9, dstport=9), Data(data=bytes(700))),
        (IPv6(nxt=17), UDP(srcport=9, dstport=9)), (ARP(),), (IPv4(proto=89), Data(data=bytes(1300))),
    ]  # fmt: skip
    frames = [encode(frame_of([Ethernet(), *tags, *rest])) for tags in tops for rest in inner]
    with PcapWriter(path) as writer:
        writer.write_batch(Batch.from_frames(frames * 7, time_ns=[10**18 + 123_000 * i for i in range(105)]))


@pytest.mark.parametrize("name", BUNDLED)
def test_kinds_of_bundled_captures(name: str, tshark: str) -> None:
    assert_same_kinds(capture_stats(FOLDER / name, filter=UNKNOWN[0]), tshark, FOLDER / name)


def test_kinds_of_plain_frames(tmp_path: Path, tshark: str) -> None:
    path = tmp_path / "plain.pcap"
    plain_capture(path)
    assert_same_kinds(capture_stats(path), tshark, path)


def test_tags_of_all_frames(tshark: str) -> None:
    path = FOLDER / "mixed.pcap"
    wanted = hierarchy(told(tshark, path, "-z", "io,phs"))
    kinds = {each.kind.name: each.frames for each in capture_stats(path).kinds}
    assert (kinds["vlan"], kinds["ieee8021ad"]) == (wanted["vlan", "frames"], wanted["ieee8021ad", "frames"])


@pytest.mark.parametrize("interval", ["0.002", "0.0005"])
def test_rates_over_time(interval: str, tmp_path: Path, tshark: str) -> None:
    path = tmp_path / "plain.pcap"
    plain_capture(path)
    statistics = capture_stats(path, interval_ns=int(float(interval) * 10**9))
    rows = _STAT.findall(told(tshark, path, "-z", f"io,stat,{interval}"))
    assert [int(frames) for frames, _ in rows] == list(statistics.frames_over_time)
    assert [int(octets) for _, octets in rows] == list(statistics.octets_over_time)


@pytest.mark.parametrize("name", ["hotspot.pcap.gz", "mixed.pcap", "malformed.pcapng"])
def test_sizes(name: str, tshark: str) -> None:
    rows = _SIZE.findall(told(tshark, FOLDER / name, "-z", "plen,tree"))
    buckets = capture_stats(FOLDER / name).sizes.buckets
    assert [(each.low, each.frames) for each in buckets] == [(int(low), int(count)) for low, count in rows]


@pytest.mark.parametrize("name", ["hotspot.pcap.gz", "mixed.pcap", "qcn_cp.pcapng"])
def test_totals(name: str, needs: Callable[[str], str]) -> None:
    command = [needs("capinfos"), "-M", "-T", "-r", "-c", "-d", "-u", "-i", "-x", "-o", str(FOLDER / name)]
    row = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\t")
    statistics = capture_stats(FOLDER / name)
    assert [int(row[1]), int(row[2])] == [statistics.frames, statistics.octets]
    assert round(float(row[3]) * 10**9) == statistics.span.duration_ns
    assert (row[6].strip() == "True") == (statistics.backwards_frames == 0)
    # capinfos reckons rates from seconds since 1970 as floats: to about a µs
    rates = [statistics.span.per_second(8 * statistics.octets), statistics.span.per_second(statistics.frames)]
    assert [float(row[4]), float(row[5])] == pytest.approx(
        rates, rel=1000 / statistics.span.duration_ns, abs=0.01
    )


def test_pauses_equal_the_time_a_replay_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gates of simulated stations are another text: their sums equal the frames' requests."""
    path, out = tmp_path / "in.pcapng", tmp_path / "paused.pcapng"
    congested_capture(path)
    # The capture lasts until the last pause has ended: a replay counts no time beyond its last frame.
    longer = tmp_path / "longer.pcapng"
    last = bytes.fromhex("020202020202 040404040404 88b7").ljust(60, b"\0")
    with (
        open_capture(path) as reader,
        PcapngWriter(str(longer), interfaces=[Interface(index=0, linktype=1)]) as writer,
    ):
        for batch in reader:
            for octets, time_ns in zip(batch.frames(), batch.time_ns.tolist(), strict=True):
                writer.write_frame(octets, time_ns)
        writer.write_frame(last, 2 * 10**9)
    arguments = ["--cp", "pfc", "--rp", "pfc", "--speed", "4G", "--link-speed", "10G", "--buffer", "60kB"]
    assert run(["replay", "-r", str(longer), *arguments, "--seed", "1", "-T", "json", "-w", str(out)]) == 0
    stations = json.loads(capsys.readouterr().out)["stations"]
    pauses = capture_stats(out).pauses
    assert pauses is not None
    (sender,) = pauses.senders
    assert sender.frames > 2
    assert sender.paused_ns == stations["paused_ns"] == stations["paused_sum_ns"] > 0
