"""Copies are lossless within a format, and conversions between formats cause warnings."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import OutputError
from ecmproto.frames.capture import Batch, CaptureCopier, CaptureReader, comments, format_of, open_capture
from tests.capture.octets import (
    block,
    description,
    enhanced,
    option,
    pcap_header,
    pcap_record,
    section,
    simple,
    small_pcap,
    small_pcapng,
)
from tests.capture.seen import Seen, flatten


def copy(octets: bytes, path: Path, *, keep: set[int] | None = None) -> CaptureCopier:
    with open_capture(io.BytesIO(octets)) as reader, CaptureCopier(reader, path) as copier:
        for item in reader.items():
            if isinstance(item, Batch) and keep is not None:
                item = item.select(np.isin(item.numbers, list(keep)))
            copier.write(item)
    return copier


def seen_in(path: Path) -> tuple[list[Seen], CaptureReader]:
    with open_capture(path) as reader:
        return [s for batch in reader for s in flatten(batch)], reader


@pytest.mark.parametrize(("octets", "name"), [(small_pcap(), "a.pcap"), (small_pcapng(), "a.pcapng")])
def test_a_whole_copy_has_the_same_octets(octets: bytes, name: str, tmp_path: Path) -> None:
    copier = copy(octets, tmp_path / name)
    assert (tmp_path / name).read_bytes() == octets
    assert copier.warnings == []
    assert copier.partial == ""


@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
def test_a_pcap_selection_keeps_header_and_records(magic: int, tmp_path: Path) -> None:
    header = pcap_header(magic=magic, version=(2, 4), snaplen=77, linktype=0x24000071)
    extra = bytes(8) if magic == 0xA1B2CD34 else b""
    records = [
        r[:16] + extra + r[16:] for r in (pcap_record(bytes([i]) * i, seconds=i, big=False) for i in range(6))
    ]
    copier = copy(header + b"".join(records), tmp_path / "a.pcap", keep={0, 2, 3, 5})
    assert (tmp_path / "a.pcap").read_bytes() == header + b"".join(records[i] for i in (0, 2, 3, 5))
    assert copier.frames == 4


def test_a_pcapng_selection_keeps_every_other_block(tmp_path: Path) -> None:
    octets = small_pcapng()
    copy(octets, tmp_path / "a.pcapng", keep={1, 4})
    kept, reader = seen_in(tmp_path / "a.pcapng")
    assert [(s.frame, s.interface, s.time_ns) for s in kept] == [
        (b"twos", 1, 1_125_000_000),
        (b"five", 2, 5000),
    ]
    assert [i.name for i in reader.interfaces] == ["eth0", "", ""]
    copied = (tmp_path / "a.pcapng").read_bytes()
    for part in (b"first", block(0x0BAD, bytes(8)), block(4, bytes(4)), block(5, bytes(12), big=True)):
        assert part in copied
    with open_capture(tmp_path / "a.pcapng") as again:
        assert comments(next(iter(again)), 0) == ("remark",)


def test_copies_leave_the_section_length_open(tmp_path: Path) -> None:
    body = description() + enhanced(b"x")
    copy(section(length=len(body)) + body, tmp_path / "a.pcapng")
    assert (tmp_path / "a.pcapng").read_bytes() == section() + body


def test_pcapng_is_converted_to_pcap(tmp_path: Path) -> None:
    octets = (
        section()
        + description(options=option(13, b"\x04"))
        + enhanced(b"abc", ticks=1_000_007, original=60, options=option(1, b"remark") + bytes(4))
        + simple(b"def")
        + block(5, bytes(12))
    )
    copier = copy(octets, tmp_path / "a.pcap")
    seen, reader = seen_in(tmp_path / "a.pcap")
    assert [(s.frame, s.time_ns, s.original) for s in seen] == [(b"abc", 1_000_007_000, 60), (b"def", 0, 3)]
    assert (reader.interfaces[0].fcs_octets, reader.resolution) == (4, 10**9)
    assert copier.warnings == [
        "frames of simple packet blocks have no time: they are written at 0",
        "comments are lost: pcap cannot store them",
        "blocks of type interface statistics are lost: pcap cannot store them",
    ]


def test_loss_of_options_and_interfaces_is_warned(tmp_path: Path) -> None:
    octets = section() + description() * 2 + enhanced(b"abc", options=option(2, bytes(4)) + bytes(4))
    assert copy(octets, tmp_path / "a.pcap").warnings == [
        "pcap has only one interface: the interfaces of frames are lost",
        "options of frames are lost: pcap cannot store them",
    ]


@pytest.mark.parametrize("between", [b"", block(0xABC, b"")], ids=["one batch", "two batches"])
def test_mixed_link_types_are_refused_in_pcap(between: bytes, tmp_path: Path) -> None:
    octets = section() + description() + description(linktype=113) + enhanced(b"a") + between
    octets += enhanced(b"b", interface=1)
    with pytest.raises(OutputError, match=r"one link type \(ETHERNET\).*LINUX_SLL; write pcapng instead"):
        copy(octets, tmp_path / "a.pcap")
    assert not (tmp_path / "a.pcap").exists()


def test_pcap_is_converted_to_pcapng(tmp_path: Path) -> None:
    octets = pcap_header(linktype=0x24000071, snaplen=99) + pcap_record(
        b"abc", seconds=1, ticks=2, original=60
    )
    copier = copy(octets, tmp_path / "a.pcapng")
    seen, reader = seen_in(tmp_path / "a.pcapng")
    assert [(s.frame, s.time_ns, s.original) for s in seen] == [(b"abc", 1_000_002_000, 60)]
    interface = reader.interfaces[0]
    assert (interface.linktype, interface.snaplen, interface.fcs_octets) == (113, 99, 4)
    assert copier.warnings == []


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
@pytest.mark.parametrize("octets", [pcap_header(), section(), section() + description()])
def test_an_empty_copy_is_a_valid_capture(octets: bytes, name: str, tmp_path: Path) -> None:
    copy(octets, tmp_path / name)
    seen, reader = seen_in(tmp_path / name)
    assert (seen, reader.problem, reader.format) == ([], None, name[2:])


def test_crafted_frames_are_added_to_copies(tmp_path: Path) -> None:
    with (
        open_capture(io.BytesIO(small_pcap())) as reader,
        CaptureCopier(reader, tmp_path / "a.pcap") as copier,
    ):
        for item in reader.items():
            copier.write(item)
        copier.write(Batch.from_frames([b"crafted"], time_ns=5_000_001))
    assert (tmp_path / "a.pcap").read_bytes() == small_pcap() + pcap_record(b"crafted", ticks=5000)


def test_pcapng_frames_without_their_section_are_refused(tmp_path: Path) -> None:
    with open_capture(io.BytesIO(small_pcapng())) as reader:
        batch = next(iter(reader))
        with (
            CaptureCopier(reader, tmp_path / "a.pcapng") as copier,
            pytest.raises(OutputError, match="section header"),
        ):
            copier.write(batch)


def test_a_copy_can_be_compressed(tmp_path: Path) -> None:
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"a.pcapng{suffix}"
        copy(small_pcapng(), path)
        assert path.read_bytes()[:4] != small_pcapng()[:4]
        assert len(seen_in(path)[0]) == 5


def test_an_interrupted_copy_keeps_complete_records(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap.gz"
    with open_capture(io.BytesIO(small_pcap()), batch_frames=2) as reader:
        copier = CaptureCopier(reader, path)

        def interrupted() -> None:
            with copier:
                copier.write(next(iter(reader)))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
    assert not path.exists()
    seen, again = seen_in(Path(copier.partial))
    assert ([s.frame for s in seen], again.problem) == ([b"one", b""], None)


def test_format_follows_from_the_file_name() -> None:
    assert format_of("x.pcapng.gz", "pcap") == "pcapng"
    assert format_of("x.PCAP", "pcapng") == "pcap"
    assert format_of("a.b.zst", "pcapng") == "pcapng"
    assert format_of("-", "pcap") == "pcap"


def inserted(octets: bytes, path: Path, *, after: int) -> list[Seen]:
    """Copy ``octets``, insert a frame after the frame with number ``after``, and return the contents of the
    copy.
    """
    with open_capture(io.BytesIO(octets)) as reader, CaptureCopier(reader, path) as copier:
        for item in reader.items():
            if not isinstance(item, Batch):
                copier.write(item)
                continue
            for i, number in enumerate(item.numbers.tolist()):
                copier.write(item.select([i]))
                if number == after:
                    copier.insert(
                        b"new",
                        time_ns=int(item.time_ns[i]),
                        interface=int(item.interface[i]),
                        comment="why",
                    )
    return seen_in(path)[0]


@pytest.mark.parametrize("after", range(5))
def test_frame_inserted_into_pcapng_has_neighbours_interface(after: int, tmp_path: Path) -> None:
    seen = inserted(small_pcapng(), tmp_path / "a.pcapng", after=after)
    assert [s.frame for s in seen][after : after + 2] == [seen[after].frame, b"new"]
    assert len(seen) == 6
    assert (seen[after + 1].time_ns, seen[after + 1].interface) == (
        seen[after].time_ns,
        seen[after].interface,
    )
    with open_capture(tmp_path / "a.pcapng") as reader:
        batches = [(batch, i) for batch in reader for i in range(len(batch))]
        assert comments(*batches[after + 1]) == ("why",)


@pytest.mark.parametrize("resolution", [6, 3, 9, 12, 0x80 | 20, 0x80 | 30, 0x80 | 34])
def test_an_inserted_frame_is_never_before_its_neighbour(resolution: int, tmp_path: Path) -> None:
    ticks = 1_700_000_123
    octets = section() + description(options=option(9, bytes([resolution])) + bytes(4))
    seen = inserted(octets + enhanced(b"old", ticks=ticks), tmp_path / "a.pcapng", after=0)
    assert seen[0].time_ns == seen[1].time_ns


@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
@pytest.mark.parametrize("big", [False, True])
def test_frame_inserted_into_pcap_has_files_own_records(magic: int, big: bool, tmp_path: Path) -> None:
    extra = bytes(8) if magic == 0xA1B2CD34 else b""
    records = [pcap_record(bytes([i]) * 4, seconds=i, ticks=7, big=big) for i in range(3)]
    octets = pcap_header(magic=magic, big=big) + b"".join(r[:16] + extra + r[16:] for r in records)
    seen = inserted(octets, tmp_path / "a.pcap", after=1)
    assert [s.frame for s in seen] == [bytes(4), b"\1\1\1\1", b"new", b"\2\2\2\2"]
    assert seen[2].time_ns == seen[1].time_ns


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
def test_a_frame_is_inserted_while_the_format_changes(name: str, tmp_path: Path) -> None:
    octets = small_pcap() if name == "a.pcapng" else section() + description() + enhanced(b"one", ticks=5) * 3
    assert [s.frame for s in inserted(octets, tmp_path / name, after=2)][-1] == b"new"
