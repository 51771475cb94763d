"""Pages of frames by number contain the same frames as a sequential read, for all types of captures."""

from __future__ import annotations

import gzip
import os
import threading
import time
from pathlib import Path

import pytest

from ecmproto.errors import CaptureError, EcmprotoError
from ecmproto.frames.capture import open_captures, source
from ecmproto.frames.capture.linux.reader import open_interface
from ecmproto.frames.capture.linux.sender import FrameSender
from ecmproto.frames.capture.source import zstd_module
from ecmproto.kernels import library
from ecmproto.tools.browse.browser import Browser
from ecmproto.tools.browse.pages import PAGE_FRAMES, Pages, live_pages, open_pages
from tests.batch.test_inner import WRAPPERS, written
from tests.browse.captures import PCAPS, frames, write_pcap, write_sections
from tests.conftest import SHARED_CAPTURES
from tests.namespaces import FAR, NEAR, Network

Seen = list[tuple[bytes, int, int, int]]


def straight(*paths: Path) -> Seen:
    with open_captures(paths) as reader:
        return [
            row
            for batch in reader
            for row in zip(
                batch.frames(), batch.time_ns.tolist(), batch.interface.tolist(), batch.numbers.tolist(),
                strict=True,
            )
        ]  # fmt: skip


def by_page(pages: Pages) -> Seen:
    return [
        row
        for page in range(pages.count)
        for batch in pages.page(page)
        for row in zip(
            batch.frames(), batch.time_ns.tolist(), batch.interface.tolist(), batch.numbers.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def indexed(*paths: Path | str) -> Pages:
    pages = open_pages([str(path) for path in paths])
    pages.start(first=True)
    assert pages.finish(30)
    return pages


def test_pages_are_the_capture(tmp_path: Path) -> None:
    plain = write_pcap(tmp_path / "a.pcap", 5 * PAGE_FRAMES + 7)
    sections = write_sections(tmp_path / "b.pcapng", 3, 2 * PAGE_FRAMES, 1, 0, PAGE_FRAMES + 1)
    packed = [tmp_path / "a.pcap.gz", tmp_path / "b.pcapng.zst"]
    packed[0].write_bytes(gzip.compress(plain.read_bytes()))
    packed[1].write_bytes(zstd_module().compress(sections.read_bytes()))
    for path in (plain, sections, *packed, PCAPS / "malformed.pcapng", PCAPS / "incast.pcap.gz"):
        pages, wanted = indexed(path), straight(path)
        assert by_page(pages) == wanted
        assert pages.frames == len(wanted)
        some = pages.page_of(len(wanted) - 1)
        assert pages.frame(len(wanted) - 1)[0] == wanted[-1][0]  # type: ignore[index]
        assert pages.first_of(some) <= len(wanted) - 1 < pages.first_of(some + 1)
        together = [octets for batch in pages.batches(0, pages.count) for octets in batch]
        assert together == [row[0] for row in wanted]
        pages.close()


def test_several_captures_are_paged_as_one(tmp_path: Path) -> None:
    paths = write_pcap(tmp_path / "a.pcap", 1500), write_sections(tmp_path / "b.pcapng", 40, 1200)
    pages = indexed(*paths)
    assert by_page(pages) == straight(*paths)
    assert [each.name for each in pages.interfaces] == ["", "port0", "port1"]
    pages.close()


def test_a_pipe_is_shown_while_it_is_written(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    octets = write_pcap(tmp_path / "a.pcap", 3000).read_bytes()
    middle = len(octets) // 2
    more = threading.Event()

    def write() -> None:
        with open(fifo, "wb", buffering=0) as pipe:
            pipe.write(octets[:middle])
            more.wait(20)
            pipe.write(octets[middle:])

    writer = threading.Thread(target=write)
    writer.start()
    pages = open_pages([str(fifo)])
    pages.start()
    assert pages.wait(1000, 20)
    assert not pages.complete
    assert pages.frame(1000)[0] == frames(1, first=1000)[0]  # type: ignore[index]
    more.set()
    assert pages.finish(20)
    writer.join()
    assert pages.frames == 3000
    # what was spooled can be read anew, as for statistics
    assert len(straight(Path(pages.file))) == 3000
    pages.close()


def test_broken_capture_is_shown_with_its_problem(tmp_path: Path) -> None:
    octets = write_pcap(tmp_path / "a.pcap", 2000).read_bytes()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(octets[:-9])
    pages = indexed(cut)
    assert pages.frames == 1999
    assert "expected a record of" in str(pages.problem)
    # cut once more, under our feet
    os.truncate(cut, len(octets) // 2)
    assert pages.frame(10) is not None
    assert pages.frame(1998) is None
    pages.close()
    cut.write_bytes(gzip.compress(octets)[:-300])
    pages = indexed(cut)
    assert 0 < pages.frames < 2000
    assert "gzip" in str(pages.problem)
    pages.close()


def test_other_files_are_refused(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pcap"
    nothing.write_bytes(b"")
    for path in (nothing, tmp_path / "none.pcap", tmp_path, Path(__file__)):
        with pytest.raises(CaptureError, match="expected") as refused:
            open_pages([str(path)])
        assert refused.value.path == str(nothing if path == tmp_path else path), "a folder is what is in it"


def test_an_empty_capture_has_no_pages(tmp_path: Path) -> None:
    pages = indexed(write_pcap(tmp_path / "a.pcap", 0))
    assert (pages.frames, pages.count, pages.problem) == (0, 0, None)
    pages.close()


def test_first_page_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compiled(walk: object) -> object:
        asked.append(threading.current_thread().name)
        return walk

    monkeypatch.setattr(source, "COMPILE_FROM_OCTETS", 10_000)
    monkeypatch.setattr(source, "_compiled", compiled)
    monkeypatch.setattr(library, "is_ready", lambda: False)
    for path in (write_pcap(tmp_path / "a.pcap", 9000), write_sections(tmp_path / "b.pcapng", 3000, 3000)):
        pages = open_pages([str(path)], outer=True)
        assert pages.count == 0
        pages.start(first=True)
        assert pages.count > 0
        assert pages.page(0)[0][0]
        assert pages.finish(20)
        pages.close()
    assert set(asked) == {"index"}


def test_an_interface_is_shown_as_frames_come(veth: Network) -> None:
    batch = frames(40)
    reader = open_interface(FAR, idle_batches=True)
    pages = live_pages(reader, reader.stop, FAR)
    pages.start()
    with FrameSender(NEAR) as sender:
        sender.send(batch.buffer, batch.offset, batch.captured)
    sent = set(batch.frames())
    end = time.monotonic() + 20
    while len(sent & {row[0] for row in by_page(pages)}) < 40:
        assert time.monotonic() < end
        pages.wait(pages.frames, 0.2)
    assert not pages.complete
    reader.stop()
    assert pages.finish(20)
    assert [each.name for each in pages.interfaces] == [FAR]
    assert [row[0] for row in straight(Path(pages.file)) if row[0] in sent] == list(batch.frames())
    pages.close()


def test_captures_of_other_projects_are_paged() -> None:
    paths = sorted(SHARED_CAPTURES.glob("*/*.*cap*"))
    if not paths:
        pytest.skip("no captures of others here: nothing to look at")
    looked = 0
    for place, path in enumerate(paths):
        try:
            pages = indexed(path)
        except EcmprotoError:
            with pytest.raises(EcmprotoError):
                straight(path)
            continue
        if place % 8 == 0:
            assert by_page(pages) == straight(path), path
        browser = Browser(pages)
        for first in (0, max(0, browser.count - 20)):
            for frame, row in browser.rows(first, 20):
                assert row is not None
                assert row.number == frame + 1
        for frame in {0, browser.count - 1} if browser.count else ():
            record = browser.record(frame)
            assert record is not None
            for line in browser.tree(record):
                assert 0 <= line.start <= line.stop <= len(record.octets), (path, line)
        browser.close()
        looked += 1
    assert looked


def test_pages_of_innermost_frames(tmp_path: Path) -> None:
    bare = list(frames(3000))
    wrapped = [WRAPPERS["ERSPAN II session 12"](frame, number) for number, frame in enumerate(bare)]
    path = written(tmp_path / "mirror.pcap", wrapped)
    pages = open_pages([str(path)])
    pages.start(first=True)
    assert pages.finish(30)
    assert [row[:3] for row in by_page(pages)] == [(frame, number, 1) for number, frame in enumerate(bare)]
    assert pages.unwrapped.startswith(f"unwrapped {len(bare):,} frames (ERSPAN II")
    assert [each.name for each in pages.interfaces] == ["", "ERSPAN II session 12"]
    pages.close()
