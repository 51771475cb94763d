"""Statistics of files: filters, limits, unreadable frames, skipped frames, and notes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import CaptureError, FilterError, ParameterError
from ecmproto.frames.capture import Batch, Interface, PcapngWriter, PcapWriter, open_capture
from ecmproto.frames.stats import Accumulator, Statistics, as_document, capture_stats, document_text
from ecmproto.frames.stats.counters import (
    MAX_FLOWS,
    MAX_MALFORMED,
    MAX_POINTS,
    OTHER_MALFORMED,
    FrameCounts,
    malformation,
)
from ecmproto.frames.stats.statistics import SCHEMA
from ecmproto.wire.codec import CNM, E2CM, Ethernet, EtherTypes, Frame, RDTag, encode
from pcaps.manifest import FOLDER
from tests.capture.octets import description, section, simple
from tests.stats.slow import Slow

MIXED = FOLDER / "mixed.pcap"
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
DST, SRC = bytes.fromhex("020000000001"), bytes.fromhex("0200000000c1")


def cnm(cpid: int, destination: int = 1) -> bytes:
    layers = (Ethernet(dst=destination.to_bytes(6), src=SRC), CNM(cpid=cpid, qntz_fb=9))
    return encode(Frame(layers=layers), fix=True)


def of_frames(frames: list[bytes], **arguments: object) -> Statistics:
    counts = Accumulator()
    counts.add(Batch.from_frames(frames, **arguments))  # type: ignore[arg-type]
    return counts.result()


def test_paths_files_and_readers_give_equal_statistics() -> None:
    wanted = capture_stats(MIXED)
    assert wanted.frames == 26
    assert capture_stats(str(MIXED), threads=1) == wanted
    assert capture_stats(io.BytesIO(MIXED.read_bytes())) == wanted
    with open_capture(MIXED, batch_frames=3) as reader:
        assert capture_stats(reader) == wanted


def test_filter_keeps_the_time_span() -> None:
    whole, found = capture_stats(MIXED), capture_stats(MIXED, filter="cnm or fecn")
    assert (found.frames, found.read_frames) == (2, 26)
    assert [each.kind.name for each in found.kinds if each.kind.group == "message"] == ["cnm", "fecn"]
    assert (found.span, found.intervals) == (whole.span, whole.intervals)
    assert sum(found.frames_over_time) == 2
    with open_capture(MIXED) as reader:
        slow = Slow(list(reader), reader.interfaces, selects=lambda record: record.number in (5, 9, 16))
    assert capture_stats(MIXED, filter="frame.number in {5, 9, 16}").kinds == slow.result().kinds


def test_a_filter_that_selects_nothing() -> None:
    found = capture_stats(MIXED, filter="frame.number > 100")
    assert (found.frames, found.octets, found.kinds, found.sizes.minimum, found.notes) == (0, 0, (), None, ())
    assert found.read_frames == 26


def test_invalid_filter_is_refused() -> None:
    with pytest.raises(FilterError):
        capture_stats(MIXED, filter="cnm and")


@pytest.mark.parametrize("limit", [1, 7, 26, 100])
def test_a_limit(limit: int) -> None:
    found = capture_stats(MIXED, limit=limit)
    assert found.frames == min(limit, 26)
    with open_capture(MIXED) as reader:
        slow = Slow([batch.select(range(min(limit, 26))) for batch in reader], reader.interfaces)
    assert found.kinds == slow.result().kinds


def test_other_ethertypes() -> None:
    octets = bytearray(cnm(5))
    octets[12:14] = b"\x12\x34"
    counts = Accumulator(ethertypes=EtherTypes(cnm=0x1234))
    counts.add(Batch.from_frames([bytes(octets)]))
    assert [each.cpid for each in counts.result().congestion_points] == [5]


@pytest.mark.parametrize("arguments", [{"interval_ns": 0}, {"interval_ns": 1 << 62}, {"speed_bps": 0}])
def test_invalid_interval_or_speed_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ParameterError):
        capture_stats(MIXED, **arguments)  # type: ignore[arg-type]


def test_an_empty_capture(tmp_path: Path) -> None:
    path = tmp_path / "empty.pcapng"
    PcapngWriter(path, interfaces=[Interface(index=0, linktype=1, name="a")]).close()
    found = capture_stats(path)
    assert (found.frames, found.span.duration_ns, found.intervals.count, found.problem) == (0, 0, 0, None)
    assert [(each.name, each.frames) for each in found.interfaces] == [("a", 0)]


@pytest.mark.parametrize("octets", [1, 24, 400])
def test_cut_capture_is_counted_up_to_cut(octets: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(MIXED.read_bytes()[:-octets])
    found = capture_stats(path)
    assert isinstance(found.problem, CaptureError)
    assert found.frames == found.problem.frame < 26
    assert as_document(found, "cut.pcap")["problem"] == str(found.problem)


def test_no_capture(tmp_path: Path) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(b"this is no capture")
    with pytest.raises(CaptureError):
        capture_stats(path)


def test_single_time_has_no_rate() -> None:
    found = of_frames([cnm(1), cnm(1)], time_ns=10**18)
    assert (found.span.duration_ns, found.span.per_second(2), found.share(0)) == (0, None, None)


def test_frames_without_a_time() -> None:
    octets = section() + description() + simple(cnm(1)) + simple(cnm(2))
    found = capture_stats(io.BytesIO(octets))
    assert (found.frames, found.untimed_frames, found.span.first_ns, found.intervals.count) == (2, 2, None, 0)
    assert [each.frames for each in found.congestion_points] == [1, 1]
    assert "2 frames without a time: not in the rates over time." in found.notes


def test_excess_congestion_points_are_left_out() -> None:
    frames = [cnm(number) for number in range(MAX_POINTS + 3)] + [cnm(MAX_POINTS + 7), cnm(0)]
    found = of_frames(frames)
    assert [each.cpid for each in found.congestion_points] == list(range(MAX_POINTS))
    assert found.congestion_points[0].frames == 2
    assert found.left_out["congestion_points"] == 4
    assert any(f"beyond the first {MAX_POINTS}" in note for note in found.notes)


def test_excess_flows_are_left_out() -> None:
    template = np.frombuffer(cnm(1), np.uint8)
    matrix = np.tile(template, (MAX_FLOWS + 100, 1))
    matrix[:, 4:6] = np.arange(1, MAX_FLOWS + 101, dtype=">u2").view(np.uint8).reshape(-1, 2)
    counts = Accumulator()
    counts.add(Batch.from_matrix(matrix))
    found = counts.result()
    assert len(found.message_flows) == MAX_FLOWS
    assert found.left_out == {"message_flows": 100}
    assert found.congestion_points[0].frames == MAX_FLOWS + 100


def test_excess_malformation_types_are_counted_as_others() -> None:
    counts = FrameCounts()
    counts.malformed.update(f"way {number}" for number in range(MAX_MALFORMED))
    counts.add_errors({"cnm at octet 14: expected 24 octets, got 3 octets": 5, "way 3": 1})
    assert counts.malformations[OTHER_MALFORMED] == counts.left_out == 5
    assert counts.malformations["way 3"] == 2
    assert len(counts.malformations) == MAX_MALFORMED + 1


@pytest.mark.parametrize(
    ("error", "what"),
    [
        ("cnm at octet 22: expected 72 octets, got 44 octets", "cnm: expected more octets"),
        ("cnm at octet 44: expected msdu_length 0..64, got 65", "cnm: expected msdu_length 0..64"),
        ("ecm at octet 3: expected 24 octets of the sampled frame, got 2 octets",
         "ecm: expected 24 octets of the sampled frame"),
        ("something else", "something else"),
    ],
)  # fmt: skip
def test_malformation_omits_numbers_of_the_frame(error: str, what: str) -> None:
    assert malformation(error) == what


def notes_of(frames: list[bytes], interfaces: list[Interface], **arguments: object) -> str:
    counts = Accumulator(interval_ns=1000)
    counts.add(Batch.from_frames(frames, **arguments), interfaces=interfaces)  # type: ignore[arg-type]
    return " ".join(counts.result().notes)


def test_notes_warn_of_misleading_captures() -> None:
    ethernet = [Interface(index=0, linktype=1)]
    assert notes_of([cnm(1)], ethernet).startswith("The absence of PAUSE and PFC frames proves nothing")
    assert "1 frame truncated by the capture" in notes_of([cnm(1)], ethernet, original=2000)
    backwards = notes_of([cnm(1), cnm(1), cnm(1)], ethernet, time_ns=[5, 3, 4])
    assert "2 frames with a time before the previous frame's" in backwards
    assert "Intervals of 1 µs would exceed the memory limit" in notes_of(
        [cnm(1), cnm(1)], ethernet, time_ns=[0, 10**9]
    )


def test_notes_on_other_link_types() -> None:
    notes = notes_of([cnm(1)], [Interface(index=0, linktype=147)])
    assert "(147) are not decoded" in notes
    assert "PAUSE" not in notes


def test_the_document_is_plain_json() -> None:
    for path in sorted(FOLDER.glob("*.pcap*")):
        if path.name.startswith("incast"):
            continue
        text = document_text(capture_stats(path), path.name)
        document = json.loads(text, parse_constant=pytest.fail)  # no NaN, no infinity
        assert (document["schema"], document["capture"]) == (SCHEMA, path.name)


def test_the_document_of_mixed_frames() -> None:
    document = as_document(capture_stats(MIXED), "mixed.pcap")
    assert [interface["speed_bps"] for interface in document["interfaces"]] == [None]
    points = {point["kind"]: point for point in document["congestion_points"]}
    assert points["cnm"]["cpid"] == "0200000000c10001"
    assert points["cnm"]["q_offset_octets"]["mean"] == -25600
    assert points["cnm"]["fb_histogram"][40] == 1
    assert document["message_flows"][0]["destination"] == "02:00:00:00:00:01"
    assert document["probes"]["latency_ns"]["p50"] == 53_000
    assert {rate["kind"]: rate["rate_bps"] and rate["rate_bps"]["mean"] for rate in document["rates"]} == {
        "rdtag": None,
        "fecn": 2.5e9,
        "dbp": 5e9,
    }
    (sender,) = document["pauses"]["senders"]
    assert (sender["source"], sender["paused_ns"], sender["speed_is_stated"]) == (
        "02:00:00:00:00:c1", 9000, False
    )  # fmt: skip
    assert sender["paused_share"] == pytest.approx(0.36)
    lists = [*document["kinds"], document]
    assert {len(each["frames_over_time"]) for each in lists} == {document["intervals"]["count"]}


def test_means_over_time_are_null_when_empty() -> None:
    layers = (Ethernet(dst=DST, src=SRC), E2CM(type=4, cpid=9 << 16, latency=500, flow_id=3))
    probe = encode(Frame(layers=layers), fix=True)
    tagged = encode(Frame(layers=(Ethernet(dst=DST, src=SRC), RDTag(rlq_id=1, rate=7))), fix=True)
    counts = Accumulator(interval_ns=100)
    counts.add(Batch.from_frames([probe, cnm(1), probe, tagged], time_ns=[0, 150, 250, 250]))
    document = as_document(counts.result(), "")
    assert document["probes"]["latency_mean_ns_over_time"] == [500, None, 500]
    assert document["rates"][0]["rate_mean_bps_over_time"] == [None, None, 7000]


@pytest.mark.skipif(PLAIN, reason="hundreds of thousands of frames as plain Python take minutes")
def test_memory_does_not_grow_with_the_capture(tmp_path: Path) -> None:
    rows = np.tile(np.frombuffer(cnm(1), np.uint8), (20_000, 1))
    path = tmp_path / "long.pcap"
    with PcapWriter(path) as writer:
        for piece in range(10):
            writer.write_matrix(rows, time_ns=10**18 + piece * 10**9 + 1000 * np.arange(len(rows)))
    peaks = []
    for limit in (40_000, 200_000):
        capture_stats(path, limit=limit, threads=1)
        tracemalloc.start()
        with open_capture(path, batch_frames=4096) as reader:
            capture_stats(reader, limit=limit, threads=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_counting_imports_no_compiler() -> None:
    script = "import sys, ecmproto.frames.stats, ecmproto.tools.fleet.tasks; print('numba' in sys.modules)"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
