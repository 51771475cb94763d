"""The dissector for Wireshark on a thousand frames of each format, and on captures that nobody here made."""

from __future__ import annotations

from pathlib import Path

import pytest

from ecmproto.fuzz.checks.tshark import write_pcap
from ecmproto.interop.lua import dissector
from tests.interop.dissection import OURS, crafted, differences, theirs, truncated

FRAMES = 1000


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "ecmproto.lua"
    path.write_text(dissector(), encoding="utf-8")
    return path


def test_tshark_has_the_codecs_fields_of_a_thousand_frames_a_format(
    tshark: str, plugin: Path, tmp_path: Path
) -> None:
    samples = [sample for cls in OURS for sample in (*crafted(cls, FRAMES, seed=2), *truncated(cls, seed=2))]
    capture = tmp_path / "frames.pcap"
    write_pcap(capture, samples)
    assert list(differences(samples, theirs(tshark, plugin, capture))) == []
