"""Exceptions and prints in the methods of a mechanism, which compiled loops call by address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import ecmproto
from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.lab.setup.scenario import load_scenario
from ecmproto.control.lab.simulation import simulate as simulation
from ecmproto.control.live.device import discard, exercise
from ecmproto.control.live.edge import Edge
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, StackedCongestionPoint
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    Delivery,
    NullCongestionPoint,
    NullReceivers,
    Outbox,
    Receivers,
)
from ecmproto.control.replay.session import Plan, replay_capture
from ecmproto.errors import MethodError
from ecmproto.kernels.kernel import compiled
from ecmproto.kernels.structs import as_interface, method_errors
from tests.replay.loops import Sent, batches_of

TEN_G = 10**10


class FailingReceivers(NullReceivers):
    def on_delivery(self, delivery: Delivery, outbox: Outbox) -> None:
        if delivery.octets > 0:
            raise ValueError("no frame has octets")


class FailingPoint(NullCongestionPoint):
    def rewrite_tag(self, priority: int, tag: int) -> int:
        return (1, 2)[tag]


class Printing(NullCongestionPoint):
    def rewrite_tag(self, priority: int, tag: int) -> int:
        print("tag", tag)
        return printed(tag)


class FailingMachine(Machine):
    def receivers(self, context: PortContext, generator: np.random.Generator) -> Receivers:
        return FailingReceivers()


@compiled
def printed(tag: int) -> int:
    print("again", tag, 0.5)
    return tag


@compiled
def rewritten(point: CongestionPoint, tag: int) -> int:
    return point.rewrite_tag(3, tag)


def place_of(method: Callable[..., object], line: int) -> str:
    """Return the beginning of the error's sentence: a line of the method, counted from its first."""
    return f"{__file__}:{method.__code__.co_firstlineno + line}: {method.__module__}.{method.__qualname__}"


SENTENCE = f"{place_of(FailingReceivers.on_delivery, 2)} raised ValueError: no frame has octets"


def in_replay(tmp_path: Path) -> None:
    path = tmp_path / "in.pcap"
    frames = batches_of([Sent(1000 * n, 1) for n in range(3)])[0]
    with ecmproto.PcapWriter(path) as writer:
        for number, octets in enumerate(frames):
            writer.write_frame(octets, 1000 * number)
    port = PortConfig(rate_bps=TEN_G, buffer_octets=500_000)
    plan = Plan(machine=FailingMachine({}), port=port, loop=LoopConfig(link_rate_bps=TEN_G), seed=1)
    with ecmproto.open_capture(path) as reader:
        replay_capture(reader, plan)


def in_laboratory(tmp_path: Path) -> None:
    experiment = load_scenario("incast-victim").with_mechanism("none").with_value("duration", "60ms")
    simulation.simulate(experiment.experiment(), seed=1)


def in_live_edge(tmp_path: Path) -> None:
    exercise(Edge(FailingMachine({}), link_rate_bps=TEN_G, mac=bytes(6), seed=1, start_ns=0, send=discard))


@pytest.mark.parametrize("run", [in_replay, in_laboratory, in_live_edge])
def test_failing_method_ends_run_by_its_name(
    run: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "_machines", lambda experiment: (FailingMachine({}), None))
    with pytest.raises(MethodError) as raised:
        run(tmp_path)
    assert str(raised.value) == SENTENCE
    assert isinstance(raised.value.__cause__, ValueError)


def test_the_innermost_method_is_the_one_named() -> None:
    point = StackedCongestionPoint(NullCongestionPoint(), FailingPoint())
    with pytest.raises(MethodError, match=r"FailingPoint\.rewrite_tag raised IndexError"), method_errors():
        rewritten(as_interface(point, CongestionPoint), 2)
    with method_errors():
        assert rewritten(as_interface(point, CongestionPoint), 1) == 2


def test_exceptions_of_other_code_stay_as_they_are() -> None:
    with pytest.raises(KeyError), method_errors():
        raise KeyError("another")


def test_methods_and_what_they_call_may_print(capfd: pytest.CaptureFixture[str]) -> None:
    assert rewritten(as_interface(Printing(), CongestionPoint), 7) == 7
    assert capfd.readouterr().out == "tag 7\nagain 7 0.5\n"
