"""The whole closed loop: no frame is lost or invented, and the result depends only on the arguments."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from ecmproto.control.engine import network
from ecmproto.control.engine.config import PortConfig, RateChange
from ecmproto.control.engine.port import DROPPED, ENQUEUED, HELD_OUT, PASSED_BY
from ecmproto.control.mechanisms.api.machine import Machine, StackedMachine
from ecmproto.control.mechanisms.fecn.machine import FECNMachine
from ecmproto.control.replay import closed_loop
from ecmproto.control.replay.open_loop import OpenLoopReplay
from tests.replay.loops import BUSY, CP_MAC, DESTINATION, Loop, Sent, batches_of, incast, machine, mixed, run

COMPILED_AND_PLAIN = ("qcn", "fecn", "ecm", "e2cm", "pfc")


def busy(name: str | Machine, frames: list[Sent], *, seed: int = 1, sizes: list[int] | None = None) -> Loop:
    """Return a loop with twice the load that the port can send."""
    assignments = BUSY[name] if isinstance(name, str) else []
    return run(
        frames,
        name,
        *assignments,
        rate_bps=5 * 10**9,
        buffer_octets=120_000,
        queue_octets=40_000,
        seed=seed,
        sizes=sizes or [],
    )


def stacked() -> Machine:
    return StackedMachine(machine("qcn", *BUSY["qcn"]), machine("pause", *BUSY["pause"]))


def text_of(loop: Loop) -> str:
    """Return all that a loop gave; a float's text is all of it."""
    # Sums of floats depend on the order of adding, in the last digit.
    summary = loop.summary.as_dict()
    for flow in summary["flows"]:
        del flow["limit_bps"]
    return repr((loop.passages.tolist(), loop.messages.tolist())) + json.dumps(summary)


@pytest.mark.parametrize("name", [*BUSY, "qcn over pause"])
def test_every_frame_has_one_fate_in_counters(name: str) -> None:
    frames = mixed(3_000, stations=6, gap_ns=500)
    loop = busy(name if name in BUSY else stacked(), frames)
    data = loop.passages[loop.passages["probe"] == 0]
    assert sorted(data["serial"].tolist()) == list(range(len(frames)))
    dispositions = Counter(data["disposition"].tolist())
    (port,) = loop.summary.ports
    probes = len(loop.passages) - len(data)
    assert (loop.summary.frames, loop.summary.octets) == (len(frames), sum(f.octets for f in frames))
    assert (loop.summary.passed_by, loop.stations.held_out_frames) == (
        dispositions[PASSED_BY],
        dispositions[HELD_OUT],
    )
    assert port.frames == dispositions[ENQUEUED] + dispositions[DROPPED] + probes
    assert loop.stations.delivered_frames == port.frames - port.dropped_frames
    assert loop.stations.delivered_octets == port.octets - port.dropped_octets
    assert len(frames) + probes == (
        loop.summary.passed_by
        + loop.stations.delivered_frames
        + port.dropped_frames
        + loop.stations.held_out_frames
    )
    # Octets: arrived frames, the tags of frames that reached the port, and probes.
    captured = np.array([frame.octets for frame in frames])[data["serial"]]
    grown = data["octets"] - captured
    assert set(grown[data["disposition"] == HELD_OUT].tolist()) <= {0}
    assert (
        loop.summary.octets + int(grown.sum()) + 60 * probes
        == port.octets + loop.stations.held_out_octets + captured[data["disposition"] == PASSED_BY].sum()
    )
    assert port.octets == sum(flow.passed_octets + flow.dropped_octets for flow in loop.summary.flows) + (
        _late_or_probe_octets(loop)
    )


def _late_or_probe_octets(loop: Loop) -> int:
    """Return the frames that flows do not count: probes, and passages after the capture's end."""
    passages = loop.passages
    apart = (passages["probe"] == 1) | (passages["time_ns"] > loop.summary.duration_ns)
    came = (passages["disposition"] == ENQUEUED) | (passages["disposition"] == DROPPED)
    return int(passages["octets"][apart & came].sum())


@pytest.mark.parametrize("name", [*BUSY, "qcn over pause"])
def test_flows_keep_order_and_times_never_decrease(name: str) -> None:
    frames = mixed(3_000, stations=6, gap_ns=500, seed=2)
    loop = busy(name if name in BUSY else stacked(), frames)
    assert (np.diff(loop.passages["time_ns"]) >= 0).all()
    assert (np.diff(loop.messages["time_ns"]) >= 0).all()
    came: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for passage in loop.passages[(loop.passages["probe"] == 0) & (loop.passages["disposition"] != HELD_OUT)]:
        frame = frames[passage["serial"]]
        assert passage["time_ns"] >= frame.time_ns - frames[0].time_ns
        if not frame.to_group:
            key = (frame.station, frame.vlan, frame.priority, frame.destination)
            came[key].append(int(passage["serial"]))
    assert all(serials == sorted(serials) for serials in came.values())
    assert len(came) > 20


