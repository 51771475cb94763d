"""Wrapped and unwrapped frames equal the original frames, octet for octet."""

from __future__ import annotations

import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from ecmproto.errors import EncodeError, SpecError
from ecmproto.frames.batch.inner import NAMES, open_innermost
from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter, comments, open_capture
from ecmproto.frames.capture.batch import RAW_IP
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.tools.edit import Edit, Wrapped, edit_capture, wrapper_from
from ecmproto.tools.edit.wrapping import WRAPPERS as DECLARED
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.batch.test_inner import BUNDLED, bare, written

WRAPPERS = [
    *DECLARED, "gre,key=7,sequence=4294967295", "gre,checksum=0,sequence=5",
    "nvgre,vsid=0xffffff,flow=3,src=2001:db8::1",
    "erspan2,session=1023,vlan=4095,cos=7,index=3,sequence=9",
    "erspan3,session=12,dst=2001:db8::2,timestamp=5",
    "vxlan,vni=77,dst=2001:db8::2,udp.srcport=50000", "geneve,vni=1,ip.ttl=33,eth.dst=02:00:00:00:00:99",
]  # fmt: skip
FRAME = encode(build("ip udp dstport=4791"))


def wrapped(path: Path, out: Path, *texts: str, **edit: object) -> Path:
    given = Edit(wrappers=tuple(map(wrapper_from, texts)), **edit)  # type: ignore[arg-type]
    report = edit_capture([path], out, given, force=True)
    assert report.problem is None
    return out


def frames_of(path: Path) -> list[bytes]:
    with open_capture(path) as reader:
        return [octets for batch in reader for octets in batch]


def unwrapped(path: Path, out: Path) -> Path:
    report = edit_capture([path], out, Edit(decap=True), force=True)
    assert report.problem is None
    return out


@pytest.mark.parametrize("text", WRAPPERS)
def test_unwrapping_undoes_wrapping(text: str, tmp_path: Path) -> None:
    for path in BUNDLED:
        frames, original, times = bare(path)
        plain = written(tmp_path / "plain.pcap", frames, times, original)
        mirror = wrapped(plain, tmp_path / "mirror.pcap", text)
        assert [len(each) for each in frames_of(mirror)] != [len(each) for each in frames]
        again = unwrapped(mirror, tmp_path / "again.pcap")
        assert again.read_bytes() == plain.read_bytes()
        for each in (plain, mirror, again):
            each.unlink()


def test_wrappers_nest_and_keep_pcapng(tmp_path: Path) -> None:
    path = BUNDLED[0].parent / "mixed.pcapng"
    mirror = wrapped(path, tmp_path / "mirror.pcapng", "vxlan,vni=5", "erspan2,session=12")
    with open_innermost((mirror,)) as reader:
        assert [octets for batch in reader for octets in batch] == frames_of(path)
        names = [each.name for each in reader.interfaces]
    assert names[1:] == ["ERSPAN II session 12"]
    again = unwrapped(mirror, tmp_path / "again.pcapng")
    with open_capture(path) as before, open_capture(again) as after:
        (one,), (other,) = list(before), list(after)
        assert list(one) == list(other)
        assert (one.time_ns == other.time_ns).all()
        assert [comments(one, n) for n in range(len(one))] == [comments(other, n) for n in range(len(other))]
        assert any(comments(one, n) for n in range(len(one)))
        assert [each.name for each in after.interfaces] == names


