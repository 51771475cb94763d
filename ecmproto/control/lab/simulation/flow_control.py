"""PAUSE and PFC of a network: thresholds and points of its switches, shared memory, and watchdogs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ecmproto.control.engine.gauge import PRIORITIES
from ecmproto.control.engine.network import Output, Switch, Watchdog
from ecmproto.control.lab.model import Experiment
from ecmproto.control.lab.setup.thresholds import lossless_of, thresholds_of_output
from ecmproto.control.lab.simulation.wiring import WiredSwitch, Wiring
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, machine_of
from ecmproto.control.mechanisms.api.protocol import CongestionPoint
from ecmproto.control.mechanisms.limiter import NEVER_NS
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.kernels.record import columns, new_records


def watchdogs(experiment: Experiment, wiring: Wiring) -> Sequence[Watchdog]:
    """Return the watchdog of each port, or no watchdogs if no switch uses them."""
    switches, ports = experiment.network.switches, wiring.ports
    if not any(switch.watchdog_ns for switch in switches):
        return new_records(Watchdog, 0)
    records = new_records(Watchdog, len(ports))
    columns(records)["since_ns"] = NEVER_NS
    for watchdog, port in zip(records, ports, strict=True):
        if not port.is_adapter:
            switch = switches[port.switch]
            watchdog.time_ns, watchdog.drops = switch.watchdog_ns, int(not switch.watchdog_forwards)
    return records


class FlowControl:
    """Flow control ``name`` of an experiment's switches."""

    def __init__(self, experiment: Experiment, wiring: Wiring, name: str, seed: int) -> None:
        self._experiment, self._wiring, self._name, self._seed = experiment, wiring, name, seed
        control = experiment.control
        # Parameters, if the flow control is the mechanism of the experiment
        self._parameters = control.parameters if control.mechanism == name else ()

    def share_memories(self, records: Sequence[Switch]) -> None:
        """Set the memory that lossy priorities share, for switches with dynamic thresholds."""
        is_pfc = self._name == "pfc"
        known = zip(records, self._wiring.switches, self._experiment.network.switches, strict=False)
        for record, wired, switch in known:
            thresholds = wired.feeds[0].thresholds if wired.feeds else None
            if thresholds is not None and thresholds.alpha:
                record.alpha, record.shared_octets = thresholds.alpha, thresholds.shared_octets
                lossless = lossless_of(self._experiment, switch) if is_pfc else range(PRIORITIES)
                record.lossless_mask = sum(1 << each for each in lossless)

    def points(self, outputs: Sequence[Output]) -> list[CongestionPoint]:
        """Return the flow control points, and set at each output the number of its flow control point."""
        controls: list[CongestionPoint] = []
        for switch in self._wiring.switches:
            if switch.is_adapter and switch.pause is None:
                continue
            machine = self._machine(switch)
            for number in switch.ports:
                if not machine.knows_stations or number == switch.ports[0]:
                    controls.append(self._point(switch, machine))
                outputs[number].control = len(controls) - 1
        return controls

    def _machine(self, switch: WiredSwitch) -> Machine:
        """Return the flow control of a switch, with configured thresholds or its first input's defaults."""
        mechanism, own = find_mechanism(self._name), self._parameters
        given = switch.pause or switch.feeds[0].thresholds
        if switch.pause is None and "cp.pause_on=output" in own:
            given = thresholds_of_output(switch.buffer.octets)
        assert given is not None
        assignments = [
            f"cp.pause_on={'output' if given.on_output else 'input'}",
            f"cp.high={given.high_octets}B",
            f"cp.low={given.low_octets}B",
        ]
        if switch.lossless is not None and self._name == "pfc":
            own = (*own, f"cp.priorities={','.join(map(str, sorted(switch.lossless)))}")
        return machine_of(mechanism, mechanism.parse([*assignments, *own]))

    def _point(self, switch: WiredSwitch, machine: Machine) -> CongestionPoint:
        context = PortContext(
            rate_bps=self._wiring.link_rate_bps,
            link_rate_bps=self._wiring.link_rate_bps,
            cp_mac=bytes([2, 0, 0, 0xCC, 0xFF, 1]),
            stations=max(1, len(switch.feeds)),
            flows=1,
        )
        point: Any = machine.congestion_point(context, np.random.default_rng([self._seed, 4]))
        own = {each.partition("=")[0] for each in self._parameters}
        if machine.knows_stations and switch.pause is None and not own & {"cp.high", "cp.low"}:
            for settings, feed in zip(point.settings, switch.feeds, strict=True):
                if feed.thresholds is not None:
                    settings.high_octets = feed.thresholds.high_octets
                    settings.low_octets = feed.thresholds.low_octets
                    settings.alpha = feed.thresholds.alpha
                    settings.shared_octets = feed.thresholds.shared_octets
                    settings.hysteresis_octets = settings.high_octets - settings.low_octets
        typed: CongestionPoint = point
        return typed
