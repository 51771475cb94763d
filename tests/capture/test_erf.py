"""Captures of ERF records: the Ethernet frames are read as from an Ethernet capture."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.batch import ERF, ETHERNET
from ecmproto.frames.capture.parts import Extent, Reached, linked, open_part, split_capture
from ecmproto.tools.browse.pages import open_pages
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run

START_S = 1_700_000_000
FRAMES = [encode(build(f"eth src=02:00:00:00:01:{n:02x} pfc prio3={n}")) for n in range(64)]
WITH_FCS = [frame + struct.pack("<I", zlib.crc32(frame)) for frame in FRAMES]


def erf(frame: bytes, number: int, *, kind: int = 2, extensions: int = 0, cut: int | None = None) -> bytes:
    body = b"".join(bytes([(each < extensions - 1) << 7]) + bytes(7) for each in range(extensions))
    body += bytes(2) + frame[:cut]
    body += bytes(-len(body) % 8)
    # times in quarters of a microsecond
    time = (START_S << 32) + (number * 1250 << 32) // 10**9
    octets = 16 + len(body)
    kind |= 0x80 if extensions else 0
    return struct.pack("<Q", time) + struct.pack("!BBHHH", kind, 4, octets, 0, len(frame)) + body


def written(path: Path, records: list[bytes], order: str = "<") -> Path:
    parts = [struct.pack(order + "IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, ERF)]
    parts += [
        struct.pack(order + "IIII", START_S, n, len(each), len(each)) + each for n, each in enumerate(records)
    ]
    path.write_bytes(b"".join(parts))
    return path


def ethernet(number: int) -> bytes:
    return erf(WITH_FCS[number % 64], number, kind=(2, 11, 16, 20)[number % 4], extensions=number % 3)


@pytest.mark.parametrize("order", "<>")
def test_ethernet_frames_of_erf_records_are_read(order: str, tmp_path: Path) -> None:
    path = written(tmp_path / "dag.pcap", [ethernet(n) for n in range(64)], order)
    with open_capture(path) as reader:
        (batch,) = list(reader)
        (interface,) = reader.interfaces
    assert list(batch) == WITH_FCS
    assert batch.original.tolist() == [64] * 64
    assert batch.time_ns.tolist() == [START_S * 10**9 + n * 1250 for n in range(64)]
    assert (interface.linktype, interface.fcs_octets) == (ETHERNET, 4)


def test_truncated_erf_records_give_truncated_frames(tmp_path: Path) -> None:
    path = written(tmp_path / "dag.pcap", [erf(WITH_FCS[0], 0, cut=30), erf(WITH_FCS[1], 1)[:60]])
    with open_capture(path) as reader:
        (batch,) = list(reader)
    assert list(batch) == [WITH_FCS[0][:30], WITH_FCS[1][:42]]
    assert batch.original.tolist() == [64, 64]


def test_records_of_other_types_are_counted(tmp_path: Path) -> None:
    records = [ethernet(0), erf(bytes(40), 1, kind=27), erf(bytes(40), 2, kind=27), erf(bytes(9), 3, kind=99)]
    records += [ethernet(5), ethernet(1)[:20], bytes(8), erf(FRAMES[0], 0, extensions=17)]
    with open_capture(written(tmp_path / "dag.pcap", records)) as reader:
        (batch,) = list(reader)
        assert batch.numbers.tolist() == [0, 1]
        assert reader.frames == 2
        assert reader.warnings == [
            "left out: 3 records cut within their headers", "left out: 2 records of ERF type META",
            "left out: 1 record of ERF type 99",
        ]  # fmt: skip
    assert list(batch) == [WITH_FCS[0], WITH_FCS[5]]


def test_copies_have_link_type_ethernet(
    tmp_path: Path, tshark: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = written(tmp_path / "dag.pcap", [ethernet(n) for n in range(64)]), tmp_path / "out.pcap"
    edited = tmp_path / "edited.pcapng"
    assert run(["dissect", "-r", str(path), "-w", str(out), "-Y", "pfc"]) == 0
    assert run(["edit", "-r", str(path), "-w", str(edited), "--add-tag", "vlan id=5"]) == 0
    capsys.readouterr()
    for each, length in ((path, 64), (out, 64), (edited, 68)):
        fields = ["-e", "eth.src", "-e", "frame.len", "-e", "frame.time_epoch"]
        command = [tshark, "-n", "-r", str(each), "-o", "eth.check_fcs:TRUE", "-T", "fields", *fields]
        output = subprocess.run(
            [*command, "-e", "eth.fcs.status"], capture_output=True, text=True, check=True
        )
        # tshark looks for no FCS in records
        status = "" if each == path else "1"
        assert output.stdout.splitlines() == [
            f"02:00:00:00:01:{n:02x}\t{length}\t{START_S}.{n * 1250:09}\t{status}" for n in range(64)
        ]
    documents = []
    for each in (path, out):
        assert run(["stats", "-r", str(each), "-T", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        document.pop("capture", None)
        documents.append({key: value for key, value in document.items() if key != "path"})
    assert documents[0] == documents[1]
    assert documents[0]["frames"] == 64


def test_parts_and_pages_equal_the_whole_capture(tmp_path: Path) -> None:
    path = written(tmp_path / "dag.pcap", [ethernet(n) for n in range(4000)])
    parts = split_capture(path, 40_000)
    reached: dict[Extent, Reached] = {}
    while (links := linked(parts, reached)).missing:
        for part in links.missing:
            with open_part(part) as reader:
                for _ in reader:
                    pass
                reached[part.place] = reader.reached
    assert len(links.parts) > 5
    frames = []
    for part, _ in links.parts:
        with open_part(part) as reader:
            frames += [frame for batch in reader for frame in batch]
    assert frames == [WITH_FCS[n % 64] for n in range(4000)]
    pages = open_pages([str(path)])
    pages.start(first=True)
    assert pages.finish(30)
    for number in (0, 1023, 1024, 3999):
        batch = pages.frame(number)
        assert batch is not None
        assert (list(batch), batch.time_ns.tolist()) == (
            [WITH_FCS[number % 64]], [START_S * 10**9 + number * 1250],
        )  # fmt: skip
    pages.close()


def test_mutated_records_stay_within_their_bytes(tmp_path: Path) -> None:
    draw = random.Random(7)
    records = []
    for number in range(2000):
        octets = bytearray(ethernet(number))
        for _ in range(draw.choice((1, 2, 6))):
            octets[draw.randrange(len(octets))] = draw.choice((0, 2, 0x82, 255, draw.randrange(256)))
        records.append(bytes(octets[: draw.randrange(1, len(octets) + 1)]))
    frames = []
    with open_capture(written(tmp_path / "dag.pcap", records)) as reader:
        for batch in reader:
            frames += list(batch)
            assert (batch.original >= 0).all()
    assert len(frames) > 500
    whole = b"".join(records)
    assert all(frame in whole for frame in frames)
