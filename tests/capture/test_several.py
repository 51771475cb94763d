"""Captures in several files, in folders, and from patterns and URLs, read in order."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ecmproto.errors import CaptureError, MissingDependencyError, pip_install
from ecmproto.frames.capture import CaptureCopier, Interface, PcapngWriter, open_capture, open_captures
from ecmproto.frames.capture.names import files_named, name_shown
from pcaps.manifest import FOLDER
from tests.capture.test_merging import write_pcap, write_pcapng
from tests.conftest import requires

Found = list[tuple[int, int, bytes, int]]


def read(*names: str | Path, order: str | None = None) -> Found:
    with open_captures(names, order=order) as reader:  # type: ignore[arg-type]
        found: Found = []
        for batch in reader:
            found += zip(
                batch.numbers.tolist(),
                batch.time_ns.tolist(),
                batch.frames(),
                batch.interface.tolist(),
                strict=True,
            )
        assert reader.problem is None
    return found


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    """Create a folder with eleven overlapping files, numbered as by tcpdump -C, and with other files."""
    folder = tmp_path / "ring"
    folder.mkdir()
    for number in range(11):
        write_pcap(folder / f"x.pcap{number or ''}", [100 - number, 200], number)
    (folder / "notes.txt").write_text("no capture")
    (folder / ".x.pcap.part").write_text("nor this")
    return folder


def test_folders_and_patterns_are_read_in_order(ring: Path) -> None:
    found = read(ring)
    assert [number for number, *_ in found] == list(range(22))
    assert [octets[0] for _, _, octets, _ in found] == [mark for mark in range(11) for _ in range(2)]
    assert {interface for *_, interface in found} == {0}, "described alike: the same interface"
    assert read(ring / "x.*") == found
    assert [Path(name).name for name in files_named(str(ring / "x.pcap1*"))] == ["x.pcap1", "x.pcap10"]
    # Merged with another capture in time order, the folder's frames keep the order of their files.
    other = write_pcap(ring.parent / "other.pcap", [150], 99)
    merged = read(ring, other)
    assert [octets[0] for _, _, octets, _ in merged if octets[0] != 99] == [
        octets[0] for _, _, octets, _ in found
    ]
    assert {interface for _, _, octets, interface in merged if octets[0] == 99} == {1}


def test_concatenation_equals_that_of_mergecap(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pcapng", tmp_path / "theirs.pcapng"
    paths = [
        write_pcapng(tmp_path / "late.pcapng", [5000, 6000], 1),
        write_pcap(tmp_path / "early.pcap", [1000, 2000], 2),
        write_pcapng(tmp_path / "alike.pcapng", [3000], 1),
    ]
    with open_captures(paths, order="named") as reader, CaptureCopier(reader, ours) as copier:
        for item in reader.items():
            copier.write(item)
    names = list(map(str, paths))
    subprocess.run(
        [requires("mergecap"), "-a", "-I", "any", "-F", "pcapng", "-w", str(theirs), *names], check=True
    )

    def told(path: Path) -> list[tuple[int, bytes, str]]:
        with open_capture(path) as reader:
            return [
                (time_ns, octets, reader.interfaces[interface].name)
                for batch in reader
                for time_ns, octets, interface in zip(
                    batch.time_ns.tolist(), batch.frames(), batch.interface.tolist(), strict=True
                )
            ]

    assert told(ours) == told(theirs)
    with open_capture(ours) as one, open_capture(theirs) as other:
        assert sum(map(len, one)) == sum(map(len, other))
        assert (
            [each.name for each in one.interfaces]
            == [each.name for each in other.interfaces]
            == ["1a", "1b", ""]
        )


def test_unreadable_files_of_a_folder_are_skipped(ring: Path) -> None:
    (ring / "x.pcap0a.pcap").write_bytes(b"no capture at all")
    (ring / "x.pcap3").write_bytes((ring / "x.pcap3").read_bytes()[:-5])
    with open_captures([ring]) as reader:
        assert sum(map(len, reader)) == 21
        assert "x.pcap0a.pcap: expected a pcap or pcapng capture" in str(reader.problem)
        assert "x.pcap3: at octet" in " ".join(reader.warnings)
        assert reader.octets_read == reader.size_octets - 17 - 71  # type: ignore[operator]
    for name in ring.iterdir():
        name.write_bytes(b"nothing")
    with pytest.raises(CaptureError, match="expected a pcap or pcapng capture"):
        open_captures([ring])


def test_patterns_without_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="expected a file that matches, got none"):
        open_captures([tmp_path / "*.pcap"])
    with pytest.raises(CaptureError, match="expected a folder with captures"):
        open_captures([tmp_path])
    with pytest.raises(CaptureError, match=r"none\.pcap: expected a readable capture file, got No such file"):
        open_captures([tmp_path / "none.pcap"])
    # A name that looks like a pattern is a file name if the file exists.
    odd = write_pcap(tmp_path / "a[1].pcap", [1], 7)
    assert len(read(odd)) == 1


def test_captures_are_read_from_urls(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("mixed.pcapng", "mixed.pcap", "hotspot.pcap.gz"):
        memory.pipe(f"/captures/{name}", (FOLDER / name).read_bytes())
    with open_capture(FOLDER / "mixed.pcapng") as reader:
        frames = [octets for batch in reader for octets in batch.frames()]
    assert [octets for _, _, octets, _ in read("memory://captures/mixed.pcapng")] == frames
    assert (
        len(read("memory://captures/*.pcap*")) == len(read("memory://captures/")) == 2 * len(frames) + 15662
    )
    with pytest.raises(CaptureError, match=r"none\.pcap: expected a readable capture file, got no such file"):
        open_capture("memory://captures/none.pcap")
    with pytest.raises(CaptureError, match="expected a file that matches"):
        open_captures(["memory://captures/*.ntar"])
    with pytest.raises(CaptureError, match=r"expected a readable capture file, got .*nosuch"):
        open_capture("nosuch://captures/x.pcap")
    assert name_shown("https://me:secret@host/x.pcap?signature=abc") == "https://host/x.pcap"


def test_unreachable_urls_are_reported_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec.core")
    pytest.importorskip("aiohttp")
    with pytest.raises(CaptureError, match=r"^http://127.0.0.1:1/x.pcap: .* got ClientConnector") as told:
        open_capture("http://me:secret@127.0.0.1:1/x.pcap?signature=abc")
    assert "secret" not in str(told.value)
    assert "signature" not in str(told.value)

    def lacking(name: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "url_to_fs", lacking)
    with pytest.raises(MissingDependencyError, match="expected s3fs, which is not installed") as raised:
        open_capture("s3://bucket/x.pcap")
    assert raised.value.remedy == "pip install s3fs"


def test_missing_fsspec_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(MissingDependencyError, match="expected fsspec") as raised:
        open_capture("s3://bucket/x.pcap")
    assert raised.value.remedy == pip_install("remote")


@pytest.fixture
def web() -> Iterator[str]:
    """Return the address of a web server with the bundled captures."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(FOLDER))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_captures_are_read_over_http(web: str, tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    for name in ("mixed.pcapng", "hotspot.pcap.gz"):
        there, here = read(f"{web}/{name}"), read(FOLDER / name)
        assert there == here
    with pytest.raises(CaptureError, match=r"none\.pcap: expected a readable capture file, got no such file"):
        open_capture(f"{web}/none.pcap")


def test_equal_interfaces_within_a_file_stay_separate(tmp_path: Path) -> None:
    for name in ("1.pcapng", "2.pcapng"):
        same = [Interface(index=index, linktype=1) for index in range(2)]
        with PcapngWriter(tmp_path / name, interfaces=same) as writer:
            for index in range(2):
                writer.write_frame(bytes(60), 5, interface=index)
    assert [interface for *_, interface in read(tmp_path)] == [0, 1, 0, 1]
