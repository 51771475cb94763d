"""Counting the selected frames of whole captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.errors import CaptureError, FilterError
from ecmproto.frames.columns.selection import count
from ecmproto.frames.filter import compile_filter
from tests.conftest import REPOSITORY
from tests.filter.captured import bundled, selected

MIXED = REPOSITORY / "pcaps" / "mixed.pcap"


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["", "cnm", "vlan.priority == 6 and not cnm", "frame.len < 0"])
def test_frames_are_counted(text: str, threads: int) -> None:
    wanted = len(selected(text, bundled("mixed.pcap")))
    assert count(str(MIXED), text, threads=threads) == wanted
    assert count(str(MIXED), compile_filter(text), threads=threads) == wanted


def test_invalid_filter_or_capture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FilterError):
        count(str(MIXED), "cnm.nothing")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(MIXED.read_bytes()[:-3])
    with pytest.raises(CaptureError):
        count(str(cut), "frame")
    with pytest.raises(CaptureError):
        count(str(tmp_path / "none.pcap"), "frame")
