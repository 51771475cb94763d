"""The interpreted walk and the compiled walk return the same results."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ecmproto.frames.capture import source
from ecmproto.frames.capture.pcap import walk_pcap
from ecmproto.kernels import library
from tests.capture.octets import pcap_record, small_pcap, small_pcapng
from tests.capture.seen import read


@pytest.mark.parametrize("octets", [small_pcap(), small_pcapng()], ids=["pcap", "pcapng"])
def test_compiled_and_plain_walks_are_equal(octets: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = len(octets)
    plain = {n: read(octets[:n]) for n in range(whole - 120 if whole > 200 else 24, whole + 1)}
    monkeypatch.setattr(source, "COMPILE_FROM_OCTETS", 0)
    for n, (seen, reader) in plain.items():
        # A stream of unknown size is first interpreted, and then compiled.
        again, compiled_reader = read(octets[:n], batch_frames=1)
        assert again == seen
        assert str(compiled_reader.problem) == str(reader.problem)


def interpreted(monkeypatch: pytest.MonkeyPatch, size_octets: int) -> source.Walker:
    """Return a walker that is created as if numba were not loaded."""
    with monkeypatch.context() as patch:
        patch.setattr(library, "is_ready", lambda: False)
        return source.Walker(size_octets)


@pytest.mark.parametrize("lap_octets", [33, 1 << 20])
def test_a_large_mapped_capture_is_walked_compiled(lap_octets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LAP_OCTETS", lap_octets)
    octets = np.frombuffer(pcap_record(b"four", big=True, seconds=1, ticks=2) * 50, dtype=np.uint8)
    arguments = (16, 262_144, 0, True)
    monkeypatch.setattr(source.Walker, "_walked_before", 0)
    small = interpreted(monkeypatch, len(octets)).run(walk_pcap, 4, octets, 0, 10**9, 1000, *arguments)
    large = source.Walker(1 << 40).run(walk_pcap, 4, octets, 0, 10**9, 1000, *arguments)
    assert small[0].tolist() == large[0].tolist()
    assert large[0].tolist() == [list(range(0, 1000, 20)), *([word] * 50 for word in (1, 2, 4, 4))]
    assert small[1] == large[1] == 1000
    some = source.Walker(1 << 40).run(walk_pcap, 4, octets, 0, 300, 7, *arguments)
    assert (some[0][0].tolist(), some[1]) == ([0, 20, 40, 60, 80, 100, 120], 140)
    cut = source.Walker(1 << 40).run(walk_pcap, 4, octets[:-1], 900, 10**9, 1000, *arguments)
    assert (cut[0][0].tolist(), cut[1]) == ([900, 920, 940, 960], 980)
    assert source.Walker(1 << 40)._large
    assert not interpreted(monkeypatch, 1 << 20)._large
    assert source.Walker(1 << 20)._large == library.is_ready()


def test_many_small_captures_are_walked_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    octets = np.frombuffer(pcap_record(b"four", big=True) * 50, dtype=np.uint8)
    monkeypatch.setattr(source.Walker, "_walked_before", 0)
    monkeypatch.setattr(source, "COMPILE_FROM_OCTETS", 1500)
    for walked_compiled in (False, False, True):
        walker = interpreted(monkeypatch, len(octets))
        assert walker._large == walked_compiled
        if not walked_compiled:
            walker.run(walk_pcap, 4, octets, 0, 10**9, 1000, 16, 262_144, 0, True)


def test_reading_a_small_capture_imports_no_compiler() -> None:
    program = (
        "import io, sys\n"
        "from ecmproto.frames.capture import open_capture\n"
        f"octets = {small_pcapng()!r}\n"
        "with open_capture(io.BytesIO(octets)) as reader: assert sum(map(len, reader)) == 5\n"
        "print(sorted({'numba', 'scapy', 'backports.zstd', 'compression.zstd'} & sys.modules.keys()))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
