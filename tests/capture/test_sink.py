"""Safe outputs: no partial file has the final name, and no file is overwritten without permission."""

from __future__ import annotations

import gzip
import io
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import OutputError
from ecmproto.frames.capture import PcapngWriter, PcapWriter, open_sink
from ecmproto.frames.capture.source import zstd_module
from ecmproto.paths import make_folder


def test_the_name_appears_on_completion(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with open_sink(path) as sink:
        sink.write(b"octets ")
        sink.write("and text µ ")
        sink.write(np.frombuffer(b"and arrays", dtype=np.uint8))
        assert not path.exists()
        assert Path(sink.partial).exists()
    assert path.read_bytes() == "octets and text µ and arrays".encode()
    assert os.listdir(tmp_path) == ["out"]
    assert sink.octets == len(path.read_bytes())


def test_an_existing_file_is_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("precious")
    path.chmod(0o640)
    with pytest.raises(OutputError, match="expected a name that is free"):
        open_sink(path)
    assert path.read_text() == "precious"
    with open_sink(path, force=True) as sink:
        sink.write(b"new")
        assert path.read_text() == "precious"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_that_appeared_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out"
    sink = open_sink(path)
    sink.write(b"late")
    path.write_text("precious")
    with pytest.raises(OutputError, match="expected a name that is free"):
        sink.commit()
    assert path.read_text() == "precious"
    assert Path(sink.partial).read_text() == "late"


def write_and_fail(path: Path, data: bytes) -> str:
    sink = open_sink(path)
    with suppress(KeyboardInterrupt), sink:
        sink.write(data)
        raise KeyboardInterrupt
    return sink.partial


def test_an_exception_leaves_a_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    first, second = write_and_fail(path, b"first"), write_and_fail(path, b"second")
    assert not path.exists()
    assert first != second
    assert (Path(first).read_bytes(), Path(second).read_bytes()) == (b"first", b"second")
    assert first.endswith(".partial")


def test_an_exception_before_writing_leaves_no_file(tmp_path: Path) -> None:
    assert write_and_fail(tmp_path / "out", b"") == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("writer", [PcapWriter, PcapngWriter])
@pytest.mark.parametrize("frames", [0, 1])
def test_a_partial_capture_without_frames_is_removed(
    writer: type[PcapWriter | PcapngWriter], frames: int, tmp_path: Path
) -> None:
    output = writer(tmp_path / "out")
    for _ in range(frames):
        output.write_frame(bytes(60), 0)
    error = ZeroDivisionError()
    output.__exit__(ZeroDivisionError, error, None)
    left = [str(each) for each in tmp_path.iterdir()]
    assert left == [output.sink.partial] * frames
    assert getattr(error, "__notes__", []) == [f"the output before it is in {each}" for each in left]


def test_the_suffix_selects_the_compression(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz", "c.zst"):
        with open_sink(tmp_path / name) as sink:
            sink.write(b"data" * 100)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"data" * 100
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert zstd_module().decompress((tmp_path / "c.zst").read_bytes()) == b"data" * 100


def test_a_partial_compressed_file_is_properly_ended(tmp_path: Path) -> None:
    partial = write_and_fail(tmp_path / "a.gz", b"so far")
    assert gzip.decompress(Path(partial).read_bytes()) == b"so far"


def test_devices_and_pipes_are_written_directly(tmp_path: Path) -> None:
    with open_sink("/dev/null") as sink:
        sink.write(b"x")
        assert sink.partial == ""
    assert not Path("/dev/null").is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open_sink(pipe) as sink:
        sink.write(b"through")
    assert os.read(descriptor, 100) == b"through"
    os.close(descriptor)


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    with open_sink(tmp_path / "link") as sink:
        sink.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"x"


def test_standard_output_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw))
    with open_sink("-") as sink:
        sink.write(b"data")
    assert raw.getvalue() == b"data"


def test_unwritable_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the name of a file"):
        open_sink(tmp_path)
    with pytest.raises(OutputError, match="a writable output"):
        open_sink(tmp_path / "missing" / "out")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is not there to be full")
def test_a_full_device_is_a_clear_error() -> None:
    sink = open_sink("/dev/full")
    with pytest.raises(OutputError, match=r"space for .* got No space left on device"), sink:
        sink.write(bytes(1 << 21))


def test_an_output_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda file: done.append(("fsync", os.fstat(file).st_size)))

    def renamed(source: str, target: str) -> None:
        done.append(("rename", os.stat(source).st_size))
        replace(source, target)

    monkeypatch.setattr(os, "replace", renamed)
    with open_sink(tmp_path / "out") as sink:
        sink.write(b"octets")
    assert done == [("fsync", 6), ("rename", 6)]


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's links")


def foreign_link(link: Path, target: str | Path) -> Path:
    """Create a symbolic link of another user."""
    link.symlink_to(target)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    return link


@needs_root
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["link", "folder/out", "ours", "inner/../folder/out", "through/../target"])
def test_foreign_links_in_a_path_are_refused(name: str, force: bool, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "target").write_text("precious")
    foreign_link(tmp_path / "link", tmp_path / "target")
    foreign_link(tmp_path / "folder", "inner")
    foreign_link(tmp_path / "through", "inner")
    (tmp_path / "ours").symlink_to("link")
    with pytest.raises(OutputError, match=r"expected a path without .*, got .*, a link of user 65534"):
        open_sink(tmp_path / name, force=force)
    assert (tmp_path / "target").read_text() == "precious"
    assert not any((tmp_path / "inner").iterdir())


@needs_root
def test_a_link_created_meanwhile_is_refused(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    sink = open_sink(folder / "out")
    sink.write(b"x")
    folder.rename(elsewhere)
    foreign_link(folder, elsewhere)
    with pytest.raises(OutputError, match="a link of user 65534"):
        sink.commit()
    assert not (elsewhere / "out").exists()


@needs_root
def test_folders_are_not_created_through_foreign_links(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    foreign_link(tmp_path / "link", "elsewhere")
    with pytest.raises(OutputError, match="a link of user 65534"):
        make_folder(tmp_path / "link" / "new")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with open_sink(make_folder(tmp_path / "link" / "new") / "out") as sink:
        sink.write(b"x")
    assert (tmp_path / "folder" / "new" / "out").read_bytes() == b"x"