@pytest.mark.parametrize("name", BUSY)
def test_the_result_does_not_depend_on_the_batches(name: str) -> None:
    frames = mixed(1_500, stations=30, gap_ns=500, seed=3)
    one = busy(name, frames)
    many = busy(name, frames, sizes=[1, 0, 2, *[31] * 100])
    assert text_of(one) == text_of(many)
    for together, apart in zip(one.summary.flows, many.summary.flows, strict=True):
        assert together.limit_bps == pytest.approx(apart.limit_bps, nan_ok=True)


@pytest.mark.parametrize("pause_on", ["output", "input"])
def test_pause_stops_late_stations_like_others(pause_on: str) -> None:
    """The buffer first has space for sixteen frames, and the first PAUSE arrives before most stations
    start.
    """
    frames = [Sent(100 * n, n + 1, 976) for n in range(80)]
    thresholds = (f"cp.pause_on={pause_on}", "cp.high=5kB", "cp.low=1kB") if pause_on == "output" else (
        "cp.pause_on=input", "cp.high=900B", "cp.low=0B")  # fmt: skip
    one, many = (run(frames, "pause", *thresholds, delay_ns=0, sizes=sizes) for sizes in ([], [10] * 8))
    assert one.summary.ports[0].messages["PAUSE"] > 5
    assert text_of(one) == text_of(many)
    if pause_on == "output":
        assert (one.passages["time_ns"] > 100 * one.passages["serial"]).sum() > 50


@pytest.mark.parametrize("name", ["qcn", "e2cm", "fecn", "pfc"])
def test_results_do_not_depend_on_initial_capacity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = mixed(1_000, stations=40, gap_ns=300, seed=4)

    def with_stores(stations: int, pool: int, messages: int, passages: int) -> Loop:
        monkeypatch.setattr(closed_loop, "_FIRST_STATIONS", stations)
        monkeypatch.setattr(network, "_FIRST_FRAMES", pool)
        monkeypatch.setattr(network, "_MESSAGES", messages)
        monkeypatch.setattr(network, "_PASSAGES", passages)
        assignments = BUSY[name]
        return run(frames, name, *assignments, rate_bps=2 * 10**9, delay_ns=300_000, sizes=[100] * 40)

    large = with_stores(64, 4096, 4096, 32_768)
    for stores in [(16, 4096, 4096, 32_768), (1, 32, 32, 40)]:
        small = with_stores(*stores)
        assert text_of(small) == text_of(large)
        assert small.replay.context.stations == large.replay.context.stations == 64
        assert len(small.replay._network.pool.frames) > stores[1] or stores[1] == 4096
    assert large.stations.stations == 40


