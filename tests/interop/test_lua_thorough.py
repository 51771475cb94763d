"""The Wireshark dissector on a thousand frames of each format, and on captures from other sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.tools.fuzz.checks.tshark import Sample, write_pcap
from ecmproto.tools.interop.lua import dissector
from tests.conftest import SHARED_CAPTURES
from tests.interop.dissection import OURS, crafted, differences, theirs, truncated, tshark_output

FRAMES = 1000


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "ecmproto.lua"
    path.write_text(dissector(), encoding="utf-8")
    return path


def test_tshark_has_codecs_fields_of_thousand_frames_format(
    tshark: str, plugin: Path, tmp_path: Path
) -> None:
    samples = [sample for cls in OURS for sample in (*crafted(cls, FRAMES, seed=2), *truncated(cls, seed=2))]
    capture = tmp_path / "frames.pcap"
    write_pcap(capture, samples)
    assert list(differences(samples, theirs(tshark, plugin, capture))) == []


def ethernet_frames() -> Iterator[Sample]:
    """Yield the Ethernet frames of captures from other sources."""
    for path in sorted(path for path in SHARED_CAPTURES.rglob("*") if path.is_file()):
        with suppress(CaptureError), open_capture(path) as reader:
            for batch in reader:
                for index in range(len(batch)):
                    if reader.interfaces[int(batch.interface[index])].linktype == ETHERNET:
                        octets, original = bytes(batch.frame(index)), int(batch.original[index])
                        yield Sample(where=f"{path.name} {index}", octets=octets, original=original)


@pytest.mark.skipif(not SHARED_CAPTURES.is_dir(), reason="the collection of real captures is not here")
def test_real_captures_make_no_error_of_luas(tshark: str, plugin: Path, tmp_path: Path) -> None:
    samples = list(ethernet_frames())
    assert len(samples) > FRAMES
    capture = tmp_path / "frames.pcap"
    write_pcap(capture, samples)
    assert list(differences(samples, theirs(tshark, plugin, capture))) == []
    tshark_output(tshark, plugin, capture, "-V")
