"""Sources without congestion control: timetables calculated by hand, and average rates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from math import ceil, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.control.engine.event_heap import entry_due_ns
from ecmproto.control.engine.traffic import new_offers
from ecmproto.control.lab.model import Flow, Pattern
from ecmproto.control.lab.traffic.sources import mean_octets, new_sources
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.errors import CaptureError, ParameterError, SpecError
from ecmproto.frames.capture import PcapWriter
from ecmproto.kernels.record import columns
from tests.lab.one_link import driven, flow, offered_ns
from tests.lab.tiny_network import TinyNetwork, sources_of, times

MS = 1_000_000


def offered(*flows: Flow, until_ns: int, seed: int = 1) -> TinyNetwork:
    return TinyNetwork(sources_of(*flows, seed=seed)).run(until_ns)


def mean_bps(came_ns: NDArray[np.int64]) -> float:
    return float((len(came_ns) - 1) * 12e12 / (came_ns[-1] - came_ns[0]))


def drawn_ns(given: Flow, frames: int, *, overhead: int = 0) -> NDArray[np.int64]:
    """Return the times of the first ``frames`` frames from a source."""
    return offered_ns(driven(sources_of(given, overhead=overhead), most=frames))


def test_saturating_source_keeps_two_frames_queued() -> None:
    network = offered(flow(Pattern.SATURATING, start_ns=500, stop_ns=5000), until_ns=10_000)
    assert times(network.offered) == [500, 500, 1700, 2900, 4100]
    source = network.sources.records[0]
    assert (source.offered_frames, source.delivered_frames, source.in_nic) == (5, 5, 0)
    assert source.offered_octets == source.delivered_octets == 7500


def test_saturating_source_retries_one_frame_time_after_refusal() -> None:
    network = TinyNetwork(sources_of(flow(Pattern.SATURATING)), nic_frames=1).run(4000)
    # Of two simultaneous frames, the second is refused. After one frame leaves, one frame fits.
    assert times(network.offered) == [0, 0, 1200, 1200, 2400, 2400, 3600, 3600]
    assert network.sources.records[0].refused_frames == 4


def test_cbr_by_hand() -> None:
    # 800 bits at 3 Gb/s: 266.67 ns.
    network = offered(flow(Pattern.CBR, frame_octets=100, rate_bps=3 * 10**9, start_ns=7), until_ns=1400)
    assert times(network.offered) == [7, 274, 541, 807, 1074, 1341]


@given(st.integers(60, 9216), st.integers(10**6, 10**11), st.integers(0, 10**6))
def test_frame_k_of_cbr_is_exact(octets: int, rate_bps: int, start_ns: int) -> None:
    sources = sources_of(flow(Pattern.CBR, frame_octets=octets, rate_bps=rate_bps, start_ns=start_ns))
    offers = new_offers()
    for k in range(60):
        assert sources.next_source_ns() == start_ns + ceil(Fraction(k * octets * 8 * 10**9, rate_bps))
        sources.on_source_timer(sources.next_source_ns(), offers)
        offers.count.posted -= 1


def test_due_sources_are_served_in_order_within_capacity() -> None:
    flows = [flow(Pattern.CBR, rate_bps=10**9) for _ in range(20)]
    sources, offers = sources_of(*flows), new_offers()
    sources.on_source_timer(0, offers)
    assert [each.source for each in offers.records] == list(range(16))
    assert sources.next_source_ns() == 0
    offers.count.posted = 0
    sources.on_source_timer(0, offers)
    assert [each.source for each in offers.records[: offers.count.posted]] == [16, 17, 18, 19]


@pytest.mark.parametrize(("backlog", "kept"), [(1500, 10), (4000, 12), (0, 20)])
def test_a_backlog_drops_what_cannot_leave(backlog: int, kept: int) -> None:
    # The source offers twice the link's rate for twenty frames. After the backlog, frames leave one by one.
    given = flow(Pattern.CBR, rate_bps=2 * 10**10, backlog_octets=backlog, stop_ns=12_000)
    network = TinyNetwork(sources_of(given)).run(60_000)
    source = network.sources.records[0]
    assert len(network.offered) == kept
    assert source.excess_frames == 20 - kept
    assert source.excess_octets == 1500 * source.excess_frames
    assert source.offered_frames == 20
    assert source.delivered_frames == kept


def test_bernoulli_slots_last_one_frame_time() -> None:
    given = flow(Pattern.BERNOULLI, rate_bps=6 * 10**9, start_ns=100)
    slots, rests = np.divmod(drawn_ns(given, 10_000) - 100, 1200)
    assert not rests.any()
    # The slots of 10,000 frames with a chance of 0.6: a standard deviation of 105.
    assert abs(slots[-1] - 16_667) < 320
    gaps = np.bincount(np.diff(slots), minlength=4)[:4] / (len(slots) - 1)
    assert gaps == pytest.approx([0, 0.6, 0.24, 0.096], abs=0.015)


def test_bernoulli_source_at_line_rate_fills_every_slot() -> None:
    network = offered(flow(Pattern.BERNOULLI, rate_bps=10**10), until_ns=12_000)
    assert times(network.offered) == [1200 * k for k in range(11)]


def test_bernoulli_overhead_lengthens_slots_but_keeps_rate() -> None:
    came = drawn_ns(flow(Pattern.BERNOULLI, rate_bps=8 * 10**9), 10_000, overhead=25)
    assert not (came % 1220).any()
    assert mean_bps(came) == pytest.approx(8e9, rel=0.01)


def test_very_slow_bernoulli_source_also_stops() -> None:
    sources = sources_of(flow(Pattern.BERNOULLI, rate_bps=1, stop_ns=MS))
    assert sources.next_source_ns() == NEVER_NS


def test_poisson_distances_are_exponential() -> None:
    gaps = np.diff(drawn_ns(flow(Pattern.POISSON, rate_bps=2 * 10**9), 10_000))
    assert gaps.mean() == pytest.approx(6000, rel=0.03)
    assert gaps.std() == pytest.approx(6000, rel=0.03)
    assert np.median(gaps) == pytest.approx(6000 * log(2), rel=0.03)


def test_constant_times_on_and_off_by_hand() -> None:
    # A frame every 4 µs: of the third distance 2 µs pass before the source goes off at 10, 2 after 15.
    given = flow(
        Pattern.ON_OFF, frame_octets=500, rate_bps=10**9, on_ns=10_000, off_ns=5000, shape=-1.0, start_ns=0
    )
    network = offered(given, until_ns=40_000)
    expected = [0, 4000, 8000, 17_000, 21_000, 30_000, 34_000, 38_000]
    assert times(network.offered) == expected


def test_on_periods_shorter_than_frames_keep_mean_rate() -> None:
    given = flow(Pattern.ON_OFF, rate_bps=10**10, on_ns=500, off_ns=500, shape=-1.0)
    assert mean_bps(drawn_ns(given, 5000)) == pytest.approx(5e9, rel=0.001)


@pytest.mark.parametrize(("shape", "within"), [(0.0, 0.05), (3.0, 0.05), (1.5, 0.25)])
def test_random_times_on_and_off_have_their_means(shape: float, within: float) -> None:
    on_ns, off_ns = 6_000, 12_000
    came = drawn_ns(flow(Pattern.ON_OFF, rate_bps=10**10, on_ns=on_ns, off_ns=off_ns, shape=shape), 20_000)
    assert mean_bps(came) == pytest.approx(1e10 / 3, rel=within)
    if shape > 0:
        # No time is shorter than the scale of the distribution, and none of its times on than 3 frames' time.
        spells = np.diff(came)[np.diff(came) > 1200] - 1200
        assert spells.min() == pytest.approx(off_ns * (shape - 1) / shape, rel=0.01)
        assert spells.mean() == pytest.approx(off_ns, rel=within)


def test_sources_stop_and_start() -> None:
    given = [
        flow(pattern, rate_bps=10**9, on_ns=50_000, off_ns=0, start_ns=MS, stop_ns=2 * MS)
        for pattern in (Pattern.CBR, Pattern.BERNOULLI, Pattern.POISSON, Pattern.ON_OFF)
    ]
    network = offered(*given, until_ns=5 * MS)
    assert network.sources.next_source_ns() == NEVER_NS
    for source in range(4):
        came = times(network.offered, source)
        assert came[0] >= MS
        assert came[-1] < 2 * MS
        assert 60 < len(came) < 110


def test_a_random_start_lies_in_the_first_period() -> None:
    given = [flow(Pattern.CBR, rate_bps=10**9, start_ns=MS, random_start=True) for _ in range(200)]
    starts = np.array([entry_due_ns(sources_of(*given).events, each) for each in range(200)]) - MS
    assert 0 <= starts.min() < 200
    assert 11_800 < starts.max() < 12_000
    assert starts.mean() == pytest.approx(6000, rel=0.15)


def test_a_schedule_by_hand() -> None:
    # 3,100 octets are frames of 1,500, 1,500 and 100; the second burst waits for the first, the third, of 10
    # octets, is padded.
    given = flow(Pattern.SCHEDULE, bursts=((9000, 10), (1000, 3100), (2000, 1500)), start_ns=100)
    network = offered(given, until_ns=20_000)
    assert [(each.time_ns, each.octets) for each in network.offered] == [
        (1100, 1500), (1100, 1500), (2300, 100), (3500, 1500), (9100, 60),
    ]  # fmt: skip
    # Frames leave at 2,300, 3,500, 3,580, 4,780 and 9,148, and arrive 1,000 later.
    assert network.completed == [
        (4580, 0, 3100, 3480),
        (5780, 0, 1500, 3680),
        (10_148, 0, 10, 1048),
    ]
    source = network.sources.records[0]
    assert (source.completed, source.latency_ns) == (3, 3480 + 3680 + 1048)
    assert (source.latency_min_ns, source.latency_max_ns) == (1048, 3680)


def test_frames_of_a_capture_come_at_their_times(tmp_path: Path) -> None:
    path = str(tmp_path / "in.pcap")
    macs = [bytes([2, 0, 0, 0, 0, number]) for number in (1, 2)]
    came = [(5_000, 0, 1514), (5_700, 1, 40), (5_700, 0, 900), (9_000, 1, 64)]
    with PcapWriter(path) as writer:
        for ns, number, octets in came:
            writer.write_frame((b"\xff" * 6 + macs[number]).ljust(octets, b"\0"), 10**18 + ns)
    every = offered(flow(Pattern.CAPTURE, capture=path, start_ns=100), until_ns=MS)
    assert [(each.time_ns, each.octets) for each in every.offered] == [
        (100, 1514), (800, 60), (800, 900), (4_100, 64)
    ]  # fmt: skip
    # The frames of one source keep their times relative to the capture.
    second = flow(Pattern.CAPTURE, capture=path, capture_source="02:00:00:00:00:02", stop_ns=4_000)
    assert [(each.time_ns, each.octets) for each in offered(second, until_ns=MS).offered] == [(700, 60)]
    with pytest.raises(SpecError, match="six octets"):
        sources_of(flow(Pattern.CAPTURE, capture=path, capture_source="02:00"))
    with pytest.raises(CaptureError):
        sources_of(flow(Pattern.CAPTURE, capture=path + "x"))


def test_flow_with_a_lost_frame_never_completes() -> None:
    bursts = tuple((2000 * k, 1500) for k in range(600))
    lost: list[int] = []

    def first_one(frame: object) -> bool:
        lost.append(1)
        return len(lost) == 1

    network = TinyNetwork(sources_of(flow(Pattern.SCHEDULE, bursts=bursts)), lose=first_one).run(2 * MS)
    assert (len(network.completed), network.sources.records[0].incomplete) == (599, 1)


def test_sizes_come_from_their_distribution_at_poisson_times() -> None:
    sizes = ((100, 0.5), (100, 0.5), (3000, 0.5), (6000, 1.0))
    assert mean_octets(sizes) == 50 + 2250
    network = driven(sources_of(flow(Pattern.SIZES, sizes=sizes, rate_bps=4 * 10**9)), most=20_000)
    done = columns(network.offers.completions)[: network.offers.count.completed]
    octets = done["octets"]
    assert (octets == 100).mean() == pytest.approx(0.5, abs=0.012)
    larger = octets[octets > 100]
    assert 3000 <= larger.min() < 3005
    assert 5995 < larger.max() <= 6000
    assert larger.mean() == pytest.approx(4500, rel=0.01)
    gaps = np.diff(done["time_ns"] - done["latency_ns"])
    assert gaps.min() >= 0
    assert gaps.mean() == pytest.approx(4600, rel=0.03)
    assert gaps.std() == pytest.approx(4600, rel=0.05)


def test_latency_without_queueing_is_transmission_plus_delay() -> None:
    network = offered(flow(Pattern.SIZES, sizes=((4000, 1.0),), rate_bps=10**6), until_ns=800 * MS)
    assert len(network.completed) > 12
    assert {done.latency_ns for done in network.completed} == {4000 * 8 // 10 + 1000}


def test_plain_and_compiled_sources_do_the_same() -> None:
    command = [sys.executable, "-m", "tests.lab.one_link"]
    runs = [
        subprocess.run(
            command, env={**os.environ, "NUMBA_DISABLE_JIT": disabled}, capture_output=True, check=True
        )
        for disabled in ("0", "1")
    ]
    assert len(json.loads(runs[0].stdout)["frames"][0]) > 1000
    assert runs[0].stdout == runs[1].stdout


def test_one_seed_gives_one_run_and_another_another() -> None:
    given = [
        flow(Pattern.BERNOULLI, rate_bps=5 * 10**9),
        flow(Pattern.POISSON, rate_bps=5 * 10**9),
        flow(Pattern.ON_OFF, rate_bps=5 * 10**9, on_ns=9000, off_ns=9000, shape=1.5),
        flow(Pattern.SIZES, rate_bps=5 * 10**9, sizes=((1, 0.0), (9000, 1.0))),
    ]
    runs = [offered(*given, until_ns=MS, seed=seed).offered for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("pattern", "wrong", "name"),
    [
        (Pattern.CBR, {}, "rate_bps"),
        (Pattern.BERNOULLI, {"rate_bps": 2 * 10**10}, "rate_bps"),
        (Pattern.ON_OFF, {"rate_bps": 1}, "on_ns"),
        (Pattern.ON_OFF, {"rate_bps": 1, "on_ns": 1, "shape": 1.0}, "shape"),
        (Pattern.SIZES, {"rate_bps": 1}, "sizes"),
        (Pattern.SIZES, {"rate_bps": 1, "sizes": ((1, 0.0), (2, 0.9))}, "sizes"),
        (Pattern.SIZES, {"rate_bps": 1, "sizes": ((2, 0.0), (1, 1.0))}, "sizes"),
        (Pattern.SCHEDULE, {"bursts": ((0, 0),)}, "bursts"),
        (Pattern.SATURATING, {"frame_octets": 59}, "frame_octets"),
    ],
)
def test_a_flow_that_cannot_be_is_refused(pattern: Pattern, wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=f"flow f: {name}: expected"):
        sources_of(flow(pattern, **wrong))


def test_each_source_needs_its_endpoints() -> None:
    with pytest.raises(ValueError, match="1 sources, but 0 endpoints"):
        new_sources([flow(Pattern.SATURATING)], [], np.random.default_rng(1))
