"""Captures as scenarios: one port, with the frames and messages of a closed `ecmproto replay`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.control.engine.config import LoopConfig, PortConfig, RateChange
from ecmproto.control.engine.gauge import TOTAL, level_times
from ecmproto.control.lab.results.measurements import RunFigures
from ecmproto.control.lab.results.outcome import Outcome
from ecmproto.control.lab.setup.scenario import Scenario, capture_scenario, load_scenario, read_scenario
from ecmproto.control.lab.simulation.simulate import Simulation, simulate
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.errors import CaptureError, SpecError
from ecmproto.frames.capture import PcapngWriter, PcapWriter, open_capture
from ecmproto.kernels.record import columns
from ecmproto_cli.main import run

RATE_BPS = 10**9
SEED = 5
_OWN = {
    "qcn": ("cp.sample_base=15kB", "cp.qeq=12kB"),
    "ecm": ("cp.sf=10kB", "cp.sr=3kB", "cp.qeq=12kB", "cp.qsc=60kB"),
    "bcn": ("cp.sf=10kB", "cp.sr=3kB", "cp.qeq=12kB", "cp.qsc=60kB"),
    "e2cm": ("cp.sf=10kB", "cp.sr=3kB"),
    "fecn": (),
    "none": (),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sources of 0.6 Gb/s each, of several destinations, priorities and lengths; no two at one time."""
    path = tmp_path_factory.mktemp("captures") / "three.pcap"
    rng = np.random.default_rng(1)
    frames = []
    for source in range(3):
        ns = 1 + source
        for number in range(900):
            length = int(rng.choice([60, 500, 1000, 1514]))
            priority = 3 * (number % 2 and source == 2)
            frames.append((ns, frame(source, number % (source + 1), priority, length)))
            ns += int(8 * length / 0.6) // 3 * 3 + 300
    with PcapWriter(str(path)) as writer:
        for ns, octets in sorted(frames):
            writer.write_frame(octets, 10**18 + ns)
        # A PAUSE frame, which is not queued.
        pause = bytes.fromhex("0180c2000001 020000000099 8808 0001 0000")
        writer.write_frame(pause.ljust(60, b"\0"), 10**18 + max(ns for ns, _ in frames))
    return path


def frame(source: int, destination: int, priority: int, octets: int) -> bytes:
    addresses = bytes([2, 0, 0, 0, 1, destination]) + bytes([2, 0, 0, 0, 0, source])
    tag = bytes([0x81, 0, priority << 5, 7]) if priority else b""
    return (addresses + tag + b"\x08\x00").ljust(octets, b"\0")


def scenario_of(path: Path, mechanism: str, *settings: str) -> Scenario:
    scenario = capture_scenario(str(path), rate="1G", buffer="100kB").with_mechanism(mechanism)
    for each in (*_OWN[mechanism], *settings):
        key, _, value = each.partition("=")
        scenario = scenario.with_value(key, value)
    return scenario


class Logged:
    """A simulation that records frames at ports and messages, including silent samples."""

    def __init__(self, scenario: Scenario) -> None:
        experiment = scenario.experiment()
        self.simulation = Simulation(experiment, seed=SEED)
        self.network = self.simulation.network
        self.network.loop.is_logging = 1
        self.result = self.simulation.run()
        self.passages = columns(self.network.passages)[: self.network.log.passages].copy()
        outbox = self.network.outbox
        self.messages = columns(outbox.messages)[: outbox.posted.count].copy()
        self.gauge = self.network.ports[len(self.simulation.wiring.ports) - 1].gauge


def replayed(path: Path, mechanism: str, changes: tuple[RateChange, ...] = ()) -> Any:
    found = find_mechanism(mechanism)
    with open_capture(path) as reader:
        replay = ClosedLoopReplay(
            reader,
            machine=machine_of(found, found.parse(_OWN[mechanism])),
            port=PortConfig(
                rate_bps=RATE_BPS,
                rate_changes=changes,
                buffer_octets=100_000,
                overhead_octets=24,
                cp_mac=bytes.fromhex("020000cc0004"),
            ),
            loop=LoopConfig(link_rate_bps=RATE_BPS, feedback_delay_ns=10_000),
            seed=SEED,
        )
        pieces = list(replay)
    passages = np.concatenate([piece.passages for piece in pieces])
    messages = np.concatenate([piece.messages for piece in pieces])
    return replay, passages[passages["disposition"] > 0], messages


