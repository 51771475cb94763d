"""Edited captures: unchanged octets, records, tags, times, selection and merging."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from ecmproto.errors import EncodeError, SpecError
from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter, comments, open_capture
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.edit import Edit, Tagged, edit_capture, frames_from, span_from, tag_from
from ecmproto.tools.edit.records import Clock
from ecmproto.tools.fuzz.strategies import DrawnCapture, captures
from ecmproto.wire.codec import VLAN, CNTag, Data, Ethernet, STag, decode, encode
from ecmproto.wire.codec.tags import TagFormat, without_tags
from ecmproto_cli.main import run
from tests.conftest import CI, REPOSITORY, SHARED_CAPTURES
from tests.tags import with_tag

PCAPS = REPOSITORY / "pcaps"
MIXED = PCAPS / "mixed.pcapng"
START_NS = 1_700_000_000_000_000_000


def frame(number: int, *, tagged: bool = True, octets: int = 46) -> bytes:
    tags = [VLAN(id=number % 4096), CNTag(flow_id=number, etype=0x88B7)] if tagged else []
    return encode(Ethernet(type=0x88B7), *tags, Data(data=bytes([number % 256]) * octets))


def tagged_frame(number: int) -> bytes:
    return encode(
        Ethernet(type=0x8100), VLAN(id=number % 4096, etype=0x22E9), CNTag(flow_id=number, etype=0x88B7),
        Data(data=bytes([number % 256]) * (40 + number % 7)), fix=False,
    )  # fmt: skip


def write_pcap(path: Path, frames: list[bytes], **options: object) -> Path:
    with PcapWriter(path, **options) as writer:  # type: ignore[arg-type]
        for number, octets in enumerate(frames):
            writer.write_frame(octets, START_NS + number * 1_000_000)
    return path


def write_pcapng(path: Path, frames: list[bytes], byte_order: str = "little") -> Path:
    links = (Interface(index=0, linktype=1, name="a"), Interface(index=1, linktype=1, name="b"))
    with PcapngWriter(path, interfaces=links, byte_order=byte_order) as writer:  # type: ignore[arg-type]
        for number, octets in enumerate(frames):
            writer.write_frame(
                octets, START_NS + number * 1_000_000, interface=number % 2,
                comment=f"frame {number}" if number % 3 else None,
            )  # fmt: skip
            if number % 5 == 4:
                order = "<" if byte_order == "little" else ">"
                writer.write_block(struct.pack(order + "III4sI", 0xBAD, 20, 7, b"abcd", 20))
    return path


def read(path: Path) -> list[tuple[int, int, bytes, int, int, tuple[str, ...]]]:
    """Return each frame's number, time, octets, length on the wire, interface and comments."""
    found = []
    with open_capture(path) as reader:
        for batch in reader:
            rows = zip(
                batch.numbers.tolist(), batch.time_ns.tolist(), batch, batch.original.tolist(),
                batch.interface.tolist(), strict=True,
            )  # fmt: skip
            found += [(*row, comments(batch, index)) for index, row in enumerate(rows)]
        assert reader.problem is None
    return found


BUNDLED = sorted(path for path in PCAPS.glob("*.pcap*") if path.suffix != ".gz")


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_without_an_edit_every_octet_stays(path: Path, tmp_path: Path) -> None:
    out = tmp_path / path.name
    report = edit_capture([path], out, Edit())
    assert out.read_bytes() == path.read_bytes()
    assert (report.written, report.changed) == (report.read, 0)


