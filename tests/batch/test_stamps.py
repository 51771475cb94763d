"""Time stamps of taps and switches: the times, ports and frames from before the device added the stamps."""

from __future__ import annotations

import random
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ecmproto.errors import ParameterError
from ecmproto.frames.batch.inner import open_innermost
from ecmproto.frames.batch.stamps import STAMPS, StampedReader
from ecmproto.frames.capture import PcapngWriter, open_capture
from ecmproto.frames.capture.batch import ETHERNET, Interface
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.batch.test_inner import WRAPPERS, written

NS = 10**9
START_NS = 1_700_000_000 * NS
CAPTURED_AFTER_NS = 777_777
FRAMES = [encode(build(f"vlan id=5 ip udp dstport={n} data data=" + "ab" * (n % 70))) for n in range(1, 301)]
TIMES = [START_NS + 1_000 * n + n % 7 for n in range(300)]
Stamper = Callable[[bytes, int, int], bytes]


def fcs(octets: bytes) -> bytes:
    return zlib.crc32(octets).to_bytes(4, "little")


def metamako(frame: bytes, time_ns: int, port: int) -> bytes:
    return frame + fcs(frame) + struct.pack("!IIBHB", time_ns // NS, time_ns % NS, 1, 1200, port)


def exablaze(frame: bytes, time_ns: int, port: int) -> bytes:
    fraction = (time_ns % NS << 40) // NS + 1
    return frame + fcs(frame) + struct.pack("!BBI", 7, port, time_ns // NS) + fraction.to_bytes(5) + b"\0"


def arista64(frame: bytes, time_ns: int, port: int) -> bytes:
    stamp = struct.pack("!HHHII", 0xD28B, 1, 0x10, time_ns // NS, time_ns % NS)
    return frame[:12] + stamp + frame[12:]


def arista48(frame: bytes, time_ns: int, port: int) -> bytes:
    stamp = struct.pack("!HHHHI", 0xD28B, 1, 0x120, time_ns // NS & 0xFFFF, time_ns % NS)
    return frame[:12] + stamp + frame[12:]


def ixia(frame: bytes, time_ns: int, port: int) -> bytes:
    tail = struct.pack("!BBIIBH", 3 + port, 8, time_ns // NS, time_ns % NS, 10, 0xAF12)
    total = sum(int.from_bytes(tail[at : at + 2].ljust(2, b"\0")) for at in range(0, 13, 2))
    return frame + tail + (0xFFFF - (total % 0xFFFF or 0xFFFF)).to_bytes(2)


STAMPERS: dict[str, tuple[str, Stamper]] = {
    "metamako": ("metamako", metamako),
    "exablaze": ("exablaze", exablaze),
    "arista 64 bit": ("arista7280", arista64),
    "arista 48 bit": ("arista7280", arista48),
    "ixia": ("ixia", ixia),
}


def stamped(stamper: Stamper, *, new_fcs: bool = False) -> list[bytes]:
    frames = [
        stamper(frame, time_ns, n % 3) for n, (frame, time_ns) in enumerate(zip(FRAMES, TIMES, strict=True))
    ]
    return [frame + fcs(frame) for frame in frames] if new_fcs else frames


def capture(path: Path, frames: list[bytes], original: list[int] | None = None) -> Path:
    return written(path, frames, [time + CAPTURED_AFTER_NS for time in TIMES[: len(frames)]], original)


def read(path: Path, device: str) -> tuple[list[bytes], list[int], list[str], StampedReader]:
    frames, times, names, lengths = [], [], [], []
    reader = StampedReader(open_capture(str(path), batch_frames=100), device)
    with reader:
        for batch in reader:
            frames += list(batch)
            times += batch.time_ns.tolist()
            lengths += batch.original.tolist()
            names += [reader.interfaces[number].name for number in batch.interface.tolist()]
    assert lengths == [len(frame) for frame in frames]
    return frames, times, names, reader


@pytest.mark.parametrize("asked", ["by name", "auto"])
@pytest.mark.parametrize("name", STAMPERS)
def test_stamp_is_removed_and_gives_the_time(name: str, asked: str, tmp_path: Path) -> None:
    device, stamper = STAMPERS[name]
    path = capture(tmp_path / "tap.pcap", stamped(stamper))
    frames, times, names, reader = read(path, device if asked == "by name" else "auto")
    assert frames == FRAMES
    assert times == TIMES
    source = {"metamako": "metamako 1200 port", "exablaze": "exablaze 7 port"}.get(device)
    assert names == [f"{source} {n % 3}" if source else "" for n in range(300)]
    assert reader.summary == (
        f"{device} stamps are the times of 300 frames, −777.8 µs to −777.8 µs from the capture's"
    )


@pytest.mark.parametrize("name", ["metamako", "exablaze"])
def test_new_fcs_is_removed_with_the_stamp(name: str, tmp_path: Path) -> None:
    path = capture(tmp_path / "tap.pcap", stamped(STAMPERS[name][1], new_fcs=True))
    frames, times, _, _ = read(path, name)
    assert (frames, times) == (FRAMES, TIMES)


def test_frame_without_stamp_keeps_time_and_disables_auto(tmp_path: Path) -> None:
    mixed = stamped(metamako)
    mixed[5] = FRAMES[5]
    path = capture(tmp_path / "tap.pcap", mixed)
    frames, times, names, reader = read(path, "metamako")
    assert frames == FRAMES
    assert times == [time if n != 5 else time + CAPTURED_AFTER_NS for n, time in enumerate(TIMES)]
    assert names[5] == ""
    assert reader.summary.endswith(", 1 frame without one")
    frames, _, _, reader = read(path, "auto")
    assert frames == mixed
    assert reader.summary == "no time stamps of any device in the frames"


def test_wrong_original_fcs_is_counted(tmp_path: Path) -> None:
    frames = stamped(metamako)
    frames[7] = b"\xff" + frames[7][1:]
    path = capture(tmp_path / "tap.pcap", frames)
    assert read(path, "metamako")[3].summary.endswith(", the original FCS of 1 frame is wrong")
    assert read(path, "auto")[3].summary == "no time stamps of any device in the frames"


def test_cut_frames_have_no_trailer(tmp_path: Path) -> None:
    frames = stamped(metamako)
    path = written(tmp_path / "tap.pcap", [frames[0], frames[1][:-1]], TIMES, [len(each) for each in frames])
    with StampedReader(open_capture(str(path)), "metamako") as reader:
        assert [list(batch) for batch in reader] == [[FRAMES[0], frames[1][:-1]]]


def test_other_frames_have_no_stamps(tmp_path: Path) -> None:
    path = capture(tmp_path / "plain.pcap", FRAMES)
    for device in (*STAMPS, "auto"):
        if device in ("arista7150", "ixia-counter"):
            continue  # four octets are four octets
        frames, _, _, reader = read(path, device)
        assert frames == FRAMES
        assert reader.summary.startswith("no time stamps of ")


def test_mutated_stamps_stay_within_the_frame(tmp_path: Path) -> None:
    draw = random.Random(11)
    frames = []
    for n in range(3000):
        stamper = draw.choice([stamper for _, stamper in STAMPERS.values()])
        octets = bytearray(stamper(FRAMES[n % 300], TIMES[n % 300], 1))
        for _ in range(draw.randrange(3)):
            octets[draw.randrange(len(octets))] = draw.randrange(256)
        frames.append(bytes(octets[: draw.randrange(len(octets) + 1)] if n % 2 else octets))
    path = written(tmp_path / "mutated.pcap", frames, [TIMES[n % 300] for n in range(3000)])
    for device in STAMPS:
        made = read(path, device)[0]
        assert len(made) == 3000
        assert all(len(new) <= len(old) for new, old in zip(made, frames, strict=True))


def test_thousands_of_ports_share_an_interface(tmp_path: Path) -> None:
    frames = [
        FRAMES[0] + fcs(FRAMES[0]) + struct.pack("!IIBHB", START_NS // NS, 0, 1, n, 1) for n in range(3000)
    ]
    path = written(tmp_path / "tap.pcap", frames, [START_NS] * 3000)
    reader = read(path, "metamako")[3]
    assert len(reader.interfaces) == 1025


def test_interfaces_report_the_fcs_as_removed(tmp_path: Path) -> None:
    path = str(tmp_path / "tap.pcapng")
    interface = Interface(index=0, linktype=ETHERNET, fcs_octets=4, ticks_per_second=NS)
    with PcapngWriter(path, interfaces=[interface]) as writer:
        for frame, time_ns in zip(stamped(exablaze, new_fcs=True), TIMES, strict=True):
            writer.write_frame(frame, time_ns)
    with StampedReader(open_capture(path), "auto") as reader:
        assert [list(batch) for batch in reader] == [FRAMES]
    assert [each.fcs_octets for each in reader.interfaces] == [4, 0, 0, 0]


DELAYS_NS = [(n * 7919) % 20_000 for n in range(300)]
"""Delay of each frame between the device and the capture, in ns."""


def slow(tmp_path: Path, frames: list[bytes], apart_ns: int) -> Path:
    times = [START_NS + apart_ns * n + delay for n, delay in enumerate(DELAYS_NS)]
    return written(tmp_path / "tap.pcap", frames, times)


@pytest.mark.parametrize("new_fcs", [False, True])
@pytest.mark.parametrize(("device", "tick_ns", "bits"), [("arista7150", 20 / 7, 31), ("ixia-counter", 5, 32)])
def test_counters_continue_from_first_capture_time(
    device: str, tick_ns: float, bits: int, new_fcs: bool, tmp_path: Path
) -> None:
    # the counter wraps each 6.1 s and 21.5 s
    ticks = [(12345 + round(n * NS / 2 / tick_ns)) % 2**bits for n in range(300)]
    if bits == 31:
        ticks = [count >> 7 << 8 | count & 0x7F for count in ticks]
    frames = [frame + count.to_bytes(4) for frame, count in zip(FRAMES, ticks, strict=True)]
    path = slow(tmp_path, [frame + fcs(frame) for frame in frames] if new_fcs else frames, NS // 2)
    made, times, _, reader = read(path, device)
    assert made == FRAMES
    assert max(abs(time - START_NS - n * NS // 2) for n, time in enumerate(times)) <= tick_ns
    assert f"{device} stamps are the times of 300 frames, −19.93 µs to " in reader.summary


@pytest.mark.parametrize(
    ("granularity", "tick_ns", "apart_ns"),
    [(0, 100_000, 3600 * NS), (1, 100, NS), (2, 1, NS // 2)],
)
@pytest.mark.parametrize("tags", [0, 2])
def test_the_clock_of_erspan_is_the_time(
    granularity: int, tick_ns: int, apart_ns: int, tags: int, tmp_path: Path
) -> None:
    outer = encode(build("ip proto=47 data data=00"))[:34]
    frames = []
    for n, frame in enumerate(FRAMES):
        word = n % 2 << 4 | granularity << 1  # two clocks of a switch, which begin at other times
        count = (n * apart_ns // tick_ns + (2**32 - 5 if n % 2 else 77)) % 2**32
        head = struct.pack("!HHIHHIHH", 0x1000, 0x22EB, n, 0x2000, 12, count, 0, word) + frame
        ip = outer[14:16] + (20 + len(head)).to_bytes(2) + outer[18:]
        frames.append(outer[:12] + b"\x81\x00\x00\x05" * tags + b"\x08\x00" + ip + head)
    path = slow(tmp_path, frames, apart_ns)
    made, times, _, reader = read(path, "erspan3")
    assert made == frames, "the header stays for who unwraps the frame"
    for n, time in enumerate(times):
        first = n % 2
        assert abs(time - START_NS - n * apart_ns - DELAYS_NS[first]) <= tick_ns
    assert reader.summary.startswith("erspan3 stamps are the times of 300 frames")
    with open_innermost((str(path),), trailer="erspan3") as opened:
        assert [octets for batch in opened for octets in batch] == FRAMES


def test_unknown_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = capture(tmp_path / "plain.pcap", FRAMES)
    with pytest.raises(ParameterError, match="metamako"):
        open_innermost((path,), trailer="gigamon")
    assert run(["stats", str(path), "--trailer", "gigamon"]) == 2
    assert (
        "metamako, exablaze, arista7280, arista7150, ixia, ixia-counter, erspan3, auto"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("command", [["stats"], ["check"], ["replay", "--cp", "qcn", "--seed", "1"]])
def test_commands_read_stamps_and_unwrap_inner_frames(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [
        metamako(WRAPPERS["ERSPAN I"](frame, 0), time, 1) for frame, time in zip(FRAMES, TIMES, strict=True)
    ]
    path = capture(tmp_path / "tap.pcap", frames)
    assert run([*command, str(path), "--trailer", "auto"]) == 0
    shown = capsys.readouterr()
    assert "metamako stamps are the times of 300 frames" in shown.err
    assert "unwrapped 300 frames" in shown.err


def test_dissect_writes_frames_without_stamps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = capture(tmp_path / "tap.pcap", stamped(arista48)), str(tmp_path / "bare.pcapng")
    assert run(["dissect", str(path), "--trailer", "arista7280", "-w", out]) == 0
    with open_capture(out) as reader:
        (batch,) = reader
        assert (list(batch), batch.time_ns.tolist()) == (FRAMES, TIMES)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("metamako", ["metamako.time", "metamako.srcport"]),
        ("exablaze", ["exablaze.timestamp", "exablaze.port"]),
        ("arista 64 bit", ["avsp.64sec", "avsp.64ns"]),
        ("arista 48 bit", ["avsp.48sec", "avsp.48ns"]),
    ],
)
def test_tshark_reads_the_same_stamps(name: str, fields: list[str], tshark: str, tmp_path: Path) -> None:
    device, stamper = STAMPERS[name]
    path = capture(tmp_path / "tap.pcap", stamped(stamper, new_fcs=device != "arista7280"))
    options = [part for field in fields for part in ("-e", field)]
    heuristic = [] if device == "arista7280" else ["--enable-heuristic", f"{device}_eth"]
    command = [tshark, "-n", "-r", str(path), *heuristic, "-T", "fields", *options]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env={"TZ": "UTC"}).stdout
    rows = [line.split("\t") for line in output.splitlines()]
    if device == "arista7280":
        bits = 16 if "48" in name else 32
        assert rows == [[str(time // NS % 2**bits), str(time % NS)] for time in TIMES]
    else:
        assert [row[0].partition(".")[2][:9] for row in rows] == [f"{time % NS:09d}" for time in TIMES]
        assert [int(row[1]) for row in rows] == [n % 3 for n in range(300)]


def test_tshark_reads_the_same_ixia_trailers(tshark: str, tmp_path: Path) -> None:
    bare = encode(build("ip udp dstport=9 data data=" + "ab" * 40))
    frames = [ixia(bare, time_ns, n % 5) for n, time_ns in enumerate(TIMES)]
    path = capture(tmp_path / "tap.pcap", [frame + fcs(frame) for frame in frames])
    command = [tshark, "-n", "-r", str(path), "-T", "fields", "-e", "ixiatrailer.timestamp"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env={"TZ": "UTC"}).stdout
    assert [line.partition(".")[2][:9] for line in output.splitlines()] == [f"{t % NS:09d}" for t in TIMES]
    assert read(path, "auto")[:2] == ([bare] * 300, TIMES)


def key(ticks: int, utc_ns: int, carrier: str = "") -> bytes:
    """Return a key frame with the format of the 7150's time stamps."""
    content = struct.pack("!QQQQQHHBB", ticks, utc_ns, ticks - 9, utc_ns + 500, 3, 1200, 7, 1, 0)
    if carrier.startswith("ip"):
        return encode(build(f"{carrier} udp dstport=50000 data data={content.hex()}"))
    return bytes.fromhex("010000000001020000000001" + carrier + "88b5") + content


@pytest.mark.parametrize("carrier", ["", "81000005", "ip", "ipv6"])
def test_key_frames_tie_the_counter_to_utc(carrier: str, tmp_path: Path) -> None:
    start, tick_ns = 0x0123_4567_89AB_CDEF, 20 / 7 * (1 + 20e-6)  # a clock that is 20 in a million slow
    frames, times, expected = [], [], []
    for n, frame in enumerate(FRAMES):
        time_ns = START_NS + n * NS // 10
        ticks = start + round((time_ns - START_NS) / tick_ns)
        if n % 40 == 7:
            frames.append(key(ticks, time_ns, carrier))
        else:
            count = ticks % 2**31
            frames.append(frame + (count >> 7 << 8 | count & 0x7F).to_bytes(4))
        times.append(time_ns + CAPTURED_AFTER_NS + DELAYS_NS[n])
        expected.append(FRAMES[n] if n % 40 != 7 else frames[n])
    made, got, _, reader = read(written(tmp_path / "tap.pcap", frames, times), "arista7150")
    assert made == expected
    apart = [abs(time - START_NS - n * NS // 10) for n, time in enumerate(got)]
    assert max(apart[47:]) <= 5
    # without an earlier key frame, ticks have the nominal length: 20 µs too short in a second
    assert max(apart[:47]) <= 4 * 20_000
    assert apart[7] == 0
    assert ", UTC by 8 key frames" in reader.summary


def test_key_frames_are_decoded_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "key.pcap", [key(700, START_NS)])
    given = ["--ethertype", "message=0x88b7", "--ethertype", "key_frame=0x88b5"]
    assert run(["dissect", str(path), *given]) == 0
    assert f"switch 1200 port 7 counter 700 is {START_NS} ns" in capsys.readouterr().out
    assert run(["dissect", str(path), *given, "-T", "fields", "-e", "keyframe.drops"]) == 0
    assert capsys.readouterr().out == "3\n"