@pytest.mark.parametrize("byte_order", ["little", "big"])
def test_sessions_have_the_clock_of_their_wrapper(byte_order: str, tmp_path: Path) -> None:
    links = [Interface(index=n, linktype=1, name=name, snaplen=96) for n, name in enumerate("ab")]
    path = tmp_path / "in.pcapng"
    with PcapngWriter(path, interfaces=links, byte_order=byte_order, resolution="us") as writer:  # type: ignore[arg-type]
        for number in range(20):
            writer.write_frame(FRAME, 1_700_000_000_000_001_000 + number * 1000, interface=number % 2)
    mirror = wrapped(path, tmp_path / "mirror.pcapng", "gre")
    again = unwrapped(mirror, tmp_path / "again.pcapng")
    found = []
    for each in (path, again):
        with open_capture(each) as reader:
            (batch,) = list(reader)
            found.append((list(batch), batch.time_ns.tolist()))
            names = [reader.interfaces[number].name for number in batch.interface.tolist()]
    assert found[0] == found[1]
    assert names == ["a GRE", "b GRE"] * 10
    with open_capture(mirror) as reader:
        list(reader)
        assert {each.snaplen for each in reader.interfaces} == {96 + 38}


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_snap_length_grows_by_the_wrapper(form: str, tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    with PcapWriter(path, snaplen=40) as writer:
        writer.write_frame(FRAME[:40], 0, original=len(FRAME))
    mirror = wrapped(path, tmp_path / f"out.{form}", "vxlan")
    with open_capture(mirror) as reader:
        (batch,) = list(reader)
        assert reader.interfaces[0].snaplen == 40 + 50
        assert (batch.captured[0], batch.original[0]) == (90, len(FRAME) + 50)
    # the UDP checksum of a frame that is cut cannot be computed: there is none
    assert batch.frame(0)[40:42] == b"\0\0"
    with open_capture(unwrapped(mirror, tmp_path / "again.pcap")) as reader:
        (batch,) = list(reader)
        assert (batch.frame(0), int(batch.original[0])) == (FRAME[:40], len(FRAME))


def test_check_sequences_end_the_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    with PcapWriter(path, fcs_octets=4) as writer:
        for fcs in (zlib.crc32(FRAME), 0):
            writer.write_frame(FRAME + struct.pack("<I", fcs), 0)
    mirror = wrapped(path, tmp_path / "mirror.pcap", "gre")
    right, wrong = frames_of(mirror)
    assert right[38:-4] == wrong[38:-4] == FRAME
    assert right[-4:] == struct.pack("<I", zlib.crc32(right[:-4]))
    assert wrong[-4:] == bytes(4)
    assert frames_of(unwrapped(mirror, tmp_path / "again.pcap")) == [FRAME, FRAME]


def test_sequence_numbers_and_times_count_on(tmp_path: Path) -> None:
    path = written(tmp_path / "in.pcap", [FRAME] * 5, [n * 250_000 for n in range(5)])
    mirror = wrapped(path, tmp_path / "out.pcap", "erspan3,sequence=4294967294", filter=compile_filter("udp"))
    heads = [struct.unpack_from("!I4xI", octets, 38) for octets in frames_of(mirror)]
    assert heads == [((2**32 - 2 + n) % 2**32, n * 250_000 // 100_000) for n in range(5)]
    fine = wrapped(path, tmp_path / "fine.pcap", "erspan3,granularity=1")
    assert [struct.unpack_from("!I", octets, 46)[0] for octets in frames_of(fine)] == [
        n * 2500 for n in range(5)
    ]


def test_unwrappable_frames_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "in.pcapng"
    links = [Interface(index=0, linktype=1), Interface(index=1, linktype=RAW_IP)]
    with PcapngWriter(path, interfaces=links) as writer:
        writer.write_frame(FRAME, 0)
        writer.write_frame(FRAME[14:], 0, interface=1)
        writer.write_frame(FRAME, 0, original=65_536)
    report = edit_capture([path], tmp_path / "out.pcapng", Edit(wrappers=(wrapper_from("gre"),)))
    assert report.wrapped == [Wrapped(name="gre", frames=1, without=2)]
    assert frames_of(tmp_path / "out.pcapng")[1:] == [FRAME[14:], FRAME]


def test_edits_are_of_the_innermost_frames(tmp_path: Path) -> None:
    path = written(tmp_path / "in.pcap", [FRAME, encode(build("pfc prio3=5"))])
    mirror = wrapped(path, tmp_path / "mirror.pcap", "erspan1")
    out = tmp_path / "out.pcap"
    edit = Edit(decap=True, filter=compile_filter("pfc"), drop="others", wrappers=(wrapper_from("tzsp"),))
    report = edit_capture([mirror], out, edit)
    assert (report.read, report.written, report.changed) == (2, 1, 1)
    assert frames_of(out)[0].endswith(frames_of(path)[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("erspan4", "--encap: expected a wrapper, got 'erspan4'"),
        ("", "--encap: expected a wrapper, got ''"),
        ("vxlan,session=1", "--encap vxlan: expected a key, got 'session'"),
        ("vxlan,vni=16777216", "--encap vxlan,vni: expected an integer in 0..16777215, got '16777216'"),
        ("vxlan,vni=x", "--encap vxlan,vni: expected an integer in 0..16777215, got 'x'"),
        ("vxlan,vni=1,vni=2", "--encap: expected each value once, such as session=12, got 'vni=2'"),
        ("gre,udp.srcport=1", "--encap: expected a field of eth, ip, got 'udp.srcport'"),
        ("gre,src=10.0.0.300", "ip.src: expected an IPv4 address, got '10.0.0.300'"),
        ("gre,src=2001:db8::1,dst=10.0.0.1", "expected 16 octets, got 4"),
    ],
)
def test_invalid_wrappers_are_refused(text: str, message: str) -> None:
    with pytest.raises((SpecError, EncodeError)) as caught:
        wrapper_from(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", WRAPPERS)
def test_tshark_reads_wrapped_frames(text: str, tshark: str, tmp_path: Path) -> None:
    frames = [encode(build(f"eth src=02:00:00:00:01:{n:02x} ip udp dstport=9")) for n in range(20)]
    path = wrapped(written(tmp_path / "in.pcap", frames), tmp_path / "out.pcap", text)
    checks = [
        part for field in ("ip.check_checksum", "udp.check_checksum") for part in ("-o", f"{field}:TRUE")
    ]
    fields = ("eth.src", "ip.checksum.status", "udp.checksum.status", "_ws.expert.severity")
    shown = [part for field in fields for part in ("-e", field)]
    command = [tshark, "-n", "-r", str(path), *checks, "-T", "fields", *shown]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(frames)
    for line, frame in zip(lines, frames, strict=True):
        sources, ip, udp, expert = line.split("\t")
        assert bytes.fromhex(sources.split(",")[-1].replace(":", "")) == frame[6:12]
        # 1 is Good, 3 that there is no checksum, as of the inner frame
        assert set(ip.split(",")) <= {"1", ""}
        in_udp = DECLARED[text.partition(",")[0]][0].udp_ports
        assert udp.split(",")[0] in (("1",) if in_udp else ("1", "3", ""))
        assert expert == ""


def test_every_unwrapped_format_has_a_wrapper() -> None:
    unwrapped = {
        name.lower().replace(" iii", "3").replace(" ii", "2").replace(" i", "1") for name in NAMES[1:]
    }
    assert {name.replace("gpe", "vxlan-gpe") for name in DECLARED} == unwrapped - {"mpls", "sflow"}


def test_nothing_unwrapped_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path / "in.pcap", [FRAME]), tmp_path / "out.pcap"
    assert run(["edit", "-r", str(path), "-w", str(out), "--decap"]) == 1
    assert "unwrapped no frame" in capsys.readouterr().err
    assert run(["edit", "-r", str(path), "-w", str(out), "--force", "--encap", "erspan2,session=3"]) == 0
    assert "erspan2: added around 1 frame" in capsys.readouterr().err
    assert run(["edit", "-r", str(out), "-w", str(path), "--force", "--decap"]) == 0
    assert "unwrapped 1 frame (ERSPAN II 1)" in capsys.readouterr().err