@settings(max_examples=25)
@given(capture=captures())
def test_an_edit_of_nothing_changes_no_octet(
    capture: DrawnCapture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    path, out = folder / "in", folder / "out"
    path.write_bytes(capture.octets)
    # a filter that selects nothing, and edits that would change all
    edit = Edit(filter=compile_filter("frame.number == 0"), fix=True, snap_octets=1, clock=Clock(shift_ns=5))
    edit_capture([path], out, edit)
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_retagging_keeps_the_rest_of_each_record(tmp_path: Path, form: str, byte_order: str) -> None:
    frames = [tagged_frame(n) for n in range(23)] + [frame(99, tagged=False)]
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    if form == "pcap":
        write_pcap(path, frames, byte_order=byte_order, resolution="us")
    else:
        write_pcapng(path, frames, byte_order)
    edit = Edit(
        strip=(CNTag,), tags=(tag_from("vlan id=77,priority=3"),), replace_tags=True,
        filter=compile_filter("vlan.id != 3"),
    )  # fmt: skip
    report = edit_capture([path], out, edit)
    kind = TagFormat(format=CNTag)
    for before, after in zip(read(path), read(out), strict=True):
        octets = before[2]
        if VLAN in decode(octets) and decode(octets)[VLAN].id != 3:
            octets, _ = with_tag(without_tags(octets, kind)[0], VLAN(id=77, priority=3))
        assert after == (*before[:2], octets, len(octets), *before[4:])
    assert (report.stripped, report.tagged) == (
        {"cntag": 22}, [Tagged(name="vlan", frames=22, replaced=22)],
    )  # fmt: skip
    assert (report.read, report.selected, report.changed) == (24, 22, 22)
    with open_capture(path) as one, open_capture(out) as other:
        assert [b.octets for b in one.items() if not isinstance(b, Batch)] == [
            b.octets for b in other.items() if not isinstance(b, Batch)
        ]


def test_tags_are_pushed_outside_in_the_order_given(tmp_path: Path) -> None:
    frames = [tagged_frame(7), frame(8, tagged=False), frame(9)[:13]]
    path, out = write_pcap(tmp_path / "in.pcap", frames), tmp_path / "out.pcap"
    texts = ("vlan id=5", "ieee8021ad id=6 priority=2", "ieee8021ad id=8")
    report = edit_capture([path], out, Edit(tags=tuple(map(tag_from, texts))))
    after = [each[2] for each in read(out)]
    assert after[2] == frames[2]
    for octets, before in zip(after[:2], frames, strict=False):
        stacked = decode(octets)
        assert [type(each) for each in stacked.layers[1:4]] == [STag, STag, VLAN]
        assert [(each.id, each.priority) for each in stacked.layers[1:4]] == [(8, 0), (6, 2), (5, 0)]  # type: ignore[attr-defined]
        assert octets[:12] + octets[24:] == before
    assert report.tagged == [
        Tagged(name=name, frames=2, without=1) for name in ("vlan", "ieee8021ad", "ieee8021ad")
    ]


def test_changed_simple_packet_blocks_become_enhanced(tmp_path: Path) -> None:
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    octets = tagged_frame(6)
    octets += bytes(-len(octets) % 4)
    simple = (
        struct.pack("<III", 3, 16 + len(octets), len(octets)) + octets + struct.pack("<I", 16 + len(octets))
    )
    with PcapngWriter(path) as writer:
        writer.write_block(simple)
        writer.write_block(simple)
    report = edit_capture([path], out, Edit(strip=(CNTag,), filter=compile_filter("frame.number == 2")))
    assert [each[2] for each in read(out)] == [octets, without_tags(octets, TagFormat(format=CNTag))[0]]
    assert len(report.warnings) == 1
    with open_capture(out) as reader:
        assert next(batch.timed for batch in reader).tolist() == [False, True]  # type: ignore[union-attr]
    edit_capture([path], out, Edit(snap_octets=20), force=True)
    assert [each[2:4] for each in read(out)] == [(octets[:20], len(octets))] * 2


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_snap_length_cuts_longer_frames(tmp_path: Path, form: str) -> None:
    frames = [frame(n, octets=n) for n in range(46, 60)]
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    (write_pcap if form == "pcap" else write_pcapng)(path, frames)
    report = edit_capture([path], out, Edit(snap_octets=70))
    for before, after in zip(read(path), read(out), strict=True):
        assert after == (*before[:2], before[2][:70], *before[3:])
    assert report.cut == sum(len(octets) > 70 for octets in frames)


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_times_are_shifted_and_scaled(tmp_path: Path, form: str) -> None:
    frames = [frame(n) for n in range(8)]
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    (write_pcap if form == "pcap" else write_pcapng)(path, frames)
    edit_capture([path], out, Edit(clock=Clock(shift_ns=-1_500_000_001)))
    assert [b[1] - a[1] for a, b in zip(read(path), read(out), strict=True)] == [-1_500_000_001] * 8
    edit_capture([path], out, Edit(clock=Clock(shift_ns=7, numerator=1, denominator=3)), force=True)
    assert [each[1] for each in read(out)] == [START_NS + 7 + n * 1_000_000 // 3 for n in range(8)]
    # The other records are unchanged.
    assert [each[2:] for each in read(out)] == [each[2:] for each in read(path)]


def test_times_round_down_and_are_counted(tmp_path: Path) -> None:
    path, out = write_pcap(tmp_path / "in.pcap", [frame(1)] * 3, resolution="us"), tmp_path / "out.pcap"
    report = edit_capture([path], out, Edit(clock=Clock(shift_ns=1500)))
    assert [each[1] - START_NS for each in read(out)] == [1000, 1_001_000, 2_001_000]
    assert (report.moved, report.rounded) == (3, 3)


@pytest.mark.parametrize("resolution", [6, 9, 10, 0x80 | 20])
def test_times_move_in_every_resolution(tmp_path: Path, resolution: int) -> None:
    path, out = tmp_path / "in.pcapng", tmp_path / "out.pcapng"
    ticks_per_second = 1 << (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    ticks = START_NS * ticks_per_second // 10**9 + 3
    body = struct.pack("<HHIHHB3xHH", 1, 0, 0, 9, 1, resolution, 0, 0)
    described = struct.pack("<II", 1, len(body) + 12) + body + struct.pack("<I", len(body) + 12)
    octets = frame(3)
    octets += bytes(-len(octets) % 4)
    head = struct.pack(
        "<7I", 6, 32 + len(octets), 0, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), len(octets)
    )
    with PcapngWriter(path, interfaces=()) as writer:
        writer.write_block(described)
        writer.write_block(head + octets + head[4:8])
    edit_capture([path], out, Edit(clock=Clock(shift_ns=2_000_000_000)))
    high, low = struct.unpack_from("<II", out.read_bytes(), len(path.read_bytes()) - 32 - len(octets) + 12)
    assert high << 32 | low == ticks + 2 * ticks_per_second


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_unrepresentable_time_is_refused(tmp_path: Path, form: str) -> None:
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    (write_pcap if form == "pcap" else write_pcapng)(path, [frame(1)])
    for shift in (-START_NS - 1, 1 << 70):
        with pytest.raises(EncodeError, match="time"):
            edit_capture([path], out, Edit(clock=Clock(shift_ns=shift)))
    assert not out.exists()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2-3", [2, 3]),
        ("1,4-", [1, 4, 5, 6]),
        ("-2,2-3", [1, 2, 3]),
        ("6", [6]),
        ("7-", []),
        (" 1 , 3 ", [1, 3]),
    ],
)
def test_frames_are_selected_by_number(tmp_path: Path, text: str, numbers: list[int]) -> None:
    path = write_pcap(tmp_path / "in.pcap", [frame(n) for n in range(1, 7)])
    edit_capture([path], tmp_path / "out.pcap", Edit(frames=frames_from(text)))
    assert [each[2] for each in read(tmp_path / "out.pcap")] == [frame(n) for n in numbers]