def test_many_delayed_messages_are_all_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of 64 messages, and feedback that takes as long as the capture."""
    monkeypatch.setattr(network, "_MESSAGES", 32)
    frames = incast(1)
    loop = run(frames, "qcn", *BUSY["qcn"], delay_ns=2_000_000)
    sent = int((loop.messages["sent"] == 1).sum())
    assert loop.stations.messages == sent > 100
    assert loop.stations.counters["messages"] == sent


@pytest.mark.parametrize("name", ["qcn", "ecm", "e2cm"])
def test_only_the_same_seed_repeats_the_result(name: str) -> None:
    frames = mixed(2_000, gap_ns=500)
    first, again, other = (text_of(busy(name, frames, seed=seed)) for seed in (5, 5, 6))
    assert first == again != other


def test_uncontrolled_closed_loop_equals_the_open_loop() -> None:
    frames = mixed(4_000, gap_ns=500)
    loop = busy("none", frames)
    port = PortConfig(rate_bps=5 * 10**9, buffer_octets=120_000, cp_mac=CP_MAC)
    opened = OpenLoopReplay(batches_of(frames), machine=machine("none"), port=port, seed=1, with_flows=True)
    (replayed,) = opened
    closed_port, open_port = loop.summary.ports[0], opened.summary().ports[0]
    assert loop.passages["serial"].tolist() == list(range(4_000))
    assert loop.passages["disposition"].tolist() == replayed.disposition.tolist()
    assert loop.passages["qlen_octets"].tolist() == replayed.qlen_octets.tolist()
    assert closed_port == open_port
    assert closed_port.dropped_frames > 100
    one, other = (run.as_dict()["flows"] for run in (loop.summary, opened.summary()))
    # numbers are the loops' own
    assert {flow["label"]: {**flow, "number": 0} for flow in one} == {
        flow["label"]: {**flow, "number": 0} for flow in other
    }


def test_an_empty_capture_gives_an_empty_result() -> None:
    for name in ("none", "fecn"):
        loop = run([], name)
        assert (len(loop.passages), loop.stations.stations, loop.summary.duration_ns) == (0, 0, 0)
        assert loop.summary.ports[0].queue.peak_octets == 0


def test_fairness_ignores_group_frames() -> None:
    """A frame to all stations is no flow that gets too little."""
    frames = incast(2)
    alone, joined = run(frames, "fecn"), run([*frames, Sent(2_000_000, 1, 60, to_group=True)], "fecn")
    assert alone.stations.fairness > 0.999
    assert joined.stations.fairness == pytest.approx(alone.stations.fairness, abs=1e-3)


def test_flows_beyond_the_limit_still_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_loop, "LARGEST_FLOWS", 2)
    frames = [Sent(2_000 * n, 1, destination=DESTINATION - n % 5) for n in range(50)]
    loop = run(frames, "fecn", "rp.N0=1")
    assert loop.stations.flows == 2
    assert (loop.passages["flow"] == -1).sum() == 30
    assert loop.stations.delivered_frames == 50


def digest() -> dict[str, str]:
    """Return a digest of the results of the loop of each mechanism."""
    frames = mixed(600, stations=20, gap_ns=400, seed=7)
    texts = {name: text_of(busy(name, frames, sizes=[300])) for name in COMPILED_AND_PLAIN}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def test_compiled_and_plain_runs_are_identical() -> None:
    script = "import json; from tests.replay.test_closed_loop import digest; print(json.dumps(digest()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == digest()


@pytest.mark.parametrize("name", COMPILED_AND_PLAIN)
def test_compared_runs_contain_messages_and_drops(name: str) -> None:
    loop = busy(name, mixed(600, stations=20, gap_ns=400, seed=7), sizes=[300])
    assert loop.stations.messages > 10
    assert loop.stations.limited_frames > 20 or loop.stations.paused_ns > 0
    assert name in ("fecn", "pfc") or {ENQUEUED, DROPPED} <= set(loop.passages["disposition"].tolist())


SLOWER = (RateChange(1_000_000, 10**9), RateChange(3_000_000, 10**10))


@pytest.mark.parametrize("over", ["", "pause"])
def test_fecn_lowers_rates_after_a_line_slows(over: str) -> None:
    fecn = machine("fecn", *BUSY["fecn"])
    own = StackedMachine(fecn, machine("pause", "cp.pause_on=output", "cp.high=999kB")) if over else fecn
    rates = ticks(run(incast(4), own, rate_changes=SLOWER, buffer_octets=10**6))
    steady = ticks(run(incast(4), own, buffer_octets=10**6))
    assert all(rates[time_ns] == steady[time_ns] for time_ns in steady if time_ns < 1_000_000)
    # Ten times slower: r and the r before it are a tenth, and the load of the interval is ten times as high.
    assert rates[1_000_000] < 0.1 * steady[1_000_000]
    assert max(rates[time_ns] for time_ns in rates if 1_000_000 <= time_ns < 3_000_000) <= 10**6
    assert rates[max(rates)] > rates[2_900_000]


def test_fecn_without_the_new_capacity_drops_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    knows = run(incast(4), "fecn", *BUSY["fecn"], rate_changes=SLOWER, buffer_octets=10**6)
    monkeypatch.setattr(FECNMachine, "set_capacity", lambda *_: None)
    guesses = run(incast(4), "fecn", *BUSY["fecn"], rate_changes=SLOWER, buffer_octets=10**6)
    assert not (knows.passages["disposition"] == DROPPED).any()
    assert (guesses.passages["disposition"] == DROPPED).sum() > 100


def ticks(loop: Loop) -> dict[int, int]:
    """Return FECN's advertised rate in kb/s by the time of its ticks."""
    silent = loop.messages[(loop.messages["sent"] == 0) & (loop.messages["rate_kbps"] > 0)]
    return dict(zip(silent["time_ns"].tolist(), silent["rate_kbps"].tolist(), strict=True))