def without_numbers(rows: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield all columns except columns that number frames of a capture or frames that sources offer."""
    for name in rows.dtype.names or ():
        if name not in ("serial", "cause"):
            yield name, rows[name]


@pytest.mark.parametrize("mechanism", _OWN)
def test_scenario_port_matches_closed_loop_replay(mechanism: str, path: Path) -> None:
    slow = RateChange(3_000_000, RATE_BPS // 2)
    last_ns = int(load_scenario(str(path)).experiment().duration_ns)
    # The run lasts for the whole capture, and the rate changes during the run.
    settings = f"duration={last_ns + 2_000_000_000}ns", "link[core>h4].rate=1G,500M@3ms"
    ours = Logged(scenario_of(path, mechanism, *settings))
    replay, passages, messages = replayed(path, mechanism, (slow,))
    assert len(ours.passages) >= len(passages) > 1000
    assert (np.diff(passages["time_ns"]) >= 0).all()
    for name, column in without_numbers(passages):
        np.testing.assert_array_equal(ours.passages[name][: len(column)], column, name)
    assert len(ours.messages) >= len(messages)
    assert bool(len(messages)) == (mechanism != "none")
    for name, column in without_numbers(messages):
        np.testing.assert_array_equal(ours.messages[name][: len(column)], column, name)
    # Every frame left at the same time, so the queue had each length for the same time.
    theirs = replay._network.ports[0].gauge
    level_ns, own_ns = level_times(theirs, TOTAL), level_times(ours.gauge, TOTAL)
    np.testing.assert_array_equal(own_ns[1:], level_ns[1 : len(own_ns)])
    assert not level_ns[len(own_ns) :].any()
    assert ours.network.log.delivered_octets == replay.summary(drained=True).stations.delivered_octets
    assert ours.result.conservation.missing_frames == 0


def test_capture_scenario_survives_writing_changing_and_reading(path: Path) -> None:
    scenario = load_scenario(str(path))
    experiment = scenario.experiment()
    assert [(flow.source, flow.capture_source) for flow in experiment.flows] == [
        (f"h{number}", f"02:00:00:00:00:0{number - 1}") for number in (1, 2, 3)
    ]
    assert experiment.measure.port == "core>h4"
    assert experiment.control.points == ("core>h4",)
    changed = capture_scenario(str(path), rate="10G,1G@1ms").with_value("topology.buffer", "90kB")
    again = read_scenario(io.BytesIO(changed.toml().encode()), outside=True).experiment()
    assert again == changed.experiment()
    assert again.network.links[-1].rate_changes_back == (RateChange(1_000_000, 10**9),)
    assert again.network.switches[0].buffer.octets == 90_000


def test_unusable_captures_are_refused_and_truncated_ones_accepted(path: Path, tmp_path: Path) -> None:
    empty, hollow = tmp_path / "empty.pcap", tmp_path / "hollow.pcapng"
    empty.touch()
    with PcapngWriter(hollow, interfaces=()):
        pass
    with pytest.raises(CaptureError):
        load_scenario(str(empty))
    with pytest.raises(SpecError, match="expected frames that occupy a queue"):
        load_scenario(str(hollow))
    with pytest.raises(CaptureError):
        load_scenario(str(tmp_path / "none.pcap"))
    with pytest.raises(SpecError, match="read more than once"):
        capture_scenario("-")
    foreign = bytearray(path.read_bytes())
    foreign[20] = 9  # PPP
    (tmp_path / "ppp.pcap").write_bytes(foreign)
    with pytest.raises(CaptureError, match="expected Ethernet frames"):
        load_scenario(str(tmp_path / "ppp.pcap"))
    (tmp_path / "cut.pcap").write_bytes(path.read_bytes()[:-10])
    cut = load_scenario(str(tmp_path / "cut.pcap")).experiment()
    assert "2,700 of them before it is truncated" in cut.title
    with pytest.raises(SpecError, match="rate: expected"):
        capture_scenario(str(path), rate="fast")
    with pytest.raises(SpecError, match="buffer: expected"):
        capture_scenario(str(path), buffer="-1B")


def test_measuring_from_start_has_all_lengths_of_queue(path: Path) -> None:
    result = simulate(scenario_of(path, "none").experiment(), seed=SEED)
    (port,) = (each for each in result.ports if each.name == "core>h4")
    assert port.levels.level_ns.sum() == result.duration_ns
    mean = (port.levels.octets * port.levels.level_ns).sum() / result.duration_ns
    assert mean == pytest.approx(port.octet_ns.sum() / result.duration_ns, rel=0.01)


def test_captures_on_the_command_line(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--mechanism", "ecm", "--set", "cp.qeq=12kB", "--seed", "5", "-T", "json"]
    former = ["lab", "run", "--capture", str(path), "--rate", "1G", "--buffer", "100kB", *arguments]
    assert run(former) == 0
    with_option, hints = capfd.readouterr()
    assert "--rate is now --set topology.rate=…" in hints
    settings = ["--set", "topology.rate=1G", "--set", "topology.buffer=100kB"]
    assert run(["lab", "run", str(path), *settings, *arguments]) == 0
    named = json.loads(capfd.readouterr().out)
    assert json.loads(with_option)["figures"] == named["figures"]
    assert run(["lab", "run"]) == 2
    assert "SCENARIO" in capfd.readouterr().err


def test_frames_lost_in_full_nics_are_reported(path: Path) -> None:
    scenario = scenario_of(path, "qcn", "topology.queue=5kB")
    outcome = Outcome(scenario.experiment(), [RunFigures(simulate(scenario.experiment(), seed=SEED))])
    (line,) = (line for line in outcome.as_dict()["explanations"] if line.startswith("no frame was dropped"))
    assert "; full NIC queues rejected " in line
