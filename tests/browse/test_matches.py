"""Background filters select the same frames as other filters, and searches find the nearest frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.filter import compile_filter
from ecmproto.tools.browse import matches
from ecmproto.tools.browse.matches import FilterRun, FrameSet, Search
from ecmproto.tools.browse.pages import Pages
from ecmproto.wire.codec import EtherTypes
from tests.browse.captures import opened, write_pcap


@given(st.lists(st.lists(st.booleans(), max_size=40), max_size=8), st.integers(1, 64))
def test_frame_set_equals_a_list_of_booleans(parts: list[list[bool]], block: int) -> None:
    said = [each for part in parts for each in part]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matches, "_BLOCK_FRAMES", 8 * block)
        found = FrameSet()
        for part in parts:
            found.extend(np.array(part, np.bool_))
        wanted = [frame for frame, each in enumerate(said) if each]
        assert (len(found), found.scanned) == (len(wanted), len(said))
        assert [found.frame_at(row) for row in range(len(wanted))] == wanted
        assert [found.before(frame) for frame in range(len(said) + 1)] == [
            sum(said[:frame]) for frame in range(len(said) + 1)
        ]
        assert [frame in found for frame in range(len(said) + 3)] == [*said, False, False, False]
        assert found.masked(2, len(said)).tolist() == [*said[2:], False, False][: len(said)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    return opened(write_pcap(tmp_path_factory.mktemp("matches") / "a.pcap", 5000)).pages


TEXT = "frame.number > 1500 and frame[17] == 7"
NUMBERS = [number for number in range(1500, 5000) if number % 256 == 7]


@pytest.mark.parametrize("columns", [False, True])
def test_columns_and_single_frames_match_alike(
    pages: Pages, columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matches, "many", lambda frames: columns)
    run = FilterRun(pages, compile_filter(TEXT), EtherTypes())
    run.start()
    assert run.done.wait(60)
    assert run.error is None
    assert [run.found.frame_at(row) for row in range(len(run.found))] == NUMBERS

    def nearest(start: int, forward: bool, within: FrameSet | None = None) -> int | None:
        search = Search(
            pages, compile_filter("frame[17] == 7"), EtherTypes(), start=start, forward=forward, within=within
        )
        search.start()
        assert search.done.wait(60)
        assert search.error is None
        return search.frame

    assert nearest(7, True) == 263
    assert nearest(0, True) == 7
    assert nearest(4999, False) == 4871
    assert nearest(7, False) is None
    assert nearest(4871, True) is None
    assert nearest(0, True, run.found) == NUMBERS[0]
    assert nearest(1600, False, run.found) == (NUMBERS[0] if NUMBERS[0] < 1600 else None)


def test_a_run_can_be_stopped(tmp_path: Path) -> None:
    browser = opened(write_pcap(tmp_path / "a.pcap", 5000))
    browser.apply("frame.len > 0")
    run = browser.run
    assert run is not None
    browser.apply("")
    assert run.done.wait(20)
    assert browser.count == 5000
    browser.close()
