"""Congestion isolation in networks: order of frames, PFC of single queues, messages, and refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.control.engine.network import DATA_FRAME, NetworkState, trace_frames
from ecmproto.control.engine.port import machine_on_port
from ecmproto.control.lab.model import Control, Experiment, Flow, Pattern
from ecmproto.control.lab.setup.topology import parse_topology
from ecmproto.control.lab.simulation.simulate import Simulation
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.errors import ParameterError, SpecError
from ecmproto.kernels.record import columns
from ecmproto.wire.codec import PFC, VLAN, decode_lax
from ecmproto.wire.formats.ip import UDP
from ecmproto.wire.formats.isolation import CIM
from tests.lab.test_paths import experiment
from tests.lab.test_trace import links_of, traced
from tests.replay.loops import incast, machine, run
from tests.replay.test_open_mechanisms import FACTS

ENDS = [("h1", "h4"), ("h2", "h4"), ("h3", "h7"), ("h3", "h5"), ("h5", "h4"), ("h8", "h4")]
"""An incast to h4 from three switches, and two flows that share links with it."""


def network(
    *assignments: str, priority: int = 3, on_us: int = 60, off_us: int = 60, duration_ns: int = 1_500_000
) -> Experiment:
    """Return an experiment with bursts between the hosts of three switches, and congestion isolation."""
    flows = [
        Flow(
            name=f"f{number}", source=source, destination=destination, pattern=Pattern.ON_OFF,
            rate_bps=5 * 10**9 + number * 10**8, on_ns=1000 * on_us, off_ns=1000 * off_us, priority=priority,
        )
        for number, (source, destination) in enumerate(ENDS)
    ]  # fmt: skip
    wired = parse_topology("trunk hosts=3,3 core=2 buffer=60kB").network()
    parameters = ("threshold=3kB", "flow_octets=3kB", "interval=20us", "hold=10us", *assignments)
    control = Control(
        mechanism="isolation", flow_control="pfc", parameters=tuple(f"cp.{each}" for each in parameters)
    )
    return dataclasses.replace(experiment(wired, *flows, duration_ns=duration_ns), control=control)


class Rows:
    """The data frames on all links of a simulation, in place of a trace."""

    def __init__(self) -> None:
        self.pieces: list[NDArray[Any]] = []

    def drain(self, state: NetworkState) -> None:
        rows = columns(state.traced)[: state.log.traced]
        self.pieces.append(rows[rows["what"] == DATA_FRAME].copy())
        state.log.traced = 0

    def finish(self) -> None:
        """Do nothing."""


@settings(max_examples=10)
@given(
    st.sampled_from(["1kB", "2kB", "4kB"]), st.sampled_from(["1us", "50us"]), st.integers(20, 200),
    st.integers(5, 200), st.integers(0, 2**31),
)  # fmt: skip
def test_frames_of_a_flow_keep_their_order(threshold: str, hold: str, on: int, off: int, seed: int) -> None:
    simulation = Simulation(
        network(f"threshold={threshold}", f"hold={hold}", on_us=on, off_us=off), seed=seed
    )
    rows: Any = Rows()
    simulation._trace = rows
    trace_frames(simulation.network)
    result = simulation.run()
    assert result.conservation.missing_frames == result.conservation.dropped_frames == 0
    sent = np.concatenate(rows.pieces)
    for sender in np.unique(sent["sender"]):
        for source in range(len(ENDS)):
            serials = sent["serial"][(sent["sender"] == sender) & (sent["source"] == source)]
            assert (np.diff(serials) > 0).all()


def test_messages_and_pfc_name_the_isolated_queue(tmp_path: Path) -> None:
    simulation, result = traced(tmp_path / "t.pcapng", network(duration_ns=500_000))
    assert result.conservation.missing_frames == result.conservation.dropped_frames == 0
    links = links_of(tmp_path / "t.pcapng")
    back = [frame for _, _, frame in links["e2>core"]]
    about = {decode_lax(frame[CIM].payload)["eth.src"] for frame in back if CIM in frame}
    assert about <= {bytes([2, 0, 0, 0, 0, station]) for station in (0, 1, 7)}
    assert about
    assert {frame[PFC].class_enable_vector for frame in back if PFC in frame} >= {1 << 1}
    assert not any(CIM in frame for _, _, frame in links["e2>h5"])
    # The frames of an isolated flow have the isolated queue's priority on the next link.
    priorities = {frame[VLAN].priority for _, _, frame in links["core>e2"] if VLAN in frame and UDP in frame}
    assert priorities == {1, 3}
    ports = zip(simulation.wiring.ports, simulation._points, strict=True)
    counts = {port.name: simulation.machine.counters(point) for port, point in ports}
    assert counts["e2>h4"]["isolated"] > 3
    assert counts["core>e2"]["requested"] > 0
    sent = {(message.port, message.kind): int(message.frames.sum()) for message in result.messages}
    assert sent["e2>h4", "CIM"] == sum(CIM in frame for frame in back)


def test_flows_with_the_isolated_priority_are_refused() -> None:
    needed = "flow 'f0': expected a priority other than 1, the queue of isolated flows, got 1"
    with pytest.raises(SpecError, match=needed):
        Simulation(network(priority=1), seed=1)


def test_single_ports_with_pfc_are_refused() -> None:
    needed = "flow control: expected none with isolation, except in the lab, got pfc"
    with pytest.raises(ParameterError, match=needed):
        machine_on_port("isolation", [], buffer_octets=10**5, flow_control="pfc")
    with pytest.raises(ParameterError, match=r"expected one whose ports isolate no flows, .* got isolation"):
        OpenLoopReplay([], machine=machine("isolation"), port=FACTS, seed=1)


def test_closed_loops_isolate_the_crowd() -> None:
    frames = [each._replace(priority=3) for each in incast(0.5)]
    loop = run(frames, "isolation", "cp.flow_octets=5kB")
    isolated = {int(each) for each in loop.passages["station"][loop.passages["priority"] == 1]}
    # Without these three, the fourth station does not overload the port.
    assert isolated == {1, 2, 3}
    assert set(loop.messages["station"].tolist()) == isolated