@pytest.mark.parametrize("text", ["", "-", "0", "3-2", "a", "1-2-3", "1,,2", "0x1"])
def test_invalid_frame_numbers_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        frames_from(text)


@pytest.mark.parametrize(
    ("start", "stop", "numbers"),
    [
        ("2ms", None, [2, 3, 4, 5]), ("+2ms", "4ms", [2, 3]), (None, "1700000000.001", [0]),
        ("2023-11-14T22:13:20.003Z", None, [3, 4, 5]), ("2023-11-14 22:13:20.004", "1h", [4, 5]),
        ("2023-11-15T00:13:20.005+02:00", None, [5]), ("1700000000.005000001", None, []),
    ],
)  # fmt: skip
def test_frames_are_selected_by_time(
    tmp_path: Path, start: str | None, stop: str | None, numbers: list[int]
) -> None:
    path = write_pcap(tmp_path / "in.pcap", [frame(n) for n in range(6)])
    edit_capture([path], tmp_path / "out.pcap", Edit(span=span_from(start, stop)))
    assert [each[0] for each in read(tmp_path / "out.pcap")] == list(range(len(numbers)))
    assert [each[2] for each in read(tmp_path / "out.pcap")] == [frame(n) for n in numbers]


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2023-13-01", "-1ms", "1700000000.1234567891", "2023-11-14T1."]
)
def test_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--from"):
        span_from(text, None)


