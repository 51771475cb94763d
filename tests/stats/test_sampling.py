"""Estimates from samples: sums, intervals, and omitted estimates."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import numpy as np
import pytest

from ecmproto.errors import ParameterError
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.capture.batch import ETHERNET, Interface
from ecmproto.frames.stats import Accumulator, Estimate
from ecmproto.frames.stats.accumulator import capture_stats
from ecmproto.frames.stats.sampling import NONE_SEEN, parse_sampled, share_interval, sum_interval
from ecmproto.tools.check.checker import check_capture
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode
from ecmproto_cli.main import run
from tests.batch.test_inner import written
from tests.batch.test_sflow import datagram, flow, raw, sent

PCAPS = Path(__file__).parents[2] / "pcaps"
TAGGED = [encode(build(f"vlan id=5 prio={n} ip udp dstport=9 data data={'00' * (60 * n)}")) for n in range(8)]
CNP, PFC = encode(build("cnp")), encode(build("pfc prio3=65535"))
MARKED = encode(build("ip ecn=3 udp dstport=4791 bth opcode=4 data data=00000000"))
UNMARKED = encode(build("ip ecn=2 udp dstport=4791 bth opcode=4 data data=00000000"))


def drawn(count: int, seed: int = 1) -> list[bytes]:
    draw = random.Random(seed)
    return draw.choices([*TAGGED, CNP, PFC, MARKED, UNMARKED], k=count)


def estimated(
    frames: list[bytes], sampled: tuple[int, bool], *, sizes: int = 10_000
) -> dict[tuple[str, str], Estimate]:
    counts = Accumulator(sampled=sampled)
    for first in range(0, len(frames), sizes):
        part = frames[first : first + sizes]
        counts.add(Batch.from_frames(part, time_ns=1000 * (first + np.arange(len(part)))))
    sample = counts.result().sample
    assert sample is not None
    return {(each.figure, each.subject): each for each in sample.estimates}


@pytest.mark.parametrize(
    ("share", "frames", "low", "high"),
    [(0.1, 100, 0.0552, 0.1744), (0.5, 10, 0.2366, 0.7634), (0.0, 20, 0.0, 0.1611), (1.0, 20, 0.8389, 1.0)],
)
def test_intervals_of_shares_are_wilsons(share: float, frames: float, low: float, high: float) -> None:
    assert share_interval(share, frames) == pytest.approx((low, high), abs=1e-4)


def test_intervals_of_sums_are_those_of_counts() -> None:
    # The score interval of a count of 10 solves (10 − λ)² = 1.96²·λ.
    low, high = sum_interval(160.0, 10 * 16**2)
    for bound in (low / 16, high / 16):
        assert (10 - bound) ** 2 == pytest.approx(1.959964**2 * bound)
    assert sum_interval(0.0, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("expected", "low", "high"),
    [(0.06, 0.94, 1), (0.15, 0.94, 1), (0.5, 0.94, 1), (3.5, 0.94, 0.98), (12, 0.94, 0.965)],
)
def test_intervals_of_few_frames_contain_the_truth(expected: float, low: float, high: float) -> None:
    covered, chance = 0.0, math.exp(-expected)
    for count in range(100):
        bounds = sum_interval(float(count), float(count)) if count else (0.0, NONE_SEEN)
        covered += chance * (bounds[0] <= expected <= bounds[1])
        chance *= expected / (count + 1)
    assert low <= covered <= high


@pytest.mark.parametrize(("text", "sampled"), [("1:4096", (4096, False)), ("every:16", (16, True))])
def test_sampling_is_read(text: str, sampled: tuple[int, bool]) -> None:
    assert parse_sampled(text) == sampled


@pytest.mark.parametrize("text", ["", "4096", "2:16", "1:0", "every:-1", "1:4294967296", "1:²"])
def test_invalid_sampling_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="1:N or every:N"):
        parse_sampled(text)


@pytest.mark.parametrize("every", [False, True])
def test_estimates_do_not_depend_on_batches(every: bool) -> None:
    frames = drawn(2000)
    one = estimated(frames, (64, every))
    assert estimated(frames, (64, every), sizes=7) == one
    seconds = 1999e-6 * (2000 if every else 2001) / 1999
    for key, count in {
        ("frames", ""): 2000, ("CNP frames", ""): frames.count(CNP), ("PFC frames", ""): frames.count(PFC),
    }.items():  # fmt: skip
        assert one[key].value == pytest.approx(64 * count / seconds)
        low, high = one[key].low, one[key].high
        assert (low, high) == (None, None) if every else low < one[key].value < high  # type: ignore[operator]
    octets = sum(map(len, frames))
    assert one["rate", ""].value == pytest.approx(64 * 8 * octets / seconds)
    marked, roce = frames.count(MARKED), sum(frames.count(each) for each in (MARKED, UNMARKED, CNP))
    assert one["CE share", ""].value == pytest.approx(marked / roce)
    assert one["share of frames", "priority 3"].value == pytest.approx(frames.count(TAGGED[3]) / 2000)


def test_intervals_of_rates_include_both_ends() -> None:
    rate = estimated([CNP] * 12, (64, False))["frames", ""]
    count = 1 / ((1 - 1 / 64) / 12 + 2 / 12**2)
    for bound in (rate.low, rate.high):
        assert bound is not None
        times = bound / rate.value
        assert count * (1 - times) ** 2 == pytest.approx(1.959964**2 * times)


def test_intervals_of_random_samples_cover_the_truth() -> None:
    frames = Batch.from_frames(drawn(40_000, 3), time_ns=1000 * np.arange(40_000))
    octets = frames.original
    truth = {
        ("CNP frames", ""): sum(each == CNP for each in frames) / 0.04,
        ("rate", ""): 8 * int(octets.sum()) / 0.04,
        ("share of frames", "priority 2"): sum(each == TAGGED[2] for each in frames) / 40_000,
    }
    draw, holds = np.random.default_rng(7), 0
    for _ in range(200):
        counts = Accumulator(sampled=(64, False))
        counts.add(frames.select(draw.random(40_000) < 1 / 64))
        sample = counts.result().sample
        assert sample is not None
        found = {(each.figure, each.subject): each for each in sample.estimates}
        holds += sum(found[key].low <= value <= found[key].high for key, value in truth.items())  # type: ignore[operator]
    assert 0.92 < holds / 600 < 0.98


def test_rates_of_sflow_are_known(tmp_path: Path) -> None:
    samples = [flow(raw(TAGGED[n % 8]), port=n % 3, rate=(16, 1024, 0)[n % 3]) for n in range(300)]
    path = written(
        tmp_path / "sflow.pcap", sent(*(datagram(each, sequence=n) for n, each in enumerate(samples)))
    )
    statistics = capture_stats(str(path))
    sample = statistics.sample
    assert sample is not None
    assert (sample.one_in, sample.frames, sample.unknown_frames) == ((16, 1024), 200, 100)
    (frames,) = [each for each in sample.estimates if each.figure == "frames"]
    seconds = 301e-9  # of 300 frames that were read in 299 ns
    assert frames.value == pytest.approx(100 * (16 + 1024) / seconds)
    assert any("unknown sampling rate" in note for note in statistics.notes)
    assert any("Not estimated: " + ", ".join(sample.not_estimated) in note for note in statistics.notes)


def test_many_rates_are_bounded() -> None:
    interfaces = [Interface(index=n, linktype=ETHERNET, sampling=n + 2) for n in range(40)]
    counts = Accumulator()
    batch = Batch.from_frames(TAGGED * 5, time_ns=np.arange(40) * 1000, interface=np.arange(40))
    counts.add(batch, interfaces=interfaces)
    sample = counts.result(interfaces=interfaces).sample
    assert sample is not None
    assert (len(sample.one_in), sample.unknown_frames) == (16, 24)


def test_whole_captures_have_no_estimates() -> None:
    assert capture_stats(str(PCAPS / "pfc.pcap")).sample is None


def test_figures_of_complete_captures_are_omitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(written(tmp_path / "sample.pcap", drawn(500), [1000 * n for n in range(500)]))
    assert run(["stats", path, "-T", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pauses"] is not None
    assert run(["stats", path, "--sampled", "1:64", "-T", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["pauses"] is None
    assert document["roce"]["cnp_delay_ns"] is None
    assert {each["psns_missing"] for each in document["roce"]["queue_pairs"]} == {None}
    assert document["sample"]["one_in"] == [64]
    assert all(each["low"] <= each["value"] <= each["high"] for each in document["sample"]["estimates"])
    assert run(["stats", path, "--sampled", "every:64"]) == 0
    shown = capsys.readouterr().out
    assert "all frames, by every 64th: no intervals, since the sample may be in step" in shown
    assert "its estimates have no intervals" in " ".join(shown.split())
    assert "paused" not in shown.partition("notes")[0]
    assert run(["stats", path, "--sampled", "64"]) == 2


def test_states_have_samples_and_samples_are_not_joined() -> None:
    batch = Batch.from_frames(drawn(300), time_ns=np.arange(300) * 1000)
    counts = Accumulator(sampled=(16, True))
    counts.add(batch)
    same = Accumulator.of_state(counts.state())
    assert same.result() == counts.result()
    same.add(batch)
    counts.add(batch)
    assert same.result() == counts.result()
    with pytest.raises(ParameterError, match="whole captures"):
        counts.merge(Accumulator(sampled=(16, True)))


@pytest.mark.parametrize(
    "name", ["qcn_cp.pcapng", "pfc.pcap", "ecm_cp.pcap", "bcn_cp.pcap", "incast.pcap.gz"]
)
def test_cut_headers_of_samples_break_no_rule(name: str, tmp_path: Path) -> None:
    with open_capture(str(PCAPS / name)) as reader:
        batch = next(iter(reader))[:2000]
        whole = zip(batch, batch.original.tolist(), batch.time_ns.tolist(), strict=True)
        datagrams = [
            datagram(flow(raw(frame + bytes(size - len(frame)), cut=80), rate=512), sequence=n)
            for n, (frame, size, _) in enumerate(whole)
        ]
    path = written(tmp_path / "sflow.pcap", sent(*datagrams), batch.time_ns.tolist())
    checked = check_capture(str(path))
    before = {each.rule.id for each in check_capture(str(PCAPS / name)).results if each.wrong}
    assert {each.rule.id for each in checked.results if each.wrong} <= before
    assert sum("rules that need every frame were skipped" in note for note in checked.notes) == 1


def test_rules_for_complete_captures_are_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # CNPs are 10 µs apart. Only the complete capture shows that they belong to one queue pair.
    bad = PFC[:6] + b"\xff" * 6 + PFC[12:]
    path = str(written(tmp_path / "cnps.pcap", [CNP] * 50 + [MARKED, bad], [10_000 * n for n in range(52)]))
    found = {}
    for sampled in (False, True):
        checked = check_capture(path, sampled=sampled)
        found[sampled] = {each.rule.id for each in checked.results if each.wrong}
    assert "CNP003" in found[False]
    assert "PFC002" in found[True]
    assert found[True] < found[False]
    assert "CNP003" not in found[True]
    run(["check", path, "--sampled", "1:64"])
    assert "rules that need every frame were skipped: " in " ".join(capsys.readouterr().out.split())


def test_silent_rules_write_no_notes(tmp_path: Path) -> None:
    cnps = [encode(build(f"ip src=10.0.0.2 dst=10.0.0.{n} cnp qp={n}")) for n in (1, 9, 1, 3)]
    path = str(written(tmp_path / "cnps.pcap", cnps, [50_000 * n for n in range(4)]))
    assert any("CNP003" in note for note in check_capture(path).notes)
    (note,) = check_capture(path, sampled=True).notes
    assert note.startswith("The frames are a sample")