def test_filter_keeps_or_deletes_frames(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "in.pcap", [frame(n) for n in range(9)])
    for drop, kept in (("selected", [0, 2, 4, 6, 8]), ("others", [1, 3, 5, 7])):
        out = tmp_path / f"{drop}.pcap"
        edit_capture([path], out, Edit(filter=compile_filter("frame.number in {2,4,6,8}"), drop=drop))
        assert [each[2] for each in read(out)] == [frame(n) for n in kept]


def test_equal_times_keep_the_order_of_files(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    paths, every = [], []
    for number in range(3):
        paths.append(tmp_path / f"{number}.pcap")
        with PcapWriter(paths[-1]) as writer:
            for index, time_ns in enumerate(np.sort(random.integers(0, 9, 30)).tolist()):
                writer.write_frame(frame(100 * number + index), time_ns)
                every.append((time_ns, frame(100 * number + index)))
    edit_capture(paths, tmp_path / "out.pcapng", Edit())
    assert [each[1:3] for each in read(tmp_path / "out.pcapng")] == sorted(every, key=lambda each: each[0])


needs_mergecap = pytest.mark.skipif(not shutil.which("mergecap") and not CI, reason="needs mergecap")


@needs_mergecap
def test_merging_equals_that_of_mergecap(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    paths = []
    # Of frames with equal times, mergecap writes frames of the last file first.
    every = random.permutation(160).reshape(4, 40)
    for number in range(4):
        path = tmp_path / f"{number}.pcap"
        times = START_NS + np.sort(every[number]) * 1000
        with PcapWriter(path) as writer:
            for index, time_ns in enumerate(times.tolist()):
                writer.write_frame(frame(100 * number + index), time_ns)
        paths.append(path)
    out, other = tmp_path / "out.pcap", tmp_path / "other.pcap"
    edit_capture(paths, out, Edit())
    subprocess.run(["mergecap", "-F", "nsecpcap", "-w", str(other), *map(str, paths)], check=True)
    assert [each[1:3] for each in read(out)] == [each[1:3] for each in read(other)]
    # in pcapng the files' interfaces stay apart
    edit_capture(paths, tmp_path / "out.pcapng", Edit())
    merged = read(tmp_path / "out.pcapng")
    assert [each[1:3] for each in merged] == [each[1:3] for each in read(other)]
    assert {each[4] for each in merged} == {0, 1, 2, 3}


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_command_reports_its_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcap"
    edits = ["--set", "vlan.id=7", "--set", "ip.ttl=9", "-Y", "vlan"]
    assert run(["edit", str(PCAPS / "mixed.pcap"), "-w", str(out), *edits]) == 0
    text = told(capsys)
    assert "vlan.id=7: set in" in text
    assert "have no ip.ttl" in text
    assert "26 frames written to" in text


def test_a_dry_run_counts_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcapng"
    edits = ["edit", str(PCAPS / "mixed.pcap"), "--set", "vlan.id=7", "--add-tag", "vlan", "-w", str(out)]
    assert run([*edits, "--dry-run"]) == 0
    dry = told(capsys)
    assert not out.exists()
    assert run(edits) == 0
    assert dry == told(capsys).replace(f"written to {out}", "would be written")
    # A dry run needs no output, and does not change an existing file.
    before = out.read_bytes()
    assert run([*edits[:-2], "--dry-run", "--strip", "csig"]) == 1
    assert run([*edits, "--dry-run"]) == 0
    assert out.read_bytes() == before


def test_edits_of_fields_start_without_numba() -> None:
    code = "import sys, ecmproto.tools.edit; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


NOTHING = [
    ["--set", "dbp.rate=1"], ["--strip", "cntag"], ["-Y", "frame.number == 99", "--delete"],
    ["--frames", "99-"], ["--from", "1h"], ["--set", "eth.type=7000", "-Y", "frame.len == 1"],
]  # fmt: skip


@pytest.mark.parametrize("edits", NOTHING, ids=" ".join)
def test_edit_without_effect_exits_with_1(tmp_path: Path, edits: list[str]) -> None:
    assert run(["edit", str(PCAPS / "pause.pcap"), "-w", str(tmp_path / "out.pcapng"), *edits]) == 1
    assert (tmp_path / "out.pcapng").exists()


def test_empty_capture_exits_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pcap(tmp_path / "in.pcap", [])
    assert run(["edit", str(path), "-w", str(tmp_path / "out.pcap"), "--set", "vlan.id=7"]) == 0
    assert "0 frames" in told(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--delete"], ["--keep"], ["--delete", "--keep", "-Y", "vlan"], ["--keep-checksums"],
        ["--delete", "-Y", "vlan", "--set", "vlan.id=1"], ["--set", "vlan.idd=7"], ["--set", "vlan.id=5000"],
        ["--strip", "ip"], ["--strip", "vlam"], ["--add-tag", "vlan id=5000"], ["--add-tag", "vlan id"],
        ["--add-tag", ""], ["--add-tag", "cnm"], ["--frames", "x"], ["--from", "x"], ["--shift", "5"],
        ["--shift", "--5s"], ["--scale-time", "0"], ["--scale-time", "-1"], ["--scale-time", "x"],
        ["--snaplen", "0"], ["--replace-tags"], ["--fix", "--set", "vlan.id=1", "--keep-checksums"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_contradictory_options_are_refused_before_writing(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["edit", str(MIXED), "-w", str(tmp_path / "out.pcap"), *arguments]) == 2
    assert "Traceback" not in told(capsys)
    assert not list(tmp_path.iterdir())


def test_broken_capture_is_edited_up_to_break(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_pcap(tmp_path / "in.pcap", [frame(n) for n in range(5)]), tmp_path / "out.pcap"
    path.write_bytes(path.read_bytes()[:-3])
    assert run(["edit", str(path), "-w", str(out), "--set", "cntag.flow_id=9"]) == 3
    assert [decode(each[2])[CNTag].flow_id for each in read(out)] == [9] * 4
    assert "set in 4 frames" in told(capsys)


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="needs the captures of other projects")
def test_empty_edit_preserves_captures_of_other_projects(tmp_path: Path) -> None:
    edit = Edit(filter=compile_filter("ip"), fix=False, snap_octets=None)
    paths = sorted(SHARED_CAPTURES.glob("secdev-scapy/**/*.pcap*"))[:40]
    for path in paths:
        out = tmp_path / "out"
        try:
            report = edit_capture([path], out, edit, force=True)
        except Exception as error:
            assert type(error).__module__.startswith("ecmproto"), path  # noqa: PT017
            continue
        if report.problem is None and path.suffix == ".pcap":
            assert out.read_bytes() == path.read_bytes()
